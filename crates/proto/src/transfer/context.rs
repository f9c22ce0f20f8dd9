//! The context of a handoff: what the sender tells the next server, and how that server parses it.

use super::{HANDOFF, TransferHop, secrets, with_member};
use crate::{ContextId, Message, Object, Timestamp};
use serde::{Deserialize, Serialize};
use serde_json::{Map, Value};

/// Most bytes of `state` and `output_keys` together.
pub(super) const MEMORY_BYTES_MAX: usize = 64 * 1024;
/// The depth to which `state` and `output_keys` may nest.
pub(super) const MEMORY_DEPTH_MAX: usize = 8;
/// Most bytes of the whole object: the memory, a summary, references and a chain.
const CONTEXT_BYTES_MAX: usize = 128 * 1024;
/// Most names in `required` or `scope`.
const NAMES_MAX: usize = 256;

/// The context that a server sends with a task that it hands over.
#[derive(Debug, Clone, PartialEq, Eq, Default, Serialize, Deserialize)]
pub struct TransferContext {
    /// The id of the task at the sender.
    #[serde(default)]
    pub originating_task_id: String,
    /// The URL of the agent that had the task.
    #[serde(default)]
    pub originating_agent: String,
    /// The working memory of the task.
    #[serde(default, skip_serializing_if = "Map::is_empty")]
    pub state: Map<String, Value>,
    /// Named outputs of the work so far.
    #[serde(default, skip_serializing_if = "Map::is_empty")]
    pub output_keys: Map<String, Value>,
    /// The id of this handoff on both sides, a UUID.
    #[serde(default, skip_serializing_if = "String::is_empty")]
    pub transfer_id: String,
    /// The servers that had the task before, oldest first; the sender last.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub chain: Vec<TransferHop>,
    /// The capabilities that the receiver may use, by name; they can only narrow its own.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub scope: Option<Vec<String>>,
    /// The capabilities that the receiver needs, by name.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub required: Vec<String>,
    /// The time after which the handoff is no longer wanted.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub expires_at: Option<Timestamp>,
    /// The id of the conversation at the sender.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub context_id: Option<ContextId>,
    /// A summary of the work so far.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub summary: Option<String>,
    /// The outputs so far, by reference.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub artifacts: Vec<Value>,
    /// The digest of the caller's claim.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub claim_digest: Option<String>,
    /// The remaining budget.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub payment: Option<Value>,
}

/// Why a context is neither sent nor accepted.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
pub enum TransferFault {
    /// It is not an object of this type.
    #[error("is not a transfer: {0}")]
    Shape(String),
    /// It has too many bytes.
    #[error("has {0} bytes, over the limit of {1}")]
    Bytes(usize, usize),
    /// It nests too deep.
    #[error("nests deeper than {MEMORY_DEPTH_MAX} levels")]
    Depth,
    /// It contains what looks like a secret. The error names only the place.
    #[error("{0} looks like a secret; credentials never travel with a task")]
    Secret(String),
    /// It names no required capability.
    #[error("names no skill that is asked for")]
    NothingRequired,
    /// It has too many names.
    #[error("has more than {NAMES_MAX} names")]
    Names,
}

impl TransferContext {
    /// Checks that the context may be sent and accepted: within its limits, without secrets, and with a required
    /// capability.
    pub fn check(&self) -> Result<(), TransferFault> {
        if self.required.is_empty() {
            return Err(TransferFault::NothingRequired);
        }
        if self.required.len().max(self.scope.as_ref().map_or(0, Vec::len)) > NAMES_MAX {
            return Err(TransferFault::Names);
        }
        let (state, outputs) = (Value::Object(self.state.clone()), Value::Object(self.output_keys.clone()));
        let bytes = state.to_string().len() + outputs.to_string().len();
        if bytes > MEMORY_BYTES_MAX {
            return Err(TransferFault::Bytes(bytes, MEMORY_BYTES_MAX));
        }
        if depth(&state).max(depth(&outputs)) > MEMORY_DEPTH_MAX {
            return Err(TransferFault::Depth);
        }
        let summary = Value::from(self.summary.clone().unwrap_or_default());
        let found = secrets::find("state", &state)
            .or_else(|| secrets::find("output_keys", &outputs))
            .or_else(|| secrets::find("summary", &summary))
            .or_else(|| secrets::find("artifacts", &Value::Array(self.artifacts.clone())));
        if let Some(path) = found {
            return Err(TransferFault::Secret(path));
        }
        let whole = serde_json::to_string(self).map_or(usize::MAX, |text| text.len());
        if whole > CONTEXT_BYTES_MAX {
            return Err(TransferFault::Bytes(whole, CONTEXT_BYTES_MAX));
        }
        Ok(())
    }

    /// The memory that came with the task, under a prefix that separates it from the receiver's own. Outputs replace
    /// state of the same name.
    pub fn memory(&self) -> Map<String, Value> {
        let all = self.state.iter().chain(&self.output_keys);
        all.map(|(name, value)| (format!("transfer.{name}"), value.clone())).collect()
    }
}

fn depth(value: &Value) -> usize {
    match value {
        Value::Object(members) => 1 + members.values().map(depth).max().unwrap_or(0),
        Value::Array(list) => 1 + list.iter().map(depth).max().unwrap_or(0),
        Value::Null | Value::Bool(_) | Value::Number(_) | Value::String(_) => 0,
    }
}

/// The handoff statement in a message to the receiving server.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum HandoffMessage {
    /// Creates a task, which waits for its activation if `hold` is set.
    Create {
        /// The context of the task.
        context: Box<TransferContext>,
        /// The receiver must not start before the sender has ended its own task.
        hold: bool,
    },
    /// Activates a held task: the sender has ended its own task, or the new owner is here.
    Activate(HandoffActivation),
}

/// Activates a held task.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct HandoffActivation {
    /// The id of the handoff.
    pub transfer_id: String,
    /// Always true; only the presence of the member matters.
    pub activate: bool,
}

impl HandoffMessage {
    /// Parses the handoff statement of a message, if it has one.
    pub fn of(message: &Message) -> Option<Result<Self, TransferFault>> {
        let object = message.metadata.as_ref()?.get(HANDOFF)?;
        let shape = |error: serde_json::Error| TransferFault::Shape(error.to_string());
        if let Some(context) = object.get("transfer_context") {
            let hold = object.get("hold").and_then(Value::as_bool).unwrap_or(false);
            let context = serde_json::from_value::<TransferContext>(context.clone()).map_err(shape);
            return Some(context.map(|context| Self::Create { context: Box::new(context), hold }));
        }
        object.get("activate")?;
        Some(serde_json::from_value(object).map(Self::Activate).map_err(shape))
    }

    /// Adds the statement to a message.
    pub fn add_to_message(&self, message: &mut Message) {
        let value = match self {
            Self::Create { context, hold: true } => serde_json::json!({ "transfer_context": context, "hold": true }),
            Self::Create { context, hold: false } => serde_json::json!({ "transfer_context": context }),
            Self::Activate(order) => serde_json::json!(order),
        };
        let metadata: Option<&Object> = message.metadata.as_ref();
        message.metadata = Some(with_member(metadata, HANDOFF, value));
        if !message.extensions.iter().any(|uri| uri == HANDOFF) {
            message.extensions.push(HANDOFF.into());
        }
    }
}
