#!/usr/bin/env python3
"""One receiver of webhooks, a process of its own: keeps every request on disk, and fails as often as it is told to.

    receiver.py PORT RECORD SEED

A line of the record is written and synced before anything is answered, so it says what the receiver knew when it
answered. A request that was cut off has a line too. The record is only ever appended to; it is the judge's evidence.
"""

import asyncio
import collections
import json
import os
import random
import sys
import time

sys.dont_write_bytecode = True

import scene

BODY_BYTES_MAX = 1 << 20


class Receiver:
    def __init__(self, record, seed):
        self.record = os.open(record, os.O_WRONLY | os.O_CREAT | os.O_APPEND, 0o600)
        self.rng, self.failed = random.Random(seed), collections.Counter()

    def keep(self, line):
        os.write(self.record, json.dumps(line).encode() + b'\n')
        os.fsync(self.record)

    async def serve(self, reader, writer):
        """One connection, for as many requests as it is good for."""
        try:
            while await self.one(reader, writer):
                pass
        except (OSError, EOFError, asyncio.LimitOverrunError):
            # The server was killed, or has given up waiting.
            pass
        finally:
            writer.close()

    async def one(self, reader, writer):
        """One request; false when the connection is of no more use."""
        head = (await reader.readuntil(b'\r\n\r\n')).decode('latin-1').split('\r\n')
        method, path, _ = head[0].split(' ')
        headers = [[name.lower(), value.strip()] for name, _, value in (line.partition(':') for line in head[1:-2])]
        length = min(int(dict(headers).get('content-length', 0)), BODY_BYTES_MAX)
        answer = self.decide(dict(headers).get('webhook-id'))
        body = await reader.readexactly(length // 2 if answer == 'cut' else length)
        # From here to the answer nothing else runs: the order of the lines is the order of the answers.
        self.keep({'at': time.time(), 'method': method, 'path': path, 'headers': headers,
                   'body': body.decode('latin-1'), 'answer': answer})
        return await self.answer(answer, writer)

    def decide(self, delivery):
        fails = self.rng.random() < scene.FAILS and self.failed[delivery] < scene.FAILS_IN_A_ROW_MAX
        self.failed[delivery] = self.failed[delivery] + 1 if fails else 0
        ways = scene.REFUSES if fails else scene.ACCEPTS
        return self.rng.choices(list(ways), list(ways.values()))[0]

    async def answer(self, answer, writer):
        if answer in ('cut', 'lost'):
            writer.transport.abort()
            return False
        if answer == 'silence':
            # Too late to be of use to anybody, and a 200 all the same: it must not be taken for the next one's.
            await asyncio.sleep(scene.TIMEOUT_SECONDS * 2)
            answer = '200'
        if answer == 'torn':
            writer.write(b'HTTP/1.1 200 OK\r\nContent-Length: 1000\r\n\r\nthis is not all')
            return False
        wait = 'Retry-After: 1\r\n' if answer == '503' else ''
        length = '' if answer == '204' else 'Content-Length: 0\r\n'
        writer.write(f'HTTP/1.1 {answer} Status\r\n{length}{wait}\r\n'.encode())
        await writer.drain()
        if answer in scene.ACCEPTS:
            print('accepted', flush=True)
        return True


async def main(port, record, seed):
    receiver = Receiver(record, seed)
    server = await asyncio.start_server(receiver.serve, '127.0.0.1', int(port), backlog=512)
    async with server:
        # Ends with whoever started it, however that ended.
        await asyncio.get_running_loop().run_in_executor(None, sys.stdin.read)
    os._exit(0)


if __name__ == '__main__':
    asyncio.run(main(*sys.argv[1:]))
