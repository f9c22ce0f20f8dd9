"""Keys: what they look like, what they may do, how often, and from when to when."""

import concurrent.futures
import json
import time

import names
import venues
from clock import Clock
from envelope import envelope
from registry import check, equal, holds
from server import until
from setting import KEY, network, shared

UNAUTHORIZED = (401, 'unauthorized')
DAY = 86400


@check
def what_is_no_key_is_refused_in_the_same_words(world):
    net = shared(world)
    good = net.caller('enterprise').key
    other = good[:-1] + ('0' if good[-1] != '0' else '1')
    said = set()
    for key in (
        None,
        '',
        'x',
        other,
        good + '0',
        good[:-1],
        good.upper(),
        'agnt_live_' + 'é' * 16,
        f'"{good}"',
        f'{good},{good}',
    ):
        body = json.dumps(envelope('network.ping')).encode()
        caller = net.with_key(None)
        headers = [('Content-Type', 'application/json')]
        if key is not None:
            headers.append(('Authorization', f'Bearer {key}'.encode()))
        answer = caller.raw(body, headers)
        equal(f'{key and key[:12]}', answer.said, UNAUTHORIZED)
        holds(answer.headers.get('www-authenticate', '').startswith('Bearer'), f'{answer.headers}')
        # What was not read as a key at all may be told so; which keys there are is told to nobody.
        if key and key.isascii():
            said.add(answer.error['message'])
    equal('different words', len(said), 1)
    basic = net.with_key(None).raw(b'{}', [('Content-Type', 'application/json'), ('Authorization', f'Basic {good}')])
    equal('Basic', basic.said, UNAUTHORIZED)


@check
def keys_of_tiers_look_as_they_should(world):
    net = shared(world)
    for tier in ('free', 'pro', 'enterprise'):
        issued = net.key(tier)
        holds(KEY.fullmatch(issued['key']) and issued['key'].startswith('agnt_live_'), issued['key'][:12])
    holds(net.key('free', ('query',), (), '--test')['key'].startswith('agnt_test_'), 'a key for trying things out')
    listed = json.dumps(net.command('key', 'list'))
    holds(not KEY.search(listed), 'a list shows a key')


@check
def scopes_and_tiers_decide_what_may_be_asked(world):
    """Also in the other tongues, since it is the same skill behind them; that is looked at in `tongues`."""
    net = shared(world)
    reads = ('network.ping', 'venue.list', 'booking.search')
    confirm = {'venue_id': 'nowhere'}
    for tier in ('free', 'pro', 'enterprise'):
        for scope in ('query', 'booking', 'full'):
            caller = net.caller(tier, (scope,))
            for intent in reads:
                equal(f'{tier} {scope} {intent}', caller.ask(intent).status, 200)
            want = (
                (403, 'scope_required')
                if scope == 'query'
                else (403, 'tier_required')
                if tier == 'free'
                else (404, 'venue_not_found')
            )
            equal(f'{tier} {scope} booking.confirm', caller.ask('booking.confirm', confirm).said, want)
    both = net.caller('pro', ('query', 'booking'))
    equal('the union of scopes', both.ask('booking.confirm', confirm).said, (404, 'venue_not_found'))


@check
def a_key_that_is_bound_speaks_for_its_agents_only(world):
    net = shared(world)
    caller = net.caller('pro', agents=('judge', 'second'))
    for name, want in (
        ('judge', (200, None)),
        ('second', (200, None)),
        ('third', (403, 'agent_mismatch')),
        ('Judge', (403, 'agent_mismatch')),
    ):
        equal(name, caller.ask('network.ping', sender=name).said, want)
    free = net.caller('pro')
    equal('unbound', free.good('network.ping', sender='anybody')['agent_id'], 'anybody')


@check
def the_hundredth_call_of_a_day_passes_and_the_next_does_not(world):
    clock = Clock(world)
    # An hour before midnight, whatever the time is here.
    midnight = (int(time.time()) // DAY + 1) * DAY
    with network(world, venues=venues.sample(3), env=clock.env) as net:
        clock.show(midnight - 3600)
        key = net.key('free')['key']
        caller = net.with_key(key)
        # Until the key is known nothing is counted.
        until(lambda: caller.ask('network.ping', timestamp='').status == 200, 'the key is taken')
        with concurrent.futures.ThreadPoolExecutor(8) as pool:
            said = [one.said for one in pool.map(lambda _: caller.ask('network.ping', timestamp=''), range(110))]
        equal('passed', said.count((200, None)), 99)
        equal('refused', said.count((429, 'rate_limited')), 11)
        answer = caller.ask('network.ping', timestamp='')
        wait = int(answer.headers['retry-after'])
        holds(3500 <= wait <= 3600, f'Retry-After {wait}, with about an hour to midnight')
        holds(abs(answer.error['retry_after_ms'] / 1000 - wait) <= 2, f'{answer.error}')
        net.server.stop()
        net.server.start()
        equal('after a restart', net.with_key(key).ask('network.ping', timestamp='').status, 429)
        clock.show(midnight + 2)
        equal('the next day', net.with_key(key).ask('network.ping', timestamp='').status, 200)
        clock.show(midnight - 60)
        # A clock that is set back is in the day before, whose quota is spent.
        equal('the day before, again', net.with_key(key).ask('network.ping', timestamp='').status, 429)


@check
def a_key_that_is_revoked_stops_within_a_second_and_takes_nothing_back(world):
    with network(world, venues=venues.sample(4)) as net:
        issued = net.key('pro')
        caller = net.with_key(issued['key'])
        until(lambda: caller.ask('network.ping').status == 200, 'the key is taken')
        at = envelope('booking.confirm', {'venue_id': 'venue-0001'})
        first = caller.post(at)
        equal('before', first.status, 200)
        revoked = []

        def keep_asking(number):
            said = []
            while not revoked or time.monotonic() < revoked[0] + 2:
                said.append((time.monotonic(), caller.ask('booking.confirm', {'venue_id': 'venue-0002'}).said))
            return said

        with concurrent.futures.ThreadPoolExecutor(5) as pool:
            asking = [pool.submit(keep_asking, number) for number in range(4)]
            time.sleep(0.5)
            net.command('key', 'revoke', issued['id'])
            revoked.append(time.monotonic())
            said = [one for job in asking for one in job.result()]
        holds({what for _, what in said} <= {(200, None), UNAUTHORIZED}, f'{ ({what for _, what in said}) }')
        late = [when - revoked[0] for when, what in said if what == (200, None) and when > revoked[0] + 1.5]
        equal('still taken long after', late, [])
        booked = sum(what == (200, None) for _, what in said) + 1
        equal('bookings', len(net.rows(names.BOOKINGS)), booked)
        equal('usage', len(net.rows(names.USAGE)), booked)
        equal('asking again', caller.post(at).said, UNAUTHORIZED)
        return f'{booked} bookings before it'


@check
def an_expired_key_is_no_key(world):
    clock = Clock(world)
    with network(world, venues=[], env=clock.env) as net:
        issued = net.key('pro', ('full',), (), '--expires', '1h')
        caller = net.with_key(issued['key'])
        until(lambda: caller.ask('network.ping', timestamp='').status == 200, 'the key is taken')
        clock.forward(3700)
        caller.refused(UNAUTHORIZED, 'network.ping', timestamp='')
