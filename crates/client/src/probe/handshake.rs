//! A TLS handshake that accepts any certificate, and then checks it: trust, name and dates, each by itself.
//!
//! One verdict hides the others: a certificate that has expired and is for another host is refused for one of the two
//! reasons. So the handshake accepts the certificate, which is then checked once per question.

use super::Probe;
use super::certificate::Certificate;
use crate::tls::Tls;
use rustls::CertificateError;
use rustls::client::danger::ServerCertVerifier;
use rustls::server::ParsedCertificate;
use rustls_pki_types::{CertificateDer, ServerName, UnixTime};
use std::net::SocketAddr;
use std::sync::Arc;
use std::time::{Duration, Instant, SystemTime, UNIX_EPOCH};
use tokio_rustls::TlsConnector;
use url::Url;

/// The facts of a TLS handshake.
#[derive(Debug)]
pub struct Handshake {
    /// The TLS version, such as `TLS 1.3`.
    pub version: &'static str,
    /// The duration of the handshake.
    pub elapsed: Duration,
    /// Whether a trusted authority signed the certificate.
    pub trust: Result<(), String>,
    /// Whether the certificate is for this host.
    pub name: Result<(), String>,
    /// Seconds until the certificate expires, negative afterwards; `None` if its dates cannot be read.
    pub expires_in: Option<i64>,
    /// Seconds until the certificate becomes valid, if it is not yet.
    pub begins_in: Option<i64>,
}

impl Probe {
    /// Makes a handshake and closes the connection. The error says why the handshake failed.
    pub async fn handshake(&self, url: &Url, addresses: &[SocketAddr]) -> Result<Handshake, String> {
        let host = url.host_str().unwrap_or_default().trim_start_matches('[').trim_end_matches(']');
        let name = ServerName::try_from(host.to_owned()).map_err(|_| format!("{host} cannot be in a certificate"))?;
        let rules = self.http_client.server_trust();
        let anyone = Tls { insecure: true, ..rules.clone() }.config(false).map_err(|e| e.to_string())?;
        let (stream, ..) = self.dial(addresses).await.map_err(|e| e.to_string())?;
        let begun = Instant::now();
        let made = TlsConnector::from(Arc::new(anyone)).connect(name.clone(), stream);
        let stream = match tokio::time::timeout(self.http_client.timeouts().connect, made).await {
            Ok(Ok(stream)) => stream,
            Ok(Err(error)) => return Err(describe_handshake_error(&error)),
            Err(_) => return Err("the server does not answer to TLS".into()),
        };
        let elapsed = begun.elapsed();
        let (_, session) = stream.get_ref();
        let version = match session.protocol_version() {
            Some(rustls::ProtocolVersion::TLSv1_3) => "TLS 1.3",
            Some(rustls::ProtocolVersion::TLSv1_2) => "TLS 1.2",
            _ => "TLS",
        };
        let chain = session.peer_certificates().unwrap_or_default();
        let [first, others @ ..] = chain else { return Err("the server shows no certificate".into()) };
        let provider = Arc::new(rustls::crypto::aws_lc_rs::default_provider());
        let judge = rules.strict_verifier(provider).map_err(|e| e.to_string())?;
        Ok(Handshake::from_certificates(version, elapsed, first, others, &name, &*judge))
    }
}

impl Handshake {
    fn from_certificates(
        version: &'static str,
        elapsed: Duration,
        first: &CertificateDer<'_>,
        others: &[CertificateDer<'_>],
        name: &ServerName<'_>,
        judge: &dyn ServerCertVerifier,
    ) -> Self {
        let dates = Certificate::read(first);
        let now = SystemTime::now().duration_since(UNIX_EPOCH).unwrap_or_default().as_secs().cast_signed();
        // Trust is checked at a time at which the certificate is valid, so that its dates do not affect the result.
        let at = dates.as_ref().map_or(now, |c| now.clamp(c.not_before, c.not_after.max(c.not_before)));
        let at = UnixTime::since_unix_epoch(Duration::from_secs(at.max(0).unsigned_abs()));
        let trust = match judge.verify_server_cert(first, others, name, &[], at) {
            Ok(_) => Ok(()),
            // The verifier checks the name last, after trust.
            Err(rustls::Error::InvalidCertificate(
                CertificateError::NotValidForName | CertificateError::NotValidForNameContext { .. },
            )) => Ok(()),
            Err(rustls::Error::InvalidCertificate(CertificateError::UnknownIssuer)) => {
                Err(if dates.as_ref().is_some_and(|c| c.is_own_issuer) {
                    "the certificate is self-signed".into()
                } else {
                    "no authority that this machine trusts has signed the certificate".into()
                })
            }
            Err(other) => Err(other.to_string()),
        };
        let fits = ParsedCertificate::try_from(first)
            .and_then(|parsed| rustls::client::verify_server_name(&parsed, name))
            .map_err(|error| match error {
                rustls::Error::InvalidCertificate(CertificateError::NotValidForNameContext { presented, .. }) => {
                    format!("it is for {}", presented.join(", "))
                }
                other => other.to_string(),
            });
        Self {
            version,
            elapsed,
            trust,
            name: fits,
            expires_in: dates.as_ref().map(|c| c.not_after - now),
            begins_in: dates.map(|c| c.not_before - now).filter(|seconds| *seconds > 0),
        }
    }
}

/// Describes a failed handshake.
fn describe_handshake_error(error: &std::io::Error) -> String {
    let words = error.to_string();
    match error.get_ref().and_then(|inner| inner.downcast_ref::<rustls::Error>()) {
        Some(rustls::Error::InvalidMessage(_)) => "the port does not speak TLS".into(),
        _ if error.kind() == std::io::ErrorKind::UnexpectedEof => "the server hung up".into(),
        _ => words,
    }
}
