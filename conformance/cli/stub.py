"""A scripted A2A 1.0 server under full control of a check, over all three bindings, that remembers every request.

What it answers is decided by one function per operation, in JSON terms, whatever the binding:

    def get(call):
        return task(call.params['id'], 'TASK_STATE_WORKING')
    server = case.stub(on={'GetTask': get})

A function returns the answer, yields the events of a stream, or raises `Fault`. Operations without a function are
played by `Memory`, a small agent that completes everything. To misbehave, return or yield `Http`, `CUT` or `Raw`.
`calls` holds the operations, `requests` every HTTP request with its headers and time.
"""

import collections
import dataclasses
import http.server
import itertools
import json
import re
import socket
import threading
import time
import urllib.parse

CARD_PATH = '/.well-known/agent-card.json'
ERRORS = {
    'TaskNotFoundError': (-32001, 404, 'NOT_FOUND'),
    'TaskNotCancelableError': (-32002, 400, 'FAILED_PRECONDITION'),
    'PushNotificationNotSupportedError': (-32003, 400, 'FAILED_PRECONDITION'),
    'UnsupportedOperationError': (-32004, 400, 'FAILED_PRECONDITION'),
    'ContentTypeNotSupportedError': (-32005, 400, 'INVALID_ARGUMENT'),
    'InvalidAgentResponseError': (-32006, 500, 'INTERNAL'),
    'ExtendedAgentCardNotConfiguredError': (-32007, 400, 'FAILED_PRECONDITION'),
    'ExtensionSupportRequiredError': (-32008, 400, 'FAILED_PRECONDITION'),
    'VersionNotSupportedError': (-32009, 400, 'FAILED_PRECONDITION'),
    'InvalidParamsError': (-32602, 400, 'INVALID_ARGUMENT'),
    'InternalError': (-32603, 500, 'INTERNAL'),
}
STREAMS = ('SendStreamingMessage', 'SubscribeToTask')
CUT = object()


@dataclasses.dataclass
class Fault(Exception):
    """A refusal, by its name in the protocol."""

    name: str
    message: str = 'refused on purpose'

    @property
    def reason(self):
        return re.sub(r'(?<!^)(?=[A-Z])', '_', self.name.removesuffix('Error')).upper()

    @property
    def info(self):
        kind = 'type.googleapis.com/google.rpc.ErrorInfo'
        return {'@type': kind, 'reason': self.reason, 'domain': 'a2a-protocol.org'}


@dataclasses.dataclass
class Http(Exception):
    """An answer outside the protocol. Over gRPC the status stands in for it."""

    status: int
    body: bytes = b''
    type: str = 'text/plain'
    headers: dict = dataclasses.field(default_factory=dict)
    grpc: str = 'UNKNOWN'


@dataclasses.dataclass
class Raw:
    """Bytes put on an HTTP stream as they are."""

    data: bytes


@dataclasses.dataclass
class Request:
    method: str
    path: str
    query: dict
    headers: dict
    body: bytes
    time: float
    certificate: object = None


@dataclasses.dataclass
class Call:
    op: str
    binding: str
    params: dict
    headers: dict
    time: float
    count: int
    stub: object
    url: str = ''


def now():
    return time.strftime('%Y-%m-%dT%H:%M:%S', time.gmtime()) + f'.{int(time.time() * 1000) % 1000:03}Z'


def task(name, state, context='c-1', **more):
    return {'id': name, 'contextId': context, 'status': {'state': state, 'timestamp': now()}, **more}


def status(name, state, context='c-1', text=None):
    value = {'state': state, 'timestamp': now()}
    if text:
        value['message'] = {'messageId': 'm-s', 'role': 'ROLE_AGENT', 'parts': [{'text': text}]}
    return {'statusUpdate': {'taskId': name, 'contextId': context, 'status': value}}


def artifact(name, *parts, context='c-1', id='a-1', **more):
    value = {'artifactId': id, 'parts': list(parts)}
    return {'artifactUpdate': {'taskId': name, 'contextId': context, 'artifact': value, **more}}


