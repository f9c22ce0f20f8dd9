"""The verdict: what clients were shown, against what the file holds after the last crash.

Each check is a promise with the reason why it is looked at. A check yields one line of evidence per breach and counts
what it looked at; one that found nothing to look at has proven nothing and counts as failed.
"""

import collections
import dataclasses
import datetime
import pathlib
import sys

sys.path.append(str(pathlib.Path(__file__).resolve().parent.parent))

from chunks import joined_parts
from record import LIVE, SETTLED, brief, opened_ms, settles, state_of
from script import chunks_of

# How often the server begins a turn before it gives the task up as one that crashes the process.
ATTEMPTS_MAX = 3


@dataclasses.dataclass
class Verdict:
    promise: str
    looked: int
    wrong: list
    # Whether it may happen that there is nothing to look at.
    optional: bool = False

    @property
    def kept(self):
        return not self.wrong and (self.looked > 0 or self.optional)


def judge(record, log):
    """All verdicts: those of the clients, then those on the file."""
    verdicts = [Verdict(promise, record.looked[promise], record.wrong[promise]) for promise in LIVE]
    for check in CHECKS:
        looked, wrong = 0, []
        for evidence in check(record, log):
            looked += 1
            if evidence:
                wrong.append(evidence)
        verdicts.append(Verdict(check.__doc__.split('\n')[0], looked, wrong, check in OPTIONAL))
    return verdicts


# --- Checks: a yield is a look, a text is a breach --------------------------------------------------------------------


def integrity(record, log):
    """SQLite finds the file sound

    A torn page can hide anything, so the rest is only worth as much as this.
    """
    yield None if log.integrity == 'ok' else log.integrity


def numbering(record, log):
    """events are numbered 1, 2, 3 … to the head, without gap or repeat

    Numbers are what clients resume by. A gap would make a reader wait for ever, a repeat would hide an event.
    """
    for task in log.tasks.values():
        # The row of an unfinished task does not know of its latest events; that there is one is for another check.
        head = task.head if task.state in SETTLED else len(task.events)
        wanted = list(range(1, head + 1))
        yield None if wanted and task.numbers == wanted else f'task {task.id}: head {task.head}, numbers {task.numbers}'


def events_kept(record, log):
    """every acknowledged event is in the log with its number, unchanged

    The first promise: what a client was shown before a crash is what everybody is shown after it.
    """
    for id, shown in record.events.items():
        task = log.tasks.get(id)
        stored = dict(zip(task.numbers, task.events)) if task else {}
        for number, event in shown.items():
            if task is None:
                yield f'task {id}: not in the log, though event {number} was shown: {brief(event)}'
            elif number not in stored:
                yield f'task {id} event {number}: lost; shown was {brief(event)}'
            else:
                kept = stored[number]
                yield None if kept == event else f'task {id} event {number}: shown {brief(event)}, stored {brief(kept)}'


def replies_kept(record, log):
    """every acknowledged reply is the task as it is stored

    A blocking reply shows a settled task. Settled means settled, so the stored one must be the same to the letter.
    """
    for send in record.sends:
        for reply in send.replies:
            task = log.tasks.get(reply['id'])
            if task is None:
                yield f'task {reply["id"]}: not in the log, though message {send.message_id} was answered with it'
            else:
                same = reply == task.body and state_of(reply) == task.state
                yield None if same else f'task {task.id}: shown {brief(reply)}, stored {task.state} {brief(task.body)}'


def snapshots_true(record, log):
    """every snapshot shown is the log folded up to its number

    A reader goes on from the number of a snapshot. Were that wrong by one, a chunk would be missing or there twice.
    """
    for id, number, shown in record.snapshots:
        task = log.tasks.get(id)
        if task is None or number > len(task.events):
            yield f'task {id}: a snapshot was shown at {number}, the log has {task and len(task.events)} events'
        else:
            folded = fold(task.events[:number])
            yield None if shown == folded else f'task {id} at {number}: shown {brief(shown)}, folded {brief(folded)}'


def bodies_true(record, log):
    """every stored task is the fold of its events

    The log is the only truth; the image beside it is what *get* and *list* show, so the two must not part.
    """
    for task in log.tasks.values():
        if task.state not in SETTLED:
            continue
        folded = fold(task.events)
        yield None if task.body == folded else f'task {task.id}: stored {brief(task.body)}, folded {brief(folded)}'


def sends_once(record, log):
    """an acknowledged message made exactly one task, the one it was answered with

    Retrying is only safe if a retry never runs the agent again. A message nobody was told about may have made a task
    or not, but not two; and no task may exist that nobody asked for.
    """
    made = collections.defaultdict(set)
    for task in log.tasks.values():
        made[task.message_id()].add(task.id)
    for send in record.sends:
        tasks = made.pop(send.message_id, set())
        if send.acknowledged:
            right = tasks == send.tasks and len(tasks) == 1
        else:
            right = len(tasks) <= 1
        yield None if right else (
            f'message {send.message_id}{f" with key {send.key}" if send.key else ""}: '
            f'answered with {sorted(send.tasks) or "nothing"}, made {sorted(tasks) or "nothing"}')
    for message_id, tasks in made.items():
        yield f'message {message_id}: nobody sent it, and it made {sorted(tasks)}'


