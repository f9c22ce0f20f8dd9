"""The registry: a record that is signed here, by the published text, is taken once its host vouches for the key."""

import base64
import json
import time

from cryptography.hazmat.primitives import hashes
from cryptography.hazmat.primitives.asymmetric import ec, utils
from loopback import Server as Loopback
from registry import check, equal, holds
from setting import network

PATH = '/registry/v1'


def b64(data):
    return base64.urlsafe_b64encode(data).rstrip(b'=').decode()


class Peer(Loopback):
    """A network elsewhere: a key, a host that publishes it, and records that it signs."""

    def __init__(self, id):
        super().__init__()
        self.id, self.seq, self.publishes = id, 0, True
        self.key = ec.generate_private_key(ec.SECP256R1())

    @property
    def jwks(self):
        numbers = self.key.public_key().public_numbers()
        point = {name: b64(value.to_bytes(32, 'big')) for name, value in (('x', numbers.x), ('y', numbers.y))}
        return {'keys': [{'kty': 'EC', 'crv': 'P-256', 'kid': 'one', 'alg': 'ES256', 'use': 'sig', **point}]}

    def answer(self, path, body):
        if path == '/.well-known/jwks.json' and self.publishes:
            return 200, self.jwks
        return 404, {}

    def record(self):
        self.seq += 1
        now = int(time.time())

        def at(seconds):
            return time.strftime('%Y-%m-%dT%H:%M:%SZ', time.gmtime(seconds))

        return {
            'network_id': self.id,
            'endpoint': f'{self.url}/a2a/v1',
            'protocols': ['openclaw/a2a/v1'],
            'intents': ['network.ping', 'venue.list', 'booking.search', 'booking.confirm'],
            'features': ['via'],
            'coverage': {'categories': ['restaurant'], 'areas': ['Berawa'], 'cities': ['Canggu'], 'countries': ['ID']},
            'pricing': {'fee_pct': 5.0, 'confirm_usd_cents': 25},
            'keys': self.jwks,
            'seq': self.seq,
            'issued_at': at(now),
            'expires_at': at(now + 3600),
        }

    def signed(self, record):
        """The record with its signature beside it: a JWS without its payload, over the RFC 8785 form."""
        # Nothing here has a form in which RFC 8785 and Python differ, but for whole fees.
        text = json.dumps(record, sort_keys=True, separators=(',', ':'), ensure_ascii=False)
        text = text.replace('"fee_pct":5.0', '"fee_pct":5')
        head = b64(json.dumps({'alg': 'ES256', 'kid': 'one'}).encode())
        der = self.key.sign(f'{head}.{b64(text.encode())}'.encode(), ec.ECDSA(hashes.SHA256()))
        r, s = utils.decode_dss_signature(der)
        return {
            'record': record,
            'signature': {'protected': head, 'signature': b64(r.to_bytes(32, 'big') + s.to_bytes(32, 'big'))},
        }


def put(net, peer):
    return call(net, 'PUT', f'{PATH}/networks/{peer.id}', peer.signed(peer.record()))


def call(net, method, path, document=None):
    import http.client

    connection = http.client.HTTPConnection(*net.server.address, timeout=20)
    try:
        body = json.dumps(document).encode() if document is not None else None
        connection.request(method, path, body, {'Content-Type': 'application/json'})
        answer = connection.getresponse()
        data = answer.read()
        return answer.status, json.loads(data) if data.strip() else None
    finally:
        connection.close()


@check
def a_network_is_taken_up_when_its_host_vouches_for_its_key(world):
    with network(world, venues=[]) as net, Peer('network:b') as peer:
        peer.publishes = False
        holds(put(net, peer)[0] in (400, 401, 403, 422, 502), 'a key that nobody published was taken')
        peer.publishes = True
        holds(put(net, peer)[0] in (200, 201), 'a good record was not taken')
        status, kept = call(net, 'GET', f'{PATH}/networks/network:b')
        equal('kept', (status, kept.get('record', kept)['network_id']), (200, 'network:b'))
        equal('nobody', call(net, 'GET', f'{PATH}/networks/network:zz')[0], 404)
