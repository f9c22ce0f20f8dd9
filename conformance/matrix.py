"""Writes `docs/interop.md`: who was served, over what, and what was proven, from the outcomes of a run.

The page holds nothing that differs from run to run on the same code: no times, no ids, no reasons of failures. A case
counts as passed, or as known to fail, or as one the client cannot ask for; a page with a surprise is not written.
"""

import collections

from peers import PEERS

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


def page(results, lists):
    """The text of the page. `results` maps `(peer, binding, case)` to an outcome and a reason."""
    groups = list(dict.fromkeys(group for cases in lists.values() for group in cases.values()))
    out = [HEAD]
    out += table(
        ['Client', 'Version', 'Speaks', 'Binding', *groups, 'all', 'Command'],
        [row for name in PEERS if name != 'journey' for row in rows(name, results, lists, groups)],
    )
    out += ['Commands are short for `conformance/run --sabir …`. A dash means that there is no such case.', '']
    out += [JOURNEY]
    steps = lists[PEERS['journey'].cases]
    promises = [[f'`{case}`', word(results['journey', 'all', case][0])] for case in steps]
    out += table(['Step', 'Outcome'], promises)
    out += [f'Command: `{COMMAND} --only journey`', '']
    out += excuses('Known failures', 'known', results, 'None.')
    out += excuses('What a client cannot ask for', 'n/a', results, 'Nothing.')
    return '\n'.join(out).rstrip() + '\n'


def rows(name, results, lists, groups):
    peer = PEERS[name]
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


def excuses(title, wanted, results, none):
    """Cases that did not pass for a reason, by peer and reason."""
    found = collections.defaultdict(lambda: collections.defaultdict(list))
    for (name, binding, case), (outcome, reason) in results.items():
        if outcome == wanted:
            found[name, reason][case].append(binding)
    body = []
    for (name, reason), cases in sorted(found.items(), key=lambda item: (list(PEERS).index(item[0][0]), item[0][1])):
        said = [f'`{case}` ({", ".join(sorted(bindings))})' for case, bindings in sorted(cases.items())]
        body.append([f'`{name}`', ', '.join(said), reason])
    if not body:
        return [f'## {title}', '', none, '']
    return [f'## {title}', '', *table(['Peer', 'Cases', 'Why'], body)]


def table(head, body):
    lines = [head, ['---'] * len(head), *body]
    return [f'| {" | ".join(cells)} |' for cells in lines] + ['']


def word(outcome):
    return {'ok': 'passed', 'known': 'known to fail', 'n/a': 'not expressible'}.get(outcome, outcome)
