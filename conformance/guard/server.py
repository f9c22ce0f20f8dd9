"""The server under test: a configuration of its own, a directory of its own, and nothing inherited.

    with Server(world, config, tls=…, env={…}) as server:
        server.call('POST', '/', headers, body)
        server.sabir('key', 'create')            # a command beside the running server

Whatever it wrote is kept until the end of the check, so that secrets can be looked for in all of it.
"""

import contextlib
import http.client
import json
import os
import pathlib
import re
import signal
import ssl
import subprocess
import tempfile
import time

import startup
from startup import NotServing

STOP_SECONDS_MAX = 10
CALL_SECONDS_MAX = 20

AGENTS = """
[[agent]]
name = "demo"
kind = "script"
default = true
[agent.card]
description = "the agent behind the guard"
version = "1.0.0"
[agent.card.capabilities]
streaming = true
push_notifications = true
[[agent.card.skills]]
id = "demo"
name = "demo"
description = "says it back"
tags = ["demo"]
[[agent.rule]]
when = { text_contains = "hold" }
do = [{ status = "working" }, { wait_ms = 60000 }, { complete = "" }]
[[agent.rule]]
do = [{ echo = true }, { complete = "" }]

[[agent]]
name = "other"
kind = "echo"

[[agent]]
name = "busy"
kind = "echo"
[agent.limits]
rate_per_minute = 1
"""


def until(condition, what, seconds=CALL_SECONDS_MAX, pause=0.02):
    """Polls until the condition gives something true, and returns it."""
    deadline = time.monotonic() + seconds
    while True:
        value = condition()
        if value:
            return value
        assert time.monotonic() < deadline, f'{what}: not within {seconds} s'
        time.sleep(pause)


class Answer:
    """What came back over HTTP."""

    def __init__(self, status, headers, body):
        self.status, self.headers, self.body = status, headers, body

    def header(self, name):
        return next((value for key, value in self.headers if key.lower() == name.lower()), None)

    @property
    def json(self):
        return json.loads(self.body)

    def __repr__(self):
        said = {k.lower(): v for k, v in self.headers}
        shown = {k: said[k] for k in ('www-authenticate', 'retry-after') if k in said}
        return f'HTTP {self.status} {shown or ""} {self.body[:400]!r}'


