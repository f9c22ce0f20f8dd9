//! Cards in every form: who gets which, that each is a document of its own, and that what they list answers.

use crate::dialects::dialect_client::DialectClient::{Rest03, V03};
use crate::dialects::dialect_client::outgoing;
use crate::dialects::{OFFICE_CONFIG, office_server};
use crate::http_client::{HttpResponse, Request};
use crate::rpc_client::envelope;
use crate::test_server::TestServer;
use serde_json::{Value, json};

const CARD: &str = "/.well-known/agent-card.json";
const OLDER: &str = "/.well-known/agent.json";

/// The members that only 0.3 has.
const OF_03: [&str; 4] = ["url", "preferredTransport", "additionalInterfaces", "protocolVersion"];

fn card(sabir: &TestServer, path: &str, version: &str) -> HttpResponse {
    let request = Request::get(path);
    let request =
        if version.is_empty() { request.without("A2A-Version") } else { request.with("A2A-Version", version) };
    let reply = sabir.ask(&request);
    assert_eq!((reply.status, reply.header("Content-Type")), (200, Some("application/json")), "{}", reply.text());
    reply
}

fn is_pure(card: &Value) -> bool {
    OF_03.iter().all(|m| card.get(m).is_none()) && card["supportedInterfaces"].is_array()
}

fn is_hybrid(card: &Value) -> bool {
    OF_03.iter().all(|m| card.get(m).is_some()) && card["supportedInterfaces"].is_array()
}

#[test]
fn who_says_10_gets_a_pure_card_and_everybody_else_a_hybrid() {
    let sabir = office_server();
    for agent in ["", "/agents/desk", "/agents/demo"] {
        let path = format!("{agent}{CARD}");
        for version in ["1.0", "1.0.1", "1.7"] {
            let shown = card(&sabir, &path, version).json();
            assert!(is_pure(&shown), "{version}: {shown}");
        }
        for version in ["", "0.3", "0.3.0", "0.2", "0.1", "nonsense", "2.0", "1"] {
            let shown = card(&sabir, &path, version).json();
            assert!(is_hybrid(&shown), "{version}: {shown}");
            assert_eq!(shown["protocolVersion"], "0.3.0", "{version}");
        }
    }
    let query = sabir.ask(&Request::get(&format!("{CARD}?A2A-Version=1.0")).without("A2A-Version")).json();
    assert!(is_pure(&query), "{query}");
}

#[test]
fn strict_readers_may_have_pure_cards_without_asking() {
    let sabir = TestServer::start(&format!("[server]\ncard = \"1.0\"\n{OFFICE_CONFIG}"));
    assert!(is_pure(&card(&sabir, CARD, "").json()));
    assert!(is_pure(&card(&sabir, CARD, "1.0").json()));
    assert!(is_hybrid(&card(&sabir, CARD, "0.3").json()), "who names 0.3 gets it");
    assert!(is_pure(&card(&sabir, "/agents/desk/.well-known/agent-card.json", "").json()));
    assert_eq!(card(&sabir, OLDER, "").json()["protocolVersion"], "0.3.0");
}

#[test]
fn the_older_card_has_the_members_of_03_alone() {
    let sabir = office_server();
    for version in ["", "0.3", "1.0", "nonsense"] {
        for agent in ["", "/agents/desk"] {
            let shown = card(&sabir, &format!("{agent}{OLDER}"), version).json();
            assert!(OF_03.iter().all(|m| shown.get(m).is_some()), "{shown}");
            assert!(shown.get("supportedInterfaces").is_none(), "{shown}");
            assert!(shown.as_object().unwrap().keys().all(|k| !k.starts_with("xpr:")), "{shown}");
            assert_eq!(shown["capabilities"]["pushNotifications"], json!(!agent.is_empty()), "{shown}");
            assert!(shown["capabilities"].get("extendedAgentCard").is_none());
            assert!(!shown["url"].as_str().unwrap().ends_with('/'), "{shown}");
            // Clients of 0.1 look here too and say nothing of it, so those who say nothing get its members as well.
            let history = shown["capabilities"].get("stateTransitionHistory");
            assert_eq!(history, version.is_empty().then_some(&json!(false)), "{version}: {shown}");
        }
    }
}

