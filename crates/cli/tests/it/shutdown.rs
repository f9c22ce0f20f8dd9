//! Stopping: what is under way is finished, what takes too long is put down so that it can be taken up again.

use crate::http_client::{HttpConnection, Request};
use crate::rpc_client::{DESK_PATH, artifact_text, envelope, event_ids, message, send_params, state};
use crate::test_server::{AGENTS, ServerDirectory, TestServer, eventually};
use serde_json::{Value, json};
use std::net::TcpStream;

/// A configuration that gives so many seconds to finish.
fn draining(seconds: u32) -> String {
    format!("[server]\ndrain_seconds = {seconds}\n{AGENTS}")
}

#[test]
fn streams_and_requests_under_way_are_finished() {
    let mut sabir = TestServer::start(&draining(30));
    let mut stream = sabir.stream(DESK_PATH, "SendStreamingMessage", &send_params("tick"));
    stream.next().unwrap();
    let mut waiting = HttpConnection::open(sabir.address);
    waiting.send(&Request::post(DESK_PATH, envelope("SendMessage", &send_params("tick"))));
    eventually("both are at work", || sabir.task_count(DESK_PATH) == 2);
    sabir.send_sigterm();
    let frames = stream.rest();
    assert!(!stream.broken, "a stream that can end ends properly");
    assert_eq!(
        (artifact_text(&frames), frames.last().unwrap().state()),
        ("0123456789".to_owned(), Some("TASK_STATE_COMPLETED"))
    );
    assert_eq!(state(&waiting.response().json()["result"]["task"]), "TASK_STATE_COMPLETED");
    assert!(sabir.wait_for_exit().success());
    assert!(TcpStream::connect(sabir.address).is_err());
}

#[test]
fn an_idle_server_stops_although_clients_are_connected() {
    let mut sabir = TestServer::start(&draining(600));
    let mut used = HttpConnection::open(sabir.address);
    used.send(&Request::get("/healthz"));
    assert_eq!(used.response().status, 200);
    let silent = HttpConnection::open(sabir.address);
    let mut begun = HttpConnection::open(sabir.address);
    begun.write(b"POST / HTTP/1.1\r\nHost: ");
    sabir.still_serves();
    // No client waits for an answer, so the server has none to wait for. The drain time is far longer than the test's
    // patience.
    sabir.send_sigterm();
    assert!(sabir.wait_for_exit().success());
    drop((used, silent, begun));
}

#[test]
fn a_server_that_said_it_listens_can_be_stopped_at_once() {
    let mut home = ServerDirectory::new(AGENTS);
    for _ in 0..20 {
        home = TestServer::start_at(&home).stop();
    }
}

#[test]
fn what_takes_too_long_is_taken_up_by_the_next_start() {
    let mut sabir = TestServer::start(&draining(1));
    let mut stream = sabir.stream(DESK_PATH, "SendStreamingMessage", &send_params("forever"));
    let mut seen = vec![stream.next().unwrap(), stream.next().unwrap()];
    let id = seen[0].event()["task"]["id"].clone();
    sabir.send_sigterm();
    assert!(sabir.wait_for_exit().success(), "an agent that works for a day does not keep the server from stopping");
    // However the stream ends, it does not claim that the task has.
    while let Some(frame) = stream.next() {
        if frame.data.get("error").is_none() {
            seen.push(frame);
        }
    }
    assert_eq!(seen.last().unwrap().state(), Some("TASK_STATE_WORKING"));

    let sabir = TestServer::start_at(&sabir.home);
    assert_eq!(state(&sabir.get(DESK_PATH, &id)), "TASK_STATE_WORKING");
    let mut again = sabir.stream_after(DESK_PATH, "SubscribeToTask", &json!({"id": id}), seen.last().unwrap().id);
    sabir.result(DESK_PATH, "CancelTask", &json!({"id": id}));
    seen.extend(again.rest());
    assert_eq!(event_ids(&seen), (1..=seen.len() as u64).collect::<Vec<_>>());
    assert_eq!(seen.last().unwrap().state(), Some("TASK_STATE_CANCELED"));
}

#[test]
fn stopping_again_and_again_wears_no_task_out() {
    let mut home = ServerDirectory::new(&draining(0));
    let mut task = Value::Null;
    // More often than a turn may crash the process; an orderly stop is no crash.
    for round in 0..6 {
        let sabir = TestServer::start_at(&home);
        if round == 0 {
            task = sabir.send_async(DESK_PATH, "forever");
        }
        assert_eq!(state(&sabir.get(DESK_PATH, &task["id"])), "TASK_STATE_WORKING", "round {round}");
        home = sabir.stop();
    }
}

#[test]
fn a_task_that_is_there_at_every_crash_fails_in_the_end() {
    let mut home = ServerDirectory::new(AGENTS);
    let mut task = Value::Null;
    let mut states = Vec::new();
    for round in 0..5 {
        let sabir = TestServer::start_at(&home);
        if round == 0 {
            task = sabir.send_async(DESK_PATH, "forever");
        }
        let state = || state(&sabir.get(DESK_PATH, &task["id"])).to_owned();
        // A crash counts from the moment the attempt is on record.
        let database = sabir.home.open_database();
        let attempts = || database.query_row("SELECT attempt FROM task", [], |r| r.get::<_, u32>(0)).unwrap();
        eventually("it is taken up or given up", || attempts() == round + 1 || state() == "TASK_STATE_FAILED");
        states.push(state());
        drop(database);
        home = sabir.kill();
    }
    assert_eq!(states[..3], ["TASK_STATE_WORKING"; 3]);
    assert_eq!(states[3..], ["TASK_STATE_FAILED"; 2]);
}

#[test]
fn a_waiting_task_waits_across_restarts() {
    let sabir = TestServer::start(AGENTS);
    let task = sabir.send(DESK_PATH, &send_params("book"));
    let sabir = TestServer::start_at(&sabir.stop());
    let mut answer = json!({"message": message("Monday")});
    answer["message"]["taskId"] = task["id"].clone();
    assert_eq!(sabir.send(DESK_PATH, &answer)["status"]["message"]["parts"][0]["text"], "How many?");
    let sabir = TestServer::start_at(&sabir.kill());
    answer["message"]["parts"][0]["text"] = json!("four");
    let done = sabir.send(DESK_PATH, &answer);
    assert_eq!((state(&done), &done["artifacts"][0]["parts"][0]["text"]), ("TASK_STATE_COMPLETED", &json!("four")));
}
