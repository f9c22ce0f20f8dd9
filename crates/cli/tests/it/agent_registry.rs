//! Agents that are added while a server runs, and what becomes of their cards.

use crate::command_runner::{CommandDirectory, CommandOutput};
use crate::http_client::Request;
use crate::rpc_client::{message, send_params, state};
use crate::stub_agent::{self, StubRequest};
use crate::test_server::{ServerDirectory, TestServer, eventually};
use crate::upstream::{STREAMS, Upstream};
use serde_json::{Value, json};
use std::path::Path;
use std::sync::{Arc, Mutex};

const ECHO: &str = "[[agent]]\nname = \"demo\"\nkind = \"echo\"\ndefault = true\n";

/// A remote agent whose card can be changed, and which can stop answering.
struct RemoteAgent {
    url: String,
    card: Arc<Mutex<Option<Value>>>,
    keys: Arc<Mutex<Value>>,
}

impl RemoteAgent {
    fn start() -> Self {
        let card: Arc<Mutex<Option<Value>>> = Arc::default();
        let keys: Arc<Mutex<Value>> = Arc::default();
        let (shown, published) = (card.clone(), keys.clone());
        let url = stub_agent::serve(move |asked: &StubRequest| {
            let Some(card) = shown.lock().unwrap().clone() else { return (503, "text/plain", "asleep".into()) };
            if asked.path == "/.well-known/agent-card.json" {
                return (200, "application/json", card.to_string());
            }
            if asked.path == "/.well-known/jwks.json" {
                return (200, "application/json", published.lock().unwrap().to_string());
            }
            let call = asked.json();
            let answer = match call["method"].as_str() {
                Some("SendMessage") => {
                    let said = json!({"role": "ROLE_AGENT", "messageId": "m-1", "parts": [{"text": asked.path}]});
                    json!({"jsonrpc": "2.0", "id": call["id"], "result": {"message": said}})
                }
                _ => json!({"jsonrpc": "2.0", "id": call["id"], "error": {"code": -32001, "message": "no such task"}}),
            };
            (200, "application/json", answer.to_string())
        });
        let this = Self { url, card, keys };
        this.change(|_| ());
        this
    }

    /// Shows its usual card, changed.
    fn change(&self, change: impl FnOnce(&mut Value)) {
        let mut card: Value = serde_json::from_str(&stub_agent::card(&self.url)).unwrap();
        change(&mut card);
        *self.card.lock().unwrap() = Some(card);
    }

    fn stop_answering(&self) {
        *self.card.lock().unwrap() = None;
    }
}

/// Runs `sabir agent …` on the files of a server.
fn agent(desk: &CommandDirectory, home: &ServerDirectory, words: &[&str]) -> CommandOutput {
    let (config, data) = (home.path("sabir.toml"), home.data());
    let place = ["--config", path(&config), "--data", path(&data), "-o", "json"];
    desk.run(&[&["agent"], words, &place[..]].concat())
}

fn path(path: &Path) -> &str {
    path.to_str().unwrap()
}

#[track_caller]
fn refused(ran: &CommandOutput, code: &str, words: &str) {
    let said = format!("{}{}", ran.stdout, ran.stderr);
    assert!(ran.code != 0 && said.contains(code) && said.contains(words), "{ran:#?}");
}

/// What the agent of this name says to "hello".
fn hello_answer(sabir: &TestServer, name: &str) -> Option<String> {
    let reply = sabir.rpc(&format!("/agents/{name}"), "SendMessage", &send_params("hello"));
    let message = &reply["result"]["message"];
    let task = &reply["result"]["task"];
    let text = message["parts"][0]["text"].as_str().or(task["status"]["message"]["parts"][0]["text"].as_str());
    text.map(str::to_owned)
}

fn card(sabir: &TestServer, name: &str) -> Value {
    sabir.ask(&Request::get(&format!("/agents/{name}/.well-known/agent-card.json")).with("a2a-version", "1.0")).json()
}

fn is_served(sabir: &TestServer, name: &str) -> bool {
    sabir.ask(&Request::get(&format!("/agents/{name}/.well-known/agent-card.json"))).status == 200
}

