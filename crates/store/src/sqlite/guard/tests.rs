//! Tests of what only a file can show: what survives, what other processes see, and tampering.

use super::*;
use crate::{AuditOutcome, ChainBreak, Tampering};
use crate::{Durability, OpenOptions, WriterMode};
use sabir_proto::Caller;
use std::fs;
use std::pin::Pin;
use std::process::{Command, Stdio};
use std::task::{Context, Poll, Waker};
use std::time::{Duration, Instant};

/// The variable with the file of `child_that_writes_until_it_is_killed`.
const CHILD_FILE: &str = "SABIR_TEST_GUARD_FILE";

fn wait<T, E: From<StoreError>>(mut answer: StoreFuture<T, E>) -> Result<T, E> {
    let began = Instant::now();
    loop {
        if let Poll::Ready(answer) = Pin::new(&mut answer).poll(&mut Context::from_waker(Waker::noop())) {
            return answer;
        }
        assert!(began.elapsed() < Duration::from_secs(20), "an answer does not come");
        std::thread::sleep(Duration::from_millis(1));
    }
}

fn at(ms: i64) -> Timestamp {
    Timestamp::from_millis(1_780_308_000_000 + ms)
}

fn by(ms: i64) -> AuditActor {
    AuditActor { caller: Caller::named("ann"), scheme: "console", at: at(ms) }
}

fn id(text: &str) -> KeyId {
    KeyId::parse(text).unwrap()
}

fn refusal(caller: &str, ms: i64) -> AuditRecord {
    AuditRecord::refusal(at(ms), Caller::named(caller), "api-key", "SendMessage", "rate")
}

fn options(writing: WriterMode) -> OpenOptions {
    OpenOptions { durability: Durability::Normal, writer_mode: writing, ..OpenOptions::default() }
}

fn open(path: &Path, writing: WriterMode) -> SqliteGuard {
    SqliteGuard::open(path, options(writing)).unwrap()
}

fn place() -> (tempfile::TempDir, PathBuf) {
    let dir = tempfile::tempdir().unwrap();
    let path = SqliteGuard::path_beside(&dir.path().join("sabir.db"));
    (dir, path)
}

fn create(guard: &SqliteGuard, name: &str) -> ApiKey {
    wait(guard.create(id(name), KeyFingerprint::of(name), KeyTerms::default(), by(0))).unwrap()
}

fn is_valid(guard: &SqliteGuard, text: &str) -> bool {
    matches!(guard.find(&KeyFingerprint::hash_of(text), at(1)), Ok(KeyStatus::Valid(_)))
}

#[track_caller]
fn within_a_second(mut happens: impl FnMut() -> bool) {
    let began = Instant::now();
    while !happens() {
        assert!(began.elapsed() < Duration::from_secs(1), "not within a second");
        std::thread::sleep(Duration::from_millis(5));
    }
}

#[test]
fn a_change_by_another_process_is_seen_within_a_second() {
    let (_dir, path) = place();
    let server = open(&path, WriterMode::Threaded);
    let command = open(&path, WriterMode::Inline);
    create(&command, "k");
    within_a_second(|| is_valid(&server, "k"));
    wait(command.rotate(id("k"), KeyFingerprint::of("k2"), at(0), by(0))).unwrap();
    within_a_second(|| is_valid(&server, "k2") && !is_valid(&server, "k"));
    wait(command.revoke(id("k"), by(1))).unwrap();
    within_a_second(|| matches!(server.find(&KeyFingerprint::hash_of("k2"), at(1)), Ok(KeyStatus::Revoked(_))));
    let (domain, secret) = (Domain::parse("a.org").unwrap(), SecretRef::parse("env:A").unwrap());
    wait(command.add(domain, secret, by(2))).unwrap();
    within_a_second(|| server.organisation("A.ORG").unwrap().is_some());
    // Commands see the server's changes, and the server sees its own at once.
    create(&server, "s");
    assert!(is_valid(&server, "s") && is_valid(&command, "s"));
    assert_eq!(wait(server.verify(None)).unwrap(), wait(command.verify(None)).unwrap());
    assert_eq!(wait(server.verify(None)).unwrap().entries, 5);
}

