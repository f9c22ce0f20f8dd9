//! MCP servers that offer tools, through the official SDK.
//!
//! A server is started or connected to on its first use, and kept. One that has gone is started again on the next use;
//! requests in progress have failed. A command gets no more of the server's environment than those of `exec` do.

mod http_client;

use self::http_client::McpHttpClient;
use crate::agents::exec::VARIABLES_PASSED;
use crate::agents::http::endpoint_url;
use crate::agents::remote::allow_configured;
use crate::agents::{AgentEnvironment, reveal};
use crate::config::openai::{McpConfig, OpenaiLimits};
use rmcp::model::{CallToolRequestParams, CallToolResult, ContentBlock, Tool};
use rmcp::service::RunningService;
use rmcp::transport::streamable_http_client::StreamableHttpClientTransportConfig;
use rmcp::transport::{StreamableHttpClientTransport, TokioChildProcess};
use rmcp::{RoleClient, ServiceExt};
use sabir_gateway::{EndpointClient, Timeouts, Tls};
use serde_json::{Map, Value};
use std::sync::Arc;
use std::time::Duration;
use tokio::sync::Mutex;

/// Tools of one server. More do not fit into the model's context.
const TOOLS_MAX: usize = 128;

type Running = RunningService<RoleClient, ()>;

/// An MCP server that offers tools.
pub(super) struct McpServer {
    name: String,
    transport: McpTransport,
    timeout: Duration,
    running: Mutex<Option<Arc<Running>>>,
}

/// The transport to the server.
enum McpTransport {
    Command { line: String, env: Vec<String> },
    Http(McpHttpClient),
}

impl McpServer {
    pub(super) fn new(
        config: &McpConfig,
        limits: &OpenaiLimits,
        ground: &AgentEnvironment<'_>,
    ) -> Result<Self, String> {
        let place = |problem: String| format!("openai.tools.mcp {:?}: {problem}", config.name);
        let patience = Duration::from_secs(limits.tool_seconds_max);
        let way = match (&config.command, &config.url) {
            (Some(line), _) => McpTransport::Command { line: line.clone(), env: config.env.clone() },
            (None, url) => {
                let url = endpoint_url(url.as_deref(), "openai").map_err(place)?;
                let token = config.bearer.as_ref().map(|r| reveal(ground.secrets, "bearer", r)).transpose();
                let timeouts = Timeouts { answer: patience, idle: patience, ..Timeouts::default() };
                let policy = allow_configured(ground.egress.policy(), url.as_str());
                let endpoint =
                    EndpointClient::new(policy, &Tls::default(), timeouts).map_err(|e| place(e.to_string()))?;
                let endpoint = endpoint.with_capacity(ground.answers.part());
                McpTransport::Http(McpHttpClient::new(endpoint, url, token.map_err(place)?, limits.answer_bytes_max))
            }
        };
        Ok(Self { name: config.name.clone(), transport: way, timeout: patience, running: Mutex::new(None) })
    }

    pub(super) fn name(&self) -> &str {
        &self.name
    }

    /// The tools that it offers. The error is for the caller to read.
    pub(super) async fn tools(&self) -> Result<Vec<Tool>, String> {
        let running = self.running().await?;
        let listed = tokio::time::timeout(self.timeout, running.list_all_tools());
        let tools =
            listed.await.map_err(|_| self.unavailable(&"it took too long"))?.map_err(|e| self.unavailable(&e))?;
        if tools.len() > TOOLS_MAX {
            return Err(self.unavailable(&format!("it offers {} tools, more than {TOOLS_MAX}", tools.len())));
        }
        Ok(tools)
    }

    /// Uses a tool. The error is for the model to read.
    pub(super) async fn call(&self, tool: &str, arguments: Map<String, Value>) -> Result<String, String> {
        let running = self.running().await?;
        let params = CallToolRequestParams::new(tool.to_owned()).with_arguments(arguments);
        match tokio::time::timeout(self.timeout, running.call_tool(params)).await {
            Ok(Ok(result)) => Ok(text(&result)),
            Ok(Err(rmcp::ServiceError::McpError(error))) => Err(error.message.to_string()),
            Ok(Err(error)) => Err(self.unavailable(&error)),
            Err(_) => Err(format!("{tool} took longer than {} seconds", self.timeout.as_secs())),
        }
    }

    async fn running(&self) -> Result<Arc<Running>, String> {
        let mut kept = self.running.lock().await;
        if let Some(running) = kept.as_ref().filter(|running| !running.is_transport_closed()) {
            return Ok(running.clone());
        }
        let begun = tokio::time::timeout(self.timeout, self.begin());
        let running = Arc::new(
            begun.await.map_err(|_| self.unavailable(&"it took too long"))?.map_err(|e| self.unavailable(&e))?,
        );
        *kept = Some(running.clone());
        Ok(running)
    }

    async fn begin(&self) -> Result<Running, String> {
        let begun = match &self.transport {
            McpTransport::Command { line, env } => {
                let mut command = tokio::process::Command::new("sh");
                command.arg("-c").arg(line).env_clear().kill_on_drop(true);
                let passed = VARIABLES_PASSED.into_iter().chain(env.iter().map(String::as_str));
                command.envs(passed.filter_map(|name| Some((name, std::env::var_os(name)?))));
                let transport = TokioChildProcess::new(command).map_err(|e| e.to_string())?;
                ().serve(transport).await
            }
            McpTransport::Http(web) => {
                let config = StreamableHttpClientTransportConfig::with_uri(web.uri());
                ().serve(StreamableHttpClientTransport::with_client(web.clone(), config)).await
            }
        };
        begun.map_err(|e| e.to_string())
    }

    /// Logs the cause. The caller learns only that the tools cannot be used.
    fn unavailable(&self, error: &dyn std::fmt::Display) -> String {
        tracing::warn!(server = %self.name, %error, "an MCP server cannot be used");
        format!("the tools of {} cannot be used now", self.name)
    }
}

/// The result of a tool, as text for the model.
fn text(result: &CallToolResult) -> String {
    let block = |block: &ContentBlock| match block {
        ContentBlock::Text(text) => text.text.clone(),
        ContentBlock::Image(image) => format!("[a picture, {}]", image.mime_type),
        other => serde_json::to_string(other).unwrap_or_default(),
    };
    let mut text = result.content.iter().map(block).collect::<Vec<_>>().join("\n");
    if text.is_empty()
        && let Some(structured) = &result.structured_content
    {
        text = structured.to_string();
    }
    if result.is_error == Some(true) { format!("error: {text}") } else { text }
}
