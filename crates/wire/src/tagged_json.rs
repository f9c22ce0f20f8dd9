//! The JSON objects that the older dialects share, which descend from the JSON Schemas of A2A 0.1 to 0.3.
//!
//! They tag parts by a word, name states in lower case, and differ in which members an object has. So each object has
//! one lenient reader, and one writer that asks a [`TaggedStyle`] which members this dialect has. Members it does not have
//! go into the [`Losses`](crate::Losses), with their path in the canonical form.
//!
//! | Module | What is there |
//! |---|---|
//! | [`part`] | parts, by `kind` or by `type` |
//! | [`message`] | messages of any role |
//! | [`task`] | tasks, statuses, artifacts |
//! | [`push`] | push configurations |
//! | [`send`] | the parameters of a send |

pub(crate) mod message;
pub(crate) mod part;
pub(crate) mod push;
pub(crate) mod send;
pub(crate) mod task;

use crate::Dialect;
use sabir_proto::MessageId;
use sabir_proto::lenient::object;
use serde::Deserialize;

/// The member by which a dialect tells parts apart.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Tag {
    Kind,
    Type,
}

/// How a dialect names its artifacts.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum ArtifactName {
    /// The member `artifactId`.
    Id,
    /// `index` and `id`: the schema has the index, and clients came to write the id beside it.
    IndexAndId,
    /// Only `index`.
    Index,
}

/// Where clients of a dialect look for the answer of a completed task.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum AnswerPlace {
    /// The answer may stay where the agent put it.
    Anywhere,
    /// In `status.message`.
    Status,
    /// In `artifacts[0]`.
    Artifact,
}

/// How a dialect writes the shared objects.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) struct TaggedStyle {
    pub(crate) dialect: Dialect,
    pub(crate) tag: Tag,
    pub(crate) artifact_name: ArtifactName,
    pub(crate) answer: AnswerPlace,
    /// The context id is called `sessionId`.
    pub(crate) session: bool,
    /// `history` and `artifacts` are written even when empty.
    pub(crate) lists_always: bool,
}

impl TaggedStyle {
    /// The style of a dialect. 1.0 has no such objects; it gets that of 0.3, which is nearest.
    pub(crate) const fn of(dialect: Dialect) -> Self {
        let base = Self {
            dialect,
            tag: Tag::Type,
            artifact_name: ArtifactName::Id,
            answer: AnswerPlace::Anywhere,
            session: false,
            lists_always: false,
        };
        match dialect {
            Dialect::V1 | Dialect::V03 | Dialect::V02 => Self { tag: Tag::Kind, ..base },
            Dialect::V01 => {
                let artifact_name = ArtifactName::IndexAndId;
                Self { session: true, artifact_name, answer: AnswerPlace::Artifact, ..base }
            }
            Dialect::Native => Self { lists_always: true, answer: AnswerPlace::Status, ..base },
            Dialect::Xpr => Self { artifact_name: ArtifactName::Index, answer: AnswerPlace::Artifact, ..base },
        }
    }

    /// The `kind` of an object, where the dialect has this member.
    const fn kind(self, word: &'static str) -> Option<&'static str> {
        match self.tag {
            Tag::Kind => Some(word),
            Tag::Type => None,
        }
    }
}

/// Deserializes a struct from a JSON object only: derived readers would also accept a list of its members in order.
#[derive(Debug, Deserialize)]
#[serde(transparent, bound = "T: Deserialize<'de>")]
pub(crate) struct StrictObject<T>(#[serde(deserialize_with = "object")] pub(crate) T);

/// Makes ids for messages that came without one. It is an argument because translation has no randomness of its own.
pub(crate) type Mint<'a> = &'a mut dyn FnMut() -> MessageId;
