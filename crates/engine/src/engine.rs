//! The handle: what a server asks of the engine.

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

/// An agent that lives here.
pub struct Resident {
    /// Its name, part of who owns a task.
    pub name: AgentName,
    /// What it does.
    pub agent: Arc<dyn AnyAgent>,
    /// Whether it offers push notifications.
    pub push: bool,
    /// What its tools may do; it is told, and cannot widen it.
    pub tools: ToolMode,
}

/// What is known of the agent of a task.
#[derive(Clone)]
pub enum Presence {
    /// It lives here.
    Here(Arc<Resident>),
    /// It is not served now, and may come back: its tasks wait for it.
    Away,
    /// Nobody knows it any more.
    Gone,
}

impl From<Option<Arc<Resident>>> for Presence {
    /// Where nobody is ever away.
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
    /// Who delivers what is owed to push configurations, once somebody is there to carry it.
    pub(crate) drainer: OnceLock<Arc<Drainer>>,
    /// Who else lives here, once somebody knows.
    pub(crate) residents: OnceLock<Arc<dyn Residents>>,
    /// The names that our work goes by elsewhere.
    pub(crate) abroad: Abroad,
    /// Tasks whose cancel somebody is seeing to.
    pub(crate) chased: Mutex<HashSet<TaskId>>,
    stamper: Stamper,
}

impl Engine {
    /// Takes up a log: learns its latest stamp and its recent retry keys. Unfinished tasks wait for
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

    /// Stops all agents in an orderly way; their tasks go on after the next start. No delivery begins any more; those under
    /// way get a moment, and what they do not finish is delivered again then.
    pub async fn stop(&self) {
        self.core.live.park_all();
        if let Some(drainer) = self.core.drainer.get() {
            drainer.stop();
        }
        self.core.give_up_owing();
        // Runners answer at once unless the store is stuck; a stop must not hang on that.
        for _ in 0..200 {
            if self.core.live.running() == 0 && self.deliveries_in_flight() == 0 {
                return;
            }
            self.core.host.sleep(Duration::from_millis(10)).await;
        }
    }

    /// A name for a message whose author gave it none.
    pub fn mint(&self) -> MessageId {
        MessageId::parse(&self.core.new_id().to_string()).expect("a UUID is a legal id")
    }

    /// How many agents are at work.
    pub fn running(&self) -> usize {
        self.core.live.running()
    }
}

/// What whoever writes is told while nothing can be stored.
fn unavailable(why: &str) -> Fault {
    Fault::Unavailable(format!(
        "the server cannot store anything right now: {why}; what is stored can be read; try again later"
    ))
}

impl Core {
    /// A fresh stamp.
    pub(crate) fn stamp(&self) -> Stamp {
        self.stamper.next(self.host.now())
    }

    /// A new task's id.
    pub(crate) fn new_id(&self) -> TaskId {
        TaskId::new(self.stamp(), self.host.random())
    }

    /// What a caller is told when the store fails. The cause goes to our log under a reference, not to the caller.
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
            // A write that the system refuses hurts no reads, and may be taken another time.
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

    /// A failure whose cause is none of the caller's business.
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

    /// Whoever repeats the send of this step may be answered from now on.
    pub(crate) fn keep_retry(&self, step: &Step) {
        if let Some(mark) = mark_of(step) {
            self.retries.keep(mark, step.task);
        }
    }
}

/// The retry key of a step, whatever its kind.
/// What the booking network says of a refusal.
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

/// Ownership of a task, given back when dropped.
pub(crate) struct Claimed(Option<LiveRef>);

impl Claimed {
    /// Claims a task, unless it has an owner.
    pub(crate) fn take(live: LiveRef) -> Result<Self, LiveRef> {
        if live.claim() { Ok(Self(Some(live))) } else { Err(live) }
    }

    /// Hands ownership on.
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
