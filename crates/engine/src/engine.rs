//! The engine handle that a server holds, and the core that all engine modules share.

use crate::agent::AnyAgent;
use crate::host::{Host, Stamper};
use crate::limits::Limits;
use crate::live::{LiveMap, LiveRef};
use crate::metrics::Metrics;
use crate::push::Drainer;
use crate::retry::{RetryKeys, UNTIMED_KEY_MIN};
use crate::subtasks::{AgentDirectory, ExceededLimit, OutboundIds};
use crate::unstored_endings::UnstoredEndings;
use sabir_proto::{AgentName, Fault, MessageId, NamedRefusal, Stamp, TaskId, ToolMode};
use sabir_store::{AppendError, Effect, RetryMark, Step, StoreError, TaskLog};
use std::collections::HashSet;
use std::sync::{Arc, Mutex, OnceLock};
use std::time::Duration;

/// The engine. Cheap to clone; all clones are one engine.
#[derive(Clone)]
pub struct Engine {
    pub(crate) core: Arc<Core>,
}

/// An agent that this engine runs.
pub struct HostedAgent {
    /// Its name, part of who owns a task.
    pub name: AgentName,
    pub agent: Arc<dyn AnyAgent>,
    /// Whether it offers push notifications.
    pub push: bool,
    /// What its tools may do. The agent is told this and cannot widen it.
    pub tool_mode: ToolMode,
}

/// Whether the agent of a task is served at the moment.
#[derive(Clone)]
pub enum AgentStatus {
    /// This engine runs it.
    Serving(Arc<HostedAgent>),
    /// It is not served now, and may come back: its tasks wait for it.
    Unavailable,
    /// It is not configured any more: its unfinished tasks fail.
    Removed,
}

impl From<Option<Arc<HostedAgent>>> for AgentStatus {
    /// For a directory in which an agent is either served or removed.
    fn from(resident: Option<Arc<HostedAgent>>) -> Self {
        resident.map_or(Self::Removed, Self::Serving)
    }
}

impl AgentStatus {
    pub(crate) fn hosted(self) -> Option<Arc<HostedAgent>> {
        match self {
            Self::Serving(resident) => Some(resident),
            Self::Unavailable | Self::Removed => None,
        }
    }
}

pub(crate) struct Core {
    pub(crate) log: Arc<dyn TaskLog>,
    pub(crate) host: Arc<dyn Host>,
    pub(crate) limits: Limits,
    pub(crate) metrics: Metrics,
    pub(crate) live: Arc<LiveMap>,
    pub(crate) retries: RetryKeys,
    pub(crate) unstored_endings: UnstoredEndings,
    /// The outbox drainer; set once the server has started deliveries.
    pub(crate) drainer: OnceLock<Arc<Drainer>>,
    /// The directory of agents; set once the server has given it to the engine.
    pub(crate) directory: OnceLock<Arc<dyn AgentDirectory>>,
    /// The ids under which other servers know the work of our turns.
    pub(crate) outbound_ids: OutboundIds,
    /// Tasks for which a background job is repeating a cancel.
    pub(crate) active_cancels: Mutex<HashSet<TaskId>>,
    stamper: Stamper,
}

impl Engine {
    /// Opens an engine on a log: reads its latest stamp and its recent retry keys. Unfinished tasks wait for
    /// [`Engine::recover`].
    pub async fn open(
        log: Arc<dyn TaskLog>,
        host: Arc<dyn Host>,
        limits: Limits,
        metrics: Metrics,
    ) -> Result<Self, StoreError> {
        let stamper = Stamper::default();
        stamper.advance_past(log.last_stamp().await?);
        let retries = RetryKeys::new(limits.implicit_retry_time, limits.implicit_retries_max);
        retries.rebuild(log.recent_retries(retries.horizon(host.now()), retries.keys_max()).await?);
        retries.set_complete_after(log.retry_key_before(UNTIMED_KEY_MIN).await?);
        let live = Arc::new(LiveMap::new(&limits));
        let endings = UnstoredEndings::default();
        let (drainer, residents) = (OnceLock::new(), OnceLock::new());
        let (abroad, chased) = (OutboundIds::default(), Mutex::default());
        let core = Core {
            log,
            host,
            limits,
            metrics,
            live,
            retries,
            unstored_endings: endings,
            drainer,
            directory: residents,
            outbound_ids: abroad,
            active_cancels: chased,
            stamper,
        };
        Ok(Self { core: Arc::new(core) })
    }

    /// Stops all agents in order; their tasks go on after the next start. No new delivery begins. Deliveries under way
    /// get 2 seconds; after the next start the engine repeats those that do not finish.
    pub async fn stop(&self) {
        self.core.live.park_all();
        if let Some(drainer) = self.core.drainer.get() {
            drainer.stop();
        }
        self.core.release_unstored_endings();
        // Runners stop at once unless the store is stuck; a stop must not hang on that.
        for _ in 0..200 {
            if self.core.live.running() == 0 && self.deliveries_in_flight() == 0 {
                return;
            }
            self.core.host.sleep(Duration::from_millis(10)).await;
        }
    }

