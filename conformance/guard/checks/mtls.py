"""TLS and client certificates, with an authority made by the openssl command."""

import http.client

from bindings import BINDINGS, NOBODY, Credential, bearer
from registry import check, equal, holds
from server import NotServing
from stage import GRPC, RPC, WHOAMI, running, who


def config(world, tls='', auth='accept = ["mtls"]\n[auth.mtls]\n', server='test-server'):
    made = world.certificates
    cert, key = made.pair(server)
    return (
        f'[server.tls]\ncert = "file:{cert}"\nkey = "file:{key}"\nclient_ca = "file:{made.ca}"\n{tls}\n[auth]\n{auth}\n'
    )


def secured(world, *words, **more):
    tls = more.pop('tls', '')
    auth = more.pop('auth', 'accept = ["mtls"]\n[auth.mtls]\n')
    return running(world, config(world, tls, auth), tls=world.certificates.ca, **more)


def shows(world, name):
    return Credential(certificate=world.certificates.pair(name))


def handshake_refused(server, credential, what):
    try:
        outcome = RPC.send(server, credential)
    except (OSError, http.client.HTTPException):
        pass
    else:
        raise AssertionError(f'{what}: want the handshake refused, got {outcome}')
    outcome = GRPC.send(server, credential)
    equal(f'{what} over gRPC', outcome.status, 14)


@check
def a_certificate_of_the_authority_is_enough(world):
    with secured(world) as server:
        for binding in BINDINGS.values():
            outcome = binding.send(server, shows(world, 'ana'))
            holds(outcome.served, f'{binding.name}: {outcome}')


@check
def the_caller_is_named_by_its_certificate(world):
    with secured(world, agents=WHOAMI) as server:
        for name, caller in (
            ('ana', 'mtls:uri:spiffe://test/ana'),
            ('dns', 'mtls:dns:client.test'),
            ('mail', 'mtls:email:carol@example.org'),
        ):
            equal(f'caller with the certificate {name}', who(server, shows(world, name))['caller'], caller)


@check
def a_certificate_without_a_name_is_nobody(world):
    """The one that has only a subject: what is not in the SAN is not believed."""
    with secured(world) as server:
        outcome = RPC.send(server, shows(world, 'test-client'))
        equal('without a SAN', (outcome.status, outcome.code), (401, -32000))


@check
def other_certificates_are_refused_in_the_handshake(world):
    with secured(world) as server:
        handshake_refused(server, shows(world, 'test-stranger'), 'another authority')
        handshake_refused(server, shows(world, 'late'), 'expired')
        handshake_refused(server, shows(world, 'wrong-use'), 'a certificate for servers')
        outcome = RPC.send(server, NOBODY)
        equal('none', (outcome.status, outcome.code), (401, -32000))
        card = server.call('GET', '/.well-known/agent-card.json')
        equal('the card, without one', card.status, 200)


@check
def a_certificate_can_be_required_of_everybody(world):
    with secured(world, tls='client_auth = "required"') as server:
        handshake_refused(server, NOBODY, 'no certificate')
        holds(RPC.send(server, shows(world, 'ana')).served, 'a good one is refused')


@check
def only_those_on_the_list_may_enter(world):
    auth = 'accept = ["mtls"]\n[auth.mtls]\nallow = ["uri:spiffe://test/ana"]\n'
    with secured(world, auth=auth) as server:
        holds(RPC.send(server, shows(world, 'ana')).served, 'one on the list is refused')
        outcome = RPC.send(server, shows(world, 'ben'))
        holds(outcome.status in (401, 403) and outcome.code == -32000, f'one not on the list: {outcome}')


@check
def beside_a_certificate_the_header_decides(world):
    keys = {}

    def prepare(server):
        keys.update(server.key('--name', 'ana'))

    auth = 'accept = ["mtls", "api_key"]\n[auth.mtls]\n'
    with secured(world, auth=auth, agents=WHOAMI, prepare=prepare) as server:
        both = Credential(*bearer(keys['key']).pairs, certificate=world.certificates.pair('ana'))
        equal('caller', who(server, both)['caller'], f'key:{keys["id"]}')
        bad = Credential(*bearer('sabir_' + '0' * 32).pairs, certificate=world.certificates.pair('ana'))
        equal('a wrong key beside a good certificate', RPC.send(server, bad).status, 401)


@check
def basic_is_for_tls_only(world):
    users = '[auth]\naccept = ["basic"]\n[auth.basic]\nuser = [{ name = "ana", password = "env:ANA" }]\n'
    from schemes import basic

    try:
        with running(world, users, env={'ANA': 'test-password-of-ana'}) as server:
            outcome = RPC.send(server, basic('ana', 'test-password-of-ana'))
            equal('over plain HTTP', (outcome.status, outcome.code), (401, -32000))
    except NotServing:
        # To refuse the configuration is better still.
        return 'refused at the start'


@check
def mtls_without_an_authority_is_refused_at_the_start(world):
    try:
        with running(world, '[auth]\naccept = ["mtls"]\n[auth.mtls]\n'):
            raise AssertionError('it started')
    except NotServing as why:
        holds('client_ca' in why.output, f'the reason does not name client_ca: {why}')
