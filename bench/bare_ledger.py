#!/usr/bin/env python3
"""A bare program for SQLite that writes what a server wrote, in groups of the same size: what bookings cost at least.

    bare_ledger.py BEFORE AFTER GROUP [--without-checkpoints]

Reads from two copies of a server's database which rows it added between them, whatever the tables are, and writes the
same rows into a copy of the first, as many bookings to a transaction as the server had, each transaction synced. Tables
that change without growing, such as counters, are touched once in a transaction, and the slot of every booking is taken
with an update. Rows are read into memory beforehand and written with prepared statements, table by table. What was written
reaches the database as SQLite does it by itself, a checkpoint for every thousand pages: the server brings its rows there in
the same time as well. `--without-checkpoints` leaves that out, for what it is that the writes alone cost. Prints one line
of JSON.
"""

import contextlib
import json
import pathlib
import shutil
import sqlite3
import sys
import tempfile
import time


def tables(connection):
    """Ordinary tables: neither virtual nor what is behind a virtual one."""
    found = connection.execute("SELECT name, sql FROM sqlite_master WHERE type = 'table' AND name NOT LIKE 'sqlite_%'")
    every = dict(found.fetchall())
    virtual = [name for name, sql in every.items() if sql.upper().startswith('CREATE VIRTUAL')]
    return [name for name in every if not any(name == one or name.startswith(f'{one}_') for one in virtual)]


def added(before, after):
    """The rows that are in the second file and not in the first, by table."""
    with contextlib.closing(sqlite3.connect(after)) as connection:
        connection.execute('ATTACH ? AS was', (str(before),))
        for table in tables(connection):
            rows = connection.execute(f'SELECT * FROM main."{table}" EXCEPT SELECT * FROM was."{table}"').fetchall()
            if rows:
                yield table, rows


def groups_of(rows, count):
    """The rows in so many groups, as even as can be."""
    return [rows[len(rows) * n // count : len(rows) * (n + 1) // count] for n in range(count)]


def stretch(connection, size):
    """Makes the log as long as it will be, and begins it anew: as in a server that has run for a while, no write makes the
    file longer, for which a sync would have to wait."""
    connection.execute('CREATE TABLE stretched (data)')
    connection.execute('INSERT INTO stretched VALUES (zeroblob(?))', (size,))
    connection.execute('DROP TABLE stretched')
    connection.execute('PRAGMA wal_checkpoint(RESTART)').fetchall()


def write(database, growing, standing, bookings, count, checkpoints):
    """Writes it all, and gives the seconds it took."""
    connection = sqlite3.connect(database, isolation_level=None)
    connection.execute('PRAGMA journal_mode = WAL')
    connection.execute('PRAGMA synchronous = FULL')
    if not checkpoints:
        connection.execute('PRAGMA wal_autocheckpoint = 0')
    stretch(connection, 8192 * max(map(len, growing.values())))
    place = {table: ', '.join('?' * len(rows[0])) for table, rows in (growing | standing).items()}
    insert = {table: f'INSERT OR REPLACE INTO "{table}" VALUES ({marks})' for table, marks in place.items()}
    plan = {table: groups_of(rows, count) for table, rows in growing.items()}
    taken = groups_of(bookings, count)
    began = time.perf_counter()
    for number in range(count):
        connection.execute('BEGIN IMMEDIATE')
        for table, groups in plan.items():
            connection.executemany(insert[table], groups[number])
        if taken[number]:
            connection.executemany('UPDATE slot SET taken = taken + 1 WHERE venue = ? AND id = ?', taken[number])
        for table, rows in standing.items():
            connection.executemany(insert[table], rows)
        connection.execute('COMMIT')
    took = time.perf_counter() - began
    connection.close()
    return took


def main(before, after, group, *flags):
    changed = dict(added(before, after))
    with contextlib.closing(sqlite3.connect(after)) as connection:
        columns = [row[1] for row in connection.execute('PRAGMA table_info(booking)')]
    bookings = changed.get('booking', [])
    if not bookings:
        raise SystemExit('no bookings were added')
    slots = [
        (row[columns.index('venue')], row[columns.index('slot')])
        for row in bookings
        if row[columns.index('slot')] is not None
    ]
    growing = {table: rows for table, rows in changed.items() if len(rows) * 2 >= len(bookings) and table != 'slot'}
    standing = {table: rows[:8] for table, rows in changed.items() if table not in growing and table != 'slot'}
    count = max(1, round(len(bookings) / float(group)))
    with tempfile.TemporaryDirectory(dir=pathlib.Path(before).parent) as folder:
        database = pathlib.Path(folder) / 'bare.db'
        shutil.copy(before, database)
        seconds = write(database, growing, standing, slots, count, '--without-checkpoints' not in flags)
    print(
        json.dumps(
            {
                'bookings': len(bookings),
                'groups': count,
                'seconds': seconds,
                'per_second': len(bookings) / seconds,
                'rows': {table: len(rows) for table, rows in changed.items()},
                'sqlite': sqlite3.sqlite_version,
            }
        )
    )


if __name__ == '__main__':
    main(*sys.argv[1:])
