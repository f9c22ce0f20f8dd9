//! What a peer can cost: memory for what it sends and for what it does not read, and places that it keeps.

use crate::certificate_authority::CertificateAuthority;
use crate::command_runner::CommandDirectory;
use crate::demo::{field, spoken};
use crate::http_client::{HttpConnection, Request};
use crate::protocols::{DATA, Http2, SETTINGS};
use crate::rpc_client::{DESK_PATH, ProtocolError, answer_params, envelope, send_params, state};
use crate::test_server::{AGENTS, ServerDirectory, TestServer, eventually};
use crate::tls;
use serde_json::json;
use std::os::unix::net::UnixStream;
use std::sync::Arc;
use std::thread;
use std::time::{Duration, Instant};

const MIB: usize = 1 << 20;
const HEADERS: u8 = 1;
const RST_STREAM: u8 = 3;
const WINDOW_UPDATE: u8 = 8;
const SEND: &str = "/lf.a2a.v1.A2AService/SendMessage";
const SEND_V03: &str = "/a2a.v1.A2AService/SendMessage";
/// How much memory a server may have, in KiB: its address space, which is more than it ever touches.
const ADDRESS_SPACE: &str = "ulimit -v 1500000";

fn limited(lines: &str) -> String {
    AGENTS.replace("[limits]", &format!("[limits]\n{lines}"))
}

/// A server that may not have more than a gigabyte and a half.
fn confined(config: &str) -> TestServer {
    let home = ServerDirectory::new(config);
    let command = home.command_in_shell(ADDRESS_SPACE);
    TestServer::run(&home, command)
}

/// A field of any length.
fn long_field(tag: u8, bytes: &[u8]) -> Vec<u8> {
    let mut out = vec![tag << 3 | 2];
    let mut length = bytes.len();
    while length >= 0x80 {
        out.push(u8::try_from(length & 0x7f).unwrap() | 0x80);
        length >>= 7;
    }
    out.push(u8::try_from(length).unwrap());
    out.extend_from_slice(bytes);
    out
}

/// Messages of nearly 16 MiB that are two bytes and two bytes again: parts, extensions, values of a list.
fn dense_messages() -> [(&'static str, Vec<u8>); 4] {
    let many = |two: &[u8; 2]| two.repeat(8 * MIB - 1000);
    let value_of_list = long_field(6, &many(b"\x0a\x00"));
    [
        (SEND, long_field(2, &many(b"\x2a\x00"))),
        (SEND_V03, long_field(1, &many(b"\x2a\x00"))),
        (SEND, long_field(2, &many(b"\x3a\x00"))),
        (SEND, long_field(2, &long_field(5, &long_field(4, &value_of_list)))),
    ]
}

/// Sends a body as the windows of the server allow, and returns whether it was answered with a message.
fn send_body(client: &mut Http2, headers: &[(&str, &str)], body: &[u8]) -> bool {
    let stream = client.begin(headers, false);
    // What every stream may have by default is what the server announced, a mebibyte; the connection has less at first.
    let (mut connection, mut own) = (65_535, 65_535);
    let mut rest = body;
    let mut answered = false;
    loop {
        let piece = rest.len().min(16 << 10);
        if piece > 0 && connection.min(own) >= piece {
            let (now, later) = rest.split_at(piece);
            client.frame(DATA, u8::from(later.is_empty()), stream, now);
            (connection, own, rest) = (connection - piece, own - piece, later);
            continue;
        }
        match client.next() {
            (WINDOW_UPDATE, _, of, by) => {
                let by = u32::from_be_bytes(by.try_into().unwrap()) as usize;
                match of {
                    0 => connection += by,
                    of if of == stream => own += by,
                    _ => {}
                }
            }
            (SETTINGS, 0, _, settings) => {
                for setting in settings.chunks(6).filter(|setting| setting[..2] == [0, 4]) {
                    own += u32::from_be_bytes(setting[2..].try_into().unwrap()) as usize - 65_535;
                }
                client.frame(SETTINGS, 1, 0, &[]);
            }
            (DATA, flags, of, data) if of == stream => {
                answered |= !data.is_empty();
                if flags & 1 == 1 {
                    return answered;
                }
            }
            (HEADERS, flags, of, _) if of == stream && flags & 1 == 1 => return answered,
            (RST_STREAM, _, of, _) if of == stream => return answered,
            _ => {}
        }
    }
}

fn grpc_headers<'a>(host: &'a str, path: &'a str, key: &'a str) -> Vec<(&'a str, &'a str)> {
    let version = if path.contains("/a2a.v1.") { "0.3" } else { "1.0" };
    let mut headers = vec![
        (":method", "POST"),
        (":scheme", "http"),
        (":authority", host),
        (":path", path),
        ("content-type", "application/grpc"),
        ("te", "trailers"),
        ("a2a-version", version),
    ];
    headers.extend((!key.is_empty()).then_some(("x-api-key", key)));
    headers
}

