"""Envelopes that others passed on: chains that are signed here, by the published text, are believed."""

import time

from envelope import PROTOCOL, mac, sign, stamp
from registry import check, equal
from setting import CURRENT, shared


def passed(caller, hops):
    """An envelope that went through these hops, each of which signed the chain before it."""
    moment, chain = stamp(), []
    for agent in hops:
        hop = {'agent': agent, 'at': int(time.time()), 'kid': 'current'}
        text = {
            'protocol': PROTOCOL,
            'from': 'origin',
            'to': caller.network,
            'intent': 'network.ping',
            'timestamp': moment,
            'payload': {},
            'via': list(chain),
            **hop,
        }
        chain.append({**hop, 'ttl_ms': 4000, 'sig': mac(CURRENT, text)})
    signed = sign({}, CURRENT, hops[-1])
    return caller.ask('network.ping', signed, sender='origin', to=caller.network, timestamp=moment, via=chain)


@check
def a_relay_speaks_for_others(world):
    caller = shared(world).caller('enterprise', words=('--relay',))
    for hops in (['network:b'], ['network:b', 'network:c'], ['a', 'b', 'c', 'd']):
        equal(f'{hops}', passed(caller, hops).said, (200, None))
