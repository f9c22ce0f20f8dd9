//! Handoffs, and every half-way point of them: a crash is a runtime that is dropped and a log that is opened again.

mod strangers;
mod world;

use sabir_engine::agent::HandoffRequest;
use sabir_engine::{Agent, CancelOutcome, CanceledTask, Context, Ending, Failure};
use sabir_gateway::handoff::{HandoffAgent, UnawareCallers};
use sabir_proto::{Fault, Stamp, TaskId, TaskState};
use serde_json::json;
use std::sync::Arc;
use std::time::Duration;
use world::{CallFault, HandoffWorld, SentContext, refund};

#[test]
fn a_task_leaves_and_the_other_agent_begins_only_then() {
    let world = HandoffWorld::new();
    let (_runtime, task) = world.keep(async |a| a.send("my money", true).await.rest().await);
    assert_eq!(task.status.state, TaskState::Transferred);
    let transfer = task.transfer().unwrap();
    assert_eq!((transfer.agent_name.as_deref(), &*transfer.agent_endpoint), (Some("billing"), "https://b.example"));
    assert_eq!(transfer.chain.len(), 1);
    let theirs = world.b_settled_task(&transfer.task_id);
    assert_eq!((theirs.status.state, world.b_tasks()), (TaskState::Completed, 1));
    let from = theirs.metadata.unwrap().get(sabir_proto::HANDOFF).unwrap()["transferred_from"].clone();
    assert_eq!(from["task_id"], json!(task.id.to_string()));
    assert_eq!(world.outcomes(), ["committed"]);
}

#[test]
fn before_the_intent_nothing_has_happened() {
    let world = HandoffWorld::new();
    world.tricks([CallFault::HangFace]);
    let id = world.crash_when(CallFault::HangFace, async |a| a.send("my money", true).await.id);
    assert_eq!(world.b_tasks(), 0);
    // Its agent begins again, and its caller still follows handoffs.
    let task = world.run(async |a| a.recovered(id).await.rest().await);
    assert_eq!((task.status.state, world.b_tasks()), (TaskState::Transferred, 1));
}

#[test]
fn a_crash_before_the_answer_sends_the_same_again() {
    for trick in [CallFault::HangBefore, CallFault::HangAfter] {
        let world = HandoffWorld::new();
        world.tricks([trick]);
        let id = world.crash_when(trick, async |a| a.send("my money", true).await.id);
        let made = world.b_tasks();
        assert_eq!(made, usize::from(trick == CallFault::HangAfter));
        let (_runtime, task) = world.keep(async |a| a.recovered(id).await.rest().await);
        assert_eq!((task.status.state, world.b_tasks()), (TaskState::Transferred, 1), "{trick:?}");
        let theirs = world.b_settled_task(&task.transfer().unwrap().task_id);
        assert_eq!(theirs.status.state, TaskState::Completed);
        assert_eq!(world.outcomes(), ["committed"], "booked once, whatever crashed");
    }
}

#[test]
fn a_lost_answer_is_asked_for_again() {
    let world = HandoffWorld::new();
    world.tricks([CallFault::LoseRequest, CallFault::LoseAnswer]);
    let task = world.run(async |a| a.send("my money", true).await.rest().await);
    assert_eq!((task.status.state, world.b_tasks()), (TaskState::Transferred, 1));
}

#[test]
fn a_crash_before_the_activation_is_made_up_for() {
    let world = HandoffWorld::new();
    world.tricks([CallFault::Fine, CallFault::HangBefore]);
    let id = world.crash_when(CallFault::HangBefore, async |a| a.send("my money", true).await.id);
    let (_runtime, task) = world.keep(async |a| a.recovered(id).await.rest().await);
    assert_eq!(task.status.state, TaskState::Transferred);
    let theirs = world.b_settled_task(&task.transfer().unwrap().task_id);
    assert_eq!((theirs.status.state, world.b_tasks()), (TaskState::Completed, 1));
}

