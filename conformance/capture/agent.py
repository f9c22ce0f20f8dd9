"""The agent behind every Python server here: plays `agent.json`.

The events are written down as 0.3 JSON and read by the SDK's own models, so that the same script serves every release
that has such models; what goes over the wire is what those models write.
"""

import asyncio
import datetime
import json
import pathlib
import uuid

from a2a.server.agent_execution import AgentExecutor
from a2a.types import Message, Task, TaskArtifactUpdateEvent, TaskStatusUpdateEvent

SCRIPT = json.loads(pathlib.Path(__file__).with_name('agent.json').read_text(encoding='utf-8'))


def now():
    return datetime.datetime.now(datetime.timezone.utc).isoformat()



class Player(AgentExecutor):
    async def execute(self, context, event_queue):
        incoming = context.message
        task, where = context.task_id, context.context_id
        command = context.get_user_input().split()[0]

        def message(text):
            return text and {
                'kind': 'message',
                'messageId': str(uuid.uuid4()),
                'role': 'agent',
                'parts': [{'kind': 'text', 'text': text}],
                'taskId': task,
                'contextId': where,
            }

        for step in SCRIPT[command]:
            match step:
                case ['task', state]:
                    event = Task.model_validate({
                        'id': task,
                        'contextId': where,
                        'status': {'state': state, 'timestamp': now()},
                        'history': [json.loads(incoming.model_dump_json(by_alias=True, exclude_none=True))],
                        'metadata': {'agent': 'capture'},
                        'kind': 'task',
                    })
                case ['status', state, text]:
                    event = TaskStatusUpdateEvent.model_validate({
                        'kind': 'status-update',
                        'taskId': task,
                        'contextId': where,
                        'status': {'state': state, 'timestamp': now(), 'message': message(text)},
                        'final': state in ('completed', 'failed', 'rejected', 'canceled', 'input-required'),
                        'metadata': {'step': state},
                    })
                case ['artifact', artifact, flags]:
                    event = TaskArtifactUpdateEvent.model_validate({
                        'kind': 'artifact-update',
                        'taskId': task,
                        'contextId': where,
                        'artifact': artifact,
                        **flags,
                    })
                case ['message', parts]:
                    event = Message.model_validate({
                        'kind': 'message',
                        'messageId': str(uuid.uuid4()),
                        'role': 'agent',
                        'parts': parts,
                        'contextId': where,
                    })
                case ['sleep', seconds]:
                    await asyncio.sleep(seconds)
                    continue
                case ['hold']:
                    await asyncio.sleep(60)
                    continue
                case ['crash', text]:
                    raise RuntimeError(text)
            await put(event_queue, event)
            # One event at a time, so that each reaches the wire as itself.
            await asyncio.sleep(0.05)

    async def cancel(self, context, event_queue):
        event = TaskStatusUpdateEvent.model_validate({
            'kind': 'status-update',
            'taskId': context.task_id,
            'contextId': context.context_id,
            'status': {'state': 'canceled', 'timestamp': now()},
            'final': True,
        })
        await put(event_queue, event)


async def put(event_queue, event):
    """Enqueues an event; it was a plain call before 0.2.9 or so."""
    waiting = event_queue.enqueue_event(event)
    if waiting is not None:
        await waiting
