//! Maintaining a store as a whole: backup, restore, check, and what could be deleted from it.
//!
//! A server may have the store open meanwhile, except for a restore. A store in memory has nothing to maintain.

use crate::{OpenError, StoreUrl, sqlite};
use sabir_proto::{AgentName, Stamp};
use std::path::{Path, PathBuf};

/// Problems that are listed; more are only counted.
pub const PROBLEMS_MAX: usize = 100;

/// The result of a backup or a restore.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct CopyReport {
    /// The file with the tasks.
    pub path: PathBuf,
    /// The file of the guard.
    pub guard: PathBuf,
    /// The size of both files.
    pub bytes: u64,
    /// The result of checking the copy.
    pub check_report: CheckReport,
    /// The new path of the store that was there before.
    pub aside: Option<PathBuf>,
}

/// What a restore does with an existing store.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum ExistingStore {
    /// The restore fails if there is a store.
    Refuse,
    /// The existing store is kept under its name with this suffix.
    MoveAside(String),
}

/// Why there is no copy. What was there before is unchanged.
#[derive(Debug, thiserror::Error)]
pub enum CopyError {
    /// The destination exists already.
    #[error("{} is there already", .0.display())]
    Exists(PathBuf),
    /// The source is damaged.
    #[error("{} is not whole: {}", path.display(), checked.problems.first().map_or("", String::as_str))]
    Damaged {
        path: PathBuf,
        /// The problems that were found.
        checked: Box<CheckReport>,
    },
    /// A store could not be opened.
    #[error(transparent)]
    Open(#[from] OpenError),
    /// The copy could not be written.
    #[error("cannot write {}: {reason}", path.display())]
    Write {
        path: PathBuf,
        /// What the operating system or the database engine said.
        reason: String,
    },
}

/// The result of a check.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct CheckReport {
    /// The number of tasks that were read.
    pub tasks: u64,
    /// The number of their events.
    pub events: u64,
    /// The number of audit entries that follow from each other.
    pub audit: u64,
    /// The problems, at most [`PROBLEMS_MAX`].
    pub problems: Vec<String>,
    /// The number of further problems.
    pub more: u64,
}

impl CheckReport {
    /// Whether no problem was found.
    pub fn is_whole(&self) -> bool {
        self.problems.is_empty()
    }

    pub(crate) fn add_problem(&mut self, what: String) {
        if self.problems.len() < PROBLEMS_MAX {
            self.problems.push(what);
        } else {
            self.more += 1;
        }
    }
}

/// The progress of a check or a copy.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum CheckProgress {
    /// This file is being copied.
    Copying(PathBuf),
    /// The pages of this file are being read.
    Pages(PathBuf),
    /// The number of tasks read so far, and of all tasks.
    Tasks(u64, u64),
    /// The audit is being read.
    Audit,
}

/// Copies a store, and checks the copy. A server may have the store open. Damage in it is an error: a copy that cannot
/// be restored is useless.
pub fn backup(url: &StoreUrl, into: &Path, looked: &mut dyn FnMut(CheckProgress)) -> Result<CopyReport, CopyError> {
    sqlite::backup(url.existing_file()?, into, looked)
}

/// Replaces a store with a copy. No process may have the store open.
pub fn restore(
    copy_at: &Path,
    url: &StoreUrl,
    over: &ExistingStore,
    looked: &mut dyn FnMut(CheckProgress),
) -> Result<CopyReport, CopyError> {
    let file = url.require_file()?;
    if !copy_at.exists() {
        return Err(OpenError::Missing(copy_at.into()).into());
    }
    url.create_directory()?;
    sqlite::restore(copy_at, file, over, looked)
}

/// Checks every row of a store, which a server may have open. An error means that it cannot be checked at all.
pub fn check(url: &StoreUrl, looked: &mut dyn FnMut(CheckProgress)) -> Result<CheckReport, OpenError> {
    sqlite::check(url.existing_file()?, looked)
}

/// The number of tasks of each agent that could be deleted below a position. A server may have the store open.
pub fn prunable_tasks(url: &StoreUrl, below: Stamp) -> Result<Vec<(AgentName, u64)>, OpenError> {
    sqlite::prunable_tasks(url.existing_file()?, below)
}
