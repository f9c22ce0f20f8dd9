//! The views for people with SQL: what the guide promises, run beside a server that works.

use crate::rpc_client::send_params;
use crate::test_server::{AGENTS, TestServer};
use rusqlite::{Connection, OpenFlags};
use serde_json::{Value, json};
use std::collections::BTreeSet;

const GUIDE: &str = include_str!("../../../../docs/guides/sql.md");

fn open(sabir: &TestServer) -> Connection {
    Connection::open_with_flags(sabir.home.database(), OpenFlags::SQLITE_OPEN_READ_ONLY).unwrap()
}

/// A row of the view as JSON, by the task's id.
#[track_caller]
fn row(database: &Connection, id: &Value) -> Value {
    let sql = "SELECT json_object('context', context_id, 'state', status_state, 'message', json(status_message),
                   'timestamp', status_timestamp, 'history', json(history), 'artifacts', json(artifacts),
                   'email', owner_email, 'scope', owner_scope, 'key', idempotency_key, 'created', created_at,
                   'updated', updated_at, 'agent', agent, 'owner', owner, 'json', json(json))
               FROM a2a_tasks WHERE id = ?1";
    let text: String = database.query_row(sql, [id.as_str().unwrap()], |row| row.get(0)).unwrap();
    serde_json::from_str(&text).unwrap()
}

#[test]
fn a_settled_task_is_seen_whole() {
    let sabir = TestServer::start(AGENTS);
    let database = open(&sabir);
    for (at, agent, text) in [("/", "demo", "hello"), ("/agents/desk", "desk", "quick"), ("/agents/desk", "desk", "no")]
    {
        let task = sabir.send(at, &send_params(text));
        let seen = row(&database, &task["id"]);
        assert_eq!(seen["json"], task, "{text}");
        assert_eq!((&seen["context"], &seen["timestamp"]), (&task["contextId"], &task["status"]["timestamp"]));
        assert_eq!(seen["message"], task["status"].get("message").cloned().unwrap_or_default());
        let state = task["status"]["state"].as_str().unwrap().trim_start_matches("TASK_STATE_").to_lowercase();
        assert_eq!(seen["state"], state.replace('_', "-"));
        assert_eq!((&seen["agent"], &seen["owner"]), (&json!(agent), &json!("anonymous")));
        assert_eq!((&seen["email"], &seen["scope"], &seen["key"]), (&Value::Null, &json!(""), &Value::Null));
        assert!(
            seen["updated"].as_i64() >= seen["created"].as_i64() && seen["created"].as_i64() > Some(1_700_000_000_000)
        );
    }
}

#[test]
fn a_task_that_waits_shows_its_question() {
    let sabir = TestServer::start(AGENTS);
    let database = open(&sabir);
    let task = sabir.send("/agents/desk", &send_params("book"));
    let seen = row(&database, &task["id"]);
    assert_eq!((&seen["state"], &seen["message"]), (&json!("input-required"), &task["status"]["message"]));
    assert_eq!(seen["timestamp"], task["status"]["timestamp"]);
    assert_eq!(seen["context"], task["contextId"]);
    // A second turn: the latest question is the one that counts.
    let mut answer = send_params("Monday");
    answer["message"]["taskId"] = task["id"].clone();
    let asked = sabir.send("/agents/desk", &answer);
    let seen = row(&database, &task["id"]);
    assert_eq!((&seen["message"], &seen["timestamp"]), (&asked["status"]["message"], &asked["status"]["timestamp"]));
    assert_eq!(asked["status"]["message"]["parts"][0]["text"], "How many?");
}

#[test]
fn what_was_said_after_the_latest_snapshot_is_seen() {
    let sabir = TestServer::start(AGENTS);
    let database = open(&sabir);
    // Too large to be written again for two small messages.
    let mut task = sabir.send("/agents/desk", &send_params(&format!("book {}", "x".repeat(40_000))));
    for text in ["Monday", "four"] {
        let seen = row(&database, &task["id"]);
        assert_eq!(seen["history"], task["history"], "before {text}");
        assert_eq!(seen["json"], task, "before {text}");
        let mut answer = send_params(text);
        answer["message"]["taskId"] = task["id"].clone();
        task = sabir.send("/agents/desk", &answer);
    }
    assert_eq!(row(&database, &task["id"])["json"], task, "and at its end");
}

#[test]
fn the_queries_of_the_guide_run() {
    let sabir = TestServer::start(AGENTS);
    sabir.send("/", &send_params("hello"));
    let failed = sabir.send("/agents/desk", &send_params("break"));
    let database = open(&sabir);
    let queries: Vec<&str> = GUIDE.split("```sql\n").skip(1).map(|rest| rest.split("```").next().unwrap()).collect();
    assert_eq!(queries.len(), 4);
    let rows = |sql: &str| -> Vec<Vec<rusqlite::types::Value>> {
        let mut statement = database.prepare(sql).unwrap();
        let width = statement.column_count();
        let row = |row: &rusqlite::Row<'_>| (0..width).map(|n| row.get(n)).collect::<Result<Vec<_>, _>>();
        statement.query_map([], row).unwrap().map(Result::unwrap).collect()
    };
    use rusqlite::types::Value::{Integer, Text};
    let counted = rows(queries[0]);
    let counts: Vec<_> = counted.iter().map(|row| &row[..3]).collect();
    let expected = [
        [Text("demo".into()), Text("completed".into()), Integer(1)],
        [Text("desk".into()), Text("failed".into()), Integer(1)],
    ];
    assert_eq!(counts, expected);
    let failures = rows(queries[1]);
    assert_eq!(failures.len(), 1);
    assert_eq!(failures[0][0], Text(failed["id"].as_str().unwrap().into()));
    assert_eq!(failures[0][2], Text("It broke.".into()));
    assert_eq!(rows(queries[2]).len(), 0, "nobody waits");
    assert_eq!(rows(queries[3]).len(), 0, "no envelope came");
}

#[test]
fn the_guide_lists_every_column_and_no_other() {
    let sabir = TestServer::start(AGENTS);
    let database = open(&sabir);
    for view in ["a2a_tasks", "a2a_continuations"] {
        let statement = database.prepare(&format!("SELECT * FROM {view}")).unwrap();
        let columns: BTreeSet<&str> = statement.column_names().collect();
        let section = GUIDE.split(&format!("## `{view}`")).nth(1).unwrap().split("\n## ").next().unwrap();
        let cells = section.lines().filter(|line| line.starts_with("| `")).filter_map(|line| line.split('|').nth(1));
        let listed: BTreeSet<&str> = cells.flat_map(|cell| cell.split('`').skip(1).step_by(2)).collect();
        assert_eq!(listed, columns, "{view}");
        let written = database.execute(&format!("DELETE FROM {view}"), []);
        assert!(written.unwrap_err().to_string().contains("view"), "{view} is for reading");
    }
}
