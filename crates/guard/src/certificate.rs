//! What a certificate says of itself: the hosts it is for, and its validity.
//!
//! Operators see it for the server's own certificate, and the server learns its own names from it. Nothing is decided
//! about trust here.

use std::time::{Duration, SystemTime, UNIX_EPOCH};
use x509_parser::prelude::{ASN1Time, FromDer as _, GeneralName, X509Certificate};

/// What a certificate says of itself.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct CertificateSummary {
    /// The hosts of its subject alternative name, in lower case; one may begin with `*.`.
    pub dns_names: Vec<String>,
    /// The beginning of its validity.
    pub not_before: SystemTime,
    /// The end of its validity.
    pub not_after: SystemTime,
}

/// Reads a certificate in DER; `None` if it is not one.
pub fn summarize(der: &[u8]) -> Option<CertificateSummary> {
    let (rest, certificate) = X509Certificate::from_der(der).ok()?;
    if !rest.is_empty() {
        return None;
    }
    let names = certificate.subject_alternative_name().ok()?;
    let names = names.into_iter().flat_map(|extension| &extension.value.general_names);
    let dns_names = names.filter_map(|name| match name {
        GeneralName::DNSName(host) => Some(host.to_ascii_lowercase()),
        _ => None,
    });
    let validity = certificate.validity();
    Some(CertificateSummary {
        dns_names: dns_names.collect(),
        not_before: time(validity.not_before),
        not_after: time(validity.not_after),
    })
}

/// Times before 1970 become 1970: it only matters that they are long ago.
fn time(time: ASN1Time) -> SystemTime {
    UNIX_EPOCH + Duration::from_secs(u64::try_from(time.timestamp()).unwrap_or(0))
}

#[cfg(test)]
mod tests {
    use super::*;
    use base64::Engine as _;
    use base64::engine::general_purpose::STANDARD;

    #[test]
    fn hosts_and_dates_are_read() {
        let all: serde_json::Value = serde_json::from_str(include_str!("../tests/vectors/certificates.json")).unwrap();
        let der = |name: &str| STANDARD.decode(all["certificates"][name].as_str().unwrap()).unwrap();
        let described = summarize(&der("spiffe")).unwrap();
        assert_eq!(described.dns_names, ["ledger.example.org"]);
        assert!(described.not_before < described.not_after);
        assert!(summarize(&der("wildcard")).unwrap().dns_names[0].starts_with("*."));
        assert!(summarize(&der("common-name-only")).unwrap().dns_names.is_empty());
        assert_eq!(summarize(&[&der("dns")[..], b"x"].concat()), None);
        assert_eq!(summarize(b""), None);
    }
}
