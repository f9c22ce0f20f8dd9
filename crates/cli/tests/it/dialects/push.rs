//! Each dialect alone: push configurations, and one task's configurations in all of them.

use super::dialect_client::DialectClient::{Native, Rest03, V01, V1, V02, V03, Xpr};
use super::dialect_client::{DialectClient, outgoing, unique};
use super::{DESK_PATH, office_server};
use crate::http_client::Request;
use crate::test_server::TestServer;
use serde_json::{Value, json};

const HOOK: &str = "https://hooks.example.com/a2a";

fn config() -> Value {
    json!({"url": HOOK, "token": "t0ken", "authentication": {"schemes": ["Bearer"], "credentials": "s3cret"}})
}

/// What is shown of it: secrets go in and never come out.
fn shown() -> Value {
    json!({"url": HOOK, "authentication": {"schemes": ["Bearer"]}})
}

#[track_caller]
fn result(sabir: &TestServer, tongue: DialectClient, method: &str, params: &Value) -> Value {
    let mut body = sabir.ask(&tongue.rpc(DESK_PATH, method, params)).json();
    assert!(body.get("error").is_none(), "{tongue:?} {method}: {body}");
    body["result"].take()
}

#[track_caller]
fn error(sabir: &TestServer, tongue: DialectClient, agent: &str, method: &str, params: &Value) -> Value {
    let mut body = sabir.ask(&tongue.rpc(agent, method, params)).json();
    assert!(body.get("error").is_some(), "{tongue:?} {method}: {body}");
    body["error"].take()
}

#[test]
fn configurations_of_03_are_set_got_listed_and_deleted() {
    let sabir = office_server();
    for tongue in [V03, V02] {
        let task = sabir.send_as(tongue, DESK_PATH, &outgoing("book")).id;
        let call = |method: &str, params: &Value| {
            result(&sabir, tongue, &format!("tasks/pushNotificationConfig/{method}"), params)
        };
        let named = |mut config: Value| {
            config["id"] = json!("mine");
            json!({"taskId": task, "pushNotificationConfig": config})
        };
        let kept = named(shown());
        assert_eq!(call("set", &named(config())), kept);
        assert_eq!(call("get", &json!({"id": task, "pushNotificationConfigId": "mine"})), kept);
        assert_eq!(call("get", &json!({"id": task})), kept, "without an id, the first");
        assert_eq!(call("list", &json!({"id": task})), json!([kept]));
        let unnamed = json!({"taskId": task, "pushNotificationConfig": {"url": HOOK}});
        call("set", &unnamed);
        let second = call("set", &unnamed);
        assert_eq!(second["pushNotificationConfig"]["id"], json!(task), "unnamed, it goes by the task's: {second}");
        assert_eq!(call("list", &json!({"id": task})).as_array().unwrap().len(), 2, "and a second one replaces it");
        for id in ["mine", &task] {
            assert_eq!(call("delete", &json!({"id": task, "pushNotificationConfigId": id})), Value::Null);
        }
        assert_eq!(call("list", &json!({"id": task})), json!([]));
        let gone = error(&sabir, tongue, DESK_PATH, "tasks/pushNotificationConfig/get", &json!({"id": task}));
        assert_eq!(gone["code"], -32001, "{gone}");
    }
}

#[test]
fn configurations_of_03_are_resources_over_rest() {
    let sabir = office_server();
    let task = sabir.send_as(Rest03, DESK_PATH, &outgoing("book")).id;
    let path = format!("{DESK_PATH}/v1/tasks/{task}/pushNotificationConfigs");
    let ask = |request: Request| {
        let reply = sabir.ask(&request.without("A2A-Version"));
        assert_eq!(reply.status, 200, "{}", reply.text());
        reply.json()
    };
    let name = format!("tasks/{task}/pushNotificationConfigs/mine");
    let body = json!({"parent": format!("tasks/{task}"), "configId": "mine",
        "config": {"name": name, "pushNotificationConfig": {"id": "mine", "url": HOOK, "token": "t0ken"}}});
    let made = ask(Request::post(&path, body.to_string()));
    assert_eq!((&made["name"], &made["pushNotificationConfig"]["url"]), (&json!(name), &json!(HOOK)), "{made}");
    assert_eq!(ask(Request::get(&format!("{path}/mine"))), made);
    assert_eq!(ask(Request::get(&path))["configs"], json!([made]));
    ask(Request::new("DELETE", &format!("{path}/mine")));
    assert_eq!(sabir.ask(&Request::get(&format!("{path}/mine")).without("A2A-Version")).status, 404);
}

