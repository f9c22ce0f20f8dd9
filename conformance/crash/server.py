"""The server under test: started, killed, started again on the same port and the same data."""

import asyncio
import contextlib
import os
import pathlib
import signal
import sys
import time

sys.path.append(str(pathlib.Path(__file__).resolve().parent.parent))

import startup
from startup import free_ports

STOP_SECONDS_MAX = 10


class Server:
    """One server, through all its lives."""

    def __init__(self, sabir, scratch, config, durability='full', prefix=()):
        self.scratch, self.data = pathlib.Path(scratch), pathlib.Path(scratch) / 'data'
        self.address = ('127.0.0.1', *free_ports(1))
        self.config = self.scratch / 'sabir.toml'
        self.config.write_text(config)
        self.arguments = [*prefix, str(sabir), 'serve', '--config', str(self.config),
                          '--listen', '{}:{}'.format(*self.address), '--data', str(self.data)]
        # Variables override the file, and one of them left over in a shell would test something else.
        self.environment = {k: v for k, v in os.environ.items() if not k.startswith(('SABIR_', 'A2A_'))}
        self.environment['SABIR_STORE__DURABILITY'] = durability
        self.log, self.out = self.scratch / 'server.log', self.scratch / 'server.out'
        self.process = None

    async def start(self):
        """Returns how many seconds it took to be ready."""
        began = time.monotonic()
        with open(self.log, 'ab') as log, open(self.out, 'wb') as out:
            # In a process group of its own, so that what it starts can be ended with it.
            self.process = await asyncio.create_subprocess_exec(
                *self.arguments, cwd=self.scratch, env=self.environment, start_new_session=True,
                stdin=asyncio.subprocess.DEVNULL, stdout=out, stderr=log)
        ready = startup.line_in(self.out, rb'(listening on http)')
        # In a thread: clients go on meanwhile, on this event loop.
        await asyncio.to_thread(startup.wait, self.process, self.arguments, ready, self.out, self.log)
        return time.monotonic() - began

    def alive(self):
        return self.process is not None and self.process.returncode is None

    async def kill(self):
        """`kill -9`, and the time it took effect. Afterwards nothing of it runs any more."""
        os.killpg(self.process.pid, signal.SIGKILL)
        killed_ms = time.time() * 1000
        await self.gone()
        self.process = None
        return killed_ms

    async def stop(self):
        """The orderly end."""
        if self.alive():
            os.killpg(self.process.pid, signal.SIGTERM)
            with contextlib.suppress(TimeoutError):
                async with asyncio.timeout(STOP_SECONDS_MAX):
                    await self.gone()
        self.end()

    async def gone(self):
        await self.process.wait()

    def end(self):
        """Whatever happened before, nothing stays behind. Needs no event loop, so that it can be the last resort.

        The group outlives its first process if that was only a wrapper, such as a tracer, and ends without the server.
        """
        if self.process is not None:
            with contextlib.suppress(ProcessLookupError):
                os.killpg(self.process.pid, signal.SIGKILL)
            # Once: later the number may be somebody else's.
            self.process = None

    def tail(self):
        return startup.tail(self.log)
