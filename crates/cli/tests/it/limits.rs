//! Everything has a limit: a caller that reaches one is told which, and other callers are not affected by it.

use crate::http_client::{HttpConnection, Request};
use crate::rpc_client::{DESK_PATH, EXHAUSTED, ProtocolError, answer_params, envelope, message, send_params, state};
use crate::test_server::{AGENTS, TestServer, eventually};
use serde_json::json;
use std::time::Duration;

/// The usual agents with other limits.
fn limited(lines: &str) -> TestServer {
    TestServer::start(&AGENTS.replace("[limits]", &format!("[limits]\n{lines}")))
}

#[test]
fn a_head_over_the_limit_is_refused() {
    let sabir = limited("header_bytes_max = 16384");
    for bytes in [17_000, 100_000, 2_000_000] {
        let mut wire = HttpConnection::open(sabir.address);
        let _ = wire.try_write(&Request::get("/healthz").with("X-Filler", "x".repeat(bytes)).bytes(sabir.address));
        assert!(wire.try_response().is_none_or(|r| r.status == 431), "{bytes}");
        sabir.still_serves();
    }
    let mut many = Request::get("/healthz");
    for n in 0..500 {
        many = many.with(&format!("X-{n}"), "x");
    }
    assert_eq!(sabir.ask(&many).status, 431);
    assert_eq!(sabir.ask(&Request::get("/healthz").with("X-Filler", "x".repeat(12_000))).status, 200);
}

#[test]
fn a_long_path_is_refused_or_not_found_but_does_no_harm() {
    let sabir = limited("header_bytes_max = 65536");
    for bytes in [1_000, 30_000, 60_000, 70_000, 1_000_000] {
        let mut wire = HttpConnection::open(sabir.address);
        let _ = wire.try_write(&Request::get(&format!("/{}", "x/".repeat(bytes / 2))).bytes(sabir.address));
        if let Some(reply) = wire.try_response() {
            assert!([404, 414, 431].contains(&reply.status), "{bytes}: {}", reply.status);
        }
        sabir.still_serves();
    }
}

#[test]
fn a_head_that_never_arrives_is_given_up() {
    let sabir = limited("header_seconds_max = 1");
    let mut slow = HttpConnection::open(sabir.address);
    slow.write(b"POST / HTTP/1.1\r\nHost: localhost\r\nX-Slow: ");
    assert!(slow.ends());
    sabir.still_serves();
}

#[test]
fn a_client_that_says_nothing_is_given_up() {
    let sabir = limited("header_seconds_max = 1");
    for beginning in ["", "P", "PR", "G", "GET "] {
        let mut silent = HttpConnection::open(sabir.address);
        silent.write(beginning.as_bytes());
        assert!(silent.ends(), "{beginning:?}");
    }
    sabir.still_serves();
}

#[test]
fn a_client_that_only_begins_to_speak_http2_is_given_up() {
    let sabir = limited("header_seconds_max = 1");
    let mut silent = HttpConnection::open(sabir.address);
    silent.write(b"PRI * HTTP/2.0\r\n\r\n");
    assert!(silent.ends());
    sabir.still_serves();
}

#[test]
fn a_body_that_never_arrives_is_given_up() {
    let sabir = limited("body_seconds_max = 1");
    for (path, code) in [("/", -32600), ("/message:send", 408)] {
        let mut slow = HttpConnection::open(sabir.address);
        slow.write(&Request::post(path, "").with("Content-Length", "100").head(sabir.address));
        slow.write(b"{");
        let reply = slow.response();
        assert_eq!(reply.status, 408);
        let problem =
            if path == "/" { ProtocolError::from_rpc(&reply.json()) } else { ProtocolError::from_rest(&reply) };
        assert_eq!(problem.code, code);
    }
    sabir.still_serves();
}

#[test]
fn beyond_the_limit_connections_wait_for_a_place() {
    let sabir = limited("connections_max = 2\nheader_seconds_max = 600");
    let served = || {
        let mut wire = HttpConnection::open(sabir.address);
        wire.send(&Request::get("/healthz"));
        wire
    };
    let mut first: Vec<HttpConnection> = (0..2).map(|_| served()).collect();
    assert!(first.iter_mut().all(|w| w.response().status == 200));
    let mut third = served();
    assert!(third.is_quiet_for(Duration::from_millis(300)), "there is no place for a third");
    drop(first.pop());
    assert_eq!(third.response().status, 200, "now there is");
}

