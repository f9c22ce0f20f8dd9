//! `sabir key …`: issuing API keys and taking them back.

use super::span::{moment, span};
use super::{ServerFiles, wait};
use crate::Invocation;
use crate::cli::Verb;
use crate::exit::Exit;
use crate::output::Output;
use crate::problem::{Outcome, Problem, Stop};
use crate::render::Fields;
use clap::Args;
use sabir_proto::{AgentName, Timestamp};
use sabir_server::admin::{ApiKey, Expect, IssuedKey, KeyId, NewKey, key_status, scope_fault, user};
use serde_json::{Map, Value, json};
use std::time::Duration;

/// Issue an API key. It is shown once and kept nowhere.
///
/// The server keeps only a hash, so a lost key cannot be shown again; rotate it or create another. Callers send it as
/// `Authorization: Bearer KEY` or `X-API-Key: KEY`. A running server takes it within a second.
#[derive(Debug, Args)]
#[command(
    after_help = "Scopes: send, read, cancel, push, card, full, query, booking, skill:ID, agent:NAME, from:ID; none means \
    everything. At the booking network, query may look, booking may book as well, and full may pay; from:ID says which \
    agents envelopes under the key may come from.\n\n\
    Examples:\n  \
    sabir key create --name ci --scope send --scope read --expires 90d\n  \
    sabir key create --owner ana --agent weather --expires 2027-01-31\n  \
    sabir key create --owner venue-1 --tier pro --test -o json | jq -r .key\n  \
    sabir key create --owner ana --tier pro --scope booking --from my_agent_001 --customer cus_42"
)]
pub(crate) struct KeyCreate {
    /// What people call it.
    #[arg(long, value_name = "NAME")]
    name: Option<String>,
    /// The owner of the key; without it, the user who runs this command.
    #[arg(long, value_name = "OWNER")]
    owner: Option<String>,
    /// Its tier, which sets limits; the key is then written agnt_live_…
    #[arg(long, value_name = "TIER")]
    tier: Option<String>,
    /// A key of a tier for trying things out, written agnt_test_…
    #[arg(long, requires = "tier")]
    test: bool,
    /// What it may be used for; repeatable.
    #[arg(long = "scope", value_name = "SCOPE", value_delimiter = ',')]
    scopes: Vec<String>,
    /// The agent it is tied to; repeatable.
    #[arg(long = "agent", value_name = "AGENT", value_delimiter = ',')]
    agents: Vec<String>,
    /// An agent that envelopes under it may come from, at the booking network; repeatable. The same as --scope from:ID.
    #[arg(long = "from", value_name = "ID", value_delimiter = ',')]
    senders: Vec<String>,
    /// Envelopes under it must be signed as well.
    #[arg(long)]
    require_signature: bool,
    /// It belongs to a relay, which passes on envelopes of others; they must be signed.
    #[arg(long)]
    relay: bool,
    /// Who pays for what it books, as the payment processor knows them.
    #[arg(long, value_name = "CUSTOMER")]
    customer: Option<String>,
    /// When it ends: a span such as 30d, or a date such as 2027-01-31.
    #[arg(long, value_name = "WHEN", value_parser = moment)]
    expires: Option<Timestamp>,
    #[command(flatten)]
    server: ServerFiles,
}

