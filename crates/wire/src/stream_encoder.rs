//! Encodes the events of a task as the frames of a stream, in the dialect of the request.
//!
//! | Dialect | One event of the log becomes |
//! |---|---|
//! | 1.0 | one numbered frame with the committed bytes |
//! | 0.3, 0.2 | one numbered frame; `final` on the last one of this stream |
//! | 0.1 | a status, or an artifact with its index; a whole task becomes several of them. Not numbered |
//! | agent-native | the whole task so far, if enough of it is new. Not numbered |
//!
//! A client resumes a stream without numbers by subscribing, which begins with the present state.

use crate::path::Path;
use crate::responder::Responder;
use crate::tagged_json::TaggedStyle;
use crate::tagged_json::task::{self, closing_artifact, place_answer, task_from_message};
use crate::v01::EventOut;
use crate::v03::files::FileEncoding;
use crate::v03::json::write_json;
use crate::{Dialect, LossKind, Losses, jsonrpc, native, sse, v1, v03};
use sabir_proto::{
    ArtifactId, ArtifactUpdate, Content, ContextId, Fault, FrozenEvent, Message, Part, Seq, TaskRef, TaskState,
    WireEvent, WireTask,
};

/// A whole task is sent again when the new bytes are at least one part in this many of what was sent last, so that the
/// cost of a long artifact in small chunks does not grow with the square of its length.
const RESEND_SHARE: usize = 8;

/// Encodes the events of one stream.
#[derive(Debug)]
pub struct StreamEncoder {
    shape: FrameShape,
    envelope: FrameEnvelope,
    /// Only for the older dialects. 1.0 needs only the id, and memory per open stream counts.
    responder: Option<Box<Responder>>,
}

/// The text around each payload.
#[derive(Debug)]
enum FrameEnvelope {
    /// The result of the request with this id.
    JsonRpc(Option<jsonrpc::Id>),
    /// Nothing: the payload is the event.
    Bare,
}

impl FrameEnvelope {
    fn frame(&self, seq: Option<Seq>, payload: &[u8], out: &mut Vec<u8>) {
        sse::open_frame(seq, out);
        match self {
            Self::JsonRpc(id) => {
                jsonrpc::open_result(id.as_deref(), out);
                out.extend_from_slice(payload);
                out.push(b'}');
            }
            Self::Bare => out.extend_from_slice(payload),
        }
        sse::close_frame(out);
    }
}

#[derive(Debug)]
enum FrameShape {
    /// The event as committed.
    V1,
    /// One event, told apart by its `kind`.
    ByKind(Dialect),
    /// The REST of 0.3, with files as this peer reads them.
    Rest(FileEncoding),
    /// The statuses and indexed artifacts of 0.1.
    Updates { artifacts: Vec<ArtifactId> },
    /// The whole tasks of agent-native.
    WholeTask { task: Option<Box<WireTask>>, last_bytes: usize, new_bytes: usize },
}

impl StreamEncoder {
    pub(crate) fn new(responder: Responder) -> Self {
        let shape = match responder.dialect {
            Dialect::V1 => FrameShape::V1,
            // XPR has no streams, so no request in this dialect asks for one.
            Dialect::V03 | Dialect::V02 | Dialect::Xpr => FrameShape::ByKind(responder.dialect),
            Dialect::V01 => FrameShape::Updates { artifacts: Vec::new() },
            Dialect::Native => FrameShape::WholeTask { task: None, last_bytes: 0, new_bytes: 0 },
        };
        // Events of agent-native do not carry the id of the request.
        let id = if responder.dialect == Dialect::Native { Some("0".into()) } else { responder.id.clone() };
        let responder = (responder.dialect != Dialect::V1).then(|| Box::new(responder));
        Self { shape, envelope: FrameEnvelope::JsonRpc(id), responder }
    }

    /// The encoder for HTTP+JSON 1.0, where no envelope is around an event.
    pub const fn http_v1() -> Self {
        Self { shape: FrameShape::V1, envelope: FrameEnvelope::Bare, responder: None }
    }

    /// The encoder for the REST of 0.3, with the file encoding that the peer expects.
    pub const fn rest_v03(files: FileEncoding) -> Self {
        Self { shape: FrameShape::Rest(files), envelope: FrameEnvelope::Bare, responder: None }
    }

    /// Encodes one event. `last`: no event follows it on this stream.
    pub fn encode(&mut self, event: &FrozenEvent, last: bool, losses: &mut Losses, out: &mut Vec<u8>) {
        if matches!(self.shape, FrameShape::V1) {
            self.envelope.frame(Some(event.seq), &v1::json::event_bytes(event), out);
            return;
        }
        if matches!(self.shape, FrameShape::ByKind(_)) {
            let mut payload = Vec::with_capacity(event.json.len() + 64);
            if v03::transcode::event(&event.json, last, &mut payload).is_some() {
                self.envelope.frame(Some(event.seq), &payload, out);
                return;
            }
        }
        // The store has reported a damaged record where it was read, so it is only skipped here.
        let Some(shown) = event.to_wire() else { return };
        self.encode_event(shown, event.seq, last, losses, out);
    }

