//! `sabir agent …`: remote agents that a server of ours serves.

mod cards;
mod profiles;

pub(crate) use cards::{AgentApprove, AgentCardShow, AgentHistory, AgentRefresh};
pub(crate) use profiles::AgentProfiles;

use super::{ServerTarget, print_json};
use crate::Invocation;
use crate::cli::Verb;
use crate::exit::Exit;
use crate::output::Output;
use crate::problem::{Outcome, Problem};
use crate::render::Fields;
use clap::Args;
use sabir_server::admin::{
    AddAgent, AdminOperation, AgentOrigin, AgentView, DisableAgent, EnableAgent, ListAgents, RegisteredAgentView,
    RemoveAgent, SecretRef, ShowAgent,
};
use serde_json::{Map, json};

/// Put an agent that is elsewhere behind this server.
///
/// Its card is searched for at every known place, its interfaces are tried out until one answers, and what was found is
/// pinned: the card, the interface, the version, and who signed. A server that runs serves it within a second, at
/// /agents/NAME, in every dialect. A card that points to private addresses, to nothing or to this server is refused.
/// What the agent is shown is given by reference: env:NAME is a variable of the server, file:PATH a file it can read.
#[derive(Debug, Args)]
#[command(after_help = "Examples:\n  \
    sabir agent add https://ledger.example\n  \
    sabir agent add https://ledger.example --name books --bearer env:LEDGER_TOKEN\n  \
    sabir agent add https://graphs.example/a2a/my-assistant --profile langsmith --api-key env:LANGSMITH_API_KEY\n  \
    sabir agent add http://127.0.0.1:9999 --on-drift hold --data /var/lib/sabir")]
pub(crate) struct AgentAdd {
    /// Where the agent is: a host, a URL of it, or that of its card.
    url: String,
    /// What it is called here; made from its card where nothing is said.
    #[arg(long, value_name = "NAME")]
    name: Option<String>,
    /// The habits of its vendor, where they are not A2A's: sabir agent profiles lists them. Those of a vendor whose own
    /// address it is are taken without being asked for.
    #[arg(long, value_name = "PROFILE")]
    profile: Option<String>,
    /// A token to show it: env:NAME or file:PATH.
    #[arg(long, value_name = "REFERENCE")]
    bearer: Option<String>,
    /// A key to show it where its card says: env:NAME or file:PATH.
    #[arg(long, value_name = "REFERENCE")]
    api_key: Option<String>,
    /// It recognises a message that it has seen, or does no harm by answering it twice.
    #[arg(long)]
    idempotent: bool,
    /// Tell webhooks of callers about its tasks, whether or not the agent itself knows webhooks.
    #[arg(long)]
    push: bool,
    /// What happens when its card changes: alert uses the new one, hold waits for sabir agent approve.
    #[arg(long, value_name = "WHAT", value_parser = ["alert", "hold"])]
    on_drift: Option<String>,
    /// Do not try its interfaces out: it is asleep, or cannot be called from here.
    #[arg(long)]
    untried: bool,
    #[command(flatten)]
    server: ServerTarget,
}

impl Verb for AgentAdd {
    fn run(self, Invocation { out, .. }: Invocation) -> Outcome {
        let mut settings = Map::new();
        for (key, flag, reference) in [("bearer", "--bearer", &self.bearer), ("api_key", "--api-key", &self.api_key)] {
            if let Some(text) = reference {
                settings.insert(key.into(), parse_secret(flag, text, self.server.is_remote())?.to_string().into());
            }
        }
        if self.idempotent {
            settings.insert("idempotent".into(), true.into());
        }
        if self.push {
            settings.insert("card".into(), json!({"capabilities": {"push_notifications": true}}));
        }
        if let Some(on_drift) = &self.on_drift {
            settings.insert("on_drift".into(), on_drift.clone().into());
        }
        let url = with_scheme(&self.url)?;
        let Self { name, profile, untried, server, .. } = self;
        let added = server.ask(AddAgent { url, name, profile, settings, untried })?;
        server.note_store(&out)?;
        for remark in &added.remarks {
            out.warn(&format!("its card: {remark}"));
        }
        print_json(&out, &added)?;
        let (agent, card) = (&added.agent, &added.card);
        out.text(|fields| {
            fields.field("Agent", &agent.name);
            fields.field("URL", &agent.url);
            fields.maybe("Profile", agent.profile.as_deref());
            fields.maybe("Card", card.url.as_deref());
            fields.field("Signature", &added.signature);
            for tried in &added.tried {
                let outcome = tried.problem.as_deref().unwrap_or("answers");
                fields.field("Tried", &format!("{}: {outcome}", tried.interface));
            }
            fields.field("Pinned", &cards::pinned_interface(&card.interface));
            fields.field("Digest", &card.digest);
            fields.field("Served at", &format!("/agents/{}", agent.name));
        })?;
        Ok(Exit::Done)
    }
}

/// List the agents of a server: those of its file, and those that were added.
#[derive(Debug, Args)]
pub(crate) struct AgentList {
    #[command(flatten)]
    server: ServerTarget,
}

