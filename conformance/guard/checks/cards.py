"""Cards: signed by us and verified by the SDKs, signed by the SDKs and verified by us; who sees what of them."""

import base64
import copy
import json
import subprocess

import tokens
from loopback import Server
from registry import check, equal, holds
from sdks import ALGORITHMS, SIGNERS, VERIFIERS, python_signs_with
from server import AGENTS
from stage import running

WELL_KNOWN = '/.well-known/agent-card.json'
# No empty member, so that every reading of the specification gives the same bytes.
CARD = {
    'name': 'Signed',
    'description': 'a card for the tests, with an ü',
    'version': '1.0.0',
    'supportedInterfaces': [
        {'url': 'https://agent.test/', 'protocolBinding': 'JSONRPC', 'protocolVersion': '1.0'},
    ],
    'capabilities': {'streaming': True},
    'defaultInputModes': ['text/plain'],
    'defaultOutputModes': ['text/plain'],
    'skills': [{'id': 's', 'name': 'S', 'description': 'does', 'tags': ['t']}],
}


def signing(world, keys, more='', auth='', **rest):
    """A server whose cards are signed with these keys."""
    files = ', '.join(f'"file:given/{key.kid}.pem"' for key in keys)

    def prepare(server):
        for key in (*keys, *rest.get('files', ())):
            server.given(f'{key.kid}.pem', key.pem())

    config = f'[server.signing]\nkeys = [{files}]\n{more}\n{auth}'
    others = {name: value for name, value in rest.items() if name != 'files'}
    return running(world, config, prepare=prepare, **others)


def card_of(server, path=WELL_KNOWN, **headers):
    answer = server.call('GET', path, {'A2A-Version': '1.0', **headers})
    equal(f'status of {path}', answer.status, 200)
    return answer.json


def key_set(server):
    answer = server.call('GET', '/.well-known/jwks.json')
    equal('status of the key set', answer.status, 200)
    return answer.json


def verified(card, keys, what):
    for name, verifies in VERIFIERS.items():
        why = verifies(copy.deepcopy(card), keys)
        holds(not why, f'{what}: the SDK for {name} does not verify it: {why}')


# --- Signed by us -----------------------------------------------------------------------------------------------------


@check
def our_cards_verify_in_the_sdks(world):
    for algorithm in ALGORITHMS:
        with signing(world, [tokens.Key('card', algorithm)]) as server:
            card, keys = card_of(server), key_set(server)
            equal(f'signatures with {algorithm}', len(card.get('signatures', [])), 1)
            equal('algorithm of the key', keys['keys'][0].get('alg'), algorithm)
            verified(card, keys, algorithm)
            altered = {**card, 'description': 'somebody else'}
            for name, verifies in VERIFIERS.items():
                holds(verifies(altered, keys), f'the SDK for {name} verifies an altered card')


@check
def every_form_of_the_card_and_every_agent_is_signed(world):
    with signing(world, [tokens.Key('card')]) as server:
        keys = key_set(server)
        verified(card_of(server), keys, 'the card of 1.0')
        verified(card_of(server, '/agents/other' + WELL_KNOWN), keys, 'the card of another agent')
        hybrid = server.call('GET', WELL_KNOWN).json
        for name, verifies in VERIFIERS.items():
            why = verifies(copy.deepcopy(hybrid), keys)
            # Whether a reader of the hybrid form may keep members of 0.3 is the reader's; the signature is there.
            holds('signatures' in hybrid and not why, f'the hybrid card in the SDK for {name}: {why}')


@check
def several_keys_sign_side_by_side_and_retired_ones_stay_known(world):
    old, new, gone = tokens.Key('old', 'RS256'), tokens.Key('new'), tokens.Key('gone')
    with signing(world, [old, new], 'retired = ["file:given/gone.pem"]', files=[gone]) as server:
        card, keys = card_of(server), key_set(server)
        equal('signatures', len(card['signatures']), 2)
        equal('keys', len(keys['keys']), 3)
        for kept in keys['keys'][:2]:
            verified(card, {'keys': [kept, *keys['keys']]}, 'either key')
        members = {member for key in keys['keys'] for member in key}
        equal('private members', members & {'d', 'p', 'q', 'dp', 'dq', 'qi', 'k'}, set())


