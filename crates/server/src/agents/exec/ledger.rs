//! Which commands run, written down for whoever comes after a crash.
//!
//! A server that is killed cannot end its commands. So every turn has an entry in a directory beside the store: where its
//! private directory is, and which process came first. It is written before the directory is made and goes after the
//! directory is gone, however long that takes: without it nothing would lead to what the caller wrote. Entries that the
//! next server finds, which by then has the store to itself, are of commands that outlived theirs, and it ends them.
//!
//! Numbers of processes are used again, and no process is ever signalled that is not surely one of those. It is one if it
//! was given the private directory of the turn, whose name is random, in its environment; or if it has the number *and* the
//! moment of birth that were written down, since the machine was started; or if it is in the group of such a process. It
//! is looked at once more after it is held on to (by a descriptor, which a number that is used again does not follow).
//!
//! Entries are not synced: they need to outlive the process and not the machine, with which all commands end.

#[cfg(target_os = "linux")]
mod processes;

use super::room;
use rustix::process::Pid;
use std::fs;
use std::io;
use std::os::unix::ffi::OsStrExt;
use std::os::unix::fs::{DirBuilderExt, OpenOptionsExt};
use std::path::{Path, PathBuf};
use std::time::Duration;

/// The directory with the entries.
#[derive(Debug)]
pub(crate) struct Ledger {
    directory: PathBuf,
}

/// One turn's entry.
#[derive(Debug)]
pub(super) struct Entry {
    path: PathBuf,
    room: PathBuf,
}

/// What the last server left behind.
#[derive(Debug, Default, Clone, Copy, PartialEq, Eq)]
pub(crate) struct Ended {
    /// Processes that were ended.
    pub(crate) processes: usize,
    /// Of them, those that had to be killed.
    pub(crate) killed: usize,
    /// Private directories that were removed.
    pub(crate) rooms: usize,
}

impl Ledger {
    /// The ledger beside a store.
    pub(crate) fn beside(store: &Path) -> Self {
        let mut directory = store.as_os_str().to_owned();
        directory.push(".exec");
        Self { directory: directory.into() }
    }

    /// Writes down that a turn begins in this directory.
    pub(super) fn enter(&self, room: &Path) -> io::Result<Entry> {
        let made = fs::DirBuilder::new().mode(0o700).create(&self.directory);
        made.or_else(|e| if e.kind() == io::ErrorKind::AlreadyExists { Ok(()) } else { Err(e) })?;
        let name = room.file_name().ok_or_else(|| io::Error::other("a private directory has a name"))?;
        let entry = Entry { path: self.directory.join(name), room: room.into() };
        entry.write(None)?;
        Ok(entry)
    }

    /// Ends what the last server left behind; only for whoever has the store to itself. Blocks for the grace at most, and
    /// a moment.
    pub(crate) fn end_leftovers(&self, grace: Duration) -> Ended {
        let Ok(entries) = fs::read_dir(&self.directory) else { return Ended::default() };
        let entries: Vec<PathBuf> = entries.flatten().map(|entry| entry.path()).collect();
        let (mut paths, mut left): (Vec<PathBuf>, Vec<Left>) = Default::default();
        for path in entries {
            match Left::read(&path) {
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
            match room::remove(&one.room) {
                Ok(was_there) => {
                    ended.rooms += usize::from(was_there);
                    remove_entry(path);
                }
                Err(error) => {
                    let room = one.room.display();
                    tracing::warn!(%room, %error, "cannot remove a command's directory; the next start tries again");
                }
            }
        }
        ended
    }
}

impl Entry {
    /// Writes down which process came first.
    pub(super) fn started(&self, leader: Pid) -> io::Result<()> {
        self.write(Some(leader.as_raw_nonzero().get()))
    }

    /// Removes it, once the directory is gone.
    pub(super) fn remove(self) {
        remove_entry(&self.path);
    }

    fn write(&self, leader: Option<i32>) -> io::Result<()> {
        let born = leader.and_then(|leader| Some((leader, processes::born(leader)?)));
        let mut text = self.room.as_os_str().as_bytes().to_vec();
        text.push(b'\n');
        text.extend(boot().as_bytes());
        if let Some((leader, born)) = born {
            text.extend(format!("\n{leader} {born}").as_bytes());
        }
        // A new file in the place of the old one, so that nobody ever finds half of one.
        let fresh = self.path.with_extension("new");
        let mut options = fs::OpenOptions::new();
        let mut file = options.write(true).create(true).truncate(true).mode(0o600).open(&fresh)?;
        io::Write::write_all(&mut file, &text)?;
        fs::rename(fresh, &self.path)
    }
}

/// Removes an entry. One that stays is looked at after the next start, and leads to nothing.
fn remove_entry(path: &Path) {
    if let Err(error) = fs::remove_file(path) {
        tracing::warn!(path = %path.display(), %error, "cannot remove the entry of a command");
    }
}

/// An entry of another life.
struct Left {
    room: PathBuf,
    /// The first process and when it was born, if it was written down since the machine was started.
    leader: Option<(i32, u64)>,
}

impl Left {
    /// Nothing where the file is no entry of ours.
    fn read(path: &Path) -> io::Result<Option<Self>> {
        fs::read(path).map(|text| Self::parse(path, &text))
    }

    fn parse(path: &Path, text: &[u8]) -> Option<Self> {
        let mut lines = text.split(|b| *b == b'\n');
        let room = PathBuf::from(std::ffi::OsStr::from_bytes(lines.next()?));
        let same_boot = lines.next()? == boot().as_bytes() && !boot().is_empty();
        let leader = lines.next().and_then(|line| std::str::from_utf8(line).ok()).and_then(|line| line.split_once(' '));
        let leader = leader.and_then(|(pid, born)| Some((pid.parse().ok()?, born.parse().ok()?)));
        // Whatever was written there, only a directory like those we make is one of ours.
        let is_ours = room.is_absolute() && room.file_name() == path.file_name();
        is_ours.then(|| Self { room, leader: leader.filter(|_| same_boot) })
    }
}

/// Names the time since the machine was started; empty where nobody tells.
fn boot() -> String {
    fs::read_to_string("/proc/sys/kernel/random/boot_id").map(|id| id.trim().to_owned()).unwrap_or_default()
}

/// Elsewhere nobody tells which process was started with what, and none is ended on a guess.
#[cfg(not(target_os = "linux"))]
mod processes {
    pub(super) fn end(_: &[super::Left], _: std::time::Duration) -> super::Ended {
        super::Ended::default()
    }

    pub(super) fn born(_: i32) -> Option<u64> {
        None
    }
}
