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
use super::known::{Known, Moved};
use super::line::Line;
use super::trouble::{FailedCall, Trouble, is_held, is_unreadable, may_pass};
use super::work::Work;
use crate::failure_words::address;
use sabir_client::{Error, Trail};
use sabir_engine::agent::Ended;
use sabir_engine::{Ending, Failure};
use sabir_proto::{Code, HANDOFF, Part, TaskRef, TheirTask, Transfer};
use url::Url;

/// The longest address that callers are told, in characters.
const SHOWN_MAX: usize = 200;

impl RemoteAgent {
    /// Follows a transfer: from now on the checkpoint is about the task there. The task is not read yet; the error says
    /// in words why it is not followed.
    pub(super) async fn hand_on(&self, known: &mut Known, transfer: &Transfer) -> Result<(), String> {
        let from = known.task.clone().ok_or("it had no name where it was")?;
        // Whatever the name of our server there: a task that mirrored itself would never end.
        if known.turn.split('/').next() == Some(&*transfer.task_id.to_string()) {
            return Err("that is this very task, so it goes round in a circle".into());
        }
        let mut trail = match &known.moved {
            Some(moved) => moved.trail.clone(),
            None => {
                let place = self.replica(known, || 0, &[]);
                let mut trail = Trail::default();
                trail.set_out(&place.endpoint().unwrap_or_else(|| place.place.url.clone()), &from);
                trail
            }
        };
        trail.advance(transfer)?;
        let by = self.admit(transfer, &known.caller).await?.map(|name| name.as_str().to_owned());
        let endpoint = transfer.agent_endpoint.clone();
        known.at = Some(endpoint.clone());
        known.task = Some(transfer.task_id.clone());
        known.context.clone_from(&transfer.context_id);
        (known.last, known.streamed, known.attempts) = (None, false, 0);
        known.shown.hand_on();
        let claim = transfer.claim_secret.clone();
        let transfer = transfer.transfer_id.clone();
        known.moved = Some(Moved { endpoint, by, from, transfer, claim, found: false, trail });
        Ok(())
    }

    /// Reads a task that was handed over, before anything else is done with it.
    pub(super) async fn arrive(&self, line: &Line, known: &mut Known) -> Result<Option<TheirTask>, Error> {
        let (Some(task), Some(moved)) = (&known.task, &mut known.moved) else { return Ok(None) };
        if moved.found {
            return Ok(None);
        }
        let task = line.claimed(task, moved.claim.as_ref()).await?;
        if moved.by.is_some() && !came_from(&task, &moved.from, &moved.transfer) {
            return Err(Error::Usage("the task there does not say that it came from here".into()));
        }
        (moved.found, moved.claim) = (true, None);
        if task.context_id.is_some() {
            known.context.clone_from(&task.context_id);
        }
        Ok(Some(task))
    }
}

