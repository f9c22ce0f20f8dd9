//! Tasks, statuses and artifacts of the older dialects.

use super::message::{self, MessageIn, MessageOut};
use super::part::{self, PartOut, TaggedPart};
use super::{AnswerPlace, ArtifactName, Mint, StrictObject, TaggedStyle};
use crate::path::{MemberError, Path};
use crate::{Dialect, LossKind, Losses};
use sabir_proto::lenient::{empty_none, null_default, object, optional_object};
use sabir_proto::{
    Artifact, ArtifactId, Content, ContextId, Json, Message, MessageId, Object, Part, Role, TaskId, TaskRef, TaskState,
    TaskStatus, Timestamp, Transfer, WireTask, transfer::TRANSFERRED,
};
use serde::{Deserialize, Serialize};
use std::borrow::Cow;
use std::collections::HashMap;

/// A task as it is read.
#[derive(Debug, Deserialize)]
#[serde(rename_all = "camelCase")]
pub(crate) struct TaskIn {
    id: TaskRef,
    #[serde(default, deserialize_with = "empty_none")]
    context_id: Option<ContextId>,
    #[serde(default, deserialize_with = "empty_none")]
    session_id: Option<ContextId>,
    #[serde(deserialize_with = "object")]
    status: StatusIn,
    #[serde(default, deserialize_with = "null_default")]
    artifacts: Vec<StrictObject<ArtifactIn>>,
    #[serde(default, deserialize_with = "null_default")]
    history: Vec<StrictObject<MessageIn>>,
    #[serde(default)]
    metadata: Option<Object>,
}

impl TaskIn {
    /// Converts to the canonical task.
    pub(crate) fn read(self, path: &Path<'_>, mint: Mint<'_>, losses: &mut Losses) -> Result<WireTask, MemberError> {
        let at = path.member("artifacts");
        let mut artifacts: Vec<Artifact> = Vec::with_capacity(self.artifacts.len());
        let mut places = HashMap::new();
        for (i, StrictObject(artifact)) in self.artifacts.into_iter().enumerate() {
            let Chunk { artifact, append, .. } = artifact.read(i, &at.item(i))?;
            // Servers of 0.1 keep an artifact as the chunks in which it arrived.
            match places.get(&artifact.artifact_id).filter(|_| append) {
                Some(place) => Artifact::append(&mut artifacts[*place], artifact),
                None => {
                    places.entry(artifact.artifact_id.clone()).or_insert(artifacts.len());
                    artifacts.push(artifact);
                }
            }
        }
        Ok(WireTask {
            id: self.id,
            context_id: one_context(self.context_id, self.session_id, path)?,
            status: self.status.read(&path.member("status"), mint, losses)?,
            metadata: self.metadata,
            history: self.history.into_iter().map(|m| m.0.into_message(mint)).collect(),
            artifacts,
        })
    }
}

/// The context id under either of its names. Both may be there if they agree.
pub(crate) fn one_context(
    context: Option<ContextId>,
    session: Option<ContextId>,
    path: &Path<'_>,
) -> Result<Option<ContextId>, MemberError> {
    match (context, session) {
        (Some(a), Some(b)) if a != b => {
            Err(path.member("sessionId").error("differs from contextId; send one of them, 0.1 has sessionId"))
        }
        (a, b) => Ok(a.or(b)),
    }
}

/// A status as it is read.
#[derive(Debug, Deserialize)]
pub(crate) struct StatusIn {
    state: String,
    #[serde(default, deserialize_with = "optional_object")]
    message: Option<MessageIn>,
    #[serde(default)]
    timestamp: Option<String>,
    /// The target of a handoff, in the literal form of the extension.
    #[serde(default)]
    transfer: Option<Json>,
}

impl StatusIn {
    /// Converts to the canonical status.
    pub(crate) fn read(self, path: &Path<'_>, mint: Mint<'_>, losses: &mut Losses) -> Result<TaskStatus, MemberError> {
        let timestamp = self.timestamp.as_deref().filter(|t| !t.is_empty());
        let read = timestamp.and_then(Timestamp::parse_loose);
        if timestamp.is_some() && read.is_none() {
            losses.note(LossKind::Timestamp, path.member("timestamp"));
        }
        let mut status = TaskStatus {
            state: read_state(&self.state, &path.member("state"), losses)?,
            message: self.message.map(|m| m.into_message(mint)),
            timestamp: read,
        };
        if let Some(Ok(transfer)) = self.transfer.map(|transfer| transfer.read::<Transfer>()) {
            transfer.add_to_status(&mut status);
        }
        Ok(status)
    }
}

