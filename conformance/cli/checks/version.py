"""Versions, capabilities and extensions: what is said, what is looked up first, what is refused."""

import json

from checks.tx import every_operation
from harness import contains, equal, holds
from registry import ALL, requirement
from stub import Fault

EXTENSION = 'https://example.com/ext/audit/v1'
BEARER = {'staff': {'httpAuthSecurityScheme': {'scheme': 'Bearer'}}}


@requirement('A2ACLI_VER_001', bindings=ALL)
def the_version_is_on_every_request(case):
    server = case.stub(extended=True, schemes=BEARER)
    every_operation(case, server.url, '--bearer', 'some-token')
    equal({call.headers.get('a2a-version') for call in server.calls}, {'1.0'}, 'operations')
    equal({request.headers.get('a2a-version') for request in server.requests}, {'1.0'}, 'all HTTP requests, cards too')


@requirement('A2ACLI_VER_001', bindings=ALL)
def there_is_no_silent_downgrade(case):
    old = case.stub(version='0.3')
    # The strict rule of the specification, which --a2a-version 1.0 restores.
    run = case.run('send', 'hi', '-a', old.url, '-o', 'json', '--a2a-version', '1.0')
    error = run.fails('VersionNotSupportedError', 1)
    contains(error['hint'], '--a2a-version', 'the hint')
    equal([r for r in old.requests if r.method != 'GET'] + old.calls, [], 'requests to an agent of 0.3')
    # Without a word the older version is spoken, and never in silence.
    told = case.run('send', 'hi', '-a', old.url, '-o', 'json')
    contains(told.err, 'no A2A 1.0; calling it in 0.3', 'stderr')

    def refuse(call):
        raise Fault('VersionNotSupportedError')

    server = case.stub(on={'GetTask': refuse})
    error = case.run('task', 'get', 't-1', '-a', server.url, '-o', 'json').fails('VersionNotSupportedError', 1)
    equal(len(server.calls), 1, 'requests')
    for bad in ('1.0.1', 'one'):
        case.run('task', 'get', 't-1', '--a2a-version', bad, '-a', server.url, '-o', 'json').fails(
            'A2ACLI_ERR_USAGE', 2
        )
    case.run('task', 'list', '--a2a-version', '1.0', '-a', server.url, '-o', 'json').exits(0)


@requirement('A2ACLI_VER_001', agents=('serve',), bindings=ALL)
def below_one_only_when_told(case):
    card = case.world.agent(case.agent).fetch()
    card['supportedInterfaces'] = [i for i in card['supportedInterfaces'] if i['protocolVersion'] == '0.3']
    path = case.file('card.json', card)
    base = ('send', 'echo from before', '-a', path, '--transport', case.binding, '-o', 'json')
    case.run(*base, '--a2a-version', '1.0').fails('VersionNotSupportedError', 1)
    told = case.run(*base).exits(0)
    contains(told.err, 'calling it in 0.3', 'stderr')
    made = case.run(*base, '--a2a-version', '0.3').exits(0).json['task']
    equal(made['status']['state'], 'TASK_STATE_COMPLETED', 'the state, in the words of 1.0')
    contains(json.dumps(made), 'from before', 'the answer')


@requirement('A2ACLI_VER_002', bindings=ALL)
def required_extensions_are_declared(case):
    extensions = [{'uri': EXTENSION, 'required': True}, {'uri': 'urn:optional', 'required': False}]
    server = case.stub(extensions=extensions)
    error = case.run('send', 'hi', '-a', server.url, '-o', 'json').fails('ExtensionSupportRequiredError', 1)
    contains(error['hint'], '--extension', 'the hint')
    contains(f'{error["message"]} {error["hint"]}', EXTENSION, 'the extension is named')
    equal((error.get('a2aCode'), server.calls), (None, []), 'it fails before the call')
    case.run('send', 'hi', '--extension', EXTENSION, '-a', server.url, '-o', 'json').exits(0)
    call = server.of('SendMessage', 'SendStreamingMessage')[0]
    declared = [uri.strip() for uri in call.headers.get('a2a-extensions', '').split(',')]
    equal(declared, [EXTENSION], 'A2A-Extensions')
    equal(call.params['message'].get('extensions'), [EXTENSION], 'message.extensions')


@requirement('A2ACLI_VER_002', bindings=ALL)
def several_extensions_are_joined_and_optional_ones_are_not_assumed(case):
    two = 'urn:example:two'
    server = case.stub(extensions=[{'uri': EXTENSION, 'required': True}, {'uri': two, 'required': True}])
    case.run('send', 'hi', '--extension', EXTENSION, '-a', server.url, '-o', 'json').fails(
        'ExtensionSupportRequiredError', 1
    )
    case.run('send', 'hi', '--extension', EXTENSION, '--extension', two, '-a', server.url, '-o', 'json').exits(0)
    value = server.calls[0].headers['a2a-extensions']
    equal({uri.strip() for uri in value.split(',')}, {EXTENSION, two}, 'A2A-Extensions')
    optional = case.stub(extensions=[{'uri': two, 'required': False}])
    case.run('send', 'hi', '-a', optional.url, '-o', 'json').exits(0)
    holds(not optional.calls[0].headers.get('a2a-extensions'), 'an optional extension is not declared by itself')


@requirement('A2ACLI_VER_003', bindings=ALL)
def capabilities_are_looked_up_first(case):
    server = case.stub(streaming=False, push=False, schemes=BEARER)
    base = ('-a', server.url, '--bearer', 'some-token', '-o', 'json')
    push = ('task', 'push-config')
    for arguments, code in (
        (('task', 'subscribe', 't-1'), 'UnsupportedOperationError'),
        (('card', 'get', '--extended'), 'UnsupportedOperationError'),
        ((*push, 'create', 't-1', '--url', 'https://hook.example/'), 'PushNotificationNotSupportedError'),
        ((*push, 'get', 't-1', 'p-1'), 'PushNotificationNotSupportedError'),
        ((*push, 'list', 't-1'), 'PushNotificationNotSupportedError'),
        ((*push, 'delete', 't-1', 'p-1'), 'PushNotificationNotSupportedError'),
        ((*push, 'listen', 't-1'), 'PushNotificationNotSupportedError'),
    ):
        error = case.run(*arguments, *base).fails(code, 1)
        equal(error.get('a2aCode'), None, f'a2aCode of {arguments}')
    equal(server.calls, [], 'requests')
    case.run('send', 'hi', *base).exits(0)
    case.run('send', 'hi', '--stream', *base).exits(0)
    equal(server.of('SendStreamingMessage', 'SubscribeToTask'), [], 'streaming requests')
