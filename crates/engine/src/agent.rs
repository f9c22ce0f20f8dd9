//! The [`Agent`] trait that an author implements, and the [`Context`] that each turn gets.
//!
//! ```
//! use sabir_engine::{Agent, Context, Ending, Failure};
//!
//! struct Echo;
//!
//! impl Agent for Echo {
//!     async fn turn(&self, cx: &mut Context) -> Result<Ending, Failure> {
//!         let parts = cx.message().parts.clone();
//!         cx.artifact("echo", parts).await?;
//!         Ok(Ending::complete())
//!     }
//! }
//! ```

use crate::engine::Core;
use crate::host::BoxFuture;
use crate::subtasks::Lineage;
use crate::turn::ReportQueue;
pub use crate::turn::{Commit, Report};
use bytes::Bytes;
pub use sabir_proto::transfer::HandoffRequest;
use sabir_proto::{
    Artifact, ArtifactId, CallAttachment, Caller, ContextId, Fault, Json, Message, Part, Task, TaskId, Tenant,
    Timestamp, ToolMode, Transfer, TransferContext,
};
use sabir_store::{Continuation, Effect, Scope};
use std::collections::BTreeMap;
use std::fmt;
use std::future::Future;
use std::sync::{Arc, Mutex, OnceLock};
use std::time::Duration;

/// An agent: a program that answers messages.
///
/// A *turn* is the work on one message: it begins with the message and ends with an [`Ending`]. A task may take many
/// turns, each after the caller answered a question.
///
/// # What an agent may count on
///
/// - Whatever it reports becomes visible in order, and only once it is committed. Everything it reported before it
///   next waits for something is one step: committed together or not at all.
/// - After a crash, an agent that declares [`Recovery::Resume`] is called again for the same turn, with the last
///   committed [checkpoint](Context::checkpoint) and a higher [attempt](Context::attempt). Work since the last
///   committed step runs again, so effects on the outside happen *at least once*; the [turn id](Context::turn_id) is
///   the same on every attempt and makes a good idempotency key.
/// - The default is [`Recovery::Fail`]: the task is failed with a reason. A turn that crashed the process three times
///   without leaving a new checkpoint in between is failed as well, whatever the agent declares.
/// - When the caller cancels, the agent's future is dropped, and whatever it reports afterwards through a kept handle
///   is refused and counted. What must be cleaned up belongs into a `Drop`.
/// - A panic fails the task; nothing else is affected.
pub trait Agent: Send + Sync + 'static {
    /// Answers one message.
    fn turn(&self, cx: &mut Context) -> impl Future<Output = Result<Ending, Failure>> + Send;

    /// How the engine may treat this agent.
    fn execution(&self) -> Execution {
        Execution::default()
    }

    /// Whether the request of the sender runs the first turn of a task itself. Nothing is stored before that turn has
    /// ended, however long it waits; then all of it is one step. A turn that ends in a reply, or whose caller
    /// disconnects, leaves no trace. So this is for agents whose effects are part of their step, or are recognised
    /// elsewhere when they are repeated. Once such an agent waits for a [commit](Context::commit), its task is like any
    /// other.
    fn runs_inline(&self) -> bool {
        false
    }

    /// Whether a new task may be opened now. A refused one leaves no trace; the fault tells its caller when to retry.
    fn check_admission(&self) -> Result<(), Fault> {
        Ok(())
    }

    /// How long the agent may take to cancel work elsewhere before the task ends without its answer. Zero, the default,
    /// stops the turn at once.
    fn cancel_grace(&self) -> Duration {
        Duration::ZERO
    }

    /// Cancels work on another server and returns how it ended, which may have been earlier. The engine calls this only
    /// for an agent with a grace, after its turn was stopped or while its task waits for an answer.
    fn cancel_elsewhere(&self, _: CanceledTask) -> impl Future<Output = CancelOutcome> + Send {
        std::future::ready(CancelOutcome::default())
    }

    /// Sends a cancel again that the other server has not acknowledged. True once it has, or when there is no server to
    /// tell.
    fn repeat_cancel(&self, _: CanceledTask) -> impl Future<Output = bool> + Send {
        std::future::ready(true)
    }

    /// Called after the caller has canceled a task of an agent without a grace, at work or waiting for an answer. The
    /// turn's future is dropped by then; its checkpoint is in the argument. For agents whose work goes on elsewhere.
    fn on_canceled(&self, _: CanceledTask) -> impl Future<Output = ()> + Send {
        std::future::ready(())
    }

    /// Called once a handover is committed, and again after restarts for a while, since the engine cannot know whether
    /// the first call finished. For telling the other server that it may begin.
    fn on_handed_over(&self, _: TransferredTask) -> impl Future<Output = ()> + Send {
        std::future::ready(())
    }
}

