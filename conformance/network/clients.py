"""The clients of the money run: they ask until they are told, and write down what they were told.

The log is theirs alone and is one of the four places that must agree. A line is written when an answer has come, so what
is not in it was never told to anybody; and every order is asked for until there is an answer that ends it.
"""

import asyncio
import json
import random

import names
import scene
from envelope import TRANSIENT, sign
from wire import Connection, Cut, Silent

AGAIN_SECONDS = (0.02, 0.4)
HEADERS = {'Content-Type': 'application/json'}


class Log:
    """The clients' own file."""

    def __init__(self, path):
        self.file = open(path, 'a', buffering=1)
        self.lines = 0

    def keep(self, **fields):
        self.lines += 1
        self.file.write(json.dumps(fields) + '\n')


class Client:
    """One worker; takes orders until there are none."""

    def __init__(self, run, number):
        self.run, self.rng = run, random.Random(run.rng.getrandbits(64))
        self.address, self.name = run.server.address, f'worker-{number}'

    async def work(self):
        while (order := self.run.next_order()) is not None:
            await self.serve(order)
            self.run.done += 1
            self.run.progress.set()

    async def serve(self, order):
        asked = scene.envelope(order, scene.now())
        if order.kind == 'signed':
            asked['payload'] = sign(order.envelope, names.CURRENT, asked['from'])
        jobs = [self.until_told(order, asked, 'first')]
        if order.kind == 'twice':
            jobs.append(self.until_told(order, asked, 'beside'))
        await asyncio.gather(*jobs)
        if order.kind == 'again':
            for _ in range(self.rng.randint(1, 3)):
                await asyncio.sleep(self.rng.uniform(0, 0.05))
                await self.until_told(order, {**asked, 'agent_context': {'order': order.number, 'turn': 2}}, 'again')
        if order.kind == 'other':
            changed = {**asked, 'payload': {**order.envelope, 'party_size': 10}}
            await self.until_told(order, changed, 'other')

    async def until_told(self, order, asked, why):
        """Sends one envelope, the same each time, until an answer comes that ends it."""
        body, connection, tries = scene.encoded(asked), Connection(self.address), 0
        headers = {**HEADERS, 'Authorization': f'Bearer {self.run.keys[order.key]["key"]}'}
        while True:
            tries += 1
            try:
                self.run.flying += 1
                try:
                    status, answered = await connection.post('/a2a/v1', body, headers)
                    told = json.loads(await connection.body(answered))
                finally:
                    self.run.flying -= 1
            except (Cut, Silent, ValueError):
                connection.close()
                self.run.cuts += 1
                await asyncio.sleep(self.rng.uniform(*AGAIN_SECONDS))
                continue
            error = told['payload'].get('error', {}).get('code')
            self.run.log.keep(
                order=order.number,
                key=order.key,
                kind=order.kind,
                why=why,
                tries=tries,
                status=status,
                code=error,
                booking=told['payload'].get('booking_id'),
                at=asked['timestamp'],
                replayed=answered.get('a2a-idempotent-replay') == 'true',
                echoed=told['agent_context'] == asked['agent_context'],
            )
            if error not in TRANSIENT:
                connection.close()
                return
            self.run.retried += 1
            await asyncio.sleep(self.rng.uniform(*AGAIN_SECONDS))
