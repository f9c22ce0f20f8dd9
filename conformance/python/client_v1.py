"""Drives an A2A server with the official Python SDK 1.x and reports, case by case, whether it kept its word.

    client_v1.py BASE_URL [--speak 1.0 | 0.3] [--binding JSONRPC] [--case send-blocking]

Every case runs once per binding the SDK's client speaks. Only public calls of the SDK are used, as its documentation
shows them, with its own defaults for timeouts and headers: what is tested is what its users will meet. The promise
behind each case is in `../cases/`; the script the server plays is in `../sabir.toml`. Told to speak 0.3, the client is
given a card from which all newer interfaces were struck, and so uses its transports for older servers.
"""

import asyncio
import contextlib
import pathlib
import sys
import time
import uuid

import grpc
import httpx

sys.path.insert(0, str(pathlib.Path(__file__).resolve().parent.parent))

from a2a.client import A2ACardResolver, ClientCallContext, ClientConfig, ClientFactory
from a2a.client.service_parameters import ServiceParametersFactory, with_a2a_extensions
from a2a.types import a2a_pb2 as pb
from a2a.utils import errors
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
from google.protobuf.json_format import MessageToDict, ParseDict
from google.protobuf.struct_pb2 import Value


class Peer:
    """The SDK's clients for one binding: `unary` never streams, `stream` and `other` always do where they can.

    Each has a connection of its own, so what one of them does the others can only learn from the server.
    """

    def __init__(self, base, binding, version):
        self.base, self.binding, self.version = base, binding, version

    async def connect(self):
        self.unary = await self.client(streaming=False)
        self.stream = await self.client(streaming=True)
        self.other = await self.client(streaming=True)

    async def close(self):
        for name in ('unary', 'stream', 'other'):
            if hasattr(self, name):
                await getattr(self, name).close()

    async def client(self, streaming, at=''):
        """A client for an agent, from what its card says."""
        factory = self.factory(streaming)
        if self.version == '1.0':
            return await factory.create_from_url(self.base + at)
        return factory.create(await self.older_card(at))

    async def own_card(self):
        if self.version == '0.3':
            return await self.older_card()
        # Without the extended-card capability the SDK answers this call from the card it was created with.
        return await self.unary.get_extended_agent_card(pb.GetExtendedAgentCardRequest())

    async def older_card(self, at='', path=None):
        """The card without the interfaces this client would prefer. Old clients name no version, nor does this one."""
        async with httpx.AsyncClient() as http:
            card = await A2ACardResolver(http, self.base + at).get_agent_card(relative_card_path=path)
        older = [interface for interface in card.supported_interfaces if interface.protocol_version.startswith('0.3')]
        present('interfaces of 0.3', older)
        del card.supported_interfaces[:]
        card.supported_interfaces.extend(older)
        return card

    def factory(self, streaming):
        return ClientFactory(
            ClientConfig(
                streaming=streaming,
                supported_protocol_bindings=[self.binding],
                # Channels to one target share a connection unless told otherwise.
                grpc_channel_factory=lambda url: grpc.aio.insecure_channel(
                    url, options=[('grpc.use_local_subchannel_pool', 1)]
                ),
            )
        )

    async def send(self, message, context=None, **configuration):
        """SendMessage. The SDK hands the reply back as a stream of one."""
        replies = [reply async for reply in self.unary.send_message(request(message, **configuration), context=context)]
        equal('number of replies', len(replies), 1)
        return getattr(replies[0], replies[0].WhichOneof('payload'))

    async def send_for_task(self, message, **configuration):
        reply = await self.send(message, **configuration)
        if not isinstance(reply, pb.Task):
            raise Wrong(f'expected a task, got a {type(reply).__name__}')
        return reply

    async def send_streaming(self, message, context=None):
        return [event async for event in self.stream.send_message(request(message), context=context)]

    async def get(self, task_id, **fields):
        return await self.unary.get_task(pb.GetTaskRequest(id=task_id, **fields))

    async def cancel(self, task_id):
        return await self.unary.cancel_task(pb.CancelTaskRequest(id=task_id))

    async def list(self, **fields):
        return await self.unary.list_tasks(pb.ListTasksRequest(**fields))

    @contextlib.asynccontextmanager
    async def running(self, text, **configuration):
        """A task that is still open, and is not left behind when the case ends badly."""
        task = await self.send_for_task(say(text), return_immediately=True, **configuration)
        try:
            yield task
        finally:
            with contextlib.suppress(Exception):
                await self.cancel(task.id)


def follow(client, task_id):
    """A subscription read in the background."""
    return Follower(client.subscribe(pb.SubscribeToTaskRequest(id=task_id)))


# --- Words the cases are written in -----------------------------------------------------------------------------------


