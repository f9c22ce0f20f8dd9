"""The clients nobody here wrote: what they are and how they are started.

A *peer* is one way to use one package: which version of the protocol it speaks, over which bindings, and which list of
cases it has to prove. Two peers may share a package: the SDKs of 1.x are also told to speak 0.3.
"""

import dataclasses

from catalog import AGENT_NATIVE, CAPTURED, GO, GO_0_3, JAVA_CLIENT, JS, JS_0_3, PYTHON, PYTHON_0_3, XPR
from package_cache import HERE, Package

ALL_BINDINGS = ('JSONRPC', 'HTTP+JSON', 'GRPC')


@dataclasses.dataclass(frozen=True)
class Peer:
    package: Package
    client: str
    # What it speaks, in the words of `docs/interop.md`.
    speaks: str
    cases: str
    bindings: tuple = ALL_BINDINGS
    arguments: tuple = ()

    def command(self):
        """Installs the package and returns the command that runs the client, to which the base URL is added."""
        return [*self.package.script(HERE / self.client, HERE / 'checks.mjs'), *self.arguments]


PEERS = {
    'python': Peer(PYTHON, 'python/client_v1.py', 'A2A 1.0', 'a2a-1.0'),
    'js': Peer(JS, 'js/client_v1.mjs', 'A2A 1.0', 'a2a-1.0'),
    'python-0.3': Peer(PYTHON_0_3, 'python-0.3/client_v03.py', 'A2A 0.3', 'a2a-0.3'),
    'js-0.3': Peer(JS_0_3, 'js-0.3/client_v03.mjs', 'A2A 0.3', 'a2a-0.3'),
    'python-as-0.3': Peer(PYTHON, 'python/client_v1.py', 'A2A 0.3', 'a2a-0.3', arguments=('--speak', '0.3')),
    'js-as-0.3': Peer(JS, 'js/client_v1.mjs', 'A2A 0.3', 'a2a-0.3', arguments=('--speak', '0.3')),
    'v0.1': Peer(CAPTURED['pya2a-0.1.1'], 'v0.1/client.py', 'A2A 0.1', 'a2a-0.1', bindings=('JSONRPC',)),
    'xpr': Peer(XPR, 'xpr/client.mjs', 'XPR', 'xpr', bindings=('JSONRPC',)),
    'agent-native': Peer(
        AGENT_NATIVE, 'agent-native/client.mjs', 'agent-native', 'agent-native', bindings=('JSONRPC',)
    ),
    # Not a client of others: one task by hand through all dialects.
    'journey': Peer(PYTHON, 'journey', 'all', 'journey', bindings=('all',)),
}

# Those that have to be compiled, which only the long form of `./test` does.
COMPILED = {
    'go': Peer(GO, 'go/client-2', 'A2A 1.0', 'core'),
    'go-as-0.3': Peer(GO, 'go/client-2', 'A2A 0.3', 'core', arguments=('-speak', '0.3')),
    # It has no transport for HTTP+JSON.
    'go-0.3': Peer(GO_0_3, 'go/client-0.3', 'A2A 0.3', 'core', bindings=('JSONRPC', 'GRPC')),
    'java-0.3': Peer(JAVA_CLIENT, 'java/client', 'A2A 0.3', 'core'),
}
ALL = {**PEERS, **COMPILED}
