//! Incoming messages: opening a new task, continuing one, or recognising a repeated send.

mod answer;
mod direct;

use crate::agent::{Ending, TurnInfo};
use crate::engine::{Claimed, Core, Engine, Resident};
use crate::hold;
use crate::kin::{LINEAGE, Lineage};
use crate::live::{LiveRef, rests};
use crate::moment::Moment;
use crate::record::{Recorder, agent_message, collapse};
use crate::repeat::{Outcome, Seen, keep_key};
use crate::retry::{Pending, RetryKey, Stage};
use crate::runner::Runner;
use crate::turn::Turn;
use crate::watch::{Until, Watch};
use bytes::Bytes;
use sabir_proto::{
    ContextId, Fault, FrozenEvent, FrozenTask, HANDOFF, Message, Role, SendMessage, Sent, Seq, Task, TaskId, TaskRef,
    TaskState, TaskStatus, Terms, View, transfer,
};
use sabir_store::{Answer, AppendError, Birth, Effect, Opening, Placement, RetryMark, Scope, Step};
use std::sync::{Arc, Mutex, OnceLock};
use std::task::{Context, Poll, Waker};

/// The request field that limits the history in the response.
const SEND_HISTORY: &str = "configuration.historyLength";

/// Whether the sender wants every event, or only the result.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Shape {
    Once,
    Stream,
}

/// The state of a send once its message was accepted.
pub(crate) enum Begun {
    /// A direct reply; no task was made.
    Reply(Message),
    /// Opened and at rest in one commit.
    Rested { id: TaskId, task: FrozenTask, events: Vec<FrozenEvent> },
    /// At work; the step of this send ends at `from`. A stream of a later turn begins with `snapshot`.
    Running { id: TaskId, live: LiveRef, from: Seq, snapshot: Option<FrozenEvent> },
    /// A repeated send. One to an existing task waits until its first copy is in the log, by the key in `heard`.
    Repeat { id: TaskId, heard: Option<RetryMark> },
}

/// A new task before its commit is awaited.
pub(crate) enum Opened {
    Begun(Begun),
    /// At rest as soon as the log confirms.
    Committing {
        answer: Answer<(), AppendError>,
        rested: Begun,
    },
}

/// A new task that is not stored yet.
pub(crate) struct Unopened {
    step: Step,
    task: Task,
    pub(crate) turn: Turn,
}

/// The task that a send is for.
#[derive(Debug, Clone)]
pub(crate) enum Target {
    /// A new task, possibly with an alias. Boxed, since few have one and every send makes room for it.
    Open(Option<Box<Effect>>),
    /// An existing task that waits for its caller.
    Continue(TaskId),
}

/// A message that is being accepted.
pub(crate) struct Incoming<'a> {
    pub(crate) core: &'a Arc<Core>,
    pub(crate) resident: &'a Resident,
    pub(crate) scope: Arc<Scope>,
    pub(crate) request: Box<SendMessage>,
    shape: Shape,
    /// The dialect it came in.
    dialect: &'static str,
    /// The parent link of the new task, if it is a child.
    birth: Option<Box<Birth>>,
    /// The lineage of the new task; `None` for nearly all.
    pub(crate) lineage: Option<Box<Lineage>>,
    /// The lineage to store in the message, where it came in a header or from an outbound id.
    pub(crate) unsaid: Option<serde_json::Value>,
    /// Whether the caller supports the handoff extension.
    follows: bool,
    /// An agent here sends it on behalf of a task of the same caller, whose own message was let in before.
    is_internal: bool,
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
        let takes_message = direct::takes_message(to, &request);
        let sent = |task| direct::sent(task, view, takes_message);
        let (scoped, dialect) = (scope.clone(), terms.dialect);
        let incoming = Incoming::new(self, to, scoped, request, Shape::Once, dialect);
        match incoming.begin(terms).await? {
            Begun::Reply(message) => Ok(Sent::Message(Box::new(message))),
            Begun::Rested { task, .. } => Ok(sent(task)),
            Begun::Running { live, from, .. } if !at_once => {
                let mut live = live;
                Ok(sent(live.rested(from).await?))
            }
            Begun::Running { id, mut live, from, .. } => {
                live.committed(from).await?;
                Ok(Sent::Task(self.image(&scope, id).await?, view))
            }
            Begun::Repeat { id, heard } => {
                let live = self.core.live.enter(id);
                let stored = self.appeared(&scope, id, heard).await?;
                if at_once || rests(stored.state) {
                    return Ok(sent(self.fold(&stored)?));
                }
                Ok(sent(self.rest_of(live, &scope, &stored).await?))
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
        // With an alias it is unknown later whether this send opened the task; a snapshot is right either way.
        let follow_up = request.message.task_id.is_some() || request.alias.is_some();
        let takes_message = direct::takes_message(to, &request);
        let (scoped, dialect) = (scope.clone(), terms.dialect);
        let incoming = Incoming::new(self, to, scoped, request, Shape::Stream, dialect);
        let begun = incoming.begin(terms).await?;
        if takes_message && let Some(message) = Box::pin(self.direct_reply(&begun)).await? {
            return Ok(Watch::reply(message));
        }
        match begun {
            Begun::Reply(message) => Ok(Watch::reply(message)),
            // Credentials arrive outside the stream, so the stream waits for what follows them.
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
                let stored = self.appeared(&scope, id, heard).await?;
                if takes_message
                    && terms.last_event_id.is_none()
                    && let Some(message) = self.direct_reply_again(&stored)?
                {
                    return Ok(Watch::reply(message));
                }
                self.resume(&scope, id, terms.last_event_id, Until::Question, follow_up).await
            }
        }
    }
}