def say(text, **fields):
    return pb.Message(message_id=str(uuid.uuid4()), role=pb.ROLE_USER, parts=[pb.Part(text=text)], **fields)


def request(message, **configuration):
    return pb.SendMessageRequest(message=message, configuration=pb.SendMessageConfiguration(**configuration))


def in_state(status, want, text=None):
    equal('state', pb.TaskState.Name(status.state), pb.TaskState.Name(want))
    if text is not None:
        equal('status text', text_of(status.message), text)
        equal('role of the status message', status.message.role, pb.ROLE_AGENT)


def text_of(parted):
    return ''.join(part.text for part in parted.parts)


def kinds(events):
    return [event.WhichOneof('payload') for event in events]


def final_status(events):
    """The status a stream ended with: a server may close with an update or with a last snapshot of the task."""
    present('events', events)
    last = events[-1]
    kind = last.WhichOneof('payload')
    if kind not in ('task', 'status_update'):
        raise Wrong(f'the stream ended with {kind}')
    return getattr(last, kind).status


async def refused(error, call):
    """Checks that a call, or the reading of a stream, fails with exactly this error of the SDK, or one of these."""
    wanted = ' or '.join(one.__name__ for one in (error if isinstance(error, tuple) else (error,)))
    try:
        result = await outcome_of(call)
    except error:
        return
    except NotImplementedError:
        raise
    except Exception as other:
        raise Wrong(f'expected {wanted}, got {describe(other)}') from other
    raise Wrong(f'expected {wanted}, got an answer: {short(result)}')


# --- Discovery --------------------------------------------------------------------------------------------------------


@case('discover')
async def _(peer):
    card = await peer.own_card()
    equal('name', card.name, 'demo')
    equal('description', card.description, 'conformance agent')
    equal('version', card.version, '1.0.0')
    equal('streaming', card.capabilities.streaming, True)
    equal('pushNotifications', card.capabilities.push_notifications, True)
    skills = [(s.id, s.name, s.description, list(s.tags)) for s in card.skills]
    equal('skills', skills, [('demo', 'demo', 'demo', ['demo'])])
    present('defaultInputModes', card.default_input_modes)
    present('defaultOutputModes', card.default_output_modes)
    offered = [i for i in card.supported_interfaces if i.protocol_version.startswith(peer.version)]
    urls = {i.protocol_binding: i.url.rstrip('/') for i in offered}
    equal(f'bindings offered as {peer.version}', sorted(urls), sorted(BINDINGS))
    host = peer.base.removeprefix('http://')
    equal('urls', urls, {'JSONRPC': peer.base, 'HTTP+JSON': peer.base, 'GRPC': host})


@case('discover-bare', speaking=['1.0'])
async def _(peer):
    # The way most tutorials do it: a plain HTTP client, which sends no A2A-Version.
    async with httpx.AsyncClient() as http:
        card = await A2ACardResolver(http, peer.base).get_agent_card()
    client = peer.factory(streaming=False).create(card)
    try:
        replies = [reply async for reply in client.send_message(request(say('hello')))]
        in_state(replies[0].task.status, pb.TASK_STATE_COMPLETED)
    finally:
        await client.close()


@case('discover-old-path', speaking=['0.3'])
async def _(peer):
    card = await peer.older_card(path='/.well-known/agent.json')
    equal('name', card.name, 'demo')
    client = peer.factory(streaming=False).create(card)
    try:
        replies = [reply async for reply in client.send_message(request(say('hello')))]
        in_state(replies[0].task.status, pb.TASK_STATE_COMPLETED)
    finally:
        await client.close()


@case('discover-agent', speaking=['0.3'])
async def _(peer):
    async with plain_agent(peer) as (client, card):
        equal('name', card.name, 'plain')
        replies = [reply async for reply in client.send_message(request(say('hello')))]
        equal('who answered', text_of(replies[0].task.status.message), 'plainly')


@case('discover-address', speaking=['0.3'])
async def _(peer):
    raise NotExpressible('the SDK starts from a card')


@contextlib.asynccontextmanager
async def plain_agent(peer, streaming=False):
    """A client for the agent that neither streams nor pushes, and its card."""
    card = await peer.older_card(at='/agents/plain')
    if peer.binding == 'GRPC' and 'GRPC' not in [i.protocol_binding for i in card.supported_interfaces]:
        raise NotExpressible('0.3 cannot say which of the agents at one gRPC address is meant')
    client = peer.factory(streaming).create(card)
    try:
        yield client, card
    finally:
        await client.close()


