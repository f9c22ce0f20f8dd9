//! One turn with an agent elsewhere: send once, follow, wait, give up.
//!
//! | After | Then |
//! |---|---|
//! | a call that cannot have arrived, or was put off by them | the same again, after a pause |
//! | a send whose fate nobody knows | look for its task; send again only if it is not there, or if that does no harm |
//! | a stream that broke | subscribe again, after the last event where they number them |
//! | a stream that brought nothing new, or cannot be had | ask for the task, at a slowing pace |
//! | too many calls in a row without an answer, or no news for too long | the task fails, and says so |

use super::RemoteAgent;
use super::known::{Known, context_id, message_id};
use super::trouble::{Trouble, is_put_off};
use crate::delegate::outgoing;
use sabir_client::{Agent as Line, Error, Events, Follow, send_message};
use sabir_engine::{Context, Continuation, Ending, Failure};
use sabir_proto::{
    Answer, CancelTask, Code, Fault, ListTasks, Message, SendMessage, TaskRef, Tenant, TheirTask, Timestamp,
};
use std::time::Duration;

/// The longest pause between two calls.
const PAUSE_MAX: Duration = Duration::from_secs(60);
/// Questions at a steady pace before it slows down.
const STEADY: u32 = 5;
/// Whoever comes back after a long time asks before it gives up, and waits this long for the answer.
const GRACE: Duration = Duration::from_secs(5);
/// How many of their tasks are looked through for our message.
const LOOKED_AT_MAX: usize = 20;

pub(super) struct Work<'a> {
    remote: &'a RemoteAgent,
    pub(super) cx: &'a mut Context,
    pub(super) known: Known,
    /// Why the last call failed, if it did.
    problem: Option<String>,
    /// Calls since the last news.
    quiet: u32,
    /// Calls at all.
    calls: u32,
}

/// What became of a message that may have arrived.
enum Fate {
    Arrived(Box<TheirTask>),
    Lost,
    Unknown,
}

impl<'a> Work<'a> {
    /// Begins a turn, or takes up one that was interrupted.
    pub(super) fn take_up(remote: &'a RemoteAgent, cx: &'a mut Context) -> Self {
        let mut known = Known::of(cx);
        if cx.attempt() > 1 {
            // Perhaps it was their answer that ended the last process, so this counts before it is made again.
            known.attempts += 1;
        }
        Self { remote, cx, known, problem: None, quiet: 0, calls: 0 }
    }

    pub(super) async fn run(mut self) -> Result<Ending, Failure> {
        if self.cx.attempt() > 1 {
            self.put_down(None);
            self.cx.commit().await?;
        }
        loop {
            if let Some(ending) = self.give_up().await {
                return Ok(self.end(ending));
            }
            let before = self.known.heard;
            let mut asked = None;
            self.calls += 1;
            match self.call().await {
                Ok(Some(ending)) | Err(Trouble::Over(ending)) => return Ok(self.end(ending)),
                Ok(None) => self.problem = None,
                Err(Trouble::Passing { why, after }) => {
                    self.known.attempts += 1;
                    (self.problem, asked) = (Some(why), after);
                }
                Err(Trouble::Ended) => return Err(sabir_engine::agent::Ended.into()),
            }
            self.quiet = if self.known.heard > before { 0 } else { self.quiet + 1 };
            let pause = self.pause(asked);
            self.put_down(Some(pause));
            self.cx.commit().await?;
            self.cx.sleep(pause).await;
        }
    }

    /// One call: what ended the turn, or nothing yet.
    async fn call(&mut self) -> Result<Option<Ending>, Trouble> {
        let line = self.remote.line().await?;
        match (self.known.sent, self.known.task.clone()) {
            (true, Some(task)) => self.go_on(&line, task).await,
            _ => self.send(&line).await,
        }
    }

    async fn send(&mut self, line: &Line) -> Result<Option<Ending>, Trouble> {
        if self.known.tried {
            match self.look(line).await? {
                Fate::Arrived(task) => return self.task(*task).await,
                Fate::Unknown if !self.remote.upstream.idempotent && !line.recognises_repeats() => {
                    let words = "it is not known whether the agent received the message; send it again if that is safe";
                    return Err(Trouble::Over(Ending::fail(words)));
                }
                Fate::Lost | Fate::Unknown => {}
            }
        }
        self.known.tried = true;
        self.put_down(None);
        self.cx.commit().await?;
        let mut request = send_message(self.message());
        if line.streams() {
            return match line.stream(request, self.follow()).await {
                Ok(events) => self.tail(events).await,
                Err(error) => self.refused(line, error).await,
            };
        }
        // Their task's name is worth more than an answer that a crash may cut off.
        request.configuration.return_immediately = true;
        self.ask(line, request).await
    }

