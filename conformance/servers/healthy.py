"""A correct 1.0 agent in the standard library alone: what every rogue is before one thing in it is broken.

It speaks JSON-RPC at `/rpc`, and HTTP+JSON at `/rest` where that is asked for. It answers any text after a little work,
streams with comments while it has nothing to say, and calls webhooks. Each thing a rogue may want to do otherwise is a
method of its own, so a rogue is a subclass with one method in it.

The model: `Agent` holds tasks and answers operations by name; `HTTP` below it reads requests and writes answers, and
knows nothing of tasks. Operations return a value, a `Stream`, or raise `Refused`.
"""

import asyncio
import contextlib
import dataclasses
import datetime
import json
import ssl
import urllib.parse
import urllib.request
import uuid

BODY_BYTES_MAX = 4 * 1024 * 1024
KEEP_ALIVE_SECONDS = 0.4
PAGE_SIZE = 50
SETTLED = ('TASK_STATE_COMPLETED', 'TASK_STATE_FAILED', 'TASK_STATE_CANCELED', 'TASK_STATE_REJECTED')
REASONS = {
    -32001: ('TASK_NOT_FOUND', 404, 'NOT_FOUND'),
    -32002: ('TASK_NOT_CANCELABLE', 400, 'FAILED_PRECONDITION'),
    -32003: ('PUSH_NOTIFICATION_NOT_SUPPORTED', 400, 'FAILED_PRECONDITION'),
    -32004: ('UNSUPPORTED_OPERATION', 400, 'FAILED_PRECONDITION'),
    -32005: ('CONTENT_TYPE_NOT_SUPPORTED', 400, 'INVALID_ARGUMENT'),
    -32009: ('VERSION_NOT_SUPPORTED', 400, 'FAILED_PRECONDITION'),
    -32600: ('INVALID_REQUEST', 400, 'INVALID_ARGUMENT'),
    -32601: ('METHOD_NOT_FOUND', 404, 'NOT_FOUND'),
    -32602: ('INVALID_PARAMS', 400, 'INVALID_ARGUMENT'),
    -32603: ('INTERNAL_ERROR', 500, 'INTERNAL'),
    -32700: ('JSON_PARSE', 400, 'INVALID_ARGUMENT'),
}


@dataclasses.dataclass(frozen=True)
class Setting:
    """What a rogue and its twin have in common."""

    work_seconds: float = 0.3
    # HTTP+JSON as a second interface.
    rest: bool = False
    # A card that requires a bearer token, and a server that wants one.
    bearer: bool = False
    # The token that is right, for those who have to give one.
    token: str = ''
    # A scheme that is there and not required.
    optional_bearer: bool = False
    tls: bool = False
    signed: bool = False


class Refused(Exception):
    def __init__(self, code, message):
        super().__init__(message)
        self.code = code

    @property
    def details(self):
        reason = REASONS[self.code][0]
        kind = 'type.googleapis.com/google.rpc.ErrorInfo'
        return [{'@type': kind, 'reason': reason, 'domain': 'a2a-protocol.org', 'metadata': {}}]


@dataclasses.dataclass
class Stream:
    """Events to come, each a StreamResponse; None ends it."""

    queue: asyncio.Queue


def now():
    return datetime.datetime.now(datetime.timezone.utc).isoformat(timespec='milliseconds').replace('+00:00', 'Z')


# --- The agent --------------------------------------------------------------------------------------------------------


