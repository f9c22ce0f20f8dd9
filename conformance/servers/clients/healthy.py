"""Puts the healthy agent of the gallery to the test with the client of a2a-sdk 1.x.

    healthy.py BASE_URL HOOK_URL
"""

import argparse
import asyncio
import uuid

from a2a.types import a2a_pb2 as pb
from a2a.utils.errors import TaskNotFoundError, UnsupportedOperationError
from checking import check, deliveries
from google.protobuf.json_format import MessageToDict
from python_1 import connect, events, request, text_of


async def refused(error, call):
    try:
        await call
    except error:
        return True
    return False


async def run(options, binding):
    once, live = await connect(options, binding, False), await connect(options, binding, True)

    async def send(*arguments, **more):
        return (await events(once.send_message(request(*arguments, **more))))[-1]

    task = (await send('hello'))['task']
    check(binding, 'echo', [task['status']['state'], *text_of(task)], ['TASK_STATE_COMPLETED', 'hello'])
    stream = await events(live.send_message(request('hello')))
    kinds = ['task', 'statusUpdate', 'artifactUpdate', 'statusUpdate']
    check(binding, 'stream', [next(iter(event)) for event in stream], kinds)
    check(binding, 'get', MessageToDict(await once.get_task(pb.GetTaskRequest(id=task['id'])))['id'], task['id'])
    listed = MessageToDict(await once.list_tasks(pb.ListTasksRequest(context_id=task['contextId'])))
    check(binding, 'list', [one['id'] for one in listed['tasks']], [task['id']])
    started = (await send('hello', configuration={'returnImmediately': True}))['task']['id']
    joined = asyncio.create_task(events(live.subscribe(pb.SubscribeToTaskRequest(id=started))))
    await asyncio.sleep(0.1)
    canceled = MessageToDict(await once.cancel_task(pb.CancelTaskRequest(id=started)))
    check(binding, 'cancel', canceled['status']['state'], 'TASK_STATE_CANCELED')
    check(binding, 'subscribe', (await joined)[-1]['statusUpdate']['status']['state'], 'TASK_STATE_CANCELED')
    unknown = once.get_task(pb.GetTaskRequest(id='nothing'))
    check(binding, 'get-unknown', await refused(TaskNotFoundError, unknown), True)
    ended = events(live.subscribe(pb.SubscribeToTaskRequest(id=task['id'])))
    check(binding, 'subscribe-ended', await refused(UnsupportedOperationError, ended), True)
    token = str(uuid.uuid4())
    started = (await send('hello', configuration={'returnImmediately': True}))['task']['id']
    config = pb.TaskPushNotificationConfig(task_id=started, url=options.hook, token=token)
    kept = await once.create_task_push_notification_config(config)
    got = await once.get_task_push_notification_config(
        pb.GetTaskPushNotificationConfigRequest(task_id=started, id=kept.id)
    )
    check(binding, 'push-get', got.url, options.hook)
    check(binding, 'push', bool(await deliveries(options.hook, token)), True)


async def main():
    parser = argparse.ArgumentParser()
    parser.add_argument('base')
    parser.add_argument('hook')
    options = parser.parse_args()
    options.ca = None
    for binding in ('JSONRPC', 'HTTP+JSON'):
        await run(options, binding)


if __name__ == '__main__':
    asyncio.run(main())