@case('extended-card')
async def _(peer):
    # The SDK asks only if the card declares an extended one, so the client is given a card that claims it.
    card = pb.AgentCard()
    card.CopyFrom(await peer.own_card())
    card.capabilities.extended_agent_card = True
    client = peer.factory(streaming=False).create(card)
    wanted = errors.UnsupportedOperationError
    try:
        if peer.version == '0.3':
            wanted = (wanted, errors.ExtendedAgentCardNotConfiguredError)
            if peer.binding == 'GRPC':
                with contextlib.suppress(*wanted):
                    card = await client.get_extended_agent_card(pb.GetExtendedAgentCardRequest())
                    equal('name', card.name, 'demo')
                return
        await refused(wanted, client.get_extended_agent_card(pb.GetExtendedAgentCardRequest()))
    finally:
        await client.close()


# --- Sending and reading back -----------------------------------------------------------------------------------------


@case('send-blocking')
async def _(peer):
    text = 'héllo wörld, ✓ 你好 🌊'
    message = say(text)
    task = await peer.send_for_task(message)
    present('id', task.id)
    present('contextId', task.context_id)
    in_state(task.status, pb.TASK_STATE_COMPLETED)
    equal('has a status message', task.status.HasField('message'), False)
    if abs(task.status.timestamp.ToSeconds() - time.time()) > 600:
        raise Wrong(f'status timestamp is not now: {task.status.timestamp.ToJsonString()}')
    equal('artifacts', [text_of(artifact) for artifact in task.artifacts], [text])
    present('artifactId', task.artifacts[0].artifact_id)
    present('history', task.history)
    kept = task.history[0]
    equal('messageId in history', kept.message_id, message.message_id)
    equal('role in history', kept.role, pb.ROLE_USER)
    equal('text in history', text_of(kept), text)


@case('send-aggregate')
async def _(peer):
    task = await peer.send_for_task(say('stream, but in one reply'))
    in_state(task.status, pb.TASK_STATE_COMPLETED, 'done')
    artifacts = [(a.artifact_id, a.name, text_of(a)) for a in task.artifacts]
    equal('artifacts', artifacts, [('a1', 'draft', 'part one part two')])
    equal('taskId of the status message', task.status.message.task_id, task.id)
    equal('contextId of the status message', task.status.message.context_id, task.context_id)


@case('echo-parts', speaking=['1.0'])
async def _(peer):
    data = {'n': 1, 'half': -0.5, 'big': 2**53 - 1, 'none': None, 'on': True, 'empty': {}, 'list': ['ü', [], 1e-7]}
    message = say('hello')
    message.metadata.update({'urn:example:note': {'seen': [1, 2]}})
    message.parts[0].metadata.update({'lang': 'en'})
    message.parts.extend(
        [
            pb.Part(raw=bytes(range(256)), filename='all bytes.bin', media_type='application/octet-stream'),
            pb.Part(url='https://example.com/ä?x=1&y=%20#z', filename='z.png', media_type='image/png'),
            pb.Part(data=ParseDict(data, Value()), media_type='application/json'),
        ]
    )
    task = await peer.send_for_task(message)
    in_state(task.status, pb.TASK_STATE_COMPLETED)
    equal('artifacts', len(task.artifacts), 1)
    equal('parts', [MessageToDict(p) for p in task.artifacts[0].parts], [MessageToDict(p) for p in message.parts])
    equal('message metadata in history', MessageToDict(task.history[0].metadata), MessageToDict(message.metadata))


async def echoed(peer, *parts, **fields):
    """Sends parts to be echoed and checks that they come back as they were. Returns the task."""
    message = say('hello', **fields)
    message.parts.extend(parts)
    task = await peer.send_for_task(message)
    in_state(task.status, pb.TASK_STATE_COMPLETED)
    equal('artifacts', len(task.artifacts), 1)
    equal('parts', [MessageToDict(p) for p in task.artifacts[0].parts], [MessageToDict(p) for p in message.parts])
    return task


@case('part-text', speaking=['0.3'])
async def _(peer):
    await echoed(peer, pb.Part(text='héllo wörld, ✓ 你好 🌊'))


@case('part-bytes', speaking=['0.3'])
async def _(peer):
    await echoed(peer, pb.Part(raw=bytes(range(256)), media_type='application/octet-stream'))


@case('part-uri', speaking=['0.3'])
async def _(peer):
    await echoed(peer, pb.Part(url='https://example.com/ä?x=1&y=%20#z', media_type='image/png'))


@case('part-data', speaking=['0.3'])
async def _(peer):
    data = {'n': 1, 'half': -0.5, 'big': 2**53 - 1, 'none': None, 'on': True, 'empty': {}, 'list': ['ü', [], 1e-7]}
    await echoed(peer, pb.Part(data=ParseDict(data, Value())))


@case('part-name', speaking=['0.3'])
async def _(peer):
    await echoed(peer, pb.Part(url='https://example.com/z', filename='z z.png', media_type='image/png'))