    /// Encodes a direct reply, the only frame of its stream.
    pub fn encode_direct_reply(&mut self, message: &Message, losses: &mut Losses, out: &mut Vec<u8>) {
        let mut payload = Vec::new();
        match self.shape {
            FrameShape::V1 => v1::json::write_message(message, &mut payload),
            FrameShape::ByKind(_) | FrameShape::Rest(_) => {
                self.write_event(WireEvent::Message(message.clone()), true, losses, &mut payload);
            }
            FrameShape::Updates { .. } | FrameShape::WholeTask { .. } => {
                let task = task_from_message(message, self.name().cloned(), losses);
                return self.encode_event(WireEvent::Task(task), Seq(0), true, losses, out);
            }
        }
        self.envelope.frame(None, &payload, out);
    }

    /// Encodes the error that ends the stream.
    pub fn encode_fault(&self, fault: &Fault, out: &mut Vec<u8>) {
        let mut payload = Vec::new();
        match (&self.responder, &self.envelope) {
            (Some(responder), _) => responder.write_error(fault, &mut payload),
            (None, FrameEnvelope::JsonRpc(id)) => jsonrpc::write_error(id.as_deref(), fault, &mut payload),
            (None, FrameEnvelope::Bare) => {
                // The HTTP status has been sent already; the name of the event tells an error from an event. The Python
                // SDK needs it.
                match self.shape {
                    FrameShape::Rest(_) => v03::rest::write_error(fault, v03::rest::ErrorReader::Other, &mut payload),
                    _ => v1::http::write_error(fault, &mut payload),
                };
                out.extend_from_slice(b"event: error\n");
            }
        }
        sse::frame(None, &payload, out);
    }

    fn name(&self) -> Option<&TaskRef> {
        self.responder.as_ref().and_then(|v| v.name.as_ref())
    }

    fn write_event(&self, event: WireEvent, last: bool, losses: &mut Losses, out: &mut Vec<u8>) {
        match self.shape {
            FrameShape::ByKind(dialect) => v03::json::write_event(&event, last, dialect, losses, out),
            FrameShape::Rest(files) => {
                v03::rest::write_event(&event, last, files, losses, out);
            }
            // [`StreamEncoder::encode_event`] writes these itself.
            FrameShape::V1 | FrameShape::Updates { .. } | FrameShape::WholeTask { .. } => {}
        }
    }

    fn encode_event(&mut self, event: WireEvent, seq: Seq, last: bool, losses: &mut Losses, out: &mut Vec<u8>) {
        match &mut self.shape {
            FrameShape::V1 | FrameShape::ByKind(_) | FrameShape::Rest(_) => {
                let mut payload = Vec::new();
                self.write_event(event, last, losses, &mut payload);
                self.envelope.frame(Some(seq), &payload, out);
            }
            FrameShape::Updates { artifacts } => {
                let frames =
                    v01_updates(&event, artifacts, self.responder.as_ref().and_then(|v| v.name.as_ref()), last, losses);
                for payload in frames {
                    self.envelope.frame(None, &payload, out);
                }
            }
            FrameShape::WholeTask { task, last_bytes: told, new_bytes: news } => {
                let (is_status, bytes) = match &event {
                    // Only the bytes that the task gains: most bytes of a small chunk are names that the task has
                    // already.
                    WireEvent::ArtifactUpdate(update) => (false, bytes_gained(task.as_deref(), update)),
                    WireEvent::Task(_) | WireEvent::Message(_) | WireEvent::StatusUpdate(_) => (true, 0),
                };
                match (task.as_mut(), event) {
                    (_, WireEvent::Task(whole)) => *task = Some(Box::new(whole)),
                    (Some(task), event) => task.apply(event, None),
                    (None, _) => return,
                }
                let Some(task) = task else { return };
                *news += bytes;
                // The client knows that it submitted the task.
                let begun = task.status.state != TaskState::Submitted;
                let worth_telling = begun && (is_status || *news * RESEND_SHARE >= *told);
                if !worth_telling && !last {
                    return;
                }
                let mut shown = (**task).clone();
                let root = Path::Root;
                let path = root.member("task");
                place_answer(&mut shown, TaggedStyle::of(Dialect::Native), &path, losses);
                let mut payload = Vec::new();
                native::write_task(&shown, false, &path, losses, &mut payload);
                (*told, *news) = (payload.len(), 0);
                self.envelope.frame(None, &payload, out);
            }
        }
    }
}

/// The approximate number of bytes of a part in a task, without its content.
const PART_FRAME_BYTES: usize = r#"{"type":"text","text":""},"#.len();

