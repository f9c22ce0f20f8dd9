//! Reads the certificate files, and refuses unusable ones. Every error names the file and the remedy.

use crate::config::tls::{ClientAuth, PemFile, TlsConfig, TlsVersion};
use rustls::crypto::{CryptoProvider, aws_lc_rs};
use rustls::pki_types::pem::{self, PemObject};
use rustls::pki_types::{CertificateDer, PrivateKeyDer};
use rustls::server::{NoServerSessionStorage, WebPkiClientVerifier};
use rustls::sign::CertifiedKey;
use rustls::version::{TLS12, TLS13};
use rustls::{Error, InconsistentKeys, RootCertStore, ServerConfig, SupportedProtocolVersion};
use sabir_guard::certificate;
use std::fs::{self, File};
use std::io::Read;
use std::os::unix::fs::MetadataExt;
use std::path::{Path, PathBuf};
use std::sync::Arc;
use std::time::SystemTime;

/// Bytes of one file. Bundles of all public authorities are a quarter of this.
const FILE_BYTES_MAX: u64 = 1 << 20;

/// The protocols inside TLS, the preferred one first.
const ALPN: [&[u8]; 2] = [b"h2", b"http/1.1"];

/// The paths of the files, and the demands on clients.
#[derive(Debug)]
pub(super) struct TlsFiles {
    cert: PathBuf,
    key: PathBuf,
    client_ca: Option<PathBuf>,
    client_auth: ClientAuth,
    min_version: TlsVersion,
}

/// The content of the files.
#[derive(Debug)]
pub(super) struct LoadedTls {
    pub(super) config: Arc<ServerConfig>,
    /// The hosts that the certificate is for.
    names: Vec<String>,
    pub(super) not_before: SystemTime,
    pub(super) not_after: SystemTime,
}

/// The metadata that change when a file is replaced.
pub(super) type FileStamps = Vec<Option<(u64, u64, i64, i64)>>;

/// Why a file cannot be used.
#[derive(Debug, thiserror::Error)]
#[error("server.tls.{key}: {} {problem}", path.display())]
pub(super) struct TlsFileError {
    key: &'static str,
    path: PathBuf,
    problem: String,
}

/// One of the files while it is read.
struct PemSource<'a> {
    key: &'static str,
    path: &'a Path,
}

impl TlsFiles {
    pub(super) fn new(config: &TlsConfig, resolve: impl Fn(&Path) -> PathBuf) -> Result<Self, String> {
        if config.client_auth.is_some() && config.client_ca.is_none() {
            return Err(
                "server.tls.client_auth is set, but no authority whose certificates would do; add client_ca".into()
            );
        }
        let find = |key: &str, file: &PemFile| {
            let problem = || format!("server.tls.{key} must name a file, such as \"file:server.pem\"");
            file.path().map(&resolve).ok_or_else(problem)
        };
        Ok(Self {
            cert: find("cert", &config.cert)?,
            key: find("key", &config.key)?,
            client_ca: config.client_ca.as_ref().map(|file| find("client_ca", file)).transpose()?,
            client_auth: config.client_auth.unwrap_or_default(),
            min_version: config.min_version,
        })
    }

    /// The metadata of the files. A renewal replaces a file or at least modifies it.
    pub(super) fn stamp(&self) -> FileStamps {
        let all = [Some(&self.cert), Some(&self.key), self.client_ca.as_ref()];
        let stamp = |path: &PathBuf| fs::metadata(path).ok().map(|m| (m.ino(), m.len(), m.ctime(), m.ctime_nsec()));
        all.into_iter().flatten().map(stamp).collect()
    }

    pub(super) fn load(&self) -> Result<LoadedTls, TlsFileError> {
        let provider = Arc::new(aws_lc_rs::default_provider());
        let cert = PemSource { key: "cert", path: &self.cert };
        let chain = cert.certificates()?;
        let described = chain.first().and_then(|first| certificate::summarize(first));
        let described = described.ok_or_else(|| cert.unusable("cannot be read as X.509; make it again"))?;
        let key = self.key(&provider, &chain)?;
        let versions: &[&SupportedProtocolVersion] = match self.min_version {
            TlsVersion::V12 => &[&TLS13, &TLS12],
            TlsVersion::V13 => &[&TLS13],
        };
        let builder = ServerConfig::builder_with_provider(provider.clone())
            .with_protocol_versions(versions)
            .map_err(|e| cert.unusable(format!("cannot be used: {e}")))?;
        let builder = match self.client_roots()? {
            None => builder.with_no_client_auth(),
            Some((source, roots)) => {
                let verifier = WebPkiClientVerifier::builder_with_provider(roots.into(), provider);
                let verifier = match self.client_auth {
                    ClientAuth::Optional => verifier.allow_unauthenticated(),
                    ClientAuth::Required => verifier,
                };
                builder.with_client_cert_verifier(verifier.build().map_err(|e| source.unusable(e.to_string()))?)
            }
        };
        let resolver = rustls::sign::SingleCertAndKey::from(key);
        let mut config = builder.with_cert_resolver(Arc::new(resolver));
        config.alpn_protocols = ALPN.map(<[u8]>::to_vec).into();
        if self.client_ca.is_some() {
            // A resumed session presents no certificate again, so it could outlive its certificate.
            config.session_storage = Arc::new(NoServerSessionStorage {});
            config.send_tls13_tickets = 0;
            config.max_tls13_tickets = 0;
        }
        let certificate::CertificateSummary { dns_names: names, not_before, not_after } = described;
        Ok(LoadedTls { config: Arc::new(config), names, not_before, not_after })
    }