impl Verb for KeyCreate {
    fn run(self, Invocation { out, .. }: Invocation) -> Outcome {
        self.check()?;
        let config = self.server.config()?;
        let tiers = config.limits.tiers();
        if let Some(tier) = self.tier.as_ref().filter(|tier| !tiers.contains_key(*tier)) {
            let known: Vec<&str> = tiers.keys().map(String::as_str).collect();
            let problem = format!("there is no tier {tier:?}; there are {}", known.join(", "));
            return Err(Problem::usage(problem).hint("[limits.tier.NAME] in the configuration makes one").into());
        }
        let unknown = |name: &&String| !config.agent.is_empty() && !config.agent.iter().any(|a| a.name == **name);
        for name in self.agents.iter().filter(unknown) {
            out.warn(&format!("there is no agent named {name} in the configuration"));
        }
        let tiers = config.limits.tiers();
        if let Some(tier) = self.tier.as_ref().filter(|tier| !tiers.contains_key(*tier)) {
            // Without a tier that exists, nothing would limit the key.
            let known: Vec<&str> = tiers.keys().map(String::as_str).collect();
            let problem = Problem::usage(format!("there is no tier {tier:?}; there are {}", known.join(", ")));
            return Err(problem.hint("name it in [limits.tier] of the configuration").into());
        }
        if !config.accepts_api_keys() {
            out.warn("no agent of this configuration asks for API keys; write accept = [\"api_key\"] in [auth]");
        }
        let admin = self.server.open(Expect::Any)?;
        let order = NewKey {
            owner: self.owner.unwrap_or_else(user),
            name: self.name,
            tier: self.tier,
            test: self.test,
            scopes: self.scopes.into_iter().chain(self.senders.iter().map(|id| format!("from:{id}"))).collect(),
            agents: self.agents,
            require_signature: self.require_signature,
            relay: self.relay,
            customer: self.customer,
            expires_at: self.expires,
        };
        let issued = wait(admin.create_key(order))?;
        out.note(&format!("Store: {}", admin.path().display()));
        show_issued(&out, &issued)
    }
}

impl KeyCreate {
    /// Refuses combinations of terms that make no sense.
    fn check(&self) -> Result<(), Problem> {
        let wrong = |what: String| Problem::usage(what).hint("sabir key create --help");
        if let Some(fault) = self.scopes.iter().find_map(|scope| scope_fault(scope)) {
            return Err(wrong(fault));
        }
        if let Some(fault) = self.senders.iter().find_map(|id| scope_fault(&format!("from:{id}"))) {
            return Err(wrong(fault));
        }
        for name in &self.agents {
            AgentName::parse(name).map_err(|fault| wrong(format!("the agent {name:?} {fault}")))?;
        }
        for (flag, text) in
            [("--name", &self.name), ("--owner", &self.owner), ("--tier", &self.tier), ("--customer", &self.customer)]
        {
            if text.as_ref().is_some_and(|text| text.trim().is_empty() || text.chars().any(char::is_control)) {
                return Err(wrong(format!("{flag} is one line of text")));
            }
        }
        Ok(())
    }
}

/// List all keys: whose they are, what they may do, when they were used and when they end.
#[derive(Debug, Args)]
pub(crate) struct KeyList {
    #[command(flatten)]
    server: ServerFiles,
}

impl Verb for KeyList {
    fn run(self, Invocation { out, .. }: Invocation) -> Outcome {
        let keys = wait(self.server.open(Expect::Existing)?.keys())?;
        if out.is_json() {
            let keys: Vec<Value> = keys.iter().map(|key| Value::Object(key_json(key))).collect();
            out.document(&json!({"keys": keys}).to_string())?;
            return Ok(Exit::Done);
        }
        out.text(|fields| {
            keys.iter().for_each(|key| write_fields(fields, key));
            fields.field("Total", &keys.len().to_string());
        })?;
        Ok(Exit::Done)
    }
}

/// Give a key a new text. Its id, its terms and what belongs to it stay.
///
/// The text before it ends at once, or after the time of --grace, so that its user can change over.
#[derive(Debug, Args)]
pub(crate) struct KeyRotate {
    /// The id of the key, as `sabir key list` shows it.
    id: String,
    /// How long the text before it stays valid, such as 24h.
    #[arg(long, value_name = "SPAN", default_value = "0", value_parser = span)]
    grace: Duration,
    #[command(flatten)]
    server: ServerFiles,
}

impl Verb for KeyRotate {
    fn run(self, Invocation { out, .. }: Invocation) -> Outcome {
        let id = parse_id(&self.id)?;
        let issued = wait(self.server.open(Expect::Existing)?.rotate_key(id, self.grace))?;
        match issued.key.retiring.first() {
            Some(old) if !self.grace.is_zero() => {
                out.note(&format!("The text before it, {}…, is valid until {}", old.imprint.prefix, old.until));
            }
            _ => out.note("The text before it is no longer valid"),
        }
        show_issued(&out, &issued)
    }
}

/// Revoke a key, for good.
///
/// A running server refuses it within a second. Its tasks stay, and so does its line in the list.
#[derive(Debug, Args)]
pub(crate) struct KeyRevoke {
    /// The id of the key, as `sabir key list` shows it.
    id: String,
    #[command(flatten)]
    server: ServerFiles,
}

