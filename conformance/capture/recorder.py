"""Stands between a real client and a real server, and writes down what each of them said, byte for byte.

    recorder.py SESSION.json

The model: a *session* is one client against one server. The recorder listens on four ports: two in front of the
server's HTTP and gRPC ports, one where the server may deliver webhooks, and one where the client's script says what it
is about to do (`POST /begin`) and that it has done it (`POST /end`). Whatever passed between the two marks is written
below the name given in the first: the body of the request, the body of the reply, each event of a stream, each webhook.
Nothing is changed on the way but the `Connection` header, and nothing is parsed before it is written; JSON is looked at
afterwards, only to name events and to fill the index.

gRPC is passed on as opaque message bytes, so that what is written is what the peer's own classes serialised.
"""

import asyncio
import contextlib
import json
import pathlib
import re
import sys

import grpc

from a2a.grpc import a2a_pb2 as pb_v03

# How long a reply that is still running, or a webhook that is still to come, is waited for after `/end`.
SETTLE_SECONDS = 5.0
HOOK_QUIET_SECONDS = 0.7
# Headers that say something about a dialect; the rest is about the HTTP library.
TELLING = re.compile(r'^(a2a-|x-a2a-|x-xpr-|authorization$|accept$|user-agent$|vary$|etag$|cache-control$|grpc-)', re.I)
# Message types by gRPC service and method; a stream's reply type is that of one event.
PUSH, PUSH_LIST = 'TaskPushNotificationConfig', 'ListTaskPushNotificationConfig'
GRPC_TYPES = {
    'a2a.v1': {
        'SendMessage': ('SendMessageRequest', 'SendMessageResponse'),
        'SendStreamingMessage': ('SendMessageRequest', 'StreamResponse'),
        'GetTask': ('GetTaskRequest', 'Task'),
        'CancelTask': ('CancelTaskRequest', 'Task'),
        'TaskSubscription': ('TaskSubscriptionRequest', 'StreamResponse'),
        f'Create{PUSH}': (f'Create{PUSH}Request', PUSH),
        f'Get{PUSH}': (f'Get{PUSH}Request', PUSH),
        PUSH_LIST: (f'{PUSH_LIST}Request', f'{PUSH_LIST}Response'),
        f'Delete{PUSH}': (f'Delete{PUSH}Request', 'google.protobuf.Empty'),
        'GetAgentCard': ('GetAgentCardRequest', 'AgentCard'),
    },
    'lf.a2a.v1': {
        'SendMessage': ('SendMessageRequest', 'SendMessageResponse'),
        'SendStreamingMessage': ('SendMessageRequest', 'StreamResponse'),
        'GetTask': ('GetTaskRequest', 'Task'),
        'ListTasks': ('ListTasksRequest', 'ListTasksResponse'),
        'CancelTask': ('CancelTaskRequest', 'Task'),
        'SubscribeToTask': ('SubscribeToTaskRequest', 'StreamResponse'),
        f'Create{PUSH}': (PUSH, PUSH),
        f'Get{PUSH}': (f'Get{PUSH}Request', PUSH),
        f'{PUSH_LIST}s': (f'{PUSH_LIST}sRequest', f'{PUSH_LIST}sResponse'),
        f'Delete{PUSH}': (f'Delete{PUSH}Request', 'google.protobuf.Empty'),
        'GetExtendedAgentCard': ('GetExtendedAgentCardRequest', 'AgentCard'),
    },
}
FINAL_STATES = {pb_v03.TASK_STATE_COMPLETED, pb_v03.TASK_STATE_FAILED, pb_v03.TASK_STATE_CANCELLED,
                pb_v03.TASK_STATE_REJECTED}


class Exchange:
    """One request and its reply, over HTTP or gRPC."""

    def __init__(self, method, path, headers, body):
        self.method, self.path, self.headers, self.body = method, path, headers, body
        self.head = b''
        self.status, self.reply_headers, self.reply = None, [], b''
        # gRPC only: the messages of the reply, and how the call ended.
        self.messages, self.trailers, self.detail = None, [], ''
        self.done = asyncio.Event()


# --- HTTP -------------------------------------------------------------------------------------------------------------


async def read_head(reader):
    head = await reader.readuntil(b'\r\n\r\n')
    first, *lines = head.decode('latin-1').split('\r\n')
    return head, first, [tuple(part.strip() for part in line.split(':', 1)) for line in lines if line]


def header(headers, name):
    return next((value for key, value in headers if key.lower() == name), None)