/// Reads the word for a state in any of the older dialects.
fn read_state(word: &str, path: &Path<'_>, losses: &mut Losses) -> Result<TaskState, MemberError> {
    Ok(match word {
        "submitted" => TaskState::Submitted,
        // agent-native writes `processing` while its worker runs.
        "working" | "processing" => TaskState::Working,
        "input-required" => TaskState::InputRequired,
        "completed" => TaskState::Completed,
        "canceled" => TaskState::Canceled,
        "failed" => TaskState::Failed,
        "rejected" => TaskState::Rejected,
        "auth-required" => TaskState::AuthRequired,
        "unknown" => TaskState::Unspecified,
        // The state of the handoff extension in its literal form.
        TRANSFERRED | "transferred" => TaskState::Transferred,
        // A word of the right form that no dialect has: its meaning is not known, and a client that polls goes on.
        other if !other.is_empty() && other.bytes().all(|b| b.is_ascii_lowercase() || b == b'-') => {
            losses.note(LossKind::State, path);
            TaskState::Unspecified
        }
        other => {
            let shown: String = other.chars().take(32).collect();
            return Err(path.error(format_args!("unknown task state {shown:?}")));
        }
    })
}

/// The word for a state. No wildcard: a new state does not compile until each dialect has a word for it.
fn write_state(state: TaskState, style: TaggedStyle, path: &Path<'_>, losses: &mut Losses) -> &'static str {
    let all = style.dialect.features().all_states;
    let (word, exact) = match state {
        TaskState::Submitted => ("submitted", true),
        TaskState::Working => ("working", true),
        TaskState::InputRequired => ("input-required", true),
        TaskState::Completed => ("completed", true),
        TaskState::Canceled => ("canceled", true),
        TaskState::Failed => ("failed", true),
        TaskState::Unspecified if !matches!(style.dialect, Dialect::Native | Dialect::Xpr) => ("unknown", true),
        TaskState::Rejected if all => ("rejected", true),
        TaskState::AuthRequired if all => ("auth-required", true),
        // The nearest state on which a caller can act: the task will not be done, or the caller has to provide
        // something.
        TaskState::Rejected => ("failed", false),
        TaskState::AuthRequired => ("input-required", false),
        // The task has not ended, as far as the sender knows.
        TaskState::Unspecified => ("working", false),
        // Only we have this state; the work here is done.
        TaskState::Transferred => ("completed", false),
    };
    if !exact {
        losses.note(LossKind::State, path);
    }
    word
}

/// An artifact as it is read: with `artifactId`, or the `index` of 0.1, or the `id` that clients of 0.1 came to write
/// beside it.
#[derive(Debug, Deserialize)]
#[serde(rename_all = "camelCase")]
pub(crate) struct ArtifactIn {
    #[serde(default, deserialize_with = "empty_none")]
    artifact_id: Option<String>,
    #[serde(default, deserialize_with = "empty_none")]
    id: Option<String>,
    #[serde(default)]
    index: Option<u32>,
    #[serde(default, deserialize_with = "empty_none")]
    name: Option<String>,
    #[serde(default, deserialize_with = "empty_none")]
    description: Option<String>,
    parts: Vec<TaggedPart>,
    #[serde(default)]
    metadata: Option<Object>,
    #[serde(default, deserialize_with = "null_default")]
    extensions: Vec<String>,
    #[serde(default)]
    append: Option<bool>,
    #[serde(default)]
    last_chunk: Option<bool>,
}

/// An artifact with the members about the chunk that 0.1 has inside it.
#[derive(Debug)]
pub(crate) struct Chunk {
    pub(crate) artifact: Artifact,
    pub(crate) append: bool,
    pub(crate) last: bool,
}

impl ArtifactIn {
    /// Converts to the canonical artifact. `position` is the id of one that has none.
    pub(crate) fn read(self, position: usize, path: &Path<'_>) -> Result<Chunk, MemberError> {
        let name = self.artifact_id.or(self.id).unwrap_or_else(|| match self.index {
            Some(index) => index.to_string(),
            None => position.to_string(),
        });
        let artifact_id = ArtifactId::parse(&name).map_err(|e| path.member("artifactId").error(e))?;
        let artifact = Artifact {
            artifact_id,
            name: self.name,
            description: self.description,
            parts: self.parts.into_iter().map(|p| p.part).collect(),
            metadata: self.metadata,
            extensions: self.extensions,
        };
        Ok(Chunk { artifact, append: self.append.unwrap_or(false), last: self.last_chunk.unwrap_or(false) })
    }
}

/// A task as it is written.
#[derive(Debug, Serialize)]
#[serde(rename_all = "camelCase")]
pub(crate) struct TaskOut<'a> {
    #[serde(skip_serializing_if = "Option::is_none")]
    kind: Option<&'static str>,
    id: &'a TaskRef,
    #[serde(skip_serializing_if = "Option::is_none")]
    pub(crate) owner: Option<&'a str>,
    #[serde(skip_serializing_if = "Option::is_none")]
    context_id: Option<&'a ContextId>,
    #[serde(skip_serializing_if = "Option::is_none")]
    session_id: Option<&'a ContextId>,
    pub(crate) status: StatusOut<'a>,
    #[serde(skip_serializing_if = "Option::is_none")]
    pub(crate) metadata: Option<Cow<'a, Object>>,
    #[serde(skip_serializing_if = "Option::is_none")]
    pub(crate) created_at: Option<i64>,
    #[serde(skip_serializing_if = "Option::is_none")]
    history: Option<Vec<MessageOut<'a>>>,
    #[serde(skip_serializing_if = "Option::is_none")]
    artifacts: Option<Vec<ArtifactOut<'a>>>,
}

