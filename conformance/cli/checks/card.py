"""`card get`: where a card comes from, what is shown of it, whether it is right, and its extended form."""

import copy

import grammar
from harness import contains, equal, holds, lacks
from registry import ALL, LIVE, requirement
from stub import CARD_PATH, Http

BEARER = {'staff': {'httpAuthSecurityScheme': {'scheme': 'Bearer'}}}


@requirement('A2ACLI_CARD_GET_001', agents=LIVE)
def the_card_of_a_live_agent_is_passed_through(case):
    got = case.run('card', 'get', '--agent-card', case.ref, '-o', 'json').exits(0).json
    equal(got, case.world.agent(case.agent).fetch(), 'the card')


@requirement('A2ACLI_CARD_GET_001')
def a_card_is_found_by_host_url_and_file(case):
    server = case.stub()
    path = case.file('cards/my card.json', server.card)
    server.files['/cards/own.json'] = lambda _: server.card
    references = [
        server.url,
        f'127.0.0.1:{server.port}',
        f'localhost:{server.port}',
        server.url + '/',
        server.url + CARD_PATH,
        server.url + '/cards/own.json',
        path,
        './cards/my card.json',
        'cards/my card.json',
        'file://' + str(path).replace(' ', '%20'),
    ]
    for reference in references:
        equal(case.run('card', 'get', '-a', reference, '-o', 'json').exits(0).json, server.card, f'card of {reference}')
    holds(len(server.fetches('/cards/own.json')) == 1, 'a full URL is used as it is')


@requirement('A2ACLI_CARD_GET_001', bindings=ALL)
def the_selected_interface_is_the_one_called(case):
    server = case.stub(bindings=(case.binding,))
    shown = grammar.parse(case.run('card', 'get', '-a', server.url).exits(0).out)
    url = server.card['supportedInterfaces'][0]['url']
    equal(grammar.last(shown, 'Selected'), f'{case.binding} 1.0 {url}', 'Selected')
    path = case.file('card.json', server.card)
    case.run('send', 'hi', '-a', path, '-o', 'json').exits(0)
    holds(server.calls and {call.binding for call in server.calls} == {case.binding}, f'called: {server.calls}')


@requirement('A2ACLI_CARD_GET_001')
def the_text_shows_identity_capabilities_interfaces_schemes_and_skills(case):
    server = case.stub(bindings=('JSONRPC', 'HTTP+JSON'), schemes=BEARER, extended=True, push=False)
    shown = grammar.parse(case.run('card', 'get', '-a', server.url).exits(0).out)
    for label, wanted in (
        ('Name', 'Stub'),
        ('Description', 'A scripted server'),
        ('Version', '1.2.3'),
        ('Streaming', 'yes'),
        ('Push notifications', 'no'),
        ('Extended card', 'yes'),
    ):
        equal(grammar.last(shown, label), wanted, label)
    equal(len(grammar.values(shown, 'Interface')), 2, 'interfaces')
    contains(grammar.last(shown, 'Security scheme'), 'staff', 'the scheme')
    contains(grammar.last(shown, 'Skill'), 'Stub skill', 'the skill')
    contains(grammar.last(shown, 'Signature'), 'absent', 'the signature')


@requirement('A2ACLI_CARD_GET_001')
def what_is_not_a_card_is_refused_by_its_own_code(case):
    server = case.stub(
        files={
            '/html': Http(200, b'<!doctype html><h1>Hello</h1>', 'text/html'),
            '/half': Http(200, b'{"name": "Half"', 'application/json'),
            '/poor': Http(200, b'{"name": "Poor"}', 'application/json'),
            '/gone': Http(410),
            '/broken': Http(500),
            '/locked': Http(401),
            '/huge': Http(200, b'{"name": "' + b'x' * 10_000_000 + b'"}', 'application/json'),
        }
    )
    for path, code, number in (
        ('/html', 'CARD_INVALID', 1),
        ('/half', 'CARD_INVALID', 1),
        ('/poor', 'CARD_INVALID', 1),
        ('/missing', 'CARD_NOT_FOUND', 3),
        ('/gone', 'CARD_NOT_FOUND', 3),
        ('/broken', 'CARD_NOT_FOUND', 3),
        ('/locked', 'CREDENTIALS_MISSING', 4),
        ('/huge', 'CARD_INVALID', 1),
    ):
        case.run('card', 'get', '-a', server.url + path, '-o', 'json').fails(f'A2ACLI_ERR_{code}', number)
    case.run('card', 'get', '-a', './none.json', '-o', 'json').fails('A2ACLI_ERR_CARD_NOT_FOUND', 3)
    case.run('card', 'get', '-o', 'json').fails('A2ACLI_ERR_USAGE', 2)
    server.close()
    case.run('card', 'get', '-a', server.url, '-o', 'json').fails('A2ACLI_ERR_UNREACHABLE', 3)


