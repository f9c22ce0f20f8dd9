//! Secrets: strings that do not find their way into logs, errors or debug output by accident.
//!
//! The value leaves only through [`Secret::expose`], so a search for that word finds every place that handles one.
//! There is no `Display` and no `Serialize`: a place that must write a secret down says so itself. Memory is not
//! cleared on drop; the copies made by HTTP and TLS buffers would make that a promise we cannot keep.

use std::fmt;
use subtle::ConstantTimeEq as _;

/// A value nobody but its receiver may see: a token, a password, a client secret.
///
/// Comparing two takes a time that depends on their lengths alone, so that a guess learns nothing from being refused
/// sooner or later.
#[derive(Clone)]
pub struct Secret(String);

impl Secret {
    /// Takes a value into custody.
    pub fn new(value: impl Into<String>) -> Self {
        Self(value.into())
    }

    /// The value itself, for the one place that sends or stores it.
    pub fn expose(&self) -> &str {
        &self.0
    }

    /// Whether there is nothing to hide, which mostly means that a setting was given but left empty.
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