class Memory:
    """The agent behind operations a check does not care about."""

    def __init__(self):
        self.tasks, self.configs, self.numbers = {}, {}, itertools.count(1)

    def SendMessage(self, call):
        message = call.params['message']
        name = message.get('taskId') or f't-{next(self.numbers)}'
        context = message.get('contextId') or f'c-{name}'
        parts = [{'text': 'done'}]
        made = task(name, 'TASK_STATE_COMPLETED', context, artifacts=[{'artifactId': 'a-1', 'parts': parts}])
        self.tasks[name] = made
        return {'task': made}

    def SendStreamingMessage(self, call):
        made = self.SendMessage(call)['task']
        first = {**made, 'status': {'state': 'TASK_STATE_SUBMITTED', 'timestamp': now()}}
        first.pop('artifacts')
        yield {'task': first}
        yield artifact(made['id'], {'text': 'done'}, context=made['contextId'])
        yield status(made['id'], 'TASK_STATE_COMPLETED', made['contextId'])

    def find(self, name):
        if name not in self.tasks:
            raise Fault('TaskNotFoundError')
        return self.tasks[name]

    def GetTask(self, call):
        return self.find(call.params['id'])

    def ListTasks(self, call):
        tasks = list(self.tasks.values())
        return {'tasks': tasks, 'nextPageToken': '', 'pageSize': 50, 'totalSize': len(tasks)}

    def CancelTask(self, call):
        found = self.find(call.params['id'])
        found['status'] = {'state': 'TASK_STATE_CANCELED', 'timestamp': now()}
        return found

    def SubscribeToTask(self, call):
        found = self.find(call.params['id'])
        yield {'task': found}

    def CreateTaskPushNotificationConfig(self, call):
        config = {'id': 'p-1', **{k: v for k, v in call.params.items() if k != 'tenant'}}
        self.configs[config['id']] = config
        return config

    def GetTaskPushNotificationConfig(self, call):
        return self.configs[call.params['id']]

    def ListTaskPushNotificationConfigs(self, call):
        return {'configs': list(self.configs.values())}

    def DeleteTaskPushNotificationConfig(self, call):
        self.configs.pop(call.params['id'], None)
        return {}

    def GetExtendedAgentCard(self, call):
        return {**call.stub.card, 'description': 'extended'}


ROUTES = [
    ('POST', r'/message:send', 'SendMessage'),
    ('POST', r'/message:stream', 'SendStreamingMessage'),
    ('POST', r'/tasks/(?P<id>[^/]+):cancel', 'CancelTask'),
    ('GET|POST', r'/tasks/(?P<id>[^/]+):subscribe', 'SubscribeToTask'),
    ('POST', r'/tasks/(?P<taskId>[^/]+)/pushNotificationConfigs', 'CreateTaskPushNotificationConfig'),
    ('GET', r'/tasks/(?P<taskId>[^/]+)/pushNotificationConfigs', 'ListTaskPushNotificationConfigs'),
    ('GET', r'/tasks/(?P<taskId>[^/]+)/pushNotificationConfigs/(?P<id>[^/]+)', 'GetTaskPushNotificationConfig'),
    ('DELETE', r'/tasks/(?P<taskId>[^/]+)/pushNotificationConfigs/(?P<id>[^/]+)', 'DeleteTaskPushNotificationConfig'),
    ('GET', r'/tasks/(?P<id>[^/]+)', 'GetTask'),
    ('GET', r'/tasks', 'ListTasks'),
    ('GET', r'/extendedAgentCard', 'GetExtendedAgentCard'),
]
NUMBERS = ('historyLength', 'pageSize')


def route(method, path):
    """The operation of an HTTP+JSON request and its parameters; a tenant may stand in front."""
    for verbs, pattern, op in ROUTES:
        match = re.fullmatch(rf'(?:/(?P<tenant>[^/]+))?{pattern}', path)
        if match and method in verbs.split('|') and match['tenant'] != 'tasks':
            return op, {k: urllib.parse.unquote(v) for k, v in match.groupdict().items() if v is not None}
    return None, {}


