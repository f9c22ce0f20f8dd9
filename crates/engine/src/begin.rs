//! Accepting a message: a new task, the next turn of one, or a repeat of a send we have seen.

use crate::agent::{Ending, TurnInfo};
use crate::engine::{Claimed, Core, Engine, Resident};
use crate::live::{LiveRef, rests};
use crate::machine;
use crate::record::{Recorder, agent_message, collapse};
use crate::retry::{Fate, Pending, RetryKey};
use crate::runner::Runner;
use crate::turn::Turn;
use crate::watch::{Until, Watch};
use bytes::Bytes;
use sabir_proto::{
    ContextId, Fault, FrozenEvent, FrozenTask, Message, Role, SendMessage, Sent, Seq, Stamp, Task, TaskId, TaskRef,
    TaskState, TaskStatus, Terms, Timestamp, View,
};
use sabir_store::{Answer, AppendError, Effect, Opening, Placement, RetryMark, Scope, Step, Stored};
use std::pin::Pin;
use std::sync::Arc;
use std::task::{Context, Poll, Waker, ready};
use std::time::Duration;

/// Where a send says how much history it wants.
const SEND_HISTORY: &str = "configuration.historyLength";

/// Whether somebody wants to see every event, or only how it ends.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Shape {
    Once,
    Stream,
}

/// How far accepting a message got.
enum Begun {
    /// A direct reply; no task was made.
    Reply(Message),
    /// Opened and at rest in one commit.
    Rested { id: TaskId, task: FrozenTask, events: Vec<FrozenEvent> },
    /// At work; the step of this send ends at `from`. A later turn is shown from `snapshot` on.
    Running { id: TaskId, live: LiveRef, from: Seq, snapshot: Option<FrozenEvent> },
    /// Seen before. A message to a task that exists waits for its first copy to be `heard`.
    Repeat { id: TaskId, heard: Option<RetryMark> },
}

/// A new task, as far as it gets without waiting.
enum Opened {
    Begun(Begun),
    /// At rest once the log has answered.
    Committing {
        answer: Answer<(), AppendError>,
        rested: Begun,
    },
}

/// Whether a send with a key was here before.
enum Seen<'a> {
    Before(Begun),
    First(Pending<'a>),
}

/// One send on its way in.
struct Incoming<'a> {
    core: &'a Arc<Core>,
    resident: &'a Resident,
    scope: Arc<Scope>,
    request: Box<SendMessage>,
    shape: Shape,
}

impl Engine {
    /// *Send*: answers when the task rests, or at once if the caller wants that.
    pub async fn send(
        &self,
        to: &Resident,
        scope: Arc<Scope>,
        request: Box<SendMessage>,
        terms: &Terms,
    ) -> Result<Sent, Fault> {
        let view = View::with_history(history_length(SEND_HISTORY, request.configuration.history_length)?);
        let at_once = request.configuration.return_immediately;
        let incoming = Incoming { core: &self.core, resident: to, scope: scope.clone(), request, shape: Shape::Once };
        match incoming.begin(terms).await? {
            Begun::Reply(message) => Ok(Sent::Message(Box::new(message))),
            Begun::Rested { task, .. } => Ok(Sent::Task(task, view)),
            Begun::Running { live, from, .. } if !at_once => {
                let mut live = live;
                Ok(Sent::Task(live.rested(from).await?, view))
            }
            Begun::Running { id, mut live, from, .. } => {
                live.committed(from).await?;
                Ok(Sent::Task(self.image(&scope, id).await?, view))
            }
            Begun::Repeat { id, heard } => {
                let live = self.core.live.enter(id);
                let stored = self.appeared(&scope, id, heard).await?;
                if at_once || rests(stored.state) {
                    return Ok(Sent::Task(self.fold(&stored)?, view));
                }
                Ok(Sent::Task(self.rest_of(live, &scope, &stored).await?, view))
            }
        }
    }

