//! An agent that misbehaves as a test wants, on a bare socket, and a directory to run commands against it.

use crate::http_client::TEST_TIMEOUT;
use serde_json::{Value, json};
use std::fs::File;
use std::io::{BufRead, BufReader, Read, Write};
use std::net::{SocketAddr, TcpListener, TcpStream};
use std::process::{Child, Command, Stdio};
use std::sync::Arc;
use std::thread;
use std::time::{Duration, Instant};
use tempfile::TempDir;

/// The answer of the agent.
pub(crate) enum AgentResponse {
    /// A whole answer: status, media type, body.
    Http(u16, &'static str, Vec<u8>),
    /// An answer to a JSON-RPC call.
    Result(Value),
    /// The frames of a stream, after which the connection stays open in silence or is cut.
    Stream(Vec<Value>, StreamEnding),
}

/// What follows the last frame of a stream.
#[derive(Clone, Copy, PartialEq, Eq)]
pub(crate) enum StreamEnding {
    Silence,
    Cut,
    /// Half a frame, then the end.
    Half,
}

/// A request, as far as these tests look at it.
pub(crate) struct RpcRequest {
    pub(crate) path: String,
    /// The JSON-RPC method; empty for anything else.
    pub(crate) method: String,
    pub(crate) params: Value,
    id: Value,
}

/// A server whose answers a function makes.
pub(crate) struct FaultyAgent {
    pub(crate) address: SocketAddr,
}

impl FaultyAgent {
    pub(crate) fn start(answer: impl Fn(&RpcRequest, SocketAddr) -> AgentResponse + Send + Sync + 'static) -> Self {
        let listener = TcpListener::bind("127.0.0.1:0").unwrap();
        let address = listener.local_addr().unwrap();
        let answer = Arc::new(answer);
        thread::spawn(move || {
            for stream in listener.incoming().map_while(Result::ok) {
                let answer = answer.clone();
                thread::spawn(move || serve(stream, &*answer, address));
            }
        });
        Self { address }
    }

    /// Starts an agent with a good card, which streams or not; a function answers its calls.
    pub(crate) fn agent(streaming: bool, call: impl Fn(&RpcRequest) -> AgentResponse + Send + Sync + 'static) -> Self {
        Self::start(move |asked, address| match asked.method.as_str() {
            "" => AgentResponse::Http(
                200,
                "application/json",
                card(&format!("http://{address}/rpc"), streaming).to_string().into_bytes(),
            ),
            _ => call(asked),
        })
    }

