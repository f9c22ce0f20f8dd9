//! Handoff: a task moves to another server, and the conversation continues there.
//!
//! A2A has no member for handoffs, so they use an extension: `metadata` below the extension's URI, with the URI in the
//! message's `extensions`. There are three statements:
//!
//! | Sender | Content |
//! |---|---|
//! | the server that hands a task over, to its caller | [`Transfer`]: the new agent and task |
//! | that server, to the next one | [`TransferContext`]: what the next one needs to know, with `hold` |
//! | that server, after its own task has ended | `activate`, with the same `transfer_id` |
//!
//! A [`TransferContext`] is an unverified claim of the sender. It is limited in size and depth, and stored apart from
//! the receiver's own memory. It never contains instructions and never proves an identity. Secrets are refused before
//! they are sent.

mod claim;
mod context;
mod secrets;

pub use claim::{CLAIM_HEADER, HandoffClaim};
pub use context::{HandoffActivation, HandoffMessage, TransferContext, TransferFault};

use crate::{ContextId, Json, Message, MessageId, Object, Role, TaskRef, TaskState, TaskStatus, Timestamp};
use serde::{Deserialize, Serialize};
use serde_json::{Map, Value};

/// The URI of the handoff extension.
pub const HANDOFF: &str = "urn:sabir:ext:handoff:v1";
/// The URI for peers that expect the state, the target and the context as members of their own.
pub const HANDOFF_LITERAL: &str = "urn:sabir:ext:handoff:v1:literal";
/// The state in both forms of the extension.
pub const TRANSFERRED: &str = "TRANSFERRED";

/// The number of handoffs of one task that are allowed by default.
pub const DEPTH_DEFAULT: usize = 4;
/// The largest number of handoffs that a configuration can allow.
pub const DEPTH_MAX: usize = 16;

/// A server that had the task and handed it over.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct TransferHop {
    /// The URL of the agent.
    pub agent: String,
    /// The id of the task at that server.
    pub task_id: String,
    /// The time at which the server handed the task over.
    pub at: Timestamp,
    /// The skills that it was asked for, if it received the task by a handoff.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub skills: Vec<String>,
}

/// The request of an agent to hand its task over to another agent.
#[derive(Debug, Clone, PartialEq, Eq, Default, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct HandoffRequest {
    /// The target agent, by its name in the server's configuration.
    pub to: String,
    /// The capabilities that the target needs, by name; at least one.
    pub required: Vec<String>,
    /// The reason, in words for people.
    #[serde(default)]
    pub reason: Option<String>,
    /// The message to the target; by default the caller's last message.
    #[serde(default)]
    pub text: Option<String>,
    /// Working memory for the target.
    #[serde(default)]
    pub state: Map<String, Value>,
    /// Named outputs of the work so far.
    #[serde(default)]
    pub output_keys: Map<String, Value>,
    /// A summary of the work so far.
    #[serde(default)]
    pub summary: Option<String>,
}

/// The target of a handoff.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct Transfer {
    /// The URL of the agent that has the task now.
    pub agent_endpoint: String,
    /// The id of the task at that agent.
    pub task_id: TaskRef,
    /// The name of that agent at the server that handed the task over.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub agent_name: Option<String>,
    /// The reason, in words for people.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub reason: Option<String>,
    /// The id of the conversation at that agent.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub context_id: Option<ContextId>,
    /// The URL of the agent's card.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub card_url: Option<String>,
    /// The protocol binding that the sending server used.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub protocol_binding: Option<String>,
    /// The id of this handoff on both sides. A peer that uses the literal form may leave it out.
    #[serde(default, skip_serializing_if = "String::is_empty")]
    pub transfer_id: String,
    /// The servers that had the task before, oldest first.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub chain: Vec<TransferHop>,
    /// The time of the handoff.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub transferred_at: Option<Timestamp>,
    /// The secret with which the caller claims the task at that agent.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub claim_secret: Option<HandoffClaim>,
    /// The task there was not held, so there is nothing to activate.
    #[serde(default, skip_serializing_if = "std::ops::Not::not")]
    pub begun: bool,
}

