"""Tests how packages are installed and how programs are started, with folders and programs made up here.

`conformance/prepare --self-test` runs all of it. Processes that install are started from this file, with a cache of
their own: `prepare_test.py NAME CONTENT SECONDS` installs the folder NAME, which takes so long to build, and prints its
path.
"""

import os
import pathlib
import signal
import subprocess
import sys
import tempfile
import threading
import time
import traceback

import node_package
import python_package
import startup
from package_cache import InstalledFolder, digest_of

HERE = pathlib.Path(__file__).resolve().parent
PROCESSES = 6
WAIT_SECONDS_MAX = 20
# Reads a file of its folder until its standard input is closed, and fails as soon as that file is not there or not whole.
PROGRAM = """import pathlib, select, sys
file = pathlib.Path(__file__).parent / 'data'
while not select.select([sys.stdin], [], [], 0.001)[0]:
    assert file.read_text() == 'whole', file.read_text()
"""


def build_slowly(content, seconds):
    """A build that leaves a line in a file for each time it was begun, and is half done for most of its time."""

    def build(fresh, home):
        with open(home.parent / 'builds', 'a') as builds:
            builds.write(f'{content}\n')
        (fresh / 'program.py').write_text(PROGRAM)
        (fresh / 'data').write_text('')
        time.sleep(seconds)
        (fresh / 'data').write_text('whole')

    return build


class Cache:
    """A cache in a folder of its own, and processes that install into it."""

    def __init__(self, folder):
        self.folder = folder

    def begin(self, content='1', seconds=0.3):
        command = [sys.executable, '-B', __file__, 'made/up', content, str(seconds)]
        environment = {**os.environ, 'CONFORMANCE_CACHE': str(self.folder)}
        return subprocess.Popen(
            command, env=environment, stdin=subprocess.DEVNULL, stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True
        )

    def install(self, **more):
        return finished(self.begin(**more))

    def builds(self):
        """What was built, in the order in which it was begun."""
        return (self.folder / 'made' / 'up' / 'builds').read_text().split()

    def folders(self):
        return sorted(entry.name for entry in (self.folder / 'made' / 'up').iterdir() if entry.is_dir())


def finished(process):
    """The path that a process which installs has printed."""
    out, err = process.communicate(timeout=WAIT_SECONDS_MAX)
    assert process.returncode == 0, err
    return pathlib.Path(out.strip())


def until(condition, what):
    deadline = time.monotonic() + WAIT_SECONDS_MAX
    while not condition():
        assert time.monotonic() < deadline, f'{what}: not within {WAIT_SECONDS_MAX} s'
        time.sleep(0.01)


# --- Installing -------------------------------------------------------------------------------------------------------


def a_folder_is_built_once_by_many_processes(scratch):
    cache = Cache(scratch)
    homes = {finished(process) for process in [cache.begin() for _ in range(PROCESSES)]}
    assert len(homes) == 1, homes
    assert cache.builds() == ['1'], cache.builds()
    assert cache.folders() == [homes.pop().name], cache.folders()


