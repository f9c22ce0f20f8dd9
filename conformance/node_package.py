"""Packages from npm, each set of pins in a folder of its own.

Node looks for packages next to the script and above it, so scripts are copied into the folder: the one thing in it that
changes once it is there.
"""

import base64
import functools
import hashlib
import json
import os
import shutil
import tarfile
import tempfile

from package_cache import HERE, InstalledFolder, Package, digest_of, run
from startup import Unable

NPMRC = HERE / 'js' / '.npmrc'


class NodePackage(Package):
    """Where `package.json` has a member `unpacked`, the package itself is unpacked by hand, because it depends on too
    much or on what cannot be had. What it really needs is then among the dependencies, or in `stubs`."""

    language = 'JavaScript'

    @property
    def manifest(self):
        return json.loads((self.source / 'package.json').read_text())

    @property
    def version(self):
        unpacked = self.manifest.get('unpacked')
        return unpacked['version'] if unpacked else self.manifest['dependencies'][self.name]

    @property
    def files(self):
        return [self.source / 'package.json', self.source / 'package-lock.json', NPMRC]

    @property
    def stubs(self):
        return sorted(file for file in (self.source / 'stubs').rglob('*') if file.is_file())

    @functools.cached_property
    def installed(self):
        ingredients = [part for file in (*self.files, *self.stubs) for part in (file.name, file)]
        return InstalledFolder(self.folder, digest_of(*ingredients, node_version()), self.build, self.title)

    def build(self, fresh, home):
        for file in self.files:
            shutil.copy(file, fresh)
        if self.stubs:
            shutil.copytree(self.source / 'stubs', fresh / 'stubs')
        quiet = ['--ignore-scripts', '--no-audit', '--no-fund', '--loglevel=error']
        # Stubs have no version that the peers of other packages would accept.
        run('npm', 'ci', *quiet, *(['--legacy-peer-deps'] if self.stubs else []), cwd=fresh)
        if unpacked := self.manifest.get('unpacked'):
            self.unpack(fresh, unpacked)

    def unpack(self, fresh, pinned):
        """Unpacks all files of the package, or those that the pin names.

        The archive is checked against the digest in `package.json`, as npm does with its lock file.
        """
        run('npm', 'pack', '--silent', '--loglevel=error', f'{self.name}@{self.version}', cwd=fresh)
        (archive,) = fresh.glob('*.tgz')
        digest = base64.b64encode(hashlib.sha512(archive.read_bytes()).digest()).decode()
        if pinned['integrity'] != f'sha512-{digest}':
            raise Unable(f'{self.name} {self.version} is not what was pinned: its digest is sha512-{digest}')
        with tarfile.open(archive) as tar:
            files = {member.name.partition('/')[2]: member for member in tar.getmembers() if member.isfile()}
            for name in pinned.get('files', files):
                target = fresh / 'node_modules' / self.name / name
                target.parent.mkdir(parents=True, exist_ok=True)
                target.write_bytes(tar.extractfile(files[name]).read())
        archive.unlink()

    def script(self, script, *beside, root=None):
        """The command that runs a script with these packages; installs them first.

        The script and those beside it are copied to where the packages are. With `root` they keep their path below it.
        """
        home, sources = self.install(), (script, *beside)
        places = [home / (source.relative_to(root) if root else source.name) for source in sources]
        for source, target in zip(sources, places, strict=True):
            place(source, target)
        return ['node', places[0]]


def place(source, target):
    """Copies a file unless it is there. Programs may be reading it, and other threads and processes copying it."""
    content = source.read_bytes()
    if target.is_file() and target.read_bytes() == content:
        return
    target.parent.mkdir(parents=True, exist_ok=True)
    # A name that no other thread has: one file that two of them write is empty between the two.
    handle, fresh = tempfile.mkstemp(prefix=f'{target.name}.', dir=target.parent)
    with open(handle, 'wb') as file:
        file.write(content)
    os.chmod(fresh, 0o644)
    os.replace(fresh, target)


@functools.cache
def node_version():
    version = run('node', '--version').strip()
    if int(version.lstrip('v').partition('.')[0]) < 20:
        raise Unable(f'the pinned packages need Node 20 or newer; this is {version}')
    return version
