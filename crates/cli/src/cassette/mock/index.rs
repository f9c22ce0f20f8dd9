//! The index of a cassette: finds the recorded exchange that answers a request.

use crate::cassette::compare::{NameMap, differences};
use crate::cassette::{Cassette, CassetteHead, RecordedExchange};
use sabir_client::Binding;
use serde_json::{Map, Value};
use std::sync::{Mutex, PoisonError};

/// A request without what changes from one time to the next.
#[derive(Debug, Clone, PartialEq)]
pub(super) struct RequestKey {
    interface: usize,
    /// The method of JSON-RPC, or the verb and the shape of the path.
    pub(super) operation: String,
    params: Value,
}

/// Every answer to one question, in the order in which they were given.
#[derive(Debug)]
struct RecordedAnswers {
    key: RequestKey,
    exchanges: Vec<usize>,
    /// How often it was asked.
    asked: usize,
}

/// All recorded exchanges.
pub(super) struct CassetteIndex {
    pub(super) head: CassetteHead,
    exchanges: Vec<RecordedExchange>,
    groups: Mutex<Vec<RecordedAnswers>>,
}

/// Why there is no recorded answer.
#[derive(Debug, PartialEq, Eq)]
pub(super) enum NoMatch {
    /// Nothing of that operation.
    Operation(String),
    /// Something like it.
    Nearest(String),
}

impl RequestKey {
    /// What a request asks. `path` is below the interface.
    pub(super) fn of(interface: usize, binding: Option<Binding>, method: &str, path: &str, body: &Value) -> Self {
        if binding == Some(Binding::JsonRpc) {
            let operation = body["method"].as_str().unwrap_or_default().to_owned();
            return Self { interface, operation, params: comparable(&body["params"]) };
        }
        let (path, query) = path.split_once('?').unwrap_or((path, ""));
        let mut fields: Vec<&str> = query.split('&').filter(|field| !field.is_empty()).collect();
        fields.sort_unstable();
        let mut params = Map::new();
        params.insert("path".into(), path.into());
        params.insert("query".into(), fields.into());
        params.insert("body".into(), comparable(body));
        Self { interface, operation: format!("{method} {}", path_shape(path)), params: Value::Object(params) }
    }
}

impl CassetteIndex {
    pub(super) fn new(cassette: Cassette) -> Self {
        let Cassette { head, exchanges, .. } = cassette;
        let mut groups: Vec<RecordedAnswers> = Vec::new();
        for (at, exchange) in exchanges.iter().enumerate() {
            let request = &exchange.request;
            let binding = exchange.binding.parse().ok();
            let key =
                RequestKey::of(exchange.interface, binding, &request.method, &request.path, &request.body.value());
            match groups.iter_mut().find(|group| group.key == key) {
                Some(group) => group.exchanges.push(at),
                None => groups.push(RecordedAnswers { key, exchanges: vec![at], asked: 0 }),
            }
        }
        Self { head, exchanges, groups: Mutex::new(groups) }
    }

    /// The binding of an interface of the card.
    pub(super) fn binding(&self, interface: usize) -> Option<Binding> {
        let card: Value = serde_json::from_str(self.head.card.get()).ok()?;
        card["supportedInterfaces"][interface]["protocolBinding"].as_str()?.parse().ok()
    }

    /// The next answer to a question.
    pub(super) fn answer(&self, key: &RequestKey) -> Result<&RecordedExchange, NoMatch> {
        let mut groups = self.groups.lock().unwrap_or_else(PoisonError::into_inner);
        match groups.iter_mut().find(|group| group.key == *key) {
            Some(group) => {
                let at = group.exchanges[group.asked.min(group.exchanges.len() - 1)];
                group.asked += 1;
                Ok(&self.exchanges[at])
            }
            None => Err(self.nearest(&groups, key)),
        }
    }

    fn nearest(&self, groups: &[RecordedAnswers], key: &RequestKey) -> NoMatch {
        let alike =
            groups.iter().filter(|group| group.key.operation == key.operation && group.key.interface == key.interface);
        let differing = alike.map(|group| {
            // Names are compared as they are: another task is another question.
            let found = differences(
                &with_prefixed_members(&group.key.params),
                &with_prefixed_members(&key.params),
                &mut NameMap::default(),
                &[],
            );
            (found, &self.exchanges[group.exchanges[0]])
        });
        match differing.min_by_key(|(found, _)| found.len()) {
            None => {
                let mut known: Vec<&str> = groups.iter().map(|group| group.key.operation.as_str()).collect();
                known.dedup();
                NoMatch::Operation(format!("{} was not recorded; there are {}", key.operation, known.join(", ")))
            }
            Some((found, nearest)) => {
                let told: Vec<String> = found
                    .iter()
                    .take(3)
                    .map(|d| format!("{}: {} was recorded, {} was asked", without_prefixes(&d.path), d.recorded, d.now))
                    .collect();
                NoMatch::Nearest(format!(
                    "no recorded {} fits; nearest is exchange {} (line {}), which differs at {}",
                    key.operation,
                    nearest.exchange,
                    nearest.line,
                    told.join("; ")
                ))
            }
        }
    }
}

