//! `sabir agent profiles`: vendors whose agents are found or called differently from A2A.

use crate::Invocation;
use crate::cli::Verb;
use crate::exit::Exit;
use crate::problem::Outcome;
use clap::Args;
use sabir_client::{PROFILES, Profile};
use serde_json::{Value, json};

/// List the profiles of vendors: where cards are, whether they are shown without credentials, where a key goes.
///
/// A profile is given by `sabir agent add --profile NAME`, or as `profile` of an [[agent]] of kind a2a.
#[derive(Debug, Args)]
#[command(after_help = "Examples:\n  sabir agent profiles\n  sabir agent profiles -o json")]
pub(crate) struct Profiles {}

impl Verb for Profiles {
    fn run(self, Invocation { out, .. }: Invocation) -> Outcome {
        if out.is_json() {
            let all: Vec<Value> = PROFILES.iter().map(members).collect();
            out.document(&json!({"profiles": all}).to_string())?;
            return Ok(Exit::Done);
        }
        out.text(|floor| {
            for one in &PROFILES {
                floor.field("Profile", one.name);
                floor.field("Of", one.of);
                floor.field("URL", one.url);
                let shown = if one.asks_for_card { ", shown to those only who show credentials" } else { "" };
                floor.field("Card", &format!("{}{shown}", one.card_place()));
                floor.maybe("API key", one.key_header.map(|name| format!("in the header {name}")).as_deref());
                let spoken = one.without_card.map(|dialect| format!("{} is spoken", dialect.name()));
                floor.maybe("Without a card", spoken.as_deref());
            }
        })?;
        Ok(Exit::Done)
    }
}

fn members(one: &Profile) -> Value {
    json!({
        "name": one.name, "of": one.of, "url": one.url, "card": one.card_place(), "asksForCard": one.asks_for_card,
        "keyHeader": one.key_header, "withoutCard": one.without_card.map(|dialect| dialect.name()),
    })
}