#[test]
fn an_xpr_account_is_shown_on_the_older_card() {
    let account = "[agent.xpr]\naccount = \"myagent\"\nprotocol = \"https\"\nowner = \"carol\"\nregistered_at = 1704067200\n\
                   trust_score = 76\nkyc_level = 2\n";
    let sabir = TestServer::start(&format!(
        "[[agent]]\nname = \"demo\"\nkind = \"echo\"\ndefault = true\n{account}[[agent]]\nname = \"other\"\nkind = \"echo\"\n"
    ));
    let shown = card(&sabir, OLDER, "").json();
    let own: Vec<(&String, &Value)> =
        shown.as_object().unwrap().iter().filter(|(k, _)| k.starts_with("xpr:")).collect();
    assert!(!own.is_empty(), "{shown}");
    assert_eq!((&shown["xpr:account"], &shown["xpr:trustScore"]), (&json!("myagent"), &json!(76)), "{shown}");
    for path in [format!("/agents/other{OLDER}"), CARD.to_owned()] {
        assert!(!card(&sabir, &path, "").text().contains("xpr:"), "{path}");
    }
}

#[test]
fn each_form_has_its_own_validator() {
    let sabir = office_server();
    for agent in ["", "/agents/desk"] {
        let newest = format!("{agent}{CARD}");
        let forms = [(newest.clone(), "1.0"), (newest, "0.3"), (format!("{agent}{OLDER}"), "")];
        let tags: Vec<String> =
            forms.iter().map(|(path, v)| card(&sabir, path, v).header("ETag").unwrap().to_owned()).collect();
        for (n, (path, version)) in forms.iter().enumerate() {
            let asked = Request::get(path);
            let asked =
                if version.is_empty() { asked.without("A2A-Version") } else { asked.with("A2A-Version", *version) };
            for (m, tag) in tags.iter().enumerate() {
                let reply = sabir.ask(&asked.clone().with("If-None-Match", tag.as_str()));
                assert_eq!(reply.status, if n == m { 304 } else { 200 }, "{path} {version} {tag}");
                // The older path looks at more headers.
                let named = reply.header("Vary").unwrap_or_default().split(", ").next().unwrap_or_default();
                assert!(named.eq_ignore_ascii_case("a2a-version"), "also on a 304");
                assert_eq!(reply.header("ETag"), Some(&*tags[n]));
            }
        }
    }
}

/// The path of an address on this server.
fn path_of(sabir: &TestServer, url: &str) -> String {
    let path = url.strip_prefix(&format!("http://{}", sabir.address)).unwrap_or_else(|| panic!("not ours: {url}"));
    // As every client of HTTP asks for an address without a path.
    if path.is_empty() { "/".to_owned() } else { path.to_owned() }
}

#[test]
fn every_interface_on_a_card_answers_in_its_version() {
    let sabir = office_server();
    for agent in ["", "/agents/desk", "/agents/other"] {
        let shown = card(&sabir, &format!("{agent}{CARD}"), "").json();
        let mut called = 0;
        for interface in shown["supportedInterfaces"].as_array().unwrap() {
            let (binding, version) = (&interface["protocolBinding"], &interface["protocolVersion"]);
            if binding == "GRPC" {
                continue;
            }
            let path = path_of(&sabir, interface["url"].as_str().unwrap());
            let below = path.trim_end_matches('/');
            let newest = json!({"message": {"messageId": "m", "role": "ROLE_USER", "parts": [{"text": "words"}]}});
            let older = json!({"message": V03.message(&outgoing("words"))});
            let (request, state) = match (binding.as_str().unwrap(), version.as_str().unwrap()) {
                ("JSONRPC", "1.0") => {
                    (Request::post(&path, envelope("SendMessage", &newest)), "/result/task/status/state")
                }
                ("JSONRPC", "0.3") => {
                    let request = Request::post(&path, envelope("message/send", &older));
                    (request.with("A2A-Version", "0.3"), "/result/status/state")
                }
                ("HTTP+JSON", "1.0") => {
                    (Request::post(&format!("{below}/message:send"), newest.to_string()), "/task/status/state")
                }
                ("HTTP+JSON", "0.3") => {
                    let body = json!({"message": Rest03.message(&outgoing("words"))});
                    let request = Request::post(&format!("{below}/v1/message:send"), body.to_string());
                    (request.with("A2A-Version", "0.3"), "/task/status/state")
                }
                other => panic!("listed but unknown: {other:?}"),
            };
            let reply = sabir.ask(&request).json();
            let told = reply.pointer(state).and_then(Value::as_str).unwrap_or_else(|| panic!("{interface}: {reply}"));
            assert!(told.eq_ignore_ascii_case("completed") || told == "TASK_STATE_COMPLETED", "{interface}: {reply}");
            called += 1;
        }
        assert_eq!(called, 4, "{shown}");
    }
}

