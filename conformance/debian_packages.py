"""Installs the Debian packages that the tests need and that may not be there."""

import importlib.util
import os
import shutil

from package_cache import CACHE, locked, run, say
from startup import Unable

# A program, and the package that it comes with.
PACKAGES = {
    'cc': 'gcc',
    'curl': 'curl',
    'fish': 'fish',
    'git': 'git',
    'kill': 'procps',
    'nginx': 'nginx',
    'openssl': 'openssl',
    'sqlite3': 'sqlite3',
    'strace': 'strace',
    'wrk': 'wrk',
    'zsh': 'zsh',
}
# Another run of apt-get may be at work, also one that is no part of the tests.
APT_GET = ('apt-get', '-qq', '-o', 'DPkg::Lock::Timeout=300')


class DebianPrograms:
    """Programs that come with Debian packages, and what Debian's Python needs to make environments."""

    def __init__(self, *programs):
        self.programs = programs

    def missing(self):
        """The packages to install."""
        # Daemons are outside the path of ordinary users.
        path = f'{os.environ.get("PATH", os.defpath)}:/usr/sbin'
        found = [PACKAGES[program] for program in self.programs if shutil.which(program, path=path) is None]
        if importlib.util.find_spec('ensurepip') is None:
            found.append('python3-venv')
        return found

    def install(self):
        """Installs the packages that are missing, if there are any. Only root can."""
        if not self.missing():
            return
        with locked(CACHE / 'debian', 'Debian packages are being installed'):
            packages = ' '.join(self.missing())
            if not packages:
                return
            if os.geteuid() != 0:
                raise Unable(f'Debian packages are missing; as root: apt-get install {packages}')
            say(f'installing the Debian packages {packages}')
            environment = {**os.environ, 'DEBIAN_FRONTEND': 'noninteractive'}
            run(*APT_GET, 'update', env=environment)
            run(*APT_GET, 'install', '-y', '--no-install-recommends', *packages.split(), env=environment)
            importlib.invalidate_caches()
            if still := self.missing():
                raise Unable(f'{" ".join(still)} was installed, and what it is for is still not there')
