//! Errors of the store: one variant for each reaction of the caller.

use crate::{KeyId, LedgerError};
use sabir_proto::AgentName;
use std::path::PathBuf;

/// Why a store operation failed.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
pub enum StoreError {
    /// The disk is full. Reads still work; writes may work again once there is room.
    #[error("the disk is full")]
    Full,
    /// The file may not be written. Reads still work; writes may work again once it may.
    #[error("the store is read-only: {0}")]
    ReadOnly(String),
    /// The bytes are not what this program wrote.
    #[error("the store is damaged: {0}")]
    Corrupt(String),
    /// The operating system or the database engine failed.
    #[error("{0}")]
    Io(String),
    /// The store has been shut down.
    #[error("the store is closed")]
    Closed,
    /// A page token that is too old, or that this store did not issue.
    #[error("the page token is not valid here; start again without one")]
    PageToken,
}

/// Why a step was refused. A refused step leaves no trace.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
pub enum AppendError {
    /// `after` is not the head: another step was written first. Reload and decide again.
    #[error("the log has moved on")]
    Stale,
    /// The explicit retry key is taken.
    #[error("the retry key is taken")]
    KeyTaken,
    /// The alias moved to another task since the caller looked it up. Look it up again and decide again.
    #[error("the name has moved to another task")]
    NameMoved,
    /// The parent task has settled or does not exist.
    #[error("the parent has settled")]
    ParentSettled,
    /// The parent has a child with this key already. Look that child up.
    #[error("there is a child of that key")]
    DuplicateChild,
    /// The root has as many tasks below it as it may have.
    #[error("too many tasks in one family")]
    TooManySubtasks,
    /// More push configurations than one task may have.
    #[error("too many push configurations")]
    TooManyConfigs,
    /// The ledger refused an effect of the step.
    #[error(transparent)]
    Ledger(#[from] LedgerError),
    /// The store itself failed.
    #[error(transparent)]
    Store(#[from] StoreError),
}

/// Why an administrative change was refused. A refused change leaves no trace.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
pub enum ChangeError {
    /// There is no key with this id.
    #[error("there is no key {0}")]
    NoSuchKey(KeyId),
    /// Another key has this id or this secret.
    #[error("there is such a key already")]
    KeyTaken,
    /// No agent of this name was added.
    #[error("no agent {0} was added here")]
    NoSuchAgent(AgentName),
    /// Another agent has this name.
    #[error("there is an agent {0} already")]
    AgentTaken(AgentName),
    /// A revoked key stays revoked.
    #[error("key {0} is revoked; create a new one")]
    Revoked(KeyId),
    /// The store holds as many as it may.
    #[error("there may be no more than {max} {what}")]
    TooMany {
        /// What there are too many of.
        what: &'static str,
        /// The limit that was reached.
        max: usize,
    },
    /// The store itself failed.
    #[error(transparent)]
    Store(#[from] StoreError),
}

/// Why a store could not be opened. Each message names the file and what to do; none of them changes the file.
#[derive(Debug, thiserror::Error)]
pub enum OpenError {
    /// The store is in memory, so there is nothing that a command could open.
    #[error(
        "the store is memory:, which ends with its server; keys and the audit need a file (url = \"sqlite:…\" in [store])"
    )]
    InMemory,
    /// There is no store at this path, because no server has run here.
    #[error("there is no store at {}", .0.display())]
    Missing(PathBuf),
    /// Another process has the file.
    #[error("{} is in use by another process; stop that one, or choose another data directory", .0.display())]
    Locked(PathBuf),
    /// A later version of this program wrote the file.
    #[error(
        "{} has schema version {found}, this program knows up to {known}; use a newer sabir, or another data directory",
        path.display()
    )]
    Newer {
        path: PathBuf,
        /// The schema version of the file.
        found: i64,
        /// The latest schema version that this program knows.
        known: i64,
    },
    /// The file is not a store of this program.
    #[error("{} is not a Sabir store ({reason}); move it away, or choose another data directory", path.display())]
    Foreign {
        path: PathBuf,
        /// How this program can tell.
        reason: String,
    },
    /// The file is a store of this program, but its bytes are not what was written.
    #[error("{} is damaged ({reason}); bring it back from a backup, or move it away to begin anew", path.display())]
    Damaged {
        path: PathBuf,
        /// What the database engine reported.
        reason: String,
    },
    /// The file has no bytes, not even the tables of a new store.
    #[error(
        "{} is there and has no bytes, so what it held is lost; bring it back from a backup, or move it away to begin anew",
        .0.display()
    )]
    Empty(PathBuf),
    /// The log has tasks, and the file with the keys of callers is missing beside it.
    #[error(
        "{} has tasks, and {} with the keys, organisations and replay marks of its callers is missing; bring it back from \
         a backup, or make an empty file of that name to begin with none",
        log.display(),
        guard.display()
    )]
    GuardMissing {
        log: PathBuf,
        /// The file that is missing.
        guard: PathBuf,
    },
    /// The operating system or the database engine failed.
    #[error(
        "cannot open {}: {reason}; check that there is room and that it may be written, or choose another data directory",
        path.display()
    )]
    Io {
        /// The file or directory.
        path: PathBuf,
        /// The error it reported.
        reason: String,
    },
}
