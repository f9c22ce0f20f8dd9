//! Incoming messages: opening a new task, continuing one, or recognising a repeated send.

mod direct_reply;
mod next_turn;

use crate::agent::{Ending, TurnInfo};
use crate::engine::{Core, Engine, HostedAgent, TaskOwnership};
use crate::held_tasks;
use crate::inline_turn::InlineTurn;
use crate::live::{LiveRef, is_at_rest};
use crate::recorder::{Recorder, agent_message, apply_without_events};
use crate::repeat::{OpeningCommit, RepeatCheck, set_retry_key};
use crate::retry::{PendingRetryKey, RetryKey, SendStage};
use crate::runner::Runner;
use crate::subtasks::{LINEAGE, Lineage};
use crate::turn::Turn;
use crate::watch::{StreamEnd, Watch};
use bytes::Bytes;
use sabir_proto::{
    CallAttachment, ContextId, Fault, FrozenEvent, FrozenTask, HANDOFF, Message, Role, SendMessage, SendReply, Seq,
    ServiceParameters, Task, TaskId, TaskRef, TaskState, TaskStatus, View, transfer,
};
use sabir_store::{AppendError, ChildOf, Effect, Opening, Placement, RetryMark, Scope, Step, StoreFuture};
use std::sync::{Arc, Mutex, OnceLock};
use std::task::{Context, Poll, Waker};

/// The request field that limits the history in the response.
const SEND_HISTORY: &str = "configuration.historyLength";

/// Whether the sender wants every event, or only the result.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum ResponseMode {
    Once,
    Stream,
}

/// The state of a send once its message was accepted.
pub(crate) enum SendOutcome {
    /// A direct reply; no task was made.
    Reply(Message),
    /// Opened and at rest in one commit.
    AtRest { id: TaskId, task: FrozenTask, events: Vec<FrozenEvent> },
    /// At work; the step of this send ends at `from`. A stream of a later turn begins with `snapshot`.
    AtWork { id: TaskId, live: LiveRef, from: Seq, snapshot: Option<FrozenEvent> },
    /// A repeated send. One to an existing task waits until its first copy is in the log, by the key in `heard`.
    Repeat { id: TaskId, awaited_mark: Option<RetryMark> },
}

/// A new task before its commit is awaited.
pub(crate) enum OpenOutcome {
    Begun(SendOutcome),
    /// At rest as soon as the log confirms.
    Committing {
        answer: StoreFuture<(), AppendError>,
        rested: SendOutcome,
    },
}

/// A new task that is not stored yet.
pub(crate) struct DraftTask {
    step: Step,
    task: Task,
    pub(crate) turn: Turn,
}

/// The task that a send is for.
#[derive(Debug, Clone)]
pub(crate) enum SendTarget {
    /// A new task, possibly with an alias. Boxed, since few have one and every send makes room for it.
    Open(Option<Box<Effect>>),
    /// An existing task that waits for its caller.
    Continue(TaskId),
}

/// A message that is being accepted.
pub(crate) struct IncomingMessage<'a> {
    pub(crate) core: &'a Arc<Core>,
    pub(crate) resident: &'a HostedAgent,
    pub(crate) scope: Arc<Scope>,
    pub(crate) request: Box<SendMessage>,
    response_mode: ResponseMode,
    /// The dialect it came in.
    dialect: &'static str,
    /// The parent link of the new task, if it is a child.
    child_of: Option<Box<ChildOf>>,
    /// The lineage of the new task; `None` for nearly all.
    pub(crate) lineage: Option<Box<Lineage>>,
    /// The lineage to store in the message, where it came in a header or from an outbound id.
    pub(crate) added_lineage: Option<serde_json::Value>,
    /// Whether the caller supports the handoff extension.
    follows_handoffs: bool,
    /// An agent here sends it on behalf of a task of the same caller, whose own message was let in before.
    is_internal: bool,
    /// What the server tells the agent of the turn that the message begins.
    attachment: CallAttachment,
}

