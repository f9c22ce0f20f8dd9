//! Calling off a task elsewhere.
//!
//! | They answer | Then |
//! |---|---|
//! | with a task that has settled, whatever its state | it ends here as it did there |
//! | with a task that has not | it is asked for until it has, while the grace lasts |
//! | that it cannot be cancelled | the same: it has settled, or is about to |
//! | that they do not know it, or cannot cancel | canceled here, with a mark; nobody is told again |
//! | nothing, or that it is not the time | the same question again; in the end canceled here, with a mark, and they are told again |

use super::RemoteAgent;
use super::known::Known;
use super::shown::{News, Shown};
use sabir_client::Error;
use sabir_engine::{CalledOff, Canceled, Ending};
use sabir_proto::{CancelTask, Code, TaskRef, TaskState, Tenant, TheirTask};
use std::time::Duration;
use tokio::time::Instant;

/// The pause between two questions while somebody waits for the cancel.
const PAUSE: Duration = Duration::from_millis(200);
/// Why nobody could be told.
const UNNAMED: &str = "the agent had not named its task when it was canceled; it may go on";

/// What a cancel came to.
pub(super) enum Heard {
    /// They know of it. Perhaps they have said how the task stands.
    Known(Option<Box<TheirTask>>),
    /// They will not do it, now or later.
    Refused(&'static str),
    /// It is not known whether they have heard.
    Nothing(String),
}

impl RemoteAgent {
    pub(super) async fn call_off_there(&self, canceled: &Canceled) -> CalledOff {
        let known = canceled.checkpoint.as_deref().and_then(Known::read).unwrap_or_default();
        if known.fallen {
            // What the other agent does is called off as a child's work is.
            return CalledOff::default();
        }
        let Some(task) = known.theirs().cloned() else {
            let gap = known.tried.then(|| UNNAMED.into());
            return CalledOff { gap, ..CalledOff::default() };
        };
        let (grace, mut heard) = (self.upstream.cancel_grace, false);
        let asked = self.until_it_settles(&known, &task, &mut heard);
        match tokio::time::timeout_at(Instant::now() + grace, asked).await {
            Ok(Ok(task)) => ended(&known.shown, task),
            // What goes only by the name that we gave it may not be there yet.
            Ok(Err(_)) if known.task.is_none() => CalledOff { gap: Some(UNNAMED.into()), ..CalledOff::default() },
            Ok(Err(why)) => CalledOff { gap: Some(why.into()), ..CalledOff::default() },
            Err(_) if heard => {
                let why = format!("the agent took the cancel and had not ended after {grace:?}");
                CalledOff { gap: Some(why), ..CalledOff::default() }
            }
            Err(_) => CalledOff::unheard(format!("the agent did not answer the cancel within {grace:?}")),
        }
    }

    /// Tells them once more; true when there is nothing more to tell.
    pub(super) async fn remind_them(&self, canceled: &Canceled) -> bool {
        let known = canceled.checkpoint.as_deref().and_then(Known::read).unwrap_or_default();
        let Some(task) = known.theirs().cloned() else { return true };
        match self.cancel_there(&known, &task).await {
            Heard::Known(_) => true,
            Heard::Refused(why) => {
                tracing::warn!(task = %canceled.task, why, "a task elsewhere cannot be canceled; it may go on");
                true
            }
            Heard::Nothing(problem) => {
                tracing::info!(task = %canceled.task, problem, "a cancel is not acknowledged yet");
                false
            }
        }
    }

    /// One cancel.
    pub(super) async fn cancel_there(&self, known: &Known, task: &TaskRef) -> Heard {
        let request = CancelTask { tenant: Tenant::none(), id: task.clone(), metadata: None };
        let answer = match self.line(known).await {
            Ok(line) => line.cancel(request).await,
            Err(error) => Err(error),
        };
        match answer {
            Ok(task) => Heard::Known(Some(Box::new(task))),
            Err(Error::Fault { fault, transport: Some(_), .. }) => match fault.code() {
                Code::TaskNotCancelable => Heard::Known(None),
                Code::TaskNotFound => Heard::Refused("the agent does not know the task any more"),
                Code::UnsupportedOperation | Code::MethodNotFound => {
                    Heard::Refused("the agent cannot cancel; it may go on")
                }
                _ => Heard::Nothing(fault.to_string()),
            },
            Err(error) => Heard::Nothing(error.to_string()),
        }
    }

    /// Cancels, and asks until the task has settled. Ends by being dropped, or with why nothing can be done.
    async fn until_it_settles(
        &self,
        known: &Known,
        task: &TaskRef,
        heard: &mut bool,
    ) -> Result<TheirTask, &'static str> {
        let mut pause = PAUSE;
        while !*heard {
            match self.cancel_there(known, task).await {
                Heard::Known(Some(task)) if task.status.state.is_settled() => return Ok(*task),
                Heard::Known(_) => *heard = true,
                Heard::Refused(why) => return Err(why),
                Heard::Nothing(_) => tokio::time::sleep(pause).await,
            }
            pause *= 2;
        }
        loop {
            let asked = match self.line(known).await {
                Ok(line) => line.task(task).await,
                Err(error) => Err(error),
            };
            match asked {
                Ok(task) if task.status.state.is_settled() => return Ok(task),
                _ => tokio::time::sleep(PAUSE).await,
            }
        }
    }
}

/// The end of their task, as the end of ours.
fn ended(shown: &Shown, task: TheirTask) -> CalledOff {
    let artifacts = task.artifacts.iter().filter_map(|artifact| match shown.news(artifact) {
        News::None => None,
        News::More(more) => Some((more, true)),
        News::Whole(whole) => Some((whole, false)),
    });
    let artifacts = artifacts.collect();
    let parts = task.status.message.map(|message| message.parts).unwrap_or_default();
    let ending = match task.status.state {
        TaskState::Completed | TaskState::Transferred => Ending::Complete(parts),
        TaskState::Failed => Ending::Fail(parts),
        TaskState::Rejected => Ending::Reject(parts),
        // The others are not the end of anything.
        TaskState::Canceled
        | TaskState::Unspecified
        | TaskState::Submitted
        | TaskState::Working
        | TaskState::InputRequired
        | TaskState::AuthRequired => Ending::Cancel(parts),
    };
    CalledOff { ending, artifacts, ..CalledOff::default() }
}
