//! `[auth]`: the credentials that an agent asks of its callers.
//!
//! Secrets are given by reference (`env:NAME`, `file:PATH`), never as plain text: a configuration is copied, shown and
//! kept under version control.

use crate::authenticator::SecretResolver;
use crate::authn::native_jwt::ExpiryRule;
use crate::authn::{Scheme, agnt, oidc, trust_score};
use crate::guard::EnvelopeKeys;
use sabir_proto::Timestamp;
use sabir_proto::jwks::JwsAlgorithm;
use sabir_store::{InvalidSecretRef, SecretRef};
use schemars::{JsonSchema, Schema, SchemaGenerator, json_schema};
use serde::{Deserialize, Deserializer};
use std::borrow::Cow;
use std::sync::Arc;
use std::time::Duration;

/// `[auth]`, or `[agent.auth]`, which replaces it for one agent.
#[derive(Debug, Clone, Default, PartialEq, Eq, Deserialize, JsonSchema)]
#[serde(default, deny_unknown_fields)]
pub struct AuthConfig {
    /// Which credentials are accepted, any one of them. When absent, those that have a section; an empty list accepts
    /// callers without any credential.
    pub accept: Option<Vec<AcceptedCredential>>,
    /// Whether callers must show one. `false` lets those without one in as `anonymous`.
    pub required: Option<bool>,
    /// Serve callers on other machines without asking for credentials. Without it, a server that other machines can
    /// reach does not start while an agent asks for none.
    pub open: bool,
    /// Accepts tokens (JWTs).
    pub jwt: Option<JwtConfig>,
    /// Accepts the static token of older peers.
    pub legacy_key: Option<LegacyConfig>,
    /// Accepts user names and passwords.
    pub basic: Option<BasicConfig>,
    /// Accepts client certificates.
    pub mtls: Option<MtlsConfig>,
    /// Accepts requests signed by accounts of XPR Network.
    pub xpr: Option<XprConfig>,
    /// Verifies payloads of the booking network that are signed under its key. For the whole server.
    pub agnt: Option<AgntConfig>,
}

/// A kind of credential, as the configuration names it.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Deserialize, JsonSchema)]
#[serde(rename_all = "snake_case")]
#[expect(missing_docs, reason = "the names say it; the sections explain it")]
pub enum AcceptedCredential {
    ApiKey,
    Jwt,
    LegacyKey,
    Basic,
    Mtls,
    Xpr,
}

impl AcceptedCredential {
    /// The name in the configuration, which cards use as well.
    pub const fn name(self) -> &'static str {
        match self {
            Self::ApiKey => "api_key",
            Self::Jwt => "jwt",
            Self::LegacyKey => "legacy_key",
            Self::Basic => "basic",
            Self::Mtls => "mtls",
            Self::Xpr => "xpr",
        }
    }

    /// Whether callers of a scheme use this kind of credential.
    pub const fn covers(self, scheme: Scheme) -> bool {
        matches!(
            (self, scheme),
            (Self::ApiKey, Scheme::ApiKey)
                | (Self::Jwt, Scheme::Jwt | Scheme::Native)
                | (Self::LegacyKey, Scheme::Legacy)
                | (Self::Basic, Scheme::Basic)
                | (Self::Mtls, Scheme::Mtls)
                | (Self::Xpr, Scheme::Xpr)
        )
    }
}

impl AuthConfig {
    /// The accepted credentials: those that are listed, else those that have a section.
    pub fn accepted(&self) -> Vec<AcceptedCredential> {
        if let Some(listed) = &self.accept {
            return listed.clone();
        }
        let sections = [
            (AcceptedCredential::Jwt, self.jwt.is_some()),
            (AcceptedCredential::LegacyKey, self.legacy_key.is_some()),
            (AcceptedCredential::Basic, self.basic.is_some()),
            (AcceptedCredential::Mtls, self.mtls.is_some()),
            (AcceptedCredential::Xpr, self.xpr.is_some()),
        ];
        sections.into_iter().filter(|(_, given)| *given).map(|(accept, _)| accept).collect()
    }