fn framed(message: &[u8]) -> Vec<u8> {
    [&[0], &u32::try_from(message.len()).unwrap().to_be_bytes()[..], message].concat()
}

/// The most memory that was ever in use, in MiB.
fn peak_memory(sabir: &TestServer) -> u64 {
    let status = std::fs::read_to_string(format!("/proc/{}/status", sabir.pid())).unwrap();
    let line = status.lines().find_map(|line| line.strip_prefix("VmHWM:")).unwrap();
    line.trim().trim_end_matches(" kB").parse::<u64>().unwrap() >> 10
}

/// What was refused of gRPC, by the word for it.
fn refused(sabir: &TestServer, dialect: &str, status: &str) -> u64 {
    let metrics = sabir.ask(&Request::get("/metrics")).text();
    let lines = metrics.lines().filter(|line| line.starts_with("sabir_requests_total{"));
    let lines =
        lines.filter(|line| line.contains(&format!("\"{dialect}\"")) && line.contains(&format!("\"{status}\"")));
    lines.map(|line| line.rsplit_once(' ').unwrap().1.parse::<u64>().unwrap()).sum()
}

/// A server with little memory for holders of keys, and a key.
fn keyed() -> (TestServer, String) {
    let home = ServerDirectory::new(&AGENTS.replace("[limits]", "[auth]\naccept = [\"api_key\"]\n[limits]"));
    let sabir = TestServer::run(&home, home.command_in_shell(ADDRESS_SPACE));
    let data = home.data().display().to_string();
    let made = CommandDirectory::new().run(&["key", "create", "-o", "json", "--data", &data]).json();
    let key = made["key"].as_str().unwrap().to_owned();
    eventually("the key is taken", || sabir.ask(&Request::get("/tasks").with("X-API-Key", &*key)).status == 200);
    (sabir, key)
}

#[test]
fn a_dense_grpc_message_costs_about_what_was_sent_and_callers_without_a_credential_have_nothing_decoded() {
    let (sabir, key) = keyed();
    let host = sabir.address.to_string();
    let before = peak_memory(&sabir);
    for (path, message) in dense_messages() {
        for shown in ["", &key] {
            let mut client = Http2::open(&sabir);
            assert!(!send_body(&mut client, &grpc_headers(&host, path, shown), &framed(&message)), "{path}");
        }
    }
    let more = peak_memory(&sabir) - before;
    println!("messages of 16 MiB: {more} MiB at most");
    assert!(more < 120, "messages of 16 MiB took {more} MiB");
    // What is no message at all is not looked at either before its caller is known.
    let mut client = Http2::open(&sabir);
    assert!(!send_body(&mut client, &grpc_headers(&host, SEND, ""), &framed(b"\x12\x05\x00")));
    assert_eq!(
        (refused(&sabir, "1.0 GRPC", "UNAUTHENTICATED"), refused(&sabir, "0.3 GRPC", "UNAUTHENTICATED")),
        (4, 1)
    );
    assert_eq!((refused(&sabir, "1.0 GRPC", "INVALID_PARAMS"), refused(&sabir, "0.3 GRPC", "INVALID_PARAMS")), (3, 1));
    let large = [field(1, "desk"), long_field(2, &chat(10 * MIB))].concat();
    let served = send_body(&mut Http2::open(&sabir), &grpc_headers(&host, SEND, &key), &framed(&large));
    assert!(served, "a large message is served");
}

/// `Message` with a text of so many bytes, for which the desk has a short answer.
fn chat(bytes: usize) -> Vec<u8> {
    let text = format!("chat {}", "x".repeat(bytes));
    [&field(1, "m1")[..], &[4 << 3, 1], &long_field(5, &long_field(1, text.as_bytes()))].concat()
}

