"""Programs in Go, built from modules of others at the versions that `go.mod` and `go.sum` pin.

The modules are downloaded once, into a folder beside the programs, and checked against `go.sum` by the `go` command.
"""

import dataclasses
import functools
import os
import re

from package_cache import CACHE, InstalledFolder, Package, digest_of, locked, run
from startup import Unable

# The SDK for 1.0 needs it.
VERSION_MIN = (1, 25)


@dataclasses.dataclass(frozen=True)
class GoPackage(Package):
    """A module of ours below `conformance`, and the module among its requirements that the tests are about.

    Two of these may share a folder: the programs of all SDKs are built together.
    """

    programs: tuple = ()
    language = 'Go'

    @property
    def version(self):
        pins = (self.source / 'go.mod').read_text()
        return re.search(rf'^\s*{re.escape(self.name)} v(\S+)$', pins, re.M).group(1)

    @functools.cached_property
    def installed(self):
        sources = sorted((*self.source.rglob('*.go'), self.source / 'go.mod', self.source / 'go.sum'))
        ingredients = [part for file in sources for part in (str(file.relative_to(self.source)), file)]
        return InstalledFolder(self.folder, digest_of(*ingredients, go_version()), self.build, self.title)

    def build(self, fresh, home):
        environment = {
            **os.environ, 'GOMODCACHE': str(CACHE / 'go-modules'), 'GOCACHE': str(CACHE / 'go-build'), 'CGO_ENABLED': '0',
            # Without the first, the folder of the modules could not be deleted.
            'GOFLAGS': '-modcacherw -mod=readonly -buildvcs=false',
        }
        programs = [f'./{name}' for name in self.programs]
        run('go', 'build', '-o', f'{fresh}/', *programs, cwd=self.source, env=environment)

    def script(self, program, *_, root=None):
        """The command that runs a program of the module; builds all of them first."""
        return [self.install() / program.name]


@functools.cache
def go_version():
    version = run('go', 'env', 'GOVERSION').strip()
    numbers = re.match(r'go(\d+)\.(\d+)', version)
    if not numbers or tuple(map(int, numbers.groups())) < VERSION_MIN:
        raise Unable(f'the pinned modules need Go 1.25 or newer; this is {version}')
    return version
