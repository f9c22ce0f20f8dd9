//! Signs requests as an account of XPR Network.
//!
//! A signed request has three more headers: the account, the time, and a signature over both and the body. The exact
//! bytes of the body are signed, so signing is the last step before sending. [`sabir_proto::digest::k1_request_digest`] defines what
//! is signed. It does not name the receiver, so a signed request is valid at any agent until its time has passed.
//!
//! [`XprSigner`] computes signatures; [`XprAccount`] is the credential of a client that signs each request.

mod account;
mod registry;

pub use account::XprAccount;
pub use registry::{ChainRegistry, EscrowJob};

use crate::secret::Secret;
use ecdsa::hazmat::sign_prehashed_rfc6979;
use k256::ecdsa::SigningKey;
use k256::sha2::Sha256;
use sabir_proto::digest;
use sabir_proto::k1::{Curve, K1Fault, PrivateKey, RecoverableSignature, is_account_name};
use std::fmt;

/// The header that names the account (`X-XPR-Account`).
pub const ACCOUNT: &str = "x-xpr-account";
/// The header with the time in Unix seconds (`X-XPR-Timestamp`).
pub const TIMESTAMP: &str = "x-xpr-timestamp";
/// The header with the signature (`X-XPR-Signature`).
pub const SIGNATURE: &str = "x-xpr-signature";

/// Whether a header belongs to a signature. Cards can declare such a header only as an API key, and the client puts no
/// key there.
pub fn is_header(name: &str) -> bool {
    [ACCOUNT, TIMESTAMP, SIGNATURE].iter().any(|known| known.eq_ignore_ascii_case(name))
}

/// Why a signer cannot be made.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
pub enum SignerFault {
    /// The name is not an account name.
    #[error("{0:?} is not an account name: 1 to 12 of a-z, 1-5 and the dot")]
    Account(String),
    /// The text is not a private key. The error does not repeat it.
    #[error("the private key cannot be read: {0}")]
    Key(#[from] K1Fault),
    /// The key is zero, or beyond the order of the curve.
    #[error("the private key is out of range")]
    Range,
}

/// Signs requests as one account.
#[derive(Clone)]
pub struct XprSigner {
    account: String,
    key: SigningKey,
}

impl XprSigner {
    /// A signer for an account and its key, which is `PVT_K1_…` or WIF.
    pub fn new(account: &str, key: &Secret) -> Result<Self, SignerFault> {
        if !is_account_name(account) {
            return Err(SignerFault::Account(account.to_owned()));
        }
        let key = PrivateKey::parse(key.expose().trim())?;
        let key = SigningKey::from_slice(key.expose()).map_err(|_| SignerFault::Range)?;
        Ok(Self { account: account.to_owned(), key })
    }

    /// The name of the account.
    pub fn account(&self) -> &str {
        &self.account
    }

