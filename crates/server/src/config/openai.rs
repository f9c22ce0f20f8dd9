//! `[agent.openai]`: a model behind an agent.

use super::http::check;
use sabir_engine::ConversationLimits;
pub use sabir_guard::config::Reference;
use schemars::JsonSchema;
use serde::Deserialize;

/// `[agent.openai]`
#[derive(Debug, Clone, Default, Deserialize, JsonSchema)]
#[serde(default, deny_unknown_fields)]
pub struct OpenaiConfig {
    /// Which model answers.
    pub model: String,
    /// What it is told before everything else.
    pub system: Option<String>,
    /// Whether it may ask the caller something, as a tool.
    pub asks: bool,
    /// Members of each request besides those that we write: `temperature`, `max_tokens`, and whatever else it knows.
    #[schemars(with = "serde_json::Map<String, serde_json::Value>")]
    pub parameters: toml::Table,
    /// What it may use.
    pub tools: ToolsConfig,
    /// How much is enough.
    pub limits: OpenaiLimits,
    /// What tokens cost, for the account of a conversation.
    pub price: PriceConfig,
}

/// `[agent.openai.limits]`
#[derive(Debug, Clone, Copy, PartialEq, Eq, Deserialize, JsonSchema)]
#[serde(default, deny_unknown_fields)]
pub struct OpenaiLimits {
    /// How often the model is asked for one message: each use of tools costs one more.
    pub rounds_max: u32,
    /// Uses of tools in one round.
    pub calls_max: usize,
    /// Earlier messages of the task that it is told.
    pub history_messages_max: usize,
    /// Messages of the conversation's earlier tasks that it is told; 0 for none.
    pub conversation_messages_max: usize,
    /// Bytes of those messages; 0 for none.
    pub conversation_bytes_max: usize,
    /// Bytes of what a tool has found that it is told.
    pub result_bytes_max: usize,
    /// Seconds until an answer has to begin.
    pub answer_seconds_max: u64,
    /// Seconds of silence in an answer.
    pub silence_seconds_max: u64,
    /// Seconds that a tool of an MCP server may take.
    pub tool_seconds_max: u64,
    /// Bytes of one answer, as they come over the wire.
    pub answer_bytes_max: usize,
}

impl Default for OpenaiLimits {
    fn default() -> Self {
        let conversation = ConversationLimits::default();
        Self {
            rounds_max: 8,
            calls_max: 16,
            history_messages_max: 50,
            conversation_messages_max: conversation.messages_max,
            conversation_bytes_max: conversation.bytes_max,
            result_bytes_max: 64 << 10,
            answer_seconds_max: 120,
            silence_seconds_max: 90,
            tool_seconds_max: 60,
            answer_bytes_max: 16 << 20,
        }
    }
}

impl OpenaiLimits {
    /// How much of the conversation's earlier tasks the model is told.
    pub(crate) const fn conversation(&self) -> ConversationLimits {
        ConversationLimits { messages_max: self.conversation_messages_max, bytes_max: self.conversation_bytes_max }
    }
}

/// `[agent.openai.price]`: millionths of whatever is counted in, for a thousand tokens.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq, Deserialize, JsonSchema)]
#[serde(default, deny_unknown_fields)]
pub struct PriceConfig {
    /// For tokens that it reads.
    pub input_micros: u64,
    /// For tokens that it writes.
    pub output_micros: u64,
}

/// `[agent.openai.tools]`
#[derive(Debug, Clone, Default, Deserialize, JsonSchema)]
#[serde(default, deny_unknown_fields)]
pub struct ToolsConfig {
    /// Agents of this server that it may ask, by name.
    pub agents: Vec<String>,
    /// MCP servers whose tools it may use.
    pub mcp: Vec<McpConfig>,
}

/// One of `agent.openai.tools.mcp`: a command that speaks MCP on its standard streams, or a URL.
#[derive(Debug, Clone, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields)]
pub struct McpConfig {
    /// Goes before the names of its tools.
    pub name: String,
    /// The command line, run by `sh -c`, once.
    #[serde(default)]
    pub command: Option<String>,
    /// Names of variables the command may see besides the few it always sees.
    #[serde(default)]
    pub env: Vec<String>,
    /// Where it is.
    #[serde(default)]
    pub url: Option<String>,
    /// A token to show it, as `env:NAME` or `file:PATH`.
    #[serde(default)]
    pub bearer: Option<Reference>,
}

impl OpenaiConfig {
    /// What cannot be meant.
    pub(crate) fn check(&self) -> Result<(), String> {
        if self.model.is_empty() {
            return Err("openai.model names the model that answers".into());
        }
        const OURS: [&str; 5] = ["model", "messages", "stream", "stream_options", "tools"];
        if let Some(name) = OURS.into_iter().find(|name| self.parameters.contains_key(*name)) {
            return Err(format!("openai.parameters.{name} is written by the server"));
        }
        let limits = self.limits;
        check([
            ("openai.limits.rounds_max", u64::from(limits.rounds_max), 1..=100),
            ("openai.limits.calls_max", limits.calls_max as u64, 1..=128),
            ("openai.limits.history_messages_max", limits.history_messages_max as u64, 0..=10_000),
            ("openai.limits.conversation_messages_max", limits.conversation_messages_max as u64, 0..=10_000),
            ("openai.limits.conversation_bytes_max", limits.conversation_bytes_max as u64, 0..=16 << 20),
            ("openai.limits.result_bytes_max", limits.result_bytes_max as u64, 1..=16 << 20),
            ("openai.limits.answer_seconds_max", limits.answer_seconds_max, 1..=86_400),
            ("openai.limits.silence_seconds_max", limits.silence_seconds_max, 1..=86_400),
            ("openai.limits.tool_seconds_max", limits.tool_seconds_max, 1..=86_400),
            ("openai.limits.answer_bytes_max", limits.answer_bytes_max as u64, 1..=64 << 20),
        ])?;
        let mut names = std::collections::BTreeSet::new();
        for server in &self.tools.mcp {
            let wrong = |problem: &str| Err(format!("openai.tools.mcp {:?}: {problem}", server.name));
            let plain = |c: char| c.is_ascii_alphanumeric() || c == '-';
            if server.name.is_empty() || server.name.len() > 20 || !server.name.chars().all(plain) {
                return wrong("its name has 1 to 20 letters, digits and dashes");
            }
            if !names.insert(&server.name) || server.name == super::openai::AGENTS {
                return wrong("another has this name");
            }
            if server.command.is_some() == server.url.is_some() {
                return wrong("it has either a command or a url");
            }
            if server.bearer.is_some() && server.url.is_none() {
                return wrong("bearer belongs to a url");
            }
        }
        Ok(())
    }
}

/// What goes before the names of agents among tools.
pub(crate) const AGENTS: &str = "agent";
