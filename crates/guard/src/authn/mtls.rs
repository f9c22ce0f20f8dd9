//! Reads the caller from the client certificate of a connection.
//!
//! TLS has already verified the certificate against the configured authorities; this module only reads it. The caller
//! is a subject alternative name: a URI if there is one (SPIFFE), else an email address, else a host. The common name
//! is not used: it has been deprecated for this purpose for twenty years, and has no form.

use super::{Principal, Scheme};
use aws_lc_rs::digest::{SHA256, digest};
use x509_parser::prelude::{FromDer as _, GeneralName, X509Certificate};

/// The longest accepted name, in bytes.
const NAME_BYTES_MAX: usize = 512;

/// The caller that a certificate names.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct CertificateIdentity {
    /// The caller's name: `uri:…`, `email:…` or `dns:…`.
    pub name: String,
    /// All usable names of the certificate, in order of precedence.
    pub names: Vec<String>,
    /// SHA-256 of the certificate, for the log.
    pub fingerprint: [u8; 32],
}

impl CertificateIdentity {
    /// The caller as a principal.
    pub fn principal(&self) -> Principal {
        Principal::new(Scheme::Mtls, self.name.as_str())
    }
}

/// Why a certificate names no caller.
#[derive(Debug, Clone, Copy, PartialEq, Eq, thiserror::Error)]
pub enum CertificateFault {
    /// Not a certificate in DER.
    #[error("the certificate cannot be read")]
    Unreadable,
    /// No subject alternative name that can be a caller.
    #[error("the certificate has no subject alternative name of a kind that is used here")]
    NoName,
    /// More than one URI: SPIFFE allows one, and we do not guess.
    #[error("the certificate names more than one URI")]
    Ambiguous,
}

impl CertificateFault {
    /// A short, stable name for programs.
    pub const fn code(self) -> &'static str {
        match self {
            Self::Unreadable => "certificate_unreadable",
            Self::NoName => "certificate_nobody",
            Self::Ambiguous => "certificate_ambiguous",
        }
    }
}

/// Reads the caller that the certificate of a connection names.
pub fn read(der: &[u8]) -> Result<CertificateIdentity, CertificateFault> {
    let (rest, certificate) = X509Certificate::from_der(der).map_err(|_| CertificateFault::Unreadable)?;
    if !rest.is_empty() {
        return Err(CertificateFault::Unreadable);
    }
    let extension = certificate
        .subject_alternative_name()
        .map_err(|_| CertificateFault::Unreadable)?
        .ok_or(CertificateFault::NoName)?;
    let general_names = &extension.value.general_names;
    // A URI identifies the caller; if it is unusable, no other name may take its place.
    if general_names.iter().any(|one| matches!(one, GeneralName::URI(_)) && name(one).is_none()) {
        return Err(CertificateFault::NoName);
    }
    let mut names: Vec<(u8, String)> = general_names.iter().filter_map(name).collect();
    // Stable, so that names of one kind keep the order of the certificate.
    names.sort_by_key(|(rank, _)| *rank);
    if names.iter().filter(|(rank, _)| *rank == 0).count() > 1 {
        return Err(CertificateFault::Ambiguous);
    }
    let names: Vec<String> = names.into_iter().map(|(_, name)| name).collect();
    let name = names.first().ok_or(CertificateFault::NoName)?.clone();
    let mut fingerprint = [0; 32];
    fingerprint.copy_from_slice(digest(&SHA256, der).as_ref());
    Ok(CertificateIdentity { name, names, fingerprint })
}

/// A usable name with its rank (0 is best). A wildcard stands for many hosts, so it is no caller.
fn name(name: &GeneralName<'_>) -> Option<(u8, String)> {
    let fit = |text: &str| {
        !text.is_empty() && text.len() <= NAME_BYTES_MAX && text.bytes().all(|b| b.is_ascii_graphic() && b != b'*')
    };
    Some(match name {
        GeneralName::URI(uri) if fit(uri) => (0, format!("uri:{uri}")),
        GeneralName::RFC822Name(email) if fit(email) => (1, format!("email:{email}")),
        GeneralName::DNSName(host) if fit(host) => (2, format!("dns:{}", host.to_ascii_lowercase())),
        _ => return None,
    })
}

#[cfg(test)]
mod tests {
    use super::*;
    use base64::Engine as _;
    use base64::engine::general_purpose::STANDARD;

    /// Made by OpenSSL; `tests/vectors/certificates.json` says how.
    fn certificate(name: &str) -> Vec<u8> {
        let all: serde_json::Value =
            serde_json::from_str(include_str!("../../tests/vectors/certificates.json")).unwrap();
        STANDARD.decode(all["certificates"][name].as_str().unwrap()).unwrap()
    }

    fn named(name: &str) -> Result<String, CertificateFault> {
        read(&certificate(name)).map(|certified| certified.principal().to_string())
    }

    #[test]
    fn the_subject_alternative_name_is_the_caller() {
        assert_eq!(named("spiffe"), Ok("mtls:uri:spiffe://example.org/ledger".to_owned()));
        assert_eq!(named("dns"), Ok("mtls:dns:ledger.example.org".to_owned()));
        assert_eq!(named("email"), Ok("mtls:email:ana@example.org".to_owned()));
        let all = read(&certificate("spiffe")).unwrap().names;
        assert_eq!(all, ["uri:spiffe://example.org/ledger", "dns:ledger.example.org"]);
    }

    #[test]
    fn a_certificate_that_names_nobody_or_several_is_refused() {
        assert_eq!(named("common-name-only"), Err(CertificateFault::NoName));
        assert_eq!(named("wildcard"), Err(CertificateFault::NoName));
        assert_eq!(named("address"), Err(CertificateFault::NoName));
        assert_eq!(named("two-uris"), Err(CertificateFault::Ambiguous));
    }

    #[test]
    fn what_is_no_certificate_is_refused() {
        let good = certificate("dns");
        assert_eq!(read(&[]), Err(CertificateFault::Unreadable));
        assert_eq!(read(&good[..good.len() - 1]), Err(CertificateFault::Unreadable));
        assert_eq!(read(&[&good[..], b"x"].concat()), Err(CertificateFault::Unreadable));
        for at in 0..good.len() {
            // Any result is fine, as long as nothing panics.
            let mut changed = good.clone();
            changed[at] ^= 0x55;
            let _ = read(&changed);
        }
    }
}
