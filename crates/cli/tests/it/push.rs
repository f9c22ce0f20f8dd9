//! Push configurations: made, read, listed, deleted; and refused where the agent does not push.

use crate::http_client::Request;
use crate::rpc_client::{
    EXHAUSTED, NO_PUSH, NOT_FOUND, PARAMS, ProtocolError, answer_params, message, send_params, state,
};
use crate::test_server::{AGENTS, TestServer, shared_server};
use serde_json::{Value, json};

const MAIL: &str = "/agents/mail";
const CREATE: &str = "CreateTaskPushNotificationConfig";
const GET: &str = "GetTaskPushNotificationConfig";
const LIST: &str = "ListTaskPushNotificationConfigs";
const DELETE: &str = "DeleteTaskPushNotificationConfig";

const HOOK: &str = "https://hooks.example.com/a2a";

fn waiting(sabir: &TestServer) -> Value {
    sabir.send(MAIL, &send_params("x"))
}

#[test]
fn an_agent_that_does_not_push_says_so_to_everything() {
    let sabir = shared_server();
    let task = sabir.send("/", &send_params("x"));
    let params = json!({"taskId": task["id"], "id": "c", "url": HOOK});
    for method in [CREATE, GET, LIST, DELETE] {
        sabir.expect_error("/", method, &params, NO_PUSH);
        // Also of a task that is not there: what is not offered is not looked up.
        sabir.expect_error("/", method, &json!({"taskId": "nobody", "id": "c", "url": HOOK}), NO_PUSH);
    }
    let configs = format!("/tasks/{}/pushNotificationConfigs", task["id"].as_str().unwrap());
    sabir.expect_rest_error(&Request::post(&configs, params.to_string()), NO_PUSH);
    for request in
        [Request::get(&configs), Request::get(&format!("{configs}/c")), Request::new("DELETE", &format!("{configs}/c"))]
    {
        sabir.expect_rest_error(&request, NO_PUSH);
    }
    for method in ["SendMessage", "SendStreamingMessage"] {
        let inline = json!({"message": message("x"), "configuration": {"taskPushNotificationConfig": {"url": HOOK}}});
        sabir.expect_error("/", method, &inline, NO_PUSH);
    }
}

#[test]
fn a_config_is_kept_as_it_was_given_and_shown_without_its_secrets() {
    let sabir = shared_server();
    let task = waiting(&sabir);
    let given = json!({
        "taskId": task["id"], "id": "mine", "url": HOOK, "token": "t0ken",
        "authentication": {"scheme": "Bearer", "credentials": "s3cret"},
    });
    let shown = json!({"taskId": task["id"], "id": "mine", "url": HOOK, "authentication": {"scheme": "Bearer"}});
    assert_eq!(sabir.result(MAIL, CREATE, &given), shown);
    let named = json!({"taskId": task["id"], "id": "mine"});
    assert_eq!(sabir.result(MAIL, GET, &named), shown);
    assert_eq!(
        sabir.result(MAIL, LIST, &json!({"taskId": task["id"]})),
        json!({"configs": [shown], "nextPageToken": ""})
    );
    // The same id again replaces.
    let other = json!({"taskId": task["id"], "id": "mine", "url": "http://127.0.0.1:8009/x"});
    assert_eq!(sabir.result(MAIL, CREATE, &other), other);
    assert_eq!(sabir.result(MAIL, LIST, &json!({"taskId": task["id"]}))["configs"], json!([other]));
    // Without an id, one is given.
    let unnamed = sabir.result(MAIL, CREATE, &json!({"taskId": task["id"], "url": HOOK, "id": ""}));
    assert!(unnamed["id"].as_str().is_some_and(|id| !id.is_empty()), "{unnamed}");
    assert_eq!(sabir.result(MAIL, GET, &json!({"taskId": task["id"], "id": unnamed["id"]})), unnamed);
}

#[test]
fn deleting_is_done_however_often_it_is_asked_for() {
    let sabir = shared_server();
    let task = waiting(&sabir);
    let named = json!({"taskId": task["id"], "id": "c", "url": HOOK});
    sabir.result(MAIL, CREATE, &named);
    for _ in 0..3 {
        assert_eq!(sabir.result(MAIL, DELETE, &named), json!({}));
        sabir.expect_error(MAIL, GET, &named, NOT_FOUND);
    }
    assert_eq!(sabir.result(MAIL, LIST, &json!({"taskId": task["id"]})), json!({"configs": [], "nextPageToken": ""}));
    let path = format!("{MAIL}/tasks/{}/pushNotificationConfigs/c", task["id"].as_str().unwrap());
    let reply = sabir.ask(&Request::new("DELETE", &path));
    assert_eq!((reply.status, reply.json()), (200, json!({})));
}

