"""An agent made with pya2a, which is the library of the first A2A samples in a package: 0.1.

    v0_1.py --http PORT

The library leaves to its user what the agent does and how; the samples are followed where there is a choice. 0.1 has no
direct messages, no `rejected` and no `auth-required`: `message` answers like `echo`, the other two fail and ask.
"""

import argparse
import asyncio

import behaviour
import uvicorn
from a2a import types
from a2a.server.server import A2AServer
from a2a.server.task_manager import InMemoryTaskManager
from a2a.utils.push_notification_auth import PushNotificationSenderAuth
from starlette.responses import PlainTextResponse

MODES = ['text', 'file', 'data']
LESS = {'rejected': 'failed', 'auth-required': 'input-required'}
FINAL = ('completed', 'failed', 'canceled', 'input-required')


class Player(InMemoryTaskManager):
    def __init__(self, base):
        super().__init__()
        self.base, self.held, self.running = base, {}, set()
        self.sender = PushNotificationSenderAuth()
        self.sender.generate_jwk()

    async def play(self, params, answering):
        """Plays one turn, and yields each event after it was stored."""
        text = next((part.text for part in params.message.parts if part.type == 'text'), '')
        held = self.held[params.id] = asyncio.Event()
        for step in behaviour.steps(text.removeprefix('message '), answering, self.base):
            match step:
                case ['status', name, words]:
                    name = LESS.get(name, name)
                    parts = [{'type': 'text', 'text': words}]
                    message = words and types.Message(role='agent', parts=parts)
                    status = types.TaskStatus(state=name, message=message)
                    event = types.TaskStatusUpdateEvent(id=params.id, status=status, final=name in FINAL)
                    artifacts = None
                case ['artifact', artifact, flags]:
                    parts = [behaviour.kinds(part, 'type') for part in artifact['parts']]
                    artifact = types.Artifact(name=artifact['name'], parts=parts, **flags)
                    # Without its message, which the store would add to the history once more.
                    status = self.tasks[params.id].status.model_copy(update={'message': None})
                    event = types.TaskArtifactUpdateEvent(id=params.id, artifact=artifact)
                    artifacts = [artifact]
                case ['sleep', seconds]:
                    await asyncio.sleep(seconds)
                    continue
                case ['hold']:
                    await held.wait()
                    continue
                case ['message', parts]:
                    parts = [behaviour.kinds(part, 'type') for part in parts]
                    status = types.TaskStatus(state='completed', message=types.Message(role='agent', parts=parts))
                    event = types.TaskStatusUpdateEvent(id=params.id, status=status, final=True)
                    artifacts = None
                case _:
                    continue
            if held.is_set():
                return
            await self.update_store(params.id, status, artifacts)
            yield event
            await self.push(params.id)

    async def push(self, task):
        if await self.has_push_notification_info(task):
            info = await self.get_push_notification_info(task)
            await self.sender.send_push_notification(info.url, data=self.tasks[task].model_dump(exclude_none=True))

    async def begin(self, request):
        """Stores the task and its hook, and says whether the task was waiting for this message."""
        params = request.params
        known = self.tasks.get(params.id)
        answering = bool(known and known.status.state == types.TaskState.INPUT_REQUIRED)
        await self.upsert_task(params)
        if params.pushNotification:
            await self.set_push_notification_info(params.id, params.pushNotification)
        return answering

    async def on_send_task(self, request):
        answering = await self.begin(request)
        first = asyncio.get_running_loop().create_future()

        async def run():
            async for _ in self.play(request.params, answering):
                if self.tasks[request.params.id].status.state == types.TaskState.WORKING and self.holds(request):
                    break_off()
            break_off()

        def break_off():
            if not first.done():
                first.set_result(None)

        # 0.1 knows no switch for it: it is answered when the turn is over, and at once when it would never be.
        task = asyncio.create_task(run())
        self.running.add(task)
        task.add_done_callback(self.running.discard)
        await first
        task = self.append_task_history(self.tasks[request.params.id], request.params.historyLength)
        return types.SendTaskResponse(id=request.id, result=task)

    def holds(self, request):
        return request.params.message.parts[0].text.startswith('hold')

    async def on_send_task_subscribe(self, request):
        answering = await self.begin(request)
        queue = await self.setup_sse_consumer(request.params.id)

        async def run():
            async for event in self.play(request.params, answering):
                await self.enqueue_events_for_sse(request.params.id, event)

        task = asyncio.create_task(run())
        self.running.add(task)
        task.add_done_callback(self.running.discard)
        return self.dequeue_events_for_sse(request.id, request.params.id, queue)

    async def on_resubscribe_to_task(self, request):
        try:
            queue = await self.setup_sse_consumer(request.params.id, is_resubscribe=True)
        except ValueError:
            return types.JSONRPCResponse(id=request.id, error=types.TaskNotFoundError())
        return self.dequeue_events_for_sse(request.id, request.params.id, queue)

    async def on_cancel_task(self, request):
        """The library refuses always; a task that works or waits can be canceled here."""
        task = self.tasks.get(request.params.id)
        if task is None or task.status.state not in (types.TaskState.WORKING, types.TaskState.INPUT_REQUIRED):
            return await super().on_cancel_task(request)
        self.held[task.id].set()
        status = types.TaskStatus(state=types.TaskState.CANCELED)
        await self.update_store(task.id, status, None)
        await self.enqueue_events_for_sse(task.id, types.TaskStatusUpdateEvent(id=task.id, status=status, final=True))
        return types.CancelTaskResponse(id=request.id, result=task)


async def paper(_):
    return PlainTextResponse('the text of the paper\n')


def main():
    parser = argparse.ArgumentParser()
    parser.add_argument('--http', type=int, required=True)
    options = parser.parse_args()
    base = f'http://127.0.0.1:{options.http}'
    card = types.AgentCard(
        name='Version 0.1',
        description='An agent of the tests that speaks 0.1',
        url=f'{base}/rpc',
        version='1.0.0',
        capabilities=types.AgentCapabilities(streaming=True, pushNotifications=True),
        defaultInputModes=MODES,
        defaultOutputModes=MODES,
        skills=[types.AgentSkill(**skill) for skill in behaviour.skills()],
    )
    server = A2AServer(endpoint='/rpc', agent_card=card, task_manager=Player(base))
    server.app.add_route('/.well-known/jwks.json', server.task_manager.sender.handle_jwks_endpoint, methods=['GET'])
    server.app.add_route('/files/paper.txt', paper, methods=['GET'])
    uvicorn.run(server.app, host='127.0.0.1', port=options.http, log_level='warning', timeout_graceful_shutdown=1)


if __name__ == '__main__':
    main()
