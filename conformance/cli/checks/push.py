"""`task push-config`: configurations, and the receiver."""

import json
import re
import urllib.error
import urllib.request

import grammar
from agents import OPENER
from harness import contains, equal, holds, lacks, until
from registry import ALL, LIVE, requirement
from stub import task

HOOK = 'https://hooks.example/sabir?x=1'


@requirement('A2ACLI_PUSH_001', agents=LIVE, bindings=ALL)
def a_configuration_makes_the_round_trip(case):
    name = case.task('slow 30', '--async')['id']
    base = ('task', 'push-config')
    made = case.ok(
        *base,
        'create',
        name,
        '--url',
        HOOK,
        '--config-id',
        'hook-1',
        '--push-token',
        'push-token-1234',
        '--push-scheme',
        'Bearer',
        '--push-credentials',
        'push-credentials-5678',
    )
    equal((made['id'], made['url'], made['taskId']), ('hook-1', HOOK, name), 'create')
    got = case.ok(*base, 'get', name, 'hook-1')
    equal((got['id'], got['url'], got['taskId']), ('hook-1', HOOK, name), 'get')
    second = case.ok(*base, 'create', name, '--url', HOOK + '2', '--config-id', 'hook-2')
    listed = case.ok(*base, 'list', name)
    equal({config['id'] for config in listed['configs']}, {'hook-1', second['id']}, 'list')
    lines = case.call(*base, 'list', name, '--stream', '-o', 'json').exits(0).jsonl
    equal({config['id'] for config in lines}, {'hook-1', second['id']}, 'list, one per line')
    equal(case.ok(*base, 'delete', name, 'hook-1'), {}, 'delete')
    equal({c['id'] for c in case.ok(*base, 'list', name)['configs']}, {second['id']}, 'list after delete')
    run = case.call(*base, 'get', name, 'hook-1', '-o', 'json').exits(1)
    holds(run.error['code'].endswith('Error'), f'{run}')
    run = case.call(*base, 'list', name).exits(0)
    contains(run.out, HOOK, 'text')
    case.call('task', 'cancel', name)


@requirement('A2ACLI_PUSH_001', bindings=ALL)
def the_configuration_on_the_wire(case):
    server = case.stub()
    base = ('task', 'push-config')
    environment = {'A2ACLI_PUSH_TOKEN': 'token-by-variable', 'A2ACLI_PUSH_CREDENTIALS': 'credentials-by-variable'}
    run = case.run(*base, 'create', 't-1', '--url', HOOK, '--push-scheme', 'Bearer', '-a', server.url, env=environment)
    run.exits(0)
    params = server.of('CreateTaskPushNotificationConfig')[0].params
    equal(
        (params['taskId'], params['url'], params['token'], params['authentication']),
        ('t-1', HOOK, 'token-by-variable', {'scheme': 'Bearer', 'credentials': 'credentials-by-variable'}),
        'create',
    )
    lacks(run.out + run.err, 'by-variable', 'text')
    case.run(*base, 'list', 't-1', '--page-size', '5', '--page-token', 'next', '-a', server.url, '-o', 'json').exits(0)
    params = server.of('ListTaskPushNotificationConfigs')[0].params
    equal((params['taskId'], params.get('pageSize'), params.get('pageToken')), ('t-1', 5, 'next'), 'list')
    case.run(*base, 'create', 't-1', '-a', server.url, '-o', 'json').fails('A2ACLI_ERR_USAGE', 2)


def post(url, value, **headers):
    request = urllib.request.Request(
        url, json.dumps(value).encode(), {'Content-Type': 'application/a2a+json', **headers}
    )
    try:
        with OPENER.open(request, timeout=10) as answer:
            return answer.status
    except urllib.error.HTTPError as error:
        return error.code
    except OSError:
        # Hung up on before the body was through, which is one way to say that it is too large.
        return 413


def event(name, state):
    return {'statusUpdate': {'taskId': name, 'contextId': 'c-1', 'status': {'state': f'TASK_STATE_{state}'}}}


