//! Answers: an envelope of the same shape as the request, sender and recipient reversed.
//!
//! A payload is a refusal if it has the member `error`. Nothing else says so, because a booking has a status of its
//! own.

use super::envelope::{EnvelopeHead, empty};
use super::{NETWORK, NanoTimestamp, Problem, ProblemCode};
use sabir_proto::{Json, Object};
use serde::{Deserialize, Serialize};
use std::time::Duration;

/// Stands for a sender or an intent that could not be read.
const UNKNOWN: &str = "unknown";

/// Writes the answer to an envelope.
pub fn write_answer(asked: &EnvelopeHead, payload: &Object, now: NanoTimestamp) -> String {
    write_envelope(asked, payload, NETWORK, now)
}

/// Writes the refusal of an envelope. `own` is the sender of the answer where the recipient of the request could not be
/// read.
pub fn write_refusal(asked: &EnvelopeHead, problem: &Problem, own: &str, now: NanoTimestamp) -> String {
    #[derive(Serialize)]
    struct ErrorPayload {
        error: WireProblem,
    }
    let payload = Json::of(&ErrorPayload { error: WireProblem::of(problem) }).and_then(Object::new);
    write_envelope(asked, &payload.unwrap_or_else(|_| empty()), own, now)
}

fn write_envelope(asked: &EnvelopeHead, payload: &Object, own: &str, now: NanoTimestamp) -> String {
    #[derive(Serialize)]
    struct AnswerOut<'a> {
        protocol: &'a str,
        from: &'a str,
        to: &'a str,
        intent: &'a str,
        payload: &'a Object,
        agent_context: &'a Object,
        ttl_ms: u64,
        timestamp: String,
    }
    let out = AnswerOut {
        protocol: &asked.protocol,
        from: asked.to.as_deref().unwrap_or(own),
        to: asked.from.as_deref().unwrap_or(UNKNOWN),
        intent: asked.intent.as_deref().unwrap_or(UNKNOWN),
        payload,
        agent_context: &asked.context,
        ttl_ms: asked.ttl_ms,
        timestamp: now.to_string(),
    };
    serde_json::to_string(&out).unwrap_or_default()
}

/// The `error` member of a payload.
#[derive(Debug, Serialize, Deserialize)]
struct WireProblem {
    code: String,
    message: String,
    #[serde(default)]
    retryable: bool,
    #[serde(default, skip_serializing_if = "Option::is_none")]
    retry_after_ms: Option<u64>,
    #[serde(default, skip_serializing_if = "Option::is_none")]
    details: Option<Object>,
}

impl WireProblem {
    fn of(problem: &Problem) -> Self {
        let after = problem.retry_after.map(|wait| u64::try_from(wait.as_millis()).unwrap_or(u64::MAX));
        Self {
            code: problem.code.name().into(),
            message: problem.message.clone(),
            retryable: problem.code.is_retryable(),
            retry_after_ms: after,
            details: problem.details.clone(),
        }
    }
}

/// A successful answer of another network.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct NetworkAnswer {
    /// The id of the network or the agent that answers.
    pub from: String,
    /// The result of the intent, as the network sent it.
    pub payload: Object,
    /// The `agent_context` of the request, which the network echoes.
    pub context: Object,
}

/// Why the answer of another network has no result.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
pub enum NetworkAnswerError {
    /// The network refused with a code that we know.
    #[error("{0}")]
    Refused(Problem),
    /// The network refused with a code that we do not know.
    #[error("{code}: {message}")]
    UnknownCode {
        /// The code, as the network sent it.
        code: String,
        /// The text of the refusal.
        message: String,
        /// Whether the network says that a retry may succeed.
        retryable: bool,
    },
    /// The bytes are not an answer envelope.
    #[error("not an answer: {0}")]
    NotAnAnswer(String),
}

