"""The matrix: every caller, through the hub, to every upstream, for every operation.

For each upstream the operations are first done directly, in its own dialect, and what was seen is kept. Then each caller
does the same through a hub. A cell passes when every probe of it shows the same text, state, artifacts and error, as the
caller's dialect can show them (`shown.py`), or differs exactly as a declared loss says (`losses.py`).
"""

import asyncio
import contextlib
import fnmatch

import losses
import shown
import upstreams
from callers import CALLERS, DIRECT
from probes import OPERATIONS

AT_ONCE = 4
CELL_SECONDS_MAX = 60


def cell_name(caller, upstream, operation):
    return f'matrix/{upstream}/{caller.replace(" ", "-")}/{operation}'


def cells(names=upstreams.UPSTREAMS):
    for upstream in names:
        for caller in CALLERS:
            for operation in OPERATIONS:
                yield caller, upstream, operation


def is_asked(caller, upstream, operation, wanted):
    absent = losses.absent(CALLERS[caller].dialect, upstream, operation)
    return not absent and wanted(cell_name(caller, upstream, operation))


async def asked(session, operation):
    """What each probe of an operation came to."""
    async with asyncio.timeout(CELL_SECONDS_MAX):
        return {probe: told async for probe, told in OPERATIONS[operation](session)}


async def play(world, upstream, wanted):
    """All wanted cells of one upstream: `(name, outcome, reason)`."""
    try:
        return await played(world, upstream, wanted)
    except Exception as error:
        # Nobody to compare with: none of its cells has been passed.
        names = [cell_name(caller, upstream, operation) for caller in CALLERS for operation in OPERATIONS]
        return [(name, 'FAIL', f'{type(error).__name__}: {error}') for name in names if wanted(name)]


async def played(world, upstream, wanted):
    with contextlib.ExitStack() as stack:
        direct = await asyncio.to_thread(stack.enter_context, upstreams.serving(world, upstream))
        section = upstreams.agent('far', direct.base, default=True)
        hub = await asyncio.to_thread(stack.enter_context, upstreams.hub(world, section))
        there = {}
        async with DIRECT[upstreams.ALL[upstream].direct].calling(direct) as session:
            for operation in OPERATIONS:
                if any(is_asked(caller, upstream, operation, wanted) for caller in CALLERS):
                    there[operation] = await asked(session, operation)
        gate = asyncio.Semaphore(AT_ONCE)

        async def visit(caller):
            async with gate:
                return [line async for line in through(hub, caller, upstream, there, wanted)]

        lines = await asyncio.gather(*map(visit, CALLERS))
        await asyncio.to_thread(stack.close)
        return [line for some in lines for line in some]


async def through(hub, caller, upstream, there, wanted):
    """One caller's cells at the hub."""
    for operation in OPERATIONS:
        name = cell_name(caller, upstream, operation)
        if not wanted(name):
            continue
        absent = losses.absent(CALLERS[caller].dialect, upstream, operation)
        if absent:
            yield name, 'n/a', absent
            continue
        for _ in range(upstreams.ALL[upstream].attempts_max):
            outcome, reason = await attempted(hub, caller, upstream, operation, there[operation])
            if outcome != 'FAIL':
                break
        yield name, outcome, reason


async def attempted(hub, caller, upstream, operation, there):
    """The outcome of one attempt at a cell, and why."""
    try:
        async with CALLERS[caller].calling(upstreams.Place(hub.url)) as session:
            here = await asked(session, operation)
    except Exception as error:
        return 'FAIL', f'{type(error).__name__}: {error}'
    return judged(caller, upstream, operation, there, here)


def judged(caller, upstream, operation, there, here):
    """The outcome of a cell, and why: what differs, or which losses were met."""
    dialect, wrong, met = CALLERS[caller].dialect, [], []
    for probe, got in here.items():
        want = shown.to(dialect, there[probe])
        for loss in losses.met(dialect, upstream, f'{operation}/{probe}'):
            instead = shown.to(dialect, loss.change(there[probe], there, dialect))
            if instead != want:
                want = instead
                met.append(loss.name)
        if got != want:
            wrong.append(f'{probe}: got {got}, want {want}')
    if wrong:
        return 'FAIL', '; '.join(wrong)
    return ('loss', ', '.join(met)) if met else ('ok', '')


def matching(patterns):
    return lambda name: not patterns or any(fnmatch.fnmatch(name, pattern) for pattern in patterns)