#[test]
fn the_path_says_what_the_body_need_not() {
    let sabir = shared_server();
    let task = waiting(&sabir);
    let path = format!("{MAIL}/tasks/{}/pushNotificationConfigs", task["id"].as_str().unwrap());
    let made =
        sabir.ask(&Request::post(&path, json!({"id": "a b/c", "url": HOOK, "taskId": "ignored"}).to_string())).json();
    assert_eq!((&made["taskId"], &made["id"]), (&task["id"], &json!("a b/c")));
    let one = format!("{path}/a%20b%2Fc");
    assert_eq!(sabir.ask(&Request::get(&one)).json(), made);
    assert_eq!(sabir.ask(&Request::get(&path)).json()["configs"], json!([made]));
    assert_eq!(sabir.ask(&Request::new("DELETE", &one)).status, 200);
    sabir.expect_rest_error(&Request::get(&one), NOT_FOUND);
}

#[test]
fn configs_are_listed_in_pages() {
    let sabir = shared_server();
    let task = waiting(&sabir);
    for n in 0..7 {
        sabir.result(MAIL, CREATE, &json!({"taskId": task["id"], "id": format!("c{n}"), "url": HOOK}));
    }
    let (mut seen, mut token) = (Vec::new(), json!(""));
    loop {
        let page = sabir.result(MAIL, LIST, &json!({"taskId": task["id"], "pageSize": 3, "pageToken": token}));
        assert!(page["configs"].as_array().unwrap().len() <= 3);
        seen.extend(page["configs"].as_array().unwrap().iter().map(|c| c["id"].as_str().unwrap().to_owned()));
        token = page["nextPageToken"].clone();
        if token == "" {
            break;
        }
    }
    assert_eq!(seen, ["c0", "c1", "c2", "c3", "c4", "c5", "c6"]);
    for size in [json!(-1), json!(101), json!(1.5), json!("x")] {
        let problem = sabir.rpc_error(MAIL, LIST, &json!({"taskId": task["id"], "pageSize": size}));
        assert_eq!(
            (problem.code_and_reason(), &problem.fields[..]),
            ((PARAMS.0, PARAMS.2), &["pageSize".to_owned()][..])
        );
    }
}

#[test]
fn configs_belong_to_the_owner_of_the_task() {
    let sabir = shared_server();
    let task = waiting(&sabir);
    let named = json!({"taskId": task["id"], "id": "c", "url": HOOK});
    sabir.result(MAIL, CREATE, &named);
    for method in [CREATE, GET, LIST, DELETE] {
        let mut foreign = named.clone();
        foreign["tenant"] = json!("acme");
        sabir.expect_error(MAIL, method, &foreign, NOT_FOUND);
        sabir.expect_error(MAIL, method, &json!({"taskId": "nobody", "id": "c", "url": HOOK}), NOT_FOUND);
    }
    assert_eq!(sabir.result(MAIL, GET, &named)["url"], HOOK);
}

/// Configurations to which no delivery can be made, or that would do harm in a log.
fn bad_configs() -> Vec<(Value, &'static str)> {
    let mut bad: Vec<(Value, &str)> =
        ["", "x", "ftp://example.com", "file:///etc/passwd", "javascript:alert(1)", "http://a b", "https://a\n"]
            .iter()
            .map(|url| (json!({"url": url}), "url"))
            .collect();
    bad.push((json!({"url": format!("https://example.com/{}", "x".repeat(10_000))}), "url"));
    bad.push((json!({"url": 7}), "url"));
    bad.push((json!({"url": HOOK, "id": "x".repeat(10_000)}), "id"));
    bad.push((json!({"url": HOOK, "id": "a\u{0}b"}), "id"));
    bad.push((json!({"url": HOOK, "id": 7}), "id"));
    bad.push((json!({"url": HOOK, "authentication": {"credentials": "x"}}), "authentication"));
    bad.push((json!({"url": HOOK, "authentication": "Bearer"}), "authentication"));
    // What no header can carry would be found at each delivery, and its owner not told.
    for secret in ["a\r\nX-Other: b", "a\u{0}b", "a\u{7f}"] {
        bad.push((json!({"url": HOOK, "token": secret}), "token"));
        bad.push((
            json!({"url": HOOK, "authentication": {"scheme": "Bearer", "credentials": secret}}),
            "authentication",
        ));
    }
    bad.push((json!({"url": HOOK, "authentication": {"scheme": "Bearer\r\nX", "credentials": "x"}}), "authentication"));
    bad
}

