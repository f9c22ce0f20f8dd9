//! Turns the reply of an agent into the response to an envelope.

use super::internal;
use sabir_proto::agnt::{EnvelopeMeta, Problem, ProblemCode, data_object};
use sabir_proto::{Fault, FrozenTask, Json, Object, Part, Reply, SendReply, TaskState, View, WireTask};
use serde::Deserialize;
use serde_json::value::RawValue;
use std::time::Duration;

/// The result of an envelope.
#[derive(Debug, Clone, PartialEq)]
pub(super) struct EnvelopeOutcome {
    /// The result, or why there is none.
    pub(super) result: Result<Object, Problem>,
    /// Whether an earlier envelope produced it.
    pub(super) replay: bool,
    /// Whether this envelope caused an effect that is in the log.
    done: bool,
    /// Whether the agent has stored the record of the envelope with its effect.
    pub(super) recorded: bool,
}

impl EnvelopeOutcome {
    pub(super) const fn refused(problem: Problem) -> Self {
        Self { result: Err(problem), replay: false, done: false, recorded: false }
    }

    /// The result of a search, new or from the cache.
    pub(super) const fn searched(result: Result<Object, Problem>, replay: bool) -> Self {
        Self { result, replay, done: false, recorded: false }
    }

    /// Whether the envelope had an effect that is new.
    pub(super) const fn is_first(&self) -> bool {
        self.done && !self.replay && self.result.is_ok()
    }
}

/// The result of an agent's reply. `number` is the number of this envelope.
pub(super) fn from_reply<S>(number: u64, reply: Result<Reply<S>, Fault>) -> EnvelopeOutcome {
    match reply {
        Ok(Reply::Sent(SendReply::Message(message))) => {
            EnvelopeOutcome { result: from_parts(&message.parts), replay: false, done: false, recorded: false }
        }
        Ok(Reply::Sent(SendReply::Task(task, _))) => {
            let of_shown = || task.to_wire(View::WHOLE).map(|task| from_task(number, &task));
            from_artifact(number, &task)
                .or_else(of_shown)
                .unwrap_or_else(|| EnvelopeOutcome::refused(invalid_answer("its task is damaged")))
        }
        Ok(_) => EnvelopeOutcome::refused(invalid_answer("it answered something else than was asked")),
        Err(fault) => EnvelopeOutcome::refused(refusal_of(&fault)),
    }
}

/// The result of a completed task with data, which is the usual case. The rest of the task is not decoded.
fn from_artifact(number: u64, task: &FrozenTask) -> Option<EnvelopeOutcome> {
    #[derive(Deserialize)]
    struct TaskDocument<'a> {
        #[serde(borrow, default)]
        history: Vec<TaskMessage<'a>>,
        #[serde(default)]
        artifacts: Vec<TaskArtifact>,
    }
    #[derive(Deserialize)]
    struct TaskMessage<'a> {
        #[serde(borrow)]
        metadata: Option<&'a RawValue>,
    }
    #[derive(Deserialize)]
    struct TaskArtifact {
        parts: Vec<TaskPart>,
    }
    #[derive(Deserialize)]
    struct TaskPart {
        data: Option<Json>,
    }
    #[derive(Deserialize)]
    struct MessageMetadata {
        #[serde(rename = "urn:sabir:agnt")]
        aside: Option<EnvelopeNumber>,
    }
    #[derive(Deserialize)]
    struct EnvelopeNumber {
        passage: Option<u64>,
    }
    if task.state != TaskState::Completed {
        return None;
    }
    let seen: TaskDocument<'_> = serde_json::from_slice(&task.json).ok()?;
    let made =
        seen.artifacts.iter().rev().find_map(|artifact| artifact.parts.iter().find_map(|part| part.data.as_ref()))?;
    let beside = seen.history.first().and_then(|first| first.metadata);
    let beside = beside.and_then(|metadata| serde_json::from_str::<MessageMetadata>(metadata.get()).ok());
    let passage = beside.and_then(|beside| beside.aside?.passage);
    Some(EnvelopeOutcome { result: object(made), replay: passage != Some(number), done: true, recorded: false })
}

