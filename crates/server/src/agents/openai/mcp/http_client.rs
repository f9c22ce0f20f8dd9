//! MCP over HTTP with our HTTP client: the SDK builds the requests, and the client checks the addresses.

use futures_util::stream::{self, BoxStream, StreamExt};
use http::{HeaderName, HeaderValue, Method, StatusCode, header};
use rmcp::model::{ClientJsonRpcMessage, ServerJsonRpcMessage};
use rmcp::transport::streamable_http_client::{
    SseError, StreamableHttpClient, StreamableHttpError, StreamableHttpPostResponse,
};
use sabir_gateway::{EndpointClient, EndpointRequest, EndpointResponse, Error};
use sabir_proto::Secret;
use sse_stream::Sse;
use std::collections::HashMap;
use std::sync::Arc;
use url::Url;

const SESSION: HeaderName = HeaderName::from_static("mcp-session-id");
const LAST_EVENT: HeaderName = HeaderName::from_static("last-event-id");

type McpHttpError = StreamableHttpError<Error>;
type Headers = HashMap<HeaderName, HeaderValue>;

/// The connection to one MCP server over HTTP.
#[derive(Clone)]
pub(super) struct McpHttpClient {
    endpoint: EndpointClient,
    url: Url,
    token: Option<Secret>,
    bytes_max: usize,
}

impl McpHttpClient {
    pub(super) const fn new(endpoint: EndpointClient, url: Url, token: Option<Secret>, bytes_max: usize) -> Self {
        Self { endpoint, url, token, bytes_max }
    }

    pub(super) fn uri(&self) -> Arc<str> {
        self.url.as_str().into()
    }

    /// Sends to the configured URL. The SDK has the same one.
    async fn send(
        &self,
        asking: EndpointRequest,
        session: Option<Arc<str>>,
        more: Headers,
    ) -> Result<EndpointResponse, McpHttpError> {
        let mut asking = asking;
        for (name, value) in more {
            asking = asking.header(name, value);
        }
        if let Some(session) = session.as_deref().and_then(|session| HeaderValue::from_str(session).ok()) {
            asking = asking.header(SESSION, session);
        }
        if let Some(token) = &self.token {
            asking = asking.bearer(token).map_err(McpHttpError::Client)?;
        }
        asking = asking.header(header::ACCEPT, HeaderValue::from_static("text/event-stream, application/json"));
        self.endpoint.send(asking, self.bytes_max).await.map_err(McpHttpError::Client)
    }
}

impl StreamableHttpClient for McpHttpClient {
    type Error = Error;

    async fn post_message(
        &self,
        _: Arc<str>,
        message: ClientJsonRpcMessage,
        session: Option<Arc<str>>,
        _: Option<String>,
        more: Headers,
    ) -> Result<StreamableHttpPostResponse, McpHttpError> {
        let had_session = session.is_some();
        let is_request = matches!(message, ClientJsonRpcMessage::Request(_));
        let asking = EndpointRequest::post_json(self.url.clone(), serde_json::to_vec(&message)?.into());
        let answer = self.send(asking, session, more).await?;
        let status = answer.status();
        if matches!(status, StatusCode::ACCEPTED | StatusCode::NO_CONTENT) {
            return Ok(StreamableHttpPostResponse::Accepted);
        }
        if status == StatusCode::NOT_FOUND && had_session {
            return Err(McpHttpError::SessionExpired);
        }
        let session = answer.headers().get(SESSION).and_then(|value| value.to_str().ok()).map(str::to_owned);
        if status.is_success() && answer.media_type() == "text/event-stream" {
            return Ok(StreamableHttpPostResponse::Sse(events(answer), session));
        }
        let body = answer.body().await.map_err(McpHttpError::Client)?;
        match serde_json::from_slice::<ServerJsonRpcMessage>(&body) {
            // Also in an error response: some servers answer with a message of the protocol.
            Ok(message) => Ok(StreamableHttpPostResponse::Json(message, session)),
            Err(_) if status.is_success() && !is_request => Ok(StreamableHttpPostResponse::Accepted),
            Err(_) => Err(McpHttpError::UnexpectedServerResponse(format!("HTTP {}", status.as_u16()).into())),
        }
    }

    async fn delete_session(
        &self,
        _: Arc<str>,
        session: Arc<str>,
        _: Option<String>,
        more: Headers,
    ) -> Result<(), McpHttpError> {
        // The session ends here, whether or not the server forgets it.
        self.send(EndpointRequest::new(Method::DELETE, self.url.clone()), Some(session), more).await.map(drop)
    }

    async fn get_stream(
        &self,
        _: Arc<str>,
        session: Option<Arc<str>>,
        last_event: Option<String>,
        _: Option<String>,
        more: Headers,
    ) -> Result<BoxStream<'static, Result<Sse, SseError>>, McpHttpError> {
        let mut asking = EndpointRequest::new(Method::GET, self.url.clone());
        if let Some(last) = last_event.and_then(|last| HeaderValue::from_str(&last).ok()) {
            asking = asking.header(LAST_EVENT, last);
        }
        let answer = self.send(asking, session, more).await?;
        match answer.status() {
            status if status.is_success() && answer.media_type() == "text/event-stream" => Ok(events(answer)),
            StatusCode::METHOD_NOT_ALLOWED => Err(McpHttpError::ServerDoesNotSupportSse),
            status => Err(McpHttpError::UnexpectedServerResponse(format!("HTTP {}", status.as_u16()).into())),
        }
    }
}

/// The events of an answer, in the form of the SDK.
fn events(answer: EndpointResponse) -> BoxStream<'static, Result<Sse, SseError>> {
    let events = stream::unfold(Some(answer), |answer| async {
        let mut answer = answer?;
        match answer.next_event().await {
            Ok(Some(frame)) => {
                let (event, id, retry) = (frame.event, frame.id, frame.retry);
                Some((Ok(Sse { event, data: Some(frame.data), id, retry }), Some(answer)))
            }
            Ok(None) => None,
            Err(error) => Some((Err(SseError::Body(Box::new(error))), None)),
        }
    });
    events.boxed()
}
