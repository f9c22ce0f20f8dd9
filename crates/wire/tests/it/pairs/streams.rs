//! Whole streams, as a server encodes them: the task that a client folds from the frames is the task in the log.

use super::coverage::{self, Coverage};
use super::meaning::{lift, lift_loss, mask, same, tidy, together};
use super::{minting, parsed, try_on};
use crate::any;
use proptest::collection::vec;
use proptest::prelude::*;
use proptest::sample::select;
use sabir_proto::{
    ArtifactId, ArtifactUpdate, Event, FrozenEvent, Message, Part, Seq, StatusUpdate, Task, TaskState, WireEvent,
    WireTask,
};
use sabir_wire::{Dialect, EndpointPath, Facts, Loss, Losses, Responder, StreamEncoder, decode_request, read_event};
use serde_json::{Value, json};

/// A frame as a client reads it.
struct ClientFrame {
    number: Option<u64>,
    answer: Value,
}

fn frames(bytes: &[u8]) -> Vec<ClientFrame> {
    let text = std::str::from_utf8(bytes).unwrap();
    assert!(text.is_empty() || text.ends_with("\n\n"), "{text}");
    let frame = |block: &str| {
        let field = |name| block.lines().find_map(|line: &str| line.strip_prefix(name));
        let number = field("id: ").map(|n| n.parse().unwrap());
        ClientFrame { number, answer: parsed(field("data: ").unwrap()) }
    };
    text.split("\n\n").filter(|block| !block.is_empty()).map(frame).collect()
}

/// The responder for a request for a stream in a dialect.
fn responder(dialect: Dialect) -> Responder {
    let part = |tag: &str| json!({ tag: "text", "text": "go" });
    let (version, entry, method, params) = match dialect {
        Dialect::V03 | Dialect::V02 => {
            let message = json!({ "messageId": "m", "role": "user", "parts": [part("kind")] });
            (
                if dialect == Dialect::V03 { "0.3" } else { "0.2" },
                EndpointPath::Root,
                "message/stream",
                json!({ "message": message }),
            )
        }
        Dialect::V01 => {
            let message = json!({ "role": "user", "parts": [part("type")] });
            ("0.1", EndpointPath::Root, "tasks/sendSubscribe", json!({ "id": "mine", "message": message }))
        }
        Dialect::Native => {
            let message = json!({ "role": "user", "parts": [part("type")] });
            ("", EndpointPath::Native, "message/stream", json!({ "message": message }))
        }
        Dialect::V1 => {
            let message = json!({ "messageId": "m", "role": "ROLE_USER", "parts": [{ "text": "go" }] });
            ("1.0", EndpointPath::Root, "SendStreamingMessage", json!({ "message": message }))
        }
        Dialect::Xpr => unreachable!("XPR has no streams"),
    };
    let body = json!({ "jsonrpc": "2.0", "id": "s", "method": method, "params": params }).to_string();
    let facts = Facts { endpoint: entry, version: Some(version).filter(|v| !v.is_empty()), xpr_headers: false };
    decode_request(&facts, body.as_bytes(), &mut minting()).unwrap().responder
}

/// The log of a task: its first event, its updates, its end or its question. All states, our own included.
fn logs() -> BoxedStrategy<Vec<Event>> {
    let ids = || select(&["a", "b"][..]).prop_map(|id| ArtifactId::parse(id).unwrap());
    let steps = vec((any::event(0), ids()), 0..6);
    let end = (any::event(0), select(&TaskState::ALL[..]));
    (any::task(0), steps, end)
        .prop_map(|(task, steps, (end, state))| {
            let (id, context) = (task.id, task.context_id.clone());
            let mut log = vec![Event::Task(task)];
            for (event, artifact_id) in steps {
                log.extend(of_task(event, id, &context, artifact_id));
            }
            let status = match end {
                Event::StatusUpdate(update) => sabir_proto::TaskStatus { state, ..update.status },
                _ => sabir_proto::TaskStatus { state, message: None, timestamp: None },
            };
            log.push(Event::StatusUpdate(StatusUpdate { task_id: id, context_id: context, status, metadata: None }));
            log
        })
        .boxed()
}