class Agent:
    def __init__(self, setting, origin, spare=None, signature=None):
        self.setting, self.origin, self.spare, self.signature = setting, origin, spare, signature
        self.tasks, self.hooks, self.watchers, self.working = {}, {}, {}, set()

    # The card

    def interfaces(self):
        found = [{'url': f'{self.origin}/rpc', 'protocolBinding': 'JSONRPC', 'protocolVersion': '1.0'}]
        if self.setting.rest:
            found.append({'url': f'{self.origin}/rest', 'protocolBinding': 'HTTP+JSON', 'protocolVersion': '1.0'})
        return found

    def requirements(self):
        if self.setting.bearer:
            return [{'schemes': {'bearer': {'list': []}}}]
        if self.setting.optional_bearer:
            return [{'schemes': {}}, {'schemes': {'bearer': {'list': []}}}]
        return None

    def card(self):
        card = {
            'name': 'Gallery',
            'description': 'An agent of the gallery',
            'version': '1.0.0',
            'documentationUrl': 'https://example.org/gallery',
            'supportedInterfaces': self.interfaces(),
            'capabilities': {'streaming': True, 'pushNotifications': True},
            'defaultInputModes': ['text/plain'],
            'defaultOutputModes': ['text/plain'],
            'skills': [{'id': 'echo', 'name': 'Echo', 'description': 'Says it again', 'tags': ['test']}],
        }
        if self.setting.bearer or self.setting.optional_bearer:
            card['securitySchemes'] = {'bearer': {'httpAuthSecurityScheme': {'scheme': 'bearer'}}}
            card['securityRequirements'] = self.requirements()
        if self.signature:
            card['signatures'] = [self.signature.over(self.signed_card(card))]
        return card

    def signed_card(self, card):
        """What the signature is made over."""
        return card

    # Operations

    async def answer(self, operation, params, version):
        """What an operation gives. The names are those of JSON-RPC."""
        self.check_version(version)
        handler = getattr(self, f'on_{operation}', None)
        if handler is None:
            raise Refused(-32601, f'Method not found: {operation}')
        if not isinstance(params, dict):
            raise Refused(-32602, 'params must be an object')
        return await handler(params)

    def check_version(self, version):
        if version.partition('.')[0] != '1':
            raise Refused(-32009, f'version {version or "0.3"!r} is not supported; this is 1.0')

    async def on_SendMessage(self, params):
        task = self.begin(params)
        if self.waits(params):
            await task['_settled'].wait()
        return self.send_result(self.shown(task, params.get('configuration')))

    def waits(self, params):
        return not (params.get('configuration') or {}).get('returnImmediately')

    def send_result(self, task):
        return {'task': task}

    async def on_SendStreamingMessage(self, params):
        task = self.begin(params, watched=True)
        return Stream(self.watchers[task['id']][0])

    async def on_SubscribeToTask(self, params):
        task = self.find(params.get('id'))
        if task['status']['state'] in SETTLED:
            raise Refused(-32004, f'task {task["id"]} has ended')
        queue = asyncio.Queue()
        queue.put_nowait({'task': self.shown(task)})
        self.watchers[task['id']].append(queue)
        return Stream(queue)

    async def on_GetTask(self, params):
        return self.shown(self.find(params.get('id')), params)

    async def on_ListTasks(self, params):
        wanted = {'contextId': params.get('contextId'), 'state': params.get('status')}
        size = params.get('pageSize', PAGE_SIZE)
        if not isinstance(size, int) or not 1 <= size <= 100:
            raise Refused(-32602, 'pageSize must be from 1 to 100')
        at = params.get('pageToken') or '0'
        if not at.isdigit():
            raise Refused(-32602, 'pageToken is not one of ours')
        found = [
            task for task in sorted(self.tasks.values(), key=lambda task: task['status']['timestamp'], reverse=True)
            if wanted['contextId'] in (None, '', task['contextId'])
            and wanted['state'] in (None, 'TASK_STATE_UNSPECIFIED', task['status']['state'])
        ]
        page = [self.shown(task, params) for task in found[int(at):int(at) + size]]
        if not params.get('includeArtifacts'):
            page = [{key: value for key, value in task.items() if key != 'artifacts'} for task in page]
        more = str(int(at) + size) if int(at) + size < len(found) else ''
        return {'tasks': page, 'nextPageToken': more, 'pageSize': size, 'totalSize': len(found)}

    async def on_CancelTask(self, params):
        task = self.find(params.get('id'))
        if task['status']['state'] in SETTLED:
            raise Refused(-32002, f'task {task["id"]} has ended')
        return self.cancel(task)

    def cancel(self, task):
        task['_canceled'] = True
        self.show_status(task, 'TASK_STATE_CANCELED')
        return self.shown(task)

    async def on_CreateTaskPushNotificationConfig(self, params):
        task = self.find(params.get('taskId'))
        return self.add_hook(task, params)

    async def on_GetTaskPushNotificationConfig(self, params):
        task = self.find(params.get('taskId'))
        for config in self.hooks[task['id']]:
            if config['id'] == params.get('id'):
                return config
        raise Refused(-32001, f'no configuration {params.get("id")}')

    async def on_ListTaskPushNotificationConfigs(self, params):
        return {'configs': self.hooks[self.find(params.get('taskId'))['id']], 'nextPageToken': ''}

    async def on_DeleteTaskPushNotificationConfig(self, params):
        task = self.find(params.get('taskId'))
        self.hooks[task['id']] = [one for one in self.hooks[task['id']] if one['id'] != params.get('id')]
        return {}

    async def on_GetExtendedAgentCard(self, params):
        raise Refused(-32004, 'there is no extended card')

    # Tasks

    def find(self, task_id):
        if task_id not in self.tasks:
            raise Refused(-32001, f'no task {task_id}')
        return self.tasks[task_id]

    def begin(self, params, watched=False):
        """Makes the task of a message and sets it to work."""
        message = params.get('message')
        if not isinstance(message, dict) or not message.get('messageId') or not message.get('parts'):
            raise Refused(-32602, 'message with messageId and parts is needed')
        if message.get('taskId'):
            known = self.find(message['taskId'])
            raise Refused(-32004, f'task {known["id"]} takes no more messages')
        task = {
            'id': str(uuid.uuid4()),
            'contextId': message.get('contextId') or str(uuid.uuid4()),
            'status': {'state': 'TASK_STATE_SUBMITTED', 'timestamp': now()},
            'history': [message],
            '_settled': asyncio.Event(),
            '_canceled': False,
        }
        self.tasks[task['id']], self.hooks[task['id']], self.watchers[task['id']] = task, [], []
        config = (params.get('configuration') or {}).get('taskPushNotificationConfig')
        if config:
            self.add_hook(task, config)
        if watched:
            self.watchers[task['id']].append(asyncio.Queue())
        self.open_stream(task)
        work = asyncio.get_running_loop().create_task(self.work(task))
        self.working.add(work)
        work.add_done_callback(self.working.discard)
        return task

    def open_stream(self, task):
        self.publish(task, {'task': self.shown(task)})

    async def work(self, task):
        self.show_status(task, 'TASK_STATE_WORKING')
        await asyncio.sleep(self.setting.work_seconds)
        if task['_canceled']:
            return
        text = ''.join(part.get('text', '') for part in task['history'][0]['parts'])
        artifact = {'artifactId': 'echo-1', 'name': 'echo', 'parts': [{'text': text}]}
        task['artifacts'] = [artifact]
        ids = {'taskId': task['id'], 'contextId': task['contextId']}
        self.publish(task, {'artifactUpdate': {**ids, 'artifact': artifact, 'lastChunk': True}})
        self.show_status(task, 'TASK_STATE_COMPLETED')

    def show_status(self, task, state):
        task['status'] = {'state': state, 'timestamp': now()}
        ids = {'taskId': task['id'], 'contextId': task['contextId']}
        self.publish(task, {'statusUpdate': {**ids, 'status': task['status']}})
        if state in SETTLED:
            task['_settled'].set()
            for queue in self.watchers[task['id']]:
                queue.put_nowait(None)

    def publish(self, task, event):
        for queue in self.watchers[task['id']]:
            queue.put_nowait(event)
        for config in self.hooks[task['id']]:
            self.call_hook(config, event)

    def shown(self, task, options=None):
        """A task as it goes over the wire."""
        value = {key: value for key, value in task.items() if not key.startswith('_')}
        length = (options or {}).get('historyLength')
        if length == 0:
            value.pop('history')
        elif length is not None:
            value['history'] = value['history'][-int(length):]
        return value

    # Webhooks

    def add_hook(self, task, config):
        if not str(config.get('url', '')).startswith(('http://', 'https://')):
            raise Refused(-32602, 'url is needed')
        kept = {**config, 'taskId': task['id'], 'id': config.get('id') or str(uuid.uuid4())}
        kept.pop('tenant', None)
        self.hooks[task['id']].append(kept)
        return kept

    def call_hook(self, config, event):
        headers = {'Content-Type': 'application/a2a+json', **self.hook_credentials(config)}
        request = urllib.request.Request(config['url'], json.dumps(event).encode(), headers)
        call = asyncio.get_running_loop().run_in_executor(None, self.post, request)
        self.working.add(call)
        call.add_done_callback(self.working.discard)

    def hook_credentials(self, config):
        headers = {'X-A2A-Notification-Token': config['token']} if config.get('token') else {}
        about = config.get('authentication') or {}
        if about.get('scheme') and about.get('credentials'):
            headers['Authorization'] = f'{about["scheme"]} {about["credentials"]}'
        return headers

    def post(self, request):
        opener = urllib.request.build_opener(urllib.request.ProxyHandler({}))
        # A hook that is gone is no trouble of the agent's.
        with contextlib.suppress(OSError), opener.open(request, timeout=5):
            pass


