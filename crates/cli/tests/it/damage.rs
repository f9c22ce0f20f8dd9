//! Damage that is only found while serving: the task it hit is an internal error, everything else is served.

use crate::http_client::Request;
use crate::rpc_client::{INTERNAL, ProtocolError, send_params, state};
use crate::test_server::{AGENTS, ServerDirectory, TestServer};
use serde_json::{Value, json};
use std::sync::Arc;

/// A store with a task in the middle that something happened to: what, a statement about the row `k` says.
fn damaged(at: &str, text: &str, statement: &str) -> (TestServer, Vec<Value>) {
    let sabir = TestServer::start(AGENTS);
    let tasks: Vec<Value> = [text, text, text].iter().map(|t| sabir.send(at, &send_params(t))).collect();
    let home: Arc<ServerDirectory> = sabir.stop();
    let database = home.open_database();
    let k: i64 = database.query_row("SELECT k FROM task ORDER BY k LIMIT 1 OFFSET 1", [], |r| r.get(0)).unwrap();
    assert_eq!(database.execute(&statement.replace("?k", &k.to_string()), []).unwrap(), 1);
    drop(database);
    (TestServer::start_at(&home), tasks)
}

/// The damaged task is an internal error with a reference that the log knows; its neighbours are as they were.
#[track_caller]
fn check(at: &str, text: &str, statement: &str) {
    let (sabir, tasks) = damaged(at, text, statement);
    let envelope = sabir.rpc(at, "GetTask", &json!({"id": tasks[1]["id"]}));
    assert_eq!(ProtocolError::from_rpc(&envelope).code_and_reason(), (INTERNAL.0, INTERNAL.2), "{envelope}");
    let message = envelope["error"]["message"].as_str().unwrap();
    let reference = message.rsplit(' ').next().unwrap();
    assert!(sabir.log_text().contains(reference), "the reference {reference} leads to the cause in the log");
    for task in [&tasks[0], &tasks[2]] {
        assert_eq!(sabir.get(at, &task["id"]), *task);
    }
    // A list that meets it may fail, but must answer, and in JSON.
    for page in [json!({}), json!({"includeArtifacts": true, "historyLength": 1})] {
        sabir.rpc(at, "ListTasks", &page);
    }
    for method in ["CancelTask", "SubscribeToTask"] {
        let reply =
            sabir.ask(&Request::post(at, crate::rpc_client::envelope(method, &json!({"id": tasks[1]["id"]})))).json();
        assert!(reply.get("error").is_some(), "{method}: {reply}");
    }
    sabir.still_serves();
}

#[test]
fn a_settled_task_whose_text_is_damaged_is_an_internal_error() {
    check("/", "one", "UPDATE task SET body = X'00ff00ff' || substr(body, 5) WHERE k = ?k");
}

#[test]
fn a_settled_task_whose_text_was_cut_off_is_an_internal_error() {
    check("/", "one", "UPDATE task SET body = substr(body, 1, 20) WHERE k = ?k");
}

#[test]
fn a_settled_task_whose_text_is_gone_is_an_internal_error() {
    check("/", "one", "UPDATE task SET body = NULL WHERE k = ?k");
}

#[test]
fn a_waiting_task_whose_events_are_damaged_is_an_internal_error() {
    check("/agents/desk", "book", "UPDATE event SET lines = X'7b7b' WHERE k = ?k");
}

#[test]
fn offsets_that_point_nowhere_do_no_harm() {
    for statement in [
        "UPDATE task SET history_at = 1000000 WHERE k = ?k",
        "UPDATE task SET artifacts_at = 1000000, history_at = 1000000 WHERE k = ?k",
        "UPDATE task SET artifacts_at = 3, history_at = 5 WHERE k = ?k",
        "UPDATE task SET artifacts_at = -1 WHERE k = ?k",
    ] {
        let (sabir, tasks) = damaged("/", "one", statement);
        for length in [json!(null), json!(0), json!(1)] {
            // An answer in JSON, whatever it says; and no panic, which the end of the server checks.
            sabir.rpc("/", "GetTask", &json!({"id": tasks[1]["id"], "historyLength": length}));
            sabir.rpc("/", "ListTasks", &json!({"historyLength": length}));
        }
        assert_eq!(sabir.get("/", &tasks[2]["id"]), tasks[2]);
        sabir.still_serves();
    }
}

#[test]
fn a_page_that_rotted_is_an_error_of_what_is_on_it() {
    let sabir = TestServer::start(AGENTS);
    // Long enough to have pages of their own, so that the damage hits one of them and nothing else.
    let texts: Vec<String> = (0..9).map(|n| format!("{n}").repeat(50_000)).collect();
    let tasks: Vec<Value> = texts.iter().map(|t| sabir.send("/", &send_params(t))).collect();
    let home = sabir.stop();
    let mut bytes = crate::test_server::file_bytes(&home.database());
    let needle = "4".repeat(3000).into_bytes();
    let at = bytes.windows(needle.len()).position(|w| w == needle).unwrap();
    // The first bytes of an overflow page say where the text goes on; now they point beyond the end of the file.
    let page = at.next_multiple_of(4096);
    bytes[page..page + 4].fill(0x7f);
    std::fs::write(home.database(), bytes).unwrap();
    let sabir = TestServer::start_at(&home);
    let ready = || sabir.ask(&Request::get("/readyz"));
    assert_eq!(ready().status, 200, "nothing has read it yet");
    let envelope = sabir.rpc("/", "GetTask", &json!({"id": tasks[4]["id"]}));
    let told = ready();
    let words = told.text();
    assert_eq!(told.status, 503, "{words}");
    assert!(words.contains("damaged") && words.contains("sabir db check") && words.contains("backup"), "{words}");
    assert_eq!(ProtocolError::from_rpc(&envelope).code_and_reason(), (INTERNAL.0, INTERNAL.2), "{envelope}");
    for (n, task) in tasks.iter().enumerate().filter(|(n, _)| *n != 4) {
        assert_eq!(state(&sabir.get("/", &task["id"])), "TASK_STATE_COMPLETED", "task {n}");
    }
    sabir.rpc("/", "ListTasks", &json!({}));
    sabir.still_serves();
}

#[test]
fn an_unfinished_task_that_cannot_be_read_keeps_no_server_from_starting() {
    let sabir = TestServer::start(AGENTS);
    let (one, other) = (sabir.send("/agents/desk", &send_params("book")), sabir.send("/", &send_params("hello")));
    let home = sabir.stop();
    let database = home.open_database();
    // As if it had been at work.
    let sql = "UPDATE task SET state = 2 WHERE k = (SELECT min(k) FROM task)";
    assert_eq!(database.execute(sql, []).unwrap(), 1);
    database.execute("UPDATE event SET lines = X'7b7b' WHERE k = (SELECT min(k) FROM task)", []).unwrap();
    database.execute("DELETE FROM snapshot WHERE k = (SELECT min(k) FROM task)", []).unwrap();
    drop(database);
    let sabir = TestServer::start_at(&home);
    assert_eq!(sabir.get("/", &other["id"]), other);
    assert!(sabir.log_text().contains(one["id"].as_str().unwrap()), "the log says which: {}", sabir.log_text());
    sabir.still_serves();
}
