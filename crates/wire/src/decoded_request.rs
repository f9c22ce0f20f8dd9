//! Decodes JSON-RPC requests of every dialect, and sets up the response in the same dialect.

use crate::detect::{self, Detection, DialectMarks, Facts};
use crate::jsonrpc::{JsonRpcEnvelope, MalformedRequest, read_params};
use crate::responder::Responder;
use crate::tagged_json::Mint;
use crate::tagged_json::send::SendIn;
use crate::{Dialect, Losses, native, v01, v1, v03, xpr};
use sabir_proto::{Call, Fault, MessageId, TaskRef};
use serde_json::value::RawValue;
use std::sync::Arc;

/// A request that was decoded.
#[derive(Debug)]
pub struct DecodedRequest {
    /// The call that the request makes.
    pub call: Call,
    /// The retry key among the parameters, if there is one.
    pub idempotency_key: Option<String>,
    /// Writes the response in the dialect of the request.
    pub responder: Responder,
    /// The members that the canonical call cannot carry.
    pub losses: Losses,
    /// Nothing in the request says which dialect it is; see [`DecodedRequest::task_deciding_dialect`].
    is_uncertain: bool,
}

impl DecodedRequest {
    /// The task whose dialect decides that of the request, if nothing else did. A task with an id of ours was not named
    /// by its client (or by one that makes ids just like ours), so the store need not be asked about it.
    pub fn task_deciding_dialect(&self) -> Option<&TaskRef> {
        let name = match &self.call {
            Call::Get(call) => &call.id,
            Call::Cancel(call) => &call.id,
            Call::Subscribe(call) => &call.id,
            _ => return None,
        };
        (self.is_uncertain && matches!(name, TaskRef::Alias(_))).then_some(name)
    }

    /// Treats the request as 0.1, because its task was made in 0.1. Only clients of 0.1 name tasks at an endpoint that
    /// all dialects share.
    #[must_use]
    pub fn as_v01(mut self) -> Self {
        match &mut self.call {
            Call::Get(call) => call.history_length = v01::history(call.history_length),
            Call::Cancel(_) => self.responder.form = AnswerForm::Canceled,
            _ => {}
        }
        self.responder = self.responder.in_v01(self.call.task_name());
        self
    }
}

/// A request that could not be decoded, with what is needed to answer it.
#[derive(Debug)]
pub struct DecodeError {
    /// Writes the response in the dialect of the request.
    pub responder: Responder,
    /// What is wrong with the request.
    pub fault: Fault,
}

/// The call of a method, and the form of its answer.
#[derive(Debug)]
pub(crate) struct DecodedCall {
    pub(crate) call: Call,
    pub(crate) form: AnswerForm,
}

impl From<Call> for DecodedCall {
    fn from(call: Call) -> Self {
        Self { call, form: AnswerForm::Plain }
    }
}

/// The form of an answer, where a method wants another one than the operation gives.
#[derive(Debug, Clone, PartialEq, Eq, Default)]
pub(crate) enum AnswerForm {
    /// The answer of the operation, unchanged.
    #[default]
    Plain,
    /// Only the first of the push configurations that were listed.
    FirstPush,
    /// 0.1: a canceled task without its history, which a cancel cannot ask for.
    Canceled,
    /// agent-native: a task that the client polls.
    Polled,
    /// agent-native: the outcome of this action.
    Action(String),
}

/// The kind of answer that a request gets.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum AnswerKind {
    /// A task or a message.
    Send,
    /// A task.
    Task,
    /// One page of a list of tasks.
    Tasks,
    /// One push configuration of a task.
    Push,
    /// A list of push configurations.
    Pushes,
    /// Nothing; a deletion has no result.
    Deletion,
    /// A card.
    Card,
}

impl AnswerKind {
    /// The kind of answer to a call. A stream is answered by events instead.
    pub const fn of_call(call: &Call) -> Self {
        match call {
            Call::Send(_) | Call::Stream(_) => Self::Send,
            Call::Get(_) | Call::Cancel(_) | Call::Subscribe(_) => Self::Task,
            Call::List(_) => Self::Tasks,
            Call::CreatePush { .. } | Call::GetPush(_) => Self::Push,
            Call::ListPush(_) => Self::Pushes,
            Call::DeletePush(_) => Self::Deletion,
            Call::ExtendedCard { .. } => Self::Card,
        }
    }
}

