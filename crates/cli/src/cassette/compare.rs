//! Are two answers the same? Names that servers make up and times of day aside.
//!
//! A name is compared by where it stands: the first time two names are seen in the same place they are taken for each
//! other, and from then on they have to stay so. That finds an answer about another task, and it tells what the recorded
//! names are called today.

use serde_json::Value;
use std::collections::BTreeMap;

/// Members that hold names made up by a server.
const NAMES: [&str; 5] = ["id", "taskId", "contextId", "messageId", "nextPageToken"];

/// One place where two answers differ.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) struct Difference {
    pub(crate) path: String,
    pub(crate) recorded: String,
    pub(crate) now: String,
}

/// Maps recorded names to today's names, and back.
#[derive(Debug, Default)]
pub(crate) struct NameMap {
    now: BTreeMap<String, String>,
    recorded: BTreeMap<String, String>,
}

impl NameMap {
    /// Today's name for a recorded one.
    pub(crate) fn current<'a>(&'a self, recorded: &'a str) -> &'a str {
        self.now.get(recorded).map_or(recorded, String::as_str)
    }

    /// Replaces recorded names by today's, wherever they stand.
    pub(crate) fn replace_names(&self, value: &mut Value) {
        match value {
            Value::String(text) => {
                if let Some(now) = self.now.get(text.as_str()) {
                    text.clone_from(now);
                }
            }
            Value::Array(items) => items.iter_mut().for_each(|item| self.replace_names(item)),
            Value::Object(members) => members.values_mut().for_each(|member| self.replace_names(member)),
            Value::Null | Value::Bool(_) | Value::Number(_) => {}
        }
    }

    /// Maps two names to each other, unless one of them is mapped already. Returns whether they match.
    fn map_names(&mut self, recorded: &str, now: &str) -> bool {
        if recorded.is_empty() || now.is_empty() {
            return recorded == now;
        }
        match (self.now.get(recorded), self.recorded.get(now)) {
            (Some(known), _) => known == now,
            (None, Some(known)) => known == recorded,
            (None, None) => {
                self.now.insert(recorded.to_owned(), now.to_owned());
                self.recorded.insert(now.to_owned(), recorded.to_owned());
                true
            }
        }
    }
}

/// Every place where two values differ. Members with a name in `ignored` are not looked at.
pub(crate) fn differences(recorded: &Value, now: &Value, names: &mut NameMap, ignored: &[String]) -> Vec<Difference> {
    let mut found = Vec::new();
    walk(recorded, now, &mut String::new(), "", &mut Comparison { names, ignored, found: &mut found });
    found
}

struct Comparison<'a> {
    names: &'a mut NameMap,
    ignored: &'a [String],
    found: &'a mut Vec<Difference>,
}

fn walk(recorded: &Value, now: &Value, path: &mut String, member: &str, at: &mut Comparison<'_>) {
    if at.ignored.iter().any(|name| name == member) {
        return;
    }
    let length = path.len();
    match (recorded, now) {
        (Value::Object(a), Value::Object(b)) => {
            let mut all: Vec<&String> = a.keys().chain(b.keys().filter(|name| !a.contains_key(*name))).collect();
            all.sort();
            for name in all {
                if !path.is_empty() {
                    path.push('.');
                }
                path.push_str(name);
                walk(a.get(name).unwrap_or(&Value::Null), b.get(name).unwrap_or(&Value::Null), path, name, at);
                path.truncate(length);
            }
        }
        (Value::Array(a), Value::Array(b)) => {
            for place in 0..a.len().max(b.len()) {
                path.push_str(&format!("[{place}]"));
                walk(a.get(place).unwrap_or(&Value::Null), b.get(place).unwrap_or(&Value::Null), path, member, at);
                path.truncate(length);
            }
        }
        (Value::String(a), Value::String(b)) if is_name(member, a, b) && at.names.map_names(a, b) => {}
        (Value::String(a), Value::String(b)) if is_time(a) && is_time(b) => {}
        (a, b) if a == b => {}
        // What is empty and what is left out say the same.
        (a, b) if is_nothing(a) && is_nothing(b) => {}
        (a, b) => at.found.push(Difference { path: path.clone(), recorded: excerpt(a), now: excerpt(b) }),
    }
}

