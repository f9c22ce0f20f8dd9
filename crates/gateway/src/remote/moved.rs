//! Tasks that they have handed over: ours stays, and goes on with whoever has theirs now.
//!
//! Our caller knows one task, ours. Where an agent ends its own with the word that somebody else has it, that is written
//! down first, with the receiver and its task, and then the task there is looked at, listened to, asked, answered and
//! called off in place of the first. A crash finds what was written down, or is told of the handover once more. Whoever
//! hands over may give us a claim, which is shown at the first look: from then on the task there is ours.
//!
//! | Then | Our task |
//! |---|---|
//! | it goes back to a task where it was, to ourselves, or on too often | fails: nobody goes there |
//! | the receiver may not be called, or asks for what we do not have | fails, with the mark of a gap |
//! | the receiver cannot be reached | as for any agent: the same again, then fails, with the mark of a gap |
//! | the receiver hands it over as well | follows again |
//!
//! An agent of ours that stands for the receiver is called with what it is shown otherwise, and so sees tasks of others.
//! Whoever hands a task over could name one of those; so the task there has to say that it came from the one here.

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

/// How much of an address is told.
const SHOWN_MAX: usize = 200;

impl RemoteAgent {
    /// Takes up a task where it went: from now on it is the one that is known. Nobody is called yet; why it is not
    /// followed is said in words.
    pub(super) async fn hand_on(&self, known: &mut Known, transfer: &Transfer) -> Result<(), String> {
        let from = known.task.clone().ok_or("it had no name where it was")?;
        // Whatever our server is called there: a task that mirrored itself would never end.
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

    /// Looks at a task where it went, before anything else is done with it there.
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
    /// They have handed the task over; the ending, where it is not followed.
    pub(super) async fn move_on(&mut self, transfer: &Transfer) -> Result<Option<Ending>, Failure> {
        let words = words(transfer);
        // What was told so far goes with what was known until now.
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

    /// One call to whoever has the task now: what ended the turn, or nothing yet.
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
            // It asked where it was, and does not ask here.
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

    /// An ending that is ours alone, of a task that somebody else has: says who, and that its own end is not known.
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

/// What it means that a task could not be looked at where it went. Our caller is told what was said there; what we know of
/// the way is for our log.
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

/// Why nobody can be called where a task went, in words for our caller.
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

/// Who has the task now, for our caller.
fn words(transfer: &Transfer) -> String {
    Transfer { agent_endpoint: shown(&transfer.agent_endpoint), ..transfer.clone() }.words()
}

/// An address as it is told: no more than a host and a path, and nothing that is a secret.
pub(super) fn shown(endpoint: &str) -> String {
    let bare = Url::parse(endpoint).map(|url| address(&url));
    bare.unwrap_or_else(|_| "an address that cannot be read".into()).chars().take(SHOWN_MAX).collect()
}
