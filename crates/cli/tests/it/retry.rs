//! The same send twice: one task, if it can be told that it is the same send.
//!
//! An explicit `Idempotency-Key` always is a key; a `messageId` is one when it was made to be unique. Hand-made ids are
//! not: tutorials send `msg-1` for everything.

use crate::http_client::Request;
use crate::rpc_client::{
    CONFLICT, DESK_PATH, PARAMS, ProtocolError, answer_params, artifact_text, envelope, send_params, state, uuid,
};
use crate::test_server::{AGENTS, TestServer};
use serde_json::{Value, json};
use std::sync::Barrier;
use std::thread;

/// A message with an id.
fn named(id: &str, text: &str) -> Value {
    json!({"message": {"messageId": id, "role": "ROLE_USER", "parts": [{"text": text}]}})
}

/// Sends with an explicit key.
fn keyed(sabir: &TestServer, at: &str, key: &str, params: &Value) -> Value {
    sabir.ask(&Request::post(at, envelope("SendMessage", params)).with("Idempotency-Key", key)).json()
}

fn ulid() -> String {
    format!("01{}", &uuid().replace('-', "").to_uppercase()[8..])
}

#[test]
fn the_same_unique_id_is_the_same_send() {
    let sabir = TestServer::start(AGENTS);
    for id in [uuid(), uuid().replace('-', ""), uuid().to_uppercase(), ulid()] {
        let first = sabir.send("/", &named(&id, "once"));
        for _ in 0..3 {
            assert_eq!(sabir.send("/", &named(&id, "once")), first, "{id}");
        }
        // The other binding, too; and the key is the caller's, not the spelling's.
        let reply = sabir.ask(&Request::post("/message:send", named(&id, "once").to_string()));
        assert_eq!(reply.json()["task"], first, "{id}");
    }
    assert_eq!(sabir.task_count("/"), 4);
}

#[test]
fn a_hand_made_id_is_never_a_retry() {
    let sabir = TestServer::start(AGENTS);
    for id in
        ["1", "msg-1", "message-0001", "00000000-0000-0000-0000-000000000000", "ffffffff-ffff-ffff-ffff-ffffffffffff"]
    {
        assert_ne!(sabir.send("/", &named(id, "x"))["id"], sabir.send("/", &named(id, "x"))["id"], "{id}");
    }
    assert_eq!(sabir.task_count("/"), 10);
}

#[test]
fn a_unique_id_with_other_words_is_another_send() {
    let sabir = TestServer::start(AGENTS);
    let id = uuid();
    let first = sabir.send("/", &named(&id, "one"));
    let second = sabir.send("/", &named(&id, "two"));
    assert_ne!(first["id"], second["id"]);
    assert_eq!(second["artifacts"][0]["parts"][0]["text"], "two");
    let mut with_metadata = named(&id, "two");
    with_metadata["message"]["metadata"] = json!({"k": 1});
    assert_ne!(sabir.send("/", &with_metadata)["id"], second["id"]);
}

#[test]
fn an_explicit_key_is_a_key_whatever_the_id_is() {
    let sabir = TestServer::start(AGENTS);
    let first = keyed(&sabir, "/", "order-7", &named("m1", "x"));
    assert_eq!(keyed(&sabir, "/", "order-7", &named("m1", "x")), first);
    let reply =
        sabir.ask(&Request::post("/message:send", named("m1", "x").to_string()).with("Idempotency-Key", "order-7"));
    assert_eq!(reply.json()["task"], first["result"]["task"]);
    // Used for something else, it is a conflict and not a second task.
    let other = keyed(&sabir, "/", "order-7", &named("m1", "y"));
    assert_eq!(ProtocolError::from_rpc(&other).code_and_reason(), (CONFLICT.0, CONFLICT.2));
    sabir.expect_rest_error(
        &Request::post("/message:send", named("m1", "y").to_string()).with("Idempotency-Key", "order-7"),
        CONFLICT,
    );
    assert_eq!(keyed(&sabir, "/", "order-7", &named("m1", "x")), first, "the conflict has not taken the key over");
    assert_eq!(sabir.task_count("/"), 1);
    // The id still counts where the key differs.
    assert_ne!(keyed(&sabir, "/", "order-8", &named("m1", "x"))["result"]["task"]["id"], first["result"]["task"]["id"]);
}