#[test]
fn several_dense_grpc_messages_at_once_leave_the_server_alive() {
    let (sabir, key) = keyed();
    let sabir = Arc::new(sabir);
    let message = Arc::new(framed(&dense_messages()[0].1));
    let senders: Vec<_> = (0..4)
        .map(|_| {
            let (sabir, key, message) = (sabir.clone(), key.clone(), message.clone());
            thread::spawn(move || {
                let host = sabir.address.to_string();
                send_body(&mut Http2::open(&sabir), &grpc_headers(&host, SEND, &key), &message)
            })
        })
        .collect();
    assert!(senders.into_iter().all(|sender| !sender.join().unwrap()));
    assert_eq!(sabir.ask(&Request::get("/healthz")).status, 200);
}

#[test]
fn a_grpc_frame_that_announces_too_much_is_refused_before_it_is_sent() {
    let sabir = confined(AGENTS);
    let host = sabir.address.to_string();
    let mut client = Http2::open(&sabir);
    let begun = Instant::now();
    // Two gibibytes, and then two messages in one.
    for body in [vec![0, 0x80, 0, 0, 0], [framed(&spoken("a")), framed(&spoken("b"))].concat()] {
        let stream = client.begin(&grpc_headers(&host, SEND, ""), false);
        client.frame(DATA, 0, stream, &body);
        assert!(client.raw_bodies(&[stream]).remove(0).1.is_empty());
    }
    assert!(begun.elapsed() < Duration::from_secs(30), "{:?}", begun.elapsed());
    sabir.still_serves();
}

#[test]
fn a_grpc_message_counts_for_several_times_its_length_while_it_is_decoded() {
    let sabir = TestServer::start(&limited("body_bytes_max = 1048576\ninflight_bytes_max = 4194304"));
    let host = sabir.address.to_string();
    let is_served = || {
        let message = framed(&[field(1, "desk"), long_field(2, &chat(900 << 10))].concat());
        send_body(&mut Http2::open(&sabir), &grpc_headers(&host, SEND, ""), &message)
    };
    assert!(is_served(), "one finds room if it is alone");
    let mut slow = HttpConnection::open(sabir.address);
    slow.write(&Request::post("/", "").with("Content-Length", MIB.to_string()).head(sabir.address));
    slow.write(&vec![b' '; MIB - 1]);
    eventually("three mebibytes more find no room beside one", || !is_served());
    assert!(sabir.metric("sabir_requests_shed_total") >= 1.0);
    drop(slow);
    eventually("what is gone is given back", is_served);
}

#[test]
fn a_grpc_message_may_have_so_many_members() {
    let sabir = TestServer::start(&limited("grpc_members_max = 20\nparts_max = 2"));
    let host = sabir.address.to_string();
    let mut client = Http2::open(&sabir);
    let mut is_served = |more: Vec<u8>| {
        let message = [&field(1, "m1")[..], &[4 << 3, 1], &field(5, field(1, "a")), &more].concat();
        !client.grpc(&host, SEND, &field(2, message)).is_empty()
    };
    assert!(is_served(field(7, "e").repeat(19)));
    assert!(!is_served(field(7, "e").repeat(20)));
    assert!(is_served(field(5, field(1, "b"))));
    assert!(!is_served(field(5, field(1, "b")).repeat(2)));
}

/// A task whose text has so many bytes; it is there twice, as what was said and as what was answered.
fn large_task(sabir: &TestServer, bytes: usize) -> String {
    let task = sabir.send("/", &send_params(&"x".repeat(bytes)));
    task["id"].as_str().unwrap().to_owned()
}

fn get_task(id: &str) -> Request {
    Request::get(&format!("/tasks/{id}"))
}

