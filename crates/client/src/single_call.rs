//! One call for one answer: takes a URL and a text and returns a text, whatever dialect the agent speaks.

use crate::discover::DiscoveredCard;
use crate::interface_choice::VersionPolicy;
use crate::native_token::{NativeTokenIssuer, Organisation};
use crate::polling::{PollSchedule, SendOutcome};
use crate::{Agent, AgentReference, Client, Credentials, Egress, Error, RequestCredential, Secret, text_message};
use sabir_proto::{Fault, FaultCode, Message, Object, WireReply};
use sabir_wire::Dialect;
use sabir_wire::card::{A2A_PATH, NATIVE_PATH};
use serde_json::json;
use std::sync::Arc;
use std::time::Duration;
use url::Url;

/// The longest answer that is accepted, in characters.
pub const TEXT_CHARS_MAX: usize = 32_768;
/// How long this waits for a card. Many agents answer without one.
const CARD_TIME_MAX: Duration = Duration::from_secs(3);

/// The options of [`call_agent`].
#[derive(Debug, Clone)]
pub struct CallOptions {
    /// A key or token: sent as a bearer token, or where the card places API keys.
    pub api_key: Option<Secret>,
    /// The email of the user on whose behalf the call is made; sent to agents of the agent-native family.
    pub user_email: Option<String>,
    /// The domain of the organisation; sent likewise.
    pub org_domain: Option<String>,
    /// The secret shared with an agent-native peer. With an email it signs tokens of fifteen minutes.
    pub shared_secret: Option<Secret>,
    /// The secret of the organisation, which takes precedence over the shared one. It needs the domain.
    pub org_secret: Option<Secret>,
    /// The time limit of the whole call.
    pub timeout: Duration,
    /// Lets the agent hold the answer back until it is done; otherwise the client polls.
    pub blocking: bool,
    /// The address policy of the call.
    pub egress: Egress,
}

impl Default for CallOptions {
    fn default() -> Self {
        Self {
            api_key: None,
            user_email: None,
            org_domain: None,
            shared_secret: None,
            org_secret: None,
            timeout: Duration::from_secs(5 * 60),
            blocking: false,
            egress: Egress::public(),
        }
    }
}

