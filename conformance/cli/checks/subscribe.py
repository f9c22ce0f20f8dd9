"""`task subscribe`: joining a stream, and joining again when it breaks."""

from harness import contains, equal, holds
from registry import ALL, LIVE, requirement
from stub import CUT, Fault, artifact, status, task

WORKING, DONE = 'TASK_STATE_WORKING', 'TASK_STATE_COMPLETED'


@requirement('A2ACLI_TASK_SUBSCRIBE_001', agents=LIVE, bindings=ALL)
def a_running_task_is_joined_more_than_once(case):
    made = case.task('slow 3', '--async')
    runs = [
        case.begin('task', 'subscribe', made['id'], '-o', 'json'),
        case.begin('task', 'subscribe', made['id'], '--stream', '-o', 'json'),
    ]
    whole, lines = (run.wait().exits(0) for run in runs)
    equal((whole.json['id'], whole.json['status']['state']), (made['id'], DONE), 'the final task')
    equal(lines.jsonl[0]['task']['id'], made['id'], 'the first event')
    equal(lines.jsonl[-1]['statusUpdate']['status']['state'], DONE, 'the last event')


@requirement('A2ACLI_TASK_SUBSCRIBE_001', agents=LIVE, bindings=ALL)
def a_settled_task_has_no_stream(case):
    made = case.task('echo x')
    run = case.call('task', 'subscribe', made['id'], '-o', 'json').exits(1)
    equal(run.error['code'], 'UnsupportedOperationError', 'code')
    contains(run.error['hint'], 'task get', 'hint')


@requirement('A2ACLI_TASK_SUBSCRIBE_001', bindings=('HTTP+JSON',))
def a_server_that_only_knows_get_is_asked_again(case):
    from stub import Http

    server = case.stub()
    server.memory.tasks['t-1'] = task('t-1', DONE)
    server.files['/rest/tasks/t-1:subscribe'] = lambda request: (
        Http(405)
        if request.method == 'POST'
        else Http(
            200,
            b'data: {"statusUpdate":{"taskId":"t-1","contextId":"c-1","status":{"state":"TASK_STATE_COMPLETED"}}}\n\n',
            'text/event-stream',
        )
    )
    case.run('task', 'subscribe', 't-1', '--stream', '-a', server.url, '-o', 'json').exits(0)
    equal([r.method for r in server.fetches('/rest/tasks/t-1:subscribe')], ['POST', 'GET'], 'verbs')


def breaking(call):
    """A stream that breaks twice, and then comes to its end. Each starts with the whole task."""
    yield {'task': task('t-1', WORKING)}
    if call.count < 2:
        yield artifact('t-1', {'text': f'piece {call.count}'}, append=bool(call.count))
        yield CUT
    yield status('t-1', DONE)


@requirement('A2ACLI_TASK_SUBSCRIBE_002', bindings=ALL)
def a_broken_stream_is_joined_again_without_a_read(case):
    server = case.stub(on={'SubscribeToTask': breaking, 'GetTask': lambda _: task('t-1', DONE)})
    run = case.run('task', 'subscribe', 't-1', '--stream', '-a', server.url, '-o', 'json').exits(0)
    equal(len(server.of('SubscribeToTask')), 3, 'subscriptions')
    equal(server.of('GetTask'), [], 'reads')
    kinds = [next(iter(line)) for line in run.jsonl]
    equal(kinds, ['task', 'artifactUpdate', 'task', 'artifactUpdate', 'task', 'statusUpdate'], 'lines')


@requirement('A2ACLI_TASK_SUBSCRIBE_002', bindings=ALL)
def a_task_that_settled_during_the_break_is_read(case):
    def stream(call):
        if call.count:
            raise Fault('UnsupportedOperationError')
        yield {'task': task('t-1', WORKING)}
        yield CUT

    server = case.stub(on={'SubscribeToTask': stream, 'GetTask': lambda _: task('t-1', DONE)})
    run = case.run('task', 'subscribe', 't-1', '-a', server.url, '-o', 'json').exits(0)
    equal(run.json['status']['state'], DONE, 'the final task')
    holds(len(server.of('GetTask')) >= 1, 'it was read')


@requirement('A2ACLI_TASK_SUBSCRIBE_002', agents=('python',), bindings=ALL)
def a_stream_of_a_live_agent_is_joined_again(case):
    agent = case.world.agent(case.agent)
    made = case.task('drop 3', '--async')
    run = case.call('task', 'subscribe', made['id'], '--stream', '-o', 'json').exits(0)
    lines = run.jsonl
    holds(sum('task' in line for line in lines) >= 2, f'the task was sent once only, so nothing was resumed: {run}')
    equal(lines[-1]['statusUpdate']['status']['state'], DONE, 'the last event')
    if case.binding != 'GRPC':
        # Over gRPC the log has no ids; the stub has shown it there.
        about = [entry for entry in agent.fetch('/-/log') if made['id'] in entry['path'] + entry.get('body', '')]
        reads = [e for e in about if e['method'] == 'GetTask' or e['path'].endswith(f'/tasks/{made["id"]}')]
        equal((len(about) >= 2, reads), (True, []), 'subscriptions and reads in the log')


@requirement('A2ACLI_TASK_SUBSCRIBE_002', agents=('demo',), bindings=ALL)
def a_dropped_stream_of_the_demo_server_is_followed_to_the_end(case):
    made = case.task('drop 3', '--async')
    run = case.call('task', 'subscribe', made['id'], '-o', 'json').exits(0)
    equal((run.json['id'], run.json['status']['state']), (made['id'], DONE), 'the final task')
