//! A listener that asks for no credentials keeps web pages out: its own host, no foreign origin, JSON only.

use crate::http_client::{HttpConnection, Request};
use crate::rpc_client::{ProtocolError, envelope, message, send_params};
use crate::test_server::{AGENTS, ServerDirectory, TestServer, shared_server};
use serde_json::json;

fn send() -> Request {
    Request::post("/", envelope("SendMessage", &send_params("x")))
}

/// The status of a request, and that a refused one has the form of an error.
#[track_caller]
fn check(sabir: &TestServer, request: &Request, status: u16) {
    let reply = sabir.ask(request);
    assert_eq!(reply.status, status, "{}", reply.text());
    if status != 200 {
        assert_eq!(ProtocolError::from_status(&reply).code, i64::from(status));
    }
    assert!(reply.header("Access-Control-Allow-Origin").is_none(), "no page is invited");
}

#[test]
fn only_json_is_taken_by_post() {
    let sabir = shared_server();
    let good = [
        "application/json",
        "application/a2a+json",
        "APPLICATION/JSON",
        "application/json; charset=utf-8",
        "application/a2a+json;charset=UTF-8",
        " application/json ",
    ];
    let bad = [
        "text/plain",
        "application/x-www-form-urlencoded",
        "multipart/form-data; boundary=x",
        "text/json",
        "application/jsonx",
        "application/json-patch+json",
        "application/xml",
        "json",
        "*/*",
        "",
        "text/plain; application/json",
        "application",
        "\u{e9}",
    ];
    let rest = Request::post("/message:send", send_params("x").to_string());
    for request in [send(), rest] {
        good.iter().for_each(|t| check(&sabir, &request.clone().with("Content-Type", *t), 200));
        bad.iter().for_each(|t| check(&sabir, &request.clone().with("Content-Type", *t), 415));
        check(&sabir, &request.without("Content-Type"), 415);
    }
}

#[test]
fn a_body_without_a_type_is_refused_however_it_is_sent() {
    let sabir = TestServer::start(AGENTS);
    let body = envelope("SendMessage", &send_params("x"));
    let mut wire = HttpConnection::open(sabir.address);
    wire.write(&Request::new("POST", "/").with("Transfer-Encoding", "chunked").head(sabir.address));
    wire.write(format!("{:x}\r\n{body}\r\n0\r\n\r\n", body.len()).as_bytes());
    let reply = wire.response();
    assert_eq!(reply.status, 415, "{}", reply.text());
    assert_eq!(sabir.task_count("/"), 0, "and nothing was done");
}

#[test]
fn only_its_own_host_is_served() {
    let sabir = shared_server();
    let port = sabir.address.port();
    for good in [
        format!("127.0.0.1:{port}"),
        format!("localhost:{port}"),
        format!("LOCALHOST:{port}"),
        format!("[::1]:{port}"),
        "localhost".into(),
        "127.0.0.1".into(),
    ] {
        check(&sabir, &send().with("Host", good.as_str()), 200);
        check(&sabir, &Request::get("/tasks").with("Host", good), 200);
    }
    let bad = [
        "evil.example",
        "127.0.0.1.evil.example",
        "localhost.evil.example",
        "evil.example:80",
        "127.0.0.2",
        "xlocalhost",
        "localhost@evil.example",
        "[::2]",
        "10.0.0.1",
    ];
    for bad in bad {
        for host in [bad.to_owned(), format!("{bad}:{port}")] {
            check(&sabir, &send().with("Host", host.as_str()), 421);
            for path in ["/tasks", "/.well-known/agent-card.json", "/healthz", "/metrics"] {
                check(&sabir, &Request::get(path).with("Host", host.as_str()), 421);
            }
        }
    }
    check(&sabir, &send().without("Host"), 400);
    check(&sabir, &send().with("Host", ""), 421);
}

#[test]
fn a_foreign_host_in_the_request_line_counts_as_well() {
    let sabir = shared_server();
    let body = envelope("SendMessage", &send_params("x"));
    for (target, status) in [("http://evil.example/".to_owned(), 421), (format!("http://{}/", sabir.address), 200)] {
        check(&sabir, &Request::post(&target, body.as_str()), status);
    }
}

#[test]
fn no_foreign_origin_is_served() {
    let sabir = shared_server();
    let port = sabir.address.port();
    for good in [format!("http://127.0.0.1:{port}"), format!("http://localhost:{port}"), format!("http://[::1]:{port}")]
    {
        check(&sabir, &send().with("Origin", good.as_str()), 200);
        check(&sabir, &Request::get("/tasks").with("Origin", good), 200);
    }
    let foreign = [
        "https://evil.example".to_owned(),
        "null".into(),
        String::new(),
        "http://127.0.0.1:1".into(),
        "http://localhost".into(),
        format!("http://localhost:{port}.evil.example"),
        format!("http://evil.example:{port}"),
        format!("localhost:{port}"),
        format!("http://evil.example#http://localhost:{port}"),
        "file://".into(),
        format!("http://evil@localhost:{port}"),
    ];
    for bad in foreign {
        check(&sabir, &send().with("Origin", bad.as_str()), 403);
        check(&sabir, &Request::get("/tasks").with("Origin", bad.as_str()), 403);
        check(&sabir, &Request::get("/.well-known/agent-card.json").with("Origin", bad.as_str()), 403);
    }
}

#[test]
fn an_origin_that_cannot_be_read_is_foreign() {
    let sabir = shared_server();
    check(&sabir, &send().with("Origin", b"http://b\xfccher.example".to_vec()), 403);
}

#[test]
fn a_page_that_asks_first_is_told_nothing() {
    let sabir = shared_server();
    let preflight = Request::new("OPTIONS", "/").with("Access-Control-Request-Method", "POST");
    let reply = sabir.ask(&preflight.clone().with("Origin", "https://evil.example"));
    assert_eq!(reply.status, 403);
    let reply = sabir.ask(&preflight);
    assert!(reply.status >= 400 && reply.header("Access-Control-Allow-Origin").is_none());
}

#[test]
fn the_public_name_is_one_of_its_own() {
    let home = ServerDirectory::new(
        "[server]\npublic_url = \"https://agents.example.com/\"\n[auth]\nopen = true\n[[agent]]\nname = \"demo\"\nkind = \"echo\"\ndefault = true",
    );
    let sabir = TestServer::start_at(&home);
    for host in ["agents.example.com", "AGENTS.example.com:443"] {
        assert_eq!(sabir.ask(&send().with("Host", host)).status, 200, "{host}");
    }
    assert_eq!(
        sabir.ask(&send().with("Host", "agents.example.com").with("Origin", "https://agents.example.com")).status,
        200
    );
    assert_eq!(sabir.ask(&send().with("Host", "example.com")).status, 421);
    sabir.still_serves();
}

#[test]
fn what_was_kept_out_did_nothing() {
    let sabir = TestServer::start(AGENTS);
    for (name, value) in [("Host", "evil.example"), ("Origin", "https://evil.example"), ("Content-Type", "text/plain")]
    {
        for path in ["/", "/a2a", "/agents/demo", "/message:send", "/agents/demo/message:stream"] {
            let body = if path.contains("message") {
                json!({"message": message("x")}).to_string()
            } else {
                envelope("SendMessage", &send_params("x"))
            };
            assert!(sabir.ask(&Request::post(path, body).with(name, value)).status >= 400);
        }
    }
    assert_eq!(sabir.task_count("/"), 0);
}