impl Engine {
    /// *Send*: answers when the task rests, or at once if the caller wants that.
    pub async fn send(
        &self,
        to: &HostedAgent,
        scope: Arc<Scope>,
        request: Box<SendMessage>,
        terms: &ServiceParameters,
    ) -> Result<SendReply, Fault> {
        let view = View::with_history(history_length(SEND_HISTORY, request.configuration.history_length)?);
        let at_once = request.configuration.return_immediately;
        let takes_message = direct_reply::accepts_direct_reply(to, &request);
        let sent = |task| direct_reply::to_sent(task, view, takes_message);
        let (scoped, dialect) = (scope.clone(), terms.dialect);
        let incoming = IncomingMessage::new(self, to, scoped, request, ResponseMode::Once, dialect);
        match incoming.accept(terms).await? {
            SendOutcome::Reply(message) => Ok(SendReply::Message(Box::new(message))),
            SendOutcome::AtRest { task, .. } => Ok(sent(task)),
            SendOutcome::AtWork { live, from, .. } if !at_once => {
                let mut live = live;
                Ok(sent(live.wait_rested(from).await?))
            }
            SendOutcome::AtWork { id, mut live, from, .. } => {
                live.wait_committed(from).await?;
                Ok(SendReply::Task(self.load_image(&scope, id).await?, view))
            }
            SendOutcome::Repeat { id, awaited_mark: heard } => {
                let live = self.core.live.join(id);
                let stored = self.load_repeated(&scope, id, heard).await?;
                if at_once || is_at_rest(stored.state) {
                    return Ok(sent(self.fold(&stored)?));
                }
                Ok(sent(self.wait_for_rest(live, &scope, &stored).await?))
            }
        }
    }

    /// *Stream*: every event from the first one on, until the task settles or asks.
    pub async fn stream(
        &self,
        to: &HostedAgent,
        scope: Arc<Scope>,
        request: Box<SendMessage>,
        terms: &ServiceParameters,
    ) -> Result<Watch, Fault> {
        history_length(SEND_HISTORY, request.configuration.history_length)?;
        // With an alias it is unknown later whether this send opened the task; a snapshot is right either way.
        let follow_up = request.message.task_id.is_some() || request.alias.is_some();
        let takes_message = direct_reply::accepts_direct_reply(to, &request);
        let (scoped, dialect) = (scope.clone(), terms.dialect);
        let incoming = IncomingMessage::new(self, to, scoped, request, ResponseMode::Stream, dialect);
        let begun = incoming.accept(terms).await?;
        if takes_message && let Some(message) = Box::pin(self.direct_reply(&begun)).await? {
            return Ok(Watch::reply(message));
        }
        match begun {
            SendOutcome::Reply(message) => Ok(Watch::reply(message)),
            // Credentials arrive outside the stream, so the stream waits for what follows them.
            SendOutcome::AtRest { id, task, .. } if task.state == TaskState::AuthRequired => {
                self.follow_from(&scope, id, None, StreamEnd::Question, false).await
            }
            SendOutcome::AtRest { events, .. } => Ok(Watch::replay(events)),
            SendOutcome::AtWork { id, mut live, from, snapshot } => {
                // An error before the first event is an ordinary error, so the first commit is awaited here.
                live.wait_committed(from).await?;
                let watch = Watch::follow(self.core.clone(), id, live, Seq(0), StreamEnd::Question);
                Ok(match snapshot {
                    Some(snapshot) => watch.starting_with(snapshot),
                    None => watch,
                })
            }
            SendOutcome::Repeat { id, awaited_mark: heard } => {
                let stored = self.load_repeated(&scope, id, heard).await?;
                if takes_message
                    && terms.last_event_id.is_none()
                    && let Some(message) = self.repeated_direct_reply(&stored)?
                {
                    return Ok(Watch::reply(message));
                }
                self.follow_from(&scope, id, terms.last_event_id, StreamEnd::Question, follow_up).await
            }
        }
    }
}

