"""OpenID Connect, and authorisation in the middle of a task."""

import time

from cryptography.hazmat.primitives.asymmetric import ec

import grammar
from harness import contains, equal, holds, lacks
from issuer import Issuer
from registry import ALL, LIVE, requirement
from stub import task

WAITING, WORKING, DONE = 'TASK_STATE_AUTH_REQUIRED', 'TASK_STATE_WORKING', 'TASK_STATE_COMPLETED'


def login(case, issuer, *more):
    server = case.stub(schemes={'staff': issuer.oidc_scheme()})
    run = case.run('auth', 'login', '--client-id', 'robot', '-a', server.url, *more)
    for secret in ('access-token-secret', 'refresh-token-secret', 'dev-code-secret'):
        lacks(run.out + run.err, secret, str(run))
    return server, run


@requirement('A2ACLI_AUTH_010')
def openid_connect_by_discovery_and_device_code(case):
    issuer = case.closing(Issuer(answers=('authorization_pending', 'ok')))
    server, run = login(case, issuer, '--flow', 'oidc', '--debug')
    run.exits(0)
    contains(run.err, 'WDJB-MJHT', 'the user code')
    holds(issuer.server.fetches('/.well-known/openid-configuration'), 'discovery')
    contains(issuer.scope(), 'openid', 'the scope')
    holds(issuer.server.fetches('/jwks'), 'the key set is read for the id token')
    case.run('task', 'list', '-a', server.url, '-o', 'json').exits(0)
    equal(server.calls[-1].headers.get('authorization'), f'Bearer {issuer.tokens[0]}', 'the access token')


@requirement('A2ACLI_AUTH_010')
def an_id_token_that_is_not_right_is_refused(case):
    hour = 3600
    for what, oidc in (
        ('a foreign signature', {'key': ec.generate_private_key(ec.SECP256R1())}),
        ('another issuer', {'claims': {'iss': 'https://evil.example'}}),
        ('another audience', {'claims': {'aud': 'somebody else'}}),
        ('expired', {'claims': {'exp': int(time.time()) - hour, 'iat': int(time.time()) - 2 * hour}}),
        ('no signature', {'header': {'alg': 'none'}}),
        ('discovery of another issuer', {'discovery': {'issuer': 'https://evil.example'}}),
    ):
        issuer = case.closing(Issuer(oidc=oidc))
        server, run = login(case, issuer, '--flow', 'oidc', '-o', 'json')
        holds(run.code == 4, f'{what} was accepted: {run}')
        equal(run.error['code'], 'A2ACLI_ERR_AUTH_FAILED', what)
        case.run('task', 'list', '-a', server.url, '-o', 'json').fails('A2ACLI_ERR_CREDENTIALS_MISSING', 4)


@requirement('A2ACLI_AUTH_010')
def without_a_device_endpoint_a_terminal_is_needed(case):
    issuer = case.closing(Issuer(device=False))
    _, run = login(case, issuer, '--flow', 'oidc', '-o', 'json', '--timeout', '10s')
    holds(run.code not in (0, 5) and run.error['message'], f'it must be refused at once: {run}')
    holds(issuer.server.fetches('/.well-known/openid-configuration'), 'discovery')
    equal(issuer.tokens, [], 'tokens granted')


@requirement('A2ACLI_AUTH_011', agents=LIVE, bindings=ALL)
def a_paused_task_is_authorised_by_a_reply(case):
    run = case.call('send', 'auth').exits(0)
    shown = grammar.parse(run.out)
    equal(grammar.last(shown, 'State'), WAITING, 'State')
    holds(grammar.last(shown, 'Status message'), 'the message of the agent')
    name = grammar.last(shown, 'Task ID')
    both = run.out + run.err
    contains(both, f'--task-id {name}', 'the way by a reply')
    contains(both, 'task get', 'the way by authorising elsewhere')
    done = case.task('here is my consent', '--task-id', name)
    equal((done['id'], done['status']['state']), (name, DONE), 'after the reply')


@requirement('A2ACLI_AUTH_011', bindings=ALL)
def a_task_authorised_elsewhere_is_rejoined(case):
    state = {'now': WAITING}

    def get(call):
        if state['now'] == WORKING and state.setdefault('reads', 0) >= 2:
            state['now'] = DONE
        state['reads'] = state.get('reads', 0) + (state['now'] == WORKING)
        return task('t-1', state['now'])

    server = case.stub(streaming=False, on={'SendMessage': lambda _: {'task': task('t-1', WAITING)}, 'GetTask': get})
    run = case.run('send', 'hi', '-a', server.url, '-o', 'json').exits(0)
    equal(run.json['task']['status']['state'], WAITING, 'state')
    contains(run.err, 'AUTH_REQUIRED', 'the warning')
    state['now'] = WORKING
    run = case.run('task', 'get', 't-1', '--wait', '--poll-interval', '100ms', '-a', server.url, '-o', 'json').exits(0)
    equal(run.json['status']['state'], DONE, 'after it was authorised elsewhere')
    equal(len(server.sent()), 1, 'messages sent')
