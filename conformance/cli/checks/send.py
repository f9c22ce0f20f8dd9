"""`send`: starting an interaction, waiting, streaming, showing parts, and building a message of parts."""

import base64
import json

import grammar
from harness import contains, equal, holds
from registry import ALL, LIVE, requirement
from stub import artifact, status, task

TERMINAL = ('TASK_STATE_COMPLETED', 'TASK_STATE_FAILED', 'TASK_STATE_CANCELED', 'TASK_STATE_REJECTED')


@requirement('A2ACLI_SEND_001', agents=LIVE, bindings=ALL)
def a_message_starts_an_interaction(case):
    made = case.task('echo good morning')
    equal(made['status']['state'], 'TASK_STATE_COMPLETED', 'state')
    holds(made['id'] and made['contextId'], 'ids')
    contains(json.dumps(made['artifacts']), 'good morning', 'the artifacts')
    run = case.call('send', 'echo good evening').exits(0)
    contains('\n'.join(grammar.values(grammar.parse(run.out), 'Text')), 'good evening', 'the text')


@requirement('A2ACLI_SEND_001', bindings=ALL)
def the_message_is_a_users_with_a_fresh_id(case):
    server = case.stub()
    for _ in range(2):
        case.run('send', 'good', 'morning', '-a', server.url, '-o', 'json').exits(0)
    first, second = server.sent()
    for message in (first, second):
        equal(message['role'], 'ROLE_USER', 'role')
        contains(json.dumps(message['parts']), 'good', 'parts')
    holds(first['messageId'] and second['messageId'] and first['messageId'] != second['messageId'], 'fresh ids')
    case.run('send', 'hi', '--message-id', 'again-1', '--metadata', '{"k":[1]}', '-a', server.url).exits(0)
    equal(server.sent()[-1]['messageId'], 'again-1', 'a given id')
    equal(server.calls[0].params.get('metadata'), None, 'metadata when none is given')
    equal(server.of('SendMessage', 'SendStreamingMessage')[-1].params.get('metadata'), {'k': [1]}, 'metadata')


@requirement('A2ACLI_SEND_001', bindings=ALL)
def the_same_result_against_an_agent_of_sabir_serve_exec(case):
    # The exec agent is somebody's script: what it prints is the artifact.
    server = case.start('serve', '--exec', 'cat', '--listen', '127.0.0.1:0', '--data', str(case.scratch / 'data'))
    url = server.line('listening on').rsplit('listening on ', 1)[1].split()[0].rstrip('/')
    run = case.run('send', 'through a script', '-a', url, '--transport', case.binding, '-o', 'json').exits(0)
    equal(run.json['task']['status']['state'], 'TASK_STATE_COMPLETED', 'state')
    contains(json.dumps(run.json['task']['artifacts']), 'through a script', 'the artifact')


@requirement('A2ACLI_SEND_002', agents=LIVE, bindings=ALL)
def send_waits_for_the_end_by_default_and_async_does_not(case):
    run = case.call('send', 'slow 3', '-o', 'json').exits(0)
    equal(run.json['task']['status']['state'], 'TASK_STATE_COMPLETED', 'state after waiting')
    holds(run.seconds >= 2.5, f'it waited {run.seconds:.1f} s only')
    quick = case.call('send', 'slow 3', '--async', '-o', 'json').exits(0)
    holds(quick.json['task']['status']['state'] not in TERMINAL, 'state at once')
    holds(quick.json['task']['id'] and quick.json['task']['contextId'], 'ids at once')
    holds(quick.seconds < 2.5, f'--async took {quick.seconds:.1f} s')


@requirement('A2ACLI_SEND_002', bindings=ALL)
def the_waiting_modes_on_the_wire(case):
    def working(call):
        return {'task': task('t-1', 'TASK_STATE_WORKING')}

    polls = lambda call: task('t-1', 'TASK_STATE_COMPLETED' if call.count else 'TASK_STATE_WORKING')  # noqa: E731
    server = case.stub(streaming=False, on={'SendMessage': working, 'GetTask': polls})

    def state(*flags, **options):
        run = case.run('send', 'hi', '-a', server.url, '-o', 'json', '--poll-interval', '100ms', *flags, **options)
        server.counts['GetTask'] = 0
        return run.exits(0).json['task']['status']['state']

    equal(state('--async'), 'TASK_STATE_WORKING', 'state with --async')
    equal(server.calls[-1].params['configuration'].get('returnImmediately'), True, 'returnImmediately')
    equal(state(env={'A2ACLI_ASYNC': '1'}), 'TASK_STATE_WORKING', 'state with A2ACLI_ASYNC')
    equal(server.of('GetTask'), [], 'polls so far')
    equal(state('--wait', env={'A2ACLI_ASYNC': '1'}), 'TASK_STATE_COMPLETED', '--wait beats a configured async')
    equal(state(), 'TASK_STATE_COMPLETED', 'state by default')
    for pair in (('--wait', '--async'), ('--stream', '--async')):
        case.run('send', 'hi', '-a', server.url, *pair, '-o', 'json').fails('A2ACLI_ERR_USAGE', 2)


