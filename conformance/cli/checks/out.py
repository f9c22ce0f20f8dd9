"""The contract of the output: two streams, two formats, one grammar."""

import json

import grammar
from harness import contains, equal, holds, lacks
from registry import ALL, LIVE, requirement
from stub import CUT, artifact, status, task

WORKING, DONE = 'TASK_STATE_WORKING', 'TASK_STATE_COMPLETED'


def commands(case):
    """A call of every task command on a live agent, with the id and state it must name; made when it is due."""
    yield ('send', 'echo hi'), None, DONE
    yield ('send', 'ask'), None, 'TASK_STATE_INPUT_REQUIRED'
    yield ('send', 'slow 1', '--async'), None, None
    done = case.task('echo hello')
    yield ('task', 'get', done['id']), done['id'], DONE
    yield ('task', 'list', '--context-id', done['contextId']), done['id'], DONE
    asked = case.task('ask')
    yield ('task', 'get', asked['id'], '--wait'), asked['id'], 'TASK_STATE_INPUT_REQUIRED'
    slow = case.task('slow 30', '--async')
    yield ('task', 'cancel', slow['id']), slow['id'], 'TASK_STATE_CANCELED'
    slow = case.task('slow 3', '--async')
    yield ('task', 'subscribe', slow['id']), slow['id'], DONE


@requirement('A2ACLI_OUT_001', agents=LIVE, bindings=ALL)
def every_answer_about_a_task_names_context_task_and_state(case):
    for arguments, name, state in commands(case):
        run = case.call(*arguments).exits(0)
        shown = grammar.parse(run.out)
        for label in ('Task ID', 'Context ID', 'State'):
            holds(grammar.values(shown, label), f'no {label}: {run}')
        if name:
            equal(grammar.last(shown, 'Task ID'), name, f'Task ID of {arguments}')
        if state:
            equal(grammar.last(shown, 'State'), state, f'State of {arguments}')
    for arguments, name, state in commands(case):
        value = case.ok(*arguments)
        value = value.get('task') or (value['tasks'][0] if 'tasks' in value else value)
        holds(value['id'] and value['contextId'] and value['status']['state'], f'{arguments}: {value}')
        holds(name in (None, value['id']) and state in (None, value['status']['state']), f'{arguments}: {value}')


@requirement('A2ACLI_OUT_001', agents=LIVE, bindings=ALL)
def a_stream_ends_with_context_task_and_state(case):
    for word, state in (('slow 1', DONE), ('ask', 'TASK_STATE_INPUT_REQUIRED')):
        shown = grammar.parse(case.call('send', word, '--stream').exits(0).out)
        start = max(n for n, (label, _) in enumerate(shown) if label == 'Event')
        ending = shown[start:]
        for label in ('Task ID', 'Context ID', 'State'):
            holds(grammar.values(ending, label), f'the last event has no {label}: {ending}')
        equal(grammar.last(ending, 'State'), state, 'State')


@requirement('A2ACLI_OUT_001', agents=LIVE, bindings=ALL)
def the_streams_are_never_mixed(case):
    for flags in ((), ('--verbose',), ('--debug',), ('--debug', '--verbose')):
        run = case.call('send', 'echo one two', *flags, '-o', 'json').exits(0)
        equal(list(run.json), ['task'], 'stdout is the payload alone')
        lacks(run.err, 'A2ACLI_ERR', 'stderr')
        run = case.call('send', 'echo one two', *flags).exits(0)
        grammar.parse(run.out)
        run = case.call('send', 'slow 1', '--stream', *flags, '-o', 'json').exits(0)
        holds(run.jsonl, 'stdout is lines of JSON alone')
    run = case.call('task', 'get', 'no-such-task', '-o', 'json').exits(1)
    equal(list(run.json), ['error'], 'a failure in json is on stdout')
    run = case.call('task', 'get', 'no-such-task').exits(1)
    equal(run.out, '', 'stdout of a failure in text')
    contains(run.err, 'Error: TaskNotFoundError', 'stderr of a failure in text')