/// The approximate number of bytes that a task gains by an artifact or a chunk of one. Text that continues the text
/// before it adds no part.
fn bytes_gained(task: Option<&WireTask>, update: &ArtifactUpdate<TaskRef, Option<ContextId>>) -> usize {
    let bytes: usize = update.artifact.parts.iter().map(bytes_of).sum();
    let artifacts = task.map(|task| task.artifacts.as_slice()).unwrap_or_default();
    let known = artifacts.iter().find(|known| known.artifact_id == update.artifact.artifact_id);
    match (known.and_then(|known| known.parts.last()), update.artifact.parts.first()) {
        (Some(last), Some(first)) if update.append && last.is_continued_by(first) => bytes - PART_FRAME_BYTES,
        _ => bytes,
    }
}

/// The approximate number of bytes of a part in a task.
fn bytes_of(part: &Part) -> usize {
    PART_FRAME_BYTES
        + match &part.content {
            Content::Text(text) | Content::Url(text) => text.len(),
            Content::Raw(bytes) => bytes.len() / 3 * 4,
            Content::Data(json) => json.as_str().len(),
        }
}

/// Makes the payloads of 0.1 for one event.
pub(crate) fn v01_updates(
    event: &WireEvent,
    known: &mut Vec<ArtifactId>,
    name: Option<&TaskRef>,
    last: bool,
    losses: &mut Losses,
) -> Vec<Vec<u8>> {
    const STYLE: TaggedStyle = TaggedStyle::of(Dialect::V01);
    let root = Path::Root;
    let mut frames = Vec::new();
    let mut frame = |event: &EventOut<'_>| {
        let mut payload = Vec::new();
        write_json(event, &mut payload);
        frames.push(payload);
    };
    let mut index = |id: &ArtifactId| {
        known.iter().position(|k| k == id).unwrap_or_else(|| {
            known.push(id.clone());
            known.len() - 1
        })
    };
    // An event of 0.1 names its task and no context.
    let unsaid = |path: &Path<'_>, context: Option<&ContextId>, losses: &mut Losses| {
        if context.is_some() {
            losses.note(LossKind::ContextId, path.member("contextId"));
        }
    };
    let quiet = |id| EventOut { id, status: None, last: None, artifact: None, metadata: None };
    match event {
        WireEvent::Task(task) => {
            let mut task = task.clone();
            let path = root.member("task");
            place_answer(&mut task, STYLE, &path, losses);
            unsaid(&path, task.context_id.as_ref(), losses);
            if !task.history.is_empty() {
                losses.note(LossKind::History, path.member("history"));
            }
            let id = name.unwrap_or(&task.id);
            let artifacts = path.member("artifacts");
            for (i, artifact) in task.artifacts.iter().enumerate() {
                let at = index(&artifact.artifact_id);
                let written = task::write_artifact(artifact, at, STYLE, &artifacts.item(i), losses);
                // Until the task settles, more chunks of the artifact may come.
                let whole = task.status.state.is_settled();
                frame(&EventOut { artifact: Some(written.chunk(false, whole)), ..quiet(id) });
            }
            let status = task::write_status(&task.status, STYLE, &path.member("status"), losses);
            frame(&EventOut { status: Some(status), last: Some(last), metadata: task.metadata.as_ref(), ..quiet(id) });
        }
        WireEvent::StatusUpdate(update) => {
            let id = name.unwrap_or(&update.task_id);
            let path = root.member("statusUpdate");
            unsaid(&path, update.context_id.as_ref(), losses);
            let path = path.member("status");
            let unanswered = known.is_empty() && update.status.state == TaskState::Completed;
            if let (true, Some(message)) = (unanswered, &update.status.message) {
                losses.note(LossKind::AnswerPlace, "artifacts");
                let answer = closing_artifact(message);
                let written = task::write_artifact(&answer, 0, STYLE, &root.member("artifacts"), losses);
                frame(&EventOut { artifact: Some(written.chunk(false, true)), ..quiet(id) });
            }
            let status = task::write_status(&update.status, STYLE, &path, losses);
            let metadata = update.metadata.as_ref();
            frame(&EventOut { status: Some(status), last: Some(last), metadata, ..quiet(id) });
        }
        WireEvent::ArtifactUpdate(update) => {
            let id = name.unwrap_or(&update.task_id);
            let path = root.member("artifactUpdate");
            unsaid(&path, update.context_id.as_ref(), losses);
            let path = path.member("artifact");
            let at = index(&update.artifact.artifact_id);
            let written = task::write_artifact(&update.artifact, at, STYLE, &path, losses);
            let artifact = Some(written.chunk(update.append, update.last_chunk));
            frame(&EventOut { artifact, metadata: update.metadata.as_ref(), ..quiet(id) });
        }
        WireEvent::Message(_) => {}
    }
    frames
}
