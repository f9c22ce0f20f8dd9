"""How each scheme of the table is configured, and the credentials it knows: two callers', a wrong one, an expired one.

A scheme writes its part of the configuration, puts into the store what belongs there, with the commands a person would
use, and hands out credentials. Every secret it makes is kept in `secrets`, so that a check can look for them in all the
server wrote.
"""

import base64
import secrets as random
import time

import k1
import tokens
from bindings import NOBODY, Credential, Signed, bearer
from issuer import AUDIENCE

OWN_AUDIENCE = 'https://guard.test'
# A port of loopback where nobody listens.
NOWHERE = 'http://127.0.0.1:9'


class Scheme:
    """`a` and `b` are two callers; `busy` is one with a limit, at the agent `busy`; what cannot be stays `None`."""

    tls = False
    a = b = wrong = expired = limited = None

    def __init__(self, world, away=False):
        self.world, self.away, self.secrets = world, away, []
        self.env = {}

    def secret(self, bytes_count=24):
        text = random.token_hex(bytes_count)
        self.secrets.append(text)
        return text

    def server_tls(self, more=''):
        cert, key = self.world.certificates.server
        return f'[server.tls]\ncert = "file:{cert}"\nkey = "file:{key}"\n{more}'

    @property
    def busy(self):
        return self.a

    def config(self):
        return ''

    def prepare(self, server):
        """Before the server starts, with its configuration in place."""

    def ready(self):
        """After it has started: waits until what expires has expired."""


class Open(Scheme):
    a = NOBODY

    def config(self):
        return '[auth]\naccept = []\n'


class ApiKey(Scheme):
    required = 'true'

    def config(self):
        return f'[auth]\naccept = ["api_key"]\nrequired = {self.required}\n'

    def prepare(self, server):
        def make(*words):
            made = server.key(*words)
            self.secrets.append(made['key'])
            return bearer(made['key'])

        self.a, self.b = make('--name', 'ana'), make('--name', 'ben')
        self.limited = make('--name', 'reader', '--scope', 'read')
        self.expired, self.expiry = make('--name', 'late', '--expires', '1s'), time.monotonic() + 1.5
        self.wrong = bearer('sabir_' + random.token_hex(16))

    def ready(self):
        time.sleep(max(0, self.expiry - time.monotonic()))


class Optional(ApiKey):
    required = 'false'

    def config(self):
        return super().config() + '[limits]\nanonymous_per_minute = 0\n'


class Native(Scheme):
    def config(self):
        self.key = self.secret()
        self.env = {'GUARD_SECRET': self.key}
        self.a, self.b = bearer(self.token('ana@example.org')), bearer(self.token('ben@example.org'))
        self.wrong = bearer(self.token('ana@example.org', key='another secret of the same length'))
        self.expired = bearer(self.token('ana@example.org', iat=int(time.time()) - 1200, exp=int(time.time()) - 300))
        return f'[auth]\naccept = ["jwt"]\n[auth.jwt]\nsecret = "env:GUARD_SECRET"\naudience = "{OWN_AUDIENCE}"\n'

    def token(self, subject, key=None, **more):
        made = tokens.shared(key or self.key, subject, iss='https://app.test', **{'aud': OWN_AUDIENCE, **more})
        self.secrets.append(made)
        return made


class NativeOrganisation(Native):
    def config(self):
        super().config()
        self.env = {'GUARD_ORGANISATION': self.key}
        return f'[auth]\naccept = ["jwt"]\n[auth.jwt]\naudience = "{OWN_AUDIENCE}"\n'

    def token(self, subject, **more):
        return super().token(subject, **{'org_domain': 'example.org', **more})

    def prepare(self, server):
        server.command('org', 'add', 'example.org', '--secret', 'env:GUARD_ORGANISATION')


class LegacyKey(Scheme):
    def config(self):
        self.key = self.secret()
        self.env = {'GUARD_KEY': self.key}
        self.a, self.wrong = bearer(self.key), bearer(self.key[:-1] + ('0' if self.key[-1] != '0' else '1'))
        return '[auth]\naccept = ["legacy_key"]\n[auth.legacy_key]\nsecret = "env:GUARD_KEY"\n'


class Jwt(Scheme):
    def config(self):
        issuer, now = self.world.issuer, int(time.time())
        self.a, self.b = bearer(issuer.token('ana')), bearer(issuer.token('ben'))
        self.wrong = bearer(issuer.token('ana', key=tokens.Key(issuer.keys[0].kid)))
        self.expired = bearer(issuer.token('ana', iat=now - 1200, exp=now - 300))
        url = NOWHERE if self.away else issuer.url
        return (
            f'[auth]\naccept = ["jwt"]\n[auth.jwt]\nissuer = "{issuer.url}"\njwks_url = "{url}/jwks"\n'
            f'audience = "{AUDIENCE}"\n'
        )


class Mtls(Scheme):
    tls = True

    def config(self):
        made = self.world.certificates
        self.a, self.b = (Credential(certificate=made.pair(name)) for name in ('ana', 'ben'))
        self.wrong = Credential(certificate=made.stranger)
        self.expired = Credential(certificate=made.pair('late'))
        return self.server_tls(f'client_ca = "file:{made.ca}"\n') + '[auth]\naccept = ["mtls"]\n[auth.mtls]\n'


class Basic(Scheme):
    tls = True

    def config(self):
        passwords = {name: self.secret(12) for name in ('ana', 'ben')}
        self.env = {f'GUARD_{name.upper()}': password for name, password in passwords.items()}
        self.a, self.b = (basic(name, passwords[name]) for name in ('ana', 'ben'))
        self.wrong = basic('ana', passwords['ben'])
        users = ', '.join(f'{{ name = "{name}", password = "env:GUARD_{name.upper()}" }}' for name in passwords)
        return self.server_tls() + f'[auth]\naccept = ["basic"]\n[auth.basic]\nuser = [{users}]\n'


def basic(name, password):
    return Credential(('Authorization', 'Basic ' + base64.b64encode(f'{name}:{password}'.encode()).decode()))


class Xpr(Scheme):
    def config(self):
        chain = self.world.chain
        keys = {name: k1.Key.named(name) for name in ('alice', 'bob', 'mallory', 'zoe')}
        for name, key in keys.items():
            chain.account(name, key)
            if name != 'mallory':
                chain.agent(name)
        self.a, self.b = Signed('alice', keys['alice']), Signed('bob', keys['bob'])
        # Alice's name under Bob's key.
        self.wrong = Signed('alice', keys['bob'])
        self.expired = Signed('alice', keys['alice'], off=-302)
        # Signs well, and is no agent on the chain.
        self.limited = Signed('mallory', keys['mallory'])
        self.limits = Signed('zoe', keys['zoe'])
        url = NOWHERE if self.away else chain.url
        # Accounts have a limit of their own, which those of agents do not touch; so the busy one has hers by name.
        own = '[[limits.caller]]\nname = "xpr:zoe"\nper_minute = 1\n'
        return f'[auth]\naccept = ["xpr"]\n[auth.xpr]\nrpc_url = "{url}"\nrate_per_minute = 100000\n{own}'

    @property
    def busy(self):
        return self.limits


SCHEMES = {
    'open': Open,
    'optional': Optional,
    'api_key': ApiKey,
    'native': Native,
    'native-org': NativeOrganisation,
    'legacy_key': LegacyKey,
    'jwt': Jwt,
    'mtls': Mtls,
    'basic': Basic,
    'xpr': Xpr,
}
