//! Keys in certificates: the `x5c` in the header of a signature, checked against configured authorities.
//!
//! The chain is checked like that of a TLS server: every signature, every date, and that the certificate is for the
//! card's host. Only a holder of a certificate for the host can sign cards for it. Only configured authorities count;
//! those of the machine, which cover half the Internet, are not used.

use super::jwks::{Jwks, certificate_key_set};
use rustls::RootCertStore;
use rustls::client::WebPkiServerVerifier;
use rustls::client::danger::ServerCertVerifier as _;
use rustls::crypto::aws_lc_rs;
use rustls::server::ParsedCertificate;
use rustls_pki_types::pem::PemObject as _;
use rustls_pki_types::{AlgorithmIdentifier, CertificateDer, ServerName, UnixTime, alg_id};
use std::fmt;
use std::sync::Arc;
use std::time::Duration;

/// Certificate authorities that may vouch for the signer of a card. Empty by default.
#[derive(Clone, Default)]
pub struct Authorities {
    verifier: Option<Arc<WebPkiServerVerifier>>,
    count: usize,
}

/// Why a text is not a bundle of authorities.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
pub enum AuthoritiesFault {
    /// The text is not PEM, or has no certificate.
    #[error("not a PEM file with certificates")]
    Unreadable,
    /// A certificate cannot be an authority.
    #[error("a certificate cannot be used as an authority: {0}")]
    Unusable(String),
}

impl Authorities {
    /// Parses a bundle: one or more certificates as PEM.
    pub fn parse(pem: &[u8]) -> Result<Self, AuthoritiesFault> {
        let list: Result<Vec<_>, _> = CertificateDer::pem_slice_iter(pem).collect();
        let list = list.map_err(|_| AuthoritiesFault::Unreadable)?;
        let mut roots = RootCertStore::empty();
        for certificate in list {
            roots.add(certificate).map_err(|error| AuthoritiesFault::Unusable(error.to_string()))?;
        }
        let count = roots.len();
        if count == 0 {
            return Err(AuthoritiesFault::Unreadable);
        }
        let provider = Arc::new(aws_lc_rs::default_provider());
        let verifier = WebPkiServerVerifier::builder_with_provider(Arc::new(roots), provider).build();
        let verifier = verifier.map_err(|error| AuthoritiesFault::Unusable(error.to_string()))?;
        Ok(Self { verifier: Some(verifier), count })
    }

    /// The number of authorities.
    pub fn len(&self) -> usize {
        self.count
    }

    /// Whether there are no authorities, so that certificates are ignored.
    pub fn is_empty(&self) -> bool {
        self.count == 0
    }

    /// The key of a certificate chain, under the key id of the signature, if an authority vouches for the host. The
    /// signer's own certificate comes first.
    pub(super) fn key(&self, chain: &[Vec<u8>], host: &str, key: &str, now: u64) -> Result<Jwks, String> {
        let Some(verifier) = &self.verifier else { return Err("no authorities are configured".to_owned()) };
        let chain: Vec<CertificateDer<'_>> = chain.iter().map(|der| CertificateDer::from(der.as_slice())).collect();
        let [signer, others @ ..] = chain.as_slice() else { return Err("the chain is empty".to_owned()) };
        let bare = host.trim_start_matches('[').trim_end_matches(']');
        let name = ServerName::try_from(bare).map_err(|_| format!("{host} is no name of a host"))?;
        let time = UnixTime::since_unix_epoch(Duration::from_secs(now));
        verifier.verify_server_cert(signer, others, &name, &[], time).map_err(|error| error.to_string())?;
        let parsed = ParsedCertificate::try_from(signer).map_err(|error| error.to_string())?;
        let opened = parse_spki(&parsed.subject_public_key_info());
        let (kind, public) = opened.ok_or("its key is of a kind that signs no cards")?;
        Ok(certificate_key_set(key, kind, &public))
    }
}

/// Shows only the number: a bundle is public, but long.
impl fmt::Debug for Authorities {
    fn fmt(&self, out: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(out, "Authorities({})", self.count)
    }
}

/// The kinds of keys that can sign cards.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum KeyKind {
    P256,
    Rsa,
    Ed25519,
}

/// Parses a `SubjectPublicKeyInfo` into the kind of key and the key in the encoding of its kind. `None` for a kind that
/// cannot sign cards.
fn parse_spki(spki: &[u8]) -> Option<(KeyKind, Vec<u8>)> {
    const KINDS: [(AlgorithmIdentifier, KeyKind); 3] = [
        (alg_id::ECDSA_P256, KeyKind::P256),
        (alg_id::RSA_ENCRYPTION, KeyKind::Rsa),
        (alg_id::ED25519, KeyKind::Ed25519),
    ];
    const SEQUENCE: u8 = 0x30;
    const BIT_STRING: u8 = 0x03;
    let (whole, _) = element(SEQUENCE, spki)?;
    let (algorithm, rest) = element(SEQUENCE, whole)?;
    let (bits, _) = element(BIT_STRING, rest)?;
    let (_, kind) = KINDS.into_iter().find(|(id, _)| id.as_ref() == algorithm)?;
    // The first byte is the number of unused bits at the end, which is zero for a key.
    let [0, key @ ..] = bits else { return None };
    Some((kind, key.to_vec()))
}

/// The content of one DER element with this tag, and the rest.
fn element(tag: u8, der: &[u8]) -> Option<(&[u8], &[u8])> {
    let [found, first, rest @ ..] = der else { return None };
    let (length, rest) = match first {
        0..=0x7f => (usize::from(*first), rest),
        0x81..=0x83 => {
            let (digits, rest) = rest.split_at_checked(usize::from(first & 0x7f))?;
            (digits.iter().fold(0, |length, digit| length << 8 | usize::from(*digit)), rest)
        }
        _ => return None,
    };
    if *found != tag { None } else { rest.split_at_checked(length) }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_key_is_opened_whole_or_not_at_all() {
        for (pem, kind, length) in [
            (include_str!("../../tests/vectors/x5c/p256.pem"), KeyKind::P256, 65),
            (include_str!("../../tests/vectors/x5c/rsa.pem"), KeyKind::Rsa, 270),
            (include_str!("../../tests/vectors/x5c/ed25519.pem"), KeyKind::Ed25519, 32),
        ] {
            let certificate = CertificateDer::pem_slice_iter(pem.as_bytes()).next().unwrap().unwrap();
            let spki = ParsedCertificate::try_from(&certificate).unwrap().subject_public_key_info();
            let (found, key) = parse_spki(&spki).unwrap();
            assert_eq!((found, key.len()), (kind, length));
            assert!((0..spki.len()).all(|end| parse_spki(&spki[..end]).is_none()), "a piece of a key is no key");
        }
        // A curve that cannot sign cards: P-384.
        let other = [&[0x30, 0x10][..], &alg_id::ECDSA_P384, &[0x03, 0x02, 0x00, 0x04]].concat();
        let other = [&[0x30, u8::try_from(other.len()).unwrap()][..], &other].concat();
        assert_eq!(parse_spki(&other), None);
    }
}
