"""Tokens of an issuer: a real OpenID provider for what is right, one of our own for what no real one does."""

import base64
import contextlib
import json
import sys
import threading
import time
import urllib.parse
import urllib.request

import tokens
from bindings import BINDINGS, bearer
from clock import Clock
from cryptography.hazmat.primitives import serialization
from cryptography.hazmat.primitives.asymmetric import rsa
from issuer import AUDIENCE, KEYS, Issuer, huge
from registry import check, equal, holds
from server import until
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
def claims_are_looked_at(world):
    with own(world) as (issuer, server):
        now = int(time.time())
        holds(RPC.send(server, bearer(issuer.token('ana'))).served, 'a good token is refused')
        holds(RPC.send(server, bearer(issuer.token('ana', aud=['x', AUDIENCE]))).served, 'a list of audiences')
        holds(RPC.send(server, bearer(issuer.token('ana', exp=now - 30))).served, 'within the skew of 60 s')
        for what, given in {
            'expired beyond the skew': {'exp': now - 90},
            'not yet valid': {'nbf': now + 600},
            'no audience': {'aud': None},
            'another issuer': {'iss': 'https://other.test'},
            'no issuer': {'iss': None},
            'no expiry': {'exp': None},
            'expiry as text': {'exp': 'tomorrow'},
            'an hour from now on': {'nbf': now + 3600, 'iat': now + 3600, 'exp': now + 7200},
            'an hour ago': {'iat': now - 7200, 'exp': now - 3600},
            'no subject': {'sub': None},
        }.items():
            refused(server, issuer.token('ana', **given), what=what)


@check
def headers_are_looked_at(world):
    with own(world) as (issuer, server):
        key = issuer.keys[0]
        for what, header in {
            'unknown crit': {'crit': ['urn:test:must'], 'urn:test:must': True},
            'empty crit': {'crit': []},
            'alg none': {'alg': 'none'},
            'alg of another family': {'alg': 'RS256'},
            'unknown kid': {'kid': 'nobody'},
        }.items():
            refused(server, issuer.token('ana', header=header), what=what)
        embedded = tokens.Key('first')
        refused(server, issuer.token('ana', key=embedded, header={'jwk': embedded.jwk()}), what='a key of its own')
        refused(server, issuer.token('ana', key=embedded, header={'jku': 'http://127.0.0.1:9/jwks'}), what='jku')
        holds(RPC.send(server, bearer(issuer.token('ana', key=key))).served, 'a good token is refused afterwards')


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
def keys_rotate_under_load(world):
    """A set is not fetched again at once for keys nobody knows, so the clock goes on after each turn."""
    clock = Clock(world)
    with own(world, env=clock.env) as (issuer, server):
        old = issuer.token('ana')
        holds(RPC.send(server, bearer(old)).served, 'a good token is refused')
        stop, answers = threading.Event(), []

        def load():
            while not stop.is_set():
                answers.append(RPC.send(server, bearer(issuer.token('ana'))).status)

        threads = [threading.Thread(target=load) for _ in range(4)]
        for thread in threads:
            thread.start()
        try:
            for turn in range(3):
                time.sleep(0.3)
                issuer.rotate(f'turn-{turn}')
                clock.forward(61)
                fresh = issuer.token('ana')
                until(lambda token=fresh: RPC.send(server, bearer(token)).served, f'a token of turn {turn}', 10, 0.1)
        finally:
            stop.set()
            for thread in threads:
                thread.join()
        holds(not [status for status in answers if status >= 500], f'answers: {sorted(set(answers))}')
        until(lambda: not RPC.send(server, bearer(old)).served, 'the first key forgotten', 5)
        fetches = issuer.asked(KEYS)
        holds(fetches <= 12, f'the key set was fetched {fetches} times for three rotations')
        return f'{len(answers)} calls, {answers.count(401)} refused meanwhile, key set fetched {fetches} times'