fn of_task(
    event: Event,
    id: sabir_proto::TaskId,
    context: &sabir_proto::ContextId,
    artifact_id: ArtifactId,
) -> Option<Event> {
    match event {
        Event::StatusUpdate(update) => {
            Some(Event::StatusUpdate(StatusUpdate { task_id: id, context_id: context.clone(), ..update }))
        }
        Event::ArtifactUpdate(mut update) => {
            update.artifact.artifact_id = artifact_id;
            Some(Event::ArtifactUpdate(ArtifactUpdate { task_id: id, context_id: context.clone(), ..update }))
        }
        Event::Task(_) | Event::Message(_) => None,
    }
}

/// Applies an update to a task in JSON, as a client does: `Task::apply`, written once more.
fn apply(task: &mut Value, update: &Value) {
    let members = update.as_object().unwrap();
    if let Some(context) = members.get("contextId") {
        task["contextId"] = context.clone();
    }
    if let Some(status) = members.get("status") {
        let asked =
            ["TASK_STATE_INPUT_REQUIRED", "TASK_STATE_AUTH_REQUIRED"].iter().any(|s| task["status"]["state"] == *s);
        if let (true, Some(question)) = (asked, task["status"].get("message").cloned()) {
            let history = task.as_object_mut().unwrap().entry("history").or_insert_with(|| json!([]));
            history.as_array_mut().unwrap().push(question);
        }
        task["status"] = status.clone();
    }
    let appends = members.get("update").is_some_and(|u| u["append"] == true);
    for artifact in members.get("artifacts").and_then(Value::as_array).into_iter().flatten() {
        let known = task.as_object_mut().unwrap().entry("artifacts").or_insert_with(|| json!([]));
        let known = known.as_array_mut().unwrap();
        match known.iter_mut().find(|a| a["artifactId"] == artifact["artifactId"]) {
            Some(old) if appends => {
                old["parts"].as_array_mut().unwrap().extend(artifact["parts"].as_array().unwrap().clone());
                for member in ["name", "description", "metadata"] {
                    if let Some(newer) = artifact.get(member) {
                        old[member] = newer.clone();
                    }
                }
                for uri in artifact.get("extensions").and_then(Value::as_array).into_iter().flatten() {
                    let all = old.as_object_mut().unwrap().entry("extensions").or_insert_with(|| json!([]));
                    let all = all.as_array_mut().unwrap();
                    if !all.contains(uri) {
                        all.push(uri.clone());
                    }
                }
            }
            Some(old) => *old = artifact.clone(),
            None => known.push(artifact.clone()),
        }
    }
}

/// Removes what was lost.
fn masked(mut lifted: Value, losses: &[Loss]) -> Value {
    losses.iter().for_each(|loss| mask(&mut lifted, &lift_loss(loss).path));
    tidy(&mut lifted);
    lifted
}

fn read(dialect: Dialect, frame: &ClientFrame, losses: &mut Losses) -> Value {
    let result = frame.answer["result"].to_string();
    json!(read_event(dialect, &result, &mut minting(), losses).unwrap())
}

/// Encodes a log in a dialect with updates, and folds it on both sides.
fn check_updates(dialect: Dialect, log: &[Event], tally: &Coverage) -> Result<(), TestCaseError> {
    let mut teller: StreamEncoder = responder(dialect).stream_encoder();
    let (mut happened, mut understood) = (json!({}), json!({}));
    let mut ends = Vec::new();
    for (i, event) in log.iter().enumerate() {
        let seq = Seq(u64::try_from(i).unwrap() + 1);
        let frozen = FrozenEvent::freeze(seq, event);
        let (mut losses, mut out) = (Losses::new(), Vec::new());
        teller.encode(&frozen, i + 1 == log.len(), &mut losses, &mut out);
        let told = frames(&out);
        prop_assert!(!told.is_empty(), "{} says nothing of {:?}", dialect, event);
        prop_assert!(told.len() == 1 || dialect == Dialect::V01);
        let read: Vec<_> = told.iter().map(|frame| read(dialect, frame, &mut losses)).collect();
        let shown = json!(frozen.to_wire().unwrap());
        tally.event(&frozen.to_wire().unwrap());
        prop_assert_eq!(losses.omitted(), 0);
        let shown = masked(lift(&shown), losses.notes());
        let read = masked(together(read.iter()), losses.notes());
        if i == 0 {
            (happened, understood) = (shown, read);
        } else {
            apply(&mut happened, &shown);
            apply(&mut understood, &read);
        }
        for frame in &told {
            prop_assert_eq!(frame.number, dialect.features().numbered_events.then_some(seq.0));
            prop_assert_eq!(&frame.answer["id"], "s");
            let named = if dialect == Dialect::V01 { json!("mine") } else { json!(log_id(log)) };
            let result = &frame.answer["result"];
            let name = result.get("taskId").or_else(|| result.get("id")).unwrap();
            prop_assert_eq!(name, &named);
            ends.push(result.get("final").cloned());
        }
    }
    let last = ends.pop().unwrap();
    prop_assert_eq!(last, Some(json!(true)), "the last frame is the last");
    prop_assert!(!ends.contains(&Some(json!(true))), "and no other is");
    if dialect == Dialect::V01 {
        // The task has the client's own id, and its metadata came with its status.
        happened["id"] = json!("mine");
        if let Some(update) = understood.as_object_mut().unwrap().remove("update")
            && let Some(metadata) = update.get("metadata")
        {
            understood["metadata"] = metadata.clone();
        }
    }
    prop_assert_eq!(happened, understood, "{}", dialect);
    Ok(())
}

