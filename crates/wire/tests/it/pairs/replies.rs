//! Replies: tasks, direct messages, push configurations, pages, errors; and the bodies of webhooks.

use super::coverage::{self, Coverage};
use super::meaning::{has, lift_loss, same, tidy};
use super::{RoundTrip, Translation, minting, pairs, parsed, refused, reserved_members, translate, try_on};
use crate::any;
use proptest::collection::vec;
use proptest::prelude::*;
use sabir_proto::{Fault, FaultCode, FieldViolation, Message, PushConfig, TaskRef, WireEvent, WireTask};
use sabir_wire::LossKind::{
    AnswerPlace, ArtifactId, ContextId, ErrorDetails, Extensions, MessageId, Metadata, Paging, PartAttribute,
    PushConfigId, References, State, TaskId,
};
use sabir_wire::{Dialect, Loss, Losses, TextKind, jsonrpc, read_push_payload, write_push_payload};
use serde_json::{Value, json};

/// A reply of 1.0 with this result.
fn reply(result: &Value) -> String {
    json!({ "jsonrpc": "2.0", "id": 7, "result": result }).to_string()
}

/// Checks that a dialect writes what it reads, and loses only the ids that we gave to messages.
fn check_own_dialect(dialect: Dialect, text: &str, trip: &RoundTrip) -> Result<(), TestCaseError> {
    let (mut read, mut written) = (parsed(text), parsed(&trip.told));
    if !text.contains("data_part_compat") {
        tidy(&mut read);
        tidy(&mut written);
        prop_assert_eq!(read, written, "{} does not write again what it reads", dialect);
    }
    let lost: Vec<_> = trip.losses.iter().filter(|loss| loss.kind != MessageId).collect();
    prop_assert!(lost.is_empty(), "{}: {:?}", dialect, lost);
    Ok(())
}

/// Runs a reply on all pairs. `can`: whether a dialect has such a reply.
fn check(
    original: &str,
    can: impl Fn(Dialect) -> bool,
    tally: &Coverage,
    compare: impl Fn(Dialect, Dialect, &RoundTrip) -> Result<(), TestCaseError>,
) -> Result<(), TestCaseError> {
    for from in Dialect::ALL {
        let outcome = translate(Dialect::V1, from, TextKind::Reply, original);
        if !can(from) {
            refused(outcome, &format!("{from} cannot answer so"))?;
            continue;
        }
        let Translation { text, .. } =
            outcome.map_err(|f| TestCaseError::fail(format!("1.0 by {from}: {f}\n{original}")))?;
        prop_assert_eq!(TextKind::of(&text), Ok(TextKind::Reply), "{}", text);
        for (_, by) in pairs().filter(|(a, _)| *a == from) {
            if !can(by) {
                refused(translate(from, by, TextKind::Reply, &text), &format!("{by} cannot answer so"))?;
                continue;
            }
            let trip = RoundTrip::new(from, by, TextKind::Reply, &text, tally)?;
            prop_assert_eq!(&trip.meant[0]["id"], &json!(7));
            prop_assert_eq!(&trip.got[0]["id"], &json!(7));
            if from == by {
                check_own_dialect(from, &text, &trip)?;
            }
            compare(from, by, &trip)
                .map_err(|e| TestCaseError::fail(format!("{from} by {by}: {e}\n{text}\n{}", trip.told)))?;
        }
    }
    Ok(())
}

/// The task of a result: that of a send is wrapped, and the older dialects do not tell it from that of a get.
fn task_in(answer: &Value) -> &Value {
    let result = &answer["result"];
    result.get("task").unwrap_or(result)
}

#[test]
fn a_task_means_the_same_in_every_dialect() {
    let tally = try_on(&(reserved_members::tasks(), any::<bool>()).boxed(), |(task, sent), tally: &Coverage| {
        tally.task(task);
        let result = if *sent { json!({ "task": task }) } else { json!(task) };
        check(
            &reply(&result),
            |_| true,
            tally,
            |_, _, trip| same(task_in(&trip.meant[0]), task_in(&trip.got[0]), &trip.losses),
        )
    });
    tally.must_have_seen(&[&coverage::TASKS, &coverage::STATES, &coverage::PARTS, &coverage::MESSAGES]);
    tally.must_have_been_whole(pairs());
    let plain = [PartAttribute, Metadata];
    let bare = [State, AnswerPlace, MessageId, ContextId, TaskId, PartAttribute, Extensions, References, Metadata];
    tally.must_have_lost(&[
        (Dialect::V1, &[]),
        (Dialect::V03, &plain),
        (Dialect::V02, &plain),
        (Dialect::V01, &bare),
        (Dialect::Native, &bare),
        (Dialect::Xpr, &[&bare[..], &[ArtifactId]].concat()),
    ]);
}

