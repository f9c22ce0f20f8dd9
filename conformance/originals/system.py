"""One of the systems: its data file, the servers of Sabir that stand in for it, and the requests to them."""

import base64
import contextlib
import http.client
import json
import os
import pathlib
import subprocess
import tempfile
import time
import urllib.parse

import startup
from comparison import value_at
from k1 import Key
from placeholders import Placeholders
from upstream import PrintedUpstream

HERE = pathlib.Path(__file__).resolve().parent
ANSWER_SECONDS_MAX = 20
# A task that is polled ends within this time, or the last answer is compared as it is.
POLL_SECONDS_MAX = 10
POLL_SECONDS = 0.05
STOP_SECONDS_MAX = 15
# The variables that a server gets from the environment; the data file has the others.
INHERITED = ('PATH', 'LANG', 'TMPDIR')


class System:
    """`stack` ends what is started here."""

    def __init__(self, name, sabir, chain, stack):
        self.name, self.sabir, self.stack = name, sabir, stack
        self.data = json.loads((HERE / f'{name}.json').read_text())
        self.config = (HERE / f'{name}.toml').read_text().replace('CHAIN', chain.url)
        if 'upstream' in self.data:
            upstream = PrintedUpstream(self.data['upstream'], self.data['requests'])
            stack.enter_context(contextlib.closing(upstream))
            self.config = self.config.replace('ELSEWHERE', upstream.url)
        for account, terms in self.data.get('accounts', {}).items():
            register(chain, account, dict(terms))
        self.urls, self.folders, self.keys = {}, {}, {}
        self.placeholders = Placeholders()

    # --- Servers ----------------------------------------------------------------------------------------------------

    def url(self, server):
        """The base URL of a server, which is started when a request first needs it."""
        if server not in self.urls:
            self.urls[server] = self.start(server, self.data['servers'][server])
        return self.urls[server]

    def start(self, server, terms):
        folder = pathlib.Path(self.stack.enter_context(tempfile.TemporaryDirectory(prefix='sabir-originals-')))
        config = self.config
        for printed, replacement in terms.get('replace', {}).items():
            config = config.replace(printed, replacement)
        (folder / 'sabir.toml').write_text(config)
        for file, content in self.data.get('files', {}).items():
            (folder / file).write_text(json.dumps(content))
        env = {name: os.environ[name] for name in INHERITED if name in os.environ}
        env |= {'HOME': str(folder), 'NO_PROXY': '127.0.0.1', **terms.get('env', {})}
        self.folders[server] = folder, env
        for words in terms.get('prepare', []):
            self.command(server, *words)
        out, err = folder / 'out', folder / 'err'
        command = [self.sabir, 'serve', '--config', 'sabir.toml', '--listen', '127.0.0.1:0', '--data', 'data']
        with open(out, 'wb') as out_file, open(err, 'wb') as err_file:
            process = subprocess.Popen(command, cwd=folder, env=env, stdout=out_file, stderr=err_file)
        self.stack.callback(stop, process)
        return startup.wait(process, command, startup.line_in(out, rb'listening on (https?://[^\s/]+)'), out, err)

    def command(self, server, *words):
        folder, env = self.folders[server]
        ended = subprocess.run([self.sabir, *words], cwd=folder, env=env, capture_output=True, text=True, timeout=60)
        if ended.returncode:
            raise startup.Unable(f'sabir {" ".join(words)}: {ended.stderr}')
        return ended.stdout

    def key(self, server, name):
        if (server, name) not in self.keys:
            words = ['key', 'create', '--config', 'sabir.toml', '--data', 'data', '-o', 'json']
            self.keys[server, name] = json.loads(self.command(server, *words, *self.data['keys'][name]))['key']
        return self.keys[server, name]

    # --- Requests ---------------------------------------------------------------------------------------------------

    def exchange(self, request):
        """Sends one request, as often as it polls, and keeps the answer for later requests."""
        server = request.get('server', 'main')
        url = self.url(server)
        deadline = time.monotonic() + POLL_SECONDS_MAX
        while True:
            filled, body = self.placeholders.fill(request, lambda name: self.key(server, name))
            answer = send(url, filled, body)
            if has_settled(answer['body'], request.get('until')) or time.monotonic() > deadline:
                break
            time.sleep(POLL_SECONDS)
        if request.get('look') == 'signature':
            answer['body'] = signature_header(answer['body'])
        self.placeholders.sent[request['name']] = filled.get('body')
        self.placeholders.answers[request['name']] = answer['events'] or answer['body']
        return answer


def register(chain, account, terms):
    if terms.pop('signs', False):
        chain.account(account, Key.named(account))
    if terms.pop('registered', True):
        chain.agent(account, **terms)


def stop(process):
    process.terminate()
    try:
        process.wait(STOP_SECONDS_MAX)
    except subprocess.TimeoutExpired:
        process.kill()


def send(url, request, body):
    """Status and media type, and the body as text, as JSON and as events. Without an answer the status is 0."""
    parts = urllib.parse.urlsplit(url)
    connection = http.client.HTTPConnection(parts.hostname, parts.port, timeout=ANSWER_SECONDS_MAX)
    try:
        connection.request(request.get('method', 'POST'), request['path'], body, request['headers'])
        response = connection.getresponse()
        status, text = response.status, response.read().decode()
        media_type = response.headers.get_content_type()
    except (OSError, http.client.HTTPException) as error:
        status, text, media_type = 0, str(error), ''
    finally:
        connection.close()
    answer = {'status': status, 'type': media_type, 'text': text, 'body': None, 'events': []}
    if media_type == 'text/event-stream':
        answer['events'] = [json.loads(line[5:]) for line in text.splitlines() if line.startswith('data:')]
    else:
        with contextlib.suppress(ValueError):
            answer['body'] = json.loads(text)
    return answer


def has_settled(body, until):
    if until is None:
        return True
    try:
        return value_at(body, until['path']) == until['value']
    except (KeyError, TypeError):
        return False


def signature_header(card):
    """The protected header of a card's first signature, decoded."""
    try:
        text = card['signatures'][0]['protected']
    except (KeyError, IndexError, TypeError):
        return None
    return json.loads(base64.urlsafe_b64decode(text + '=' * (-len(text) % 4)))