fn log_id(log: &[Event]) -> sabir_proto::TaskId {
    let Event::Task(task) = &log[0] else { unreachable!("a log opens with its task") };
    task.id
}

/// Encodes a log in agent-native, where every frame is the task so far.
fn check_wholes(log: &[Event]) -> Result<(), TestCaseError> {
    let mut teller = responder(Dialect::Native).stream_encoder();
    let mut task: Option<WireTask> = None;
    let mut told_last = false;
    for (i, event) in log.iter().enumerate() {
        let frozen = FrozenEvent::freeze(Seq(u64::try_from(i).unwrap() + 1), event);
        let (mut losses, mut out) = (Losses::new(), Vec::new());
        let last = i + 1 == log.len();
        teller.encode(&frozen, last, &mut losses, &mut out);
        match (&mut task, frozen.to_wire().unwrap()) {
            (task @ None, WireEvent::Task(whole)) => *task = Some(whole),
            (Some(task), event) => task.apply(event, None),
            (None, _) => unreachable!("a log opens with its task"),
        }
        let told = frames(&out);
        prop_assert!(told.len() <= 1);
        told_last = !told.is_empty();
        for frame in &told {
            prop_assert_eq!(frame.number, None);
            prop_assert_eq!(&frame.answer["id"], &json!(0));
            let read = read(Dialect::Native, frame, &mut losses);
            let losses: Vec<_> = losses.notes().iter().map(lift_loss).collect();
            same(&json!(task), &lift(&read), &losses)?;
        }
        let is_news = matches!(event, Event::StatusUpdate(update) if update.status.state != TaskState::Submitted);
        prop_assert!(told_last || !is_news, "a status that is not told: {:?}", event);
    }
    prop_assert!(told_last, "the end is told");
    Ok(())
}

#[test]
fn a_stream_tells_the_same_story_in_every_dialect() {
    let tally = try_on(&logs(), |log, tally| {
        for dialect in [Dialect::V03, Dialect::V02, Dialect::V01] {
            check_updates(dialect, log, tally).map_err(|e| TestCaseError::fail(format!("{dialect}: {e}")))?;
        }
        check_wholes(log)
    });
    let events = ["task", "statusUpdate", "artifactUpdate that appends", "artifactUpdate that replaces"];
    tally.must_have_seen(&[&events, &coverage::STATES, &["TASK_STATE_TRANSFERRED"], &coverage::PARTS]);
}

#[test]
fn one_zero_tells_what_was_committed_and_nothing_that_is_only_ours() {
    let _ = try_on(&logs(), |log, _| {
        let mut teller = responder(Dialect::V1).stream_encoder();
        for (i, event) in log.iter().enumerate() {
            let frozen = FrozenEvent::freeze(Seq(u64::try_from(i).unwrap() + 1), event);
            let (mut losses, mut out) = (Losses::new(), Vec::new());
            teller.encode(&frozen, false, &mut losses, &mut out);
            let told = frames(&out).remove(0);
            let mut expected = json!(event);
            for name in ["task", "statusUpdate"] {
                if let Some(state) = expected.get_mut(name).map(|e| &mut e["status"]["state"])
                    && *state == "TASK_STATE_TRANSFERRED"
                {
                    *state = json!("TASK_STATE_COMPLETED");
                }
            }
            prop_assert_eq!(&told.answer["result"], &expected);
        }
        Ok(())
    });
}

