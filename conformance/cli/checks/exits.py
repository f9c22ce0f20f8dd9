"""Exit codes: what the number says, the error says too; the fate of a task is not a failure of the tool."""

import pki
from harness import contains, equal, holds, lacks
from registry import ALL, LIVE, requirement
from report import CODES
from stub import Http, task

BEARER = {'staff': {'httpAuthSecurityScheme': {'scheme': 'Bearer'}}}


def agree(case, run, code, number):
    """The number and the code are the wanted ones, which notes the code as emitted."""
    run.fails(code, number)
    case.results.notes['codes'].add(code)
    if code in CODES:
        equal(CODES[code], number, f'the exit code of {code}')


@requirement('A2ACLI_EXIT_001', bindings=ALL)
def every_code_has_its_number(case):
    server = case.stub()
    base = ('-a', server.url, '-o', 'json')
    equal(case.run('send', 'hi', *base).code, 0, 'success')
    agree(case, case.run('send', 'hi', '--bogus', *base), 'A2ACLI_ERR_USAGE', 2)
    agree(case, case.run('send', 'hi', '-o', 'json', '-a', server.url + '/none'), 'A2ACLI_ERR_CARD_NOT_FOUND', 3)
    server.files['/html'] = Http(200, b'<html>', 'text/html')
    agree(case, case.run('send', 'hi', '-o', 'json', '-a', server.url + '/html'), 'A2ACLI_ERR_CARD_INVALID', 1)
    agree(case, case.run('task', 'get', 'none', *base), 'TaskNotFoundError', 1)
    locked = case.stub(schemes=BEARER)
    agree(case, case.run('send', 'hi', '-o', 'json', '-a', locked.url), 'A2ACLI_ERR_CREDENTIALS_MISSING', 4)
    equal(locked.calls, [], 'requests without the credential')

    def refuse(call):
        raise Http(401, headers={'WWW-Authenticate': 'Bearer'}, grpc='UNAUTHENTICATED')

    def forbid(call):
        raise Http(403, grpc='PERMISSION_DENIED')

    for answer in (refuse, forbid):
        strict = case.stub(schemes=BEARER, on={'SendMessage': answer, 'SendStreamingMessage': answer})
        run = case.run('send', 'hi', '-o', 'json', '-a', strict.url, '--bearer', 'wrong-token')
        agree(case, run, 'A2ACLI_ERR_AUTH_FAILED', 4)
        open_card = case.stub(on={'SendMessage': answer, 'SendStreamingMessage': answer})
        agree(case, case.run('send', 'hi', '-o', 'json', '-a', open_card.url), 'A2ACLI_ERR_CREDENTIALS_MISSING', 4)
    slow = case.stub(
        streaming=False,
        on={
            'SendMessage': lambda _: {'task': task('t-1', 'TASK_STATE_WORKING')},
            'GetTask': lambda _: task('t-1', 'TASK_STATE_WORKING'),
        },
    )
    agree(case, case.run('send', 'hi', '--timeout', '500ms', '-o', 'json', '-a', slow.url), 'A2ACLI_ERR_TIMEOUT', 5)
    unknown = case.stub(
        interfaces=[{'url': 'https://x.example/soap', 'protocolBinding': 'urn:soap', 'protocolVersion': '1.0'}]
    )
    run = case.run('send', 'hi', '-o', 'json', '-a', unknown.url)
    agree(case, run, 'A2ACLI_ERR_INTERNAL', 1)
    contains(run.error['hint'], 'urn:soap', 'the hint lists what the card offers')
    path = case.file('card.json', server.card)
    server.close()
    agree(case, case.run('send', 'hi', '-o', 'json', '-a', server.url), 'A2ACLI_ERR_UNREACHABLE', 3)
    agree(case, case.run('send', 'hi', '-o', 'json', '-a', path), 'A2ACLI_ERR_UNREACHABLE', 3)


@requirement('A2ACLI_EXIT_001')
def unreachable_comes_in_many_forms(case):
    tls = case.stub(tls=pki.Tls(pki.Authority(case.scratch / 'pki')))
    plain = case.stub()
    for reference in (
        tls.url,
        tls.url.replace('https', 'http'),
        plain.url.replace('http', 'https'),
        'https://no-such-host.invalid',
    ):
        run = case.run('card', 'get', '-a', reference, '-o', 'json', '--timeout', '20s')
        holds(run.code == 3, f'{reference}: {run}')
        lacks(run.err, 'panick', 'stderr')
    busy = case.stub(on={'GetTask': lambda _: raised(Http(503, grpc='UNAVAILABLE'))})
    case.run('task', 'get', 't-1', '-a', busy.url, '-o', 'json').fails('SABIR_ERR_UNAVAILABLE', 3)
    stalled = case.stub(files={'/.well-known/agent-card.json': lambda request: stall(plain)})
    case.run('card', 'get', '-a', stalled.url, '--timeout', '1s', '-o', 'json').fails('A2ACLI_ERR_TIMEOUT', 5)


def raised(what):
    raise what


def stall(server):
    server.closed.wait(20)
    return Http(404)


@requirement('A2ACLI_EXIT_001')
def the_same_numbers_in_text(case):
    server = case.stub()
    for arguments, number in (
        (('send', 'hi', '-a', server.url), 0),
        (('send', 'hi', '--bogus', '-a', server.url), 2),
        (('send', 'hi'), 2),
        (('task', 'get', 'none', '-a', server.url), 1),
        (('card', 'get', '-a', server.url + '/none'), 3),
        (('nonsense',), 2),
        (('--help',), 0),
        (('--version',), 0),
    ):
        equal(case.run(*arguments).code, number, f'exit code of {arguments}')


@requirement('A2ACLI_EXIT_002', agents=LIVE, bindings=ALL)
def the_fate_of_a_task_is_not_a_failure_of_the_tool(case):
    for word, state in (
        ('fail', 'FAILED'),
        ('reject', 'REJECTED'),
        ('ask', 'INPUT_REQUIRED'),
        ('auth', 'AUTH_REQUIRED'),
    ):
        for form in ((), ('-o', 'json'), ('--stream', '-o', 'json')):
            run = case.call('send', word, *form).exits(0)
            contains(run.out, f'TASK_STATE_{state}', 'stdout')
            warnings = [line for line in run.err.splitlines() if line.lower().startswith('warning')]
            holds(any(state in line for line in warnings), f'no warning names {state}: {run}')
    run = case.call('send', 'echo fine').exits(0)
    holds('warning' not in run.err.lower(), f'a warning about a completed task: {run}')


@requirement('A2ACLI_EXIT_002', bindings=ALL)
def a_settled_task_that_is_read_exits_zero(case):
    for state in ('FAILED', 'REJECTED', 'CANCELED', 'INPUT_REQUIRED', 'AUTH_REQUIRED'):
        server = case.stub(on={'GetTask': lambda _: task('t-1', f'TASK_STATE_{state}')})  # noqa: B023
        run = case.run('task', 'get', 't-1', '--wait', '-a', server.url, '-o', 'json').exits(0)
        equal(run.json['status']['state'], f'TASK_STATE_{state}', 'state')
