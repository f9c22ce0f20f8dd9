"""Clients that nobody here wrote, with credentials of their own making; and our own client and command beside them."""

import json
import os
import subprocess

import k1
from bindings import bearer
from catalog import AGENT_NATIVE, XPR
from registry import check, equal, holds
from sdks import HERE
from server import until
from stage import HTTP, WHOAMI, account, running, xpr

SECRET = 'test-secret-of-the-clients-of-others'


def node(package, script, *words, env=None):
    """Runs a script beside a package, and reads the line it ends with."""
    kept = {k: v for k, v in os.environ.items() if not k.startswith('A2A_') and not k.lower().endswith('_proxy')}
    done = subprocess.run(
        [*package.script(HERE / script), *words],
        env={**kept, **(env or {})},
        capture_output=True,
        text=True,
        timeout=60,
    )
    holds(done.returncode == 0 and done.stdout.strip(), f'{script}: {done.stderr[-400:]}')
    return json.loads(done.stdout.splitlines()[-1])


@check
def the_sdk_of_xpr_is_served_when_it_signs(world):
    with xpr(world) as (server, chain):
        alice = account(chain, 'alice')
        got = node(XPR, 'xpr_peer.mjs', server.url, 'alice', env={'PEER_KEY': alice.key.private})
        equal('what it got', got, {'state': 'completed', 'owner': 'alice', 'metadata': {'xpr:jobId': 42}, 'read': True})
        got = node(XPR, 'xpr_peer.mjs', server.url, 'alice', env={'PEER_KEY': k1.Key.named('bob').wif})
        equal('with the key of another', got.get('code'), -32000)
        holds('Signature verification failed' in got.get('message', ''), f'it is told {got}')


@check
def the_client_of_agent_native_is_served_when_it_signs(world):
    with running(world, '', env={'A2A_SECRET': SECRET}) as server:
        got = node(
            AGENT_NATIVE,
            'native_peer.mjs',
            server.url,
            'call',
            'ana@example.org',
            'example.org',
            env={'A2A_SECRET': SECRET},
        )
        holds('hello' in json.dumps(got.get('result', '')), f'it got {got}')
        got = node(
            AGENT_NATIVE,
            'native_peer.mjs',
            server.url,
            'call',
            'ana@example.org',
            'example.org',
            env={'A2A_SECRET': 'a secret of somebody else'},
        )
        holds('error' in got, f'with another secret it got {got}')


@check
def the_client_of_agent_native_is_served_with_the_secret_of_its_organisation(world):
    config = '[auth]\naccept = ["jwt"]\n[auth.jwt]\n'
    with running(world, config, env={'ORG': SECRET}) as server:
        server.command('org', 'add', 'example.org', '--secret', 'env:ORG')
        words = (server.url, 'call', 'ana@example.org', 'example.org')

        def hello():
            got = node(AGENT_NATIVE, 'native_peer.mjs', *words, env={'PEER_ORG_SECRET': SECRET})
            return 'hello' in json.dumps(got.get('result', ''))

        # A server at work hears of a new organisation within a second.
        until(hello, 'served', 5)


@check
def an_action_needs_an_identity_for_this_audience(world):
    """The client names the address it calls as the audience."""
    with running(world, '', env={'A2A_SECRET': SECRET}) as server:
        got = node(
            AGENT_NATIVE,
            'native_peer.mjs',
            server.url,
            'action',
            'ana@example.org',
            'example.org',
            env={'A2A_SECRET': SECRET},
        )
        holds('result' in got and got['result'].get('status') == 'completed', f'it got {got}')


# --- Our own client ---------------------------------------------------------------------------------------------------


def ours(server, *words, **env):
    return server.sabir(*words, '-o', 'json', env=env)


@check
def our_command_signs_as_an_account(world):
    with xpr(world) as (server, chain):
        alice = account(chain, 'alice')
        for form in (alice.key.private, alice.key.wif):
            done = ours(server, 'send', 'hello', '-a', server.url, '--xpr-account', 'alice', XPR_PRIVATE_KEY=form)
            equal(f'exit: {done.stdout[-300:]} {done.stderr[-300:]}', done.returncode, 0)
            holds('COMPLETED' in done.stdout, done.stdout[-300:])
        done = ours(
            server,
            'send',
            'hello',
            '-a',
            server.url,
            '--xpr-account',
            'alice',
            '--verbose',
            '--debug',
            '--curl',
            XPR_PRIVATE_KEY=k1.Key.named('bob').private,
        )
        equal(f'exit with another key: {done.stdout[-200:]}', done.returncode, 4)
        holds(k1.Key.named('bob').private not in done.stdout + done.stderr, 'the key is in the output')


@check
def our_command_lists_the_tasks_of_a_job(world):
    with xpr(world) as (server, chain):
        alice = account(chain, 'alice')
        as_alice = ('-a', server.url, '--xpr-account', 'alice')
        key = {'XPR_PRIVATE_KEY': alice.key.private}
        ids = {}
        for job in ('42', '43'):
            done = ours(server, 'send', 'hello', *as_alice, '--job-id', job, **key)
            equal(f'exit: {done.stdout[-300:]} {done.stderr[-300:]}', done.returncode, 0)
            ids[job] = json.loads(done.stdout)
        done = ours(server, 'task', 'list', '--job', '42', *as_alice, **key)
        equal(f'exit: {done.stdout[-300:]} {done.stderr[-300:]}', done.returncode, 0)
        told = json.loads(done.stdout)
        equal('tasks', len(told['tasks'] if isinstance(told, dict) else told), 1)


@check
def our_command_uses_keys_over_every_binding(world):
    made = {}
    config = '[auth]\naccept = ["api_key"]\n'
    with running(world, config, agents=WHOAMI, prepare=lambda s: made.update(s.key())) as server:
        for binding in ('JSONRPC', 'HTTP+JSON', 'GRPC'):
            done = ours(server, 'send', 'hello', '-a', server.url, '--transport', binding, A2ACLI_API_KEY=made['key'])
            equal(f'{binding}: exit: {done.stdout[-300:]} {done.stderr[-300:]}', done.returncode, 0)
            holds(f'caller=key:{made["id"]}' in done.stdout, f'{binding}: {done.stdout[-300:]}')
        done = ours(server, 'send', 'hello', '-a', server.url, A2ACLI_API_KEY='sabir_' + '0' * 32)
        equal(f'exit with a wrong key: {done.stdout[-200:]}', done.returncode, 4)
        holds(HTTP.send(server, bearer(made['key'])).served, 'by hand')
