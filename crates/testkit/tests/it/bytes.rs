//! A long answer costs the disk a small multiple of its length, not the square of it.

use crate::desk::Desk;
use sabir_store::sqlite::{Durability, Options, SqliteLog, Writing};
use std::sync::Arc;

/// Bytes written for every byte streamed, at most.
const FACTOR_MAX: usize = 4;

#[test]
fn ten_thousand_chunks_are_written_at_most_four_times() {
    // As fast as they can be said, and one step each.
    for (agent, request) in [("floods", "do 1000"), ("streams", "do 10000")] {
        // On a file: the log in memory copies a task to change it, which here would be most of the work.
        let dir = tempfile::tempdir().unwrap();
        let options = Options { durability: Durability::Normal, writing: Writing::Inline, ..Options::default() };
        let mut desk = Desk::on(Arc::new(SqliteLog::open(&dir.path().join("sabir.db"), options).unwrap()));
        let events = desk.stream(agent, request);
        let streamed: usize = events.iter().map(|e| e.json.len()).sum();
        let (written, steps) = (desk.log.event_bytes() + desk.log.snapshot_bytes(), desk.log.steps());
        println!("{agent}: {} events, {streamed} bytes streamed, {written} written in {steps} steps", events.len());
        assert!(events.len() > 10_000);
        assert!(written <= FACTOR_MAX * streamed, "{written} bytes written for {streamed} streamed");
    }
}
