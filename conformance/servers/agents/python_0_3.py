"""An agent made with a2a-sdk 0.3, on all three bindings.

    python_0_3.py --http PORT --grpc PORT
"""

import argparse
import asyncio
import contextlib
import datetime
import json
import uuid

import behaviour
import grpc
import httpx
import uvicorn
from a2a.grpc import a2a_pb2_grpc
from a2a.server.agent_execution import AgentExecutor
from a2a.server.apps import A2ARESTFastAPIApplication, A2AStarletteApplication
from a2a.server.request_handlers import DefaultRequestHandler, GrpcHandler
from a2a.server.tasks import BasePushNotificationSender, InMemoryPushNotificationConfigStore, InMemoryTaskStore
from a2a.types import AgentCard, Message, Task, TaskArtifactUpdateEvent, TaskState, TaskStatusUpdateEvent
from starlette.responses import PlainTextResponse

FINAL = ('completed', 'failed', 'rejected', 'canceled', 'input-required', 'auth-required')
WAITING = (TaskState.input_required, TaskState.auth_required)


def now():
    return datetime.datetime.now(datetime.timezone.utc).isoformat()


class Player(AgentExecutor):
    def __init__(self, base):
        self.base, self.canceled = base, {}

    async def execute(self, context, event_queue):
        task, where = context.task_id, context.context_id
        canceled = self.canceled[task] = asyncio.Event()
        answering = bool(context.current_task and context.current_task.status.state in WAITING)
        ids = {'taskId': task, 'contextId': where}

        def message(parts, **more):
            parts = [behaviour.kinds(part) for part in parts]
            value = {'kind': 'message', 'messageId': str(uuid.uuid4()), 'role': 'agent', 'parts': parts}
            return {**value, 'contextId': where, **more}

        for step in behaviour.steps(context.get_user_input(), answering, self.base):
            match step:
                case ['task', name]:
                    event = Task.model_validate({
                        'kind': 'task', 'id': task, 'contextId': where, 'status': {'state': name, 'timestamp': now()},
                        'history': [json.loads(context.message.model_dump_json(by_alias=True, exclude_none=True))],
                    })
                case ['status', name, text]:
                    words = message([{'text': text}], taskId=task) if text else None
                    status = {'state': name, 'timestamp': now(), 'message': words}
                    value = {'kind': 'status-update', **ids, 'status': status, 'final': name in FINAL}
                    event = TaskStatusUpdateEvent.model_validate(value)
                case ['artifact', artifact, flags]:
                    artifact = {**artifact, 'parts': [behaviour.kinds(part) for part in artifact['parts']]}
                    value = {'kind': 'artifact-update', **ids, 'artifact': artifact, **flags}
                    event = TaskArtifactUpdateEvent.model_validate(value)
                case ['message', parts]:
                    event = Message.model_validate(message(parts))
                case ['sleep', seconds]:
                    with contextlib.suppress(TimeoutError):
                        await asyncio.wait_for(canceled.wait(), seconds)
                    continue
                case ['hold']:
                    await canceled.wait()
            if canceled.is_set():
                return
            await event_queue.enqueue_event(event)
            # An agent that ends with its last event may take that event away from those who joined later.
            await asyncio.sleep(0.05)

    async def cancel(self, context, event_queue):
        if context.task_id in self.canceled:
            self.canceled[context.task_id].set()
        status = {'state': 'canceled', 'timestamp': now()}
        ids = {'taskId': context.task_id, 'contextId': context.context_id}
        value = {'kind': 'status-update', **ids, 'status': status, 'final': True}
        await event_queue.enqueue_event(TaskStatusUpdateEvent.model_validate(value))


def card(base, grpc_port):
    return AgentCard.model_validate({
        'protocolVersion': '0.3.0',
        'name': 'Python 0.3',
        'description': 'An agent of the tests on the Python SDK for 0.3',
        'version': '1.0.0',
        'url': f'{base}/rpc',
        'preferredTransport': 'JSONRPC',
        'additionalInterfaces': [
            {'url': f'{base}/rpc', 'transport': 'JSONRPC'},
            {'url': f'{base}/rest', 'transport': 'HTTP+JSON'},
            {'url': f'127.0.0.1:{grpc_port}', 'transport': 'GRPC'},
        ],
        'capabilities': {'streaming': True, 'pushNotifications': True},
        'supportsAuthenticatedExtendedCard': True,
        'securitySchemes': {'bearer': {'type': 'http', 'scheme': 'bearer'}},
        'defaultInputModes': ['text/plain', 'application/json', 'application/octet-stream'],
        'defaultOutputModes': ['text/plain'],
        'skills': behaviour.skills(),
    })


async def paper(_):
    return PlainTextResponse('the text of the paper\n')


async def main():
    parser = argparse.ArgumentParser()
    parser.add_argument('--http', type=int, required=True)
    parser.add_argument('--grpc', type=int, required=True)
    options = parser.parse_args()

    base = f'http://127.0.0.1:{options.http}'
    public = card(base, options.grpc)
    extended = public.model_copy(update={'description': 'The extended card'})
    configs = InMemoryPushNotificationConfigStore()
    sender = BasePushNotificationSender(httpx.AsyncClient(trust_env=False), configs)
    handler = DefaultRequestHandler(Player(base), InMemoryTaskStore(), push_config_store=configs, push_sender=sender)

    app = A2ARESTFastAPIApplication(public, handler, extended_agent_card=extended).build(rpc_url='/rest')
    A2AStarletteApplication(public, handler, extended_agent_card=extended).add_routes_to_app(app, rpc_url='/rpc')
    app.add_route('/files/paper.txt', paper)

    server = grpc.aio.server()
    a2a_pb2_grpc.add_A2AServiceServicer_to_server(GrpcHandler(public, handler), server)
    server.add_insecure_port(f'127.0.0.1:{options.grpc}')
    await server.start()
    config = uvicorn.Config(app, '127.0.0.1', options.http, log_level='warning', timeout_graceful_shutdown=1)
    await uvicorn.Server(config).serve()


if __name__ == '__main__':
    asyncio.run(main())
