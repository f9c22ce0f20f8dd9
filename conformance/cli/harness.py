"""Running the binary as a user would: own home, own directory, nothing inherited, every byte and its time kept.

A `Case` is one check on one agent over one binding. It makes a fresh home and working directory, runs commands in them,
and takes everything down afterwards. Waiting is always for something, with a deadline; nothing sleeps and hopes.
"""

import json
import os
import pathlib
import pty
import select
import shlex
import shutil
import signal
import subprocess
import sys
import tempfile
import threading
import time

# Longer than any command of the suite takes on a busy machine; a command that needs it hangs.
RUN_SECONDS_MAX = 45
WAIT_SECONDS_MAX = 20


class NotMeasured(Exception):
    """The check could not be made, which is neither a pass nor a failure."""


def holds(condition, why):
    if not condition:
        raise AssertionError(why)


def equal(got, wanted, what):
    holds(got == wanted, f'{what}: got {got!r}, wanted {wanted!r}')


def contains(text, wanted, what):
    holds(wanted in text, f'{what}: {wanted!r} is not in {text[:2000]!r}')


def lacks(text, unwanted, what):
    holds(unwanted not in text, f'{what}: {unwanted!r} is in {text[:2000]!r}')


def until(condition, what, seconds=WAIT_SECONDS_MAX):
    """Polls until the condition gives something true, and returns it."""
    deadline = time.monotonic() + seconds
    while True:
        value = condition()
        if value:
            return value
        holds(time.monotonic() < deadline, f'{what}: not within {seconds} s')
        time.sleep(0.02)


class Run:
    """A command, while it runs and afterwards."""

    def __init__(self, arguments, process, stdin):
        self.arguments, self.process, self.code = arguments, process, None
        self.started, self.seconds = time.monotonic(), None
        self.out_lines, self.err_lines = [], []
        self.readers = [
            threading.Thread(target=self._read, args=pair, daemon=True)
            for pair in ((process.stdout, self.out_lines), (process.stderr, self.err_lines))
        ]
        for reader in self.readers:
            reader.start()
        if stdin is not None:
            threading.Thread(target=self._feed, args=(stdin,), daemon=True).start()

    def _read(self, stream, lines):
        for line in stream:
            lines.append((time.monotonic() - self.started, line))

    def _feed(self, stdin):
        try:
            self.process.stdin.write(stdin)
            self.process.stdin.close()
        except OSError:
            pass

    def wait(self, seconds=RUN_SECONDS_MAX):
        try:
            self.code = self.process.wait(seconds)
        except subprocess.TimeoutExpired:
            self.kill()
            raise AssertionError(f'still running after {seconds} s: {self}') from None
        self.seconds = time.monotonic() - self.started
        for reader in self.readers:
            reader.join(5)
        return self

    def signal(self, number=signal.SIGINT):
        self.process.send_signal(number)

    def kill(self):
        if self.process.poll() is None:
            self.process.kill()
            self.process.wait()

    def line(self, wanted, stream='out', seconds=WAIT_SECONDS_MAX):
        """Waits for a line that has this in it."""
        lines = self.out_lines if stream == 'out' else self.err_lines

        def found():
            for _, line in list(lines):
                if wanted in line.decode(errors='replace'):
                    return line.decode(errors='replace').rstrip('\n')
            if self.process.poll() is not None and not any(reader.is_alive() for reader in self.readers):
                raise AssertionError(f'it ended without a line with {wanted!r}: {self}')
            return None

        return until(found, f'a line with {wanted!r} on std{stream} of {self}', seconds)

    @property
    def out_bytes(self):
        return b''.join(line for _, line in self.out_lines)

    @property
    def out(self):
        return self.out_bytes.decode(errors='replace')

    @property
    def err(self):
        return b''.join(line for _, line in self.err_lines).decode(errors='replace')

    @property
    def json(self):
        """The one document on standard output; anything beside it is an error."""
        try:
            return json.loads(self.out)
        except ValueError as error:
            raise AssertionError(f'standard output is not one JSON document ({error}): {self.out[:2000]!r}') from None

    @property
    def jsonl(self):
        """The documents on standard output, one per physical line."""
        text = self.out
        holds(text.endswith('\n') or not text, f'the last line is not ended: {text[-200:]!r}')
        try:
            return [json.loads(line) for line in text.splitlines()]
        except ValueError as error:
            raise AssertionError(f'a line is not a JSON document ({error}): {text[:2000]!r}') from None

    @property
    def error(self):
        """The envelope of a failure in JSON, the last line of standard output."""
        value = self.jsonl[-1] if '--stream' in self.arguments else self.json
        holds(set(value) == {'error'} and isinstance(value['error'], dict), f'not an error object: {value}')
        return value['error']

    def exits(self, code):
        holds(self.code == code, f'exit {self.code}, wanted {code}: {self}')
        return self

    def fails(self, code, exit_code):
        """Ended with this error, in JSON, and this exit code."""
        self.exits(exit_code)
        equal(self.error['code'], code, f'error code of {self}')
        return self.error

    def __str__(self):
        text = f'sabir {shlex.join(str(a) for a in self.arguments)}'
        out, err = self.out[-1500:], self.err[-1500:]
        code = self.process.poll() if self.code is None else self.code
        return f'`{text}` exit={code}\n      stdout: {out!r}\n      stderr: {err!r}'