    /// *Stream*: every event from the first one on, until the task settles or asks.
    pub async fn stream(
        &self,
        to: &Resident,
        scope: Arc<Scope>,
        request: Box<SendMessage>,
        terms: &Terms,
    ) -> Result<Watch, Fault> {
        history_length(SEND_HISTORY, request.configuration.history_length)?;
        let follow_up = request.message.task_id.is_some();
        let incoming = Incoming { core: &self.core, resident: to, scope: scope.clone(), request, shape: Shape::Stream };
        match incoming.begin(terms).await? {
            Begun::Reply(message) => Ok(Watch::reply(message)),
            // Credentials come by another way, so the stream waits for what they lead to.
            Begun::Rested { id, task, .. } if task.state == TaskState::AuthRequired => {
                self.resume(&scope, id, None, Until::Question, false).await
            }
            Begun::Rested { events, .. } => Ok(Watch::replay(events)),
            Begun::Running { id, mut live, from, snapshot } => {
                // An error before the first event is an ordinary error, so the first commit is awaited here.
                live.committed(from).await?;
                let watch = Watch::follow(self.core.clone(), id, live, Seq(0), Until::Question);
                Ok(match snapshot {
                    Some(snapshot) => watch.starting_with(snapshot),
                    None => watch,
                })
            }
            Begun::Repeat { id, heard } => {
                self.appeared(&scope, id, heard).await?;
                self.resume(&scope, id, terms.last_event_id, Until::Question, follow_up).await
            }
        }
    }

    /// Waits for a task to rest that was at work when it was looked at. Who looked may have been late: then its owner is
    /// gone, and the log has what it left.
    async fn rest_of(&self, mut live: LiveRef, scope: &Scope, stored: &Stored) -> Result<FrozenTask, Fault> {
        if let Some(rest) = live.rested_or_released(stored.head).await? {
            return Ok(rest);
        }
        let stored = self.owned(scope, stored.id).await?;
        // Only a stop takes the owner of a task that does not rest. To show the task as it stands would look like an
        // answer, and would not be one.
        if rests(stored.state) { self.fold(&stored) } else { Err(stopping()) }
    }

    /// A task that a repeated send refers to, which may still be on its way into the log. Where the task was there
    /// before, the message may be: answering earlier would show the task as if nobody had spoken.
    async fn appeared(&self, scope: &Scope, id: TaskId, heard: Option<RetryMark>) -> Result<Stored, Fault> {
        self.core.metrics.sends_repeated.inc();
        for _ in 0..100 {
            match heard.map_or(Fate::Kept, |mark| self.core.retries.fate(mark, id)) {
                Fate::Kept => match self.owned(scope, id).await {
                    Err(Fault::TaskNotFound(_)) => {}
                    outcome => return outcome,
                },
                Fate::Pending => {}
                Fate::Gone => {
                    return Err(Fault::Unavailable("the same message was refused a moment ago; try again".into()));
                }
            }
            self.core.host.sleep(Duration::from_millis(20)).await;
        }
        Err(Fault::Unavailable("the same message is still being accepted; try again".into()))
    }
}

impl<'a> Incoming<'a> {
    async fn begin(mut self, terms: &Terms) -> Result<Begun, Fault> {
        self.check()?;
        let task = match self.request.message.task_id.clone() {
            None => None,
            Some(TaskRef::Id(id)) => Some(id),
            // Nobody can have given out such a name yet.
            Some(alias @ TaskRef::Alias(_)) => return Err(Fault::TaskNotFound(alias)),
        };
        let key = RetryKey::of(&self.scope, task, terms.idempotency_key.as_deref(), &self.request.message);
        if terms.last_event_id.is_some() && self.shape == Shape::Stream {
            return self.find(key, task).await;
        }
        let id = task.unwrap_or_else(|| self.core.new_id());
        let pending = match key {
            None => None,
            Some(key) => match Box::pin(self.recognise(key, task, id)).await? {
                Seen::Before(repeat) => return Ok(repeat),
                Seen::First(pending) => Some(pending),
            },
        };
        let begun = match task {
            None => match self.open(id, key)? {
                Opened::Begun(begun) => begun,
                Opened::Committing { answer, rested } => {
                    let outcome = Outcome { core: self.core, answer: Some(answer), pending };
                    outcome.await.map_err(|error| self.core.append_fault("opening a task", &error))?;
                    return Ok(rested);
                }
            },
            Some(id) => Box::pin(self.go_on(id, key)).await?,
        };
        // What never became a step must not make its retry wait for it; what did is the runner's to keep or forget.
        if let (Begun::Running { .. }, Some(pending)) = (&begun, pending) {
            pending.hand_on();
        }
        Ok(begun)
    }

