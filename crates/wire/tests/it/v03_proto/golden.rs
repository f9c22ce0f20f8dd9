//! Captures of other software. The hexadecimal ones are written by version 1.3.0 of the Python SDK when it speaks 0.3.

use super::{call_value, send};
use crate::{mint, target};
use sabir_proto::{Call, CancelTask, DeletePush, GetPush, GetTask, ListPush, Subscribe, TaskRef, TaskState, Tenant};
use sabir_wire::Losses;
use sabir_wire::pb::a2a_v03 as pb;
use sabir_wire::v03::files::FileEncoding;
use sabir_wire::v03::grpc::request::Request;
use sabir_wire::v03::grpc::{reply, request};
use sabir_wire::v03::rest::{self, PathOperation, RouteMatch};
use serde_json::{Value, json};

fn bytes(hex: &str) -> Vec<u8> {
    (0..hex.len()).step_by(2).map(|i| u8::from_str_radix(&hex[i..i + 2], 16).unwrap()).collect()
}

fn decoded<M: prost::Message + Default>(hex: &str) -> M {
    M::decode(&*bytes(hex)).unwrap()
}

#[track_caller]
fn check_call(call: &Call, expected: &Value) {
    assert_eq!(call_value(call), *expected);
}

#[test]
fn a_send_of_the_python_sdk_is_read_over_both() {
    let mut losses = Losses::new();
    let expected = |returns: bool| {
        json!({
            "tenant": "",
            "message": { "messageId": "m1", "role": "ROLE_USER", "parts": [{ "text": "hi" }] },
            "configuration": {
                "acceptedOutputModes": ["text/plain"], "taskPushNotificationConfig": null,
                "historyLength": null, "returnImmediately": returns,
            },
            "metadata": null,
        })
    };
    // A send that waits, and one that polls: proto3 does not write the `false` of the latter.
    let waiting = "0a0c0a026d3120012a040a026869120e0a0a746578742f706c61696e2001";
    let polling = "0a0c0a026d3120012a040a026869120c0a0a746578742f706c61696e";
    check_call(&request::send(decoded(waiting), &mut losses).unwrap(), &expected(false));
    check_call(&request::send(decoded(polling), &mut losses).unwrap(), &expected(true));
    let body = br#"{"request": {"message_id": "m1", "role": "ROLE_USER", "content": [{"text": "hi"}]},
        "configuration": {"accepted_output_modes": ["text/plain"], "blocking": true}}"#;
    check_call(
        &rest::read_call(PathOperation::Send, "", body, FileEncoding::NamedBase64, &mut mint, &mut losses).unwrap(),
        &expected(false),
    );

    // The other direction: writing the request.
    let body = br#"{"message":{"messageId":"m1","role":"ROLE_USER","content":[{"text":"hi"}]}}"#;
    let call =
        rest::read_call(PathOperation::Send, "", body, FileEncoding::NamedBase64, &mut mint, &mut losses).unwrap();
    let written = rest::write_call(&call, FileEncoding::NamedBase64, &mut losses).unwrap();
    let sent = r#"{"message":{"messageId":"m1","role":"ROLE_USER","content":[{"text":"hi"}]},"configuration":{"blocking":true}}"#;
    assert_eq!((written.method.as_str(), &*written.path), ("POST", "/v1/message:send"));
    assert_eq!(String::from_utf8(written.body.unwrap()).unwrap(), sent);
    let Request::Send(message) = Request::of(&call, &mut losses).unwrap() else { panic!("a send") };
    assert_eq!(prost::Message::encode_to_vec(&message), bytes("0a0c0a026d3120012a040a02686912022001"));
    assert!(losses.is_empty());
}

