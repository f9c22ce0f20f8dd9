//! Writes the responses to one request, from its dialect, its id, and the form that its method wants.

use crate::decoded_request::{AnswerForm, NamesTask};
use crate::path::Path;
use crate::stream_encoder::StreamEncoder;
use crate::tagged_json::TaggedStyle;
use crate::tagged_json::task::{place_answer, task_from_message};
use crate::{Dialect, LossKind, Losses, codes, jsonrpc, native, sse, v01, v1, v03, xpr};
use sabir_proto::{Call, Fault, FaultCode, Object, Reply, SendMessage, SendReply, TaskRef, View, WireReply};
use std::sync::Arc;

/// Writes the response to a JSON-RPC request in its dialect.
#[derive(Debug, Clone)]
pub struct Responder {
    pub(crate) dialect: Dialect,
    /// `None` if the request had no id; then the response has none either.
    pub(crate) id: Option<jsonrpc::Id>,
    pub(crate) form: AnswerForm,
    /// The caller's own id for the task, where the dialect shows it.
    pub(crate) name: Option<TaskRef>,
    /// The owner of the task, where the dialect shows it.
    pub(crate) owner: Option<Arc<str>>,
    streams: bool,
    /// Whether the client reads event streams and no JSON.
    events_only: bool,
    /// The request names its version, so it is of no other.
    names_version: bool,
}

/// An error response, ready to be sent.
#[derive(Debug, PartialEq, Eq)]
pub struct ErrorResponse {
    /// The HTTP status of the response.
    pub status: u16,
    /// Whether the body is an event stream of one error. Clients of the older dialects that asked for a stream read
    /// nothing else, nor do clients of 1.0 that accept only event streams.
    pub is_stream: bool,
    /// The body of the response.
    pub body: Vec<u8>,
}

impl Responder {
    /// The responder of a dialect, for a request with this id.
    pub const fn new(dialect: Dialect, id: Option<jsonrpc::Id>) -> Self {
        Self {
            dialect,
            id,
            form: AnswerForm::Plain,
            name: None,
            owner: None,
            streams: false,
            events_only: false,
            names_version: false,
        }
    }

    /// The dialect of the response.
    pub const fn dialect(&self) -> Dialect {
        self.dialect
    }

    /// Sets the owner of the task. Only XPR shows it.
    pub fn set_owner(&mut self, owner: &str) {
        if self.dialect == Dialect::Xpr {
            self.owner = Some(owner.into());
        }
    }

    /// Sets the id of the task if it is another than the caller chose.
    pub fn set_name(&mut self, name: TaskRef) {
        if self.dialect.features().client_names_tasks {
            self.name = Some(name);
        }
    }

    /// Sets whether the client reads event streams and no JSON, as its `AcceptedCredential` says.
    pub const fn set_events_only(&mut self, events_only: bool) {
        self.events_only = events_only;
    }

    /// Tells that the request names its version.
    pub const fn set_names_version(&mut self, names_version: bool) {
        self.names_version = names_version;
    }

    /// Whether the answer must be a task, because the dialect has no direct replies.
    pub const fn wants_task(&self) -> bool {
        !self.dialect.features().direct_replies
    }

    /// In 0.1 clients write what a task is about beside the message. It goes with the message from here on, where an agent sees
    /// it and the log keeps it. Of two members of one name the message's own stays. The schema of 0.1 has it in no answer, so it
    /// is not made the task's.
    pub fn carry_metadata(&self, request: &mut SendMessage, losses: &mut Losses) {
        if self.dialect != Dialect::V01 {
            return;
        }
        let Some(beside) = request.metadata.take().filter(|metadata| !metadata.members().is_empty()) else { return };
        let message = &mut request.message;
        let Some(own) = &message.metadata else {
            message.metadata = Some(beside);
            return;
        };
        let mut members = beside.to_map();
        for (name, value) in own.to_map() {
            if members.insert(name, value.clone()).is_some_and(|other| other != value) {
                losses.note(LossKind::Metadata, "metadata");
            }
        }
        message.metadata = Object::from_map(&members).ok();
    }

