"""Plays the table: makes the calls of every cell, and compares what came back with what is expected.

One server per scheme, shared by all bindings, and one more for what needs another configuration. A cell passes when
every call in it ended as expected; the reason of a failure names the call, what was wanted and what was got.
"""

import contextlib
import re
import uuid

import bindings
import table
from bindings import BINDINGS, NOBODY
from schemes import SCHEMES
from server import AGENTS, NotServing

MAIN = '1.0 JSON-RPC'


class Wrong(Exception):
    """The server answered, but not as the table says."""


# --- Comparing --------------------------------------------------------------------------------------------------------


def refused(what, outcome, answer):
    got = (outcome.status, outcome.code)
    if got != (answer.status, answer.code):
        raise Wrong(f'{what}: want {answer}, got {outcome}')
    for name in answer.headers:
        if name not in outcome.headers:
            raise Wrong(f'{what}: want the header {name}, got {outcome}')


def served(what, outcome):
    if not outcome.served:
        raise Wrong(f'{what}: want it served, got {outcome}')
    return outcome.task


def met(what, outcome, cell):
    served(what, outcome) if cell.outcome == table.SERVED else refused(what, outcome, cell.answer)


def same_but_for_ids(one, other, ids):
    """Whether nobody could tell two answers apart who does not know the ids."""

    def plain(outcome):
        dropped = ('date', 'content-length', 'x-request-id', 'traceparent')
        headers = sorted((k, as_text(v)) for k, v in outcome.headers.items() if k not in dropped)
        text = f'{outcome.text} {headers}'
        for known in ids:
            text = text.replace(known, '<id>')
        return outcome.status, outcome.code, re.sub(r'"id":\s*\d+', '"id":0', text)

    return plain(one) == plain(other)


def as_text(value):
    """Details of a gRPC status travel as bytes."""
    return value.decode('latin-1') if isinstance(value, bytes) else value


# --- Cases ------------------------------------------------------------------------------------------------------------


class Scene:
    """One scheme with its server, ready for the cases."""

    def __init__(self, name, scheme, server):
        self.name, self.scheme, self.server = name, scheme, server
        self.tasks = {}

    def task(self, kind):
        """A task of the first caller, made over JSON-RPC 1.0: in the default tenant, or in another."""
        if kind not in self.tasks:
            more = {'tenant': 'acme'} if kind == 'other-tenant' else {}
            outcome = BINDINGS[MAIN].send(self.server, self.scheme.a, **more)
            self.tasks[kind] = served(f'a task for {kind}', outcome)
        return self.tasks[kind]

    def play(self, binding, case, cell):
        function = getattr(self, 'case_' + case.replace('-', '_'))
        if cell.outcome == table.HANDSHAKE:
            return self.handshake(binding, case)
        return function(binding, cell)

    def case_right(self, binding, cell):
        outcome = binding.send(self.server, self.scheme.a)
        met('send', outcome, cell)
        if cell.outcome == table.SERVED:
            again = binding.get(self.server, self.scheme.a, outcome.task)
            if served('get of the own task', again) != outcome.task:
                raise Wrong(f'get gave another task: {again}')

    def case_missing(self, binding, cell):
        met('send', binding.send(self.server, NOBODY), cell)
        if cell.outcome != table.SERVED:
            met('get', binding.get(self.server, NOBODY, str(uuid.uuid4())), cell)

    def case_wrong(self, binding, cell):
        met('send', binding.send(self.server, self.scheme.wrong), cell)

    def case_expired(self, binding, cell):
        met('send', binding.send(self.server, self.scheme.expired), cell)

    def case_replayed(self, binding, cell):
        if binding.grpc:
            met('send', binding.send(self.server, self.scheme.a), cell)
            return
        request = binding.sending('only once')
        headers = self.scheme.a.headers(request[3])
        served('the first time', binding.play(self.server, request, headers))
        met('the second time', binding.play(self.server, request, headers), cell)

    def case_other_caller(self, binding, cell):
        self.as_unknown(binding, self.scheme.b, self.task('other-caller'), cell)

    def case_other_tenant(self, binding, cell):
        self.as_unknown(binding, self.scheme.a, self.task('other-tenant'), cell)

    def as_unknown(self, binding, credential, task, cell):
        unknown = task[:-12] + uuid.uuid4().hex[:12]
        for verb in ('get', 'cancel'):
            call = getattr(binding, verb)
            one, other = (call(self.server, credential, name) for name in (task, unknown))
            refused(f'{verb} of an unknown task', other, cell.answer)
            refused(f'{verb} of that task', one, cell.answer)
            if not same_but_for_ids(one, other, {task, unknown}):
                raise Wrong(f'{verb} tells it from an unknown task: {one} and {other}')

    def case_forbidden(self, binding, cell):
        met('send', binding.send(self.server, self.scheme.limited), cell)

    def case_too_many(self, binding, cell):
        binding.send(self.server, self.scheme.busy, agent='busy')
        met('the second call of a minute', binding.send(self.server, self.scheme.busy, agent='busy'), cell)

    def case_not_configured(self, binding, cell):
        met('send', binding.send(self.server, NOBODY), cell)

    def case_unavailable(self, binding, cell):
        met('send', binding.send(self.server, self.scheme.a), cell)

    def handshake(self, binding, case):
        try:
            outcome = binding.send(self.server, getattr(self.scheme, case))
        except OSError:
            return
        if not (binding.grpc and outcome.status == 14):
            raise Wrong(f'send: want the handshake refused, got {outcome}')


