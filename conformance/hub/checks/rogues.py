"""Agents that misbehave: whatever they do, callers get a clear end, the hub stays up, and nothing is invented."""

import contextlib
import json
import time

import door
import upstreams
from liar import Liar, card_0_3, chunk, made, named, task, update
from registry import check, equal, holds
from server import until

MIB = 1024 * 1024
# What the hub may grow by while it refuses 100 MB: its own limit on answers, in more than one copy.
GROWTH_MIB_MAX = 80
ECHO = '[[agent]]\nname = "near"\nkind = "echo"\n'


@contextlib.contextmanager
def before(world, behave, *lines, card=None, config=upstreams.ALLOW):
    """A hub before an agent that behaves so, with a healthy one beside it: `hub, liar`."""
    with Liar(behave, card) as liar:
        with upstreams.hub(world, upstreams.agent('far', liar.url, *lines), ECHO, config=config) as hub:
            yield hub, liar
            # Whatever happened, the neighbour did not suffer from it.
            equal('the healthy agent beside it', door.texts(door.done(hub, 'near', 'still here?')), ['still here?'])


def streamed(events, numbered=False):
    """An agent that answers a send with these events, and knows nothing of tasks otherwise."""

    def behave(call):
        if call.method == 'SendStreamingMessage':
            return call.stream(events(named()), numbered)
        return call.refuse(-32001, 'task not found')

    return behave


def clear(told):
    """An end that says what happened."""
    equal('state', door.state(told), 'FAILED')
    holds(len(door.words(told)) > 10, f'no words for it: {told["status"]}')
    holds(len(door.words(told)) < 2000, f'{len(door.words(told))} characters of words')
    return door.words(told)


# --- Versions ---------------------------------------------------------------------------------------------------------


def old_answer(call, text='as of old'):
    """What a server of 0.3 says."""
    ids = named()
    if call.method == 'message/send':
        done = {'kind': 'task', 'id': ids[0], 'contextId': ids[1], 'status': {'state': 'completed'}}
        parts = [{'kind': 'text', 'text': text}]
        return call.result({**done, 'artifacts': [{'artifactId': 'a', 'parts': parts}]})
    if call.method == 'message/stream':
        begun = {'kind': 'task', 'id': ids[0], 'contextId': ids[1], 'status': {'state': 'working'}}
        parts = [{'kind': 'text', 'text': text}]
        more = {'kind': 'artifact-update', 'taskId': ids[0], 'contextId': ids[1]}
        end = {'kind': 'status-update', 'taskId': ids[0], 'contextId': ids[1], 'final': True}
        return call.stream([
            begun,
            {**more, 'artifact': {'artifactId': 'a', 'parts': parts}},
            {**end, 'status': {'state': 'completed'}},
        ])
    return call.refuse(-32601, f'Method not found: {call.method}')


def new_answer(call, text='as of today'):
    if call.method == 'SendStreamingMessage':
        ids = named()
        return call.stream([task(ids, 'WORKING'), chunk(ids, text), update(ids, 'COMPLETED')])
    return call.refuse(-32601, f'Method not found: {call.method}')


@check
def it_lies_about_its_version(world):
    """The card says 1.0, the server knows only the methods of 0.3."""
    with before(world, old_answer) as (hub, liar):
        told = door.done(hub, 'far')
        if door.state(told) == 'COMPLETED':
            equal('artifacts', door.texts(told), ['as of old'])
        else:
            clear(told)
        holds(len(liar.calls) < 20, f'{len(liar.calls)} calls for one message')


@check
def it_answers_in_the_words_of_another_version(world):
    """The methods of 1.0, answered with the objects of 0.3: nothing is made up from them."""

    def behave(call):
        ids = named()
        call.stream([{'kind': 'task', 'id': ids[0], 'contextId': ids[1], 'status': {'state': 'completed'}}])

    with before(world, behave) as (hub, liar):
        clear(door.done(hub, 'far'))


