//! What an author implements, and what an agent may count on.
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
use crate::kin::Lineage;
use crate::turn::Outlet;
pub use crate::turn::{Commit, Report};
use bytes::Bytes;
pub use sabir_proto::transfer::Handover;
use sabir_proto::{
    Artifact, ArtifactId, Caller, ContextId, Fault, Json, Message, Part, Task, TaskId, Tenant, Timestamp, ToolMode,
    Transfer, TransferContext,
};
use sabir_store::{Continuation, Effect, Scope};
use std::collections::BTreeMap;
use std::fmt;
use std::future::Future;
use std::sync::{Arc, Mutex, OnceLock};
use std::time::Duration;

/// Something that answers messages.
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
    fn nature(&self) -> Nature {
        Nature::default()
    }

    /// Whether whoever sends carries the first turn of a task: nothing is kept before it has ended, however long it waits,
    /// and all of it is one step then. What ends in a reply leaves no trace, and neither does what its caller does not
    /// wait for; so this is for agents whose effects are those of their step, or are recognised elsewhere when they are
    /// repeated. Once such an agent waits for a [commit](Context::commit), its task is one like any other.
    fn is_carried(&self) -> bool {
        false
    }

    /// Whether a new task may be opened now. One that is refused leaves no trace; its caller is told when to come again.
    fn admits(&self) -> Result<(), Fault> {
        Ok(())
    }

    /// How long the agent may take to call off its work when a task is canceled, before the task ends without it.
    /// Nothing for most: their turn is stopped where it stands, and that is that.
    fn grace(&self) -> Duration {
        Duration::ZERO
    }

    /// Calls off work that goes on elsewhere, and tells how that ended: it may have been done before. Asked only of an
    /// agent that wants a grace, when its turn has been stopped or while its task waits for an answer.
    fn call_off(&self, _: Canceled) -> impl Future<Output = CalledOff> + Send {
        std::future::ready(CalledOff::default())
    }

    /// Tells the other side of a cancel that it has not acknowledged yet; true once it has, or there is nobody to tell.
    fn remind(&self, _: Canceled) -> impl Future<Output = bool> + Send {
        std::future::ready(true)
    }

    /// Told after its caller has canceled a task, unless it wanted a grace; whether a turn was at work or had ended with a
    /// question. The turn's future is gone by then; what it left for itself is here. For agents whose work goes on
    /// elsewhere.
    fn canceled(&self, _: Canceled) -> impl Future<Output = ()> + Send {
        std::future::ready(())
    }

    /// Told once a task is handed over and that is committed; and again after a restart, for a while, since nobody knows
    /// whether it was heard. For telling the other side that it may begin.
    fn handed_over(&self, _: HandedOver) -> impl Future<Output = ()> + Send {
        std::future::ready(())
    }
}

/// A task that was given to another server.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct HandedOver {
    /// The task.
    pub task: TaskId,
    /// Where it went.
    pub transfer: Transfer,
}

/// A task whose caller no longer wants it.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Canceled {
    /// The task.
    pub task: TaskId,
    /// What the agent left for itself.
    pub checkpoint: Option<Bytes>,
}

/// How work that was called off has ended.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct CalledOff {
    /// As the other side says; canceled where it says nothing.
    pub ending: Ending,
    /// What is new among the artifacts, and whether it is added to those of its id.
    pub artifacts: Vec<(Artifact, bool)>,
    /// What is not known about the end, if anything.
    pub gap: Option<String>,
    /// The other side knows of the cancel; otherwise it is reminded.
    pub acknowledged: bool,
}

impl CalledOff {
    /// Canceled here; what became of it there is not known.
    pub fn unheard(why: impl Into<String>) -> Self {
        Self { gap: Some(why.into()), acknowledged: false, ..Self::default() }
    }
}

impl Default for CalledOff {
    fn default() -> Self {
        Self { ending: Ending::Cancel(Vec::new()), artifacts: Vec::new(), gap: None, acknowledged: true }
    }
}

/// How the engine may treat an agent.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub struct Nature {
    /// The agent has no effects on the outside, so it may run before its task is committed: a task that settles at
    /// once is then one commit instead of two. Never set this for an agent that calls, writes or spends.
    pub instant: bool,
    /// Most turns end in a moment, and one that is begun twice does no harm. Where nobody can know of a task before it
    /// rests, it is written down when it ends, or when the moment is over: one commit instead of two. A crash in that
    /// moment leaves no trace, and the caller without an answer.
    pub brief: bool,
    /// The agent may end with an [`Ending::DirectMessage`]. A stream shows the task once the agent is heard of, or after
    /// a while, since a stream of a direct reply has no task in it.
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

