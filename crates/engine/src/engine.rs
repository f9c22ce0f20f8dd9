//! The engine handle that a server holds, and the core that all engine modules share.

use crate::agent::AnyAgent;
use crate::host::{Host, Stamper};
use crate::kin::{Abroad, Excess, Residents};
use crate::limits::Limits;
use crate::live::{LiveMap, LiveRef};
use crate::metrics::Metrics;
use crate::owed::Endings;
use crate::push::Drainer;
use crate::retry::{Retries, UNTIMED};
use sabir_proto::agnt::{Problem, ProblemCode};
use sabir_proto::{AgentName, Fault, MessageId, Stamp, TaskId, ToolMode};
use sabir_store::{AppendError, Effect, Refusal, RetryMark, Step, StoreError, TaskLog};
use std::collections::HashSet;
use std::sync::{Arc, Mutex, OnceLock};
use std::time::Duration;

/// The engine. Cheap to clone; all clones are one engine.
#[derive(Clone)]
pub struct Engine {
    pub(crate) core: Arc<Core>,
}

/// An agent that this engine runs.
pub struct Resident {
    /// Its name, part of who owns a task.
    pub name: AgentName,
    pub agent: Arc<dyn AnyAgent>,
    /// Whether it offers push notifications.
    pub push: bool,
    /// What its tools may do. The agent is told this and cannot widen it.
    pub tools: ToolMode,
}

/// Whether the agent of a task is served at the moment.
#[derive(Clone)]
pub enum Presence {
    /// This engine runs it.
    Here(Arc<Resident>),
    /// It is not served now, and may come back: its tasks wait for it.
    Away,
    /// It is not configured any more: its unfinished tasks fail.
    Gone,
}

impl From<Option<Arc<Resident>>> for Presence {
    /// For a directory in which an agent is either served or removed.
    fn from(resident: Option<Arc<Resident>>) -> Self {
        resident.map_or(Self::Gone, Self::Here)
    }
}

impl Presence {
    pub(crate) fn resident(self) -> Option<Arc<Resident>> {
        match self {
            Self::Here(resident) => Some(resident),
            Self::Away | Self::Gone => None,
        }
    }
}

pub(crate) struct Core {
    pub(crate) log: Arc<dyn TaskLog>,
    pub(crate) host: Arc<dyn Host>,
    pub(crate) limits: Limits,
    pub(crate) metrics: Metrics,
    pub(crate) live: Arc<LiveMap>,
    pub(crate) retries: Retries,
    pub(crate) endings: Endings,
    /// The outbox drainer; set once the server has started deliveries.
    pub(crate) drainer: OnceLock<Arc<Drainer>>,
    /// The directory of agents; set once the server has given it to the engine.
    pub(crate) residents: OnceLock<Arc<dyn Residents>>,
    /// The ids under which other servers know the work of our turns.
    pub(crate) abroad: Abroad,
    /// Tasks for which a background job is repeating a cancel.
    pub(crate) chased: Mutex<HashSet<TaskId>>,
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
        stamper.rise_above(log.last_stamp().await?);
        let retries = Retries::new(limits.implicit_retry_time, limits.implicit_retries_max);
        retries.rebuild(log.recent_retries(retries.horizon(host.now()), retries.keys_max()).await?);
        retries.know_after(log.retry_key_before(UNTIMED).await?);
        let live = Arc::new(LiveMap::new(&limits));
        let endings = Endings::default();
        let (drainer, residents) = (OnceLock::new(), OnceLock::new());
        let (abroad, chased) = (Abroad::default(), Mutex::default());
        let core =
            Core { log, host, limits, metrics, live, retries, endings, drainer, residents, abroad, chased, stamper };
        Ok(Self { core: Arc::new(core) })
    }

    /// Stops all agents in order; their tasks go on after the next start. No new delivery begins. Deliveries under way
    /// get 2 seconds; after the next start the engine repeats those that do not finish.
    pub async fn stop(&self) {
        self.core.live.park_all();
        if let Some(drainer) = self.core.drainer.get() {
            drainer.stop();
        }
        self.core.give_up_owing();
        // Runners stop at once unless the store is stuck; a stop must not hang on that.
        for _ in 0..200 {
            if self.core.live.running() == 0 && self.deliveries_in_flight() == 0 {
                return;
            }
            self.core.host.sleep(Duration::from_millis(10)).await;
        }
    }

    /// Makes an id for a message that came without one.
    pub fn mint(&self) -> MessageId {
        MessageId::parse(&self.core.new_id().to_string()).expect("a UUID is a legal id")
    }

    /// The number of turns at work.
    pub fn running(&self) -> usize {
        self.core.live.running()
    }
}