impl Engine {
    /// Opens a child of another task, and returns once it is in the log.
    pub(crate) async fn open_child(
        &self,
        to: &HostedAgent,
        scope: Arc<Scope>,
        request: Box<SendMessage>,
        birth: Box<ChildOf>,
    ) -> Result<TaskId, Fault> {
        let mut incoming = IncomingMessage::new(self, to, scope, request, ResponseMode::Stream, "");
        (incoming.child_of, incoming.is_internal) = (Some(birth), true);
        self.wait_opened(incoming.accept(&ServiceParameters::default()).await?).await
    }

    /// Answers the question of a child; with the same key only once.
    pub(crate) async fn answer_child(
        &self,
        to: &HostedAgent,
        scope: Arc<Scope>,
        request: Box<SendMessage>,
        key: String,
    ) -> Result<(), Fault> {
        let mut incoming = IncomingMessage::new(self, to, scope.clone(), request, ResponseMode::Stream, "");
        incoming.is_internal = true;
        let terms = ServiceParameters { idempotency_key: Some(key), ..ServiceParameters::default() };
        match incoming.accept(&terms).await? {
            SendOutcome::Repeat { id, awaited_mark: heard } => self.load_repeated(&scope, id, heard).await.map(drop),
            begun => self.wait_opened(begun).await.map(drop),
        }
    }

    async fn wait_opened(&self, begun: SendOutcome) -> Result<TaskId, Fault> {
        match begun {
            SendOutcome::AtRest { id, .. } => Ok(id),
            SendOutcome::AtWork { id, mut live, from, .. } => live.wait_committed(from).await.map(|()| id),
            SendOutcome::Reply(_) | SendOutcome::Repeat { .. } => {
                Err(self.core.internal("opening a task", &"it is no task"))
            }
        }
    }
}

impl<'a> IncomingMessage<'a> {
    fn new(
        engine: &'a Engine,
        resident: &'a HostedAgent,
        scope: Arc<Scope>,
        request: Box<SendMessage>,
        response_mode: ResponseMode,
        dialect: &'static str,
    ) -> Self {
        Self {
            core: &engine.core,
            resident,
            scope,
            request,
            response_mode,
            dialect,
            child_of: None,
            lineage: None,
            added_lineage: None,
            follows_handoffs: false,
            is_internal: false,
            attachment: CallAttachment::default(),
        }
    }

    async fn accept(mut self, terms: &ServiceParameters) -> Result<SendOutcome, Fault> {
        self.check()?;
        if let Some(birth) = &self.child_of {
            self.lineage = Some(Box::new(Lineage::of_child(&birth.parent_link)));
            // A child is identified by its parent's key, which is stored as long as the child.
            return self.accept_at(SendTarget::Open(None), None).await;
        }
        let says = self.request.message.metadata.as_ref().is_some_and(|m| m.as_str().contains(LINEAGE));
        let unsaid = if says { None } else { self.lineage_from_header_or_id(terms) };
        if says || unsaid.is_some() {
            Box::pin(self.check_lineage(unsaid)).await?;
        }
        self.follows_handoffs = held_tasks::supports_handoffs(&terms.extensions);
        self.attachment = terms.attachment.clone();
        let handed = held_tasks::read_handoff(&self.request.message)?;
        if let Some(transfer::HandoffMessage::Activate(order)) = &handed {
            return Box::pin(self.activate(order)).await;
        }
        let to = self.addressee();
        let explicit = terms.idempotency_key.clone().or_else(|| held_tasks::retry_key(handed.as_ref()?));
        let key = RetryKey::of(
            &self.scope,
            to.as_ref(),
            explicit.as_deref().map(|text| (text, terms.sent_at)),
            &self.request.message,
        );
        if terms.last_event_id.is_some() && self.response_mode == ResponseMode::Stream {
            return self.find_repeated(key).await;
        }
        match to {
            None => self.accept_at(SendTarget::Open(None), key).await,
            Some(to) => Box::pin(self.accept_addressed(&to, key)).await,
        }
    }