    /// Whether callers are asked for no credential.
    pub fn is_open(&self) -> bool {
        self.accepted().is_empty()
    }
}

/// A secret by reference. [`SecretReference::resolve`] refuses an invalid one later: the reader of the file would show the line
/// with the error, and that line may hold the secret itself.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct SecretReference(Result<SecretRef, InvalidSecretRef>);

impl SecretReference {
    /// Reads `env:NAME` or `file:PATH`. [`SecretReference::resolve`] refuses any other text, because its caller can name the
    /// setting.
    pub fn parse(text: &str) -> Self {
        Self(SecretRef::parse(text))
    }

    /// The reference to the secret; `key` names the setting in the error.
    pub fn resolve(&self, key: &str) -> Result<SecretRef, String> {
        self.0.clone().map_err(|e| format!("{key}: {e}"))
    }
}

impl JsonSchema for SecretReference {
    fn schema_name() -> Cow<'static, str> {
        "SecretReference".into()
    }

    fn json_schema(_: &mut SchemaGenerator) -> Schema {
        json_schema!({
            "type": "string",
            "pattern": "^(env|file):.+",
            "description": "Where the secret is: env:NAME or file:PATH. The secret itself does not belong into this file."
        })
    }
}

impl<'de> Deserialize<'de> for SecretReference {
    fn deserialize<D: Deserializer<'de>>(d: D) -> Result<Self, D::Error> {
        Ok(Self::parse(&String::deserialize(d)?))
    }
}

/// One text or several.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct OneOrMany(pub Vec<String>);

impl JsonSchema for OneOrMany {
    fn schema_name() -> Cow<'static, str> {
        "TextOrTexts".into()
    }

    fn json_schema(_: &mut SchemaGenerator) -> Schema {
        json_schema!({"type": ["string", "array"], "items": {"type": "string"}})
    }
}

impl<'de> Deserialize<'de> for OneOrMany {
    fn deserialize<D: Deserializer<'de>>(d: D) -> Result<Self, D::Error> {
        struct Visitor;
        impl<'de> serde::de::Visitor<'de> for Visitor {
            type Value = OneOrMany;

            fn expecting(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
                f.write_str("a text or a list of texts")
            }

            fn visit_str<E>(self, text: &str) -> Result<OneOrMany, E> {
                Ok(OneOrMany(vec![text.to_owned()]))
            }

            fn visit_seq<A: serde::de::SeqAccess<'de>>(self, mut list: A) -> Result<OneOrMany, A::Error> {
                let mut texts = Vec::new();
                while let Some(text) = list.next_element()? {
                    texts.push(text);
                }
                Ok(OneOrMany(texts))
            }
        }
        d.deserialize_any(Visitor)
    }
}

/// `[auth.jwt]`: tokens under a shared secret, tokens of an issuer, or both.
#[derive(Debug, Clone, PartialEq, Eq, Deserialize, JsonSchema)]
#[serde(default, deny_unknown_fields)]
pub struct JwtConfig {
    /// The secret shared with agent-native peers. Organisations have secrets of their own, in the store.
    pub secret: Option<SecretReference>,
    /// Our names: a token that names an audience must name one of these.
    pub audience: OneOrMany,
    /// Under the shared secret: the accepted issuers; empty accepts every issuer.
    pub issuers: Vec<String>,
    /// Under the shared secret: whether a token must expire.
    pub expiry: ExpiryConfig,
    /// The issuer whose published keys sign tokens.
    pub issuer: Option<String>,
    /// The URL of its keys; found by discovery when neither this nor `jwks` is given.
    pub jwks_url: Option<String>,
    /// A file with its keys.
    pub jwks: Option<SecretReference>,
    /// The algorithms that its tokens may be signed with; every asymmetric algorithm we know when absent.
    pub algorithms: Option<Vec<String>>,
    /// The scopes that its tokens must have, all of them.
    pub scopes: Vec<String>,
    /// Scopes of its tokens that begin with this limit what the caller may do here, like those of a key.
    pub scope_prefix: String,
    /// How many seconds its clock and ours may be apart.
    pub skew_seconds: u64,
    /// How callers get tokens, for cards.
    pub oauth: Option<OauthConfig>,
}

