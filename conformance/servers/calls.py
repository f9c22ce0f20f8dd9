"""What a program made with the library has to manage with servers of other kinds: ask, and be given the text.

The program is the example `call_agent`: `URL TEXT [--api-key K] [--user-email E] [--org-domain D]`. It prints the
answer and ends with 0, or says why there is none and ends with something else.
"""

import servers
from operations import Wrong

WHO = ('--user-email', 'alice@org.example', '--org-domain', 'org.example')
# For each kind what the program is given, as arguments and as environment; and what it is given where that is wrong.
CALLERS = {
    'v0.1': ((), {}, None),
    'agent-native': ((), {}, None),
    'agent-native-jwt': (WHO, {'A2A_SECRET': servers.SECRET}, (WHO, {'A2A_SECRET': 'not the secret'})),
    'agent-native-key': (('--api-key', servers.KEY), {}, (('--api-key', 'not the key'), {})),
    'agent-native-short': ((), {}, None),
    'xpr': ((), {}, None),
}


class Caller:
    def __init__(self, program, server, kind):
        self.program, self.server = program, server
        self.arguments, self.environment, self.wrong = CALLERS[kind]

    def ask(self, text):
        return self.program.run(self.server.url, text, *self.arguments, **self.environment)


def text_of(done):
    if done.status != 0:
        raise Wrong(str(done))
    return done.stdout.strip()


def echo(caller):
    """The answer, and nothing else, is what is printed."""
    got = text_of(caller.ask('echo hello wörld ✓'))
    if got != 'hello wörld ✓':
        raise Wrong(f'got {got!r}')


def slow(caller):
    """An answer that takes a second is waited for."""
    if 'chunk 4' not in text_of(caller.ask('slow 4')):
        raise Wrong('the end of the answer is missing')


def fail(caller):
    """Work that failed is no answer."""
    done = caller.ask('fail')
    if done.status in (0, None) or 'panicked' in done.stderr:
        raise Wrong(str(done))


def ask(caller):
    """Nor is a question."""
    done = caller.ask('ask')
    if done.status in (0, None) or 'panicked' in done.stderr:
        raise Wrong(str(done))


def refused(caller):
    """A wrong credential is refused, and so is none."""
    arguments, environment = caller.wrong
    for done in (
        caller.program.run(caller.server.url, 'echo x', *arguments, **environment),
        caller.program.run(caller.server.url, 'echo x'),
    ):
        if done.status in (0, None) or 'panicked' in done.stderr:
            raise Wrong(str(done))


CALLS = {'echo': echo, 'slow': slow, 'fail': fail, 'ask': ask, 'refused': refused}


def applies(kind, name):
    """Whether a case is one for this kind: XPR has no questions, and not all want a credential."""
    return not (name == 'ask' and kind == 'xpr' or name == 'refused' and CALLERS[kind][2] is None)
