"""Outcomes: compared with what is known to fail, printed, counted. Shared with the checks of webhooks."""

import collections
import difflib
import pathlib
import sys
import time
import traceback


class Tally:
    """Compares outcomes with what is known to fail, prints, and counts."""

    def __init__(self, known, verbose):
        self.known, self.verbose = known, verbose
        self.count, self.outcomes = collections.Counter(), {}

    def add(self, name, outcome, reason='', seconds=None):
        excuse = self.known.get(name)
        if outcome == 'FAIL' and excuse:
            outcome, reason = 'known', f'{reason} ({excuse})'
        elif excuse:
            outcome, reason = 'FAIL', f'is in known-failures.txt but is {outcome}; take it out'
        self.count[outcome] += 1
        self.outcomes[name] = outcome
        loud = outcome in ('FAIL', 'known') or not name.startswith('matrix/')
        if loud or self.verbose:
            took = '' if seconds is None else f' ({seconds:.1f} s)'
            print(f'{outcome:5} {name}{took}' + (f': {reason}' if reason else ''), flush=True)

    def conclude(self):
        """Prints the counts, and gives the exit status."""
        words = {'ok': 'passed', 'FAIL': 'failed', 'known': 'known to fail', 'n/a': 'not expressible'}
        print(', '.join(f'{self.count[key]} {word}' for key, word in words.items()), flush=True)
        return 1 if self.count['FAIL'] else 0


def read_known(file, names):
    """What is known to fail, and why, of the checks with these names."""
    known = {}
    for line in file.read_text(encoding='utf-8').splitlines():
        if not line.strip() or line.startswith('#'):
            continue
        name, _, reason = (part.strip() for part in line.partition(' # '))
        if name not in names or not reason:
            raise SystemExit(f'known-failures.txt: {line!r} names no check, or gives no reason')
        known[name] = reason
    return known


def run_check(world, check):
    """One check of the registry: its name, outcome, reason and seconds, as a list of one for `Tally.add`."""
    from registry import Inexpressible

    started = time.monotonic()
    try:
        said = check.function(world)
        outcome, reason = 'ok', said or ''
    except Inexpressible as why:
        outcome, reason = 'n/a', str(why)
    except AssertionError as why:
        outcome, reason = 'FAIL', ' '.join(str(why).split()) or traceback.format_exc(limit=-2)
    except Exception as error:  # A check that breaks has not been passed.
        where = traceback.extract_tb(error.__traceback__)[-1]
        outcome, reason = (
            'FAIL',
            f'{type(error).__name__}: {error} ({pathlib.Path(where.filename).name}:{where.lineno})',
        )
    return [(check.name, outcome, reason, time.monotonic() - started)]


def keep_page(file, wanted, check):
    """Writes the page of a run, or with `check` shows how it differs from the one that is there; false if it does."""
    there = file.read_text(encoding='utf-8') if file.is_file() else ''
    if there == wanted:
        return True
    if check:
        lines = difflib.unified_diff(there.splitlines(True), wanted.splitlines(True), 'committed', 'this run', n=0)
        print(''.join(lines))
        return False
    file.write_text(wanted, encoding='utf-8')
    print(f'wrote docs/{file.name}', file=sys.stderr)
    return True