/// A task that this server has handed over to another one.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct TransferredTask {
    pub task: TaskId,
    pub transfer: Transfer,
}

/// A task that its caller has canceled.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct CanceledTask {
    pub task: TaskId,
    /// The agent's last committed checkpoint.
    pub checkpoint: Option<Bytes>,
}

/// How canceled work on another server has ended.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct CancelOutcome {
    /// The ending that the other server reports; canceled where it reports none.
    pub ending: Ending,
    /// New artifacts, each with whether it is appended to the artifact of its id.
    pub artifacts: Vec<(Artifact, bool)>,
    /// Why the end is uncertain, if it is.
    pub gap: Option<String>,
    /// Whether the other server has acknowledged the cancel; if not, the engine sends it again.
    pub acknowledged: bool,
}

impl CancelOutcome {
    /// Canceled here; the result on the other server is unknown.
    pub fn unacknowledged(why: impl Into<String>) -> Self {
        Self { gap: Some(why.into()), acknowledged: false, ..Self::default() }
    }
}

impl Default for CancelOutcome {
    fn default() -> Self {
        Self { ending: Ending::Cancel(Vec::new()), artifacts: Vec::new(), gap: None, acknowledged: true }
    }
}

/// How the engine may treat an agent.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub struct Execution {
    /// The agent has no effects on the outside, so it may run before its task is committed: a task that settles at
    /// once is then one commit instead of two. Never set this for an agent that calls, writes or spends.
    pub instant: bool,
    /// Most turns end at once, and beginning one twice does no harm. Where no reader can know of a task before it
    /// rests, the task is stored when its first turn ends, or after 100 ms: one commit instead of two. A crash before
    /// that leaves no trace, and the caller without an answer.
    pub defer_open: bool,
    /// The agent may end with an [`Ending::DirectMessage`]. A stream then shows the task only after the agent's first
    /// report or after a delay, since a stream that answers with a direct reply has no task in it.
    pub answers_directly: bool,
    /// What to do with a turn that a crash interrupted.
    pub recovery: Recovery,
}

/// What to do with a turn that a crash interrupted.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub enum Recovery {
    /// Fail the task with a reason.
    #[default]
    Fail,
    /// Call the agent again with its last committed checkpoint.
    Resume,
    /// Call the agent again from the beginning: it is idempotent.
    Restart,
}

#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Ending {
    /// The task is done; the parts, if any, are its closing words.
    Complete(Vec<Part>),
    /// The task could not be done.
    Fail(Vec<Part>),
    /// The agent will not do it.
    Reject(Vec<Part>),
    /// The agent asks a question; the answer begins the next turn.
    AskInput(Vec<Part>),
    /// The agent asks for credentials.
    AskAuth(Vec<Part>),
    /// A remote agent behind this one has canceled the work, not the caller.
    Cancel(Vec<Part>),
    /// A direct reply without a task. Where a task exists already, it completes with these words.
    Reply(Vec<Part>),
    /// A direct reply of an agent on another server. The log keeps it as a task that completed with it. A caller that
    /// waits, and whose dialect has direct replies, gets the message alone, also when it repeats its send.
    DirectMessage(Box<Message>),
    /// Hands the task over to another agent, where the conversation goes on. An agent that may not hand tasks over
    /// fails with this.
    Transfer(Box<HandoffRequest>),
    /// The task is on another server now. Only the code that has completed the handover returns this.
    Transferred(Box<Transfer>),
}

impl Ending {
    /// Whether the agent asks for input or credentials, so that there may be another turn.
    pub const fn is_question(&self) -> bool {
        matches!(self, Self::AskInput(_) | Self::AskAuth(_))
    }

    /// Completes the task without closing words.
    pub const fn complete() -> Self {
        Self::Complete(Vec::new())
    }

    /// Completes the task with closing words; none if the text is empty.
    pub fn complete_with(text: impl Into<String>) -> Self {
        Self::Complete(text_parts(text))
    }

    /// Fails the task with this reason.
    pub fn fail(text: impl Into<String>) -> Self {
        Self::Fail(text_parts(text))
    }

