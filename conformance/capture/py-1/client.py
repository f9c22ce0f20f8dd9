"""The client of a2a-sdk 1.x, put through every operation it has, on all three bindings.

    client.py BASE_URL HOOK_URL

What it speaks depends on the card it meets: 0.3 to a server that shows a 0.3 card, else 1.0. `CAPTURE_DIALECT` says
which is expected.
"""

import argparse
import asyncio
import os
import pathlib
import sys
import uuid

import grpc
import httpx

sys.path.insert(0, str(pathlib.Path(__file__).resolve().parent.parent))

from a2a.client import ClientCallContext, ClientConfig, ClientFactory
from a2a.client.service_parameters import ServiceParametersFactory, with_a2a_extensions
from a2a.types import a2a_pb2 as pb
from google.protobuf.json_format import ParseDict
from marks import case

SPOKEN = os.environ['CAPTURE_DIALECT']
DIALECTS = {'JSONRPC': f'{SPOKEN}-jsonrpc', 'HTTP+JSON': f'{SPOKEN}-rest', 'GRPC': f'{SPOKEN}-grpc'}
# Paths that are calls, and not the card.
CALLS = '/rpc|/rest|A2AService'
EXTENSION = 'https://ext.example/trace'


def request(text, *, configuration=None, metadata=None, **more):
    value = {
        'message': {'messageId': str(uuid.uuid4()), 'role': 'ROLE_USER', 'parts': [{'text': text}], **more},
        'configuration': {'acceptedOutputModes': ['text/plain', 'application/json'], **(configuration or {})},
        **({'metadata': metadata} if metadata else {}),
    }
    return ParseDict(value, pb.SendMessageRequest())


def hook(url, task=''):
    auth = pb.AuthenticationInfo(scheme='Bearer', credentials='c2VjcmV0')
    return pb.TaskPushNotificationConfig(task_id=task, id='hook-1', url=url, token='opaque-token', authentication=auth)


async def connect(base, binding, streaming):
    config = ClientConfig(
        streaming=streaming,
        httpx_client=httpx.AsyncClient(timeout=20),
        supported_protocol_bindings=[binding],
        grpc_channel_factory=grpc.aio.insecure_channel,
    )
    return await ClientFactory(config).create_from_url(base)


async def last(stream):
    result = None
    async for result in stream:
        pass
    kind = result and result.WhichOneof('payload')
    return getattr(result, kind) if kind else result


