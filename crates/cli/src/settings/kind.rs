//! What values look like. One check serves every place a value may come from.

use crate::exit::Exit;
use sabir_client::Binding;
use sabir_client::signature::SignatureMode;
use std::time::Duration as Time;

/// The shortest pause between two status checks: anything below is a busy loop at the agent's expense.
const POLL_INTERVAL_MIN: Time = Time::from_millis(100);

/// What is wrong with a text that is no count.
pub(super) const NOT_A_COUNT: &str = "it is a number that is not negative";

/// The kind of value that a setting takes.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum ValueKind {
    /// On or off.
    Switch,
    Text,
    Path,
    /// `text`, `json` or `pretty`.
    Format,
    /// `auto`, `always` or `never`.
    Color,
    Duration,
    /// A duration of at least 100 ms.
    PollInterval,
    /// `Major.Minor`
    Version,
    Transport,
    /// `NAME:VALUE`
    Pair,
    /// `USER:PASSWORD`
    Basic,
    /// A JSON object.
    Object,
    /// A number that is not negative.
    Count,
    /// A number of 64 bits that is not negative: an id that another system assigned.
    Number,
    /// A size, such as `10MB`.
    Bytes,
    /// A mode of `--card-trust`: `off`, `if-present` or `require`.
    Trust,
    /// An address of http or https.
    Url,
    /// States of a task, by their names in kebab case.
    States,
}

impl ValueKind {
    /// What help shows in place of the value.
    pub(crate) const fn placeholder(self) -> &'static str {
        match self {
            Self::Switch => "BOOL",
            Self::Text => "VALUE",
            Self::Path => "PATH",
            Self::Format => "FORMAT",
            Self::Color => "WHEN",
            Self::Duration | Self::PollInterval => "DURATION",
            Self::Version => "VERSION",
            Self::Transport => "BINDING",
            Self::Pair => "NAME:VALUE",
            Self::Basic => "USER:PASSWORD",
            Self::Object => "JSON",
            Self::Count | Self::Number => "N",
            Self::Bytes => "BYTES",
            Self::Trust => "MODE",
            Self::Url => "URL",
            Self::States => "STATE",
        }
    }

    /// What is wrong with a value. The value itself is not repeated: it may be a secret.
    pub(crate) fn check(self, value: &str) -> Result<(), String> {
        match self {
            Self::Switch => switch(value).map(drop),
            Self::Text | Self::Path => {
                if value.is_empty() {
                    Err("it is empty".into())
                } else {
                    Ok(())
                }
            }
            Self::Format => match value {
                "text" | "json" | "pretty" => Ok(()),
                _ => Err("it is text, json or pretty".into()),
            },
            Self::Color => match value {
                "auto" | "always" | "never" => Ok(()),
                _ => Err("it is auto, always or never".into()),
            },
            Self::Duration => duration(value).map(drop),
            Self::PollInterval => match duration(value)? {
                pause if pause < POLL_INTERVAL_MIN => Err("the shortest pause is 100ms".into()),
                _ => Ok(()),
            },
            Self::Version => version(value),
            Self::Transport => transport(value).map(drop),
            Self::Pair => pair(value).map(drop),
            Self::Basic => match value.split_once(':') {
                Some((user, _)) if !user.is_empty() => Ok(()),
                _ => Err("it has the form USER:PASSWORD".into()),
            },
            Self::Object => object(value),
            Self::Count => value.parse::<u32>().map(drop).map_err(|_| NOT_A_COUNT.into()),
            Self::Number => value.parse::<u64>().map(drop).map_err(|_| NOT_A_COUNT.into()),
            Self::Bytes => bytes(value).map(drop),
            Self::Trust => {
                value.parse::<SignatureMode>().map(drop).map_err(|_| "it is off, if-present or require".into())
            }
            Self::States => Exit::check_states(value),
            Self::Url => web_url(value).map(drop),
        }
    }
}

/// On or off, as people write it.
pub(crate) fn switch(value: &str) -> Result<bool, String> {
    match value.to_ascii_lowercase().as_str() {
        "1" | "true" | "yes" => Ok(true),
        "0" | "false" | "no" => Ok(false),
        _ => Err("it is true or false, yes or no, 1 or 0".into()),
    }
}

/// `500ms`, `2s`, `1m30s`; a bare number means seconds.
pub(crate) fn duration(value: &str) -> Result<Time, String> {
    let value = value.trim();
    let bare = value.bytes().all(|b| b.is_ascii_digit() || b == b'.').then(|| format!("{value}s"));
    let total = span(bare.as_deref().unwrap_or(value)).ok_or("a duration looks like 500ms, 2s or 1m30s")?;
    if total.is_zero() { Err("it must be longer than nothing".into()) } else { Ok(total) }
}

/// Parses a sum of numbers with their units, such as `1m30s`, `1.5h` or `2w`.
pub(crate) fn span(text: &str) -> Option<Time> {
    let mut rest = text;
    let mut total = None;
    while !rest.is_empty() {
        let (number, after) = rest.split_at(rest.find(|c: char| !c.is_ascii_digit() && c != '.')?);
        let (unit, after) = after.split_at(after.find(|c: char| !c.is_ascii_alphabetic()).unwrap_or(after.len()));
        let seconds = match unit {
            "ms" => 0.001,
            "s" => 1.0,
            "m" => 60.0,
            "h" => 3600.0,
            "d" => 86_400.0,
            "w" => 7.0 * 86_400.0,
            "y" => 365.0 * 86_400.0,
            _ => return None,
        };
        let part = Time::try_from_secs_f64(number.parse::<f64>().ok()? * seconds).ok()?;
        total = Some(total.unwrap_or(Time::ZERO).checked_add(part)?);
        rest = after;
    }
    total
}

