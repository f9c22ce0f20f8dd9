"""A small log as the server would have left it, and a record of clients that saw it: the material of the self-test.

The file is built from the server's own migrations, in every form that tasks take there. Every forgery begins with
this honest pair and changes one thing.
"""

import json
import pathlib
import sqlite3
import uuid

import tasklog
from follow import Follower
from judge import fold
from record import ANSWERS, LASTS, SERVED, Record, Send
from script import ARTIFACT, CHUNKS, SLOW

MIGRATIONS = pathlib.Path(__file__).resolve().parents[2] / 'crates/store/src/sqlite/migrations'
NOW_MS = 1_780_308_000_000
SCOPE = 1
NUMBERS = {name: number for number, name in tasklog.STATES.items()}


class Forged:
    """A file, the record of its clients, and the names of what is in them."""

    def __init__(self, file, chunks=CHUNKS):
        self.record, self.db = Record(), sqlite3.connect(file, isolation_level=None)
        self.file, self.count, self.keys = file, 0, {}
        # Without the ledger: tasks need nothing of it, and it needs a younger SQLite than that of Python on Debian 12.
        for migration in sorted(MIGRATIONS.glob('*.sql')):
            if 'ledger' not in migration.name:
                self.db.executescript(migration.read_text())
        self.record.kills = [NOW_MS + 100, NOW_MS + 200, NOW_MS + 300]
        for promise in (ANSWERS, LASTS, SERVED):
            self.record.check(promise, True, '')
        self.quick = self.one_row('quick whole')
        self.keyed = self.one_row('quick keyed', key='key-1')
        self.lines = self.one_row('quick stream', streamed=True)
        self.slow = self.stepped(chunks)
        self.lost = self.stepped(chunks, given_up=True)
        self.record.sends.append(Send('never-acknowledged', 'quick'))
        self.db.execute('INSERT INTO counter SELECT scope, state, count(*) FROM task GROUP BY scope, state')

    def one_row(self, text, key=None, streamed=False):
        """A task that opened and settled in one step: one row, which is its only event or has them as lines."""
        send, k, id = self.sent(text, key)
        artifact = {'artifactId': 'echo', 'parts': [{'text': text}]}
        events = [
            {'task': self.opening(id, send, 'TASK_STATE_SUBMITTED')},
            {'artifactUpdate': {'taskId': id, 'contextId': id, 'artifact': artifact}},
            self.status(id, 'TASK_STATE_COMPLETED'),
        ]
        body = fold(events)
        events = events if streamed else [{'task': body}]
        self.insert(k, body, len(events), lines(events) if streamed else None)
        if key:
            values = (key.encode(), b'', k, 0, k, k)
            self.db.execute('INSERT INTO retry_key (key, digest, k, salt, at, until) VALUES (?, ?, ?, ?, ?, ?)', values)
        if streamed:
            self.watch(Follower(self.record, 'forger'), events)
            send.tasks.add(id)
        else:
            self.record.show_reply(send, body, 'forger')
        return id

    def stepped(self, chunks, given_up=False):
        """A slow task: rows of one to three events, seen by the sender and by a subscriber that came later."""
        send, k, id = self.sent(SLOW)
        events = [{'task': self.opening(id, send, 'TASK_STATE_SUBMITTED')}, self.status(id, 'TASK_STATE_WORKING')]
        for _, text in chunks[:4] if given_up else chunks:
            update = {'taskId': id, 'contextId': id, 'artifact': {'artifactId': ARTIFACT, 'parts': [{'text': text}]}}
            events.append({'artifactUpdate': update if text == CHUNKS[0][1] else {**update, 'append': True}})
        events.append(self.status(id, 'TASK_STATE_FAILED' if given_up else 'TASK_STATE_COMPLETED'))
        first = 1
        while first <= len(events):
            step = events[first - 1:first + first % 3]
            values = (k, first, first + len(step) - 1, lines(step))
            self.db.execute('INSERT INTO event (k, first, last, lines) VALUES (?, ?, ?, ?)', values)
            first += len(step)
        self.insert(k, fold(events), len(events), None)
        self.watch(Follower(self.record, 'forger'), events)
        send.tasks.add(id)
        subscriber = Follower(self.record, 'forger', id, last=None)
        subscriber.take('4', {'task': fold(events[:4])})
        self.watch(subscriber, events)
        return id

    def sent(self, text, key=None):
        self.count += 1
        send = Send(f'hand-made-{self.count}' if key else str(uuid.UUID(int=self.count)), text, key)
        self.record.sends.append(send)
        k = (NOW_MS << 15) + self.count
        id = tasklog.task_id(k, 0)
        self.keys[id] = k
        return send, k, id

    def opening(self, id, send, state):
        message = {'messageId': send.message_id, 'role': 'ROLE_USER', 'parts': [{'text': send.text}]}
        return {'id': id, 'contextId': id, 'status': {'state': state}, 'history': [message]}

    def status(self, id, state):
        # Half a second later: after all the kills.
        status = {'state': state, 'timestamp': '2026-06-01T10:00:00.500Z'}
        return {'statusUpdate': {'taskId': id, 'contextId': id, 'status': status}}

    def insert(self, k, body, head, events):
        values = (k, SCOPE, NUMBERS[body['status']['state']], k, k, head, json.dumps(body).encode(), events)
        columns = 'k, scope, state, position, moved, head, body, events, salt'
        self.db.execute(f'INSERT INTO task ({columns}) VALUES (?, ?, ?, ?, ?, ?, ?, ?, 0)', values)

    def watch(self, follower, events):
        while follower.last < len(events):
            follower.take(str(follower.last + 1), events[follower.last])
        follower.ended()

    def sql(self, statement, id=None):
        """Changes the file; `:k` is the key of the task with this id."""
        if self.db.execute(statement, {'k': self.keys.get(id)}).rowcount == 0:
            raise ValueError(f'a forgery that changes nothing: {statement}')

    def rewrite(self, table, column, id, old, new):
        """Replaces a word in what is stored of a task."""
        cast = f"CAST(replace(CAST({column} AS TEXT), '{old}', '{new}') AS BLOB)"
        self.sql(f"UPDATE {table} SET {column} = {cast} WHERE k = :k AND instr(CAST({column} AS TEXT), '{old}')", id)


def lines(events):
    return '\n'.join(json.dumps(event, separators=(',', ':')) for event in events).encode()