/// Reads an answer. Unlike requests it is read leniently: a newer network may send members that we do not know.
pub fn read_answer(bytes: &[u8], http: u16) -> Result<NetworkAnswer, NetworkAnswerError> {
    #[derive(Deserialize)]
    struct AnswerIn {
        from: String,
        payload: Object,
        #[serde(default)]
        agent_context: Option<Object>,
    }
    let nonsense = |why: String| NetworkAnswerError::NotAnAnswer(why);
    let text = std::str::from_utf8(bytes).map_err(|e| nonsense(e.to_string()))?;
    let json = Json::parse(text).map_err(|e| nonsense(e.to_string()))?;
    let AnswerIn { from, payload, agent_context } = json.read().map_err(|e| nonsense(e.to_string()))?;
    let Some(error) = payload.get("error") else {
        if !(200..300).contains(&http) {
            return Err(nonsense(format!("HTTP status {http} without an error")));
        }
        return Ok(NetworkAnswer { from, payload, context: agent_context.unwrap_or_else(empty) });
    };
    let shown: WireProblem = serde_json::from_value(error).map_err(|e| nonsense(e.to_string()))?;
    Err(match ProblemCode::parse(&shown.code, http) {
        Some(code) => NetworkAnswerError::Refused(Problem {
            code,
            message: shown.message,
            retry_after: shown.retry_after_ms.map(Duration::from_millis),
            details: shown.details,
        }),
        None => {
            NetworkAnswerError::UnknownCode { code: shown.code, message: shown.message, retryable: shown.retryable }
        }
    })
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::agnt::Envelope;

    fn asked() -> EnvelopeHead {
        let text = r#"{"from":"a","to":"network:x","intent":"booking.search","agent_context":{"z":1,"a":[ 2]},"ttl_ms":20000}"#;
        Envelope::read(text.as_bytes()).unwrap().head()
    }

    fn now() -> NanoTimestamp {
        NanoTimestamp::parse("2026-04-02T10:22:03.5Z").unwrap()
    }

    #[test]
    fn an_answer_goes_back_with_what_it_came_with() {
        let payload = Object::new(Json::parse(r#"{"count":0,"fee_pct":7.0}"#).unwrap()).unwrap();
        let text = write_answer(&asked(), &payload, now());
        assert_eq!(
            text,
            r#"{"protocol":"openclaw/a2a/v1","from":"network:x","to":"a","intent":"booking.search","payload":{"count":0,"fee_pct":7.0},"agent_context":{"z":1,"a":[2]},"ttl_ms":20000,"timestamp":"2026-04-02T10:22:03.500000Z"}"#
        );
        let read = read_answer(text.as_bytes(), 200).unwrap();
        assert_eq!((read.from.as_str(), read.payload), ("network:x", payload));
    }

    #[test]
    fn a_refusal_is_told_by_its_error_and_read_back() {
        let problem = Problem::new(ProblemCode::RateLimited, "spent").with_retry_after(Duration::from_secs(60));
        let text = write_refusal(&asked(), &problem, "network:x", now());
        assert!(
            text.contains(r#""payload":{"error":{"code":"rate_limited","message":"spent","retryable":true,"retry_after_ms":60000}}"#),
            "{text}"
        );
        assert_eq!(read_answer(text.as_bytes(), 429), Err(NetworkAnswerError::Refused(problem)));
        let nobody =
            write_refusal(&EnvelopeHead::default(), &Problem::new(ProblemCode::Unauthorized, "no"), "network:x", now());
        assert!(nobody.contains(r#""from":"network:x","to":"unknown","intent":"unknown""#), "{nobody}");
    }

    #[test]
    fn what_is_no_answer_is_not_taken_for_one() {
        let fine = write_answer(&asked(), &empty(), now());
        assert!(matches!(read_answer(fine.as_bytes(), 502), Err(NetworkAnswerError::NotAnAnswer(_))));
        for text in ["", "<html>", "[]", r#"{"payload":{}}"#, r#"{"from":"a","payload":null}"#] {
            assert!(matches!(read_answer(text.as_bytes(), 200), Err(NetworkAnswerError::NotAnAnswer(_))), "{text}");
        }
        let newer = r#"{"from":"a","payload":{"error":{"code":"venue_closed","message":"m","retryable":true}},"x":1}"#;
        let read = read_answer(newer.as_bytes(), 409);
        assert!(matches!(read, Err(NetworkAnswerError::UnknownCode { retryable: true, .. })), "{read:?}");
    }
}
