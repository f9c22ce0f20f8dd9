"""`payment.authorize`: book and pay in one round trip, and neither of them alone, also when the server is killed."""

import contextlib
import os
import threading

import names
import venues
from envelope import sign
from registry import check
from server import until
from setting import CURRENT, network, scratch
from standin import Standin
from stripe import SECRET

INTENTS = '/v1/payment_intents'


@contextlib.contextmanager
def paid(world):
    """A network that takes money, the Stripe-shaped server, and a caller that may pay."""
    with Standin('stripe.py', scratch(world, 'stripe')) as stripe:
        section = names.payments(stripe.url)
        with network(world, venues=venues.sample(8), more=section, env={names.STRIPE_ENV: SECRET}) as net:
            yield net, stripe, net.caller('pro')


def pay(caller):
    payload = {
        'amount': {'amount': 2500, 'currency': 'USD'},
        'token': {'type': 'stripe', 'payment_method': 'pm_card_visa'},
        'booking': {'venue_id': 'venue-0001', 'slot_id': 's0'},
    }
    # The server is killed before it answers.
    with contextlib.suppress(Exception):
        caller.ask('payment.authorize', sign(payload, CURRENT, caller.sender, nonce=os.urandom(16).hex()), ttl=15000)


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
def a_crash_on_the_way_leaves_both_or_neither(world):
    """The server is killed while the processor is silent, and started again."""
    for ways in (('late',), ('ok', 'late')):
        with paid(world) as (net, stripe, caller):
            stripe.mood(INTENTS, *ways)
            threading.Thread(target=pay, args=(caller,), daemon=True).start()
            until(lambda: len(stripe.lines('request')) >= len(ways), 'the processor was asked', 20)
            net.server.process.kill()
            net.server.process.wait()
            stripe.mood(INTENTS)
            net.server.start()

            def whole():
                booked = [state for state in states(net) if state not in ('cancelled', 'pending_payment')]
                return (captured(stripe) == 2500) == (booked == ['pending']) and not held(stripe)

            until(whole, f'{ways}: booked and paid, or neither', 60)
