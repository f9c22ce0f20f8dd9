"""The folders into which packages of others are installed for the tests, one for each set of pins.

    .cache/conformance/<name>/<digest>/         `CONFORMANCE_CACHE` names another place than `.cache/conformance`

The digest covers everything the folder is made from: the pins, and the version of Python or Node. A folder is built
beside its place, under a lock, and renamed when it is complete. So a folder that is there is complete; it is never
built again and never removed, and programs run from it while others install. What a killed installation left is
removed by the next one that builds a folder of that name. Folders of pins that are no longer in use stay, because a
program may still run from them; delete `.cache` when no test runs.

What goes into the folders is decided in `python_package.py` and `node_package.py`; which there are, in `catalog.py`.
"""

import contextlib
import dataclasses
import fcntl
import hashlib
import os
import pathlib
import shutil
import subprocess
import sys
import tempfile
import time

from startup import REPORTED_LINES_MAX, Unable

HERE = pathlib.Path(__file__).resolve().parent
CACHE = pathlib.Path(os.environ.get('CONFORMANCE_CACHE') or HERE.parent / '.cache' / 'conformance').resolve()
# Part of every digest. Raise it when folders are built in another way.
RECIPE = 1


@dataclasses.dataclass(frozen=True)
class InstalledFolder:
    """A folder that is built once: `build` is given the folder to fill, and the place it will be moved to."""

    name: str
    digest: str
    build: object
    # What is in it, for people.
    title: str

    @property
    def home(self):
        return CACHE / self.name / self.digest

    def install(self):
        """Builds the folder unless it is there, and returns its path."""
        home = self.home
        if home.is_dir():
            return home
        with locked(home.parent, f'{self.title} is being installed'):
            # Another process may have built it while this one waited.
            if not home.is_dir():
                say(f'installing {self.title}')
                began = time.monotonic()
                with built_beside(home) as fresh:
                    self.build(fresh, home)
                    fresh.rename(home)
                say(f'installed {self.title} in {time.monotonic() - began:.0f} s')
        return home


@contextlib.contextmanager
def built_beside(place):
    """An empty folder beside a place whose lock is held. It is removed in the end, unless it was renamed."""
    for abandoned in place.parent.glob('*.new-*'):
        shutil.rmtree(abandoned, ignore_errors=True)
    fresh = pathlib.Path(tempfile.mkdtemp(prefix=f'{place.name}.new-', dir=place.parent))
    fresh.chmod(0o755)
    try:
        yield fresh
    finally:
        shutil.rmtree(fresh, ignore_errors=True)


@contextlib.contextmanager
def locked(folder, what):
    """Holds the lock of a folder, between processes and threads. It ends with the process, however that ends."""
    folder.mkdir(parents=True, exist_ok=True)
    with open(folder / 'lock', 'w') as lock:
        try:
            fcntl.flock(lock, fcntl.LOCK_EX | fcntl.LOCK_NB)
        except BlockingIOError:
            say(f'waiting: {what} by another process')
            fcntl.flock(lock, fcntl.LOCK_EX)
        yield


def digest_of(*ingredients):
    """The name of a folder that is made from these texts and files."""
    digest = hashlib.sha256(str(RECIPE).encode())
    for one in ingredients:
        content = one.read_bytes() if isinstance(one, pathlib.Path) else one.encode()
        # With its length, so that nothing can move from the end of one to the start of the next.
        digest.update(f'{len(content)}:'.encode() + content)
    return digest.hexdigest()[:16]


@dataclasses.dataclass(frozen=True)
class Package:
    """A folder below `conformance` with pins, and the package among them that the tests are about."""

    folder: str
    name: str

    @property
    def source(self):
        return HERE / self.folder

    @property
    def title(self):
        return f'{self.name} {self.version} ({self.folder})'

    @property
    def home(self):
        return self.installed.home

    def install(self):
        return self.installed.install()


def run(*command, **options):
    """Runs a program to its end and returns what it wrote."""
    try:
        done = subprocess.run(
            command, stdin=subprocess.DEVNULL, stdout=subprocess.PIPE, stderr=subprocess.STDOUT, text=True, **options
        )
    except OSError as error:
        raise Unable(f'{command[0]} is needed: {error}') from error
    if done.returncode:
        said = '\n'.join(f'    {line}' for line in done.stdout.splitlines()[-REPORTED_LINES_MAX:])
        raise Unable(f'{" ".join(map(str, command))} ended with exit code {done.returncode}:\n{said}')
    return done.stdout


def say(text):
    """Remarks go to standard error; standard output holds results only."""
    print(text, file=sys.stderr, flush=True)
