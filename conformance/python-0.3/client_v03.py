"""Drives an A2A server with the last official Python SDK for 0.3 and reports, case by case, whether it kept its word.

    client_v03.py BASE_URL [--binding JSONRPC] [--case send-blocking]

Every case runs once per binding. Clients are made from the server's card alone, through the SDK's public calls and with
its own defaults for timeouts and headers. The promise behind each case is in `../cases/a2a-0.3.txt`; the script the
server plays is in `../sabir.toml`.

This SDK knows the errors of the protocol by class over JSON-RPC only. Over the other bindings its users branch on the
HTTP status and on the gRPC status, so there those are checked: the ones official servers of 0.3 answer with.
"""

import asyncio
import base64
import contextlib
import pathlib
import sys
import time
import uuid

import grpc
import httpx

sys.path.insert(0, str(pathlib.Path(__file__).resolve().parent.parent))

from a2a import types
from a2a.client import (
    A2ACardResolver,
    A2AClientHTTPError,
    ClientCallInterceptor,
    ClientConfig,
    ClientFactory,
    minimal_agent_card,
)
from a2a.client.errors import A2AClientJSONRPCError
from a2a.types import (
    GetTaskPushNotificationConfigParams,
    Message,
    MessageSendConfiguration,
    PushNotificationConfig,
    Role,
    Task,
    TaskArtifactUpdateEvent,
    TaskIdParams,
    TaskPushNotificationConfig,
    TaskQueryParams,
    TaskState,
    TaskStatusUpdateEvent,
)
from checks import (
    BINDINGS,
    HOOK,
    QUIET_SECONDS,
    Follower,
    NotExpressible,
    Wrong,
    case,
    describe,
    equal,
    outcome_of,
    present,
    run,
    short,
)

# How each error shows itself: the class within a JSON-RPC reply, the HTTP statuses, the gRPC status. Where there are
# two statuses, the first is the Python server's and the second the JavaScript server's.
ERRORS = {
    'TaskNotFound': (types.TaskNotFoundError, [404], 'NOT_FOUND'),
    # JavaScript clients of this version know it as a failed precondition, so that is what both get.
    'TaskNotCancelable': (types.TaskNotCancelableError, [409], 'FAILED_PRECONDITION'),
    'PushNotificationNotSupported': (types.PushNotificationNotSupportedError, [501, 400], 'UNIMPLEMENTED'),
    'UnsupportedOperation': (types.UnsupportedOperationError, [501, 400], 'UNIMPLEMENTED'),
    'InvalidParams': (types.InvalidParamsError, [422, 400], 'INVALID_ARGUMENT'),
    'MethodNotFound': (types.MethodNotFoundError, [404], 'UNIMPLEMENTED'),
    'ExtendedCardNotConfigured': (types.AuthenticatedExtendedCardNotConfiguredError, [404], 'FAILED_PRECONDITION'),
}


class Peer:
    """The SDK's clients for one binding: `unary` never streams, `polling` does not wait, the others stream."""

    def __init__(self, base, binding, version):
        self.base, self.binding, self.made = base, binding, []

    async def connect(self):
        self.unary = await self.client(streaming=False)
        self.polling = await self.client(streaming=False, polling=True)
        self.stream = await self.client()
        self.other = await self.client()

    async def close(self):
        for client in self.made:
            await client.close()

    async def client(self, at='', interceptors=None, path=None, **settings):
        client = await ClientFactory.connect(
            self.base + at, self.config(**settings), interceptors=interceptors, relative_card_path=path
        )
        self.made.append(client)
        return client

    def config(self, **settings):
        return ClientConfig(
            supported_transports=[self.binding],
            # Channels to one target share a connection unless told otherwise.
            grpc_channel_factory=lambda url: grpc.aio.insecure_channel(
                url, options=[('grpc.use_local_subchannel_pool', 1)]
            ),
            **settings,
        )

    async def card(self, at=''):
        async with httpx.AsyncClient() as http:
            return await A2ACardResolver(http, self.base + at).get_agent_card()

    async def send(self, message, client=None, **options):
        """message/send. The SDK hands the reply back as a stream of one."""
        replies = [reply async for reply in (client or self.unary).send_message(message, **options)]
        equal('number of replies', len(replies), 1)
        return replies[0][0] if isinstance(replies[0], tuple) else replies[0]

    async def send_for_task(self, message, **options):
        reply = await self.send(message, **options)
        if not isinstance(reply, Task):
            raise Wrong(f'expected a task, got a {type(reply).__name__}')
        return reply

    async def send_streaming(self, message, **options):
        return [update(event) async for event in self.stream.send_message(message, **options)]

    async def get(self, task_id, history_length=None):
        return await self.unary.get_task(TaskQueryParams(id=task_id, history_length=history_length))

    async def cancel(self, task_id):
        return await self.unary.cancel_task(TaskIdParams(id=task_id))

    def follow(self, client, task_id):
        """A subscription read in the background."""
        return Follower(update(event) async for event in client.resubscribe(TaskIdParams(id=task_id)))

    @contextlib.asynccontextmanager
    async def running(self, text, **options):
        """A task that is still open, and is not left behind when the case ends badly."""
        task = await self.send_for_task(say(text), client=self.polling, **options)
        try:
            yield task
        finally:
            with contextlib.suppress(Exception):
                await self.cancel(task.id)

    async def plain(self, **settings):
        """A client for the agent that neither streams nor pushes."""
        card = await self.card('/agents/plain')
        offered = [card.preferred_transport or 'JSONRPC', *(i.transport for i in card.additional_interfaces or [])]
        if self.binding == 'GRPC' and 'GRPC' not in offered:
            raise NotExpressible('0.3 cannot say which of the agents at one gRPC address is meant')
        return await self.client('/agents/plain', **settings)


