//! Which agent an envelope is for.

use crate::app::App;
use crate::directory::ServedAgent;
use crate::network::Network;
use sabir_guard::authenticator::AuthMode;
use sabir_guard::config::AcceptedCredential;
use sabir_guard::{Guard, Identity};
use sabir_wire::agnt::Intent;
use std::sync::Arc;

impl Network {
    /// The agent that an envelope names as its recipient: it has the intent among its skills, and the key may call it.
    /// An agent with authentication of its own is not reached through the network.
    pub(super) fn addressee(&self, app: &App, sender: &Identity, to: &str, intent: Intent) -> Option<Arc<ServedAgent>> {
        let found = app.agent(to).filter(|served| !self.is_agent(served))?;
        let has_skill = found.skills.iter().any(|skill| skill.id == intent.name());
        let door = &found.rules.authenticator;
        let takes_keys = door.mode() == AuthMode::Open || door.accepted().contains(&AcceptedCredential::ApiKey);
        let may = Guard::is_for(&found.rules, sender);
        (has_skill && may && takes_keys && Arc::ptr_eq(door, &app.root_rules.authenticator)).then_some(found)
    }
}
