//! Messages of the older dialects.

use super::part::{self, PartOut, TaggedPart};
use super::{Mint, Tag, TaggedStyle};
use crate::path::Path;
use crate::{LossKind, Losses};
use sabir_proto::lenient::{empty_none, null_default};
use sabir_proto::transfer::move_literal_context;
use sabir_proto::{ContextId, Json, Message, MessageId, Object, Role, TaskRef};
use serde::{Deserialize, Deserializer, Serialize};

/// A message as read. The dialects require different members, so this type requires only the parts.
#[derive(Debug, Deserialize)]
#[serde(rename_all = "camelCase")]
pub(crate) struct MessageIn {
    #[serde(default)]
    kind: Option<Word<MessageWord>>,
    #[serde(default)]
    message_id: Option<MessageId>,
    #[serde(default, deserialize_with = "empty_none")]
    pub(crate) context_id: Option<ContextId>,
    #[serde(default, deserialize_with = "empty_none")]
    pub(crate) task_id: Option<TaskRef>,
    #[serde(default)]
    role: Option<RoleWord>,
    pub(crate) parts: Vec<TaggedPart>,
    #[serde(default)]
    pub(crate) metadata: Option<Object>,
    #[serde(default, deserialize_with = "null_default")]
    extensions: Vec<String>,
    #[serde(default, deserialize_with = "null_default")]
    reference_task_ids: Vec<String>,
    /// The member of the handoff extension in its literal form.
    #[serde(rename = "transfer_context", default)]
    transfer_context: Option<Json>,
}

impl MessageIn {
    /// The member that tags the parts; `None` without parts.
    pub(crate) fn tag(&self) -> Option<Tag> {
        // One part by `kind` is enough: dialects that tag by `type` never write it.
        let kind = self.parts.iter().find(|p| p.tag == Tag::Kind).map(|p| p.tag);
        kind.or_else(|| self.parts.first().map(|p| p.tag))
    }

    /// What is wrong with the role, for a dialect that requires one of the two words.
    pub(crate) fn role_problem(&self) -> Option<&'static str> {
        match self.role {
            None => Some("is required; it is user or agent"),
            Some(RoleWord { exact: false, .. }) => Some("must be user or agent"),
            Some(RoleWord { exact: true, .. }) => None,
        }
    }

    /// Whether the message has an id.
    pub(crate) const fn has_id(&self) -> bool {
        self.message_id.is_some()
    }

    /// Whether it has members that only dialects with message ids write.
    pub(crate) const fn is_named(&self) -> bool {
        self.message_id.is_some() || self.kind.is_some()
    }

    /// Converts to the canonical message. One without an id gets an id from `mint`.
    pub(crate) fn into_message(self, mint: Mint<'_>) -> Message {
        let mut message = Message {
            message_id: self.message_id.unwrap_or_else(mint),
            context_id: self.context_id,
            task_id: self.task_id,
            role: self.role.map_or(Role::User, |word| word.role),
            parts: self.parts.into_iter().map(|p| p.part).collect(),
            metadata: self.metadata,
            extensions: self.extensions,
            reference_task_ids: self.reference_task_ids,
        };
        if let Some(context) = &self.transfer_context {
            move_literal_context(&mut message, context);
        }
        message
    }
}

/// The role `user` or `agent`. Servers of agent-native accept any word, and all but the words for the agent mean the
/// user.
#[derive(Debug, Clone, Copy)]
struct RoleWord {
    role: Role,
    /// Whether it is one of the two words, and not another that was accepted for one.
    exact: bool,
}