#[test]
fn an_agent_that_is_added_at_run_time_does_not_open_a_server_that_others_can_reach() {
    let (desk, elsewhere) = (CommandDirectory::new(), RemoteAgent::start());
    let config =
        |open: &str| format!("[server]\nproxies = [\"127.0.0.1\"]\n{open}{ECHO}[agent.auth]\naccept = [\"api_key\"]\n");
    let sabir = TestServer::start(&config(""));
    refused(&agent(&desk, &sabir.home, &["add", &elsewhere.url]), "", "open = true");
    // One that was added while nothing but this machine reached the server is left out.
    let home = ServerDirectory::new(ECHO);
    agent(&desk, &home, &["add", &elsewhere.url]).expect_success();
    std::fs::write(home.path("sabir.toml"), config("")).unwrap();
    let sabir = TestServer::start_at(&home);
    eventually("the log says why", || {
        sabir.log_text().contains("no authentication is configured for the agent \"stub\"")
    });
    assert!(!is_served(&sabir, "stub"));
    std::fs::write(home.path("sabir.toml"), config("[auth]\nopen = true\n")).unwrap();
    let sabir = TestServer::start_at(&sabir.stop());
    eventually("the operator has said so", || is_served(&sabir, "stub"));
}

#[test]
fn an_agent_is_added_disabled_and_removed_while_the_server_runs() {
    let (desk, elsewhere, sabir) = (CommandDirectory::new(), RemoteAgent::start(), TestServer::start(ECHO));
    assert!(!is_served(&sabir, "stub"));
    let added = agent(&desk, &sabir.home, &["add", &elsewhere.url]);
    added.expect_success();
    let said = added.json();
    assert_eq!((&said["name"], &said["enabled"]), (&json!("stub"), &json!(true)), "{said}");
    assert_eq!(said["card"]["interface"]["binding"], "JSONRPC");
    assert_eq!(said["card"]["interface"]["version"], "1.0");
    assert_eq!(said["tried"][0]["problem"], Value::Null);
    eventually("the agent is served", || is_served(&sabir, "stub"));
    assert_eq!(hello_answer(&sabir, "stub").as_deref(), Some("/rpc"));
    let shown = card(&sabir, "stub");
    assert_eq!((&shown["name"], &shown["skills"][0]["id"]), (&json!("Stub"), &json!("s")));
    assert!(shown["supportedInterfaces"][0]["url"].as_str().unwrap().ends_with("/agents/stub"), "{shown}");
    let explain = || {
        let (config, data) = (sabir.home.path("sabir.toml"), sabir.home.data());
        let place = ["--config", path(&config), "--data", path(&data), "-o", "json"];
        desk.run(&[&["explain", "--as", "anonymous", "--agent", "stub"], &place[..]].concat())
    };
    assert_eq!(explain().json()["allowed"], true);
    agent(&desk, &sabir.home, &["disable", "stub"]).expect_success();
    eventually("it is not served", || !is_served(&sabir, "stub"));
    assert!(explain().code == 2 && explain().stdout.contains("there is no agent"), "{:?}", explain());
    agent(&desk, &sabir.home, &["enable", "stub"]).expect_success();
    eventually("it is served again", || is_served(&sabir, "stub"));
    // It is there after a restart, and before it was heard again.
    elsewhere.stop_answering();
    let home = sabir.kill();
    let sabir = TestServer::start_at(&home);
    assert_eq!(card(&sabir, "stub")["skills"][0]["id"], "s", "the stored card is shown");
    agent(&desk, &home, &["remove", "stub"]).expect_success();
    eventually("it is gone", || !is_served(&sabir, "stub"));
    refused(&agent(&desk, &home, &["show", "stub"]), "SABIR_ERR_UNKNOWN_AGENT", "stub");
    let audit = desk.run(&["audit", "tail", "--data", path(&home.data()), "-o", "json"]);
    for operation in ["agent.add", "agent.disable", "agent.enable", "agent.remove"] {
        assert!(audit.stdout.contains(operation), "{operation} is not in {}", audit.stdout);
    }
}

