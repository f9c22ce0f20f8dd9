//! `sabir key …`: issuing API keys and taking them back.

use super::span::{moment, span};
use super::{ServerTarget, print_json};
use crate::Invocation;
use crate::cli::Verb;
use crate::exit::Exit;
use crate::output::Output;
use crate::problem::{Outcome, Problem};
use crate::render::Fields;
use clap::Args;
use sabir_proto::Timestamp;
use sabir_server::admin::{CreateKey, IssuedKeyView, KeyView, ListKeys, RevokeKey, RotateKey};
use std::time::Duration;

/// Issue an API key. It is shown once and kept nowhere.
///
/// The server keeps only a hash, so a lost key cannot be shown again; rotate it or create another. Callers send it as
/// `Authorization: Bearer KEY` or `X-API-Key: KEY`. A running server takes it within a second.
#[derive(Debug, Args)]
#[command(
    after_help = "Scopes: send, read, cancel, push, card, full, query, booking, admin, admin.read, skill:ID, agent:NAME, from:ID; none \
    means everything that callers may do. admin may administer the server over its API, and admin.read may only look. At the booking network, query may look, booking may book as well, and full may pay; from:ID says which \
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
    server: ServerTarget,
}

impl Verb for KeyCreate {
    fn run(self, Invocation { out, .. }: Invocation) -> Outcome {
        let operation = CreateKey {
            owner: self.owner,
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
        operation.check().map_err(|wrong| Problem::usage(wrong).hint("sabir key create --help"))?;
        let issued = self.server.ask(operation)?;
        for warning in &issued.warnings {
            out.warn(warning);
        }
        self.server.note_store(&out)?;
        show_issued(&out, &issued)
    }
}

/// List all keys: whose they are, what they may do, when they were used and when they end.
#[derive(Debug, Args)]
pub(crate) struct KeyList {
    #[command(flatten)]
    server: ServerTarget,
}

impl Verb for KeyList {
    fn run(self, Invocation { out, .. }: Invocation) -> Outcome {
        let list = self.server.ask(ListKeys {})?;
        print_json(&out, &list)?;
        out.text(|fields| {
            list.keys.iter().for_each(|key| write_fields(fields, key));
            fields.field("Total", &list.keys.len().to_string());
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
    server: ServerTarget,
}

impl Verb for KeyRotate {
    fn run(self, Invocation { out, .. }: Invocation) -> Outcome {
        let issued = self.server.ask(RotateKey { id: self.id, grace_seconds: self.grace.as_secs() })?;
        match issued.view.retiring.first() {
            Some(old) if !self.grace.is_zero() => {
                out.note(&format!("The text before it, {}…, is valid until {}", old.prefix, old.until));
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
    server: ServerTarget,
}

impl Verb for KeyRevoke {
    fn run(self, Invocation { out, .. }: Invocation) -> Outcome {
        let key = self.server.ask(RevokeKey { id: self.id })?;
        print_json(&out, &key)?;
        out.text(|fields| write_fields(fields, &key))?;
        Ok(Exit::Done)
    }
}

/// Prints a key with its text. The text is shown only this once.
fn show_issued(out: &Output, issued: &IssuedKeyView) -> Outcome {
    if out.is_json() {
        print_json(out, issued)?;
        return Ok(Exit::Done);
    }
    out.text(|fields| {
        fields.field("Key", &issued.key);
        write_fields(fields, &issued.view);
    })?;
    out.note("This is the only time the key is shown; keep it now");
    Ok(Exit::Done)
}

/// Shows a key as fields.
fn write_fields(fields: &mut Fields, key: &KeyView) {
    let time = |time: Option<Timestamp>| time.map(|time| time.to_string());
    fields.field("Key ID", &key.id);
    fields.field("Prefix", &key.prefix);
    fields.field("State", &key.state);
    fields.field("Owner", &key.owner);
    fields.maybe("Name", key.name.as_deref());
    fields.maybe("Tier", key.tier.as_deref());
    fields.field("Scopes", if key.scopes.is_empty() { "everything".into() } else { key.scopes.join(" ") }.as_str());
    fields.maybe("Agents", Some(key.agents.join(" ").as_str()));
    fields.maybe("Signature", key.require_signature.then_some("required"));
    fields.maybe("Relay", key.relay.then_some("yes"));
    fields.maybe("Customer", key.customer.as_deref());
    fields.field("Created", &key.created_at.to_string());
    fields.maybe("Expires", time(key.expires_at).as_deref());
    fields.maybe("Revoked", time(key.revoked_at).as_deref());
    fields.maybe("Last used", time(key.last_used_at).as_deref());
    for old in &key.retiring {
        fields.field("Retiring", &format!("{} until {}", old.prefix, old.until));
    }
}