    pub(crate) fn url(&self) -> String {
        format!("http://{}", self.address)
    }
}

/// A card that nothing is wrong with.
pub(crate) fn card(url: &str, streaming: bool) -> Value {
    json!({
        "name": "Rogue", "description": "An agent for tests", "version": "1",
        "capabilities": {"streaming": streaming},
        "supportedInterfaces": [{"url": url, "protocolBinding": "JSONRPC", "protocolVersion": "1.0"}],
        "defaultInputModes": ["text/plain"], "defaultOutputModes": ["text/plain"],
        "skills": [{"id": "s", "name": "s", "description": "d", "tags": ["t"]}],
    })
}

pub(crate) fn task(state: &str) -> Value {
    json!({"id": "t-1", "contextId": "c-1", "status": {"state": state}})
}

fn serve(mut stream: TcpStream, answer: &dyn Fn(&RpcRequest, SocketAddr) -> AgentResponse, address: SocketAddr) {
    stream.set_read_timeout(Some(TEST_TIMEOUT)).unwrap();
    let mut reader = BufReader::new(stream.try_clone().unwrap());
    while let Some(asked) = read_request(&mut reader) {
        let wrote = match answer(&asked, address) {
            AgentResponse::Http(status, media, body) => write_response(&mut stream, status, media, &body),
            AgentResponse::Result(result) => {
                let body = json!({"jsonrpc": "2.0", "id": asked.id, "result": result}).to_string();
                write_response(&mut stream, 200, "application/json", body.as_bytes())
            }
            AgentResponse::Stream(frames, after) => {
                let head = "HTTP/1.1 200 OK\r\nContent-Type: text/event-stream\r\nConnection: close\r\n\r\n";
                let mut wrote = stream.write_all(head.as_bytes());
                for frame in frames {
                    let frame = json!({"jsonrpc": "2.0", "id": asked.id, "result": frame});
                    wrote = wrote.and_then(|()| stream.write_all(format!("data: {frame}\n\n").as_bytes()));
                }
                if after == StreamEnding::Half {
                    wrote = wrote.and_then(|()| stream.write_all(b"data: {\"jsonrpc\":\"2.0\",\"res"));
                }
                if after == StreamEnding::Silence && wrote.is_ok() {
                    // Until the other side gives up.
                    _ = reader.read(&mut [0; 16]);
                }
                return;
            }
        };
        if wrote.is_err() {
            return;
        }
    }
}

fn write_response(stream: &mut TcpStream, status: u16, media: &str, body: &[u8]) -> std::io::Result<()> {
    let head = format!("HTTP/1.1 {status} X\r\nContent-Type: {media}\r\nContent-Length: {}\r\n\r\n", body.len());
    stream.write_all(head.as_bytes()).and_then(|()| stream.write_all(body))
}

fn read_request(reader: &mut BufReader<TcpStream>) -> Option<RpcRequest> {
    let mut lines = Vec::new();
    loop {
        let mut line = String::new();
        if reader.read_line(&mut line).ok()? == 0 {
            return None;
        }
        if line == "\r\n" {
            break;
        }
        lines.push(line);
    }
    let path = lines.first()?.split(' ').nth(1)?.to_owned();
    let length =
        lines.iter().find_map(|line| line.to_ascii_lowercase().strip_prefix("content-length:")?.trim().parse().ok());
    let mut body = vec![0; length.unwrap_or(0)];
    reader.read_exact(&mut body).ok()?;
    let body: Value = serde_json::from_slice(&body).unwrap_or_default();
    let method = body["method"].as_str().unwrap_or_default().to_owned();
    Some(RpcRequest { path, method, params: body["params"].clone(), id: body["id"].clone() })
}

/// The result of a command.
pub(crate) struct TimedCommandOutput {
    pub(crate) code: Option<i32>,
    pub(crate) out: String,
    pub(crate) err: String,
    pub(crate) elapsed: Duration,
}

impl TimedCommandOutput {
    /// The envelope on standard output.
    #[track_caller]
    pub(crate) fn error(&self) -> Value {
        let last = self.out.lines().last().unwrap_or_default();
        let value: Value = serde_json::from_str(last).unwrap_or_else(|e| panic!("{e}: {:?} {:?}", self.out, self.err));
        value["error"].clone()
    }

    /// Ended with this code of the envelope and this exit code, with a hint.
    #[track_caller]
    pub(crate) fn expect_failure(&self, code: &str, exit: i32) -> Value {
        let error = self.error();
        assert_eq!((error["code"].as_str(), self.code), (Some(code), Some(exit)), "{} {}", self.out, self.err);
        assert!(error["hint"].as_str().is_some_and(|hint| !hint.is_empty()), "there is always a next step: {error}");
        assert!(!self.err.contains("panicked"), "{}", self.err);
        error
    }
}

/// An empty directory to run commands in, with nothing configured.
pub(crate) struct EmptyDirectory {
    pub(crate) directory: TempDir,
}

impl EmptyDirectory {
    pub(crate) fn new() -> Self {
        Self { directory: TempDir::with_prefix("sabir-cli-").unwrap() }
    }

    pub(crate) fn command(&self, arguments: &[&str]) -> Command {
        let mut command = Command::new(env!("CARGO_BIN_EXE_sabir"));
        command.args(arguments).env_clear().env("HOME", self.directory.path()).current_dir(self.directory.path());
        command.stdin(Stdio::null()).stdout(Stdio::piped()).stderr(Stdio::piped());
        command
    }

    /// Runs a command to its end, which has to come soon.
    #[track_caller]
    pub(crate) fn run(&self, arguments: &[&str]) -> TimedCommandOutput {
        wait_for_exit(self.command(arguments).spawn().unwrap())
    }

    pub(crate) fn file(&self, name: &str) -> File {
        File::create(self.directory.path().join(name)).unwrap()
    }
}

#[track_caller]
pub(crate) fn wait_for_exit(child: Child) -> TimedCommandOutput {
    let begun = Instant::now();
    let id = child.id();
    let (sender, receiver) = std::sync::mpsc::channel();
    thread::spawn(move || sender.send(child.wait_with_output()));
    let Ok(output) = receiver.recv_timeout(TEST_TIMEOUT) else {
        _ = Command::new("kill").args(["-KILL", &id.to_string()]).status();
        panic!("it hangs");
    };
    let output = output.unwrap();
    let text = |bytes: Vec<u8>| String::from_utf8(bytes).unwrap();
    TimedCommandOutput {
        code: output.status.code(),
        out: text(output.stdout),
        err: text(output.stderr),
        elapsed: begun.elapsed(),
    }
}
