//! JSON and protobuf refuse a wrong request alike: with the same code, naming the same member.

use prost_types::{Struct, Value, value::Kind};
use sabir_proto::{Call, Fault};
use sabir_wire::jsonrpc::JsonRpcEnvelope;
use sabir_wire::pb::lf_a2a_v1 as pb;
use sabir_wire::v1::{grpc::request, json};

#[track_caller]
fn check(method: &str, params: &str, over_grpc: Result<Call, Fault>, field: &str) {
    let body = format!(r#"{{"jsonrpc":"2.0","id":1,"method":"{method}","params":{params}}}"#);
    let over_json = json::read_call(&JsonRpcEnvelope::read(body.as_bytes()).unwrap());
    for (binding, outcome) in [("JSON", over_json), ("gRPC", over_grpc)] {
        let Err(Fault::InvalidParams(wrong)) = outcome else { panic!("{binding}: {outcome:?}") };
        assert_eq!(wrong.len(), 1, "{binding}");
        assert_eq!(wrong[0].field, field, "{binding}: {}", wrong[0].description);
    }
}

fn message() -> pb::Message {
    let hi = pb::Part { content: Some(pb::part::Content::Text("hi".into())), ..Default::default() };
    pb::Message { message_id: "m".into(), role: 1, parts: vec![hi], ..Default::default() }
}

/// Checks a send with a changed message against a send with these members in JSON, which mean the same.
#[track_caller]
fn check_message(members: &str, change: impl FnOnce(&mut pb::Message), field: &str) {
    let mut changed = message();
    change(&mut changed);
    let request = || pb::SendMessageRequest { message: Some(changed.clone()), ..Default::default() };
    let params = format!(r#"{{"message":{{{members}}}}}"#);
    check("SendMessage", &params, request::send(request()), field);
    check("SendStreamingMessage", &params, request::stream(request()), field);
}

fn deep(levels: usize) -> (String, Struct) {
    let object = |inner: Value| Struct { fields: [("a".to_owned(), inner)].into() };
    let value = (1..levels).fold(Kind::NullValue(0).into(), |inner, _| Kind::StructValue(object(inner)).into());
    (format!("{}null{}", "{\"a\":".repeat(levels), "}".repeat(levels)), object(value))
}

#[test]
fn messages() {
    const REST: &str = r#""role":"ROLE_USER","parts":[{"text":"hi"}]"#;
    let with = |member: &str| format!(r#""messageId":"m",{REST},{member}"#);
    check_message(&format!(r#""messageId":"",{REST}"#), |m| m.message_id.clear(), "message.messageId");
    check_message(&format!(r#""messageId":"a\nb",{REST}"#), |m| m.message_id = "a\nb".into(), "message.messageId");
    check_message(
        r#""messageId":"m","role":"ROLE_UNSPECIFIED","parts":[{"text":"hi"}]"#,
        |m| m.role = 0,
        "message.role",
    );
    check_message(r#""messageId":"m","role":3,"parts":[{"text":"hi"}]"#, |m| m.role = 3, "message.role");
    check_message(
        r#""messageId":"m","role":1,"parts":[{"text":"hi"},{"filename":"x"}]"#,
        |m| m.parts.push(pb::Part { filename: "x".into(), ..Default::default() }),
        "message.parts[1]",
    );
    let long = "x".repeat(257);
    check_message(&with(&format!(r#""taskId":"{long}""#)), |m| m.task_id = long.clone(), "message.taskId");
    check_message(&with(&format!(r#""contextId":"{long}""#)), |m| m.context_id = long.clone(), "message.contextId");
    let (text, tree) = deep(65);
    check_message(&with(&format!(r#""metadata":{text}"#)), |m| m.metadata = Some(tree.clone()), "message.metadata");
    // Only over gRPC: the JSON side cannot name the members of a part.
    let data = pb::part::Content::Data(Kind::StructValue(tree).into());
    let parts = vec![pb::Part { content: Some(data), ..Default::default() }];
    let message = Some(pb::Message { parts, ..message() });
    let outcome = request::send(pb::SendMessageRequest { message, ..Default::default() });
    let Err(Fault::InvalidParams(wrong)) = outcome else { panic!("{outcome:?}") };
    assert_eq!(wrong[0].field, "message.parts[0].data");
}

#[test]
fn the_rest_of_a_send() {
    check("SendMessage", r#"{"message":null}"#, request::send(pb::SendMessageRequest::default()), "message");
    let whole = || pb::SendMessageRequest { message: Some(message()), ..Default::default() };
    let json = |rest: &str| format!(r#"{{"message":{{"messageId":"m","role":1,"parts":[{{"text":"hi"}}]}},{rest}}}"#);
    let tenant = pb::SendMessageRequest { tenant: "a/b".into(), ..whole() };
    check("SendMessage", &json(r#""tenant":"a/b""#), request::send(tenant), "tenant");
    let push = pb::TaskPushNotificationConfig::default();
    let configuration =
        pb::SendMessageConfiguration { task_push_notification_config: Some(push), ..Default::default() };
    check(
        "SendMessage",
        &json(r#""configuration":{"taskPushNotificationConfig":{"url":null}}"#),
        request::send(pb::SendMessageRequest { configuration: Some(configuration), ..whole() }),
        "configuration.taskPushNotificationConfig.url",
    );
}

#[test]
fn tasks() {
    let empty = pb::GetTaskRequest::default();
    check("GetTask", r#"{"id":""}"#, request::get_task(empty), "id");
    check("CancelTask", r#"{"id":""}"#, request::cancel_task(pb::CancelTaskRequest::default()), "id");
    check("SubscribeToTask", r#"{"id":""}"#, request::subscribe(pb::SubscribeToTaskRequest::default()), "id");
    let card = pb::GetExtendedAgentCardRequest { tenant: "agents".into() };
    check("GetExtendedAgentCard", r#"{"tenant":"agents"}"#, request::extended_card(card), "tenant");

    // Nine is our own `Transferred`, which no caller can filter by.
    for status in [9, 10, -1] {
        let request = pb::ListTasksRequest { status, ..Default::default() };
        check("ListTasks", &format!(r#"{{"status":{status}}}"#), request::list_tasks(request), "status");
    }
    let long = "x".repeat(257);
    let request = pb::ListTasksRequest { context_id: long.clone(), ..Default::default() };
    check("ListTasks", &format!(r#"{{"contextId":"{long}"}}"#), request::list_tasks(request), "contextId");
    let past = Some(prost_types::Timestamp { seconds: -1, nanos: 0 });
    let request = pb::ListTasksRequest { status_timestamp_after: past, ..Default::default() };
    let params = r#"{"statusTimestampAfter":"1969-12-31T23:59:59Z"}"#;
    check("ListTasks", params, request::list_tasks(request), "statusTimestampAfter");
}

#[test]
fn push_configurations() {
    let config = pb::TaskPushNotificationConfig { url: "http://x".into(), ..Default::default() };
    check(
        "CreateTaskPushNotificationConfig",
        r#"{"taskId":"","url":"http://x"}"#,
        request::create_push(config.clone()),
        "taskId",
    );
    let config = pb::TaskPushNotificationConfig { task_id: "t".into(), ..config };
    check(
        "CreateTaskPushNotificationConfig",
        r#"{"taskId":"t","url":null}"#,
        request::create_push(pb::TaskPushNotificationConfig { url: String::new(), ..config.clone() }),
        "url",
    );
    let authentication = Some(pb::AuthenticationInfo::default());
    check(
        "CreateTaskPushNotificationConfig",
        r#"{"taskId":"t","url":"http://x","authentication":{"scheme":null}}"#,
        request::create_push(pb::TaskPushNotificationConfig { authentication, ..config }),
        "authentication.scheme",
    );
    let (get, list) = ("GetTaskPushNotificationConfig", "ListTaskPushNotificationConfigs");
    check(get, r#"{"taskId":"","id":"c"}"#, request::get_push(Default::default()), "taskId");
    let request = pb::GetTaskPushNotificationConfigRequest { task_id: "t".into(), ..Default::default() };
    check(get, r#"{"taskId":"t","id":null}"#, request::get_push(request), "id");
    check(list, r#"{"taskId":""}"#, request::list_push(Default::default()), "taskId");
    let delete = "DeleteTaskPushNotificationConfig";
    check(delete, r#"{"taskId":"","id":"c"}"#, request::delete_push(Default::default()), "taskId");
    let request = pb::DeleteTaskPushNotificationConfigRequest { task_id: "t".into(), ..Default::default() };
    check(delete, r#"{"taskId":"t","id":null}"#, request::delete_push(request), "id");
}

#[test]
fn what_is_unset_in_protobuf_is_absent() {
    let Ok(Call::List(list)) = request::list_tasks(pb::ListTasksRequest::default()) else { panic!("a list") };
    assert_eq!(list, sabir_proto::ListTasks::default());

    let request = pb::ListTaskPushNotificationConfigsRequest { task_id: "t".into(), ..Default::default() };
    let Ok(Call::ListPush(list)) = request::list_push(request) else { panic!("a list") };
    assert_eq!((list.page_size, &*list.page_token), (None, ""));

    let zero = pb::GetTaskRequest { id: "t".into(), history_length: Some(0), ..Default::default() };
    let Ok(Call::Get(get)) = request::get_task(zero) else { panic!("a get") };
    assert_eq!(get.history_length, Some(0), "zero is not unset where there is presence");
}