class Server:
    def __init__(
        self, sabir, config, env=None, agents=AGENTS, arguments=(), tls=None, folder=None, listen='127.0.0.1:0'
    ):
        """`tls` is the CA file to trust; the certificate of the server is a matter of the configuration."""
        self.program, self.tls, self.extra = str(sabir), tls, {k: str(v) for k, v in (env or {}).items()}
        self.arguments, self.listen = arguments, listen
        self.scratch = folder or pathlib.Path(tempfile.mkdtemp(prefix='sabir-guard-'))
        self.config = self.scratch / 'sabir.toml'
        self.config.write_text(f'{config}\n[store]\nurl = "sqlite:data/sabir.db"\n{agents}')
        self.log, self.out = self.scratch / 'server.err', self.scratch / 'server.out'
        self.process, self.url = None, None

    def environment(self):
        dropped = ('SABIR_', 'A2A_', 'A2ACLI_', 'XDG_', 'XPR_')
        kept = {k: v for k, v in os.environ.items() if not k.startswith(dropped) and not k.lower().endswith('_proxy')}
        local = {'NO_PROXY': '127.0.0.1,localhost', 'HOME': str(self.scratch), 'SABIR_LOG': 'debug'}
        return {**kept, **local, **self.extra}

    # --- Running --------------------------------------------------------------------------------------------------

    def start(self):
        command = [self.program, 'serve', '--config', self.config, '--listen', self.listen, *self.arguments]
        with open(self.log, 'ab') as log, open(self.out, 'ab') as out:
            # What it said in an earlier life is kept, and is no sign of this one.
            before = out.tell()
            self.process = subprocess.Popen(
                command,
                cwd=self.scratch,
                env=self.environment(),
                stdin=subprocess.DEVNULL,
                stdout=out,
                stderr=log,
            )
        ready = startup.line_in(self.out, rb'listening on (https?://[^\s/]+)', before)
        try:
            self.url = startup.wait(self.process, command, ready, self.out, self.log)
        except NotServing:
            self.stop()
            raise
        return self

    def stop(self):
        if self.process and self.process.poll() is None:
            self.process.send_signal(signal.SIGTERM)
            try:
                self.process.wait(STOP_SECONDS_MAX)
            except subprocess.TimeoutExpired:
                self.process.kill()
                self.process.wait()

    def said(self):
        return ''.join(f.read_text(errors='replace') for f in (self.out, self.log) if f.is_file())

    def written(self):
        """Every byte in its directory, as `(path, bytes)`; what the test put there itself is not among it."""
        for path in sorted(self.scratch.rglob('*')):
            if path.is_file() and 'given' not in path.relative_to(self.scratch).parts:
                with contextlib.suppress(OSError):
                    yield path.relative_to(self.scratch), path.read_bytes()

    def given(self, name, text):
        """A file that the configuration refers to."""
        path = self.scratch / 'given' / name
        path.parent.mkdir(exist_ok=True)
        path.write_text(text)
        path.chmod(0o600)
        return path

    def rss(self):
        """Resident memory in MiB."""
        status = pathlib.Path(f'/proc/{self.process.pid}/status').read_text()
        return int(re.search(r'VmRSS:\s+(\d+)', status).group(1)) / 1024

    def __enter__(self):
        return self.start()

    def __exit__(self, *_):
        self.stop()

    # --- Commands -------------------------------------------------------------------------------------------------

    def sabir(self, *words, env=None, seconds=30):
        return subprocess.run(
            [self.program, *map(str, words)],
            cwd=self.scratch,
            env={**self.environment(), **(env or {})},
            stdin=subprocess.DEVNULL,
            capture_output=True,
            text=True,
            timeout=seconds,
        )

    def command(self, *words, **more):
        """A command about this server's data, which must succeed; the document it printed."""
        done = self.sabir(*words, '--config', self.config, '-o', 'json', **more)
        assert done.returncode == 0, (
            f'sabir {" ".join(map(str, words))} ended with {done.returncode}: {done.stderr[-400:]}{done.stdout[-400:]}'
        )
        return json.loads(done.stdout) if done.stdout.strip() else None

    def key(self, *words):
        return self.command('key', 'create', *words)

    # --- Calls ----------------------------------------------------------------------------------------------------

    @property
    def address(self):
        host, _, port = self.url.partition('://')[2].rpartition(':')
        return host, int(port)

    def context(self, certificate=None):
        context = ssl.create_default_context(cafile=self.tls)
        if certificate:
            context.load_cert_chain(*certificate)
        return context

    def call(self, method, path, headers=(), body=b'', certificate=None, seconds=CALL_SECONDS_MAX):
        """One request on a connection of its own; headers are pairs, and may be repeated."""
        host, port = self.address
        if self.tls:
            connection = http.client.HTTPSConnection(
                'localhost', port, timeout=seconds, context=self.context(certificate)
            )
        else:
            connection = http.client.HTTPConnection(host, port, timeout=seconds)
        pairs = list(headers.items()) if isinstance(headers, dict) else list(headers)
        try:
            connection.putrequest(method, path, skip_accept_encoding=True)
            for name, value in pairs:
                connection.putheader(name, value)
            if method == 'POST':
                if not any(name.lower() == 'content-type' for name, _ in pairs):
                    connection.putheader('Content-Type', 'application/json')
                connection.putheader('Content-Length', str(len(body)))
            connection.endheaders(body if method == 'POST' else None)
            answer = connection.getresponse()
            return Answer(answer.status, answer.getheaders(), answer.read())
        finally:
            connection.close()
