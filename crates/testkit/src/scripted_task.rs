//! Scripted tasks: the steps that an engine would write, without an engine.

use crate::clock::EPOCH_MS;
use crate::seeded_rng::SeededRng;
use sabir_engine::machine;
use sabir_proto::{
    AgentName, Artifact, ArtifactId, ArtifactUpdate, Caller, ContextId, Event, FrozenEvent, FrozenTask, Message,
    MessageId, Part, PushConfig, Role, Seq, Stamp, StatusUpdate, Task, TaskId, TaskState, TaskStatus, Tenant,
    Timestamp,
};
use sabir_store::{Effect, Opening, Placement, RetryMark, Scope, Step, StoredTask};
use std::sync::Arc;

/// An owner: this caller, at an agent called `agent`.
///
/// # Panics
/// Never: the names are legal.
pub fn owner(caller: &str) -> Arc<Scope> {
    let agent = AgentName::parse("agent").expect("a plain word is a legal name");
    Arc::new(Scope { tenant: Tenant::none(), caller: Caller::named(caller), agent })
}

/// A push configuration with this id.
pub fn push_config(id: &str) -> PushConfig {
    PushConfig { id: Some(id.into()), url: format!("https://example.com/{id}"), token: None, authentication: None }
}

/// The effect that registers that configuration at the beginning of simulated time.
pub fn put_push_effect(id: &str, configs_max: u32) -> Effect {
    Effect::PutPush {
        config: push_config(id),
        dialect: "1.0".into(),
        host: "https://example.com:443".into(),
        at: epoch(),
        configs_max,
    }
}

/// The beginning of simulated time.
pub fn epoch() -> Timestamp {
    Timestamp::from_millis(i64::try_from(EPOCH_MS).unwrap_or(0))
}

/// An event for a scripted step.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum ScriptedEvent {
    /// A status update with this state.
    Status(TaskState),
    /// One chunk of an artifact; does not change the state.
    Chunk,
    /// The agent continues after an answer from its caller.
    Answer,
}

/// Makes ids and stamps, each above the last.
#[derive(Debug, Clone)]
pub struct TaskFactory {
    last: Stamp,
    now: Timestamp,
    rng: SeededRng,
}

impl TaskFactory {
    /// A factory at the beginning of simulated time.
    pub fn new(seed: u64) -> Self {
        Self { last: Stamp::default(), now: epoch(), rng: SeededRng::new(seed) }
    }

    /// Advances the time by milliseconds.
    pub fn advance(&mut self, ms: i64) {
        self.now = Timestamp::from_millis(self.now.millis() + ms);
    }

    pub const fn now(&self) -> Timestamp {
        self.now
    }

    /// A stamp above all earlier ones.
    pub fn stamp(&mut self) -> Stamp {
        self.last = self.last.next(self.now);
        self.last
    }

    /// A retry mark that is not used yet.
    pub fn new_retry_mark(&mut self) -> RetryMark {
        let mut sixteen = || (u128::from(self.rng.bits()) << 64 | u128::from(self.rng.bits())).to_be_bytes();
        RetryMark { key: sixteen(), digest: sixteen() }
    }

    /// A task in a new context.
    pub fn new_task(&mut self, scope: &Arc<Scope>) -> ScriptedTask {
        let stamp = self.stamp();
        let context = ContextId::new(stamp, self.rng.bits());
        self.begin(stamp, scope, context)
    }

    /// A task in an existing context.
    pub fn new_task_in(&mut self, scope: &Arc<Scope>, context: &ContextId) -> ScriptedTask {
        let stamp = self.stamp();
        self.begin(stamp, scope, context.clone())
    }

    fn begin(&mut self, stamp: Stamp, scope: &Arc<Scope>, context_id: ContextId) -> ScriptedTask {
        let id = TaskId::new(stamp, self.rng.bits());
        let status = TaskStatus { state: TaskState::Submitted, message: None, timestamp: Some(stamp.time()) };
        let history = vec![user_message(&format!("opening of {id}"))];
        let task = Task { id, context_id, status, metadata: None, history, artifacts: Vec::new() };
        ScriptedTask { scope: scope.clone(), task, head: Seq(0), position: stamp }
    }
}

fn user_message(text: &str) -> Message {
    let id = MessageId::parse("m").expect("a letter is a legal id");
    Message::text(id, Role::User, text)
}

