//! Retention: settled tasks are forgotten by age and by number, and clients notice only that they are gone.

use crate::command_runner::{CommandDirectory, CommandOutput};
use crate::rpc_client::{DESK_PATH, NOT_FOUND, send_params, state};
use crate::test_server::{AGENTS, ServerDirectory, TestServer, eventually};
use serde_json::{Value, json};
use std::sync::Arc;
use std::time::{Duration, Instant};

/// The usual agents; three tasks are kept of `demo`, and all of the others.
fn config(retention: &str) -> String {
    let own = "default = true\n[agent.retention]\ntasks = 3\n";
    format!("[retention]\n{retention}\nevery_seconds = 1\n{}", AGENTS.replacen("default = true\n", own, 1))
}

fn at(desk: &CommandDirectory, home: &ServerDirectory, verb: &[&str]) -> CommandOutput {
    let data = home.data();
    desk.run(&[verb, &["--data", data.to_str().unwrap(), "-o", "json"]].concat())
}

/// Makes all tasks of a store older. Their ids are their keys, so it is their last status that is moved.
fn make_older(home: &ServerDirectory, days: i64) {
    let database = home.open_database();
    let shift = (days * 86_400_000) << 15;
    database.execute("UPDATE task SET position = position - ?1", [shift]).unwrap();
}

#[track_caller]
fn check_whole(desk: &CommandDirectory, home: &ServerDirectory) {
    let ran = at(desk, home, &["db", "check"]);
    assert_eq!((ran.code, &ran.json()["whole"]), (0, &Value::Bool(true)), "{ran:#?}");
}

#[test]
fn the_latest_are_kept_and_the_others_forgotten() {
    let (desk, sabir) = (CommandDirectory::new(), TestServer::start(&config("grace_seconds = 0")));
    let tasks: Vec<Value> = (0..8).map(|n| sabir.send("/", &send_params(&n.to_string()))).collect();
    let open = sabir.send(DESK_PATH, &send_params("book"));
    let done = sabir.send(DESK_PATH, &send_params("quick"));
    eventually("three are left", || sabir.task_count("/") == 3);
    for task in &tasks[..5] {
        sabir.expect_error("/", "GetTask", &json!({"id": task["id"]}), NOT_FOUND);
    }
    for task in &tasks[5..] {
        assert_eq!(sabir.get("/", &task["id"]), *task);
    }
    // An agent that says nothing keeps everything, settled or not.
    assert_eq!((sabir.get(DESK_PATH, &open["id"]), sabir.get(DESK_PATH, &done["id"])), (open, done));
    assert_eq!(sabir.metric("sabir_tasks_forgotten_total"), 5.0);
    assert!(sabir.log_text().contains("forgot old tasks"), "{}", sabir.log_text());
    check_whole(&desk, &sabir.home);
    let sabir = TestServer::start_at(&sabir.kill());
    assert_eq!(sabir.task_count("/"), 3);
}

#[test]
fn what_is_too_old_is_forgotten_and_what_is_open_stays() {
    let desk = CommandDirectory::new();
    let sabir = TestServer::start(&config("days = 30"));
    let old: Vec<Value> = ["quick", "break", "no"].map(|words| sabir.send(DESK_PATH, &send_params(words))).into();
    let open = sabir.send(DESK_PATH, &send_params("book"));
    let home = sabir.stop();
    make_older(&home, 31);
    let sabir = TestServer::start_at(&home);
    let new = sabir.send(DESK_PATH, &send_params("quick"));
    eventually("the old ones are gone", || sabir.task_count(DESK_PATH) == 2);
    for task in &old {
        sabir.expect_error(DESK_PATH, "GetTask", &json!({"id": task["id"]}), NOT_FOUND);
        sabir.expect_error(DESK_PATH, "SubscribeToTask", &json!({"id": task["id"]}), NOT_FOUND);
    }
    assert_eq!(sabir.get(DESK_PATH, &new["id"]), new);
    assert_eq!(state(&sabir.get(DESK_PATH, &open["id"])), "TASK_STATE_INPUT_REQUIRED");
    let answer = sabir.send(DESK_PATH, &crate::rpc_client::answer_params(&open, "never"));
    assert_eq!(state(&answer), "TASK_STATE_REJECTED", "an old task goes on");
    check_whole(&desk, &sabir.stop());
}

#[test]
fn a_page_token_outlives_what_it_points_at() {
    let sabir = TestServer::start(&config("grace_seconds = 3"));
    let tasks: Vec<Value> = (0..9).map(|n| sabir.send("/", &send_params(&n.to_string()))).collect();
    let mut page = sabir.result("/", "ListTasks", &json!({"pageSize": 2}));
    let mut seen: Vec<Value> = page["tasks"].as_array().unwrap().clone();
    assert_eq!(page["totalSize"], 9);
    eventually("three are left", || sabir.task_count("/") == 3);
    while let Some(token) = page["nextPageToken"].as_str().filter(|token| !token.is_empty()) {
        page = sabir.result("/", "ListTasks", &json!({"pageSize": 2, "pageToken": token}));
        assert_eq!(page["totalSize"], 3);
        seen.extend(page["tasks"].as_array().unwrap().clone());
    }
    let seen: Vec<&Value> = seen.iter().map(|task| &task["id"]).collect();
    assert_eq!(seen, tasks.iter().rev().take(3).map(|task| &task["id"]).collect::<Vec<_>>());
}