@check
def unknown_keys_do_not_make_us_a_nuisance(world):
    with own(world) as (issuer, server):
        holds(RPC.send(server, bearer(issuer.token('ana'))).served, 'a good token is refused')
        before = issuer.asked(KEYS)
        for number in range(60):
            refused(server, issuer.token('ana', key=tokens.Key(f'made-up-{number}')), what='made-up kid')
        fetches = issuer.asked(KEYS) - before
        holds(fetches <= 5, f'60 made-up keys had the key set fetched {fetches} times')
        holds(RPC.send(server, bearer(issuer.token('ana'))).served, 'a good token is refused afterwards')


@check
def a_key_set_that_is_empty_lets_nobody_in(world):
    def empty(issuer):
        issuer.instead = b'{"keys":[]}'

    with own(world, prepare=empty) as (issuer, server):
        status = RPC.send(server, bearer(issuer.token('ana'))).status
        holds(status in (401, 503), f'HTTP {status}')


@check
def a_key_set_that_is_nonsense_lets_nobody_in(world):
    for text in (b'', b'[]', b'{"keys":{}}', b'<html>', b'{"keys":[{"kty":"EC"}]}', b'[' * 100000):
        with own(world, prepare=lambda issuer, text=text: setattr(issuer, 'instead', text)) as (issuer, server):
            status = RPC.send(server, bearer(issuer.token('ana'))).status
            holds(status in (401, 503), f'{text[:20]!r}: HTTP {status}')


@check
def a_key_set_that_is_huge_is_not_swallowed(world):
    with own(world, prepare=lambda issuer: setattr(issuer, 'instead', huge(64))) as (issuer, server):
        before = server.rss()
        outcome = RPC.send(server, bearer(issuer.token('ana')))
        holds(outcome.status in (401, 503), f'got {outcome}')
        grown = server.rss() - before
        holds(grown < 48, f'memory grew by {grown:.0f} MiB')
        return f'memory grew by {grown:.0f} MiB'


@check
def a_key_set_that_is_slow_is_not_waited_for_long(world):
    with own(world) as (issuer, server):
        issuer.delay = 60
        began = time.monotonic()
        outcome = RPC.send(server, bearer(issuer.token('ana')))
        took = time.monotonic() - began
        equal('answer', (outcome.status, outcome.code), (503, -32000))
        holds('retry-after' in outcome.headers, 'no Retry-After')
        holds(took < 18, f'answered after {took:.0f} s')
        return f'answered after {took:.1f} s'


@check
def an_issuer_that_goes_away_is_not_missed_at_once(world):
    with own(world) as (issuer, server):
        good = issuer.token('ana')
        holds(RPC.send(server, bearer(good)).served, 'a good token is refused')
        issuer.away = True
        holds(RPC.send(server, bearer(good)).served, 'refused while the keys are known')
        unknown = issuer.token('ana', key=tokens.Key('later'))
        status = RPC.send(server, bearer(unknown)).status
        holds(status in (401, 503), f'HTTP {status}')


@check
def discovery_that_speaks_for_another_issuer_is_refused(world):
    with Issuer() as liar:
        real = liar.answer

        def answer(path, body):
            status, value = real(path, body)
            return status, {**value, 'issuer': 'https://other.test'} if 'issuer' in value else value

        liar.answer = answer
        with running(world, settings(liar.url)) as server:
            outcome = RPC.send(server, bearer(liar.token('ana')))
            holds(outcome.status in (401, 503), f'got {outcome}')


@check
def scopes_with_a_prefix_are_read_like_those_of_keys(world):
    with own(world, 'scope_prefix = "a2a:"') as (issuer, server):
        may = RPC.send(server, bearer(issuer.token('ana', scope='openid a2a:send a2a:read')))
        holds(may.served, f'with a2a:send: {may}')
        refused(server, issuer.token('ana', scope='openid a2a:read'), 403, 'with a2a:read alone')
        refused(server, issuer.token('ana', scope='openid'), 403, 'without any')
        read = RPC.get(server, bearer(issuer.token('ana', scope='a2a:read')), may.task)
        holds(read.served, f'reading with a2a:read: {read}')
