//! Messages, artifacts and their parts in protobuf.

use super::value::{read_optional_struct, read_value, write_struct, write_value};
use crate::path::{MemberError, Path, non_empty};
use crate::pb::lf_a2a_v1 as pb;
use sabir_proto::{Artifact, ArtifactId, Content, ContextId, Message, MessageId, Part, Role, TaskRef};

pub(super) fn read_message(message: pb::Message, path: &Path<'_>) -> Result<Message, MemberError> {
    Ok(Message {
        message_id: MessageId::parse(&message.message_id)
            .map_err(|e| path.member("messageId").error(format_args!("message id {e}")))?,
        context_id: non_empty(message.context_id).map(|id| read_context(&id, &path.member("contextId"))).transpose()?,
        task_id: non_empty(message.task_id).map(|id| read_task_ref(&id, &path.member("taskId"))).transpose()?,
        role: read_role(message.role, &path.member("role"))?,
        parts: path.member("parts").each(message.parts, read_part)?,
        metadata: read_optional_struct(message.metadata, &path.member("metadata"))?,
        extensions: message.extensions,
        reference_task_ids: message.reference_task_ids,
    })
}

pub(super) fn write_message(message: Message) -> pb::Message {
    pb::Message {
        message_id: message.message_id.to_string(),
        context_id: message.context_id.map(|id| id.to_string()).unwrap_or_default(),
        task_id: message.task_id.map(|id| id.to_string()).unwrap_or_default(),
        role: write_role(message.role).into(),
        parts: message.parts.into_iter().map(write_part).collect(),
        metadata: message.metadata.as_ref().map(write_struct),
        extensions: message.extensions,
        reference_task_ids: message.reference_task_ids,
    }
}

pub(super) fn read_artifact(artifact: pb::Artifact, path: &Path<'_>) -> Result<Artifact, MemberError> {
    Ok(Artifact {
        artifact_id: ArtifactId::parse(&artifact.artifact_id)
            .map_err(|e| path.member("artifactId").error(format_args!("artifact id {e}")))?,
        name: non_empty(artifact.name),
        description: non_empty(artifact.description),
        parts: path.member("parts").each(artifact.parts, read_part)?,
        metadata: read_optional_struct(artifact.metadata, &path.member("metadata"))?,
        extensions: artifact.extensions,
    })
}

pub(super) fn write_artifact(artifact: Artifact) -> pb::Artifact {
    pb::Artifact {
        artifact_id: artifact.artifact_id.to_string(),
        name: artifact.name.unwrap_or_default(),
        description: artifact.description.unwrap_or_default(),
        parts: artifact.parts.into_iter().map(write_part).collect(),
        metadata: artifact.metadata.as_ref().map(write_struct),
        extensions: artifact.extensions,
    }
}

fn read_part(part: pb::Part, path: &Path<'_>) -> Result<Part, MemberError> {
    let content = match part.content {
        Some(pb::part::Content::Text(text)) => Content::Text(text),
        Some(pb::part::Content::Raw(bytes)) => Content::Raw(bytes),
        Some(pb::part::Content::Url(url)) => Content::Url(url),
        Some(pb::part::Content::Data(value)) => Content::Data(read_value(&value, &path.member("data"))?),
        None => return Err(path.error("a part has exactly one of text, raw, url, data; this one has none")),
    };
    Ok(Part {
        content,
        metadata: read_optional_struct(part.metadata, &path.member("metadata"))?,
        filename: non_empty(part.filename),
        media_type: non_empty(part.media_type),
    })
}

fn write_part(part: Part) -> pb::Part {
    let content = match part.content {
        Content::Text(text) => pb::part::Content::Text(text),
        Content::Raw(bytes) => pb::part::Content::Raw(bytes),
        Content::Url(url) => pb::part::Content::Url(url),
        Content::Data(json) => pb::part::Content::Data(write_value(&json)),
    };
    pb::Part {
        content: Some(content),
        metadata: part.metadata.as_ref().map(write_struct),
        filename: part.filename.unwrap_or_default(),
        media_type: part.media_type.unwrap_or_default(),
    }
}

fn read_role(number: i32, path: &Path<'_>) -> Result<Role, MemberError> {
    match pb::Role::try_from(number) {
        Ok(pb::Role::User) => Ok(Role::User),
        Ok(pb::Role::Agent) => Ok(Role::Agent),
        Ok(pb::Role::Unspecified) => Err(path.error("is unspecified; expected ROLE_USER or ROLE_AGENT")),
        Err(_) => Err(path.error(format_args!("unknown role {number}; expected ROLE_USER or ROLE_AGENT"))),
    }
}

const fn write_role(role: Role) -> pb::Role {
    match role {
        Role::User => pb::Role::User,
        Role::Agent => pb::Role::Agent,
    }
}

pub(super) fn read_context(text: &str, path: &Path<'_>) -> Result<ContextId, MemberError> {
    ContextId::parse(text).map_err(|e| path.error(format_args!("context id {e}")))
}

pub(super) fn read_task_ref(text: &str, path: &Path<'_>) -> Result<TaskRef, MemberError> {
    TaskRef::parse(text).map_err(|e| path.error(format_args!("task id {e}")))
}
