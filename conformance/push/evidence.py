"""The evidence of a crash run: what receivers kept and what customers were shown, as read from their files.

Nothing else is looked at. In particular nothing of the server's: not its tables, not its log, not its code.
"""

import dataclasses
import json
import pathlib
import sys

sys.path.append(str(pathlib.Path(__file__).resolve().parent.parent))

import scene
from chunks import joined_parts

SETTLED = {'TASK_STATE_COMPLETED', 'TASK_STATE_FAILED', 'TASK_STATE_CANCELED', 'TASK_STATE_REJECTED'}


@dataclasses.dataclass
class Request:
    """One line of a receiver's record."""

    receiver: str
    at: float
    method: str
    path: str
    headers: dict
    body: bytes
    answer: str

    @property
    def id(self):
        return self.headers.get('webhook-id')

    @property
    def whole(self):
        return self.answer != 'cut'

    @property
    def accepted(self):
        return self.answer in scene.ACCEPTS


@dataclasses.dataclass
class Hook:
    """One registration, as its customer made it."""

    name: str
    receiver: str
    dialect: str
    how: str
    token: str
    # Headers it must be sent, or not: name to value or `None`.
    headers: dict
    # Registered after one event and before another: what came up to `after_min` is not owed, what came after
    # `after_max` is. `None`: the task had settled when the customer looked, and perhaps before it registered.
    after_min: int
    after_max: int | None
    task: str = ''

    @property
    def path(self):
        return f'/{self.name}'


@dataclasses.dataclass
class Told:
    """What one customer was shown of its task: each event as it happened, and all of them at the end."""

    task: str
    messages: list
    live: dict
    events: dict
    hooks: list

    @property
    def last(self):
        return max(self.events)


def read_requests(folder):
    """All requests, in the order of each receiver's record."""
    found = []
    for file in sorted(pathlib.Path(folder).glob('receiver-*.jsonl')):
        for line in file.read_text(encoding='utf-8').splitlines():
            one = json.loads(line)
            names = [name for name, _ in one['headers']]
            headers = dict(one['headers'])
            headers['repeated'] = sorted({name for name in names if names.count(name) > 1})
            found.append(Request(file.stem, one['at'], one['method'], one['path'], headers,
                                 one['body'].encode('latin-1'), one['answer']))
    return found


def write_told(file, told):
    with open(file, 'a', encoding='utf-8') as out:
        out.write(json.dumps(dataclasses.asdict(told)) + '\n')


def read_told(file):
    found = []
    if not pathlib.Path(file).is_file():
        return found
    for line in pathlib.Path(file).read_text(encoding='utf-8').splitlines():
        one = json.loads(line)
        numbered = {name: {int(n): event for n, event in one[name].items()} for name in ('live', 'events')}
        found.append(Told(one['task'], one['messages'], numbered['live'], numbered['events'],
                          [Hook(**hook) for hook in one['hooks']]))
    return found


# --- What an event says -----------------------------------------------------------------------------------------------


def state_of(event):
    holder = event.get('task') or event.get('statusUpdate') or {}
    return holder.get('status', {}).get('state')


def task_of(event):
    return event['task']['id'] if 'task' in event else next(iter(event.values()))['taskId']


def fold(events):
    """The tasks that events add up to, one after each; history aside, which streams do not repeat."""
    task, folded = None, []
    for event in events:
        if 'task' in event:
            task = {name: value for name, value in event['task'].items() if name != 'history'}
        elif 'statusUpdate' in event:
            task = {**task, 'status': event['statusUpdate']['status']}
        else:
            task = {**task, 'artifacts': with_chunk(task.get('artifacts', []), event['artifactUpdate'])}
        folded.append(task)
    return folded


def with_chunk(artifacts, update):
    chunk = update['artifact']
    known = next((one for one in artifacts if one['artifactId'] == chunk['artifactId']), None)
    if known is None:
        return [*artifacts, chunk]
    made = {**known, **chunk, 'parts': joined_parts(known['parts'], chunk['parts'])} if update.get('append') else chunk
    return [made if one is known else one for one in artifacts]


def in_0_3(value):
    """A task of 1.0 as 0.3 writes it, as far as this agent goes: kinds, states, roles."""
    if isinstance(value, list):
        return [in_0_3(one) for one in value]
    if not isinstance(value, dict):
        return value
    made = {name: in_0_3(one) for name, one in value.items()}
    if 'state' in made:
        made['state'] = made['state'].removeprefix('TASK_STATE_').lower().replace('_', '-')
    if 'role' in made:
        made['role'] = made['role'].removeprefix('ROLE_').lower()
    if 'messageId' in made:
        made['kind'] = 'message'
    elif 'status' in made and 'id' in made:
        made['kind'] = 'task'
    elif set(made) == {'text'}:
        made['kind'] = 'text'
    return made