impl Engine {
    /// Opens a child of another task, and returns once it is in the log.
    pub(crate) async fn bear(
        &self,
        to: &Resident,
        scope: Arc<Scope>,
        request: Box<SendMessage>,
        birth: Box<Birth>,
    ) -> Result<TaskId, Fault> {
        let mut incoming = Incoming::new(self, to, scope, request, Shape::Stream, "");
        (incoming.birth, incoming.is_internal) = (Some(birth), true);
        self.taken_in(incoming.begin(&Terms::default()).await?).await
    }

    /// Answers the question of a child; with the same key only once.
    pub(crate) async fn reply(
        &self,
        to: &Resident,
        scope: Arc<Scope>,
        request: Box<SendMessage>,
        key: String,
    ) -> Result<(), Fault> {
        let mut incoming = Incoming::new(self, to, scope.clone(), request, Shape::Stream, "");
        incoming.is_internal = true;
        let terms = Terms { idempotency_key: Some(key), ..Terms::default() };
        match incoming.begin(&terms).await? {
            Begun::Repeat { id, heard } => self.appeared(&scope, id, heard).await.map(drop),
            begun => self.taken_in(begun).await.map(drop),
        }
    }

    async fn taken_in(&self, begun: Begun) -> Result<TaskId, Fault> {
        match begun {
            Begun::Rested { id, .. } => Ok(id),
            Begun::Running { id, mut live, from, .. } => live.committed(from).await.map(|()| id),
            Begun::Reply(_) | Begun::Repeat { .. } => Err(self.core.internal("opening a task", &"it is no task")),
        }
    }
}

impl<'a> Incoming<'a> {
    fn new(
        engine: &'a Engine,
        resident: &'a Resident,
        scope: Arc<Scope>,
        request: Box<SendMessage>,
        shape: Shape,
        dialect: &'static str,
    ) -> Self {
        Self {
            core: &engine.core,
            resident,
            scope,
            request,
            shape,
            dialect,
            birth: None,
            lineage: None,
            unsaid: None,
            follows: false,
            is_internal: false,
        }
    }

    async fn begin(mut self, terms: &Terms) -> Result<Begun, Fault> {
        self.check()?;
        if let Some(birth) = &self.birth {
            self.lineage = Some(Box::new(Lineage::of(&birth.kin)));
            // A child is identified by its parent's key, which is stored as long as the child.
            return self.begin_at(Target::Open(None), None).await;
        }
        let says = self.request.message.metadata.as_ref().is_some_and(|m| m.as_str().contains(LINEAGE));
        let unsaid = if says { None } else { self.known_otherwise(terms) };
        if says || unsaid.is_some() {
            Box::pin(self.heed(unsaid)).await?;
        }
        self.follows = hold::follows(&terms.extensions);
        let handed = hold::read(&self.request.message)?;
        if let Some(transfer::Incoming::Activate(order)) = &handed {
            return Box::pin(self.activate(order)).await;
        }
        let to = self.addressee();
        let explicit = terms.idempotency_key.clone().or_else(|| hold::retry_key(handed.as_ref()?));
        let key = RetryKey::of(
            &self.scope,
            to.as_ref(),
            explicit.as_deref().map(|text| (text, terms.sent_at)),
            &self.request.message,
        );
        if terms.last_event_id.is_some() && self.shape == Shape::Stream {
            return self.find_again(key).await;
        }
        match to {
            None => self.begin_at(Target::Open(None), key).await,
            Some(to) => Box::pin(self.begin_named(&to, key)).await,
        }
    }

