//! Backup and restore of a store, while a server works on it.
//!
//! A copy is a store like any other: the task log under the name that was given, the guard's file beside it. Each file
//! is copied from one view of it (`VACUUM INTO`), so writers go on and the copy is the file as of that moment, without
//! the free pages of deleted tasks. The two views are moments apart, which is harmless: neither file refers to the
//! other.
//!
//! SQLite's other way, copying page by page with pauses, starts over whenever another process writes, and beside a busy
//! server never ends.
//!
//! Nothing is ever overwritten: a copy takes its name when it is complete, and a store that is replaced is moved aside.

use super::check;
use super::guard::SqliteGuard;
use super::schema::{self, FileFormat};
use crate::file_lock::{FileLock, beside, private};
use crate::{CheckProgress, CopyError, CopyReport, ExistingStore, OpenError};
use std::fs::{self, File};
use std::io;
use std::path::{Path, PathBuf};

/// Files that SQLite keeps beside a database. SQLite would apply a stale log or journal to the new file.
const COMPANIONS: [&str; 3] = ["-wal", "-shm", "-journal"];
/// The suffix of a copy that is not complete yet.
const PARTIAL: &str = ".partial";

/// Copies the store with this task log, and checks the copy. The store may be in use. Damage in it is an error: a copy
/// that cannot be restored is useless.
pub(crate) fn backup(
    task_log: &Path,
    into: &Path,
    looked: &mut dyn FnMut(CheckProgress),
) -> Result<CopyReport, CopyError> {
    let places = [task_log, &SqliteGuard::path_beside(task_log)].map(Path::to_owned);
    copy(&places, into, looked, |_| Ok(None))
}

/// Replaces a store with a copy. No process may be using the store.
pub(crate) fn restore(
    copy_at: &Path,
    task_log: &Path,
    over: &ExistingStore,
    looked: &mut dyn FnMut(CheckProgress),
) -> Result<CopyReport, CopyError> {
    let places = [copy_at, &SqliteGuard::path_beside(copy_at)].map(Path::to_owned);
    let lock = FileLock::take(task_log)?;
    let restored = match over {
        ExistingStore::Refuse => copy(&places, task_log, looked, |_| Ok(None)),
        ExistingStore::MoveAside(suffix) => copy(&places, task_log, looked, |names| put_aside(names, suffix)),
    };
    drop(lock);
    restored
}

/// Copies both files under temporary names, checks the copies, lets the caller make room, and renames them.
fn copy(
    from: &[PathBuf; 2],
    to: &Path,
    looked: &mut dyn FnMut(CheckProgress),
    make_room: impl FnOnce(&[PathBuf; 2]) -> Result<Option<PathBuf>, CopyError>,
) -> Result<CopyReport, CopyError> {
    let names = [to.to_owned(), SqliteGuard::path_beside(to)];
    let partial = PartialCopy::beside(to);
    let formats: [&FileFormat; 2] = [&schema::TASK_LOG, &schema::GUARD];
    for ((from, format), to) in from.iter().zip(formats).zip(&partial.0) {
        looked(CheckProgress::Copying(from.clone()));
        copy_file(from, format, to)?;
    }
    let checked = check::check(&partial.0[0], looked)?;
    if !checked.is_whole() {
        return Err(CopyError::Damaged { path: from[0].clone(), checked: Box::new(checked) });
    }
    let aside = make_room(&names)?;
    if let Some(taken) = names.iter().find_map(|name| first_existing(name)) {
        return Err(CopyError::Exists(taken));
    }
    let mut bytes = 0;
    // The task log last: without it there is no store.
    for (partial, name) in partial.0.iter().zip(&names).rev() {
        bytes += fs::metadata(partial).map_or(0, |m| m.len());
        fs::rename(partial, name).map_err(|e| write_error(name, &e))?;
    }
    sync_directory(to).map_err(|e| write_error(to, &e))?;
    let [path, guard] = names;
    Ok(CopyReport { path, guard, bytes, check_report: checked, aside })
}

/// Temporary copies; those that were not renamed are deleted on drop.
struct PartialCopy([PathBuf; 2]);

impl PartialCopy {
    fn beside(to: &Path) -> Self {
        let task_log = beside(to, PARTIAL);
        let partial = Self([task_log.clone(), SqliteGuard::path_beside(&task_log)]);
        partial.remove();
        partial
    }

    fn remove(&self) {
        for path in &self.0 {
            for suffix in [""].iter().chain(&COMPANIONS) {
                // Most are not there; one that cannot be removed makes writing the copy fail, which is reported.
                drop(fs::remove_file(beside(path, suffix)));
            }
        }
    }
}

impl Drop for PartialCopy {
    fn drop(&mut self) {
        self.remove();
    }
}

fn copy_file(from: &Path, format: &FileFormat, to: &Path) -> Result<(), CopyError> {
    let connection = schema::open_existing(from, format)?;
    // Created by this program, readable by its owner alone; SQLite fills a file that is empty.
    let file = private().open(to).map_err(|e| write_error(to, &e))?;
    let name = to.to_str().ok_or_else(|| write_error(to, &io::Error::other("its name is not UTF-8")))?;
    connection.execute("VACUUM INTO ?1", [name]).map_err(|e| match super::store_error(&e) {
        crate::StoreError::Corrupt(reason) => OpenError::Damaged { path: from.into(), reason }.into(),
        _ => CopyError::Write { path: to.into(), reason: e.to_string() },
    })?;
    file.sync_all().map_err(|e| write_error(to, &e))
}

