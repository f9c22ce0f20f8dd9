//! Observes a call: the wire log of `--debug`, `--curl`, the progress line, and the id of the task, which is needed
//! when a command ends early.

use super::curl;
use crate::output::Output;
use crate::redact::REDACTED;
use crate::settings::Settings;
use http::{HeaderMap, HeaderName, HeaderValue};
use sabir_client::{Observation, Observer};
use std::sync::{Mutex, PoisonError};
use std::time::{Duration, Instant};

/// The longest text of one message that is logged, in bytes. Files travel inside messages.
const LOGGED_BYTES_MAX: usize = 256 << 10;
/// What takes longer than this is worth a progress line.
const PROGRESS_DELAY: Duration = Duration::from_secs(1);
/// The same in the pretty form; after that, the spinner turns once per `SPINNER_INTERVAL`.
const SPINNER_DELAY: Duration = Duration::from_millis(250);
const SPINNER_INTERVAL: Duration = Duration::from_millis(100);

/// Sees everything the client does.
pub(crate) struct CallObserver {
    out: Output,
    debug: bool,
    curl: bool,
    streams: bool,
    task: Mutex<Option<String>>,
    /// What the agent says about its current work.
    activity: Mutex<Option<String>>,
}

impl CallObserver {
    pub(crate) fn new(out: Output, settings: &Settings) -> Self {
        Self {
            out,
            debug: settings.debug.is_on(),
            curl: settings.curl.is_on(),
            streams: settings.stream.is_on(),
            task: Mutex::new(None),
            activity: Mutex::new(None),
        }
    }

    /// The task that this run is about, once it is known.
    pub(crate) fn task(&self) -> Option<String> {
        self.task.lock().unwrap_or_else(PoisonError::into_inner).clone()
    }

    /// Sets the task that this run is about.
    pub(crate) fn set_task(&self, task: &str) {
        *self.task.lock().unwrap_or_else(PoisonError::into_inner) = Some(task.to_owned());
    }

    /// Writes a line to the log of `--debug`.
    pub(crate) fn debug(&self, text: &str) {
        if self.debug {
            self.out.note(&format!("* {text}"));
        }
    }

    /// Sets what the agent says about its work, for the progress line.
    pub(crate) fn set_activity(&self, said: Option<String>) {
        *self.activity.lock().unwrap_or_else(PoisonError::into_inner) = said;
    }

    /// Shows the progress line from time to time. Never returns.
    pub(crate) async fn show_progress(&self, out: &Output) {
        if !out.shows_progress() || self.debug {
            return std::future::pending().await;
        }
        let begun = Instant::now();
        self.set_activity(None);
        if out.is_pretty() {
            return self.spin(out, begun).await;
        }
        loop {
            tokio::time::sleep(PROGRESS_DELAY).await;
            let what = self.task().map_or_else(|| "waiting for the agent".to_owned(), |task| format!("task {task}"));
            out.progress(&format!("{what}, {} s", begun.elapsed().as_secs()));
        }
    }

    async fn spin(&self, out: &Output, begun: Instant) {
        tokio::time::sleep(SPINNER_DELAY).await;
        for tick in 0.. {
            let doing = self.activity.lock().unwrap_or_else(PoisonError::into_inner).clone();
            let words = doing.as_deref().unwrap_or("waiting for the agent");
            out.spin(tick, &format!("{words} ({} s)", begun.elapsed().as_secs()));
            tokio::time::sleep(SPINNER_INTERVAL).await;
        }
    }

    fn header(&self, direction: char, headers: &HeaderMap) {
        for (name, value) in headers {
            self.out.note(&format!("{direction} {name}: {}", shown(name, value, &self.out)));
        }
    }

    fn body(&self, direction: char, text: &str) {
        let text = self.out.redactor.body(text);
        let end = (0..=LOGGED_BYTES_MAX.min(text.len())).rev().find(|at| text.is_char_boundary(*at)).unwrap_or(0);
        let cut = if end < text.len() { format!(" … {} bytes in all", text.len()) } else { String::new() };
        self.out.note(&format!("{direction} {}{cut}", &text[..end]));
    }

    fn log(&self, note: &Observation<'_>) {
        match note {
            Observation::Request { method, url, headers, body } => {
                self.out.note(&format!("> {method} {}", self.out.redactor.url(url)));
                self.header('>', headers);
                if let Some(body) = body.and_then(|body| std::str::from_utf8(body).ok()) {
                    self.body('>', body);
                }
            }
            Observation::Response { status, headers, elapsed } => {
                self.out.note(&format!("< {status} after {} ms", elapsed.as_millis()));
                self.header('<', headers);
            }
            Observation::Body { bytes } => {
                if let Ok(text) = std::str::from_utf8(bytes) {
                    self.body('<', text);
                }
            }
            Observation::Frame { id, data } => {
                let id = id.map(|id| format!("id {id}: ")).unwrap_or_default();
                self.body('<', &format!("{id}{data}"));
            }
            Observation::Retry { attempt, pause, reason } => {
                self.debug(&format!("attempt {attempt} in {} ms, because {reason}", pause.as_millis()));
            }
            _ => {}
        }
    }
}

/// A header as it may be shown: what we attach ourselves is marked, and shown only if it is known to be harmless.
pub(super) fn shown(name: &HeaderName, value: &HeaderValue, out: &Output) -> String {
    let text = String::from_utf8_lossy(value.as_bytes());
    let by_name = out.redactor.header(name.as_str(), &text);
    if value.is_sensitive() && !by_name.contains(REDACTED) {
        return out.redactor.parameter(name.as_str(), &text);
    }
    by_name
}

impl Observer for CallObserver {
    fn observe(&self, note: &Observation<'_>) {
        if self.debug {
            self.log(note);
        }
        match note {
            Observation::Request { method, url, headers, body } if self.curl => {
                let body = body.and_then(|body| std::str::from_utf8(body).ok());
                self.out.note(&curl::curl_command(method, url, headers, body, &self.out));
            }
            Observation::TaskKnown { task, .. } => {
                let task = task.to_string();
                if self.task().as_deref() != Some(task.as_str()) {
                    self.set_task(&task);
                    // For a person the ids stand below the answer.
                    if self.out.is_running() {
                        return;
                    }
                    self.out.note(&format!("Task ID: {task}"));
                }
            }
            Observation::Reconnecting { attempt, reason } => {
                self.out.note(&format!("the stream broke off ({reason}); taking it up again, attempt {attempt}"));
            }
            Observation::Reconnected { after } => self.out.note(&match after {
                Some(after) => format!("reconnected after event {after}"),
                None => "reconnected; the agent does not number its events, so the task is told anew".to_owned(),
            }),
            Observation::Polling { reason } if self.streams => {
                self.out.warn(&format!("no stream ({reason}); asking for the task now and then instead"));
            }
            Observation::Polling { reason } => self.debug(&format!("asking now and then: {reason}")),
            Observation::Warning(text) => self.out.warn(text),
            _ => {}
        }
    }
}
