"""Whether the tools of this test can be relied on: the signer, the table, the clock."""

import datetime
import json
import pathlib

import bindings
import k1
import matrix
import table
from bindings import BINDINGS, NOBODY, Outcome
from clock import Clock
from registry import check, equal, holds
from schemes import SCHEMES
from server import AGENTS

VECTORS = pathlib.Path(__file__).resolve().parents[3] / 'crates' / 'guard' / 'tests' / 'vectors'


@check
def the_signer_makes_the_recorded_signatures(world):
    """Twelve requests signed by the SDK of the network, byte for byte."""
    valid = json.loads((VECTORS / 'xpr-k1.json').read_text())['valid']
    for case in valid:
        key, body = k1.Key.from_pvt(case['pvt_k1']), case['body_utf8'].encode()
        forms = (key.public, key.legacy, key.wif, key.private)
        want = tuple(case[name] for name in ('public_key_k1', 'public_key_legacy', 'wif', 'pvt_k1'))
        equal(f'key of {case["name"]}', forms, want)
        equal(
            f'digest of {case["name"]}', k1.digest(case['account'], case['timestamp'], body).hex(), case['digest_hex']
        )
        equal(f'signature of {case["name"]}', key.sign(case['account'], case['timestamp'], body), case['signature'])
    return f'{len(valid)} signatures'


@check
def the_high_twin_of_a_signature_is_another_text(world):
    key = k1.Key.named('alice')
    text = key.sign('alice', 1700000000, b'{}')
    twin = k1.high_s(text)
    holds(twin != text and k1.high_s(twin) == text, f'{text} and {twin}')


@check
def the_table_is_whole(world):
    cells = list(table.cells(BINDINGS))
    equal('schemes', set(table.SCHEMES), set(SCHEMES))
    equal('bindings', len(BINDINGS), 10)
    equal('families', {binding.family for binding in BINDINGS.values()}, set(table.FAMILIES))
    for name, answers in table.ANSWERS.items():
        equal(f'columns of {name}', set(answers), set(table.FAMILIES))
    plain = len(table.SCHEMES) * len(BINDINGS) * (len(table.CASES) - len(table.ONLY))
    more = sum(len(BINDINGS) * len(schemes) for schemes in table.ONLY.values())
    equal('cells', len(cells), plain + more)
    absent = [cell for *_, cell in cells if isinstance(cell, table.Absent)]
    holds(all(cell.reason for cell in absent), 'a cell is absent without a reason')
    return f'{len(cells)} cells, {len(absent)} of them cannot be'


@check
def the_clock_of_a_server_can_be_moved(world):
    """The shim works on the program under test: a task of tomorrow says so."""
    clock = Clock(world, off=86400)
    with world.server('', env=clock.env, agents=AGENTS.partition('[[agent]]\nname = "other"')[0]) as server:
        answer = BINDINGS['1.0 JSON-RPC'].send(server, NOBODY)
        stamp = answer.value['result']['task']['status']['timestamp']
        said = datetime.datetime.fromisoformat(stamp.replace('Z', '+00:00')).timestamp()
        holds(abs(said - clock.now) < 60, f'the server says {stamp}')


@check
def the_table_notices_a_door_that_is_open(world):
    """The same calls against a server that asks nobody: every cell that expects a refusal must fail."""
    scheme = SCHEMES['native'](world)
    scheme.config()
    with world.server('[auth]\naccept = []\n') as server:
        stage = matrix.Scene('native', scheme, server)
        for name, binding, case, cell in table.cells(BINDINGS):
            if name != 'native' or isinstance(cell, table.Absent) or case in ('right', 'other-tenant', 'too-many'):
                continue
            outcome, _ = matrix.one(stage, binding, case, cell)
            equal(f'{binding.name}, {case}', outcome, 'FAIL')
        bindings.forget(server)


@check
def the_table_notices_an_answer_of_another_dialect(world):
    """A refusal with the code or the status of another family is not taken for the right one."""
    for name, answers in table.ANSWERS.items():
        for family, answer in answers.items():
            for other in {*answers.values()} - {answer}:
                headers = dict.fromkeys(other.headers, 'x')
                if (other.status, other.code) == (answer.status, answer.code) and set(answer.headers) <= set(headers):
                    continue
                try:
                    matrix.refused(name, Outcome(other.status, other.code, headers=headers), answer)
                except matrix.Wrong:
                    continue
                raise AssertionError(f'{name}: {other} was taken for {answer} of {family}')
