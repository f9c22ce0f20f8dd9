//! Signing requests as an account of XPR Network.
//!
//! A signed request has three more headers: the account, the time, and a signature over both and the body. The body is
//! signed as it goes out, to the byte, so signing is the last thing that happens to a request. What is signed is
//! defined in [`sabir_proto::digest::k1`]; it does not name the receiver, so a signed request is good at any agent for
//! as long as its time is.
//!
//! [`Signer`] is the arithmetic, [`Account`] the credential of a client: it signs each request when it leaves.

mod account;
mod registry;

pub use account::Account;
pub use registry::{Job, Registry};

use crate::secret::Secret;
use ecdsa::hazmat::sign_prehashed_rfc6979;
use k256::ecdsa::SigningKey;
use k256::sha2::Sha256;
use sabir_proto::digest;
use sabir_proto::k1::{Curve, K1Fault, PrivateKey, Signature, is_account_name};
use std::fmt;

/// `X-XPR-Account`
pub const ACCOUNT: &str = "x-xpr-account";
/// `X-XPR-Timestamp`
pub const TIMESTAMP: &str = "x-xpr-timestamp";
/// `X-XPR-Signature`
pub const SIGNATURE: &str = "x-xpr-signature";

/// Whether a header belongs to a signature. A card can only call that an API key, and no key of ours has its place
/// there.
pub fn is_header(name: &str) -> bool {
    [ACCOUNT, TIMESTAMP, SIGNATURE].iter().any(|known| known.eq_ignore_ascii_case(name))
}

/// Why nobody can sign.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
pub enum SignerFault {
    /// Not the name of an account.
    #[error("{0:?} is not an account name: 1 to 12 of a-z, 1-5 and the dot")]
    Account(String),
    /// Not a private key. The key itself is not repeated.
    #[error("the private key cannot be read: {0}")]
    Key(#[from] K1Fault),
    /// Zero, or beyond the order of the curve.
    #[error("the private key is out of range")]
    Range,
}

/// An account that signs.
#[derive(Clone)]
pub struct Signer {
    account: String,
    key: SigningKey,
}

impl Signer {
    /// An account and its key, which is `PVT_K1_…` or WIF.
    pub fn new(account: &str, key: &Secret) -> Result<Self, SignerFault> {
        if !is_account_name(account) {
            return Err(SignerFault::Account(account.to_owned()));
        }
        let key = PrivateKey::parse(key.expose().trim())?;
        let key = SigningKey::from_slice(key.expose()).map_err(|_| SignerFault::Range)?;
        Ok(Self { account: account.to_owned(), key })
    }

    /// Who signs.
    pub fn account(&self) -> &str {
        &self.account
    }

    /// The three headers for a request with this body. `now` is in Unix seconds.
    pub fn headers(&self, body: &[u8], now: i64) -> [(&'static str, String); 3] {
        let signature = self.sign(&digest::k1(&self.account, now, body));
        [(ACCOUNT, self.account.clone()), (TIMESTAMP, now.to_string()), (SIGNATURE, signature.to_string())]
    }

    /// The chain takes only signatures whose r and s need no padding as signed integers, so the nonce is drawn anew
    /// until both are such. The attempt is the additional data of RFC 6979 §3.6, counted from 1: that is what the
    /// network's own library does, and it gives the same signatures to the bit.
    fn sign(&self, digest: &[u8; 32]) -> Signature {
        let mut attempt: u32 = 0;
        loop {
            attempt += 1;
            // One byte for the first 255; about half of all nonces will do, so there is no second.
            let count = attempt.to_le_bytes();
            let length = if attempt < 256 { 1 } else { count.len() };
            let (ecdsa, id) =
                sign_prehashed_rfc6979::<_, Sha256>(self.key.as_nonzero_scalar(), digest, &count[..length]);
            let mut rs = [0; 64];
            rs.copy_from_slice(&ecdsa.to_bytes());
            if is_canonical(&rs) {
                return Signature { curve: Curve::K1, recovery: 31 + id.to_byte(), rs };
            }
        }
    }
}

/// Neither half has its highest bit set, or is so short that its second byte has not.
fn is_canonical(rs: &[u8; 64]) -> bool {
    let short = |half: &[u8]| half[0] >= 0x80 || (half[0] == 0 && half[1] < 0x80);
    !rs.chunks(32).any(short)
}

impl fmt::Debug for Signer {
    fn fmt(&self, out: &mut fmt::Formatter<'_>) -> fmt::Result {
        out.debug_struct("Signer").field("account", &self.account).field("key", &"[redacted]").finish()
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use serde::Deserialize;

    #[derive(Deserialize)]
    struct Vectors {
        valid: Vec<Case>,
    }

    #[derive(Deserialize)]
    struct Case {
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
        let vectors: Vectors = serde_json::from_str(vectors).unwrap();
        assert_eq!(vectors.valid.len(), 12);
        for case in vectors.valid {
            for key in [&case.wif, &case.pvt_k1, &format!(" {}\n", case.wif)] {
                let signer = Signer::new(&case.account, &Secret::new(key.as_str())).unwrap();
                let [account, timestamp, signature] = signer.headers(case.body_utf8.as_bytes(), case.timestamp);
                assert_eq!(account, (ACCOUNT, case.account.clone()));
                assert_eq!(timestamp, (TIMESTAMP, case.timestamp.to_string()));
                assert_eq!(signature, (SIGNATURE, case.signature.clone()), "{}", case.name);
            }
        }
    }

    #[test]
    fn every_signature_is_canonical() {
        let signer = Signer::new("alice", &Secret::new("5JMh46ekRfmbmxY2UszYX2uHWTGdWrBBMyeaXYBbRnpnhMBSENU")).unwrap();
        for now in 0..64 {
            assert!(is_canonical(&signer.sign(&digest::k1("alice", now, b"")).rs));
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
        let refused = |account: &str, key: &str| Signer::new(account, &Secret::new(key)).unwrap_err();
        let mistyped = "5JMh46ekRfmbmxY2UszYX2uHWTGdWrBBMyeaXYBbRnpnhMBSENV";
        assert_eq!(refused("alice", mistyped), SignerFault::Key(K1Fault::Checksum));
        assert!(!refused("alice", mistyped).to_string().contains(mistyped));
        assert!(matches!(refused("Alice", mistyped), SignerFault::Account(_)));
        let signer = Signer::new("alice", &Secret::new("5JMh46ekRfmbmxY2UszYX2uHWTGdWrBBMyeaXYBbRnpnhMBSENU")).unwrap();
        assert_eq!(format!("{signer:?}"), r#"Signer { account: "alice", key: "[redacted]" }"#);
    }
}
