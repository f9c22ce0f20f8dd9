//! Receivers of push notifications: some refuse, some are slow, some hang, some are unreachable for a while or for
//! good. Each records what it has received, and the checks use only that record, not the outbox.

use super::executor::Executor;
use crate::seeded_rng::SeededRng;
use bytes::Bytes;
use sabir_engine::{BoxFuture, DeliveryOutcome, DeliveryRequest, DeliveryResult, PushTransport};
use sabir_proto::{Seq, TaskId};
use std::collections::BTreeMap;
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::time::Duration;

/// The number of receiver hosts.
pub(super) const HOSTS: usize = 5;
/// How long a delivery waits for an answer.
const ANSWER_MS_MAX: u64 = 15_000;

/// All receivers. Clones are the same ones; they outlive the process that calls them.
#[derive(Clone)]
pub(super) struct Receivers(Arc<SharedReceivers>);

struct SharedReceivers {
    executor: Executor,
    inner: Mutex<ReceiversState>,
}

struct ReceiversState {
    rng: SeededRng,
    hosts: [HostBehaviour; HOSTS],
    /// Only permanent faults are left.
    faults_off: bool,
    received: Vec<ReceivedEvent>,
    /// Deliveries in flight, by task and configuration.
    open: BTreeMap<(TaskId, String), u32>,
    broken: Option<String>,
}

/// The behaviour of a host. "Once in" zero is never.
#[derive(Debug, Clone, Copy)]
struct HostBehaviour {
    refuses_once_in: u64,
    /// Receives the event, and its answer never comes.
    hangs_once_in: u64,
    slow_ms_max: u64,
    /// The host is unreachable before this time.
    dead_until_ms: u64,
}

/// An event that a receiver has received.
#[derive(Debug, Clone)]
pub(super) struct ReceivedEvent {
    pub(super) task: TaskId,
    pub(super) config: String,
    pub(super) seq: Seq,
    pub(super) id: String,
    pub(super) json: Bytes,
}

impl Receivers {
    pub(super) fn new(executor: Executor, mut chance: SeededRng) -> Self {
        let mut habits = || {
            let dead_until_ms = chance.pick(&[0, 0, 20_000, 90_000, u64::MAX]);
            let (refuses_once_in, hangs_once_in) = (chance.pick(&[0, 2, 4, 10]), chance.pick(&[0, 0, 5, 15]));
            HostBehaviour { refuses_once_in, hangs_once_in, slow_ms_max: chance.pick(&[5, 300, 5000]), dead_until_ms }
        };
        let hosts = std::array::from_fn(|_| habits());
        let (heard, open) = (Vec::new(), BTreeMap::new());
        let inner =
            Mutex::new(ReceiversState { rng: chance, hosts, faults_off: false, received: heard, open, broken: None });
        Self(Arc::new(SharedReceivers { executor, inner }))
    }

    /// The address of a receiver at one of the hosts.
    pub(super) fn url(host: usize) -> String {
        format!("https://h{host}.example/hook")
    }

    fn lock(&self) -> MutexGuard<'_, ReceiversState> {
        self.0.inner.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// Ends temporary faults: from now on every reachable host accepts at once.
    pub(super) fn stop_faults(&self) {
        self.lock().faults_off = true;
    }

    /// All received events, in order.
    pub(super) fn received(&self) -> Vec<ReceivedEvent> {
        self.lock().received.clone()
    }

    /// The first contradiction noticed during the run.
    pub(super) fn broken(&self) -> Option<String> {
        self.lock().broken.clone()
    }

    /// Until when the host was unreachable, in milliseconds from the start.
    pub(super) fn dead_until(&self, url: &str) -> u64 {
        self.lock().hosts[host(url)].dead_until_ms
    }

    fn open(&self, to: (TaskId, String)) -> OpenDelivery {
        let mut inner = self.lock();
        let count = inner.open.entry(to.clone()).or_default();
        *count += 1;
        if *count > 1 {
            inner.broken.get_or_insert(format!("two deliveries at once to {} of task {}", to.1, to.0));
        }
        OpenDelivery { receivers: self.clone(), to }
    }

    /// Plans a delivery: the time until the event is received, whether it is, the time until the answer, and the
    /// outcome.
    fn plan(&self, parcel: &DeliveryRequest) -> DeliveryPlan {
        let mut inner = self.lock();
        let (habits, calm) = (inner.hosts[host(&parcel.config.url)], inner.faults_off);
        let chance = &mut inner.rng;
        let (before, after) = (chance.between(0, habits.slow_ms_max), chance.between(0, habits.slow_ms_max));
        let nobody = DeliveryOutcome::Unreachable { reason: "nobody is there".into() };
        if self.0.executor.now() < habits.dead_until_ms {
            return DeliveryPlan { before, takes: false, after: 0, outcome: nobody };
        }
        if !calm && chance.once_in(habits.hangs_once_in) {
            let outcome = DeliveryOutcome::NoAnswer { reason: "no answer".into() };
            return DeliveryPlan { before, takes: true, after: ANSWER_MS_MAX, outcome };
        }
        if !calm && chance.once_in(habits.refuses_once_in) {
            let (status, retry_after) = chance.pick(&[(500, None), (503, None), (429, Some(Duration::from_secs(7)))]);
            return DeliveryPlan {
                before,
                takes: false,
                after,
                outcome: DeliveryOutcome::Refused { status, retry_after },
            };
        }
        DeliveryPlan { before, takes: true, after, outcome: DeliveryOutcome::Accepted { status: 200 } }
    }
}

struct DeliveryPlan {
    before: u64,
    takes: bool,
    after: u64,
    outcome: DeliveryOutcome,
}

fn host(url: &str) -> usize {
    url.trim_start_matches("https://h").split('.').next().and_then(|n| n.parse().ok()).unwrap_or(0)
}

/// A delivery in flight; it ends with its process, too.
struct OpenDelivery {
    receivers: Receivers,
    to: (TaskId, String),
}

impl Drop for OpenDelivery {
    fn drop(&mut self) {
        if let Some(count) = self.receivers.lock().open.get_mut(&self.to) {
            *count -= 1;
        }
    }
}

impl PushTransport for Receivers {
    fn deliver(&self, parcel: DeliveryRequest) -> BoxFuture<'static, DeliveryResult> {
        let (receivers, executor) = (self.clone(), self.0.executor.clone());
        Box::pin(async move {
            let open = receivers.open((parcel.task, parcel.config.id.clone().unwrap_or_default()));
            let began = executor.now();
            let plan = receivers.plan(&parcel);
            executor.sleep(Duration::from_millis(plan.before)).await;
            if plan.takes {
                let (task, config) = open.to.clone();
                let DeliveryRequest { event, id, .. } = parcel;
                receivers.lock().received.push(ReceivedEvent { task, config, seq: event.seq, id, json: event.json });
            }
            // A crash here leaves a delivered event without a record of it.
            executor.sleep(Duration::from_millis(plan.after)).await;
            DeliveryResult { outcome: plan.outcome, took: Duration::from_millis(executor.now() - began) }
        })
    }
}
