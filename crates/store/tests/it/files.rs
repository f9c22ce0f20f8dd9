//! Tests of store files: our file survives, another program's file is not changed, and a full disk is not fatal.

use sabir_proto::{Seq, TaskState};
use sabir_store::{
    AppendError, OpenError, OpenOptions, Step, StoreError, TaskListQuery, TaskStore, WriterMode, open_tasks,
};
use sabir_testkit::contract::{LogFixture, SqliteLogFixture, url_of};
use sabir_testkit::scripted_task::{ScriptedEvent, ScriptedTask, TaskFactory, owner};
use sabir_testkit::wait::wait;
use std::fs;
use std::path::{Path, PathBuf};

/// Where SQLite's header keeps `user_version` and `application_id`, as big-endian numbers.
const USER_VERSION_AT: usize = 60;
const APPLICATION_ID_AT: usize = 68;

/// A closed store with a few tasks in it.
fn some_store() -> (SqliteLogFixture, Vec<ScriptedTask>) {
    let (mut author, scope) = (TaskFactory::new(1), owner("ann"));
    let mut bench = SqliteLogFixture::new(WriterMode::Inline);
    let mut stories: Vec<ScriptedTask> = (0..5).map(|_| author.new_task(&scope)).collect();
    for story in &mut stories {
        wait(bench.log().append(story.open(&mut author, &[ScriptedEvent::Status(TaskState::Working)]))).unwrap();
    }
    bench.close();
    (bench, stories)
}

fn patch(path: &Path, at: usize, number: u32) {
    let mut bytes = fs::read(path).unwrap();
    bytes[at..at + 4].copy_from_slice(&number.to_be_bytes());
    fs::write(path, bytes).unwrap();
}

/// Every file beside the store with its bytes, but for the lock and SQLite's index of the write-ahead log, which every
/// reader of the file makes anew.
fn all_bytes(path: &Path) -> Vec<(PathBuf, Vec<u8>)> {
    let mut files: Vec<_> = fs::read_dir(path.parent().unwrap())
        .unwrap()
        .map(|entry| entry.unwrap().path())
        .filter(|p| p.extension().is_some_and(|e| e != "lock" && e != "db-shm"))
        .map(|p| (p.clone(), fs::read(&p).unwrap()))
        .collect();
    files.sort();
    files
}

/// Opening is refused in these words, and not a byte changes.
#[track_caller]
fn check_refused(path: &Path, words: &[&str]) {
    let before = all_bytes(path);
    for _ in 0..2 {
        let error =
            open_tasks(&url_of(path), OpenOptions::default()).expect_err("a file like this is refused").to_string();
        assert!(error.contains(&*path.to_string_lossy()), "{error} does not name the file");
        for word in words {
            assert!(error.contains(word), "{error} does not say {word}");
        }
        let after = all_bytes(path);
        assert!(before == after, "{:?} became {:?}", names(&before), names(&after));
    }
}

fn names(files: &[(PathBuf, Vec<u8>)]) -> Vec<(&Path, usize)> {
    files.iter().map(|(path, bytes)| (path.as_path(), bytes.len())).collect()
}

#[test]
fn a_store_in_use_is_refused() {
    let (mut bench, _) = some_store();
    bench.reopen();
    check_refused(&bench.path(), &["in use by another process", "stop that one"]);
    bench.close();
    assert!(open_tasks(&url_of(&bench.path()), OpenOptions::default()).is_ok());
}

#[test]
fn stores_side_by_side_are_not_in_each_others_way() {
    let dir = tempfile::tempdir().unwrap();
    let open = |name: &str| open_tasks(&url_of(&dir.path().join(name)), OpenOptions::default());
    let _held: Vec<TaskStore> = ["a.db", "a.sqlite", "a"].into_iter().map(|name| open(name).unwrap()).collect();
    assert!(matches!(open("a.db"), Err(OpenError::Locked(_))), "a name of its own, and still a lock");
}

#[test]
fn a_store_of_a_later_version_is_refused() {
    let (bench, _) = some_store();
    patch(&bench.path(), USER_VERSION_AT, 99);
    check_refused(&bench.path(), &["version 99", "newer sabir"]);
}

#[test]
fn another_programs_tables_are_refused() {
    for application in [0, 0x1234_5678] {
        let (bench, _) = some_store();
        patch(&bench.path(), APPLICATION_ID_AT, application);
        check_refused(&bench.path(), &["not a Sabir store", "another program's tables", "move it away"]);
    }
}