/// Whether a member holds names that a server made up. Agents often name their artifacts themselves; those names mean
/// something.
fn is_name(member: &str, recorded: &str, now: &str) -> bool {
    let random = |text: &str| text.len() >= 16 && text.bytes().any(|byte| byte.is_ascii_digit());
    NAMES.contains(&member) || (member == "artifactId" && random(recorded) && random(now))
}

fn is_time(text: &str) -> bool {
    text.len() >= 20
        && text.as_bytes()[4] == b'-'
        && serde_json::from_value::<sabir_proto::Timestamp>(Value::String(text.to_owned())).is_ok()
}

fn is_nothing(value: &Value) -> bool {
    match value {
        Value::Null => true,
        Value::Array(items) => items.is_empty(),
        Value::Object(members) => members.is_empty(),
        Value::String(text) => text.is_empty(),
        Value::Bool(_) | Value::Number(_) => false,
    }
}

/// A value that fits on a line.
fn excerpt(value: &Value) -> String {
    match value {
        Value::Null => "nothing".to_owned(),
        value => {
            let text = value.to_string();
            let cut: String = text.chars().take(120).collect();
            if cut.len() < text.len() { format!("{cut}…") } else { cut }
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use serde_json::json;

    fn check(recorded: Value, now: Value) -> Vec<String> {
        let found = differences(&recorded, &now, &mut NameMap::default(), &["text".to_owned()]);
        found.into_iter().map(|d| format!("{}: {} / {}", d.path, d.recorded, d.now)).collect()
    }

    #[test]
    fn names_and_times_may_change_and_nothing_else() {
        let recorded = json!({"task":{"id":"t1","contextId":"c1","status":{"state":"A","timestamp":"2026-09-01T08:14:22.310Z"},
            "history":[{"taskId":"t1","parts":[{"text":"x"}]}],"artifacts":[]}});
        let now = json!({"task":{"id":"t9","contextId":"c9","status":{"state":"A","timestamp":"2026-11-15T00:00:00Z"},
            "history":[{"taskId":"t9","parts":[{"text":"y"}]}]}});
        assert_eq!(check(recorded.clone(), now.clone()), Vec::<String>::new());
        let mut other = now.clone();
        other["task"]["status"]["state"] = json!("B");
        assert_eq!(check(recorded.clone(), other), ["task.status.state: \"A\" / \"B\""]);
        let mut stranger = now;
        stranger["task"]["history"][0]["taskId"] = json!("c9");
        assert_eq!(check(recorded, stranger), ["task.history[0].taskId: \"t1\" / \"c9\""]);
    }

    #[test]
    fn what_is_missing_or_added_is_told_by_its_path() {
        assert_eq!(check(json!({"a":[1,2]}), json!({"a":[1]})), ["a[1]: 2 / nothing"]);
        assert_eq!(check(json!({}), json!({"b":{"c":true}})), ["b: nothing / {\"c\":true}"]);
        assert_eq!(check(json!(null), json!("")), Vec::<String>::new());
        assert_eq!(
            check(json!({"artifactId":"sum"}), json!({"artifactId":"total"})),
            ["artifactId: \"sum\" / \"total\""]
        );
    }

    #[test]
    fn recorded_names_are_put_into_todays() {
        let mut names = NameMap::default();
        differences(&json!({"id":"t1"}), &json!({"id":"t9"}), &mut names, &[]);
        let mut request = json!({"id":"t1","message":{"taskId":"t1","parts":[{"text":"about t1"}]}});
        names.replace_names(&mut request);
        assert_eq!(request, json!({"id":"t9","message":{"taskId":"t9","parts":[{"text":"about t1"}]}}));
        assert_eq!((names.current("t1"), names.current("zz")), ("t9", "zz"));
    }
}
