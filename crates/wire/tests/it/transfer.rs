//! A task that was handed over, as each reader sees it, byte for byte.

use sabir_proto::{
    Artifact, ArtifactId, ContextId, Event, FrozenEvent, FrozenTask, HANDOFF, HANDOFF_LITERAL, Message, MessageId,
    Part, Reply, Role, Seq, StatusUpdate, Task, TaskId, TaskRef, TaskState, TaskStatus, Timestamp, Transfer, View,
    WireTask,
};
use sabir_wire::{Dialect, HandoffSupport, Losses, Responder, v1};
use serde_json::{Value, json};

const ID: &str = "01980000-0000-7000-8000-000000000000";

fn transfer() -> Transfer {
    Transfer {
        agent_endpoint: "https://billing.example.com".into(),
        task_id: TaskRef::parse("task_xyz_billing").unwrap(),
        agent_name: None,
        reason: Some("A refund".into()),
        context_id: None,
        card_url: None,
        protocol_binding: None,
        transfer_id: "0198aaaa-0000-7000-8000-000000000001".into(),
        chain: Vec::new(),
        transferred_at: None,
        claim_secret: None,
        begun: false,
    }
}

fn status() -> TaskStatus {
    let mut message = Message::text(MessageId::parse("m").unwrap(), Role::Agent, transfer().description());
    transfer().add_to_message(&mut message);
    let timestamp = Some(Timestamp::from_millis(1_780_308_000_000));
    TaskStatus { state: TaskState::Transferred, message: Some(message), timestamp }
}

fn update() -> Event {
    let (task_id, context_id) = (TaskId::parse(ID).unwrap(), ContextId::parse("c").unwrap());
    Event::StatusUpdate(StatusUpdate { task_id, context_id, status: status(), metadata: None })
}

/// A task that has just been handed over.
fn task() -> FrozenTask {
    let mut task = Task {
        id: TaskId::parse(ID).unwrap(),
        context_id: ContextId::parse("c").unwrap(),
        status: TaskStatus { state: TaskState::Working, message: None, timestamp: None },
        metadata: None,
        history: vec![Message::text(MessageId::parse("m0").unwrap(), Role::User, "I want my money back")],
        artifacts: vec![Artifact::new(ArtifactId::parse("a").unwrap(), vec![Part::text("x")])],
    };
    task.apply(update(), None);
    FrozenTask::freeze(&task)
}

fn reply(activated: &[&str]) -> Reply<()> {
    let active: Vec<String> = activated.iter().map(|uri| (*uri).to_owned()).collect();
    HandoffSupport::of(&active).show(Reply::Task(task(), View::WHOLE))
}

fn in_v1(activated: &[&str], view: View) -> Value {
    let Reply::Task(task, _) = reply(activated) else { panic!("a task") };
    let mut out = Vec::new();
    v1::json::write_reply(&Reply::<()>::Task(task, view), &mut out);
    serde_json::from_slice(&out).unwrap()
}

fn told(activated: &[&str]) -> Value {
    let active: Vec<String> = activated.iter().map(|uri| (*uri).to_owned()).collect();
    let event = HandoffSupport::of(&active).event(FrozenEvent::freeze(Seq(3), &update()));
    serde_json::from_slice(&v1::json::event_bytes(&event)).unwrap()
}

fn target() -> Value {
    json!({
        "agent_endpoint": "https://billing.example.com",
        "task_id": "task_xyz_billing",
        "reason": "A refund",
        "transfer_id": "0198aaaa-0000-7000-8000-000000000001",
    })
}

#[test]
fn whoever_activated_the_extension_sees_it_completed_with_the_target_twice() {
    let shown = in_v1(&[HANDOFF], View::WHOLE);
    let said = json!({ "state": "TRANSFERRED", "transfer": target() });
    let words =
        "A refund. This task was handed over to https://billing.example.com, where it is task task_xyz_billing.";
    assert_eq!(
        shown["status"],
        json!({
            "state": "TASK_STATE_COMPLETED",
            "message": {
                "messageId": "m", "role": "ROLE_AGENT", "parts": [{ "text": words }],
                "metadata": { HANDOFF: said }, "extensions": [HANDOFF],
            },
            "timestamp": "2026-06-01T10:00:00.000Z",
        })
    );
    assert_eq!(shown["metadata"], json!({ HANDOFF: said }), "found however much of the history is shown");
    assert_eq!(told(&[HANDOFF])["statusUpdate"]["status"], shown["status"]);
}

