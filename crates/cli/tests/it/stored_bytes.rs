//! A caller that has stored as many bytes as it may sends no more, in any dialect, until old tasks are deleted.

use crate::command_runner::CommandDirectory;
use crate::http_client::{HttpResponse, Request};
use crate::rpc_client::{DESK_PATH, ProtocolError, answer_params, envelope, send_params, state, uuid};
use crate::test_server::{AGENTS, ServerDirectory, TestServer, eventually};
use serde_json::{Value, json};
use std::sync::Arc;

const KIB: usize = 1 << 10;

/// The usual agents for callers with keys; each caller may have 200 KiB stored.
fn config(retention: &str) -> String {
    let limits = "[auth]\naccept = [\"api_key\"]\n[limits]\nstored_bytes_max = 204800";
    format!("{retention}\n{}", AGENTS.replace("[limits]", limits))
}

struct KeyedCaller {
    /// Its name, as `explain` takes it.
    name: String,
    key: String,
}

impl KeyedCaller {
    fn create(home: &ServerDirectory) -> Self {
        let data = home.data();
        let made =
            CommandDirectory::new().run(&["key", "create", "-o", "json", "--data", data.to_str().unwrap()]).json();
        Self { name: format!("key:{}", made["id"].as_str().unwrap()), key: made["key"].as_str().unwrap().to_owned() }
    }

    fn ask(&self, sabir: &TestServer, at: &str, method: &str, params: &Value) -> Value {
        self.post(sabir, at, envelope(method, params)).json()
    }

    /// In a dialect that the method and its parameters tell.
    fn ask_older(&self, sabir: &TestServer, method: &str, params: &Value) -> Value {
        let request = Request::post("/", envelope(method, params)).without("A2A-Version");
        sabir.ask(&request.with("X-API-Key", &*self.key)).json()
    }

    fn post(&self, sabir: &TestServer, at: &str, body: String) -> HttpResponse {
        sabir.ask(&Request::post(at, body).with("X-API-Key", &*self.key))
    }

    /// Sends until the limit is reached, and returns the tasks.
    fn fill(&self, sabir: &TestServer) -> Vec<Value> {
        let mut tasks = Vec::new();
        loop {
            let mut answer = self.ask(sabir, "/", "SendMessage", &send_params(&"x".repeat(20 * KIB)));
            if answer.get("error").is_some() {
                check_refused(&answer);
                return tasks;
            }
            tasks.push(answer["result"]["task"].take());
            assert!(tasks.len() < 20, "no send is refused");
        }
    }
}

#[track_caller]
fn check_refused(answer: &Value) {
    assert_eq!(ProtocolError::from_rpc(answer).code_and_reason(), (-32603, "RESOURCE_EXHAUSTED"), "{answer}");
    let message = answer["error"]["message"].as_str().unwrap();
    assert!(message.contains("204800 are allowed"), "{message}");
}

fn explained(home: &ServerDirectory, caller: &KeyedCaller) -> (i32, String) {
    let desk = CommandDirectory::new();
    let (config, data) = (home.path("sabir.toml"), home.data());
    let place = ["--config", config.to_str().unwrap(), "--data", data.to_str().unwrap()];
    let ran = desk.run(&[&["explain", "--as", &*caller.name][..], &place].concat());
    (ran.code, ran.fields("stored_bytes").join("\n"))
}

fn check_whole(home: &ServerDirectory) {
    let ran = CommandDirectory::new().run(&["db", "check", "--data", home.data().to_str().unwrap(), "-o", "json"]);
    assert_eq!(ran.json()["whole"], true, "{ran:#?}");
}