impl Verb for KeyRevoke {
    fn run(self, Invocation { out, .. }: Invocation) -> Outcome {
        let id = parse_id(&self.id)?;
        let key = wait(self.server.open(Expect::Existing)?.revoke_key(id))?;
        if out.is_json() {
            out.document(&Value::Object(key_json(&key)).to_string())?;
        }
        out.text(|fields| write_fields(fields, &key))?;
        Ok(Exit::Done)
    }
}

/// Parses the id that was typed. A whole key is not repeated in the error, which may end up in a log.
fn parse_id(text: &str) -> Result<KeyId, Problem> {
    let looks_like_a_key = ["sabir_", "agnt_"].iter().any(|prefix| text.starts_with(prefix));
    let wrong = |what: &str| Problem::usage(what.to_owned()).hint("sabir key list shows the ids");
    if looks_like_a_key {
        return Err(wrong("this is a key, not the id of one; what was typed is now in your shell's history"));
    }
    KeyId::parse(text).ok_or_else(|| wrong("an id has letters, digits, _ and -"))
}

/// Prints a key with its text. The text is shown only this once.
fn show_issued(out: &Output, IssuedKey { key, text }: &IssuedKey) -> Result<Exit, Stop> {
    if out.is_json() {
        let mut all = key_json(key);
        all.insert("key".into(), text.expose().into());
        out.document(&Value::Object(all).to_string())?;
        return Ok(Exit::Done);
    }
    out.text(|fields| {
        fields.field("Key", text.expose());
        write_fields(fields, key);
    })?;
    out.note("This is the only time the key is shown; keep it now");
    Ok(Exit::Done)
}

/// The members of a key in JSON, without its text.
fn key_json(key: &ApiKey) -> Map<String, Value> {
    let terms = &key.terms;
    let time = |time: Option<Timestamp>| time.map(|time| time.to_string());
    let retiring: Vec<Value> =
        key.retiring.iter().map(|old| json!({"prefix": old.imprint.prefix, "until": old.until})).collect();
    let all = json!({
        "id": key.id.as_str(),
        "prefix": key.fingerprint.prefix,
        "state": key_status(key),
        "owner": terms.owner,
        "name": terms.name,
        "tier": terms.tier,
        "scopes": terms.scopes,
        "agents": terms.agents,
        "requireSignature": terms.require_signature.then_some(true),
        "relay": terms.relay.then_some(true),
        "customer": terms.customer,
        "createdAt": key.created_at,
        "expiresAt": time(terms.expires_at),
        "revokedAt": time(key.revoked_at),
        "lastUsedAt": time(key.last_used_at),
        "retiring": retiring,
    });
    let Value::Object(mut all) = all else { return Map::new() };
    all.retain(|_, value| !value.is_null());
    all
}

/// Shows a key as fields.
fn write_fields(fields: &mut Fields, key: &ApiKey) {
    let terms = &key.terms;
    let time = |time: Option<Timestamp>| time.map(|time| time.to_string());
    fields.field("Key ID", key.id.as_str());
    fields.field("Prefix", &key.fingerprint.prefix);
    fields.field("State", key_status(key));
    fields.field("Owner", &terms.owner);
    fields.maybe("Name", terms.name.as_deref());
    fields.maybe("Tier", terms.tier.as_deref());
    fields.field("Scopes", if terms.scopes.is_empty() { "everything".into() } else { terms.scopes.join(" ") }.as_str());
    fields.maybe("Agents", Some(terms.agents.join(" ").as_str()));
    fields.maybe("Signature", terms.require_signature.then_some("required"));
    fields.maybe("Relay", terms.relay.then_some("yes"));
    fields.maybe("Customer", terms.customer.as_deref());
    fields.field("Created", &key.created_at.to_string());
    fields.maybe("Expires", time(terms.expires_at).as_deref());
    fields.maybe("Revoked", time(key.revoked_at).as_deref());
    fields.maybe("Last used", time(key.last_used_at).as_deref());
    for old in &key.retiring {
        fields.field("Retiring", &format!("{} until {}", old.imprint.prefix, old.until));
    }
}
