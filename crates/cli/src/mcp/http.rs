//! The same tools by streamable HTTP.
//!
//! Every client that can use the tools acts with our credentials. So this listens on this machine alone unless a token
//! is asked for, takes only requests for this host, and none from web pages.

use super::handler::McpHandler;
use crate::exit::Exit;
use crate::http_listener::{self, ResponseBody, constant_time_eq, empty_response};
use crate::problem::{ErrorCode, Outcome, Problem};
use futures_util::future::BoxFuture;
use http::{Request, Response, StatusCode, header};
use hyper::body::Incoming;
use rmcp::transport::streamable_http_server::session::never::NeverSessionManager;
use rmcp::transport::streamable_http_server::{StreamableHttpServerConfig, StreamableHttpService};
use sabir_proto::Secret;
use std::io::Write;
use std::net::SocketAddr;
use std::sync::Arc;
use tokio::net::TcpListener;

/// The variable with the token that clients have to send.
const TOKEN_VARIABLE: &str = "SABIR_MCP_TOKEN";
/// Connections at the same time.
const CONNECTIONS_MAX: usize = 256;

type McpService = StreamableHttpService<McpHandler, NeverSessionManager>;

/// Serves until a signal.
pub(super) async fn serve(address: SocketAddr, handler: McpHandler) -> Outcome {
    let failed = |problem: String| Problem::new(ErrorCode::Vendor("SABIR_ERR_MCP"), problem).hint("sabir mcp --help");
    let token = std::env::var(TOKEN_VARIABLE).ok().filter(|token| !token.trim().is_empty()).map(Secret::new);
    if token.is_none() && !address.ip().is_loopback() {
        let problem = format!("other machines can reach {address}: anyone who calls it would act as you");
        return Err(Problem::usage(problem).hint(format!("set {TOKEN_VARIABLE}, or listen on 127.0.0.1")).into());
    }
    let listener = TcpListener::bind(address).await.map_err(|e| failed(format!("cannot listen on {address}: {e}")))?;
    let address = listener.local_addr().map_err(|e| failed(e.to_string()))?;
    let stop = sabir_server::stop_signal().map_err(|e| failed(format!("cannot listen for signals: {e}")))?;
    let mut config = StreamableHttpServerConfig::default();
    // Nothing is kept between two calls, so no client needs a session.
    config.legacy_session_mode = false;
    config.json_response = true;
    if !address.ip().is_loopback() {
        // Clients send a token, so the name in the Host header decides nothing.
        config.allowed_hosts = Vec::new();
    }
    let config = config.enforce_origin_validation();
    let service = StreamableHttpService::new(move || Ok(handler.clone()), Arc::default(), config);
    let mut stdout = std::io::stdout();
    let said = writeln!(stdout, "listening on http://{address}/mcp").and_then(|()| stdout.flush());
    said.map_err(|e| failed(e.to_string()))?;
    let token = token.map(Arc::new);
    let handler = move |request| Box::pin(answer(service.clone(), token.clone(), request)) as BoxFuture<'static, _>;
    tokio::select! {
        () = http_listener::serve(listener, CONNECTIONS_MAX, Arc::new(handler)) => {}
        () = stop => {}
    }
    Ok(Exit::Done)
}

async fn answer(service: McpService, token: Option<Arc<Secret>>, request: Request<Incoming>) -> Response<ResponseBody> {
    let shown = request.headers().get(header::AUTHORIZATION).and_then(|value| value.to_str().ok());
    let shown = shown.and_then(|value| value.strip_prefix("Bearer ")).unwrap_or_default();
    if let Some(token) = token
        && !constant_time_eq(token.expose().trim().as_bytes(), shown.trim().as_bytes())
    {
        return empty_response(StatusCode::UNAUTHORIZED);
    }
    if !matches!(request.uri().path(), "/mcp" | "/") {
        return empty_response(StatusCode::NOT_FOUND);
    }
    service.handle(request).await
}