impl Verb for AgentList {
    fn run(self, Invocation { out, .. }: Invocation) -> Outcome {
        let list = self.server.ask(ListAgents {})?;
        print_json(&out, &list)?;
        out.text(|fields| {
            list.agents.iter().for_each(|one| write_summary(fields, one));
            fields.field("Total", &list.agents.len().to_string());
        })?;
        Ok(Exit::Done)
    }
}

/// Show one agent: where it is, what is pinned, and whether a card of it waits to be approved.
#[derive(Debug, Args)]
pub(crate) struct AgentShow {
    /// Its name.
    name: String,
    #[command(flatten)]
    server: ServerTarget,
}

impl Verb for AgentShow {
    fn run(self, Invocation { out, .. }: Invocation) -> Outcome {
        let one = self.server.ask(ShowAgent { name: self.name })?;
        print_json(&out, &one)?;
        out.text(|fields| {
            write_summary(fields, &one);
            fields.maybe("Profile", one.profile.as_deref());
            fields.maybe("Settings", one.settings.as_ref().map(ToString::to_string).as_deref());
            fields.maybe("Added", one.added_at.map(|at| at.to_string()).as_deref());
            if let Some(used) = &one.card {
                fields.field("Card", &format!("number {} of {}", used.number, used.seen_at));
                fields.maybe("Found at", used.url.as_deref());
                fields.field("Digest", &used.digest);
                fields.field("Signed by", used.signer.as_deref().unwrap_or("no trusted key"));
            }
        })?;
        Ok(Exit::Done)
    }
}

/// An agent that was added by a command.
#[derive(Debug, Args)]
struct AddedAgent {
    /// Its name.
    name: String,
    #[command(flatten)]
    server: ServerTarget,
}

impl AddedAgent {
    fn change<O: AdminOperation<Output = RegisteredAgentView>>(
        self,
        out: &Output,
        label: &str,
        operation: fn(String) -> O,
    ) -> Outcome {
        let agent = self.server.ask(operation(self.name))?;
        print_json(out, &agent)?;
        out.text(|fields| fields.field(label, &agent.name))?;
        Ok(Exit::Done)
    }
}

/// Serve an agent again that was disabled.
#[derive(Debug, Args)]
pub(crate) struct AgentEnable {
    #[command(flatten)]
    which: AddedAgent,
}

impl Verb for AgentEnable {
    fn run(self, Invocation { out, .. }: Invocation) -> Outcome {
        self.which.change(&out, "Enabled", |name| EnableAgent { name })
    }
}

/// Serve an agent no longer, and keep what is known of it. Tasks that run go on.
#[derive(Debug, Args)]
pub(crate) struct AgentDisable {
    #[command(flatten)]
    which: AddedAgent,
}

impl Verb for AgentDisable {
    fn run(self, Invocation { out, .. }: Invocation) -> Outcome {
        self.which.change(&out, "Disabled", |name| DisableAgent { name })
    }
}

/// Remove an agent that was added, and the history of its cards. Tasks that run go on, and tasks are kept.
#[derive(Debug, Args)]
pub(crate) struct AgentRemove {
    #[command(flatten)]
    which: AddedAgent,
}

impl Verb for AgentRemove {
    fn run(self, Invocation { out, .. }: Invocation) -> Outcome {
        self.which.change(&out, "Removed", |name| RemoveAgent { name })
    }
}

/// Parses a secret reference. A relative path starts where it was typed, since the server runs in another directory.
fn parse_secret(flag: &str, text: &str, is_remote: bool) -> Result<SecretRef, Problem> {
    let wrong = |what: String| Problem::usage(format!("{flag}: {what}")).hint("sabir agent add --help");
    match SecretRef::parse(text).map_err(|fault| wrong(fault.to_string()))? {
        named if is_remote => Ok(named),
        SecretRef::File(path) => {
            Ok(SecretRef::File(std::path::absolute(path).map_err(|error| wrong(error.to_string()))?))
        }
        named @ SecretRef::Env(_) => Ok(named),
    }
}

/// Adds the scheme to a URL, as the server reads it.
fn with_scheme(text: &str) -> Result<String, Problem> {
    match sabir_client::AgentReference::parse(text) {
        Ok(sabir_client::AgentReference::File(_)) => {
            Err(Problem::usage(format!("{text} is a file; an agent elsewhere is given by its URL")))
        }
        Ok(reference) => Ok(reference.to_string()),
        Err(error) => Err(Problem::usage(error.to_string()).hint("sabir agent add --help")),
    }
}

fn write_summary(fields: &mut Fields, one: &AgentView) {
    fields.field("Agent", &one.name);
    fields.field("Kind", &one.kind);
    fields.maybe("URL", one.url.as_deref());
    fields.field("From", origin_name(one.origin));
    if let Some(enabled) = one.enabled {
        fields.field("State", if enabled { "enabled" } else { "disabled" });
    }
    if let Some(used) = &one.card {
        fields.field("Pinned", &cards::pinned_interface(&used.interface));
    }
    if let Some(held) = &one.held {
        let changes = held.changes.join(", ");
        fields.field("Held", &format!("card {} ({changes}); sabir agent approve {}", held.number, one.name));
    }
}

const fn origin_name(origin: AgentOrigin) -> &'static str {
    match origin {
        AgentOrigin::File => "the configuration",
        AgentOrigin::Added => "the registry",
    }
}
