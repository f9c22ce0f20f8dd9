//! `--card-trust` and its roots: whether the agent of a card is called at all.
//!
//! A card may always be read. Before anything is sent to its agent, or a login that the card describes begins, the card
//! must pass the configured mode; of a signed card only the signed members are used.

use super::Session;
use crate::problem::{Problem, Stop};
use crate::settings::Settings;
use sabir_client::signature::{Authorities, Jwks, SignatureMode, TrustPolicy};
use sabir_client::{DiscoveredCard, Error};
use std::ops::{Deref, DerefMut};
use std::time::{SystemTime, UNIX_EPOCH};

/// A card whose agent may be called. Sessions connect to no other.
#[derive(Debug, Clone)]
pub(crate) struct TrustedCard(DiscoveredCard);

impl TrustedCard {
    /// A card that we wrote ourselves.
    pub(crate) const fn own_card(found: DiscoveredCard) -> Self {
        Self(found)
    }

    pub(crate) fn into_found(self) -> DiscoveredCard {
        self.0
    }
}

impl Deref for TrustedCard {
    type Target = DiscoveredCard;

    fn deref(&self) -> &DiscoveredCard {
        &self.0
    }
}

/// Lets a command keep only some interfaces of a card.
impl DerefMut for TrustedCard {
    fn deref_mut(&mut self) -> &mut DiscoveredCard {
        &mut self.0
    }
}

/// The mode of `--card-trust`.
fn trust_mode(settings: &Settings) -> SignatureMode {
    settings.card_trust.copied().unwrap_or_default()
}

/// The keys and authorities that may vouch for this card. Where roots are configured, no others count.
pub(super) fn trust_roots(settings: &Settings, found: &DiscoveredCard) -> Result<TrustPolicy, Problem> {
    let wrong = |flag: &str, path: &str, what: &str| {
        Problem::usage(format!("--{flag} {path}: {what}")).hint("sabir config show tells where it comes from")
    };
    let read = |flag: &str, path: &str| std::fs::read(path).map_err(|error| wrong(flag, path, &error.to_string()));
    let mut keys = Jwks::default();
    for path in settings.trusted_keys.list() {
        let set = Jwks::parse_set_or_key(&read("trusted-keys", path)?);
        keys = keys.with(set.map_err(|fault| wrong("trusted-keys", path, &fault.to_string()))?);
    }
    let authorities = match settings.trusted_ca.text() {
        None => Authorities::default(),
        Some(path) => Authorities::parse(&read("trusted-ca", path)?)
            .map_err(|fault| wrong("trusted-ca", path, &fault.to_string()))?,
    };
    Ok(TrustPolicy {
        card_url: found.url.clone(),
        keys,
        authorities,
        registry: settings.key_registry.get().cloned(),
        roots_only: settings.card_roots_only.is_on()
            || !settings.trusted_keys.list().is_empty()
            || settings.trusted_ca.is_set()
            || settings.key_registry.is_set(),
        now: SystemTime::now().duration_since(UNIX_EPOCH).map_or(0, |since| since.as_secs()),
        ..TrustPolicy::default()
    })
}

impl Session {
    /// The part of a card that may be used, or a refusal where the card does not pass `--card-trust`.
    pub(crate) async fn require_trust(&self, found: DiscoveredCard) -> Result<TrustedCard, Stop> {
        let mode = trust_mode(&self.settings);
        if mode == SignatureMode::Off {
            return Ok(TrustedCard(found));
        }
        // A card that came from this machine without TLS has keys that come the same way.
        let plain_loopback = found.url.as_ref().is_some_and(|url| url.scheme() == "http");
        let trust = TrustPolicy { plain_loopback, ..trust_roots(&self.settings, &found)? };
        match mode.check_card(found.clone(), &trust, &self.client).await {
            Ok(admitted) => Ok(TrustedCard(admitted)),
            Err(distrust) => {
                let error = Error::CardUntrusted { at: self.card_location(&found), reason: Box::new(distrust) };
                Err(self.problem(error, Some(&found)).into())
            }
        }
    }
}
