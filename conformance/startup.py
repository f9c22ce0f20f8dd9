"""Waiting until a program of the tests is ready, and saying why it is not.

    with open(log, 'wb') as file:
        process = subprocess.Popen(command, stdout=file, stderr=file)
    startup.wait(process, command, startup.listens_on(port), log)
    url = startup.wait(process, command, startup.line_in(log, rb'listening on (\\S+)'), log)

Every program writes to files. A pipe would need a reader for as long as the program runs, and what the program wrote
would be gone when a report needs it. A program that does not start is reported in one form everywhere: its command,
how it ended or that it is still running, and the last lines of its files.
"""

import contextlib
import pathlib
import random
import re
import shlex
import signal
import socket
import subprocess
import time

# A debug build on a busy machine opens its store and binds well within this.
START_SECONDS_MAX = 30
REPORTED_LINES_MAX = 20
POLL_SECONDS = 0.01
ENDING_SECONDS_MAX = 1


class Unable(Exception):
    """The run could not be carried out, which says nothing about the program under test."""


class NotServing(Unable):
    """A program did not come up, or did not stay up."""

    def __init__(self, reason, logs=()):
        super().__init__(reason)
        self.logs = logs

    @property
    def output(self):
        """All that the program wrote; the reason holds only the last lines, and the command as well."""
        return ''.join(map(text_of, self.logs))


def wait(process, command, ready, *logs, seconds=START_SECONDS_MAX):
    """Calls `ready` until it returns something true, and returns that. A program that has ended is not ready."""
    deadline = time.monotonic() + seconds
    while True:
        late = time.monotonic() > deadline
        if exit_code(process) is not None or late:
            what = f'did not start within {seconds:g} s' if late else 'did not start'
            raise NotServing(report(process, command, what, *logs), logs)
        if found := ready():
            return found
        time.sleep(POLL_SECONDS)


def check_running(process, command, *logs):
    if exit_code(process) is not None:
        raise NotServing(report(process, command, 'did not stay up', *logs), logs)


def report(process, command, what, *logs):
    """The command, what is wrong with it, how the process ended, and the last lines it wrote."""
    if isinstance(process, subprocess.Popen):
        # One that has closed its output is about to end.
        with contextlib.suppress(subprocess.TimeoutExpired):
            process.wait(ENDING_SECONDS_MAX)
    lines = [f'{shlex.join(map(str, command))} {what}: {ending(exit_code(process))}']
    for log in logs:
        lines += [f'  {pathlib.Path(log).name}:', tail(log)]
    return '\n'.join(lines)


def exit_code(process):
    """None while it runs. A process of asyncio has no `poll`: its event loop keeps `returncode` up to date."""
    return process.poll() if isinstance(process, subprocess.Popen) else process.returncode


def ending(code):
    if code is None:
        return 'it is still running'
    if code < 0:
        return f'signal {signal.Signals(-code).name} ended it'
    return f'it ended with exit code {code}'


def tail(log, count=REPORTED_LINES_MAX):
    """The last lines of a file, indented."""
    lines = text_of(log).splitlines()[-count:]
    return '\n'.join(f'    {line}' for line in lines) or '    (nothing was written)'


def text_of(log):
    path = pathlib.Path(log)
    return path.read_text(errors='replace') if path.is_file() else ''


# --- When is it ready? ------------------------------------------------------------------------------------------------


def listening(port):
    with socket.socket() as attempt:
        return attempt.connect_ex(('127.0.0.1', port)) == 0


def listens_on(*ports):
    """Ready when something listens on all of these ports."""
    return lambda: all(map(listening, ports))


def line_in(log, pattern, offset=0):
    """Ready when a whole line after the offset matches: the first group, as text."""

    def look():
        with open(log, 'rb') as file:
            file.seek(offset)
            written = file.read()
        found = re.search(pattern, written[: written.rfind(b'\n') + 1])
        return found and found.group(1).decode()

    return look


# --- Ports ------------------------------------------------------------------------------------------------------------


def free_ports(count):
    """Ports on which nothing listens, for programs that are told theirs.

    They lie outside the range from which the system takes the ports of outgoing connections. Inside of it, a client of
    any test could be given the port before the program has bound it; and where a server is killed and comes back, a
    client could be given the very port it is trying to reach, connect to itself, and keep the server from coming back.
    """
    try:
        low = int(pathlib.Path('/proc/sys/net/ipv4/ip_local_port_range').read_text().split()[0])
    except OSError:
        low = 32768
    found = []
    for port in random.SystemRandom().sample(range(max(1024, low - 12000), low), 200):
        if len(found) == count:
            break
        with socket.socket() as attempt:
            try:
                attempt.bind(('127.0.0.1', port))
            except OSError:
                continue
            found.append(port)
    if len(found) < count:
        raise Unable(f'no {count} free ports were found')
    return found