    fn check(&self) -> Result<(), Fault> {
        let (message, limits) = (&self.request.message, &self.core.limits);
        if self.core.live.is_stopping() {
            return Err(stopping());
        }
        if message.role != Role::User {
            return Err(Fault::invalid("message.role", "a message to an agent has the role ROLE_USER"));
        }
        if message.parts.is_empty() {
            return Err(Fault::invalid("message.parts", "a message has at least one part"));
        }
        if message.parts.len() > limits.parts_max {
            let problem = format!("{} parts, over the limit of {}", message.parts.len(), limits.parts_max);
            return Err(Fault::invalid("message.parts", problem));
        }
        if self.request.configuration.task_push_notification_config.is_some() && !self.resident.push {
            return Err(Fault::PushNotificationNotSupported);
        }
        if let Some(config) = &self.request.configuration.task_push_notification_config {
            crate::push::check(config, "configuration.taskPushNotificationConfig.")?;
        }
        if self.core.live.running() >= limits.live_tasks_max {
            return Err(Fault::Exhausted(format!(
                "{} tasks are at work already; try again later",
                limits.live_tasks_max
            )));
        }
        Ok(())
    }

    /// The task of a stream that is taken up again. Not found is an error, never a second run.
    async fn find(&self, key: Option<RetryKey>, task: Option<TaskId>) -> Result<Begun, Fault> {
        let header = "Last-Event-ID";
        let Some(key) = key else {
            let problem = "a send can only be taken up again with an Idempotency-Key, or a UUID or ULID as messageId";
            return Err(Fault::invalid(header, problem));
        };
        let gone =
            || Fault::invalid(header, "the message it belongs to is not known here any more; get the task instead");
        let stamp = self.core.stamp();
        if key.explicit {
            let row = self.core.log.explicit_retry(key.mark.key, stamp).await;
            let row = row.map_err(|e| self.core.store_fault("looking up a retry key", &e))?;
            let id = row.filter(|kept| kept.mark.digest == key.mark.digest).map(|kept| kept.task);
            return id.map(|id| Begun::Repeat { id, heard: None }).ok_or_else(gone);
        }
        let id = self.core.retries.find(key.mark, stamp).map(|known| known.task).ok_or_else(gone)?;
        Ok(Begun::Repeat { id, heard: task.map(|_| key.mark) })
    }

