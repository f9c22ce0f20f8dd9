//! One turn with an agent elsewhere: send once, follow, wait, give up.
//!
//! | After | Then |
//! |---|---|
//! | a call that cannot have arrived, or was put off by the agent | the same again, after a pause |
//! | a send with an unknown result, or an unreadable answer | search for its task; send again only if harmless |
//! | any other failure after our message has arrived | the task goes on there: the same again, after a pause |
//! | a stream that broke, or reported another task | subscribe again, after the last event if events are numbered |
//! | a subscription that does not go on where the last one broke off | news is reported, with the mark of a gap |
//! | an event that came before, or out of order | left out; at the end the task is compared with the reports |
//! | a stream that brought nothing new, or cannot be had | poll the task, at a slowing pace |
//! | a call that the breakers refuse | a pause, as long as they say; it counts as no attempt |
//! | an answer that the version or the method is unknown | fetch the card once more, then the same again |
//! | the first call of a task, where it cannot begin at any replica | the fallback agent does it, if one is named |
//! | too many calls in a row without an answer, or no news for too long | the task fails, and says so |
//! | a transfer of the task to another agent | it is followed: see `moved` |

use super::RemoteAgent;
use super::known::{Known, chance, context_id};
use super::line::{Line, Stream, has_changed};
use super::message_ids::own_id;
use super::mirror::{unhurried, went};
use super::numbers::{Numbers, Order};
use super::replica::Replica;
use super::trouble::{FailedCall, Trouble, failed, is_held, is_put_off, is_unreadable};
use crate::delegate::{Mirror, delegate, outgoing};
use sabir_client::{Error, Follow, send_message};
use sabir_engine::{Context, Continuation, Ending, Failure, KnownAs};
use sabir_proto::{
    Answer, Code, Fault, ListTasks, Message, MessageId, SendMessage, TaskRef, TaskState, TheirEvent, TheirTask,
    Timestamp,
};
use std::pin::pin;
use std::sync::Arc;
use std::time::Duration;

/// The longest pause between two calls.
const PAUSE_MAX: Duration = Duration::from_secs(60);
/// Polls at a steady pace before it slows down.
const STEADY: u32 = 5;
/// After a long interruption the turn calls the agent before it gives up, and waits this long for the answer.
const GRACE: Duration = Duration::from_secs(5);
/// How many of the agent's tasks are searched for our message.
const LOOKED_AT_MAX: usize = 20;

pub(super) struct Work<'a> {
    pub(super) remote: &'a RemoteAgent,
    pub(super) cx: &'a mut Context,
    pub(super) known: Known,
    /// Why the last call failed, if it did.
    pub(super) problem: Option<String>,
    /// Calls since the last news.
    pub(super) quiet: u32,
    /// How long since then we made no call, because we would not.
    held: Duration,
    /// The number of calls in this turn.
    calls: u32,
    /// A call was made since the last pause.
    pub(super) called: bool,
    /// Our caller was told that a breaker is open.
    pub(super) held_told: bool,
    /// Why events may be missing: a stream broke off, and none has gone on exactly there.
    pub(super) broken: Option<String>,
    /// The reports may differ from the remote task: they are compared before the end.
    pub(super) doubt: bool,
    /// Replicas that failed before anything began.
    shunned: Vec<String>,
    /// How often the agent did not know the version or the method.
    pub(super) misunderstood: u32,
    /// The engine recognises by these a call that comes back from there without its lineage.
    _names: KnownAs,
}

impl<'a> Work<'a> {
    /// Begins a turn, or resumes one that was interrupted.
    pub(super) fn take_up(remote: &'a RemoteAgent, cx: &'a mut Context) -> Self {
        let mut known = Known::of(cx, &remote.message_ids);
        if cx.attempt() > 1 {
            // Perhaps the agent's answer ended the last process, so this attempt counts before it is made again.
            known.attempts += 1;
        }
        // Only ids that we have made: callers may have used theirs elsewhere as well.
        let message = Some(known.message.clone()).filter(|id| id != cx.message().message_id.as_str());
        let names = cx.known_as(message.into_iter().chain([context_id(cx).to_string()]));
        let broken = (cx.attempt() > 1 && known.streamed).then(|| "the hub stopped while it listened".to_owned());
        Self {
            remote,
            cx,
            known,
            problem: None,
            quiet: 0,
            held: Duration::ZERO,
            calls: 0,
            called: false,
            held_told: false,
            broken,
            doubt: false,
            shunned: Vec::new(),
            misunderstood: 0,
            _names: names,
        }
    }

