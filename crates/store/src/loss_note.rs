//! Loss notes beside a task: what a translation between dialects could not carry, for operators who ask later.
//!
//! A loss note is no event: it moves nothing, no step waits for it, and a crash or an overload may lose it. It says
//! where a value was lost and how often, so the same loss seen a thousand times is one row.

use sabir_proto::Timestamp;

/// Different loss notes that a task keeps. Later ones are counted together, in one row of kind [`MORE_KIND`].
pub const LOSS_NOTES_MAX: usize = 64;

/// The kind of the row that counts the notes above the limit. It has no dialect and no path, since it stands for many.
pub const MORE_KIND: &str = "more";

/// A loss in translation, with its count.
#[derive(Debug, Clone, PartialEq, Eq, PartialOrd, Ord)]
pub struct LossNote {
    /// When the loss was first seen.
    pub first_at: Timestamp,
    /// The dialect it was lost in.
    pub dialect: String,
    /// The kind of value that was lost.
    pub kind: String,
    /// The path of the value in the task.
    pub path: String,
    /// How many times the value was lost.
    pub count: u64,
}

impl LossNote {
    /// A note of a first loss.
    pub fn new(dialect: impl Into<String>, kind: impl Into<String>, path: impl Into<String>, at: Timestamp) -> Self {
        Self { first_at: at, dialect: dialect.into(), kind: kind.into(), path: path.into(), count: 1 }
    }

    /// Whether both notes stand for the same loss.
    #[cfg(feature = "model")]
    pub(crate) fn is_like(&self, other: &Self) -> bool {
        (&self.dialect, &self.kind, &self.path) == (&other.dialect, &other.kind, &other.path)
    }

    /// A note with the same count and without details.
    pub(crate) fn without_details(&self) -> Self {
        Self { dialect: String::new(), kind: MORE_KIND.into(), path: String::new(), ..self.clone() }
    }
}
