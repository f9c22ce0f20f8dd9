"""A stand-in for AGNT's booking network, by hand: it answers envelopes, and finds one venue for whatever is searched.

It is written after the network's own pages and has nothing of ours, so that what the hub says to it is read by somebody else.
"""

import contextlib
import http.server
import json
import threading

PATH = '/a2a/v1'
PROTOCOL = 'openclaw/a2a/v1'
NETWORK = 'network:stand-in'
FIELDS = {'protocol', 'from', 'to', 'intent', 'payload', 'agent_context', 'ttl_ms', 'timestamp'}


def found(query):
    """What a search finds."""
    venue = {'slug': 'la-brisa', 'name': f'La Brisa ({query})', 'tags': ['sunset', 'fish'], 'referral_fee_pct': 7.5}
    return {'venues': [venue], 'count': 1, 'fee_pct': 7.5}


def answered(envelope):
    """Status and payload for an envelope."""
    if set(envelope) - FIELDS or envelope.get('protocol') != PROTOCOL or envelope.get('to') != NETWORK:
        return 422, {'error': {'code': 'invalid_envelope', 'message': 'not for us', 'retryable': False}}
    match envelope['intent']:
        case 'network.ping':
            return 200, {'active_venues': 1}
        case 'booking.search':
            return 200, found(envelope['payload'].get('query', ''))
    return 400, {'error': {'code': 'unknown_intent', 'message': 'no such intent', 'retryable': False}}


class Handler(http.server.BaseHTTPRequestHandler):
    protocol_version = 'HTTP/1.1'

    def do_GET(self):
        if self.path != f'{PATH}/status':
            return self.tell(404, {})
        intents = ['network.ping', 'booking.search']
        self.tell(200, {'status': 'ok', 'protocol': PROTOCOL, 'network': NETWORK, 'network_version': '1', 'intents': intents})

    def do_POST(self):
        envelope = json.loads(self.rfile.read(int(self.headers['Content-Length'])))
        status, payload = answered(envelope)
        self.tell(status, {
            'protocol': PROTOCOL, 'from': envelope['to'], 'to': envelope['from'], 'intent': envelope['intent'],
            'payload': payload, 'agent_context': envelope.get('agent_context', {}), 'ttl_ms': envelope['ttl_ms'],
            'timestamp': '2026-04-02T10:22:03.000000Z',
        })

    def tell(self, status, body):
        body = json.dumps(body).encode()
        self.send_response(status)
        self.send_header('Content-Type', 'application/json')
        self.send_header('Content-Length', str(len(body)))
        self.end_headers()
        self.wfile.write(body)

    def log_message(self, *_):
        pass


@contextlib.contextmanager
def serving():
    """The address of its endpoint."""
    server = http.server.ThreadingHTTPServer(('127.0.0.1', 0), Handler)
    thread = threading.Thread(target=server.serve_forever, daemon=True)
    thread.start()
    try:
        yield f'http://127.0.0.1:{server.server_port}{PATH}'
    finally:
        server.shutdown()
        server.server_close()
