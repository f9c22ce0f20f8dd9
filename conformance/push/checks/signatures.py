"""Signatures: verified by packages that nobody here wrote, and refused by them when anything was changed."""

import hashlib
import json
import subprocess

import jwt
import setting
from catalog import PUSH_JS
from package_cache import HERE
from registry import check, equal, holds
from server import until
from setting import new_secret, send, serving, told
from standardwebhooks import Webhook, WebhookVerificationError
from tokens import Key

LIFETIME_SECONDS = 300


def in_python(secret, body, headers):
    """Why the package from PyPI does not take a delivery, or nothing."""
    try:
        Webhook(secret).verify(body, headers)
    except WebhookVerificationError as why:
        return str(why)
    return None


def in_javascript(asked):
    """The same for the package from npm, for a list of `(secret, body, headers)`."""
    script = PUSH_JS.script(HERE / 'push' / 'js' / 'verify.mjs')
    lines = [json.dumps({'secret': secret, 'body': body.decode(), 'headers': headers}) for secret, body, headers in asked]
    done = subprocess.run(script, input='\n'.join(lines), capture_output=True, text=True, timeout=30, check=True)
    return [None if line == 'ok' else line for line in done.stdout.splitlines()]


def spoiled(secret, delivery):
    """Everything that must not be taken: name, secret, body, headers."""
    headers = delivery.headers
    yield 'another secret', new_secret(), delivery.body, headers
    yield 'a changed body', secret, delivery.body.replace(b'taskId', b'taskid').replace(b'contextId', b'contextid'), headers
    yield 'a longer body', secret, delivery.body + b' ', headers
    yield 'another id', secret, delivery.body, {**headers, 'webhook-id': headers['webhook-id'] + 'x'}
    moved = str(int(headers['webhook-timestamp']) - 1)
    yield 'another time', secret, delivery.body, {**headers, 'webhook-timestamp': moved}
    yield 'another signature', secret, delivery.body, {**headers, 'webhook-signature': 'v1,' + 'A' * 43 + '='}
    yield 'no signature', secret, delivery.body, {n: v for n, v in headers.items() if n != 'webhook-signature'}


@check
def standard_webhooks_verify_with_the_packages_from_pypi_and_npm(world):
    secret = new_secret()
    with serving(world, secrets=[secret]) as (server, hooks):
        send(server, hooks.add('/mine'))
        deliveries = told(hooks, '/mine')
        for delivery in deliveries:
            equal('in Python', in_python(secret, delivery.body, delivery.headers), None)
            for name, *bad in spoiled(secret, delivery):
                holds(in_python(*bad), f'in Python: {name} was taken')
        good = [(secret, delivery.body, delivery.headers) for delivery in deliveries]
        equal('in JavaScript', in_javascript(good), [None] * len(good))
        bad = [(name, case) for delivery in deliveries for name, *case in spoiled(secret, delivery)]
        for (name, _), why in zip(bad, in_javascript([case for _, case in bad]), strict=True):
            holds(why, f'in JavaScript: {name} was taken')
        return f'{len(good)} deliveries, {len(bad)} spoiled ones'


@check
def a_repetition_is_signed_anew_and_has_the_same_id(world):
    from hooks import accepting, answering

    secret = new_secret()
    with serving(world, secrets=[secret]) as (server, hooks):
        send(server, hooks.add('/mine', answering(500), answering(503), accepting))
        deliveries = told(hooks, '/mine')
        first = deliveries[:3]
        equal('ids', len({one['webhook-id'] for one in first}), 1)
        equal('bodies', len({one.body for one in first}), 1)
        holds(len({one['webhook-timestamp'] for one in first}) > 1, 'the time of the attempts is always the same')
        for one in first:
            equal('verified', in_python(secret, one.body, one.headers), None)


@check
def both_secrets_sign_while_receivers_change_over(world):
    old, new = new_secret(), new_secret()
    with serving(world, secrets=[old, new]) as (server, hooks):
        send(server, hooks.add('/mine'))
        for delivery in told(hooks, '/mine'):
            equal('signatures', len(delivery['webhook-signature'].split(' ')), 2)
            for secret in (old, new):
                equal('verified', in_python(secret, delivery.body, delivery.headers), None)
            holds(in_python(new_secret(), delivery.body, delivery.headers), 'a third secret verifies')


