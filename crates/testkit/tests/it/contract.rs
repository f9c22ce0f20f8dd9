//! Every backend keeps the same contract.

use sabir_store::sqlite::Writing;
use sabir_testkit::contract::guard::{GuardInMemory, GuardOnFile, guard_store};
use sabir_testkit::contract::model::same_answers;
use sabir_testkit::contract::{InMemory, OnFile, task_log};

#[test]
fn the_memory_log_is_a_task_log() {
    task_log(InMemory::default);
}

#[test]
fn the_sqlite_log_with_a_writer_thread_is_a_task_log() {
    task_log(|| OnFile::new(Writing::Threaded));
}

#[test]
fn the_sqlite_log_written_inline_is_a_task_log() {
    task_log(|| OnFile::new(Writing::Inline));
}

#[test]
fn memory_and_sqlite_give_the_same_answers() {
    for seed in 0..40 {
        same_answers(seed, 300, &mut InMemory::default(), &mut OnFile::new(Writing::Inline));
    }
}

#[test]
fn the_memory_guard_is_a_guard_store() {
    guard_store(GuardInMemory::default);
}

#[test]
fn the_sqlite_guard_with_a_writer_thread_is_a_guard_store() {
    guard_store(|| GuardOnFile::new(Writing::Threaded));
}

#[test]
fn the_sqlite_guard_written_inline_is_a_guard_store() {
    guard_store(|| GuardOnFile::new(Writing::Inline));
}
