"""The last official Python SDK for 0.3 as a customer of webhooks: registers them, and reads what they are sent.

    python_v03.py BASE_URL VERSION          # commands on standard input, answers on standard output, a line of JSON each
"""

import asyncio
import json
import sys
import uuid

import grpc
from a2a.client import ClientConfig, ClientFactory
from a2a.types import (
    GetTaskPushNotificationConfigParams,
    Message,
    PushNotificationConfig,
    Task,
    TaskPushNotificationConfig,
)


async def client(base, binding, **settings):
    config = ClientConfig(
        streaming=False, supported_transports=[binding], grpc_channel_factory=grpc.aio.insecure_channel, **settings
    )
    return await ClientFactory.connect(base, config)


def say(text, **fields):
    value = {'messageId': str(uuid.uuid4()), 'role': 'user', 'parts': [{'kind': 'text', 'text': text}], **fields}
    return Message.model_validate(value)


def wish(asked):
    value = {'id': asked['id'], 'url': asked['url'], 'token': asked.get('token')}
    if asked.get('scheme'):
        value['authentication'] = {'schemes': [asked['scheme']], 'credentials': asked.get('credentials')}
    return PushNotificationConfig.model_validate(value)


async def send(client, message):
    reply = [reply async for reply in client.send_message(message)][0]
    return reply[0] if isinstance(reply, tuple) else reply


async def register(base, asked):
    if asked['how'] == 'inline':
        # Here the webhook is a setting of the client, which sends it with every message.
        sender = await client(base, asked['binding'], polling=True, push_notification_configs=[wish(asked)])
        return {'task': (await send(sender, say('go'))).id}
    sender = await client(base, asked['binding'])
    task = await send(sender, say('ask me'))
    await sender.set_task_callback(
        TaskPushNotificationConfig(task_id=task.id, push_notification_config=wish(asked))
    )
    await send(sender, say('this one', taskId=task.id))
    return {'task': task.id}


async def kept(base, asked):
    wanted = GetTaskPushNotificationConfigParams(id=asked['task'], push_notification_config_id=asked['id'])
    got = await (await client(base, asked['binding'])).get_task_callback(wanted)
    return {'get': got.model_dump(mode='json', exclude_none=True), 'list': None}


def read(body):
    told = Task.model_validate_json(body)
    texts = [part.root.text for artifact in told.artifacts or [] for part in artifact.parts]
    state = f'TASK_STATE_{told.status.state.value.upper().replace("-", "_")}'
    return {'kind': told.kind, 'task': told.id, 'state': state, 'texts': texts}


async def main(base, _):
    for line in sys.stdin:
        asked = json.loads(line)
        try:
            if asked['do'] == 'read':
                answer = read(asked['body'])
            else:
                answer = await {'register': register, 'kept': kept}[asked['do']](base, asked)
        except Exception as error:
            answer = {'error': f'{type(error).__name__}: {error}'}
        print(json.dumps(answer), flush=True)


if __name__ == '__main__':
    asyncio.run(main(*sys.argv[1:]))
