//! An agent elsewhere, behind our log.
//!
//! A caller speaks to us and we speak to the agent: the caller's message becomes ours, the agent's events become our
//! reports, its question becomes our question. What we know of its task is the turn's checkpoint, committed before any
//! wait, so a turn that a crash interrupted goes on where it was.
//!
//! | Module | Contents |
//! |---|---|
//! | `replica` | one address of the agent: its card, its breakers |
//! | `astray` | interfaces of the card that cannot be reached |
//! | `line` | calls, each through the breakers |
//! | `cancel` | canceling the remote task |
//! | `known` | what a turn knows of the remote task: the checkpoint |
//! | `shown` | what of it our caller has received already |
//! | `message_ids` | the id under which a message is passed on |
//! | `work` | one turn: send once, follow, wait, give up |
//! | `numbers` | whether an event follows the last one |
//! | `mirror` | remote events, as reports of ours |
//! | `moved` | tasks that the agent has handed over |
//! | `onward` | where those may be followed, and which agent is there |
//! | `peer` | tasks that are handed to the agent |
//! | `outage` | what our caller hears while it cannot be reached |
//! | `trouble` | what a failed call means for the turn |
//!
//! Absent on purpose: our caller's credentials. The agent sees those that are configured for it, and no others.

mod astray;
mod cancel;
mod known;
mod line;
mod message_ids;
mod mirror;
mod moved;
mod numbers;
mod onward;
mod outage;
mod peer;
mod replica;
mod shown;
mod trouble;
mod work;

use crate::balance::{Candidate, choose};
use crate::behalf::OnBehalf;
use crate::breaker::Rules;
use crate::budget::Budget;
use crate::circuit::{Hub, Standing};
use crate::failure_words::duration_words;
use crate::health::{Condition, Health};
use crate::keeper::Keeper;
use crate::scout::Scout;
use crate::wire;
use known::Known;
use line::Line;
use message_ids::MessageIds;
use onward::Strangers;
pub use onward::{Acquaintances, Onward};
use replica::{Bulkhead, Replica};
use sabir_client::{Capacity, Credentials, Egress, Error, Pace, Profile, Tls};
use sabir_engine::{Agent, CalledOff, Canceled, Context, Ending, Failure, Nature, Recovery};
use sabir_proto::{AgentCard, AgentName, Fault};
use std::sync::Arc;
use std::time::Duration;
pub(crate) use trouble::{is_held, is_put_off};
use work::Work;

/// How long a card is used before the caller of [`RemoteAgent::refresh`] should fetch it again.
pub const CARD_FRESH: Duration = Duration::from_secs(300);
/// The settings of an upstream: which agent, and how long to wait for it.
#[derive(Debug, Clone)]
pub struct Upstream {
    /// The name of the agent on this server.
    pub name: String,
    /// The replicas of the agent; at least one.
    pub places: Vec<Place>,
    /// The agent that does the work if it cannot begin at any replica.
    pub fallback: Option<AgentName>,
    /// The maximum number of concurrent calls; `None` for any number.
    pub bulkhead: Option<usize>,
    /// The profile of its vendor; if `None`, the one that recognises the address.
    pub profile: Option<&'static Profile>,
    /// The credentials to show. Nothing of the caller's.
    pub credentials: Credentials,
    /// Where else its card may lead with these: origins besides those of its replicas.
    pub origins: Vec<String>,
    /// How TLS connections are made.
    pub tls: Tls,
    /// The address policy for connections.
    pub egress: Egress,
    /// How long to wait for the agent.
    pub patience: Patience,
    /// The agent recognises repeated messages, or does no harm by answering twice: a message with an unknown result may
    /// be sent again.
    pub idempotent: bool,
    /// Decides which of its cards counts; without it, the latest.
    pub keeper: Option<Arc<dyn Keeper>>,
    /// How users are named to it, if it is an app that knows the same users.
    pub on_behalf: Option<OnBehalf>,
    /// When its circuit breaker opens.
    pub breaker: Rules,
    /// How long to wait for the agent's own ending when a task is canceled.
    pub cancel_grace: Duration,
    /// Where tasks that it hands over may be followed.
    pub onward: Onward,
}

/// One of the replicas of an agent.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Place {
    /// An origin, a card's URL, or an agent's URL.
    pub url: String,
    /// The share of the work, compared with the other replicas.
    pub weight: u32,
    /// The percentage of all conversations instead, for a version on trial.
    pub canary: Option<u8>,
}

impl Place {
    /// The only replica of an agent.
    pub fn only(url: &str) -> Self {
        Self { url: url.to_owned(), weight: 1, canary: None }
    }
}

/// How long to wait for an agent.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Patience {
    /// How many calls in a row may bring no answer.
    pub attempts: u32,
    /// How long there may be no news; `None` for as long as a turn may take.
    pub silence: Option<Duration>,
    /// The pause before the next call; it grows while there is no news.
    pub pause: Duration,
    /// How long connections may be refused, or its name not resolve, before a task fails whose message never left;
    /// `None` for as long as the attempts last.
    pub connect_give_up: Option<Duration>,
}

impl Default for Patience {
    fn default() -> Self {
        let (silence, pause) = (Some(Duration::from_secs(600)), Duration::from_secs(2));
        Self { attempts: 6, silence, pause, connect_give_up: Some(Duration::from_secs(15)) }
    }
}

/// An agent on another server.
pub struct RemoteAgent {
    upstream: Upstream,
    replicas: Vec<Arc<Replica>>,
    budget: Budget,
    bulkhead: Arc<Bulkhead>,
    answers: Capacity,
    hub: Arc<Hub>,
    strangers: Strangers,
    message_ids: MessageIds,
}

