//! Steps: everything that is committed together, or not at all.

use crate::{ChildOf, LedgerEffect};
use bytes::Bytes;
use sabir_proto::{
    AgentName, Caller, ContextId, FrozenEvent, FrozenTask, PushConfig, Seq, Stamp, TaskId, TaskState, Tenant, Timestamp,
};
use std::sync::Arc;

/// The owner of a task: the caller, within a tenant, at an agent. Lists and counts are kept per scope.
#[derive(Debug, Clone, PartialEq, Eq, Hash)]
pub struct Scope {
    pub tenant: Tenant,
    pub caller: Caller,
    pub agent: AgentName,
}

impl Scope {
    /// The number by which fair shares are kept: the caller within its tenant, at any agent. A hash without other
    /// meaning.
    pub fn owner(&self) -> i64 {
        let hash = crate::Hash::of(&[self.tenant.as_str().as_bytes(), &[0], self.caller.name().as_bytes()]);
        i64::from_be_bytes(hash.as_bytes()[..8].try_into().unwrap_or_default())
    }
}

/// Sixteen bytes of a SHA-256: enough to exclude collisions, short enough for every row.
pub type Digest = [u8; 16];

/// Identifies a repeated send: the hashed key, and the digest of the message sent with it.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
pub struct RetryMark {
    /// Hash of owner, task and key.
    pub key: Digest,
    /// Hash of the canonical message.
    pub digest: Digest,
}

/// The position of a task in its owner's list.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Placement {
    /// The state after the step.
    pub state: TaskState,
    /// The stamp of the last status; its time is the status timestamp, its order the order of lists.
    pub position: Stamp,
}

/// Data that only the first step of a task has.
#[derive(Debug, Clone)]
pub struct Opening {
    /// The owner of the task.
    pub scope: Arc<Scope>,
    pub context: ContextId,
    /// The parent link, for the few tasks that have a parent.
    pub child_of: Option<Box<ChildOf>>,
}

/// One or more events of one task, with everything that must be committed with them.
#[derive(Debug, Clone)]
pub struct Step {
    pub task: TaskId,
    /// `Some` for the first step of a task.
    pub opening: Option<Opening>,
    /// The head that the caller decided on; zero for an opening. A step without events depends on no head, and the
    /// store does not compare it.
    pub after: Seq,
    /// The events, numbered from `after + 1`. An opening that also settles may leave them out: its snapshot then *is*
    /// event 1, and the whole task is one row.
    pub events: Vec<FrozenEvent>,
    /// The folded task after the last event, when it is due. A step that settles the task always brings it.
    pub snapshot: Option<FrozenTask>,
    /// The new place in the list; `None` when no status was reported.
    pub placement: Option<Placement>,
    /// A new turn or attempt begins with this step.
    pub turn: Option<(Seq, u32)>,
    /// The agent's opaque checkpoint, replacing the last one.
    pub checkpoint: Option<Bytes>,
    /// The implicit retry key of the message that made this step.
    pub retry: Option<RetryMark>,
    /// Delivers the events to the task's push configurations, from this time on.
    pub notify: Option<Timestamp>,
    /// Other changes that are committed with it.
    pub effects: Vec<Effect>,
}

impl Step {
    /// A step that has only effects.
    pub const fn effects_only(task: TaskId, effects: Vec<Effect>) -> Self {
        Self {
            task,
            opening: None,
            after: Seq(0),
            events: Vec::new(),
            snapshot: None,
            placement: None,
            turn: None,
            checkpoint: None,
            retry: None,
            notify: None,
            effects,
        }
    }

    /// The number of the last event of this step.
    pub fn head(&self) -> Seq {
        match self.events.last() {
            Some(event) => event.seq,
            None if self.opening.is_some() => Seq(1),
            None => self.after,
        }
    }

    /// Roughly how many bytes the step writes.
    pub fn approx_bytes(&self) -> usize {
        let events: usize = self.events.iter().map(|e| e.json.len()).sum();
        let data =
            self.effects.iter().map(|effect| if let Effect::StoreAgentData(data) = effect { data.len() } else { 0 });
        let snapshot = self.snapshot.as_ref().map_or(0, |s| s.json.len());
        events + snapshot + self.checkpoint.as_ref().map_or(0, Bytes::len) + data.sum::<usize>()
    }
}