# --- Words the cases are written in -----------------------------------------------------------------------------------


def say(text, **fields):
    value = {'messageId': str(uuid.uuid4()), 'role': 'user', 'parts': [{'kind': 'text', 'text': text}], **fields}
    return Message.model_validate(value)


def update(event):
    """What a stream brought: the client shows a task, put together by itself, and the update that changed it."""
    if isinstance(event, tuple):
        task, change = event
        # The client goes on building with both.
        return (change or task).model_copy(deep=True)
    return event


def in_state(status, want, text=None):
    equal('state', status.state, want)
    if text is not None:
        equal('status text', text_of(status.message), text)
        equal('role of the status message', status.message.role, Role.agent)


def text_of(parted):
    return ''.join(part.root.text for part in parted.parts if part.root.kind == 'text') if parted else ''


def plain(value):
    """A value without what is empty: the SDK makes empty things of absent ones on some bindings."""
    if isinstance(value, list):
        return [plain(item) for item in value]
    if isinstance(value, dict):
        return {key: plain(item) for key, item in value.items() if item not in (None, '', [], {})}
    return plain(value.model_dump(mode='json')) if hasattr(value, 'model_dump') else value


def kinds(events):
    return [event.kind for event in events]


def final_status(events):
    """The status a stream ended with: a server may close with an update or with a last snapshot of the task."""
    present('events', events)
    if not isinstance(events[-1], Task | TaskStatusUpdateEvent):
        raise Wrong(f'the stream ended with {events[-1].kind}')
    return events[-1].status


def ends_with_final(events):
    """Checks that `final` is on the last event and on no other."""
    updates = [event for event in events if isinstance(event, TaskStatusUpdateEvent)]
    present('status updates', updates)
    equal('last event', events[-1].kind, 'status-update')
    equal('final', [event.final for event in updates], [False] * (len(updates) - 1) + [True])


async def refused(names, call):
    """Checks that a call, or the reading of a stream, fails with one of these errors, as this SDK shows them."""
    names = names.split()
    try:
        result = await outcome_of(call)
    except A2AClientJSONRPCError as error:
        known = [ERRORS[name][0] for name in names]
        # The SDK tells error codes apart by the first class of its union that fits, so the code is what counts.
        if error.error.code in [one.model_fields['code'].default for one in known]:
            return
        raise Wrong(f'expected {names}, got {describe(error)}') from error
    except A2AClientHTTPError as error:
        if any(error.status_code in ERRORS[name][1] for name in names):
            return
        raise Wrong(f'expected {names}, got {describe(error)}') from error
    except grpc.aio.AioRpcError as error:
        if error.code().name in [ERRORS[name][2] for name in names]:
            return
        raise Wrong(f'expected {names}, got {error.code().name}: {short(error.details())}') from error
    except Exception as other:
        raise Wrong(f'expected {names}, got {describe(other)}') from other
    raise Wrong(f'expected {names}, got an answer: {short(result)}')


