//! Fakes for tests: scripted answers, and a clock that advances with each sleep.

use super::{BoxError, Clock, Http};
use http::{Request, Response};
use serde_json::Value;
use std::collections::{HashMap, VecDeque};
use std::sync::Mutex;
use std::sync::atomic::{AtomicU64, Ordering};
use std::time::Duration;
use url::Url;

/// Answers in order, or by URL; without an answer left, the connection fails.
#[derive(Default)]
pub(super) struct FakeHttp {
    script: Mutex<VecDeque<(u16, Value)>>,
    documents: Mutex<HashMap<String, Value>>,
    requests: Mutex<Vec<Request<Vec<u8>>>>,
}

impl FakeHttp {
    pub(super) fn answers(script: impl IntoIterator<Item = (u16, Value)>) -> Self {
        Self { script: Mutex::new(script.into_iter().collect()), ..Self::default() }
    }

    /// Sets the document for every GET of this URL.
    pub(super) fn serve(&self, url: &str, document: Value) {
        self.documents.lock().unwrap().insert(url.to_owned(), document);
    }

    /// Adds an answer at the end of the script. A status of 0 is a broken connection.
    pub(super) fn then(&self, status: u16, body: Value) {
        self.script.lock().unwrap().push_back((status, body));
    }

    /// All requests so far.
    pub(super) fn requests(&self) -> Vec<Request<Vec<u8>>> {
        self.requests.lock().unwrap().iter().cloned().collect()
    }

    pub(super) fn posts(&self) -> Vec<Request<Vec<u8>>> {
        self.requests().into_iter().filter(|request| request.method() == "POST").collect()
    }
}

impl Http for FakeHttp {
    async fn send(&self, request: Request<Vec<u8>>) -> Result<Response<Vec<u8>>, BoxError> {
        let document = match request.method().as_str() {
            "GET" => self.documents.lock().unwrap().get(&request.uri().to_string()).cloned().map(|body| (200, body)),
            _ => None,
        };
        self.requests.lock().unwrap().push(request);
        let (status, body) = match document.or_else(|| self.script.lock().unwrap().pop_front()) {
            None | Some((0, _)) => return Err("connection reset".into()),
            Some(answer) => answer,
        };
        Ok(Response::builder().status(status).body(body.to_string().into_bytes())?)
    }
}

/// Starts at a given time, and advances by each sleep.
pub(super) struct FakeClock {
    now: AtomicU64,
    slept: Mutex<Vec<u64>>,
}

impl FakeClock {
    pub(super) fn at(now: u64) -> Self {
        Self { now: AtomicU64::new(now), slept: Mutex::default() }
    }

    /// The sleeps so far, in seconds.
    pub(super) fn slept(&self) -> Vec<u64> {
        self.slept.lock().unwrap().clone()
    }
}

impl Clock for FakeClock {
    fn now(&self) -> u64 {
        self.now.load(Ordering::Relaxed)
    }

    async fn sleep(&self, time: Duration) {
        self.slept.lock().unwrap().push(time.as_secs());
        self.now.fetch_add(time.as_secs(), Ordering::Relaxed);
    }
}

pub(super) fn url(text: &str) -> Url {
    Url::parse(text).unwrap()
}

/// The members of a posted form; their memory is leaked, which a test may do.
pub(super) fn form_of(request: &Request<Vec<u8>>) -> Vec<(&'static str, &'static str)> {
    let leak = |text: std::borrow::Cow<'_, str>| -> &'static str { Box::leak(text.into_owned().into_boxed_str()) };
    url::form_urlencoded::parse(request.body()).map(|(name, value)| (leak(name), leak(value))).collect()
}
