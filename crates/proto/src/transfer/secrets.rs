//! Detects what looks like a secret, which must not travel in the memory of a task.

use serde_json::Value;

/// Member names that indicate a secret, after separators and case are removed.
const NAMES: [&str; 10] = [
    "token",
    "password",
    "passwd",
    "secret",
    "apikey",
    "accesskey",
    "privatekey",
    "authorization",
    "credential",
    "cookie",
];
/// Prefixes of secret values.
const BEGINNINGS: [&str; 8] = ["bearer ", "basic ", "-----begin ", "sk-", "ghp_", "github_pat_", "xoxb-", "akia"];

/// The path of the first member that looks like a secret.
pub(super) fn find(path: &str, value: &Value) -> Option<String> {
    match value {
        Value::Object(members) => members.iter().find_map(|(name, value)| {
            let path = format!("{path}.{name}");
            let named = matches!(value, Value::String(text) if !text.is_empty()) && is_name(name);
            if named { Some(path) } else { find(&path, value) }
        }),
        Value::Array(list) => list.iter().enumerate().find_map(|(i, value)| find(&format!("{path}[{i}]"), value)),
        Value::String(text) => is_value(text).then(|| path.to_owned()),
        Value::Null | Value::Bool(_) | Value::Number(_) => None,
    }
}

fn is_name(name: &str) -> bool {
    let bare: String = name.chars().filter(char::is_ascii_alphanumeric).collect::<String>().to_ascii_lowercase();
    let bare = bare.strip_suffix('s').unwrap_or(&bare);
    NAMES.iter().any(|secret| bare.ends_with(secret))
}

fn is_value(text: &str) -> bool {
    let begins = |beginning: &&str| {
        text.get(..beginning.len()).is_some_and(|head| head.eq_ignore_ascii_case(beginning)) && text.len() >= 16
    };
    BEGINNINGS.iter().any(begins) || text.split_whitespace().any(is_jwt)
}

/// Three parts of base64url, the first of which is a JSON object.
fn is_jwt(word: &str) -> bool {
    let parts: Vec<&str> = word.split('.').collect();
    let legal = |part: &&str| part.bytes().all(|b| b.is_ascii_alphanumeric() || b == b'-' || b == b'_');
    parts.len() == 3 && parts[0].starts_with("eyJ") && parts[1].len() > 1 && parts.iter().all(legal)
}

#[cfg(test)]
mod tests {
    use super::*;
    use serde_json::json;

    #[test]
    fn secrets_are_found_by_name_and_by_shape_wherever_they_are() {
        for (value, path) in [
            (json!({"access_token": "x"}), "state.access_token"),
            (json!({"a": [{"apiKey": "x"}]}), "state.a[0].apiKey"),
            (json!({"Authorization": "x"}), "state.Authorization"),
            (json!({"db-password": "x"}), "state.db-password"),
            (json!({"note": "Bearer abcdefghijkl"}), "state.note"),
            (json!({"note": "it is eyJhbGciOiJIUzI1NiJ9.eyJzdWIiOiIxIn0.c2ln"}), "state.note"),
            (json!({"note": "-----BEGIN PRIVATE KEY-----"}), "state.note"),
        ] {
            assert_eq!(find("state", &value).as_deref(), Some(path), "{value}");
        }
        for fine in [
            json!({"max_tokens": 512, "token": "", "tokenised": "words"}),
            json!({"note": "a bearer of good news", "id": "a.b.c", "secretary": "Ann"}),
            json!({"sum": 1.5, "list": ["x", null, true]}),
        ] {
            assert_eq!(find("state", &fine), None, "{fine}");
        }
    }
}
