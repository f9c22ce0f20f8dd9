"""The server under test: started, killed, started again on the same port and the same data."""

import asyncio
import contextlib
import os
import pathlib
import random
import signal
import socket
import time

# A debug build on a busy machine, with a thousand tasks to take up again, is ready well within this.
START_SECONDS_MAX = 30
STOP_SECONDS_MAX = 10


class NotServing(Exception):
    """The server did not come up, or did not stay up."""


class Server:
    """One server, through all its lives."""

    def __init__(self, sabir, scratch, config, durability='full', prefix=()):
        self.scratch, self.data = pathlib.Path(scratch), pathlib.Path(scratch) / 'data'
        self.address = ('127.0.0.1', free_port())
        self.config = self.scratch / 'sabir.toml'
        self.config.write_text(config)
        self.arguments = [*prefix, str(sabir), 'serve', '--config', str(self.config),
                          '--listen', '{}:{}'.format(*self.address), '--data', str(self.data)]
        # Variables override the file, and one of them left over in a shell would test something else.
        self.environment = {k: v for k, v in os.environ.items() if not k.startswith(('SABIR_', 'A2A_'))}
        self.environment['SABIR_STORE__DURABILITY'] = durability
        self.process = self.reading = None

    async def start(self):
        """Returns how many seconds it took to be ready."""
        began = time.monotonic()
        with open(self.scratch / 'server.log', 'ab') as log:
            # In a process group of its own, so that what it starts can be ended with it.
            self.process = await asyncio.create_subprocess_exec(
                *self.arguments, cwd=self.scratch, env=self.environment, start_new_session=True,
                stdin=asyncio.subprocess.DEVNULL, stdout=asyncio.subprocess.PIPE, stderr=log)
        ready = asyncio.get_running_loop().create_future()
        self.reading = asyncio.create_task(self.read(self.process.stdout, ready))
        try:
            async with asyncio.timeout(START_SECONDS_MAX):
                await ready
        except TimeoutError:
            raise NotServing(f'it was not ready within {START_SECONDS_MAX} s\n{self.tail()}') from None
        return time.monotonic() - began

    async def read(self, output, ready):
        """Waits for the line that says it listens, and reads on, so that no full pipe ever stops it."""
        with open(self.scratch / 'server.out', 'ab') as copy:
            async for line in output:
                copy.write(line)
                if b'listening on http' in line and not ready.done():
                    ready.set_result(None)
        if not ready.done():
            ready.set_exception(NotServing(f'it ended before it was ready\n{self.tail()}'))

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
        await self.reading

    def end(self):
        """Whatever happened before, nothing stays behind. Needs no event loop, so that it can be the last resort.

        The group outlives its first process if that was only a wrapper, such as a tracer, and ends without the server.
        """
        if self.process is not None:
            with contextlib.suppress(ProcessLookupError):
                os.killpg(self.process.pid, signal.SIGKILL)
            # Once: later the number may be somebody else's.
            self.process = None

    def tail(self, count=20):
        text = (self.scratch / 'server.log').read_text(errors='replace')
        return '\n'.join(f'    {line}' for line in text.splitlines()[-count:])


def free_port():
    """A port to come back to after every kill.

    It must lie outside the range from which the system takes the ports of outgoing connections. Inside of it, one of
    our own clients could be given the very port it is trying to reach while nobody listens there, connect to itself,
    and keep the server from coming back.
    """
    try:
        low = int(pathlib.Path('/proc/sys/net/ipv4/ip_local_port_range').read_text().split()[0])
    except OSError:
        low = 32768
    for port in random.SystemRandom().sample(range(max(1024, low - 12000), low), 200):
        with socket.socket() as attempt:
            try:
                attempt.bind(('127.0.0.1', port))
            except OSError:
                continue
            return port
    raise NotServing('no free port was found')
