//! An agent elsewhere, behind our log.
//!
//! A caller speaks to us and we speak to the agent: the caller's message becomes ours, their events become our reports,
//! their question is our question. What we know of their task is the turn's checkpoint, committed before anything is
//! waited for, so a turn that a crash interrupted goes on where it was.
//!
//! | Room | What is there |
//! |---|---|
//! | `replica` | one place where the agent is: its card, its breakers |
//! | `astray` | interfaces of the card that lead nowhere |
//! | `line` | calls, each through the breakers |
//! | `cancel` | calling a task off there |
//! | `known` | what a turn knows of their task: the checkpoint |
//! | `shown` | what of it our caller has seen already |
//! | `message_ids` | under which id a message goes on |
//! | `work` | one turn: send once, follow, wait, give up |
//! | `numbers` | whether an event goes on where the last one was |
//! | `mirror` | their events, as reports of ours |
//! | `moved` | tasks that they have handed over |
//! | `onward` | where those may be followed to, and whoever is there |
//! | `peer` | tasks that are handed to it |
//! | `outage` | what our caller hears while it cannot be reached |
//! | `trouble` | what a failed call means for the turn |
//!
//! Absent on purpose: who our caller is. The agent sees the credentials that are configured for it, and no others.

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

/// How long a card is believed before it is fetched again, by whoever calls [`RemoteAgent::refresh`].
pub const CARD_FRESH: Duration = Duration::from_secs(300);
/// Which agent, and how long it is waited for.
#[derive(Debug, Clone)]
pub struct Upstream {
    /// What it is called here.
    pub name: String,
    /// Where it is; at least one place.
    pub places: Vec<Place>,
    /// Who does the work where it cannot begin at any place.
    pub fallback: Option<AgentName>,
    /// Calls that may be under way at the same time; `None` for any number.
    pub bulkhead: Option<usize>,
    /// The habits of its vendor; those of whoever's address it is, where nobody says.
    pub profile: Option<&'static Profile>,
    /// What to show it. Nothing of the caller's.
    pub credentials: Credentials,
    /// Where else its card may lead with these: origins besides those of its places.
    pub origins: Vec<String>,
    /// How TLS connections are made.
    pub tls: Tls,
    /// Where we may connect.
    pub egress: Egress,
    /// How long it is waited for.
    pub patience: Patience,
    /// It recognises a message it has seen before, or does no harm by answering twice: a message whose fate nobody knows
    /// may be sent again.
    pub idempotent: bool,
    /// Who decides which of its cards counts; where nobody does, the latest.
    pub keeper: Option<Arc<dyn Keeper>>,
    /// How it is called on behalf of our caller, where it is one of those who know each other's users.
    pub on_behalf: Option<OnBehalf>,
    /// When it is left alone.
    pub breaker: Rules,
    /// How long its own end is waited for when a task is canceled.
    pub cancel_grace: Duration,
    /// Where tasks are followed to that it hands over.
    pub onward: Onward,
}

/// One place where an agent is.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Place {
    /// An origin, a card's URL, or an agent's URL.
    pub url: String,
    /// How much of the work it gets, compared with the others.
    pub weight: u32,
    /// Percent of all conversations instead, for a version on trial.
    pub canary: Option<u8>,
}

impl Place {
    /// The only one.
    pub fn only(url: &str) -> Self {
        Self { url: url.to_owned(), weight: 1, canary: None }
    }
}

/// How long an agent is waited for.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Patience {
    /// How often it may fail to answer in a row.
    pub attempts: u32,
    /// How long it may have no news; `None` for as long as a turn may take.
    pub silence: Option<Duration>,
    /// The pause before it is asked again; it grows while there is no news.
    pub pause: Duration,
    /// How long connections may be refused, or its name not resolve, before a task fails whose message never left; `None`
    /// for as long as the attempts last.
    pub connect_give_up: Option<Duration>,
}

impl Default for Patience {
    fn default() -> Self {
        let (silence, pause) = (Some(Duration::from_secs(600)), Duration::from_secs(2));
        Self { attempts: 6, silence, pause, connect_give_up: Some(Duration::from_secs(15)) }
    }
}

/// An agent elsewhere.
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
    /// Stands for an agent. Nothing is asked of it yet; what is wrong with the settings is said here.
    pub fn new(upstream: Upstream, hub: &Arc<Hub>) -> Result<Self, Error> {
        let bulkhead = Arc::new(Bulkhead::new(upstream.bulkhead));
        // One share of what may be answered, however many places the agent has.
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

    /// Fetches the cards of all places, by which they are called from then on; gives the first one. Whoever calls the agent
    /// does not wait for this where there was a card before.
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

    /// Looks how every place is doing.
    pub async fn check(&self) {
        for replica in &self.replicas {
            replica.check().await;
        }
    }

    /// How every place is doing.
    pub fn health(&self) -> Vec<Health> {
        self.replicas.iter().map(|replica| replica.health()).collect()
    }

    /// The same in one word: as good as the best place, unless some are worse.
    pub fn condition(&self) -> Condition {
        let all = self.replicas.iter().map(|replica| replica.condition());
        match (all.clone().min(), all.max()) {
            (Some(best), Some(worst)) if best == worst => best,
            (Some(Condition::Down), _) => Condition::Down,
            _ => Condition::Degraded,
        }
    }

    /// Looks at its first place before anybody calls it.
    pub fn scout(&self) -> Scout {
        self.replicas[0].scout(&self.upstream.egress)
    }

    /// Forgets the cards that are called by: the next call asks anew which one counts.
    pub fn hang_up(&self) {
        self.replicas.iter().for_each(|replica| replica.hang_up());
    }

    /// Where the breakers of the first place stand.
    pub fn standing(&self) -> Standing {
        self.replicas[0].circuit.standing()
    }

    /// How long nobody can be called, if nobody can.
    fn refusal(&self) -> Option<Duration> {
        let all: Option<Vec<Duration>> = self.replicas.iter().map(|replica| replica.circuit.refusal()).collect();
        all?.into_iter().min()
    }

    /// Why every place was found absent by the last call there, if each was.
    fn absence(&self) -> Option<&'static str> {
        let all: Option<Vec<&'static str>> = self.replicas.iter().map(|replica| replica.absence()).collect();
        all?.first().copied()
    }

    /// The place where the task is, or the best one for it; not one of those that have just failed, if others are there.
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

    /// A line to whoever has the task.
    async fn line(&self, known: &Known) -> Result<Line, Error> {
        match &known.moved {
            None => self.replica(known, || 0, &[]).line(&known.caller).await,
            Some(moved) => self.successor(moved).await?.line(&known.caller).await,
        }
    }

    /// Asked at this pace where there is no stream.
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
        // It touches nothing before it has asked for a commit, a card aside: that commit is the one that opens the task.
        // Where a message may be sent twice, it need not wait for one; unless there are several places, since a turn that is
        // begun again must go where it went before.
        let brief = self.upstream.idempotent && self.upstream.places.len() == 1;
        Nature { instant: true, brief, answers_directly: true, recovery: Recovery::Resume }
    }

    /// Not while nobody can be called: whoever comes now would only wait.
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

    /// A moment more than they get: it is for us to say what is not known.
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
