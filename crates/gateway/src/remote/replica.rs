//! One of the places where an agent elsewhere is: its card, kept for a while, and the breakers before it.

use super::line::Line;
use super::{CARD_FRESH, Upstream};
use crate::circuit::{Circuit, Hub, Passage};
use sabir_client::{Agent, Client, Error, Reference, Timeouts, Version};
use sabir_proto::AgentCard;
use std::sync::{Arc, PoisonError, RwLock};
use std::time::{Duration, Instant};

/// A place where the agent is.
pub(super) struct Replica {
    pub(super) url: String,
    pub(super) circuit: Arc<Circuit>,
    client: Client,
    reference: Reference,
    kept: RwLock<Option<(Instant, Agent)>>,
}

impl Replica {
    /// Nothing is asked of it yet; what is wrong with the settings is said here.
    pub(super) fn new(upstream: &Upstream, url: &str, hub: &Arc<Hub>) -> Result<Self, Error> {
        let reference = Reference::parse(url)?;
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
        let circuit = hub.circuit(&upstream.name, upstream.breaker);
        Ok(Self { url: url.to_owned(), circuit, client, reference, kept: RwLock::new(None) })
    }

    /// Asks the breakers for a call.
    pub(super) fn pass(&self) -> Result<Passage, Error> {
        self.circuit.pass().map_err(Error::from)
    }

    /// Fetches the card, whatever the breakers say: where it is fetched for its own sake, nobody waits for an answer, and
    /// that a card is there says little about the agent.
    pub(super) async fn card(&self) -> Result<AgentCard, Error> {
        let agent = self.client.connect(&self.reference).await?;
        let card = agent.card().clone();
        self.keep(agent);
        Ok(card)
    }

    /// A line to the agent. A card that is old is fetched again; where that fails, the old one has to do.
    pub(super) async fn line(self: &Arc<Self>) -> Result<Line, Error> {
        let kept = self.kept.read().unwrap_or_else(PoisonError::into_inner).clone();
        let old = match kept {
            Some((since, agent)) if since.elapsed() < CARD_FRESH => return Ok(Line::new(agent, self.clone())),
            other => other.map(|(_, agent)| agent),
        };
        let passage = self.pass()?;
        let found = self.client.connect(&self.reference).await;
        passage.judge(found.as_ref().err());
        let agent = match (found, old) {
            (Ok(agent), _) => {
                self.keep(agent.clone());
                agent
            }
            (Err(error), Some(agent)) => {
                tracing::warn!(agent = %self.url, %error, "its card cannot be fetched; the old one is used");
                agent
            }
            (Err(error), None) => return Err(error),
        };
        Ok(Line::new(agent, self.clone()))
    }

    /// Forgets the card: the next line is made from a fresh one.
    pub(super) fn hang_up(&self) {
        *self.kept.write().unwrap_or_else(PoisonError::into_inner) = None;
    }

    fn keep(&self, agent: Agent) {
        *self.kept.write().unwrap_or_else(PoisonError::into_inner) = Some((Instant::now(), agent));
    }
}