impl Transfer {
    /// The object of the extension: the state and the target.
    pub fn to_value(&self) -> Value {
        serde_json::json!({ "state": TRANSFERRED, "transfer": self })
    }

    /// Reads the target from the metadata of a message or a task.
    pub fn of_metadata(metadata: Option<&Object>) -> Option<Self> {
        let object = metadata?.get(HANDOFF)?;
        if object.get("state")?.as_str()? != TRANSFERRED {
            return None;
        }
        serde_json::from_value(object.get("transfer")?.clone()).ok()
    }

    /// Reads the target of a handed-over task. The status message has it first; the task's own metadata keeps it.
    pub fn of(state: TaskState, message: Option<&Message>, metadata: Option<&Object>) -> Option<Self> {
        if !matches!(state, TaskState::Completed | TaskState::Transferred) {
            return None;
        }
        let said = message.and_then(|message| Self::of_metadata(message.metadata.as_ref()));
        said.or_else(|| Self::of_metadata(metadata))
    }

    /// Adds the target to a message.
    pub fn add_to_message(&self, message: &mut Message) {
        message.metadata = Some(with_member(message.metadata.as_ref(), HANDOFF, self.to_value()));
        if !message.extensions.iter().any(|uri| uri == HANDOFF) {
            message.extensions.push(HANDOFF.into());
        }
    }

    /// Adds the target to a status whose peer sent it in the literal form, beside the message.
    pub fn add_to_status(&self, status: &mut TaskStatus) {
        let message = status.message.get_or_insert_with(|| {
            let id = MessageId::parse("transfer").expect("a plain word is a legal id");
            Message::text(id, Role::Agent, self.description())
        });
        self.add_to_message(message);
    }

    /// A sentence about the handoff for people.
    pub fn description(&self) -> String {
        let why = self.reason.as_deref().map(|reason| format!("{reason}. ")).unwrap_or_default();
        format!("{why}This task was handed over to {}, where it is task {}.", self.agent_endpoint, self.task_id)
    }
}

/// Moves a context of the literal form from its own member into the metadata, unless the metadata has one.
pub fn move_literal_context(message: &mut Message, context: &Json) {
    let said = message.metadata.as_ref().is_some_and(|metadata| metadata.get(HANDOFF).is_some());
    let Ok(context) = context.read::<Value>() else { return };
    if !said && context.is_object() {
        let value = serde_json::json!({ "transfer_context": context });
        message.metadata = Some(with_member(message.metadata.as_ref(), HANDOFF, value));
        message.extensions.push(HANDOFF.into());
    }
}

/// The object with one member added or replaced.
pub fn with_member(object: Option<&Object>, name: &str, value: Value) -> Object {
    let mut map = object.map(Object::to_map).unwrap_or_default();
    map.insert(name.to_owned(), value);
    Object::from_map(&map).expect("a map of checked values is an object")
}

/// Whether two URLs name the same agent: the same origin and path after normalisation.
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

/// Why a task may not be handed on.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
pub enum ChainFault {
    /// The target had the task before, for the same skills.
    #[error("{0} has had this task already; handing it back would go round in a circle")]
    Loop(String),
    /// The task was handed on as often as the limit allows.
    #[error("the task was handed on {0} times already, which is the limit")]
    Depth(usize),
}

impl ChainFault {
    /// The error code on the wire.
    pub const fn code(&self) -> &'static str {
        match self {
            Self::Loop(_) => "HANDOFF_LOOP",
            Self::Depth(_) => "HANDOFF_DEPTH_EXCEEDED",
        }
    }
}

/// Checks whether a task with this `chain` may go to `target` for these skills. An agent that had the task may get it
/// once more, for other skills.
pub fn check_chain(chain: &[TransferHop], target: &str, skills: &[String], depth_max: usize) -> Result<(), ChainFault> {
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
