//! Servers on this machine, to be called.

use std::sync::{Arc, Mutex};
use std::time::Duration;
use tokio::io::{AsyncReadExt, AsyncWriteExt};
use tokio::net::{TcpListener, TcpStream};
use url::Url;

/// Answers each request as its script says, and remembers the request.
pub(crate) struct Server {
    pub(crate) url: Url,
    heard: Arc<Mutex<Vec<String>>>,
}

/// What is sent, and whether the connection is then left open.
pub(crate) enum ServerReply {
    All(String),
    AndWait(String),
    /// A byte now and then, for ever.
    Drip(String),
    /// As many bytes as the client takes.
    Flood(String),
}

impl Server {
    pub(crate) async fn start(script: impl Fn(&str) -> ServerReply + Send + Sync + 'static) -> Self {
        Self::start_at("127.0.0.1:0", script).await
    }

    pub(crate) async fn start_at(address: &str, script: impl Fn(&str) -> ServerReply + Send + Sync + 'static) -> Self {
        let listener = TcpListener::bind(address).await.unwrap();
        let url = Url::parse(&format!("http://{}/", listener.local_addr().unwrap())).unwrap();
        let heard: Arc<Mutex<Vec<String>>> = Arc::default();
        let (log, script) = (heard.clone(), Arc::new(script));
        tokio::spawn(async move {
            while let Ok((socket, _)) = listener.accept().await {
                let (log, script) = (log.clone(), script.clone());
                tokio::spawn(async move { serve(socket, &*script, &log).await });
            }
        });
        Self { url, heard }
    }

    pub(crate) fn requests(&self) -> Vec<String> {
        self.heard.lock().unwrap().clone()
    }
}

async fn serve(mut socket: TcpStream, script: &(dyn Fn(&str) -> ServerReply + Send + Sync), log: &Mutex<Vec<String>>) {
    // Requests here are small; each comes in one piece or two.
    let mut text = String::new();
    loop {
        let mut piece = [0; 4096];
        let Ok(n) = socket.read(&mut piece).await else { return };
        if n == 0 {
            return;
        }
        text += std::str::from_utf8(&piece[..n]).unwrap();
        let Some((head, body)) = text.split_once("\r\n\r\n") else { continue };
        let length = head.to_ascii_lowercase().lines().find_map(|l| l.strip_prefix("content-length: ")?.parse().ok());
        if body.len() >= length.unwrap_or(0) {
            break;
        }
    }
    log.lock().unwrap().push(text.clone());
    match script(&text) {
        ServerReply::All(answer) => socket.write_all(answer.as_bytes()).await.unwrap(),
        ServerReply::AndWait(answer) => {
            let _ = socket.write_all(answer.as_bytes()).await;
            // Until the client closes the connection.
            let _ = socket.read(&mut [0]).await;
        }
        ServerReply::Drip(answer) => {
            let _ = socket.write_all(answer.as_bytes()).await;
            // Slower than the limits of the tests allow, and often enough to notice soon that the client has left.
            while socket.write_all(b"x").await.is_ok() {
                tokio::time::sleep(Duration::from_millis(20)).await;
            }
        }
        ServerReply::Flood(answer) => {
            let _ = socket.write_all(answer.as_bytes()).await;
            let chunk = vec![b'x'; 1 << 20];
            while socket.write_all(&chunk).await.is_ok() {}
        }
    }
}

pub(crate) fn answer(status: u16, headers: &str, body: &str) -> String {
    format!("HTTP/1.1 {status} X\r\ncontent-length: {}\r\nconnection: close\r\n{headers}\r\n{body}", body.len())
}
