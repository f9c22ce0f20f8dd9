"""Waiting: by polling, within limits, to the right states, and over streams that fail."""

import signal

import grammar
from harness import contains, equal, holds, until
from registry import ALL, LIVE, requirement
from stub import CUT, Fault, Http, Raw, artifact, task

WORKING, DONE = 'TASK_STATE_WORKING', 'TASK_STATE_COMPLETED'


@requirement('A2ACLI_TASK_POLL_001', agents=LIVE, bindings=ALL)
def one_read_and_a_wait(case):
    made = case.task('slow 3', '--async')
    run = case.call('task', 'get', made['id'], '-o', 'json').exits(0)
    holds(run.json['status']['state'] in ('TASK_STATE_SUBMITTED', WORKING), f'one read: {run.json["status"]}')
    run = case.call('task', 'get', made['id'], '--wait', '--poll-interval', '200ms', '-o', 'json').exits(0)
    equal((run.json['id'], run.json['status']['state']), (made['id'], DONE), 'after --wait')
    holds(run.json.get('artifacts'), 'the artifacts are there')


@requirement('A2ACLI_TASK_POLL_001', bindings=ALL)
def one_read_asks_once_and_a_wait_until_the_end(case):
    server = case.stub(on={'GetTask': lambda call: task('t-1', DONE if call.count >= 4 else WORKING)}, streaming=False)
    case.run('task', 'get', 't-1', '-a', server.url, '-o', 'json').exits(0)
    equal(len(server.calls), 1, 'reads without --wait')
    run = case.run('task', 'get', 't-1', '--wait', '--poll-interval', '100ms', '-a', server.url, '-o', 'json').exits(0)
    equal((run.json['status']['state'], len(server.of('GetTask'))), (DONE, 5), 'reads with --wait')
    run = case.run('task', 'get', 't-1', '-a', server.url, '-o', 'json', env={'A2ACLI_WAIT': '1'}).exits(0)
    equal(run.json['status']['state'], DONE, 'A2ACLI_WAIT')


def endless(case, **more):
    """An agent whose task never ends, polled."""
    on = {'SendMessage': lambda _: {'task': task('t-1', WORKING)}, 'GetTask': lambda _: task('t-1', WORKING), **more}
    return case.stub(streaming=False, on=on)


@requirement('A2ACLI_TASK_POLL_002', bindings=ALL)
def the_interval_is_kept_and_the_pause_grows_within_bounds(case):
    server = endless(case)
    case.run('send', 'hi', '--poll-interval', '300ms', '--timeout', '6s', '-a', server.url, '-o', 'json').fails(
        'A2ACLI_ERR_TIMEOUT', 5
    )
    times = [call.time for call in server.of('GetTask')]
    gaps = [later - earlier for earlier, later in zip(times, times[1:])]
    holds(len(gaps) >= 5, f'polls at {times}')
    holds(all(gap >= 0.28 for gap in gaps), f'a pause is too short: {gaps}')
    holds(all(gap <= 2.5 for gap in gaps), f'a pause is too long: {gaps}')
    holds(max(gaps[-2:]) > 0.36, f'the pause does not grow: {gaps}')


@requirement('A2ACLI_TASK_POLL_002', bindings=ALL)
def the_timeout_ends_the_wait_with_its_own_exit_code(case):
    server = endless(case)
    for command in (('send', 'hi'), ('task', 'get', 't-1', '--wait')):
        run = case.run(*command, '--timeout', '1500ms', '--poll-interval', '200ms', '-a', server.url, '-o', 'json')
        error = run.fails('A2ACLI_ERR_TIMEOUT', 5)
        contains(error['hint'], 't-1', 'the hint carries the id')
        holds(1.4 <= run.seconds < 6, f'it took {run.seconds:.1f} s')
    run = case.run('send', 'hi', '--timeout', '1s', '-a', server.url).exits(5)
    contains(run.err, 'A2ACLI_ERR_TIMEOUT', 'stderr in text')
    case.run('send', 'hi', '--poll-interval', '10ms', '-a', server.url, '-o', 'json').fails('A2ACLI_ERR_USAGE', 2)
    case.run('send', 'hi', '--timeout', 'soon', '-a', server.url, '-o', 'json').fails('A2ACLI_ERR_USAGE', 2)


@requirement('A2ACLI_TASK_POLL_002')
def an_agent_that_never_answers_is_given_up_on(case):
    server = case.stub(streaming=False, on={'SendMessage': lambda call: call.stub.closed.wait(30) and CUT})
    run = case.run('send', 'hi', '--timeout', '1s', '-a', server.url, '-o', 'json')
    run.fails('A2ACLI_ERR_TIMEOUT', 5)
    holds(run.seconds < 6, f'it took {run.seconds:.1f} s')


@requirement('A2ACLI_TASK_POLL_002', bindings=ALL)
def ctrl_c_keeps_the_id_and_cancels_nothing(case):
    server = endless(case)
    for form in ((), ('-o', 'json')):
        run = case.start('send', 'hi', '--poll-interval', '200ms', '-a', server.url, *form)
        run.line('Task ID: t-1', 'err')
        polls = len(server.of('GetTask'))
        until(lambda: len(server.of('GetTask')) > polls, 'a poll')
        run.signal(signal.SIGINT)
        run.wait(10).exits(130)
        contains(run.err, 'sabir task get', 'the command to go on')
        contains(run.err, 't-1', 'the id')
    equal(server.of('CancelTask'), [], 'cancellations')