    pub(crate) async fn accept_at(&mut self, target: SendTarget, key: Option<RetryKey>) -> Result<SendOutcome, Fault> {
        let (id, stage) = match &target {
            SendTarget::Open(_) => (self.core.new_id(), SendStage::Opens),
            SendTarget::Continue(id) => (*id, SendStage::Continues),
        };
        let pending = match key {
            None => None,
            Some(key) => match Box::pin(self.check_repeat(key, id, stage)).await? {
                RepeatCheck::Repeat(repeat) => return Ok(repeat),
                RepeatCheck::First(pending) => Some(pending),
            },
        };
        // Behind the retry keys: a repeat stores nothing, and gets the answer that is stored.
        self.check_stored_bytes()?;
        let mut pending = pending;
        let begun = match target {
            SendTarget::Open(name) => match self.open(id, key, name, &mut pending).await? {
                OpenOutcome::Begun(begun) => begun,
                OpenOutcome::Committing { answer, rested } => {
                    let outcome = OpeningCommit { core: self.core, answer: Some(answer), pending };
                    outcome.await.map_err(|error| self.core.append_fault("opening a task", &error))?;
                    return Ok(rested);
                }
            },
            SendTarget::Continue(id) => Box::pin(self.continue_task(id, key)).await?,
        };
        // A send without a step must not make its retry wait; with a step, the runner confirms or forgets the key.
        if let (SendOutcome::AtWork { .. }, Some(pending)) = (&begun, pending) {
            pending.release();
        }
        Ok(begun)
    }