#[test]
fn an_activation_that_gets_lost_is_said_again() {
    let world = HandoffWorld::new();
    world.tricks([CallFault::Fine, CallFault::LoseRequest, CallFault::LoseAnswer]);
    let (_runtime, task) = world.keep(async |a| a.send("my money", true).await.rest().await);
    let theirs = world.b_settled_task(&task.transfer().unwrap().task_id);
    assert_eq!(theirs.status.state, TaskState::Completed);
}

#[test]
fn the_callers_first_look_activates_too() {
    let world = HandoffWorld::new();
    world.tricks([CallFault::Fine, CallFault::HangBefore]);
    let (_runtime, task) = world.keep(async |a| a.send("my money", true).await.rest().await);
    let id = task.transfer().unwrap().task_id;
    assert_eq!(world.b_state(&id), TaskState::Submitted, "held");
    world.b_get(&id);
    assert_eq!(world.b_settled_task(&id).status.state, TaskState::Completed);
}

#[test]
fn a_sender_that_never_comes_back_leaves_no_work_behind() {
    let world = HandoffWorld::holding_for(Duration::from_millis(200));
    world.tricks([CallFault::HangAfter]);
    world.crash_when(CallFault::HangAfter, async |a| a.send("my money", true).await.id);
    let theirs = world.b_only_task();
    assert_eq!(theirs.status.state, TaskState::Canceled);
    assert!(theirs.artifacts.is_empty(), "nothing was done");
}

#[test]
fn a_refusal_leaves_the_task_here_and_says_why() {
    let world = HandoffWorld::new();
    world.tricks([CallFault::Refuse]);
    let task = world.run(async |a| a.send("my money", true).await.rest().await);
    assert_eq!(task.status.state, TaskState::Failed);
    let words = task.status.message.unwrap().joined_text();
    assert!(words.contains("not today"), "{words}");
    assert_eq!(world.outcomes(), ["refused"]);
}

#[test]
fn a_peer_that_holds_nothing_gets_the_task_once_and_no_other_words() {
    let world = HandoffWorld::new();
    world.without_holds();
    let (_runtime, task) = world.keep(async |a| a.send("my money", true).await.rest().await);
    assert_eq!((task.status.state, world.b_tasks()), (TaskState::Transferred, 1));
    assert_eq!(world.b_settled_task(&task.transfer().unwrap().task_id).status.state, TaskState::Completed);
    // If the peer had asked something, an activation would be taken for the answer. None is sent after a restart
    // either.
    world.run(async |a| a.recovered(task.id).await.rest().await);
    assert_eq!(world.b_heard(), ["my money"]);
}

#[test]
fn what_a_peer_that_holds_nothing_may_have_begun_is_not_begun_again() {
    let world = HandoffWorld::new();
    world.without_holds();
    world.tricks([CallFault::LoseRequest, CallFault::LoseAnswer]);
    let task = world.run(async |a| a.send("my money", true).await.rest().await);
    assert_eq!((task.status.state, world.b_heard()), (TaskState::Failed, vec!["my money".to_owned()]));
    let words = task.status.message.unwrap().joined_text();
    assert!(words.contains("not known"), "{words}");
    // Nor after a crash.
    let world = HandoffWorld::new();
    world.without_holds();
    world.tricks([CallFault::HangAfter]);
    let id = world.crash_when(CallFault::HangAfter, async |a| a.send("my money", true).await.id);
    let task = world.run(async |a| a.recovered(id).await.rest().await);
    assert_eq!((task.status.state, world.b_heard().len()), (TaskState::Failed, 1));
    assert_eq!(world.outcomes(), ["unknown"]);
}

#[test]
fn whoever_says_that_it_takes_none_gets_none() {
    let world = HandoffWorld::new();
    world.without_handoffs();
    let task = world.run(async |a| a.send("my money", true).await.rest().await);
    assert_eq!((task.status.state, world.b_heard().len()), (TaskState::Failed, 0));
    assert_eq!(world.outcomes(), ["refused"]);
}

