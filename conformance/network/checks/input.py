"""Bad input, one kind after the other: every one has an answer of its own, and none of them is `internal`."""

import json
import time

from envelope import envelope, stamp
from registry import check, equal, holds
from setting import shared

INVALID = (422, 'invalid_envelope')
MALFORMED = (400, 'invalid_envelope')
PAYLOAD = (422, 'invalid_payload')


def judged(world, cases, tier='enterprise'):
    """Posts every case, and names those that were answered otherwise."""
    caller, wrong = shared(world).caller(tier), []
    for name, sent, want in cases:
        body = sent if isinstance(sent, bytes) else json.dumps(sent).encode()
        answer = caller.post(body)
        if answer.said != want:
            wrong.append(f'{name}: want {want}, got {answer}')
    equal('answered otherwise', wrong, [])
    return f'{len(cases)} inputs'


@check
def members_that_nobody_knows_or_that_are_there_twice_are_refused(world):
    good = json.dumps(envelope('network.ping'))
    return judged(
        world,
        [
            ('unknown member', {**envelope('network.ping'), 'ttlms': 1}, INVALID),
            ('unknown member, null', {**envelope('network.ping'), 'extra': None}, INVALID),
            ('twice', good.replace('{', '{"intent":"network.ping",', 1).encode(), MALFORMED),
            (
                'twice, one escaped',
                good.replace('{', '{"intent":"network.ping",'.replace('intent', 'inten\\u0074'), 1).encode(),
                MALFORMED,
            ),
            (
                'twice in the payload',
                good.replace('"payload": {}', '"payload": {"limit":1,"limit":2}').encode(),
                MALFORMED,
            ),
            ('twice in the context', good.replace('{', '{"agent_context":{"a":1,"a":1},', 1).encode(), MALFORMED),
            ('from and from_agent', {**envelope('network.ping'), 'from_agent': 'judge'}, INVALID),
            ('payload null', {**envelope('network.ping'), 'payload': None}, INVALID),
            ('payload a list', {**envelope('network.ping'), 'payload': []}, INVALID),
            ('context null', {**envelope('network.ping'), 'agent_context': None}, INVALID),
            ('context text', {**envelope('network.ping'), 'agent_context': '{}'}, INVALID),
        ],
    )


@check
def what_is_no_json_is_no_envelope(world):
    return judged(
        world,
        [
            ('nothing', b'', MALFORMED),
            ('half', b'{"from":"a"', MALFORMED),
            ('two', b'{"from":"a","intent":"network.ping"}{}', MALFORMED),
            ('not UTF-8', b'{"from":"\xff","intent":"network.ping"}', MALFORMED),
            ('a byte order mark', b'\xef\xbb\xbf{"from":"a","intent":"network.ping"}', MALFORMED),
            ('NaN', b'{"from":"a","intent":"network.ping","payload":{"a":NaN}}', MALFORMED),
            ('lone surrogate', b'{"from":"\\ud800","intent":"network.ping"}', MALFORMED),
            ('raw newline', b'{"from":"a\nb","intent":"network.ping"}', MALFORMED),
            ('a number', b'7', INVALID),
            ('a list', b'[]', INVALID),
            ('null', b'null', INVALID),
        ],
    )


@check
def the_ttl_is_a_whole_number_above_zero(world):
    words = ['5000.0', '"5000"', 'true', 'null', '0', '-1', '1e3', '[]', '99999999999999999999999']
    text = json.dumps(envelope('network.ping', ttl='TTL'))
    return judged(world, [(word, text.replace('"TTL"', word).encode(), INVALID) for word in words])


@check
def timestamps_are_utc_and_near(world):
    now = time.time()

    def at(seconds, ending='Z'):
        return time.strftime('%Y-%m-%dT%H:%M:%S', time.gmtime(now + seconds)) + ending

    def sent(timestamp):
        return envelope('network.ping', timestamp=timestamp)

    stale = (400, 'stale_timestamp')
    cases = [
        (text, sent(text), INVALID)
        for text in (
            at(0, '+02:00'),
            at(0, '-00:30'),
            at(0, ''),
            at(0, '.1234567890Z'),
            at(0, 'z').replace('T', ' '),
            'now',
            '1776000000',
            '2026-13-01T00:00:00Z',
            '2026-02-30T00:00:00Z',
            at(0)[:10],
        )
    ]
    cases += [(f'{seconds} s', sent(at(seconds)), stale) for seconds in (-310, -86400, 70, 86400)]
    cases += [(f'{seconds} s', sent(at(seconds)), (200, None)) for seconds in (-290, 0, 50)]
    cases += [(ending, sent(at(0, ending)), (200, None)) for ending in ('+00:00', '.5Z', '.123456789Z', '.000+00:00')]
    cases += [
        ('a number', envelope('network.ping', timestamp=1776000000), INVALID),
        ('year 10000', sent('10000-01-01T00:00:00Z'), INVALID),
        ('1970', sent('1970-01-01T00:00:00Z'), stale),
    ]
    return judged(world, cases)


