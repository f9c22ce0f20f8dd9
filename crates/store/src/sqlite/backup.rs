//! Copies of a store, made while a server works on it, and putting them back.
//!
//! A copy is a store like any other: the task log under the name that was given, the guard's file beside it. Each file is
//! copied from one view of it (`VACUUM INTO`), so writers go on and the copy is what stood there at that moment, without
//! the holes of forgotten tasks. The two views are moments apart, which is harmless: neither file refers to the other.
//!
//! SQLite's other way, copying page by page with pauses, begins anew whenever another process writes, and beside a busy
//! server never ends.
//!
//! Nothing is ever written over: a copy takes its name when it is whole, and a store that gives way is put aside.

use super::check::{self, Checked, Looked};
use super::guard::SqliteGuard;
use super::schema::{self, FileLock, Format, beside};
use crate::OpenError;
use std::fs::{self, File};
use std::io;
use std::path::{Path, PathBuf};

/// What SQLite keeps beside a file. A log or a journal from another life would be taken for this file's own.
const COMPANIONS: [&str; 3] = ["-wal", "-shm", "-journal"];
/// A copy that is not whole yet.
const PARTIAL: &str = ".partial";

/// What was copied.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Copied {
    /// The task log's copy; the guard's is beside it.
    pub path: PathBuf,
    /// Size of both.
    pub bytes: u64,
    /// What is in it.
    pub checked: Checked,
    /// Where the store went that was there before.
    pub aside: Option<PathBuf>,
}

/// What a restored store may take the place of.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Over {
    /// Of nothing.
    Nothing,
    /// Of whatever is there, which is kept under its name with this at the end.
    Aside(String),
}

/// Why there is no copy. What was there before is as it was.
#[derive(Debug, thiserror::Error)]
pub enum CopyError {
    /// The place is taken.
    #[error("{} is there already", .0.display())]
    Exists(PathBuf),
    /// What was to be copied is damaged.
    #[error("{} is not whole: {}", path.display(), checked.problems.first().map_or("", String::as_str))]
    Damaged {
        /// The file.
        path: PathBuf,
        /// What is wrong.
        checked: Box<Checked>,
    },
    /// A store cannot be opened.
    #[error(transparent)]
    Open(#[from] OpenError),
    /// The copy cannot be written.
    #[error("cannot write {}: {reason}", path.display())]
    Write {
        /// The file.
        path: PathBuf,
        /// What the operating system or the database engine said.
        reason: String,
    },
}

/// Copies the store with this task log, and looks whether the copy is whole. The store may be in use, and damage in it
/// is an error: a copy that cannot be put back is none.
pub fn backup(task_log: &Path, into: &Path, looked: &mut dyn FnMut(Looked)) -> Result<Copied, CopyError> {
    let places = [task_log, &SqliteGuard::path_beside(task_log)].map(Path::to_owned);
    copy(&places, into, looked, |_| Ok(None))
}

/// Puts a copy in the place of a store, which nobody may be using.
pub fn restore(
    copy_at: &Path,
    task_log: &Path,
    over: &Over,
    looked: &mut dyn FnMut(Looked),
) -> Result<Copied, CopyError> {
    let places = [copy_at, &SqliteGuard::path_beside(copy_at)].map(Path::to_owned);
    let lock = FileLock::take(task_log)?;
    let restored = match over {
        Over::Nothing => copy(&places, task_log, looked, |_| Ok(None)),
        Over::Aside(suffix) => copy(&places, task_log, looked, |names| put_aside(names, suffix)),
    };
    drop(lock);
    restored
}

/// Copies both files under other names, looks at the copies, lets somebody make room, and gives them their names.
fn copy(
    from: &[PathBuf; 2],
    to: &Path,
    looked: &mut dyn FnMut(Looked),
    make_room: impl FnOnce(&[PathBuf; 2]) -> Result<Option<PathBuf>, CopyError>,
) -> Result<Copied, CopyError> {
    let names = [to.to_owned(), SqliteGuard::path_beside(to)];
    let partial = Partial::beside(to);
    let formats: [&Format; 2] = [&schema::TASK_LOG, &schema::GUARD];
    for ((from, format), to) in from.iter().zip(formats).zip(&partial.0) {
        looked(Looked::Copying(from.clone()));
        copy_file(from, format, to)?;
    }
    let checked = check::check(&partial.0[0], looked)?;
    if !checked.is_whole() {
        return Err(CopyError::Damaged { path: from[0].clone(), checked: Box::new(checked) });
    }
    let aside = make_room(&names)?;
    if let Some(taken) = names.iter().find_map(|name| taken(name)) {
        return Err(CopyError::Exists(taken));
    }
    let mut bytes = 0;
    // The task log last: until it is there, there is no store.
    for (partial, name) in partial.0.iter().zip(&names).rev() {
        bytes += fs::metadata(partial).map_or(0, |m| m.len());
        fs::rename(partial, name).map_err(|e| write_error(name, &e))?;
    }
    sync_directory(to).map_err(|e| write_error(to, &e))?;
    Ok(Copied { path: to.into(), bytes, checked, aside })
}

/// Copies in the making; what is left of them goes when this is dropped.
struct Partial([PathBuf; 2]);

impl Partial {
    fn beside(to: &Path) -> Self {
        let task_log = beside(to, PARTIAL);
        let partial = Self([task_log.clone(), SqliteGuard::path_beside(&task_log)]);
        partial.remove();
        partial
    }

