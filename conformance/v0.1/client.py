"""Drives an A2A server with the client of the first samples and reports, case by case, whether it kept its word.

    client.py BASE_URL [--case send-blocking]

The library `common` of the first samples of A2A is on no registry; pya2a is that library as a package. Its client asks for
what a server of 0.1 has, and gives errors back as a member of the response. The promise behind each case is in
`../cases/a2a-0.1.txt`; the script the server plays is in `../sabir.toml`.
"""

import asyncio
import base64
import pathlib
import sys
import uuid

sys.path.insert(0, str(pathlib.Path(__file__).resolve().parent.parent))

from a2a.client import A2ACardResolver, A2AClient
from a2a.types import TaskArtifactUpdateEvent, TaskStatusUpdateEvent
from checks import HOOK, Wrong, case, equal, present, run


class Peer:
    def __init__(self, base, binding, version):
        self.base, self.binding = base, binding

    async def connect(self):
        self.card = A2ACardResolver(self.base).get_agent_card()
        self.client = A2AClient(agent_card=self.card)

    async def close(self):
        pass

    async def send(self, message, task=None, **params):
        """tasks/send, whose reply is always a task."""
        name = task or str(uuid.uuid4())
        reply = await self.client.send_task({'id': name, 'sessionId': f's-{name}', 'message': message, **params})
        if reply.error:
            raise Wrong(f'{reply.error.code}: {reply.error.message}')
        equal('id', reply.result.id, name)
        return reply.result

    async def stream(self, message, task=None):
        params = {'id': task or str(uuid.uuid4()), 'message': message}
        events = []
        async for reply in self.client.send_task_streaming(params):
            if reply.error:
                raise Wrong(f'{reply.error.code}: {reply.error.message}')
            equal('id of an event', reply.result.id, params['id'])
            events.append(reply.result)
        present('events', events)
        return events


def case_01(name):
    return case(name, speaking=('0.1',))


def say(text, *parts):
    return {'role': 'user', 'parts': [{'type': 'text', 'text': text}, *parts]}


def text_of(parted):
    return ''.join(part.text for part in parted.parts if part.type == 'text') if parted else ''


def in_state(status, want, text=None):
    equal('state', status.state.value, want)
    if text is not None:
        equal('status text', text_of(status.message), text)


async def refused(code, call):
    reply = await call
    if not reply.error:
        raise Wrong(f'expected {code}, got an answer: {str(reply.result)[:200]}')
    equal('code', reply.error.code, code)


# --- Discovery --------------------------------------------------------------------------------------------------------


@case_01('discover')
async def _(peer):
    card = peer.card
    equal('card', (card.name, card.description, card.version), ('demo', 'conformance agent', '1.0.0'))
    equal('capabilities', (card.capabilities.streaming, card.capabilities.pushNotifications), (True, True))
    equal('url', card.url.rstrip('/'), peer.base)
    equal('skills', [(skill.id, skill.name) for skill in card.skills], [('demo', 'demo')])


# --- Sending ----------------------------------------------------------------------------------------------------------


@case_01('send-blocking')
async def _(peer):
    task = await peer.send(say('héllo wörld, ✓ 你好 🌊'))
    in_state(task.status, 'completed')
    equal('sessionId', task.sessionId, f's-{task.id}')
    equal('artifacts', [text_of(made) for made in task.artifacts], ['héllo wörld, ✓ 你好 🌊'])


@case_01('send-aggregate')
async def _(peer):
    task = await peer.send(say('stream, but in one reply'))
    in_state(task.status, 'completed', 'done')
    equal('artifacts', [(made.name, text_of(made)) for made in task.artifacts], [('draft', 'part one part two')])


async def echoed(peer, part):
    task = await peer.send(say('hello', part))
    back = task.artifacts[0].parts[1].model_dump(exclude_none=True)
    equal('part', back, part)


@case_01('part-bytes')
async def _(peer):
    data = base64.b64encode(bytes(range(256))).decode()
    await echoed(peer, {'type': 'file', 'file': {'name': 'a.bin', 'mimeType': 'application/octet-stream', 'bytes': data}})


@case_01('part-uri')
async def _(peer):
    await echoed(peer, {'type': 'file', 'file': {'mimeType': 'image/png', 'uri': 'https://example.com/ä?x=1&y=%20#z'}})


@case_01('part-data')
async def _(peer):
    data = {'n': 1, 'half': -0.5, 'big': 2**53 - 1, 'on': True, 'deep': {'er': 'x'}, 'list': ['ü', [2], 1e-7]}
    await echoed(peer, {'type': 'data', 'data': data})


@case_01('file-parts')
async def _(peer):
    task = await peer.send(say('file me'))
    raw, data, uri = [made.parts[0] for made in task.artifacts]
    equal('bytes', (raw.file.bytes, raw.file.mimeType, raw.file.name), ('AAEC/w==', 'application/octet-stream', 'a.bin'))
    equal('data', data.data, {'n': 1, 'list': [1, 2], 'ok': True})
    equal('uri', (uri.file.uri, uri.file.mimeType), ('https://example.com/x.png', 'image/png'))
    equal('indexes', [made.index for made in task.artifacts], [0, 1, 2])


