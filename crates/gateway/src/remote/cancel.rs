//! Cancels a task on another server.
//!
//! | The agent answers | Then |
//! |---|---|
//! | with a task that has settled, in any state | our task ends as it did there |
//! | with a task that has not | it is polled until it has, while the grace lasts |
//! | that it cannot be canceled | the same: it has settled, or is about to |
//! | that it does not know the task, or cannot cancel | canceled here, with a mark; the cancel is not repeated |
//! | that it does not know the task yet, which has only our name for it | the same request again, as after no answer |
//! | nothing, or that it is not the time | the same request again; later canceled here, with a mark, and repeated |
//! | that it has handed the task over | the agent that has it now is asked instead |

use super::RemoteAgent;
use super::known::Known;
use super::mirror::{Went, went};
use super::moved::refusal;
use super::shown::{News, Shown};
use super::trouble::{is_held, is_unreadable, may_pass};
use sabir_client::Error;
use sabir_engine::{CalledOff, Canceled, Ending};
use sabir_proto::{CancelTask, Code, HANDOFF, TaskState, Tenant, TheirTask};
use std::time::Duration;
use tokio::time::Instant;

/// The pause between two requests while a caller waits for the cancel.
const PAUSE: Duration = Duration::from_millis(200);
/// The longest one.
const PAUSE_MAX: Duration = Duration::from_secs(2);
/// The reason where the agent does not know the task.
const UNKNOWN: &str = "the agent does not know the task any more";
/// The reason where there was no task to cancel yet.
const UNNAMED: &str = "the agent had not named its task when it was canceled; it may go on";

/// The answer to a cancel.
pub(super) enum Heard {
    /// The agent knows of the cancel. Perhaps it has reported how the task stands.
    Known(Option<Box<TheirTask>>),
    /// The agent does not know the task.
    Unknown,
    /// The agent will not cancel it, now or later.
    Refused(String),
    /// It is not known whether the cancel has arrived.
    Nothing(String),
}

impl RemoteAgent {
    pub(super) async fn call_off_there(&self, canceled: &Canceled) -> CalledOff {
        let mut known = canceled.checkpoint.as_deref().and_then(Known::read).unwrap_or_default();
        if known.fallen {
            // The engine cancels the other agent's work, as it cancels a child's.
            return CalledOff::default();
        }
        let is_told = known.task.is_some();
        known.task = known.theirs().cloned();
        if known.task.is_none() {
            let gap = known.tried.then(|| UNNAMED.into());
            return CalledOff { gap, ..CalledOff::default() };
        }
        let (grace, mut heard) = (self.upstream.cancel_grace, false);
        let asked = self.until_it_settles(&mut known, is_told, &mut heard);
        match tokio::time::timeout_at(Instant::now() + grace, asked).await {
            Ok(Ok(task)) => ended(&known.shown, task),
            Ok(Err(why)) => CalledOff { gap: Some(why), ..CalledOff::default() },
            Err(_) if heard => {
                let why = format!("the agent took the cancel and had not ended after {grace:?}");
                CalledOff { gap: Some(why), ..CalledOff::default() }
            }
            Err(_) if !is_told => CalledOff::unheard(UNNAMED),
            Err(_) => CalledOff::unheard(format!("the agent did not answer the cancel within {grace:?}")),
        }
    }

    /// Repeats the cancel, to the agent that has the task by now; true when there is nothing more to tell.
    pub(super) async fn remind_them(&self, canceled: &Canceled) -> bool {
        let mut known = canceled.checkpoint.as_deref().and_then(Known::read).unwrap_or_default();
        known.task = known.theirs().cloned();
        if known.task.is_none() {
            return true;
        }
        loop {
            let heard = match self.cancel_there(&mut known).await {
                // The task is over there, perhaps because another agent has it.
                Heard::Known(None) => self.look_where_it_went(&known).await,
                heard => heard,
            };
            let why = match heard {
                Heard::Known(Some(task)) => match went(&task.status, task.metadata.as_ref()) {
                    Some(Went::To(transfer)) => match self.hand_on(&mut known, &transfer).await {
                        Ok(()) => continue,
                        Err(why) => why,
                    },
                    Some(Went::Astray) => Went::ASTRAY.into(),
                    None => return true,
                },
                Heard::Known(None) => return true,
                Heard::Unknown => UNKNOWN.into(),
                Heard::Refused(why) => why,
                Heard::Nothing(problem) => {
                    tracing::info!(task = %canceled.task, problem, "a cancel is not acknowledged yet");
                    return false;
                }
            };
            tracing::warn!(task = %canceled.task, why, "a task elsewhere cannot be canceled; it may go on");
            return true;
        }
    }

