"""What `sabir` has to manage with an address and nothing else: no version, no binding, no configuration.

Which dialect an agent speaks is found out from its card and its answers. Outcomes are looked at in the shapes of 1.0.
"""

import json
import uuid

from operations import Wrong, ending, equal, state, texts

# What the tasks of a dialect cannot show.
ABSENT = {('agent-native', 'ask'), ('xpr', 'ask'), ('xpr', 'files'), ('xpr', 'cancel')}
CASES = {}


def case(function):
    CASES[function.__name__.replace('_', '-')] = function
    return function


class Caller:
    def __init__(self, sabir, server):
        self.sabir, self.url = sabir, server.url

    def run(self, *words):
        return self.sabir.run(*words, '--output', 'json')

    def json(self, *words):
        done = self.run(*words)
        if done.status != 0:
            raise Wrong(str(done))
        return done.json()

    def send(self, *words):
        return self.json('send', self.url, *words)['task']

    def refusal(self, *words):
        done = self.run(*words)
        try:
            return done.json()['error']['code']
        except (ValueError, KeyError, TypeError):
            raise Wrong(f'no error in JSON: {done}') from None


def said(task):
    """The texts of a task: artifacts, or the status message where a dialect has its answer there."""
    words = task['status'].get('message') or {'parts': []}
    return texts(task) or [part.get('text') for part in words['parts']]


@case
def send(caller):
    """`sabir send URL TEXT` prints the answer."""
    task = caller.send('echo hello wörld ✓')
    equal('task', [state(task), *said(task)], ['COMPLETED', 'hello wörld ✓'])


@case
def files(caller):
    """A file given as bytes and one given by address arrive."""
    task = caller.send('files')
    parted = [*(task.get('artifacts') or []), *filter(None, [task['status'].get('message')])]
    kinds = {kind for one in parted for part in one['parts'] for kind in ('text', 'raw', 'url', 'data') if kind in part}
    equal('kinds', sorted(kinds), ['data', 'raw', 'text', 'url'])


@case
def stream(caller):
    """`--stream` shows the work to its end, also where the agent has no streams."""
    done = caller.run('send', caller.url, 'slow 3', '--stream')
    if done.status != 0:
        raise Wrong(str(done))
    equal('end', ending(done.lines()), 'COMPLETED')
    if 'chunk 3' not in done.stdout:
        raise Wrong(f'the last chunk is missing: {json.dumps(done.stdout)[:300]}')


@case
def ask(caller):
    """A question is shown, and answered by a second message to the task."""
    asked = caller.send('ask')
    equal('state', state(asked), 'INPUT_REQUIRED')
    done = caller.send('Paris', '--task-id', asked['id'])
    equal('task', [done['id'], state(done), *texts(done)], [asked['id'], 'COMPLETED', 'Paris'])


@case
def fail(caller):
    """Work that failed says why: a failed task, or an error in dialects whose servers answer with one."""
    done = caller.run('send', caller.url, 'fail')
    if 'it did not work' not in done.stdout or done.status not in (0, 1):
        raise Wrong(str(done))


@case
def get(caller):
    """A task is read again."""
    sent = caller.send('echo kept')
    got = caller.json('task', 'get', sent['id'], '--agent-card', caller.url)
    equal('task', [got['id'], state(got), *said(got)], [sent['id'], 'COMPLETED', 'kept'])


@case
def cancel(caller):
    """A task at work is canceled."""
    held = caller.send('hold', '--async')
    equal('state', state(caller.json('task', 'cancel', held['id'], '--agent-card', caller.url)), 'CANCELED')


@case
def get_unknown(caller):
    """A task that is not there is TaskNotFound."""
    equal('code', caller.refusal('task', 'get', str(uuid.uuid4()), '--agent-card', caller.url), 'TaskNotFoundError')


def applies(kind, name):
    return (kind, name) not in ABSENT
