"""The parts of `docs/interop.md`: what clients of others get from us, and what we get from servers of others.

Two programs write the page, `conformance/run` and `conformance/servers/interop`. Each writes one part when it is run as it
is, and another with `--compiled`, which only the long form of `./test` does. A part begins with a mark that names its
program; the first has none.
"""

import difflib
import pathlib

PAGE = pathlib.Path(__file__).resolve().parent.parent / 'docs' / 'interop.md'
CLIENTS, COMPILED_CLIENTS, SERVERS, COMPILED_SERVERS = (
    'conformance/run', 'conformance/run --compiled', 'conformance/servers/interop', 'conformance/servers/interop --compiled',
)
WRITERS = (CLIENTS, COMPILED_CLIENTS, SERVERS, COMPILED_SERVERS)


def mark(writer):
    return f'<!-- What follows is written by {writer}. -->'


def parts(text):
    """The text of each part that is there, without the blank lines around it."""
    found, writer, lines = {}, CLIENTS, []
    for line in text.splitlines():
        begun = next((one for one in WRITERS if line == mark(one)), None)
        if begun:
            found[writer] = '\n'.join(lines)
            writer, lines = begun, []
        else:
            lines.append(line)
    found[writer] = '\n'.join(lines)
    return {writer: f'{body.strip()}\n' for writer, body in found.items() if body.strip()}


def page(found):
    """The whole page, in the order of the parts."""
    texts = [found[one] if one == CLIENTS else f'{mark(one)}\n\n{found[one]}' for one in WRITERS if one in found]
    return '\n'.join(texts)


def keep(writer, wanted, check, say):
    """Writes one part, or with `check` shows how it differs from the one that is there. Says whether all is well."""
    found = parts(PAGE.read_text(encoding='utf-8') if PAGE.is_file() else '')
    there = found.get(writer, '')
    if there == wanted:
        return True
    if check:
        say(''.join(difflib.unified_diff(there.splitlines(True), wanted.splitlines(True), 'committed', 'this run', n=0)))
        return False
    PAGE.write_text(page({**found, writer: wanted}), encoding='utf-8')
    say(f'wrote docs/{PAGE.name}')
    return True
