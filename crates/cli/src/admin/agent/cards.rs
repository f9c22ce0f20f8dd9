//! Cards of remote agents: the card that the server shows for one, the cards that the server has seen, and approval.

use super::super::{Place, wait};
use crate::Invocation;
use crate::cli::Verb;
use crate::exit::Exit;
use crate::problem::{Outcome, Problem};
use clap::Args;
use sabir_server::admin::{Expect, KeptCard, Pin, Settled, as_form};
use serde_json::{Value, json};

/// Show the card that this server shows for an agent, in any dialect.
///
/// It is made anew from the configuration and from what the agent says of itself, with our interfaces and our signature.
#[derive(Debug, Args)]
#[command(after_help = "Examples:\n  \
    sabir agent card books\n  \
    sabir agent card books --as 0.3 | jq .url")]
pub(crate) struct Card {
    /// The name of the agent.
    name: String,
    /// The form: 1.0, hybrid, 0.3, 0.2, 0.1, agent-native or xpr.
    #[arg(long = "as", value_name = "FORM", default_value = "1.0")]
    form: String,
    #[command(flatten)]
    place: Place,
}

impl Verb for Card {
    fn run(self, Invocation { out, .. }: Invocation) -> Outcome {
        let unknown = || {
            Problem::usage(format!("--as {}: there are 1.0, hybrid, 0.3, 0.2, 0.1, agent-native and xpr", self.form))
                .hint("sabir agent card --help")
        };
        let form = as_form(&self.form).ok_or_else(unknown)?;
        let config = self.place.config()?;
        let card = wait(self.place.open(Expect::Any)?.agent_card(&config, &self.name, form))?;
        let pretty = serde_json::from_str::<Value>(&card).and_then(|card| serde_json::to_string_pretty(&card));
        if out.is_json() {
            out.document(&card)?;
        } else {
            out.payload(&format!("{}\n", pretty.unwrap_or(card)))?;
        }
        Ok(Exit::Done)
    }
}

/// Show the cards that an agent has shown, with what changed from one to the next.
#[derive(Debug, Args)]
pub(crate) struct History {
    /// The name of the agent.
    name: String,
    #[command(flatten)]
    place: Place,
}

impl Verb for History {
    fn run(self, Invocation { out, .. }: Invocation) -> Outcome {
        let config = self.place.config()?;
        let one = wait(self.place.open(Expect::Any)?.agent(&config, &self.name))?;
        if out.is_json() {
            let cards: Vec<Value> = one.cards.iter().map(members).collect();
            out.document(&json!({"name": one.name, "cards": cards}).to_string())?;
            return Ok(Exit::Done);
        }
        out.text(|floor| {
            for kept in &one.cards {
                floor.field("Card", &format!("{} {}", kept.number, kept.seen.standing.name()));
                floor.field("Seen", &kept.seen.at.to_string());
                floor.field("Digest", &kept.seen.digest);
                floor.field("Interface", &pinned(&kept.seen.pin));
                floor.field("Signed by", kept.seen.pin.signer.as_deref().unwrap_or("nobody"));
                if !kept.seen.changes.is_empty() {
                    floor.field("Changed", &kept.seen.changes.join(", "));
                }
            }
            floor.field("Total", &one.cards.len().to_string());
        })?;
        Ok(Exit::Done)
    }
}

/// Look at an agent's card now, and decide about it as a server would.
#[derive(Debug, Args)]
pub(crate) struct Refresh {
    /// The name of the agent.
    name: String,
    #[command(flatten)]
    place: Place,
}

impl Verb for Refresh {
    fn run(self, Invocation { out, .. }: Invocation) -> Outcome {
        let config = self.place.config()?;
        let settled = wait(self.place.open(Expect::Any)?.refresh_agent(&config, &self.name))?;
        let (word, changes) = match &settled {
            Settled::Same => ("same", &[][..]),
            Settled::First => ("first", &[][..]),
            Settled::Used(changes) => ("used", &changes[..]),
            Settled::Held(changes) => ("held", &changes[..]),
        };
        if out.is_json() {
            out.document(&json!({"name": self.name, "card": word, "changes": changes}).to_string())?;
            return Ok(Exit::Done);
        }
        out.text(|floor| {
            floor.field("Agent", &self.name);
            floor.field("Card", word);
            if !changes.is_empty() {
                floor.field("Changed", &changes.join(", "));
            }
            if word == "held" {
                floor.field("Next", &format!("sabir agent approve {}", self.name));
            }
        })?;
        Ok(Exit::Done)
    }
}

/// Use the card of an agent that is held: its skills, its credentials, its addresses.
#[derive(Debug, Args)]
pub(crate) struct Approve {
    /// The name of the agent.
    name: String,
    #[command(flatten)]
    place: Place,
}

impl Verb for Approve {
    fn run(self, Invocation { out, .. }: Invocation) -> Outcome {
        let config = self.place.config()?;
        let card = wait(self.place.open(Expect::Existing)?.approve_agent(&config, &self.name))?;
        if out.is_json() {
            out.document(&members(&card).to_string())?;
        }
        out.text(|floor| {
            floor.field("Approved", &format!("card {} of {}", card.number, self.name));
            floor.field("Changed", &card.seen.changes.join(", "));
            floor.field("Pinned", &pinned(&card.seen.pin));
        })?;
        Ok(Exit::Done)
    }
}

/// The pinned interface, on one line.
pub(super) fn pinned(pin: &Pin) -> String {
    format!("{} {} at {}", pin.binding, pin.version, pin.address)
}

pub(super) fn members(kept: &KeptCard) -> Value {
    let seen = &kept.seen;
    json!({
        "number": kept.number, "standing": seen.standing.name(), "seenAt": seen.at, "url": seen.url,
        "digest": seen.digest, "changes": seen.changes,
        "interface": {"binding": seen.pin.binding, "url": seen.pin.address, "version": seen.pin.version},
        "signer": seen.pin.signer,
    })
}
