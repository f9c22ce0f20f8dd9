"""Envelopes that are for a venue's own agent: signed, and within the time of their caller."""

import venues
from envelope import verified
from registry import check, equal, holds
from setting import CURRENT, network
from venue_agent import VenueAgent


@check
def what_is_for_a_venue_is_sent_to_it_signed_and_within_the_time(world):
    given = venues.sample(1)
    with VenueAgent(given[0]['agent_id']) as agent, network(world, venues=[{**given[0], 'endpoint': agent.url}]) as net:
        answer = net.caller('pro').ask('booking.confirm', {'venue_id': 'venue-0000'}, to='agent:venue-0000', ttl=4000)
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