async def read_body(reader, headers):
    if 'chunked' in (header(headers, 'transfer-encoding') or '').lower():
        raw = b''
        while not raw.endswith(b'0\r\n\r\n'):
            raw += await reader.readuntil(b'\r\n')
        return raw, unchunked(raw)
    body = await reader.readexactly(int(header(headers, 'content-length') or 0))
    return body, body


def unchunked(raw):
    body = b''
    while raw:
        size, _, raw = raw.partition(b'\r\n')
        length = int(size.split(b';')[0] or b'0', 16)
        if length == 0:
            break
        body, raw = body + raw[:length], raw[length + 2 :]
    return body


def closing(head):
    """The same head, asking for the connection to be closed: one connection then carries one exchange."""
    first, *lines = head.split(b'\r\n')
    kept = [line for line in lines if line and not line.lower().startswith((b'connection:', b'keep-alive:'))]
    return b'\r\n'.join([first, *kept, b'Connection: close', b'', b''])


async def relay(recorder, upstream, reader, writer):
    """Passes one request on, and the reply back as it comes."""
    with contextlib.suppress(asyncio.IncompleteReadError, ConnectionError):
        head, first, headers = await read_head(reader)
        raw, body = await read_body(reader, headers)
        method, path, _ = first.split(' ', 2)
        exchange = Exchange(method, path, headers, body)
        exchange.head = head
        recorder.started(exchange)
        try:
            far_reader, far_writer = await asyncio.open_connection(*upstream)
            far_writer.write(closing(head) + raw)
            await far_writer.drain()
            reply_head, status, exchange.reply_headers = await read_head(far_reader)
            exchange.status = int(status.split(' ')[1])
            writer.write(closing(reply_head))
            gone = asyncio.create_task(reader.read())
            raw = b''
            while True:
                chunk = asyncio.create_task(far_reader.read(65536))
                await asyncio.wait({chunk, gone}, return_when=asyncio.FIRST_COMPLETED)
                if not chunk.done():
                    chunk.cancel()
                    break
                if not chunk.result():
                    break
                raw += chunk.result()
                writer.write(chunk.result())
                await writer.drain()
            gone.cancel()
            far_writer.close()
            if 'chunked' in (header(exchange.reply_headers, 'transfer-encoding') or '').lower():
                raw = unchunked(raw)
            exchange.reply = raw
        finally:
            exchange.done.set()
            writer.close()


async def accept_hook(recorder, reader, writer):
    with contextlib.suppress(asyncio.IncompleteReadError, ConnectionError):
        head, first, headers = await read_head(reader)
        _, body = await read_body(reader, headers)
        answer = b''
        if first.startswith('GET'):
            # 0.1 servers ask a hook to repeat a token before they trust it.
            answer = re.sub(r'.*validationToken=([^ &]*).*', r'\1', first).encode()
        else:
            recorder.hooks.append((head, headers, body))
        writer.write(f'HTTP/1.1 200 OK\r\nContent-Length: {len(answer)}\r\nConnection: close\r\n\r\n'.encode() + answer)
        await writer.drain()
    writer.close()


async def accept_mark(recorder, reader, writer):
    with contextlib.suppress(asyncio.IncompleteReadError, ConnectionError):
        _, first, headers = await read_head(reader)
        _, body = await read_body(reader, headers)
        try:
            if '/begin' in first:
                recorder.begin(json.loads(body))
                answer = 'ok'
            else:
                answer = await recorder.end()
            status = '200 OK'
        except Exception as error:
            answer, status = f'{type(error).__name__}: {error}', '500 Internal Server Error'
        text = answer.encode()
        writer.write(f'HTTP/1.1 {status}\r\nContent-Length: {len(text)}\r\nConnection: close\r\n\r\n'.encode() + text)
        await writer.drain()
    writer.close()


# --- gRPC -------------------------------------------------------------------------------------------------------------


