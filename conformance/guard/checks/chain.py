"""What is asked of the chain: registration, KYC, trust, and what happens when it is away, slow or lying."""

import json
import threading
import time

import k1
from bindings import Signed
from chain import ACCOUNT, ROWS, Chain, full_score, runner_score
from clock import Clock
from registry import check, equal, holds
from server import AGENTS, until
from stage import RPC, XPR, account, running, said, xpr


def served(outcome):
    holds(outcome.served, f'want it served, got {outcome}')
    return outcome


@check
def only_registered_and_active_agents_enter(world):
    with xpr(world) as (server, chain):
        said(
            XPR.send(server, account(chain, 'mallory', registered=False)),
            -32000,
            "Account 'mallory' is not a registered agent",
        )
        said(XPR.send(server, account(chain, 'idle', active=0)), -32000, "Agent 'idle' is not active")
        served(XPR.send(server, account(chain, 'alice', active=True)))
        served(XPR.send(server, account(chain, 'bob', active=1)))
        refused = RPC.send(server, account(chain, 'mallory', registered=False))
        equal('over JSON-RPC', (refused.status, refused.code), (403, -32000))


@check
def registration_can_be_switched_off(world):
    with xpr(world, 'registration = false') as (server, chain):
        served(XPR.send(server, account(chain, 'mallory', registered=False)))
        equal('times the table of agents was read', chain.asked_rows('agents'), 0)


@check
def the_minimum_of_kyc_is_kept(world):
    with xpr(world, 'min_kyc = 2') as (server, chain):
        for name, level in (('low', 1), ('high', 2)):
            account(chain, name, kyc=level, owner=f'{name}owner')
            chain.kyc(f'{name}owner', level)
        said(XPR.send(server, Signed('low', k1.Key.named('low'))), -32000, 'KYC level 1 below minimum 2')
        served(XPR.send(server, Signed('high', k1.Key.named('high'))))
        said(XPR.send(server, account(chain, 'none')), -32000, 'KYC level 0 below minimum 2')


@check
def the_full_score_has_all_four_parts(world):
    """KYC of the owner, stake, reputation, longevity."""
    score = full_score(2, 5000 * 10000, 5000, 100)
    equal('the score of the test', score, 53)
    for minimum, wanted in ((score, True), (score + 1, False)):
        with xpr(world, f'min_trust = {minimum}') as (server, chain):
            alice = account(chain, 'alice', registered_days=100, stake=5000 * 10000, score=5000, owner='carol')
            chain.kyc('carol', 2)
            outcome = XPR.send(server, alice)
            if wanted:
                served(outcome)
            else:
                said(outcome, -32000, f'Trust score {score} below minimum {minimum}')


@check
def the_gate_of_the_runner_counts_less(world):
    """The caller's own KYC and longevity, and nothing else."""
    score = runner_score(2, 100)
    equal('the score of the test', score, 23)
    for minimum, wanted in ((score, True), (score + 1, False)):
        with xpr(world, f'min_trust = {minimum}\ngate = "runner"') as (server, chain):
            alice = account(chain, 'alice', registered_days=100, kyc=2, stake=5000 * 10000, score=9000, owner='carol')
            chain.kyc('carol', 3)
            outcome = XPR.send(server, alice)
            if wanted:
                served(outcome)
            else:
                said(outcome, -32000, f'Trust score {score} below minimum {minimum}')


@check
def keys_are_asked_for_once_in_five_minutes(world):
    clock = Clock(world)
    with xpr(world, clock=clock) as (server, chain):
        account(chain, 'alice')
        key = k1.Key.named('alice')
        for _ in range(3):
            served(XPR.send(server, Signed('alice', key, off=clock.off)))
        equal('times asked at first', chain.asked_account('alice'), 1)
        clock.forward(295)
        served(XPR.send(server, Signed('alice', key, off=clock.off)))
        equal('times asked within five minutes', chain.asked_account('alice'), 1)
        clock.forward(10)
        served(XPR.send(server, Signed('alice', key, off=clock.off)))
        until(lambda: chain.asked_account('alice') == 2, 'asked again after five minutes', seconds=5)


