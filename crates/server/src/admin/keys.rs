//! Issuing, listing, rotating and revoking API keys. A key's text is made here, given out once, and never stored.

use super::operation::{Endpoint, OperationAccess, Perform, StorePart};
use super::service::{AdminService, Operator, now};
use super::{AdminError, AdminErrorCode};
use rand::TryRng as _;
use rand::rngs::SysRng;
use sabir_guard::authn::api_key::{self, KeyKind};
use sabir_guard::policy::scope::WORDS;
use sabir_proto::{AgentName, Secret, Timestamp};
use sabir_store::{ApiKey, ChangeError, KeyFingerprint, KeyId, KeyTerms};
use schemars::JsonSchema;
use serde::{Deserialize, Serialize};

/// How often a random id may be taken already before the request fails: the random numbers are wrong then.
const DRAWS_MAX: usize = 8;
/// The longest time for which a replaced text stays valid, in seconds.
const GRACE_SECONDS_MAX: u64 = 366 * 24 * 3600;

/// Lists all keys, the oldest first; expired and revoked ones too.
#[derive(Debug, Clone, Default, Serialize, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields)]
pub struct ListKeys {}

/// Makes a key. Its text is in the response and nowhere else.
#[derive(Debug, Clone, Default, Serialize, Deserialize, JsonSchema)]
#[serde(default, rename_all = "camelCase", deny_unknown_fields)]
pub struct CreateKey {
    /// The owner of the key; the operator who makes it where none is named.
    pub owner: Option<String>,
    /// A name for operators.
    pub name: Option<String>,
    /// The tier, which sets limits. The text of a key with a tier begins with `agnt_`.
    pub tier: Option<String>,
    /// Whether a key with a tier is a test key.
    pub test: bool,
    /// The scopes; everything that callers may do when empty.
    pub scopes: Vec<String>,
    /// The agents that the key is tied to; all when empty.
    pub agents: Vec<String>,
    /// Whether envelopes with this key must be signed too.
    pub require_signature: bool,
    /// Whether the key belongs to a relay, which forwards the envelopes of other agents.
    pub relay: bool,
    /// The customer at the payment processor who pays for bookings made with it.
    pub customer: Option<String>,
    /// The time at which it expires.
    #[schemars(with = "Option<String>")]
    pub expires_at: Option<Timestamp>,
}

/// Gives a key another text.
#[derive(Debug, Clone, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "camelCase", deny_unknown_fields)]
pub struct RotateKey {
    pub id: String,
    /// For how many seconds the text before it stays valid.
    #[serde(default)]
    pub grace_seconds: u64,
}

/// Revokes a key for good.
#[derive(Debug, Clone, Serialize, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields)]
pub struct RevokeKey {
    pub id: String,
}

/// The keys of a server.
#[derive(Debug, Serialize, Deserialize, JsonSchema)]
pub struct KeyList {
    pub keys: Vec<KeyView>,
}

/// A key, without its text.
#[derive(Debug, Clone, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "camelCase")]
pub struct KeyView {
    pub id: String,
    /// The first characters of its text.
    pub prefix: String,
    /// `valid`, `expired` or `revoked`.
    pub state: String,
    pub owner: String,
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub name: Option<String>,
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub tier: Option<String>,
    pub scopes: Vec<String>,
    pub agents: Vec<String>,
    /// Whether envelopes with this key must be signed too; absent otherwise.
    #[serde(default, skip_serializing_if = "std::ops::Not::not")]
    pub require_signature: bool,
    /// Whether the key belongs to a relay; absent otherwise.
    #[serde(default, skip_serializing_if = "std::ops::Not::not")]
    pub relay: bool,
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub customer: Option<String>,
    #[schemars(with = "String")]
    pub created_at: Timestamp,
    #[serde(default, skip_serializing_if = "Option::is_none")]
    #[schemars(with = "Option<String>")]
    pub expires_at: Option<Timestamp>,
    #[serde(default, skip_serializing_if = "Option::is_none")]
    #[schemars(with = "Option<String>")]
    pub revoked_at: Option<Timestamp>,
    #[serde(default, skip_serializing_if = "Option::is_none")]
    #[schemars(with = "Option<String>")]
    pub last_used_at: Option<Timestamp>,
    /// Replaced texts that may still be valid, the latest first.
    pub retiring: Vec<RetiringText>,
}

/// A replaced text of a key.
#[derive(Debug, Clone, Serialize, Deserialize, JsonSchema)]
pub struct RetiringText {
    pub prefix: String,
    #[schemars(with = "String")]
    pub until: Timestamp,
}

