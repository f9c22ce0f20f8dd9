//! Losses, refusals, and the deviations that are accepted.

use super::{call_value, get};
use crate::mint;
use sabir_proto::{
    Call, Fault, GetTask, Json, ListTasks, Message, MessageId, Part, Role, TaskState, Tenant, WireReply, WireTask,
};
use sabir_wire::pb::a2a_v03 as pb;
use sabir_wire::v03::files::FileEncoding;
use sabir_wire::v03::grpc::request::Request;
use sabir_wire::v03::grpc::{reply, request};
use sabir_wire::v03::rest::{self, PathOperation};
use sabir_wire::{LossKind, Losses};
use serde_json::json;

#[track_caller]
fn lost(losses: &Losses, expected: &[(LossKind, &str)]) {
    let notes: Vec<_> = losses.notes().iter().map(|loss| (loss.kind, &*loss.path)).collect();
    assert_eq!(notes, expected);
}

#[test]
fn every_loss_has_its_name() {
    let message: Message = serde_json::from_str(
        r#"{"messageId":"m","role":"ROLE_AGENT","referenceTaskIds":["r"],"parts":[
            {"text":"t","mediaType":"text/x"},{"raw":"AAEC","filename":"f","mediaType":"x/y"},
            {"url":"u","metadata":{}},{"data":[1],"filename":"f","metadata":{}},{"data":{"n":9007199254740993}},
            {"data":9007199254740993,"metadata":{"n":9007199254740993}},{"data":{},"metadata":{"data_part_compat":1}}]}"#,
    )
    .unwrap();
    let common = [
        (LossKind::PartAttribute, "message.parts[0].mediaType"),
        (LossKind::PartAttribute, "message.parts[3].filename"),
        (LossKind::Metadata, "message.parts[3].metadata"),
    ];
    let rounded = [
        (LossKind::Part, "message.parts[4].data"),
        (LossKind::Part, "message.parts[5].data"),
        (LossKind::Metadata, "message.parts[5].metadata"),
    ];
    let rest_of_them =
        [(LossKind::Metadata, "message.parts[6].metadata"), (LossKind::References, "message.referenceTaskIds")];
    let (mut grpc, mut rest) = (Losses::new(), Losses::new());
    reply::sent_message(&message, &mut grpc);
    lost(&grpc, &[&common[..], &rounded, &rest_of_them].concat());
    let answer = WireReply::SentMessage(Box::new(message));
    rest::write_answer(&answer, FileEncoding::NamedBase64, &mut rest, &mut Vec::new()).unwrap();
    lost(&rest, &[&common[..], &rest_of_them].concat());

    let none = Call::Get(GetTask { history_length: Some(0), ..as_get(get()) });
    let mut losses = Losses::new();
    Request::of(&none, &mut losses).unwrap();
    lost(&losses, &[(LossKind::Configuration, "historyLength")]);
}

fn as_get(call: Call) -> GetTask {
    match call {
        Call::Get(get) => get,
        _ => panic!("a get"),
    }
}