@case_01('direct-send')
async def _(peer):
    task = await peer.send(say('direct please'))
    in_state(task.status, 'completed')
    equal('artifacts', [text_of(made) for made in task.artifacts], ['just a message'])


@case_01('failed')
async def _(peer):
    in_state((await peer.send(say('fail now'))).status, 'failed', 'could not')


@case_01('rejected')
async def _(peer):
    in_state((await peer.send(say('reject this'))).status, 'failed', 'will not')


# --- Reading ----------------------------------------------------------------------------------------------------------


@case_01('get-task')
async def _(peer):
    sent = await peer.send(say('hello'))
    equal('task', (await peer.client.get_task({'id': sent.id})).result, sent)


@case_01('history-length')
async def _(peer):
    sent = await peer.send(say('hello'))
    equal('history', sent.history or [], [])
    asked = (await peer.client.get_task({'id': sent.id, 'historyLength': 1})).result
    equal('history at 1', len(asked.history), 1)


# --- Streams ----------------------------------------------------------------------------------------------------------


@case_01('stream')
async def _(peer):
    told = []
    for event in await peer.stream(say('stream it')):
        if isinstance(event, TaskArtifactUpdateEvent):
            made = event.artifact
            told.append((made.index, text_of(made), bool(made.append), bool(made.lastChunk)))
        elif text_of(event.status.message):
            told.append((event.status.state.value, text_of(event.status.message)))
    want = [('working', 'looking'), (0, 'part one ', False, False), (0, 'part two', True, True), ('completed', 'done')]
    equal('events', told, want)


@case_01('stream-final')
async def _(peer):
    for text in ('stream it', 'fail now', 'book a table'):
        updates = [one for one in await peer.stream(say(text)) if isinstance(one, TaskStatusUpdateEvent)]
        equal('final', [one.final for one in updates], [False] * (len(updates) - 1) + [True])


# --- More than one turn -----------------------------------------------------------------------------------------------


@case_01('multi-turn')
async def _(peer):
    asked = await peer.send(say('book a table'))
    in_state(asked.status, 'input-required', 'Which day?')
    done = await peer.send(say('Tuesday'), task=asked.id)
    in_state(done.status, 'completed', 'booked')
    equal('artifacts', [text_of(made) for made in done.artifacts], ['booked'])


@case_01('auth-required')
async def _(peer):
    asked = await peer.send(say('auth please'))
    in_state(asked.status, 'input-required', 'log in')
    in_state((await peer.send(say('I did'), task=asked.id)).status, 'completed', 'in')


@case_01('name-reused')
async def _(peer):
    first = await peer.send(say('one'))
    second = await peer.send(say('two'), task=first.id)
    equal('sessionId', second.sessionId, first.sessionId)
    equal('artifacts', [text_of(made) for made in second.artifacts], ['two'])


# --- Refusals ---------------------------------------------------------------------------------------------------------


@case_01('get-unknown')
async def _(peer):
    await refused(-32001, peer.client.get_task({'id': str(uuid.uuid4())}))


@case_01('cancel-unknown')
async def _(peer):
    await refused(-32001, peer.client.cancel_task({'id': str(uuid.uuid4())}))


@case_01('cancel-settled')
async def _(peer):
    task = await peer.send(say('hello'))
    await refused(-32002, peer.client.cancel_task({'id': task.id}))


@case_01('cancel-waiting')
async def _(peer):
    asked = await peer.send(say('book a table'))
    in_state((await peer.client.cancel_task({'id': asked.id})).result.status, 'canceled')
    await asyncio.sleep(0.2)
    in_state((await peer.client.get_task({'id': asked.id})).result.status, 'canceled')


@case_01('send-no-parts')
async def _(peer):
    message = {'role': 'user', 'parts': []}
    await refused(-32602, peer.client.send_task({'id': str(uuid.uuid4()), 'message': message}))


# --- Push configurations ----------------------------------------------------------------------------------------------


@case_01('push-set')
async def _(peer):
    task = await peer.send(say('book a table'))
    config = {'url': HOOK, 'token': 'tok'}
    made = (await peer.client.set_task_callback({'id': task.id, 'pushNotificationConfig': config})).result
    equal('set', (made.id, made.pushNotificationConfig.url), (task.id, HOOK))
    got = (await peer.client.get_task_callback({'id': task.id})).result
    equal('got', (got.id, got.pushNotificationConfig.url), (task.id, HOOK))


@case_01('push-inline')
async def _(peer):
    task = await peer.send(say('book a table'), pushNotification={'url': HOOK})
    got = (await peer.client.get_task_callback({'id': task.id})).result
    equal('got', got.pushNotificationConfig.url, HOOK)


@case_01('push-unknown')
async def _(peer):
    config = {'id': str(uuid.uuid4()), 'pushNotificationConfig': {'url': HOOK}}
    await refused(-32001, peer.client.set_task_callback(config))


if __name__ == '__main__':
    run(Peer, ['0.1'], ['JSONRPC'])
