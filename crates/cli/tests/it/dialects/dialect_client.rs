//! The same messages in each dialect: what a client of it writes, and what it reads out of the answer.

use crate::http_client::{EventStream, HttpResponse, Request, SseEvent};
use crate::test_server::TestServer;
use serde_json::{Value, json};
use std::sync::atomic::{AtomicU32, Ordering};

/// A dialect and a binding.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum DialectClient {
    V1,
    Rest1,
    V03,
    V02,
    Rest03,
    V01,
    Native,
    Xpr,
}

use DialectClient::{Native, Rest1, Rest03, V01, V1, V02, V03, Xpr};

/// Every dialect with every binding.
pub(crate) const ALL: [DialectClient; 8] = [V1, Rest1, V03, V02, Rest03, V01, Native, Xpr];
/// The dialects whose messages continue a task.
pub(crate) const CONTINUING: [DialectClient; 7] = [V1, Rest1, V03, V02, Rest03, V01, Xpr];
/// The dialects that take a stream up again.
pub(crate) const RESUBSCRIBING: [DialectClient; 6] = [V1, Rest1, V03, V02, Rest03, V01];
/// The dialects whose clients name tasks.
pub(crate) const TASK_NAMING: [DialectClient; 2] = [V01, Xpr];
/// The dialects whose messages have names.
pub(crate) const MESSAGE_NAMING: [DialectClient; 5] = [V1, Rest1, V03, V02, Rest03];

/// A message that a test sends.
#[derive(Debug, Clone, Default)]
pub(crate) struct OutgoingMessage<'a> {
    pub(crate) text: &'a str,
    /// A task by its id, or by the caller's own name.
    pub(crate) to: Option<&'a str>,
    pub(crate) context: Option<&'a str>,
    pub(crate) message_id: Option<&'a str>,
    pub(crate) at_once: bool,
    pub(crate) streams: bool,
}

pub(crate) fn outgoing(text: &str) -> OutgoingMessage<'_> {
    OutgoingMessage { text, ..OutgoingMessage::default() }
}

impl<'a> OutgoingMessage<'a> {
    pub(crate) const fn to(self, to: &'a str) -> Self {
        Self { to: Some(to), ..self }
    }

    pub(crate) const fn at_once(self) -> Self {
        Self { at_once: true, ..self }
    }

    pub(crate) const fn within(self, context: &'a str) -> Self {
        Self { context: Some(context), ..self }
    }

    pub(crate) const fn called(self, message_id: &'a str) -> Self {
        Self { message_id: Some(message_id), ..self }
    }

    const fn streaming(self) -> Self {
        Self { streams: true, ..self }
    }
}

/// A task as every dialect shows it.
#[derive(Debug, Clone)]
pub(crate) struct TaskView {
    pub(crate) id: String,
    pub(crate) context: Option<String>,
    /// The state in the words of 0.3.
    pub(crate) state: String,
    /// The whole task as it was received.
    pub(crate) raw: Value,
}

impl TaskView {
    /// The text of the agent in the status.
    pub(crate) fn status_text(&self) -> Option<&str> {
        let message = &self.raw["status"]["message"];
        let parts = message.get("parts").or_else(|| message.get("content"))?;
        parts[0]["text"].as_str()
    }

    /// The text of an artifact.
    pub(crate) fn artifact(&self, n: usize) -> Option<String> {
        let parts = self.raw["artifacts"].get(n)?["parts"].as_array()?;
        Some(parts.iter().map(|p| p["text"].as_str().unwrap_or("?")).collect())
    }
}

/// A name that no other test uses.
pub(crate) fn unique(what: &str) -> String {
    static COUNT: AtomicU32 = AtomicU32::new(0);
    format!("{what}-{}", COUNT.fetch_add(1, Ordering::Relaxed))
}

