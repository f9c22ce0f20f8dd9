"""Callers: one per dialect and binding, all with the same five words.

    send(text, task)   and wait for the answer          start(text)   without waiting; the id of the task
    stream(text)       read to the end                  get(task), cancel(task)

1.0 and 0.3 are spoken by the official Python SDK, made from a card as its users do. The small dialects are spoken by
hand, because nothing between a test and the wire should have an opinion. The same callers talk to the hub and, where
an agent speaks their dialect, to the agent itself: what they see there is what they have to see here.
"""

import asyncio
import contextlib
import itertools
import json
import uuid

import grpc
import httpx
import seen
from a2a.client import A2ACardResolver, ClientConfig, ClientFactory
from a2a.types import a2a_pb2 as pb
from a2a.utils import errors
from seen import ERRORS

SECONDS_MAX = 30
NUMBERS = itertools.count(1)


# --- 1.0 and 0.3: the official SDK ------------------------------------------------------------------------------------


class Official:
    def __init__(self, version, binding):
        self.version, self.binding = version, binding
        self.dialect = version

    @contextlib.asynccontextmanager
    async def calling(self, place):
        async with httpx.AsyncClient(timeout=SECONDS_MAX) as http:
            headers = {'A2A-Version': '1.0'} if self.version == '1.0' else {}
            card = await A2ACardResolver(http, place.base).get_agent_card(http_kwargs={'headers': headers})
            fitting = [one for one in card.supported_interfaces if one.protocol_version.startswith(self.version)]
            if self.binding not in [one.protocol_binding for one in fitting]:
                raise AssertionError(f'the card at {place.base} offers no {self.binding} of {self.version}')
            del card.supported_interfaces[:]
            card.supported_interfaces.extend(fitting)
            clients = [self.client(card, http, streaming) for streaming in (False, True)]
            try:
                yield Session(*clients)
            finally:
                for client in clients:
                    with contextlib.suppress(Exception):
                        await client.close()

    def client(self, card, http, streaming):
        return ClientFactory(
            ClientConfig(
                streaming=streaming,
                httpx_client=http,
                supported_protocol_bindings=[self.binding],
                grpc_channel_factory=lambda url: grpc.aio.insecure_channel(
                    url, options=[('grpc.use_local_subchannel_pool', 1)]
                ),
            )
        ).create(card)


class Session:
    def __init__(self, unary, streaming):
        self.unary, self.streaming = unary, streaming

    async def send(self, text, task=None):
        return await self.answer(self.once(text, task))

    async def start(self, text):
        return (await self.once(text, None, return_immediately=True)).id

    async def once(self, text, task, **configuration):
        asked = request(text, task, **configuration)
        replies = [reply async for reply in self.unary.send_message(asked)]
        return getattr(replies[0], replies[0].WhichOneof('payload'))

    async def stream(self, text):
        return await self.answer(self.read(text))

    async def read(self, text):
        """The task as its events tell it."""
        task, pieces = pb.Task(), {}
        async for event in self.streaming.send_message(request(text, None)):
            match event.WhichOneof('payload'):
                case 'message':
                    return event.message
                case 'task':
                    task.CopyFrom(event.task)
                    pieces = {made.artifact_id: made for made in task.artifacts}
                case 'status_update':
                    task.status.CopyFrom(event.status_update.status)
                case 'artifact_update':
                    update = event.artifact_update
                    if update.append and update.artifact.artifact_id in pieces:
                        pieces[update.artifact.artifact_id].parts.extend(update.artifact.parts)
                    else:
                        pieces[update.artifact.artifact_id] = update.artifact
        del task.artifacts[:]
        task.artifacts.extend(pieces.values())
        return task

    async def get(self, task):
        return await self.answer(self.unary.get_task(pb.GetTaskRequest(id=task)))

    async def cancel(self, task):
        return await self.answer(self.unary.cancel_task(pb.CancelTaskRequest(id=task)))

    async def answer(self, call):
        try:
            told = seen.sdk(await call)
        except errors.A2AError as error:
            return seen.refused(type(error).__name__.removesuffix('Error'))
        return told.but(artifacts=seen.joined(told.artifacts))


def request(text, task, **configuration):
    message = pb.Message(
        message_id=str(uuid.uuid4()), role=pb.ROLE_USER, parts=[pb.Part(text=text)], task_id=task or ''
    )
    return pb.SendMessageRequest(message=message, configuration=pb.SendMessageConfiguration(**configuration))


# --- 0.1, agent-native and XPR: by hand -------------------------------------------------------------------------------


class ByHand:
    """JSON-RPC with parts that have a `type`. `path` is where the dialect is spoken below the agent's address."""

    def __init__(self, dialect, path):
        self.dialect, self.path = dialect, path

    @contextlib.asynccontextmanager
    async def calling(self, place):
        async with httpx.AsyncClient(timeout=SECONDS_MAX) as http:
            url = place.rpc or place.base + self.path
            session = SESSIONS[self.dialect](http, url)
            try:
                yield session
            finally:
                for waiting in session.waiting:
                    waiting.cancel()


