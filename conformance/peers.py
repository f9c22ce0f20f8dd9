"""The clients nobody here wrote: what they are and how they are started.

A *peer* is one way to use one package: which version of the protocol it speaks, over which bindings, and which list of
cases it has to prove. Two peers may share a package: the SDKs of 1.x are also told to speak 0.3.
"""

import dataclasses

from catalog import AGENT_NATIVE, JS, JS_0_3, PYTHON, PYTHON_0_3, XPR
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
    'xpr': Peer(XPR, 'xpr/client.mjs', 'XPR', 'xpr', bindings=('JSONRPC',)),
    'agent-native': Peer(
        AGENT_NATIVE, 'agent-native/client.mjs', 'agent-native', 'agent-native', bindings=('JSONRPC',)
    ),
    # Not a client of others: one task by hand through all dialects.
    'journey': Peer(PYTHON, 'journey', 'all', 'journey', bindings=('all',)),
}
