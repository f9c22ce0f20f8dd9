//! What the next server is told, and how it reads it.

use super::{HANDOFF, Hop, secrets, with_member};
use crate::{ContextId, Message, Object, Timestamp};
use serde::{Deserialize, Serialize};
use serde_json::{Map, Value};

/// Most bytes of `state` and `output_keys` together.
pub(super) const MEMORY_BYTES_MAX: usize = 64 * 1024;
/// How deep they may nest; flat is better.
pub(super) const MEMORY_DEPTH_MAX: usize = 8;
/// Most bytes of the whole object: the memory, a summary, references and a chain.
const CONTEXT_BYTES_MAX: usize = 128 * 1024;
/// Most names in `required` or `scope`.
const NAMES_MAX: usize = 256;

/// What a server that gives a task away tells the next one.
#[derive(Debug, Clone, PartialEq, Eq, Default, Serialize, Deserialize)]
pub struct TransferContext {
    /// The task that was given away.
    #[serde(default)]
    pub originating_task_id: String,
    /// The URL of the agent that had it.
    #[serde(default)]
    pub originating_agent: String,
    /// Its working memory.
    #[serde(default, skip_serializing_if = "Map::is_empty")]
    pub state: Map<String, Value>,
    /// Named outputs of what was done so far.
    #[serde(default, skip_serializing_if = "Map::is_empty")]
    pub output_keys: Map<String, Value>,
    /// The name of this handoff on both sides, a UUID.
    #[serde(default, skip_serializing_if = "String::is_empty")]
    pub transfer_id: String,
    /// Who had it before, oldest first; the sender last.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub chain: Vec<Hop>,
    /// The most that the receiver may do, by name; it can narrow and never widen.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub scope: Option<Vec<String>>,
    /// What is asked of the receiver, by name.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub required: Vec<String>,
    /// After which it is not wanted any more.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub expires_at: Option<Timestamp>,
    /// The conversation at the sender.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub context_id: Option<ContextId>,
    /// What happened so far, in words.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub summary: Option<String>,
    /// What was made so far, by reference.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub artifacts: Vec<Value>,
    /// What the claim looks like by which the caller shows that the task is its own.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub claim_digest: Option<String>,
    /// What is left to spend.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub payment: Option<Value>,
}

/// Why a context is neither sent nor taken.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
pub enum TransferFault {
    /// Not the object it should be.
    #[error("is not a transfer: {0}")]
    Shape(String),
    /// Too many bytes.
    #[error("has {0} bytes, over the limit of {1}")]
    Bytes(usize, usize),
    /// Nested too deep.
    #[error("nests deeper than {MEMORY_DEPTH_MAX} levels")]
    Depth,
    /// Looks like a secret; what it is, is not said.
    #[error("{0} looks like a secret; credentials never travel with a task")]
    Secret(String),
    /// Names nothing that is asked for.
    #[error("names no skill that is asked for")]
    NothingRequired,
    /// Too many names.
    #[error("has more than {NAMES_MAX} names")]
    Names,
}

impl TransferContext {
    /// Whether it may be sent, and taken: within its limits, without secrets, and for something.
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

    /// The memory that came with the task, under names that cannot be mistaken for the receiver's own. Outputs win over
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

/// What a message says by the extension, to a server that receives a task.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Incoming {
    /// A task comes. It waits until it is activated, if it is to be held.
    Create {
        /// What is told with it.
        context: Box<TransferContext>,
        /// Nothing is to happen before the sender has let go of it.
        hold: bool,
    },
    /// The sender has let go of it, or its new owner is here.
    Activate(Order),
}

/// What lets a task begin.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct Order {
    /// Which handoff.
    pub transfer_id: String,
    /// Always true; the word is what matters.
    pub activate: bool,
}

impl Incoming {
    /// Reads what a message says, if it says anything of the kind.
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

    /// Says it in a message.
    pub fn stamp(&self, message: &mut Message) {
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
