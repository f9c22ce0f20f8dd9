"""HTTP/1.1 and event streams on raw sockets, as far as they are needed here.

A client library would pool, reconnect and retry behind our back, and then nobody could say what was shown to whom when
the server was killed. Here one connection is one socket; it ends when the server does, and everything after that is
the decision of the client above.
"""

import asyncio
import contextlib
import json

# Far beyond anything a loaded machine needs; a server that takes longer has forgotten us.
SILENCE_SECONDS_MAX = 20
LINE_BYTES_MAX = 1 << 20


class Cut(Exception):
    """The connection ended before the answer did. What the server made of the request, nobody knows."""


class Silent(Exception):
    """The connection is open and nothing comes."""


class Refused(Exception):
    """The server answered, with an error."""

    def __init__(self, code, reason, message):
        super().__init__(f'{code} {reason}: {message}')
        self.code, self.reason = code, reason


class Connection:
    """One socket, opened at the first request and again after it was closed."""

    def __init__(self, address):
        self.address, self.reader, self.writer = address, None, None

    async def post(self, path, body, headers):
        """Sends a request and returns status and headers of the answer; the body is still to be read."""
        host, port = self.address
        async with heard():
            if self.writer is None:
                self.reader, self.writer = await asyncio.open_connection(host, port, limit=LINE_BYTES_MAX)
            fields = {'Host': f'{host}:{port}', 'Content-Length': len(body), **headers}
            head = ''.join(f'{name}: {value}\r\n' for name, value in fields.items())
            self.writer.write(f'POST {path} HTTP/1.1\r\n{head}\r\n'.encode() + body)
            await self.writer.drain()
            status = int((await self.line()).split()[1])
            answered = {}
            while line := await self.line():
                name, _, value = line.partition(b':')
                answered[name.decode().lower()] = value.decode().strip()
            return status, answered

    async def line(self):
        return (await self.reader.readuntil(b'\n')).rstrip(b'\r\n')

    async def body(self, headers):
        """The whole body of an answer."""
        async with heard():
            if 'content-length' in headers:
                body = await self.reader.readexactly(int(headers['content-length']))
            else:
                body = b''.join([chunk async for chunk in self.chunks()])
        if headers.get('connection', '').lower() == 'close':
            self.close()
        return body

    async def chunks(self):
        """The pieces of a body whose length was not known; ends only where the server said that it ends."""
        while size := int((await self.line()).split(b';')[0], 16):
            yield await self.reader.readexactly(size)
            await self.line()
        await self.line()

    async def frames(self):
        """The frames of an event stream as `(id, data)`; an incomplete frame at the end was never shown to anybody."""
        chunks, frames = self.chunks(), Frames()
        while True:
            async with heard():
                chunk = await anext(chunks, None)
            if chunk is None:
                return
            for frame in frames.feed(chunk):
                yield frame

    def close(self):
        if self.writer is not None:
            # Not gracefully: a peer that was killed is not waited for.
            self.writer.transport.abort()
        self.reader = self.writer = None


class Frames:
    """Cuts the bytes of an event stream into frames, wherever the network has cut them before."""

    def __init__(self):
        self.rest, self.id, self.data = b'', None, []

    def feed(self, chunk):
        *lines, self.rest = (self.rest + chunk).split(b'\n')
        for line in (line.rstrip(b'\r') for line in lines):
            name, _, value = line.partition(b':')
            value = value.removeprefix(b' ')
            if name == b'id':
                self.id = value.decode()
            elif name == b'data':
                self.data.append(value)
            elif not line:
                # A blank line after comments only ends nothing: no data, no event.
                if self.data:
                    yield self.id, b'\n'.join(self.data)
                self.id, self.data = None, []


@contextlib.asynccontextmanager
async def heard():
    """Turns what a killed server looks like from here into `Cut`, and one that says nothing into `Silent`."""
    try:
        async with asyncio.timeout(SILENCE_SECONDS_MAX):
            yield
    except TimeoutError:
        raise Silent(f'nothing came for {SILENCE_SECONDS_MAX} s') from None
    except (OSError, EOFError) as error:
        raise Cut(str(error)) from error


def unwrap(binding, status, body):
    """The result in an answer; errors are raised as `Refused`."""
    answer = json.loads(body)
    if 'error' in answer:
        error = answer['error']
        details = error.get('data' if binding == 'JSONRPC' else 'details') or [{}]
        raise Refused(error.get('code'), details[0].get('reason'), error.get('message'))
    if status != 200:
        raise Refused(status, None, 'an answer that is neither a result nor an error')
    return answer['result'] if binding == 'JSONRPC' else answer
