//! The guard's documents, fetched from a server on this machine.
#![expect(clippy::unwrap_used, reason = "a test stops where its world is not as it should be")]

use sabir_gateway::{Egress, Outbound, Tls};
use sabir_guard::fetch::{Fetch, FetchFault, Method, Request};
use std::sync::{Arc, Mutex};
use std::time::{Duration, Instant};
use tokio::io::{AsyncReadExt, AsyncWriteExt};
use tokio::net::{TcpListener, TcpStream};
use url::Url;

const PATIENCE: Duration = Duration::from_millis(500);

/// Says what its script says to each request, which is remembered.
struct Server {
    url: Url,
    heard: Arc<Mutex<Vec<String>>>,
}

/// What is sent, and whether the connection is then left open.
enum Say {
    All(String),
    AndWait(String),
    /// A byte now and then, for ever.
    Drip(String),
}

impl Server {
    async fn start(script: impl Fn(&str) -> Say + Send + Sync + 'static) -> Self {
        let listener = TcpListener::bind("127.0.0.1:0").await.unwrap();
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

    fn heard(&self) -> Vec<String> {
        self.heard.lock().unwrap().clone()
    }
}

async fn serve(mut socket: TcpStream, script: &(dyn Fn(&str) -> Say + Send + Sync), log: &Mutex<Vec<String>>) {
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
        Say::All(answer) => socket.write_all(answer.as_bytes()).await.unwrap(),
        Say::AndWait(answer) => {
            let _ = socket.write_all(answer.as_bytes()).await;
            tokio::time::sleep(Duration::from_secs(20)).await;
        }
        Say::Drip(answer) => {
            let _ = socket.write_all(answer.as_bytes()).await;
            while socket.write_all(b"x").await.is_ok() {
                tokio::time::sleep(Duration::from_millis(20)).await;
            }
        }
    }
}

fn answer(status: u16, headers: &str, body: &str) -> String {
    format!("HTTP/1.1 {status} X\r\ncontent-length: {}\r\nconnection: close\r\n{headers}\r\n{body}", body.len())
}

fn outbound(egress: Egress) -> Outbound {
    Outbound::with(egress, &Tls::default(), PATIENCE).unwrap()
}

fn inside() -> Egress {
    Egress::public().and_loopback()
}

fn get(url: &Url) -> Request {
    Request { url: url.clone(), method: Method::Get, bytes_max: 64 }
}

#[tokio::test]
async fn a_document_comes_whole_whatever_its_status() {
    let server = Server::start(|heard| {
        let status = if heard.starts_with("GET /keys") { 200 } else { 500 };
        Say::All(answer(status, "", "{\"keys\":[]}"))
    })
    .await;
    let found = outbound(inside()).fetch(get(&server.url.join("keys?for=us").unwrap())).await.unwrap();
    assert_eq!((found.status, &*found.body), (200, &b"{\"keys\":[]}"[..]));
    let failed = outbound(inside()).fetch(get(&server.url)).await.unwrap();
    assert_eq!((failed.status, &*failed.body), (500, &b"{\"keys\":[]}"[..]));
    assert!(server.heard()[0].starts_with("GET /keys?for=us HTTP/1.1\r\n"), "{}", server.heard()[0]);
}

#[tokio::test]
async fn a_body_is_posted_as_it_is_and_nothing_says_who_we_are() {
    let server = Server::start(|_| Say::All(answer(200, "", "{}"))).await;
    let method = Method::Post { content_type: "application/json", body: br#"{"account_name":"alice"}"#.to_vec() };
    let clone = outbound(inside()).clone();
    clone.fetch(Request { method, ..get(&server.url) }).await.unwrap();
    let heard = server.heard()[0].clone();
    assert!(
        heard.starts_with("POST / HTTP/1.1\r\n") && heard.ends_with("\r\n\r\n{\"account_name\":\"alice\"}"),
        "{heard}"
    );
    let head = heard.to_ascii_lowercase();
    assert!(head.contains("content-type: application/json\r\n"), "{head}");
    assert!(!head.contains("authorization") && !head.contains("cookie"), "{head}");
}

#[tokio::test]
async fn a_document_that_is_too_long_is_none_and_one_of_just_the_length_is_one() {
    let server = Server::start(|heard| {
        let length = if heard.starts_with("GET /just") { 64 } else { 65 };
        Say::All(answer(200, "", &"x".repeat(length)))
    })
    .await;
    assert_eq!(outbound(inside()).fetch(get(&server.url)).await, Err(FetchFault::TooLong));
    assert_eq!(outbound(inside()).fetch(get(&server.url.join("just").unwrap())).await.unwrap().body.len(), 64);
    // Without a length the end is found by reading, and an endless answer is cut off.
    let endless = Server::start(|_| Say::Drip(format!("HTTP/1.1 200 X\r\n\r\n{}", "x".repeat(64)))).await;
    assert_eq!(outbound(inside()).fetch(get(&endless.url)).await, Err(FetchFault::TooLong));
}

#[tokio::test]
async fn nobody_waits_longer_than_the_patience_in_all() {
    let silent = Server::start(|_| Say::AndWait(String::new())).await;
    let halfway = Server::start(|_| Say::AndWait("HTTP/1.1 200 X\r\ncontent-length: 9\r\n\r\nxx".into())).await;
    let dripping = Server::start(|_| Say::Drip("HTTP/1.1 200 X\r\ncontent-length: 60\r\n\r\n".into())).await;
    for server in [silent, halfway, dripping] {
        let begun = Instant::now();
        assert_eq!(outbound(inside()).fetch(get(&server.url)).await, Err(FetchFault::Timeout));
        assert!(begun.elapsed() < PATIENCE * 4, "{:?}", begun.elapsed());
    }
}

#[tokio::test]
async fn a_redirect_is_told_and_not_followed() {
    let elsewhere = Server::start(|_| Say::All(answer(200, "", "{}"))).await;
    let location = format!("location: {}\r\n", elsewhere.url);
    let server = Server::start(move |_| Say::All(answer(302, &location, "moved"))).await;
    let found = outbound(inside()).fetch(get(&server.url)).await.unwrap();
    assert_eq!((found.status, &*found.body), (302, &b"moved"[..]));
    assert!(elsewhere.heard().is_empty());
}

#[tokio::test]
async fn an_address_that_may_not_be_called_is_not_called() {
    let server = Server::start(|_| Say::All(answer(200, "", "{}"))).await;
    let mut named = server.url.join("v1/SECRET-IN-PATH").unwrap();
    for host in ["127.0.0.1", "localhost", "[::ffff:127.0.0.1]"] {
        named.set_host(Some(host)).unwrap();
        let refused = outbound(Egress::public()).fetch(get(&named)).await.unwrap_err();
        let FetchFault::Failed(words) = &refused else { panic!("{refused:?}") };
        assert!(words.contains("loopback") && !words.contains("SECRET-IN-PATH"), "{words}");
    }
    assert!(server.heard().is_empty());
    let nobody = Url::parse("http://127.0.0.1:1/SECRET-IN-PATH").unwrap();
    let FetchFault::Failed(words) = outbound(inside()).fetch(get(&nobody)).await.unwrap_err() else { panic!() };
    assert!(words.contains("cannot be reached") && !words.contains("SECRET"), "{words}");
    let file = Url::parse("file:///etc/passwd").unwrap();
    assert!(matches!(outbound(inside()).fetch(get(&file)).await, Err(FetchFault::Failed(_))));
}