impl Default for JwtConfig {
    fn default() -> Self {
        Self {
            secret: None,
            audience: OneOrMany::default(),
            issuers: Vec::new(),
            expiry: ExpiryConfig::default(),
            issuer: None,
            jwks_url: None,
            jwks: None,
            algorithms: None,
            scopes: Vec::new(),
            scope_prefix: String::new(),
            skew_seconds: oidc::SKEW.as_secs(),
            oauth: None,
        }
    }
}

impl JwtConfig {
    /// Whether tokens under shared secrets are accepted: that of the configuration, and those of organisations. They
    /// are, unless only an issuer is named.
    pub fn is_shared(&self) -> bool {
        self.secret.is_some() || self.issuer.is_none()
    }

    /// The algorithms that an issuer's tokens may be signed with.
    pub(crate) fn algorithms(&self) -> Result<Vec<JwsAlgorithm>, String> {
        let Some(names) = &self.algorithms else { return Ok(JwsAlgorithm::ALL.to_vec()) };
        let parse = |name: &String| {
            JwsAlgorithm::parse(name).ok_or_else(|| {
                let known: Vec<&str> = JwsAlgorithm::ALL.iter().map(|a| a.name()).collect();
                format!("auth.jwt.algorithms: {name:?} is not one of {}", known.join(", "))
            })
        };
        names.iter().map(parse).collect()
    }
}

/// Whether a token under the shared secret must expire.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq, Deserialize, JsonSchema)]
#[serde(rename_all = "lowercase")]
pub enum ExpiryConfig {
    /// A token without an expiry is refused.
    #[default]
    Required,
    /// A token without an expiry is accepted: some peers make such tokens.
    Optional,
}

impl From<ExpiryConfig> for ExpiryRule {
    fn from(config: ExpiryConfig) -> Self {
        match config {
            ExpiryConfig::Required => Self::Required,
            ExpiryConfig::Optional => Self::Optional,
        }
    }
}

/// `[auth.jwt.oauth]`: how callers get a token. Shown in cards, enforced by the issuer.
#[derive(Debug, Clone, PartialEq, Eq, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields)]
pub struct OauthConfig {
    /// The URL of the token endpoint.
    pub token_url: String,
    /// The URL where people give consent; with it the card describes the authorization code flow, without it client
    /// credentials.
    #[serde(default)]
    pub authorization_url: Option<String>,
    /// The URL for devices; with it the card describes the device flow.
    #[serde(default)]
    pub device_url: Option<String>,
    /// Scopes, each with its description.
    #[serde(default)]
    pub scopes: std::collections::BTreeMap<String, String>,
}

/// `[auth.legacy_key]`: one static token, for older peers.
#[derive(Debug, Clone, PartialEq, Eq, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields)]
pub struct LegacyConfig {
    /// The environment variable that holds the token.
    #[serde(default)]
    pub env: Option<String>,
    /// A reference to the token, instead of `env`.
    #[serde(default)]
    pub secret: Option<SecretReference>,
}

impl LegacyConfig {
    /// The reference to the token.
    pub fn reference(&self) -> Result<SecretRef, String> {
        match (&self.env, &self.secret) {
            (Some(name), None) => SecretRef::parse(&format!("env:{name}"))
                .map_err(|_| "auth.legacy_key.env is the name of a variable".to_owned()),
            (None, Some(reference)) => reference.resolve("auth.legacy_key.secret"),
            _ => Err("auth.legacy_key needs either env = \"NAME\" or secret = \"file:PATH\"".to_owned()),
        }
    }
}

/// `[auth.basic]`: user names and passwords.
#[derive(Debug, Clone, Default, PartialEq, Eq, Deserialize, JsonSchema)]
#[serde(default, deny_unknown_fields)]
pub struct BasicConfig {
    /// The users that are accepted.
    pub user: Vec<UserConfig>,
}

