//! Compares values, except for the paths that a translation notes as lost.

use serde_json::Value;

/// Stands for a value that may be anything, or absent.
const MASKED: &str = "(masked: anything may stand here, or nothing)";

/// Removes a path from the comparison: `skills[1].inputModes`, `securitySchemes.k`. The empty path is the whole value.
///
/// Names may hold dots and brackets; of several readings of a path, each is masked. A missing member is masked too,
/// since the other side may have it.
pub(crate) fn mask(value: &mut Value, path: &str) {
    if path.is_empty() {
        *value = MASKED.into();
        return;
    }
    match value {
        Value::Object(members) => {
            let path = path.strip_prefix('.').unwrap_or(path);
            for (name, inner) in members.iter_mut() {
                let Some(rest) = path.strip_prefix(&**name) else { continue };
                if rest.is_empty() || rest.starts_with(['.', '[']) {
                    mask(inner, rest);
                }
            }
            // The other side may have a member of that whole name, or a member within one that is missing here.
            if let Some(at) = path.find('.').filter(|at| !members.contains_key(&path[..*at])) {
                let mut inner = Value::Object(serde_json::Map::new());
                mask(&mut inner, &path[at..]);
                members.insert(path[..at].into(), inner);
            }
            members.entry(path).or_insert_with(|| MASKED.into());
        }
        Value::Array(items) => {
            let index = path.strip_prefix('[').and_then(|rest| rest.split_once(']'));
            let Some((index, rest)) = index else { return };
            if let Some(item) = index.parse::<usize>().ok().and_then(|i| items.get_mut(i)) {
                mask(item, rest);
            }
        }
        _ => {}
    }
}

/// The path at which a value differs from a masked one; `None` if nowhere.
///
/// A masked item of a list may be missing on the other side, in which case those after it move up.
pub(crate) fn difference(masked: &Value, other: &Value) -> Option<String> {
    differ(masked, other, "")
}

fn differ(masked: &Value, other: &Value, at: &str) -> Option<String> {
    match (masked, other) {
        (Value::String(text), _) if text == MASKED => None,
        (Value::Object(ours), Value::Object(theirs)) => {
            let unknown = theirs.keys().find(|name| !ours.contains_key(*name));
            if let Some(name) = unknown {
                return Some(format!("{at}.{name} is only there after the way"));
            }
            ours.iter().find_map(|(name, value)| match theirs.get(name) {
                Some(theirs) => differ(value, theirs, &format!("{at}.{name}")),
                None if is_masked(value) => None,
                None => Some(format!("{at}.{name} is only there before the way")),
            })
        }
        (Value::Array(ours), Value::Array(theirs)) => {
            let left: Vec<_> = if ours.len() == theirs.len() {
                ours.iter().enumerate().collect()
            } else {
                ours.iter().enumerate().filter(|(_, item)| *item != MASKED).collect()
            };
            if left.len() != theirs.len() {
                return Some(format!("{at} has {} items before the way and {} after", left.len(), theirs.len()));
            }
            left.into_iter().zip(theirs).find_map(|((i, ours), theirs)| differ(ours, theirs, &format!("{at}[{i}]")))
        }
        _ if masked == other => None,
        _ => Some(format!("{at} was {masked} and is {other}")),
    }
}

/// Whether nothing is left of a value to compare.
fn is_masked(value: &Value) -> bool {
    match value {
        Value::Object(members) => !members.is_empty() && members.values().all(is_masked),
        Value::Array(items) => !items.is_empty() && items.iter().all(is_masked),
        _ => value == MASKED,
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use serde_json::json;

    #[track_caller]
    fn check(before: Value, paths: &[&str], after: Value, same: bool) {
        let mut masked = before;
        paths.iter().for_each(|path| mask(&mut masked, path));
        let difference = difference(&masked, &after);
        assert_eq!(difference.is_none(), same, "{difference:?}");
    }

    #[test]
    fn what_is_not_masked_counts() {
        check(json!({"a": 1}), &[], json!({"a": 1}), true);
        check(json!({"a": 1}), &[], json!({"a": 2}), false);
        check(json!({"a": 1}), &[], json!({}), false);
        check(json!({}), &[], json!({"a": 1}), false);
        check(json!([1]), &[], json!([1, 2]), false);
        check(json!([1, 2]), &[], json!([1]), false);
        check(json!({"a": {"b": 1, "c": 1}}), &["a.b"], json!({"a": {"b": 2, "c": 2}}), false);
    }

    #[test]
    fn what_is_masked_may_change_come_and_go() {
        for after in [json!({"a": {"b": 2}}), json!({"a": {}})] {
            check(json!({"a": {"b": 1}}), &["a.b"], after, true);
        }
        check(json!({"a": {}}), &["a.b"], json!({"a": {"b": [1]}}), true);
        check(json!(1), &[""], json!({"a": 1}), true);
        check(json!({"a": {"b": 1}}), &["a.b"], json!({}), true);
        check(json!({"a": {"b": 1, "c": 1}}), &["a.b"], json!({}), false);
        check(json!({}), &["a.b"], json!({"a": {"b": 1}}), true);
        check(json!({}), &["a.b"], json!({"a": {"c": 1}}), false);
    }

    #[test]
    fn masked_items_may_go_and_the_others_move_up() {
        let before = || json!({"l": [{"n": 0}, {"n": 1}, {"n": 2, "x": 1}]});
        check(before(), &["l[1]", "l[2].x"], json!({"l": [{"n": 0}, {"n": 2, "x": 5}]}), true);
        check(before(), &["l[1]", "l[2].x"], json!({"l": [{"n": 0}, 7, {"n": 2}]}), true);
        check(before(), &["l[1]"], json!({"l": [{"n": 0}, {"n": 1}]}), false);
        check(before(), &["l[9]"], before(), true);
    }

    #[test]
    fn names_may_look_like_paths() {
        check(json!({"m": {"a.b[0]": 1, "a": 1}}), &["m.a.b[0]"], json!({"m": {"a.b[0]": 2, "a": 1}}), true);
        check(json!({"m": {"": 1}}), &["m."], json!({"m": {"": 2}}), true);
        check(json!({"m": {"": 1}}), &["m..", "m."], json!({"m": {".": 2}}), true);
        check(json!({"m": {"": {"x": 1, "y": 1}}}), &["m..x"], json!({"m": {"": {"x": 2, "y": 1}}}), true);
    }
}
