"""The last official Python SDK for 0.3 as a guest of the network; commands and answers as in `python_v1.py`."""

import asyncio
import json
import sys
import uuid

import httpx
from a2a.client import ClientConfig, ClientFactory
from a2a.client.card_resolver import A2ACardResolver
from a2a.types import Message, Task, TransportProtocol


async def connect(base, key):
    http = httpx.AsyncClient(headers={'Authorization': f'Bearer {key}'}, timeout=20)
    card = await A2ACardResolver(http, base).get_agent_card()
    config = ClientConfig(streaming=False, supported_transports=[TransportProtocol.jsonrpc], httpx_client=http)
    return card, ClientFactory(config).create(card)


def message(asked):
    part = {'kind': 'data', 'data': asked['data']} if 'data' in asked else {'kind': 'text', 'text': asked['text']}
    value = {'messageId': asked.get('id') or str(uuid.uuid4()), 'role': 'user', 'parts': [part]}
    if asked.get('skill'):
        value['metadata'] = {'skill': asked['skill'], 'skillId': asked['skill']}
    return Message.model_validate(value)


async def send(client, asked):
    reply = [one async for one in client.send_message(message(asked))][-1]
    told = reply[0] if isinstance(reply, tuple) else reply
    if isinstance(told, Task):
        found = [part for artifact in told.artifacts or [] for part in artifact.parts]
        said = told.status.message.parts if told.status.message else []
        state = f'TASK_STATE_{told.status.state.value.upper().replace("-", "_")}'
        return {'kind': 'task', 'state': state, 'parts': parts(found or said), 'task': told.id}
    return {'kind': 'message', 'state': None, 'parts': parts(told.parts)}


def parts(found):
    return [part.root.data if part.root.kind == 'data' else part.root.text for part in found]


async def main(base, key):
    card, client = await connect(base, key)
    for line in sys.stdin:
        asked = json.loads(line)
        try:
            if asked['do'] == 'card':
                answer = {'name': card.name, 'skills': {one.id: list(one.tags) for one in card.skills}}
            else:
                answer = await send(client, asked)
        except Exception as error:
            answer = {'error': f'{type(error).__name__}: {error}'}
        print(json.dumps(answer), flush=True)


if __name__ == '__main__':
    asyncio.run(main(*sys.argv[1:]))
