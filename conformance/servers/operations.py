"""What `sabir` has to manage with every server, on every binding: one function for each promise.

A case is given a `Talk`, which is one server over one binding, and raises `Wrong` when the promise is not kept. What
the agents answer is in `agents/behaviour.py`. Outcomes are always looked at in the shapes of 1.0, whatever was spoken.
"""

import base64
import dataclasses
import json
import os
import pathlib
import re
import signal
import tempfile
import threading
import time
import uuid

import servers
from agents.behaviour import RAW

# Work that is long enough to be joined, watched and hooked on a busy machine; and what is not waiting for it.
LONG, QUICK_SECONDS = 'slow 12', 2.5
DELIVERY_SECONDS_MAX = 6
# A stream that is broken off again and again is taken up six times, with longer and longer pauses.
LISTEN_SECONDS_MAX = 50
CASES = {}


class Wrong(Exception):
    """The promise was not kept."""


@dataclasses.dataclass(frozen=True)
class Case:
    group: str
    run: object
    # The versions in which it can be asked for at all.
    versions: tuple = ('1.0', '0.3')


def case(group, versions=('1.0', '0.3')):
    def keep(function):
        CASES[function.__name__.replace('_', '-')] = Case(group, function, versions)
        return function

    return keep


def equal(what, got, want):
    if got != want:
        raise Wrong(f'{what}: got {json.dumps(got)[:200]}, want {json.dumps(want)[:200]}')


@dataclasses.dataclass
class Talk:
    """One server over one binding, as `sabir` is told of it."""

    sabir: object
    server: object
    binding: str
    version: str
    hook: object

    def options(self, output='json'):
        spoken = ['--a2a-version', self.version] if self.version != '1.0' else []
        return ['--agent-card', self.server.url, '--transport', self.binding, '--output', output, *spoken]

    def run(self, *words, output='json', **more):
        return self.sabir.run(*words, *self.options(output), **more)

    def json(self, *words, **more):
        """What a command that succeeds prints: one document."""
        done = self.run(*words, **more)
        if done.status != 0:
            raise Wrong(str(done))
        try:
            return done.json()
        except ValueError:
            raise Wrong(f'not one JSON document: {done}') from None

    def lines(self, *words, **more):
        """The same for a stream: one document a line."""
        done = self.run(*words, '--stream', **more)
        if done.status != 0:
            raise Wrong(str(done))
        try:
            return done.lines()
        except ValueError:
            raise Wrong(f'not a JSON document a line: {done}') from None

    def refusal(self, *words, status=1):
        """The code of the error a command that fails prints."""
        done = self.run(*words)
        if done.status != status:
            raise Wrong(f'want status {status}: {done}')
        try:
            return done.json()['error']['code']
        except (ValueError, KeyError, TypeError):
            raise Wrong(f'no error in JSON: {done}') from None

    def send(self, *words, **more):
        """The task a message led to."""
        answer = self.json('send', *words, **more)
        if 'task' not in answer:
            raise Wrong(f'no task: {json.dumps(answer)[:200]}')
        return answer['task']


def state(task):
    return task['status']['state'].removeprefix('TASK_STATE_')


def texts(task):
    return [part.get('text') for artifact in task.get('artifacts') or [] for part in artifact['parts']]


def ending(events):
    """The state the last event of a stream shows."""
    last = events[-1] if events else {}
    for name in ('statusUpdate', 'task'):
        if name in last:
            return state(last[name])
    raise Wrong(f'the last event has no state: {json.dumps(last)[:200]}')


# --- Discovery --------------------------------------------------------------------------------------------------------


@case('discovery')
def card_get(talk):
    """The card is read, and shown with its name and skills."""
    card = talk.json('card', 'get')
    equal('skills', [skill['id'] for skill in card['skills']], ['play'])


@case('discovery')
def card_text(talk):
    """The card is read by people too, and says which interface was chosen."""
    done = talk.run('card', 'get', output='text')
    if done.status != 0 or 'Skill: play' not in done.stdout or talk.binding not in done.stdout:
        raise Wrong(str(done))