#[test]
fn a_caller_that_reached_the_limit_reads_and_cancels_and_sends_no_more() {
    let sabir = TestServer::start(&config(""));
    let (ann, bob) = (KeyedCaller::create(&sabir.home), KeyedCaller::create(&sabir.home));
    let open = ann.ask(&sabir, DESK_PATH, "SendMessage", &send_params("book"))["result"]["task"].take();
    let repeated = json!({"message": {"messageId": uuid(), "role": "ROLE_USER", "parts": [{"text": "again"}]}});
    let first = ann.ask(&sabir, "/", "SendMessage", &repeated);
    let tasks = ann.fill(&sabir);
    // Each has its text twice: as it was said, and as it was answered.
    assert_eq!(tasks.len(), 5);
    // At every agent, and in every binding and dialect.
    check_refused(&ann.ask(&sabir, DESK_PATH, "SendMessage", &send_params("quick")));
    check_refused(&ann.ask(&sabir, DESK_PATH, "SendMessage", &answer_params(&open, "Monday")));
    let rest = ann.post(&sabir, "/message:send", send_params("hello").to_string());
    assert_eq!(ProtocolError::from_rest(&rest).code_and_reason(), (429, "RESOURCE_EXHAUSTED"), "{}", rest.text());
    let parts = json!([{"type": "text", "text": "hello"}]);
    let older = json!({"id": uuid(), "message": {"role": "user", "parts": parts}});
    let older = ann.ask_older(&sabir, "tasks/send", &older);
    assert!(older["error"]["message"].as_str().unwrap().contains("204800 are allowed"), "{older}");
    let message =
        json!({"kind": "message", "messageId": uuid(), "role": "user", "parts": [{"kind": "text", "text": "hello"}]});
    let older = ann.ask_older(&sabir, "message/send", &json!({"message": message}));
    assert!(older["error"]["message"].as_str().unwrap().contains("204800 are allowed"), "{older}");
    // What is stored can be read, repeated and canceled.
    let id = |task: &Value| json!({"id": task["id"]});
    assert_eq!(ann.ask(&sabir, "/", "GetTask", &id(&tasks[0]))["result"], tasks[0]);
    assert_eq!(ann.ask(&sabir, "/", "SendMessage", &repeated)["result"], first["result"]);
    let canceled = ann.ask(&sabir, DESK_PATH, "CancelTask", &id(&open));
    assert_eq!(state(&canceled["result"]), "TASK_STATE_CANCELED", "{canceled}");
    // Another caller has bytes of its own.
    assert_eq!(
        state(&bob.ask(&sabir, "/", "SendMessage", &send_params("hello"))["result"]["task"]),
        "TASK_STATE_COMPLETED"
    );
    assert_eq!(sabir.metric("sabir_sends_over_stored_bytes_total"), 6.0);
    let (code, line) = explained(&sabir.home, &ann);
    assert!(code == 1 && line.starts_with("REFUSES") && line.contains("of 204800"), "{code} {line}");
    let (code, line) = explained(&sabir.home, &bob);
    assert!(code == 0 && line.starts_with("passes"), "{code} {line}");
    check_whole(&sabir.home);
}

#[test]
fn the_count_survives_a_crash_and_falls_when_tasks_are_deleted() {
    let sabir = TestServer::start(&config(""));
    let ann = KeyedCaller::create(&sabir.home);
    ann.fill(&sabir);
    let home = sabir.kill();
    let sabir = TestServer::start_at(&home);
    check_refused(&ann.ask(&sabir, "/", "SendMessage", &send_params("hello")));
    let home = sabir.stop();
    std::fs::write(home.path("sabir.toml"), config("[retention]\ntasks = 1\ngrace_seconds = 0\nevery_seconds = 1"))
        .unwrap();
    let sabir = TestServer::start_at(&home);
    eventually("there is room again", || {
        ann.ask(&sabir, "/", "SendMessage", &send_params("hello")).get("result").is_some()
    });
    check_whole(&sabir.home);
}

#[test]
fn a_file_that_was_not_counted_is_counted_by_the_start_that_wants_it() {
    let sabir = TestServer::start(&config("").replace("stored_bytes_max = 204800", ""));
    let ann = KeyedCaller::create(&sabir.home);
    let large = send_params(&"x".repeat(250 * KIB));
    let tasks = [DESK_PATH, "/"].map(|at| ann.ask(&sabir, at, "SendMessage", &large));
    assert!(tasks.iter().all(|task| task.get("result").is_some()), "{tasks:?}");
    let home = sabir.stop();
    let counted = |home: &Arc<ServerDirectory>| -> i64 {
        home.open_database().query_row("SELECT ifnull(sum(n), 0) FROM stored_bytes", [], |row| row.get(0)).unwrap()
    };
    assert_eq!(counted(&home), 0, "nothing is counted where nothing is limited");
    std::fs::write(home.path("sabir.toml"), config("")).unwrap();
    let sabir = TestServer::start_at(&home);
    check_refused(&ann.ask(&sabir, "/", "SendMessage", &send_params("hello")));
    check_whole(&sabir.home);
    let home = sabir.stop();
    assert!(counted(&home) > 500_000);
    // Without the limit the count ends, and a start that wants it again counts what came in between.
    std::fs::write(home.path("sabir.toml"), config("").replace("stored_bytes_max = 204800", "")).unwrap();
    let sabir = TestServer::start_at(&home);
    assert!(ann.ask(&sabir, "/", "SendMessage", &large).get("result").is_some());
    let home = sabir.stop();
    assert_eq!(counted(&home), 0);
    std::fs::write(home.path("sabir.toml"), config("")).unwrap();
    let home = TestServer::start_at(&home).stop();
    assert!(counted(&home) > 1_000_000);
    check_whole(&home);
}