@case('part-metadata', speaking=['0.3'])
async def _(peer):
    part = pb.Part(text='hi')
    part.metadata.update({'lang': 'en'})
    await echoed(peer, part)


@case('metadata', speaking=['0.3'])
async def _(peer):
    message = say('hello')
    message.metadata.update({'urn:example:note': {'seen': [1, 2]}})
    sent = request(message)
    sent.metadata.update({'urn:example:trace': 'abc'})
    replies = [reply async for reply in peer.unary.send_message(sent)]
    kept = replies[0].task.history[0]
    equal('metadata in history', MessageToDict(kept.metadata), MessageToDict(message.metadata))


@case('get-task')
async def _(peer):
    sent = await peer.send_for_task(say('hello'))
    got = await peer.get(sent.id)
    equal('task', MessageToDict(got), MessageToDict(sent))


@case('history-length')
async def _(peer):
    asked = await peer.send_for_task(say('book a table'))
    await peer.send_for_task(say('Tuesday', task_id=asked.id))
    everything = await peer.get(asked.id)
    if len(everything.history) < 2:
        raise Wrong(f'history of two turns has {len(everything.history)} messages')
    latest = (await peer.get(asked.id, history_length=1)).history
    equal('history at 1', [m.message_id for m in latest], [everything.history[-1].message_id])
    if peer.version == '0.3' and peer.binding != 'JSONRPC':
        # The protocol buffers of 0.3 cannot tell nought from nothing.
        return
    equal('history at 0', len((await peer.get(asked.id, history_length=0)).history), 0)
    sent = await peer.send_for_task(say('hello'), history_length=0)
    equal('history of a reply at 0', len(sent.history), 0)
    await refused(errors.InvalidParamsError, peer.get(asked.id, history_length=-1))


@case('send-polling', speaking=['0.3'])
async def _(peer):
    task = await peer.send_for_task(say('soon'), return_immediately=True)
    if task.status.state not in (pb.TASK_STATE_SUBMITTED, pb.TASK_STATE_WORKING):
        raise Wrong(f'state in the reply: {pb.TaskState.Name(task.status.state)}')
    while task.status.state in (pb.TASK_STATE_SUBMITTED, pb.TASK_STATE_WORKING):
        await asyncio.sleep(0.1)
        task = await peer.get(task.id)
    in_state(task.status, pb.TASK_STATE_COMPLETED, 'it is done')
    equal('artifacts', [text_of(artifact) for artifact in task.artifacts], ['soon enough'])


@case('return-immediately')
async def _(peer):
    started = time.monotonic()
    async with peer.running('slow work') as task:
        if time.monotonic() - started > 4:
            raise Wrong('the reply was not immediate')
        if task.status.state not in (pb.TASK_STATE_SUBMITTED, pb.TASK_STATE_WORKING):
            raise Wrong(f'state in the reply: {pb.TaskState.Name(task.status.state)}')
        seen = await peer.get(task.id)
        while seen.status.state == pb.TASK_STATE_SUBMITTED:
            await asyncio.sleep(0.05)
            seen = await peer.get(task.id)
        in_state(seen.status, pb.TASK_STATE_WORKING, 'working on it')
        in_state((await peer.cancel(task.id)).status, pb.TASK_STATE_CANCELED)
        in_state((await peer.get(task.id)).status, pb.TASK_STATE_CANCELED)


@case('direct-send')
async def _(peer):
    reply = await peer.send(say('direct please'))
    equal('kind of reply', type(reply).__name__, 'Message')
    equal('text', text_of(reply), 'just a message')
    equal('role', reply.role, pb.ROLE_AGENT)
    present('messageId', reply.message_id)
    present('contextId', reply.context_id)
    equal('taskId', reply.task_id, '')


@case('failed')
async def _(peer):
    in_state((await peer.send_for_task(say('fail now'))).status, pb.TASK_STATE_FAILED, 'could not')


@case('rejected')
async def _(peer):
    in_state((await peer.send_for_task(say('reject this'))).status, pb.TASK_STATE_REJECTED, 'will not')


@case('file-parts')
async def _(peer):
    task = await peer.send_for_task(say('file me'))
    in_state(task.status, pb.TASK_STATE_COMPLETED)
    parts = {artifact.artifact_id: artifact.parts[0] for artifact in task.artifacts}
    equal('artifacts', list(parts), ['f', 'd', 'u'])
    raw, data, url = parts.values()
    equal('raw', (raw.WhichOneof('content'), raw.raw), ('raw', b'\x00\x01\x02\xff'))
    equal('raw name and type', (raw.filename, raw.media_type), ('a.bin', 'application/octet-stream'))
    equal('data', MessageToDict(data)['data'], {'n': 1, 'list': [1, 2], 'ok': True})
    equal('url', (url.WhichOneof('content'), url.url), ('url', 'https://example.com/x.png'))
    equal('url type', url.media_type, 'image/png')


