"""The parts of `docs/interop.md` about servers: who served us, over what, and what was proven.

`page_parts` says which parts there are and who writes which; each program leaves the others' alone. Nothing in them differs
from run to run on the same code.
"""

import collections

import bare
import calls
import guarded
import operations
import page_parts
from packages import say

from catalog import CAPTURED, GO, GO_0_3, JAVA_SERVER

COMMAND = 'conformance/servers/interop --sabir target/release/sabir --call-agent target/release/examples/call_agent'
PACKAGES = {
    'python-1': ('py-1.3.0', 'Python', 'A2A 1.0'),
    'js-1': ('js-1.3.0', 'JavaScript', 'A2A 1.0'),
    'python-0.3': ('py-0.3.26', 'Python', 'A2A 0.3'),
    'js-0.3': ('js-0.3.14', 'JavaScript', 'A2A 0.3'),
    'v0.1': ('pya2a-0.1.1', 'Python', 'A2A 0.1'),
    'agent-native': ('agent-native-0.133.3', 'JavaScript', 'agent-native, open'),
    'agent-native-jwt': ('agent-native-0.133.3', 'JavaScript', 'agent-native, with a token'),
    'agent-native-key': ('agent-native-0.133.3', 'JavaScript', 'agent-native, with a key'),
    'agent-native-short': ('agent-native-0.133.3', 'JavaScript', 'agent-native at `/a2a` only'),
    'xpr': (None, 'JavaScript', 'XPR'),
    'go-1': (GO, 'Go', 'A2A 1.0'),
    'go-as-0.3': (GO, 'Go', 'A2A 0.3'),
    'go-0.3': (GO_0_3, 'Go', 'A2A 0.3'),
    'java-0.3': (JAVA_SERVER, 'Java', 'A2A 0.3'),
}
HEAD = f"""## Sabir as the client

What the command line and the library get from servers that nobody here wrote. `sabir` is driven through every operation
it has, against a running server at an exact version, on each binding that server offers; a cell says how many of the
cases the server can serve were passed. What a case promises is in
[`conformance/servers/operations.py`](../conformance/servers/operations.py). This part of the page is written by
`{COMMAND}`
and checked by the same with `--check`; do not edit it.
"""
COMPILED_HEAD = """### Servers in Go and Java

The same for servers on SDKs that have to be compiled. The SDK for Go 0.3.15 serves no HTTP+JSON; 2.4.0 serves 1.0 and, to
those who ask, 0.3. The reference server for gRPC of the SDK for Java is not on Maven Central in this version. This part of
the page is written by `conformance/servers/interop --sabir target/release/sabir --compiled` and checked by the same with
`--check`; do not edit it.
"""
BARE = """### An address and nothing else

`sabir send URL TEXT` and the other commands, with their default settings: no version, no binding, no file. What the agent
speaks is found out. What a case promises is in [`conformance/servers/bare.py`](../conformance/servers/bare.py).
"""
DOORS = """### Agents that do not talk to everybody

An agent on the Python SDK behind certificates of a test authority, and one that checks the tokens of `oidc-provider`
8.8.1. What a case promises is in [`conformance/servers/guarded.py`](../conformance/servers/guarded.py).
"""
GUARDED = tuple(dict.fromkeys(kind for kind, _ in guarded.CASES))
BINDINGS = ('JSONRPC', 'HTTP+JSON', 'GRPC')
DOOR = {
    'tls': 'trust in its authority',
    'mtls': 'a client certificate',
    'oidc': 'a token by OpenID Connect',
    'oauth-client': 'a token by client credentials',
    'oauth-device': 'a token by device code',
}
CALLS = """### One question, one answer

The example `call_agent` asks servers of other dialects and has to print their answer. The server of XPR was written
here after the runner, which is on no registry, and is checked with the project's own client; the others are the
projects' own.
"""


def package(kind):
    peer, language, _ = PACKAGES[kind]
    if peer is None:
        return 'written here', '–'
    found = CAPTURED[peer] if isinstance(peer, str) else peer
    return f'`{found.name}` ({language})', found.version


