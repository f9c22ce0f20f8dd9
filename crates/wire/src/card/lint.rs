//! What is out of order in a card that was read.

use super::Form;
use crate::Losses;
use crate::path::Path;
use std::fmt;

/// Most findings kept of one card; the last of them says how many there were beyond.
pub const LINTS_MAX: usize = 64;

/// A departure from the rules of the form a card is in. The card was read all the same.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Lint {
    /// Which rule, for programs.
    pub id: &'static str,
    /// Where, in the card as it was found.
    pub path: String,
    /// What is wrong and what was made of it, for people.
    pub message: String,
}

impl fmt::Display for Lint {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{}: {} ({})", self.path, self.message, self.id)
    }
}

/// A member that the form requires is not there.
pub(super) const MISSING: &str = "missing";
/// A member that the form requires to be set is empty.
pub(super) const EMPTY: &str = "empty";
/// A value of another type than the member has.
pub(super) const WRONG_TYPE: &str = "wrong-type";
/// A member in snake_case.
pub(super) const SNAKE_CASE: &str = "snake-case";
/// A member, or a way to write one, of another version of A2A.
pub(super) const OTHER_VERSION: &str = "other-version";
/// A member that no form has.
pub(super) const UNKNOWN_MEMBER: &str = "unknown-member";
/// `text`, `file` or `data` where a media type belongs.
pub(super) const MODE_WORD: &str = "mode-word";
/// A security scheme that cannot be understood.
pub(super) const SCHEME: &str = "scheme";
/// Several OAuth flows where there is room for one.
pub(super) const FLOWS: &str = "flows";
/// Something the card does not say and that had to be assumed.
pub(super) const ASSUMED: &str = "assumed";
/// A `protocolVersion` that is none.
pub(super) const VERSION: &str = "version";
/// A `url` that is not where it should be.
pub(super) const URL: &str = "url";
/// Stands for the findings beyond [`LINTS_MAX`].
const MORE: &str = "more";

/// What has come to light while a card is read.
pub(super) struct Findings {
    /// The form the card is in, and so the rules it is held to.
    pub(super) form: Form,
    pub(super) losses: Losses,
    lints: Vec<Lint>,
    more: usize,
}

impl Findings {
    pub(super) const fn new(form: Form) -> Self {
        Self { form, losses: Losses::new(), lints: Vec::new(), more: 0 }
    }

    pub(super) fn lint(&mut self, id: &'static str, path: &Path<'_>, message: impl fmt::Display) {
        if self.lints.len() + 1 < LINTS_MAX {
            let path = path.to_string();
            // A key of the card itself comes with a dot before it.
            let path = path.strip_prefix('.').unwrap_or(&path).to_owned();
            self.lints.push(Lint { id, path, message: message.to_string() });
        } else {
            self.more += 1;
        }
    }

    /// The findings, when the card has been read.
    pub(super) fn finish(mut self) -> (Vec<Lint>, Losses) {
        if self.more > 0 {
            let message = format!("{} more findings", self.more);
            self.lints.push(Lint { id: MORE, path: String::new(), message });
        }
        (self.lints, self.losses)
    }
}
