//! `sabir agent …`: remote agents that a server of ours serves.

mod cards;
mod profiles;

pub(crate) use cards::{AgentApprove, AgentCardShow, AgentHistory, AgentRefresh};
pub(crate) use profiles::AgentProfiles;

use super::{ServerFiles, wait};
use crate::Invocation;
use crate::cli::Verb;
use crate::exit::Exit;
use crate::output::Output;
use crate::problem::{Outcome, Problem};
use crate::render::Fields;
use clap::Args;
use sabir_server::admin::{
    AgentError, AgentOrigin, AgentView, CardState, Expect, NewAgent, RegisteredAgent, SecretRef,
};
use serde_json::{Map, Value, json};

/// The code and the hint for a refused agent.
pub(super) const fn code_and_hint(fault: &AgentError) -> (&'static str, &'static str) {
    match fault {
        AgentError::Unknown(_) => ("SABIR_ERR_UNKNOWN_AGENT", "sabir agent list shows all of them"),
        AgentError::InFile { .. } => {
            ("SABIR_ERR_NAME_TAKEN", "agents of the file come and go with it; edit the file, or take another --name")
        }
        AgentError::Name(..) => {
            ("SABIR_ERR_NAME", "take letters, digits, - and _: sabir agent add URL --name my-agent")
        }
        AgentError::NotElsewhere(_) => ("SABIR_ERR_NOT_ELSEWHERE", "sabir agent list shows which agents are elsewhere"),
        AgentError::NoCard(_) => ("SABIR_ERR_NO_CARD", "sabir doctor URL looks at every place where a card may be"),
        AgentError::Unfit(_) => (
            "SABIR_ERR_UNFIT",
            "sabir doctor URL looks further; [egress] allow = [...] names private addresses that may be called, and \
             --untried adds an agent that is asleep",
        ),
        AgentError::Settings(_) => ("SABIR_ERR_SETTINGS", "sabir agent add --help"),
        AgentError::NothingHeld(_) => ("SABIR_ERR_NOTHING_HELD", "sabir agent history NAME shows its cards"),
    }
}

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
    server: ServerFiles,
}

