"""Hubs in a row."""

import contextlib

import door
import upstreams
from registry import check, equal


@check
def a_hub_before_a_hub(world):
    """Three in a row are as good as one."""
    with contextlib.ExitStack() as stack:
        last = stack.enter_context(upstreams.hub(world, upstreams.OURS))
        url = f'{last.url}/agents/play'
        for _ in range(2):
            hub = stack.enter_context(upstreams.hub(world, upstreams.agent('play', url)))
            url = f'{hub.url}/agents/play'
        equal('echo', door.texts(door.done(hub, 'play', 'hello there')), ['hello there'])
        asked = door.call(hub, 'play', 'SendMessage', {'message': door.message('ask')})['result']['task']
        equal('question', (door.state(asked), door.words(asked)), ('INPUT_REQUIRED', 'Which city?'))
        answer = {'message': door.message('Paris', taskId=asked['id'])}
        told = door.call(hub, 'play', 'SendMessage', answer)['result']['task']
        equal('answer', (door.state(told), door.texts(told), door.words(told)), ('COMPLETED', ['Paris'], 'thank you'))
        held = door.start(hub, 'play', 'hold')
        door.until(lambda: door.state(door.get(hub, 'play', held)) == 'WORKING', 'it works')
        door.call(hub, 'play', 'CancelTask', {'id': held})
        equal('canceled here', door.state(door.settled(hub, 'play', held)), 'CANCELED')
        door.until(lambda: 'canceled' in door.states(last), 'canceled at the other end')
