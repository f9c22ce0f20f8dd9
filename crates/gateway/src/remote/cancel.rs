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
//!
//! A task that they had not named when this process or the one before it stopped waiting is looked for by the id of our message,
//! where their tasks can be listed. They may name it late, so it is looked for again for some minutes.

use super::RemoteAgent;
use super::call_failure::{is_retryable, is_unreadable, was_not_called};
use super::checkpoint::Checkpoint;
use super::delivered_content::{ArtifactChange, DeliveredContent};
use super::events::{TransferNotice, transfer_notice};
use super::followed_transfer::refusal_words;
use sabir_client::Error;
use sabir_engine::{CancelOutcome, CanceledTask, Ending};
use sabir_proto::{CancelTask, FaultCode, HANDOFF, MessageId, TaskRef, TaskState, Tenant, WireTask};
use std::time::{Duration, SystemTime, UNIX_EPOCH};
use tokio::time::Instant;

/// The pause between two requests while a caller waits for the cancel.
const PAUSE: Duration = Duration::from_millis(200);
/// The longest one.
const PAUSE_MAX: Duration = Duration::from_secs(2);
/// The reason where the agent does not know the task.
const UNKNOWN_TASK: &str = "the agent does not know the task any more";
/// How long after the beginning of a turn a task is looked for that they have not named.
const LOOK_TIME: Duration = Duration::from_secs(600);
/// The reason where there was no task to cancel yet.
const UNNAMED_TASK: &str = "the agent had not named its task when it was canceled; it may go on";

/// The answer to a cancel.
pub(super) enum CancelAnswer {
    /// The agent knows of the cancel. Perhaps it has reported how the task stands.
    Acknowledged(Option<Box<WireTask>>),
    /// The agent does not know the task.
    UnknownTask,
    /// The agent will not cancel it, now or later.
    Refused(String),
    /// It is not known whether the cancel has arrived.
    NoAnswer(String),
}

impl RemoteAgent {
    pub(super) async fn cancel_remote_task(&self, canceled: &CanceledTask) -> CancelOutcome {
        let mut checkpoint = canceled.checkpoint.as_deref().and_then(Checkpoint::decode).unwrap_or_default();
        if checkpoint.fallen {
            // The engine cancels the other agent's work, as it cancels a child's.
            return CancelOutcome::default();
        }
        let is_told = checkpoint.task.is_some();
        checkpoint.task = checkpoint.remote_task().cloned();
        if checkpoint.task.is_none() {
            // Where it can be found later, they are told later.
            let acknowledged = !checkpoint.tried || checkpoint.sought_in.is_none();
            let gap = checkpoint.tried.then(|| UNNAMED_TASK.into());
            return CancelOutcome { gap, acknowledged, ..CancelOutcome::default() };
        }
        let (grace, mut heard) = (self.upstream.cancel_grace, false);
        let asked = self.cancel_until_settled(&mut checkpoint, is_told, &mut heard);
        match tokio::time::timeout_at(Instant::now() + grace, asked).await {
            Ok(Ok(task)) => canceled_task(&checkpoint.shown, task),
            Ok(Err(why)) => CancelOutcome { gap: Some(why), ..CancelOutcome::default() },
            Err(_) if heard => {
                let why = format!("the agent took the cancel and had not ended after {grace:?}");
                CancelOutcome { gap: Some(why), ..CancelOutcome::default() }
            }
            Err(_) if !is_told => CancelOutcome::unacknowledged(UNNAMED_TASK),
            Err(_) => CancelOutcome::unacknowledged(format!("the agent did not answer the cancel within {grace:?}")),
        }
    }