    async fn ask(&mut self, line: &Line, request: SendMessage) -> Result<Option<Ending>, Trouble> {
        match line.send(request).await.map(|said| said.value) {
            Ok(Answer::SentTask(task)) => self.task(*task).await,
            Ok(Answer::SentMessage(message)) => Ok(Some(Ending::Reply(message.parts))),
            Ok(_) => Err(Error::from(Fault::InvalidAgentResponse("neither a task nor a message".into())).into()),
            Err(error) => self.refused(line, error).await,
        }
    }

    /// What it means that a message was not taken.
    async fn refused(&mut self, line: &Line, error: Error) -> Result<Option<Ending>, Trouble> {
        if error.cannot_have_arrived() || is_put_off(&error) {
            self.known.tried = false;
            return Err(error.into());
        }
        if let Error::Fault { fault, transport: Some(_), .. } = &error {
            self.known.tried = false;
            self.known.attempts = 0;
            match (fault.code(), &self.known.task) {
                // Some agents want to name their conversations themselves.
                (Code::InvalidParams, None) if !self.known.chooses_context => {
                    self.known.chooses_context = true;
                    return Err(Trouble::Passing { why: error.to_string(), after: None });
                }
                // It went on without us, as tasks do that wait for an authorisation.
                (Code::UnsupportedOperation | Code::InvalidParams, Some(task)) => {
                    let task = line.task(task).await?.value;
                    if !task.status.state.is_interrupted() {
                        return self.task(task).await;
                    }
                }
                _ => {}
            }
        }
        Err(error.into())
    }

    /// Looks what became of a message that may have arrived.
    async fn look(&mut self, line: &Line) -> Result<Fate, Trouble> {
        let id = message_id(self.cx);
        let heard = |task: &TheirTask| task.history.iter().any(|message| message.message_id == id);
        if let Some(task) = self.known.task.clone() {
            let task = line.task(&task).await?.value;
            self.known.attempts = 0;
            // It asked and asks no more: somebody has answered it, and it is nobody's but ours.
            if heard(&task) || !task.status.state.is_interrupted() {
                return Ok(Fate::Arrived(Box::new(task)));
            }
            return Ok(if task.history.is_empty() { Fate::Unknown } else { Fate::Lost });
        }
        if !line.dialect().reach().lists_tasks || self.known.chooses_context {
            return Ok(Fate::Unknown);
        }
        let context_id = Some(context_id(self.cx));
        let listing = ListTasks { context_id, history_length: Some(100), ..ListTasks::default() };
        let tasks = match line.list(listing).await.map(|said| said.value) {
            Ok(Answer::Tasks { tasks, .. }) => tasks,
            Err(error) if error.is_passing() => return Err(error.into()),
            Ok(_) | Err(_) => return Ok(Fate::Unknown),
        };
        self.known.attempts = 0;
        let mut unclear = false;
        for task in tasks.into_iter().take(LOOKED_AT_MAX) {
            if heard(&task) || task.history.is_empty() {
                let whole = line.task(&task.id).await?.value;
                if heard(&whole) {
                    return Ok(Fate::Arrived(Box::new(whole)));
                }
                unclear |= whole.history.is_empty();
            }
        }
        Ok(if unclear { Fate::Unknown } else { Fate::Lost })
    }

    /// Goes on with a task that has our message.
    async fn go_on(&mut self, line: &Line, task: TaskRef) -> Result<Option<Ending>, Trouble> {
        // A stream that brought nothing is not asked for again before there is news.
        if self.quiet == 0 && line.streams() && line.dialect().reach().resubscribes {
            match line.resume(task.clone(), self.known.last.clone(), self.follow()).await {
                Ok(events) => return self.tail(events).await,
                // Nothing to subscribe to: it has settled, or they cannot do this. The task tells.
                Err(error @ Error::Fault { .. }) if !is_put_off(&error) => {}
                Err(error) => return Err(error.into()),
            }
        }
        let task = line.task(&task).await?.value;
        self.task(task).await
    }