    fn check(&self) -> Result<(), Fault> {
        let (message, limits) = (&self.request.message, &self.core.limits);
        if self.core.live.is_stopping() {
            return Err(server_stopping());
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
            crate::push::check_config(self.core, config, "configuration.taskPushNotificationConfig.")?;
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
        pending: &mut Option<PendingRetryKey<'a>>,
    ) -> Result<OpenOutcome, Fault> {
        self.resident.agent.any_check_admission()?;
        if self.resident.agent.any_runs_inline() {
            return Box::pin(self.open_inline(id, key, name)).await;
        }
        if self.defers_open() {
            let unopened = self.draft_task(id, key, name);
            return InlineTurn::of(self, unopened, pending).await;
        }
        self.open_polled_once(id, key, name)
    }

    /// Opens a task whose first turn runs within the sender's request, to its end or until it asks for a commit. From
    /// there on it is a task like any other.
    async fn open_inline(
        &mut self,
        id: TaskId,
        key: Option<RetryKey>,
        name: Option<Box<Effect>>,
    ) -> Result<OpenOutcome, Fault> {
        let mut unopened = self.draft_task(id, key, name);
        let ending = std::future::poll_fn(|cx| match unopened.turn.poll(cx) {
            Poll::Ready(ending) => Poll::Ready(Some(ending)),
            Poll::Pending if unopened.turn.reports.wants_commit() => Poll::Ready(None),
            Poll::Pending => Poll::Pending,
        })
        .await;
        self.commit_opening(unopened, ending)
    }

    /// Opens a task, polling an instant agent once. Not `async`, so that only the log's answer is held while the commit
    /// is awaited: the future of a send is small, and every request pays for its size.
    fn open_polled_once(
        &mut self,
        id: TaskId,
        key: Option<RetryKey>,
        name: Option<Box<Effect>>,
    ) -> Result<OpenOutcome, Fault> {
        let mut unopened = self.draft_task(id, key, name);
        let instant = self.resident.agent.any_execution().instant;
        let ending = if instant { poll_once(&mut unopened.turn) } else { None };
        self.commit_opening(unopened, ending)
    }

    /// Writes the handoff extension into the message where only a header named it. Otherwise a turn that resumes after
    /// a crash would not know that its caller supports handoffs.
    fn add_handoff_extension(&mut self) {
        let extensions = &mut self.request.message.extensions;
        if self.follows_handoffs && !held_tasks::supports_handoffs(extensions) {
            extensions.push(HANDOFF.to_owned());
        }
    }

    /// Drafts a new task with its first turn, without storing it.
    fn draft_task(&mut self, id: TaskId, key: Option<RetryKey>, name: Option<Box<Effect>>) -> DraftTask {
        let (core, stamp) = (self.core, id.stamp());
        self.add_handoff_extension();
        let message = &mut self.request.message;
        if let Some(claim) = self.added_lineage.take() {
            message.metadata = Some(transfer::with_member(message.metadata.as_ref(), LINEAGE, claim));
        }
        let context = message.context_id.get_or_insert_with(|| ContextId::new(stamp, core.host.random())).clone();
        message.task_id = Some(id.into());
        let mut step = opening_step(id, self.scope.clone(), context.clone(), self.child_of.take());
        step.notify = self.resident.push.then(|| stamp.time());
        set_retry_key(&mut step, key, stamp, core.limits.explicit_retry_time);
        step.effects.extend(name.map(|name| *name));
        self.register_push_config(&mut step);
        let status = TaskStatus { state: TaskState::Submitted, message: None, timestamp: Some(stamp.time()) };
        let history = vec![self.request.message.clone()];
        let metadata = held_tasks::provenance(&self.request.message);
        let task = Task { id, context_id: context, status, metadata, history, artifacts: Vec::new() };
        let lineage = self.lineage.take().map_or_else(|| Lineage::without_parent(id), |lineage| lineage.with_root(id));
        let turn = self.new_turn(id, &task.context_id, (Seq(0), 1), None, None, lineage);
        DraftTask { step, task, turn }
    }

    /// Commits the opening of a task: whole if its turn has ended, otherwise with a runner for the turn.
    pub(crate) fn commit_opening(
        &mut self,
        unopened: DraftTask,
        mut ending: Option<Ending>,
    ) -> Result<OpenOutcome, Fault> {
        let (core, DraftTask { mut step, mut task, mut turn }) = (self.core, unopened);
        let id = task.id;
        core.metrics.tasks_opened.inc();
        // A gap is reported by an event, so the events must be stored.
        let whole = (self.response_mode == ResponseMode::Once || self.resident.agent.any_runs_inline())
            && !turn.reports.has_gap();
        if let (Some(ended), true) = (&ending, whole) {
            let (drafts, checkpoint) = turn.reports.take();
            step.checkpoint = checkpoint;
            let effects = turn.reports.take_effects();
            let is_bare = drafts.is_empty() && effects.is_empty();
            if let (Ending::Reply(parts), true) = (ended, is_bare && !self.request.wants_task) {
                return Ok(OpenOutcome::Begun(SendOutcome::Reply(self.direct_message(parts.clone(), task.context_id))));
            }
            step.effects.extend(effects);
            apply_without_events(core, &mut task, drafts, ending.take().unwrap_or_else(Ending::complete));
            return Ok(self.commit_whole(step, &task));
        }
        let (drafts, checkpoint) = turn.reports.take();
        let effects = turn.reports.take_effects();
        let is_bare = drafts.is_empty() && effects.is_empty();
        if let (Some(Ending::Reply(parts)), true) = (&ending, is_bare && !self.request.wants_task) {
            return Ok(OpenOutcome::Begun(SendOutcome::Reply(self.direct_message(parts.clone(), task.context_id))));
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
            return Ok(OpenOutcome::Committing { answer, rested: SendOutcome::AtRest { id, task, events } });
        }
        let live = core.live.join(id);
        let Ok(claimed) = TaskOwnership::acquire(live) else {
            return Err(core.internal("opening a task", &"its id is taken"));
        };
        Ok(OpenOutcome::Begun(self.spawn_runner(claimed, recorder, turn, step, (Seq(0), 1), None)))
    }

    /// Stores a task that came to rest before any reader saw it: one event, and one row if it settled.
    fn commit_whole(&self, mut step: Step, task: &Task) -> OpenOutcome {
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
        let events = match self.response_mode {
            ResponseMode::Once => Vec::new(),
            ResponseMode::Stream => vec![FrozenEvent::of_task(Seq(1), &frozen)],
        };
        OpenOutcome::Committing { answer, rested: SendOutcome::AtRest { id: task.id, task: frozen, events } }
    }

    /// Gives a turn to a runner before anything is awaited: a caller that disconnects never cancels an agent.
    fn spawn_runner(
        &self,
        claimed: TaskOwnership,
        recorder: Recorder,
        turn: Turn,
        first: Step,
        number: (Seq, u32),
        snapshot: Option<FrozenEvent>,
    ) -> SendOutcome {
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
        let live = self.core.live.join(id);
        self.core.host.spawn(Box::pin(runner.run()));
        SendOutcome::AtWork { id, live, from, snapshot }
    }

    fn new_turn(
        &self,
        id: TaskId,
        context: &ContextId,
        number: (Seq, u32),
        before: Option<Box<Task>>,
        checkpoint: Option<Bytes>,
        lineage: Lineage,
    ) -> Turn {
        self.attachment.set_delivered();
        let info = TurnInfo {
            task: id,
            scope: self.scope.clone(),
            claimed_by: OnceLock::new(),
            context: context.clone(),
            turn: number.0.0,
            attempt: number.1,
            message: self.request.message.clone(),
            task_before: before,
            tool_mode: lineage.tools(self.resident.tool_mode),
            follows_handoffs: self.follows_handoffs,
            // The parent of a child is on this server, so the child is never held.
            held: number.0 == Seq(0) && lineage.parent().is_none() && held_tasks::is_held(&self.request.message),
            lineage,
            started_before_open: self.resident.agent.any_execution().instant || self.resident.agent.any_runs_inline(),
            open_deferred: number == (Seq(0), 1) && self.defers_open(),
            answers: Mutex::default(),
            attachment: self.attachment.clone(),
            core: self.core.clone(),
        };
        Turn::new(self.resident.agent.clone(), Arc::new(info), checkpoint, &self.core.limits)
    }

    /// Whether the new task may be stored together with its end. Not for a caller that does not wait, that streams or
    /// that opened it as a child: these learn of the task at once, so it must be stored.
    fn defers_open(&self) -> bool {
        let known = self.response_mode == ResponseMode::Stream || self.request.configuration.return_immediately;
        !known && self.resident.agent.any_execution().defer_open
    }

    fn direct_message(&self, parts: Vec<sabir_proto::Part>, context: ContextId) -> Message {
        let mut message = agent_message(self.core, parts);
        message.context_id = Some(context);
        message
    }

    fn register_push_config(&mut self, step: &mut Step) {
        if let Some(config) = self.request.configuration.task_push_notification_config.take() {
            step.effects.push(crate::push::registration_effect(self.core, config, self.dialect));
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

fn opening_step(id: TaskId, scope: Arc<Scope>, context: ContextId, birth: Option<Box<ChildOf>>) -> Step {
    Step { opening: Some(Opening { scope, context, child_of: birth }), ..Step::effects_only(id, Vec::new()) }
}

pub(crate) fn server_stopping() -> Fault {
    Fault::Unavailable("the server is stopping; send it again".into())
}

/// `historyLength`: absent is all, negative is an error.
pub(crate) fn history_length(field: &str, wanted: Option<i32>) -> Result<Option<u32>, Fault> {
    wanted.map(|n| u32::try_from(n).map_err(|_| Fault::invalid(field, "must not be negative"))).transpose()
}

#[cfg(test)]
mod tests;