#[test]
fn sends_go_on_while_thousands_are_forgotten() {
    let (desk, home) = (CommandDirectory::new(), old_tasks(3_000));
    let sabir = TestServer::start_at(&home);
    let (mut slowest, mut sent) = (Duration::ZERO, 0);
    let began = Instant::now();
    while sabir.metric("sabir_tasks_forgotten_total") < 3_000.0 {
        let asked = Instant::now();
        sabir.send("/", &send_params("meanwhile"));
        slowest = slowest.max(asked.elapsed());
        sent += 1;
        assert!(began.elapsed() < Duration::from_secs(60), "forgetting does not come to its end");
    }
    assert!(slowest < Duration::from_secs(2), "a send took {slowest:?} while tasks were forgotten");
    // The rest is younger than the grace.
    assert_eq!(sabir.task_count("/"), sent);
    check_whole(&desk, &sabir.home);
}

/// A home with this many old tasks: one is sent, and the others are made like it.
fn old_tasks(count: i64) -> Arc<ServerDirectory> {
    let sabir = TestServer::start(&config("days = 30\ngrace_seconds = 60"));
    sabir.send("/", &send_params("one of many"));
    let home = sabir.stop();
    make_older(&home, 40);
    let mut database = home.open_database();
    let transaction = database.transaction().unwrap();
    let (k, salt, id): (i64, i64, String) = transaction
        .query_row("SELECT t.k, t.salt, v.id FROM task t, a2a_tasks v", [], |row| {
            Ok((row.get(0)?, row.get(1)?, row.get(2)?))
        })
        .unwrap();
    for n in 1..count {
        let other = k - (n << 15);
        // The new id differs from the old one in the milliseconds alone.
        let named = format!("{:08x}-{:04x}{}", other >> 31, (other >> 15) & 0xffff, &id[13..]);
        transaction
            .execute(
                "INSERT INTO task (k, salt, scope, state, position, moved, head, history_at, artifacts_at, body, events)
                 SELECT ?2, ?3, scope, state, position - (?5 << 15), moved, head, history_at, artifacts_at,
                        CAST(replace(CAST(body AS TEXT), ?1, ?4) AS BLOB),
                        CAST(replace(CAST(events AS TEXT), ?1, ?4) AS BLOB)
                 FROM task WHERE k = ?6",
                rusqlite::params![id, other, salt, named, n, k],
            )
            .unwrap();
    }
    transaction.execute("UPDATE counter SET n = ?1", [count]).unwrap();
    transaction.commit().unwrap();
    home
}

#[test]
fn an_operator_forgets_by_hand() {
    let desk = CommandDirectory::new();
    let sabir = TestServer::start(AGENTS);
    for words in ["quick", "break", "book"] {
        sabir.send(DESK_PATH, &send_params(words));
    }
    sabir.send("/", &send_params("hello"));
    let home = sabir.stop();
    make_older(&home, 40);
    let sabir = TestServer::start_at(&home);
    let new = sabir.send("/", &send_params("new"));
    // A server may run while it is only counted, and not while it is done.
    let counted = at(&desk, &home, &["db", "prune", "--older-than", "30d", "--dry-run"]);
    assert_eq!(counted.json(), json!({"dryRun": true, "tasks": 3, "agents": {"demo": 1, "desk": 2}}));
    let refused = at(&desk, &home, &["db", "prune", "--older-than", "30d"]);
    assert_eq!((refused.code, &refused.json()["error"]["code"]), (1, &json!("SABIR_ERR_IN_USE")), "{refused:#?}");
    let home = sabir.stop();
    let before = std::fs::metadata(home.database()).unwrap().len();
    assert_eq!(at(&desk, &home, &["db", "prune", "--older-than", "50d"]).json()["tasks"], 0);
    assert_eq!(at(&desk, &home, &["db", "prune", "--older-than", "30d", "--agent", "desk"]).json()["tasks"], 2);
    check_whole(&desk, &home);
    assert_eq!(at(&desk, &home, &["db", "prune", "--older-than", "30d", "--compact"]).json()["tasks"], 1);
    assert!(std::fs::metadata(home.database()).unwrap().len() <= before);
    check_whole(&desk, &home);
    for bad in [&["--older-than", "soon"][..], &["--older-than", "30d", "--agent", "a b"], &[]] {
        assert_eq!(at(&desk, &home, &[&["db", "prune"], bad].concat()).code, 2, "{bad:?}");
    }
    let sabir = TestServer::start_at(&home);
    assert_eq!(sabir.get("/", &new["id"]), new);
    assert_eq!((sabir.task_count("/"), sabir.task_count(DESK_PATH)), (1, 1), "what is open stays");
}
