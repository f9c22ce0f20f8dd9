//! What an `[[agent]]` of `kind = "a2a"` may say about the agent it stands for.

use sabir_gateway::{Place, Rules};
use sabir_guard::config::{DerivationConfig, Reference};
use schemars::JsonSchema;
use serde::Deserialize;
use std::time::Duration;

/// `[agent.breaker]`: when an agent elsewhere is left alone, and for how long.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Deserialize, JsonSchema)]
#[serde(default, deny_unknown_fields)]
pub struct BreakerConfig {
    /// Failures within the window after which nobody is called.
    pub failures: u32,
    /// Seconds that a failure counts.
    pub window_seconds: u64,
    /// Seconds until one call is let through, to see.
    pub cooldown_seconds: u64,
}

impl Default for BreakerConfig {
    fn default() -> Self {
        let Rules { failures, window, cooldown, .. } = Rules::UPSTREAM;
        Self { failures, window_seconds: window.as_secs(), cooldown_seconds: cooldown.as_secs() }
    }
}

impl BreakerConfig {
    /// The same, as the gateway has it.
    pub(crate) fn rules(self) -> Result<Rules, String> {
        if self.failures == 0 || self.window_seconds == 0 {
            return Err("breaker: failures and window_seconds are at least 1".into());
        }
        let (window, cooldown) = (Duration::from_secs(self.window_seconds), Duration::from_secs(self.cooldown_seconds));
        Ok(Rules { failures: self.failures, window, cooldown, ..Rules::UPSTREAM })
    }
}

/// `replicas`: one of the places where an agent elsewhere is.
#[derive(Debug, Clone, PartialEq, Eq, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields)]
pub struct ReplicaConfig {
    /// Where it is.
    pub url: String,
    /// How much of the work it gets, compared with the others.
    #[serde(default = "one")]
    pub weight: u32,
    /// Percent of all conversations instead of a weight, for a version on trial.
    #[serde(default)]
    pub canary: Option<u8>,
}

const fn one() -> u32 {
    1
}

/// The places of an agent: `url`, or `replicas`.
pub(crate) fn places(url: Option<&String>, replicas: &[ReplicaConfig]) -> Result<Vec<Place>, String> {
    let places: Vec<Place> = match (url, replicas) {
        (Some(_), [_, ..]) => return Err("url and replicas say the same thing; give one of them".into()),
        (Some(url), []) => vec![Place::only(url)],
        (None, []) => return Err("kind = \"a2a\" needs the url of the agent, or its replicas".into()),
        (None, all) => {
            all.iter().map(|one| Place { url: one.url.clone(), weight: one.weight, canary: one.canary }).collect()
        }
    };
    let canaries: u32 = places.iter().filter_map(|place| place.canary).map(u32::from).sum();
    if canaries > 100 {
        return Err("replicas: canary is a percentage, and all of them together are at most 100".into());
    }
    let mut urls: Vec<&str> = places.iter().map(|place| place.url.as_str()).collect();
    urls.sort_unstable();
    if urls.windows(2).any(|two| two[0] == two[1]) {
        return Err("replicas: the same url stands there twice".into());
    }
    Ok(places)
}

/// `[agent.credentials]`: what an agent elsewhere is shown, besides `bearer` and `api_key`; one of these.
#[derive(Debug, Clone, Default, Deserialize, JsonSchema)]
#[serde(default, deny_unknown_fields)]
pub struct CredentialsConfig {
    /// Where else its card may lead with any of them: origins (scheme, host and port) besides those of its URLs.
    pub origins: Vec<String>,
    /// A name and a password.
    pub basic: Option<BasicConfig>,
    /// A token from an authorization server.
    pub oauth: Option<OAuthConfig>,
    /// Signatures of an account of XPR Network.
    pub xpr: Option<AccountConfig>,
    /// Tokens of agent-native.
    pub native: Option<NativeConfig>,
    /// Envelopes to a booking network are signed, beside what else is shown.
    pub agnt: Option<SealConfig>,
    /// A certificate.
    pub tls: Option<CertificateConfig>,
}

/// `[agent.credentials.agnt]`
#[derive(Debug, Clone, PartialEq, Eq, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields)]
pub struct SealConfig {
    /// The key that both sides have.
    pub signing_key: Reference,
    /// How its text becomes a key.
    #[serde(default)]
    pub derivation: DerivationConfig,
}

/// `[agent.credentials.basic]`
#[derive(Debug, Clone, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields)]
pub struct BasicConfig {
    /// The name.
    pub user: String,
    /// The password.
    pub password: Reference,
}

/// `[agent.credentials.oauth]`
#[derive(Debug, Clone, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields)]
pub struct OAuthConfig {
    /// Where tokens are got.
    pub token_url: String,
    /// Who we are there.
    pub client_id: String,
    /// What proves it.
    #[serde(default)]
    pub client_secret: Option<Reference>,
    /// What the token is to allow.
    #[serde(default)]
    pub scopes: Vec<String>,
    /// A token that says on whose behalf we call: it is exchanged (RFC 8693), with our own as the actor's.
    #[serde(default)]
    pub subject: Option<Reference>,
    /// For whom the exchanged token is.
    #[serde(default)]
    pub audience: Option<String>,
}

/// `[agent.credentials.xpr]`
#[derive(Debug, Clone, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields)]
pub struct AccountConfig {
    /// Its name.
    pub account: String,
    /// Its key, `PVT_K1_…` or WIF.
    pub key: Reference,
}

/// `[agent.credentials.native]`
#[derive(Debug, Clone, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields)]
pub struct NativeConfig {
    /// On whose behalf.
    pub email: String,
    /// The secret that all peers share, or that of the organisation.
    pub secret: Reference,
    /// The organisation's domain.
    #[serde(default)]
    pub domain: Option<String>,
}

/// `[agent.credentials.tls]`
#[derive(Debug, Clone, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields)]
pub struct CertificateConfig {
    /// The certificate chain as PEM, with `key`.
    #[serde(default)]
    pub cert: Option<Reference>,
    /// Its key.
    #[serde(default)]
    pub key: Option<Reference>,
    /// Whom to believe besides the machine's own authorities, as PEM.
    #[serde(default)]
    pub ca: Option<Reference>,
}
