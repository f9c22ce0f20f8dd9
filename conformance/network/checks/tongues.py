"""Two tongues, one network: the official SDKs find venues in the catalog and book by message; envelopes reach A2A agents."""

import contextlib
import json
import subprocess

import names
import venues
from envelope import envelope
from peers import PYTHON_0_3, PythonPackage
from registry import check, equal, holds
from setting import network

PYTHON = PythonPackage('push/python', 'a2a-sdk', 'Python')
PEERS = {'1.0': (PYTHON, 'network/sdk/python_v1.py'), '0.3': (PYTHON_0_3, 'network/sdk/python_v03.py')}


class Guest:
    """One SDK in a process of its own, asked a line at a time."""

    def __init__(self, version, url, key, log):
        package, script = PEERS[version]
        self.process = subprocess.Popen([*map(str, package.script(script)), url, key], stdin=subprocess.PIPE,
                                        stdout=subprocess.PIPE, text=True, stderr=open(log, 'a'))
        self.log = log

    def ask(self, do, **more):
        print(json.dumps({'do': do, **more}), file=self.process.stdin, flush=True)
        line = self.process.stdout.readline()
        assert line, f'the SDK ended while it was asked to {do}: {self.log.read_text()[-400:]}'
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
def guest(net, version, tier='pro', scopes=('full',), path='/agents/network'):
    one = Guest(version, net.server.url + path, net.caller(tier, scopes).key, net.server.scratch / f'guest-{version}.err')
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


@check
def venues_are_found_in_the_catalog(world):
    with network(world, venues=venues.sample(12)) as net:
        key = net.caller('pro').key
        headers = {'Authorization': f'Bearer {key}', 'A2A-Version': '1.0'}
        catalog = net.server.call('GET', '/.well-known/ai-catalog.json', headers)
        equal('catalog', catalog.status, 200)
        text = catalog.body.decode()
        holds('venue-0007' in text, f'no venue is in the catalog: {text[:400]}')


@check
def an_envelope_reaches_an_agent_of_the_hub_that_declares_the_skills(world):
    agents = names.AGENTS + """
[[agent]]
name = "bistro"
kind = "exec"
command = "cat >/dev/null; echo '{\\"booking_id\\":\\"b-1\\",\\"status\\":\\"pending\\"}'"
[agent.card]
description = "an A2A agent that takes bookings"
version = "1.0.0"
[[agent.card.skills]]
id = "booking.confirm"
name = "Book"
description = "takes a booking"
tags = ["booking"]
"""
    with network(world, venues=venues.sample(3), agents=agents) as net:
        answer = net.caller('pro').post(envelope('booking.confirm', {'venue_id': 'bistro'}, to='bistro'))
        equal('said', (answer.status, answer.json['from']), (200, 'bistro'))
        refused = net.caller('pro').post(envelope('booking.confirm', {'venue_id': 'demo'}, to='demo'))
        equal('one without the skills', refused.said, (404, 'venue_not_found'))
