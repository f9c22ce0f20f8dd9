"""The 66 requirements of the a2a-cli specification, and the checks that prove them.

`requirements.txt` pins packages; the requirements of the specification are in `requirements.tsv`: id, tier, sections,
meaning. A check is a function that takes a `harness.Case`, returns when the promise holds and raises when it does not.
It names the requirements it proves, the agents it runs against and the bindings it runs over:

    @requirement('A2ACLI_SEND_001', agents=LIVE, bindings=ALL)
    def a_message_starts_an_interaction(case): ...

Without `agents` a check brings its own scripted server, and runs once, or once per binding if it names any.
"""

import dataclasses
import importlib
import pathlib

HERE = pathlib.Path(__file__).resolve().parent
ALL = ('JSONRPC', 'HTTP+JSON', 'GRPC')
# `serve` and `demo` are `sabir serve` and `sabir demo-server`; `python` is the official Python SDK.
LIVE = ('serve', 'demo', 'python')
AREAS = (
    'card',
    'signature',
    'catalog',
    'send',
    'interact',
    'poll',
    'task',
    'subscribe',
    'download',
    'out',
    'errors',
    'exits',
    'auth',
    'login',
    'mtls',
    'oidc',
    'provider',
    'tx',
    'version',
    'config',
    'command',
    'push',
    'chat',
    'demo',
    'conform',
    'skill',
)
TOTALS = {1: 39, 2: 15, 3: 12}


@dataclasses.dataclass(frozen=True)
class Requirement:
    id: str
    tier: int
    sections: str
    meaning: str

    @property
    def area(self):
        """The part between the prefix and the number."""
        return self.id.removeprefix('A2ACLI_').rpartition('_')[0]


@dataclasses.dataclass(frozen=True)
class Check:
    name: str
    ids: tuple
    agents: tuple
    bindings: tuple
    function: object

    def places(self):
        """Every agent and binding this check runs on; `-` stands for a binding that does not matter."""
        return [(agent, binding) for agent in self.agents or ('stub',) for binding in self.bindings or ('-',)]


def read_requirements():
    found = {}
    for line in (HERE / 'requirements.tsv').read_text(encoding='utf-8').splitlines():
        if line and not line.startswith('#'):
            name, tier, sections, meaning = line.split('\t')
            found[name] = Requirement(name, int(tier), sections, meaning)
    for tier, total in TOTALS.items():
        there = sum(r.tier == tier for r in found.values())
        if there != total:
            raise ValueError(f'requirements.tsv has {there} requirements of tier {tier}, not {total}')
    return found


REQUIREMENTS = read_requirements()
CHECKS = []


def requirement(*ids, agents=(), bindings=()):
    unknown = set(ids) - set(REQUIREMENTS)
    if unknown or not ids:
        raise ValueError(f'no such requirement: {unknown or "none given"}')

    def register(function):
        name = f'{function.__module__.rpartition(".")[2]}.{function.__name__}'
        CHECKS.append(Check(name, ids, tuple(agents), tuple(bindings), function))
        return function

    return register


def load():
    """Imports every area, and insists that every requirement has a check."""
    for area in AREAS:
        importlib.import_module(f'checks.{area}')
    proven = {name for check in CHECKS for name in check.ids}
    if set(REQUIREMENTS) - proven:
        raise ValueError(f'no check for {sorted(set(REQUIREMENTS) - proven)}')
    names = [check.name for check in CHECKS]
    if len(set(names)) != len(names):
        raise ValueError(f'two checks share a name: {sorted(n for n in names if names.count(n) > 1)}')
    return CHECKS
