//! Transports: send calls to one interface of one agent, in its binding and dialect.
//!
//! | Module | Content |
//! |---|---|
//! | `jsonrpc` | JSON-RPC, in every dialect |
//! | `http` | HTTP+JSON of 1.0 and REST of 0.3 |
//! | `grpc` | gRPC of both |
//! | `envelope` | the envelope of a booking network |
//! | `lineage` | the header that repeats the lineage of a message |
//! | `sse` | event streams of JSON-RPC and HTTP+JSON |
//!
//! Transports do not retry requests, wait for tasks or resume streams.

mod envelope;
mod grpc;
mod http;
mod jsonrpc;
mod lineage;
mod sse;

use crate::binding::Binding;
use crate::credentials::AttachedCredentials;
use crate::error::{FailureSide, UnreachableCause};
use crate::http_client::{
    ANSWER_BYTES_MAX, ConnectionPool, HttpClient, IncomingResponse, OutgoingRequest, REFUSAL_BYTES_MAX,
};
use crate::interface_choice::ChosenInterface;
use crate::request_credential::{RequestCredential, UnsentRequest};
use crate::{AgentResponse, Error, TransportCode, retry};
use ::http::{HeaderMap, HeaderValue, Method, StatusCode, header};
use bytes::Bytes;
use sabir_proto::transfer::HandoffClaim;
use sabir_proto::{Call, Fault, FaultCode, MessageId, WireEvent, WireReply};
use sabir_wire::v03::files::FileEncoding as Files;
use sabir_wire::{Dialect, Losses, v1, version};
use std::borrow::Cow;
use std::sync::{Arc, OnceLock};
use std::time::Duration;
use url::Url;

/// A transport to one interface of an agent.
pub(crate) struct AgentTransport {
    pub(crate) http_client: HttpClient,
    pub(crate) chosen: ChosenInterface,
    pub(crate) attached: AttachedCredentials,
    /// Service parameters of the caller.
    pub(crate) parameters: HeaderMap,
    pub(crate) extensions: Option<HeaderValue>,
    /// The active extensions, one by one.
    pub(crate) active_extensions: Vec<String>,
    /// How the agent encodes the bytes of files.
    pub(crate) files: Files,
    /// The largest number of attempts for a request.
    pub(crate) attempts: u32,
    /// The security schemes of the card, for errors.
    pub(crate) wanted_schemes: Vec<String>,
    /// The URL that has answered, of several candidates.
    working_url: OnceLock<Url>,
    /// The headers of JSON-RPC requests with a single answer, built once.
    json_headers: OnceLock<HeaderMap>,
    grpc: tokio::sync::OnceCell<tonic::transport::Channel>,
    /// The timestamps of messages to a booking network.
    timestamps: envelope::MessageTimestamps,
}

/// A preview of a request, for callers that send it by other means.
#[derive(Debug, Clone)]
pub struct RequestPreview {
    /// The HTTP method; `POST` for gRPC.
    pub method: Method,
    /// The URL without credentials. For gRPC it ends with the path of the method.
    pub url: String,
    /// The headers, or the metadata of gRPC; credentials among them are marked sensitive.
    pub headers: HeaderMap,
    /// The body; for gRPC the message as JSON.
    pub body: Option<String>,
    /// The names of credentials that would be in the query.
    pub secret_query: Vec<String>,
}

/// An event of a stream, with its number if it has one.
#[derive(Debug)]
pub(crate) struct NumberedEvent {
    pub(crate) id: Option<String>,
    pub(crate) said: AgentResponse<WireEvent>,
}

/// An open stream of events.
pub(crate) enum EventStream {
    /// Server-sent events.
    Sse(Box<sse::SseEvents>),
    /// gRPC.
    Grpc(Box<grpc::GrpcEvents>),
    /// The server answered with one value and not with a stream.
    Single(Option<Box<NumberedEvent>>),
}

impl EventStream {
    /// The next event; `None` when the server closed the stream properly.
    pub(crate) async fn next(&mut self) -> Result<Option<NumberedEvent>, Error> {
        match self {
            Self::Sse(events) => events.next().await,
            Self::Grpc(events) => events.next().await,
            Self::Single(event) => Ok(event.take().map(|e| *e)),
        }
    }
}

