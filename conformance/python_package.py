"""Packages from PyPI, each set of pins in an environment of its own.

Most environments have most pins in common. So archives are downloaded once, into a folder beside the environments, and
environments are filled from there. With every environment asking the index for every pin, a first preparation took about
twice as long.
"""

import functools
import os
import pathlib
import re
import sys

from package_cache import CACHE, InstalledFolder, Package, built_beside, digest_of, locked, run, say
from startup import Unable

QUIET = ('--quiet', '--disable-pip-version-check')


class PythonPackage(Package):
    language = 'Python'

    @property
    def requirements(self):
        """A complete freeze, so dependencies are never resolved: that could only add something that is not pinned."""
        return self.source / 'requirements.txt'

    @property
    def version(self):
        return re.search(rf'^{re.escape(self.name)}==(\S+)$', self.requirements.read_text(), re.M).group(1)

    @functools.cached_property
    def installed(self):
        return InstalledFolder(self.folder, digest_of(self.requirements, python_version()), self.build, self.title)

    def build(self, fresh, home):
        archives = download(self.requirements.read_text().split())
        run(sys.executable, '-m', 'venv', '--without-pip', fresh)
        into = ('--python', fresh / 'bin' / 'python', 'install', *QUIET, '--root-user-action=ignore')
        pip(*into, '--no-deps', '--no-index', '--find-links', archives, '--requirement', self.requirements)
        move_environment(fresh, home)

    def script(self, script, *beside, root=None):
        """The command that runs a script with these packages; installs them first. The script stays where it is."""
        return [self.install() / 'bin' / 'python', '-B', script]

    def run_inside(self, *others):
        """Installs this and the others, and runs this program again under the Python that has these packages."""
        if pathlib.Path(sys.prefix) != self.home:
            try:
                for one in (self, *others):
                    one.install()
            except Unable as why:
                say(f'error: {why}')
                sys.exit(2)
            command = [*map(str, self.script(os.path.abspath(sys.argv[0]))), *sys.argv[1:]]
            os.execv(command[0], command)


def download(pins):
    """The folder with the archives of these pins, after those that are missing were added."""
    archives = CACHE / 'archives' / digest_of(python_version())
    with locked(archives.parent, 'archives from PyPI are being downloaded'):
        archives.mkdir(exist_ok=True)
        there = {pin_of(file.name) for file in archives.iterdir()}
        missing = [pin for pin in pins if normal(pin) not in there]
        if missing:
            with built_beside(archives) as fresh:
                pip('wheel', *QUIET, '--no-deps', '--wheel-dir', fresh, *missing)
                for file in fresh.iterdir():
                    file.rename(archives / file.name)
    return archives


def pin_of(archive):
    """The pin that an archive belongs to: `PyJWT==2.15.1` for `pyjwt-2.15.1-py3-none-any.whl`."""
    name, version, *_ = archive.split('-')
    return normal(f'{name}=={version}')


def normal(pin):
    name, _, version = pin.partition('==')
    return re.sub('[-_.]+', '-', name).lower(), version


def move_environment(fresh, home):
    """Writes the final name of the folder into the files that hold it. Modules, also compiled ones, do not depend on it."""
    for file in (fresh / 'pyvenv.cfg', *(fresh / 'bin').iterdir()):
        if file.is_file() and not file.is_symlink():
            file.write_bytes(file.read_bytes().replace(os.fsencode(fresh.name), os.fsencode(home.name)))


def pip(*arguments):
    """One environment has pip and fills all others: to install pip itself takes longer than most packages."""
    return run(PIP.install() / 'bin' / 'python', '-m', 'pip', *arguments)


def build_pip(fresh, home):
    run(sys.executable, '-m', 'venv', fresh)
    move_environment(fresh, home)


PIP = InstalledFolder('pip', digest_of(sys.version), build_pip, 'pip')


def python_version():
    if sys.version_info < (3, 11):
        raise Unable(f'the pinned packages need Python 3.11 or newer; this is {sys.version.split()[0]}')
    return sys.version
