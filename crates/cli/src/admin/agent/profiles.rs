//! `sabir agent profiles`: vendors whose agents are found or called differently from A2A.

use crate::Invocation;
use crate::cli::Verb;
use crate::exit::Exit;
use crate::problem::Outcome;
use clap::Args;
use sabir_client::{PROFILES, VendorProfile};
use serde_json::{Value, json};

/// List the profiles of vendors: where cards are, whether they are shown without credentials, where a key goes.
///
/// A profile is given by `sabir agent add --profile NAME`, or as `profile` of an [[agent]] of kind a2a.
#[derive(Debug, Args)]
#[command(after_help = "Examples:\n  sabir agent profiles\n  sabir agent profiles -o json")]
pub(crate) struct AgentProfiles {}

impl Verb for AgentProfiles {
    fn run(self, Invocation { out, .. }: Invocation) -> Outcome {
        if out.is_json() {
            let all: Vec<Value> = PROFILES.iter().map(profile_json).collect();
            out.document(&json!({"profiles": all}).to_string())?;
            return Ok(Exit::Done);
        }
        out.text(|fields| {
            for one in &PROFILES {
                fields.field("Profile", one.name);
                fields.field("Of", one.vendor);
                fields.field("URL", one.url);
                let shown = if one.card_needs_credentials { ", shown to those only who show credentials" } else { "" };
                fields.field("Card", &format!("{}{shown}", one.card_location()));
                fields.maybe("API key", one.key_header.map(|name| format!("in the header {name}")).as_deref());
                let spoken = one.dialect_without_card.map(|dialect| format!("{} is spoken", dialect.name()));
                fields.maybe("Without a card", spoken.as_deref());
            }
        })?;
        Ok(Exit::Done)
    }
}

fn profile_json(one: &VendorProfile) -> Value {
    json!({
        "name": one.name, "of": one.vendor, "url": one.url, "card": one.card_location(), "asksForCard": one.card_needs_credentials,
        "keyHeader": one.key_header, "withoutCard": one.dialect_without_card.map(|dialect| dialect.name()),
    })
}
