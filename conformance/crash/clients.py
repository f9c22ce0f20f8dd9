"""The clients: each goes on with one kind of business, through every crash, and notes what it was shown.

| Kind | Business |
|---|---|
| `send` | blocking `SendMessage` with a UUID as `messageId`; now and then an old message once more |
| `stream` | `SendStreamingMessage`, taken up again with the same request and `Last-Event-ID` |
| `subscribe` | `SubscribeToTask` on the tasks of others, taken up again likewise |
| `keyed` | `SendMessage` with a hand-made `messageId` and an `Idempotency-Key` |
| `rest` | `POST /message:send`, with retries that change between the two bindings |
| `twins` | one message on two connections at the same time |

They all retry in the same way: the same bytes again, until an answer came. What an answer means for the promises is
decided in `record.py` and `follow.py`.
"""

import asyncio
import collections
import datetime
import json
import time
import uuid

from follow import Follower
from record import ANSWERS, CONTINUES, SERVED, SUBSCRIBES, Send, opened_ms, settles
from script import SLOW
from wire import Connection, Cut, Refused, Silent, unwrap

# Who does what; repeated for as many clients as are wanted.
KINDS = [
    'send', 'stream', 'subscribe', 'stream', 'twins', 'keyed', 'stream', 'send',
    'rest', 'stream', 'subscribe', 'stream', 'send', 'keyed', 'stream', 'twins',
]
# Long enough not to spin while the server is down, short enough to be there when it is back.
RETRY_SECONDS = (0.005, 0.03)
# Implicit keys are promised for ten minutes; what is sent again here is well inside of that.
RESEND_SECONDS_MAX = 300
UNSUPPORTED = -32004


class World:
    """What the clients have in common."""

    def __init__(self, address, record, rng, count):
        self.address, self.record, self.rng = address, record, rng
        self.stopping = False
        # Streams that others may subscribe to, and messages that may be sent again: the latest ones.
        self.streams = collections.deque(maxlen=64)
        self.old = collections.deque(maxlen=512)
        self.clients = [Client(self, number, KINDS[number % len(KINDS)]) for number in range(count)]