#[test]
fn any_number_may_begin_at_once() {
    for _ in 0..5 {
        let (_dir, path) = place();
        let (path, barrier) = (&path, &std::sync::Barrier::new(8));
        std::thread::scope(|scope| {
            for n in 0..8 {
                scope.spawn(move || {
                    barrier.wait();
                    let guard = open(path, if n % 2 == 0 { WriterMode::Inline } else { WriterMode::Threaded });
                    create(&guard, &format!("k{n}"));
                });
            }
        });
        let guard = open(path, WriterMode::Inline);
        assert_eq!(wait(guard.list()).unwrap().len(), 8);
        let verified = wait(guard.verify(None)).unwrap();
        assert_eq!((verified.entries, verified.first_break), (8, None));
    }
}

/// Two servers on one file are not supported, and yet a replay at the other one is detected.
#[test]
fn of_two_processes_one_is_first() {
    let (_dir, path) = place();
    let both = [open(&path, WriterMode::Threaded), open(&path, WriterMode::Threaded)];
    for n in 0..20 {
        let asked = both.each_ref().map(|guard| guard.check_replay("a", [n; 16], at(0), at(1000)));
        let mut seen = asked.map(|answer| wait(answer).unwrap());
        seen.sort_by_key(|seen| *seen != ReplayVerdict::First);
        assert_eq!(seen, [ReplayVerdict::First, ReplayVerdict::Again]);
    }
    for guard in &both {
        assert_eq!(wait(guard.check_replay("a", [0; 16], at(1000), at(9000))), Ok(ReplayVerdict::Again));
    }
    let spent: Vec<QuotaDecision> =
        (0..10).map(|n| wait(both[n % 2].spend_quota(&id("k"), 7, at(0))).unwrap()).collect();
    let within = (1..=7).map(|used| QuotaDecision::Within { used });
    assert!(spent.iter().copied().take(7).eq(within), "{spent:?}");
    assert!(spent[7..].iter().all(|spent| matches!(spent, QuotaDecision::Exhausted { .. })), "{spent:?}");
}

#[test]
fn a_large_quota_is_taken_in_lots_and_is_exact_all_the_same() {
    let (_dir, path) = place();
    let guard = open(&path, WriterMode::Threaded);
    let (key, limit) = (id("k"), 20_005);
    for used in 1..=limit {
        assert_eq!(wait(guard.spend_quota(&key, limit, at(0))), Ok(QuotaDecision::Within { used }));
        if used % 997 == 0 {
            assert_eq!(wait(guard.quota_used(&key, at(0))), Ok(used));
        }
    }
    assert!(matches!(wait(guard.spend_quota(&key, limit, at(0))), Ok(QuotaDecision::Exhausted { .. })));
    let tomorrow = at(24 * 60 * 60 * 1000);
    assert_eq!(wait(guard.spend_quota(&key, limit, tomorrow)), Ok(QuotaDecision::Within { used: 1 }));
    // A lower limit applies at once, and the rest of a lot beyond it is not used.
    assert!(matches!(wait(guard.spend_quota(&key, 1, tomorrow)), Ok(QuotaDecision::Exhausted { .. })));
    drop(guard);
    // The rest of a lot is lost with the process, and no more than that.
    let again = open(&path, WriterMode::Threaded);
    let Ok(QuotaDecision::Within { used }) = wait(again.spend_quota(&key, limit, tomorrow)) else {
        panic!("the quota is not used up")
    };
    assert!((2..=21).contains(&used), "{used}");
}

#[test]
fn keys_that_nobody_can_check_open_nothing() {
    let directory = KeyCache::new();
    assert!(directory.read(|_| ()).is_ok());
    let opened = Instant::now().checked_sub(Duration::from_secs(11)).expect("a machine that did not start just now");
    let blind = KeyCache::opened_at(opened);
    let Err(StoreError::Io(reason)) = blind.read(|_| ()) else { panic!("a book of unknown age is believed") };
    assert!(reason.contains("11 seconds"), "{reason}");
    let (_dir, path) = place();
    drop(open(&path, WriterMode::Inline));
    blind.refresh(&schema::open_reader(&path).unwrap()).unwrap();
    assert!(blind.read(|_| ()).is_ok(), "one look is enough");
}

