"""Transports: which one, in whose order, with which tenant."""

import itertools

import grammar
from harness import contains, equal, holds
from registry import ALL, LIVE, requirement


@requirement('A2ACLI_TX_001')
def the_order_of_the_card_decides(case):
    for order in itertools.permutations(ALL):
        server = case.stub(bindings=ALL)
        server.card['supportedInterfaces'] = [server.interface(binding) for binding in order]
        shown = grammar.parse(case.run('card', 'get', '-a', server.url).exits(0).out)
        holds(grammar.last(shown, 'Selected').startswith(order[0] + ' '), f'{order}: {shown}')
        for arguments in (('send', 'hi'), ('task', 'get', 't-1'), ('task', 'list')):
            case.run(*arguments, '-a', server.url, '-o', 'json').exits(0)
        equal({call.binding for call in server.calls}, {order[0]}, f'called with {order}')


@requirement('A2ACLI_TX_002', bindings=ALL)
def a_preference_beats_the_order_of_the_card(case):
    server = case.stub(bindings=ALL)

    def used(*flags, **options):
        server.calls.clear()
        case.run('task', 'list', *flags, '-a', server.url, '-o', 'json', **options).exits(0)
        return server.calls[-1].binding

    others = [binding for binding in ALL if binding != case.binding]
    equal(used(), 'JSONRPC', 'without a preference')
    equal(used('--transport', case.binding), case.binding, 'with a flag')
    equal(used('--transport', case.binding, '--transport', others[0]), case.binding, 'the first of two')
    equal(used('--transport', case.binding.lower()), case.binding, 'in lower case')
    equal(used(env={'A2ACLI_TRANSPORT': f'{case.binding},{others[1]}'}), case.binding, 'with a variable')
    equal(used('--transport', others[0], env={'A2ACLI_TRANSPORT': case.binding}), others[0], 'a flag replaces the list')
    for alias in {'JSONRPC': ('json-rpc',), 'HTTP+JSON': ('rest', 'http_json'), 'GRPC': ('grpc',)}[case.binding]:
        equal(used('--transport', alias), case.binding, f'the alias {alias}')


@requirement('A2ACLI_TX_002', bindings=ALL)
def what_cannot_be_used_is_skipped(case):
    other = next(binding for binding in ALL if binding != case.binding)
    server = case.stub(bindings=(case.binding,))
    strange = {'url': f'{server.url}/soap', 'protocolBinding': 'https://example.com/soap', 'protocolVersion': '1.0'}
    future = {**server.card['supportedInterfaces'][0], 'protocolVersion': '9.7', 'url': f'{server.url}/future'}
    server.card['supportedInterfaces'] = [strange, future, *server.card['supportedInterfaces']]
    case.run('task', 'list', '-a', server.url, '-o', 'json').exits(0)
    case.run('task', 'list', '-a', server.url, '-o', 'json', '--transport', other).exits(0)
    case.run('task', 'list', '-a', server.url, '-o', 'json', '--transport', other, '--transport', case.binding).exits(0)
    equal([call.binding for call in server.calls], [case.binding] * 3, 'called')
    case.run('task', 'list', '-a', server.url, '-o', 'json', '--transport', 'carrier-pigeon').fails(
        'A2ACLI_ERR_USAGE', 2
    )
    holds(all(r.path not in ('/soap', '/future') for r in server.requests), 'what is not supported is not called')


def every_operation(case, reference, *more):
    for arguments in (
        ('send', 'hi'),
        ('send', 'hi', '--async'),
        ('send', 'hi', '--stream'),
        ('task', 'get', 't-1'),
        ('task', 'list'),
        ('task', 'subscribe', 't-1'),
        ('task', 'cancel', 't-1'),
        ('task', 'push-config', 'create', 't-1', '--url', 'https://hook.example/'),
        ('task', 'push-config', 'get', 't-1', 'p-1'),
        ('task', 'push-config', 'list', 't-1'),
        ('task', 'push-config', 'delete', 't-1', 'p-1'),
        ('card', 'get', '--extended'),
    ):
        case.run(*arguments, '-a', reference, '-o', 'json', *more).exits(0)


OPERATIONS = {
    'SendMessage',
    'SendStreamingMessage',
    'GetTask',
    'ListTasks',
    'SubscribeToTask',
    'CancelTask',
    'CreateTaskPushNotificationConfig',
    'GetTaskPushNotificationConfig',
    'ListTaskPushNotificationConfigs',
    'DeleteTaskPushNotificationConfig',
    'GetExtendedAgentCard',
}
BEARER = {'staff': {'httpAuthSecurityScheme': {'scheme': 'Bearer'}}}


