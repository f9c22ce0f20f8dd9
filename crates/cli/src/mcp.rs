//! `sabir mcp`: offers agents as tools to MCP clients.
//!
//! | Module | What it contains |
//! |---|---|
//! | `catalog` | the table of tools, their arguments, and which of them only read |
//! | `mcp_tools` | runs a tool: finds an agent, and makes one call to it |
//! | `handler` | MCP, by the official SDK |
//! | `http` | the same over HTTP |
//!
//! The client is most often a model, and the agents it names are not to be trusted: credentials of this run are sent
//! only to the agent of `--agent-card`, and tools may call only public addresses and those that were allowed.

mod catalog;
mod handler;
mod http;
mod mcp_tools;

use crate::Invocation;
use crate::call::Session;
use crate::cli::Verb;
use crate::exit::Exit;
use crate::problem::{ErrorCode, Outcome, Problem, Stop};
use catalog::OfferedTools;
use clap::Args;
use handler::McpHandler;
use mcp_tools::McpTools;
use rmcp::ServiceExt;
use sabir_proto::ToolMode;
use sabir_server::config::network::IpNetwork;
use std::net::SocketAddr;
use std::path::PathBuf;
use std::sync::Arc;
use url::Url;

/// Offer agents as tools over MCP: on standard input and output, or by HTTP.
///
/// The tools are a2a_discover and a2a_get_task, which look, and a2a_send_message, a2a_cancel_task and a2a_delegate_job,
/// which change something; the last asks for a confirmation first. With --xpr-account and a node of the chain the same are
/// offered as xpr_a2a_…, which take an account, find its endpoint on chain, and read the job that is delegated from escrow.
///
/// Credentials that were given are shown to the agent of --agent-card alone. Tools may name other agents at public addresses.
#[derive(Debug, Args)]
#[command(after_help = "Examples:\n  \
    sabir mcp -a https://agent.example\n  \
    sabir mcp --readonly --allow 127.0.0.1\n  \
    sabir mcp --http 127.0.0.1:8100\n  \
    XPR_PRIVATE_KEY=… sabir mcp --xpr-account alice --xpr-rpc https://proton.eosusa.io\n\n\
    In the configuration of an MCP client:\n  \
    {\"mcpServers\": {\"agents\": {\"command\": \"sabir\", \"args\": [\"mcp\", \"-a\", \"https://agent.example\"]}}}")]
pub(crate) struct Mcp {
    /// Listen here by streamable HTTP, in place of standard input and output; port 0 picks a free one. Beyond this
    /// machine only with a token in the variable SABIR_MCP_TOKEN.
    #[arg(long, value_name = "ADDR")]
    http: Option<SocketAddr>,
    /// Offer only tools that look.
    #[arg(long)]
    readonly: bool,
    /// Do not ask for a confirmation before a job is delegated: for programs that decide by themselves.
    #[arg(long)]
    no_confirm: bool,
    /// An address or network that tools may call besides public ones; may be repeated.
    #[arg(long, value_name = "NETWORK")]
    allow: Vec<IpNetwork>,
    /// A node of XPR Network.
    #[arg(long, value_name = "URL")]
    xpr_rpc: Option<Url>,
    /// A configuration of a server: its [auth.xpr] names the node, its tool_mode may be "readonly".
    #[arg(long, value_name = "FILE")]
    server_config: Option<PathBuf>,
}

impl Verb for Mcp {
    fn run(self, invocation: Invocation) -> Outcome {
        // The SDK starts its own tasks, which must not wait while a tool waits for an agent.
        let runtime = tokio::runtime::Builder::new_multi_thread().worker_threads(2).enable_all().build();
        let runtime = runtime.map_err(|error| Problem::internal(format!("cannot start: {error}")))?;
        let outcome = runtime.block_on(self.serve(invocation));
        // A thread may still be reading standard input, which nothing can interrupt.
        runtime.shutdown_background();
        outcome
    }
}

impl Mcp {
    async fn serve(self, invocation: Invocation) -> Outcome {
        let mut mode = if self.readonly { ToolMode::ReadOnly } else { ToolMode::Full };
        let mut node = self.xpr_rpc.clone();
        if let Some(file) = &self.server_config {
            let wrong = |error: String| Problem::usage(format!("--server-config: {error}")).hint("sabir mcp --help");
            let config = sabir_server::Config::load(Some(file), sabir_server::Config::variables());
            let config = config.map_err(|error| wrong(error.to_string()))?;
            if ToolMode::from(config.limits.tool_mode) == ToolMode::ReadOnly {
                mode = ToolMode::ReadOnly;
            }
            if let (None, Some(xpr)) = (&node, &config.auth.xpr) {
                node = Some(xpr.rpc_url.parse().map_err(|e| wrong(format!("auth.xpr.rpc_url: {e}")))?);
            }
        }
        let session = Session::new(invocation)?;
        let confirm = !self.no_confirm;
        let tools = McpTools::new(session, &self.allow, node.as_ref(), confirm)?;
        let offered = OfferedTools { mode, chain: node.is_some() };
        let handler = McpHandler::new(Arc::new(tools), offered);
        match self.http {
            None => stdio(handler).await,
            Some(address) => http::serve(address, handler).await,
        }
    }
}

/// Serves until the client closes standard input.
async fn stdio(handler: McpHandler) -> Outcome {
    let failed =
        |error: String| Stop::from(Problem::new(ErrorCode::Vendor("SABIR_ERR_MCP"), error).hint("sabir mcp --help"));
    let running = match handler.serve(rmcp::transport::stdio()).await {
        Ok(running) => running,
        Err(error) => return Err(failed(format!("the other side does not speak MCP: {error}"))),
    };
    running.waiting().await.map_err(|error| failed(error.to_string()))?;
    Ok(Exit::Done)
}
