//! Answers that come too late, tested with a real server and a slow agent.

use crate::admin::{CreateKey, administer};
use crate::config::Config;
use crate::config::booking::AGENT;
use crate::server::Server;
use sabir_engine::{Agent, AnyAgent, Context, Ending, Failure};
use sabir_proto::{Json, Timestamp};
use sabir_wire::agnt::Intent;
use serde_json::{Value, json};
use std::collections::HashMap;
use std::net::SocketAddr;
use std::sync::Arc;
use std::time::Duration;
use tokio::io::{AsyncReadExt as _, AsyncWriteExt as _};
use tokio::net::TcpStream;
use tokio::sync::Semaphore;

/// An agent that finishes a turn only with a permit of the test.
struct SlowAgent {
    may: Arc<Semaphore>,
    carried: bool,
}

impl Agent for SlowAgent {
    async fn turn(&self, cx: &mut Context) -> Result<Ending, Failure> {
        let intent = cx.message().skill().as_deref().and_then(Intent::parse);
        self.may.acquire().await?.forget();
        if intent.is_some_and(Intent::has_effect) {
            cx.data("booking", Json::of(&json!({"booking_id": cx.task_id().to_string()}))?).await?;
            return Ok(Ending::complete());
        }
        Ok(Ending::Reply(vec![sabir_proto::Part::data(Json::of(&json!({"count": 0}))?)]))
    }

    fn runs_inline(&self) -> bool {
        self.carried
    }
}

struct LateTest {
    address: SocketAddr,
    key: String,
    may: Arc<Semaphore>,
    stop: tokio::sync::oneshot::Sender<()>,
    ran: tokio::task::JoinHandle<()>,
    _directory: tempfile::TempDir,
}

impl LateTest {
    async fn begin(carried: bool) -> Self {
        let directory = tempfile::tempdir().unwrap();
        let store = directory.path().join("sabir.db");
        let text =
            format!("[server]\nlisten = \"127.0.0.1:0\"\n[store]\nurl = \"sqlite:{}\"\n[network]\n", store.display());
        let mut config = Config::read(&text).unwrap();
        config.agent.push(config.network.as_ref().unwrap().section());
        let operation = CreateKey { owner: Some("o".into()), tier: Some("pro".into()), ..CreateKey::default() };
        let key = administer(&config, operation).await.unwrap().key;
        let may = Arc::new(Semaphore::new(0));
        let agent: Arc<dyn AnyAgent> = Arc::new(SlowAgent { may: may.clone(), carried });
        let server = Server::start_with(config, HashMap::from([(AGENT.to_owned(), agent)])).await.unwrap();
        let (address, (stop, stopped)) = (server.address(), tokio::sync::oneshot::channel());
        let ran = tokio::spawn(server.run(async { drop(stopped.await) }));
        Self { address, key, may, stop, ran, _directory: directory }
    }

    async fn ask(&self, request: &str) -> (u16, String, String) {
        let mut socket = TcpStream::connect(self.address).await.unwrap();
        socket.write_all(request.as_bytes()).await.unwrap();
        let mut reply = String::new();
        socket.read_to_string(&mut reply).await.unwrap();
        let (head, body) = reply.split_once("\r\n\r\n").unwrap();
        (head.split(' ').nth(1).unwrap().parse().unwrap(), head.to_ascii_lowercase(), body.to_owned())
    }

    async fn post(&self, body: &Value) -> (u16, String, Value) {
        let (body, key) = (body.to_string(), &self.key);
        let length = body.len();
        let request = format!(
            "POST /a2a/v1 HTTP/1.1\r\nHost: {}\r\nConnection: close\r\nContent-Type: application/json\r\n\
             Authorization: Bearer {key}\r\nContent-Length: {length}\r\n\r\n{body}",
            self.address
        );
        let (status, head, body) = self.ask(&request).await;
        (status, head, serde_json::from_str(&body).unwrap())
    }

    async fn metrics(&self) -> String {
        let request = format!("GET /metrics HTTP/1.1\r\nHost: {}\r\nConnection: close\r\n\r\n", self.address);
        self.ask(&request).await.2
    }

    async fn end(self) {
        drop(self.stop);
        self.ran.await.unwrap();
    }
}

fn envelope(intent: &str, ttl_ms: u64) -> Value {
    let now = std::time::SystemTime::now().duration_since(std::time::UNIX_EPOCH).unwrap();
    let now = Timestamp::from_millis(i64::try_from(now.as_millis()).unwrap());
    json!({"from": "a", "intent": intent, "payload": {"venue_id": "v"}, "ttl_ms": ttl_ms, "timestamp": now})
}

#[tokio::test]
async fn what_is_done_too_late_is_done_once_and_told_to_whoever_asks_again() {
    for carried in [false, true] {
        let world = LateTest::begin(carried).await;
        let mut order = envelope("booking.confirm", 80);
        let (status, _, said) = world.post(&order).await;
        assert_eq!((status, &said["payload"]["error"]["code"]), (504, &json!("ttl_exceeded")), "{said}");
        assert_eq!(said["payload"]["error"]["retryable"], true);
        // A second copy of the envelope waits for the first one until its own time has run out.
        let (status, ..) = world.post(&order).await;
        assert_eq!(status, 504);
        world.may.add_permits(10);
        order["ttl_ms"] = json!(15_000);
        let (status, head, said) = world.post(&order).await;
        assert_eq!(status, 200, "{said}");
        assert!(head.contains("a2a-idempotent-replay: true"), "{head}");
        assert!(said["payload"]["booking_id"].is_string());
        let counted = |text: &str, status: &str, n: u32| {
            let line =
                format!("a2a_requests_total{{intent=\"booking.confirm\",tier=\"pro\",status=\"{status}\"}} {n}\n");
            text.contains(&line)
        };
        let mut text = String::new();
        for _ in 0..500 {
            text = world.metrics().await;
            if counted(&text, "ok", 1) && counted(&text, "ttl_exceeded", 1) {
                break;
            }
            tokio::time::sleep(Duration::from_millis(10)).await;
        }
        assert!(counted(&text, "ok", 1) && counted(&text, "ttl_exceeded", 1), "{text}");
        assert!(counted(&text, "duplicate", 1), "{text}");
        world.end().await;
    }
}

#[tokio::test]
async fn what_only_looks_is_given_up_when_there_is_no_time() {
    let world = LateTest::begin(true).await;
    let mut list = envelope("venue.list", 60);
    list["payload"] = json!({});
    let (status, _, said) = world.post(&list).await;
    assert_eq!((status, &said["payload"]["error"]["code"]), (504, &json!("ttl_exceeded")));
    world.may.add_permits(1);
    list["ttl_ms"] = json!(15_000);
    assert_eq!(world.post(&list).await.0, 200);
    world.end().await;
}
