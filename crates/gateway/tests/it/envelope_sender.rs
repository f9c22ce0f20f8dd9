//! Envelopes to venues and other networks: signed, in time, and through the breakers.

use crate::agent::{RecordedRequest, StreamEnd, StubAction, StubServer};
use prometheus_client::registry::Registry;
use sabir_gateway::{
    BreakerState, Capacity, Egress, Envelope, EnvelopePeer, EnvelopeRoute, EnvelopeSender, Intent, Metrics,
    ProblemCode, Tls,
};
use sabir_guard::authn::agnt::{self, BindingRule, KeyDerivation, KeyRing};
use sabir_proto::{Json, Object, Secret, Timestamp};
use serde_json::{Value, json};
use std::sync::Arc;
use std::time::{Duration, SystemTime, UNIX_EPOCH};

const TIME: Duration = Duration::from_secs(3);

fn ring() -> Arc<KeyRing> {
    Arc::new(KeyRing::new(&Secret::new("k".repeat(32)), KeyDerivation::Raw).unwrap())
}

fn sender() -> EnvelopeSender {
    EnvelopeSender::new(Egress::public().and_loopback(), &Tls::default(), Metrics::for_venues()).unwrap()
}

fn direct(id: &str, url: &str) -> EnvelopePeer {
    let way = EnvelopeRoute::Direct {
        endpoint: format!("{url}/a2a/v1").parse().unwrap(),
        key: Some(Secret::new("agnt_live_x")),
    };
    EnvelopePeer { id: id.into(), route: way, key_ring: ring() }
}

