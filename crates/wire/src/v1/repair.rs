//! Repairs the JSON answers of servers that leave out or overdo something.
//!
//! A careless agent forgets the id or the role of a message. Its SDK then leaves the member out, and a strict reader
//! would lose the whole task over it. So an answer that cannot be read is repaired and read once more:
//!
//! | What is wrong | What it becomes |
//! |---|---|
//! | a message or an artifact without an id | it gets the id `unnamed` |
//! | a message without a role | the role of the agent |
//! | `parts` missing or `null` | none |
//! | a part with `"data": null` beside its content | without it |
//! | a part without known content | a data part that holds it |
//! | a status whose message is a text | a message with that text |
//! | a time with an offset, or without a zone | the same time in UTC |
//! | a time that cannot be read | left out |
//!
//! Nothing else is changed, numbers keep all their digits, and any further error is the server's fault. Only answers
//! are repaired; a request with such an error is refused.

use sabir_proto::Timestamp;
use serde::Serialize;
use serde_json::value::{RawValue, to_raw_value};
use std::collections::BTreeMap;

/// The id of messages and artifacts that have none.
pub(super) const UNNAMED: &str = "unnamed";

/// Repairs an event, or the answer to a send.
pub(super) fn event(raw: &RawValue) -> RawJson {
    repair_object(raw, |event| {
        event.repair_member("task", task);
        event.repair_member("message", message);
        for update in ["statusUpdate", "status_update"] {
            event.repair_member(update, |raw| repair_object(raw, |update| update.repair_member("status", status)));
        }
        for update in ["artifactUpdate", "artifact_update"] {
            event.repair_member(update, |raw| repair_object(raw, |update| update.repair_member("artifact", artifact)));
        }
    })
}

/// Repairs a task, its messages and artifacts.
pub(super) fn task(raw: &RawValue) -> RawJson {
    repair_object(raw, |task| {
        task.repair_member("status", status);
        task.repair_each("history", message);
        task.repair_each("artifacts", artifact);
    })
}

/// Repairs a page of tasks.
pub(super) fn page(raw: &RawValue) -> RawJson {
    repair_object(raw, |page| page.repair_each("tasks", task))
}

fn status(raw: &RawValue) -> RawJson {
    repair_object(raw, |status| {
        match status.text("message").as_deref() {
            Some("") => status.remove("message"),
            Some(text) => status.set("message", &BTreeMap::from([("parts", [BTreeMap::from([("text", text)])])])),
            None => {}
        }
        status.repair_member("message", message);
        if status.0.contains_key("timestamp") {
            match status.text("timestamp").as_deref().and_then(Timestamp::parse_loose) {
                Some(time) => status.set("timestamp", &time),
                None => status.remove("timestamp"),
            }
        }
    })
}

fn message(raw: &RawValue) -> RawJson {
    repair_object(raw, |message| {
        message.name(["messageId", "message_id"]);
        let is_silent = match message.0.get("role").map(|role| role.get()) {
            Some(role) => matches!(role, "null" | "0" | "\"\"" | "\"ROLE_UNSPECIFIED\""),
            None => true,
        };
        if is_silent {
            message.set("role", "ROLE_AGENT");
        }
        message.parts();
    })
}

fn artifact(raw: &RawValue) -> RawJson {
    repair_object(raw, |artifact| {
        artifact.name(["artifactId", "artifact_id"]);
        artifact.parts();
    })
}

fn part(raw: &RawValue) -> RawJson {
    const CONTENTS: [&str; 3] = ["text", "raw", "url"];
    let mut odd = false;
    let mended = repair_object(raw, |part| {
        let has_content = CONTENTS.iter().any(|name| part.is_set(name));
        if has_content && !part.is_set("data") {
            part.remove("data");
        }
        odd = !has_content && !part.0.contains_key("data");
    });
    if odd { RawObject(BTreeMap::from([("data".to_owned(), mended)])).into_raw() } else { mended }
}