@check
def a_key_that_was_withdrawn_stops_with_the_cache(world):
    clock = Clock(world)
    with xpr(world, clock=clock) as (server, chain):
        account(chain, 'alice')
        old, new = k1.Key.named('alice'), k1.Key.named('alice anew')
        served(XPR.send(server, Signed('alice', old, off=clock.off)))
        chain.account('alice', new)
        clock.forward(305)
        # Whoever asks behind the answer may serve the old one once more.
        XPR.send(server, Signed('alice', old, off=clock.off))
        until(lambda: not XPR.send(server, Signed('alice', old, off=clock.off)).served, 'the old key refused', 5)
        served(XPR.send(server, Signed('alice', new, off=clock.off)))


@check
def known_callers_are_served_while_the_chain_is_away_but_not_for_ever(world):
    clock = Clock(world)
    with xpr(world, clock=clock) as (server, chain):
        account(chain, 'alice'), account(chain, 'bob')
        alice, bob = (lambda: Signed('alice', k1.Key.named('alice'), off=clock.off)), k1.Key.named('bob')
        served(XPR.send(server, alice()))
        chain.away = True
        served(XPR.send(server, alice()))
        said(XPR.send(server, Signed('bob', bob, off=clock.off)), -32000, '')
        clock.forward(330)
        served(XPR.send(server, alice()))
        clock.forward(3600)
        refused = RPC.send(server, alice())
        equal('an hour later', (refused.status, refused.code), (503, -32000))
        chain.away = False
        until(lambda: XPR.send(server, alice()).served, 'served when the chain is back', seconds=20, pause=0.3)


@check
def a_chain_that_is_away_is_not_a_wrong_signature(world):
    for fault in ('away', 'broken'):
        with xpr(world) as (server, chain):
            alice = account(chain, 'alice')
            if fault == 'away':
                chain.away = True
            else:
                chain.broken = {ACCOUNT, ROWS}
            said(XPR.send(server, alice), -32000, '')
            answer = RPC.send(server, alice)
            equal(f'{fault}: over JSON-RPC', (answer.status, answer.code), (503, -32000))
            holds('retry-after' in answer.headers, f'{fault}: no Retry-After: {answer}')


@check
def an_unknown_account_is_refused(world):
    with xpr(world) as (server, chain):
        refused = RPC.send(server, Signed('nobody', k1.Key.named('nobody')))
        equal('unknown account', (refused.status, refused.code), (401, -32000))


@check
def a_slow_chain_holds_up_nobody_else(world):
    with xpr(world) as (server, chain):
        alice, bob = account(chain, 'alice'), account(chain, 'bob')
        served(XPR.send(server, bob))
        chain.delay = 60
        began, waiting = time.monotonic(), []
        thread = threading.Thread(target=lambda: waiting.append(XPR.send(server, alice)))
        thread.start()
        time.sleep(0.2)
        served(XPR.send(server, bob))
        holds(time.monotonic() - began < 3, 'another caller had to wait for the chain')
        thread.join(20)
        holds(waiting, 'the caller whose keys are asked for was not answered within 20 s')
        said(waiting[0], -32000, '')
        return f'answered after {time.monotonic() - began:.1f} s'


class Liar(Chain):
    """Answers about one account with what is true of another."""

    truth = {}

    def answer(self, path, body):
        asked = json.loads(body or b'{}')
        for name in ('account_name', 'lower_bound', 'upper_bound'):
            asked[name] = self.truth.get(asked.get(name), asked.get(name))
        return super().answer(path, json.dumps(asked).encode())


