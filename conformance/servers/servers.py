"""Real servers for the client to talk to, by name.

    with serving('python-1') as server:
        … server.url, server.card, server.interfaces['GRPC'] …

The model: a *kind* is one way to run one agent. Each starts programs on free ports of loopback, waits until they
listen, and stops them in the end whatever happens. The agents do what the first word of a message says
(`agents/behaviour.py`).
"""

import contextlib
import dataclasses
import itertools
import os
import pathlib
import shutil
import subprocess
import sys
import tempfile

import ca
import packages
import rogues
import startup
from catalog import GO, JAVA_SERVER, PROVIDER
from packages import HERE, Unable

STOP_SECONDS_MAX = 5
# A virtual machine of Java starts in three seconds, and in more than thirty where five programs share two cores.
JAVA_SECONDS_MAX = 120
# Known to the tests, and to nobody's harm.
SECRET = 'test-secret-of-agent-native'
KEY = 'test-key-of-agent-native'
AUDIENCE = 'urn:test:agent'


@dataclasses.dataclass
class Server:
    """Where a server is, and what one has to know to call it."""

    kind: str
    url: str
    card: str
    interfaces: dict
    pid: int
    # What `sabir` needs besides the address.
    arguments: list = dataclasses.field(default_factory=list)
    more: dict = dataclasses.field(default_factory=dict)

    def line(self):
        """What `start` prints."""
        fields = {field.name: getattr(self, field.name) for field in dataclasses.fields(self) if field.name != 'more'}
        return {**fields, **self.more}


# --- Programs ---------------------------------------------------------------------------------------------------------


class Programs(contextlib.ExitStack):
    """What one kind has started, with a directory of its own."""

    def __init__(self, wanted=()):
        super().__init__()
        self.wanted, self.started = wanted, 0
        self.scratch = pathlib.Path(tempfile.mkdtemp(prefix='sabir-server-'))
        self.callback(shutil.rmtree, self.scratch, ignore_errors=True)

    def ports(self, count):
        """Free ports; the first are those that were asked for, if any were."""
        ports = startup.free_ports(count)
        return [port or free for port, free in itertools.zip_longest(self.wanted, ports)][:count]

    def run(self, arguments, *ports, seconds=startup.START_SECONDS_MAX):
        """Starts a program and waits until it listens on all ports."""
        self.started += 1
        log = self.scratch / f'program-{self.started}.log'
        with open(log, 'wb') as file:
            process = subprocess.Popen(
                [str(argument) for argument in arguments], env=environment(self.scratch), cwd=self.scratch,
                stdin=subprocess.DEVNULL, stdout=file, stderr=file,
            )
        self.callback(stop, process)
        startup.wait(process, arguments, startup.listens_on(*ports), log, seconds=seconds)
        return process.pid


def environment(scratch):
    kept = {k: v for k, v in os.environ.items() if not k.lower().endswith('_proxy') and not k.startswith('A2A_')}
    local = '127.0.0.1,localhost'
    return {**kept, 'NO_PROXY': local, 'no_proxy': local, 'TMPDIR': str(scratch), 'PYTHONDONTWRITEBYTECODE': '1'}


def stop(process):
    process.terminate()
    try:
        process.wait(STOP_SECONDS_MAX)
    except subprocess.TimeoutExpired:
        process.kill()
        process.wait()


# --- Kinds ------------------------------------------------------------------------------------------------------------


def bindings(base, grpc):
    return {'JSONRPC': f'{base}/rpc', 'HTTP+JSON': f'{base}/rest', 'GRPC': grpc}


def official(peer, script):
    """An agent on an official SDK, on three bindings."""

    def start(kind, programs):
        http, grpc = programs.ports(2)
        command = packages.script(peer, script, 'agents/behaviour.mjs')
        pid = programs.run([*command, '--http', http, '--grpc', grpc], grpc, http)
        base = f'http://127.0.0.1:{http}'
        interfaces = bindings(base, f'127.0.0.1:{grpc}')
        return Server(kind, base, f'{base}/.well-known/agent-card.json', interfaces, pid)

    return start


