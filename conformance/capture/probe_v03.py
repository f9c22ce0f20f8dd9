"""Says to a 0.3 or 0.2 server what no client of an SDK will: requests that must fail, and operations its client lacks.

    probe_v03.py BASE_URL HOOK_URL --grpc HOST:PORT [--bare] [--bindings JSONRPC,HTTP+JSON,GRPC] [--dialect v0.2]

Only the replies are kept: the requests were written here. `--bare` is for a server whose card refuses streaming, push
notifications and the extended card.
"""

import argparse
import asyncio
import contextlib
import json
import uuid

import grpc
import httpx

from a2a.grpc import a2a_pb2 as pb
from a2a.grpc import a2a_pb2_grpc
from google.protobuf.json_format import ParseDict
from marks import case

NAMES = ('jsonrpc', 'rest', 'grpc')
# The early 0.2 releases insist on the first.
SETTINGS = {'acceptedOutputModes': ['text/plain'], 'blocking': True}
NOBODY = '00000000-0000-4000-8000-000000000000'


def rpc(method, params, number=7):
    return {'jsonrpc': '2.0', 'id': number, 'method': method, 'params': params}


def message(text, **more):
    parts = [{'kind': 'text', 'text': text}]
    return {'kind': 'message', 'messageId': str(uuid.uuid4()), 'role': 'user', 'parts': parts, **more}


def short(text):
    return text if len(text) <= 300 else text[:300] + '…'


async def jsonrpc(http, base, hook, bare, dialect):
    url = f'{base}/rpc'

    async def send(name, body, kind='application/json', headers=None, events=None):
        text = body if isinstance(body, str) else json.dumps(body)
        async with case(dialect, reply=name, probe=True, provoked_by=short(f'POST /rpc {text}'), events=events):
            # Some servers break a stream off when the agent fails.
            with contextlib.suppress(httpx.RemoteProtocolError):
                await http.post(url, content=text.encode(), headers={'Content-Type': kind, **(headers or {})})

    async def task(text, **settings):
        params = {'message': message(text), 'configuration': {**SETTINGS, **settings}}
        answer = await http.post(url, json=rpc('message/send', params))
        return answer.json()['result']['id']

    config = {'id': 'c-1', 'url': hook, 'token': 'tok'}
    if bare:
        done = await task('task')
        await send('error.unsupported-operation', rpc('message/stream', {'message': message('task')}))
        await send('error.resubscribe-unsupported', rpc('tasks/resubscribe', {'id': done}))
        params = {'taskId': done, 'pushNotificationConfig': config}
        await send('error.push-not-supported', rpc('tasks/pushNotificationConfig/set', params))
        await send('error.push-get-not-supported', rpc('tasks/pushNotificationConfig/get', {'id': done}))
        await send('error.push-list-not-supported', rpc('tasks/pushNotificationConfig/list', {'id': done}))
        params = {'message': message('task'), 'configuration': {**SETTINGS, 'pushNotificationConfig': config}}
        await send('error.push-inline-not-supported', rpc('message/send', params))
        bare_card = {'jsonrpc': '2.0', 'id': 7, 'method': 'agent/getAuthenticatedExtendedCard'}
        await send('error.extended-card-not-configured', bare_card)
        return

    await send('error.parse-error', '{"jsonrpc":"2.0","id":7,"method":')
    await send('error.invalid-request', {'jsonrpc': '1.0', 'id': 7, 'method': 'tasks/get', 'params': {'id': 'x'}})
    await send('error.no-method', {'jsonrpc': '2.0', 'id': 7, 'params': {}})
    await send('error.batch', [rpc('tasks/get', {'id': NOBODY})])
    await send('error.method-not-found', rpc('tasks/dance', {}))
    await send('error.tasks-list', rpc('tasks/list', {}))
    await send('error.invalid-params', rpc('message/send', {}))
    await send('error.no-params', {'jsonrpc': '2.0', 'id': 7, 'method': 'tasks/get'})
    await send('error.no-parts', rpc('message/send', {'message': message('x', parts=[])}))
    await send('error.content-type', rpc('tasks/get', {'id': NOBODY}), kind='text/plain')
    await send('error.version', rpc('tasks/get', {'id': NOBODY}), headers={'A2A-Version': '9.9'})
    await send('error.string-id', rpc('tasks/get', {'id': NOBODY}, 'a-string'))
    await send('error.no-id', {'jsonrpc': '2.0', 'method': 'tasks/get', 'params': {'id': NOBODY}})
    await send('error.task-not-found', rpc('tasks/get', {'id': NOBODY}))
    await send('error.cancel-not-found', rpc('tasks/cancel', {'id': NOBODY}))
    await send('error.resubscribe-not-found', rpc('tasks/resubscribe', {'id': NOBODY}))
    await send('error.send-not-found', rpc('message/send', {'message': message('task', taskId=NOBODY)}))
    params = {'taskId': NOBODY, 'pushNotificationConfig': config}
    await send('error.push-task-not-found', rpc('tasks/pushNotificationConfig/set', params))
    await send('error.internal', rpc('message/send', {'message': message('crash')}))
    await send('error.stream-internal', rpc('message/stream', {'message': message('crash')}))
    done = await task('task')
    await send('error.task-not-cancelable', rpc('tasks/cancel', {'id': done}))
    await send('error.resubscribe-terminal', rpc('tasks/resubscribe', {'id': done}))
    await send('error.terminal-task', rpc('message/send', {'message': message('task', taskId=done)}))
    await send('error.push-config-not-found', rpc('tasks/pushNotificationConfig/get', {'id': done}))
    params = {'taskId': done, 'pushNotificationConfig': config}
    await http.post(url, json=rpc('tasks/pushNotificationConfig/set', params))
    params = {'taskId': done, 'pushNotificationConfig': {'url': hook + '/2'}}
    await send('push-set-no-id.reply', rpc('tasks/pushNotificationConfig/set', params))
    await send('push-get-no-id.reply', rpc('tasks/pushNotificationConfig/get', {'id': done}))
    await send('push-list.reply', rpc('tasks/pushNotificationConfig/list', {'id': done}))
    params = {'id': done, 'pushNotificationConfigId': 'c-1'}
    await send('push-delete.reply', rpc('tasks/pushNotificationConfig/delete', params))
    # 0.3 has objects only; what becomes of the rest is told in `NOTES.md`.
    await send('odd-data.reply', rpc('message/send', {'message': message('odd-data')}))
    await send('null-part.reply', rpc('message/send', {'message': message('null-part')}))
    # Whether a configuration that says nothing about `blocking` waits.
    await send('unsaid-blocking.reply', rpc('message/send', {'message': message('slow'), 'configuration': {}}))
    await send('no-configuration.reply', rpc('message/send', {'message': message('slow')}))
    await send('stream-parts', rpc('message/stream', {'message': message('parts')}), events='parts.')


