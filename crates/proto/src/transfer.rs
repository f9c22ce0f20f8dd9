//! Handoff: a task leaves for another server, and the conversation goes on there.
//!
//! A2A has no word for it, so everything stands where extensions stand: in `metadata` below the extension's URI, with
//! the URI in the message's `extensions`. Three things are said there:
//!
//! | Who says it | What |
//! |---|---|
//! | the server that gives a task away, to its caller | [`Transfer`]: where the task went |
//! | that server, to the next one | [`TransferContext`]: what the next one needs to know, with `hold` |
//! | the same, once its own task is over | `activate`, with the same `transfer_id` |
//!
//! What is in a [`TransferContext`] is a claim of a stranger: limited in size and depth, kept apart from the receiver's
//! own memory, never instructions and never a proof of who somebody is. Secrets are refused before they are sent.

mod claim;
mod context;
mod secrets;

pub use claim::{CLAIM_HEADER, Claim};
pub use context::{Incoming, Order, TransferContext, TransferFault};

use crate::{ContextId, Json, Message, MessageId, Object, Role, TaskRef, TaskState, TaskStatus, Timestamp};
use serde::{Deserialize, Serialize};
use serde_json::{Map, Value};

/// The extension.
pub const HANDOFF: &str = "urn:sabir:ext:handoff:v1";
/// The same for peers that want the state, the target and the context as members of their own.
pub const HANDOFF_LITERAL: &str = "urn:sabir:ext:handoff:v1:literal";
/// The word for the state, in both forms.
pub const TRANSFERRED: &str = "TRANSFERRED";

/// How often a task may be handed on, unless somebody says otherwise.
pub const DEPTH_DEFAULT: usize = 4;
/// How often at the very most.
pub const DEPTH_MAX: usize = 16;

/// One server that has had the task, and gave it away.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct Hop {
    /// Its URL.
    pub agent: String,
    /// The task there.
    pub task_id: String,
    /// When it gave the task away.
    pub at: Timestamp,
    /// What it was asked for, where the task had come to it by a handoff.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub skills: Vec<String>,
}

/// What an agent says that wants another one to have its task.
#[derive(Debug, Clone, PartialEq, Eq, Default, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Handover {
    /// Whom, by its name in the configuration of the server.
    pub to: String,
    /// What is asked of it, by the names of capabilities; at least one.
    pub required: Vec<String>,
    /// Why, for people.
    #[serde(default)]
    pub reason: Option<String>,
    /// What to say to it; what the caller said last when absent.
    #[serde(default)]
    pub text: Option<String>,
    /// Working memory that it should have.
    #[serde(default)]
    pub state: Map<String, Value>,
    /// Named outputs of what was done so far.
    #[serde(default)]
    pub output_keys: Map<String, Value>,
    /// What happened so far, in words.
    #[serde(default)]
    pub summary: Option<String>,
}

/// Where a task went.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct Transfer {
    /// The URL of the agent that has it now.
    pub agent_endpoint: String,
    /// The task there.
    pub task_id: TaskRef,
    /// What that agent is called at the server that gave the task away.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub agent_name: Option<String>,
    /// Why, for people.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub reason: Option<String>,
    /// The conversation there.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub context_id: Option<ContextId>,
    /// Its card.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub card_url: Option<String>,
    /// How it was spoken to.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub protocol_binding: Option<String>,
    /// The name of this handoff on both sides. A peer of the literal form may give none.
    #[serde(default, skip_serializing_if = "String::is_empty")]
    pub transfer_id: String,
    /// Who had it before, oldest first.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub chain: Vec<Hop>,
    /// When it went.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub transferred_at: Option<Timestamp>,
    /// What shows there that the task is its caller's.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub claim_secret: Option<Claim>,
    /// It was not held there, so there is nothing to activate.
    #[serde(default, skip_serializing_if = "std::ops::Not::not")]
    pub begun: bool,
}

impl Transfer {
    /// The extension's object: the state, and where the task went.
    pub fn to_value(&self) -> Value {
        serde_json::json!({ "state": TRANSFERRED, "transfer": self })
    }

    /// Reads it from the metadata of a message or a task.
    pub fn of_metadata(metadata: Option<&Object>) -> Option<Self> {
        let object = metadata?.get(HANDOFF)?;
        if object.get("state")?.as_str()? != TRANSFERRED {
            return None;
        }
        serde_json::from_value(object.get("transfer")?.clone()).ok()
    }