@check
def keys_and_cards_stay_public_where_calls_need_credentials(world):
    auth = '[auth]\naccept = ["api_key"]\n'
    with signing(world, [tokens.Key('card')], auth=auth) as server:
        verified(card_of(server), key_set(server), 'behind a guard')
        for path in ('/healthz', '/readyz', '/metrics', '/.well-known/agent.json'):
            equal(path, server.call('GET', path).status, 200)


@check
def a_card_signed_by_the_command_verifies_in_the_sdks(world):
    server = world.server('')
    for algorithm in ALGORITHMS:
        key = tokens.Key('card', algorithm)
        path, pem = server.given('card.json', json.dumps(CARD)), server.given('key.pem', key.pem())
        done = server.sabir('card', 'sign', path, '--key', pem, '-o', 'json')
        equal(f'exit of card sign: {done.stderr[-300:]}', done.returncode, 0)
        card = json.loads(done.stdout)
        done = server.sabir('card', 'keys', '--key', pem, '-o', 'json')
        equal(f'exit of card keys: {done.stderr[-300:]}', done.returncode, 0)
        verified(card, json.loads(done.stdout), algorithm)


# --- Verified by us ---------------------------------------------------------------------------------------------------


@check
def cards_of_the_sdks_verify_with_the_command(world):
    server = world.server('')
    for name, signs in SIGNERS.items():
        for algorithm in ALGORITHMS:
            key = tokens.Key(f'{name}-{algorithm}', algorithm)
            card = signs(copy.deepcopy(CARD), key)
            keys = server.given('keys.json', json.dumps(tokens.key_set(key)))
            verify(server, card, keys, 0, f'{algorithm} by the SDK for {name}')
            verify(server, {**card, 'name': 'Altered'}, keys, None, f'an altered card of the SDK for {name}')
            stranger = server.given('other.json', json.dumps(tokens.key_set(tokens.Key(key.kid, algorithm))))
            verify(server, card, stranger, None, f'another key for a card of the SDK for {name}')


def verify(server, card, keys, wanted, what):
    path = server.given('card.json', json.dumps(card))
    done = server.sabir('card', 'verify', path, '--jwks', keys, '-o', 'json')
    good = done.returncode == 0 if wanted == 0 else done.returncode not in (0, None)
    holds(good, f'{what}: exit {done.returncode}: {done.stdout[-200:]} {done.stderr[-200:]}')


@check
def a_card_of_a_server_verifies_by_its_address(world):
    with signing(world, [tokens.Key('card')]) as server:
        keys = server.given('keys.json', json.dumps(key_set(server)))
        done = server.sabir('card', 'verify', server.url, '--jwks', keys, '-o', 'json')
        holds(done.returncode == 0, f'exit {done.returncode}: {done.stdout[-200:]} {done.stderr[-300:]}')
        other = server.given('other.json', json.dumps(tokens.key_set(tokens.Key('card'))))
        done = server.sabir('card', 'verify', server.url, '--jwks', other, '-o', 'json')
        holds(done.returncode != 0, 'verified with a key that did not sign it')


@check
def an_unsigned_card_does_not_verify(world):
    server = world.server('')
    keys = server.given('keys.json', json.dumps(tokens.key_set(tokens.Key('card'))))
    verify(server, CARD, keys, None, 'an unsigned card')


# --- Who sees what ----------------------------------------------------------------------------------------------------

SKILLS = """
[[agent]]
name = "demo"
kind = "echo"
default = true
[agent.card]
description = "has skills for some"
version = "1.0.0"
[agent.card.capabilities]
extended_card = true
[[agent.card.skills]]
id = "all"
name = "all"
description = "for everybody"
tags = ["t"]
[[agent.card.skills]]
id = "hidden"
name = "hidden"
description = "not public"
tags = ["t"]
public = false
[[agent.card.skills]]
id = "members"
name = "members"
description = "for those who are known"
tags = ["t"]
requires_auth = true
[[agent.card.skills]]
id = "mcp__user_notes"
name = "notes"
description = "of one user"
tags = ["t"]
[[agent.card.skills]]
id = "mcp__org_wiki"
name = "wiki"
description = "of one organisation"
tags = ["t"]
"""


