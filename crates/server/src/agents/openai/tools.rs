//! The tools that a model may use on this turn, and the result of each use.
//!
//! One place decides what is offered, and the same place decides again when something is used: a model writes whatever
//! it likes, also the name of a tool that it was not offered.

use super::chat::ToolCall;
use super::mcp::McpServer;
use crate::agents::AgentEnvironment;
use crate::config::openai::{AGENTS, OpenaiConfig};
use crate::directory::AgentDirectory;
use crate::directory::peers::{PeerAgent, names};
use sabir_engine::{Context, Ending, Failure};
use sabir_gateway::{DelegationOutcome, MirrorSettings, delegate};
use sabir_proto::{AgentName, NonText, Part, ToolMode};
use serde_json::{Map, Value, json};
use std::sync::Weak;

/// The longest tool name that endpoints accept.
const NAME_BYTES_MAX: usize = 64;
/// The tool with which a model asks its caller.
const ASK: &str = "ask_user";

/// All the tools that an agent of this kind may offer.
pub(super) struct Tools {
    asks: bool,
    agents: Vec<AgentName>,
    directory: Weak<AgentDirectory>,
    servers: Vec<McpServer>,
    result_bytes_max: usize,
}

/// A tool that a model may use on this turn.
pub(super) struct OfferedTool {
    name: String,
    description: String,
    parameters: Value,
    target: ToolTarget,
}

/// What a tool of the model calls.
#[derive(Debug, Clone, PartialEq, Eq)]
enum ToolTarget {
    /// The caller, with a question.
    Caller,
    /// Another agent of this server.
    Agent(AgentName),
    /// A tool of one of the servers.
    Mcp { server: usize, tool: String },
}

/// The result of using a tool.
pub(super) enum ToolOutcome {
    /// The text goes to the model.
    Found(String),
    /// The turn ends with a question of the model. The answer is a message like any other.
    Asks(Ending),
    /// The turn ends with the question of an agent. The answer of that agent is the result of this use.
    Waits(Ending),
}

impl OfferedTool {
    /// The definition in the form of the endpoint.
    pub(super) fn definition(&self) -> Value {
        let Self { name, description, parameters, .. } = self;
        json!({"type": "function", "function": {"name": name, "description": description, "parameters": parameters}})
    }
}

impl Tools {
    pub(super) fn new(config: &OpenaiConfig, ground: &AgentEnvironment<'_>) -> Result<Self, String> {
        let servers = config.tools.mcp.iter().map(|server| McpServer::new(server, &config.limits, ground));
        Ok(Self {
            asks: config.asks,
            agents: names("openai.tools.agents", &config.tools.agents)?,
            directory: ground.directory.clone(),
            servers: servers.collect::<Result<_, _>>()?,
            result_bytes_max: config.limits.result_bytes_max,
        })
    }

    /// The tools for this turn. A server that does not answer fails the turn: without its tools a model would make
    /// something up.
    pub(super) async fn offered(&self, mode: ToolMode) -> Result<Vec<OfferedTool>, String> {
        let mut offers = Vec::new();
        if self.asks {
            let parameters = json!({
                "type": "object",
                "properties": {"question": {"type": "string", "description": "What to ask."}},
                "required": ["question"],
            });
            let description =
                "Asks the user something that only they can know. Their answer comes as their next message.";
            offers.push(OfferedTool {
                name: ASK.into(),
                description: description.into(),
                parameters,
                target: ToolTarget::Caller,
            });
        }
        // The name of an agent does not show what it changes, so agents are offered only where changes are allowed.
        if mode == ToolMode::Full
            && let Some(directory) = self.directory.upgrade()
        {
            offers.extend(self.agents.iter().filter_map(|name| directory.peer(name)).map(agent_tool));
        }
        for (at, server) in self.servers.iter().enumerate() {
            for tool in server.tools().await? {
                let hint = tool.annotations.as_ref().and_then(|annotations| annotations.read_only_hint);
                if !mode.allows(&tool.name, hint) {
                    continue;
                }
                let name = plain_name(server.name(), &tool.name);
                let description = tool.description.as_deref().unwrap_or_default().to_owned();
                let what = ToolTarget::Mcp { server: at, tool: tool.name.to_string() };
                offers.push(OfferedTool { name, description, parameters: tool.schema_as_json_value(), target: what });
            }
        }
        Ok(offers)
    }

