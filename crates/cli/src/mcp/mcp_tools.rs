//! Runs the tools: finds an agent, and makes one call to it.

use super::catalog::{AgentLookup, ToolAction};
use crate::call::Session;
use crate::problem::Problem;
use sabir_client::xpr::{ChainRegistry, EscrowJob};
use sabir_client::{
    Agent, AgentReference, Client, Credentials, DiscoveredCard, Egress, PollSchedule, VersionPolicy, describe_scheme,
    message_id, send_message,
};
use sabir_proto::{
    CancelTask, Content, ContextId, Json, Message, NonText, Object, Part, Role, TaskRef, Tenant, WireReply, WireTask,
};
use sabir_server::config::network::IpNetwork;
use sabir_server::{XprRegistration, XprRegistry};
use serde_json::{Map, Value, json};
use std::time::Duration;
use url::Url;

/// How long an answer is waited for, unless the caller says otherwise.
const WAIT_SECONDS: u64 = 60;
/// The longest wait that a caller may ask for.
const WAIT_SECONDS_MAX: u64 = 600;
/// Bytes of text that a tool gives back: what is longer is of no use to a model, and it can be read otherwise.
const TEXT_BYTES_MAX: usize = 256 << 10;
/// Characters of instructions that are shown for confirmation.
const SHOWN_CHARS: usize = 100;

/// One run of `sabir mcp`.
pub(super) struct McpTools {
    session: Session,
    egress: Egress,
    chain: Option<ChainTables>,
    confirm: bool,
}

/// What a chain knows: where accounts are reached and what they agreed, and how far their agents can be trusted.
struct ChainTables {
    jobs: ChainRegistry,
    agents: XprRegistry,
}

type Arguments = Map<String, Value>;

impl McpTools {
    pub(super) fn new(
        session: Session,
        allowed: &[IpNetwork],
        node: Option<&Url>,
        confirm: bool,
    ) -> Result<Self, Problem> {
        let wrong = |error: sabir_client::Error| Problem::usage(error.to_string()).hint("sabir mcp --help");
        let mut egress = allowed.iter().fold(Egress::public(), |policy, network| policy.and_network(network.net()));
        // The agent that the user named may be at any address; one that a tool names may not, unless it is the same
        // place.
        let named = session.settings.agent_card.text().and_then(|text| AgentReference::parse(text).ok());
        if let Some(AgentReference::Origin(url) | AgentReference::Url(url)) = named {
            egress = egress.and_endpoint(&url);
        }
        let tls = crate::call::tls(&session.settings).map_err(wrong)?;
        let chain = match node {
            None => None,
            Some(node) => {
                let agents = XprRegistry::new(node, &tls);
                let agents = agents.map_err(|error| Problem::usage(error).hint("sabir mcp --help"))?;
                Some(ChainTables { jobs: ChainRegistry::new(node, &tls).map_err(wrong)?, agents })
            }
        };
        Ok(Self { session, egress, chain, confirm })
    }

    /// Runs a tool. The error is for the user of the tool.
    pub(super) async fn run(
        &self,
        lookup: AgentLookup,
        action: ToolAction,
        arguments: &Arguments,
    ) -> Result<Value, String> {
        match action {
            ToolAction::Discover => self.discover(lookup, arguments).await,
            ToolAction::Send => self.send(lookup, arguments).await,
            ToolAction::Get => {
                let agent = self.agent(lookup, arguments).await?;
                let said = agent.task(&task(arguments)?).await.map_err(|e| e.to_string())?;
                Ok(task_json(&said.value))
            }
            ToolAction::Cancel => {
                let agent = self.agent(lookup, arguments).await?;
                let request = CancelTask { tenant: Tenant::none(), id: task(arguments)?, metadata: None };
                let said = agent.cancel(request).await.map_err(|e| e.to_string())?;
                Ok(task_json(&said.value))
            }
            ToolAction::Delegate => self.delegate(lookup, arguments).await,
        }
    }

    /// The card of an agent. For an agent that is known by its account, the chain says how far it can be trusted; its
    /// card is only its own word.
    async fn discover(&self, lookup: AgentLookup, arguments: &Arguments) -> Result<Value, String> {
        let found = self.find_card(lookup, arguments).await?;
        let mut described = card_json(&found);
        if let (AgentLookup::Account, Some(chain)) = (lookup, &self.chain) {
            let account = text(arguments, "account")?;
            match chain.agents.registration(account).await {
                Ok(known) => described["xpr"] = registration_json(account, &known),
                Err(why) => described["xprProblem"] = why.into(),
            }
        }
        Ok(described)
    }

