//! Tests of the handoff statements and their limits.

use super::context::{MEMORY_BYTES_MAX, MEMORY_DEPTH_MAX};
use super::*;
use crate::{MessageId, Role};
use serde_json::{Map, json};

fn message() -> Message {
    Message::text(MessageId::parse("m").unwrap(), Role::Agent, "so long")
}

fn context() -> TransferContext {
    TransferContext { required: vec!["billing.refund".into()], transfer_id: "t-1".into(), ..TransferContext::default() }
}

fn hop(agent: &str, skills: &[&str]) -> TransferHop {
    let skills = skills.iter().map(|s| (*s).to_owned()).collect();
    TransferHop { agent: agent.into(), task_id: "t".into(), at: Timestamp::from_millis(0), skills }
}

#[test]
fn a_transfer_is_read_as_it_was_said_and_only_of_tasks_that_are_over() {
    let transfer = Transfer {
        agent_endpoint: "https://billing.example".into(),
        task_id: TaskRef::parse("there").unwrap(),
        agent_name: Some("billing".into()),
        reason: Some("billing".into()),
        context_id: None,
        card_url: None,
        protocol_binding: None,
        transfer_id: "t-1".into(),
        chain: vec![hop("https://a.example", &[])],
        transferred_at: Some(Timestamp::from_millis(1_780_308_000_000)),
        claim_secret: Some(HandoffClaim::from_bits([1, 2])),
        begun: false,
    };
    let mut said = message();
    transfer.add_to_message(&mut said);
    assert_eq!(said.extensions, [HANDOFF]);
    for state in [TaskState::Completed, TaskState::Transferred] {
        assert_eq!(Transfer::of(state, Some(&said), None), Some(transfer.clone()));
        assert_eq!(Transfer::of(state, None, said.metadata.as_ref()), Some(transfer.clone()));
    }
    assert_eq!(Transfer::of(TaskState::Working, Some(&said), None), None);
    assert_eq!(Transfer::of(TaskState::Completed, Some(&message()), None), None);
}

#[test]
fn a_message_that_creates_or_activates_is_read_as_it_was_said() {
    for incoming in [
        HandoffMessage::Create { context: Box::new(context()), hold: true },
        HandoffMessage::Create { context: Box::new(context()), hold: false },
        HandoffMessage::Activate(HandoffActivation { transfer_id: "t-1".into(), activate: true }),
    ] {
        let mut said = message();
        incoming.add_to_message(&mut said);
        assert_eq!(HandoffMessage::of(&said).unwrap().unwrap(), incoming);
    }
    assert!(HandoffMessage::of(&message()).is_none());
    let mut odd = message();
    odd.metadata = Some(with_member(None, HANDOFF, json!({ "transfer_context": { "state": [] } })));
    assert!(HandoffMessage::of(&odd).unwrap().is_err());
    odd.metadata = Some(with_member(None, HANDOFF, json!({ "transfer_context": { "later": 1 } })));
    assert!(HandoffMessage::of(&odd).unwrap().is_ok(), "members of later versions are passed over");
}

#[test]
fn a_context_keeps_to_its_limits() {
    assert_eq!(context().check(), Ok(()));
    assert_eq!(TransferContext::default().check(), Err(TransferFault::NothingRequired));
    let with = |state: Value| {
        let Value::Object(state) = state else { panic!("an object") };
        TransferContext { state, ..context() }.check()
    };
    assert!(matches!(with(json!({ "a": "x".repeat(MEMORY_BYTES_MAX) })), Err(TransferFault::Bytes(..))));
    let mut nested = json!(1);
    for _ in 0..MEMORY_DEPTH_MAX - 1 {
        nested = json!({ "a": nested });
    }
    assert_eq!(with(json!({ "a": nested })), Ok(()));
    assert_eq!(with(json!({ "a": { "a": nested } })), Err(TransferFault::Depth));
    assert_eq!(with(json!({ "api_key": "x" })), Err(TransferFault::Secret("state.api_key".into())));
    let told = with(json!({ "note": "Bearer abcdefghijkl" })).unwrap_err().to_string();
    assert!(!told.contains("abcdef"), "{told}");
}

#[test]
fn memory_is_kept_apart_and_outputs_win() {
    let map = |value: Value| value.as_object().cloned().unwrap_or_else(Map::new);
    let context = TransferContext {
        state: map(json!({ "city": "Oslo", "step": 1 })),
        output_keys: map(json!({ "step": 2 })),
        ..context()
    };
    assert_eq!(Value::Object(context.memory()), json!({ "transfer.city": "Oslo", "transfer.step": 2 }));
}

#[test]
fn chains_end_at_loops_and_at_their_depth() {
    let skills = |list: &[&str]| list.iter().map(|s| (*s).to_owned()).collect::<Vec<_>>();
    let chain = [hop("https://a.example/", &[]), hop("https://b.example:443/x", &["one"])];
    assert_eq!(check_chain(&chain, "https://c.example", &skills(&["one"]), DEPTH_DEFAULT), Ok(()));
    for again in ["https://A.example", "https://b.example/x/?q#f"] {
        let fault = check_chain(&chain, again, &skills(&["one"]), DEPTH_DEFAULT).unwrap_err();
        assert_eq!(fault.code(), "HANDOFF_LOOP", "{again}");
    }
    // The same agent again for another skill, at most once.
    assert_eq!(check_chain(&chain, "https://b.example/x", &skills(&["two"]), DEPTH_DEFAULT), Ok(()));
    let twice = [chain[1].clone(), hop("https://b.example/x", &["two"])];
    assert!(check_chain(&twice, "https://b.example/x", &skills(&["three"]), DEPTH_DEFAULT).is_err());
    let long: Vec<TransferHop> = (0..5).map(|n| hop(&format!("https://{n}.example"), &[])).collect();
    assert_eq!(check_chain(&long[..4], "https://z.example", &[], DEPTH_DEFAULT), Ok(()));
    let fault = check_chain(&long, "https://z.example", &[], DEPTH_DEFAULT).unwrap_err();
    assert_eq!(fault.code(), "HANDOFF_DEPTH_EXCEEDED");
    assert!(!same_agent("https://a.example/x", "https://a.example/y"));
    assert!(!same_agent("http://a.example", "https://a.example"));
}