/// Why there is no answer text.
#[derive(Debug, thiserror::Error)]
pub enum CallError {
    /// The call failed.
    #[error(transparent)]
    Client(#[from] Error),
    /// The agent did not complete the task: it failed, declined, was cancelled, or asks for something.
    #[error("the task is {}: {}", state(.0), .0.text())]
    NotDone(Box<SendOutcome>),
    /// The task is complete, but the answer has no text.
    #[error("the agent answered without any text")]
    Empty,
    /// The answer is too long.
    #[error("the answer is longer than {TEXT_CHARS_MAX} characters")]
    TooLong,
}

fn state(outcome: &SendOutcome) -> String {
    outcome.task().map(|t| t.status.state.to_string()).unwrap_or_default()
}

/// Sends a text to an agent and gives its answer.
///
/// It speaks every dialect, including old ones: a caller that has only a URL wants an answer, not a version.
pub async fn call_agent(url: &str, text: &str, options: &CallOptions) -> Result<String, CallError> {
    let limit = options.timeout;
    match tokio::time::timeout(limit, call(url, text, options)).await {
        Ok(answer) => answer,
        Err(_) => Err(Error::Timeout { what: "the call", after: limit }.into()),
    }
}

async fn call(url: &str, text: &str, options: &CallOptions) -> Result<String, CallError> {
    let reference = AgentReference::parse(url)?;
    let signer = match (&options.api_key, &options.user_email) {
        (None, Some(email)) if options.shared_secret.is_some() || options.org_secret.is_some() => {
            Some(Arc::new(token_issuer(options, email)) as Arc<dyn RequestCredential>)
        }
        _ => None,
    };
    let timeouts = crate::Timeouts { answer: options.timeout, ..Default::default() };
    let key = &options.api_key;
    let credentials = Credentials { bearer: key.clone(), api_key: key.clone(), signer, ..Credentials::default() };
    let builder = || {
        let builder = Client::builder().egress(options.egress.clone()).timeouts(timeouts);
        builder.credentials(credentials.clone())
    };
    let client = builder().version(VersionPolicy::Any).build()?;
    let found = find(&client, &reference).await?;
    let mut agent = client.agent(found.clone())?;
    let mut outcome = ask(&agent, text, options).await;
    // A card without a version may be of 0.1, which does not know `message/send` and so has done nothing.
    if let (Some(older), Err(Error::Fault { fault, .. })) = (agent.dialect().features().unnamed_fallback, &outcome)
        && matches!(fault.code(), FaultCode::MethodNotFound | FaultCode::InvalidRequest)
    {
        agent = builder().version(VersionPolicy::Exactly(older)).build()?.agent(found)?;
        outcome = ask(&agent, text, options).await;
    }
    let outcome = outcome?;
    if !outcome.is_success() {
        return Err(CallError::NotDone(Box::new(outcome)));
    }
    let text = match outcome.task() {
        Some(task) if agent.dialect().features().status_is_answer => {
            let said = task.status.message.as_ref().map(Message::joined_text).filter(|text| !text.is_empty());
            said.unwrap_or_else(|| outcome.text())
        }
        _ => outcome.text(),
    };
    match text.chars().count() {
        0 => Err(CallError::Empty),
        n if n > TEXT_CHARS_MAX => Err(CallError::TooLong),
        _ => Ok(text),
    }
}

/// The credential that makes agent-native tokens for this user.
fn token_issuer(options: &CallOptions, email: &str) -> NativeTokenIssuer {
    let organisation =
        options.org_domain.clone().map(|domain| Organisation { domain, secret: options.org_secret.clone() });
    NativeTokenIssuer { organisation, ..NativeTokenIssuer::new(email, options.shared_secret.clone()) }
}

/// Sends the text, and waits for the outcome.
async fn ask(agent: &Agent, text: &str, options: &CallOptions) -> Result<SendOutcome, Error> {
    let mut request = text_message(text);
    if agent.dialect().features().caller_metadata {
        request.metadata = caller_metadata(options);
    }
    if !options.blocking {
        return Ok(agent.send_and_wait(request, PollSchedule::default()).await?.value);
    }
    let neither = || Error::local(Fault::InvalidAgentResponse("neither a task nor a message".into()));
    let task = match agent.send(request).await?.value {
        WireReply::SentMessage(message) => return Ok(SendOutcome::Message(message)),
        WireReply::SentTask(task) => task,
        _ => return Err(neither()),
    };
    let id = task.id.clone();
    match SendOutcome::of(*task) {
        Some(outcome) => Ok(outcome),
        // Some servers do not wait although they are asked to.
        None => SendOutcome::of(agent.wait(id, PollSchedule::default()).await?.value).ok_or_else(neither),
    }
}

/// Finds the agent. An agent without a card is treated as agent-native, whose own client needs no card: a URL that ends
/// like its endpoint is the endpoint; below any other URL the endpoint is at one of two paths.
async fn find(client: &Client, reference: &AgentReference) -> Result<DiscoveredCard, Error> {
    let endpoint = |url: &Url, tail: &str| {
        let mut url = url.clone();
        url.set_path(&format!("{}{tail}", url.path().trim_end_matches('/')));
        DiscoveredCard::for_endpoint(&url, Dialect::Native)
    };
    let base = match reference {
        AgentReference::Url(url) if url.path().trim_end_matches('/').ends_with(A2A_PATH) => {
            return Ok(endpoint(url, ""));
        }
        AgentReference::Url(url) | AgentReference::Origin(url) => url,
        AgentReference::File(_) => return client.card(reference).await,
    };
    match tokio::time::timeout(CARD_TIME_MAX, client.card(reference)).await {
        Ok(Err(Error::CardNotFound { .. } | Error::CardForbidden { .. } | Error::CardInvalid { .. })) | Err(_) => {
            Ok(endpoint(base, NATIVE_PATH))
        }
        Ok(found) => found,
    }
}

/// The metadata about the caller for agent-native agents.
fn caller_metadata(options: &CallOptions) -> Option<Object> {
    let mut members = serde_json::Map::new();
    if let Some(email) = &options.user_email {
        members.insert("userEmail".into(), json!(email));
    }
    if let Some(domain) = &options.org_domain {
        members.insert("orgDomain".into(), json!(domain));
    }
    if members.is_empty() { None } else { Object::from_map(&members).ok() }
}
