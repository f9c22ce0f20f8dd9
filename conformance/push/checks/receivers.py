"""Receivers that misbehave: what becomes of their events, and that nobody else notices."""

import collections
import concurrent.futures
import threading
import time
from email.utils import formatdate

from hooks import Flooding, Hooks, accepting, answering, breaking_off, closing, dripping, silent, trickling
from registry import check, equal, holds
from server import until
from setting import AGENT, JSON, add, dead, letters, send, serving, state, told, waiting

ENDS = 'TASK_STATE_COMPLETED'
# Enough for what happens between two threads once in a while.
BUSY_TASKS = 300


def ids(deliveries):
    """The ids in the order in which they came first."""
    return list(dict.fromkeys(one['webhook-id'] for one in deliveries))


@check
def after_410_nothing_more_comes_and_what_is_owed_is_a_dead_letter(world):
    with serving(world) as (server, hooks):
        task = waiting(server)
        add(server, task, hooks.add('/gone', answering(410)), id='mine')
        add(server, task, hooks.add('/kept'), id='other')
        send(server, text='this one', task=task)
        told(hooks, '/kept')
        listed = dead(server, 1)
        equal('requests', len(hooks.at('/gone')), 1)
        equal('whose', {(one['taskId'], one['configId']) for one in listed}, {(task, 'mine')})
        holds(any('410' in one['reason'] for one in listed), f'no letter says why: {listed}')
        # What happens afterwards is not owed to it, unless it is registered anew.
        add(server, task, hooks.add('/gone', accepting), id='mine')
        server.command('push', 'retry', '--all-dead')
        until(lambda: not letters(server), 'what was owed arrives once it is registered anew')
        owed = sum(one['lastEvent'] - one['firstEvent'] + 1 for one in listed)
        equal('events that arrived', len(hooks.at('/gone')) - 1, owed)


@check
def after_429_it_waits_as_long_as_it_was_asked_to(world):
    with serving(world) as (server, hooks):
        send(server, hooks.add('/busy', answering(429, Retry_After='3'), accepting))
        first, second, *_ = told(hooks, '/busy')
        equal('ids', first['webhook-id'], second['webhook-id'])
        holds(second.at - first.at >= 3, f'came again after {second.at - first.at:.2f} s')
        equal('dead letters', letters(server), [])


@check
def after_503_with_a_date_it_waits_until_then(world):
    with serving(world) as (server, hooks):
        dates = []

        def later(handler):
            dates.append(int(time.time()) + 4)
            handler.say(503, [('Retry-After', formatdate(dates[0], usegmt=True))])

        send(server, hooks.add('/busy', later, accepting))
        _, second, *_ = told(hooks, '/busy')
        # Dates have no fractions, and waits are counted from when the answer was read.
        holds(second.at >= dates[0] - 1, f'came again {dates[0] - second.at:.2f} s before the time')


@check
def five_hundred_for_ever_is_a_dead_letter_for_each_event_in_order(world):
    # Four failures: one more, and the host would be left alone for a while.
    with serving(world, 'attempts = 1') as (server, hooks):
        task = send(server, hooks.add('/broken', answering(500)))
        listed = dead(server, 4)
        owed = sorted((one['firstEvent'], one['lastEvent']) for one in listed)
        equal('dead letters', owed, [(number, number) for number in range(1, 5)])
        equal('tasks', {one['taskId'] for one in listed}, {task})
        deliveries = hooks.at('/broken')
        equal('requests, events', (len(deliveries), len(ids(deliveries))), (4, 4))


@check
def an_event_is_given_up_after_its_attempts_and_the_next_one_follows(world):
    with serving(world, 'attempts = 4') as (server, hooks):
        send(server, hooks.add('/broken', *[answering(500)] * 4, accepting))
        deliveries = told(hooks, '/broken', seconds=40)
        first, *others = ids(deliveries)
        equal('ids', [one['webhook-id'] for one in deliveries], [first] * 4 + others)
        equal('events', len(others), 3)
        (listed,) = dead(server, 1)
        tries = server.command('push', 'show', str(listed['number']))['tries']
        equal('attempts shown', [one['status'] for one in tries], [500] * 4)
        waits = [later.at - earlier.at for earlier, later in zip(deliveries[:3], deliveries[1:4])]
        # At least half of one, two and four seconds; how much later it is, the machine has a say in.
        holds(all(wait >= least for wait, least in zip(waits, (0.5, 1, 2))), f'waits between attempts: {waits}')


