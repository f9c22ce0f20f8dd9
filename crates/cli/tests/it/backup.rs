//! Copies of a store: made beside a server that works, checked, put back.

use crate::command_runner::{CommandDirectory, CommandOutput};
use crate::http_client::{HttpConnection, Request};
use crate::rpc_client::{NOT_FOUND, send_params, state};
use crate::test_server::{AGENTS, ServerDirectory, TestServer, file_bytes};
use rusqlite::Connection;
use serde_json::Value;
use std::fs;
use std::os::unix::fs::PermissionsExt;
use std::path::Path;
use std::sync::Mutex;
use std::sync::atomic::{AtomicBool, Ordering};
use std::time::{Duration, Instant};

/// Runs a command on the files of a home.
fn at(desk: &CommandDirectory, home: &ServerDirectory, verb: &[&str]) -> CommandOutput {
    let data = home.data();
    desk.run(&[verb, &["--data", data.to_str().unwrap(), "-o", "json"]].concat())
}

#[track_caller]
fn refused(ran: &CommandOutput, code: &str, words: &str) {
    assert_eq!(ran.code, 1, "{ran:#?}");
    let error = &ran.json()["error"];
    assert_eq!(error["code"], code, "{error}");
    assert!(error.to_string().contains(words), "{words:?} is not in {error}");
}

fn text(path: &Path) -> &str {
    path.to_str().unwrap()
}

/// A home with some tasks of every shape, a key, and no server.
fn used_home(desk: &CommandDirectory) -> (std::sync::Arc<ServerDirectory>, Vec<Value>) {
    let sabir = TestServer::start(AGENTS);
    let mut tasks: Vec<Value> = (0..5).map(|n| sabir.send("/", &send_params(&format!("task {n}")))).collect();
    tasks.extend(["quick", "tick", "book", "break"].map(|words| sabir.send("/agents/desk", &send_params(words))));
    at(desk, &sabir.home, &["key", "create", "--name", "ci"]).expect_success();
    (sabir.stop(), tasks)
}

fn path_of(task: &Value) -> &'static str {
    let words = task["history"][0]["parts"][0]["text"].as_str().unwrap();
    if words.starts_with("task") { "/" } else { "/agents/desk" }
}

#[test]
fn a_copy_made_beside_a_busy_server_has_everything_acknowledged_before() {
    let (desk, sabir) = (CommandDirectory::new(), TestServer::start(AGENTS));
    let (done, acknowledged) = (AtomicBool::new(false), Mutex::new(Vec::<Value>::new()));
    let mut slowest = Duration::ZERO;
    std::thread::scope(|scope| {
        for at in ["/", "/", "/agents/desk"] {
            scope.spawn({
                let (sabir, done, acknowledged) = (&sabir, &done, &acknowledged);
                move || {
                    while !done.load(Ordering::Relaxed) {
                        let words = if at == "/" { "task" } else { "quick" };
                        let task = sabir.send(at, &send_params(words));
                        acknowledged.lock().unwrap().push(task);
                    }
                }
            });
        }
        for round in 0..4 {
            while acknowledged.lock().unwrap().len() < 40 * (round + 1) {
                std::thread::sleep(Duration::from_millis(5));
            }
            let before = acknowledged.lock().unwrap().clone();
            let copy = desk.path(&format!("copy-{round}.db"));
            let began = Instant::now();
            let made = at(&desk, &sabir.home, &["backup", text(&copy)]);
            slowest = slowest.max(began.elapsed());
            made.expect_success();
            let made = made.json();
            assert!(made["tasks"].as_u64().unwrap() >= before.len() as u64, "{made}");
            // The copy is one file beside the guard's, without a log of its own, and for its owner alone.
            for file in [copy.clone(), desk.path(&format!("copy-{round}.db.guard"))] {
                assert_eq!(fs::metadata(&file).unwrap().permissions().mode() & 0o777, 0o600);
            }
            let ids: std::collections::HashSet<String> = {
                let database = Connection::open(&copy).unwrap();
                let mut statement = database.prepare("SELECT id FROM a2a_tasks").unwrap();
                statement.query_map([], |row| row.get(0)).unwrap().map(Result::unwrap).collect()
            };
            for task in &before {
                assert!(ids.contains(task["id"].as_str().unwrap()), "{task} is not in the copy");
            }
            // The store itself is looked at while it is written to.
            let checked = at(&desk, &sabir.home, &["db", "check"]);
            assert_eq!((checked.code, &checked.json()["whole"]), (0, &Value::Bool(true)), "{checked:#?}");
        }
        done.store(true, Ordering::Relaxed);
    });
    sabir.still_serves();
    let left: Vec<_> = fs::read_dir(desk.path("")).unwrap().map(|e| e.unwrap().file_name()).collect();
    assert!(!left.iter().any(|name| name.to_string_lossy().contains("partial")), "{left:?}");
    // Put back elsewhere, the last copy is a server's store with these tasks.
    let home = ServerDirectory::new(AGENTS);
    at(&desk, &home, &["restore", text(&desk.path("copy-3.db"))]).expect_success();
    let restored = TestServer::start_at(&home);
    for task in acknowledged.lock().unwrap().iter().take(120) {
        assert_eq!(restored.get(path_of(task), &task["id"]), *task);
    }
    restored.send("/", &send_params("task after"));
}

