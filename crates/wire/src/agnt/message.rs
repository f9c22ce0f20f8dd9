//! Maps between A2A messages and envelopes, for callers that talk to a booking network as to an agent.
//!
//! A network has six intents and no tasks, so a caller can only send messages, and each is answered at once:
//!
//! | A2A | Booking network |
//! |---|---|
//! | a message that names a skill | the intent of that name; its data part is the payload |
//! | a message of text without a skill | `booking.search`; the text is the query |
//! | files, references, the send configuration | nothing: they are noted as losses |
//! | a message with a data part | the result of an intent without effect |
//! | a completed task, with the id of the booking and the artifact `booking` | a booking |
//! | a rejected task, with the error as a data part | the final refusal of a booking |
//! | a fault | any other refusal |

use super::{Intent, Problem, ProblemCode};
use crate::losses::{LossKind, Losses};
use sabir_proto::{
    Artifact, ArtifactId, Content, Fault, Json, JsonFault, Message, MessageId, Object, Part, Role, SendConfiguration,
    SendMessage, Task, TaskRef, TaskState, TaskStatus, WireReply, WireTask, first_data,
};
use serde_json::{Map, Value, json};

/// The id of the artifact that holds a booking.
const BOOKING: &str = "booking";

/// Reads the intent and the payload from a message.
pub fn intent_and_payload(request: &SendMessage, losses: &mut Losses) -> Result<(Intent, Object), Fault> {
    let message = &request.message;
    let given = first_data(&message.parts);
    let intent = match message.skill() {
        Some(skill) => Intent::parse(&skill)
            .ok_or_else(|| Fault::UnsupportedOperation(format!("the network has no skill {skill:.64?}")))?,
        None if given.is_some() => {
            let words = "a data part is for a skill: name it in metadata, as urn:sabir:ext:skill:v1";
            return Err(Fault::invalid("message.metadata", words));
        }
        None => Intent::BookingSearch,
    };
    for (number, part) in message.parts.iter().enumerate() {
        if matches!(part.content, Content::Raw(_) | Content::Url(_)) {
            losses.note(LossKind::Part, format_args!("message.parts[{number}]"));
        }
    }
    if !message.reference_task_ids.is_empty() {
        losses.note(LossKind::References, "message.referenceTaskIds");
    }
    if request.configuration != SendConfiguration::default() {
        losses.note(LossKind::Configuration, "configuration");
    }
    let words = message.joined_text();
    let payload = match given {
        Some(data) => Object::new(data.clone()),
        None if intent == Intent::BookingSearch && !words.trim().is_empty() => {
            Object::from_map(&Map::from_iter([("query".to_owned(), Value::from(words.trim()))]))
        }
        None => Object::from_map(&Map::new()),
    };
    let wrong = |fault: JsonFault| Fault::invalid("message.parts", fault.to_string());
    Ok((intent, payload.map_err(wrong)?))
}

/// Turns the result of an intent into the answer to a send.
pub fn answer_from_result(
    intent: Intent,
    payload: &Object,
    mint: &mut dyn FnMut() -> MessageId,
) -> Result<WireReply, Fault> {
    let part = Part::data(payload.as_json().clone());
    if !intent.has_effect() {
        let mut message = Message::text(mint(), Role::Agent, "");
        message.parts = vec![part];
        return Ok(WireReply::SentMessage(Box::new(message)));
    }
    let name = ["booking_id", "payment_id"].iter().find_map(|name| payload.get(name)?.as_str().map(str::to_owned));
    let name = name.ok_or_else(|| Fault::InvalidAgentResponse("a booking without its booking_id".into()))?;
    let mut task = task(&name, TaskState::Completed, None)?;
    let artifact = ArtifactId::parse(BOOKING).map_err(|fault| Fault::InvalidAgentResponse(fault.to_string()))?;
    task.artifacts = vec![Artifact::new(artifact, vec![part])];
    Ok(WireReply::SentTask(Box::new(task)))
}

/// Turns a refusal into the answer to a send. The final refusal of a booking is a rejected task; any other is a fault.
pub fn answer_from_problem(
    intent: Intent,
    problem: Problem,
    mint: &mut dyn FnMut() -> MessageId,
) -> Result<WireReply, Fault> {
    use ProblemCode as Code;
    let words = problem.message.clone();
    Err(match problem.code {
        Code::Unauthorized | Code::InvalidSignature => Fault::Unauthenticated(words),
        Code::TierRequired | Code::ScopeRequired | Code::AgentMismatch | Code::TlsRequired => Fault::Forbidden(words),
        Code::RateLimited => {
            Fault::RateLimited { words, retry_after: problem.retry_after.map_or(1, |after| after.as_secs().max(1)) }
        }
        Code::CircuitOpen | Code::VenueUnreachable | Code::TtlExceeded | Code::Internal | Code::InProgress => {
            Fault::Unavailable(words)
        }
        Code::MalformedEnvelope | Code::InvalidEnvelope | Code::UnsupportedMediaType | Code::StaleTimestamp => {
            Fault::invalid("message", words)
        }
        Code::UnsupportedProtocol => Fault::VersionNotSupported(words),
        Code::UnknownIntent => Fault::UnsupportedOperation(words),
        Code::PayloadTooLarge => Fault::Exhausted(words),
        Code::InvalidPayload if !intent.has_effect() => Fault::invalid("message.parts", words),
        Code::InvalidPayload
        | Code::VenueNotFound
        | Code::SlotUnavailable
        | Code::PaymentRequired
        | Code::PaymentDeclined
        | Code::PaymentLimitExceeded
            if intent.has_effect() =>
        {
            let mut message = Message::text(mint(), Role::Agent, words);
            let error = json!({"error": {"code": problem.code.name(), "message": problem.message}});
            message.parts.extend(Json::of(&error).ok().map(Part::data));
            return Ok(WireReply::SentTask(Box::new(task(mint().as_str(), TaskState::Rejected, Some(message))?)));
        }
        _ => Fault::Refused(Box::new(problem.into())),
    })
}

