"""Writes `docs/hub-matrix.md`: which caller reaches which agent, and what is lost on the way.

Nothing here differs from run to run on the same code.
"""

import losses
import registry
from callers import CALLERS
from matrix import cell_name
from probes import OPERATIONS

HEAD = """# Any caller, any agent

What callers of every dialect get from agents of every dialect, when `sabir serve` stands between them. Written by
`conformance/hub/run --sabir target/release/sabir`, which makes every call of it, and checked by the same with `--check`;
do not edit it.

For each agent the operations are first done directly, in its own dialect. Then each caller does the same through the
hub. A cell passes when text, state, artifacts and error code are the same, as the caller's dialect can show them
([dialects](dialects/README.md)). What differs is a loss, and each loss says exactly what is seen instead.

Callers of 1.0 and 0.3 are the official Python SDK, made from our card; the others are written by hand.
"""
MARK = '<!-- What follows is written by conformance/hub/run --compiled. -->'
COMPILED_HEAD = """## Agents in Go and Java

The same for agents on SDKs that have to be compiled. This part is written by
`conformance/hub/run --sabir target/release/sabir --compiled` and checked by the same with `--check`; do not edit it.
"""
MEANINGS = {
    'send': 'a text, a file of every kind, and a direct reply',
    'stream': 'three chunks, read to the end',
    'input-required': 'a question, its answer, and a request to log in',
    'cancel': 'of a task at work, and what it is afterwards',
    'get': 'of a completed task, and of one that asks',
    'error': 'tasks that fail and are rejected; tasks that are not there; tasks that have settled',
}
SIGNS = {'ok': 'yes', 'known': '**no**', 'n/a': '–'}


def with_part(there, agents, outcomes, known, compiled):
    """The page, with the part that this run is for in place of the one that was there."""
    first, _, second = there.partition(MARK)
    if compiled:
        return f'{first.rstrip()}\n\n{MARK}\n\n{compiled_part(agents, outcomes, known)}'
    rest = f'\n{MARK}\n\n{second.strip()}\n' if second else ''
    return part(agents, outcomes, known) + rest


def seen(agents, outcomes, level):
    """Each agent, and then each with a table of what every caller sees of it."""
    out = grid(['Agent', 'What it is'], [[f'`{name}`', one.what] for name, one in agents.items()])
    out += [f'{level[1:]} Seen', '', 'A number is that of a loss.', '']
    numbers = {loss: str(number) for number, loss in enumerate(losses.LOSSES, 1)}
    for name in agents:
        rows = [[caller, *(sign(outcomes, caller, name, one, numbers) for one in OPERATIONS)] for caller in CALLERS]
        out += [f'{level} `{name}`', '', *grid(['Caller', *OPERATIONS], rows)]
    return out


def compiled_part(agents, outcomes, known):
    out = [COMPILED_HEAD, *seen(agents, outcomes, '####')]
    out += ['### Known failures with agents in Go and Java', '', *failures(known), '']
    return '\n'.join(out).rstrip() + '\n'


def part(agents, outcomes, known):
    out = [HEAD, '## Operations', '']
    out += grid(['Operation', 'What is done'], [[f'`{name}`', MEANINGS[name]] for name in OPERATIONS])
    out += ['## Agents', '', *seen(agents, outcomes, '###')]
    out += ['## Losses', '']
    numbers = {loss: str(number) for number, loss in enumerate(losses.LOSSES, 1)}
    out += grid(
        ['', 'Where', 'What, and why'],
        [[numbers[loss], ', '.join(f'`{probe}`' for probe in loss.probes), loss.why] for loss in losses.LOSSES],
    )
    out += ['XPR has no streams, and AGNT has no tasks: an envelope is answered at once. There are no such cells.', '']
    out += ['## Beside the table', '', *grid(['Check', 'What is promised'], beside())]
    out += ['## Known failures', '', *failures(known), '']
    return '\n'.join(out).rstrip() + '\n'


def sign(outcomes, caller, upstream, operation, numbers):
    outcome = outcomes[cell_name(caller, upstream, operation)]
    if outcome != 'loss':
        return SIGNS[outcome]
    dialect = CALLERS[caller].dialect
    mine = [
        numbers[loss] for loss in losses.LOSSES
        if any(probe.startswith(f'{operation}/') for probe in loss.probes) and loss.holds(dialect, upstream)
    ]
    return f'yes, but {", ".join(mine)}'


def beside():
    """The checks, by what each says it is about; whether they hold, the run says."""
    rows = []
    for name, check in registry.load().items():
        words = (check.function.__doc__ or '').strip().partition('\n')[0]
        rows.append([f'`{name}`', words])
    return rows


def failures(known):
    """By reason, because one reason may spoil a whole row."""
    reasons = {}
    for name, why in known.items():
        reasons.setdefault(why, []).append(name)
    return [f'- {why}: {len(names)} of `{prefix(names)}`' for why, names in reasons.items()] or ['None.']


def prefix(names):
    parts = [set(column) for column in zip(*(name.split('/') for name in names))]
    return '/'.join(next(iter(column)) if len(column) == 1 else '*' for column in parts)


def grid(head, body):
    lines = [head, ['---'] * len(head), *body]
    return [f'| {" | ".join(cells)} |' for cells in lines] + ['']
