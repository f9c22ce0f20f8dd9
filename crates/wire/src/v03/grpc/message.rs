//! Messages, artifacts and their parts in protobuf.

use crate::path::{MemberError, Path, non_empty};
use crate::pb::a2a_v03 as pb;
use crate::tagged_json::part::{is_wrapped, metadata_with_mark, unwrap_data};
use crate::v1::grpc::value::{read_optional_struct, read_struct, write_struct, write_value};
use pb::file_part::File;
use pb::part::Part as Kind;
use prost_types::Struct;
use prost_types::value::Kind as ValueKind;
use sabir_proto::{Artifact, ArtifactId, Content, ContextId, Json, Message, MessageId, Object, Part, Role, TaskRef};

pub(super) fn read_message(message: pb::Message, path: &Path<'_>) -> Result<Message, MemberError> {
    Ok(Message {
        message_id: MessageId::parse(&message.message_id)
            .map_err(|e| path.member("messageId").error(format_args!("message id {e}")))?,
        context_id: read_context(&message.context_id, &path.member("contextId"))?,
        task_id: non_empty(message.task_id).map(|id| read_task_ref(&id, &path.member("taskId"))).transpose()?,
        role: read_role(message.role, &path.member("role"))?,
        parts: path.member("content").each(message.content, read_part)?,
        metadata: read_optional_struct(message.metadata, &path.member("metadata"))?,
        extensions: message.extensions,
        reference_task_ids: Vec::new(),
    })
}

pub(super) fn write_message(message: &Message) -> pb::Message {
    pb::Message {
        message_id: message.message_id.to_string(),
        context_id: write_context(message.context_id.as_ref()),
        task_id: message.task_id.as_ref().map(ToString::to_string).unwrap_or_default(),
        role: write_role(message.role).into(),
        content: message.parts.iter().map(write_part).collect(),
        metadata: message.metadata.as_ref().map(write_struct),
        extensions: message.extensions.clone(),
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

pub(super) fn write_artifact(artifact: &Artifact) -> pb::Artifact {
    pb::Artifact {
        artifact_id: artifact.artifact_id.to_string(),
        name: artifact.name.clone().unwrap_or_default(),
        description: artifact.description.clone().unwrap_or_default(),
        parts: artifact.parts.iter().map(write_part).collect(),
        metadata: artifact.metadata.as_ref().map(write_struct),
        extensions: artifact.extensions.clone(),
    }
}

fn read_part(part: pb::Part, path: &Path<'_>) -> Result<Part, MemberError> {
    let mut read = match part.part {
        Some(Kind::Text(text)) => Part::text(text),
        Some(Kind::File(file)) => read_file(file, &path.member("file"))?,
        // An unset value in a data part is the empty object.
        Some(Kind::Data(data)) => {
            let object = read_struct(&data.data.unwrap_or_default(), &path.member("data"))?;
            Part::data(object.as_json().clone())
        }
        None => return Err(path.error("a part has exactly one of text, file, data; this one has none")),
    };
    read.metadata = read_optional_struct(part.metadata, &path.member("metadata"))?;
    unwrap_data(&mut read);
    Ok(read)
}

fn read_file(file: pb::FilePart, path: &Path<'_>) -> Result<Part, MemberError> {
    let content = match file.file {
        Some(File::FileWithUri(uri)) => Content::Url(uri),
        Some(File::FileWithBytes(bytes)) => Content::Raw(bytes),
        None => return Err(path.error("a file has exactly one of fileWithUri, fileWithBytes; this one has none")),
    };
    Ok(Part { media_type: non_empty(file.mime_type), filename: non_empty(file.name), ..Part::new(content) })
}

fn write_part(part: &Part) -> pb::Part {
    let file = |file| {
        Kind::File(pb::FilePart {
            mime_type: part.media_type.clone().unwrap_or_default(),
            name: part.filename.clone().unwrap_or_default(),
            file: Some(file),
        })
    };
    let kind = match &part.content {
        Content::Text(text) => Kind::Text(text.clone()),
        Content::Url(url) => file(File::FileWithUri(url.clone())),
        Content::Raw(bytes) => file(File::FileWithBytes(bytes.clone())),
        Content::Data(json) => Kind::Data(pb::DataPart { data: Some(write_data(json, part.metadata.as_ref())) }),
    };
    pb::Part { metadata: metadata_with_mark(part).as_deref().map(write_struct), part: Some(kind) }
}

/// Writes an object as it is, and any other value as the only member of an object.
fn write_data(json: &Json, metadata: Option<&Object>) -> Struct {
    let value = write_value(json);
    match value.kind {
        Some(ValueKind::StructValue(object)) if !is_wrapped(json, metadata) => object,
        _ => Struct { fields: [("value".to_owned(), value)].into() },
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

/// Reads a context id; proto3 has no absent strings, so an empty one is unset.
pub(super) fn read_context(text: &str, path: &Path<'_>) -> Result<Option<ContextId>, MemberError> {
    if text.is_empty() {
        return Ok(None);
    }
    ContextId::parse(text).map(Some).map_err(|e| path.error(format_args!("context id {e}")))
}

pub(super) fn write_context(context: Option<&ContextId>) -> String {
    context.map(ToString::to_string).unwrap_or_default()
}

pub(super) fn read_task_ref(text: &str, path: &Path<'_>) -> Result<TaskRef, MemberError> {
    TaskRef::parse(text).map_err(|e| path.error(format_args!("task id {e}")))
}
