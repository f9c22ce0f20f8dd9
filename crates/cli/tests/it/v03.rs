//! REST and gRPC of 0.3: every peer finds what it looks for.

use crate::http_client::Request;
use crate::protocols::Http2;
use crate::rpc_client::uuid;
use crate::test_server::{TestServer, shared_server};
use serde_json::{Value, json};

const PYTHON_HTTP: &str = "python-httpx/0.28.1";
const PYTHON_GRPC: &str = "grpc-python-asyncio/1.85.1 grpc-c/58.0.0 (linux; chttp2)";
const NODE_GRPC: &str = "grpc-node-js/1.14.3";
const GO_HTTP: &str = "Go-http-client/1.1";
const GO_GRPC: &str = "grpc-go/1.76.0";
const JAVA_HTTP: &str = "Java-http-client/21.0.8";
const JAVA_GRPC: &str = "grpc-java-netty/1.75.0";

fn post(path: &str, body: &Value) -> Request {
    Request::post(path, body.to_string()).without("A2A-Version")
}

fn sending(content: &Value) -> Value {
    json!({"message": {"messageId": uuid(), "role": "ROLE_USER", "content": content}})
}

#[test]
fn a_file_looks_over_rest_as_its_reader_expects_it() {
    let sabir = shared_server();
    // Bytes that are not text: `ff fe fd`, base64 once, and base64 of that text.
    let (once, twice) = ("//79", "Ly83OQ==");
    let file = |bytes: &str| sending(&json!([{"file": {"fileWithBytes": bytes, "name": "f"}}]));
    let bytes = |message: &Value| message["content"][0]["file"]["fileWithBytes"].clone();
    let peers = [(PYTHON_HTTP, twice), (GO_HTTP, twice), (JAVA_HTTP, twice), ("node", once)];
    for (writer, written) in peers {
        let sent = sabir.ask(&post("/v1/message:send", &file(written)).with("User-Agent", writer)).json();
        assert_eq!(bytes(&sent["task"]["history"][0]), written, "{sent}");
        let path = format!("/v1/tasks/{}", sent["task"]["id"].as_str().unwrap());
        for (reader, expected) in peers {
            let got = sabir.ask(&Request::get(&path).without("A2A-Version").with("User-Agent", reader)).json();
            assert_eq!(bytes(&got["history"][0]), expected, "{writer} to {reader}: {got}");
        }
        let streamed = sabir.ask(&post("/v1/message:stream", &file(written)).with("User-Agent", writer)).text();
        // The proto of the others has no name of a file.
        let name = if writer == PYTHON_HTTP { r#","name":"f""# } else { "" };
        let shown = format!(r#""fileWithBytes":"{written}"{name}}}"#);
        assert_eq!(streamed.matches(&shown).count(), 2, "in the task and in the artifact: {streamed}");
    }
}

#[test]
fn a_client_in_java_knows_an_error_over_rest_by_its_class() {
    let sabir = shared_server();
    let id = uuid();
    let got = Request::get(&format!("/v1/tasks/{id}")).without("A2A-Version");
    let refused = sabir.ask(&got.with("User-Agent", JAVA_HTTP));
    assert_eq!((refused.status, &refused.json()["error"]), (404, &json!("io.a2a.spec.TaskNotFoundError")));
    let mut message = sending(&json!([{"text": "words"}]));
    message["message"]["taskId"] = json!(id);
    let asked = post("/v1/message:stream", &message).with("User-Agent", JAVA_HTTP);
    let streamed = sabir.ask(&asked.with("Accept", "text/event-stream"));
    let event: Value = serde_json::from_str(streamed.text().trim().strip_prefix("data: ").unwrap()).unwrap();
    assert_eq!((streamed.status, &event["error"]), (200, &json!("io.a2a.spec.TaskNotFoundError")));
}

/// One call over gRPC. What it is answered with, without looking into it.
fn grpc(sabir: &TestServer, method: &str, user_agent: &str, message: &[u8]) -> Vec<u8> {
    let mut client = Http2::open(sabir);
    let (host, path) = (sabir.address.to_string(), format!("/a2a.v1.A2AService/{method}"));
    let headers = [
        (":method", "POST"),
        (":scheme", "http"),
        (":authority", &host),
        (":path", &path),
        ("content-type", "application/grpc"),
        ("te", "trailers"),
        ("user-agent", user_agent),
    ];
    let length = u32::try_from(message.len()).unwrap().to_be_bytes();
    let stream = client.send_with(&headers, &[&[0][..], &length, message].concat());
    client.raw_bodies(&[stream]).remove(0).1
}

#[test]
fn a_file_looks_over_grpc_as_its_reader_expects_it() {
    let sabir = shared_server();
    let file = b"\xff\xfe\xfd";
    let field = |number: u8, bytes: &[u8]| [&[number << 3 | 2, u8::try_from(bytes.len()).unwrap()], bytes].concat();
    let request = |written: &[u8]| {
        let part = field(2, &field(2, written));
        let role = [4 << 3, 1];
        field(1, &[&field(1, uuid().as_bytes())[..], &role, &field(5, &part)].concat())
    };
    // As a `FilePart`, with nothing before or after it, in the history and in the artifact.
    let shows = |reply: &[u8], written: &[u8]| {
        let expected = field(2, &field(2, written));
        reply.windows(expected.len()).filter(|bytes| *bytes == expected).count() == 2
    };
    let text = &b"//79"[..];
    let peers = [(PYTHON_GRPC, text), (GO_GRPC, text), (JAVA_GRPC, text), (NODE_GRPC, file)];
    for (writer, written) in peers {
        let streamed = grpc(&sabir, "SendStreamingMessage", writer, &request(written));
        assert!(shows(&streamed, written), "{writer}: {streamed:?}");
        let sent = grpc(&sabir, "SendMessage", writer, &request(written));
        assert!(shows(&sent, written), "{writer}: {sent:?}");
        // The first text of 36 bytes is the id of the task.
        let at = sent.windows(2).position(|head| head == [1 << 3 | 2, 36]).unwrap() + 2;
        let name = [b"tasks/", &sent[at..at + 36]].concat();
        for (reader, expected) in peers {
            let got = grpc(&sabir, "GetTask", reader, &field(1, &name));
            assert!(shows(&got, expected), "{writer} to {reader}: {got:?}");
        }
    }
}

#[test]
fn who_polls_is_answered_at_once() {
    let sabir = TestServer::start(crate::test_server::AGENTS);
    let mut send = sending(&json!([{"text": "forever"}]));
    send["configuration"] = json!({});
    let task = sabir.ask(&post("/agents/desk/v1/message:send", &send)).json()["task"].take();
    assert!(["TASK_STATE_SUBMITTED", "TASK_STATE_WORKING"].contains(&task["status"]["state"].as_str().unwrap()));
}
