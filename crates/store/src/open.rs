//! Opening a store by its URL: the only place that knows which backends there are.
//!
//! `sqlite:PATH` is a file with the tasks, with the file of the guard beside it. `memory:` is the same in memory, and
//! ends with its process.

use crate::sqlite::{self, SqliteGuard, SqliteLog};
use crate::{GuardStore, Metrics, OpenError, Store, TaskStore};
use sabir_proto::Caller;
use std::path::{Path, PathBuf};
use std::sync::Arc;

/// How durable an acknowledged step is.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Durability {
    /// Synced to disk before it is acknowledged: survives the machine losing power.
    Full,
    /// Handed to the operating system: survives the process, not the machine.
    Normal,
}

/// The thread that runs the writer.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum WriterMode {
    /// A thread of its own, with group commits. For servers with files.
    Threaded,
    /// The caller's thread, one step at a time. For commands, and for the simulator, which owns all scheduling.
    Inline,
}

/// Whether the bytes of each caller are counted.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub enum ByteCounting {
    /// As the store was left: what commands do that open it without the server's configuration.
    #[default]
    AsFound,
    /// They are counted, from this start on if they were not.
    On,
    /// They are not counted, and what was counted is erased.
    Off,
}

/// The options for opening a store.
#[derive(Debug, Clone)]
pub struct OpenOptions {
    /// How durable an acknowledged step is.
    pub durability: Durability,
    /// The thread that runs the writer; in memory always the caller's.
    pub writer_mode: WriterMode,
    /// The metrics to update.
    pub metrics: Metrics,
    /// Whether the bytes of each caller are counted.
    pub byte_counting: ByteCounting,
}

impl Default for OpenOptions {
    fn default() -> Self {
        Self {
            durability: Durability::Full,
            writer_mode: WriterMode::Threaded,
            metrics: Metrics::default(),
            byte_counting: ByteCounting::default(),
        }
    }
}

/// Why a text is not the URL of a store. It has no user name, password and query.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
#[error("{0:?} is not known here: tasks are kept in SQLite or in memory; write sqlite:PATH or memory:")]
pub struct InvalidStoreUrl(String);

/// Where a store is: `sqlite:PATH`, or `memory:`.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct StoreUrl {
    /// The file with the tasks; none for a store in memory.
    file: Option<PathBuf>,
}

impl StoreUrl {
    /// The URL of a new store in memory.
    pub const MEMORY: Self = Self { file: None };

    /// Parses a URL. A relative path starts at `base`.
    pub fn parse(url: &str, base: &Path) -> Result<Self, InvalidStoreUrl> {
        match url.strip_prefix("sqlite:") {
            Some(path) => Ok(Self { file: Some(base.join(path)) }),
            None if url == "memory:" => Ok(Self::MEMORY),
            None => Err(InvalidStoreUrl(without_credentials(url))),
        }
    }

    /// The URL of the store in a data directory, as text.
    pub fn text_in_directory(directory: &Path) -> String {
        format!("sqlite:{}", directory.join("sabir.db").display())
    }

    /// The file with the tasks, if the store has files.
    pub fn file(&self) -> Option<&Path> {
        self.file.as_deref()
    }

    /// The file with the tasks, whether it exists or not.
    pub fn require_file(&self) -> Result<&Path, OpenError> {
        self.file().ok_or(OpenError::InMemory)
    }

    /// The file with the tasks, if it exists.
    pub fn existing_file(&self) -> Result<&Path, OpenError> {
        let file = self.require_file()?;
        // A directory where the first key was made before the first start has no tasks yet.
        if file.exists() { Ok(file) } else { Err(OpenError::Missing(file.into())) }
    }

    /// The file of the guard, if the store has files.
    pub fn guard_file(&self) -> Option<PathBuf> {
        self.file().map(SqliteGuard::path_beside)
    }

    /// Whether the guard's part of the store exists.
    pub fn has_guard(&self) -> bool {
        self.guard_file().is_some_and(|file| file.exists())
    }

    /// Creates the directory of the files, readable by its owner alone, if it does not exist.
    pub fn create_directory(&self) -> Result<(), OpenError> {
        let Some(directory) = self.file().and_then(Path::parent) else { return Ok(()) };
        create_private_directory(directory).map_err(|e| OpenError::Io { path: directory.into(), reason: e.to_string() })
    }
}

/// A URL without its user name, password and query.
fn without_credentials(url: &str) -> String {
    let Some((scheme, rest)) = url.split_once("://") else { return url.to_owned() };
    let rest = rest.split(['?', '#']).next().unwrap_or(rest);
    match rest.rsplit_once('@') {
        Some((_, place)) => format!("{scheme}://…@{place}"),
        None => format!("{scheme}://{rest}"),
    }
}

/// Creates a data directory, readable by its owner alone: it holds the messages of all callers. An existing one is left
/// as it is.
pub fn create_private_directory(directory: &Path) -> std::io::Result<()> {
    use std::os::unix::fs::{DirBuilderExt, PermissionsExt};
    if directory.as_os_str().is_empty() || directory.is_dir() {
        return Ok(());
    }
    std::fs::DirBuilder::new().recursive(true).mode(0o700).create(directory)?;
    // The umask may have changed the mode above, and parents were created with it; this call sets it for certain.
    std::fs::set_permissions(directory, std::fs::Permissions::from_mode(0o700))
}

/// Opens a store for a server, and creates it if there is none. A store that has tasks and no file of the guard is
/// refused: every key would be unknown, and signed requests could be replayed.
pub fn open(url: &StoreUrl, options: OpenOptions) -> Result<Store, OpenError> {
    let log = open_log(url, options.clone())?;
    if let Some(file) = url.file() {
        log.require_guard(file)?;
    }
    Ok(Store { tasks: TaskStore::new(Arc::new(log)), guard: open_guard(url, options)? })
}

/// Opens the tasks of a store alone, and creates them if there are none.
pub fn open_tasks(url: &StoreUrl, options: OpenOptions) -> Result<TaskStore, OpenError> {
    Ok(TaskStore::new(Arc::new(open_log(url, options)?)))
}

fn open_log(url: &StoreUrl, options: OpenOptions) -> Result<SqliteLog, OpenError> {
    url.create_directory()?;
    match url.file() {
        Some(file) => SqliteLog::open(file, options),
        None => SqliteLog::in_memory(options),
    }
}

/// Opens the guard's part of a store alone, which a server may have open as well, and creates it if there is none.
pub fn open_guard(url: &StoreUrl, options: OpenOptions) -> Result<Arc<dyn GuardStore>, OpenError> {
    Ok(Arc::new(match url.guard_file() {
        Some(file) => SqliteGuard::open(&file, options)?,
        None => SqliteGuard::in_memory(options)?,
    }))
}

/// The number of bytes that a caller has stored, in a store which a server may have open. `None` where they are not
/// counted: no server has run on the store with a limit, or the last one ran without.
pub fn stored_bytes(url: &StoreUrl, caller: &Caller) -> Result<Option<u64>, OpenError> {
    match url.existing_file() {
        Ok(file) => sqlite::stored_bytes(file, caller),
        Err(OpenError::Missing(_) | OpenError::InMemory) => Ok(None),
        Err(other) => Err(other),
    }
}