@case('discovery')
def card_extended(talk):
    """The extended card is asked for with a credential of a declared scheme."""
    equal('description', talk.json('card', 'get', '--extended', '--bearer', 'test-token')['description'],
          'The extended card')


# --- Sending ----------------------------------------------------------------------------------------------------------


@case('sending')
def send(talk):
    """A message is waited for and leads to a finished task with its artifact."""
    task = talk.send('echo hello wörld ✓ 你好')
    equal('task', [state(task), *texts(task)], ['COMPLETED', 'hello wörld ✓ 你好'])
    if not task.get('id') or not task.get('contextId'):
        raise Wrong('ids are missing')


@case('sending')
def send_text(talk):
    """The same for people: ids, state and text, each on a line of its own."""
    done = talk.run('send', 'echo hello there', output='text')
    wanted = ('Task ID: ', 'Context ID: ', 'State: TASK_STATE_COMPLETED', '  hello there')
    if done.status != 0 or any(one not in done.stdout for one in wanted):
        raise Wrong(str(done))


@case('sending')
def send_message(talk):
    """A direct message is one, and no task."""
    answer = talk.json('send', 'message')
    equal('members', list(answer), ['message'])
    equal('text', answer['message']['parts'][0]['text'], 'a direct message')


@case('sending')
def send_wait(talk):
    """Work that takes a second is waited for; its chunks are joined."""
    task = talk.send('slow 4')
    equal('state', state(task), 'COMPLETED')
    equal('text', ''.join(filter(None, texts(task))), 'chunk 1 chunk 2 chunk 3 chunk 4 ')


@case('sending')
def send_async(talk):
    """Not waiting means not waiting: ids at once, the task still at work."""
    before = time.monotonic()
    task = talk.send(LONG, '--async')
    if time.monotonic() - before > QUICK_SECONDS:
        raise Wrong(f'it took {time.monotonic() - before:.1f} s')
    if state(task) not in ('SUBMITTED', 'WORKING'):
        raise Wrong(f'it is {state(task)}')


@case('sending')
def send_context(talk):
    """A second task in the context of the first."""
    first = talk.send('echo one')
    second = talk.send('echo two', '--context-id', first['contextId'])
    equal('context', second['contextId'], first['contextId'])
    if second['id'] == first['id']:
        raise Wrong('it is the same task')


@case('sending')
def send_parts(talk):
    """Text, bytes, an address and data all arrive, as the history shows."""
    with tempfile.TemporaryDirectory() as scratch:
        note, data = pathlib.Path(scratch) / 'note.bin', pathlib.Path(scratch) / 'data.json'
        note.write_bytes(RAW)
        data.write_text('{"n": 1, "list": ["a", true]}')
        words = ['--text', 'echo parts', '--file', note, '--file', 'https://files.example/far.pdf', '--data', data]
        sent = talk.send(*words)
    parts = talk.json('task', 'get', sent['id'], '--history', '10')['history'][0]['parts']
    equal('text', parts[0].get('text'), 'echo parts')
    equal('bytes', parts[1].get('raw'), base64.b64encode(RAW).decode())
    equal('address', parts[2].get('url'), 'https://files.example/far.pdf')
    equal('data', parts[3].get('data'), {'n': 1, 'list': ['a', True]})


@case('sending')
def files(talk):
    """Parts of all kinds come back."""
    [artifact] = talk.send('files')['artifacts']
    known = ('text', 'raw', 'url', 'data')
    kinds = [next((kind for kind in known if kind in part), None) for part in artifact['parts']]
    equal('kinds', kinds, ['text', 'raw', 'url', 'data'])
    equal('bytes', artifact['parts'][1]['raw'], base64.b64encode(RAW).decode())
    equal('data', artifact['parts'][3]['data'], {'count': 3, 'list': [1, 'two', True]})


