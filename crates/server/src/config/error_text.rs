//! The error texts for mistakes in the configuration.
//!
//! The parser speaks of Rust: fields, variants, `u32`. This module speaks of keys, values and numbers, and suggests the
//! key that was probably meant.

/// How similar two keys must be for a suggestion; 1 means equal.
const SIMILARITY_MIN: f64 = 0.8;

/// Translates the message of the parser into the terms of the file.
pub(super) fn in_plain_words(message: &str) -> String {
    let first = message.lines().next().unwrap_or(message);
    if let Some((wrong, known)) = names(first, "unknown field ") {
        return match known.as_slice() {
            [] => format!("there is no key `{wrong}`"),
            known => format!("there is no key `{wrong}`{}", suggestion(&wrong, known)),
        };
    }
    if let Some((wrong, known)) = names(first, "unknown variant ") {
        return format!("`{wrong}` is not a value for this key{}", suggestion(&wrong, &known));
    }
    if let Some(key) = first.strip_prefix("missing field ") {
        return format!("the key {key} is missing");
    }
    let Some((found, expected)) = first.split_once(", expected ") else { return first.to_owned() };
    let found = found.trim_start_matches("invalid type: ").trim_start_matches("invalid value: ");
    let found = match found.split_once(' ') {
        Some(("integer" | "floating" | "boolean" | "string", _)) if found.starts_with("string") => "a text".to_owned(),
        Some(("integer", number)) => format!("the number {number}"),
        Some(("boolean", value)) => value.to_owned(),
        _ if found == "map" => "a table".to_owned(),
        _ if found == "sequence" => "a list".to_owned(),
        _ => found.to_owned(),
    };
    format!("this is {found}, and {} is expected", expectation(expected))
}

/// The kind of a value in plain words.
fn expectation(expected: &str) -> &str {
    match expected {
        "u8" | "u16" | "u32" | "u64" | "usize" => "a whole number that is not negative",
        "i8" | "i16" | "i32" | "i64" | "isize" => "a whole number",
        "f32" | "f64" => "a number",
        "a boolean" => "true or false",
        "a string" => "a text in quotes",
        "a sequence" => "a list in brackets",
        expected if expected.starts_with("struct ") || expected == "a map" => "a table of keys",
        expected => expected,
    }
}

/// The name in backquotes after a prefix, and the names that the parser knows.
fn names(message: &str, prefix: &str) -> Option<(String, Vec<String>)> {
    let rest = message.strip_prefix(prefix)?;
    let mut quoted = rest.split('`').skip(1).step_by(2).map(str::to_owned);
    Some((quoted.next()?, quoted.collect()))
}

/// The most similar name, or all names if none is similar.
fn suggestion(wrong: &str, known: &[String]) -> String {
    let likeness = |name: &&String| strsim::jaro_winkler(wrong, name);
    let best = known.iter().max_by(|a, b| likeness(a).total_cmp(&likeness(b)));
    match best.filter(|name| likeness(name) >= SIMILARITY_MIN) {
        Some(name) => format!("; did you mean `{name}`?"),
        None => format!("; known are {}", known.iter().map(|name| format!("`{name}`")).collect::<Vec<_>>().join(", ")),
    }
}

#[cfg(test)]
mod tests {
    use super::in_plain_words;

    #[test]
    fn a_mistake_is_said_in_the_words_of_the_file() {
        for (said, plainly) in [
            (
                "unknown field `lsiten`, expected one of `listen`, `card`",
                "there is no key `lsiten`; did you mean `listen`?",
            ),
            (
                "unknown field `zebra`, expected `listen` or `card`",
                "there is no key `zebra`; known are `listen`, `card`",
            ),
            ("unknown field `x`, there are no fields", "there is no key `x`"),
            (
                "unknown variant `ful`, expected `full` or `normal`",
                "`ful` is not a value for this key; did you mean `full`?",
            ),
            ("missing field `kind`", "the key `kind` is missing"),
            (
                "invalid type: string \"x\", expected u32",
                "this is a text, and a whole number that is not negative is expected",
            ),
            (
                "invalid value: integer `-1`, expected usize",
                "this is the number `-1`, and a whole number that is not negative is expected",
            ),
            ("invalid type: boolean `true`, expected a string", "this is `true`, and a text in quotes is expected"),
            ("invalid type: map, expected a sequence", "this is a table, and a list in brackets is expected"),
            ("something else", "something else"),
        ] {
            assert_eq!(in_plain_words(said), plainly);
        }
    }
}
