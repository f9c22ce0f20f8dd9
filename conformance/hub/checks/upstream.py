"""What the hub owes to callers and agents beside translating: cancels that arrive, retries, crashes on either side."""

import asyncio
import contextlib
import json
import sqlite3
import time

import door
import servers
import upstreams
from callers import CALLERS
from checks.rogues import before, clear, new_answer
from liar import Liar, chunk, named, task, update
from registry import check, equal, holds
from server import until

SOON = '[agent.continuation]\nattempts = 3\npoll_ms = 200'


def theirs(hub, ours):
    """The name of their task for one of ours, from the view that is there for it."""
    with contextlib.closing(sqlite3.connect(f'file:{hub.scratch}/data/sabir.db?mode=ro', uri=True)) as store:
        asked = 'SELECT a2a_task_id FROM a2a_continuations WHERE integration_task_id = ?'
        return next((name for (name,) in store.execute(asked, (ours,)) if name), None)


def cancel_arrives(world, name):
    """A task at work is canceled here; asked directly, the agent says that its own is."""
    with upstreams.serving(world, name) as direct:
        with upstreams.hub(world, upstreams.agent('far', direct.base, SOON)) as hub:
            running = door.start(hub, 'far', 'hold')
            their_task = until(lambda: theirs(hub, running), 'their task is known')
            time.sleep(0.3)
            door.call(hub, 'far', 'CancelTask', {'id': running})
            equal('ours', door.state(door.settled(hub, 'far', running)), 'CANCELED')

            async def look():
                async with CALLERS[upstreams.UPSTREAMS[name].direct].calling(direct) as session:
                    return (await session.get(their_task)).state

            until(lambda: asyncio.run(look()) == 'canceled', 'theirs is canceled', 30, 0.2)


@check
def a_cancel_reaches_an_agent_of_1_0(world):
    """A task that is canceled here is canceled there."""
    cancel_arrives(world, 'python-1')


@check
def a_cancel_reaches_an_agent_of_0_3(world):
    """The same for 0.3."""
    cancel_arrives(world, 'js-0.3')


@check
def a_cancel_reaches_an_agent_of_agent_native(world):
    """The same for agent-native."""
    cancel_arrives(world, 'agent-native')


@check
def a_cancel_reaches_another_sabir(world):
    """The same for a Sabir."""
    cancel_arrives(world, 'sabir')


@check
def a_repeated_message_is_one_task(world):
    """A caller that repeats itself is one caller with one wish, whatever the agent would make of it."""
    with before(world, new_answer) as (hub, liar):
        said = {'message': door.message('only once')}
        first, second = (door.call(hub, 'far', 'SendMessage', said)['result']['task'] for _ in range(2))
        equal('the same task', second, first)
        equal('calls', len(liar.asked('SendMessage', 'SendStreamingMessage')), 1)


@check
def a_hub_is_killed_in_the_middle(world):
    """A hub that is killed while an SDK streams goes on where it was: every chunk once, in order."""
    with servers.serving('python-1') as server:
        hub = world.server(upstreams.ALLOW, agents=upstreams.agent('far', server.url, SOON))
        with hub:
            running = door.start(hub, 'far', 'slow 12')
            until(lambda: len(''.join(door.texts(door.get(hub, 'far', running)))) > 24, 'three chunks are there')
            hub.process.kill()
            hub.process.wait()
            hub.start()
            told = door.settled(hub, 'far', running, 40)
            whole = ''.join(f'chunk {number} ' for number in range(1, 13))
            equal('told', (door.state(told), ''.join(door.texts(told))), ('COMPLETED', whole))


@check
def an_agent_is_gone_in_the_middle(world):
    """An agent that dies at work and forgets: the task fails and says so, and what it had made is kept."""

    def behave(call):
        ids = named()
        if call.method == 'SendStreamingMessage':
            return call.stream([task(ids, 'WORKING'), chunk(ids, 'half of it')])
        return call.refuse(-32001, 'task not found')

    with before(world, behave, SOON) as (hub, _):
        told = door.done(hub, 'far')
        clear(told)
        equal('what there was', door.texts(told), ['half of it'])


