"""What the checks have in common: a server with a booking network, keys for it, and a look at what it keeps.

    with network(world) as net:
        pro = net.caller('pro')
        pro.good('booking.confirm', {'venue_id': 'venue-0007'})
        net.rows(names.BOOKINGS)

Commands of the server stand in this file only; the rest of what is its own is in `names.py`.
"""

import contextlib
import json
import pathlib
import tempfile
import threading

import names
import venues as sample
from envelope import NETWORK, Caller, envelope
from names import AGENTS, CURRENT, PREVIOUS, PREVIOUS_ENV, SIGNING_ENV, config
from server import until

__all__ = [
    'CURRENT',
    'PREVIOUS',
    'PREVIOUS_ENV',
    'network',
    'scratch',
    'shared',
]


class Network:
    """A running network: its server, its keys and its rows."""

    def __init__(self, server, venues, id=NETWORK):
        self.server, self.venues, self.id = server, venues, id
        self.callers, self.lock = {}, threading.Lock()

    # --- Who calls ------------------------------------------------------------------------------------------------

    def key(self, tier='pro', scopes=('full',), agents=(), *words):
        """Issues a key; the document that `sabir key create` prints."""
        flags = ['--owner', 'judge', '--tier', tier]
        for scope in scopes:
            flags += ['--scope', scope]
        for agent in agents:
            flags += ['--from', agent]
        return self.server.command('key', 'create', *flags, *words)

    def caller(self, tier='pro', scopes=('full',), agents=(), sender='judge', words=()):
        """A caller with a key of these terms; the same terms have the same key."""
        terms = (tier, tuple(scopes), tuple(agents), tuple(words))
        # Checks may share a network, and none of them gets a key that is not taken yet.
        with self.lock:
            if terms not in self.callers:
                issued = self.key(tier, scopes, agents, *words)
                self.taken(issued['key'])
                self.callers[terms] = issued
        return self.with_key(self.callers[terms]['key'], sender)

    def taken(self, key):
        """Waits until a key is known; a running server takes it within a second."""
        caller, headers = self.with_key(key), [('Content-Type', 'application/json')]
        body = json.dumps(envelope('network.ping', to=self.id)).encode()
        until(lambda: caller.raw(body, headers).code != 'unauthorized', 'the key is taken')

    def key_id(self, tier='pro', scopes=('full',), agents=(), words=()):
        return self.callers[tier, tuple(scopes), tuple(agents), tuple(words)]['id']

    def with_key(self, key, sender='judge'):
        return Caller(self.server.address, key, sender, self.id)

    # --- Commands -------------------------------------------------------------------------------------------------

    def command(self, *words, **more):
        return self.server.command(*words, **more)

    def bookings(self, *words):
        return self.command('booking', 'list', *words)['bookings']

    def transition(self, id, to):
        return self.command('booking', 'transition', id, to)

    def webhook(self, key_id, url, *events):
        """Registers a webhook for a key; the document, with the secret that is shown once."""
        return self.command(
            'webhook', 'add', '--key', key_id, '--url', url, *(w for e in events for w in ('--event', e))
        )

    # --- What it keeps ----------------------------------------------------------------------------------------------

    @property
    def database(self):
        return self.server.scratch / 'data' / 'sabir.db'

    def rows(self, query, *values):
        return names.rows(self.database, query, *values)


@contextlib.contextmanager
def network(world, venues=None, more='', section='', ring='', env=None, id=NETWORK, signing=True, **rest):
    """A server with a network of these venues; 240 of them unless told otherwise."""
    venues = sample.sample() if venues is None else venues
    text = config(section, ring, more, id, signing)
    environment = {SIGNING_ENV: CURRENT.hex(), PREVIOUS_ENV: PREVIOUS.hex(), **(env or {})}
    server = world.server(text, agents=rest.pop('agents', AGENTS), env=environment, **rest)
    server.given('venues.json', json.dumps(venues, ensure_ascii=False))
    with server:
        yield Network(server, venues, id)


def shared(world):
    """A network that checks may share which leave nothing behind that others would trip over: reads, and refusals."""

    def make():
        stack = contextlib.ExitStack()
        net = stack.enter_context(network(world))
        net.close = stack.close
        return net

    return world.once('network', make)


def scratch(world, name):
    return pathlib.Path(tempfile.mkdtemp(prefix=f'{name}-', dir=world.scratch))
