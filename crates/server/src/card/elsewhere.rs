//! What an agent elsewhere says of itself, for those members of its card here that the configuration leaves open.
//!
//! Its card is fetched behind everybody's back, from the start on and now and then. Until it is there, and while the agent
//! is away, the card here is what is configured with what was heard last, which outlives the server.

use super::{Cards, Face, Keeper};
use crate::config::agent::CardConfig;
use crate::host::TokioHost;
use sabir_engine::Host as _;
use sabir_gateway::{CARD_FRESH, Keeper as _, RemoteAgent};
use sabir_proto::{AgentCard, Timestamp};
use sabir_store::KeptCard;
use std::sync::{Arc, Mutex, PoisonError, Weak};
use std::time::Duration;

/// How soon an agent that could not be reached is asked again: at first, and at last.
const PAUSE_MIN: Duration = Duration::from_secs(1);

/// An agent elsewhere, as its card here follows it.
pub(crate) struct Elsewhere {
    remote: Arc<RemoteAgent>,
    keeper: Arc<Keeper>,
    /// The face that is configured, and where it leaves room; none where somebody else speaks for the agent.
    overlay: Option<(Face, CardConfig)>,
    heard: Mutex<Heard>,
}

/// When its card was last fetched, or why not.
#[derive(Debug, Clone, Default)]
pub(crate) struct Heard {
    /// The last time that it was there.
    pub(crate) at: Option<Timestamp>,
    /// Why it was not there the last time.
    pub(crate) problem: Option<String>,
}

impl Elsewhere {
    pub(crate) fn new(remote: Arc<RemoteAgent>, keeper: Arc<Keeper>, overlay: Option<(Face, CardConfig)>) -> Self {
        Self { remote, keeper, overlay, heard: Mutex::default() }
    }

    /// Whether its card could be fetched.
    pub(crate) fn heard(&self) -> Heard {
        self.heard.lock().unwrap_or_else(PoisonError::into_inner).clone()
    }

    fn note(&self, problem: Option<String>) {
        let mut heard = self.heard.lock().unwrap_or_else(PoisonError::into_inner);
        if problem.is_none() {
            heard.at = Some(TokioHost.now());
        }
        heard.problem = problem;
    }

    /// The card that is kept of it.
    pub(crate) fn used(&self) -> Option<KeptCard> {
        self.keeper.used()
    }

    /// Uses a card that somebody else has decided for; says whether that is news.
    pub(crate) fn take(&self, card: KeptCard) -> bool {
        let is_news = self.keeper.take(card);
        if is_news {
            self.remote.hang_up();
        }
        is_news
    }

    /// Shows what is kept of its card.
    pub(crate) fn show(&self, cards: &Cards) {
        if let (Some((face, config)), Some(kept)) = (&self.overlay, self.keeper.kept()) {
            cards.show(fill(face, config, kept.card));
        }
    }

    /// Shows what the agent says of itself, for as long as its card is served.
    pub(crate) async fn follow(self: Arc<Self>, cards: Weak<Cards>) {
        let mut pause = PAUSE_MIN;
        loop {
            let told = self.remote.card().await;
            let Some(cards) = cards.upgrade() else { return };
            pause = match told {
                Ok(card) => {
                    if let Some((face, config)) = &self.overlay {
                        cards.show(fill(face, config, card));
                    }
                    self.note(None);
                    CARD_FRESH
                }
                Err(error) => {
                    let remote = &self.remote;
                    tracing::warn!(?remote, %error, "the card of a remote agent cannot be fetched; ours stays as it is");
                    self.note(Some(error.to_string()));
                    (pause * 2).min(CARD_FRESH)
                }
            };
            drop(cards);
            tokio::time::sleep(pause).await;
        }
    }
}

/// The face that is configured, with their words where it has none.
pub(crate) fn fill(face: &Face, config: &CardConfig, card: AgentCard) -> Face {
    let mut face = face.clone();
    if config.name.is_none() && !card.name.is_empty() {
        face.public.name = card.name;
    }
    if config.description.is_none() && !card.description.is_empty() {
        face.public.description = card.description;
    }
    if config.skills.is_empty() && !card.skills.is_empty() {
        let mut skills = card.skills;
        for skill in &mut skills {
            // Whom they ask for what is between them and us.
            skill.security_requirements.clear();
        }
        face.public.skills.clone_from(&skills);
        face.skills = skills;
    }
    face
}
