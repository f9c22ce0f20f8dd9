//! The agent card: what it says works, and a client that has it already is not sent it again.

use crate::http_client::{HttpResponse, Request};
use crate::rpc_client::{envelope, send_params, state};
use crate::test_server::{AGENTS, ServerDirectory, TestServer, shared_server};
use serde_json::{Value, json};

const CARD: &str = "/.well-known/agent-card.json";

fn card(sabir: &TestServer, path: &str) -> HttpResponse {
    sabir.ask(&Request::get(&format!("{path}{CARD}")))
}

#[test]
fn a_card_says_who_the_agent_is() {
    let sabir = shared_server();
    for (path, name) in [("", "demo"), ("/agents/demo", "demo"), ("/agents/desk", "desk"), ("/agents/strict", "strict")]
    {
        let reply = card(&sabir, path);
        assert_eq!((reply.status, reply.header("Content-Type")), (200, Some("application/json")));
        let card = reply.json();
        assert_eq!(card["name"], name);
        for member in ["description", "version"] {
            assert!(card[member].as_str().is_some_and(|t| !t.is_empty()), "{member}: {card}");
        }
        // Required arrays have at least one element (A2A 1.0 §4.1).
        for member in ["supportedInterfaces", "defaultInputModes", "defaultOutputModes", "skills"] {
            assert!(card[member].as_array().is_some_and(|a| !a.is_empty()), "{member}: {card}");
        }
        let bindings: Vec<&str> = card["supportedInterfaces"]
            .as_array()
            .unwrap()
            .iter()
            .map(|i| i["protocolBinding"].as_str().unwrap())
            .collect();
        assert_eq!(bindings[..5], ["JSONRPC", "HTTP+JSON", "GRPC", "JSONRPC", "HTTP+JSON"]);
        let versions = card["supportedInterfaces"].as_array().unwrap().iter().map(|i| i["protocolVersion"].as_str());
        assert_eq!(versions.take(4).collect::<Vec<_>>(), [Some("1.0"), Some("1.0"), Some("1.0"), Some("0.3")]);
    }
    let capabilities = |path: &str| card(&sabir, path).json()["capabilities"].take();
    assert_eq!(
        (&capabilities("/agents/mute")["streaming"], &capabilities("/agents/mail")["pushNotifications"]),
        (&json!(false), &json!(true))
    );
    assert_eq!(
        capabilities("/agents/strict")["extensions"][0],
        json!({"uri": "urn:example:needed:v1", "required": true})
    );
    sabir.still_serves();
}

#[test]
fn the_addresses_on_a_card_work() {
    let sabir = shared_server();
    for (path, text, expected) in [("", "x", "TASK_STATE_COMPLETED"), ("/agents/desk", "quick", "TASK_STATE_COMPLETED")]
    {
        let card = card(&sabir, path).json();
        let target = |binding: &str| {
            let interfaces = card["supportedInterfaces"].as_array().unwrap();
            let url = interfaces.iter().find(|i| i["protocolBinding"] == binding).unwrap()["url"].as_str().unwrap();
            url.strip_prefix(&format!("http://{}", sabir.address))
                .unwrap_or_else(|| panic!("not ours: {url}"))
                .to_owned()
        };
        assert_eq!(state(&sabir.send(&target("JSONRPC"), &send_params(text))), expected);
        let rest = target("HTTP+JSON");
        let reply = sabir.ask(&Request::post(
            &format!("{}/message:send", rest.trim_end_matches('/')),
            send_params(text).to_string(),
        ));
        assert_eq!(state(&reply.json()["task"]), expected);
    }
}

#[test]
fn the_public_url_is_what_cards_say() {
    let home = ServerDirectory::new(
        "[server]\npublic_url = \"https://agents.example.com/\"\n[auth]\nopen = true\n[[agent]]\nname = \"demo\"\nkind = \"echo\"\ndefault = true\n[[agent]]\nname = \"other\"\nkind = \"echo\"",
    );
    let sabir = TestServer::start_at(&home);
    let urls = |path: &str| -> Vec<Value> {
        let card = sabir.ask(&Request::get(&format!("{path}{CARD}"))).json();
        card["supportedInterfaces"].as_array().unwrap().iter().take(3).map(|i| i["url"].clone()).collect()
    };
    assert_eq!(urls(""), ["https://agents.example.com/", "https://agents.example.com/", "agents.example.com:443"]);
    assert_eq!(
        urls("/agents/other"),
        [
            "https://agents.example.com/agents/other",
            "https://agents.example.com/agents/other",
            "agents.example.com:443"
        ]
    );
}

