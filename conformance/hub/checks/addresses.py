"""Cards that lead somewhere else, hubs in a row, and hubs in a circle."""

import contextlib
import re

import door
import upstreams
from checks.rogues import ECHO, clear, new_answer
from liar import Liar, card_1
from registry import check, equal, holds
from startup import free_ports

SOON = '[agent.continuation]\nattempts = 2\npoll_ms = 100'
# More than any honest chain, far fewer than a storm.
TASKS_MAX = 40


def led_to(world, url):
    """A hub that allows nothing but what stands in the configuration, before an agent whose card leads elsewhere."""
    with Liar(new_answer, lambda own: card_1(url(own))) as liar:
        with upstreams.hub(world, upstreams.agent('far', liar.url, SOON), ECHO, config='') as hub:
            words = clear(door.done(hub, 'far'))
            equal('calls', len(liar.calls), 0)
            return words


@check
def a_card_leads_to_this_very_machine(world):
    """0.0.0.0 is nobody's address: not called."""
    led_to(world, lambda own: own.replace('127.0.0.1', '0.0.0.0'))


@check
def a_card_leads_to_this_machine_by_another_name(world):
    """127.9.9.9, though 127.0.0.1 was allowed: not called."""
    led_to(world, lambda own: own.replace('127.0.0.1', '127.9.9.9'))


@check
def a_card_leads_to_a_private_network(world):
    """A private address that nobody allowed: not called."""
    led_to(world, lambda own: 'http://10.11.12.13/rpc')


@check
def a_card_leads_to_the_keys_of_the_cloud(world):
    """The address of metadata services: not called."""
    led_to(world, lambda own: 'http://169.254.169.254/latest/meta-data')


@check
def a_card_leads_to_a_file(world):
    """No HTTP at all: not called."""
    led_to(world, lambda own: 'file:///etc/passwd')


@check
def two_agents_have_one_name(world):
    """Such a hub does not start, and says why."""
    server = world.server('', agents=ECHO + ECHO)
    done = server.sabir('serve', '--config', server.config, '--listen', '127.0.0.1:0', seconds=20)
    holds(done.returncode != 0, 'it started')
    holds('near' in done.stderr, f'it does not say which: {done.stderr[-300:]}')


# --- In a row ---------------------------------------------------------------------------------------------------------


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


# --- In a circle ------------------------------------------------------------------------------------------------------


def ends(hub, *others):
    """One message into a circle: it ends, clearly, and without a storm."""
    try:
        words = clear(door.done(hub, 'far', seconds=20))
    except Exception as error:
        raise AssertionError(f'{error}; {sum(len(door.states(one)) for one in (hub, *others))} tasks by then') from error
    count = sum(len(door.states(one)) for one in (hub, *others))
    holds(count <= TASKS_MAX, f'{count} tasks for one message')
    holds(re.search('loop|circle|hop|itself|ourselves', words), f'it does not say why: {words}')
    left = [state for one in (hub, *others) for state in door.states(one) if state in ('submitted', 'working')]
    return f'{count} tasks, {len(left)} of them unfinished: {words}'


@check
def a_hub_before_itself(world):
    """An agent that is ourselves ends clearly, after few tasks."""
    [port] = free_ports(1)
    section = upstreams.agent('far', f'http://127.0.0.1:{port}/agents/far', SOON)
    with world.server(upstreams.ALLOW, agents=section, listen=f'127.0.0.1:{port}') as hub:
        return ends(hub)


@check
def two_hubs_before_each_other(world):
    """So does a circle of two."""
    one, two = free_ports(2)
    sections = [upstreams.agent('far', f'http://127.0.0.1:{port}/agents/far', SOON) for port in (two, one)]
    with world.server(upstreams.ALLOW, agents=sections[0], listen=f'127.0.0.1:{one}') as hub:
        with world.server(upstreams.ALLOW, agents=sections[1], listen=f'127.0.0.1:{two}') as other:
            return ends(hub, other)


@check
def a_card_leads_back_to_us(world):
    """An agent elsewhere whose card names our own address."""
    [port] = free_ports(1)
    with Liar(new_answer, lambda own: card_1(f'http://127.0.0.1:{port}/agents/far')) as liar:
        section = upstreams.agent('far', liar.url, SOON)
        with world.server(upstreams.ALLOW, agents=section, listen=f'127.0.0.1:{port}') as hub:
            return ends(hub)