class Relay(grpc.GenericRpcHandler):
    """Passes every method on as bytes. On the wire a unary reply is a stream of one, so one shape serves both."""

    def __init__(self, recorder, channel):
        self.recorder, self.channel = recorder, channel

    def service(self, details):
        method = details.method

        async def call(request, context):
            metadata = [(k, v) for k, v in context.invocation_metadata() if not k.startswith('grpc-')]
            exchange = Exchange('GRPC', method, metadata, request)
            exchange.messages = []
            self.recorder.started(exchange)
            passed = [(k, v) for k, v in metadata if k != 'user-agent']
            far = self.channel.unary_stream(method)(request, metadata=passed)
            try:
                async for message in far:
                    exchange.messages.append(message)
                    yield message
                exchange.status = 'OK'
                exchange.trailers = list(await far.trailing_metadata() or [])
                context.set_trailing_metadata(tuple(exchange.trailers))
            except grpc.aio.AioRpcError as error:
                exchange.status, exchange.detail = error.code().name, error.details()
                exchange.trailers = list(error.trailing_metadata() or [])
                exchange.done.set()
                await context.abort(error.code(), error.details() or '', tuple(exchange.trailers))
            finally:
                far.cancel()
                exchange.done.set()

        return grpc.unary_stream_rpc_method_handler(call)


# --- Names ------------------------------------------------------------------------------------------------------------


def events_of(stream):
    """The payloads of a server-sent event stream: the text after `data:`, as it stands."""
    for block in re.split(rb'\r?\n\r?\n', stream):
        data = [line[5:].removeprefix(b' ') for line in re.split(rb'\r?\n', block) if line.startswith(b'data:')]
        if data:
            yield b'\n'.join(data)


def event_name(payload):
    """What kind of event this is, in any of the dialects."""
    value = json.loads(payload)
    if not isinstance(value, dict):
        return 'event.other'
    if 'error' in value:
        return 'event.error'
    value = value.get('result', value)
    kind = value.get('kind')
    for names in (('task',), ('message', 'msg'), ('statusUpdate', 'status_update'), ('artifactUpdate',)):
        for name in names:
            if kind is None and isinstance(value.get(name), dict):
                kind, value = names[0], value[name]
    if kind is None:
        if 'artifact' in value:
            kind = 'artifactUpdate'
        elif 'history' in value or 'artifacts' in value:
            # Where every event is a whole task, only the state tells one from the next.
            kind = f'task-{value["status"]["state"]}'
        else:
            kind = 'statusUpdate' if 'status' in value else 'other'
    if kind in ('status-update', 'statusUpdate'):
        return 'event.status-final' if value.get('final') or final_state(value) else 'event.status'
    if kind in ('artifact-update', 'artifactUpdate'):
        append = value.get('append') or value['artifact'].get('append')
        return 'event.artifact-append' if append else 'event.artifact'
    return f'event.{kind}'


def final_state(event):
    state = str(event.get('status', {}).get('state', '')).lower()
    return state.endswith(('completed', 'canceled', 'cancelled', 'failed', 'rejected'))


def grpc_event_name(message):
    """The same for gRPC. What is looked at has the same field numbers in 0.3 and 1.0."""
    event = pb_v03.StreamResponse.FromString(message)
    which = event.WhichOneof('payload')
    if which == 'status_update':
        final = event.status_update.status.state in FINAL_STATES
        return 'event.status-final' if final or event.status_update.final else 'event.status'
    if which == 'artifact_update':
        return 'event.artifact-append' if event.artifact_update.append else 'event.artifact'
    return {'task': 'event.task', 'msg': 'event.message'}.get(which, 'event.other')


def refused(exchange):
    """Whether the answer is a refusal, in whatever way the binding says no."""
    if exchange.messages is not None:
        return exchange.status != 'OK'
    if exchange.status >= 400 or not exchange.reply:
        return exchange.status >= 400
    for payload in [*events_of(exchange.reply), exchange.reply]:
        with contextlib.suppress(ValueError):
            value = json.loads(payload)
            return isinstance(value, dict) and 'error' in value
    return False


def honest_name(name, refusal):
    """A probe is named after what it asks for; what it got may be something else."""
    if refusal and not name.startswith('error.'):
        return 'error.' + name.removesuffix('.reply')
    if not refusal and name.startswith('error.'):
        return 'lenient.' + name.removeprefix('error.')
    return name


def kind_of(name, suffix, direction):
    """The `kind` of a fixture, from its name."""
    if suffix == '.bin':
        return 'protobuf'
    if suffix == '.sse':
        return 'sse'
    for prefix, kind in (('error', 'error'), ('event.', 'event'), ('push-payload', 'push-payload')):
        if name.startswith(prefix):
            return kind
    if direction == 'client->server':
        return 'request'
    if 'card' in name:
        return 'card'
    return 'push-config' if name.startswith('push-') else 'reply'


# --- The recorder -----------------------------------------------------------------------------------------------------


