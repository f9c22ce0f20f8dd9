"""The client of a2a-sdk 0.2, put through every operation it has.

    client.py BASE_URL HOOK_URL
"""

import argparse
import asyncio
import json
import pathlib
import sys
import uuid

import httpx

sys.path.insert(0, str(pathlib.Path(__file__).resolve().parent.parent))

from a2a import types
from a2a.client import A2ACardResolver, A2AClient
from marks import case

EXTENSION = 'https://ext.example/trace'


def request(kind, params):
    return getattr(types, kind).model_validate({'id': str(uuid.uuid4()), 'params': params})


def message(text, **more):
    parts = [{'kind': 'text', 'text': text}]
    return {'kind': 'message', 'messageId': str(uuid.uuid4()), 'role': 'user', 'parts': parts, **more}


def saying(text, configuration=None, metadata=None, **more):
    settings = {'acceptedOutputModes': ['text/plain'], **(configuration or {})}
    extra = {'metadata': metadata} if metadata else {}
    return {'message': message(text, **more), 'configuration': settings, **extra}


def result(reply):
    value = json.loads(reply.model_dump_json(by_alias=True, exclude_none=True))
    return value['result']


async def run(base, hook_url):
    http = httpx.AsyncClient(timeout=20)

    def mark(**names):
        return case('v0.2', **names)

    resolver = A2ACardResolver(http, base)
    # The early releases write an API key's `in` as `in_`, and cannot read it back.
    async with mark(request='card.request', reply='card', may_fail=True):
        await resolver.get_agent_card()
    async with mark(request='extended-card.request', reply='extended-card', may_fail=True):
        await resolver.get_agent_card(relative_card_path='/agent/authenticatedExtendedCard')
    client = A2AClient(http, url=f'{base}/rpc')

    async def send(*arguments, **more):
        return result(await client.send_message(request('SendMessageRequest', saying(*arguments, **more))))

    async with mark(request='send.request', reply='send.reply-task'):
        task = await send('task please', {'blocking': True, 'historyLength': 5})
    async with mark(request='send-message.request', reply='send.reply-message'):
        await send('message please')
    async with mark(request='parts.request', reply='parts.reply'):
        await send(
            'parts please',
            metadata={'request': {'traced': True}},
            contextId=task['contextId'],
            referenceTaskIds=[task['id']],
            extensions=[EXTENSION],
            parts=[
                {'kind': 'text', 'text': 'parts please', 'metadata': {'lang': 'en'}},
                {'kind': 'file', 'file': {'name': 'a.txt', 'mimeType': 'text/plain', 'bytes': 'aGVsbG8/Pj4+'}},
                {'kind': 'file', 'file': {'name': 'b.png', 'mimeType': 'image/png', 'uri': 'https://x.example/b'}},
                {'kind': 'data', 'data': {'n': 1, 'list': [1, 'two', None, True], 'deep': {'empty': {}}}},
            ],
        )
    asked = None
    for word, state in (('fail', 'failed'), ('reject', 'rejected'), ('auth', 'auth-required'), ('ask', 'input-required')):
        # The early releases do not return at `auth-required`; what they do instead is kept all the same.
        async with mark(reply=f'send.reply-{state}', may_fail=state == 'auth-required'):
            asked = await send(word)
    async with mark(request='answer.request', reply='answer.reply'):
        await send('answer Paris', taskId=asked['id'], contextId=asked['contextId'])
    async with mark(request='get.request', reply='get.reply'):
        await client.get_task(request('GetTaskRequest', {'id': task['id'], 'historyLength': 1}))
    async with mark(request='stream.request', reply='stream', events=''):
        streaming = request('SendStreamingMessageRequest', saying('task please'))
        async for _ in client.send_message_streaming(streaming):
            pass
    async with mark(reply='stream-message', events=''):
        streaming = request('SendStreamingMessageRequest', saying('message please'))
        async for _ in client.send_message_streaming(streaming):
            pass

    # A task that is still open: the early releases know no `blocking`, so it is started by a stream that is left alone.
    ids = asyncio.Queue()

    async def hold():
        async for event in client.send_message_streaming(request('SendStreamingMessageRequest', saying('hold on'))):
            await ids.put(result(event)['id'])

    async with mark(request='hold.request'):
        holding = asyncio.create_task(hold())
        held = await ids.get()
        await asyncio.sleep(0.3)
    config = {
        'url': hook_url,
        'token': 'opaque-token',
        'authentication': {'schemes': ['Bearer', 'Basic'], 'credentials': 'c2VjcmV0'},
    }
    async with mark(request='push-set.request', reply='push-set.reply'):
        params = {'taskId': held, 'pushNotificationConfig': config}
        await client.set_task_callback(request('SetTaskPushNotificationConfigRequest', params))
    async with mark(request='push-get.request', reply='push-get.reply'):
        await client.get_task_callback(request('GetTaskPushNotificationConfigRequest', {'id': held}))
    async with mark(request='cancel.request', reply='cancel.reply'):
        await client.cancel_task(request('CancelTaskRequest', {'id': held}))
    holding.cancel()
    async with mark(request='push-inline.request', reply='push-inline.reply'):
        await send('task please', {'pushNotificationConfig': config})
    # The early releases call the hook of a streamed message only.
    async with mark(request='push-stream.request', hook='push-payload'):
        streaming = request('SendStreamingMessageRequest', saying('task please', {'pushNotificationConfig': config}))
        async for _ in client.send_message_streaming(streaming):
            pass


async def main():
    parser = argparse.ArgumentParser()
    parser.add_argument('base')
    parser.add_argument('hook')
    options = parser.parse_args()
    await run(options.base, options.hook)


if __name__ == '__main__':
    asyncio.run(main())
