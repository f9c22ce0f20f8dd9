"""The Agent Skill: one, small, and no second specification."""

import os
import pathlib
import re

from checks.command import COMMANDS
from harness import contains, equal, holds
from registry import requirement

BYTES_MAX, LINES_MAX = 6000, 120
# What is built or installed, and not shipped.
NOT_SOURCE = {'.git', '.cache', 'target', 'node_modules', '.venv', '.work'}


def skills(root):
    found = []
    for folder, folders, files in os.walk(root):
        folders[:] = [name for name in folders if name not in NOT_SOURCE]
        found += [pathlib.Path(folder) / name for name in files if name == 'SKILL.md']
    return found


def head(text):
    match = re.match(r'---\n(.*?)\n---\n', text, re.S)
    holds(match, 'no front matter')
    return dict(re.findall(r'^(\w+):\s*(.+)$', match.group(1), re.M))


@requirement('A2ACLI_SKILL_001')
def there_is_one_lean_skill(case):
    found = skills(case.world.root)
    if not found:
        return 'no skill is shipped'
    equal(len(found), 1, f'skills: {found}')
    text = found[0].read_text(encoding='utf-8')
    fields = head(text)
    equal((fields['name'], found[0].parent.name), ('sabir', 'sabir'), 'the name')
    holds(1 <= len(fields['description']) <= 1024, 'the description')
    holds(len(fields.get('compatibility', '')) in range(1, 501), 'the compatibility')
    holds(
        len(text.encode()) <= BYTES_MAX and text.count('\n') <= LINES_MAX,
        f'{len(text)} bytes, {text.count(chr(10))} lines',
    )
    contains(text, 'sabir help', 'the skill defers to help')
    contains(text, '--help', 'the skill defers to help')
    # A table of commands would go stale; a few in examples are fine.
    named = [command for command in COMMANDS if ' ' in command and f'sabir {command}' in text]
    holds(len(named) <= 6, f'the skill lists the surface: {named}')
    for wanted in ('-o json', '--stream', '--context-id', '--task-id'):
        contains(text, wanted, 'the skill teaches')
    # What it teaches is true.
    for flag in set(re.findall(r'(?<![\w-])(--[a-z][a-z-]+)', text)) - {'--help', '--version'}:
        contains(case.run('send', '--help').out + case.run('task', 'list', '--help').out, flag, 'a flag of the skill')


@requirement('A2ACLI_SKILL_002')
def the_skill_restates_no_requirement(case):
    found = skills(case.world.root)
    if not found:
        return 'no skill is shipped'
    for path in found:
        text = '\n'.join(file.read_text(encoding='utf-8') for file in sorted(path.parent.rglob('*.md')))
        for pattern in (r'A2ACLI_[A-Z_]+_\d{3}', r'\b(MUST|SHALL|SHOULD|REQUIRED)\b', r'§\s*\d', r'\bTier [123]\b'):
            match = re.search(pattern, text)
            holds(not match, f'a requirement in the skill: {match and match.group()!r}')
    return None