#[test]
fn agents_are_added_before_the_first_start_and_names_are_taken_once() {
    let (desk, elsewhere) = (CommandDirectory::new(), RemoteAgent::start());
    let home = ServerDirectory::new(ECHO);
    agent(&desk, &home, &["add", &elsewhere.url, "--name", "books"]).expect_success();
    refused(&agent(&desk, &home, &["add", &elsewhere.url, "--name", "books"]), "SABIR_ERR_NAME_TAKEN", "books");
    refused(&agent(&desk, &home, &["add", &elsewhere.url, "--name", "demo"]), "SABIR_ERR_NAME_TAKEN", "demo");
    refused(&agent(&desk, &home, &["add", &elsewhere.url, "--name", "a/b"]), "SABIR_ERR_NAME", "a/b");
    refused(&agent(&desk, &home, &["remove", "demo"]), "SABIR_ERR_NAME_TAKEN", "configuration");
    let listed = agent(&desk, &home, &["list"]).json();
    let names: Vec<&str> = listed["agents"].as_array().unwrap().iter().map(|a| a["name"].as_str().unwrap()).collect();
    assert_eq!(names, ["books", "demo"]);
    let sabir = TestServer::start_at(&home);
    assert_eq!(hello_answer(&sabir, "books").as_deref(), Some("/rpc"));
    let home = sabir.stop();
    // The same name in the file, since: both are named, and nothing is guessed.
    let file = format!("{ECHO}[[agent]]\nname = \"books\"\nkind = \"a2a\"\nurl = \"http://127.0.0.1:9\"\n");
    std::fs::write(home.path("sabir.toml"), file).unwrap();
    let said = home.expect_start_refused(home.command());
    for word in ["\"books\"", "http://127.0.0.1:9", &elsewhere.url, "sabir agent remove books"] {
        assert!(said.contains(word), "{word} is not in {said}");
    }
}

#[test]
fn a_card_that_leads_where_it_should_not_is_refused() {
    let (desk, elsewhere) = (CommandDirectory::new(), RemoteAgent::start());
    let home = ServerDirectory::new(&format!("[server]\nlisten = \"127.0.0.1:4999\"\n{ECHO}"));
    for (address, words) in [
        ("http://10.0.0.1/rpc", "private"),
        ("http://169.254.169.254/latest", "metadata"),
        ("http://0.0.0.0:8080/", "not routable"),
        ("http://127.0.0.1:4999/agents/demo", "this server itself"),
        ("http://localhost:4999/", "this server itself"),
        ("127.0.0.1:4999", "this server itself"),
    ] {
        elsewhere.change(|card| card["supportedInterfaces"][0]["url"] = address.into());
        refused(&agent(&desk, &home, &["add", &elsewhere.url]), "SABIR_ERR_UNFIT", words);
    }
    refused(&agent(&desk, &home, &["add", "http://127.0.0.1:4999/"]), "SABIR_ERR_UNFIT", "this server itself");
    // The card is served, but nothing answers at the address of its interface.
    elsewhere.change(|card| card["supportedInterfaces"][0]["url"] = "http://127.0.0.1:9/".into());
    refused(&agent(&desk, &home, &["add", &elsewhere.url]), "SABIR_ERR_UNFIT", "none of its interfaces answers");
    agent(&desk, &home, &["add", &elsewhere.url, "--untried"]).expect_success();
    refused(&agent(&desk, &home, &["add", "http://127.0.0.1:9"]), "SABIR_ERR_NO_CARD", "127.0.0.1");
    // What may be called is the operator's to say.
    let home = ServerDirectory::new(&format!("[egress]\nallow = [\"10.0.0.0/8\"]\n{ECHO}"));
    elsewhere.change(|card| card["supportedInterfaces"][0]["url"] = "http://10.0.0.1/rpc".into());
    agent(&desk, &home, &["add", &elsewhere.url, "--untried"]).expect_success();
}

