"""Recorded requests and tokens of other systems, played to the server on the wire, at the hour they were made.

The verdicts are those of the reference implementations. Where we are stricter on purpose the case is named here.
"""

import collections
import json

from bindings import Credential
from chain import Chain
from clock import Clock
from registry import check, equal
from stage import RPC, XPR, running

from checks.own import VECTORS

# Taken by the runner of the network, and not by us.
STRICTER_K1 = {
    'non-canonical: high-S twin with flipped recovery id',
    'recovery byte in the 27..30 range',
    'recovery byte 255',
    'R1 key and SIG_R1_ signature on an account holding PUB_R1_',
}
# Refused by both, by us for the form already.
FOR_ITS_FORM = {
    'high-S without flipping recovery id',
    'recovery byte 0',
    's = 0',
    'r >= n',
    's >= n',
}
# Refused by the function of the reference, and taken here: HTTP itself drops spaces around a value.
TRIMMED = {'surrounding spaces in signature'}
# Taken by agent-native, and not by us.
STRICTER_JWT = {'no exp claim', 'alg HS384, same secret', 'alg HS512, same secret'}


def play_k1(world, case, headers, keys):
    """Whether the guard lets it in; what becomes of the request behind it is not the point."""
    clock = Clock(world)
    with Chain() as chain:
        account = headers.get('x-xpr-account', '')
        if keys is not None:
            threshold = 2 if account == 'weighted' else 1
            chain.account(account, *keys, threshold=threshold)
        elif account == 'noactive':
            chain.account(account)
            chain.no_active = True
        config = f'[auth]\naccept = ["xpr"]\n[auth.xpr]\nrpc_url = "{chain.url}"\nregistration = false\n'
        with running(world, config, env=clock.env) as server:
            clock.show(case['server_now'])
            request = ('POST', '/a2a', [], case['body_utf8'].encode())
            return XPR.play(server, request, list(headers.items()))


@check
def signed_requests_of_the_network_are_let_in(world):
    cases = json.loads((VECTORS / 'xpr-k1.json').read_text())['valid']
    for case in cases:
        names = ('account', 'timestamp', 'signature')
        headers = {f'x-xpr-{name}': str(case[name]) for name in names}
        form = 'public_key_k1' if case['on_chain_key_form'] == 'PUB_K1' else 'public_key_legacy'
        outcome = play_k1(world, case, headers, [case[form]])
        assert outcome.code != -32000 and outcome.status == 200, f'{case["name"]}: {outcome}'
    return f'{len(cases)} requests'


@check(slow=True)
def edges_of_signed_requests_are_judged_as_recorded(world):
    cases = json.loads((VECTORS / 'xpr-k1.json').read_text())['negative_and_edge']
    wrong = []
    for case in cases:
        name, headers = case['name'], {k: v for k, v in case['headers'].items() if v is not None}
        if name in TRIMMED:
            continue
        outcome = play_k1(world, case, headers, case['account_active_keys'])
        let_in = outcome.code != -32000
        if let_in != (case['verdict']['accepted'] and name not in STRICTER_K1):
            wrong.append(f'{name}: {outcome}')
        elif not let_in and name not in STRICTER_K1 | FOR_ITS_FORM and case['verdict'].get('code'):
            words = case['verdict']['message']
            if words not in outcome.message:
                wrong.append(f'{name}: want the words {words!r}, got {outcome.message!r}')
    equal('judged otherwise', wrong, [])
    return f'{len(cases) - len(TRIMMED)} requests, {len(STRICTER_K1)} stricter on purpose'


@check
def tokens_of_agent_native_are_judged_as_recorded(world):
    recorded = json.loads((VECTORS / 'agent-native-jwt.json').read_text())
    groups, wrong, left = collections.defaultdict(list), [], 0
    for case in recorded['cases']:
        if case['request_headers'] or case['app_url'] is None:
            # About how a receiver learns its own name, which is configured here.
            left += 1
            continue
        groups[case['secret'], case['app_url']].append(case)
    for number, ((secret, url), cases) in enumerate(groups.items()):
        clock = Clock(world)
        env = {f'ORG_{index}': each['a2a_secret'] for index, each in enumerate(recorded['organizations'])}
        given = 'secret = "env:SHARED"\n' if secret is not None else ''
        env |= {'SHARED': secret} if secret is not None else {}

        def prepare(server):
            for index, each in enumerate(recorded['organizations']):
                server.command('org', 'add', each['allowed_domain'], '--secret', f'env:ORG_{index}')

        config = f'[auth]\naccept = ["jwt"]\n[auth.jwt]\n{given}audience = "{url.rstrip("/")}"\n'
        with running(world, config, env={**env, **clock.env}, prepare=prepare) as server:
            for case in cases:
                clock.show(case['now'])
                outcome = RPC.send(server, Credential(('Authorization', f'Bearer {case["token"]}')))
                wanted = case['accepted'] and case['name'] not in STRICTER_JWT
                if outcome.served != wanted:
                    wrong.append(f'{case["name"]} (group {number}): {outcome}')
    equal('judged otherwise', wrong, [])
    played = sum(len(cases) for cases in groups.values())
    return f'{played} tokens, {len(STRICTER_JWT)} stricter on purpose; {left} are about names that are configured here'