    /// The private key, which must match the first certificate of the chain.
    fn key(&self, provider: &CryptoProvider, chain: &[CertificateDer<'static>]) -> Result<CertifiedKey, TlsFileError> {
        let source = PemSource { key: "key", path: &self.key };
        let key = source.private_key()?;
        let fits = |from: usize| {
            let chain = chain.get(from..).unwrap_or_default().to_vec();
            CertifiedKey::from_der(chain, key.clone_key(), provider)
        };
        match fits(0) {
            Ok(key) => Ok(key),
            Err(Error::InconsistentKeys(InconsistentKeys::KeyMismatch)) => {
                let cert = self.cert.display();
                Err(source.unusable(if (1..chain.len()).any(|from| fits(from).is_ok()) {
                    format!("is the key of a later certificate in {cert}; the server's own has to come first there")
                } else {
                    format!("is not the key of the certificate in {cert}; put the two that were made together in place")
                }))
            }
            Err(other) => Err(source.unusable(format!("cannot be used as a key: {other}"))),
        }
    }

    /// The authorities that may sign client certificates.
    fn client_roots(&self) -> Result<Option<(PemSource<'_>, RootCertStore)>, TlsFileError> {
        let Some(path) = &self.client_ca else { return Ok(None) };
        let source = PemSource { key: "client_ca", path };
        let mut roots = RootCertStore::empty();
        for (n, authority) in source.certificates()?.into_iter().enumerate() {
            let wrong = |e| source.unusable(format!("has a certificate, number {}, that is no authority: {e}", n + 1));
            roots.add(authority).map_err(wrong)?;
        }
        Ok(Some((source, roots)))
    }
}

impl PemSource<'_> {
    fn unusable(&self, problem: impl Into<String>) -> TlsFileError {
        TlsFileError { key: self.key, path: self.path.into(), problem: problem.into() }
    }

    fn read(&self) -> Result<Vec<u8>, TlsFileError> {
        let unreadable = |e: std::io::Error| {
            self.unusable(format!("cannot be read: {e}; is the path right, and may this user read it?"))
        };
        let mut bytes = Vec::new();
        let file = File::open(self.path).map_err(unreadable)?;
        file.take(FILE_BYTES_MAX + 1).read_to_end(&mut bytes).map_err(unreadable)?;
        if bytes.len() as u64 > FILE_BYTES_MAX {
            return Err(self.unusable(format!("is larger than {FILE_BYTES_MAX} bytes; is it the right file?")));
        }
        Ok(bytes)
    }

    /// The certificates of the file, at least one.
    fn certificates(&self) -> Result<Vec<CertificateDer<'static>>, TlsFileError> {
        let bytes = self.read()?;
        let found: Result<Vec<_>, pem::Error> = CertificateDer::pem_slice_iter(&bytes).collect();
        let found = found.map_err(|e| self.unusable(format!("is damaged: {e}")))?;
        if found.is_empty() {
            return Err(self.unusable(
                "holds no certificate in PEM, which begins with -----BEGIN CERTIFICATE-----; \
                 openssl x509 -inform der -in OLD -out NEW makes one of DER",
            ));
        }
        if let Some(n) = found.iter().position(|der| certificate::summarize(der).is_none()) {
            return Err(self.unusable(format!("has a certificate, number {}, that cannot be read as X.509", n + 1)));
        }
        Ok(found)
    }

    /// The private key of the file, which other users must not be able to read.
    fn private_key(&self) -> Result<PrivateKeyDer<'static>, TlsFileError> {
        let bytes = self.read()?;
        let mode = fs::metadata(self.path).map(|m| m.mode()).unwrap_or_default();
        if mode & 0o027 != 0 {
            let who = if mode & 0o007 != 0 { "every user of this machine" } else { "its group, for writing" };
            return Err(self.unusable(format!("is open to {who}; chmod 600 closes it (640 lets a group read it)")));
        }
        let text = String::from_utf8_lossy(&bytes);
        if text.contains("ENCRYPTED") {
            return Err(self
                .unusable("has a passphrase, and a server cannot type it; openssl pkey -in OLD -out NEW removes it"));
        }
        PrivateKeyDer::from_pem_slice(&bytes).map_err(|e| match e {
            pem::Error::NoItemsFound => {
                self.unusable("holds no private key in PEM, which begins with -----BEGIN PRIVATE KEY-----")
            }
            // The message has the kind of damage, and never a line of the file.
            pem::Error::Base64Decode(_) => self.unusable("is damaged: it is not base64 between its marks"),
            _ => self.unusable("is damaged: its marks of begin and end are not as they should be"),
        })
    }
}

impl LoadedTls {
    /// Whether the certificate is for a host of this name.
    pub(super) fn is_for(&self, host: &str) -> bool {
        self.names.iter().any(|name| match name.strip_prefix("*.") {
            None => name.eq_ignore_ascii_case(host),
            Some(parent) => host
                .split_once('.')
                .is_some_and(|(label, above)| !label.is_empty() && above.eq_ignore_ascii_case(parent)),
        })
    }
}