# --- Discovery --------------------------------------------------------------------------------------------------------


@case('discover')
async def _(peer):
    card = await peer.unary.get_card()
    equal('name', card.name, 'demo')
    equal('description', card.description, 'conformance agent')
    equal('version', card.version, '1.0.0')
    equal('protocolVersion', card.protocol_version[:3], '0.3')
    equal('capabilities', (card.capabilities.streaming, card.capabilities.push_notifications), (True, True))
    skills = [(s.id, s.name, s.description, s.tags) for s in card.skills]
    equal('skills', skills, [('demo', 'demo', 'demo', ['demo'])])
    present('defaultInputModes', card.default_input_modes)
    present('defaultOutputModes', card.default_output_modes)
    urls = {interface.transport: interface.url.rstrip('/') for interface in card.additional_interfaces or []}
    equal('bindings', sorted(urls), sorted(BINDINGS))
    host = peer.base.removeprefix('http://')
    equal('urls', urls, {'JSONRPC': peer.base, 'HTTP+JSON': peer.base, 'GRPC': host})
    equal('preferred url', card.url.rstrip('/'), urls[card.preferred_transport or 'JSONRPC'])


@case('discover-old-path')
async def _(peer):
    client = await peer.client(path='/.well-known/agent.json', streaming=False)
    equal('name', (await client.get_card()).name, 'demo')
    in_state((await peer.send(say('hello'), client)).status, TaskState.completed)


@case('discover-agent')
async def _(peer):
    client = await peer.plain(streaming=False)
    equal('name', (await client.get_card()).name, 'plain')
    equal('who answered', text_of((await peer.send(say('hello'), client)).status.message), 'plainly')


@case('discover-address')
async def _(peer):
    if peer.binding != 'GRPC':
        raise NotExpressible('over this binding the SDK asks for an extended card only')
    # The way of the SDK's documentation to reach a server that speaks gRPC alone.
    card = minimal_agent_card(peer.base.removeprefix('http://'), ['GRPC'])
    client = ClientFactory(peer.config(streaming=False)).create(card)
    peer.made.append(client)
    equal('name', (await client.get_card()).name, 'demo')


@case('extended-card')
async def _(peer):
    # The SDK asks only if the card declares an extended one, so the client is given a card that claims it.
    card = await peer.card()
    card.supports_authenticated_extended_card = True
    client = ClientFactory(peer.config(streaming=False)).create(card)
    peer.made.append(client)
    if peer.binding == 'GRPC':
        with contextlib.suppress(grpc.aio.AioRpcError):
            equal('name', (await client.get_card()).name, 'demo')
            return
    await refused('UnsupportedOperation ExtendedCardNotConfigured', client.get_card())


# --- Sending and reading back -----------------------------------------------------------------------------------------


@case('send-blocking')
async def _(peer):
    text = 'héllo wörld, ✓ 你好 🌊'
    message = say(text)
    task = await peer.send_for_task(message)
    present('id', task.id)
    present('contextId', task.context_id)
    in_state(task.status, TaskState.completed)
    if peer.binding == 'JSONRPC':
        # Over the other bindings the SDK does not read the time.
        present('timestamp', task.status.timestamp)
        stamp = time.strptime(task.status.timestamp[:19], '%Y-%m-%dT%H:%M:%S')
        equal('timestamp is now', abs(time.mktime(stamp) - time.mktime(time.gmtime())) < 600, True)
    equal('artifacts', [text_of(artifact) for artifact in task.artifacts], [text])
    present('artifactId', task.artifacts[0].artifact_id)
    present('history', task.history)
    kept = task.history[0]
    equal('message in history', (kept.message_id, kept.role), (message.message_id, Role.user))
    equal('text in history', text_of(kept), text)


@case('send-aggregate')
async def _(peer):
    task = await peer.send_for_task(say('stream, but in one reply'))
    in_state(task.status, TaskState.completed, 'done')
    artifacts = [(a.artifact_id, a.name, text_of(a)) for a in task.artifacts]
    equal('artifacts', artifacts, [('a1', 'draft', 'part one part two')])
    said = task.status.message
    equal('ids of the status message', (said.task_id, said.context_id), (task.id, task.context_id))


