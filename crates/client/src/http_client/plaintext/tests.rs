use super::*;
use std::sync::atomic::{AtomicUsize, Ordering};
use tokio::io::{AsyncReadExt as _, AsyncWriteExt as _};
use tokio::net::TcpListener;

/// What the test server does with a connection after its answer.
#[derive(Clone, Copy)]
enum ServerBehavior {
    /// It waits for the next request.
    Stays,
    /// It closes the connection.
    HangsUp,
}

#[derive(Default)]
struct ServerCounts {
    connections: AtomicUsize,
    requests: AtomicUsize,
    /// The connections that the server has closed.
    closed: AtomicUsize,
}

/// Serves `answer` to every request.
async fn server(answer: &'static str, after: ServerBehavior) -> (Url, Arc<ServerCounts>) {
    let listener = TcpListener::bind("127.0.0.1:0").await.unwrap();
    let url = Url::parse(&format!("http://{}/rpc?x=1", listener.local_addr().unwrap())).unwrap();
    let seen = Arc::new(ServerCounts::default());
    let counted = seen.clone();
    tokio::spawn(async move {
        while let Ok((mut stream, _)) = listener.accept().await {
            counted.connections.fetch_add(1, Ordering::SeqCst);
            let counted = counted.clone();
            tokio::spawn(async move {
                let mut heard = Vec::new();
                while stream.read_buf(&mut heard).await.is_ok_and(|read| read > 0) {
                    let text = String::from_utf8_lossy(&heard).into_owned();
                    if !text.ends_with("hello") {
                        continue;
                    }
                    assert!(text.starts_with("POST /rpc?x=1 HTTP/1.1\r\n"), "{text}");
                    assert!(text.to_ascii_lowercase().contains("\r\nhost: 127.0.0.1:"), "{text}");
                    counted.requests.fetch_add(1, Ordering::SeqCst);
                    heard.clear();
                    stream.write_all(answer.as_bytes()).await.unwrap();
                    if matches!(after, ServerBehavior::HangsUp) {
                        drop(stream);
                        counted.closed.fetch_add(1, Ordering::SeqCst);
                        return;
                    }
                }
            });
        }
    });
    (url, seen)
}

fn plain() -> PlaintextClient {
    PlaintextClient::new(Egress::public().and_loopback(), Duration::from_secs(5), (4, Duration::from_secs(60)))
}

fn hello(url: &Url) -> Request<Full<Bytes>> {
    let uri = request_target(url).unwrap();
    Request::post(uri).body(Full::new(Bytes::from_static(b"hello"))).unwrap()
}

async fn ask(plain: &PlaintextClient, url: &Url) -> Result<String, PlaintextFailure> {
    let mut answer = plain.send(url, hello(url)).await?;
    let mut body = Vec::new();
    while let Some(chunk) = answer.chunk().await? {
        body.extend_from_slice(&chunk);
    }
    Ok(format!("{} {}", answer.status.as_u16(), String::from_utf8(body).unwrap()))
}

const GOOD: &str = "HTTP/1.1 200 OK\r\ncontent-length: 2\r\n\r\nhi";

#[tokio::test]
async fn one_connection_serves_one_call_after_the_other() {
    let (url, seen) = server(GOOD, ServerBehavior::Stays).await;
    let plain = plain();
    for _ in 0..10 {
        assert_eq!(ask(&plain, &url).await.unwrap(), "200 hi");
    }
    assert_eq!((seen.connections.load(Ordering::SeqCst), seen.requests.load(Ordering::SeqCst)), (1, 10));
}

#[tokio::test]
async fn calls_at_the_same_time_have_a_connection_each_and_few_are_kept() {
    let (url, seen) = server(GOOD, ServerBehavior::Stays).await;
    let plain = plain();
    let calls = (0..9).map(|_| ask(&plain, &url));
    for answer in futures_util::future::join_all(calls).await {
        assert_eq!(answer.unwrap(), "200 hi");
    }
    assert!(seen.connections.load(Ordering::SeqCst) <= 9);
    let kept: usize = lock(&plain.0.hosts).values().map(|home| lock(&home.idle).len()).sum();
    assert!((1..=4).contains(&kept), "{kept}");
}

#[tokio::test]
async fn a_connection_that_was_closed_meanwhile_is_replaced_and_nothing_is_asked_twice() {
    let (url, seen) = server(GOOD, ServerBehavior::HangsUp).await;
    let plain = plain();
    for round in 1..=5 {
        assert_eq!(ask(&plain, &url).await.unwrap(), "200 hi");
        // The runtime hears of the close when it next sleeps.
        loop {
            let is_closed = seen.closed.load(Ordering::SeqCst) == round;
            tokio::time::sleep(Duration::from_millis(2)).await;
            if is_closed {
                break;
            }
        }
    }
    assert_eq!((seen.connections.load(Ordering::SeqCst), seen.requests.load(Ordering::SeqCst)), (5, 5));
}

#[tokio::test]
async fn an_answer_that_breaks_off_is_a_failure_and_is_not_asked_for_again() {
    for cut in ["HTTP/1.1 200 OK\r\ncontent-length: 20\r\n\r\nhi", "HTTP/1.1 200 OK\r\ncont", ""] {
        let (url, seen) = server(cut, ServerBehavior::HangsUp).await;
        let failure = ask(&plain(), &url).await.unwrap_err();
        assert!(matches!(failure, PlaintextFailure::Http(_)), "{failure:?}");
        assert_eq!(seen.requests.load(Ordering::SeqCst), 1, "{cut}");
    }
}

#[tokio::test]
async fn nobody_there_is_a_failure_to_connect() {
    let listener = TcpListener::bind("127.0.0.1:0").await.unwrap();
    let url = Url::parse(&format!("http://{}/rpc?x=1", listener.local_addr().unwrap())).unwrap();
    drop(listener);
    assert!(matches!(ask(&plain(), &url).await.unwrap_err(), PlaintextFailure::Connect(_)));
}

#[tokio::test]
async fn an_answer_that_nobody_reads_to_its_end_takes_its_connection_with_it() {
    let (url, seen) = server(GOOD, ServerBehavior::Stays).await;
    let plain = plain();
    drop(plain.send(&url, hello(&url)).await.unwrap());
    assert_eq!(ask(&plain, &url).await.unwrap(), "200 hi");
    assert_eq!(seen.connections.load(Ordering::SeqCst), 2);
}

#[tokio::test]
async fn connections_that_nobody_uses_are_closed_in_time() {
    let (url, seen) = server(GOOD, ServerBehavior::Stays).await;
    let keeps = (4, Duration::from_millis(40));
    let plain = PlaintextClient::new(Egress::public().and_loopback(), Duration::from_secs(5), keeps);
    assert_eq!(ask(&plain, &url).await.unwrap(), "200 hi");
    plain.close_expired();
    assert_eq!(lock(&plain.0.hosts).len(), 1, "it is not old yet");
    // Longer than an idle connection is kept.
    tokio::time::sleep(Duration::from_millis(60)).await;
    plain.close_expired();
    assert!(lock(&plain.0.hosts).is_empty());
    assert_eq!(ask(&plain, &url).await.unwrap(), "200 hi");
    assert_eq!(seen.connections.load(Ordering::SeqCst), 2);
}