@check
def it_changes_its_version_overnight(world):
    """An agent that is updated, card and all, works again without a restart of the hub."""
    speaks = [old_answer]
    with before(world, lambda call: speaks[0](call), card=card_0_3) as (hub, liar):
        equal('as it was', door.texts(door.done(hub, 'far')), ['as of old'])
        fresh = Liar(lambda call: None)
        with fresh:
            liar.card = json.loads(json.dumps(fresh.card).replace(fresh.url, liar.url))
        speaks[0] = new_answer
        first = door.done(hub, 'far')
        if door.state(first) != 'COMPLETED':
            clear(first)
        again = until(
            lambda: door.state(told := door.done(hub, 'far')) == 'COMPLETED' and told, 'it works again', 30, 1
        )
        equal('as it is', door.texts(again), ['as of today'])


# --- Events -----------------------------------------------------------------------------------------------------------


@check
def it_tells_of_another_task(world):
    """Events of a task that is not ours are not ours."""
    other = named()

    def events(ids):
        yield task(ids, 'WORKING')
        yield chunk(other, 'a secret of somebody else', name='theirs')
        yield update(other, 'COMPLETED', 'theirs is done')
        yield chunk(ids, 'mine')
        yield update(ids, 'COMPLETED', 'mine is done')

    with before(world, streamed(events)) as (hub, _):
        told = door.done(hub, 'far')
        holds('somebody else' not in json.dumps(told), f'another task got in: {told}')
        if door.state(told) == 'COMPLETED':
            equal('what is ours', (door.texts(told), door.words(told)), (['mine'], 'mine is done'))
        else:
            clear(told)


@check
def it_swaps_the_task_in_the_middle(world):
    """A stream that goes on as another task."""
    other = named()

    def events(ids):
        yield task(ids, 'WORKING')
        yield task(other, 'COMPLETED', [made('a secret of somebody else')], 'theirs is done')

    with before(world, streamed(events), '[agent.continuation]\nattempts = 1\npoll_ms = 100') as (hub, _):
        told = door.done(hub, 'far')
        holds('somebody else' not in json.dumps(told), f'another task got in: {told}')
        clear(told)


@check
def it_shuffles_its_events(world):
    """A piece to append before there is anything, an end before the rest: an end stays an end."""

    def events(ids):
        yield chunk(ids, 'two ', append=True)
        yield task(ids, 'WORKING')
        yield chunk(ids, 'one ')
        yield update(ids, 'COMPLETED', 'done')
        yield update(ids, 'WORKING', 'not done after all')
        yield chunk(ids, 'three ', append=True)
        yield update(ids, 'FAILED', 'or failed')

    with before(world, streamed(events)) as (hub, _):
        told = door.done(hub, 'far')
        time.sleep(0.5)
        equal('it stays as it was', door.get(hub, 'far', told['id']), told)
        if door.state(told) == 'COMPLETED':
            equal('words', door.words(told), 'done')
            holds('three' not in json.dumps(told), 'something came after the end')
        else:
            clear(told)


@check
def it_says_everything_twice(world):
    """Snapshots do not double what they repeat."""
    ids = named()

    def events(_):
        yield task(ids, 'WORKING')
        yield task(ids, 'WORKING')
        yield chunk(ids, 'one ')
        yield task(ids, 'WORKING', [made('one ')])
        yield chunk(ids, 'two ', append=True, last=True)
        yield task(ids, 'WORKING', [made('one two ')])
        yield task(ids, 'COMPLETED', [made('one two ')], 'done')
        yield task(ids, 'COMPLETED', [made('one two ')], 'done')

    with before(world, streamed(events)) as (hub, _):
        told = door.done(hub, 'far')
        equal('told', (door.state(told), door.texts(told), door.words(told)), ('COMPLETED', ['one two '], 'done'))


