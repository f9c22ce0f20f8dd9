//! Notes beside a task: what a translation could not carry, for whoever asks later why something is missing.
//!
//! A note is no event: it moves nothing, nobody waits for it, and a crash or a crowd may lose it. It says where something
//! was lost and how often, so the same loss seen a thousand times is one row.

use sabir_proto::Timestamp;

/// Different notes a task keeps. What comes after is counted together, in one row of kind [`MORE`].
pub const NOTES_MAX: usize = 64;

/// The kind of the row that counts what found no room. It has no dialect and no path: they were many.
pub const MORE: &str = "more";

/// Something that was lost on the way, as often as it was.
#[derive(Debug, Clone, PartialEq, Eq, PartialOrd, Ord)]
pub struct Note {
    /// When it was first noticed.
    pub first_at: Timestamp,
    /// The dialect it was lost in.
    pub dialect: String,
    /// What kind of thing.
    pub kind: String,
    /// Where in the task it stood.
    pub path: String,
    /// How often.
    pub count: u64,
}

impl Note {
    /// Something lost for the first time.
    pub fn new(dialect: impl Into<String>, kind: impl Into<String>, path: impl Into<String>, at: Timestamp) -> Self {
        Self { first_at: at, dialect: dialect.into(), kind: kind.into(), path: path.into(), count: 1 }
    }

    /// Whether both say the same.
    pub(crate) fn is_like(&self, other: &Self) -> bool {
        (&self.dialect, &self.kind, &self.path) == (&other.dialect, &other.kind, &other.path)
    }

    /// The same number of losses, of which nothing else is kept.
    pub(crate) fn without_details(&self) -> Self {
        Self { dialect: String::new(), kind: MORE.into(), path: String::new(), ..self.clone() }
    }
}