@requirement('A2ACLI_TX_003', bindings=ALL)
def the_tenant_is_in_every_request_if_declared(case):
    for tenant in ('emea west', None):
        server = case.stub(tenant=tenant, extended=True, schemes=BEARER)
        every_operation(case, server.url, '--bearer', 'some-token')
        equal({call.op for call in server.calls}, OPERATIONS, 'operations')
        for call in server.calls:
            equal(call.params.get('tenant') or None, tenant, f'tenant of {call.op}')
            if case.binding == 'HTTP+JSON':
                equal('/rest/emea%20west/' in call.url, tenant is not None, f'the path {call.url}')


@requirement('A2ACLI_TX_003')
def the_tenant_is_that_of_the_chosen_interface(case):
    server = case.stub(bindings=('JSONRPC', 'HTTP+JSON'))
    server.card['supportedInterfaces'] = [server.interface('JSONRPC', 'one'), server.interface('HTTP+JSON', 'two')]
    for binding, tenant in (('JSONRPC', 'one'), ('HTTP+JSON', 'two')):
        case.run('task', 'list', '--transport', binding, '-a', server.url, '-o', 'json').exits(0)
        equal(server.calls[-1].params.get('tenant'), tenant, f'tenant over {binding}')
    case.run('task', 'list', '--tenant', 'x', '-a', server.url, '-o', 'json').fails('A2ACLI_ERR_USAGE', 2)


@requirement('A2ACLI_TX_004', agents=LIVE)
def the_same_task_over_every_transport(case):
    made = case.run('send', 'files', '-a', case.ref, '--transport', 'JSONRPC', '-o', 'json').exits(0).json['task']
    values = []
    for binding in ALL:
        run = case.run('task', 'get', made['id'], '-a', case.ref, '--transport', binding, '-o', 'json').exits(0)
        values.append(run.json)
        selected = grammar.parse(case.run('card', 'get', '-a', case.ref, '--transport', binding).exits(0).out)
        holds(grammar.last(selected, 'Selected').startswith(binding + ' '), f'Selected: {selected}')
    contents = [[(a['artifactId'], a['parts'][0].get('text')) for a in value['artifacts']] for value in values]
    equal(contents[1], contents[0], 'over HTTP+JSON and JSON-RPC')
    equal([v['status']['state'] for v in values], ['TASK_STATE_COMPLETED'] * 3, 'states')


@requirement('A2ACLI_TX_004', bindings=('JSONRPC', 'HTTP+JSON'))
def two_transports_on_the_wire(case):
    server = case.stub(bindings=('JSONRPC', 'HTTP+JSON'))
    case.run('send', 'hi', '--transport', case.binding, '-a', server.url, '-o', 'json').exits(0)
    paths = [request.path for request in server.requests if request.method == 'POST']
    prefix = {'JSONRPC': '/rpc', 'HTTP+JSON': '/rest/message:'}[case.binding]
    holds(paths and all(path.startswith(prefix) for path in paths), f'paths: {paths}')
    request = next(r for r in server.requests if r.method == 'POST')
    wanted = {'JSONRPC': 'application/json', 'HTTP+JSON': 'application/a2a+json'}[case.binding]
    contains(request.headers['content-type'], wanted, 'content type')


@requirement('A2ACLI_TX_005', bindings=('GRPC',))
def every_operation_over_grpc(case):
    server = case.stub(extended=True, schemes=BEARER)
    every_operation(case, server.url, '--bearer', 'some-token')
    equal({call.op for call in server.calls}, OPERATIONS, 'operations')
    equal({call.headers.get('a2a-version') for call in server.calls}, {'1.0'}, 'a2a-version')


@requirement('A2ACLI_TX_005', agents=LIVE, bindings=('GRPC',))
def grpc_is_chosen_when_the_card_offers_nothing_else(case):
    card = case.world.agent(case.agent).fetch()
    card['supportedInterfaces'] = [
        i for i in card['supportedInterfaces'] if i['protocolBinding'] == 'GRPC' and i['protocolVersion'] == '1.0'
    ]
    path = case.file('card.json', card)
    made = case.run('send', 'echo over grpc', '-a', path, '-o', 'json').exits(0).json['task']
    equal(made['status']['state'], 'TASK_STATE_COMPLETED', 'state')
    holds(case.run('send', 'slow 1', '--stream', '-a', path, '-o', 'json').exits(0).jsonl, 'events')
