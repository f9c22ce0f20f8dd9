//! One port: HTTP/1.1 in all its ways, and HTTP/2 without asking first.

use crate::http_client::{HttpConnection, Request};
use crate::rpc_client::{DESK_PATH, envelope, send_params, state};
use crate::test_server::{AGENTS, TestServer, shared_server};
use serde_json::{Value, json};

fn send(text: &str) -> Request {
    Request::post("/", envelope("SendMessage", &send_params(text)))
}

#[test]
fn a_connection_is_used_again_and_again() {
    let sabir = shared_server();
    let mut wire = HttpConnection::open(sabir.address);
    for n in 0..50 {
        wire.send(&send(&n.to_string()));
        let reply = wire.response().json();
        assert_eq!(reply["result"]["task"]["artifacts"][0]["parts"][0]["text"], n.to_string());
        // An error is no reason to hang up.
        wire.send(&Request::post("/", "{"));
        assert_eq!(wire.response().json()["error"]["code"], -32700);
        wire.send(&Request::get("/nothing"));
        assert_eq!(wire.response().status, 404);
    }
    // After a stream, too.
    wire.send(&Request::post(DESK_PATH, envelope("SendStreamingMessage", &send_params("quick"))));
    let text = wire.response().text();
    assert!(text.contains("TASK_STATE_COMPLETED"), "{text}");
    wire.send(&Request::get("/healthz"));
    assert_eq!(wire.response().text(), "ok\n");
}

#[test]
fn requests_sent_ahead_are_answered_in_order() {
    let sabir = shared_server();
    let mut wire = HttpConnection::open(sabir.address);
    let ahead: Vec<u8> = (0..20).flat_map(|n| send(&n.to_string()).bytes(sabir.address)).collect();
    wire.write(&ahead);
    for n in 0..20 {
        assert_eq!(wire.response().json()["result"]["task"]["artifacts"][0]["parts"][0]["text"], n.to_string());
    }
}

#[test]
fn a_body_may_come_in_chunks() {
    let sabir = shared_server();
    let body = envelope("SendMessage", &send_params("in pieces"));
    let mut wire = HttpConnection::open(sabir.address);
    wire.write(&Request::post("/", "").with("Transfer-Encoding", "chunked").head(sabir.address));
    for byte in body.bytes() {
        wire.write(&[b"1\r\n", &[byte][..], b"\r\n"].concat());
    }
    wire.write(b"0\r\n\r\n");
    assert_eq!(state(&wire.response().json()["result"]["task"]), "TASK_STATE_COMPLETED");
}

#[test]
fn a_client_may_ask_before_it_sends_the_body() {
    let sabir = shared_server();
    let request = send("expected").with("Expect", "100-continue");
    let mut wire = HttpConnection::open(sabir.address);
    wire.write(&request.head(sabir.address));
    assert_eq!(wire.response().status, 100);
    wire.write(&request.bytes(sabir.address)[request.head(sabir.address).len()..]);
    assert_eq!(wire.response().status, 200);
    // And is not told to go on with one that is too large.
    let mut wire = HttpConnection::open(sabir.address);
    wire.write(&send("").with("Expect", "100-continue").with("Content-Length", "99999999999").head(sabir.address));
    assert_eq!(wire.response().status, 413);
}

#[test]
fn what_could_be_read_in_two_ways_is_not_read_at_all() {
    let sabir = TestServer::start(AGENTS);
    let host = sabir.address;
    let smuggled = [
        format!(
            "POST / HTTP/1.1\r\nHost: {host}\r\nContent-Type: application/json\r\nContent-Length: 5\r\nContent-Length: 6\r\n\r\n{{}}   "
        ),
        format!(
            "POST / HTTP/1.1\r\nHost: {host}\r\nContent-Type: application/json\r\nTransfer-Encoding: gzip, chunked, identity\r\n\r\n0\r\n\r\n"
        ),
        format!("POST / HTTP/1.1\r\nHost: {host}\r\nContent-Type: application/json\r\nContent-Length : 2\r\n\r\n{{}}"),
        format!(
            "POST / HTTP/1.1\r\nHost: {host}\r\nContent-Type: application/json\r\nTransfer-Encoding: chunked\r\n\r\nzz\r\n\r\n"
        ),
        format!("POST / HTTP/1.1\r\nHost: {host}\r\nX: a\0b\r\nContent-Length: 0\r\n\r\n"),
    ];
    for text in smuggled {
        let mut wire = HttpConnection::open(sabir.address);
        wire.write(text.as_bytes());
        wire.half_close();
        if let Some(reply) = wire.try_response() {
            let told_off = (400..500).contains(&reply.status) || reply.text().contains("\"error\"");
            assert!(told_off, "{text:?} gave {}", reply.status);
        }
    }
    assert_eq!(sabir.task_count("/"), 0);
    sabir.still_serves();
}

/// HTTP/2 by hand: frames, and headers that are never compressed.
pub(crate) struct Http2 {
    pub(crate) wire: HttpConnection,
    stream: u32,
}

