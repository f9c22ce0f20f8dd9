//! Moving the write-ahead log into the file, away from the writer.

use crate::OpenError;
use rusqlite::Connection;
use std::path::{Path, PathBuf};
use std::sync::mpsc::{RecvTimeoutError, Sender, channel};
use std::thread::JoinHandle;
use std::time::Duration;

/// The log is moved once it has grown past this.
const WAL_BYTES: u64 = 4 << 20;
/// Past this the writer is held up for a moment so that the log can start over; only a reader that never ends leads here.
const WAL_BYTES_MAX: u64 = 512 << 20;
/// How often its size is looked at.
const EVERY: Duration = Duration::from_millis(100);

#[derive(Debug)]
pub(super) struct Checkpoints {
    stop: Option<Sender<()>>,
    thread: Option<JoinHandle<()>>,
}

impl Checkpoints {
    pub(super) fn start(path: &Path) -> Result<Self, OpenError> {
        let fail = |reason: String| OpenError::Io { path: path.into(), reason };
        let connection = Connection::open(path).map_err(|e| fail(e.to_string()))?;
        let wal: PathBuf = format!("{}-wal", path.display()).into();
        let (stop, stopped) = channel::<()>();
        let run = move || {
            while stopped.recv_timeout(EVERY) == Err(RecvTimeoutError::Timeout) {
                let size = std::fs::metadata(&wal).map_or(0, |m| m.len());
                if size > WAL_BYTES {
                    // Truncation waits for readers; passive never makes anybody wait.
                    let how = if size > WAL_BYTES_MAX { "TRUNCATE" } else { "PASSIVE" };
                    if let Err(e) = connection.query_row(&format!("PRAGMA wal_checkpoint({how})"), [], |_| Ok(())) {
                        tracing::warn!(error = %e, "checkpoint failed; the log stays in the write-ahead file");
                    }
                }
            }
        };
        let thread =
            std::thread::Builder::new().name("sabir-checkpoint".into()).spawn(run).map_err(|e| fail(e.to_string()))?;
        Ok(Self { stop: Some(stop), thread: Some(thread) })
    }
}

impl Drop for Checkpoints {
    fn drop(&mut self) {
        drop(self.stop.take());
        if let Some(thread) = self.thread.take() {
            drop(thread.join());
        }
    }
}
