"""Writes `docs/interop.md`: who was served, over what, and what was proven, from the outcomes of a run.

The page holds nothing that differs from run to run on the same code: no times, no ids, no reasons of failures. A case
counts as passed, or as known to fail, or as one the client cannot ask for; a page with a surprise is not written.
"""

import collections

from peers import ALL, COMPILED, PEERS

COMMAND = 'conformance/run --sabir target/release/sabir'
HEAD = f"""# Interoperability

What clients that nobody here wrote get from this server. Each is driven through its public calls, at an exact version,
against one running server; a cell says how many of the cases that the client can express it passed. What a case
promises is in [`conformance/cases`](../conformance/cases). This page is written by
`{COMMAND}` and checked by the same with `--check`; do not edit it.
"""
JOURNEY = """## One task, five dialects

One task is started by a client of 0.1 under an id of its own choice, followed by one of 0.3, answered by one of 1.0
over HTTP+JSON, and read back as 0.1, as agent-native and as 1.0 over gRPC.
"""


COMPILED_HEAD = f"""## Go and Java

The same for SDKs that have to be compiled, from their sources on the registries of Go and Maven. What a case promises is
in [`conformance/cases/core.txt`](../conformance/cases/core.txt). This part of the page is written by
`{COMMAND} --compiled` and checked by the same with `--check`; do not edit it.
"""


def part(results, lists):
    """The first part of the page. `results` maps `(peer, binding, case)` to an outcome and a reason."""
    out = [HEAD, *peers_table([name for name in PEERS if name != 'journey'], results, lists)]
    out += ['Commands are short for `conformance/run --sabir …`. A dash means that there is no such case.', '']
    out += [JOURNEY]
    steps = lists[PEERS['journey'].cases]
    promises = [[f'`{case}`', word(results['journey', 'all', case][0])] for case in steps]
    out += table(['Step', 'Outcome'], promises)
    out += [f'Command: `{COMMAND} --only journey`', '']
    out += excuses('Known failures', 'known', results, 'None.')
    out += excuses('What a client cannot ask for', 'n/a', results, 'Nothing.')
    return '\n'.join(out).rstrip() + '\n'


def compiled_part(results, lists):
    """The part about the peers that have to be compiled."""
    out = [COMPILED_HEAD, *peers_table(COMPILED, results, lists)]
    out += excuses('Known failures in Go and Java', 'known', results, 'None.', level='###')
    out += excuses('What a client in Go or Java cannot ask for', 'n/a', results, 'Nothing.', level='###')
    return '\n'.join(out).rstrip() + '\n'


def peers_table(names, results, lists):
    groups = list(dict.fromkeys(group for name in names for group in lists[ALL[name].cases].values()))
    return table(
        ['Client', 'Version', 'Speaks', 'Binding', *groups, 'all', 'Command'],
        [row for name in names for row in rows(name, results, lists, groups)],
    )


def rows(name, results, lists, groups):
    peer = ALL[name]
    for binding in peer.bindings:
        cells = []
        for group in [*groups, None]:
            outcomes = [
                results[name, binding, case][0]
                for case, its_group in lists[peer.cases].items()
                if group in (None, its_group)
            ]
            asked = [outcome for outcome in outcomes if outcome != 'n/a']
            cells.append(f'{asked.count("ok")}/{len(asked)}' if asked else '–')
        package = f'`{peer.package.name}` ({peer.package.language})'
        yield [package, peer.package.version, peer.speaks, binding, *cells, f'`--only {name}`']


def excuses(title, wanted, results, none, level='##'):
    """Cases that did not pass for a reason, by peer and reason."""
    found = collections.defaultdict(lambda: collections.defaultdict(list))
    for (name, binding, case), (outcome, reason) in results.items():
        if outcome == wanted:
            found[name, reason][case].append(binding)
    body = []
    for (name, reason), cases in sorted(found.items(), key=lambda item: (list(ALL).index(item[0][0]), item[0][1])):
        said = [f'`{case}` ({", ".join(sorted(bindings))})' for case, bindings in sorted(cases.items())]
        body.append([f'`{name}`', ', '.join(said), reason])
    if not body:
        return [f'{level} {title}', '', none, '']
    return [f'{level} {title}', '', *table(['Peer', 'Cases', 'Why'], body)]


def table(head, body):
    lines = [head, ['---'] * len(head), *body]
    return [f'| {" | ".join(cells)} |' for cells in lines] + ['']


def word(outcome):
    return {'ok': 'passed', 'known': 'known to fail', 'n/a': 'not expressible'}.get(outcome, outcome)
