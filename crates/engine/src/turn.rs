//! One turn of an agent: its future, and the reports that are not committed yet.

use crate::agent::{self, AnyAgent, CanceledTask, Ending, Failure, TaskEnded, TransferredTask, TurnInfo};
use crate::held_tasks;
use crate::host::BoxFuture;
use crate::limits::Limits;
use bytes::Bytes;
use sabir_proto::{AgentName, Artifact, Part, TaskId};
use sabir_store::{Continuation, Effect};
use std::future::Future;
use std::panic::{AssertUnwindSafe, catch_unwind};
use std::pin::Pin;
use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::task::{Context, Poll, Waker};

/// The longest failure cause in the log, in bytes. The whole of it is in the task.
const LOGGED_CAUSE_BYTES_MAX: usize = 1024;

/// A report of an agent that has no number yet.
#[derive(Debug)]
pub(crate) enum DraftEvent {
    Status(Vec<Part>),
    Artifact { artifact: Artifact, append: bool, last_chunk: bool },
    Gap(String),
}

/// The queue in which reports wait for their commit.
#[derive(Debug)]
pub(crate) struct ReportQueue {
    state: Mutex<ReportQueueState>,
    events_max: usize,
    bytes_max: usize,
}

#[derive(Debug, Default)]
struct ReportQueueState {
    drafts: Vec<DraftEvent>,
    bytes: usize,
    checkpoint: Option<Bytes>,
    waiting_for: Option<Option<Continuation>>,
    effects: Vec<Effect>,
    /// The agent waits for a commit, even of nothing but a checkpoint.
    commit_wanted: bool,
    /// How often the queue was emptied.
    times_taken: u64,
    closed: bool,
    /// The agent has opened tasks with other agents.
    delegated: bool,
    /// Work on another server is to be canceled once the turn has ended.
    cancel_required: bool,
    refused: u64,
    /// A message was sent to another server, which has not answered.
    awaits_answer: bool,
    /// The other server has answered.
    has_answered: bool,
    /// The caller has canceled, and the cancel waits for the answer.
    cancel_waits: bool,
    waiting: Option<Waker>,
}

impl ReportQueue {
    pub(crate) fn new(limits: &Limits) -> Self {
        Self { state: Mutex::default(), events_max: limits.draft_events_max, bytes_max: limits.draft_bytes_max }
    }

    fn lock(&self) -> MutexGuard<'_, ReportQueueState> {
        self.state.lock().unwrap_or_else(PoisonError::into_inner)
    }

    pub(crate) fn status(&self, parts: Vec<Part>) -> Report<'_> {
        Report { queue: self, draft: Some(DraftEvent::Status(parts)), bytes: 256 }
    }

    pub(crate) fn gap(&self, reason: String) -> Report<'_> {
        Report { queue: self, draft: Some(DraftEvent::Gap(reason)), bytes: 256 }
    }

    pub(crate) fn artifact(&self, artifact: Artifact, append: bool, last_chunk: bool) -> Report<'_> {
        let bytes = 256 + artifact.parts.iter().map(approx_bytes).sum::<usize>();
        Report { queue: self, draft: Some(DraftEvent::Artifact { artifact, append, last_chunk }), bytes }
    }

    pub(crate) fn set_checkpoint(&self, data: Bytes) {
        self.lock().checkpoint = Some(data);
    }

    pub(crate) fn set_waiting_for(&self, whom: Option<Continuation>) {
        self.lock().waiting_for = Some(whom);
    }

    pub(crate) fn require_cancel(&self) {
        self.lock().cancel_required = true;
    }

    pub(crate) fn is_cancel_required(&self) -> bool {
        self.lock().cancel_required
    }

    pub(crate) fn set_awaits_answer(&self) {
        self.lock().awaits_answer = true;
    }

    /// Records that the other server has answered; true where a cancel waits for this.
    pub(crate) fn set_answered(&self) -> bool {
        let mut state = self.lock();
        state.awaits_answer = false;
        state.has_answered = true;
        state.cancel_waits
    }

    /// Records that the call whose answer was expected has ended.
    pub(crate) fn set_call_over(&self) {
        self.lock().awaits_answer = false;
    }

    /// Whether the other server has answered.
    pub(crate) fn has_answered(&self) -> bool {
        self.lock().has_answered
    }

    /// Whether a message was sent that the other server has not answered: it may have a task there without a known id.
    pub(crate) fn awaits_answer(&self) -> bool {
        self.lock().awaits_answer
    }

    /// Records that a cancel waits for the answer of the other server.
    pub(crate) fn set_cancel_waits(&self) {
        self.lock().cancel_waits = true;
    }

    fn is_closed(&self) -> bool {
        self.lock().closed
    }

    pub(crate) fn add_effect(&self, effect: Effect) {
        self.lock().effects.push(effect);
    }

    /// Takes the effects that belong to the reports taken last.
    pub(crate) fn take_effects(&self) -> Vec<Effect> {
        std::mem::take(&mut self.lock().effects)
    }

    pub(crate) const fn commit(&self) -> Commit<'_> {
        Commit { queue: self, asked_after: None }
    }

    /// Takes the last report of what the turn waits for, if there was one.
    pub(crate) fn take_waiting_for(&self) -> Option<Option<Continuation>> {
        self.lock().waiting_for.take()
    }

    /// Takes all reports and the checkpoint; makes room for more.
    pub(crate) fn take(&self) -> (Vec<DraftEvent>, Option<Bytes>) {
        let mut state = self.lock();
        state.bytes = 0;
        state.times_taken += 1;
        state.commit_wanted = false;
        let taken = (std::mem::take(&mut state.drafts), state.checkpoint.take());
        if let Some(waker) = state.waiting.take() {
            waker.wake();
        }
        taken
    }

    /// Whether there is something to commit.
    pub(crate) fn is_due(&self) -> bool {
        let state = self.lock();
        !state.drafts.is_empty() || state.commit_wanted
    }

    /// Whether a gap was reported.
    pub(crate) fn has_gap(&self) -> bool {
        self.lock().drafts.iter().any(|draft| matches!(draft, DraftEvent::Gap(_)))
    }

    /// Whether the agent waits for a commit.
    pub(crate) fn wants_commit(&self) -> bool {
        self.lock().commit_wanted
    }

    /// Refuses all further reports.
    pub(crate) fn close(&self) {
        let mut state = self.lock();
        state.closed = true;
        if let Some(waker) = state.waiting.take() {
            waker.wake();
        }
    }

    /// Records that the turn has children.
    pub(crate) fn set_delegated(&self) {
        self.lock().delegated = true;
    }

    /// Whether the turn may have children.
    pub(crate) fn has_delegated(&self) -> bool {
        self.lock().delegated
    }

    /// The number of reports that came too late.
    pub(crate) fn refused(&self) -> u64 {
        self.lock().refused
    }
}

