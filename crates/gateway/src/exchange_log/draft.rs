//! One exchange, as far as it was recorded.

use super::{ExchangeSide, now_ms};
use bytes::Bytes;
use http::{HeaderMap, HeaderValue, Method, StatusCode};
use sabir_client::Observation;
use sabir_client::redact::{REDACTED, Redactor};
use sabir_proto::TaskId;
use serde_json::{Map, Value, json};
use std::time::Duration;

/// Bytes kept of a body or an event; of what is longer, the beginning.
const TEXT_BYTES_MAX: usize = 16 << 10;
/// Bytes of an event that are held until the line is made: what is kept of it, and the rest of a secret that begins
/// there.
const FRAME_BYTES_MAX: usize = 24 << 10;
/// Events kept of a stream: the first ones.
const FRAMES_MAX: usize = 64;

/// Holds the exchange as it came; a line is made only where the log wants it, since most exchanges succeed.
#[derive(Debug, Default)]
pub(super) struct ExchangeDraft {
    at_ms: Option<u64>,
    request: Option<Box<LoggedRequest>>,
    response: Option<Box<LoggedResponse>>,
    events: Vec<LoggedEvent>,
    events_left_out: u64,
}

/// The beginning of an event, and its whole length.
#[derive(Debug)]
struct LoggedEvent {
    data: String,
    bytes: usize,
}

#[derive(Debug)]
struct LoggedRequest {
    method: Method,
    url: String,
    headers: HeaderMap,
    body: Option<Bytes>,
}

#[derive(Debug)]
struct LoggedResponse {
    status: StatusCode,
    took: Duration,
    headers: HeaderMap,
    body: Option<Bytes>,
}

impl ExchangeDraft {
    pub(super) fn add(&mut self, note: &Observation<'_>) {
        match note {
            Observation::Request { method, url, headers, body } => self.request(method, url, headers, body.cloned()),
            Observation::Response { status, headers, elapsed } => self.response(*status, headers, *elapsed),
            Observation::Body { bytes } => self.body((*bytes).clone()),
            Observation::Frame { data, .. } => self.frame(data),
            _ => {}
        }
    }

    /// Records a request. It replaces an earlier one of the same call, which did not succeed.
    pub(super) fn request(&mut self, method: &Method, url: &str, headers: &HeaderMap, body: Option<Bytes>) {
        self.at_ms.get_or_insert_with(now_ms);
        let (method, url, headers) = (method.clone(), url.to_owned(), headers.clone());
        self.request = Some(Box::new(LoggedRequest { method, url, headers, body }));
        self.response = None;
    }

    pub(super) fn response(&mut self, status: StatusCode, headers: &HeaderMap, took: Duration) {
        self.response = Some(Box::new(LoggedResponse { status, took, headers: headers.clone(), body: None }));
    }

    pub(super) fn body(&mut self, body: Bytes) {
        if let Some(answered) = &mut self.response {
            answered.body = Some(body);
        }
    }

    fn frame(&mut self, data: &str) {
        // One more than is shown: a secret may begin in the last one that is.
        if self.events.len() <= FRAMES_MAX {
            self.events.push(LoggedEvent { data: prefix_of(data, FRAME_BYTES_MAX).to_owned(), bytes: data.len() });
        } else {
            self.events_left_out += 1;
        }
    }

    /// The log line, without secrets.
    pub(super) fn json_line(
        self,
        leg: ExchangeSide,
        task: TaskId,
        redactor: &Redactor,
        problem: Option<&str>,
    ) -> String {
        let clean = |text: &str, bytes: usize| Value::String(redacted_text(text, bytes, redactor));
        let mut line = Map::new();
        line.insert("task".into(), json!(task.to_string()));
        line.insert("atMs".into(), json!(self.at_ms.unwrap_or_else(now_ms)));
        line.insert("leg".into(), json!(leg.name()));
        let headers = |headers: &HeaderMap| {
            let mut headers = header_map(headers);
            for (name, value) in &mut headers {
                *value = json!(redactor.listed_header(name, value.as_str().unwrap_or_default()));
            }
            headers
        };
        let body = |body: Option<Bytes>| {
            let body = body.filter(|body| !body.is_empty())?;
            let text = std::str::from_utf8(&body).ok()?;
            Some(clean(&redactor.split_texts(&[text])[0], text.len()))
        };
        if let Some(LoggedRequest { method, url, headers: named, body: bytes }) = self.request.map(|asked| *asked) {
            let mut side = Map::new();
            side.insert("method".into(), json!(method.as_str()));
            side.insert("url".into(), json!(redactor.log_line(&redactor.url(&url))));
            side.insert("headers".into(), Value::Object(headers(&named)));
            side.extend(body(bytes).map(|body| ("body".to_owned(), body)));
            line.insert("request".into(), Value::Object(side));
        }
        if let Some(LoggedResponse { status, took, headers: named, body: bytes }) =
            self.response.map(|answered| *answered)
        {
            let mut side = Map::new();
            side.insert("status".into(), json!(status.as_u16()));
            side.insert("tookMs".into(), json!(u64::try_from(took.as_millis()).unwrap_or(u64::MAX)));
            side.insert("headers".into(), Value::Object(headers(&named)));
            side.extend(body(bytes).map(|body| ("body".to_owned(), body)));
            line.insert("answer".into(), Value::Object(side));
        }
        if !self.events.is_empty() {
            let data: Vec<&str> = self.events.iter().map(|frame| &*frame.data).collect();
            let data = redactor.split_texts(&data);
            let events = self.events.iter().zip(&data).take(FRAMES_MAX);
            line.insert("events".into(), events.map(|(frame, data)| clean(data, frame.bytes)).collect());
        }
        let left_out = self.events_left_out + u64::from(self.events.len() > FRAMES_MAX);
        if left_out > 0 {
            line.insert("eventsLeftOut".into(), json!(left_out));
        }
        if let Some(problem) = problem {
            line.insert("problem".into(), json!(redactor.log_line(problem)));
        }
        Value::Object(line).to_string()
    }
}

/// What is logged of a body or an event of so many bytes.
fn redacted_text(text: &str, bytes: usize, redactor: &Redactor) -> String {
    let kept = redactor.record(text, TEXT_BYTES_MAX);
    if bytes <= TEXT_BYTES_MAX { kept } else { format!("{kept} [… {bytes} bytes in all]") }
}

/// The beginning of a text, cut between characters.
fn prefix_of(text: &str, bytes_max: usize) -> &str {
    let end = (0..=bytes_max.min(text.len())).rev().find(|at| text.is_char_boundary(*at)).unwrap_or(0);
    &text[..end]
}

/// Headers by name. A value that was marked as a secret is never kept, whatever its name.
fn header_map(headers: &HeaderMap) -> Map<String, Value> {
    let text = |value: &HeaderValue| match value.is_sensitive() {
        true => REDACTED.to_owned(),
        false => String::from_utf8_lossy(value.as_bytes()).into_owned(),
    };
    let mut shown = Map::new();
    for name in headers.keys() {
        let values: Vec<String> = headers.get_all(name).iter().map(text).collect();
        shown.insert(name.as_str().to_owned(), json!(values.join(", ")));
    }
    shown
}