    /// Recognises a repeat, or remembers this send as `id`'s.
    async fn recognise(&self, key: RetryKey, task: Option<TaskId>, id: TaskId) -> Result<Seen<'a>, Fault> {
        let core = self.core;
        let (retries, at) = (&core.retries, core.stamp());
        let (known, digest) = match retries.begin(key.mark, id, at) {
            Err(known) => (known.task, known.digest),
            Ok(pending) if key.explicit => {
                let row = core.log.explicit_retry(key.mark.key, at).await;
                let row = row.map_err(|e| core.store_fault("looking up a retry key", &e))?;
                let Some(kept) = row else { return Ok(Seen::First(pending)) };
                // What the log says replaces what we took for granted a moment ago, or the message that has the key
                // would be refused from now on.
                retries.learn(&kept, at);
                (kept.task, kept.mark.digest)
            }
            Ok(pending) => return Ok(Seen::First(pending)),
        };
        if digest == key.mark.digest {
            retries.touch(key.mark, at);
            return Ok(Seen::Before(Begun::Repeat { id: known, heard: task.map(|_| key.mark) }));
        }
        if key.explicit {
            return Err(Fault::RetryConflict);
        }
        // A message id that was used for something else: whoever does that did not mean a retry.
        Ok(Seen::First(retries.replace(key.mark, id, at)))
    }

    /// Opens a task. Not `async`, so that of all this only the answer of the log is held while the commit is awaited: the
    /// future of a send is small, and every request pays for its size.
    fn open(&mut self, id: TaskId, key: Option<RetryKey>) -> Result<Opened, Fault> {
        let (core, stamp) = (self.core, id.stamp());
        let message = &mut self.request.message;
        let context = message.context_id.get_or_insert_with(|| ContextId::new(stamp, core.host.random())).clone();
        message.task_id = Some(id.into());
        let mut step = opening_step(id, self.scope.clone(), context.clone(), self.resident.push);
        keep_key(&mut step, key, stamp, core.limits.explicit_retry_time);
        self.inline_push(&mut step);
        let status = TaskStatus { state: TaskState::Submitted, message: None, timestamp: Some(stamp.time()) };
        let history = vec![self.request.message.clone()];
        let mut task = Task { id, context_id: context, status, metadata: None, history, artifacts: Vec::new() };
        let mut turn = self.turn(id, &task.context_id, (Seq(0), 1), None, None);
        let mut ending = None;
        if self.resident.agent.any_nature().instant {
            ending = poll_once(&mut turn);
        }
        core.metrics.tasks_opened.inc();
        if let (Some(ended), Shape::Once) = (&ending, self.shape) {
            let (drafts, checkpoint) = turn.outlet.take();
            step.checkpoint = checkpoint;
            if let (Ending::Reply(parts), true) = (ended, drafts.is_empty() && !self.request.wants_task) {
                return Ok(Opened::Begun(Begun::Reply(self.direct(parts.clone(), task.context_id))));
            }
            collapse(core, &mut task, drafts, ending.take().unwrap_or_else(Ending::complete));
            return Ok(self.commit_whole(step, &task));
        }
        let (drafts, checkpoint) = turn.outlet.take();
        if let (Some(Ending::Reply(parts)), true) = (&ending, drafts.is_empty() && !self.request.wants_task) {
            return Ok(Opened::Begun(Begun::Reply(self.direct(parts.clone(), task.context_id))));
        }
        let mut recorder = Recorder::new(task, Seq(0), self.resident.push);
        recorder.open();
        recorder.add(core, drafts);
        let ended = ending.is_some();
        if let Some(ending) = ending {
            recorder.end(core, ending);
        }
        let recorded = recorder.step(checkpoint);
        let step = Step {
            turn: (!ended).then_some((Seq(0), 1)),
            opening: step.opening,
            retry: step.retry,
            effects: step.effects,
            ..recorded
        };
        if ended {
            let task = step.snapshot.clone().unwrap_or_else(|| FrozenTask::freeze(&recorder.task));
            let events = step.events.clone();
            let answer = core.log.append(step);
            return Ok(Opened::Committing { answer, rested: Begun::Rested { id, task, events } });
        }
        let live = core.live.enter(id);
        let Ok(claimed) = Claimed::take(live) else { return Err(core.internal("opening a task", &"its id is taken")) };
        Ok(Opened::Begun(self.run(claimed, recorder, turn, step, (Seq(0), 1), None)))
    }

    /// A task that opened and came to rest before anybody saw it: one event, and if it settled one row.
    fn commit_whole(&self, mut step: Step, task: &Task) -> Opened {
        let frozen = FrozenTask::freeze(task);
        step.placement = Some(Placement { state: frozen.state, position: task.id.stamp() });
        if frozen.state.is_settled() {
            step.snapshot = Some(frozen.clone());
        } else {
            step.events.push(FrozenEvent::of_task(Seq(1), &frozen));
        }
        let answer = self.core.log.append(step);
        Opened::Committing { answer, rested: Begun::Rested { id: task.id, task: frozen, events: Vec::new() } }
    }

    /// The next turn of a task that waits for its caller.
    async fn go_on(&mut self, id: TaskId, key: Option<RetryKey>) -> Result<Begun, Fault> {
        let core = self.core;
        // Asked twice: first so that a stranger cannot so much as touch the task, then as its owner.
        self.acceptable(id).await?;
        let claimed = Claimed::take(core.live.enter(id)).map_err(|owned| {
            let problem = || format!("task {id} is at work; send when it asks for input, or cancel it");
            owned.why_put_off().unwrap_or_else(|| Fault::UnsupportedOperation(problem()))
        })?;
        let (stored, task) = self.acceptable(id).await?;
        let message = &mut self.request.message;
        message.context_id = Some(task.context_id.clone());
        message.task_id = Some(id.into());
        let (heard, number) = (message.clone(), (stored.head, 1));
        let checkpoint = stored.progress.checkpoint.clone();
        let mut turn = self.turn(id, &task.context_id, number, Some(Box::new(task.clone())), checkpoint);
        let mut recorder = Recorder::new(task, stored.head, self.resident.push);
        recorder.status(core, TaskState::Working, Vec::new(), Some(heard));
        // The caller has seen the beginning; it gets the task as it stands with its message taken in, then what follows.
        let snapshot = (self.shape == Shape::Stream)
            .then(|| FrozenEvent::of_task(recorder.head, &FrozenTask::freeze(&recorder.task)));
        let mut checkpoint = None;
        if self.resident.agent.any_nature().instant {
            let ending = poll_once(&mut turn);
            let (drafts, left) = turn.outlet.take();
            checkpoint = left;
            recorder.add(core, drafts);
            if let Some(ending) = ending {
                recorder.end(core, ending);
            }
        }
        let mut step = recorder.step(checkpoint);
        step.turn = Some(number);
        let at = step.placement.map_or_else(|| core.stamp(), |p| p.position);
        keep_key(&mut step, key, at, core.limits.explicit_retry_time);
        self.inline_push(&mut step);
        Ok(self.run(claimed, recorder, turn, step, number, snapshot))
    }

    /// The task, if this message may continue it.
    async fn acceptable(&self, id: TaskId) -> Result<(Stored, Task), Fault> {
        let engine = Engine { core: self.core.clone() };
        let stored = engine.owned(&self.scope, id).await?;
        if stored.state.is_settled() {
            return Err(Fault::TaskSettled { id: id.into(), state: stored.state });
        }
        let task = machine::thaw(&stored).ok_or_else(|| self.core.internal("reading a task", &"damaged record"))?;
        if self.request.message.context_id.as_ref().is_some_and(|c| *c != task.context_id) {
            return Err(Fault::invalid("message.contextId", "is not the context of the task in message.taskId"));
        }
        if !stored.state.is_interrupted() && !self.core.live.enter(id).is_running() {
            let problem = format!("task {id} is {}; it takes messages only when it asks for input", stored.state);
            return Err(Fault::UnsupportedOperation(problem));
        }
        if task.history.len() >= self.core.limits.history_messages_max {
            let most = self.core.limits.history_messages_max;
            return Err(Fault::Exhausted(format!("a task has at most {most} messages; open a new one in its context")));
        }
        Ok((stored, task))
    }

    /// Hands a turn to a runner, before anybody waits for anything: a caller that leaves never cancels an agent.
    fn run(
        &self,
        claimed: Claimed,
        recorder: Recorder,
        turn: Turn,
        first: Step,
        number: (Seq, u32),
        snapshot: Option<FrozenEvent>,
    ) -> Begun {
        let (id, from) = (first.task, first.head());
        let runner = Runner {
            core: self.core.clone(),
            live: claimed.into_live(),
            recorder,
            turn,
            first: Some(Box::new(first)),
            number,
        };
        let live = self.core.live.enter(id);
        self.core.host.spawn(Box::pin(runner.run()));
        Begun::Running { id, live, from, snapshot }
    }

    fn turn(
        &self,
        id: TaskId,
        context: &ContextId,
        number: (Seq, u32),
        before: Option<Box<Task>>,
        checkpoint: Option<Bytes>,
    ) -> Turn {
        let info = TurnInfo {
            task: id,
            context: context.clone(),
            turn: number.0.0,
            attempt: number.1,
            message: self.request.message.clone(),
            before,
            host: self.core.host.clone(),
        };
        Turn::new(self.resident.agent.clone(), Arc::new(info), checkpoint, &self.core.limits)
    }

    fn direct(&self, parts: Vec<sabir_proto::Part>, context: ContextId) -> Message {
        let mut message = agent_message(self.core, parts);
        message.context_id = Some(context);
        message
    }

    fn inline_push(&mut self, step: &mut Step) {
        if let Some(config) = self.request.configuration.task_push_notification_config.take() {
            let config = crate::push::with_id(self.core, config);
            step.effects.push(Effect::PutPush { config, configs_max: self.core.limits.push_configs_max });
        }
    }
}

