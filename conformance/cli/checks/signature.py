"""`card get`: the outcome of a signature is reported, and never better than it is."""

import base64
import copy
import json

from cryptography.hazmat.primitives import hashes
from cryptography.hazmat.primitives.asymmetric import ec
from cryptography.hazmat.primitives.asymmetric.utils import decode_dss_signature

import grammar
import pki
from harness import contains, equal, holds, lacks
from registry import requirement
from stub import Http


def b64(data):
    return base64.urlsafe_b64encode(data).rstrip(b'=').decode()


class Signer:
    """Signs cards as A2A §8.4 says. The cards here have no empty members and plain ASCII, so all readings agree."""

    def __init__(self, kid, jku):
        self.key, self.kid, self.jku = ec.generate_private_key(ec.SECP256R1()), kid, jku

    def jwk(self):
        numbers = self.key.public_key().public_numbers()
        x, y = (b64(value.to_bytes(32, 'big')) for value in (numbers.x, numbers.y))
        return {'kty': 'EC', 'crv': 'P-256', 'alg': 'ES256', 'use': 'sig', 'kid': self.kid, 'x': x, 'y': y}

    def sign(self, card, **header):
        content = {key: value for key, value in card.items() if key != 'signatures'}
        canonical = json.dumps(content, sort_keys=True, separators=(',', ':')).encode()
        head = {'alg': 'ES256', 'kid': self.kid, 'typ': 'JOSE', 'jku': self.jku, **header}
        protected = b64(json.dumps(head).encode())
        r, s = decode_dss_signature(self.key.sign(f'{protected}.{b64(canonical)}'.encode(), ec.ECDSA(hashes.SHA256())))
        signature = r.to_bytes(32, 'big') + s.to_bytes(32, 'big')
        return {**content, 'signatures': [{'protected': protected, 'signature': b64(signature)}]}


def signed(case):
    """A server with TLS that publishes its key, and the arguments that trust it."""
    authority = pki.Authority(case.scratch / 'pki')
    server = case.stub(tls=pki.Tls(authority))
    signer = Signer('k-1', f'{server.url}/jwks.json')
    server.files['/jwks.json'] = lambda _: {'keys': [signer.jwk()]}
    return server, signer, ('-a', server.url, '--ca-cert', authority.ca)


def outcome(case, arguments, *more):
    run = case.run('card', 'get', *arguments, *more).exits(0)
    return grammar.last(grammar.parse(run.out), 'Signature'), run


@requirement('A2ACLI_CARD_GET_004')
def a_good_signature_is_verified(case):
    server, signer, arguments = signed(case)
    server.card = signer.sign(server.card)
    shown, _ = outcome(case, arguments)
    holds(shown.startswith('verified'), f'Signature: {shown}')
    contains(shown, 'k-1', 'the key is named')
    run = case.run('card', 'get', *arguments, '-o', 'json').exits(0)
    equal(run.json, server.card, 'the card stays unmodified')
    contains(run.err.lower(), 'verified', 'stderr')
    case.run('card', 'get', '--validate', *arguments).exits(0)


@requirement('A2ACLI_CARD_GET_004')
def an_altered_card_is_unverifiable(case):
    server, signer, arguments = signed(case)
    server.card = {**signer.sign(server.card), 'description': 'Altered afterwards'}
    shown, run = outcome(case, arguments)
    holds(shown.startswith('unverifiable'), f'Signature: {shown}')
    contains(run.err.lower(), 'warning', 'an altered card is warned about')
    case.run('card', 'get', '--validate', *arguments, '-o', 'json').fails('A2ACLI_ERR_CARD_INVALID', 1)


@requirement('A2ACLI_CARD_GET_004')
def an_unknown_key_a_foreign_key_set_and_weak_algorithms_are_unverifiable(case):
    server, signer, arguments = signed(case)
    card = server.card
    foreign = case.stub(files={'/jwks.json': lambda _: {'keys': [signer.jwk()]}})
    head = b64(json.dumps({'alg': 'none', 'kid': 'k-1', 'jku': signer.jku}).encode())
    for what, altered in (
        ('unknown kid', signer.sign(card, kid='k-2')),
        ('key set of another host', signer.sign(card, jku=f'{foreign.url}/jwks.json')),
        ('alg none', {**card, 'signatures': [{'protected': head, 'signature': ''}]}),
        ('HMAC', signer.sign(card, alg='HS256')),
        ('garbage', {**card, 'signatures': [{'protected': '%%%', 'signature': '%%%'}]}),
    ):
        server.card = copy.deepcopy(altered)
        shown, run = outcome(case, arguments)
        holds(shown.startswith('unverifiable'), f'{what}: Signature: {shown}')
        lacks(run.out.replace('unverifiable', ''), 'verified', what)
    equal(foreign.requests, [], 'requests to a foreign key set')
    server.card = signer.sign(card)
    server.files['/jwks.json'] = Http(404)
    shown, _ = outcome(case, arguments)
    holds(shown.startswith('unverifiable'), f'no key set: Signature: {shown}')


@requirement('A2ACLI_CARD_GET_004')
def an_unsigned_card_is_absent_and_no_failure(case):
    server = case.stub()
    shown, _ = outcome(case, ('-a', server.url))
    holds(shown.startswith('absent'), f'Signature: {shown}')
    run = case.run('card', 'get', '-a', server.url, '-o', 'json').exits(0)
    equal(run.json, server.card, 'the card')
    contains(run.err.lower(), 'absent', 'stderr')