@check
def it_says_everything_twice_under_one_number(world):
    """Numbered events that come twice are told once."""

    def events(ids):
        told = [task(ids, 'WORKING'), chunk(ids, 'one '), chunk(ids, 'two ', append=True), update(ids, 'COMPLETED')]
        for number, event in enumerate(told, 1):
            yield number, event
            yield number, event

    with before(world, streamed(events, numbered=True)) as (hub, _):
        told = door.done(hub, 'far')
        equal('told', (door.state(told), door.texts(told)), ('COMPLETED', ['one two ']))


@check
def it_streams_nothing_but_repetition(world):
    """A thousand snapshots that say the same do not become a thousand events."""

    def events(ids):
        same = task(ids, 'WORKING', text='thinking')
        for _ in range(1000):
            yield same
        yield update(ids, 'COMPLETED', 'done')

    with before(world, streamed(events)) as (hub, _):
        sent = {'message': door.message('hello')}
        seen = list(door.Reader(hub, 'far', 'SendStreamingMessage', sent))
        holds(len(seen) < 50, f'{len(seen)} events for nothing new')
        equal('the end', seen[-1][1]['statusUpdate']['status']['state'], 'TASK_STATE_COMPLETED')


# --- Ends -------------------------------------------------------------------------------------------------------------


@check
def it_never_answers_and_is_canceled(world):
    """Nobody waits longer than he wants to: a cancel ends what never would."""
    with before(world, lambda call: call.silence()) as (hub, liar):
        running = door.start(hub, 'far')
        until(lambda: liar.calls, 'the agent is asked')
        door.call(hub, 'far', 'CancelTask', {'id': running})
        equal('state', door.state(door.settled(hub, 'far', running, 40)), 'CANCELED')


@check
def it_works_and_never_finishes(world):
    """A stream that stays open with signs of life and no news ends when the caller says so, and is told so."""

    def behave(call):
        ids = named()
        if call.method == 'SendStreamingMessage':
            call.stream([task(ids, 'WORKING')])
            while not call.stopped.wait(0.2):
                call.handler.wfile.write(b': still here\n\n')
                call.handler.wfile.flush()
        elif call.method == 'CancelTask':
            call.result(task((call.params['id'], ids[1]), 'CANCELED')['task'])
        else:
            call.refuse(-32001, 'task not found')

    with before(world, behave) as (hub, liar):
        running = door.start(hub, 'far')
        until(lambda: door.state(door.get(hub, 'far', running)) == 'WORKING', 'it works')
        door.call(hub, 'far', 'CancelTask', {'id': running})
        equal('state', door.state(door.settled(hub, 'far', running)), 'CANCELED')
        until(lambda: liar.asked('CancelTask'), 'the agent is told')


@check(slow=True)
def it_never_has_any_news(world):
    """After `minutes` without news the task fails, and says so."""
    lines = '[agent.continuation]\nattempts = 3\nminutes = 1\npoll_ms = 200'
    ids = named()
    same = task(ids, 'WORKING')

    def behave(call):
        if call.method == 'SendStreamingMessage':
            return call.stream([same])
        if call.method == 'CancelTask':
            return call.result(task(ids, 'CANCELED')['task'])
        if call.method == 'GetTask':
            return call.result(same['task'])
        return call.refuse(-32004, 'no')

    with before(world, behave, lines) as (hub, liar):
        clear(door.done(hub, 'far', seconds=110))
        until(lambda: liar.asked('CancelTask'), 'the agent is told to stop')


# --- Sizes and forms --------------------------------------------------------------------------------------------------


def grown(hub, act):
    """Acts, and gives by how many MiB the hub's memory has grown at the most meanwhile."""
    import threading

    before_it, most, over = hub.rss(), [0.0], threading.Event()

    def watch():
        while not over.wait(0.02):
            most[0] = max(most[0], hub.rss() - before_it)

    watcher = threading.Thread(target=watch)
    watcher.start()
    try:
        act()
    finally:
        over.set()
        watcher.join()
    return most[0]


