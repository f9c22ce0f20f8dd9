"""What can be seen of the network while it runs: counters, and one row for every envelope."""

import json
import time

import venues
from envelope import envelope, sign, stamp
from names import DRIFT, DURATION, METERED, REQUESTS
from registry import check, equal, holds
from server import until
from setting import CURRENT, KEY, network, total

CONFIRM = {'intent': 'booking.confirm'}
COLUMNS = {
    'id',
    'received_at',
    'source',
    'api_key_id',
    'tier',
    'from_agent',
    'to_agent',
    'intent',
    'protocol',
    'correlation_id',
    'timestamp_claimed',
    'ttl_ms',
    'payload_json',
    'agent_context_json',
    'signed',
    'status',
    'error_code',
    'http_status',
    'latency_ms',
    'booking_id',
    'remote_addr',
    'idempotent_replay',
}


def small(world, **more):
    return network(world, venues=venues.sample(6), **more)


@check
def every_call_is_counted_by_intent_tier_and_outcome(world):
    with small(world) as net:
        free, pro = net.caller('free'), net.caller('pro')
        before = net.metrics()

        def grew(name, **labels):
            return total(net.metrics(), name, **labels) - total(before, name, **labels)

        at = stamp()
        pro.good('booking.confirm', {'venue_id': 'venue-0001'}, timestamp=at)
        pro.good('booking.confirm', {'venue_id': 'venue-0001'}, timestamp=at)
        pro.refused((404, 'venue_not_found'), 'booking.confirm', {'venue_id': 'nowhere'})
        free.refused((403, 'tier_required'), 'booking.confirm', {'venue_id': 'venue-0001'})
        free.good('venue.list')
        free.refused((400, 'unknown_intent'), 'venue.delete')
        net.with_key('agnt_live_' + '0' * 32).refused((401, 'unauthorized'), 'network.ping')
        pro.post(b'[')
        for labels in (
            {**CONFIRM, 'tier': 'pro', 'status': 'ok'},
            {**CONFIRM, 'tier': 'pro', 'status': 'duplicate'},
            {**CONFIRM, 'tier': 'pro', 'status': 'venue_not_found'},
            {**CONFIRM, 'tier': 'free', 'status': 'tier_required'},
            {'intent': 'venue.list', 'tier': 'free', 'status': 'ok'},
            {'intent': 'unknown', 'tier': 'free', 'status': 'unknown_intent'},
            {'tier': 'none', 'status': 'unauthorized'},
            {'intent': 'unknown', 'tier': 'pro', 'status': 'invalid_envelope'},
        ):
            equal(f'{labels}', grew(REQUESTS, **labels), 1)
        equal('metered', grew(METERED), 1)
        equal(
            'metered and confirmed',
            total(net.metrics(), METERED),
            total(net.metrics(), REQUESTS, **CONFIRM, status='ok'),
        )
        equal('drift', (DRIFT in net.metrics(), total(net.metrics(), DRIFT)), (True, 0))
        holds(grew(f'{DURATION}_count') >= 8, f'{DURATION} was not fed')
        for name in ('agnt_a2a_cb_opened_total', 'agnt_a2a_venue_cb_opened_total'):
            equal(name, (name in net.metrics(), total(net.metrics(), name)), (True, 0))


@check
def the_counter_of_money_is_rebuilt_from_rows(world):
    with small(world) as net:
        caller = net.caller('pro')
        for number in range(5):
            caller.good('booking.confirm', {'venue_id': f'venue-{number:04}'})
        equal('before', total(net.metrics(), METERED), 5)
        net.server.process.kill()
        net.server.process.wait()
        net.server.start()
        equal('after', (total(net.metrics(), METERED), total(net.metrics(), DRIFT)), (5, 0))


@check
def labels_are_a_closed_set(world):
    """Whatever callers write, it becomes no label: else a stranger could fill the memory of a monitoring system."""
    with small(world) as net:
        caller = net.caller('enterprise')
        for number in range(60):
            caller.ask(f'made.up_{number}', sender=f'agent-{number}', to=f'agent:{number}')
            caller.ask('booking.confirm', {'venue_id': f'x-{number}'})
        caller.ask('network.ping', sender='evil"} 1\na2a_requests_total{x="')
        words = [value for series in net.metrics()[REQUESTS] for _, value in series]
        holds(not any('made' in word or 'agent-' in word or 'evil' in word for word in words), f'{sorted(set(words))}')
        holds(len(net.metrics()[REQUESTS]) < 40, f'{len(net.metrics()[REQUESTS])} series')


