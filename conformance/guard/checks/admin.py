"""Keys, organisations and the audit: commands beside a server that runs, and without one."""

import json
import re
import time

import tokens
from bindings import BINDINGS, NOBODY, Credential, bearer
from registry import check, equal, holds
from schemes import SCHEMES, basic
from server import until
from stage import RPC, WHOAMI, running, who

KEYS = '[auth]\naccept = ["api_key"]\n'
SECRET = 'test-secret-of-an-organisation-of-the-guard'


@check
def a_key_is_made_with_or_without_a_server_and_shown_once(world):
    server = world.server(KEYS)
    first = server.key('--name', 'ana')
    equal('members', set(first) >= {'id', 'key', 'prefix'}, True)
    holds(re.fullmatch(r'sabir_[0-9a-f]{32}', first['key']), f'form of the key: {first["key"][:8]}…')
    holds(first['key'].startswith(first['prefix'].rstrip('.…*')), f'the prefix is {first["prefix"]}')
    with server:
        second = server.key('--name', 'ben')
        for key in (first, second):
            until(lambda key=key: RPC.send(server, bearer(key['key'])).served, 'a new key admitted', 2)
        listed = json.dumps(server.command('key', 'list'))
        holds(first['id'] in listed and second['id'] in listed, f'the list: {listed[:300]}')
        holds(first['key'] not in listed and second['key'] not in listed, 'the list shows a key')


@check
def a_revoked_key_stops_within_a_second(world):
    with running(world, KEYS) as server:
        made = server.key()
        until(lambda: RPC.send(server, bearer(made['key'])).served, 'a new key admitted', 2)
        server.command('key', 'revoke', made['id'])
        revoked = time.monotonic()
        until(lambda: RPC.send(server, bearer(made['key'])).status == 401, 'refused', 1)
        return f'stopped after {time.monotonic() - revoked:.2f} s'


@check
def a_rotated_key_has_a_grace(world):
    with running(world, KEYS, agents=WHOAMI) as server:
        old = server.key('--name', 'ana')
        fresh = server.command('key', 'rotate', old['id'], '--grace', '2s')
        holds(fresh['key'] != old['key'], 'the key is the same')
        until(lambda: RPC.send(server, bearer(fresh['key'])).served, 'the new key', 2)
        holds(RPC.send(server, bearer(old['key'])).served, 'the old key is refused within its grace')
        until(lambda: RPC.send(server, bearer(old['key'])).status == 401, 'the old key ends', 5)
        holds(RPC.send(server, bearer(fresh['key'])).served, 'the new key ended with the old')


@check
def an_organisation_comes_and_goes_while_the_server_runs(world):
    config = '[auth]\naccept = ["jwt"]\n[auth.jwt]\naudience = "https://guard.test"\n'
    env = {'ORG_SECRET': SECRET}
    token = bearer(tokens.shared(SECRET, 'ana@example.org', org_domain='example.org', iss='https://app.test'))
    with running(world, config, env=env) as server:
        equal('before', RPC.send(server, token).status, 401)
        server.command('org', 'add', 'example.org', '--secret', 'env:ORG_SECRET')
        until(lambda: RPC.send(server, token).served, 'admitted', 2)
        listed = json.dumps(server.command('org', 'list'))
        holds('example.org' in listed and SECRET not in listed, f'the list: {listed[:200]}')
        other = tokens.shared(SECRET, 'ana@example.org', org_domain='other.org', iss='https://app.test')
        equal('in the name of another', RPC.send(server, bearer(other)).status, 401)
        server.command('org', 'remove', 'example.org')
        until(lambda: RPC.send(server, token).status == 401, 'refused', 2)


