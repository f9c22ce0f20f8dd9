"""A caller at the hub's door for the checks: A2A 1.0 over JSON-RPC, by hand, one call at a time."""

import contextlib
import http.client
import json
import sqlite3
import uuid

from server import until

SETTLED = ('COMPLETED', 'FAILED', 'CANCELED', 'REJECTED')
HEADERS = {'A2A-Version': '1.0', 'Content-Type': 'application/json'}


def path(agent):
    return f'/agents/{agent}'


def call(hub, agent, method, params, headers=(), seconds=40):
    body = json.dumps({'jsonrpc': '2.0', 'id': 1, 'method': method, 'params': params}).encode()
    answer = hub.call('POST', path(agent), {**HEADERS, **dict(headers)}, body, seconds=seconds)
    assert answer.status == 200, f'{method}: {answer!r}'
    return answer.json


def message(text, **more):
    return {'messageId': str(uuid.uuid4()), 'role': 'ROLE_USER', 'parts': [{'text': text}], **more}


def start(hub, agent, text='hello', headers=()):
    """Sends without waiting, and gives the id of the task."""
    params = {'message': message(text), 'configuration': {'returnImmediately': True}}
    answer = call(hub, agent, 'SendMessage', params, headers)
    assert 'result' in answer, f'send was refused: {answer["error"]}'
    return answer['result']['task']['id']


def get(hub, agent, task):
    return call(hub, agent, 'GetTask', {'id': task})['result']


def state(task):
    return task['status']['state'].removeprefix('TASK_STATE_')


def words(task):
    return ''.join(part.get('text', '') for part in task['status'].get('message', {}).get('parts', []))


def texts(task):
    return [''.join(part.get('text', '') for part in made['parts']) for made in task.get('artifacts', [])]


def settled(hub, agent, task, seconds=30):
    """The task, once it has settled."""

    def look():
        found = get(hub, agent, task)
        return found if state(found) in SETTLED else None

    return until(look, f'task {task} settles', seconds, 0.1)


def done(hub, agent, text='hello', seconds=30, headers=()):
    return settled(hub, agent, start(hub, agent, text, headers), seconds)


def states(hub):
    """States of all tasks of a hub, from the view that is there for it."""
    with contextlib.closing(sqlite3.connect(f'file:{hub.scratch}/data/sabir.db?mode=ro', uri=True)) as store:
        return [state for (state,) in store.execute('SELECT status_state FROM a2a_tasks')]


class Reader:
    """A stream, event by event, as `(number, event)`; it can be cut at any time."""

    def __init__(self, hub, agent, method, params, after=None):
        host, port = hub.address
        self.connection = http.client.HTTPConnection(host, port, timeout=30)
        body = json.dumps({'jsonrpc': '2.0', 'id': 1, 'method': method, 'params': params})
        headers = {**HEADERS, 'Accept': 'text/event-stream', **({'Last-Event-ID': str(after)} if after else {})}
        self.connection.request('POST', path(agent), body, headers)
        self.answer = self.connection.getresponse()
        assert self.answer.status == 200, f'{method}: HTTP {self.answer.status} {self.answer.read()[:300]}'

    def __iter__(self):
        number = None
        for line in self.answer:
            line = line.decode().rstrip('\r\n')
            if line.startswith('id:'):
                number = int(line[3:])
            elif line.startswith('data:'):
                told = json.loads(line[5:])
                assert 'error' not in told, f'an error in the stream: {told["error"]}'
                yield number, told['result']
                number = None

    def cut(self):
        self.answer.close()
        self.connection.close()
