"""Small HTTP servers on loopback, whose answers a check may change while they run: they can be slow, or away."""

import http.server
import json
import threading
import time


class Handler(http.server.BaseHTTPRequestHandler):
    protocol_version = 'HTTP/1.1'

    def do_POST(self):
        body = self.rfile.read(int(self.headers.get('Content-Length') or 0))
        owner = self.server.owner
        with owner.lock:
            owner.seen.append((time.monotonic(), self.path, body))
        delay = owner.delay
        if delay:
            owner.awake.wait(delay)
        if owner.away:
            # The connection ends without an answer, as it does where nobody is.
            self.close_connection = True
            return
        try:
            status, answer = owner.answer(self.path, body)
        except Exception as error:
            status, answer = 500, {'error': str(error)}
        data = answer if isinstance(answer, bytes) else json.dumps(answer).encode()
        try:
            self.send_response(status)
            self.send_header('Content-Type', 'application/json')
            self.send_header('Content-Length', str(len(data)))
            self.end_headers()
            self.wfile.write(data)
        except OSError:
            pass

    do_GET = do_POST

    def log_message(self, *_):
        pass


class Server:
    """Whoever derives from it says what is answered: `answer(path, body)` gives a status and a document."""

    def __init__(self):
        self.lock, self.seen, self.delay, self.away = threading.Lock(), [], 0, False
        self.awake = threading.Event()
        self.http = http.server.ThreadingHTTPServer(('127.0.0.1', 0), Handler)
        self.http.daemon_threads = True
        self.http.owner = self
        self.url = f'http://127.0.0.1:{self.http.server_address[1]}'
        threading.Thread(target=self.http.serve_forever, args=(0.05,), daemon=True).start()

    def asked(self, path):
        """How often a path was asked for."""
        with self.lock:
            return sum(1 for _, seen, _ in self.seen if seen == path)

    def close(self):
        self.awake.set()
        self.http.shutdown()
        self.http.server_close()

    def __enter__(self):
        return self

    def __exit__(self, *_):
        self.close()
