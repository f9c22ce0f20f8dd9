"""Signed payloads: every recorded case on the wire, at the hour it was made, and what a signature is bound to."""

import contextlib
import json
import re
import time

import vectors
import venues
from clock import Clock
from envelope import envelope, mac, sign
from registry import check, equal, holds
from setting import CURRENT, PREVIOUS, PREVIOUS_ENV, network, shared

NOW = 1776000000
AGE_MAX = 300
SIGNED_ONLY = ('--require-signature',)


def around(payload, intent='network.ping', **members):
    """An envelope, as bytes, around a payload that may be no JSON at all."""
    text = json.dumps(envelope(intent, {'PAYLOAD': 0}, **members))
    return text.replace('{"PAYLOAD": 0}', payload).encode()


def show(clock, now, message, ends=None):
    """Sets the clock to the second of a case.

    Recorded ages are whole seconds, and a clock is never at one. So what is exactly as old as it may be, or comes when a
    key `ends`, is shown in the moment before that, and everything else in the moment after.
    """
    age = None
    with contextlib.suppress(ValueError, LookupError, TypeError):
        age = now - json.loads(message)['_ts']
    if age != AGE_MAX and now != ends:
        return clock.show(now)
    while not 0.5 < time.time() % 1 < 0.95:
        time.sleep(0.01)
    return clock.forward(now - 1 - int(time.time()) - clock.off)


def sender_of(message):
    try:
        return json.loads(message).get('_from') or 'a'
    except (ValueError, AttributeError):
        return 'a'


def verdict(answer):
    """What the door made of a signature: `ok` wherever it went further."""
    if answer.said in ((401, 'invalid_signature'), (400, 'invalid_envelope'), (422, 'invalid_envelope')):
        return answer.code
    holds(
        answer.said in ((200, None), (422, 'invalid_payload')),
        f'neither let in nor refused for its signature: {answer}',
    )
    return 'ok'


def wanted(case):
    if case['id'] in vectors.DOUBLED or case['reason'] == 'malformed':
        return 'invalid_envelope'
    return 'ok' if case['valid'] else 'invalid_signature'


@check
def recorded_payloads_are_judged_as_recorded(world):
    cases, wrong = vectors.load('agnt-verify')['cases'], []
    overlap = f'previous = [{{ key = "env:{PREVIOUS_ENV}", rotated_at = "2026-04-12T13:19:00Z" }}]\n'
    for keys, ring in ((['current'], ''), (['current', 'previous'], overlap)):
        clock = Clock(world)
        with network(world, venues=[], ring=ring, env=clock.env) as net:
            caller = net.caller('enterprise', words=SIGNED_ONLY)
            for case in (case for case in cases if case['keys'] == keys):
                show(clock, case['now'], case['message'])
                sent = around(case['message'], intent='booking.search', sender=sender_of(case['message']), timestamp='')
                got = verdict(caller.post(sent))
                if got != wanted(case):
                    wrong.append(f'{case["id"]}: {got}, want {wanted(case)}')
    equal('judged otherwise', wrong, [])
    return f'{len(cases)} payloads'


@check
def canonical_texts_are_those_of_the_reference(world):
    """Each text is signed as Python writes it and spelled as recorded; a server that writes one byte otherwise says no."""
    recorded, clock, wrong = vectors.load('agnt-canonical'), Clock(world), []
    key = bytes.fromhex(recorded['key_hex'])
    equal('the key of the file', key, CURRENT)
    with network(world, venues=[], env=clock.env) as net:
        caller = net.caller('enterprise')
        for case in recorded['cases']:
            if case['strict'] == 'reject':
                got, want = verdict(caller.post(around(case['input'], timestamp=''))), 'invalid_envelope'
            else:
                want = 'invalid_envelope' if case['id'] in vectors.TOO_DEEP else 'ok'
                text, spoiled, sender, at = spliced(case, key)
                clock.show(at)
                got = verdict(caller.post(around(text, sender=sender, timestamp='')))
                if want == 'ok':
                    equal(
                        f'{case["id"]}, spoiled',
                        verdict(caller.post(around(spoiled, sender=sender, timestamp=''))),
                        'invalid_signature',
                    )
            if got != want:
                wrong.append(f'{case["id"]}: {got}, want {want}')
    equal('judged otherwise', wrong, [])
    return f'{len(recorded["cases"])} texts'


