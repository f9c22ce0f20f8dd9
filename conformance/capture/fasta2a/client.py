"""The client of fasta2a 0.2 (protocol 0.1), put through every operation it has.

    client.py BASE_URL HOOK_URL
"""

import argparse
import asyncio
import pathlib
import sys

import httpx

sys.path.insert(0, str(pathlib.Path(__file__).resolve().parent.parent))

from fasta2a.client import A2AClient
from fasta2a.schema import DataPart, FilePart, Message, TextPart
from marks import case


async def run(base, hook_url):
    client = A2AClient(base)

    def mark(**names):
        return case('v0.1', **names)

    async with mark(reply='card'):
        await httpx.AsyncClient().get(f'{base}/.well-known/agent.json')
    text = TextPart(type='text', text='task please', metadata={'lang': 'en'})
    async with mark(request='send.request', reply='send.reply-submitted'):
        task = (await client.send_task(Message(role='user', parts=[text])))['result']
    async with mark(request='get.request', reply='get.reply-working'):
        await asyncio.sleep(0.1)
        await client.get_task(task['id'])
    async with mark(reply='get.reply-completed'):
        await asyncio.sleep(0.8)
        await client.get_task(task['id'])
    async with mark(request='parts.request', reply='parts.reply'):
        await client.send_task(
            Message(role='user', parts=[
                text,
                FilePart(type='file', file={'name': 'a.txt', 'mime_type': 'text/plain', 'data': 'aGVsbG8/Pj4+'}),
                FilePart(type='file', file={'url': 'https://x.example/b', 'mime_type': 'image/png'}),
                DataPart(type='data', data={'n': 1, 'list': [1, 'two', None, True]}),
            ]),
            history_length=3,
            metadata={'request': {'traced': True}},
            push_notification={'url': hook_url, 'token': 'opaque-token'},
        )


async def main():
    parser = argparse.ArgumentParser()
    parser.add_argument('base')
    parser.add_argument('hook')
    options = parser.parse_args()
    await run(options.base, options.hook)


if __name__ == '__main__':
    asyncio.run(main())
