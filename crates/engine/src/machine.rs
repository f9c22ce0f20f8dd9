//! The state machine: which transitions a task may make, and what an event does to it. Pure, total, and the only place
//! that decides either.

use sabir_proto::{Event, FrozenEvent, FrozenTask, Task, TaskState};
use sabir_store::StoredTask;

/// A transition of a task.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Transition {
    /// The agent works, or reports progress.
    Work,
    /// The agent asks a question.
    AskInput,
    /// The agent asks for credentials.
    AskAuth,
    /// The agent has completed the task.
    Finish,
    /// The agent rejects the task.
    Decline,
    /// The agent could not do it, or the engine fails the task.
    Fail,
    /// The caller cancels the task.
    Cancel,
    /// The task was handed over to another server.
    HandOver,
}

impl Transition {
    /// The transition that leads to a state; `None` for the states to which none leads.
    pub const fn to(state: TaskState) -> Option<Self> {
        Some(match state {
            // The initial state, and one that only other servers have.
            TaskState::Submitted | TaskState::Unspecified => return None,
            TaskState::Working => Self::Work,
            TaskState::InputRequired => Self::AskInput,
            TaskState::AuthRequired => Self::AskAuth,
            TaskState::Completed => Self::Finish,
            TaskState::Rejected => Self::Decline,
            TaskState::Failed => Self::Fail,
            TaskState::Canceled => Self::Cancel,
            TaskState::Transferred => Self::HandOver,
        })
    }
}

/// Why a transition is not legal.
#[derive(Debug, Clone, Copy, PartialEq, Eq, thiserror::Error)]
pub enum TransitionRefused {
    /// Nothing follows a settled state.
    #[error("the task is {0}")]
    Settled(TaskState),
    /// Only a working agent can hand its task over.
    #[error("a task that is {0} cannot do this")]
    OutOfOrder(TaskState),
}

/// The state to which a transition leads. The runner, recovery, the simulator and the console all ask here, so a rule
/// is changed in one line and tested in one loop.
pub const fn next(from: TaskState, step: Transition) -> Result<TaskState, TransitionRefused> {
    use TaskState::{
        AuthRequired, Canceled, Completed, Failed, InputRequired, Rejected, Submitted, Transferred, Unspecified,
        Working,
    };
    use Transition::{AskAuth, AskInput, Cancel, Decline, Fail, Finish, HandOver, Work};
    Ok(match (from, step) {
        // Also `Working` to `Working`: progress is news even when the state stands still.
        (Submitted | Working | InputRequired | AuthRequired, Work) => Working,
        // An upstream may ask again before it was answered, or finish while it waits; quick agents report no progress.
        (Submitted | Working | InputRequired | AuthRequired, AskInput) => InputRequired,
        (Submitted | Working | InputRequired | AuthRequired, AskAuth) => AuthRequired,
        (Submitted | Working | InputRequired | AuthRequired, Finish) => Completed,
        // The specification lets an agent decline late, once it has understood what is asked.
        (Submitted | Working | InputRequired | AuthRequired, Decline) => Rejected,
        (Submitted | Working | InputRequired | AuthRequired, Fail) => Failed,
        (Submitted | Working | InputRequired | AuthRequired, Cancel) => Canceled,
        (Working, HandOver) => Transferred,
        (Submitted | InputRequired | AuthRequired, HandOver) => return Err(TransitionRefused::OutOfOrder(from)),
        // No task of this server has this state.
        (Unspecified, _) => return Err(TransitionRefused::OutOfOrder(from)),
        // Settled means settled. A late event is refused and counted, never merged: a client that has been told
        // `completed` must not see it taken back.
        (Completed | Failed | Canceled | Rejected | Transferred, _) => return Err(TransitionRefused::Settled(from)),
    })
}

/// The current state of a stored task. `None` only for a damaged record.
pub fn fold(stored: &StoredTask) -> Option<FrozenTask> {
    match (&stored.base, &stored.tail[..]) {
        (Some(base), []) => Some(base.task.clone()),
        (Some(base), tail) => {
            continue_frozen(&base.task, tail).or_else(|| thaw(stored).map(|task| FrozenTask::freeze(&task)))
        }
        (None, _) => thaw(stored).map(|task| FrozenTask::freeze(&task)),
    }
}

/// Folds events that leave the artifacts alone, without parsing the rest of the task: a large task that waits for its
/// caller is nearly all snapshot, with a few messages after it. `None` for all other events.
fn continue_frozen(base: &FrozenTask, tail: &[FrozenEvent]) -> Option<FrozenTask> {
    let mut head = base.thaw_head()?;
    for event in tail {
        let status @ Event::StatusUpdate(_) = event.thaw()? else { return None };
        head.apply(status, event.thaw_input());
    }
    Some(base.with_update(&head))
}

/// Like [`fold`], as a structure.
pub fn thaw(stored: &StoredTask) -> Option<Task> {
    let mut tail = stored.tail.iter();
    let mut task = match &stored.base {
        Some(base) => base.task.thaw()?,
        None => match tail.next()?.thaw()? {
            Event::Task(task) => task,
            Event::Message(_) | Event::StatusUpdate(_) | Event::ArtifactUpdate(_) => return None,
        },
    };
    for event in tail {
        apply_frozen(&mut task, event)?;
    }
    Some(task)
}

fn apply_frozen(task: &mut Task, event: &FrozenEvent) -> Option<()> {
    task.apply(event.thaw()?, event.thaw_input());
    Some(())
}

#[cfg(test)]
mod tests {
    use super::*;

    const TRANSITIONS: [Transition; 8] = [
        Transition::Work,
        Transition::AskInput,
        Transition::AskAuth,
        Transition::Finish,
        Transition::Decline,
        Transition::Fail,
        Transition::Cancel,
        Transition::HandOver,
    ];

    #[test]
    fn settled_states_refuse_every_move_and_the_others_lead_where_the_move_says() {
        for from in TaskState::ALL {
            for step in TRANSITIONS {
                match next(from, step) {
                    Err(TransitionRefused::Settled(state)) => assert!(state == from && from.is_settled()),
                    Err(TransitionRefused::OutOfOrder(_)) => {
                        assert!(step == Transition::HandOver && from != TaskState::Working)
                    }
                    Ok(to) => assert!(!from.is_settled() && Transition::to(to) == Some(step)),
                }
            }
        }
    }
}
