"""The agent behind the Python 1.x server: plays `agent.json` in 1.0 messages."""

import asyncio
import datetime
import json
import pathlib
import uuid

from a2a.server.agent_execution import AgentExecutor
from a2a.types import a2a_pb2 as pb
from google.protobuf.json_format import MessageToDict, ParseDict

SCRIPT = json.loads(pathlib.Path(__file__).with_name('agent.json').read_text(encoding='utf-8'))


def now():
    return datetime.datetime.now(datetime.timezone.utc).isoformat().replace('+00:00', 'Z')


def part(old):
    """A part of the script, which is 0.3, as 1.0 has it."""
    match old:
        case {'kind': 'text', 'text': text}:
            new = {'text': text}
        case {'kind': 'data', 'data': data}:
            new = {'data': data}
        case {'kind': 'file', 'file': {'bytes': raw, **file}}:
            new = {'raw': raw, 'filename': file['name'], 'mediaType': file['mimeType']}
        case {'kind': 'file', 'file': {'uri': url, **file}}:
            new = {'url': url, 'filename': file['name'], 'mediaType': file['mimeType']}
    return {**new, **({'metadata': old['metadata']} if 'metadata' in old else {})}


def state(old):
    return 'TASK_STATE_' + old.upper().replace('-', '_')


class Player(AgentExecutor):
    async def execute(self, context, event_queue):
        task, where = context.task_id, context.context_id

        def message(parts, **more):
            return {'messageId': str(uuid.uuid4()), 'role': 'ROLE_AGENT', 'parts': parts, 'contextId': where, **more}

        for step in SCRIPT[context.get_user_input().split()[0]]:
            match step:
                case ['task', name]:
                    value = {
                        'id': task,
                        'contextId': where,
                        'status': {'state': state(name), 'timestamp': now()},
                        'history': [MessageToDict(context.message)],
                        'metadata': {'agent': 'capture'},
                    }
                    event = ParseDict(value, pb.Task())
                case ['status', name, text]:
                    status = {'state': state(name), 'timestamp': now()}
                    if text:
                        status['message'] = message([{'text': text}], taskId=task)
                    value = {'taskId': task, 'contextId': where, 'status': status, 'metadata': {'step': name}}
                    event = ParseDict(value, pb.TaskStatusUpdateEvent())
                case ['artifact', artifact, flags]:
                    artifact = {**artifact, 'parts': [part(old) for old in artifact['parts']]}
                    value = {'taskId': task, 'contextId': where, 'artifact': artifact, **flags}
                    event = ParseDict(value, pb.TaskArtifactUpdateEvent())
                case ['message', parts]:
                    event = ParseDict(message([part(old) for old in parts]), pb.Message())
                case ['sleep', seconds]:
                    await asyncio.sleep(seconds)
                    continue
                case ['hold']:
                    await asyncio.sleep(60)
                    continue
                case ['crash', text]:
                    raise RuntimeError(text)
            await event_queue.enqueue_event(event)
            # One event at a time, so that each reaches the wire as itself.
            await asyncio.sleep(0.05)

    async def cancel(self, context, event_queue):
        status = {'state': 'TASK_STATE_CANCELED', 'timestamp': now()}
        value = {'taskId': context.task_id, 'contextId': context.context_id, 'status': status}
        await event_queue.enqueue_event(ParseDict(value, pb.TaskStatusUpdateEvent()))
