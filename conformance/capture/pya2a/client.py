"""The client of pya2a (0.1), put through every operation it has.

    client.py BASE_URL HOOK_URL
"""

import argparse
import asyncio
import pathlib
import sys
import uuid

sys.path.insert(0, str(pathlib.Path(__file__).resolve().parent.parent))

from a2a.client import A2ACardResolver, A2AClient
from marks import case


def saying(text, task=None, parts=(), **more):
    return {
        'id': task or uuid.uuid4().hex,
        'sessionId': more.pop('session', 'session-1'),
        'message': {'role': 'user', 'parts': [{'type': 'text', 'text': text}, *parts]},
        'acceptedOutputModes': ['text'],
        **more,
    }


async def run(base, hook_url):
    def mark(**names):
        return case('v0.1', **names)

    async with mark(request='card.request', reply='card'):
        card = await asyncio.to_thread(A2ACardResolver(base).get_agent_card)
    client = A2AClient(agent_card=card)
    hook = {
        'url': hook_url,
        'token': 'opaque-token',
        'authentication': {'schemes': ['bearer'], 'credentials': 'c2VjcmV0'},
    }

    async with mark(request='send.request', reply='send.reply-task'):
        task = (await client.send_task(saying('task please', historyLength=3))).result
    async with mark(request='send-least.request', reply='send-least.reply'):
        message = {'role': 'user', 'parts': [{'type': 'text', 'text': 'task'}]}
        await client.send_task({'id': 'a-name-of-my-own', 'message': message})
    async with mark(request='parts.request', reply='parts.reply'):
        parted = saying('parts please', parts=[
            {'type': 'file', 'file': {'name': 'a.txt', 'mimeType': 'text/plain', 'bytes': 'aGVsbG8/Pj4+'}},
            {'type': 'file', 'file': {'name': 'b.png', 'mimeType': 'image/png', 'uri': 'https://x.example/b'}},
            {'type': 'data', 'data': {'n': 1, 'list': [1, 'two', None, True]}, 'metadata': {'lang': 'en'}},
        ], metadata={'request': {'traced': True}}, historyLength=1)
        await client.send_task(parted)
    async with mark(reply='send.reply-failed'):
        await client.send_task(saying('fail'))
    async with mark(reply='send.reply-input-required'):
        asked = (await client.send_task(saying('ask', historyLength=5))).result
    async with mark(request='answer.request', reply='answer.reply'):
        await client.send_task(saying('answer Paris', task=asked.id, historyLength=5))
    async with mark(request='get.request', reply='get.reply'):
        await client.get_task({'id': task.id, 'historyLength': 1})
    async with mark(request='get-plain.request', reply='get-plain.reply'):
        await client.get_task({'id': task.id})
    async with mark(request='stream.request', reply='stream', events=''):
        async for _ in client.send_task_streaming(saying('task please')):
            pass
    async with mark(reply='stream-input-required', events='ask.'):
        async for _ in client.send_task_streaming(saying('ask')):
            pass
    held = (await client.send_task(saying('hold on'))).result
    async with mark(request='push-set.request', reply='push-set.reply'):
        await client.set_task_callback({'id': held.id, 'pushNotificationConfig': hook})
    async with mark(request='push-get.request', reply='push-get.reply'):
        await client.get_task_callback({'id': held.id})
    async with mark(request='cancel.request', reply='cancel.reply'):
        await client.cancel_task({'id': held.id})
    async with mark(request='push-inline.request', reply='push-inline.reply', hook='push-payload'):
        await client.send_task(saying('task please', pushNotification=hook))


async def main():
    parser = argparse.ArgumentParser()
    parser.add_argument('base')
    parser.add_argument('hook')
    options = parser.parse_args()
    await run(options.base, options.hook)


if __name__ == '__main__':
    asyncio.run(main())