@case('sending')
def fail(talk):
    """A failed task is reported as such, with its reason; the tool has done its work."""
    task = talk.send('fail')
    equal('state', state(task), 'FAILED')
    equal('reason', task['status']['message']['parts'][0]['text'], 'it did not work')


@case('sending')
def reject(talk):
    """So is a rejected one."""
    equal('state', state(talk.send('reject')), 'REJECTED')


# --- Turns ------------------------------------------------------------------------------------------------------------


@case('turns')
def ask(talk):
    """A question ends the wait; the answer to the task completes it."""
    asked = talk.send('ask')
    equal('state', state(asked), 'INPUT_REQUIRED')
    equal('question', asked['status']['message']['parts'][0]['text'], 'Which city?')
    done = talk.send('Paris', '--task-id', asked['id'])
    equal('ids', [done['id'], done['contextId']], [asked['id'], asked['contextId']])
    equal('task', [state(done), *texts(done)], ['COMPLETED', 'Paris'])


@case('turns')
def auth(talk):
    """So does a demand to log in."""
    asked = talk.send('auth')
    equal('state', state(asked), 'AUTH_REQUIRED')
    equal('state', state(talk.send('done', '--task-id', asked['id'])), 'COMPLETED')


# --- Streams ----------------------------------------------------------------------------------------------------------


@case('streams')
def stream(talk):
    """Each event is a line, in order, and the last one is the end."""
    events = talk.lines('send', 'slow 3')
    chunks = [event['artifactUpdate']['artifact']['parts'][0]['text'] for event in events if 'artifactUpdate' in event]
    equal('chunks', chunks, ['chunk 1 ', 'chunk 2 ', 'chunk 3 '])
    equal('end', ending(events), 'COMPLETED')


@case('streams')
def stream_message(talk):
    """A direct message on a stream is one line."""
    [event] = talk.lines('send', 'message')
    equal('text', event['message']['parts'][0]['text'], 'a direct message')


@case('streams')
def stream_ask(talk):
    """A stream ends with the question."""
    equal('end', ending(talk.lines('send', 'ask')), 'INPUT_REQUIRED')


@case('streams')
def subscribe(talk):
    """A task that was started elsewhere is joined and followed to its end."""
    task = talk.send(LONG, '--async')
    events = talk.lines('task', 'subscribe', task['id'])
    equal('end', ending(events), 'COMPLETED')
    if not any('artifactUpdate' in event for event in events):
        raise Wrong('there are no chunks')


@case('streams')
def subscribe_final(talk):
    """Without `--stream` it is the finished task alone."""
    task = talk.send(LONG, '--async')
    done = talk.json('task', 'subscribe', task['id'])
    equal('task', [done['id'], state(done)], [task['id'], 'COMPLETED'])


@case('streams')
def stream_lost(talk):
    """A server that dies and comes back knowing nothing: it is said that the stream ended early, and how to go on."""
    with servers.serving(talk.server.kind) as first:
        offered = [first.interfaces[name] for name in ('JSONRPC', 'GRPC') if name in first.interfaces]
        ports = [int(re.search(r':(\d+)', url)[1]) for url in offered]
        here = dataclasses.replace(talk, server=first)
        process = here.sabir.start('send', LONG, '--stream', *here.options())
        alarm = threading.Timer(LISTEN_SECONDS_MAX, process.kill)
        alarm.start()
        seen = []
        for line in process.stdout:
            seen.append(json.loads(line))
            if 'artifactUpdate' in seen[-1]:
                os.kill(first.pid, signal.SIGKILL)
                break
    with servers.serving(talk.server.kind, *ports):
        seen += [json.loads(line) for line in process.stdout]
        process.wait()
        alarm.cancel()
    if process.returncode not in (1, 3) or 'error' not in seen[-1]:
        raise Wrong(f'status {process.returncode}, last: {json.dumps(seen[-1])[:300]}')
    if not seen[-1]['error'].get('hint'):
        raise Wrong(f'no hint: {json.dumps(seen[-1])}')
    texts = [event['artifactUpdate']['artifact']['parts'][0]['text'] for event in seen if 'artifactUpdate' in event]
    equal('chunks', texts, sorted(set(texts), key=texts.index))