/// One user of `[auth.basic]`.
#[derive(Debug, Clone, PartialEq, Eq, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields)]
pub struct UserConfig {
    /// The name of the user.
    pub name: String,
    /// The password, by reference.
    pub password: SecretReference,
}

/// `[auth.mtls]`: client certificates.
#[derive(Debug, Clone, Default, PartialEq, Eq, Deserialize, JsonSchema)]
#[serde(default, deny_unknown_fields)]
pub struct MtlsConfig {
    /// The accepted names, such as `dns:billing.example`; empty accepts every certificate of the authorities.
    pub allow: Vec<String>,
}

/// `[auth.agnt]`: the keys of the booking network. Keys that are replaced overlap, so that no side is ever without one.
#[derive(Debug, Clone, PartialEq, Eq, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields)]
pub struct AgntConfig {
    /// The key that signs our payloads.
    pub signing_key: SecretReference,
    /// How the text of a key becomes a key, here and in the lists below.
    #[serde(default)]
    pub derivation: DerivationConfig,
    /// Keys that are accepted already and do not sign yet.
    #[serde(default)]
    pub next: Vec<SecretReference>,
    /// Keys that no longer sign, and are accepted for a while.
    #[serde(default)]
    pub previous: Vec<PreviousKey>,
    /// Whether a signed payload must name its intent and its recipient, and have a nonce.
    #[serde(default)]
    pub require_binding: bool,
}

/// How the text of a key becomes a key.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq, Deserialize, JsonSchema)]
pub enum DerivationConfig {
    /// The bytes of the text.
    #[default]
    #[serde(rename = "raw")]
    Raw,
    /// The bytes that the text spells in hex.
    #[serde(rename = "hex")]
    Hex,
    /// HKDF over the bytes of the text.
    #[serde(rename = "hkdf-sha256")]
    Hkdf,
}

/// A key that was replaced.
#[derive(Debug, Clone, PartialEq, Eq, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields)]
pub struct PreviousKey {
    /// The replaced key, by reference.
    pub key: SecretReference,
    /// When it was replaced: `2026-11-16T00:00:00Z`.
    pub rotated_at: String,
    /// How many seconds after that it is accepted.
    #[serde(default = "usual_overlap")]
    pub overlap_seconds: u64,
}

const fn usual_overlap() -> u64 {
    agnt::OVERLAP.as_secs()
}

impl AgntConfig {
    /// A configuration with one key, and the usual settings.
    pub fn of(signing_key: SecretReference) -> Self {
        Self {
            signing_key,
            derivation: DerivationConfig::Raw,
            next: Vec::new(),
            previous: Vec::new(),
            require_binding: false,
        }
    }

    /// The key ring, and the rule for payloads under it. Errors name the setting.
    pub fn envelope_keys(&self, secrets: &dyn SecretResolver) -> Result<EnvelopeKeys, String> {
        let derivation = match self.derivation {
            DerivationConfig::Raw => agnt::KeyDerivation::Raw,
            DerivationConfig::Hex => agnt::KeyDerivation::Hex,
            DerivationConfig::Hkdf => agnt::KeyDerivation::Hkdf,
        };
        let reveal = |name: &str, reference: &SecretReference| {
            secrets.resolve(&reference.resolve(name)?).map_err(|problem| format!("{name}: {problem}"))
        };
        let named = |name: &'static str| move |fault: agnt::KeyRingFault| format!("{name}: {fault}");
        let current = "auth.agnt.signing_key";
        let mut ring = agnt::KeyRing::new(&reveal(current, &self.signing_key)?, derivation).map_err(named(current))?;
        for next in &self.next {
            let name = "auth.agnt.next";
            ring = ring.with_next(&reveal(name, next)?, derivation).map_err(named(name))?;
        }
        for previous in &self.previous {
            let name = "auth.agnt.previous";
            let key = reveal(name, &previous.key)?;
            let rotated_at = Timestamp::parse(&previous.rotated_at)
                .ok_or_else(|| format!("{name}: rotated_at is a time such as 2026-11-16T00:00:00Z"))?;
            let overlap = Duration::from_secs(previous.overlap_seconds);
            ring = ring.with_previous(&key, derivation, rotated_at, overlap).map_err(named(name))?;
        }
        let binding = if self.require_binding { agnt::BindingRule::Required } else { agnt::BindingRule::IfPresent };
        Ok(EnvelopeKeys { key_ring: Arc::new(ring), binding_rule: binding })
    }
}