@check
def without_secret_and_keys_there_are_only_id_and_time(world):
    with serving(world) as (server, hooks):
        send(server, hooks.add('/mine'))
        for delivery in told(hooks, '/mine'):
            holds(delivery['webhook-id'] and delivery['webhook-timestamp'].isdigit(), 'id or time is missing')
            equal('signatures', (delivery['webhook-signature'], delivery['x-a2a-signature']), (None, None))


@check
def our_token_verifies_with_pyjwt_and_our_key_set(world):
    for algorithm in ('ES256', 'RS256', 'EdDSA'):
        with serving(world, keys=[Key('hooks', algorithm)]) as (server, hooks):
            task = send(server, hooks.add('/mine'))
            keys = jwt.PyJWKClient(f'{server.url}/.well-known/jwks.json')
            for delivery in told(hooks, '/mine'):
                token = delivery['X-A2A-Signature']
                key = keys.get_signing_key_from_jwt(token).key

                def verify(given=token, audience=hooks.url, issuer=server.url):
                    need = ['exp', 'iat', 'iss', 'aud', 'jti', 'request_body_sha256', 'taskId']
                    return jwt.decode(given, key, algorithms=[algorithm], audience=audience, issuer=issuer,
                                      options={'require': need})

                claims = verify()
                equal('hash of the body', claims['request_body_sha256'], hashlib.sha256(delivery.body).hexdigest())
                equal('jti', claims['jti'], delivery['webhook-id'])
                equal('task', claims['taskId'], task)
                equal('lifetime', claims['exp'] - claims['iat'], LIFETIME_SECONDS)
                head, body, signature = token.split('.')
                forged = f'{head}.{body}.{signature[:-8]}{"A" * 8}'
                for what, attempt in {
                    'another audience': {'audience': 'http://127.0.0.1:1'},
                    'another issuer': {'issuer': 'https://elsewhere.example'},
                    'another signature': {'given': forged},
                }.items():
                    try:
                        verify(**attempt)
                    except jwt.InvalidTokenError:
                        continue
                    raise AssertionError(f'{algorithm}: {what} was taken')


@check
def a_token_is_made_for_one_receiver_and_not_for_its_path(world):
    """What one receiver is shown must be of no use at another, and must not tell the secret part of a URL."""
    with serving(world, keys=[Key('hooks')]) as (server, hooks):
        send(server, hooks.add('/secret-part?key=secret-query'))
        (delivery, *_) = told(hooks, '/secret-part?key=secret-query')
        claims = jwt.decode(delivery['X-A2A-Signature'], options={'verify_signature': False})
        equal('audience', claims['aud'], hooks.url)
        holds('secret' not in json.dumps(claims), 'the token tells the path')


@check
def a_bearer_without_credentials_is_our_token(world):
    with serving(world, keys=[Key('hooks')]) as (server, hooks):
        send(server, hooks.add('/mine'), scheme='Bearer')
        for delivery in told(hooks, '/mine'):
            equal('Authorization', delivery['authorization'], f'Bearer {delivery["x-a2a-signature"]}')
    with serving(world) as (server, hooks):
        send(server, hooks.add('/mine'), scheme='Bearer')
        for delivery in told(hooks, '/mine'):
            equal('Authorization without keys', delivery['authorization'], None)


@check
def the_sample_of_push_test_is_signed_like_a_delivery(world):
    secret = new_secret()
    with serving(world, secrets=[secret], keys=[Key('hooks')]) as (server, hooks):
        url = hooks.add('/sample')
        words = ['--scheme', 'Bearer', '--credentials', 'env:HOOK_TOKEN', '--token', 'env:HOOK_NAME']
        server.command('push', 'test', url, *words, env={'HOOK_TOKEN': 's3cret', 'HOOK_NAME': 'mine-42'})
        (delivery,) = until(lambda: hooks.at('/sample'), 'the sample arrives')
        equal('verified', in_python(secret, delivery.body, delivery.headers), None)
        equal('credentials', (delivery['authorization'], delivery['x-a2a-notification-token']),
              ('Bearer s3cret', 'mine-42'))
        equal('what it tells', setting.state(delivery), 'TASK_STATE_COMPLETED')
        claims = jwt.decode(delivery['X-A2A-Signature'], options={'verify_signature': False})
        equal('hash of the body', claims['request_body_sha256'], hashlib.sha256(delivery.body).hexdigest())