#[test]
fn an_interface_that_does_not_answer_is_passed_over() {
    let (desk, elsewhere, sabir) = (CommandDirectory::new(), RemoteAgent::start(), TestServer::start(ECHO));
    elsewhere.change(|card| {
        let dead = json!({"url": "http://127.0.0.1:9/", "protocolBinding": "JSONRPC", "protocolVersion": "1.0"});
        card["supportedInterfaces"].as_array_mut().unwrap().insert(0, dead);
    });
    let said = agent(&desk, &sabir.home, &["add", &elsewhere.url]).json();
    assert_eq!(said["tried"].as_array().unwrap().len(), 2, "{said}");
    assert_eq!(said["card"]["interface"]["url"], format!("{}/rpc", elsewhere.url));
    eventually("the agent is served", || is_served(&sabir, "stub"));
    assert_eq!(hello_answer(&sabir, "stub").as_deref(), Some("/rpc"), "what was pinned is called");
}

#[test]
fn nor_is_it_called_for_an_agent_of_the_file() {
    let elsewhere = RemoteAgent::start();
    elsewhere.change(|card| {
        let dead = json!({"url": "http://127.0.0.1:9/", "protocolBinding": "JSONRPC", "protocolVersion": "1.0"});
        card["supportedInterfaces"].as_array_mut().unwrap().insert(0, dead);
    });
    let config = format!("{ECHO}[[agent]]\nname = \"far\"\nkind = \"a2a\"\nurl = \"{}\"\n", elsewhere.url);
    let (desk, sabir) = (CommandDirectory::new(), TestServer::start(&config));
    assert_eq!(hello_answer(&sabir, "far").as_deref(), Some("/rpc"));
    let shown = agent(&desk, &sabir.home, &["show", "far"]).json();
    assert_eq!(shown["card"]["interface"]["url"], format!("{}/rpc", elsewhere.url), "what answered is pinned");
}

#[test]
fn a_change_of_what_matters_is_held_until_it_is_approved() {
    let (desk, elsewhere, sabir) = (CommandDirectory::new(), RemoteAgent::start(), TestServer::start(ECHO));
    let home = sabir.home.clone();
    agent(&desk, &home, &["add", &elsewhere.url, "--on-drift", "hold"]).expect_success();
    eventually("the agent is served", || is_served(&sabir, "stub"));
    // Other words are used as they come.
    elsewhere.change(|card| card["description"] = "Other words".into());
    // The server looks for itself now and then, and may have been faster.
    let said = agent(&desk, &home, &["refresh", "stub"]).json()["card"].clone();
    assert!(said == "used" || said == "same", "{said}");
    eventually("the words are shown", || card(&sabir, "stub")["description"] == "Other words");
    // Another skill and another address are not.
    elsewhere.change(|card| {
        card["skills"][0]["id"] = "pay".into();
        card["supportedInterfaces"][0]["url"] = format!("{}/elsewhere", elsewhere.url).into();
    });
    let said = agent(&desk, &home, &["refresh", "stub"]).json();
    assert_eq!((&said["card"], &said["changes"]), (&json!("held"), &json!(["skills", "url", "words"])), "{said}");
    assert_eq!(agent(&desk, &home, &["refresh", "stub"]).json()["card"], "held");
    assert_eq!(card(&sabir, "stub")["skills"][0]["id"], "s");
    assert_eq!(hello_answer(&sabir, "stub").as_deref(), Some("/rpc"));
    // Not even a restart forgets what was held, or uses it.
    let home = sabir.stop();
    let sabir = TestServer::start_at(&home);
    assert_eq!(hello_answer(&sabir, "stub").as_deref(), Some("/rpc"));
    assert_eq!(agent(&desk, &home, &["show", "stub"]).json()["held"]["changes"][0], "skills");
    let approved = agent(&desk, &home, &["approve", "stub"]);
    approved.expect_success();
    eventually("the new card is shown", || card(&sabir, "stub")["skills"][0]["id"] == "pay");
    assert_eq!(hello_answer(&sabir, "stub").as_deref(), Some("/elsewhere"));
    refused(&agent(&desk, &home, &["approve", "stub"]), "SABIR_ERR_NOTHING_HELD", "stub");
    let history = agent(&desk, &home, &["history", "stub"]).json();
    let standings: Vec<&str> =
        history["cards"].as_array().unwrap().iter().map(|c| c["standing"].as_str().unwrap()).collect();
    assert_eq!(standings, ["past", "past", "used"]);
}