type RawJson = Box<RawValue>;

/// The members of an object, as unparsed text.
struct RawObject(BTreeMap<String, RawJson>);

/// Changes the members of an object; a value that is no object stays as it is.
fn repair_object(raw: &RawValue, change: impl FnOnce(&mut RawObject)) -> RawJson {
    match serde_json::from_str(raw.get()) {
        Ok(members) => {
            let mut members = RawObject(members);
            change(&mut members);
            members.into_raw()
        }
        Err(_) => raw.to_owned(),
    }
}

impl RawObject {
    fn into_raw(self) -> RawJson {
        to_raw_value(&self.0).expect("what was read can be written")
    }

    fn is_set(&self, name: &str) -> bool {
        self.0.get(name).is_some_and(|value| value.get() != "null")
    }

    /// A member that is a text.
    fn text(&self, name: &str) -> Option<String> {
        serde_json::from_str(self.0.get(name)?.get()).ok()
    }

    fn set(&mut self, name: &str, value: &(impl Serialize + ?Sized)) {
        self.0.insert(name.to_owned(), to_raw_value(value).expect("texts serialise"));
    }

    fn remove(&mut self, name: &str) {
        self.0.remove(name);
    }

    /// Repairs a member, if it is there.
    fn repair_member(&mut self, name: &str, mend: impl Fn(&RawValue) -> RawJson) {
        if let Some(value) = self.0.get_mut(name) {
            *value = mend(value);
        }
    }

    /// Repairs each element of a list.
    fn repair_each(&mut self, name: &str, mend: impl Fn(&RawValue) -> RawJson) {
        if let Some(items) = self.0.get(name).and_then(|list| serde_json::from_str::<Vec<&RawValue>>(list.get()).ok()) {
            let mended: Vec<RawJson> = items.into_iter().map(mend).collect();
            self.set(name, &mended);
        }
    }

    /// Sets the id, unless there is one in either spelling.
    fn name(&mut self, spellings: [&str; 2]) {
        let named = spellings.iter().any(|name| self.is_set(name) && self.text(name).as_deref() != Some(""));
        if !named {
            spellings.iter().for_each(|name| self.remove(name));
            self.set(spellings[0], UNNAMED);
        }
    }

    fn parts(&mut self) {
        if self.is_set("parts") {
            self.repair_each("parts", part);
        } else {
            self.set("parts", &[(); 0]);
        }
    }
}

#[cfg(test)]
mod tests {
    use crate::AnswerKind;
    use crate::v1::http::{read_answer, read_event};
    use sabir_proto::{Fault, WireReply, WireTask};
    use serde_json::{Value, json};

    /// Reads a task and returns it in canonical JSON.
    #[track_caller]
    fn read(text: &str) -> Value {
        match read_answer(AnswerKind::Task, text.as_bytes()) {
            Ok(WireReply::Task(task)) => json!(task),
            other => panic!("{other:?}"),
        }
    }

    #[track_caller]
    fn check(name: &str, odd: Value, expected: Value) {
        let task = |value: Value| {
            let mut task = json!({ "id": "t", "status": { "state": "TASK_STATE_WORKING" } });
            if name == "status" {
                task["status"].as_object_mut().unwrap().extend(value.as_object().unwrap().clone())
            } else {
                task[name] = value
            }
            task
        };
        assert_eq!(read(&task(odd).to_string()), task(expected));
    }