@check
def private_skills_are_in_the_extended_card_only(world):
    made = {}
    with running(
        world, '[auth]\naccept = ["api_key"]\n', agents=SKILLS, prepare=lambda server: made.update(server.key())
    ) as server:
        public = card_of(server)
        equal('public skills', [skill['id'] for skill in public['skills']], ['all'])
        old = server.call('GET', '/.well-known/agent.json').json
        equal('public skills in the old form', [skill['id'] for skill in old['skills']], ['all'])
        holds(public['capabilities'].get('extendedAgentCard'), 'the card does not offer the extended one')
        extended = card_of(server, '/extendedAgentCard', Authorization=f'Bearer {made["key"]}')
        shown = [skill['id'] for skill in extended['skills']]
        holds({'all', 'hidden', 'members'} <= set(shown), f'extended skills are {shown}')
        refused = server.call('GET', '/extendedAgentCard', {'A2A-Version': '1.0'})
        equal('the extended card for nobody', refused.status, 401)


@check
def the_card_says_what_the_door_asks_for(world):
    jwt = '[auth]\naccept = ["jwt"]\n[auth.jwt]\nissuer = "https://issuer.test"\naudience = "urn:test:agent"\n'
    oauth = jwt + '[auth.jwt.oauth]\ntoken_url = "https://issuer.test/token"\ndevice_url = "https://issuer.test/dev"\n'
    legacy = '[auth]\naccept = ["legacy_key"]\n[auth.legacy_key]\nsecret = "env:KEY"\n'
    native = '[auth]\naccept = ["jwt"]\n[auth.jwt]\nsecret = "env:KEY"\n'
    for what, config, kinds in (
        ('API keys', '[auth]\naccept = ["api_key"]\n', {'apiKeySecurityScheme', 'httpAuthSecurityScheme'}),
        ('a legacy key', legacy, {'httpAuthSecurityScheme'}),
        ('a shared secret', native, {'httpAuthSecurityScheme'}),
        ('discovery', jwt, {'openIdConnectSecurityScheme'}),
        ('OAuth', oauth, {'oauth2SecurityScheme'}),
    ):
        with running(world, config, env={'KEY': 'test-secret-of-the-card'}) as server:
            card = card_of(server)
            schemes = card.get('securitySchemes', {})
            got = {kind for scheme in schemes.values() for kind in scheme}
            holds(got and got <= kinds, f'{what}: the card has {schemes}')
            holds(card.get('securityRequirements'), f'{what}: no securityRequirements')
            old = server.call('GET', '/.well-known/agent.json').json
            holds(old.get('securitySchemes') and old.get('security'), f'{what}: the card of 0.3 has none')
    with running(world, '[auth]\naccept = []\n', agents=AGENTS) as server:
        card = card_of(server)
        holds(not card.get('securityRequirements'), 'an open agent asks for credentials')


@check
def extended_cards_are_for_callers_and_signed(world):
    made = {}
    auth = '[auth]\naccept = ["api_key"]\n'
    key = tokens.Key('card')

    def prepare(server):
        made.update(server.key())
        server.given('card.pem', key.pem())

    config = f'[server.signing]\nkeys = ["file:given/card.pem"]\n{auth}'
    with running(world, config, agents=SKILLS, prepare=prepare) as server:
        extended = card_of(server, '/extendedAgentCard', Authorization=f'Bearer {made["key"]}')
        verified(extended, key_set(server), 'the extended card')


class Host(Server):
    """Serves one card."""

    card = None

    def answer(self, path, body):
        return (200, self.card) if path == WELL_KNOWN else (404, {})


@check
def a_card_may_be_vouched_for_by_an_authority(world):
    """`x5c`: the certificate must be of the authority, and for the host that the card came from."""
    made, server = world.certificates, world.server('')
    with Host() as host:
        for pair, wanted in (('test-server', True), ('card', False), ('test-selfsigned', False), ('late', False)):
            cert, key = made.pair(pair)
            der = subprocess.run(['openssl', 'x509', '-in', cert, '-outform', 'DER'], capture_output=True, check=True)
            header = {'alg': 'ES256', 'kid': 'c', 'typ': 'JOSE', 'x5c': [base64.b64encode(der.stdout).decode()]}
            host.card = python_signs_with(copy.deepcopy(CARD), key.read_text(), header)
            address = host.url.replace('127.0.0.1', 'localhost')
            done = server.sabir('card', 'verify', address, '--ca', made.ca, '-o', 'json')
            said = f'{pair}: exit {done.returncode}: {done.stdout[-300:]} {done.stderr[-300:]}'
            holds((done.returncode == 0) == wanted, said)
