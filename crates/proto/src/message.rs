//! Messages: what users and agents send to each other.

use crate::lenient::{empty_none, null_default};
use crate::{ContextId, Json, MessageId, Object, Part, TaskRef, transfer};
use serde::{Deserialize, Deserializer, Serialize};

/// The author of a message: the client or the agent.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize)]
pub enum Role {
    /// The client's side.
    #[serde(rename = "ROLE_USER")]
    User,
    /// The agent's side.
    #[serde(rename = "ROLE_AGENT")]
    Agent,
}

impl<'de> Deserialize<'de> for Role {
    fn deserialize<D: Deserializer<'de>>(d: D) -> Result<Self, D::Error> {
        crate::task::enum_name(d, |name| match name {
            "ROLE_USER" | "1" => Ok(Self::User),
            "ROLE_AGENT" | "2" => Ok(Self::Agent),
            other => Err(format!("unknown role {other:?}; expected ROLE_USER or ROLE_AGENT")),
        })
    }
}

/// One message of a conversation.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase", from = "Read")]
pub struct Message {
    /// The id of the message, chosen by its author.
    pub message_id: MessageId,
    /// The conversation it belongs to.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub context_id: Option<ContextId>,
    /// The task that the message continues or is about.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub task_id: Option<TaskRef>,
    /// The author of the message.
    pub role: Role,
    /// The content; at least one part.
    pub parts: Vec<Part>,
    /// Metadata of any shape.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub metadata: Option<Object>,
    /// URIs of the extensions present in this message.
    #[serde(skip_serializing_if = "Vec::is_empty")]
    pub extensions: Vec<String>,
    /// Other tasks this message refers to.
    #[serde(skip_serializing_if = "Vec::is_empty")]
    pub reference_task_ids: Vec<String>,
}

/// A message as parsed from JSON. The literal form of the handoff extension adds the transfer context as a member of
/// its own.
#[derive(Deserialize)]
#[serde(rename_all = "camelCase", rename = "Message")]
struct Read {
    #[serde(alias = "message_id")]
    message_id: MessageId,
    #[serde(alias = "context_id", default, deserialize_with = "empty_none")]
    context_id: Option<ContextId>,
    #[serde(alias = "task_id", default, deserialize_with = "empty_none")]
    task_id: Option<TaskRef>,
    role: Role,
    parts: Vec<Part>,
    #[serde(default)]
    metadata: Option<Object>,
    #[serde(default, deserialize_with = "null_default")]
    extensions: Vec<String>,
    #[serde(alias = "reference_task_ids", default, deserialize_with = "null_default")]
    reference_task_ids: Vec<String>,
    #[serde(rename = "transfer_context", default)]
    transfer_context: Option<Json>,
}

impl From<Read> for Message {
    fn from(read: Read) -> Self {
        let mut message = Self {
            message_id: read.message_id,
            context_id: read.context_id,
            task_id: read.task_id,
            role: read.role,
            parts: read.parts,
            metadata: read.metadata,
            extensions: read.extensions,
            reference_task_ids: read.reference_task_ids,
        };
        if let Some(context) = read.transfer_context {
            transfer::move_literal_context(&mut message, &context);
        }
        message
    }
}

impl Message {
    /// A message with one text part and nothing else.
    pub fn text(id: MessageId, role: Role, text: impl Into<String>) -> Self {
        Self {
            message_id: id,
            context_id: None,
            task_id: None,
            role,
            parts: vec![Part::text(text)],
            metadata: None,
            extensions: Vec::new(),
            reference_task_ids: Vec::new(),
        }
    }

    /// The skill that this message asks for, if it names one. A2A has no member for it: our extension defines one, and
    /// other clients write `skillId`.
    pub fn skill(&self) -> Option<String> {
        let metadata = self.metadata.as_ref()?;
        match metadata.get("urn:sabir:ext:skill:v1").or_else(|| metadata.get("skillId"))? {
            serde_json::Value::String(name) => Some(name),
            _ => None,
        }
    }

    /// The XPR escrow job that this message belongs to, if it names one. Some clients write the number as text; 0 is no
    /// job.
    pub fn job(&self) -> Option<u64> {
        let job = self.metadata.as_ref()?.get("xpr:jobId")?;
        job.as_u64().or_else(|| job.as_str()?.trim().parse().ok()).filter(|job| *job != 0)
    }
}