    pub(crate) async fn begin_at(&mut self, target: Target, key: Option<RetryKey>) -> Result<Begun, Fault> {
        let (id, stage) = match &target {
            Target::Open(_) => (self.core.new_id(), Stage::Opens),
            Target::Continue(id) => (*id, Stage::Continues),
        };
        let pending = match key {
            None => None,
            Some(key) => match Box::pin(self.recognise(key, id, stage)).await? {
                Seen::Before(repeat) => return Ok(repeat),
                Seen::First(pending) => Some(pending),
            },
        };
        // Behind the retry keys: a repeat stores nothing, and gets the answer that is stored.
        self.check_stored_bytes()?;
        let mut pending = pending;
        let begun = match target {
            Target::Open(name) => match self.open(id, key, name, &mut pending).await? {
                Opened::Begun(begun) => begun,
                Opened::Committing { answer, rested } => {
                    let outcome = Outcome { core: self.core, answer: Some(answer), pending };
                    outcome.await.map_err(|error| self.core.append_fault("opening a task", &error))?;
                    return Ok(rested);
                }
            },
            Target::Continue(id) => Box::pin(self.go_on(id, key)).await?,
        };
        // A send without a step must not make its retry wait; with a step, the runner confirms or forgets the key.
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
        if let Some(Err(problem)) = self.request.alias.as_deref().map(TaskRef::parse) {
            return Err(Fault::invalid("id", problem.to_string()));
        }
        if self.request.configuration.task_push_notification_config.is_some() && !self.resident.push {
            return Err(Fault::PushNotificationNotSupported);
        }
        if let Some(config) = &self.request.configuration.task_push_notification_config {
            crate::push::check(self.core, config, "configuration.taskPushNotificationConfig.")?;
        }
        if self.core.live.running() >= limits.live_tasks_max {
            return Err(Fault::Exhausted(format!(
                "{} tasks are at work already; try again later",
                limits.live_tasks_max
            )));
        }
        Ok(())
    }

    /// Refuses what would be stored for a caller that has stored as much as it may. An agent that works for it may finish: what
    /// it stores is bounded by the limits of its task.
    fn check_stored_bytes(&self) -> Result<(), Fault> {
        let max = self.core.limits.stored_bytes_max;
        if max == 0 || self.is_internal {
            return Ok(());
        }
        let stored = self.core.log.stored_bytes(&self.scope.caller);
        if stored < max {
            return Ok(());
        }
        self.core.metrics.sends_over_stored_bytes.inc();
        Err(Fault::Exhausted(format!(
            "your tasks have {stored} bytes stored here, and {max} are allowed; you can read and cancel them, and send again \
             when the server has deleted old ones"
        )))
    }

    /// Opens a task, inline or with a runner, as its agent declares.
    async fn open(
        &mut self,
        id: TaskId,
        key: Option<RetryKey>,
        name: Option<Box<Effect>>,
        pending: &mut Option<Pending<'a>>,
    ) -> Result<Opened, Fault> {
        self.resident.agent.any_admits()?;
        if self.resident.agent.any_is_carried() {
            return Box::pin(self.carry(id, key, name)).await;
        }
        if self.is_brief() {
            let unopened = self.draft(id, key, name);
            return Moment::of(self, unopened, pending).await;
        }
        self.start(id, key, name)
    }

    /// Opens a task whose first turn runs within the sender's request, to its end or until it asks for a commit. From
    /// there on it is a task like any other.
    async fn carry(&mut self, id: TaskId, key: Option<RetryKey>, name: Option<Box<Effect>>) -> Result<Opened, Fault> {
        let mut unopened = self.draft(id, key, name);
        let ending = std::future::poll_fn(|cx| match unopened.turn.poll(cx) {
            Poll::Ready(ending) => Poll::Ready(Some(ending)),
            Poll::Pending if unopened.turn.outlet.wants_commit() => Poll::Ready(None),
            Poll::Pending => Poll::Pending,
        })
        .await;
        self.settle(unopened, ending)
    }