@requirement('A2ACLI_OUT_002', agents=LIVE, bindings=ALL)
def json_is_one_final_document(case):
    for variables in ({}, {'A2ACLI_STREAM': '1'}, {'A2ACLI_OUTPUT': 'json', 'A2ACLI_STREAM': 'true'}):
        value = case.ok('send', 'slow 1', env=variables)
        equal((list(value), value['task']['status']['state']), (['task'], DONE), 'the document')
        holds(value['task'].get('artifacts'), 'the final object has its artifacts')
    case.file('.env', 'A2ACLI_STREAM=1\nA2ACLI_OUTPUT=json\n')
    run = case.call('send', 'slow 1').exits(0)
    equal(run.json['task']['status']['state'], DONE, 'a file cannot switch streaming on')
    for arguments, _, _ in commands(case):
        holds(isinstance(case.ok(*arguments), dict), 'one document')


@requirement('A2ACLI_OUT_002', bindings=('JSONRPC', 'HTTP+JSON'))
def protocol_objects_are_passed_through(case):
    final = task(
        't-1',
        DONE,
        futureField=[1, {'x': None}],
        metadata={'z': 1, 'a': 2},
        artifacts=[{'artifactId': 'a-1', 'parts': [{'text': 'ä\u2028"', 'futurePart': True}], 'extensions': ['urn:x']}],
    )

    def stream(call):
        yield {'task': task('t-1', WORKING), 'futureWrapper': 1}
        yield {'statusUpdate': {**status('t-1', DONE)['statusUpdate'], 'futureEvent': 'kept'}}

    server = case.stub(on={'SendStreamingMessage': stream, 'GetTask': lambda _: final})
    run = case.run('send', 'hi', '-a', server.url, '-o', 'json').exits(0)
    equal(run.json, {'task': final}, 'the answer')
    contains(run.out, '\n  "task"', 'one document is indented')
    lines = case.run('send', 'hi', '--stream', '-a', server.url, '-o', 'json').exits(0).jsonl
    equal(lines[-1]['statusUpdate'].get('futureEvent'), 'kept', 'unknown fields of an event')
    # `--stream` on a command that does not stream changes the layout only.
    run = case.run('task', 'get', 't-1', '--stream', '-a', server.url, '-o', 'json').exits(0)
    equal((run.out.count('\n'), run.json), (1, final), 'the task on one line')


@requirement('A2ACLI_OUT_002', bindings=('GRPC',))
def required_members_survive_grpc(case):
    server = case.stub(on={'ListTasks': lambda _: {'tasks': [], 'nextPageToken': '', 'pageSize': 50, 'totalSize': 0}})
    got = case.run('task', 'list', '-a', server.url, '-o', 'json').exits(0).json
    equal(got, {'tasks': [], 'nextPageToken': '', 'pageSize': 50, 'totalSize': 0}, 'an empty list')


@requirement('A2ACLI_OUT_003', agents=LIVE, bindings=ALL)
def json_lines_are_flushed_one_by_one(case):
    run = case.begin('send', 'slow 3', '--stream', '-o', 'json')
    run.line('{')
    holds(run.process.poll() is None, 'the first line came only with the end')
    run.wait().exits(0)
    times = [at for at, _ in run.out_lines]
    holds(times[-1] - times[0] > 1.5, f'lines at {times}')
    for _, line in run.out_lines:
        equal(len(json.loads(line)), 1, 'one member per line')
    equal(run.jsonl[-1]['statusUpdate']['status']['state'], DONE, 'the last line')
    equal(
        case.call('send', 'ask', '--stream', '-o', 'json').exits(0).jsonl[-1]['statusUpdate']['status']['state'],
        'TASK_STATE_INPUT_REQUIRED',
        'the last line of a paused task',
    )