def keys_kept(record, log):
    """an explicit key and its task are in the log together

    They are one commit. A key without a task would refuse its retry for a day; a task without its key would be doubled.
    """
    keyed = collections.Counter(log.keyed)
    wanted = {send.message_id for send in record.sends if send.key}
    for task in log.tasks.values():
        if task.message_id() in wanted:
            count = keyed.pop(task.id, 0)
            yield None if count == 1 else f'task {task.id}: {count} keys stand for it, message {task.message_id()}'
    for id, count in keyed.items():
        yield f'task {id}: {count} keys stand for it, and it is not a task that was sent with one'


def settled_once(record, log):
    """a log ends with the settled state and has none before

    A client that was told "completed" has stopped listening; nothing that comes after would reach it.
    """
    for task in log.tasks.values():
        at = [(number, settles(event)) for number, event in zip(task.numbers, task.events) if settles(event)]
        if task.state in SETTLED:
            right = at == [(task.head, task.state)]
            yield None if right else f'task {task.id}: {task.state} at {task.head}, its log says {at}'
        elif at:
            yield f'task {task.id}: {task.state}, though its log says {at}'


def all_settled(record, log):
    """no task is left unfinished

    The script can be resumed, so every task that was accepted comes to an end, whoever is still listening.
    """
    for task in log.tasks.values():
        yield None if task.state in SETTLED else f'task {task.id}: still {task.state} at event {task.head}'


def given_up(record, log):
    """a task ended otherwise than completed only after three crashes

    The server gives up a task that it has begun three times, since it may be the task that crashes it. Before that,
    ending it would be the easy way out of resuming it.
    """
    for task in log.tasks.values():
        if task.state == 'TASK_STATE_COMPLETED' or task.body is None:
            continue
        ended = datetime.datetime.fromisoformat(task.body['status']['timestamp']).timestamp() * 1000
        crashes = sum(opened_ms(task.id) <= kill <= ended for kill in record.kills)
        right = task.state == 'TASK_STATE_FAILED' and crashes >= ATTEMPTS_MAX
        yield None if right else f'task {task.id}: ended as {brief(task.body["status"])} after {crashes} crashes'


def texts_exact(record, log):
    """every answer was said exactly once, with no chunk lost or repeated

    An agent that is resumed must go on after the last committed chunk: one earlier repeats it, one later loses it. The
    final text alone would not tell, since the first chunk replaces what was there: an agent that is begun anew ends
    with the right text, and its readers have seen half of it twice. What was given up must be a beginning of the whole.
    """
    texts = {send.message_id: send.text for send in record.sends}
    for task in log.tasks.values():
        if task.message_id() not in texts:
            continue
        wanted, got = chunks_of(texts[task.message_id()]), said(task.events)
        right = got == wanted if task.state == 'TASK_STATE_COMPLETED' else got == wanted[:len(got)]
        right = right and text_of(fold(task.events)) == ''.join(got)
        yield None if right else f'task {task.id}: {task.state} having said {got}, expected {wanted}'


def counters_true(record, log):
    """the counters of the file equal its tasks

    Counts are kept apart from what they count, in the same commit. Any difference is a commit that came apart.
    """
    counted = collections.Counter((task.scope, task.state) for task in log.tasks.values())
    for what in sorted(counted.keys() | log.counters.keys(), key=str):
        same = counted[what] == log.counters.get(what, 0)
        yield None if same else f'scope and state {what}: {counted[what]} tasks, counter {log.counters.get(what, 0)}'


CHECKS = [
    integrity, events_kept, replies_kept, snapshots_true, sends_once, keys_kept, numbering, settled_once, all_settled,
    texts_exact, given_up, bodies_true, counters_true,
]
OPTIONAL = {given_up}


# --- Folding: what a list of events amounts to ------------------------------------------------------------------------


def fold(events):
    """The task that events add up to, as A2A 1.0 defines it for clients; `None` if they do not begin with a task."""
    if not events or 'task' not in events[0]:
        return None
    task = events[0]['task']
    task = {**task, 'artifacts': [dict(artifact) for artifact in task.get('artifacts', [])]}
    for event in events[1:]:
        if 'task' in event:
            task = {**event['task'], 'artifacts': [dict(a) for a in event['task'].get('artifacts', [])]}
        elif 'statusUpdate' in event:
            task['status'] = event['statusUpdate']['status']
        elif 'artifactUpdate' in event:
            fold_artifact(task['artifacts'], event['artifactUpdate'])
    if not task['artifacts']:
        del task['artifacts']
    return task


def fold_artifact(artifacts, update):
    chunk = update['artifact']
    for at, known in enumerate(artifacts):
        if known['artifactId'] == chunk['artifactId']:
            joined = {**known, **chunk, 'parts': joined_parts(known['parts'], chunk['parts'])}
            artifacts[at] = joined if update.get('append') else chunk
            return
    artifacts.append(chunk)


def said(events):
    """The texts of artifacts, in the order in which readers were shown them."""
    shown = [artifact for event in events for artifact in event.get('task', {}).get('artifacts', [])]
    shown += [event['artifactUpdate']['artifact'] for event in events if 'artifactUpdate' in event]
    return [part.get('text', '') for artifact in shown for part in artifact['parts']]


def text_of(task):
    """The text of all artifacts of a task."""
    parts = [part for artifact in (task or {}).get('artifacts', []) for part in artifact['parts']]
    return ''.join(part.get('text', '') for part in parts)
