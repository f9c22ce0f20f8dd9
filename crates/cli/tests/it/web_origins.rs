//! Web pages of other origins: allowed by name, with the headers a browser asks for, and otherwise kept out.

use crate::http_client::{HttpResponse, Request};
use crate::rpc_client::{envelope, send_params};
use crate::test_server::{AGENTS, ServerDirectory, TestServer};

const CONSOLE: &str = "https://console.example";

fn inviting(origins: &str) -> TestServer {
    TestServer::start(&format!("[server]\ncors = {origins}\n{AGENTS}"))
}

fn send() -> Request {
    Request::post("/", envelope("SendMessage", &send_params("x")))
}

fn preflight(sabir: &TestServer, origin: &str, path: &str) -> HttpResponse {
    let request = Request::new("OPTIONS", path).with("Origin", origin).with("Access-Control-Request-Method", "POST");
    sabir.ask(&request.with("Access-Control-Request-Headers", "content-type,authorization"))
}

#[test]
fn a_named_origin_may_ask_and_call_and_read() {
    let sabir = inviting("[\"https://console.example\", \"http://localhost:5173\"]");
    for origin in [CONSOLE, "http://localhost:5173"] {
        for path in ["/", "/agents/desk/message:send", "/.well-known/agent-card.json"] {
            let reply = preflight(&sabir, origin, path);
            assert_eq!((reply.status, reply.text().len()), (204, 0), "{path}");
            assert_eq!(reply.header("Access-Control-Allow-Origin"), Some(origin));
            assert!(reply.header("Access-Control-Allow-Methods").unwrap().contains("POST"));
            let headers = reply.header("Access-Control-Allow-Headers").unwrap();
            assert!(["authorization", "content-type", "a2a-version"].iter().all(|name| headers.contains(name)));
        }
        let reply = sabir.ask(&send().with("Origin", origin));
        assert_eq!(reply.status, 200);
        assert_eq!(reply.header("Access-Control-Allow-Origin"), Some(origin));
        assert_eq!(reply.header("Access-Control-Allow-Credentials"), Some("true"));
        assert!(reply.header("Access-Control-Expose-Headers").unwrap().contains("www-authenticate"));
        let refusal = sabir.ask(&Request::get("/no/such/path").with("Origin", origin));
        assert_eq!((refusal.status, refusal.header("Access-Control-Allow-Origin")), (404, Some(origin)));
    }
    let mut stream =
        sabir.open(&Request::post("/", envelope("SendStreamingMessage", &send_params("x"))).with("Origin", CONSOLE));
    assert_eq!(stream.head.header("Access-Control-Allow-Origin"), Some(CONSOLE));
    stream.rest();
}

#[test]
fn caches_are_told_that_answers_differ() {
    let sabir = inviting("[\"https://console.example\"]");
    let varies = |request: &Request| {
        let reply = sabir.ask(request);
        let all: Vec<&str> =
            reply.headers.iter().filter(|(n, _)| n.eq_ignore_ascii_case("vary")).map(|(_, v)| &**v).collect();
        all.join(",")
    };
    let card = Request::get("/.well-known/agent-card.json");
    assert_eq!(varies(&card.clone().with("Origin", CONSOLE)), "a2a-version,origin");
    assert_eq!(varies(&card), "a2a-version,origin");
    assert_eq!(varies(&Request::get("/healthz")), "origin");
}

#[test]
fn all_others_stay_out() {
    let sabir = inviting("[\"https://console.example\"]");
    for other in ["https://evil.example", "http://console.example", "https://console.example.evil.example", "null"] {
        let reply = preflight(&sabir, other, "/");
        assert_eq!((reply.status, reply.header("Access-Control-Allow-Origin")), (403, None), "{other}");
        let reply = sabir.ask(&send().with("Origin", other));
        assert_eq!((reply.status, reply.header("Access-Control-Allow-Origin")), (403, None), "{other}");
    }
    // A page that is invited is still no way around the other checks.
    assert_eq!(sabir.ask(&send().with("Origin", CONSOLE).with("Host", "evil.example")).status, 421);
    assert_eq!(sabir.ask(&send().with("Origin", CONSOLE).with("Content-Type", "text/plain")).status, 415);
    assert_eq!(sabir.task_count("/"), 0);
}

#[test]
fn everybody_is_invited_without_what_the_browser_knows() {
    let sabir = inviting("[\"*\"]");
    for origin in [CONSOLE, "https://anybody.example", "null"] {
        assert_eq!(preflight(&sabir, origin, "/").status, 204);
        let reply = sabir.ask(&send().with("Origin", origin));
        assert_eq!((reply.status, reply.header("Access-Control-Allow-Origin")), (200, Some("*")));
        assert_eq!(reply.header("Access-Control-Allow-Credentials"), None);
    }
}

#[test]
fn what_is_no_origin_is_refused_at_the_start() {
    for (origins, word) in [
        ("[\"console.example\"]", "https://console.example"),
        ("[\"https://console.example/app\"]", "origin"),
        ("[\"*\", \"https://console.example\"]", "alone"),
        ("[\"null\"]", "origin"),
    ] {
        let home = ServerDirectory::new(&format!("[server]\ncors = {origins}\n{AGENTS}"));
        let said = home.expect_start_refused(home.command());
        assert!(said.contains(word), "{origins}: {said}");
    }
}