class Terminal:
    """A command on a pseudo-terminal, driven as a person would: read, then type."""

    def __init__(self, arguments, command, environment, cwd):
        self.arguments, self.text, self.code = arguments, '', None
        self.master, slave = pty.openpty()
        self.process = subprocess.Popen(
            command, stdin=slave, stdout=slave, stderr=slave, env=environment, cwd=cwd, start_new_session=True
        )
        os.close(slave)

    def _pump(self, seconds):
        ready, _, _ = select.select([self.master], [], [], seconds)
        if ready:
            try:
                self.text += os.read(self.master, 65536).decode(errors='replace').replace('\r\n', '\n')
            except OSError:
                return False
        return True

    def expect(self, wanted, after=0, seconds=WAIT_SECONDS_MAX):
        """Waits until this was shown after the given place, and returns the place behind it."""
        deadline = time.monotonic() + seconds
        while True:
            place = self.text.find(wanted, after)
            if place >= 0:
                return place + len(wanted)
            holds(time.monotonic() < deadline, f'{wanted!r} was not shown: {self.text!r}')
            if not self._pump(0.1):
                place = self.text.find(wanted, after)
                holds(place >= 0, f'{wanted!r} was not shown before the end: {self.text!r}')
                return place + len(wanted)

    def type(self, line):
        place = len(self.text)
        os.write(self.master, line.encode() + b'\n')
        return place

    def wait(self, seconds=WAIT_SECONDS_MAX):
        deadline = time.monotonic() + seconds
        while self.process.poll() is None:
            holds(time.monotonic() < deadline, f'still running: {self.text!r}')
            self._pump(0.05)
        self._pump(0.05)
        self.code = self.process.returncode
        return self

    def kill(self):
        if self.process.poll() is None:
            self.process.kill()
            self.process.wait()
        os.close(self.master)

    def __str__(self):
        return f'`sabir {shlex.join(self.arguments)}` on a terminal, exit={self.code}: {self.text[-1500:]!r}'


class Case:
    def __init__(self, world, agent, binding):
        self.world, self.agent, self.binding = world, agent, None if binding == '-' else binding
        self.scratch = pathlib.Path(tempfile.mkdtemp(prefix='case-', dir=world.scratch))
        self.home, self.cwd = self.scratch / 'home', self.scratch / 'work'
        self.home.mkdir()
        self.cwd.mkdir()
        self.runs, self.closers = [], []

    # --- Running --------------------------------------------------------------------------------------------------

    def environment(self, more):
        inherited = {key: os.environ[key] for key in ('PATH', 'TMPDIR') if key in os.environ}
        own = {'HOME': str(self.home), 'LANG': 'C.UTF-8', 'TERM': 'xterm', 'NO_PROXY': '127.0.0.1,localhost'}
        mutant = {'SABIR_MUTANT': self.world.mutant} if self.world.mutant else {}
        return {**inherited, **own, **mutant, **{key: str(value) for key, value in (more or {}).items()}}

    def start(self, *arguments, env=None, stdin=None, cwd=None):
        arguments = [str(argument) for argument in arguments]
        process = subprocess.Popen(
            [self.world.sabir, *arguments],
            cwd=cwd or self.cwd,
            env=self.environment(env),
            stdin=subprocess.DEVNULL if stdin is None else subprocess.PIPE,
            stdout=subprocess.PIPE,
            stderr=subprocess.PIPE,
        )
        run = Run(arguments, process, stdin.encode() if isinstance(stdin, str) else stdin)
        self.runs.append(run)
        self.closers.append(run.kill)
        return run

    def run(self, *arguments, seconds=RUN_SECONDS_MAX, **options):
        return self.start(*arguments, **options).wait(seconds)

    def terminal(self, *arguments, env=None):
        arguments = [str(argument) for argument in arguments]
        run = Terminal(arguments, [self.world.sabir, *arguments], self.environment(env), self.cwd)
        self.runs.append(run)
        self.closers.append(run.kill)
        return run

    # --- Against the agent of the case ----------------------------------------------------------------------------

    @property
    def ref(self):
        return self.world.agent(self.agent).url

    def aimed(self, arguments):
        """The arguments with the agent and the binding of this case."""
        transport = ('--transport', self.binding) if self.binding else ()
        return (*arguments, '--agent-card', self.ref, *transport)

    def call(self, *arguments, **options):
        return self.run(*self.aimed(arguments), **options)

    def begin(self, *arguments, **options):
        return self.start(*self.aimed(arguments), **options)

    def ok(self, *arguments, **options):
        """Calls with `-o json` and returns the document of a success."""
        return self.call(*arguments, '-o', 'json', **options).exits(0).json

    def task(self, *arguments, **options):
        """Sends, and returns the task of the answer."""
        value = self.ok('send', *arguments, **options)
        holds(set(value) == {'task'}, f'the answer is not a task alone: {value}')
        return value['task']

    # --- Servers and files of the case ----------------------------------------------------------------------------

    def stub(self, **options):
        """A scripted server; the bindings are those of the case unless given."""
        import stub

        options.setdefault('bindings', (self.binding,) if self.binding else ('JSONRPC',))
        server = stub.Stub(**options)
        self.closers.append(server.close)
        self.agent_stub = server
        return server

    def closing(self, thing):
        self.closers.append(thing.close)
        return thing

    def file(self, name, content=b''):
        path = self.cwd / name
        path.parent.mkdir(parents=True, exist_ok=True)
        if isinstance(content, (dict, list)):
            content = json.dumps(content)
        path.write_bytes(content.encode() if isinstance(content, str) else content)
        return path

    def tree(self):
        """Every file of the home and the working directory with its content."""
        return {
            str(path.relative_to(self.scratch)): path.read_bytes()
            for path in sorted(self.scratch.rglob('*'))
            if path.is_file() and not path.is_symlink()
        }

    def close(self):
        for closer in reversed(self.closers):
            try:
                closer()
            except Exception as error:  # Taking down must reach the end, whatever one thing says.
                print(f'taking down: {error!r}', file=sys.stderr)
        shutil.rmtree(self.scratch, ignore_errors=True)