@check
def native_tokens_are_held_to_their_claims(world):
    """Stricter than the peer on purpose: HS256 alone, an expiry, and issuers where they are configured."""
    config = (
        '[auth]\naccept = ["jwt"]\n[auth.jwt]\nsecret = "env:S"\naudience = "https://guard.test"\n'
        'issuers = ["https://app.test"]\n'
    )
    good = {'iss': 'https://app.test', 'aud': 'https://guard.test'}
    with running(world, config, env={'S': SECRET}, agents=WHOAMI) as server:
        holds(RPC.send(server, bearer(tokens.shared(SECRET, 'ana@example.org', **good))).served, 'a good token')
        holds(RPC.send(server, bearer(tokens.shared(SECRET, 'a@b.c', **{**good, 'aud': None}))).served, 'without aud')
        caller = who(server, bearer(tokens.shared(SECRET, 'ana@example.org', **good)))['caller']
        holds(caller.startswith('native:') and 'ana@example.org' in caller, f'caller is {caller}')
        now = int(time.time())
        for what, header, given in (
            ('HS512', {'alg': 'HS512'}, {}),
            ('HS384', {'alg': 'HS384'}, {}),
            ('unknown crit', {'crit': ['x'], 'x': 1}, {}),
            ('no expiry', {}, {'exp': None}),
            ('another issuer', {}, {'iss': 'https://other.test'}),
            ('no issuer', {}, {'iss': None}),
            ('another audience', {}, {'aud': 'https://other.test'}),
            ('an audience with a slash', {}, {'aud': 'https://guard.test/'}),
            ('no subject', {}, {'sub': None}),
            ('an empty subject', {}, {'sub': ''}),
            ('not yet valid', {}, {'nbf': now + 600}),
        ):
            subject = given.pop('sub') if 'sub' in given else 'ana@example.org'
            token = tokens.shared(SECRET, subject, header, **{**good, **given})
            equal(what, RPC.send(server, bearer(token)).status, 401)
        equal('alg none', RPC.send(server, bearer(tokens.unsigned('ana@example.org', **good))).status, 401)
    optional = config + 'expiry = "optional"\n'
    with running(world, optional, env={'S': SECRET}) as server:
        token = tokens.shared(SECRET, 'ana@example.org', **good, exp=None)
        holds(RPC.send(server, bearer(token)).served, 'without an expiry, where that is allowed')


@check
def explain_says_which_rule_decided(world):
    """The same rules that decide about calls: what it says is compared with what is done."""
    with running(world, KEYS) as server:
        reader, every = server.key('--scope', 'read'), server.key()

        def told(caller, operation):
            words = ('explain', '--as', caller, '--agent', 'demo', '--operation', operation)
            done = server.sabir(*words, '--config', server.config, '-o', 'json')
            holds(done.stdout.strip().startswith('{'), f'exit {done.returncode}: {done.stdout} {done.stderr[:300]}')
            value = json.loads(done.stdout)
            equal(f'exit for {caller}', done.returncode, 0 if value['allowed'] else 1)
            return value['allowed'], value['rules'][-1]['rule']

        equal('a reader sends', told(f'key:{reader["id"]}', 'send'), (False, 'scope'))
        equal('a reader reads', told(f'key:{reader["id"]}', 'read')[0], True)
        equal('a key for everything', told(f'key:{every["id"]}', 'send')[0], True)
        equal('nobody', told('anonymous', 'send'), (False, 'credential'))
        equal('an account', told('xpr:alice', 'send'), (False, 'credential'))
        until(lambda: RPC.send(server, bearer(every['key'])).served, 'what it says of the key', 2)
        equal('what it says of the reader', RPC.send(server, bearer(reader['key'])).status, 403)


# --- The audit --------------------------------------------------------------------------------------------------------


def entries(server, *words):
    done = server.sabir('audit', 'tail', '-n', '200', *words, '--config', server.config, '-o', 'json')
    equal(f'exit of audit tail: {done.stderr[-300:]}', done.returncode, 0)
    text = done.stdout.strip()
    if not text:
        return []
    try:
        value = json.loads(text)
        return value if isinstance(value, list) else value.get('entries', [value])
    except ValueError:
        return [json.loads(line) for line in text.splitlines()]


def verified(server):
    done = server.sabir('audit', 'verify', '--config', server.config, '-o', 'json')
    equal(f'exit of audit verify: {done.stdout[-200:]} {done.stderr[-300:]}', done.returncode, 0)
    return done


