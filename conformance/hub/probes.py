"""What is asked: six operations, of one or more probes each, in the words of `servers/agents/behaviour.py`.

A probe is done twice with the same function: by a caller of the agent's own dialect at the agent, and by any caller at
the hub.
"""

import asyncio

NOBODY = '00000000-0000-4000-8000-000000000000'


async def send(session):
    yield 'echo', await session.send('echo hello héllo ✓')
    yield 'files', await session.send('files')
    yield 'message', await session.send('message to you')


async def stream(session):
    yield 'slow', await session.stream('slow 3')


async def question(session):
    asked = await session.send('ask me')
    yield 'ask', asked
    yield 'answer', await session.send('Paris', asked.task)
    yield 'auth', await session.send('auth')


async def cancel(session):
    task = await session.start('hold')
    # Let it begin its work: an agent that has not begun is canceled in another way.
    await asyncio.sleep(0.3)
    yield 'cancel', await session.cancel(task)
    yield 'after', await session.get(task)


async def get(session):
    task = (await session.send('echo to be read later')).task
    yield 'read', await session.get(task)
    task = (await session.send('ask')).task
    yield 'asks', await session.get(task)


async def error(session):
    yield 'fail', await session.send('fail')
    yield 'reject', await session.send('reject')
    yield 'get-unknown', await session.get(NOBODY)
    yield 'cancel-unknown', await session.cancel(NOBODY)
    settled = (await session.send('echo done')).task
    yield 'cancel-settled', await session.cancel(settled)
    yield 'send-settled', await session.send('echo more', settled)
    # What a new task would have come to, for those to whom a settled one is none of their business any more.
    yield 'again', await session.send('echo more')


OPERATIONS = {
    'send': send, 'stream': stream, 'input-required': question, 'cancel': cancel, 'get': get, 'error': error,
}