/// Escapes what has a meaning in a path.
pub(crate) fn escaped(name: &str) -> String {
    let plain = |b: u8| b.is_ascii_alphanumeric() || b"-_.~".contains(&b);
    name.bytes().map(|b| if plain(b) { char::from(b).to_string() } else { format!("%{b:02X}") }).collect()
}

impl DialectClient {
    pub(crate) const fn is_rest(self) -> bool {
        matches!(self, Rest1 | Rest03)
    }

    /// Whether the answer to a send shows the caller's own name for the task.
    pub(crate) const fn names_tasks(self) -> bool {
        matches!(self, V01 | Xpr)
    }

    /// The path of the dialect's endpoint, below an agent's path.
    pub(crate) fn endpoint(self, agent: &str) -> String {
        let agent = agent.trim_end_matches('/');
        match self {
            V1 | V03 | V02 | V01 => format!("{agent}/"),
            Rest1 => agent.to_owned(),
            Rest03 => format!("{agent}/v1"),
            Native => format!("{agent}/_agent-native/a2a"),
            Xpr => format!("{agent}/a2a"),
        }
    }

    /// Sets the version header as clients of the dialect do.
    fn with_version_header(self, request: Request) -> Request {
        match self {
            V1 | Rest1 => request,
            V02 => request.with("A2A-Version", "0.2"),
            V01 => request.with("A2A-Version", "0.1"),
            V03 | Rest03 | Native | Xpr => request.without("A2A-Version"),
        }
    }

    /// A bare `tasks/get` under a name is taken for 0.1, so a client of 0.3 sends its version.
    fn with_v03_header(self, request: Request) -> Request {
        if self == V03 { request.with("A2A-Version", "0.3") } else { request }
    }

    pub(crate) fn post(self, path: &str, body: impl Into<Vec<u8>>) -> Request {
        self.with_version_header(Request::post(path, body))
    }

    pub(crate) fn rpc(self, agent: &str, method: &str, params: &Value) -> Request {
        let body = json!({"jsonrpc": "2.0", "id": 7, "method": method, "params": params});
        self.post(&self.endpoint(agent), body.to_string())
    }

    /// A message of a user.
    pub(crate) fn message(self, said: &OutgoingMessage<'_>) -> Value {
        let part = match self {
            V1 | Rest1 | Rest03 => json!({"text": said.text}),
            V03 | V02 => json!({"kind": "text", "text": said.text}),
            V01 | Native | Xpr => json!({"type": "text", "text": said.text}),
        };
        let role = if matches!(self, V1 | Rest1 | Rest03) { "ROLE_USER" } else { "user" };
        let list = if self == Rest03 { "content" } else { "parts" };
        let mut message = json!({"role": role, list: [part]});
        if matches!(self, V1 | Rest1 | V03 | V02 | Rest03) {
            message["messageId"] = json!(said.message_id.map_or_else(|| unique("m"), str::to_owned));
            if let Some(task) = said.to {
                message["taskId"] = json!(task);
            }
            if let Some(context) = said.context {
                message["contextId"] = json!(context);
            }
        } else if let Some(id) = said.message_id {
            message["messageId"] = json!(id);
        }
        message
    }

    fn params(self, said: &OutgoingMessage<'_>) -> Value {
        let mut params = json!({"message": self.message(said)});
        match self {
            V1 | Rest1 if said.at_once => params["configuration"] = json!({"returnImmediately": true}),
            // The proto of 0.3 has no way to tell a `false` from nothing, but its JSON has.
            V03 | V02 | Rest03 if said.at_once => params["configuration"] = json!({"blocking": false}),
            Rest03 => params["configuration"] = json!({"blocking": true}),
            Native if said.at_once => params["async"] = json!(true),
            V01 => params["id"] = json!(said.to.map_or_else(|| unique("task"), str::to_owned)),
            Xpr => {
                if let Some(name) = said.to {
                    params["id"] = json!(name);
                }
            }
            V1 | Rest1 | V03 | V02 | Native => {}
        }
        if let Some(context) = said.context {
            match self {
                V01 => params["sessionId"] = json!(context),
                Native | Xpr => params["contextId"] = json!(context),
                V1 | Rest1 | V03 | V02 | Rest03 => {}
            }
        }
        params
    }

