//! The file format: tables, versions, and files that this program refuses to open.

use crate::file_lock::{beside, private};
use crate::{Durability, OpenError};
use rusqlite::config::DbConfig;
use rusqlite::{Connection, OpenFlags, TransactionBehavior};
use std::path::Path;
use std::time::Duration;

/// The format of a file: the task log or the guard's data.
#[derive(Debug)]
pub(super) struct FileFormat {
    /// Whether a file without a byte counts as new. A task log is never empty once it was made, so an empty one has
    /// lost everything.
    may_be_empty: bool,
    /// Distinguishes our files from those of other programs, and from each other.
    application_id: i64,
    /// Each entry migrates a file from the version of its index to the next. Released entries are never edited.
    migrations: &'static [&'static str],
}

/// The task log; its application id reads "SABR".
pub(super) const TASK_LOG: FileFormat = FileFormat {
    may_be_empty: false,
    application_id: 0x5341_4252,
    migrations: &[
        concat!(
            include_str!("migrations/0001_task_log.sql"),
            include_str!("migrations/0001_views.sql"),
            include_str!("migrations/0001_ledger.sql"),
        ),
        include_str!("migrations/0002_agent_data.sql"),
        include_str!("migrations/0003_history_of_open_tasks.sql"),
        include_str!("migrations/0004_stored_bytes.sql"),
        include_str!("migrations/0005_operators.sql"),
    ],
};

/// The version of a task log that can count the bytes of each caller.
pub(super) const COUNTS_BYTES_SINCE: i64 = 4;

/// The guard's data; its application id reads "SABG".
pub(super) const GUARD: FileFormat = FileFormat {
    may_be_empty: true,
    application_id: 0x5341_4247,
    migrations: &[
        include_str!("migrations/guard/0001_guard.sql"),
        include_str!("migrations/guard/0002_replay_meaning.sql"),
    ],
};

/// The name of a database in memory, in errors.
const MEMORY: &str = "memory:";

/// How often opening is retried while another process creates the file, and the pause between two tries. Switching to
/// the write-ahead log is the one operation for which SQLite does not wait.
const OPEN_TRIES: u32 = 100;
const OPEN_PAUSE: Duration = Duration::from_millis(20);
/// How long a command that only reads waits for a process that has locked the file.
const READ_BUSY_TIMEOUT: Duration = Duration::from_secs(5);

/// Opens the one connection that writes, and migrates the file.
pub(super) fn open_writer(path: &Path, format: &FileFormat, durability: Durability) -> Result<Connection, OpenError> {
    let io = |e: rusqlite::Error| OpenError::Io { path: path.into(), reason: e.to_string() };
    if !format.may_be_empty && std::fs::metadata(path).is_ok_and(|m| m.is_file() && m.len() == 0) {
        return Err(OpenError::Empty(path.into()));
    }
    // A file we refuse may have a write-ahead log from a process that was killed; closing must not merge it.
    let has_log = std::fs::metadata(beside(path, "-wal")).is_ok_and(|m| m.len() > 0);
    // Created by this program and not by SQLite, whose files have the permissions of the umask; SQLite gives the files
    // beside this one the same mode.
    private().open(path).map_err(|e| OpenError::Io { path: path.into(), reason: e.to_string() })?;
    let mut connection = Connection::open(path).map_err(io)?;
    connection.set_db_config(DbConfig::SQLITE_DBCONFIG_NO_CKPT_ON_CLOSE, has_log).map_err(io)?;
    check(&connection, path, format)?;
    connection.set_db_config(DbConfig::SQLITE_DBCONFIG_NO_CKPT_ON_CLOSE, false).map_err(io)?;
    switch_to_wal(&connection).map_err(io)?;
    let synchronous = match durability {
        Durability::Full => "FULL",
        Durability::Normal => "NORMAL",
    };
    connection.pragma_update(None, "synchronous", synchronous).map_err(io)?;
    // Small, in KiB: writes go to the right edges of their trees, and other reads are served by the system's page
    // cache.
    connection.pragma_update(None, "cache_size", -1024).map_err(io)?;
    // Savepoint journals are kept in memory: SQLite writes them to a temporary file otherwise.
    connection.pragma_update(None, "temp_store", "MEMORY").map_err(io)?;
    connection.set_prepared_statement_cache_capacity(128);
    migrate(&mut connection, path, format)?;
    Ok(connection)
}

/// Makes an empty database in memory, with its only connection: a second one would be another database.
pub(super) fn open_in_memory(format: &FileFormat) -> Result<Connection, OpenError> {
    let mut connection = Connection::open_in_memory().map_err(|e| memory_error(&e))?;
    connection.pragma_update(None, "temp_store", "MEMORY").map_err(|e| memory_error(&e))?;
    connection.set_prepared_statement_cache_capacity(256);
    migrate(&mut connection, Path::new(MEMORY), format)?;
    Ok(connection)
}

/// The error for a database in memory.
pub(super) fn memory_error(error: &rusqlite::Error) -> OpenError {
    OpenError::Io { path: MEMORY.into(), reason: error.to_string() }
}

