//! A webhook on this machine: listens, keeps the heads of the requests, and answers each with 200.

use sabir_client::message_id;
use std::net::SocketAddr;
use std::sync::{Arc, Mutex, PoisonError};
use tokio::io::{AsyncReadExt, AsyncWriteExt};
use tokio::net::{TcpListener, TcpStream};
use tokio::task::JoinSet;

/// The longest request that is read; what matters stands in its head.
const REQUEST_BYTES_MAX: usize = 1 << 20;
/// How many requests are remembered.
const REMEMBERED_MAX: usize = 64;
const RESPONSE: &[u8] = b"HTTP/1.1 200 OK\r\nContent-Length: 0\r\nConnection: close\r\n\r\n";

/// Listens until it is dropped.
pub(super) struct WebhookReceiver {
    address: SocketAddr,
    path: String,
    arrived: Arc<Mutex<Vec<String>>>,
    /// The listening task and its readers, which end when this is dropped.
    _listening: JoinSet<()>,
}

impl WebhookReceiver {
    /// Listens at a free port and a random path.
    pub(super) async fn open() -> std::io::Result<Self> {
        let listener = TcpListener::bind(("127.0.0.1", 0)).await?;
        let address = listener.local_addr()?;
        let path = format!("/{}", message_id());
        let arrived = Arc::new(Mutex::new(Vec::new()));
        let mut listening = JoinSet::new();
        listening.spawn(listen(listener, format!("POST {path} "), arrived.clone()));
        Ok(Self { address, path, arrived, _listening: listening })
    }

    /// The URL of the webhook.
    pub(super) fn url(&self) -> String {
        format!("http://{}{}", self.address, self.path)
    }

    /// The head of the first delivery, if there was one.
    pub(super) fn first_delivery(&self) -> Option<String> {
        self.arrived.lock().unwrap_or_else(PoisonError::into_inner).first().cloned()
    }
}

async fn listen(listener: TcpListener, wanted: String, arrived: Arc<Mutex<Vec<String>>>) {
    let mut reading = JoinSet::new();
    while let Ok((stream, _)) = listener.accept().await {
        let (wanted, arrived) = (wanted.clone(), arrived.clone());
        reading.spawn(async move {
            // A sender that hangs up has delivered nothing.
            let Ok(head) = receive(stream).await else { return };
            let mut arrived = arrived.lock().unwrap_or_else(PoisonError::into_inner);
            if head.starts_with(&wanted) && arrived.len() < REMEMBERED_MAX {
                arrived.push(head);
            }
        });
        while reading.try_join_next().is_some() {}
    }
}

/// Reads one request and answers it. Gives its head.
async fn receive(mut stream: TcpStream) -> std::io::Result<String> {
    let mut bytes = Vec::new();
    let head = loop {
        if let Some(end) = bytes.windows(4).position(|four| four == b"\r\n\r\n") {
            break end + 4;
        }
        if bytes.len() > REQUEST_BYTES_MAX || stream.read_buf(&mut bytes).await? == 0 {
            return Err(std::io::ErrorKind::InvalidData.into());
        }
    };
    let text = String::from_utf8_lossy(&bytes[..head]).into_owned();
    let length: usize = header(&text, "content-length").and_then(|value| value.parse().ok()).unwrap_or(0);
    while bytes.len() < (head + length).min(REQUEST_BYTES_MAX) && stream.read_buf(&mut bytes).await? > 0 {}
    stream.write_all(RESPONSE).await?;
    stream.shutdown().await?;
    Ok(text)
}

/// A header of a request.
pub(super) fn header<'a>(head: &'a str, name: &str) -> Option<&'a str> {
    let mut lines = head.lines().skip(1).filter_map(|line| line.split_once(':'));
    lines.find(|(found, _)| found.trim().eq_ignore_ascii_case(name)).map(|(_, value)| value.trim())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[tokio::test]
    async fn a_delivery_is_remembered_and_others_are_not() {
        let receiver = WebhookReceiver::open().await.unwrap();
        for path in ["/elsewhere", &receiver.path] {
            let mut stream = TcpStream::connect(receiver.address).await.unwrap();
            let request = format!("POST {path} HTTP/1.1\r\nX-Token: t\r\nContent-Length: 2\r\n\r\n{{}}");
            stream.write_all(request.as_bytes()).await.unwrap();
            let mut answer = String::new();
            stream.read_to_string(&mut answer).await.unwrap();
            assert!(answer.starts_with("HTTP/1.1 200"), "{answer}");
        }
        let head = receiver.first_delivery().unwrap();
        assert!(head.starts_with(&format!("POST {} ", receiver.path)));
        assert_eq!(header(&head, "x-token"), Some("t"));
        assert_eq!(header(&head, "x-other"), None);
    }
}