impl AgentTransport {
    pub(crate) fn new(
        http_client: HttpClient,
        chosen: ChosenInterface,
        attached: AttachedCredentials,
        wanted_schemes: Vec<String>,
    ) -> Self {
        Self {
            http_client,
            chosen,
            attached,
            parameters: HeaderMap::new(),
            extensions: None,
            active_extensions: Vec::new(),
            files: Files::Bytes,
            wanted_schemes,
            attempts: retry::ATTEMPTS_MAX,
            working_url: OnceLock::new(),
            json_headers: OnceLock::new(),
            grpc: tokio::sync::OnceCell::new(),
            timestamps: envelope::MessageTimestamps::default(),
        }
    }

    /// The same transport with the claim to a task that was handed over for us.
    pub(crate) fn with_claim(&self, claim: &HandoffClaim) -> Result<Self, Error> {
        let (http_client, chosen, attached) =
            (self.http_client.clone(), self.chosen.clone(), self.attached.clone().with_claim(claim)?);
        Ok(Self {
            parameters: self.parameters.clone(),
            extensions: self.extensions.clone(),
            active_extensions: self.active_extensions.clone(),
            files: self.files,
            attempts: self.attempts,
            ..Self::new(http_client, chosen, attached, self.wanted_schemes.clone())
        })
    }

    /// Sends a call that has one answer.
    pub(crate) async fn send_call(
        &self,
        call: &Call,
        retry_key: Option<&str>,
    ) -> Result<AgentResponse<WireReply>, Error> {
        // The other futures are boxed, so that the most frequent one stays small.
        match self.chosen.binding {
            Binding::JsonRpc => jsonrpc::send_call(self, call, retry_key).await,
            Binding::HttpJson => Box::pin(http::send_call(self, call)).await,
            Binding::Grpc => Box::pin(grpc::send_call(self, call)).await,
            Binding::Envelope => Box::pin(envelope::send_call(self, call)).await,
        }
    }

