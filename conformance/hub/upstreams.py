"""Upstreams: the agents behind the hub, and who speaks to each of them in its own dialect.

Those of others are the servers of `conformance/servers`. Ours is another `sabir serve`, with a script that does what
they do.
"""

import contextlib
import dataclasses

import network
import servers

OURS = """
[[agent]]
name = "play"
kind = "script"
default = true
[[agent.rule]]
when = { text_matches = "^message" }
do = [{ message = "to you" }]
[[agent.rule]]
when = { text_matches = "^slow" }
do = [
    { status = "" },
    { wait_ms = 300 }, { artifact = { id = "slow-1", name = "slow", text = "chunk 1 " } },
    { wait_ms = 300 }, { artifact = { id = "slow-1", text = "chunk 2 ", append = true } },
    { wait_ms = 300 }, { artifact = { id = "slow-1", text = "chunk 3 ", append = true, last_chunk = true } },
    { complete = "" },
]
[[agent.rule]]
when = { text_matches = "^ask" }
do = [{ ask_input = "Which city?" }]
then = [{ echo = true }, { complete = "thank you" }]
[[agent.rule]]
when = { text_matches = "^auth" }
do = [{ ask_auth = "Log in at https://login.example and say when you have" }]
then = [{ complete = "thank you" }]
[[agent.rule]]
when = { text_matches = "^fail" }
do = [{ fail = "it did not work" }]
[[agent.rule]]
when = { text_matches = "^reject" }
do = [{ reject = "not my trade" }]
[[agent.rule]]
when = { text_matches = "^hold" }
do = [{ status = "holding" }, { wait_ms = 60000 }, { complete = "" }]
[[agent.rule]]
when = { text_matches = "^files" }
do = [
    { artifact = { id = "f", filename = "raw.bin", media_type = "application/octet-stream", raw = "AAEC/w==" } },
    { artifact = { id = "d", data = { count = 3, list = [1, "two", true] } } },
    { artifact = { id = "u", url = "https://files.example/paper.txt", filename = "paper.txt", media_type = "text/plain" } },
    { complete = "" },
]
[[agent.rule]]
do = [{ echo = true }, { complete = "" }]
"""


@dataclasses.dataclass(frozen=True)
class Place:
    """Where a caller goes: the address that has a card, and the exact one of JSON-RPC where there is no guessing."""

    base: str
    rpc: str | None = None


@dataclasses.dataclass(frozen=True)
class Upstream:
    # What it is, for the page.
    what: str
    # Which caller speaks to it directly.
    direct: str
    kind: str | None
    # How often a cell may be played. An agent that does not always tell the same is asked again before a cell has failed.
    attempts_max: int = 1


UPSTREAMS = {
    'python-1': Upstream('`a2a-sdk` 1.3.0 (Python), A2A 1.0', '1.0 JSON-RPC', 'python-1'),
    'python-0.3': Upstream('`a2a-sdk` 0.3.26 (Python), A2A 0.3', '0.3 JSON-RPC', 'python-0.3'),
    'js-1': Upstream('`@a2a-js/sdk` 1.3.0, A2A 1.0', '1.0 JSON-RPC', 'js-1'),
    'js-0.3': Upstream('`@a2a-js/sdk` 0.3.14, A2A 0.3', '0.3 JSON-RPC', 'js-0.3'),
    'v0.1': Upstream('`pya2a` 0.1.1 (Python), A2A 0.1', '0.1', 'v0.1'),
    'agent-native': Upstream('`@agent-native/core` 0.133.3', 'agent-native', 'agent-native'),
    'xpr': Upstream('a server after the XPR runner', 'XPR', 'xpr'),
    'agnt': Upstream('a stand-in for AGNT’s booking network', 'AGNT', 'by hand'),
    'sabir': Upstream('`sabir serve`', '1.0 JSON-RPC', None),
}
# Those whose SDK has to be compiled, once for each binding, because the two bindings of 0.3 that follow its proto have their
# own forms of files and errors. All are called directly over JSON-RPC: the Python SDK, as the caller, reads neither every
# stream of Go over HTTP+JSON of 0.3 nor its errors over gRPC. Of 600 streams of the SDK for Java, one has its end before its
# last artifact.
COMPILED = {
    'go-1': Upstream('`a2a-go` 2.4.0, A2A 1.0 over JSON-RPC', '1.0 JSON-RPC', 'go-1'),
    'go-1-rest': Upstream('`a2a-go` 2.4.0, A2A 1.0 over HTTP+JSON', '1.0 JSON-RPC', 'go-1-rest'),
    'go-1-grpc': Upstream('`a2a-go` 2.4.0, A2A 1.0 over gRPC', '1.0 JSON-RPC', 'go-1-grpc'),
    'go-as-0.3': Upstream('`a2a-go` 2.4.0, A2A 0.3 over JSON-RPC', '0.3 JSON-RPC', 'go-as-0.3'),
    'go-as-0.3-rest': Upstream('`a2a-go` 2.4.0, A2A 0.3 over HTTP+JSON', '0.3 JSON-RPC', 'go-as-0.3-rest'),
    'go-as-0.3-grpc': Upstream('`a2a-go` 2.4.0, A2A 0.3 over gRPC', '0.3 JSON-RPC', 'go-as-0.3-grpc'),
    'go-0.3': Upstream('`a2a-go` 0.3.15, A2A 0.3 over JSON-RPC', '0.3 JSON-RPC', 'go-0.3'),
    'go-0.3-grpc': Upstream('`a2a-go` 0.3.15, A2A 0.3 over gRPC', '0.3 JSON-RPC', 'go-0.3-grpc'),
    'java-0.3': Upstream('`io.github.a2asdk` 0.3.3.Final, A2A 0.3 over JSON-RPC', '0.3 JSON-RPC', 'java-0.3', 3),
    'java-0.3-rest': Upstream('`io.github.a2asdk` 0.3.3.Final, A2A 0.3 over HTTP+JSON', '0.3 JSON-RPC', 'java-0.3-rest', 3),
}
ALL = {**UPSTREAMS, **COMPILED}
ALLOW = '[egress]\nallow = ["127.0.0.0/8"]\n'


@contextlib.contextmanager
def serving(world, name):
    """Starts an upstream and yields where it is, for those who call it directly."""
    upstream = ALL[name]
    if upstream.kind is None:
        with world.server('', agents=OURS) as server:
            yield Place(server.url)
        return
    if name == 'agnt':
        with network.serving() as url:
            yield Place(url)
        return
    with servers.serving(upstream.kind) as server:
        yield Place(server.url, server.interfaces['JSONRPC'])


def agent(name, url, *lines, default=False):
    """The configuration of an agent elsewhere."""
    more = ''.join(f'{line}\n' for line in lines)
    return f'[[agent]]\nname = "{name}"\nkind = "a2a"\nurl = "{url}"\n{"default = true" if default else ""}\n{more}'


@contextlib.contextmanager
def hub(world, *agents, config=ALLOW):
    """A hub with these agents, started."""
    with world.server(config, agents='\n'.join(agents)) as server:
        yield server
