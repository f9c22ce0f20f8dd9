//! A step: what becomes visible together, or not at all.

use crate::{Birth, BookingStatus, Interaction, NewBooking, NewUsage, PaymentStep};
use bytes::Bytes;
use sabir_proto::{
    AgentName, Caller, ContextId, FrozenEvent, FrozenTask, PushConfig, Seq, Stamp, TaskId, TaskState, Tenant, Timestamp,
};
use std::sync::Arc;

/// Who owns a task: the caller, within a tenant, at an agent. Lists and counts are kept per scope.
#[derive(Debug, Clone, PartialEq, Eq, Hash)]
pub struct Scope {
    /// The tenant.
    pub tenant: Tenant,
    /// The caller.
    pub caller: Caller,
    /// The agent.
    pub agent: AgentName,
}

impl Scope {
    /// Who shares in what is shared out fairly: the caller within its tenant, at whatever agent. A number of no meaning.
    pub fn owner(&self) -> i64 {
        let hash = crate::Hash::of(&[self.tenant.as_str().as_bytes(), &[0], self.caller.name().as_bytes()]);
        i64::from_be_bytes(hash.as_bytes()[..8].try_into().unwrap_or_default())
    }
}

/// Sixteen bytes of a SHA-256: enough that nobody meets a collision, short enough for every row.
pub type Digest = [u8; 16];

/// What makes a repeated send recognisable: the hashed key, and the digest of the message sent under it.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
pub struct RetryMark {
    /// Hash of owner, task and key.
    pub key: Digest,
    /// Hash of the canonical message.
    pub digest: Digest,
}

/// Where a task stands in its owner's list.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Placement {
    /// The state after the step.
    pub state: TaskState,
    /// The stamp of the last status; its time is the status timestamp, its order the order of lists.
    pub position: Stamp,
}

/// What only the first step of a task says.
#[derive(Debug, Clone)]
pub struct Opening {
    /// The owner.
    pub scope: Arc<Scope>,
    /// The conversation.
    pub context: ContextId,
    /// Whose child it is; nearly none is.
    pub birth: Option<Box<Birth>>,
}

/// One or more events of one task, with everything that must be committed with them.
#[derive(Debug, Clone)]
pub struct Step {
    /// The task.
    pub task: TaskId,
    /// `Some` for the first step of a task.
    pub opening: Option<Opening>,
    /// The head this step was decided on; zero for an opening. A step without events was decided on no head at all and
    /// is not held to one.
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
    /// The task's push configurations are owed these events, from this moment on.
    pub notify: Option<Timestamp>,
    /// What else is committed with it.
    pub effects: Vec<Effect>,
}