#[test]
fn the_literal_form_has_the_state_and_the_target_as_members() {
    let shown = in_v1(&[HANDOFF_LITERAL, HANDOFF], View::WHOLE);
    assert_eq!((&shown["status"]["state"], &shown["status"]["transfer"]), (&json!("TRANSFERRED"), &target()));
    assert_eq!((&shown["history"][0]["messageId"], &shown["artifacts"][0]["artifactId"]), (&json!("m0"), &json!("a")));
    let cut = in_v1(&[HANDOFF_LITERAL], View { history: Some(0), artifacts: false });
    assert!(cut.get("history").is_none() && cut.get("artifacts").is_none(), "{cut}");
    let no_history = in_v1(&[HANDOFF_LITERAL], View { history: Some(0), artifacts: true });
    assert!(no_history.get("history").is_none() && no_history["artifacts"][0]["artifactId"] == "a", "{no_history}");
    let event = told(&[HANDOFF_LITERAL]);
    assert_eq!(event["statusUpdate"]["status"]["state"], "TRANSFERRED");
    assert_eq!(event["statusUpdate"]["status"]["transfer"], target());
}

#[test]
fn whoever_did_not_ask_never_sees_it_completed() {
    for shown in [in_v1(&[], View::WHOLE)["status"].clone(), told(&[])["statusUpdate"]["status"].clone()] {
        assert_eq!(shown["state"], "TASK_STATE_FAILED");
        let words = shown["message"]["parts"][0]["text"].as_str().unwrap();
        assert!(words.contains("https://billing.example.com") && words.contains(HANDOFF), "{words}");
    }
}

#[test]
fn every_older_dialect_says_the_same_with_its_own_words() {
    for dialect in [Dialect::V03, Dialect::V02, Dialect::V01, Dialect::Native, Dialect::Xpr] {
        for (activated, state) in [(&[HANDOFF][..], "completed"), (&[HANDOFF_LITERAL], "completed"), (&[], "failed")] {
            let body = Responder::new(dialect, Some("1".into())).answer(&reply(activated), &mut Losses::new()).unwrap();
            let body: Value = serde_json::from_slice(&body).unwrap();
            let task = &body["result"];
            assert_eq!(task["status"]["state"], state, "{dialect} {activated:?} {body}");
            assert!(body.to_string().contains("https://billing.example.com"), "{dialect}: {body}");
        }
    }
}

/// Both forms of a server are read as the same task.
#[test]
fn both_forms_are_read() {
    for activated in [HANDOFF, HANDOFF_LITERAL] {
        let read: WireTask = serde_json::from_value(in_v1(&[activated], View::WHOLE)).unwrap();
        assert_eq!(read.transfer(), Some(transfer()), "{activated}");
    }
    // The form of the proposal, without the extension.
    let bare = json!({ "id": "t", "status": { "state": "TRANSFERRED", "transfer": {
        "agent_endpoint": "https://billing.example.com", "task_id": "task_xyz_billing" } } });
    let read: WireTask = serde_json::from_value(bare).unwrap();
    assert_eq!(read.status.state, TaskState::Transferred);
    let found = read.transfer().unwrap();
    assert_eq!(
        (&*found.agent_endpoint, &*found.task_id.to_string()),
        ("https://billing.example.com", "task_xyz_billing")
    );
    let message = json!({ "messageId": "m", "role": "ROLE_USER", "parts": [{ "text": "hi" }],
        "transfer_context": { "originating_task_id": "t1", "state": { "city": "Oslo" } } });
    let message: Message = serde_json::from_value(message).unwrap();
    assert_eq!(message.extensions, [HANDOFF]);
    let context = &message.metadata.unwrap().get(HANDOFF).unwrap()["transfer_context"];
    assert_eq!(context["state"], json!({ "city": "Oslo" }));
}
