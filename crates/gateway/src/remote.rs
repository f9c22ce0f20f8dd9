//! An agent elsewhere, behind our log.
//!
//! A caller speaks to us and we speak to the agent: the caller's message becomes ours, the agent's events become our
//! reports, its question becomes our question. What we know of its task is the turn's checkpoint, committed before any
//! wait, so a turn that a crash interrupted goes on where it was.
//!
//! | Module | Contents |
//! |---|---|
//! | `replica` | one address of the agent: its card, its breakers |
//! | `dead_interfaces` | interfaces of the card that cannot be reached |
//! | `connection` | calls, each through the breakers |
//! | `cancel` | canceling the remote task |
//! | `checkpoint` | what a turn knows of the remote task: the checkpoint |
//! | `delivered_content` | what of it our caller has received already |
//! | `message_ids` | the id under which a message is passed on |
//! | `remote_turn` | one turn: send once, follow, wait, give up |
//! | `event_sequence` | whether an event follows the last one |
//! | `events` | remote events, as reports of ours |
//! | `followed_transfer` | tasks that the agent has handed over |
//! | `follow_policy` | where those may be followed, and which agent is there |
//! | `handoff_calls` | tasks that are handed to the agent |
//! | `outage` | what our caller hears while it cannot be reached |
//! | `call_failure` | what a failed call means for the turn |
//!
//! Absent on purpose: our caller's credentials. The agent sees those that are configured for it, and no others.

mod call_failure;
mod cancel;
mod checkpoint;
mod connection;
mod dead_interfaces;
mod delivered_content;
mod event_sequence;
mod events;
mod follow_policy;
mod followed_transfer;
mod handoff_calls;
mod message_ids;
mod outage;
mod remote_turn;
mod replica;

use crate::agent_probe::AgentProbe;
use crate::balance::{ReplicaCandidate, choose_candidate};
use crate::breaker::BreakerRules;
use crate::card_policy::CardPolicy;
use crate::circuit::{CircuitStatus, Hub};
use crate::exchange_log;
use crate::failure_words::duration_words;
use crate::health::{HealthStatus, ReplicaHealth};
use crate::retry_budget::RetryBudget;
use crate::user_tokens::UserTokens;
pub(crate) use call_failure::{asks_for_later, was_not_called};
use checkpoint::Checkpoint;
use connection::ReplicaConnection;
use follow_policy::ForeignReplicas;
pub use follow_policy::{FollowPolicy, RemoteAgentDirectory};
use message_ids::MessageIds;
use remote_turn::RemoteTurn;
use replica::{Bulkhead, Replica, UpstreamShares};
use sabir_client::{Capacity, Credentials, Egress, Error, PollSchedule, Tls, VendorProfile};
use sabir_engine::{Agent, CancelOutcome, CanceledTask, Context, Ending, Execution, Failure, Recovery};
use sabir_proto::{AgentCard, AgentName, Fault};
use std::sync::Arc;
use std::time::Duration;

/// How long a card is used before the caller of [`RemoteAgent::refresh`] should fetch it again.
pub const CARD_FRESH: Duration = Duration::from_secs(300);
/// The settings of an upstream: which agent, and how long to wait for it.
#[derive(Debug, Clone)]
pub struct Upstream {
    /// The name of the agent on this server.
    pub name: String,
    /// The replicas of the agent; at least one.
    pub replicas: Vec<UpstreamReplica>,
    /// The agent that does the work if it cannot begin at any replica.
    pub fallback: Option<AgentName>,
    /// The maximum number of concurrent calls; `None` for any number.
    pub calls_max: Option<usize>,
    /// The profile of its vendor; if `None`, the one that recognises the address.
    pub profile: Option<&'static VendorProfile>,
    /// The credentials to show. Nothing of the caller's.
    pub credentials: Credentials,
    /// Where else its card may lead with these: origins besides those of its replicas.
    pub origins: Vec<String>,
    /// How TLS connections are made.
    pub tls: Tls,
    /// The address policy for connections.
    pub egress: Egress,
    /// How long to wait for the agent.
    pub wait_limits: WaitLimits,
    /// The agent recognises repeated messages, or does no harm by answering twice: a message with an unknown result may
    /// be sent again.
    pub idempotent: bool,
    /// Decides which of its cards counts; without it, the latest.
    pub card_policy: Option<Arc<dyn CardPolicy>>,
    /// How users are named to it, if it is an app that knows the same users.
    pub user_tokens: Option<UserTokens>,
    /// When its circuit breaker opens.
    pub breaker_rules: BreakerRules,
    /// How long to wait for the agent's own ending when a task is canceled.
    pub cancel_grace: Duration,
    /// Where tasks that it hands over may be followed.
    pub follow_policy: FollowPolicy,
}

