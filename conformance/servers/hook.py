"""A webhook that keeps what it is sent, for the tests to look at.

    with listening() as hook:      # hook.url
        … hook.seen()              # [{"token", "authorization", "content_type", "body"}]

`GET` gives the same list, for clients in other languages. It also answers the question servers of 0.1 ask first.
"""

import contextlib
import http.server
import json
import sys
import threading
import urllib.parse


class Hook(http.server.ThreadingHTTPServer):
    daemon_threads = True

    def __init__(self):
        super().__init__(('127.0.0.1', 0), Handler)
        self.url = f'http://127.0.0.1:{self.server_port}/hook'
        self.deliveries = []

    def handle_error(self, request, client_address):
        """A server that is stopped breaks its connections off, and that is no news."""
        if not isinstance(sys.exc_info()[1], ConnectionError):
            super().handle_error(request, client_address)

    def seen(self, token=None):
        return [one for one in list(self.deliveries) if token in (None, one['token'])]


class Handler(http.server.BaseHTTPRequestHandler):
    protocol_version = 'HTTP/1.1'

    def answer(self, status, body=b'', kind='application/json'):
        self.send_response(status)
        self.send_header('Content-Type', kind)
        self.send_header('Content-Length', str(len(body)))
        self.end_headers()
        self.wfile.write(body)

    def do_GET(self):
        query = urllib.parse.parse_qs(urllib.parse.urlparse(self.path).query)
        if 'validationToken' in query:
            return self.answer(200, query['validationToken'][0].encode(), 'text/plain')
        self.answer(200, json.dumps(self.server.seen()).encode())

    def do_POST(self):
        body = self.rfile.read(int(self.headers.get('Content-Length', 0)))
        self.server.deliveries.append({
            # The SDK for Go names it without the X.
            'token': self.headers.get('X-A2A-Notification-Token') or self.headers.get('A2A-Notification-Token'),
            'authorization': self.headers.get('Authorization'),
            'content_type': self.headers.get('Content-Type'),
            'body': json.loads(body),
        })
        self.answer(200, b'{}')

    def log_message(self, *_):
        pass


@contextlib.contextmanager
def listening():
    hook = Hook()
    threading.Thread(target=hook.serve_forever, daemon=True).start()
    try:
        yield hook
    finally:
        hook.shutdown()
        hook.server_close()
