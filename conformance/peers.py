"""The clients nobody here wrote: what they are, how they are installed, how they are started.

A *peer* is one way to use one package: which version of the protocol it speaks, over which bindings, and which list of
cases it has to prove. Two peers may share a package: the SDKs of 1.x are also told to speak 0.3. Packages are installed
below the cache, from exact versions, and again only when those change.
"""

import base64
import dataclasses
import fcntl
import hashlib
import json
import pathlib
import re
import shutil
import subprocess
import sys
import tarfile

HERE = pathlib.Path(__file__).resolve().parent
CACHE = HERE.parent / '.cache' / 'conformance'
ALL_BINDINGS = ('JSONRPC', 'HTTP+JSON', 'GRPC')


class Unable(Exception):
    """The run could not be carried out, which says nothing about the server."""


@dataclasses.dataclass(frozen=True)
class Package:
    """A folder with pins, and what they pin."""

    folder: str
    name: str
    language: str

    @property
    def source(self):
        return HERE / self.folder

    @property
    def home(self):
        return CACHE / self.folder


class PythonPackage(Package):
    @property
    def version(self):
        pins = (self.source / 'requirements.txt').read_text()
        return re.search(rf'^{re.escape(self.name)}==(\S+)$', pins, re.M).group(1)

    def install(self):
        requirements = self.source / 'requirements.txt'

        def fill():
            if sys.version_info < (3, 11):
                raise Unable('the pinned versions need Python 3.11 or newer')
            say(f'installing {self.name} {self.version}')
            command([sys.executable, '-m', 'venv', '--clear', self.home])
            # The file is a complete freeze; resolving dependencies could only add something that is not pinned.
            command([self.home / 'bin' / 'pip', 'install', '--quiet', '--no-deps', '--requirement', requirements])

        unless_stamped(self.home, [requirements], sys.version, fill)

    def script(self, path):
        return [self.home / 'bin' / 'python', '-B', HERE / path]


class NodePackage(Package):
    @property
    def package(self):
        return json.loads((self.source / 'package.json').read_text())

    @property
    def version(self):
        return self.package['dependencies'][self.name]

    def install(self):
        files = [self.source / 'package.json', self.source / 'package-lock.json', HERE / 'js' / '.npmrc']

        def fill():
            say(f'installing {self.name} {self.version}')
            shutil.rmtree(self.home, ignore_errors=True)
            self.home.mkdir(parents=True)
            for file in files:
                shutil.copy(file, self.home)
            command(['npm', 'ci', '--ignore-scripts', '--no-audit', '--no-fund', '--loglevel=error'], cwd=self.home)
            self.add()

        unless_stamped(self.home, files, output(['node', '--version']), fill)

    def add(self):
        """What npm does not install."""

    def script(self, path):
        # Node looks for packages next to the script, so the script goes where they are.
        for file in (HERE / path, HERE / 'checks.mjs'):
            shutil.copy(file, self.home)
        return ['node', self.home / pathlib.Path(path).name]


class UnpackedPackage(NodePackage):
    """A package whose dependencies are too many, of which only the files of the client are needed.

    The archive is checked against the digest in `package.json`, as npm would with its lock file.
    """

    FILES = ('package.json', 'dist/a2a/client.js', 'dist/a2a/correlation.js', 'dist/extensions/url-safety.js')

    @property
    def version(self):
        return self.package['unpacked']['version']

    def add(self):
        command(['npm', 'pack', '--silent', f'{self.name}@{self.version}'], cwd=self.home)
        (archive,) = self.home.glob('*.tgz')
        digest = base64.b64encode(hashlib.sha512(archive.read_bytes()).digest()).decode()
        if self.package['unpacked']['integrity'] != f'sha512-{digest}':
            raise Unable(f'{self.name} {self.version} is not what was pinned')
        with tarfile.open(archive) as tar:
            for file in self.FILES:
                target = self.home / 'node_modules' / self.name / file
                target.parent.mkdir(parents=True, exist_ok=True)
                target.write_bytes(tar.extractfile(f'package/{file}').read())
        archive.unlink()


PYTHON = PythonPackage('python', 'a2a-sdk', 'Python')
PYTHON_0_3 = PythonPackage('python-0.3', 'a2a-sdk', 'Python')
JS = NodePackage('js', '@a2a-js/sdk', 'JavaScript')
JS_0_3 = NodePackage('js-0.3', '@a2a-js/sdk', 'JavaScript')
XPR = NodePackage('xpr', '@xpr-agents/sdk', 'JavaScript')
AGENT_NATIVE = UnpackedPackage('agent-native', '@agent-native/core', 'JavaScript')


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
        self.package.install()
        return [*self.package.script(self.client), *self.arguments]


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


# --- Installing -------------------------------------------------------------------------------------------------------


def unless_stamped(home, files, version, install):
    """Calls `install` unless `home` was completed from these very files; the stamp is written last."""
    digest = hashlib.sha256(version.encode())
    for file in files:
        digest.update(file.read_bytes())
    stamp, wanted = home / '.stamp', digest.hexdigest()
    CACHE.mkdir(parents=True, exist_ok=True)
    with open(CACHE / 'lock', 'w') as lock:
        fcntl.flock(lock, fcntl.LOCK_EX)
        if not stamp.is_file() or stamp.read_text() != wanted:
            install()
            stamp.write_text(wanted)


def command(arguments, **options):
    try:
        subprocess.run(arguments, check=True, stdin=subprocess.DEVNULL, stdout=sys.stderr, **options)
    except (OSError, subprocess.CalledProcessError) as error:
        raise Unable(f'a peer could not be installed: {error}') from error


def output(arguments):
    try:
        return subprocess.run(arguments, check=True, capture_output=True, text=True).stdout
    except (OSError, subprocess.CalledProcessError) as error:
        raise Unable(f'{arguments[0]} is needed: {error}') from error


def say(text):
    """Remarks go to standard error; standard output holds results only."""
    print(text, file=sys.stderr, flush=True)