    /// The three headers for a request with this body. `now` is in Unix seconds.
    pub fn headers(&self, body: &[u8], now: i64) -> [(&'static str, String); 3] {
        let signature = self.sign(&digest::k1_request_digest(&self.account, now, body));
        [(ACCOUNT, self.account.clone()), (TIMESTAMP, now.to_string()), (SIGNATURE, signature.to_string())]
    }

    /// Signs a digest. The chain accepts only signatures whose r and s need no padding as signed integers, so the nonce
    /// is drawn again until both fit. The attempt number, counted from 1, is the additional data of RFC 6979 §3.6: the
    /// network's own library does the same, so the signatures are equal to the bit.
    fn sign(&self, digest: &[u8; 32]) -> RecoverableSignature {
        let mut attempt: u32 = 0;
        loop {
            attempt += 1;
            // One byte suffices for 255 attempts. About half of all nonces fit, so more are never needed.
            let count = attempt.to_le_bytes();
            let length = if attempt < 256 { 1 } else { count.len() };
            let (ecdsa, id) =
                sign_prehashed_rfc6979::<_, Sha256>(self.key.as_nonzero_scalar(), digest, &count[..length]);
            let mut rs = [0; 64];
            rs.copy_from_slice(&ecdsa.to_bytes());
            if is_canonical(&rs) {
                return RecoverableSignature { curve: Curve::K1, recovery: 31 + id.to_byte(), rs };
            }
        }
    }
}

/// Whether both halves have their highest bit clear and no unnecessary leading zero byte.
fn is_canonical(rs: &[u8; 64]) -> bool {
    let short = |half: &[u8]| half[0] >= 0x80 || (half[0] == 0 && half[1] < 0x80);
    !rs.chunks(32).any(short)
}

impl fmt::Debug for XprSigner {
    fn fmt(&self, out: &mut fmt::Formatter<'_>) -> fmt::Result {
        out.debug_struct("Signer").field("account", &self.account).field("key", &"[redacted]").finish()
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use serde::Deserialize;

    #[derive(Deserialize)]
    struct XprVectors {
        valid: Vec<XprCase>,
    }

    #[derive(Deserialize)]
    struct XprCase {
        name: String,
        wif: String,
        pvt_k1: String,
        account: String,
        timestamp: i64,
        body_utf8: String,
        signature: String,
    }

    #[test]
    fn every_signature_of_the_vectors_comes_out_to_the_bit() {
        let vectors = include_str!("../../guard/tests/vectors/xpr-k1.json");
        let vectors: XprVectors = serde_json::from_str(vectors).unwrap();
        assert_eq!(vectors.valid.len(), 12);
        for case in vectors.valid {
            for key in [&case.wif, &case.pvt_k1, &format!(" {}\n", case.wif)] {
                let signer = XprSigner::new(&case.account, &Secret::new(key.as_str())).unwrap();
                let [account, timestamp, signature] = signer.headers(case.body_utf8.as_bytes(), case.timestamp);
                assert_eq!(account, (ACCOUNT, case.account.clone()));
                assert_eq!(timestamp, (TIMESTAMP, case.timestamp.to_string()));
                assert_eq!(signature, (SIGNATURE, case.signature.clone()), "{}", case.name);
            }
        }
    }

    #[test]
    fn every_signature_is_canonical() {
        let signer =
            XprSigner::new("alice", &Secret::new("5JMh46ekRfmbmxY2UszYX2uHWTGdWrBBMyeaXYBbRnpnhMBSENU")).unwrap();
        for now in 0..64 {
            assert!(is_canonical(&signer.sign(&digest::k1_request_digest("alice", now, b"")).rs));
        }
        let mut rs = [1; 64];
        assert!(is_canonical(&rs));
        for (at, bytes) in [(0, [0x80, 1]), (32, [0x80, 1]), (0, [0, 0x7f]), (32, [0, 0x7f])] {
            rs = [1; 64];
            rs[at..at + 2].copy_from_slice(&bytes);
            assert!(!is_canonical(&rs), "{at} {bytes:?}");
        }
        rs = [1; 64];
        rs[..2].copy_from_slice(&[0, 0x80]);
        assert!(is_canonical(&rs));
    }

    #[test]
    fn a_bad_key_is_refused_without_being_repeated() {
        let refused = |account: &str, key: &str| XprSigner::new(account, &Secret::new(key)).unwrap_err();
        let mistyped = "5JMh46ekRfmbmxY2UszYX2uHWTGdWrBBMyeaXYBbRnpnhMBSENV";
        assert_eq!(refused("alice", mistyped), SignerFault::Key(K1Fault::Checksum));
        assert!(!refused("alice", mistyped).to_string().contains(mistyped));
        assert!(matches!(refused("Alice", mistyped), SignerFault::Account(_)));
        let signer =
            XprSigner::new("alice", &Secret::new("5JMh46ekRfmbmxY2UszYX2uHWTGdWrBBMyeaXYBbRnpnhMBSENU")).unwrap();
        assert_eq!(format!("{signer:?}"), r#"Signer { account: "alice", key: "[redacted]" }"#);
    }
}