@case('send-polling')
async def _(peer):
    task = await peer.send_for_task(say('soon'), client=peer.polling)
    open_states = (TaskState.submitted, TaskState.working)
    if task.status.state not in open_states:
        raise Wrong(f'state in the reply: {task.status.state}')
    while task.status.state in open_states:
        await asyncio.sleep(0.1)
        task = await peer.get(task.id)
    in_state(task.status, TaskState.completed, 'it is done')
    equal('artifacts', [text_of(artifact) for artifact in task.artifacts], ['soon enough'])


@case('return-immediately')
async def _(peer):
    started = time.monotonic()
    async with peer.running('slow work') as task:
        if time.monotonic() - started > 4:
            raise Wrong('the reply was not immediate')
        if task.status.state not in (TaskState.submitted, TaskState.working):
            raise Wrong(f'state in the reply: {task.status.state}')
        seen = await peer.get(task.id)
        while seen.status.state == TaskState.submitted:
            await asyncio.sleep(0.05)
            seen = await peer.get(task.id)
        in_state(seen.status, TaskState.working, 'working on it')
        in_state((await peer.cancel(task.id)).status, TaskState.canceled)
        in_state((await peer.get(task.id)).status, TaskState.canceled)


async def echoed(peer, part):
    """Sends a part to be echoed and checks that it comes back as it was."""
    message = say('hello', parts=[{'kind': 'text', 'text': 'hello'}, part])
    task = await peer.send_for_task(message)
    in_state(task.status, TaskState.completed)
    equal('artifacts', len(task.artifacts), 1)
    equal('parts', plain(task.artifacts[0].parts), plain(message.parts))


@case('part-text')
async def _(peer):
    await echoed(peer, {'kind': 'text', 'text': 'héllo wörld, ✓ 你好 🌊'})


@case('part-bytes')
async def _(peer):
    data = base64.b64encode(bytes(range(256))).decode()
    await echoed(peer, {'kind': 'file', 'file': {'mimeType': 'application/octet-stream', 'bytes': data}})


@case('part-uri')
async def _(peer):
    file = {'mimeType': 'image/png', 'uri': 'https://example.com/ä?x=1&y=%20#z'}
    await echoed(peer, {'kind': 'file', 'file': file})


@case('part-data')
async def _(peer):
    data = {'n': 1, 'half': -0.5, 'big': 2**53 - 1, 'on': True, 'deep': {'er': 'x'}, 'list': ['ü', [2], 1e-7]}
    await echoed(peer, {'kind': 'data', 'data': data})


@case('part-name')
async def _(peer):
    file = {'name': 'z z.png', 'mimeType': 'image/png', 'uri': 'https://example.com/z'}
    await echoed(peer, {'kind': 'file', 'file': file})


@case('part-metadata')
async def _(peer):
    await echoed(peer, {'kind': 'text', 'text': 'hi', 'metadata': {'lang': 'en'}})


@case('metadata')
async def _(peer):
    metadata = {'urn:example:note': {'seen': [1, 2]}}
    task = await peer.send_for_task(say('hello', metadata=metadata), request_metadata={'urn:example:trace': 'abc'})
    equal('metadata in history', task.history[0].metadata, metadata)


@case('file-parts')
async def _(peer):
    task = await peer.send_for_task(say('file me'))
    in_state(task.status, TaskState.completed)
    parts = {artifact.artifact_id: artifact.parts[0].root for artifact in task.artifacts}
    equal('artifacts', list(parts), ['f', 'd', 'u'])
    raw, data, uri = parts.values()
    equal('bytes', (raw.file.bytes, raw.file.mime_type), ('AAEC/w==', 'application/octet-stream'))
    equal('name', raw.file.name, 'a.bin')
    equal('data', data.data, {'n': 1, 'list': [1, 2], 'ok': True})
    equal('uri', (uri.file.uri, uri.file.mime_type), ('https://example.com/x.png', 'image/png'))


@case('direct-send')
async def _(peer):
    reply = await peer.send(say('direct please'))
    equal('kind of reply', reply.kind, 'message')
    equal('text', text_of(reply), 'just a message')
    equal('role', reply.role, Role.agent)
    present('messageId', reply.message_id)
    present('contextId', reply.context_id)
    equal('taskId', reply.task_id, None)


@case('failed')
async def _(peer):
    in_state((await peer.send_for_task(say('fail now'))).status, TaskState.failed, 'could not')


@case('rejected')
async def _(peer):
    in_state((await peer.send_for_task(say('reject this'))).status, TaskState.rejected, 'will not')


