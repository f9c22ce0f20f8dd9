"""`payment.authorize`: book and pay in one round trip, and neither of them alone."""

import contextlib
import os

import names
import venues
import x402
from envelope import sign, stamp
from registry import check, equal, holds
from server import until
from setting import CURRENT, network, scratch
from standin import Standin
from stripe import ASKS, DECLINED, SECRET

INTENTS = '/v1/payment_intents'
PAY_TO = '0x' + '77' * 20
ASSET = '0x833589fcd6edb6e08f4c7c32d4f71b54bda02913'
CHAIN = 'eip155:8453'
# The asset has six digits, a dollar two.
UNITS = 10_000


@contextlib.contextmanager
def paid(world, **more):
    """A network that takes money, the Stripe-shaped server, the facilitator, and a caller that may pay."""
    with Standin('stripe.py', scratch(world, 'stripe')) as stripe, Standin('x402.py', scratch(world, 'x402')) as chain:
        section = names.payments(stripe.url, chain.url, PAY_TO, ASSET, CHAIN)
        with network(
            world,
            venues=venues.sample(8),
            more=section,
            env={names.STRIPE_ENV: SECRET, names.CHAIN_ENV: f'{chain.url}/rpc'},
            **more,
        ) as net:
            yield net, stripe, chain, net.caller('pro')


def stripe_token(method='pm_card_visa'):
    return {'type': 'stripe', 'payment_method': method}


def x402_token(nonce, value=2500 * UNITS, good=True, to=PAY_TO):
    accepted = {
        'scheme': 'exact',
        'network': CHAIN,
        'amount': str(2500 * UNITS),
        'asset': ASSET,
        'payTo': PAY_TO,
        'maxTimeoutSeconds': 60,
        'extra': {},
    }
    return {
        'type': 'x402',
        'payload': {
            'x402Version': 2,
            'accepted': accepted,
            'payload': {
                'signature': '0x' + ('ab' if good else 'bad') * 20,
                'authorization': {
                    'from': '0x' + '11' * 20,
                    'to': to,
                    'value': str(value),
                    'validAfter': '0',
                    'validBefore': '99999999999',
                    'nonce': f'0x{nonce:064x}',
                },
            },
        },
    }


def crypto_token(hash):
    return {'type': 'crypto', 'network': CHAIN, 'asset': ASSET, 'transaction': hash}


def pay(
    caller, token, venue='venue-0001', slot='s0', amount=2500, capture='on_confirm', key=CURRENT, booking=True, **more
):
    payload = {'amount': {'amount': amount, 'currency': 'USD'}, 'token': token, 'capture': capture}
    if booking:
        payload['booking'] = {'venue_id': venue, 'slot_id': slot}
    return caller.ask(
        'payment.authorize', sign(payload, key, caller.sender, nonce=os.urandom(16).hex()) if key else payload, **more
    )


def states(net):
    return sorted(row['status'] for row in net.rows(names.BOOKINGS))


def captured(stripe):
    """What was taken in the end, by payment intent."""
    last = {line['id']: line for line in stripe.lines('intent')}
    return sum(line['captured'] for line in last.values())


def held(stripe):
    last = {line['id']: line for line in stripe.lines('intent')}
    return [line for line in last.values() if line['status'] == 'requires_capture']


@check
def a_booking_is_paid_for_with_a_card(world):
    with paid(world) as (net, stripe, chain, caller):
        answer = pay(caller, stripe_token())
        equal('said', answer.said, (200, None))
        told = answer.payload
        equal('status', (told['status'], told['booking_status']), ('captured', 'pending'))
        holds(told['payment_id'] and told['booking_id'] and told['receipt'], f'{told}')
        equal('taken', captured(stripe), 2500)
        equal('bookings', states(net), ['pending'])
        equal('counted', len(net.rows(names.USAGE)), 1)
        holds('pm_card_visa' not in str(net.interactions()), 'the token is in the rows')


@check
def a_declined_card_books_nothing(world):
    with paid(world) as (net, stripe, chain, caller):
        equal('said', pay(caller, stripe_token(DECLINED)).said, (402, 'payment_declined'))
        equal('taken', (captured(stripe), held(stripe)), (0, []))
        equal('counted', net.rows(names.USAGE), [])
        caller.good('booking.confirm', {'venue_id': 'venue-0001', 'slot_id': 's0'})


