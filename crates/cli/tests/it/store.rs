//! A store that cannot be used: refused with its path and what to do, and never overwritten.

use crate::http_client::{HttpConnection, Request};
use crate::rpc_client::{UNAVAILABLE, envelope, send_params, state};
use crate::test_server::{AGENTS, ServerDirectory, TestServer, file_bytes};
use serde_json::{Value, json};
use std::fs;
use std::os::unix::fs::{FileExt, PermissionsExt};
use std::path::{Path, PathBuf};
use std::sync::Arc;

/// A home whose store has one task, and that task.
fn used_home() -> (Arc<ServerDirectory>, Value) {
    let sabir = TestServer::start(AGENTS);
    let task = sabir.send("/", &send_params("keep this"));
    (sabir.stop(), task)
}

/// Starting is refused with the path and the remedy, and the file stays as it is, byte by byte.
#[track_caller]
fn check_refused(home: &ServerDirectory, reason: &str) {
    let before = file_bytes(&home.database());
    let said = home.expect_start_refused(home.command());
    assert!(said.contains(&home.database().display().to_string()), "the file is named: {said}");
    assert!(said.contains(reason), "the reason is {reason}: {said}");
    let remedies = ["another data directory", "newer sabir", "stop that one", "move it away"];
    assert!(remedies.iter().any(|r| said.contains(r)), "it says what to do: {said}");
    assert!(file_bytes(&home.database()) == before, "the file was changed");
}

#[test]
fn a_store_that_another_process_has_is_refused_and_the_other_goes_on() {
    let sabir = TestServer::start(AGENTS);
    let task = sabir.send("/", &send_params("mine"));
    for _ in 0..3 {
        let said = sabir.home.expect_start_refused(sabir.home.command());
        assert!(said.contains(&sabir.home.database().display().to_string()) && said.contains("in use"), "{said}");
        assert!(said.contains("stop that one, or choose another data directory"), "{said}");
    }
    assert_eq!(sabir.get("/", &task["id"]), task);
    sabir.still_serves();
    // A server that was killed does not hold the store any longer.
    let sabir = TestServer::start_at(&sabir.kill());
    assert_eq!(sabir.get("/", &task["id"]), task);
}

/// Holds the database open for writing, as a shell or a backup does.
fn hold(home: &ServerDirectory, alone: bool) -> rusqlite::Connection {
    let database = home.open_database();
    database.pragma_update(None, "locking_mode", if alone { "EXCLUSIVE" } else { "NORMAL" }).unwrap();
    database.execute_batch("BEGIN IMMEDIATE; CREATE TABLE held (x); DROP TABLE held").unwrap();
    database
}

#[test]
fn a_store_that_another_program_holds_is_refused_as_in_use() {
    let (home, task) = used_home();
    let held = hold(&home, true);
    let said = home.expect_start_refused(home.command());
    assert!(said.contains(&home.database().display().to_string()), "the file is named: {said}");
    assert!(said.contains("locked") || said.contains("in use"), "the reason is named: {said}");
    assert!(!said.contains("not a Sabir store") && !said.contains("move it away"), "it is ours, and in use: {said}");
    drop(held);
    assert_eq!(TestServer::start_at(&home).get("/", &task["id"]), task);
}

#[test]
fn a_store_that_another_program_holds_for_a_moment_is_waited_for() {
    let sabir = TestServer::start(AGENTS);
    let task = sabir.send("/", &send_params("before"));
    let held = hold(&sabir.home, false);
    let mut waiting = HttpConnection::open(sabir.address);
    waiting.send(&Request::post("/", envelope("SendMessage", &send_params("meanwhile"))));
    // Readers do not wait.
    for _ in 0..10 {
        assert_eq!(sabir.get("/", &task["id"]), task);
    }
    drop(held);
    assert_eq!(state(&waiting.response().json()["result"]["task"]), "TASK_STATE_COMPLETED");
    sabir.still_serves();
}