#[test]
fn a_direct_reply_is_all_its_stream_carries() {
    let _ = try_on(&any::message(0), |message: &Message, _| {
        for dialect in [Dialect::V1, Dialect::V03, Dialect::V02, Dialect::V01, Dialect::Native] {
            let (mut losses, mut out) = (Losses::new(), Vec::new());
            responder(dialect).stream_encoder().encode_direct_reply(message, &mut losses, &mut out);
            let told = frames(&out);
            prop_assert!(told.iter().all(|frame| frame.number.is_none()));
            let read: Vec<_> = told.iter().map(|frame| read(dialect, frame, &mut losses)).collect();
            let losses: Vec<_> = losses.notes().iter().map(lift_loss).collect();
            let last = lift(read.last().unwrap());
            if dialect.features().direct_replies {
                same(&json!({ "message": message }), &last, &losses)?;
                continue;
            }
            prop_assert_eq!(&last["status"]["state"], "TASK_STATE_COMPLETED");
            let said = json!({ "status": { "message": message } });
            let heard = json!({ "status": { "message": last["status"]["message"] } });
            let words: Vec<_> = losses.iter().filter(|l| l.path.starts_with("status.message")).cloned().collect();
            same(&said, &heard, &words)?;
            if dialect == Dialect::V01 {
                prop_assert_eq!(&told.last().unwrap().answer["result"]["final"], &json!(true));
                prop_assert_eq!(&told.last().unwrap().answer["result"]["id"], "mine");
            }
        }
        Ok(())
    });
}

/// A task whose answer has `chunks` words, one at a time.
fn long_answer(chunks: usize, words_between: bool) -> (usize, usize) {
    let mut runner = proptest::test_runner::TestRunner::deterministic();
    let task = proptest::strategy::ValueTree::current(&any::task(0).new_tree(&mut runner).unwrap());
    let task = Task { history: Vec::new(), artifacts: Vec::new(), metadata: None, ..task };
    let working = sabir_proto::TaskStatus { state: TaskState::Working, message: None, timestamp: None };
    let task = Task { status: working.clone(), ..task };
    let (task_id, context_id) = (task.id, task.context_id.clone());
    let mut teller = responder(Dialect::Native).stream_encoder();
    let (mut losses, mut out, mut seq) = (Losses::new(), Vec::new(), 0);
    let mut tell = |event: &Event, last: bool| {
        seq += 1;
        out.clear();
        teller.encode(&FrozenEvent::freeze(Seq(seq), event), last, &mut losses, &mut out);
        out.len()
    };
    let mut total = tell(&Event::Task(task), false);
    for i in 0..chunks {
        let artifact_id = ArtifactId::parse("the answer").unwrap();
        let artifact = sabir_proto::Artifact::new(artifact_id, vec![Part::text(format!("word {i} "))]);
        total += tell(
            &Event::ArtifactUpdate(ArtifactUpdate {
                task_id,
                context_id: context_id.clone(),
                artifact,
                append: i > 0,
                last_chunk: false,
                metadata: None,
            }),
            false,
        );
        if words_between && i % 1000 == 0 {
            let status = working.clone();
            let context_id = context_id.clone();
            total += tell(&Event::StatusUpdate(StatusUpdate { task_id, context_id, status, metadata: None }), false);
        }
    }
    let status = sabir_proto::TaskStatus { state: TaskState::Completed, message: None, timestamp: None };
    let end = tell(&Event::StatusUpdate(StatusUpdate { task_id, context_id, status, metadata: None }), true);
    (total + end, end)
}

#[test]
fn a_long_answer_in_small_chunks_does_not_cost_its_square_in_agent_native() {
    for words_between in [false, true] {
        let (total, end) = long_answer(10_000, words_between);
        assert!(total <= 10 * end + 10_000, "{total} bytes were told of a task of {end}");
    }
}