@check
def every_envelope_is_a_row_that_sql_can_ask_for(world):
    with small(world) as net:
        caller = net.caller('pro')
        at = stamp()
        booked = caller.good(
            'booking.confirm',
            {'venue_id': 'venue-0001', 'user_note': 'quiet'},
            sender='ana',
            timestamp=at,
            agent_context={'correlation_id': 'c-9', 'locale': 'en'},
        )
        caller.good('booking.confirm', {'venue_id': 'venue-0001', 'user_note': 'quiet'}, sender='ana', timestamp=at)
        caller.good('booking.search', sign({'query': 'sunset'}, CURRENT, 'ben'), sender='ben', ttl=1234)
        caller.refused((404, 'venue_not_found'), 'booking.confirm', {'venue_id': 'nowhere'}, sender='cem')
        rows = until(lambda: len(net.interactions(from_agent='cem')) == 1 and net.interactions(), 'the last row', 5)
        holds(set(rows[0]) >= COLUMNS, f'missing: {COLUMNS - set(rows[0])}')
        first, again = net.interactions(from_agent='ana')
        wanted = {
            'source': 'external_agent',
            'api_key_id': net.key_id('pro'),
            'tier': 'pro',
            'to_agent': net.id,
            'intent': 'booking.confirm',
            'protocol': 'openclaw/a2a/v1',
            'correlation_id': 'c-9',
            'ttl_ms': 5000,
            'signed': 0,
            'status': 'ok',
            'error_code': None,
            'http_status': 200,
            'booking_id': booked['booking_id'],
            'idempotent_replay': 0,
        }
        equal('a booking', {name: first[name] for name in wanted}, wanted)
        equal('its payload', json.loads(first['payload_json']), {'venue_id': 'venue-0001', 'user_note': 'quiet'})
        equal('its context', json.loads(first['agent_context_json'])['locale'], 'en')
        holds(first['remote_addr'].startswith('127.0.0.1'), first['remote_addr'])
        equal('a repetition', (again['status'], again['idempotent_replay']), ('duplicate', 1))
        (search,) = net.interactions(from_agent='ben')
        equal('a signed search', (search['signed'], search['ttl_ms'], search['status']), (1, 1234, 'ok'))
        (refused,) = net.interactions(from_agent='cem')
        equal('a refusal', (refused['http_status'], refused['error_code']), (404, 'venue_not_found'))


@check
def rows_hold_no_secret(world):
    with small(world) as net:
        caller = net.caller('pro')
        signed = sign({'query': caller.key}, CURRENT, 'judge')
        caller.ask('booking.search', signed, agent_context={'note': f'my key is {caller.key}'})
        wrong = net.with_key('agnt_live_' + '1' * 32)
        wrong.refused((401, 'unauthorized'), 'booking.search', {'query': 'whatever-was-asked'}, sender='stranger')
        caller.post(json.dumps(envelope('booking.search', signed | {'limit': 0}, sender='last')).encode())
        until(lambda: len(net.interactions()) >= 3, 'three rows', 5)
        time.sleep(0.2)
        for row in net.interactions():
            text = json.dumps(row)
            holds(signed['_sig'] not in text, f'a signature is kept: {text[:300]}')
            holds(not KEY.search(text), f'a key is kept: {text[:300]}')
        refused = [row for row in net.interactions() if row['error_code'] == 'unauthorized']
        holds(refused, 'who was refused is not there')
        for row in refused:
            holds(
                not row['payload_json'] and 'whatever-was-asked' not in json.dumps(row),
                'the payload of a stranger is kept',
            )
        said = net.server.said()
        holds(not KEY.search(said) and signed['_sig'] not in said, 'the log has a secret')


@check
def reads_do_not_wait_for_the_disk_and_are_there_within_a_second(world):
    """The row of a read rides on the next commit; without one it is written all the same."""
    with small(world) as net:
        net.caller('pro').good('network.ping', sender='quiet')
        until(lambda: net.interactions(from_agent='quiet'), 'the row', 3)


@check
def the_audit_shows_envelopes(world):
    with small(world) as net:
        net.caller('pro').good('network.ping', sender='seen-by-audit')
        until(lambda: net.interactions(from_agent='seen-by-audit'), 'the row', 3)
        shown = json.dumps(net.command('audit', 'envelopes'))
        holds('seen-by-audit' in shown, f'{shown[:300]}')
