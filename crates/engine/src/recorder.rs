//! The recorder turns an agent's reports into a step: it numbers events, folds them, and decides when a snapshot is
//! due.

use crate::agent::Ending;
use crate::engine::Core;
use crate::limits::{SNAPSHOT_BYTES, SNAPSHOT_EVENTS, SNAPSHOT_GROWTH, SNAPSHOT_SHARE};
use crate::live::is_at_rest;
use crate::machine::{self, Transition};
use crate::turn::DraftEvent;
use bytes::Bytes;
use sabir_proto::{
    Artifact, ArtifactUpdate, Event, FrozenEvent, FrozenTask, Gap, Message, MessageId, Part, Role, Seq, StatusUpdate,
    Task, TaskId, TaskState, TaskStatus, Transfer, direct_message,
};
use sabir_store::{Placement, Step, StoredTask};

/// The runner's state of a task, after everything that was added to a step so far.
#[derive(Debug)]
pub(crate) struct Recorder {
    pub(crate) task: Task,
    pub(crate) head: Seq,
    notify: bool,
    growth: LogGrowth,
    /// The gap that the next status reports.
    gap: Option<Gap>,
    pending: PendingStep,
}

/// The step that is being assembled.
#[derive(Debug, Default)]
struct PendingStep {
    events: Vec<FrozenEvent>,
    placement: Option<Placement>,
}

/// The growth of a task's log since the task was last written whole, by its first event or by a snapshot.
#[derive(Debug, Clone, Copy, Default)]
struct LogGrowth {
    /// The size of the task at that time.
    whole_bytes: usize,
    /// The number of events since then.
    events: u64,
    /// The bytes of these events and of the messages that they answer.
    bytes: usize,
}

impl LogGrowth {
    fn of(stored: &StoredTask) -> Self {
        let (whole_bytes, tail) = match (&stored.base, &stored.tail[..]) {
            (Some(base), tail) => (base.task.json.len(), tail),
            (None, [opening, tail @ ..]) => (opening.bytes(), tail),
            (None, []) => (0, &[][..]),
        };
        let mut growth = Self { whole_bytes, events: 0, bytes: 0 };
        growth.add(tail);
        growth
    }

    fn add(&mut self, events: &[FrozenEvent]) {
        self.events += u64::try_from(events.len()).unwrap_or(0);
        self.bytes += events.iter().map(FrozenEvent::bytes).sum::<usize>();
    }

    /// Whether a task that begins to wait for its caller is due a snapshot.
    const fn is_due_at_rest(self, small_bytes: usize) -> bool {
        self.whole_bytes + self.bytes <= small_bytes || self.bytes * SNAPSHOT_SHARE >= self.whole_bytes
    }

    /// Whether a task is due a snapshot while its agent works.
    const fn is_due_at_work(self) -> bool {
        let grown = self.bytes >= SNAPSHOT_GROWTH * self.whole_bytes;
        grown && (self.events >= SNAPSHOT_EVENTS || self.bytes >= SNAPSHOT_BYTES)
    }
}

impl Recorder {
    /// A recorder for a new task.
    pub(crate) fn opening(task: Task, notify: bool) -> Self {
        Self { task, head: Seq(0), notify, growth: LogGrowth::default(), gap: None, pending: PendingStep::default() }
    }

    /// A recorder for a stored task; `task` is its folded state.
    pub(crate) fn resume(task: Task, stored: &StoredTask, notify: bool) -> Self {
        let (head, growth) = (stored.head, LogGrowth::of(stored));
        Self { task, head, notify, growth, gap: None, pending: PendingStep::default() }
    }

    /// The event after which the next step begins.
    fn after(&self) -> Seq {
        Seq(self.head.0 - u64::try_from(self.pending.events.len()).unwrap_or(0))
    }

    /// The approximate size of the task: its size when last written whole, and everything since.
    pub(crate) const fn written_bytes(&self) -> usize {
        self.growth.whole_bytes + self.growth.bytes
    }

    /// Whether the events go to push configurations.
    pub(crate) const fn notifies(&self) -> bool {
        self.notify
    }

    /// Event 1: the task itself.
    pub(crate) fn open(&mut self) {
        let event = Event::Task(self.task.clone());
        self.head = self.head.next();
        let event = FrozenEvent::freeze(self.head, &event);
        self.growth.whole_bytes = event.bytes();
        self.pending.events.push(event);
        self.pending.placement = Some(Placement { state: self.task.status.state, position: self.task.id.stamp() });
    }

