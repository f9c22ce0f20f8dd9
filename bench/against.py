"""Compares two builds of Sabir that one run has measured in turn: what does a request cost in the new one?

`run`, `guard`, `hub` and `network` measure; this module checks the two binaries, forms the ratios, judges them and writes
the report. It starts no server and no load. The figure that is judged is the CPU time of the server process per request,
because it depends less on the disk and on other work on the machine than the throughput does. A ratio is formed inside
a round, between runs that are seconds apart; the report gives the median of the rounds and their range.
"""

import argparse
import collections
import hashlib
import json
import os
import re
import statistics
import subprocess
import sys

HERE = os.path.dirname(os.path.abspath(__file__))
ROLES = ('before', 'new')
ROUNDS = 5
LIMIT = 0.03
# The exit status when a median is above the limit and --gate was given.
ABOVE_LIMIT = 1
# Ratios that lie further apart, relative to their median, tell more about the machine than about the builds.
SPREAD_MAX = 0.2
# The same figure as the default of `bench/run --max-foreign`.
FOREIGN_CORES_MAX = 0.25
CPU, RATE = 'cpu_us_per_req', 'rps'

Build = collections.namedtuple('Build', 'role path version sha256')
Ratio = collections.namedtuple('Ratio', 'median low high')


class InvalidBinary(Exception):
    """A file that cannot be measured as a build of Sabir, and why."""


def add_options(parser):
    parser.add_argument('--against', default='', metavar='BINARY',
                        help='compare Sabir (SABIR_BIN) with this other build of it, in turn, and nothing else')
    parser.add_argument('--limit', type=share, default=LIMIT,
                        help='with --against: how much more CPU a request may take (0.03 is 3 %%, the default)')


def share(text):
    try:
        value = float(text)
    except ValueError:
        value = -1.0
    if not 0 <= value < 1:
        raise argparse.ArgumentTypeError(f'{text!r} is not a share from 0 to 1; 0.03 is 3 %')
    return value


# --- The builds -------------------------------------------------------------------------------------------------------


def inspect(role, path):
    """The build at `path`; raises InvalidBinary when it is not a program that calls itself sabir."""
    if not os.path.exists(path):
        raise InvalidBinary(f'{path}: there is no such file')
    if not os.path.isfile(path):
        raise InvalidBinary(f'{path} is not a file')
    if not os.access(path, os.X_OK):
        raise InvalidBinary(f'{path} is not executable')
    try:
        told = subprocess.run([os.path.abspath(path), '--version'], stdin=subprocess.DEVNULL, capture_output=True, timeout=10)
    except (OSError, subprocess.TimeoutExpired) as why:
        raise InvalidBinary(f'{path} cannot be run: {why}') from None
    version = told.stdout.decode(errors='replace').partition('\n')[0]
    if told.returncode or not re.fullmatch(r'sabir \S+', version):
        raise InvalidBinary(f'{path} is not sabir: "--version" printed {version!r} and exited with {told.returncode}')
    with open(path, 'rb') as f:
        return Build(role, os.path.abspath(path), version, hashlib.file_digest(f, 'sha256').hexdigest())


def inspect_both(before, new):
    """The builds to compare. Ends the bench with 2 and a line on standard error when a file is not a build of Sabir."""
    builds = []
    for role, path, source in zip(ROLES, (before, new), ('--against', 'SABIR_BIN or target/release')):
        try:
            builds.append(inspect(role, path))
        except InvalidBinary as why:
            print(f'bench: the build "{role}" (from {source}) cannot be measured: {why}', file=sys.stderr)
            sys.exit(2)
    if sameness(builds):
        print(f'bench: {sameness(builds)}', file=sys.stderr, flush=True)
    return builds


def sameness(builds):
    """A line for the reader when both builds are one program, else an empty string."""
    before, new = builds
    if os.path.samefile(before.path, new.path):
        return 'Both builds are the same file: every ratio should be about 1.00.'
    if before.sha256 == new.sha256:
        return 'Both builds are the same program, byte for byte: every ratio should be about 1.00.'
    return ''


# --- The ratios -------------------------------------------------------------------------------------------------------


def order(names, number):
    """The order of visits in a round: every other round goes backwards, so that neither build is always the first."""
    return list(names) if number % 2 == 0 else list(names)[::-1]


