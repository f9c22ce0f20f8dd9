//! A remote agent that a test controls: one task at a time, told by streams, by answers to questions, or by both, in
//! 1.0 or 0.3. It lives in the test's own process, so it outlives the servers that stand before it.

use crate::sabir::eventually;
use crate::stub::{self, Asked};
use serde_json::{Value, json};
use std::io::Write;
use std::net::{TcpListener, TcpStream};
use std::sync::{Arc, Condvar, Mutex, MutexGuard};
use std::thread;
use std::time::Duration;

/// The features of an upstream.
#[derive(Clone, Copy, PartialEq, Eq)]
pub(crate) struct Manner {
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

pub(crate) const STREAMS: Manner = Manner { v1: true, streams: true, gets: false, numbered: false, lists: false };
pub(crate) const NUMBERED: Manner = Manner { gets: true, numbered: true, lists: true, ..STREAMS };
pub(crate) const POLLED: Manner = Manner { v1: true, streams: false, gets: true, numbered: false, lists: false };
pub(crate) const POLLED_V03: Manner = Manner { v1: false, ..POLLED };
pub(crate) const STREAMS_V03: Manner = Manner { v1: false, streams: true, ..POLLED };

#[derive(Clone)]
enum Said {
    /// The state by its name in 0.3, and a text.
    Status(&'static str, String),
    Chunk(String),
}

#[derive(Default)]
struct State {
    /// The messages that it received.
    messages: Vec<Value>,
    /// The events of its task.
    said: Vec<Said>,
    /// The methods it was called with.
    calls: Vec<String>,
    /// The `Authorization` header of each request.
    shown: Vec<Option<String>>,
    /// How often all streams were cut off.
    cuts: u32,
    /// Hangs up on sends after it has taken the message.
    deaf: bool,
    /// Hangs up on every connection, as if it were not running.
    away: bool,
}

struct Shared {
    manner: Manner,
    state: Mutex<State>,
    news: Condvar,
}

/// A remote agent inside the test process.
pub(crate) struct Upstream {
    pub(crate) url: String,
    shared: Arc<Shared>,
}

impl Upstream {
    pub(crate) fn start(manner: Manner) -> Self {
        Self::start_at(TcpListener::bind("127.0.0.1:0").unwrap(), manner)
    }

    /// The same where a test has reserved an address for it.
    pub(crate) fn start_at(listener: TcpListener, manner: Manner) -> Self {
        let url = format!("http://{}", listener.local_addr().unwrap());
        let shared = Arc::new(Shared { manner, state: Mutex::default(), news: Condvar::new() });
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

    fn change(&self, change: impl FnOnce(&mut State)) {
        change(&mut self.shared.lock());
        self.shared.news.notify_all();
    }

    pub(crate) fn chunk(&self, text: &str) {
        self.change(|state| state.said.push(Said::Chunk(text.into())));
    }

    /// A status: `working`, `completed`, `input-required` …
    pub(crate) fn status(&self, name: &'static str, words: &str) {
        self.change(|state| state.said.push(Said::Status(name, words.into())));
    }

    /// Cuts off all streams.
    pub(crate) fn cut(&self) {
        self.change(|state| state.cuts += 1);
    }

    /// Sets whether it takes messages and hangs up.
    pub(crate) fn deaf(&self, deaf: bool) {
        self.change(|state| state.deaf = deaf);
    }

    /// Sets whether it hangs up on every connection.
    pub(crate) fn away(&self, away: bool) {
        self.change(|state| {
            state.away = away;
            state.cuts += 1;
        });
    }

    pub(crate) fn messages(&self) -> Vec<Value> {
        self.shared.lock().messages.clone()
    }

    pub(crate) fn calls(&self, method: &str) -> usize {
        self.shared.lock().calls.iter().filter(|call| *call == method).count()
    }

    pub(crate) fn shown(&self) -> Vec<Option<String>> {
        self.shared.lock().shown.clone()
    }

    /// Waits until it was sent this many messages.
    #[track_caller]
    pub(crate) fn heard(&self, messages: usize) {
        eventually("the upstream has heard it", || self.messages().len() >= messages);
    }
}

impl Shared {
    fn lock(&self) -> MutexGuard<'_, State> {
        self.state.lock().unwrap()
    }

    fn serve(&self, stream: TcpStream, url: &str) -> std::io::Result<()> {
        let asked = stub::read(&stream)?;
        if self.lock().away {
            return Ok(());
        }
        if asked.path.starts_with("/.well-known/") {
            return stub::tell(stream, (200, "application/json", self.card(url)));
        }
        let request = asked.json();
        let method = request["method"].as_str().unwrap_or_default().to_owned();
        {
            let mut state = self.lock();
            state.calls.push(method.clone());
            state.shown.push(asked.header("authorization").map(str::to_owned));
        }
        self.answer(stream, &asked, &request, &method)
    }

    fn answer(&self, stream: TcpStream, asked: &Asked, request: &Value, method: &str) -> std::io::Result<()> {
        let id = &request["id"];
        let manner = self.manner;
        match method {
            "SendMessage" | "message/send" | "SendStreamingMessage" | "message/stream" => {
                let streamed = method.contains("tream");
                let from = {
                    let mut state = self.lock();
                    state.messages.push(request["params"]["message"].clone());
                    if state.deaf {
                        return Ok(());
                    }
                    // The agent itself reports that the question is answered.
                    if matches!(state.said.last(), Some(Said::Status("input-required" | "auth-required", _))) {
                        state.said.push(Said::Status("working", String::new()));
                    }
                    state.said.len()
                };
                self.news.notify_all();
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
                        let from = self.lock().said.len();
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
                state.said.push(Said::Status("canceled", String::new()));
                let task = self.task(&state);
                drop(state);
                self.news.notify_all();
                Self::result(stream, id, &task)
            }
            _ => {
                let error = json!({"code": -32601, "message": "Method not found"});
                let body = json!({"jsonrpc": "2.0", "id": id, "error": error}).to_string();
                stub::tell(stream, (200, "application/json", body))
            }
        }
    }