@case('extensions-header')
async def _(peer):
    unknown = ['https://example.com/ext/unknown/v1', 'urn:example:other']
    in_state((await peer.send(say('hello'), extensions=unknown)).status, TaskState.completed)
    in_state(final_status(await peer.send_streaming(say('hello'), extensions=unknown)), TaskState.completed)


@case('get-task')
async def _(peer):
    sent = await peer.send_for_task(say('hello'))
    equal('task', plain(await peer.get(sent.id)), plain(sent))


@case('history-length')
async def _(peer):
    asked = await peer.send_for_task(say('book a table'))
    await peer.send_for_task(say('Tuesday', taskId=asked.id))
    everything = await peer.get(asked.id)
    if len(everything.history) < 2:
        raise Wrong(f'history of two turns has {len(everything.history)} messages')
    latest = (await peer.get(asked.id, 1)).history
    equal('history at 1', [m.message_id for m in latest], [everything.history[-1].message_id])
    sent = await peer.send_for_task(say('hello'), configuration=MessageSendConfiguration(history_length=1))
    equal('history of a reply at 1', len(sent.history), 1)
    if peer.binding == 'JSONRPC':
        # The protocol buffers of 0.3 cannot tell nought from nothing.
        equal('history at 0', (await peer.get(asked.id, 0)).history or [], [])
        await refused('InvalidParams', peer.get(asked.id, -1))


# --- Streams ----------------------------------------------------------------------------------------------------------


@case('stream')
async def _(peer):
    events = await peer.send_streaming(say('stream it'))
    present('events', events)
    equal('first event', events[0].kind, 'task')
    task = events[0]
    present('id', task.id)
    present('contextId', task.context_id)
    for event in events[1:]:
        equal('ids on an event', (event.task_id, event.context_id), (task.id, task.context_id))
    spoken = [e for e in events[1:] if isinstance(e, TaskArtifactUpdateEvent) or text_of(e.status.message)]
    order = ['status-update', 'artifact-update', 'artifact-update', 'status-update']
    equal('order of events', kinds(spoken), order)
    looking, one, two, done = spoken
    in_state(looking.status, TaskState.working, 'looking')
    in_state(done.status, TaskState.completed, 'done')
    chunk = one.artifact
    equal('first chunk', (chunk.artifact_id, chunk.name, text_of(chunk)), ('a1', 'draft', 'part one '))
    equal('flags of the first chunk', (bool(one.append), bool(one.last_chunk)), (False, False))
    equal('second chunk', (two.artifact.artifact_id, text_of(two.artifact)), ('a1', 'part two'))
    equal('flags of the second chunk', (two.append, two.last_chunk), (True, True))
    in_state(final_status(events), TaskState.completed)
    stored = await peer.get(task.id)
    in_state(stored.status, TaskState.completed, 'done')
    equal('stored artifact', [text_of(a) for a in stored.artifacts], ['part one part two'])


@case('stream-final')
async def _(peer):
    ends_with_final(await peer.send_streaming(say('stream it')))
    ends_with_final(await peer.send_streaming(say('fail now')))
    asked = await peer.send_streaming(say('book a table'))
    ends_with_final(asked)
    ends_with_final(await peer.send_streaming(say('Tuesday', taskId=asked[0].id)))
    async with peer.running('slow work') as task:
        follower = await peer.follow(peer.stream, task.id).opened()
        await peer.cancel(task.id)
        ends_with_final(await follower.ended())


@case('stream-dropped')
async def _(peer):
    events = peer.stream.send_message(say('slow, and nobody reads on'))
    task = update(await anext(events))
    present('id', task.id)
    await events.aclose()
    try:
        await asyncio.sleep(0.5)
        in_state((await peer.get(task.id)).status, TaskState.working, 'working on it')
    finally:
        await peer.cancel(task.id)


@case('stream-fallback')
async def _(peer):
    client = await peer.plain()
    in_state((await peer.send(say('hello'), client)).status, TaskState.completed, 'plainly')


@case('direct-stream')
async def _(peer):
    events = await peer.send_streaming(say('direct please'))
    equal('events', kinds(events), ['message'])
    equal('message', (text_of(events[0]), events[0].role), ('just a message', Role.agent))


@case('subscribe-cancel')
async def _(peer):
    async with peer.running('slow work') as task:
        follower = await peer.follow(peer.stream, task.id).opened()
        equal('first event', (follower.events[0].kind, follower.events[0].id), ('task', task.id))
        in_state((await peer.cancel(task.id)).status, TaskState.canceled)
        in_state(final_status(await follower.ended()), TaskState.canceled)


