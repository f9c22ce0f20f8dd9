"""A venue's own agent: takes the network's envelopes, remembers them, and answers as it is told to.

with VenueAgent() as agent:
    agent.way = 'refuse'            # and so on; see `WAYS`. `ways` come first, one after the other
    agent.seen                      # the envelopes that came
"""

import http.server
import json
import threading
import time

from envelope import PROTOCOL, sign, stamp
from names import CURRENT

WAYS = ('book', 'refuse', '500', 'down', 'nonsense', 'silence', 'close', 'unsigned', 'forged')


class VenueAgent:
    def __init__(self, name='agent:venue-0001'):
        self.name, self.way, self.ways, self.seen, self.over = name, 'book', [], [], threading.Event()
        owner = self

        class Handler(http.server.BaseHTTPRequestHandler):
            protocol_version = 'HTTP/1.1'

            def do_POST(self):
                body = self.rfile.read(int(self.headers.get('Content-Length') or 0))
                owner.seen.append(
                    {'at': time.time(), 'path': self.path, 'headers': dict(self.headers.items()), 'body': body}
                )
                try:
                    owner.answer(self, json.loads(body))
                except OSError:
                    self.close_connection = True

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
        way = self.ways.pop(0) if self.ways else self.way
        if way == 'close':
            handler.close_connection = True
            return
        if way == 'silence':
            self.over.wait(30)
            handler.close_connection = True
            return
        status, payload = (
            200,
            {
                'booking_id': f'theirs-{len(self.seen)}',
                'status': 'pending',
                'venue': {'id': asked['payload'].get('venue_id'), 'slug': '', 'name': '', 'agent_id': self.name},
            },
        )
        if way == 'refuse':
            status = 409
            payload = {'error': {'code': 'slot_unavailable', 'message': 'fully booked', 'retryable': False}}
        if way == '500':
            status, payload = 500, {'error': {'code': 'internal', 'message': 'broken', 'retryable': True}}
        if way != 'unsigned':
            key = b'x' * 32 if way == 'forged' else CURRENT
            payload = sign(payload, key, self.name)
        data = json.dumps(
            {
                'protocol': PROTOCOL,
                'from': asked['to'],
                'to': asked['from'],
                'intent': asked['intent'],
                'payload': payload,
                'agent_context': asked.get('agent_context', {}),
                'ttl_ms': asked['ttl_ms'],
                'timestamp': stamp(),
            }
        ).encode()
        if way == 'nonsense':
            data = b'<html>'
        if way == 'down':
            status, data = 503, b'upstream is down'
        handler.send_response(status)
        handler.send_header('Content-Type', 'application/json')
        handler.send_header('Content-Length', str(len(data)))
        handler.end_headers()
        handler.wfile.write(data)

    def close(self):
        """Nobody is there any more. Doing it again changes nothing."""
        if self.over.is_set():
            return
        self.over.set()
        self.http.shutdown()
        self.http.server_close()

    def __enter__(self):
        return self

    def __exit__(self, *_):
        self.close()
