//! What a server refuses to start with, and how it says so.

use crate::http_client::Request;
use crate::rpc_client::{envelope, send_params};
use crate::test_server::{AGENTS, ServerDirectory, TestServer, shared_server};
use serde_json::{Value, json};
use std::net::{Ipv6Addr, TcpListener};

/// An agent that asks back, so that its tasks stay open.
const ASK: &str =
    "[[agent]]\nname = \"demo\"\nkind = \"script\"\ndefault = true\n[[agent.rule]]\ndo = [{ ask_input = \"more?\" }]\n";
const ECHO: &str = "[[agent]]\nname = \"demo\"\nkind = \"echo\"\ndefault = true\n";

/// A configuration that is refused, with what must be said about it.
#[track_caller]
fn check(config: &str, words: &[&str]) {
    let home = ServerDirectory::new(config);
    let said = home.expect_start_refused(home.command());
    for word in words {
        assert!(said.contains(word), "{word:?} is not in: {said}");
    }
}

#[test]
fn a_listener_that_asks_nobody_for_credentials_stays_on_this_machine() {
    let home = ServerDirectory::new(ECHO);
    for address in ["0.0.0.0:0", "[::]:0", "192.0.2.1:0", "[::ffff:192.0.2.1]:0"] {
        let said = home.expect_start_refused(home.command_at(address));
        assert!(said.contains(&address[..address.len() - 2]), "the address is named: {said}");
        assert!(said.contains("open = true") && said.contains("[auth]"), "the way out is named: {said}");
    }
    for server in ["public_url = \"https://agents.example.com\"", "proxies = [\"127.0.0.1\"]"] {
        let behind_a_proxy = ServerDirectory::new(&format!("[server]\n{server}\n{ECHO}"));
        let said = behind_a_proxy.expect_start_refused(behind_a_proxy.command());
        assert!(said.contains(server.split(' ').next().unwrap()), "what makes it reachable is named: {said}");
        assert!(said.contains("open = true") && said.contains("[auth]"), "the way out is named: {said}");
        assert!(!behind_a_proxy.data().exists());
    }
    assert!(!home.data().exists());
}

#[test]
fn callers_without_a_credential_on_a_reachable_server_find_a_task_by_its_id_and_list_nothing() {
    let home = ServerDirectory::new(&format!("[server]\nproxies = [\"127.0.0.1\"]\n[auth]\nopen = true\n{ASK}"));
    let sabir = TestServer::start_at(&home);
    let call = |address: &str, method: &str, params: &Value| {
        let request = Request::post("/", envelope(method, params)).with("X-Forwarded-For", address);
        sabir.ask(&request)
    };
    let (a, b) = ("198.51.100.1", "203.0.113.2");
    let sent = call(a, "SendMessage", &send_params("a secret of A")).json();
    let id = sent["result"]["task"]["id"].as_str().unwrap().to_owned();
    for address in [a, b] {
        let listed = call(address, "ListTasks", &json!({"includeArtifacts": true}));
        assert!(listed.json()["error"]["message"].as_str().unwrap().contains("lists no tasks"), "{}", listed.text());
        let listed = sabir.ask(&Request::get("/tasks").with("X-Forwarded-For", address));
        assert!(listed.status == 403 && !listed.text().contains("secret of A"), "{}", listed.text());
    }
    // A caller with the id works with the task: that is how a caller without a name gets back to its own.
    assert_eq!(call(a, "GetTask", &json!({"id": id})).json()["result"]["id"], id.as_str());
    let canceled = call(a, "CancelTask", &json!({"id": id})).json();
    assert_eq!(canceled["result"]["status"]["state"], "TASK_STATE_CANCELED", "{canceled}");
    drop(sabir);
    // The one person at this machine lists all there is, as before.
    let alone = TestServer::start(ASK);
    alone.send("/", &send_params("x"));
    let listed = alone.ask(&Request::post("/", envelope("ListTasks", &json!({})))).json();
    assert_eq!(listed["result"]["tasks"].as_array().unwrap().len(), 1, "{listed}");
}

#[test]
fn who_says_so_listens_beyond_this_machine() {
    let home = ServerDirectory::new(&format!("[auth]\nopen = true\n{ECHO}"));
    let mut sabir = TestServer::run(&home, home.command_at("0.0.0.0:0"));
    sabir.address = ([127, 0, 0, 1], sabir.address.port()).into();
    sabir.still_serves();
    // Open to every caller is not open to every web page.
    let request = Request::post("/", crate::rpc_client::envelope("SendMessage", &send_params("x")));
    assert_eq!(sabir.ask(&request.clone().with("Origin", "https://evil.example")).status, 403);
    assert_eq!(sabir.ask(&request.with("Content-Type", "text/plain")).status, 415);
}

