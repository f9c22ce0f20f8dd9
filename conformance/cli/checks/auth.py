"""Credentials given by hand: where they go, where they never go, and that nobody reads them afterwards."""

import base64
import json
import urllib.parse

import pki
from harness import contains, equal, holds, lacks
from registry import ALL, requirement
from stub import CARD_PATH, Http

TOKEN, KEY, SVC = 'tok-5e7d0c1b9a88', 'key/9f+3 c2=4411', 'svc-71aa02ccd3f0'
BEARER = {'staff': {'httpAuthSecurityScheme': {'scheme': 'Bearer'}}}


def key_in(location, name='X-Ledger-Key'):
    return {'robot': {'apiKeySecurityScheme': {'location': location, 'name': name}}}


def operations(case, url, *more, **options):
    """A few operations of different shapes; every one of them must carry the credential."""
    for arguments in (('send', 'hi'), ('send', 'hi', '--stream'), ('task', 'get', 't-1'), ('task', 'list')):
        case.run(*arguments, '-a', url, '-o', 'json', *more, **options).exits(0)


@requirement('A2ACLI_AUTH_001', bindings=ALL)
def a_bearer_token_travels_as_authorization(case):
    oauth = {
        'staff': {
            'oauth2SecurityScheme': {'flows': {'clientCredentials': {'tokenUrl': 'https://x.example/t', 'scopes': {}}}}
        }
    }
    oidc = {
        'staff': {
            'openIdConnectSecurityScheme': {'openIdConnectUrl': 'https://x.example/.well-known/openid-configuration'}
        }
    }
    for schemes in (BEARER, oauth, oidc):
        server = case.stub(schemes=schemes)
        operations(case, server.url, '--bearer', TOKEN)
        equal({call.headers.get('authorization') for call in server.calls}, {f'Bearer {TOKEN}'}, 'authorization')
        for call in server.calls:
            lacks(json.dumps(call.params), TOKEN, 'the payload')


@requirement('A2ACLI_AUTH_001', bindings=('JSONRPC', 'HTTP+JSON'))
def an_api_key_goes_where_the_card_says(case):
    server = case.stub(schemes=key_in('header'))
    operations(case, server.url, '--api-key', KEY)
    equal({call.headers.get('x-ledger-key') for call in server.calls}, {KEY}, 'the header')
    server = case.stub(schemes=key_in('query', 'ledger_key'))
    operations(case, server.url, '--api-key', KEY)
    asked = [request for request in server.requests if request.path != CARD_PATH]
    equal({request.query.get('ledger_key') for request in asked}, {KEY}, 'the query')
    server = case.stub(schemes=key_in('cookie', 'ledger'))
    operations(case, server.url, '--api-key', 'plain-key-4411')
    equal({call.headers.get('cookie') for call in server.calls}, {'ledger=plain-key-4411'}, 'the cookie')
    for call in server.calls:
        holds('authorization' not in call.headers, f'an api key is no bearer token: {call.headers}')


@requirement('A2ACLI_AUTH_001', bindings=('GRPC',))
def an_api_key_is_metadata_over_grpc(case):
    server = case.stub(schemes=key_in('header'))
    operations(case, server.url, '--api-key', KEY)
    equal({call.headers.get('x-ledger-key') for call in server.calls}, {KEY}, 'the metadata')


@requirement('A2ACLI_AUTH_001', bindings=ALL)
def the_first_alternative_that_can_be_met_is_taken(case):
    schemes = {**BEARER, **key_in('header')}
    both = case.stub(schemes=schemes, requires=[['staff', 'robot'], ['robot']])
    case.run('send', 'hi', '-a', both.url, '-o', 'json', '--api-key', KEY).exits(0)
    headers = both.calls[0].headers
    equal((headers.get('x-ledger-key'), headers.get('authorization')), (KEY, None), 'the key alone')
    both.calls.clear()
    case.run('send', 'hi', '-a', both.url, '-o', 'json', '--api-key', KEY, '--bearer', TOKEN).exits(0)
    headers = both.calls[0].headers
    equal((headers.get('x-ledger-key'), headers.get('authorization')), (KEY, f'Bearer {TOKEN}'), 'both together')
    both.calls.clear()
    case.run('send', 'hi', '-a', both.url, '-o', 'json', '--bearer', TOKEN).fails('A2ACLI_ERR_CREDENTIALS_MISSING', 4)
    equal(both.calls, [], 'requests')
    free = case.stub(schemes=BEARER, requires=[[], ['staff']])
    case.run('send', 'hi', '-a', free.url, '-o', 'json').exits(0)


