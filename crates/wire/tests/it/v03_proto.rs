//! A2A 0.3 in the shape of its protobuf, over gRPC and REST: everything arrives, except for the losses that are noted.
//!
//! | Module | What is there |
//! |---|---|
//! | here | written values are read again, the same except for their losses |
//! | `golden` | bytes that the Python SDK writes, and an exchange that was captured |
//! | `files` | the bytes of a file, as different SDKs write them |
//! | `limits` | what is lost, what is refused, which deviations are accepted |
//! | `oracle` | another implementation of protobuf's JSON reads ours and is read by us |
//! | `noise` | no input causes a panic |
//!
//! Properties run on a thousand values, or on as many as `SABIR_CASES` says, and fail when a kind of value never
//! occurred.

mod files;
mod golden;
mod limits;
mod noise;
mod oracle;

use crate::mint;
use crate::{any, target};
use proptest::prelude::*;
use proptest::strategy::BoxedStrategy;
use proptest::test_runner::{Config, TestRunner};
use sabir_proto::card::{OAuthFlows, SecurityScheme};
use sabir_proto::{
    AgentCard, Call, Content, Event, Fault, FrozenEvent, FrozenTask, GetTask, Part, PushConfig, PushPage, Seq, TaskRef,
    Tenant, View, WireEvent, WireReply, WireTask,
};
use sabir_wire::Losses;
use sabir_wire::v03::files::FileEncoding;
use sabir_wire::v03::grpc::request::Request;
use sabir_wire::v03::grpc::{reply, request};
use sabir_wire::v03::rest::{self, PathOperation, RouteMatch};
use serde_json::{Value, json};
use std::cell::RefCell;
use std::collections::BTreeSet;
use std::fmt::Debug;

fn cases() -> Config {
    let cases = std::env::var("SABIR_CASES").ok().and_then(|n| n.parse().ok()).unwrap_or(1000);
    Config { cases, failure_persistence: None, ..Config::default() }
}