    async fn send(&self, lookup: AgentLookup, arguments: &Arguments) -> Result<Value, String> {
        let mut parts = vec![Part::text(text(arguments, "text")?)];
        if let Some(data) = arguments.get("data").filter(|data| !data.is_null()) {
            parts.push(Part::data(Json::of(data).map_err(|e| format!("data: {e}"))?));
        }
        let mut message = user_message(parts);
        if let Some(id) = arguments.get("taskId").and_then(Value::as_str) {
            message.task_id = Some(TaskRef::parse(id).map_err(|e| format!("taskId {e}"))?);
        }
        if let Some(id) = arguments.get("contextId").and_then(Value::as_str) {
            message.context_id = Some(ContextId::parse(id).map_err(|e| format!("contextId {e}"))?);
        }
        let mut metadata = Map::new();
        if let Some(skill) = arguments.get("skill").and_then(Value::as_str) {
            metadata.insert("urn:sabir:ext:skill:v1".into(), skill.into());
        }
        if let Some(job) = number(arguments, "jobId")?.filter(|job| *job != 0) {
            metadata.insert("xpr:jobId".into(), job.into());
        }
        let seconds = number(arguments, "waitSeconds")?.unwrap_or(WAIT_SECONDS).min(WAIT_SECONDS_MAX);
        let agent = self.agent(lookup, arguments).await?;
        send_and_wait(&agent, with_metadata(message, &metadata)?, Duration::from_secs(seconds)).await
    }

    async fn delegate(&self, lookup: AgentLookup, arguments: &Arguments) -> Result<Value, String> {
        let instructions = text(arguments, "instructions")?;
        let id = number(arguments, "jobId")?.filter(|id| *id != 0);
        let target = match lookup {
            AgentLookup::Account => text(arguments, "account")?.to_owned(),
            AgentLookup::Reference => self.agent_reference(arguments)?.to_owned(),
        };
        if self.confirm && arguments.get("confirmed") != Some(&Value::Bool(true)) {
            let start: String = instructions.chars().take(SHOWN_CHARS).collect();
            let more = if start.len() < instructions.len() { "…" } else { "" };
            return Ok(json!({
                "needs_confirmation": true,
                "action": "Delegate Job via A2A",
                "details": {"target_agent": target, "job_id": id, "instructions": format!("{start}{more}")},
                "message": "Nothing was sent. Ask the user, then call again with confirmed = true.",
            }));
        }
        let words = match (lookup, id) {
            (AgentLookup::Account, None) => return Err("jobId is the number of a job".into()),
            (AgentLookup::Account, Some(id)) => {
                job_order(&self.registry()?.job(id).await.map_err(|e| e.to_string())?, instructions)
            }
            (AgentLookup::Reference, Some(id)) => format!("# Job #{id}\n\n## Instructions\n\n{instructions}"),
            (AgentLookup::Reference, None) => instructions.to_owned(),
        };
        let mut metadata = Map::new();
        if let Some(id) = id {
            metadata.insert("xpr:jobId".into(), id.into());
        }
        let agent = self.agent(lookup, arguments).await?;
        let message = with_metadata(user_message(vec![Part::text(words)]), &metadata)?;
        send_and_wait(&agent, message, Duration::from_secs(WAIT_SECONDS)).await
    }

    /// The reference that a tool was given, or that of this run.
    fn agent_reference<'a>(&'a self, arguments: &'a Arguments) -> Result<&'a str, String> {
        let given = arguments.get("agent").and_then(Value::as_str).filter(|text| !text.is_empty());
        let named = given.or_else(|| self.session.settings.agent_card.text());
        named.ok_or_else(|| "no agent was given, and none is configured: give its URL as agent".to_owned())
    }

    fn registry(&self) -> Result<&ChainRegistry, String> {
        self.chain.as_ref().map(|chain| &chain.jobs).ok_or_else(|| "no node of the chain is configured".to_owned())
    }

