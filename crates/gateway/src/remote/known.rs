//! What a turn knows of a task elsewhere: the checkpoint, which outlives the process.

use super::message_ids::MessageIds;
use super::shown::Shown;
use crate::uuid::uuid;
use sabir_client::Trail;
use sabir_engine::Context;
use sabir_proto::transfer::Claim;
use sabir_proto::{ContextId, TaskRef, Timestamp};
use serde::{Deserialize, Serialize};
use sha2::{Digest as _, Sha256};

/// The state of one turn, and what the turns before it have found out.
#[derive(Debug, Clone, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(default)]
pub(super) struct Known {
    /// The turn in which this was written.
    pub(super) turn: String,
    /// For whom it is.
    pub(super) caller: String,
    /// The id of the message that we send.
    pub(super) message: String,
    /// Our message may have left.
    pub(super) tried: bool,
    /// Our message has arrived: they have said something since.
    pub(super) sent: bool,
    /// Where their task is, or our message may be.
    pub(super) at: Option<String>,
    /// Another agent does the work, since it could not begin there.
    pub(super) fallen: bool,
    /// They choose their conversations themselves.
    pub(super) chooses_context: bool,
    /// Their task, while it is open.
    pub(super) task: Option<TaskRef>,
    /// What we call it there before they have said anything, where its name is ours to choose.
    pub(super) named: Option<TaskRef>,
    /// Their conversation.
    pub(super) context: Option<ContextId>,
    /// The number of the last event we have seen, where they number them.
    pub(super) last: Option<String>,
    /// What we know comes from a stream: where that breaks off, something may be missed.
    pub(super) streamed: bool,
    /// What our caller has seen.
    pub(super) shown: Shown,
    /// How often they failed to answer since they last did.
    pub(super) attempts: u32,
    /// Every attempt since this one found nothing listening; `None` once anything else happened.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub(super) absent: Option<Absence>,
    /// The status that our caller sees says that the agent cannot be reached.
    #[serde(skip_serializing_if = "std::ops::Not::not")]
    pub(super) outage_told: bool,
    /// When the turn began, and when they last had news; in milliseconds.
    pub(super) since: i64,
    pub(super) heard: i64,
    /// Who has the task now, where it was handed over; then all of the above is about the task there.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub(super) moved: Option<Moved>,
}

/// Attempts that found nothing listening, so that the message never left.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub(super) struct Absence {
    /// When the first of them began, in milliseconds.
    pub(super) since: i64,
    /// How many there were.
    pub(super) attempts: u32,
    /// What the last one met, in words for our caller.
    pub(super) reason: String,
}

/// Where a task is that they have handed over.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub(super) struct Moved {
    /// The agent that has it now.
    pub(super) endpoint: String,
    /// The agent of ours that stands for that one, if any does.
    pub(super) by: Option<String>,
    /// What the task was called where it came from.
    pub(super) from: TaskRef,
    /// The name of the handoff.
    pub(super) transfer: String,
    /// What shows there that it is ours, until it was seen.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub(super) claim: Option<Claim>,
    /// The task was seen there.
    pub(super) found: bool,
    /// The way it has come.
    pub(super) trail: Trail,
}

impl Known {
    /// Reads a checkpoint; `None` for one that cannot be read.
    pub(super) fn read(bytes: &[u8]) -> Option<Self> {
        let read = serde_json::from_slice(bytes);
        read.map_err(|error| tracing::error!(%error, "a checkpoint of a remote agent cannot be read")).ok()
    }

    pub(super) fn write(&self) -> Vec<u8> {
        serde_json::to_vec(self).unwrap_or_default()
    }

    /// What is known at the beginning of a turn, or in the middle of one that is taken up again.
    pub(super) fn of(cx: &Context, ids: &MessageIds) -> Self {
        let kept = cx.checkpoint().map(Self::read);
        // Nobody knows then whether anything was sent.
        let unreadable = kept == Some(None);
        let known = kept.flatten().unwrap_or_default();
        let (turn, now) = (cx.turn_id(), cx.now().millis());
        if known.turn == turn {
            return known;
        }
        Self {
            turn,
            message: ids.id_for(cx),
            caller: cx.caller().name().to_owned(),
            tried: unreadable,
            sent: false,
            named: None,
            last: None,
            streamed: false,
            attempts: 0,
            absent: None,
            outage_told: false,
            since: now,
            heard: now,
            ..known
        }
    }

    /// Their task, by whichever name it can be asked for; none where there cannot be any.
    pub(super) fn theirs(&self) -> Option<&TaskRef> {
        self.task.as_ref().or(self.named.as_ref().filter(|_| self.tried))
    }

    /// When they last had news.
    pub(super) fn heard(&self) -> Timestamp {
        Timestamp::from_millis(self.heard)
    }
}

/// A number for choosing among places: the same for all tasks of a conversation.
pub(super) fn chance(cx: &Context) -> u64 {
    let digest = Sha256::digest(context_id(cx).to_string());
    u64::from_be_bytes(std::array::from_fn(|i| digest[i]))
}

/// What we call the conversation when we speak to them. Not by its name here: two callers of ours may have chosen the
/// same one, and would find themselves in one conversation there.
pub(super) fn context_id(cx: &Context) -> ContextId {
    let (tenant, caller, context) = (cx.tenant().as_str(), cx.caller().name(), cx.context_id().to_string());
    ContextId::parse(&uuid(&["context", tenant, caller, &context])).expect("a UUID is a legal id")
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_checkpoint_is_read_as_it_was_written() {
        let task = Some(TaskRef::parse("theirs").unwrap());
        let known = Known { turn: "t/3".into(), tried: true, task, attempts: 2, since: 7, ..Known::default() };
        assert_eq!(Known::read(&known.write()), Some(known));
        assert_eq!(Known::read(b"nonsense"), None);
    }
}
