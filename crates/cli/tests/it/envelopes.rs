//! The endpoint of the booking network: `POST /a2a/v1`, with whatever may be sent to it.

mod access;
mod booking;
mod invalid;
mod payment;
mod signatures;

use crate::command_runner::CommandDirectory;
use crate::http_client::{HttpResponse, Request};
use crate::test_server::{ServerDirectory, TestServer};
use sabir_proto::Timestamp;
use serde_json::{Value, json};
use std::fs;
use std::sync::Arc;
use std::time::{SystemTime, UNIX_EPOCH};

const NETWORK: &str = "[network]\nvenues = \"venues.json\"\n[auth.agnt]\nsigning_key = \"file:signing.key\"\n";
const SIGNING_KEY: &str = "a key of thirty-two bytes or more, for tests";

/// A directory for a network with four venues.
fn home(more: &str) -> Arc<ServerDirectory> {
    let home = ServerDirectory::new(&format!("{NETWORK}{more}"));
    let venue = |slug: &str, category: &str, slots: Value| {
        json!({"slug": slug, "name": slug.to_uppercase(), "category": category, "description": "by the sea", "area": "Canggu",
               "city": "Bali", "tags": [], "agent_id": format!("venue_{slug}"), "slots": slots})
    };
    let one = json!([{"id": "s1", "time": "2027-01-01T19:00:00Z", "capacity": 1},
                     {"id": "s2", "time": "2027-01-01T21:00:00Z", "capacity": 100_000}]);
    let mut closed = venue("closed", "bar", json!([]));
    closed["active"] = false.into();
    let odd = "قهوة \u{202e}☕ 100%_\\";
    let mut named = venue("odd", "cafe", json!([]));
    named["name"] = odd.into();
    let venues = json!([venue("la-brisa", "restaurant", one), venue("warung", "restaurant", json!([])), closed, named]);
    fs::write(home.path("venues.json"), venues.to_string()).unwrap();
    fs::write(home.path("signing.key"), SIGNING_KEY).unwrap();
    home
}

/// A key of this home, made with these flags.
#[track_caller]
fn key(home: &ServerDirectory, flags: &[&str]) -> String {
    let data = home.data().display().to_string();
    let config = home.path("sabir.toml").display().to_string();
    let ran = CommandDirectory::new()
        .run(&[&["key", "create", "-o", "json", "--config", &config, "--data", &data], flags].concat());
    ran.expect_success();
    ran.json()["key"].as_str().unwrap().to_owned()
}

/// A server with a key of the tier `pro`.
fn network() -> (TestServer, String) {
    let home = home("");
    let key = key(&home, &["--tier", "pro"]);
    (TestServer::start_at(&home), key)
}

/// Now and so many microseconds later, as envelopes have it.
fn stamp(ahead_micros: i64) -> String {
    let since = SystemTime::now().duration_since(UNIX_EPOCH).unwrap();
    let micros = i64::try_from(since.as_micros()).unwrap() + ahead_micros;
    let seconds = Timestamp::from_millis(micros.div_euclid(1_000_000) * 1000).to_string();
    format!("{}.{:06}Z", &seconds[..19], micros.rem_euclid(1_000_000))
}

fn envelope(intent: &str, payload: &Value) -> Value {
    json!({"protocol": "openclaw/a2a/v1", "from": "my_agent_001", "to": "network:agnt", "intent": intent,
           "payload": payload, "ttl_ms": 5000, "timestamp": stamp(0)})
}

fn post(sabir: &TestServer, key: &str, body: &Value) -> HttpResponse {
    sabir.ask(&request(key, body.to_string()))
}

fn request(key: &str, body: impl Into<Vec<u8>>) -> Request {
    Request::post("/a2a/v1", body).with("Authorization", format!("Bearer {key}"))
}

/// The status of a refusal and its code; "ok" for what is none.
fn verdict(reply: &HttpResponse) -> (u16, String) {
    let body = reply.json();
    let code = body["payload"]["error"]["code"].as_str().unwrap_or("ok");
    (reply.status, code.to_owned())
}

#[track_caller]
fn expect(reply: &HttpResponse, status: u16, code: &str) {
    assert_eq!(verdict(reply), (status, code.to_owned()), "{}", reply.text());
}