    /// Repeats the cancel, to the agent that has the task by now; true when there is nothing more to tell.
    pub(super) async fn repeat_cancel(&self, canceled: &CanceledTask) -> bool {
        let mut checkpoint = canceled.checkpoint.as_deref().and_then(Checkpoint::decode).unwrap_or_default();
        checkpoint.task = checkpoint.remote_task().cloned();
        if checkpoint.task.is_none() {
            match self.find_unnamed(&checkpoint).await {
                Ok(Some(task)) => checkpoint.task = Some(task),
                Ok(None) if checkpoint.tried => {
                    tracing::warn!(task = %canceled.task, "a task elsewhere has no name yet and cannot be looked for; it may go on");
                    return true;
                }
                Ok(None) => return true,
                Err(problem) if is_over(&checkpoint) => {
                    tracing::warn!(task = %canceled.task, problem, "a task elsewhere was not found to be canceled; it may go on");
                    return true;
                }
                Err(problem) => {
                    tracing::info!(task = %canceled.task, problem, "a task elsewhere that is to be canceled is looked for again");
                    return false;
                }
            }
        }
        loop {
            let heard = match self.send_cancel(&mut checkpoint).await {
                // The task is over there, perhaps because another agent has it.
                CancelAnswer::Acknowledged(None) => self.find_transfer(&checkpoint).await,
                heard => heard,
            };
            let why = match heard {
                CancelAnswer::Acknowledged(Some(task)) => match transfer_notice(&task.status, task.metadata.as_ref()) {
                    Some(TransferNotice::Followable(transfer)) => {
                        match self.follow_transfer(&mut checkpoint, &transfer).await {
                            Ok(()) => continue,
                            Err(why) => why,
                        }
                    }
                    Some(TransferNotice::Unreadable) => TransferNotice::UNREADABLE.into(),
                    None => return true,
                },
                CancelAnswer::Acknowledged(None) => return true,
                CancelAnswer::UnknownTask => UNKNOWN_TASK.into(),
                CancelAnswer::Refused(why) => why,
                CancelAnswer::NoAnswer(problem) => {
                    tracing::info!(task = %canceled.task, problem, "a cancel is not acknowledged yet");
                    return false;
                }
            };
            tracing::warn!(task = %canceled.task, why, "a task elsewhere cannot be canceled; it may go on");
            return true;
        }
    }

    /// Finds a task that they have not named by the message that it has heard; nothing where none can have been made, and why
    /// it was not found where it is worth looking again.
    async fn find_unnamed(&self, known: &Checkpoint) -> Result<Option<TaskRef>, String> {
        let Some(conversation) = known.sought_in.clone().filter(|_| known.tried) else { return Ok(None) };
        let Ok(message) = MessageId::parse(&known.message) else { return Ok(None) };
        let line = self.connection(known).await.map_err(|error| error.to_string())?;
        let found = line.task_with_message(conversation, &message).await.map_err(|error| error.to_string())?;
        found.map(|task| Some(task.id)).ok_or_else(|| "no task there has the message".into())
    }

    /// Sends one cancel, to the agent that has the task.
    async fn send_cancel(&self, checkpoint: &mut Checkpoint) -> CancelAnswer {
        let Some(id) = checkpoint.task.clone() else { return CancelAnswer::Acknowledged(None) };
        let answer = match self.connection(checkpoint).await {
            Ok(line) => match self.verify_transferred_task(&line, checkpoint).await {
                Ok(_) => line.cancel(CancelTask { tenant: Tenant::none(), id, metadata: None }).await,
                Err(error) => Err(error),
            },
            Err(error) => Err(error),
        };
        let moved = checkpoint.moved.is_some();
        match answer {
            Ok(task) => CancelAnswer::Acknowledged(Some(Box::new(task))),
            Err(Error::Fault { fault, transport: Some(_), .. }) if fault.code() == FaultCode::TaskNotCancelable => {
                CancelAnswer::Acknowledged(None)
            }
            Err(Error::Fault { fault, transport: Some(_), .. }) if fault.code() == FaultCode::TaskNotFound => {
                CancelAnswer::UnknownTask
            }
            Err(Error::Fault { fault, transport: Some(_), .. })
                if matches!(fault.code(), FaultCode::UnsupportedOperation | FaultCode::MethodNotFound) =>
            {
                CancelAnswer::Refused("the agent cannot cancel; it may go on".into())
            }
            // The operator did not configure this agent; if it cannot be called now, it cannot be called later.
            Err(error) if moved && !(was_not_called(&error) || is_retryable(&error) || is_unreadable(&error)) => {
                CancelAnswer::Refused(format!(
                    "it was handed over and cannot be canceled there: {}",
                    refusal_words(&error)
                ))
            }
            Err(error) => CancelAnswer::NoAnswer(error.to_string()),
        }
    }