@requirement('A2ACLI_SEND_003', agents=LIVE, bindings=ALL)
def events_arrive_while_the_task_runs(case):
    run = case.call('send', 'slow 3', '--stream', '-o', 'json').exits(0)
    events = run.jsonl
    holds(len(events) >= 3, f'{len(events)} events only')
    times = [at for at, _ in run.out_lines]
    holds(times[-1] - times[0] > 1.5, f'all lines came within {times[-1] - times[0]:.1f} s: not live')
    equal(events[-1]['statusUpdate']['status']['state'], 'TASK_STATE_COMPLETED', 'the last event')


@requirement('A2ACLI_SEND_003', agents=LIVE, bindings=ALL)
def a_direct_message_is_a_clean_end(case):
    events = case.call('send', 'message', '--stream', '-o', 'json').exits(0).jsonl
    equal([list(event) for event in events], [['message']], 'the stream of a direct message')
    equal(list(case.ok('send', 'message')), ['message'], 'the answer without --stream')
    shown = grammar.parse(case.call('send', 'message', '--stream').exits(0).out)
    equal(grammar.values(shown, 'Event'), ['message'], 'events in text')


@requirement('A2ACLI_SEND_003', bindings=ALL)
def an_agent_without_streaming_does_not_hang_a_stream(case):
    polls = lambda call: task(  # noqa: E731
        't-1', 'TASK_STATE_COMPLETED' if call.count > 1 else 'TASK_STATE_WORKING'
    )
    server = case.stub(
        streaming=False, on={'SendMessage': lambda _: {'task': task('t-1', 'TASK_STATE_WORKING')}, 'GetTask': polls}
    )
    run = case.run('send', 'hi', '--stream', '-a', server.url, '-o', 'json', '--poll-interval', '100ms').exits(0)
    equal({tuple(event) for event in run.jsonl}, {('task',)}, 'kinds of lines')
    equal(run.jsonl[-1]['task']['status']['state'], 'TASK_STATE_COMPLETED', 'the last line')
    equal(server.of('SendStreamingMessage'), [], 'streaming requests')
    contains(run.err.lower(), 'warning', 'stderr')


@requirement('A2ACLI_SEND_004', agents=LIVE, bindings=ALL)
def every_part_of_every_artifact_is_shown(case):
    before = case.tree()
    made = case.task('files')
    kinds = {
        kind for a in made['artifacts'] for p in a['parts'] for kind in ('text', 'data', 'raw', 'url') if kind in p
    }
    equal(kinds, {'text', 'data', 'raw', 'url'}, 'kinds of parts')
    shown = grammar.parse(case.call('send', 'files').exits(0).out)
    parts = [part for a in made['artifacts'] for part in a['parts']]
    for part in parts:
        if 'text' in part:
            contains('\n'.join(grammar.values(shown, 'Text')), part['text'].strip(), 'Text')
        elif 'data' in part:
            holds(part['data'] in [json.loads(v) for v in grammar.values(shown, 'Data')], f'{part} in {shown}')
        elif 'raw' in part:
            size = len(base64.b64decode(part['raw']))
            holds(any(v.split()[0] == str(size) for v in grammar.values(shown, 'File size')), f'{part} in {shown}')
            if part.get('filename'):
                contains('\n'.join(grammar.values(shown, 'File name')), part['filename'], 'File name')
        else:
            contains('\n'.join(grammar.values(shown, 'File URL')), part['url'], 'File URL')
        if part.get('mediaType') and ('raw' in part or 'url' in part):
            contains('\n'.join(grammar.values(shown, 'File media type')), part['mediaType'], 'File media type')
    equal(len(grammar.values(shown, 'Artifact ID')), len(made['artifacts']), 'artifacts')
    equal({k: v for k, v in case.tree().items() if '/.cache/' not in k}, before, 'files on disk')


@requirement('A2ACLI_SEND_004', bindings=('JSONRPC', 'HTTP+JSON'))
def a_part_of_an_unknown_kind_is_not_lost(case):
    parts = [{'text': 'one'}, {'hologram': {'depth': 3}}, {'data': None}, {'text': ''}]
    done = task('t-1', 'TASK_STATE_COMPLETED', artifacts=[{'artifactId': 'a-1', 'parts': parts}])
    server = case.stub(streaming=False, on={'SendMessage': lambda _: {'task': done}, 'GetTask': lambda _: done})
    contains(case.run('send', 'hi', '-a', server.url).exits(0).out, 'hologram', 'the text')
    run = case.run('send', 'hi', '-a', server.url, '-o', 'json').exits(0)
    equal(run.json['task']['artifacts'][0]['parts'], parts, 'the parts in json')