async def rest(http, base, hook, bare, dialect):
    url = f'{base}/rest'

    def say(text, **more):
        value = {'messageId': str(uuid.uuid4()), 'role': 'ROLE_USER', 'content': [{'text': text}], **more}
        return {'message': value, 'configuration': {'blocking': True}}

    async def send(name, method, path, body=None, headers=None, events=None):
        text = body if body is None or isinstance(body, str) else json.dumps(body)
        head = {**({'Content-Type': 'application/json'} if text else {}), **(headers or {})}
        provoked = short(f'{method} {path} {text or ""}'.strip())
        async with case(dialect, reply=name, probe=True, provoked_by=provoked, events=events):
            with contextlib.suppress(httpx.RemoteProtocolError):
                await http.request(method, url + path, content=text and text.encode(), headers=head)

    answer = await http.post(f'{url}/v1/message:send', json=say('task'))
    done = answer.json()['task']['id']
    create = {
        'parent': f'tasks/{done}',
        'configId': 'c-1',
        'config': {
            'name': f'tasks/{done}/pushNotificationConfigs/c-1',
            'pushNotificationConfig': {'id': 'c-1', 'url': hook, 'token': 'tok'},
        },
    }
    hooks = f'/v1/tasks/{done}/pushNotificationConfigs'
    if bare:
        await send('error.unsupported-operation', 'POST', '/v1/message:stream', say('task'))
        await send('error.resubscribe-unsupported', 'POST', f'/v1/tasks/{done}:subscribe')
        await send('error.push-not-supported', 'POST', hooks, create)
        await send('error.push-get-not-supported', 'GET', f'{hooks}/c-1')
        await send('error.extended-card-not-configured', 'GET', '/v1/card')
        return
    await send('error.parse-error', 'POST', '/v1/message:send', '{"message":')
    await send('error.invalid-params', 'POST', '/v1/message:send', {})
    await send('error.unknown-member', 'POST', '/v1/message:send', {**say('task'), 'surprise': 1})
    await send('error.method-not-found', 'POST', '/v1/message:dance', {})
    await send('error.http-method', 'DELETE', '/v1/message:send')
    await send('error.task-not-found', 'GET', f'/v1/tasks/{NOBODY}')
    await send('error.cancel-not-found', 'POST', f'/v1/tasks/{NOBODY}:cancel', {})
    await send('error.cancel-empty-body', 'POST', f'/v1/tasks/{NOBODY}:cancel')
    await send('error.resubscribe-not-found', 'POST', f'/v1/tasks/{NOBODY}:subscribe')
    await send('error.resubscribe-get-not-found', 'GET', f'/v1/tasks/{NOBODY}:subscribe')
    await send('error.send-not-found', 'POST', '/v1/message:send', say('task', taskId=NOBODY))
    await send('error.internal', 'POST', '/v1/message:send', say('crash'))
    await send('error.version', 'GET', f'/v1/tasks/{NOBODY}', headers={'A2A-Version': '9.9'})
    await send('error.task-not-cancelable', 'POST', f'/v1/tasks/{done}:cancel', {})
    await send('error.terminal-task', 'POST', '/v1/message:send', say('task', taskId=done))
    await send('error.push-config-not-found', 'GET', f'{hooks}/nope')
    await send('error.history-length', 'GET', f'/v1/tasks/{done}?historyLength=many')
    await send('push-set-probe.reply', 'POST', hooks, create)
    await send('push-get-probe.reply', 'GET', f'{hooks}/c-1')
    await send('push-list.reply', 'GET', hooks)
    await send('push-delete.reply', 'DELETE', f'{hooks}/c-1')
    await send('odd-data.reply', 'POST', '/v1/message:send', say('odd-data'))
    await send('null-part.reply', 'POST', '/v1/message:send', say('null-part'))
    await send('unsaid-blocking.reply', 'POST', '/v1/message:send', {**say('slow'), 'configuration': {}})
    await send('no-configuration.reply', 'POST', '/v1/message:send', {'message': say('slow')['message']})
    # The shape of the JSON schema, sent to the binding of the proto: some clients do.
    await send('schema-shape.reply', 'POST', '/v1/message:send', {'message': message('task')})
    await send('card-v1.reply', 'GET', '/v1/card')
    await send('tasks-list.reply', 'GET', '/v1/tasks')


