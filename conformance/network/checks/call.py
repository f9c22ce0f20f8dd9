"""The first call as it is printed, the status page, and the order in which a call is checked."""

import json
import subprocess
import time

from envelope import NETWORK, envelope, instant, sign, stamp
from registry import check, equal, holds
from server import until
from setting import KEY, PREVIOUS, VERSION, network, shared

# As the network prints it, but for the host, the key and the time.
FIRST = """curl -X POST {url}/a2a/v1 \\
  -H 'Authorization: Bearer {key}' \\
  -H 'Content-Type: application/json' \\
  -d '{{"protocol":"openclaw/a2a/v1","from":"my_agent_001","to":"network:agnt","intent":"network.ping","payload":{{}},"ttl_ms":5000,"timestamp":"{now}"}}'"""


@check
def the_first_call_works_as_printed(world):
    net = shared(world)
    key = net.caller('free').key
    holds(KEY.fullmatch(key), f'a key of a tier looks like agnt_live_…, not {key[:12]}…')
    text = FIRST.format(url=net.server.url, key=key, now=time.strftime('%Y-%m-%dT%H:%M:%SZ', time.gmtime()))
    done = subprocess.run(
        ['sh', '-c', f'{text} -sS -w "\\n%{{http_code}}"'], capture_output=True, text=True, timeout=20
    )
    body, _, status = done.stdout.rpartition('\n')
    equal('status', (status, done.stderr), ('200', ''))
    answer = json.loads(body)
    equal(
        'payload',
        answer['payload'],
        {'active_venues': 240, 'tier': 'free', 'agent_id': 'my_agent_001', 'network_version': VERSION},
    )
    holds(abs(instant(answer['timestamp']) - time.time()) < 10, f'answered at {answer["timestamp"]}')
    del answer['payload'], answer['timestamp']
    equal(
        'the rest',
        answer,
        {
            'protocol': 'openclaw/a2a/v1',
            'from': 'network:agnt',
            'to': 'my_agent_001',
            'intent': 'network.ping',
            'agent_context': {},
            'ttl_ms': 5000,
        },
    )


@check
def search_then_confirm_works_from_the_imported_file(world):
    """What a visitor of the network does, with nothing but curl's knowledge: search, take a slot of what was found."""
    with network(world) as net:
        holds(len(net.venues) >= 200, 'too few venues')
        caller = net.caller('pro', ('booking',))
        found = caller.good('booking.search', {'query': 'sunset', 'location': 'canggu', 'limit': 5})
        holds(found['venues'], 'nothing was found')
        venue = found['venues'][0]
        booked = caller.good(
            'booking.confirm',
            {
                'venue_id': venue['slug'],
                'slot_id': venue['slots'][0]['slot_id'],
                'party_size': 2,
                'user_note': 'window',
            },
        )
        equal('status', booked['status'], 'pending')
        equal('venue', booked['venue'], {name: venue[name] for name in ('id', 'slug', 'name', 'agent_id')})
        again = caller.good('booking.search', {'query': 'sunset', 'location': 'canggu', 'limit': 5})['venues'][0]
        before, after = ({one['slot_id'] for one in v['slots']} for v in (venue, again))
        equal('slots that are gone', before - after, {venue['slots'][0]['slot_id']})
        shown = net.booking(booked['booking_id'])
        equal('as kept', (shown['status'], shown['party_size']), ('pending', 2))


@check
def defaults_stand_in_for_what_may_be_left_out(world):
    caller = shared(world).caller('enterprise')
    answer = caller.post(b'{"from":"me","intent":"network.ping"}')
    equal('status', answer.status, 200)
    got = answer.json
    equal(
        'envelope',
        (got['protocol'], got['from'], got['to'], got['ttl_ms'], got['agent_context']),
        ('openclaw/a2a/v1', NETWORK, 'me', 5000, {}),
    )
    answer = caller.post(b'{"from_agent":"me","intent":"network.ping","timestamp":""}')
    equal('from_agent', (answer.status, answer.json['to']), (200, 'me'))


