//! Fills the members of a card that the configuration leaves open with those of the remote agent's own card.
//!
//! The server fetches that card in the background, from the start on and at intervals. Until it arrives, and while the
//! agent does not answer, the card here has the configured members and those of the last stored card, which outlives
//! the server.

use super::{CardContent, CardTracker, Cards, drift};
use crate::config::agent::CardConfig;
use crate::tokio_host::TokioHost;
use sabir_engine::Host as _;
use sabir_gateway::{CARD_FRESH, HealthStatus, RemoteAgent};
use sabir_proto::Timestamp;
use sabir_proto::card::Extension;
use sabir_store::StoredCard;
use serde_json::{Value, json};
use std::sync::{Arc, Mutex, PoisonError, Weak};
use std::time::Duration;

/// The extension in which a card names the signer of the card behind it.
const PROVENANCE: &str = "urn:sabir:ext:provenance:v1";
/// The first pause after a failed fetch; later ones double.
const PAUSE_MIN: Duration = Duration::from_secs(1);

/// A remote agent, and the card here that follows its own card.
pub(crate) struct RemoteCard {
    remote: Arc<RemoteAgent>,
    tracker: Arc<CardTracker>,
    /// The configured content and its open members; `None` where the card of another source is served.
    overlay: Option<(CardContent, CardConfig)>,
    fetch_status: Mutex<FetchStatus>,
}

/// When its card was last fetched, or why that failed.
#[derive(Debug, Clone, Default)]
pub(crate) struct FetchStatus {
    /// The time of the last successful fetch.
    pub(crate) at: Option<Timestamp>,
    /// Why the last fetch failed.
    pub(crate) problem: Option<String>,
}

impl RemoteCard {
    pub(crate) fn new(
        remote: Arc<RemoteAgent>,
        tracker: Arc<CardTracker>,
        overlay: Option<(CardContent, CardConfig)>,
    ) -> Self {
        Self { remote, tracker, overlay, fetch_status: Mutex::default() }
    }

    /// The connection to the agent.
    pub(crate) const fn remote(&self) -> &Arc<RemoteAgent> {
        &self.remote
    }

    /// Its condition, by its circuit breakers and health checks.
    pub(crate) fn condition(&self) -> HealthStatus {
        self.remote.health_status()
    }

    /// The result of the last fetch.
    pub(crate) fn fetch_status(&self) -> FetchStatus {
        self.fetch_status.lock().unwrap_or_else(PoisonError::into_inner).clone()
    }

    fn record_fetch(&self, problem: Option<String>) {
        let mut heard = self.fetch_status.lock().unwrap_or_else(PoisonError::into_inner);
        if problem.is_none() {
            heard.at = Some(TokioHost.now());
        }
        heard.problem = problem;
    }

    /// Uses a card that an operator or another process has accepted. Returns whether it is new.
    pub(crate) fn adopt(&self, card: StoredCard) -> bool {
        let is_news = self.tracker.adopt(card);
        if is_news {
            self.remote.forget_cards();
        }
        is_news
    }

    /// Updates the card here from the stored one.
    pub(crate) fn update(&self, cards: &Cards) {
        if let (Some((face, config)), Some(used)) = (&self.overlay, self.tracker.used()) {
            cards.update(merge(face, config, &used));
        }
    }

    /// Fetches the agent's card at intervals, for as long as the card here is served.
    pub(crate) async fn follow(self: Arc<Self>, cards: Weak<Cards>) {
        let mut pause = PAUSE_MIN;
        loop {
            let told = self.remote.refresh().await;
            let Some(cards) = cards.upgrade() else { return };
            pause = match told {
                Ok(_) => {
                    self.update(&cards);
                    self.record_fetch(None);
                    CARD_FRESH
                }
                Err(error) => {
                    let remote = &self.remote;
                    tracing::warn!(?remote, %error, "the card of a remote agent cannot be fetched; ours stays as it is");
                    self.record_fetch(Some(error.to_string()));
                    (pause * 2).min(CARD_FRESH)
                }
            };
            drop(cards);
            tokio::time::sleep(pause).await;
        }
    }
}

/// The configured content, with their values in the members that it leaves open. Addresses, credentials and
/// capabilities stay ours, because a reader of this card calls this server.
pub(crate) fn merge(face: &CardContent, config: &CardConfig, theirs: &StoredCard) -> CardContent {
    let mut face = face.clone();
    let Some(found) = drift::read_kept(theirs) else { return face };
    let card = found.card;
    let public = &mut face.public;
    let word = |ours: &mut String, is_open: bool, theirs: String| {
        if is_open && !theirs.is_empty() {
            *ours = theirs;
        }
    };
    word(&mut public.name, config.name.is_none(), card.name);
    word(&mut public.description, config.description.is_none(), card.description);
    word(&mut public.version, config.version.is_none(), card.version);
    public.provider = config.provider.clone().or(card.provider);
    public.documentation_url = config.documentation_url.clone().or(card.documentation_url);
    public.icon_url = config.icon_url.clone().or(card.icon_url);
    // A media type that the agent does not accept is refused here, before there is a task; see `call.rs`. If its card
    // does not state the accepted types, readers assume text, and nothing may be refused for that.
    let modes = |ours: &mut Vec<String>, configured: &[String], names: [&str; 2], their_modes: Vec<String>| {
        if configured.is_empty() && !their_modes.is_empty() && has_member(theirs, names) {
            *ours = their_modes;
        }
    };
    let (input, output) = (card.default_input_modes, card.default_output_modes);
    let names = ["defaultInputModes", "default_input_modes"];
    modes(&mut public.default_input_modes, &config.input_modes, names, input);
    let names = ["defaultOutputModes", "default_output_modes"];
    modes(&mut public.default_output_modes, &config.output_modes, names, output);
    if config.skills.is_empty() && !card.skills.is_empty() {
        let mut skills = card.skills;
        for skill in &mut skills {
            // The credentials that they ask for concern only the calls of this server to them.
            skill.security_requirements.clear();
        }
        public.skills.clone_from(&skills);
        face.skills = skills;
    }
    if let Some(provenance) = provenance(theirs) {
        face.public.capabilities.extensions.push(provenance);
    }
    face
}

/// Whether their card has a member, under any of these names.
fn has_member(theirs: &StoredCard, names: [&str; 2]) -> bool {
    let card: Option<Value> = serde_json::from_str(&theirs.observation.card).ok();
    card.is_some_and(|card| names.iter().any(|name| card.get(name).is_some()))
}

/// Names the signer of the card from which ours was made, and what was signed: the signature covers their card, not
/// this one. An unsigned card has no provenance.
fn provenance(theirs: &StoredCard) -> Option<Extension> {
    let signer = theirs.observation.pin.signer.as_ref()?;
    let card: Value = serde_json::from_str(&theirs.observation.card).ok()?;
    let params = json!({
        "keyId": signer,
        "digest": format!("sha-256:{}", theirs.observation.digest),
        "signatures": card.get("signatures"),
        "seenAt": theirs.observation.at,
    });
    Some(Extension {
        uri: PROVENANCE.into(),
        description: Some("Who signed the card of the agent that stands behind this one".into()),
        required: false,
        params: serde_json::from_value(params).ok(),
    })
}