#[test]
fn the_card_we_show_can_be_looked_at_in_every_form() {
    let (desk, elsewhere) = (CommandDirectory::new(), RemoteAgent::start());
    let overlay = "[agent.card]\ndescription = \"Ours\"\n";
    let file = format!("{ECHO}[[agent]]\nname = \"far\"\nkind = \"a2a\"\nurl = \"{}\"\n{overlay}", elsewhere.url);
    let home = ServerDirectory::new(&file);
    assert_eq!(agent(&desk, &home, &["refresh", "far"]).json()["card"], "first");
    let v1 = agent(&desk, &home, &["card", "far"]).json();
    assert_eq!((&v1["name"], &v1["description"]), (&json!("Stub"), &json!("Ours")));
    assert_eq!(v1["skills"][0]["id"], "s");
    let v03 = agent(&desk, &home, &["card", "far", "--as", "0.3"]).json();
    assert!(v03["url"].as_str().unwrap().contains("/agents/far"), "{v03}");
    assert!(!v03["protocolVersion"].is_null() && v03["supportedInterfaces"].is_null(), "{v03}");
    for form in ["hybrid", "0.2", "0.1", "agent-native", "xpr"] {
        agent(&desk, &home, &["card", "far", "--as", form]).expect_success();
    }
    assert_ne!(agent(&desk, &home, &["card", "far", "--as", "9"]).code, 0);
    // The last known card is shown from the first moment on, although the agent does not answer.
    elsewhere.stop_answering();
    let sabir = TestServer::start_at(&home);
    let shown = card(&sabir, "far");
    assert_eq!((&shown["name"], &shown["description"]), (&json!("Stub"), &json!("Ours")));
}

#[test]
fn secrets_are_given_by_reference_and_kept_nowhere() {
    let (desk, elsewhere) = (CommandDirectory::new(), RemoteAgent::start());
    let home = ServerDirectory::new(ECHO);
    assert_ne!(agent(&desk, &home, &["add", &elsewhere.url, "--bearer", "hunter2"]).code, 0);
    let unset = agent(&desk, &home, &["add", &elsewhere.url, "--bearer", "env:SURELY_NOT_SET_HERE"]);
    refused(&unset, "SABIR_ERR_SETTINGS", "SURELY_NOT_SET_HERE");
    let secret = home.path("token");
    std::fs::write(&secret, "hunter2\n").unwrap();
    let reference = format!("file:{}", path(&secret));
    let said = agent(&desk, &home, &["add", &elsewhere.url, "--bearer", &reference]);
    said.expect_success();
    assert_eq!(said.json()["settings"]["bearer"], reference);
    assert!(!said.stdout.contains("hunter2"));
    let database = std::fs::read(home.data().join("sabir.db.guard")).unwrap();
    assert!(!database.windows(7).any(|bytes| bytes == b"hunter2"));
}

#[test]
fn a_task_of_an_agent_that_went_ends_as_it_began() {
    let (desk, sabir) = (CommandDirectory::new(), TestServer::start(ECHO));
    let other = TestServer::start(crate::test_server::AGENTS);
    let url = format!("http://{}/agents/desk", other.address);
    agent(&desk, &sabir.home, &["add", &url, "--name", "desk"]).expect_success();
    eventually("the agent is served", || is_served(&sabir, "desk"));
    let mut stream = sabir.stream("/agents/desk", "SendStreamingMessage", &json!({"message": message("tick")}));
    stream.next().unwrap();
    agent(&desk, &sabir.home, &["remove", "desk"]).expect_success();
    eventually("it is gone", || !is_served(&sabir, "desk"));
    let frames = stream.rest();
    assert_eq!(frames.last().unwrap().state(), Some("TASK_STATE_COMPLETED"));
    // The task is kept, and is there again with the agent.
    agent(&desk, &sabir.home, &["add", &url, "--name", "desk"]).expect_success();
    eventually("the agent is served", || is_served(&sabir, "desk"));
    let listed = sabir.result("/agents/desk", "ListTasks", &json!({}));
    assert_eq!(state(&listed["tasks"][0]), "TASK_STATE_COMPLETED", "{listed}");
}