@requirement('A2ACLI_TASK_POLL_002', bindings=ALL)
def a_few_failed_polls_are_survived_and_many_are_not(case):
    def flaky(call):
        if call.count in (1, 2):
            raise Http(503, grpc='UNAVAILABLE')
        return task('t-1', DONE if call.count > 3 else WORKING)

    server = endless(case, GetTask=flaky)
    run = case.run('task', 'get', 't-1', '--wait', '--poll-interval', '100ms', '-a', server.url, '-o', 'json').exits(0)
    equal(run.json['status']['state'], DONE, 'state')

    def dead(call):
        if call.count:
            raise Http(503, grpc='UNAVAILABLE')
        return task('t-1', WORKING)

    server = endless(case, GetTask=dead)
    run = case.run('task', 'get', 't-1', '--wait', '--poll-interval', '100ms', '-a', server.url, '-o', 'json')
    run.fails('SABIR_ERR_UNAVAILABLE', 3)
    holds(len(server.of('GetTask')) <= 6, f'{len(server.of("GetTask"))} polls of a dead agent')


@requirement('A2ACLI_TASK_POLL_003', agents=LIVE, bindings=ALL)
def the_wait_stops_where_the_user_is_needed(case):
    for word, state in (('ask', 'TASK_STATE_INPUT_REQUIRED'), ('auth', 'TASK_STATE_AUTH_REQUIRED')):
        made = case.task(word, '--timeout', '20s')
        equal(made['status']['state'], state, f'state after {word}')
        run = case.call('task', 'get', made['id'], '--wait', '--timeout', '20s', '-o', 'json').exits(0)
        equal(run.json['status']['state'], state, 'state of a wait for it')
        holds(run.seconds < 10, f'it took {run.seconds:.1f} s')


@requirement('A2ACLI_TASK_POLL_003', agents=('demo', 'python'), bindings=ALL)
def an_unspecified_state_is_waited_for_until_the_timeout(case):
    made = case.task('unspecified', '--async')
    run = case.call(
        'task', 'get', made['id'], '--wait', '--poll-interval', '200ms', '--timeout', '1500ms', '-o', 'json'
    )
    run.fails('A2ACLI_ERR_TIMEOUT', 5)
    holds(run.seconds >= 1.4, f'it gave up after {run.seconds:.1f} s')


@requirement('A2ACLI_TASK_POLL_003', bindings=ALL)
def an_unspecified_or_unknown_state_is_no_end(case):
    names = ['TASK_STATE_UNSPECIFIED'] + ([] if case.binding == 'GRPC' else ['TASK_STATE_DREAMING'])
    for name in names:
        server = endless(case, GetTask=lambda call: task('t-1', DONE if call.count > 4 else name))  # noqa: B023
        run = case.run(
            'task', 'get', 't-1', '--wait', '--poll-interval', '100ms', '-a', server.url, '-o', 'json'
        ).exits(0)
        equal((run.json['status']['state'], len(server.of('GetTask'))), (DONE, 6), f'end and polls with {name}')
        server = endless(case, GetTask=lambda call: task('t-1', name))  # noqa: B023
        run = case.run('task', 'get', 't-1', '-a', server.url).exits(0)
        equal(grammar.last(grammar.parse(run.out), 'State'), name, 'State as received')
    for state in (
        'TASK_STATE_INPUT_REQUIRED',
        'TASK_STATE_AUTH_REQUIRED',
        'TASK_STATE_REJECTED',
        'TASK_STATE_CANCELED',
    ):
        server = endless(case, GetTask=lambda call: task('t-1', state))  # noqa: B023
        case.run('task', 'get', 't-1', '--wait', '-a', server.url, '-o', 'json').exits(0)
        equal(len(server.of('GetTask')), 1, f'polls at {state}')


@requirement('A2ACLI_TASK_POLL_004', agents=('demo', 'python'), bindings=ALL)
def a_wait_goes_on_after_a_broken_stream(case):
    made = case.task('drop 2', '--poll-interval', '200ms', '--timeout', '30s')
    equal(made['status']['state'], DONE, 'state')


@requirement('A2ACLI_TASK_POLL_004', bindings=ALL)
def a_stream_that_breaks_or_ends_early_is_followed_by_polls(case):
    def cut(call):
        yield {'task': task('t-1', WORKING)}
        yield artifact('t-1', {'text': 'half'})
        yield CUT

    def early(call):
        yield {'task': task('t-1', WORKING)}

    def torn(call):
        yield {'task': task('t-1', WORKING)}
        yield Raw(b'data: {"jsonrpc": "2.0", "id": 1, "resu')
        yield CUT

    def refused(call):
        raise Fault('UnsupportedOperationError')

    done = task('t-1', DONE, artifacts=[{'artifactId': 'a-1', 'parts': [{'text': 'whole'}]}])
    streams = (cut, early) if case.binding == 'GRPC' else (cut, early, torn)
    for stream in streams:
        server = case.stub(
            on={
                'SendStreamingMessage': stream,
                'SubscribeToTask': refused,
                'GetTask': lambda call: done if call.count > 1 else task('t-1', WORKING),
            }
        )
        run = case.run('send', 'hi', '--poll-interval', '100ms', '-a', server.url, '-o', 'json').exits(0)
        equal(run.json, {'task': {**done, 'status': run.json['task']['status']}}, f'the end after {stream.__name__}')
        equal(len(server.sent()), 1, 'messages sent')
