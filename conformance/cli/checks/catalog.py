"""An entry of an AI catalog stands wherever a card reference stands."""

import json

from harness import contains, equal
from registry import requirement
from stub import Http

CARD = 'application/a2a-agent-card+json'
CATALOG = 'application/ai-catalog+json'


def catalog(*entries):
    value = {'specVersion': '1.0', 'entries': list(entries)}
    return Http(200, json.dumps(value).encode(), CATALOG)


def entry(name, **where):
    return {'identifier': name, 'displayName': name, 'mediaType': CARD, **where}


@requirement('A2ACLI_CARD_GET_005')
def an_entry_is_found_by_its_fragment(case):
    server, other = case.stub(), case.stub()
    other.card['name'] = 'Other'
    server.files['/catalog.json'] = catalog(
        entry('urn:one', url=f'{server.url}/.well-known/agent-card.json'),
        entry('urn:two', url=f'{other.url}/.well-known/agent-card.json'),
    )
    reference = f'{server.url}/catalog.json'
    equal(case.run('card', 'get', '-a', f'{reference}#urn:two', '-o', 'json').exits(0).json, other.card, 'the second')
    equal(case.run('card', 'get', '-a', f'{reference}#urn:one', '-o', 'json').exits(0).json, server.card, 'the first')
    # Wherever a card reference is taken, and from wherever it comes.
    case.run('send', 'hi', '-a', f'{reference}#urn:two', '-o', 'json').exits(0)
    case.run('send', 'hi', '-o', 'json', env={'A2ACLI_AGENT_CARD': f'{reference}#urn:two'}).exits(0)
    equal((len(server.calls) > 0, len(other.sent())), (False, 2), 'the agent of the entry is called')


@requirement('A2ACLI_CARD_GET_005')
def several_entries_without_a_fragment_are_a_usage_error_that_lists_them(case):
    server = case.stub()
    url = f'{server.url}/.well-known/agent-card.json'
    server.files['/catalog.json'] = catalog(entry('urn:one', url=url), entry('urn:two', url=url))
    error = case.run('card', 'get', '-a', f'{server.url}/catalog.json', '-o', 'json').fails('A2ACLI_ERR_USAGE', 2)
    for name in ('urn:one', 'urn:two'):
        contains(f'{error["message"]} {error.get("hint")}', name, 'the identifiers')
    case.run('card', 'get', '-a', f'{server.url}/catalog.json#urn:none', '-o', 'json').fails(
        'A2ACLI_ERR_CARD_NOT_FOUND', 3
    )


@requirement('A2ACLI_CARD_GET_005')
def a_single_entry_inline_data_nesting_and_the_well_known_path(case):
    server = case.stub()
    nested = {'identifier': 'urn:more', 'displayName': 'more', 'mediaType': CATALOG}
    server.files.update(
        {
            '/single.json': catalog(entry('urn:one', url=f'{server.url}/.well-known/agent-card.json')),
            '/inline.json': catalog(entry('urn:one', data=server.card)),
            '/outer.json': catalog({**nested, 'url': f'{server.url}/inner.json'}),
            '/inner.json': catalog(entry('urn:deep', url=f'{server.url}/.well-known/agent-card.json')),
            '/round.json': catalog({**nested, 'url': f'{server.url}/round.json'}),
            '/.well-known/ai-catalog.json': catalog(entry('urn:one', data=server.card)),
        }
    )
    for path in ('/single.json', '/inline.json', '/outer.json#urn:deep', '/.well-known/ai-catalog.json'):
        run = case.run('card', 'get', '-a', server.url + path, '-o', 'json').exits(0)
        equal(run.json, server.card, f'the card by {path}')
    # A catalog that contains itself comes to an end.
    run = case.run('card', 'get', '-a', f'{server.url}/round.json#urn:deep', '-o', 'json')
    equal(run.code != 0, True, 'a catalog without end fails')
    equal(len(server.fetches('/round.json')) < 10, True, 'and is not read for ever')