pub(crate) const DATA: u8 = 0;
const HEADERS: u8 = 1;
pub(crate) const SETTINGS: u8 = 4;
const PING: u8 = 6;
pub(crate) const GOAWAY: u8 = 7;
const END_STREAM: u8 = 1;
const END_HEADERS: u8 = 4;
const MAX_CONCURRENT_STREAMS: u16 = 3;

impl Http2 {
    pub(crate) fn open(sabir: &TestServer) -> Self {
        let mut wire = sabir.connect();
        wire.write(b"PRI * HTTP/2.0\r\n\r\nSM\r\n\r\n");
        let mut client = Self { wire, stream: 1 };
        client.frame(SETTINGS, 0, 0, &[]);
        client
    }

    pub(crate) fn frame(&mut self, kind: u8, flags: u8, stream: u32, payload: &[u8]) {
        let mut out = u32::try_from(payload.len()).unwrap().to_be_bytes()[1..].to_vec();
        out.extend([kind, flags]);
        out.extend(stream.to_be_bytes());
        out.extend(payload);
        self.wire.write(&out);
    }

    pub(crate) fn next(&mut self) -> (u8, u8, u32, Vec<u8>) {
        let head = self.wire.take(9).expect("the connection stays open");
        let length = u32::from_be_bytes([0, head[0], head[1], head[2]]) as usize;
        let stream = u32::from_be_bytes([head[5], head[6], head[7], head[8]]);
        let payload = self.wire.take(length).expect("a whole frame");
        (head[3], head[4], stream, payload)
    }

    /// Sends a request and returns its stream.
    pub(crate) fn send(&mut self, method: &str, host: &str, path: &str, body: &str) -> u32 {
        self.send_typed(method, host, path, "application/json", body.as_bytes())
    }

    pub(crate) fn send_typed(&mut self, method: &str, host: &str, path: &str, content_type: &str, body: &[u8]) -> u32 {
        let headers = [
            (":method", method),
            (":scheme", "http"),
            (":authority", host),
            (":path", path),
            ("content-type", content_type),
            ("te", "trailers"),
            ("a2a-version", if path.contains("/a2a.v1.") { "0.3" } else { "1.0" }),
        ];
        self.send_with(&headers, body)
    }

    /// The same with all headers given.
    pub(crate) fn send_with(&mut self, headers: &[(&str, &str)], body: &[u8]) -> u32 {
        let stream = self.begin(headers, body.is_empty());
        if !body.is_empty() {
            self.frame(DATA, END_STREAM, stream, body);
        }
        stream
    }

    /// Begins a request, of which more follows unless this is the end.
    pub(crate) fn begin(&mut self, headers: &[(&str, &str)], ends: bool) -> u32 {
        let mut block = Vec::new();
        for (name, value) in headers {
            // Literal, not indexed, new name; short enough for lengths of one byte.
            block.push(0);
            for text in [*name, *value] {
                block.push(u8::try_from(text.len()).unwrap());
                block.extend_from_slice(text.as_bytes());
            }
        }
        let stream = self.stream;
        self.stream += 2;
        self.frame(HEADERS, if ends { END_HEADERS | END_STREAM } else { END_HEADERS }, stream, &block);
        stream
    }

    /// A gRPC call with one message each way; the message of the answer, empty where there is only an error.
    pub(crate) fn grpc(&mut self, host: &str, path: &str, message: &[u8]) -> Vec<u8> {
        let length = u32::try_from(message.len()).unwrap().to_be_bytes();
        let body = [&[0], &length[..], message].concat();
        let stream = self.send_typed("POST", host, path, "application/grpc", &body);
        let (_, body) = self.raw_bodies(&[stream]).remove(0);
        body.get(5..).unwrap_or_default().to_vec()
    }

    /// The bodies of some streams, in the order they end.
    fn bodies(&mut self, wanted: &[u32]) -> Vec<(u32, String)> {
        let text = |(stream, body)| (stream, String::from_utf8(body).unwrap());
        self.raw_bodies(wanted).into_iter().map(text).collect()
    }

    /// The same where they need not be text.
    pub(crate) fn raw_bodies(&mut self, wanted: &[u32]) -> Vec<(u32, Vec<u8>)> {
        let mut open: Vec<(u32, Vec<u8>)> = wanted.iter().map(|s| (*s, Vec::new())).collect();
        let mut done = Vec::new();
        while !open.is_empty() {
            let (kind, flags, stream, payload) = self.next();
            assert_ne!(kind, GOAWAY, "{payload:?}");
            let Some(at) = open.iter().position(|(s, _)| *s == stream) else { continue };
            if kind == DATA {
                open[at].1.extend_from_slice(&payload);
            }
            if matches!(kind, DATA | HEADERS) && flags & 1 == 1 {
                done.push(open.remove(at));
            }
        }
        done
    }
}

