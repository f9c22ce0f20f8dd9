//! Turns the reply of an agent into the response to an envelope.

use sabir_network::EnvelopeCall;
use sabir_network::problem::of_fault;
use sabir_proto::{
    CallAttachment, Fault, FrozenTask, Json, Object, Part, Reply, SendReply, TaskState, View, WireTask, first_data,
};
use sabir_wire::agnt::{Problem, ProblemCode};
use serde::Deserialize;
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

/// The envelope that began the turn behind a reply.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum TurnOrigin {
    ThisEnvelope,
    /// The sender has sent this envelope again, and gets the answer of the first.
    EarlierEnvelope,
}

/// The result of an agent's reply to the call with this attachment.
pub(super) fn from_turn<S>(reply: Result<Reply<S>, Fault>, attachment: &CallAttachment) -> EnvelopeOutcome {
    let has_begun = attachment.is_delivered();
    let outcome = from_reply(reply, if has_begun { TurnOrigin::ThisEnvelope } else { TurnOrigin::EarlierEnvelope });
    // A completed effect is in the log with its record. An effect that failed has no record there.
    let taken = attachment.get::<EnvelopeCall>().is_some_and(|call| call.record.is_taken());
    EnvelopeOutcome { recorded: outcome.is_first() && taken, ..outcome }
}

/// The result of an agent's reply.
pub(super) fn from_reply<S>(reply: Result<Reply<S>, Fault>, origin: TurnOrigin) -> EnvelopeOutcome {
    match reply {
        Ok(Reply::Sent(SendReply::Message(message))) => {
            EnvelopeOutcome { result: from_parts(&message.parts), replay: false, done: false, recorded: false }
        }
        Ok(Reply::Sent(SendReply::Task(task, _))) => {
            let of_shown = || task.to_wire(View::WHOLE).map(|task| from_task(&task));
            let replay = origin == TurnOrigin::EarlierEnvelope;
            match from_artifact(&task).or_else(of_shown) {
                Some(result) => EnvelopeOutcome { result, replay, done: true, recorded: false },
                None => EnvelopeOutcome::refused(invalid_answer("its task is damaged")),
            }
        }
        Ok(_) => EnvelopeOutcome::refused(invalid_answer("it answered something else than was asked")),
        Err(fault) => EnvelopeOutcome::refused(of_fault(&fault)),
    }
}

/// The result of a completed task with data, which is the usual case. The rest of the task is not decoded.
fn from_artifact(task: &FrozenTask) -> Option<Result<Object, Problem>> {
    #[derive(Deserialize)]
    struct TaskDocument {
        #[serde(default)]
        artifacts: Vec<TaskArtifact>,
    }
    #[derive(Deserialize)]
    struct TaskArtifact {
        parts: Vec<TaskPart>,
    }
    #[derive(Deserialize)]
    struct TaskPart {
        data: Option<Json>,
    }
    if task.state != TaskState::Completed {
        return None;
    }
    let seen: TaskDocument = serde_json::from_slice(&task.json).ok()?;
    let made =
        seen.artifacts.iter().rev().find_map(|artifact| artifact.parts.iter().find_map(|part| part.data.as_ref()))?;
    Some(object(made))
}

fn from_task(task: &WireTask) -> Result<Object, Problem> {
    let words = task.status.message.as_ref().map(|message| &*message.parts).unwrap_or_default();
    match task.status.state {
        TaskState::Completed => {
            let made = task.artifacts.iter().rev().find_map(|artifact| first_data(&artifact.parts));
            let told = || {
                let made = task.artifacts.iter().flat_map(|artifact| &artifact.parts);
                let all: Vec<Part> = made.chain(words).cloned().collect();
                from_parts(&all)
            };
            made.map_or_else(told, object)
        }
        TaskState::InputRequired if first_data(words).is_some() => from_parts(words),
        TaskState::Rejected | TaskState::Failed if first_data(words).is_some() => {
            from_parts(words).and(Err(invalid_answer("it failed without saying why")))
        }
        state => {
            let text: Vec<&str> = words.iter().filter_map(Part::as_text).collect();
            let why = if text.is_empty() { format!("its task is {state}") } else { text.join(" ") };
            Err(Problem::new(ProblemCode::Internal, why))
        }
    }
}

/// Data, or else the text as data: agents that the network reaches need not know its formats.
fn from_parts(parts: &[Part]) -> Result<Object, Problem> {
    if let Some(data) = first_data(parts) {
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
