"""Our own client, `sabir envelope send`: what it signs."""

import json
import os
import subprocess

import names
from envelope import verified
from registry import check, equal, holds
from venue_agent import VenueAgent


def send(world, agent):
    environment = {
        **os.environ,
        'JUDGE_KEY': 'agnt_live_' + 'ab' * 16,
        'JUDGE_SIGN': names.CURRENT.hex(),
        'HOME': str(world.scratch),
        'NO_PROXY': '127.0.0.1',
    }
    line = [str(world.sabir), 'envelope', 'send', 'booking.search', '-a', agent.url.removesuffix('/a2a/v1')]
    line += ['--key', 'env:JUDGE_KEY', '--sign-key', 'env:JUDGE_SIGN', '--derivation', 'hex', '--from', 'me']
    given = json.dumps({'query': 'é'})
    return subprocess.run(
        line, input=given, capture_output=True, text=True, timeout=60, env=environment, cwd=world.scratch
    )


@check
def it_signs_and_binds_what_it_signs(world):
    with VenueAgent('network:agnt') as agent:
        for _ in range(2):
            equal('exit status', send(world, agent).returncode, 0)
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
