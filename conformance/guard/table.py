"""The one table: what the guard answers, for every scheme, every binding and every case.

Nothing here is written out cell by cell. `ANSWERS` has a row per way of being refused and a column per family of
bindings, as peers of that family read it. `cell` decides which row a scheme and a case lead to, or why there is no such
cell. `matrix.py` makes the calls; `selftest` checks that the table is whole.
"""

import dataclasses

SCHEMES = {
    'open': 'accept = [], nobody is asked for anything',
    'optional': 'API keys, required = false',
    'api_key': 'API keys of the store',
    'native': 'agent-native JWT under the shared secret',
    'native-org': 'agent-native JWT under the secret of an organisation',
    'legacy_key': 'one static bearer',
    'jwt': 'JWT of an issuer, by its key set',
    'mtls': 'client certificate',
    'basic': 'HTTP Basic over TLS',
    'xpr': 'XPR K1 signature over the body',
}

CASES = {
    'right': 'a good credential: served, and the task can be read by its owner',
    'wrong': 'a credential of the right form that nobody issued',
    'missing': 'no credential at all',
    'expired': 'a credential that was good',
    'replayed': 'the same signed request for a second time',
    'other-caller': "another caller's task, asked for with a good credential",
    'other-tenant': "the caller's own task of another tenant",
    'forbidden': 'a good credential that does not reach so far',
    'too-many': 'one call more than the limit',
    'not-configured': 'production, and nobody said who may enter',
    'unavailable': 'a credential that cannot be checked now',
}
# Cases that are about the answer more than about the scheme: asked of these schemes only.
ONLY = {
    'forbidden': {'api_key', 'xpr'},
    'too-many': {'api_key', 'native', 'native-org', 'legacy_key', 'jwt', 'mtls', 'basic', 'xpr'},
    'not-configured': {'open'},
    'unavailable': {'jwt', 'xpr'},
}

FAMILIES = ('http', 'jsonrpc', 'native', 'xpr', 'grpc')


@dataclasses.dataclass(frozen=True)
class Answer:
    """How a refusal looks to one family: HTTP or gRPC status, JSON-RPC code, headers that must be there."""

    status: int
    code: int | None = None
    headers: tuple = ()

    def __str__(self):
        code = '' if self.code is None else f' {self.code}'
        return f'{self.status}{code}' + ''.join(f' +{name}' for name in self.headers)


def row(http, native, xpr, grpc, code=-32000, headers=(), grpc_headers=()):
    return {
        'http': Answer(http, headers=headers),
        'jsonrpc': Answer(http, code, headers),
        'native': Answer(http, native),
        'xpr': Answer(200, xpr),
        'grpc': Answer(grpc, headers=grpc_headers),
    }


CHALLENGE, LATER = ('www-authenticate',), ('retry-after',)
ANSWERS = {
    'unauthenticated': row(401, -32001, -32000, 16, headers=CHALLENGE),
    'forbidden': row(403, -32001, -32000, 7),
    'too-many': row(429, -32001, -32000, 8, headers=LATER, grpc_headers=LATER),
    'not-configured': row(503, -32001, -32000, 14),
    'unavailable': row(503, -32001, -32000, 14, headers=LATER),
    # A task of somebody else is answered exactly as one that never was; these are the answers for the latter.
    'not-found': {
        'http': Answer(404),
        'jsonrpc': Answer(200, -32001),
        'native': Answer(200, -32001),
        'xpr': Answer(200, -32001),
        'grpc': Answer(5),
    },
}
SERVED, HANDSHAKE = 'served', 'handshake'


@dataclasses.dataclass(frozen=True)
class Cell:
    """What is expected: `served`, a refused `handshake`, or a row of `ANSWERS` with its answer."""

    outcome: str
    answer: Answer | None = None


@dataclasses.dataclass(frozen=True)
class Absent:
    """A cell that cannot be, and why."""

    reason: str


NOT_SIGNED = {
    'open': 'there is no credential',
    'mtls': 'a certificate is not a signed request',
    'basic': 'a password is not a signed request',
}
NEVER_EXPIRES = {
    'open': 'there is no credential',
    'legacy_key': 'a static key has no end',
    'basic': 'a password has no end',
}
ONE_CALLER = {
    'open': 'everybody is the same caller',
    'legacy_key': 'whoever has the one key is the same caller',
}


def way(scheme, family, case):
    """The name of what happens, or why it cannot."""
    if scheme == 'xpr' and family == 'native':
        return Absent('X-XPR-* headers make it a request of the XPR dialect')
    if scheme == 'xpr' and family in ('grpc', 'http'):
        if case in ('replayed', 'other-caller', 'other-tenant', 'forbidden', 'too-many', 'unavailable'):
            return Absent('nobody gets in: a signature covers the body, and here the body does not say what is asked')
        return 'unauthenticated'
    if case == 'right':
        return SERVED
    if case == 'missing':
        return SERVED if scheme in ('open', 'optional') else 'unauthenticated'
    if case == 'wrong':
        if scheme == 'open':
            return Absent('nothing is asked for, so nothing can be wrong')
        return HANDSHAKE if scheme == 'mtls' else 'unauthenticated'
    if case == 'expired':
        if scheme in NEVER_EXPIRES:
            return Absent(NEVER_EXPIRES[scheme])
        return HANDSHAKE if scheme == 'mtls' else 'unauthenticated'
    if case == 'replayed':
        if scheme != 'xpr':
            return Absent(NOT_SIGNED.get(scheme, 'a bearer is not a signed request'))
        return 'unauthenticated'
    if case == 'other-caller':
        return Absent(ONE_CALLER[scheme]) if scheme in ONE_CALLER else 'not-found'
    if case == 'other-tenant':
        return 'not-found'
    return case


def cell(scheme, binding, case):
    """What is expected of a binding, which says its `name` and its `family`."""
    if case == 'too-many' and binding.name == '0.3 gRPC':
        return Absent('it reaches the default agent only, which has no such limit')
    found = way(scheme, binding.family, case)
    if isinstance(found, Absent):
        return found
    return Cell(found, ANSWERS[found][binding.family] if found in ANSWERS else None)


def cells(bindings):
    """Every cell there is, in order: scheme, binding, case, and what is expected."""
    for scheme in SCHEMES:
        for binding in bindings.values():
            for case in CASES:
                if scheme in ONLY.get(case, SCHEMES):
                    yield scheme, binding, case, cell(scheme, binding, case)