@check
def it_sends_a_hundred_megabytes_at_once(world):
    """An answer of any size is refused at a limit, and is not kept meanwhile."""

    def behave(call):
        start = b'{"jsonrpc":"2.0","id":1,"result":{"message":{"messageId":"m","role":"ROLE_AGENT","parts":[{"text":"'
        kind = 'text/event-stream' if call.streams else 'application/json'
        call.bytes(200, kind, (b'data: ' if call.streams else b'') + start, *([b'x' * MIB] * 100), b'"}]}}}\n\n')

    with before(world, behave, '[agent.continuation]\nattempts = 2\npoll_ms = 100') as (hub, _):
        growth = grown(hub, lambda: clear(door.done(hub, 'far', seconds=60)))
        holds(growth < GROWTH_MIB_MAX, f'the hub grew by {growth:.0f} MiB')
        return f'grew by {growth:.0f} MiB'


@check(slow=True)
def it_sends_a_hundred_megabytes_bit_by_bit(world):
    """Chunks that never end: the task ends at `task_bytes_max`, 64 MiB, instead."""

    def events(ids):
        yield task(ids, 'WORKING')
        for number in range(100):
            yield chunk(ids, 'x' * MIB, append=number > 0)
        yield update(ids, 'COMPLETED')

    with before(world, streamed(events), '[agent.continuation]\nattempts = 2\npoll_ms = 100') as (hub, _):
        running = []

        def act():
            running.append(door.start(hub, 'far'))
            # Asked of the store: to read such a task again and again takes memory as well.
            until(lambda: door.states(hub) == ['failed'], 'it fails', 120, 0.2)

        growth = grown(hub, act)
        told = door.get(hub, 'far', running[0])
        clear(told)
        size = len(json.dumps(told))
        holds(size < 70 * MIB, f'a task of {size // MIB} MiB')
        holds(growth < 5 * GROWTH_MIB_MAX, f'the hub grew by {growth:.0f} MiB')
        return f'{size / MIB:.0f} MiB kept, grew by {growth:.0f} MiB'


@check
def it_answers_with_a_page(world):
    """A login page instead of an answer is no answer, and is not shown to callers."""
    html = b'<!DOCTYPE html><html><script>alert(1)</script><form>Please log in</form></html>'

    def behave(call):
        call.bytes(200, 'text/html', html, length=len(html))

    with before(world, behave, '[agent.continuation]\nattempts = 2\npoll_ms = 100') as (hub, _):
        said = clear(door.done(hub, 'far'))
        holds('<' not in said, f'the page is shown: {said}')


@check
def it_has_a_page_for_a_card(world):
    """Somebody whose card is a web page is not called at all."""
    with before(world, new_answer, '[agent.continuation]\nattempts = 1\npoll_ms = 100',
                card=lambda url: b'<html>welcome</html>') as (hub, liar):
        clear(door.done(hub, 'far'))
        equal('calls to somebody without a card', len(liar.asked('SendStreamingMessage', 'SendMessage')), 0)


@check
def it_wants_to_know_who_the_caller_is(world):
    """What the caller shows us stays with us."""
    env = {'FAR_TOKEN': 'for-far-alone'}
    with Liar(new_answer) as liar:
        agents = upstreams.agent('far', liar.url, 'bearer = "env:FAR_TOKEN"')
        with world.server(upstreams.ALLOW, agents=agents, env=env) as hub:
            shown = {'Authorization': 'Bearer of-the-caller', 'X-API-Key': 'of-the-caller', 'Cookie': 'a=of-the-caller'}
            equal('state', door.state(door.done(hub, 'far', headers=shown)), 'COMPLETED')
            [call] = liar.asked('SendStreamingMessage')
            equal('shown', call.headers.get('authorization') or call.headers.get('Authorization'), 'Bearer for-far-alone')
            holds('of-the-caller' not in json.dumps(call.headers), f'the caller is known there: {call.headers}')
            for file, content in hub.written():
                holds(b'for-far-alone' not in content, f'the token is in {file}')