#[test]
fn a_client_that_has_the_card_is_not_sent_it_again() {
    let sabir = shared_server();
    let first = card(&sabir, "");
    let etag = first.header("ETag").expect("a card has a validator").to_owned();
    assert!(etag.starts_with('"') || etag.starts_with("W/\""), "{etag}");
    assert!(first.header("Cache-Control").is_some_and(|c| c.contains("max-age=")));
    assert!(first.header("Vary").is_some_and(|v| v.eq_ignore_ascii_case("A2A-Version")));
    let ask = |tags: &str| sabir.ask(&Request::get(CARD).with("If-None-Match", tags));
    for known in
        [etag.clone(), format!("W/{etag}"), format!("\"other\", {etag}"), format!("\"a\",{etag},\"b\""), "*".into()]
    {
        let reply = ask(&known);
        assert_eq!((reply.status, reply.body.len()), (304, 0), "{known}");
        // What a cache needs for freshening what it has (RFC 9110 §15.4.5).
        for name in ["ETag", "Cache-Control", "Last-Modified", "Vary"] {
            assert_eq!(reply.header(name), first.header(name), "{name}");
        }
    }
    for unknown in ["\"other\"", "", "nonsense", &etag.replace('"', ""), "W/\"other\"", "\"\""] {
        let reply = ask(unknown);
        assert_eq!((reply.status, reply.body == first.body), (200, true), "{unknown}");
    }
}

#[test]
fn a_client_that_only_has_a_date_is_served_by_it() {
    let sabir = shared_server();
    let modified = card(&sabir, "").header("Last-Modified").expect("a card has a date").to_owned();
    let ask = |date: &str| sabir.ask(&Request::get(CARD).with("If-Modified-Since", date)).status;
    assert_eq!(ask(&modified), 304, "the very date that was given: {modified}");
    assert_eq!(ask("Fri, 31 Dec 2100 23:59:59 GMT"), 304);
    assert_eq!(ask("Thu, 01 Jan 1970 00:00:00 GMT"), 200);
    assert_eq!(ask("yesterday"), 200);
    // The validator decides where there is one.
    let both = Request::get(CARD).with("If-Modified-Since", modified).with("If-None-Match", "\"other\"");
    assert_eq!(sabir.ask(&both).status, 200);
}

#[test]
fn a_validator_belongs_to_one_card_and_outlives_the_process() {
    let home = ServerDirectory::new(
        "[server]\npublic_url = \"http://localhost:4000\"\n[auth]\nopen = true\n[[agent]]\nname = \"a\"\nkind = \"echo\"\ndefault = true\n[[agent]]\nname = \"b\"\nkind = \"echo\"",
    );
    let tag = |sabir: &TestServer, path: &str| {
        sabir.ask(&Request::get(&format!("{path}{CARD}"))).header("ETag").unwrap().to_owned()
    };
    let sabir = TestServer::start_at(&home);
    let (a, b) = (tag(&sabir, ""), tag(&sabir, "/agents/b"));
    assert_ne!(a, b);
    let sabir = TestServer::start_at(&sabir.stop());
    assert_eq!((tag(&sabir, ""), tag(&sabir, "/agents/b")), (a, b));
}

#[test]
fn a_head_is_a_get_without_the_body() {
    let sabir = shared_server();
    let (get, head) = (sabir.ask(&Request::get(CARD)), sabir.ask(&Request::new("HEAD", CARD)));
    assert_eq!((head.status, head.body.len()), (200, 0));
    for name in ["ETag", "Last-Modified", "Content-Type", "Content-Length", "Cache-Control"] {
        assert_eq!(head.header(name), get.header(name), "{name}");
    }
}

#[test]
fn a_card_is_for_everybody_who_may_be_here() {
    // A client that looks for a card does not know the version yet.
    let sabir = TestServer::start(AGENTS);
    for version in ["1.0", "0.3", "7.0"] {
        assert_eq!(sabir.ask(&Request::get(CARD).with("A2A-Version", version)).status, 200);
    }
    let reply = sabir.ask(&Request::post(CARD, envelope("ListTasks", &json!({}))));
    assert!((400..500).contains(&reply.status), "{}", reply.status);
}