#[test]
fn a_peer_that_does_not_read_is_cut_off() {
    let sabir = TestServer::start(&limited("write_seconds_max = 1\noutgoing_bytes_max = 1073741824"));
    let id = large_task(&sabir, 12 * MIB);
    let open = || {
        let mut idle = HttpConnection::open(sabir.address);
        idle.send(&get_task(&id));
        idle
    };
    let mut idle: Vec<HttpConnection> = (0..5).map(|_| open()).collect();
    // One that reads now and then, but enough, gets everything, however long it takes.
    let mut slow = open();
    let mut left: usize = slow.read_head().unwrap().header("Content-Length").unwrap().parse().unwrap();
    while left > 0 {
        let piece = left.min(MIB);
        assert!(slow.take(piece).is_some(), "a slow reader was cut off");
        left -= piece;
        // Each pause is shorter than `write_seconds_max`, and all of them together are longer.
        thread::sleep(Duration::from_millis(150));
    }
    drop(slow);
    // Nor is a byte now and then enough.
    let mut trickle = open();
    eventually("their connections are given back", || {
        let _ = trickle.try_byte();
        sabir.metric("sabir_open_connections") <= 1.0
    });
    for wire in &mut idle {
        assert!(wire.try_response().is_none(), "a part of an answer passes for all of it");
    }
    sabir.still_serves();
}

#[test]
fn a_peer_that_does_not_read_is_cut_off_inside_of_tls() {
    let authority = CertificateAuthority::new();
    let sabir = tls::secured(&authority, "", &limited("write_seconds_max = 1"));
    let id = large_task(&sabir, 12 * MIB);
    let open = || {
        let mut idle = sabir.connect();
        idle.send(&get_task(&id));
        idle
    };
    let idle: Vec<HttpConnection> = (0..3).map(|_| open()).collect();
    eventually("their connections are given back", || sabir.metric("sabir_open_connections") <= 1.0);
    drop(idle);
    sabir.still_serves();
}

/// An HTTP/2 client whose streams have no window at first.
fn without_window(sabir: &TestServer) -> Http2 {
    let mut client = Http2::open(sabir);
    client.frame(SETTINGS, 0, 0, &[0, 4, 0, 0, 0, 0]);
    client
}

/// Waits until a stream is reset, and returns the reason and what came of it before.
fn reset(client: &mut Http2, stream: u32, mut meanwhile: impl FnMut(&mut Http2)) -> (u32, usize) {
    let mut bytes = 0;
    loop {
        match client.next() {
            (RST_STREAM, _, of, reason) if of == stream => {
                return (u32::from_be_bytes(reason.try_into().unwrap()), bytes);
            }
            (DATA, flags, of, data) if of == stream => {
                bytes += data.len();
                assert_eq!(flags & 1, 0, "it came to its end");
                meanwhile(client);
            }
            _ => {}
        }
    }
}

#[test]
fn a_stream_whose_window_stays_shut_is_reset_and_the_connection_goes_on() {
    const CANCEL: u32 = 8;
    let sabir = TestServer::start(&limited("write_seconds_max = 1"));
    let id = large_task(&sabir, 200_000);
    let host = sabir.address.to_string();
    let mut client = without_window(&sabir);
    let mut streams =
        [format!("/tasks/{id}"), "/metrics".to_owned()].map(|path| client.send("GET", &host, &path, "")).to_vec();
    // Both wait as long, so either may be the first.
    while !streams.is_empty() {
        let (kind, _, stream, payload) = client.next();
        assert!(kind != DATA, "data without a window");
        if kind == RST_STREAM {
            assert_eq!(payload, CANCEL.to_be_bytes());
            streams.retain(|of| *of != stream);
        }
    }
    // A byte at a time is no progress.
    let toggled = client.send("GET", &host, &format!("/tasks/{id}"), "");
    client.frame(WINDOW_UPDATE, 0, toggled, &1_u32.to_be_bytes());
    let (reason, bytes) = reset(&mut client, toggled, |client| {
        client.frame(WINDOW_UPDATE, 0, toggled, &1_u32.to_be_bytes());
        // Without a pause, the test would send thousands of windows before the server resets the stream.
        thread::sleep(Duration::from_millis(20));
    });
    assert_eq!(reason, CANCEL);
    assert!((1..16 << 10).contains(&bytes), "{bytes}");
    // Nor is a window that shuts a few bytes before the end.
    let nearly = client.send("GET", &host, &format!("/tasks/{id}"), "");
    client.frame(WINDOW_UPDATE, 0, nearly, &1_000_u32.to_be_bytes());
    assert_eq!(reset(&mut client, nearly, |_| {}), (CANCEL, 1_000));
    // A client that opens it in time is served, on the same connection.
    let read = client.send("GET", &host, "/metrics", "");
    client.frame(WINDOW_UPDATE, 0, read, &1_000_000_u32.to_be_bytes());
    assert!(!client.raw_bodies(&[read]).remove(0).1.is_empty());
    sabir.still_serves();
}

