"""Signing as an XPR account: the K1 signature of a request, and the text forms of its keys.

Written from the description of the scheme and proven on recorded signatures (`selftest`), so that the server is not
tested with its own signer. What is signed is not the digest but its SHA-256, because the library of the network hashes
what it is given once more. The nonce is that of RFC 6979 with the number of the attempt as additional data, which makes
signatures the same byte for byte.

Plain integers, and slow: some milliseconds a signature. No secret here protects anything.
"""

import hashlib
import hmac

P = 2**256 - 2**32 - 977
N = 0xFFFFFFFFFFFFFFFFFFFFFFFFFFFFFFFEBAAEDCE6AF48A03BBFD25E8CD0364141
G = (
    0x79BE667EF9DCBBAC55A06295CE870B07029BFCDB2DCE28D959F2815B16F81798,
    0x483ADA7726A3C4655DA4FBFC0E1108A8FD17B448A68554199C47D08FFB10D4B8,
)
ALPHABET = '123456789ABCDEFGHJKLMNPQRSTUVWXYZabcdefghijkmnopqrstuvwxyz'


# --- The curve --------------------------------------------------------------------------------------------------------


def add(a, b):
    if a is None or b is None:
        return a or b
    if a[0] == b[0]:
        if (a[1] + b[1]) % P == 0:
            return None
        slope = 3 * a[0] * a[0] * pow(2 * a[1], -1, P) % P
    else:
        slope = (b[1] - a[1]) * pow(b[0] - a[0], -1, P) % P
    x = (slope * slope - a[0] - b[0]) % P
    return x, (slope * (a[0] - x) - a[1]) % P


def doublings():
    point = G
    for _ in range(256):
        yield point
        point = add(point, point)


DOUBLINGS = list(doublings())


def times(scalar):
    """A multiple of the generator, which is all that signing needs."""
    result = None
    for bit, point in enumerate(DOUBLINGS):
        if scalar >> bit & 1:
            result = add(result, point)
    return result


def compressed(point):
    return bytes([2 + (point[1] & 1)]) + point[0].to_bytes(32, 'big')


# --- Text forms -------------------------------------------------------------------------------------------------------


def base58(data):
    number, text = int.from_bytes(data, 'big'), ''
    while number:
        number, digit = divmod(number, 58)
        text = ALPHABET[digit] + text
    return '1' * (len(data) - len(data.lstrip(b'\0'))) + text


def unbase58(text, length):
    number = 0
    for character in text:
        number = number * 58 + ALPHABET.index(character)
    return number.to_bytes(length, 'big')


def ripemd160(data):
    return hashlib.new('ripemd160', data, usedforsecurity=False).digest()


def with_checksum(payload, suffix=b'K1'):
    return base58(payload + ripemd160(payload + suffix)[:4])


class Key:
    """A private key of an account."""

    def __init__(self, scalar):
        self.scalar, self.point = scalar, times(scalar)

    @classmethod
    def named(cls, name):
        """The same name is always the same key."""
        return cls(int.from_bytes(hashlib.sha256(b'guard test ' + name.encode()).digest(), 'big') % (N - 1) + 1)

    @classmethod
    def from_pvt(cls, text):
        return cls(int.from_bytes(unbase58(text.removeprefix('PVT_K1_'), 36)[:32], 'big'))

    @property
    def public(self):
        return 'PUB_K1_' + with_checksum(compressed(self.point))

    @property
    def legacy(self):
        return 'EOS' + with_checksum(compressed(self.point), b'')

    @property
    def private(self):
        return 'PVT_K1_' + with_checksum(self.scalar.to_bytes(32, 'big'))

    @property
    def wif(self):
        payload = b'\x80' + self.scalar.to_bytes(32, 'big')
        return base58(payload + hashlib.sha256(hashlib.sha256(payload).digest()).digest()[:4])

    def sign(self, account, timestamp, body):
        return signature_text(*sign(self.scalar, signed_hash(account, timestamp, body)))

    def headers(self, account, timestamp, body):
        return {
            'X-XPR-Account': account,
            'X-XPR-Timestamp': str(timestamp),
            'X-XPR-Signature': self.sign(account, timestamp, body),
        }


# --- Signing ----------------------------------------------------------------------------------------------------------


def digest(account, timestamp, body):
    text = f'{account}\n{timestamp}\n{hashlib.sha256(body).hexdigest()}'
    return hashlib.sha256(text.encode()).digest()


def signed_hash(account, timestamp, body):
    return hashlib.sha256(digest(account, timestamp, body)).digest()


def nonces(scalar, z, attempt):
    """RFC 6979 with SHA-256, section 3.6 with one byte of additional data."""
    seed = scalar.to_bytes(32, 'big') + (int.from_bytes(z, 'big') % N).to_bytes(32, 'big') + bytes([attempt])
    k, v = b'\0' * 32, b'\1' * 32
    for mark in (b'\0', b'\1'):
        k = hmac.digest(k, v + mark + seed, 'sha256')
        v = hmac.digest(k, v, 'sha256')
    while True:
        v = hmac.digest(k, v, 'sha256')
        nonce = int.from_bytes(v, 'big')
        if 0 < nonce < N:
            yield nonce
        k = hmac.digest(k, v + b'\0', 'sha256')
        v = hmac.digest(k, v, 'sha256')


def canonical(number):
    data = number.to_bytes(32, 'big')
    return data[0] < 0x80 and not (data[0] == 0 and data[1] < 0x80)


def sign(scalar, z):
    """Recovery id, r and s: low s, and both of the form the network asks for."""
    for attempt in range(1, 256):
        nonce = next(nonces(scalar, z, attempt))
        point = times(nonce)
        r = point[0] % N
        s = pow(nonce, -1, N) * (int.from_bytes(z, 'big') + r * scalar) % N
        recovery = (point[1] & 1) | (2 if point[0] >= N else 0)
        if s > N // 2:
            s, recovery = N - s, recovery ^ 1
        if r and s and canonical(r) and canonical(s):
            return recovery, r, s
    raise AssertionError('no canonical signature in 255 attempts')


def signature_text(recovery, r, s):
    return 'SIG_K1_' + with_checksum(bytes([31 + recovery]) + r.to_bytes(32, 'big') + s.to_bytes(32, 'big'))


def high_s(text):
    """The twin of a signature that recovers the same key and is not low."""
    data = unbase58(text.removeprefix('SIG_K1_'), 69)
    return signature_text((data[0] - 31) ^ 1, int.from_bytes(data[1:33], 'big'), N - int.from_bytes(data[33:65], 'big'))
