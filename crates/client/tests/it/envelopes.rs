//! Envelopes of a booking network: what is retried, and what stays the same in a retry.

use crate::stub::{RecordedRequest, StubAction, StubServer, client};
use sabir_client::envelope::{
    EnvelopeError, EnvelopeKey, EnvelopeSender, EnvelopeTransport, Intent, KeyDerivation, Problem, ProblemCode,
};
use sabir_client::{Error, Secret};
use sabir_proto::{Json, Object};
use sabir_wire::agnt::{self, Envelope, NanoTimestamp};
use std::sync::Arc;
use std::time::Duration;

fn object(text: &str) -> Object {
    Object::new(Json::parse(text).unwrap()).unwrap()
}

fn confirm() -> Envelope {
    Envelope::new("", Intent::BookingConfirm, object(r#"{"venue_id":"la-brisa","party_size":2}"#))
}

fn now() -> NanoTimestamp {
    NanoTimestamp::parse("2026-04-02T10:22:03Z").unwrap()
}

fn read(heard: &RecordedRequest) -> Envelope {
    Envelope::read(heard.body.as_bytes()).unwrap()
}

fn refuse(heard: &RecordedRequest, code: ProblemCode) -> StubAction {
    let text = agnt::write_refusal(&read(heard).head(), &Problem::new(code, "m"), "network:x", now());
    StubAction::Answer(code.http(), "content-type: application/json\r\n".into(), text)
}

fn answer(heard: &RecordedRequest) -> StubAction {
    let text = agnt::write_answer(&read(heard).head(), &object(r#"{"booking_id":"b-1","status":"pending"}"#), now());
    StubAction::Answer(200, "content-type: application/json\r\n".into(), text)
}

async fn network(script: impl Fn(usize, &RecordedRequest) -> StubAction + Send + Sync + 'static) -> StubServer {
    StubServer::start(|_| String::new(), script).await
}

fn sender(stub: &StubServer) -> EnvelopeSender {
    let at = format!("{}/a2a/v1", stub.url).parse().unwrap();
    EnvelopeSender::new(EnvelopeTransport::from_client(&client().build().unwrap()), at, "my_agent_001")
        .with_key(Secret::new("agnt_test_k"))
}

#[tokio::test]
async fn what_passes_is_waited_out_with_the_same_timestamp_and_another_signature() {
    let stub = network(|number, heard| match number {
        0 => refuse(heard, ProblemCode::CircuitOpen),
        1 => StubAction::HangUp,
        2 => StubAction::Answer(502, String::new(), "<html>".into()),
        _ => answer(heard),
    })
    .await;
    let key = EnvelopeKey::new(&Secret::new("k".repeat(32)), KeyDerivation::Raw).unwrap();
    let answered = sender(&stub).with_signing(Arc::new(key)).send(confirm()).await.unwrap();
    assert_eq!(answered.payload, object(r#"{"booking_id":"b-1","status":"pending"}"#));
    let heard = stub.requests();
    assert_eq!(heard.len(), 4);
    let sent: Vec<Envelope> = heard.iter().map(read).collect();
    assert_eq!(heard[0].header("authorization").as_deref(), Some("Bearer agnt_test_k"));
    assert_eq!((sent[0].from.as_str(), sent[0].protocol.as_str()), ("my_agent_001", "openclaw/a2a/v1"));
    for again in &sent[1..] {
        assert_eq!(again.timestamp, sent[0].timestamp);
        assert_ne!(again.payload.get("_nonce"), sent[0].payload.get("_nonce"));
        assert_eq!(again.payload.get("venue_id"), sent[0].payload.get("venue_id"));
    }
}

#[tokio::test]
async fn a_refusal_for_good_is_not_asked_for_twice() {
    let stub = network(|_, heard| refuse(heard, ProblemCode::SlotUnavailable)).await;
    let refused = sender(&stub).send(confirm()).await.unwrap_err();
    assert!(matches!(&refused, EnvelopeError::Refused(p) if p.code == ProblemCode::SlotUnavailable), "{refused:?}");
    assert_eq!(stub.requests().len(), 1);
}

#[tokio::test]
async fn a_long_stay_away_is_left_to_the_caller() {
    let stub = network(|_, heard| match refuse(heard, ProblemCode::RateLimited) {
        StubAction::Answer(status, headers, body) => {
            StubAction::Answer(status, headers + "retry-after: 3600\r\n", body)
        }
        other => other,
    })
    .await;
    let refused = sender(&stub).send(confirm()).await.unwrap_err();
    assert_eq!(refused.retry_after(), Some(Duration::from_secs(3600)));
    assert_eq!(stub.requests().len(), 1);
}

#[tokio::test]
async fn an_answer_that_does_not_come_ends_with_its_time() {
    let stub = network(|_, _| StubAction::Stream(vec![], crate::stub::StreamEnd::Silence)).await;
    let post = EnvelopeTransport::from_client(&client().build().unwrap());
    let at = format!("{}/a2a/v1", stub.url).parse().unwrap();
    let late = post.exchange(&at, None, &confirm(), Duration::from_millis(100)).await.unwrap_err();
    assert!(matches!(late, EnvelopeError::Transport(Error::Timeout { .. })), "{late:?}");
    assert_eq!(Problem::from(late).code, ProblemCode::TtlExceeded);
}

#[tokio::test]
async fn whoever_brings_a_timestamp_repeats_what_was_sent_with_it() {
    let stub = network(|_, heard| answer(heard)).await;
    let envelope = Envelope { timestamp: Some(now()), ..confirm() };
    sender(&stub).send(envelope).await.unwrap();
    assert_eq!(stub.requests()[0].json()["timestamp"], "2026-04-02T10:22:03.000000Z");
    assert_eq!(stub.requests()[0].json()["payload"], serde_json::json!({"venue_id": "la-brisa", "party_size": 2}));
}

#[tokio::test]
async fn a_network_is_an_agent_whose_skills_are_its_intents() {
    let stub = network(|_, heard| {
        if heard.line.starts_with("GET /a2a/v1/status") {
            let status = serde_json::json!({
                "status": "ok", "protocol": "openclaw/a2a/v1", "network": "network:x", "network_version": "2.1",
                "intents": ["network.ping", "booking.search", "booking.confirm", "booking.dream"]
            });
            return StubAction::Answer(200, "content-type: application/json\r\n".into(), status.to_string());
        }
        match heard.json()["payload"]["venue_id"].as_str() {
            Some("full") => refuse(heard, ProblemCode::SlotUnavailable),
            Some("shut") => refuse(heard, ProblemCode::CircuitOpen),
            _ => answer(heard),
        }
    })
    .await;
    let credentials = sabir_client::Credentials { bearer: Some(Secret::new("agnt_test_k")), ..Default::default() };
    let client = client().credentials(credentials).build().unwrap();
    let agent = client.connect(&format!("{}/a2a/v1?from=me", stub.url).parse().unwrap()).await.unwrap();
    assert_eq!((agent.card().name.as_str(), agent.binding().name()), ("network:x", "AGNT"));
    let skills: Vec<&str> = agent.card().skills.iter().map(|skill| skill.id.as_str()).collect();
    assert_eq!(skills, ["network.ping", "booking.search", "booking.confirm"]);
    let order = |venue: &str| {
        let mut request = sabir_client::text_message("");
        let payload = Json::of(&serde_json::json!({"venue_id": venue})).unwrap();
        request.message.parts = vec![sabir_proto::Part::data(payload)];
        request.message.metadata = Some(object(r#"{"skillId":"booking.confirm"}"#));
        request
    };
    let said = agent.send(order("la-brisa")).await.unwrap();
    assert!(said.json().contains("TASK_STATE_COMPLETED") && said.json().contains("b-1"), "{}", said.json());
    let refused = agent.send(order("full")).await.unwrap();
    assert!(refused.json().contains("TASK_STATE_REJECTED") && refused.json().contains("slot_unavailable"));
    let shut = order("shut");
    let first = agent.send(shut.clone()).await.unwrap_err();
    assert!(
        matches!(&first, Error::Fault { fault, .. } if fault.code() == sabir_proto::FaultCode::Unavailable),
        "{first:?}"
    );
    agent.send(shut).await.unwrap_err();
    agent.send(sabir_client::text_message("seafood")).await.unwrap();
    let heard: Vec<RecordedRequest> =
        stub.requests().into_iter().filter(|heard| heard.line.starts_with("POST")).collect();
    assert!(heard[0].line.starts_with("POST /a2a/v1 "), "{}", heard[0].line);
    assert_eq!(heard[0].header("authorization").as_deref(), Some("Bearer agnt_test_k"));
    let sent: Vec<Envelope> = heard.iter().map(read).collect();
    assert_eq!((sent[0].from.as_str(), sent[0].to.as_str()), ("me", "network:x"));
    assert_eq!(sent[2].timestamp, sent[3].timestamp, "the same message, sent again");
    assert!(sent[2].timestamp > sent[1].timestamp);
    assert_eq!((sent[4].intent.as_str(), &sent[4].payload), ("booking.search", &object(r#"{"query":"seafood"}"#)));
    let none = agent.task(&sabir_proto::TaskRef::parse("b-1").unwrap()).await.unwrap_err();
    assert!(none.to_string().contains("no tasks"), "{none}");
}