#[test]
fn an_address_may_have_a_share_of_the_connections() {
    let sabir = limited("connections_per_address_max = 2");
    let mut first: Vec<HttpConnection> = (0..2).map(|_| HttpConnection::open(sabir.address)).collect();
    for wire in &mut first {
        wire.send(&Request::get("/healthz"));
        assert_eq!(wire.response().status, 200);
    }
    assert!(HttpConnection::open(sabir.address).ends(), "there is no third");
    drop(first);
    let served = || {
        let mut wire = HttpConnection::open(sabir.address);
        wire.send(&Request::get("/healthz"));
        wire.try_response().is_some()
    };
    eventually("there is room again", served);
}

#[test]
fn silent_connections_do_not_keep_places_for_ever() {
    let sabir = limited("connections_max = 3\nheader_seconds_max = 1");
    let idle: Vec<HttpConnection> = (0..3).map(|_| HttpConnection::open(sabir.address)).collect();
    sabir.still_serves();
    drop(idle);
}

#[test]
fn so_many_agents_are_at_work_and_no_more() {
    let sabir = limited("live_tasks_max = 3");
    let tasks: Vec<_> = (0..3).map(|_| sabir.send_async(DESK_PATH, "forever")).collect();
    sabir.expect_error(DESK_PATH, "SendMessage", &send_params("forever"), EXHAUSTED);
    sabir.expect_rest_error(&Request::post("/agents/desk/message:send", send_params("forever").to_string()), EXHAUSTED);
    assert_eq!(state(&sabir.get(DESK_PATH, &tasks[0]["id"])), "TASK_STATE_WORKING", "reading needs no place");
    sabir.result(DESK_PATH, "CancelTask", &json!({"id": tasks[0]["id"]}));
    eventually("a place is free", || {
        sabir.rpc(DESK_PATH, "SendMessage", &send_params("quick")).get("result").is_some()
    });
}

#[test]
fn an_agent_that_takes_too_long_fails() {
    let sabir = limited("turn_seconds_max = 1");
    let task = sabir.send(DESK_PATH, &send_params("forever"));
    assert_eq!(state(&task), "TASK_STATE_FAILED");
    assert!(task["status"]["message"]["parts"][0]["text"].as_str().unwrap().contains("1 s"), "{task}");
}

#[test]
fn a_task_that_grows_too_large_fails() {
    for lines in ["task_events_max = 5", "task_bytes_max = 1000"] {
        let sabir = limited(lines);
        let task = sabir.send(DESK_PATH, &send_params("tick"));
        assert_eq!(state(&task), "TASK_STATE_FAILED", "{lines}");
        sabir.still_serves();
    }
}

#[test]
fn a_conversation_that_grows_too_long_is_refused() {
    let sabir = limited("history_messages_max = 3");
    let task = sabir.send(DESK_PATH, &send_params("book"));
    sabir.send(DESK_PATH, &answer_params(&task, "Monday"));
    sabir.expect_error(DESK_PATH, "SendMessage", &answer_params(&task, "four"), EXHAUSTED);
}

#[test]
fn a_message_may_have_so_many_parts() {
    let sabir = limited("parts_max = 2");
    let mut params = json!({"message": message("x")});
    params["message"]["parts"] = json!([{"text": "a"}, {"text": "b"}]);
    assert_eq!(state(&sabir.send("/", &params)), "TASK_STATE_COMPLETED");
    params["message"]["parts"] = json!([{"text": "a"}, {"text": "b"}, {"text": "c"}]);
    assert_eq!(sabir.rpc_error("/", "SendMessage", &params).fields, ["message.parts"]);
}

#[test]
fn a_large_message_within_the_limit_is_served() {
    let sabir = limited("parts_max = 1000");
    let text = "x".repeat(15 << 20);
    let reply = sabir.ask(&Request::post("/", envelope("SendMessage", &send_params(&text))));
    let task = &reply.json()["result"]["task"];
    assert_eq!(task["artifacts"][0]["parts"][0]["text"].as_str().map(str::len), Some(text.len()));
}
