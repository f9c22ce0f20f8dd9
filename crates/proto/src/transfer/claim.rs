//! Whose a task is that one server makes at another.
//!
//! The server that hands a task over creates it there as itself, so there it is its own. The caller it is for may be
//! known there by another name, or by none that the first server could say. So the first one makes up a word, tells the
//! other server what it looks like (its digest), and tells its caller the word. Whoever shows it has the task from then
//! on; it works once.

use crate::Secret;
use crate::digest::hex;
use serde::{Deserialize, Deserializer, Serialize, Serializer};
use sha2::{Digest as _, Sha256};

/// The header in which a claim is shown.
pub const CLAIM_HEADER: &str = "sabir-handoff-claim";
/// The longest that is taken. Ours are 128 bits in hexadecimal digits; others may write theirs otherwise.
const BYTES_MAX: usize = 256;

/// The word.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Claim(Secret);

impl Claim {
    /// One of these bits, which nobody may be able to guess.
    pub fn of_bits(bits: [u64; 2]) -> Self {
        Self(Secret::new(format!("{:016x}{:016x}", bits[0], bits[1])))
    }

    /// Reads what somebody shows; `None` for what is none.
    pub fn parse(text: &str) -> Option<Self> {
        let is_one = (1..=BYTES_MAX).contains(&text.len()) && text.bytes().all(|byte| byte.is_ascii_graphic());
        is_one.then(|| Self(Secret::new(text)))
    }

    /// The word itself, for whoever shows it.
    pub fn expose(&self) -> &str {
        self.0.expose()
    }

    /// What it looks like to whoever has to recognise it.
    pub fn digest(&self) -> String {
        hex(&Sha256::digest(self.expose()))
    }

    /// Whether it is the one that looks like this.
    pub fn fits(&self, digest: &str) -> bool {
        Secret::new(self.digest()) == Secret::new(digest)
    }
}

impl Serialize for Claim {
    /// In the one place where it is told: to the caller of the task that left.
    fn serialize<S: Serializer>(&self, to: S) -> Result<S::Ok, S::Error> {
        to.serialize_str(self.expose())
    }
}

impl<'de> Deserialize<'de> for Claim {
    fn deserialize<D: Deserializer<'de>>(from: D) -> Result<Self, D::Error> {
        let text = String::deserialize(from)?;
        Self::parse(&text).ok_or_else(|| serde::de::Error::custom("a claim is 1 to 256 visible characters"))
    }
}

#[cfg(test)]
mod tests {
    use super::Claim;

    #[test]
    fn a_claim_fits_its_digest_and_is_not_shown_by_accident() {
        let claim = Claim::of_bits([7, u64::MAX]);
        assert_eq!(claim.expose(), "0000000000000007ffffffffffffffff");
        assert_eq!(Claim::parse(claim.expose()), Some(claim.clone()));
        assert!(claim.fits(&claim.digest()));
        assert!(!Claim::of_bits([8, u64::MAX]).fits(&claim.digest()));
        assert!(!claim.fits("") && !claim.fits(claim.expose()));
        assert!(!format!("{claim:?}").contains("ffff"));
        for wrong in ["", "two words", "Möwe", &"7".repeat(257)] {
            assert_eq!(Claim::parse(wrong), None, "{wrong}");
        }
    }
}
