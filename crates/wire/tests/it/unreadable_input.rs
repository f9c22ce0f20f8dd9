//! Input that cannot be read gets an error; it is never guessed at and never causes a panic.

use sabir_proto::{Fault, FaultCode, FrozenEvent, FrozenTask, Seq, TaskState, View};
use sabir_wire::pb::lf_a2a_v1 as pb;
use sabir_wire::v1::grpc::reply;

#[test]
fn a_damaged_record_is_an_internal_error() {
    let task = |json: &'static [u8], history_at, artifacts_at| {
        let task = FrozenTask { json: json.into(), state: TaskState::Working, history_at, artifacts_at };
        reply::task(&task, View { history: Some(1), artifacts: true }).unwrap_err().code()
    };
    for (json, history_at, artifacts_at) in [
        (&b"{}"[..], 1, 1),
        (b"", 0, 0),
        (b"{}", 9, 9),
        (b"{}", 2, 1),
        (br#"{"id":"x"}"#, 9, 9),
        (b"{,\"history\":}", 1, 12),
    ] {
        assert_eq!(task(json, history_at, artifacts_at), FaultCode::Internal);
    }
    let event = FrozenEvent { seq: Seq(1), state: None, json: (&b"{\"task\":{}}"[..]).into(), input: None };
    assert_eq!(event.to_wire(), None);
}

#[test]
fn a_state_that_nobody_knows_is_no_breach() {
    for (state, expected) in [(0, TaskState::Unspecified), (99, TaskState::Unspecified), (2, TaskState::Working)] {
        let status = pb::TaskStatus { state, ..Default::default() };
        let task = pb::Task { id: "t".into(), status: Some(status), ..Default::default() };
        assert_eq!(reply::read_task(task).unwrap().status.state, expected);
    }
}

#[test]
fn a_reply_that_breaks_the_rules_is_blamed_on_the_agent() {
    #[track_caller]
    fn check<T: std::fmt::Debug>(outcome: Result<T, Fault>, text: &str) {
        let Fault::InvalidAgentResponse(problem) = outcome.unwrap_err() else { panic!("blamed on somebody else") };
        assert!(problem.starts_with(text), "{problem}");
    }
    check(reply::read_event(pb::StreamResponse::default()), "has exactly one of");
    check(reply::read_sent(pb::SendMessageResponse::default()), "has exactly one of");
    check(reply::read_task(pb::Task::default()), "id: task id is empty");
    check(reply::read_push(pb::TaskPushNotificationConfig::default()), "taskId: ");
    check(reply::read_card(pb::AgentCard::default()), "capabilities: is required");

    let mut card = pb::AgentCard { capabilities: Some(pb::AgentCapabilities::default()), ..Default::default() };
    card.security_schemes.insert("new".into(), pb::SecurityScheme::default());
    check(reply::read_card(card), "securitySchemes.new: ");

    let task =
        pb::Task { id: "018f2b6e-7b3a-7cde-8f01-23456789abcd".into(), context_id: "c".into(), ..Default::default() };
    check(reply::read_task(task.clone()), "status: is required");
    check(reply::read_page(pb::ListTasksResponse { tasks: vec![task], ..Default::default() }), "tasks[0].status: ");
}
