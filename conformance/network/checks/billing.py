"""Billing: usage goes to the biller once, whatever the biller does; against a Stripe-shaped server."""

import contextlib
import json
import time

import names
import venues
from clock import Clock
from registry import check, equal, holds
from setting import network, scratch
from standin import Standin
from stripe import SECRET

METERS = '/v1/billing/meter_events'


@contextlib.contextmanager
def billed(world, count=5, customer='cus_ana', env=None):
    """A network with a biller, a key of a customer, and so many bookings under it."""
    with Standin('stripe.py', scratch(world, 'stripe')) as biller:
        with network(
            world,
            venues=venues.sample(8),
            more=names.billing(biller.url),
            env={names.STRIPE_ENV: SECRET, **(env or {})},
        ) as net:
            caller = net.caller('pro', words=('--customer', customer) if customer else ())
            for _ in range(count):
                caller.good('booking.confirm', {'venue_id': 'venue-0001'})
            yield net, biller, caller


def run(net, *words, seconds=60):
    return net.server.sabir('billing', 'run', *words, '--config', net.server.config, '-o', 'json', seconds=seconds)


def checked(net):
    return net.server.sabir('billing', 'check', '--config', net.server.config, '-o', 'json')


def owed(net):
    return [row for row in net.rows(names.USAGE) if row['synced_at'] is None]


def counted(biller):
    return sum(line['value'] for line in biller.lines('meter_event'))


@check
def usage_is_sent_as_one_event_per_customer_and_day(world):
    with billed(world) as (net, biller, caller):
        other = net.caller('pro', ('booking',), words=('--customer', 'cus_ben'))
        other.good('booking.confirm', {'venue_id': 'venue-0002'})
        equal('run', run(net).returncode, 0)
        events = {line['customer']: line for line in biller.lines('meter_event')}
        equal('events', {name: line['value'] for name, line in events.items()}, {'cus_ana': 5, 'cus_ben': 1})
        equal('event name', {line['event_name'] for line in events.values()}, {'bookings'})
        for line in events.values():
            holds(line['identifier'].startswith('agnt-') and len(line['identifier']) <= 100, line['identifier'])
            holds(abs(line['timestamp'] - time.time()) < 120, f'timestamp {line["timestamp"]}')
        for line in biller.lines('request'):
            holds(line['key'] and line['key'] in line['body'], f'Idempotency-Key {line["key"]} is not the identifier')
        equal('owed', owed(net), [])
        equal('again', (run(net).returncode, counted(biller)), (0, 6))
        equal('check', checked(net).returncode, 0)


@check
def a_dry_run_sends_nothing_and_says_what_it_would(world):
    with billed(world) as (net, biller, caller):
        done = run(net, '--dry-run')
        equal('run', done.returncode, 0)
        holds('cus_ana' in done.stdout and '5' in done.stdout, f'{done.stdout[:300]}')
        equal('requests', biller.lines('request'), [])
        equal('owed', len(owed(net)), 5)


@check
def a_biller_that_fails_is_asked_again_under_the_same_name(world):
    """429, 500, and an answer that is lost after it was counted: never twice, never not at all."""
    for ways in (('429',), ('500', '503'), ('lose',), ('lose', '429', 'lose'), ('500', 'lose')):
        with billed(world, 3) as (net, biller, caller):
            biller.mood(METERS, *ways)
            runs = 0
            while owed(net):
                run(net)
                runs += 1
                holds(runs < 12, f'{ways}: still owed after {runs} runs: {owed(net)}')
            equal(f'{ways}', (counted(biller), len(biller.lines('meter_event'))), (3, 1))
            equal(
                f'{ways}: identifiers',
                len({line['key'] for line in biller.lines('request') if line['path'] == METERS}),
                1,
            )


@check(slow=True)
def a_biller_that_says_nothing_is_not_waited_for_for_ever(world):
    with billed(world, 3) as (net, biller, caller):
        biller.mood(METERS, 'silence', 'late')
        began = time.monotonic()
        for _ in range(6):
            run(net, seconds=120)
            if not owed(net):
                break
        equal('counted', counted(biller), 3)
        equal('owed', owed(net), [])
        holds(time.monotonic() - began < 200, 'took minutes')


@check
def usage_of_nobody_stays_and_is_seen(world):
    with billed(world, 4, customer=None) as (net, biller, caller):
        run(net)
        equal('counted', counted(biller), 0)
        equal('kept', len(owed(net)), 4)


@check
def what_was_claimed_long_ago_is_compared_before_it_is_sent_again(world):
    """The biller forgets identifiers after a day, so a batch whose answer was lost then must not be sent blindly."""
    clock = Clock(world)
    with billed(world, 3, env=clock.env) as (net, biller, caller):
        biller.mood(METERS, 'lose', 'lose', 'lose', 'lose', 'lose', 'lose')
        run(net)
        equal('counted although the answer was lost', counted(biller), 3)
        biller.mood(METERS)
        clock.forward(2 * 86400)
        for _ in range(3):
            run(net)
        equal('counted', counted(biller), 3)
        equal('owed', owed(net), [])
        holds(
            any('event_summaries' in line['path'] for line in biller.lines('request')), 'the summaries were not asked'
        )


@check
def the_secret_of_the_biller_is_nowhere(world):
    with billed(world, 1) as (net, biller, caller):
        biller.mood(METERS, '500', '429')
        for _ in range(3):
            done = run(net)
            holds(SECRET not in done.stdout + done.stderr, 'it is printed')
        for path, data in net.server.written():
            holds(SECRET.encode() not in data, f'it is in {path}')
        holds(json.dumps(SECRET) not in net.server.said(), 'it is in the log')


@check
def drift_is_found(world):
    """A row that somebody deleted by hand is a booking that nobody pays for."""
    import sqlite3

    with billed(world, 3) as (net, biller, caller):
        equal('before', checked(net).returncode, 0)
        net.server.stop()
        with contextlib.closing(sqlite3.connect(net.database)) as connection:
            connection.execute('DELETE FROM usage WHERE k = (SELECT max(k) FROM usage)')
            connection.commit()
        holds(checked(net).returncode not in (0, 101), 'drift was not found')
        net.server.start()
        equal('gauge', abs(sum(net.metrics()[names.DRIFT].values())), 1)