# --- Streams ----------------------------------------------------------------------------------------------------------


@case('stream')
async def _(peer):
    events = await peer.send_streaming(say('stream it'))
    present('events', events)
    equal('first event', kinds(events)[0], 'task')
    task = events[0].task
    present('id', task.id)
    present('contextId', task.context_id)
    for event in events[1:]:
        body = getattr(event, event.WhichOneof('payload'))
        equal('ids on an event', (getattr(body, 'task_id', task.id), body.context_id), (task.id, task.context_id))
    spoken = [e for e in events if kinds([e]) == ['artifact_update'] or e.status_update.status.HasField('message')]
    equal(
        'order of events',
        kinds(spoken),
        ['status_update', 'artifact_update', 'artifact_update', 'status_update'],
    )
    looking, one, two, done = spoken
    in_state(looking.status_update.status, pb.TASK_STATE_WORKING, 'looking')
    in_state(done.status_update.status, pb.TASK_STATE_COMPLETED, 'done')
    one, two = one.artifact_update, two.artifact_update
    chunk = one.artifact
    equal('first chunk', (chunk.artifact_id, chunk.name, text_of(chunk)), ('a1', 'draft', 'part one '))
    equal('flags of the first chunk', (one.append, one.last_chunk), (False, False))
    equal('second chunk', (two.artifact.artifact_id, text_of(two.artifact)), ('a1', 'part two'))
    equal('flags of the second chunk', (two.append, two.last_chunk), (True, True))
    in_state(final_status(events), pb.TASK_STATE_COMPLETED)
    stored = await peer.get(task.id)
    in_state(stored.status, pb.TASK_STATE_COMPLETED, 'done')
    equal('stored artifact', [text_of(a) for a in stored.artifacts], ['part one part two'])


@case('stream-final', speaking=['0.3'])
async def _(peer):
    raise NotExpressible('the SDK shows the events of 1.0, which have no `final`')


@case('stream-fallback', speaking=['0.3'])
async def _(peer):
    async with plain_agent(peer, streaming=True) as (client, _):
        events = [event async for event in client.send_message(request(say('hello')))]
        equal('events', kinds(events), ['task'])
        in_state(events[0].task.status, pb.TASK_STATE_COMPLETED, 'plainly')


@case('stream-unknown-task', speaking=['0.3'])
async def _(peer):
    await refused(errors.TaskNotFoundError, peer.send_streaming(say('hello', task_id=str(uuid.uuid4()))))


@case('unknown-method', speaking=['0.3'])
async def _(peer):
    raise NotExpressible('the SDK calls only what it knows')


@case('context-continued', speaking=['0.3'])
async def _(peer):
    first = await peer.send_for_task(say('hello'))
    second = await peer.send_for_task(say('hello again', context_id=first.context_id))
    equal('contextId', second.context_id, first.context_id)
    if second.id == first.id:
        raise Wrong('the second message is in the first task')


@case('stream-dropped')
async def _(peer):
    events = peer.stream.send_message(request(say('slow, and nobody reads on')))
    task = (await anext(events)).task
    present('id', task.id)
    await events.aclose()
    try:
        await asyncio.sleep(0.5)
        in_state((await peer.get(task.id)).status, pb.TASK_STATE_WORKING, 'working on it')
    finally:
        await peer.cancel(task.id)


@case('direct-stream')
async def _(peer):
    events = await peer.send_streaming(say('direct please'))
    equal('events', kinds(events), ['message'])
    equal('text', text_of(events[0].message), 'just a message')
    equal('role', events[0].message.role, pb.ROLE_AGENT)


@case('subscribe-cancel')
async def _(peer):
    async with peer.running('slow work') as task:
        follower = await follow(peer.stream, task.id).opened()
        equal('first event', kinds(follower.events)[0], 'task')
        equal('id', follower.events[0].task.id, task.id)
        in_state((await peer.cancel(task.id)).status, pb.TASK_STATE_CANCELED)
        in_state(final_status(await follower.ended()), pb.TASK_STATE_CANCELED)


@case('subscribe-two')
async def _(peer):
    asked = await peer.send_for_task(say('book a table'))
    followers = [await follow(client, asked.id).opened() for client in (peer.stream, peer.other)]
    await peer.send_for_task(say('Tuesday', task_id=asked.id))
    one, two = [[MessageToDict(event) for event in await follower.ended()] for follower in followers]
    equal('events of the second subscription', two, one)


