"""Programs in Java, built from packages of others on Maven Central at the versions that `pom.xml` pins."""

import dataclasses
import functools
import re

from package_cache import CACHE, InstalledFolder, Package, digest_of, locked, run
from startup import Unable


@dataclasses.dataclass(frozen=True)
class MavenPackage(Package):
    """A project in Java below `conformance`, and the package of others that its tests are about.

    The versions that `pom.xml` names decide about all others: a version on Maven Central is never changed. Maven compares
    each file with its checksum there.
    """

    # The command that runs it, from its folder.
    command: tuple = ()
    language = 'Java'

    @property
    def version(self):
        return re.search(r'<a2a.version>(\S+)</a2a.version>', (self.source / 'pom.xml').read_text()).group(1)

    @functools.cached_property
    def installed(self):
        sources = sorted((self.source / 'pom.xml', *(file for file in (self.source / 'src').rglob('*') if file.is_file())))
        ingredients = [part for file in sources for part in (str(file.relative_to(self.source)), file)]
        return InstalledFolder(self.folder, digest_of(*ingredients, java_version()), self.build, self.title)

    def build(self, fresh, home):
        for file in self.source.rglob('*'):
            if file.is_file():
                target = fresh / file.relative_to(self.source)
                target.parent.mkdir(parents=True, exist_ok=True)
                target.write_bytes(file.read_bytes())
        # Two Mavens that write to one repository damage it.
        with locked(CACHE / 'maven', 'packages from Maven Central are being downloaded'):
            quiet = ('--quiet', '--batch-mode', '--strict-checksums')
            run('mvn', *quiet, f'-Dmaven.repo.local={CACHE / "maven" / "repository"}', 'package', cwd=fresh)

    def script(self, *_, root=None):
        """The command that runs the project; builds it first."""
        home = self.install()
        return [word.format(home=home) for word in self.command]


@functools.cache
def java_version():
    version = run('javac', '-version').strip()
    numbers = re.search(r'javac (\d+)', version)
    if not numbers or int(numbers.group(1)) < 17:
        raise Unable(f'the pinned packages need Java 17 or newer; this is {version}')
    return version
