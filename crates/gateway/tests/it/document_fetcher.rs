//! The guard's documents, fetched from a server on this machine.

use crate::stub::{Server, ServerReply, answer};
use sabir_gateway::{DocumentFetcher, Egress, ServiceClient, ServiceRequest, Tls};
use sabir_guard::fetch::{Fetch, FetchFault, FetchMethod, FetchRequest};
use std::time::{Duration, Instant};
use url::Url;

const PATIENCE: Duration = Duration::from_millis(500);

fn outbound(egress: Egress) -> DocumentFetcher {
    DocumentFetcher::with_timeout(egress, &Tls::default(), PATIENCE).unwrap()
}

fn inside() -> Egress {
    Egress::public().and_loopback()
}

fn get(url: &Url) -> FetchRequest {
    FetchRequest { url: url.clone(), method: FetchMethod::Get, bytes_max: 64 }
}

#[tokio::test]
async fn a_document_comes_whole_whatever_its_status() {
    let server = Server::start(|heard| {
        let status = if heard.starts_with("GET /keys") { 200 } else { 500 };
        ServerReply::All(answer(status, "", "{\"keys\":[]}"))
    })
    .await;
    let found = outbound(inside()).fetch(get(&server.url.join("keys?for=us").unwrap())).await.unwrap();
    assert_eq!((found.status, &*found.body), (200, &b"{\"keys\":[]}"[..]));
    let failed = outbound(inside()).fetch(get(&server.url)).await.unwrap();
    assert_eq!((failed.status, &*failed.body), (500, &b"{\"keys\":[]}"[..]));
    assert!(server.requests()[0].starts_with("GET /keys?for=us HTTP/1.1\r\n"), "{}", server.requests()[0]);
}

#[tokio::test]
async fn a_body_is_posted_as_it_is_and_nothing_says_who_we_are() {
    let server = Server::start(|_| ServerReply::All(answer(200, "", "{}"))).await;
    let method = FetchMethod::Post { content_type: "application/json", body: br#"{"account_name":"alice"}"#.to_vec() };
    let clone = outbound(inside()).clone();
    clone.fetch(FetchRequest { method, ..get(&server.url) }).await.unwrap();
    let heard = server.requests()[0].clone();
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
        ServerReply::All(answer(200, "", &"x".repeat(length)))
    })
    .await;
    assert_eq!(outbound(inside()).fetch(get(&server.url)).await, Err(FetchFault::TooLong));
    assert_eq!(outbound(inside()).fetch(get(&server.url.join("just").unwrap())).await.unwrap().body.len(), 64);
    // Without a length the end is found by reading, and an endless answer is cut off.
    let endless = Server::start(|_| ServerReply::Drip(format!("HTTP/1.1 200 X\r\n\r\n{}", "x".repeat(64)))).await;
    assert_eq!(outbound(inside()).fetch(get(&endless.url)).await, Err(FetchFault::TooLong));
}

#[tokio::test]
async fn nobody_waits_longer_than_the_patience_in_all() {
    let silent = Server::start(|_| ServerReply::AndWait(String::new())).await;
    let halfway = Server::start(|_| ServerReply::AndWait("HTTP/1.1 200 X\r\ncontent-length: 9\r\n\r\nxx".into())).await;
    let dripping = Server::start(|_| ServerReply::Drip("HTTP/1.1 200 X\r\ncontent-length: 60\r\n\r\n".into())).await;
    for server in [silent, halfway, dripping] {
        let begun = Instant::now();
        assert_eq!(outbound(inside()).fetch(get(&server.url)).await, Err(FetchFault::Timeout));
        assert!(begun.elapsed() < PATIENCE * 4, "{:?}", begun.elapsed());
    }
}

#[tokio::test]
async fn a_service_that_does_not_answer_is_not_waited_for() {
    let silent = Server::start(|_| ServerReply::AndWait(String::new())).await;
    let client = ServiceClient::new(inside(), &Tls::default(), PATIENCE).unwrap();
    let request = ServiceRequest { url: silent.url.clone(), headers: Vec::new(), post: None };
    let begun = Instant::now();
    assert!(client.send(request).await.is_err());
    assert!(begun.elapsed() < PATIENCE * 4, "{:?}", begun.elapsed());
}

#[tokio::test]
async fn a_redirect_is_told_and_not_followed() {
    let elsewhere = Server::start(|_| ServerReply::All(answer(200, "", "{}"))).await;
    let location = format!("location: {}\r\n", elsewhere.url);
    let server = Server::start(move |_| ServerReply::All(answer(302, &location, "moved"))).await;
    let found = outbound(inside()).fetch(get(&server.url)).await.unwrap();
    assert_eq!((found.status, &*found.body), (302, &b"moved"[..]));
    assert!(elsewhere.requests().is_empty());
}

#[tokio::test]
async fn an_address_that_may_not_be_called_is_not_called() {
    let server = Server::start(|_| ServerReply::All(answer(200, "", "{}"))).await;
    let mut named = server.url.join("v1/SECRET-IN-PATH").unwrap();
    for host in ["127.0.0.1", "localhost", "[::ffff:127.0.0.1]"] {
        named.set_host(Some(host)).unwrap();
        let refused = outbound(Egress::public()).fetch(get(&named)).await.unwrap_err();
        let FetchFault::Failed(words) = &refused else { panic!("{refused:?}") };
        assert!(words.contains("loopback") && !words.contains("SECRET-IN-PATH"), "{words}");
    }
    assert!(server.requests().is_empty());
    let nobody = Url::parse("http://127.0.0.1:1/SECRET-IN-PATH").unwrap();
    let FetchFault::Failed(words) = outbound(inside()).fetch(get(&nobody)).await.unwrap_err() else { panic!() };
    assert!(words.contains("cannot be reached") && !words.contains("SECRET"), "{words}");
    let file = Url::parse("file:///etc/passwd").unwrap();
    assert!(matches!(outbound(inside()).fetch(get(&file)).await, Err(FetchFault::Failed(_))));
}