@case('subscribe-input')
async def _(peer):
    asked = await peer.send_for_task(say('book a table'))
    follower = await follow(peer.stream, asked.id).opened()
    equal('first event', kinds(follower.events)[0], 'task')
    in_state(follower.events[0].task.status, pb.TASK_STATE_INPUT_REQUIRED, 'Which day?')
    await peer.send_for_task(say('Tuesday', task_id=asked.id))
    events = await follower.ended()
    chunks = [e.artifact_update.artifact for e in events if kinds([e]) == ['artifact_update']]
    equal('artifacts', [(a.artifact_id, text_of(a)) for a in chunks], [('booking', 'booked')])
    in_state(final_status(events), pb.TASK_STATE_COMPLETED)


@case('subscribe-quiet')
async def _(peer):
    async with peer.running('slow work') as task:
        follower = await follow(peer.stream, task.id).opened()
        await asyncio.sleep(QUIET_SECONDS)
        await peer.cancel(task.id)
        in_state(final_status(await follower.ended()), pb.TASK_STATE_CANCELED)


@case('subscribe-settled')
async def _(peer):
    task = await peer.send_for_task(say('hello'))
    await refused(errors.UnsupportedOperationError, peer.stream.subscribe(pb.SubscribeToTaskRequest(id=task.id)))


# --- More than one turn -----------------------------------------------------------------------------------------------


@case('multi-turn')
async def _(peer):
    asked = await peer.send_for_task(say('book a table'))
    in_state(asked.status, pb.TASK_STATE_INPUT_REQUIRED, 'Which day?')
    done = await peer.send_for_task(say('Tuesday', task_id=asked.id))
    equal('ids', (done.id, done.context_id), (asked.id, asked.context_id))
    in_state(done.status, pb.TASK_STATE_COMPLETED, 'booked')
    equal('artifacts', [(a.artifact_id, text_of(a)) for a in done.artifacts], [('booking', 'booked')])


@case('multi-turn-stream')
async def _(peer):
    events = await peer.send_streaming(say('book a table'))
    equal('first event', kinds(events)[0], 'task')
    asked = events[0].task
    in_state(final_status(events), pb.TASK_STATE_INPUT_REQUIRED, 'Which day?')
    events = await peer.send_streaming(say('Tuesday', task_id=asked.id, context_id=asked.context_id))
    equal('first event of the second turn', kinds(events)[0], 'task')
    equal('ids', (events[0].task.id, events[0].task.context_id), (asked.id, asked.context_id))
    chunks = [e.artifact_update.artifact for e in events if kinds([e]) == ['artifact_update']]
    equal('artifacts', [(a.artifact_id, text_of(a)) for a in chunks], [('booking', 'booked')])
    in_state(final_status(events), pb.TASK_STATE_COMPLETED, 'booked')


@case('auth-required')
async def _(peer):
    asked = await peer.send_for_task(say('auth please'))
    in_state(asked.status, pb.TASK_STATE_AUTH_REQUIRED, 'log in')
    done = await peer.send_for_task(say('I did', task_id=asked.id))
    equal('id', done.id, asked.id)
    in_state(done.status, pb.TASK_STATE_COMPLETED, 'in')


@case('context-kept')
async def _(peer):
    chosen = f'context-{uuid.uuid4()}'
    task = await peer.send_for_task(say('hello', context_id=chosen))
    equal('contextId', task.context_id, chosen)


@case('context-mismatch')
async def _(peer):
    asked = await peer.send_for_task(say('book a table'))
    other = await peer.send_for_task(say('hello'))
    await refused(
        errors.InvalidParamsError, peer.send(say('Tuesday', task_id=asked.id, context_id=other.context_id))
    )
    in_state((await peer.get(asked.id)).status, pb.TASK_STATE_INPUT_REQUIRED)


# --- Refusals ---------------------------------------------------------------------------------------------------------


@case('cancel-settled')
async def _(peer):
    task = await peer.send_for_task(say('hello'))
    await refused(errors.TaskNotCancelableError, peer.cancel(task.id))


@case('get-unknown')
async def _(peer):
    await refused(errors.TaskNotFoundError, peer.get(str(uuid.uuid4())))


@case('get-unknown-unicode')
async def _(peer):
    await refused(errors.TaskNotFoundError, peer.get('tâche perdue ✗'))


@case('cancel-unknown')
async def _(peer):
    await refused(errors.TaskNotFoundError, peer.cancel(str(uuid.uuid4())))


@case('subscribe-unknown')
async def _(peer):
    unknown = pb.SubscribeToTaskRequest(id=str(uuid.uuid4()))
    await refused(errors.TaskNotFoundError, peer.stream.subscribe(unknown))


@case('send-settled')
async def _(peer):
    task = await peer.send_for_task(say('hello'))
    await refused(errors.UnsupportedOperationError, peer.send(say('one more thing', task_id=task.id)))
    await refused(errors.UnsupportedOperationError, peer.send_streaming(say('and another', task_id=task.id)))


