"""A certificate authority for the tests, made with the openssl command, and thrown away with its directory.

    with directory() as made:      # made.ca, made.server, made.client, made.expired, made.elsewhere, made.selfsigned

Each but `ca` is a pair of paths, certificate and key. All names say `test`; no key outlives the run.
"""

import contextlib
import dataclasses
import pathlib
import shutil
import subprocess
import tempfile

from packages import Unable

LOCAL = 'DNS:localhost,IP:127.0.0.1'
# Long enough for a run, and too short to be of use to anybody who finds one.
DAYS = 2


@dataclasses.dataclass(frozen=True)
class Certificates:
    directory: pathlib.Path

    @property
    def ca(self):
        return self.directory / 'test-ca.pem'

    def pair(self, name):
        return self.directory / f'{name}.pem', self.directory / f'{name}.key'

    server = property(lambda self: self.pair('test-server'))
    client = property(lambda self: self.pair('test-client'))
    expired = property(lambda self: self.pair('test-expired'))
    elsewhere = property(lambda self: self.pair('test-elsewhere'))
    selfsigned = property(lambda self: self.pair('test-selfsigned'))
    # A client certificate of an authority the server does not know.
    stranger = property(lambda self: self.pair('test-stranger'))

    def paths(self):
        names = ('server', 'client', 'expired', 'elsewhere', 'selfsigned', 'stranger')
        pairs = {name: dict(zip(('cert', 'key'), map(str, getattr(self, name)), strict=True)) for name in names}
        return {'directory': str(self.directory), 'ca': str(self.ca), **pairs}


def openssl(directory, *arguments):
    try:
        subprocess.run(['openssl', *arguments], cwd=directory, check=True, capture_output=True, text=True)
    except FileNotFoundError as error:
        raise Unable('the openssl command is needed') from error
    except subprocess.CalledProcessError as error:
        raise Unable(f'openssl {arguments[0]} failed: {error.stderr}') from error


def new_key(directory, name):
    openssl(directory, 'genpkey', '-algorithm', 'EC', '-pkeyopt', 'ec_paramgen_curve:P-256', '-out', f'{name}.key')
    (directory / f'{name}.key').chmod(0o600)


def authority(directory, name):
    new_key(directory, name)
    openssl(
        directory, 'req', '-x509', '-new', '-key', f'{name}.key', '-out', f'{name}.pem', '-days', str(DAYS),
        '-subj', f'/CN={name} authority of a test', '-addext', 'basicConstraints=critical,CA:TRUE',
        '-addext', 'keyUsage=critical,keyCertSign,cRLSign',
    )


def signed(directory, name, names, usage, by='test-ca', days=DAYS):
    new_key(directory, name)
    openssl(directory, 'req', '-new', '-key', f'{name}.key', '-out', f'{name}.csr', '-subj', f'/CN={name}')
    lines = ['basicConstraints=CA:FALSE', f'extendedKeyUsage={usage}', 'keyUsage=digitalSignature']
    if names:
        lines.append(f'subjectAltName={names}')
    (directory / f'{name}.ext').write_text('\n'.join(lines) + '\n')
    if days >= 0:
        openssl(
            directory, 'x509', '-req', '-in', f'{name}.csr', '-CA', f'{by}.pem', '-CAkey', f'{by}.key',
            '-CAcreateserial', '-out', f'{name}.pem', '-days', str(days), '-extfile', f'{name}.ext',
        )
        return
    # `x509` of OpenSSL 3.0 cannot make a certificate of the past; `ca` can.
    (directory / 'index.txt').write_text('')
    (directory / 'serial').write_text('1000\n')
    (directory / 'ca.cnf').write_text(
        '[ca]\ndefault_ca=it\n[it]\ndatabase=index.txt\nserial=serial\nnew_certs_dir=.\ndefault_md=sha256\npolicy=any\n'
        '[any]\ncommonName=supplied\n'
    )
    openssl(
        directory, 'ca', '-batch', '-config', 'ca.cnf', '-in', f'{name}.csr', '-cert', f'{by}.pem', '-keyfile',
        f'{by}.key', '-out', f'{name}.pem', '-startdate', '20200101000000Z', '-enddate', '20200201000000Z', '-notext',
        '-extfile', f'{name}.ext',
    )


def make(directory):
    """Fills a directory."""
    directory = pathlib.Path(directory)
    directory.mkdir(parents=True, exist_ok=True)
    authority(directory, 'test-ca')
    authority(directory, 'test-other-ca')
    signed(directory, 'test-server', LOCAL, 'serverAuth')
    signed(directory, 'test-client', None, 'clientAuth')
    signed(directory, 'test-expired', LOCAL, 'serverAuth', days=-1)
    signed(directory, 'test-elsewhere', 'DNS:elsewhere.test', 'serverAuth')
    signed(directory, 'test-stranger', None, 'clientAuth', by='test-other-ca')
    new_key(directory, 'test-selfsigned')
    openssl(
        directory, 'req', '-x509', '-new', '-key', 'test-selfsigned.key', '-out', 'test-selfsigned.pem', '-days',
        str(DAYS), '-subj', '/CN=test-selfsigned', '-addext', f'subjectAltName={LOCAL}',
        # Else it would be an authority of its own, and a client that is given it would be right to trust it.
        '-addext', 'basicConstraints=critical,CA:FALSE',
    )
    return Certificates(directory)


@contextlib.contextmanager
def directory():
    scratch = pathlib.Path(tempfile.mkdtemp(prefix='sabir-test-ca-'))
    try:
        yield make(scratch)
    finally:
        shutil.rmtree(scratch, ignore_errors=True)