@check
def an_agent_that_forgets_is_not_asked_twice(world):
    """The connection breaks before the first word, and nobody can look: the message is not sent again."""

    def behave(call):
        if call.method in ('SendStreamingMessage', 'SendMessage'):
            call.handler.close_connection = True
            return
        call.refuse(-32601, 'method not found')

    with before(world, behave, SOON) as (hub, liar):
        clear(door.done(hub, 'far'))
        equal('sends', len(liar.asked('SendStreamingMessage', 'SendMessage')), 1)


@check
def an_agent_is_away_for_a_moment(world):
    """Nobody is there when the message comes; a moment later somebody is, and it is answered."""
    liar = Liar(lambda call: None)
    port = liar.port
    with liar:
        pass
    with upstreams.hub(world, upstreams.agent('far', f'http://127.0.0.1:{port}')) as hub:
        running = door.start(hub, 'far', 'are you there?')
        time.sleep(1)
        equal('it waits', door.state(door.get(hub, 'far', running)) in door.SETTLED, False)

        def behave(call):
            ids = named()
            call.stream([task(ids, 'WORKING'), chunk(ids, 'now I am'), update(ids, 'COMPLETED')])

        with Liar(behave, port=port):
            told = door.settled(hub, 'far', running, 60)
            equal('told', (door.state(told), door.texts(told)), ('COMPLETED', ['now I am']))


@check
def one_agent_is_slow_and_others_are_not(world):
    """A hundred tasks that hang at one agent do not hold up the one beside it."""
    with before(world, lambda call: call.silence()) as (hub, _):
        held = [door.start(hub, 'far') for _ in range(100)]
        started = time.monotonic()
        equal('the other', door.texts(door.done(hub, 'near', 'quick')), ['quick'])
        holds(time.monotonic() - started < 10, 'it was held up')
        for one in held[:3]:
            equal('state', door.state(door.get(hub, 'far', one)) in door.SETTLED, False)


# --- Breakers ---------------------------------------------------------------------------------------------------------


@check
def a_broken_agent_is_left_alone(world):
    """After three failures it is not called for a while, and callers are told when to come back; then it is."""
    well = []

    def behave(call):
        if not well:
            return call.bytes(500, 'text/plain', b'out of order', length=12)
        return new_answer(call)

    lines = (
        '[agent.continuation]\nattempts = 1\npoll_ms = 100',
        '[agent.breaker]\nfailures = 3\nwindow_seconds = 60\ncooldown_seconds = 2',
    )
    with before(world, behave, *lines) as (hub, liar):
        for _ in range(3):
            clear(door.done(hub, 'far'))
        called = len(liar.calls)
        body = json.dumps({'message': door.message('hello')}).encode()
        for _ in range(5):
            answer = hub.call('POST', '/agents/far/message:send', door.HEADERS, body)
            equal('refused, with the time to come back', (answer.status, bool(answer.header('retry-after'))), (503, True))
        equal('calls while it is left alone', len(liar.calls) - called, 0)
        well.append(True)
        time.sleep(2.2)
        equal('it is called again', door.texts(door.done(hub, 'far')), ['as of today'])


@check
def a_callers_haste_is_not_the_agents_fault(world):
    """Callers who cancel at once do not open the breaker of an agent that is merely slow."""
    slow = []

    def behave(call):
        if slow:
            return call.silence()
        return new_answer(call)

    lines = '[agent.breaker]\nfailures = 3\nwindow_seconds = 60\ncooldown_seconds = 60'
    with before(world, behave, 'cancel_grace_seconds = 1', lines) as (hub, liar):
        slow.append(True)
        for _ in range(5):
            running = door.start(hub, 'far')
            until(lambda: liar.calls, 'it is asked')
            door.call(hub, 'far', 'CancelTask', {'id': running})
            door.settled(hub, 'far', running)
            liar.calls.clear()
        slow.clear()
        equal('served', door.state(door.done(hub, 'far')), 'COMPLETED')
