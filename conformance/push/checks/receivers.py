"""Many tasks at once, each with a receiver of its own; the tests in Rust have the receivers that misbehave."""

import collections
import concurrent.futures

from registry import check, equal
from server import until
from setting import AGENT, letters, send, serving, told

# Enough for what happens between two threads once in a while.
BUSY_TASKS = 300


def ids(deliveries):
    """The ids in the order in which they came first."""
    return list(dict.fromkeys(one['webhook-id'] for one in deliveries))


@check
def what_was_accepted_is_not_sent_again(world):
    """Repetitions are for crashes and for receivers that fail; where neither happens, there are none."""
    burst = ', '.join(f'{{ status = "step {number}" }}' for number in range(4))
    steps = f'do = [{burst}, {{ wait_ms = 5 }}, {burst}, {{ wait_ms = 5 }}, {burst}, {{ complete = "done" }}]'
    agents = AGENT.replace(AGENT[AGENT.rindex('do = ['):], steps + '\n')
    with serving(world, agents=agents) as (server, hooks):
        paths = [f'/mine/{number}' for number in range(BUSY_TASKS)]
        with concurrent.futures.ThreadPoolExecutor(8) as pool:
            list(pool.map(lambda path: send(server, hooks.add(path)), paths))
        again = collections.Counter()
        for path in paths:
            deliveries = told(hooks, path, seconds=60)
            again += collections.Counter(one['webhook-id'] for one in deliveries) - collections.Counter(ids(deliveries))
        until(lambda: not letters(server), 'nothing is owed any more')
        equal('sent again', dict(again), {})
