"""`demo-server`: an agent to practise on."""

import json
import signal

from harness import contains, equal, holds
from registry import ALL, requirement


def started(case, *flags):
    run = case.start('demo-server', '--port', '0', *flags)
    line = run.line('Listening: ')
    return run, line.split('Listening: ')[1].strip()


@requirement('A2ACLI_DEMO_SERVER_001', bindings=ALL)
def it_starts_serves_and_stops(case):
    server, url = started(case)
    card = case.run('card', 'get', '-a', url, '-o', 'json').exits(0).json
    offered = {i['protocolBinding'] for i in card['supportedInterfaces'] if i['protocolVersion'] == '1.0'}
    equal(offered, set(ALL), 'bindings')
    equal((card['capabilities']['streaming'], card['capabilities']['pushNotifications']), (True, True), 'capabilities')
    case.run('card', 'get', '--validate', '-a', url).exits(0)
    send = lambda text, *more: case.run('send', text, '-a', url, '--transport', case.binding, '-o', 'json', *more)  # noqa: E731
    for word, state in (
        ('echo hi', 'COMPLETED'),
        ('slow 1', 'COMPLETED'),
        ('fail', 'FAILED'),
        ('reject', 'REJECTED'),
        ('ask', 'INPUT_REQUIRED'),
        ('auth', 'AUTH_REQUIRED'),
        ('files', 'COMPLETED'),
        ('drop', 'COMPLETED'),
    ):
        made = send(word, '--poll-interval', '200ms').exits(0).json['task']
        equal(made['status']['state'], f'TASK_STATE_{state}', word)
    equal(list(send('message').exits(0).json), ['message'], 'message')
    holds(send('tenant').code == 0, 'tenant')
    run = send('401')
    equal((run.code, run.error['code']), (4, 'A2ACLI_ERR_CREDENTIALS_MISSING'), '401')
    server.signal(signal.SIGINT)
    server.wait(10).exits(0)


@requirement('A2ACLI_DEMO_SERVER_001')
def its_options(case):
    _, url = started(case, '--no-streaming')
    card = case.run('card', 'get', '-a', url, '-o', 'json').exits(0).json
    holds(not card['capabilities'].get('streaming'), 'streaming')
    run = case.run('send', 'slow 1', '--stream', '-a', url, '-o', 'json', '--poll-interval', '200ms').exits(0)
    equal(run.jsonl[-1]['task']['status']['state'], 'TASK_STATE_COMPLETED', 'without streaming')
    _, url = started(case, '--sign')
    card = case.run('card', 'get', '-a', url, '-o', 'json').exits(0).json
    holds(card.get('signatures'), 'a signature')
    server = case.start('demo-server', '--port', '0', '-o', 'json')
    decoder, text = json.JSONDecoder(), lambda: server.out

    def whole():
        try:
            return decoder.raw_decode(text())[0]
        except ValueError:
            return None

    from harness import until

    card = until(whole, 'the card on stdout')
    url = card['supportedInterfaces'][0]['url']
    contains(url, '127.0.0.1', 'it listens on loopback')
    case.run('send', 'echo hi', '-a', '/'.join(url.split('/')[:3]), '-o', 'json').exits(0)


@requirement('A2ACLI_DEMO_SERVER_001')
def it_can_ask_for_a_token(case):
    server, url = started(case, '--bearer-required')
    case.run('send', 'echo hi', '-a', url, '-o', 'json').fails('A2ACLI_ERR_CREDENTIALS_MISSING', 4)
    holds(server.process.poll() is None, 'it serves on')


@requirement('A2ACLI_DEMO_SERVER_001')
def it_passes_its_own_conformance_check(case):
    _, url = started(case)
    case.run('conformance', '--strict', '-a', url, seconds=120).exits(0)
