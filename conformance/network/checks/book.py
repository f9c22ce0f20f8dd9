"""Bookings: taken once, told the same to whoever asks again, and moved by one table."""

import collections
import concurrent.futures
import itertools
import json
import uuid

import names
import venues
from envelope import MOVES, envelope, sign, stamp
from registry import check, equal, holds
from setting import CURRENT, network

AT_ONCE = 24


def small(world, **more):
    return network(world, venues=venues.sample(12), **more)


@check
def a_venue_is_named_by_slug_or_uuid_and_a_time_by_two_words(world):
    with small(world) as net:
        caller = net.caller('pro', ('booking',))
        venue = caller.good('venue.list', {'limit': 1})['venues'][0]
        net.command(
            'venue',
            'import',
            net.server.given(
                'more.json', json.dumps([{**net.venues[0], 'slug': 'open', 'slots': [], 'agent_id': 'agent:open'}])
            ),
        )
        when = '2027-03-01T19:30:00+08:00'
        for payload in (
            {'venue_id': venue['slug']},
            {'venue_id': venue['id']},
            {'venue_id': venue['id'].upper()},
            {'venue_id': 'open', 'time': when},
            {'venue_id': 'open', 'slot_time': when},
            {'venue_id': 'open', 'time': when, 'slot_time': when},
            {'venue_id': venue['slug'], 'slot_id': None, 'time': None, 'party_size': None, 'user_note': None},
            {'venue_id': venue['slug'], 'party_size': 1000, 'user_note': '🎉' * 2000},
        ):
            booked = caller.good('booking.confirm', payload)
            slug = 'open' if payload['venue_id'] == 'open' else venue['slug']
            equal(f'{str(payload)[:80]}', (booked['venue']['slug'], booked['status']), (slug, 'pending'))
        equal('bookings', len(net.bookings()), 8)


@check
def the_answer_is_kept_for_whoever_asks_again(world):
    """Same tuple, same content: the same answer, in the words of the new context, and nothing booked."""
    with small(world) as net:
        caller = net.caller('pro')
        at = stamp()
        payload = {'venue_id': 'venue-0001', 'slot_id': 's0', 'party_size': 2}
        first = caller.ask('booking.confirm', payload, timestamp=at, agent_context={'turn': 1})
        again = caller.ask('booking.confirm', payload, timestamp=at, agent_context={'turn': 2})
        equal('the first', (first.status, first.replayed), (200, False))
        equal('again', (again.status, again.replayed, again.payload), (200, True, first.payload))
        equal('context', again.json['agent_context'], {'turn': 2})
        spelled = [at[:-1] + '000Z', at[:-1] + '+00:00']
        for text in spelled:
            answer = caller.ask('booking.confirm', payload, timestamp=text)
            equal(text, (answer.status, answer.payload), (200, first.payload))
        reordered = dict(reversed(payload.items()))
        equal('other order', caller.ask('booking.confirm', reordered, timestamp=at).payload, first.payload)
        signed = caller.ask('booking.confirm', sign(payload, CURRENT, 'judge'), timestamp=at)
        equal('signed', (signed.status, signed.payload), (200, first.payload))
        equal('bookings', len(net.bookings()), 1)
        equal('usage', len(net.rows(names.USAGE)), 1)


@check
def the_same_tuple_with_other_content_is_a_conflict(world):
    """Two bookings in the same second are two bookings, so the second must not be taken for the first."""
    with small(world) as net:
        caller, at = net.caller('pro'), stamp()
        caller.good('booking.confirm', {'venue_id': 'venue-0001', 'party_size': 2}, timestamp=at)
        for payload in (
            {'venue_id': 'venue-0002', 'party_size': 2},
            {'venue_id': 'venue-0001', 'party_size': 3},
            {'venue_id': 'venue-0001'},
        ):
            caller.refused((409, 'idempotency_conflict'), 'booking.confirm', payload, timestamp=at)
        other = net.with_key(caller.key, sender='another')
        other.good('booking.confirm', {'venue_id': 'venue-0001'}, timestamp=at)
        equal('bookings', len(net.bookings()), 2)


@check
def another_key_cannot_poison_a_tuple(world):
    with small(world) as net:
        one, other, at = net.caller('pro'), net.caller('pro', ('booking',)), stamp()
        first = one.good('booking.confirm', {'venue_id': 'venue-0001'}, timestamp=at)
        second = other.ask('booking.confirm', {'venue_id': 'venue-0001'}, timestamp=at)
        equal('the other', (second.status, second.replayed), (200, False))
        holds(first['booking_id'] != second.payload['booking_id'], 'the same booking for two keys')


@check
def a_refusal_is_told_again_and_a_taken_slot_stays_taken(world):
    with small(world) as net:
        caller, at = net.caller('pro'), stamp()
        payload = {'venue_id': 'venue-0001', 'slot_id': 's0'}
        caller.good('booking.confirm', payload)
        first = caller.refused((409, 'slot_unavailable'), 'booking.confirm', payload, timestamp=at)
        again = caller.refused((409, 'slot_unavailable'), 'booking.confirm', payload, timestamp=at)
        equal('words', again.payload, first.payload)
        equal('bookings', len(net.bookings()), 1)


