"""The client of a2a-sdk 0.3, put through every operation it has, on all three bindings.

    client.py BASE_URL HOOK_URL [--bare]
"""

import argparse
import asyncio
import pathlib
import sys
import uuid

import grpc
import httpx

sys.path.insert(0, str(pathlib.Path(__file__).resolve().parent.parent))

from a2a.client import ClientConfig, ClientFactory
from a2a.types import (
    GetTaskPushNotificationConfigParams,
    Message,
    MessageSendConfiguration,
    PushNotificationConfig,
    TaskIdParams,
    TaskPushNotificationConfig,
    TaskQueryParams,
)
from marks import case

DIALECTS = {'JSONRPC': 'v0.3-jsonrpc', 'HTTP+JSON': 'v0.3-rest', 'GRPC': 'v0.3-grpc'}
# Paths that are calls, and not the card.
CALLS = '/rpc|/v1/|A2AService'
EXTENSION = 'https://ext.example/trace'


def message(text, **more):
    return Message.model_validate({
        'kind': 'message',
        'messageId': str(uuid.uuid4()),
        'role': 'user',
        'parts': [{'kind': 'text', 'text': text}],
        **more,
    })


def hook(url):
    return PushNotificationConfig.model_validate({
        'id': 'hook-1',
        'url': url,
        'token': 'opaque-token',
        'authentication': {'schemes': ['Bearer', 'Basic'], 'credentials': 'c2VjcmV0'},
    })


async def connect(base, binding, **settings):
    config = ClientConfig(
        httpx_client=httpx.AsyncClient(timeout=20),
        grpc_channel_factory=grpc.aio.insecure_channel,
        supported_transports=[binding],
        use_client_preference=True,
        accepted_output_modes=['text/plain', 'application/json'],
        **settings,
    )
    return await ClientFactory.connect(base, client_config=config)


async def last(stream):
    """The last thing a call yields: a message, or the task as the client has put it together."""
    result = None
    async for result in stream:
        pass
    return result[0] if isinstance(result, tuple) else result


async def run(base, hook_url, binding):
    dialect = DIALECTS[binding]

    def mark(**names):
        return case(dialect, **names)

    if binding == 'JSONRPC':
        async with mark(request='card.request', reply='card'):
            await connect(base, binding)
    unary = await connect(base, binding, streaming=False)
    polling = await connect(base, binding, streaming=False, polling=True)
    stream = await connect(base, binding, streaming=True)

    async with mark(request='send.request', reply='send.reply-task'):
        task = await last(unary.send_message(message('task please')))
    async with mark(reply='send.reply-message', request='send-message.request'):
        await last(unary.send_message(message('message please')))
    async with mark(request='parts.request', reply='parts.reply'):
        await last(unary.send_message(
            message(
                'parts please',
                contextId=task.context_id,
                referenceTaskIds=[task.id],
                extensions=[EXTENSION],
                metadata={EXTENSION: {'span': 's-0'}, 'n': 1, 'half': 0.5},
                parts=[
                    {'kind': 'text', 'text': 'parts please', 'metadata': {'lang': 'en'}},
                    {'kind': 'file', 'file': {'name': 'a.txt', 'mimeType': 'text/plain', 'bytes': 'aGVsbG8/Pj4+'}},
                    {'kind': 'file', 'file': {'name': 'b.png', 'mimeType': 'image/png', 'uri': 'https://x.example/b'}},
                    {'kind': 'data', 'data': {'n': 1, 'list': [1, 'two', True], 'deep': {'empty': {}}}},
                ],
            ),
            request_metadata={'request': {'traced': True}},
            extensions=[EXTENSION],
        ))
    async with mark(request='null-data.request', reply='null-data.reply'):
        nothing = {'kind': 'data', 'data': {'nothing': None, 'list': [None]}}
        await last(unary.send_message(message('', parts=[{'kind': 'text', 'text': 'null-data'}, nothing])))
    for word in ('fail', 'reject', 'auth', 'ask'):
        state = {'fail': 'failed', 'reject': 'rejected', 'auth': 'auth-required', 'ask': 'input-required'}[word]
        async with mark(reply=f'send.reply-{state}'):
            asked = await last(unary.send_message(message(word)))
    async with mark(request='answer.request', reply='answer.reply'):
        await last(unary.send_message(message('answer Paris', taskId=asked.id, contextId=asked.context_id)))
    async with mark(request='get.request', reply='get.reply'):
        await unary.get_task(TaskQueryParams(id=task.id, history_length=1))
    async with mark(request='get-plain.request', reply='get-plain.reply'):
        await unary.get_task(TaskQueryParams(id=task.id))

    async with mark(request='stream.request', reply='stream', events='', path=CALLS):
        await last(stream.send_message(message('task please')))
    async with mark(reply='stream-message', events=''):
        await last(stream.send_message(message('message please')))

    async with mark(request='send-nonblocking.request', reply='send-nonblocking.reply'):
        held = await last(polling.send_message(message('hold on')))
    await push(mark, unary, held, hook_url)
    async with mark(request='cancel.request', reply='cancel.reply'):
        await unary.cancel_task(TaskIdParams(id=held.id))

    slow = await last(polling.send_message(message('slow please')))
    async with mark(request='resubscribe.request', reply='resubscribe', events='resubscribe.'):
        async for _ in stream.resubscribe(TaskIdParams(id=slow.id)):
            pass

    async with mark(request='push-inline.request', reply='push-inline.reply', hook='push-payload', path=CALLS):
        # A hook given for one call only is turned into a plain `dict` on the way, and the REST and gRPC clients trip.
        pushing = await connect(base, binding, streaming=False, push_notification_configs=[hook(hook_url)])
        few = MessageSendConfiguration(history_length=2)
        await last(pushing.send_message(message('task please'), configuration=few))

    async with mark(request='extended-card.request', reply='extended-card', path=CALLS):
        await unary.get_card()


async def push(mark, client, task, hook_url):
    async with mark(request='push-set.request', reply='push-set.reply'):
        await client.set_task_callback(TaskPushNotificationConfig(
            task_id=task.id, push_notification_config=hook(hook_url)
        ))
    async with mark(request='push-get.request', reply='push-get.reply'):
        await client.get_task_callback(GetTaskPushNotificationConfigParams(
            id=task.id, push_notification_config_id='hook-1'
        ))


async def main():
    parser = argparse.ArgumentParser()
    parser.add_argument('base')
    parser.add_argument('hook')
    options = parser.parse_args()
    for binding in DIALECTS:
        await run(options.base, options.hook, binding)


if __name__ == '__main__':
    asyncio.run(main())
