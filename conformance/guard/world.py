"""What the checks of a run share: the program, an authority, a chain, an issuer; each made when first needed."""

import pathlib
import shutil
import sys
import tempfile
import threading

HERE = pathlib.Path(__file__).resolve().parent
SERVERS = HERE.parent / 'servers'


class World:
    def __init__(self, sabir, short=False):
        self.sabir, self.short = pathlib.Path(sabir).resolve(), short
        self.scratch = pathlib.Path(tempfile.mkdtemp(prefix='sabir-guard-run-'))
        self.made, self.lock = {}, threading.RLock()

    def once(self, name, make):
        with self.lock:
            if name not in self.made:
                self.made[name] = make()
            return self.made[name]

    @property
    def certificates(self):
        """A CA made with the openssl command, with two clients, named by their SAN, and one whose time is over."""

        def make():
            sys.path.append(str(SERVERS))
            import ca

            made = ca.make(self.scratch / 'ca')
            for name in ('ana', 'ben'):
                ca.signed(made.directory, name, f'URI:spiffe://test/{name}', 'clientAuth')
            ca.signed(made.directory, 'fresh', ca.LOCAL, 'serverAuth')
            ca.signed(made.directory, 'card', 'DNS:card.test', 'serverAuth')
            ca.signed(made.directory, 'dns', 'DNS:client.test', 'clientAuth')
            ca.signed(made.directory, 'mail', 'email:carol@example.org', 'clientAuth')
            ca.signed(made.directory, 'late', 'URI:spiffe://test/ana', 'clientAuth', days=-1)
            ca.signed(made.directory, 'wrong-use', 'URI:spiffe://test/ana', 'serverAuth')
            return made

        return self.once('certificates', make)

    @property
    def chain(self):
        from chain import Chain

        return self.once('chain', Chain)

    @property
    def issuer(self):
        from issuer import Issuer

        return self.once('issuer', Issuer)

    def server(self, config, **more):
        """A server that is not started yet; its directory goes with the run."""
        from server import Server

        folder = pathlib.Path(tempfile.mkdtemp(prefix='server-', dir=self.scratch))
        return Server(self.sabir, config, folder=folder, **more)

    def close(self):
        for thing in self.made.values():
            if hasattr(thing, 'close'):
                thing.close()
        shutil.rmtree(self.scratch, ignore_errors=True)
