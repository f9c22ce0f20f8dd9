"""Mutual TLS: a client certificate where the card asks for one."""

import pki
from harness import equal, holds
from registry import ALL, requirement

MTLS = {'cert': {'mtlsSecurityScheme': {}}}


def strict(case):
    """A server that lets nobody in without a certificate. Its card is in a file, as nobody could fetch it."""
    tls = pki.Tls(pki.Authority(case.scratch / 'pki'), clients='required')
    server = case.stub(tls=tls, schemes=MTLS)
    certificate, key = tls.authority.client()
    return server, case.file('card.json', server.card), ('--ca-cert', tls.authority.ca), certificate, key


@requirement('A2ACLI_AUTH_009', bindings=ALL)
def a_client_certificate_opens_the_door(case):
    server, card, trust, certificate, key = strict(case)
    for arguments in (('send', 'hi'), ('send', 'hi', '--stream'), ('task', 'get', 't-1'), ('task', 'list')):
        case.run(*arguments, '-a', card, *trust, '--client-cert', certificate, '--client-key', key, '-o', 'json').exits(
            0
        )
    if case.binding == 'GRPC':
        equal({call.headers['-peer'] for call in server.calls}, {'client'}, 'the name in the certificate')
    else:
        holds(server.requests and all(r.certificate for r in server.requests), 'each request came with the certificate')
    holds(len(server.calls) >= 4, f'calls: {server.calls}')
    environment = {'A2ACLI_CLIENT_CERT': certificate, 'A2ACLI_CLIENT_KEY': key, 'A2ACLI_CA_CERT': trust[1]}
    case.run('task', 'list', '-a', card, '-o', 'json', env=environment).exits(0)


@requirement('A2ACLI_AUTH_009', bindings=ALL)
def without_the_right_certificate_it_stays_shut(case):
    server, card, trust, certificate, key = strict(case)
    run = case.run('send', 'hi', '-a', card, *trust, '-o', 'json')
    run.fails('A2ACLI_ERR_CREDENTIALS_MISSING', 4)
    stranger = pki.Authority(case.scratch / 'other', 'Another CA')
    wrong, wrong_key = stranger.client('stranger')
    run = case.run('send', 'hi', '-a', card, *trust, '--client-cert', wrong, '--client-key', wrong_key, '-o', 'json')
    holds(run.code in (3, 4), f'a foreign certificate: {run}')
    # The certificate does not excuse the server from having one we trust.
    run = case.run('send', 'hi', '-a', card, '--client-cert', certificate, '--client-key', key, '-o', 'json')
    run.fails('A2ACLI_ERR_UNREACHABLE', 3)
    equal(server.calls, [], 'requests that got through')
    case.run('send', 'hi', '-a', card, '--client-cert', 'none.pem', '--client-key', key, '-o', 'json').fails(
        'A2ACLI_ERR_USAGE', 2
    )
