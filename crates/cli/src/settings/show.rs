//! `config show`: every setting, its value and where it came from.

use super::resolve::ResolvedSetting;
use super::{Setting, SettingSource, Settings, ValueKind, kind};
use crate::redact::{REDACTED, Redactor};
use crate::render::escape;
use serde::Serialize;
use serde_json::{Value, json};

/// The settings as text, one line each.
pub(crate) fn show(settings: &Settings) -> String {
    let line =
        |one: &ResolvedSetting| format!("{}: {} ({})\n", one.setting.flag, value(one), escape(&one.source.to_string()));
    settings.all().iter().map(line).collect()
}

/// One setting in JSON.
#[derive(Serialize)]
struct SettingDocument {
    name: &'static str,
    variable: Option<String>,
    value: Value,
    source: &'static str,
    origin: Option<String>,
}

/// All settings as one JSON object.
pub(crate) fn json(settings: &Settings) -> String {
    #[derive(Serialize)]
    struct Document {
        settings: Vec<SettingDocument>,
    }
    let settings = settings.all().iter().map(setting_json).collect();
    serde_json::to_string(&Document { settings }).expect("strings and numbers are JSON")
}

fn setting_json(one: &ResolvedSetting) -> SettingDocument {
    let value = match one.setting.kind {
        _ if one.values.is_empty() => Value::Null,
        ValueKind::Switch => json!(one.values.first().and_then(|value| kind::switch(value).ok())),
        _ if one.setting.repeatable => one.values.iter().map(|value| json!(shown_value(one.setting, value))).collect(),
        _ => json!(value(one)),
    };
    let (source, origin) = match &one.source {
        SettingSource::Flag => ("flag", None),
        SettingSource::Variable(name) => ("env", Some(name.clone())),
        SettingSource::Local(path) | SettingSource::Global(path) => ("file", Some(path.display().to_string())),
        SettingSource::Default => ("default", None),
    };
    SettingDocument { name: one.setting.flag, variable: one.setting.variable(), value, source, origin }
}

/// The value as it is shown.
fn value(one: &ResolvedSetting) -> String {
    if one.values.is_empty() {
        return one.setting.default.to_owned();
    }
    let shown: Vec<String> = one.values.iter().map(|value| shown_value(one.setting, value)).collect();
    escape(&shown.join(", ").replace('\n', "\\n"))
}

/// A value that may be shown: secrets are hidden, and so are parts of addresses and parameters that often are secrets.
pub(crate) fn shown_value(setting: &Setting, value: &str) -> String {
    if setting.secret {
        return REDACTED.to_owned();
    }
    let redactor = Redactor::default();
    match setting.kind {
        ValueKind::Pair => match kind::pair(value) {
            Ok((name, text)) => format!("{name}:{}", redactor.parameter(name, text)),
            Err(_) => REDACTED.to_owned(),
        },
        _ => redactor.url(value),
    }
}
