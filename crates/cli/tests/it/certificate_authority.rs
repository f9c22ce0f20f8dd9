//! A certificate authority for the tests, made with the openssl command and thrown away with its directory.

use rustls::crypto::aws_lc_rs;
use rustls::pki_types::pem::PemObject;
use rustls::pki_types::{CertificateDer, PrivateKeyDer};
use rustls::version::{TLS12, TLS13};
use rustls::{ClientConfig, RootCertStore, SupportedProtocolVersion};
use std::fs;
use std::path::{Path, PathBuf};
use std::process::Command;
use std::sync::Arc;
use tempfile::TempDir;

/// The names of a server under test.
pub(crate) const LOCAL: &str = "DNS:localhost,DNS:agents.test,DNS:*.wild.test,IP:127.0.0.1";

/// A certificate and its key.
pub(crate) struct CertificateAndKey {
    pub(crate) cert: PathBuf,
    pub(crate) key: PathBuf,
}

impl CertificateAndKey {
    pub(crate) fn der(&self) -> CertificateDer<'static> {
        CertificateDer::from_pem_file(&self.cert).unwrap()
    }
}

/// A certificate authority, with its files in a directory of its own.
pub(crate) struct CertificateAuthority {
    directory: TempDir,
}

impl CertificateAuthority {
    pub(crate) fn new() -> Self {
        let authority = Self { directory: TempDir::with_prefix("sabir-ca-").unwrap() };
        authority.key("ca");
        // No two have the same name, as authorities do.
        let name = authority.directory.path().file_name().unwrap().to_string_lossy().into_owned();
        let usage =
            ["-addext", "basicConstraints=critical,CA:TRUE", "-addext", "keyUsage=critical,keyCertSign,cRLSign"];
        let made = ["req", "-x509", "-new", "-key", "ca.key", "-out", "ca.pem", "-days", "2", "-subj"];
        authority.openssl(&[&made[..], &[&format!("/CN=test {name}")], &usage].concat());
        authority
    }

    pub(crate) fn path(&self, name: &str) -> PathBuf {
        self.directory.path().join(name)
    }

    /// The certificate that clients and servers trust.
    pub(crate) fn root(&self) -> PathBuf {
        self.path("ca.pem")
    }

    #[track_caller]
    pub(crate) fn openssl(&self, arguments: &[&str]) {
        let done = Command::new("openssl").args(arguments).current_dir(self.directory.path()).output();
        let done = done.expect("these tests need the openssl command");
        assert!(done.status.success(), "{arguments:?}: {}", String::from_utf8_lossy(&done.stderr));
    }

    fn key(&self, name: &str) {
        let key = format!("{name}.key");
        self.openssl(&["genpkey", "-algorithm", "EC", "-pkeyopt", "ec_paramgen_curve:P-256", "-out", &key]);
    }

    /// A certificate for a server with a key of another kind, as openssl names it.
    pub(crate) fn server_with(&self, name: &str, algorithm: &[&str]) -> CertificateAndKey {
        let key = format!("{name}.key");
        self.openssl(&[&["genpkey", "-out", &key, "-algorithm"][..], algorithm].concat());
        self.issue_certificate(name, LOCAL, "serverAuth", None)
    }

    /// A certificate for a server.
    pub(crate) fn server(&self, name: &str) -> CertificateAndKey {
        self.issue(name, LOCAL, "serverAuth", None)
    }

    /// A certificate for a client.
    pub(crate) fn client(&self, name: &str) -> CertificateAndKey {
        self.issue(name, "URI:spiffe://example.org/tester", "clientAuth", None)
    }

    /// One that was good in January 2020.
    pub(crate) fn expired(&self, name: &str, usage: &str) -> CertificateAndKey {
        self.issue(name, "DNS:localhost,IP:127.0.0.1", usage, Some(("20200101000000Z", "20200201000000Z")))
    }

    fn issue(&self, name: &str, names: &str, usage: &str, dates: Option<(&str, &str)>) -> CertificateAndKey {
        self.key(name);
        self.issue_certificate(name, names, usage, dates)
    }

