"""`task get`, `task cancel`, `task list`."""

import json
import uuid

import grammar
from harness import contains, equal, holds
from registry import ALL, LIVE, requirement
from stub import Fault, task

LISTED = 120
CANCELED = 'TASK_STATE_CANCELED'


@requirement('A2ACLI_TASK_GET_001', agents=LIVE, bindings=ALL)
def a_task_is_shown_with_its_artifacts_and_history(case):
    made = case.task('files')
    got = case.ok('task', 'get', made['id'])
    equal(
        (got['id'], got['contextId'], got['status']['state']),
        (made['id'], made['contextId'], 'TASK_STATE_COMPLETED'),
        'task',
    )
    kinds = {kind for a in got['artifacts'] for p in a['parts'] for kind in ('text', 'data', 'raw', 'url') if kind in p}
    equal(kinds, {'text', 'data', 'raw', 'url'}, 'kinds of parts')
    shown = grammar.parse(case.call('task', 'get', made['id']).exits(0).out)
    equal(grammar.last(shown, 'Task ID'), made['id'], 'Task ID')
    equal(grammar.last(shown, 'Context ID'), made['contextId'], 'Context ID')
    equal(grammar.last(shown, 'State'), 'TASK_STATE_COMPLETED', 'State')
    equal(len(grammar.values(shown, 'Artifact ID')), len(got['artifacts']), 'artifacts')
    history = case.ok('task', 'get', made['id'], '--history', '2')['history']
    holds(1 <= len(history) <= 2 and history[0]['role'] in ('ROLE_USER', 'ROLE_AGENT'), f'history: {history}')
    holds(not case.ok('task', 'get', made['id'], '--history', '0').get('history'), 'history of length 0')


@requirement('A2ACLI_TASK_GET_001', bindings=ALL)
def the_length_of_the_history_is_asked_for_as_given(case):
    history = [{'messageId': 'm-1', 'role': 'ROLE_USER', 'parts': [{'text': 'the first words'}]}]
    server = case.stub(on={'GetTask': lambda _: task('t-1', 'TASK_STATE_WORKING', history=history)})
    for flags, wanted in (((), None), (('--history', '0'), 0), (('--history', '7'), 7)):
        case.run('task', 'get', 't-1', *flags, '-a', server.url, '-o', 'json').exits(0)
        params = server.of('GetTask')[-1].params
        equal((params['id'], params.get('historyLength')), ('t-1', wanted), f'parameters with {flags}')
    contains(case.run('task', 'get', 't-1', '--history', '1', '-a', server.url).exits(0).out, 'the first words', 'text')
    equal(case.run('task', 'get', '-a', server.url, env={'A2ACLI_TASK_ID': 't-1'}).code, 0, 'A2ACLI_TASK_ID')
    case.run('task', 'get', 't-1', '--task-id', 't-2', '-a', server.url, '-o', 'json').fails('A2ACLI_ERR_USAGE', 2)
    case.run('task', 'get', 't-1', '--history', '-1', '-a', server.url, '-o', 'json').fails('A2ACLI_ERR_USAGE', 2)


@requirement('A2ACLI_TASK_GET_001', bindings=('JSONRPC', 'HTTP+JSON'))
def a_task_is_passed_through_unchanged(case):
    value = task('t/1 :x', 'TASK_STATE_WORKING', futureField={'deep': [1, None]}, metadata={'k': 1.50})
    server = case.stub(on={'GetTask': lambda _: value})
    equal(case.run('task', 'get', 't/1 :x', '-a', server.url, '-o', 'json').exits(0).json, value, 'the task')
    equal(server.of('GetTask')[0].params['id'], 't/1 :x', 'the id on the wire')


@requirement('A2ACLI_TASK_CANCEL_001', agents=LIVE, bindings=ALL)
def a_task_is_cancelled_and_may_be_cancelled_again(case):
    made = case.task('slow 30', '--async')
    got = case.ok('task', 'cancel', made['id'])
    equal((got['id'], got['status']['state']), (made['id'], CANCELED), 'the answer')
    again = case.ok('task', 'cancel', made['id'])
    equal((again['id'], again['status']['state']), (made['id'], CANCELED), 'the answer to the second')
    shown = grammar.parse(case.call('task', 'cancel', made['id']).exits(0).out)
    equal(grammar.last(shown, 'State'), CANCELED, 'State')


@requirement('A2ACLI_TASK_CANCEL_001', agents=LIVE, bindings=ALL)
def a_settled_task_is_not_cancelled(case):
    made = case.task('echo done')
    error = case.call('task', 'cancel', made['id'], '-o', 'json').fails('TaskNotCancelableError', 1)
    contains(error['hint'], 'COMPLETED', 'the hint says the present state')
    case.call('task', 'cancel', f'no-{uuid.uuid4()}', '-o', 'json').fails('TaskNotFoundError', 1)


@requirement('A2ACLI_TASK_CANCEL_001', bindings=ALL)
def the_request_names_the_task_and_carries_metadata(case):
    def refuse(call):
        raise Fault('TaskNotCancelableError')

    server = case.stub(on={'CancelTask': lambda _: task('t-1', CANCELED)})
    case.run('task', 'cancel', 't-1', '--metadata', '{"why": "bored"}', '-a', server.url, '-o', 'json').exits(0)
    params = server.of('CancelTask')[0].params
    equal((params['id'], params['metadata']), ('t-1', {'why': 'bored'}), 'parameters')
    server = case.stub(on={'CancelTask': refuse, 'GetTask': lambda _: task('t-1', CANCELED)})
    got = case.run('task', 'cancel', 't-1', '-a', server.url, '-o', 'json').exits(0).json
    equal(got['status']['state'], CANCELED, 'an already cancelled task')


