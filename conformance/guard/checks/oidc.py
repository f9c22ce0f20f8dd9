"""Tokens of an issuer: a real OpenID provider for what is right, one of our own for what no real one does."""

import base64
import contextlib
import json
import sys
import time
import urllib.parse
import urllib.request

import tokens
from bindings import BINDINGS, bearer
from cryptography.hazmat.primitives import serialization
from cryptography.hazmat.primitives.asymmetric import rsa
from issuer import AUDIENCE, KEYS, Issuer
from registry import check, equal, holds
from stage import RPC, WHOAMI, running, who
from world import SERVERS

OPENER = urllib.request.build_opener(urllib.request.ProxyHandler({}))


@contextlib.contextmanager
def provider():
    """The address of `oidc-provider`, as `conformance/servers` starts it."""
    if str(SERVERS) not in sys.path:
        sys.path.append(str(SERVERS))
    import servers

    with servers.Programs() as programs:
        [port] = programs.ports(1)
        issuer, _ = servers.provider(programs, port)
        yield issuer


def fetched(url, form=None, **headers):
    data = urllib.parse.urlencode(form).encode() if form else None
    with OPENER.open(urllib.request.Request(url, data, headers), timeout=10) as answer:
        return json.load(answer)


def machine(issuer, client='test-machine', scope='agent'):
    """A token by client credentials."""
    key = base64.b64encode(f'{client}:{client}-secret'.encode()).decode()
    form = {'grant_type': 'client_credentials', 'scope': scope}
    return fetched(f'{issuer}/token', form, Authorization=f'Basic {key}')['access_token']


def settings(issuer, more='', audience=AUDIENCE):
    return f'[auth]\naccept = ["jwt"]\n[auth.jwt]\nissuer = "{issuer}"\naudience = "{audience}"\n{more}\n'


def refused(server, token, status=401, what='token'):
    outcome = RPC.send(server, bearer(token))
    equal(what, (outcome.status, outcome.code), (status, -32000))
    if status == 401:
        holds('www-authenticate' in outcome.headers, f'{what}: no WWW-Authenticate')
    return outcome


# --- The real provider ------------------------------------------------------------------------------------------------


@check
def a_token_of_the_provider_is_admitted_over_every_binding(world):
    with provider() as issuer, running(world, settings(issuer)) as server:
        token = machine(issuer)
        for binding in BINDINGS.values():
            outcome = binding.send(server, bearer(token))
            holds(outcome.served, f'{binding.name}: {outcome}')


@check
def the_caller_is_the_subject_of_the_issuer(world):
    with provider() as issuer, running(world, settings(issuer), agents=WHOAMI) as server:
        token = machine(issuer)
        payload = token.split('.')[1]
        subject = json.loads(base64.urlsafe_b64decode(payload + '=' * (-len(payload) % 4)))['sub']
        equal('caller', who(server, bearer(token))['caller'], f'jwt:{issuer}#{subject}')


@check
def a_token_for_another_audience_is_refused(world):
    with provider() as issuer, running(world, settings(issuer, audience='urn:test:elsewhere')) as server:
        refused(server, machine(issuer), what='wrong audience')


@check
def a_token_expires(world):
    with provider() as issuer, running(world, settings(issuer, 'skew_seconds = 0')) as server:
        token = machine(issuer, 'test-machine-short')
        holds(RPC.send(server, bearer(token)).served, 'a fresh token is refused')
        time.sleep(4)
        refused(server, token, what='expired')


@check
def what_the_provider_did_not_sign_is_refused(world):
    """Other issuers, `none`, and the public key of the provider taken for a secret."""
    with provider() as issuer, Issuer() as other, running(world, settings(issuer)) as server:
        good = machine(issuer)
        holds(RPC.send(server, bearer(good)).served, 'a good token is refused')
        refused(server, other.token('ana'), what='other issuer')
        refused(server, other.token('ana', iss=issuer), what='other key, same issuer')
        refused(server, tokens.unsigned('ana', iss=issuer, aud=AUDIENCE), what='alg none')
        for key in fetched(f'{issuer}/jwks')['keys']:
            for name, secret in secrets_of(key):
                forged = tokens.shared(secret, 'ana', {'kid': key['kid']}, iss=issuer, aud=AUDIENCE)
                refused(server, forged, what=f'HS256 under the {name} of {key["kid"]}')
        head, payload, signature = good.split('.')
        flipped = ('A' if signature[5] != 'A' else 'B').join((signature[:5], signature[6:]))
        refused(server, f'{head}.{payload}.{flipped}', what='altered signature')
        refused(server, f'{head}.{payload}.', what='no signature')
        refused(server, f'{head}.{payload}', what='two parts')