/// Checks a direct reply, or the completed task that stands for it.
pub(super) fn same_words(message: &Value, got: &Value, losses: &[Loss]) -> Result<(), TestCaseError> {
    prop_assert!(has(losses, AnswerPlace, ""), "a message became a task, and nobody said so: {:?}", losses);
    prop_assert_eq!(&got["status"]["state"], "TASK_STATE_COMPLETED");
    let name = message.get("taskId").unwrap_or(&message["messageId"]);
    prop_assert!(&got["id"] == name || has(losses, MessageId, "status.message.messageId"), "{} {}", name, got);
    if !has(losses, ContextId, "contextId") {
        prop_assert_eq!(message.get("contextId"), got.get("contextId"));
    }
    let said = json!({ "status": { "message": message } });
    let heard = json!({ "status": { "message": got["status"]["message"] } });
    let words: Vec<_> = losses.iter().filter(|loss| loss.path.starts_with("status.message")).cloned().collect();
    same(&said, &heard, &words)
}

#[test]
fn a_direct_message_means_the_same_in_every_dialect() {
    let tally = try_on(&reserved_members::messages(), |message: &Message, tally: &Coverage| {
        tally.message(message);
        check(
            &reply(&json!({ "message": message })),
            |_| true,
            tally,
            |_, _, trip| {
                let (meant, got) = (&trip.meant[0]["result"], &trip.got[0]["result"]);
                match (meant.get("message"), got.get("message")) {
                    (Some(said), Some(heard)) => same(said, heard, &trip.losses),
                    (Some(said), None) => same_words(said, &got["task"], &trip.losses),
                    _ => same(&meant["task"], &got["task"], &trip.losses),
                }
            },
        )
    });
    tally.must_have_seen(&[&coverage::PARTS, &coverage::MESSAGES]);
    let speaks = |dialect: Dialect| dialect.features().direct_replies;
    tally.must_have_been_whole(pairs().filter(|(from, to)| speaks(*from) && speaks(*to)));
}

fn flat(task: &TaskRef, config: &PushConfig) -> Value {
    let mut flat = json!(config);
    flat["taskId"] = json!(task);
    flat
}

#[test]
fn push_configurations_mean_the_same_in_every_dialect() {
    let several = (any::task_ref(), vec(any::push(), 0..3), any::text(0)).boxed();
    let tally = try_on(&several, |(task, configs, token), tally| {
        if let Some(config) = configs.first() {
            tally.note(if config.id.is_some() { "named" } else { "unnamed" });
            tally.note(if config.authentication.is_some() { "authenticated" } else { "open" });
            check(
                &reply(&flat(task, config)),
                |d| d.features().push,
                tally,
                |_, by, trip| {
                    let (mut meant, got) = (trip.meant[0]["result"].clone(), &trip.got[0]["result"]);
                    // A configuration without an id has that of the task in 0.1.
                    if by == Dialect::V01 && meant.get("id").is_none() {
                        meant["id"] = meant["taskId"].clone();
                    }
                    same(&meant, got, &trip.losses)
                },
            )?;
        }
        let listed: Vec<_> = configs.iter().map(|config| flat(task, config)).collect();
        tally.note(if listed.is_empty() { "none" } else { "several" });
        let page = json!({ "configs": listed, "nextPageToken": token });
        check(
            &reply(&page),
            |d| d.features().push_lists,
            tally,
            |_, _, trip| same(&trip.meant[0]["result"], &trip.got[0]["result"], &trip.losses),
        )
    });
    tally.must_have_seen(&[&["named", "unnamed", "authenticated", "open", "none", "several"]]);
    let can = |dialect: Dialect| dialect.features().push;
    tally.must_have_been_whole(pairs().filter(|(from, to)| can(*from) && can(*to)));
    tally.must_have_lost(&[
        (Dialect::V1, &[]),
        (Dialect::V03, &[Paging]),
        (Dialect::V02, &[Paging]),
        (Dialect::V01, &[PushConfigId]),
        (Dialect::Native, &[]),
        (Dialect::Xpr, &[]),
    ]);
}

#[test]
fn that_something_was_deleted_is_said_by_all_who_delete() {
    let tally = Coverage::default();
    check(
        &reply(&json!({})),
        |d| d.features().push_lists,
        &tally,
        |_, _, trip| {
            prop_assert_eq!(&trip.meant, &trip.got);
            prop_assert!(trip.losses.is_empty());
            Ok(())
        },
    )
    .unwrap();
}

#[test]
fn only_who_lists_tasks_has_pages_of_them() {
    let pages = (vec(any::their_task(), 0..2), any::text(0)).boxed();
    let _ = try_on(&pages, |(tasks, token), tally| {
        let page = json!({ "tasks": tasks, "nextPageToken": token, "pageSize": 2, "totalSize": 9 });
        check(
            &reply(&page),
            |d| d.features().lists_tasks,
            tally,
            |_, _, trip| same(&trip.meant[0]["result"], &trip.got[0]["result"], &trip.losses),
        )
    });
}