def ratio(rounds, over, under, key):
    """The ratio of one role to another inside each round: median and range. None when no round has both."""
    values = [r[over][key] / r[under][key] for r in rounds if has(r, over, key) and has(r, under, key)]
    return Ratio(statistics.median(values), min(values), max(values)) if values else None


def has(measured, role, key):
    return bool(measured.get(role, {}).get(key))


def select(rounds, **names):
    """From rounds that hold rows by name, those of one workload: `select(rounds, before='hub before', …)`."""
    return [{role: seen[name] for role, name in names.items() if name in seen} for seen in rounds]


class Comparison:
    """Both builds under one workload.

    Each of `rounds` has a row for `before`, for `new` and, where the bench has one, for `floor`: the reference server,
    whose name is `floor`. A row has `rps`, `cpu_us_per_req` and perhaps `foreign_cores`.
    """

    def __init__(self, title, rounds, floor=''):
        self.title, self.rounds, self.floor = title, rounds, floor
        self.cpu = ratio(rounds, 'new', 'before', CPU)
        self.rate = ratio(rounds, 'new', 'before', RATE)
        self.to_floor = {role: ratio(rounds, role, 'floor', RATE) for role in ROLES}

    def median(self, role, key):
        values = [r[role][key] for r in self.rounds if has(r, role, key)]
        return statistics.median(values) if values else None

    def is_above(self, limit):
        """Whether the new build costs more than the limit allows; None when it was not measured."""
        return None if self.cpu is None else self.cpu.median > 1 + limit

    def verdict(self, limit):
        """The verdict for a table. `limit` None: the run was too short to be judged."""
        if self.cpu is None:
            return 'not measured'
        if limit is None:
            return 'too short for one'
        return f'**above {1 + limit:g}**' if self.is_above(limit) else f'within {1 + limit:g}'

    def notes(self, foreign_cores_max):
        """What a reader must know before believing the ratio."""
        found = []
        complete = sum(has(r, 'before', CPU) and has(r, 'new', CPU) for r in self.rounds)
        if complete < len(self.rounds):
            found.append(f'only {complete} of {len(self.rounds)} rounds')
        rows = [row for r in self.rounds for row in r.values() if 'foreign_cores' in row]
        busy = [row['foreign_cores'] for row in rows if row['foreign_cores'] > foreign_cores_max]
        if busy:
            found.append(f'other processes used up to {max(busy):.2f} cores in {len(busy)} of {len(rows)} runs')
        if self.cpu and self.cpu.high - self.cpu.low > SPREAD_MAX * self.cpu.median:
            found.append('the rounds differ too much')
        return found

    def doc(self, limit, foreign_cores_max):
        keep = (RATE, CPU, 'foreign_cores', 'requests', 'p50_us', 'p99_us')
        return dict(
            workload=self.title, floor=self.floor, cpu_us_per_req={r: self.median(r, CPU) for r in ROLES},
            cpu_ratio=as_dict(self.cpu), rps={r: self.median(r, RATE) for r in (*ROLES, 'floor')}, rps_ratio=as_dict(self.rate),
            rps_to_floor={r: as_dict(self.to_floor[r]) for r in ROLES}, notes=self.notes(foreign_cores_max),
            above_limit=None if limit is None else self.is_above(limit),
            rounds=[{role: {k: row[k] for k in keep if k in row} for role, row in r.items()} for r in self.rounds])


def as_dict(ratio_or_none):
    return ratio_or_none and ratio_or_none._asdict()


# --- The report -------------------------------------------------------------------------------------------------------


def shown(path):
    return path.replace(os.path.dirname(HERE), '.')


def figure(value, digits=0, unit=''):
    return '-' if value is None else f'{value:,.{digits}f}{unit}'


def spread(value):
    return '-' if value is None else f'{value.median:.3f} ({value.low:.3f}-{value.high:.3f})'


def tables(comparisons, limit, foreign_cores_max):
    """The report's tables. `limit` None: the run was too short to be judged."""
    out = ['| CPU per request | before | new | new / before (range) | Verdict | Note |', '|---|---|---|---|---|---|']
    for c in comparisons:
        cpu = [figure(c.median(role, CPU), 1, ' us') for role in ROLES]
        out.append(f'| {c.title} | {cpu[0]} | {cpu[1]} | {spread(c.cpu)} | {c.verdict(limit)} | '
                   f'{"; ".join(c.notes(foreign_cores_max))} |')
    out += ['', '| Requests per second | before | new | new / before (range) | before / floor | new / floor | floor |',
            '|---|---|---|---|---|---|---|']
    for c in comparisons:
        floor = f'{c.floor} {figure(c.median("floor", RATE))}' if c.floor else '-'
        out.append(f'| {c.title} | {figure(c.median("before", RATE))} | {figure(c.median("new", RATE))} | {spread(c.rate)} '
                   f'| {spread(c.to_floor["before"])} | {spread(c.to_floor["new"])} | {floor} |')
    return out