@check
def refusals_and_changes_are_in_the_audit(world):
    with running(world, KEYS) as server:
        reader = server.key('--scope', 'read')
        until(lambda: RPC.get(server, bearer(reader['key']), 'none').code == -32001, 'the key known', 2)
        equal('beyond its scope', RPC.send(server, bearer(reader['key'])).status, 403)
        equal('nobody', RPC.send(server, NOBODY).status, 401)
        equal('a wrong key', RPC.send(server, bearer('sabir_' + '1' * 32)).status, 401)
        server.command('key', 'revoke', reader['id'])
        name = f'key:{reader["id"]}'

        def told():
            seen = entries(server)
            words = {(entry['outcome'], entry['operation'].partition('.')[0]) for entry in seen}
            refused = [entry for entry in seen if entry['outcome'] == 'refused']
            return len(refused) >= 3 and ('changed', 'key') in words and seen

        seen = until(told, 'three refusals and the changes', 5)
        holds([e for e in seen if e['outcome'] == 'refused' and e['caller'] == name], f'the caller: {seen}')
        holds(all({'seq', 'time', 'hash', 'scheme', 'reason'} <= set(entry) for entry in seen), f'members: {seen[-1]}')
        equal('order', [e['seq'] for e in seen], sorted(e['seq'] for e in seen))
        verified(server)
        only = entries(server, '--caller', name)
        holds(only and all(entry['caller'] == name for entry in only), f'by caller: {only}')


@check
def the_audit_notices_when_it_was_altered(world):
    import sqlite3

    with running(world, KEYS) as server:
        for _ in range(3):
            server.key()
        until(lambda: len(entries(server)) >= 3, 'entries', 5)
    verified(server)
    altered = 0
    for path in (server.scratch / 'data').rglob('*'):
        if path.is_file() and path.read_bytes()[:15] == b'SQLite format 3':
            base = sqlite3.connect(path)
            for [trigger] in base.execute("select name from sqlite_master where type='trigger'").fetchall():
                # The store itself refuses to forget; whoever has the file is not stopped by that.
                base.execute(f'drop trigger "{trigger}"')
            names = [row[0] for row in base.execute("select name from sqlite_master where type='table'")]
            for name in [name for name in names if 'audit' in name]:
                kinds = [row[1] for row in base.execute(f'pragma table_info("{name}")')]
                count = base.execute(f'select count(*) from "{name}"').fetchone()[0]
                if count >= 3:
                    base.execute(f'delete from "{name}" where rowid in (select rowid from "{name}" limit 1 offset 1)')
                    altered += 1
                holds(kinds, name)
            base.commit()
            base.close()
    if not altered:
        from registry import Inexpressible

        raise Inexpressible('no table of the store has audit in its name')
    done = server.sabir('audit', 'verify', '--config', server.config, '-o', 'json')
    holds(done.returncode != 0, 'an entry is gone, and nobody noticed')


@check
def no_secret_is_written_anywhere(world):
    """Every scheme, right and wrong; then all the server wrote and stored is searched for each secret that was used."""
    found = []
    for name in ('api_key', 'native', 'native-org', 'legacy_key', 'jwt', 'basic'):
        scheme = SCHEMES[name](world)
        config = scheme.config()
        server = world.server(config, env=scheme.env, tls=world.certificates.ca if scheme.tls else None)
        scheme.prepare(server)
        with server:
            scheme.ready()
            credentials = [c for c in (scheme.a, scheme.b, scheme.wrong, scheme.expired) if c]
            used = set(scheme.secrets)
            for credential in credentials:
                used |= {value.split(' ', 1)[-1] for _, value in credential.pairs}
                for binding in BINDINGS.values():
                    binding.send(server, credential)
                RPC.send(server, Credential(*credential.pairs, ('X-API-Key', 'sabir_' + '2' * 32)))
                server.call('GET', '/tasks', dict(credential.pairs) | {'A2A-Version': '1.0'})
            server.sabir('audit', 'tail', '-n', '100', '--config', server.config)
        for path, data in server.written():
            found += [f'{name}: {path}' for secret in used if secret.encode() in data]
            # A token is also given away by its last part.
            found += [
                f'{name}: signature in {path}'
                for s in used
                if s.count('.') == 2 and s.rsplit('.', 1)[1].encode() in data
            ]
    equal('places where a secret stands', sorted(set(found)), [])


@check
def basic_passwords_do_not_show_in_refusals(world):
    scheme = SCHEMES['basic'](world)
    with running(world, scheme.config(), env=scheme.env, tls=world.certificates.ca) as server:
        outcome = RPC.send(server, basic('ana', 'a-wrong-password-of-ana'))
        equal('status', outcome.status, 401)
        holds('a-wrong-password' not in outcome.text, 'the refusal says the password')
