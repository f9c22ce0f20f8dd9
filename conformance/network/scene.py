"""What the money run plays: a network, keys of several customers, and what is asked under them.

Most confirms are plain. Some are sent twice at once, some again after they were answered, some with other content under
the same tuple, and some ask for what cannot be had. Only the first kind may ever be counted, and once.
"""

import collections
import json
import random

import names
from envelope import NETWORK, PROTOCOL, stamp

KEYS = 5
# Who pays for which key. Everybody is billed, so that the biller has in the end what everybody else has.
CUSTOMERS = ['cus_ana', 'cus_ben', 'cus_ana', 'cus_cem', 'cus_dia']
VENUES = 40
CAPACITY = 100_000
TTL_MS = 5000
# How often the biller fails, while it is billed in between.
BILLER_FAILS = 0.4
# The price of a booking.
CENTS = 25
KINDS = {'plain': 62, 'twice': 12, 'again': 12, 'signed': 6, 'other': 4, 'full': 2, 'nowhere': 2}
# What must come of those that are no booking.
REFUSED = {'full': 'slot_unavailable', 'nowhere': 'venue_not_found'}


def venues():
    """Venues with room for everybody, and one whose only slot has one place, which is taken first."""
    made = [
        {
            'slug': f'house-{n:02}',
            'name': f'House {n:02}',
            'category': 'spa',
            'city': 'Ubud',
            'agent_id': f'agent:house-{n:02}',
            'description': 'a place',
            'tags': [],
            'slots': [{'id': f's{s}', 'time': f'2027-01-0{s + 1}T19:00:00Z', 'capacity': CAPACITY} for s in range(3)],
        }
        for n in range(VENUES)
    ]
    made.append(
        {
            **made[0],
            'slug': 'tiny',
            'name': 'Tiny',
            'agent_id': 'agent:tiny',
            'slots': [{'id': 'only', 'time': '2027-01-01T19:00:00Z', 'capacity': 1}],
        }
    )
    return made


def config(stripe):
    return names.config(more=names.billing(stripe) + names.AGENTS, venues='venues.json')


Order = collections.namedtuple('Order', 'number key kind envelope')


def order(number, rng: random.Random):
    """One confirm: which key, what kind, and the envelope. Its timestamp is made when it is first sent."""
    kind = rng.choices(list(KINDS), list(KINDS.values()))[0]
    payload = {
        'venue_id': f'house-{rng.randrange(VENUES):02}',
        'party_size': rng.randint(1, 9),
        'user_note': f'order {number}',
    }
    if rng.random() < 0.6:
        payload['slot_id'] = f's{rng.randrange(3)}'
    if kind == 'full':
        payload = {'venue_id': 'tiny', 'slot_id': 'only', 'user_note': f'order {number}'}
    if kind == 'nowhere':
        payload['venue_id'] = 'nowhere'
    return Order(number, rng.randrange(KEYS), kind, payload)


def envelope(asked, at):
    return {
        'protocol': PROTOCOL,
        'from': f'client-{asked.key}',
        'to': NETWORK,
        'intent': 'booking.confirm',
        'payload': asked.envelope,
        'agent_context': {'order': asked.number},
        'ttl_ms': TTL_MS,
        'timestamp': at,
    }


def encoded(value):
    return json.dumps(value).encode()


def now():
    return stamp()