#[test]
fn a_copy_of_a_server_that_was_killed_has_what_it_had_acknowledged() {
    let (desk, sabir) = (CommandDirectory::new(), TestServer::start(AGENTS));
    let tasks: Vec<Value> = (0..30).map(|n| sabir.send("/", &send_params(&format!("task {n}")))).collect();
    let home = sabir.kill();
    let copy = desk.path("copy.db");
    assert_eq!(at(&desk, &home, &["backup", text(&copy)]).json()["tasks"], 30);
    let elsewhere = ServerDirectory::new(AGENTS);
    at(&desk, &elsewhere, &["restore", text(&copy)]).expect_success();
    for sabir in [TestServer::start_at(&elsewhere), TestServer::start_at(&home)] {
        tasks.iter().for_each(|task| assert_eq!(sabir.get("/", &task["id"]), *task));
    }
}

#[test]
fn nothing_is_written_over() {
    let desk = CommandDirectory::new();
    let (home, tasks) = used_home(&desk);
    let copy = desk.path("copy.db");
    at(&desk, &home, &["backup", text(&copy)]).expect_success();
    let bytes = file_bytes(&copy);
    refused(&at(&desk, &home, &["backup", text(&copy)]), "SABIR_ERR_EXISTS", "copy.db");
    assert!(file_bytes(&copy) == bytes);
    // Also not by a file whose name only the copy of the guard would take, nor beside a log from another life.
    for name in ["second.db.guard", "third.db-wal"] {
        fs::write(desk.path(name), "precious").unwrap();
        let copy = desk.path(name.split('.').next().unwrap()).with_extension("db");
        refused(&at(&desk, &home, &["backup", text(&copy)]), "SABIR_ERR_EXISTS", name);
        assert_eq!(fs::read_to_string(desk.path(name)).unwrap(), "precious");
        assert!(!copy.exists());
    }
    let store = file_bytes(&home.database());
    refused(&at(&desk, &home, &["restore", text(&copy)]), "SABIR_ERR_EXISTS", "--replace");
    assert!(file_bytes(&home.database()) == store);
    assert_eq!(
        at(&desk, &home, &["restore", text(&home.database()), "--replace"]).code,
        2,
        "a store is not its own copy"
    );
    let sabir = TestServer::start_at(&home);
    refused(&at(&desk, &home, &["restore", text(&copy), "--replace"]), "SABIR_ERR_IN_USE", "stop the server");
    tasks.iter().for_each(|task| assert_eq!(sabir.get(path_of(task), &task["id"]), *task));
}

