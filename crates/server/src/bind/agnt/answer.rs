//! Turns the reply of an agent into the response to an envelope.

use super::internal;
use sabir_proto::agnt::{Aside, Problem, ProblemCode, data};
use sabir_proto::{Fault, FrozenTask, Json, Object, Part, Reply, Sent, TaskState, TheirTask, View};
use serde::Deserialize;
use serde_json::value::RawValue;
use std::time::Duration;

/// The result of an envelope.
#[derive(Debug, Clone, PartialEq)]
pub(super) struct Outcome {
    /// The result, or why there is none.
    pub(super) said: Result<Object, Problem>,
    /// Whether an earlier envelope produced it.
    pub(super) replay: bool,
    /// Whether this envelope caused an effect that is in the log.
    done: bool,
    /// Whether the agent has stored the record of the envelope with its effect.
    pub(super) recorded: bool,
}

impl Outcome {
    pub(super) const fn refused(problem: Problem) -> Self {
        Self { said: Err(problem), replay: false, done: false, recorded: false }
    }

    /// The result of a search, new or from the cache.
    pub(super) const fn found(said: Result<Object, Problem>, replay: bool) -> Self {
        Self { said, replay, done: false, recorded: false }
    }

    /// Whether the envelope had an effect that is new.
    pub(super) const fn is_first(&self) -> bool {
        self.done && !self.replay && self.said.is_ok()
    }
}

/// The result of an agent's reply. `number` is the number of this envelope.
pub(super) fn outcome<S>(number: u64, reply: Result<Reply<S>, Fault>) -> Outcome {
    match reply {
        Ok(Reply::Sent(Sent::Message(message))) => {
            Outcome { said: said(&message.parts), replay: false, done: false, recorded: false }
        }
        Ok(Reply::Sent(Sent::Task(task, _))) => {
            let of_shown = || task.show(View::WHOLE).map(|task| of_task(number, &task));
            of_made(number, &task)
                .or_else(of_shown)
                .unwrap_or_else(|| Outcome::refused(nonsense("its task is damaged")))
        }
        Ok(_) => Outcome::refused(nonsense("it answered something else than was asked")),
        Err(fault) => Outcome::refused(refusal_of(&fault)),
    }
}

/// The result of a completed task with data, which is the usual case. The rest of the task is not decoded.
fn of_made(number: u64, task: &FrozenTask) -> Option<Outcome> {
    #[derive(Deserialize)]
    struct Seen<'a> {
        #[serde(borrow, default)]
        history: Vec<Heard<'a>>,
        #[serde(default)]
        artifacts: Vec<Made>,
    }
    #[derive(Deserialize)]
    struct Heard<'a> {
        #[serde(borrow)]
        metadata: Option<&'a RawValue>,
    }
    #[derive(Deserialize)]
    struct Made {
        parts: Vec<Piece>,
    }
    #[derive(Deserialize)]
    struct Piece {
        data: Option<Json>,
    }
    #[derive(Deserialize)]
    struct Beside {
        #[serde(rename = "urn:sabir:agnt")]
        aside: Option<Passage>,
    }
    #[derive(Deserialize)]
    struct Passage {
        passage: Option<u64>,
    }
    if task.state != TaskState::Completed {
        return None;
    }
    let seen: Seen<'_> = serde_json::from_slice(&task.json).ok()?;
    let made =
        seen.artifacts.iter().rev().find_map(|artifact| artifact.parts.iter().find_map(|part| part.data.as_ref()))?;
    let beside = seen.history.first().and_then(|first| first.metadata);
    let beside = beside.and_then(|metadata| serde_json::from_str::<Beside>(metadata.get()).ok());
    let passage = beside.and_then(|beside| beside.aside?.passage);
    Some(Outcome { said: object(made), replay: passage != Some(number), done: true, recorded: false })
}

fn of_task(number: u64, task: &TheirTask) -> Outcome {
    // A different number belongs to an earlier envelope: the sender has sent this one again.
    let passage = task.history.first().and_then(Aside::of).and_then(|aside| aside.passage);
    let replay = passage != Some(number);
    let words = task.status.message.as_ref().map(|message| &*message.parts).unwrap_or_default();
    let said = match task.status.state {
        TaskState::Completed => {
            let made = task.artifacts.iter().rev().find_map(|artifact| data(&artifact.parts));
            let told = || {
                let made = task.artifacts.iter().flat_map(|artifact| &artifact.parts);
                let all: Vec<Part> = made.chain(words).cloned().collect();
                said(&all)
            };
            made.map_or_else(told, object)
        }
        TaskState::InputRequired if data(words).is_some() => said(words),
        TaskState::Rejected | TaskState::Failed if data(words).is_some() => {
            said(words).and(Err(nonsense("it failed without saying why")))
        }
        state => {
            let text: Vec<&str> = words.iter().filter_map(Part::as_text).collect();
            let why = if text.is_empty() { format!("its task is {state}") } else { text.join(" ") };
            Err(Problem::new(ProblemCode::Internal, why))
        }
    };
    Outcome { said, replay, done: true, recorded: false }
}

/// Data, or else the text as data: agents that the network reaches need not know its formats.
fn said(parts: &[Part]) -> Result<Object, Problem> {
    if let Some(data) = data(parts) {
        return object(data);
    }
    let words: Vec<&str> = parts.iter().filter_map(Part::as_text).collect();
    let text = Json::of(&serde_json::json!({"text": words.join("\n")})).and_then(Object::new).ok();
    text.filter(|_| !words.is_empty()).ok_or_else(|| nonsense("it said nothing that is data"))
}

/// The result, unless the data is an error.
fn object(json: &Json) -> Result<Object, Problem> {
    #[derive(Deserialize)]
    struct Failed {
        error: Shown,
    }
    #[derive(Deserialize)]
    struct Shown {
        code: String,
        message: String,
        retry_after_ms: Option<u64>,
        details: Option<Object>,
    }
    let object = Object::new(json.clone()).map_err(|_| nonsense("it said data that is no object"))?;
    if !object.as_str().contains("\"error\"") {
        return Ok(object);
    }
    match json.read::<Failed>() {
        Err(_) => Ok(object),
        Ok(Failed { error }) => {
            let code = ProblemCode::parse(&error.code, 0).unwrap_or(ProblemCode::Internal);
            let retry_after = error.retry_after_ms.map(Duration::from_millis);
            Err(Problem { code, message: error.message, retry_after, details: error.details })
        }
    }
}

fn nonsense(why: &str) -> Problem {
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
        Fault::TooMany { .. } => ProblemCode::RateLimited,
        Fault::Unavailable(words) if words == sabir_engine::STILL_ACCEPTING => ProblemCode::InProgress,
        fault => {
            let problem = internal(fault);
            return match fault.retry_after() {
                Some(seconds) => problem.after(Duration::from_secs(seconds)),
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
        (ProblemCode::InProgress, _) => problem.after(Duration::from_secs(1)),
        (_, Some(seconds)) => problem.after(Duration::from_secs(seconds)),
        (_, None) => problem,
    }
}