    /// The call with its files in the encoding that the agent expects over gRPC.
    fn with_agent_files<'a>(&self, call: &'a Call) -> Cow<'a, Call> {
        match self.files {
            Files::Bytes => Cow::Borrowed(call),
            Files::Base64 | Files::NamedBase64 => {
                let mut call = call.clone();
                self.files.write_call(&mut call);
                Cow::Owned(call)
            }
        }
    }

    /// Previews a call without sending it.
    pub(crate) fn preview(&self, call: &Call) -> Result<RequestPreview, Error> {
        let (method, url, headers, body) = match self.chosen.binding {
            Binding::JsonRpc => jsonrpc::preview(self, call)?,
            Binding::HttpJson => http::preview(self, call)?,
            Binding::Grpc => grpc::preview(self, call),
            Binding::Envelope => envelope::preview(self, call)?,
        };
        let mut headers = headers;
        if let Some(signer) = &self.attached.signer {
            replace_headers(&mut headers, signer.preview());
        }
        let secret_query = self.attached.query.iter().map(|(name, _)| name.clone()).collect();
        Ok(RequestPreview { method, url, headers, body, secret_query })
    }

    /// Opens a stream, after an earlier event if one is given.
    pub(crate) async fn open_stream(self: &Arc<Self>, call: &Call, after: Option<&str>) -> Result<EventStream, Error> {
        match self.chosen.binding {
            Binding::JsonRpc => jsonrpc::open_stream(self, call, after).await,
            Binding::HttpJson => Box::pin(http::open_stream(self, call, after)).await,
            Binding::Grpc => Box::pin(grpc::open_stream(self, call)).await,
            Binding::Envelope => Box::pin(envelope::open_stream(self, call)).await,
        }
    }

    /// The headers of every request. Credentials come last, so that a service parameter cannot replace one.
    fn headers(&self) -> HeaderMap {
        let mut headers = self.parameters.clone();
        let features = self.chosen.dialect.features();
        if let Some(version) = features.version_header {
            headers.insert(version::HEADER, HeaderValue::from_static(version));
        }
        if let Some(extensions) = &self.extensions {
            headers.insert(features.extensions_header, extensions.clone());
        }
        for name in self.attached.headers.keys() {
            headers.remove(name);
        }
        for (name, value) in &self.attached.headers {
            headers.append(name, value.clone());
        }
        headers
    }

    /// Posts a body to the first candidate URL of the agent: agent-native servers have several, and answer wrong ones
    /// with a refused connection, 404, 405 or a web page. Such a server has done nothing, so trying the next URL is
    /// safe.
    pub(crate) async fn post(&self, headers: HeaderMap, body: Bytes) -> Result<IncomingResponse, Error> {
        let send = |url: &Url| self.request(Method::POST, url.clone(), headers.clone(), Some(body.clone()));
        if let Some(url) = self.working_url.get() {
            return send(url).await;
        }
        let (mut url, mut others) = (&self.chosen.url, self.chosen.fallback_urls.iter());
        loop {
            let answer = send(url).await;
            let is_unreachable = match &answer {
                Ok(answer) => {
                    matches!(answer.status, StatusCode::NOT_FOUND | StatusCode::METHOD_NOT_ALLOWED)
                        || answer.media_type() == "text/html"
                }
                Err(error) => error.cannot_have_arrived(),
            };
            match others.next() {
                Some(next) if is_unreachable => url = next,
                _ => {
                    if !is_unreachable {
                        let _ = self.working_url.set(url.clone());
                    }
                    return answer;
                }
            }
        }
    }

    /// Sends one request. The per-request credential is made here, once for each request.
    pub(crate) async fn request(
        &self,
        method: Method,
        url: Url,
        headers: HeaderMap,
        body: Option<Bytes>,
    ) -> Result<IncomingResponse, Error> {
        let request = OutgoingRequest { method, url, headers, body, secret_query: self.attached.query.clone() };
        match &self.attached.signer {
            None => self.send_checked(request).await,
            Some(signer) => Box::pin(self.send_signed(request, &**signer)).await,
        }
    }

    async fn send_signed(
        &self,
        request: OutgoingRequest,
        signer: &dyn RequestCredential,
    ) -> Result<IncomingResponse, Error> {
        let OutgoingRequest { method, url, mut headers, body, .. } = request;
        let leaving = UnsentRequest { method: &method, url: &url, body: Some(body.as_deref().unwrap_or_default()) };
        let plain = headers.clone();
        self.authorise(leaving, &mut headers).await?;
        let request = |headers| {
            let (method, url, body) = (method.clone(), url.clone(), body.clone());
            OutgoingRequest { method, url, headers, body, secret_query: self.attached.query.clone() }
        };
        let answer = self.send_checked(request(headers.clone())).await?;
        // A server that refuses authentication has done nothing, so a second attempt is safe.
        if answer.status != StatusCode::UNAUTHORIZED || !signer.on_rejected(&headers).await {
            return Ok(answer);
        }
        let mut headers = plain;
        self.authorise(leaving, &mut headers).await?;
        self.send_checked(request(headers)).await
    }

    async fn send_checked(&self, request: OutgoingRequest) -> Result<IncomingResponse, Error> {
        let at = request.url.clone();
        let who = if self.attached.certificate { ConnectionPool::AgentWithCertificate } else { ConnectionPool::Agent };
        let answer = self.http_client.send(request, who).await?;
        if answer.status.is_redirection() {
            // Servers repeat the query in the redirect, and the query may contain a key.
            let to = answer.headers.get(header::LOCATION).and_then(|v| v.to_str().ok()).and_then(|t| at.join(t).ok());
            let to = to
                .map_or_else(|| "elsewhere".into(), |to| format!("{}{}", to.origin().ascii_serialization(), to.path()));
            return Err(Error::Fault {
                fault: Fault::InvalidAgentResponse(format!("the endpoint redirects to {to}; calls do not follow")),
                transport: Some(TransportCode::Http(answer.status.as_u16())),
                retry_after: None,
            });
        }
        Ok(answer)
    }

    /// Adds the per-request credential, which goes only to the origin of the chosen interface.
    async fn authorise(&self, leaving: UnsentRequest<'_>, headers: &mut HeaderMap) -> Result<(), Error> {
        let Some(signer) = &self.attached.signer else { return Ok(()) };
        if leaving.url.origin() != self.chosen.url.origin() {
            return Err(Error::Usage("a credential is not shown to another origin than the interface's".into()));
        }
        replace_headers(headers, signer.authorise(leaving).await?);
        Ok(())
    }

    /// Converts a fault of the agent; authentication faults become errors of the client.
    fn fault_error(&self, fault: Fault, transport: TransportCode, retry_after: Option<Duration>) -> Error {
        match fault.code() {
            FaultCode::Unauthenticated | FaultCode::Forbidden => self.auth_error(fault.to_string(), transport),
            _ => Error::Fault { fault, transport: Some(transport), retry_after },
        }
    }

    /// The error for a refused authentication: credentials are missing, or were not accepted.
    fn auth_error(&self, reason: String, transport: TransportCode) -> Error {
        if self.attached.has_any {
            return Error::AuthFailed { reason, transport: Some(transport) };
        }
        let wanted = if self.wanted_schemes.is_empty() {
            vec!["the card does not say which".into()]
        } else {
            self.wanted_schemes.clone()
        };
        Error::CredentialsMissing { wanted, transport: Some(transport) }
    }

    /// The error for an HTTP status without a protocol error in the body.
    fn status_error(&self, status: StatusCode, retry_after: Option<Duration>, host: &str) -> Error {
        let transport = TransportCode::Http(status.as_u16());
        let words = format!("HTTP {status}");
        let fault = match status.as_u16() {
            401 | 403 => return self.auth_error(words, transport),
            502..=504 => {
                return Error::Unreachable {
                    host: host.into(),
                    reason: words,
                    safe: false,
                    side: FailureSide::Peer,
                    cause: UnreachableCause::GatewayAnswer,
                    retry_after,
                };
            }
            404 | 405 | 501 => Fault::MethodNotFound(format!("there is no such operation at {host}: {words}")),
            429 => Fault::Exhausted(words),
            _ => Fault::InvalidAgentResponse(words),
        };
        Error::Fault { fault, transport: Some(transport), retry_after }
    }
}