# --- Reading ----------------------------------------------------------------------------------------------------------


@case('reading')
def get(talk):
    """What was sent can be read again."""
    task = talk.send('echo kept')
    got = talk.json('task', 'get', task['id'])
    equal('task', [got['id'], state(got), *texts(got)], [task['id'], 'COMPLETED', 'kept'])


@case('reading')
def get_wait(talk):
    """Waiting for a task that was started elsewhere."""
    task = talk.send('slow 4', '--async')
    equal('state', state(talk.json('task', 'get', task['id'], '--wait', '--poll-interval', '300ms')), 'COMPLETED')


@case('reading', versions=('1.0',))
def list_context(talk):
    """The tasks of one context, in pages."""
    first = talk.send('echo one')
    second = talk.send('echo two', '--context-id', first['contextId'])
    page = talk.json('task', 'list', '--context-id', first['contextId'])
    equal('tasks', sorted(task['id'] for task in page['tasks']), sorted([first['id'], second['id']]))
    few = talk.json('task', 'list', '--context-id', first['contextId'], '--page-size', '1')
    equal('page', len(few['tasks']), 1)
    words = ['--page-size', '1', '--page-token', few['nextPageToken']]
    rest = talk.json('task', 'list', '--context-id', first['contextId'], *words)
    equal('pages', sorted(task['id'] for task in few['tasks'] + rest['tasks']), sorted([first['id'], second['id']]))


@case('reading', versions=('1.0',))
def list_status(talk):
    """Tasks by their state."""
    task = talk.send('fail')
    page = talk.json('task', 'list', '--context-id', task['contextId'], '--status', 'failed')
    equal('failed', [one['id'] for one in page['tasks']], [task['id']])
    page = talk.json('task', 'list', '--context-id', task['contextId'], '--status', 'completed')
    # The SDK for Go writes null for a list without members, and JSON is shown as the agent wrote it.
    equal('completed', page['tasks'] or [], [])


@case('reading')
def download(talk):
    """Artifacts become files, with the bytes they had, fetched where they are elsewhere."""
    task = talk.send('files')
    with tempfile.TemporaryDirectory() as scratch:
        talk.json('task', 'download', task['id'], '--dir', scratch)
        written = [path.read_bytes() for path in pathlib.Path(scratch).rglob('*') if path.is_file()]
    for what, content in (('bytes', RAW), ('paper', b'the text of the paper\n'), ('text', b'one of each')):
        if not any(one.rstrip(b'\n') == content.rstrip(b'\n') for one in written):
            raise Wrong(f'no file has the {what}: {written!r}')


# --- Canceling --------------------------------------------------------------------------------------------------------


@case('canceling')
def cancel(talk):
    """A task that works is canceled, and stays so."""
    task = talk.send('hold', '--async')
    equal('state', state(talk.json('task', 'cancel', task['id'])), 'CANCELED')
    equal('state', state(talk.json('task', 'get', task['id'])), 'CANCELED')


@case('canceling')
def cancel_settled(talk):
    """A finished task cannot be canceled, and the error says so by its name."""
    task = talk.send('echo done')
    equal('code', talk.refusal('task', 'cancel', task['id']), 'TaskNotCancelableError')


# --- Refusals ---------------------------------------------------------------------------------------------------------


@case('refusals')
def get_unknown(talk):
    """A task nobody knows."""
    equal('code', talk.refusal('task', 'get', str(uuid.uuid4())), 'TaskNotFoundError')


@case('refusals')
def cancel_unknown(talk):
    """The same for a cancel."""
    equal('code', talk.refusal('task', 'cancel', str(uuid.uuid4())), 'TaskNotFoundError')


