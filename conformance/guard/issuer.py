"""An issuer with keys of every algorithm and scopes of any name; `conformance/servers/provider` is one that others wrote."""

from loopback import Server
from tokens import Key, key_set

DISCOVERY, KEYS = '/.well-known/openid-configuration', '/jwks'
AUDIENCE = 'urn:test:agent'


class Issuer(Server):
    def __init__(self, *keys):
        self.keys = list(keys) or [Key('first')]
        super().__init__()

    def answer(self, path, body):
        if path == DISCOVERY:
            return 200, {'issuer': self.url, 'jwks_uri': self.url + KEYS, 'token_endpoint': f'{self.url}/token'}
        if path == KEYS:
            return 200, key_set(*self.keys)
        return 404, {}

    def token(self, subject, key=None, header=None, **more):
        given = {'iss': self.url, 'aud': AUDIENCE, **more}
        return (key or self.keys[0]).token(subject, header, **given)
