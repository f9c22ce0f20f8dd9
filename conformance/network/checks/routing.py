"""Envelopes that are for a venue's own agent: signed, in time, and behind two breakers."""

import contextlib
import time

import venues
from envelope import stamp, verified
from registry import check, equal, holds
from setting import CURRENT, network, total
from venue_agent import VenueAgent

FAILURES = 5
SIGNED = {'_ts', '_from', '_sig'}


@contextlib.contextmanager
def venue_elsewhere(world, count=1, **more):
    """A network in which the first venues have agents of their own."""
    with contextlib.ExitStack() as stack:
        given = venues.sample(12)
        agents = []
        for number in range(count):
            agents.append(stack.enter_context(VenueAgent(given[number]['agent_id'])))
            given[number]['endpoint'] = agents[-1].url
        net = stack.enter_context(network(world, venues=given, **more))
        yield net, agents


def ask(net, number=0, **more):
    return net.caller('pro').ask(
        'booking.confirm', {'venue_id': f'venue-{number:04}'}, to=f'agent:venue-{number:04}', **more
    )


@check
def what_is_for_a_venue_is_sent_to_it_signed_and_within_the_time(world):
    with venue_elsewhere(world) as (net, (agent,)):
        answer = ask(net, ttl=4000, agent_context={'correlation_id': 'c-1'})
        equal('said', answer.said, (200, None))
        (sent,) = agent.envelopes
        equal(
            'envelope',
            (sent['protocol'], sent['to'], sent['intent']),
            ('openclaw/a2a/v1', 'agent:venue-0000', 'booking.confirm'),
        )
        equal('signature', verified(sent['payload'], CURRENT), None)
        holds(sent['ttl_ms'] <= 3950, f'{sent["ttl_ms"]} ms are left of 4000')
        rest = {name: value for name, value in sent['payload'].items() if not name.startswith('_')}
        equal('payload', rest.get('venue_id'), 'venue-0000')
        key = net.caller('pro').key
        holds(
            key.encode() not in agent.seen[0]['body'] and key not in str(agent.seen[0]['headers']),
            "the caller's key went along",
        )


@check
def a_venue_without_an_agent_is_booked_here(world):
    with venue_elsewhere(world) as (net, (agent,)):
        answer = ask(net, 5)
        equal('said', (answer.said, answer.payload['status']), ((200, None), 'pending'))
        equal('sent to the other', agent.seen, [])


@check
def what_a_venue_refuses_is_refused_and_no_failure(world):
    with venue_elsewhere(world) as (net, (agent,)):
        agent.way = 'refuse'
        for _ in range(FAILURES + 2):
            equal('said', ask(net).said, (409, 'slot_unavailable'))
        equal('asked', len(agent.seen), FAILURES + 2)
        equal('opened', total(net.metrics(), 'agnt_a2a_venue_cb_opened_total'), 0)


@check
def the_fifth_failure_opens_the_breaker_of_that_venue_alone(world):
    """Recorded as `trips-on-fifth`; the venue is asked no more, and another one is."""
    with venue_elsewhere(world, 2) as (net, (broken, other)):
        broken.way = 'down'
        for number in range(FAILURES):
            equal(f'failure {number + 1}', ask(net).said, (502, 'venue_unreachable'))
        refused = ask(net)
        equal('the sixth', refused.said, (503, 'circuit_open'))
        wait = int(refused.headers['retry-after'])
        holds(280 <= wait <= 300, f'Retry-After {wait}')
        holds('circuit breaker is open' in refused.error['message'], refused.error['message'])
        equal('asked', len(broken.seen), FAILURES)
        equal('another venue', ask(net, 1).said, (200, None))
        equal(
            'opened',
            (total(net.metrics(), 'agnt_a2a_venue_cb_opened_total'), total(net.metrics(), 'agnt_a2a_cb_opened_total')),
            (1, 0),
        )
        equal('the page', net.server.call('GET', '/a2a/v1/status').json['breaker'], {'global': 'closed'})
        equal('the network itself', net.caller('pro').ask('network.ping').status, 200)


@check
def a_success_does_not_clear_the_window(world):
    """Recorded as `success-does-not-clear`."""
    with venue_elsewhere(world) as (net, (agent,)):
        for way in ('down', 'down', 'down', 'down', 'book', 'down'):
            agent.way = way
            equal(way, ask(net).said, (200, None) if way == 'book' else (502, 'venue_unreachable'))
        equal('then', ask(net).said, (503, 'circuit_open'))


