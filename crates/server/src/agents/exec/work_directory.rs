//! The private directory of one turn: what the command finds in it, and its complete removal.
//!
//! The journal records the directory before it is made, so that it is found again if this process is killed.
//!
//! | Entry | What it is |
//! |---|---|
//! | `stdin` | what the command reads on its standard input |
//! | `parts/` | the message's parts as files, and `parts.json` about them; after a question also `task.json` |
//! | `out/` | where the command leaves files that become artifacts |
//!
//! The command itself starts in the working directory of the server, so that `python3 bot.py` works.
//!
//! The server chooses all names. A name that a caller wrote is a value inside `parts.json` and never a path.

use super::ProcessSlots;
use super::journal::CommandJournal;
use super::leftovers::{Leftovers, PrivateDirectory};
use crate::config::agent::Stdin;
use rustix::fs::{Mode, OFlags};
use sabir_proto::{Content, Message, Part, Task};
use serde::Serialize;
use std::fs::{DirBuilder, OpenOptions, Permissions};
use std::io::{self, Write};
use std::os::fd::{AsFd, BorrowedFd, OwnedFd};
use std::os::unix::fs::{DirBuilderExt, OpenOptionsExt, PermissionsExt};
use std::path::{Path, PathBuf};
use std::sync::Arc;

const STDIN: &str = "stdin";
const PARTS: &str = "parts";
/// The directory that [`super::files`] collects from, relative to [`TurnDirectory::handle`].
pub(super) const OUT: &str = "out";

/// A directory that is removed when this is dropped. After that the slots of its turn are free.
#[derive(Debug)]
pub(super) struct TurnDirectory {
    /// Opened before the command runs: it refers to this directory whatever the command does to the path.
    handle: OwnedFd,
    directory: RemovedOnDrop,
    _slots: ProcessSlots,
}

/// See [`Leftovers::remove`].
#[derive(Debug)]
struct RemovedOnDrop {
    /// `None` once it is being removed.
    directory: Option<PrivateDirectory>,
    leftovers: Arc<Leftovers>,
}

/// The entry of a part in `parts.json`.
#[derive(Debug, Serialize)]
#[serde(rename_all = "camelCase")]
struct PartDescription<'a> {
    index: usize,
    file: String,
    kind: &'static str,
    #[serde(skip_serializing_if = "Option::is_none")]
    media_type: Option<&'a str>,
    #[serde(skip_serializing_if = "Option::is_none")]
    filename: Option<&'a str>,
}

impl TurnDirectory {
    /// Makes the directory and writes the message into it. Does blocking I/O.
    pub(super) fn create(
        message: &Message,
        before: Option<&Task>,
        stdin: Stdin,
        journal: Option<&CommandJournal>,
        leftovers: &Arc<Leftovers>,
        slots: ProcessSlots,
    ) -> io::Result<Self> {
        leftovers.retry();
        let directory = RemovedOnDrop { directory: Some(make(journal)?), leftovers: leftovers.clone() };
        // The umask may have cleared some bits.
        std::fs::set_permissions(directory.path(), Permissions::from_mode(0o700))?;
        let flags = OFlags::RDONLY | OFlags::DIRECTORY | OFlags::NOFOLLOW | OFlags::CLOEXEC;
        let handle = rustix::fs::open(directory.path(), flags, Mode::empty())?;
        let room = Self { handle, directory, _slots: slots };
        for name in [PARTS, OUT] {
            DirBuilder::new().mode(0o700).create(room.path().join(name))?;
        }
        match stdin {
            Stdin::Text => write_private(&room.stdin(), message.joined_text().as_bytes())?,
            Stdin::Json => write_private(&room.stdin(), &serde_json::to_vec(message)?)?,
        }
        let parts = room.parts();
        let mut described = Vec::with_capacity(message.parts.len());
        for (at, part) in message.parts.iter().enumerate() {
            let (kind, extension, bytes) = content(part);
            let (index, file) = (at + 1, format!("{}.{extension}", at + 1));
            write_private(&parts.join(&file), bytes)?;
            let (media_type, filename) = (part.media_type.as_deref(), part.filename.as_deref());
            described.push(PartDescription { index, file, kind, media_type, filename });
        }
        write_private(&parts.join("parts.json"), &serde_json::to_vec(&described)?)?;
        if let Some(task) = before {
            write_private(&parts.join("task.json"), &serde_json::to_vec(task)?)?;
        }
        Ok(room)
    }

