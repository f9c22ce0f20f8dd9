"""Puts an agent of `agents/behaviour.py` to the test with the client of a2a-sdk 0.3.

    python_0_3.py BASE_URL HOOK_URL
"""

import argparse
import asyncio
import uuid

import grpc
import httpx
from a2a.client import ClientConfig, ClientFactory
from a2a.types import (
    Message,
    PushNotificationConfig,
    TaskArtifactUpdateEvent,
    TaskIdParams,
    TaskQueryParams,
    TaskStatusUpdateEvent,
)
from checking import check, deliveries

BINDINGS = ('JSONRPC', 'HTTP+JSON', 'GRPC')


async def connect(options, binding, **settings):
    config = ClientConfig(
        httpx_client=httpx.AsyncClient(timeout=20, trust_env=False), grpc_channel_factory=grpc.aio.insecure_channel,
        supported_transports=[binding], **settings,
    )
    return await ClientFactory.connect(options.base, client_config=config)


def message(text, **more):
    value = {'kind': 'message', 'messageId': str(uuid.uuid4()), 'role': 'user'}
    return Message.model_validate({**value, 'parts': [{'kind': 'text', 'text': text}], **more})


def texts(task):
    return [getattr(part.root, 'text', None) for artifact in task.artifacts or [] for part in artifact.parts]


async def run(options, binding):
    once = await connect(options, binding, streaming=False)
    live = await connect(options, binding, streaming=True)

    async def send(text, client=once, **more):
        last = None
        async for last in client.send_message(message(text, **more)):
            pass
        return last[0] if isinstance(last, tuple) else last

    task = await send('echo hello there')
    check(binding, 'echo', [task.status.state.value, *texts(task)], ['completed', 'hello there'])
    check(binding, 'message', (await send('message')).parts[0].root.text, 'a direct message')
    chunks = [
        update.artifact.parts[0].root.text
        async for _, update in live.send_message(message('slow 3'))
        if isinstance(update, TaskArtifactUpdateEvent)
    ]
    check(binding, 'slow', chunks, ['chunk 1 ', 'chunk 2 ', 'chunk 3 '])
    asked = await send('ask')
    check(binding, 'ask', asked.status.state.value, 'input-required')
    done = await send('Paris', task_id=asked.id, context_id=asked.context_id)
    check(binding, 'answer', [done.status.state.value, *texts(done)], ['completed', 'Paris'])
    states = [(await send(word)).status.state.value for word in ('fail', 'reject', 'auth')]
    check(binding, 'states', states, ['failed', 'rejected', 'auth-required'])
    [artifact] = (await send('files')).artifacts
    check(binding, 'files', [part.root.kind for part in artifact.parts], ['text', 'file', 'file', 'data'])
    polling = await connect(options, binding, streaming=False, polling=True)
    slow = await send('slow 3', client=polling)
    # This server does not show a cancel to those who joined, so it is a task that ends by itself.
    check(binding, 'resubscribe', await last_state(live.resubscribe(TaskIdParams(id=slow.id))), 'completed')
    held = await send('hold', client=polling)
    canceled = await once.cancel_task(TaskIdParams(id=held.id))
    check(binding, 'cancel', canceled.status.state.value, 'canceled')
    check(binding, 'get', (await once.get_task(TaskQueryParams(id=task.id))).id, task.id)
    token = str(uuid.uuid4())
    hook = PushNotificationConfig(url=options.hook, token=token)
    pushed = await connect(options, binding, streaming=False, push_notification_configs=[hook])
    await send('echo pushed', client=pushed)
    check(binding, 'push', bool(await deliveries(options.hook, token)), True)
    if binding != 'GRPC':
        # Over gRPC this server has one card for everybody.
        check(binding, 'extended', (await once.get_card()).description, 'The extended card')


async def last_state(stream):
    states = [update.status.state.value async for _, update in stream if isinstance(update, TaskStatusUpdateEvent)]
    return states[-1]


async def main():
    parser = argparse.ArgumentParser()
    parser.add_argument('base')
    parser.add_argument('hook')
    options = parser.parse_args()
    for binding in BINDINGS:
        await run(options, binding)


if __name__ == '__main__':
    asyncio.run(main())
