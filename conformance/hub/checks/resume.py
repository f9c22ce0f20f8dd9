"""Resuming for those that cannot: agents whose events have no numbers, callers whose connections break."""

import door
import servers
import upstreams
from registry import check, equal, holds

CUTS = 5
# 0.3 s apart.
CHUNKS = 12


def followed(hub):
    """Reads one stream through five cuts; everything that came, in the order it came."""
    sent = {'message': door.message(f'slow {CHUNKS}')}
    events, last = [], None
    for cut in range(CUTS + 1):
        reader = door.Reader(hub, 'far', 'SendStreamingMessage', sent, last)
        for count, (number, event) in enumerate(reader, 1):
            holds(number is not None, f'an event without a number: {event}')
            events.append((number, event))
            last = number
            if cut < CUTS and count == 2:
                break
        reader.cut()
    return events


def every_event_once(world, kind):
    with servers.serving(kind) as server, upstreams.hub(world, upstreams.agent('far', server.url)) as hub:
        events = followed(hub)
        numbers = [number for number, _ in events]
        equal('numbers of the events', numbers, list(range(1, len(numbers) + 1)))
        parts = [part['text'] for _, event in events if 'artifactUpdate' in event
                 for part in event['artifactUpdate']['artifact']['parts']]
        equal('chunks', parts, [f'chunk {number} ' for number in range(1, CHUNKS + 1)])
        task = events[0][1]['task']['id']
        equal('the last event', events[-1][1]['statusUpdate']['status']['state'], 'TASK_STATE_COMPLETED')
        equal('the stored task', door.texts(door.get(hub, 'far', task)), [''.join(parts)])


@check
def python_1_0_cut_five_times(world):
    """`a2a-sdk` 1.3.0 numbers no events; ours are numbered, and each comes once."""
    every_event_once(world, 'python-1')


@check(slow=True)
def python_0_3_cut_five_times(world):
    """`a2a-sdk` 0.3.26 numbers no events; ours are numbered, and each comes once."""
    every_event_once(world, 'python-0.3')


@check(slow=True)
def javascript_1_0_cut_five_times(world):
    """`@a2a-js/sdk` 1.3.0 numbers no events; ours are numbered, and each comes once."""
    every_event_once(world, 'js-1')


@check(slow=True)
def javascript_0_3_cut_five_times(world):
    """`@a2a-js/sdk` 0.3.14 numbers no events; ours are numbered, and each comes once."""
    every_event_once(world, 'js-0.3')
