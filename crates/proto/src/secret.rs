//! Secrets: strings that do not reach logs, errors or debug output by accident.
//!
//! The value is read only through [`Secret::expose`], so a search for that word finds every place that handles a
//! secret. There is no `Display` and no `Serialize`. Memory is not cleared on drop; HTTP and TLS buffers hold copies,
//! so we could not keep that promise.

use std::fmt;
use subtle::ConstantTimeEq as _;

/// A value that only its receiver may see: a token, a password, a client secret.
///
/// Comparison time depends only on the lengths, so that timing reveals nothing about the value.
#[derive(Clone)]
pub struct Secret(String);

impl Secret {
    /// Wraps a value as a secret.
    pub fn new(value: impl Into<String>) -> Self {
        Self(value.into())
    }

    /// The value itself, for the code that sends or stores it.
    pub fn expose(&self) -> &str {
        &self.0
    }

    /// Whether the value is empty, which usually means that a setting was left empty.
    pub fn is_empty(&self) -> bool {
        self.0.is_empty()
    }
}

impl PartialEq for Secret {
    fn eq(&self, other: &Self) -> bool {
        self.0.as_bytes().ct_eq(other.0.as_bytes()).into()
    }
}

impl Eq for Secret {}

impl fmt::Debug for Secret {
    fn fmt(&self, out: &mut fmt::Formatter<'_>) -> fmt::Result {
        out.write_str("[redacted]")
    }
}

impl From<String> for Secret {
    fn from(value: String) -> Self {
        Self(value)
    }
}

#[cfg(test)]
mod tests {
    use super::Secret;

    #[test]
    fn debug_output_never_holds_the_value() {
        let secret = Secret::new("hunter2");
        assert_eq!(format!("{secret:?}"), "[redacted]");
        assert_eq!(format!("{:#?}", Some(&secret)), "Some(\n    [redacted],\n)");
        assert_eq!(secret.expose(), "hunter2");
        assert!(!secret.is_empty());
    }

    #[test]
    fn equal_is_equal_in_every_byte() {
        let secret = Secret::new("hunter2");
        assert!(secret == Secret::new("hunter2"));
        for other in ["hunter3", "Hunter2", "hunter", "hunter22", ""] {
            assert!(secret != Secret::new(other), "{other}");
        }
    }
}