@case('send-unknown-task')
async def _(peer):
    await refused(errors.TaskNotFoundError, peer.send(say('hello', task_id=str(uuid.uuid4()))))


@case('send-no-parts')
async def _(peer):
    empty = pb.Message(message_id=str(uuid.uuid4()), role=pb.ROLE_USER)
    await refused(errors.InvalidParamsError, peer.send(empty))


@case('extensions-header')
async def _(peer):
    context = ClientCallContext(
        service_parameters=ServiceParametersFactory.create(
            [with_a2a_extensions(['https://example.com/ext/unknown/v1', 'urn:example:other'])]
        )
    )
    task = await peer.send(say('hello'), context=context)
    in_state(task.status, pb.TASK_STATE_COMPLETED)
    in_state(final_status(await peer.send_streaming(say('hello'), context=context)), pb.TASK_STATE_COMPLETED)


@case('version-refused', speaking=['1.0'])
async def _(peer):
    if peer.binding == 'GRPC':
        raise NotExpressible('the SDK always adds a2a-version 1.0 to gRPC metadata')
    context = ClientCallContext(service_parameters={'A2A-Version': '9.9'})
    await refused(errors.VersionNotSupportedError, peer.send(say('hello'), context=context))


# --- Lists ------------------------------------------------------------------------------------------------------------


async def populate(peer):
    """Five tasks in a context of their own: three completed, one waiting for input, one failed."""
    first = await peer.send_for_task(say('hello 1'))
    ids = [first.id]
    for text in ('hello 2', 'book a table', 'fail now', 'hello 3'):
        ids.append((await peer.send_for_task(say(text, context_id=first.context_id))).id)
    return first.context_id, ids


@case('list-pages', speaking=['1.0'])
async def _(peer):
    context_id, ids = await populate(peer)
    seen, sizes, token = [], [], ''
    while True:
        page = await peer.list(context_id=context_id, page_size=2, page_token=token)
        equal('totalSize', page.total_size, len(ids))
        equal('pageSize', page.page_size, 2)
        sizes.append(len(page.tasks))
        seen.extend(page.tasks)
        token = page.next_page_token
        if not token or len(sizes) > len(ids):
            break
    equal('tasks per page', sizes, [2, 2, 1])
    equal('ids', sorted(task.id for task in seen), sorted(ids))
    times = [task.status.timestamp.ToNanoseconds() for task in seen]
    equal('order, newest first', times, sorted(times, reverse=True))


@case('list-status', speaking=['1.0'])
async def _(peer):
    context_id, ids = await populate(peer)
    done = await peer.list(context_id=context_id, status=pb.TASK_STATE_COMPLETED)
    equal('completed', sorted(task.id for task in done.tasks), sorted([ids[0], ids[1], ids[4]]))
    equal('totalSize', done.total_size, 3)
    waiting = await peer.list(context_id=context_id, status=pb.TASK_STATE_INPUT_REQUIRED)
    equal('waiting', [task.id for task in waiting.tasks], [ids[2]])
    none = await peer.list(context_id=context_id, status=pb.TASK_STATE_CANCELED)
    equal('canceled', (len(none.tasks), none.total_size, none.next_page_token), (0, 0, ''))


@case('list-since', speaking=['1.0'])
async def _(peer):
    context_id, _ = await populate(peer)
    everything = (await peer.list(context_id=context_id)).tasks
    since = everything[2].status.timestamp
    want = [t.id for t in everything if t.status.timestamp.ToNanoseconds() >= since.ToNanoseconds()]
    some = await peer.list(context_id=context_id, status_timestamp_after=since)
    equal('ids', [task.id for task in some.tasks], want)
    equal('totalSize', some.total_size, len(want))


@case('list-artifacts', speaking=['1.0'])
async def _(peer):
    context_id, ids = await populate(peer)
    plain = await peer.list(context_id=context_id)
    equal('artifacts when not asked for', [len(task.artifacts) for task in plain.tasks], [0] * len(ids))
    full = await peer.list(context_id=context_id, include_artifacts=True, history_length=0)
    texts = {task.id: [text_of(artifact) for artifact in task.artifacts] for task in full.tasks}
    equal('artifacts when asked for', texts, dict(zip(ids, [['hello 1'], ['hello 2'], [], [], ['hello 3']])))
    equal('history at 0', [len(task.history) for task in full.tasks], [0] * len(ids))


@case('list-invalid', speaking=['1.0'])
async def _(peer):
    if peer.binding == 'GRPC':
        # The SDK for Go always writes the field, so 0 means that the caller asks for no size.
        equal('tasks on a page of no size', len((await peer.list(page_size=0)).tasks) > 0, True)
    else:
        await refused(errors.InvalidParamsError, peer.list(page_size=0))
    await refused(errors.InvalidParamsError, peer.list(page_size=-1))
    await refused(errors.InvalidParamsError, peer.list(page_size=101))
    await refused(errors.InvalidParamsError, peer.list(page_token='not a token'))