async def over_grpc(target, hook, bare, dialect):
    channel = grpc.aio.insecure_channel(target)
    stub = a2a_pb2_grpc.A2AServiceStub(channel)

    def say(text, **more):
        content = [{'text': text}]
        value = {'messageId': str(uuid.uuid4()), 'role': 'ROLE_USER', 'content': content, **more}
        return ParseDict({'message': value, 'configuration': {'blocking': True}}, pb.SendMessageRequest())

    async def send(name, method, request, events=None):
        provoked = f'{method} {" ".join(str(request).split())}'
        try:
            async with case(dialect, reply=name, probe=True, provoked_by=short(provoked), events=events):
                call = getattr(stub, method)(request)
                try:
                    if hasattr(call, 'read'):
                        async for _ in call:
                            pass
                    else:
                        await call
                except grpc.aio.AioRpcError:
                    pass
        except RuntimeError as error:
            raise RuntimeError(f'{name}: {error}') from None

    done = (await stub.SendMessage(say('task'))).task.id
    create = ParseDict({
        'parent': f'tasks/{done}',
        'configId': 'c-1',
        'config': {
            'name': f'tasks/{done}/pushNotificationConfigs/c-1',
            'pushNotificationConfig': {'id': 'c-1', 'url': hook, 'token': 'tok'},
        },
    }, pb.CreateTaskPushNotificationConfigRequest())
    nobody, one = f'tasks/{NOBODY}', f'tasks/{done}/pushNotificationConfigs/c-1'
    if bare:
        await send('error.unsupported-operation', 'SendStreamingMessage', say('task'))
        await send('error.resubscribe-unsupported', 'TaskSubscription', pb.TaskSubscriptionRequest(name=nobody))
        await send('error.push-not-supported', 'CreateTaskPushNotificationConfig', create)
        get = pb.GetTaskPushNotificationConfigRequest(name=one)
        await send('error.push-get-not-supported', 'GetTaskPushNotificationConfig', get)
        await send('card-bare', 'GetAgentCard', pb.GetAgentCardRequest())
        return
    await send('error.task-not-found', 'GetTask', pb.GetTaskRequest(name=nobody))
    await send('error.bad-name', 'GetTask', pb.GetTaskRequest(name=NOBODY))
    await send('error.cancel-not-found', 'CancelTask', pb.CancelTaskRequest(name=nobody))
    await send('error.resubscribe-not-found', 'TaskSubscription', pb.TaskSubscriptionRequest(name=nobody))
    await send('error.send-not-found', 'SendMessage', say('task', taskId=NOBODY))
    await send('error.invalid-params', 'SendMessage', pb.SendMessageRequest())
    await send('error.internal', 'SendMessage', say('crash'))
    await send('error.task-not-cancelable', 'CancelTask', pb.CancelTaskRequest(name=f'tasks/{done}'))
    await send('error.terminal-task', 'SendMessage', say('task', taskId=done))
    missing = pb.GetTaskPushNotificationConfigRequest(name=f'tasks/{done}/pushNotificationConfigs/nope')
    await send('error.push-config-not-found', 'GetTaskPushNotificationConfig', missing)
    await stub.CreateTaskPushNotificationConfig(create)
    listing = pb.ListTaskPushNotificationConfigRequest(parent=f'tasks/{done}')
    await send('push-list.reply', 'ListTaskPushNotificationConfig', listing)
    deletion = pb.DeleteTaskPushNotificationConfigRequest(name=one)
    await send('push-delete.reply', 'DeleteTaskPushNotificationConfig', deletion)
    await send('odd-data.reply', 'SendMessage', say('odd-data'))
    await send('null-part.reply', 'SendMessage', say('null-part'))
    await send('stream-parts', 'SendStreamingMessage', say('parts'), events='parts.')
    await channel.close()


