"""Puts an agent of `agents/behaviour.py` to the test with the client of a2a-sdk 1.x.

    python_1.py BASE_URL HOOK_URL [--ca CA --client-cert CERT --client-key KEY]
"""

import argparse
import asyncio
import pathlib
import ssl
import uuid

import grpc
import httpx
from a2a.client import ClientConfig, ClientFactory
from a2a.types import a2a_pb2 as pb
from checking import check, deliveries
from google.protobuf.json_format import MessageToDict, ParseDict

BINDINGS = ('JSONRPC', 'HTTP+JSON', 'GRPC')


def request(text, configuration=None, **more):
    message = {'messageId': str(uuid.uuid4()), 'role': 'ROLE_USER', 'parts': [{'text': text}], **more}
    return ParseDict({'message': message, 'configuration': configuration or {}}, pb.SendMessageRequest())


async def connect(options, binding, streaming):
    def channel(url):
        if not options.ca:
            return grpc.aio.insecure_channel(url)
        files = (options.ca, options.client_key, options.client_cert)
        credentials = grpc.ssl_channel_credentials(*(path and pathlib.Path(path).read_bytes() for path in files))
        return grpc.aio.secure_channel(url.removeprefix('https://'), credentials)

    verify = True
    if options.ca:
        verify = ssl.create_default_context(cafile=options.ca)
        if options.client_cert:
            verify.load_cert_chain(options.client_cert, options.client_key)
    config = ClientConfig(
        streaming=streaming, supported_protocol_bindings=[binding], grpc_channel_factory=channel,
        httpx_client=httpx.AsyncClient(timeout=20, verify=verify, trust_env=False),
    )
    return await ClientFactory(config).create_from_url(options.base)


async def events(stream):
    return [MessageToDict(event) async for event in stream]


def text_of(task):
    return [part.get('text') for artifact in task.get('artifacts', []) for part in artifact['parts']]


async def run(options, binding):
    once, live = await connect(options, binding, False), await connect(options, binding, True)

    async def send(*arguments, **more):
        return (await events(once.send_message(request(*arguments, **more))))[-1]

    task = (await send('echo hello there'))['task']
    check(binding, 'echo', [task['status']['state'], *text_of(task)], ['TASK_STATE_COMPLETED', 'hello there'])
    check(binding, 'message', (await send('message'))['message']['parts'], [{'text': 'a direct message'}])
    stream = await events(live.send_message(request('slow 3')))
    chunks = [event['artifactUpdate']['artifact']['parts'][0]['text'] for event in stream if 'artifactUpdate' in event]
    check(binding, 'slow', chunks, ['chunk 1 ', 'chunk 2 ', 'chunk 3 '])
    check(binding, 'slow-ends', stream[-1]['statusUpdate']['status']['state'], 'TASK_STATE_COMPLETED')
    asked = (await send('ask'))['task']
    check(binding, 'ask', asked['status']['state'], 'TASK_STATE_INPUT_REQUIRED')
    done = (await send('Paris', taskId=asked['id'], contextId=asked['contextId']))['task']
    check(binding, 'answer', [done['status']['state'], *text_of(done)], ['TASK_STATE_COMPLETED', 'Paris'])
    states = [(await send(word))['task']['status']['state'] for word in ('fail', 'reject', 'auth')]
    check(binding, 'states', states, ['TASK_STATE_FAILED', 'TASK_STATE_REJECTED', 'TASK_STATE_AUTH_REQUIRED'])
    [artifact] = (await send('files'))['task']['artifacts']
    check(binding, 'files', [next(key for key in part if key not in ('filename', 'mediaType'))
                             for part in artifact['parts']], ['text', 'raw', 'url', 'data'])
    held = (await send('hold', configuration={'returnImmediately': True}))['task']['id']
    joined = asyncio.create_task(events(live.subscribe(pb.SubscribeToTaskRequest(id=held))))
    await asyncio.sleep(0.3)
    canceled = MessageToDict(await once.cancel_task(pb.CancelTaskRequest(id=held)))
    check(binding, 'cancel', canceled['status']['state'], 'TASK_STATE_CANCELED')
    check(binding, 'subscribe', (await joined)[-1]['statusUpdate']['status']['state'], 'TASK_STATE_CANCELED')
    got = MessageToDict(await once.get_task(pb.GetTaskRequest(id=task['id'])))
    check(binding, 'get', got['id'], task['id'])
    listed = MessageToDict(await once.list_tasks(pb.ListTasksRequest(context_id=task['contextId'])))
    check(binding, 'list', [one['id'] for one in listed['tasks']], [task['id']])
    token = str(uuid.uuid4())
    hook = {'url': options.hook, 'token': token}
    await send('echo pushed', configuration={'taskPushNotificationConfig': hook})
    check(binding, 'push', bool(await deliveries(options.hook, token)), True)
    extended = await once.get_extended_agent_card(pb.GetExtendedAgentCardRequest())
    check(binding, 'extended', extended.description, 'The extended card')


async def main():
    parser = argparse.ArgumentParser()
    parser.add_argument('base')
    parser.add_argument('hook')
    for name in ('--ca', '--client-cert', '--client-key'):
        parser.add_argument(name)
    options = parser.parse_args()
    for binding in BINDINGS:
        await run(options, binding)


if __name__ == '__main__':
    asyncio.run(main())
