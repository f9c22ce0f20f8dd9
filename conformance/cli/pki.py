"""Certificates of the tests: a CA, a server and a client, made when needed, good for a day."""

import datetime
import ipaddress
import ssl

from cryptography import x509
from cryptography.hazmat.primitives import hashes, serialization
from cryptography.hazmat.primitives.asymmetric import ec
from cryptography.x509.oid import ExtendedKeyUsageOID, NameOID


def pem(key):
    return key.private_bytes(
        serialization.Encoding.PEM, serialization.PrivateFormat.PKCS8, serialization.NoEncryption()
    )


class Authority:
    """Writes `ca.pem`, and certificates it signed, into a directory."""

    def __init__(self, folder, name='Test CA'):
        folder.mkdir(parents=True, exist_ok=True)
        self.folder, self.key = folder, ec.generate_private_key(ec.SECP256R1())
        self.name = x509.Name([x509.NameAttribute(NameOID.COMMON_NAME, name)])
        certificate = (
            self._builder(self.name, self.key)
            .add_extension(x509.BasicConstraints(ca=True, path_length=None), critical=True)
            .add_extension(x509.KeyUsage(True, False, False, False, False, True, True, False, False), critical=True)
            .sign(self.key, hashes.SHA256())
        )
        self.ca = folder / 'ca.pem'
        self.ca.write_bytes(certificate.public_bytes(serialization.Encoding.PEM))

    def _builder(self, subject, key):
        now = datetime.datetime.now(datetime.UTC)
        return (
            x509.CertificateBuilder()
            .subject_name(subject)
            .issuer_name(self.name)
            .public_key(key.public_key())
            .serial_number(x509.random_serial_number())
            .not_valid_before(now - datetime.timedelta(hours=1))
            .not_valid_after(now + datetime.timedelta(days=1))
        )

    def issue(self, name, usage):
        """Returns the paths of a certificate for 127.0.0.1 and localhost, and of its key."""
        key = ec.generate_private_key(ec.SECP256R1())
        subject = x509.Name([x509.NameAttribute(NameOID.COMMON_NAME, name)])
        names = [x509.DNSName('localhost'), x509.IPAddress(ipaddress.ip_address('127.0.0.1'))]
        certificate = (
            self._builder(subject, key)
            .add_extension(x509.SubjectAlternativeName(names), critical=False)
            .add_extension(x509.BasicConstraints(ca=False, path_length=None), critical=True)
            .add_extension(x509.ExtendedKeyUsage([usage]), critical=False)
            .sign(self.key, hashes.SHA256())
        )
        cert_path, key_path = self.folder / f'{name}.pem', self.folder / f'{name}.key'
        cert_path.write_bytes(certificate.public_bytes(serialization.Encoding.PEM))
        key_path.write_bytes(pem(key))
        key_path.chmod(0o600)
        return cert_path, key_path

    def server(self, name='server'):
        return self.issue(name, ExtendedKeyUsageOID.SERVER_AUTH)

    def client(self, name='client'):
        return self.issue(name, ExtendedKeyUsageOID.CLIENT_AUTH)


class Tls:
    """What a server needs for TLS: its certificate, and whether it asks for the client's."""

    def __init__(self, authority, clients='no'):
        self.authority, self.clients = authority, clients
        self.cert, self.key = authority.server()

    def context(self):
        context = ssl.SSLContext(ssl.PROTOCOL_TLS_SERVER)
        context.load_cert_chain(self.cert, self.key)
        if self.clients != 'no':
            context.load_verify_locations(self.authority.ca)
            context.verify_mode = ssl.CERT_REQUIRED if self.clients == 'required' else ssl.CERT_OPTIONAL
        return context

    def grpc(self):
        import grpc

        return grpc.ssl_server_credentials(
            [(self.key.read_bytes(), self.cert.read_bytes())],
            root_certificates=self.authority.ca.read_bytes() if self.clients != 'no' else None,
            require_client_auth=self.clients == 'required',
        )
