//! A disk that takes no more: reads go on, sends are told why, and all is well again once there is room.

use crate::http_client::{HttpConnection, Request};
use crate::rpc_client::{DESK_PATH, UNAVAILABLE, envelope, send_params, state};
use crate::test_server::{AGENTS, TestServer, eventually};
use serde_json::json;
use std::process::Command;

/// A server whose files may not grow, from now on or no longer. Whatever it writes beyond the first bytes is refused by
/// the system, as on a disk that is full or has become read-only. The system also sends a signal that ends a process that does
/// not expect it.
fn refuse_writes(sabir: &TestServer, refuse: bool) {
    let limit = if refuse { "--fsize=1024:unlimited" } else { "--fsize=unlimited:unlimited" };
    let done = Command::new("prlimit").args(["--pid", &sabir.pid().to_string(), limit]).status();
    assert!(done.expect("prlimit is part of util-linux").success());
}

fn start() -> TestServer {
    TestServer::start(AGENTS)
}

#[test]
fn reads_go_on_and_sends_are_told_why_until_there_is_room() {
    let sabir = start();
    let task = sabir.send("/", &send_params("before"));
    let open = sabir.send(DESK_PATH, &send_params("book"));
    assert_eq!(sabir.ask(&Request::get("/readyz")).status, 200);
    for round in 0..3 {
        refuse_writes(&sabir, true);
        for _ in 0..3 {
            let refused = sabir.rpc("/", "SendMessage", &send_params("not now"));
            let words = refused["error"]["message"].as_str().unwrap();
            assert!(words.contains("cannot store anything") && words.contains("can be read"), "{words}");
            sabir.expect_error("/", "SendMessage", &send_params("not now"), UNAVAILABLE);
            sabir.expect_error(DESK_PATH, "SendStreamingMessage", &send_params("quick"), UNAVAILABLE);
            sabir.expect_error(DESK_PATH, "CancelTask", &json!({"id": open["id"]}), UNAVAILABLE);
            sabir.expect_rest_error(&Request::post("/message:send", send_params("not now").to_string()), UNAVAILABLE);
            // Where HTTP says nothing of it, the header says when to ask again all the same.
            let rpc = sabir.ask(&Request::post("/", envelope("SendMessage", &send_params("not now"))));
            let rest = sabir.ask(&Request::post("/message:send", send_params("not now").to_string()));
            let told = [&rpc, &rest].map(|reply| (reply.status, reply.header("Retry-After")));
            assert_eq!(told, [(200, Some("1")), (503, Some("1"))]);
            assert_eq!(sabir.get("/", &task["id"]), task);
            assert_eq!((sabir.task_count("/"), sabir.task_count(DESK_PATH)), (1 + round, 1));
            assert_eq!(sabir.ask(&Request::get("/healthz")).status, 200);
            let ready = sabir.ask(&Request::get("/readyz"));
            assert_eq!(ready.status, 503);
            let why = String::from_utf8(ready.body.clone()).unwrap();
            assert!(why.contains("nothing can be stored") && why.contains("reads are served"), "{why}");
            assert_eq!(sabir.metric("sabir_store_trouble"), 1.0);
        }
        refuse_writes(&sabir, false);
        // No client sends, and the server notices all the same.
        eventually("it is ready again", || sabir.ask(&Request::get("/readyz")).status == 200);
        assert_eq!(sabir.metric("sabir_store_trouble"), 0.0);
        assert_eq!(state(&sabir.send("/", &send_params("now"))), "TASK_STATE_COMPLETED");
    }
    let sabir = TestServer::start_at(&sabir.kill());
    assert_eq!(
        (sabir.task_count("/"), sabir.task_count(DESK_PATH)),
        (4, 1),
        "what was refused was not kept, what was taken was"
    );
    assert_eq!(state(&sabir.send(DESK_PATH, &crate::rpc_client::answer_params(&open, "never"))), "TASK_STATE_REJECTED");
}

#[test]
fn what_an_agent_finished_meanwhile_is_kept_once_there_is_room() {
    let sabir = start();
    let task = sabir.send_async(DESK_PATH, "tick");
    refuse_writes(&sabir, true);
    // Longer than the script of the agent takes, which goes on while nothing can be stored.
    std::thread::sleep(std::time::Duration::from_millis(600));
    // A client asks for it all the while, and is shown what is stored.
    assert_eq!(state(&sabir.get(DESK_PATH, &task["id"])), "TASK_STATE_WORKING");
    refuse_writes(&sabir, false);
    eventually("it has ended", || state(&sabir.get(DESK_PATH, &task["id"])) == "TASK_STATE_COMPLETED");
    let chunks = &sabir.get(DESK_PATH, &task["id"])["artifacts"][0]["parts"];
    let text: String = chunks.as_array().unwrap().iter().map(|part| part["text"].as_str().unwrap()).collect();
    assert_eq!(text, "0123456789", "nothing the agent said is missing");
}

#[test]
fn a_server_that_is_asked_while_its_disk_is_full_stays_quick() {
    let sabir = start();
    sabir.send("/", &send_params("before"));
    refuse_writes(&sabir, true);
    let mut wires: Vec<HttpConnection> = (0..16).map(|_| HttpConnection::open(sabir.address)).collect();
    for _ in 0..5 {
        for wire in &mut wires {
            wire.send(&Request::post("/", envelope("SendMessage", &send_params("not now"))));
        }
        for wire in &mut wires {
            assert!(wire.response().json().get("error").is_some());
        }
    }
    refuse_writes(&sabir, false);
    sabir.still_serves();
}
