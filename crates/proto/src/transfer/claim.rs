//! Ownership of a task that one server creates at another for a caller.
//!
//! The server that hands a task over creates it at the other server under its own identity, and owns it there. The
//! caller may have another name at that server, or a name that the first server does not know. So the first server
//! makes up a secret, tells the other server its digest, and tells the caller the secret. The caller that presents the
//! secret owns the task from then on; a claim works once.

use crate::Secret;
use crate::digest::hex;
use serde::{Deserialize, Deserializer, Serialize, Serializer};
use sha2::{Digest as _, Sha256};

/// The header in which a caller presents a claim.
pub const CLAIM_HEADER: &str = "sabir-handoff-claim";
/// The longest accepted claim. Ours are 128 bits in hex; other servers may use another form.
const BYTES_MAX: usize = 256;

/// The secret that proves a caller's claim to a task.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct HandoffClaim(Secret);

impl HandoffClaim {
    /// A claim of 128 bits, which must be random.
    pub fn from_bits(bits: [u64; 2]) -> Self {
        Self(Secret::new(format!("{:016x}{:016x}", bits[0], bits[1])))
    }

    /// Parses a claim that a caller presents; `None` if the text cannot be one.
    pub fn parse(text: &str) -> Option<Self> {
        let is_one = (1..=BYTES_MAX).contains(&text.len()) && text.bytes().all(|byte| byte.is_ascii_graphic());
        is_one.then(|| Self(Secret::new(text)))
    }

    /// The secret itself, for the code that sends it.
    pub fn expose(&self) -> &str {
        self.0.expose()
    }

    /// The digest that the receiving server compares.
    pub fn digest(&self) -> String {
        hex(&Sha256::digest(self.expose()))
    }

    /// Whether the claim has this digest.
    pub fn matches_digest(&self, digest: &str) -> bool {
        Secret::new(self.digest()) == Secret::new(digest)
    }
}

impl Serialize for HandoffClaim {
    /// Serialised only for the caller of the handed-over task.
    fn serialize<S: Serializer>(&self, to: S) -> Result<S::Ok, S::Error> {
        to.serialize_str(self.expose())
    }
}

impl<'de> Deserialize<'de> for HandoffClaim {
    fn deserialize<D: Deserializer<'de>>(from: D) -> Result<Self, D::Error> {
        let text = String::deserialize(from)?;
        Self::parse(&text).ok_or_else(|| serde::de::Error::custom("a claim is 1 to 256 visible characters"))
    }
}

#[cfg(test)]
mod tests {
    use super::HandoffClaim;

    #[test]
    fn a_claim_fits_its_digest_and_is_not_shown_by_accident() {
        let claim = HandoffClaim::from_bits([7, u64::MAX]);
        assert_eq!(claim.expose(), "0000000000000007ffffffffffffffff");
        assert_eq!(HandoffClaim::parse(claim.expose()), Some(claim.clone()));
        assert!(claim.matches_digest(&claim.digest()));
        assert!(!HandoffClaim::from_bits([8, u64::MAX]).matches_digest(&claim.digest()));
        assert!(!claim.matches_digest("") && !claim.matches_digest(claim.expose()));
        assert!(!format!("{claim:?}").contains("ffff"));
        for wrong in ["", "two words", "Möwe", &"7".repeat(257)] {
            assert_eq!(HandoffClaim::parse(wrong), None, "{wrong}");
        }
    }
}
