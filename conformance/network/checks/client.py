"""Our own client, `sabir envelope send`: what it puts on the wire, and what it does when nobody answers."""

import json
import os
import subprocess

import names
from envelope import MOMENT, verified
from registry import check, equal, holds
from setting import shared
from venue_agent import VenueAgent

SECRET = 'agnt_live_' + 'ab' * 16


def send(world, url, intent, *words, payload=None, key=SECRET):
    environment = {
        **os.environ,
        'JUDGE_KEY': key,
        'JUDGE_SIGN': names.CURRENT.hex(),
        'HOME': str(world.scratch),
        'NO_PROXY': '127.0.0.1',
    }
    line = [str(world.sabir), 'envelope', 'send', intent, '-a', url, '--key', 'env:JUDGE_KEY', '-o', 'json', *words]
    given = {'stdin': subprocess.DEVNULL} if payload is None else {'input': json.dumps(payload)}
    return subprocess.run(line, capture_output=True, text=True, timeout=60, env=environment, cwd=world.scratch, **given)


def base(agent):
    return agent.url.removesuffix('/a2a/v1')


@check
def it_sends_a_whole_envelope_and_prints_the_result(world):
    with VenueAgent('network:agnt') as agent:
        agent.way = 'unsigned'
        done = send(
            world,
            base(agent),
            'booking.confirm',
            '--from',
            'me',
            '--ttl-ms',
            '4000',
            '--agent-context',
            '{"correlation_id":"c-1"}',
            payload={'venue_id': 'v', 'party_size': 2},
        )
        equal('exit status', (done.returncode, done.stderr), (0, ''))
        equal('result', json.loads(done.stdout)['booking_id'], 'theirs-1')
        (sent,) = agent.envelopes
        wanted = {
            'protocol': 'openclaw/a2a/v1',
            'from': 'me',
            'to': 'network:agnt',
            'intent': 'booking.confirm',
            'ttl_ms': 4000,
            'agent_context': {'correlation_id': 'c-1'},
            'payload': {'venue_id': 'v', 'party_size': 2},
        }
        equal('envelope', {name: sent[name] for name in wanted}, wanted)
        holds(MOMENT.fullmatch(sent['timestamp']), f'timestamp {sent["timestamp"]}')
        equal('key', {n.lower(): v for n, v in agent.seen[0]['headers'].items()}['authorization'], f'Bearer {SECRET}')


@check
def it_signs_and_binds_what_it_signs(world):
    with VenueAgent('network:agnt') as agent:
        words = ('--sign-key', 'env:JUDGE_SIGN', '--derivation', 'hex', '--from', 'me')
        for _ in range(2):
            equal(
                'exit status', send(world, base(agent), 'booking.search', *words, payload={'query': 'é'}).returncode, 0
            )
        first, second = (sent['payload'] for sent in agent.envelopes)
        for payload in (first, second):
            equal('signature', verified(payload, names.CURRENT), None)
            equal(
                'bound',
                (payload['_from'], payload['_to'], payload['_intent']),
                ('me', 'network:agnt', 'booking.search'),
            )
        holds(first['_nonce'] != second['_nonce'] and len(first['_nonce']) == 32, 'nonces')
        stamps = [sent['timestamp'] for sent in agent.envelopes]
        holds(stamps[0] < stamps[1], f'timestamps do not rise: {stamps}')


@check
def what_passes_is_sent_again_with_the_same_timestamp(world):
    with VenueAgent('network:agnt') as agent:
        agent.way, agent.ways = 'unsigned', ['500', 'close', '500']
        done = send(world, base(agent), 'booking.confirm', payload={'venue_id': 'v'})
        equal('exit status', (done.returncode, len(agent.seen)), (0, 4))
        equal('timestamps', len({sent['timestamp'] for sent in agent.envelopes}), 1)
        gaps = [b['at'] - a['at'] for a, b in zip(agent.seen, agent.seen[1:], strict=False)]
        holds(gaps[-1] > gaps[0], f'it does not back off: {gaps}')


@check
def what_does_not_pass_is_not_sent_again(world):
    with VenueAgent('network:agnt') as agent:
        agent.way = 'refuse'
        done = send(world, base(agent), 'booking.confirm', payload={'venue_id': 'v'})
        equal('exit status', (done.returncode, len(agent.seen)), (1, 1))
        holds('slot_unavailable' in done.stdout + done.stderr, f'{done.stdout}{done.stderr}')


@check
def it_books_with_the_real_network_and_shows_no_secret(world):
    net = shared(world)
    caller = net.caller('free')
    done = send(world, net.server.url, 'network.ping', '--verbose', '--debug', '--curl', key=caller.key)
    equal('exit status', done.returncode, 0)
    holds('"tier"' in done.stdout and 'free' in done.stdout, done.stdout[:300])
    holds(caller.key not in done.stdout + done.stderr, 'the key is shown')
    refused = send(world, net.server.url, 'booking.confirm', payload={'venue_id': 'venue-0001'}, key=caller.key)
    equal('refused', refused.returncode, 1)
    stranger = send(world, net.server.url, 'network.ping')
    equal('a stranger', stranger.returncode, 4)


@check
def nobody_there_is_an_exit_status_of_its_own_and_tells_the_timestamp(world):
    done = send(world, 'http://127.0.0.1:9', 'booking.confirm', payload={'venue_id': 'v'})
    equal('exit status', done.returncode, 3)
    holds('--timestamp' in done.stderr or 'timestamp' in done.stdout.lower(), f'{done.stderr[-300:]}')
