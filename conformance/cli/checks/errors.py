"""The envelope of failures: one shape, one name per failure, over every binding."""

import json

from harness import contains, equal, holds
from registry import ALL, LIVE, requirement
from report import CODES
from stub import ERRORS, Fault, Http, task

FIELDS = {'code', 'message', 'hint', 'a2aCode'}


def well_formed(error):
    holds(set(error) <= FIELDS and {'code', 'message'} <= set(error), f'fields: {error}')
    code = error['code']
    holds(
        code in CODES or code.startswith('SABIR_ERR_') or (code.endswith('Error') and not code.startswith('A2ACLI')),
        f'an invented code: {code}',
    )
    holds(isinstance(error['message'], str) and error['message'].strip(), f'message: {error}')
    holds(error.get('hint') is None or error['hint'].strip(), f'an empty hint: {error}')
    return error


@requirement('A2ACLI_OUT_004', agents=LIVE, bindings=ALL)
def a_failure_of_a_live_agent_has_its_name(case):
    for arguments, code in (
        (('task', 'get', 'no-such-task'), 'TaskNotFoundError'),
        (('task', 'cancel', 'no-such-task'), 'TaskNotFoundError'),
        (('send', 'hi', '--task-id', 'no-such-task'), 'TaskNotFoundError'),
        (('task', 'subscribe', 'no-such-task'), 'TaskNotFoundError'),
        (('task', 'cancel', case.task('echo x')['id']), 'TaskNotCancelableError'),
    ):
        error = well_formed(case.call(*arguments, '-o', 'json').fails(code, 1))
        holds(error['hint'], f'no hint: {error}')
        kind = {'JSONRPC': int, 'HTTP+JSON': int, 'GRPC': str}[case.binding]
        holds(isinstance(error['a2aCode'], kind), f'a2aCode: {error}')
        if case.binding == 'JSONRPC':
            equal(error['a2aCode'], ERRORS[code][0], 'a2aCode')


@requirement('A2ACLI_OUT_004', bindings=ALL)
def every_error_of_the_protocol_keeps_its_name(case):
    for name, (number, http, status) in ERRORS.items():

        def refuse(call, name=name):
            raise Fault(name)

        server = case.stub(streaming=False, on={'GetTask': refuse, 'SendMessage': refuse})
        error = well_formed(case.run('task', 'get', 't-1', '-a', server.url, '-o', 'json').fails(name, 1))
        equal(
            error['a2aCode'], {'JSONRPC': number, 'HTTP+JSON': http, 'GRPC': status}[case.binding], f'a2aCode of {name}'
        )
        if name == 'UnsupportedOperationError':
            holds(error['hint'], 'a hint')
        run = case.run('send', 'hi', '-a', server.url)
        run.exits(1)
        contains(run.err, f'Error: {name}', 'stderr in text')
        contains(run.err, 'Message: ', 'stderr in text')


@requirement('A2ACLI_OUT_004', bindings=('JSONRPC', 'HTTP+JSON'))
def the_statuses_of_older_servers_are_understood(case):
    info = lambda reason: [  # noqa: E731
        {'@type': 'type.googleapis.com/google.rpc.ErrorInfo', 'reason': reason, 'domain': 'a2a-protocol.org'}
    ]
    for reason, code, status in (
        ('TASK_NOT_CANCELABLE', 'TaskNotCancelableError', 409),
        ('CONTENT_TYPE_NOT_SUPPORTED', 'ContentTypeNotSupportedError', 415),
        ('INVALID_AGENT_RESPONSE', 'InvalidAgentResponseError', 502),
    ):

        def refuse(call, reason=reason, code=code, status=status):
            if case.binding == 'JSONRPC':
                # Without details, and with a status of its own: the number decides.
                value = {'jsonrpc': '2.0', 'id': 1, 'error': {'code': ERRORS[code][0], 'message': 'no'}}
                raise Http(200, json.dumps(value).encode(), 'application/json')
            value = {'error': {'code': status, 'status': 'X', 'message': 'no', 'details': info(reason)}}
            raise Http(status, json.dumps(value).encode(), 'application/json')

        server = case.stub(on={'CancelTask': refuse, 'GetTask': lambda _: task('t-1', 'TASK_STATE_WORKING')})
        if case.binding == 'JSONRPC':
            # The id of the request has to be echoed, which a canned answer cannot know.
            def refuse(call, code=code):
                raise Fault(code)

            server.on['CancelTask'] = refuse
        case.run('task', 'cancel', 't-1', '-a', server.url, '-o', 'json').fails(code, 1)


@requirement('A2ACLI_OUT_004', bindings=ALL)
def what_breaks_the_protocol_is_an_invalid_agent_response(case):
    if case.binding == 'GRPC':
        answers = [('SendMessage', lambda _: {})]
    else:
        answers = [
            ('SendMessage', lambda _: Http(200, b'<html>', 'text/html')),
            ('SendMessage', lambda _: {}),
            (
                'SendMessage',
                lambda _: Http(200, b'{"jsonrpc":"2.0","id":"somebody else","result":{"task":{}}}', 'application/json'),
            ),
        ]
    for op, answer in answers:

        def play(call, answer=answer):
            value = answer(call)
            if isinstance(value, Http):
                raise value
            return value

        server = case.stub(streaming=False, on={op: play})
        error = case.run('send', 'hi', '-a', server.url, '-o', 'json').fails('InvalidAgentResponseError', 1)
        equal(well_formed(error).get('a2aCode'), None, 'a2aCode')


@requirement('A2ACLI_OUT_004')
def local_failures_have_local_codes(case):
    server = case.stub()
    for arguments, code in (
        (('send', 'hi', '--nonsense', '-a', server.url), 'A2ACLI_ERR_USAGE'),
        (('frobnicate',), 'A2ACLI_ERR_USAGE'),
        ((), None),
        (('send', 'hi', '--metadata', '[1]', '-a', server.url), 'A2ACLI_ERR_USAGE'),
        (('send', 'hi', '-a', server.url, '--output', 'yaml'), 'A2ACLI_ERR_USAGE'),
        (('send', 'hi', '-a', server.url, '--config', 'none.env'), 'A2ACLI_ERR_USAGE'),
        (('send', 'hi'), 'A2ACLI_ERR_USAGE'),
        (('card', 'get', '-a', server.url + '/none'), 'A2ACLI_ERR_CARD_NOT_FOUND'),
    ):
        if code is None:
            continue
        run = case.run(*arguments, *(() if '--output' in arguments else ('-o', 'json')))
        if '--output' in arguments:
            run.exits(2)
            continue
        error = well_formed(run.error)
        equal((error['code'], error.get('a2aCode')), (code, None), f'code of {arguments}')
        holds(error['hint'], f'no hint: {run}')
    # The wanted format is known before the arguments are understood, from the variable too.
    run = case.run('send', '--nonsense', env={'A2ACLI_OUTPUT': 'json'}).exits(2)
    equal(well_formed(run.json['error'])['code'], 'A2ACLI_ERR_USAGE', 'code')