    /// Checks whether the caller may make this request. Actions are only for users who are named by a token for this
    /// server alone.
    pub fn authorize(&self, is_bound_user: bool) -> Result<(), Fault> {
        match self.form {
            AnswerForm::Action(_) if is_bound_user => Ok(()),
            AnswerForm::Action(_) => Err(Fault::Unauthenticated(
                "A verified, audience-bound user identity is required for direct action invocation".into(),
            )),
            AnswerForm::Plain | AnswerForm::FirstPush | AnswerForm::Polled | AnswerForm::Canceled => Ok(()),
        }
    }

    pub(crate) fn for_call(&mut self, call: &Call, form: AnswerForm) {
        self.form = form;
        self.streams = matches!(call, Call::Stream(_) | Call::Subscribe(_));
        if self.dialect.features().client_names_tasks {
            self.name = call.task_name().and_then(|name| TaskRef::parse(&name).ok());
        }
    }

    /// Prepares for a request whose parameters could not be read: the method tells whether it is a stream.
    pub(crate) fn for_method(&mut self, method: &str) {
        self.streams = matches!(
            method,
            "SendStreamingMessage" | "SubscribeToTask" | "message/stream" | "tasks/sendSubscribe" | "tasks/resubscribe"
        );
    }

    pub(crate) fn in_v01(mut self, name: Option<Arc<str>>) -> Self {
        self.dialect = Dialect::V01;
        self.name = name.and_then(|name| TaskRef::parse(&name).ok());
        self
    }

    /// Writes the answer to a call. A [`StreamEncoder`] writes a stream instead.
    pub fn answer<S>(&self, reply: &Reply<S>, losses: &mut Losses) -> Result<Vec<u8>, Fault> {
        let mut out = Vec::with_capacity(1024);
        jsonrpc::open_result(self.id.as_deref(), &mut out);
        if self.dialect == Dialect::V1 {
            v1::json::write_reply(reply, &mut out);
        } else if !self.try_transcode(reply, &mut out) {
            let answer = WireReply::of(reply).ok_or_else(|| Fault::Internal("damaged-record".into()))?;
            self.write(answer, losses, &mut out)?;
        }
        out.push(b'}');
        Ok(out)
    }

    /// Transcodes the usual answers of the most used dialect without parsing them. Returns whether it did.
    fn try_transcode<S>(&self, reply: &Reply<S>, out: &mut Vec<u8>) -> bool {
        let (Reply::Sent(SendReply::Task(task, view)) | Reply::Task(task, view)) = reply else { return false };
        if !matches!(self.dialect, Dialect::V03 | Dialect::V02) {
            return false;
        }
        let begun = out.len();
        let written = if *view == View::WHOLE {
            v03::transcode::task(&task.json, out)
        } else {
            let mut cut = Vec::with_capacity(task.json.len());
            task.write(*view, &mut cut);
            v03::transcode::task(&cut, out)
        };
        if written.is_none() {
            out.truncate(begun);
        }
        written.is_some()
    }

    pub(crate) fn write(&self, answer: WireReply, losses: &mut Losses, out: &mut Vec<u8>) -> Result<(), Fault> {
        let answer = self.shape(answer, losses)?;
        match self.dialect {
            Dialect::V1 => v1::json::write_answer(&answer, out),
            Dialect::V03 | Dialect::V02 => v03::json::write_answer(&answer, self.dialect, losses, out)?,
            Dialect::V01 => v01::write_answer(&answer, losses, out)?,
            Dialect::Native => native::write_answer(&answer, &self.form, losses, out)?,
            Dialect::Xpr => xpr::write_answer(&answer, self.name.as_ref(), self.owner.as_deref(), losses, out)?,
        }
        Ok(())
    }

