mod late;

use super::answer::{TurnOrigin, from_reply};
use super::*;
use sabir_proto::{
    Artifact, ArtifactId, ContextId, FrozenTask, Reply, SendReply, Stamp, Task, TaskId, TaskState, TaskStatus,
    Timestamp, View,
};
use std::net::SocketAddr;

fn peer(address: &str, tls: bool, is_older_tls: bool) -> Peer {
    let address: SocketAddr = address.parse().unwrap();
    Peer { tls, is_older_tls, ..Peer::plain(address) }
}

#[test]
fn keys_go_over_tls_and_in_production_over_no_other_than_the_latest() {
    let code = |production, peer: &Peer| check_channel(production, peer).map_err(|problem| problem.code);
    let refused = Err(ProblemCode::TlsRequired);
    let (here, there) = ("127.0.0.1:9", "192.0.2.7:9");
    assert_eq!(code(false, &peer(here, false, false)), Ok(()));
    assert_eq!(code(false, &peer("[::1]:9", false, false)), Ok(()));
    assert_eq!(code(false, &peer(there, false, false)), refused);
    assert_eq!(code(true, &peer(here, false, false)), refused);
    assert_eq!(code(true, &peer(there, true, false)), Ok(()));
    assert_eq!(code(true, &peer(there, true, true)), refused);
    assert_eq!(code(false, &peer(there, true, true)), Ok(()));
}

#[test]
fn an_envelope_is_good_from_a_minute_before_its_time_to_five_after_it() {
    let at = |text: &str| NanoTimestamp::parse(text).unwrap();
    let sent = at("2026-04-02T10:22:03.5Z");
    let judge = |now: &str| check_time(Some(sent), at(now)).map_err(|problem| problem.code);
    let stale = Err(ProblemCode::StaleTimestamp);
    assert_eq!(judge("2026-04-02T10:27:03.5Z"), Ok(()));
    assert_eq!(judge("2026-04-02T10:27:03.500000001Z"), stale);
    assert_eq!(judge("2026-04-02T10:21:03.5Z"), Ok(()));
    assert_eq!(judge("2026-04-02T10:21:03.499999999Z"), stale);
    assert_eq!(check_time(None, sent), Ok(()));
    // The largest possible distance between two times.
    let ends = [NanoTimestamp::from_nanos(i64::MIN), NanoTimestamp::from_nanos(i64::MAX)];
    assert!(check_time(Some(ends[0]), ends[1]).is_err() && check_time(Some(ends[1]), ends[0]).is_err());
}

#[test]
fn the_time_for_an_answer_has_a_ceiling() {
    assert_eq!(budget(1), Duration::from_millis(1));
    assert_eq!(budget(15_001), TTL_MAX);
    assert_eq!(budget(u64::MAX), TTL_MAX);
    let long_ago = Instant::now().checked_sub(Duration::from_secs(3)).unwrap();
    assert_eq!(time_left(long_ago, 2999), Duration::ZERO);
    assert!(time_left(long_ago, 9000) > Duration::from_secs(5));
}

#[test]
fn only_the_exact_paths_are_the_envelopes() {
    assert_eq!(EnvelopePath::find("/a2a/v1"), Some(EnvelopePath::Envelope));
    assert_eq!(EnvelopePath::find("/a2a/v1/status"), Some(EnvelopePath::Status));
    for path in ["/a2a", "/a2a/v1/", "/a2a/v10", "/a2a/v1/status/", "/agents/network/a2a/v1", "/"] {
        assert_eq!(EnvelopePath::find(path), None, "{path}");
    }
}

fn data(text: &str) -> Part {
    Part::data(Json::parse(text).unwrap())
}

