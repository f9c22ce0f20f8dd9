"""What a program made with the library has to manage with servers of other kinds: ask, and be given the text.

The program is the example `call_agent`: `URL TEXT [--api-key-env NAME] [--secret-env NAME] [--user-email E]
[--org-domain D] [--blocking]`. It prints the answer and ends with 0, or says why there is none and ends with something
else.
"""

import servers
from operations import Wrong

WHO = ('--secret-env', 'A2A_SECRET', '--user-email', 'alice@org.example', '--org-domain', 'org.example')
BY_KEY = ('--api-key-env', 'TEST_KEY')
# For each kind what the program is given, as arguments and as environment; and what it is given where that is wrong.
CALLERS = {
    'v0.1': ((), {}, None),
    'agent-native': ((), {}, None),
    'agent-native-jwt': (WHO, {'A2A_SECRET': servers.SECRET}, (WHO, {'A2A_SECRET': 'not the secret'})),
    'agent-native-key': (BY_KEY, {'TEST_KEY': servers.KEY}, (BY_KEY, {'TEST_KEY': 'not the key'})),
    'agent-native-short': ((), {}, None),
    'xpr': ((), {}, None),
}


class Caller:
    def __init__(self, program, server, kind):
        self.program, self.server = program, server
        self.arguments, self.environment, self.wrong = CALLERS[kind]

    def ask(self, text, *more):
        return self.program.run(self.server.url, text, *self.arguments, *more, **self.environment)


def text_of(done):
    if done.status != 0:
        raise Wrong(str(done))
    return done.stdout.strip()


def refusal(done, *words):
    """No answer, and one of these words in what is said about it."""
    said = done.stderr.lower()
    if done.status in (0, None) or done.stdout or 'panicked' in said or not any(word in said for word in words):
        raise Wrong(str(done))


def echo(caller):
    """The answer, and nothing else, is what is printed."""
    got = text_of(caller.ask('echo hello wörld ✓'))
    if got != 'hello wörld ✓':
        raise Wrong(f'got {got!r}')


def blocking(caller):
    """The same in one call, without asking again."""
    got = text_of(caller.ask('echo at once', '--blocking'))
    if got != 'at once':
        raise Wrong(f'got {got!r}')


def slow(caller):
    """An answer that takes a second is waited for."""
    if 'chunk 4' not in text_of(caller.ask('slow 4')):
        raise Wrong('the end of the answer is missing')


def fail(caller):
    """Work that failed is no answer, and it is said why."""
    refusal(caller.ask('fail'), 'fail', 'did not work')


def ask(caller):
    """Nor is a question."""
    refusal(caller.ask('ask'), 'input', 'which city')


def refused(caller):
    """A wrong credential is refused, and so is none."""
    arguments, environment = caller.wrong
    for done in (
        caller.program.run(caller.server.url, 'echo x', *arguments, **environment),
        caller.program.run(caller.server.url, 'echo x'),
    ):
        refusal(done, 'credential', 'authent', '401', 'key')


CALLS = {'echo': echo, 'blocking': blocking, 'slow': slow, 'fail': fail, 'ask': ask, 'refused': refused}


def applies(kind, name):
    """Whether a case is one for this kind: XPR has no questions, and not all want a credential."""
    return not (name == 'ask' and kind == 'xpr' or name == 'refused' and CALLERS[kind][2] is None)