#[test]
fn only_who_has_an_extended_card_is_answered_with_one() {
    let card = json!({
        "name": "n", "description": "d", "version": "1", "capabilities": {}, "defaultInputModes": ["text/plain"],
        "defaultOutputModes": ["text/plain"],
        "supportedInterfaces": [{ "url": "https://x/", "protocolBinding": "JSONRPC", "protocolVersion": "0.3" }],
        "skills": [{ "id": "s", "name": "s", "description": "d", "tags": ["t"] }],
    });
    for to in Dialect::ALL {
        let outcome = translate(Dialect::V1, to, TextKind::Reply, &reply(&card));
        if to.features().extended_card {
            let told = outcome.unwrap();
            let back = translate(to, Dialect::V1, TextKind::Reply, &told.text).unwrap();
            assert_eq!(parsed(&back.text)["result"]["skills"], card["skills"], "{to}: {}", told.text);
        } else {
            refused(outcome, "has no extended card").unwrap();
        }
    }
}

/// Strategy for errors of 1.0.
fn errors() -> BoxedStrategy<Fault> {
    let task = proptest::option::of(any::task_ref());
    let code = proptest::sample::select(&FaultCode::ALL[..]);
    let peer = (code, any::text(0), task).prop_map(|(code, message, task)| Fault::Peer { code, message, task });
    let wrong = (any::text(0), any::text(0)).prop_map(|(field, description)| FieldViolation { field, description });
    prop_oneof![
        6 => peer,
        1 => vec(wrong, 1..3).prop_map(Fault::InvalidParams),
        1 => any::text(1).prop_map(Fault::ExtensionSupportRequired),
        1 => any::task_ref().prop_map(Fault::TaskNotFound),
    ]
    .boxed()
}

#[test]
fn an_error_means_the_same_in_every_dialect() {
    let tally = try_on(&errors(), |fault, tally| {
        tally.note(sabir_wire::codes::numbers(fault.code()).reason);
        tally.note(if fault.task().is_some() { "of a task" } else { "of no task" });
        let mut original = Vec::new();
        jsonrpc::write_error(Some("\"e\""), fault, &mut original);
        let original = String::from_utf8(original).unwrap();
        let plain = translate(Dialect::V1, Dialect::V1, TextKind::Error, &original).unwrap();
        same(&parsed(&original)["error"], &parsed(&plain.text)["error"], &plain.losses)?;
        for from in Dialect::ALL {
            let text = translate(Dialect::V1, from, TextKind::Error, &original).unwrap().text;
            prop_assert_eq!(TextKind::of(&text), Ok(TextKind::Error));
            for (_, by) in pairs().filter(|(a, _)| *a == from) {
                let trip = RoundTrip::new(from, by, TextKind::Error, &text, tally)?;
                prop_assert_eq!(&trip.got[0]["id"], "e");
                if from == by {
                    prop_assert_eq!(parsed(&text), parsed(&trip.told), "{}", from);
                    prop_assert!(trip.losses.is_empty(), "{}: {:?}", from, trip.losses);
                }
                same(&trip.meant[0]["error"], &trip.got[0]["error"], &trip.losses)
                    .map_err(|e| TestCaseError::fail(format!("{from} by {by}: {e}\n{text}\n{}", trip.told)))?;
            }
        }
        Ok(())
    });
    let reasons = FaultCode::ALL.map(|code| sabir_wire::codes::numbers(code).reason);
    tally.must_have_seen(&[&reasons, &["of a task", "of no task"]]);
    tally.must_have_been_whole(pairs());
    let lost = Dialect::ALL.map(|d| (d, if d == Dialect::V1 { &[][..] } else { &[ErrorDetails][..] }));
    tally.must_have_lost(&lost);
}

#[test]
fn the_body_of_a_webhook_means_the_same_in_every_dialect() {
    let told = (reserved_members::tasks(), reserved_members::events()).boxed();
    let _ = try_on(&told, |(task, event): &(WireTask, WireEvent), tally| {
        tally.task(task);
        for dialect in Dialect::ALL {
            let mut losses = Losses::new();
            let (media, body) = write_push_payload(dialect, event, task, &mut losses).unwrap();
            prop_assert_eq!(media.contains("a2a"), dialect == Dialect::V1);
            let body = String::from_utf8(body).unwrap();
            let back = read_push_payload(dialect, &body, &mut minting(), &mut losses).unwrap();
            let losses: Vec<_> = losses.notes().iter().map(lift_loss).collect();
            if dialect == Dialect::V1 {
                prop_assert_eq!(&back, event);
                continue;
            }
            let WireEvent::Task(back) = back else { return Err(TestCaseError::fail(format!("{dialect}: {body}"))) };
            same(&json!(task), &json!(back), &losses)
                .map_err(|e| TestCaseError::fail(format!("{dialect}: {e}\n{body}")))?;
        }
        Ok(())
    });
}
