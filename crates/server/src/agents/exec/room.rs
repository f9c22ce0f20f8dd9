//! The private directory of one turn: what the command finds there, and that nothing of it stays.
//!
//! | Entry | What it is |
//! |---|---|
//! | `stdin` | what the command reads on its standard input |
//! | `parts/` | the message's parts as files, and `parts.json` about them; after a question also `task.json` |
//! | `out/` | where the command leaves files that become artifacts |
//!
//! The command itself starts where the server was started, so that `python3 bot.py` means what it says.
//!
//! All names are ours. A name that a caller wrote is a value inside `parts.json` and never a path.

use super::ledger::{Entry, Ledger};
use crate::config::agent::Stdin;
use rustix::fs::{Mode, OFlags};
use sabir_proto::{Content, Message, Part, Task};
use serde::Serialize;
use std::fs::{DirBuilder, OpenOptions, Permissions};
use std::io::{self, Write};
use std::os::fd::{AsFd, BorrowedFd, OwnedFd};
use std::os::unix::fs::{DirBuilderExt, OpenOptionsExt, PermissionsExt};
use std::path::{Path, PathBuf};

const STDIN: &str = "stdin";
const PARTS: &str = "parts";
/// The directory that [`super::files`] collects from, relative to [`Room::handle`].
pub(super) const OUT: &str = "out";

/// A directory that is removed when this is dropped.
#[derive(Debug)]
pub(super) struct Room {
    path: PathBuf,
    /// Held from before the command runs: whatever it does to the path, this stays the directory we made.
    handle: OwnedFd,
    /// What is written down about it; goes after the directory.
    entry: Option<Entry>,
}

/// What `parts.json` says about a part.
#[derive(Debug, Serialize)]
#[serde(rename_all = "camelCase")]
struct Description<'a> {
    index: usize,
    file: String,
    kind: &'static str,
    #[serde(skip_serializing_if = "Option::is_none")]
    media_type: Option<&'a str>,
    #[serde(skip_serializing_if = "Option::is_none")]
    filename: Option<&'a str>,
}

impl Room {
    /// Makes the directory and puts the message into it. Does blocking I/O.
    pub(super) fn furnish(
        message: &Message,
        before: Option<&Task>,
        stdin: Stdin,
        ledger: Option<&Ledger>,
    ) -> io::Result<Self> {
        let mut builder = tempfile::Builder::new();
        let made = builder.prefix("sabir-exec-").permissions(Permissions::from_mode(0o700)).tempdir()?;
        let flags = OFlags::RDONLY | OFlags::DIRECTORY | OFlags::NOFOLLOW | OFlags::CLOEXEC;
        let handle = rustix::fs::open(made.path(), flags, Mode::empty())?;
        // From here on it is ours to remove: tempfile gives up on directories that their owner may not enter.
        let mut room = Self { path: made.keep(), handle, entry: None };
        room.entry = ledger.map(|ledger| ledger.enter(&room.path)).transpose()?;
        for name in [PARTS, OUT] {
            DirBuilder::new().mode(0o700).create(room.path.join(name))?;
        }
        match stdin {
            Stdin::Text => write(&room.stdin(), message.joined_text().as_bytes())?,
            Stdin::Json => write(&room.stdin(), &serde_json::to_vec(message)?)?,
        }
        let parts = room.parts();
        let mut described = Vec::with_capacity(message.parts.len());
        for (at, part) in message.parts.iter().enumerate() {
            let (kind, extension, bytes) = content(part);
            let (index, file) = (at + 1, format!("{}.{extension}", at + 1));
            write(&parts.join(&file), bytes)?;
            let (media_type, filename) = (part.media_type.as_deref(), part.filename.as_deref());
            described.push(Description { index, file, kind, media_type, filename });
        }
        write(&parts.join("parts.json"), &serde_json::to_vec(&described)?)?;
        if let Some(task) = before {
            write(&parts.join("task.json"), &serde_json::to_vec(task)?)?;
        }
        Ok(room)
    }

    /// The file with the command's standard input.
    pub(super) fn stdin(&self) -> PathBuf {
        self.path.join(STDIN)
    }

    /// `A2A_PARTS_DIR`
    pub(super) fn parts(&self) -> PathBuf {
        self.path.join(PARTS)
    }

    /// `A2A_OUT_DIR`
    pub(super) fn out(&self) -> PathBuf {
        self.path.join(OUT)
    }

    /// The command runs, and this is its first process.
    pub(super) fn started(&self, leader: rustix::process::Pid) -> io::Result<()> {
        self.entry.as_ref().map_or(Ok(()), |entry| entry.started(leader))
    }

    /// The directory itself.
    pub(super) fn handle(&self) -> BorrowedFd<'_> {
        self.handle.as_fd()
    }
}

impl Drop for Room {
    fn drop(&mut self) {
        remove(&self.path);
    }
}

/// Removes such a directory with everything in it; whether it was there.
pub(super) fn remove(path: &Path) -> bool {
    let removed = std::fs::remove_dir_all(path).or_else(|e| match e.kind() {
        io::ErrorKind::NotFound => Err(e),
        _ => {
            // Commands leave directories nobody may enter or change, such as caches of build tools.
            unlock(path);
            std::fs::remove_dir_all(path)
        }
    });
    match &removed {
        Err(error) if error.kind() != io::ErrorKind::NotFound => {
            tracing::warn!(path = %path.display(), %error, "cannot remove a command's directory");
        }
        _ => {}
    }
    removed.is_ok()
}

/// A part as `parts.json` calls it, as its file's name ends, and as bytes.
fn content(part: &Part) -> (&'static str, &'static str, &[u8]) {
    match &part.content {
        Content::Text(text) => ("text", "txt", text.as_bytes()),
        Content::Raw(bytes) => ("raw", "bin", bytes),
        Content::Data(json) => ("data", "json", json.as_str().as_bytes()),
        Content::Url(url) => ("url", "url", url.as_bytes()),
    }
}

/// Writes a new file that only its owner reads.
fn write(path: &Path, bytes: &[u8]) -> io::Result<()> {
    OpenOptions::new().write(true).create_new(true).mode(0o600).open(path)?.write_all(bytes)
}

/// Lets the owner into every directory below. Errors show again when removing.
fn unlock(path: &Path) {
    let mut open = vec![path.to_owned()];
    while let Some(directory) = open.pop() {
        drop(std::fs::set_permissions(&directory, Permissions::from_mode(0o700)));
        let Ok(entries) = std::fs::read_dir(&directory) else { continue };
        // The type of an entry is that of a link itself, so links are not followed out of the directory.
        open.extend(entries.flatten().filter(|e| e.file_type().is_ok_and(|t| t.is_dir())).map(|e| e.path()));
    }
}
