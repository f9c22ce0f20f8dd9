"""Says to an agent-native server what its client will not.

    probe_agent_native.py BASE_URL HOOK_URL --grpc HOST:PORT [--bare]
"""

import argparse
import asyncio
import json

import httpx
from marks import case

NOBODY = '00000000-0000-4000-8000-000000000000'
KEY = {'Authorization': 'Bearer static-key'}


def rpc(method, params, number=7):
    return {'jsonrpc': '2.0', 'id': number, 'method': method, 'params': params}


def saying(text):
    return {'message': {'role': 'user', 'parts': [{'type': 'text', 'text': text}]}}


async def run(http, base, bare):
    async def send(name, body, headers=KEY, path='/_agent-native/a2a'):
        text = body if isinstance(body, str) else json.dumps(body)
        async with case('agent-native', reply=name, probe=True, provoked_by=f'POST {path} {text}'[:300]):
            head = {'Content-Type': 'application/json', **headers}
            await http.post(base + path, content=text.encode(), headers=head)

    if bare:
        await send('error.not-configured', rpc('message/send', saying('task')), headers={})
        await send('error.not-configured-bearer', rpc('message/send', saying('task')))
        await send('error.process-task-not-configured', {'taskId': NOBODY}, {}, '/_agent-native/a2a/_process-task')
        async with case('agent-native', reply='card-production', probe=True, provoked_by='GET card'):
            await http.get(base + '/.well-known/agent-card.json')
        return
    await send('error.invalid-request', {'jsonrpc': '1.0', 'id': 7, 'method': 'tasks/get', 'params': {'id': 'x'}})
    await send('error.batch', [rpc('tasks/get', {'id': NOBODY})])
    await send('error.parse-error', '{"jsonrpc":"2.0","id":7,"method":')
    await send('error.method-not-found', rpc('tasks/dance', {}))
    await send('error.push-set', rpc('tasks/pushNotificationConfig/set', {}))
    await send('error.invalid-params', rpc('message/send', {}))
    await send('error.stream-invalid-params', rpc('message/stream', {}))
    await send('error.get-no-id', rpc('tasks/get', {}))
    await send('error.task-not-found', rpc('tasks/get', {'id': NOBODY}))
    await send('error.cancel-not-found', rpc('tasks/cancel', {'id': NOBODY}))
    await send('error.handler', rpc('message/send', saying('crash')))
    await send('error.stream-handler', rpc('message/stream', saying('crash')))
    await send('error.no-bearer', rpc('message/send', saying('task')), headers={})
    await send('error.bad-key', rpc('message/send', saying('task')), headers={'Authorization': 'Bearer nonsense'})
    await send('error.idempotency-key', rpc('message/send', {**saying('task'), 'async': True, 'idempotencyKey': 7}))
    await send('error.invoke-no-identity', rpc('actions/invoke', {'action': 'read', 'input': {}}))
    await send('error.process-task-no-id', {}, {}, '/_agent-native/a2a/_process-task')
    await send('error.process-task-token', {'taskId': NOBODY}, KEY, '/_agent-native/a2a/_process-task')
    await send('no-id.reply', {'jsonrpc': '2.0', 'method': 'message/send', 'params': saying('task')})
    async with case('agent-native', reply='error.http-method', probe=True, provoked_by='GET /_agent-native/a2a'):
        await http.get(base + '/_agent-native/a2a', headers=KEY)


async def main():
    parser = argparse.ArgumentParser()
    parser.add_argument('base')
    parser.add_argument('hook')
    parser.add_argument('--grpc')
    parser.add_argument('--bare', action='store_true')
    options = parser.parse_args()
    async with httpx.AsyncClient(timeout=20) as http:
        await run(http, options.base, options.bare)


if __name__ == '__main__':
    asyncio.run(main())
