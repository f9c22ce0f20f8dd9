//! Secrets: strings that do not find their way into logs, errors or debug output by accident.
//!
//! The value leaves only through [`Secret::expose`], so a search for that word finds every place that handles one.
//! There is no `Display` and no `Serialize`: a place that must write a secret down says so itself. Memory is not
//! cleared on drop; the copies made by HTTP and TLS buffers would make that a promise we cannot keep.

use std::fmt;

/// A value nobody but its receiver may see: a token, a password, a client secret.
#[derive(Clone, PartialEq, Eq)]
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
}