def go(program, *arguments, offers=('JSONRPC', 'HTTP+JSON', 'GRPC')):
    """An agent on the SDK for Go."""

    def start(kind, programs):
        http, grpc = programs.ports(2)
        pid = programs.run([*GO.script(pathlib.Path(program)), '-http', http, '-grpc', grpc, *arguments], grpc, http)
        base = f'http://127.0.0.1:{http}'
        interfaces = {name: url for name, url in bindings(base, f'127.0.0.1:{grpc}').items() if name in offers}
        return Server(kind, base, f'{base}/.well-known/agent-card.json', interfaces, pid)

    return start


def java(*properties):
    """An agent on the SDK for Java. Its reference server for gRPC is not on Maven Central in this version."""

    def start(kind, programs):
        [http] = programs.ports(1)
        program, *arguments = JAVA_SERVER.script()
        command = [program, f'-Dquarkus.http.port={http}', *properties, *arguments]
        pid = programs.run(command, http, seconds=JAVA_SECONDS_MAX)
        base = f'http://127.0.0.1:{http}'
        return Server(kind, base, f'{base}/.well-known/agent-card.json', {'JSONRPC': base, 'HTTP+JSON': base}, pid)

    return start


def v0_1(kind, programs):
    [http] = programs.ports(1)
    pid = programs.run([*packages.script('pya2a-0.1.1', 'agents/v0_1.py'), '--http', http], http)
    base = f'http://127.0.0.1:{http}'
    return Server(kind, base, f'{base}/.well-known/agent.json', {'JSONRPC': f'{base}/rpc'}, pid)


def agent_native(*arguments, path='/_agent-native/a2a', **more):
    def start(kind, programs):
        [http] = programs.ports(1)
        command = packages.script('agent-native-0.133.3', 'agents/agent_native.mjs', 'agents/behaviour.mjs')
        pid = programs.run([*command, '--http', http, *arguments], http)
        base = f'http://127.0.0.1:{http}'
        card = f'{base}/.well-known/agent-card.json' if path != '/a2a' else None
        return Server(kind, base, card, {'JSONRPC': base + path}, pid, more=more)

    return start


def xpr(*arguments):
    def start(kind, programs):
        [http] = programs.ports(1)
        command = packages.script('xpr-0.2.6', 'agents/xpr.mjs', 'agents/behaviour.mjs')
        pid = programs.run([*command, '--http', http, *arguments], http)
        base = f'http://127.0.0.1:{http}'
        return Server(kind, base, f'{base}/.well-known/agent.json', {'JSONRPC': f'{base}/a2a'}, pid)

    return start


def provider(programs, port, *tls):
    """The OpenID provider: its issuer, and its process."""
    command = PROVIDER.script(HERE / 'provider' / 'provider.mjs')
    pid = programs.run([*command, '--port', port, *(('--tls', *tls) if tls else ())], port)
    return (f'https://localhost:{port}' if tls else f'http://127.0.0.1:{port}'), pid


def signed_in(flow):
    """An agent that wants a token, and the provider that gives it; the card says how to get one."""

    def start(kind, programs):
        http, grpc, port = programs.ports(3)
        issuer, _ = provider(programs, port)
        command = [*packages.script('py-1.3.0', 'agents/python_1.py'), '--http', http, '--grpc', grpc]
        pid = programs.run([*command, '--oidc', issuer, AUDIENCE, '--flow', flow], grpc, http)
        base = f'http://127.0.0.1:{http}'
        clients = {name: None for name in ('test-person', 'test-person-short')}
        clients |= {name: f'{name}-secret' for name in ('test-machine', 'test-machine-short', 'test-machine-post')}
        more = {'issuer': issuer, 'audience': AUDIENCE, 'clients': clients}
        interfaces = bindings(base, f'127.0.0.1:{grpc}')
        return Server(kind, base, f'{base}/.well-known/agent-card.json', interfaces, pid, more=more)

    return start