@requirement('A2ACLI_AUTH_001', bindings=ALL)
def a_card_without_schemes(case):
    server = case.stub()
    run = case.run('send', 'hi', '-a', server.url, '-o', 'json', '--bearer', TOKEN).exits(0)
    equal(server.calls[0].headers.get('authorization'), f'Bearer {TOKEN}', 'an undeclared bearer token is sent')
    holds(run.err.strip(), 'with a note')
    server.calls.clear()
    run = case.run('send', 'hi', '-a', server.url, '-o', 'json', '--api-key', KEY)
    holds(run.code in (2, 4), f'an API key has no place: {run}')
    equal(server.calls, [], 'requests')


@requirement('A2ACLI_AUTH_001', bindings=ALL)
def service_parameters_are_separate(case):
    server = case.stub()
    case.run(
        'send', 'hi', '-a', server.url, '-o', 'json', '--svc-param', 'X-Trace-Id:a:b:c', '--svc-param', 'x-tier: gold'
    ).exits(0)
    headers = server.calls[0].headers
    equal((headers.get('x-trace-id'), headers.get('x-tier', '').strip()), ('a:b:c', 'gold'), 'parameters')
    lacks(json.dumps(server.calls[0].params), 'gold', 'the payload')
    help_text = case.run('send', '--help').exits(0).out
    place = help_text.index('--svc-param')
    described = help_text[place : place + 400].split('\n      --')[0].split('\n  -')[0].lower()
    for word in ('authenticat', 'authoriz', 'authoris', 'credential', 'token', 'api key'):
        lacks(described, word, 'the help of --svc-param')
    for bad in ('no-colon', 'A2A-Version:0.9'):
        case.run('send', 'hi', '-a', server.url, '--svc-param', bad, '-o', 'json').fails('A2ACLI_ERR_USAGE', 2)


@requirement('A2ACLI_AUTH_002')
def every_credential_has_a_variable_and_help_says_why(case):
    texts = {
        'send': ('A2ACLI_BEARER', 'A2ACLI_API_KEY'),
        'auth login': ('A2ACLI_CLIENT_SECRET',),
        'task push-config create': ('A2ACLI_PUSH_TOKEN', 'A2ACLI_PUSH_CREDENTIALS'),
    }
    for command, names in texts.items():
        text = case.run(*command.split(), '--help').exits(0).out
        for name in names:
            contains(text, name, f'the help of {command}')
    text = ' '.join(case.run('send', '--help').out.split()).lower()
    contains(text, 'process', 'the help says that the process table shows a flag')
    contains(text, 'history', 'the help says that the history keeps a flag')
    filled = case.run('send', '--help', env={'A2ACLI_BEARER': TOKEN, 'A2ACLI_API_KEY': KEY}).exits(0)
    lacks(filled.out + filled.err, TOKEN, 'the help')
    lacks(filled.out + filled.err, KEY, 'the help')


@requirement('A2ACLI_AUTH_002', bindings=ALL)
def variables_work_and_a_flag_wins(case):
    server = case.stub(schemes=BEARER)
    used = lambda: server.calls[-1].headers.get('authorization')  # noqa: E731
    case.run('task', 'list', '-a', server.url, '-o', 'json', env={'A2ACLI_BEARER': 'from-variable'}).exits(0)
    equal(used(), 'Bearer from-variable', 'the variable')
    case.run('task', 'list', '-a', server.url, '-o', 'json', '--bearer', 'from-flag', env={'A2ACLI_BEARER': 'x'}).exits(
        0
    )
    equal(used(), 'Bearer from-flag', 'the flag')
    case.file('.env', 'A2ACLI_BEARER=from-file\n').chmod(0o600)
    case.run('task', 'list', '-a', server.url, '-o', 'json').exits(0)
    equal(used(), 'Bearer from-file', 'the file')
    keyed = case.stub(schemes=key_in('header'))
    case.run('task', 'list', '-a', keyed.url, '-o', 'json', env={'A2ACLI_API_KEY': 'key-from-variable'}).exits(0)
    equal(keyed.calls[-1].headers.get('x-ledger-key'), 'key-from-variable', 'the key')