    pub(super) async fn run(mut self) -> Result<Ending, Failure> {
        if self.cx.attempt() > 1 {
            self.put_down(None);
            self.cx.commit().await?;
        }
        loop {
            if self.falls_back() {
                return Box::pin(self.fall_back()).await;
            }
            if let Some(ending) = self.give_up() {
                let ending = self.lost(ending).await?;
                return Ok(self.end(ending));
            }
            let before = self.known.heard;
            let begun = self.cx.now().millis();
            let (mut asked, mut held, mut call_failed) = (None, false, None);
            self.calls += 1;
            self.called = true;
            let called = self.call().await;
            self.cx.call_is_over();
            match called {
                Ok(Some(ending)) => return Ok(self.end(ending)),
                Err(Trouble::Over(ending)) => {
                    let ending = self.lost(ending).await?;
                    return Ok(self.end(ending));
                }
                Err(Trouble::Fatal(error)) => {
                    self.note_fatal(&error);
                    let ending = self.lost(failed(&error)).await?;
                    return Ok(self.end(ending));
                }
                Err(Trouble::Moved(transfer)) => match Box::pin(self.move_on(&transfer)).await? {
                    Some(ending) => return Ok(self.end(ending)),
                    None => continue,
                },
                Ok(None) => (self.problem, self.known.absent) = (None, None),
                Err(Trouble::Passing(failed)) => {
                    self.note_failure(&failed, begun);
                    (self.problem, asked) = (Some(failed.why.clone()), failed.after);
                    call_failed = Some(failed);
                }
                Err(Trouble::Held { why, after }) => {
                    (self.problem, asked) = (Some(why), after);
                    held = true;
                }
                Err(Trouble::Ended) => return Err(sabir_engine::agent::Ended.into()),
            }
            if self.known.heard > before {
                (self.quiet, self.held) = (0, Duration::ZERO);
            } else {
                self.quiet += 1;
            }
            if self.falls_back() || self.is_out_of_patience() {
                continue;
            }
            let pause = self.pause(asked);
            if held {
                self.tell_held().await?;
            } else if let Some(failed) = call_failed {
                self.tell_failure(&failed, pause).await?;
            }
            self.held_told &= held;
            self.put_down(Some(pause));
            self.cx.commit().await?;
            self.cx.sleep(pause).await;
            self.called = false;
            if held {
                // We did not call, so the agent was not silent.
                self.held += pause;
            }
        }
    }

    /// Whether the fallback agent is to do it: nothing has begun, and it cannot begin at any replica now.
    fn falls_back(&self) -> bool {
        let RemoteAgent { upstream, replicas, bulkhead, .. } = self.remote;
        let nowhere = || bulkhead.is_full() || replicas.iter().all(|replica| self.has_failed_at(replica));
        self.known.fallen || (upstream.fallback.is_some() && !self.has_begun() && nowhere())
    }

    /// Whether the task could not begin at a replica, or cannot now.
    pub(super) fn has_failed_at(&self, replica: &Replica) -> bool {
        self.shunned.contains(&replica.place.url) || !replica.is_usable()
    }

    async fn fall_back(mut self) -> Result<Ending, Failure> {
        let Some(to) = self.remote.upstream.fallback.clone() else {
            return Ok(Ending::fail("the agent that was to take over is no longer configured"));
        };
        if !std::mem::replace(&mut self.known.fallen, true) {
            tracing::warn!(task = %self.cx.task_id(), agent = %self.remote.upstream.name, %to, "another agent takes over");
            self.cx.set_checkpoint(self.known.write());
            self.cx.waits_for(None);
            self.cx.commit().await?;
        }
        let (parts, metadata) = (self.cx.message().parts.clone(), self.cx.message().metadata.clone());
        Ok(delegate(self.cx, &to, "fallback", parts, metadata, &Mirror::WHOLE).await?.into_ending())
    }

