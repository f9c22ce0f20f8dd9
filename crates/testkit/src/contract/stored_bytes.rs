//! Counting: the bytes of each caller follow what is written and what is forgotten.

use super::{Ask, Bench};
use crate::story::{Author, News, owner};
use crate::wait::wait;
use bytes::Bytes;
use sabir_proto::{AgentName, Stamp, TaskState};
use sabir_store::{AppendError, Effect, Scope, Step};
use std::sync::Arc;

fn stored(bench: &dyn Bench, scope: &Scope) -> u64 {
    bench.log().stored_bytes(&scope.caller)
}

/// Forgets everything below a place, at one agent.
fn forget(bench: &dyn Bench, agent: &AgentName, below: Stamp) {
    let mut from = None;
    loop {
        from = wait(bench.keeping().forget(agent, below, from)).expect("tasks can be forgotten").next;
        if from.is_none() {
            return;
        }
    }
}

pub(super) fn bytes_are_counted_for_their_caller_at_all_agents(bench: &mut dyn Bench) {
    let (mut author, ann, bob) = (Author::new(21), owner("ann"), owner("bob"));
    let elsewhere =
        Arc::new(Scope { agent: AgentName::parse("elsewhere").expect("a legal name"), ..Scope::clone(&ann) });
    let mut first = author.story(&ann);
    bench.log().put(first.whole(TaskState::Completed));
    let one = stored(bench, &ann);
    assert!(one > 0);
    bench.log().put(author.story(&elsewhere).whole(TaskState::Completed));
    let two = stored(bench, &ann);
    assert!(two > one, "another agent, the same caller");
    let mut long = author.story(&ann);
    bench.log().put(long.open(&mut author, &[News::Status(TaskState::Working)]));
    let opened = stored(bench, &ann);
    bench.log().put(long.step(&mut author, &[News::Chunk]));
    let grown = stored(bench, &ann);
    bench.log().put(long.step(&mut author, &[News::Status(TaskState::Completed)]));
    let settled = stored(bench, &ann);
    assert!(two < opened && opened < grown && grown < settled, "{two} {opened} {grown} {settled}");
    let keeps = |data: &'static [u8]| Step { effects: vec![Effect::KeepData(Bytes::from_static(data))], ..long.bare() };
    bench.log().put(keeps(&[b'x'; 100]));
    assert_eq!(stored(bench, &ann), settled + 100);
    bench.log().put(keeps(b"short"));
    assert_eq!(stored(bench, &ann), settled + 5, "what was kept before is gone");
    bench.reopen();
    assert_eq!((stored(bench, &ann), stored(bench, &bob)), (settled + 5, 0));
}

pub(super) fn bytes_of_what_is_forgotten_are_taken_off(bench: &mut dyn Bench) {
    let (mut author, ann) = (Author::new(22), owner("ann"));
    bench.log().put(author.story(&ann).whole(TaskState::Completed));
    // More rows of events than are deleted at once.
    let mut long = author.story(&ann);
    bench.log().put(long.open(&mut author, &[News::Status(TaskState::Working)]));
    for _ in 0..1200 {
        bench.log().put(long.step(&mut author, &[News::Chunk]));
    }
    bench.log().put(long.step(&mut author, &[News::Status(TaskState::Completed)]));
    author.pass(1000);
    let below = author.stamp();
    let mut open = author.story(&ann);
    let before = stored(bench, &ann);
    bench.log().put(open.open(&mut author, &[News::Status(TaskState::InputRequired)]));
    let own = stored(bench, &ann) - before;
    forget(bench, &ann.agent, below);
    assert_eq!(stored(bench, &ann), own);
    bench.reopen();
    assert_eq!(stored(bench, &ann), own);
    bench.log().put(open.step(&mut author, &[News::Status(TaskState::Canceled)]));
    let below = author.stamp();
    forget(bench, &ann.agent, below);
    assert_eq!(stored(bench, &ann), 0);
}

pub(super) fn bytes_go_with_a_task_that_changes_hands(bench: &mut dyn Bench) {
    let (mut author, ann, bob) = (Author::new(23), owner("ann"), owner("bob"));
    let mut story = author.story(&ann);
    bench.log().put(story.open(&mut author, &[News::Status(TaskState::Working)]));
    let bytes = stored(bench, &ann);
    bench.log().put(Step { effects: vec![Effect::Adopt(bob.clone())], ..story.bare() });
    assert_eq!((stored(bench, &ann), stored(bench, &bob)), (0, bytes));
    bench.log().put(story.step(&mut author, &[News::Status(TaskState::Completed)]));
    bench.reopen();
    assert_eq!(stored(bench, &ann), 0);
    assert!(stored(bench, &bob) > bytes);
}

pub(super) fn a_refused_step_counts_for_no_bytes(bench: &mut dyn Bench) {
    let (mut author, ann) = (Author::new(24), owner("ann"));
    let (mark, at) = (author.mark(), author.stamp());
    let key = || Effect::Key { mark, at, until: Stamp::from_u64(at.get() + 1) };
    bench.log().put(Step { effects: vec![key()], ..author.story(&ann).whole(TaskState::Completed) });
    let bytes = stored(bench, &ann);
    let again = Step { effects: vec![key()], ..author.story(&ann).whole(TaskState::Completed) };
    assert_eq!(bench.log().refused(again), AppendError::KeyTaken);
    bench.reopen();
    assert_eq!(stored(bench, &ann), bytes);
}