@case('subscribe-two')
async def _(peer):
    asked = await peer.send_for_task(say('book a table'))
    followers = [await peer.follow(client, asked.id).opened() for client in (peer.stream, peer.other)]
    await peer.send_for_task(say('Tuesday', taskId=asked.id))
    one, two = [plain(await follower.ended()) for follower in followers]
    equal('events of the second subscription', two, one)


@case('subscribe-input')
async def _(peer):
    asked = await peer.send_for_task(say('book a table'))
    follower = await peer.follow(peer.stream, asked.id).opened()
    equal('first event', follower.events[0].kind, 'task')
    in_state(follower.events[0].status, TaskState.input_required, 'Which day?')
    await peer.send_for_task(say('Tuesday', taskId=asked.id))
    events = await follower.ended()
    chunks = [event.artifact for event in events if isinstance(event, TaskArtifactUpdateEvent)]
    equal('artifacts', [(a.artifact_id, text_of(a)) for a in chunks], [('booking', 'booked')])
    in_state(final_status(events), TaskState.completed)
    ends_with_final(events)


@case('subscribe-quiet')
async def _(peer):
    async with peer.running('slow work') as task:
        follower = await peer.follow(peer.stream, task.id).opened()
        await asyncio.sleep(QUIET_SECONDS)
        await peer.cancel(task.id)
        in_state(final_status(await follower.ended()), TaskState.canceled)


# --- More than one turn -----------------------------------------------------------------------------------------------


@case('multi-turn')
async def _(peer):
    asked = await peer.send_for_task(say('book a table'))
    in_state(asked.status, TaskState.input_required, 'Which day?')
    done = await peer.send_for_task(say('Tuesday', taskId=asked.id))
    equal('ids', (done.id, done.context_id), (asked.id, asked.context_id))
    in_state(done.status, TaskState.completed, 'booked')
    equal('artifacts', [(a.artifact_id, text_of(a)) for a in done.artifacts], [('booking', 'booked')])


@case('multi-turn-stream')
async def _(peer):
    events = await peer.send_streaming(say('book a table'))
    asked = events[0]
    equal('first event', asked.kind, 'task')
    in_state(final_status(events), TaskState.input_required, 'Which day?')
    events = await peer.send_streaming(say('Tuesday', taskId=asked.id, contextId=asked.context_id))
    equal('first event of the second turn', events[0].kind, 'task')
    equal('ids', (events[0].id, events[0].context_id), (asked.id, asked.context_id))
    chunks = [event.artifact for event in events if isinstance(event, TaskArtifactUpdateEvent)]
    equal('artifacts', [(a.artifact_id, text_of(a)) for a in chunks], [('booking', 'booked')])
    in_state(final_status(events), TaskState.completed, 'booked')


@case('auth-required')
async def _(peer):
    asked = await peer.send_for_task(say('auth please'))
    in_state(asked.status, TaskState.auth_required, 'log in')
    done = await peer.send_for_task(say('I did', taskId=asked.id))
    equal('id', done.id, asked.id)
    in_state(done.status, TaskState.completed, 'in')


@case('context-kept')
async def _(peer):
    chosen = f'context-{uuid.uuid4()}'
    equal('contextId', (await peer.send_for_task(say('hello', contextId=chosen))).context_id, chosen)


@case('context-continued')
async def _(peer):
    first = await peer.send_for_task(say('hello'))
    second = await peer.send_for_task(say('hello again', contextId=first.context_id))
    equal('contextId', second.context_id, first.context_id)
    if second.id == first.id:
        raise Wrong('the second message is in the first task')


@case('context-mismatch')
async def _(peer):
    asked = await peer.send_for_task(say('book a table'))
    other = await peer.send_for_task(say('hello'))
    await refused('InvalidParams', peer.send(say('Tuesday', taskId=asked.id, contextId=other.context_id)))
    in_state((await peer.get(asked.id)).status, TaskState.input_required)


# --- Refusals ---------------------------------------------------------------------------------------------------------


@case('get-unknown')
async def _(peer):
    await refused('TaskNotFound', peer.get(str(uuid.uuid4())))


@case('get-unknown-unicode')
async def _(peer):
    await refused('TaskNotFound', peer.get('tâche perdue ✗'))