    /// The card of the agent that is meant.
    async fn find_card(&self, lookup: AgentLookup, arguments: &Arguments) -> Result<DiscoveredCard, String> {
        let reference = match lookup {
            AgentLookup::Reference => {
                AgentReference::parse(self.agent_reference(arguments)?).map_err(|e| e.to_string())?
            }
            AgentLookup::Account => {
                let endpoint =
                    self.registry()?.endpoint(text(arguments, "account")?).await.map_err(|e| e.to_string())?;
                AgentReference::parse(endpoint.as_str()).map_err(|e| e.to_string())?
            }
        };
        if matches!(lookup, AgentLookup::Reference)
            && !self.is_ours(arguments)
            && matches!(reference, AgentReference::File(_))
        {
            return Err("an agent is given by its URL".into());
        }
        let found = self.client(Credentials::default(), false)?.card(&reference).await.map_err(|e| e.to_string())?;
        let believed = self.session.require_trust(found).await.map_err(|stop| stop_text(&stop))?;
        Ok(believed.into_found())
    }

    /// Connects to the named agent, with the credentials that it may see.
    async fn agent(&self, lookup: AgentLookup, arguments: &Arguments) -> Result<Agent, String> {
        let found = self.find_card(lookup, arguments).await?;
        let ours = lookup == AgentLookup::Reference && self.is_ours(arguments);
        let credentials = if ours {
            self.session.credentials(&found).await.map_err(|stop| stop_text(&stop))?
        } else {
            let tokens = self.session.stored_tokens(&found).await.map_err(|stop| stop_text(&stop))?;
            let signer = match lookup {
                AgentLookup::Account => self.session.account_signer().map_err(|problem| problem.message)?,
                AgentLookup::Reference => None,
            };
            Credentials { tokens: tokens.into_iter().collect(), signer, ..Credentials::default() }
        };
        self.client(credentials, ours)?.agent(found).map_err(|e| e.to_string())
    }

    /// Whether the agent of this run is meant.
    fn is_ours(&self, arguments: &Arguments) -> bool {
        let own = self.session.settings.agent_card.text();
        own.is_some() && self.agent_reference(arguments).ok() == own
    }

    /// A client under the policy for tools. Other settings of this run are only for the agent of this run.
    fn client(&self, credentials: Credentials, ours: bool) -> Result<Client, String> {
        let builder = if ours {
            self.session.builder(credentials).map_err(|e| e.to_string())?
        } else {
            Client::builder().credentials(credentials)
        };
        let version =
            if self.session.settings.a2a_version.text().is_some() && ours { None } else { Some(VersionPolicy::Any) };
        let builder = version.into_iter().fold(builder, |builder, version| builder.version(version));
        builder.egress(self.egress.clone()).build().map_err(|e| e.to_string())
    }
}

fn user_message(parts: Vec<Part>) -> Message {
    Message { parts, ..Message::text(message_id(), Role::User, "") }
}

fn with_metadata(mut message: Message, metadata: &Map<String, Value>) -> Result<Message, String> {
    if !metadata.is_empty() {
        message.metadata = Some(Object::from_map(metadata).map_err(|e| e.to_string())?);
    }
    Ok(message)
}

/// Sends a message, and waits as long as allowed. A caller whose time runs out learns how to ask for the task.
async fn send_and_wait(agent: &Agent, message: Message, patience: Duration) -> Result<Value, String> {
    let mut request = send_message(message);
    request.configuration.return_immediately = true;
    let said = agent.send(request).await.map_err(|e| e.to_string())?;
    let task = match said.value {
        WireReply::SentMessage(message) => {
            return Ok(
                json!({"state": "message", "contextId": message.context_id, "text": truncated(message.joined_text())}),
            );
        }
        WireReply::SentTask(task) => task,
        _ => return Err("the agent answered with neither a task nor a message".into()),
    };
    if task.status.state.is_settled() || task.status.state.is_interrupted() {
        return Ok(task_json(&task));
    }
    match tokio::time::timeout(patience, agent.wait(task.id.clone(), PollSchedule::every(Duration::from_millis(500))))
        .await
    {
        Ok(Ok(said)) => Ok(task_json(&said.value)),
        Ok(Err(error)) => Err(format!("task {} was begun, and then: {error}", task.id)),
        Err(_) => {
            let mut shown = task_json(&task);
            shown["next"] = json!("The agent is still working: ask with get_task later.");
            Ok(shown)
        }
    }
}