    /// The request that sends a message.
    pub(crate) fn send(self, agent: &str, said: &OutgoingMessage<'_>) -> Request {
        let params = self.params(said);
        if self.is_rest() {
            let word = if said.streams { "stream" } else { "send" };
            return self.post(&format!("{}/message:{word}", self.endpoint(agent)), params.to_string());
        }
        let method = match (self, said.streams) {
            (V1, false) => "SendMessage",
            (V1, true) => "SendStreamingMessage",
            (V01, false) => "tasks/send",
            (V01, true) => "tasks/sendSubscribe",
            (_, false) => "message/send",
            (_, true) => "message/stream",
        };
        self.rpc(agent, method, &params)
    }

    pub(crate) fn get(self, agent: &str, id: &str) -> Request {
        match self {
            V1 => self.rpc(agent, "GetTask", &json!({"id": id})),
            Rest1 | Rest03 => {
                self.with_version_header(Request::get(&format!("{}/tasks/{}", self.endpoint(agent), escaped(id))))
            }
            V03 | V02 | V01 | Native | Xpr => self.with_v03_header(self.rpc(agent, "tasks/get", &json!({"id": id}))),
        }
    }

    pub(crate) fn cancel(self, agent: &str, id: &str) -> Request {
        match self {
            V1 => self.rpc(agent, "CancelTask", &json!({"id": id})),
            Rest1 | Rest03 => self.post(&format!("{}/tasks/{}:cancel", self.endpoint(agent), escaped(id)), ""),
            V03 | V02 | V01 | Native | Xpr => self.with_v03_header(self.rpc(agent, "tasks/cancel", &json!({"id": id}))),
        }
    }

    /// The request that takes a stream up again.
    pub(crate) fn follow(self, agent: &str, id: &str) -> Request {
        match self {
            V1 => self.rpc(agent, "SubscribeToTask", &json!({"id": id})),
            Rest1 | Rest03 => self.post(&format!("{}/tasks/{}:subscribe", self.endpoint(agent), escaped(id)), ""),
            V03 | V02 | V01 | Native | Xpr => {
                self.with_v03_header(self.rpc(agent, "tasks/resubscribe", &json!({"id": id})))
            }
        }
    }

    /// The task of an answer, or the number of its error: the code of JSON-RPC, or the HTTP status.
    #[track_caller]
    pub(crate) fn read(self, reply: &HttpResponse) -> Result<TaskView, i64> {
        let body = reply.json();
        if self.is_rest() {
            if reply.status != 200 {
                return Err(i64::from(reply.status));
            }
            return Ok(self.task(body.get("task").unwrap_or(&body)));
        }
        assert_eq!(reply.status, 200, "{body}");
        assert_eq!((&body["jsonrpc"], &body["id"]), (&json!("2.0"), &json!(7)), "{self:?}: {body}");
        match body.get("error") {
            Some(error) => Err(error["code"].as_i64().unwrap()),
            None => Ok(self.task(body["result"].get("task").unwrap_or(&body["result"]))),
        }
    }

    /// Reads a task in this dialect.
    #[track_caller]
    pub(crate) fn task(self, task: &Value) -> TaskView {
        let text = |member: &str| task[member].as_str().map(str::to_owned);
        let context = if self == V01 { "sessionId" } else { "contextId" };
        let has_kind = matches!(self, V03 | V02);
        assert_eq!(task["kind"] == "task", has_kind, "{self:?} tells tasks by kind: {has_kind}; {task}");
        TaskView {
            id: text("id").unwrap_or_else(|| panic!("{self:?}: not a task: {task}")),
            context: text(context),
            state: self.v03_state(task["status"]["state"].as_str().unwrap()),
            raw: task.clone(),
        }
    }

