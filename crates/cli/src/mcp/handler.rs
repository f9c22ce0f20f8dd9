//! The handler of MCP requests, for the official SDK: finds each tool in the catalog and runs it.

use super::catalog::OfferedTools;
use super::mcp_tools::McpTools;
use rmcp::model::{
    CallToolRequestParams, CallToolResponse, CallToolResult, ContentBlock, Implementation, InitializeResult,
    ListToolsResult, PaginatedRequestParams, ServerCapabilities,
};
use rmcp::service::RequestContext;
use rmcp::{ErrorData, RoleServer, ServerHandler};
use std::sync::Arc;

/// Answers one client of MCP, or many: there is no state between two calls.
#[derive(Clone)]
pub(super) struct McpHandler {
    tools: Arc<McpTools>,
    offered: OfferedTools,
}

impl McpHandler {
    pub(super) const fn new(tools: Arc<McpTools>, offered: OfferedTools) -> Self {
        Self { tools, offered }
    }
}

impl ServerHandler for McpHandler {
    fn get_info(&self) -> InitializeResult {
        let mut info = InitializeResult::new(ServerCapabilities::builder().enable_tools().build());
        info.server_info = Implementation::new("sabir", env!("CARGO_PKG_VERSION"));
        info.instructions = Some("Tools to talk to A2A agents. Discover an agent before you send to it.".into());
        info
    }

    async fn list_tools(
        &self,
        _: Option<PaginatedRequestParams>,
        _: RequestContext<RoleServer>,
    ) -> Result<ListToolsResult, ErrorData> {
        Ok(ListToolsResult::with_all_items(self.offered.list()))
    }

    async fn call_tool(
        &self,
        request: CallToolRequestParams,
        _: RequestContext<RoleServer>,
    ) -> Result<CallToolResponse, ErrorData> {
        // A tool that is not offered cannot be called by its name either.
        let Some((lookup, action)) = self.offered.find(&request.name) else {
            return Err(ErrorData::invalid_params(format!("there is no tool {:?} here", request.name), None));
        };
        let arguments = request.arguments.unwrap_or_default();
        let checked = OfferedTools::check(lookup, action, &arguments);
        let done = match checked {
            Ok(()) => self.tools.run(lookup, action, &arguments).await,
            Err(problem) => Err(problem),
        };
        let result = match done {
            Ok(found) => CallToolResult::structured(found),
            Err(problem) => CallToolResult::error(vec![ContentBlock::text(problem)]),
        };
        Ok(result.into())
    }
}