/// A report being made. Awaiting it waits only while too many reports are uncommitted.
#[derive(Debug)]
#[must_use = "a report is made by awaiting it"]
pub struct Report<'a> {
    queue: &'a ReportQueue,
    draft: Option<DraftEvent>,
    bytes: usize,
}

impl Future for Report<'_> {
    type Output = Result<(), TaskEnded>;

    fn poll(self: Pin<&mut Self>, cx: &mut Context<'_>) -> Poll<Self::Output> {
        let report = self.get_mut();
        let mut state = report.queue.lock();
        if state.closed {
            state.refused += 1;
            return Poll::Ready(Err(TaskEnded));
        }
        if state.drafts.len() >= report.queue.events_max || state.bytes >= report.queue.bytes_max {
            state.waiting = Some(cx.waker().clone());
            return Poll::Pending;
        }
        state.bytes += report.bytes;
        state.drafts.extend(report.draft.take());
        Poll::Ready(Ok(()))
    }
}

/// Waits for the commit of everything reported before.
#[derive(Debug)]
#[must_use = "a commit is waited for by awaiting it"]
pub struct Commit<'a> {
    queue: &'a ReportQueue,
    asked_after: Option<u64>,
}

impl Future for Commit<'_> {
    type Output = Result<(), TaskEnded>;

    fn poll(self: Pin<&mut Self>, cx: &mut Context<'_>) -> Poll<Self::Output> {
        let commit = self.get_mut();
        let mut state = commit.queue.lock();
        if state.closed {
            return Poll::Ready(Err(TaskEnded));
        }
        match commit.asked_after {
            // The agent is not polled between the taking of its reports and their commit.
            Some(taken) if state.times_taken > taken => Poll::Ready(Ok(())),
            _ => {
                commit.asked_after.get_or_insert(state.times_taken);
                state.commit_wanted = true;
                state.waiting = Some(cx.waker().clone());
                Poll::Pending
            }
        }
    }
}

fn approx_bytes(part: &Part) -> usize {
    match &part.content {
        sabir_proto::Content::Text(text) | sabir_proto::Content::Url(text) => text.len(),
        sabir_proto::Content::Raw(bytes) => bytes.len() * 4 / 3,
        sabir_proto::Content::Data(json) => json.as_str().len(),
    }
}

/// An agent at work on one message.
pub(crate) struct Turn {
    future: BoxFuture<'static, Result<Ending, Failure>>,
    pub(crate) reports: Arc<ReportQueue>,
    pub(crate) agent: Arc<dyn AnyAgent>,
    info: Arc<TurnInfo>,
    /// The agent's last checkpoint.
    pub(crate) checkpoint: Option<Bytes>,
    /// Set when a held task is activated; `None` for all other tasks.
    release_flag: Option<Arc<AtomicBool>>,
}

