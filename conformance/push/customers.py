"""The customers: each has one task done, registers webhooks for it in some way, and notes what it was shown.

| Story | What happens |
|---|---|
| `streams` | 1.0, streaming send with a webhook; the stream is taken up again with `Last-Event-ID` |
| `polls` | 1.0 over HTTP+JSON, `returnImmediately` with a webhook; then it asks until the task has settled |
| `older` | 0.3, non-blocking send with a webhook; then it asks |
| `asked` | a task that waits for input; webhooks are set while nothing happens, in both dialects; then it is answered |
| `late` | 1.0, streaming send without a webhook; one is set while the agent is at work |

All but `asked` may set a second webhook while the agent is at work. Requests that were cut off are sent again, the same
bytes. When a task has settled, its customer reads it once more from the beginning; with what it was shown before, that
is what the server is held to.
"""

import asyncio
import json
import uuid

import scene
from evidence import SETTLED, Hook, Told, state_of, task_of
from wire import Connection, Cut, Silent

STORIES = ['streams', 'polls', 'older', 'asked', 'late']
RETRY_SECONDS = (0.02, 0.1)
POLL_SECONDS = 0.3
SETTLED_0_3 = {'completed', 'failed', 'canceled', 'rejected'}


class Surprise(Exception):
    """An answer that nobody should have got."""


class Refused(Exception):
    """An error, as its dialect has it."""

    def __init__(self, error):
        super().__init__(json.dumps(error))
        self.code = error.get('code')
        # 1.0 over either binding says 503, or the reason; that it is not now is said in every one of them.
        self.not_now = 'UNAVAILABLE' in json.dumps(error) or self.code == 503


