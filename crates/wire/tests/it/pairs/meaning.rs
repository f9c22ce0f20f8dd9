//! The meaning of a text of 1.0, for comparison: without empty members, and without what is lost.

use proptest::prelude::*;
use sabir_wire::{Loss, LossKind};
use serde_json::{Map, Value, json};

/// Removes the value at a path such as `history[0].parts[1].data`. The empty path is everything.
pub(crate) fn mask(value: &mut Value, path: &str) {
    if path.is_empty() {
        *value = Value::Null;
        return;
    }
    let path = path.replace('[', ".[");
    let mut steps: Vec<&str> = path.trim_start_matches('.').split('.').collect();
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

/// Removes metadata without members, which means the same as none. Free JSON stays as it is.
pub(crate) fn tidy(value: &mut Value) {
    match value {
        Value::Object(members) => {
            members.retain(|name, value| name != "metadata" || *value != json!({}));
            members.iter_mut().filter(|(name, _)| *name != "metadata" && *name != "data").for_each(|(_, v)| tidy(v));
        }
        Value::Array(items) => items.iter_mut().for_each(tidy),
        _ => {}
    }
}

/// Checks that both mean the same, except for the losses.
#[track_caller]
pub(crate) fn same(meant: &Value, got: &Value, losses: &[Loss]) -> Result<(), TestCaseError> {
    let (mut left, mut right) = (meant.clone(), got.clone());
    for loss in losses {
        mask(&mut left, &loss.path);
        mask(&mut right, &loss.path);
    }
    tidy(&mut left);
    tidy(&mut right);
    prop_assert_eq!(&left, &right, "meant {}\n got  {}\n lost {:?}", meant, got, losses);
    Ok(())
}

pub(crate) fn has(losses: &[Loss], kind: LossKind, path: &str) -> bool {
    losses.iter().any(|loss| loss.kind == kind && loss.path == path)
}

/// Makes a task of an event, with what the event says of it. Members that only updates have are below `update`.
pub(crate) fn lift(event: &Value) -> Value {
    let about = |update: &Value| {
        let mut task = Map::new();
        task.insert("id".into(), update["taskId"].clone());
        if let Some(context) = update.get("contextId") {
            task.insert("contextId".into(), context.clone());
        }
        task
    };
    let told = |update: &Value| {
        let members = ["metadata", "append", "lastChunk"].into_iter();
        let told = members.filter_map(|m| update.get(m).map(|v| (m.to_owned(), v.clone()))).collect::<Map<_, _>>();
        Value::Object(told)
    };
    if let Some(task) = event.get("task") {
        return task.clone();
    }
    if let Some(update) = event.get("statusUpdate") {
        let mut task = about(update);
        task.insert("status".into(), update["status"].clone());
        task.insert("update".into(), told(update));
        return Value::Object(task);
    }
    if let Some(update) = event.get("artifactUpdate") {
        let mut task = about(update);
        task.insert("artifacts".into(), json!([update["artifact"]]));
        task.insert("update".into(), told(update));
        return Value::Object(task);
    }
    event.clone()
}

/// Converts the path of a loss in an event to the path after [`lift`].
pub(crate) fn lift_loss(loss: &Loss) -> Loss {
    let path = &loss.path;
    let below = |prefix: &str| {
        let rest = path.strip_prefix(prefix)?;
        (rest.is_empty() || rest.starts_with(['.', '['])).then(|| rest.trim_start_matches('.').to_owned())
    };
    let lifted = if let Some(rest) = below("artifactUpdate.artifact") {
        format!("artifacts[0].{rest}")
    } else if let Some(rest) = below("artifactUpdate").or_else(|| below("statusUpdate")) {
        match &*rest {
            "metadata" | "append" | "lastChunk" => format!("update.{rest}"),
            _ => rest,
        }
    } else if let Some(rest) = below("task") {
        rest
    } else {
        path.clone()
    };
    Loss { kind: loss.kind, path: lifted.trim_end_matches('.').to_owned() }
}

/// Joins the events that one event was sent as.
pub(crate) fn together<'a>(events: impl ExactSizeIterator<Item = &'a Value>) -> Value {
    let (in_pieces, mut whole) = (events.len() > 1, json!({}));
    for event in events {
        let Value::Object(members) = lift(event) else { continue };
        // If a task is sent in pieces, every artifact is whole; its metadata comes with the status.
        let is_piece = in_pieces && members.contains_key("artifacts");
        for (name, value) in members {
            match (&*name, value) {
                ("update", _) if is_piece => {}
                ("artifacts", Value::Array(pieces)) => {
                    let known = whole.as_object_mut().unwrap().entry("artifacts").or_insert_with(|| json!([]));
                    known.as_array_mut().unwrap().extend(pieces);
                }
                (_, value) => whole[name] = value,
            }
        }
    }
    whole
}
