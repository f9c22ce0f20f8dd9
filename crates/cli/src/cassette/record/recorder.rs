//! The recorder: passes requests on and answers back as they are, and writes both down without credentials.

use crate::cassette::card::split_interface_path;
use crate::cassette::{
    CassetteWriter, Payload, RecordedExchange, RecordedFrame, RecordedRequest, RecordedResponse, StreamEnd,
};
use crate::output::Output;
use bytes::Bytes;
use futures_util::stream;
use http::{HeaderMap, HeaderName, HeaderValue, Method, Request, Response, StatusCode, header};
use sabir_client::{ANSWER_BYTES_MAX, Agent, Binding, Error, RawResponse, RequestPreview};
use sabir_proto::{Call, ListTasks};
use sabir_server::local_server::{BodyBroken, LocalBody, LocalHandler, remove_hop_by_hop};
use sabir_wire::sse::{EVENT_BYTES_MAX, Parser};
use std::collections::BTreeMap;
use std::future::Future;
use std::pin::Pin;
use std::sync::atomic::{AtomicU64, Ordering};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::time::{Duration, Instant};
use tokio::sync::{Notify, watch};

/// The longest silence of a stream. The client decides when to give up; this only ends streams that no client reads.
const SILENCE_MAX: Duration = Duration::from_secs(600);
/// The time that exchanges under way get to end when the recording ends.
const FINISH_TIMEOUT: Duration = Duration::from_secs(2);
/// Headers that are written down. Any other header may hold a secret.
const REQUEST_HEADERS: [&str; 5] = ["content-type", "accept", "a2a-version", "a2a-extensions", "last-event-id"];
const RESPONSE_HEADERS: [&str; 5] = ["content-type", "cache-control", "etag", "retry-after", "a2a-extensions"];

/// One interface of the agent.
pub(super) struct RecordedInterface {
    /// Its place in the card.
    pub(super) place: usize,
    pub(super) binding: Binding,
    pub(super) agent: Agent,
}

/// Stands between clients and an agent.
pub(super) struct Recorder {
    interfaces: Vec<RecordedInterface>,
    card: String,
    out: Output,
    begun: AtomicU64,
    written: Mutex<CassetteFile>,
    under_way: AtomicU64,
    idle: Notify,
    stopping: watch::Sender<bool>,
}

/// What was written down.
struct CassetteFile {
    writer: CassetteWriter,
    count: u64,
    failure: Option<String>,
}

/// A request that was passed on and is not written down yet.
struct PendingExchange {
    recorder: Arc<Recorder>,
    number: u64,
    place: usize,
    binding: Binding,
    request: RecordedRequest,
    begun: Instant,
}

impl Recorder {
    pub(super) fn new(interfaces: Vec<RecordedInterface>, card: String, writer: CassetteWriter, out: Output) -> Self {
        let written = Mutex::new(CassetteFile { writer, count: 0, failure: None });
        let (begun, under_way) = (AtomicU64::new(0), AtomicU64::new(0));
        Self {
            interfaces,
            card,
            out,
            begun,
            written,
            under_way,
            idle: Notify::new(),
            stopping: watch::Sender::new(false),
        }
    }

