//! Agents behind an HTTP endpoint: each message is one request, and the response is the agent's answer.
//!
//! The request is one JSON document ([`EndpointRequestBody`]); `answer` reads the response. The request goes out through the HTTP
//! client, so the address policy, TLS and size limits are those of calls. A cancel drops the turn and with it the
//! request: the endpoint sees its connection close.
//!
//! A request is repeated only where it cannot be done twice: it cannot have arrived, or the operator has configured the
//! endpoint as idempotent. The `Idempotency-Key` is the turn's id, the same on every attempt.

mod answer;
mod call;
#[cfg(test)]
mod tests;

pub(super) use self::answer::error_text;
use self::answer::{EndpointAnswer, StreamPiece};
pub(super) use self::call::{EndpointCall, RepeatAfter};
use super::chunks::{ChunkLimits, TextChunks};
use super::delegation::{DelegatesTo, TurnDelegation};
use super::remote::allow_configured;
use super::{AgentEnvironment, reveal};
use crate::config::agent::AgentConfig;
use crate::config::http::HttpConfig;
use http::{HeaderName, HeaderValue, header};
use sabir_engine::{Agent, Context, Ending, Execution, Failure, Recovery};
use sabir_gateway::{EndpointClient, EndpointRequest, EndpointResponse, Timeouts, Tls, outgoing_metadata};
use sabir_proto::{ArtifactId, Message, Object, Part, Secret};
use serde::Serialize;
use std::time::Duration;
use url::Url;

/// The artifact that an answer becomes, unless it names its own.
pub(super) const ANSWER: &str = "answer";

/// An endpoint that answers messages.
pub struct Http {
    endpoint: EndpointClient,
    url: Url,
    bearer: Option<Secret>,
    headers: Vec<(HeaderName, Secret)>,
    idempotent: bool,
    chunks: ChunkLimits,
    config: HttpConfig,
    /// The agents that the endpoint may delegate to.
    delegates_to: Option<DelegatesTo>,
}

impl std::fmt::Debug for Http {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("Http").field("host", &self.url.host_str()).finish_non_exhaustive()
    }
}

/// The JSON body of a request.
#[derive(Serialize)]
#[serde(rename_all = "camelCase")]
struct EndpointRequestBody<'a> {
    /// All text parts, joined by line breaks.
    text: String,
    parts: &'a [Part],
    /// The metadata of the message, with the number of agents on the way: for endpoints that call others.
    #[serde(skip_serializing_if = "Option::is_none")]
    metadata: Option<Object>,
    #[serde(skip_serializing_if = "Option::is_none")]
    skill: Option<String>,
    task_id: String,
    context_id: String,
    /// The same on every attempt.
    turn_id: String,
    attempt: u32,
    caller: &'a str,
    /// `full` or `readonly`.
    tool_mode: &'a str,
    /// The messages of earlier tasks of the conversation, oldest first.
    #[serde(skip_serializing_if = "Vec::is_empty")]
    conversation: Vec<Message>,
    #[serde(skip_serializing_if = "Option::is_none")]
    history: Option<Vec<&'a Message>>,
    /// How the endpoint delegates work while it handles this message.
    #[serde(skip_serializing_if = "Option::is_none")]
    delegate: Option<DelegationAccess<'a>>,
}

/// The URL and the token for delegation.
#[derive(Serialize)]
struct DelegationAccess<'a> {
    url: &'a str,
    token: &'a str,
}

impl Http {
    /// Reads the agent's configuration. The error says what is wrong with it.
    pub(crate) fn new(config: &AgentConfig, ground: &AgentEnvironment<'_>) -> Result<Self, String> {
        let url = endpoint_url(config.url.as_deref(), "http")?;
        let http = config.http.clone().unwrap_or_default();
        http.check()?;
        let bearer = config.bearer.as_ref().map(|reference| reveal(ground.secrets, "bearer", reference)).transpose()?;
        let mut headers = Vec::with_capacity(http.headers.len());
        for (name, reference) in &http.headers {
            let key = format!("http.headers.{name}");
            let value = reveal(ground.secrets, &key, reference)?;
            let name = HeaderName::try_from(name).map_err(|_| format!("{key}: not the name of a header"))?;
            HeaderValue::from_str(value.expose()).map_err(|_| format!("{key}: no header can carry this value"))?;
            headers.push((name, value));
        }
        let timeouts = Timeouts {
            answer: Duration::from_secs(http.answer_seconds_max),
            idle: Duration::from_secs(http.silence_seconds_max),
            ..Timeouts::default()
        };
        let policy = allow_configured(ground.egress.policy(), url.as_str());
        let endpoint = EndpointClient::new(policy, &Tls::default(), timeouts).map_err(|e| e.to_string())?;
        let endpoint = endpoint.with_capacity(ground.answers.part());
        let (idempotent, chunks) = (config.idempotent, ground.chunks);
        let delegates_to = DelegatesTo::new(&config.name, &config.delegates_to, ground.delegations)?;
        Ok(Self { endpoint, url, bearer, headers, idempotent, chunks, config: http, delegates_to })
    }