    /// Rejects the task with this reason.
    pub fn reject(text: impl Into<String>) -> Self {
        Self::Reject(text_parts(text))
    }

    /// Asks the caller this question.
    pub fn ask_input(text: impl Into<String>) -> Self {
        Self::AskInput(text_parts(text))
    }

    /// Asks the caller for credentials.
    pub fn ask_auth(text: impl Into<String>) -> Self {
        Self::AskAuth(text_parts(text))
    }

    /// Replies directly, without a task.
    pub fn reply(text: impl Into<String>) -> Self {
        Self::Reply(text_parts(text))
    }
}

/// One text part, or none for an empty text.
pub(crate) fn text_parts(text: impl Into<String>) -> Vec<Part> {
    let text = text.into();
    if text.is_empty() { Vec::new() } else { vec![Part::text(text)] }
}

/// Why a turn failed, in words the caller may read. Made by `?` from any error.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Failure(pub String);

impl<E: std::error::Error> From<E> for Failure {
    fn from(error: E) -> Self {
        Self(error.to_string())
    }
}

/// A report that came too late: the task was canceled or has settled.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct TaskEnded;

impl fmt::Display for TaskEnded {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("the task has ended")
    }
}

impl std::error::Error for TaskEnded {}

/// What an agent gets for one turn.
#[derive(Debug)]
pub struct Context {
    pub(crate) reports: Arc<ReportQueue>,
    pub(crate) turn: Arc<TurnInfo>,
    pub(crate) checkpoint: Option<Bytes>,
    /// The message with parts put before it, where [`Context::prepend_parts`] was called.
    pub(crate) augmented_message: Option<Box<Message>>,
}

/// What does not change during a turn.
pub(crate) struct TurnInfo {
    pub(crate) task: TaskId,
    pub(crate) scope: Arc<Scope>,
    /// The owner after the handoff: the caller that presented the claim, not the one that created the task.
    pub(crate) claimed_by: OnceLock<Arc<Scope>>,
    pub(crate) context: ContextId,
    pub(crate) turn: u64,
    pub(crate) attempt: u32,
    pub(crate) message: Message,
    /// The task as it stood before this turn; without history for a new one.
    pub(crate) task_before: Option<Box<Task>>,
    pub(crate) tool_mode: ToolMode,
    /// Whether the caller supports the handoff extension.
    pub(crate) follows_handoffs: bool,
    /// The task is held until the server that handed it over activates it.
    pub(crate) held: bool,
    pub(crate) lineage: Lineage,
    /// The turn began before its task was stored.
    pub(crate) started_before_open: bool,
    /// The task is stored when this turn has ended, or after 100 ms; see [`Execution::defer_open`].
    pub(crate) open_deferred: bool,
    /// How often each child was answered during this turn.
    pub(crate) answers: Mutex<BTreeMap<Arc<str>, u32>>,
    /// What the server attached to the call; empty in a turn that resumes after a crash.
    pub(crate) attachment: CallAttachment,
    pub(crate) core: Arc<Core>,
}

impl TurnInfo {
    /// The current owner of the task.
    pub(crate) fn scope(&self) -> &Arc<Scope> {
        self.claimed_by.get().unwrap_or(&self.scope)
    }

    /// Loads the current owner: a handed-over task may have been claimed by another caller.
    pub(crate) async fn load_current_owner(&self) {
        if let Ok(Some(owner)) = self.core.log.owner(self.task).await
            && owner != self.scope
        {
            let _ = self.claimed_by.set(owner);
        }
    }
}

impl fmt::Debug for TurnInfo {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("TurnInfo").field("task", &self.task).field("turn", &self.turn).finish_non_exhaustive()
    }
}

impl Context {
    /// The message that this turn answers.
    pub fn message(&self) -> &Message {
        self.augmented_message.as_deref().unwrap_or(&self.turn.message)
    }

    /// Puts parts before those of the message, for the rest of this turn, for code that wraps an agent and has
    /// something to tell it first. The log keeps the message as it came.
    pub fn prepend_parts(&mut self, mut parts: Vec<Part>) {
        let mut message = self.message().clone();
        parts.append(&mut message.parts);
        message.parts = parts;
        self.augmented_message = Some(Box::new(message));
    }

    pub fn task_id(&self) -> TaskId {
        self.turn.task
    }

    /// The value of this type that the server attached to the call, if there is one. A turn that resumes after a crash
    /// has none.
    pub fn attachment<T: std::any::Any>(&self) -> Option<&T> {
        self.turn.attachment.get()
    }