#[test]
fn a_config_that_makes_no_sense_is_refused() {
    let sabir = shared_server();
    let task = waiting(&sabir);
    for (mut config, field) in bad_configs() {
        config["taskId"] = task["id"].clone();
        let problem = sabir.rpc_error(MAIL, CREATE, &config);
        assert_eq!(
            (problem.code_and_reason(), &problem.fields[..]),
            ((PARAMS.0, PARAMS.2), &[field.to_owned()][..]),
            "{config}"
        );
        let path = format!("{MAIL}/tasks/{}/pushNotificationConfigs", task["id"].as_str().unwrap());
        let reply = sabir.ask(&Request::post(&path, config.to_string()));
        assert_eq!(ProtocolError::from_rest(&reply).code_and_reason(), (PARAMS.1, PARAMS.2));
    }
    sabir.expect_error(MAIL, CREATE, &json!({"taskId": task["id"]}), PARAMS);
    sabir.expect_error(MAIL, CREATE, &json!({"url": HOOK}), PARAMS);
    assert_eq!(sabir.result(MAIL, LIST, &json!({"taskId": task["id"]}))["configs"], json!([]));
    sabir.still_serves();
}

#[test]
fn a_config_may_come_with_the_message() {
    let sabir = shared_server();
    let config = json!({"url": HOOK, "token": "t", "authentication": {"scheme": "Basic", "credentials": "x"}});
    let params = json!({"message": message("x"), "configuration": {"taskPushNotificationConfig": config}});
    let task = sabir.send(MAIL, &params);
    let list = sabir.result(MAIL, LIST, &json!({"taskId": task["id"]}));
    let kept = &list["configs"][0];
    assert_eq!((&kept["url"], &kept["authentication"]), (&config["url"], &json!({"scheme": "Basic"})));
    assert!(kept.get("token").is_none(), "secrets go in and never come out: {kept}");
    assert_eq!(kept["taskId"], task["id"]);
    assert!(kept["id"].as_str().is_some_and(|id| !id.is_empty()));
    assert!(!task.to_string().contains("hooks.example.com"), "a task does not show who is told about it");
    // With the answer to a question, too.
    let mut answer = answer_params(&task, "y");
    answer["configuration"] = json!({"taskPushNotificationConfig": {"url": HOOK, "id": "second"}});
    sabir.send(MAIL, &answer);
    assert_eq!(sabir.result(MAIL, LIST, &json!({"taskId": task["id"]}))["configs"].as_array().unwrap().len(), 2);
}

#[test]
fn a_config_that_comes_with_the_message_is_checked_like_any_other() {
    let sabir = TestServer::start(AGENTS);
    for (config, field) in bad_configs() {
        let params = json!({"message": message("x"), "configuration": {"taskPushNotificationConfig": config}});
        let field = format!("configuration.taskPushNotificationConfig.{field}");
        let envelope = sabir.rpc(MAIL, "SendMessage", &params);
        let problem = ProtocolError::from_rpc(&envelope);
        assert_eq!((problem.code_and_reason(), &problem.fields[..]), ((PARAMS.0, PARAMS.2), &[field][..]), "{config}");
    }
    assert_eq!(sabir.task_count(MAIL), 0);
}

#[test]
fn a_task_has_so_many_configs_and_no_more() {
    let sabir = TestServer::start(&AGENTS.replace("[limits]", "[limits]\npush_configs_max = 3"));
    let task = waiting(&sabir);
    let create = |n: usize| sabir.rpc(MAIL, CREATE, &json!({"taskId": task["id"], "id": n.to_string(), "url": HOOK}));
    assert!((0..3).all(|n| create(n).get("result").is_some()));
    assert_eq!(ProtocolError::from_rpc(&create(3)).code_and_reason(), (EXHAUSTED.0, EXHAUSTED.2));
    assert!(create(1).get("result").is_some(), "replacing needs no room");
    sabir.result(MAIL, DELETE, &json!({"taskId": task["id"], "id": "0"}));
    assert!(create(3).get("result").is_some());
    assert_eq!(sabir.result(MAIL, LIST, &json!({"taskId": task["id"]}))["configs"].as_array().unwrap().len(), 3);
}

#[test]
fn configs_survive_a_crash() {
    let sabir = TestServer::start(AGENTS);
    let task = waiting(&sabir);
    let made = sabir.result(MAIL, CREATE, &json!({"taskId": task["id"], "url": HOOK}));
    let sabir = TestServer::start_at(&sabir.kill());
    assert_eq!(sabir.result(MAIL, GET, &json!({"taskId": task["id"], "id": made["id"]})), made);
}

#[test]
fn a_settled_task_takes_a_config() {
    // The conformance kit expects it to succeed; what is delivered is the last turn.
    let sabir = shared_server();
    let task = waiting(&sabir);
    assert_eq!(state(&sabir.send(MAIL, &answer_params(&task, "y"))), "TASK_STATE_COMPLETED");
    let late = json!({"taskId": task["id"], "url": HOOK, "id": "late"});
    assert_eq!(sabir.result(MAIL, CREATE, &late), late);
}
