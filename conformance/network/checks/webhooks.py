"""Webhooks of bookings: to the subscriptions of the key, signed in two ways, verified by packages of others."""

import base64
import contextlib
import hashlib
import hmac
import json
import subprocess
import time

import vectors
import venues
from catalog import PUSH_JS
from envelope import instant
from hooks import Hooks, accepting, answering
from package_cache import HERE
from registry import check, equal, holds
from server import until
from setting import network
from standardwebhooks import Webhook, WebhookVerificationError

TOLERANCE_SECONDS = 300


# --- Verifiers --------------------------------------------------------------------------------------------------------


def standard(secret, headers, body, now=None):
    """Why Standard Webhooks does not take a delivery, or nothing: the package, and the rules by hand at another time."""
    if now is None:
        try:
            Webhook(secret).verify(body, headers)
        except WebhookVerificationError as why:
            return str(why)
        return None
    stamp = headers['webhook-timestamp']
    if abs(now - int(stamp)) > TOLERANCE_SECONDS:
        return 'too old or too new'
    key = base64.b64decode(secret.removeprefix('whsec_'))
    made = hmac.digest(key, f'{headers["webhook-id"]}.{stamp}.'.encode() + body, 'sha256')
    given = [one.partition(',') for one in headers['webhook-signature'].split(' ')]
    good = any(version == 'v1' and value == base64.b64encode(made).decode() for version, _, value in given)
    return None if good else 'no signature is right'


def native(secret, headers, body, now):
    """Why AGNT's own scheme does not take it, or nothing."""
    stamp = headers['x-agnt-timestamp']
    if abs(now - int(stamp)) > TOLERANCE_SECONDS:
        return 'too old or too new'
    made = hmac.new(secret.encode(), f'{stamp}.'.encode() + body, hashlib.sha256).hexdigest()
    return None if hmac.compare_digest(made, headers['x-agnt-signature']) else 'the signature is wrong'


def by_npm(secret, delivery):
    script = PUSH_JS.script(HERE / 'push' / 'js' / 'verify.mjs')
    line = json.dumps({'secret': secret, 'body': delivery.body.decode(), 'headers': delivery.headers})
    done = subprocess.run(script, input=line, capture_output=True, text=True, timeout=30, check=True)
    return None if done.stdout.strip() == 'ok' else done.stdout


@check
def recorded_signatures_are_judged_as_recorded_by_these_verifiers(world):
    """Else what follows would prove nothing."""
    recorded = vectors.load('webhooks')
    body = bytes.fromhex(recorded['body_hex'])
    for case in recorded['cases']:
        headers = {name.lower(): value for name, value in case['headers'].items()}
        judge = native if 'x-agnt-signature' in headers else standard
        why = judge(case['secrets'][0], headers, body, case['now'])
        equal(f'{case["id"]}: {why}', why is None, case['valid'])
    return f'{len(recorded["cases"])} signatures'


# --- Deliveries -------------------------------------------------------------------------------------------------------


@contextlib.contextmanager
def subscribed(world, *events, ways=(), path='/mine'):
    """A network, receivers, a key with a webhook, its caller, and what `sabir webhook add` said."""
    with Hooks() as hooks, network(world, venues=venues.sample(8)) as net:
        caller = net.caller('pro')
        added = net.webhook(net.key_id('pro'), hooks.add(path, *ways), *events)
        yield net, hooks, caller, added


def arrived(hooks, path, count, seconds=20):
    """Waits for so many events, each known by its id."""

    def distinct():
        return list({one['webhook-id']: one for one in reversed(hooks.at(path))}.values())[::-1]

    until(lambda: len(distinct()) >= count, f'{count} events at {path}', seconds)
    return distinct()


def sealed(world, secret, delivery):
    """Both ways of signing, by everybody who can check them."""
    equal('by the package from PyPI', standard(secret, delivery.headers, delivery.body), None)
    equal('by the package from npm', by_npm(secret, delivery), None)
    equal('by hand', standard(secret, delivery.headers, delivery.body, time.time()), None)
    equal('AGNT', native(secret, delivery.headers, delivery.body, time.time()), None)
    holds(standard('whsec_' + base64.b64encode(b'x' * 32).decode(), delivery.headers, delivery.body), 'any secret does')