/// A status as it is written.
#[derive(Debug, Serialize)]
pub(crate) struct StatusOut<'a> {
    pub(crate) state: &'static str,
    #[serde(skip_serializing_if = "Option::is_none")]
    message: Option<MessageOut<'a>>,
    #[serde(skip_serializing_if = "Option::is_none")]
    timestamp: Option<Timestamp>,
}

/// An artifact as it is written.
#[derive(Debug, Serialize)]
#[serde(rename_all = "camelCase")]
pub(crate) struct ArtifactOut<'a> {
    #[serde(skip_serializing_if = "Option::is_none")]
    artifact_id: Option<&'a ArtifactId>,
    #[serde(skip_serializing_if = "Option::is_none")]
    id: Option<&'a ArtifactId>,
    #[serde(skip_serializing_if = "Option::is_none")]
    name: Option<&'a str>,
    #[serde(skip_serializing_if = "Option::is_none")]
    description: Option<&'a str>,
    parts: Vec<PartOut<'a>>,
    #[serde(skip_serializing_if = "Option::is_none")]
    metadata: Option<&'a Object>,
    #[serde(skip_serializing_if = "<[String]>::is_empty")]
    extensions: &'a [String],
    #[serde(skip_serializing_if = "Option::is_none")]
    index: Option<usize>,
    #[serde(skip_serializing_if = "Option::is_none")]
    append: Option<bool>,
    #[serde(skip_serializing_if = "Option::is_none")]
    last_chunk: Option<bool>,
}

impl ArtifactOut<'_> {
    /// Sets the members about the chunk that 0.1 has inside the artifact.
    pub(crate) const fn chunk(mut self, append: bool, last: bool) -> Self {
        self.append = Some(append);
        self.last_chunk = Some(last);
        self
    }
}

/// Copies the answer of a completed task to where clients of the dialect look for it. The rest stays where it is.
pub(crate) fn place_answer(task: &mut WireTask, style: TaggedStyle, path: &Path<'_>, losses: &mut Losses) {
    if task.status.state != TaskState::Completed {
        return;
    }
    match style.answer {
        AnswerPlace::Anywhere => {}
        AnswerPlace::Artifact => {
            if let (true, Some(message)) = (task.artifacts.is_empty(), &task.status.message) {
                task.artifacts.push(closing_artifact(message));
                losses.note(LossKind::AnswerPlace, path.member("artifacts"));
            }
        }
        AnswerPlace::Status => {
            if let (None, Some(message)) = (&task.status.message, message_from_artifacts(task)) {
                task.status.message = Some(message);
                losses.note(LossKind::AnswerPlace, path.member("status").member("message"));
            }
        }
    }
}

/// Makes an artifact of the closing message.
pub(crate) fn closing_artifact(message: &Message) -> Artifact {
    let id = ArtifactId::parse("answer").expect("a legal id");
    Artifact::new(id, message.parts.clone())
}

/// Makes a message of the text in a task's artifacts.
fn message_from_artifacts(task: &WireTask) -> Option<Message> {
    let said = |p: &&Part| matches!(p.content, Content::Text(_));
    let parts: Vec<Part> = task.artifacts.iter().flat_map(|a| &a.parts).filter(said).cloned().collect();
    if parts.is_empty() {
        return None;
    }
    let mut message = Message::text(MessageId::parse("answer").expect("a legal id"), Role::Agent, "");
    message.parts = parts;
    Some(message)
}