/// Polls a turn once, in place; `None` if it has to wait for something. Whoever takes the turn over polls it again at
/// once, so nobody needs to be woken by this poll.
fn poll_once(turn: &mut Turn) -> Option<Ending> {
    match turn.poll(&mut Context::from_waker(Waker::noop())) {
        Poll::Ready(ending) => Some(ending),
        Poll::Pending => None,
    }
}

fn opening_step(id: TaskId, scope: Arc<Scope>, context: ContextId, notify: bool) -> Step {
    Step {
        task: id,
        opening: Some(Opening { scope, context }),
        after: Seq(0),
        events: Vec::new(),
        snapshot: None,
        placement: None,
        turn: None,
        checkpoint: None,
        retry: None,
        notify,
        effects: Vec::new(),
    }
}

/// An opening on its way into the log. A caller that leaves does not take the outcome with it: if the step is refused
/// after that, the send must be free to come again.
struct Outcome<'a> {
    core: &'a Arc<Core>,
    answer: Option<Answer<(), AppendError>>,
    pending: Option<Pending<'a>>,
}

impl Future for Outcome<'_> {
    type Output = Result<(), AppendError>;

    fn poll(mut self: Pin<&mut Self>, cx: &mut Context<'_>) -> Poll<Self::Output> {
        let answer = self.answer.as_mut().expect("an outcome is polled to its end only once");
        let outcome = ready!(Pin::new(answer).poll(cx));
        self.answer = None;
        if let (Ok(()), Some(pending)) = (&outcome, self.pending.take()) {
            pending.hand_on();
        }
        Poll::Ready(outcome)
    }
}

