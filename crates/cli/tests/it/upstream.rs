//! A remote agent that a test controls: one task at a time, told by streams, by answers to questions, or by both, in
//! 1.0 or 0.3. It lives in the test's own process, so it outlives the servers that stand before it.

use crate::stub_agent::{self, StubRequest};
use crate::test_server::eventually;
use serde_json::{Value, json};
use std::io::Write;
use std::net::{TcpListener, TcpStream};
use std::sync::{Arc, Condvar, Mutex, MutexGuard};
use std::thread;
use std::time::Duration;

/// The features of an upstream.
#[derive(Clone, Copy, PartialEq, Eq)]
pub(crate) struct UpstreamFeatures {
    /// It speaks 1.0, and otherwise 0.3.
    pub(crate) v1: bool,
    /// Its card declares streaming.
    pub(crate) streams: bool,
    /// It answers questions about its task.
    pub(crate) gets: bool,
    /// Its events have numbers.
    pub(crate) numbered: bool,
    /// It lists its tasks when asked.
    pub(crate) lists: bool,
}

pub(crate) const STREAMS: UpstreamFeatures =
    UpstreamFeatures { v1: true, streams: true, gets: false, numbered: false, lists: false };
pub(crate) const NUMBERED: UpstreamFeatures = UpstreamFeatures { gets: true, numbered: true, lists: true, ..STREAMS };
pub(crate) const POLLED: UpstreamFeatures =
    UpstreamFeatures { v1: true, streams: false, gets: true, numbered: false, lists: false };
pub(crate) const POLLED_V03: UpstreamFeatures = UpstreamFeatures { v1: false, ..POLLED };
pub(crate) const STREAMS_V03: UpstreamFeatures = UpstreamFeatures { v1: false, streams: true, ..POLLED };

#[derive(Clone)]
enum UpstreamEvent {
    /// The state by its name in 0.3, and a text.
    Status(&'static str, String),
    Chunk(String),
}

#[derive(Default)]
struct UpstreamState {
    /// The messages that it received.
    messages: Vec<Value>,
    /// The events of its task.
    events: Vec<UpstreamEvent>,
    /// The methods it was called with.
    calls: Vec<String>,
    /// The `Authorization` header of each request.
    credentials: Vec<Option<String>>,
    /// How often all streams were cut off.
    cuts: u32,
    /// Hangs up on sends after it has taken the message.
    hangs_up_on_send: bool,
    /// Hangs up on every connection, as if it were not running.
    offline: bool,
}

struct SharedUpstream {
    features: UpstreamFeatures,
    state: Mutex<UpstreamState>,
    changed: Condvar,
}

/// A remote agent inside the test process.
pub(crate) struct Upstream {
    pub(crate) url: String,
    shared: Arc<SharedUpstream>,
}

impl Upstream {
    pub(crate) fn start(manner: UpstreamFeatures) -> Self {
        Self::start_at(TcpListener::bind("127.0.0.1:0").unwrap(), manner)
    }

    /// The same where a test has reserved an address for it.
    pub(crate) fn start_at(listener: TcpListener, manner: UpstreamFeatures) -> Self {
        let url = format!("http://{}", listener.local_addr().unwrap());
        let shared = Arc::new(SharedUpstream { features: manner, state: Mutex::default(), changed: Condvar::new() });
        let (ours, at) = (shared.clone(), url.clone());
        thread::spawn(move || {
            for stream in listener.incoming().map_while(Result::ok) {
                let (shared, at) = (ours.clone(), at.clone());
                // A client that hangs up gets no answer.
                thread::spawn(move || drop(shared.serve(stream, &at)));
            }
        });
        Self { url, shared }
    }

    /// A configuration with this agent behind ours.
    pub(crate) fn config(&self, more: &str) -> String {
        format!(
            "[[agent]]\nname = \"far\"\nkind = \"a2a\"\ndefault = true\nurl = \"{}\"\n{more}\n\
             [agent.continuation]\npoll_ms = 50\n",
            self.url
        )
    }

    fn change(&self, change: impl FnOnce(&mut UpstreamState)) {
        change(&mut self.shared.lock());
        self.shared.changed.notify_all();
    }

    pub(crate) fn send_chunk(&self, text: &str) {
        self.change(|state| state.events.push(UpstreamEvent::Chunk(text.into())));
    }

    /// A status: `working`, `completed`, `input-required` …
    pub(crate) fn send_status(&self, name: &'static str, words: &str) {
        self.change(|state| state.events.push(UpstreamEvent::Status(name, words.into())));
    }

    /// Cuts off all streams.
    pub(crate) fn cut_streams(&self) {
        self.change(|state| state.cuts += 1);
    }

    /// Sets whether it takes messages and hangs up.
    pub(crate) fn set_hangs_up_on_send(&self, deaf: bool) {
        self.change(|state| state.hangs_up_on_send = deaf);
    }

