//! `sabir mcp`: where a model may call, and what it is told of agents of XPR Network.

use crate::command_runner::CommandDirectory;
use crate::stub_agent::{self, StubRequest, StubResponse};
use serde_json::{Value, json};
use std::io::{BufRead, BufReader, Write};
use std::process::Stdio;

/// Calls a tool of `sabir mcp`, started with these words, and gives its result.
#[track_caller]
fn tool(words: &[&str], name: &str, arguments: &Value) -> Value {
    let call =
        |id: u32, method: &str, params: Value| json!({"jsonrpc": "2.0", "id": id, "method": method, "params": params});
    let hello =
        json!({"protocolVersion": "2025-06-18", "capabilities": {}, "clientInfo": {"name": "t", "version": "1"}});
    let lines = [
        call(1, "initialize", hello),
        json!({"jsonrpc": "2.0", "method": "notifications/initialized"}),
        call(2, "tools/call", json!({"name": name, "arguments": arguments})),
    ];
    let desk = CommandDirectory::new();
    let mut child = desk.command(&[&["mcp"], words].concat()).stdin(Stdio::piped()).spawn().unwrap();
    let mut stdin = child.stdin.take().unwrap();
    lines.iter().for_each(|line| writeln!(stdin, "{line}").unwrap());
    let answers = BufReader::new(child.stdout.take().unwrap()).lines().map_while(Result::ok);
    let answer = answers.filter_map(|line| serde_json::from_str::<Value>(&line).ok()).find(|one| one["id"] == 2);
    drop(stdin);
    assert!(child.wait().unwrap().success());
    answer.expect("an answer")["result"].clone()
}

/// An agent that answers, and its address.
fn agent() -> String {
    let listener = std::net::TcpListener::bind("127.0.0.1:0").unwrap();
    let url = format!("http://{}", listener.local_addr().unwrap());
    let card = stub_agent::card(&url);
    stub_agent::serve_at(listener, move |asked: &StubRequest| -> StubResponse {
        if asked.path.contains("/.well-known/") {
            return (200, "application/json", card.clone());
        }
        let said = json!({"role": "ROLE_AGENT", "messageId": "m-1", "parts": [{"text": "here"}]});
        let answer = json!({"jsonrpc": "2.0", "id": asked.json()["id"], "result": {"message": said}});
        (200, "application/json", answer.to_string())
    })
}

#[test]
fn a_model_calls_the_port_of_the_agent_and_no_other_of_its_address() {
    let (ours, other) = (agent(), agent());
    let send = |words: &[&str], to: &str| tool(words, "a2a_send_message", &json!({"agent": to, "text": "hi"}));
    let allowed = send(&["-a", &ours], &ours);
    assert_eq!(allowed["structuredContent"]["text"], "here", "{allowed}");
    let name = |url: &str| url.replace("127.0.0.1", "localhost");
    for (named, called) in [(ours.clone(), other.clone()), (name(&ours), name(&other))] {
        let refused = send(&["-a", &named], &called);
        assert_eq!(refused["isError"], true, "{refused}");
        assert!(refused.to_string().contains("loopback address"), "{refused}");
    }
    let allowed = tool(&["-a", &name(&ours)], "a2a_discover", &json!({}));
    assert_eq!(allowed["structuredContent"]["name"], "Stub", "{allowed}");
    let opened = send(&["-a", &ours, "--allow", "127.0.0.1"], &other);
    assert_eq!(opened["structuredContent"]["text"], "here", "{opened}");
}

#[test]
fn an_account_is_shown_with_what_the_chain_says_of_it() {
    let agent = agent();
    let endpoint = agent.clone();
    let chain = stub_agent::serve(move |asked: &StubRequest| -> StubResponse {
        let rows = match asked.json()["table"].as_str().unwrap_or_default() {
            "agents" => json!([{"account": "alice", "owner": "carol", "name": "Alice", "description": "d",
                "endpoint": endpoint, "protocol": "https", "capabilities": [], "active": true,
                "total_jobs": 0, "registered_at": 1_700_000_000}]),
            "usersinfo" => json!([{"acc": "carol", "kyc": [{"kyc_level": "a:1,b:2", "kyc_provider": "x"}]}]),
            _ => json!([]),
        };
        (200, "application/json", json!({"rows": rows, "more": false}).to_string())
    });
    let found = tool(&["--allow", "127.0.0.1", "--xpr-rpc", &chain], "xpr_a2a_discover", &json!({"account": "alice"}));
    let known = &found["structuredContent"]["xpr"];
    assert_eq!(
        (&known["account"], &known["owner"], &known["registeredAt"], &known["kycLevel"], &known["source"]),
        (&json!("alice"), &json!("carol"), &json!(1_700_000_000), &json!(2), &json!("chain")),
        "{found}"
    );
    assert!(known["trustScore"].as_i64().is_some_and(|score| score >= 20), "{found}");
}
