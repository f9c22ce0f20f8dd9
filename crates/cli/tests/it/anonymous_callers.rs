//! Callers without a credential are strangers to each other: no caller can guess the name of another caller's task.

use crate::http_client::Request;
use crate::rpc_client::{DESK_PATH, NOT_FOUND, envelope, send_params, state};
use crate::test_server::{AGENTS, TestServer};
use serde_json::{Value, json};

const UUID: &str = "f47ac10b-58cc-4372-a567-0e02b2c3d479";

fn open_to_strangers() -> TestServer {
    let auth = "[auth]\naccept = [\"api_key\"]\nrequired = false\n";
    TestServer::start(&format!("{auth}{}", AGENTS.replace("[limits]", "[limits]\nanonymous_per_minute = 0")))
}

/// A request of 0.1.
#[track_caller]
fn old(sabir: &TestServer, at: &str, method: &str, params: &Value) -> Value {
    let body = json!({"jsonrpc": "2.0", "id": 1, "method": method, "params": params}).to_string();
    sabir.ask(&Request::post(at, body).without("A2A-Version")).json()
}

fn says(id: &str, text: &str) -> Value {
    json!({"id": id, "sessionId": "s-1", "message": {"role": "user", "parts": [{"type": "text", "text": text}]}})
}

#[test]
fn a_name_that_can_be_guessed_leads_nobody_to_a_strangers_task() {
    let sabir = open_to_strangers();
    let mine = old(&sabir, DESK_PATH, "tasks/send", &says("order-1", "book"))["result"].take();
    assert_eq!(mine["status"]["state"], "input-required", "{mine}");
    // Another caller that guesses the name finds nothing, and answers nothing.
    let looked = old(&sabir, DESK_PATH, "tasks/get", &json!({"id": "order-1"}));
    assert_eq!(looked["error"]["code"], -32001, "{looked}");
    sabir.expect_error(DESK_PATH, "GetTask", &json!({"id": "order-1"}), NOT_FOUND);
    let theirs = old(&sabir, DESK_PATH, "tasks/send", &says("order-1", "book"))["result"].take();
    assert_ne!(theirs["id"], mine["id"]);
    assert_ne!(theirs["sessionId"], mine["sessionId"], "they are not in one conversation either");
    // The one who opened it goes on by the name that the answer shows.
    let name = mine["id"].as_str().unwrap();
    assert_ne!(name, "order-1");
    let seen = old(&sabir, DESK_PATH, "tasks/get", &json!({"id": name}));
    assert_eq!((&seen["result"]["id"], &seen["result"]["status"]["state"]), (&mine["id"], &json!("input-required")));
    let asked = old(&sabir, DESK_PATH, "tasks/send", &says(name, "Monday"))["result"].take();
    assert_eq!((&asked["id"], &asked["sessionId"]), (&mine["id"], &mine["sessionId"]), "{asked}");
    let done = old(&sabir, DESK_PATH, "tasks/send", &says(name, "four"))["result"].take();
    assert_eq!(done["status"]["state"], "completed", "{done}");
}

#[test]
fn a_name_that_cannot_be_guessed_is_kept() {
    let sabir = open_to_strangers();
    let mine = old(&sabir, DESK_PATH, "tasks/send", &says(UUID, "book"))["result"].take();
    assert_eq!(mine["id"], UUID);
    let seen = old(&sabir, DESK_PATH, "tasks/get", &json!({"id": UUID}));
    assert_eq!(seen["result"]["id"], UUID, "{seen}");
}

#[test]
fn names_of_xpr_go_the_same_way() {
    let sabir = open_to_strangers();
    let params = json!({"id": "order-1", "message": {"role": "user", "parts": [{"type": "text", "text": "book"}]}});
    let send = || old(&sabir, "/agents/desk/a2a", "message/send", &params)["result"].take();
    let (one, other) = (send(), send());
    assert!(one["id"].is_string() && one["id"] != "order-1" && one["id"] != other["id"], "{one} {other}");
    let seen = old(&sabir, "/agents/desk/a2a", "tasks/get", &json!({"id": one["id"]}));
    assert_eq!(seen["result"]["id"], one["id"], "{seen}");
}

#[test]
fn an_idempotency_key_that_can_be_guessed_makes_no_repeat_of_a_strangers_send() {
    let sabir = open_to_strangers();
    let send = |key: &str, text: &str| {
        let message = json!({"messageId": "m", "role": "ROLE_USER", "parts": [{"text": text}]});
        let body = envelope("SendMessage", &json!({"message": message}));
        sabir.ask(&Request::post("/", body).with("Idempotency-Key", key)).json()
    };
    let (one, other) = (send("1", "hello"), send("1", "hello"));
    assert_ne!(one["result"]["task"]["id"], other["result"]["task"]["id"], "{one} {other}");
    let third = send("1", "something else");
    assert_eq!(state(&third["result"]["task"]), "TASK_STATE_COMPLETED", "nobody is told that a key is in use: {third}");
    let (one, other) = (send(UUID, "hello"), send(UUID, "hello"));
    assert_eq!(one["result"]["task"]["id"], other["result"]["task"]["id"]);
}

#[test]
fn a_conversation_that_can_be_guessed_is_not_joined() {
    let sabir = open_to_strangers();
    let send = |context: &Value| {
        let mut params = send_params("hello");
        params["message"]["contextId"] = context.clone();
        sabir.send("/", &params)["contextId"].take()
    };
    let (one, other) = (send(&json!("s-1")), send(&json!("s-1")));
    assert!(one != "s-1" && one != other, "{one} {other}");
    assert_eq!(send(&one), one, "the name that the answer shows leads on");
    assert_eq!(send(&json!(UUID)), UUID);
}

#[test]
fn whoever_shows_a_key_and_the_one_person_at_this_machine_keep_every_name() {
    let local = TestServer::start(AGENTS);
    let mine = old(&local, "/", "tasks/send", &says("order-1", "hello"))["result"].take();
    assert_eq!((&mine["id"], &mine["sessionId"]), (&json!("order-1"), &json!("s-1")));
    assert_eq!(old(&local, "/", "tasks/get", &json!({"id": "order-1"}))["result"]["id"], "order-1");
    // The same store, once others can reach the server: no caller finds what was kept under such a name.
    let home = local.stop();
    std::fs::write(home.path("sabir.toml"), format!("[auth]\naccept = [\"api_key\"]\nrequired = false\n{AGENTS}"))
        .unwrap();
    let sabir = TestServer::start_at(&home);
    let looked = old(&sabir, "/", "tasks/get", &json!({"id": "order-1"}));
    assert_eq!(looked["error"]["code"], -32001, "{looked}");
}
