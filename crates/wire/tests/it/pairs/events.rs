//! Events, one at a time. A dialect may send one event as several, or as the whole task; then they must hold all of it.

use super::coverage::{self, Coverage};
use super::meaning::{lift, lift_loss, same, tidy, together};
use super::replies::same_words;
use super::{RoundTrip, Translation, pairs, parsed, refused, reserved_members, translate, try_on};
use proptest::prelude::*;
use sabir_proto::WireEvent;
use sabir_wire::LossKind::{
    AnswerPlace, ContextId, Extensions, History, MessageId, Metadata, Part, PartAttribute, References, State, TaskId,
};
use sabir_wire::{Dialect, Loss, TextKind};
use serde_json::{Value, json};

fn event_of(answer: &Value) -> &Value {
    &answer["result"]
}

/// A frame of 1.0 with this event.
fn frame(event: &WireEvent) -> String {
    json!({ "jsonrpc": "2.0", "id": "s", "result": event }).to_string()
}

fn compare(trip: &RoundTrip) -> Result<(), TestCaseError> {
    let meant = event_of(&trip.meant[0]);
    let mut losses: Vec<Loss> = trip.losses.iter().map(lift_loss).collect();
    let mut got = together(trip.got.iter().map(event_of));
    if let (Some(message), None) = (meant.get("message"), got.get("message")) {
        return same_words(message, &got, &losses);
    }
    let mut said = lift(meant);
    if meant.get("task").is_some() {
        // If a task is sent in pieces, the status has its metadata, and every artifact is whole.
        if let Some(update) = got.as_object_mut().unwrap().remove("update")
            && let Some(metadata) = update.get("metadata")
        {
            got["metadata"] = metadata.clone();
        }
    } else if said.get("update").is_some() && got.get("update").is_none() {
        // The update became a whole task: the members that only updates have must be among the losses.
        got["update"] = json!({});
    }
    losses.retain(|loss| loss.kind != AnswerPlace || !loss.path.is_empty());
    for value in [&mut said, &mut got] {
        tidy(value);
    }
    same(&said, &got, &losses)
}

fn check(event: &WireEvent, tally: &Coverage) -> Result<(), TestCaseError> {
    tally.event(event);
    let original = frame(event);
    for from in Dialect::ALL {
        let outcome = translate(Dialect::V1, from, TextKind::Event, &original);
        if !from.features().streams {
            refused(outcome, &format!("{from} has no streams"))?;
            continue;
        }
        let Translation { text, .. } =
            outcome.map_err(|f| TestCaseError::fail(format!("1.0 by {from}: {f}\n{original}")))?;
        prop_assert!(!text.is_empty(), "{} says nothing of {}", from, original);
        for line in text.lines() {
            check_kind(from, event, line)?;
            for (_, by) in pairs().filter(|(a, _)| *a == from) {
                if !by.features().streams {
                    refused(translate(from, by, TextKind::Event, line), &format!("{by} has no streams"))?;
                    continue;
                }
                let trip = RoundTrip::new(from, by, TextKind::Event, line, tally)?;
                prop_assert!(trip.got.iter().all(|got| got["id"] == "s"));
                let told = || format!("{from} by {by}\n{line}\n{}", trip.told);
                compare(&trip).map_err(|e| TestCaseError::fail(format!("{e}\n{}", told())))?;
                same_end(from, by, line, &trip.told)?;
            }
        }
    }
    Ok(())
}

/// Checks that dialects with a mark for the last event set the same mark; in the others the state tells.
fn same_end(from: Dialect, by: Dialect, line: &str, told: &str) -> Result<(), TestCaseError> {
    let says = |dialect| matches!(dialect, Dialect::V03 | Dialect::V02 | Dialect::V01);
    let end = |text: &str| text.lines().filter_map(|line| parsed(line)["result"]["final"].as_bool()).next_back();
    if !says(by) || end(told).is_none() {
        return Ok(());
    }
    let expected = if says(from) && end(line).is_some() {
        end(line)
    } else {
        let straight = translate(from, Dialect::V1, TextKind::Event, line).unwrap().text;
        let state = lift(event_of(&parsed(&straight)))["status"]["state"].clone();
        let goes_on = ["TASK_STATE_SUBMITTED", "TASK_STATE_WORKING", "TASK_STATE_AUTH_REQUIRED"];
        Some(!goes_on.iter().any(|s| state == *s))
    };
    prop_assert_eq!(end(told), expected, "{} by {}: {}\n{}", from, by, line, told);
    Ok(())
}

/// Checks that an update is recognised as one in dialects with updates; a whole task looks like the reply to a get.
fn check_kind(dialect: Dialect, event: &WireEvent, line: &str) -> Result<(), TestCaseError> {
    let update = matches!(event, WireEvent::StatusUpdate(_) | WireEvent::ArtifactUpdate(_));
    let expected = match dialect {
        Dialect::V1 | Dialect::V03 | Dialect::V02 if update => TextKind::Event,
        Dialect::V01 => TextKind::Event,
        _ => TextKind::Reply,
    };
    prop_assert_eq!(TextKind::of(line), Ok(expected), "{}: {}", dialect, line);
    Ok(())
}

#[test]
fn an_event_means_the_same_in_every_dialect() {
    let tally = try_on(&reserved_members::events(), check);
    tally.must_have_seen(&[&coverage::EVENTS, &coverage::STATES, &coverage::PARTS, &coverage::MESSAGES]);
    tally.must_have_been_whole(pairs().filter(|(from, to)| from.features().streams && to.features().streams));
    let plain = [PartAttribute, Metadata];
    let bare = [State, AnswerPlace, MessageId, ContextId, TaskId, PartAttribute, Extensions, References, Metadata];
    tally.must_have_lost(&[
        (Dialect::V1, &[]),
        (Dialect::V03, &plain),
        (Dialect::V02, &plain),
        (Dialect::V01, &[&bare[..], &[History]].concat()),
        (Dialect::Native, &[&bare[..], &[Part]].concat()),
    ]);
}
