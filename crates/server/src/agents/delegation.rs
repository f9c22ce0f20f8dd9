//! Delegation for agents that are separate programs: commands, and endpoints behind `kind = "http"`.
//!
//! An agent in Rust delegates with [`Context::delegate`]. A program gets an address on this machine and a token. It
//! posts the work for another agent to that address, and gets the answer when that agent's task rests. The turn that
//! owns the token decides what the program may ask, so a child is counted, limited and canceled like any other child of
//! its task. `docs/guides/delegation.md` describes this contract for users.
//!
//! A token is valid for one turn. The server keeps only its hash and writes it to no log. A request without a valid
//! token learns only that the token is not valid.

use crate::local_server::{LocalBody, LocalHandler, LocalServer};
use bytes::Bytes;
use futures_util::StreamExt as _;
use futures_util::stream::FuturesUnordered;
use http::{HeaderValue, Method, Request, Response, StatusCode, header};
use sabir_engine::{BoxFuture, Context};
use sabir_proto::{AgentName, Fault, HandoffRefusal, NonText, Object, Part, Secret, View};
use serde::Deserialize;
use serde_json::{Map, Value, json};
use sha2::{Digest as _, Sha256};
use std::collections::HashMap;
use std::convert::Infallible;
use std::sync::{Arc, Mutex, MutexGuard, OnceLock, PoisonError};
use tokio::sync::{mpsc, oneshot};

/// The path to which programs post requests.
const PATH: &str = "/delegate";
/// The metadata member by which a message names the skill that it asks for.
const SKILL: &str = "urn:sabir:ext:skill:v1";
/// Delegations of one turn that run at the same time. Further requests wait on their connections.
const AT_ONCE_MAX: usize = 16;

/// The turns that may delegate now, and the URL at which they do.
#[derive(Debug, Default)]
pub(crate) struct Delegations {
    url: OnceLock<String>,
    turns: Mutex<HashMap<TokenHash, mpsc::Sender<DelegationCall>>>,
}

type TokenHash = [u8; 32];

/// The JSON document that a program posts.
#[derive(Debug, Deserialize)]
#[serde(deny_unknown_fields)]
struct DelegationRequest {
    /// The name of the agent that is asked.
    agent: String,
    /// The message, as text.
    #[serde(default)]
    text: Option<String>,
    /// Or as parts of A2A 1.0.
    #[serde(default)]
    parts: Vec<Part>,
    /// The skill that is asked for.
    #[serde(default)]
    skill: Option<String>,
    /// Metadata of the message.
    #[serde(default)]
    metadata: Option<Map<String, Value>>,
    /// The name of the child within its task: two requests under one key open one child.
    #[serde(default)]
    key: Option<String>,
    /// The message answers the question of the child of this key.
    #[serde(default)]
    answer: bool,
}

/// A request on its way into its turn.
#[derive(Debug)]
struct DelegationCall {
    request: DelegationRequest,
    reply: oneshot::Sender<Result<Value, DelegationRefusal>>,
}

/// Why a request is not delegated, as the HTTP response states it.
#[derive(Debug)]
struct DelegationRefusal {
    status: StatusCode,
    code: &'static str,
    message: String,
    unfit: Option<Box<HandoffRefusal>>,
}

impl DelegationRefusal {
    fn new(status: StatusCode, code: &'static str, message: impl Into<String>) -> Self {
        Self { status, code, message: message.into(), unfit: None }
    }

    fn invalid(message: impl Into<String>) -> Self {
        Self::new(StatusCode::BAD_REQUEST, "INVALID_REQUEST", message)
    }

    /// The refusal of a token that is unknown, or whose turn has ended.
    fn token() -> Self {
        let message = "the token is not valid; it ends with the turn it was made for";
        Self::new(StatusCode::UNAUTHORIZED, "TOKEN_INVALID", message)
    }
}

impl From<Fault> for DelegationRefusal {
    fn from(fault: Fault) -> Self {
        let message = fault.to_string();
        match fault {
            Fault::Handoff(unfit) => {
                let refusal = Self::new(StatusCode::FORBIDDEN, unfit.reason, message);
                Self { unfit: Some(unfit), ..refusal }
            }
            Fault::Shed { .. } | Fault::Unavailable(_) | Fault::Exhausted(_) => {
                Self::new(StatusCode::SERVICE_UNAVAILABLE, "UNAVAILABLE", message)
            }
            Fault::InvalidParams(_) => Self::invalid(message),
            _ => Self::new(StatusCode::CONFLICT, "REFUSED", message),
        }
    }
}

