//! What operators ask of a server: whether it is alive, whether it is ready, and its metrics.

use crate::http_client::Request;
use crate::rpc_client::{DESK_PATH, send_params};
use crate::test_server::{AGENTS, TestServer, shared_server};
use serde_json::json;

#[test]
fn health_and_readiness_are_plain_words() {
    let sabir = shared_server();
    for (path, word) in [("/healthz", "ok\n"), ("/readyz", "ready\n")] {
        let reply = sabir.ask(&Request::get(path).without("A2A-Version"));
        assert_eq!((reply.status, reply.text().as_str()), (200, word));
        assert!(reply.header("Content-Type").is_some_and(|t| t.starts_with("text/plain")));
        assert_eq!(sabir.ask(&Request::new("HEAD", path)).status, 200);
        assert_eq!(sabir.ask(&Request::get(&format!("/agents/demo{path}"))).status, 404, "the root's alone");
    }
}

#[test]
fn requests_are_counted_by_operation_and_outcome() {
    let sabir = TestServer::start(AGENTS);
    for _ in 0..3 {
        sabir.send("/", &send_params("x"));
    }
    sabir.rpc("/", "GetTask", &json!({"id": "nobody"}));
    sabir.rpc("/", "NoSuchMethod", &json!({}));
    sabir.ask(&Request::post("/", "{"));
    sabir.ask(&Request::post("/message:send", send_params("x").to_string()));
    let count = |operation: &str, dialect: &str, status: &str| {
        sabir.metric(&format!(
            "sabir_requests_total{{operation=\"{operation}\",dialect=\"{dialect}\",status=\"{status}\"}}"
        ))
    };
    assert_eq!(count("SendMessage", "1.0 JSONRPC", "ok"), 3.0);
    assert_eq!(count("SendMessage", "1.0 HTTP+JSON", "ok"), 1.0);
    assert_eq!(count("GetTask", "1.0 JSONRPC", "TASK_NOT_FOUND"), 1.0);
    assert_eq!(count("unknown", "1.0 JSONRPC", "METHOD_NOT_FOUND"), 1.0);
    assert_eq!(count("unknown", "1.0 JSONRPC", "PARSE_ERROR"), 1.0);
}

#[test]
fn no_client_can_make_up_metrics() {
    let sabir = TestServer::start(AGENTS);
    let lines = || sabir.ask(&Request::get("/metrics")).text().lines().count();
    sabir.rpc("/", "Method0", &json!({}));
    let before = lines();
    for n in 1..50 {
        sabir.rpc("/", &format!("Method{n}"), &json!({}));
        sabir.ask(&Request::get(&format!("/path{n}")));
        sabir.ask(&Request::get(&format!("/tenant{n}/tasks")));
    }
    // One more operation was met, the list; what clients call things is nowhere.
    assert!(lines() <= before + 30, "{} lines became {}", before, lines());
    assert!(!sabir.ask(&Request::get("/metrics")).text().contains("Method1"));
}

#[test]
fn open_streams_and_connections_are_counted() {
    let sabir = TestServer::start(AGENTS);
    let task = sabir.send_async(DESK_PATH, "forever");
    let streams: Vec<_> =
        (0..3).map(|_| sabir.stream(DESK_PATH, "SubscribeToTask", &json!({"id": task["id"]}))).collect();
    assert_eq!(sabir.metric("sabir_open_streams"), 3.0);
    assert!(sabir.metric("sabir_open_connections") >= 4.0, "three streams and whoever asks");
    drop(streams);
}

#[test]
fn metrics_are_openmetrics() {
    let sabir = shared_server();
    sabir.still_serves();
    let reply = sabir.ask(&Request::get("/metrics"));
    assert_eq!(reply.status, 200);
    assert!(reply.header("Content-Type").is_some_and(|t| t.starts_with("application/openmetrics-text")));
    let text = reply.text();
    assert!(text.ends_with("# EOF\n"));
    for name in ["sabir_requests", "sabir_request_seconds", "sabir_open_streams", "sabir_open_connections"] {
        assert!(text.contains(&format!("# TYPE {name} ")), "{name}");
    }
    assert_eq!(sabir.ask(&Request::get("/agents/demo/metrics")).status, 404);
}