#[test]
fn a_quiet_stream_over_http2_is_not_reset() {
    let sabir = TestServer::start(&limited("write_seconds_max = 1\nkeep_alive_seconds = 600"));
    let host = sabir.address.to_string();
    let mut client = Http2::open(&sabir);
    let stream = client.send("POST", &host, DESK_PATH, &envelope("SendStreamingMessage", &send_params("forever")));
    while !matches!(client.next(), (DATA, _, of, _) if of == stream) {}
    let list = sabir.result(DESK_PATH, "ListTasks", &json!({}));
    // Longer than `write_seconds_max`, which must not end a stream that has nothing to write.
    thread::sleep(Duration::from_millis(2500));
    sabir.result(DESK_PATH, "CancelTask", &json!({"id": list["tasks"][0]["id"]}));
    let body = client.raw_bodies(&[stream]).remove(0).1;
    assert!(String::from_utf8_lossy(&body).contains("TASK_STATE_CANCELED"));
}

#[test]
fn a_proxy_may_have_more_connections_than_an_address() {
    let config = limited("connections_per_address_max = 2")
        .replace("[limits]", "[server]\nproxies = [\"127.0.0.1\"]\n[auth]\nopen = true\n[limits]");
    let sabir = TestServer::start(&config);
    let mut all: Vec<HttpConnection> = (0..6).map(|_| HttpConnection::open(sabir.address)).collect();
    for wire in &mut all {
        wire.send(&Request::get("/healthz"));
        assert_eq!(wire.response().status, 200);
    }
}

#[test]
fn unread_answers_have_a_budget_and_small_ones_go_on() {
    let sabir = TestServer::start(&limited("outgoing_bytes_max = 16777216\ntask_bytes_max = 7340032"));
    let id = large_task(&sabir, 3 * MIB / 2);
    let open = sabir.send(DESK_PATH, &send_params(&format!("book {}", "x".repeat(3 * MIB))));
    let host = sabir.address.to_string();
    let mut client = without_window(&sabir);
    let streams: Vec<u32> = (0..12).map(|_| client.send("GET", &host, &format!("/tasks/{id}"), "")).collect();
    // Each is answered, with a task or with a refusal; the bodies of neither have a window.
    let mut heads = 0;
    while heads < streams.len() {
        heads += usize::from(client.next().0 == HEADERS);
    }
    assert!(sabir.metric("sabir_requests_shed_total") >= 10.0, "two answers of three mebibytes find room");
    let refused = sabir.ask(&get_task(&id));
    assert_eq!((refused.status, refused.header("Retry-After")), (503, Some("1")), "{}", refused.text());
    assert_eq!(ProtocolError::from_rest(&refused).reason, "UNAVAILABLE");
    let refused = sabir.ask(&Request::post("/", envelope("GetTask", &json!({"id": id}))));
    assert_eq!((refused.status, refused.header("Retry-After")), (503, Some("1")), "{}", refused.text());
    assert_eq!(refused.json()["id"], "r1");
    assert_eq!(ProtocolError::from_rpc(&refused.json()).reason, "UNAVAILABLE");
    let older = sabir.ask(&Request::get(&format!("/v1/tasks/{id}")).with("A2A-Version", "0.3"));
    assert_eq!((older.status, older.header("Retry-After")), (503, Some("1")), "{}", older.text());
    let message = Http2::open(&sabir).grpc(&host, "/lf.a2a.v1.A2AService/GetTask", &field(2, &id));
    assert!(message.is_empty(), "{} bytes", message.len());
    let mut events = sabir.stream_after(DESK_PATH, "SubscribeToTask", &json!({"id": open["id"]}), None);
    let first = events.next().expect("a stream says why it ends");
    assert_eq!(ProtocolError::from_rpc(&first.data).reason, "UNAVAILABLE");
    assert!(events.next().is_none());
    sabir.still_serves();
    assert_eq!(
        state(&sabir.send(DESK_PATH, &answer_params(&sabir.send(DESK_PATH, &send_params("book")), "never"))),
        "TASK_STATE_REJECTED"
    );
    drop(client);
    eventually("what is not waited for any more is given back", || sabir.ask(&get_task(&id)).status == 200);
}