    /// The id of the conversation.
    pub fn context_id(&self) -> &ContextId {
        &self.turn.context
    }

    /// The tenant that the caller named; none where that name only selected the agent.
    pub fn tenant(&self) -> &Tenant {
        &self.turn.scope().tenant
    }

    /// The authenticated caller, whatever a message claims about its sender.
    pub fn caller(&self) -> &Caller {
        &self.turn.scope().caller
    }

    /// What tools may do on this turn. An agent with tools must keep to it, and pass it on to what it starts.
    pub fn tool_mode(&self) -> ToolMode {
        self.turn.tool_mode
    }

    /// Whether the caller supports the handoff extension.
    pub fn follows_handoffs(&self) -> bool {
        self.turn.follows_handoffs
    }

    /// The context that came with a task that was handed over to us. These are claims of another server: neither
    /// instructions nor a proof of identity.
    pub fn transfer_context(&self) -> Option<TransferContext> {
        let first = self.turn.task_before.as_ref().and_then(|task| task.history.first());
        crate::held_tasks::transfer_context_of(first.unwrap_or(&self.turn.message))
    }

    /// The task before this turn, with its history and artifacts; `None` on its first turn.
    pub fn before(&self) -> Option<&Task> {
        self.turn.task_before.as_deref()
    }

    /// The id of this turn; the same on every attempt, so good as an idempotency key for effects on the outside.
    pub fn turn_id(&self) -> String {
        format!("{}/{}", self.turn.task, self.turn.turn)
    }

    /// Whether the task is not stored yet, and will not be before the turn has ended or has taken 100 ms; see
    /// [`Execution::defer_open`].
    pub fn is_open_deferred(&self) -> bool {
        self.turn.open_deferred
    }

    /// 1 the first time, more after crashes.
    pub fn attempt(&self) -> u32 {
        self.turn.attempt
    }

    /// The checkpoint in the last committed step; `None` at the beginning of a task.
    pub fn checkpoint(&self) -> Option<&[u8]> {
        self.checkpoint.as_deref()
    }

    /// Puts an opaque checkpoint into the next step, replacing the last one.
    pub fn set_checkpoint(&mut self, data: impl Into<Bytes>) {
        let data = data.into();
        self.reports.set_checkpoint(data.clone());
        self.checkpoint = Some(data);
    }

    /// Like [`Context::set_checkpoint`] for a shared context: the next attempt finds the data, this one
    /// does not.
    pub fn set_next_checkpoint(&self, data: impl Into<Bytes>) {
        self.reports.set_checkpoint(data.into());
    }

    /// Reports progress; an empty text says "working" without words.
    pub fn status(&self, text: impl Into<String>) -> Report<'_> {
        self.reports.status(text_parts(text))
    }

    /// Reports progress in parts of any kind.
    pub fn progress(&self, parts: Vec<Part>) -> Report<'_> {
        self.reports.status(parts)
    }

    /// Waits until everything reported so far, and the checkpoint, are committed: for what must be known before the
    /// agent does something on the outside.
    pub fn commit(&self) -> Commit<'_> {
        self.reports.commit()
    }

    /// Declares that work on another server is to be canceled once this turn has ended. The engine writes that with the
    /// turn's last step and the checkpoint, and calls [`Agent::repeat_cancel`] until it is done, across restarts. For agents
    /// with a grace.
    pub fn require_cancel_elsewhere(&self) {
        self.reports.require_cancel();
    }

    /// Declares that a message is about to be sent to another server, whose answer names the task there. Until
    /// [`Context::answer_received`], a cancel waits for that answer for as long as the agent's
    /// grace: without the name, the task there cannot be canceled.
    pub fn expect_answer(&self) {
        self.reports.set_awaits_answer();
    }

    /// Declares that the other server has answered with a task. Returns true where a cancel waits: then the agent
    /// stores what it knows in the checkpoint, which the cancel uses.
    pub fn answer_received(&self) -> bool {
        self.reports.set_answered()
    }

    /// Declares that the call whose answer was expected has ended, whatever its result.
    pub fn call_ended(&self) {
        self.reports.set_call_over();
    }

    /// Records in the next step what the turn waits for, or that it waits no longer. Shown to operators; it decides
    /// nothing.
    pub fn set_waiting_for(&self, whom: Option<Continuation>) {
        self.reports.set_waiting_for(whom);
    }

    /// Commits an effect with the agent's next step: with its reports before it next waits, or with its ending. If the
    /// store refuses the effect, it refuses the whole step. Then the turn ends and the sender is told why; nothing at
    /// all is stored of an instant agent that got no further.
    pub fn add_effect(&self, effect: impl Into<Effect>) {
        self.reports.add_effect(effect.into());
    }

    /// Reports that something may be missing between the last report and the next one, and why. The next status carries
    /// this.
    pub fn gap(&self, reason: impl Into<String>) -> Report<'_> {
        self.reports.gap(reason.into())
    }

    /// Reports a whole artifact, creating it or replacing the one with this id.
    pub fn artifact(&self, id: &str, parts: Vec<Part>) -> Report<'_> {
        self.chunk(Artifact::new(artifact_id(id), parts), false, true)
    }

    /// Reports an artifact or a chunk of one.
    pub fn chunk(&self, artifact: Artifact, append: bool, last_chunk: bool) -> Report<'_> {
        self.reports.artifact(artifact, append, last_chunk)
    }

    /// Reports a data artifact.
    pub fn data(&self, id: &str, json: Json) -> Report<'_> {
        self.artifact(id, vec![Part::data(json)])
    }

    /// The time of day, from the host.
    pub fn now(&self) -> Timestamp {
        self.turn.core.host.now()
    }

    /// 64 unpredictable bits, from the host.
    pub fn random(&self) -> u64 {
        self.turn.core.host.random()
    }

    /// Waits this long by the host's clock.
    pub fn sleep(&self, duration: Duration) -> BoxFuture<'static, ()> {
        self.turn.core.host.sleep(duration)
    }
}