/// A task with this status message and this artifact.
fn task(state: TaskState, said: Vec<Part>, made: Vec<Part>) -> Reply<()> {
    let stamp = Stamp::first_of(Timestamp::from_millis(1_780_308_000_000));
    let asked = Message::text(MessageId::parse("m").unwrap(), Role::User, "x");
    let message = (!said.is_empty()).then(|| {
        let mut message = Message::text(MessageId::parse("a").unwrap(), Role::Agent, "");
        message.parts = said;
        message
    });
    let artifacts = match made.is_empty() {
        true => Vec::new(),
        false => vec![Artifact::new(ArtifactId::parse("booking").unwrap(), made)],
    };
    let task = Task {
        id: TaskId::new(stamp, 1),
        context_id: ContextId::new(stamp, 2),
        status: TaskStatus { state, message, timestamp: Some(stamp.time()) },
        metadata: None,
        history: vec![asked],
        artifacts,
    };
    Reply::Sent(SendReply::Task(FrozenTask::freeze(&task), View::WHOLE))
}

const REFUSED: &str = r#"{"error":{"code":"slot_unavailable","message":"taken","retryable":false}}"#;

#[test]
fn what_an_agent_made_is_the_result_and_whoever_asks_again_is_told_so() {
    let booked = || task(TaskState::Completed, vec![Part::text("Booked.")], vec![data(r#"{"booking_id":"b"}"#)]);
    let first = from_reply(Ok(booked()), TurnOrigin::ThisEnvelope);
    assert_eq!(first.result.as_ref().unwrap().as_str(), r#"{"booking_id":"b"}"#);
    assert!(first.is_first() && !first.replay);
    let again = from_reply(Ok(booked()), TurnOrigin::EarlierEnvelope);
    assert_eq!(again.result, first.result);
    assert!(again.replay && !again.is_first());
}

#[test]
fn an_error_as_data_is_a_refusal_wherever_it_stands() {
    let mut direct = Message::text(MessageId::parse("a").unwrap(), Role::Agent, "");
    direct.parts = vec![data(r#"{"error":{"code":"circuit_open","message":"m","retry_after_ms":1500}}"#)];
    let code = |reply: Reply<()>| {
        from_reply(Ok(reply), TurnOrigin::ThisEnvelope).result.map_err(|problem| (problem.code, problem.retry_after))
    };
    let after = Some(Duration::from_millis(1500));
    assert_eq!(code(Reply::Sent(SendReply::Message(Box::new(direct)))), Err((ProblemCode::CircuitOpen, after)));
    let rejected = task(TaskState::Rejected, vec![data(REFUSED)], Vec::new());
    assert_eq!(code(rejected), Err((ProblemCode::SlotUnavailable, None)));
    // A reply that is no valid answer is an internal error.
    for reply in [
        task(TaskState::Failed, vec![Part::text("it broke")], Vec::new()),
        task(TaskState::Rejected, vec![data("{}")], Vec::new()),
        task(TaskState::Working, Vec::new(), Vec::new()),
        task(TaskState::Completed, Vec::new(), Vec::new()),
        task(TaskState::Completed, Vec::new(), vec![data("[1]")]),
        Reply::Deleted,
    ] {
        assert_eq!(code(reply).unwrap_err().0, ProblemCode::Internal);
    }
    // An agent that does not know the network's formats answers with text.
    let worded = task(TaskState::Completed, Vec::new(), vec![Part::text("done")]);
    assert_eq!(from_reply(Ok(worded), TurnOrigin::ThisEnvelope).result.unwrap().as_str(), r#"{"text":"done"}"#);
    // A venue may have this name.
    let named = task(TaskState::Completed, Vec::new(), vec![data(r#"{"name":"error","error":null}"#)]);
    assert!(code(named).is_ok());
}

#[test]
fn the_retry_key_is_the_instant_and_not_its_spelling() {
    let read = |stamp: &str, to: &str| {
        let text = format!(
            r#"{{"from":"a","to":"{to}","intent":"booking.confirm","timestamp":"{stamp}","payload":{{"venue_id":"v"}}}}"#
        );
        let envelope = Envelope::read(text.as_bytes()).unwrap();
        retry_key(&envelope, envelope.timestamp.unwrap())
    };
    let key = read("2026-04-02T10:22:03Z", "network:agnt");
    assert_eq!(read("2026-04-02T10:22:03.000+00:00", "network:agnt"), key);
    // The addressee is part of the content: the same key with another addressee is a conflict.
    assert_eq!(read("2026-04-02T10:22:03Z", "elsewhere"), key);
    assert_ne!(read("2026-04-02T10:22:03.000001Z", "network:agnt"), key);
}
