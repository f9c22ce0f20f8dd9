//! The file: its tables, its version, and when we refuse to touch it.

use super::Durability;
use crate::OpenError;
use rusqlite::config::DbConfig;
use rusqlite::{Connection, OpenFlags};
use std::fs::{File, OpenOptions, TryLockError};
use std::path::{Path, PathBuf};

/// "SABR": tells our files from other people's.
const APPLICATION_ID: i64 = 0x5341_4252;

/// Each entry brings a file from the version of its index to the next. Released entries are never edited.
const MIGRATIONS: [&str; 1] = [include_str!("migrations/0001_task_log.sql")];

/// An exclusive lock beside the file, held for as long as the store is open: heads, retry keys and running agents live
/// in one process only.
#[derive(Debug)]
pub(super) struct FileLock(#[expect(dead_code, reason = "held, not read: closing the file releases the lock")] File);

impl FileLock {
    pub(super) fn take(path: &Path) -> Result<Self, OpenError> {
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

/// A file that belongs to this one. The whole name goes before the suffix: `a.db` and `a.sqlite` are two stores.
fn beside(path: &Path, suffix: &str) -> PathBuf {
    let mut name = path.as_os_str().to_owned();
    name.push(suffix);
    name.into()
}

/// For files that only their owner may read: they hold everything anybody ever said.
fn private() -> OpenOptions {
    use std::os::unix::fs::OpenOptionsExt;
    let mut options = OpenOptions::new();
    options.create(true).truncate(false).write(true).mode(0o600);
    options
}

/// Opens the one connection that writes, and brings the file up to date.
pub(super) fn open_writer(path: &Path, durability: Durability) -> Result<Connection, OpenError> {
    let io = |e: rusqlite::Error| OpenError::Io { path: path.into(), reason: e.to_string() };
    // A file we refuse may have a write-ahead log from a process that was killed; closing must not merge it.
    let has_log = std::fs::metadata(beside(path, "-wal")).is_ok_and(|m| m.len() > 0);
    // Made by us and not by SQLite, whose files are open to whoever the mask lets in; it gives the files beside this one
    // the same mode.
    private().open(path).map_err(|e| OpenError::Io { path: path.into(), reason: e.to_string() })?;
    let mut connection = Connection::open(path).map_err(io)?;
    connection.set_db_config(DbConfig::SQLITE_DBCONFIG_NO_CKPT_ON_CLOSE, has_log).map_err(io)?;
    let version = check(&connection, path)?;
    connection.set_db_config(DbConfig::SQLITE_DBCONFIG_NO_CKPT_ON_CLOSE, false).map_err(io)?;
    connection.pragma_update(None, "journal_mode", "WAL").map_err(io)?;
    let synchronous = match durability {
        Durability::Full => "FULL",
        Durability::Normal => "NORMAL",
    };
    connection.pragma_update(None, "synchronous", synchronous).map_err(io)?;
    // Checkpoints run on their own connection: inside the writer's commit they are the 20 to 50 ms pauses.
    connection.pragma_update(None, "wal_autocheckpoint", 0).map_err(io)?;
    // Small, in KiB: writes go to the right edges of their trees, and what else is read is in the system's page cache.
    connection.pragma_update(None, "cache_size", -1024).map_err(io)?;
    connection.set_prepared_statement_cache_capacity(64);
    migrate(&mut connection, version).map_err(io)?;
    Ok(connection)
}

/// A connection that only reads.
pub(super) fn open_reader(path: &Path) -> rusqlite::Result<Connection> {
    let flags = OpenFlags::SQLITE_OPEN_READ_ONLY | OpenFlags::SQLITE_OPEN_NO_MUTEX;
    let connection = Connection::open_with_flags(path, flags)?;
    connection.pragma_update(None, "cache_size", -512)?;
    connection.set_prepared_statement_cache_capacity(64);
    Ok(connection)
}

/// The file's version; zero for an empty one. Anything that is not ours, or is newer, is an error and stays untouched.
fn check(connection: &Connection, path: &Path) -> Result<usize, OpenError> {
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
    if application != APPLICATION_ID {
        return Err(foreign("it holds another program's tables".into()));
    }
    let known = i64::try_from(MIGRATIONS.len()).unwrap_or(i64::MAX);
    match usize::try_from(version) {
        Ok(at) if at <= MIGRATIONS.len() => Ok(at),
        _ => Err(OpenError::Newer { path: path.into(), found: version, known }),
    }
}

/// Why a file cannot even be asked for its version.
fn unreadable(path: &Path, error: &rusqlite::Error) -> OpenError {
    use rusqlite::ErrorCode::{DatabaseBusy, DatabaseCorrupt, DatabaseLocked, NotADatabase};
    match error.sqlite_error_code() {
        Some(DatabaseBusy | DatabaseLocked) => OpenError::Locked(path.into()),
        Some(NotADatabase | DatabaseCorrupt) => OpenError::Foreign { path: path.into(), reason: error.to_string() },
        _ => OpenError::Io { path: path.into(), reason: error.to_string() },
    }
}

fn migrate(connection: &mut Connection, from: usize) -> rusqlite::Result<()> {
    for (version, sql) in MIGRATIONS.iter().enumerate().skip(from) {
        let transaction = connection.transaction()?;
        transaction.execute_batch(sql)?;
        transaction.pragma_update(None, "application_id", APPLICATION_ID)?;
        transaction.pragma_update(None, "user_version", i64::try_from(version).unwrap_or(i64::MAX) + 1)?;
        transaction.commit()?;
    }
    Ok(())
}
