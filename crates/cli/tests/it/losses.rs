//! What a dialect cannot carry is told: in the metrics, in the log, and beside the task.

use crate::dialects::dialect_client::DialectClient::{self, Native, Rest03, V01, V1, V03, Xpr};
use crate::dialects::dialect_client::outgoing;
use crate::dialects::{DESK_PATH, OFFICE_CONFIG};
use crate::http_client::Request;
use crate::protocols::Http2;
use crate::test_server::{ServerDirectory, TestServer, eventually};
use serde_json::json;

/// The counter of one kind of loss; nothing told is nothing lost.
fn lost(sabir: &TestServer, dialect: &str, kind: &str) -> u64 {
    let text = sabir.ask(&Request::get("/metrics")).text();
    let name = format!("sabir_translation_losses_total{{dialect=\"{dialect}\",kind=\"{kind}\"}} ");
    text.lines().find_map(|l| l.strip_prefix(&name)).map_or(0, |n| n.parse().unwrap())
}

fn all_lost(sabir: &TestServer) -> usize {
    let text = sabir.ask(&Request::get("/metrics")).text();
    text.lines().filter(|l| l.starts_with("sabir_translation_losses_total{")).count()
}

#[test]
fn a_state_that_a_dialect_does_not_have_is_counted() {
    let sabir = TestServer::start(OFFICE_CONFIG);
    for (n, (tongue, name)) in [(V01, "0.1"), (Native, "agent-native"), (Xpr, "xpr")].into_iter().enumerate() {
        let id = sabir.send_as(V1, DESK_PATH, &outgoing("no such rule")).id;
        assert_eq!(lost(&sabir, name, "state"), 0, "{name}");
        sabir.get_as(tongue, DESK_PATH, &id);
        assert_eq!(lost(&sabir, name, "state"), 1, "{name}");
        sabir.get_as(tongue, DESK_PATH, &id);
        assert_eq!(lost(&sabir, name, "state"), 2, "{name}: each time it is shown");
        assert!(all_lost(&sabir) > n);
    }
    let before = all_lost(&sabir);
    let id = sabir.send_as(V1, DESK_PATH, &outgoing("no such rule")).id;
    sabir.get_as(V1, DESK_PATH, &id);
    sabir.get_as(V03, DESK_PATH, &id);
    assert_eq!(all_lost(&sabir), before, "1.0 and 0.3 have all states");
}

#[test]
fn kinds_of_losses_are_counted_by_themselves() {
    let sabir = TestServer::start(OFFICE_CONFIG);
    let parts = json!([{"text": "x", "filename": "a.txt", "mediaType": "text/plain"}]);
    let params = json!({"message": {"messageId": "m", "role": "ROLE_USER", "parts": parts}});
    let id = sabir.send("/", &params)["id"].as_str().unwrap().to_owned();
    sabir.get_as(V03, "", &id);
    assert_eq!(lost(&sabir, "0.3", "part-attribute"), 4, "a name and a type, in the history and in the echo");
    assert_eq!((lost(&sabir, "0.3", "message-id"), lost(&sabir, "1.0", "part-attribute")), (0, 0));
    sabir.get_as(Xpr, "", &id);
    assert!(lost(&sabir, "xpr", "message-id") > 0 && lost(&sabir, "xpr", "artifact-id") > 0);
    let closing = sabir.send_as(V01, DESK_PATH, &outgoing("words"));
    assert_eq!((lost(&sabir, "0.1", "answer-place"), closing.artifact(0).is_some()), (1, true));
    let schemes = json!({"url": "https://x.example/h", "authentication": {"schemes": ["Basic", "Bearer"]}});
    sabir.ask(&V01.rpc(
        DESK_PATH,
        "tasks/pushNotification/set",
        &json!({"id": closing.id, "pushNotificationConfig": schemes}),
    ));
    assert_eq!(lost(&sabir, "0.1", "push-authentication"), 1, "what could not be taken over is lost, too");
}

#[test]
fn the_other_bindings_of_03_say_what_they_lose_too() {
    let sabir = TestServer::start(OFFICE_CONFIG);
    let parts = json!([{"text": "x", "filename": "a.txt"}]);
    let params = json!({"message": {"messageId": "m", "role": "ROLE_USER", "parts": parts}});
    let id = sabir.send("/", &params)["id"].as_str().unwrap().to_owned();
    let shown = sabir.get_as(Rest03, "", &id);
    assert!(!shown.raw.to_string().contains("a.txt"), "{}", shown.raw);
    assert_eq!(lost(&sabir, "0.3", "part-attribute"), 2, "in the history and in the echo");
    let name = format!("tasks/{id}");
    let message = [&[0x0a, u8::try_from(name.len()).unwrap()], name.as_bytes()].concat();
    let answer = Http2::open(&sabir).grpc(&sabir.address.to_string(), "/a2a.v1.A2AService/GetTask", &message);
    assert!(!answer.is_empty());
    assert_eq!(lost(&sabir, "0.3", "part-attribute"), 4);
    eventually("both are noted, by both bindings", || {
        let named = |(d, k, p, n): &&(String, String, String, i64)| {
            (&**d, &**k, *n) == ("0.3", "part-attribute", 2) && p.ends_with("filename")
        };
        notes_now(&sabir.home).iter().filter(named).count() == 2
    });
}