fn task(name: &str, state: TaskState, message: Option<Message>) -> Result<WireTask, Fault> {
    Ok(Task {
        id: TaskRef::parse(name).map_err(|fault| Fault::InvalidAgentResponse(fault.to_string()))?,
        context_id: None,
        status: TaskStatus { state, message, timestamp: None },
        metadata: None,
        history: Vec::new(),
        artifacts: Vec::new(),
    })
}

#[cfg(test)]
mod tests {
    use super::*;
    use sabir_proto::{FaultCode, Tenant};

    fn send(parts: Vec<Part>, skill: Option<&str>) -> SendMessage {
        let mut message = Message::text(MessageId::parse("m").unwrap(), Role::User, "");
        message.parts = parts;
        message.metadata = skill.map(|skill| Object::new(Json::of(&json!({"skillId": skill})).unwrap()).unwrap());
        SendMessage {
            tenant: Tenant::none(),
            message,
            configuration: SendConfiguration::default(),
            metadata: None,
            alias: None,
            wants_task: false,
        }
    }

    fn object(text: &str) -> Object {
        Object::new(Json::parse(text).unwrap()).unwrap()
    }

    fn mint() -> MessageId {
        MessageId::parse("minted").unwrap()
    }

    #[test]
    fn a_skill_is_an_intent_and_words_are_a_search() {
        let mut losses = Losses::new();
        let payload = object(r#"{"venue_id":"x"}"#);
        let confirm = send(vec![Part::data(payload.as_json().clone())], Some("booking.confirm"));
        assert_eq!(intent_and_payload(&confirm, &mut losses), Ok((Intent::BookingConfirm, payload.clone())));
        let words = send(vec![Part::text(" seafood ")], None);
        assert_eq!(
            intent_and_payload(&words, &mut losses),
            Ok((Intent::BookingSearch, object(r#"{"query":"seafood"}"#)))
        );
        let ping = send(vec![Part::text("hello")], Some("network.ping"));
        assert_eq!(intent_and_payload(&ping, &mut losses), Ok((Intent::NetworkPing, object("{}"))));
        assert!(losses.is_empty());
        let file = Part { content: Content::Raw(vec![1]), ..Part::text("") };
        intent_and_payload(&send(vec![file, Part::text("x")], None), &mut losses).unwrap();
        assert_eq!(losses.notes()[0].to_string(), "part: message.parts[0]");
        let nameless = send(vec![Part::data(payload.as_json().clone())], None);
        assert_eq!(intent_and_payload(&nameless, &mut losses).unwrap_err().code(), FaultCode::InvalidParams);
        let unknown = send(vec![Part::text("x")], Some("booking.cancel"));
        assert_eq!(intent_and_payload(&unknown, &mut losses).unwrap_err().code(), FaultCode::UnsupportedOperation);
    }

    #[test]
    fn a_booking_is_a_task_and_everything_else_a_message() {
        let found = answer_from_result(Intent::VenueList, &object(r#"{"count":0}"#), &mut mint).unwrap();
        assert!(matches!(found, WireReply::SentMessage(message) if message.parts.len() == 1));
        let booked = answer_from_result(Intent::BookingConfirm, &object(r#"{"booking_id":"b-1"}"#), &mut mint).unwrap();
        let WireReply::SentTask(task) = booked else { panic!("{booked:?}") };
        assert_eq!((task.id.to_string().as_str(), task.status.state), ("b-1", TaskState::Completed));
        assert_eq!(task.artifacts[0].artifact_id.as_str(), "booking");
        assert!(answer_from_result(Intent::BookingConfirm, &object("{}"), &mut mint).is_err());
    }

    #[test]
    fn a_refusal_is_what_it_means_to_the_caller() {
        let refuse = |intent, code| answer_from_problem(intent, Problem::new(code, "m"), &mut mint);
        let rejected = refuse(Intent::BookingConfirm, ProblemCode::SlotUnavailable).unwrap();
        assert!(
            matches!(&rejected, WireReply::SentTask(task) if task.status.state == TaskState::Rejected),
            "{rejected:?}"
        );
        for (code, expected) in [
            (ProblemCode::Unauthorized, FaultCode::Unauthenticated),
            (ProblemCode::TierRequired, FaultCode::Forbidden),
            (ProblemCode::RateLimited, FaultCode::RateLimited),
            (ProblemCode::CircuitOpen, FaultCode::Unavailable),
            (ProblemCode::UnknownIntent, FaultCode::UnsupportedOperation),
            (ProblemCode::IdempotencyConflict, FaultCode::Conflict),
        ] {
            assert_eq!(refuse(Intent::BookingConfirm, code).unwrap_err().code(), expected, "{code:?}");
        }
        assert_eq!(
            refuse(Intent::VenueList, ProblemCode::InvalidPayload).unwrap_err().code(),
            FaultCode::InvalidParams
        );
    }
}