/// One of the replicas of an agent.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct UpstreamReplica {
    /// An origin, a card's URL, or an agent's URL.
    pub url: String,
    /// The share of the work, compared with the other replicas.
    pub weight: u32,
    /// The percentage of all conversations instead, for a version on trial.
    pub canary: Option<u8>,
}

impl UpstreamReplica {
    /// The only replica of an agent.
    pub fn only(url: &str) -> Self {
        Self { url: url.to_owned(), weight: 1, canary: None }
    }
}

/// How long to wait for an agent.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct WaitLimits {
    /// How many calls in a row may bring no answer.
    pub attempts_max: u32,
    /// How long there may be no news; `None` for as long as a turn may take.
    pub silence_max: Option<Duration>,
    /// The pause before the next call; it grows while there is no news.
    pub pause_min: Duration,
    /// How long connections may be refused, or its name not resolve, before a task fails whose message never left;
    /// `None` for as long as the attempts last.
    pub connect_time_max: Option<Duration>,
}

impl Default for WaitLimits {
    fn default() -> Self {
        let (silence, pause) = (Some(Duration::from_secs(600)), Duration::from_secs(2));
        Self {
            attempts_max: 6,
            silence_max: silence,
            pause_min: pause,
            connect_time_max: Some(Duration::from_secs(15)),
        }
    }
}

/// An agent on another server.
pub struct RemoteAgent {
    upstream: Upstream,
    replicas: Vec<Arc<Replica>>,
    retry_budget: RetryBudget,
    bulkhead: Arc<Bulkhead>,
    answer_capacity: Capacity,
    hub: Arc<Hub>,
    foreign_replicas: ForeignReplicas,
    message_ids: MessageIds,
}

impl RemoteAgent {
    /// Makes an agent from its settings. Sends nothing yet; wrong settings are an error here.
    pub fn new(upstream: Upstream, hub: &Arc<Hub>) -> Result<Self, Error> {
        let bulkhead = Arc::new(Bulkhead::new(upstream.calls_max));
        // One share of the room for answers, however many replicas the agent has.
        let answers = hub.answer_capacity().part();
        let make = |place: &UpstreamReplica| {
            let shares = UpstreamShares { bulkhead: bulkhead.clone(), answers: answers.clone() };
            Replica::new(&upstream, place, hub, shares).map(Arc::new)
        };
        let replicas = upstream.replicas.iter().map(make).collect::<Result<Vec<_>, _>>()?;
        if replicas.is_empty() {
            return Err(Error::Usage("an agent elsewhere is at some place".into()));
        }
        let (hub, strangers, message_ids) = (hub.clone(), ForeignReplicas::default(), MessageIds::default());
        Ok(Self {
            upstream,
            replicas,
            retry_budget: RetryBudget::default(),
            bulkhead,
            answer_capacity: answers,
            hub,
            foreign_replicas: strangers,
            message_ids,
        })
    }

    /// Fetches the cards of all replicas, which are called by them from then on; returns the first one. Calls to the
    /// agent do not wait for this where there was a card before.
    pub async fn refresh(&self) -> Result<AgentCard, Error> {
        let (mut shown, mut failure) = (None, None);
        for replica in &self.replicas {
            match replica.card().await {
                Ok(card) => shown = shown.or(Some(card)),
                Err(error) => failure = failure.or(Some(error)),
            }
        }
        shown.ok_or_else(|| failure.unwrap_or_else(|| Error::Usage("an agent elsewhere is at some place".into())))
    }

    /// Checks the health of every replica.
    pub async fn check(&self) {
        for replica in &self.replicas {
            replica.check().await;
        }
    }

    /// The health of every replica.
    pub fn health(&self) -> Vec<ReplicaHealth> {
        self.replicas.iter().map(|replica| replica.health()).collect()
    }

    /// The same in one word: as good as the best replica, unless some are worse.
    pub fn health_status(&self) -> HealthStatus {
        let all = self.replicas.iter().map(|replica| replica.health_status());
        match (all.clone().min(), all.max()) {
            (Some(best), Some(worst)) if best == worst => best,
            (Some(HealthStatus::Down), _) => HealthStatus::Down,
            _ => HealthStatus::Degraded,
        }
    }

    /// A probe of its first replica, for use before the agent is called.
    pub fn probe(&self) -> AgentProbe {
        self.replicas[0].probe(&self.upstream.egress)
    }

    /// Forgets the cards in use: the next call asks again which one counts.
    pub fn forget_cards(&self) {
        self.replicas.iter().for_each(|replica| replica.forget_agent());
    }

    /// The state of the breakers of the first replica.
    pub fn circuit_status(&self) -> CircuitStatus {
        self.replicas[0].circuit.status()
    }