impl Delegations {
    /// Sets the address at which requests are accepted. Only the first call has an effect.
    fn listen_at(&self, address: std::net::SocketAddr) {
        // A server listens once.
        drop(self.url.set(format!("http://{address}{PATH}")));
    }

    fn turns(&self) -> MutexGuard<'_, HashMap<TokenHash, mpsc::Sender<DelegationCall>>> {
        self.turns.lock().unwrap_or_else(PoisonError::into_inner)
    }

    async fn process(&self, request: Request<Bytes>) -> Result<Value, DelegationRefusal> {
        if request.uri().path() != PATH || request.method() != Method::POST {
            let message = format!("POST to {PATH}; there is nothing else here");
            return Err(DelegationRefusal::new(StatusCode::NOT_FOUND, "NOT_FOUND", message));
        }
        let token = request.headers().get(header::AUTHORIZATION).and_then(|value| value.to_str().ok());
        let token = token.and_then(|value| value.strip_prefix("Bearer ")).ok_or_else(DelegationRefusal::token)?;
        let turn = self.turns().get(&hash(token.trim())).cloned().ok_or_else(DelegationRefusal::token)?;
        let request = serde_json::from_slice(request.body());
        let request =
            request.map_err(|error| DelegationRefusal::invalid(format!("the body cannot be read: {error}")))?;
        let (reply, answer) = oneshot::channel();
        turn.send(DelegationCall { request, reply }).await.map_err(|_| DelegationRefusal::token())?;
        // Dropped at once, so that this sender does not outlive the turn.
        drop(turn);
        answer.await.unwrap_or_else(|_| Err(DelegationRefusal::token()))
    }
}

impl LocalHandler for Delegations {
    fn handle(self: Arc<Self>, request: Request<Bytes>) -> BoxFuture<'static, Response<LocalBody>> {
        Box::pin(async move {
            let (status, body) = match self.process(request).await {
                Ok(body) => (StatusCode::OK, body),
                Err(DelegationRefusal { status, code, message, unfit }) => {
                    let mut error = json!({"code": code, "message": message});
                    if let Some(unfit) = unfit {
                        let HandoffRefusal { required, allowed, missing, .. } = *unfit;
                        error["required"] = json!(required);
                        error["allowed"] = json!(allowed);
                        error["missing"] = json!(missing);
                    }
                    (status, json!({"error": error}))
                }
            };
            let mut response = Response::new(LocalBody::Whole(body.to_string().into()));
            *response.status_mut() = status;
            response.headers_mut().insert(header::CONTENT_TYPE, HeaderValue::from_static("application/json"));
            response
        })
    }
}

/// The listener on a free local port, where programs delegate.
#[derive(Debug)]
pub(crate) struct DelegationListener {
    local_server: LocalServer,
    delegations: Arc<Delegations>,
}

impl DelegationListener {
    /// Starts to listen; from now on turns may delegate.
    pub(crate) async fn open(delegations: &Arc<Delegations>) -> std::io::Result<Self> {
        let local_server = LocalServer::open(0).await?;
        delegations.listen_at(local_server.address());
        Ok(Self { local_server, delegations: delegations.clone() })
    }

    /// Serves requests; never returns.
    pub(crate) async fn serve(self) {
        self.local_server.run(self.delegations, std::future::pending()).await;
    }
}

/// The agents to which the programs of one agent may delegate.
#[derive(Debug, Clone)]
pub(crate) struct DelegatesTo {
    agents: Arc<[AgentName]>,
    delegations: Arc<Delegations>,
}

impl DelegatesTo {
    /// `None` where the list is empty.
    pub(crate) fn new(own: &str, names: &[String], delegations: &Arc<Delegations>) -> Result<Option<Self>, String> {
        let agents = crate::directory::peers::names("delegates_to", names)?;
        if agents.iter().any(|agent| agent.as_str() == own) {
            return Err("delegates_to: an agent that delegates to itself never ends".into());
        }
        let all = || Self { agents: agents.into(), delegations: delegations.clone() };
        Ok((!names.is_empty()).then(all))
    }