@check
def the_first_event_that_fails_holds_up_the_next_ones_and_none_is_skipped(world):
    with serving(world) as (server, hooks):
        send(server, hooks.add('/late', *[answering(500)] * 2, accepting))
        deliveries = told(hooks, '/late')
        equal('events', len(ids(deliveries)), 4)
        equal('order', [one['webhook-id'] for one in deliveries],
              [ids(deliveries)[0]] * 2 + ids(deliveries))


@check
def redirects_are_not_followed(world):
    with serving(world, 'attempts = 1') as (server, hooks):
        for status in (301, 302, 303, 307, 308):
            # To somewhere else, and in a circle.
            for path, to in {f'/{status}': '/elsewhere', f'/round/{status}': f'/round/{status}'}.items():
                send(server, hooks.add(path, answering(status, Location=hooks.url + to)))
        dead(server, 40)
        equal('requests elsewhere', (hooks.at('/elsewhere'), hooks.asked), ([], []))
        for status in (301, 302, 303, 307, 308):
            for path in (f'/{status}', f'/round/{status}'):
                equal(f'requests at {path}', len(hooks.at(path)), 4)


@check
def an_answer_of_a_gigabyte_is_not_read(world):
    with serving(world) as (server, hooks):
        flood = Flooding()
        send(server, hooks.add('/warm'))
        told(hooks, '/warm')
        before = server.rss()
        send(server, hooks.add('/flood', flood))
        equal('events', len(ids(told(hooks, '/flood', seconds=30))), 4)
        grown = server.rss() - before
        holds(grown < 64, f'memory grew by {grown:.0f} MiB')
        holds(flood.sent < flood.WHOLE / 4, f'{flood.sent >> 20} MiB of the answers were taken')
        return f'{flood.sent >> 10} KiB taken of 4 answers, {grown:.0f} MiB more memory'


@check
def a_body_that_never_ends_is_not_waited_for(world):
    with serving(world) as (server, hooks):
        send(server, hooks.add('/trickle', trickling))
        deliveries = told(hooks, '/trickle')
        equal('requests', len(deliveries), len(ids(deliveries)))


@check
def who_accepts_and_never_answers_is_tried_again_and_holds_up_nobody(world):
    with serving(world, 'workers = 4') as (server, hooks), Hooks() as others:
        for number in range(3):
            send(server, hooks.add(f'/silent/{number}', silent))
        send(server, others.add('/quick'))
        told(others, '/quick')
        until(lambda: all(len(hooks.at(f'/silent/{number}')) > 1 for number in range(3)), 'another attempt', 60)
        for number in range(3):
            holds(len(ids(hooks.at(f'/silent/{number}'))) <= 1, 'a later event came before the first was accepted')


@check
def heads_that_drip_are_cut_off(world):
    with serving(world) as (server, hooks):
        send(server, hooks.add('/drip', dripping, accepting))
        deliveries = told(hooks, '/drip', seconds=30)
        equal('the first came twice', deliveries[0]['webhook-id'], deliveries[1]['webhook-id'])
        equal('events', len(ids(deliveries)), 4)


@check
def connections_that_break_are_tried_again(world):
    with serving(world) as (server, hooks):
        send(server, hooks.add('/broken', closing, breaking_off, accepting), text='go')
        deliveries = told(hooks, '/broken', seconds=30)
        equal('the first came three times', len({one['webhook-id'] for one in deliveries[:3]}), 1)
        equal('events', len(ids(deliveries)), 4)


@check
def a_webhook_that_is_deleted_in_flight_hears_no_more(world):
    with serving(world) as (server, hooks):
        release = threading.Event()

        def held(handler):
            release.wait()
            handler.say(500)

        task = waiting(server)
        add(server, task, hooks.add('/deleted', held), id='mine')
        add(server, task, hooks.add('/kept'), id='other')
        send(server, text='this one', task=task)
        until(lambda: hooks.at('/deleted'), 'the delivery is under way')
        answer = server.call('DELETE', f'/tasks/{task}/pushNotificationConfigs/mine', JSON)
        equal('status of the deletion', answer.status, 200)
        release.set()
        told(hooks, '/kept')
        until(lambda: not letters(server), 'nothing is owed any more')
        # Longer than the first delay, so that a second attempt would have been seen.
        time.sleep(2)
        equal('requests', len(hooks.at('/deleted')), 1)
        equal('letters', letters(server), [])


