"""The recorded cases, as this test plays them: which are on the wire, and what must come of each."""

import json
import pathlib

CRATES = pathlib.Path(__file__).resolve().parents[2] / 'crates'
PLACES = {
    'agnt-canonical': CRATES / 'guard' / 'tests' / 'vectors',
    'agnt-verify': CRATES / 'guard' / 'tests' / 'vectors',
    'webhooks': CRATES / 'guard' / 'tests' / 'vectors',
}
# Their nesting alone is more than an envelope may have.
TOO_DEEP = {'deep-nesting'}
# Python takes the last of two members; here two are refused, because two readers may see two payloads.
DOUBLED = {'dup-sig-last-wins'}


def load(name):
    return json.loads((PLACES[name] / f'{name}.json').read_text())


def summary():
    canonical, verify = load('agnt-canonical')['cases'], load('agnt-verify')
    hooks = load('webhooks')['cases']
    yield 'agnt-canonical', 'texts that are signed, and texts that are no JSON', f'{len(canonical)} of {len(canonical)}'
    count = len(verify['cases'])
    yield 'agnt-verify', 'signed payloads, at the hour they were made', f'{count} of {count}'
    yield 'agnt-verify', 'sequences: replays, and a change of keys', f'{len(verify["sequences"])} of 3'
    yield 'webhooks', 'signatures of deliveries', f'{len(hooks)} of {len(hooks)}, by the verifiers used here'