    /// How long every replica refuses calls; `None` if one can be called.
    fn retry_after(&self) -> Option<Duration> {
        let all: Option<Vec<Duration>> = self.replicas.iter().map(|replica| replica.circuit.retry_after()).collect();
        all?.into_iter().min()
    }

    /// Why the last call to every replica found nothing listening, if each did.
    fn absence_reason(&self) -> Option<&'static str> {
        let all: Option<Vec<&'static str>> = self.replicas.iter().map(|replica| replica.absence()).collect();
        all?.first().copied()
    }

    /// The replica that has the task, or the best one for it; not one of those that have just failed, if there are
    /// others.
    fn choose_replica(&self, checkpoint: &Checkpoint, chance: impl Fn() -> u64, shunned: &[String]) -> &Arc<Replica> {
        if let [only] = &*self.replicas {
            return only;
        }
        let at = checkpoint.at.as_deref().filter(|_| checkpoint.tried || checkpoint.task.is_some());
        if let Some(replica) = at.and_then(|at| self.replicas.iter().find(|replica| replica.config.url == at)) {
            return replica;
        }
        let choose = |usable: &dyn Fn(&Replica) -> bool| {
            let candidate = |replica: &Arc<Replica>| {
                let UpstreamReplica { weight, canary, .. } = replica.config;
                ReplicaCandidate { weight, canary, usable: usable(replica) }
            };
            let candidates: Vec<ReplicaCandidate> = self.replicas.iter().map(candidate).collect();
            choose_candidate(&candidates, chance())
        };
        let fresh = |replica: &Replica| !shunned.contains(&replica.config.url);
        let chosen = choose(&|replica| replica.is_usable() && fresh(replica))
            .or_else(|| choose(&Replica::is_usable))
            .or_else(|| choose(&|_| true));
        &self.replicas[chosen.unwrap_or(0)]
    }

    /// A connection to the agent that has the task.
    async fn connection(&self, checkpoint: &Checkpoint) -> Result<ReplicaConnection, Error> {
        match &checkpoint.moved {
            None => self.choose_replica(checkpoint, || 0, &[]).connection(&checkpoint.caller).await,
            Some(moved) => self.replica_of_holder(moved).await?.connection(&checkpoint.caller).await,
        }
    }

    /// The pace of polling where there is no stream.
    fn pace(&self) -> PollSchedule {
        PollSchedule { failures_max: 1, ..PollSchedule::every(self.upstream.wait_limits.pause_min) }
    }
}

impl std::fmt::Debug for RemoteAgent {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("RemoteAgent").field("name", &self.upstream.name).finish_non_exhaustive()
    }
}

impl Agent for RemoteAgent {
    async fn turn(&self, cx: &mut Context) -> Result<Ending, Failure> {
        let task = cx.task_id();
        exchange_log::for_task(task, RemoteTurn::start_or_resume(self, cx).run()).await
    }

    fn execution(&self) -> Execution {
        // The turn touches nothing but a card before its first commit, and that commit opens the task. If a message may
        // be sent twice, the turn need not wait for a commit; unless there are several replicas, since a turn that is
        // begun again must go where it went before.
        let brief = self.upstream.idempotent && self.upstream.replicas.len() == 1;
        Execution { instant: true, defer_open: brief, answers_directly: true, recovery: Recovery::Resume }
    }

    /// Refuses new tasks while no replica can be called: they would only wait.
    fn check_admission(&self) -> Result<(), Fault> {
        if self.upstream.fallback.is_some() {
            return Ok(());
        }
        if let Some(after) = self.retry_after() {
            let what = if self.replicas[0].circuit.is_shared_breaker_open() {
                "agents elsewhere cannot be reached from here"
            } else {
                "the agent behind this one failed again and again and is not called for now"
            };
            let words = format!("{what}; try again in {}", duration_words(after));
            return Err(Fault::Shed { words, retry_after: after.as_secs().max(1) });
        }
        if self.bulkhead.is_full() {
            let words = "the agent behind this one has enough to do; try again later";
            return Err(Fault::Shed { words: words.into(), retry_after: 1 });
        }
        Ok(())
    }

    /// A moment more than the agent gets: we still have to report what is not known.
    fn cancel_grace(&self) -> Duration {
        self.upstream.cancel_grace + Duration::from_secs(1)
    }

    async fn cancel_elsewhere(&self, canceled: CanceledTask) -> CancelOutcome {
        exchange_log::for_task(canceled.task, self.cancel_remote_task(&canceled)).await
    }

    async fn repeat_cancel(&self, canceled: CanceledTask) -> bool {
        exchange_log::for_task(canceled.task, self.repeat_cancel(&canceled)).await
    }
}