    fn file(&self) -> MutexGuard<'_, CassetteFile> {
        self.written.lock().unwrap_or_else(PoisonError::into_inner)
    }

    pub(super) fn count(&self) -> u64 {
        self.file().count
    }

    pub(super) fn failure(&self) -> Option<String> {
        self.file().failure.clone()
    }

    /// Ends streams that are under way.
    pub(super) fn stop(&self) {
        self.stopping.send_replace(true);
    }

    /// Waits until everything that is under way is written down.
    pub(super) async fn wait_until_written(&self) {
        let quiet = async {
            while self.under_way.load(Ordering::Acquire) > 0 {
                self.idle.notified().await;
            }
        };
        // An agent that has not answered by then is not part of the cassette.
        _ = tokio::time::timeout(FINISH_TIMEOUT, quiet).await;
    }

    async fn forward(self: Arc<Self>, request: Request<Bytes>) -> Response<LocalBody> {
        let path = request.uri().path_and_query().map_or("/", http::uri::PathAndQuery::as_str).to_owned();
        if matches!(request.uri().path(), "/.well-known/agent-card.json" | "/.well-known/agent.json") {
            return response_of(StatusCode::OK, "application/json", self.card.clone());
        }
        let interface = split_interface_path(&path).and_then(|(place, rest)| {
            let at = self.interfaces.iter().position(|interface| interface.place == place)?;
            Some((at, rest.to_owned()))
        });
        let Some((at, rest)) = interface else {
            return refuse(StatusCode::NOT_FOUND, "there is nothing here; see /.well-known/agent-card.json");
        };
        let interface = &self.interfaces[at];
        let (head, body) = request.into_parts();
        let Ok(body) = String::from_utf8(body.to_vec()) else {
            return refuse(StatusCode::BAD_REQUEST, "the body is not UTF-8");
        };
        self.hide_credentials(&head.headers);
        let asked = RecordedRequest {
            method: head.method.to_string(),
            path: self.clean_path(&rest),
            headers: kept_headers(&head.headers, &REQUEST_HEADERS),
            body: Payload::of(self.out.redactor.body(&body)),
        };
        let written = match forwarded_request(&interface.agent, head.method, head.headers, &rest, body) {
            Ok(written) => written,
            Err(error) => return refuse(StatusCode::BAD_GATEWAY, &error.to_string()),
        };
        let pending = PendingExchange {
            recorder: self.clone(),
            number: self.begun.fetch_add(1, Ordering::Relaxed) + 1,
            place: interface.place,
            binding: interface.binding,
            request: asked,
            begun: Instant::now(),
        };
        self.under_way.fetch_add(1, Ordering::AcqRel);
        match interface.agent.send_raw(written).await {
            Ok(answer) => pending.respond(answer).await,
            Err(error) => {
                pending.record_failure(&error);
                refuse(StatusCode::BAD_GATEWAY, &format!("the agent cannot be reached: {error}"))
            }
        }
    }

    /// Tells the redactor the credentials of the client, which are secrets as much as our own.
    fn hide_credentials(&self, headers: &HeaderMap) {
        for (name, value) in headers {
            let Ok(text) = value.to_str() else { continue };
            if self.out.redactor.header(name.as_str(), text) != text {
                let secret = text.split_once(' ').map_or(text, |(_, secret)| secret);
                self.out.redactor.learn(secret);
            }
        }
    }

    /// A path without secrets in its query.
    fn clean_path(&self, path: &str) -> String {
        let clean = self.out.redactor.url(&format!("http://x{path}"));
        clean.strip_prefix("http://x").unwrap_or_default().to_owned()
    }

    fn write_exchange(&self, exchange: &RecordedExchange) {
        let mut file = self.file();
        match file.writer.line(exchange) {
            Ok(()) => file.count += 1,
            Err(error) => file.failure = Some(error.to_string()),
        }
    }
}

impl LocalHandler for Recorder {
    fn handle(
        self: Arc<Self>,
        request: Request<Bytes>,
    ) -> Pin<Box<dyn Future<Output = Response<LocalBody>> + Send + 'static>> {
        Box::pin(self.forward(request))
    }
}

impl PendingExchange {
    async fn respond(self, answer: RawResponse) -> Response<LocalBody> {
        let after = self.begun.elapsed();
        let mut headers = answer.headers.clone();
        // The client has taken any compression off.
        [header::CONTENT_ENCODING, header::VARY].iter().for_each(|name| drop(headers.remove(name)));
        remove_hop_by_hop(&mut headers);
        let mut response = Response::new(());
        (*response.status_mut(), *response.headers_mut()) = (answer.status, headers);
        if answer.media_type() == "text/event-stream" {
            let recording = StreamRecording::new(self, answer, after);
            let pieces = stream::unfold(recording, |mut recording| async move {
                recording.next().await.map(|piece| (piece, recording))
            });
            return response.map(|()| LocalBody::Chunks(Box::pin(pieces)));
        }
        let status = answer.status;
        let told_headers = kept_headers(&answer.headers, &RESPONSE_HEADERS);
        match answer.body(ANSWER_BYTES_MAX).await {
            Ok(body) => {
                let text = String::from_utf8_lossy(&body).into_owned();
                let body_told = Payload::of(self.recorder.out.redactor.body(&text));
                self.record(RecordedResponse {
                    status: status.as_u16(),
                    after: millis(after),
                    headers: told_headers,
                    body: body_told,
                    frames: None,
                    ended: None,
                });
                response.map(|()| LocalBody::Whole(body))
            }
            Err(error) => {
                self.record_failure(&error);
                refuse(StatusCode::BAD_GATEWAY, &format!("the answer broke off: {error}"))
            }
        }
    }

    fn record(self, response: RecordedResponse) {
        self.recorder.write_exchange(&RecordedExchange {
            exchange: self.number,
            interface: self.place,
            binding: self.binding.name().to_owned(),
            request: self.request,
            response,
            line: 0,
        });
        done(&self.recorder);
    }

    fn record_failure(self, error: &Error) {
        self.recorder.out.warn(&format!("exchange {} is not recorded: {error}", self.number));
        done(&self.recorder);
    }
}

