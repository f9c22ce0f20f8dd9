"""Two tongues, one network: the official SDKs find venues in the catalog and book by message; envelopes reach A2A agents."""

import contextlib
import json
import subprocess
import urllib.parse

import names
import startup
import venues
from catalog import PUSH, PYTHON_0_3
from package_cache import HERE
from registry import check, equal, holds
from setting import network

PEERS = {'1.0': (PUSH, 'python_v1.py'), '0.3': (PYTHON_0_3, 'python_v03.py')}


class Guest:
    """One SDK in a process of its own, asked a line at a time."""

    def __init__(self, version, url, key, log, *more):
        package, script = PEERS[version]
        self.command = [*map(str, package.script(HERE / 'network' / 'sdk' / script)), url, key, *more]
        self.process = subprocess.Popen(
            self.command,
            stdin=subprocess.PIPE,
            stdout=subprocess.PIPE,
            text=True,
            stderr=open(log, 'a'),
        )
        self.log = log

    def ask(self, do, **more):
        print(json.dumps({'do': do, **more}), file=self.process.stdin, flush=True)
        line = self.process.stdout.readline()
        assert line, startup.report(self.process, self.command, f'did not answer when it was asked to {do}', self.log)
        return json.loads(line)

    def send(self, **more):
        answer = self.ask('send', **more)
        assert 'error' not in answer, f'{more}: {answer["error"]}'
        return answer

    def close(self):
        self.process.stdin.close()
        try:
            self.process.wait(5)
        except subprocess.TimeoutExpired:
            self.process.kill()
            self.process.wait()


@contextlib.contextmanager
def guest(net, version, tier='pro', scopes=('full',), more=()):
    log = net.server.scratch / f'guest-{version}.err'
    one = Guest(version, f'{net.server.url}/agents/network', net.caller(tier, scopes).key, log, *more)
    try:
        yield one
    finally:
        one.close()


def booked_by(world, version):
    with network(world, venues=venues.sample(12)) as net, guest(net, version) as sdk:
        card = sdk.ask('card')
        holds({'booking.search', 'booking.confirm', 'venue.list'} <= set(card['skills']), f'{card}')
        found = sdk.send(skill='booking.search', data={'limit': 3})
        equal('a search is answered with a message', found['kind'], 'message')
        venue = found['parts'][0]['venues'][0]
        booked = sdk.send(skill='booking.confirm', data={'venue_id': venue['slug'], 'slot_id': 's0'})
        equal('a booking is a task', (booked['kind'], booked['state']), ('task', 'TASK_STATE_COMPLETED'))
        told = booked['parts'][0]
        equal('told', (told['status'], told['venue']['slug']), ('pending', venue['slug']))
        again = sdk.send(skill='booking.confirm', data={'venue_id': venue['slug'], 'slot_id': 's0'})
        equal('the slot is taken', again['parts'][0]['error']['code'], 'slot_unavailable')
        words = sdk.send(text=f'book {venue["slug"]} slot s1 for 2')
        equal('in words', (words['state'], words['parts'][0]['venue']['slug']), ('TASK_STATE_COMPLETED', venue['slug']))
        equal('bookings', len(net.rows(names.BOOKINGS)), 2)
        equal('counted', len(net.rows(names.USAGE)), 2)
        envelope_ = net.caller('pro').ask('booking.confirm', {'venue_id': venue['slug'], 'slot_id': 's0'})
        equal('an envelope after it', envelope_.said, (409, 'slot_unavailable'))


@check
def a_client_of_1_0_searches_and_books_by_message(world):
    booked_by(world, '1.0')


@check
def a_client_of_0_3_searches_and_books_by_message(world):
    booked_by(world, '0.3')


@check
def tiers_and_scopes_hold_in_every_tongue(world):
    with network(world, venues=venues.sample(4)) as net:
        for version in PEERS:
            for tier, scopes in (('free', ('full',)), ('pro', ('query',))):
                with guest(net, version, tier, scopes) as sdk:
                    answer = sdk.ask('send', skill='booking.confirm', data={'venue_id': 'venue-0001'})
                    good = 'error' not in answer and answer['state'] == 'TASK_STATE_COMPLETED'
                    holds(not good, f'{version}: a {tier} key with {scopes} books: {answer}')
        equal('bookings', net.rows(names.BOOKINGS), [])


def entries(net, words):
    """What the catalog has for these words, by name."""
    answer = net.server.call('GET', f'/catalog?q={urllib.parse.quote(words)}')
    equal('catalog', answer.status, 200)
    return {one['name']: one for one in answer.json['agents']}


@check
def a_venue_is_found_in_the_catalog_and_booked_through_what_stands_there(world):
    """By a client of 1.0 without a word about which venue; one of 0.3, which has no tenants, says it."""
    with network(world, venues=venues.sample(12)) as net:
        venue = net.venues[7]
        found = entries(net, f'{venue["name"]} {venue["city"]}')
        holds(venue['agent_id'] in found, f'{list(found)} has no {venue["agent_id"]}')
        entry = found[venue['agent_id']]
        holds('booking.confirm' in json.dumps(entry['skills']), f'{entry}')
        with guest(net, '1.0', more=(json.dumps(entry),)) as sdk:
            booked = sdk.send(skill='booking.confirm', data={'slot_id': 's1', 'party_size': 2})
            equal(
                'booked',
                (booked['state'], booked['parts'][0]['venue']['slug']),
                ('TASK_STATE_COMPLETED', venue['slug']),
            )
        with guest(net, '0.3') as sdk:
            booked = sdk.send(text=f'book {venue["slug"]} slot s1 for 2 people')
            equal(
                'booked',
                (booked['state'], booked['parts'][0]['venue']['slug']),
                ('TASK_STATE_COMPLETED', venue['slug']),
            )
        net.command('venue', 'disable', venue['slug'])
        holds(venue['agent_id'] not in entries(net, f'{venue["name"]} {venue["city"]}'), 'a disabled venue is found')
        equal('bookings', len(net.rows(names.BOOKINGS)), 2)