#[test]
fn nobody_is_sent_where_nobody_follows() {
    for (looks, made) in [(0, 0), (1, 1)] {
        let world = HandoffWorld::new();
        world.insecure_after(looks);
        let (_runtime, task) = world.keep(async |a| a.send("my money", true).await.rest().await);
        assert_eq!((task.status.state, world.b_tasks()), (TaskState::Failed, made));
        assert!(task.status.message.unwrap().joined_text().contains("without TLS"));
        assert_eq!(world.outcomes(), ["insecure"]);
        if made > 0 {
            assert_eq!(world.b_only_task().status.state, TaskState::Canceled);
        }
    }
    // A caller that does not follow is shown the work all the same.
    let world = HandoffWorld::new();
    world.insecure_after(0);
    let task = world.run(async |a| a.send("my money", false).await.rest().await);
    assert_eq!(task.status.state, TaskState::Completed);
}

#[test]
fn what_is_relayed_is_told_once_across_turns() {
    let mut world = HandoffWorld::new();
    world.relayed = Arc::new(world::AskingAgent);
    let task = world.run(async |a| {
        let sent = a.send("my money", false).await;
        let asked = sent.rest().await;
        assert_eq!(asked.status.state, TaskState::InputRequired);
        sent.say("the first").await.unwrap();
        sent.rest().await
    });
    assert_eq!(task.status.state, TaskState::Completed);
    assert_eq!(task.status.message.as_ref().unwrap().joined_text(), "the first");
    let made: Vec<String> = task.artifacts.iter().map(|made| format!("{:?}", made.parts)).collect();
    assert!(made.len() == 1 && made[0].matches("\"one two\"").count() == 1, "{made:?}");
    for told in ["looking", "one "] {
        assert_eq!(world.events(task.id, told), 1, "{told}");
    }
    assert_eq!(world.outcomes(), ["relayed"]);
}

#[test]
fn a_cancel_before_the_commit_wins_on_both_sides() {
    let world = HandoffWorld::new();
    world.tricks([CallFault::HangAfter]);
    let (_runtime, task) = world.keep(async |a| {
        let sent = a.send("my money", true).await;
        world.reached(CallFault::HangAfter).await;
        assert!(matches!(sent.say("quickly").await, Err(Fault::UnsupportedOperation(_))), "one handoff at a time");
        sent.cancel().await.unwrap();
        sent.rest().await
    });
    assert_eq!(task.status.state, TaskState::Canceled);
    assert_eq!(world.b_only_task().status.state, TaskState::Canceled);
}

#[test]
fn after_the_commit_it_is_the_other_sides_to_cancel_and_to_talk_to() {
    let world = HandoffWorld::new();
    world.run(async |a| {
        let sent = a.send("my money", true).await;
        let task = sent.rest().await;
        assert!(matches!(sent.cancel().await, Err(Fault::TaskNotCancelable { .. })));
        match sent.say("hello?").await {
            Err(Fault::TaskTransferred { transfer, .. }) => assert_eq!(Some(*transfer), task.transfer()),
            other => panic!("{other:?}"),
        }
    });
}

#[test]
fn a_card_that_changed_meanwhile_aborts() {
    let world = HandoffWorld::new();
    world.tricks([CallFault::ForgetSkills]);
    let (_runtime, task) = world.keep(async |a| a.send("my money", true).await.rest().await);
    assert_eq!(task.status.state, TaskState::Failed);
    let data = task.status.message.unwrap();
    assert!(format!("{data:?}").contains("CAPABILITY_SCOPE_EXCEEDED"), "{data:?}");
    assert_eq!(world.b_only_task().status.state, TaskState::Canceled);
}

#[test]
fn what_is_not_ours_to_give_is_not_given() {
    for (order, code) in [
        (HandoffRequest { required: vec!["billing.delete".into()], ..refund() }, "CAPABILITY_SCOPE_EXCEEDED"),
        (HandoffRequest { required: vec!["triage".into()], ..refund() }, "CAPABILITY_SCOPE_EXCEEDED"),
        (HandoffRequest { required: Vec::new(), ..refund() }, "TRANSFER_INVALID"),
        (
            HandoffRequest { state: json!({"api_key": "x"}).as_object().cloned().unwrap(), ..refund() },
            "TRANSFER_INVALID",
        ),
        (HandoffRequest { to: "stranger".into(), ..refund() }, "stranger"),
    ] {
        let world = HandoffWorld::giving(order);
        let task = world.run(async |a| a.send("my money", true).await.rest().await);
        assert_eq!((task.status.state, world.b_tasks()), (TaskState::Failed, 0));
        let words = format!("{:?}", task.status.message);
        assert!(words.contains(code), "{code}: {words}");
    }
}

