//! Notes what 0.3 cannot carry when a value is written, for gRPC and REST alike.
//!
//! The writers only write; this module walks the same value and notes what they leave out. Paths are those of 1.0.

use crate::losses::{LossKind, Losses};
use crate::path::Path;
use crate::tagged_json::part::{WRAPPED, is_object};
use crate::v03::files::FileEncoding;
use sabir_proto::{
    Artifact, Call, Content, Event, Json, Message, Object, Part, SendMessage, TaskState, TaskStatus, Tenant, WireEvent,
    WireTask,
};
use serde_json::Value;

/// How a binding writes the numbers of free JSON.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(in crate::v03) enum NumberEncoding {
    /// As text, with all their digits.
    Text,
    /// As doubles: `google.protobuf.Struct`.
    Doubles,
}

/// Walks a value and notes what 0.3 cannot carry.
pub(in crate::v03) struct LossRecorder<'a> {
    losses: &'a mut Losses,
    numbers: NumberEncoding,
    /// Whether the binding carries a file's name.
    names: bool,
}

impl<'a> LossRecorder<'a> {
    pub(in crate::v03) const fn new(numbers: NumberEncoding, losses: &'a mut Losses) -> Self {
        Self { losses, numbers, names: true }
    }

    /// The recorder for REST: numbers as text, and names of files only for peers that read them.
    pub(in crate::v03) fn rest(files: FileEncoding, losses: &'a mut Losses) -> Self {
        Self { losses, numbers: NumberEncoding::Text, names: files.has_names() }
    }

    pub(in crate::v03) fn call(&mut self, call: &Call) {
        if *call.tenant() != Tenant::none() {
            self.losses.note(LossKind::Tenant, "tenant");
        }
        match call {
            Call::Send(send) | Call::Stream(send) => self.send(send),
            Call::Get(get) => self.none_of_history(get.history_length, "historyLength"),
            Call::Cancel(cancel) if cancel.metadata.is_some() => self.losses.note(LossKind::Metadata, "metadata"),
            // The server will give it an id, that of the task.
            Call::CreatePush { config, .. } if config.id.is_none() => self.losses.note(LossKind::PushConfigId, "id"),
            Call::ListPush(list) if list.page_size == Some(0) => self.losses.note(LossKind::Paging, "pageSize"),
            Call::Cancel(_)
            | Call::CreatePush { .. }
            | Call::ListPush(_)
            | Call::List(_)
            | Call::Subscribe(_)
            | Call::GetPush(_)
            | Call::DeletePush(_)
            | Call::ExtendedCard { .. } => {}
        }
    }

    fn send(&mut self, send: &SendMessage) {
        self.message(&send.message, &Path::Root.member("message"));
        self.none_of_history(send.configuration.history_length, "configuration.historyLength");
        self.optional(send.metadata.as_ref(), &Path::Root.member("metadata"));
        if send.alias.is_some() {
            self.losses.note(LossKind::TaskId, "message.taskId");
        }
    }

    /// Notes a history length of zero, which is "no limit" in 0.3 and "none" in 1.0.
    fn none_of_history(&mut self, length: Option<i32>, path: &str) {
        if length == Some(0) {
            self.losses.note(LossKind::Configuration, path);
        }
    }

    pub(in crate::v03) fn event(&mut self, event: &WireEvent) {
        match event {
            Event::Task(task) => self.task(task, &Path::Root.member("task")),
            Event::Message(message) => self.message(message, &Path::Root.member("message")),
            Event::StatusUpdate(update) => {
                let path = Path::Root.member("statusUpdate");
                self.status(&update.status, &path.member("status"));
                self.optional(update.metadata.as_ref(), &path.member("metadata"));
            }
            Event::ArtifactUpdate(update) => {
                let path = Path::Root.member("artifactUpdate");
                self.artifact(&update.artifact, &path.member("artifact"));
                self.optional(update.metadata.as_ref(), &path.member("metadata"));
            }
        }
    }

    pub(in crate::v03) fn task(&mut self, task: &WireTask, path: &Path<'_>) {
        self.status(&task.status, &path.member("status"));
        self.optional(task.metadata.as_ref(), &path.member("metadata"));
        for (i, message) in task.history.iter().enumerate() {
            self.message(message, &path.member("history").item(i));
        }
        for (i, artifact) in task.artifacts.iter().enumerate() {
            self.artifact(artifact, &path.member("artifacts").item(i));
        }
    }

    fn status(&mut self, status: &TaskStatus, path: &Path<'_>) {
        if status.state == TaskState::Transferred {
            self.losses.note(LossKind::State, path.member("state"));
        }
        if let Some(message) = &status.message {
            self.message(message, &path.member("message"));
        }
    }