# --- Running ----------------------------------------------------------------------------------------------------------


@contextlib.contextmanager
def scene(world, name, case):
    """The server a case is played on. Two cases need one of their own."""
    special = case if case in ('not-configured', 'unavailable') else None
    scheme = SCHEMES[name](world, away=special == 'unavailable')
    config = scheme.config()
    if special == 'not-configured':
        # Production without a word about who may enter.
        config, arguments = '', ('--production',)
    else:
        arguments = ()
    agents = AGENTS if special is None else AGENTS.partition('[[agent]]\nname = "other"')[0]
    tls = world.certificates.ca if scheme.tls else None
    server = world.server(config, env=scheme.env, tls=tls, arguments=arguments, agents=agents)
    if special is None:
        scheme.prepare(server)
    with server:
        scheme.ready()
        try:
            yield Scene(name, scheme, server)
        finally:
            bindings.forget(server)


def play(world, name, wanted=lambda cell: True):
    """All cells of a scheme: `(name of the cell, outcome, reason)` for each."""
    todo = [(binding, case, cell) for scheme, binding, case, cell in table.cells(BINDINGS) if scheme == name]
    todo = [entry for entry in todo if wanted(cell_name(name, entry[0], entry[1]))]
    groups = {}
    for binding, case, cell in todo:
        groups.setdefault(case if case in ('not-configured', 'unavailable') else None, []).append((binding, case, cell))
    for special, entries in groups.items():
        try:
            with scene(world, name, special) as stage:
                for binding, case, cell in entries:
                    yield cell_name(name, binding, case), *one(stage, binding, case, cell)
        except (NotServing, AssertionError) as why:
            for binding, case, cell in entries:
                if isinstance(cell, table.Absent):
                    yield cell_name(name, binding, case), 'n/a', cell.reason
                else:
                    yield cell_name(name, binding, case), 'FAIL', f'could not be played: {" ".join(str(why).split())}'


def cell_name(scheme, binding, case):
    return f'matrix/{scheme}/{binding.name}/{case}'


def one(stage, binding, case, cell):
    if isinstance(cell, table.Absent):
        return 'n/a', cell.reason
    try:
        stage.play(binding, case, cell)
    except Wrong as why:
        return 'FAIL', str(why)
    except Exception as error:
        return 'FAIL', f'{type(error).__name__}: {error}'
    return 'ok', ''
