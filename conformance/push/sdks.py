"""The official SDKs as customers: the webhooks they register, and whether they can read what those are sent.

Cells are peers × bindings × ways to register × schemes of authentication. In each an SDK registers a webhook by its own
calls and has a task done; every delivery must have exactly the headers that were registered, be signed, and be read by
the types of that very SDK.
"""

import base64
import contextlib
import dataclasses
import json
import subprocess

import setting
import startup
from catalog import JS, JS_0_3, PUSH, PYTHON_0_3
from package_cache import HERE
from registry import equal, holds
from server import until
from standardwebhooks import Webhook
from tokens import Key

BINDINGS = ('JSONRPC', 'HTTP+JSON', 'GRPC')
WAYS = ('inline', 'set')
# What a webhook is told, by version and way to register: one that comes with the message hears of the task's opening, one
# that is set on a task that waits hears that it goes on.
KINDS = {
    ('1.0', 'inline'): ['task', 'status_update', 'artifact_update', 'status_update'],
    ('1.0', 'set'): ['status_update', 'status_update', 'artifact_update', 'status_update'],
    ('0.3', 'inline'): ['task'] * 4,
    ('0.3', 'set'): ['task'] * 4,
}


@dataclasses.dataclass(frozen=True)
class Peer:
    package: object
    script: str
    speaks: str

    @property
    def title(self):
        return f'`{self.package.name}` {self.package.version} ({self.package.language})'


PEERS = {
    'python': Peer(PUSH, 'python_v1.py', '1.0'),
    'js': Peer(JS, 'js_v1.mjs', '1.0'),
    'python-as-0.3': Peer(PUSH, 'python_v1.py', '0.3'),
    'js-as-0.3': Peer(JS, 'js_v1.mjs', '0.3'),
    'python-0.3': Peer(PYTHON_0_3, 'python_v03.py', '0.3'),
    'js-0.3': Peer(JS_0_3, 'js_v03.mjs', '0.3'),
}


def encoded(text):
    return base64.b64encode(text.encode()).decode()


@dataclasses.dataclass(frozen=True)
class Scheme:
    """What is registered, and the headers it leads to; `TOKEN` stands for our own signed one."""

    title: str
    scheme: str | None = None
    credentials: str | None = None
    token: str | None = 'mine-42'
    headers: dict = dataclasses.field(default_factory=dict)


TOKEN = object()
SCHEMES = {
    'bearer': Scheme('Bearer', 'Bearer', 's3cret', headers={'authorization': 'Bearer s3cret'}),
    'basic': Scheme('Basic, `name:password`', 'Basic', 'ana:pass:word',
                    headers={'authorization': f'Basic {encoded("ana:pass:word")}'}),
    'basic-encoded': Scheme('Basic, encoded', 'Basic', encoded('ana:word'),
                            headers={'authorization': f'Basic {encoded("ana:word")}'}),
    'api-key': Scheme('API key', 'ApiKey', 'k-123', headers={'authorization': 'ApiKey k-123', 'x-api-key': 'k-123'}),
    'custom': Scheme('another scheme', 'Acme-1', 'a=b, c="d"', headers={'authorization': 'Acme-1 a=b, c="d"'}),
    'bearer-jwt': Scheme('Bearer without credentials', 'Bearer', headers={'authorization': TOKEN}),
    'token': Scheme('token alone'),
    'nothing': Scheme('nothing', token=None),
}
# Everything that may stand in a delivery besides what was registered.
PLAIN = {'accept', 'accept-encoding', 'content-length', 'content-type', 'host', 'user-agent', 'webhook-id',
         'webhook-timestamp', 'webhook-signature', 'x-a2a-signature'}


def cells():
    for peer in PEERS:
        for binding in BINDINGS:
            for how in WAYS:
                for scheme in SCHEMES:
                    yield f'matrix/{peer}/{binding}/{how}/{scheme}'