# --- Push configurations ----------------------------------------------------------------------------------------------


def hook(task_id, **fields):
    return pb.TaskPushNotificationConfig(task_id=task_id, url=HOOK, **fields)


async def hooks(peer, task_id):
    request = pb.ListTaskPushNotificationConfigsRequest(task_id=task_id)
    return (await peer.unary.list_task_push_notification_configs(request)).configs


async def get_hook(peer, task_id, config_id):
    request = pb.GetTaskPushNotificationConfigRequest(task_id=task_id, id=config_id)
    return await peer.unary.get_task_push_notification_config(request)


async def delete_hook(peer, task_id, config_id):
    request = pb.DeleteTaskPushNotificationConfigRequest(task_id=task_id, id=config_id)
    await peer.unary.delete_task_push_notification_config(request)


@case('push-create', speaking=['1.0'])
async def _(peer):
    async with peer.running('book a table') as task:
        auth = pb.AuthenticationInfo(scheme='Bearer', credentials='secret')
        made = await peer.unary.create_task_push_notification_config(hook(task.id, token='tok', authentication=auth))
        present('id', made.id)
        equal('created', (made.task_id, made.url, made.authentication.scheme), (task.id, HOOK, 'Bearer'))
        named = await peer.unary.create_task_push_notification_config(hook(task.id, id='mine'))
        equal('id chosen by the client', named.id, 'mine')
        got = await get_hook(peer, task.id, made.id)
        equal('got', (got.id, got.task_id, got.url), (made.id, task.id, HOOK))
        equal('listed', sorted(c.id for c in await hooks(peer, task.id)), sorted([made.id, 'mine']))


@case('push-set', speaking=['0.3'])
async def _(peer):
    async with peer.running('book a table') as task:
        auth = pb.AuthenticationInfo(scheme='Bearer', credentials='secret')
        wanted = hook(task.id, id='mine', token='tok', authentication=auth)
        made = await peer.unary.create_task_push_notification_config(wanted)
        equal('set', (made.task_id, made.id, made.url), (task.id, 'mine', HOOK))
        got = await get_hook(peer, task.id, 'mine')
        # Not the token: a server may keep secrets to itself.
        equal('got', (got.task_id, got.id, got.url), (task.id, 'mine', HOOK))
        equal('scheme', got.authentication.scheme, 'Bearer')


@case('push-list', speaking=['0.3'])
async def _(peer):
    async with peer.running('book a table') as task:
        for name in ('one', 'two'):
            await peer.unary.create_task_push_notification_config(hook(task.id, id=name))
        equal('listed', sorted(c.id for c in await hooks(peer, task.id)), ['one', 'two'])


@case('push-delete')
async def _(peer):
    async with peer.running('book a table') as task:
        # Without an id of its own a config of 0.3 replaces the one before.
        first = await peer.unary.create_task_push_notification_config(hook(task.id, id='first'))
        second = await peer.unary.create_task_push_notification_config(hook(task.id, id='second'))
        await delete_hook(peer, task.id, first.id)
        equal('left after deletion', [c.id for c in await hooks(peer, task.id)], [second.id])
        await refused(errors.TaskNotFoundError, get_hook(peer, task.id, first.id))
        await delete_hook(peer, task.id, first.id)


@case('push-inline')
async def _(peer):
    inline = pb.TaskPushNotificationConfig(id='inline', url=HOOK, token='tok')
    async with peer.running('book a table', task_push_notification_config=inline) as task:
        got = await get_hook(peer, task.id, 'inline')
        equal('got', (got.task_id, got.url), (task.id, HOOK))
        if peer.version == '1.0':
            equal('listed', [(c.task_id, c.url) for c in await hooks(peer, task.id)], [(task.id, HOOK)])


@case('push-unsupported', speaking=['0.3'])
async def _(peer):
    async with plain_agent(peer) as (client, _):
        replies = [reply async for reply in client.send_message(request(say('hello')))]
        wanted = hook(replies[0].task.id, id='mine')
        call = client.create_task_push_notification_config(wanted)
        await refused(errors.PushNotificationNotSupportedError, call)


@case('push-unknown')
async def _(peer):
    async with peer.running('book a table') as task:
        await refused(errors.TaskNotFoundError, get_hook(peer, task.id, 'nothing'))
    unknown = hook(str(uuid.uuid4()))
    await refused(errors.TaskNotFoundError, peer.unary.create_task_push_notification_config(unknown))


if __name__ == '__main__':
    run(Peer, ['1.0', '0.3'])
