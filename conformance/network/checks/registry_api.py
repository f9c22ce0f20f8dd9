"""The registry: networks say who they are, signed; and who covers restaurants in Canggu is answered."""

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

    def record(self, lease=3600, **more):
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
            'expires_at': at(now + lease),
            **more,
        }

    def signed(self, record, key=None):
        """The record with its signature beside it: a JWS without its payload, over the RFC 8785 form."""
        # Nothing here has a form in which RFC 8785 and Python differ, but for whole fees.
        text = json.dumps(record, sort_keys=True, separators=(',', ':'), ensure_ascii=False)
        text = text.replace('"fee_pct":5.0', '"fee_pct":5')
        head = b64(json.dumps({'alg': 'ES256', 'kid': 'one'}).encode())
        der = (key or self.key).sign(f'{head}.{b64(text.encode())}'.encode(), ec.ECDSA(hashes.SHA256()))
        r, s = utils.decode_dss_signature(der)
        return {
            'record': record,
            'signature': {'protected': head, 'signature': b64(r.to_bytes(32, 'big') + s.to_bytes(32, 'big'))},
        }


def put(net, peer, document, id=None):
    return call(net, 'PUT', f'{PATH}/networks/{id or peer.id}', document)


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


def found(net, query):
    status, answer = call(net, 'GET', f'{PATH}/search?{query}')
    equal(f'search {query}', status, 200)
    return [one.get('record', one)['network_id'] for one in answer['networks']]


@check
def a_network_is_taken_up_when_its_host_vouches_for_its_key(world):
    with network(world, venues=[]) as net, Peer('network:b') as peer:
        peer.publishes = False
        holds(
            put(net, peer, peer.signed(peer.record()))[0] in (400, 401, 403, 422, 502),
            'a key that nobody published was taken',
        )
        peer.publishes = True
        holds(put(net, peer, peer.signed(peer.record()))[0] in (200, 201), 'a good record was not taken')
        status, kept = call(net, 'GET', f'{PATH}/networks/network:b')
        equal('kept', (status, kept.get('record', kept)['network_id']), (200, 'network:b'))
        equal('nobody', call(net, 'GET', f'{PATH}/networks/network:zz')[0], 404)


@check
def who_covers_restaurants_in_canggu_is_answered_best_first(world):
    with network(world, venues=[]) as net, Peer('network:b') as b, Peer('network:c') as c, Peer('network:d') as d:
        wide = {'categories': ['restaurant', 'spa'], 'areas': [], 'cities': [], 'countries': ['Canggu']}
        for peer, coverage in (
            (b, None),
            (c, wide),
            (d, {'categories': ['surf'], 'areas': [], 'cities': ['Canggu'], 'countries': []}),
        ):
            more = {'coverage': coverage} if coverage else {}
            status, said = put(net, peer, peer.signed(peer.record(**more)))
            holds(status in (200, 201), f'{peer.id}: {status} {said}')
        names = [
            name for name in found(net, 'intent=booking.search&category=restaurant&location=canggu') if name != net.id
        ]
        equal('restaurants in Canggu', names, ['network:b', 'network:c'])
        equal('surf', [one for one in found(net, 'category=surf&location=Canggu') if one != net.id], ['network:d'])


@check
def a_record_follows_the_one_before_it(world):
    with network(world, venues=[]) as net, Peer('network:b') as peer:
        first = peer.signed(peer.record())
        holds(put(net, peer, first)[0] in (200, 201), 'the first')
        holds(put(net, peer, first)[0] in (200, 201), 'the same again')
        second = peer.signed(peer.record())
        holds(put(net, peer, second)[0] in (200, 201), 'the second')
        holds(put(net, peer, first)[0] in (400, 409, 422), 'an older one was taken')
        other = ec.generate_private_key(ec.SECP256R1())
        holds(put(net, peer, peer.signed(peer.record(), key=other))[0] in (400, 401, 403, 422), 'a stranger signed it')
        holds(
            put(net, peer, peer.signed(peer.record()), id='network:z')[0] in (400, 403, 409, 422), 'under another name'
        )
        holds(put(net, peer, peer.signed(peer.record(lease=90000)))[0] in (400, 422), 'a lease of more than a day')
        changed = peer.signed(peer.record())
        changed['record']['endpoint'] = 'http://127.0.0.1:1/a2a/v1'
        holds(put(net, peer, changed)[0] in (400, 401, 403, 422), 'changed after it was signed')


@check
def changes_can_be_followed(world):
    with network(world, venues=[]) as net, Peer('network:b') as peer:
        put(net, peer, peer.signed(peer.record()))
        status, feed = call(net, 'GET', f'{PATH}/changes?since=0')
        equal('status', status, 200)
        holds('network:b' in json.dumps(feed), f'{feed}')