/// Only `Major.Minor` is ever sent, so that is what is asked for.
fn version(value: &str) -> Result<(), String> {
    let digits = |part: &str| !part.is_empty() && part.len() < 4 && part.bytes().all(|b| b.is_ascii_digit());
    match value.split_once('.') {
        None if matches!(value, "auto" | "agent-native" | "xpr") => Ok(()),
        Some((major, minor)) if digits(major) && digits(minor) => Ok(()),
        _ => Err("a version has the form Major.Minor, such as 1.0".into()),
    }
}

pub(super) fn web_url(value: &str) -> Result<url::Url, String> {
    match url::Url::parse(value) {
        Ok(url) if matches!(url.scheme(), "http" | "https") && url.has_host() => Ok(url),
        _ => Err("it is an http or https URL".into()),
    }
}

pub(super) fn transport(value: &str) -> Result<Binding, String> {
    match value.to_ascii_lowercase().as_str() {
        "jsonrpc" | "json-rpc" => Ok(Binding::JsonRpc),
        "http+json" | "http_json" | "rest" => Ok(Binding::HttpJson),
        "grpc" => Ok(Binding::Grpc),
        _ => Err("the bindings are JSONRPC, HTTP+JSON and GRPC".into()),
    }
}

/// Splits a service parameter at the first colon.
pub(crate) fn pair(value: &str) -> Result<(&str, &str), String> {
    let (name, text) = value.split_once(':').ok_or("it has the form NAME:VALUE")?;
    let token = |c: char| c.is_ascii_alphanumeric() || "!#$%&'*+-.^_`|~".contains(c);
    if name.is_empty() || !name.chars().all(token) {
        return Err("before the colon stands the name of a header".into());
    }
    if name.eq_ignore_ascii_case("a2a-version") {
        return Err("the version is said by --a2a-version".into());
    }
    let text = text.trim();
    if text.chars().any(|c| c.is_control() && c != '\t') {
        return Err("after the colon stands one line of text".into());
    }
    Ok((name, text))
}

fn object(value: &str) -> Result<(), String> {
    match serde_json::from_str::<serde_json::Value>(value) {
        Ok(value) if value.is_object() => Ok(()),
        Ok(_) => Err("it must be a JSON object".into()),
        Err(error) => Err(format!("it is not JSON: {error}")),
    }
}

/// `10MB`, `1GiB`; a bare number means bytes.
pub(crate) fn bytes(value: &str) -> Result<u64, String> {
    let wrong = || String::from("a size looks like 500000, 10MB or 1GiB");
    let digits = value.find(|c: char| !c.is_ascii_digit()).unwrap_or(value.len());
    let number: u64 = value[..digits].parse().map_err(|_| wrong())?;
    let unit = match value[digits..].trim().to_ascii_lowercase().as_str() {
        "" | "b" => 1,
        "kb" => 1000,
        "mb" => 1_000_000,
        "gb" => 1_000_000_000,
        "kib" => 1 << 10,
        "mib" => 1 << 20,
        "gib" => 1 << 30,
        _ => return Err(wrong()),
    };
    number.checked_mul(unit).ok_or_else(wrong)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn durations_are_read_as_people_write_them() {
        for (text, millis) in [
            ("500ms", 500),
            ("2s", 2000),
            ("1m30s", 90_000),
            ("1h", 3_600_000),
            ("7", 7000),
            ("0.5", 500),
            ("1.5s", 1500),
            ("1s500ms", 1500),
        ] {
            assert_eq!(duration(text), Ok(Time::from_millis(millis)), "{text}");
        }
        for text in ["", "s", "2x", "1m30", "-1s", "0", "0s", "1.2.3s", "1e400s", "99999999999999999999h", "2 s"] {
            assert!(duration(text).is_err(), "{text}");
        }
    }

    #[test]
    fn values_are_judged_by_their_kind() {
        for (kind, good, bad) in [
            (ValueKind::Switch, vec!["1", "TRUE", "no"], vec!["on", "", "2"]),
            (ValueKind::Format, vec!["text", "json", "pretty"], vec!["yaml", "JSON", ""]),
            (ValueKind::Color, vec!["auto", "never"], vec!["yes", ""]),
            (ValueKind::PollInterval, vec!["100ms", "2"], vec!["99ms", "0"]),
            (ValueKind::Version, vec!["1.0", "0.3"], vec!["1", "1.0.1", "v1.0", "1.", "1.x"]),
            (ValueKind::Transport, vec!["JSONRPC", "json-rpc", "rest", "http+json", "gRPC"], vec!["soap", ""]),
            (ValueKind::Pair, vec!["X-A:b", "x:", "x:a:b"], vec!["x", ":b", "a b:c", "A2A-version:1.0", "x:a\nb"]),
            (ValueKind::Object, vec!["{}", r#"{"a":1}"#], vec!["[]", "1", "{", ""]),
            (ValueKind::Count, vec!["0", "10"], vec!["-1", "x", "1.5"]),
            (ValueKind::Bytes, vec!["5", "10MB", "1GiB"], vec!["", "MB", "5 parsecs", "99999999999999999999"]),
            (ValueKind::States, vec!["failed", "failed,canceled", "any"], vec!["", "completed", "FAILED", "failed,"]),
            (ValueKind::Basic, vec!["u:p", "u:"], vec!["u", ":p"]),
        ] {
            for value in good {
                assert_eq!(kind.check(value), Ok(()), "{kind:?} {value}");
            }
            for value in bad {
                assert!(kind.check(value).is_err(), "{kind:?} {value}");
            }
        }
    }
}
