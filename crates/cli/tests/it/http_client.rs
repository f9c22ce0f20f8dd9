//! An HTTP/1.1 client on a bare socket, with or without TLS: most of what these tests send, a client library would
//! refuse to send.

use rustls::{ClientConfig, ClientConnection, StreamOwned};
use serde_json::Value;
use std::io::{ErrorKind, Read, Write};
use std::net::{Shutdown, SocketAddr, TcpStream};
use std::sync::Arc;
use std::time::Duration;

/// Far longer than anything here takes: a test that reaches it has found a hang.
pub(crate) const TEST_TIMEOUT: Duration = Duration::from_secs(60);

/// A request. `Host` and `Content-Length` are added unless they were set, or taken out.
#[derive(Clone)]
pub(crate) struct Request {
    method: String,
    path: String,
    headers: Vec<(String, Option<Vec<u8>>)>,
    body: Vec<u8>,
}

impl Request {
    pub(crate) fn new(method: &str, path: &str) -> Self {
        let version = ("A2A-Version".to_owned(), Some(b"1.0".to_vec()));
        Self { method: method.into(), path: path.into(), headers: vec![version], body: Vec::new() }
    }

    pub(crate) fn get(path: &str) -> Self {
        Self::new("GET", path)
    }

    pub(crate) fn post(path: &str, body: impl Into<Vec<u8>>) -> Self {
        Self { body: body.into(), ..Self::new("POST", path) }.with("Content-Type", "application/json")
    }

    /// The same body with the method PUT.
    pub(crate) fn put(path: &str, body: impl Into<Vec<u8>>) -> Self {
        Self { method: "PUT".into(), ..Self::post(path, body) }
    }

    /// Sets a header, replacing what it was.
    pub(crate) fn with(mut self, name: &str, value: impl Into<Vec<u8>>) -> Self {
        self = self.without(name);
        self.headers.retain(|(n, _)| !n.eq_ignore_ascii_case(name));
        self.headers.push((name.into(), Some(value.into())));
        self
    }

    /// Takes a header out, also one that would be added.
    pub(crate) fn without(mut self, name: &str) -> Self {
        self.headers.retain(|(n, _)| !n.eq_ignore_ascii_case(name));
        self.headers.push((name.into(), None));
        self
    }

    fn has_header(&self, name: &str) -> bool {
        self.headers.iter().any(|(n, _)| n.eq_ignore_ascii_case(name))
    }

    /// The head alone, blank line included.
    pub(crate) fn head(&self, to: SocketAddr) -> Vec<u8> {
        let mut out = format!("{} {} HTTP/1.1\r\n", self.method, self.path).into_bytes();
        if !self.has_header("Host") {
            out.extend_from_slice(format!("Host: {to}\r\n").as_bytes());
        }
        let has_body = !self.body.is_empty() || self.method == "POST";
        if has_body && !self.has_header("Content-Length") && !self.has_header("Transfer-Encoding") {
            out.extend_from_slice(format!("Content-Length: {}\r\n", self.body.len()).as_bytes());
        }
        for (name, value) in &self.headers {
            if let Some(value) = value {
                out.extend_from_slice(name.as_bytes());
                out.extend_from_slice(b": ");
                out.extend_from_slice(value);
                out.extend_from_slice(b"\r\n");
            }
        }
        out.extend_from_slice(b"\r\n");
        out
    }

    pub(crate) fn bytes(&self, to: SocketAddr) -> Vec<u8> {
        let mut out = self.head(to);
        out.extend_from_slice(&self.body);
        out
    }
}

/// A reply, with its body unless that is a stream.
#[derive(Debug)]
pub(crate) struct HttpResponse {
    pub(crate) status: u16,
    pub(crate) headers: Vec<(String, String)>,
    pub(crate) body: Vec<u8>,
}

impl HttpResponse {
    pub(crate) fn header(&self, name: &str) -> Option<&str> {
        self.headers.iter().find(|(n, _)| n.eq_ignore_ascii_case(name)).map(|(_, v)| &**v)
    }

    pub(crate) fn text(&self) -> String {
        String::from_utf8_lossy(&self.body).into_owned()
    }

