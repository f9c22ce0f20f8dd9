"""What the checks have in common: a server that may call receivers on loopback, an agent, and how webhooks are registered.

    with serving(world) as (server, hooks):
        task = send(server, hooks.add('/mine'), token='t')
        told(hooks, '/mine')                 # waits for the end of the task, and gives all deliveries
"""

import base64
import contextlib
import json
import os
import uuid

from hooks import Hooks
from server import until

TIMEOUT_SECONDS = 2
# An agent that asks first where it is told to; otherwise four events, one after the other.
AGENT = """
[[agent]]
name = "demo"
kind = "script"
default = true
[agent.card]
description = "the agent that webhooks hear of"
version = "1.0.0"
[agent.card.capabilities]
streaming = true
push_notifications = true
[[agent.card.skills]]
id = "demo"
name = "demo"
description = "does what it is told"
tags = ["demo"]
[[agent.rule]]
when = { text_contains = "ask" }
do = [{ ask_input = "which one?" }]
then = [{ status = "at work" }, { wait_ms = 20 }, { artifact = { id = "a1", text = "made" } }, { complete = "done" }]
[[agent.rule]]
do = [{ status = "at work" }, { wait_ms = 20 }, { artifact = { id = "a1", text = "made" } }, { complete = "done" }]
"""
ALLOW = 'allow = ["127.0.0.0/8"]'
JSON = {'A2A-Version': '1.0', 'Content-Type': 'application/json'}


def new_secret():
    return 'whsec_' + base64.b64encode(os.urandom(32)).decode()


@contextlib.contextmanager
def serving(world, push='', egress=ALLOW, more='', secrets=(), keys=(), **rest):
    """A server and receivers. `secrets` sign as Standard Webhooks has it, `keys` sign tokens."""
    files = ', '.join(f'"file:given/{key.kid}.pem"' for key in keys)
    signing = f'[server.signing]\nkeys = [{files}]\n' if keys else ''
    secret = 'webhook_secret = "file:given/webhook-secret"\n' if secrets else ''
    config = f'[egress]\n{egress}\n[push]\ntimeout_seconds = {TIMEOUT_SECONDS}\n{secret}{push}\n{signing}{more}'
    server = world.server(config, agents=rest.pop('agents', AGENT), **rest)
    if secrets:
        server.given('webhook-secret', '\n'.join(secrets) + '\n')
    for key in keys:
        server.given(f'{key.kid}.pem', key.pem())
    with Hooks() as hooks, server:
        yield server, hooks


# --- Asking by hand ---------------------------------------------------------------------------------------------------


def ask(server, path, body, **headers):
    answer = server.call('POST', path, {**JSON, **headers}, json.dumps(body).encode())
    assert answer.status == 200, f'{path} {json.dumps(body)}: {answer}'
    return answer.json


def wish(url, token=None, scheme=None, credentials=None, id=None):
    """A webhook in 1.0."""
    authentication = {'scheme': scheme, **({'credentials': credentials} if credentials is not None else {})}
    every = {'url': url, 'token': token, 'authentication': authentication if scheme else None, 'id': id}
    return {name: value for name, value in every.items() if value is not None}


def send(server, url=None, text='go', task=None, **hook):
    """Sends a message, with a webhook if there is a URL for one, and does not wait; the id of the task."""
    message = {'messageId': str(uuid.uuid4()), 'role': 'ROLE_USER', 'parts': [{'text': text}]}
    if task:
        message['taskId'] = task
    configuration = {'returnImmediately': True}
    if url:
        configuration['taskPushNotificationConfig'] = wish(url, **hook)
    return ask(server, '/message:send', {'message': message, 'configuration': configuration})['task']['id']


def waiting(server):
    """A task that waits for input, so that nothing happens until it is answered."""
    task = send(server, text='ask me')
    state = lambda: server.call('GET', f'/tasks/{task}', JSON).json['status']['state']
    until(lambda: state() == 'TASK_STATE_INPUT_REQUIRED', 'the task asks')
    return task


def add(server, task, url, **hook):
    return ask(server, f'/tasks/{task}/pushNotificationConfigs', wish(url, **hook))


# --- What came --------------------------------------------------------------------------------------------------------


def state(delivery):
    """The state a delivery tells of, in 1.0, or `None`."""
    (told,) = delivery.json.values()
    return told.get('status', {}).get('state')


def told(hooks, path, seconds=20, last='TASK_STATE_COMPLETED'):
    """Waits until a webhook has heard of the end, and gives everything it was sent."""
    until(lambda: any(state(one) == last for one in hooks.at(path)), f'the end arrives at {path}', seconds)
    return hooks.at(path)


def letters(server, *words):
    """What `sabir push list` shows."""
    return server.command('push', 'list', *words)['deliveries']


def dead(server, count, seconds=20):
    """Waits for so many events in dead letters, and for nothing to wait any more. Neighbours that nobody answered are one
    letter."""

    def buried():
        return sum(one['lastEvent'] - one['firstEvent'] + 1 for one in letters(server, '--dead'))

    until(lambda: buried() >= count and not letters(server, '--waiting'), f'{count} dead events', seconds, pause=0.1)
    return letters(server, '--dead')
