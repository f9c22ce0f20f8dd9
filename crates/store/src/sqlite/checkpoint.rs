//! Checkpoints: moving the write-ahead log into the file, away from the writer.
//!
//! A passive checkpoint copies what it can without blocking readers or the writer, but under steady writing it never
//! quite catches up, and the log would grow without end (and every read with it, since readers search the log first).
//! So once the log is long, the little that a passive checkpoint left over is copied while the writer waits, and the
//! log starts over.
//!
//! It cannot start over while a reader uses it, and a backup or a check of the whole file reads for minutes. The writer
//! must not wait for them: they get a moment, and if that is not enough the log grows until they are done.

use super::{StoreState, lock};
use crate::OpenError;
use rusqlite::Connection;
use std::path::Path;
use std::sync::Arc;
use std::sync::atomic::Ordering;
use std::sync::mpsc::{RecvTimeoutError, Sender, channel};
use std::thread::JoinHandle;
use std::time::Duration;

/// How often the log is moved, if there is anything new in it. Often, because each time is a burst of work beside the
/// current requests: a little every time goes unnoticed, ten times as much delays the slowest requests.
const EVERY: Duration = Duration::from_millis(25);
/// Pages in the log (of 4 KiB) past which it starts over. After a crash SQLite reads all of them before the first
/// request.
const FRAMES_MAX: i64 = 4096;
/// How long the writer waits for readers of the log when it is to start over. The store's own reads take microseconds.
const READERS_TIME_MAX: Duration = Duration::from_millis(20);
/// Rounds until the next try after a reader blocked a restart; twice as many each time, up to five seconds.
const ROUNDS_SKIPPED_MAX: u32 = 200;

#[derive(Debug)]
pub(super) struct Checkpointer {
    stop: Option<Sender<()>>,
    thread: Option<JoinHandle<()>>,
}

impl Checkpointer {
    pub(super) fn start(path: &Path, shared: Arc<StoreState>) -> Result<Self, OpenError> {
        let fail = |reason: String| OpenError::Io { path: path.into(), reason };
        let connection = Connection::open(path).map_err(|e| fail(e.to_string()))?;
        connection.busy_timeout(READERS_TIME_MAX).map_err(|e| fail(e.to_string()))?;
        let (stop, stopped) = channel::<()>();
        let run = move || {
            let (mut moved, mut restarts) = (0, RestartBackoff::default());
            while stopped.recv_timeout(EVERY) == Err(RecvTimeoutError::Timeout) {
                // Both counters only rise, so their sum tells whether either has.
                let written = shared.commit.load(Ordering::Acquire) + shared.unsynced_commits.load(Ordering::Acquire);
                if written == moved {
                    continue;
                }
                moved = written;
                if let Err(error) = checkpoint(&connection, &shared, &mut restarts) {
                    tracing::warn!(%error, "checkpoint failed; the log stays in the write-ahead file");
                }
            }
        };
        let thread = std::thread::Builder::new().name("sabir-checkpoint".into()).spawn(run);
        Ok(Self { stop: Some(stop), thread: Some(thread.map_err(|e| fail(e.to_string()))?) })
    }
}

/// When the log may be restarted.
#[derive(Debug, Default, PartialEq, Eq)]
struct RestartBackoff {
    /// Rounds that are still to be skipped.
    skip: u32,
    /// Rounds that were skipped last time.
    skipped: u32,
}

impl RestartBackoff {
    fn is_due(&mut self) -> bool {
        let due = self.skip == 0;
        self.skip = self.skip.saturating_sub(1);
        due
    }

    /// Stores whether a reader blocked the restart.
    fn record_attempt(&mut self, busy: bool) {
        self.skipped = if busy { (self.skipped * 2).clamp(1, ROUNDS_SKIPPED_MAX) } else { 0 };
        self.skip = self.skipped;
    }
}

fn checkpoint(connection: &Connection, shared: &StoreState, restarts: &mut RestartBackoff) -> rusqlite::Result<()> {
    let frames: i64 = connection.query_row("PRAGMA wal_checkpoint(PASSIVE)", [], |row| row.get(1))?;
    if frames > FRAMES_MAX && restarts.is_due() {
        // This waits for the write lock here, and not in SQLite, which retries only ten times a second and under load
        // never finds a gap between two groups.
        let _turn = lock(&shared.write_lock);
        restarts.record_attempt(connection.query_row("PRAGMA wal_checkpoint(RESTART)", [], |row| row.get(0))?);
    }
    Ok(())
}

impl Drop for Checkpointer {
    fn drop(&mut self) {
        drop(self.stop.take());
        if let Some(thread) = self.thread.take() {
            drop(thread.join());
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::Durability;
    use crate::sqlite::schema;
    use std::time::Instant;

    #[test]
    fn a_long_reader_makes_the_writer_wait_for_moments_only() {
        let dir = tempfile::tempdir().unwrap();
        let path = dir.path().join("a.db");
        let writer = schema::open_writer(&path, &schema::TASK_LOG, Durability::Normal).unwrap();
        writer.pragma_update(None, "wal_autocheckpoint", 0).unwrap();
        let reader = schema::open_reader(&path).unwrap();
        let view = reader.unchecked_transaction().unwrap();
        let _: i64 = view.query_row("SELECT count(*) FROM task", [], |row| row.get(0)).unwrap();
        let fill = "INSERT INTO checkpoint (k, data) VALUES (?1, zeroblob(4000))";
        let mut k = 0;
        let mut grow = || {
            let group = writer.unchecked_transaction().unwrap();
            for _ in 0..=FRAMES_MAX {
                k += 1;
                group.execute(fill, [k]).unwrap();
            }
            group.commit().unwrap();
        };
        grow();
        let connection = Connection::open(&path).unwrap();
        connection.busy_timeout(READERS_TIME_MAX).unwrap();
        let (shared, mut restarts) = (StoreState::default(), RestartBackoff::default());
        let began = Instant::now();
        for _ in 0..64 {
            checkpoint(&connection, &shared, &mut restarts).unwrap();
        }
        let took = began.elapsed();
        assert!(took < Duration::from_secs(2), "{took:?}: seven tries of 20 ms, and not one of five seconds");
        assert!(restarts.skipped > 0);
        drop(view);
        restarts = RestartBackoff::default();
        checkpoint(&connection, &shared, &mut restarts).unwrap();
        assert_eq!(restarts, RestartBackoff::default(), "it starts over once nobody reads");
    }
}