@check
def a_webhook_that_waits_for_its_next_attempt_is_deleted_with_it(world):
    with serving(world) as (server, hooks):
        task = waiting(server)
        add(server, task, hooks.add('/mine', answering(503, Retry_After='2')), id='mine')
        send(server, text='this one', task=task)
        until(lambda: hooks.at('/mine') and letters(server), 'the first attempt')
        server.call('DELETE', f'/tasks/{task}/pushNotificationConfigs/mine', JSON)
        equal('letters', letters(server), [])
        time.sleep(3)
        equal('requests', len(hooks.at('/mine')), 1)


@check
def addresses_that_may_not_be_called_are_dead_letters_at_once(world):
    """Of the kinds there are, one each; the whole table is tried where the address is judged."""
    urls = ['http://127.0.0.1:9/', 'http://localhost:9/', 'http://10.0.0.1/', 'http://192.168.1.1/', 'http://172.16.0.1/',
            'http://169.254.169.254/latest/meta-data/', 'http://[::1]:9/', 'http://[::ffff:127.0.0.1]:9/',
            'http://[fe80::1]/', 'http://0.0.0.0:9/', 'http://100.64.0.1/', 'http://2130706433:9/', 'http://0x7f.1:9/']
    with serving(world, egress='allow = []') as (server, hooks):
        own = hooks.add('/mine')
        refused = []
        for url in [*urls, own]:
            try:
                send(server, url)
            except AssertionError as why:
                # Refused where it is registered is as good as refused where it is dialled.
                holds('HTTP 400' in str(why), str(why))
                refused.append(url)
        left = len(urls) + 1 - len(refused)
        if left:
            listed = dead(server, left)
            equal('attempts', {one['attempts'] for one in listed} <= {0, 1}, True)
        equal('requests', hooks.at('/mine'), [])
        holds(own not in refused, 'what is an address of a webhook is decided when it is dialled')
        return f'{left} are dead letters, {len(refused)} were refused where they were registered'


@check
def more_webhooks_than_a_task_may_have_are_refused(world):
    with serving(world, more='[limits]\npush_configs_max = 5\n') as (server, hooks):
        task = waiting(server)
        for number in range(5):
            add(server, task, hooks.add(f'/{number}'), id=f'n{number}')
        try:
            add(server, task, hooks.add('/5'), id='n5')
        except AssertionError as why:
            holds('HTTP 4' in str(why), str(why))
        else:
            raise AssertionError('a sixth webhook was taken')
        # Setting one again is not another one.
        add(server, task, hooks.add('/again'), id='n4')
        send(server, text='this one', task=task)
        for path in ('/0', '/1', '/2', '/3', '/again'):
            equal(f'events at {path}', state(told(hooks, path)[-1]), ENDS)
        equal('events where it was before', hooks.at('/4'), [])


@check
def a_webhook_on_a_settled_task_hears_of_it(world):
    with serving(world) as (server, hooks):
        task = send(server, hooks.add('/first'))
        told(hooks, '/first')
        add(server, task, hooks.add('/late'))
        late = told(hooks, '/late')
        equal('what it hears', [one.body for one in late], [one.body for one in hooks.at('/first')])
        equal('ids in common', set(ids(late)) & set(ids(hooks.at('/first'))), set())


@check
def a_dead_host_does_not_slow_others(world):
    with serving(world, 'workers = 8') as (server, hooks), Hooks() as others:
        for number in range(40):
            send(server, hooks.add(f'/dead/{number}', silent))
        for number in range(10):
            send(server, others.add(f'/alive/{number}'))
        for number in range(10):
            told(others, f'/alive/{number}', seconds=30)
        # Left alone after some failures: most of them have not even been tried.
        holds(sum(bool(hooks.at(f'/dead/{number}')) for number in range(40)) < 40, 'the dead host is tried all the time')


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
