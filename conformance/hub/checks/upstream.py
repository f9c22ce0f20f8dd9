"""What the hub owes to agents on the SDKs of others: cancels that arrive, and work that goes on after a crash."""

import asyncio
import contextlib
import sqlite3
import time

import door
import servers
import upstreams
from callers import CALLERS
from registry import check, equal
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