    /// Makes one call; returns the ending, if the turn ended.
    async fn call(&mut self) -> Result<Option<Ending>, Trouble> {
        let begun = self.known.sent && self.known.task.is_some();
        match self.known.attempts {
            0 => self.remote.budget.first(),
            // Looking after work that goes on there is no retry: a hundred streams that break together are all taken up
            // again.
            _ if begun => {}
            _ => self.remote.budget.again().map_err(|after| Trouble::Held {
                why: "it was tried again more often than may be".into(),
                after: Some(after),
            })?,
        }
        if self.known.moved.is_some() {
            return Box::pin(self.call_there()).await;
        }
        let replica = self.remote.replica(&self.known, || chance(self.cx), &self.shunned).clone();
        self.known.at = Some(replica.place.url.clone());
        let line = replica.line(&self.known.caller).await.inspect_err(|error| self.shun(error))?;
        // Here and below, rare paths are boxed: otherwise every turn would hold room for them.
        match (self.known.sent, self.known.task.clone()) {
            (true, Some(task)) => Box::pin(self.go_on(&line, task)).await,
            _ => self.send(&line).await,
        }
    }

    pub(super) async fn send(&mut self, line: &Line) -> Result<Option<Ending>, Trouble> {
        if self.known.tried {
            if let Some(task) = Box::pin(self.look(line)).await? {
                return Box::pin(self.task(task)).await;
            }
            if !line.is_idempotent() {
                let words = "it is not known whether the agent received the message; send it again if that is safe";
                return Err(Trouble::Over(Ending::fail(words)));
            }
        }
        self.known.tried = true;
        let names = line.agent().dialect().reach().client_names_tasks && self.known.task.is_none();
        // Never the caller's id: a task with that name may exist there already, and would be continued.
        let named = self.known.named.take().or_else(|| TaskRef::parse(&own_id(self.cx)).ok());
        self.known.named = named.filter(|_| names);
        self.put_down(None);
        if !self.cx.is_brief() {
            self.cx.commit().await?;
        }
        if self.known.named.is_none() {
            self.cx.awaits_answer();
        }
        let continues = line.agent().dialect().reach().continues;
        let mut request = send_message(self.message(continues));
        request.alias = self.known.named.as_ref().map(|name| name.to_string().into());
        // Other streams name the task late and report questions as answers; polls report the state.
        if line.agent().streams_faithfully() {
            let opening = Box::pin(line.stream(request, self.follow()));
            return match self.answered(opening).await? {
                Ok(events) => Box::pin(self.tail(line, events, None)).await,
                Err(error) => Box::pin(self.refused(line, error)).await,
            };
        }
        // The id of the remote task is worth more than an answer that a crash may cut off.
        request.configuration.return_immediately = true;
        self.ask(line, request).await
    }

    async fn ask(&mut self, line: &Line, request: SendMessage) -> Result<Option<Ending>, Trouble> {
        match self.answered(Box::pin(line.send(request))).await? {
            Ok(Answer::SentTask(task)) => self.task(*task).await,
            Ok(Answer::SentMessage(message)) => Ok(Some(self.direct_reply(*message))),
            Ok(_) => Err(Error::from(Fault::InvalidAgentResponse("neither a task nor a message".into())).into()),
            Err(error) => Box::pin(self.refused(line, error)).await,
        }
    }

    /// Handles a message that was not taken.
    async fn refused(&mut self, line: &Line, error: Error) -> Result<Option<Ending>, Trouble> {
        if error.cannot_have_arrived() || is_held(&error) || is_put_off(&error) {
            self.known.tried = false;
            self.shun(&error);
            return Err(error.into());
        }
        if has_changed(&error) && self.speak_otherwise(line) {
            self.known.tried = false;
            return Err(Trouble::Passing(FailedCall::untold(&error)));
        }
        // A server behind the one that answered may have taken it.
        if is_unreadable(&error) {
            return Err(Trouble::Passing(FailedCall::new(&error)));
        }
        if let Error::Fault { fault, transport: Some(_), .. } = &error {
            self.known.tried = false;
            self.known.attempts = 0;
            match (fault.code(), &self.known.task) {
                // Some agents choose their context ids themselves.
                (Code::InvalidParams, None) if !self.known.chooses_context => {
                    self.known.chooses_context = true;
                    return Err(Trouble::Passing(FailedCall::untold(&error)));
                }
                // The task went on without us, as tasks do that wait for an authorisation.
                (Code::UnsupportedOperation | Code::InvalidParams, Some(task)) => {
                    let task = line.task(task).await.map_err(|error| self.later(error))?;
                    // If the task was handed over, our message is still to be sent to the receiver.
                    if let Some(went) = went(&task.status, task.metadata.as_ref()) {
                        return Err(went.into());
                    }
                    if !task.status.state.is_interrupted() {
                        return self.task(task).await;
                    }
                }
                _ => {}
            }
        }
        Err(error.into())
    }

