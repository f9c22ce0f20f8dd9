//! The journal of running commands, for the server that starts after a crash.
//!
//! A killed server cannot end its commands. So every turn has an entry in a directory beside the data file: its private
//! directory and its first process. The entry is written before the directory is made, and removed after the directory
//! is gone, however long that takes: without it no server would find what the caller wrote. The next server, which by
//! then holds the lock of the data directory, finds the entries that are left and ends those commands.
//!
//! The kernel reuses process numbers, so the server signals only a process that certainly belongs to such a turn: its
//! environment names the private directory, whose name is random; or it has the recorded number *and* the recorded
//! start time, since the last boot; or it is in the group of such a process. After the server has opened a descriptor
//! of the process, which does not follow a reused number, it checks the process once more.
//!
//! Entries are not synced: they must outlive the process but not the machine, because all commands end with the
//! machine.

#[cfg(target_os = "linux")]
mod processes;

use super::work_directory;
use rustix::process::Pid;
use std::fs;
use std::io;
use std::os::unix::ffi::OsStrExt;
use std::os::unix::fs::{DirBuilderExt, OpenOptionsExt};
use std::path::{Path, PathBuf};
use std::time::Duration;

/// The directory with the entries.
#[derive(Debug)]
pub(crate) struct CommandJournal {
    directory: PathBuf,
}

/// The entry of one turn in the journal.
#[derive(Debug)]
pub(super) struct JournalEntry {
    path: PathBuf,
    directory: PathBuf,
}

/// The result of ending what the last server left.
#[derive(Debug, Default, Clone, Copy, PartialEq, Eq)]
pub(crate) struct EndedLeftovers {
    /// Processes that were ended.
    pub(crate) processes: usize,
    /// Of them, those that had to be killed.
    pub(crate) killed: usize,
    /// Private directories that were removed.
    pub(crate) directories: usize,
}

impl CommandJournal {
    /// The journal beside the data file of a server.
    pub(crate) fn beside(data_file: &Path) -> Self {
        let mut directory = data_file.as_os_str().to_owned();
        directory.push(".exec");
        Self { directory: directory.into() }
    }

    /// Records that a turn begins in this directory.
    pub(super) fn record(&self, room: &Path) -> io::Result<JournalEntry> {
        let made = fs::DirBuilder::new().mode(0o700).create(&self.directory);
        made.or_else(|e| if e.kind() == io::ErrorKind::AlreadyExists { Ok(()) } else { Err(e) })?;
        let name = room.file_name().ok_or_else(|| io::Error::other("a private directory has a name"))?;
        let entry = JournalEntry { path: self.directory.join(name), directory: room.into() };
        entry.write(None)?;
        Ok(entry)
    }

    /// Ends the commands that the last server left. The caller must have locked the data directory. Blocks for the
    /// grace time and a moment at most.
    pub(crate) fn end_leftovers(&self, grace: Duration) -> EndedLeftovers {
        let Ok(entries) = fs::read_dir(&self.directory) else { return EndedLeftovers::default() };
        let entries: Vec<PathBuf> = entries.flatten().map(|entry| entry.path()).collect();
        let (mut paths, mut left): (Vec<PathBuf>, Vec<LeftoverEntry>) = Default::default();
        for path in entries {
            match LeftoverEntry::read(&path) {
                Ok(Some(one)) => {
                    paths.push(path);
                    left.push(one);
                }
                Ok(None) => remove_entry(&path),
                Err(error) => tracing::warn!(path = %path.display(), %error, "cannot read the entry of a command"),
            }
        }
        let mut ended = processes::end(&left, grace);
        for (path, one) in paths.iter().zip(&left) {
            match work_directory::remove(&one.directory) {
                Ok(was_there) => {
                    ended.directories += usize::from(was_there);
                    remove_entry(path);
                }
                Err(error) => {
                    let room = one.directory.display();
                    tracing::warn!(%room, %error, "cannot remove a command's directory; the next start tries again");
                }
            }
        }
        ended
    }
}

impl JournalEntry {
    /// Records the first process of the turn.
    pub(super) fn record_leader(&self, leader: Pid) -> io::Result<()> {
        self.write(Some(leader.as_raw_nonzero().get()))
    }

    /// Removes the entry, after the directory is gone.
    pub(super) fn remove(self) {
        remove_entry(&self.path);
    }

    fn write(&self, leader: Option<i32>) -> io::Result<()> {
        let born = leader.and_then(|leader| Some((leader, processes::born(leader)?)));
        let mut text = self.directory.as_os_str().as_bytes().to_vec();
        text.push(b'\n');
        text.extend(boot_id().as_bytes());
        if let Some((leader, born)) = born {
            text.extend(format!("\n{leader} {born}").as_bytes());
        }
        // A new file replaces the old one, so that no reader finds half of an entry.
        let fresh = self.path.with_extension("new");
        let mut options = fs::OpenOptions::new();
        let mut file = options.write(true).create(true).truncate(true).mode(0o600).open(&fresh)?;
        io::Write::write_all(&mut file, &text)?;
        fs::rename(fresh, &self.path)
    }
}

/// Removes an entry. An entry that stays is read after the next start, and finds nothing.
fn remove_entry(path: &Path) {
    if let Err(error) = fs::remove_file(path) {
        tracing::warn!(path = %path.display(), %error, "cannot remove the entry of a command");
    }
}

/// An entry that the last server left.
struct LeftoverEntry {
    directory: PathBuf,
    /// The first process and its start time, if both were recorded since the last boot.
    leader: Option<(i32, u64)>,
}

impl LeftoverEntry {
    /// `None` where the file is no entry of a server.
    fn read(path: &Path) -> io::Result<Option<Self>> {
        fs::read(path).map(|text| Self::parse(path, &text))
    }

    fn parse(path: &Path, text: &[u8]) -> Option<Self> {
        let mut lines = text.split(|b| *b == b'\n');
        let room = PathBuf::from(std::ffi::OsStr::from_bytes(lines.next()?));
        let same_boot = lines.next()? == boot_id().as_bytes() && !boot_id().is_empty();
        let leader = lines.next().and_then(|line| std::str::from_utf8(line).ok()).and_then(|line| line.split_once(' '));
        let leader = leader.and_then(|(pid, born)| Some((pid.parse().ok()?, born.parse().ok()?)));
        // Only a directory like those that the server makes is accepted, whatever the file says.
        let is_ours = room.is_absolute() && room.file_name() == path.file_name();
        is_ours.then(|| Self { directory: room, leader: leader.filter(|_| same_boot) })
    }
}

/// The id of the current boot; empty where the system has none.
fn boot_id() -> String {
    fs::read_to_string("/proc/sys/kernel/random/boot_id").map(|id| id.trim().to_owned()).unwrap_or_default()
}

/// Other systems do not tell the environment of a process, so no process is ended on a guess.
#[cfg(not(target_os = "linux"))]
mod processes {
    pub(super) fn end(_: &[super::LeftoverEntry], _: std::time::Duration) -> super::EndedLeftovers {
        super::EndedLeftovers::default()
    }

    pub(super) fn born(_: i32) -> Option<u64> {
        None
    }
}
