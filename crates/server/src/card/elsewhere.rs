//! What an agent elsewhere says of itself, for those members of its card here that the configuration leaves open.
//!
//! Its card is fetched behind everybody's back, from the start on and now and then. Until it is there, and while the agent
//! is away, the card here is what is configured, or what was heard last.

use super::{Cards, Face};
use crate::config::agent::CardConfig;
use sabir_gateway::{CARD_FRESH, RemoteAgent};
use sabir_proto::AgentCard;
use std::sync::{Arc, Weak};
use std::time::Duration;

/// How soon an agent that could not be reached is asked again: at first, and at last.
const PAUSE_MIN: Duration = Duration::from_secs(1);

/// Shows what the agent says of itself, for as long as its card is served.
pub(crate) async fn follow(remote: Arc<RemoteAgent>, cards: Weak<Cards>, face: Face, config: CardConfig) {
    let mut pause = PAUSE_MIN;
    loop {
        let told = remote.card().await;
        let Some(cards) = cards.upgrade() else { return };
        match told {
            Ok(card) => {
                cards.show(fill(&face, &config, card));
                pause = CARD_FRESH;
            }
            Err(error) => {
                tracing::warn!(?remote, %error, "the card of a remote agent cannot be fetched; ours stays as it is");
                pause = (pause * 2).min(CARD_FRESH);
            }
        }
        drop(cards);
        tokio::time::sleep(pause).await;
    }
}

/// The face that is configured, with their words where it has none.
fn fill(face: &Face, config: &CardConfig, card: AgentCard) -> Face {
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