#[test]
fn a_damaged_row_opens_nothing_and_hurts_no_neighbour() {
    let (_dir, path) = place();
    let guard = open(&path, WriterMode::Threaded);
    for name in ["a", "b", "c"] {
        create(&guard, name);
    }
    let hand = Connection::open(&path).unwrap();
    // With its scopes unreadable, a key must not be valid for everything.
    hand.execute("UPDATE api_key SET scopes = 'x' WHERE id = 'a'", []).unwrap();
    hand.execute("UPDATE api_key SET hash = 'y' WHERE id = 'b'", []).unwrap();
    within_a_second(|| !is_valid(&guard, "a") && !is_valid(&guard, "b"));
    assert!(is_valid(&guard, "c"));
    let Err(StoreError::Corrupt(reason)) = wait(guard.list()) else { panic!("damage is not mentioned") };
    assert!(reason.contains("\"a\""), "{reason}");
    hand.execute("INSERT INTO organisation VALUES ('a.org', 'hunter2', 0)", []).unwrap();
    let Err(StoreError::Corrupt(reason)) = wait(guard.organisations()) else { panic!("damage is not mentioned") };
    assert!(reason.contains("a.org") && !reason.contains("hunter2"), "{reason}");
}

#[test]
fn no_text_of_a_key_is_in_the_file_and_only_its_owner_may_read_it() {
    use std::os::unix::fs::PermissionsExt;
    let (dir, path) = place();
    let guard = open(&path, WriterMode::Threaded);
    let text = "sabir_00112233445566778899aabbccddeeff";
    wait(guard.create(id("k"), KeyFingerprint::of(text), KeyTerms::default(), by(0))).unwrap();
    assert!(is_valid(&guard, text));
    for file in fs::read_dir(dir.path()).unwrap().map(|entry| entry.unwrap().path()) {
        assert_eq!(fs::metadata(&file).unwrap().permissions().mode() & 0o077, 0, "{}", file.display());
        let bytes = fs::read(&file).unwrap();
        assert!(!bytes.windows(20).any(|window| window == &text.as_bytes()[..20]), "{}", file.display());
    }
    assert!(!format!("{guard:?} {:?}", guard.find(&KeyFingerprint::hash_of(text), at(1))).contains("0011223344"));
}

#[test]
fn what_was_done_to_the_audit_is_found() {
    use Tampering::{Edited, Inserted, Removed};
    let cases: [(&str, u64, Tampering); 8] = [
        ("UPDATE audit SET entry = replace(entry, 'rate', 'none') WHERE seq = 3", 3, Edited),
        ("UPDATE audit SET hash = upper(hash) WHERE seq = 2", 2, Edited),
        ("UPDATE audit SET entry = x'00ff' WHERE seq = 5", 5, Edited),
        ("DELETE FROM audit WHERE seq = 2", 2, Removed),
        ("DELETE FROM audit WHERE seq >= 4", 4, Removed),
        ("DELETE FROM audit WHERE seq = 1; UPDATE audit SET seq = seq - 1", 1, Removed),
        (
            "UPDATE audit SET seq = -seq - 1 WHERE seq >= 3; UPDATE audit SET seq = -seq WHERE seq < 0;
             INSERT INTO audit SELECT 3, entry, hash FROM audit WHERE seq = 1",
            3,
            Inserted,
        ),
        (
            "INSERT INTO audit SELECT 6, replace(entry, '\"seq\":5', '\"seq\":6'), hash FROM audit WHERE seq = 5",
            6,
            Inserted,
        ),
    ];
    for (sql, seq, tampering) in cases {
        let (_dir, path) = place();
        let guard = open(&path, WriterMode::Inline);
        for n in 0..5 {
            wait(guard.record(refusal("a", n))).unwrap();
        }
        let hand = Connection::open(&path).unwrap();
        for plain in ["UPDATE audit SET entry = ''", "DELETE FROM audit"] {
            let refused = hand.execute(plain, []).unwrap_err().to_string();
            assert!(refused.contains("append-only"), "{refused}");
        }
        assert_eq!(wait(guard.verify(None)).unwrap().first_break, None);
        hand.execute_batch("DROP TRIGGER audit_not_edited; DROP TRIGGER audit_not_removed").unwrap();
        hand.execute_batch(sql).unwrap();
        let found = wait(guard.verify(None)).unwrap();
        assert_eq!(found.first_break, Some(ChainBreak { seq, tampering }), "{sql}");
        assert_eq!(found.entries, seq - 1, "all before it are good: {sql}");
    }
}

/// Writes until it is killed. Run by `a_killed_writer_leaves_a_whole_chain`.
#[test]
#[ignore = "the other half of a_killed_writer_leaves_a_whole_chain"]
fn child_that_writes_until_it_is_killed() {
    let guard = open(Path::new(&std::env::var_os(CHILD_FILE).unwrap()), WriterMode::Threaded);
    for n in 0.. {
        let scope = n.to_string();
        guard.record_refusal(refusal(&scope, n));
        let seen = guard.check_replay("a", [u8::try_from(n % 251).unwrap(); 16], at(0), at(1000));
        let seq = wait(guard.record(refusal("kept", n))).unwrap();
        wait(seen).unwrap();
        println!("seq {seq} {}", n % 251);
    }
}

