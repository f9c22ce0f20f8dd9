//! A turn from the view of the test: while the agent works, and after it has ended.

use super::{TestEngine, WAIT_MAX};
use crate::proto::{CancelTask, GetTask, SendConfiguration, SendMessage, ServiceParameters, Subscribe};
use crate::{ContextId, Ending, Event, Message, Part, Role, Seq, Task, TaskId, TaskState, Tenant};
use sabir_engine::Watch;
use sabir_engine::watch::WatchItem;
use tokio::sync::watch;

/// What a test can send: a text, a part, or several parts.
pub trait IntoParts {
    /// Returns the parts of the message.
    fn into_parts(self) -> Vec<Part>;
}

impl IntoParts for &str {
    fn into_parts(self) -> Vec<Part> {
        vec![Part::text(self)]
    }
}

impl IntoParts for String {
    fn into_parts(self) -> Vec<Part> {
        vec![Part::text(self)]
    }
}

impl IntoParts for Part {
    fn into_parts(self) -> Vec<Part> {
        vec![self]
    }
}

impl IntoParts for Vec<Part> {
    fn into_parts(self) -> Vec<Part> {
        self
    }
}

/// A turn that the agent works on. Dropping it changes nothing: the agent goes on, as it does when a caller leaves.
pub struct RunningTurn {
    engine: TestEngine,
    watch: Watch,
    crashes: watch::Receiver<u64>,
    task: Option<TaskId>,
    /// The last event that was read.
    last_seq: Seq,
    events: Vec<Event>,
    has_ended: bool,
}

impl RunningTurn {
    pub(super) async fn begin(
        engine: TestEngine,
        parts: Vec<Part>,
        task: Option<TaskId>,
        context: Option<ContextId>,
    ) -> Self {
        let process = engine.process();
        let mut message = Message::text(process.engine.new_message_id(), Role::User, "");
        message.parts = parts;
        message.task_id = task.map(Into::into);
        message.context_id = context;
        let request = Box::new(SendMessage {
            tenant: Tenant::none(),
            message,
            configuration: SendConfiguration::default(),
            metadata: None,
            alias: None,
            wants_task: false,
        });
        let crashes = engine.shared.crashes.subscribe();
        let scope = engine.shared.scope.clone();
        let watch = process.engine.stream(&process.agent(), scope, request, &ServiceParameters::default()).await;
        let watch = watch.unwrap_or_else(|fault| panic!("the message was refused: {fault}"));
        Self { engine, watch, crashes, task, last_seq: Seq(0), events: Vec::new(), has_ended: false }
    }

    /// The next event that the caller sees; `None` when the turn has ended. Goes on after a
    /// [crash](TestEngine::crash) with the event that follows.
    ///
    /// # Panics
    /// When the agent reports nothing and does not end for a minute.
    pub async fn next(&mut self) -> Option<Event> {
        if self.has_ended {
            return None;
        }
        let event = tokio::time::timeout(WAIT_MAX, self.next_unbounded()).await.unwrap_or_else(|_| {
            panic!("the agent has reported nothing for {} s; before that: {:#?}", WAIT_MAX.as_secs(), self.events)
        });
        self.events.extend(event.clone());
        let ends = |state: TaskState| state.is_settled() || state.is_interrupted();
        self.has_ended = match &event {
            None | Some(Event::Message(_)) => true,
            Some(event) => event.state().is_some_and(ends),
        };
        event
    }

    async fn next_unbounded(&mut self) -> Option<Event> {
        loop {
            // The first event exists once the message is accepted, even if its process was killed after that.
            let item = tokio::select! {
                biased;
                Ok(()) = self.crashes.changed(), if self.task.is_some() => {
                    self.follow_again().await;
                    continue;
                }
                item = self.watch.next() => item?,
            };
            match item.unwrap_or_else(|fault| panic!("the turn cannot be followed: {fault}")) {
                WatchItem::Reply(message) => return Some(Event::Message(*message)),
                WatchItem::Event(event) => {
                    self.last_seq = event.seq;
                    self.task = event.task_id().or(self.task);
                    return Some(event.thaw().expect("an event in memory can be read"));
                }
            }
        }
    }

    /// Follows the task in the process that was started after a crash.
    async fn follow_again(&mut self) {
        let Some(task) = self.task else { return };
        let (process, scope) = (self.engine.process(), &self.engine.shared.scope);
        let call = Subscribe { tenant: Tenant::none(), id: task.into() };
        let terms = ServiceParameters { last_event_id: Some(self.last_seq), ..ServiceParameters::default() };
        let watch = process.engine.subscribe(scope, &call, &terms).await;
        self.watch = watch.unwrap_or_else(|fault| panic!("the task is gone after the crash: {fault}"));
    }

    /// Reads events until one fits, and returns that.
    ///
    /// # Panics
    /// When the turn ends before.
    pub async fn until(&mut self, fits: impl Fn(&Event) -> bool) -> Event {
        while let Some(event) = self.next().await {
            if fits(&event) {
                return event;
            }
        }
        panic!("the turn ended before the event that the test waits for: {:#?}", self.events)
    }

    /// Waits until the agent reports progress with exactly this text.
    ///
    /// # Panics
    /// When the turn ends before.
    pub async fn until_status(&mut self, text: &str) {
        self.until(|event| progress(event).as_deref() == Some(text)).await;
    }

    /// Cancels the task as its caller would, and waits until it is canceled.
    ///
    /// # Panics
    /// When the task has ended already.
    pub async fn cancel(mut self) -> FinishedTurn {
        while self.task.is_none() && self.next().await.is_some() {}
        cancel(&self.engine, self.task.expect("a direct reply cannot be canceled")).await;
        self.finish().await
    }

