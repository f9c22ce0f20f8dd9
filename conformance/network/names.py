"""Every name that is the server's own: of its configuration, of its tables, of its metrics. Nothing else knows them."""

import contextlib
import re
import sqlite3

from envelope import NETWORK

# The keys of the vectors, so that what was signed with them verifies here.
CURRENT = bytes.fromhex('00112233445566778899aabbccddeeff0123456789abcdeffedcba9876543210')
PREVIOUS = bytes.fromhex('ffeeddccbbaa99887766554433221100fedcba98765432100123456789abcdef')
SIGNING_ENV = 'JUDGE_SIGNING_KEY'
PREVIOUS_ENV = 'JUDGE_PREVIOUS_KEY'
STRIPE_ENV = 'JUDGE_STRIPE_KEY'
VENUES_FILE = 'given/venues.json'
VERSION = '2026.11'
# An agent besides the network, so that the hub is one.
AGENTS = """
[[agent]]
name = "demo"
kind = "echo"
default = true
"""


def config(network='', ring='', more='', id=NETWORK, signing=True, venues=VENUES_FILE):
    """The configuration of a network. `network` goes into its section, `ring` into that of its signing keys."""
    keys = f'[auth.agnt]\nderivation = "hex"\nsigning_key = "env:{SIGNING_ENV}"\n{ring}\n' if signing else ''
    return (
        f'[auth]\naccept = ["api_key"]\n{keys}'
        f'[egress]\nallow = ["127.0.0.0/8"]\n'
        f'[network]\nid = "{id}"\nversion = "{VERSION}"\nvenues = "{venues}"\n{network}\n{more}\n'
    )


def billing(url):
    """The section that sends usage to a Stripe-shaped server."""
    return (
        f'[network.billing]\nurl = "{url}/"\nsecret_key = "env:{STRIPE_ENV}"\nmeter = "mtr_judge"\n'
        'event_name = "bookings"\nnightly = false\n'
    )


def peer(id, url, variable):
    """A network beside this one, with the key that it issued to us."""
    return f'[[network.peer]]\nid = "{id}"\nurl = "{url}"\nkey = "env:{variable}"\n'


def signing(file):
    """What the network signs its own record with."""
    return f'[server.signing]\nkeys = ["file:{file}"]\n'


def coverage(**lists):
    lines = ''.join(f'{name} = {entries!r}\n' for name, entries in lists.items())
    return f'[network.coverage]\n{lines}'


def payments(stripe):
    """The sections that take money by card."""
    return (
        '[network.payments]\npayment_max = 1000000\nday_max = 5000000\n'
        f'[network.payments.stripe]\nurl = "{stripe}/"\nsecret_key = "env:{STRIPE_ENV}"\n'
    )


# --- Rows -------------------------------------------------------------------------------------------------------------


def uuid_of(key, salt):
    """The id that a row is shown with; in the rows it is a number that rises and one that does not."""
    return (
        f"printf('%08x-%04x-7%03x-%04x-%012x', {key} >> 31, ({key} >> 15) & 65535, ({key} & 32767) >> 3, "
        f'32768 | (({key} & 7) << 11) | ({salt} >> 48), {salt} & 281474976710655)'
    )


BOOKINGS = f'SELECT {uuid_of("k", "salt")} AS booking, venue, slot, key, status FROM booking'
USAGE = f'SELECT {uuid_of("k", "salt")} AS booking, cents, key, customer, batch, synced_at FROM usage'
SLOTS = 'SELECT venue, id AS slot, capacity, taken FROM slot'
VENUES = 'SELECT id AS venue, slug FROM venue'


def rows(database, query, *values):
    """Read beside the server, as any program could."""
    with contextlib.closing(sqlite3.connect(f'file:{database}?mode=ro', uri=True, timeout=10)) as connection:
        connection.row_factory = sqlite3.Row
        return [dict(row) for row in connection.execute(query, values)]


# --- Metrics ----------------------------------------------------------------------------------------------------------

METERED = 'a2a_metered_events_total'
DRIFT = 'a2a_metering_drift'


def read_metrics(text):
    """Prometheus text as `{name: {labels: value}}`, labels as a sorted tuple of pairs."""
    found = {}
    for line in text.splitlines():
        match = re.fullmatch(r'([a-zA-Z_:][\w:]*)(?:\{(.*)\})? (\S+)(?: \d+)?', line)
        if match:
            name, labels, value = match.groups()
            pairs = tuple(sorted(re.findall(r'(\w+)="((?:[^"\\]|\\.)*)"', labels or '')))
            found.setdefault(name, {})[pairs] = float(value)
    return found


def total(metrics, name, **labels):
    """The sum of a metric over every series that has these labels."""
    return sum(v for pairs, v in metrics.get(name, {}).items() if set(labels.items()) <= set(pairs))