def secured(wants_client):
    """An agent behind TLS, with a certificate of the test authority; with `wants_client` it wants one as well."""

    def start(kind, programs):
        made = ca.make(programs.scratch / 'ca')
        http, grpc, card = programs.ports(3)
        command = [*packages.script('py-1.3.0', 'agents/python_1.py'), '--http', http, '--grpc', grpc]
        command += ['--tls', *made.server, '--card-http', card]
        if wants_client:
            command += ['--client-ca', made.ca]
        pid = programs.run(command, grpc, http, card)
        base = f'https://localhost:{http}'
        # Nobody shows a certificate to read a card, so the card has a door of its own.
        address = f'https://localhost:{card}/.well-known/agent-card.json'
        arguments = ['--ca-cert', str(made.ca)]
        if wants_client:
            arguments += ['--client-cert', str(made.client[0]), '--client-key', str(made.client[1])]
        interfaces = bindings(base, f'https://localhost:{grpc}')
        url = address.removesuffix('/.well-known/agent-card.json')
        return Server(kind, url, address, interfaces, pid, arguments, {'certificates': made.paths()})

    return start


KINDS = {
    'python-1': official('py-1.3.0', 'agents/python_1.py'),
    'python-0.3': official('py-0.3.26', 'agents/python_0_3.py'),
    'js-1': official('js-1.3.0', 'agents/js_1.mjs'),
    'js-0.3': official('js-0.3.14', 'agents/js_0_3.mjs'),
    'v0.1': v0_1,
    'agent-native': agent_native(),
    'agent-native-jwt': agent_native('--secret', SECRET, secret=SECRET),
    'agent-native-key': agent_native('--key', KEY, key=KEY),
    'agent-native-short': agent_native('--short', path='/a2a'),
    'xpr': xpr(),
    'xpr-signed': xpr('--signed'),
    'oidc': signed_in('oidc'),
    'oauth-device': signed_in('device'),
    'oauth-client': signed_in('client'),
    'go-1': go('server-2'),
    'go-as-0.3': go('server-2', '-speak', '0.3'),
    # It serves no HTTP+JSON.
    'go-0.3': go('server-0.3', offers=('JSONRPC', 'GRPC')),
    'java-0.3': java(),
    # The same, with another binding at the head of the card: it is the one that a hub takes.
    'go-1-rest': go('server-2', '-first', 'HTTP+JSON'),
    'go-1-grpc': go('server-2', '-first', 'GRPC'),
    'go-as-0.3-rest': go('server-2', '-speak', '0.3', '-first', 'HTTP+JSON'),
    'go-as-0.3-grpc': go('server-2', '-speak', '0.3', '-first', 'GRPC'),
    'go-0.3-grpc': go('server-0.3', '-first', 'GRPC', offers=('JSONRPC', 'GRPC')),
    'java-0.3-rest': java('-Dfirst=HTTP+JSON'),
    'tls': secured(wants_client=False),
    'mtls': secured(wants_client=True),
}


def gallery(name, twin):
    """A rogue, or its healthy twin."""
    rogue = rogues.ROGUES[name]

    def start(kind, programs):
        port, spare = programs.ports(2)
        base = rogues.origin(rogue, port)
        server = Server(kind, base, f'{base}/.well-known/agent-card.json', {'JSONRPC': f'{base}/rpc'}, 0)
        if rogue.setting.rest:
            server.interfaces['HTTP+JSON'] = f'{base}/rest'
        command = [sys.executable, '-B', HERE / 'rogues.py', name, '--port', port]
        if rogue.secure:
            made = ca.make(programs.scratch / 'ca')
            command += ['--certificates', made.directory]
            server.arguments = ['--ca-cert', str(made.ca)]
        if rogue.setting.token:
            server.arguments = ['--bearer', rogue.setting.token]
        if name == 'card.redirect':
            command += ['--spare', spare]
        if twin or rogue.serves:
            server.pid = programs.run([*command, *(['--twin'] if twin else [])], port)
        if rogue.url and not twin:
            server.url, server.card = rogue.url, f'{rogue.url}/.well-known/agent-card.json'
        return server

    return start


for name in rogues.ROGUES:
    KINDS[f'rogue:{name}'] = gallery(name, twin=False)
    KINDS[f'rogue-twin:{name}'] = gallery(name, twin=True)


@contextlib.contextmanager
def serving(kind, *ports):
    """Runs a server of this kind, on these ports if any are given, and yields where it is."""
    with Programs(ports) as programs:
        yield find(kind)(kind, programs)


def find(kind):
    if kind not in KINDS:
        names = [name for name in KINDS if not name.startswith('rogue')]
        raise Unable(f'there is no server {kind!r}; there are {", ".join(names)}, rogue:ID and rogue-twin:ID')
    return KINDS[kind]