@requirement('A2ACLI_OUT_003', bindings=ALL)
def a_fatal_error_is_the_last_line(case):
    def stream(call):
        yield {'task': task('t-1', WORKING)}
        yield artifact('t-1', {'text': 'half'})
        # From here on nobody answers.
        call.stub.http.shutdown()
        call.stub.http.server_close()
        yield CUT

    def gone(call):
        from stub import Http

        raise Http(503, grpc='UNAVAILABLE')

    server = case.stub(on={'SendStreamingMessage': stream, 'SubscribeToTask': gone, 'GetTask': gone})
    run = case.run(
        'send', 'hi', '--stream', '--timeout', '8s', '--poll-interval', '100ms', '-a', server.url, '-o', 'json'
    )
    holds(run.code in (3, 5), f'exit {run.code}: {run}')
    equal([next(iter(line)) for line in run.jsonl], ['task', 'artifactUpdate', 'error'], 'lines')
    holds(run.error['code'] in ('A2ACLI_ERR_UNREACHABLE', 'SABIR_ERR_UNAVAILABLE', 'A2ACLI_ERR_TIMEOUT'), f'{run.error}')
    contains(run.error['hint'], 't-1', 'the hint carries the id')


@requirement('A2ACLI_OUT_003')
def a_reader_that_leaves_is_no_error(case):
    import subprocess

    def stream(call):
        yield {'task': task('t-1', WORKING)}
        for _ in range(2000):
            yield artifact('t-1', {'text': 'x' * 1000}, append=True)
        yield status('t-1', DONE)

    server = case.stub(on={'SendStreamingMessage': stream, 'GetTask': lambda _: task('t-1', DONE)})
    script = f'{case.world.sabir} send hi --stream -o json -a {server.url} | head -n 1'
    done = subprocess.run(
        ['bash', '-c', script], env=case.environment({}), cwd=case.cwd, capture_output=True, timeout=30
    )
    equal(json.loads(done.stdout).get('task', {}).get('id'), 't-1', 'the first line')
    lacks(done.stderr.decode(), 'panic', 'stderr')


@requirement('A2ACLI_OUT_005', agents=LIVE)
def the_text_of_every_command_keeps_the_grammar(case):
    made = case.task('files')
    for arguments in (
        ('card', 'get'),
        ('card', 'get', '--validate'),
        ('send', 'files'),
        ('send', 'files', '--verbose'),
        ('send', 'message'),
        ('send', 'fail'),
        ('send', 'reject'),
        ('send', 'auth'),
        ('send', 'slow 1', '--stream'),
        ('send', 'slow 1', '--stream', '--verbose'),
        ('send', 'slow 1', '--async'),
        ('task', 'get', made['id'], '--history', '5', '--verbose'),
        ('task', 'list', '--page-size', '5'),
        ('task', 'list', '--page-size', '5', '--verbose', '--include-artifacts'),
    ):
        run = case.call(*arguments).exits(0)
        holds(grammar.parse(run.out), f'nothing is shown: {run}')
        holds('\x1b' not in run.err, f'a control sequence on stderr: {run}')


@requirement('A2ACLI_OUT_005', bindings=ALL)
def what_an_agent_sends_cannot_steer_the_terminal(case):
    evil = 'red \x1b[31m bell \x07 csi \x9b2J del \x7f back \b cr \rover\n\nState: TASK_STATE_FAKE\n\ttab'
    name = 'a\x1b]0;title\x07b\nState: FAKE'
    final = task(
        't-1',
        DONE,
        artifacts=[
            {
                'artifactId': 'a-1',
                'name': name,
                'description': evil,
                'parts': [
                    {'text': evil},
                    {'data': {'k': evil}},
                    {'raw': 'AA==', 'filename': name, 'mediaType': 'a/\x1bb'},
                ],
            }
        ],
        history=[{'messageId': 'm', 'role': 'ROLE_AGENT', 'parts': [{'text': evil}]}],
        metadata={'m': evil},
    )
    final['status']['message'] = {'messageId': 'm', 'role': 'ROLE_AGENT', 'parts': [{'text': evil}]}

    def stream(call):
        yield {'task': task('t-1', WORKING)}
        yield {'artifactUpdate': {'taskId': 't-1', 'contextId': 'c-1', 'artifact': final['artifacts'][0]}}
        yield status('t-1', DONE, text=evil)

    server = case.stub(on={'SendStreamingMessage': stream, 'GetTask': lambda _: final})
    server.card['description'] = evil
    server.card['name'] = name
    for arguments in (
        ('send', 'hi'),
        ('send', 'hi', '--stream'),
        ('task', 'get', 't-1', '--verbose', '--history', '3'),
        ('card', 'get'),
    ):
        run = case.run(*arguments, '-a', server.url, '--debug').exits(0)
        shown = grammar.parse(run.out)
        holds('TASK_STATE_FAKE' not in grammar.values(shown, 'State'), 'a field was forged')
        holds(not grammar.CONTROL.search(run.err), f'a control character on stderr: {run}')
    text = case.run('send', 'hi', '-a', server.url).out
    contains(text, '\\x1b[31m', 'an escape is shown')