#[test]
fn http2_is_spoken_on_the_same_port_without_asking_first() {
    let sabir = TestServer::start(&AGENTS.replace("[limits]", "[limits]\nhttp2_streams_max = 17"));
    let mut client = Http2::open(&sabir);
    let (kind, _, _, settings) = client.next();
    assert_eq!(kind, SETTINGS);
    let limit = settings.chunks(6).find(|s| u16::from_be_bytes([s[0], s[1]]) == MAX_CONCURRENT_STREAMS).unwrap();
    assert_eq!(u32::from_be_bytes([limit[2], limit[3], limit[4], limit[5]]), 17);
    let host = sabir.address.to_string();
    // A slow one, then quick ones: they overtake it on the same connection.
    let slow = client.send("POST", &host, DESK_PATH, &envelope("SendMessage", &send_params("tick")));
    let quick: Vec<u32> = (0..5)
        .map(|n| client.send("POST", &host, "/", &envelope("SendMessage", &send_params(&n.to_string()))))
        .collect();
    let health = client.send("GET", &host, "/healthz", "");
    let all: Vec<u32> = [slow].into_iter().chain(quick.iter().copied()).chain([health]).collect();
    let bodies = client.bodies(&all);
    assert_eq!(bodies.last().unwrap().0, slow);
    for (stream, body) in &bodies {
        if *stream == health {
            assert_eq!(body, "ok\n");
            continue;
        }
        let reply: Value = serde_json::from_str(body).unwrap();
        assert_eq!(state(&reply["result"]["task"]), "TASK_STATE_COMPLETED");
    }
    // Streams of events work here, too.
    let events = client.send("POST", &host, DESK_PATH, &envelope("SendStreamingMessage", &send_params("quick")));
    let body = client.bodies(&[events]).remove(0).1;
    assert!(body.starts_with("id: 1\ndata: {") && body.contains("TASK_STATE_COMPLETED"), "{body}");
    sabir.still_serves();
}

#[test]
fn the_door_is_the_same_for_http2() {
    let sabir = shared_server();
    let mut client = Http2::open(&sabir);
    let foreign = client.send("POST", "evil.example", "/", &envelope("SendMessage", &send_params("x")));
    let body = client.bodies(&[foreign]).remove(0).1;
    assert!(serde_json::from_str::<Value>(&body).unwrap()["error"].is_object(), "{body}");
    client.frame(PING, 0, 0, b"12345678");
    while client.next().0 != PING {}
}

#[test]
fn broken_http2_is_the_clients_own_problem() {
    let sabir = shared_server();
    for garbage in [&[0xff; 64][..], &[0, 0, 1, HEADERS, 5, 0, 0, 0, 1, 0xff], &[0, 0, 0, DATA, 0, 0, 0, 0, 0]] {
        let mut client = Http2::open(&sabir);
        client.wire.write(garbage);
        assert!(client.wire.ends());
        sabir.still_serves();
    }
    // A client that opens and closes in the middle of a frame.
    let mut client = Http2::open(&sabir);
    client.wire.write(&[0, 0x40, 0, DATA, 0]);
    drop(client);
    sabir.still_serves();
}

#[test]
fn the_code_of_an_error_is_its_http_status() {
    let sabir = TestServer::start(&AGENTS.replace("[limits]", "[limits]\nbody_bytes_max = 1000\nlive_tasks_max = 0"));
    let send = Request::post("/message:send", send_params("x").to_string());
    let requests = [
        (400, Request::post("/message:send", "{")),
        (403, send.clone().with("Origin", "https://evil.example")),
        (404, Request::get("/tasks/nobody")),
        (404, Request::get("/nothing")),
        (404, Request::get("/agents/nobody/tasks")),
        (405, Request::new("PUT", "/tasks")),
        (413, Request::post("/message:send", " ".repeat(1001))),
        (415, send.clone().with("Content-Type", "text/plain")),
        (421, send.clone().with("Host", "evil.example")),
        (429, send),
    ];
    let mut wrong = Vec::new();
    for (status, request) in requests {
        let reply = sabir.ask(&request);
        assert_eq!(reply.status, status, "{}", reply.text());
        if reply.json()["error"]["code"] != status {
            wrong.push(format!("{status}: {}", reply.text()));
        }
    }
    assert!(wrong.is_empty(), "{wrong:#?}");
}

#[test]
fn replies_have_the_type_of_their_binding() {
    let sabir = shared_server();
    let rest = sabir.ask(&Request::post("/message:send", send_params("x").to_string()));
    assert_eq!(rest.header("Content-Type"), Some("application/a2a+json"));
    let id = rest.json()["task"]["id"].as_str().unwrap().to_owned();
    assert_eq!(sabir.ask(&Request::get(&format!("/tasks/{id}"))).header("Content-Type"), Some("application/a2a+json"));
    assert_eq!(sabir.ask(&Request::get("/tasks/nobody")).header("Content-Type"), Some("application/a2a+json"));
    assert_eq!(sabir.result("/", "GetTask", &json!({"id": id})), rest.json()["task"]);
}
