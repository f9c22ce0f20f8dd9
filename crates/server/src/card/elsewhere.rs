//! What an agent elsewhere says of itself, for those members of its card here that the configuration leaves open.
//!
//! Its card is fetched behind everybody's back, from the start on and now and then. Until it is there, and while the agent
//! is away, the card here is what is configured with what was heard last, which outlives the server.

use super::{Cards, Face, Keeper, drift};
use crate::config::agent::CardConfig;
use crate::host::TokioHost;
use sabir_engine::Host as _;
use sabir_gateway::{CARD_FRESH, Condition, RemoteAgent};
use sabir_proto::Timestamp;
use sabir_proto::card::Extension;
use sabir_store::KeptCard;
use serde_json::{Value, json};
use std::sync::{Arc, Mutex, PoisonError, Weak};
use std::time::Duration;

/// The extension by which a card says who signed the one behind it.
const PROVENANCE: &str = "urn:sabir:ext:provenance:v1";
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

    /// A line to it.
    pub(crate) const fn remote(&self) -> &Arc<RemoteAgent> {
        &self.remote
    }

    /// How it is doing, by its breakers and by checks.
    pub(crate) fn condition(&self) -> Condition {
        self.remote.condition()
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
        if let (Some((face, config)), Some(used)) = (&self.overlay, self.keeper.used()) {
            cards.show(fill(face, config, &used));
        }
    }

    /// Shows what the agent says of itself, for as long as its card is served.
    pub(crate) async fn follow(self: Arc<Self>, cards: Weak<Cards>) {
        let mut pause = PAUSE_MIN;
        loop {
            let told = self.remote.refresh().await;
            let Some(cards) = cards.upgrade() else { return };
            pause = match told {
                Ok(_) => {
                    self.show(&cards);
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

/// The face that is configured, with their words where it has none. Addresses, credentials and capabilities are ours:
/// whoever reads this card speaks to us.
pub(crate) fn fill(face: &Face, config: &CardConfig, theirs: &KeptCard) -> Face {
    let mut face = face.clone();
    let Some(found) = drift::found(theirs) else { return face };
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
    // What it does not take is refused here, before there is a task; see `call.rs`. Where its card does not say what it
    // takes, text is assumed by readers, and nothing may be refused on that ground.
    let modes = |ours: &mut Vec<String>, configured: &[String], names: [&str; 2], their_modes: Vec<String>| {
        if configured.is_empty() && !their_modes.is_empty() && says(theirs, names) {
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
            // Whom they ask for what is between them and us.
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

/// Whether their card has a member, by any of its names.
fn says(theirs: &KeptCard, names: [&str; 2]) -> bool {
    let card: Option<Value> = serde_json::from_str(&theirs.seen.card).ok();
    card.is_some_and(|card| names.iter().any(|name| card.get(name).is_some()))
}

/// That somebody vouched for the card from which ours was made, and over what: their signature is over their card, and
/// not over this one. Cards that nobody signed have none.
fn provenance(theirs: &KeptCard) -> Option<Extension> {
    let signer = theirs.seen.pin.signer.as_ref()?;
    let card: Value = serde_json::from_str(&theirs.seen.card).ok()?;
    let params = json!({
        "keyId": signer,
        "digest": format!("sha-256:{}", theirs.seen.digest),
        "signatures": card.get("signatures"),
        "seenAt": theirs.seen.at,
    });
    Some(Extension {
        uri: PROVENANCE.into(),
        description: Some("Who signed the card of the agent that stands behind this one".into()),
        required: false,
        params: serde_json::from_value(params).ok(),
    })
}