class Raw:
    def __init__(self, http, url):
        self.http, self.url, self.waiting = http, url, []

    def body(self, method, params):
        return {'jsonrpc': '2.0', 'id': next(NUMBERS), 'method': method, 'params': params}

    async def call(self, method, params):
        reply = await self.http.post(self.url, json=self.body(method, params))
        return self.told(reply.json())

    def told(self, answer):
        if 'error' in answer and answer['error']:
            code = answer['error']['code']
            return seen.refused(ERRORS.get(code, str(code)))
        told = seen.json(answer['result'])
        return told.but(artifacts=seen.joined(told.artifacts))

    def message(self, text):
        return {'role': 'user', 'parts': [{'type': 'text', 'text': text}]}

    async def get(self, task):
        return await self.call('tasks/get', {'id': task})

    async def cancel(self, task):
        return await self.call('tasks/cancel', {'id': task})

    async def begun(self, task):
        """Waits until a task that somebody else is waiting for can be seen."""
        for _ in range(200):
            # An agent that tells nothing before it is done leaves the task where it was.
            if (await self.get(task)).state in ('submitted', 'working'):
                return task
            await asyncio.sleep(0.05)
        raise AssertionError(f'task {task} did not begin to work')

    async def events(self, method, params):
        async with self.http.stream('POST', self.url, json=self.body(method, params)) as reply:
            async for line in reply.aiter_lines():
                if line.startswith('data:'):
                    yield json.loads(line[5:])


class First(Raw):
    """0.1: the caller names the task."""

    async def send(self, text, task=None):
        return await self.call('tasks/send', {'id': task or f't-{uuid.uuid4()}', 'message': self.message(text)})

    async def start(self, text):
        task = f't-{uuid.uuid4()}'
        self.waiting.append(asyncio.create_task(self.send(text, task)))
        return await self.begun(task)

    async def stream(self, text):
        task = f't-{uuid.uuid4()}'
        status, pieces = {}, {}
        async for event in self.events('tasks/sendSubscribe', {'id': task, 'message': self.message(text)}):
            if event.get('error'):
                return self.told(event)
            result = event['result']
            if 'status' in result:
                status = result['status']
            if 'artifact' in result:
                made = result['artifact']
                if made.get('append') and made.get('index', 0) in pieces:
                    pieces[made.get('index', 0)]['parts'] += made['parts']
                else:
                    pieces[made.get('index', 0)] = made
        return self.told({'result': {'id': task, 'status': status, 'artifacts': list(pieces.values())}})


class Native(Raw):
    """agent-native: a stream is the task, again and again."""

    async def send(self, text, task=None):
        message = self.message(text) | ({'taskId': task} if task else {})
        return await self.call('message/send', {'message': message})

    async def start(self, text):
        told = await self.call('message/send', {'message': self.message(text), 'async': True})
        return await self.begun(told.task)

    async def get(self, task):
        told = await super().get(task)
        # A task at work has a name of its own here.
        return told.but(state='working') if told.state == 'processing' else told

    async def stream(self, text):
        last = None
        async for event in self.events('message/stream', {'message': self.message(text)}):
            last = event
        return self.told(last)


class Xpr(Raw):
    """XPR: no streams; the caller may name the task."""

    async def send(self, text, task=None):
        params = {'message': self.message(text)} | ({'id': task} if task else {})
        return await self.call('message/send', params)

    async def start(self, text):
        task = f't-{uuid.uuid4()}'
        self.waiting.append(asyncio.create_task(self.send(text, task)))
        return await self.begun(task)

    async def stream(self, text):
        return await self.send(text)


SESSIONS = {'0.1': First, 'agent-native': Native, 'XPR': Xpr}
CALLERS = {
    '1.0 JSON-RPC': Official('1.0', 'JSONRPC'),
    '1.0 HTTP+JSON': Official('1.0', 'HTTP+JSON'),
    '1.0 gRPC': Official('1.0', 'GRPC'),
    '0.3 JSON-RPC': Official('0.3', 'JSONRPC'),
    '0.3 HTTP+JSON': Official('0.3', 'HTTP+JSON'),
    '0.3 gRPC': Official('0.3', 'GRPC'),
    '0.1': ByHand('0.1', '/'),
    'agent-native': ByHand('agent-native', '/_agent-native/a2a'),
    'XPR': ByHand('XPR', '/a2a'),
}


class Envelopes:
    """AGNT: for calls to a network itself. Words are searched for, as the hub has it."""

    dialect = 'AGNT'

    @contextlib.asynccontextmanager
    async def calling(self, place):
        async with httpx.AsyncClient(timeout=SECONDS_MAX) as http:
            yield Searching(http, place.base)


class Searching:
    def __init__(self, http, url):
        self.http, self.url = http, url

    async def send(self, text, task=None):
        envelope = {
            'protocol': 'openclaw/a2a/v1', 'from': 'caller', 'to': 'network:stand-in', 'intent': 'booking.search',
            'payload': {'query': text}, 'ttl_ms': 5000, 'timestamp': '',
        }
        answer = (await self.http.post(self.url, json=envelope)).json()
        return seen.Seen('message', data=(repr(seen.plain(answer['payload'])),))

    async def stream(self, text):
        return await self.send(text)


# Who speaks to agents themselves.
DIRECT = CALLERS | {'AGNT': Envelopes()}
