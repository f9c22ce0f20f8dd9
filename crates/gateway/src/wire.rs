//! What was said on the wire, kept for a while: for whoever wants to know what an agent elsewhere really answered, or what
//! a caller really sent.
//!
//! It is beside the task log and not part of it: lines in a few files of bounded size, written by a thread of its own. A
//! task never waits for them, and where the disk cannot follow some are dropped and counted. Secrets are taken out before
//! a line is made, by the redactor of the process: every value that is configured, and every header that is not known to
//! be harmless.

mod draft;
mod files;

pub use files::{SEGMENT_BYTES_MAX, SEGMENTS, read};

use bytes::Bytes;
use draft::Draft;
use files::Files;
use http::{HeaderMap, Method, StatusCode};
use sabir_client::redact;
use sabir_client::{Note, Observer};
use sabir_proto::TaskId;
use serde::Deserialize;
use std::cell::RefCell;
use std::fmt;
use std::path::Path;
use std::sync::Arc;
use std::time::{Duration, SystemTime, UNIX_EPOCH};

/// What is kept.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default, Deserialize)]
#[serde(rename_all = "lowercase")]
pub enum Keep {
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
pub enum Leg {
    /// A caller asked us.
    Caller,
    /// We asked an agent elsewhere.
    Upstream,
}

impl Leg {
    const fn word(self) -> &'static str {
        match self {
            Self::Caller => "caller",
            Self::Upstream => "upstream",
        }
    }
}

/// A request of a caller, and what it was answered.
#[derive(Debug, Clone, Copy)]
pub struct Served<'a> {
    /// The task it was about.
    pub task: TaskId,
    /// How it was asked.
    pub method: &'a Method,
    /// Where.
    pub url: &'a str,
    /// Its headers.
    pub headers: &'a HeaderMap,
    /// What was asked.
    pub body: &'a [u8],
    /// The status of the answer.
    pub status: StatusCode,
    /// Its headers.
    pub answer_headers: &'a HeaderMap,
    /// What was answered, where that was in one piece.
    pub answer: Option<&'a [u8]>,
    /// How long it took.
    pub took: Duration,
}

/// Where exchanges are kept. Cheap to clone.
#[derive(Clone)]
pub struct WireLog(Option<Arc<Inner>>);

struct Inner {
    keep: Keep,
    files: Files,
}

impl fmt::Debug for WireLog {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_tuple("WireLog").field(&self.keep()).finish()
    }
}

tokio::task_local! {
    /// The task that is worked on.
    static TASK: TaskId;
    /// The exchange that is under way.
    static DRAFT: RefCell<Draft>;
}

impl WireLog {
    /// Keeps nothing.
    pub const fn off() -> Self {
        Self(None)
    }

    /// Keeps exchanges in a directory, which is made if it is not there.
    pub fn open(keep: Keep, directory: &Path) -> std::io::Result<Self> {
        if keep == Keep::Off {
            return Ok(Self::off());
        }
        let files = Files::open(directory)?;
        Ok(Self(Some(Arc::new(Inner { keep, files }))))
    }

    /// What is kept.
    pub fn keep(&self) -> Keep {
        self.0.as_ref().map_or(Keep::Off, |inner| inner.keep)
    }

    /// How many exchanges were dropped because the disk could not follow.
    pub fn dropped(&self) -> u64 {
        self.0.as_ref().map_or(0, |inner| inner.files.dropped())
    }

    /// Whoever listens to a client for us; none where nothing is kept.
    pub(crate) fn observer(&self) -> Option<Arc<dyn Observer>> {
        self.0.as_ref().map(|_| Arc::new(Ear) as Arc<dyn Observer>)
    }

    /// Notes what a caller asked and was answered. `failed` says whether that was an error.
    pub fn served(&self, served: &Served<'_>, failed: bool) {
        let Some(inner) = self.0.as_ref().filter(|inner| failed || inner.keep == Keep::All) else { return };
        let text = |bytes: &[u8]| Bytes::from(String::from_utf8_lossy(bytes).into_owned());
        let mut draft = Draft::default();
        draft.request(served.method, served.url, served.headers, Some(text(served.body)));
        draft.response(served.status, served.answer_headers, served.took);
        if let Some(answer) = served.answer {
            draft.body(text(answer));
        }
        inner.files.write(draft.line(Leg::Caller, served.task, redact::process(), None));
    }

    /// Listens to a call, and keeps what was said if that is wanted. `problem` tells what went wrong, if anything did.
    pub(crate) async fn listen<T, E: fmt::Display>(
        &self,
        call: impl Future<Output = Result<T, E>>,
    ) -> (Result<T, E>, Option<Heard>) {
        if self.0.is_none() || TASK.try_with(|_| ()).is_err() {
            return (call.await, None);
        }
        let mut heard = Heard { draft: Draft::default(), log: self.clone() };
        let answer = heard.listen(call).await;
        (answer, Some(heard))
    }
}

/// What was heard of an exchange so far.
pub(crate) struct Heard {
    draft: Draft,
    log: WireLog,
}

impl Heard {
    /// Listens on.
    pub(crate) async fn listen<T, E: fmt::Display>(
        &mut self,
        call: impl Future<Output = Result<T, E>>,
    ) -> Result<T, E> {
        let mut listening = std::pin::pin!(DRAFT.scope(RefCell::new(std::mem::take(&mut self.draft)), call));
        let answer = listening.as_mut().await;
        self.draft = listening.as_mut().take_value().map(RefCell::into_inner).unwrap_or_default();
        answer
    }

    /// The exchange is over, and this went wrong with it, if anything did.
    pub(crate) fn end(self, problem: Option<String>) {
        let (Some(inner), Ok(task)) = (self.log.0.as_ref(), TASK.try_with(|task| *task)) else { return };
        if problem.is_some() || inner.keep == Keep::All {
            inner.files.write(self.draft.line(Leg::Upstream, task, redact::process(), problem.as_deref()));
        }
    }
}

/// Works on a task: what is said meanwhile is said for its sake.
pub(crate) fn about<T>(task: TaskId, work: impl Future<Output = T>) -> impl Future<Output = T> {
    TASK.scope(task, work)
}

/// Hears what a client says and is told.
struct Ear;

impl Observer for Ear {
    fn note(&self, note: &Note<'_>) {
        // Whoever speaks for nobody's sake is not listened to.
        let _ = DRAFT.try_with(|draft| draft.borrow_mut().add(note));
    }
}

fn now_ms() -> u64 {
    let since = SystemTime::now().duration_since(UNIX_EPOCH).unwrap_or_default();
    u64::try_from(since.as_millis()).unwrap_or(u64::MAX)
}

#[cfg(test)]
mod tests;
