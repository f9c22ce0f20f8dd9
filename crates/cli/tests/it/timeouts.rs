//! The server waits for no client without end: messages that trickle in, connections without requests, streams whose
//! reader has lost its credential, callers who have left. And what comes in at once has a limit.

use crate::command_runner::CommandDirectory;
use crate::demo::{field, spoken};
use crate::http_client::{HttpConnection, Request};
use crate::protocols::{DATA, GOAWAY, Http2, SETTINGS};
use crate::rpc_client::{DESK_PATH, ProtocolError, envelope, send_params, state};
use crate::test_server::{AGENTS, ServerDirectory, TestServer, eventually};
use std::sync::Arc;
use std::time::{Duration, Instant};

const SEND: &str = "/lf.a2a.v1.A2AService/SendMessage";
const WINDOW_UPDATE: u8 = 8;
const ACKNOWLEDGED: u8 = 1;
const STREAM: &str = "/lf.a2a.v1.A2AService/SendStreamingMessage";

fn limited(lines: &str) -> TestServer {
    TestServer::start(&AGENTS.replace("[limits]", &format!("[limits]\n{lines}")))
}

/// The headers of a gRPC call, with some more.
fn grpc<'a>(host: &'a str, path: &'a str, more: &[(&'a str, &'a str)]) -> Vec<(&'a str, &'a str)> {
    let usual = [
        (":method", "POST"),
        (":scheme", "http"),
        (":authority", host),
        (":path", path),
        ("content-type", "application/grpc"),
        ("te", "trailers"),
        ("a2a-version", "1.0"),
    ];
    usual.iter().chain(more).copied().collect()
}

/// A message in its frame.
fn framed(message: &[u8]) -> Vec<u8> {
    [&[0], &u32::try_from(message.len()).unwrap().to_be_bytes()[..], message].concat()
}

/// A message to the agent `desk`, which gRPC reaches by the tenant.
fn to_desk(text: &str) -> Vec<u8> {
    framed(&[field(1, "desk"), spoken(text)].concat())
}

/// A client that knows how much it may send: a mebibyte, once both sides have said so.
fn client_with_window(sabir: &TestServer) -> Http2 {
    let mut client = Http2::open(sabir);
    while client.next().0 != WINDOW_UPDATE {}
    client.frame(SETTINGS, ACKNOWLEDGED, 0, &[]);
    client
}

/// Begins a call whose message has one byte less than it announces.
fn begin_incomplete_call(client: &mut Http2, host: &str, bytes: usize) -> u32 {
    let stream = client.begin(&grpc(host, SEND, &[]), false);
    let body = framed(&vec![0; bytes]);
    body[..body.len() - 1].chunks(16 << 10).for_each(|piece| client.frame(DATA, 0, stream, piece));
    stream
}

#[test]
fn a_grpc_message_that_never_arrives_is_given_up() {
    let sabir = limited("body_seconds_max = 1");
    let host = sabir.address.to_string();
    let mut client = Http2::open(&sabir);
    let begun = Instant::now();
    let mut slow = vec![begin_incomplete_call(&mut client, &host, 1000), client.begin(&grpc(&host, SEND, &[]), false)];
    // All of it, but it does not say that this was all.
    let endless = client.begin(&grpc(&host, SEND, &[]), false);
    client.frame(DATA, 0, endless, &framed(&spoken("x")));
    slow.push(endless);
    let answers = client.raw_bodies(&slow);
    assert!(answers.iter().all(|(_, body)| body.is_empty()), "{answers:?}");
    assert!(begun.elapsed() < Duration::from_secs(30), "{:?}", begun.elapsed());
    assert!(!client.grpc(&host, SEND, &spoken("hello")).is_empty(), "others are served, on the same connection");
}

