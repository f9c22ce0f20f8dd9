//! The exchange log: what was said on the wire, kept for a while, so that an operator can see what an agent elsewhere
//! really answered, or what a caller really sent.
//!
//! The log is beside the task log and not part of it: lines in a few files of bounded size, written by a thread of its
//! own. A task never waits for them, and if the disk cannot follow some are dropped and counted. Secrets are removed
//! before a line is made, by the redactor of the process: every value that is configured, and every header that is not
//! known to be harmless.

mod draft;
mod files;

pub use files::{SEGMENT_BYTES_MAX, SEGMENTS, read_exchanges};

use bytes::Bytes;
use draft::ExchangeDraft;
use files::LogFiles;
use http::{HeaderMap, Method, StatusCode};
use sabir_client::redact;
use sabir_client::{Observation, Observer};
use sabir_proto::TaskId;
use serde::Deserialize;
use std::cell::RefCell;
use std::fmt;
use std::path::Path;
use std::sync::Arc;
use std::time::{Duration, SystemTime, UNIX_EPOCH};

/// Which exchanges are logged.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default, Deserialize)]
#[serde(rename_all = "lowercase")]
pub enum ExchangeLogMode {
    /// Nothing.
    Off,
    /// Exchanges that ended in an error.
    #[default]
    Errors,
    /// Everything.
    All,
}

/// Which side of us an exchange was on.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum ExchangeSide {
    /// A caller asked us.
    Caller,
    /// We asked an upstream.
    Upstream,
}

impl ExchangeSide {
    const fn name(self) -> &'static str {
        match self {
            Self::Caller => "caller",
            Self::Upstream => "upstream",
        }
    }
}

/// A request of a caller, and our answer.
#[derive(Debug, Clone, Copy)]
pub struct ServedExchange<'a> {
    /// The task that the request was about.
    pub task: TaskId,
    /// The HTTP method of the request.
    pub method: &'a Method,
    /// The URL of the request.
    pub url: &'a str,
    /// The headers of the request.
    pub headers: &'a HeaderMap,
    /// The body of the request.
    pub body: &'a [u8],
    /// The status of the answer.
    pub status: StatusCode,
    /// The headers of the answer.
    pub answer_headers: &'a HeaderMap,
    /// The body of the answer, if it was in one piece.
    pub answer: Option<&'a [u8]>,
    /// How long the answer took.
    pub took: Duration,
}

/// The log of exchanges. Cheap to clone.
#[derive(Clone)]
pub struct ExchangeLog(Option<Arc<OpenLog>>);

struct OpenLog {
    mode: ExchangeLogMode,
    files: LogFiles,
}

impl fmt::Debug for ExchangeLog {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_tuple("WireLog").field(&self.mode()).finish()
    }
}

tokio::task_local! {
    /// The task that the current work is for.
    static TASK: TaskId;
    /// The record of the exchange in progress.
    static DRAFT: RefCell<ExchangeDraft>;
}

impl ExchangeLog {
    /// A log that keeps nothing.
    pub const fn off() -> Self {
        Self(None)
    }

    /// Opens the log in a directory, which is created if it is not there.
    pub fn open(keep: ExchangeLogMode, directory: &Path) -> std::io::Result<Self> {
        if keep == ExchangeLogMode::Off {
            return Ok(Self::off());
        }
        let files = LogFiles::open(directory)?;
        Ok(Self(Some(Arc::new(OpenLog { mode: keep, files }))))
    }

    /// Which exchanges are logged.
    pub fn mode(&self) -> ExchangeLogMode {
        self.0.as_ref().map_or(ExchangeLogMode::Off, |inner| inner.mode)
    }

    /// How many exchanges were dropped because the disk could not follow.
    pub fn dropped(&self) -> u64 {
        self.0.as_ref().map_or(0, |inner| inner.files.dropped())
    }

    /// The observer for HTTP clients; `None` where nothing is logged.
    pub(crate) fn observer(&self) -> Option<Arc<dyn Observer>> {
        self.0.as_ref().map(|_| Arc::new(ExchangeObserver) as Arc<dyn Observer>)
    }

    /// Logs a caller's request and our answer. `failed` says whether that was an error.
    pub fn log_served(&self, served: &ServedExchange<'_>, failed: bool) {
        let Some(inner) = self.0.as_ref().filter(|inner| failed || inner.mode == ExchangeLogMode::All) else { return };
        let text = |bytes: &[u8]| Bytes::from(String::from_utf8_lossy(bytes).into_owned());
        let mut draft = ExchangeDraft::default();
        draft.request(served.method, served.url, served.headers, Some(text(served.body)));
        draft.response(served.status, served.answer_headers, served.took);
        if let Some(answer) = served.answer {
            draft.body(text(answer));
        }
        inner.files.write(draft.json_line(ExchangeSide::Caller, served.task, redact::process_redactor(), None));
    }

    /// Makes a call and records its exchange, if there is a log and a task; the caller ends the record.
    pub(crate) async fn record<T, E: fmt::Display>(
        &self,
        call: impl Future<Output = Result<T, E>>,
    ) -> (Result<T, E>, Option<UpstreamExchange>) {
        if self.0.is_none() || TASK.try_with(|_| ()).is_err() {
            return (call.await, None);
        }
        let mut exchange = UpstreamExchange { draft: ExchangeDraft::default(), log: self.clone() };
        let answer = exchange.record_more(call).await;
        (answer, Some(exchange))
    }
}

/// The record of an exchange with an upstream, so far.
pub(crate) struct UpstreamExchange {
    draft: ExchangeDraft,
    log: ExchangeLog,
}

impl UpstreamExchange {
    /// Makes another part of the call, and records it too.
    pub(crate) async fn record_more<T, E: fmt::Display>(
        &mut self,
        call: impl Future<Output = Result<T, E>>,
    ) -> Result<T, E> {
        let mut listening = std::pin::pin!(DRAFT.scope(RefCell::new(std::mem::take(&mut self.draft)), call));
        let answer = listening.as_mut().await;
        self.draft = listening.as_mut().take_value().map(RefCell::into_inner).unwrap_or_default();
        answer
    }

    /// Ends the record; `problem` says what went wrong, if anything did.
    pub(crate) fn finish(self, problem: Option<String>) {
        let (Some(inner), Ok(task)) = (self.log.0.as_ref(), TASK.try_with(|task| *task)) else { return };
        if problem.is_some() || inner.mode == ExchangeLogMode::All {
            inner.files.write(self.draft.json_line(
                ExchangeSide::Upstream,
                task,
                redact::process_redactor(),
                problem.as_deref(),
            ));
        }
    }
}

/// Works on a task: exchanges meanwhile are logged under it.
pub(crate) fn for_task<T>(task: TaskId, work: impl Future<Output = T>) -> impl Future<Output = T> {
    TASK.scope(task, work)
}

/// Records what a client sends and receives.
struct ExchangeObserver;

impl Observer for ExchangeObserver {
    fn observe(&self, note: &Observation<'_>) {
        // Outside of a recorded call there is no draft.
        let _ = DRAFT.try_with(|draft| draft.borrow_mut().add(note));
    }
}

fn now_ms() -> u64 {
    let since = SystemTime::now().duration_since(UNIX_EPOCH).unwrap_or_default();
    u64::try_from(since.as_millis()).unwrap_or(u64::MAX)
}

#[cfg(test)]
mod tests;
