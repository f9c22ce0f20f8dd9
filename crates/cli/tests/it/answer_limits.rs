//! The memory for answers of remote agents has one bound for all of them together, over every binding.

use crate::rpc_client::{send_params, state};
use crate::stub_agent::{self, StubRequest, StubResponse};
use crate::test_server::{ServerDirectory, TestServer, eventually};
use serde_json::json;
use std::io::Write as _;
use std::net::TcpListener;
use std::thread;

const MIB: usize = 1 << 20;

/// An agent of a hub that gives up after one attempt.
fn agent(name: &str, url: &str) -> String {
    format!(
        "[[agent]]\nname = \"{name}\"\nkind = \"a2a\"\nurl = \"{url}\"\nbulkhead = 0\n[agent.continuation]\n\
         attempts = 1\npoll_ms = 50\n"
    )
}

/// A card that leads to another place, by one binding.
fn card_to(binding: &'static str, at: String) -> String {
    stub_agent::serve(move |_: &StubRequest| -> StubResponse {
        let card = json!({
            "name": "Far", "description": "Somewhere else", "version": "1.0.0", "capabilities": {},
            "supportedInterfaces": [{"url": at, "protocolBinding": binding, "protocolVersion": "1.0"}],
            "defaultInputModes": ["text/plain"], "defaultOutputModes": ["text/plain"], "skills": []
        });
        (200, "application/json", card.to_string())
    })
}

/// Answers cards; of anything else it sends a mebibyte and no more, and keeps the connection.
fn endless_answers() -> String {
    let listener = TcpListener::bind("127.0.0.1:0").unwrap();
    let url = format!("http://{}", listener.local_addr().unwrap());
    let at = url.clone();
    thread::spawn(move || {
        for mut stream in listener.incoming().map_while(Result::ok) {
            let at = at.clone();
            thread::spawn(move || {
                let Ok(asked) = stub_agent::read_request(&stream) else { return };
                if asked.path.starts_with("/.well-known/") {
                    return drop(stub_agent::respond(stream, (200, "application/json", stub_agent::card(&at))));
                }
                let head = "HTTP/1.1 200 OK\r\ncontent-type: application/json\r\ncontent-length: 60000000\r\n\r\n";
                let _ = stream.write_all(head.as_bytes());
                let _ = stream.write_all(&vec![b' '; MIB]);
                // Until the peer closes the connection.
                let _ = std::io::copy(&mut stream, &mut std::io::sink());
            });
        }
    });
    url
}

#[test]
fn an_answer_without_room_fails_alone_whatever_brings_it() {
    let far = TestServer::start("[[agent]]\nname = \"echo\"\nkind = \"echo\"\ndefault = true\n");
    let at = |path: &str| format!("http://{}{path}", far.address);
    let (rpc, rest, grpc) = (card_to("JSONRPC", at("/")), card_to("HTTP+JSON", at("")), card_to("GRPC", at("")));
    let hub = TestServer::start(&format!(
        "{}{}{}[limits]\nanswers_bytes_max = 4194304\n",
        agent("rpc", &rpc),
        agent("rest", &rest),
        agent("grpc", &grpc)
    ));
    for path in ["/agents/rpc", "/agents/rest", "/agents/grpc"] {
        let large = hub.send(path, &send_params(&"x".repeat(3 * MIB)));
        assert_eq!(state(&large), "TASK_STATE_FAILED", "{path}");
        let small = hub.send(path, &send_params("hello"));
        assert_eq!(state(&small), "TASK_STATE_COMPLETED", "{path}: {small}");
        let fits = hub.send(path, &send_params(&"x".repeat(MIB / 2)));
        assert_eq!(state(&fits), "TASK_STATE_COMPLETED", "{path}");
    }
    assert!(hub.log_text().contains("more is on its way from agents than there is room for"), "{}", hub.log_text());
}

#[test]
fn one_agent_that_holds_its_answers_back_leaves_room_for_the_others() {
    let far = TestServer::start("[[agent]]\nname = \"echo\"\nkind = \"echo\"\ndefault = true\n");
    let good = card_to("JSONRPC", format!("http://{}/", far.address));
    let hub = TestServer::start(&format!(
        "{}{}[limits]\nanswers_bytes_max = 16777216\n",
        agent("good", &good),
        agent("bad", &endless_answers())
    ));
    for _ in 0..40 {
        let mut request = send_params("go");
        request["configuration"] = json!({"returnImmediately": true});
        hub.send("/agents/bad", &request);
    }
    let no_room = "more is on its way from agents than there is room for";
    eventually("some found no room", || hub.log_text().matches(no_room).count() >= 20);
    let fits = hub.send("/agents/good", &send_params(&"x".repeat(MIB)));
    assert_eq!(state(&fits), "TASK_STATE_COMPLETED");
}

#[test]
fn a_limit_that_no_answer_could_keep_is_refused_at_the_start() {
    let home = ServerDirectory::new("[[agent]]\nname = \"e\"\nkind = \"echo\"\n[limits]\nanswers_bytes_max = 1000\n");
    let said = home.expect_start_refused(home.command());
    assert!(said.contains("answers_bytes_max"), "{said}");
}