    /// Adds the reports of an agent. A status that the state machine refuses is dropped.
    pub(crate) fn add(&mut self, core: &Core, drafts: Vec<DraftEvent>) {
        for draft in drafts {
            match draft {
                DraftEvent::Status(parts) => self.status(core, TaskState::Working, parts, None),
                DraftEvent::Artifact { artifact, append, last_chunk } => self.artifact(artifact, append, last_chunk),
                DraftEvent::Gap(reason) => self.gap(reason),
            }
        }
    }

    /// Adds an artifact, or a chunk of one.
    pub(crate) fn artifact(&mut self, artifact: Artifact, append: bool, last_chunk: bool) {
        let (task_id, context_id) = (self.task.id, self.task.context_id.clone());
        let update = ArtifactUpdate { task_id, context_id, artifact, append, last_chunk, metadata: None };
        self.event(Event::ArtifactUpdate(update), None);
    }

    /// Records that something may be missing after the last event; the next status says so. Of several gaps, the first
    /// gives the position and the last gives the reason.
    pub(crate) fn gap(&mut self, reason: String) {
        let after = self.gap.take().map_or(self.head, |gap| gap.after);
        self.gap = Some(Gap { after, reason });
    }

    /// Adds the end of a turn.
    pub(crate) fn end(&mut self, core: &Core, ending: Ending) {
        let TurnEnd { state, said, transfer } = TurnEnd::of(core, &self.task, ending);
        self.status_of(core, state, said, None, transfer.as_deref());
    }

    /// Adds a status, if the table allows it.
    pub(crate) fn status(&mut self, core: &Core, state: TaskState, parts: Vec<Part>, input: Option<Message>) {
        self.status_of(core, state, StatusMessage::from_parts(core, &self.task, parts), input, None);
    }

    fn status_of(
        &mut self,
        core: &Core,
        state: TaskState,
        said: StatusMessage,
        input: Option<Message>,
        transfer: Option<&Transfer>,
    ) {
        let legal = Transition::to(state).is_some_and(|step| machine::next(self.task.status.state, step).is_ok());
        if !legal {
            tracing::warn!(task = %self.task.id, from = %self.task.status.state, to = %state, "refused a status");
            return;
        }
        let stamp = core.stamp();
        let StatusMessage { mut message, is_direct } = said;
        if let (Some(message), Some(transfer)) = (&mut message, transfer) {
            transfer.add_to_message(message);
        }
        let status = TaskStatus { state, message, timestamp: Some(stamp.time()) };
        let (task_id, context_id) = (self.task.id, self.task.context_id.clone());
        let gap = self.gap.take().and_then(|gap| gap.put(None));
        let metadata = if is_direct { direct_message::mark(gap.as_ref()) } else { gap };
        self.event(Event::StatusUpdate(StatusUpdate { task_id, context_id, status, metadata }), input);
        self.pending.placement = Some(Placement { state, position: stamp });
    }

    fn event(&mut self, event: Event, input: Option<Message>) {
        self.head = self.head.next();
        let mut frozen = FrozenEvent::freeze(self.head, &event);
        if let Some(message) = &input {
            frozen = frozen.with_input(message);
        }
        self.pending.events.push(frozen);
        self.task.apply(event, input);
    }

    /// The step with everything added since the last one.
    pub(crate) fn step(&mut self, core: &Core, checkpoint: Option<Bytes>) -> Step {
        let after = self.after();
        let PendingStep { events, placement } = std::mem::take(&mut self.pending);
        // The opening is the task itself, and nothing that was added to it.
        self.growth.add(if after == Seq(0) { events.get(1..).unwrap_or_default() } else { &events });
        let due = !events.is_empty() && self.is_snapshot_due(core, after, placement);
        let snapshot = due.then(|| FrozenTask::freeze(&self.task));
        if let Some(snapshot) = &snapshot {
            self.growth = LogGrowth { whole_bytes: snapshot.json.len(), ..LogGrowth::default() };
        }
        Step {
            task: self.task.id,
            opening: None,
            after,
            events,
            snapshot,
            placement,
            turn: None,
            checkpoint,
            retry: None,
            notify: self.notify.then(|| core.host.now()),
            effects: Vec::new(),
        }
    }

