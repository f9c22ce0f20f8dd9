"""Runs the program under test, with a home of its own and nothing of ours in its environment."""

import contextlib
import json
import os
import pathlib
import shutil
import subprocess
import tempfile

import servers
import startup
from packages import Unable

CALL_SECONDS_MAX = 60


class Sabir:
    def __init__(self, program):
        self.program = pathlib.Path(program).resolve()
        if not os.access(self.program, os.X_OK):
            raise Unable(f'{self.program} is not a program')
        self.home = pathlib.Path(tempfile.mkdtemp(prefix='sabir-client-'))

    def environment(self, **more):
        ours = ('SABIR_', 'A2A_', 'A2ACLI_', 'XDG_')
        kept = {k: v for k, v in servers.environment(self.home).items() if not k.startswith(ours)}
        return {**kept, 'HOME': str(self.home), **more}

    def run(self, *arguments, seconds=CALL_SECONDS_MAX, **environment):
        """What a command wrote and how it ended. A command that hangs is killed, and has the status None."""
        words = [str(self.program), *map(str, arguments)]
        try:
            done = subprocess.run(
                words, env=self.environment(**environment), cwd=self.home, stdin=subprocess.DEVNULL,
                capture_output=True, timeout=seconds,
            )
            return Outcome(words, done.returncode, text(done.stdout), text(done.stderr))
        except subprocess.TimeoutExpired as late:
            return Outcome(words, None, text(late.stdout), text(late.stderr))

    def start(self, *arguments):
        """The same for a command that goes on."""
        return subprocess.Popen(
            [str(self.program), *map(str, arguments)], env=self.environment(), cwd=self.home, text=True,
            stdin=subprocess.DEVNULL, stdout=subprocess.PIPE, stderr=subprocess.PIPE,
        )

    @contextlib.contextmanager
    def serving(self, *arguments):
        """Our own server, for a client that is also to be told nothing false about it."""
        scratch = pathlib.Path(tempfile.mkdtemp(prefix='sabir-echo-'))
        out, err = scratch / 'server.out', scratch / 'server.err'
        command = [str(self.program), 'serve', '--listen', '127.0.0.1:0', '--data', scratch / 'data', *arguments]
        with open(out, 'wb') as out_file, open(err, 'wb') as err_file:
            process = subprocess.Popen(
                command, env=self.environment(), cwd=self.home, stdin=subprocess.DEVNULL, stdout=out_file,
                stderr=err_file,
            )
        try:
            yield startup.wait(process, command, startup.line_in(out, rb'listening on (http://[^\s/]+)'), out, err)
        finally:
            servers.stop(process)
            shutil.rmtree(scratch, ignore_errors=True)

    def __enter__(self):
        return self

    def __exit__(self, *_):
        shutil.rmtree(self.home, ignore_errors=True)


class Outcome:
    def __init__(self, words, status, stdout, stderr):
        self.words, self.status, self.stdout, self.stderr = words, status, stdout, stderr

    def json(self):
        return json.loads(self.stdout)

    def lines(self):
        return [json.loads(line) for line in self.stdout.splitlines()]

    def __str__(self):
        said = ' '.join(f'{self.stdout} {self.stderr}'.split())
        return f'status {self.status}, said: {said[:300]}'


def text(data):
    return (data or b'').decode('utf-8', 'replace')
