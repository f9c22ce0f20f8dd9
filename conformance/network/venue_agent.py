"""A venue's own agent: takes the network's envelopes, remembers them, and books what it is asked for."""

import http.server
import json
import threading

from envelope import PROTOCOL, sign, stamp
from names import CURRENT


class VenueAgent:
    def __init__(self, name='agent:venue-0001'):
        self.name, self.seen = name, []
        owner = self

        class Handler(http.server.BaseHTTPRequestHandler):
            protocol_version = 'HTTP/1.1'

            def do_POST(self):
                body = self.rfile.read(int(self.headers.get('Content-Length') or 0))
                owner.seen.append({'headers': dict(self.headers.items()), 'body': body})
                owner.answer(self, json.loads(body))

            def log_message(self, *_):
                pass

        self.http = http.server.ThreadingHTTPServer(('127.0.0.1', 0), Handler)
        self.http.daemon_threads = True
        self.url = f'http://127.0.0.1:{self.http.server_address[1]}/a2a/v1'
        threading.Thread(target=self.http.serve_forever, args=(0.05,), daemon=True).start()

    @property
    def envelopes(self):
        return [json.loads(one['body']) for one in self.seen]

    def answer(self, handler, asked):
        payload = {
            'booking_id': f'theirs-{len(self.seen)}',
            'status': 'pending',
            'venue': {'id': asked['payload'].get('venue_id'), 'slug': '', 'name': '', 'agent_id': self.name},
        }
        data = json.dumps(
            {
                'protocol': PROTOCOL,
                'from': asked['to'],
                'to': asked['from'],
                'intent': asked['intent'],
                'payload': sign(payload, CURRENT, self.name),
                'agent_context': asked.get('agent_context', {}),
                'ttl_ms': asked['ttl_ms'],
                'timestamp': stamp(),
            }
        ).encode()
        handler.send_response(200)
        handler.send_header('Content-Type', 'application/json')
        handler.send_header('Content-Length', str(len(data)))
        handler.end_headers()
        handler.wfile.write(data)

    def __enter__(self):
        return self

    def __exit__(self, *_):
        self.http.shutdown()
        self.http.server_close()
