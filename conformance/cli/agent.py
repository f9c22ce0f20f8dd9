"""An agent made with the official Python SDK, on all three bindings, for the suite to talk to.

    agent.py        prints `Listening: http://127.0.0.1:PORT` and serves until it is ended

The first word of a message picks the scenario: echo, message, slow N, fail, reject, ask, auth, unspecified, files,
drop.
What the SDK cannot be told to do is done around it: `Wire` breaks connections in mid-stream and keeps a log of the
requests, which `GET /-/log` shows.
"""

import asyncio
import base64
import datetime
import re
import socket
import uuid

import grpc
import httpx
import uvicorn
from a2a.server.agent_execution import AgentExecutor
from a2a.server.request_handlers import DefaultRequestHandler, GrpcHandler
from a2a.server.routes import create_agent_card_routes, create_jsonrpc_routes, create_rest_routes
from a2a.server.tasks import BasePushNotificationSender, InMemoryPushNotificationConfigStore, InMemoryTaskStore
from a2a.types import a2a_pb2 as pb
from a2a.types import a2a_pb2_grpc
from google.protobuf.json_format import MessageToDict, ParseDict
from starlette.applications import Starlette
from starlette.responses import JSONResponse
from starlette.routing import Route

FILES = [
    {'artifactId': 'words', 'name': 'words', 'parts': [{'text': 'some words'}]},
    {'artifactId': 'numbers', 'name': 'numbers', 'parts': [{'data': {'adjusted': 2, 'list': [1, 2]}}]},
    {
        'artifactId': 'bytes',
        'parts': [
            {
                'raw': base64.b64encode(b'\0\1\2\xff').decode(),
                'filename': 'bytes.bin',
                'mediaType': 'application/octet-stream',
            }
        ],
    },
    {'artifactId': 'link', 'parts': [{'url': 'https://files.example/march.csv', 'mediaType': 'text/csv'}]},
]
LOG = []
# Tasks whose next stream is to be broken, and how many events it may still carry.
DROPS = {}


def now():
    return datetime.datetime.now(datetime.UTC).isoformat().replace('+00:00', 'Z')


class Practice(AgentExecutor):
    async def execute(self, context, event_queue):
        task, where = context.task_id, context.context_id

        async def put(value, kind):
            await event_queue.enqueue_event(ParseDict(value, kind()))
            # One event at a time, so that each reaches the wire as itself.
            await asyncio.sleep(0.02)

        async def state(name, text=None):
            status = {'state': f'TASK_STATE_{name}', 'timestamp': now()}
            if text:
                message = {'messageId': str(uuid.uuid4()), 'role': 'ROLE_AGENT', 'parts': [{'text': text}]}
                status['message'] = {**message, 'taskId': task, 'contextId': where}
            await put({'taskId': task, 'contextId': where, 'status': status}, pb.TaskStatusUpdateEvent)

        async def artifact(value, **flags):
            await put({'taskId': task, 'contextId': where, 'artifact': value, **flags}, pb.TaskArtifactUpdateEvent)

        text = context.get_user_input()
        word, _, rest = text.partition(' ')
        if word == 'message':
            value = {'messageId': str(uuid.uuid4()), 'role': 'ROLE_AGENT', 'parts': [{'text': 'just a message'}]}
            await put({**value, 'contextId': where}, pb.Message)
            return
        if context.current_task is not None and word not in ('ask', 'auth'):
            await state('WORKING')
            await artifact({'artifactId': 'a1', 'parts': [{'text': f'answered: {text}'}]})
            await state('COMPLETED', 'booked')
            return
        if word == 'drop':
            DROPS[task] = 1
        first = {'id': task, 'contextId': where, 'status': {'state': 'TASK_STATE_SUBMITTED', 'timestamp': now()}}
        await put({**first, 'history': [MessageToDict(context.message)]}, pb.Task)
        await state('WORKING', 'step 1')
        match word:
            case 'slow' | 'drop':
                for step in range(int(rest.split()[0]) if rest else 2):
                    await asyncio.sleep(1)
                    await state('WORKING', f'step {step + 2}')
                await artifact({'artifactId': 'a1', 'name': 'slow', 'parts': [{'text': 'slow but done'}]})
                await state('COMPLETED', 'done')
            case 'fail':
                await state('FAILED', 'could not')
            case 'reject':
                await state('REJECTED', 'will not')
            case 'ask':
                await state('INPUT_REQUIRED', 'Which day?')
            case 'auth':
                await state('AUTH_REQUIRED', 'log in first')
            case 'unspecified':
                await state('UNSPECIFIED')
                await asyncio.sleep(60)
            case 'files':
                for value in FILES:
                    await artifact(value)
                await state('COMPLETED', 'four files')
            case _:
                await artifact({'artifactId': 'a1', 'name': 'echo', 'parts': [{'text': text}]})
                await state('COMPLETED', 'echoed')

    async def cancel(self, context, event_queue):
        status = {'state': 'TASK_STATE_CANCELED', 'timestamp': now()}
        value = {'taskId': context.task_id, 'contextId': context.context_id, 'status': status}
        await event_queue.enqueue_event(ParseDict(value, pb.TaskStatusUpdateEvent()))