    #[track_caller]
    pub(crate) fn json(&self) -> Value {
        match serde_json::from_slice(&self.body) {
            Ok(value) => value,
            Err(e) => panic!("status {}, a body that is not JSON ({e}): {}", self.status, self.text()),
        }
    }
}

/// The socket of a connection, with or without TLS.
enum HttpSocket {
    Tcp(TcpStream),
    Tls(Box<StreamOwned<ClientConnection, TcpStream>>),
}

impl HttpSocket {
    fn socket(&self) -> &TcpStream {
        match self {
            Self::Tcp(socket) => socket,
            Self::Tls(secured) => &secured.sock,
        }
    }
}

impl Read for HttpSocket {
    fn read(&mut self, buffer: &mut [u8]) -> std::io::Result<usize> {
        match self {
            Self::Tcp(socket) => socket.read(buffer),
            Self::Tls(secured) => secured.read(buffer),
        }
    }
}

impl Write for HttpSocket {
    fn write(&mut self, bytes: &[u8]) -> std::io::Result<usize> {
        match self {
            Self::Tcp(socket) => socket.write(bytes),
            Self::Tls(secured) => secured.write(bytes),
        }
    }

    fn flush(&mut self) -> std::io::Result<()> {
        match self {
            Self::Tcp(socket) => socket.flush(),
            Self::Tls(secured) => secured.flush(),
        }
    }
}

/// A connection to a server under test.
pub(crate) struct HttpConnection {
    stream: HttpSocket,
    to: SocketAddr,
    read: Vec<u8>,
    head_only: bool,
}

impl HttpConnection {
    pub(crate) fn open(to: SocketAddr) -> Self {
        Self::over(TcpStream::connect_timeout(&to, TEST_TIMEOUT).unwrap(), to)
    }

    /// A connection from another address of this machine, such as 127.0.0.9.
    pub(crate) fn open_from(address: &str, to: SocketAddr) -> Self {
        let connect = async {
            let socket = tokio::net::TcpSocket::new_v4().unwrap();
            socket.bind(SocketAddr::new(address.parse().unwrap(), 0)).unwrap();
            socket.connect(to).await.unwrap().into_std().unwrap()
        };
        let stream = tokio::runtime::Builder::new_current_thread().enable_io().build().unwrap().block_on(connect);
        stream.set_nonblocking(false).unwrap();
        Self::over(stream, to)
    }

    fn over(stream: TcpStream, to: SocketAddr) -> Self {
        stream.set_read_timeout(Some(TEST_TIMEOUT)).unwrap();
        stream.set_write_timeout(Some(TEST_TIMEOUT)).unwrap();
        stream.set_nodelay(true).unwrap();
        Self { stream: HttpSocket::Tcp(stream), to, read: Vec::new(), head_only: false }
    }

    /// Opens a connection inside of TLS, and completes the handshake.
    pub(crate) fn open_tls(to: SocketAddr, config: Arc<ClientConfig>) -> std::io::Result<Self> {
        let plain = Self::open(to);
        let HttpSocket::Tcp(mut socket) = plain.stream else { unreachable!("it was opened as one") };
        let session = ClientConnection::new(config, to.ip().into()).map_err(std::io::Error::other)?;
        let mut session = Box::new(StreamOwned::new(session, socket.try_clone()?));
        while session.conn.is_handshaking() {
            session.conn.complete_io(&mut socket)?;
        }
        Ok(Self { stream: HttpSocket::Tls(session), to, read: Vec::new(), head_only: false })
    }

    /// The TLS session, with what was agreed on in the handshake.
    pub(crate) fn session(&self) -> &ClientConnection {
        match &self.stream {
            HttpSocket::Tls(secured) => &secured.conn,
            HttpSocket::Tcp(_) => panic!("this connection is not secured"),
        }
    }

    /// The first byte, or why there is none.
    pub(crate) fn try_byte(&mut self) -> std::io::Result<Option<u8>> {
        let mut byte = [0];
        Ok((self.stream.read(&mut byte)? == 1).then_some(byte[0]))
    }

    pub(crate) fn write(&mut self, bytes: &[u8]) {
        self.stream.write_all(bytes).unwrap();
    }

    /// For bodies that the server is right not to take: it may have answered and closed before the last byte.
    pub(crate) fn try_write(&mut self, bytes: &[u8]) -> std::io::Result<()> {
        self.stream.write_all(bytes)
    }