    async fn tail(&mut self, mut events: Events) -> Result<Option<Ending>, Trouble> {
        if self.known.attempts > 0 {
            // They are there; a crash of ours from here on is not held against them.
            self.known.attempts = 0;
            self.put_down(None);
            self.cx.commit().await?;
        }
        loop {
            let next = match self.time_left() {
                None => events.next().await,
                Some(left) => match tokio::time::timeout(left, events.next()).await {
                    Ok(next) => next,
                    Err(_) => return Ok(None),
                },
            };
            let Some(said) = next.transpose()? else { return Ok(None) };
            let last = events.resume_point().map(str::to_owned);
            if let Some(ending) = self.event(said.value, last).await? {
                return Ok(Some(ending));
            }
        }
    }

    /// The caller's message, as ours.
    fn message(&self) -> Message {
        let said = self.cx.message();
        let named = self.known.context.clone();
        Message {
            message_id: message_id(self.cx),
            context_id: named.or_else(|| (!self.known.chooses_context).then(|| context_id(self.cx))),
            task_id: self.known.task.clone(),
            role: said.role,
            parts: said.parts.clone(),
            metadata: outgoing(self.cx, said.metadata.as_ref()),
            // Both speak of things between our caller and us.
            extensions: Vec::new(),
            reference_task_ids: Vec::new(),
        }
    }

    /// Breaks are ours to mend, since each is to be counted and committed.
    fn follow(&self) -> Follow {
        Follow { pace: self.remote.pace(), resume: false, ..Follow::default() }
    }

    /// How long news may still be waited for.
    fn time_left(&self) -> Option<Duration> {
        let silence = self.remote.upstream.patience.silence?;
        Some(silence.saturating_sub(self.silent_for()).max(GRACE.min(silence)))
    }

    fn silent_for(&self) -> Duration {
        let millis = self.cx.now().millis().saturating_sub(self.known.heard);
        Duration::from_millis(u64::try_from(millis).unwrap_or(0))
    }

    /// The end of our patience.
    async fn give_up(&self) -> Option<Ending> {
        let patience = &self.remote.upstream.patience;
        let attempts = self.known.attempts;
        if attempts >= patience.attempts.max(1) {
            let problem = self.problem.as_deref().unwrap_or("the server stopped each time");
            tracing::warn!(task = %self.cx.task_id(), agent = %self.remote.upstream.url, problem, "a remote agent is given up");
            let words = format!("the agent did not respond in time: it was called {attempts} times without an answer");
            return Some(Ending::fail(words));
        }
        let silence = patience.silence.filter(|silence| self.calls > 0 && self.silent_for() >= *silence)?;
        if let Some(id) = self.known.task.clone() {
            let request = CancelTask { tenant: Tenant::none(), id, metadata: None };
            // A courtesy: nobody waits for what it does from here on.
            let _ = tokio::time::timeout(GRACE, self.remote.cancel(request)).await;
        }
        Some(Ending::fail(format!("the agent did not respond in time: there was no news for {silence:?}")))
    }

    fn pause(&self, asked: Option<Duration>) -> Duration {
        let first = self.remote.upstream.patience.pause;
        let own = match self.known.attempts {
            0 => {
                first.mul_f64(1.5_f64.powi(self.quiet.saturating_sub(STEADY).min(16).cast_signed())).min(PAUSE_MAX / 2)
            }
            failures => first * 2_u32.pow((failures - 1).min(6)),
        };
        own.max(asked.unwrap_or_default()).min(PAUSE_MAX)
    }

    /// Puts into the next step what is known, and when they are called next.
    pub(super) fn put_down(&mut self, pause: Option<Duration>) {
        self.cx.set_checkpoint(self.known.write());
        let later = |pause: Duration| {
            let millis = i64::try_from(pause.as_millis()).unwrap_or(i64::MAX);
            Timestamp::from_millis(self.cx.now().millis().saturating_add(millis))
        };
        self.cx.waits_for(Some(Continuation {
            url: self.remote.upstream.url.clone(),
            message: message_id(self.cx).as_str().to_owned(),
            task: self.known.task.as_ref().map(ToString::to_string),
            context: self.known.context.as_ref().map(ToString::to_string),
            attempts: self.known.attempts,
            problem: self.problem.clone(),
            since: Timestamp::from_millis(self.known.since),
            heard: self.known.heard(),
            next: pause.map(later),
        }));
    }

    /// The last words of a turn. What is known stays for the next one, if they asked something.
    fn end(&mut self, ending: Ending) -> Ending {
        self.cx.set_checkpoint(self.known.write());
        self.cx.waits_for(None);
        ending
    }
}
