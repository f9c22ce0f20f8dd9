"""What is owed and what was given up, as an operator sees it: `sabir push list`, `show`, `retry`, `drop`, `test`."""

import contextlib

from hooks import Hooks, accepting, answering
from registry import check, equal, holds
from server import until
from setting import dead, letters, send, serving, state, told

ENDS = 'TASK_STATE_COMPLETED'


def four_dead(server, hooks):
    """A webhook that refuses each of four events, and takes whatever comes again; its letters by their event."""
    send(server, hooks.add('/mine', *[answering(500)] * 4, accepting))
    return {one['firstEvent']: str(one['number']) for one in dead(server, 4)}


def events(deliveries):
    """Which of the four events came, by what they were at first."""
    first = list(dict.fromkeys(one['webhook-id'] for one in deliveries))
    return [first.index(one['webhook-id']) + 1 for one in deliveries]


@check
def a_dead_letter_that_is_tried_again_arrives_with_its_id(world):
    with serving(world, 'attempts = 1') as (server, hooks):
        four_dead(server, hooks)
        server.command('push', 'retry', '--all-dead')
        until(lambda: len(hooks.at('/mine')) >= 8 and not letters(server), 'all of them come again')
        equal('events', sorted(events(hooks.at('/mine'))[4:]), [1, 2, 3, 4])


@check
def dead_letters_that_are_tried_again_together_arrive_in_order(world):
    # Several, each at a host of its own, which would be left alone for a while after a fifth failure.
    with serving(world, 'attempts = 1') as (server, _), contextlib.ExitStack() as stack:
        receivers = [stack.enter_context(Hooks()) for _ in range(6)]
        for hooks in receivers:
            send(server, hooks.add('/mine', *[answering(500)] * 4, accepting))
        dead(server, 4 * len(receivers))
        server.command('push', 'retry', '--all-dead')
        for hooks in receivers:
            until(lambda: len(hooks.at('/mine')) >= 8, 'all of them come again')
        equal('events', [events(hooks.at('/mine'))[4:] for hooks in receivers], [[1, 2, 3, 4]] * len(receivers))


@check
def one_letter_is_tried_again_and_another_is_forgotten(world):
    with serving(world, 'attempts = 1') as (server, hooks):
        numbers = four_dead(server, hooks)
        server.command('push', 'retry', numbers[3])
        until(lambda: len(hooks.at('/mine')) == 5, 'it comes again')
        equal('which one', events(hooks.at('/mine'))[4], 3)
        server.command('push', 'drop', numbers[1], numbers[2])
        until(lambda: [str(one['number']) for one in letters(server)] == [numbers[4]], 'one is left')
        server.command('push', 'drop', '--all-dead')
        equal('letters', letters(server), [])
        equal('requests', len(hooks.at('/mine')), 5)


@check
def letters_are_seen_and_tried_again_without_a_server(world):
    """By the files of a server that was stopped; what was ordered is done by the next one on them, in order."""
    with serving(world, 'attempts = 1') as (server, hooks):
        numbers = four_dead(server, hooks)
        listed = letters(server)
        server.stop()
        equal('letters without a server', letters(server), listed)
        server.command('push', 'drop', numbers[1])
        server.command('push', 'retry', '--all-dead')
        equal('letters that wait', len(letters(server, '--waiting')), 3)
        server.start()
        until(lambda: len(hooks.at('/mine')) == 7, 'three come again')
        equal('events', events(hooks.at('/mine'))[4:], [2, 3, 4])


@check
def what_waits_is_listed_with_its_attempts(world):
    with serving(world) as (server, hooks):
        task = send(server, hooks.add('/mine?key=1', answering(503, Retry_After='600')))
        until(lambda: letters(server, '--waiting') and letters(server, '--waiting')[0]['attempts'], 'an attempt')
        (first, *_) = letters(server, '--waiting')
        equal('where and what', (first['taskId'], first['receiver'], first['dialect'], first['firstEvent']),
              (task, hooks.url, '1.0', 1))
        equal('dead ones', letters(server, '--dead'), [])
        equal('of another task', letters(server, '--task', '00000000-0000-7000-8000-000000000000'), [])
        shown = server.command('push', 'show', str(first['number']))
        (attempt,) = shown['tries']
        equal('status', attempt['status'], 503)
        # Patience is asked for, and a person may end it.
        hooks.add('/mine?key=1', accepting)
        server.command('push', 'retry', str(first['number']))
        equal('the last event', state(told(hooks, '/mine?key=1')[-1]), ENDS)


@check
def push_test_says_what_would_happen(world):
    with serving(world) as (server, hooks):
        for way, code in ((accepting, 0), (answering(500), 1), (answering(302, Location='/'), 1), (answering(410), 1)):
            done = server.sabir('push', 'test', hooks.add('/mine', way), '--config', server.config)
            equal(f'exit after {way}: {done.stdout}{done.stderr}', done.returncode, code)
    with serving(world, egress='allow = []') as (server, hooks):
        done = server.sabir('push', 'test', hooks.add('/mine'), '--config', server.config)
        equal('exit where it may not call', done.returncode, 1)
        holds('[egress]' in done.stdout + done.stderr, f'the remedy is not named: {done.stdout}{done.stderr}')
        equal('requests', hooks.at('/mine'), [])