# --- HTTP -------------------------------------------------------------------------------------------------------------


@dataclasses.dataclass
class Request:
    method: str
    path: str
    query: dict
    headers: dict
    body: bytes


@dataclasses.dataclass
class Answer:
    status: int
    headers: dict
    body: bytes


def as_json(value, status=200, kind='application/json', **headers):
    return Answer(status, {'Content-Type': kind, **headers}, json.dumps(value).encode())


class HTTP:
    """Serves one agent. What it answers depends on the request alone; how, on `write_*`."""

    def __init__(self, agent):
        self.agent = agent
        agent.http = self

    async def serve(self, port, certificate=None):
        context = None
        if certificate:
            context = ssl.SSLContext(ssl.PROTOCOL_TLS_SERVER)
            context.load_cert_chain(*certificate)
        server = await asyncio.start_server(self.connection, '127.0.0.1', port, ssl=context)
        async with server:
            await server.serve_forever()

    async def connection(self, reader, writer):
        try:
            while request := await self.read(reader):
                if request.method == 'TLS':
                    self.write(writer, Answer(400, {'Connection': 'close'}, b'plain HTTP is spoken here\n'))
                    return
                answer = await self.route(request)
                if isinstance(answer, Answer):
                    self.write(writer, answer)
                    await writer.drain()
                elif not await self.write_stream(writer, *answer):
                    return
        except (ConnectionError, asyncio.IncompleteReadError, ssl.SSLError, ValueError):
            # Whoever called has gone, or speaks something else.
            pass
        finally:
            writer.close()

    async def read(self, reader):
        line = await reader.read(1)
        if line == b'\x16':
            # The first byte of TLS, which has no lines to wait for.
            return Request('TLS', '', {}, {}, b'')
        line += await reader.readline()
        if not line.strip():
            return None
        method, target, _ = line.decode('latin-1').split(' ', 2)
        headers = {}
        while (line := await reader.readline()).strip():
            name, _, value = line.decode('latin-1').partition(':')
            headers[name.strip().lower()] = value.strip()
        length = int(headers.get('content-length') or 0)
        if length > BODY_BYTES_MAX:
            raise ValueError('too large')
        if headers.get('transfer-encoding', '').lower() == 'chunked':
            body = b''
            while size := int((await reader.readline()).split(b';')[0], 16):
                body += await reader.readexactly(size)
                await reader.readline()
            await reader.readline()
        else:
            body = await reader.readexactly(length)
        url = urllib.parse.urlsplit(target)
        query = dict(urllib.parse.parse_qsl(url.query, keep_blank_values=True))
        return Request(method, urllib.parse.unquote(url.path), query, headers, body)

    def write(self, writer, answer):
        headers = {**answer.headers, 'Content-Length': len(answer.body)}
        head = ''.join(f'{name}: {value}\r\n' for name, value in headers.items())
        writer.write(f'HTTP/1.1 {answer.status} -\r\n{head}\r\n'.encode() + answer.body)

    async def write_stream(self, writer, stream, frame):
        """Writes events as they come. Says whether the connection can go on."""
        head = 'HTTP/1.1 200 OK\r\nContent-Type: text/event-stream\r\nCache-Control: no-cache\r\n'
        writer.write(f'{head}Transfer-Encoding: chunked\r\n\r\n'.encode())
        while True:
            event = await self.next_event(writer, stream)
            if event is None:
                break
            if not await self.write_event(writer, f'data: {json.dumps(frame(event))}\n\n'.encode(), event):
                return False
        writer.write(b'0\r\n\r\n')
        await writer.drain()
        return True

    async def next_event(self, writer, stream):
        while True:
            with contextlib.suppress(TimeoutError):
                return await asyncio.wait_for(stream.queue.get(), KEEP_ALIVE_SECONDS)
            self.write_chunk(writer, self.keep_alive())
            await writer.drain()

    def keep_alive(self):
        return b': keep-alive\n\n'

    async def write_event(self, writer, data, event):
        self.write_chunk(writer, data)
        await writer.drain()
        return True

    def write_chunk(self, writer, data):
        if data:
            writer.write(f'{len(data):x}\r\n'.encode() + data + b'\r\n')

    # Routes

    CARD_PATH = '/.well-known/agent-card.json'

    async def route(self, request):
        """An answer, or a stream and how its events are framed."""
        if request.path == self.CARD_PATH and request.method in ('GET', 'HEAD'):
            return self.card_answer(request)
        if request.path == '/jwks.json' and self.agent.signature:
            return as_json(self.agent.signature.keys())
        if request.path == '/rpc' or request.path.startswith('/rest/') and self.agent.setting.rest:
            refusal = self.admit(request)
            if refusal:
                return refusal
            return await (self.rpc(request) if request.path == '/rpc' else self.rest(request))
        return as_json({'error': {'code': 404, 'status': 'NOT_FOUND', 'message': 'nothing here'}}, 404)

    def card_answer(self, request):
        body = json.dumps(self.agent.card()).encode()
        headers = self.card_headers(body)
        if headers.get('ETag') and request.headers.get('if-none-match') == headers['ETag']:
            return Answer(304, headers, b'')
        return Answer(200, headers, body)

    def card_headers(self, body):
        mark = f'"{uuid.uuid5(uuid.NAMESPACE_URL, body.decode()).hex}"'
        return {'Content-Type': 'application/json', 'ETag': mark, 'Cache-Control': 'max-age=60'}

    def admit(self, request):
        """Refuses a call that lacks a credential."""
        scheme, _, token = request.headers.get('authorization', '').partition(' ')
        if self.agent.setting.bearer and (scheme.lower() != 'bearer' or not self.accepts(token)):
            return as_json({'error': 'a token is needed'}, 401, **self.challenge())
        return None

    def accepts(self, token):
        return bool(token) and token == (self.agent.setting.token or token)

    def challenge(self):
        return {'WWW-Authenticate': 'Bearer realm="gallery"'}

    # JSON-RPC

    async def rpc(self, request):
        if request.method != 'POST':
            return as_json({'error': 'POST it'}, 405, Allow='POST')
        call_id = None
        try:
            try:
                call = json.loads(request.body)
            except ValueError:
                raise Refused(-32700, 'not JSON') from None
            if not isinstance(call, dict) or call.get('jsonrpc') != '2.0' or not isinstance(call.get('method'), str):
                raise Refused(-32600, 'not a JSON-RPC 2.0 request')
            call_id = call.get('id')
            version = request.headers.get('a2a-version') or request.query.get('A2A-Version') or ''
            result = await self.agent.answer(call['method'], call.get('params') or {}, version)
        except Refused as why:
            error = {'code': why.code, 'message': str(why), 'data': why.details}
            return self.rpc_answer({'jsonrpc': '2.0', 'id': self.rpc_id(call_id), 'error': error})
        if isinstance(result, Stream):
            return result, lambda event: {'jsonrpc': '2.0', 'id': self.rpc_id(call_id), 'result': event}
        return self.rpc_answer({'jsonrpc': '2.0', 'id': self.rpc_id(call_id), 'result': result})

    def rpc_id(self, call_id):
        return call_id

    def rpc_answer(self, value):
        return as_json(value)

    # HTTP+JSON

    async def rest(self, request):
        path = request.path.removeprefix('/rest')
        version = request.headers.get('a2a-version') or request.query.get('A2A-Version') or ''
        try:
            operation, params = self.rest_operation(request, path)
            result = await self.agent.answer(operation, params, version)
        except Refused as why:
            return self.rest_refusal(why)
        if isinstance(result, Stream):
            return result, lambda event: event
        return as_json(result, kind='application/a2a+json')

    def rest_operation(self, request, path):
        """The operation a path stands for, with its parameters."""
        try:
            body = json.loads(request.body or b'{}')
        except ValueError:
            raise Refused(-32700, 'not JSON') from None
        query = {name: int(value) if name in ('historyLength', 'pageSize') else value
                 for name, value in request.query.items() if name != 'A2A-Version'}
        verb, parts = request.method, path.strip('/').split('/')
        match verb, parts:
            case 'POST', ['message:send']:
                return 'SendMessage', body
            case 'POST', ['message:stream']:
                return 'SendStreamingMessage', body
            case 'GET', ['tasks']:
                return 'ListTasks', query
            case 'GET' | 'POST', ['tasks', name] if name.endswith(':subscribe'):
                return 'SubscribeToTask', {'id': name.removesuffix(':subscribe')}
            case 'POST', ['tasks', name] if name.endswith(':cancel'):
                return 'CancelTask', {'id': name.removesuffix(':cancel')}
            case 'GET', ['tasks', name]:
                return 'GetTask', {**query, 'id': name}
            case 'POST', ['tasks', name, 'pushNotificationConfigs']:
                return 'CreateTaskPushNotificationConfig', {**body, 'taskId': name}
            case 'GET', ['tasks', name, 'pushNotificationConfigs']:
                return 'ListTaskPushNotificationConfigs', {'taskId': name}
            case 'GET', ['tasks', name, 'pushNotificationConfigs', config]:
                return 'GetTaskPushNotificationConfig', {'taskId': name, 'id': config}
            case 'DELETE', ['tasks', name, 'pushNotificationConfigs', config]:
                return 'DeleteTaskPushNotificationConfig', {'taskId': name, 'id': config}
            case 'GET', ['extendedAgentCard']:
                return 'GetExtendedAgentCard', {}
        raise Refused(-32601, f'there is no {verb} {path}')

    def rest_refusal(self, why):
        _, status, name = REASONS[why.code]
        error = {'code': status, 'status': name, 'message': str(why), 'details': why.details}
        return as_json({'error': error}, status, kind='application/a2a+json')