    /// Sets whether it hangs up on every connection.
    pub(crate) fn set_offline(&self, away: bool) {
        self.change(|state| {
            state.offline = away;
            state.cuts += 1;
        });
    }

    pub(crate) fn messages(&self) -> Vec<Value> {
        self.shared.lock().messages.clone()
    }

    pub(crate) fn calls(&self, method: &str) -> usize {
        self.shared.lock().calls.iter().filter(|call| *call == method).count()
    }

    pub(crate) fn shown_credentials(&self) -> Vec<Option<String>> {
        self.shared.lock().credentials.clone()
    }

    /// Waits until it was sent this many messages.
    #[track_caller]
    pub(crate) fn wait_for_messages(&self, messages: usize) {
        eventually("the upstream has heard it", || self.messages().len() >= messages);
    }
}

impl SharedUpstream {
    fn lock(&self) -> MutexGuard<'_, UpstreamState> {
        self.state.lock().unwrap()
    }

    fn serve(&self, stream: TcpStream, url: &str) -> std::io::Result<()> {
        let asked = stub_agent::read_request(&stream)?;
        if self.lock().offline {
            return Ok(());
        }
        if asked.path.starts_with("/.well-known/") {
            return stub_agent::respond(stream, (200, "application/json", self.card(url)));
        }
        let request = asked.json();
        let method = request["method"].as_str().unwrap_or_default().to_owned();
        {
            let mut state = self.lock();
            state.calls.push(method.clone());
            state.credentials.push(asked.header("authorization").map(str::to_owned));
        }
        self.answer(stream, &asked, &request, &method)
    }

    fn answer(&self, stream: TcpStream, asked: &StubRequest, request: &Value, method: &str) -> std::io::Result<()> {
        let id = &request["id"];
        let manner = self.features;
        match method {
            "SendMessage" | "message/send" | "SendStreamingMessage" | "message/stream" => {
                let streamed = method.contains("tream");
                let from = {
                    let mut state = self.lock();
                    state.messages.push(request["params"]["message"].clone());
                    if state.hangs_up_on_send {
                        return Ok(());
                    }
                    // The agent itself reports that the question is answered.
                    if matches!(state.events.last(), Some(UpstreamEvent::Status("input-required" | "auth-required", _)))
                    {
                        state.events.push(UpstreamEvent::Status("working", String::new()));
                    }
                    state.events.len()
                };
                self.changed.notify_all();
                if streamed && manner.streams {
                    return self.stream(stream, id, from, true);
                }
                let task = self.task(&self.lock());
                let result = if manner.v1 { json!({ "task": task }) } else { task };
                Self::result(stream, id, &result)
            }
            "GetTask" | "tasks/get" if manner.gets => Self::result(stream, id, &self.task(&self.lock())),
            "SubscribeToTask" | "tasks/resubscribe" if manner.streams => {
                let last = asked.header("last-event-id").and_then(|text| text.parse::<usize>().ok());
                match last.filter(|_| manner.numbered) {
                    Some(last) => self.stream(stream, id, last, false),
                    None => {
                        let from = self.lock().events.len();
                        self.stream(stream, id, from, true)
                    }
                }
            }
            "ListTasks" if manner.lists => {
                let state = self.lock();
                let tasks = if state.messages.is_empty() { vec![] } else { vec![self.task(&state)] };
                let size = tasks.len();
                let page = json!({"tasks": tasks, "nextPageToken": "", "pageSize": 50, "totalSize": size});
                Self::result(stream, id, &page)
            }
            "CancelTask" | "tasks/cancel" => {
                let mut state = self.lock();
                state.events.push(UpstreamEvent::Status("canceled", String::new()));
                let task = self.task(&state);
                drop(state);
                self.changed.notify_all();
                Self::result(stream, id, &task)
            }
            _ => {
                let error = json!({"code": -32601, "message": "Method not found"});
                let body = json!({"jsonrpc": "2.0", "id": id, "error": error}).to_string();
                stub_agent::respond(stream, (200, "application/json", body))
            }
        }
    }

    fn result(stream: TcpStream, id: &Value, result: &Value) -> std::io::Result<()> {
        let body = json!({"jsonrpc": "2.0", "id": id, "result": result}).to_string();
        stub_agent::respond(stream, (200, "application/json", body))
    }

    /// Sends the task if asked to, then every event after `cursor`, until the task settles or asks, or the stream is
    /// cut.
    fn stream(&self, mut stream: TcpStream, id: &Value, mut cursor: usize, snapshot: bool) -> std::io::Result<()> {
        write!(stream, "HTTP/1.1 200 X\r\ncontent-type: text/event-stream\r\nconnection: close\r\n\r\n")?;
        let mut state = self.lock();
        let cuts = state.cuts;
        if snapshot {
            let task = self.task(&state);
            let task = if self.features.v1 { json!({ "task": task }) } else { task };
            self.frame(&mut stream, id, cursor, &task)?;
            if is_over(&state.events[..cursor]) {
                return Ok(());
            }
        }
        loop {
            while cursor < state.events.len() {
                let event = self.event(
                    &state.events[cursor],
                    state.events[..cursor].iter().any(|s| matches!(s, UpstreamEvent::Chunk(_))),
                );
                cursor += 1;
                self.frame(&mut stream, id, cursor, &event)?;
                if is_over(&state.events[..cursor]) {
                    return Ok(());
                }
            }
            if state.cuts != cuts {
                return Ok(());
            }
            let waited = self.changed.wait_timeout(state, Duration::from_secs(2)).unwrap();
            state = waited.0;
            if waited.1.timed_out() {
                write!(stream, ": still there\n\n")?;
                stream.flush()?;
            }
        }
    }