@check
def the_context_is_echoed_and_believed_in_nothing(world):
    caller = shared(world).caller('free')
    context = {
        'tier': 'enterprise',
        'z': [1, 1.0, 12345678901234567890123, {'b': None}],
        'é': '🎉',
        'correlation_id': 'c',
    }
    text = json.dumps(envelope('network.ping', agent_context={'HERE': 0})).replace('{"HERE": 0}', json.dumps(context))
    answer = caller.post(text.encode())
    equal('echoed', answer.json['agent_context'], context)
    holds(b'12345678901234567890123' in answer.body and b'1.0' in answer.body, f'numbers were changed: {answer}')
    equal('tier', answer.payload['tier'], 'free')
    refused = caller.post(
        json.dumps(envelope('booking.confirm', {'venue_id': 'venue-0001'}, agent_context=context)).encode()
    )
    equal('a paid intent', refused.said, (403, 'tier_required'))
    equal('echoed in a refusal', refused.json['agent_context'], context)


@check
def a_refusal_that_could_not_be_read_is_answered_to_unknown(world):
    answer = shared(world).caller('enterprise').post(b'[')
    got = answer.json
    equal(
        'envelope', (got['from'], got['to'], got['intent'], got['agent_context']), (NETWORK, 'unknown', 'unknown', {})
    )
    equal('said', answer.said, (400, 'invalid_envelope'))


@check
def status_is_public_short_and_says_nothing_of_venues(world):
    net = shared(world)
    answer = net.server.call('GET', '/a2a/v1/status')
    equal('status', answer.status, 200)
    said = answer.json
    equal(
        'members',
        [said[name] for name in ('status', 'protocol', 'network', 'network_version')],
        ['ok', 'openclaw/a2a/v1', NETWORK, VERSION],
    )
    holds(set(said['intents']) >= {'network.ping', 'venue.list', 'booking.search', 'booking.confirm'}, f'{said}')
    equal('breaker', said['breaker'], {'global': 'closed'})
    holds(abs(instant(said['time']) - time.time()) < 10, f'{said["time"]}')
    holds('max-age=5' in (answer.header('cache-control') or ''), f'Cache-Control {answer.header("cache-control")!r}')
    holds('venue-0' not in answer.body.decode() and 'agent:' not in answer.body.decode(), 'names venues')


@check
def without_a_network_there_is_no_such_path(world):
    server = world.server('[auth]\naccept = ["api_key"]\n')
    with server:
        for method, path in (('POST', '/a2a/v1'), ('GET', '/a2a/v1/status')):
            equal(f'{method} {path}', server.call(method, path, {}, b'{}').status, 404)


@check
def only_posts_of_json_are_taken(world):
    caller = shared(world).caller('enterprise')
    body = json.dumps(envelope('network.ping')).encode()
    for kind, status in (
        ('application/json', 200),
        ('application/json; charset=utf-8', 200),
        ('APPLICATION/JSON', 200),
        ('text/plain', 415),
        ('application/x-www-form-urlencoded', 415),
        ('application/jsonp', 415),
    ):
        equal(f'Content-Type {kind}', caller.raw(body, [('Content-Type', kind)]).status, status)
    equal('no Content-Type', caller.raw(body).status, 415)
    for method in ('GET', 'PUT', 'DELETE'):
        answer = caller.raw(None, method=method)
        equal(method, answer.status, 405)
        holds('POST' in answer.headers.get('allow', ''), f'{method}: Allow {answer.headers.get("allow")!r}')


@check
def bodies_and_contexts_have_a_size(world):
    caller = shared(world).caller('enterprise')
    caller.refused((413, 'payload_too_large'), 'network.ping', {}, agent_context={'x': 'y' * 17000})
    caller.good('network.ping', {}, agent_context={'x': 'y' * 15000})
    answer = caller.raw(b'{"from":"' + b'x' * 270_000 + b'"}', [('Content-Type', 'application/json')])
    equal('a body of 264 KiB', answer.status, 413)


@check
def the_ceiling_of_the_ttl_is_not_an_error(world):
    caller = shared(world).caller('enterprise')
    answer = caller.ask('network.ping', ttl=10**9)
    equal('as received', (answer.status, answer.json['ttl_ms']), (200, 10**9))


