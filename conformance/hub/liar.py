"""An agent that answers whatever a check tells it to: A2A 1.0 over JSON-RPC, unless it is told to be something else.

    with Liar(behave) as liar:
        … liar.url, liar.calls …

`behave(call)` is asked for every call and answers with `call.result`, `call.refuse`, `call.stream` or `call.bytes`. The
card is a document that a check may change while it runs.
"""

import http.server
import itertools
import json
import threading
import time
import uuid

NUMBERS = itertools.count(1)


class Call:
    """One call, and the ways to answer it."""

    def __init__(self, handler, body):
        self.handler, self.headers = handler, dict(handler.headers)
        self.body, self.stopped = body, handler.server.owner.stopped
        self.method, self.params, self.id = body.get('method'), body.get('params') or {}, body.get('id')

    @property
    def text(self):
        parts = self.params.get('message', {}).get('parts') or [{}]
        return parts[0].get('text', '')

    @property
    def streams(self):
        return self.method in ('SendStreamingMessage', 'SubscribeToTask', 'message/stream', 'tasks/resubscribe')

    def bytes(self, status, kind, *chunks, length=None):
        handler = self.handler
        handler.send_response(status)
        handler.send_header('Content-Type', kind)
        handler.send_header('Connection', 'close')
        if length is not None:
            handler.send_header('Content-Length', str(length))
        handler.end_headers()
        handler.close_connection = True
        for chunk in chunks:
            handler.wfile.write(chunk)
            handler.wfile.flush()

    def document(self, value, status=200):
        data = json.dumps(value).encode()
        self.bytes(status, 'application/json', data, length=len(data))

    def result(self, value):
        self.document({'jsonrpc': '2.0', 'id': self.id, 'result': value})

    def refuse(self, code, message):
        self.document({'jsonrpc': '2.0', 'id': self.id, 'error': {'code': code, 'message': message}})

    def stream(self, events, numbered=False):
        """Events one by one, or with `numbered` pairs of a number and an event; the connection ends with them."""
        self.bytes(200, 'text/event-stream')
        for event in events:
            if numbered:
                number, event = event
                self.handler.wfile.write(f'id: {number}\n'.encode())
            data = json.dumps({'jsonrpc': '2.0', 'id': self.id, 'result': event})
            self.handler.wfile.write(f'data: {data}\n\n'.encode())
            self.handler.wfile.flush()

    def silence(self, seconds=120):
        """Nothing, until the check is over."""
        self.stopped.wait(seconds)


class Handler(http.server.BaseHTTPRequestHandler):
    protocol_version = 'HTTP/1.1'

    def do_GET(self):
        owner = self.server.owner
        owner.fetched.append(self.path)
        if not self.path.startswith('/.well-known/') or owner.card is None:
            return self.send_error(404)
        data, kind = owner.card, 'text/html'
        if not isinstance(data, bytes):
            data, kind = json.dumps(data).encode(), 'application/json'
        self.send_response(200)
        self.send_header('Content-Type', kind)
        self.send_header('Content-Length', str(len(data)))
        self.end_headers()
        self.wfile.write(data)

    def do_POST(self):
        body = self.rfile.read(int(self.headers.get('Content-Length') or 0))
        owner = self.server.owner
        call = Call(self, json.loads(body))
        with owner.lock:
            owner.calls.append(call)
        try:
            owner.behave(call)
        except OSError:
            # The hub has heard enough.
            self.close_connection = True

    def log_message(self, *_):
        pass


class Liar:
    def __init__(self, behave, card=None, port=0):
        self.behave, self.calls, self.fetched = behave, [], []
        self.lock, self.stopped = threading.Lock(), threading.Event()
        self.http = http.server.ThreadingHTTPServer(('127.0.0.1', port), Handler)
        self.http.daemon_threads = True
        self.http.owner = self
        self.port = self.http.server_address[1]
        self.url = f'http://127.0.0.1:{self.port}'
        self.card = (card or card_1)(self.url + '/rpc')
        threading.Thread(target=self.http.serve_forever, args=(0.05,), daemon=True).start()

    def asked(self, *methods):
        with self.lock:
            return [call for call in self.calls if call.method in methods]

    def __enter__(self):
        return self

    def __exit__(self, *_):
        self.stopped.set()
        self.http.shutdown()
        self.http.server_close()


# --- Cards and events -------------------------------------------------------------------------------------------------


def card_1(url, **more):
    return {
        'name': 'Liar',
        'description': 'Says what it is told to say',
        'version': '1.0.0',
        'supportedInterfaces': [{'url': url, 'protocolBinding': 'JSONRPC', 'protocolVersion': '1.0'}],
        'capabilities': {'streaming': True},
        'defaultInputModes': ['text/plain'],
        'defaultOutputModes': ['text/plain'],
        'skills': [{'id': 'lie', 'name': 'Lie', 'description': 'Lies', 'tags': ['test']}],
        **more,
    }


def card_0_3(url):
    card = card_1(url)
    del card['supportedInterfaces']
    return {**card, 'protocolVersion': '0.3.0', 'url': url, 'preferredTransport': 'JSONRPC'}


def named():
    """Ids of a task and of its context."""
    return str(uuid.uuid4()), str(uuid.uuid4())


def task(ids, state='SUBMITTED', artifacts=(), text=None):
    made = {'id': ids[0], 'contextId': ids[1], 'status': status(ids, state, text)}
    return {'task': made | ({'artifacts': list(artifacts)} if artifacts else {})}


def status(ids, state, text=None):
    said = {'state': f'TASK_STATE_{state}', 'timestamp': time.strftime('%Y-%m-%dT%H:%M:%SZ', time.gmtime())}
    if text:
        parts = [{'text': text}]
        said['message'] = {'messageId': f'm{next(NUMBERS)}', 'role': 'ROLE_AGENT', 'parts': parts}
    return said


def update(ids, state, text=None):
    return {'statusUpdate': {'taskId': ids[0], 'contextId': ids[1], 'status': status(ids, state, text)}}


def made(text, name='one'):
    return {'artifactId': name, 'name': name, 'parts': [{'text': text}]}


def chunk(ids, text, append=False, last=False, name='one'):
    return {
        'artifactUpdate': {
            'taskId': ids[0], 'contextId': ids[1], 'artifact': made(text, name), 'append': append, 'lastChunk': last,
        }
    }