@requirement('A2ACLI_AUTH_003', bindings=ALL)
def an_unverified_connection_is_never_silent(case):
    server = case.stub(tls=pki.Tls(pki.Authority(case.scratch / 'pki')), schemes=BEARER)
    base = ('send', 'hi', '-a', server.url, '--bearer', TOKEN)
    case.run(*base, '-o', 'json').fails('A2ACLI_ERR_UNREACHABLE', 3)
    equal((server.calls, server.requests), ([], []), 'nothing arrives where the certificate is not trusted')
    for form in ((), ('-o', 'json')):
        run = case.run(*base, '--insecure', *form).exits(0)
        warnings = '\n'.join(line for line in run.err.splitlines() if line.lower().startswith('warning')).lower()
        holds(warnings, f'no warning: {run}')
        holds('credential' in warnings, f'the warning does not mention the credential: {run}')
    run = case.run(*base, '-o', 'json', env={'A2ACLI_INSECURE': '1'}).exits(0)
    contains(run.err.lower(), 'warning', 'stderr with the variable')
    run = case.run('card', 'get', '-a', server.url, '--insecure').exits(0)
    contains(run.err.lower(), 'warning', 'stderr without a credential')


@requirement('A2ACLI_AUTH_003')
def a_local_file_that_drops_verification_is_named(case):
    server = case.stub(tls=pki.Tls(pki.Authority(case.scratch / 'pki')))
    case.file('.env', 'A2ACLI_INSECURE=1\n')
    run = case.run('card', 'get', '-a', server.url, '-o', 'json').exits(0)
    contains(run.err, str(case.cwd / '.env'), 'the warning names the file')
    # Verification by a given authority needs no warning.
    (case.cwd / '.env').unlink()
    run = case.run('card', 'get', '-a', server.url, '--ca-cert', server.tls.authority.ca, '-o', 'json').exits(0)
    lacks(run.err.lower(), 'unverified', 'stderr with --ca-cert')


def forms(secret):
    return {
        secret,
        urllib.parse.quote(secret),
        urllib.parse.quote(secret, safe=''),
        urllib.parse.quote_plus(secret),
        base64.b64encode(secret.encode()).decode(),
    }


@requirement('A2ACLI_AUTH_004', bindings=ALL)
def secrets_are_never_shown(case):
    schemes = {**BEARER, **(key_in('header') if case.binding == 'GRPC' else key_in('query', 'ledger_key'))}
    server = case.stub(schemes=schemes, requires=[['staff', 'robot']])

    def echo(call):
        # An agent that quotes what it was sent: the message of an error must not give it away either.
        raise Http(500, f'you said {TOKEN} and {KEY}'.encode(), grpc='INTERNAL')

    base = (
        '-a',
        server.url,
        '--bearer',
        TOKEN,
        '--api-key',
        KEY,
        '--svc-param',
        f'X-Custom:{SVC}',
        '--debug',
        '--verbose',
    )
    runs = [
        case.run('send', 'hi', *base),
        case.run('send', 'hi', *base, '-o', 'json'),
        case.run('task', 'get', 'none', *base, '-o', 'json'),
        case.run('send', 'hi', '--stream', *base),
    ]
    server.on['GetTask'] = echo
    runs.append(case.run('task', 'get', 't-1', *base, '-o', 'json'))
    runs.append(case.run('config', 'show', *base))
    path = case.file('card.json', server.card)
    server.close()
    runs.append(case.run('send', 'hi', *base[2:], '-a', path, '-o', 'json'))
    holds(runs[0].code == 0 and runs[-1].code == 3, f'codes: {[run.code for run in runs]}')
    for run in runs:
        for secret in (TOKEN, KEY, SVC):
            for form in forms(secret):
                holds(form not in run.err, f'{form!r} on stderr of {run}')
                holds(form not in run.out, f'{form!r} on stdout of {run}')
    contains(runs[0].err, '[redacted]', 'stderr of --debug')


