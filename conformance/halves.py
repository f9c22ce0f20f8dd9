"""The two halves of `docs/interop.md`: what clients of others get from us, and what we get from servers of others.

Two programs write the page, `conformance/run` the first half and `conformance/servers/interop` the second.
"""

MARK = '<!-- What follows is written by conformance/servers/interop. -->'


def halves(text):
    """The half before the mark and the one after it, without the blank lines between."""
    before, _, after = text.partition(MARK)
    return before.rstrip('\n') + '\n', after.lstrip('\n')
