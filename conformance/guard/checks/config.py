"""What the server refuses to start with, and what it makes of a configuration that says little."""

from bindings import NOBODY, bearer
from registry import check, equal, holds
from server import NotServing
from stage import RPC, running

PLAIN = 'a-plain-text-secret-in-the-file'


def refuses(world, config, *words, **more):
    """It does not start, says why in these words, and does not repeat what may be a secret."""
    try:
        with running(world, config, **more):
            raise AssertionError(f'it started with {config!r}')
    except NotServing as why:
        for word in words:
            holds(word in why.output, f'{config!r}: the reason does not say {word!r}: {why}')
        holds(PLAIN not in why.output, f'the reason repeats the secret: {why}')


@check
def a_secret_in_the_file_is_refused(world):
    refuses(world, f'[auth]\naccept = ["jwt"]\n[auth.jwt]\nsecret = "{PLAIN}"\n', 'secret')
    refuses(world, f'[auth]\naccept = ["legacy_key"]\n[auth.legacy_key]\nsecret = "{PLAIN}"\n', 'secret')
    users = f'user = [{{ name = "ana", password = "{PLAIN}" }}]'
    refuses(world, f'[auth]\naccept = ["basic"]\n[auth.basic]\n{users}\n', 'password')


@check
def a_secret_that_is_not_there_is_refused(world):
    refuses(world, '[auth]\naccept = ["jwt"]\n[auth.jwt]\nsecret = "env:NOT_SET_ANYWHERE"\n', 'NOT_SET_ANYWHERE')
    refuses(world, '[auth]\naccept = ["legacy_key"]\n[auth.legacy_key]\nsecret = "file:no-such-file"\n', 'no-such-file')
    refuses(world, '[auth]\naccept = ["jwt"]\n[auth.jwt]\nsecret = "env:EMPTY"\n', 'EMPTY', env={'EMPTY': ''})


@check
def a_secret_may_be_in_a_file(world):
    config = '[auth]\naccept = ["legacy_key"]\n[auth.legacy_key]\nsecret = "file:given/key"\n'
    with running(world, config, prepare=lambda server: server.given('key', 'test-key-of-a-file\n')) as server:
        equal('the key, without the end of its line', RPC.send(server, bearer('test-key-of-a-file')).status, 200)
        equal('nobody', RPC.send(server, NOBODY).status, 401)


@check
def what_has_no_meaning_is_refused(world):
    refuses(world, '[auth]\nacept = ["api_key"]\n', 'acept')
    refuses(world, '[auth]\naccept = ["passport"]\n', 'passport')
    refuses(world, '[auth]\naccept = ["xpr"]\n', 'xpr')
    refuses(world, '[auth]\naccept = ["xpr"]\n[auth.xpr]\nrpc_url = "http://127.0.0.1:9"\nmin_kic = 1\n', 'min_kic')
    refuses(world, '[limits]\nrate = 5\n', 'rate')
    refuses(world, '[limits]\ntool_mode = "half"\n', 'half')
    refuses(world, '[auth]\naccept = ["jwt"]\n[auth.jwt]\nissuer = "https://issuer.test"\n', 'audience')


@check
def what_is_accepted_is_what_has_a_section(world):
    with running(world, '[auth.legacy_key]\nsecret = "env:K"\n', env={'K': 'test-key-by-section'}) as server:
        equal('nobody', RPC.send(server, NOBODY).status, 401)
        equal('the key', RPC.send(server, bearer('test-key-by-section')).status, 200)


@check
def origins_are_invited_by_name_only(world):
    def preflight(server, origin):
        asked = {
            'Origin': origin,
            'Access-Control-Request-Method': 'POST',
            'Access-Control-Request-Headers': 'authorization',
        }
        return server.call('OPTIONS', '/', asked).header('Access-Control-Allow-Origin')

    with running(world, '[auth]\naccept = ["api_key"]\n') as server:
        equal('by default', preflight(server, 'https://app.test'), None)
    with running(world, '[server]\ncors = ["https://app.test"]\n[auth]\naccept = ["api_key"]\n') as server:
        equal('one that is named', preflight(server, 'https://app.test'), 'https://app.test')
        equal('another', preflight(server, 'https://evil.test'), None)
    with running(world, '[server]\ncors = ["*"]\n[auth]\naccept = ["api_key"]\n') as server:
        answer = server.call('OPTIONS', '/', {'Origin': 'https://any.test', 'Access-Control-Request-Method': 'POST'})
        equal('cookies for everybody', answer.header('Access-Control-Allow-Credentials'), None)