def verdicts(comparisons, limit, foreign_cores_max):
    """One line for every workload, and one for all of them; with a warning where there are notes."""
    out = []
    for c in comparisons:
        above = c.is_above(limit)
        word = {None: 'NOT MEASURED', True: 'ABOVE THE LIMIT', False: 'within the limit'}[above]
        change = [] if above is None else [f'{value - 1:+.1%}' for value in c.cpu]
        change = f', {change[0]} CPU per request ({change[1]} to {change[2]})' if change else ''
        doubt = ' [not reliable, see its note]' if c.notes(foreign_cores_max) else ''
        out.append(f'- {c.title}: {word}{change}{doubt}')
    above, absent = (sum(c.is_above(limit) is answer for c in comparisons) for answer in (True, None))
    total = f'{above} of {len(comparisons)} workloads cost' if above else 'No workload costs'
    unknown = f'; {absent} {"was" if absent == 1 else "were"} not measured' if absent else ''
    noisy = sum(bool(c.notes(foreign_cores_max)) for c in comparisons)
    warning = f' {noisy} of {len(comparisons)} verdicts are not reliable: measure again, on a quiet machine.' if noisy else ''
    return [*out, '', f'{total} more than the limit of {limit:.1%} allows{unknown}.{warning}']


def exit_status(comparisons, limit, gate, faults):
    """0: measured. 1: a wrong answer or an error, or with --gate a workload above the limit or without a figure."""
    if faults:
        return 1
    return ABOVE_LIMIT if gate and failing(comparisons, limit) else 0


def failing(comparisons, limit):
    """The titles of the workloads that --gate does not let pass."""
    return [c.title for c in comparisons if limit is not None and c.is_above(limit) is not False]


def finish(name, options, facts, lines, builds, comparisons, faults=()):
    """Prints the report, writes it beside those of other runs as OUT.md and OUT.json, and returns the exit status.

    `name` is that of the bench, or empty for bench/run; `facts` and `lines` say what a reader must know of the run.
    """
    limit = None if options.quick else options.limit
    foreign_cores_max = getattr(options, 'max_foreign', FOREIGN_CORES_MAX)
    md = ['# Bench: two builds of Sabir', '', *lines]
    md += [f'- {b.role}: {shown(b.path)}, {b.version}, sha256 {b.sha256[:16]}' for b in builds]
    md += ['', *([sameness(builds), ''] if sameness(builds) else []), *tables(comparisons, limit, foreign_cores_max), '']
    if limit is None:
        md += ['Short form: it shows that answers are right. Its round is too short for a verdict.']
    else:
        md += verdicts(comparisons, limit, foreign_cores_max)
    if faults:
        md += ['', '## Errors', ''] + [f'- {f["server"]}, {f["work"]}: {" ".join(f["text"].split())}' for f in faults]
    print('\n' + '\n'.join(md), flush=True)
    doc = facts | dict(
        builds=[b._asdict() | dict(path=shown(b.path)) for b in builds], same=sameness(builds), limit=limit,
        workloads=[c.doc(limit, foreign_cores_max) for c in comparisons], faults=list(faults))
    stem = '-'.join(filter(None, ['against', name, 'quick' if options.quick else '']))
    write(getattr(options, 'out', '') or os.path.join(HERE, 'results', stem), md, doc)
    status = exit_status(comparisons, limit, options.gate, faults)
    if status and not faults:
        print(f'bench: above the limit of {limit:.1%}, or not measured: {"; ".join(failing(comparisons, limit))}', file=sys.stderr)
    return status


def write(out, md, doc):
    os.makedirs(os.path.dirname(os.path.abspath(out)), exist_ok=True)
    with open(out + '.json', 'w') as f:
        json.dump(doc, f, indent=1)
        f.write('\n')
    with open(out + '.md', 'w') as f:
        f.write('\n'.join(md) + '\n')
    print(f'\nwritten: {os.path.relpath(out)}.md and .json', file=sys.stderr)