@check
def a_booking_is_told_with_both_signatures(world):
    with subscribed(world) as (net, hooks, caller, added):
        booked = caller.good(
            'booking.confirm', {'venue_id': 'venue-0001', 'party_size': 2}, agent_context={'correlation_id': 'c-77'}
        )
        (delivery,) = arrived(hooks, '/mine', 1)
        sealed(world, added['secret'], delivery)
        told = delivery.json
        equal('members', set(told), {'type', 'timestamp', 'data'})
        equal('type', told['type'], 'booking.confirmed')
        data = told['data']
        equal('data', (data['booking_id'], data['status']), (booked['booking_id'], 'pending'))
        holds(data['venue_id'] in (booked['venue']['id'], booked['venue']['slug']), f'{data["venue_id"]}')
        equal('key', data['api_key_prefix'], caller.key[:14])
        equal('correlation', data.get('correlation_id'), 'c-77')
        holds(abs(instant(told['timestamp']) - time.time()) < 30, told['timestamp'])
        equal('media type', delivery['content-type'].split(';')[0], 'application/json')
        holds(caller.key not in delivery.body.decode(), 'the key is in it')


@check
def a_repetition_has_the_same_id_and_bytes_and_a_signature_of_its_own_time(world):
    with subscribed(world, ways=(answering(500), answering(503), accepting)) as (net, hooks, caller, added):
        caller.good('booking.confirm', {'venue_id': 'venue-0001'})
        attempts = until(lambda: len(hooks.at('/mine')) >= 3 and hooks.at('/mine'), 'three attempts', 40)[:3]
        equal('ids', len({one['webhook-id'] for one in attempts}), 1)
        equal('bodies', len({one.body for one in attempts}), 1)
        for one in attempts:
            equal('verified', standard(added['secret'], one.headers, one.body), None)
            equal('AGNT', native(added['secret'], one.headers, one.body, time.time()), None)


@check
def later_transitions_are_told_by_name_and_as_a_change(world):
    with subscribed(world) as (net, hooks, caller, added):
        id = caller.good('booking.confirm', {'venue_id': 'venue-0001'})['booking_id']
        net.transition(id, 'confirmed')
        net.transition(id, 'completed')
        until(lambda: any(one.json['type'] == 'booking.completed' for one in hooks.at('/mine')), 'booking.completed')
        until(
            lambda: sum(one.json['type'] == 'booking.status_changed' for one in hooks.at('/mine')) >= 2, 'two changes'
        )
        for one in hooks.at('/mine'):
            equal('booking', one.json['data']['booking_id'], id)
            equal('verified', standard(added['secret'], one.headers, one.body), None)
        changes = [
            one.json['data']['status'] for one in hooks.at('/mine') if one.json['type'] == 'booking.status_changed'
        ]
        equal('changes', changes, ['confirmed', 'completed'])


@check
def a_secret_is_shown_once_and_rotated_without_a_gap(world):
    with subscribed(world) as (net, hooks, caller, added):
        holds(added['secret'].startswith('whsec_'), 'the secret is written whsec_…')
        listed = json.dumps(net.command('webhook', 'list', '--key', net.key_id('pro')))
        holds(added['secret'] not in listed and added['secret'][6:] not in listed, 'a list shows the secret')
        renewed = net.command('webhook', 'rotate', added['id'])
        holds(renewed['secret'] != added['secret'], 'the same secret')
        caller.good('booking.confirm', {'venue_id': 'venue-0001'})
        (delivery,) = arrived(hooks, '/mine', 1)
        for secret in (added['secret'], renewed['secret']):
            equal('while receivers change over', standard(secret, delivery.headers, delivery.body), None)
        for path, data in net.server.written():
            holds(renewed['secret'].encode() not in data or path.suffix in ('.db', '.db-wal'), f'{path} has the secret')
