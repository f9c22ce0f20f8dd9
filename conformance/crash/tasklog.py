"""Reads the task log straight from its file, by its schema alone.

Nothing of the server takes part in this: a server that reads its own log can agree with itself about anything. The
tables are those of `crates/store/src/sqlite/migrations/`; the self-test builds its files from there, so a change of
schema that is not followed here does not go unnoticed.
"""

import dataclasses
import json
import pathlib
import shutil
import sqlite3
import uuid

STATES = {
    1: 'TASK_STATE_SUBMITTED', 2: 'TASK_STATE_WORKING', 3: 'TASK_STATE_COMPLETED', 4: 'TASK_STATE_FAILED',
    5: 'TASK_STATE_CANCELED', 6: 'TASK_STATE_INPUT_REQUIRED', 7: 'TASK_STATE_REJECTED', 8: 'TASK_STATE_AUTH_REQUIRED',
}
UNFINISHED = (1, 2)


@dataclasses.dataclass
class Stored:
    """One task as the file has it."""

    id: str
    scope: int
    state: str
    head: int
    # The task as JSON, once settled.
    body: dict | None
    # The events in the order of the file. `numbers` are those that their rows claim for them.
    events: list
    numbers: list

    def message_id(self):
        """The id of the message that opened it: the first of its history."""
        for image in (self.body, self.events[0].get('task') if self.events else None):
            if image and image.get('history'):
                return image['history'][0].get('messageId')
        return None


@dataclasses.dataclass
class TaskLog:
    tasks: dict
    # (scope, state) → count, as the file counts them.
    counters: dict
    # Tasks that explicit retry keys stand for, one entry per key.
    keyed: list
    # What SQLite itself has to say about the file; 'ok' if nothing.
    integrity: str


def file_in(data):
    """The database in a data directory."""
    found = sorted(pathlib.Path(data).rglob('*.db'))
    if len(found) != 1:
        raise FileNotFoundError(f'one database was expected in {data}, found {[str(f) for f in found]}')
    return found[0]


def copy(file, to):
    """Copies a database that nobody has open, with what its last owner left in the write-ahead log.

    The copy is opened in its stead, since opening a file after a crash repairs it: the evidence stays as it was found.
    """
    target = pathlib.Path(to) / file.name
    shutil.copy(file, target)
    wal = file.with_name(f'{file.name}-wal')
    if wal.exists():
        shutil.copy(wal, target.with_name(f'{target.name}-wal'))
    return target


def unfinished(file):
    """How many tasks are still to settle, in a file that a server has open."""
    connection = sqlite3.connect(f'{file.resolve().as_uri()}?mode=ro', uri=True, timeout=5)
    try:
        return connection.execute(f'SELECT count(*) FROM task WHERE state IN {UNFINISHED}').fetchone()[0]
    finally:
        connection.close()


def read(file):
    """Everything the judge wants to know. A file too damaged to be read is as good as empty, and says why."""
    connection = sqlite3.connect(file)
    try:
        integrity = connection.execute('PRAGMA integrity_check').fetchone()[0]
        rows = connection.execute('SELECT scope, state, n FROM counter')
        counters = {(scope, STATES.get(state)): n for scope, state, n in rows if n}
        keyed = [task_id(k, salt) for k, salt in connection.execute('SELECT k, salt FROM retry_key')]
        return TaskLog(tasks_in(connection), counters, keyed, integrity)
    except (sqlite3.DatabaseError, ValueError) as error:
        return TaskLog({}, {}, [], f'cannot be read: {error}')
    finally:
        connection.close()


def tasks_in(connection):
    rows = {}
    for k, first, last, lines in connection.execute('SELECT k, first, last, lines FROM event ORDER BY k, first'):
        rows.setdefault(k, []).append((first, last, lines))
    tasks = {}
    sql = 'SELECT k, salt, scope, state, head, body, events FROM task ORDER BY k'
    for k, salt, scope, state, head, body, lines in connection.execute(sql):
        body = json.loads(body) if body is not None else None
        events, numbers = events_of(rows.pop(k, []), body, lines)
        id = task_id(k, salt)
        tasks[id] = Stored(id, scope, STATES.get(state, f'state {state}'), head, body, events, numbers)
    for k, orphans in rows.items():
        # Events without a task: kept under a name that no client can have seen, so that the judge trips over them.
        events, numbers = events_of(orphans, None, None)
        tasks[f'none (k = {k})'] = Stored(f'none (k = {k})', 0, 'no row', 0, None, events, numbers)
    return tasks


def events_of(rows, body, lines):
    """The events of a task and the numbers they have: by steps in a table of their own, or all in the task's row."""
    if lines is not None:
        rows = rows + [(1, None, lines)]
    elif not rows and body is not None:
        return [{'task': body}], [1]
    events, numbers = [], []
    for first, last, text in rows:
        # A line may have a tab and the message it answers to, which streams do not show.
        step = [json.loads(line.split(b'\t')[0]) for line in bytes(text).split(b'\n')]
        events += step
        numbers += range(first, first + len(step))
        if last is not None and last != numbers[-1]:
            # A row that claims other numbers than it has lines for; the claim is what makes the gap visible.
            numbers[-1] = last
    return events, numbers


def task_id(k, salt):
    """A UUID of version 7: the key is 48 bits of milliseconds and 15 of count, the salt fills the rest."""
    ms, count = k >> 15, k & 0x7FFF
    high = (ms << 16) | 0x7000 | (count >> 3)
    low = (0b10 << 62) | ((count & 7) << 59) | salt
    return str(uuid.UUID(int=(high << 64) | low))
