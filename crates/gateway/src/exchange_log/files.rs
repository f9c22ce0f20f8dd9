//! The log files: the current one, and those before it.

use serde_json::Value;
use std::fs::{self, File, OpenOptions};
use std::io::{self, BufRead as _, BufReader, Write as _};
use std::os::unix::fs::{DirBuilderExt as _, OpenOptionsExt as _};
use std::path::{Path, PathBuf};
use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};
use std::sync::mpsc::{Receiver, SyncSender, sync_channel};

/// A file of this size is followed by another.
pub const SEGMENT_BYTES_MAX: u64 = 16 << 20;
/// The number of files; the oldest is deleted when a new one is begun.
pub const SEGMENTS: usize = 4;
/// Lines that wait for the disk.
const WAITING_MAX: usize = 1024;

/// Writes lines to the files, in a thread of its own.
pub(super) struct LogFiles {
    sender: SyncSender<String>,
    dropped: Arc<AtomicU64>,
}

impl LogFiles {
    pub(super) fn open(directory: &Path) -> io::Result<Self> {
        // Exchanges concern no other user of the machine, with or without secrets.
        fs::DirBuilder::new().recursive(true).mode(0o700).create(directory)?;
        let segment = Segment::open(directory.to_owned())?;
        let (sender, lines) = sync_channel(WAITING_MAX);
        let dropped = Arc::new(AtomicU64::new(0));
        let lost = dropped.clone();
        std::thread::Builder::new().name("sabir-wire".into()).spawn(move || segment.run(&lines, &lost))?;
        Ok(Self { sender, dropped })
    }

    pub(super) fn write(&self, line: String) {
        if self.sender.try_send(line).is_err() {
            self.dropped.fetch_add(1, Ordering::Relaxed);
        }
    }

    pub(super) fn dropped(&self) -> u64 {
        self.dropped.load(Ordering::Relaxed)
    }
}

/// The current file.
struct Segment {
    directory: PathBuf,
    file: File,
    bytes: u64,
}

impl Segment {
    fn open(directory: PathBuf) -> io::Result<Self> {
        let file = OpenOptions::new().create(true).append(true).mode(0o600).open(path(&directory, 0))?;
        let bytes = file.metadata()?.len();
        Ok(Self { directory, file, bytes })
    }

    fn run(mut self, lines: &Receiver<String>, lost: &AtomicU64) {
        let mut failed = false;
        for line in lines {
            let written = self.write(&line);
            if let Err(error) = &written {
                lost.fetch_add(1, Ordering::Relaxed);
                if !failed {
                    tracing::warn!(%error, "what is said on the wire cannot be kept");
                }
            }
            failed = written.is_err();
        }
    }

    fn write(&mut self, line: &str) -> io::Result<()> {
        if self.bytes >= SEGMENT_BYTES_MAX {
            for number in (0..SEGMENTS - 1).rev() {
                match fs::rename(path(&self.directory, number), path(&self.directory, number + 1)) {
                    Err(error) if error.kind() != io::ErrorKind::NotFound => return Err(error),
                    _ => {}
                }
            }
            *self = Self::open(std::mem::take(&mut self.directory))?;
        }
        // In one piece, so that a crash leaves at most one broken line, and readers leave that out.
        self.file.write_all(format!("{line}\n").as_bytes())?;
        self.bytes += line.len() as u64 + 1;
        Ok(())
    }
}

/// File 0 is the current one, and the higher the older.
fn path(directory: &Path, number: usize) -> PathBuf {
    directory.join(format!("wire-{number}.jsonl"))
}

/// The logged exchanges of a task, oldest first.
pub fn read_exchanges(directory: &Path, task: &str) -> io::Result<Vec<Value>> {
    let mut found = Vec::new();
    for number in (0..SEGMENTS).rev() {
        let file = match File::open(path(directory, number)) {
            Ok(file) => file,
            Err(error) if error.kind() == io::ErrorKind::NotFound => continue,
            Err(error) => return Err(error),
        };
        for line in BufReader::new(file).split(b'\n') {
            let line = String::from_utf8_lossy(&line?).into_owned();
            if !line.contains(task) {
                continue;
            }
            found.extend(serde_json::from_str::<Value>(&line).ok().filter(|line| line["task"] == task));
        }
    }
    Ok(found)
}
