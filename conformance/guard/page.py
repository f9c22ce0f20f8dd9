"""Writes `docs/guard-matrix.md`: what the guard answers, and that every cell of the table was seen to be so.

Nothing here differs from run to run on the same code.
"""

import collections

import table
from bindings import BINDINGS
from matrix import cell_name

HEAD = """# Who gets in, and what the others are told

What `sabir serve` answers to good and bad credentials, over every binding and in every dialect. Written by
`conformance/guard/run --sabir target/release/sabir`, which makes every call of it, and checked by the same with
`--check`; do not edit it. The table it is made from is
[`conformance/guard/table.py`](../conformance/guard/table.py).
"""
FAMILIES = {
    'http': 'HTTP+JSON 1.0, 0.3',
    'jsonrpc': 'JSON-RPC 1.0, 0.3, 0.2, 0.1',
    'native': 'agent-native',
    'xpr': 'XPR',
    'grpc': 'gRPC 1.0, 0.3',
}
MEANINGS = {
    'unauthenticated': 'missing, wrong, expired or replayed credential',
    'forbidden': 'scope or trust does not reach',
    'too-many': 'over the limit',
    'not-configured': 'production without authentication',
    'unavailable': 'cannot be checked now',
    'not-found': "another caller's or tenant's task, and one that never was",
}


def text(outcomes):
    out = [
        HEAD,
        '## Answers',
        '',
        'HTTP status (gRPC: number of the status), JSON-RPC code, headers that are there.',
        '',
    ]
    out += grid(
        ['', *FAMILIES.values()],
        [[MEANINGS[name], *(str(answers[family]) for family in FAMILIES)] for name, answers in table.ANSWERS.items()],
    )
    out += ['## Cases', '']
    out += grid(['Case', 'What it is'], [[f'`{name}`', meaning] for name, meaning in table.CASES.items()])
    out += ['## Seen', '', 'Cells that passed, of those that can be.', '']
    rows = []
    for scheme, meaning in table.SCHEMES.items():
        cells = collections.defaultdict(list)
        for its_scheme, binding, case, cell in table.cells(BINDINGS):
            if its_scheme == scheme and not isinstance(cell, table.Absent):
                cells[binding.name].append(outcomes.get(cell_name(scheme, binding, case)))
        shown = [f'{cells[n].count("ok")}/{len(cells[n])}' if cells[n] else '–' for n in BINDINGS]
        rows.append([f'`{scheme}`: {meaning}', *shown])
    out += grid(['Scheme', *BINDINGS], rows)
    out += ['## Not expressible', '', *absent()]
    known = sorted(name for name, outcome in outcomes.items() if outcome == 'known')
    out += ['## Known failures', '', *([f'- `{name}`' for name in known] or ['None.']), '']
    return '\n'.join(out).rstrip() + '\n'


def absent():
    found = collections.defaultdict(lambda: collections.defaultdict(set))
    for scheme, binding, case, cell in table.cells(BINDINGS):
        if isinstance(cell, table.Absent):
            found[scheme, case][cell.reason].add(binding.name)
    rows = []
    for (scheme, case), reasons in found.items():
        for reason, names in reasons.items():
            where = 'all' if len(names) == len(BINDINGS) else ', '.join(n for n in BINDINGS if n in names)
            rows.append([f'`{scheme}`', f'`{case}`', where, reason])
    return grid(['Scheme', 'Case', 'Binding', 'Why'], rows)


def grid(head, body):
    lines = [head, ['---'] * len(head), *body]
    return [f'| {" | ".join(cells)} |' for cells in lines] + ['']
