//! Tasks that an agent elsewhere has handed over: ours stays, and goes on with the agent that has theirs now.
//!
//! Our caller knows one task, ours. If an agent ends its own with a transfer, the receiver and its task are stored
//! first; then the task there is read, followed, asked, answered and canceled in place of the first. After a crash the
//! receiver is found in the checkpoint, or the agent reports the transfer once more. The agent may give us a claim,
//! which is shown at the first look: from then on the task there is ours.
//!
//! | Then | Our task |
//! |---|---|
//! | it goes back to a task where it was, to ourselves, or on too often | fails: it is not followed |
//! | the receiver may not be called, or asks for what we do not have | fails, with the mark of a gap |
//! | the receiver cannot be reached | retried as for any agent, then fails, with the mark of a gap |
//! | the receiver hands it over as well | follows again |
//!
//! An agent of ours that stands for the receiver is called with its own credentials, and so sees tasks of others. An
//! agent that hands a task over could name one of those; so the task there must say that it came from this one.

use super::RemoteAgent;
use super::call_failure::{CallFailure, RetryableFailure, is_retryable, is_unreadable, was_not_called};
use super::checkpoint::{Checkpoint, FollowedTransfer};
use super::connection::ReplicaConnection;
use super::remote_turn::RemoteTurn;
use crate::failure_words::address_words;
use sabir_client::{Error, HandoffTrail};
use sabir_engine::agent::TaskEnded;
use sabir_engine::{Ending, Failure};
use sabir_proto::{FaultCode, HANDOFF, Part, TaskRef, Transfer, WireTask};
use url::Url;

/// The longest address that callers are told, in characters.
const ADDRESS_CHARS_MAX: usize = 200;

impl RemoteAgent {
    /// Follows a transfer: from now on the checkpoint is about the task there. The task is not read yet; the error says
    /// in words why it is not followed.
    pub(super) async fn follow_transfer(&self, checkpoint: &mut Checkpoint, transfer: &Transfer) -> Result<(), String> {
        let from = checkpoint.task.clone().ok_or("it had no name where it was")?;
        // Whatever the name of our server there: a task that mirrored itself would never end.
        if checkpoint.turn.split('/').next() == Some(&*transfer.task_id.to_string()) {
            return Err("that is this very task, so it goes round in a circle".into());
        }
        let mut trail = match &checkpoint.moved {
            Some(moved) => moved.trail.clone(),
            None => {
                let place = self.choose_replica(checkpoint, || 0, &[]);
                let mut trail = HandoffTrail::default();
                trail.start_at(&place.endpoint().unwrap_or_else(|| place.config.url.clone()), &from);
                trail
            }
        };
        trail.advance(transfer)?;
        let by = self.resolve_transfer_target(transfer, &checkpoint.caller).await?.map(|name| name.as_str().to_owned());
        let endpoint = transfer.agent_endpoint.clone();
        checkpoint.at = Some(endpoint.clone());
        checkpoint.task = Some(transfer.task_id.clone());
        checkpoint.context.clone_from(&transfer.context_id);
        (checkpoint.last, checkpoint.streamed, checkpoint.attempts) = (None, false, 0);
        checkpoint.shown.start_next_agent();
        let claim = transfer.claim_secret.clone();
        let transfer = transfer.transfer_id.clone();
        checkpoint.moved = Some(FollowedTransfer { endpoint, by, from, transfer, claim, found: false, trail });
        Ok(())
    }

    /// Reads a task that was handed over, before anything else is done with it.
    pub(super) async fn verify_transferred_task(
        &self,
        connection: &ReplicaConnection,
        checkpoint: &mut Checkpoint,
    ) -> Result<Option<WireTask>, Error> {
        let (Some(task), Some(moved)) = (&checkpoint.task, &mut checkpoint.moved) else { return Ok(None) };
        if moved.found {
            return Ok(None);
        }
        let task = connection.task_with_claim(task, moved.claim.as_ref()).await?;
        if moved.by.is_some() && !came_from(&task, &moved.from, &moved.transfer) {
            return Err(Error::Usage("the task there does not say that it came from here".into()));
        }
        (moved.found, moved.claim) = (true, None);
        if task.context_id.is_some() {
            checkpoint.context.clone_from(&task.context_id);
        }
        Ok(Some(task))
    }
}