class Stub:
    def __init__(
        self,
        bindings=('JSONRPC',),
        on=None,
        card=None,
        files=None,
        tls=None,
        tenant=None,
        version='1.0',
        streaming=True,
        push=True,
        extended=False,
        schemes=None,
        requires=None,
        extensions=None,
        interfaces=None,
        port=0,
    ):
        self.on, self.memory, self.files, self.tls = on or {}, Memory(), files or {}, tls
        self.calls, self.requests, self.counts = [], [], collections.Counter()
        self.lock, self.closed, self.grpc = threading.Lock(), threading.Event(), None
        self.http = Server(('127.0.0.1', port), Handler)
        self.http.stub = self
        if tls:
            # The handshake is left to the thread of the connection, so that a client that stays silent stops nobody.
            self.http.socket = tls.context().wrap_socket(
                self.http.socket, server_side=True, do_handshake_on_connect=False
            )
        self.port = self.http.server_address[1]
        self.url = f'{"https" if tls else "http"}://127.0.0.1:{self.port}'
        threading.Thread(target=self.http.serve_forever, kwargs={'poll_interval': 0.05}, daemon=True).start()
        if 'GRPC' in bindings:
            import stub_grpc

            self.grpc = stub_grpc.serve(self)
        self.card = self.make_card(bindings, tenant, version, streaming, push, extended, extensions, interfaces)
        if schemes is not None:
            self.card['securitySchemes'] = schemes
            names = requires if requires is not None else [[name] for name in schemes]
            self.card['securityRequirements'] = [{'schemes': {n: {'list': []} for n in some}} for some in names]
        self.card.update(card or {})

    def interface(self, binding, tenant=None, version='1.0'):
        url = {'JSONRPC': f'{self.url}/rpc', 'HTTP+JSON': f'{self.url}/rest'}.get(binding, f'{self.url}/other')
        if binding == 'GRPC':
            url = self.grpc.url
        value = {'url': url, 'protocolBinding': binding, 'protocolVersion': version}
        return {**value, 'tenant': tenant} if tenant else value

    def make_card(self, bindings, tenant, version, streaming, push, extended, extensions, interfaces):
        capabilities = {'streaming': streaming, 'pushNotifications': push}
        if extended:
            capabilities['extendedAgentCard'] = True
        if extensions:
            capabilities['extensions'] = extensions
        return {
            'name': 'Stub',
            'description': 'A scripted server',
            'version': '1.2.3',
            'supportedInterfaces': interfaces or [self.interface(binding, tenant, version) for binding in bindings],
            'capabilities': capabilities,
            'defaultInputModes': ['text/plain'],
            'defaultOutputModes': ['text/plain'],
            'skills': [{'id': 'stub', 'name': 'Stub skill', 'description': 'Does as told', 'tags': ['test']}],
        }

    # --- What was asked -------------------------------------------------------------------------------------------

    def of(self, *ops):
        """The calls of these operations, oldest first."""
        with self.lock:
            return [call for call in self.calls if call.op in ops]

    def sent(self):
        """The messages that were sent."""
        return [call.params['message'] for call in self.of('SendMessage', 'SendStreamingMessage')]

    def fetches(self, path=CARD_PATH):
        with self.lock:
            return [request for request in self.requests if request.path == path]

    def answer(self, op, binding, params, headers, url=''):
        """Plays an operation. Returns the answer or a generator of events; raises `Fault` or `Http`."""
        with self.lock:
            call = Call(op, binding, params, headers, time.monotonic(), self.counts[op], self, url)
            self.counts[op] += 1
            self.calls.append(call)
        return (self.on.get(op) or getattr(self.memory, op))(call)

    def close(self):
        if self.closed.is_set():
            return
        self.closed.set()
        self.http.shutdown()
        self.http.server_close()
        self.http.cut()
        if self.grpc:
            self.grpc.stop()


class Server(http.server.ThreadingHTTPServer):
    daemon_threads, allow_reuse_address = True, True

    def __init__(self, *arguments):
        super().__init__(*arguments)
        self.open = set()

    def handle_error(self, request, client_address):
        """Clients that hang up are part of the game."""

    def cut(self):
        for connection in list(self.open):
            try:
                connection.shutdown(socket.SHUT_RDWR)
            except OSError:
                pass