#[test]
fn losses_on_a_stream_are_counted_as_they_happen() {
    let sabir = TestServer::start(OFFICE_CONFIG);
    sabir.stream_as(V01, DESK_PATH, outgoing("no such rule")).rest();
    eventually("the state is counted", || lost(&sabir, "0.1", "state") == 1);
    sabir.stream_as(Native, DESK_PATH, outgoing("thing")).rest();
    eventually("the place is counted", || lost(&sabir, "agent-native", "answer-place") == 1);
}

#[test]
fn a_refused_request_loses_nothing() {
    let sabir = TestServer::start(OFFICE_CONFIG);
    for tongue in [V03, V01, Native, Xpr] as [DialectClient; 4] {
        sabir.ask(&tongue.get(DESK_PATH, "nobody"));
    }
    assert_eq!(all_lost(&sabir), 0);
}

/// The notes in the store: dialect, kind, path, how often.
fn notes(home: &ServerDirectory) -> Vec<(String, String, String, i64)> {
    read_notes(&home.open_database()).unwrap()
}

fn read_notes(database: &rusqlite::Connection) -> rusqlite::Result<Vec<(String, String, String, i64)>> {
    let sql = "SELECT dialect, kind, path, count FROM note JOIN task USING (k) ORDER BY dialect, kind, path";
    let mut statement = database.prepare(sql)?;
    statement.query_map([], |r| Ok((r.get(0)?, r.get(1)?, r.get(2)?, r.get(3)?)))?.collect()
}

#[test]
fn a_note_lies_beside_the_task() {
    let sabir = TestServer::start(OFFICE_CONFIG);
    let id = sabir.send_as(V1, DESK_PATH, &outgoing("no such rule")).id;
    for _ in 0..3 {
        sabir.get_as(V01, DESK_PATH, &id);
    }
    sabir.get_as(Xpr, DESK_PATH, &id);
    let state = |dialect: &str, count| (dialect.to_owned(), "state".to_owned(), "status.state".to_owned(), count);
    // No request waits for notes, and a stop does not either.
    let written =
        |sabir: &TestServer, note| eventually("the note is in the file", || notes_now(&sabir.home).contains(&note));
    written(&sabir, state("0.1", 3));
    written(&sabir, state("xpr", 1));
    // A restart neither loses nor repeats them.
    let sabir = TestServer::start_at(&sabir.stop());
    sabir.get_as(V01, DESK_PATH, &id);
    written(&sabir, state("0.1", 4));
}

#[test]
fn a_note_of_a_stream_lies_beside_its_task() {
    let sabir = TestServer::start(OFFICE_CONFIG);
    sabir.stream_as(V01, DESK_PATH, outgoing("no such rule")).rest();
    eventually("the note is in the file", || {
        let found = notes_now(&sabir.home);
        found.iter().any(|(d, k, p, _)| (&**d, &**k) == ("0.1", "state") && p.ends_with("status.state"))
    });
}

/// The notes of a running server, from a copy of its files; none while the copy cannot be read.
fn notes_now(home: &ServerDirectory) -> Vec<(String, String, String, i64)> {
    let copy = home.path("copy.db");
    for end in ["", "-wal"] {
        let (from, to) = (format!("{}{end}", home.database().display()), format!("{}{end}", copy.display()));
        let _ = std::fs::copy(from, to);
    }
    rusqlite::Connection::open(&copy).and_then(|database| read_notes(&database)).unwrap_or_default()
}

#[test]
fn a_note_is_written_while_the_server_runs() {
    let sabir = TestServer::start(OFFICE_CONFIG);
    let id = sabir.send_as(V1, DESK_PATH, &outgoing("no such rule")).id;
    sabir.get_as(V01, DESK_PATH, &id);
    let is_state = |(d, k, ..): &(String, String, String, i64)| (&**d, &**k) == ("0.1", "state");
    eventually("the note is in the file", || notes_now(&sabir.home).iter().any(is_state));
    assert!(notes(&sabir.kill()).iter().any(|(d, k, ..)| (&**d, &**k) == ("0.1", "state")), "and outlives a kill");
}

#[test]
fn the_log_tells_losses_at_debug_and_not_before() {
    for (level, told) in [("debug", true), ("info", false)] {
        let home = ServerDirectory::new(OFFICE_CONFIG);
        let mut command = home.command();
        command.env("SABIR_LOG", level);
        let sabir = TestServer::run(&home, command);
        let id = sabir.send_as(V1, DESK_PATH, &outgoing("no such rule")).id;
        sabir.get_as(V01, DESK_PATH, &id);
        let plain = || sabir.log_text().replace("\u{1b}[0m", "").replace("\u{1b}[2m", "").replace("\u{1b}[3m", "");
        if told {
            eventually("it is in the log", || plain().contains("lost in translation"));
            let said = plain();
            let line = said.lines().find(|l| l.contains("lost in translation") && l.contains("status.state")).unwrap();
            assert!(line.contains("dialect=0.1") && line.contains("kind=state") && line.contains(&id), "{line}");
        } else {
            assert!(!plain().contains("lost in translation"));
        }
    }
}