/// A server that is stopped while an agent of its registry has a task at work.
fn at_work(desk: &CommandDirectory, upstream: &Upstream) -> (Arc<ServerDirectory>, Value) {
    let sabir = TestServer::start(ECHO);
    agent(desk, &sabir.home, &["add", &upstream.url, "--name", "far", "--untried"]).expect_success();
    eventually("the agent is served", || is_served(&sabir, "far"));
    let task = sabir.send_async("/agents/far", "go");
    upstream.wait_for_messages(1);
    upstream.send_status("working", "slowly");
    eventually("it is at work", || state(&task_of(&sabir, &task)) == "TASK_STATE_WORKING");
    (sabir.kill(), task)
}

fn task_of(sabir: &TestServer, task: &Value) -> Value {
    sabir.get("/agents/far", &task["id"])
}

#[test]
fn tasks_of_an_agent_that_is_disabled_wait_for_it() {
    let (desk, upstream) = (CommandDirectory::new(), Upstream::start(STREAMS));
    let (home, task) = at_work(&desk, &upstream);
    agent(&desk, &home, &["disable", "far"]).expect_success();
    let sabir = TestServer::start_at(&home);
    assert!(!is_served(&sabir, "far"));
    upstream.send_status("completed", "done");
    agent(&desk, &home, &["enable", "far"]).expect_success();
    eventually("the agent is served", || is_served(&sabir, "far"));
    eventually("its task has ended", || state(&task_of(&sabir, &task)) == "TASK_STATE_COMPLETED");
    assert_eq!(upstream.calls("CancelTask"), 0);
}

