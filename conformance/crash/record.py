"""What clients were shown: the only thing the server is held to.

A reply counts from the moment its last byte has arrived, an event from the blank line that ends its frame; whatever was
cut off before that was never acknowledged, and the server may have done it or not. Everything shown is kept as JSON, so
that the judge compares contents and not just numbers.

Some promises can only be seen broken at the moment it happens, such as a stream that goes on at the wrong number. Those
are checked by the clients as they go and noted here under the names below.
"""

import collections
import json

CONTINUES = 'a stream goes on with the number after the last one shown'
UNCHANGED = 'a number shows the same event to everybody, each time'
ENDS = 'a stream ends after the settled state, and not before'
SUBSCRIBES = 'a subscription opens with a snapshot, or is refused because the task has settled'
WAITS = 'a blocking send is answered once the task has settled'
JOINS = 'copies of a message are all answered with the same task'
ANSWERS = 'no answer was a surprise'
LASTS = 'the server ended only when it was killed, and came back every time'
SERVED = 'every client was served to the end'
LIVE = [CONTINUES, UNCHANGED, ENDS, SUBSCRIBES, WAITS, JOINS, ANSWERS, LASTS, SERVED]

SETTLED = {'TASK_STATE_COMPLETED', 'TASK_STATE_FAILED', 'TASK_STATE_CANCELED', 'TASK_STATE_REJECTED'}


class Send:
    """One message that a client wants delivered, however often it has to be sent."""

    def __init__(self, message_id, text, key=None):
        self.message_id, self.text, self.key = message_id, text, key
        # The tasks it was answered with. More than one is a failure; none means it was never acknowledged.
        self.tasks = set()
        # Whole tasks, as blocking replies showed them.
        self.replies = []

    @property
    def acknowledged(self):
        return bool(self.tasks)


class Record:
    """Everything that all clients were shown."""

    def __init__(self):
        self.sends = []
        self.events = collections.defaultdict(dict)
        self.snapshots = []
        # Wall-clock milliseconds, to be compared with the times in tasks.
        self.kills = []
        self.figures = collections.Counter()
        self.looked = collections.Counter()
        self.wrong = collections.defaultdict(list)

    def check(self, promise, kept, evidence):
        """Counts one look at a promise; `evidence` is a text, or a function that makes one."""
        self.looked[promise] += 1
        if not kept:
            self.wrong[promise].append(evidence() if callable(evidence) else evidence)
        return kept

    def show_event(self, task, number, event, who):
        """An event was shown. The first showing is kept, every later one must equal it."""
        self.figures['events acknowledged'] += 1
        known = self.events[task].setdefault(number, event)
        self.check(UNCHANGED, known == event, lambda: (
            f'task {task} event {number}: {who} was shown {brief(event)}, somebody before {brief(known)}'))

    def show_reply(self, send, task, who):
        """A blocking send was answered with a task."""
        send.tasks.add(task['id'])
        send.replies.append(task)
        self.figures['replies acknowledged'] += 1
        self.check(WAITS, state_of(task) in SETTLED, lambda: (
            f'task {task["id"]}: {who} was answered while it was {state_of(task)}'))
        self.check_joined(send, who)

    def check_joined(self, send, who):
        self.check(JOINS, len(send.tasks) <= 1, lambda: (
            f'message {send.message_id}: {who} and its copies were answered with {sorted(send.tasks)}'))


def state_of(holder):
    return holder.get('status', {}).get('state')


def task_of(event):
    """The id of the task an event is about."""
    if 'task' in event:
        return event['task'].get('id')
    (update,) = event.values()
    return update.get('taskId')


def settles(event):
    """The settled state an event puts its task in, or nothing."""
    state = state_of(event.get('task') or event.get('statusUpdate') or {})
    return state if state in SETTLED else None


def opened_ms(task):
    """When a task was opened: the first 48 bits of its id are milliseconds."""
    return int(task.replace('-', '')[:12], 16)


def brief(value, length=300):
    """JSON for a line of evidence."""
    text = json.dumps(value, ensure_ascii=False, separators=(',', ':'))
    return text if len(text) <= length else f'{text[:length]}…'
