//! Locks of files, and the permissions of files that hold messages.

use crate::OpenError;
use std::fs::{File, OpenOptions, TryLockError};
use std::path::{Path, PathBuf};

/// An exclusive lock beside a file, held until this is dropped. The file need not exist.
#[derive(Debug)]
pub struct FileLock(#[expect(dead_code, reason = "held, not read: closing the file releases the lock")] File);

impl FileLock {
    /// Takes the lock, or fails if another process has it.
    pub fn take(path: &Path) -> Result<Self, OpenError> {
        let lock_path = beside(path, ".lock");
        let io = |e: std::io::Error| OpenError::Io { path: lock_path.clone(), reason: e.to_string() };
        let file = private().open(&lock_path).map_err(io)?;
        match file.try_lock() {
            Ok(()) => Ok(Self(file)),
            Err(TryLockError::WouldBlock) => Err(OpenError::Locked(path.into())),
            Err(TryLockError::Error(e)) => Err(io(e)),
        }
    }
}

/// The path of a file beside this one. The whole name goes before the suffix: `a.db` and `a.data` are two stores.
pub(crate) fn beside(path: &Path, suffix: &str) -> PathBuf {
    let mut name = path.as_os_str().to_owned();
    name.push(suffix);
    name.into()
}

/// Options for files that only their owner may read: they hold all messages.
pub(crate) fn private() -> OpenOptions {
    use std::os::unix::fs::OpenOptionsExt;
    let mut options = OpenOptions::new();
    options.create(true).truncate(false).write(true).mode(0o600);
    options
}
