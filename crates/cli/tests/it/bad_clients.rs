//! Clients that stop reading, stop writing, or leave: other clients notice nothing, nothing is lost, nothing stays
//! behind.

use crate::http_client::{EventStream, HttpConnection, Request};
use crate::rpc_client::{DESK_PATH, artifact_text, envelope, event_ids, message, send_params, state};
use crate::test_server::{AGENTS, TestServer, eventually};
use serde_json::json;
use std::fmt::Write as _;
use std::time::Duration;

/// Chunks of the long story, and the bytes of one. Together far more than the two sockets' buffers hold.
const CHUNKS: usize = 320;
const CHUNK_BYTES: usize = 64 << 10;

/// An agent that tells a story of 20 MiB without a pause, beside the ones every test knows.
fn story_server() -> TestServer {
    let mut config = String::from(
        "[limits]\nkeep_alive_seconds = 1\n[[agent]]\nname = \"story\"\nkind = \"script\"\n[[agent.rule]]\ndo = [\n",
    );
    for n in 0..CHUNKS {
        let append = n > 0;
        writeln!(config, "{{ artifact = {{ id = \"s\", text = \"{}\", append = {append} }} }},", chunk(n)).unwrap();
    }
    config.push_str("{ complete = \"the end\" }]\n");
    config.push_str(AGENTS.split_once("\n\n").unwrap().1);
    TestServer::start(&config)
}

fn chunk(n: usize) -> String {
    format!("{n:08}{}", "s".repeat(CHUNK_BYTES - 8))
}

#[track_caller]
fn is_complete(mut stream: EventStream) {
    let frames = stream.rest();
    assert!(!stream.broken, "the stream was cut off");
    let expected: Vec<u64> = (1..=frames.len() as u64).collect();
    assert_eq!(event_ids(&frames), expected, "no gap, no repeat");
    let chunks: Vec<&str> = frames.iter().filter_map(|f| f.chunk()).collect();
    assert_eq!(chunks.len(), CHUNKS);
    assert!(
        chunks.iter().enumerate().all(|(n, text)| text.len() == CHUNK_BYTES && text.starts_with(&format!("{n:08}s")))
    );
    assert_eq!(frames.last().unwrap().state(), Some("TASK_STATE_COMPLETED"));
}

#[test]
fn a_client_that_stops_reading_holds_nobody_up_and_gets_everything_later() {
    let sabir = story_server();
    let params = send_params("tell");
    // The head is read, so the stream is open; then nothing.
    let idle = sabir.stream("/agents/story", "SendStreamingMessage", &params);
    let mut list = serde_json::Value::Null;
    eventually("the story is told although nobody listens", || {
        sabir.still_serves();
        list = sabir.result("/agents/story", "ListTasks", &json!({}));
        state(&list["tasks"][0]) == "TASK_STATE_COMPLETED"
    });
    // A second reader overtakes the first.
    let id = &list["tasks"][0]["id"];
    is_complete(sabir.stream_after("/agents/story", "SubscribeToTask", &json!({"id": id}), Some(0)));
    is_complete(idle);
    sabir.still_serves();
}

#[test]
fn clients_that_stop_reading_cost_little_memory() {
    let sabir = story_server();
    let first = sabir.send("/agents/story", &send_params("tell"));
    let before = sabir.resident_bytes();
    let open = || sabir.stream_after("/agents/story", "SubscribeToTask", &json!({"id": first["id"]}), Some(0));
    let idle: Vec<EventStream> = (0..48).map(|_| open()).collect();
    sabir.still_serves();
    let more = sabir.resident_bytes().saturating_sub(before) >> 20;
    assert!(more <= 128, "48 idle readers of one task took {more} MiB, {} MiB each", more / 48);
    is_complete(idle.into_iter().next_back().unwrap());
}

#[test]
fn a_client_that_stops_reading_a_plain_answer_holds_nobody_up() {
    let sabir = story_server();
    let mut idle = HttpConnection::open(sabir.address);
    // Many answers of 20 MiB are asked for on one connection and not one is read.
    let request = Request::post("/agents/story", envelope("SendMessage", &send_params("tell")));
    for _ in 0..8 {
        idle.send(&request);
    }
    for _ in 0..20 {
        sabir.still_serves();
    }
    assert_eq!(state(&idle.response().json()["result"]["task"]), "TASK_STATE_COMPLETED");
}

