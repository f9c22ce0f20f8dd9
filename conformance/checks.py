"""The words the Python clients are written in: cases, checks, and the line that reports each.

A client registers its cases with `case`, describes its SDK with a class of peers, one for each binding, and hands both
to `run`. What it prints is what the runner reads: outcome, binding, case and reason, separated by tabs. The outcome is
`ok`, `FAIL`, or `n/a` when the SDK cannot express the operation. Clients exit with 0 also when cases fail; the runner
counts.
"""

import argparse
import asyncio
import logging

# Longer than anything a case waits for on purpose, so that only a server that hangs meets it.
CASE_SECONDS_MAX = 25
# The HTTP client of the Python SDKs gives up after five silent seconds; a server has to break the silence before that.
QUIET_SECONDS = 7
# Port 9 discards: the hook is only ever stored and looked up, nobody listens.
HOOK = 'http://127.0.0.1:8009/hook'

BINDINGS = ['JSONRPC', 'HTTP+JSON', 'GRPC']
CASES = {}


def case(name, speaking=('1.0', '0.3')):
    """Registers a case under the name it has in `cases/`, for clients that speak these versions."""

    def register(run):
        for version in speaking:
            CASES.setdefault(version, {})[name] = run
        return run

    return register


class NotExpressible(Exception):
    """The SDK's client has no way to ask for this."""


class Wrong(Exception):
    """The server answered, but not what it promised."""


# --- Checks -----------------------------------------------------------------------------------------------------------


def equal(what, got, want):
    if got != want:
        raise Wrong(f'{what}: got {got!r}, want {want!r}')


def present(what, got):
    if not got:
        raise Wrong(f'{what} is missing')


def short(value):
    return ' '.join(str(value).split())[:200]


def describe(error):
    return short(f'{type(error).__name__}: {error}')


async def outcome_of(call):
    """Waits for a call, or reads a stream to its end."""
    if hasattr(call, '__aiter__'):
        return [item async for item in call]
    return await call


class Follower:
    """A stream read in the background."""

    def __init__(self, stream):
        self.events, self.first = [], asyncio.Event()
        self.task = asyncio.create_task(self.read(stream))

    async def read(self, stream):
        try:
            async for event in stream:
                self.events.append(event)
                self.first.set()
        finally:
            self.first.set()

    async def opened(self):
        await self.first.wait()
        if self.task.done():
            self.task.result()
        return self

    async def ended(self):
        await self.task
        return self.events


# --- Running ----------------------------------------------------------------------------------------------------------


def report(outcome, binding, name, reason=''):
    print(outcome, binding, name, reason, sep='\t', flush=True)


async def run_binding(peer, cases):
    try:
        await asyncio.wait_for(peer.connect(), CASE_SECONDS_MAX)
    except Exception as error:
        for name in cases:
            report('FAIL', peer.binding, name, f'no client could be made: {describe(error)}')
        return
    for name, check in cases.items():
        try:
            await asyncio.wait_for(check(peer), CASE_SECONDS_MAX)
            report('ok', peer.binding, name)
        except NotExpressible as why:
            report('n/a', peer.binding, name, str(why))
        except NotImplementedError as why:
            report('n/a', peer.binding, name, f'the SDK says: {short(why)}')
        except Wrong as why:
            report('FAIL', peer.binding, name, short(why))
        except TimeoutError:
            report('FAIL', peer.binding, name, f'no result within {CASE_SECONDS_MAX} s')
        except Exception as error:
            report('FAIL', peer.binding, name, describe(error))
    await peer.close()


async def run_all(make, speaking, bindings):
    parser = argparse.ArgumentParser()
    parser.add_argument('base')
    parser.add_argument('--speak', default=speaking[0], choices=speaking, help='the version of the protocol to use')
    parser.add_argument('--binding', action='append', choices=BINDINGS)
    parser.add_argument('--case', action='append')
    options = parser.parse_args()
    cases = CASES[options.speak]
    if options.case:
        cases = {name: cases[name] for name in options.case}
    base = options.base.rstrip('/')
    # Side by side, because the quiet streams would otherwise add up, and because servers have more than one caller.
    peers = [make(base, binding, options.speak) for binding in options.binding or bindings]
    await asyncio.gather(*(run_binding(peer, cases) for peer in peers))


def run(make, speaking, bindings=BINDINGS):
    """Runs the cases on the command line's server. `make` is called with a base URL, a binding and a version."""
    logging.disable(logging.CRITICAL)
    asyncio.run(run_all(make, speaking, bindings))
