"""`docs/network-matrix.md`: what was seen of the booking network from outside, by the last full run."""

import vectors

HEAD = """# The booking network, from outside

Made by `conformance/network/run`; do not edit. Every promise below was kept by the server as it is shipped, on the wire,
to callers that were written from the specification alone.

## Recorded cases

| Cases | What they are | Seen on the wire |
|---|---|---|
"""
FOOT = """
## Promises

| Area | Promise |
|---|---|
"""


def text(outcomes, checks):
    lines = [f'| `{name}` | {what} | {seen} |' for name, what, seen in vectors.summary()]
    out = HEAD + '\n'.join(lines) + '\n' + FOOT
    for name in checks:
        area, _, promise = name.partition('/')
        fails = ' (**known to fail**)' if outcomes.get(name) == 'known' else ''
        out += f'| {area} | {promise.replace("-", " ")}{fails} |\n'
    return out
