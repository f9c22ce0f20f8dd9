"""A clock of its own for a server: forward it goes, as a check tells it.

    clock = Clock(world)
    with world.server(config, env=clock.env) as server:
        clock.forward(301)

The server is given `clock.c` beside it, so its program stays as it is.
"""

import pathlib
import struct
import subprocess
import tempfile
import time

HERE = pathlib.Path(__file__).resolve().parent


class Clock:
    def __init__(self, world, off=0):
        self.library = world.once('clock', lambda: build(world.scratch))
        self.file = pathlib.Path(tempfile.mkdtemp(prefix='clock-', dir=world.scratch)) / 'offset'
        self.off = 0
        self.file.write_bytes(struct.pack('q', 0))
        self.forward(off)

    @property
    def env(self):
        return {'LD_PRELOAD': self.library, 'GUARD_CLOCK': self.file}

    def forward(self, seconds):
        self.off += seconds
        # In place: the server has the page mapped.
        with open(self.file, 'r+b') as file:
            file.write(struct.pack('q', self.off))

    def show(self, now):
        """The server's clock shows this second, and goes on from there."""
        while not 0.02 < time.time() % 1 < 0.5:
            time.sleep(0.01)
        self.forward(now - int(time.time()) - self.off)

    @property
    def now(self):
        return int(time.time()) + self.off


def build(folder):
    library = folder / 'clock.so'
    command = ['cc', '-shared', '-fPIC', '-O1', '-o', library, HERE / 'clock.c', '-ldl']
    subprocess.run(command, check=True, capture_output=True)
    return library