#[test]
fn a_task_of_01_has_one_configuration() {
    let sabir = office_server();
    let name = unique("hooked");
    sabir.send_as(V01, DESK_PATH, &outgoing("book").to(&name));
    let missing = error(&sabir, V01, DESK_PATH, "tasks/pushNotification/get", &json!({"id": name}));
    assert_eq!(missing["code"], -32001);
    assert_eq!(missing["data"]["taskId"], json!(name), "the name that the caller knows: {missing}");
    let (given, kept) = (config(), json!({"id": name, "pushNotificationConfig": shown()}));
    let given = json!({"id": name, "pushNotificationConfig": given});
    assert_eq!(result(&sabir, V01, "tasks/pushNotification/set", &given), kept);
    assert_eq!(result(&sabir, V01, "tasks/pushNotification/get", &json!({"id": name})), kept);
    let other = json!({"id": name, "pushNotificationConfig": {"url": "http://127.0.0.1:8009/x"}});
    assert_eq!(result(&sabir, V01, "tasks/pushNotification/set", &other), other);
    assert_eq!(result(&sabir, V01, "tasks/pushNotification/get", &json!({"id": name})), other);
    let listed = result(&sabir, V03, "tasks/pushNotificationConfig/list", &json!({"id": name}));
    assert_eq!(listed.as_array().unwrap().len(), 1, "set twice, kept once: {listed}");
}

#[test]
fn a_configuration_may_come_with_the_message() {
    let sabir = office_server();
    let name = unique("inline");
    let params = json!({"id": name, "message": V01.message(&outgoing("book")), "pushNotification": config()});
    result(&sabir, V01, "tasks/send", &params);
    let kept = result(&sabir, V01, "tasks/pushNotification/get", &json!({"id": name}));
    assert_eq!(kept, json!({"id": name, "pushNotificationConfig": shown()}));
    let params =
        json!({"message": V03.message(&outgoing("book")), "configuration": {"pushNotificationConfig": config()}});
    let task = result(&sabir, V03, "message/send", &params);
    let kept = result(&sabir, V03, "tasks/pushNotificationConfig/get", &json!({"id": task["id"]}));
    assert_eq!(kept["pushNotificationConfig"]["authentication"], shown()["authentication"], "{kept}");
}

#[test]
fn a_configuration_set_in_one_dialect_is_seen_in_the_others() {
    let sabir = office_server();
    let name = unique("everywhere");
    sabir.send_as(V01, DESK_PATH, &outgoing("book").to(&name));
    let id = sabir.server_id(DESK_PATH, &name);
    result(&sabir, V01, "tasks/pushNotification/set", &json!({"id": name, "pushNotificationConfig": config()}));
    let listed = result(&sabir, V1, "ListTaskPushNotificationConfigs", &json!({"taskId": name}));
    let seen = &listed["configs"][0];
    assert_eq!((&seen["taskId"], &seen["url"]), (&json!(id), &json!(HOOK)), "{listed}");
    assert_eq!(seen["authentication"], json!({"scheme": "Bearer"}));
    let listed = result(&sabir, V03, "tasks/pushNotificationConfig/list", &json!({"id": name}));
    assert_eq!((&listed[0]["taskId"], &listed[0]["pushNotificationConfig"]["url"]), (&json!(id), &json!(HOOK)));
    let escaped = format!("{DESK_PATH}/v1/tasks/{name}/pushNotificationConfigs");
    let listed = sabir.ask(&Request::get(&escaped).without("A2A-Version")).json();
    assert_eq!(listed["configs"][0]["pushNotificationConfig"]["url"], HOOK, "{listed}");
    assert!(!listed.to_string().contains("t0ken") && !listed.to_string().contains("s3cret"), "{listed}");
}

#[test]
fn an_agent_without_webhooks_says_so_in_every_dialect() {
    let sabir = office_server();
    let params = json!({"id": "x", "taskId": "x", "pushNotificationConfigId": "c", "pushNotificationConfig": config()});
    for method in ["set", "get", "list", "delete"] {
        let mut params = params.clone();
        // One of the two names a task; both would be one too many.
        params.as_object_mut().unwrap().remove(if method == "set" { "id" } else { "taskId" });
        let told = error(&sabir, V03, "", &format!("tasks/pushNotificationConfig/{method}"), &params);
        assert_eq!(told["code"], -32003, "{told}");
    }
    for method in ["set", "get"] {
        let told = error(&sabir, V01, "", &format!("tasks/pushNotification/{method}"), &params);
        assert_eq!(told["code"], -32003, "{told}");
    }
    for tongue in [Native, Xpr] {
        // They have no such methods; at their endpoints these are 0.3's.
        let told = error(&sabir, tongue, "", "tasks/pushNotificationConfig/list", &params);
        assert_eq!(told["code"], -32003, "{told}");
    }
}
