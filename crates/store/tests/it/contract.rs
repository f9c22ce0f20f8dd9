//! Every backend keeps the same contract.

use sabir_store::WriterMode;
use sabir_testkit::contract::guard::{MemoryGuardFixture, SqliteGuardFixture, guard_store};
use sabir_testkit::contract::model::same_answers;
use sabir_testkit::contract::{MemoryLogFixture, SqliteLogFixture, task_log};

#[test]
fn the_model_is_a_task_log() {
    task_log(MemoryLogFixture::model);
}

#[test]
fn the_memory_log_is_a_task_log() {
    task_log(MemoryLogFixture::default);
}

#[test]
fn the_sqlite_log_with_a_writer_thread_is_a_task_log() {
    task_log(|| SqliteLogFixture::new(WriterMode::Threaded));
}

#[test]
fn the_sqlite_log_written_inline_is_a_task_log() {
    task_log(|| SqliteLogFixture::new(WriterMode::Inline));
}

#[test]
fn the_model_and_sqlite_give_the_same_answers() {
    for seed in 0..40 {
        let mut model = MemoryLogFixture::model();
        same_answers(seed, 300, &mut model, &mut SqliteLogFixture::new(WriterMode::Inline));
    }
}

#[test]
fn the_memory_guard_is_a_guard_store() {
    guard_store(MemoryGuardFixture::default);
}

#[test]
fn the_sqlite_guard_with_a_writer_thread_is_a_guard_store() {
    guard_store(|| SqliteGuardFixture::new(WriterMode::Threaded));
}

#[test]
fn the_sqlite_guard_written_inline_is_a_guard_store() {
    guard_store(|| SqliteGuardFixture::new(WriterMode::Inline));
}
