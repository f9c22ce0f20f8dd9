//! UUIDs that are derived from words: the same words give the same UUID.

use sha2::{Digest as _, Sha256};

/// A UUID (version 8) made from words.
pub(crate) fn derived_uuid(words: &[&str]) -> String {
    let mut hash = Sha256::new();
    for word in words {
        // With its length, so that no two lists of words read the same.
        hash.update(word.len().to_be_bytes());
        hash.update(word.as_bytes());
    }
    let digest = hash.finalize();
    let mut bytes: [u8; 16] = std::array::from_fn(|i| digest[i]);
    bytes[6] = (bytes[6] & 0x0f) | 0x80;
    bytes[8] = (bytes[8] & 0x3f) | 0x80;
    let mut name = sabir_proto::digest::hex(&bytes);
    for at in [8, 13, 18, 23] {
        name.insert(at, '-');
    }
    name
}

#[cfg(test)]
mod tests {
    use super::*;
    use sabir_proto::MessageId;

    #[test]
    fn names_are_unique_by_form_and_the_same_every_time() {
        let id = MessageId::parse(&derived_uuid(&["message", "a/1"])).unwrap();
        assert!(id.is_uuid_or_ulid(), "{}", id.as_str());
        assert_eq!(derived_uuid(&["message", "a/1"]), id.as_str());
        assert_ne!(derived_uuid(&["message", "a/", "1"]), id.as_str());
    }
}