fn confirm() -> Envelope {
    let payload = Object::new(Json::parse(r#"{"venue_id":"la-brisa","price":1.0}"#).unwrap()).unwrap();
    let mut envelope = Envelope::new("network:x", Intent::BookingConfirm, payload);
    envelope.to = "venue:la-brisa".into();
    envelope
}

fn envelope(payload: &Value) -> String {
    json!({"protocol": "openclaw/a2a/v1", "from": "venue:la-brisa", "to": "network:x", "intent": "booking.confirm",
        "payload": payload, "agent_context": {}, "ttl_ms": 5000, "timestamp": ""})
    .to_string()
}

fn says(status: u16, payload: &Value) -> StubAction {
    StubAction::Answer(status, "content-type: application/json\r\n".into(), envelope(payload))
}

fn error(code: &str) -> Value {
    json!({"error": {"code": code, "message": "m", "retryable": false}})
}

async fn venue(script: impl Fn(usize, &RecordedRequest) -> StubAction + Send + Sync + 'static) -> StubServer {
    StubServer::start(|_| String::new(), script).await
}

fn now() -> Timestamp {
    let since = SystemTime::now().duration_since(UNIX_EPOCH).unwrap();
    Timestamp::from_millis(i64::try_from(since.as_millis()).unwrap())
}

#[tokio::test]
async fn what_leaves_is_signed_for_this_recipient_and_intent_and_has_the_time_that_is_left() {
    let stub = venue(|_, _| says(200, &json!({"booking_id": "b-1"}))).await;
    let answered = sender().send(&direct("venue:la-brisa", &stub.url), confirm(), "network:x", TIME).await.unwrap();
    assert_eq!(answered.get("booking_id"), Some(json!("b-1")));
    let heard = &stub.requests()[0];
    assert_eq!(heard.header("authorization").as_deref(), Some("Bearer agnt_live_x"));
    let sent = heard.json();
    assert_eq!(
        (&sent["from"], &sent["to"], &sent["ttl_ms"]),
        (&json!("network:x"), &json!("venue:la-brisa"), &json!(3000))
    );
    let around = agnt::EnvelopeContext {
        intent: "booking.confirm",
        to: "venue:la-brisa",
        key: "k",
        binding: BindingRule::Required,
        sent_at_nanos: None,
    };
    let signed = agnt::verify(&sent["payload"].to_string(), around, &ring(), now()).unwrap();
    assert_eq!((signed.from.as_str(), signed.payload.get("price")), ("network:x", Some("1.0")));
}

#[tokio::test]
async fn a_venue_that_fails_is_left_alone_and_no_network_is_touched() {
    let stub = venue(|_, _| StubAction::Answer(500, String::new(), "oops".into())).await;
    let (envoy, peer) = (sender(), direct("venue:bad", &stub.url));
    for _ in 0..5 {
        let problem = envoy.send(&peer, confirm(), "network:x", TIME).await.unwrap_err();
        assert_eq!(problem.code, ProblemCode::VenueUnreachable);
        assert_eq!(problem.details.unwrap().get("hop"), Some(json!("venue:bad")));
    }
    let problem = envoy.send(&peer, confirm(), "network:x", TIME).await.unwrap_err();
    assert_eq!((problem.code, problem.message.as_str()), (ProblemCode::CircuitOpen, "circuit breaker is open"));
    assert!(problem.retry_after.is_some_and(|after| after.as_secs() > 290));
    assert_eq!(stub.requests().len(), 5);
    assert!(!envoy.is_callable("venue:bad") && envoy.is_callable("venue:other"));
    assert_eq!(envoy.shared_breaker_state(), BreakerState::Closed, "one broken venue takes nobody with it");
}

#[tokio::test]
async fn failures_of_three_venues_open_the_breaker_of_all() {
    let stub = venue(|_, _| StubAction::HangUp).await;
    let metrics = Metrics::for_venues();
    let mut registry = Registry::default();
    metrics.register(&mut registry);
    let envoy = EnvelopeSender::new(Egress::public().and_loopback(), &Tls::default(), metrics).unwrap();
    for id in ["a", "b", "a", "b", "c"] {
        envoy.send(&direct(id, &stub.url), confirm(), "network:x", TIME).await.unwrap_err();
    }
    assert_eq!(envoy.shared_breaker_state(), BreakerState::Open);
    let refused = envoy.send(&direct("d", &stub.url), confirm(), "network:x", TIME).await.unwrap_err();
    assert_eq!((refused.code, stub.requests().len()), (ProblemCode::CircuitOpen, 5));
    let mut text = String::new();
    prometheus_client::encoding::text::encode(&mut text, &registry).unwrap();
    for line in ["agnt_a2a_cb_opened_total 1", "agnt_a2a_venue_cb_opened_total 0", "agnt_a2a_cb_state 2"] {
        assert!(text.contains(line), "{line}: {text}");
    }
}

#[tokio::test]
async fn a_refusal_is_an_answer_and_so_is_word_of_somebody_behind_them() {
    for (status, code, told) in [
        (409, "slot_unavailable", ProblemCode::SlotUnavailable),
        (401, "unauthorized", ProblemCode::Unauthorized),
        (502, "venue_unreachable", ProblemCode::VenueUnreachable),
        (503, "circuit_open", ProblemCode::CircuitOpen),
        (418, "teapot", ProblemCode::InvalidPayload),
    ] {
        let stub = venue(move |_, _| says(status, &error(code))).await;
        let (envoy, peer) = (sender(), direct("v", &stub.url));
        for _ in 0..6 {
            assert_eq!(envoy.send(&peer, confirm(), "n", TIME).await.unwrap_err().code, told, "{code}");
        }
        assert_eq!(stub.requests().len(), 6, "{code} opens no breaker");
    }
}

#[tokio::test]
async fn a_caller_in_a_hurry_trips_nothing() {
    let stub = venue(|_, _| StubAction::Stream(vec![], StreamEnd::Silence)).await;
    let (envoy, peer) = (sender(), direct("v", &stub.url));
    for _ in 0..6 {
        let late = envoy.send(&peer, confirm(), "n", Duration::from_millis(20)).await.unwrap_err();
        assert_eq!(late.code, ProblemCode::TtlExceeded);
    }
    assert!(envoy.is_callable("v"));
    assert!(EnvelopeSender::time_for_peer(Duration::from_millis(50)).is_err());
    assert_eq!(EnvelopeSender::time_for_peer(Duration::from_millis(51)), Ok(Duration::from_millis(1)));
}

#[tokio::test]
async fn an_answer_under_a_wrong_signature_is_the_venues_failure() {
    let stub = venue(|_, _| says(200, &json!({"booking_id": "b", "_sig": "00".repeat(32), "_ts": 1}))).await;
    let (envoy, peer) = (sender(), direct("v", &stub.url));
    for _ in 0..5 {
        let problem = envoy.send(&peer, confirm(), "n", TIME).await.unwrap_err();
        assert_eq!(problem.code, ProblemCode::VenueUnreachable);
    }
    assert!(!envoy.is_callable("v"));
}

#[tokio::test]
async fn an_inbox_takes_what_is_signed_and_gives_a_receipt() {
    let stub = venue(|number, _| match number {
        0 => StubAction::Answer(202, String::new(), r#"{"message_id":"m-1"}"#.into()),
        1 => StubAction::Answer(200, String::new(), "queued".into()),
        _ => StubAction::Answer(503, String::new(), String::new()),
    })
    .await;
    let way =
        EnvelopeRoute::ClawPulse { gateway: format!("{}/base", stub.url).parse().unwrap(), key: Secret::new("cp-key") };
    let (envoy, peer) = (sender(), EnvelopePeer { id: "venue:la-brisa".into(), route: way, key_ring: ring() });
    let receipt = envoy.send(&peer, confirm(), "platform", TIME).await.unwrap();
    assert_eq!(receipt.get("message_id"), Some(json!("m-1")));
    let heard = &stub.requests()[0];
    assert!(heard.line.starts_with("POST /base/api/agents/message"), "{}", heard.line);
    assert_eq!(heard.header("x-api-key").as_deref(), Some("cp-key"));
    let sent = heard.json();
    assert_eq!((&sent["to"], &sent["from"]), (&json!("venue:la-brisa"), &json!("platform")));
    assert_eq!((&sent["priority"], &sent["payload"]["_from"]), (&json!("normal"), &json!("platform")));
    assert_eq!(envoy.send(&peer, confirm(), "platform", TIME).await.unwrap().as_str(), "{}");
    for _ in 0..5 {
        envoy.send(&peer, confirm(), "platform", TIME).await.unwrap_err();
    }
    assert_eq!(envoy.shared_breaker_state(), BreakerState::Open, "the gateway is on everybody's way");
}

#[tokio::test]
async fn addresses_that_may_not_be_called_are_not_and_nothing_is_said_about_them() {
    let stub = venue(|_, _| says(200, &json!({}))).await;
    let envoy = EnvelopeSender::new(Egress::public(), &Tls::default(), Metrics::for_venues()).unwrap();
    let problem = envoy.send(&direct("v", &stub.url), confirm(), "n", TIME).await.unwrap_err();
    assert_eq!(problem.code, ProblemCode::VenueUnreachable);
    assert!(!problem.message.contains("127.0.0.1"), "{problem:?}");
    assert!(stub.requests().is_empty());
}

#[tokio::test]
async fn an_answer_without_room_fails_alone_and_is_nobodys_fault() {
    let large = "x".repeat(1 << 20);
    let stub = venue(move |number, _| match number {
        6 => says(200, &json!({"booking_id": "b-1"})),
        _ => says(200, &json!({"booking_id": "b-1", "notes": large})),
    })
    .await;
    let (envoy, peer) = (sender().with_answer_capacity(Capacity::new(1 << 20)), direct("venue:la-brisa", &stub.url));
    for _ in 0..6 {
        let problem = envoy.send(&peer, confirm(), "network:x", TIME).await.unwrap_err();
        assert_eq!(problem.code, ProblemCode::VenueUnreachable, "{problem:?}");
    }
    assert!(envoy.send(&peer, confirm(), "network:x", TIME).await.is_ok(), "it is not left alone for that");
}