@check
def a_taken_slot_charges_nothing(world):
    with paid(world) as (net, stripe, chain, caller):
        caller.good('booking.confirm', {'venue_id': 'venue-0001', 'slot_id': 's0'})
        equal('said', pay(caller, stripe_token()).said, (409, 'slot_unavailable'))
        equal('taken', (captured(stripe), held(stripe)), (0, []))


@check
def it_needs_a_signature_a_timestamp_scope_and_tier(world):
    with paid(world) as (net, stripe, chain, caller):
        equal('unsigned', pay(caller, stripe_token(), key=None).said, (401, 'invalid_signature'))
        equal('no timestamp', pay(caller, stripe_token(), timestamp='').status, 422)
        equal('scope', pay(net.caller('pro', ('booking',)), stripe_token()).said, (403, 'scope_required'))
        equal('tier', pay(net.caller('free'), stripe_token()).said, (403, 'tier_required'))
        equal('taken', captured(stripe), 0)
        equal('bookings', states(net), [])


@check
def asking_again_pays_once(world):
    with paid(world) as (net, stripe, chain, caller):
        at = stamp()
        first = pay(caller, stripe_token(), timestamp=at)
        again = pay(caller, stripe_token(), timestamp=at)
        equal('again', (again.status, again.replayed, again.payload), (200, True, first.payload))
        equal('taken', captured(stripe), 2500)


@check
def a_biller_that_loses_its_answer_is_asked_and_not_guessed_about(world):
    """Whatever fails on the way: money and booking are both there in the end, or neither."""
    for ways in (('lose',), ('500',), ('429', 'lose'), ('ok', 'lose'), ('ok', '500')):
        with paid(world) as (net, stripe, chain, caller):
            stripe.mood(INTENTS, *ways)
            at = stamp()
            answer = pay(caller, stripe_token(), timestamp=at, ttl=15000)
            if answer.error and answer.error['retryable']:
                answer = until(
                    lambda: settled(pay(caller, stripe_token(), timestamp=at, ttl=15000)), f'{ways}: an end', 40
                )
            booked = [state for state in states(net) if state not in ('cancelled', 'pending_payment')]
            if answer.status == 200:
                until(lambda: captured(stripe) == 2500, f'{ways}: the money of a booking', 30)
                equal(f'{ways}: bookings', booked, ['pending'])
            else:
                until(lambda: not held(stripe), f'{ways}: money is held for nothing', 30)
                equal(f'{ways}: taken, booked', (captured(stripe), booked), (0, []))


def settled(answer):
    return None if answer.error and answer.error['retryable'] else answer


@check
def a_crash_on_the_way_leaves_both_or_neither(world):
    """The server is killed while the processor is silent, and started again."""
    import threading

    for ways in (('late',), ('ok', 'late')):
        with paid(world) as (net, stripe, chain, caller):
            stripe.mood(INTENTS, *ways)
            threading.Thread(target=quietly, args=(caller,), daemon=True).start()
            until(lambda: len(stripe.lines('request')) >= len(ways), 'the processor was asked', 20)
            net.server.process.kill()
            net.server.process.wait()
            stripe.mood(INTENTS)
            net.server.start()

            def whole():
                booked = [state for state in states(net) if state not in ('cancelled', 'pending_payment')]
                return (captured(stripe) == 2500) == (booked == ['pending']) and not held(stripe)

            until(whole, f'{ways}: booked and paid, or neither', 60)


def quietly(caller):
    with contextlib.suppress(Exception):
        pay(caller, stripe_token(), ttl=15000)


@check
def an_x402_payment_is_verified_first_and_settled_last(world):
    with paid(world) as (net, stripe, chain, caller):
        answer = pay(caller, x402_token(1))
        equal('said', (answer.said, answer.payload.get('status')), ((200, None), 'captured'))
        equal('settled', [line['amount'] for line in chain.lines('settled')], [2500 * UNITS])
        equal('a bad signature', pay(caller, x402_token(2, good=False), slot='s1').said, (402, 'payment_declined'))
        equal('too little', pay(caller, x402_token(3, value=1), slot='s1').said, (402, 'payment_declined'))
        equal(
            'to somebody else',
            pay(caller, x402_token(4, to='0x' + '88' * 20), slot='s1').said,
            (402, 'payment_declined'),
        )
        equal('a taken slot', pay(caller, x402_token(5)).said, (409, 'slot_unavailable'))
        equal('settled', len(chain.lines('settled')), 1)