impl Verb for AgentAdd {
    fn run(self, Invocation { out, .. }: Invocation) -> Outcome {
        let mut settings = Map::new();
        for (key, flag, reference) in [("bearer", "--bearer", &self.bearer), ("api_key", "--api-key", &self.api_key)] {
            if let Some(text) = reference {
                settings.insert(key.into(), parse_secret(flag, text)?.to_string().into());
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
        let order = NewAgent { url, name: self.name, profile: self.profile, settings, untried: self.untried };
        let config = self.server.config()?;
        let admin = self.server.open(Expect::Any)?;
        let arrival = wait(admin.add_agent(&config, order))?;
        out.note(&format!("Store: {}", admin.path().display()));
        for remark in &arrival.remarks {
            out.warn(&format!("its card: {remark}"));
        }
        let (agent, card) = (&arrival.agent, &arrival.card.observation);
        if out.is_json() {
            let tried: Vec<Value> = arrival
                .tried
                .iter()
                .map(|tried| json!({"interface": tried.interface, "problem": tried.problem}))
                .collect();
            let mut said = added_json(agent);
            said["card"] = cards::kept_card_json(&arrival.card);
            said["signature"] = arrival.signature.clone().into();
            said["tried"] = tried.into();
            out.document(&said.to_string())?;
            return Ok(Exit::Done);
        }
        out.text(|fields| {
            fields.field("Agent", agent.name.as_str());
            fields.field("URL", &agent.url);
            fields.maybe("Profile", agent.profile.as_deref());
            fields.maybe("Card", card.url.as_deref());
            fields.field("Signature", &arrival.signature);
            for tried in &arrival.tried {
                let outcome = tried.problem.as_deref().unwrap_or("answers");
                fields.field("Tried", &format!("{}: {outcome}", tried.interface));
            }
            fields.field("Pinned", &cards::pinned_interface(&card.pin));
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
    server: ServerFiles,
}

impl Verb for AgentList {
    fn run(self, Invocation { out, .. }: Invocation) -> Outcome {
        let config = self.server.config()?;
        let all = wait(self.server.open(Expect::Any)?.agents(&config))?;
        if out.is_json() {
            let all: Vec<Value> = all.iter().map(view_json).collect();
            out.document(&json!({"agents": all}).to_string())?;
            return Ok(Exit::Done);
        }
        out.text(|fields| {
            for one in &all {
                write_summary(fields, one);
            }
            fields.field("Total", &all.len().to_string());
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
    server: ServerFiles,
}

impl Verb for AgentShow {
    fn run(self, Invocation { out, .. }: Invocation) -> Outcome {
        let config = self.server.config()?;
        let one = wait(self.server.open(Expect::Any)?.agent(&config, &self.name))?;
        if out.is_json() {
            out.document(&view_json(&one).to_string())?;
        }
        out.text(|fields| {
            write_summary(fields, &one);
            if let Some(added) = &one.added {
                fields.maybe("Profile", added.profile.as_deref());
                fields.field("Settings", &added.settings);
                fields.field("Added", &added.added_at.to_string());
            }
            if let Some(used) = one.card(CardState::Used) {
                fields.field("Card", &format!("number {} of {}", used.number, used.observation.at));
                fields.maybe("Found at", used.observation.url.as_deref());
                fields.field("Digest", &used.observation.digest);
                fields.field("Signed by", used.observation.pin.signer.as_deref().unwrap_or("no trusted key"));
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
    server: ServerFiles,
}

impl AddedAgent {
    fn enable(&self, out: &Output, enabled: bool) -> Outcome {
        let config = self.server.config()?;
        let agent = wait(self.server.open(Expect::Existing)?.enable_agent(&config, &self.name, enabled))?;
        if out.is_json() {
            out.document(&added_json(&agent).to_string())?;
        }
        out.text(|fields| fields.field(if enabled { "Enabled" } else { "Disabled" }, agent.name.as_str()))?;
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
        self.which.enable(&out, true)
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
        self.which.enable(&out, false)
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
        let AddedAgent { name, server: place } = self.which;
        let config = place.config()?;
        let agent = wait(place.open(Expect::Existing)?.remove_agent(&config, &name))?;
        if out.is_json() {
            out.document(&added_json(&agent).to_string())?;
        }
        out.text(|fields| fields.field("Removed", agent.name.as_str()))?;
        Ok(Exit::Done)
    }
}

/// Parses a secret reference. A relative path starts where it was typed, since the server runs in another directory.
fn parse_secret(flag: &str, text: &str) -> Result<SecretRef, Problem> {
    let wrong = |what: String| Problem::usage(format!("{flag}: {what}")).hint("sabir agent add --help");
    match SecretRef::parse(text).map_err(|fault| wrong(fault.to_string()))? {
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
    if let Some(added) = &one.added {
        fields.field("State", if added.enabled { "enabled" } else { "disabled" });
    }
    if let Some(used) = one.card(CardState::Used) {
        fields.field("Pinned", &cards::pinned_interface(&used.observation.pin));
    }
    if let Some(held) = one.card(CardState::Held) {
        let changes = held.observation.changes.join(", ");
        fields.field("Held", &format!("card {} ({changes}); sabir agent approve {}", held.number, one.name));
    }
}

const fn origin_name(origin: AgentOrigin) -> &'static str {
    match origin {
        AgentOrigin::File => "the configuration",
        AgentOrigin::Added => "the registry",
    }
}

fn added_json(agent: &RegisteredAgent) -> Value {
    let settings: Value = serde_json::from_str(&agent.settings).unwrap_or_default();
    json!({
        "name": agent.name.as_str(), "url": agent.url, "profile": agent.profile, "settings": settings,
        "enabled": agent.enabled, "addedAt": agent.added_at,
    })
}

fn view_json(one: &AgentView) -> Value {
    let mut said = one.added.as_ref().map_or_else(|| json!({"name": one.name, "url": one.url}), added_json);
    said["kind"] = one.kind.clone().into();
    said["origin"] = match one.origin {
        AgentOrigin::File => "file",
        AgentOrigin::Added => "added",
    }
    .into();
    said["card"] = one.card(CardState::Used).map(cards::kept_card_json).into();
    said["held"] = one.card(CardState::Held).map(cards::kept_card_json).into();
    said
}
