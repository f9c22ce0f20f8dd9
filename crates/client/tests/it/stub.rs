//! A scripted server that records its requests.

use sabir_client::{Agent, Client, ClientBuilder, Egress, Observation, Observer};
use std::sync::{Arc, Mutex};
use tokio::io::{AsyncReadExt, AsyncWriteExt};
use tokio::net::{TcpListener, TcpStream};

/// A request as received.
#[derive(Debug, Clone)]
pub(crate) struct RecordedRequest {
    pub(crate) line: String,
    pub(crate) head: String,
    pub(crate) body: String,
}

impl RecordedRequest {
    pub(crate) fn header(&self, name: &str) -> Option<String> {
        let wanted = format!("{}:", name.to_ascii_lowercase());
        let line = self.head.lines().find(|l| l.to_ascii_lowercase().starts_with(&wanted))?;
        Some(line[wanted.len()..].trim().to_owned())
    }

    pub(crate) fn json(&self) -> serde_json::Value {
        serde_json::from_str(&self.body).unwrap()
    }

    /// The JSON-RPC method; empty for anything else.
    pub(crate) fn method(&self) -> String {
        serde_json::from_str::<serde_json::Value>(&self.body)
            .ok()
            .and_then(|b| b["method"].as_str().map(str::to_owned))
            .unwrap_or_default()
    }
}

/// The action of the stub for a request.
pub(crate) enum StubAction {
    /// Answer with a status, headers and a body.
    Answer(u16, String, String),
    /// Answer a JSON-RPC request with a result.
    Result(String),
    /// Answer it with an error.
    Error(i64, &'static str),
    /// Begin a stream with these bytes, and then end it like this.
    Stream(Vec<String>, StreamEnd),
    /// Close the connection without an answer.
    HangUp,
}

/// How a stream ends after its bytes.
pub(crate) enum StreamEnd {
    /// The body ends properly.
    End,
    /// The connection breaks.
    Break,
    /// The stream stays open and silent.
    Silence,
}

pub(crate) struct StubServer {
    pub(crate) url: String,
    requests: Arc<Mutex<Vec<RecordedRequest>>>,
}

impl StubServer {
    /// Starts a server. Cards are served by `card`, everything else by `script`, which gets the number of the request.
    pub(crate) async fn start(
        card: impl Fn(&str) -> String + Send + Sync + 'static,
        script: impl Fn(usize, &RecordedRequest) -> StubAction + Send + Sync + 'static,
    ) -> Self {
        let listener = TcpListener::bind("127.0.0.1:0").await.unwrap();
        let url = format!("http://{}", listener.local_addr().unwrap());
        let heard: Arc<Mutex<Vec<RecordedRequest>>> = Arc::default();
        let (card, script) = (Arc::new(card), Arc::new(script));
        let (base, log) = (url.clone(), heard.clone());
        tokio::spawn(async move {
            while let Ok((socket, _)) = listener.accept().await {
                let (card, script, base, log) = (card.clone(), script.clone(), base.clone(), log.clone());
                tokio::spawn(async move { serve(socket, &*card, &*script, &base, &log).await });
            }
        });
        Self { url, requests: heard }
    }

    /// A server without a card at the well-known path: the script answers every request.
    pub(crate) async fn bare(script: impl Fn(usize, &RecordedRequest) -> StubAction + Send + Sync + 'static) -> Self {
        Self::start(|_| String::new(), script).await
    }