    /// An agent that does not speak as its card says is asked for its card again, then called in 0.1 if the card
    /// permits.
    fn speak_otherwise(&mut self, line: &Line) -> bool {
        self.misunderstood += 1;
        self.misunderstood == 1 || (self.misunderstood == 2 && line.try_the_first_version())
    }

    /// Nothing has begun at this replica, so the next attempt may go elsewhere; unless the replica has another
    /// interface.
    fn shun(&mut self, error: &Error) {
        let is_there = |replica: &Arc<Replica>| self.known.at.as_ref() == Some(&replica.place.url);
        if self.remote.replicas.iter().any(|replica| is_there(replica) && replica.has_another_way()) {
            return;
        }
        if !self.known.tried && self.known.task.is_none() && !is_held(error) {
            self.shunned.extend(self.known.at.clone());
        }
    }

    /// Searches for a message that may have arrived. Finding it proves something; not finding it proves nothing: agents
    /// answer without a task, name their task late, or keep no history. So a search does not count as an answer either.
    async fn look(&mut self, line: &Line) -> Result<Option<TheirTask>, Trouble> {
        let id = self.message_id();
        let heard = |task: &TheirTask| task.history.iter().any(|message| message.message_id == id);
        if let Some(task) = self.known.task.clone() {
            let task = line.task(&task).await.map_err(|error| self.later(error))?;
            // It asked and asks no more: the question was answered, and only our message can have done that.
            return Ok((heard(&task) || !task.status.state.is_interrupted()).then_some(task));
        }
        if let Some(named) = self.known.named.clone() {
            return match line.task(&named).await {
                Ok(task) => Ok(Some(task)),
                Err(error) if error.is_passing() => Err(error.into()),
                Err(_) => Ok(None),
            };
        }
        if !line.agent().dialect().reach().lists_tasks || self.known.chooses_context {
            return Ok(None);
        }
        let context_id = Some(context_id(self.cx));
        let listing = ListTasks { context_id, history_length: Some(100), ..ListTasks::default() };
        let tasks = match line.list(listing).await {
            Ok(Answer::Tasks { tasks, .. }) => tasks,
            Err(error) if error.is_passing() => return Err(error.into()),
            Ok(_) | Err(_) => return Ok(None),
        };
        for task in tasks.into_iter().take(LOOKED_AT_MAX) {
            if heard(&task) || task.history.is_empty() {
                let whole = line.task(&task.id).await.map_err(|error| self.later(error))?;
                if heard(&whole) {
                    return Ok(Some(whole));
                }
            }
        }
        Ok(None)
    }

    /// Continues a task that has our message.
    pub(super) async fn go_on(&mut self, line: &Line, task: TaskRef) -> Result<Option<Ending>, Trouble> {
        // A stream that brought nothing is not opened again before there is news.
        if self.quiet == 0 && line.agent().streams() && line.agent().dialect().reach().resubscribes {
            let after = self.known.last.clone();
            match line.resume(task.clone(), after.clone(), self.follow()).await {
                Ok(events) => return Box::pin(self.tail(line, events, after)).await,
                // Nothing to subscribe to: it has settled, or the agent cannot do this. A poll tells.
                Err(error @ Error::Fault { .. }) if !is_put_off(&error) => {}
                Err(error) => return Err(error.into()),
            }
        }
        let task = line.task(&task).await.map_err(|error| self.later(error))?;
        self.task(task).await
    }

    /// The failure of a call about a task that is at work there. Only the agent can end it; an answer that is
    /// unreadable, refused for now or broken leaves it as it is.
    pub(super) fn later(&mut self, error: Error) -> Trouble {
        match &error {
            Error::Fault { fault, transport: Some(_), .. } if fault.code() == Code::TaskNotFound => {
                Trouble::Over(Ending::fail("the agent does not know the task any more"))
            }
            Error::Refused(_) | Error::Usage(_) => error.into(),
            _ if is_held(&error) => error.into(),
            _ => Trouble::Passing(FailedCall::new(&error)),
        }
    }