@check
def what_is_true_of_another_account_proves_nothing(world):
    with Liar() as chain:
        bob, key = account(chain, 'bob'), k1.Key.named('bob')
        config = f'[auth]\naccept = ["xpr"]\n[auth.xpr]\nrpc_url = "{chain.url}"\n'
        with running(world, config, agents=AGENTS) as server:
            served(XPR.send(server, bob))
            chain.truth = {'alice': 'bob'}
            holds(not XPR.send(server, Signed('alice', key)).served, "bob's keys were taken for alice's")
    with Liar() as chain:
        account(chain, 'bob')
        alice = account(chain, 'alice', registered=False)
        config = f'[auth]\naccept = ["xpr"]\n[auth.xpr]\nrpc_url = "{chain.url}"\n'
        with running(world, config, agents=AGENTS) as server:
            real = chain.answer_rows
            chain.answer_rows = lambda asked: real({**asked, 'lower_bound': 'bob'})
            holds(not XPR.send(server, alice).served, "bob's registration was taken for alice's")


# --- The card ---------------------------------------------------------------------------------------------------------

MINE = """
[[agent]]
name = "demo"
kind = "echo"
default = true
[agent.xpr]
account = "myagent"
"""


def card(server):
    answer = server.call('GET', '/.well-known/agent.json')
    equal('status of the card', answer.status, 200)
    return answer.json


@check
def the_card_has_what_the_chain_says(world):
    with xpr(world, agents=MINE) as (server, chain):
        chain.agent(
            'myagent',
            registered_days=100,
            stake=5000 * 10000,
            score=5000,
            owner='carol',
            name='My Agent',
            description='does sums',
            endpoint='https://myagent.test',
            protocol='grpc',
            capabilities='["compute","ai"]',
        )
        chain.kyc('carol', 2)
        shown = until(lambda: (c := card(server)) and 'xpr:owner' in c and c, 'the card with members of the chain', 5)
        row = chain.tables['agentcore', 'agents', 'myagent']
        equal(
            'members',
            {k: v for k, v in shown.items() if k.startswith('xpr:')},
            {
                'xpr:account': 'myagent',
                'xpr:protocol': 'grpc',
                'xpr:trustScore': 53,
                'xpr:kycLevel': 2,
                'xpr:registeredAt': int(row['registered_at']),
                'xpr:owner': 'carol',
            },
        )
        equal('name', shown['name'], 'My Agent')
        equal('description', shown['description'], 'does sums')
        skills = {skill['id']: skill for skill in shown['skills']}
        equal(
            'a skill',
            {k: skills['compute'][k] for k in ('name', 'description', 'tags')},
            {
                'name': 'compute',
                'description': 'compute capability',
                'tags': ['compute'],
            },
        )
        holds('ai' in skills, f'skills are {list(skills)}')
        asked = chain.asked_rows('agents')
        for _ in range(5):
            card(server)
        holds(chain.asked_rows('agents') <= asked + 1, 'the chain is asked for every card')


@check
def the_card_has_defaults_while_the_chain_is_away(world):
    with xpr(world, agents=MINE) as (server, chain):
        chain.away = True
        began = time.monotonic()
        shown = card(server)
        holds(time.monotonic() - began < 10, 'the card had to wait for the chain')
        equal('account', shown['xpr:account'], 'myagent')
        equal('protocol', shown['xpr:protocol'], 'https')
        equal('registered', shown['xpr:registeredAt'], 0)
        absent = [name for name in ('xpr:trustScore', 'xpr:kycLevel', 'xpr:owner') if name in shown]
        equal('members that are not known', absent, [])
        holds(shown['name'] and shown['skills'] is not None, 'the rest of the card is there')


@check
def what_is_configured_is_not_asked_for(world):
    agents = MINE + 'owner = "dora"\ntrust_score = 7\n'
    with xpr(world, agents=agents) as (server, chain):
        chain.agent('myagent', owner='carol')
        shown = until(lambda: (c := card(server)).get('xpr:registeredAt') and c, 'the card', 5)
        equal('owner and score', (shown['xpr:owner'], shown['xpr:trustScore']), ('dora', 7))