#[test]
fn states_without_a_twin_are_shown_as_their_nearest() {
    let task = r#"{"id":"t","status":{"state":"TASK_STATE_TRANSFERRED"}}"#;
    let task: WireTask = serde_json::from_str(task).unwrap();
    let state = [(LossKind::State, "status.state")];
    let mut losses = Losses::new();
    assert_eq!(reply::task(&task, &mut losses).status.unwrap().state, 3);
    lost(&losses, &state);
    let (mut losses, mut out) = (Losses::new(), Vec::new());
    rest::write_answer(&WireReply::Task(Box::new(task)), FileEncoding::NamedBase64, &mut losses, &mut out).unwrap();
    assert_eq!(String::from_utf8(out).unwrap(), r#"{"id":"t","status":{"state":"TASK_STATE_COMPLETED"}}"#);
    lost(&losses, &state);
}

#[test]
fn states_that_nobody_knows_are_unspecified() {
    // The `unknown` of 0.3 has a name there; a state that 0.3 does not have is lost.
    let (nothing, state) = ([], [(LossKind::State, "status.state")]);
    for (number, expected) in [(0, &nothing[..]), (9, &state), (-1, &state)] {
        let status = pb::TaskStatus { state: number, ..Default::default() };
        let task = pb::Task { id: "t".into(), status: Some(status), ..Default::default() };
        let mut losses = Losses::new();
        let task = reply::read_task(task, &mut losses).unwrap();
        assert_eq!(task.status.state, TaskState::Unspecified);
        lost(&losses, expected);
        assert_eq!(reply::task(&task, &mut Losses::new()).status.unwrap().state, 0);
    }
    for (text, expected) in [
        ("{}", &nothing[..]),
        (r#"{"state":null}"#, &nothing),
        (r#"{"state":0}"#, &nothing),
        (r#"{"state":"TASK_STATE_UNSPECIFIED"}"#, &nothing),
        (r#"{"state":9}"#, &state),
        (r#"{"state":-1}"#, &state),
        (r#"{"state":"TASK_STATE_PAUSED"}"#, &state),
        (r#"{"state":"TASK_STATE_TRANSFERRED"}"#, &state),
    ] {
        let body = format!(r#"{{"id":"t","status":{text}}}"#);
        let mut losses = Losses::new();
        let WireReply::Task(task) =
            rest::read_answer(&get(), body.as_bytes(), FileEncoding::NamedBase64, &mut mint, &mut losses).unwrap()
        else {
            panic!()
        };
        assert_eq!(task.status.state, TaskState::Unspecified, "{text}");
        lost(&losses, expected);
    }
    for text in ["\"working\"", "[]", "1.5"] {
        let body = format!(r#"{{"id":"t","status":{{"state":{text}}}}}"#);
        assert!(
            rest::read_answer(&get(), body.as_bytes(), FileEncoding::NamedBase64, &mut mint, &mut Losses::new())
                .is_err(),
            "{text}"
        );
    }
}

#[test]
fn of_several_schemes_the_first_counts() {
    let path = "configuration.taskPushNotificationConfig.authentication.scheme";
    let body = br#"{"message":{"messageId":"m","role":1},"configuration":{"pushNotification":
        {"url":"u","authentication":{"schemes":["Bearer","Basic"]}}}}"#;
    let mut losses = Losses::new();
    rest::read_call(PathOperation::Send, "", body, FileEncoding::NamedBase64, &mut mint, &mut losses).unwrap();
    lost(&losses, &[(LossKind::PushAuthentication, path)]);
    let info = pb::AuthenticationInfo { schemes: vec!["A".into(), "B".into()], ..Default::default() };
    let config = pb::PushNotificationConfig { url: "u".into(), authentication: Some(info), ..Default::default() };
    let config = pb::TaskPushNotificationConfig {
        name: "tasks/t/pushNotificationConfigs/c".into(),
        push_notification_config: Some(config),
    };
    let mut losses = Losses::new();
    let (task, config) = reply::read_push(config, &mut losses).unwrap();
    assert_eq!((&*task.to_string(), config.id.as_deref()), ("t", Some("c")));
    assert_eq!(config.authentication.unwrap().scheme, "A");
    lost(&losses, &[(LossKind::PushAuthentication, "authentication.scheme")]);
}

#[test]
fn a_wrong_request_is_told_which_member_is_wrong() {
    let mut losses = Losses::new();
    let field = |outcome: Result<Call, Fault>| match outcome.unwrap_err() {
        Fault::InvalidParams(wrong) => wrong[0].field.clone(),
        other => panic!("{other}"),
    };
    let message = || pb::Message { message_id: "m".into(), role: 1, ..Default::default() };
    let send = |message: pb::Message| pb::SendMessageRequest { request: Some(message), ..Default::default() };
    for (request, expected) in [
        (pb::SendMessageRequest::default(), "message"),
        (send(pb::Message::default()), "message.messageId"),
        (send(pb::Message { role: 0, ..message() }), "message.role"),
        (send(pb::Message { role: 7, ..message() }), "message.role"),
        (send(pb::Message { content: vec![pb::Part::default()], ..message() }), "message.content[0]"),
    ] {
        assert_eq!(field(request::send(request, &mut losses)), expected);
    }
    assert_eq!(field(request::get_task(Default::default(), &mut losses)), "name");
    assert_eq!(field(request::list_push(Default::default(), &mut losses)), "parent");
    let create = pb::CreateTaskPushNotificationConfigRequest { parent: "tasks/t".into(), ..Default::default() };
    assert_eq!(field(request::create_push(create, &mut losses)), "config");

    for (body, expected) in [
        (r#"{}"#, ""),
        (r#"{"message":null}"#, "message"),
        (r#"{"message":["m","c","t",1]}"#, "message"),
        (r#"{"message":{"messageId":"","role":1}}"#, "message.messageId"),
        (r#"{"message":{"messageId":"m","role":"user"}}"#, "message.role"),
        (r#"{"message":{"messageId":"m","role":1,"content":[{"text":"a"},{}]}}"#, "message.content[1]"),
        (r#"{"message":{"messageId":"m","role":1,"content":[{"text":"a","data":{}}]}}"#, "message.content[0]"),
        (r#"{"message":{"messageId":"m","role":1,"content":[{"data":{"k":1}}]}}"#, "message.content[0].data.k"),
        (r#"{"message":{"messageId":"m","role":1,"content":[{"file":{}}]}}"#, "message.content[0]"),
        (r#"{"message":{"messageId":"m","role":1,"content":[{"file":{"fileWithBytes":"%"}}]}}"#, "message.content[0]"),
        (
            r#"{"message":{"messageId":"m","role":1},"configuration":{"historyLength":1.5}}"#,
            "configuration.historyLength",
        ),
        (
            r#"{"message":{"messageId":"m","role":1},"configuration":{"pushNotification":{"url":""}}}"#,
            "configuration.pushNotification.url",
        ),
        // The JSON-Schema shape, read by its own rules.
        (r#"{"message":{"kind":"message","messageId":"m","role":"user","parts":[{"text":"x"}]}}"#, "message.parts[0]"),
        (r#"{"message":{"messageId":"m","role":1,"parts":[]}}"#, "message.role"),
    ] {
        assert_eq!(
            field(rest::read_call(
                PathOperation::Send,
                "",
                body.as_bytes(),
                FileEncoding::NamedBase64,
                &mut mint,
                &mut losses
            )),
            expected,
            "{body}"
        );
    }
    for body in [&b"{"[..], b"", b"\xff"] {
        assert!(matches!(
            rest::read_call(PathOperation::Send, "", body, FileEncoding::NamedBase64, &mut mint, &mut losses),
            Err(Fault::Parse(_))
        ));
    }
    assert!(matches!(
        rest::write_call(&Call::List(ListTasks::default()), FileEncoding::NamedBase64, &mut losses),
        Err(Fault::UnsupportedOperation(_))
    ));
}

#[test]
fn what_later_sdks_added_to_parts_is_read_over_both() {
    let body = br#"{"message":{"message_id":"m","role":1,"content":[
        {"file":{"file_with_bytes":"AAEC","mime_type":"x/y","name":"f"}},
        {"data":{"data":{"value":3}},"metadata":{"data_part_compat":true}},
        {"data":{"data":{"value":[]}},"metadata":{"data_part_compat":true,"k":1}},
        {"data":{"data":{"value":3}},"metadata":{"k":1}}]}}"#;
    let call = rest::read_call(PathOperation::Send, "", body, FileEncoding::NamedBase64, &mut mint, &mut Losses::new())
        .unwrap();
    let expected = json!([
        { "raw": "AAEC", "filename": "f", "mediaType": "x/y" },
        { "data": 3 },
        { "data": [], "metadata": { "k": 1 } },
        { "data": { "value": 3 }, "metadata": { "k": 1 } },
    ]);
    assert_eq!(call_value(&call)["message"]["parts"], expected);

    let mut losses = Losses::new();
    let Request::Send(message) = Request::of(&call, &mut losses).unwrap() else { panic!("a send") };
    let content = &message.request.as_ref().unwrap().content;
    assert_eq!(content.iter().filter(|part| part.metadata.is_some()).count(), 3, "two marks, and one of its own");
    assert_eq!(call_value(&request::send(message, &mut losses).unwrap())["message"]["parts"], expected);
    assert!(losses.is_empty());
}

#[test]
fn a_card_in_the_open_api_form_is_not_read_as_one_without_security() {
    let call = Call::ExtendedCard { tenant: Tenant::none() };
    let read = |body: &str| {
        rest::read_answer(&call, body.as_bytes(), FileEncoding::NamedBase64, &mut mint, &mut Losses::new())
    };
    for body in [
        r#"{"name":"n","url":"u","securitySchemes":{"b":{"type":"http","scheme":"bearer"}},"security":[{"b":[]}]}"#,
        r#"{"name":"n","url":"u","security":[{"b":["x"]}]}"#,
        r#"{"name":"n","url":"u","skills":[{"id":"s","security":[{"b":["x"]}]}]}"#,
    ] {
        let Ok(WireReply::Card(card)) = read(body) else { panic!("{body}") };
        let asked = card.skills.iter().flat_map(|s| &s.security_requirements).chain(&card.security_requirements);
        assert_eq!(asked.flat_map(|r| r.schemes.keys()).collect::<Vec<_>>(), ["b"], "{body}");
    }
    let Ok(WireReply::Card(card)) = read(
        r#"{"name":"n","url":"u","security":[{}],"icon_url":"i","additional_interfaces":[
            {"url":"u","transport":"JSONRPC"},{"url":"v","transport":"GRPC"}],
            "security_schemes":{"new":{"quantum":{}},"o":{"oauth2_security_scheme":{"flows":{}}}}}"#,
    ) else {
        panic!("a card")
    };
    let interfaces: Vec<_> =
        card.supported_interfaces.iter().map(|i| (&*i.url, &*i.protocol_binding, &*i.protocol_version)).collect();
    assert_eq!(interfaces, [("u", "JSONRPC", "0.3.0"), ("v", "GRPC", "0.3.0")]);
    assert_eq!((card.icon_url.as_deref(), card.security_schemes.len()), (Some("i"), 0));
}

#[test]
fn data_as_deep_as_json_may_be_is_written_and_does_not_overflow() {
    let deep = format!("{}{}", "[".repeat(64), "]".repeat(64));
    let part = Part::data(Json::parse(&deep).unwrap());
    let mut message = Message::text(MessageId::parse("m").unwrap(), Role::User, "x");
    message.parts = vec![part];
    let mut losses = Losses::new();
    let _ = reply::sent_message(&message, &mut losses);
    rest::write_answer(
        &WireReply::SentMessage(Box::new(message)),
        FileEncoding::NamedBase64,
        &mut losses,
        &mut Vec::new(),
    )
    .unwrap();
    assert!(losses.is_empty());
}