    /// Puts the answer into the form that the method wants, with everything where clients of the dialect look for it.
    fn shape(&self, answer: WireReply, losses: &mut Losses) -> Result<WireReply, Fault> {
        let mut answer = match answer {
            WireReply::Pushes(task, page) if self.form == AnswerForm::FirstPush => {
                let first = page.configs.into_iter().next();
                // The error has the id that the caller used; a caller that chooses its ids does not know ours.
                let asked = || self.name.clone().unwrap_or_else(|| task.clone());
                let missing = || Fault::PushConfigNotFound { task: asked(), config: "of any name".into() };
                WireReply::Push(task.clone(), first.ok_or_else(missing)?)
            }
            WireReply::SentMessage(message) if self.wants_task() => {
                WireReply::SentTask(Box::new(task_from_message(&message, self.name.clone(), losses)))
            }
            other => other,
        };
        match &mut answer {
            WireReply::SentTask(task) | WireReply::Task(task) => {
                place_answer(task, TaggedStyle::of(self.dialect), &Path::Root, losses);
                if self.dialect == Dialect::V1 {
                    v1::json::hide_transferred(&mut task.status, &Path::Root, losses);
                }
                if self.form == AnswerForm::Canceled {
                    task.history.clear();
                }
                // XPR shows when a task was made, which only our id of the task tells, so XPR replaces the id later.
                if let (Some(name), Dialect::V01) = (&self.name, self.dialect) {
                    task.id = name.clone();
                }
            }
            WireReply::Push(task, _) => {
                if let Some(name) = &self.name {
                    *task = name.clone();
                }
            }
            WireReply::Tasks { tasks, .. } if self.dialect == Dialect::V1 => {
                let path = Path::Root.member("tasks");
                let all = tasks.iter_mut().enumerate();
                all.for_each(|(i, task)| v1::json::hide_transferred(&mut task.status, &path.item(i), losses));
            }
            WireReply::SentMessage(_)
            | WireReply::Tasks { .. }
            | WireReply::Pushes(..)
            | WireReply::Deleted
            | WireReply::Card(_) => {}
        }
        Ok(answer)
    }

    /// Writes an error response.
    pub fn refuse(&self, fault: &Fault) -> ErrorResponse {
        let mut body = Vec::with_capacity(512);
        let status = self.status(fault.code());
        // A caller that is refused before its request is handled gets no stream, not even of one error. In 1.0 an error
        // before the first event is a plain answer, which its SDKs read; but some clients accept only event streams and
        // see nothing else.
        let is_stream = self.streams && (self.events_only || self.dialect != Dialect::V1) && status == 200;
        if is_stream {
            let mut error = Vec::new();
            self.write_error(fault, &mut error);
            sse::frame(None, &error, &mut body);
        } else {
            self.write_error(fault, &mut body);
        }
        ErrorResponse { status, is_stream, body }
    }

    /// The HTTP status of an error: 200 if the envelope tells it, and its own if the request was refused before it was
    /// handled.
    const fn status(&self, code: FaultCode) -> u16 {
        match (self.dialect, code) {
            // Servers of agent-native send this error inside the envelope, and its clients go by the text.
            (Dialect::Native, FaultCode::Unauthenticated) if matches!(self.form, AnswerForm::Action(_)) => 200,
            // The client of XPR hides the message of any other status.
            (Dialect::Xpr, _) => 200,
            // agent-native refuses a body that is no request with its own status.
            (Dialect::Native, FaultCode::InvalidRequest | FaultCode::ParseError) => 400,
            (_, code) if code.is_access_refusal() => codes::numbers(code).http,
            _ => 200,
        }
    }

    pub(crate) fn write_error(&self, fault: &Fault, out: &mut Vec<u8>) {
        // agent-native gives everything on a stream the id zero, errors too.
        let id = if self.streams && self.dialect == Dialect::Native { Some("0") } else { self.id.as_deref() };
        if self.dialect == Dialect::V1 {
            jsonrpc::write_error(id, fault, out);
        } else {
            // The task is there because a question about it may be of 0.1. Where the version is named it is not, and the SDK
            // for Go cannot read an error of 0.3 whose data is an object.
            let is_certain = self.names_version && matches!(self.dialect, Dialect::V03 | Dialect::V02);
            let has_task = codes::names_task(self.dialect, fault.code()) && !is_certain;
            codes::write_older_error(self.dialect, has_task, id, fault, out);
        }
    }

    /// The encoder for the events of a stream, in this dialect.
    pub fn stream_encoder(self) -> StreamEncoder {
        StreamEncoder::new(self)
    }
}
