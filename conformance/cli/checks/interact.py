"""Identifiers: whose they are, how they are carried on, and that nothing is remembered."""

import shlex
import uuid

import grammar
from harness import contains, equal, holds, lacks
from registry import ALL, LIVE, requirement
from stub import task


@requirement('A2ACLI_INTERACT_001', agents=LIVE, bindings=ALL)
def a_context_groups_tasks(case):
    first = case.task('echo one')
    second = case.task('echo two', '--context-id', first['contextId'])
    equal(second['contextId'], first['contextId'], 'context of the second task')
    holds(second['id'] != first['id'], 'the second send made a task of its own')


@requirement('A2ACLI_INTERACT_001', bindings=ALL)
def a_context_is_sent_as_given(case):
    server = case.stub()
    case.run('send', 'hi', '--context-id', 'any context/at all', '-a', server.url, '-o', 'json').exits(0)
    case.run('send', 'hi', '-a', server.url, '-o', 'json', env={'A2ACLI_CONTEXT_ID': 'from-env'}).exits(0)
    equal([m.get('contextId') for m in server.sent()], ['any context/at all', 'from-env'], 'contexts')
    equal([m.get('taskId') or None for m in server.sent()], [None, None], 'task ids')


@requirement('A2ACLI_INTERACT_002', agents=LIVE, bindings=ALL)
def a_paused_task_is_continued_by_its_id(case):
    for with_context in (False, True):
        asked = case.task('ask')
        equal(asked['status']['state'], 'TASK_STATE_INPUT_REQUIRED', 'state')
        context = ('--context-id', asked['contextId']) if with_context else ()
        done = case.task('Monday', '--task-id', asked['id'], *context)
        equal((done['id'], done['contextId']), (asked['id'], asked['contextId']), 'ids')
        equal(done['status']['state'], 'TASK_STATE_COMPLETED', 'state')


@requirement('A2ACLI_INTERACT_002', agents=LIVE, bindings=ALL)
def a_refused_id_fails_by_name_and_makes_no_task(case):
    settled = case.task('echo settled')
    context = settled['contextId']
    count = lambda: case.ok('task', 'list', '--context-id', context)['totalSize']  # noqa: E731
    before = count()
    refused = case.call('send', 'hi', '--task-id', f'no-{uuid.uuid4()}', '--context-id', context, '-o', 'json')
    error = refused.fails('TaskNotFoundError', 1)
    contains(error.get('hint') or '', '--debug', 'the hint')
    for pair in (
        ('--task-id', settled['id'], '--context-id', context),
        ('--task-id', case.task('ask')['id'], '--context-id', context),
    ):
        run = case.call('send', 'hi', *pair, '-o', 'json').exits(1)
        code = run.error['code']
        holds(code.endswith('Error') and not code.startswith('A2ACLI'), f'{code} is not a name of the protocol: {run}')
        contains(run.error.get('hint') or '', '--debug', 'the hint')
    equal(count(), before, 'tasks in the context')


@requirement('A2ACLI_INTERACT_002', bindings=ALL)
def an_answer_about_another_task_is_not_believed(case):
    other = lambda _: {'task': task('t-other', 'TASK_STATE_COMPLETED')}  # noqa: E731
    server = case.stub(streaming=False, on={'SendMessage': other})
    case.run('send', 'hi', '--task-id', 't-mine', '-a', server.url, '-o', 'json').fails('InvalidAgentResponseError', 1)
    equal(server.sent()[0]['taskId'], 't-mine', 'the id sent')


@requirement('A2ACLI_INTERACT_003', bindings=ALL)
def server_ids_are_never_made_up(case):
    server = case.stub()
    for extra in ((), ('--async',), ('--stream',)):
        case.run('send', 'hi', *extra, '-a', server.url, '-o', 'json').exits(0)
    for message in server.sent():
        equal((message.get('taskId') or None, message.get('contextId') or None), (None, None), 'ids of a first message')
    case.run('send', 'hi', '--task-id', 't-1', '-a', server.url, '-o', 'json').exits(0)
    message = server.sent()[-1]
    equal((message['taskId'], message.get('contextId') or None), ('t-1', None), 'ids of a continued task')


@requirement('A2ACLI_INTERACT_003', agents=LIVE, bindings=ALL)
def a_second_message_does_not_join_the_first(case):
    first, second = case.task('ask'), case.task('echo hello')
    holds(first['id'] != second['id'] and first['contextId'] != second['contextId'], 'two sends share an id')


def printed(case, text, **words):
    """The command of a `Resume` line, with its placeholder filled in."""
    command = text.partition('Resume: ')[2].splitlines()[0] if 'Resume: ' in text else text
    arguments = shlex.split(command)
    equal(arguments[0], 'sabir', 'the command')
    return [
        words.get(argument.strip('<>'), argument) if argument.startswith('<') else argument
        for argument in arguments[1:]
    ]