impl Step {
    /// A step of nothing but effects.
    pub const fn bare(task: TaskId, effects: Vec<Effect>) -> Self {
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

    /// Roughly how many bytes it will write.
    pub fn weight(&self) -> usize {
        let events: usize = self.events.iter().map(|e| e.json.len()).sum();
        let data = self.effects.iter().map(|effect| if let Effect::KeepData(data) = effect { data.len() } else { 0 });
        let snapshot = self.snapshot.as_ref().map_or(0, |s| s.json.len());
        events + snapshot + self.checkpoint.as_ref().map_or(0, Bytes::len) + data.sum::<usize>()
    }
}

/// What can be committed along with events, each with its own precondition.
#[derive(Debug, Clone)]
pub enum Effect {
    /// An explicit retry key. Refused with [`crate::AppendError::KeyTaken`] while an unexpired row has it.
    Key {
        /// Key and digest.
        mark: RetryMark,
        /// Written at; rows older than a day are forgotten.
        at: Stamp,
        /// Kept until.
        until: Stamp,
    },
    /// Registers a push configuration, or replaces the one with the same id. It is owed the events of its own step and of
    /// those that follow. One that is new to a settled task, where nothing will follow, is owed the last turn.
    PutPush {
        /// With its id filled in.
        config: PushConfig,
        /// The dialect it is registered in.
        dialect: Arc<str>,
        /// Whom it calls, spelled in one way: its share and its pauses are kept by this.
        host: Arc<str>,
        /// When.
        at: Timestamp,
        /// How many one task may have.
        configs_max: u32,
    },
    /// Removes one with everything that is owed to it; removing what is not there is no error.
    DeletePush {
        /// Its id.
        id: String,
    },
    /// Gives the task a name of its caller's choosing, or moves the name to it: the name is then no other task's. Refused
    /// with [`crate::AppendError::NameMoved`] unless the owner's task of that name is still the one that was seen.
    Alias {
        /// The name.
        name: Arc<str>,
        /// The task it was seen to name; `None` for nobody.
        was: Option<TaskId>,
    },
    /// Gives the task to whoever it was made for. Where that is another owner, what the first one called it, and where it
    /// wanted to be told of it, is gone. Refused with [`crate::AppendError::Stale`] if it was given to somebody before.
    Adopt(Arc<Scope>),
    /// Says whom the task's turn waits for, in place of what was said before; `None` when it waits for nobody. A task
    /// that settles waits for nobody, whatever its step says.
    WaitFor(Option<Box<Continuation>>),
    /// Keeps data of the agent with the task, in place of what it kept before. Unlike the checkpoint it outlives the end of
    /// the task: later tasks of the conversation read it, see [`crate::TaskLog::agent_data`].
    KeepData(Bytes),
    /// Says that an agent elsewhere is yet to be told of the task's cancel; `None`, that it has been.
    OweCancel(Option<Box<OwedCancel>>),
    /// Adds to what the family of this root has spent.
    Spend {
        /// The top of the family.
        root: TaskId,
        /// How much, in millionths.
        micros: u64,
    },
    /// Makes a booking that is called what the task is called, with its slot, its count and the record of its envelope.
    /// Refused with [`crate::AppendError::Ledger`] where the venue is not active or the slot is full.
    Book(Box<NewBooking>),
    /// Moves a booking, and counts it if it was not counted. Refused with [`crate::AppendError::Ledger`] unless it stands
    /// where it was seen. One that is cancelled gives its slot back.
    MoveBooking {
        /// The booking.
        booking: TaskId,
        /// Where it was seen.
        from: BookingStatus,
        /// Where it goes.
        to: BookingStatus,
        /// When.
        at: Timestamp,
        /// What is counted for it from now on.
        usage: Option<NewUsage>,
    },
    /// The record of an envelope.
    Interaction(Box<Interaction>),
    /// Opens or moves the payment that is called what the task is called. Refused with [`crate::AppendError::Ledger`].
    Pay(Box<PaymentStep>),
}

/// An agent elsewhere that a turn waits for. A copy for readers from outside: the turn's checkpoint is what counts.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Continuation {
    /// Where the agent is.
    pub url: String,
    /// The name of our message there.
    pub message: String,
    /// Its task, once that is known.
    pub task: Option<String>,
    /// Its conversation, once that is known.
    pub context: Option<String>,
    /// How often it was called since it last answered.
    pub attempts: u32,
    /// Why it could not be reached the last time, if it could not.
    pub problem: Option<String>,
    /// Since when the turn waits.
    pub since: Timestamp,
    /// When it last had news for us.
    pub heard: Timestamp,
    /// When it is called next; `None` while a call is under way.
    pub next: Option<Timestamp>,
}

/// A cancel that an agent elsewhere has not acknowledged. It is kept as long as its task, or until they have.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct OwedCancel {
    /// What our agent left for itself: it knows from this whom to tell of what.
    pub data: Bytes,
    /// How often they were told without an answer.
    pub attempts: u32,
    /// When they are told next.
    pub due: Timestamp,
}

/// How the ids of waits begin.
const WAIT: &str = "a2a-cont-";

impl Continuation {
    /// What the wait of a task is called. The task is in the name, so that whoever is told of the wait finds it.
    pub fn id(task: TaskId) -> String {
        format!("{WAIT}{}-{task}", task.stamp().time().millis())
    }

    /// The task whose wait is called this.
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
