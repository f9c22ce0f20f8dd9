//! The routes by which agent-native servers call themselves back.

use crate::http_client::{HttpResponse, Request};
use crate::rpc_client::{send_params, state};
use crate::test_server::{AGENTS, ServerDirectory, TestServer};
use serde_json::{Value, json};
use sha2::{Digest as _, Sha256};
use std::time::{SystemTime, UNIX_EPOCH};

const TASK: &str = "/_agent-native/a2a/_process-task";
const WAIT: &str = "/_agent-native/integrations/process-a2a-continuation";
const SECRET: &str = "a secret of this test";

fn now() -> i64 {
    i64::try_from(SystemTime::now().duration_since(UNIX_EPOCH).unwrap().as_millis()).unwrap()
}

/// HMAC-SHA256 as RFC 2104 has it, in hex: nothing of the program under test.
fn mac(key: &str, message: &str) -> String {
    let mut block = [0_u8; 64];
    block[..key.len()].copy_from_slice(key.as_bytes());
    let pad = |byte: u8| block.map(|b| b ^ byte);
    let inner = Sha256::new().chain_update(pad(0x36)).chain_update(message).finalize();
    let outer = Sha256::new().chain_update(pad(0x5c)).chain_update(inner).finalize();
    outer.iter().map(|byte| format!("{byte:02x}")).collect()
}

fn token(key: &str, id: &str, at: i64) -> String {
    format!("{at}.{}", mac(key, &format!("{id}:{at}")))
}

fn post(sabir: &TestServer, path: &str, body: &Value, token: Option<&str>) -> HttpResponse {
    let mut request = Request::post(path, body.to_string());
    if let Some(token) = token {
        request = request.with("Authorization", format!("Bearer {token}"));
    }
    sabir.ask(&request)
}

fn with_secret() -> TestServer {
    let home = ServerDirectory::new(AGENTS);
    let mut command = home.command();
    command.env("A2A_SECRET", SECRET).env("A2A_AUTH_REQUIRED", "false");
    TestServer::run(&home, command)
}

#[test]
fn tokens_are_taken_while_they_are_fresh_and_for_what_they_name() {
    let sabir = with_secret();
    let id = "3f2b1c9e-8a77-4c5d-9e21-0123456789ab";
    let at = now();
    let upper = token(SECRET, id, at).to_uppercase();
    for (path, member) in [(TASK, "taskId"), (WAIT, "continuationId")] {
        let body = json!({ member: id });
        for (name, token, status) in [
            ("fresh", token(SECRET, id, at), 200),
            ("nearly too old", token(SECRET, id, at - 290_000), 200),
            ("too old", token(SECRET, id, at - 301_000), 401),
            ("a little ahead", token(SECRET, id, at + 50_000), 200),
            ("too far ahead", token(SECRET, id, at + 70_000), 401),
            ("for another", token(SECRET, "another", at), 401),
            ("another secret", token("no secret", id, at), 401),
            ("upper case", upper.clone(), 401),
            ("no dot", "123".into(), 401),
            ("no signature", format!("{at}."), 401),
            ("nonsense", "x.y".into(), 401),
        ] {
            let reply = post(&sabir, path, &body, Some(&token));
            assert_eq!(reply.status, status, "{path} {name}: {}", reply.text());
            let said = match (status, path) {
                (200, TASK) => json!({"ok": true}),
                (200, _) => json!({"ok": true, "continuationId": id}),
                _ => json!({"error": "Invalid or expired processor token"}),
            };
            assert_eq!(reply.json(), said, "{path} {name}");
        }
        assert_eq!(post(&sabir, path, &body, None).status, 401);
        let reply = post(&sabir, path, &json!({}), Some(&token(SECRET, "", at)));
        assert_eq!((reply.status, reply.json()), (400, json!({"error": format!("{member} required")})));
        let reply = sabir.ask(&Request::get(path));
        assert_eq!((reply.status, reply.json()), (405, json!({"error": "Method not allowed"})));
    }
}

#[test]
fn a_task_at_work_or_at_rest_is_left_as_it_is() {
    let sabir = with_secret();
    for text in ["forever", "book", "quick"] {
        let mut params = send_params(text);
        params["configuration"] = json!({"returnImmediately": true});
        let task = sabir.send("/agents/desk", &params);
        let id = task["id"].as_str().unwrap();
        let before = sabir.get("/agents/desk", &task["id"]);
        let reply = post(&sabir, TASK, &json!({ "taskId": id }), Some(&token(SECRET, id, now())));
        assert_eq!(reply.status, 200);
        let after = sabir.get("/agents/desk", &task["id"]);
        if text != "quick" {
            assert_eq!(state(&after), state(&before));
        }
        assert_ne!(state(&after), "TASK_STATE_FAILED");
    }
}

#[test]
fn without_a_secret_only_production_refuses() {
    let body = json!({"taskId": "x"});
    let sabir = TestServer::start(AGENTS);
    assert_eq!(post(&sabir, TASK, &body, None).status, 200);
    let home = ServerDirectory::new(AGENTS);
    let mut command = home.command();
    command.arg("--production");
    let sabir = TestServer::run(&home, command);
    assert_eq!(post(&sabir, TASK, &body, None).status, 503);
    assert_eq!(post(&sabir, WAIT, &json!({"continuationId": "x"}), None).status, 503);
}