    fn remove(&self) {
        for path in &self.0 {
            for suffix in [""].iter().chain(&COMPANIONS) {
                // Most are not there; one that cannot be removed is in the way when the copy is written, which says so.
                drop(fs::remove_file(beside(path, suffix)));
            }
        }
    }
}

impl Drop for Partial {
    fn drop(&mut self) {
        self.remove();
    }
}

fn copy_file(from: &Path, format: &Format, to: &Path) -> Result<(), CopyError> {
    let connection = schema::open_existing(from, format)?;
    // Made by us, readable by its owner alone; SQLite fills a file that is empty.
    let file = schema::private().open(to).map_err(|e| write_error(to, &e))?;
    let name = to.to_str().ok_or_else(|| write_error(to, &io::Error::other("its name is not UTF-8")))?;
    connection.execute("VACUUM INTO ?1", [name]).map_err(|e| match super::store_error(&e) {
        crate::StoreError::Corrupt(reason) => OpenError::Damaged { path: from.into(), reason }.into(),
        _ => CopyError::Write { path: to.into(), reason: e.to_string() },
    })?;
    file.sync_all().map_err(|e| write_error(to, &e))
}

/// Which file is in the way of one of this name.
fn taken(name: &Path) -> Option<PathBuf> {
    [""].iter().chain(&COMPANIONS).map(|suffix| beside(name, suffix)).find(|path| path.symlink_metadata().is_ok())
}

/// Renames a store with all that belongs to it; gives its new name if there was one. Where it cannot be done, what was done
/// of it is undone.
fn put_aside(names: &[PathBuf; 2], suffix: &str) -> Result<Option<PathBuf>, CopyError> {
    if let Some(taken) = names.iter().find_map(|name| taken(&beside(name, suffix))) {
        return Err(CopyError::Exists(taken));
    }
    names.iter().for_each(|name| empty_log(name));
    let mut done: Vec<(PathBuf, PathBuf)> = Vec::new();
    for name in names {
        // The file last. Who finds it without its log has an older store; who finds a log without its file makes a new
        // one, and SQLite throws the log away.
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

/// Brings what stands in a write-ahead log into its file, so that a crash cannot part them. A store that is put aside may be
/// damaged, and then they go as they are.
fn empty_log(file: &Path) {
    if !file.exists() {
        return;
    }
    let emptied = rusqlite::Connection::open_with_flags(file, rusqlite::OpenFlags::SQLITE_OPEN_READ_WRITE)
        .and_then(|connection| connection.query_row("PRAGMA wal_checkpoint(TRUNCATE)", [], |row| row.get::<_, i64>(0)));
    if let Err(error) = emptied {
        tracing::warn!(file = %file.display(), %error, "what is put aside keeps its write-ahead log");
    }
}

/// A name is kept once its directory is.
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

    /// A file whose latest commit stands in its write-ahead log, as a process leaves it that is killed.
    fn killed(directory: &Path, name: &str) -> PathBuf {
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
        let names = [killed(&home, "a.db"), killed(&home, "a.db.guard")];
        assert_eq!(put_aside(&names, ".before").unwrap(), Some(home.join("a.db.before")));
        for name in names {
            assert!(taken(&name).is_none());
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
        let names = [killed(&home, "a.db"), killed(&home, "a.db.guard")];
        fs::write(beside(&names[1], ".before"), "in the way").unwrap();
        assert!(matches!(put_aside(&names, ".before"), Err(CopyError::Exists(_))));
        assert!(names.iter().all(|name| name.exists()), "also the first of them");
        fs::remove_dir_all(home).unwrap();
    }
}