fn switch_to_wal(connection: &Connection) -> rusqlite::Result<()> {
    let mut tries = 0;
    loop {
        match connection.pragma_update(None, "journal_mode", "WAL") {
            Err(e) if is_busy(&e) && tries < OPEN_TRIES => {
                tries += 1;
                std::thread::sleep(OPEN_PAUSE);
            }
            outcome => return outcome,
        }
    }
}

/// Opens a connection that only reads.
pub(super) fn open_reader(path: &Path) -> rusqlite::Result<Connection> {
    let flags = OpenFlags::SQLITE_OPEN_READ_ONLY | OpenFlags::SQLITE_OPEN_NO_MUTEX;
    let connection = Connection::open_with_flags(path, flags)?;
    connection.pragma_update(None, "cache_size", -512)?;
    connection.set_prepared_statement_cache_capacity(64);
    Ok(connection)
}

/// Opens an existing file to check all of it, while other processes may have it open. The file stays untouched.
pub(super) fn open_existing(path: &Path, format: &FileFormat) -> Result<Connection, OpenError> {
    let io = |reason: String| OpenError::Io { path: path.into(), reason };
    // Checked here: SQLite's message does not distinguish a missing file from one without read permission.
    std::fs::metadata(path).map_err(|e| io(e.to_string()))?;
    let connection = open_reader(path).map_err(|e| unreadable(path, &e))?;
    // A restart of a server's log, and a command that creates the file, take a moment.
    connection.busy_timeout(READ_BUSY_TIMEOUT).map_err(|e| io(e.to_string()))?;
    match check(&connection, path, format)? {
        0 => Err(OpenError::Foreign { path: path.into(), reason: "it is empty".into() }),
        _ => Ok(connection),
    }
}

/// The file's version; zero for an empty one. A foreign or newer file is an error and stays untouched.
fn check(connection: &Connection, path: &Path, format: &FileFormat) -> Result<usize, OpenError> {
    // On one view of the file: another process may be creating it.
    let view = connection.unchecked_transaction().map_err(|e| unreadable(path, &e))?;
    version(&view, path, format)
}

fn version(connection: &Connection, path: &Path, format: &FileFormat) -> Result<usize, OpenError> {
    let foreign = |reason: String| OpenError::Foreign { path: path.into(), reason };
    let read = |pragma: &str| connection.pragma_query_value(None, pragma, |row| row.get::<_, i64>(0));
    let (application, version) = match (read("application_id"), read("user_version")) {
        (Ok(application), Ok(version)) => (application, version),
        (Err(e), _) | (_, Err(e)) => return Err(unreadable(path, &e)),
    };
    let tables: i64 = connection
        .query_row("SELECT count(*) FROM sqlite_schema", [], |row| row.get(0))
        .map_err(|e| unreadable(path, &e))?;
    if application == 0 && version == 0 && tables == 0 {
        return Ok(0);
    }
    if application != format.application_id {
        return Err(foreign("it holds another program's tables".into()));
    }
    let known = i64::try_from(format.migrations.len()).unwrap_or(i64::MAX);
    match usize::try_from(version) {
        Ok(at) if at <= format.migrations.len() => Ok(at),
        _ => Err(OpenError::Newer { path: path.into(), found: version, known }),
    }
}

/// The error for a file whose version cannot be read.
fn unreadable(path: &Path, error: &rusqlite::Error) -> OpenError {
    use rusqlite::ErrorCode::{DatabaseCorrupt, NotADatabase};
    match error.sqlite_error_code() {
        _ if is_busy(error) => OpenError::Locked(path.into()),
        Some(NotADatabase) => OpenError::Foreign { path: path.into(), reason: error.to_string() },
        // It begins as a database does, but not even its tables can be read.
        Some(DatabaseCorrupt) => OpenError::Damaged { path: path.into(), reason: error.to_string() },
        _ => OpenError::Io { path: path.into(), reason: error.to_string() },
    }
}

fn is_busy(error: &rusqlite::Error) -> bool {
    use rusqlite::ErrorCode::{DatabaseBusy, DatabaseLocked};
    matches!(error.sqlite_error_code(), Some(DatabaseBusy | DatabaseLocked))
}

/// Migrates the file, in one transaction. The version is read inside: another process may be migrating too.
fn migrate(connection: &mut Connection, path: &Path, format: &FileFormat) -> Result<(), OpenError> {
    let io = |e: rusqlite::Error| OpenError::Io { path: path.into(), reason: e.to_string() };
    if check(connection, path, format)? == format.migrations.len() {
        return Ok(());
    }
    let transaction = connection.transaction_with_behavior(TransactionBehavior::Immediate).map_err(io)?;
    let version = version(&transaction, path, format)?;
    for sql in &format.migrations[version..] {
        transaction.execute_batch(sql).map_err(io)?;
    }
    let latest = i64::try_from(format.migrations.len()).unwrap_or(i64::MAX);
    transaction.pragma_update(None, "application_id", format.application_id).map_err(io)?;
    transaction.pragma_update(None, "user_version", latest).map_err(io)?;
    transaction.commit().map_err(io)
}
