//! Tests of write amplification: a long answer or conversation costs the disk a small multiple of its length, not its
//! square.

use crate::engine_fixture::EngineFixture;
use sabir_engine::machine;
use sabir_proto::{Seq, Task};
use sabir_store::TaskLog as _;

/// The most bytes written for every byte streamed.
const FACTOR_MAX: usize = 4;
/// The most bytes of a tiny message, the status before the answer, and the question together.
const TINY_TURN_BYTES_MAX: usize = 2 << 10;

fn written(desk: &EngineFixture) -> usize {
    desk.log.event_bytes() + desk.log.snapshot_bytes()
}

/// The task as the store has it, with its last event and the events behind its snapshot.
fn stored(desk: &EngineFixture, task: &Task) -> (Task, Seq, usize) {
    let (log, id) = (desk.log.clone(), task.id);
    let stored = desk.run(async move { log.load(id).await.unwrap().unwrap() });
    let folded = machine::fold(&stored).unwrap();
    assert_eq!(folded, sabir_proto::FrozenTask::freeze(&machine::thaw(&stored).unwrap()), "folded two ways");
    (folded.thaw().unwrap(), stored.head, stored.tail.len())
}

#[test]
fn a_tiny_message_to_a_large_task_does_not_write_the_task_again() {
    let mut desk = EngineFixture::new();
    let large = "x".repeat(1 << 20);
    let mut task = desk.send("asks", &format!("do 100 {large}"), None);
    for _ in 0..2 {
        task = desk.send("asks", &large, Some(&task));
    }
    let (before, turns) = (written(&desk), 50);
    for n in 0..turns {
        task = desk.send("asks", "tiny", Some(&task));
        assert_eq!(stored(&desk, &task).0, task, "message {n}");
    }
    let cost = written(&desk) - before;
    assert!(cost <= turns * TINY_TURN_BYTES_MAX, "{cost} bytes written for {turns} tiny messages");
    // After a crash the engine finds the same task, and continues it.
    desk.crash();
    let (found, head, tail) = stored(&desk, &task);
    assert_eq!(found, task);
    assert!(tail >= turns, "the last messages are behind the snapshot");
    let answered = desk.send("asks", "one more", Some(&task));
    assert_eq!(answered.history.len(), task.history.len() + 2);
    assert!(stored(&desk, &answered).1 > head);
}

#[test]
fn a_long_conversation_is_written_at_most_four_times() {
    let mut desk = EngineFixture::new();
    let mut task = desk.send("asks", "do 1000", None);
    for _ in 0..400 {
        task = desk.send("asks", &"x".repeat(200), Some(&task));
    }
    let (written, said) = (written(&desk), desk.log.event_bytes());
    println!("{said} bytes of events, {written} written");
    assert!(written <= FACTOR_MAX * said, "{written} bytes written for {said}");
    assert_eq!(stored(&desk, &task).0, task);
}

#[test]
fn ten_thousand_chunks_are_written_at_most_four_times() {
    // As fast as possible, and one step each.
    for (agent, request) in [("floods", "do 1000"), ("streams", "do 10000")] {
        let mut desk = EngineFixture::new();
        let events = desk.stream(agent, request);
        let streamed: usize = events.iter().map(|e| e.json.len()).sum();
        let (written, steps) = (desk.log.event_bytes() + desk.log.snapshot_bytes(), desk.log.step_count());
        println!("{agent}: {} events, {streamed} bytes streamed, {written} written in {steps} steps", events.len());
        assert!(events.len() > 10_000);
        assert!(written <= FACTOR_MAX * streamed, "{written} bytes written for {streamed} streamed");
    }
}
