"""JSON Web Tokens made by hand, good ones and bad ones, and the key sets they are checked with.

By hand, because a library refuses to make half of what a server has to refuse.
"""

import base64
import hmac
import json
import time

from cryptography.hazmat.primitives import hashes, serialization
from cryptography.hazmat.primitives.asymmetric import ec, ed25519, padding, rsa
from cryptography.hazmat.primitives.asymmetric.utils import decode_dss_signature

LIFETIME = 900


def b64(data):
    return base64.urlsafe_b64encode(data).rstrip(b'=').decode()


def compact(header, claims, sign):
    signed = '.'.join(b64(json.dumps(part, separators=(',', ':')).encode()) for part in (header, claims))
    return f'{signed}.{b64(sign(signed.encode()))}'


def claims(subject, **more):
    """What is left `None` is left out."""
    now = int(time.time())
    every = {'sub': subject, 'iat': now, 'exp': now + LIFETIME, **more}
    return {name: value for name, value in every.items() if value is not None}


def shared(secret, subject, header=None, **more):
    """A token of agent-native: HS256 under a secret both sides know."""
    key = secret if isinstance(secret, bytes) else secret.encode()
    head = {'alg': 'HS256', **(header or {})}
    digest = {'HS256': 'sha256', 'HS384': 'sha384', 'HS512': 'sha512'}.get(head['alg'], 'sha256')
    return compact(head, claims(subject, **more), lambda data: hmac.digest(key, data, digest))


def unsigned(subject, **more):
    return compact({'alg': 'none'}, claims(subject, **more), lambda data: b'')


class Key:
    """A key pair that signs tokens: `ES256`, `RS256` or `EdDSA`."""

    def __init__(self, kid, algorithm='ES256'):
        self.kid, self.algorithm = kid, algorithm
        if algorithm == 'ES256':
            self.private = ec.generate_private_key(ec.SECP256R1())
        elif algorithm == 'RS256':
            self.private = rsa.generate_private_key(65537, 2048)
        else:
            self.private = ed25519.Ed25519PrivateKey.generate()

    def sign(self, data):
        if self.algorithm == 'ES256':
            pair = decode_dss_signature(self.private.sign(data, ec.ECDSA(hashes.SHA256())))
            return b''.join(number.to_bytes(32, 'big') for number in pair)
        if self.algorithm == 'RS256':
            return self.private.sign(data, padding.PKCS1v15(), hashes.SHA256())
        return self.private.sign(data)

    def token(self, subject, header=None, **more):
        head = {'alg': self.algorithm, 'kid': self.kid, 'typ': 'JWT', **(header or {})}
        return compact({k: v for k, v in head.items() if v is not None}, claims(subject, **more), self.sign)

    def jwk(self):
        public = self.private.public_key()
        common = {'kid': self.kid, 'alg': self.algorithm, 'use': 'sig'}
        if self.algorithm == 'EdDSA':
            raw = public.public_bytes(serialization.Encoding.Raw, serialization.PublicFormat.Raw)
            return {'kty': 'OKP', 'crv': 'Ed25519', 'x': b64(raw), **common}
        numbers = public.public_numbers()
        if self.algorithm == 'ES256':
            return {'kty': 'EC', 'crv': 'P-256', 'x': number(numbers.x, 32), 'y': number(numbers.y, 32), **common}
        return {'kty': 'RSA', 'n': number(numbers.n, 256), 'e': number(numbers.e, 3), **common}

    def pem(self):
        return self.private.private_bytes(
            serialization.Encoding.PEM, serialization.PrivateFormat.PKCS8, serialization.NoEncryption()
        ).decode()

    def public_pem(self):
        public = self.private.public_key()
        return public.public_bytes(serialization.Encoding.PEM, serialization.PublicFormat.SubjectPublicKeyInfo).decode()


def number(value, length):
    return b64(value.to_bytes(length, 'big'))


def key_set(*keys):
    return {'keys': [key.jwk() for key in keys]}
