"""Seven variables that peers know: each alone changes what the same configuration does."""

import tokens
from bindings import NOBODY, Signed, bearer
from registry import check, equal, holds
from server import AGENTS
from stage import RPC, WHOAMI, XPR, account, running, said, who, xpr

SECRET = 'test-secret-in-a-variable-of-the-guard'
KEY = 'test-key-in-a-variable-of-the-guard'
AUDIENCE = '[server]\npublic_url = "https://guard.test"\n[auth]\nopen = true\n'


def with_and_without(world, config, name, value, look, **more):
    """What `look` says of a server without the variable, and of one with it."""
    for env in ({}, {name: value}):
        with running(world, config, env={**more.get('env', {}), **env}, agents=more.get('agents', AGENTS)) as server:
            yield look(server)


@check
def a2a_secret_closes_the_door_and_opens_it_to_its_tokens(world):
    token = tokens.shared(SECRET, 'ana@example.org', iss='https://app.test')
    other = tokens.shared('another secret, of another app', 'ana@example.org', iss='https://app.test')

    def look(server):
        return [RPC.send(server, credential).status for credential in (NOBODY, bearer(token), bearer(other))]

    without, given = with_and_without(world, AUDIENCE, 'A2A_SECRET', SECRET, look)
    equal('without it: nobody', without[0], 200)
    equal('with it: nobody, its token, another', given, [401, 200, 401])


@check
def a2a_api_key_closes_the_door_and_opens_it_to_itself(world):
    def look(server):
        return [RPC.send(server, credential).status for credential in (NOBODY, bearer(KEY), bearer(KEY + 'x'))]

    without, given = with_and_without(world, '', 'A2A_API_KEY', KEY, look)
    equal('without it: nobody', without[0], 200)
    equal('with it: nobody, the key, another', given, [401, 200, 401])


@check
def a2a_api_key_is_the_caller_legacy(world):
    with running(world, '', env={'A2A_API_KEY': KEY}, agents=WHOAMI) as server:
        equal('caller', who(server, bearer(KEY))['caller'], 'legacy:key')


@check
def a2a_min_kyc_level_raises_the_minimum(world):
    for env, wanted in (({}, True), ({'A2A_MIN_KYC_LEVEL': '2'}, False)):
        with xpr(world, env=env) as (server, chain):
            alice = account(chain, 'alice', kyc=1, owner='carol')
            chain.kyc('carol', 1)
            outcome = XPR.send(server, alice)
            if wanted:
                holds(outcome.served, f'without it: {outcome}')
            else:
                said(outcome, -32000, 'KYC level 1 below minimum 2')


@check
def a2a_min_trust_score_raises_the_minimum(world):
    for env, wanted in (({}, True), ({'A2A_MIN_TRUST_SCORE': '90'}, False)):
        with xpr(world, env=env) as (server, chain):
            outcome = XPR.send(server, account(chain, 'alice', registered_days=400))
            if wanted:
                holds(outcome.served, f'without it: {outcome}')
            else:
                said(outcome, -32000, 'Trust score 10 below minimum 90')


@check
def a2a_rate_limit_limits_everybody(world):
    def look(server):
        return [RPC.send(server, bearer(KEY)).status for _ in range(4)]

    env = {'A2A_API_KEY': KEY}
    without, given = with_and_without(world, '', 'A2A_RATE_LIMIT', '3', look, env=env)
    equal('without it', without, [200] * 4)
    equal('with 3', given, [200, 200, 200, 429])


@check
def a2a_rate_limit_is_that_of_xpr_too(world):
    for env, count in (({}, 20), ({'A2A_RATE_LIMIT': '2'}, 2)):
        with xpr(world, rate=None, env=env) as (server, chain):
            alice = account(chain, 'alice')
            served = [XPR.send(server, alice).served for _ in range(count)]
            equal(f'served with {env}', served, [True] * count)
            said(XPR.send(server, alice), -32000, f'Rate limit exceeded: {count} requests per minute')


@check
def a2a_tool_mode_reaches_the_agent(world):
    def look(server):
        return who(server, NOBODY).get('mode')

    without, given = with_and_without(world, '', 'A2A_TOOL_MODE', 'readonly', look, agents=WHOAMI)
    equal('without it', without, 'full')
    equal('with it', given, 'readonly')


@check
def a2a_auth_required_false_admits_strangers_and_nothing_else_does(world):
    config = '[auth]\naccept = ["api_key"]\n'
    for value, wanted in ((None, 401), ('false', 200), ('False', 401), ('0', 401), ('true', 401), ('', 401)):
        env = {} if value is None else {'A2A_AUTH_REQUIRED': value}
        with running(world, config, env=env) as server:
            equal(f'nobody, with {value!r}', RPC.send(server, NOBODY).status, wanted)
            wrong = RPC.send(server, bearer('sabir_' + '0' * 32))
            equal(f'a wrong key, with {value!r}', wrong.status, 401)


@check
def variables_are_beaten_by_nothing_in_the_file(world):
    """A variable is set by whoever runs the process, and overrides the file."""
    with xpr(world, 'min_kyc = 1', env={'A2A_MIN_KYC_LEVEL': '2'}) as (server, chain):
        alice = account(chain, 'alice', kyc=1, owner='carol')
        chain.kyc('carol', 1)
        said(XPR.send(server, Signed('alice', alice.key)), -32000, 'KYC level 1 below minimum 2')
