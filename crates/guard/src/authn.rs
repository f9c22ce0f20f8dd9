//! One verifier for each kind of credential.
//!
//! | Verifier | Credential |
//! |---|---|
//! | [`k1`], with keys from [`chain`] and the trust score from [`trust_score`] | a request signed by an XPR account |
//! | [`native_jwt`], [`process_token`] | an agent-native token under a shared secret |
//! | [`agnt`] | a payload signed under the network's key |
//! | [`oidc`], with keys from [`jwks`] | a token of an issuer with a published key set |
//! | [`api_key`], [`basic`], [`legacy`] | a secret that is the credential itself |
//! | [`mtls`] | the certificate of the connection |
//!
//! The caller of this module decides which verifiers run, in which order, and what happens after a refusal.

pub mod agnt;
pub mod api_key;
pub mod basic;
pub mod chain;
pub mod jwks;
pub mod k1;
pub mod legacy;
pub mod mtls;
pub mod native_jwt;
pub mod oidc;
pub mod process_token;
pub mod trust_score;

mod jws;
mod token_cache;

pub use jws::JwsFault;

use aws_lc_rs::constant_time::verify_slices_are_equal;
use aws_lc_rs::digest::{SHA256, digest};
use std::fmt;

/// The kind of credential by which a caller proved its identity.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
pub enum Scheme {
    /// A request signed by an XPR account.
    Xpr,
    /// A token under a secret shared with agent-native peers.
    Native,
    /// A payload signed under AGNT's key.
    Agnt,
    /// A token of a trusted issuer.
    Jwt,
    /// One of our own keys.
    ApiKey,
    /// A user name and a password.
    Basic,
    /// The one static token for older peers.
    Legacy,
    /// A client certificate.
    Mtls,
}

impl Scheme {
    /// Every scheme, in the order of the variants.
    pub const ALL: [Self; 8] =
        [Self::Xpr, Self::Native, Self::Agnt, Self::Jwt, Self::ApiKey, Self::Basic, Self::Legacy, Self::Mtls];

    /// The short name of the scheme, used as the prefix of caller names.
    pub const fn name(self) -> &'static str {
        match self {
            Self::Xpr => "xpr",
            Self::Native => "native",
            Self::Agnt => "agnt",
            Self::Jwt => "jwt",
            Self::ApiKey => "key",
            Self::Basic => "basic",
            Self::Legacy => "legacy",
            Self::Mtls => "mtls",
        }
    }
}

/// The caller that a verifier has authenticated.
///
/// Its `Display` form is the owner name under which the caller's tasks are stored. The scheme is part of that name: the
/// account `ana` of a chain and the user `ana` of an issuer are different callers.
#[derive(Debug, Clone, PartialEq, Eq, Hash)]
pub struct Principal {
    /// The kind of credential that proved the identity.
    pub scheme: Scheme,
    /// The name within the scheme.
    pub name: String,
}

impl Principal {
    /// Builds a principal from its scheme and its name.
    pub fn new(scheme: Scheme, name: impl Into<String>) -> Self {
        Self { scheme, name: name.into() }
    }

    /// Parses the `Display` form.
    pub fn parse(text: &str) -> Option<Self> {
        let (scheme, name) = text.split_once(':')?;
        let scheme = Scheme::ALL.into_iter().find(|one| one.name() == scheme)?;
        (!name.is_empty()).then(|| Self::new(scheme, name))
    }
}

impl fmt::Display for Principal {
    fn fmt(&self, out: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(out, "{}:{}", self.scheme.name(), self.name)
    }
}

/// The token of an `Authorization: Bearer` header, read as agent-native peers read it: the scheme in any letter case,
/// white space around the token dropped, a token with a blank inside kept (the verifier refuses it).
pub fn bearer_token(header: &str) -> Option<&str> {
    let (scheme, rest) = header.split_at_checked(6)?;
    if !scheme.eq_ignore_ascii_case("bearer") || !rest.starts_with(|c: char| c.is_ascii_whitespace()) {
        return None;
    }
    Some(rest.trim()).filter(|token| !token.is_empty())
}

