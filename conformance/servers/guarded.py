"""What `sabir` has to manage with agents that do not talk to everybody: TLS, client certificates, tokens of a provider.

A case is given a `Guarded`, which is one server over one binding, and raises `Wrong` when the promise is not kept.
"""

import base64
import dataclasses
import json
import re
import threading
import urllib.parse
import urllib.request

import browser
from operations import Wrong, ending, equal

LOGIN_SECONDS_MAX = 60
CASES = {}
OPENER = urllib.request.build_opener(urllib.request.ProxyHandler({}))


def case(*kinds):
    def keep(function):
        for kind in kinds:
            CASES[kind, function.__name__.replace('_', '-')] = function
        return function

    return keep


@dataclasses.dataclass
class Guarded:
    sabir: object
    server: object
    binding: str

    def run(self, *words, arguments=None):
        given = self.server.arguments if arguments is None else arguments
        return self.sabir.run(
            *words, '--agent-card', self.server.url, '--transport', self.binding, '--output', 'json', *given
        )

    def served(self, *arguments):
        """A message and a stream are both answered."""
        given = [*self.server.arguments, *arguments]
        done = self.run('send', 'echo hello', arguments=given)
        if done.status != 0 or 'TASK_STATE_COMPLETED' not in done.stdout:
            raise Wrong(str(done))
        done = self.run('send', 'slow 2', '--stream', arguments=given)
        if done.status != 0:
            raise Wrong(str(done))
        equal('end of the stream', ending(done.lines()), 'COMPLETED')

    def refused(self, code, status, *arguments):
        done = self.run('send', 'echo hello', arguments=arguments)
        try:
            got = done.json()['error']['code']
        except (ValueError, KeyError):
            raise Wrong(str(done)) from None
        if (got, done.status) != (code, status):
            raise Wrong(f'want {code} and status {status}: {done}')

    def token(self, client='test-machine'):
        key = base64.b64encode(f'{client}:{client}-secret'.encode()).decode()
        form = urllib.parse.urlencode({'grant_type': 'client_credentials', 'scope': 'agent'}).encode()
        request = urllib.request.Request(f'{self.server.more["issuer"]}/token', form, {'Authorization': f'Basic {key}'})
        with OPENER.open(request, timeout=10) as answer:
            return json.load(answer)['access_token']

    def login(self, flow, act, *words):
        """Logs in; `act` is what the person does with each line the tool shows."""
        process = self.sabir.start('auth', 'login', '--agent-card', self.server.url, '--flow', flow, *words)
        alarm = threading.Timer(LOGIN_SECONDS_MAX, process.kill)
        alarm.start()
        seen = []
        try:
            for line in process.stderr:
                seen.append(line)
                act(''.join(seen))
            process.wait()
        finally:
            alarm.cancel()
            process.kill()
            seen.append(process.stdout.read())
        if process.returncode != 0:
            raise Wrong(f'login ended with {process.returncode}: {" ".join("".join(seen).split())[:300]}')


def approving():
    """A person who enters the code, once."""
    done = []

    def act(seen):
        address, code = re.search(r'https?://\S+/device\S*', seen), re.search(r'\b[A-Z]{4}-[A-Z]{4}\b', seen)
        if address and code and not done:
            done.append(threading.Thread(target=browser.approve, args=(address.group(), code.group())))
            done[0].start()

    return act


@case('tls', 'mtls')
def served(guarded):
    """With what `start` says is needed, calls are answered."""
    guarded.served()


@case('tls')
def untrusted(guarded):
    """Without the authority nothing is said to the server."""
    guarded.refused('A2ACLI_ERR_UNREACHABLE', 3)


@case('mtls')
def without(guarded):
    """Without a certificate of ours the card already tells."""
    guarded.refused('A2ACLI_ERR_CREDENTIALS_MISSING', 4, *guarded.server.arguments[:2])


@case('mtls')
def stranger(guarded):
    """With one the server does not know, it hangs up."""
    pair = guarded.server.more['certificates']['stranger']
    given = [*guarded.server.arguments[:2], '--client-cert', pair['cert'], '--client-key', pair['key']]
    guarded.refused('A2ACLI_ERR_UNREACHABLE', 3, *given)


@case('oidc')
def token(guarded):
    """A token of the provider is accepted."""
    guarded.served('--bearer', guarded.token())


@case('oidc')
def wrong(guarded):
    """Another is not, and neither is none."""
    guarded.refused('A2ACLI_ERR_AUTH_FAILED', 4, '--bearer', 'nonsense')
    guarded.refused('A2ACLI_ERR_CREDENTIALS_MISSING', 4)


@case('oauth-client')
def login(guarded):
    """A machine logs in with its secret, and is let in from then on."""
    words = ['--client-id', 'test-machine', '--client-secret', 'test-machine-secret', '--scope', 'agent']
    guarded.login('client-credentials', lambda seen: None, *words)
    guarded.served()


@case('oauth-device')
def login_device(guarded):
    """A person logs in with a code on another device."""
    guarded.login('device-code', approving(), '--client-id', 'test-person', '--scope', 'agent')
    guarded.served()


@case('oidc')
def login_oidc(guarded):
    """So does a person at an OpenID provider, found by discovery."""
    words = ['--client-id', 'test-person', '--scope', 'openid', '--scope', 'agent']
    guarded.login('oidc', approving(), *words)
    guarded.served()