@case('cancel-unknown')
async def _(peer):
    await refused('TaskNotFound', peer.cancel(str(uuid.uuid4())))


@case('cancel-settled')
async def _(peer):
    task = await peer.send_for_task(say('hello'))
    await refused('TaskNotCancelable', peer.cancel(task.id))


@case('subscribe-unknown')
async def _(peer):
    not_over_rest(peer)
    await refused('TaskNotFound', peer.stream.resubscribe(TaskIdParams(id=str(uuid.uuid4()))))


@case('subscribe-settled')
async def _(peer):
    not_over_rest(peer)
    task = await peer.send_for_task(say('hello'))
    await refused('UnsupportedOperation', peer.stream.resubscribe(TaskIdParams(id=task.id)))


def not_over_rest(peer):
    if peer.binding == 'HTTP+JSON':
        raise NotExpressible('over HTTP+JSON the SDK does not look at the status of a subscription')


@case('stream-unknown-task')
async def _(peer):
    await refused('TaskNotFound', peer.send_streaming(say('hello', taskId=str(uuid.uuid4()))))


@case('send-settled')
async def _(peer):
    task = await peer.send_for_task(say('hello'))
    await refused('UnsupportedOperation', peer.send(say('one more thing', taskId=task.id)))
    await refused('UnsupportedOperation', peer.send_streaming(say('and another', taskId=task.id)))


@case('send-unknown-task')
async def _(peer):
    await refused('TaskNotFound', peer.send(say('hello', taskId=str(uuid.uuid4()))))


@case('send-no-parts')
async def _(peer):
    await refused('InvalidParams', peer.send(say('', parts=[])))


class Rename(ClientCallInterceptor):
    """Calls another method than the one that was asked for."""

    async def intercept(self, method_name, request_payload, http_kwargs, agent_card, context):
        return {**request_payload, 'method': 'tasks/nothing'}, http_kwargs


@case('unknown-method')
async def _(peer):
    if peer.binding != 'JSONRPC':
        raise NotExpressible('the SDK calls only what it knows')
    client = await peer.client(interceptors=[Rename()], streaming=False)
    await refused('MethodNotFound', peer.send(say('hello'), client))


# --- Push configurations ----------------------------------------------------------------------------------------------


def hook(name, **fields):
    return PushNotificationConfig.model_validate({'id': name, 'url': HOOK, **fields})


async def set_hook(client, task_id, config):
    return await client.set_task_callback(TaskPushNotificationConfig(task_id=task_id, push_notification_config=config))


async def get_hook(peer, task_id, name):
    wanted = GetTaskPushNotificationConfigParams(id=task_id, push_notification_config_id=name)
    return await peer.unary.get_task_callback(wanted)


@case('push-set')
async def _(peer):
    async with peer.running('book a table') as task:
        config = hook('mine', token='tok', authentication={'schemes': ['Bearer'], 'credentials': 'secret'})
        made = await set_hook(peer.unary, task.id, config)
        equal('set', (made.task_id, made.push_notification_config.id), (task.id, 'mine'))
        equal('url', made.push_notification_config.url, HOOK)
        got = await get_hook(peer, task.id, 'mine')
        kept = got.push_notification_config
        # Not the token: a server may keep secrets to itself.
        equal('got', (got.task_id, kept.id, kept.url), (task.id, 'mine', HOOK))
        equal('schemes', kept.authentication.schemes, ['Bearer'])


@case('push-list')
async def _(peer):
    raise NotExpressible('the SDK has no call for it')


@case('push-delete')
async def _(peer):
    raise NotExpressible('the SDK has no call for it')


@case('push-inline')
async def _(peer):
    client = await peer.client(streaming=False, polling=True, push_notification_configs=[hook('inline', token='tok')])
    task = await peer.send(say('book a table'), client)
    got = await get_hook(peer, task.id, 'inline')
    equal('got', (got.task_id, got.push_notification_config.url), (task.id, HOOK))


@case('push-unknown')
async def _(peer):
    await refused('TaskNotFound', set_hook(peer.unary, str(uuid.uuid4()), hook('mine')))


@case('push-unsupported')
async def _(peer):
    client = await peer.plain(streaming=False)
    task = await peer.send(say('hello'), client)
    await refused('PushNotificationNotSupported', set_hook(client, task.id, hook('mine')))


if __name__ == '__main__':
    run(Peer, ['0.3'])