/// Ids of artifacts are the agent's own; one that could not be parsed again is replaced by a legal one.
fn artifact_id(id: &str) -> ArtifactId {
    ArtifactId::parse(id).or_else(|_| ArtifactId::parse("artifact")).expect("a plain word is a legal id")
}

/// An [`Agent`] as a trait object.
pub trait AnyAgent: Send + Sync + 'static {
    /// See [`Agent::turn`].
    fn any_turn<'a>(&'a self, cx: &'a mut Context) -> BoxFuture<'a, Result<Ending, Failure>>;
    /// See [`Agent::execution`].
    fn any_execution(&self) -> Execution;
    /// See [`Agent::runs_inline`].
    fn any_runs_inline(&self) -> bool {
        false
    }
    /// See [`Agent::check_admission`].
    fn any_check_admission(&self) -> Result<(), Fault>;
    /// See [`Agent::cancel_grace`].
    fn any_cancel_grace(&self) -> Duration;
    /// See [`Agent::cancel_elsewhere`].
    fn any_cancel_elsewhere(&self, canceled: CanceledTask) -> BoxFuture<'_, CancelOutcome>;
    /// See [`Agent::repeat_cancel`].
    fn any_repeat_cancel(&self, canceled: CanceledTask) -> BoxFuture<'_, bool>;
    /// See [`Agent::on_canceled`].
    fn any_on_canceled(&self, canceled: CanceledTask) -> BoxFuture<'_, ()>;
    /// See [`Agent::on_handed_over`].
    fn any_on_handed_over(&self, handed_over: TransferredTask) -> BoxFuture<'_, ()>;
}

impl<A: Agent> AnyAgent for A {
    fn any_turn<'a>(&'a self, cx: &'a mut Context) -> BoxFuture<'a, Result<Ending, Failure>> {
        Box::pin(self.turn(cx))
    }

    fn any_execution(&self) -> Execution {
        self.execution()
    }

    fn any_runs_inline(&self) -> bool {
        self.runs_inline()
    }

    fn any_check_admission(&self) -> Result<(), Fault> {
        self.check_admission()
    }

    fn any_cancel_grace(&self) -> Duration {
        self.cancel_grace()
    }

    fn any_cancel_elsewhere(&self, canceled: CanceledTask) -> BoxFuture<'_, CancelOutcome> {
        Box::pin(self.cancel_elsewhere(canceled))
    }

    fn any_repeat_cancel(&self, canceled: CanceledTask) -> BoxFuture<'_, bool> {
        Box::pin(self.repeat_cancel(canceled))
    }

    fn any_on_canceled(&self, canceled: CanceledTask) -> BoxFuture<'_, ()> {
        Box::pin(self.on_canceled(canceled))
    }

    fn any_on_handed_over(&self, handed_over: TransferredTask) -> BoxFuture<'_, ()> {
        Box::pin(self.on_handed_over(handed_over))
    }
}