class Customer:
    """One SDK in a process of its own, asked a line at a time."""

    def __init__(self, world, peer, server):
        script = peer.package.script(HERE / 'push' / 'sdk' / peer.script)
        self.log = server.scratch / f'{peer.script}.err'
        self.command = [*map(str, script), server.url, peer.speaks]
        with open(self.log, 'a') as log:
            self.process = subprocess.Popen(
                self.command, stdin=subprocess.PIPE, stdout=subprocess.PIPE, stderr=log, text=True)

    def ask(self, do, **more):
        print(json.dumps({'do': do, **more}), file=self.process.stdin, flush=True)
        line = self.process.stdout.readline()
        assert line, startup.report(self.process, self.command, f'did not answer when it was asked to {do}', self.log)
        answer = json.loads(line)
        assert 'error' not in answer, f'{do}: {answer["error"]}'
        return answer

    def close(self):
        self.process.stdin.close()
        try:
            self.process.wait(5)
        except subprocess.TimeoutExpired:
            self.process.kill()
            self.process.wait()


@contextlib.contextmanager
def customer_of(world, name):
    """A server, receivers, the secret they share, and an SDK that is their customer."""
    secret = setting.new_secret()
    with setting.serving(world, secrets=[secret], keys=[Key('hooks')]) as (server, hooks):
        customer = Customer(world, PEERS[name], server)
        try:
            yield server, hooks, secret, customer
        finally:
            customer.close()


def play(world, name, wanted):
    """All cells of one peer, as `(cell, outcome, reason)`."""
    mine = [cell for cell in cells() if cell.startswith(f'matrix/{name}/') and wanted(cell)]
    if not mine:
        return
    with customer_of(world, name) as (_, hooks, secret, customer):
        for cell in mine:
            _, _, binding, how, scheme = cell.split('/')
            try:
                one(PEERS[name].speaks, hooks, secret, customer, cell, binding, how, SCHEMES[scheme])
                yield cell, 'ok', ''
            except Exception as error:
                yield cell, 'FAIL', f'{type(error).__name__}: {" ".join(str(error).split())}'


def one(version, hooks, secret, customer, cell, binding, how, scheme):
    path = '/' + cell.replace('/', '-').replace('+', '-')
    registered = {'id': 'mine', 'url': hooks.add(path), 'token': scheme.token, 'scheme': scheme.scheme,
                  'credentials': scheme.credentials}
    task = customer.ask('register', binding=binding, how=how, **registered)['task']
    until(lambda: hooks.at(path) and ends(hooks.at(path)[-1]), f'the end arrives at {path}')
    # As a receiver should: what has been seen is known by its id.
    deliveries = list({one['webhook-id']: one for one in reversed(hooks.at(path))}.values())[::-1]
    texts, states, kinds = [], [], []
    for delivery in deliveries:
        check_headers(delivery, scheme, version)
        Webhook(secret).verify(delivery.body, delivery.headers)
        read = customer.ask('read', body=delivery.body.decode())
        equal('the task that was read', read['task'], task)
        kinds.append(read['kind'])
        states.append(read['state'])
        texts = texts + read['texts'] if version == '1.0' else read['texts']
    equal('what was read', kinds, KINDS[version, how])
    equal('the last state that was read', states[-1], 'TASK_STATE_COMPLETED')
    equal('the texts that were read', texts, ['made'])


def ends(delivery):
    return b'"TASK_STATE_COMPLETED"' in delivery.body or b'"completed"' in delivery.body


def check_headers(delivery, scheme, version):
    equal('media type', delivery['content-type'], 'application/a2a+json' if version == '1.0' else 'application/json')
    wanted = dict(scheme.headers)
    if scheme.token:
        wanted['x-a2a-notification-token'] = scheme.token
    if wanted.get('authorization') is TOKEN:
        wanted['authorization'] = f'Bearer {delivery["x-a2a-signature"]}'
    got = {name: value for name, value in delivery.headers.items() if name not in PLAIN}
    equal('headers', got, wanted)
    holds(delivery['x-a2a-signature'], 'there is no token of ours')