/// A key with its text, which is shown this once.
#[derive(Debug, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "camelCase")]
pub struct IssuedKeyView {
    #[serde(flatten)]
    pub view: KeyView,
    /// The text that callers send.
    pub key: String,
    /// What the operator should know about the key on this server.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub warnings: Vec<String>,
}

impl From<ApiKey> for KeyView {
    fn from(key: ApiKey) -> Self {
        let state = key_status(&key).to_owned();
        let ApiKey { id, fingerprint, terms, created_at, revoked_at, last_used_at, retiring } = key;
        let retiring = retiring.into_iter().map(|old| RetiringText { prefix: old.imprint.prefix, until: old.until });
        let KeyTerms { owner, name, tier, scopes, agents, require_signature, relay, customer, expires_at } = terms;
        Self {
            id: id.to_string(),
            prefix: fingerprint.prefix,
            state,
            owner,
            name,
            tier,
            scopes,
            agents,
            require_signature,
            relay,
            customer,
            created_at,
            expires_at,
            revoked_at,
            last_used_at,
            retiring: retiring.collect(),
        }
    }
}

impl CreateKey {
    /// Refuses terms that make no sense, with a sentence that names the term.
    pub fn check(&self) -> Result<(), String> {
        if let Some(fault) = self.scopes.iter().find_map(|scope| scope_fault(scope)) {
            return Err(fault);
        }
        for name in &self.agents {
            AgentName::parse(name).map_err(|fault| format!("the agent {name:?} {fault}"))?;
        }
        for (term, text) in
            [("name", &self.name), ("owner", &self.owner), ("tier", &self.tier), ("customer", &self.customer)]
        {
            if text.as_ref().is_some_and(|text| text.trim().is_empty() || text.chars().any(char::is_control)) {
                return Err(format!("{term} is one line of text"));
            }
        }
        if self.test && self.tier.is_none() {
            return Err("a test key has a tier".into());
        }
        Ok(())
    }
}

impl Perform for ListKeys {
    const ACCESS: OperationAccess = OperationAccess::Look;
    const STORE: StorePart = StorePart::ExistingGuard;
    const ENDPOINT: Endpoint = Endpoint::get("/keys", "List all API keys");

    async fn perform(self, service: &AdminService, _: &Operator) -> Result<KeyList, AdminError> {
        Ok(KeyList { keys: service.store.list().await?.into_iter().map(KeyView::from).collect() })
    }
}

impl Perform for CreateKey {
    const ACCESS: OperationAccess = OperationAccess::Change;
    const STORE: StorePart = StorePart::Guard;
    const ENDPOINT: Endpoint = Endpoint::create("/keys", "Make an API key");

    async fn perform(self, service: &AdminService, operator: &Operator) -> Result<IssuedKeyView, AdminError> {
        self.check().map_err(AdminError::invalid)?;
        let warnings = self.warnings(service)?;
        let kind = match (&self.tier, self.test) {
            (None, _) => KeyKind::Sabir,
            (Some(_), false) => KeyKind::AgntLive,
            (Some(_), true) => KeyKind::AgntTest,
        };
        let text = random_text(kind)?;
        let owner = self.owner.unwrap_or_else(|| operator.short_name().to_owned());
        let Self { name, tier, scopes, agents, require_signature, relay, customer, expires_at, .. } = self;
        let terms = KeyTerms { owner, name, tier, scopes, agents, require_signature, relay, customer, expires_at };
        let mut draws = 1;
        loop {
            let print = KeyFingerprint::of(text.expose());
            match service.store.create(random_id(), print, terms.clone(), operator.actor()).await {
                Ok(key) => return Ok(IssuedKeyView { view: key.into(), key: text.expose().to_owned(), warnings }),
                Err(ChangeError::KeyTaken) if draws < DRAWS_MAX => draws += 1,
                Err(error) => return Err(error.into()),
            }
        }
    }
}

impl CreateKey {
    /// What is legal and probably not meant, on this server. A tier that does not exist is an error: nothing would limit
    /// the key.
    fn warnings(&self, service: &AdminService) -> Result<Vec<String>, AdminError> {
        let config = &service.config;
        let tiers = config.limits.tiers();
        if let Some(tier) = self.tier.as_ref().filter(|tier| !tiers.contains_key(*tier)) {
            let known: Vec<&str> = tiers.keys().map(String::as_str).collect();
            let problem = format!("there is no tier {tier:?}; there are {}", known.join(", "));
            return Err(AdminError::invalid(problem).with_hint("[limits.tier.NAME] in the configuration makes one"));
        }
        let unknown = |name: &&String| !config.agent.is_empty() && !config.agent.iter().any(|a| a.name == **name);
        let mut warnings: Vec<String> = self
            .agents
            .iter()
            .filter(unknown)
            .map(|name| format!("there is no agent named {name} in the configuration"))
            .collect();
        if !config.accepts_api_keys() && !self.scopes.iter().any(|scope| scope.starts_with("admin")) {
            let words = "no agent of this configuration asks for API keys; write accept = [\"api_key\"] in [auth]";
            warnings.push(words.into());
        }
        Ok(warnings)
    }
}

