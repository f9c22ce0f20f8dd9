//! What the older dialects share: JSON objects that descend from the JSON Schemas of A2A 0.1 to 0.3.
//!
//! They tag parts by a word, name states in lower case, and differ in which members an object has. So there is one
//! generous reader for each object, and one writer that asks a [`Manner`] which members this dialect knows. What it does
//! not know goes into the [`Losses`](crate::Losses), with the place it had in the canonical form.
//!
//! | Room | What is there |
//! |---|---|
//! | [`part`] | parts, by `kind` or by `type` |
//! | [`message`] | messages |
//! | [`task`] | tasks, statuses, artifacts |
//! | [`push`] | push configurations |
//! | [`send`] | what a message is sent with |

pub(crate) mod message;
pub(crate) mod part;
pub(crate) mod push;
pub(crate) mod send;
pub(crate) mod task;

use crate::Dialect;
use sabir_proto::MessageId;
use sabir_proto::lenient::object;
use serde::Deserialize;

/// By which member a dialect tells parts apart.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Tag {
    Kind,
    Type,
}

/// How a dialect names its artifacts.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum ArtifactName {
    /// `artifactId`
    Id,
    /// `index`, and `id` beside it: the index is what the schema has, the id what its users came to write.
    IndexAndId,
    /// `index`
    Index,
}

/// Where a dialect's clients look for the answer.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum AnswerPlace {
    /// Wherever the agent put it.
    Anywhere,
    /// In `status.message`.
    Status,
    /// In `artifacts[0]`.
    Artifact,
}

/// How a dialect writes what they all share.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) struct Manner {
    pub(crate) dialect: Dialect,
    pub(crate) tag: Tag,
    pub(crate) artifact_name: ArtifactName,
    pub(crate) answer: AnswerPlace,
    /// The conversation is a `sessionId`.
    pub(crate) session: bool,
    /// `history` and `artifacts` are there even when empty.
    pub(crate) lists_always: bool,
}

impl Manner {
    /// The manner of a dialect. 1.0 has none of this; asking for it gives 0.3's, which is nearest.
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

    /// The word for an object's own kind, where objects have one.
    const fn kind(self, word: &'static str) -> Option<&'static str> {
        match self.tag {
            Tag::Kind => Some(word),
            Tag::Type => None,
        }
    }
}

/// A structure from an object and nothing else: derived readers would take a list of its members in order, too.
#[derive(Debug, Deserialize)]
#[serde(transparent, bound = "T: Deserialize<'de>")]
pub(crate) struct Only<T>(#[serde(deserialize_with = "object")] pub(crate) T);

/// Names for messages that came without one. An argument, because translation has no randomness of its own.
pub(crate) type Mint<'a> = &'a mut dyn FnMut() -> MessageId;
