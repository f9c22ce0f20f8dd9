"""`docs/push-matrix.md`: which SDKs register webhooks in which ways, and read what those are sent; by the last full run."""

import sdks

MARKS = {'ok': '✓', 'FAIL': '✗', 'known': '✗'}
HEAD = """# Webhooks and the official SDKs

Made by `conformance/push/run`; do not edit. In each field an SDK registers a webhook over the binding of its line, with
the authentication of its column: once with the message, and once on a task that exists. ✓ stands when every event arrived,
in order, with exactly the headers that were registered, signed, and was read by what that SDK offers: events in 1.0, tasks
in 0.3. (`@a2a-js/sdk` 0.3 has types only while it is compiled; there, what a task is known by was read.) Two marks where
the two ways differ.
"""
FOOT = """
The signature is verified by `standardwebhooks` from PyPI in every field. Beside the table the run verifies it with the
package from npm and our token with PyJWT, delivers to hundreds of receivers at once, and looks for secrets where none
belong:
"""


def text(outcomes, checks):
    schemes = list(sdks.SCHEMES)
    lines = [HEAD]
    lines.append('| SDK | speaks | binding | ' + ' | '.join(sdks.SCHEMES[one].title for one in schemes) + ' |')
    lines.append('|---|---|---|' + '---|' * len(schemes))
    for name, peer in sdks.PEERS.items():
        for binding in sdks.BINDINGS:
            marks = ' | '.join(mark(outcomes, f'matrix/{name}/{binding}', scheme) for scheme in schemes)
            lines.append(f'| {peer.title} | {peer.speaks} | {binding} | {marks} |')
    lines.append(FOOT)
    lines.append('| Area | Promise |\n|---|---|')
    for name in checks:
        area, _, promise = name.partition('/')
        fails = ' (**known to fail**)' if outcomes.get(name) == 'known' else ''
        lines.append(f'| {area} | {promise.replace("-", " ")}{fails} |')
    return '\n'.join(lines) + '\n'


def mark(outcomes, line, scheme):
    """One mark where both ways of registering agree."""
    marks = [MARKS[outcomes[f'{line}/{how}/{scheme}']] for how in sdks.WAYS]
    return marks[0] if len(set(marks)) == 1 else ' '.join(marks)