#[test]
fn a_store_of_a_newer_program_is_refused() {
    let (home, task) = used_home();
    let version: i64 = home.open_database().pragma_query_value(None, "user_version", |r| r.get(0)).unwrap();
    for newer in [version + 1, 1_000, i64::from(i32::MAX), -1] {
        home.open_database().pragma_update(None, "user_version", newer).unwrap();
        check_refused(&home, "schema version");
    }
    home.open_database().pragma_update(None, "user_version", version).unwrap();
    assert_eq!(TestServer::start_at(&home).get("/", &task["id"]), task);
}

#[test]
fn a_file_of_the_guard_by_a_newer_program_is_refused_as_well() {
    let (home, task) = used_home();
    let guard = home.data().join("sabir.db.guard");
    let set = |version: i64| {
        rusqlite::Connection::open(&guard).unwrap().pragma_update(None, "user_version", version).unwrap();
    };
    let version: i64 =
        rusqlite::Connection::open(&guard).unwrap().pragma_query_value(None, "user_version", |r| r.get(0)).unwrap();
    set(version + 1);
    let before = file_bytes(&guard);
    let said = home.expect_start_refused(home.command());
    assert!(said.contains(&guard.display().to_string()) && said.contains("newer sabir"), "{said}");
    assert!(file_bytes(&guard) == before, "the file was changed");
    set(version);
    assert_eq!(TestServer::start_at(&home).get("/", &task["id"]), task);
}

#[test]
fn a_store_of_another_program_is_refused() {
    let home = ServerDirectory::new(AGENTS);
    fs::create_dir(home.data()).unwrap();
    home.open_database()
        .execute_batch("CREATE TABLE notes (text TEXT); INSERT INTO notes VALUES ('precious')")
        .unwrap();
    check_refused(&home, "not a Sabir store");
    let text: String = home.open_database().query_row("SELECT text FROM notes", [], |r| r.get(0)).unwrap();
    assert_eq!(text, "precious");
}

#[test]
fn a_file_that_is_no_database_is_refused() {
    for content in
        [&b"these are not the tables you are looking for"[..], &[0; 4096], b"SQLite format 3\0", &[0xff; 10_000]]
    {
        let home = ServerDirectory::new(AGENTS);
        fs::create_dir(home.data()).unwrap();
        fs::write(home.database(), content).unwrap();
        check_refused(&home, "not a Sabir store");
    }
}

#[test]
fn a_store_that_lost_every_byte_is_refused() {
    let (home, _) = used_home();
    fs::write(home.database(), "").unwrap();
    check_refused(&home, "has no bytes");
    fs::remove_file(home.database()).unwrap();
    TestServer::start_at(&home).still_serves();
}

#[test]
fn a_store_without_the_file_of_its_keys_is_refused_unless_it_is_to_begin_without() {
    let (home, task) = used_home();
    let guard = home.data().join("sabir.db.guard");
    for name in ["sabir.db.guard", "sabir.db.guard-wal", "sabir.db.guard-shm"] {
        let _ = fs::remove_file(home.data().join(name));
    }
    let said = home.expect_start_refused(home.command());
    assert!(said.contains(&guard.display().to_string()) && said.contains("missing"), "{said}");
    assert!(said.contains(&home.database().display().to_string()) && said.contains("from a backup"), "{said}");
    assert!(!guard.exists(), "a refusal makes nothing");
    fs::write(&guard, "").unwrap();
    assert_eq!(TestServer::start_at(&home).get("/", &task["id"]), task);
}

#[test]
fn a_directory_where_the_file_should_be_is_refused() {
    let home = ServerDirectory::new(AGENTS);
    fs::create_dir_all(home.database().join("inside")).unwrap();
    let said = home.expect_start_refused(home.command());
    assert!(said.contains(&home.database().display().to_string()), "{said}");
    assert!(home.database().join("inside").is_dir());
}

#[test]
fn a_file_where_the_directory_should_be_is_refused() {
    let home = ServerDirectory::new(AGENTS);
    fs::write(home.data(), "a file").unwrap();
    let said = home.expect_start_refused(home.command());
    assert!(said.contains(&home.data().display().to_string()), "{said}");
    assert_eq!(fs::read_to_string(home.data()).unwrap(), "a file");
}