#[test]
fn a_key_belongs_to_its_agent_and_tenant() {
    let sabir = TestServer::start(AGENTS);
    let id = uuid();
    let here = sabir.send("/", &named(&id, "quick"));
    let there = sabir.send(DESK_PATH, &named(&id, "quick"));
    let mut params = named(&id, "quick");
    params["tenant"] = json!("acme");
    let elsewhere = sabir.send("/", &params);
    assert!(here["id"] != there["id"] && there["id"] != elsewhere["id"] && elsewhere["id"] != here["id"]);
    assert_eq!(sabir.send("/", &params), elsewhere);
}

#[test]
fn a_retry_joins_the_send_that_still_runs() {
    let sabir = TestServer::start(AGENTS);
    for explicit in [true, false] {
        let id = uuid();
        let barrier = Barrier::new(8);
        let tasks: Vec<Value> = thread::scope(|scope| {
            let one = || {
                barrier.wait();
                let request = Request::post(DESK_PATH, envelope("SendMessage", &named(&id, "tick")));
                sabir.ask(&if explicit { request.with("Idempotency-Key", "eight") } else { request }).json()["result"]["task"].take()
            };
            let all: Vec<_> = (0..8).map(|_| scope.spawn(one)).collect();
            all.into_iter().map(|t| t.join().unwrap()).collect()
        });
        for task in &tasks {
            assert_eq!(state(task), "TASK_STATE_COMPLETED");
            assert_eq!(task, &tasks[0]);
        }
    }
    assert_eq!(sabir.task_count(DESK_PATH), 2);
}

#[test]
fn an_instant_answer_is_given_once_however_many_ask_together() {
    let sabir = TestServer::start(AGENTS);
    for round in 1..=10 {
        let id = uuid();
        let barrier = Barrier::new(8);
        thread::scope(|scope| {
            let one = || {
                barrier.wait();
                sabir.send("/", &named(&id, "x"))["id"].take()
            };
            let all: Vec<_> = (0..8).map(|_| scope.spawn(one)).collect();
            let ids: Vec<Value> = all.into_iter().map(|t| t.join().unwrap()).collect();
            assert!(ids.iter().all(|i| *i == ids[0]), "{ids:?}");
        });
        assert_eq!(sabir.task_count("/"), round);
    }
}

#[test]
fn an_answer_to_a_question_can_be_repeated() {
    let sabir = TestServer::start(AGENTS);
    let task = sabir.send(DESK_PATH, &send_params("sign"));
    let mut params = named(&uuid(), "it is me");
    params["message"]["taskId"] = task["id"].clone();
    let done = sabir.send(DESK_PATH, &params);
    assert_eq!(state(&done), "TASK_STATE_COMPLETED");
    // Without a key this would be a message to a settled task.
    assert_eq!(sabir.send(DESK_PATH, &params), done);
    let explicit = sabir.send(DESK_PATH, &send_params("sign"));
    let params = answer_params(&explicit, "it is me");
    let first = keyed(&sabir, DESK_PATH, "answer", &params);
    assert_eq!(state(&first["result"]["task"]), "TASK_STATE_COMPLETED");
    assert_eq!(keyed(&sabir, DESK_PATH, "answer", &params), first);
}