def spliced(case, key):
    """The recorded text, signed; the same with a wrong signature; who it is from, and when.

    Texts that are signed payloads already are used as they are; the others stand inside one, since their members may have
    names that only a signer may use.
    """
    value, text = json.loads(case['input']), case['input'].strip()
    equal(f'{case["id"]}: our own canonical text', mac(key, value), case['hmac_sha256'])
    if '_ts' not in value:
        value, text = {'text': value}, f'{{"text": {text}}}'
    added = {name: default for name, default in (('_ts', NOW), ('_from', 'a')) if name not in value}
    signature = mac(key, {**value, **added})
    head = text[:-1].rstrip()

    def ending(sig):
        return f'{head},' + json.dumps({**added, '_sig': sig})[1:]

    flipped = ('0' if signature[0] != '0' else '1') + signature[1:]
    whole = {**value, **added}
    return ending(signature), ending(flipped), whole['_from'], int(whole['_ts'])


@check
def recorded_sequences_come_out_as_recorded(world):
    """A copy is the same event: it is answered, and nothing happens twice. Reads have no effect, so they may be done again."""
    sequences = {one['id']: one for one in vectors.load('agnt-verify')['sequences']}
    for id in ('replay-same-bytes', 'future-skew-cache-lifetime'):
        clock = Clock(world)
        with network(world, venues=[], env=clock.env) as net:
            caller = net.caller('enterprise', words=SIGNED_ONLY)
            for number, step in enumerate(sequences[id]['steps']):
                show(clock, step['now'], step['message'])
                sent = around(step['message'], intent='booking.search', sender='a', timestamp='')
                got = verdict(caller.post(sent))
                want = 'invalid_signature' if step['outcome'] == 'stale' else 'ok'
                equal(f'{id}, step {number}', got, want)
    rotation = sequences['rotation']
    clock, at = Clock(world), '2026-04-12T13:20:00Z'
    ring = f'previous = [{{ key = "env:{PREVIOUS_ENV}", rotated_at = "{at}" }}]\n'
    with network(world, venues=[], ring=ring, env=clock.env) as net:
        caller = net.caller('enterprise', words=SIGNED_ONLY)
        for number, step in enumerate(rotation['steps']):
            show(clock, step['now'], step['message'], rotation['rotated_at'] + rotation['overlap_s'])
            sent = around(step['message'], intent='booking.search', sender=sender_of(step['message']), timestamp='')
            want = 'ok' if step['outcome'] == 'processed' else 'invalid_signature'
            equal(f'rotation, step {number}', verdict(caller.post(sent)), want)


@check
def a_signature_is_needed_where_the_key_says_so_and_checked_wherever_it_is(world):
    net = shared(world)
    flagged, plain = net.caller('enterprise', words=SIGNED_ONLY), net.caller('enterprise')
    flagged.refused((401, 'invalid_signature'), 'network.ping')
    flagged.good('network.ping', sign({}, CURRENT, 'judge'))
    plain.good('network.ping')
    # Another second, since a payload that was seen under one key is of no use under another.
    plain.good('network.ping', sign({}, CURRENT, 'judge', ts=int(time.time()) - 7))
    plain.refused((401, 'invalid_signature'), 'network.ping', sign({}, PREVIOUS, 'judge'))
    plain.refused((401, 'invalid_signature'), 'network.ping', {**sign({}, CURRENT, 'judge'), '_sig': None})