    /// Where a task went, if it says that it did. The status has it first, the task's own metadata keeps it.
    pub fn of(state: TaskState, message: Option<&Message>, metadata: Option<&Object>) -> Option<Self> {
        if !matches!(state, TaskState::Completed | TaskState::Transferred) {
            return None;
        }
        let said = message.and_then(|message| Self::of_metadata(message.metadata.as_ref()));
        said.or_else(|| Self::of_metadata(metadata))
    }

    /// Says it in a message.
    pub fn stamp(&self, message: &mut Message) {
        message.metadata = Some(with_member(message.metadata.as_ref(), HANDOFF, self.to_value()));
        if !message.extensions.iter().any(|uri| uri == HANDOFF) {
            message.extensions.push(HANDOFF.into());
        }
    }

    /// Says it in a status that said it beside its message, in the literal form of the extension.
    pub fn complete(&self, status: &mut TaskStatus) {
        let message = status.message.get_or_insert_with(|| {
            let id = MessageId::parse("transfer").expect("a plain word is a legal id");
            Message::text(id, Role::Agent, self.words())
        });
        self.stamp(message);
    }

    /// In words for people.
    pub fn words(&self) -> String {
        let why = self.reason.as_deref().map(|reason| format!("{reason}. ")).unwrap_or_default();
        format!("{why}This task was handed over to {}, where it is task {}.", self.agent_endpoint, self.task_id)
    }
}

/// Takes a context that stands beside the other members of a message to where the extension has it, unless one is
/// there.
pub fn take_literal(message: &mut Message, context: &Json) {
    let said = message.metadata.as_ref().is_some_and(|metadata| metadata.get(HANDOFF).is_some());
    let Ok(context) = context.read::<Value>() else { return };
    if !said && context.is_object() {
        let value = serde_json::json!({ "transfer_context": context });
        message.metadata = Some(with_member(message.metadata.as_ref(), HANDOFF, value));
        message.extensions.push(HANDOFF.into());
    }
}

/// An object with one member more, or another value for it.
pub fn with_member(object: Option<&Object>, name: &str, value: Value) -> Object {
    let mut map = object.map(Object::to_map).unwrap_or_default();
    map.insert(name.to_owned(), value);
    Object::from_map(&map).expect("a map of checked values is an object")
}

/// Whether two URLs name the same agent: the same origin and path, however they are written.
pub fn same_agent(one: &str, other: &str) -> bool {
    fn normal(url: &str) -> String {
        let bare = url.split(['?', '#']).next().unwrap_or(url).trim_end_matches('/');
        let Some((scheme, rest)) = bare.split_once("://") else { return bare.to_owned() };
        let (host, path) = rest.split_once('/').map_or((rest, ""), |(host, path)| (host, path));
        let (scheme, host) = (scheme.to_ascii_lowercase(), host.to_ascii_lowercase());
        let usual = match &*scheme {
            "https" => ":443",
            "http" => ":80",
            _ => "",
        };
        let host = if usual.is_empty() { &*host } else { host.strip_suffix(usual).unwrap_or(&host) };
        format!("{scheme}://{host}/{path}")
    }
    normal(one) == normal(other)
}

/// Why a chain may not go on.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
pub enum ChainFault {
    /// The target has had the task for the same thing.
    #[error("{0} has had this task already; handing it back would go round in a circle")]
    Loop(String),
    /// It was handed on often enough.
    #[error("the task was handed on {0} times already, which is the limit")]
    Depth(usize),
}

impl ChainFault {
    /// The word on the wire.
    pub const fn code(&self) -> &'static str {
        match self {
            Self::Loop(_) => "HANDOFF_LOOP",
            Self::Depth(_) => "HANDOFF_DEPTH_EXCEEDED",
        }
    }
}

/// Whether a task that came along `chain` may go to `target` for these skills. An agent that has had it may have it
/// once more, for something else.
pub fn check_chain(chain: &[Hop], target: &str, skills: &[String], depth_max: usize) -> Result<(), ChainFault> {
    if chain.len() > depth_max.min(DEPTH_MAX) {
        return Err(ChainFault::Depth(chain.len() - 1));
    }
    let mut visits = chain.iter().filter(|hop| same_agent(&hop.agent, target)).peekable();
    let Some(first) = visits.next() else { return Ok(()) };
    let other = !first.skills.is_empty() && !skills.is_empty() && !first.skills.iter().any(|s| skills.contains(s));
    if other && visits.next().is_none() { Ok(()) } else { Err(ChainFault::Loop(target.to_owned())) }
}

#[cfg(test)]
mod tests;
