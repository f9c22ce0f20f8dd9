//! Private directories that could not be removed at the end of their turn.
//!
//! They hold what callers wrote, so each removal is tried again when a turn begins or ends: the cause, such as a lack
//! of descriptors, may be gone then. The entry in the journal stays until its directory is gone, and the next start of
//! the server tries again too.

use super::journal::JournalEntry;
use super::work_directory::remove;
use std::collections::VecDeque;
use std::path::{Path, PathBuf};
use std::sync::{Mutex, MutexGuard, PoisonError};

/// Directories that are tried again at a time, so that many that cannot be removed delay no turn for long.
const RETRIES_AT_ONCE: usize = 16;

/// The directories of one agent's turns that are still to be removed.
#[derive(Debug, Default)]
pub(super) struct Leftovers(Mutex<VecDeque<PrivateDirectory>>);

/// A private directory on the disk, with its entry in the journal.
#[derive(Debug)]
pub(super) struct PrivateDirectory {
    pub(super) path: PathBuf,
    /// The entry, which is removed after the directory.
    pub(super) entry: Option<JournalEntry>,
}

impl Leftovers {
    fn lock(&self) -> MutexGuard<'_, VecDeque<PrivateDirectory>> {
        self.0.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// Removes a directory and its entry, now or later; then retries the others.
    pub(super) fn remove(&self, directory: PrivateDirectory) {
        match remove(&directory.path) {
            Ok(_) => {
                directory.forget();
                self.retry();
            }
            Err(error) => {
                let path = directory.path.display();
                tracing::warn!(%path, %error, "cannot remove a command's directory; it is tried again");
                self.lock().push_back(directory);
            }
        }
    }

    /// Tries again to remove the directories that are left.
    pub(super) fn retry(&self) {
        let left = self.lock().len();
        for _ in 0..left.min(RETRIES_AT_ONCE) {
            // Not under the lock, because a removal takes time.
            let Some(directory) = self.lock().pop_front() else { return };
            match remove(&directory.path) {
                Ok(_) => directory.forget(),
                Err(_) => self.lock().push_back(directory),
            }
        }
    }

    #[cfg(test)]
    pub(super) fn paths(&self) -> Vec<PathBuf> {
        self.lock().iter().map(|directory| directory.path.clone()).collect()
    }
}

impl PrivateDirectory {
    pub(super) fn path(&self) -> &Path {
        &self.path
    }

    /// Removes the entry of a directory that is gone.
    fn forget(self) {
        if let Some(entry) = self.entry {
            entry.remove();
        }
    }
}
