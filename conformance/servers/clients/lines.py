"""The line the clients print for each check: outcome, binding, name and reason, separated by tabs."""


def check(binding, name, got, want):
    """Prints the outcome. The runner counts, and a client goes on."""
    good = got == want
    print('\t'.join(['ok' if good else 'FAIL', binding, name, '' if good else f'got {got!r}']), flush=True)
