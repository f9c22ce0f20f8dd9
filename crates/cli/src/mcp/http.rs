//! The same tools by streamable HTTP.
//!
//! Every client that can use the tools acts with our credentials. So this listens on this machine alone unless a token
//! is asked for, takes only requests for this host, and none from web pages.

use super::handler::McpHandler;
use crate::exit::Exit;
use crate::problem::{ErrorCode, Outcome, Problem};
use bytes::Bytes;
use http::{Request, Response, StatusCode, header};
use http_body_util::combinators::BoxBody;
use http_body_util::{BodyExt, Full};
use hyper::body::Incoming;
use hyper::service::service_fn;
use hyper_util::rt::{TokioExecutor, TokioIo};
use hyper_util::server::conn::auto::Builder;
use rmcp::transport::streamable_http_server::session::never::NeverSessionManager;
use rmcp::transport::streamable_http_server::{StreamableHttpServerConfig, StreamableHttpService};
use sabir_proto::Secret;
use std::convert::Infallible;
use std::io::Write;
use std::net::SocketAddr;
use std::sync::Arc;
use tokio::net::TcpListener;
use tokio::task::JoinSet;

/// The variable with the token that clients have to send.
const TOKEN_VARIABLE: &str = "SABIR_MCP_TOKEN";
/// Connections at the same time.
const CONNECTIONS_MAX: usize = 256;

type ResponseBody = BoxBody<Bytes, Infallible>;
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
    tokio::select! {
        () = accept(listener, service, token.map(Arc::new)) => {}
        () = stop => {}
    }
    Ok(Exit::Done)
}

async fn accept(listener: TcpListener, service: McpService, token: Option<Arc<Secret>>) {
    let mut open = JoinSet::new();
    loop {
        while open.len() >= CONNECTIONS_MAX {
            open.join_next().await;
        }
        while open.try_join_next().is_some() {}
        let Ok((stream, _)) = listener.accept().await else {
            // Out of descriptors; some come back when a connection ends.
            open.join_next().await;
            continue;
        };
        let (service, token) = (service.clone(), token.clone());
        open.spawn(async move {
            let answer = service_fn(move |request| answer(service.clone(), token.clone(), request));
            // A client that breaks off is no fault of the server.
            _ = Builder::new(TokioExecutor::new()).serve_connection(TokioIo::new(stream), answer).await;
        });
    }
}

async fn answer(
    service: McpService,
    token: Option<Arc<Secret>>,
    request: Request<Incoming>,
) -> Result<Response<ResponseBody>, Infallible> {
    let shown = request.headers().get(header::AUTHORIZATION).and_then(|value| value.to_str().ok());
    let shown = shown.and_then(|value| value.strip_prefix("Bearer ")).unwrap_or_default();
    if let Some(token) = token
        && !constant_time_eq(token.expose().trim(), shown.trim())
    {
        return Ok(status_response(StatusCode::UNAUTHORIZED));
    }
    if !matches!(request.uri().path(), "/mcp" | "/") {
        return Ok(status_response(StatusCode::NOT_FOUND));
    }
    Ok(service.handle(request).await)
}

/// Compares without telling by its time how much was right.
fn constant_time_eq(a: &str, b: &str) -> bool {
    a.len() == b.len() && a.bytes().zip(b.bytes()).fold(0, |differs, (a, b)| differs | (a ^ b)) == 0
}

fn status_response(status: StatusCode) -> Response<ResponseBody> {
    let mut response = Response::new(Full::new(Bytes::new()).boxed());
    *response.status_mut() = status;
    response
}