    fn frame(&self, stream: &mut TcpStream, id: &Value, number: usize, result: &Value) -> std::io::Result<()> {
        if self.features.numbered {
            writeln!(stream, "id: {number}")?;
        }
        write!(stream, "data: {}\n\n", json!({"jsonrpc": "2.0", "id": id, "result": result}))?;
        stream.flush()
    }

    fn state_name(&self, state: &str) -> String {
        if self.features.v1 { format!("TASK_STATE_{}", state.to_uppercase().replace('-', "_")) } else { state.into() }
    }

    fn part(&self, text: &str) -> Value {
        if self.features.v1 { json!({ "text": text }) } else { json!({"kind": "text", "text": text}) }
    }

    fn status_json(&self, name: &str, words: &str, number: usize) -> Value {
        let mut status =
            json!({ "state": self.state_name(name), "timestamp": format!("2026-01-01T00:00:{:02}Z", number % 60) });
        if !words.is_empty() {
            let mut message = json!({"messageId": format!("said-{number}"), "parts": [self.part(words)]});
            message["role"] = json!(if self.features.v1 { "ROLE_AGENT" } else { "agent" });
            if !self.features.v1 {
                message["kind"] = json!("message");
            }
            status["message"] = message;
        }
        status
    }

    fn event(&self, said: &UpstreamEvent, append: bool) -> Value {
        let (task, context) = ("theirs", "their-context");
        match said {
            UpstreamEvent::Status(name, words) => {
                let status = self.status_json(name, words, words.len());
                if self.features.v1 {
                    return json!({"statusUpdate": {"taskId": task, "contextId": context, "status": status}});
                }
                let last = is_over(std::slice::from_ref(said));
                json!({"kind": "status-update", "taskId": task, "contextId": context, "status": status, "final": last})
            }
            UpstreamEvent::Chunk(text) => {
                let artifact = json!({"artifactId": "answer", "parts": [self.part(text)]});
                let mut update = json!({"taskId": task, "contextId": context, "artifact": artifact, "append": append});
                if self.features.v1 {
                    return json!({ "artifactUpdate": update });
                }
                update["kind"] = json!("artifact-update");
                update
            }
        }
    }

    /// The task as it stands.
    fn task(&self, state: &UpstreamState) -> Value {
        let status = state.events.iter().rev().find_map(|said| match said {
            UpstreamEvent::Status(name, words) => Some(self.status_json(name, words, words.len())),
            UpstreamEvent::Chunk(_) => None,
        });
        let chunks = state.events.iter().filter_map(|said| match said {
            UpstreamEvent::Chunk(text) => Some(self.part(text)),
            UpstreamEvent::Status(..) => None,
        });
        let parts: Vec<Value> = chunks.collect();
        let mut task = json!({
            "id": "theirs", "contextId": "their-context", "history": state.messages,
            "status": status.unwrap_or_else(|| self.status_json("submitted", "", 0)),
        });
        if !parts.is_empty() {
            task["artifacts"] = json!([{"artifactId": "answer", "parts": parts}]);
        }
        if !self.features.v1 {
            task["kind"] = json!("task");
        }
        task
    }

    fn card(&self, url: &str) -> String {
        let skills = json!([{"id": "afar", "name": "Afar", "description": "Does it elsewhere", "tags": ["far"]}]);
        let mut card = json!({
            "name": "Upstream", "description": "An agent elsewhere", "version": "1.0.0", "skills": skills,
            "capabilities": {"streaming": self.features.streams},
            "defaultInputModes": ["text/plain"], "defaultOutputModes": ["text/plain"],
        });
        if self.features.v1 {
            let rpc = format!("{url}/rpc");
            card["supportedInterfaces"] = json!([{"url": rpc, "protocolBinding": "JSONRPC", "protocolVersion": "1.0"}]);
        } else {
            card["protocolVersion"] = json!("0.3.0");
            card["url"] = json!(format!("{url}/rpc"));
            card["preferredTransport"] = json!("JSONRPC");
        }
        card.to_string()
    }
}

/// Whether the last event ends a stream.
fn is_over(said: &[UpstreamEvent]) -> bool {
    matches!(said.last(), Some(UpstreamEvent::Status(name, _)) if !matches!(*name, "submitted" | "working"))
}
