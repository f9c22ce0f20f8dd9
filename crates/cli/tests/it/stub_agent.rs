//! An agent whose answers are made by the test.

use serde_json::Value;
use std::io::{BufRead, BufReader, Read, Write};
use std::net::{TcpListener, TcpStream};
use std::sync::Arc;
use std::thread;

/// A request that the stub received.
pub(crate) struct StubRequest {
    pub(crate) path: String,
    /// Names in lower case.
    pub(crate) headers: Vec<(String, String)>,
    pub(crate) body: String,
}

impl StubRequest {
    pub(crate) fn header(&self, name: &str) -> Option<&str> {
        self.headers.iter().find(|(known, _)| known == name).map(|(_, value)| value.as_str())
    }

    pub(crate) fn json(&self) -> Value {
        serde_json::from_str(&self.body).unwrap_or_default()
    }
}

/// An answer: a status, a media type, a body.
pub(crate) type StubResponse = (u16, &'static str, String);

/// Serves on threads of its own for as long as the test process lives, and returns the URL.
pub(crate) fn serve(answer: impl Fn(&StubRequest) -> StubResponse + Send + Sync + 'static) -> String {
    serve_at(TcpListener::bind("127.0.0.1:0").unwrap(), answer)
}

/// The same where a test has reserved an address for it.
pub(crate) fn serve_at(
    listener: TcpListener,
    answer: impl Fn(&StubRequest) -> StubResponse + Send + Sync + 'static,
) -> String {
    let url = format!("http://{}", listener.local_addr().unwrap());
    let answer = Arc::new(answer);
    thread::spawn(move || {
        for stream in listener.incoming().map_while(Result::ok) {
            let answer = answer.clone();
            // A client that hangs up gets no answer.
            thread::spawn(move || drop(handle_connection(stream, &*answer)));
        }
    });
    url
}

/// A card with one interface of JSON-RPC at the same place.
pub(crate) fn card(url: &str) -> String {
    serde_json::json!({
        "name": "Stub", "description": "Says what it is told to", "version": "1.0.0",
        "supportedInterfaces": [{"url": format!("{url}/rpc"), "protocolBinding": "JSONRPC", "protocolVersion": "1.0"}],
        "capabilities": {}, "defaultInputModes": ["text/plain"], "defaultOutputModes": ["text/plain"],
        "skills": [{"id": "s", "name": "s", "description": "s", "tags": ["s"]}]
    })
    .to_string()
}

/// Reads one request from a connection.
pub(crate) fn read_request(stream: &TcpStream) -> std::io::Result<StubRequest> {
    let mut reader = BufReader::new(stream.try_clone()?);
    let mut line = String::new();
    reader.read_line(&mut line)?;
    let path = line.split(' ').nth(1).unwrap_or_default().to_owned();
    let mut headers = Vec::new();
    loop {
        let mut line = String::new();
        reader.read_line(&mut line)?;
        match line.trim().split_once(':') {
            Some((name, value)) => headers.push((name.to_ascii_lowercase(), value.trim().to_owned())),
            None => break,
        }
    }
    let length = headers.iter().find(|(name, _)| name == "content-length").map_or(0, |(_, n)| n.parse().unwrap_or(0));
    let mut body = vec![0; length];
    reader.read_exact(&mut body)?;
    Ok(StubRequest { path, headers, body: String::from_utf8_lossy(&body).into_owned() })
}

fn handle_connection(stream: TcpStream, answer: &dyn Fn(&StubRequest) -> StubResponse) -> std::io::Result<()> {
    let asked = read_request(&stream)?;
    respond(stream, answer(&asked))
}

/// Answers a request and hangs up.
pub(crate) fn respond(mut stream: TcpStream, (status, media_type, body): StubResponse) -> std::io::Result<()> {
    let length = body.len();
    write!(
        stream,
        "HTTP/1.1 {status} X\r\ncontent-type: {media_type}\r\ncontent-length: {length}\r\nconnection: close\r\n\r\n{body}"
    )
}
