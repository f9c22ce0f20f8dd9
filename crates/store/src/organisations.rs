//! Organisations: callers whose tokens are signed with a secret of their own, and references to those secrets.
//!
//! The store holds only references to the secrets, so a copy of the file does not contain them.

use crate::{AuditActor, ChangeError, StoreError, StoreFuture};
use sabir_proto::Timestamp;
use std::fmt;
use std::path::{Path, PathBuf};
use std::sync::Arc;

/// Organisations in one store; all of them are in memory.
pub const ORGANISATIONS_MAX: usize = 10_000;
/// Longest domain, in bytes: as long as DNS allows.
pub const DOMAIN_BYTES_MAX: usize = 253;

/// A domain in lower case, so that spellings compare equal.
#[derive(Debug, Clone, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct Domain(Arc<str>);

impl Domain {
    /// Parses a domain: labels of letters, digits, `-` and `_`, between dots. Other alphabets in their `xn--` form.
    pub fn parse(text: &str) -> Option<Self> {
        let legal = |label: &str| {
            let ok = |b: u8| b.is_ascii_alphanumeric() || matches!(b, b'-' | b'_');
            (1..=63).contains(&label.len()) && label.bytes().all(ok)
        };
        let ok = text.len() <= DOMAIN_BYTES_MAX && text.split('.').all(legal);
        ok.then(|| Self(text.to_ascii_lowercase().into()))
    }

    pub fn as_str(&self) -> &str {
        &self.0
    }
}

impl fmt::Display for Domain {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(&self.0)
    }
}

/// A reference to a secret. Never the secret.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum SecretRef {
    /// In an environment variable of the server.
    Env(String),
    /// In a file that the server can read. A relative path is relative to the server's working directory.
    File(PathBuf),
}

/// The text is not a reference. The error does not repeat it: it may be the secret itself.
#[derive(Debug, Clone, Copy, PartialEq, Eq, thiserror::Error)]
#[error("a secret is given as env:NAME or file:PATH, not as itself")]
pub struct InvalidSecretRef;

impl SecretRef {
    /// Parses `env:NAME` or `file:PATH`.
    pub fn parse(text: &str) -> Result<Self, InvalidSecretRef> {
        let legal = |b: u8| b.is_ascii_alphanumeric() || b == b'_';
        match text.split_once(':') {
            Some(("env", name)) if !name.is_empty() && name.bytes().all(legal) => Ok(Self::Env(name.into())),
            Some(("file", path)) if !path.is_empty() && !path.contains('\0') => Ok(Self::File(Path::new(path).into())),
            _ => Err(InvalidSecretRef),
        }
    }
}

impl fmt::Display for SecretRef {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Env(name) => write!(f, "env:{name}"),
            Self::File(path) => write!(f, "file:{}", path.display()),
        }
    }
}

/// An organisation whose tokens this server accepts.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Organisation {
    pub domain: Domain,
    /// The reference to its secret.
    pub secret: SecretRef,
    pub added_at: Timestamp,
}

/// The organisations. Other processes may change them at any time.
pub trait Organisations: Send + Sync + 'static {
    /// The organisation of a domain, in any spelling. From memory, and as fresh as [`crate::Keys::find`].
    fn organisation(&self, domain: &str) -> Result<Option<Arc<Organisation>>, StoreError>;

    /// Adds an organisation, or replaces the secret of one; with an audit entry, on disk before this returns. Returns
    /// the replaced one.
    fn add(&self, domain: Domain, secret: SecretRef, by: AuditActor) -> StoreFuture<Option<Organisation>, ChangeError>;

    /// All organisations, by domain.
    fn organisations(&self) -> StoreFuture<Vec<Organisation>>;

    /// Removes an organisation, with an audit entry; returns it, or `None` if there was none.
    fn remove(&self, domain: Domain, by: AuditActor) -> StoreFuture<Option<Organisation>, ChangeError>;
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_domain_is_one_however_it_is_spelled() {
        assert_eq!(Domain::parse("Example.COM"), Domain::parse("example.com"));
        assert_eq!(Domain::parse("localhost").unwrap().as_str(), "localhost");
        for bad in ["", ".", "a..b", "a.b.", "a b.c", "a/b", "é.fr", "a:80", &"a".repeat(64), &"a.".repeat(127)] {
            assert_eq!(Domain::parse(bad), None, "{bad}");
        }
    }

    #[test]
    fn a_secret_is_a_reference_or_nothing() {
        for good in ["env:A2A_SECRET", "file:/run/secrets/a b", "file:x:y"] {
            assert_eq!(SecretRef::parse(good).unwrap().to_string(), good);
        }
        for bad in ["", "hunter2", "env:", "env:hunter2!", "file:", "https://x", "ENV:A", "file:a\0b"] {
            let refused = SecretRef::parse(bad).unwrap_err().to_string();
            assert!(bad.is_empty() || bad.len() < 6 || !refused.contains(bad), "{refused}");
        }
    }
}