/// Whether a text has the form of a signed token, valid or not.
pub(crate) fn is_signed_token(text: &str) -> bool {
    jws::Jws::parse(text).is_ok()
}

/// The longest user name in a token, in bytes: the longest legal email address. OpenID Connect allows 255 for `sub`.
/// The name owns every task and appears in logs, in lists and in the environment of commands.
const NAME_BYTES_MAX: usize = 320;

/// Whether the user name in a token is acceptable: bounded, trimmed, and without control characters.
fn is_name(text: &str) -> bool {
    (1..=NAME_BYTES_MAX).contains(&text.len()) && text.trim() == text && !text.contains(char::is_control)
}

/// Reads an integer as JavaScript's `parseInt(text, 10)` does: white space and a sign in front, and anything behind.
/// Peers sign the number they have read, so we must read the same one.
fn leading_integer(text: &str) -> Option<i64> {
    let text = text.trim_start();
    let (negative, digits) = match text.strip_prefix(['-', '+']) {
        Some(digits) => (text.starts_with('-'), digits),
        None => (false, text),
    };
    let length = digits.bytes().take_while(u8::is_ascii_digit).count();
    let digits = &digits[..length];
    if digits.is_empty() {
        return None;
    }
    // A number with more digits is larger than every window and scale it is compared with.
    let number = digits.parse().unwrap_or(i64::MAX);
    Some(if negative { -number } else { number })
}

/// Whether two secrets are equal, in constant time: their hashes are compared, so the time does not reveal even the
/// length of the known one.
fn same_secret(known: &[u8], given: &[u8]) -> bool {
    verify_slices_are_equal(digest(&SHA256, known).as_ref(), digest(&SHA256, given).as_ref()).is_ok()
}

/// Decodes lower-case hex. Upper case is refused, because peers compare such texts byte by byte.
fn decode_hex(text: &str) -> Option<Vec<u8>> {
    let digit = |byte: u8| match byte {
        b'0'..=b'9' => Some(byte - b'0'),
        b'a'..=b'f' => Some(byte - b'a' + 10),
        _ => None,
    };
    let pairs = text.as_bytes().chunks_exact(2);
    if !pairs.remainder().is_empty() {
        return None;
    }
    pairs.map(|pair| Some(digit(pair[0])? << 4 | digit(pair[1])?)).collect()
}

#[cfg(test)]
mod tests {
    use super::*;
    use serde_json::Value;

    #[test]
    fn a_bearer_token_is_found_as_the_peer_finds_it() {
        let vectors: Value =
            serde_json::from_str(include_str!("../tests/vectors/agent-native-process-token.json")).unwrap();
        let cases = vectors["bearer_header_extraction"].as_array().unwrap();
        assert_eq!(cases.len(), 10);
        for case in cases {
            let found = case["header"].as_str().and_then(bearer_token);
            assert_eq!(found, case["extracted"].as_str(), "{case}");
        }
        assert_eq!(bearer_token("Bearerabc"), None);
        assert_eq!(bearer_token("Beareré abc"), None);
    }

    #[test]
    fn one_name_under_two_schemes_is_two_callers() {
        assert_eq!(Principal::new(Scheme::Xpr, "ana").to_string(), "xpr:ana");
        assert_ne!(Principal::new(Scheme::Xpr, "ana").to_string(), Principal::new(Scheme::Jwt, "ana").to_string());
    }

    #[test]
    fn hex_is_lower_case_and_whole() {
        assert_eq!(decode_hex("00ff1a"), Some(vec![0, 255, 26]));
        assert_eq!(decode_hex(""), Some(vec![]));
        for odd in ["0", "0F", "0g", " 0", "é"] {
            assert_eq!(decode_hex(odd), None, "{odd}");
        }
    }

    #[test]
    fn integers_are_read_as_javascript_reads_them() {
        for (text, number) in [
            ("1700000000", Some(1_700_000_000)),
            ("  +17.9", Some(17)),
            ("-5x", Some(-5)),
            ("007", Some(7)),
            ("99999999999999999999999", Some(i64::MAX)),
            ("x1", None),
            ("-", None),
            ("", None),
        ] {
            assert_eq!(leading_integer(text), number, "{text}");
        }
    }
}