fn from_task(number: u64, task: &WireTask) -> EnvelopeOutcome {
    // A different number belongs to an earlier envelope: the sender has sent this one again.
    let passage = task.history.first().and_then(EnvelopeMeta::of).and_then(|aside| aside.passage);
    let replay = passage != Some(number);
    let words = task.status.message.as_ref().map(|message| &*message.parts).unwrap_or_default();
    let said = match task.status.state {
        TaskState::Completed => {
            let made = task.artifacts.iter().rev().find_map(|artifact| data_object(&artifact.parts));
            let told = || {
                let made = task.artifacts.iter().flat_map(|artifact| &artifact.parts);
                let all: Vec<Part> = made.chain(words).cloned().collect();
                from_parts(&all)
            };
            made.map_or_else(told, object)
        }
        TaskState::InputRequired if data_object(words).is_some() => from_parts(words),
        TaskState::Rejected | TaskState::Failed if data_object(words).is_some() => {
            from_parts(words).and(Err(invalid_answer("it failed without saying why")))
        }
        state => {
            let text: Vec<&str> = words.iter().filter_map(Part::as_text).collect();
            let why = if text.is_empty() { format!("its task is {state}") } else { text.join(" ") };
            Err(Problem::new(ProblemCode::Internal, why))
        }
    };
    EnvelopeOutcome { result: said, replay, done: true, recorded: false }
}

/// Data, or else the text as data: agents that the network reaches need not know its formats.
fn from_parts(parts: &[Part]) -> Result<Object, Problem> {
    if let Some(data) = data_object(parts) {
        return object(data);
    }
    let words: Vec<&str> = parts.iter().filter_map(Part::as_text).collect();
    let text = Json::of(&serde_json::json!({"text": words.join("\n")})).and_then(Object::new).ok();
    text.filter(|_| !words.is_empty()).ok_or_else(|| invalid_answer("it said nothing that is data"))
}

/// The result, unless the data is an error.
fn object(json: &Json) -> Result<Object, Problem> {
    #[derive(Deserialize)]
    struct ErrorDocument {
        error: ErrorMember,
    }
    #[derive(Deserialize)]
    struct ErrorMember {
        code: String,
        message: String,
        retry_after_ms: Option<u64>,
        details: Option<Object>,
    }
    let object = Object::new(json.clone()).map_err(|_| invalid_answer("it said data that is no object"))?;
    if !object.as_str().contains("\"error\"") {
        return Ok(object);
    }
    match json.read::<ErrorDocument>() {
        Err(_) => Ok(object),
        Ok(ErrorDocument { error }) => {
            let code = ProblemCode::parse(&error.code, 0).unwrap_or(ProblemCode::Internal);
            let retry_after = error.retry_after_ms.map(Duration::from_millis);
            Err(Problem { code, message: error.message, retry_after, details: error.details })
        }
    }
}

fn invalid_answer(why: &str) -> Problem {
    Problem::new(ProblemCode::Internal, format!("the network's agent did not answer as it should: {why}"))
}

/// An engine fault as a problem of the envelope.
pub(super) fn refusal_of(fault: &Fault) -> Problem {
    let code = match fault {
        Fault::Booking(problem) => return (**problem).clone(),
        Fault::RetryConflict => ProblemCode::IdempotencyConflict,
        Fault::InvalidParams(_) | Fault::ContentTypeNotSupported(_) => ProblemCode::InvalidPayload,
        Fault::Unauthenticated(_) => ProblemCode::Unauthorized,
        Fault::Forbidden(_) => ProblemCode::ScopeRequired,
        Fault::RateLimited { .. } => ProblemCode::RateLimited,
        Fault::Unavailable(words) if words == sabir_engine::STILL_ACCEPTING => ProblemCode::InProgress,
        fault => {
            let problem = internal(fault);
            return match fault.retry_after() {
                Some(seconds) => problem.with_retry_after(Duration::from_secs(seconds)),
                None => problem,
            };
        }
    };
    let message = match code {
        ProblemCode::IdempotencyConflict => {
            "this sender has sent something else with this intent and timestamp; send it with a timestamp of its own"
                .into()
        }
        _ => fault.to_string(),
    };
    let problem = Problem::new(code, message);
    match (code, fault.retry_after()) {
        (ProblemCode::InProgress, _) => problem.with_retry_after(Duration::from_secs(1)),
        (_, Some(seconds)) => problem.with_retry_after(Duration::from_secs(seconds)),
        (_, None) => problem,
    }
}
