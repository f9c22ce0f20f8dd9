//! `[agent.openai]`: the settings of a language model.

use super::http::check;
use sabir_engine::ConversationLimits;
pub use sabir_guard::config::SecretReference;
use schemars::JsonSchema;
use serde::Deserialize;

/// `[agent.openai]`: the model and its limits.
#[derive(Debug, Clone, Default, Deserialize, JsonSchema)]
#[serde(default, deny_unknown_fields)]
pub struct OpenaiConfig {
    /// The name of the model.
    pub model: String,
    /// The system prompt, before all messages.
    pub system: Option<String>,
    /// Whether the model may ask the caller a question, as a tool.
    pub asks: bool,
    /// Further members of each request: `temperature`, `max_tokens`, and others that the endpoint knows.
    #[schemars(with = "serde_json::Map<String, serde_json::Value>")]
    pub parameters: toml::Table,
    /// The tools that the model may use.
    pub tools: ToolsConfig,
    /// Limits on rounds, bytes and time.
    pub limits: OpenaiLimits,
    /// The price of tokens, which is charged to the conversation.
    pub price: PriceConfig,
}

/// `[agent.openai.limits]`: limits on rounds, bytes and time.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Deserialize, JsonSchema)]
#[serde(default, deny_unknown_fields)]
pub struct OpenaiLimits {
    /// Requests to the model for one message: each round of tool calls needs one more.
    pub rounds_max: u32,
    /// Tool calls in one round.
    pub calls_max: usize,
    /// Earlier messages of the task that the model gets.
    pub history_messages_max: usize,
    /// Messages of the conversation's earlier tasks that the model gets; 0 for none.
    pub conversation_messages_max: usize,
    /// Bytes of those messages; 0 for none.
    pub conversation_bytes_max: usize,
    /// Bytes of a tool's result that the model gets.
    pub result_bytes_max: usize,
    /// Seconds until an answer must begin.
    pub answer_seconds_max: u64,
    /// Seconds of silence in an answer after which it fails.
    pub silence_seconds_max: u64,
    /// Seconds that a tool of an MCP server may take.
    pub tool_seconds_max: u64,
    /// Bytes of one answer, as received.
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
    /// How much of the conversation's earlier tasks the model gets.
    pub(crate) const fn conversation(&self) -> ConversationLimits {
        ConversationLimits { messages_max: self.conversation_messages_max, bytes_max: self.conversation_bytes_max }
    }
}

/// `[agent.openai.price]`: the price of a thousand tokens, in millionths of the operator's currency.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq, Deserialize, JsonSchema)]
#[serde(default, deny_unknown_fields)]
pub struct PriceConfig {
    /// For tokens that the model reads.
    pub input_micros: u64,
    /// For tokens that the model writes.
    pub output_micros: u64,
}

/// `[agent.openai.tools]`: the tools that the model may use.
#[derive(Debug, Clone, Default, Deserialize, JsonSchema)]
#[serde(default, deny_unknown_fields)]
pub struct ToolsConfig {
    /// Agents of this server that it may call, by name.
    pub agents: Vec<String>,
    /// MCP servers whose tools it may use.
    pub mcp: Vec<McpConfig>,
}

/// One of `agent.openai.tools.mcp`: a command that speaks MCP on standard input and output, or a URL.
#[derive(Debug, Clone, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields)]
pub struct McpConfig {
    /// The prefix of the names of its tools.
    pub name: String,
    /// The command line, run once by `sh -c`.
    #[serde(default)]
    pub command: Option<String>,
    /// Names of variables that the command gets besides the few that it always gets.
    #[serde(default)]
    pub env: Vec<String>,
    /// The URL of the server.
    #[serde(default)]
    pub url: Option<String>,
    /// The token to send, as `env:NAME` or `file:PATH`.
    #[serde(default)]
    pub bearer: Option<SecretReference>,
}

impl OpenaiConfig {
    /// Checks the values. An error names the one that is not legal.
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

/// The prefix of agents among the names of tools.
pub(crate) const AGENTS: &str = "agent";
