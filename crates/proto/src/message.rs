//! Messages: what users and agents say to each other.

use crate::lenient::{empty_none, null_default};
use crate::{ContextId, MessageId, Object, Part, TaskRef};
use serde::{Deserialize, Deserializer, Serialize};

/// Who speaks.
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
#[serde(rename_all = "camelCase")]
pub struct Message {
    /// Named by its author.
    #[serde(alias = "message_id")]
    pub message_id: MessageId,
    /// The conversation it belongs to.
    #[serde(alias = "context_id", default, deserialize_with = "empty_none", skip_serializing_if = "Option::is_none")]
    pub context_id: Option<ContextId>,
    /// The task it continues or speaks of.
    #[serde(alias = "task_id", default, deserialize_with = "empty_none", skip_serializing_if = "Option::is_none")]
    pub task_id: Option<TaskRef>,
    /// Who speaks.
    pub role: Role,
    /// The content; at least one part.
    pub parts: Vec<Part>,
    /// Free metadata.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub metadata: Option<Object>,
    /// URIs of the extensions present in this message.
    #[serde(default, deserialize_with = "null_default", skip_serializing_if = "Vec::is_empty")]
    pub extensions: Vec<String>,
    /// Other tasks this message refers to.
    #[serde(
        alias = "reference_task_ids",
        default,
        deserialize_with = "null_default",
        skip_serializing_if = "Vec::is_empty"
    )]
    pub reference_task_ids: Vec<String>,
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

    /// All text parts, joined by line breaks.
    pub fn joined_text(&self) -> String {
        let texts: Vec<&str> = self.parts.iter().filter_map(Part::as_text).collect();
        texts.join("\n")
    }

    /// The skill this message asks for, if it says so. A2A has no member for it; ours is the extension key, and
    /// `skillId` is what others write.
    pub fn skill(&self) -> Option<String> {
        let metadata = self.metadata.as_ref()?.to_map();
        let named = metadata.get("urn:sabir:ext:skill:v1").or_else(|| metadata.get("skillId"))?;
        named.as_str().map(str::to_owned)
    }

    /// The job on a chain that this message belongs to, if it says so. Some write the number as text; 0 is no job.
    pub fn job(&self) -> Option<u64> {
        let metadata = self.metadata.as_ref()?.to_map();
        let job = metadata.get("xpr:jobId")?;
        job.as_u64().or_else(|| job.as_str()?.trim().parse().ok()).filter(|job| *job != 0)
    }
}
