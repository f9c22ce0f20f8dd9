"""The official Python SDK 1.x as a guest of the network: reads the catalog's cards, asks and books by message.

    python_v1.py BASE_URL KEY [ENTRY]  # commands on standard input, answers on standard output, a line of JSON each

`{"do": "card"}` shows skills; `{"do": "send", "skill": …, "data": {…} | "text": …}` sends one message. With an entry of a
catalog it calls the interfaces that stand there instead of those of the card.
"""

import asyncio
import json
import sys
import uuid

import httpx
from a2a.client import A2ACardResolver, ClientConfig, ClientFactory
from a2a.types import a2a_pb2 as pb
from google.protobuf.json_format import MessageToDict, ParseDict


async def connect(base, key, entry=None):
    http = httpx.AsyncClient(headers={'Authorization': f'Bearer {key}'}, timeout=20)
    card = await A2ACardResolver(http, base).get_agent_card()
    kept = [one for one in card.supported_interfaces if one.protocol_version.startswith('1.0')]
    if entry:
        kept = [ParseDict(one, pb.AgentInterface()) for one in json.loads(entry)['interfaces']]
    del card.supported_interfaces[:]
    card.supported_interfaces.extend(kept)
    config = ClientConfig(streaming=False, supported_protocol_bindings=['JSONRPC'], httpx_client=http)
    return card, ClientFactory(config).create(card)


def message(asked):
    part = pb.Part()
    if 'data' in asked:
        ParseDict(asked['data'], part.data)
    else:
        part.text = asked['text']
    made = pb.Message(message_id=asked.get('id') or str(uuid.uuid4()), role=pb.ROLE_USER, parts=[part])
    if asked.get('skill'):
        made.metadata.update({'skill': asked['skill'], 'skillId': asked['skill']})
    return made


async def send(client, asked):
    request = pb.SendMessageRequest(message=message(asked))
    reply = [one async for one in client.send_message(request)][-1]
    kind = reply.WhichOneof('payload')
    told = getattr(reply, kind)
    if kind == 'message':
        return {'kind': kind, 'state': None, 'parts': parts(told.parts)}
    found = [part for artifact in told.artifacts for part in artifact.parts]
    said = list(told.status.message.parts) if told.status.HasField('message') else []
    return {'kind': kind, 'state': pb.TaskState.Name(told.status.state), 'parts': parts(found or said), 'task': told.id}


def parts(found):
    return [MessageToDict(part.data) if part.WhichOneof('content') == 'data' else part.text for part in found]


async def main(base, key, entry=None):
    card, client = await connect(base, key, entry)
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