@check
def a_refused_signature_does_not_say_what_was_wrong_with_it(world):
    """Else it could be used to find out, one guess at a time."""
    caller = shared(world).caller('enterprise')
    bad = [
        sign({}, PREVIOUS, 'judge'),
        sign({}, CURRENT, 'judge', ts=1),
        sign({}, CURRENT, 'judge', ts=99999999999),
        {**sign({}, CURRENT, 'judge'), '_sig': 'é' * 32},
        {**sign({}, CURRENT, 'judge'), '_ts': 'now'},
    ]
    said = {caller.refused((401, 'invalid_signature'), 'network.ping', payload).error['message'] for payload in bad}
    equal('different words', len(said), 1)
    holds(not re.search(r'stale|expired|future|mac|mismatch', said.pop(), re.I), 'the words tell which check failed')


@check
def a_signed_sender_is_the_one_of_the_envelope(world):
    caller = shared(world).caller('enterprise')
    caller.refused((403, 'agent_mismatch'), 'network.ping', sign({}, CURRENT, 'somebody-else'))


@check
def a_payload_may_be_bound_to_intent_and_recipient(world):
    net = shared(world)
    caller = net.caller('enterprise')
    bound = {'to': net.id, 'intent': 'network.ping', 'nonce': 'a1' * 16}
    caller.good('network.ping', sign({}, CURRENT, 'judge', **bound))
    for other in ({'to': 'network:other'}, {'intent': 'venue.list'}):
        payload = sign({}, CURRENT, 'judge', **{**bound, 'nonce': f'{len(str(other)):032x}', **other})
        caller.refused((401, 'invalid_signature'), 'network.ping', payload)


@check
def a_nonce_is_good_for_one_thing(world):
    """Whoever sends again may sign again; whoever says something else needs another nonce."""
    caller = shared(world).caller('enterprise')
    now = int(time.time())
    bound = {'nonce': 'b2' * 16, 'intent': 'booking.search', 'to': caller.network}
    caller.good('booking.search', sign({'limit': 3}, CURRENT, 'judge', ts=now, **bound))
    caller.good('booking.search', sign({'limit': 3}, CURRENT, 'judge', ts=now - 1, **bound))
    other = sign({'limit': 4}, CURRENT, 'judge', ts=now - 2, **bound)
    caller.refused((401, 'invalid_signature'), 'booking.search', other)


@check
def a_signed_payload_is_of_no_use_under_another_intent(world):
    """The signature does not cover the intent, so the copy is found out by having been seen."""
    net = shared(world)
    caller = net.caller('enterprise')
    payload = sign({'limit': 3}, CURRENT, 'judge')
    caller.good('booking.search', payload)
    caller.refused((401, 'invalid_signature'), 'venue.list', payload)


@check
def a_captured_booking_is_not_booked_again_under_another_timestamp(world):
    """The timestamp is not signed either. Whatever is answered, there is one booking."""
    with network(world, venues=venues.sample(3)) as net:
        caller = net.caller('pro')
        payload = sign({'venue_id': 'venue-0001', 'party_size': 2}, CURRENT, 'judge')
        first = caller.good('booking.confirm', payload)
        again = caller.ask('booking.confirm', payload)
        holds(again.status != 200 or again.payload['booking_id'] == first['booking_id'], f'{again}')
        equal('bookings', len(net.bookings()), 1)


@check
def members_of_signing_are_no_part_of_the_payload_and_others_of_their_kind_are_refused(world):
    caller = shared(world).caller('enterprise')
    caller.good('booking.search', sign({'query': 'sunset', 'limit': 2}, CURRENT, 'judge'))
    refusals = ((422, 'invalid_payload'), (401, 'invalid_signature'))
    for payload in (sign({'query': 'sunset', '_colour': 'red'}, CURRENT, 'judge'), {'_colour': 'red'}):
        answer = caller.ask('booking.search', payload)
        holds(answer.said in refusals, f'an unknown member: {answer}')