#[test]
fn above_what_may_be_on_its_way_requests_are_refused_and_small_ones_last() {
    const MIB: usize = 1 << 20;
    let sabir = limited("body_bytes_max = 1048576\ninflight_bytes_max = 2097152");
    let host = sabir.address.to_string();
    let shed = || {
        let metrics = sabir.ask(&Request::get("/metrics")).text();
        let line = metrics.lines().find_map(|l| l.strip_prefix("sabir_requests_shed_total "));
        line.expect("it is counted").parse::<u64>().unwrap()
    };
    let large = |path: &str| sabir.ask(&Request::post(path, vec![b' '; MIB - 1]));
    assert_eq!((large("/").status, shed()), (200, 0), "one is taken");
    let hold = || {
        let mut slow = HttpConnection::open(sabir.address);
        slow.write(&Request::post("/", "").with("Content-Length", MIB.to_string()).head(sabir.address));
        slow.write(&vec![b' '; MIB - 1]);
        slow
    };
    // Of two requests, the server refuses the one whose body it reads later. That may be the slow one, so it is sent
    // again where none of several requests after it is refused.
    let is_shed = || (0..20).any(|_| large("/").status == 503);
    let mut slow = None;
    eventually("there is no room for another", || {
        drop(slow.take());
        slow = Some(hold());
        is_shed()
    });
    let reply = large("/message:send");
    assert_eq!((reply.status, reply.header("Retry-After")), (503, Some("1")), "{}", reply.text());
    assert_eq!(ProtocolError::from_rest(&reply).reason, "UNAVAILABLE");
    let before = shed();
    let mut client = client_with_window(&sabir);
    let stream = begin_incomplete_call(&mut client, &host, MIB - 1000);
    assert!(client.raw_bodies(&[stream]).remove(0).1.is_empty());
    assert_eq!(shed(), before + 1, "gRPC has the same limit");
    sabir.still_serves();
    drop(slow);
    eventually("what is gone is given back", || large("/").status == 200);
    let mut slow = None;
    eventually("what waits over gRPC counts too", || {
        drop(slow.take());
        let slow = slow.insert(client_with_window(&sabir));
        begin_incomplete_call(slow, &host, MIB - 1000);
        is_shed()
    });
    drop(slow);
    eventually("and is given back", || large("/").status == 200);
}

#[test]
fn a_limit_that_no_body_could_keep_is_refused_at_the_start() {
    let config = AGENTS.replace("[limits]", "[limits]\nbody_bytes_max = 1000\ninflight_bytes_max = 1000");
    let home = ServerDirectory::new(&config);
    let said = home.expect_start_refused(home.command());
    assert!(said.contains("inflight_bytes_max") && said.contains("body_bytes_max"), "{said}");
}

#[test]
fn an_http2_connection_without_requests_ends_and_one_with_a_stream_does_not() {
    let sabir = limited("idle_seconds_max = 1");
    let host = sabir.address.to_string();
    let mut silent = Http2::open(&sabir);
    let mut used = Http2::open(&sabir);
    let health = used.send("GET", &host, "/healthz", "");
    assert_eq!(used.raw_bodies(&[health]).remove(0).1, b"ok\n");
    let mut busy = Http2::open(&sabir);
    let stream = busy.send("POST", &host, DESK_PATH, &envelope("SendStreamingMessage", &send_params("forever")));
    for idle in [&mut silent, &mut used] {
        while idle.next().0 != GOAWAY {}
        assert!(idle.wire.ends());
    }
    // Later connections show that the limit has passed twice more.
    for mut later in [0; 2].map(|_| Http2::open(&sabir)) {
        while later.next().0 != GOAWAY {}
    }
    // It is still served beside its stream.
    let health = busy.send("GET", &host, "/healthz", "");
    assert_eq!(busy.raw_bodies(&[health]).remove(0).1, b"ok\n");
    drop((busy, stream));
    sabir.still_serves();
}