/// How a turn ends.
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
    /// The work was called off, though not by the caller: an agent behind this one said so.
    Cancel(Vec<Part>),
    /// A direct reply without a task. Where a task exists already, it completes with these words.
    Reply(Vec<Part>),
    /// A direct reply of an agent elsewhere. The log keeps it as a task that completed with it; a caller whose dialect has
    /// direct replies, and who waits, gets the message alone, and gets it again when it repeats its send.
    DirectMessage(Box<Message>),
    /// Another agent should have the task, and the conversation goes on there. Of an agent that may not hand tasks over it
    /// is a failure.
    Transfer(Box<Handover>),
    /// The task is another server's now. Said by whoever has seen to that, once it is there.
    Transferred(Box<Transfer>),
}

impl Ending {
    /// Whether somebody is asked something, so that there may be another turn.
    pub const fn asks(&self) -> bool {
        matches!(self, Self::AskInput(_) | Self::AskAuth(_))
    }

    /// Done, without words.
    pub const fn complete() -> Self {
        Self::Complete(Vec::new())
    }

    /// Done, with closing words; none if the text is empty.
    pub fn complete_with(text: impl Into<String>) -> Self {
        Self::Complete(words(text))
    }

    /// Not done, and why.
    pub fn fail(text: impl Into<String>) -> Self {
        Self::Fail(words(text))
    }

    /// Not wanted, and why.
    pub fn reject(text: impl Into<String>) -> Self {
        Self::Reject(words(text))
    }

    /// A question.
    pub fn ask_input(text: impl Into<String>) -> Self {
        Self::AskInput(words(text))
    }

    /// A request for credentials.
    pub fn ask_auth(text: impl Into<String>) -> Self {
        Self::AskAuth(words(text))
    }

    /// A direct reply.
    pub fn reply(text: impl Into<String>) -> Self {
        Self::Reply(words(text))
    }
}

/// One text part, or none for an empty text.
pub(crate) fn words(text: impl Into<String>) -> Vec<Part> {
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
pub struct Ended;

impl fmt::Display for Ended {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("the task has ended")
    }
}

impl std::error::Error for Ended {}

/// What an agent gets for one turn.
#[derive(Debug)]
pub struct Context {
    pub(crate) outlet: Arc<Outlet>,
    pub(crate) turn: Arc<TurnInfo>,
    pub(crate) checkpoint: Option<Bytes>,
    /// The message as the agent hears it, where that is more than was said.
    pub(crate) heard: Option<Box<Message>>,
}

/// What does not change during a turn.
pub(crate) struct TurnInfo {
    pub(crate) task: TaskId,
    pub(crate) scope: Arc<Scope>,
    /// Whose the task is by the time it is let go of, where somebody else made it.
    pub(crate) adopted_by: OnceLock<Arc<Scope>>,
    pub(crate) context: ContextId,
    pub(crate) turn: u64,
    pub(crate) attempt: u32,
    pub(crate) message: Message,
    /// The task as it stood before this turn; without history for a new one.
    pub(crate) before: Option<Box<Task>>,
    pub(crate) tools: ToolMode,
    /// The caller has said that it follows handoffs.
    pub(crate) follows: bool,
    /// The task waits until whoever handed it to us has let go of it.
    pub(crate) held: bool,
    pub(crate) lineage: Lineage,
    /// It began before its task was in the log.
    pub(crate) early: bool,
    /// The task is written down when the turn has ended, or is at work for longer than a moment.
    pub(crate) brief: bool,
    /// How often each child was answered during this turn.
    pub(crate) answers: Mutex<BTreeMap<Arc<str>, u32>>,
    pub(crate) core: Arc<Core>,
}

impl TurnInfo {
    /// For whom the agent works.
    pub(crate) fn scope(&self) -> &Arc<Scope> {
        self.adopted_by.get().unwrap_or(&self.scope)
    }

    /// Looks whose the task is now: whoever made it may have made it for somebody else.
    pub(crate) async fn look_for_whom(&self) {
        if let Ok(Some(owner)) = self.core.log.owner(self.task).await
            && owner != self.scope
        {
            let _ = self.adopted_by.set(owner);
        }
    }
}

impl fmt::Debug for TurnInfo {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("TurnInfo").field("task", &self.task).field("turn", &self.turn).finish_non_exhaustive()
    }
}

impl Context {
    /// The message to answer.
    pub fn message(&self) -> &Message {
        self.heard.as_deref().unwrap_or(&self.turn.message)
    }