/// The existing file that prevents one of this name.
fn first_existing(name: &Path) -> Option<PathBuf> {
    [""].iter().chain(&COMPANIONS).map(|suffix| beside(name, suffix)).find(|path| path.symlink_metadata().is_ok())
}

/// Renames a store with all its files; returns its new name if there was one. When a rename fails, the earlier ones are
/// undone.
fn put_aside(names: &[PathBuf; 2], suffix: &str) -> Result<Option<PathBuf>, CopyError> {
    if let Some(taken) = names.iter().find_map(|name| first_existing(&beside(name, suffix))) {
        return Err(CopyError::Exists(taken));
    }
    names.iter().for_each(|name| checkpoint_log(name));
    let mut done: Vec<(PathBuf, PathBuf)> = Vec::new();
    for name in names {
        // The file last. A process that finds the file without its log sees an older store; one that finds a log
        // without its file makes a new file, and SQLite discards the log.
        for companion in COMPANIONS.iter().chain(&[""]) {
            let (old, new) = (beside(name, companion), beside(&beside(name, suffix), companion));
            match fs::rename(&old, &new) {
                Ok(()) => done.push((old, new)),
                Err(e) if e.kind() == io::ErrorKind::NotFound => {}
                Err(e) => {
                    let back = done.iter().rev().map(|(old, new)| fs::rename(new, old));
                    return Err(match back.collect::<io::Result<Vec<()>>>() {
                        Ok(_) => write_error(&old, &e),
                        Err(again) => write_error(
                            &old,
                            &io::Error::other(format!("{e}; some files end in {suffix} now: {again}")),
                        ),
                    });
                }
            }
        }
    }
    Ok(done.into_iter().map(|(_, new)| new).find(|new| *new == beside(&names[0], suffix)))
}

/// Moves the content of a write-ahead log into its file, so that a crash cannot separate them. A store that is moved
/// aside may be damaged, and then both are moved as they are.
fn checkpoint_log(file: &Path) {
    if !file.exists() {
        return;
    }
    let emptied = rusqlite::Connection::open_with_flags(file, rusqlite::OpenFlags::SQLITE_OPEN_READ_WRITE)
        .and_then(|connection| connection.query_row("PRAGMA wal_checkpoint(TRUNCATE)", [], |row| row.get::<_, i64>(0)));
    if let Err(error) = emptied {
        tracing::warn!(file = %file.display(), %error, "what is put aside keeps its write-ahead log");
    }
}

/// A rename is durable once its directory is synced.
fn sync_directory(path: &Path) -> io::Result<()> {
    let directory = path.parent().filter(|p| !p.as_os_str().is_empty()).unwrap_or(Path::new("."));
    File::open(directory)?.sync_all()
}

fn write_error(path: &Path, error: &io::Error) -> CopyError {
    CopyError::Write { path: path.into(), reason: error.to_string() }
}

#[cfg(test)]
mod tests {
    use super::*;
    use rusqlite::Connection;

    /// A file whose latest commit is in its write-ahead log, as a killed process leaves it.
    fn store_after_kill(directory: &Path, name: &str) -> PathBuf {
        let (made, left) = (directory.join(format!("made-{name}")), directory.join(name));
        let connection = Connection::open(&made).unwrap();
        connection.pragma_update(None, "journal_mode", "WAL").unwrap();
        connection.execute_batch("CREATE TABLE t (n); INSERT INTO t VALUES (7)").unwrap();
        for companion in ["", "-wal"] {
            fs::copy(beside(&made, companion), beside(&left, companion)).unwrap();
        }
        left
    }

    fn directory(name: &str) -> PathBuf {
        let path = std::env::temp_dir().join(format!("sabir-aside-{}-{name}", std::process::id()));
        drop(fs::remove_dir_all(&path));
        fs::create_dir_all(&path).unwrap();
        path
    }

    #[test]
    fn what_is_put_aside_is_whole_without_its_log() {
        let home = directory("whole");
        let names = [store_after_kill(&home, "a.db"), store_after_kill(&home, "a.db.guard")];
        assert_eq!(put_aside(&names, ".before").unwrap(), Some(home.join("a.db.before")));
        for name in names {
            assert!(first_existing(&name).is_none());
            let aside = beside(&name, ".before");
            let log = fs::metadata(beside(&aside, "-wal")).map_or(0, |log| log.len());
            assert_eq!(log, 0, "a crash between the two renames parts nothing");
            let n = Connection::open(aside).unwrap().query_row("SELECT n FROM t", [], |row| row.get::<_, i64>(0));
            assert_eq!(n, Ok(7));
        }
        fs::remove_dir_all(home).unwrap();
    }

    #[test]
    fn who_cannot_put_all_of_it_aside_leaves_all_of_it() {
        let home = directory("undone");
        let names = [store_after_kill(&home, "a.db"), store_after_kill(&home, "a.db.guard")];
        fs::write(beside(&names[1], ".before"), "in the way").unwrap();
        assert!(matches!(put_aside(&names, ".before"), Err(CopyError::Exists(_))));
        assert!(names.iter().all(|name| name.exists()), "also the first of them");
        fs::remove_dir_all(home).unwrap();
    }
}