@requirement('A2ACLI_SEND_004', bindings=ALL)
def artifacts_of_a_stream_are_shown_as_they_come(case):
    def stream(call):
        yield {'task': task('t-1', 'TASK_STATE_WORKING')}
        yield artifact('t-1', {'text': 'first half '}, {'data': {'n': 7}})
        yield artifact('t-1', {'text': 'second half'}, append=True, lastChunk=True)
        yield status('t-1', 'TASK_STATE_COMPLETED')

    server = case.stub(on={'SendStreamingMessage': stream, 'GetTask': lambda _: task('t-1', 'TASK_STATE_COMPLETED')})
    shown = grammar.parse(case.run('send', 'hi', '--stream', '-a', server.url).exits(0).out)
    equal(grammar.values(shown, 'Event'), ['task', 'artifact', 'artifact', 'status'], 'events')
    texts = '\n'.join(grammar.values(shown, 'Text'))
    contains(texts, 'first half', 'Text')
    contains(texts, 'second half', 'Text')
    equal(json.loads(grammar.last(shown, 'Data')), {'n': 7}, 'Data')


# --- Parts ------------------------------------------------------------------------------------------------------------


def sent_parts(case, server, *arguments, **options):
    case.run('send', *arguments, '-a', server.url, '-o', 'json', **options).exits(0)
    return server.sent()[-1]['parts']


@requirement('A2ACLI_SEND_005', bindings=ALL)
def a_media_type_binds_to_the_part_before_it(case):
    server = case.stub()
    for name in ('q.pdf', 'notes.md', 'strange.zzz', 'plain'):
        case.file(name, 'x')
    case.file('x.json', '{"a": 1}')
    parts = sent_parts(
        case,
        server,
        '--file',
        'q.pdf',
        '--media-type',
        'application/x-own',
        '--file',
        'q.pdf',
        '--text',
        'hi',
        '--media-type',
        'text/markdown',
        '--data',
        'x.json',
    )
    equal(
        [part.get('mediaType') for part in parts][:3],
        ['application/x-own', 'application/pdf', 'text/markdown'],
        'types',
    )
    equal(parts[3].get('mediaType'), 'application/json', 'type of data')
    parts = sent_parts(
        case,
        server,
        '--file',
        'strange.zzz',
        '--file',
        'plain',
        '--file',
        'https://h.example/a/q.pdf?x=1',
        '--file',
        'https://h.example/thing',
        '--data',
        'x.json',
        '--media-type',
        'application/vnd.own+json',
    )
    equal(
        [part.get('mediaType') or None for part in parts],
        ['application/octet-stream', 'application/octet-stream', 'application/pdf', None, 'application/vnd.own+json'],
        'inferred types',
    )


@requirement('A2ACLI_SEND_005')
def a_media_type_without_a_part_is_a_usage_error(case):
    server = case.stub()
    case.file('q.pdf', 'x')
    for arguments in (
        ('--media-type', 'text/plain'),
        ('--media-type', 'text/plain', '--text', 'hi'),
        ('--file', 'q.pdf', '--media-type', 'a/b', '--media-type', 'c/d'),
    ):
        case.run('send', *arguments, '-a', server.url, '-o', 'json').fails('A2ACLI_ERR_USAGE', 2)
    equal(server.calls, [], 'requests')


@requirement('A2ACLI_SEND_006', bindings=ALL)
def parts_repeat_and_keep_their_order(case):
    server = case.stub()
    case.file('q.bin', b'\0\1\2\xff')
    case.file('x.json', '{"a": [1, 2.5, null]}')
    parts = sent_parts(
        case,
        server,
        '--file',
        'q.bin',
        'positional',
        '--data',
        'x.json',
        '--text',
        'flagged',
        '--file',
        'https://h.example/far.csv',
        '--data',
        '-',
        '--text',
        'last',
        stdin='[true, "piped"]',
    )
    for part in parts:
        part.pop('mediaType', None)
    equal(
        parts,
        [
            {'raw': base64.b64encode(b'\0\1\2\xff').decode(), 'filename': 'q.bin'},
            {'text': 'positional'},
            {'data': {'a': [1, 2.5, None]}},
            {'text': 'flagged'},
            {'url': 'https://h.example/far.csv', 'filename': 'far.csv'},
            {'data': [True, 'piped']},
            {'text': 'last'},
        ],
        'the parts',
    )


@requirement('A2ACLI_SEND_006')
def impossible_parts_are_usage_errors(case):
    server = case.stub()
    case.file('bad.json', '{')
    for arguments in (
        (),
        ('--data', '-', '--data', '-'),
        ('--file', 'missing.pdf'),
        ('--data', 'missing.json'),
        ('--data', 'bad.json'),
    ):
        case.run('send', *arguments, '-a', server.url, '-o', 'json', stdin='{}').fails('A2ACLI_ERR_USAGE', 2)
    equal(server.calls, [], 'requests')