    /// Waits until the turn ends.
    pub async fn finish(mut self) -> FinishedTurn {
        while self.next().await.is_some() {}
        let task = match self.task {
            Some(id) => Some(read_task(&self.engine, id).await),
            None => None,
        };
        FinishedTurn { engine: self.engine, task, events: self.events }
    }
}

/// A turn that has ended, with everything that its caller has seen.
pub struct FinishedTurn {
    engine: TestEngine,
    task: Option<Task>,
    events: Vec<Event>,
}

impl FinishedTurn {
    /// How the turn ended: for an agent that returned, what it returned.
    ///
    /// A failure of the agent, a panic and a crash are an [`Ending::Fail`]. An [`Ending::Reply`] stays one for agents
    /// that are [instant](crate::Execution::instant); for others it is an [`Ending::Complete`] with the same text.
    ///
    /// # Panics
    /// When the task was left in a state that ends no turn.
    pub fn ending(&self) -> Ending {
        let Some(task) = &self.task else {
            let Some(Event::Message(reply)) = self.events.last() else { panic!("nothing was answered") };
            return Ending::Reply(reply.parts.clone());
        };
        let words = task.status.message.as_ref().map(|message| message.parts.clone()).unwrap_or_default();
        match task.status.state {
            TaskState::Completed => Ending::Complete(words),
            TaskState::Failed => Ending::Fail(words),
            TaskState::Rejected => Ending::Reject(words),
            TaskState::Canceled => Ending::Cancel(words),
            TaskState::InputRequired => Ending::AskInput(words),
            TaskState::AuthRequired => Ending::AskAuth(words),
            TaskState::Transferred => Ending::Transferred(Box::new(task.transfer().expect("it says where it went"))),
            state @ (TaskState::Submitted | TaskState::Working | TaskState::Unspecified) => {
                panic!("the task is {state}, which ends no turn")
            }
        }
    }

    /// The text of the artifact with this id, as it stands now.
    ///
    /// # Panics
    /// When the task has no such artifact.
    #[track_caller]
    pub fn artifact(&self, id: &str) -> String {
        let artifacts = self.artifacts();
        let found = artifacts.iter().find(|(name, _)| name == id);
        found.map_or_else(|| panic!("there is no artifact {id:?} among {artifacts:?}"), |(_, text)| text.clone())
    }

    /// All artifacts of the task, as they stand now: the id and the text of each.
    pub fn artifacts(&self) -> Vec<(String, String)> {
        let artifacts = self.task.iter().flat_map(|task| &task.artifacts);
        artifacts.map(|artifact| (artifact.artifact_id.to_string(), artifact.joined_text())).collect()
    }

    /// The texts of the progress that was reported in this turn, in order.
    pub fn statuses(&self) -> Vec<String> {
        self.events.iter().filter_map(progress).collect()
    }

    /// The events of this turn, in the order in which its caller sees them. The first one shows the whole task.
    pub fn events(&self) -> &[Event] {
        &self.events
    }

    /// The task as it stood at the end of the turn.
    ///
    /// # Panics
    /// When the agent gave a direct reply, which makes no task.
    #[track_caller]
    pub fn task(&self) -> &Task {
        self.task.as_ref().expect("a direct reply makes no task")
    }

    /// Answers the question that this turn has ended with, and waits until the next turn ends.
    pub async fn answer(&self, message: impl IntoParts) -> FinishedTurn {
        self.begin_answer(message).await.finish().await
    }

    /// Answers the question that this turn has ended with, and returns while the agent works on the answer.
    pub async fn begin_answer(&self, message: impl IntoParts) -> RunningTurn {
        RunningTurn::begin(self.engine.clone(), message.into_parts(), Some(self.task().id), None).await
    }

    /// Sends the next message of the conversation, and waits until its turn ends. It opens a new task; the agent finds
    /// this one with [`Context::conversation`](crate::Context::conversation).
    pub async fn send_next(&self, message: impl IntoParts) -> FinishedTurn {
        self.begin_next(message).await.finish().await
    }

    /// Sends the next message of the conversation, and returns while the agent works on it.
    pub async fn begin_next(&self, message: impl IntoParts) -> RunningTurn {
        let context = match (&self.task, self.events.last()) {
            (Some(task), _) => Some(task.context_id.clone()),
            (None, Some(Event::Message(reply))) => reply.context_id.clone(),
            (None, _) => None,
        };
        RunningTurn::begin(self.engine.clone(), message.into_parts(), None, context).await
    }

    /// Cancels the task while it waits for an answer, and returns the task as it is then.
    ///
    /// # Panics
    /// When the task has ended already.
    pub async fn cancel(&self) -> Task {
        cancel(&self.engine, self.task().id).await;
        read_task(&self.engine, self.task().id).await
    }
}

async fn cancel(engine: &TestEngine, task: TaskId) {
    let process = engine.process();
    let call = CancelTask { tenant: Tenant::none(), id: task.into(), metadata: None };
    let canceled = process.engine.cancel(&engine.shared.scope, &process.agent(), &call).await;
    drop(canceled.unwrap_or_else(|fault| panic!("the task cannot be canceled: {fault}")));
}

async fn read_task(engine: &TestEngine, task: TaskId) -> Task {
    let call = GetTask { tenant: Tenant::none(), id: task.into(), history_length: None };
    let read = engine.process().engine.get(&engine.shared.scope, &call).await;
    let (task, _) = read.unwrap_or_else(|fault| panic!("the task cannot be read: {fault}"));
    task.thaw().expect("a task in memory can be read")
}

/// The text of an event that reports progress in words.
fn progress(event: &Event) -> Option<String> {
    let Event::StatusUpdate(update) = event else { return None };
    let message = update.status.message.as_ref().filter(|_| update.status.state == TaskState::Working)?;
    Some(message.joined_text())
}
