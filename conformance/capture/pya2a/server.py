"""A server made with pya2a, which is the library of the first A2A samples in a package: 0.1.

    server.py --http PORT --grpc PORT --public URL --public-grpc HOST:PORT [--bare]

The library leaves to its user what the agent does, and how; the samples are followed where there is a choice.
"""

import argparse
import asyncio
import json
import pathlib
import sys

import uvicorn

ROOT = pathlib.Path(__file__).resolve().parent.parent
sys.path.insert(0, str(ROOT))

from a2a import types
from a2a.server.server import A2AServer
from a2a.server.task_manager import InMemoryTaskManager
from a2a.server.utils import new_incompatible_types_error, new_not_implemented_error
from a2a.utils.push_notification_auth import PushNotificationSenderAuth

SCRIPT = json.loads((ROOT / 'agent.json').read_text(encoding='utf-8'))
MODES = ['text', 'file', 'data']


def part(new):
    """A part of the script, which is 0.3, as 0.1 has it."""
    return {'type' if key == 'kind' else key: value for key, value in new.items()}


class Player(InMemoryTaskManager):
    def __init__(self, pushing):
        super().__init__()
        self.pushing, self.sender = pushing, PushNotificationSenderAuth()
        self.sender.generate_jwk()

    async def play(self, params):
        """Plays the script of the first word, and yields each event after it was stored."""
        word = params.message.parts[0].text.split()[0]
        for step in SCRIPT[word]:
            match step:
                case ['status', state, text]:
                    parts = [{'type': 'text', 'text': text}]
                    message = text and types.Message(role='agent', parts=parts)
                    status = types.TaskStatus(state=state, message=message)
                    await self.update_store(params.id, status, None)
                    final = state in ('completed', 'failed', 'canceled', 'input-required')
                    yield types.TaskStatusUpdateEvent(id=params.id, status=status, final=final)
                case ['artifact', artifact, flags]:
                    named = {key: artifact[key] for key in ('name', 'description', 'metadata') if key in artifact}
                    artifact = types.Artifact(**named, parts=[part(new) for new in artifact['parts']], **flags)
                    # Without its message, which the store would add to the history once more.
                    status = self.tasks[params.id].status.model_copy(update={'message': None})
                    await self.update_store(params.id, status, [artifact])
                    yield types.TaskArtifactUpdateEvent(id=params.id, artifact=artifact)
                case ['sleep', seconds]:
                    await asyncio.sleep(seconds)
                case ['hold']:
                    return
                case ['crash', text]:
                    raise RuntimeError(text)
            await self.push(params.id)
            await asyncio.sleep(0.05)

    async def push(self, task):
        if await self.has_push_notification_info(task):
            info = await self.get_push_notification_info(task)
            await self.sender.send_push_notification(info.url, data=self.tasks[task].model_dump(exclude_none=True))

    async def begin(self, request):
        """What every sample does first: whether the modes fit, and whether the hook is who it says."""
        params = request.params
        if params.acceptedOutputModes and not set(params.acceptedOutputModes) & set(MODES):
            return new_incompatible_types_error(request.id)
        if params.pushNotification:
            if not self.pushing:
                return types.JSONRPCResponse(id=request.id, error=types.PushNotificationNotSupportedError())
            if not await self.sender.verify_push_notification_url(params.pushNotification.url):
                error = types.InvalidParamsError(message='Push notification URL is invalid')
                return types.JSONRPCResponse(id=request.id, error=error)
        await self.upsert_task(params)
        if params.pushNotification:
            await self.set_push_notification_info(params.id, params.pushNotification)
        return None

    async def on_send_task(self, request):
        refusal = await self.begin(request)
        if refusal:
            return refusal
        async for _ in self.play(request.params):
            pass
        task = self.append_task_history(self.tasks[request.params.id], request.params.historyLength)
        return types.SendTaskResponse(id=request.id, result=task)

    async def on_send_task_subscribe(self, request):
        if not self.pushing:
            return new_not_implemented_error(request.id)
        refusal = await self.begin(request)
        if refusal:
            return refusal
        queue = await self.setup_sse_consumer(request.params.id)

        async def run():
            try:
                async for event in self.play(request.params):
                    await self.enqueue_events_for_sse(request.params.id, event)
            except RuntimeError as error:
                await self.enqueue_events_for_sse(request.params.id, types.InternalError(message=str(error)))

        self.running = asyncio.create_task(run())
        return self.dequeue_events_for_sse(request.id, request.params.id, queue)

    async def on_resubscribe_to_task(self, request):
        try:
            queue = await self.setup_sse_consumer(request.params.id, is_resubscribe=True)
        except ValueError:
            return types.JSONRPCResponse(id=request.id, error=types.TaskNotFoundError())
        return self.dequeue_events_for_sse(request.id, request.params.id, queue)

    async def on_cancel_task(self, request):
        """The library refuses always; only a task that is held can be canceled here."""
        task = self.tasks.get(request.params.id)
        if task is None or task.status.state != types.TaskState.WORKING:
            return await super().on_cancel_task(request)
        await self.update_store(task.id, types.TaskStatus(state=types.TaskState.CANCELED), None)
        return types.CancelTaskResponse(id=request.id, result=task)


def main():
    parser = argparse.ArgumentParser()
    parser.add_argument('--http', type=int, required=True)
    parser.add_argument('--grpc', type=int, required=True)
    parser.add_argument('--public', required=True)
    parser.add_argument('--public-grpc', required=True)
    parser.add_argument('--bare', action='store_true')
    options = parser.parse_args()
    card = types.AgentCard(
        name='Capture',
        description='Plays a script, so that its words can be written down',
        url=f'{options.public}/rpc',
        provider=types.AgentProvider(organization='Example Org', url='https://org.example'),
        version='1.2.3',
        documentationUrl='https://org.example/docs',
        capabilities=types.AgentCapabilities(streaming=not options.bare, pushNotifications=not options.bare),
        authentication=types.AgentAuthentication(schemes=['Bearer'], credentials='https://auth.example/token'),
        defaultInputModes=MODES,
        defaultOutputModes=MODES,
        skills=[types.AgentSkill(id='play', name='Play', description='Plays', tags=['test'], examples=['task'])],
    )
    server = A2AServer(endpoint='/rpc', agent_card=card, task_manager=Player(not options.bare))
    keys = server.task_manager.sender.handle_jwks_endpoint
    server.app.add_route('/.well-known/jwks.json', keys, methods=['GET'])
    uvicorn.run(server.app, host='127.0.0.1', port=options.http, log_level='warning')


if __name__ == '__main__':
    main()
