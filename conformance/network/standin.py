"""Services of others that the network calls, as processes of their own that fail when they are told to.

A stand-in keeps a file: every thing that really happened there is a line in it, written and synced before anything is
answered. What it answers is another matter. Before each request it looks up its *mood* for that path, a list of ways
that are used up one after the other, or a share of requests that fail at random:

| Way | What the caller sees | Did it happen? |
|---|---|---|
| `ok` | the answer | yes |
| `429`, `500`, `503` | that status | no |
| `silence` | nothing, for longer than anybody waits | no |
| `lose` | the connection ends without an answer | yes |
| `late` | nothing, for longer than anybody waits | yes |

    with Standin('stripe.py', folder) as stripe:
        stripe.mood('/v1/billing/meter_events', 'lose', '429', 'ok')
        stripe.lines('meter_event')
"""

import base64
import http.client
import http.server
import json
import os
import pathlib
import random
import subprocess
import sys
import threading
import time
import urllib.parse

HERE = pathlib.Path(__file__).resolve().parent
sys.path.append(str(HERE.parent))

import startup

SILENCE_SECONDS = 45
NEVER_HAPPENED = ('429', '500', '503', 'silence')
WAYS = {'429': 3, '500': 3, '503': 1, 'lose': 4, 'silence': 0}


class Service:
    """Whoever derives from it says what happens: `handle(method, path, query, form, headers)` gives status and document.

    It is called with the lock held, and `keep` has written the line before it returns.
    """

    def __init__(self, port, record, fails=0.0, seed=0):
        self.lock, self.moods, self.rng = threading.Lock(), {}, random.Random(seed)
        self.fails, self.answers = fails, {}
        self.record = os.open(record, os.O_WRONLY | os.O_CREAT | os.O_APPEND, 0o600)
        owner = self

        class Handler(http.server.BaseHTTPRequestHandler):
            protocol_version = 'HTTP/1.1'

            def handle_one_request(self):
                try:
                    super().handle_one_request()
                except OSError:
                    # The caller was killed, or would not wait.
                    self.close_connection = True

            def serve(self):
                body = self.rfile.read(int(self.headers.get('Content-Length') or 0))
                owner.serve(self, body)

            do_GET = do_POST = do_DELETE = serve

            def log_message(self, *_):
                pass

        self.http = http.server.ThreadingHTTPServer(('127.0.0.1', port), Handler)
        self.http.daemon_threads = True

    def keep(self, what, **fields):
        os.write(self.record, json.dumps({'at': time.time(), 'what': what, **fields}).encode() + b'\n')
        os.fsync(self.record)

    def way(self, path):
        for prefix, ways in self.moods.items():
            if path.startswith(prefix) and ways:
                return ways.pop(0)
        if self.rng.random() < self.fails:
            return self.rng.choices(list(WAYS), list(WAYS.values()))[0]
        return 'ok'

    def serve(self, handler, body):
        url = urllib.parse.urlsplit(handler.path)
        if url.path == '/_mood':
            asked = json.loads(body)
            with self.lock:
                self.moods[asked['path']] = asked['ways']
            return say(handler, 200, {})
        headers = {name.lower(): value for name, value in handler.headers.items()}
        with self.lock:
            way = self.way(url.path)
            self.keep(
                'request',
                method=handler.command,
                path=url.path,
                way=way,
                key=headers.get('idempotency-key'),
                body=body.decode(errors='replace')[:2000],
            )
            if way in NEVER_HAPPENED:
                status, document = (int(way), self.failure(int(way))) if way != 'silence' else (0, None)
            else:
                status, document = self.once(handler.command, url, body, headers)
        if way in ('silence', 'late'):
            time.sleep(SILENCE_SECONDS)
        if way in ('silence', 'late', 'lose'):
            handler.close_connection = True
            return None
        return say(handler, status, document)

    def once(self, method, url, body, headers):
        """Answers an `Idempotency-Key` again as it was answered first, or refuses it with other words under it."""
        key = headers.get('idempotency-key')
        form = read_form(body, headers)
        if key and key in self.answers:
            asked, status, document = self.answers[key]
            if asked != (method, url.path, body):
                return 400, {'error': {'type': 'idempotency_error', 'message': 'the key was used for something else'}}
            return status, document
        status, document = self.handle(method, url.path, dict(urllib.parse.parse_qsl(url.query)), form, headers)
        if key:
            self.answers[key] = ((method, url.path, body), status, document)
        return status, document

    def failure(self, status):
        return {'error': {'type': 'api_error', 'message': f'a stand-in that was told to answer {status}'}}

    def run(self):
        print(self.http.server_address[1], flush=True)
        threading.Thread(target=self.http.serve_forever, args=(0.05,), daemon=True).start()
        # Ends with whoever started it, however that ended.
        sys.stdin.read()
        os._exit(0)


def read_form(body, headers):
    kind = headers.get('content-type', '')
    if kind.startswith('application/json'):
        return json.loads(body or b'{}')
    return dict(urllib.parse.parse_qsl(body.decode(errors='replace'), keep_blank_values=True))


def say(handler, status, document):
    data = json.dumps(document).encode()
    handler.send_response(status)
    if status == 429:
        handler.send_header('Retry-After', '1')
    handler.send_header('Content-Type', 'application/json')
    handler.send_header('Content-Length', str(len(data)))
    handler.end_headers()
    handler.wfile.write(data)


def secret_of(headers):
    """The secret key of a request, by Basic or Bearer."""
    scheme, _, rest = headers.get('authorization', '').partition(' ')
    if scheme == 'Basic':
        return base64.b64decode(rest).decode().partition(':')[0]
    return rest


def main(service):
    """`NAME.py PORT FILE [SHARE SEED]`: the share of requests that fail at random."""
    port, record, *more = sys.argv[1:]
    service(int(port), record, float(more[0]) if more else 0.0, int(more[1]) if more else 0).run()


class Standin:
    """A stand-in, started and stopped, seen from the side of the test."""

    def __init__(self, script, folder, fails=0.0, seed=0):
        self.folder, self.file = pathlib.Path(folder), pathlib.Path(folder) / f'{pathlib.Path(script).stem}.jsonl'
        command = [sys.executable, '-B', str(HERE / script), '0', str(self.file), str(fails), str(seed)]
        log = self.file.with_suffix('.log')
        with open(log, 'wb') as file:
            self.process = subprocess.Popen(command, stdin=subprocess.PIPE, stdout=file, stderr=file)
        try:
            self.port = int(startup.wait(self.process, command, startup.line_in(log, rb'(?m)^(\d+)$'), log))
        except startup.NotServing:
            self.process.kill()
            raise
        self.url = f'http://127.0.0.1:{self.port}'

    def mood(self, path, *ways):
        connection = http.client.HTTPConnection('127.0.0.1', self.port, timeout=10)
        connection.request('POST', '/_mood', json.dumps({'path': path, 'ways': list(ways)}))
        connection.getresponse().read()
        connection.close()

    def lines(self, what):
        return [line for line in read_lines(self.file) if line['what'] == what]

    def close(self):
        self.process.stdin.close()
        self.process.wait(10)

    def __enter__(self):
        return self

    def __exit__(self, *_):
        self.close()


def read_lines(file):
    return [json.loads(line) for line in file.read_text().splitlines()] if file.is_file() else []