@requirement('A2ACLI_INTERACT_004', agents=LIVE, bindings=ALL)
def the_printed_command_goes_on(case):
    transport = ('--transport', case.binding)
    # Paused: the command answers.
    run = case.call('send', 'ask').exits(0)
    shown = grammar.parse(run.out)
    name, context = grammar.last(shown, 'Task ID'), grammar.last(shown, 'Context ID')
    equal(grammar.last(shown, 'State'), 'TASK_STATE_INPUT_REQUIRED', 'State')
    command = printed(case, run.out, reply='Monday')
    equal(command[0], 'send', 'the command for a paused task')
    done = case.run(*command, *transport, '-o', 'json').exits(0).json['task']
    equal((done['id'], done['status']['state']), (name, 'TASK_STATE_COMPLETED'), 'after the printed command')
    # Settled: the command starts the next task in the context.
    run = case.call('send', 'echo one').exits(0)
    shown = grammar.parse(run.out)
    command = printed(case, run.out, message='echo next')
    following = case.run(*command, *transport, '-o', 'json').exits(0).json['task']
    equal(following['contextId'], grammar.last(shown, 'Context ID'), 'context of the next task')
    holds(following['id'] != grammar.last(shown, 'Task ID'), 'the next task is a new one')
    # In flight: the command waits for the end.
    run = case.call('send', 'slow 1', '--async').exits(0)
    shown = grammar.parse(run.out)
    ended = case.run(*printed(case, run.out), *transport, '-o', 'json').exits(0).json
    equal((ended['id'], ended['status']['state']), (grammar.last(shown, 'Task ID'), 'TASK_STATE_COMPLETED'), 'the end')
    holds(context, 'a context id')


@requirement('A2ACLI_INTERACT_004', agents=LIVE, bindings=ALL)
def in_json_the_command_is_on_stderr(case):
    run = case.call('send', 'ask', '-o', 'json').exits(0)
    lines = [line for line in run.err.splitlines() if 'sabir send' in line]
    holds(lines, f'no command to go on: {run}')
    command = printed(case, lines[-1][lines[-1].index('sabir send') :], reply='Monday')
    done = case.run(*command, '--transport', case.binding, '-o', 'json').exits(0).json['task']
    equal(done['status']['state'], 'TASK_STATE_COMPLETED', 'state')


@requirement('A2ACLI_INTERACT_004')
def the_printed_command_is_quoted_and_holds_no_secret(case):
    odd = "t 1'; echo $HOME #"
    server = case.stub(
        streaming=False,
        on={
            'SendMessage': lambda _: {'task': task(odd, 'TASK_STATE_INPUT_REQUIRED')},
            'GetTask': lambda _: task(odd, 'TASK_STATE_INPUT_REQUIRED'),
        },
        schemes={'staff': {'httpAuthSecurityScheme': {'scheme': 'Bearer'}}},
    )
    run = case.run('send', 'hi', '-a', server.url, '--bearer', 'hush-hush-token').exits(0)
    lacks(run.out + run.err, 'hush-hush-token', 'the output')
    command = printed(case, run.out, reply='x')
    equal(command[command.index('--task-id') + 1], odd, 'the quoted id')
    contains(' '.join(command), server.url, 'the agent given by a flag')
    run = case.run('send', 'hi', '--bearer', 'hush-hush-token', env={'A2ACLI_AGENT_CARD': server.url}).exits(0)
    lacks(' '.join(printed(case, run.out)), '--agent-card', 'the agent given by a variable')


@requirement('A2ACLI_INTERACT_005', agents=LIVE)
def nothing_is_remembered_between_runs(case):
    made = case.task('ask')
    case.call('task', 'get', made['id']).exits(0)
    case.call('send', 'slow 1', '--stream', '-o', 'json').exits(0)
    for name, content in case.tree().items():
        for secret in (made['id'], made['contextId']):
            lacks(content.decode(errors='replace'), secret, f'the file {name}')
            lacks(name, secret, 'names of files')
    holds(all('/.cache/' in name or '/.config/sabir' in name for name in case.tree()), f'files: {list(case.tree())}')


@requirement('A2ACLI_INTERACT_005')
def there_is_no_shortcut_to_the_last_task(case):
    server = case.stub()
    for flags in (('--continue',), ('--last',), ('--resume',), ('-c',)):
        case.run('send', 'hi', *flags, '-a', server.url, '-o', 'json').fails('A2ACLI_ERR_USAGE', 2)
    case.run('task', 'get', '-a', server.url, '-o', 'json').fails('A2ACLI_ERR_USAGE', 2)
    case.run('poll', 't-1', '-a', server.url, '-o', 'json').fails('A2ACLI_ERR_USAGE', 2)
    equal(server.calls, [], 'requests')