    pub(crate) fn send(&mut self, request: &Request) {
        self.head_only = request.method == "HEAD";
        let bytes = request.bytes(self.to);
        // The server may refuse the head alone and close; its answer is read all the same.
        let _ = self.try_write(&bytes);
    }

    /// No more requests on this connection, but the answer is still wanted.
    pub(crate) fn half_close(&self) {
        match self.stream.socket().shutdown(Shutdown::Write) {
            // The other side was faster and has hung up already.
            Err(e) if e.kind() == ErrorKind::NotConnected => {}
            outcome => outcome.unwrap(),
        }
    }

    /// Whether the server sends nothing for this long.
    pub(crate) fn is_quiet_for(&mut self, time: Duration) -> bool {
        self.stream.socket().set_read_timeout(Some(time)).unwrap();
        let outcome = self.stream.read(&mut [0; 1]);
        self.stream.socket().set_read_timeout(Some(TEST_TIMEOUT)).unwrap();
        matches!(outcome, Err(e) if matches!(e.kind(), ErrorKind::WouldBlock | ErrorKind::TimedOut))
    }

    /// Whether the connection ends, whatever comes before.
    pub(crate) fn ends(&mut self) -> bool {
        while self.read_more() {}
        true
    }

    /// Reads on; false at the end of the connection.
    fn read_more(&mut self) -> bool {
        let mut chunk = [0; 16 << 10];
        match self.stream.read(&mut chunk) {
            Ok(0) => false,
            Ok(n) => {
                self.read.extend_from_slice(&chunk[..n]);
                true
            }
            // Over TLS also without an alert at the end.
            Err(e) if matches!(e.kind(), ErrorKind::ConnectionReset | ErrorKind::UnexpectedEof) => false,
            Err(e) => panic!("nothing came for {TEST_TIMEOUT:?}: {e}"),
        }
    }

    /// Exactly so many bytes, or `None` if the connection ends before.
    pub(crate) fn take(&mut self, n: usize) -> Option<Vec<u8>> {
        while self.read.len() < n {
            if !self.read_more() {
                return None;
            }
        }
        let rest = self.read.split_off(n);
        Some(std::mem::replace(&mut self.read, rest))
    }

    fn line(&mut self) -> Option<String> {
        let mut from = 0;
        loop {
            if let Some(at) = self.read[from..].iter().position(|b| *b == b'\n') {
                let line = self.take(from + at + 1)?;
                return Some(String::from_utf8_lossy(&line).trim_end().to_owned());
            }
            from = self.read.len();
            if !self.read_more() {
                return None;
            }
        }
    }

    /// Status line and headers; `None` if the connection ends instead.
    pub(crate) fn read_head(&mut self) -> Option<HttpResponse> {
        let status = self.line()?;
        let status =
            status.split(' ').nth(1).and_then(|s| s.parse().ok()).unwrap_or_else(|| panic!("not HTTP: {status}"));
        let mut headers = Vec::new();
        loop {
            let line = self.line()?;
            match line.split_once(':') {
                Some((name, value)) => headers.push((name.to_owned(), value.trim().to_owned())),
                None => return Some(HttpResponse { status, headers, body: Vec::new() }),
            }
        }
    }

    /// The whole reply; `None` if the connection ends instead.
    pub(crate) fn try_response(&mut self) -> Option<HttpResponse> {
        let mut reply = self.read_head()?;
        if self.head_only || matches!(reply.status, 100 | 204 | 304) {
            return Some(reply);
        }
        if let Some(length) = reply.header("Content-Length") {
            let length = length.parse().unwrap();
            reply.body = self.take(length)?;
        } else if reply.header("Transfer-Encoding").is_some() {
            while let Some(chunk) = self.chunk()?.filter(|c| !c.is_empty()) {
                reply.body.extend_from_slice(&chunk);
            }
        } else {
            while self.read_more() {}
            reply.body = std::mem::take(&mut self.read);
        }
        Some(reply)
    }

    #[track_caller]
    pub(crate) fn response(&mut self) -> HttpResponse {
        self.try_response().expect("the connection ended before the reply")
    }

