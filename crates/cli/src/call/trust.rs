//! `--card-trust` and its roots: whether the agent of a card is called at all.
//!
//! Looking at a card is always possible. Before anything is sent to its agent, or a login is begun that the card
//! describes, the card is asked for as much as was configured.

use super::Session;
use crate::problem::{Problem, Stop};
use crate::settings::Settings;
use sabir_client::signature::{Authorities, Jwks, Mode, Trust, verify};
use sabir_client::{Error, Found};
use std::time::{SystemTime, UNIX_EPOCH};

/// How much is asked of cards.
fn mode(settings: &Settings) -> Mode {
    settings.text("card-trust").and_then(|name| name.parse().ok()).unwrap_or_default()
}

/// Whom the settings trust to vouch for this card.
pub(super) fn roots(settings: &Settings, found: &Found) -> Result<Trust, Problem> {
    let wrong = |flag: &str, path: &str, what: &str| {
        Problem::usage(format!("--{flag} {path}: {what}")).hint("sabir config show tells where it comes from")
    };
    let read = |flag: &str, path: &str| std::fs::read(path).map_err(|error| wrong(flag, path, &error.to_string()));
    let mut keys = Jwks::default();
    for path in settings.list("trusted-keys") {
        let set = Jwks::parse(&read("trusted-keys", path)?);
        keys = keys.and(set.map_err(|fault| wrong("trusted-keys", path, &fault.to_string()))?);
    }
    let authorities = match settings.text("trusted-ca") {
        None => Authorities::default(),
        Some(path) => Authorities::parse(&read("trusted-ca", path)?)
            .map_err(|fault| wrong("trusted-ca", path, &fault.to_string()))?,
    };
    Ok(Trust {
        card_url: found.url.clone(),
        keys,
        authorities,
        registry: settings.text("key-registry").and_then(|url| url.parse().ok()),
        now: SystemTime::now().duration_since(UNIX_EPOCH).map_or(0, |since| since.as_secs()),
        ..Trust::default()
    })
}

impl Session {
    /// Refuses a card that is not believed as far as was asked for. Where roots are configured, no others count.
    pub(crate) async fn believe(&self, found: &Found) -> Result<(), Stop> {
        let mode = mode(&self.settings);
        if mode == Mode::Off {
            return Ok(());
        }
        let given = |flag: &str| !self.settings.list(flag).is_empty();
        let roots_only = given("trusted-keys") || given("trusted-ca") || given("key-registry");
        // A card that came from this machine without TLS has keys that come the same way.
        let plain_loopback = found.url.as_ref().is_some_and(|url| url.scheme() == "http");
        let trust = Trust { roots_only, plain_loopback, ..roots(&self.settings, found)? };
        let verdict = verify(found.as_found(), &trust, &self.client).await;
        mode.admits(&verdict).map_err(|distrust| {
            let error = Error::CardUntrusted { at: self.place(found), reason: Box::new(distrust) };
            self.problem(error, Some(found)).into()
        })
    }
}
