//! The checkpoint of a turn: what it knows of a task elsewhere. It outlives the process.

use super::delivered_content::DeliveredContent;
use super::message_ids::MessageIds;
use crate::derived_uuid::derived_uuid;
use sabir_client::HandoffTrail;
use sabir_engine::Context;
use sabir_proto::transfer::HandoffClaim;
use sabir_proto::{ContextId, TaskRef, Timestamp};
use serde::{Deserialize, Serialize};
use sha2::{Digest as _, Sha256};

/// The state of one turn, and what the turns before it have found out.
#[derive(Debug, Clone, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(default)]
pub(super) struct Checkpoint {
    /// The turn in which this was written.
    pub(super) turn: String,
    /// The caller of the turn.
    pub(super) caller: String,
    /// The id of the message that we send.
    pub(super) message: String,
    /// Our message may have left.
    pub(super) tried: bool,
    /// Our message has arrived: the agent has answered since.
    pub(super) sent: bool,
    /// The replica where their task is, or our message may be.
    pub(super) at: Option<String>,
    /// The fallback agent does the work, because it could not begin there.
    pub(super) fallen: bool,
    /// The agent chooses its context ids itself.
    pub(super) chooses_context: bool,
    /// The remote task, while it is open.
    pub(super) task: Option<TaskRef>,
    /// The name that we gave to the remote task before the agent answered, where it is ours to choose.
    pub(super) named: Option<TaskRef>,
    /// The context id of the remote task.
    pub(super) context: Option<ContextId>,
    /// The conversation there in which our message is to be found by its id, until they have answered; `None` where their tasks
    /// cannot be listed.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub(super) sought_in: Option<ContextId>,
    /// The id of the last event that we received, if the agent numbers them.
    pub(super) last: Option<String>,
    /// What we know comes from a stream: if that breaks off, something may be missed.
    pub(super) streamed: bool,
    /// What our caller has received.
    pub(super) shown: DeliveredContent,
    /// The number of calls in a row without an answer.
    pub(super) attempts: u32,
    /// Every attempt since this one found nothing listening; `None` once anything else happened.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub(super) absent: Option<Absence>,
    /// The status that our caller sees says that the agent cannot be reached.
    #[serde(skip_serializing_if = "std::ops::Not::not")]
    pub(super) outage_told: bool,
    /// When the turn began, and when the last news came; in milliseconds.
    pub(super) since: i64,
    pub(super) heard: i64,
    /// Where the task was handed over to; then all of the above is about the task there.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub(super) moved: Option<FollowedTransfer>,
}

/// Attempts that found nothing listening, so that the message never left.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub(super) struct Absence {
    /// When the first of them began, in milliseconds.
    pub(super) since: i64,
    /// The number of attempts.
    pub(super) attempts: u32,
    /// The result of the last one, in words for our caller.
    pub(super) reason: String,
}

/// Where a task is that the agent has handed over.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub(super) struct FollowedTransfer {
    /// The endpoint of the agent that has it now.
    pub(super) endpoint: String,
    /// The name of the agent of ours that stands for it, if any does.
    pub(super) by: Option<String>,
    /// The id of the task where it came from.
    pub(super) from: TaskRef,
    /// The id of the handoff.
    pub(super) transfer: String,
    /// The claim that shows there that it is ours, until the task was read there.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub(super) claim: Option<HandoffClaim>,
    /// The task was read there.
    pub(super) found: bool,
    /// The agents that the task has passed through.
    pub(super) trail: HandoffTrail,
}

impl Checkpoint {
    /// Decodes a checkpoint; `None` for one that cannot be read.
    pub(super) fn decode(bytes: &[u8]) -> Option<Self> {
        let read = serde_json::from_slice(bytes);
        read.map_err(|error| tracing::error!(%error, "a checkpoint of a remote agent cannot be read")).ok()
    }

    pub(super) fn encode(&self) -> Vec<u8> {
        serde_json::to_vec(self).unwrap_or_default()
    }

    /// The checkpoint at the beginning of a turn, or in the middle of one that is resumed.
    pub(super) fn for_turn(cx: &Context, ids: &MessageIds) -> Self {
        let kept = cx.checkpoint().map(Self::decode);
        // Then it is not known whether anything was sent.
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
            sought_in: None,
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

    /// The remote task, by either name that it can be asked for; `None` where there cannot be one.
    pub(super) fn remote_task(&self) -> Option<&TaskRef> {
        self.task.as_ref().or(self.named.as_ref().filter(|_| self.tried))
    }

    /// When the last news came.
    pub(super) fn last_news(&self) -> Timestamp {
        Timestamp::from_millis(self.heard)
    }
}

/// A number for choosing among replicas: the same for all tasks of a conversation. `context` is our id for the remote
/// agent.
pub(super) fn conversation_hash(context: &ContextId) -> u64 {
    let digest = Sha256::digest(context.to_string());
    u64::from_be_bytes(std::array::from_fn(|i| digest[i]))
}

/// Our context id for the remote agent. It is not the caller's own: two callers may have chosen the same one, and would
/// share a conversation there.
pub(super) fn remote_context_id(cx: &Context) -> ContextId {
    let (tenant, caller, context) = (cx.tenant().as_str(), cx.caller().name(), cx.context_id().to_string());
    ContextId::parse(&derived_uuid(&["context", tenant, caller, &context])).expect("a UUID is a legal id")
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_checkpoint_is_read_as_it_was_written() {
        let task = Some(TaskRef::parse("theirs").unwrap());
        let known =
            Checkpoint { turn: "t/3".into(), tried: true, task, attempts: 2, since: 7, ..Checkpoint::default() };
        assert_eq!(Checkpoint::decode(&known.encode()), Some(known));
        assert_eq!(Checkpoint::decode(b"nonsense"), None);
    }
}