@check
def racing_for_a_slot_has_as_many_winners_as_it_has_places(world):
    with small(world) as net:
        caller = net.caller('pro')
        for number, slot in itertools.product(range(1, 5), ('s0', 's2')):
            payload = {'venue_id': f'venue-{number:04}', 'slot_id': slot}
            with concurrent.futures.ThreadPoolExecutor(AT_ONCE) as pool:
                said = collections.Counter(
                    pool.map(lambda _: caller.ask('booking.confirm', payload).said, range(AT_ONCE))
                )
            places = 1 if slot == 's0' else 3
            equal(f'{payload}', said, {(200, None): places, (409, 'slot_unavailable'): AT_ONCE - places})
        equal('bookings', len(net.bookings('--limit', '100')), 4 * (1 + 3))
        drained(net)


def drained(net):
    over = [one for one in net.rows(names.SLOTS) if one['taken'] > one['capacity']]
    equal('slots over their capacity', over, [])


@check
def the_same_envelope_many_times_at_once_books_once(world):
    with small(world) as net:
        caller = net.caller('pro')
        for number in range(6):
            body = json.dumps(envelope('booking.confirm', {'venue_id': f'venue-{number:04}'})).encode()
            with concurrent.futures.ThreadPoolExecutor(AT_ONCE) as pool:
                answers = list(pool.map(lambda _: caller.post(body), range(AT_ONCE)))
            said = collections.Counter(one.said for one in answers)
            holds(set(said) <= {(200, None), (409, 'in_progress')}, f'{said}')
            good = [one for one in answers if one.status == 200]
            equal('different bookings', len({one.payload['booking_id'] for one in good}), 1)
            equal('answers that are no repetition', sum(not one.replayed for one in good), 1)
        equal('bookings', len(net.bookings()), 6)


@check
def the_venue_of_the_envelope_is_that_of_the_payload(world):
    with small(world) as net:
        caller = net.caller('pro')
        caller.refused((422, 'invalid_payload'), 'booking.confirm', {'venue_id': 'venue-0002'}, to='agent:venue-0001')
        equal('bookings', net.bookings(), [])


@check
def a_late_answer_does_not_undo_what_was_booked(world):
    """A millisecond is not enough for a commit; whatever is said, asking again with the same timestamp tells the truth."""
    with small(world) as net:
        caller, booked = net.caller('pro'), []
        for number in range(12):
            at, payload = stamp(), {'venue_id': f'venue-{number:04}'}
            first = caller.ask('booking.confirm', payload, timestamp=at, ttl=1)
            holds(first.said in ((200, None), (504, 'ttl_exceeded')), f'{first}')
            again = caller.ask('booking.confirm', payload, timestamp=at)
            equal('again', again.status, 200)
            booked.append(again.payload['booking_id'])
        equal(
            'bookings',
            sorted(one['booking_id'] if 'booking_id' in one else one['id'] for one in net.bookings()),
            sorted(booked),
        )


@check
def a_booking_moves_by_one_table(world):
    """Every move is tried from every state; the times of those that were made are kept."""
    with small(world) as net:
        caller = net.caller('pro')
        # The way to each state.
        ways = {
            'pending': [],
            'confirmed': ['confirmed'],
            'completed': ['confirmed', 'completed'],
            'no_show': ['confirmed', 'no_show'],
            'cancelled': ['cancelled'],
        }
        for state, way in ways.items():
            for to in MOVES:
                id = caller.good('booking.confirm', {'venue_id': 'venue-0001'})['booking_id']
                for step in way:
                    net.transition(id, step)
                done = net.server.sabir('booking', 'transition', id, to, '--config', net.server.config, '-o', 'json')
                equal(f'{state} to {to}', done.returncode == 0, to in MOVES[state])
                want = to if to in MOVES[state] else state
                equal(f'{state} to {to}, as kept', net.booking(id)['status'], want)


@check
def a_cancelled_booking_gives_its_place_back(world):
    with small(world) as net:
        caller = net.caller('pro')
        payload = {'venue_id': 'venue-0001', 'slot_id': 's0'}
        id = caller.good('booking.confirm', payload)['booking_id']
        caller.refused((409, 'slot_unavailable'), 'booking.confirm', payload)
        net.transition(id, 'cancelled')
        caller.good('booking.confirm', payload)


@check
def bookings_survive_the_end_of_the_server(world):
    with small(world) as net:
        caller, at = net.caller('pro'), stamp()
        first = caller.good('booking.confirm', {'venue_id': 'venue-0001', 'slot_id': 's0'}, timestamp=at)
        net.server.process.kill()
        net.server.process.wait()
        net.server.start()
        caller = net.with_key(caller.key)
        again = caller.ask('booking.confirm', {'venue_id': 'venue-0001', 'slot_id': 's0'}, timestamp=at)
        equal('again', (again.status, again.replayed, again.payload), (200, True, first))
        equal('an id', str(uuid.UUID(first['venue']['id'])), first['venue']['id'])