    /// Puts parts before those of the message, for the rest of this turn: for whoever stands before an agent and knows
    /// something that the agent should hear first. What is kept is the message as it was said.
    pub fn hear_first(&mut self, mut parts: Vec<Part>) {
        let mut message = self.message().clone();
        parts.append(&mut message.parts);
        message.parts = parts;
        self.heard = Some(Box::new(message));
    }

    /// The task.
    pub fn task_id(&self) -> TaskId {
        self.turn.task
    }

    /// The conversation.
    pub fn context_id(&self) -> &ContextId {
        &self.turn.context
    }

    /// The tenant the caller named; none where its name only told which agent was meant.
    pub fn tenant(&self) -> &Tenant {
        &self.turn.scope().tenant
    }

    /// Who is calling, as the door has recognised it; whatever a message claims about its sender.
    pub fn caller(&self) -> &Caller {
        &self.turn.scope().caller
    }

    /// What tools may do on this turn. An agent that has tools must keep to it, and hand it on to whatever it starts.
    pub fn tools(&self) -> ToolMode {
        self.turn.tools
    }

    /// Whether the caller has said that it follows handoffs.
    pub fn follows_handoffs(&self) -> bool {
        self.turn.follows
    }

    /// What came with the task, if it was handed over to us. A stranger's claims: never instructions, nor a proof of who
    /// anybody is.
    pub fn transfer_context(&self) -> Option<TransferContext> {
        let first = self.turn.before.as_ref().and_then(|task| task.history.first());
        crate::hold::came_with(first.unwrap_or(&self.turn.message))
    }

    /// The task as it stood before this turn, with all that was said and made; `None` on its first turn.
    pub fn before(&self) -> Option<&Task> {
        self.turn.before.as_deref()
    }

    /// Names this turn; the same on every attempt, so good as an idempotency key for effects on the outside.
    pub fn turn_id(&self) -> String {
        format!("{}/{}", self.turn.task, self.turn.turn)
    }

    /// Whether nothing of the task is written down yet, nor will be before the turn has ended or taken longer than a moment;
    /// see [`Nature::brief`].
    pub fn is_brief(&self) -> bool {
        self.turn.brief
    }

    /// 1 the first time, more after crashes.
    pub fn attempt(&self) -> u32 {
        self.turn.attempt
    }

    /// What the agent left for itself in the last committed step; `None` at the beginning of a task.
    pub fn checkpoint(&self) -> Option<&[u8]> {
        self.checkpoint.as_deref()
    }

    /// Puts an opaque checkpoint into the next step, replacing the last one.
    pub fn set_checkpoint(&mut self, data: impl Into<Bytes>) {
        let data = data.into();
        self.outlet.set_checkpoint(data.clone());
        self.checkpoint = Some(data);
    }

    /// The same for whoever only shares the context: it is what the next attempt finds, and not what this one does.
    pub fn leave(&self, data: impl Into<Bytes>) {
        self.outlet.set_checkpoint(data.into());
    }