class Recorder:
    def __init__(self, session):
        self.session = session
        self.out = pathlib.Path(session['out'])
        self.mark, self.exchanges, self.hooks = None, [], []

    def started(self, exchange):
        self.exchanges.append(exchange)

    def begin(self, mark):
        self.mark, self.exchanges, self.hooks = mark, [], []

    async def end(self):
        """Writes what the mark asked for, and says in a line what that was."""
        mark, self.mark = self.mark, None
        written = []
        if mark.get('request') or mark.get('reply'):
            wanted = [e for e in self.exchanges if re.search(mark.get('path', ''), e.path)]
            if not wanted and mark.get('may_fail'):
                return 'nothing was sent'
            if not wanted:
                raise LookupError(f'nothing passed for {mark}; seen: {[e.path for e in self.exchanges]}')
            exchange = wanted[mark.get('nth', 0)]
            with contextlib.suppress(asyncio.TimeoutError):
                await asyncio.wait_for(exchange.done.wait(), SETTLE_SECONDS)
            if mark.get('reply') and (mark.get('probe') or mark.get('may_fail')):
                mark['reply'] = honest_name(mark['reply'], refused(exchange))
            written += self.write_request(mark, exchange) + self.write_reply(mark, exchange)
        if mark.get('hook'):
            written += await self.write_hooks(mark)
        return ' '.join(written)

    def write_request(self, mark, exchange):
        if not mark.get('request') or 'request' not in self.session['save']:
            return []
        about = self.about(mark, exchange, 'client')
        if exchange.messages is not None:
            return [self.write(mark, 'client', mark['request'], '.bin', exchange.body, about)]
        if exchange.body:
            written = [self.write(mark, 'client', mark['request'], '.json', exchange.body, about)]
            # Where the head is part of what is said, as with a signature.
            if mark.get('head'):
                written.append(self.write(mark, 'client', mark['request'], '.headers', exchange.head, about))
            return written
        return [self.write(mark, 'client', mark['request'], '.http', exchange.head, about)]

    def write_reply(self, mark, exchange):
        if 'reply' not in self.session['save']:
            return []
        if exchange.messages is not None:
            return self.write_grpc_reply(mark, exchange)
        about = self.about(mark, exchange, 'server')
        stream = (header(exchange.reply_headers, 'content-type') or '').startswith('text/event-stream')
        stream = stream or exchange.reply.startswith((b'data:', b'event:', b'id:', b':'))
        written = []
        # A stream that broke off before its first byte leaves nothing to keep.
        if mark.get('reply') and (exchange.reply or not stream):
            suffix = '.sse' if stream else mark.get('suffix') or suffix_of(exchange)
            written.append(self.write(mark, 'server', mark['reply'], suffix, exchange.reply, about))
        if mark.get('events') is not None and stream:
            seen = set()
            for payload in events_of(exchange.reply):
                name = mark['events'] + event_name(payload)
                if name not in seen:
                    seen.add(name)
                    written.append(self.write(mark, 'server', name, '.json', payload, about))
        return written

    def write_grpc_reply(self, mark, exchange):
        about = self.about(mark, exchange, 'server')
        if exchange.status != 'OK':
            # There is no body: the status is the answer. Its binary details, where there are any, are kept as they are.
            details = dict(exchange.trailers).get('grpc-status-details-bin')
            trailers = {k: v for k, v in exchange.trailers if isinstance(v, str)}
            status = {'code': exchange.status, 'message': exchange.detail, 'trailers': trailers}
            text = json.dumps(status, ensure_ascii=False).encode()
            written = [self.write(mark, 'server', mark['reply'], '.status.json', text, about)]
            if details:
                about = {**about, 'message': 'google.rpc.Status'}
                written.append(self.write(mark, 'server', mark['reply'] + '.details', '.bin', details, about))
            return written
        if mark.get('events') is None:
            assert len(exchange.messages) == 1 or mark.get('probe'), f'{len(exchange.messages)} messages in {mark}'
            return [self.write(mark, 'server', mark['reply'], '.bin', exchange.messages[0], about)]
        written, seen = [], set()
        for message in exchange.messages:
            name = mark['events'] + grpc_event_name(message)
            if name not in seen:
                seen.add(name)
                written.append(self.write(mark, 'server', name, '.bin', message, about))
        return written

    async def write_hooks(self, mark):
        for _ in range(int(SETTLE_SECONDS / HOOK_QUIET_SECONDS)):
            count = len(self.hooks)
            await asyncio.sleep(HOOK_QUIET_SECONDS)
            if self.hooks and len(self.hooks) == count:
                break
        if not self.hooks:
            raise LookupError(f'no webhook came for {mark}')
        written = []
        if 'reply' in self.session['save']:
            for number, (head, headers, body) in enumerate(self.hooks, 1):
                last = number == len(self.hooks)
                name = mark['hook'] if last else f'{mark["hook"]}-{number}'
                about = {
                    'content_type': header(headers, 'content-type'),
                    'headers': telling(headers),
                    'http': head.split(b' HTTP')[0].decode(),
                }
                written.append(self.write(mark, 'server', name, '.json', body, about))
                if last:
                    written.append(self.write(mark, 'server', name, '.headers', head, about))
        return written

    def about(self, mark, exchange, side):
        about = {}
        method = mark.get('method')
        if exchange.messages is not None:
            service, name = exchange.path.lstrip('/').rsplit('/', 1)
            method = method or f'{service}/{name}'
            package = service.rsplit('.', 1)[0]
            message = GRPC_TYPES[package][name][0 if side == 'client' else 1]
            about['message'] = message if '.' in message else f'{package}.{message}'
        else:
            about['http'] = f'{exchange.method} {exchange.path}'
            with contextlib.suppress(ValueError, AttributeError):
                method = method or json.loads(exchange.body).get('method')
        about['method'] = method
        if side == 'client':
            about['content_type'] = header(exchange.headers, 'content-type')
            about['headers'] = telling(exchange.headers)
        else:
            about['status' if exchange.messages is None else 'grpc_status'] = exchange.status
            about['content_type'] = header(exchange.reply_headers, 'content-type')
            about['headers'] = telling(exchange.reply_headers)
            if mark.get('provoked_by'):
                about['provoked_by'] = mark['provoked_by']
        return about

    def write(self, mark, side, name, suffix, body, about):
        """Writes a body and its line in the index."""
        who, other = self.session[side], self.session['server' if side == 'client' else 'client']
        direction = 'client->server' if side == 'client' else 'server->client'
        if name.startswith('push-payload'):
            direction = 'server->client'
        file = f'{mark["dialect"]}/{who["peer"]}/{name}{suffix}'
        path = self.out / file
        same = mark.get('unless_same_as')
        if same and path.with_name(same).exists() and path.with_name(same).read_bytes() == body:
            return f'({file} is {same})'
        if mark.get('probe') and path.exists():
            return f'({file} was said to a real client)'
        path.parent.mkdir(parents=True, exist_ok=True)
        path.write_bytes(body)
        entry = {
            'file': file,
            'dialect': mark['dialect'],
            'kind': kind_of(name, suffix, direction),
            'direction': direction,
            **{key: value for key, value in about.items() if value},
            'package': who['package'],
            'version': who['version'],
            'other_side': 'written by hand' if mark.get('probe') else f'{other["package"]} {other["version"]}'.strip(),
            'command': self.session['command'],
        }
        with open(self.session['records'], 'a', encoding='utf-8') as records:
            records.write(json.dumps(entry) + '\n')
        return file