    fn path(&self) -> &Path {
        self.directory.path()
    }

    /// The file with the command's standard input.
    pub(super) fn stdin(&self) -> PathBuf {
        self.path().join(STDIN)
    }

    /// The directory of the message's parts, `A2A_PARTS_DIR`.
    pub(super) fn parts(&self) -> PathBuf {
        self.path().join(PARTS)
    }

    /// The directory for new artifacts, `A2A_OUT_DIR`.
    pub(super) fn out(&self) -> PathBuf {
        self.path().join(OUT)
    }

    /// Records the first process of the command in the journal.
    pub(super) fn record_leader(&self, leader: rustix::process::Pid) -> io::Result<()> {
        let entry = self.directory.directory.as_ref().and_then(|directory| directory.entry.as_ref());
        entry.map_or(Ok(()), |entry| entry.record_leader(leader))
    }

    /// A descriptor of the directory.
    pub(super) fn handle(&self) -> BorrowedFd<'_> {
        self.handle.as_fd()
    }
}

impl RemovedOnDrop {
    fn path(&self) -> &Path {
        self.directory.as_ref().map_or(Path::new(""), PrivateDirectory::path)
    }
}

impl Drop for RemovedOnDrop {
    fn drop(&mut self) {
        if let Some(directory) = self.directory.take() {
            self.leftovers.remove(directory);
        }
    }
}

/// Makes an empty directory under a random name, after its journal entry.
fn make(ledger: Option<&CommandJournal>) -> io::Result<PrivateDirectory> {
    let parent = std::path::absolute(std::env::temp_dir())?;
    let made = tempfile::Builder::new().prefix("sabir-exec-").make_in(parent, |path| {
        let entry = ledger.map(|ledger| ledger.record(path)).transpose()?;
        match DirBuilder::new().mode(0o700).create(path) {
            Ok(()) => Ok(entry),
            Err(error) => {
                if let Some(entry) = entry {
                    entry.remove();
                }
                Err(error)
            }
        }
    })?;
    let (entry, path) = made.keep().map_err(|e| e.error)?;
    Ok(PrivateDirectory { path, entry })
}

/// Removes such a directory with all its content. Returns whether it existed. After an error it still exists.
pub(super) fn remove(path: &Path) -> io::Result<bool> {
    let removed = std::fs::remove_dir_all(path).or_else(|e| match e.kind() {
        io::ErrorKind::NotFound => Err(e),
        _ => {
            // Commands leave directories without write permission, such as the caches of build tools.
            unlock(path);
            std::fs::remove_dir_all(path)
        }
    });
    match removed {
        Ok(()) => Ok(true),
        Err(error) if error.kind() == io::ErrorKind::NotFound => Ok(false),
        Err(error) => Err(error),
    }
}

/// The kind of a part in `parts.json`, the extension of its file, and its bytes.
fn content(part: &Part) -> (&'static str, &'static str, &[u8]) {
    match &part.content {
        Content::Text(text) => ("text", "txt", text.as_bytes()),
        Content::Raw(bytes) => ("raw", "bin", bytes),
        Content::Data(json) => ("data", "json", json.as_str().as_bytes()),
        Content::Url(url) => ("url", "url", url.as_bytes()),
    }
}

/// Writes a new file that only its owner can read.
fn write_private(path: &Path, bytes: &[u8]) -> io::Result<()> {
    OpenOptions::new().write(true).create_new(true).mode(0o600).open(path)?.write_all(bytes)
}

/// Gives the owner access to every directory below. Errors show again in the removal.
fn unlock(path: &Path) {
    let mut open = vec![path.to_owned()];
    while let Some(directory) = open.pop() {
        drop(std::fs::set_permissions(&directory, Permissions::from_mode(0o700)));
        let Ok(entries) = std::fs::read_dir(&directory) else { continue };
        // The type of an entry is the type of a link itself, so links are not followed out of the directory.
        open.extend(entries.flatten().filter(|e| e.file_type().is_ok_and(|t| t.is_dir())).map(|e| e.path()));
    }
}