#[test]
fn one_address_leaves_half_of_the_outgoing_budget_to_others() {
    let config = limited("outgoing_bytes_max = 33554432\ntask_bytes_max = 8388608");
    let sabir = TestServer::start(&config);
    let id = large_task(&sabir, 3 * MIB / 2);
    let host = sabir.address.to_string();
    // As many as would fill the budget three times, on several connections of one address.
    let mut greedy: Vec<Http2> = (0..3).map(|_| without_window(&sabir)).collect();
    for client in &mut greedy {
        for _ in 0..12 {
            client.send("GET", &host, &format!("/tasks/{id}"), "");
        }
    }
    for client in &mut greedy {
        let mut heads = 0;
        while heads < 12 {
            heads += usize::from(client.next().0 == HEADERS);
        }
    }
    let refused = sabir.ask(&get_task(&id));
    assert_eq!((refused.status, refused.header("Retry-After")), (503, Some("1")), "{}", refused.text());
    // Another address gets the same answer, and several of them at the same time.
    let mut others: Vec<HttpConnection> =
        (0..4).map(|_| HttpConnection::open_from("127.0.0.9", sabir.address)).collect();
    for other in &mut others {
        other.send(&get_task(&id));
    }
    for other in &mut others {
        let reply = other.response();
        assert!(reply.status == 200 && reply.text().len() > 3 * MIB, "{} {}", reply.status, reply.text().len());
    }
    drop(greedy);
    eventually("what is not waited for any more is given back", || sabir.ask(&get_task(&id)).status == 200);
}

#[test]
fn a_proxy_has_the_whole_outgoing_budget_and_each_client_behind_it_half() {
    let config = limited("outgoing_bytes_max = 16777216\ntask_bytes_max = 6291456")
        .replace("[limits]", "[server]\nproxies = [\"127.0.0.1\"]\n[auth]\nopen = true\n[limits]");
    let sabir = TestServer::start(&config);
    let id = large_task(&sabir, 3 * MIB / 2);
    let host = sabir.address.to_string();
    let path = format!("/tasks/{id}");
    // A connection whose answers are not read, and how many found no room.
    let unread = |client: &str, times: usize| -> (Http2, f64) {
        let before = sabir.metric("sabir_requests_shed_total");
        let mut connection = without_window(&sabir);
        let mut headers = vec![
            (":method", "GET"),
            (":scheme", "http"),
            (":authority", &*host),
            (":path", &*path),
            ("a2a-version", "1.0"),
        ];
        headers.extend((!client.is_empty()).then_some(("x-forwarded-for", client)));
        for _ in 0..times {
            connection.begin(&headers, true);
        }
        let mut heads = 0;
        while heads < times {
            heads += usize::from(connection.next().0 == HEADERS);
        }
        (connection, sabir.metric("sabir_requests_shed_total") - before)
    };
    let (of_one, refused) = unread("203.0.113.1", 6);
    assert_eq!(refused, 4.0, "two of three mebibytes find room");
    let (of_other, refused) = unread("203.0.113.2", 6);
    assert_eq!(refused, 4.0);
    drop((of_one, of_other));
    eventually("it is given back", || sabir.ask(&get_task(&id)).status == 200);
    let (_all, refused) = unread("", 8);
    assert_eq!(refused, 4.0, "the proxy named no client");
}

#[test]
fn a_limit_that_no_answer_could_keep_is_refused_at_the_start() {
    let home = ServerDirectory::new(&limited("task_bytes_max = 10000000\noutgoing_bytes_max = 10000000"));
    let said = home.expect_start_refused(home.command());
    assert!(said.contains("outgoing_bytes_max") && said.contains("task_bytes_max"), "{said}");
    let home = ServerDirectory::new(&limited("write_seconds_max = 0"));
    let said = home.expect_start_refused(home.command());
    assert!(said.contains("write_seconds_max"), "{said}");
}

