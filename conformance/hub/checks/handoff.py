"""Tasks that leave for another server, as callers see it, and tasks that would go round in a circle."""

import contextlib
import json

import door
import upstreams
from registry import check, equal, holds
from server import until
from startup import free_ports

AWARE = {'A2A-Extensions': 'urn:sabir:ext:handoff:v1'}
LITERAL = {'A2A-Extensions': 'urn:sabir:ext:handoff:v1:literal'}
TASKS_MAX = 20


def office(name, other, port, rule):
    """An agent that may hand its tasks to another, which is elsewhere."""
    return f"""
[[agent]]
name = "{name}"
kind = "script"
default = true
[agent.handoff]
targets = ["{other}"]
[[agent.card.skills]]
id = "refund"
name = "Refund"
description = "Pays money back"
tags = ["cap:billing.refund"]
[[agent.rule]]
do = [{rule}]
{upstreams.agent(other, f'http://127.0.0.1:{port}/agents/{other}')}
"""


def over(to):
    return f'{{ transfer = {{ to = "{to}", required = ["billing.refund"], reason = "A refund" }} }}'


@contextlib.contextmanager
def two(world, second):
    """`triage`, which hands everything over, and `billing`, which does what it is told: two servers."""
    one, other = free_ports(2)
    first = office('triage', 'billing', other, over('billing'))
    with world.server(upstreams.ALLOW, agents=first, listen=f'127.0.0.1:{one}') as triage:
        agents = office('billing', 'triage', one, second)
        with world.server(upstreams.ALLOW, agents=agents, listen=f'127.0.0.1:{other}') as billing:
            # Each has to have read the other's card, to know what may be handed to it.
            for hub, name in ((triage, 'billing'), (billing, 'triage')):
                until(lambda: b'refund' in hub.call('GET', f'/agents/{name}/.well-known/agent-card.json').body, 'a card')
            yield triage, billing


def asked(hub, headers):
    sent = {'message': door.message('I want my money back')}
    answer = door.call(hub, 'triage', 'SendMessage', sent, headers)
    holds('result' in answer, f'refused: {answer}')
    return answer['result']['task']


@check
def a_task_is_handed_to_another_server(world):
    """One who knows of handoffs is told where the task went, and finds it there."""
    with two(world, '{ complete = "refunded" }') as (triage, billing):
        told = asked(triage, AWARE)
        text = json.dumps(told)
        equal('state', door.state(told), 'COMPLETED')
        holds('urn:sabir:ext:handoff:v1' in text and billing.url in text, f'it does not say where it went: {text}')
        until(lambda: door.states(billing) == ['completed'], 'it is done there')


@check
def a_task_is_handed_over_literally(world):
    """One who asked for the literal form reads `TRANSFERRED`, and where."""
    with two(world, '{ complete = "refunded" }') as (triage, billing):
        told = asked(triage, LITERAL)
        equal('state', told['status']['state'], 'TRANSFERRED')
        moved = told['status']['transfer']
        holds(moved['agent_endpoint'].startswith(billing.url), f'it went to {moved["agent_endpoint"]}')
        found = until(lambda: there(billing, moved['task_id']), 'it is done there')
        equal('words', door.words(found), 'refunded')


def there(hub, task):
    found = door.get(hub, 'billing', task)
    return found if door.state(found) == 'COMPLETED' else None


@check
def one_who_knows_nothing_of_handoffs_is_served(world):
    """The same task goes on, with the work of the other in it."""
    with two(world, '{ complete = "refunded" }') as (triage, _):
        told = asked(triage, {})
        equal('told', (door.state(told), door.words(told)), ('COMPLETED', 'refunded'))


ASKS = '{ ask_input = "Which order?" }]\nthen = [{ artifact = { id = "receipt", text = "paid" } }, { complete = "refunded" }'


@check
def a_hub_goes_after_a_task_that_was_handed_over(world):
    """A third server before the first alone: its caller sees one task, and its second turn reaches the second server."""
    with two(world, ASKS) as (triage, billing):
        with upstreams.hub(world, upstreams.agent('triage', f'{triage.url}/agents/triage', default=True)) as hub:
            asks = asked(hub, {})
            equal('asked', (door.state(asks), door.words(asks)), ('INPUT_REQUIRED', 'Which order?'))
            equal('at the first', door.states(triage), ['transferred'])
            answer = {'message': door.message('the last', taskId=asks['id'], contextId=asks['contextId'])}
            done = door.call(hub, 'triage', 'SendMessage', answer)['result']['task']
            equal('told', (door.state(done), door.words(done), door.texts(done)), ('COMPLETED', 'refunded', ['paid']))
            equal('one task', (done['id'], door.states(hub), door.states(billing)), (asks['id'], ['completed'], ['completed']))


def ended(triage, billing, sent):
    """All of it has ended, clearly, and without a storm."""
    until(
        lambda: not {*door.states(triage), *door.states(billing)} & {'submitted', 'working'}, 'all of it ends', 20, 0.5
    )
    states = door.states(triage) + door.states(billing)
    holds(len(states) <= TASKS_MAX, f'{len(states)} tasks for {sent} messages')
    holds('failed' in states, f'nobody was told: {states}')
    return ', '.join(f'{states.count(state)} {state}' for state in sorted(set(states)))


@check
def a_task_is_handed_over_in_a_circle(world):
    """It does not go back to where it has been: the last to have it fails it, and says so."""
    with two(world, over('triage')) as (triage, billing):
        asked(triage, AWARE)
        asked(triage, LITERAL)
        return ended(triage, billing, 2)


@check
def a_task_is_relayed_in_a_circle(world):
    """The same for a caller who knows nothing of handoffs, and for whom the work of others is passed on."""
    with two(world, over('triage')) as (triage, billing):
        door.start(triage, 'triage')
        return ended(triage, billing, 1)
