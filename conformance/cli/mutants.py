"""The list of mutants: one way to break the binary per requirement, and whether the suite noticed.

A mutant is an expression of the source and what stands in its place. `mutate` builds all of them into one binary and
picks one by a variable, so a build serves all. What was seen is kept in `mutants.json`, with a digest of the mutant: a
changed mutant counts as not tried.
"""

import dataclasses
import hashlib
import json
import pathlib
import tomllib

from registry import REQUIREMENTS

HERE = pathlib.Path(__file__).resolve().parent
SEEN = HERE / 'mutants.json'
KINDS = ('expression', 'statement', 'text')


@dataclasses.dataclass(frozen=True)
class Mutant:
    id: str
    file: str
    old: str
    new: str
    why: str
    kind: str = 'expression'

    @property
    def digest(self):
        return hashlib.sha256(json.dumps([self.file, self.old, self.new, self.kind]).encode()).hexdigest()[:16]

    def applied(self, text):
        """The source with this mutant in it, asleep unless it is called by its id."""
        count = text.count(self.old)
        if count != 1:
            raise ValueError(f'{self.id}: `{self.old.splitlines()[0]}` occurs {count} times in {self.file}, not once')
        condition = f'std::env::var("SABIR_MUTANT").as_deref() == Ok("{self.id}")'
        if self.kind == 'text':
            return text.replace(self.old, self.new)
        if self.kind == 'statement':
            return text.replace(self.old, f'if {condition} {{ {self.new} }} else {{ {self.old} }}')
        return text.replace(self.old, f'(if {condition} {{ {self.new} }} else {{ {self.old} }})')


def load():
    path = HERE / 'mutants.toml'
    if not path.is_file():
        return []
    found = [Mutant(**entry) for entry in tomllib.loads(path.read_text(encoding='utf-8')).get('mutant', [])]
    for mutant in found:
        if mutant.id not in REQUIREMENTS or mutant.kind not in KINDS:
            raise ValueError(f'mutants.toml: {mutant.id} {mutant.kind}')
    if len({mutant.id for mutant in found}) != len(found):
        raise ValueError('mutants.toml: an id has two mutants')
    return found


def stale(root):
    """What is wrong with the list, without building anything."""
    problems, found = [], load()
    for mutant in found:
        try:
            mutant.applied((root / mutant.file).read_text(encoding='utf-8'))
        except (OSError, ValueError) as error:
            problems.append(str(error))
    missing = set(REQUIREMENTS) - {mutant.id for mutant in found}
    if missing:
        problems.append(f'no mutant for {", ".join(sorted(missing))}')
    seen = json.loads(SEEN.read_text()) if SEEN.is_file() else {}
    for mutant in found:
        if seen.get(mutant.id, {}).get('digest') != mutant.digest:
            problems.append(f'{mutant.id}: not tried since it was changed; run conformance/cli/mutate')
    return problems


def record(mutant, caught):
    seen = json.loads(SEEN.read_text()) if SEEN.is_file() else {}
    seen[mutant.id] = {'digest': mutant.digest, 'caught': caught}
    SEEN.write_text(json.dumps(dict(sorted(seen.items())), indent=1) + '\n')


def recorded():
    """By requirement, a sentence on its mutant for the report."""
    seen = json.loads(SEEN.read_text()) if SEEN.is_file() else {}
    lines = {}
    for mutant in load():
        result = seen.get(mutant.id)
        if result and result['digest'] == mutant.digest:
            verdict = f'caught by {result["caught"]}' if result['caught'] else 'not caught'
            lines[mutant.id] = f'{mutant.why}: {verdict}'
    return lines