/// A stream that is passed on as it comes. It is written down when it ends, or when it is dropped because the client
/// left.
struct StreamRecording {
    pending: Option<PendingExchange>,
    answer: RawResponse,
    after: Duration,
    begun: Instant,
    parser: Parser,
    frames: Vec<RecordedFrame>,
    stopping: watch::Receiver<bool>,
}

impl StreamRecording {
    fn new(pending: PendingExchange, answer: RawResponse, after: Duration) -> Self {
        let stopping = pending.recorder.stopping.subscribe();
        let (parser, begun) = (Parser::new(EVENT_BYTES_MAX), Instant::now());
        Self { pending: Some(pending), answer, after, begun, parser, frames: Vec::new(), stopping }
    }

    async fn next(&mut self) -> Option<Result<Bytes, BodyBroken>> {
        self.pending.as_ref()?;
        let piece = tokio::select! {
            biased;
            _ = self.stopping.wait_for(|stopping| *stopping) => None,
            piece = self.answer.next_chunk(SILENCE_MAX) => Some(piece),
        };
        let Some(piece) = piece else {
            self.end(StreamEnd::Left);
            return Some(Err(BodyBroken));
        };
        match piece {
            Ok(Some(bytes)) => {
                self.read(&bytes);
                Some(Ok(bytes))
            }
            Ok(None) => {
                self.end(StreamEnd::Closed);
                None
            }
            Err(_) => {
                self.end(StreamEnd::Broken);
                Some(Err(BodyBroken))
            }
        }
    }

    fn read(&mut self, bytes: &[u8]) {
        let Some(pending) = &self.pending else { return };
        self.parser.push(bytes);
        // What cannot be read is passed on all the same.
        while let Ok(Some(frame)) = self.parser.next() {
            let data = Payload::of(pending.recorder.out.redactor.body(&frame.data));
            self.frames.push(RecordedFrame {
                at: millis(self.begun.elapsed()),
                id: frame.id,
                event: frame.event,
                data,
            });
        }
    }

    fn end(&mut self, ended: StreamEnd) {
        let Some(pending) = self.pending.take() else { return };
        pending.record(RecordedResponse {
            status: self.answer.status.as_u16(),
            after: millis(self.after),
            headers: kept_headers(&self.answer.headers, &RESPONSE_HEADERS),
            body: Payload::default(),
            frames: Some(std::mem::take(&mut self.frames)),
            ended: Some(ended),
        });
    }
}

impl Drop for StreamRecording {
    fn drop(&mut self) {
        self.end(StreamEnd::Left);
    }
}

fn done(recorder: &Recorder) {
    recorder.under_way.fetch_sub(1, Ordering::AcqRel);
    recorder.idle.notify_one();
}

/// A request as it goes on: what the client says, where the agent is, with our credentials.
fn forwarded_request(
    agent: &Agent,
    method: Method,
    headers: HeaderMap,
    rest: &str,
    body: String,
) -> Result<RequestPreview, Error> {
    let ours = agent.preview(Call::List(ListTasks::default()))?;
    let mut passed = headers;
    remove_hop_by_hop(&mut passed);
    // Compression is taken off on the way, so it is not the client's to choose.
    for name in [header::HOST, header::ACCEPT_ENCODING, header::ORIGIN, header::REFERER] {
        passed.remove(name);
    }
    for (name, value) in ours.headers.iter().filter(|(_, value)| value.is_sensitive()) {
        passed.insert(name, value.clone());
    }
    let at = agent.chosen_interface().url.as_str();
    let url = if rest.is_empty() { at.to_owned() } else { format!("{}{rest}", at.trim_end_matches('/')) };
    Ok(RequestPreview { method, url, headers: passed, body: Some(body).filter(|body| !body.is_empty()), ..ours })
}

fn kept_headers(headers: &HeaderMap, names: &[&str]) -> BTreeMap<String, String> {
    let value = |name: &str| headers.get(name)?.to_str().ok().map(|value| (name.to_owned(), value.to_owned()));
    names.iter().filter_map(|name| value(name)).collect()
}

fn millis(time: Duration) -> u64 {
    u64::try_from(time.as_millis()).unwrap_or(u64::MAX)
}

fn response_of(status: StatusCode, media_type: &'static str, body: String) -> Response<LocalBody> {
    let mut response = Response::new(LocalBody::Whole(body.into()));
    *response.status_mut() = status;
    response.headers_mut().insert(header::CONTENT_TYPE, HeaderValue::from_static(media_type));
    response
}

/// A failure on the way, which is neither the client's nor the agent's.
fn refuse(status: StatusCode, words: &str) -> Response<LocalBody> {
    let body = serde_json::json!({ "error": { "code": status.as_u16(), "message": words } });
    let mut response = response_of(status, "application/json", body.to_string());
    response.headers_mut().insert(HeaderName::from_static("x-sabir-recorder"), HeaderValue::from_static("1"));
    response
}
