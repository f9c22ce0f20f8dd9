"""Envelopes that others passed on: whose chain is believed, and where it ends."""

import time

from envelope import PROTOCOL, canonical, mac, sign, stamp
from registry import check, equal
from setting import CURRENT, PREVIOUS, shared

RELAY = ('--relay',)


def passed(
    caller,
    hops,
    sender='origin',
    intent='network.ping',
    payload=None,
    key=CURRENT,
    to=None,
    at=None,
    spoil=None,
    **more,
):
    """An envelope that went through these hops, each of which signed the chain before it."""
    payload, moment, chain = payload or {}, stamp(), []
    to = to or caller.network
    for agent in hops:
        hop = {'agent': agent, 'at': int(time.time()) if at is None else at, 'kid': 'current'}
        text = {
            'protocol': PROTOCOL,
            'from': sender,
            'to': to,
            'intent': intent,
            'timestamp': moment,
            'payload': payload,
            'via': list(chain),
            **hop,
        }
        chain.append({**hop, 'ttl_ms': 4000, 'sig': mac(key, text)})
    if spoil:
        spoil(chain)
    signed = sign(payload, key, chain[-1]['agent'] if chain else sender)
    return caller.ask(intent, signed, sender=sender, to=to, timestamp=moment, via=chain, **more)


def relay(world):
    return shared(world).caller('enterprise', words=RELAY)


@check
def a_relay_speaks_for_others(world):
    caller = relay(world)
    for hops in (['network:b'], ['network:b', 'network:c'], ['a', 'b', 'c', 'd']):
        equal(f'{hops}', passed(caller, hops).said, (200, None))


@check
def whoever_is_no_relay_passes_nothing_on(world):
    caller = shared(world).caller('enterprise')
    equal('said', passed(caller, ['network:b']).said, (403, 'agent_mismatch'))


@check
def a_relay_signs_for_itself(world):
    """The payload is signed by the last hop, and by nobody else."""
    caller = relay(world)
    chain = []
    answer = passed(caller, ['network:b'], spoil=lambda made: chain.extend(made))
    equal('good', answer.status, 200)
    text = stamp()
    equal(
        'unsigned',
        caller.ask('network.ping', {}, sender='origin', timestamp=text, via=chain).said,
        (401, 'invalid_signature'),
    )
    other = caller.ask('network.ping', sign({}, CURRENT, 'somebody'), sender='origin', timestamp=text, via=chain)
    assert other.said in ((401, 'invalid_signature'), (403, 'agent_mismatch')), f'{other}'


@check
def a_chain_that_was_changed_is_not_believed(world):
    caller = relay(world)

    def renamed(chain):
        chain[0]['agent'] = 'network:x'

    def shortened(chain):
        del chain[0]

    def swapped(chain):
        chain[0], chain[1] = chain[1], chain[0]

    def inserted(chain):
        chain.insert(0, {**chain[0], 'agent': 'network:x'})

    for spoil in (renamed, shortened, swapped, inserted):
        answer = passed(caller, ['network:b', 'network:c'], spoil=spoil)
        assert answer.status in (401, 403), f'{spoil.__name__}: {answer}'
    equal('another key', passed(caller, ['network:b'], key=PREVIOUS).said, (401, 'invalid_signature'))
    equal('old', passed(caller, ['network:b'], at=int(time.time()) - 400).said, (401, 'invalid_signature'))


@check
def circles_are_refused(world):
    caller = relay(world)
    for hops, sender in (
        (['network:agnt'], 'origin'),
        (['network:b', 'network:agnt'], 'origin'),
        (['b', 'c', 'b'], 'origin'),
        (['origin'], 'origin'),
        (['network:b'], 'network:agnt'),
    ):
        equal(f'{sender} {hops}', passed(caller, hops, sender=sender).said, (508, 'loop_detected'))


@check
def chains_have_a_length(world):
    caller = relay(world)
    for count in (5, 8, 9, 40):
        equal(f'{count} hops', passed(caller, [f'hop-{n}' for n in range(count)]).said, (400, 'hop_limit_exceeded'))


@check
def a_chain_has_a_form(world):
    caller = relay(world)
    for via in (
        'x',
        {},
        [{}],
        [{'agent': 'b'}],
        [7],
        [{'agent': 'b', 'at': 1, 'kid': 'k', 'ttl_ms': 1, 'sig': 's', 'x': 1}],
        None,
    ):
        equal(f'{via}', caller.ask('network.ping', sign({}, CURRENT, 'b'), via=via).said, (422, 'invalid_envelope'))
    assert canonical({'b': 1, 'a': 'é'}) == b'{"a":"\\u00e9","b":1}'