/// Replaces all headers of the same names.
fn replace_headers(headers: &mut HeaderMap, with: HeaderMap) {
    for name in with.keys() {
        headers.remove(name);
    }
    headers.extend(with);
}

/// The body limit for a status: results are large, refusals are not.
fn body_limit(status: StatusCode) -> usize {
    if status.is_success() { ANSWER_BYTES_MAX } else { REFUSAL_BYTES_MAX }
}

/// A new id for a message.
pub(crate) fn new_message_id() -> MessageId {
    MessageId::parse(&uuid::Uuid::now_v7().to_string()).expect("a UUID is a name")
}

/// Combines an answer with its JSON: as received in 1.0, encoded by us in other dialects.
fn answer_response(
    dialect: Dialect,
    answer: WireReply,
    received: Option<&str>,
    losses: Losses,
) -> AgentResponse<WireReply> {
    match received {
        Some(text) if dialect.features().canonical_json => AgentResponse::new(answer, text, losses),
        _ => {
            let mut out = Vec::new();
            v1::json::write_answer(&answer, &mut out);
            let is_card = matches!(answer, WireReply::Card(_));
            let said = AgentResponse::new(answer, String::from_utf8_lossy(&out).into_owned(), losses);
            // The signatures of a card are over the received JSON, and not over our encoding.
            match received.filter(|_| is_card) {
                Some(text) => said.with_received(text),
                None => said,
            }
        }
    }
}

/// Combines an event with its JSON, like [`answer_response`].
fn event_response(
    dialect: Dialect,
    event: WireEvent,
    received: Option<&str>,
    losses: Losses,
) -> AgentResponse<WireEvent> {
    match received {
        Some(text) if dialect.features().canonical_json => AgentResponse::new(event, text, losses),
        _ => {
            let mut out = Vec::new();
            v1::json::write_event(&event, &mut out);
            AgentResponse::new(event, String::from_utf8_lossy(&out).into_owned(), losses)
        }
    }
}

/// A stream with the single event of an answer that came in one piece.
fn single_event_stream(
    dialect: Dialect,
    said: AgentResponse<WireReply>,
    retold: Option<&str>,
) -> Result<EventStream, Error> {
    let event = match &said.value {
        WireReply::SentTask(task) | WireReply::Task(task) => WireEvent::Task((**task).clone()),
        WireReply::SentMessage(message) => WireEvent::Message((**message).clone()),
        _ => {
            return Err(
                Fault::InvalidAgentResponse("the answer to a stream is neither a task nor a message".into()).into()
            );
        }
    };
    let said = event_response(dialect, event, retold, said.losses().clone());
    Ok(EventStream::Single(Some(Box::new(NumberedEvent { id: None, said }))))
}
