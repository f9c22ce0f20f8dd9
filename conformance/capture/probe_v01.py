"""Says to a 0.1 server what no client will.

    probe_v01.py BASE_URL HOOK_URL --grpc HOST:PORT [--bare] [--endpoint /rpc] [--streams]
"""

import argparse
import asyncio
import contextlib
import json

import httpx
from marks import case

NOBODY = '00000000-0000-4000-8000-000000000000'


def rpc(method, params, number=7):
    return {'jsonrpc': '2.0', 'id': number, 'method': method, 'params': params}


def saying(text, task, **more):
    return {'id': task, 'message': {'role': 'user', 'parts': [{'type': 'text', 'text': text}]}, **more}


async def run(http, options):
    async def send(name, body, events=None):
        text = body if isinstance(body, str) else json.dumps(body)
        provoked = f'POST {options.endpoint} {text}'[:300]
        async with case('v0.1', reply=name, probe=True, provoked_by=provoked, events=events):
            with contextlib.suppress(httpx.RemoteProtocolError):
                head = {'Content-Type': 'application/json'}
                await http.post(options.base + options.endpoint, content=text.encode(), headers=head)

    if options.bare:
        await send('error.unsupported-operation', rpc('tasks/sendSubscribe', saying('task', 'bare-1')))
        hook = {'url': options.hook}
        await send('error.push-not-supported', rpc('tasks/send', saying('task', 'bare-2', pushNotification=hook)))
        async with case('v0.1', reply='card-bare', probe=True, provoked_by='GET /.well-known/agent.json'):
            await http.get(options.base + '/.well-known/agent.json')
        return
    await send('error.parse-error', '{"jsonrpc":"2.0","id":7,"method":')
    await send('error.invalid-request', {'jsonrpc': '1.0', 'id': 7, 'method': 'tasks/get', 'params': {'id': 'x'}})
    await send('error.method-not-found', rpc('tasks/dance', {}))
    await send('error.message-send', rpc('message/send', saying('task', 'x')))
    await send('error.invalid-params', rpc('tasks/send', {}))
    await send('error.kind-for-type', rpc('tasks/send', {
        'id': 'x', 'message': {'role': 'user', 'parts': [{'kind': 'text', 'text': 'task'}]},
    }))
    await send('error.task-not-found', rpc('tasks/get', {'id': NOBODY}))
    await send('send-probe.reply', rpc('tasks/send', saying('task', 'probe-1', sessionId='s-1')))
    await asyncio.sleep(0.7)
    await send('error.task-not-cancelable', rpc('tasks/cancel', {'id': 'probe-1'}))
    # Last, because one of them does not survive it.
    await send('error.cancel-not-found', rpc('tasks/cancel', {'id': NOBODY}))
    if not options.streams:
        return
    await send('error.internal', rpc('tasks/send', saying('crash', 'probe-2')))
    await send('error.stream-internal', rpc('tasks/sendSubscribe', saying('crash', 'probe-3')))
    await send('error.output-modes', rpc('tasks/send', saying('task', 'probe-4', acceptedOutputModes=['video'])))
    hook = {'url': 'http://127.0.0.1:9/nobody'}
    await send('error.push-url', rpc('tasks/send', saying('task', 'probe-5', pushNotification=hook)))
    await send('error.push-get-not-found', rpc('tasks/pushNotification/get', {'id': 'probe-1'}))
    params = {'id': NOBODY, 'pushNotificationConfig': hook}
    await send('error.push-set-not-found', rpc('tasks/pushNotification/set', params))
    await send('error.resubscribe-not-found', rpc('tasks/resubscribe', {'id': NOBODY}))
    await send('stream-parts', rpc('tasks/sendSubscribe', saying('parts', 'probe-6')), events='parts.')
    async with case('v0.1', reply='jwks', probe=True, provoked_by='GET /.well-known/jwks.json'):
        await http.get(options.base + '/.well-known/jwks.json')


async def main():
    parser = argparse.ArgumentParser()
    parser.add_argument('base')
    parser.add_argument('hook')
    parser.add_argument('--grpc')
    parser.add_argument('--bare', action='store_true')
    parser.add_argument('--endpoint', default='/rpc')
    parser.add_argument('--streams', action='store_true')
    options = parser.parse_args()
    async with httpx.AsyncClient(timeout=20) as http:
        await run(http, options)


if __name__ == '__main__':
    asyncio.run(main())