async def run(base, hook_url, binding):
    def mark(**names):
        return case(DIALECTS[binding], **names)

    if binding == 'JSONRPC':
        async with mark(request='card.request', reply='card'):
            await connect(base, binding, False)
    unary = await connect(base, binding, False)
    stream = await connect(base, binding, True)

    async with mark(request='send.request', reply='send.reply-task'):
        task = await last(unary.send_message(request('task please')))
    async with mark(request='send-message.request', reply='send.reply-message'):
        await last(unary.send_message(request('message please')))
    traced = ClientCallContext(service_parameters=ServiceParametersFactory.create([with_a2a_extensions([EXTENSION])]))
    async with mark(request='parts.request', reply='parts.reply'):
        parted = request(
            'parts please',
            contextId=task.context_id,
            referenceTaskIds=[task.id],
            extensions=[EXTENSION],
            metadata={'request': {'traced': True}},
            parts=[
                {'text': 'parts please', 'metadata': {'lang': 'en'}},
                {'raw': 'aGVsbG8/Pj4+', 'filename': 'a.txt', 'mediaType': 'text/plain'},
                {'url': 'https://x.example/b', 'filename': 'b.png', 'mediaType': 'image/png'},
                {'data': {'n': 1, 'list': [1, 'two', True], 'deep': {'empty': {}}}},
                {'text': '# named', 'filename': 'n.md', 'mediaType': 'text/markdown'},
            ],
        )
        ParseDict({EXTENSION: {'span': 's-0'}, 'n': 1, 'half': 0.5}, parted.message.metadata)
        await last(unary.send_message(parted, context=traced))
    async with mark(request='odd-data.request', reply='odd-data.reply', may_fail=True):
        odd = ['a string', 42, True, ['an', 'array'], {'an': 'object'}]
        await last(unary.send_message(request('', parts=[{'text': 'task'}, *({'data': value} for value in odd)])))
    async with mark(request='null-part.request', reply='null-part-sent.reply', may_fail=True):
        await last(unary.send_message(request('', parts=[{'text': 'task'}, {'data': None}])))
    asked = None
    for word, state in (('fail', 'failed'), ('reject', 'rejected'), ('auth', 'auth-required'), ('ask', 'input-required')):
        async with mark(reply=f'send.reply-{state}'):
            asked = await last(unary.send_message(request(word)))
    async with mark(request='answer.request', reply='answer.reply'):
        await last(unary.send_message(request('answer Paris', taskId=asked.id, contextId=asked.context_id)))
    async with mark(request='get.request', reply='get.reply'):
        await unary.get_task(pb.GetTaskRequest(id=task.id, history_length=1))
    async with mark(request='get-plain.request', reply='get-plain.reply'):
        await unary.get_task(pb.GetTaskRequest(id=task.id))
    async with mark(request='stream.request', reply='stream', events=''):
        await last(stream.send_message(request('task please')))
    async with mark(reply='stream-message', events=''):
        await last(stream.send_message(request('message please')))

    later = {'returnImmediately': True}
    async with mark(request='send-nonblocking.request', reply='send-nonblocking.reply'):
        held = await last(unary.send_message(request('hold on', configuration=later)))
    named = {'task_id': held.id, 'id': 'hook-1'}
    async with mark(request='push-set.request', reply='push-set.reply'):
        await unary.create_task_push_notification_config(hook(hook_url, held.id))
    async with mark(request='push-get.request', reply='push-get.reply'):
        await unary.get_task_push_notification_config(pb.GetTaskPushNotificationConfigRequest(**named))
    async with mark(request='push-list.request', reply='push-list.reply', may_fail=True):
        listing = pb.ListTaskPushNotificationConfigsRequest(task_id=held.id)
        await unary.list_task_push_notification_configs(listing)
    async with mark(request='push-delete.request', reply='push-delete.reply', may_fail=True):
        await unary.delete_task_push_notification_config(pb.DeleteTaskPushNotificationConfigRequest(**named))
    async with mark(request='cancel.request', reply='cancel.reply'):
        await unary.cancel_task(pb.CancelTaskRequest(id=held.id))
    async with mark(request='list.request', reply='list.reply', may_fail=True):
        await unary.list_tasks(pb.ListTasksRequest(context_id=task.context_id, page_size=2, history_length=0))

    slow = await last(unary.send_message(request('slow please', configuration=later)))
    # Over REST it tries POST first, and then what the server allows.
    nth = int(os.environ.get('CAPTURE_SUBSCRIBE_TRY', '0')) if binding == 'HTTP+JSON' else 0
    async with mark(request='resubscribe.request', reply='resubscribe', events='resubscribe.', nth=nth):
        async for _ in stream.subscribe(pb.SubscribeToTaskRequest(id=slow.id)):
            pass
    async with mark(request='push-inline.request', reply='push-inline.reply', hook='push-payload'):
        inline = pb.SendMessageRequest()
        inline.CopyFrom(request('task please', configuration={'historyLength': 2}))
        inline.configuration.task_push_notification_config.CopyFrom(hook(hook_url))
        await last(unary.send_message(inline))
    async with mark(request='extended-card.request', reply='extended-card', path=CALLS):
        await unary.get_extended_agent_card(pb.GetExtendedAgentCardRequest())


async def main():
    parser = argparse.ArgumentParser()
    parser.add_argument('base')
    parser.add_argument('hook')
    options = parser.parse_args()
    for binding in DIALECTS:
        await run(options.base, options.hook, binding)


if __name__ == '__main__':
    asyncio.run(main())
