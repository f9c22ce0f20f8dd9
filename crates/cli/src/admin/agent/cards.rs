//! Cards of remote agents: the card that the server shows for one, the cards that the server has seen, and approval.

use super::super::{ServerFiles, wait};
use crate::Invocation;
use crate::cli::Verb;
use crate::exit::Exit;
use crate::problem::{Outcome, Problem};
use clap::Args;
use sabir_server::admin::{CardDecision, Expect, PinnedInterface, StoredCard, parse_card_form};
use serde_json::{Value, json};

/// Show the card that this server shows for an agent, in any dialect.
///
/// It is made anew from the configuration and from what the agent says of itself, with our interfaces and our signature.
#[derive(Debug, Args)]
#[command(after_help = "Examples:\n  \
    sabir agent card books\n  \
    sabir agent card books --as 0.3 | jq .url")]
pub(crate) struct AgentCardShow {
    /// The name of the agent.
    name: String,
    /// The form: 1.0, hybrid, 0.3, 0.2, 0.1, agent-native or xpr.
    #[arg(long = "as", value_name = "FORM", default_value = "1.0")]
    form: String,
    #[command(flatten)]
    server: ServerFiles,
}

impl Verb for AgentCardShow {
    fn run(self, Invocation { out, .. }: Invocation) -> Outcome {
        let unknown = || {
            Problem::usage(format!("--as {}: there are 1.0, hybrid, 0.3, 0.2, 0.1, agent-native and xpr", self.form))
                .hint("sabir agent card --help")
        };
        let form = parse_card_form(&self.form).ok_or_else(unknown)?;
        let config = self.server.config()?;
        let card = wait(self.server.open(Expect::Any)?.agent_card(&config, &self.name, form))?;
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
pub(crate) struct AgentHistory {
    /// The name of the agent.
    name: String,
    #[command(flatten)]
    server: ServerFiles,
}

impl Verb for AgentHistory {
    fn run(self, Invocation { out, .. }: Invocation) -> Outcome {
        let config = self.server.config()?;
        let one = wait(self.server.open(Expect::Any)?.agent(&config, &self.name))?;
        if out.is_json() {
            let cards: Vec<Value> = one.cards.iter().map(kept_card_json).collect();
            out.document(&json!({"name": one.name, "cards": cards}).to_string())?;
            return Ok(Exit::Done);
        }
        out.text(|fields| {
            for kept in &one.cards {
                fields.field("Card", &format!("{} {}", kept.number, kept.observation.state.name()));
                fields.field("Seen", &kept.observation.at.to_string());
                fields.field("Digest", &kept.observation.digest);
                fields.field("Interface", &pinned_interface(&kept.observation.pin));
                fields.field("Signed by", kept.observation.pin.signer.as_deref().unwrap_or("no trusted key"));
                if !kept.observation.changes.is_empty() {
                    fields.field("Changed", &kept.observation.changes.join(", "));
                }
            }
            fields.field("Total", &one.cards.len().to_string());
        })?;
        Ok(Exit::Done)
    }
}

/// Look at an agent's card now, and decide about it as a server would.
#[derive(Debug, Args)]
pub(crate) struct AgentRefresh {
    /// The name of the agent.
    name: String,
    #[command(flatten)]
    server: ServerFiles,
}

impl Verb for AgentRefresh {
    fn run(self, Invocation { out, .. }: Invocation) -> Outcome {
        let config = self.server.config()?;
        let settled = wait(self.server.open(Expect::Any)?.refresh_agent(&config, &self.name))?;
        let (word, changes) = match &settled {
            CardDecision::Unchanged => ("same", &[][..]),
            CardDecision::First => ("first", &[][..]),
            CardDecision::Replaced(changes) => ("used", &changes[..]),
            CardDecision::Held(changes) => ("held", &changes[..]),
        };
        if out.is_json() {
            out.document(&json!({"name": self.name, "card": word, "changes": changes}).to_string())?;
            return Ok(Exit::Done);
        }
        out.text(|fields| {
            fields.field("Agent", &self.name);
            fields.field("Card", word);
            if !changes.is_empty() {
                fields.field("Changed", &changes.join(", "));
            }
            if word == "held" {
                fields.field("Next", &format!("sabir agent approve {}", self.name));
            }
        })?;
        Ok(Exit::Done)
    }
}

/// Use the card of an agent that is held: its skills, its credentials, its addresses.
#[derive(Debug, Args)]
pub(crate) struct AgentApprove {
    /// The name of the agent.
    name: String,
    #[command(flatten)]
    server: ServerFiles,
}

impl Verb for AgentApprove {
    fn run(self, Invocation { out, .. }: Invocation) -> Outcome {
        let config = self.server.config()?;
        let card = wait(self.server.open(Expect::Existing)?.approve_agent(&config, &self.name))?;
        if out.is_json() {
            out.document(&kept_card_json(&card).to_string())?;
        }
        out.text(|fields| {
            fields.field("Approved", &format!("card {} of {}", card.number, self.name));
            fields.field("Changed", &card.observation.changes.join(", "));
            fields.field("Pinned", &pinned_interface(&card.observation.pin));
        })?;
        Ok(Exit::Done)
    }
}

/// The pinned interface, on one line.
pub(super) fn pinned_interface(pin: &PinnedInterface) -> String {
    format!("{} {} at {}", pin.binding, pin.version, pin.address)
}

pub(super) fn kept_card_json(kept: &StoredCard) -> Value {
    let seen = &kept.observation;
    json!({
        "number": kept.number, "standing": seen.state.name(), "seenAt": seen.at, "url": seen.url,
        "digest": seen.digest, "changes": seen.changes,
        "interface": {"binding": seen.pin.binding, "url": seen.pin.address, "version": seen.pin.version},
        "signer": seen.pin.signer,
    })
}
