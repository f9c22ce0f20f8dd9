"""Logging in at an OpenID provider and showing certificates to an agent that nobody here wrote.

The provider is `oidc-provider`, the authority is made by OpenSSL, the agents are of the official Python SDK; all of
them are started by `conformance/servers`.
"""

import re
import subprocess

from agents import SERVERS
from harness import contains, equal, holds, lacks
from registry import ALL, requirement

PERSON, MACHINE = 'test-person', 'test-machine'


def by_device(case, flow, *person):
    """Starts a login, lets somebody answer on the pages of the provider, and returns the login after its end."""
    run = case.start('auth', 'login', '--flow', flow, '--client-id', PERSON, '--scope', 'openid', '-a', case.ref)
    code = re.search(r'User code: (\S+)', run.line('User code: ', 'err')).group(1)
    url = re.search(r'Verification URL: (\S+)', run.line('Verification URL: ', 'err')).group(1)
    done = subprocess.run(
        [SERVERS / 'oidc', 'approve', url, '--code', code, *person], capture_output=True, text=True, timeout=60
    )
    equal(done.returncode, 0, f'the person at the provider: {done.stdout} {done.stderr}')
    return run.wait(60)


def served(case):
    """The agent lets us in, over every binding."""
    for binding in ALL:
        run = case.run('send', 'echo hi', '-a', case.ref, '--transport', binding, '-o', 'json').exits(0)
        equal(run.json['task']['status']['state'], 'TASK_STATE_COMPLETED', f'state over {binding}')


@requirement('A2ACLI_AUTH_005', 'A2ACLI_AUTH_007', agents=('oauth-device',))
def a_device_is_approved_at_a_real_provider(case):
    case.run('send', 'echo hi', '-a', case.ref, '-o', 'json').fails('A2ACLI_ERR_CREDENTIALS_MISSING', 4)
    by_device(case, 'device-code').exits(0)
    served(case)


@requirement('A2ACLI_AUTH_005', agents=('oauth-device',))
def a_device_is_denied_at_a_real_provider(case):
    run = by_device(case, 'device-code', '--deny').exits(4)
    contains(run.err, 'A2ACLI_ERR_AUTH_FAILED', 'stderr')
    case.run('send', 'echo hi', '-a', case.ref, '-o', 'json').fails('A2ACLI_ERR_CREDENTIALS_MISSING', 4)


@requirement('A2ACLI_AUTH_006', agents=('oauth-client',))
def client_credentials_of_a_real_provider(case):
    for client in (MACHINE, f'{MACHINE}-post'):
        environment = {'A2ACLI_CLIENT_ID': client, 'A2ACLI_CLIENT_SECRET': f'{client}-secret'}
        base = ('auth', 'login', '--flow', 'client-credentials', '--scope', 'agent', '-a', case.ref)
        run = case.run(*base, env=environment).exits(0)
        lacks(run.out + run.err, f'{client}-secret', 'the output')
        served(case)
        case.run('auth', 'logout', '-a', case.ref).exits(0)


@requirement('A2ACLI_AUTH_010', agents=('oidc',))
def openid_connect_at_a_real_provider(case):
    by_device(case, 'oidc').exits(0)
    served(case)
    run = case.run('auth', 'status', '-a', case.ref).exits(0)
    holds(run.out.strip(), 'auth status')


@requirement('A2ACLI_AUTH_009', agents=('mtls',), bindings=ALL)
def a_certificate_of_an_openssl_authority(case):
    about = case.world.agent(case.agent).about
    made = case.task('echo hi', *about['arguments'])
    equal(made['status']['state'], 'TASK_STATE_COMPLETED', 'state')
    events = case.call('send', 'slow 1', '--stream', '-o', 'json', *about['arguments']).exits(0).jsonl
    holds(len(events) > 1, 'events')
    certificates = about['certificates']
    trust = ('--ca-cert', certificates['ca'])
    case.call('send', 'echo hi', '-o', 'json', *trust).fails('A2ACLI_ERR_CREDENTIALS_MISSING', 4)
    stranger = certificates['stranger']
    run = case.call(
        'send', 'echo hi', '-o', 'json', *trust, '--client-cert', stranger['cert'], '--client-key', stranger['key']
    )
    holds(run.code in (3, 4), f'a certificate of a stranger: {run}')
