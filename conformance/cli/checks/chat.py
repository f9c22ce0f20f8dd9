"""`chat`: turns on a terminal, and lines in a pipe."""

import re

from harness import equal, holds
from registry import ALL, LIVE, requirement
from stub import status, task


@requirement('A2ACLI_CHAT_001', agents=LIVE)
def turns_share_a_context_and_a_paused_task_is_answered(case):
    # At a terminal the ids are shown by /ids; the text form prints them after every turn.
    terminal = case.terminal(*case.aimed(('chat', '-o', 'text')))
    ids = lambda: (re.findall(r'Task ID: (\S+)', terminal.text), re.findall(r'Context ID: (\S+)', terminal.text))  # noqa: E731
    place = terminal.type('ask')
    terminal.expect('TASK_STATE_INPUT_REQUIRED', place)
    place = terminal.type('Monday')
    terminal.expect('TASK_STATE_COMPLETED', place)
    place = terminal.type('echo and another')
    terminal.expect('and another', place + len('echo and another'))
    terminal.expect('TASK_STATE_COMPLETED', place)
    terminal.type('/exit')
    equal(terminal.wait().code, 0, f'the exit code of {terminal}')
    tasks, contexts = ids()
    tasks, contexts = list(dict.fromkeys(tasks)), list(dict.fromkeys(contexts))
    equal((len(tasks), len(contexts)), (2, 1), f'tasks and contexts in {terminal}')
    listed = case.ok('task', 'list', '--context-id', contexts[0])['tasks']
    equal({found['id'] for found in listed}, set(tasks), 'the tasks of the context')


@requirement('A2ACLI_CHAT_001', agents=LIVE)
def at_a_terminal_the_answer_runs_on_and_the_ids_are_shown_on_demand(case):
    terminal = case.terminal(*case.aimed(('chat', '--color', 'never')))
    terminal.expect('you> ')
    place = terminal.type('ask')
    terminal.expect(' asks> ', place)
    terminal.expect('reply> ', place)
    place = terminal.type('Monday')
    terminal.expect('you> ', place)
    holds('Task ID' not in terminal.text, f'ids without being asked for in {terminal}')
    place = terminal.type('/ids')
    terminal.expect('Task ID', place)
    terminal.expect('Context ID', place)
    terminal.type('/exit')
    equal(terminal.wait().code, 0, f'the exit code of {terminal}')


@requirement('A2ACLI_CHAT_001', bindings=ALL)
def the_task_id_is_sent_only_while_the_task_is_paused(case):
    def stream(call):
        message = call.params['message']
        text = message['parts'][0]['text']
        name, context = message.get('taskId') or f't-{call.count}', message.get('contextId') or f'c-{call.count}'
        state = 'TASK_STATE_INPUT_REQUIRED' if text == 'ask' else 'TASK_STATE_COMPLETED'
        states[name] = task(name, state, context)
        yield {'task': task(name, 'TASK_STATE_WORKING', context)}
        yield status(name, state, context, text=f'turn {call.count}')

    states = {}
    server = case.stub(on={'SendStreamingMessage': stream, 'GetTask': lambda call: states[call.params['id']]})
    run = case.run('chat', '-a', server.url, stdin='ask\nMonday\nnext\n/new\nfresh\n').exits(0)
    sent = [(m['parts'][0]['text'], m.get('taskId') or None, m.get('contextId') or None) for m in server.sent()]
    equal(
        sent,
        [('ask', None, None), ('Monday', 't-0', 'c-0'), ('next', None, 'c-0'), ('fresh', None, None)],
        f'messages of {run}',
    )


@requirement('A2ACLI_CHAT_001')
def chat_never_waits_for_a_terminal_it_does_not_have(case):
    import pty
    import subprocess

    server = case.stub()
    master, slave = pty.openpty()
    done = subprocess.run(
        [case.world.sabir, 'chat', '-a', server.url],
        stdin=slave,
        stdout=subprocess.PIPE,
        stderr=subprocess.PIPE,
        env=case.environment({}),
        cwd=case.cwd,
        timeout=20,
    )
    equal(done.returncode, 2, f'stdin a terminal, stdout not: {done.stderr}')
    holds(master, 'a terminal')
