"""An issuer of tokens that misbehaves on request: discovery and a key set which may be huge, slow, empty or away.

A well-behaved one nobody here wrote is `conformance/servers/provider`.
"""

import json

from loopback import Server
from tokens import Key, key_set

DISCOVERY, KEYS = '/.well-known/openid-configuration', '/jwks'
AUDIENCE = 'urn:test:agent'


class Issuer(Server):
    def __init__(self, *keys):
        self.keys = list(keys) or [Key('first')]
        # Bytes to answer with instead of the key set.
        self.instead = None
        super().__init__()

    def answer(self, path, body):
        if path == DISCOVERY:
            return 200, {'issuer': self.url, 'jwks_uri': self.url + KEYS, 'token_endpoint': f'{self.url}/token'}
        if path == KEYS:
            return 200, key_set(*self.keys) if self.instead is None else self.instead
        return 404, {}

    def token(self, subject, key=None, header=None, **more):
        given = {'iss': self.url, 'aud': AUDIENCE, **more}
        return (key or self.keys[0]).token(subject, header, **given)

    def rotate(self, kid):
        """A new key signs from now on, and the old ones are gone."""
        self.keys = [Key(kid)]
        return self.keys[0]


def huge(megabytes):
    """A key set that is a valid document, and too much."""
    filler = 'A' * 1024
    members = [{'kty': 'oct', 'kid': f'filler-{index}', 'k': filler} for index in range(megabytes * 1000)]
    return json.dumps({'keys': members}).encode()