#[test]
fn other_loopback_addresses_are_fine() {
    let home = ServerDirectory::new(ECHO);
    TestServer::run(&home, home.command_at("127.0.0.2:0")).still_serves();
    if TcpListener::bind((Ipv6Addr::LOCALHOST, 0)).is_ok() {
        let home = ServerDirectory::new(ECHO);
        TestServer::run(&home, home.command_at("[::1]:0")).still_serves();
    }
}

#[test]
fn an_address_that_is_taken_is_named() {
    let sabir = shared_server();
    let home = ServerDirectory::new(ECHO);
    let said = home.expect_start_refused(home.command_at(&sabir.address.to_string()));
    assert!(said.contains(&sabir.address.to_string()), "{said}");
    sabir.still_serves();
}

#[test]
fn a_mistake_in_the_configuration_is_shown_where_it_stands() {
    check("[limits]\nbody_byte_max = 1", &["sabir.toml", "body_byte_max", "line 2"]);
    check("[limitz]\n", &["limitz"]);
    check("[limits]\nparts_max = -1", &["parts_max"]);
    check("[limits]\nparts_max = \"many\"", &["parts_max"]);
    check("[store]\ndurability = \"some\"", &["durability"]);
    check("not toml", &["sabir.toml", "line 1"]);
    check(&format!("{ECHO}[[agent]]\nname = \"demo\"\nkind = \"echo\""), &["demo", "two agents"]);
    check(&format!("{ECHO}[[agent]]\nname = \"other\"\nkind = \"echo\"\ndefault = true"), &["other", "default"]);
    check("[[agent]]\nname = \"x\"\nkind = \"oracle\"", &["oracle"]);
    check("[[agent]]\nname = \"x\"\nkind = \"script\"", &["\"x\"", "rule"]);
    check("[[agent]]\nname = \"x\"\nkind = \"echo\"\n[[agent.rule]]\ndo = []", &["\"x\"", "rule"]);
    check(
        "[[agent]]\nname = \"x\"\nkind = \"script\"\n[[agent.rule]]\nwhen = { text_matches = \"(\" }\ndo = []",
        &["\"x\"", "rule 1"],
    );
    check(
        "[[agent]]\nname = \"x\"\nkind = \"script\"\n[[agent.rule]]\ndo = [{ complete = \"\" }, { status = \"late\" }]",
        &["rule 1", "step 2"],
    );
}

#[test]
fn names_that_mean_something_else_cannot_be_agents() {
    for name in [
        "agents",
        "v1",
        "a2a",
        "api",
        "console",
        "metrics",
        "tasks",
        "extendedAgentCard",
        "healthz",
        "readyz",
        "message:send",
        ".well-known",
        "",
        "a b",
        "a/b",
    ] {
        check(&format!("[[agent]]\nname = \"{name}\"\nkind = \"echo\""), &[&format!("{name:?}")]);
    }
}

#[test]
fn a_file_that_is_not_there_is_named() {
    let home = ServerDirectory::new("");
    std::fs::remove_file(home.path("sabir.toml")).unwrap();
    let said = home.expect_start_refused(home.command());
    assert!(said.contains("sabir.toml"), "{said}");
}

#[test]
fn variables_override_the_file_and_are_named_when_wrong() {
    let home = ServerDirectory::new(ECHO);
    let mut command = home.command();
    command.env("SABIR_LIMITS__PARTS_MAX", "1");
    let sabir = TestServer::run(&home, command);
    let mut params = send_params("x");
    params["message"]["parts"] = serde_json::json!([{"text": "a"}, {"text": "b"}]);
    assert_eq!(sabir.rpc_error("/", "SendMessage", &params).fields, ["message.parts"]);
    let home = sabir.stop();
    let mut command = home.command();
    command.env("SABIR_LIMITS__PARTS_MIN", "1");
    assert!(home.expect_start_refused(command).contains("SABIR_LIMITS__PARTS_MIN"));
}

#[test]
fn without_a_configuration_there_are_agents_to_play_with() {
    let home = ServerDirectory::new("");
    let sabir = TestServer::start_at(&home);
    let task = sabir.send("/", &send_params("hello"));
    assert_eq!(task["artifacts"][0]["parts"][0]["text"], "hello");
    for name in ["echo", "stream", "ask"] {
        assert_eq!(sabir.ask(&Request::get(&format!("/agents/{name}/.well-known/agent-card.json"))).status, 200);
    }
    assert!(AGENTS.contains("demo"));
}
