"""`auth login`, and what becomes of the token."""

import json
import stat

from harness import contains, equal, holds, lacks
from issuer import Issuer
from registry import ALL, requirement

SECRETS = ('access-token-secret', 'refresh-token-secret', 'dev-code-secret', 's3cret-client')


def agent(case, issuer, scheme, **more):
    return case.stub(schemes={'staff': getattr(issuer, f'{scheme}_scheme')()}, **more)


def login(case, server, flow, *more, seconds=45, **options):
    return case.run(
        'auth', 'login', '--flow', flow, '--client-id', 'robot', '-a', server.url, *more, seconds=seconds, **options
    )


def no_secret(run):
    for secret in SECRETS:
        lacks(run.out + run.err, secret, str(run))


@requirement('A2ACLI_AUTH_005')
def device_code_waits_and_slows_down_as_told(case):
    issuer = case.closing(Issuer(answers=('authorization_pending', 'slow_down', 'ok')))
    server = agent(case, issuer, 'device')
    run = login(case, server, 'device-code', '--scope', 'read', '--debug').exits(0)
    contains(run.err, 'WDJB-MJHT', 'the user code')
    contains(run.err, f'{issuer.url}/verify', 'the URL to verify at')
    lacks(run.out, 'WDJB-MJHT', 'stdout')
    no_secret(run)
    equal(len(issuer.polls), 3, 'polls')
    gaps = [later - earlier for earlier, later in zip(issuer.polls, issuer.polls[1:])]
    holds(0.9 <= gaps[0] < 4, f'the interval: {gaps}')
    holds(gaps[1] >= 5.9, f'slow_down adds five seconds: {gaps}')
    kind, form, _ = issuer.grants[0]
    equal((kind, form['client_id'], form['scope']), ('device', 'robot', 'read'), 'the first request')
    case.run('task', 'list', '-a', server.url, '-o', 'json').exits(0)
    equal(server.calls[-1].headers.get('authorization'), f'Bearer {issuer.tokens[0]}', 'the token is used')


@requirement('A2ACLI_AUTH_005')
def device_code_denied_expired_or_out_of_time(case):
    for answer in ('access_denied', 'expired_token'):
        issuer = case.closing(Issuer(answers=('authorization_pending', answer)))
        run = login(case, agent(case, issuer, 'device'), 'device-code', '-o', 'json')
        run.fails('A2ACLI_ERR_AUTH_FAILED', 4)
        no_secret(run)
    issuer = case.closing(Issuer(answers=('authorization_pending',)))
    run = login(case, agent(case, issuer, 'device'), 'device-code', '--timeout', '2500ms', '-o', 'json')
    run.fails('A2ACLI_ERR_TIMEOUT', 5)
    holds(run.seconds < 8, f'it took {run.seconds:.1f} s')
    equal([name for name in case.tree() if 'token' in name], [], 'stored tokens')


@requirement('A2ACLI_AUTH_005')
def device_code_is_found_by_the_card(case):
    issuer = case.closing(Issuer())
    server = agent(case, issuer, 'device')
    run = case.run('auth', 'login', '--client-id', 'robot', '-a', server.url, '-o', 'json').exits(0)
    holds(isinstance(run.json, dict), 'a document')
    contains(json.dumps(run.json), 'staff', 'the scheme')
    no_secret(run)
    two = case.stub(schemes={'staff': issuer.device_scheme(), 'other': issuer.device_scheme()})
    error = case.run('auth', 'login', '--client-id', 'robot', '-a', two.url, '-o', 'json').fails('A2ACLI_ERR_USAGE', 2)
    contains(f'{error["message"]} {error.get("hint")}', 'other', 'the candidates')
    case.run('auth', 'login', '--scheme', 'other', '--client-id', 'robot', '-a', two.url, '-o', 'json').exits(0)


@requirement('A2ACLI_AUTH_006')
def client_credentials_by_basic_and_by_form(case):
    for basic in (True, False):
        issuer = case.closing(Issuer(basic=basic))
        server = agent(case, issuer, 'client')
        run = login(
            case, server, 'client-credentials', '--client-secret', 's3cret-client-9931', '--scope', 'read', '--debug'
        )
        run.exits(0)
        no_secret(run)
        granted = [form for kind, form, _ in issuer.grants if kind == 'client_credentials'][-1]
        equal(granted.get('scope'), 'read', 'scope')
        case.run('task', 'list', '-a', server.url, '-o', 'json').exits(0)
        equal(server.calls[-1].headers.get('authorization'), f'Bearer {issuer.tokens[0]}', f'the token, basic={basic}')


