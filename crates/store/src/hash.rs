//! SHA-256 values: computing, parsing and printing them.

use sha2::{Digest as _, Sha256};
use std::fmt;
use std::fmt::Write as _;

/// A SHA-256, written in lower-case hexadecimal.
#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash, Default)]
pub struct Hash([u8; 32]);

impl Hash {
    /// The hash of the concatenated pieces. Where a piece has no fixed length the caller separates them.
    pub(crate) fn of(pieces: &[&[u8]]) -> Self {
        let mut hash = Sha256::new();
        pieces.iter().for_each(|piece| hash.update(piece));
        Self(hash.finalize().into())
    }

    /// Parses 64 lower-case hexadecimal digits.
    pub fn parse(text: &str) -> Option<Self> {
        let digit = |byte: u8| match byte {
            b'0'..=b'9' => Some(byte - b'0'),
            b'a'..=b'f' => Some(byte - b'a' + 10),
            _ => None,
        };
        let digits: [u8; 64] = text.as_bytes().try_into().ok()?;
        let mut bytes = [0; 32];
        for (byte, pair) in bytes.iter_mut().zip(digits.chunks_exact(2)) {
            *byte = digit(pair[0])? << 4 | digit(pair[1])?;
        }
        Some(Self(bytes))
    }

    pub const fn as_bytes(&self) -> &[u8; 32] {
        &self.0
    }
}

impl fmt::Display for Hash {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let mut text = String::with_capacity(64);
        for byte in self.0 {
            write!(text, "{byte:02x}")?;
        }
        f.pad(&text)
    }
}

/// Eight digits: enough to distinguish hashes in a log.
impl fmt::Debug for Hash {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "Hash({self:.8}…)")
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_hash_is_read_as_it_is_written() {
        let hash = Hash::of(&[b"a", b"bc"]);
        assert_eq!(hash.to_string(), "ba7816bf8f01cfea414140de5dae2223b00361a396177a9cb410ff61f20015ad");
        assert_eq!(Hash::parse(&hash.to_string()), Some(hash));
        assert_eq!(format!("{hash:?}"), "Hash(ba7816bf…)");
        for bad in ["", "ba78", &hash.to_string().to_uppercase(), &format!("{hash}0"), &"é".repeat(32)] {
            assert_eq!(Hash::parse(bad), None, "{bad}");
        }
    }
}