/// A scripted task and the end of its log. Clone it before a step that should be refused.
#[derive(Debug, Clone)]
pub struct ScriptedTask {
    /// The owner of the task.
    pub scope: Arc<Scope>,
    /// The task after all its steps so far.
    pub task: Task,
    /// The number of its last event.
    pub head: Seq,
    /// Its position in its owner's list.
    pub position: Stamp,
}

impl ScriptedTask {
    pub const fn id(&self) -> TaskId {
        self.task.id
    }

    /// The step that opens and settles the task at once, without a single event.
    pub fn open_settled(&mut self, state: TaskState) -> Step {
        self.task.status.state = state;
        self.head = Seq(1);
        let mut step = self.empty_step();
        step.opening =
            Some(Opening { scope: self.scope.clone(), context: self.task.context_id.clone(), child_of: None });
        step.after = Seq(0);
        step.snapshot = Some(self.image());
        step.placement = Some(Placement { state, position: self.position });
        step
    }

    /// The opening step: the first event is the task, followed by these events.
    pub fn open(&mut self, author: &mut TaskFactory, news: &[ScriptedEvent]) -> Step {
        let first = FrozenEvent::freeze(Seq(1), &Event::Task(self.task.clone()));
        self.head = Seq(1);
        let placement = Placement { state: self.task.status.state, position: self.position };
        let mut step = self.step(author, news);
        step.events.insert(0, first);
        step.after = Seq(0);
        step.placement = step.placement.or(Some(placement));
        step.opening =
            Some(Opening { scope: self.scope.clone(), context: self.task.context_id.clone(), child_of: None });
        step
    }

    /// The next step, with these events. Has a snapshot only if it settles the task.
    pub fn step(&mut self, author: &mut TaskFactory, news: &[ScriptedEvent]) -> Step {
        let mut step = self.empty_step();
        for what in news {
            let (event, heard) = match what {
                ScriptedEvent::Status(state) => (self.status(author, *state), None),
                ScriptedEvent::Answer => (self.status(author, TaskState::Working), Some(user_message("an answer"))),
                ScriptedEvent::Chunk => (self.chunk(), None),
            };
            if let Some(state) = event.state() {
                step.placement = Some(Placement { state, position: self.position });
            }
            self.head = self.head.next();
            let frozen = FrozenEvent::freeze(self.head, &event);
            step.events
                .push(heard.as_ref().map_or_else(|| frozen.clone(), |message| frozen.clone().with_input(message)));
            self.task.apply(event, heard);
        }
        step.snapshot = self.task.status.state.is_settled().then(|| self.image());
        step
    }

    /// The frozen image of the task.
    pub fn image(&self) -> FrozenTask {
        FrozenTask::freeze(&self.task)
    }

    /// A step with nothing in it yet.
    pub fn empty_step(&self) -> Step {
        Step {
            task: self.task.id,
            opening: None,
            after: self.head,
            events: Vec::new(),
            snapshot: None,
            placement: None,
            turn: None,
            checkpoint: None,
            retry: None,
            notify: None,
            effects: Vec::new(),
        }
    }

    /// Asserts that a stored task equals this one.
    ///
    /// # Panics
    /// When it differs.
    #[track_caller]
    pub fn assert_stored(&self, stored: Option<&StoredTask>) {
        let stored = stored.unwrap_or_else(|| panic!("task {} is not stored", self.id()));
        assert_eq!((stored.id, stored.head, stored.state), (self.id(), self.head, self.task.status.state));
        assert_eq!(stored.scope, self.scope);
        assert_eq!(stored.context().as_ref(), Some(&self.task.context_id));
        let image = machine::fold(stored).expect("a stored task can be folded");
        assert_eq!(image, self.image());
    }

    fn status(&mut self, author: &mut TaskFactory, state: TaskState) -> Event {
        self.position = author.stamp();
        let status = TaskStatus { state, message: None, timestamp: Some(self.position.time()) };
        let (task_id, context_id) = (self.task.id, self.task.context_id.clone());
        Event::StatusUpdate(StatusUpdate { task_id, context_id, status, metadata: None })
    }

    fn chunk(&self) -> Event {
        let id = ArtifactId::parse("a").expect("a letter is a legal id");
        let artifact = Artifact::new(id, vec![Part::text(format!("chunk after {}", self.head))]);
        let (task_id, context_id) = (self.task.id, self.task.context_id.clone());
        Event::ArtifactUpdate(ArtifactUpdate {
            task_id,
            context_id,
            artifact,
            append: true,
            last_chunk: false,
            metadata: None,
        })
    }
}