@requirement('A2ACLI_AUTH_006')
def a_wrong_client_is_refused(case):
    issuer = case.closing(Issuer())
    server = agent(case, issuer, 'client')
    environment = {'A2ACLI_CLIENT_ID': 'robot', 'A2ACLI_CLIENT_SECRET': 'not-the-secret'}
    run = case.run('auth', 'login', '-a', server.url, '-o', 'json', env=environment)
    run.fails('A2ACLI_ERR_AUTH_FAILED', 4)
    lacks(run.out + run.err, 'not-the-secret', 'the output')
    environment['A2ACLI_CLIENT_SECRET'] = 's3cret-client-9931'
    case.run('auth', 'login', '-a', server.url, '-o', 'json', env=environment).exits(0)


def logged_in(case, **more):
    issuer = case.closing(Issuer(**more))
    server = agent(case, issuer, 'client')
    login(case, server, 'client-credentials', env={'A2ACLI_CLIENT_SECRET': 's3cret-client-9931'}).exits(0)
    return issuer, server


@requirement('A2ACLI_AUTH_007', bindings=ALL)
def a_token_is_attached_to_its_agent_only(case):
    issuer, server = logged_in(case)
    for arguments in (('send', 'hi'), ('task', 'list')):
        case.run(*arguments, '-a', server.url, '-o', 'json').exits(0)
    equal({call.headers.get('authorization') for call in server.calls}, {f'Bearer {issuer.tokens[0]}'}, 'the agent')
    other = agent(case, issuer, 'client')
    case.run('send', 'hi', '-a', other.url, '-o', 'json').fails('A2ACLI_ERR_CREDENTIALS_MISSING', 4)
    equal(other.calls, [], 'requests to another agent')
    for request in other.requests + [r for r in server.requests if r.path.startswith('/.well-known')]:
        lacks(json.dumps(request.headers), 'access-token-secret', 'headers')
    server.calls.clear()
    case.run('task', 'list', '-a', server.url, '-o', 'json', '--bearer', 'by-hand').exits(0)
    equal(server.calls[-1].headers.get('authorization'), 'Bearer by-hand', 'an explicit flag beats a stored token')


@requirement('A2ACLI_AUTH_007')
def a_token_is_refreshed_in_time(case):
    issuer, server = logged_in(case, lifetime=30)
    case.run('task', 'list', '-a', server.url, '-o', 'json').exits(0)
    equal(server.calls[-1].headers.get('authorization'), f'Bearer {issuer.tokens[-1]}', 'the token')
    holds(any(kind == 'refresh_token' for kind, _, _ in issuer.grants), 'it was refreshed a minute before its end')
    issuer.refresh = False
    run = case.run('task', 'list', '-a', server.url, '-o', 'json')
    error = run.fails('A2ACLI_ERR_AUTH_FAILED', 4)
    contains(error['hint'], 'auth login', 'the hint')
    no_secret(run)


@requirement('A2ACLI_AUTH_007', 'A2ACLI_CONFIG_001')
def a_token_is_kept_where_only_its_owner_reads(case):
    issuer, server = logged_in(case)
    holding = [path for path in case.home.rglob('*') if path.is_file() and b'access-token-secret' in path.read_bytes()]
    equal(len(holding), 1, 'files with the token')
    path = holding[0]
    contains(str(path), '/.config/', 'a conventional path')
    equal(stat.S_IMODE(path.stat().st_mode), 0o600, 'mode of the file')
    equal(stat.S_IMODE(path.parent.stat().st_mode), 0o700, 'mode of its directory')
    run = case.run('auth', 'status', '-a', server.url).exits(0)
    contains(run.out, 'staff', 'auth status')
    no_secret(run)
    no_secret(case.run('config', 'show').exits(0))
    case.run('auth', 'logout', '-a', server.url).exits(0)
    holds(not path.exists(), 'auth logout removes the token')
    case.run('send', 'hi', '-a', server.url, '-o', 'json').fails('A2ACLI_ERR_CREDENTIALS_MISSING', 4)
    equal(len(issuer.tokens), 1, 'tokens granted')