    /// Opens a task, polling an instant agent once. Not `async`, so that only the log's answer is held while the commit
    /// is awaited: the future of a send is small, and every request pays for its size.
    fn start(&mut self, id: TaskId, key: Option<RetryKey>, name: Option<Box<Effect>>) -> Result<Opened, Fault> {
        let mut unopened = self.draft(id, key, name);
        let instant = self.resident.agent.any_nature().instant;
        let ending = if instant { poll_once(&mut unopened.turn) } else { None };
        self.settle(unopened, ending)
    }

    /// Writes the handoff extension into the message where only a header named it. Otherwise a turn that resumes after
    /// a crash would not know that its caller supports handoffs.
    fn name_what_it_follows(&mut self) {
        let extensions = &mut self.request.message.extensions;
        if self.follows && !hold::follows(extensions) {
            extensions.push(HANDOFF.to_owned());
        }
    }

    /// Drafts a new task with its first turn, without storing it.
    fn draft(&mut self, id: TaskId, key: Option<RetryKey>, name: Option<Box<Effect>>) -> Unopened {
        let (core, stamp) = (self.core, id.stamp());
        self.name_what_it_follows();
        let message = &mut self.request.message;
        if let Some(claim) = self.unsaid.take() {
            message.metadata = Some(transfer::with_member(message.metadata.as_ref(), LINEAGE, claim));
        }
        let context = message.context_id.get_or_insert_with(|| ContextId::new(stamp, core.host.random())).clone();
        message.task_id = Some(id.into());
        let mut step = opening_step(id, self.scope.clone(), context.clone(), self.birth.take());
        step.notify = self.resident.push.then(|| stamp.time());
        keep_key(&mut step, key, stamp, core.limits.explicit_retry_time);
        step.effects.extend(name.map(|name| *name));
        self.inline_push(&mut step);
        let status = TaskStatus { state: TaskState::Submitted, message: None, timestamp: Some(stamp.time()) };
        let history = vec![self.request.message.clone()];
        let metadata = hold::provenance(&self.request.message);
        let task = Task { id, context_id: context, status, metadata, history, artifacts: Vec::new() };
        let lineage = self.lineage.take().map_or_else(|| Lineage::plain(id), |lineage| lineage.rooted(id));
        let turn = self.turn(id, &task.context_id, (Seq(0), 1), None, None, lineage);
        Unopened { step, task, turn }
    }