#[test]
fn a_reader_of_many_large_answers_leaves_the_server_alive() {
    let sabir = confined(AGENTS);
    let id = large_task(&sabir, 6 * MIB);
    let host = sabir.address.to_string();
    let before = peak_memory(&sabir);
    let mut client = without_window(&sabir);
    let streams: Vec<u32> = (0..100).map(|_| client.send("GET", &host, &format!("/tasks/{id}"), "")).collect();
    let mut heads = 0;
    while heads < streams.len() {
        heads += usize::from(client.next().0 == HEADERS);
    }
    sabir.still_serves();
    let more = peak_memory(&sabir) - before;
    println!("100 unread answers of 12 MiB: {more} MiB at most");
    assert!(more < 500, "{more} MiB for 100 unread answers of 12 MiB");
}

#[test]
fn many_large_sends_at_once_leave_the_server_alive() {
    let sabir = Arc::new(confined(AGENTS));
    let before = peak_memory(&sabir);
    let senders: Vec<_> = (0..16)
        .map(|_| {
            let sabir = sabir.clone();
            thread::spawn(move || {
                let body = envelope("SendMessage", &send_params(&"x".repeat(12 * MIB)));
                let mut wire = sabir.connect();
                // A server that refuses a body early closes the connection.
                let written = wire.try_write(&Request::post("/", body).bytes(sabir.address));
                wire.try_response().map_or_else(|| format!("{written:?}"), |reply| reply.status.to_string())
            })
        })
        .collect();
    let answers: Vec<String> = senders.into_iter().map(|sender| sender.join().unwrap()).collect();
    let served = answers.iter().filter(|answer| *answer == "200").count();
    sabir.still_serves();
    let more = peak_memory(&sabir) - before;
    println!("16 sends of 12 MiB at once: {more} MiB at most, {served} served: {answers:?}");
    assert!(served >= 1, "{answers:?}");
    assert!(answers.iter().all(|answer| answer == "200" || answer == "503"), "{answers:?}");
}

#[test]
fn a_page_of_a_list_ends_at_a_number_of_bytes() {
    let sabir = TestServer::start(&limited("list_bytes_max = 100000"));
    let mut sent: Vec<String> = (0..7).map(|n| large_task(&sabir, if n == 3 { 200_000 } else { 20_000 })).collect();
    let (mut listed, mut pages, mut token) = (Vec::new(), Vec::new(), String::new());
    loop {
        let page = sabir.result("/", "ListTasks", &json!({"pageToken": token, "includeArtifacts": true}));
        assert_eq!((&page["pageSize"], &page["totalSize"]), (&json!(50), &json!(7)));
        let tasks = page["tasks"].as_array().unwrap();
        listed.extend(tasks.iter().map(|task| task["id"].as_str().unwrap().to_owned()));
        pages.push(tasks.len());
        page["nextPageToken"].as_str().unwrap().clone_into(&mut token);
        if token.is_empty() {
            break;
        }
    }
    sent.reverse();
    assert_eq!(listed, sent);
    // A task of 20,000 bytes is stored with what was said and with what was answered.
    assert_eq!(pages, [2, 1, 1, 2, 1], "the large one has a page of its own");
    let first = sabir.ask(&Request::get("/tasks?includeArtifacts=true")).json();
    assert_eq!(first["tasks"].as_array().unwrap().len(), 2);
}

#[test]
fn a_command_that_says_nothing_holds_up_no_other() {
    let sabir = TestServer::start(AGENTS);
    let data = sabir.home.data();
    let silent: Vec<UnixStream> = (0..5).map(|_| UnixStream::connect(data.join("sabir.sock")).unwrap()).collect();
    let begun = Instant::now();
    let ran = CommandDirectory::new().run(&["push", "list", "--data", &data.display().to_string()]);
    assert_eq!(ran.code, 0, "{ran:?}");
    assert!(begun.elapsed() < Duration::from_secs(20), "{:?}", begun.elapsed());
    drop(silent);
}

#[test]
fn a_request_with_two_hosts_is_refused() {
    let sabir = TestServer::start(AGENTS);
    for second in [sabir.address.to_string(), "evil.example".into()] {
        let mut wire = HttpConnection::open(sabir.address);
        wire.write(format!("GET /healthz HTTP/1.1\r\nHost: {}\r\nHost: {second}\r\n\r\n", sabir.address).as_bytes());
        assert_eq!(wire.response().status, 400, "{second}");
    }
    sabir.still_serves();
}