def suffix_of(exchange):
    """What a reply that is not a stream is called: JSON where it is, otherwise plain text or nothing at all."""
    if not exchange.reply:
        return '.empty'
    try:
        json.loads(exchange.reply)
        return '.json'
    except ValueError:
        return '.txt'


def telling(headers):
    return {key.lower(): value for key, value in headers if isinstance(value, str) and TELLING.match(key)}


async def main():
    session = json.loads(pathlib.Path(sys.argv[1]).read_text())
    recorder = Recorder(session)
    ports = session['ports']

    async def listen(port, serve, *arguments):
        async def accept(reader, writer):
            await serve(recorder, *arguments, reader, writer)

        return await asyncio.start_server(accept, '127.0.0.1', port, limit=1 << 22)

    await listen(ports['http'], relay, ('127.0.0.1', ports['server_http']))
    await listen(ports['hook'], accept_hook)
    server = grpc.aio.server()
    channel = grpc.aio.insecure_channel(f'127.0.0.1:{ports["server_grpc"]}')
    server.add_generic_rpc_handlers((Relay(recorder, channel),))
    server.add_insecure_port(f'127.0.0.1:{ports["grpc"]}')
    await server.start()
    await listen(ports['control'], accept_mark)
    print('ready', flush=True)
    await asyncio.Event().wait()


if __name__ == '__main__':
    asyncio.run(main())
