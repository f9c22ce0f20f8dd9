"""Servers as the checks need them: an agent that says who called it, and the sections that are always the same."""

import contextlib

import bindings
import k1
from bindings import BINDINGS, Signed
from chain import Chain
from server import AGENTS

RPC, HTTP, GRPC, XPR = (BINDINGS[name] for name in ('1.0 JSON-RPC', '1.0 HTTP+JSON', '1.0 gRPC', 'XPR'))
# Says what the guard told it about the caller.
WHOAMI = """
[[agent]]
name = "demo"
kind = "exec"
default = true
command = "echo caller=$A2A_CALLER; echo mode=$A2A_TOOL_MODE; echo job=$A2A_JOB_ID"
"""


@contextlib.contextmanager
def running(world, config, **more):
    """A server, started, with everything that hangs on it taken down afterwards."""
    ready = more.pop('prepare', None)
    server = world.server(config, **more)
    if ready:
        ready(server)
    with server:
        try:
            yield server
        finally:
            bindings.forget(server)


def texts(outcome):
    """Every text of the artifacts of a task, over JSON-RPC."""
    result = outcome.value['result']
    task = result.get('task') or result
    return ''.join(part.get('text', '') for made in task.get('artifacts', []) for part in made['parts'])


def who(server, credential, binding=RPC):
    """What the agent `whoami` was told: caller, mode and job."""
    outcome = binding.send(server, credential)
    assert outcome.served, f'not served: {outcome}'
    return dict(line.split('=', 1) for line in texts(outcome).splitlines() if '=' in line)


# --- XPR --------------------------------------------------------------------------------------------------------------


def account(chain, name):
    """An account that can sign and is an agent of good standing."""
    key = k1.Key.named(name)
    chain.account(name, key)
    chain.agent(name)
    return Signed(name, key)


@contextlib.contextmanager
def xpr(world, settings='', required='true', rate=100000, **more):
    """A server that takes K1 signatures, and the chain it asks: `server, chain`."""
    with Chain() as chain:
        section = f'[auth.xpr]\nrpc_url = "{chain.url}"\n' + (f'rate_per_minute = {rate}\n' if rate else '')
        config = f'[auth]\naccept = ["xpr"]\nrequired = {required}\n{section}{settings}\n'
        with running(world, config, agents=more.pop('agents', AGENTS), **more) as server:
            yield server, chain


def said(outcome, code, words):
    """Refused over XPR: HTTP 200, this code, these words."""
    got = (outcome.status, outcome.code)
    assert got == (200, code), f'want HTTP 200 and {code}, got {outcome}'
    assert words in outcome.message, f'want the words {words!r}, got {outcome.message!r}'
