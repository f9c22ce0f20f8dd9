//! Requests: calls in every dialect, and the operations that a dialect has.

use super::coverage::{self, Coverage};
use super::meaning::{has, same, tidy};
use super::{RoundTrip, minting, pairs, parsed, refused, reserved_members, translate, try_on};

use proptest::prelude::*;
use sabir_proto::{Call, Fault};
use sabir_wire::LossKind::{
    Configuration, Extensions, History, MessageId, Metadata, Paging, PartAttribute, PushConfigId, References, TaskId,
    Tenant,
};
use sabir_wire::{AnswerKind, Dialect, EndpointPath, Facts, LossKind, Losses, TextKind, decode_request, write_call};
use serde_json::{Value, json};

/// Whether a dialect has an operation, by `Dialect::features`.
fn can_ask(dialect: Dialect, call: &Call) -> bool {
    let reach = dialect.features();
    let goes_on = |message: &sabir_proto::Message| reach.continues || message.task_id.is_none();
    match call {
        Call::Send(send) => goes_on(&send.message),
        Call::Stream(send) => reach.streams && goes_on(&send.message),
        Call::Get(_) | Call::Cancel(_) => true,
        Call::List(_) => reach.lists_tasks,
        Call::Subscribe(_) => reach.resubscribes,
        Call::CreatePush { .. } | Call::GetPush(_) => reach.push,
        Call::ListPush(_) | Call::DeletePush(_) => reach.push_lists,
        Call::ExtendedCard { .. } => reach.extended_card,
    }
}

fn spoken(call: &Call) -> String {
    let request = write_call(Dialect::V1, call, None, &mut minting(), &mut Losses::new()).unwrap();
    format!(r#"{{"jsonrpc":"2.0","id":"r-1","method":"{}","params":{}}}"#, request.method, request.params)
}

/// The endpoint and version of each dialect.
fn facts(dialect: Dialect) -> Facts<'static> {
    let version = |version| Facts { version: Some(version), ..Facts::default() };
    match dialect {
        Dialect::V1 => version("1.0"),
        Dialect::V03 => version("0.3.0"),
        Dialect::V02 => version("0.2.6"),
        Dialect::V01 => version("0.1"),
        Dialect::Native => Facts { endpoint: EndpointPath::Native, ..Facts::default() },
        Dialect::Xpr => Facts { endpoint: EndpointPath::A2a, xpr_headers: true, ..Facts::default() },
    }
}

/// The call that a server decodes, as JSON of 1.0, and the caller's own id for the task.
fn heard(dialect: Dialect, text: &str) -> Result<(String, Option<String>), TestCaseError> {
    let heard = decode_request(&facts(dialect), text.as_bytes(), &mut minting());
    let heard = heard.map_err(|e| TestCaseError::fail(format!("{dialect} was not heard: {}\n{text}", e.fault)))?;
    prop_assert_eq!(heard.responder.dialect(), dialect);
    let alias = match &heard.call {
        Call::Send(send) | Call::Stream(send) => send.alias.as_deref().map(str::to_owned),
        _ => None,
    };
    Ok((spoken(&heard.call), alias))
}

/// Removes differences between two dialects that mean the same and need no note.
fn settle(meant: &mut Value, got: &mut Value, trip: &RoundTrip) {
    let method = meant["method"].as_str().unwrap_or_default().to_owned();
    // A get without an id asks for the first of the list.
    if method == "GetTaskPushNotificationConfig" && has(&trip.losses, LossKind::PushConfigId, "id") {
        meant["method"] = json!("ListTaskPushNotificationConfigs");
        meant["params"]["pageSize"] = json!(1);
    }
    // A list without pages is a page that holds them all.
    if method == "ListTaskPushNotificationConfigs" && meant["params"].get("pageSize").is_none() {
        got["params"].as_object_mut().unwrap().remove("pageSize");
    }
    // A configuration without an id takes that of the task.
    if method == "CreateTaskPushNotificationConfig" && meant["params"].get("id").is_none() {
        meant["params"]["id"] = meant["params"]["taskId"].clone();
        let given = got["params"].get("id").is_some();
        got["params"]["id"] = if given { got["params"]["id"].clone() } else { got["params"]["taskId"].clone() };
    }
    let inline = |call: &Value| call["params"]["configuration"]["taskPushNotificationConfig"].get("id").is_some();
    if !inline(meant) && inline(got) && trip.told.contains("\"tasks/send") {
        got["params"]["configuration"]["taskPushNotificationConfig"].as_object_mut().unwrap().remove("id");
    }
}

fn check(call: &Call, tally: &Coverage) -> Result<(), TestCaseError> {
    tally.call(call);
    let original = spoken(call);
    for from in Dialect::ALL {
        let text = match translate(Dialect::V1, from, TextKind::Request, &original) {
            outcome if !can_ask(from, call) => {
                refused(outcome, &format!("{from} has no {}", call.operation()))?;
                continue;
            }
            Ok(told) => told.text,
            Err(fault) => return Err(TestCaseError::fail(format!("{from}, {}: {fault}", call.operation()))),
        };
        prop_assert_eq!(TextKind::of(&text), Ok(TextKind::Request));
        written_alike(from, call, &text)?;
        for (_, by) in pairs().filter(|(a, _)| *a == from) {
            let outcome = || translate(from, by, TextKind::Request, &text);
            if !can_ask(by, call) && !first_of_a_list(by, call) {
                // Dialects where callers choose the task ids do not tell a further message from a first one.
                if !matches!(call, Call::Send(_) | Call::Stream(_)) || !from.features().client_names_tasks {
                    refused(outcome(), &format!("{by} has no {}", call.operation()))?;
                    continue;
                }
                if !by.features().streams && matches!(call, Call::Stream(_)) {
                    refused(outcome(), &format!("{by} has no streams"))?;
                    continue;
                }
            }
            let trip = RoundTrip::new(from, by, TextKind::Request, &text, tally)?;
            compare(from, by, &text, &trip)?;
        }
    }
    Ok(())
}