    pub(in crate::v03) fn message(&mut self, message: &Message, path: &Path<'_>) {
        self.parts(&message.parts, path);
        self.optional(message.metadata.as_ref(), &path.member("metadata"));
        if !message.reference_task_ids.is_empty() {
            self.losses.note(LossKind::References, path.member("referenceTaskIds"));
        }
    }

    fn artifact(&mut self, artifact: &Artifact, path: &Path<'_>) {
        self.parts(&artifact.parts, path);
        self.optional(artifact.metadata.as_ref(), &path.member("metadata"));
    }

    fn parts(&mut self, parts: &[Part], path: &Path<'_>) {
        for (i, part) in parts.iter().enumerate() {
            self.part(part, &path.member("parts").item(i));
        }
    }

    fn part(&mut self, part: &Part, path: &Path<'_>) {
        let is_file = match &part.content {
            Content::Raw(_) | Content::Url(_) => true,
            Content::Text(_) => false,
            Content::Data(json) => {
                self.free_json(json, LossKind::Part, &path.member("data"));
                false
            }
        };
        if part.filename.is_some() && !(is_file && self.names) {
            self.losses.note(LossKind::PartAttribute, path.member("filename"));
        }
        if part.media_type.is_some() && !is_file {
            self.losses.note(LossKind::PartAttribute, path.member("mediaType"));
        }
        if is_hidden_by_mark(part) {
            self.losses.note(LossKind::Metadata, path.member("metadata"));
        } else {
            self.optional(part.metadata.as_ref(), &path.member("metadata"));
        }
    }

    /// Notes the free parameters on a card.
    pub(super) fn params(&mut self, object: Option<&Object>, path: &Path<'_>) {
        if let Some(object) = object {
            self.free_json(object.as_json(), LossKind::CardMember, path);
        }
    }

    fn optional(&mut self, object: Option<&Object>, path: &Path<'_>) {
        if let Some(object) = object {
            self.free_json(object.as_json(), LossKind::Metadata, path);
        }
    }

    fn free_json(&mut self, json: &Json, kind: LossKind, path: &Path<'_>) {
        if self.numbers == NumberEncoding::Doubles && is_rounded(json) {
            self.losses.note(kind, path);
        }
    }
}

/// Whether the mark for wrapped data hides a part's own metadata: a reader takes a member of the same name for the
/// mark, and drops an object that is empty beside it.
fn is_hidden_by_mark(part: &Part) -> bool {
    let (Content::Data(json), Some(metadata)) = (&part.content, &part.metadata) else { return false };
    let text = metadata.as_str();
    (text == "{}" && !is_object(json)) || (text.contains(WRAPPED) && metadata.to_map().contains_key(WRAPPED))
}

/// Whether a number of this value changes as a double.
fn is_rounded(json: &Json) -> bool {
    // A double keeps any fifteen digits. Hardly any value has a longer number, and the others need not be parsed for
    // this.
    let digits = |a: &u8, b: &u8| a.is_ascii_digit() && b.is_ascii_digit();
    let has_long_number = json.as_str().as_bytes().chunk_by(digits).any(|run| run.len() > 15);
    has_long_number && json.read().is_ok_and(|value: Value| has_rounded(&value))
}

fn has_rounded(value: &Value) -> bool {
    match value {
        Value::Number(number) => {
            let magnitude = number.as_u64().or_else(|| number.as_i64().map(i64::unsigned_abs)).unwrap_or(0);
            // The bits from the first to the last that is set; a double keeps 53 of them.
            magnitude != 0 && 64 - magnitude.leading_zeros() - magnitude.trailing_zeros() > 53
        }
        Value::Array(items) => items.iter().any(has_rounded),
        Value::Object(members) => members.values().any(has_rounded),
        Value::Null | Value::Bool(_) | Value::String(_) => false,
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_number_is_lost_where_a_double_cannot_hold_it() {
        let rounded = |text| is_rounded(&Json::parse(text).unwrap());
        for text in ["9007199254740993", "[[-9007199254740993]]", r#"{"a":{"b":12345678901234567891}}"#] {
            assert!(rounded(text), "{text}");
        }
        for text in [
            "9007199254740992",
            "9007199254740994",
            "18446744073709549568",
            "-9223372036854775808",
            "0",
            "0.12345678901234567",
            r#""9007199254740993""#,
            r#"{"9007199254740993":1}"#,
        ] {
            assert!(!rounded(text), "{text}");
        }
    }

    #[test]
    fn text_keeps_every_digit() {
        let part = Part::data(Json::parse(r#"{"n":9007199254740993}"#).unwrap());
        for (numbers, expected) in [(NumberEncoding::Text, 0), (NumberEncoding::Doubles, 1)] {
            let mut losses = Losses::new();
            LossRecorder::new(numbers, &mut losses).part(&part, &Path::Root);
            assert_eq!(losses.notes().len(), expected);
        }
    }
}