#[test]
fn random_bytes_are_refused() {
    let dir = tempfile::tempdir().unwrap();
    for (n, bytes) in [b"hello, I am a diary\n".repeat(400), vec![0; 4096], vec![7; 100]].into_iter().enumerate() {
        let path = dir.path().join(format!("diary{n}.db"));
        fs::write(&path, bytes).unwrap();
        check_refused(&path, &["not a Sabir store", "move it away"]);
    }
}

/// A killed process leaves a write-ahead log behind. Merging it would keep the contents, but a refused file must not be
/// changed.
#[test]
fn a_refused_file_keeps_its_write_ahead_log() {
    for (at, number, words) in [(USER_VERSION_AT, 99, "newer sabir"), (APPLICATION_ID_AT, 0, "not a Sabir store")] {
        let (mut bench, stories) = some_store();
        bench.reopen();
        // Changes a page other than the first, so that the header in the file itself is the one that counts.
        let step = Step { turn: Some((Seq(0), 2)), ..stories[0].empty_step() };
        wait(bench.log().append(step)).unwrap();
        let killed = tempfile::tempdir().unwrap();
        let path = killed.path().join("sabir.db");
        for suffix in ["", "-wal"] {
            let from = format!("{}{suffix}", bench.path().display());
            fs::copy(from, format!("{}{suffix}", path.display())).unwrap();
        }
        patch(&path, at, number);
        check_refused(&path, &[words]);
    }
}

#[test]
fn steps_on_their_way_are_kept_when_the_store_is_closed() {
    let (mut author, scope) = (TaskFactory::new(2), owner("ann"));
    let mut bench = SqliteLogFixture::new(WriterMode::Threaded);
    let answers: Vec<_> =
        (0..200).map(|_| bench.log().append(author.new_task(&scope).open_settled(TaskState::Completed))).collect();
    bench.reopen();
    let kept = answers.into_iter().map(wait).filter(Result::is_ok).count();
    let listing = TaskListQuery {
        scope,
        context: None,
        state: None,
        since: None,
        limit: 1000,
        bytes_max: usize::MAX,
        token: None,
    };
    assert_eq!(wait(bench.log().list(listing)).unwrap().tasks.len(), kept);
    assert_eq!(kept, 200);
}

#[test]
fn a_full_disk_refuses_writes_and_nothing_else() {
    for writing in [WriterMode::Inline, WriterMode::Threaded] {
        let (mut author, scope) = (TaskFactory::new(3), owner("ann"));
        let bench = SqliteLogFixture::new(writing);
        let mut kept: Vec<ScriptedTask> = Vec::new();
        // The current size of the file: SQLite raises any lower number to that.
        bench.store().upkeep.set_pages_max(1).unwrap();
        let mut refused = loop {
            let mut story = author.new_task(&scope);
            match wait(bench.log().append(story.open(&mut author, &[ScriptedEvent::Chunk; 40]))) {
                Ok(()) => kept.push(story),
                Err(error) => {
                    assert_eq!(error, AppendError::Store(StoreError::Full));
                    break author.new_task(&scope);
                }
            }
            assert!(kept.len() < 1000, "a file of bounded size takes everything");
        };
        let check = |bench: &SqliteLogFixture, kept: &[ScriptedTask]| {
            for story in kept {
                story.assert_stored(wait(bench.log().load(story.id())).unwrap().as_ref());
            }
            let listing = TaskListQuery {
                scope: scope.clone(),
                context: None,
                state: None,
                since: None,
                limit: 2000,
                bytes_max: usize::MAX,
                token: None,
            };
            let listed = wait(bench.log().list(listing)).unwrap();
            assert_eq!((listed.tasks.len(), listed.total), (kept.len(), u64::try_from(kept.len()).unwrap()));
        };
        check(&bench, &kept);
        let again = refused.clone().open(&mut author, &[ScriptedEvent::Chunk; 40]);
        assert_eq!(wait(bench.log().append(again)), Err(AppendError::Store(StoreError::Full)));
        // Also for a new owner, whose number is written first.
        let stranger = author.new_task(&owner("bob")).open(&mut author, &[ScriptedEvent::Chunk; 40]);
        assert_eq!(wait(bench.log().append(stranger)), Err(AppendError::Store(StoreError::Full)));
        bench.store().upkeep.set_pages_max(1_000_000).unwrap();
        wait(bench.log().append(refused.open(&mut author, &[ScriptedEvent::Chunk; 40]))).unwrap();
        kept.push(refused);
        check(&bench, &kept);
    }
}
