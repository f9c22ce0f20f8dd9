"""What `venue.list` and `booking.search` find: compared with a plain model, over hundreds of queries."""

import random

import venues
from envelope import instant
from registry import check, equal, holds
from setting import network, shared

VENUE = {'id', 'slug', 'name', 'agent_id', 'category', 'tags', 'referral_fee_pct'}
OPTIONAL = {'description', 'area', 'city', 'price_range', 'slots'}


def slugs(payload):
    equal('count', payload['count'], len(payload['venues']))
    return [one['slug'] for one in payload['venues']]


@check
def lists_are_filtered_ordered_and_cut_as_the_rules_say(world):
    net, caller = shared(world), shared(world).caller('enterprise')
    rng, tried = random.Random(1), 0
    equal('nothing asked', slugs(caller.good('venue.list')), venues.listed(net.venues))
    for limit in (1, 7, 50, 99, 100, 101, 5000):
        equal(
            f'limit {limit}', slugs(caller.good('venue.list', {'limit': limit})), venues.listed(net.venues, limit=limit)
        )
    for _ in range(80):
        wish = {}
        if rng.random() < 0.6:
            wish['category'] = rng.choice(['spa', 'SPA', 'bar', 'Bar', 'restaurant', 'rest', 'none'])
        if rng.random() < 0.6:
            wish['location'] = rng.choice(
                ['canggu', 'CANG', 'bol', 'Ubud', 'lis', '渋谷', 'ran', 'a', 'Kreis 4', 'zzz']
            )
        if rng.random() < 0.3:
            wish['limit'] = rng.choice([1, 2, 3, 100])
        equal(f'{wish}', slugs(caller.good('venue.list', wish)), venues.listed(net.venues, **wish))
        tried += 1
    return f'{tried + 8} lists'


@check
def searches_find_every_term_somewhere(world):
    net, caller = shared(world), shared(world).caller('enterprise')
    rng, tried = random.Random(2), 0
    terms = [
        'sunset',
        'DINNER',
        'Turtle',
        'quiet',
        'ar',
        'a',
        'rest',
        'spa',
        'live',
        'music',
        'in',
        'tide',
        'sau',
        'nosuch',
        '1',
        '12',
        'Café',
        'harbour view',
        'ubud',
        'so',
        ',',
    ]
    for _ in range(150):
        wish = {'query': ' '.join(rng.sample(terms, rng.choice([1, 1, 2, 3])))}
        if rng.random() < 0.3:
            wish['location'] = rng.choice(['canggu', 'ubud', 'berawa', 'o'])
        if rng.random() < 0.4:
            wish['limit'] = rng.choice([1, 5, 25, 26, 1000])
        equal(f'{wish}', slugs(caller.good('booking.search', wish)), venues.searched(net.venues, **wish))
        tried += 1
    for wish in ({}, {'query': ''}, {'query': '   '}, {'query': None}):
        equal(f'{wish}', slugs(caller.good('booking.search', wish)), venues.searched(net.venues))
    return f'{tried + 4} searches'


@check
def an_answer_says_what_it_costs_and_until_when(world):
    net, caller = shared(world), shared(world).caller('enterprise')
    answer = caller.ask('booking.search', {'query': 'sunset'})
    found = answer.payload
    holds(b'"fee_pct":7.0' in answer.body.replace(b' ', b''), f'fee_pct is not written 7.0: {answer.body[-300:]}')
    left = instant(found['expires_at']) - instant(answer.json['timestamp'])
    holds(299 <= left <= 301, f'expires after {left} s')
    given = {one['slug']: one for one in net.venues}
    for venue in found['venues']:
        holds(VENUE <= set(venue) <= VENUE | OPTIONAL, f'members {sorted(venue)}')
        for name in ('name', 'agent_id', 'category', 'tags', 'area', 'city', 'description'):
            equal(f'{venue["slug"]} {name}', venue.get(name), given[venue['slug']].get(name))
        equal('fee', venue['referral_fee_pct'], given[venue['slug']].get('referral_fee_pct', 7.0))
    listed = caller.good('venue.list', {'limit': 1})
    equal('members of a list', set(listed), {'venues', 'count'})


@check
def open_slots_are_shown(world):
    net, caller = shared(world), shared(world).caller('enterprise')
    given = {one['slug']: one for one in net.venues}
    for venue in caller.good('booking.search', {'query': 'dinner', 'limit': 25})['venues']:
        shown = [(one['slot_id'], one['time'], one['remaining']) for one in venue['slots']]
        equal(
            venue['slug'], shown, [(one['id'], one['time'], one['capacity']) for one in given[venue['slug']]['slots']]
        )


@check
def a_disabled_venue_is_found_by_nobody(world):
    with network(world, venues=venues.sample(20)) as net:
        caller = net.caller('enterprise')
        equal('before', caller.good('network.ping')['active_venues'], 20)
        net.command('venue', 'disable', 'venue-0003')
        equal('after', caller.good('network.ping')['active_venues'], 19)
        rest = [one for one in net.venues if one['slug'] != 'venue-0003']
        equal('list', slugs(caller.good('venue.list')), venues.listed(rest))
        equal('search', slugs(caller.good('booking.search', {'limit': 25})), venues.searched(rest, limit=25))
        caller.refused((404, 'venue_not_found'), 'booking.confirm', {'venue_id': 'venue-0003'})
        caller.refused((404, 'venue_not_found'), 'venue.list', to='agent:venue-0003')


@check
def wildcards_quotes_and_operators_are_plain_text(world):
    """Nothing in a query has a meaning to LIKE, to SQL or to the index behind it."""
    net, caller, tried = shared(world), shared(world).caller('enterprise'), 0
    odd = [
        '%',
        '_',
        '\\',
        "'",
        '"',
        '*',
        '%%%',
        '_ar',
        'Juice_Bar',
        '100%',
        "'); DROP TABLE venues;--",
        '" OR 1=1 --',
        'sunset AND dinner',
        'NEAR(sunset dinner)',
        'name:sunset',
        'sun*',
        '-sunset',
        '(sunset',
        '^sunset',
        'a',
        'é',
        '🍣',
        '\u202e',
        'مطعم',
        '寿司',
        'さ',
        "O'Reilly",
        '; --',
        'NOT',
        'OR',
        '{}',
        '\u0000',
        'x' * 1000,
        '\u200d',
    ]
    for text in odd:
        if text != '\u0000':
            for intent, member, model in (
                ('booking.search', 'query', venues.searched),
                ('booking.search', 'location', venues.searched),
                ('venue.list', 'location', venues.listed),
            ):
                answer = caller.ask(intent, {member: text})
                holds(answer.status in (200, 422), f'{intent} {member} {text!r}: {answer}')
                if answer.status == 200:
                    got = [one['slug'] for one in answer.payload['venues']]
                    equal(f'{intent} {member} {text!r}', got, model(net.venues, **{member: text}))
                tried += 1
        else:
            holds(caller.ask('booking.search', {'query': text}).status in (200, 422), 'a null byte')
    return f'{tried} queries'