@requirement('A2ACLI_AUTH_004', bindings=ALL)
def push_credentials_are_not_shown_in_diagnostics(case):
    server = case.stub()
    base = (
        'task',
        'push-config',
        'create',
        't-1',
        '--url',
        'https://hook.example/',
        '--push-token',
        TOKEN,
        '--push-scheme',
        'Bearer',
        '--push-credentials',
        SVC,
        '-a',
        server.url,
        '--debug',
        '--verbose',
    )
    text, value = case.run(*base).exits(0), case.run(*base, '-o', 'json').exits(0)
    for secret in (TOKEN, SVC):
        lacks(text.out + text.err + value.err, secret, 'diagnostics and text')
    equal(value.json['token'], TOKEN, 'json passes the answer unchanged')
    equal(server.of('CreateTaskPushNotificationConfig')[0].params['authentication']['credentials'], SVC, 'the wire')


@requirement('A2ACLI_AUTH_008', bindings=ALL)
def card_endpoints_get_no_credential(case):
    tls = pki.Tls(pki.Authority(case.scratch / 'pki'), clients='optional')
    certificate, key = tls.authority.client()
    server = case.stub(schemes={**BEARER, 'cert': {'mtlsSecurityScheme': {}}}, requires=[['staff'], ['cert']], tls=tls)
    catalog = {
        'specVersion': '1.0',
        'entries': [
            {
                'identifier': 'urn:one',
                'displayName': 'one',
                'mediaType': 'application/a2a-agent-card+json',
                'url': server.url + CARD_PATH,
            }
        ],
    }
    server.files['/catalog.json'] = catalog
    given = (
        '--bearer',
        TOKEN,
        '--api-key',
        KEY,
        '--svc-param',
        f'Authorization:Basic {SVC}',
        '--svc-param',
        f'Cookie:session={SVC}',
        '--svc-param',
        f'X-Api-Key:{SVC}',
        '--client-cert',
        certificate,
        '--client-key',
        key,
        '--ca-cert',
        tls.authority.ca,
        '-o',
        'json',
    )
    for reference in (server.url, server.url + CARD_PATH, f'{server.url}/catalog.json'):
        case.run('card', 'get', '-a', reference, *given).exits(0)
        case.run('send', 'hi', '-a', reference, *given).exits(0)
    case.run('card', 'get', '-a', server.url, *given[6:], env={'A2ACLI_BEARER': TOKEN, 'A2ACLI_API_KEY': KEY}).exits(0)
    fetched = [
        request for request in server.requests if request.method == 'GET' and not request.path.startswith('/rest')
    ]
    holds(len(fetched) >= 5, f'fetches: {[request.path for request in fetched]}')
    for request in fetched:
        for secret in (TOKEN, KEY, SVC):
            lacks(json.dumps([request.headers, request.query]), secret, f'the request for {request.path}')
        holds('authorization' not in request.headers and 'cookie' not in request.headers, f'{request.headers}')
        equal(request.certificate or None, None, f'the client certificate at {request.path}')
    holds(server.calls, 'the operations were called')


@requirement('A2ACLI_AUTH_008')
def a_redirect_does_not_carry_credentials_away(case):
    thief = case.stub(schemes=BEARER)
    server = case.stub(schemes=BEARER)
    away = Http(307, headers={'Location': f'{thief.url}/rpc'})
    server.files['/rpc'] = away
    run = case.run('send', 'hi', '-a', server.url, '--bearer', TOKEN, '-o', 'json')
    holds(run.code != 0 and run.error['message'], f'a redirect to another origin: {run}')
    equal(len(server.fetches('/rpc')), 1, 'requests that were sent away')
    for request in thief.requests:
        lacks(json.dumps(request.headers), TOKEN, 'headers at the other origin')