/// Decodes a request. `mint` makes ids for messages that come without one.
pub fn decode_request(
    facts: &Facts<'_>,
    body: &[u8],
    mint: &mut dyn FnMut() -> MessageId,
) -> Result<DecodedRequest, Box<DecodeError>> {
    let unheard = |responder, fault| Box::new(DecodeError { responder, fault });
    let envelope = match JsonRpcEnvelope::read(body) {
        Ok(envelope) => envelope,
        Err(MalformedRequest { id, fault }) => return Err(unheard(Responder::new(facts.guess(), Some(id)), fault)),
    };
    let versioned = match detect::detect_family(facts, &envelope.method) {
        Ok(versioned) => versioned,
        Err((dialect, fault)) => {
            let responder = Responder::new(dialect, envelope.answer_id(dialect.features().optional_ids));
            // An unknown method is reported first: an id would not help the caller.
            let id_problem = match fault {
                Fault::MethodNotFound(_) if envelope.is_without_id() => None,
                _ => envelope.id_problem(dialect.features().optional_ids),
            };
            return Err(unheard(responder, id_problem.unwrap_or(fault)));
        }
    };
    let mut losses = Losses::new();
    let (detected, said) = match versioned {
        Some(Dialect::V1) => {
            (Detection::Certain(Dialect::V1), v1::json::read_call(&envelope).map(|call| (call.into(), None)))
        }
        versioned => read_older(facts, &envelope, versioned, mint, &mut losses),
    };
    let (dialect, leaning) = (detected.dialect(), matches!(detected, Detection::Likely(_)));
    // The request may turn out to be 0.1, which needs no id.
    let optional = dialect.features().optional_ids || (leaning && envelope.is_without_id());
    let mut responder = Responder::new(dialect, envelope.answer_id(optional));
    if let Some(fault) = envelope.id_problem(optional) {
        return Err(unheard(responder, fault));
    }
    match said {
        Ok((DecodedCall { call, form }, idempotency_key)) => {
            responder.for_call(&call, form);
            Ok(DecodedRequest { call, idempotency_key, responder, losses, is_uncertain: leaning })
        }
        Err(fault) => {
            responder.for_method(&envelope.method);
            Err(unheard(responder, fault))
        }
    }
}

/// Bodies that are larger are not decoded only to find the dialect of their refusal.
const REFUSED_BYTES_MAX: usize = 64 * 1024;

/// The responder for a request that is refused without being served. Fails if the body is no request at all, which some
/// dialects report first ([`crate::dialect::DialectFeatures::envelope_first`]).
pub fn refusal_responder(facts: &Facts<'_>, body: &[u8]) -> Result<Responder, Box<DecodeError>> {
    if body.len() > REFUSED_BYTES_MAX {
        return Ok(Responder::new(facts.guess(), Some("null".into())));
    }
    match decode_request(facts, body, &mut || MessageId::parse("refused").expect("a legal id")) {
        Ok(heard) => Ok(heard.responder),
        // A refusal only needs to know that the body is a request; the rest may be wrong.
        Err(unheard) if matches!(unheard.fault, Fault::Parse(_) | Fault::InvalidRequest(_)) => Err(unheard),
        Err(unheard) => Ok(unheard.responder),
    }
}

/// Decodes a request of a known dialect.
pub(crate) fn read_as_dialect(
    dialect: Dialect,
    envelope: &JsonRpcEnvelope<'_>,
    mint: Mint<'_>,
    losses: &mut Losses,
) -> Result<(DecodedCall, Option<String>), Fault> {
    if dialect == Dialect::V1 {
        return Ok((v1::json::read_call(envelope)?.into(), None));
    }
    let (_, said) = read_older(&Facts::default(), envelope, Some(dialect), mint, losses);
    said
}

type DecodeResult = Result<(DecodedCall, Option<String>), Fault>;

fn read_older(
    facts: &Facts<'_>,
    envelope: &JsonRpcEnvelope<'_>,
    versioned: Option<Dialect>,
    mint: Mint<'_>,
    losses: &mut Losses,
) -> (Detection, DecodeResult) {
    let method = &*envelope.method;
    let params = envelope.params.map_or("{}", RawValue::get);
    if !matches!(method, "message/send" | "message/stream") {
        let marks = DialectMarks { xpr: detect::has_xpr_members(params), ..DialectMarks::default() };
        let detected = detect::detect_older_dialect(facts, method, versioned, marks);
        let said = match detected.dialect() {
            Dialect::V1 | Dialect::V03 | Dialect::V02 => v03::json::read_call(method, params, losses),
            Dialect::V01 => v01::read_call(method, params, mint, losses),
            Dialect::Native => native::read_call(method, params, mint),
            Dialect::Xpr => xpr::read_call(method, params),
        };
        return (detected, said.map(|said| (said, None)));
    }
    let send: SendIn = match read_params(params) {
        Ok(send) => send,
        // Parameters that cannot be read have no marks. The rest of the request decides the dialect of the error.
        Err(fault) => {
            return (detect::detect_older_dialect(facts, method, versioned, DialectMarks::default()), Err(fault));
        }
    };
    let detected = detect::detect_older_dialect(facts, method, versioned, send.marks());
    let read = match detected.dialect() {
        Dialect::Native => native::read_send(send, mint, losses),
        Dialect::Xpr => xpr::read_send(send, mint, losses).map(|request| (request, None)),
        Dialect::V1 | Dialect::V03 | Dialect::V02 | Dialect::V01 => {
            v03::json::read_send(send, mint, losses).map(|request| (request, None))
        }
    };
    let call = if method == "message/send" { Call::Send } else { Call::Stream };
    (detected, read.map(|(request, key)| (call(request).into(), key)))
}

/// The id that a caller used for a task.
pub(crate) trait NamesTask {
    fn task_name(&self) -> Option<Arc<str>>;
}

impl NamesTask for Call {
    fn task_name(&self) -> Option<Arc<str>> {
        let name = match self {
            Self::Send(request) | Self::Stream(request) => return request.alias.clone(),
            Self::Get(call) => &call.id,
            Self::Cancel(call) => &call.id,
            Self::Subscribe(call) => &call.id,
            Self::CreatePush { task, .. } => task,
            Self::GetPush(call) => &call.task_id,
            Self::ListPush(call) => &call.task_id,
            Self::DeletePush(call) => &call.task_id,
            Self::List(_) | Self::ExtendedCard { .. } => return None,
        };
        Some(name.to_string().into())
    }
}