    /// Follows a stream, which was to go on after an event if there was one.
    async fn tail(
        &mut self,
        line: &Line,
        mut events: Stream,
        after: Option<String>,
    ) -> Result<Option<Ending>, Trouble> {
        if self.known.attempts > 0 {
            // The agent is there; a crash of ours from here on is not held against it.
            self.known.attempts = 0;
            self.put_down(None);
            self.cx.commit().await?;
        }
        let mut numbers = Numbers::after(after);
        loop {
            // Thousands of turns wait here. So the awaited future is in this one once, futures around it hold a
            // reference, and what is done with the result is boxed.
            let next = {
                let mut next = pin!(events.next());
                match self.time_left() {
                    None => Ok(self.hear(next.as_mut()).await),
                    Some(left) => self.hear(tokio::time::timeout(left, next.as_mut())).await,
                }
            };
            let Ok(next) = next else { return Ok(None) };
            let said = match next {
                Ok(Some(said)) => said,
                Ok(None) => return Ok(None),
                Err(error) => return Err(self.broke(error)),
            };
            let last = events.number().map(str::to_owned);
            match numbers.takes(last.as_deref()) {
                Order::Next => self.broken = None,
                Order::Unknown => Box::pin(self.missed(&said)).await?,
                Order::Behind => {
                    self.doubt = true;
                    if !ends(&said) {
                        continue;
                    }
                }
            }
            self.known.streamed = true;
            if self.doubt
                && ends(&said)
                && let Some(task) = self.known.task.clone()
                && let Some(ending) = Box::pin(self.compare(line, &task)).await?
            {
                return Ok(Some(ending));
            }
            match Box::pin(self.event(said, last)).await {
                Ok(None) => {}
                Ok(Some(ending)) => {
                    events.close();
                    return Ok(Some(ending));
                }
                Err(moved @ Trouble::Moved(_)) => {
                    events.close();
                    return Err(moved);
                }
                Err(trouble) => return Err(trouble),
            }
        }
    }

    /// Awaits the next event. Earlier reports are committed meanwhile, and the checkpoint goes with them.
    async fn hear<T>(&self, next: impl Future<Output = T>) -> T {
        unhurried(next, || self.cx.leave(self.known.write())).await
    }

    /// The failure of a stream that ended early. What an agent says of another task, or in an unknown format, is no
    /// news of ours; once the remote task is known, it can be polled.
    fn broke(&mut self, error: Error) -> Trouble {
        if !self.known.sent || self.known.task.is_none() {
            return if is_unreadable(&error) { Trouble::Passing(FailedCall::new(&error)) } else { error.into() };
        }
        let lost = error.is_passing();
        let reason = if lost { "the stream from the agent broke off" } else { "what the agent told could not be used" };
        self.broken = Some(reason.into());
        match self.later(error) {
            // The agent was there a moment ago: the caller hears of it once the next attempt has failed as well.
            Trouble::Passing(failed) => Trouble::Passing(FailedCall { reason: None, ..failed }),
            other => other,
        }
    }

    /// Reports a gap before the first event of a stream that does not go on where the last one broke off. A whole task
    /// shows by itself what is new.
    async fn missed(&mut self, said: &TheirEvent) -> Result<(), Trouble> {
        if !matches!(said, TheirEvent::Task(_))
            && let Some(reason) = self.broken.take()
        {
            self.doubt = true;
            self.tell(self.cx.gap(reason)).await?;
        }
        Ok(())
    }

    /// Compares the reports with the remote task, before the end; returns the ending, if the task has one.
    async fn compare(&mut self, line: &Line, task: &TaskRef) -> Result<Option<Ending>, Trouble> {
        match line.task(task).await {
            Ok(task) if task.status.state.is_settled() => self.task(task).await,
            Ok(_) => Ok(None),
            Err(error) => {
                let why = format!("events came twice or out of order, and the agent could not be asked: {error}");
                self.tell(self.cx.gap(why)).await?;
                Ok(None)
            }
        }
    }

    /// The caller's message, as ours. Where a message cannot continue a task it is the next one of the conversation,
    /// and the task that it leads to is continued.
    fn message(&self, continues: bool) -> Message {
        let said = self.cx.message();
        let named = self.known.context.clone();
        Message {
            message_id: self.message_id(),
            context_id: named.or_else(|| (!self.known.chooses_context).then(|| context_id(self.cx))),
            task_id: self.known.task.clone().filter(|_| continues),
            role: said.role,
            parts: said.parts.clone(),
            metadata: outgoing(self.cx, said.metadata.as_ref()),
            // Extensions and references are between our caller and us.
            extensions: Vec::new(),
            reference_task_ids: Vec::new(),
        }
    }