@requirement('A2ACLI_TASK_LIST_001', agents=LIVE, bindings=ALL)
def pages_are_walked_without_gap_or_repeat(case):
    agent = case.world.agent(case.agent)
    first = agent.rpc('SendMessage', {'message': message('echo 0')})['task']
    context = first['contextId']
    made = {first['id']} | {
        agent.rpc('SendMessage', {'message': message(f'echo {n}', contextId=context)})['task']['id']
        for n in range(1, LISTED)
    }
    equal(len(made), LISTED, 'tasks made')
    seen, token, pages = [], '', 0
    while pages < 5:
        more = ('--page-token', token) if token else ()
        page = case.ok('task', 'list', '--context-id', context, '--page-size', '50', *more)
        holds(len(page['tasks']) <= 50, f'{len(page["tasks"])} tasks on a page of 50')
        equal(page['totalSize'], LISTED, 'totalSize')
        seen += [found['id'] for found in page['tasks']]
        token, pages = page['nextPageToken'], pages + 1
        if not token:
            break
    equal((len(seen), set(seen), pages), (LISTED, made, 3), 'the walk')
    lines = case.call('task', 'list', '--context-id', context, '--all', '--stream', '-o', 'json').exits(0).jsonl
    equal({found['id'] for found in lines}, made, '--all, a task per line')
    equal(len(lines), LISTED, 'lines')


def message(text, **more):
    return {'messageId': str(uuid.uuid4()), 'role': 'ROLE_USER', 'parts': [{'text': text}], **more}


@requirement('A2ACLI_TASK_LIST_001', agents=LIVE, bindings=ALL)
def tasks_are_filtered_by_state_and_context(case):
    asked = case.task('ask')
    context = asked['contextId']
    done = case.task('echo x', '--context-id', context)
    ids = lambda *flags: {t['id'] for t in case.ok('task', 'list', '--context-id', context, *flags)['tasks']}  # noqa: E731
    equal(ids(), {asked['id'], done['id']}, 'by context')
    for spelling in ('input_required', 'INPUT_REQUIRED', 'TASK_STATE_INPUT_REQUIRED'):
        equal(ids('--status', spelling), {asked['id']}, f'by context and {spelling}')
    equal(ids('--status', 'completed'), {done['id']}, 'by context and completed')
    shown = grammar.parse(case.call('task', 'list', '--context-id', context).exits(0).out)
    equal(set(grammar.values(shown, 'Task ID')), {asked['id'], done['id']}, 'Task ID in text')
    equal(grammar.last(shown, 'Total'), '2', 'Total')


@requirement('A2ACLI_TASK_LIST_001', bindings=ALL)
def the_query_on_the_wire(case):
    page = lambda call: {  # noqa: E731
        'tasks': [task(f't-{call.count}', 'TASK_STATE_WORKING')],
        'nextPageToken': 'more' if call.count == 0 else '',
        'pageSize': 1,
        'totalSize': 2,
    }
    server = case.stub(on={'ListTasks': page})
    run = case.run('task', 'list', '--stream', '-o', 'json', '-a', server.url).exits(0)
    equal([line['id'] for line in run.jsonl], ['t-0'], 'lines')
    contains(run.err, 'more', 'the token of the next page on stderr')
    case.run(
        'task',
        'list',
        '--status',
        'working',
        '--context-id',
        'c-9',
        '--page-size',
        '7',
        '--page-token',
        'p/2+x',
        '--since',
        '2026-01-02T03:04:05Z',
        '--include-artifacts',
        '--history',
        '3',
        '-o',
        'json',
        '-a',
        server.url,
    ).exits(0)
    params = server.of('ListTasks')[-1].params
    for key, wanted in (
        ('status', 'TASK_STATE_WORKING'),
        ('contextId', 'c-9'),
        ('pageSize', 7),
        ('pageToken', 'p/2+x'),
        ('historyLength', 3),
    ):
        equal(params.get(key), wanted, key)
    holds(str(params.get('includeArtifacts')).lower() == 'true', f'includeArtifacts: {params}')
    holds(params['statusTimestampAfter'].startswith('2026-01-02T03:04:05'), f'statusTimestampAfter: {params}')
    for bad in (('--page-size', '0'), ('--page-size', '101'), ('--status', 'dreaming'), ('--since', 'yesterday')):
        case.run('task', 'list', *bad, '-o', 'json', '-a', server.url).fails('A2ACLI_ERR_USAGE', 2)
    empty = case.stub(on={'ListTasks': lambda _: {'tasks': [], 'nextPageToken': '', 'pageSize': 50, 'totalSize': 0}})
    got = case.run('task', 'list', '-o', 'json', '-a', empty.url).exits(0).json
    equal(got, {'tasks': [], 'nextPageToken': '', 'pageSize': 50, 'totalSize': 0}, 'an empty list')
    holds(json.dumps(got), 'a document')