impl RemoteTurn<'_> {
    /// The agent has handed the task over; returns the ending, where it is not followed.
    pub(super) async fn handle_transfer(&mut self, transfer: &Transfer) -> Result<Option<Ending>, Failure> {
        let words = transfer_words(transfer);
        // The reports so far go with the checkpoint from before the transfer.
        self.cx.set_next_checkpoint(self.checkpoint.encode());
        if let Err(why) = self.remote.follow_transfer(&mut self.checkpoint, transfer).await {
            tracing::warn!(task = %self.cx.task_id(), agent = %self.remote.upstream.name, to = public_address(&transfer.agent_endpoint),
                why, "a task that was handed over is not followed");
            self.cx.gap("what becomes of the task where it was handed over to is not known").await?;
            return Ok(Some(Ending::fail(format!("{words} It is not followed there: {why}."))));
        }
        tracing::info!(task = %self.cx.task_id(), agent = %self.remote.upstream.name, to = public_address(&transfer.agent_endpoint),
            "a task was handed over and is followed");
        (self.problem, self.gap_reason, self.needs_comparison) = (None, None, false);
        (self.calls_without_news, self.protocol_refusals) = (0, 0);
        self.checkpoint.heard = self.cx.now().millis();
        self.cx.progress(vec![Part::text(words)]).await?;
        self.save_checkpoint(None);
        self.cx.commit().await?;
        Ok(None)
    }

    /// Makes one call to the agent that has the task now; returns the ending, if the turn ended.
    pub(super) async fn call_holder(&mut self) -> Result<Option<Ending>, CallFailure> {
        let connection = match self.remote.connection(&self.checkpoint).await {
            Ok(line) => line,
            Err(error) => return Err(transfer_call_failure(error)),
        };
        let arrived = self
            .remote
            .verify_transferred_task(&connection, &mut self.checkpoint)
            .await
            .map_err(transfer_call_failure)?;
        if let Some(task) = &arrived
            && !self.checkpoint.sent
            && !task.status.state.is_interrupted()
        {
            // The first agent asked a question, and the task there asks none.
            self.report(self.cx.gap("what was answered was not passed on: the task went elsewhere and asks no more"))
                .await?;
        }
        if let Some(task) = arrived
            && (self.checkpoint.sent || !task.status.state.is_interrupted())
            && let Some(ending) = self.task(task).await?
        {
            return Ok(Some(ending));
        }
        match (self.checkpoint.sent, self.checkpoint.task.clone()) {
            (true, Some(task)) => self.follow_task(&connection, task).await,
            _ => self.send(&connection).await,
        }
    }

    /// Completes an ending that is ours alone, of a task that another agent has: names that agent, and marks that the
    /// task's own end is not known.
    pub(super) async fn add_transfer_gap(&mut self, ending: Ending) -> Result<Ending, TaskEnded> {
        let (Some(moved), Ending::Fail(why)) = (&self.checkpoint.moved, &ending) else { return Ok(ending) };
        self.cx.set_next_checkpoint(self.checkpoint.encode());
        let why: String = why.iter().filter_map(Part::as_text).collect();
        let place = public_address(&moved.endpoint);
        let task = self.checkpoint.task.as_ref().map(TaskRef::to_string).unwrap_or_default();
        let words = format!("the task was handed over to {place}, where it is task {task}: {why}");
        self.cx.gap(format!("what became of the task at {place} is not known")).await?;
        Ok(Ending::fail(words))
    }
}

/// What it means that a task could not be read where it went. Our caller is told the receiver's refusal; details of the
/// way are for our log.
fn transfer_call_failure(error: Error) -> CallFailure {
    if was_not_called(&error) {
        return CallFailure::NotCalled { why: error.to_string(), after: error.retry_after() };
    }
    if is_retryable(&error) || is_unreadable(&error) {
        return CallFailure::Retryable(RetryableFailure::new(&error));
    }
    tracing::warn!(%error, "a task that was handed over cannot be followed");
    CallFailure::TaskOver(Ending::fail(refusal_words(&error)))
}

/// Why a task cannot be followed to its receiver, in words for our caller.
pub(super) fn refusal_words(error: &Error) -> String {
    match error {
        Error::Usage(words) => words.clone(),
        Error::Refused(_) => "its address may not be called from here".into(),
        Error::CredentialsMissing { .. } | Error::AuthFailed { .. } | Error::CardForbidden { .. } => {
            "it asks for credentials that are not there".into()
        }
        Error::Fault { fault, .. } if fault.code() == FaultCode::TaskNotFound => {
            "it does not know the task, or does not show it to us".into()
        }
        Error::Fault { fault, .. } => format!("it refused: {fault}"),
        _ => "its card cannot be used".into(),
    }
}

/// Whether a task says that it was handed over by this one, in this handoff.
fn came_from(task: &WireTask, from: &TaskRef, transfer: &str) -> bool {
    let said = task.metadata.as_ref().and_then(|metadata| metadata.get(HANDOFF));
    let said = said.map(|said| said["transferred_from"].clone()).unwrap_or_default();
    said["task_id"] == *from.to_string() && said["transfer_id"] == *transfer && !transfer.is_empty()
}

/// Says which agent has the task now, for our caller.
fn transfer_words(transfer: &Transfer) -> String {
    Transfer { agent_endpoint: public_address(&transfer.agent_endpoint), ..transfer.clone() }.description()
}

/// An address for callers: a host and a path at most, and nothing that is a secret.
pub(super) fn public_address(endpoint: &str) -> String {
    let bare = Url::parse(endpoint).map(|url| address_words(&url));
    bare.unwrap_or_else(|_| "an address that cannot be read".into()).chars().take(ADDRESS_CHARS_MAX).collect()
}