class Customer:
    def __init__(self, address, receivers, number, rng):
        self.address, self.receivers, self.number, self.rng = address, receivers, number, rng
        self.story = STORIES[number % len(STORIES)]
        self.task, self.messages, self.live, self.hooks = None, [], {}, []
        self.waits_for = 'its turn'
        self.retries = 0

    @property
    def name(self):
        return f'customer {self.number} ({self.story})'

    async def run(self):
        """The whole story, and what there is to tell of it."""
        await getattr(self, self.story)()
        self.waits_for = f'task {self.task} to settle'
        while (await self.call('GetTask', {'id': self.task}))['status']['state'] not in SETTLED:
            await asyncio.sleep(POLL_SECONDS)
        self.waits_for = f'task {self.task} from the beginning'
        events = {}
        await self.follow(json_rpc('SubscribeToTask', {'id': self.task}), events, last=0)
        self.waits_for = None
        return Told(self.task, self.messages, self.live, events, self.hooks)

    # --- Stories ------------------------------------------------------------------------------------------------------

    async def streams(self):
        hook, wish = self.hook('1.0', 'inline')
        params = {'message': self.message('go'), 'configuration': {'taskPushNotificationConfig': wish}}
        await asyncio.gather(self.watch(params), self.perhaps_another())

    async def late(self):
        await asyncio.gather(self.watch({'message': self.message('go')}), self.another('late'))

    async def watch(self, params):
        self.waits_for = 'its stream'
        await self.follow(json_rpc('SendStreamingMessage', params), self.live)

    async def polls(self):
        hook, wish = self.hook('1.0', 'inline')
        params = {'message': self.message('go'),
                  'configuration': {'returnImmediately': True, 'taskPushNotificationConfig': wish}}
        self.task = (await self.ask(('/message:send', {'A2A-Version': '1.0'}, params)))['task']['id']
        await self.perhaps_another()

    async def older(self):
        hook, wish = self.hook('0.3', 'inline')
        message = self.message('go')
        old = {'kind': 'message', 'messageId': message['messageId'], 'role': 'user',
               'parts': [{'kind': 'text', 'text': 'go'}]}
        params = {'message': old, 'configuration': {'blocking': False, 'pushNotificationConfig': wish}}
        self.task = (await self.call('message/send', params))['id']
        await self.perhaps_another()
        while (await self.call('tasks/get', {'id': self.task}))['status']['state'] not in SETTLED_0_3:
            await asyncio.sleep(POLL_SECONDS)

    async def asked(self):
        params = {'message': self.message(f'{scene.ASKS} me')}
        self.task = (await self.call('SendMessage', params))['task']['id']
        for dialect in self.rng.choice([['1.0'], ['0.3'], ['1.0', '0.3']]):
            hook = await self.set_hook(dialect, 'asked')
            # Nothing happens while it waits, so this is exact.
            hook.after_min = hook.after_max = await self.head()
        params = {'message': {**self.message('this one'), 'taskId': self.task},
                  'configuration': {'returnImmediately': True}}
        await self.call('SendMessage', params)

    async def perhaps_another(self):
        if self.rng.random() < 0.4:
            await self.another('second')

    async def another(self, how):
        """A webhook that is set while the agent is at work. What it is owed lies between two numbers."""
        while self.task is None:
            await asyncio.sleep(0.01)
        await asyncio.sleep(self.rng.uniform(0, 0.3))
        seen = max(self.live, default=0)
        hook = await self.set_hook(self.rng.choice(['1.0', '0.3']), how)
        hook.after_min, hook.after_max = seen, await self.head()

    # --- Webhooks -----------------------------------------------------------------------------------------------------

    def hook(self, dialect, how):
        """A webhook of our own, and how it is written in a dialect."""
        name = f'{self.number}-{how}-{dialect}-{len(self.hooks)}'
        receiver, url = self.rng.choice(self.receivers)
        given, headers = scene.credentials(self.rng, f'secret-{name}')
        hook = Hook(name, receiver, dialect, how, f'token-{name}', headers, 0, 0)
        wish = {'url': f'{url}/{name}', 'token': hook.token}
        if how != 'inline':
            # So that a request that is sent again sets the same one.
            wish['id'] = name
        if given:
            scheme, value = given
            named = {'scheme': scheme} if dialect == '1.0' else {'schemes': [scheme]}
            wish['authentication'] = {**named, 'credentials': value}
        self.hooks.append(hook)
        return hook, wish

    async def set_hook(self, dialect, how):
        hook, wish = self.hook(dialect, how)
        self.waits_for = f'webhook {hook.name}'
        if dialect == '1.0':
            await self.call('CreateTaskPushNotificationConfig', {'taskId': self.task, **wish})
        else:
            await self.call('tasks/pushNotificationConfig/set', {'taskId': self.task, 'pushNotificationConfig': wish})
        return hook

    async def head(self):
        """The number of the last event there is now; `None` when the task has settled, and nothing more will come."""
        request = json_rpc('SubscribeToTask', {'id': self.task})
        seen = {}
        try:
            await self.follow(request, seen, enough=1)
        except Refused:
            if (await self.call('GetTask', {'id': self.task}))['status']['state'] not in SETTLED:
                raise
            return None
        return min(seen)

    # --- Asking -------------------------------------------------------------------------------------------------------

    def message(self, text):
        id = str(uuid.UUID(int=self.rng.getrandbits(128), version=4))
        self.messages.append(id)
        return {'messageId': id, 'role': 'ROLE_USER', 'parts': [{'text': text}]}

    async def call(self, method, params):
        return await self.ask(json_rpc(method, params))

    async def ask(self, request):
        """The answer, however often it has to be asked for."""
        path, headers, body = encode(request)
        while True:
            connection = Connection(self.address)
            try:
                status, answered = await connection.post(path, body, headers)
                return unwrap(await connection.body(answered))
            except (Cut, Silent):
                pass
            except Refused as refusal:
                if not refusal.not_now:
                    raise Surprise(f'{self.name}: {body.decode()} was refused: {refusal}') from refusal
            finally:
                connection.close()
            await self.pause()

    async def follow(self, request, shown, last=None, enough=None):
        """Reads a stream into `shown` until the task has settled, or enough was seen, through all cuts."""
        path, headers, body = encode(request)
        while True:
            connection = Connection(self.address)
            resumed = {} if last is None else {'Last-Event-ID': str(last)}
            try:
                _, answered = await connection.post(path, body, {**headers, **resumed})
                if not answered.get('content-type', '').startswith('text/event-stream'):
                    unwrap(await connection.body(answered))
                    raise Surprise(f'{self.name}: a stream was answered without one')
                async for number, data in connection.frames():
                    event, number = unwrap(data), int(number)
                    self.task = self.task or task_of(event)
                    shown[number] = event
                    last = number
                    if state_of(event) in SETTLED or enough and len(shown) >= enough:
                        return
            except (Cut, Silent):
                pass
            except Refused as refusal:
                if not refusal.not_now:
                    raise
            finally:
                connection.close()
            await self.pause()

    async def pause(self):
        self.retries += 1
        await asyncio.sleep(self.rng.uniform(*RETRY_SECONDS))


def json_rpc(method, params):
    # A method with a slash is one of 0.3, whose clients name no version.
    version = {} if '/' in method else {'A2A-Version': '1.0'}
    return '/', version, {'jsonrpc': '2.0', 'id': 1, 'method': method, 'params': params}


def encode(request):
    path, headers, body = request
    return path, {'Content-Type': 'application/json', **headers}, json.dumps(body).encode()


def unwrap(body):
    answer = json.loads(body)
    if 'error' in answer:
        raise Refused(answer['error'])
    return answer['result'] if 'jsonrpc' in answer else answer
