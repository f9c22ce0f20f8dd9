"""Puts the 0.1 agent to the test with the client of pya2a.

    v0_1.py BASE_URL HOOK_URL
"""

import argparse
import asyncio
import uuid

from a2a.client import A2ACardResolver, A2AClient
from checking import check


def saying(text, task=None, **more):
    message = {'role': 'user', 'parts': [{'type': 'text', 'text': text}]}
    return {'id': task or uuid.uuid4().hex, 'sessionId': 'session-1', 'message': message, **more}


def texts(task):
    return [getattr(part, 'text', None) for artifact in task.artifacts or [] for part in artifact.parts]


async def main():
    parser = argparse.ArgumentParser()
    parser.add_argument('base')
    parser.add_argument('hook')
    options = parser.parse_args()
    card = await asyncio.to_thread(A2ACardResolver(options.base).get_agent_card)
    client = A2AClient(agent_card=card)

    async def send(*arguments, **more):
        return (await client.send_task(saying(*arguments, **more))).result

    def tell(*arguments):
        check('JSONRPC', *arguments)

    task = await send('echo hello there')
    tell('echo', [task.status.state.value, *texts(task)], ['completed', 'hello there'])
    stream = [event.result async for event in client.send_task_streaming(saying('slow 3'))]
    chunks = [event.artifact.parts[0].text for event in stream if getattr(event, 'artifact', None)]
    tell('slow', chunks, ['chunk 1 ', 'chunk 2 ', 'chunk 3 '])
    tell('slow-ends', [stream[-1].status.state.value, stream[-1].final], ['completed', True])
    asked = await send('ask')
    tell('ask', asked.status.state.value, 'input-required')
    done = await send('Paris', task=asked.id)
    tell('answer', [done.status.state.value, *texts(done)], ['completed', 'Paris'])
    tell('fail', (await send('fail')).status.state.value, 'failed')
    [artifact] = (await send('files')).artifacts
    tell('files', [part.type for part in artifact.parts], ['text', 'file', 'file', 'data'])
    held = await send('hold')
    tell('hold', held.status.state.value, 'working')
    hook = {'url': options.hook, 'token': 'opaque'}
    set_hook = await client.set_task_callback({'id': held.id, 'pushNotificationConfig': hook})
    tell('push-set', set_hook.result.pushNotificationConfig.url, options.hook)
    got_hook = await client.get_task_callback({'id': held.id})
    tell('push-get', got_hook.result.pushNotificationConfig.url, options.hook)
    tell('cancel', (await client.cancel_task({'id': held.id})).result.status.state.value, 'canceled')
    tell('get', (await client.get_task({'id': held.id})).result.status.state.value, 'canceled')


if __name__ == '__main__':
    asyncio.run(main())