impl Work<'_> {
    /// The agent has handed the task over; returns the ending, where it is not followed.
    pub(super) async fn move_on(&mut self, transfer: &Transfer) -> Result<Option<Ending>, Failure> {
        let words = words(transfer);
        // The reports so far go with the checkpoint from before the transfer.
        self.cx.leave(self.known.write());
        if let Err(why) = self.remote.hand_on(&mut self.known, transfer).await {
            tracing::warn!(task = %self.cx.task_id(), agent = %self.remote.upstream.name, to = shown(&transfer.agent_endpoint),
                why, "a task that was handed over is not followed");
            self.cx.gap("what becomes of the task where it was handed over to is not known").await?;
            return Ok(Some(Ending::fail(format!("{words} It is not followed there: {why}."))));
        }
        tracing::info!(task = %self.cx.task_id(), agent = %self.remote.upstream.name, to = shown(&transfer.agent_endpoint),
            "a task was handed over and is followed");
        (self.problem, self.broken, self.doubt) = (None, None, false);
        (self.quiet, self.misunderstood) = (0, 0);
        self.known.heard = self.cx.now().millis();
        self.cx.progress(vec![Part::text(words)]).await?;
        self.put_down(None);
        self.cx.commit().await?;
        Ok(None)
    }

    /// Makes one call to the agent that has the task now; returns the ending, if the turn ended.
    pub(super) async fn call_there(&mut self) -> Result<Option<Ending>, Trouble> {
        let line = match self.remote.line(&self.known).await {
            Ok(line) => line,
            Err(error) => return Err(unfollowed(error)),
        };
        let arrived = self.remote.arrive(&line, &mut self.known).await.map_err(unfollowed)?;
        if let Some(task) = &arrived
            && !self.known.sent
            && !task.status.state.is_interrupted()
        {
            // The first agent asked a question, and the task there asks none.
            self.tell(self.cx.gap("what was answered was not passed on: the task went elsewhere and asks no more"))
                .await?;
        }
        if let Some(task) = arrived
            && (self.known.sent || !task.status.state.is_interrupted())
            && let Some(ending) = self.task(task).await?
        {
            return Ok(Some(ending));
        }
        match (self.known.sent, self.known.task.clone()) {
            (true, Some(task)) => self.go_on(&line, task).await,
            _ => self.send(&line).await,
        }
    }

    /// Completes an ending that is ours alone, of a task that another agent has: names that agent, and marks that the
    /// task's own end is not known.
    pub(super) async fn lost(&mut self, ending: Ending) -> Result<Ending, Ended> {
        let (Some(moved), Ending::Fail(why)) = (&self.known.moved, &ending) else { return Ok(ending) };
        self.cx.leave(self.known.write());
        let why: String = why.iter().filter_map(Part::as_text).collect();
        let place = shown(&moved.endpoint);
        let task = self.known.task.as_ref().map(TaskRef::to_string).unwrap_or_default();
        let words = format!("the task was handed over to {place}, where it is task {task}: {why}");
        self.cx.gap(format!("what became of the task at {place} is not known")).await?;
        Ok(Ending::fail(words))
    }
}

/// What it means that a task could not be read where it went. Our caller is told the receiver's refusal; details of the
/// way are for our log.
fn unfollowed(error: Error) -> Trouble {
    if is_held(&error) {
        return Trouble::Held { why: error.to_string(), after: error.retry_after() };
    }
    if may_pass(&error) || is_unreadable(&error) {
        return Trouble::Passing(FailedCall::new(&error));
    }
    tracing::warn!(%error, "a task that was handed over cannot be followed");
    Trouble::Over(Ending::fail(refusal(&error)))
}

/// Why a task cannot be followed to its receiver, in words for our caller.
pub(super) fn refusal(error: &Error) -> String {
    match error {
        Error::Usage(words) => words.clone(),
        Error::Refused(_) => "its address may not be called from here".into(),
        Error::CredentialsMissing { .. } | Error::AuthFailed { .. } | Error::CardForbidden { .. } => {
            "it asks for credentials that are not there".into()
        }
        Error::Fault { fault, .. } if fault.code() == Code::TaskNotFound => {
            "it does not know the task, or does not show it to us".into()
        }
        Error::Fault { fault, .. } => format!("it refused: {fault}"),
        _ => "its card cannot be used".into(),
    }
}

/// Whether a task says that it was handed over by this one, in this handoff.
fn came_from(task: &TheirTask, from: &TaskRef, transfer: &str) -> bool {
    let said = task.metadata.as_ref().and_then(|metadata| metadata.get(HANDOFF));
    let said = said.map(|said| said["transferred_from"].clone()).unwrap_or_default();
    said["task_id"] == *from.to_string() && said["transfer_id"] == *transfer && !transfer.is_empty()
}

/// Says which agent has the task now, for our caller.
fn words(transfer: &Transfer) -> String {
    Transfer { agent_endpoint: shown(&transfer.agent_endpoint), ..transfer.clone() }.words()
}

/// An address for callers: a host and a path at most, and nothing that is a secret.
pub(super) fn shown(endpoint: &str) -> String {
    let bare = Url::parse(endpoint).map(|url| address(&url));
    bare.unwrap_or_else(|_| "an address that cannot be read".into()).chars().take(SHOWN_MAX).collect()
}