    /// A state in the words of 0.3, after checking that it is one of this dialect's words.
    #[track_caller]
    pub(crate) fn v03_state(self, state: &str) -> String {
        if !matches!(self, V1 | Rest1 | Rest03) {
            assert!(!state.contains(char::is_uppercase), "{self:?}: {state}");
            return if self == Native { state.replace("processing", "working") } else { state.to_owned() };
        }
        let word = state.strip_prefix("TASK_STATE_").unwrap_or_else(|| panic!("{self:?}: {state}"));
        assert_ne!(word, if self == Rest03 { "CANCELED" } else { "CANCELLED" });
        word.to_lowercase().replace('_', "-").replace("cancelled", "canceled")
    }

    /// The number for a task that is not there, or cannot be canceled.
    pub(crate) const fn error_number(self, json_rpc: i64) -> i64 {
        match (self, json_rpc) {
            (Rest1 | Rest03, -32001) => 404,
            (Rest03, -32002) => 409,
            (Rest1 | Rest03, _) => 400,
            // What it cannot do counts among what it does not have.
            (Native, -32004) => -32601,
            (Xpr, -32004) => -32602,
            _ => json_rpc,
        }
    }
}

impl TestServer {
    /// Sends and reads the task that comes back.
    #[track_caller]
    pub(crate) fn send_as(&self, tongue: DialectClient, agent: &str, said: &OutgoingMessage<'_>) -> TaskView {
        let reply = self.ask(&tongue.send(agent, said));
        tongue.read(&reply).unwrap_or_else(|e| panic!("{tongue:?} {said:?}: {e}: {}", reply.text()))
    }

    #[track_caller]
    pub(crate) fn get_as(&self, tongue: DialectClient, agent: &str, id: &str) -> TaskView {
        let reply = self.ask(&tongue.get(agent, id));
        tongue.read(&reply).unwrap_or_else(|e| panic!("{tongue:?} get {id}: {e}: {}", reply.text()))
    }

    #[track_caller]
    pub(crate) fn cancel_as(&self, tongue: DialectClient, agent: &str, id: &str) -> Result<TaskView, i64> {
        tongue.read(&self.ask(&tongue.cancel(agent, id)))
    }

    #[track_caller]
    pub(crate) fn subscribe_as(&self, tongue: DialectClient, agent: &str, id: &str) -> EventStream {
        self.open(&tongue.follow(agent, id))
    }

    #[track_caller]
    pub(crate) fn stream_as(&self, tongue: DialectClient, agent: &str, said: OutgoingMessage<'_>) -> EventStream {
        self.open(&tongue.send(agent, &said.streaming()))
    }

    /// The server's own id of a task, whatever its caller calls it.
    #[track_caller]
    pub(crate) fn server_id(&self, agent: &str, name: &str) -> String {
        self.get_as(V1, agent, name).id
    }
}

/// The state an event tells, in the words of 0.3; `None` for an artifact.
#[track_caller]
pub(crate) fn event_state(tongue: DialectClient, frame: &SseEvent) -> Option<String> {
    let event = frame.event();
    let inner = ["task", "statusUpdate"].iter().find_map(|m| event.get(m)).unwrap_or(event);
    inner["status"]["state"].as_str().map(|state| tongue.v03_state(state))
}

/// The text of the chunk an event tells.
pub(crate) fn event_chunk(frame: &SseEvent) -> Option<String> {
    let event = frame.event();
    let inner = event.get("artifactUpdate").unwrap_or(event);
    let parts = inner.get("artifact")?["parts"].as_array()?;
    Some(parts.iter().map(|p| p["text"].as_str().unwrap_or("?")).collect())
}

/// Which of the events say that they are the last.
pub(crate) fn final_flags(frames: &[SseEvent]) -> Vec<bool> {
    let last = |f: &SseEvent| {
        let event = f.event();
        event.get("statusUpdate").unwrap_or(event)["final"] == json!(true)
    };
    frames.iter().map(last).collect()
}
