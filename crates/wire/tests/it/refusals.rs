//! Refusals: which error a request gets, with which text, and in which form for which client.

use crate::mint;
use sabir_proto::{Call, Fault, FaultCode, TaskRef};
use sabir_wire::pb::lf_a2a_v1 as pb;
use sabir_wire::v1::grpc::request::list_tasks;
use sabir_wire::v03::files::FileEncoding;
use sabir_wire::v03::rest::{self, PathOperation};
use sabir_wire::{Dialect, EndpointPath, ErrorResponse, Facts, Losses, Responder, decode_request};
use serde_json::{Value, json};

fn refused(facts: &Facts<'_>, body: &Value, events_only: bool) -> ErrorResponse {
    let mut unheard = decode_request(facts, body.to_string().as_bytes(), &mut mint).expect_err("a refusal");
    unheard.responder.set_events_only(events_only);
    unheard.responder.refuse(&unheard.fault)
}

fn error(refusal: &ErrorResponse) -> Value {
    let text = String::from_utf8(refusal.body.clone()).unwrap();
    let json =
        if refusal.is_stream { text.strip_prefix("data: ").expect("an event").trim_end().to_owned() } else { text };
    serde_json::from_str(&json).unwrap()
}

fn send(role: &Value) -> Value {
    let mut message = json!({"kind": "message", "messageId": "m", "parts": [{"kind": "text", "text": "hi"}]});
    if !role.is_null() {
        message["role"] = role.clone();
    }
    json!({"jsonrpc": "2.0", "id": 1, "method": "message/send", "params": {"message": message}})
}

#[test]
fn a_message_of_0_3_has_a_legal_role() {
    let root = Facts::default();
    for role in ["user", "agent"] {
        assert!(decode_request(&root, send(&json!(role)).to_string().as_bytes(), &mut mint).is_ok(), "{role}");
    }
    for role in [json!("banana"), json!("assistant"), json!("User"), json!("ROLE_USER"), json!(""), Value::Null] {
        let refusal = refused(&root, &send(&role), false);
        let error = error(&refusal);
        assert_eq!(error["error"]["code"], -32602, "{role}: {error}");
        assert!(error["error"]["message"].as_str().unwrap().contains("message.role"), "{role}: {error}");
    }
    // Servers of agent-native accept any word.
    let mut native = send(&json!("banana"));
    native["params"]["message"] = json!({"role": "banana", "parts": [{"type": "text", "text": "hi"}]});
    let facts = Facts { endpoint: EndpointPath::Native, ..Facts::default() };
    assert!(decode_request(&facts, native.to_string().as_bytes(), &mut mint).is_ok());
}

#[test]
fn an_unknown_method_without_an_id_is_an_unknown_method() {
    for (body, code) in [
        (json!({"jsonrpc": "2.0", "method": "tasks/fly"}), -32601),
        (json!({"jsonrpc": "2.0", "id": null, "method": "tasks/fly"}), -32601),
        (json!({"jsonrpc": "2.0", "id": 7, "method": "tasks/fly"}), -32601),
        (json!({"jsonrpc": "2.0", "id": {}, "method": "tasks/fly"}), -32600),
    ] {
        let error = error(&refused(&Facts::default(), &body, false));
        assert_eq!(error["error"]["code"], code, "{body}: {error}");
        let id = if body["id"].is_number() { json!(7) } else { Value::Null };
        assert_eq!(error["id"], id, "{body}");
    }
    let known = json!({"jsonrpc": "2.0", "method": "message/send", "params": {"message":
        {"kind": "message", "messageId": "m", "role": "user", "parts": []}}});
    assert_eq!(error(&refused(&Facts::default(), &known, false))["error"]["code"], -32600, "a known one needs an id");
}

#[test]
fn a_stream_of_1_0_that_fails_is_one_event_for_clients_that_read_nothing_else() {
    let v1 = Facts { version: Some("1.0"), ..Facts::default() };
    for method in ["SendStreamingMessage", "SubscribeToTask"] {
        let body = json!({"jsonrpc": "2.0", "id": "a", "method": method, "params": {}});
        for events_only in [true, false] {
            let refusal = refused(&v1, &body, events_only);
            assert_eq!((refusal.status, refusal.is_stream), (200, events_only), "{method}");
            let error = error(&refusal);
            assert_eq!((&error["id"], &error["error"]["code"]), (&json!("a"), &json!(-32602)), "{method}: {error}");
        }
    }
    let body = json!({"jsonrpc": "2.0", "id": "a", "method": "SendMessage", "params": {}});
    assert!(!refused(&v1, &body, true).is_stream, "no stream was asked for");
}

#[test]
fn errors_before_1_0_name_the_task_that_is_not_there() {
    let fault = Fault::TaskNotFound(TaskRef::parse("task-unknown").unwrap());
    for dialect in [Dialect::V01, Dialect::V02, Dialect::V03] {
        let refusal = Responder::new(dialect, Some("1".into())).refuse(&fault);
        let expected = json!({"jsonrpc": "2.0", "id": 1, "error":
            {"code": -32001, "message": "Task not found", "data": {"taskId": "task-unknown"}}});
        assert_eq!(error(&refusal), expected, "{dialect:?}");
    }
}

#[test]
fn a_refusal_of_the_java_sdk_is_the_error_that_its_class_names() {
    let refusal = |class: &str| format!(r#"{{"error":"io.a2a.spec.{class}","message":"in its words"}}"#);
    let body = br#"{"message":{"messageId":"m","role":"ROLE_USER","content":[{"text":"hi"}]}}"#;
    let call =
        rest::read_call(PathOperation::Send, "", body, FileEncoding::Base64, &mut mint, &mut Losses::new()).unwrap();
    for (class, code) in [
        ("InvalidParamsError", FaultCode::InvalidParams),
        ("TaskNotFoundError", FaultCode::TaskNotFound),
        ("ContentTypeNotSupportedError", FaultCode::ContentTypeNotSupported),
        ("InternalError", FaultCode::Internal),
    ] {
        let expected = Fault::Peer { code, message: "in its words".into(), task: None };
        let text = refusal(class);
        for status in [404, 422, 500] {
            assert_eq!(rest::read_error(status, text.as_bytes()), expected, "{class} {status}");
        }
        // Also with a successful status, and as an event.
        let answer = rest::read_answer(&call, text.as_bytes(), FileEncoding::Base64, &mut mint, &mut Losses::new());
        assert_eq!(answer, Err(expected.clone()), "{class}");
        let event = rest::read_event(text.as_bytes(), FileEncoding::Base64, &mut mint, &mut Losses::new());
        assert_eq!(event.unwrap_err(), expected, "{class}");
    }
    let unknown = r#"{"error":"org.example.OddError","message":"words"}"#;
    let answer = rest::read_answer(&call, unknown.as_bytes(), FileEncoding::Base64, &mut mint, &mut Losses::new());
    assert_eq!(answer.unwrap_err().code(), FaultCode::InvalidAgentResponse, "a class of another package says nothing");
}

#[test]
fn a_page_of_no_size_is_a_page_of_any_size_over_grpc() {
    for (sent, read) in [(None, None), (Some(0), None), (Some(5), Some(5)), (Some(-1), Some(-1))] {
        let request = pb::ListTasksRequest { page_size: sent, ..pb::ListTasksRequest::default() };
        let Ok(Call::List(list)) = list_tasks(request) else { panic!("a list") };
        assert_eq!(list.page_size, read, "{sent:?}");
    }
}
