//! Cards of remote agents: the card that the server shows for one, the cards that the server has seen, and approval.

use super::super::{ServerTarget, print_json};
use crate::Invocation;
use crate::cli::Verb;
use crate::exit::Exit;
use crate::problem::{Outcome, Problem};
use clap::Args;
use sabir_server::admin::{
    AgentCardDocument, ApproveAgent, PinnedInterfaceView, RefreshAgent, ShowAgentCard, ShowAgentHistory,
    parse_card_form,
};
use serde_json::Value;

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
    server: ServerTarget,
}

impl Verb for AgentCardShow {
    fn run(self, Invocation { out, .. }: Invocation) -> Outcome {
        let unknown = || {
            Problem::usage(format!("--as {}: there are 1.0, hybrid, 0.3, 0.2, 0.1, agent-native and xpr", self.form))
                .hint("sabir agent card --help")
        };
        parse_card_form(&self.form).ok_or_else(unknown)?;
        let AgentCardDocument { card } = self.server.ask(ShowAgentCard { name: self.name, form: self.form })?;
        let card = card.as_str().to_owned();
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
    server: ServerTarget,
}

impl Verb for AgentHistory {
    fn run(self, Invocation { out, .. }: Invocation) -> Outcome {
        let history = self.server.ask(ShowAgentHistory { name: self.name })?;
        print_json(&out, &history)?;
        out.text(|fields| {
            for kept in &history.cards {
                fields.field("Card", &format!("{} {}", kept.number, kept.standing));
                fields.field("Seen", &kept.seen_at.to_string());
                fields.field("Digest", &kept.digest);
                fields.field("Interface", &pinned_interface(&kept.interface));
                fields.field("Signed by", kept.signer.as_deref().unwrap_or("no trusted key"));
                if !kept.changes.is_empty() {
                    fields.field("Changed", &kept.changes.join(", "));
                }
            }
            fields.field("Total", &history.cards.len().to_string());
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
    server: ServerTarget,
}

impl Verb for AgentRefresh {
    fn run(self, Invocation { out, .. }: Invocation) -> Outcome {
        let refreshed = self.server.ask(RefreshAgent { name: self.name })?;
        print_json(&out, &refreshed)?;
        out.text(|fields| {
            fields.field("Agent", &refreshed.name);
            fields.field("Card", &refreshed.card);
            if !refreshed.changes.is_empty() {
                fields.field("Changed", &refreshed.changes.join(", "));
            }
            if refreshed.card == "held" {
                fields.field("Next", &format!("sabir agent approve {}", refreshed.name));
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
    server: ServerTarget,
}

impl Verb for AgentApprove {
    fn run(self, Invocation { out, .. }: Invocation) -> Outcome {
        let card = self.server.ask(ApproveAgent { name: self.name.clone() })?;
        print_json(&out, &card)?;
        out.text(|fields| {
            fields.field("Approved", &format!("card {} of {}", card.number, self.name));
            fields.field("Changed", &card.changes.join(", "));
            fields.field("Pinned", &pinned_interface(&card.interface));
        })?;
        Ok(Exit::Done)
    }
}

/// The pinned interface, on one line.
pub(super) fn pinned_interface(pin: &PinnedInterfaceView) -> String {
    format!("{} {} at {}", pin.binding, pin.version, pin.url)
}
