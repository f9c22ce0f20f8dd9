"""What the servers are made with: the packages whose words `conformance/capture` keeps, at the same versions.

Programs of this folder import this module first; it also makes the modules beside this folder importable.
"""

import pathlib
import signal
import sys

HERE = pathlib.Path(__file__).resolve().parent
sys.dont_write_bytecode = True
if str(HERE.parent) not in sys.path:
    sys.path.append(str(HERE.parent))

from catalog import CAPTURED
from package_cache import say
from startup import Unable

__all__ = ['HERE', 'Unable', 'go_quietly', 'say', 'script']


def script(peer, path, *beside):
    """The command that runs a script of this folder with the packages of a peer; installs them first."""
    return CAPTURED[peer].script(HERE / path, *(HERE / one for one in beside), root=HERE)


def go_quietly():
    """A run that is told to stop goes through `finally` and takes its servers along."""
    signal.signal(signal.SIGTERM, lambda *_: sys.exit(143))
