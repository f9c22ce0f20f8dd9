"""The official Python SDK 1.x as a customer of webhooks: registers them, and reads what they are sent.

    python_v1.py BASE_URL VERSION          # commands on standard input, answers on standard output, a line of JSON each

Told to speak 0.3, it is given only our interfaces of 0.3, and reads with the SDK's own types for that version.
"""

import asyncio
import json
import sys
import uuid

import grpc
import httpx
from a2a.client import A2ACardResolver, ClientConfig, ClientFactory
from a2a.compat.v0_3 import conversions
from a2a.compat.v0_3 import types as older
from a2a.types import a2a_pb2 as pb
from google.protobuf.json_format import MessageToJson, Parse


async def client(base, version, binding):
    async with httpx.AsyncClient() as http:
        card = await A2ACardResolver(http, base).get_agent_card()
    kept = [one for one in card.supported_interfaces if one.protocol_version.startswith(version)]
    del card.supported_interfaces[:]
    card.supported_interfaces.extend(kept)
    config = ClientConfig(
        streaming=False, supported_protocol_bindings=[binding], grpc_channel_factory=grpc.aio.insecure_channel
    )
    return ClientFactory(config).create(card)


def say(text, **fields):
    return pb.Message(message_id=str(uuid.uuid4()), role=pb.ROLE_USER, parts=[pb.Part(text=text)], **fields)


def wish(asked, **fields):
    made = pb.TaskPushNotificationConfig(id=asked['id'], url=asked['url'], token=asked.get('token') or '', **fields)
    if asked.get('scheme'):
        made.authentication.CopyFrom(
            pb.AuthenticationInfo(scheme=asked['scheme'], credentials=asked.get('credentials') or '')
        )
    return made


async def send(client, message, **configuration):
    request = pb.SendMessageRequest(message=message, configuration=pb.SendMessageConfiguration(**configuration))
    return [reply async for reply in client.send_message(request)][0].task


async def register(client, asked):
    if asked['how'] == 'inline':
        task = await send(client, say('go'), return_immediately=True, task_push_notification_config=wish(asked))
        return {'task': task.id}
    task = await send(client, say('ask me'))
    await client.create_task_push_notification_config(wish(asked, task_id=task.id))
    await send(client, say('this one', task_id=task.id), return_immediately=True)
    return {'task': task.id}


async def kept(client, asked):
    """What the SDK shows of a registration, by get and by list."""
    got = await client.get_task_push_notification_config(
        pb.GetTaskPushNotificationConfigRequest(task_id=asked['task'], id=asked['id'])
    )
    try:
        listed = await client.list_task_push_notification_configs(
            pb.ListTaskPushNotificationConfigsRequest(task_id=asked['task'])
        )
    except NotImplementedError:
        # Over HTTP+JSON of 0.3 this SDK has no call for it.
        return {'get': json.loads(MessageToJson(got)), 'list': None}
    return {'get': json.loads(MessageToJson(got)), 'list': json.loads(MessageToJson(listed))}


def read(version, body):
    """A delivery in the SDK's own types; fields they do not know are an error."""
    if version == '1.0':
        event = Parse(body, pb.StreamResponse())
        kind = event.WhichOneof('payload')
        told = getattr(event, kind)
    else:
        kind, told = 'task', conversions.to_core_task(older.Task.model_validate_json(body))
    state = pb.TaskState.Name(told.status.state) if kind in ('task', 'status_update') else None
    artifacts = [told.artifact] if kind == 'artifact_update' else told.artifacts if kind == 'task' else []
    texts = [part.text for artifact in artifacts for part in artifact.parts]
    return {'kind': kind, 'task': told.id if kind == 'task' else told.task_id, 'state': state, 'texts': texts}


async def main(base, version):
    clients = {}
    for line in sys.stdin:
        asked = json.loads(line)
        try:
            if asked['do'] == 'read':
                answer = read(version, asked['body'])
            else:
                binding = asked['binding']
                if binding not in clients:
                    clients[binding] = await client(base, version, binding)
                answer = await {'register': register, 'kept': kept}[asked['do']](clients[binding], asked)
        except Exception as error:
            answer = {'error': f'{type(error).__name__}: {error}'}
        print(json.dumps(answer), flush=True)


if __name__ == '__main__':
    asyncio.run(main(*sys.argv[1:]))
