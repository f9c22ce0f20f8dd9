"""How each dialect and binding says "send this" and "show me that task", and how its answers are read.

One class per shape of request. All of it is made by hand, so that nothing between a check and the wire has an opinion;
gRPC goes through grpcio with the stubs of the official SDK. A credential is asked for its headers with the body in
hand, because some credentials are signatures over it.
"""

import dataclasses
import itertools
import json
import threading
import uuid

import grpc
from a2a.compat.v0_3 import a2a_v0_3_pb2, a2a_v0_3_pb2_grpc
from a2a.types import a2a_pb2, a2a_pb2_grpc

SECONDS_MAX = 20
NUMBERS = itertools.count(1)


@dataclasses.dataclass
class Outcome:
    """What a call came to, in the words all bindings share."""

    # HTTP status, or the number of a gRPC status.
    status: int
    # Number of a JSON-RPC error.
    code: int | None = None
    message: str = ''
    headers: dict = dataclasses.field(default_factory=dict)
    # Id of the task that was answered with.
    task: str | None = None
    value: object = None
    text: str = ''

    @property
    def served(self):
        return self.task is not None

    def __str__(self):
        shown = {k: v for k, v in self.headers.items() if k in ('www-authenticate', 'retry-after')}
        code = '' if self.code is None else f' code {self.code}'
        return f'{self.status}{code} {shown or ""} {self.text[:300]}'


# --- Credentials ------------------------------------------------------------------------------------------------------


class Credential:
    """Headers, and perhaps a certificate; the same for every body."""

    def __init__(self, *headers, certificate=None):
        self.pairs, self.certificate = headers, certificate

    def headers(self, body):
        return list(self.pairs)


def bearer(text):
    return Credential(('Authorization', f'Bearer {text}'))


class Signed(Credential):
    """An XPR account that signs every body anew; `off` moves its clock."""

    def __init__(self, account, key, off=0, clock=None):
        super().__init__()
        self.account, self.key, self.off, self.clock = account, key, off, clock

    def headers(self, body):
        import time

        now = self.clock or int(time.time())
        return list(self.key.headers(self.account, now + self.off, body).items())


NOBODY = Credential()


# --- Bindings ---------------------------------------------------------------------------------------------------------


class Binding:
    """`path` is where the default agent is; other agents are below `/agents/{name}`."""

    grpc = False

    def __init__(self, name, family):
        self.name, self.family = name, family

    def place(self, path, agent):
        return f'/agents/{agent}{path}'.removesuffix('/') if agent else path

    def request(self, method, path, version, body):
        """The bytes of a request, so that they can be sent twice."""
        return method, path, [('A2A-Version', version)] if version else [], body

    def play(self, server, request, headers, certificate=None):
        method, path, own, body = request
        answer = server.call(method, path, [*own, *headers], body, certificate=certificate)
        return self.read(answer)

    def send(self, server, credential, text='hello', agent=None, **more):
        request = self.sending(text, agent, **more)
        return self.play(server, request, credential.headers(request[3]), credential.certificate)

    def get(self, server, credential, task, agent=None):
        request = self.getting(task, agent)
        return self.play(server, request, credential.headers(request[3]), credential.certificate)

    def cancel(self, server, credential, task, agent=None):
        request = self.cancelling(task, agent)
        return self.play(server, request, credential.headers(request[3]), credential.certificate)


def outcome(answer, value=None):
    headers = {name.lower(): content for name, content in answer.headers}
    return Outcome(answer.status, headers=headers, value=value, text=answer.body.decode(errors='replace'))


def parsed(answer):
    try:
        return json.loads(answer.body)
    except ValueError:
        return None


class JsonRpc(Binding):
    METHODS = {'send': 'message/send', 'get': 'tasks/get', 'cancel': 'tasks/cancel'}

    def __init__(self, name, family, version=None, path='/', methods=None, tag='kind'):
        super().__init__(name, family)
        self.version, self.path, self.methods, self.tag = version, path, methods or self.METHODS, tag

    def body(self, operation, params):
        call = {'jsonrpc': '2.0', 'id': next(NUMBERS), 'method': self.methods[operation], 'params': params}
        return json.dumps(call).encode()

    def sending(self, text, agent=None, **more):
        message = {'messageId': str(uuid.uuid4()), 'role': 'user', 'parts': [{self.tag: 'text', 'text': text}]}
        if self.tag == 'type':
            del message['messageId']
        if self.family == 'jsonrpc' and self.version == '1.0':
            message |= {'role': 'ROLE_USER', 'parts': [{'text': text}]}
        params = {'message': message, **more}
        if self.methods['send'] == 'tasks/send':
            params.setdefault('id', f'task-{uuid.uuid4()}')
        return self.request('POST', self.place(self.path, agent), self.version, self.body('send', params))

    def getting(self, task, agent=None):
        return self.request('POST', self.place(self.path, agent), self.version, self.body('get', {'id': task}))

    def cancelling(self, task, agent=None):
        return self.request('POST', self.place(self.path, agent), self.version, self.body('cancel', {'id': task}))

    def read(self, answer):
        value = parsed(answer)
        told = outcome(answer, value)
        if isinstance(value, dict) and isinstance(value.get('error'), dict):
            told.code, told.message = value['error'].get('code'), value['error'].get('message', '')
        elif isinstance(value, dict) and isinstance(value.get('result'), dict):
            result = value['result']
            told.task = (result.get('task') or result).get('id')
        return told