/// Writes a task. [`place_answer`] must have moved the answer already.
pub(crate) fn write<'a>(task: &'a WireTask, style: TaggedStyle, path: &Path<'_>, losses: &mut Losses) -> TaskOut<'a> {
    let (history, artifacts) = (path.member("history"), path.member("artifacts"));
    let messages: Vec<_> =
        task.history.iter().enumerate().map(|(i, m)| message::write(m, style, &history.item(i), losses)).collect();
    let produced: Vec<_> = task
        .artifacts
        .iter()
        .enumerate()
        .map(|(i, a)| write_artifact(a, i, style, &artifacts.item(i), losses))
        .collect();
    let context = task.context_id.as_ref();
    TaskOut {
        kind: style.kind("task"),
        id: &task.id,
        owner: None,
        context_id: context.filter(|_| !style.session),
        session_id: context.filter(|_| style.session),
        status: write_status(&task.status, style, &path.member("status"), losses),
        metadata: task.metadata.as_ref().map(Cow::Borrowed),
        created_at: None,
        history: (style.lists_always || !messages.is_empty()).then_some(messages),
        artifacts: (style.lists_always || !produced.is_empty()).then_some(produced),
    }
}

/// Writes a status in the style of a dialect.
pub(crate) fn write_status<'a>(
    status: &'a TaskStatus,
    style: TaggedStyle,
    path: &Path<'_>,
    losses: &mut Losses,
) -> StatusOut<'a> {
    StatusOut {
        state: write_state(status.state, style, &path.member("state"), losses),
        message: status.message.as_ref().map(|m| message::write(m, style, &path.member("message"), losses)),
        timestamp: status.timestamp,
    }
}

/// Writes an artifact, the `index`th of its task.
pub(crate) fn write_artifact<'a>(
    artifact: &'a Artifact,
    index: usize,
    style: TaggedStyle,
    path: &Path<'_>,
    losses: &mut Losses,
) -> ArtifactOut<'a> {
    let parts = path.member("parts");
    let mut out = ArtifactOut {
        artifact_id: None,
        id: None,
        name: artifact.name.as_deref(),
        description: artifact.description.as_deref(),
        parts: artifact.parts.iter().enumerate().map(|(i, p)| part::write(p, style, &parts.item(i), losses)).collect(),
        metadata: artifact.metadata.as_ref(),
        extensions: &artifact.extensions,
        index: None,
        append: None,
        last_chunk: None,
    };
    match style.artifact_name {
        ArtifactName::Id => out.artifact_id = Some(&artifact.artifact_id),
        ArtifactName::IndexAndId => (out.id, out.index) = (Some(&artifact.artifact_id), Some(index)),
        ArtifactName::Index => {
            out.index = Some(index);
            if artifact.artifact_id.as_str() != index.to_string() {
                losses.note(LossKind::ArtifactId, path.member("artifactId"));
            }
        }
    }
    if !style.dialect.features().message_ids && !artifact.extensions.is_empty() {
        out.extensions = &[];
        losses.note(LossKind::Extensions, path.member("extensions"));
    }
    out
}

/// Converts a direct reply to the completed task that dialects without direct replies have instead.
pub(crate) fn task_from_message(message: &Message, name: Option<TaskRef>, losses: &mut Losses) -> WireTask {
    losses.note(LossKind::AnswerPlace, "");
    // Our own message ids are made like task ids, so they hold the time at which they were made.
    let said_at = TaskId::parse(message.message_id.as_str()).map(|id| id.stamp().time());
    let named = || message.task_id.clone().or_else(|| TaskRef::parse(message.message_id.as_str()).ok());
    WireTask {
        id: name.or_else(named).unwrap_or_else(|| TaskRef::Alias("message".into())),
        context_id: message.context_id.clone(),
        status: TaskStatus { state: TaskState::Completed, message: Some(message.clone()), timestamp: said_at },
        metadata: None,
        history: Vec::new(),
        artifacts: Vec::new(),
    }
}

/// The time at which a task was opened, if its id is one of ours.
pub(crate) fn opened_at(id: &TaskRef) -> Option<Timestamp> {
    match id {
        TaskRef::Id(id) => Some(id.stamp().time()),
        TaskRef::Alias(_) => None,
    }
}

impl TaggedStyle {
    /// The state of a polled task: agent-native writes `processing` for `working`.
    pub(crate) const fn polled_state(self, state: &'static str) -> &'static str {
        match (self.dialect, state.as_bytes()) {
            (Dialect::Native, b"working") => "processing",
            _ => state,
        }
    }
}