/// The only request of 0.1 about webhooks is for the first, which dialects with lists can also ask for.
fn first_of_a_list(by: Dialect, call: &Call) -> bool {
    matches!(call, Call::GetPush(_)) && by.features().push_lists
}

/// Checks that a client and a conversion write the same request.
fn written_alike(dialect: Dialect, call: &Call, text: &str) -> Result<(), TestCaseError> {
    let request = write_call(dialect, call, None, &mut minting(), &mut Losses::new()).unwrap();
    let written = parsed(text);
    prop_assert_eq!(request.answer_kind, AnswerKind::of_call(call));
    prop_assert_eq!(&written["method"], request.method);
    prop_assert_eq!(&written["id"], "r-1");
    prop_assert_eq!(&written["params"], &parsed(&request.params));
    Ok(())
}

fn compare(from: Dialect, by: Dialect, text: &str, trip: &RoundTrip) -> Result<(), TestCaseError> {
    let (mut meant, mut got) = (trip.meant[0].clone(), trip.got[0].clone());
    if from == by {
        check_own_dialect(from, text, trip)?;
    }
    // A server decodes what the conversion reads.
    let (spoken, name) = heard(from, text)?;
    prop_assert_eq!(&parsed(&spoken), &meant);
    let (_, shown) = heard(by, &trip.told)?;
    if by.features().client_names_tasks && name.is_some() {
        prop_assert_eq!(shown, name);
    }
    settle(&mut meant, &mut got, trip);
    prop_assert_eq!(&meant["method"], &got["method"]);
    prop_assert_eq!(&meant["id"], &got["id"]);
    same(&meant["params"], &got["params"], &trip.losses)
        .map_err(|e| TestCaseError::fail(format!("{from} by {by}: {e}\n{text}\n{}", trip.told)))
}

/// Checks that a dialect writes what it reads, without losses.
fn check_own_dialect(dialect: Dialect, text: &str, trip: &RoundTrip) -> Result<(), TestCaseError> {
    let (mut read, mut written) = (parsed(text), parsed(&trip.told));
    if read["method"] == "tasks/pushNotificationConfig/set"
        && read["params"]["pushNotificationConfig"].get("id").is_none()
    {
        read["params"]["pushNotificationConfig"]["id"] = read["params"]["taskId"].clone();
    }
    // An object need not be wrapped, so it is wrapped only if its part has the mark of its own.
    if !text.contains("data_part_compat") {
        tidy(&mut read);
        tidy(&mut written);
        prop_assert_eq!(read, written, "{} does not write again what it reads", dialect);
    }
    // Except for the id that we gave to a message without one.
    let lost: Vec<_> = trip.losses.iter().filter(|loss| loss.kind != LossKind::MessageId).collect();
    let named = dialect.features().client_names_tasks;
    let lost: Vec<_> = lost.into_iter().filter(|loss| !named || loss.kind != LossKind::TaskId).collect();
    prop_assert!(lost.is_empty(), "{}: {:?}", dialect, lost);
    Ok(())
}

#[test]
fn a_request_means_the_same_in_every_dialect() {
    let tally = try_on(&reserved_members::calls(), check);
    tally.must_have_seen(&[&coverage::CALLS, &coverage::PARTS, &coverage::MESSAGES]);
    tally.must_have_been_whole(pairs());
    let plain = [PartAttribute, Paging, Metadata, Tenant, TaskId];
    let bare = [MessageId, PartAttribute, Extensions, References, Metadata, Configuration, History, Tenant];
    tally.must_have_lost(&[
        (Dialect::V1, &[TaskId]),
        (Dialect::V03, &plain),
        (Dialect::V02, &plain),
        (Dialect::V01, &[&bare[..], &[PushConfigId]].concat()),
        (Dialect::Native, &[&bare[..], &[TaskId]].concat()),
        (Dialect::Xpr, &bare),
    ]);
}

#[test]
fn a_method_of_another_dialect_is_not_found() {
    let mut spoken_by = Vec::new();
    for dialect in Dialect::ALL {
        for method in METHODS {
            let body = format!(r#"{{"jsonrpc":"2.0","id":1,"method":"{method}","params":{{}}}}"#);
            let outcome = translate(dialect, Dialect::V1, TextKind::Request, &body);
            if !matches!(&outcome, Err(Fault::MethodNotFound(named)) if named == method) {
                spoken_by.push((dialect, method));
            }
        }
    }
    let count = |dialect| spoken_by.iter().filter(|(d, _)| *d == dialect).count();
    assert_eq!(Dialect::ALL.map(count), [11, 10, 10, 7, 5, 3]);
}

/// Every method of every dialect.
const METHODS: [&str; 26] = [
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
    "message/send",
    "message/stream",
    "tasks/get",
    "tasks/cancel",
    "tasks/resubscribe",
    "tasks/pushNotificationConfig/set",
    "tasks/pushNotificationConfig/get",
    "tasks/pushNotificationConfig/list",
    "tasks/pushNotificationConfig/delete",
    "agent/getAuthenticatedExtendedCard",
    "tasks/send",
    "tasks/sendSubscribe",
    "tasks/pushNotification/set",
    "tasks/pushNotification/get",
    "actions/invoke",
];