impl Turn {
    pub(crate) fn new(
        agent: Arc<dyn AnyAgent>,
        info: Arc<TurnInfo>,
        checkpoint: Option<Bytes>,
        limits: &Limits,
    ) -> Self {
        let reports = Arc::new(ReportQueue::new(limits));
        let release_flag = info.held.then(Arc::default);
        let held = release_flag
            .clone()
            .map(|gate| held_tasks::wait_for_release(gate, info.core.host.sleep(held_tasks::hold_time_left(&info))));
        let mut cx = agent::Context {
            reports: reports.clone(),
            turn: info.clone(),
            checkpoint: checkpoint.clone(),
            augmented_message: None,
        };
        let worker = agent.clone();
        let future: BoxFuture<'static, _> = match held {
            None => Box::pin(async move { worker.any_turn(&mut cx).await }),
            Some(held) => Box::pin(async move {
                if held.await {
                    cx.turn.load_current_owner().await;
                    worker.any_turn(&mut cx).await
                } else {
                    Ok(Ending::Cancel(agent::text_parts(held_tasks::EXPIRED)))
                }
            }),
        };
        Self { future, reports, agent, info, checkpoint, release_flag }
    }

    /// Activates a held task; false if it is not held, or not any more.
    pub(crate) fn release_hold(&self) -> bool {
        self.release_flag.as_ref().is_some_and(|gate| !gate.swap(true, Ordering::AcqRel))
    }

    /// Notifies the agent that its task is on another server now.
    pub(crate) fn notify_handed_over(&self, handed_over: TransferredTask) -> BoxFuture<'static, ()> {
        let agent = self.agent.clone();
        Box::pin(async move { agent.any_on_handed_over(handed_over).await })
    }

    /// Notifies the agent that its task was canceled.
    pub(crate) fn notify_canceled(&self, task: TaskId) -> BoxFuture<'static, ()> {
        notify_agent_canceled(self.agent.clone(), CanceledTask { task, checkpoint: self.checkpoint.clone() })
    }

    /// Polls the agent; a panic is a failure.
    pub(crate) fn poll(&mut self, cx: &mut Context<'_>) -> Poll<Ending> {
        let polled = catch_unwind(AssertUnwindSafe(|| self.future.as_mut().poll(cx)));
        let ending = match polled {
            Ok(Poll::Pending) => return Poll::Pending,
            Ok(Poll::Ready(Ok(Ending::Transfer(order)))) => {
                Ending::fail(format!("this agent may not hand tasks over, so not to {} either", order.to))
            }
            Ok(Poll::Ready(Ok(ending))) => ending,
            Ok(Poll::Ready(Err(Failure(why)))) => Ending::fail(why),
            Err(_) => {
                tracing::error!(agent = %self.info.scope.agent, task = %self.info.task, "an agent panicked");
                self.reports.require_cancel();
                self.reports.set_call_over();
                Ending::fail("the agent broke down while working on this")
            }
        };
        self.log_failure(&ending);
        Poll::Ready(ending)
    }

    /// Logs the failure of a task. A turn with a closed report queue cannot end its task any more.
    pub(crate) fn log_failure(&self, ending: &Ending) {
        if let Ending::Fail(parts) = ending
            && !self.reports.is_closed()
        {
            let cause: Vec<&str> = parts.iter().filter_map(Part::as_text).collect();
            log_failed_task(&self.info.scope.agent, self.info.task, &cause.join(" "));
        }
    }

    /// Drops the agent's future, and returns how many of its reports came too late.
    pub(crate) fn stop(&mut self) -> u64 {
        self.reports.close();
        let future = std::mem::replace(&mut self.future, Box::pin(std::future::pending()));
        if catch_unwind(AssertUnwindSafe(|| drop(future))).is_err() {
            tracing::error!("an agent panicked while it was stopped");
        }
        self.reports.refused()
    }
}

/// Writes the one log line for a failed task.
pub(crate) fn log_failed_task(agent: &AgentName, task: TaskId, cause: &str) {
    let end = cause.floor_char_boundary(LOGGED_CAUSE_BYTES_MAX);
    tracing::info!(%agent, %task, cause = &cause[..end], "a task failed");
}

/// Notifies an agent that one of its tasks was canceled.
pub(crate) fn notify_agent_canceled(agent: Arc<dyn AnyAgent>, canceled: CanceledTask) -> BoxFuture<'static, ()> {
    Box::pin(async move { agent.any_on_canceled(canceled).await })
}

impl Drop for Turn {
    fn drop(&mut self) {
        self.reports.close();
    }
}