    /// Makes an id for a message that came without one.
    pub fn new_message_id(&self) -> MessageId {
        MessageId::parse(&self.core.new_id().to_string()).expect("a UUID is a legal id")
    }

    /// The number of turns at work.
    pub fn running(&self) -> usize {
        self.core.live.running()
    }
}

/// The fault for a caller whose write cannot be stored.
fn store_unavailable(why: &str) -> Fault {
    Fault::Unavailable(format!(
        "the server cannot store anything right now: {why}; what is stored can be read; try again later"
    ))
}

impl Core {
    /// A stamp above all earlier ones.
    pub(crate) fn stamp(&self) -> Stamp {
        self.stamper.next(self.host.now())
    }

    /// Makes the id of a new task.
    pub(crate) fn new_id(&self) -> TaskId {
        TaskId::new(self.stamp(), self.host.random())
    }

    /// The fault that a caller gets when the store fails. The cause goes to our log under a reference, not to the
    /// caller.
    pub(crate) fn store_fault(&self, doing: &str, error: &StoreError) -> Fault {
        match error {
            StoreError::PageToken => Fault::invalid("pageToken", "not valid here or too old; start again without one"),
            StoreError::Full => store_unavailable("its disk is full"),
            StoreError::ReadOnly(_) => store_unavailable("its store is read-only"),
            StoreError::Corrupt(_) | StoreError::Io(_) | StoreError::Closed => self.internal(doing, error),
        }
    }

    pub(crate) fn append_fault(&self, doing: &str, error: &AppendError) -> Fault {
        match error {
            // A write that the operating system refuses does not affect reads, and may succeed later.
            AppendError::Store(error @ StoreError::Io(_)) => {
                tracing::error!(doing, %error, "the store refuses writes");
                store_unavailable("its disk refuses writes")
            }
            AppendError::Store(error) => self.store_fault(doing, error),
            AppendError::KeyTaken => Fault::RetryConflict,
            AppendError::TooManyConfigs => {
                let most = self.limits.push_configs_max;
                Fault::Exhausted(format!("a task has at most {most} push notification configs; delete one first"))
            }
            AppendError::NameMoved => {
                Fault::Unavailable("another task was given this name at the same moment; try again".into())
            }
            AppendError::ParentSettled => {
                Fault::UnsupportedOperation("the task has ended, and opens no tasks with other agents any more".into())
            }
            AppendError::DuplicateChild => {
                Fault::Unavailable("the same task was opened at the same moment; try again".into())
            }
            AppendError::TooManySubtasks => self.refuse(&ExceededLimit::Calls { max: self.limits.calls_per_root_max }),
            AppendError::Ledger(refusal) => {
                Fault::Refused(Box::new(NamedRefusal::new(refusal.reason(), refusal.to_string())))
            }
            AppendError::Stale => Fault::Unavailable("the task changed at the same moment; try again".into()),
        }
    }

    /// An internal fault: the caller gets a reference, our log gets the cause.
    pub(crate) fn internal(&self, doing: &str, cause: &dyn std::fmt::Display) -> Fault {
        let reference = format!("{:016x}", self.host.random());
        tracing::error!(reference, doing, %cause, "internal error");
        Fault::Internal(reference)
    }

    /// Forgets the retry key of a step that was not committed: the send may come again.
    pub(crate) fn forget_retry(&self, step: &Step) {
        if let Some(mark) = retry_mark_of(step) {
            self.retries.forget(mark, step.task);
        }
    }

    /// Confirms the retry key of a committed step: from now on a repeated send is answered from it.
    pub(crate) fn confirm_retry(&self, step: &Step) {
        if let Some(mark) = retry_mark_of(step) {
            self.retries.mark_stored(mark, step.task);
        }
    }
}

fn retry_mark_of(step: &Step) -> Option<RetryMark> {
    let explicit = step.effects.iter().find_map(|e| match e {
        Effect::Key { mark, .. } => Some(*mark),
        Effect::PutPush { .. }
        | Effect::DeletePush { .. }
        | Effect::SetAlias { .. }
        | Effect::Claim(_)
        | Effect::WaitFor(_)
        | Effect::StoreAgentData(_)
        | Effect::SetPendingCancel(_)
        | Effect::Spend { .. }
        | Effect::Ledger(_) => None,
    });
    step.retry.or(explicit)
}

/// Ownership of a live task; dropping it gives the task back.
pub(crate) struct TaskOwnership(Option<LiveRef>);

impl TaskOwnership {
    /// Claims a task, unless it has an owner.
    pub(crate) fn acquire(live: LiveRef) -> Result<Self, LiveRef> {
        if live.claim() { Ok(Self(Some(live))) } else { Err(live) }
    }

    /// Gives the live task to a runner, which releases it itself.
    pub(crate) fn into_live(mut self) -> LiveRef {
        self.0.take().expect("a claim is handed on only once")
    }
}

impl Drop for TaskOwnership {
    fn drop(&mut self) {
        if let Some(live) = &self.0 {
            live.release();
        }
    }
}