    /// Sends one cancel, to the agent that has the task.
    async fn cancel_there(&self, known: &mut Known) -> Heard {
        let Some(id) = known.task.clone() else { return Heard::Known(None) };
        let answer = match self.line(known).await {
            Ok(line) => match self.arrive(&line, known).await {
                Ok(_) => line.cancel(CancelTask { tenant: Tenant::none(), id, metadata: None }).await,
                Err(error) => Err(error),
            },
            Err(error) => Err(error),
        };
        let moved = known.moved.is_some();
        match answer {
            Ok(task) => Heard::Known(Some(Box::new(task))),
            Err(Error::Fault { fault, transport: Some(_), .. }) if fault.code() == Code::TaskNotCancelable => {
                Heard::Known(None)
            }
            Err(Error::Fault { fault, transport: Some(_), .. }) if fault.code() == Code::TaskNotFound => Heard::Unknown,
            Err(Error::Fault { fault, transport: Some(_), .. })
                if matches!(fault.code(), Code::UnsupportedOperation | Code::MethodNotFound) =>
            {
                Heard::Refused("the agent cannot cancel; it may go on".into())
            }
            // The operator did not configure this agent; if it cannot be called now, it cannot be called later.
            Err(error) if moved && !(is_held(&error) || may_pass(&error) || is_unreadable(&error)) => {
                Heard::Refused(format!("it was handed over and cannot be canceled there: {}", refusal(&error)))
            }
            Err(error) => Heard::Nothing(error.to_string()),
        }
    }

    /// Reads a task that cannot be canceled any more, where it may have been handed over.
    async fn look_where_it_went(&self, known: &Known) -> Heard {
        let (Some(task), line) = (&known.task, self.line(known).await) else { return Heard::Known(None) };
        let line = match line {
            Ok(line) => line,
            Err(error) => return Heard::Nothing(error.to_string()),
        };
        if !line.agent().card().capabilities.extensions.iter().any(|extension| extension.uri.starts_with(HANDOFF)) {
            return Heard::Known(None);
        }
        match line.task(task).await {
            Ok(task) => Heard::Known(Some(Box::new(task))),
            Err(error) if is_held(&error) || may_pass(&error) => Heard::Nothing(error.to_string()),
            Err(_) => Heard::Known(None),
        }
    }

    /// Cancels, and polls until the task has settled, at any agent that has it by then. It is dropped when the grace
    /// ends; the error says why nothing can be done.
    async fn until_it_settles(&self, known: &mut Known, is_told: bool, heard: &mut bool) -> Result<TheirTask, String> {
        loop {
            let task = self.until_it_settles_there(known, is_told, heard).await?;
            match went(&task.status, task.metadata.as_ref()) {
                None => return Ok(task),
                Some(Went::Astray) => return Err(Went::ASTRAY.into()),
                Some(Went::To(transfer)) => {
                    let not = |why| format!("it was handed over and cannot be canceled there: {why}");
                    self.hand_on(known, &transfer).await.map_err(not)?;
                    *heard = false;
                }
            }
        }
    }

    async fn until_it_settles_there(
        &self,
        known: &mut Known,
        is_told: bool,
        heard: &mut bool,
    ) -> Result<TheirTask, String> {
        let mut pause = PAUSE;
        while !*heard {
            match self.cancel_there(known).await {
                Heard::Known(Some(task)) if task.status.state.is_settled() => return Ok(*task),
                Heard::Known(_) => *heard = true,
                // The message may still be on its way.
                Heard::Unknown if !is_told => tokio::time::sleep(pause).await,
                Heard::Unknown => return Err(UNKNOWN.into()),
                Heard::Refused(why) => return Err(why),
                Heard::Nothing(_) => tokio::time::sleep(pause).await,
            }
            pause = (pause * 2).min(PAUSE_MAX);
        }
        loop {
            let asked = match (self.line(known).await, &known.task) {
                (Ok(line), Some(task)) => line.task(task).await.ok(),
                _ => None,
            };
            match asked {
                Some(task) if task.status.state.is_settled() => return Ok(task),
                _ => tokio::time::sleep(PAUSE).await,
            }
        }
    }
}

/// The end of the remote task, as the end of ours.
fn ended(shown: &Shown, task: TheirTask) -> CalledOff {
    let artifacts = task.artifacts.iter().filter_map(|artifact| match shown.news(artifact) {
        News::None => None,
        News::More(more) => Some((shown.named(more), true)),
        News::Whole(whole) => Some((shown.named(whole), false)),
    });
    let artifacts = artifacts.collect();
    let parts = task.status.message.map(|message| message.parts).unwrap_or_default();
    let ending = match task.status.state {
        TaskState::Completed => Ending::Complete(parts),
        // A transfer was followed before: the agent that has the task now was asked.
        TaskState::Transferred => Ending::fail(Went::ASTRAY),
        TaskState::Failed => Ending::Fail(parts),
        TaskState::Rejected => Ending::Reject(parts),
        // Canceled, and states that are no end of anything.
        TaskState::Canceled
        | TaskState::Unspecified
        | TaskState::Submitted
        | TaskState::Working
        | TaskState::InputRequired
        | TaskState::AuthRequired => Ending::Cancel(parts),
    };
    CalledOff { ending, artifacts, ..CalledOff::default() }
}
