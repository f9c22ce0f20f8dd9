"""The packages the servers are made with: those whose words `conformance/capture` keeps, at the same versions.

Installing is left to the capture, so a package is there once. Node looks for packages next to the script and above it,
so scripts go where the packages are.
"""

import importlib.machinery
import importlib.util
import os
import pathlib
import shutil
import signal
import sys

HERE = pathlib.Path(__file__).resolve().parent
CAPTURE = HERE.parent / 'capture'


def load(path, name):
    """A script as a module, though its file has no ending."""
    loader = importlib.machinery.SourceFileLoader(name, str(path))
    module = importlib.util.module_from_spec(importlib.util.spec_from_loader(name, loader))
    # Dataclasses look their module up.
    sys.modules[name] = module
    loader.exec_module(module)
    return module


sys.dont_write_bytecode = True
sys.path.insert(0, str(CAPTURE))
capture = load(CAPTURE / 'run', 'capture_run')
Unable = capture.Unable
say = capture.say
CACHE = capture.CACHE.parent / 'servers'


def go_quietly():
    """A run that is told to stop goes through `finally` and takes its servers along."""
    signal.signal(signal.SIGTERM, lambda *_: sys.exit(143))


def python(peer, script):
    """The command that runs a script with the packages of a peer; installs them first."""
    package = capture.PEERS[peer]
    package.install()
    return package.python(HERE / script)


def node(peer, script, *more):
    package = capture.PEERS[peer]
    package.install()
    return node_in(capture.CACHE / package.folder, script, *more)


def own_node(folder, script):
    """The same for a package that only the servers need, whose pins are in a folder here."""
    home, source = CACHE / folder, HERE / folder
    files = [source / 'package.json', source / 'package-lock.json', HERE.parent / 'js' / '.npmrc']

    def fill():
        say(f'installing {folder}')
        shutil.rmtree(home, ignore_errors=True)
        home.mkdir(parents=True)
        for file in files:
            shutil.copy(file, home)
        capture.command(['npm', 'ci', '--ignore-scripts', '--no-audit', '--no-fund', '--loglevel=error'], cwd=home)

    capture.unless_stamped(home, files, capture.output(['node', '--version']), fill)
    return node_in(home, script)


def node_in(home, script, *more):
    for path in (script, *more):
        place(HERE / path, home / path)
    return ['node', home / script]


def place(source, target):
    """Copies a file unless it is there: another server may be reading it."""
    text = source.read_bytes()
    target.parent.mkdir(parents=True, exist_ok=True)
    if not target.is_file() or target.read_bytes() != text:
        fresh = target.with_name(f'{target.name}.{os.getpid()}')
        fresh.write_bytes(text)
        fresh.replace(target)