/// Without the names of messages, which are new every time, and without what says nothing.
fn comparable(value: &Value) -> Value {
    match value {
        Value::Object(members) => {
            let kept =
                members.iter().filter(|(name, _)| *name != "messageId").map(|(name, v)| (name.clone(), comparable(v)));
            Value::Object(kept.filter(|(_, value)| !is_nothing(value)).collect())
        }
        Value::Array(items) => items.iter().map(comparable).collect(),
        other => other.clone(),
    }
}

fn is_nothing(value: &Value) -> bool {
    match value {
        Value::Null | Value::Bool(false) => true,
        Value::Array(items) => items.is_empty(),
        Value::Object(members) => members.is_empty(),
        Value::String(text) => text.is_empty(),
        Value::Bool(true) | Value::Number(_) => false,
    }
}

/// Members under other names, so that the comparison of answers takes no name for another.
fn with_prefixed_members(value: &Value) -> Value {
    match value {
        Value::Object(members) => {
            members.iter().map(|(name, value)| (format!("={name}"), with_prefixed_members(value))).collect()
        }
        Value::Array(items) => items.iter().map(with_prefixed_members).collect(),
        other => other.clone(),
    }
}

fn without_prefixes(path: &str) -> String {
    path.replace('=', "")
}

/// `/tasks/x:cancel` is `/tasks/{id}:cancel`.
fn path_shape(path: &str) -> String {
    let mut shaped = Vec::new();
    let mut before = "";
    for segment in path.split('/') {
        let named = matches!(before, "tasks" | "pushNotificationConfigs");
        shaped.push(match (named, segment.rsplit_once(':')) {
            (true, Some((_, verb))) => format!("{{id}}:{verb}"),
            (true, None) => "{id}".to_owned(),
            (false, _) => segment.to_owned(),
        });
        before = segment;
    }
    shaped.join("/")
}

#[cfg(test)]
mod tests {
    use super::*;
    use serde_json::json;

    fn index() -> CassetteIndex {
        let head = r#"{"cassette":1,"tool":"t","agent":"a","interfaces":[0],"card":{"supportedInterfaces":[{"protocolBinding":"JSONRPC"}]}}"#;
        let line = |number: u64, method: &str, params: Value, status: u16| {
            json!({"exchange": number, "interface": 0, "binding": "JSONRPC",
                "request": {"method": "POST", "path": "", "body": {"json": {"id": number, "method": method, "params": params}}},
                "response": {"status": status, "after": 0}})
            .to_string()
        };
        let message = |text: &str, id: &str| json!({"message": {"messageId": id, "parts": [{"text": text}]}});
        let lines = [
            line(1, "SendMessage", message("hi", "m1"), 201),
            line(2, "GetTask", json!({"id": "t1"}), 202),
            line(3, "GetTask", json!({"id": "t1"}), 203),
        ];
        let directory = tempfile::TempDir::new().unwrap();
        let path = directory.path().join("a.cassette");
        std::fs::write(&path, format!("{head}\n{}\n", lines.join("\n"))).unwrap();
        CassetteIndex::new(Cassette::read(&path, crate::cassette::DamagePolicy::Refuse).unwrap())
    }

    fn ask(index: &CassetteIndex, method: &str, params: Value) -> Result<u16, NoMatch> {
        let body = json!({"id": 9, "method": method, "params": params});
        let key = RequestKey::of(0, index.binding(0), "POST", "", &body);
        index.answer(&key).map(|exchange| exchange.response.status)
    }

    #[test]
    fn the_same_question_is_answered_in_order_and_the_last_answer_repeats() {
        let index = index();
        let asked: Vec<u16> = (0..3).map(|_| ask(&index, "GetTask", json!({"id": "t1"})).unwrap()).collect();
        assert_eq!(asked, [202, 203, 203]);
    }

    #[test]
    fn the_name_of_a_message_does_not_matter() {
        let index = index();
        let params = json!({"message": {"messageId": "another", "parts": [{"text": "hi"}]}, "configuration": {}});
        assert_eq!(ask(&index, "SendMessage", params), Ok(201));
    }

    #[test]
    fn what_was_not_recorded_is_refused_with_what_is_nearest() {
        let index = index();
        let Err(NoMatch::Nearest(words)) = ask(&index, "SendMessage", json!({"message": {"parts": [{"text": "ho"}]}}))
        else {
            panic!("it was answered")
        };
        assert!(words.contains("exchange 1 (line 2)"), "{words}");
        assert!(words.contains(r#"message.parts[0].text: "hi" was recorded, "ho" was asked"#), "{words}");
        let Err(NoMatch::Nearest(words)) = ask(&index, "GetTask", json!({"id": "t2"})) else {
            panic!("it was answered")
        };
        assert!(words.contains(r#"id: "t1" was recorded, "t2" was asked"#), "{words}");
        let Err(NoMatch::Operation(words)) = ask(&index, "CancelTask", json!({})) else { panic!("it was answered") };
        assert!(words.contains("SendMessage, GetTask"), "{words}");
    }

    #[test]
    fn paths_are_known_by_their_shape() {
        assert_eq!(path_shape("/tasks/a%3Ab:cancel"), "/tasks/{id}:cancel");
        assert_eq!(path_shape("/tasks/t/pushNotificationConfigs/c"), "/tasks/{id}/pushNotificationConfigs/{id}");
        assert_eq!(path_shape("/message:send"), "/message:send");
    }
}