    /// Signs a certificate for a key.
    fn issue_certificate(
        &self,
        name: &str,
        names: &str,
        usage: &str,
        dates: Option<(&str, &str)>,
    ) -> CertificateAndKey {
        let [key, csr, cert, ext] = ["key", "csr", "pem", "ext"].map(|kind| format!("{name}.{kind}"));
        self.openssl(&["req", "-new", "-key", &key, "-out", &csr, "-subj", &format!("/CN={name}")]);
        let lines = format!("basicConstraints=CA:FALSE\nextendedKeyUsage={usage}\nsubjectAltName={names}\n");
        fs::write(self.path(&ext), lines).unwrap();
        let common = ["-in", &csr, "-out", &cert, "-extfile", &ext];
        match dates {
            None => {
                let by = ["x509", "-req", "-CA", "ca.pem", "-CAkey", "ca.key", "-CAcreateserial", "-days", "2"];
                self.openssl(&[&by[..], &common].concat());
            }
            // `x509` of OpenSSL 3.0 cannot make a certificate of the past; `ca` can.
            Some((from, to)) => {
                fs::write(self.path("index.txt"), "").unwrap();
                fs::write(self.path("serial"), "1000\n").unwrap();
                let settings = "[ca]\ndefault_ca=it\n[it]\ndatabase=index.txt\nserial=serial\nnew_certs_dir=.\n\
                                default_md=sha256\npolicy=any\n[any]\ncommonName=supplied\n";
                fs::write(self.path("ca.cnf"), settings).unwrap();
                let by = ["ca", "-batch", "-config", "ca.cnf", "-cert", "ca.pem", "-keyfile", "ca.key", "-notext"];
                self.openssl(&[&by[..], &["-startdate", from, "-enddate", to], &common].concat());
            }
        }
        CertificateAndKey { cert: self.path(&cert), key: self.path(&key) }
    }

    /// A client that trusts this authority.
    pub(crate) fn trusting_client(&self) -> TlsClient<'_> {
        TlsClient { authority: self, identity: None, only_version: None, alpn: &[b"http/1.1"] }
    }
}

/// The settings of a TLS client.
#[derive(Clone, Copy)]
pub(crate) struct TlsClient<'a> {
    authority: &'a CertificateAuthority,
    identity: Option<&'a CertificateAndKey>,
    only_version: Option<&'static SupportedProtocolVersion>,
    alpn: &'a [&'a [u8]],
}

impl<'a> TlsClient<'a> {
    pub(crate) fn with_identity(self, pair: &'a CertificateAndKey) -> Self {
        Self { identity: Some(pair), ..self }
    }

    /// Offers no other TLS version.
    pub(crate) fn with_only_version(self, only: &'static SupportedProtocolVersion) -> Self {
        Self { only_version: Some(only), ..self }
    }

    /// The protocols that it offers inside of TLS.
    pub(crate) fn with_alpn(self, alpn: &'a [&'a [u8]]) -> Self {
        Self { alpn, ..self }
    }

    pub(crate) fn config(self) -> Arc<ClientConfig> {
        let mut roots = RootCertStore::empty();
        roots.add(CertificateDer::from_pem_file(self.authority.root()).unwrap()).unwrap();
        let builder = ClientConfig::builder_with_provider(Arc::new(aws_lc_rs::default_provider()));
        let versions = self.only_version.map_or_else(|| vec![&TLS13, &TLS12], |only| vec![only]);
        let builder = builder.with_protocol_versions(&versions).unwrap().with_root_certificates(roots);
        let mut config = match self.identity {
            None => builder.with_no_client_auth(),
            Some(pair) => {
                let key = PrivateKeyDer::from_pem_file(&pair.key).unwrap();
                builder.with_client_auth_cert(vec![pair.der()], key).unwrap()
            }
        };
        config.alpn_protocols = self.alpn.iter().map(|name| name.to_vec()).collect();
        Arc::new(config)
    }
}

/// The section of a configuration that serves this pair, with more lines of it.
pub(crate) fn tls_section(cert: &Path, key: &Path, more: &str) -> String {
    format!("[server.tls]\ncert = \"file:{}\"\nkey = \"file:{}\"\n{more}\n", cert.display(), key.display())
}
