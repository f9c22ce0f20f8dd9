"""The checks beside the table: where they are, and how they are found.

    @check
    def a_replayed_send_is_refused(world): …

    @check(slow=True)          # left out by `run --short`
    def …

A check is named `area/promise`, after its file and its function. It raises when the promise is not kept, returns text
when it has something to report, and raises `Inexpressible` when it cannot be asked.
"""

import importlib
import pkgutil

CHECKS = {}
AREAS = (
    'own',
    'xpr',
    'oidc',
    'mtls',
    'cards',
    'secrecy',
    'ownership',
    'vectors',
    'peers',
)


class Inexpressible(Exception):
    """There is no way to ask this here, and the reason says why."""


class Check:
    def __init__(self, function, slow):
        self.function, self.slow = function, slow
        area = function.__module__.rpartition('.')[2]
        self.name = f'{area}/{function.__name__.replace("_", "-")}'


def check(function=None, slow=False):
    def keep(function):
        made = Check(function, slow)
        CHECKS[made.name] = made
        return function

    return keep(function) if function else keep


def load():
    import checks

    for module in pkgutil.iter_modules(checks.__path__):
        importlib.import_module(f'checks.{module.name}')
    order = {area: index for index, area in enumerate(AREAS)}
    return dict(sorted(CHECKS.items(), key=lambda item: order.get(item[0].partition('/')[0], 99)))


def equal(what, got, want):
    assert got == want, f'{what}: got {got!r}, want {want!r}'


def holds(condition, why):
    assert condition, why
