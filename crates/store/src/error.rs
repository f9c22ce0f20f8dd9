//! How storing can fail: as many variants as there are reactions.

use crate::{KeyId, Refusal};
use sabir_proto::AgentName;
use std::path::PathBuf;

/// Why a store could not do what it was asked.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
pub enum StoreError {
    /// No room left. Reads still work; writes may work again once there is room.
    #[error("the disk is full")]
    Full,
    /// It may not be written. Reads still work; writes may work again once it may.
    #[error("the store is read-only: {0}")]
    ReadOnly(String),
    /// The bytes are not what we wrote.
    #[error("the store is damaged: {0}")]
    Corrupt(String),
    /// The operating system or the database engine refused.
    #[error("{0}")]
    Io(String),
    /// The store was shut down.
    #[error("the store is closed")]
    Closed,
    /// A page token that was made too long ago, or by nobody here.
    #[error("the page token is not valid here; start again without one")]
    PageToken,
}

/// Why a step was not taken. A refused step leaves no trace.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
pub enum AppendError {
    /// `after` is not the head: somebody else wrote first. Reload and decide again.
    #[error("the log has moved on")]
    Stale,
    /// The explicit retry key is taken.
    #[error("the retry key is taken")]
    KeyTaken,
    /// The name went to another task since it was looked up. Look again and decide again.
    #[error("the name has moved to another task")]
    NameMoved,
    /// The task it was to be opened for has settled, or is not there.
    #[error("the parent has settled")]
    Orphan,
    /// The task it was to be opened for has a child of that key. Look for it.
    #[error("there is a child of that key")]
    Twin,
    /// More tasks than one family may have.
    #[error("too many tasks in one family")]
    TooManyKin,
    /// More push configurations than one task may have.
    #[error("too many push configurations")]
    TooManyConfigs,
    /// The ledger has it otherwise.
    #[error(transparent)]
    Ledger(#[from] Refusal),
    /// The store itself failed.
    #[error(transparent)]
    Store(#[from] StoreError),
}

/// Why what is administered was not changed. A refused change leaves no trace.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
pub enum ChangeError {
    /// Nothing of this id.
    #[error("there is no key {0}")]
    NoSuchKey(KeyId),
    /// The id, or the text, is another key's.
    #[error("there is such a key already")]
    Taken,
    /// No agent of this name was added.
    #[error("no agent {0} was added here")]
    NoSuchAgent(AgentName),
    /// The name is another agent's.
    #[error("there is an agent {0} already")]
    AgentTaken(AgentName),
    /// A revoked key stays revoked.
    #[error("key {0} is revoked; create a new one")]
    Revoked(KeyId),
    /// As many as there may be.
    #[error("there may be no more than {max} {what}")]
    TooMany {
        /// Of what.
        what: &'static str,
        /// How many.
        max: usize,
    },
    /// The store itself failed.
    #[error(transparent)]
    Store(#[from] StoreError),
}

/// Why a store could not be opened. Each names the file and what to do; none changes it.
#[derive(Debug, thiserror::Error)]
pub enum OpenError {
    /// Another process has it.
    #[error("{} is in use by another process; stop that one, or choose another data directory", .0.display())]
    Locked(PathBuf),
    /// Written by a later version of this program.
    #[error(
        "{} has schema version {found}, this program knows up to {known}; use a newer sabir, or another data directory",
        path.display()
    )]
    Newer {
        /// The file.
        path: PathBuf,
        /// Its version.
        found: i64,
        /// The latest this program knows.
        known: i64,
    },
    /// Not a store of ours.
    #[error("{} is not a Sabir store ({reason}); move it away, or choose another data directory", path.display())]
    Foreign {
        /// The file.
        path: PathBuf,
        /// How we can tell.
        reason: String,
    },
    /// Ours, but its bytes are not what we wrote.
    #[error("{} is damaged ({reason}); bring it back from a backup, or move it away to begin anew", path.display())]
    Damaged {
        /// The file.
        path: PathBuf,
        /// What the database engine said.
        reason: String,
    },
    /// Nothing is in it, not even the tables that a new one has.
    #[error(
        "{} is there and has no bytes, so what it held is lost; bring it back from a backup, or move it away to begin anew",
        .0.display()
    )]
    Empty(PathBuf),
    /// The log has tasks, and the file with the keys of callers is not beside it.
    #[error(
        "{} has tasks, and {} with the keys, organisations and replay marks of its callers is missing; bring it back from \
         a backup, or make an empty file of that name to begin with none",
        log.display(),
        guard.display()
    )]
    GuardMissing {
        /// The task log.
        log: PathBuf,
        /// The file that is missing.
        guard: PathBuf,
    },
    /// The operating system or the database engine refused.
    #[error(
        "cannot open {}: {reason}; check that there is room and that it may be written, or choose another data directory",
        path.display()
    )]
    Io {
        /// The file or directory.
        path: PathBuf,
        /// What it said.
        reason: String,
    },
}