#[test]
fn a_caller_who_has_no_time_left_is_not_waited_for() {
    let sabir = limited("");
    let host = sabir.address.to_string();
    let mut client = Http2::open(&sabir);
    let begun = Instant::now();
    let stream = client.send_with(&grpc(&host, SEND, &[("grpc-timeout", "300m")]), &to_desk("forever"));
    assert!(client.raw_bodies(&[stream]).remove(0).1.is_empty());
    assert!(begun.elapsed() < Duration::from_secs(30), "{:?}", begun.elapsed());
    let tasks = sabir.result(DESK_PATH, "ListTasks", &serde_json::json!({}));
    assert_eq!(state(&tasks["tasks"][0]), "TASK_STATE_WORKING", "the task goes on: {tasks}");
    // Enough time, and words that mean nothing.
    for timeout in ["60S", "1H", "x", "", "123456789S", "1d"] {
        let stream = client.send_with(&grpc(&host, SEND, &[("grpc-timeout", timeout)]), &to_desk("quick"));
        assert!(!client.raw_bodies(&[stream]).remove(0).1.is_empty(), "{timeout:?}");
    }
}

/// A server for holders of keys, and one key: its id and its text.
fn keyed() -> (Arc<ServerDirectory>, TestServer, CommandDirectory, String, String) {
    let home = ServerDirectory::new(&AGENTS.replace("[limits]", "[auth]\naccept = [\"api_key\"]\n[limits]"));
    let sabir = TestServer::start_at(&home);
    let desk = CommandDirectory::new();
    let made = desk.run(&["key", "create", "-o", "json", "--data", &home.data().display().to_string()]).json();
    let text = |name: &str| made[name].as_str().unwrap().to_owned();
    let (id, key) = (text("id"), text("key"));
    eventually("the key is taken", || sabir.ask(&Request::get("/tasks").with("X-API-Key", &*key)).status == 200);
    (home, sabir, desk, id, key)
}

#[test]
fn a_stream_ends_with_the_key_that_opened_it() {
    let (home, sabir, desk, id, key) = keyed();
    let mut wire = HttpConnection::open(sabir.address);
    let request = Request::post(DESK_PATH, envelope("SendStreamingMessage", &send_params("forever")));
    wire.send(&request.with("Authorization", format!("Bearer {key}")));
    let mut events = wire.try_event_stream().expect("a stream");
    assert!(events.next().is_some());
    let mut client = Http2::open(&sabir);
    let host = sabir.address.to_string();
    let stream = client.send_with(&grpc(&host, STREAM, &[("x-api-key", &key)]), &to_desk("forever"));
    while !matches!(client.next(), (DATA, _, of, _) if of == stream) {}
    let begun = Instant::now();
    desk.run(&["key", "revoke", &id, "--data", &home.data().display().to_string()]).expect_success();
    let last = events.rest().pop().expect("a last word");
    assert_eq!(last.data["error"]["code"], -32000, "{last:?}");
    assert_eq!(ProtocolError::from_rpc(&last.data).reason, "UNAUTHENTICATED");
    client.raw_bodies(&[stream]);
    assert!(begun.elapsed() < Duration::from_secs(20), "{:?}", begun.elapsed());
}

#[test]
fn what_is_for_one_caller_is_kept_by_no_cache() {
    let (_home, sabir, _desk, _id, key) = keyed();
    for (path, version) in [("/tasks", "1.0"), ("/tasks/nobody", "1.0"), ("/v1/tasks/nobody", "0.3")] {
        for request in [Request::get(path), Request::get(path).with("X-API-Key", &*key)] {
            let reply = sabir.ask(&request.with("A2A-Version", version));
            assert_eq!(reply.header("Cache-Control"), Some("no-store"), "{path}: {}", reply.status);
        }
    }
    for path in ["/.well-known/agent-card.json", "/healthz", "/metrics"] {
        let reply = sabir.ask(&Request::get(path));
        assert!(!reply.header("Cache-Control").is_some_and(|c| c.contains("no-store")), "{path}");
    }
}