#[test]
fn a_store_that_was_cut_off_is_refused() {
    let (home, _) = used_home();
    let whole = file_bytes(&home.database());
    for keep in [whole.len() / 2, 8192, 4096, 2000, 100] {
        fs::write(home.database(), &whole[..keep]).unwrap();
        check_refused(&home, "");
    }
    fs::write(home.database(), &whole).unwrap();
    TestServer::start_at(&home).still_serves();
}

#[test]
fn a_store_with_a_damaged_beginning_is_refused() {
    let (home, _) = used_home();
    let whole = file_bytes(&home.database());
    // The file's mark, its page size, and the table of tables.
    for (from, to) in [(0, 16), (16, 18), (100, 4096), (0, 4096)] {
        let mut damaged = whole.clone();
        damaged[from..to].fill(0xa5);
        fs::write(home.database(), &damaged).unwrap();
        check_refused(&home, "");
    }
    fs::write(home.database(), &whole).unwrap();
    TestServer::start_at(&home).still_serves();
}

/// As near to a full disk as a test gets without being root: the file has as many pages as SQLite can count, nearly all
/// of them holes, so every new page finds that there is no room. Returns its true size.
fn fill(home: &ServerDirectory) -> u64 {
    let database = home.open_database();
    database
        .execute_batch("PRAGMA journal_mode = DELETE; PRAGMA page_size = 512; VACUUM; PRAGMA journal_mode = WAL")
        .unwrap();
    let most: u32 = database.pragma_query_value(None, "max_page_count", |r| r.get(0)).unwrap();
    database.close().unwrap();
    let size = fs::metadata(home.database()).unwrap().len();
    set_pages(home, most, 512 * u64::from(most));
    size
}

/// Gives the room back. No page was added, so all there is lies within the old size.
fn empty(home: &ServerDirectory, size: u64) {
    set_pages(home, u32::try_from(size / 512).unwrap(), size);
}

fn set_pages(home: &ServerDirectory, pages: u32, bytes: u64) {
    let file = fs::File::options().write(true).open(home.database()).unwrap();
    file.write_all_at(&pages.to_be_bytes(), 28).unwrap();
    file.set_len(bytes).unwrap();
}

/// A message that cannot fit into what is left of a page.
fn large() -> Value {
    send_params(&"x".repeat(5_000))
}

#[test]
fn a_full_store_refuses_writes_serves_reads_and_loses_nothing() {
    let (home, task) = used_home();
    let size = fill(&home);
    let sabir = TestServer::start_at(&home);
    for _ in 0..5 {
        sabir.expect_error("/", "SendMessage", &large(), UNAVAILABLE);
        sabir.expect_error("/", "SendStreamingMessage", &large(), UNAVAILABLE);
        sabir.expect_rest_error(&Request::post("/message:send", large().to_string()), UNAVAILABLE);
        assert_eq!(sabir.get("/", &task["id"]), task);
        assert_eq!(sabir.task_count("/"), 1);
        assert_eq!(sabir.ask(&Request::get("/healthz")).status, 200);
    }
    let home = sabir.stop();
    empty(&home, size);
    let sabir = TestServer::start_at(&home);
    assert_eq!(sabir.get("/", &task["id"]), task);
    assert_eq!(sabir.task_count("/"), 1, "what was refused was not kept");
    sabir.send("/", &large());
    sabir.still_serves();
}

#[test]
fn a_send_that_found_no_room_may_be_sent_again() {
    let (home, _) = used_home();
    let size = fill(&home);
    let sabir = TestServer::start_at(&home);
    let mut params = large();
    params["message"]["messageId"] = json!(crate::rpc_client::uuid());
    for _ in 0..2 {
        // Not once "still being accepted": nothing came of the first.
        let envelope = sabir.rpc("/", "SendMessage", &params);
        assert!(envelope["error"]["message"].as_str().is_some_and(|m| m.contains("cannot store")), "{envelope}");
    }
    let home = sabir.stop();
    empty(&home, size);
    assert_eq!(state(&TestServer::start_at(&home).send("/", &params)), "TASK_STATE_COMPLETED");
}