@check(slow=True)
def a_settlement_that_fails_cancels_the_booking(world):
    with paid(world) as (net, stripe, chain, caller):
        chain.mood('/settle', '500', '500', '500', '500', '500', '500', '500', '500')
        answer = pay(caller, x402_token(9), ttl=15000)
        if answer.status == 200:
            until(lambda: chain.lines('settled') or states(net) == ['cancelled'], 'settled or cancelled', 60)
        else:
            until(lambda: 'pending' not in states(net) or chain.lines('settled'), 'cancelled', 60)


@check
def a_transaction_hash_is_checked_and_used_once(world):
    with paid(world) as (net, stripe, chain, caller):
        good, poor, other, failed = (f'0x{n:064x}' for n in (0xABCDEF, 2, 3, 4))
        x402.put(chain, hash=good, to=PAY_TO, amount=2500 * UNITS, asset=ASSET)
        x402.put(chain, hash=poor, to=PAY_TO, amount=1, asset=ASSET)
        x402.put(chain, hash=other, to='0x' + '88' * 20, amount=2500 * UNITS, asset=ASSET)
        x402.put(chain, hash=failed, to=PAY_TO, amount=2500 * UNITS, asset=ASSET, good=False)
        for hash in (poor, other, failed, f'0x{5:064x}'):
            equal(hash[-4:], pay(caller, crypto_token(hash), slot='s2').said, (402, 'payment_declined'))
        equal('good', pay(caller, crypto_token(good), slot='s2').said, (200, None))
        equal('again', pay(caller, crypto_token(good), slot='s1').said, (402, 'payment_declined'))
        equal(
            'in other letters',
            pay(caller, crypto_token(good.upper().replace('0X', '0x')), slot='s1').said,
            (402, 'payment_declined'),
        )
        equal(
            'by another key',
            pay(net.caller('enterprise'), crypto_token(good), slot='s1').said,
            (402, 'payment_declined'),
        )


@check
def two_payments_with_one_transaction_at_once_have_one_winner(world):
    import concurrent.futures

    with paid(world) as (net, stripe, chain, caller):
        hash = f'0x{77:064x}'
        x402.put(chain, hash=hash, to=PAY_TO, amount=2500 * UNITS, asset=ASSET)
        with concurrent.futures.ThreadPoolExecutor(6) as pool:
            said = list(
                pool.map(lambda n: pay(caller, crypto_token(hash), venue=f'venue-{n:04}', slot='s2').said, range(6))
            )
        equal('won', said.count((200, None)), 1)


@check
def a_card_that_asks_its_holder_is_told(world):
    with paid(world) as (net, stripe, chain, caller):
        answer = pay(caller, stripe_token(ASKS))
        holds(answer.payload.get('status') == 'requires_action' or answer.status == 402, f'{answer}')
        equal('taken', captured(stripe), 0)


@check
def bad_payments_are_named(world):
    with paid(world) as (net, stripe, chain, caller):
        for token in ({}, {'type': 'cash'}, {'type': 'stripe'}, {'type': 'crypto', 'network': CHAIN}, 'pm_x', None):
            equal(f'{token}', pay(caller, token).said, (422, 'invalid_payload'))
        for amount in (0, -5, 2.5, '2500', True):
            equal(f'{amount!r}', pay(caller, stripe_token(), amount=amount).said, (422, 'invalid_payload'))
        equal('capture', pay(caller, stripe_token(), capture='later').said, (422, 'invalid_payload'))
        equal('taken', (captured(stripe), states(net)), (0, []))


@check
def a_payment_has_a_limit_and_a_day_has_one(world):
    with paid(world) as (net, stripe, chain, caller):
        limit = (402, 'payment_limit_exceeded')
        equal('one payment', pay(caller, stripe_token(), amount=1_000_001).said, limit)
        for number in range(5):
            equal(
                'of the day',
                pay(caller, stripe_token(), venue=f'venue-{number:04}', slot='s2', amount=1_000_000).status,
                200,
            )
        equal('more than a day may have', pay(caller, stripe_token(), venue='venue-0006', slot='s2').said, limit)
        equal('another key', pay(net.caller('enterprise'), stripe_token(), venue='venue-0006', slot='s2').status, 200)
        equal('taken', captured(stripe), 5_000_000 + 2500)