#[test]
fn a_client_that_leaves_in_the_middle_of_a_request_leaves_nothing_behind() {
    let sabir = TestServer::start(&AGENTS.replace("[limits]", "[limits]\nheader_seconds_max = 1"));
    let request = Request::post("/", envelope("SendMessage", &send_params("never sent whole")));
    let whole = request.bytes(sabir.address);
    let head = request.head(sabir.address).len();
    for cut in [1, 5, 16, head / 2, head - 2, head, head + 1, whole.len() - 1] {
        for _ in 0..5 {
            let mut wire = HttpConnection::open(sabir.address);
            wire.write(&whole[..cut]);
            drop(wire);
            // The same with an ending that is still polite: no more is sent, but an answer would be read.
            let mut wire = HttpConnection::open(sabir.address);
            wire.write(&whole[..cut]);
            wire.half_close();
            assert!(wire.ends());
        }
    }
    let mut chunked = HttpConnection::open(sabir.address);
    chunked.write(&Request::post("/", "").with("Transfer-Encoding", "chunked").head(sabir.address));
    chunked.write(b"ffff\r\nhalf a chunk");
    drop(chunked);
    sabir.still_serves();
    assert_eq!(sabir.task_count("/"), 1, "no half request became a task");
    eventually("all connections are given back", || sabir.metric("sabir_open_connections") <= 1.0);
}

#[test]
fn a_client_that_leaves_while_the_agent_works_does_not_stop_it() {
    let sabir = TestServer::start(AGENTS);
    let mut params = json!({"message": message("tick")});
    params["message"]["contextId"] = json!("left alone");
    let mut wire = HttpConnection::open(sabir.address);
    wire.send(&Request::post(DESK_PATH, envelope("SendMessage", &params)));
    let mine = || sabir.result(DESK_PATH, "ListTasks", &json!({"contextId": "left alone", "includeArtifacts": true}));
    eventually("the agent began", || mine()["totalSize"] == 1);
    drop(wire);
    eventually("the agent finished", || state(&mine()["tasks"][0]) == "TASK_STATE_COMPLETED");
    let parts = mine()["tasks"][0]["artifacts"][0]["parts"].clone();
    let text: String = parts.as_array().unwrap().iter().map(|p| p["text"].as_str().unwrap()).collect();
    assert_eq!(text, "0123456789");
    eventually("the connection is given back", || sabir.metric("sabir_open_connections") <= 1.0);
}

#[test]
fn a_client_that_leaves_a_stream_leaves_the_task_and_the_other_readers() {
    let sabir = story_server();
    let mut leaving = sabir.stream(DESK_PATH, "SendStreamingMessage", &send_params("tick"));
    let id = leaving.next().unwrap().event()["task"]["id"].clone();
    let mut staying = sabir.stream_after(DESK_PATH, "SubscribeToTask", &json!({"id": id}), Some(0));
    leaving.next().unwrap();
    drop(leaving);
    let frames = staying.rest();
    assert_eq!(artifact_text(&frames), "0123456789");
    assert_eq!(state(&sabir.get(DESK_PATH, &id)), "TASK_STATE_COMPLETED");
    eventually("no stream stays open", || sabir.metric("sabir_open_streams") == 0.0);
}

#[test]
fn a_client_that_leaves_a_quiet_stream_is_noticed() {
    let sabir = story_server();
    let task = sabir.send_async(DESK_PATH, "forever");
    let streams: Vec<EventStream> =
        (0..10).map(|_| sabir.stream(DESK_PATH, "SubscribeToTask", &json!({"id": task["id"]}))).collect();
    assert_eq!(sabir.metric("sabir_open_streams"), 10.0);
    drop(streams);
    eventually("no stream stays open", || sabir.metric("sabir_open_streams") == 0.0);
    assert_eq!(state(&sabir.get(DESK_PATH, &task["id"])), "TASK_STATE_WORKING");
}

#[test]
fn a_client_that_writes_byte_by_byte_is_served() {
    let sabir = TestServer::start(AGENTS);
    let mut slow = HttpConnection::open(sabir.address);
    for byte in Request::post("/", envelope("SendMessage", &send_params("slow"))).bytes(sabir.address) {
        slow.write(&[byte]);
        // Without a pause, the system would put many bytes into one packet.
        std::thread::sleep(Duration::from_millis(1));
    }
    assert_eq!(state(&slow.response().json()["result"]["task"]), "TASK_STATE_COMPLETED");
}

#[test]
fn what_is_not_http_is_turned_away() {
    let sabir = TestServer::start(AGENTS);
    let tls = b"\x16\x03\x01\x02\x00\x01\x00\x01\xfc\x03\x03";
    let long_line = [b"GET /".as_slice(), &[b'a'; 200_000], b" HTTP/1.1\r\n\r\n"].concat();
    let garbage: Vec<u8> = (0..4096u32).map(|n| n.wrapping_mul(2_654_435_761).to_be_bytes()[0]).collect();
    for bytes in [
        &tls[..],
        b"\r\n\r\n\r\n",
        b"GET\r\n\r\n",
        b"GET / HTTP/9.9\r\n\r\n",
        b"EHLO there\r\n",
        b"\0\0\0\0",
        &long_line,
        &garbage,
    ] {
        let mut wire = HttpConnection::open(sabir.address);
        let _ = wire.try_write(bytes);
        wire.half_close();
        if let Some(reply) = wire.read_head() {
            assert!((400..500).contains(&reply.status) || reply.status == 505, "{}", reply.status);
        }
        sabir.still_serves();
    }
    eventually("all connections are given back", || sabir.metric("sabir_open_connections") <= 1.0);
}
