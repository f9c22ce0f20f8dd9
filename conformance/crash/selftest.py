"""Who judges the judge: every kind of loss, forged on purpose, must be found out by the check that is meant for it.

A test that has never failed may be unable to. Here each forgery changes one thing in an honest log, or in what an
honest server sends, and names the promise that has to be reported as broken.
"""

import pathlib
import tempfile

import calls
import judge
import tasklog
from follow import Follower
from forge import NOW_MS, Forged
from judge import (
    all_settled, bodies_true, counters_true, events_kept, given_up, integrity, keys_kept, numbering, replies_kept,
    sends_once, settled_once, snapshots_true, texts_exact,
)
from record import CONTINUES, ENDS, JOINS, SUBSCRIBES, UNCHANGED, WAITS, Record, Send
from script import CHUNKS
from wire import Frames

# --- Forged files -----------------------------------------------------------------------------------------------------


def lose_the_end(f):
    """The last step is gone and the row does not know of it, as after a crash that undid an acknowledged commit."""
    f.sql('DELETE FROM event WHERE k = :k AND first = (SELECT max(first) FROM event WHERE k = :k)', f.slow)


def damage(f):
    """A page in the middle of the file is overwritten."""
    f.db.close()
    with open(f.file, 'r+b') as file:
        file.seek(f.file.stat().st_size // 4096 // 2 * 4096)
        file.write(b'\xa5' * 4096)


def double_a_task(f):
    """A retry has run the agent again."""
    columns = 'salt, scope, state, position, moved, head, body, events'
    f.sql(f'INSERT INTO task (k, {columns}) SELECT k + 1000, {columns} FROM task WHERE k = :k', f.quick)
    f.sql('UPDATE counter SET n = n + 1 WHERE state = 3')


def go_on_after_the_end(f):
    """A late report was merged into a task that had settled."""
    late = '{"statusUpdate":{"taskId":"x","status":{"state":"TASK_STATE_WORKING"}}}'
    f.sql('INSERT INTO event (k, first, last, lines)'
          f" SELECT k, head + 1, head + 1, CAST('{late}' AS BLOB) FROM task WHERE k = :k", f.slow)
    f.sql('UPDATE task SET head = head + 1 WHERE k = :k', f.slow)


def leave_unfinished(f):
    f.sql('UPDATE task SET state = 2, body = NULL WHERE k = :k', f.lost)


FILES = [
    ('an acknowledged event is lost', events_kept, lose_the_end),
    ('an acknowledged event is changed', events_kept, lambda f: f.rewrite('event', 'lines', f.slow, 'five', 'FIVE')),
    ('an acknowledged task is lost', replies_kept, lambda f: f.sql('DELETE FROM task WHERE k = :k', f.quick)),
    ('an acknowledged stream is lost', events_kept, lambda f: f.sql('DELETE FROM task WHERE k = :k', f.lines)),
    ('an acknowledged reply is changed', replies_kept, lambda f: f.rewrite('task', 'body', f.quick, 'quick', 'quack')),
    ('a step is missing between others', numbering, lambda f: f.sql(
        'DELETE FROM event WHERE first = 6 AND k = :k', f.slow)),
    ('a step has a number of another', numbering, lambda f: f.sql(
        'INSERT INTO event (k, first, last, lines)'
        ' SELECT k, first + 1, last, lines FROM event WHERE first = 4 AND k = :k', f.slow)),
    ('a row has fewer events than it says', numbering, lambda f: f.sql(
        'UPDATE event SET last = last + 1 WHERE first = 6 AND k = :k', f.slow)),
    ('a row knows another head than the log', numbering, lambda f: f.sql(
        'UPDATE task SET head = head + 1 WHERE k = :k', f.lines)),
    ('a message is doubled by a retry', sends_once, double_a_task),
    ('a task exists that nobody asked for', sends_once, lambda f: f.record.sends.pop(0)),
    ('a message was answered with another task', sends_once, lambda f: f.record.sends[2].tasks.add('another')),
    ('a key is lost', keys_kept, lambda f: f.sql('DELETE FROM retry_key')),
    ('a key is kept without its task', keys_kept, lambda f: f.sql('UPDATE retry_key SET k = k + 1000')),
    ('a settled task goes on', settled_once, go_on_after_the_end),
    ('a row says settled, its log does not', settled_once, lambda f: f.rewrite(
        'event', 'lines', f.slow, 'COMPLETED', 'WORKING')),
    ('a task is left at work', all_settled, leave_unfinished),
    ('a task is given up after two crashes', given_up, lambda f: f.record.kills.pop()),
    ('a task is given up before its crashes', given_up, lambda f: f.record.kills.__setitem__(2, NOW_MS + 900)),
    ('a snapshot was ahead of its number', snapshots_true, lambda f: f.record.snapshots.__setitem__(
        0, (f.slow, 3, f.record.snapshots[0][2]))),
    ('the image is not what the log says', bodies_true, lambda f: f.rewrite('task', 'body', f.slow, 'seven', 'heaven')),
    ('a counter is wrong', counters_true, lambda f: f.sql('UPDATE counter SET n = n - 1 WHERE state = 3')),
    ('a counter counts what is not there', counters_true, lambda f: f.sql('INSERT INTO counter VALUES (7, 2, 1)')),
    ('the file is damaged', integrity, damage),
]

# A server that repeats or skips chunks after a crash is consistent in all else: everybody is shown the same.
TEXTS = [
    ('a chunk is repeated after a crash', CHUNKS[:5] + CHUNKS[4:]),
    ('a chunk is skipped after a crash', CHUNKS[:5] + CHUNKS[6:]),
    ('an answer is begun anew after a crash', CHUNKS[:3] + CHUNKS),
]


def judged(change=lambda f: None, chunks=CHUNKS):
    """The promises that a forged log is found to break."""
    with tempfile.TemporaryDirectory(prefix='sabir-crash-') as scratch:
        forged = Forged(pathlib.Path(scratch) / 'sabir.db', chunks)
        change(forged)
        forged.db.close()
        return broken(judge.judge(forged.record, tasklog.read(forged.file)))


def broken(verdicts):
    return {verdict.promise for verdict in verdicts if not verdict.kept}


# --- Forged streams ---------------------------------------------------------------------------------------------------


def chunk(task='t', text='x'):
    return {'artifactUpdate': {'taskId': task, 'artifact': {'artifactId': 'a', 'parts': [{'text': text}]}}}


def status(state, task='t'):
    return {'statusUpdate': {'taskId': task, 'status': {'state': f'TASK_STATE_{state}'}}}


def whole(state='SUBMITTED', task='t'):
    return {'task': {'id': task, 'status': {'state': f'TASK_STATE_{state}'}}}


# Which promise is broken, if any, and by what; `None` is the end of the stream. `S` begins as a subscription, in `U`
# somebody else was shown event 2 before.
STREAMS = [
    ('an honest stream', None, '', [(1, whole()), (2, chunk()), (3, status('COMPLETED')), None]),
    ('an honest subscription', None, 'S', [(7, whole()), (8, chunk()), (9, status('FAILED')), None]),
    ('a number is left out', CONTINUES, '', [(1, whole()), (3, chunk())]),
    ('a number comes twice', CONTINUES, '', [(1, whole()), (1, whole())]),
    ('a stream begins late', CONTINUES, '', [(2, chunk())]),
    ('a subscription leaves out a number', CONTINUES, 'S', [(7, whole()), (9, chunk())]),
    ('a subscription repeats its snapshot', CONTINUES, 'S', [(7, whole()), (7, chunk())]),
    ('an event has no number', CONTINUES, '', [(None, whole())]),
    ('an event is another task\'s', CONTINUES, '', [(1, whole()), (2, chunk('u'))]),
    ('a number shows another event', UNCHANGED, 'U', [(1, whole()), (2, chunk(text='y'))]),
    ('a stream ends early', ENDS, '', [(1, whole()), (2, chunk()), None]),
    ('a stream goes on after the end', ENDS, '', [(1, whole()), (2, status('COMPLETED')), (3, chunk())]),
    ('a subscription opens without a snapshot', SUBSCRIBES, 'S', [(7, chunk())]),
    ('a subscription opens on a settled task', SUBSCRIBES, 'S', [(7, whole('COMPLETED'))]),
]


def followed(kind, frames):
    """The promises that a forged stream is found to break."""
    record = Record()
    if kind == 'U':
        record.show_event('t', 2, chunk(), 'self-test')
    follower = Follower(record, 'self-test', 't', last=None if kind == 'S' else 0)
    for frame in frames:
        if frame is None:
            follower.ended()
        else:
            number, event = frame
            follower.take(None if number is None else str(number), event)
    return {promise for promise, wrong in record.wrong.items() if wrong}


def replied(*tasks):
    """The promises that replies to one message are found to break."""
    record, send = Record(), Send('m', 'quick')
    for task in tasks:
        record.show_reply(send, task['task'], 'self-test')
    return {promise for promise, wrong in record.wrong.items() if wrong}


def framed():
    """Whether frames are the same wherever they are cut, and a frame without its end is never shown."""
    stream = b': hello\n\nid: 1\ndata: {"a":\ndata: 1}\n\n: keep-alive\n\nid: 2\r\ndata:{}\r\n\r\nid: 3\ndata: {}\n'
    wanted = [('1', b'{"a":\n1}'), ('2', b'{}')]
    for at in range(len(stream)):
        frames = Frames()
        if [*frames.feed(stream[:at]), *frames.feed(stream[at:])] != wanted:
            return {f'cut at byte {at}'}
    return set()


# --- Forged traces ----------------------------------------------------------------------------------------------------

WAL, FILE = 'data/sabir.db-wal', 'data/sabir.db'
ASK = '10 10:00:00.000001 recvfrom(9<socket:[5]>, "POST / HTTP/1.1 TEXT", 8192, 0, NULL, NULL) = 20'
WRITE = f'11 10:00:00.000002 pwrite64(4<{WAL}>, "TEXT) = 1", 4096, 32) = 4096'
SYNC = f'11 10:00:00.000003 fdatasync(4<{WAL}>) = 0'
SYNC_BEGINS = f'11 10:00:00.000003 fdatasync(4<{WAL}> <unfinished ...>'
SYNC_ENDS = '11 10:00:00.000004 <... fdatasync resumed>) = 0'
SHOW = '10 10:00:00.000005 writev(9<socket:[5]>, [{iov_base="HTTP/1.1 200", …}, {iov_base="TEXT", iov_len=4}], 2) = 19'

# Whether a text went the right way, and the way it went.
TRACES = [
    ('a synced reply', 'full', True, [ASK, WRITE, SYNC, SHOW]),
    ('a sync that took its time', 'full', True, [ASK, WRITE, SYNC_BEGINS, ASK, SYNC_ENDS, SHOW]),
    ('a reply without a sync', 'full', False, [ASK, WRITE, SHOW]),
    ('a reply during the sync', 'full', False, [ASK, WRITE, SYNC_BEGINS, SHOW, SYNC_ENDS]),
    ('a reply before the sync', 'full', False, [ASK, WRITE, SHOW, SYNC]),
    ('a sync before the write', 'full', False, [ASK, SYNC, WRITE, SHOW]),
    ('a sync that began too early', 'full', False, [ASK, SYNC_BEGINS, WRITE.replace('11', '12', 1), SYNC_ENDS, SHOW]),
    ('a sync that failed', 'full', False, [ASK, WRITE, SYNC.replace('= 0', '= -1 EIO (Input/output error)'), SHOW]),
    ('a sync of the wrong file', 'full', False, [ASK, WRITE, SYNC.replace(WAL, FILE), SHOW]),
    ('a write of something else', 'full', False, [ASK, WRITE.replace('TEXT', 'else'), SYNC, SHOW]),
    ('a reply that waits for nothing', 'normal', True, [SYNC, ASK, WRITE, SYNC.replace(WAL, FILE), SHOW]),
    ('a checkpoint at the same time', 'normal', True, [ASK, WRITE, SYNC.replace('11', '12', 1), SHOW]),
    ('a reply that waits all the same', 'normal', False, [ASK, WRITE, SYNC, SHOW]),
]


def traced(durability, right, lines):
    breach = calls.passage(calls.parse(lines), 'TEXT').breach(durability)
    return set() if (breach is None) == right else {breach or 'nothing wrong'}


# --- The run ----------------------------------------------------------------------------------------------------------


def cases():
    """Each case: its name, the promise that must be found broken (or `None`), and those that were."""
    yield 'an honest log', None, judged()
    for name, check, change in FILES:
        yield name, check.__doc__.split('\n')[0], judged(change)
    for name, chunks in TEXTS:
        yield name, texts_exact.__doc__.split('\n')[0], judged(chunks=chunks)
    for name, promise, kind, frames in STREAMS:
        yield name, promise, followed(kind, frames)
    yield 'honest replies', None, replied(whole('COMPLETED'), whole('COMPLETED'))
    yield 'a copy is answered with another task', JOINS, replied(whole('COMPLETED'), whole('COMPLETED', 'u'))
    yield 'a reply comes before the end', WAITS, replied(whole('WORKING'))
    yield 'frames that arrive in pieces', None, framed()
    for name, durability, right, lines in TRACES:
        yield f'in a trace: {name}', None, traced(durability, right, lines)


def run():
    passed = failed = 0
    for name, promise, found in cases():
        right = promise in found if promise else not found
        passed, failed = passed + right, failed + (not right)
        told = f' — caught by: {promise}' if promise else ''
        print(f'{"ok" if right else "FAIL":5}{name}{told}' + ('' if right else f'; but found was {sorted(found)}'))
    print(f'{passed} passed, {failed} failed', flush=True)
    return 1 if failed else 0