/// A change that is committed with a step, each with its own precondition.
#[derive(Debug, Clone)]
pub enum Effect {
    /// An explicit retry key. Refused with [`crate::AppendError::KeyTaken`] while an unexpired row has it.
    Key {
        mark: RetryMark,
        /// The time of writing; rows older than a day are deleted.
        at: Stamp,
        /// The time until which the key is valid.
        until: Stamp,
    },
    /// Registers a push configuration, or replaces the one with the same id. It receives the events of its own step and
    /// of later ones. One that is new to a settled task, which has no later events, receives the last turn.
    PutPush {
        /// The configuration, with its id filled in.
        config: PushConfig,
        /// The dialect it is registered in.
        dialect: Arc<str>,
        /// The normalised host of the URL; fair shares and pauses are kept per host.
        host: Arc<str>,
        /// The time of the registration.
        at: Timestamp,
        /// The maximum of configurations for one task.
        configs_max: u32,
    },
    /// Removes a configuration with its deliveries; removing one that does not exist is no error.
    DeletePush { id: String },
    /// Gives the task an alias that its caller chose, or moves the alias to it from another task. Refused with
    /// [`crate::AppendError::NameMoved`] unless the owner's alias still leads to the task that was seen.
    SetAlias {
        name: Arc<str>,
        /// The task it was seen to lead to; `None` for none.
        was: Option<TaskId>,
    },
    /// Gives the task to the owner that presented the claim. Where that is another owner, the aliases and push
    /// configurations of the first one are deleted. Refused with [`crate::AppendError::Stale`] if the task was claimed
    /// before.
    Claim(Arc<Scope>),
    /// Stores which remote agent the task's turn waits for, replacing the entry before; `None` when it waits for none.
    /// A task that settles waits for none, whatever its step contains.
    WaitFor(Option<Box<Continuation>>),
    /// Stores data of the agent with the task, replacing the data before. Unlike the checkpoint it outlives the end of
    /// the task: later tasks of the conversation read it, see [`crate::TaskLog::agent_data`].
    StoreAgentData(Bytes),
    /// Stores that a remote agent is yet to be told of the task's cancel; `None`, that it has been told.
    SetPendingCancel(Option<Box<PendingCancel>>),
    /// Adds to the spend of the tree with this root.
    Spend {
        /// The root of the tree.
        root: TaskId,
        /// The amount, in millionths.
        micros: u64,
    },
    /// Changes the ledger. Refused with [`crate::AppendError::Ledger`].
    Ledger(Box<LedgerEffect>),
}

impl From<LedgerEffect> for Effect {
    fn from(effect: LedgerEffect) -> Self {
        Self::Ledger(Box::new(effect))
    }
}

/// A remote agent that a turn waits for. A copy for readers of the file: the turn's checkpoint is authoritative.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Continuation {
    /// The URL of the agent.
    pub url: String,
    /// The id of our message there.
    pub message: String,
    /// The id of its task, once that is known.
    pub task: Option<String>,
    /// The id of its conversation, once that is known.
    pub context: Option<String>,
    /// The number of calls since it last answered.
    pub attempts: u32,
    /// Why the last call failed, if it did.
    pub problem: Option<String>,
    /// The time since which the turn waits.
    pub since: Timestamp,
    /// The time of its last answer.
    pub last_heard_at: Timestamp,
    /// When it is called next; `None` while a call is under way.
    pub next: Option<Timestamp>,
}

/// A cancel that a remote agent has not acknowledged. It is stored as long as its task, or until the agent acknowledges
/// it.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct PendingCancel {
    /// Data of our agent: which remote agent to tell, and of which task.
    pub data: Bytes,
    /// The number of calls without an answer.
    pub attempts: u32,
    /// The time of the next call.
    pub due: Timestamp,
}

/// The prefix of continuation ids.
const WAIT: &str = "a2a-cont-";

impl Continuation {
    /// The id of a task's continuation. It contains the task, so that a reader of the file can find the task.
    pub fn id(task: TaskId) -> String {
        format!("{WAIT}{}-{task}", task.stamp().time().millis())
    }

    /// The task of a continuation id.
    pub fn task_of(id: &str) -> Option<TaskId> {
        let (_, task) = id.strip_prefix(WAIT)?.split_once('-')?;
        TaskId::parse(task).filter(|task| Self::id(*task) == id)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_name_of_a_wait_leads_to_its_task() {
        let task = TaskId::parse("01890a5d-ac96-774b-bcce-b302099a8057").unwrap();
        let id = Continuation::id(task);
        assert_eq!(Continuation::task_of(&id), Some(task));
        for wrong in ["", "a2a-cont-", "a2a-cont-1-x", &id[1..], &format!("{id} "), &id.replace("cont-1", "cont-2")] {
            assert_eq!(Continuation::task_of(wrong), None, "{wrong}");
        }
    }
}