/// The fault for a caller whose write cannot be stored.
fn unavailable(why: &str) -> Fault {
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
            StoreError::Full => unavailable("its disk is full"),
            StoreError::ReadOnly(_) => unavailable("its store is read-only"),
            StoreError::Corrupt(_) | StoreError::Io(_) | StoreError::Closed => self.internal(doing, error),
        }
    }

    pub(crate) fn append_fault(&self, doing: &str, error: &AppendError) -> Fault {
        match error {
            // A write that the operating system refuses does not affect reads, and may succeed later.
            AppendError::Store(error @ StoreError::Io(_)) => {
                tracing::error!(doing, %error, "the store refuses writes");
                unavailable("its disk refuses writes")
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
            AppendError::Orphan => {
                Fault::UnsupportedOperation("the task has ended, and opens no tasks with other agents any more".into())
            }
            AppendError::Twin => Fault::Unavailable("the same task was opened at the same moment; try again".into()),
            AppendError::TooManyKin => self.refuse(&Excess::Calls { max: self.limits.calls_per_root_max }),
            AppendError::Ledger(refusal) => Fault::Booking(Box::new(problem(*refusal))),
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
        if let Some(mark) = mark_of(step) {
            self.retries.forget(mark, step.task);
        }
    }

    /// Confirms the retry key of a committed step: from now on a repeated send is answered from it.
    pub(crate) fn keep_retry(&self, step: &Step) {
        if let Some(mark) = mark_of(step) {
            self.retries.keep(mark, step.task);
        }
    }
}

/// The booking network's problem for a refusal of the ledger.
fn problem(refusal: Refusal) -> Problem {
    let (code, words) = match refusal {
        Refusal::NoVenue => (ProblemCode::VenueNotFound, "there is no such venue any more; search again"),
        Refusal::NoSlot => (ProblemCode::SlotUnavailable, "the slot is not available; search again, or take another"),
        Refusal::BookingMoved => (ProblemCode::InProgress, "the booking changed at the same moment; look again"),
        Refusal::PaymentMoved => (ProblemCode::InProgress, "the payment changed at the same moment; look again"),
        Refusal::PaymentUsed => (ProblemCode::PaymentDeclined, "this payment was used before; make another one"),
        Refusal::PaymentLimit => (ProblemCode::PaymentLimitExceeded, "the key may pay no more today"),
    };
    Problem::new(code, words)
}

fn mark_of(step: &Step) -> Option<RetryMark> {
    let explicit = step.effects.iter().find_map(|e| match e {
        Effect::Key { mark, .. } => Some(*mark),
        Effect::PutPush { .. }
        | Effect::DeletePush { .. }
        | Effect::Alias { .. }
        | Effect::Adopt(_)
        | Effect::WaitFor(_)
        | Effect::KeepData(_)
        | Effect::OweCancel(_)
        | Effect::Spend { .. }
        | Effect::Book(_)
        | Effect::MoveBooking { .. }
        | Effect::Interaction(_)
        | Effect::Pay(_) => None,
    });
    step.retry.or(explicit)
}

/// Ownership of a live task; dropping it gives the task back.
pub(crate) struct Claimed(Option<LiveRef>);

impl Claimed {
    /// Claims a task, unless it has an owner.
    pub(crate) fn take(live: LiveRef) -> Result<Self, LiveRef> {
        if live.claim() { Ok(Self(Some(live))) } else { Err(live) }
    }

    /// Gives the live task to a runner, which releases it itself.
    pub(crate) fn into_live(mut self) -> LiveRef {
        self.0.take().expect("a claim is handed on only once")
    }
}

impl Drop for Claimed {
    fn drop(&mut self) {
        if let Some(live) = &self.0 {
            live.release();
        }
    }
}