    /// The next chunk; `Some(None)` is the proper end, `None` a connection that broke off.
    fn chunk(&mut self) -> Option<Option<Vec<u8>>> {
        let size = self.line()?;
        let size = usize::from_str_radix(&size, 16).unwrap_or_else(|_| panic!("not a chunk size: {size}"));
        let chunk = self.take(size)?;
        self.line()?;
        Some((size > 0).then_some(chunk))
    }

    /// The reply as a stream of events; `None` if it is something else.
    pub(crate) fn try_event_stream(mut self) -> Option<EventStream> {
        let head = self.read_head()?;
        let is_stream = head.status == 200 && head.header("Content-Type") == Some("text/event-stream");
        // A stream of one error is known in full, so it may have a length.
        let length = head.header("Content-Length").map(|n| n.parse().unwrap());
        let text = match length {
            Some(length) if is_stream => self.take(length)?,
            _ => Vec::new(),
        };
        let ended = length.is_some();
        is_stream.then(|| EventStream { wire: self, head, text, comments: 0, broken: false, ended })
    }
}

/// One event of a stream.
#[derive(Debug, Clone)]
pub(crate) struct SseEvent {
    pub(crate) id: Option<u64>,
    pub(crate) name: Option<String>,
    pub(crate) data: Value,
}

/// An event stream being read.
pub(crate) struct EventStream {
    wire: HttpConnection,
    pub(crate) head: HttpResponse,
    text: Vec<u8>,
    /// Comments seen so far.
    pub(crate) comments: usize,
    /// Whether the stream broke off instead of ending.
    pub(crate) broken: bool,
    ended: bool,
}

impl EventStream {
    /// The next event or comment (`Err`); `None` at the end.
    pub(crate) fn next_any(&mut self) -> Option<Result<SseEvent, String>> {
        let mut from = 0;
        loop {
            // A comment is one line; a blank one after it would be an event with nothing in it to some readers.
            assert_ne!(self.text.first(), Some(&b'\n'), "an event with nothing in it");
            let line = self.text.iter().position(|b| *b == b'\n').filter(|_| self.text[0] == b':');
            if let Some(at) = line {
                let rest = self.text.split_off(at + 1);
                let comment = std::mem::replace(&mut self.text, rest);
                self.comments += 1;
                return Some(Err(String::from_utf8_lossy(&comment[1..]).trim().to_owned()));
            }
            let blank = self.text[from..].windows(2).position(|w| w == b"\n\n");
            if let Some(at) = blank {
                let rest = self.text.split_off(from + at + 2);
                let block = std::mem::replace(&mut self.text, rest);
                return Some(Ok(Self::parse(&String::from_utf8(block).expect("events are UTF-8"))));
            }
            from = self.text.len().saturating_sub(1);
            if self.ended {
                assert!(self.text.is_empty() || self.broken, "half an event: {}", String::from_utf8_lossy(&self.text));
                return None;
            }
            match self.wire.chunk() {
                Some(Some(chunk)) => self.text.extend_from_slice(&chunk),
                Some(None) => self.ended = true,
                None => (self.ended, self.broken) = (true, true),
            }
        }
    }

    fn parse(block: &str) -> SseEvent {
        let mut frame = SseEvent { id: None, name: None, data: Value::Null };
        let mut data = String::new();
        for line in block.trim_end_matches('\n').split('\n') {
            match line.split_once(": ").unwrap_or((line, "")) {
                ("id", id) => frame.id = Some(id.parse().expect("an id is a number")),
                ("event", name) => frame.name = Some(name.to_owned()),
                ("data", text) => data.push_str(text),
                (other, _) => panic!("an unknown line in a stream: {other}"),
            }
        }
        frame.data = serde_json::from_str(&data).unwrap_or_else(|e| panic!("data that is not JSON ({e}): {data}"));
        frame
    }

    /// The next event; `None` at the end.
    pub(crate) fn next(&mut self) -> Option<SseEvent> {
        loop {
            if let Ok(frame) = self.next_any()? {
                return Some(frame);
            }
        }
    }

    /// Everything up to the end.
    pub(crate) fn rest(&mut self) -> Vec<SseEvent> {
        std::iter::from_fn(|| self.next()).collect()
    }
}