#[test]
fn who_does_not_say_that_it_waits_is_answered_at_once() {
    let mut losses = Losses::new();
    let returns = |call: Call| match call {
        Call::Send(send) => send.configuration.return_immediately,
        _ => panic!("a send"),
    };
    let message = pb::Message { message_id: "m".into(), role: 1, ..Default::default() };
    let whole = pb::SendMessageRequest { request: Some(message), ..Default::default() };
    assert!(!returns(request::send(whole.clone(), &mut losses).unwrap()), "no configuration");
    let empty = pb::SendMessageRequest { configuration: Some(Default::default()), ..whole };
    assert!(returns(request::send(empty, &mut losses).unwrap()), "an unset boolean is false");
    let mut read = |message: &str, configuration: &str| {
        let body = format!(r#"{{"message":{message}{configuration}}}"#);
        returns(
            rest::read_call(
                PathOperation::Send,
                "",
                body.as_bytes(),
                FileEncoding::NamedBase64,
                &mut mint,
                &mut losses,
            )
            .unwrap(),
        )
    };
    let message = r#"{"messageId":"m","role":1,"content":[{"text":"hold on"}]}"#;
    for (configuration, expected) in [
        ("", false),
        (r#","configuration":null"#, false),
        (r#","configuration":{"blocking":true}"#, false),
        (r#","configuration":{"blocking":false}"#, true),
        (r#","configuration":{"blocking":null}"#, true),
        // The forms of the SDKs for JavaScript and for Python.
        (r#","configuration":{}"#, true),
        (r#","configuration":{"acceptedOutputModes":["text/plain","application/json"]}"#, true),
        (r#","configuration":{"accepted_output_modes":["text/plain","application/json"]}"#, true),
    ] {
        assert_eq!(read(message, configuration), expected, "{configuration}");
    }
    let other_shape = r#"{"kind":"message","messageId":"m","role":"user","parts":[{"kind":"text","text":"hold on"}]}"#;
    assert!(!read(other_shape, r#","configuration":{}"#), "JSON that is not protobuf's leaves nothing out");
}

#[test]
fn events_of_the_python_sdk_are_read_and_written() {
    let status = "1a3b0a03742d311203632d311a2d0805121c0a026d3220022a141a120a100a0e0a016e12091100000000000008401a0b08a0a0b2c4061080e59a772001";
    let artifact =
        "22340a03742d311203632d311a240a03612d311a016e2a1a12180a0b68747470733a2f2f782f791a09696d6167652f706e6720012801";
    let status_json = r#"{"statusUpdate":{"taskId":"t-1","contextId":"c-1","status":{"state":"TASK_STATE_CANCELLED","message":{"messageId":"m2","role":"ROLE_AGENT","content":[{"data":{"data":{"n":3}}}]},"timestamp":"2025-08-01T10:00:00.250Z"},"final":true}}"#;
    let artifact_json = r#"{"artifactUpdate":{"taskId":"t-1","contextId":"c-1","artifact":{"artifactId":"a-1","name":"n","parts":[{"file":{"fileWithUri":"https://x/y","mimeType":"image/png"}}]},"append":true,"lastChunk":true}}"#;
    for (hex, json, last) in [(status, status_json, true), (artifact, artifact_json, false)] {
        let mut losses = Losses::new();
        let heard = reply::read_event(decoded(hex), &mut losses).unwrap();
        assert_eq!(heard.last, last);
        assert_eq!(prost::Message::encode_to_vec(&reply::event(&heard.event, last, &mut losses)), bytes(hex));
        let mut out = Vec::new();
        rest::write_event(&heard.event, last, FileEncoding::NamedBase64, &mut losses, &mut out);
        assert_eq!(String::from_utf8(out).unwrap(), json);
        assert_eq!(
            rest::read_event(json.as_bytes(), FileEncoding::NamedBase64, &mut mint, &mut losses).unwrap(),
            heard
        );
        assert!(losses.is_empty());
    }
    // The same event in the SDK's own spelling.
    let snake = br#"{"status_update": {"task_id": "t-1", "status": {"state": 5, "update": {"message_id": "m2",
        "role": 2, "content": [{"text": "x"}]}}, "final": null}}"#;
    let heard = rest::read_event(snake, FileEncoding::NamedBase64, &mut mint, &mut Losses::new()).unwrap();
    assert!(!heard.last);
    assert_eq!(heard.event.state(), Some(TaskState::Canceled));
}

#[test]
fn an_exchange_that_was_captured() {
    let reply = r#"{"task":{"id":"t-1","contextId":"c-1","status":{"state":"TASK_STATE_COMPLETED","timestamp":"2025-08-01T10:00:00.000Z"},"artifacts":[{"artifactId":"a-1","parts":[{"text":"hi!"}]}],"history":[{"messageId":"m1","contextId":"c-1","taskId":"t-1","role":"ROLE_USER","content":[{"text":"hi"}]}]}}"#;
    let mut losses = Losses::new();
    let answer =
        rest::read_answer(&send(), reply.as_bytes(), FileEncoding::NamedBase64, &mut mint, &mut losses).unwrap();
    let mut out = Vec::new();
    rest::write_answer(&answer, FileEncoding::NamedBase64, &mut losses, &mut out).unwrap();
    assert_eq!(String::from_utf8(out).unwrap(), reply);

    let event =
        r#"{"statusUpdate":{"taskId":"t-1","contextId":"c-1","status":{"state":"TASK_STATE_COMPLETED"},"final":true}}"#;
    let heard = rest::read_event(event.as_bytes(), FileEncoding::NamedBase64, &mut mint, &mut losses).unwrap();
    let mut out = Vec::new();
    rest::write_event(&heard.event, heard.last, FileEncoding::NamedBase64, &mut losses, &mut out);
    assert_eq!(String::from_utf8(out).unwrap(), event);
    assert!(losses.is_empty());
}

#[test]
fn a_webhook_is_set_in_every_form_and_named_after_its_task_when_it_has_no_name() {
    let named = json!({
        "tenant": "", "taskId": "t-1", "id": "p-1", "url": "https://c.example/h", "token": "tok",
        "authentication": { "scheme": "Bearer", "credentials": "xyz" },
    });
    let mut losses = Losses::new();
    let hex = "0a097461736b732f742d311203702d311a570a257461736b732f742d312f707573684e6f74696669636174696f6e436f6e666967732f702d31122e0a03702d31121368747470733a2f2f632e6578616d706c652f681a03746f6b220d0a06426561726572120378797a";
    let call = request::create_push(decoded(hex), &mut losses).unwrap();
    check_call(&call, &named);
    let Request::CreatePush(message) = Request::of(&call, &mut losses).unwrap() else { panic!("a create") };
    assert_eq!(prost::Message::encode_to_vec(&message), bytes(hex));

    let read = |body: &str| {
        rest::read_call(
            PathOperation::CreatePush("t-1"),
            "",
            body.as_bytes(),
            FileEncoding::NamedBase64,
            &mut mint,
            &mut Losses::new(),
        )
    };
    let whole = r#"{"id":"p-1","url":"https://c.example/h","token":"tok","authentication":{"schemes":["Bearer"],"credentials":"xyz"}}"#;
    let name = r#""name":"tasks/t-1/pushNotificationConfigs/p-1""#;
    for body in [
        // The forms of Python, of JavaScript, and of Python in camel case.
        format!(r#"{{"parent":"tasks/t-1","config_id":"p-1","config":{{{name},"push_notification_config":{whole}}}}}"#),
        format!(r#"{{{name},"pushNotificationConfig":{whole}}}"#),
        format!(r#"{{"configId":"p-1","config":{{"pushNotificationConfig":{whole}}}}}"#),
    ] {
        check_call(&read(&body).unwrap(), &named);
    }
    assert!(read(&format!(r#"{{"configId":"p-2","config":{{"pushNotificationConfig":{whole}}}}}"#)).is_err());

    let unnamed = r#"{"parent":"tasks/t-1","config":{"name":"tasks/t-1/pushNotificationConfigs/None","push_notification_config":{"url":"http://x"}}}"#;
    check_call(&read(unnamed).unwrap(), &json!({ "tenant": "", "taskId": "t-1", "id": "t-1", "url": "http://x" }));
    assert!(losses.is_empty());
}

#[test]
fn every_call_has_its_path() {
    let odd = TaskRef::parse("a/b:cancel é").unwrap();
    let tenant = Tenant::none;
    let id = || "c/%2F d".to_owned();
    let page_token = "a b&c=d+%2F#?".to_owned();
    let list = ListPush { tenant: tenant(), task_id: odd.clone(), page_size: Some(5), page_token };
    let task = "/v1/tasks/a%2Fb%3Acancel%20%C3%A9";
    for (call, method, path, query) in [
        (
            Call::Get(GetTask { tenant: tenant(), id: odd.clone(), history_length: Some(2) }),
            "GET",
            "",
            "historyLength=2",
        ),
        (Call::Cancel(CancelTask { tenant: tenant(), id: odd.clone(), metadata: None }), "POST", ":cancel", ""),
        (Call::Subscribe(Subscribe { tenant: tenant(), id: odd.clone() }), "POST", ":subscribe", ""),
        (Call::ListPush(list), "GET", "/pushNotificationConfigs", "pageSize=5&pageToken=a%20b%26c%3Dd%2B%252F%23%3F"),
        (
            Call::GetPush(GetPush { tenant: tenant(), task_id: odd.clone(), id: id() }),
            "GET",
            "/pushNotificationConfigs/c%2F%252F%20d",
            "",
        ),
        (
            Call::DeletePush(DeletePush { tenant: tenant(), task_id: odd, id: id() }),
            "DELETE",
            "/pushNotificationConfigs/c%2F%252F%20d",
            "",
        ),
    ] {
        let mut losses = Losses::new();
        let written = rest::write_call(&call, FileEncoding::NamedBase64, &mut losses).unwrap();
        assert_eq!((written.method.as_str(), target(&written)), (method, (&*format!("{task}{path}"), query)));
        assert_eq!(written.body, None);
        let RouteMatch::Operation(route, _) = rest::route(&written.method, target(&written).0) else {
            panic!("{path}")
        };
        assert_eq!(rest::read_call(route, query, b"", FileEncoding::NamedBase64, &mut mint, &mut losses), Ok(call));
        assert!(losses.is_empty());
    }
}