@requirement('A2ACLI_PUSH_002', agents=LIVE, bindings=ALL)
def notifications_of_a_live_agent_are_received(case):
    made = case.task('slow 3', '--async')
    run = case.begin('task', 'push-config', 'listen', made['id'], '--stream', '-o', 'json')
    run.wait(30).exits(0)
    states = [value['status']['state'] for line in run.jsonl for value in line.values() if 'status' in value]
    holds('TASK_STATE_COMPLETED' in states[-1:], f'the last notification: {run}')
    equal(case.ok('task', 'push-config', 'list', made['id']).get('configs', []), [], 'configurations left behind')


@requirement('A2ACLI_PUSH_002', bindings=ALL)
def a_wrong_token_a_foreign_task_and_too_much_are_refused(case):
    server = case.stub(on={'GetTask': lambda _: task('t-1', 'TASK_STATE_WORKING')})
    run = case.start('task', 'push-config', 'listen', 't-1', '-a', server.url, '--stream', '-o', 'json')
    until(lambda: server.of('CreateTaskPushNotificationConfig'), 'the registration')
    config = server.of('CreateTaskPushNotificationConfig')[0].params
    url, token = config['url'], config['token']
    holds(len(token) >= 32, 'a token of 256 bits')
    good = {'X-A2A-Notification-Token': token}
    if 'authentication' in config:
        good['Authorization'] = f'{config["authentication"]["scheme"]} {config["authentication"]["credentials"]}'
    equal(post(url, event('t-1', 'COMPLETED')), 401, 'without a token')
    equal(post(url, event('t-1', 'COMPLETED'), **{'X-A2A-Notification-Token': 'wrong'}), 401, 'with a wrong token')
    equal(post(url, event('t-other', 'COMPLETED'), **good), 404, 'for a foreign task')
    equal(post(url, {'statusUpdate': {'x': 'y' * 30_000_000}}, **good), 413, 'with too much')
    holds(200 <= post(url, event('t-1', 'WORKING'), **good) < 300, 'with the right token')
    go = {**good, 'A2A-Notification-Token': good.pop('X-A2A-Notification-Token')}
    go.pop('X-A2A-Notification-Token', None)
    holds(200 <= post(url, event('t-1', 'WORKING'), **go) < 300, 'with the header of Go servers')
    holds(200 <= post(url, event('t-1', 'COMPLETED'), **go) < 300, 'the last one')
    run.wait(15).exits(0)
    states = [line['statusUpdate']['status']['state'] for line in run.jsonl if 'statusUpdate' in line]
    holds(states[-1] == 'TASK_STATE_COMPLETED' and 'TASK_STATE_WORKING' in states, f'{run}')
    holds(all(line.get('statusUpdate', {}).get('taskId') in (None, 't-1') for line in run.jsonl), 'no foreign event')
    equal(len(server.of('DeleteTaskPushNotificationConfig')), 1, 'the configuration is deleted')
    lacks(run.out + run.err, token, 'the output')


@requirement('A2ACLI_PUSH_002')
def the_receiver_in_text_and_with_keep(case):
    server = case.stub(on={'GetTask': lambda _: task('t-1', 'TASK_STATE_WORKING')})
    run = case.start(
        'task',
        'push-config',
        'listen',
        't-1',
        '--keep',
        '--public-url',
        'http://127.0.0.1:9/hook',
        '--listen',
        '127.0.0.1:0',
        '-a',
        server.url,
    )
    until(lambda: server.of('CreateTaskPushNotificationConfig'), 'the registration')
    config = server.of('CreateTaskPushNotificationConfig')[0].params
    equal(config['url'], 'http://127.0.0.1:9/hook', 'the public URL')
    # It listens elsewhere; once it has shown a notification, it is certainly there to be interrupted.
    url = re.search(r'http://\S+', run.line('Listening: ', 'err')).group()
    token = {'X-A2A-Notification-Token': config['token']}
    holds(200 <= post(f'{url}/hook', event('t-1', 'WORKING'), **token) < 300, 'a notification')
    run.line('TASK_STATE_WORKING')
    run.signal()
    holds(run.wait(10).code in (0, 130), f'{run}')
    grammar.parse(run.out, labels=None)
    equal(server.of('DeleteTaskPushNotificationConfig'), [], 'with --keep it stays')
