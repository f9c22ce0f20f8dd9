//! One static bearer token, for older peers that support nothing else.
//!
//! All holders of the token are one caller, and the token never expires. It is a separate scheme, so that it is not
//! mistaken for an API key.

use super::{Principal, Scheme, same_secret};
use sabir_proto::Secret;

/// The static token and the caller name of its holders.
#[derive(Debug, Clone)]
pub struct LegacyKey {
    /// The caller name of every holder of the token.
    pub name: String,
    /// The configured token.
    pub token: Secret,
}

impl LegacyKey {
    /// The caller, if the token matches. White space around the configured value is ignored: it comes from files and
    /// environment variables, and no header could carry it.
    pub fn verify(&self, token: &str) -> Option<Principal> {
        let expected = self.token.expose().trim();
        let same = same_secret(expected.as_bytes(), token.as_bytes());
        (same && !expected.is_empty()).then(|| Principal::new(Scheme::Legacy, self.name.as_str()))
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