#[test]
fn tasks_of_an_agent_that_cannot_be_made_wait_for_it() {
    let (desk, upstream) = (CommandDirectory::new(), Upstream::start(STREAMS));
    let (home, task) = at_work(&desk, &upstream);
    // As if it had been added with a secret that is not there at this start.
    let guard = rusqlite::Connection::open(home.data().join("sabir.db.guard")).unwrap();
    let settings = |text: &str| guard.execute("UPDATE agent SET settings = ?1", [text]).unwrap();
    assert_eq!(settings(r#"{"bearer":"env:SURELY_NOT_SET_HERE"}"#), 1);
    let sabir = TestServer::start_at(&home);
    assert!(!is_served(&sabir, "far") && sabir.log_text().contains("SURELY_NOT_SET_HERE"), "{}", sabir.log_text());
    sabir.stop();
    settings("{}");
    upstream.send_status("completed", "done");
    let sabir = TestServer::start_at(&home);
    eventually("its task has ended", || state(&task_of(&sabir, &task)) == "TASK_STATE_COMPLETED");
}

#[test]
fn tasks_of_an_agent_that_was_removed_fail_and_it_is_told_if_it_comes_back() {
    let (desk, upstream) = (CommandDirectory::new(), Upstream::start(STREAMS));
    let (home, task) = at_work(&desk, &upstream);
    agent(&desk, &home, &["disable", "far"]).expect_success();
    let sabir = TestServer::start_at(&home);
    // Removed while the server runs and no turn works on its task.
    agent(&desk, &home, &["remove", "far"]).expect_success();
    eventually("its task is looked after", || sabir.log_text().contains("looked after the tasks"));
    assert_eq!(upstream.calls("CancelTask"), 0);
    agent(&desk, &home, &["add", &upstream.url, "--name", "far", "--untried"]).expect_success();
    eventually("the agent is served", || is_served(&sabir, "far"));
    let failed = task_of(&sabir, &task);
    assert_eq!(state(&failed), "TASK_STATE_FAILED");
    assert!(failed.to_string().contains("the agent far is no longer configured"), "{failed}");
    eventually("it is told that nobody waits", || upstream.calls("CancelTask") == 1);
}

#[test]
fn whoever_signed_the_card_behind_ours_is_named_in_it() {
    let desk = CommandDirectory::new();
    let signing = ServerDirectory::new(&format!("[server.signing]\nkeys = [\"file:key.pem\"]\n{ECHO}"));
    desk.run(&["card", "keys", "--new", path(&signing.path("key.pem"))]).expect_success();
    let keys = desk.run(&["card", "keys", "--key", path(&signing.path("key.pem"))]).json();
    let kid = keys["keys"][0]["kid"].as_str().unwrap();
    let (signed, sabir) = (TestServer::start_at(&signing), TestServer::start(ECHO));
    let said = agent(&desk, &sabir.home, &["add", &format!("http://{}", signed.address), "--name", "far"]);
    said.expect_success();
    assert_eq!(said.json()["card"]["signer"], kid, "{}", said.stdout);
    eventually("the agent is served", || is_served(&sabir, "far"));
    let shown = card(&sabir, "far");
    let extensions = shown["capabilities"]["extensions"].as_array().unwrap();
    let provenance = extensions.iter().find(|one| one["uri"] == "urn:sabir:ext:provenance:v1").unwrap();
    assert_eq!(provenance["params"]["keyId"], kid);
    assert!(provenance["params"]["digest"].as_str().unwrap().starts_with("sha-256:"), "{provenance}");
    assert!(provenance["params"]["signatures"][0]["signature"].is_string(), "{provenance}");
    assert_ne!(provenance["required"], true);
    assert!(shown["signatures"].is_null(), "theirs is over their card, and not over ours");
}

#[test]
fn a_card_with_a_wrong_signature_is_never_used() {
    let (desk, elsewhere, sabir) = (CommandDirectory::new(), RemoteAgent::start(), TestServer::start(ECHO));
    agent(&desk, &sabir.home, &["add", &elsewhere.url]).expect_success();
    eventually("the agent is served", || is_served(&sabir, "stub"));
    // The signer has published its key, but what is signed differs from what is shown.
    let key = desk.path("key.pem");
    desk.run(&["card", "keys", "--new", path(&key)]).expect_success();
    *elsewhere.keys.lock().unwrap() = desk.run(&["card", "keys", "--key", path(&key)]).json();
    std::fs::write(desk.path("card.json"), stub_agent::card(&elsewhere.url)).unwrap();
    let jku = format!("{}/.well-known/jwks.json", elsewhere.url);
    let signed = desk.run(&["card", "sign", "card.json", "--key", path(&key), "--jku", &jku]);
    signed.expect_success();
    let good: Value = serde_json::from_str(&signed.stdout).unwrap();
    let mut bent = good.clone();
    bent["description"] = "changed on its way".into();
    *elsewhere.card.lock().unwrap() = Some(bent);
    refused(&agent(&desk, &sabir.home, &["refresh", "stub"]), "SABIR_ERR_UNFIT", "signature");
    refused(&agent(&desk, &sabir.home, &["add", &elsewhere.url, "--name", "two"]), "SABIR_ERR_UNFIT", "signature");
    assert_ne!(card(&sabir, "stub")["description"], "changed on its way");
    // The card as it was signed is used, and its signer is reported as a change.
    *elsewhere.card.lock().unwrap() = Some(good);
    let said = agent(&desk, &sabir.home, &["refresh", "stub"]).json();
    assert_eq!((&said["card"], &said["changes"]), (&json!("used"), &json!(["signer"])), "{said}");
}

#[test]
fn webhooks_are_switched_on_for_an_agent_that_is_added() {
    let (desk, elsewhere, sabir) = (CommandDirectory::new(), RemoteAgent::start(), TestServer::start(ECHO));
    agent(&desk, &sabir.home, &["add", &elsewhere.url, "--name", "silent"]).expect_success();
    agent(&desk, &sabir.home, &["add", &elsewhere.url, "--name", "told", "--push"]).expect_success();
    eventually("both are served", || is_served(&sabir, "silent") && is_served(&sabir, "told"));
    let pushes = |name: &str| card(&sabir, name)["capabilities"]["pushNotifications"].clone();
    assert_eq!((pushes("told"), pushes("silent") == json!(true)), (json!(true), false));
}