    /// Reads a task that cannot be canceled any more, where it may have been handed over.
    async fn find_transfer(&self, checkpoint: &Checkpoint) -> CancelAnswer {
        let (Some(task), line) = (&checkpoint.task, self.connection(checkpoint).await) else {
            return CancelAnswer::Acknowledged(None);
        };
        let line = match line {
            Ok(line) => line,
            Err(error) => return CancelAnswer::NoAnswer(error.to_string()),
        };
        if !line.agent().card().capabilities.extensions.iter().any(|extension| extension.uri.starts_with(HANDOFF)) {
            return CancelAnswer::Acknowledged(None);
        }
        match line.task(task).await {
            Ok(task) => CancelAnswer::Acknowledged(Some(Box::new(task))),
            Err(error) if was_not_called(&error) || is_retryable(&error) => CancelAnswer::NoAnswer(error.to_string()),
            Err(_) => CancelAnswer::Acknowledged(None),
        }
    }

    /// Cancels, and polls until the task has settled, at any agent that has it by then. It is dropped when the grace
    /// ends; the error says why nothing can be done.
    async fn cancel_until_settled(
        &self,
        checkpoint: &mut Checkpoint,
        is_told: bool,
        heard: &mut bool,
    ) -> Result<WireTask, String> {
        loop {
            let task = self.cancel_until_settled_at_holder(checkpoint, is_told, heard).await?;
            match transfer_notice(&task.status, task.metadata.as_ref()) {
                None => return Ok(task),
                Some(TransferNotice::Unreadable) => return Err(TransferNotice::UNREADABLE.into()),
                Some(TransferNotice::Followable(transfer)) => {
                    let not = |why| format!("it was handed over and cannot be canceled there: {why}");
                    self.follow_transfer(checkpoint, &transfer).await.map_err(not)?;
                    *heard = false;
                }
            }
        }
    }

    async fn cancel_until_settled_at_holder(
        &self,
        checkpoint: &mut Checkpoint,
        is_told: bool,
        heard: &mut bool,
    ) -> Result<WireTask, String> {
        let mut pause = PAUSE;
        while !*heard {
            match self.send_cancel(checkpoint).await {
                CancelAnswer::Acknowledged(Some(task)) if task.status.state.is_settled() => return Ok(*task),
                CancelAnswer::Acknowledged(_) => *heard = true,
                // The message may still be on its way.
                CancelAnswer::UnknownTask if !is_told => tokio::time::sleep(pause).await,
                CancelAnswer::UnknownTask => return Err(UNKNOWN_TASK.into()),
                CancelAnswer::Refused(why) => return Err(why),
                CancelAnswer::NoAnswer(_) => tokio::time::sleep(pause).await,
            }
            pause = (pause * 2).min(PAUSE_MAX);
        }
        loop {
            let asked = match (self.connection(checkpoint).await, &checkpoint.task) {
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

/// Whether it is too late to look for a task that was begun in this turn.
fn is_over(known: &Checkpoint) -> bool {
    let since = Duration::from_millis(u64::try_from(known.since).unwrap_or(0));
    let now = SystemTime::now().duration_since(UNIX_EPOCH).unwrap_or_default();
    now.saturating_sub(since) > LOOK_TIME
}

/// The end of the remote task, as the end of ours.
fn canceled_task(shown: &DeliveredContent, task: WireTask) -> CancelOutcome {
    let artifacts = task.artifacts.iter().filter_map(|artifact| match shown.change_of(artifact) {
        ArtifactChange::Unchanged => None,
        ArtifactChange::Appended(more) => Some((shown.with_caller_name(more), true)),
        ArtifactChange::Replaced(whole) => Some((shown.with_caller_name(whole), false)),
    });
    let artifacts = artifacts.collect();
    let parts = task.status.message.map(|message| message.parts).unwrap_or_default();
    let ending = match task.status.state {
        TaskState::Completed => Ending::Complete(parts),
        // A transfer was followed before: the agent that has the task now was asked.
        TaskState::Transferred => Ending::fail(TransferNotice::UNREADABLE),
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
    CancelOutcome { ending, artifacts, ..CancelOutcome::default() }
}
