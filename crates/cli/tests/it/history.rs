//! `historyLength`: none, the latest, or all, in every operation that returns tasks.

use crate::http_client::Request;
use crate::rpc_client::{DESK_PATH, answer_params, message, send_params};
use crate::test_server::{AGENTS, TestServer};
use serde_json::{Value, json};

/// A conversation of five messages, and its task.
fn conversation(sabir: &TestServer) -> Value {
    let task = sabir.send(DESK_PATH, &send_params("book"));
    sabir.send(DESK_PATH, &answer_params(&task, "Monday"));
    sabir.send(DESK_PATH, &answer_params(&task, "four"))
}

const ALL: [&str; 5] = ["book", "Which day?", "Monday", "How many?", "four"];

#[track_caller]
fn check(task: &Value, length: Option<usize>) {
    let kept = length.map_or(5, |n| n.min(5));
    match task.get("history") {
        None => assert_eq!(kept, 0, "{task}"),
        Some(history) => {
            assert!(kept > 0, "no history is no member, not an empty one: {task}");
            let texts: Vec<_> =
                history.as_array().unwrap().iter().map(|m| m["parts"][0]["text"].as_str().unwrap()).collect();
            assert_eq!(texts, ALL[5 - kept..], "the latest, oldest first");
        }
    }
}

#[test]
fn every_operation_returns_as_much_history_as_was_asked_for() {
    let sabir = TestServer::start(AGENTS);
    let task = conversation(&sabir);
    check(&task, None);
    for length in [None, Some(0), Some(1), Some(2), Some(4), Some(5), Some(6), Some(2_147_483_647)] {
        let member = length.map_or(Value::Null, |n| json!(n));
        check(&sabir.result(DESK_PATH, "GetTask", &json!({"id": task["id"], "historyLength": member})), length);
        let list = sabir.result(DESK_PATH, "ListTasks", &json!({"historyLength": member}));
        check(&list["tasks"][0], length);
        let query = length.map_or(String::new(), |n| format!("?historyLength={n}"));
        let id = task["id"].as_str().unwrap();
        check(&sabir.ask(&Request::get(&format!("/agents/desk/tasks/{id}{query}"))).json(), length);
        check(&sabir.ask(&Request::get(&format!("/agents/desk/tasks{query}"))).json()["tasks"][0], length);
    }
}

#[test]
fn an_answer_to_a_send_is_cut_like_any_other() {
    let sabir = TestServer::start(AGENTS);
    for length in [0, 1, 3, 5] {
        let task = sabir.send(DESK_PATH, &send_params("book"));
        sabir.send(DESK_PATH, &answer_params(&task, "Monday"));
        let mut params = answer_params(&task, "four");
        params["configuration"] = json!({"historyLength": length});
        check(&sabir.send(DESK_PATH, &params), Some(length));
        check(&sabir.get(DESK_PATH, &task["id"]), None);
    }
    let task = sabir.send("/", &json!({"message": message("x"), "configuration": {"historyLength": 0}}));
    assert!(task.get("history").is_none() && task["artifacts"].is_array(), "{task}");
}