class Client:
    """One client: a name, a connection that it keeps, and what it is waiting for right now."""

    def __init__(self, world, number, kind):
        self.world, self.record, self.rng = world, world.record, world.rng
        self.name, self.business = f'client {number} ({kind})', getattr(self, kind)
        self.connection = Connection(world.address)
        self.count = 0
        self.waits_for = None

    async def run(self):
        """Goes about its business until told to stop, and then finishes what it has begun."""
        try:
            while not self.world.stopping:
                await self.turn()
                self.waits_for = None
                await asyncio.sleep(self.rng.uniform(0, 0.006))
        finally:
            self.connection.close()
            self.record.check(SERVED, self.waits_for is None, f'{self.name} still waits for {self.waits_for}')

    async def turn(self):
        try:
            await self.business()
        except Exception as error:
            # An answer of a shape that nobody thought of. It is a finding, and no reason to stop looking.
            self.record.check(ANSWERS, False, f'{self.name}, waiting for {self.waits_for}: cannot be read: {error!r}')

    # --- Businesses ---------------------------------------------------------------------------------------------------

    async def send(self):
        if self.world.old and self.rng.random() < 0.1:
            return await self.send_again()
        send, request = self.compose(slow=self.rng.random() < 0.1)
        await self.deliver(send, [request])
        self.world.old.append((time.monotonic(), send, request))

    async def send_again(self):
        """A message from before, perhaps from before a crash: it must be recognised, and nothing may run twice."""
        at, send, request = self.rng.choice(self.world.old)
        if send.acknowledged and time.monotonic() - at < RESEND_SECONDS_MAX:
            await self.deliver(send, [request])

    async def keyed(self):
        send, request = self.compose(key=f'key-{self.rng.getrandbits(64):x}', slow=self.rng.random() < 0.1)
        await self.deliver(send, [request])

    async def rest(self):
        send, request = self.compose()
        await self.deliver(send, [rest_of(request), request])

    async def twins(self):
        send, request = self.compose(slow=self.rng.random() < 0.2)
        other = Connection(self.world.address)
        try:
            await asyncio.gather(self.deliver(send, [request]), self.deliver(send, [request], other))
        finally:
            other.close()

    async def stream(self):
        """Mostly slow answers, seen to their end; some readers walk away, and their tasks must settle all the same."""
        send, request = self.compose('SendStreamingMessage', slow=self.rng.random() < 0.85)
        leave_at = self.rng.randrange(2, 10) if self.rng.random() < 0.1 else None
        follower = Follower(self.record, f'{self.name}, message {send.message_id}')

        def shown():
            if not send.acknowledged:
                self.world.streams.append(follower.task)
            send.tasks.add(follower.task)
            self.record.check_joined(send, self.name)
            return follower.last == leave_at

        await self.follow(follower, request, shown)

    async def subscribe(self):
        if not self.world.streams:
            return
        # Mostly the latest, which are at work; the others have settled.
        newest = min(len(self.world.streams), 6 if self.rng.random() < 0.8 else 64)
        task = self.world.streams[-self.rng.randint(1, newest)]
        request = json_rpc('SubscribeToTask', {'id': task}, task)
        try:
            await self.follow(Follower(self.record, self.name, task, last=None), request)
        except Refused as refusal:
            seen_ms = time.time() * 1000
            kept = self.record.check(SUBSCRIBES, refusal.code == UNSUPPORTED, f'task {task} ({self.name}): {refusal}')
            if kept:
                await self.replay(task, request, seen_ms)

    async def replay(self, task, request, seen_ms):
        """A settled task has nothing to subscribe to, but what is left after a given event is still to be had."""
        known = self.record.events[task]
        last = self.rng.choice(sorted(known))
        follower = Follower(self.record, f'{self.name}, replaying', task, last)
        follower.settled = settles(known[last])
        await self.follow(follower, request)
        self.record.figures['settled tasks replayed'] += 1
        final = known.get(follower.last, {})
        if settles(final):
            at = (final.get('statusUpdate') or final.get('task'))['status'].get('timestamp')
            self.record.check(SUBSCRIBES, at is not None and millis(at) <= seen_ms, lambda: (
                f'task {task}: a subscription was refused as settled before it settled, which was at {at}'))

    # --- The ways of asking -------------------------------------------------------------------------------------------

    def compose(self, method='SendMessage', key=None, slow=False):
        """A new message, and the request that carries it; the latter is made once and never changed."""
        self.count += 1
        hand_made = f'{self.name.replace(" ", "-")}-{self.count}'
        message_id = hand_made if key else str(uuid.UUID(int=self.rng.getrandbits(128), version=4))
        text = f'{SLOW if slow else "quick"} {hand_made}'
        send = Send(message_id, text, key)
        self.record.sends.append(send)
        message = {'messageId': message_id, 'role': 'ROLE_USER', 'parts': [{'text': text}]}
        return send, json_rpc(method, {'message': message}, message_id, {'Idempotency-Key': key} if key else {})

    async def deliver(self, send, requests, connection=None):
        """Sends until somebody answers; several requests for the same message take turns."""
        connection = connection or self.connection
        for attempt in range(1 << 30):
            request = requests[attempt % len(requests)]
            self.waits_for = f'the answer to message {send.message_id}'
            self.record.figures['retries'] += attempt > 0
            began_ms, known = time.time() * 1000, send.acknowledged
            try:
                result = await self.ask(connection, request)
            except (Cut, Silent) as why:
                await self.again(connection, why)
                continue
            except Refused as refusal:
                if not await self.surprise(refusal, f'message {send.message_id} ({self.name})'):
                    continue
                return
            if not self.record.check(ANSWERS, 'task' in result, f'message {send.message_id}: answered with {result}'):
                return
            self.record.show_reply(send, result['task'], self.name)
            self.count_joined(result['task']['id'], began_ms, known)
            return

    async def ask(self, connection, request):
        status, headers = await connection.post(request.path, request.body, request.headers)
        return unwrap(request.binding, status, await connection.body(headers))

    async def follow(self, follower, request, shown=lambda: False):
        """Reads a stream to its end through all cuts, or until `shown` says that it is enough."""
        for attempt in range(1 << 30):
            self.waits_for = f'events after {follower.last} of task {follower.task} ({follower.who})'
            self.record.figures['retries'] += attempt > 0 and not follower.last
            connection = Connection(self.world.address)
            try:
                if await self.read(connection, follower, request, attempt, shown):
                    return
            except (Cut, Silent) as why:
                if follower.settled:
                    return
                await self.again(connection, why)
            except Refused as refusal:
                if follower.last is None:
                    raise
                if await self.surprise(refusal, follower.where(follower.last), CONTINUES):
                    return
            finally:
                connection.close()

    async def read(self, connection, follower, request, attempt, shown):
        """One connection's worth of a stream. True when there is nothing more to be had."""
        resumed, began_ms = follower.headers(), time.time() * 1000
        status, headers = await connection.post(request.path, request.body, {**request.headers, **resumed})
        if not headers.get('content-type', '').startswith('text/event-stream'):
            unwrap(request.binding, status, await connection.body(headers))
            self.record.check(ANSWERS, False, f'{follower.where(follower.last)}: a stream was answered without one')
            return True
        # Only what was cut off and now goes on is a resumed stream; a replay that was asked for is not.
        self.record.figures['streams resumed'] += bool(resumed) and attempt > 0
        async for number, data in connection.frames():
            begins = follower.last == 0
            if not follower.take(number, unwrap(request.binding, status, data)):
                return True
            if begins:
                self.count_joined(follower.task, began_ms)
            if shown():
                return True
        follower.ended()
        return True

    def count_joined(self, task, began_ms, known=False):
        """A task that is older than the request was opened by an earlier copy of it, which had seemed to be lost."""
        # The stamp in an id is cut to milliseconds, hence the one in doubt.
        self.record.figures['duplicates joined'] += known or opened_ms(task) < began_ms - 1

    async def again(self, connection, why):
        """After a cut: a moment's rest. A server that is there and says nothing is another matter."""
        connection.close()
        self.record.check(SERVED, not isinstance(why, Silent), f'{self.name} waited for {self.waits_for}: {why}')
        await asyncio.sleep(self.rng.uniform(*RETRY_SECONDS))

    async def surprise(self, refusal, what, promise=ANSWERS):
        """An error where none was due. Only "not now" may be asked again; true for everything else."""
        if refusal.reason == 'UNAVAILABLE':
            self.record.figures['told to try later'] += 1
            await asyncio.sleep(self.rng.uniform(*RETRY_SECONDS))
            return False
        self.record.check(promise, False, f'{what}: refused with {refusal}')
        return True


Request = collections.namedtuple('Request', 'binding path headers body')


def json_rpc(method, params, request_id, headers=None):
    body = {'jsonrpc': '2.0', 'id': request_id, 'method': method, 'params': params}
    fields = {'A2A-Version': '1.0', 'Content-Type': 'application/json', **(headers or {})}
    return Request('JSONRPC', '/', fields, json.dumps(body).encode())


def rest_of(request):
    """The same message by the HTTP+JSON binding; a retry is recognised by its message, whatever way it comes."""
    params = json.loads(request.body)['params']
    fields = {**request.headers, 'Content-Type': 'application/a2a+json'}
    return Request('HTTP+JSON', '/message:send', fields, json.dumps(params).encode())


def millis(timestamp):
    """Milliseconds of an ISO 8601 time."""
    return datetime.datetime.fromisoformat(timestamp).timestamp() * 1000