def broken(event):
    """Whether the stream that carries this event is to be broken behind it. A task breaks one stream only."""
    for name in [name for name in DROPS if name in event]:
        DROPS[name] -= 1
        if DROPS[name] <= 0:
            del DROPS[name]
            return True
    return False


class Wire:
    """Around the HTTP bindings: the log of requests, and streams that break."""

    def __init__(self, app):
        self.app = app

    async def __call__(self, scope, receive, send):
        if scope['type'] != 'http' or scope['path'] == '/-/log':
            return await self.app(scope, receive, send)
        body = b''
        while True:
            message = await receive()
            body += message.get('body', b'')
            if not message.get('more_body'):
                break
        headers = {key.decode(): value.decode() for key, value in scope['headers']}
        found = re.search(rb'"method"\s*:\s*"(\w+)"', body) if scope['path'] == '/' else None
        method = found and found.group(1).decode()
        LOG.append(
            {
                'verb': scope['method'],
                'path': scope['path'],
                'method': method,
                'headers': headers,
                'body': body.decode(errors='replace'),
            }
        )
        given = False

        async def again():
            nonlocal given
            if given:
                return await receive()
            given = True
            return {'type': 'http.request', 'body': body, 'more_body': False}

        streaming = False

        async def watch(message):
            nonlocal streaming
            if message['type'] == 'http.response.start':
                streaming = any(b'event-stream' in value for _, value in message['headers'])
            await send(message)
            if streaming and message.get('body') and broken(message['body'].decode()):
                # An exception behind the head makes uvicorn close the connection without an end of the body.
                raise ConnectionAbortedError('dropped on purpose')

        await self.app(scope, again, watch)


class Service(GrpcHandler):
    async def _dropping(self, events, context):
        async for event in events:
            yield event
            if broken(str(event)):
                await context.abort(grpc.StatusCode.UNAVAILABLE, 'dropped on purpose')

    async def SendStreamingMessage(self, request, context):
        async for event in self._dropping(super().SendStreamingMessage(request, context), context):
            yield event

    async def SubscribeToTask(self, request, context):
        async for event in self._dropping(super().SubscribeToTask(request, context), context):
            yield event


class Log(grpc.aio.ServerInterceptor):
    async def intercept_service(self, continuation, details):
        headers = {key: value if isinstance(value, str) else '' for key, value in details.invocation_metadata}
        LOG.append(
            {'verb': 'GRPC', 'path': details.method, 'method': details.method.rpartition('/')[2], 'headers': headers}
        )
        return await continuation(details)


def card(url, grpc_url):
    value = {
        'name': 'Practice (Python SDK)',
        'description': 'An agent to practise on',
        'version': '1.0.0',
        'supportedInterfaces': [
            {'url': f'{url}/', 'protocolBinding': 'JSONRPC', 'protocolVersion': '1.0'},
            {'url': f'{url}/rest', 'protocolBinding': 'HTTP+JSON', 'protocolVersion': '1.0'},
            {'url': grpc_url, 'protocolBinding': 'GRPC', 'protocolVersion': '1.0'},
        ],
        'capabilities': {'streaming': True, 'pushNotifications': True, 'extendedAgentCard': True},
        'securitySchemes': {'staff': {'httpAuthSecurityScheme': {'scheme': 'Bearer'}}},
        'securityRequirements': [{'schemes': {}}, {'schemes': {'staff': {'list': []}}}],
        'defaultInputModes': ['text/plain'],
        'defaultOutputModes': ['text/plain'],
        'skills': [{'id': 'practice', 'name': 'Practice', 'description': 'The first word picks', 'tags': ['test']}],
    }
    return ParseDict(value, pb.AgentCard())


async def main():
    listener = socket.create_server(('127.0.0.1', 0))
    url = f'http://127.0.0.1:{listener.getsockname()[1]}'
    server = grpc.aio.server(interceptors=[Log()])
    grpc_port = server.add_insecure_port('127.0.0.1:0')
    public = card(url, f'http://127.0.0.1:{grpc_port}')
    extended = pb.AgentCard()
    extended.CopyFrom(public)
    extended.description = 'The extended card'
    configs = InMemoryPushNotificationConfigStore()
    handler = DefaultRequestHandler(
        Practice(),
        InMemoryTaskStore(),
        public,
        push_config_store=configs,
        push_sender=BasePushNotificationSender(httpx.AsyncClient(trust_env=False), configs),
        extended_agent_card=extended,
    )
    a2a_pb2_grpc.add_A2AServiceServicer_to_server(Service(handler), server)
    await server.start()
    app = Starlette(
        routes=[
            Route('/-/log', lambda _: JSONResponse(LOG)),
            *create_agent_card_routes(public),
            *create_jsonrpc_routes(handler, '/'),
            *create_rest_routes(handler, path_prefix='/rest'),
        ]
    )
    config = uvicorn.Config(Wire(app), log_level='critical')
    print(f'Listening: {url}', flush=True)
    await uvicorn.Server(config).serve(sockets=[listener])


if __name__ == '__main__':
    asyncio.run(main())