#[test]
fn a_killed_writer_leaves_a_whole_chain() {
    use std::io::{BufRead, BufReader};
    let (_dir, path) = place();
    let mut entries = 0;
    for round in 0..4 {
        let name = format!("{}::child_that_writes_until_it_is_killed", module_path!().split_once("::").unwrap().1);
        let mut child = Command::new(std::env::current_exe().unwrap())
            .args(["--exact", &name, "--ignored", "--nocapture"])
            .env(CHILD_FILE, &path)
            .stdout(Stdio::piped())
            .spawn()
            .unwrap();
        let lines = BufReader::new(child.stdout.take().unwrap()).lines().map_while(Result::ok);
        let mut told: Vec<(u64, u8)> = Vec::new();
        for line in lines {
            let mut words = line.split(' ').skip_while(|word| *word != "seq").skip(1);
            if let (Some(seq), Some(n)) = (words.next(), words.next()) {
                told.push((seq.parse().unwrap(), n.parse().unwrap()));
            }
            // Kills at a different point in each round.
            if told.len() == 40 + round {
                child.kill().unwrap();
            }
        }
        child.wait().unwrap();
        let guard = open(&path, WriterMode::Threaded);
        let verified = wait(guard.verify(None)).unwrap();
        assert_eq!(verified.first_break, None);
        let (last, _) = *told.last().unwrap();
        assert!(told.len() >= 40 && verified.entries >= last && verified.entries > entries, "{told:?}");
        entries = verified.entries;
        let kept = wait(guard.entries(0, usize::MAX)).unwrap();
        for (seq, n) in told {
            assert_eq!(kept[usize::try_from(seq).unwrap() - 1].entry.caller, "kept");
            assert_eq!(
                wait(guard.check_replay("a", [n; 16], at(1), at(1000))),
                Ok(ReplayVerdict::Again),
                "a mark was forgotten"
            );
        }
    }
}

#[test]
fn a_full_disk_refuses_and_forgets_nothing() {
    let (_dir, path) = place();
    let guard = open(&path, WriterMode::Inline);
    create(&guard, "k");
    guard.set_pages_max(1).unwrap();
    let mut kept = 0u8;
    let full = loop {
        match wait(guard.check_replay(&"scope".repeat(100), [kept; 16], at(0), at(1000))) {
            Ok(seen) => assert_eq!(seen, ReplayVerdict::First),
            Err(error) => break error,
        }
        kept += 1;
    };
    assert_eq!(full, StoreError::Full);
    for n in 0..40 {
        guard.record_refusal(refusal(&"x".repeat(100 + n), 0));
    }
    let refused = wait(guard.record(refusal("y", 0)));
    assert_eq!(refused, Err(StoreError::Full));
    // Reads still work.
    assert!(is_valid(&guard, "k"));
    guard.set_pages_max(1_000_000).unwrap();
    assert_eq!(wait(guard.check_replay(&"scope".repeat(100), [kept; 16], at(0), at(1000))), Ok(ReplayVerdict::First));
    wait(guard.flush()).unwrap();
    let last = wait(guard.entries(0, 99)).unwrap().pop().unwrap().entry;
    assert_eq!((last.outcome, last.count), (AuditOutcome::Dropped, 40));
    assert_eq!(wait(guard.verify(None)).unwrap().first_break, None);
}

#[test]
fn what_has_passed_is_purged() {
    let (_dir, path) = place();
    let guard = open(&path, WriterMode::Inline);
    for n in 0..100 {
        wait(guard.check_replay("a", [n; 16], at(0), at(1000))).unwrap();
    }
    let day = 86_400_000;
    for days in 0..5 {
        for name in ["k", "l"] {
            wait(guard.spend_quota(&id(name), 9, at(days * day))).unwrap();
        }
    }
    for n in 0..30 {
        wait(guard.check_replay("b", [n; 16], at(1_000_000), at(1_001_000))).unwrap();
    }
    let hand = Connection::open(&path).unwrap();
    let count = |table: &str| -> u32 {
        hand.query_row(&format!("SELECT count(*) FROM {table}"), [], |row| row.get(0)).unwrap()
    };
    assert_eq!((count("replay"), count("quota")), (30, 4), "marks of now; two keys on two days");
}