    /// The id of the message that we send.
    fn message_id(&self) -> MessageId {
        MessageId::parse(&self.known.message).expect("a legal id was kept")
    }

    /// The client does not resume streams: the turn has to count and commit each break.
    fn follow(&self) -> Follow {
        Follow { pace: self.remote.pace(), resume: false, ..Follow::default() }
    }

    /// How long to wait for news.
    fn time_left(&self) -> Option<Duration> {
        let silence = self.remote.upstream.patience.silence?;
        Some(silence.saturating_sub(self.silent_for()).max(GRACE.min(silence)))
    }

    fn silent_for(&self) -> Duration {
        self.time_since(self.known.heard).saturating_sub(self.held)
    }

    /// Our task no longer waits for the remote one, so the engine cancels that until the agent acknowledges.
    pub(super) fn leave(&mut self) {
        if self.known.theirs().is_some() {
            self.cx.set_checkpoint(self.known.write());
            self.cx.owe_cancel();
        }
    }

    /// Whether the agent did not answer too often, or for too long.
    fn is_out_of_patience(&self) -> bool {
        self.has_no_attempt_left() || self.is_absent_for_too_long() || self.silence().is_some()
    }

    fn has_no_attempt_left(&self) -> bool {
        self.known.attempts >= self.remote.upstream.patience.attempts.max(1)
    }

    /// How long there was no news, where that is too long.
    fn silence(&self) -> Option<Duration> {
        let silence = self.remote.upstream.patience.silence?;
        (self.calls > 0 && self.silent_for() >= silence).then_some(silence)
    }

    /// Gives up if a limit is reached; returns the ending.
    fn give_up(&mut self) -> Option<Ending> {
        if !self.is_out_of_patience() {
            return None;
        }
        let attempts = self.known.attempts;
        let problem = self.problem.as_deref().unwrap_or("the server stopped each time");
        tracing::warn!(task = %self.cx.task_id(), agent = %self.remote.upstream.name, problem, "a remote agent is given up");
        if let Some(absent) = self.known.absent.as_ref().filter(|_| !self.has_begun()) {
            return Some(self.never_reached(absent));
        }
        self.leave();
        let why = match self.silence().filter(|_| !self.has_no_attempt_left()) {
            Some(silence) => format!("there was no news for {silence:?}"),
            None => format!("it was called {attempts} times without an answer"),
        };
        Some(Ending::fail(format!("the agent did not respond in time: {why}")))
    }

    fn pause(&self, asked: Option<Duration>) -> Duration {
        let first = self.remote.upstream.patience.pause;
        let own = match self.known.attempts {
            0 => {
                first.mul_f64(1.5_f64.powi(self.quiet.saturating_sub(STEADY).min(16).cast_signed())).min(PAUSE_MAX / 2)
            }
            failures => first * 2_u32.pow((failures - 1).min(6)),
        };
        let pause = own.max(asked.unwrap_or_default()).min(PAUSE_MAX);
        // The last attempt is made when the time to connect is over.
        pause.min(self.time_to_connect().filter(|left| !left.is_zero()).unwrap_or(PAUSE_MAX))
    }

    /// Puts the checkpoint and the time of the next call into the next step.
    pub(super) fn put_down(&mut self, pause: Option<Duration>) {
        self.cx.set_checkpoint(self.known.write());
        let later = |pause: Duration| {
            let millis = i64::try_from(pause.as_millis()).unwrap_or(i64::MAX);
            Timestamp::from_millis(self.cx.now().millis().saturating_add(millis))
        };
        self.cx.waits_for(Some(Continuation {
            url: self.known.at.clone().unwrap_or_else(|| self.remote.upstream.places[0].url.clone()),
            message: self.message_id().as_str().to_owned(),
            task: self.known.task.as_ref().map(ToString::to_string),
            context: self.known.context.as_ref().map(ToString::to_string),
            attempts: self.known.attempts,
            problem: self.problem.clone(),
            since: Timestamp::from_millis(self.known.since),
            heard: self.known.heard(),
            next: pause.map(later),
        }));
    }

    /// Ends a turn. The checkpoint stays for the next one, if the agent asked something.
    fn end(&mut self, ending: Ending) -> Ending {
        if ending.asks() {
            self.cx.set_checkpoint(self.known.write());
        }
        self.cx.waits_for(None);
        ending
    }
}

/// Whether an event settles its task.
fn ends(said: &TheirEvent) -> bool {
    said.state().is_some_and(TaskState::is_settled)
}