@check
def checks_are_made_in_their_order(world):
    """Where two things are wrong, the earlier one is told: nobody without a key learns anything, and garbage costs quota."""
    net = shared(world)
    good, free = net.caller('enterprise'), net.caller('free', ('full',))
    query = net.caller('free', ('query',))
    nobody = net.with_key('agnt_live_' + '0' * 32)
    bad_signature = sign({'x': 1}, PREVIOUS, 'judge')
    old = stamp(time.time() - 400)
    cases = [
        ('key before size of the context', nobody, b'[', (401, 'unauthorized')),
        ('JSON before schema', good, b'{"ttl_ms":"x",', (400, 'invalid_envelope')),
        (
            'schema before protocol',
            good,
            {**envelope('network.ping', protocol='agp/1'), 'ttl_ms': 0},
            (422, 'invalid_envelope'),
        ),
        (
            'protocol before signature',
            good,
            envelope('network.ping', bad_signature, protocol='agp/1'),
            (400, 'unsupported_protocol'),
        ),
        (
            'signature before time',
            good,
            envelope('network.ping', bad_signature, timestamp=old),
            (401, 'invalid_signature'),
        ),
        ('time before intent', good, envelope('network.pong', timestamp=old), (400, 'stale_timestamp')),
        ('intent before scope', query, envelope('booking.cancel', {}), (400, 'unknown_intent')),
        ('scope before tier', query, envelope('booking.confirm', {}), (403, 'scope_required')),
        ('tier before payload', free, envelope('booking.confirm', {}), (403, 'tier_required')),
        (
            'payload before venue',
            good,
            envelope('booking.confirm', {'venue_id': 'nowhere', 'party_size': 0}),
            (422, 'invalid_payload'),
        ),
    ]
    for name, caller, sent, want in cases:
        answer = caller.post(sent if isinstance(sent, bytes) else json.dumps(sent).encode())
        equal(name, answer.said, want)
    media = nobody.raw(b'{}', [('Content-Type', 'text/plain')])
    equal('media type before key', media.status, 415)
    large = nobody.raw(b' ' * 300_000, [('Content-Type', 'application/json')])
    equal('size before key', large.status, 413)


@check
def quota_is_spent_before_anything_is_read(world):
    with network(world, venues=[]) as net:
        # Two calls of a hundred are spent by the time the key is known to be taken, or more where it took longer.
        caller = net.caller('free')
        answer = until(lambda: one_over(caller, b'['), 'the quota is spent', 60)
        equal('garbage', answer.said, (429, 'rate_limited'))
        equal('an envelope', caller.ask('network.ping').said, (429, 'rate_limited'))


def one_over(caller, body):
    answer = caller.post(body)
    return answer if answer.status == 429 else None


@check
def in_production_plain_http_is_refused_and_never_redirected(world):
    """A redirect would come too late: the key has been shown to everybody on the way."""
    with network(world, venues=[], arguments=('--production',)) as net:
        key = net.key('enterprise')['key']
        answer = net.with_key(key).raw(
            json.dumps(envelope('network.ping')).encode(),
            [('Content-Type', 'application/json'), ('X-Forwarded-Proto', 'https')],
        )
        holds(answer.status in (403, 400) and 'location' not in answer.headers, f'{answer}')
        equal('code', answer.code, 'tls_required')


@check
def a_proxy_that_is_known_may_say_that_it_was_https(world):
    with network(world, venues=[], arguments=('--production',), more='[server]\nproxies = ["127.0.0.1/32"]\n') as net:
        caller = net.with_key(net.key('enterprise')['key'])
        body = json.dumps(envelope('network.ping')).encode()
        kind = ('Content-Type', 'application/json')
        answer = until(lambda: not_401(caller.raw(body, [kind, ('X-Forwarded-Proto', 'https')])), 'the key is taken')
        equal('https before it', answer.status, 200)
        for said in ([], [('X-Forwarded-Proto', 'http')]):
            equal(f'{said}', caller.raw(body, [kind, *said]).code, 'tls_required')


def not_401(answer):
    return answer if answer.status != 401 else None


@check
def tls_of_the_network_is_1_3_in_production(world):
    import ssl

    made = world.certificates
    tls = f'[server.tls]\ncert = "file:{made.directory}/fresh.pem"\nkey = "file:{made.directory}/fresh.key"\n'
    with network(world, venues=[], more=tls, arguments=('--production',), tls=made.ca) as net:
        key = net.key('enterprise')['key']
        body = json.dumps(envelope('network.ping')).encode()
        headers = {'Authorization': f'Bearer {key}', 'Content-Type': 'application/json'}
        until(lambda: net.server.call('POST', '/a2a/v1', headers, body).status == 200, 'TLS 1.3')
        context = net.server.context()
        context.maximum_version = ssl.TLSVersion.TLSv1_2
        net.server.context = lambda certificate=None: context
        try:
            answer = net.server.call('POST', '/a2a/v1', headers, body)
        except (ssl.SSLError, ConnectionError):
            return 'the handshake fails'
        holds(answer.status == 403, f'over TLS 1.2: {answer}')
        equal('code', answer.json['payload']['error']['code'], 'tls_required')
        return 'refused after the handshake'