@check
def names_have_a_form(world):
    def named(**more):
        return {**envelope('network.ping'), **more}

    cases = [
        ('from missing', {k: v for k, v in named().items() if k != 'from'}, INVALID),
        ('intent missing', {k: v for k, v in named().items() if k != 'intent'}, INVALID),
    ]
    for bad in ('', ' ', 'a b', 'a\tb', 'a\u0000b', 'x' * 257, 'a\u00a0b', 7, None):
        cases += [
            (f'from {str(bad)[:20]!r}', named(**{'from': bad}), INVALID),
            (f'to {str(bad)[:20]!r}', named(to=bad), INVALID),
        ]
    for bad in (
        '',
        'ping',
        'Network.ping',
        'network.',
        '.ping',
        'network..ping',
        'network.ping ',
        'a.' + 'b' * 70,
        'net-work.ping',
        7,
    ):
        cases.append((f'intent {str(bad)[:20]!r}', named(intent=bad), INVALID))
    cases += [
        ('unknown intent', named(intent='booking.cancel'), (400, 'unknown_intent')),
        ('older protocol', named(protocol='agp/1'), (400, 'unsupported_protocol')),
        ('newer protocol', named(protocol='openclaw/a2a/v2'), (400, 'unsupported_protocol')),
        ('256 characters', named(**{'from': 'é' * 256}), (200, None)),
        ('nobody of that name', {**envelope('venue.list'), 'to': 'agent:nobody'}, (404, 'venue_not_found')),
        ('no network of that name', {**envelope('venue.list'), 'to': 'network:nowhere'}, (404, 'venue_not_found')),
    ]
    return judged(world, cases)


@check
def nesting_has_a_limit(world):
    """Ten thousand levels are refused like thirty-three, and without a stack to overflow."""

    def deep(levels, member):
        text = json.dumps({**envelope('network.ping'), member: 'DEEP'})
        return text.replace('"DEEP"', '{"a":' * levels + '1' + '}' * levels).encode()

    cases = [
        (f'{levels} levels in {member}', deep(levels, member), INVALID)
        for levels in (40, 10_000, 30_000)
        for member in ('payload', 'agent_context')
    ]
    cases.append(
        (
            '10,000 lists',
            json.dumps({**envelope('network.ping'), 'payload': 'DEEP'})
            .replace('"DEEP"', '{"a":' + '[' * 10_000 + ']' * 10_000 + '}')
            .encode(),
            INVALID,
        )
    )
    return judged(world, cases)


@check
def payloads_are_held_to_their_intent(world):
    cases = [('ping takes nothing', envelope('network.ping', {'x': 1}), PAYLOAD)]
    for intent in ('venue.list', 'booking.search'):
        for limit in (0, -1, 1.0, 2.5, '5', True, [], 10**30):
            if limit == 10**30:
                continue
            cases.append((f'{intent} limit {limit!r}', envelope(intent, {'limit': limit}), PAYLOAD))
        cases += [
            (f'{intent} unknown member', envelope(intent, {'Limit': 5}), PAYLOAD),
            (f'{intent} location 7', envelope(intent, {'location': 7}), PAYLOAD),
            (f'{intent} limit above the most', envelope(intent, {'limit': 10**6}), (200, None)),
            (f'{intent} nulls', envelope(intent, {'location': None, 'limit': None}), (200, None)),
        ]
    cases += [
        ('query 7', envelope('booking.search', {'query': 7}), PAYLOAD),
        ('category 7', envelope('venue.list', {'category': 7}), PAYLOAD),
        ('query in venue.list', envelope('venue.list', {'query': 'x'}), PAYLOAD),
    ]
    return judged(world, cases)


@check
def bookings_are_held_to_their_form(world):
    def confirm(**more):
        return envelope('booking.confirm', {'venue_id': 'venue-0001', **more})

    cases = [
        ('nothing', envelope('booking.confirm', {}), PAYLOAD),
        ('venue null', confirm(venue_id=None), PAYLOAD),
        ('venue 7', confirm(venue_id=7), PAYLOAD),
        ('venue empty', confirm(venue_id=''), PAYLOAD),
    ]
    for size in (0, -1, 1001, 10**9, 10**30, 2.0, '2', True):
        cases.append((f'party_size {size!r}', confirm(party_size=size), PAYLOAD))
    cases += [
        ('a long note', confirm(user_note='x' * 2001), PAYLOAD),
        ('note 7', confirm(user_note=7), PAYLOAD),
        ('two times', confirm(time='2027-01-01T19:00:00Z', slot_time='2027-01-01T20:00:00Z'), PAYLOAD),
        ('unknown member', confirm(slotid='s0'), PAYLOAD),
        ('slot 7', confirm(slot_id=7), PAYLOAD),
        ('nowhere', confirm(venue_id='nowhere'), (404, 'venue_not_found')),
        ('an unknown UUID', confirm(venue_id='00000000-0000-4000-8000-000000000000'), (404, 'venue_not_found')),
        ('an unknown slot', confirm(slot_id='s99'), (409, 'slot_unavailable')),
        ('SQL', confirm(venue_id="venue-0001' OR '1'='1"), (404, 'venue_not_found')),
        ('no timestamp', {**confirm(), 'timestamp': ''}, (422, 'invalid_envelope')),
    ]
    for one in cases:
        one[1]['timestamp'] = one[1]['timestamp'] and stamp()
    said = judged(world, cases)
    equal('bookings', shared(world).bookings(), [])
    return said


@check
def wildcards_quotes_and_operators_are_plain_text(world):
    """Nothing in a query has a meaning to LIKE, to SQL or to the index behind it."""
    import venues

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
