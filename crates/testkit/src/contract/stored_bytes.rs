//! Counting: the bytes of each caller follow what is written and what is forgotten.

use super::{LogFixture, TaskLogTestExt};
use crate::scripted_task::{ScriptedEvent, TaskFactory, owner};
use crate::wait::wait;
use bytes::Bytes;
use sabir_proto::{AgentName, Stamp, TaskState};
use sabir_store::{AppendError, Effect, Scope, Step};
use std::sync::Arc;

fn stored(bench: &dyn LogFixture, scope: &Scope) -> u64 {
    bench.log().stored_bytes(&scope.caller)
}

/// Forgets everything below a place, at one agent.
fn forget(bench: &dyn LogFixture, agent: &AgentName, below: Stamp) {
    let mut from = None;
    loop {
        from = wait(bench.upkeep().prune(agent, below, from)).expect("tasks can be forgotten").next;
        if from.is_none() {
            return;
        }
    }
}

pub(super) fn bytes_are_counted_for_their_caller_at_all_agents(bench: &mut dyn LogFixture) {
    let (mut author, ann, bob) = (TaskFactory::new(21), owner("ann"), owner("bob"));
    let elsewhere =
        Arc::new(Scope { agent: AgentName::parse("elsewhere").expect("a legal name"), ..Scope::clone(&ann) });
    let mut first = author.new_task(&ann);
    bench.log().append_ok(first.open_settled(TaskState::Completed));
    let one = stored(bench, &ann);
    assert!(one > 0);
    bench.log().append_ok(author.new_task(&elsewhere).open_settled(TaskState::Completed));
    let two = stored(bench, &ann);
    assert!(two > one, "another agent, the same caller");
    let mut long = author.new_task(&ann);
    bench.log().append_ok(long.open(&mut author, &[ScriptedEvent::Status(TaskState::Working)]));
    let opened = stored(bench, &ann);
    bench.log().append_ok(long.step(&mut author, &[ScriptedEvent::Chunk]));
    let grown = stored(bench, &ann);
    bench.log().append_ok(long.step(&mut author, &[ScriptedEvent::Status(TaskState::Completed)]));
    let settled = stored(bench, &ann);
    assert!(two < opened && opened < grown && grown < settled, "{two} {opened} {grown} {settled}");
    let keeps = |data: &'static [u8]| Step {
        effects: vec![Effect::StoreAgentData(Bytes::from_static(data))],
        ..long.empty_step()
    };
    bench.log().append_ok(keeps(&[b'x'; 100]));
    assert_eq!(stored(bench, &ann), settled + 100);
    bench.log().append_ok(keeps(b"short"));
    assert_eq!(stored(bench, &ann), settled + 5, "what was kept before is gone");
    bench.reopen();
    assert_eq!((stored(bench, &ann), stored(bench, &bob)), (settled + 5, 0));
}

pub(super) fn bytes_of_what_is_forgotten_are_taken_off(bench: &mut dyn LogFixture) {
    let (mut author, ann) = (TaskFactory::new(22), owner("ann"));
    bench.log().append_ok(author.new_task(&ann).open_settled(TaskState::Completed));
    // More rows of events than are deleted at once.
    let mut long = author.new_task(&ann);
    bench.log().append_ok(long.open(&mut author, &[ScriptedEvent::Status(TaskState::Working)]));
    for _ in 0..1200 {
        bench.log().append_ok(long.step(&mut author, &[ScriptedEvent::Chunk]));
    }
    bench.log().append_ok(long.step(&mut author, &[ScriptedEvent::Status(TaskState::Completed)]));
    author.advance(1000);
    let below = author.stamp();
    let mut open = author.new_task(&ann);
    let before = stored(bench, &ann);
    bench.log().append_ok(open.open(&mut author, &[ScriptedEvent::Status(TaskState::InputRequired)]));
    let own = stored(bench, &ann) - before;
    forget(bench, &ann.agent, below);
    assert_eq!(stored(bench, &ann), own);
    bench.reopen();
    assert_eq!(stored(bench, &ann), own);
    bench.log().append_ok(open.step(&mut author, &[ScriptedEvent::Status(TaskState::Canceled)]));
    let below = author.stamp();
    forget(bench, &ann.agent, below);
    assert_eq!(stored(bench, &ann), 0);
}

pub(super) fn bytes_go_with_a_task_that_changes_hands(bench: &mut dyn LogFixture) {
    let (mut author, ann, bob) = (TaskFactory::new(23), owner("ann"), owner("bob"));
    let mut story = author.new_task(&ann);
    bench.log().append_ok(story.open(&mut author, &[ScriptedEvent::Status(TaskState::Working)]));
    let bytes = stored(bench, &ann);
    bench.log().append_ok(Step { effects: vec![Effect::Claim(bob.clone())], ..story.empty_step() });
    assert_eq!((stored(bench, &ann), stored(bench, &bob)), (0, bytes));
    bench.log().append_ok(story.step(&mut author, &[ScriptedEvent::Status(TaskState::Completed)]));
    bench.reopen();
    assert_eq!(stored(bench, &ann), 0);
    assert!(stored(bench, &bob) > bytes);
}

pub(super) fn a_refused_step_counts_for_no_bytes(bench: &mut dyn LogFixture) {
    let (mut author, ann) = (TaskFactory::new(24), owner("ann"));
    let (mark, at) = (author.new_retry_mark(), author.stamp());
    let key = || Effect::Key { mark, at, until: Stamp::from_u64(at.get() + 1) };
    bench.log().append_ok(Step { effects: vec![key()], ..author.new_task(&ann).open_settled(TaskState::Completed) });
    let bytes = stored(bench, &ann);
    let again = Step { effects: vec![key()], ..author.new_task(&ann).open_settled(TaskState::Completed) };
    assert_eq!(bench.log().append_refused(again), AppendError::KeyTaken);
    bench.reopen();
    assert_eq!(stored(bench, &ann), bytes);
}
