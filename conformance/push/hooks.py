"""Receivers for the checks: one server on loopback, any number of webhooks, each of which may misbehave in its own way.

    with Hooks() as hooks:
        url = hooks.add('/mine', answering(500), accepting)     # first a 500, then 200 for ever
        hooks.at('/mine')                                       # what came: headers, body, when
"""

import collections
import dataclasses
import http.server
import json
import threading
import time


@dataclasses.dataclass
class Delivery:
    at: float
    headers: dict
    body: bytes

    def __getitem__(self, name):
        return self.headers.get(name.lower())

    @property
    def json(self):
        return json.loads(self.body)


class Handler(http.server.BaseHTTPRequestHandler):
    protocol_version = 'HTTP/1.1'

    def do_POST(self):
        owner = self.server.owner
        body = self.rfile.read(int(self.headers.get('Content-Length') or 0))
        headers = {}
        for name, value in self.headers.items():
            assert name.lower() not in headers, f'{name} is there twice'
            headers[name.lower()] = value
        with owner.lock:
            owner.seen[self.path].append(Delivery(time.time(), headers, body))
            ways = owner.ways.get(self.path, [accepting])
            way = ways.pop(0) if len(ways) > 1 else ways[0]
        try:
            way(self)
        except OSError:
            # Whoever sent it has gone.
            self.close_connection = True

    def do_GET(self):
        with self.server.owner.lock:
            self.server.owner.asked.append(self.path)
        accepting(self)

    do_HEAD = do_PUT = do_GET

    def say(self, status, headers=(), body=b'', length=None):
        self.send_response(status)
        for name, value in headers:
            self.send_header(name, value)
        self.send_header('Content-Length', str(len(body) if length is None else length))
        self.end_headers()
        self.wfile.write(body)

    def log_message(self, *_):
        pass


class Hooks:
    def __init__(self):
        self.lock = threading.RLock()
        self.seen, self.ways, self.asked = collections.defaultdict(list), {}, []
        # Set when everything is over, so that receivers that hold on let go.
        self.over = threading.Event()
        self.http = http.server.ThreadingHTTPServer(('127.0.0.1', 0), Handler)
        self.http.daemon_threads, self.http.owner = True, self
        self.url = f'http://127.0.0.1:{self.http.server_address[1]}'
        threading.Thread(target=self.http.serve_forever, args=(0.05,), daemon=True).start()

    def add(self, path, *ways):
        """A webhook that behaves in these ways, one after the other; the last one stays."""
        with self.lock:
            self.ways[path] = list(ways) or [accepting]
        return self.url + path

    def at(self, path):
        with self.lock:
            return list(self.seen[path])

    def close(self):
        self.over.set()
        self.http.shutdown()
        self.http.server_close()

    def __enter__(self):
        return self

    def __exit__(self, *_):
        self.close()


# --- Ways to answer ---------------------------------------------------------------------------------------------------


def accepting(handler):
    handler.say(200)


def answering(status, **headers):
    """A status, and headers whose names are written with underscores."""
    return lambda handler: handler.say(status, [(name.replace('_', '-'), value) for name, value in headers.items()])


def closing(handler):
    """Ends the connection without a word."""
    handler.close_connection = True