#[test]
fn keys_survive_a_restart() {
    let sabir = TestServer::start(AGENTS);
    let id = uuid();
    let implicit = sabir.send("/", &named(&id, "x"));
    let explicit = keyed(&sabir, "/", "kept", &named("m1", "x"));
    let question = sabir.send(DESK_PATH, &send_params("sign"));
    let mut answer = named(&uuid(), "it is me");
    answer["message"]["taskId"] = question["id"].clone();
    let answered = sabir.send(DESK_PATH, &answer);
    let sabir = TestServer::start_at(&sabir.kill());
    assert_eq!(sabir.send("/", &named(&id, "x")), implicit);
    assert_eq!(keyed(&sabir, "/", "kept", &named("m1", "x")), explicit);
    assert_eq!(sabir.send(DESK_PATH, &answer), answered);
    assert_eq!(sabir.task_count("/"), 2);
}

#[test]
fn a_conflict_after_a_restart_does_not_take_the_key_over() {
    let sabir = TestServer::start(AGENTS);
    let first = keyed(&sabir, "/", "order-7", &named("m1", "x"));
    let sabir = TestServer::start_at(&sabir.stop());
    for _ in 0..2 {
        let other = keyed(&sabir, "/", "order-7", &named("m1", "y"));
        assert_eq!(ProtocolError::from_rpc(&other).code_and_reason(), (CONFLICT.0, CONFLICT.2), "{other}");
    }
    assert_eq!(keyed(&sabir, "/", "order-7", &named("m1", "x")), first);
    assert_eq!(sabir.task_count("/"), 1);
}

#[test]
fn a_send_that_was_refused_does_not_use_its_key_up() {
    let sabir = TestServer::start(AGENTS);
    let task = sabir.send(DESK_PATH, &send_params("sign"));
    let mut params = named(&uuid(), "it is me");
    params["message"]["taskId"] = task["id"].clone();
    params["message"]["contextId"] = json!("wrong");
    sabir.expect_error(DESK_PATH, "SendMessage", &params, PARAMS);
    params["message"]["contextId"] = task["contextId"].clone();
    assert_eq!(state(&sabir.send(DESK_PATH, &params)), "TASK_STATE_COMPLETED");
}

#[test]
fn a_repeated_stream_tells_everything_again_and_runs_once() {
    let sabir = TestServer::start(AGENTS);
    let params = named(&uuid(), "tick");
    let first = sabir.stream(DESK_PATH, "SendStreamingMessage", &params).rest();
    let again = sabir.stream(DESK_PATH, "SendStreamingMessage", &params).rest();
    assert_eq!(artifact_text(&first), "0123456789");
    let events =
        |frames: &[crate::http_client::SseEvent]| frames.iter().map(|f| (f.id, f.event().clone())).collect::<Vec<_>>();
    assert_eq!(events(&first), events(&again));
    assert_eq!(sabir.task_count(DESK_PATH), 1);
}

#[test]
fn a_stream_is_taken_up_by_sending_again_and_never_runs_twice() {
    let sabir = TestServer::start(AGENTS);
    let params = named(&uuid(), "tick");
    let all = sabir.stream(DESK_PATH, "SendStreamingMessage", &params).rest();
    let last = all.len() as u64;
    for seen in [0, 1, 5, last - 1, last] {
        let rest = sabir.stream_after(DESK_PATH, "SendStreamingMessage", &params, Some(seen)).rest();
        let numbers: Vec<u64> = rest.iter().filter_map(|f| f.id).collect();
        assert_eq!(numbers, (seen + 1..=last).collect::<Vec<_>>());
    }
    assert_eq!(sabir.task_count(DESK_PATH), 1);
    // The server knows none of these: hand-made, never sent, or sent with other words.
    let mut other_words = params.clone();
    other_words["message"]["parts"][0]["text"] = json!("tick tick");
    for unknown in [named("msg-1", "tick"), named(&uuid(), "tick"), other_words] {
        let request = Request::post(DESK_PATH, envelope("SendStreamingMessage", &unknown)).with("Last-Event-ID", "1");
        let problem = ProtocolError::from_rpc(&sabir.ask(&request).json());
        assert_eq!(
            (problem.code_and_reason(), &problem.fields[..]),
            ((PARAMS.0, PARAMS.2), &["Last-Event-ID".to_owned()][..])
        );
    }
    assert_eq!(sabir.task_count(DESK_PATH), 1);
}
