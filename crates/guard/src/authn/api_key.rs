//! API keys: their text form, and what the store keeps of them.
//!
//! A key is 128 random bits behind a prefix that names its kind. It is shown once. The store keeps its SHA-256, which
//! is the lookup key, and its first characters, by which operators tell keys apart. A fast hash is enough, since 128
//! random bits cannot be guessed; and because keys are looked up by hash, the time taken does not tell how close a
//! guess was.

use super::{Principal, Scheme};
use sabir_proto::Secret;
use sabir_store::KeyFingerprint;

const BODY_CHARS: usize = 32;

/// The kind of a key, which its prefix names.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum KeyKind {
    /// A key of this server.
    Sabir,
    /// A key of an AGNT caller, with a tier.
    AgntLive,
    /// An AGNT key for tests.
    AgntTest,
}

impl KeyKind {
    const ALL: [Self; 3] = [Self::Sabir, Self::AgntLive, Self::AgntTest];

    const fn prefix(self) -> &'static str {
        match self {
            Self::Sabir => "sabir_",
            Self::AgntLive => "agnt_live_",
            Self::AgntTest => "agnt_test_",
        }
    }

    /// The kind of a text that has the form of a key. AGNT keys may contain letters of both cases; ours are lower-case
    /// hex.
    pub fn of(text: &str) -> Option<Self> {
        let kind = Self::ALL.into_iter().find(|kind| text.starts_with(kind.prefix()))?;
        let body = &text[kind.prefix().len()..];
        let legal = |byte: u8| match kind {
            Self::Sabir => matches!(byte, b'0'..=b'9' | b'a'..=b'f'),
            Self::AgntLive | Self::AgntTest => byte.is_ascii_alphanumeric(),
        };
        (body.len() == BODY_CHARS && body.bytes().all(legal)).then_some(kind)
    }
}

/// Makes the text of a key from 16 random bytes.
pub fn key_text(kind: KeyKind, random: [u8; 16]) -> Secret {
    Secret::new(format!("{}{}", kind.prefix(), sabir_proto::digest::hex(&random)))
}

/// What the store keeps of a key; `None` for a text that does not have the form of a key, which is never looked up.
pub fn imprint(text: &str) -> Option<KeyFingerprint> {
    KeyKind::of(text).map(|_| KeyFingerprint::of(text))
}

/// The caller behind a key id: a rotated key stays the same caller, and two keys of one owner are two callers.
pub fn principal(key_id: &str) -> Principal {
    Principal::new(Scheme::ApiKey, key_id)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_key_that_was_made_is_recognised() {
        for (kind, text) in [
            (KeyKind::Sabir, "sabir_000102030405060708090a0b0c0d0eff"),
            (KeyKind::AgntLive, "agnt_live_000102030405060708090a0b0c0d0eff"),
            (KeyKind::AgntTest, "agnt_test_000102030405060708090a0b0c0d0eff"),
        ] {
            let key = key_text(kind, [0, 1, 2, 3, 4, 5, 6, 7, 8, 9, 10, 11, 12, 13, 14, 255]);
            assert_eq!(key.expose(), text);
            let imprint = imprint(text).unwrap();
            assert_eq!((KeyKind::of(text), imprint.prefix.as_str()), (Some(kind), &text[..14]));
            assert!(!format!("{key:?} {imprint:?}").contains("0a0b0c"), "most of it stays hidden");
        }
    }

    #[test]
    fn what_is_kept_is_the_plain_sha256_of_the_whole_text() {
        let imprint = imprint("sabir_000102030405060708090a0b0c0d0eff").unwrap();
        assert_eq!(imprint.hash.to_string(), "9abd7b8a39e4ca273f3f415ce410a021870a6334170f49d13ea3606e3b8e5b73");
    }

    #[test]
    fn only_the_form_of_a_key_is_a_key() {
        let hex = "0123456789abcdef0123456789abcdef";
        assert!(imprint(&format!("agnt_live_{}", "Az09".repeat(8))).is_some());
        for text in [
            String::new(),
            hex.to_owned(),
            "sabir_".to_owned(),
            format!("sabir_{}", hex.to_uppercase()),
            format!("sabir_{hex}0"),
            format!("sabir_{}", &hex[1..]),
            format!(" sabir_{hex}"),
            format!("agnt_live_{}", &hex.replace('0', "_")),
            format!("agnt_{hex}"),
            format!("sabir_{}", "é".repeat(16)),
        ] {
            assert_eq!(imprint(&text), None, "{text}");
        }
    }
}