@case('refusals')
def send_unknown(talk):
    """A message to a task nobody knows makes no task."""
    equal('code', talk.refusal('send', 'hello', '--task-id', str(uuid.uuid4())), 'TaskNotFoundError')


@case('refusals')
def send_settled(talk):
    """A message to a finished task is refused by the server, in its own way: 0.3 names no error for it."""
    task = talk.send('echo done')
    code = talk.refusal('send', 'more', '--task-id', task['id'])
    wanted = {'1.0': ['UnsupportedOperationError']}
    wanted = wanted.get(talk.version, ['InvalidParamsError', 'InvalidRequestError', 'InternalError'])
    if code not in wanted:
        raise Wrong(f'code: got {code}, want one of {wanted}')


@case('refusals', versions=('1.0',))
def subscribe_settled(talk):
    """A finished task cannot be joined."""
    task = talk.send('echo done')
    equal('code', talk.refusal('task', 'subscribe', task['id']), 'UnsupportedOperationError')


@case('refusals', versions=('0.3',))
def old_unless_refused(talk):
    """A server of 0.3 is called in 0.3, which standard error says; `--a2a-version 1.0` refuses it."""
    words = ['send', 'echo x', '-a', talk.server.url, '--transport', talk.binding, '-o', 'json']
    done = talk.sabir.run(*words)
    if done.status != 0:
        raise Wrong(f'status {done.status}: {done.stdout!r} {done.stderr!r}')
    if '0.3' not in done.stderr:
        raise Wrong(f'standard error does not name the version: {done.stderr!r}')
    refused = talk.sabir.run(*words, '--a2a-version', '1.0')
    equal('status', refused.status, 1)
    equal('code', refused.json()['error']['code'], 'VersionNotSupportedError')


# --- Push -------------------------------------------------------------------------------------------------------------


def hooked(talk, task, token=None):
    words = ['--url', talk.hook.url, *(['--push-token', token] if token else [])]
    return talk.json('task', 'push-config', 'create', task['id'], *words)


@case('push')
def push_create(talk):
    """A webhook is registered and read again."""
    task = talk.send('hold', '--async')
    made = hooked(talk, task)
    equal('address', made['url'], talk.hook.url)
    got = talk.json('task', 'push-config', 'get', task['id'], made['id'])
    equal('config', [got['id'], got['url']], [made['id'], talk.hook.url])


@case('push')
def push_list(talk):
    """Webhooks are listed."""
    task = talk.send('hold', '--async')
    made = hooked(talk, task)
    listed = talk.json('task', 'push-config', 'list', task['id'])
    equal('configs', [one['id'] for one in listed['configs']], [made['id']])


@case('push')
def push_delete(talk):
    """A webhook is taken back."""
    task = talk.send('hold', '--async')
    made = hooked(talk, task)
    equal('answer', talk.json('task', 'push-config', 'delete', task['id'], made['id']), {})


@case('push')
def push_delivery(talk):
    """What was registered is called, with the token."""
    token = str(uuid.uuid4())
    task = talk.send(LONG, '--async')
    hooked(talk, task, token)
    deadline = time.monotonic() + DELIVERY_SECONDS_MAX
    while not talk.hook.seen(token):
        if time.monotonic() > deadline:
            raise Wrong('nothing came')
        time.sleep(0.1)


@case('push')
def push_listen(talk):
    """The receiver of the tool gets the end of the task, prints it, and ends."""
    task = talk.send(LONG, '--async')
    process = talk.sabir.start('task', 'push-config', 'listen', task['id'], *talk.options())
    alarm = threading.Timer(LISTEN_SECONDS_MAX, process.kill)
    alarm.start()
    try:
        said, complained = process.communicate()
    finally:
        alarm.cancel()
    if process.returncode != 0:
        raise Wrong(f'status {process.returncode}: {" ".join(f"{said} {complained}".split())[:300]}')
    equal('end', ending([json.loads(line) for line in said.splitlines()]), 'COMPLETED')