class Http(Binding):
    def __init__(self, name, family, version=None, prefix=''):
        super().__init__(name, family)
        self.version, self.prefix = version, prefix

    def sending(self, text, agent=None, **more):
        parts = 'content' if self.prefix else 'parts'
        message = {'messageId': str(uuid.uuid4()), 'role': 'ROLE_USER', parts: [{'text': text}]}
        body = json.dumps({'message': message, **more}).encode()
        return self.request('POST', self.place(f'{self.prefix}/message:send', agent), self.version, body)

    def getting(self, task, agent=None):
        return self.request('GET', self.place(f'{self.prefix}/tasks/{task}', agent), self.version, b'')

    def cancelling(self, task, agent=None):
        # A body of its own: a signature covers nothing else, and two alike in one second are a replay.
        body = b'{%s}' % (b' ' * next(NUMBERS))
        return self.request('POST', self.place(f'{self.prefix}/tasks/{task}:cancel', agent), self.version, body)

    def read(self, answer):
        value = parsed(answer)
        told = outcome(answer, value)
        if answer.status == 200 and isinstance(value, dict):
            told.task = (value.get('task') or value).get('id')
        elif isinstance(value, dict):
            error = value.get('error') if isinstance(value.get('error'), dict) else value
            told.message = str(error.get('message', ''))
        return told


class Grpc(Binding):
    grpc = True

    def __init__(self, name, version):
        super().__init__(name, 'grpc')
        self.version = version
        self.old = version == '0.3'
        self.pb = a2a_v0_3_pb2 if self.old else a2a_pb2
        self.service = 'a2a.v1.A2AService' if self.old else 'lf.a2a.v1.A2AService'
        stubs = a2a_v0_3_pb2_grpc if self.old else a2a_pb2_grpc
        self.stub = stubs.A2AServiceStub
        self.channels, self.lock = {}, threading.Lock()

    def channel(self, server, certificate):
        """One channel per server and certificate: to open one costs more than all calls on it."""
        place = (server.url, certificate)
        with self.lock:
            if place not in self.channels:
                self.channels[place] = self.open(server, certificate)
            return self.channels[place]

    def open(self, server, certificate):
        _, port = server.address
        if not server.tls:
            return grpc.insecure_channel(f'127.0.0.1:{port}')
        cert, key = (open(path, 'rb').read() for path in certificate) if certificate else (None, None)
        roots = open(server.tls, 'rb').read()
        return grpc.secure_channel(f'localhost:{port}', grpc.ssl_channel_credentials(roots, key, cert))

    def sending(self, text, agent=None, **more):
        if self.old:
            message = self.pb.Message(message_id=str(uuid.uuid4()), role='ROLE_USER', content=[self.pb.Part(text=text)])
            return 'SendMessage', self.pb.SendMessageRequest(request=message)
        message = self.pb.Message(message_id=str(uuid.uuid4()), role='ROLE_USER', parts=[self.pb.Part(text=text)])
        return 'SendMessage', self.pb.SendMessageRequest(message=message, tenant=agent or '')

    def getting(self, task, agent=None):
        if self.old:
            return 'GetTask', self.pb.GetTaskRequest(name=f'tasks/{task}')
        return 'GetTask', self.pb.GetTaskRequest(id=task, tenant=agent or '')

    def cancelling(self, task, agent=None):
        if self.old:
            return 'CancelTask', self.pb.CancelTaskRequest(name=f'tasks/{task}')
        return 'CancelTask', self.pb.CancelTaskRequest(id=task, tenant=agent or '')

    def send(self, server, credential, text='hello', agent=None, **more):
        return self.ask(server, credential, *self.sending(text, agent))

    def get(self, server, credential, task, agent=None):
        return self.ask(server, credential, *self.getting(task, agent))

    def cancel(self, server, credential, task, agent=None):
        return self.ask(server, credential, *self.cancelling(task, agent))

    def ask(self, server, credential, method, message):
        pairs = credential.headers(message.SerializeToString())
        metadata = [('a2a-version', self.version), *((name.lower(), value) for name, value in pairs)]
        try:
            reply = getattr(self.stub(self.channel(server, credential.certificate)), method)(
                message, timeout=SECONDS_MAX, metadata=metadata
            )
        except grpc.RpcError as error:
            headers = dict(error.trailing_metadata() or ())
            headers |= dict(error.initial_metadata() or ())
            told = error.details() or ''
            return Outcome(error.code().value[0], message=told, headers=headers, text=f'{error.code().name}: {told}')
        task = reply.id if hasattr(reply, 'id') else reply.task.id
        return Outcome(0, task=task or None, value=reply, text=str(reply)[:200])


V1 = {'send': 'SendMessage', 'get': 'GetTask', 'cancel': 'CancelTask'}
V01 = {'send': 'tasks/send', 'get': 'tasks/get', 'cancel': 'tasks/cancel'}

BINDINGS = {
    binding.name: binding
    for binding in (
        JsonRpc('1.0 JSON-RPC', 'jsonrpc', '1.0', methods=V1),
        Http('1.0 HTTP+JSON', 'http', '1.0'),
        Grpc('1.0 gRPC', '1.0'),
        JsonRpc('0.3 JSON-RPC', 'jsonrpc', '0.3'),
        Http('0.3 HTTP+JSON', 'http', None, prefix='/v1'),
        Grpc('0.3 gRPC', '0.3'),
        JsonRpc('0.2 JSON-RPC', 'jsonrpc', '0.2'),
        JsonRpc('0.1 JSON-RPC', 'jsonrpc', '0.1', methods=V01, tag='type'),
        JsonRpc('agent-native', 'native', None, '/_agent-native/a2a', tag='type'),
        JsonRpc('XPR', 'xpr', None, '/a2a', tag='type'),
    )
}


def forget(server):
    """Closes the channels to a server that is gone."""
    for binding in BINDINGS.values():
        if binding.grpc:
            with binding.lock:
                for place in [place for place in binding.channels if place[0] == server.url]:
                    binding.channels.pop(place).close()
