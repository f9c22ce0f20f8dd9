#!/usr/bin/env python3
"""Twenty small agents of six dialects, each on a port of its own: something to put behind one door.

    agents.py --from 7301                  # runs them, until it is told to stop
    agents.py --from 7301 --config         # prints the configuration of a hub before them

Everything is in the standard library. Each agent does one thing with the text it is given, and speaks one dialect of
A2A as agents of that kind do: who names a task, where the answer is, whether there are streams. See
docs/guides/twenty-agents.md.
"""

import argparse
import base64
import codecs
import datetime
import http.server
import itertools
import json
import re
import signal
import sys
import threading
import time
import uuid

# --- What they do -----------------------------------------------------------------------------------------------------


def roman(text):
    number, out = int(text), ''
    for value, digits in ((1000, 'M'), (900, 'CM'), (500, 'D'), (400, 'CD'), (100, 'C'), (90, 'XC'), (50, 'L'),
                          (40, 'XL'), (10, 'X'), (9, 'IX'), (5, 'V'), (4, 'IV'), (1, 'I')):
        out, number = out + digits * (number // value), number % value
    return out


def numbers(text):
    return [int(number) for number in re.findall(r'-?\d+', text)]


def weekday(text):
    return datetime.date.fromisoformat(text.strip()).strftime('%A')


# Name, dialect, what it does in words and in code.
AGENTS = [
    ('upper', '1.0', 'Writes in capitals', str.upper),
    ('lower', '1.0', 'Writes in small letters', str.lower),
    ('reverse', '1.0', 'Writes backwards', lambda text: text[::-1]),
    ('title', '1.0', 'Begins every word with a capital', str.title),
    ('greet', '1.0', 'Asks for a name, and greets', lambda text: f'Good day, {text}!'),
    ('words', '1.0 rest', 'Counts words', lambda text: str(len(text.split()))),
    ('letters', '1.0 rest', 'Counts characters', lambda text: str(len(text))),
    ('sort', '1.0 rest', 'Sorts words', lambda text: ' '.join(sorted(text.split()))),
    ('sum', '0.3', 'Adds numbers', lambda text: str(sum(numbers(text)))),
    ('max', '0.3', 'Finds the largest number', lambda text: str(max(numbers(text)))),
    ('roman', '0.3', 'Writes a number in Roman digits', roman),
    ('weekday', '0.3', 'Says which day a date is', weekday),
    ('rot13', '0.1', 'Hides a text, not well', lambda text: codecs.encode(text, 'rot13')),
    ('acronym', '0.1', 'Takes the first letters', lambda text: ''.join(word[0] for word in text.split()).upper()),
    ('base64', 'agent-native', 'Encodes in base64', lambda text: base64.b64encode(text.encode()).decode()),
    ('hex', 'agent-native', 'Encodes in hexadecimal', lambda text: text.encode().hex()),
    ('unique', 'agent-native', 'Drops repeated words', lambda text: ' '.join(dict.fromkeys(text.split()))),
    ('first', 'xpr', 'Keeps the first word', lambda text: text.split()[0]),
    ('last', 'xpr', 'Keeps the last word', lambda text: text.split()[-1]),
    ('twice', 'xpr', 'Says it twice', lambda text: f'{text} {text}'),
]
PLACES = {'1.0': '/', '1.0 rest': '', '0.3': '/', '0.1': '/', 'agent-native': '/_agent-native/a2a', 'xpr': '/a2a'}


def now():
    return datetime.datetime.now(datetime.timezone.utc).isoformat(timespec='milliseconds').replace('+00:00', 'Z')


class Refused(Exception):
    def __init__(self, code, message):
        super().__init__(message)
        self.code = code


class Agent:
    """What the dialects share: tasks, which are kept in the words of each dialect."""

    card_path = '/.well-known/agent-card.json'
    streams = False

    def __init__(self, name, does, function, url):
        self.name, self.does, self.function, self.url = name, does, function, url
        self.tasks, self.lock = {}, threading.Lock()

    def common(self):
        skill = {'id': self.name, 'name': self.name, 'description': self.does, 'tags': ['text']}
        return {
            'name': self.name, 'description': self.does, 'version': '1.0.0', 'skills': [skill],
            'capabilities': {'streaming': self.streams}, 'defaultInputModes': ['text/plain'],
            'defaultOutputModes': ['text/plain'],
        }

    def work(self, text):
        try:
            return 'completed', self.function(text)
        except (ValueError, IndexError):
            return 'failed', f'I can do nothing with {text[:40]!r}'

    def find(self, task):
        if task not in self.tasks:
            raise Refused(-32001, f'Task not found: {task}')
        return self.tasks[task]

    def settled(self, *_):
        raise Refused(-32002, 'Task cannot be canceled')


class New(Agent):
    """A2A 1.0 over JSON-RPC, with streams: a chunk for every word."""

    streams = True

    def card(self):
        interface = {'url': self.url, 'protocolBinding': 'JSONRPC', 'protocolVersion': '1.0'}
        return {**self.common(), 'supportedInterfaces': [interface]}

    def call(self, method, params):
        if method == 'SendMessage':
            return {'task': list(self.turn(params['message']))[-1]}
        if method == 'SendStreamingMessage':
            return self.events(params['message'])
        if method == 'GetTask':
            return self.find(params['id'])
        if method == 'CancelTask':
            self.settled(self.find(params['id']))
        raise Refused(-32601, f'Method not found: {method}')

    def turn(self, message):
        """The task as it stands after each step."""
        text = ''.join(part.get('text', '') for part in message['parts'])
        task = self.tasks.get(message.get('taskId', ''))
        if message.get('taskId') and not task:
            raise Refused(-32001, f'Task not found: {message["taskId"]}')
        if task and task['status']['state'] != 'TASK_STATE_INPUT_REQUIRED':
            raise Refused(-32004, 'The task has settled')
        asking = self.name == 'greet' and task is None
        if task is None:
            task = {'id': str(uuid.uuid4()), 'contextId': message.get('contextId') or str(uuid.uuid4()), 'history': []}
            self.tasks[task['id']] = task
        task['history'].append(message)
        task['status'] = {'state': 'TASK_STATE_WORKING', 'timestamp': now()}
        yield task
        if asking:
            state, words = 'input-required', 'Whom shall I greet?'
        else:
            state, words = self.work(text)
        if state == 'completed':
            task['artifacts'] = [{'artifactId': 'answer', 'parts': [{'text': words}]}]
            words = None
        task['status'] = {'state': f'TASK_STATE_{state.upper().replace("-", "_")}', 'timestamp': now()}
        if words:
            parts = [{'text': words}]
            task['status']['message'] = {'messageId': str(uuid.uuid4()), 'role': 'ROLE_AGENT', 'parts': parts}
        yield task

    def events(self, message):
        turn = self.turn(message)
        task = json.loads(json.dumps(next(turn)))
        ids = {'taskId': task['id'], 'contextId': task['contextId']}
        yield {'task': task}
        task = next(turn)
        for made in task.get('artifacts', []) if task['status']['state'] == 'TASK_STATE_COMPLETED' else []:
            pieces = re.findall(r'\S+\s*', made['parts'][0]['text'])
            for number, piece in enumerate(pieces):
                time.sleep(0.05)
                chunk = {'artifactId': made['artifactId'], 'parts': [{'text': piece}]}
                last = number == len(pieces) - 1
                yield {'artifactUpdate': {**ids, 'artifact': chunk, 'append': number > 0, 'lastChunk': last}}
        yield {'statusUpdate': {**ids, 'status': task['status']}}


class Rest(New):
    """A2A 1.0 over HTTP+JSON, without streams."""

    streams = False

    def card(self):
        interface = {'url': self.url, 'protocolBinding': 'HTTP+JSON', 'protocolVersion': '1.0'}
        return {**self.common(), 'supportedInterfaces': [interface]}


class Older(Agent):
    """A2A 0.3 over JSON-RPC, without streams."""

    def card(self):
        return {**self.common(), 'protocolVersion': '0.3.0', 'url': self.url, 'preferredTransport': 'JSONRPC'}

    def call(self, method, params):
        if method == 'message/send':
            state, words = self.work(''.join(part.get('text', '') for part in params['message']['parts']))
            task = {'kind': 'task', 'id': str(uuid.uuid4()), 'status': {'state': state, 'timestamp': now()}}
            task['contextId'] = params['message'].get('contextId') or str(uuid.uuid4())
            task['artifacts'] = [{'artifactId': 'answer', 'parts': [{'kind': 'text', 'text': words}]}]
            self.tasks[task['id']] = task
            return task
        if method == 'tasks/get':
            return self.find(params['id'])
        if method == 'tasks/cancel':
            self.settled(self.find(params['id']))
        raise Refused(-32601, f'Method not found: {method}')


class First(Agent):
    """A2A 0.1: callers name their tasks."""

    card_path = '/.well-known/agent.json'

    def card(self):
        return {**self.common(), 'url': self.url}

    def call(self, method, params):
        if method == 'tasks/send':
            state, words = self.work(''.join(part.get('text', '') for part in params['message']['parts']))
            task = {'id': params['id'], 'sessionId': params.get('sessionId') or str(uuid.uuid4())}
            task['status'] = {'state': state, 'timestamp': now()}
            task['artifacts'] = [{'parts': [{'type': 'text', 'text': words}], 'index': 0}]
            self.tasks[task['id']] = task
            return task
        if method == 'tasks/get':
            return self.find(params['id'])
        if method == 'tasks/cancel':
            self.settled(self.find(params['id']))
        raise Refused(-32601, f'Method not found: {method}')


class Native(Agent):
    """agent-native: the answer is the message of the status."""

    def card(self):
        return {**self.common(), 'protocolVersion': '0.3', 'url': self.url}

    def call(self, method, params):
        if method == 'message/send':
            state, words = self.work(''.join(part.get('text', '') for part in params['message']['parts']))
            task = {'id': str(uuid.uuid4()), 'history': [], 'artifacts': []}
            said = {'role': 'agent', 'parts': [{'type': 'text', 'text': words}]}
            task['status'] = {'state': state, 'message': said, 'timestamp': now()}
            self.tasks[task['id']] = task
            return task
        if method == 'tasks/get':
            return self.find(params['id'])
        if method == 'tasks/cancel':
            self.settled(self.find(params['id']))
        raise Refused(-32601, f'Method not found: {method}')


class Xpr(First):
    """XPR: callers may name their tasks; the answer is the first artifact."""

    def card(self):
        # The address is the origin; where calls go below it, everybody knows.
        return {**self.common(), 'url': self.url.removesuffix('/a2a'), 'xpr:account': self.name}

    def call(self, method, params):
        if method != 'message/send':
            return super().call(method, params)
        return super().call('tasks/send', {'id': f'task-{next(MADE)}', **params})


MADE = itertools.count(1)
KINDS = {'1.0': New, '1.0 rest': Rest, '0.3': Older, '0.1': First, 'agent-native': Native, 'xpr': Xpr}


# --- HTTP -------------------------------------------------------------------------------------------------------------


class Handler(http.server.BaseHTTPRequestHandler):
    protocol_version = 'HTTP/1.1'
    agent = None

    def answer(self, value, status=200):
        data = json.dumps(value).encode()
        self.send_response(status)
        self.send_header('Content-Type', 'application/json')
        self.send_header('Content-Length', str(len(data)))
        self.end_headers()
        self.wfile.write(data)

    def do_GET(self):
        if self.path == self.agent.card_path:
            return self.answer(self.agent.card())
        if isinstance(self.agent, Rest) and self.path.startswith('/tasks/'):
            return self.plainly('GetTask', {'id': self.path.removeprefix('/tasks/').partition('?')[0]})
        self.answer({'error': 'not found'}, 404)

    def do_POST(self):
        body = json.loads(self.rfile.read(int(self.headers.get('Content-Length') or 0)) or b'{}')
        if isinstance(self.agent, Rest):
            if self.path == '/message:send':
                return self.plainly('SendMessage', body)
            return self.answer({'error': {'code': 404, 'message': 'not found'}}, 404)
        try:
            result = self.agent.call(body.get('method'), body.get('params') or {})
        except Refused as why:
            error = {'code': why.code, 'message': str(why)}
            return self.answer({'jsonrpc': '2.0', 'id': body.get('id'), 'error': error})
        if isinstance(result, dict):
            return self.answer({'jsonrpc': '2.0', 'id': body.get('id'), 'result': result})
        self.send_response(200)
        self.send_header('Content-Type', 'text/event-stream')
        self.send_header('Connection', 'close')
        self.end_headers()
        self.close_connection = True
        for event in result:
            told = json.dumps({'jsonrpc': '2.0', 'id': body.get('id'), 'result': event})
            self.wfile.write(f'data: {told}\n\n'.encode())
            self.wfile.flush()

    def plainly(self, method, params):
        try:
            self.answer(self.agent.call(method, params))
        except Refused as why:
            status = 404 if why.code == -32001 else 400
            reason = {-32001: 'TASK_NOT_FOUND', -32004: 'UNSUPPORTED_OPERATION'}.get(why.code, 'INVALID_REQUEST')
            details = [{'@type': 'type.googleapis.com/google.rpc.ErrorInfo', 'reason': reason,
                        'domain': 'a2a-protocol.org'}]
            self.answer({'error': {'code': status, 'message': str(why), 'details': details}}, status)

    def log_message(self, *_):
        pass


def start(port, name, dialect, does, function):
    agent = KINDS[dialect](name, does, function, f'http://127.0.0.1:{port}{PLACES[dialect]}')
    server = http.server.ThreadingHTTPServer(('127.0.0.1', port), type('Handler', (Handler,), {'agent': agent}))
    server.daemon_threads = True
    threading.Thread(target=server.serve_forever, daemon=True).start()


def main():
    parser = argparse.ArgumentParser(description='Twenty small agents of six dialects.')
    parser.add_argument('--from', dest='first', type=int, default=7301, help='the port of the first; others follow')
    parser.add_argument('--config', action='store_true', help='print the configuration of a hub before them')
    options = parser.parse_args()
    if options.config:
        for port, (name, *_) in enumerate(AGENTS, options.first):
            print(f'[[agent]]\nname = "{name}"\nkind = "a2a"\nurl = "http://127.0.0.1:{port}"\n')
        return
    for port, (name, dialect, does, function) in enumerate(AGENTS, options.first):
        start(port, name, dialect, does, function)
        print(f'{name:8} {dialect:12} http://127.0.0.1:{port}  {does}', flush=True)
    signal.signal(signal.SIGTERM, lambda *_: sys.exit(0))
    threading.Event().wait()


if __name__ == '__main__':
    main()