/// `[auth.xpr]`: requests signed by accounts of XPR Network.
#[derive(Debug, Clone, PartialEq, Eq, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields)]
pub struct XprConfig {
    /// The URL of a node of the chain.
    pub rpc_url: String,
    /// Whether one key alone must reach the threshold of its account.
    #[serde(default)]
    pub threshold: bool,
    /// Whether callers must be registered and active agents.
    #[serde(default = "yes")]
    pub registration: bool,
    /// The lowest KYC level, 0 to 3.
    #[serde(default)]
    pub min_kyc: i64,
    /// The lowest trust score.
    #[serde(default)]
    pub min_trust: i64,
    /// Which score: the full one, or the partial one of the network's own runner, which never exceeds 40.
    #[serde(default)]
    pub gate: TrustGate,
    /// Requests per minute of one account; 0 for no limit.
    #[serde(default = "usual_rate")]
    pub rate_per_minute: u32,
}

const fn yes() -> bool {
    true
}

const fn usual_rate() -> u32 {
    20
}

/// Which score is compared with `min_trust`.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq, Deserialize, JsonSchema)]
#[serde(rename_all = "lowercase")]
pub enum TrustGate {
    /// 0 to 100, from KYC, stake, reputation and age.
    #[default]
    Full,
    /// KYC and age alone, of the caller rather than of its owner.
    Runner,
}

impl From<TrustGate> for trust_score::ScoreKind {
    fn from(gate: TrustGate) -> Self {
        match gate {
            TrustGate::Full => Self::Full,
            TrustGate::Runner => Self::Gate,
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn parse(text: &str) -> Result<AuthConfig, String> {
        toml::from_str(text).map_err(|e| e.to_string())
    }

    #[test]
    fn what_has_a_section_is_taken_unless_a_list_says_otherwise() {
        assert!(parse("").unwrap().is_open());
        let sections = "[jwt]\nsecret = \"env:S\"\n[legacy_key]\nenv = \"K\"";
        assert_eq!(parse(sections).unwrap().accepted(), [AcceptedCredential::Jwt, AcceptedCredential::LegacyKey]);
        assert_eq!(
            parse(&format!("accept = [\"api_key\"]\n{sections}")).unwrap().accepted(),
            [AcceptedCredential::ApiKey]
        );
        assert!(parse(&format!("accept = []\n{sections}")).unwrap().is_open());
    }

    #[test]
    fn a_secret_that_is_written_out_is_refused_without_repeating_it() {
        let config = parse("[jwt]\nsecret = \"hunter2hunter2\"").unwrap();
        let refused = config.jwt.unwrap().secret.unwrap().resolve("auth.jwt.secret").unwrap_err();
        assert_eq!(refused, "auth.jwt.secret: a secret is given as env:NAME or file:PATH, not as itself");
    }

    #[test]
    fn audiences_may_be_one_or_several() {
        let audience = |text: &str| parse(text).unwrap().jwt.unwrap().audience.0;
        assert_eq!(audience("[jwt]\naudience = \"a\""), ["a"]);
        assert_eq!(audience("[jwt]\naudience = [\"a\", \"b\"]"), ["a", "b"]);
        assert!(parse("[jwt]\naudience = 1").unwrap_err().contains("a text or a list"));
    }

    #[test]
    fn unknown_words_are_errors() {
        for bad in ["accept = [\"apikey\"]", "requires = true", "[xpr]\nrpc = \"x\"", "[jwt]\nexpiry = \"maybe\""] {
            assert!(parse(bad).is_err(), "{bad}");
        }
    }
}
