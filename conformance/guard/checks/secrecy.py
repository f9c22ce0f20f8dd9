"""What the guard writes and stores: no secret of any scheme is in it."""


from bindings import BINDINGS, Credential
from registry import check, equal
from schemes import SCHEMES
from stage import RPC


@check
def no_secret_is_written_anywhere(world):
    """Every scheme, right and wrong; then all the server wrote and stored is searched for each secret that was used."""
    found = []
    for name in ('api_key', 'native', 'native-org', 'legacy_key', 'jwt', 'basic'):
        scheme = SCHEMES[name](world)
        config = scheme.config()
        server = world.server(config, env=scheme.env, tls=world.certificates.ca if scheme.tls else None)
        scheme.prepare(server)
        with server:
            scheme.ready()
            credentials = [c for c in (scheme.a, scheme.b, scheme.wrong, scheme.expired) if c]
            used = set(scheme.secrets)
            for credential in credentials:
                used |= {value.split(' ', 1)[-1] for _, value in credential.pairs}
                for binding in BINDINGS.values():
                    binding.send(server, credential)
                RPC.send(server, Credential(*credential.pairs, ('X-API-Key', 'sabir_' + '2' * 32)))
                server.call('GET', '/tasks', dict(credential.pairs) | {'A2A-Version': '1.0'})
            server.sabir('audit', 'tail', '-n', '100', '--config', server.config)
        for path, data in server.written():
            found += [f'{name}: {path}' for secret in used if secret.encode() in data]
            # A token is also given away by its last part.
            found += [
                f'{name}: signature in {path}'
                for s in used
                if s.count('.') == 2 and s.rsplit('.', 1)[1].encode() in data
            ]
    equal('places where a secret stands', sorted(set(found)), [])