#[test]
fn a_use_is_written_now_and_then_and_is_no_change() {
    let (_dir, path) = place();
    let guard = open(&path, WriterMode::Threaded);
    create(&guard, "k");
    let hand = Connection::open(&path).unwrap();
    let number = |sql: &str| -> i64 { hand.query_row(sql, [], |row| row.get(0)).unwrap() };
    let before = number("SELECT number FROM generation");
    (0..1000).for_each(|ms| guard.record_use(&id("k"), at(ms)));
    assert_eq!(number("SELECT count(*) FROM key_use"), 0, "no write for a use");
    assert_eq!(wait(guard.list()).unwrap()[0].last_used_at, Some(at(999)));
    drop(guard);
    assert_eq!(number("SELECT at FROM key_use"), at(999).millis());
    assert_eq!(number("SELECT number FROM generation"), before);
}

#[test]
fn only_what_was_promised_is_synced() {
    let (_dir, path) = place();
    let mut full = options(WriterMode::Inline);
    full.durability = Durability::Full;
    let guard = SqliteGuard::open(&path, full).unwrap();
    let level = || {
        let GuardBackend::Inline { writer, .. } = &guard.backend else { unreachable!("opened inline") };
        lock(writer).synchronous()
    };
    assert_eq!(level(), 2);
    wait(guard.spend_quota(&id("k"), 9, at(0))).unwrap();
    assert_eq!(level(), 1, "a count");
    wait(guard.check_replay("a", [1; 16], at(0), at(1))).unwrap();
    assert_eq!(level(), 2, "a mark");
    wait(guard.spend_quota(&id("k"), 9, at(0))).unwrap();
    create(&guard, "k");
    assert_eq!(level(), 2, "a key");
}

/// Checks that opening fails with these words and the file's name, and leaves the file unchanged.
#[track_caller]
fn check_refused(path: &Path, words: &str) {
    let before = fs::read(path).unwrap();
    for writing in [WriterMode::Inline, WriterMode::Threaded] {
        let error = SqliteGuard::open(path, options(writing)).expect_err("a file like this is refused").to_string();
        assert!(error.contains(&*path.to_string_lossy()) && error.contains(words), "{error}");
    }
    assert!(fs::read(path).unwrap() == before, "the file was changed");
}

#[test]
fn a_file_that_is_damaged_or_not_ours_is_named_and_left_alone() {
    let (dir, path) = place();
    let guard = open(&path, WriterMode::Inline);
    for n in 0..40 {
        create(&guard, &format!("k{n}"));
        wait(guard.check_replay("a", [n; 16], at(0), at(1000))).unwrap();
    }
    drop(guard);
    let whole = fs::read(&path).unwrap();
    // All pages but the first, which identifies the file.
    let mut damaged = whole.clone();
    damaged[4096..].fill(0xa5);
    fs::write(&path, damaged).unwrap();
    check_refused(&path, "is damaged");
    fs::write(&path, b"hello, I am a diary\n".repeat(400)).unwrap();
    check_refused(&path, "not a Sabir store");
    let mut newer = whole.clone();
    newer[60..64].copy_from_slice(&99u32.to_be_bytes());
    fs::write(&path, newer).unwrap();
    check_refused(&path, "newer sabir");
    fs::write(&path, whole).unwrap();
    assert_eq!(wait(open(&path, WriterMode::Inline).list()).unwrap().len(), 40);
    let log = dir.path().join("sabir.db");
    drop(crate::sqlite::SqliteLog::open(&log, options(WriterMode::Inline)).unwrap());
    check_refused(&log, "not a Sabir store");
    let swapped = crate::sqlite::SqliteLog::open(&path, options(WriterMode::Inline)).expect_err("nor the other way");
    assert!(matches!(swapped, OpenError::Foreign { .. }));
}

#[test]
fn damage_that_comes_later_is_named_too() {
    let (_dir, path) = place();
    let guard = open(&path, WriterMode::Inline);
    for n in 0..400 {
        wait(guard.record(refusal("a", n))).unwrap();
    }
    drop(guard);
    let whole = fs::read(&path).unwrap();
    let guard = open(&path, WriterMode::Inline);
    // The last pages are the audit's, which no query reads at the start.
    let mut damaged = whole.clone();
    let end = damaged.len() - 5 * 4096;
    damaged[end..].fill(0xa5);
    fs::write(&path, damaged).unwrap();
    let Err(StoreError::Corrupt(reason)) = wait(guard.verify(None)) else { panic!("damage is not noticed") };
    assert!(reason.contains(&*path.to_string_lossy()), "{reason}");
    fs::write(&path, whole).unwrap();
}
