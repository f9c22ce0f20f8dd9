//! One static bearer token, for older peers that know nothing else.
//!
//! Whoever has it is one and the same caller, and it never ends. That is what older peers have; it is a scheme of its
//! own so that nobody mistakes it for a key.

use super::{Scheme, Who, same_secret};
use sabir_proto::Secret;

/// The token, and what we call those who have it.
#[derive(Debug, Clone)]
pub struct LegacyKey {
    /// The name of the caller.
    pub name: String,
    /// The token.
    pub token: Secret,
}

impl LegacyKey {
    /// The caller, if this is the token. White space around the configured value does not count: it comes from files and
    /// environment variables, and no header could carry it.
    pub fn verify(&self, token: &str) -> Option<Who> {
        let expected = self.token.expose().trim();
        let same = same_secret(expected.as_bytes(), token.as_bytes());
        (same && !expected.is_empty()).then(|| Who::new(Scheme::Legacy, self.name.as_str()))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn only_the_whole_token_is_the_token() {
        let key = LegacyKey { name: "old".to_owned(), token: Secret::new("correct horse\n") };
        assert_eq!(key.verify("correct horse").unwrap().to_string(), "legacy:old");
        for wrong in ["", "correct", "correct horse ", "Correct horse", "correct horse\n"] {
            assert_eq!(key.verify(wrong), None, "{wrong:?}");
        }
        assert!(!format!("{key:?}").contains("horse"));
    }

    #[test]
    fn an_empty_setting_opens_nothing() {
        let key = LegacyKey { name: "old".to_owned(), token: Secret::new(" \n") };
        assert_eq!(key.verify(""), None);
    }
}