    fn is_snapshot_due(&self, core: &Core, after: Seq, placement: Option<Placement>) -> bool {
        // An opening that waits for its caller is its own snapshot: event 1 is the task.
        let only_opening = after == Seq(0) && self.head == Seq(1);
        match placement.map(|p| p.state) {
            Some(state) if state.is_settled() => true,
            Some(state) if is_at_rest(state) => {
                !only_opening && self.growth.is_due_at_rest(core.limits.snapshot_small_bytes)
            }
            Some(_) | None => self.growth.is_due_at_work(),
        }
    }
}

/// Applies reports and ending to a task without numbered events. For a task that no reader has seen: its first event
/// will be the task as it is then.
pub(crate) fn apply_without_events(core: &Core, task: &mut Task, drafts: Vec<DraftEvent>, ending: Ending) {
    for draft in drafts {
        // Progress reports of an unseen task have no reader.
        if let DraftEvent::Artifact { artifact, append, last_chunk } = draft {
            let (task_id, context_id) = (task.id, task.context_id.clone());
            let update = ArtifactUpdate { task_id, context_id, artifact, append, last_chunk, metadata: None };
            task.apply(Event::ArtifactUpdate(update), None);
        }
    }
    let TurnEnd { state, said: StatusMessage { mut message, is_direct }, transfer } = TurnEnd::of(core, task, ending);
    if let (Some(message), Some(transfer)) = (&mut message, transfer) {
        transfer.add_to_message(message);
    }
    if is_direct {
        task.metadata = direct_message::mark(task.metadata.as_ref());
    }
    task.status = TaskStatus { state, message, timestamp: Some(task.id.stamp().time()) };
}

/// The state, message and handover with which a turn ends.
struct TurnEnd {
    state: TaskState,
    said: StatusMessage,
    transfer: Option<Box<Transfer>>,
}

impl TurnEnd {
    fn of(core: &Core, task: &Task, ending: Ending) -> Self {
        let (state, parts) = match ending {
            // A direct reply of an existing task is its closing message.
            Ending::Complete(parts) | Ending::Reply(parts) => (TaskState::Completed, parts),
            Ending::Fail(parts) => (TaskState::Failed, parts),
            Ending::Cancel(parts) => (TaskState::Canceled, parts),
            Ending::Reject(parts) => (TaskState::Rejected, parts),
            Ending::AskInput(parts) => (TaskState::InputRequired, parts),
            Ending::AskAuth(parts) => (TaskState::AuthRequired, parts),
            Ending::DirectMessage(message) => {
                let said = StatusMessage { message: Some(addressed_to_task(task, *message)), is_direct: true };
                return Self { state: TaskState::Completed, said, transfer: None };
            }
            Ending::Transferred(transfer) => {
                let said = StatusMessage::from_parts(core, task, vec![Part::text(transfer.description())]);
                return Self { state: TaskState::Transferred, said, transfer: Some(transfer) };
            }
            // Handled or refused before it gets here.
            Ending::Transfer(order) => {
                (TaskState::Failed, vec![Part::text(format!("not handed over to {}", order.to))])
            }
        };
        Self { state, said: StatusMessage::from_parts(core, task, parts), transfer: None }
    }
}

/// The agent's message in a status.
struct StatusMessage {
    message: Option<Message>,
    /// Whether it is the direct reply of a remote agent.
    is_direct: bool,
}

impl StatusMessage {
    fn from_parts(core: &Core, task: &Task, parts: Vec<Part>) -> Self {
        let message = (!parts.is_empty()).then(|| addressed_to_task(task, agent_message(core, parts)));
        Self { message, is_direct: false }
    }
}

fn addressed_to_task(task: &Task, mut message: Message) -> Message {
    message.context_id = Some(task.context_id.clone());
    message.task_id = Some(task.id.into());
    message
}

/// A message of the agent, with an id of its own.
pub(crate) fn agent_message(core: &Core, parts: Vec<Part>) -> Message {
    let id = TaskId::new(core.stamp(), core.host.random()).to_string();
    let mut message = Message::text(MessageId::parse(&id).expect("a UUID is a legal id"), Role::Agent, "");
    message.parts = parts;
    message
}