#[test]
fn chains_end_where_they_began_and_when_they_are_long() {
    for (said, code) in [
        (SentContext::Through(&["https://b.example"]), "HANDOFF_LOOP"),
        (
            SentContext::Through(&["https://1.example", "https://2.example", "https://3.example", "https://4.example"]),
            "HANDOFF_DEPTH_EXCEEDED",
        ),
        (SentContext::Granting(&["triage"]), "CAPABILITY_SCOPE_EXCEEDED"),
    ] {
        // Whether the caller follows or gets the work shown here.
        for follows in [true, false] {
            let world = HandoffWorld::new();
            let task = world.run(async |a| a.send_as(said, follows).await.rest().await);
            assert_eq!((task.status.state, world.b_tasks()), (TaskState::Failed, 0), "{follows}");
            assert!(format!("{:?}", task.status.message).contains(code), "{code}: {:?}", task.status);
            assert_eq!(world.outcomes(), [code]);
        }
    }
}

#[test]
fn a_caller_that_does_not_follow_never_sees_it_completed_for_nothing() {
    for (unaware, state) in [
        (UnawareCallers::Relay, TaskState::Completed),
        (UnawareCallers::Ask, TaskState::InputRequired),
        (UnawareCallers::Fail, TaskState::Failed),
    ] {
        let world = HandoffWorld::unaware(unaware);
        let task = world.run(async |a| a.send("my money", false).await.rest().await);
        assert_eq!(task.status.state, state, "{unaware:?}");
        let words = task.status.message.as_ref().map(sabir_proto::Message::joined_text).unwrap_or_default();
        match unaware {
            UnawareCallers::Relay => assert_eq!(words, "refunded: my money", "what the other agent said"),
            UnawareCallers::Ask | UnawareCallers::Fail => assert!(words.contains("https://b.example"), "{words}"),
        }
    }
}

/// An agent that cancels in its own way, and admits no new tasks.
struct CompletingAgent;

impl Agent for CompletingAgent {
    async fn turn(&self, _: &mut Context) -> Result<Ending, Failure> {
        Ok(Ending::complete())
    }

    fn check_admission(&self) -> Result<(), Fault> {
        Err(Fault::Unavailable("later".into()))
    }

    fn cancel_grace(&self) -> Duration {
        Duration::from_secs(7)
    }

    async fn cancel_elsewhere(&self, canceled: CanceledTask) -> CancelOutcome {
        let left = canceled.checkpoint.map(|left| String::from_utf8_lossy(&left).into_owned());
        CancelOutcome { ending: Ending::complete_with(left.unwrap_or_default()), ..CancelOutcome::default() }
    }

    async fn repeat_cancel(&self, _: CanceledTask) -> bool {
        false
    }
}

#[test]
fn the_agent_behind_the_desk_decides_how_its_own_work_is_called_off() {
    let world = HandoffWorld::new();
    let handing = HandoffAgent::new(Arc::new(CompletingAgent), world.desk());
    assert!(handing.check_admission().is_err(), "nothing is opened that it would not take");
    assert_eq!(handing.cancel_grace(), Duration::from_secs(7));
    let task = TaskId::new(Stamp::from_u64(1), 1);
    let canceled = || CanceledTask { task, checkpoint: Some("its own".into()) };
    world.run(async |_| {
        assert_eq!(handing.cancel_elsewhere(canceled()).await.ending, Ending::complete_with("its own"));
        assert!(!handing.repeat_cancel(canceled()).await, "whoever has not heard is told again");
    });
}