    /// A 1.0 agent over JSON-RPC that supports streams.
    pub(crate) async fn agent(script: impl Fn(usize, &RecordedRequest) -> StubAction + Send + Sync + 'static) -> Self {
        Self::start(|base| card(base, r#"{"streaming":true,"pushNotifications":true}"#, ""), script).await
    }

    /// The requests to the agent, without those for cards.
    pub(crate) fn calls(&self) -> Vec<RecordedRequest> {
        self.requests().into_iter().filter(|h| !h.line.contains("/.well-known/")).collect()
    }

    pub(crate) fn requests(&self) -> Vec<RecordedRequest> {
        self.requests.lock().unwrap().clone()
    }

    pub(crate) async fn connect(&self) -> Agent {
        client().build().unwrap().connect(&self.url.parse().unwrap()).await.unwrap()
    }
}

/// A client for tests, which may call this machine.
pub(crate) fn client() -> ClientBuilder {
    Client::builder().egress(Egress::public().and_loopback())
}

/// A card of a JSON-RPC agent at `/rpc`.
pub(crate) fn card(base: &str, capabilities: &str, more: &str) -> String {
    format!(
        r#"{{"name":"stub","description":"d","version":"1","capabilities":{capabilities},"defaultInputModes":["text/plain"],
        "defaultOutputModes":["text/plain"],"skills":[],
        "supportedInterfaces":[{{"url":"{base}/rpc","protocolBinding":"JSONRPC","protocolVersion":"1.0"}}]{more}}}"#
    )
}

/// The JSON of a task in some state.
pub(crate) fn task(state: &str) -> String {
    format!(r#"{{"id":"t-1","contextId":"c-1","status":{{"state":"TASK_STATE_{state}"}}}}"#)
}

/// The JSON of a status update to a state.
pub(crate) fn status(state: &str) -> String {
    format!(r#"{{"statusUpdate":{{"taskId":"t-1","contextId":"c-1","status":{{"state":"TASK_STATE_{state}"}}}}}}"#)
}

/// The JSON of an artifact update with a text.
pub(crate) fn chunk(text: &str) -> String {
    format!(
        r#"{{"artifactUpdate":{{"taskId":"t-1","contextId":"c-1","append":true,"artifact":{{"artifactId":"a","parts":[{{"text":"{text}"}}]}}}}}}"#
    )
}

async fn serve(
    mut socket: TcpStream,
    card: &(dyn Fn(&str) -> String + Send + Sync),
    script: &(dyn Fn(usize, &RecordedRequest) -> StubAction + Send + Sync),
    base: &str,
    log: &Mutex<Vec<RecordedRequest>>,
) {
    while let Some(heard) = read(&mut socket).await {
        let number = {
            let mut log = log.lock().unwrap();
            let number = log.iter().filter(|h| !h.line.contains("/.well-known/")).count();
            log.push(heard.clone());
            number
        };
        let card = Some(card(base)).filter(|card| !card.is_empty());
        let action = match card.filter(|_| heard.line.contains("/.well-known/agent-card.json")) {
            Some(card) => StubAction::Answer(200, "content-type: application/json\r\n".into(), card),
            None => script(number, &heard),
        };
        if !act(&mut socket, action, &heard).await {
            return;
        }
    }
}

async fn read(socket: &mut TcpStream) -> Option<RecordedRequest> {
    let mut bytes = Vec::new();
    let end = loop {
        if let Some(at) = bytes.windows(4).position(|w| w == b"\r\n\r\n") {
            break at;
        }
        let mut piece = [0; 4096];
        match socket.read(&mut piece).await {
            Ok(n) if n > 0 => bytes.extend_from_slice(&piece[..n]),
            _ => return None,
        }
    };
    let head = String::from_utf8_lossy(&bytes[..end]).into_owned();
    let length = head
        .lines()
        .find_map(|l| {
            l.to_ascii_lowercase().strip_prefix("content-length:").map(|v| v.trim().parse::<usize>().unwrap())
        })
        .unwrap_or(0);
    let mut body = bytes[end + 4..].to_vec();
    while body.len() < length {
        let mut piece = [0; 4096];
        match socket.read(&mut piece).await {
            Ok(n) if n > 0 => body.extend_from_slice(&piece[..n]),
            _ => return None,
        }
    }
    let line = head.lines().next().unwrap_or_default().to_owned();
    Some(RecordedRequest { line, head, body: String::from_utf8_lossy(&body).into_owned() })
}

/// Performs an action; returns whether the connection stays usable.
async fn act(socket: &mut TcpStream, action: StubAction, heard: &RecordedRequest) -> bool {
    let id = || heard.json()["id"].clone();
    let (status, headers, body) = match action {
        StubAction::HangUp => return false,
        StubAction::Answer(status, headers, body) => (status, headers, body),
        StubAction::Result(result) => (
            200,
            "content-type: application/json\r\n".into(),
            format!(r#"{{"jsonrpc":"2.0","id":{},"result":{result}}}"#, id()),
        ),
        StubAction::Error(code, message) => (
            200,
            "content-type: application/json\r\n".into(),
            format!(r#"{{"jsonrpc":"2.0","id":{},"error":{{"code":{code},"message":"{message}"}}}}"#, id()),
        ),
        StubAction::Stream(frames, after) => {
            let mut out =
                "HTTP/1.1 200 OK\r\ncontent-type: text/event-stream\r\ntransfer-encoding: chunked\r\n\r\n".to_owned();
            for frame in frames {
                let frame = frame.replace("$ID", &id().to_string());
                out += &format!("{:x}\r\n{frame}\r\n", frame.len());
            }
            if matches!(after, StreamEnd::End) {
                out += "0\r\n\r\n";
            }
            let _ = socket.write_all(out.as_bytes()).await;
            match after {
                StreamEnd::End => return true,
                StreamEnd::Break => return false,
                // Until the client closes the connection.
                StreamEnd::Silence => drop(socket.read(&mut [0]).await),
            }
            return false;
        }
    };
    let text = format!("HTTP/1.1 {status} X\r\ncontent-length: {}\r\n{headers}\r\n{body}", body.len());
    socket.write_all(text.as_bytes()).await.is_ok()
}

/// A frame of a JSON-RPC stream, with or without a number.
pub(crate) fn frame(number: Option<u32>, result: &str) -> String {
    let id = number.map(|n| format!("id: {n}\n")).unwrap_or_default();
    format!("{id}data: {{\"jsonrpc\":\"2.0\",\"id\":$ID,\"result\":{result}}}\n\n")
}

/// An observer that records what it receives.
#[derive(Default)]
pub(crate) struct RecordedObservations(pub(crate) Mutex<Vec<String>>);

impl Observer for RecordedObservations {
    fn observe(&self, note: &Observation<'_>) {
        self.0.lock().unwrap().push(format!("{note:?}"));
    }
}