    fn result(stream: TcpStream, id: &Value, result: &Value) -> std::io::Result<()> {
        let body = json!({"jsonrpc": "2.0", "id": id, "result": result}).to_string();
        stub::tell(stream, (200, "application/json", body))
    }

    /// Sends the task if asked to, then every event after `cursor`, until the task settles or asks, or the stream is
    /// cut.
    fn stream(&self, mut stream: TcpStream, id: &Value, mut cursor: usize, snapshot: bool) -> std::io::Result<()> {
        write!(stream, "HTTP/1.1 200 X\r\ncontent-type: text/event-stream\r\nconnection: close\r\n\r\n")?;
        let mut state = self.lock();
        let cuts = state.cuts;
        if snapshot {
            let task = self.task(&state);
            let task = if self.manner.v1 { json!({ "task": task }) } else { task };
            self.frame(&mut stream, id, cursor, &task)?;
            if is_over(&state.said[..cursor]) {
                return Ok(());
            }
        }
        loop {
            while cursor < state.said.len() {
                let event =
                    self.event(&state.said[cursor], state.said[..cursor].iter().any(|s| matches!(s, Said::Chunk(_))));
                cursor += 1;
                self.frame(&mut stream, id, cursor, &event)?;
                if is_over(&state.said[..cursor]) {
                    return Ok(());
                }
            }
            if state.cuts != cuts {
                return Ok(());
            }
            let waited = self.news.wait_timeout(state, Duration::from_secs(2)).unwrap();
            state = waited.0;
            if waited.1.timed_out() {
                write!(stream, ": still there\n\n")?;
                stream.flush()?;
            }
        }
    }

    fn frame(&self, stream: &mut TcpStream, id: &Value, number: usize, result: &Value) -> std::io::Result<()> {
        if self.manner.numbered {
            writeln!(stream, "id: {number}")?;
        }
        write!(stream, "data: {}\n\n", json!({"jsonrpc": "2.0", "id": id, "result": result}))?;
        stream.flush()
    }

    fn name(&self, state: &str) -> String {
        if self.manner.v1 { format!("TASK_STATE_{}", state.to_uppercase().replace('-', "_")) } else { state.into() }
    }

    fn part(&self, text: &str) -> Value {
        if self.manner.v1 { json!({ "text": text }) } else { json!({"kind": "text", "text": text}) }
    }

    fn said_status(&self, name: &str, words: &str, number: usize) -> Value {
        let mut status =
            json!({ "state": self.name(name), "timestamp": format!("2026-01-01T00:00:{:02}Z", number % 60) });
        if !words.is_empty() {
            let mut message = json!({"messageId": format!("said-{number}"), "parts": [self.part(words)]});
            message["role"] = json!(if self.manner.v1 { "ROLE_AGENT" } else { "agent" });
            if !self.manner.v1 {
                message["kind"] = json!("message");
            }
            status["message"] = message;
        }
        status
    }

    fn event(&self, said: &Said, append: bool) -> Value {
        let (task, context) = ("theirs", "their-context");
        match said {
            Said::Status(name, words) => {
                let status = self.said_status(name, words, words.len());
                if self.manner.v1 {
                    return json!({"statusUpdate": {"taskId": task, "contextId": context, "status": status}});
                }
                let last = is_over(std::slice::from_ref(said));
                json!({"kind": "status-update", "taskId": task, "contextId": context, "status": status, "final": last})
            }
            Said::Chunk(text) => {
                let artifact = json!({"artifactId": "answer", "parts": [self.part(text)]});
                let mut update = json!({"taskId": task, "contextId": context, "artifact": artifact, "append": append});
                if self.manner.v1 {
                    return json!({ "artifactUpdate": update });
                }
                update["kind"] = json!("artifact-update");
                update
            }
        }
    }

    /// The task as it stands.
    fn task(&self, state: &State) -> Value {
        let status = state.said.iter().rev().find_map(|said| match said {
            Said::Status(name, words) => Some(self.said_status(name, words, words.len())),
            Said::Chunk(_) => None,
        });
        let chunks = state.said.iter().filter_map(|said| match said {
            Said::Chunk(text) => Some(self.part(text)),
            Said::Status(..) => None,
        });
        let parts: Vec<Value> = chunks.collect();
        let mut task = json!({
            "id": "theirs", "contextId": "their-context", "history": state.messages,
            "status": status.unwrap_or_else(|| self.said_status("submitted", "", 0)),
        });
        if !parts.is_empty() {
            task["artifacts"] = json!([{"artifactId": "answer", "parts": parts}]);
        }
        if !self.manner.v1 {
            task["kind"] = json!("task");
        }
        task
    }

    fn card(&self, url: &str) -> String {
        let skills = json!([{"id": "afar", "name": "Afar", "description": "Does it elsewhere", "tags": ["far"]}]);
        let mut card = json!({
            "name": "Upstream", "description": "An agent elsewhere", "version": "1.0.0", "skills": skills,
            "capabilities": {"streaming": self.manner.streams},
            "defaultInputModes": ["text/plain"], "defaultOutputModes": ["text/plain"],
        });
        if self.manner.v1 {
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
fn is_over(said: &[Said]) -> bool {
    matches!(said.last(), Some(Said::Status(name, _)) if !matches!(*name, "submitted" | "working"))
}