    #[test]
    fn what_is_left_out_is_filled_in() {
        let message = json!({ "messageId": "unnamed", "role": "ROLE_AGENT", "parts": [{ "text": "hi" }] });
        for odd in [
            json!({ "parts": [{ "text": "hi" }] }),
            json!({ "messageId": "", "role": "ROLE_UNSPECIFIED", "parts": [{ "text": "hi" }] }),
            json!({ "message_id": null, "role": 0, "parts": [{ "text": "hi", "data": null, "url": null }] }),
        ] {
            check("history", json!([odd]), json!([message]));
            check("status", json!({ "message": odd }), json!({ "message": message }));
        }
        check("status", json!({ "message": "hi" }), json!({ "message": message }));
        check("status", json!({ "message": "" }), json!({}));
        let user = json!({ "message_id": "m", "role": 1 });
        check("history", json!([user]), json!([{ "messageId": "m", "role": "ROLE_USER", "parts": [] }]));
        let artifact = json!({ "artifactId": "unnamed", "parts": [{ "data": { "video": "v" } }, { "data": null }] });
        check("artifacts", json!([{ "parts": [{ "video": "v" }, { "data": null }] }]), json!([artifact]));
    }

    #[test]
    fn times_are_read_in_other_forms_and_nonsense_is_left_out() {
        for (odd, expected) in [
            ("2026-01-31T10:30:00+01:00", json!({ "timestamp": "2026-01-31T09:30:00.000Z" })),
            ("2026-01-31T09:30:00.123456", json!({ "timestamp": "2026-01-31T09:30:00.123Z" })),
            ("yesterday", json!({})),
        ] {
            check("status", json!({ "timestamp": odd }), expected);
        }
        check("status", json!({ "timestamp": 1 }), json!({}));
    }

    #[test]
    fn numbers_keep_their_digits() {
        let part = r#"{"data":{"n":123456789012345678901234567890,"x":1.10}}"#;
        let task = format!(r#"{{"id":"t","status":{{}},"history":[{{"parts":[{part}]}}]}}"#);
        let Ok(WireReply::Task(task)) = read_answer(AnswerKind::Task, task.as_bytes()) else { panic!("a task") };
        assert!(serde_json::to_string(&task).unwrap().contains(part));
    }

    #[test]
    fn events_and_pages_are_mended_too() {
        let odd = r#"{"id":"t","status":{"message":"hi"}}"#;
        let Ok(WireReply::Tasks { tasks, .. }) =
            read_answer(AnswerKind::Tasks, format!(r#"{{"tasks":[{odd}]}}"#).as_bytes())
        else {
            panic!("a page")
        };
        let task: &WireTask = &tasks[0];
        assert_eq!(task.status.message.as_ref().unwrap().joined_text(), "hi");
        for event in [
            format!(r#"{{"task":{odd}}}"#),
            r#"{"message":{"parts":[{"text":"hi"}]}}"#.to_owned(),
            r#"{"statusUpdate":{"taskId":"t","status":{"message":"hi"}}}"#.to_owned(),
            r#"{"artifact_update":{"task_id":"t","artifact":{},"append":null,"last_chunk":true,"x":1}}"#.to_owned(),
        ] {
            assert!(read_event(&event).is_ok(), "{event}: {:?}", read_event(&event));
        }
    }

    #[test]
    fn what_is_missing_beyond_that_is_the_servers_fault() {
        for bad in [
            "{}",
            r#"{"id":"t"}"#,
            r#"{"id":"","status":{}}"#,
            r#"{"id":"t","status":{"state":"working"}}"#,
            r#"{"id":"t","status":{},"history":[{"role":"user","parts":[]}]}"#,
            r#"{"id":"t","status":{},"history":[{"role":"ROLE_USER","parts":[{"text":"a","url":"b"}]}]}"#,
            r#"{"id":"t","status":{},"history":[{"role":"ROLE_USER","parts":[{"raw":"%"}]}]}"#,
            r#"{"id":"t","status":{},"artifacts":[7]}"#,
            r#"{"id":"t","status":[]}"#,
            r#"{"id":"t","id":"u","status":{"message":"hi"}}"#,
            r#"{"id":"t","status":{"message":"hi","message":"ho"}}"#,
        ] {
            assert!(
                matches!(read_answer(AnswerKind::Task, bad.as_bytes()), Err(Fault::InvalidAgentResponse(_))),
                "{bad}"
            );
        }
    }
}