impl Perform for RevokeKey {
    const ACCESS: OperationAccess = OperationAccess::Change;
    const STORE: StorePart = StorePart::ExistingGuard;
    const ENDPOINT: Endpoint = Endpoint::post("/keys/{id}/revoke", "Revoke an API key for good");

    async fn perform(self, service: &AdminService, operator: &Operator) -> Result<KeyView, AdminError> {
        Ok(service.store.revoke(parse_id(&self.id)?, operator.actor()).await?.into())
    }
}

impl Perform for RotateKey {
    const ACCESS: OperationAccess = OperationAccess::Change;
    const STORE: StorePart = StorePart::ExistingGuard;
    const ENDPOINT: Endpoint = Endpoint::post("/keys/{id}/rotate", "Give an API key another text");

    async fn perform(self, service: &AdminService, operator: &Operator) -> Result<IssuedKeyView, AdminError> {
        let id = parse_id(&self.id)?;
        let keys = service.store.list().await?;
        let old = keys.into_iter().find(|key| key.id == id).ok_or_else(|| ChangeError::NoSuchKey(id.clone()))?;
        // The new text has the kind of the old one. Of that only the prefix is stored.
        let kind = match &old.fingerprint.prefix {
            prefix if prefix.starts_with("agnt_test_") => KeyKind::AgntTest,
            prefix if prefix.starts_with("agnt_live_") => KeyKind::AgntLive,
            _ => KeyKind::Sabir,
        };
        let text = random_text(kind)?;
        let by = operator.actor();
        let grace_ms = i64::try_from(self.grace_seconds.min(GRACE_SECONDS_MAX) * 1000).unwrap_or(i64::MAX);
        let old_until = Timestamp::from_millis(by.at.millis().saturating_add(grace_ms));
        let key = service.store.rotate(id, KeyFingerprint::of(text.expose()), old_until, by).await?;
        Ok(IssuedKeyView { view: key.into(), key: text.expose().to_owned(), warnings: Vec::new() })
    }
}

/// The reason why a scope is not legal, in words. A misspelt scope would make a key that allows nothing, and only its
/// owner would notice.
fn scope_fault(scope: &str) -> Option<String> {
    let known = || format!("the scopes are {}, skill:ID, agent:NAME and from:ID", WORDS.join(", "));
    match scope.split_once(':') {
        None if WORDS.contains(&scope) => None,
        Some(("skill", id)) if !id.is_empty() => None,
        Some(("from", id)) if !id.is_empty() && !id.contains(|c: char| c.is_whitespace() || c.is_control()) => None,
        Some(("agent", name)) => AgentName::parse(name).err().map(|e| format!("the agent {name:?} {e}")),
        _ => Some(format!("{scope:?} is no scope; {}", known())),
    }
}

/// Parses the id of a key. A whole key is not repeated in the error, which may end up in a log.
fn parse_id(text: &str) -> Result<KeyId, AdminError> {
    let wrong = |what: &str| AdminError::invalid(what).with_hint("sabir key list shows the ids");
    if ["sabir_", "agnt_"].iter().any(|prefix| text.starts_with(prefix)) {
        return Err(wrong("this is a key, not the id of one; what was typed is now in your shell's history"));
    }
    KeyId::parse(text).ok_or_else(|| wrong("an id has letters, digits, _ and -"))
}

/// A new random text, from the operating system.
fn random_text(kind: KeyKind) -> Result<Secret, AdminError> {
    let mut random = [0; 16];
    SysRng.try_fill_bytes(&mut random).map_err(|error| {
        AdminError::new(AdminErrorCode::Store, format!("the operating system gives no random numbers: {error}"))
    })?;
    Ok(api_key::key_text(kind, random))
}

/// A new random id: short enough to type. The caller draws again when it is taken.
fn random_id() -> KeyId {
    let text = format!("k{:010x}", rand::random::<u64>() >> 24);
    KeyId::parse(&text).expect("hexadecimal digits are legal in an id")
}

/// The standing of a key: `valid`, `expired` or `revoked`.
fn key_status(key: &ApiKey) -> &'static str {
    match key {
        ApiKey { revoked_at: Some(_), .. } => "revoked",
        ApiKey { terms: KeyTerms { expires_at: Some(end), .. }, .. } if *end <= now() => "expired",
        _ => "valid",
    }
}