    /// Uses a tool. `key` is the same each time this use is tried.
    pub(super) async fn use_one(
        &self,
        cx: &Context,
        offers: &[OfferedTool],
        call: &ToolCall,
        key: &str,
    ) -> Result<ToolOutcome, Failure> {
        let name = &call.function.name;
        let Some(offer) = offers.iter().find(|offer| offer.name == *name) else {
            tracing::warn!(tool = %name, mode = cx.tool_mode().name(), "a model wanted a tool that it was not offered");
            return Ok(ToolOutcome::Found(format!("error: there is no tool {name:?} for you to use")));
        };
        let arguments = match read_arguments(&call.function.arguments) {
            Ok(arguments) => arguments,
            Err(problem) => return Ok(ToolOutcome::Found(format!("error: {problem}"))),
        };
        match &offer.target {
            ToolTarget::Caller => {
                let question = arguments.get("question").and_then(Value::as_str).unwrap_or("What do you mean?");
                Ok(ToolOutcome::Asks(Ending::ask_input(question)))
            }
            ToolTarget::Agent(agent) => {
                let told = arguments.get("text").and_then(Value::as_str).unwrap_or(&call.function.arguments);
                cx.status(format!("asking {agent}")).await?;
                let asked = delegate(cx, agent, key, vec![Part::text(told)], None, &MirrorSettings::NOTHING).await;
                let found = match asked {
                    Ok(DelegationOutcome::NeedsInput(ending)) => return Ok(ToolOutcome::Waits(ending)),
                    Ok(DelegationOutcome::Completed(task)) => task.answer_text(NonText::Describe),
                    Ok(DelegationOutcome::NotCompleted(task)) => {
                        format!("error: {}", task.answer_text(NonText::Describe))
                    }
                    Ok(DelegationOutcome::Refused(unfit)) => {
                        format!("error: {agent} could not be asked: {}", unfit.words)
                    }
                    Err(Failure(why)) => format!("error: {agent} could not be asked: {why}"),
                };
                Ok(ToolOutcome::Found(shortened(found, self.result_bytes_max)))
            }
            ToolTarget::Mcp { server, tool } => {
                cx.status(format!("using {name}")).await?;
                let found = self.servers[*server].call(tool, arguments).await;
                Ok(ToolOutcome::Found(shortened(
                    found.unwrap_or_else(|e| format!("error: {e}")),
                    self.result_bytes_max,
                )))
            }
        }
    }
}

/// Another agent as a tool.
fn agent_tool(peer: PeerAgent) -> OfferedTool {
    // A card without skills of its own has one that repeats the agent's name and description.
    let own = peer.skills.iter().filter(|skill| skill.description != peer.description);
    let skills: Vec<String> = own.map(|skill| format!("{}: {}", skill.name, skill.description)).collect();
    let parameters = json!({
        "type": "object",
        "properties": {"text": {"type": "string", "description": "What to ask it, in words it understands by themselves."}},
        "required": ["text"],
    });
    OfferedTool {
        name: plain_name(AGENTS, peer.name.as_str()),
        description: shortened(
            format!("Asks the agent {}. {} {}", peer.title, peer.description, skills.join(" ")).trim_end().to_owned(),
            1024,
        ),
        parameters,
        target: ToolTarget::Agent(peer.name),
    }
}

/// The arguments as the model wrote them; empty text means no arguments.
fn read_arguments(text: &str) -> Result<Map<String, Value>, String> {
    if text.trim().is_empty() {
        return Ok(Map::new());
    }
    serde_json::from_str(text).map_err(|e| format!("the arguments are not a JSON object: {e}"))
}

/// A name that every endpoint accepts.
fn plain_name(server: &str, tool: &str) -> String {
    let plain = |c: char| if c.is_ascii_alphanumeric() || matches!(c, '_' | '-') { c } else { '_' };
    let name = format!("{server}__{tool}");
    name.chars().map(plain).take(NAME_BYTES_MAX).collect()
}

/// The first bytes of a text for the model, with a note if there was more.
pub(super) fn shortened(mut text: String, bytes_max: usize) -> String {
    if text.len() > bytes_max {
        let whole = text.len();
        text.truncate(text.floor_char_boundary(bytes_max));
        text.push_str(&format!("\n[the first {bytes_max} of {whole} bytes]"));
    }
    text
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn names_arguments_and_results_are_kept_in_bounds() {
        assert_eq!(plain_name("files", "read.file/now"), "files__read_file_now");
        assert_eq!(plain_name("x", &"y".repeat(100)).len(), NAME_BYTES_MAX);
        assert!(read_arguments(" ").unwrap().is_empty());
        read_arguments("[1]").unwrap_err();
        assert_eq!(shortened("äb".into(), 1), "\n[the first 1 of 3 bytes]");
        assert_eq!(shortened("ab".into(), 2), "ab");
    }
}