/// The kinds of values that a property was run on.
#[derive(Default)]
struct SeenKinds(RefCell<BTreeSet<&'static str>>);

impl SeenKinds {
    fn note(&self, kind: &'static str) {
        self.0.borrow_mut().insert(kind);
    }

    fn parts(&self, parts: &[Part]) {
        for part in parts {
            self.note(match &part.content {
                Content::Text(_) => "text",
                Content::Raw(_) => "raw",
                Content::Url(_) => "url",
                Content::Data(json) if json.as_str().starts_with('{') => "object",
                Content::Data(_) => "other data",
            });
        }
    }

    fn task(&self, task: &WireTask) {
        self.note(task.status.state.name());
        self.note(if task.context_id.is_some() { "context" } else { "no context" });
        self.note(if matches!(task.id, TaskRef::Id(_)) { "id" } else { "alias" });
        task.history.iter().for_each(|message| self.parts(&message.parts));
        task.artifacts.iter().for_each(|artifact| self.parts(&artifact.parts));
    }
}

const PARTS: [&str; 5] = ["text", "raw", "url", "object", "other data"];
const TASKS: [&str; 17] = [
    "text",
    "raw",
    "url",
    "object",
    "other data",
    "context",
    "no context",
    "id",
    "alias",
    "TASK_STATE_SUBMITTED",
    "TASK_STATE_WORKING",
    "TASK_STATE_COMPLETED",
    "TASK_STATE_FAILED",
    "TASK_STATE_CANCELED",
    "TASK_STATE_INPUT_REQUIRED",
    "TASK_STATE_REJECTED",
    "TASK_STATE_AUTH_REQUIRED",
];

fn try_all<T: Debug>(
    strategy: &BoxedStrategy<T>,
    kinds: &[&'static str],
    check: impl Fn(T, &SeenKinds) -> Result<(), TestCaseError>,
) {
    let seen = SeenKinds::default();
    let outcome = TestRunner::new(cases()).run(strategy, |value| check(value, &seen));
    if let Err(failure) = outcome {
        panic!("{failure}");
    }
    let never: Vec<_> = kinds.iter().filter(|kind| !seen.0.borrow().contains(*kind)).collect();
    assert!(never.is_empty(), "never tried on {never:?}");
}

/// The value that the other side decodes.
fn sent_over<M: prost::Message + Default>(message: &M) -> M {
    M::decode(&*message.encode_to_vec()).unwrap()
}

/// Removes the value at a path such as `history[0].parts[1].data`.
fn mask(value: &mut Value, path: &str) {
    let path = path.replace('[', ".[");
    let mut steps: Vec<&str> = path.split('.').collect();
    let last = steps.pop().unwrap();
    let index = |step: &str| step.strip_prefix('[')?.strip_suffix(']')?.parse::<usize>().ok();
    let found = steps.into_iter().try_fold(value, |value, step| match index(step) {
        Some(i) => value.get_mut(i),
        None => value.get_mut(step),
    });
    match (found, index(last)) {
        (Some(Value::Array(items)), Some(i)) if i < items.len() => items[i] = Value::Null,
        (Some(Value::Object(members)), None) => drop(members.remove(last)),
        _ => {}
    }
}

/// Checks that both are the same, except for the losses.
#[track_caller]
fn same(mut sent: Value, mut got: Value, losses: &Losses) -> Result<(), TestCaseError> {
    prop_assert_eq!(losses.omitted(), 0, "more losses than notes");
    for loss in losses.notes() {
        mask(&mut sent, &loss.path);
        mask(&mut got, &loss.path);
    }
    prop_assert_eq!(sent, got, "{:?}", losses.notes());
    Ok(())
}

fn value<T: serde::Serialize>(value: &T) -> Value {
    serde_json::to_value(value).unwrap()
}

/// A call as 1.0 writes it.
fn call_value(call: &Call) -> Value {
    let tenant = call.tenant().as_str();
    match call {
        Call::Send(send) | Call::Stream(send) => {
            let configuration = &send.configuration;
            json!({
                "tenant": tenant,
                "message": send.message,
                "configuration": {
                    "acceptedOutputModes": configuration.accepted_output_modes,
                    "taskPushNotificationConfig": configuration.task_push_notification_config,
                    "historyLength": configuration.history_length,
                    "returnImmediately": configuration.return_immediately,
                },
                "metadata": send.metadata,
            })
        }
        Call::Get(get) => json!({ "tenant": tenant, "id": get.id, "historyLength": get.history_length }),
        Call::Cancel(cancel) => json!({ "tenant": tenant, "id": cancel.id, "metadata": cancel.metadata }),
        Call::Subscribe(subscribe) => json!({ "tenant": tenant, "id": subscribe.id }),
        Call::CreatePush { task, config, .. } => {
            let mut flat = value(config);
            flat["tenant"] = tenant.into();
            flat["taskId"] = value(task);
            flat
        }
        Call::GetPush(get) => json!({ "tenant": tenant, "taskId": get.task_id, "id": get.id }),
        Call::DeletePush(delete) => json!({ "tenant": tenant, "taskId": delete.task_id, "id": delete.id }),
        Call::ListPush(list) => {
            let (size, token) = (list.page_size, &list.page_token);
            json!({ "tenant": tenant, "taskId": list.task_id, "pageSize": size, "pageToken": token })
        }
        Call::ExtendedCard { .. } => json!({ "tenant": tenant }),
        Call::List(_) => unreachable!("0.3 has no lists"),
    }
}

fn their_task(task: &sabir_proto::Task) -> WireTask {
    FrozenTask::freeze(task).to_wire(View::WHOLE).unwrap()
}

/// Tasks with any id, with a context or without.
fn tasks() -> BoxedStrategy<WireTask> {
    let alias = proptest::option::of("[^\\p{Cc}]{1,12}");
    (any::task(0), alias, proptest::bool::ANY)
        .prop_map(|(task, alias, lonely)| {
            let mut task = their_task(&task);
            if let Some(alias) = alias {
                task.id = TaskRef::parse(&alias).unwrap();
            }
            task.context_id = task.context_id.filter(|_| !lonely);
            task
        })
        .boxed()
}

fn events() -> BoxedStrategy<(WireEvent, bool)> {
    let shown = |event: Event| FrozenEvent::freeze(Seq(1), &event).to_wire().unwrap();
    (any::event(0).prop_map(shown), proptest::bool::ANY).boxed()
}

fn pushes() -> BoxedStrategy<(TaskRef, PushConfig)> {
    ("[^\\p{Cc}]{1,12}".prop_map(|id| TaskRef::parse(&id).unwrap()), any::push()).boxed()
}

fn read_grpc(request: Request, losses: &mut Losses) -> Result<Call, Fault> {
    match request {
        Request::Send(r) => request::send(sent_over(&r), losses),
        Request::Stream(r) => request::stream(sent_over(&r), losses),
        Request::Get(r) => request::get_task(sent_over(&r), losses),
        Request::Cancel(r) => request::cancel_task(sent_over(&r), losses),
        Request::Subscribe(r) => request::subscribe(sent_over(&r), losses),
        Request::CreatePush(r) => request::create_push(sent_over(&r), losses),
        Request::GetPush(r) => request::get_push(sent_over(&r), losses),
        Request::ListPush(r) => request::list_push(sent_over(&r), losses),
        Request::DeletePush(r) => request::delete_push(sent_over(&r), losses),
        Request::ExtendedCard(r) => request::extended_card(sent_over(&r), losses),
    }
}

const OPERATIONS: [&str; 11] = [
    "SendMessage",
    "SendStreamingMessage",
    "GetTask",
    "ListTasks",
    "CancelTask",
    "SubscribeToTask",
    "CreateTaskPushNotificationConfig",
    "GetTaskPushNotificationConfig",
    "ListTaskPushNotificationConfigs",
    "DeleteTaskPushNotificationConfig",
    "GetExtendedAgentCard",
];

/// Whether a resource name of 0.3 can hold the ids of a call.
fn has_names(call: &Call) -> bool {
    let plain = |id: &TaskRef| !id.to_string().contains('/');
    match call {
        Call::Get(call) => plain(&call.id),
        Call::Cancel(call) => plain(&call.id),
        Call::Subscribe(call) => plain(&call.id),
        Call::CreatePush { task, .. } => plain(task),
        Call::ListPush(call) => plain(&call.task_id),
        Call::GetPush(call) => plain(&call.task_id) && !call.id.contains('/'),
        Call::DeletePush(call) => plain(&call.task_id) && !call.id.contains('/'),
        Call::Send(_) | Call::Stream(_) | Call::ExtendedCard { .. } => true,
        Call::List(_) => false,
    }
}

fn note_call(call: &Call, seen: &SeenKinds) {
    seen.note(call.operation());
    if let Call::Send(send) | Call::Stream(send) = call {
        seen.parts(&send.message.parts);
        seen.note(if send.configuration.return_immediately { "returns" } else { "waits" });
    }
}

#[test]
fn calls_over_grpc() {
    let kinds = [&OPERATIONS[..], &PARTS, &["returns", "waits"]].concat();
    try_all(&any::call(), &kinds, |call, seen| {
        note_call(&call, seen);
        let mut losses = Losses::new();
        match Request::of(&call, &mut losses) {
            Ok(request) => {
                prop_assert!(has_names(&call));
                let back = read_grpc(request, &mut losses).unwrap();
                prop_assert_eq!(back.operation(), call.operation());
                same(call_value(&call), call_value(&back), &losses)
            }
            Err(fault) => {
                prop_assert!(!has_names(&call), "{}", fault);
                prop_assert!(losses.is_empty());
                Ok(())
            }
        }
    });
}

#[test]
fn calls_over_rest() {
    let kinds = [&OPERATIONS[..], &PARTS, &["returns", "waits"]].concat();
    try_all(&any::call(), &kinds, |call, seen| {
        note_call(&call, seen);
        let mut losses = Losses::new();
        let Ok(request) = rest::write_call(&call, FileEncoding::NamedBase64, &mut losses) else {
            prop_assert!(matches!(call, Call::List(_)));
            return Ok(());
        };
        let ((path, query), body) = (target(&request), request.body.as_deref().unwrap_or_default());
        let RouteMatch::Operation(route, _) = rest::route(&request.method, path) else {
            return Err(TestCaseError::fail(request.path));
        };
        let back = rest::read_call(route, query, body, FileEncoding::NamedBase64, &mut mint, &mut losses).unwrap();
        prop_assert_eq!(back.operation(), call.operation());
        same(call_value(&call), call_value(&back), &losses)
    });
}

#[test]
fn tasks_over_grpc() {
    try_all(&tasks(), &TASKS, |task, seen| {
        seen.task(&task);
        let mut losses = Losses::new();
        let back = reply::read_task(sent_over(&reply::task(&task, &mut losses)), &mut losses).unwrap();
        same(value(&task), value(&back), &losses)?;

        let mut losses = Losses::new();
        let back = reply::read_sent(sent_over(&reply::sent_task(&task, &mut losses)), &mut losses).unwrap();
        let WireReply::SentTask(back) = back else { panic!("a task") };
        same(json!({ "task": task }), json!({ "task": back }), &losses)
    });
}

fn answer_over_rest(call: &Call, answer: &WireReply, losses: &mut Losses) -> WireReply {
    let mut out = Vec::new();
    rest::write_answer(answer, FileEncoding::NamedBase64, losses, &mut out).unwrap();
    rest::read_answer(call, &out, FileEncoding::NamedBase64, &mut mint, losses).unwrap()
}

fn get() -> Call {
    Call::Get(GetTask { tenant: Tenant::none(), id: TaskRef::parse("t").unwrap(), history_length: None })
}

fn send() -> Call {
    let body = br#"{"message":{"messageId":"m","role":1}}"#;
    rest::read_call(PathOperation::Send, "", body, FileEncoding::NamedBase64, &mut mint, &mut Losses::new()).unwrap()
}

#[test]
fn tasks_over_rest() {
    try_all(&tasks(), &TASKS, |task, seen| {
        seen.task(&task);
        let mut losses = Losses::new();
        let back = answer_over_rest(&get(), &WireReply::Task(Box::new(task.clone())), &mut losses);
        let WireReply::Task(back) = back else { panic!("a task") };
        same(value(&task), value(&back), &losses)?;

        let mut losses = Losses::new();
        let back = answer_over_rest(&send(), &WireReply::SentTask(Box::new(task.clone())), &mut losses);
        let WireReply::SentTask(back) = back else { panic!("a task") };
        same(json!({ "task": task }), json!({ "task": back }), &losses)
    });
}

#[test]
fn events_over_both() {
    let kinds = ["Task", "Message", "StatusUpdate", "ArtifactUpdate", "last", "more"];
    try_all(&events(), &kinds, |(event, last), seen| {
        seen.note(match &event {
            Event::Task(_) => "Task",
            Event::Message(_) => "Message",
            Event::StatusUpdate(_) => "StatusUpdate",
            Event::ArtifactUpdate(_) => "ArtifactUpdate",
        });
        seen.note(if last { "last" } else { "more" });
        let expected = match &event {
            Event::StatusUpdate(_) => last,
            Event::Message(_) => true,
            Event::Task(_) | Event::ArtifactUpdate(_) => false,
        };
        let mut losses = Losses::new();
        let heard = reply::read_event(sent_over(&reply::event(&event, last, &mut losses)), &mut losses).unwrap();
        prop_assert_eq!(heard.last, expected);
        same(value(&event), value(&heard.event), &losses)?;

        let (mut losses, mut out) = (Losses::new(), Vec::new());
        rest::write_event(&event, last, FileEncoding::NamedBase64, &mut losses, &mut out);
        prop_assert!(!out.contains(&b'\n'), "one line of a stream");
        let heard = rest::read_event(&out, FileEncoding::NamedBase64, &mut mint, &mut losses).unwrap();
        prop_assert_eq!(heard.last, expected);
        same(value(&event), value(&heard.event), &losses)
    });
}

#[test]
fn messages_over_both() {
    try_all(&any::message(0), &PARTS, |message, seen| {
        seen.parts(&message.parts);
        let check = |back: WireReply, losses: &Losses| {
            let WireReply::SentMessage(back) = back else { panic!("a message") };
            same(json!({ "message": message }), json!({ "message": back }), losses)
        };
        let mut losses = Losses::new();
        let back = reply::read_sent(sent_over(&reply::sent_message(&message, &mut losses)), &mut losses).unwrap();
        check(back, &losses)?;

        let mut losses = Losses::new();
        let answer = WireReply::SentMessage(Box::new(message.clone()));
        check(answer_over_rest(&send(), &answer, &mut losses), &losses)
    });
}

fn call_of(operation: &str, task: &TaskRef) -> Call {
    let id = task.to_string().replace('/', "%2F");
    let (route, body) = match operation {
        "list" => (PathOperation::ListPush(&id), &b""[..]),
        "create" => (PathOperation::CreatePush(&id), &br#"{"config":{"pushNotificationConfig":{"url":"u"}}}"#[..]),
        _ => (PathOperation::DeletePush(&id, "c"), &b""[..]),
    };
    rest::read_call(route, "", body, FileEncoding::NamedBase64, &mut mint, &mut Losses::new()).unwrap()
}

#[test]
fn push_configurations_over_both() {
    let kinds = ["authentication", "none", "id", "no id"];
    try_all(&(pushes(), any::text(0)).boxed(), &kinds, |((task, config), next_page_token), seen| {
        seen.note(if config.authentication.is_some() { "authentication" } else { "none" });
        seen.note(if config.id.is_some() { "id" } else { "no id" });
        let page = PushPage { configs: vec![config.clone(), config.clone()], next_page_token };
        let mut losses = Losses::new();
        let back = reply::read_push(sent_over(&reply::push(&task, &config)), &mut losses).unwrap();
        prop_assert_eq!(back, (task.clone(), config.clone()));
        let back = reply::read_pushes(sent_over(&reply::pushes(&task, &page)), &mut losses).unwrap();
        prop_assert_eq!(&back, &page);

        // Percent signs would be read as escapes in the path that stands for the question here.
        let asked = TaskRef::parse("asked").unwrap();
        let answer = WireReply::Push(task.clone(), config);
        prop_assert_eq!(&answer_over_rest(&call_of("create", &asked), &answer, &mut losses), &answer);
        let answer = WireReply::Pushes(asked.clone(), page);
        prop_assert_eq!(&answer_over_rest(&call_of("list", &asked), &answer, &mut losses), &answer);
        let back = answer_over_rest(&call_of("delete", &asked), &WireReply::Deleted, &mut losses);
        prop_assert_eq!(back, WireReply::Deleted);
        prop_assert!(losses.is_empty());
        Ok(())
    });
}

/// Strategy for cards of agents that speak both versions.
fn cards() -> BoxedStrategy<AgentCard> {
    let versions = proptest::collection::vec(prop_oneof![Just("0.3"), Just("0.3.0"), Just("1.0")], 3);
    (any::card(1), versions)
        .prop_map(|(mut card, versions)| {
            for (interface, version) in card.supported_interfaces.iter_mut().zip(versions) {
                version.clone_into(&mut interface.protocol_version);
            }
            card
        })
        .boxed()
}

/// The part of a card that 0.3 carries, and the losses that must be noted for the rest.
fn remains(card: &AgentCard) -> (AgentCard, BTreeSet<String>) {
    let mut left = card.clone();
    let mut lost = BTreeSet::new();
    let first = card.supported_interfaces.iter().find(|i| i.protocol_version.starts_with("0.3")).unwrap();
    left.supported_interfaces.clear();
    for (i, interface) in card.supported_interfaces.iter().enumerate() {
        if !interface.protocol_version.starts_with("0.3") {
            lost.insert(format!("supportedInterfaces[{i}]"));
            continue;
        }
        let mut interface = interface.clone();
        if interface.tenant.take().is_some() {
            lost.insert(format!("supportedInterfaces[{i}].tenant"));
        }
        if interface.protocol_version != first.protocol_version {
            lost.insert(format!("supportedInterfaces[{i}].protocolVersion"));
        }
        interface.protocol_version.clone_from(&first.protocol_version);
        if !left.supported_interfaces.contains(&interface) {
            left.supported_interfaces.push(interface);
        }
    }
    if !std::mem::take(&mut left.signatures).is_empty() {
        lost.insert("signatures".into());
    }
    left.security_schemes.retain(|name, scheme| match scheme {
        SecurityScheme::OAuth2 { flows: OAuthFlows::DeviceCode { .. }, .. } => {
            lost.insert(format!("securitySchemes.{name}"));
            false
        }
        SecurityScheme::OAuth2 { flows: OAuthFlows::AuthorizationCode { pkce_required, .. }, .. } => {
            if std::mem::take(pkce_required) {
                let flows = "oauth2SecurityScheme.flows.authorizationCode.pkceRequired";
                lost.insert(format!("securitySchemes.{name}.{flows}"));
            }
            true
        }
        _ => true,
    });
    // Without presence, an empty or false member is absent.
    left.documentation_url = left.documentation_url.filter(|url| !url.is_empty());
    left.icon_url = left.icon_url.filter(|url| !url.is_empty());
    let capabilities = &mut left.capabilities;
    for flag in
        [&mut capabilities.streaming, &mut capabilities.push_notifications, &mut capabilities.extended_agent_card]
    {
        *flag = flag.filter(|yes| *yes);
    }
    (left, lost)
}

#[test]
fn cards_over_both() {
    try_all(&cards(), &["shown", "refused", "schemes"], |card, seen| {
        let mut losses = Losses::new();
        let shown = reply::card(&card, &mut losses);
        if card.supported_interfaces.iter().all(|i| i.protocol_version == "1.0") {
            seen.note("refused");
            prop_assert!(matches!(shown, Err(Fault::VersionNotSupported(_))));
            return Ok(());
        }
        seen.note("shown");
        if !card.security_schemes.is_empty() {
            seen.note("schemes");
        }
        let (left, lost) = remains(&card);
        let paths = |losses: &Losses| losses.notes().iter().map(|loss| loss.path.clone()).collect::<BTreeSet<_>>();
        prop_assert_eq!(paths(&losses), lost.clone());
        prop_assert_eq!(reply::read_card(sent_over(&shown.unwrap()), &mut losses).unwrap(), left.clone());
        prop_assert_eq!(paths(&losses), lost.clone(), "nothing more is lost on the way back");

        let mut losses = Losses::new();
        let call = Call::ExtendedCard { tenant: Tenant::none() };
        let back = answer_over_rest(&call, &WireReply::Card(Box::new(card)), &mut losses);
        prop_assert_eq!(back, WireReply::Card(Box::new(left)));
        prop_assert_eq!(paths(&losses), lost);
        Ok(())
    });
}