    async fn request(&self, cx: &Context, delegation: Option<&TurnDelegation>) -> Result<EndpointRequest, Failure> {
        let message = cx.message();
        let past = cx.conversation_within(self.config.conversation()).await?;
        // The message that is answered now is not history yet.
        let asked = cx.before().and_then(|task| task.status.message.as_ref());
        let said = cx.before().into_iter().flat_map(|task| &task.history).chain(asked);
        let mut said: Vec<&Message> = said.collect();
        said.drain(..said.len().saturating_sub(self.config.history_messages_max));
        let asked = EndpointRequestBody {
            text: message.joined_text(),
            parts: &message.parts,
            metadata: outgoing_metadata(cx, message.metadata.as_ref()),
            skill: message.skill(),
            task_id: cx.task_id().to_string(),
            context_id: cx.context_id().to_string(),
            turn_id: cx.turn_id(),
            attempt: cx.attempt(),
            caller: cx.caller().name(),
            tool_mode: cx.tool_mode().name(),
            conversation: past.into_iter().flat_map(|task| task.messages).collect(),
            history: (self.config.history_messages_max > 0).then_some(said),
            delegate: delegation.map(|at| DelegationAccess { url: &at.url, token: at.token.expose() }),
        };
        let mut asking = EndpointRequest::post_json(self.url.clone(), serde_json::to_vec(&asked)?.into());
        let accept = "application/json, text/event-stream, text/plain;q=0.9, */*;q=0.5";
        asking = asking.header(header::ACCEPT, HeaderValue::from_static(accept));
        if let Ok(key) = HeaderValue::from_str(&cx.turn_id()) {
            asking = asking.header(HeaderName::from_static("idempotency-key"), key);
        }
        for (name, value) in &self.headers {
            asking = asking.secret_header(name.clone(), value)?;
        }
        match &self.bearer {
            Some(token) => Ok(asking.bearer(token)?),
            None => Ok(asking),
        }
    }

    fn call<'a>(&'a self, cx: &'a Context) -> EndpointCall<'a> {
        let (bytes_max, attempts_max) = (self.config.answer_bytes_max, self.config.attempts_max);
        EndpointCall { cx, endpoint: &self.endpoint, url: &self.url, bytes_max, attempts_max }
    }

    /// Relays a stream to its end.
    async fn relay_stream(&self, cx: &Context, mut answer: EndpointResponse) -> Result<Ending, Failure> {
        let mut chunks = TextChunks::new(cx, answer_id(), self.chunks);
        loop {
            let frame = match chunks.next_frame(&mut answer).await? {
                Ok(Some(frame)) => frame,
                Ok(None) => break,
                Err(error) => {
                    chunks.flush().await?;
                    return Err(self.call(cx).failed(&error));
                }
            };
            let pieces = match answer::read_frame(&frame) {
                Ok(pieces) => pieces,
                Err(problem) => {
                    chunks.flush().await?;
                    return Err(Failure(problem));
                }
            };
            for piece in pieces {
                match piece {
                    StreamPiece::More(parts) => chunks.push_parts(parts).await?,
                    StreamPiece::Progress(text) => {
                        chunks.flush().await?;
                        cx.status(text).await?;
                    }
                    StreamPiece::Artifact(artifact) => {
                        chunks.flush().await?;
                        cx.chunk(artifact, false, true).await?;
                    }
                    StreamPiece::End(ending) => {
                        chunks.finish(None).await?;
                        return Ok(ending);
                    }
                }
            }
        }
        chunks.finish(None).await?;
        Ok(Ending::complete())
    }

    /// Sends the request, and relays the answer.
    async fn ask(&self, cx: &Context, asking: EndpointRequest) -> Result<Ending, Failure> {
        let repeat = if self.idempotent { RepeatAfter::AnyFailure } else { RepeatAfter::Nothing };
        let call = self.call(cx);
        let answer = call.send(asking, repeat).await?;
        let media_type = answer.media_type();
        if !answer.status().is_success() {
            return Ok(call.refused(answer).await);
        }
        if media_type == "text/event-stream" {
            return self.relay_stream(cx, answer).await;
        }
        let body = answer.body().await.map_err(|error| call.failed(&error))?;
        let EndpointAnswer { artifacts: made, ending } = answer::read(&media_type, &body).map_err(Failure)?;
        for artifact in made {
            cx.chunk(artifact, false, true).await?;
        }
        Ok(ending)
    }
}

impl Agent for Http {
    async fn turn(&self, cx: &mut Context) -> Result<Ending, Failure> {
        let cx = &*cx;
        let delegation = self.delegates_to.as_ref().and_then(|agents| agents.open(cx));
        let asking = self.request(cx, delegation.as_ref()).await?;
        TurnDelegation::serve_during(delegation, cx, self.ask(cx, asking)).await
    }

    fn execution(&self) -> Execution {
        let recovery = if self.idempotent { Recovery::Restart } else { Recovery::Fail };
        Execution { recovery, ..Execution::default() }
    }
}

/// The URL of an endpoint, checked for an agent of this kind.
pub(super) fn endpoint_url(given: Option<&str>, kind: &str) -> Result<Url, String> {
    let given = given.ok_or_else(|| format!("kind = \"{kind}\" needs the url of the endpoint"))?;
    let url = Url::parse(given).map_err(|e| format!("url: {e}"))?;
    if !matches!(url.scheme(), "http" | "https") || url.host().is_none() {
        return Err("url: an endpoint has an http or https URL".into());
    }
    if !url.username().is_empty() || url.password().is_some() {
        return Err("url: credentials do not belong in a URL; give them as bearer".into());
    }
    Ok(url)
}

pub(super) fn answer_id() -> ArtifactId {
    ArtifactId::parse(ANSWER).expect("a plain word is a legal id")
}
