//! The settings of a remote agent, in an `[[agent]]` of `kind = "a2a"`.

use sabir_gateway::{BreakerRules, UpstreamReplica};
use sabir_guard::config::{DerivationConfig, SecretReference};
use schemars::JsonSchema;
use serde::Deserialize;
use std::time::Duration;

/// `[agent.breaker]`: when the circuit breaker of a remote agent opens, and for how long.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Deserialize, JsonSchema)]
#[serde(default, deny_unknown_fields)]
pub struct BreakerConfig {
    /// Failures within the window after which no call is made.
    pub failures: u32,
    /// Seconds for which a failure counts.
    pub window_seconds: u64,
    /// Seconds until one trial call is made.
    pub cooldown_seconds: u64,
}

impl Default for BreakerConfig {
    fn default() -> Self {
        let BreakerRules { failures, window, cooldown, .. } = BreakerRules::UPSTREAM;
        Self { failures, window_seconds: window.as_secs(), cooldown_seconds: cooldown.as_secs() }
    }
}

impl BreakerConfig {
    /// The rules in the form of the gateway.
    pub(crate) fn rules(self) -> Result<BreakerRules, String> {
        if self.failures == 0 || self.window_seconds == 0 {
            return Err("breaker: failures and window_seconds are at least 1".into());
        }
        let (window, cooldown) = (Duration::from_secs(self.window_seconds), Duration::from_secs(self.cooldown_seconds));
        Ok(BreakerRules { failures: self.failures, window, cooldown, ..BreakerRules::UPSTREAM })
    }
}

/// `replicas`: one of several URLs of a remote agent.
#[derive(Debug, Clone, PartialEq, Eq, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields)]
pub struct ReplicaConfig {
    /// The URL of the replica.
    pub url: String,
    /// Its share of the calls, relative to the weights of the others.
    #[serde(default = "one")]
    pub weight: u32,
    /// Per cent of all conversations in place of a weight, for a version on trial.
    #[serde(default)]
    pub canary: Option<u8>,
}

const fn one() -> u32 {
    1
}

/// The URLs of an agent, from `url` or `replicas`.
pub(crate) fn read_replicas(url: Option<&String>, replicas: &[ReplicaConfig]) -> Result<Vec<UpstreamReplica>, String> {
    let places: Vec<UpstreamReplica> = match (url, replicas) {
        (Some(_), [_, ..]) => return Err("url and replicas say the same thing; give one of them".into()),
        (Some(url), []) => vec![UpstreamReplica::only(url)],
        (None, []) => return Err("kind = \"a2a\" needs the url of the agent, or its replicas".into()),
        (None, all) => all
            .iter()
            .map(|one| UpstreamReplica { url: one.url.clone(), weight: one.weight, canary: one.canary })
            .collect(),
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

/// `[agent.credentials]`: the credentials for a remote agent besides `bearer` and `api_key`; one of these.
#[derive(Debug, Clone, Default, Deserialize, JsonSchema)]
#[serde(default, deny_unknown_fields)]
pub struct CredentialsConfig {
    /// Further origins (scheme, host and port) that get the credentials if its card leads there.
    pub origins: Vec<String>,
    /// A user name and a password.
    pub basic: Option<BasicConfig>,
    /// A token from an authorization server.
    pub oauth: Option<OAuthConfig>,
    /// Signatures of an account of XPR Network.
    pub xpr: Option<AccountConfig>,
    /// Tokens of agent-native.
    pub native: Option<NativeConfig>,
    /// The key that signs envelopes to a booking network, in addition to other credentials.
    pub agnt: Option<SealConfig>,
    /// A client certificate.
    pub tls: Option<CertificateConfig>,
}

/// `[agent.credentials.agnt]`: the key for envelopes.
#[derive(Debug, Clone, PartialEq, Eq, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields)]
pub struct SealConfig {
    /// The key that both sides share.
    pub signing_key: SecretReference,
    /// How the key is derived from its text.
    #[serde(default)]
    pub derivation: DerivationConfig,
}

/// `[agent.credentials.basic]`: HTTP Basic authentication.
#[derive(Debug, Clone, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields)]
pub struct BasicConfig {
    /// The user name to send.
    pub user: String,
    /// The password, as a reference.
    pub password: SecretReference,
}

/// `[agent.credentials.oauth]`: the OAuth client.
#[derive(Debug, Clone, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields)]
pub struct OAuthConfig {
    /// The URL of the token endpoint.
    pub token_url: String,
    /// The id of this client.
    pub client_id: String,
    /// The secret of this client.
    #[serde(default)]
    pub client_secret: Option<SecretReference>,
    /// The scopes to request.
    #[serde(default)]
    pub scopes: Vec<String>,
    /// A token of the user on whose behalf we call: it is exchanged (RFC 8693), with our own token as the actor's.
    #[serde(default)]
    pub subject: Option<SecretReference>,
    /// The audience of the exchanged token.
    #[serde(default)]
    pub audience: Option<String>,
}

/// `[agent.credentials.xpr]`: an account of XPR Network.
#[derive(Debug, Clone, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields)]
pub struct AccountConfig {
    /// The name of the account.
    pub account: String,
    /// The key of the account, `PVT_K1_…` or WIF.
    pub key: SecretReference,
}

/// `[agent.credentials.native]`: tokens of agent-native.
#[derive(Debug, Clone, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields)]
pub struct NativeConfig {
    /// The email of the user on whose behalf we call.
    pub email: String,
    /// The secret that all peers share, or that of the organisation.
    pub secret: SecretReference,
    /// The domain of the organisation.
    #[serde(default)]
    pub domain: Option<String>,
}

/// `[agent.credentials.tls]`: a client certificate.
#[derive(Debug, Clone, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields)]
pub struct CertificateConfig {
    /// The certificate chain as PEM, with `key`.
    #[serde(default)]
    pub cert: Option<SecretReference>,
    /// The key of the certificate.
    #[serde(default)]
    pub key: Option<SecretReference>,
    /// Further trusted authorities besides those of the machine, as PEM.
    #[serde(default)]
    pub ca: Option<SecretReference>,
}
