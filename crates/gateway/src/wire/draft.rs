//! One exchange, as far as it was heard.

use super::{Leg, now_ms};
use http::{HeaderMap, HeaderValue, Method, StatusCode};
use sabir_client::Note;
use sabir_client::redact::{REDACTED, Redactor};
use sabir_proto::TaskId;
use serde_json::{Map, Value, json};
use std::time::Duration;

/// Bytes kept of a body or an event; of what is longer, the beginning.
const TEXT_BYTES_MAX: usize = 16 << 10;
/// Events kept of a stream: the first ones.
const FRAMES_MAX: usize = 64;

#[derive(Debug, Default)]
pub(super) struct Draft {
    at_ms: Option<u64>,
    request: Option<Value>,
    asked: Option<String>,
    response: Option<Value>,
    answered: Option<String>,
    frames: Vec<String>,
    frames_left_out: u64,
}

impl Draft {
    pub(super) fn add(&mut self, note: &Note<'_>) {
        match note {
            Note::Request { method, url, headers, body } => self.request(method, url, headers, *body),
            Note::Response { status, headers, elapsed } => self.response(*status, headers, *elapsed),
            Note::Body { text } => self.body(text),
            Note::Frame { data, .. } => self.frame(data),
            _ => {}
        }
    }

    /// A request leaves. One that was there before was in vain, and this is the one that counts.
    pub(super) fn request(&mut self, method: &Method, url: &str, headers: &HeaderMap, body: Option<&str>) {
        self.at_ms.get_or_insert_with(now_ms);
        self.request = Some(json!({"method": method.as_str(), "url": url, "headers": shown(headers)}));
        self.asked = body.map(cut);
        (self.response, self.answered) = (None, None);
    }

    pub(super) fn response(&mut self, status: StatusCode, headers: &HeaderMap, elapsed: Duration) {
        let took_ms = u64::try_from(elapsed.as_millis()).unwrap_or(u64::MAX);
        self.response = Some(json!({"status": status.as_u16(), "tookMs": took_ms, "headers": shown(headers)}));
    }

    pub(super) fn body(&mut self, text: &str) {
        self.answered = Some(cut(text));
    }

    fn frame(&mut self, data: &str) {
        if self.frames.len() < FRAMES_MAX {
            self.frames.push(cut(data));
        } else {
            self.frames_left_out += 1;
        }
    }

    /// The line that is kept, without secrets.
    pub(super) fn line(self, leg: Leg, task: TaskId, redactor: &Redactor, problem: Option<&str>) -> String {
        let clean = |text: String| Value::String(redactor.body(&text));
        let mut line = Map::new();
        line.insert("task".into(), json!(task.to_string()));
        line.insert("atMs".into(), json!(self.at_ms.unwrap_or_else(now_ms)));
        line.insert("leg".into(), json!(leg.word()));
        let side = |head: Option<Value>, body: Option<String>| {
            let mut head = head?;
            if let Some(url) = head["url"].as_str().map(|url| redactor.url(url)) {
                head["url"] = json!(url);
            }
            if let Some(headers) = head["headers"].as_object_mut() {
                headers.iter_mut().for_each(|(name, value)| {
                    *value = json!(redactor.header(name, value.as_str().unwrap_or_default()));
                });
            }
            if let Some(body) = body.filter(|body| !body.is_empty()) {
                head["body"] = clean(body);
            }
            Some(head)
        };
        for (name, value) in
            [("request", side(self.request, self.asked)), ("answer", side(self.response, self.answered))]
        {
            line.extend(value.map(|value| (name.to_owned(), value)));
        }
        if !self.frames.is_empty() {
            line.insert("events".into(), self.frames.into_iter().map(clean).collect());
        }
        if self.frames_left_out > 0 {
            line.insert("eventsLeftOut".into(), json!(self.frames_left_out));
        }
        if let Some(problem) = problem {
            line.insert("problem".into(), json!(redactor.text(problem)));
        }
        Value::Object(line).to_string()
    }
}

/// The beginning of a text.
fn cut(text: &str) -> String {
    if text.len() <= TEXT_BYTES_MAX {
        return text.to_owned();
    }
    let end = (0..=TEXT_BYTES_MAX).rev().find(|at| text.is_char_boundary(*at)).unwrap_or(0);
    format!("{} [… {} bytes in all]", &text[..end], text.len())
}

/// Headers by name. What was marked as a secret is none of ours to keep, whatever its name.
fn shown(headers: &HeaderMap) -> Value {
    let text = |value: &HeaderValue| match value.is_sensitive() {
        true => REDACTED.to_owned(),
        false => String::from_utf8_lossy(value.as_bytes()).into_owned(),
    };
    let mut shown = Map::new();
    for name in headers.keys() {
        let values: Vec<String> = headers.get_all(name).iter().map(text).collect();
        shown.insert(name.as_str().to_owned(), json!(values.join(", ")));
    }
    Value::Object(shown)
}
