//! Lints: departures from the rules of its form, found while a card is read.

use super::CardSchema;
use crate::Losses;
use crate::path::Path;
use std::fmt;

/// The number of lints kept for one card. The last of them says how many more there were.
pub const LINTS_MAX: usize = 64;

/// A departure from the rules of the card's form. The card was read all the same.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Lint {
    /// The id of the rule, for programs.
    pub id: &'static str,
    /// The path in the card as it was found.
    pub path: String,
    /// What is wrong and how the reader took it, for people.
    pub message: String,
}

impl fmt::Display for Lint {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{}: {} ({})", self.path, self.message, self.id)
    }
}

/// A member that the form requires is missing.
pub(super) const MISSING: &str = "missing";
/// A member that must not be empty in this form is empty.
pub(super) const EMPTY: &str = "empty";
/// A value of another type than the member has.
pub(super) const WRONG_TYPE: &str = "wrong-type";
/// The name of a member is in snake_case.
pub(super) const SNAKE_CASE: &str = "snake-case";
/// A member of another version of A2A, or one written as there.
pub(super) const OTHER_VERSION: &str = "other-version";
/// A member that the reader does not know.
pub(super) const UNKNOWN_MEMBER: &str = "unknown-member";
/// `text`, `file` or `data` where a media type belongs.
pub(super) const MODE_WORD: &str = "mode-word";
/// A security scheme that cannot be understood.
pub(super) const SCHEME: &str = "scheme";
/// Several OAuth flows where there is room for one.
pub(super) const FLOWS: &str = "flows";
/// The reader had to assume something that the card does not say.
pub(super) const ASSUMED: &str = "assumed";
/// A `protocolVersion` that is not a version.
pub(super) const VERSION: &str = "version";
/// A `url` that is not where it should be.
pub(super) const URL: &str = "url";
/// Stands for the lints beyond [`LINTS_MAX`].
const MORE: &str = "more";

/// Collects the lints and the losses while a card is read.
pub(super) struct Findings {
    /// The form of the card, whose rules decide what is a lint.
    pub(super) form: CardSchema,
    pub(super) losses: Losses,
    lints: Vec<Lint>,
    more: usize,
}

impl Findings {
    pub(super) const fn new(form: CardSchema) -> Self {
        Self { form, losses: Losses::new(), lints: Vec::new(), more: 0 }
    }

    pub(super) fn lint(&mut self, id: &'static str, path: &Path<'_>, message: impl fmt::Display) {
        if self.lints.len() + 1 < LINTS_MAX {
            let path = path.to_string();
            // The path of a key at the top level begins with a dot.
            let path = path.strip_prefix('.').unwrap_or(&path).to_owned();
            self.lints.push(Lint { id, path, message: message.to_string() });
        } else {
            self.more += 1;
        }
    }

    /// The lints and the losses, once the card has been read.
    pub(super) fn finish(mut self) -> (Vec<Lint>, Losses) {
        if self.more > 0 {
            let message = format!("{} more findings", self.more);
            self.lints.push(Lint { id: MORE, path: String::new(), message });
        }
        (self.lints, self.losses)
    }
}