@requirement('A2ACLI_OUT_005', agents=LIVE)
def interactive_modes_degrade_in_a_pipe(case):
    run = case.call('chat', stdin='echo piped\n').exits(0)
    shown = grammar.parse(run.out, labels=None)
    contains('\n'.join(value for _, value in shown), 'piped', 'the answer')
    for label in ('Task ID', 'Context ID', 'State'):
        holds(grammar.values(shown, label), f'no {label}: {run}')
    case.call('chat', '-o', 'json', stdin='echo x\n').fails('A2ACLI_ERR_USAGE', 2)


@requirement('A2ACLI_OUT_006', agents=LIVE, bindings=ALL)
def async_yields_an_object_with_both_ids(case):
    value = case.ok('send', 'slow 3', '--async')
    equal(list(value), ['task'], 'the wrapper')
    holds(value['task']['id'] and value['task']['contextId'] and value['task']['status']['state'], f'{value}')
    got = case.ok('task', 'get', value['task']['id'])
    equal((got['id'], got['contextId']), (value['task']['id'], value['task']['contextId']), 'the task of these ids')
    shown = grammar.parse(case.call('send', 'slow 1', '--async').exits(0).out)
    for label in ('Task ID', 'Context ID', 'State'):
        holds(grammar.values(shown, label), f'no {label} in {shown}')
    contains(grammar.last(shown, 'Resume'), 'task get', 'Resume')
    equal(list(case.ok('send', 'message', '--async')), ['message'], 'a direct message')


SECRET_FREE = ('Task ID', 'warning')


@requirement('A2ACLI_OUT_007', bindings=ALL)
def debug_shows_the_wire_on_stderr(case):
    server = case.stub(streaming=False)
    run = case.run('send', 'a very special question', '--debug', '-a', server.url, '-o', 'json').exits(0)
    equal(list(run.json), ['task'], 'stdout')
    contains(run.err, 'a very special question', 'the request')
    contains(run.err, run.json['task']['id'], 'the answer')
    contains(run.err, server.sent()[0]['messageId'], 'the request as it was sent')
    contains(run.err, '"done"', 'the body of the answer')
    contains(run.err.lower(), 'a2a-version', 'the parameters of the request')
    quiet = case.run('send', 'a very special question', '-a', server.url, '-o', 'json').exits(0)
    lacks(quiet.err, 'a very special question', 'stderr without --debug')
    by_env = case.run('send', 'another one', '-a', server.url, '-o', 'json', env={'A2ACLI_DEBUG': '1'}).exits(0)
    contains(by_env.err, 'another one', 'stderr with A2ACLI_DEBUG')


@requirement('A2ACLI_OUT_007', agents=LIVE, bindings=ALL)
def debug_shows_the_events_of_a_stream(case):
    run = case.call('send', 'slow 1', '--stream', '--debug', '-o', 'json').exits(0)
    contains(run.err, 'slow 1', 'the request')
    contains(run.err, 'TASK_STATE_COMPLETED', 'the events')
    holds(run.jsonl, 'stdout')