#[test]
fn a_store_that_gives_way_is_put_aside() {
    let desk = CommandDirectory::new();
    let (home, tasks) = used_home(&desk);
    let copy = desk.path("copy.db");
    at(&desk, &home, &["backup", text(&copy)]).expect_success();
    let sabir = TestServer::start_at(&home);
    let later = sabir.send("/", &send_params("task later"));
    at(&desk, &home, &["key", "create", "--name", "later"]).expect_success();
    let home = sabir.kill();
    let restored = at(&desk, &home, &["restore", text(&copy), "--replace"]);
    restored.expect_success();
    let aside = restored.json()["aside"].as_str().unwrap().to_owned();
    let sabir = TestServer::start_at(&home);
    tasks.iter().for_each(|task| assert_eq!(sabir.get(path_of(task), &task["id"]), *task));
    // A task from after the copy.
    sabir.expect_error("/", "GetTask", &serde_json::json!({"id": later["id"]}), NOT_FOUND);
    let keys = at(&desk, &home, &["key", "list"]).json();
    assert_eq!(keys["keys"].as_array().unwrap().iter().map(|key| &key["name"]).collect::<Vec<_>>(), ["ci"]);
    // What was put aside is whole, with its log.
    let aside_tasks: i64 =
        Connection::open(aside).unwrap().query_row("SELECT count(*) FROM task", [], |row| row.get(0)).unwrap();
    assert_eq!(aside_tasks, i64::try_from(tasks.len()).unwrap() + 1);
    drop(sabir);
    assert_eq!(at(&desk, &home, &["db", "check"]).json()["whole"], true);
}

#[test]
fn a_copy_that_is_not_whole_is_not_put_back() {
    let desk = CommandDirectory::new();
    let (home, _) = used_home(&desk);
    let copy = desk.path("copy.db");
    at(&desk, &home, &["backup", text(&copy)]).expect_success();
    let empty = ServerDirectory::new(AGENTS);
    let whole = file_bytes(&copy);
    for (from, to) in [(0, 100), (8192, whole.len())] {
        let mut damaged = whole.clone();
        damaged[from..to].fill(0xa5);
        fs::write(&copy, damaged).unwrap();
        assert_eq!(at(&desk, &empty, &["restore", text(&copy)]).code, 1);
    }
    fs::write(&copy, &whole).unwrap();
    Connection::open(&copy).unwrap().execute("UPDATE counter SET n = n + 1", []).unwrap();
    refused(&at(&desk, &empty, &["restore", text(&copy)]), "SABIR_ERR_DAMAGED", "counter");
    fs::write(&copy, &whole).unwrap();
    fs::rename(desk.path("copy.db.guard"), desk.path("elsewhere")).unwrap();
    let ran = at(&desk, &empty, &["restore", text(&copy)]);
    assert!(ran.code == 1 && ran.stdout.contains("copy.db.guard"), "{ran:#?}");
    let ran = at(&desk, &empty, &["restore", text(&desk.path("nothing.db"))]);
    refused(&ran, "SABIR_ERR_NO_STORE", "nothing.db");
    assert!(!empty.database().exists(), "nothing of this made a store");
    TestServer::start_at(&empty).still_serves();
}

#[test]
fn a_newer_copy_is_refused_with_the_remedy() {
    let desk = CommandDirectory::new();
    let (home, _) = used_home(&desk);
    for name in ["copy.db", "copy.db.guard"] {
        let copy = desk.path("copy.db");
        at(&desk, &home, &["backup", text(&copy)]).expect_success();
        Connection::open(desk.path(name)).unwrap().pragma_update(None, "user_version", 99).unwrap();
        let ran = at(&desk, &ServerDirectory::new(AGENTS), &["restore", text(&copy)]);
        assert!(ran.code == 1 && ran.stdout.contains("schema version 99"), "{ran:#?}");
        assert!(ran.stdout.contains("newer sabir") && ran.stdout.contains(name), "{ran:#?}");
        for name in ["copy.db", "copy.db.guard"] {
            fs::remove_file(desk.path(name)).unwrap();
        }
    }
}