    /// Reports progress; an empty text says "working" without words.
    pub fn status(&self, text: impl Into<String>) -> Report<'_> {
        self.outlet.status(words(text))
    }

    /// Reports progress in parts of any kind.
    pub fn progress(&self, parts: Vec<Part>) -> Report<'_> {
        self.outlet.status(parts)
    }

    /// Waits until everything reported so far, and the checkpoint, are committed: for what must be known before the
    /// agent does something on the outside.
    pub fn commit(&self) -> Commit<'_> {
        self.outlet.commit()
    }

    /// Says that work goes on elsewhere which nobody waits for any more once this turn has ended: that it is to be called
    /// off there is written with the turn's last step, with the checkpoint, and [`Agent::remind`] is asked until it is
    /// done, across restarts. For agents with a [grace](Agent::grace).
    pub fn owe_cancel(&self) {
        self.outlet.owe_cancel();
    }

    /// Says that a message is about to leave for another server, whose answer names the task there. Until
    /// [`answered`](Context::answered), a cancel waits for that answer as long as the agent's [grace](Agent::grace) lasts:
    /// before it, the task there has no name to cancel it by.
    pub fn awaits_answer(&self) {
        self.outlet.set_awaits_answer();
    }

    /// Says that the other server has answered with a task. True where a cancel waits: then what is known by now belongs
    /// into the checkpoint, which the cancel is made with.
    pub fn answered(&self) -> bool {
        self.outlet.set_answered()
    }

    /// Says that the call is over in which an answer was [waited for](Context::awaits_answer), whatever came of it.
    pub fn call_is_over(&self) {
        self.outlet.set_call_over();
    }

    /// Says in the next step whom the turn waits for, or that it waits for nobody any more. Kept beside the task for
    /// those who look from outside; it decides nothing.
    pub fn waits_for(&self, whom: Option<Continuation>) {
        self.outlet.waits_for(whom);
    }

    /// Has something committed with the agent's next step: with what it reports before it next waits, or with its ending.
    /// Where the store refuses it, the step is refused with it. The turn ends there, and whoever sent the message is told
    /// why; of an instant agent that got no further nothing is stored at all.
    pub fn effect(&self, effect: Effect) {
        self.outlet.effect(effect);
    }

    /// Says that something may be missing between what was reported and what follows, and why nobody knows. The next
    /// status carries it.
    pub fn gap(&self, reason: impl Into<String>) -> Report<'_> {
        self.outlet.gap(reason.into())
    }

    /// Reports a whole artifact, creating it or replacing the one with this id.
    pub fn artifact(&self, id: &str, parts: Vec<Part>) -> Report<'_> {
        self.chunk(Artifact::new(artifact_id(id), parts), false, true)
    }

    /// Reports an artifact or a chunk of one.
    pub fn chunk(&self, artifact: Artifact, append: bool, last_chunk: bool) -> Report<'_> {
        self.outlet.artifact(artifact, append, last_chunk)
    }

    /// Reports a data artifact.
    pub fn data(&self, id: &str, json: Json) -> Report<'_> {
        self.artifact(id, vec![Part::data(json)])
    }

    /// The time of day, from the host.
    pub fn now(&self) -> Timestamp {
        self.turn.core.host.now()
    }

    /// Bits that nobody can guess, from the host.
    pub fn random(&self) -> u64 {
        self.turn.core.host.random()
    }

    /// Waits, by the host's clock.
    pub fn sleep(&self, duration: Duration) -> BoxFuture<'static, ()> {
        self.turn.core.host.sleep(duration)
    }
}

/// Ids of artifacts are the agent's own; one that could not be parsed again is replaced by a legal one.
fn artifact_id(id: &str) -> ArtifactId {
    ArtifactId::parse(id).or_else(|_| ArtifactId::parse("artifact")).expect("a plain word is a legal id")
}

/// An [`Agent`] of any type.
pub trait AnyAgent: Send + Sync + 'static {
    /// See [`Agent::turn`].
    fn any_turn<'a>(&'a self, cx: &'a mut Context) -> BoxFuture<'a, Result<Ending, Failure>>;
    /// See [`Agent::nature`].
    fn any_nature(&self) -> Nature;
    /// See [`Agent::is_carried`].
    fn any_is_carried(&self) -> bool {
        false
    }
    /// See [`Agent::admits`].
    fn any_admits(&self) -> Result<(), Fault>;
    /// See [`Agent::grace`].
    fn any_grace(&self) -> Duration;
    /// See [`Agent::call_off`].
    fn any_call_off(&self, canceled: Canceled) -> BoxFuture<'_, CalledOff>;
    /// See [`Agent::remind`].
    fn any_remind(&self, canceled: Canceled) -> BoxFuture<'_, bool>;
    /// See [`Agent::canceled`].
    fn any_canceled(&self, canceled: Canceled) -> BoxFuture<'_, ()>;
    /// See [`Agent::handed_over`].
    fn any_handed_over(&self, handed_over: HandedOver) -> BoxFuture<'_, ()>;
}

impl<A: Agent> AnyAgent for A {
    fn any_turn<'a>(&'a self, cx: &'a mut Context) -> BoxFuture<'a, Result<Ending, Failure>> {
        Box::pin(self.turn(cx))
    }

    fn any_nature(&self) -> Nature {
        self.nature()
    }

    fn any_is_carried(&self) -> bool {
        self.is_carried()
    }

    fn any_admits(&self) -> Result<(), Fault> {
        self.admits()
    }

    fn any_grace(&self) -> Duration {
        self.grace()
    }

    fn any_call_off(&self, canceled: Canceled) -> BoxFuture<'_, CalledOff> {
        Box::pin(self.call_off(canceled))
    }

    fn any_remind(&self, canceled: Canceled) -> BoxFuture<'_, bool> {
        Box::pin(self.remind(canceled))
    }

    fn any_canceled(&self, canceled: Canceled) -> BoxFuture<'_, ()> {
        Box::pin(self.canceled(canceled))
    }

    fn any_handed_over(&self, handed_over: HandedOver) -> BoxFuture<'_, ()> {
        Box::pin(self.handed_over(handed_over))
    }
}