impl RemoteAgent {
    /// Makes an agent from its settings. Sends nothing yet; wrong settings are an error here.
    pub fn new(upstream: Upstream, hub: &Arc<Hub>) -> Result<Self, Error> {
        let bulkhead = Arc::new(Bulkhead::new(upstream.bulkhead));
        // One share of the room for answers, however many replicas the agent has.
        let answers = hub.answers().part();
        let make =
            |place: &Place| Replica::new(&upstream, place, hub, (bulkhead.clone(), answers.clone())).map(Arc::new);
        let replicas = upstream.places.iter().map(make).collect::<Result<Vec<_>, _>>()?;
        if replicas.is_empty() {
            return Err(Error::Usage("an agent elsewhere is at some place".into()));
        }
        let (hub, strangers, message_ids) = (hub.clone(), Strangers::default(), MessageIds::default());
        Ok(Self { upstream, replicas, budget: Budget::default(), bulkhead, answers, hub, strangers, message_ids })
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
    pub fn health(&self) -> Vec<Health> {
        self.replicas.iter().map(|replica| replica.health()).collect()
    }

    /// The same in one word: as good as the best replica, unless some are worse.
    pub fn condition(&self) -> Condition {
        let all = self.replicas.iter().map(|replica| replica.condition());
        match (all.clone().min(), all.max()) {
            (Some(best), Some(worst)) if best == worst => best,
            (Some(Condition::Down), _) => Condition::Down,
            _ => Condition::Degraded,
        }
    }

    /// A probe of its first replica, for use before the agent is called.
    pub fn scout(&self) -> Scout {
        self.replicas[0].scout(&self.upstream.egress)
    }

    /// Forgets the cards in use: the next call asks again which one counts.
    pub fn hang_up(&self) {
        self.replicas.iter().for_each(|replica| replica.hang_up());
    }

    /// The state of the breakers of the first replica.
    pub fn standing(&self) -> Standing {
        self.replicas[0].circuit.standing()
    }

    /// How long every replica refuses calls; `None` if one can be called.
    fn refusal(&self) -> Option<Duration> {
        let all: Option<Vec<Duration>> = self.replicas.iter().map(|replica| replica.circuit.refusal()).collect();
        all?.into_iter().min()
    }

    /// Why the last call to every replica found nothing listening, if each did.
    fn absence(&self) -> Option<&'static str> {
        let all: Option<Vec<&'static str>> = self.replicas.iter().map(|replica| replica.absence()).collect();
        all?.first().copied()
    }

    /// The replica that has the task, or the best one for it; not one of those that have just failed, if there are
    /// others.
    fn replica(&self, known: &Known, chance: impl Fn() -> u64, shunned: &[String]) -> &Arc<Replica> {
        if let [only] = &*self.replicas {
            return only;
        }
        let at = known.at.as_deref().filter(|_| known.tried || known.task.is_some());
        if let Some(replica) = at.and_then(|at| self.replicas.iter().find(|replica| replica.place.url == at)) {
            return replica;
        }
        let choose = |usable: &dyn Fn(&Replica) -> bool| {
            let candidate = |replica: &Arc<Replica>| {
                let Place { weight, canary, .. } = replica.place;
                Candidate { weight, canary, usable: usable(replica) }
            };
            let candidates: Vec<Candidate> = self.replicas.iter().map(candidate).collect();
            choose(&candidates, chance())
        };
        let fresh = |replica: &Replica| !shunned.contains(&replica.place.url);
        let chosen = choose(&|replica| replica.is_usable() && fresh(replica))
            .or_else(|| choose(&Replica::is_usable))
            .or_else(|| choose(&|_| true));
        &self.replicas[chosen.unwrap_or(0)]
    }

    /// A connection to the agent that has the task.
    async fn line(&self, known: &Known) -> Result<Line, Error> {
        match &known.moved {
            None => self.replica(known, || 0, &[]).line(&known.caller).await,
            Some(moved) => self.successor(moved).await?.line(&known.caller).await,
        }
    }

    /// The pace of polling where there is no stream.
    fn pace(&self) -> Pace {
        Pace { failures_max: 1, ..Pace::every(self.upstream.patience.pause) }
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
        wire::about(task, Work::take_up(self, cx).run()).await
    }

    fn nature(&self) -> Nature {
        // The turn touches nothing but a card before its first commit, and that commit opens the task. If a message may
        // be sent twice, the turn need not wait for a commit; unless there are several replicas, since a turn that is
        // begun again must go where it went before.
        let brief = self.upstream.idempotent && self.upstream.places.len() == 1;
        Nature { instant: true, brief, answers_directly: true, recovery: Recovery::Resume }
    }

    /// Refuses new tasks while no replica can be called: they would only wait.
    fn admits(&self) -> Result<(), Fault> {
        if self.upstream.fallback.is_some() {
            return Ok(());
        }
        if let Some(after) = self.refusal() {
            let what = if self.replicas[0].circuit.is_refused_by_all() {
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
    fn grace(&self) -> Duration {
        self.upstream.cancel_grace + Duration::from_secs(1)
    }

    async fn call_off(&self, canceled: Canceled) -> CalledOff {
        wire::about(canceled.task, self.call_off_there(&canceled)).await
    }

    async fn remind(&self, canceled: Canceled) -> bool {
        wire::about(canceled.task, self.remind_them(&canceled)).await
    }
}