    /// The right of a turn to delegate, until it is dropped. `None` where no listener runs.
    pub(crate) fn open(&self, cx: &Context) -> Option<TurnDelegation> {
        let url = self.delegations.url.get()?.clone();
        let token: String = (0..4).map(|_| format!("{:016x}", cx.random())).collect();
        let (send, calls) = mpsc::channel(AT_ONCE_MAX);
        let key = hash(&token);
        self.delegations.turns().insert(key, send);
        Some(TurnDelegation {
            url,
            token: Secret::new(token),
            key,
            calls,
            to: self.clone(),
            keyless_counts: HashMap::new(),
        })
    }
}

/// The right of one turn to delegate.
#[derive(Debug)]
pub(crate) struct TurnDelegation {
    pub(crate) url: String,
    pub(crate) token: Secret,
    key: TokenHash,
    calls: mpsc::Receiver<DelegationCall>,
    to: DelegatesTo,
    /// How often the same request came without a key.
    keyless_counts: HashMap<TokenHash, u32>,
}

impl TurnDelegation {
    /// Serves the requests of programs for as long as the work of the turn lasts.
    pub(crate) async fn serve_during<T>(this: Option<Self>, cx: &Context, work: impl Future<Output = T>) -> T {
        let Some(mut this) = this else { return work.await };
        tokio::select! {
            biased;
            done = work => done,
            never = this.serve(cx) => match never {},
        }
    }

    async fn serve(&mut self, cx: &Context) -> Infallible {
        let mut under_way = FuturesUnordered::new();
        loop {
            tokio::select! {
                call = self.calls.recv(), if under_way.len() < AT_ONCE_MAX => {
                    // `Delegations` holds a sender for as long as this value exists.
                    let Some(DelegationCall { request, reply }) = call else { return std::future::pending().await };
                    let (key, to) = (key(&mut self.keyless_counts, cx, &request), self.to.agents.clone());
                    under_way.push(async move {
                        // A program that has disconnected gets no answer; its child continues.
                        drop(reply.send(delegate(cx, &to, request, key).await));
                    });
                }
                Some(()) = under_way.next() => {}
            }
        }
    }
}

impl Drop for TurnDelegation {
    fn drop(&mut self) {
        self.to.delegations.turns().remove(&self.key);
    }
}

/// The key of a child: the program's own, or one derived from the request, so that a repeated turn gets the same key.
fn key(asked: &mut HashMap<TokenHash, u32>, cx: &Context, request: &DelegationRequest) -> String {
    if let Some(key) = &request.key {
        return format!("delegate/{key}");
    }
    let parts = serde_json::to_string(&request.parts).unwrap_or_default();
    let what = hash(&format!("{}\n{:?}\n{parts}", request.agent, request.text));
    let count = asked.entry(what).or_default();
    *count += 1;
    format!("delegate/{}/{}/{count}", cx.turn_id(), sabir_proto::digest::hex(&what[..16]))
}

/// Opens a child task with another agent, or answers its question, and waits until that task rests.
async fn delegate(
    cx: &Context,
    to: &[AgentName],
    request: DelegationRequest,
    key: String,
) -> Result<Value, DelegationRefusal> {
    let DelegationRequest { agent, text, mut parts, skill, metadata, answer, .. } = request;
    let Some(agent) = to.iter().find(|name| name.as_str() == agent) else {
        let message = "this agent may not delegate to an agent of that name; see delegates_to in its configuration";
        return Err(DelegationRefusal::new(StatusCode::FORBIDDEN, "AGENT_NOT_LISTED", message));
    };
    parts.extend(text.map(Part::text));
    if parts.is_empty() {
        return Err(DelegationRefusal::invalid("give text or parts: what the agent is asked"));
    }
    let child = if answer {
        let mut child = cx.find_child(agent, &key).await?.ok_or_else(|| {
            DelegationRefusal::invalid("there is nothing to answer under this key; give the key of the question")
        })?;
        child.answer(parts).await?;
        child
    } else {
        let mut members = metadata.unwrap_or_default();
        members.extend(skill.map(|skill| (SKILL.to_owned(), Value::from(skill))));
        let metadata =
            Object::from_map(&members).map_err(|error| DelegationRefusal::invalid(format!("metadata: {error}")))?;
        let metadata = Some(metadata).filter(|_| !members.is_empty());
        cx.delegate(agent, &key, parts, metadata).await?
    };
    let task = child.wait_until_rest().await?;
    let (state, shown) = (task.state.name(), task.to_wire(View::WHOLE));
    let text = task.thaw().map(|task| task.answer_text(NonText::Describe)).unwrap_or_default();
    Ok(json!({"state": state, "text": text, "task": shown}))
}

fn hash(text: &str) -> TokenHash {
    Sha256::digest(text).into()
}