def counted(outcomes):
    asked = [outcome for outcome in outcomes if outcome != 'n/a']
    return f'{asked.count("ok")}/{len(asked)}' if asked else '–'


def operations_table(results):
    groups = list(dict.fromkeys(case.group for case in operations.CASES.values()))
    body = []
    talks = [name for name in results if name.split('/')[1] in BINDINGS and name.split('/')[0] not in GUARDED]
    for kind, binding in dict.fromkeys(tuple(name.split('/')[:2]) for name in talks):
        rows = {name.split('/')[2]: outcome for name, (outcome, _) in results.items()
                if name.startswith(f'{kind}/{binding}/')}
        cells = [counted([rows[name] for name in rows if operations.CASES[name].group == group]) for group in groups]
        only = f'`--only {kind}/{binding}`'
        body.append([*package(kind), PACKAGES[kind][2], binding, *cells, counted(list(rows.values())), only])
    return table(['Server', 'Version', 'Speaks', 'Binding', *groups, 'all', 'Command'], body)


def one_row_each(results, group, cases):
    """A table with a row for each kind and a column for each case of a group."""
    body = []
    for kind in dict.fromkeys(name.split('/')[0] for name in results if name.split('/')[1] == group):
        row = {name.split('/')[2]: outcome for name, (outcome, _) in results.items()
               if name.startswith(f'{kind}/{group}/')}
        body.append([*package(kind), PACKAGES[kind][2], *(word(row.get(name)) for name in cases)])
    return table(['Server', 'Version', 'Speaks', *cases], body)


def compiled_part(results):
    out = [COMPILED_HEAD, *operations_table(results)]
    out += ['With an address and nothing else, as above:', '', *one_row_each(results, 'bare', bare.CASES)]
    out += reasons('Known failures with servers in Go and Java', 'known', results, 'None.')
    out += reasons('What a server in Go or Java does not offer', 'n/a', results, 'Nothing.')
    return '\n'.join(out).rstrip() + '\n'


def part(results):
    out = [HEAD, *operations_table(results)]
    out += ['Commands are short for `conformance/servers/interop --sabir …`.', '', DOORS]
    doors = []
    for kind, name in sorted(guarded.CASES, key=lambda case: GUARDED.index(case[0])):
        cells = [word(results[f'{kind}/{binding}/{name}'][0]) for binding in BINDINGS]
        doors.append([f'`{kind}`', DOOR[kind], f'`{name}`', *cells])
    out += [*table(['Server', 'What it wants', 'Case', *BINDINGS], doors), CALLS]
    out += [*one_row_each(results, 'call', calls.CALLS), BARE, *one_row_each(results, 'bare', bare.CASES)]
    out += reasons('Known failures as the client', 'known', results, 'None.')
    out += reasons('What a server does not offer', 'n/a', results, 'Nothing.')
    return '\n'.join(out).rstrip() + '\n'


def word(outcome):
    return {None: '–', 'ok': 'passed', 'known': 'known to fail', 'n/a': '–'}.get(outcome, outcome)


def reasons(title, wanted, results, none):
    found = collections.defaultdict(list)
    for name, (outcome, why) in results.items():
        if outcome == wanted:
            kind, binding, case = name.split('/')
            found[kind, why].append(f'`{case}` ({binding})')
    body = [[f'`{kind}`', ', '.join(cases), why] for (kind, why), cases in found.items()]
    return [f'### {title}', '', *(table(['Server', 'Cases', 'Why'], body) if body else [none, ''])]


def table(head, body):
    lines = [head, ['---'] * len(head), *body]
    return [f'| {" | ".join(cells)} |' for cells in lines] + ['']


def keep(results, compiled, check):
    """Writes our part of the page, or compares it. Says whether all is well."""
    if compiled:
        return page_parts.keep(page_parts.COMPILED_SERVERS, compiled_part(results), check, say)
    return page_parts.keep(page_parts.SERVERS, part(results), check, say)