def secrets_of(jwk):
    """What a careless verifier might take for a shared secret."""
    yield 'text', json.dumps(jwk).encode()
    if jwk['kty'] == 'RSA':
        n, e = (int.from_bytes(base64.urlsafe_b64decode(jwk[x] + '==='), 'big') for x in ('n', 'e'))
        public = rsa.RSAPublicNumbers(e, n).public_key()
        form = serialization.PublicFormat.SubjectPublicKeyInfo
        yield 'PEM', public.public_bytes(serialization.Encoding.PEM, form)
        yield 'DER', public.public_bytes(serialization.Encoding.DER, form)
    yield 'nothing', b'\0'


@check
def a_scope_that_is_asked_for_must_be_in_the_token(world):
    with provider() as issuer, running(world, settings(issuer, 'scopes = ["agent"]')) as server:
        holds(RPC.send(server, bearer(machine(issuer))).served, 'a token with the scope is refused')
    with provider() as issuer, running(world, settings(issuer, 'scopes = ["agent", "admin"]')) as server:
        refused(server, machine(issuer), 403, 'without the scope')


# --- One that misbehaves ----------------------------------------------------------------------------------------------


@contextlib.contextmanager
def own(world, more='', discovery=True, prepare=None, **rest):
    with Issuer() as issuer:
        if prepare:
            prepare(issuer)
        extra = more if discovery else f'jwks_url = "{issuer.url}{KEYS}"\n{more}'
        with running(world, settings(issuer.url, extra), **rest) as server:
            yield issuer, server


@check
def algorithms_can_be_narrowed(world):
    keys = [tokens.Key('ec', 'ES256'), tokens.Key('rsa', 'RS256'), tokens.Key('ed', 'EdDSA')]

    def three(issuer):
        issuer.keys = keys

    with own(world, prepare=three) as (issuer, server):
        for key in keys:
            outcome = RPC.send(server, bearer(issuer.token('ana', key=key)))
            holds(outcome.served, f'{key.algorithm}: {outcome}')
    with own(world, 'algorithms = ["ES256"]', prepare=three) as (issuer, server):
        holds(RPC.send(server, bearer(issuer.token('ana', key=keys[0]))).served, 'ES256 is refused')
        refused(server, issuer.token('ana', key=keys[1]), what='RS256')


@check
def keys_may_stand_in_a_file(world):
    key = tokens.Key('filed')
    text = json.dumps(tokens.key_set(key))
    config = settings('https://issuer.test', 'jwks = "file:given/keys.json"')
    with running(world, config, prepare=lambda server: server.given('keys.json', text)) as server:
        good = key.token('ana', iss='https://issuer.test', aud=AUDIENCE)
        outcome = RPC.send(server, bearer(good))
        holds(outcome.served, str(outcome))
        refused(server, tokens.Key('filed').token('ana', iss='https://issuer.test', aud=AUDIENCE), what='another key')


@check
def scopes_with_a_prefix_are_read_like_those_of_keys(world):
    with own(world, 'scope_prefix = "a2a:"') as (issuer, server):
        may = RPC.send(server, bearer(issuer.token('ana', scope='openid a2a:send a2a:read')))
        holds(may.served, f'with a2a:send: {may}')
        refused(server, issuer.token('ana', scope='openid a2a:read'), 403, 'with a2a:read alone')
        refused(server, issuer.token('ana', scope='openid'), 403, 'without any')
        read = RPC.get(server, bearer(issuer.token('ana', scope='a2a:read')), may.task)
        holds(read.served, f'reading with a2a:read: {read}')
