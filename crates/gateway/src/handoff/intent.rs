//! The checkpoint of a handoff: what a crash must not lose.

use base64::Engine as _;
use base64::engine::general_purpose::STANDARD;
use sabir_proto::transfer::HandoffClaim;
use sabir_proto::{Message, Object, TaskRef};
use serde::{Deserialize, Serialize};

/// The prefix of our checkpoints; those of inner agents do not have it.
const MARK: &[u8] = b"handoff/1\n";

/// A checkpoint of a handoff, with the last one of the inner agent.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(super) struct HandoffCheckpoint {
    pub(super) stage: HandoffStage,
    pub(super) inner: Option<Vec<u8>>,
}

/// How far the handoff got.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub(super) enum HandoffStage {
    /// The other side may have the task by now.
    Preparing(Box<HandoffIntent>),
    /// The other agent's work is shown in our task. It gets this text, or else our caller's message, with these
    /// metadata.
    Relaying { to: String, text: Option<String>, past: Object },
    /// The handoff was given up, and the inner agent goes on.
    Over,
}

/// A handoff that was decided on.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub(super) struct HandoffIntent {
    /// The turn that decided on it.
    pub(super) turn: String,
    /// The id of the handoff on both sides.
    pub(super) transfer_id: String,
    pub(super) to: String,
    pub(super) required: Vec<String>,
    pub(super) reason: Option<String>,
    /// The claim that our caller presents there to get the task.
    pub(super) claim: Option<HandoffClaim>,
    /// The message that is sent, the same each time.
    pub(super) message: Message,
    /// The other side holds the task until it is activated.
    pub(super) hold: bool,
    /// The message may be sent again, whatever became of it: the other side holds tasks, or recognises repeats.
    pub(super) repeatable: bool,
    /// The task there, once its id is known.
    pub(super) task: Option<TaskRef>,
    /// When it was decided, in milliseconds.
    pub(super) since: i64,
}

#[derive(Serialize, Deserialize)]
struct StoredCheckpoint {
    stage: HandoffStage,
    inner: Option<String>,
}

impl HandoffCheckpoint {
    pub(super) fn decode(bytes: &[u8]) -> Option<Self> {
        let written: StoredCheckpoint = serde_json::from_slice(bytes.strip_prefix(MARK)?).ok()?;
        let inner = written.inner.and_then(|text| STANDARD.decode(text).ok());
        Some(Self { stage: written.stage, inner })
    }

    pub(super) fn encode(self) -> Vec<u8> {
        let written = StoredCheckpoint { stage: self.stage, inner: self.inner.map(|bytes| STANDARD.encode(bytes)) };
        let mut bytes = MARK.to_vec();
        bytes.extend(serde_json::to_vec(&written).unwrap_or_default());
        bytes
    }
}

/// The parts for the agent that gets the task: our agent's text, or the caller's last message.
pub(super) fn message_parts(text: Option<&str>, said: &Message) -> Vec<sabir_proto::Part> {
    match text {
        Some(text) => vec![sabir_proto::Part::text(text)],
        None => said.parts.clone(),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_checkpoint_is_read_as_it_was_written_and_no_other_is_taken_for_one() {
        let left = HandoffCheckpoint {
            stage: HandoffStage::Relaying {
                to: "b".into(),
                text: None,
                past: Object::from_map(&serde_json::Map::new()).unwrap(),
            },
            inner: Some(vec![0, 255]),
        };
        assert_eq!(HandoffCheckpoint::decode(&left.clone().encode()), Some(left));
        assert_eq!(HandoffCheckpoint::decode(br#"{"stage":"over"}"#), None);
        assert_eq!(HandoffCheckpoint::decode(b"handoff/1\nnonsense"), None);
    }
}
