//! An agent elsewhere, behind our log.
//!
//! A caller speaks to us and we speak to the agent: the caller's message becomes ours, their events become our reports,
//! their question is our question. What we know of their task is the turn's checkpoint, committed before anything is
//! waited for, so a turn that a crash interrupted goes on where it was.
//!
//! | Room | What is there |
//! |---|---|
//! | `known` | what a turn knows of their task: the checkpoint |
//! | `shown` | what of it our caller has seen already |
//! | `work` | one turn: send once, follow, wait, give up |
//! | `mirror` | their events, as reports of ours |
//! | `trouble` | what a failed call means for the turn |
//!
//! Absent on purpose: who our caller is. The agent sees the credentials that are configured for it, and no others.

mod known;
mod mirror;
mod shown;
mod trouble;
mod work;

use crate::keeper::Keeper;
use crate::scout::{Scout, vouch};
use known::Known;
use sabir_client::{Agent as Line, Client, Credentials, Egress, Error, Pace, Reference, Timeouts, Version};
use sabir_engine::{Agent, Canceled, Context, Ending, Failure, Nature, Recovery};
use sabir_proto::{AgentCard, CancelTask, Code, Tenant};
use std::sync::{Arc, PoisonError, RwLock};
use std::time::{Duration, Instant};
use work::Work;

/// How long a card is believed before it is fetched again.
pub const CARD_FRESH: Duration = Duration::from_secs(300);
/// How often their task is cancelled before we leave it at that, and the first pause in between.
const CANCELS_MAX: u32 = 4;
const CANCEL_PAUSE: Duration = Duration::from_secs(1);

/// Which agent, and how long it is waited for.
#[derive(Debug, Clone)]
pub struct Upstream {
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
    client: Client,
    reference: Reference,
    line: RwLock<Option<(Instant, Line)>>,
    keeper: Option<Arc<dyn Keeper>>,
}

impl RemoteAgent {
    /// Stands for an agent. Nothing is asked of it yet; what is wrong with the settings is said here.
    pub fn new(upstream: Upstream) -> Result<Self, Error> {
        let reference = Reference::parse(&upstream.url)?;
        if matches!(reference, Reference::File(_)) {
            return Err(Error::Usage("an agent elsewhere is given by its URL".into()));
        }
        let silence = upstream.patience.silence.unwrap_or(Duration::from_secs(3600));
        // Some agents hold their answer back until they are done, whatever they are asked.
        let timeouts = Timeouts { answer: silence.max(Duration::from_secs(10)), ..Timeouts::default() };
        let client = Client::builder()
            .egress(upstream.egress.clone())
            .timeouts(timeouts)
            .version(Version::Any)
            .credentials(upstream.credentials.clone())
            .build()?;
        Ok(Self { upstream, client, reference, line: RwLock::new(None), keeper: None })
    }

    /// Has somebody decide which of its cards counts.
    #[must_use]
    pub fn kept_by(self, keeper: Arc<dyn Keeper>) -> Self {
        Self { keeper: Some(keeper), ..self }
    }

    /// Looks at it before anybody calls it.
    pub fn scout(&self) -> Scout {
        Scout::new(self.client.clone(), self.upstream.egress.clone(), self.reference.clone())
    }

    /// Forgets the card that is called by: the next call asks anew which one counts.
    pub fn hang_up(&self) {
        *self.line.write().unwrap_or_else(PoisonError::into_inner) = None;
    }

    /// Fetches the card, and makes a line by the one that counts.
    async fn connect(&self) -> Result<Line, Error> {
        let Some(keeper) = &self.keeper else { return self.client.connect(&self.reference).await };
        let found = self.client.card(&self.reference).await?;
        let voucher = vouch(&self.client, &found).await;
        self.client.agent(keeper.settle(found, voucher).await?)
    }

    /// Fetches the agent's card.
    pub async fn card(&self) -> Result<AgentCard, Error> {
        let line = self.connect().await?;
        let card = line.card().clone();
        self.keep(line);
        Ok(card)
    }

    /// A line to the agent. A card that is old is fetched again; where that fails, the old one has to do.
    async fn line(&self) -> Result<Line, Error> {
        let kept = self.line.read().unwrap_or_else(PoisonError::into_inner).clone();
        let old = match kept {
            Some((since, line)) if since.elapsed() < CARD_FRESH => return Ok(line),
            other => other.map(|(_, line)| line),
        };
        let kept = || self.client.agent(self.keeper.as_ref()?.kept()?).ok();
        match (self.connect().await, old.or_else(kept)) {
            (Ok(line), _) => {
                self.keep(line.clone());
                Ok(line)
            }
            (Err(error), Some(line)) => {
                tracing::warn!(agent = %self.upstream.url, %error, "its card cannot be fetched; the old one is used");
                Ok(line)
            }
            (Err(error), None) => Err(error),
        }
    }

    fn keep(&self, line: Line) {
        *self.line.write().unwrap_or_else(PoisonError::into_inner) = Some((Instant::now(), line));
    }

    /// Asked at this pace where there is no stream.
    fn pace(&self) -> Pace {
        Pace { failures_max: 1, ..Pace::every(self.upstream.patience.pause) }
    }

    async fn cancel(&self, request: CancelTask) -> Result<(), Error> {
        match self.line().await?.cancel(request).await {
            // It was done before we said so.
            Err(Error::Fault { fault, .. }) if matches!(fault.code(), Code::TaskNotCancelable | Code::TaskNotFound) => {
                Ok(())
            }
            other => other.map(drop),
        }
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

    async fn canceled(&self, canceled: Canceled) {
        let known = canceled.checkpoint.as_deref().and_then(Known::read).unwrap_or_default();
        let Some(id) = known.task else {
            if known.tried {
                tracing::warn!(task = %canceled.task, "canceled before the remote agent named its task; it may go on");
            }
            return;
        };
        let mut pause = CANCEL_PAUSE;
        for attempt in 1..=CANCELS_MAX {
            let request = CancelTask { tenant: Tenant::none(), id: id.clone(), metadata: None };
            match self.cancel(request).await {
                Ok(()) => return,
                Err(error) if error.is_passing() && attempt < CANCELS_MAX => {
                    tokio::time::sleep(pause).await;
                    pause *= 2;
                }
                Err(error) => {
                    tracing::warn!(task = %canceled.task, %error, "the remote task could not be canceled; it may go on");
                    return;
                }
            }
        }
    }
}