impl Drop for Outcome<'_> {
    fn drop(&mut self) {
        if let (Some(answer), Some(pending)) = (self.answer.take(), self.pending.take()) {
            let (core, (mark, task)) = (self.core.clone(), pending.hand_on());
            let forget = async move {
                if answer.await.is_err() {
                    core.retries.forget(mark, task);
                }
            };
            self.core.host.spawn(Box::pin(forget));
        }
    }
}

fn stopping() -> Fault {
    Fault::Unavailable("the server is stopping; send it again".into())
}

/// An implicit key is a column of the step, an explicit one a row of its own.
fn keep_key(step: &mut Step, key: Option<RetryKey>, at: Stamp, time: Duration) {
    let Some(RetryKey { mark, explicit }) = key else { return };
    if explicit {
        step.effects.push(Effect::Key { mark, at, until: later(at, time) });
    } else {
        let mark: RetryMark = mark;
        step.retry = Some(mark);
    }
}

fn later(at: Stamp, time: Duration) -> Stamp {
    let time = i64::try_from(time.as_millis()).unwrap_or(i64::MAX);
    Stamp::first_of(Timestamp::from_millis(at.time().millis().saturating_add(time)))
}

/// `historyLength`: absent is all, negative is an error.
pub(crate) fn history_length(field: &str, wanted: Option<i32>) -> Result<Option<u32>, Fault> {
    wanted.map(|n| u32::try_from(n).map_err(|_| Fault::invalid(field, "must not be negative"))).transpose()
}
