//! Vendors whose cards are at unusual paths, and who take keys in unusual headers.

use crate::command_runner::{CommandDirectory, CommandOutput};
use crate::http_client::Request;
use crate::rpc_client::send_params;
use crate::stub_agent::{self, StubRequest, StubResponse};
use crate::test_server::{ServerDirectory, TestServer, eventually};
use serde_json::json;

const ECHO: &str = "[[agent]]\nname = \"demo\"\nkind = \"echo\"\ndefault = true\n";
const KEY: &str = "test-key-0123456789";

/// A deployment of LangSmith's Agent Server with one assistant: nothing is shown or done without its key.
fn langsmith() -> String {
    stub_agent::serve(|asked: &StubRequest| -> StubResponse {
        let at = format!("http://{}", asked.header("host").unwrap_or_default());
        if asked.header("x-api-key") != Some(KEY) {
            return (403, "text/plain", "who are you?".into());
        }
        let call = asked.json();
        match (asked.path.as_str(), call["method"].as_str()) {
            ("/.well-known/agent-card.json?assistant_id=as-1", None) => {
                let card = stub_agent::card(&at).replace("/rpc\"", "/a2a/as-1\"");
                (200, "application/json", card)
            }
            ("/a2a/as-1", Some("SendMessage")) => {
                let said = json!({"role": "ROLE_AGENT", "messageId": "m-1", "parts": [{"text": "from as-1"}]});
                let answer = json!({"jsonrpc": "2.0", "id": call["id"], "result": {"message": said}});
                (200, "application/json", answer.to_string())
            }
            ("/a2a/as-1", Some(_)) => {
                let error = json!({"code": -32001, "message": "no such task"});
                (200, "application/json", json!({"jsonrpc": "2.0", "id": call["id"], "error": error}).to_string())
            }
            _ => (404, "text/plain", "nothing here".into()),
        }
    })
}

fn says(sabir: &TestServer, name: &str) -> Option<String> {
    let reply = sabir.rpc(&format!("/agents/{name}"), "SendMessage", &send_params("hello"));
    let result = &reply["result"];
    [&result["message"]["parts"][0]["text"], &result["task"]["status"]["message"]["parts"][0]["text"]]
        .into_iter()
        .find_map(|text| text.as_str().map(str::to_owned))
}

fn add(desk: &CommandDirectory, home: &ServerDirectory, words: &[&str]) -> CommandOutput {
    let (config, data) = (home.path("sabir.toml"), home.data());
    let place = ["--config", config.to_str().unwrap(), "--data", data.to_str().unwrap(), "-o", "json"];
    desk.run(&[&["agent", "add"], words, &place[..]].concat())
}

/// A file with the key, by reference.
fn key(home: &ServerDirectory) -> String {
    let path = home.path("key");
    std::fs::write(&path, KEY).unwrap();
    format!("file:{}", path.display())
}

#[test]
fn an_agent_is_added_by_the_habits_of_its_vendor() {
    let (desk, sabir) = (CommandDirectory::new(), TestServer::start(ECHO));
    let (url, key) = (format!("{}/a2a/as-1", langsmith()), key(&sabir.home));
    let plain = add(&desk, &sabir.home, &[&url, "--api-key", &key]);
    assert!(plain.code != 0 && plain.stdout.contains("403"), "{plain:#?}");
    let said = add(&desk, &sabir.home, &[&url, "--name", "graph", "--api-key", &key, "--profile", "langsmith"]);
    said.expect_success();
    assert_eq!(said.json()["profile"], "langsmith");
    let card = Request::get("/agents/graph/.well-known/agent-card.json");
    eventually("the agent is served", || sabir.ask(&card).status == 200);
    assert_eq!(says(&sabir, "graph").as_deref(), Some("from as-1"));
}

#[test]
fn an_agent_of_the_file_has_a_profile_too() {
    let home = ServerDirectory::new(ECHO);
    let agent = format!(
        "{ECHO}[[agent]]\nname = \"graph\"\nkind = \"a2a\"\nurl = \"{}/a2a/as-1\"\nprofile = \"langsmith\"\n\
         api_key = \"{}\"\n",
        langsmith(),
        key(&home)
    );
    let sabir = TestServer::start(&agent);
    assert_eq!(says(&sabir, "graph").as_deref(), Some("from as-1"));
}

#[test]
fn an_unknown_profile_is_told_the_known_ones() {
    let (desk, home) = (CommandDirectory::new(), ServerDirectory::new(ECHO));
    let said = add(&desk, &home, &["http://127.0.0.1:9", "--profile", "langsmth"]);
    assert!(said.code != 0 && said.stdout.contains("SABIR_ERR_SETTINGS"), "{said:#?}");
    assert!(said.stdout.contains("plain, foundry, agent-engine, agentcore, langsmith"), "{said:#?}");
    let listed = desk.run(&["agent", "profiles", "-o", "json"]).json();
    let one = &listed["profiles"][4];
    assert_eq!((&one["name"], &one["keyHeader"]), (&json!("langsmith"), &json!("x-api-key")), "{listed}");
}