@requirement('A2ACLI_CARD_GET_002', agents=LIVE)
def the_card_of_a_live_agent_is_valid(case):
    run = case.run('card', 'get', '--validate', '-a', case.ref).exits(0)
    equal(grammar.last(grammar.parse(run.out), 'Valid'), 'yes', 'Valid')
    run = case.run('card', 'get', '--validate', '-a', case.ref, '-o', 'json').exits(0)
    equal(run.json, case.world.agent(case.agent).fetch(), 'the card')
    contains(run.err.lower(), 'valid', 'the note')


@requirement('A2ACLI_CARD_GET_002')
def every_fault_of_a_card_is_named(case):
    server = case.stub(schemes=BEARER)

    def broken(change):
        card = copy.deepcopy(server.card)
        change(card)
        run = case.run('card', 'get', '--validate', '-a', case.file('card.json', card), '-o', 'json')
        return run.fails('A2ACLI_ERR_CARD_INVALID', 1)['message']

    def set_at(path, value):
        def change(card):
            for key in path[:-1]:
                card = card[key]
            card[path[-1]] = value

        return change

    for word, change in (
        ('description', lambda card: card.pop('description')),
        ('version', lambda card: card.pop('version')),
        ('skills', lambda card: card.pop('skills')),
        ('skills', set_at(['skills'], [])),
        ('defaultInputModes', set_at(['defaultInputModes'], [])),
        ('capabilities', lambda card: card.pop('capabilities')),
        ('supportedInterfaces', set_at(['supportedInterfaces'], [])),
        ('url', set_at(['supportedInterfaces', 0, 'url'], '/rpc')),
        ('protocolVersion', set_at(['supportedInterfaces', 0, 'protocolVersion'], 'one')),
        ('tags', lambda card: card['skills'][0].pop('tags')),
        ('location', set_at(['securitySchemes', 'key'], {'apiKeySecurityScheme': {'location': 'body', 'name': 'k'}})),
        ('ghost', set_at(['securityRequirements'], [{'schemes': {'ghost': {'list': []}}}])),
    ):
        contains(broken(change), word, 'the message')

    def two(card):
        card.pop('version')
        card['supportedInterfaces'][0]['url'] = 'nowhere'

    message = broken(two)
    contains(message, 'version', 'all faults are listed')
    contains(message, 'url', 'all faults are listed')


@requirement('A2ACLI_CARD_GET_003', agents=('python',), bindings=ALL)
def the_extended_card_of_a_live_agent(case):
    got = case.ok('card', 'get', '--extended', '--bearer', 'staff-token')
    equal(got['description'], 'The extended card', 'the description')


@requirement('A2ACLI_CARD_GET_003', agents=('demo',), bindings=ALL)
def the_extended_card_of_the_demo_server_needs_its_token(case):
    public = case.ok('card', 'get')
    holds(public['capabilities'].get('extendedAgentCard') is True, 'the public card declares an extended one')
    case.call('card', 'get', '--extended', '-o', 'json').fails('A2ACLI_ERR_CREDENTIALS_MISSING', 4)


@requirement('A2ACLI_CARD_GET_003', bindings=ALL)
def the_extended_card_is_asked_for_only_by_an_advertised_scheme(case):
    server = case.stub(extended=True, schemes=BEARER)
    run = case.run('card', 'get', '--extended', '-a', server.url, '--bearer', 'staff-token', '-o', 'json').exits(0)
    equal(run.json['description'], 'extended', 'the extended card is what is printed')
    asked = server.of('GetExtendedAgentCard')
    equal([call.headers.get('authorization') for call in asked], ['Bearer staff-token'], 'authorization')
    # Without a credential, and with one for which the card has no scheme, nothing is asked.
    for given in ((), ('--api-key', 'robot-key-123')):
        case.run('card', 'get', '--extended', '-a', server.url, *given, '-o', 'json').fails(
            'A2ACLI_ERR_CREDENTIALS_MISSING', 4
        )
    equal(len(server.of('GetExtendedAgentCard')), 1, 'requests for the extended card')
    # A card that declares none is not asked either.
    plain = case.stub(schemes=BEARER)
    error = case.run('card', 'get', '--extended', '-a', plain.url, '--bearer', 'staff-token', '-o', 'json').fails(
        'UnsupportedOperationError', 1
    )
    equal(error.get('a2aCode'), None, 'a2aCode of a local refusal')
    equal(plain.calls, [], 'requests')


@requirement('A2ACLI_CARD_GET_003', bindings=ALL)
def an_extended_card_is_not_kept(case):
    server = case.stub(extended=True, schemes=BEARER)
    case.run('card', 'get', '--extended', '-a', server.url, '--bearer', 'staff-token', '-o', 'json').exits(0)
    for name, content in case.tree().items():
        lacks(content.decode(errors='replace'), '"extended"', f'the file {name}')
    equal(
        case.run('card', 'get', '-a', server.url, '-o', 'json').exits(0).json['description'],
        'A scripted server',
        'card',
    )
