//! An agent elsewhere, behind our log.
//!
//! A caller speaks to us and we speak to the agent: the caller's message becomes ours, their events become our reports,
//! their question is our question. What we know of their task is the turn's checkpoint, committed before anything is
//! waited for, so a turn that a crash interrupted goes on where it was.
//!
//! | Room | What is there |
//! |---|---|
//! | `replica` | one place where the agent is: its card, its breakers |
//! | `line` | calls, each through the breakers |
//! | `cancel` | calling a task off there |
//! | `known` | what a turn knows of their task: the checkpoint |
//! | `shown` | what of it our caller has seen already |
//! | `work` | one turn: send once, follow, wait, give up |
//! | `numbers` | whether an event goes on where the last one was |
//! | `mirror` | their events, as reports of ours |
//! | `trouble` | what a failed call means for the turn |
//!
//! Absent on purpose: who our caller is. The agent sees the credentials that are configured for it, and no others.

mod cancel;
mod known;
mod line;
mod mirror;
mod numbers;
mod replica;
mod shown;
mod trouble;
mod work;

use crate::breaker::Rules;
use crate::circuit::{Hub, Standing};
use known::Known;
use line::Line;
use replica::Replica;
use sabir_client::{Credentials, Egress, Error, Pace};
use sabir_engine::{Agent, CalledOff, Canceled, Context, Ending, Failure, Nature, Recovery};
use sabir_proto::AgentCard;
use std::sync::Arc;
use std::time::Duration;
use work::Work;

/// How long a card is believed before it is fetched again.
pub const CARD_FRESH: Duration = Duration::from_secs(300);
/// Which agent, and how long it is waited for.
#[derive(Debug, Clone)]
pub struct Upstream {
    /// What it is called here.
    pub name: String,
    /// Where it is: an origin, a card's URL, or an agent's URL.
    pub url: String,
    /// What to show it. Nothing of the caller's.
    pub credentials: Credentials,
    /// Where we may connect.
    pub egress: Egress,
    /// How long it is waited for.
    pub patience: Patience,
    /// It recognises a message it has seen before, or does no harm by answering twice: a message whose fate nobody knows
    /// may be sent again.
    pub idempotent: bool,
    /// When it is left alone.
    pub breaker: Rules,
    /// How long its own end is waited for when a task is canceled.
    pub cancel_grace: Duration,
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
}

impl Default for Patience {
    fn default() -> Self {
        Self { attempts: 6, silence: Some(Duration::from_secs(600)), pause: Duration::from_secs(2) }
    }
}

/// An agent elsewhere.
pub struct RemoteAgent {
    upstream: Upstream,
    replica: Arc<Replica>,
}

impl RemoteAgent {
    /// Stands for an agent. Nothing is asked of it yet; what is wrong with the settings is said here.
    pub fn new(upstream: Upstream, hub: &Arc<Hub>) -> Result<Self, Error> {
        let replica = Arc::new(Replica::new(&upstream, &upstream.url, hub)?);
        Ok(Self { upstream, replica })
    }

    /// Fetches the agent's card.
    pub async fn card(&self) -> Result<AgentCard, Error> {
        self.replica.card().await
    }

    /// Where its breakers stand.
    pub fn standing(&self) -> Standing {
        self.replica.circuit.standing()
    }

    /// A line to the agent, wherever the task is.
    async fn line(&self, _: &Known) -> Result<Line, Error> {
        self.replica.line().await
    }

    /// Asked at this pace where there is no stream.
    fn pace(&self) -> Pace {
        Pace { failures_max: 1, ..Pace::every(self.upstream.patience.pause) }
    }
}

impl std::fmt::Debug for RemoteAgent {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("RemoteAgent").field("url", &self.upstream.url).finish_non_exhaustive()
    }
}

impl Agent for RemoteAgent {
    async fn turn(&self, cx: &mut Context) -> Result<Ending, Failure> {
        Work::take_up(self, cx).run().await
    }

    fn nature(&self) -> Nature {
        Nature { instant: false, recovery: Recovery::Resume }
    }

    /// A moment more than they get: it is for us to say what is not known.
    fn grace(&self) -> Duration {
        self.upstream.cancel_grace + Duration::from_secs(1)
    }

    async fn call_off(&self, canceled: Canceled) -> CalledOff {
        self.call_off_there(&canceled).await
    }

    async fn remind(&self, canceled: Canceled) -> bool {
        self.remind_them(&canceled).await
    }
}
