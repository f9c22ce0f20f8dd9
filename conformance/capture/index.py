"""The index of the fixtures: `INDEX.toml`, an entry for each file.

Written by `run` and by hand: entries that name a `command` belong to a session and are replaced when it is run again,
the others stay as they are. The order is that of the file names, so that a new run changes only what is new.
"""

import pathlib
import sys
import tomllib

HEAD = """\
# What each file here is, and who said it. Written by `conformance/capture/run`; entries without a `command` were written
# by hand. Read `conformance/capture/README.md` for the meaning of the members.
"""
ORDER = [
    'file', 'dialect', 'kind', 'direction', 'method', 'http', 'message', 'status', 'grpc_status', 'content_type', 'headers',
    'package', 'version', 'other_side', 'provoked_by', 'from_description', 'by_hand', 'note', 'command',
]


class Index:
    def __init__(self, path):
        self.path = pathlib.Path(path)
        text = self.path.read_text(encoding='utf-8') if self.path.exists() else ''
        self.entries = {entry['file']: entry for entry in tomllib.loads(text).get('fixture', [])}

    def replace(self, command, entries):
        self.entries = {file: old for file, old in self.entries.items() if old.get('command') != command}
        # A case that is done twice keeps the file of the second time, and so its line.
        self.entries.update((entry['file'], entry) for entry in entries)

    def write(self):
        self.path.parent.mkdir(parents=True, exist_ok=True)
        blocks = [HEAD]
        for file in sorted(self.entries):
            entry = self.entries[file]
            unknown = set(entry) - set(ORDER)
            assert not unknown, unknown
            lines = [f'{key} = {toml(entry[key])}' for key in ORDER if key in entry]
            blocks.append('\n'.join(['[[fixture]]', *lines]) + '\n')
        self.path.write_text('\n'.join(blocks), encoding='utf-8')

    def check(self):
        """0 when each file has an entry and each entry a file."""
        root = self.path.parent
        there = {path.relative_to(root).as_posix() for path in root.rglob('*') if path.is_file()}
        there = {file for file in there if '/' in file}
        for file in sorted(there - set(self.entries)):
            print(f'not in the index: {file}', file=sys.stderr)
        for file in sorted(set(self.entries) - there):
            print(f'in the index, but not there: {file}', file=sys.stderr)
        return 0 if there == set(self.entries) else 1


def toml(value):
    if isinstance(value, bool):
        return 'true' if value else 'false'
    if isinstance(value, int):
        return str(value)
    if isinstance(value, dict):
        return '{ ' + ', '.join(f'{quoted(key)} = {toml(item)}' for key, item in value.items()) + ' }'
    return quoted(value)


def quoted(text):
    if "'" not in text and '"' in text and text.isprintable():
        return f"'{text}'"
    escaped = text.replace('\\', '\\\\').replace('"', '\\"').replace('\n', '\\n').replace('\r', '\\r')
    return f'"{escaped}"'