async def cards(http, base, dialect):
    """The card, asked for with and without a version, and at the place where it was before 0.3."""
    for name, path, headers in (
        ('card-0.3', '/.well-known/agent-card.json', {'A2A-Version': '0.3'}),
        ('card-1.0', '/.well-known/agent-card.json', {'A2A-Version': '1.0'}),
        ('card-old-path', '/.well-known/agent.json', {}),
    ):
        provoked = f'GET {path}' + ''.join(f' with {key}: {value}' for key, value in headers.items())
        async with case(dialect, reply=name, probe=True, provoked_by=provoked, unless_same_as='card.json'):
            await http.get(base + path, headers=headers)


async def main():
    parser = argparse.ArgumentParser()
    parser.add_argument('base')
    parser.add_argument('hook')
    parser.add_argument('--grpc')
    parser.add_argument('--bare', action='store_true')
    parser.add_argument('--bindings', default='JSONRPC,HTTP+JSON,GRPC')
    parser.add_argument('--dialect', default='v0.3')
    options = parser.parse_args()
    # Before 0.3 there is one binding.
    dialects = {name: f'v0.3-{name}' if options.dialect == 'v0.3' else options.dialect for name in NAMES}
    async with httpx.AsyncClient(timeout=20) as http:
        if not options.bare:
            await cards(http, options.base, dialects['jsonrpc'])
        if 'JSONRPC' in options.bindings:
            await jsonrpc(http, options.base, options.hook, options.bare, dialects['jsonrpc'])
        if 'HTTP+JSON' in options.bindings:
            await rest(http, options.base, options.hook, options.bare, dialects['rest'])
        if 'GRPC' in options.bindings:
            await over_grpc(options.grpc, options.hook, options.bare, dialects['grpc'])


if __name__ == '__main__':
    asyncio.run(main())
