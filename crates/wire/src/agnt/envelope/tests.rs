use super::*;

const PING: &str = r#"{"protocol":"openclaw/a2a/v1","from":"my_agent_001","to":"network:agnt","intent":"network.ping","payload":{},"ttl_ms":5000,"timestamp":"2026-04-02T10:22:03Z"}"#;

fn refused(text: &str) -> (ProblemCode, String) {
    let EnvelopeError { problem, .. } = Envelope::read(text.as_bytes()).expect_err(text);
    (problem.code, problem.message)
}

fn with(member: &str) -> String {
    format!(r#"{{"from":"a","intent":"network.ping",{member}}}"#)
}

#[test]
fn the_published_first_call_is_read() {
    let envelope = Envelope::read(PING.as_bytes()).unwrap();
    assert_eq!((envelope.from.as_str(), envelope.to.as_str()), ("my_agent_001", "network:agnt"));
    assert_eq!(envelope.intent(), Ok(Intent::NetworkPing));
    assert_eq!(envelope.check_protocol(), Ok(()));
    assert_eq!(envelope.timestamp, NanoTimestamp::parse("2026-04-02T10:22:03Z"));
    assert_eq!((envelope.ttl_ms, envelope.payload.as_str()), (5000, "{}"));
}

#[test]
fn what_may_be_left_out_has_its_default() {
    let envelope = Envelope::read(br#"{"from_agent":"a","intent":"venue.list","timestamp":""}"#).unwrap();
    assert_eq!((envelope.protocol.as_str(), envelope.to.as_str(), envelope.ttl_ms), (PROTOCOL, NETWORK, 5000));
    assert_eq!((envelope.payload.as_str(), envelope.context.as_str()), ("{}", "{}"));
    assert_eq!(envelope.timestamp, None);
}

#[test]
fn what_is_written_is_read_again() {
    let mut envelope = Envelope::new("a", Intent::BookingConfirm, empty());
    envelope.payload = Object::new(Json::parse(r#"{"n":18446744073709551616,"f":1.0}"#).unwrap()).unwrap();
    envelope.context = Object::new(Json::parse(r#"{"k":"ü","tier":"enterprise"}"#).unwrap()).unwrap();
    envelope.timestamp = NanoTimestamp::parse("2026-04-02T10:22:03.000001Z");
    envelope.via =
        vec![EnvelopeHop { agent: "network:b".into(), at: 7, kid: "k".into(), ttl_ms: 900, sig: "00".repeat(32) }];
    assert_eq!(Envelope::read(envelope.write().as_bytes()), Ok(envelope));
}

#[test]
fn not_json_and_members_given_twice_are_malformed() {
    for text in ["", "[", "{\"from\":\"a\"", r#"{"from":"a","from":"b","intent":"network.ping"}"#, "NaN"] {
        assert_eq!(refused(text).0, ProblemCode::MalformedEnvelope, "{text}");
    }
    assert_eq!(refused(&with(r#""payload":{"a":1,"a":2}"#)).0, ProblemCode::MalformedEnvelope);
    assert_eq!(Envelope::read(b"{\"from\":\"\xff\"}").unwrap_err().problem.code, ProblemCode::MalformedEnvelope);
}

#[test]
fn every_member_is_held_to_its_type() {
    let long = "x".repeat(257);
    for member in [
        r#""ttlms":1"#,
        r#""ttl_ms":5000.0"#,
        r#""ttl_ms":"5000""#,
        r#""ttl_ms":true"#,
        r#""ttl_ms":0"#,
        r#""ttl_ms":-1"#,
        r#""ttl_ms":1e3"#,
        r#""ttl_ms":null"#,
        r#""payload":null"#,
        r#""payload":[]"#,
        r#""agent_context":null"#,
        r#""protocol":1"#,
        r#""to":"""#,
        r#""to":"a b""#,
        r#""to":"a\u0000""#,
        r#""timestamp":"yesterday""#,
        r#""timestamp":1775125323"#,
        r#""timestamp":"2026-04-02T10:22:03+02:00""#,
        r#""from_agent":"b""#,
        r#""via":{}"#,
        r#""via":[{"agent":"b"}]"#,
        &format!(r#""to":"{long}""#),
    ] {
        assert_eq!(refused(&with(member)).0, ProblemCode::InvalidEnvelope, "{member}");
    }
    for text in [r#"{"intent":"network.ping"}"#, r#"{"from":"a"}"#, "[]", "1"] {
        assert_eq!(refused(text).0, ProblemCode::InvalidEnvelope, "{text}");
    }
    for intent in ["ping", "Network.ping", "network.", ".ping", "network..ping", "network.1", "a.b c", "nétwork.ping"]
    {
        let text = format!(r#"{{"from":"a","intent":"{intent}"}}"#);
        assert_eq!(refused(&text).0, ProblemCode::InvalidEnvelope, "{intent}");
    }
}

#[test]
fn size_and_depth_have_limits() {
    let nested = format!("{}{}", "[".repeat(31), "]".repeat(31));
    assert_eq!(refused(&with(&format!(r#""payload":{{"a":{nested}}}"#))).0, ProblemCode::InvalidEnvelope);
    let deep = format!("{}{}", "[".repeat(30), "]".repeat(30));
    assert!(Envelope::read(with(&format!(r#""payload":{{"a":{deep}}}"#)).as_bytes()).is_ok());
    assert!(Envelope::read(with(r#""payload":{"a":"[[[[{{{{\"["}"#).as_bytes()).is_ok());
    let large = format!(r#""agent_context":{{"a":"{}"}}"#, "x".repeat(CONTEXT_BYTES_MAX));
    assert_eq!(refused(&with(&large)).0, ProblemCode::PayloadTooLarge);
}

#[test]
fn a_stranger_s_version_and_intent_are_errors_of_their_own() {
    let envelope = Envelope::read(with(r#""protocol":"agp/1""#).as_bytes()).unwrap();
    assert_eq!(envelope.check_protocol().unwrap_err().code, ProblemCode::UnsupportedProtocol);
    let envelope = Envelope::read(br#"{"from":"a","intent":"booking.cancel"}"#).unwrap();
    assert_eq!(envelope.intent().unwrap_err().code, ProblemCode::UnknownIntent);
}

#[test]
fn one_wrong_member_does_not_hide_whom_to_answer() {
    let text = r#"{"from":"a","to":"venue","intent":"network.ping","agent_context":{"c":1},"ttl_ms":9,"extra":1}"#;
    let EnvelopeError { head: known, .. } = Envelope::read(text.as_bytes()).unwrap_err();
    assert_eq!((known.from.as_deref(), known.to.as_deref()), (Some("a"), Some("venue")));
    assert_eq!(
        (known.intent.as_deref(), known.ttl_ms, known.context.as_str()),
        (Some("network.ping"), 9, r#"{"c":1}"#)
    );
    let EnvelopeError { head: known, .. } = Envelope::read(b"nonsense").unwrap_err();
    assert_eq!(*known, EnvelopeHead::default());
}