    /// Commits the opening of a task: whole if its turn has ended, otherwise with a runner for the turn.
    pub(crate) fn settle(&mut self, unopened: Unopened, mut ending: Option<Ending>) -> Result<Opened, Fault> {
        let (core, Unopened { mut step, mut task, mut turn }) = (self.core, unopened);
        let id = task.id;
        core.metrics.tasks_opened.inc();
        // A gap is reported by an event, so the events must be stored.
        let whole = (self.shape == Shape::Once || self.resident.agent.any_is_carried()) && !turn.outlet.has_gap();
        if let (Some(ended), true) = (&ending, whole) {
            let (drafts, checkpoint) = turn.outlet.take();
            step.checkpoint = checkpoint;
            let effects = turn.outlet.take_effects();
            let is_bare = drafts.is_empty() && effects.is_empty();
            if let (Ending::Reply(parts), true) = (ended, is_bare && !self.request.wants_task) {
                return Ok(Opened::Begun(Begun::Reply(self.direct(parts.clone(), task.context_id))));
            }
            step.effects.extend(effects);
            collapse(core, &mut task, drafts, ending.take().unwrap_or_else(Ending::complete));
            return Ok(self.commit_whole(step, &task));
        }
        let (drafts, checkpoint) = turn.outlet.take();
        let effects = turn.outlet.take_effects();
        let is_bare = drafts.is_empty() && effects.is_empty();
        if let (Some(Ending::Reply(parts)), true) = (&ending, is_bare && !self.request.wants_task) {
            return Ok(Opened::Begun(Begun::Reply(self.direct(parts.clone(), task.context_id))));
        }
        step.effects.extend(effects);
        // A cancel before the next step needs the agent's checkpoint.
        turn.checkpoint.clone_from(&checkpoint);
        let mut recorder = Recorder::opening(task, self.resident.push);
        recorder.open();
        recorder.add(core, drafts);
        let ended = ending.is_some();
        if let Some(ending) = ending {
            recorder.end(core, ending);
        }
        let recorded = recorder.step(core, checkpoint);
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

    /// Stores a task that came to rest before any reader saw it: one event, and one row if it settled.
    fn commit_whole(&self, mut step: Step, task: &Task) -> Opened {
        let frozen = FrozenTask::freeze(task);
        step.placement = Some(Placement { state: frozen.state, position: task.id.stamp() });
        if frozen.state.is_settled() {
            // A settled task has no later turn that needs a checkpoint; only the activation of a handover does.
            step.checkpoint = step.checkpoint.filter(|_| frozen.state == TaskState::Transferred);
            step.snapshot = Some(frozen.clone());
        } else {
            step.events.push(FrozenEvent::of_task(Seq(1), &frozen));
        }
        let answer = self.core.log.append(step);
        // A stream shows the one event there is.
        let events = match self.shape {
            Shape::Once => Vec::new(),
            Shape::Stream => vec![FrozenEvent::of_task(Seq(1), &frozen)],
        };
        Opened::Committing { answer, rested: Begun::Rested { id: task.id, task: frozen, events } }
    }

    /// Gives a turn to a runner before anything is awaited: a caller that disconnects never cancels an agent.
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
            canceled: false,
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
        lineage: Lineage,
    ) -> Turn {
        let info = TurnInfo {
            task: id,
            scope: self.scope.clone(),
            adopted_by: OnceLock::new(),
            context: context.clone(),
            turn: number.0.0,
            attempt: number.1,
            message: self.request.message.clone(),
            before,
            tools: lineage.tools(self.resident.tools),
            follows: self.follows,
            // The parent of a child is on this server, so the child is never held.
            held: number.0 == Seq(0) && lineage.parent().is_none() && hold::is_held(&self.request.message),
            lineage,
            early: self.resident.agent.any_nature().instant || self.resident.agent.any_is_carried(),
            brief: number == (Seq(0), 1) && self.is_brief(),
            answers: Mutex::default(),
            core: self.core.clone(),
        };
        Turn::new(self.resident.agent.clone(), Arc::new(info), checkpoint, &self.core.limits)
    }

    /// Whether the new task may be stored together with its end. Not for a caller that does not wait, that streams or
    /// that opened it as a child: these learn of the task at once, so it must be stored.
    fn is_brief(&self) -> bool {
        let known = self.shape == Shape::Stream || self.request.configuration.return_immediately;
        !known && self.resident.agent.any_nature().brief
    }

    fn direct(&self, parts: Vec<sabir_proto::Part>, context: ContextId) -> Message {
        let mut message = agent_message(self.core, parts);
        message.context_id = Some(context);
        message
    }

    fn inline_push(&mut self, step: &mut Step) {
        if let Some(config) = self.request.configuration.task_push_notification_config.take() {
            step.effects.push(crate::push::register(self.core, config, self.dialect));
        }
    }
}

/// Polls a turn once, in place; `None` if it waits for something. The runner polls the turn again at once, so this poll
/// needs no waker.
fn poll_once(turn: &mut Turn) -> Option<Ending> {
    match turn.poll(&mut Context::from_waker(Waker::noop())) {
        Poll::Ready(ending) => Some(ending),
        Poll::Pending => None,
    }
}

fn opening_step(id: TaskId, scope: Arc<Scope>, context: ContextId, birth: Option<Box<Birth>>) -> Step {
    Step { opening: Some(Opening { scope, context, birth }), ..Step::bare(id, Vec::new()) }
}

pub(crate) fn stopping() -> Fault {
    Fault::Unavailable("the server is stopping; send it again".into())
}

/// `historyLength`: absent is all, negative is an error.
pub(crate) fn history_length(field: &str, wanted: Option<i32>) -> Result<Option<u32>, Fault> {
    wanted.map(|n| u32::try_from(n).map_err(|_| Fault::invalid(field, "must not be negative"))).transpose()
}

#[cfg(test)]
mod tests;