#[test]
fn an_agent_that_waits_for_room_holds_nobody_up() {
    let (home, task) = used_home();
    fill(&home);
    let sabir = TestServer::start_at(&home);
    // These need a runner, which tries again for a while before it gives up; the test does not wait for it.
    let mut params = large();
    params["message"]["parts"][0]["text"] = json!(format!("tick {}", "x".repeat(5_000)));
    let waiting: Vec<HttpConnection> = (0..8)
        .map(|_| {
            let mut wire = HttpConnection::open(sabir.address);
            wire.send(&Request::post("/agents/desk", envelope("SendMessage", &params)));
            wire
        })
        .collect();
    for _ in 0..20 {
        assert_eq!(sabir.get("/", &task["id"]), task);
        assert_eq!(sabir.ask(&Request::get("/healthz")).status, 200);
    }
    drop(waiting);
}

#[test]
fn a_store_that_cannot_be_made_is_refused_with_the_path_and_the_remedy() {
    let home = ServerDirectory::new(AGENTS);
    // No file may grow beyond a few hundred bytes, as under a quota.
    let said = home.expect_start_refused(home.command_in_shell("ulimit -f 1"));
    assert!(said.contains(&home.database().display().to_string()), "the file is named: {said}");
    assert!(
        said.contains("room") || said.contains("space") || said.contains("another data directory"),
        "it says what to do: {said}"
    );
}

#[test]
fn a_store_that_cannot_have_its_write_ahead_file_is_refused() {
    let home = ServerDirectory::new(AGENTS);
    fs::create_dir_all(home.data().join("sabir.db-wal")).unwrap();
    let said = home.expect_start_refused(home.command());
    assert!(said.contains(&home.database().display().to_string()), "the file is named: {said}");
}

#[test]
fn the_data_directory_is_for_its_owner_alone() {
    let home = ServerDirectory::new(AGENTS);
    // With a mask that takes nothing away, the mode is the program's own choice.
    let sabir = TestServer::run(&home, home.command_in_shell("umask 000"));
    sabir.still_serves();
    let mode = fs::metadata(home.data()).unwrap().permissions().mode();
    assert_eq!(mode & 0o777, 0o700, "{mode:o}");
}

#[test]
fn a_data_directory_that_was_there_before_shows_nothing_to_others_either() {
    let home = ServerDirectory::new(AGENTS);
    fs::create_dir(home.data()).unwrap();
    fs::set_permissions(home.data(), fs::Permissions::from_mode(0o755)).unwrap();
    let sabir = TestServer::start_at(&home);
    sabir.still_serves();
    let open_to_others = |path: &Path| fs::metadata(path).unwrap().permissions().mode() & 0o077 != 0;
    // Closed as a whole, or every file in it: either keeps what was said between those who said it.
    let inside = fs::read_dir(home.data()).unwrap().map(|entry| entry.unwrap().path());
    let readable: Vec<PathBuf> = inside.filter(|path| open_to_others(path)).collect();
    assert!(!open_to_others(&home.data()) || readable.is_empty(), "others can read {readable:?}");
}

#[test]
fn tasks_survive_a_stop_and_a_kill() {
    let sabir = TestServer::start(AGENTS);
    let mut tasks: Vec<Value> = (0..20).map(|n| sabir.send("/", &send_params(&n.to_string()))).collect();
    tasks.push(sabir.send("/agents/desk", &send_params("book")));
    let sabir = TestServer::start_at(&sabir.stop());
    tasks.push(sabir.send("/", &send_params("after the stop")));
    let sabir = TestServer::start_at(&sabir.kill());
    for task in &tasks {
        let at = if state(task) == "TASK_STATE_COMPLETED" { "/" } else { "/agents/desk" };
        assert_eq!(sabir.get(at, &task["id"]), *task);
    }
    assert_eq!(sabir.result("/", "ListTasks", &json!({"pageSize": 1}))["totalSize"], 21);
}