class Handler(http.server.BaseHTTPRequestHandler):
    protocol_version = 'HTTP/1.1'

    def setup(self):
        if self.server.stub.tls:
            self.request.settimeout(30)
            self.request.do_handshake()
        self.request.setsockopt(socket.IPPROTO_TCP, socket.TCP_NODELAY, 1)
        self.server.open.add(self.request)
        super().setup()

    def finish(self):
        self.server.open.discard(self.request)
        super().finish()

    def log_message(self, *_):
        pass

    def handle_any(self):
        stub = self.server.stub
        if self.headers.get('Transfer-Encoding', '').lower() == 'chunked':
            body = self.read_chunks()
        else:
            body = self.rfile.read(int(self.headers.get('Content-Length') or 0))
        split = urllib.parse.urlsplit(self.path)
        query = dict(urllib.parse.parse_qsl(split.query, keep_blank_values=True))
        headers = {key.lower(): value for key, value in self.headers.items()}
        certificate = self.request.getpeercert() if stub.tls and stub.tls.clients != 'no' else None
        request = Request(self.command, split.path, query, headers, body, time.monotonic(), certificate)
        with stub.lock:
            stub.requests.append(request)
        try:
            self.dispatch(stub, request)
        except Http as answer:
            self.reply(answer.status, answer.body, answer.type, answer.headers)
        except (BrokenPipeError, ConnectionResetError):
            self.close_connection = True

    do_GET = do_POST = do_DELETE = do_PUT = do_HEAD = handle_any

    def read_chunks(self):
        body = b''
        while size := int(self.rfile.readline().split(b';')[0], 16):
            body += self.rfile.read(size)
            self.rfile.readline()
        self.rfile.readline()
        return body

    def dispatch(self, stub, request):
        if request.path in stub.files:
            value = stub.files[request.path]
            value = value(request) if callable(value) else value
            if value is CUT:
                return self.hang_up()
            if isinstance(value, (dict, list)):
                value = Http(200, json.dumps(value).encode(), 'application/json')
            raise value if isinstance(value, Http) else Http(200, value)
        if request.path == CARD_PATH and request.method == 'GET':
            raise Http(200, json.dumps(stub.card).encode(), 'application/json')
        if request.path == '/rpc' and request.method == 'POST':
            return self.jsonrpc(stub, request)
        if request.path.startswith('/rest/'):
            return self.rest(stub, request)
        raise Http(404, b'nothing here')

    def jsonrpc(self, stub, request):
        body = json.loads(request.body)
        wrap = lambda value: {'jsonrpc': '2.0', 'id': body['id'], 'result': value}  # noqa: E731
        try:
            op, params = body['method'], body.get('params') or {}
            result = stub.answer(op, 'JSONRPC', params, request.headers, self.path)
            if result is CUT:
                return self.hang_up()
            if op in STREAMS and not isinstance(result, dict):
                return self.stream(result, wrap)
            self.reply(200, json.dumps(result if 'jsonrpc' in result else wrap(result)).encode(), 'application/json')
        except Fault as fault:
            error = {'code': ERRORS[fault.name][0], 'message': fault.message, 'data': [fault.info]}
            value = {'jsonrpc': '2.0', 'id': body['id'], 'error': error}
            self.reply(200, json.dumps(value).encode(), 'application/json')

    def rest(self, stub, request):
        op, params = route(request.method, request.path.removeprefix('/rest'))
        if op is None:
            raise Http(404, b'{}', 'application/json')
        params = {**request.query, **(json.loads(request.body) if request.body.strip() else {}), **params}
        params.update({key: int(params[key]) for key in NUMBERS if key in params})
        try:
            result = stub.answer(op, 'HTTP+JSON', params, request.headers, self.path)
            if result is CUT:
                return self.hang_up()
            if op in STREAMS and not isinstance(result, dict):
                return self.stream(result, lambda value: value)
            self.reply(200, json.dumps(result).encode(), 'application/a2a+json')
        except Fault as fault:
            _, code, name = ERRORS[fault.name]
            error = {'code': code, 'status': name, 'message': fault.message, 'details': [fault.info]}
            self.reply(code, json.dumps({'error': error}).encode(), 'application/a2a+json')

    def reply(self, code, body, kind, headers=None):
        self.send_response(code)
        self.send_header('Content-Type', kind)
        self.send_header('Content-Length', str(len(body)))
        for name, value in (headers or {}).items():
            self.send_header(name, value)
        self.end_headers()
        if self.command != 'HEAD':
            self.wfile.write(body)

    def stream(self, events, wrap):
        """Sends events as they come. The first is awaited before the head goes out, so that it may still be refused."""
        events = iter(events)
        first = next(events)
        self.send_response(200)
        self.send_header('Content-Type', 'text/event-stream')
        self.send_header('Transfer-Encoding', 'chunked')
        self.end_headers()
        for event in itertools.chain([first], events):
            if event is CUT:
                return self.hang_up()
            data = event.data if isinstance(event, Raw) else b'data: ' + json.dumps(wrap(event)).encode() + b'\n\n'
            self.wfile.write(b'%x\r\n%s\r\n' % (len(data), data))
            self.wfile.flush()
        self.wfile.write(b'0\r\n\r\n')

    def hang_up(self):
        self.close_connection = True
        self.request.shutdown(socket.SHUT_RDWR)
