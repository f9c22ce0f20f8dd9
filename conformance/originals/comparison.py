"""Compares an answer with what a document prints, and names the JSON path of each difference.

Every printed member must be there with its type and its value. Additional members are allowed. A value that cannot be
the printed one (an id, a time, free text) has a rule in `inexact`, by its path; its type must still be the printed one.
"""

import copy
import datetime
import json
import re

# `$.a`, `[0]` and `["a name"]` of a path.
STEP = re.compile(r'\.([^.\[\]]+)|\[(\d+)\]|\["([^"]+)"\]')
# A difference shows at most this many characters of a value.
SHOWN_MAX = 160


def steps(path):
    return [int(index) if index else name or quoted for name, index, quoted in STEP.findall(path.removeprefix('$'))]


def value_at(document, path):
    for step in steps(path):
        document = document[step]
    return document


def set_at(document, path, value):
    *parents, last = steps(path)
    for step in parents:
        document = document[step]
    document[last] = value


def join(path, step):
    if isinstance(step, int):
        return f'{path}[{step}]'
    return f'{path}.{step}' if re.fullmatch(r'[\w:-]+', step) else f'{path}["{step}"]'


def json_type(value):
    if isinstance(value, bool) or value is None:
        return type(value).__name__
    return 'number' if isinstance(value, int | float) else type(value).__name__


def is_time(value):
    if isinstance(value, int):
        return True
    try:
        datetime.datetime.fromisoformat(value.replace('Z', '+00:00'))
    except ValueError:
        return False
    return True


def shown(value):
    text = json.dumps(value, ensure_ascii=False)
    return text if len(text) <= SHOWN_MAX else f'{text[: SHOWN_MAX - 3]}...'


class Comparison:
    """One answer against one expectation. `earlier` looks up a value of an earlier answer, for rules `from NAME PATH`."""

    def __init__(self, inexact, earlier):
        self.inexact, self.earlier = inexact, earlier

    def differences(self, expected, found):
        """`{path: what}`. A request that is refused is one difference, not as many as its answer has members."""
        status = self.values(expected['status'], found['status'], 'status')
        if status:
            return dict(status)
        differing = []
        if 'type' in expected:
            differing += self.values(expected['type'], found['type'], 'type')
        if 'body' in expected:
            differing += self.values(expected['body'], found['body'], '$')
        if 'events' in expected:
            differing += self.events(expected['events'], found['events'])
        for number, part in enumerate(expected.get('contains', [])):
            if part not in found['text']:
                differing.append((join('contains', number), f'{part!r} is not in the answer'))
        return dict(differing)

    def values(self, expected, found, path):
        if json_type(expected) != json_type(found):
            return [(path, f'printed {shown(expected)}, answered {shown(found)}')]
        if path in self.inexact:
            rule = self.inexact[path]
            return [] if self.follows(rule, found) else [(path, f'expected {rule}, answered {shown(found)}')]
        if isinstance(expected, dict):
            return self.objects(expected, found, path)
        if isinstance(expected, list):
            return self.lists(expected, found, path)
        return [] if expected == found else [(path, f'printed {shown(expected)}, answered {shown(found)}')]

    def objects(self, expected, found, path):
        differing = []
        for name, value in expected.items():
            member = join(path, name)
            if name in found:
                differing += self.values(value, found[name], member)
            else:
                differing.append((member, f'printed {shown(value)}, not in the answer'))
        return differing

    def lists(self, expected, found, path):
        if len(expected) != len(found):
            return [(path, f'printed {len(expected)} elements, answered {shown(found)}')]
        differing = []
        for number, (one, other) in enumerate(zip(expected, found, strict=True)):
            differing += self.values(one, other, join(path, number))
        return differing

    def events(self, expected, found):
        """The printed events must come in the printed order. Each is compared with the later event most like it."""
        differing, begin = [], 0
        for number, event in enumerate(expected):
            path = join('event', number)
            compared = [(self.values(event, other, path), at) for at, other in enumerate(found[begin:], begin)]
            if not compared:
                differing.append((path, f'printed {shown(event)}, no such event'))
                continue
            fewest, at = min(compared, key=lambda one: (len(one[0]), one[1]))
            differing += fewest
            begin = at + 1
        return differing

    def follows(self, rule, value):
        if rule == 'time':
            return is_time(value)
        if rule in ('id', 'text'):
            return bool(value)
        if rule.startswith('one of '):
            return value in rule.removeprefix('one of ').split(', ')
        return value == self.earlier(rule.removeprefix('from '))


# --- Altered expectations, for the self-test --------------------------------------------------------------------------


def alterations(expected):
    """The expectation with one value altered, for each value: `(path, altered expectation)`.

    An object gets one more member, and any other value another type, which also the rules for inexact values look at.
    """
    for keys, value in values_of(expected, []):
        if not keys or keys in (['events'], ['contains']):
            continue
        altered = copy.deepcopy(expected)
        parent = altered
        for key in keys[:-1]:
            parent = parent[key]
        if isinstance(value, dict):
            parent[keys[-1]]['not-printed'] = True
        elif keys == ['status']:
            parent['status'] = value + 1
        elif keys[0] == 'contains':
            parent[keys[-1]] = f'{value} not printed'
        else:
            parent[keys[-1]] = {'not-printed': True}
        yield path_of(keys), altered


def values_of(value, keys):
    yield keys, value
    members = value.items() if isinstance(value, dict) else enumerate(value) if isinstance(value, list) else ()
    for key, member in members:
        yield from values_of(member, [*keys, key])


def path_of(keys):
    path = {'body': '$', 'events': 'event'}.get(keys[0], keys[0])
    for key in keys[1:]:
        path = join(path, key)
    return path


def is_within(path, outer):
    return path == outer or path.startswith((f'{outer}.', f'{outer}['))