def a_program_runs_from_its_folder_while_others_install(scratch):
    cache = Cache(scratch)
    home = cache.install()
    program = subprocess.Popen([sys.executable, '-B', home / 'program.py'], stdin=subprocess.PIPE, stderr=subprocess.PIPE)
    for process in [cache.begin(content=pins) for pins in ('1', '2') * (PROCESSES // 2)]:
        finished(process)
    _, said = program.communicate(timeout=WAIT_SECONDS_MAX)
    assert program.returncode == 0, said.decode()
    assert cache.builds() == ['1', '2'], cache.builds()
    assert len(cache.folders()) == 2, cache.folders()


def a_folder_that_is_half_built_is_not_in_its_place(scratch):
    cache = Cache(scratch)
    process = cache.begin(seconds=0.5)
    place = scratch / 'made' / 'up' / digest_of('1')
    seen = set()
    while process.poll() is None:
        seen.add((place / 'data').read_text() if place.is_dir() else 'nothing')
    finished(process)
    assert seen <= {'nothing', 'whole'} and 'nothing' in seen, seen


def what_a_killed_installation_left_is_repaired(scratch):
    cache = Cache(scratch)
    process = cache.begin(seconds=60)
    until(lambda: list(scratch.glob('made/up/*.new-*/data')), 'the folder is half built')
    waiting = cache.begin()
    process.send_signal(signal.SIGKILL)
    process.communicate()
    home = finished(waiting)
    assert (home / 'data').read_text() == 'whole'
    assert cache.builds() == ['1', '1'], cache.builds()
    assert cache.folders() == [home.name], cache.folders()


def an_installation_that_fails_leaves_nothing(scratch):
    cache = Cache(scratch)
    process = cache.begin(seconds=-1)
    _, said = process.communicate(timeout=WAIT_SECONDS_MAX)
    assert process.returncode != 0 and 'sleep length must be non-negative' in said, said
    assert cache.folders() == [], cache.folders()
    assert cache.install().is_dir()


def another_version_has_a_folder_of_its_own(scratch):
    names = {digest_of('a', 'b'), digest_of('ab'), digest_of('a', 'bc'), digest_of('ab', '')}
    assert len(names) == 4, names
    (scratch / 'pins').write_text('a')
    assert digest_of(scratch / 'pins') == digest_of('a')


def an_environment_knows_only_its_last_place(scratch):
    fresh, home = scratch / 'made.new-1', scratch / 'made'
    subprocess.run([sys.executable, '-m', 'venv', '--without-pip', fresh], check=True)
    script = f'#!{fresh}/bin/python\nimport sys\nprint(sys.prefix)\n'
    (fresh / 'bin' / 'where').write_text(script)
    (fresh / 'bin' / 'where').chmod(0o755)
    python_package.move_environment(fresh, home)
    fresh.rename(home)
    said = subprocess.run([home / 'bin' / 'where'], capture_output=True, text=True, check=True).stdout.strip()
    assert said == str(home), said
    found = [file for file in home.rglob('*') if file.is_file() and fresh.name.encode() in file.read_bytes()]
    assert not found, found


def a_script_is_whole_for_all_who_copy_it(scratch):
    """Threads that copied a script under one name emptied it for each other, and Node runs an empty file without a word."""
    source, problems = scratch / 'script.mjs', []
    source.write_text('whole')

    def copy(target, together):
        together.wait()
        try:
            node_package.place(source, target)
            if target.read_text() != 'whole':
                problems.append(f'{target} is {target.read_text()!r}')
        except OSError as error:
            problems.append(repr(error))

    for number in range(200):
        together = threading.Barrier(PROCESSES)
        target = scratch / str(number) / 'script.mjs'
        threads = [threading.Thread(target=copy, args=(target, together)) for _ in range(PROCESSES)]
        for thread in threads:
            thread.start()
        for thread in threads:
            thread.join()
        if [entry.name for entry in target.parent.iterdir()] != ['script.mjs']:
            problems.append(f'{list(target.parent.iterdir())} is more than the script')
    assert not problems, problems[:3]


def archives_are_known_by_their_pins(scratch):
    for pin, archive in (
        ('PyJWT==2.15.1', 'pyjwt-2.15.1-py3-none-any.whl'),
        ('typing-inspection==0.4.5', 'typing_inspection-0.4.5-py3-none-any.whl'),
        ('json-rpc==1.15.0', 'json_rpc-1.15.0-py2.py3-none-any.whl'),
    ):
        assert python_package.pin_of(archive) == python_package.normal(pin), archive
    assert python_package.normal('a==1.0') != python_package.normal('a==1.0.1')


# --- Starting ---------------------------------------------------------------------------------------------------------


def started(scratch, program, ready, seconds=WAIT_SECONDS_MAX):
    """Starts a program in Python, waits until it is ready, and returns what that gave, or why it is not."""
    command, log = [sys.executable, '-B', '-c', program], scratch / 'program.log'
    with open(log, 'wb') as file:
        process = subprocess.Popen(command, stdin=subprocess.PIPE, stdout=file, stderr=file)
    try:
        return startup.wait(process, command, ready(log), log, seconds=seconds)
    except startup.NotServing as why:
        return str(why)
    finally:
        process.kill()
        process.communicate()


def contains(text, *wanted):
    for words in wanted:
        assert words in text, f'{words!r} is not in:\n{text}'


def a_program_that_ends_is_reported_with_its_exit_code(scratch):
    began = time.monotonic()
    said = started(
        scratch, 'import sys; print("the port is taken"); sys.exit(3)', lambda log: startup.line_in(log, rb'listening (.*)')
    )
    contains(said, f'{sys.executable} -B -c', 'did not start: it ended with exit code 3', 'the port is taken')
    contains(said, '  program.log:\n    the port is taken')
    assert time.monotonic() - began < WAIT_SECONDS_MAX / 2, 'it waited for a program that had ended'


def a_program_that_says_nothing_is_reported_too(scratch):
    said = started(scratch, '', lambda log: startup.listens_on(*startup.free_ports(1)))
    contains(said, 'did not start: it ended with exit code 0', '(nothing was written)')


def a_program_that_is_killed_is_reported_with_the_signal(scratch):
    said = started(scratch, 'import os; os.kill(os.getpid(), 9)', lambda log: startup.line_in(log, rb'(x)'))
    contains(said, 'did not start: signal SIGKILL ended it')


def a_program_that_hangs_is_reported_as_running(scratch):
    program = 'import sys\nfor n in range(100): print(f"<{n}>", flush=True)\nsys.stdin.read()'
    said = started(scratch, program, lambda log: startup.line_in(log, rb'(listening)'), seconds=1)
    contains(said, 'did not start within 1 s: it is still running', '<99>', '<80>')
    assert '<79>' not in said, said


def a_program_that_ended_is_not_ready(scratch):
    """Although it had said that it was, or another program has its port."""
    log = scratch / 'log'
    log.write_text('listening on 1\n')
    process = subprocess.Popen(['true'])
    process.wait()
    try:
        startup.wait(process, ['true'], lambda: True, log)
    except startup.NotServing as why:
        contains(str(why), 'true did not start: it ended with exit code 0', 'listening on 1')
    else:
        raise AssertionError('it was taken to be ready')


def the_line_and_the_port_are_found(scratch):
    [port] = startup.free_ports(1)
    program = f"""import socket, sys
print("an earlier life: listening on 1")
server = socket.create_server(("127.0.0.1", {port}))
print("listening on {port}", flush=True)
sys.stdin.read()
"""
    offset = len('an earlier life: listening on 1\n')
    found = started(scratch, program, lambda log: startup.line_in(log, rb'listening on (\d+)', offset))
    assert found == str(port), found
    assert started(scratch, program, lambda log: startup.listens_on(port)) is True


def half_a_line_is_no_line(scratch):
    log = scratch / 'log'
    log.write_text('listening on 12')
    assert not startup.line_in(log, rb'listening on (\d+)')()
    log.write_text('listening on 1234\n')
    assert startup.line_in(log, rb'listening on (\d+)')() == '1234'


def ports_are_outside_the_range_of_clients(scratch):
    ports = startup.free_ports(20)
    low = int(pathlib.Path('/proc/sys/net/ipv4/ip_local_port_range').read_text().split()[0])
    assert len(set(ports)) == 20 and all(1024 <= port < low for port in ports), ports


CHECKS = (
    a_folder_is_built_once_by_many_processes,
    a_program_runs_from_its_folder_while_others_install,
    a_folder_that_is_half_built_is_not_in_its_place,
    what_a_killed_installation_left_is_repaired,
    an_installation_that_fails_leaves_nothing,
    another_version_has_a_folder_of_its_own,
    an_environment_knows_only_its_last_place,
    a_script_is_whole_for_all_who_copy_it,
    archives_are_known_by_their_pins,
    a_program_that_ends_is_reported_with_its_exit_code,
    a_program_that_says_nothing_is_reported_too,
    a_program_that_is_killed_is_reported_with_the_signal,
    a_program_that_hangs_is_reported_as_running,
    a_program_that_ended_is_not_ready,
    the_line_and_the_port_are_found,
    half_a_line_is_no_line,
    ports_are_outside_the_range_of_clients,
)


def run():
    """All checks, with a line for each; the exit status."""
    failed = 0
    for check in CHECKS:
        with tempfile.TemporaryDirectory(prefix='sabir-prepare-') as folder:
            began = time.monotonic()
            try:
                check(pathlib.Path(folder).resolve())
                print(f'ok   {check.__name__} ({time.monotonic() - began:.1f} s)', flush=True)
            except Exception:
                failed += 1
                print(f'FAIL {check.__name__}\n{traceback.format_exc()}', flush=True)
    print(f'{len(CHECKS) - failed} passed, {failed} failed', flush=True)
    return 1 if failed else 0


if __name__ == '__main__':
    name, content, seconds = sys.argv[1:]
    build = build_slowly(content, float(seconds))
    print(InstalledFolder(name, digest_of(content), build, f'the folder {name}').install())