#[test]
fn the_older_members_point_where_03_is_spoken() {
    let sabir = office_server();
    for agent in ["", "/agents/desk"] {
        for path in [CARD, OLDER] {
            let shown = card(&sabir, &format!("{agent}{path}"), "").json();
            let url = shown["url"].as_str().unwrap();
            assert!(!url.trim_end_matches('/').ends_with("/a2a"), "agent-native would take it for its own: {url}");
            assert_eq!(shown["preferredTransport"], "JSONRPC");
            let body = envelope("message/send", &json!({"message": V03.message(&outgoing("words"))}));
            let reply = sabir.ask(&Request::post(&path_of(&sabir, url), body).without("A2A-Version")).json();
            assert_eq!(reply["result"]["kind"], "task", "{reply}");
            for other in shown["additionalInterfaces"].as_array().unwrap() {
                assert!(["JSONRPC", "HTTP+JSON", "GRPC"].contains(&other["transport"].as_str().unwrap()), "{other}");
            }
        }
    }
}

#[test]
fn only_the_default_agent_offers_the_grpc_of_03() {
    let sabir = office_server();
    let offered = |agent: &str| -> Vec<String> {
        let shown = card(&sabir, &format!("{agent}{CARD}"), "").json();
        let all = shown["supportedInterfaces"].as_array().unwrap();
        let grpc = all.iter().filter(|i| i["protocolBinding"] == "GRPC");
        grpc.map(|i| format!("{}{}", i["protocolVersion"].as_str().unwrap(), i["tenant"].as_str().unwrap_or("")))
            .collect()
    };
    assert_eq!(offered(""), ["1.0", "0.3"]);
    assert_eq!(offered("/agents/demo"), ["1.0", "0.3"]);
    assert_eq!(offered("/agents/desk"), ["1.0desk"]);
    let older = card(&sabir, &format!("/agents/desk{OLDER}"), "").json();
    assert!(older["additionalInterfaces"].as_array().unwrap().iter().all(|i| i["transport"] != "GRPC"), "{older}");
    let newest = card(&sabir, CARD, "").json();
    let first_old =
        newest["supportedInterfaces"].as_array().unwrap().iter().position(|i| i["protocolVersion"] == "0.3");
    assert_eq!(first_old, Some(3), "1.0 comes first: {newest}");
}

#[test]
fn there_is_no_card_of_nobody() {
    let sabir = office_server();
    for path in [CARD, OLDER] {
        assert_eq!(sabir.ask(&Request::get(&format!("/agents/nobody{path}"))).status, 404);
    }
    let sabir =
        TestServer::start("[[agent]]\nname = \"a\"\nkind = \"echo\"\n[[agent]]\nname = \"b\"\nkind = \"echo\"\n");
    for path in [CARD, OLDER] {
        assert_eq!(sabir.ask(&Request::get(path)).status, 404, "no default, no card at the root");
        assert_eq!(card(&sabir, &format!("/agents/b{path}"), "").json()["name"], "b");
    }
}