impl<'de> Deserialize<'de> for RoleWord {
    fn deserialize<D: Deserializer<'de>>(d: D) -> Result<Self, D::Error> {
        sabir_proto::lenient::from_text(d, |word| match word {
            "agent" => Ok(Self { role: Role::Agent, exact: true }),
            "user" => Ok(Self { role: Role::User, exact: true }),
            "assistant" => Ok(Self { role: Role::Agent, exact: false }),
            "" => Err("role is empty; it is user or agent".into()),
            // A role of 1.0 in an older message: the caller mixes dialects, and guessing would hide it.
            "ROLE_USER" | "ROLE_AGENT" => Err(format!("{word} is a role of 1.0; here it is user or agent")),
            _ => Ok(Self { role: Role::User, exact: false }),
        })
    }
}

/// A member that can only hold one word.
#[derive(Debug)]
pub(crate) struct Word<W>(std::marker::PhantomData<W>);

pub(crate) trait FixedWord {
    const WORD: &'static str;
}

#[derive(Debug)]
pub(crate) struct MessageWord;

impl FixedWord for MessageWord {
    const WORD: &'static str = "message";
}

impl<'de, W: FixedWord> Deserialize<'de> for Word<W> {
    fn deserialize<D: Deserializer<'de>>(d: D) -> Result<Self, D::Error> {
        sabir_proto::lenient::from_text(d, |word| {
            if word == W::WORD { Ok(Self(std::marker::PhantomData)) } else { Err(format!("must be {:?}", W::WORD)) }
        })
    }
}

/// A message as it is written.
#[derive(Debug, Serialize)]
#[serde(rename_all = "camelCase")]
pub(crate) struct MessageOut<'a> {
    #[serde(skip_serializing_if = "Option::is_none")]
    kind: Option<&'static str>,
    #[serde(skip_serializing_if = "Option::is_none")]
    message_id: Option<&'a MessageId>,
    #[serde(skip_serializing_if = "Option::is_none")]
    context_id: Option<&'a ContextId>,
    #[serde(skip_serializing_if = "Option::is_none")]
    task_id: Option<&'a TaskRef>,
    role: &'static str,
    parts: Vec<PartOut<'a>>,
    #[serde(skip_serializing_if = "Option::is_none")]
    metadata: Option<&'a Object>,
    #[serde(skip_serializing_if = "<[String]>::is_empty")]
    extensions: &'a [String],
    #[serde(skip_serializing_if = "<[String]>::is_empty")]
    reference_task_ids: &'a [String],
}

impl MessageOut<'_> {
    /// Leaves out the metadata, which the caller writes beside the message.
    pub(crate) const fn move_metadata(&mut self) {
        self.metadata = None;
    }
}

/// Writes a message in the style of a dialect.
pub(crate) fn write<'a>(
    message: &'a Message,
    style: TaggedStyle,
    path: &Path<'_>,
    losses: &mut Losses,
) -> MessageOut<'a> {
    let named = style.dialect.features().message_ids;
    let parts = path.member("parts");
    let mut out = MessageOut {
        kind: style.kind("message"),
        message_id: None,
        context_id: None,
        task_id: None,
        role: match message.role {
            Role::User => "user",
            Role::Agent => "agent",
        },
        parts: message.parts.iter().enumerate().map(|(i, p)| part::write(p, style, &parts.item(i), losses)).collect(),
        metadata: message.metadata.as_ref(),
        extensions: &[],
        reference_task_ids: &[],
    };
    if named {
        out.message_id = Some(&message.message_id);
        out.context_id = message.context_id.as_ref();
        out.task_id = message.task_id.as_ref();
        out.extensions = &message.extensions;
        out.reference_task_ids = &message.reference_task_ids;
        return out;
    }
    losses.note(LossKind::MessageId, path.member("messageId"));
    if message.context_id.is_some() {
        losses.note(LossKind::ContextId, path.member("contextId"));
    }
    if message.task_id.is_some() {
        losses.note(LossKind::TaskId, path.member("taskId"));
    }
    if !message.extensions.is_empty() {
        losses.note(LossKind::Extensions, path.member("extensions"));
    }
    if !message.reference_task_ids.is_empty() {
        losses.note(LossKind::References, path.member("referenceTaskIds"));
    }
    out
}
