//! The agents that a dispatcher may choose for a caller.

use crate::command_runner::CommandDirectory;
use crate::http_client::Request;
use crate::rpc_client::send_params;
use crate::test_server::{ServerDirectory, TestServer, eventually};
use serde_json::{Value, json};

const HOUSE: &str = r#"
[auth]
accept = ["api_key"]

[[agent]]
name = "desk"
kind = "dispatch"
default = true

[[agent]]
name = "named"
kind = "dispatch"
[agent.dispatch]
agents = ["payroll"]

[[agent]]
name = "payroll"
kind = "script"
[[agent.card.skills]]
id = "salary"
name = "Salaries"
description = "Who earns what salary"
tags = ["salary"]
[[agent.rule]]
do = [{ complete = "ana earns 1000" }]
"#;

fn ask(sabir: &TestServer, at: &str, key: &str) -> (u16, Value) {
    let body = json!({"jsonrpc": "2.0", "id": 1, "method": "SendMessage", "params": send_params("the salary of ana")});
    let request = Request::post(&format!("/agents/{at}"), body.to_string())
        .with("content-type", "application/json")
        .with("a2a-version", "1.0")
        .with("x-api-key", key);
    let reply = sabir.ask(&request);
    (reply.status, if reply.status == 200 { reply.json() } else { Value::Null })
}

#[test]
fn a_key_reaches_no_agent_through_a_dispatcher_that_it_does_not_reach_itself() {
    let home = ServerDirectory::new(HOUSE);
    let (desk, sabir) = (CommandDirectory::new(), TestServer::start_at(&home));
    let data = home.data().display().to_string();
    let key = |flags: &[&str]| {
        let made = desk.run(&[&["key", "create", "-o", "json", "--data", &data], flags].concat());
        made.expect_success();
        made.json()["key"].as_str().unwrap().to_owned()
    };
    let (both, name, limited) = (key(&[]), key(&["--agent", "named"]), key(&["--agent", "desk"]));
    eventually("the keys are known", || ask(&sabir, "desk", &limited).0 == 200);
    assert_eq!(ask(&sabir, "payroll", &limited).0, 403);
    let refused = ask(&sabir, "desk", &limited).1;
    assert_eq!(refused["result"]["task"]["status"]["state"], "TASK_STATE_REJECTED", "{refused}");
    assert!(!refused.to_string().contains("payroll") && !refused.to_string().contains("1000"), "{refused}");
    let served = ask(&sabir, "desk", &both).1;
    assert!(served.to_string().contains("ana earns 1000"), "{served}");
    // An agent that a dispatcher names is there for every caller of the dispatcher.
    let named = ask(&sabir, "named", &name).1;
    assert!(named.to_string().contains("ana earns 1000"), "{named}");
}