#[test]
fn a_check_finds_what_is_wrong() {
    let desk = CommandDirectory::new();
    let (home, tasks) = used_home(&desk);
    let open = |name: &str| Connection::open(home.data().join(name)).unwrap();
    let whole = at(&desk, &home, &["db", "check"]);
    assert_eq!((whole.code, &whole.json()["tasks"]), (0, &tasks.len().into()), "{whole:#?}");
    assert!(whole.json()["events"].as_u64().unwrap() > tasks.len() as u64);
    let files =
        ["sabir.db", "sabir.db.guard"].map(|name| (home.data().join(name), file_bytes(&home.data().join(name))));
    for (file, sql, words) in [
        ("sabir.db", "UPDATE counter SET n = n + 1 WHERE state = 3", "the counter says"),
        ("sabir.db", "DELETE FROM event WHERE first > 1", "its row counts"),
        ("sabir.db", "DELETE FROM event WHERE first = 1", "is missing"),
        ("sabir.db", "DELETE FROM task WHERE k = (SELECT max(k) FROM event)", "belong to tasks that are not there"),
        ("sabir.db", "UPDATE event SET lines = replace(lines, 'statusUpdate', 'statusUpbate')", "cannot be read"),
        ("sabir.db", "UPDATE task SET state = 5 WHERE state = 3", "its text says"),
        ("sabir.db", "UPDATE task SET body = x'7b7d' WHERE body IS NOT NULL", "its text cannot be read"),
        ("sabir.db", "UPDATE task SET body = NULL WHERE state = 3", "its text is missing"),
        ("sabir.db", "UPDATE task SET head = head + 1", "its row counts"),
        ("sabir.db", "UPDATE task SET scope = 99", "its owner is not there"),
        ("sabir.db", "UPDATE latest SET number = 1", "yet to come"),
        ("sabir.db", "INSERT INTO note VALUES (5, 'd', 'k', 'p', 0, 1)", "note belong to tasks"),
        ("sabir.db", "INSERT INTO kin VALUES (5, 1, 1, 1, 1, 'n', 1, '[]', NULL, 0)", "kin belong to tasks"),
        ("sabir.db", "UPDATE task SET child = 1", "it is not said whose"),
        (
            "sabir.db.guard",
            "DROP TRIGGER audit_not_edited; UPDATE audit SET entry = replace(entry, 'operator', 'xperator')",
            "audit is broken",
        ),
        ("sabir.db.guard", "INSERT INTO key_use VALUES ('nobody', 1)", "nobody"),
    ] {
        open(file).execute_batch(sql).unwrap();
        let ran = at(&desk, &home, &["db", "check"]);
        assert_eq!((ran.code, &ran.json()["whole"]), (1, &Value::Bool(false)), "{sql}: {ran:#?}");
        assert!(ran.json()["problems"].to_string().contains(words), "{sql}: {words:?} is not in {ran:#?}");
        for (path, bytes) in &files {
            fs::write(path, bytes).unwrap();
        }
    }
    let mut damaged = files[0].1.clone();
    let end = damaged.len();
    damaged[8192..end].fill(0xa5);
    fs::write(home.database(), damaged).unwrap();
    assert_eq!(at(&desk, &home, &["db", "check"]).code, 1);
    fs::write(home.database(), &files[0].1).unwrap();
    assert_eq!(desk.run(&["db", "check", "--data", text(&home.data())]).fields("Whole"), ["yes"]);
    assert_eq!(desk.run(&["db", "check", "--data", text(&desk.path("nowhere"))]).code, 1);
}

#[test]
fn somebody_who_reads_for_long_holds_nobody_up() {
    let sabir = TestServer::start(AGENTS);
    sabir.send("/", &send_params("task"));
    let reader = Connection::open(sabir.home.database()).unwrap();
    reader.execute_batch("BEGIN; SELECT count(*) FROM task").unwrap();
    // More than the log holds before it wants to start over, which it cannot.
    let mut wire = HttpConnection::open(sabir.address);
    let large = "x".repeat(400_000);
    let mut slowest = Duration::ZERO;
    for _ in 0..60 {
        let began = Instant::now();
        wire.send(&Request::post("/", crate::rpc_client::envelope("SendMessage", &send_params(&large))));
        assert_eq!(state(&wire.response().json()["result"]["task"]), "TASK_STATE_COMPLETED");
        slowest = slowest.max(began.elapsed());
    }
    assert!(slowest < Duration::from_secs(3), "one send took {slowest:?}");
    drop(reader);
}