@check
def answers_that_are_none_count_as_failures(world):
    for way in ('nonsense', 'forged'):
        with venue_elsewhere(world) as (net, (agent,)):
            agent.way = way
            for _ in range(FAILURES):
                equal(way, ask(net).said, (502, 'venue_unreachable'))
            equal(f'{way}: then', ask(net).said, (503, 'circuit_open'))


@check
def a_venue_that_says_it_is_broken_counts_as_broken(world):
    """In its own words: they may be passed on, but they are a failure."""
    with venue_elsewhere(world) as (net, (agent,)):
        agent.way = '500'
        for _ in range(FAILURES):
            holds(ask(net).said in ((500, 'internal'), (502, 'venue_unreachable')), 'said otherwise')
        equal('then', ask(net).said, (503, 'circuit_open'))


@check
def an_impatient_caller_cannot_open_a_breaker(world):
    with venue_elsewhere(world) as (net, (agent,)):
        agent.way = 'silence'
        for _ in range(FAILURES + 3):
            began = time.monotonic()
            equal('impatient', ask(net, ttl=200).said, (504, 'ttl_exceeded'))
            holds(time.monotonic() - began < 2, 'was made to wait')
        agent.way = 'book'
        equal('then', ask(net).said, (200, None))


@check
def a_caller_is_answered_in_its_time_whatever_the_venue_does(world):
    with venue_elsewhere(world) as (net, (agent,)):
        agent.way = 'silence'
        for ttl in (300, 1500):
            began = time.monotonic()
            answer = ask(net, ttl=ttl)
            took = (time.monotonic() - began) * 1000
            equal(f'{ttl}', answer.said, (504, 'ttl_exceeded'))
            holds(took < ttl + 700, f'{took:.0f} ms for {ttl}')


@check
def two_venues_that_are_off_or_broken_do_not_switch_off_the_others(world):
    with venue_elsewhere(world, 3) as (net, agents):
        agents[0].way = 'down'
        agents[1].close()
        for number in (0, 1, 0, 1, 0, 1, 0):
            equal(f'venue {number}', ask(net, number).said, (502, 'venue_unreachable'))
        equal('a healthy one', ask(net, 2).said, (200, None))
        equal('opened', total(net.metrics(), 'agnt_a2a_cb_opened_total'), 0)
        status = net.server.call('GET', '/a2a/v1/status').json
        equal('the page', (status['status'], status['breaker']), ('ok', {'global': 'closed'}))


@check
def failures_of_any_kind_at_three_venues_open_the_breaker_of_all(world):
    with venue_elsewhere(world, 4) as (net, agents):
        agents[0].way = agents[2].way = 'down'
        agents[1].close()
        for number in (0, 1, 2, 0, 1):
            equal(f'venue {number}', ask(net, number).said, (502, 'venue_unreachable'))
        equal('a healthy one', ask(net, 3).said, (503, 'circuit_open'))
        equal('opened', total(net.metrics(), 'agnt_a2a_cb_opened_total'), 1)
        status = net.server.call('GET', '/a2a/v1/status').json
        equal('the page', (status['status'], status['breaker']), ('degraded', {'global': 'open'}))
        equal('what is kept here', ask(net, 4).said, (200, None))


@check
def one_venue_out_of_reach_has_its_breaker_opened(world):
    with venue_elsewhere(world, 2) as (net, agents):
        agents[0].close()
        for _ in range(FAILURES):
            equal('out of reach', ask(net).said, (502, 'venue_unreachable'))
        equal('then', ask(net).said, (503, 'circuit_open'))
        equal('another one', ask(net, 1).said, (200, None))
        equal('opened', total(net.metrics(), 'agnt_a2a_cb_opened_total'), 0)


@check
def a_transient_refusal_is_forgotten_so_that_a_retry_can_run(world):
    with venue_elsewhere(world) as (net, (agent,)):
        at = stamp()
        agent.way = 'down'
        equal('first', ask(net, timestamp=at).said, (502, 'venue_unreachable'))
        agent.way = 'book'
        equal('again, with the same timestamp', ask(net, timestamp=at).said, (200, None))
