//! Moving the write-ahead log into the file, away from the writer.
//!
//! A passive checkpoint copies what it can without making anybody wait, but under steady writing it never quite catches
//! up, and the log would grow without end (and every read with it, since readers search the log first). So once the log
//! is long, the little that a passive checkpoint left over is copied while the writer waits, and the log starts over.

use super::{Shared, lock};
use crate::OpenError;
use rusqlite::Connection;
use std::path::Path;
use std::sync::Arc;
use std::sync::atomic::Ordering;
use std::sync::mpsc::{RecvTimeoutError, Sender, channel};
use std::thread::JoinHandle;
use std::time::Duration;

/// How often the log is moved, if there is anything new in it. Often, because each time is a burst of work beside the
/// requests of that moment: a little every time goes unnoticed, ten times as much is what the slowest requests wait for.
const EVERY: Duration = Duration::from_millis(25);
/// Pages in the log (of 4 KiB) past which it starts over. After a crash all of them are read before anything is served.
const FRAMES_MAX: i64 = 4096;

#[derive(Debug)]
pub(super) struct Checkpoints {
    stop: Option<Sender<()>>,
    thread: Option<JoinHandle<()>>,
}

impl Checkpoints {
    pub(super) fn start(path: &Path, shared: Arc<Shared>) -> Result<Self, OpenError> {
        let fail = |reason: String| OpenError::Io { path: path.into(), reason };
        let connection = Connection::open(path).map_err(|e| fail(e.to_string()))?;
        let (stop, stopped) = channel::<()>();
        let run = move || {
            let mut moved = 0;
            while stopped.recv_timeout(EVERY) == Err(RecvTimeoutError::Timeout) {
                // Both only rise, so their sum tells whether either has.
                let written = shared.commit.load(Ordering::Acquire) + shared.noted.load(Ordering::Acquire);
                if written == moved {
                    continue;
                }
                moved = written;
                if let Err(error) = checkpoint(&connection, &shared) {
                    tracing::warn!(%error, "checkpoint failed; the log stays in the write-ahead file");
                }
            }
        };
        let thread = std::thread::Builder::new().name("sabir-checkpoint".into()).spawn(run);
        Ok(Self { stop: Some(stop), thread: Some(thread.map_err(|e| fail(e.to_string()))?) })
    }
}

fn checkpoint(connection: &Connection, shared: &Shared) -> rusqlite::Result<()> {
    let frames: i64 = connection.query_row("PRAGMA wal_checkpoint(PASSIVE)", [], |row| row.get(1))?;
    if frames > FRAMES_MAX {
        // Waiting for its turn here, and not in SQLite, which tries again only ten times a second and under load never
        // finds a gap between two groups.
        let _turn = lock(&shared.turn);
        connection.query_row("PRAGMA wal_checkpoint(RESTART)", [], |_| Ok(()))?;
    }
    Ok(())
}

impl Drop for Checkpoints {
    fn drop(&mut self) {
        drop(self.stop.take());
        if let Some(thread) = self.thread.take() {
            drop(thread.join());
        }
    }
}