/// A task, as a user of the tools needs it.
fn task_json(task: &WireTask) -> Value {
    let state = task.status.state;
    let mut shown = json!({
        "taskId": task.id.to_string(),
        "contextId": task.context_id,
        "state": state.name(),
        "text": truncated(task.answer_text(NonText::Skip)),
    });
    if state.is_interrupted() {
        shown["question"] = json!(task.status.message.as_ref().map(Message::joined_text).unwrap_or_default());
        shown["next"] = json!("Answer with send_message and this taskId.");
    }
    let kind = |part: &Part| match &part.content {
        Content::Text(_) => json!("text"),
        Content::Data(json) => json!({"data": serde_json::from_str::<Value>(json.as_str()).unwrap_or_default()}),
        Content::Url(url) => json!({"url": url}),
        Content::Raw(bytes) => {
            json!({"file": part.filename, "mediaType": part.media_type, "bytes": bytes.len()})
        }
    };
    let artifacts = task.artifacts.iter().map(|artifact| {
        json!({"id": artifact.artifact_id.to_string(), "name": artifact.name,
            "parts": artifact.parts.iter().map(kind).collect::<Vec<_>>()})
    });
    shown["artifacts"] = artifacts.collect();
    shown
}

/// A card, as a user of the tools needs it.
fn card_json(found: &DiscoveredCard) -> Value {
    let card = &found.card;
    let skills = card.skills.iter().map(|skill| {
        json!({"id": skill.id, "name": skill.name, "description": skill.description, "tags": skill.tags,
            "examples": skill.examples})
    });
    let speaks = card.supported_interfaces.iter().map(|interface| {
        json!({"binding": interface.protocol_binding, "version": interface.protocol_version, "url": interface.url})
    });
    let asks = card.security_schemes.iter().map(|(name, scheme)| (name.clone(), describe_scheme(name, scheme).into()));
    let mut described = json!({
        "name": card.name, "description": card.description, "version": card.version,
        "card": found.url.as_ref().map(Url::as_str),
        "streaming": card.capabilities.streaming,
        "skills": skills.collect::<Vec<_>>(),
        "interfaces": speaks.collect::<Vec<_>>(),
        "credentials": asks.collect::<Map<String, Value>>(),
    });
    if let Some(own) = &found.xpr {
        described["xpr"] = json!({
            "account": own.account, "owner": own.owner, "registeredAt": own.registered_at,
            "trustScore": own.trust_score, "kycLevel": own.kyc_level, "source": "card",
        });
    }
    described
}

/// What the chain says of an agent.
fn registration_json(account: &str, known: &XprRegistration) -> Value {
    json!({
        "account": account, "owner": known.owner, "registeredAt": known.registered_at,
        "trustScore": known.trust_score, "kycLevel": known.kyc_level, "source": "chain",
    })
}

/// The order for a job, as the network's own tool writes it.
fn job_order(job: &EscrowJob, instructions: &str) -> String {
    let EscrowJob { id, title, description, deliverables, amount, deadline, .. } = job;
    format!(
        "# {title}\n\n**Job ID:** {id}\n\n**Description:** {description}\n\n**Deliverables:** {deliverables}\n\n\
         **Amount:** {amount} XPR\n\n**Deadline:** {deadline}\n\n## Instructions\n\n{instructions}"
    )
}

fn truncated(mut text: String) -> String {
    if text.len() > TEXT_BYTES_MAX {
        text.truncate(text.floor_char_boundary(TEXT_BYTES_MAX));
        text.push('…');
    }
    text
}

fn text<'a>(arguments: &'a Arguments, name: &str) -> Result<&'a str, String> {
    let given = arguments.get(name).and_then(Value::as_str).filter(|text| !text.trim().is_empty());
    given.ok_or_else(|| format!("the argument {name:?} must be a text that is not empty"))
}

fn number(arguments: &Arguments, name: &str) -> Result<Option<u64>, String> {
    match arguments.get(name) {
        None | Some(Value::Null) => Ok(None),
        // Models write numbers as text, too.
        Some(value) => match value.as_u64().or_else(|| value.as_str()?.trim().parse().ok()) {
            Some(number) => Ok(Some(number)),
            None => Err(format!("the argument {name:?} must be a whole number")),
        },
    }
}

fn task(arguments: &Arguments) -> Result<TaskRef, String> {
    TaskRef::parse(text(arguments, "taskId")?).map_err(|e| format!("taskId {e}"))
}

fn stop_text(stop: &crate::problem::Stop) -> String {
    match stop {
        crate::problem::Stop::Problem(problem) => problem.message.clone(),
        crate::problem::Stop::ReaderGone => "the reader has gone".into(),
    }
}
