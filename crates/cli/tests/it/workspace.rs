//! Apps that share one origin and one secret, and know nothing else of each other.

use crate::http_client::{HttpConnection, Request};
use crate::rpc_client::{envelope, message};
use crate::stub_agent::{self, StubRequest};
use crate::test_server::{ServerDirectory, TestServer};
use base64::Engine as _;
use base64::engine::general_purpose::URL_SAFE_NO_PAD;
use serde_json::{Value, json};
use sha2::Sha256;
use std::net::SocketAddr;
use std::sync::{Arc, Mutex, OnceLock};

const SECRET: &str = "one secret for all of the workspace";

/// An HMAC over SHA-256, as tokens of agent-native have it.
fn mac(key: &[u8], text: &[u8]) -> Vec<u8> {
    use sha2::Digest as _;
    let (mut inner, mut outer) = ([0x36u8; 64], [0x5cu8; 64]);
    for (i, byte) in key.iter().enumerate() {
        inner[i] ^= byte;
        outer[i] ^= byte;
    }
    let first = Sha256::new().chain_update(inner).chain_update(text).finalize();
    Sha256::new().chain_update(outer).chain_update(first).finalize().to_vec()
}

fn token(user: &str, domain: &str) -> String {
    let now = std::time::SystemTime::now().duration_since(std::time::UNIX_EPOCH).unwrap().as_secs();
    let claims = json!({"sub": user, "org_domain": domain, "iat": now, "exp": now + 600});
    let signed =
        format!("{}.{}", URL_SAFE_NO_PAD.encode(br#"{"alg":"HS256"}"#), URL_SAFE_NO_PAD.encode(claims.to_string()));
    let mac = URL_SAFE_NO_PAD.encode(mac(SECRET.as_bytes(), signed.as_bytes()));
    format!("{signed}.{mac}")
}

/// The claims of a token under the shared secret.
fn claims(header: Option<&str>) -> Option<Value> {
    let token = header?.strip_prefix("Bearer ")?;
    let (signed, signature) = token.rsplit_once('.')?;
    let expected = URL_SAFE_NO_PAD.encode(mac(SECRET.as_bytes(), signed.as_bytes()));
    (signature == expected).then_some(())?;
    serde_json::from_slice(&URL_SAFE_NO_PAD.decode(signed.split('.').nth(1)?).ok()?).ok()
}

/// Sends to an app with a token, and returns what it answered.
fn send(hub: SocketAddr, app: &str, token: &str) -> Value {
    let body = envelope("SendMessage", &json!({"message": message("hello")}));
    let request = Request::post(&format!("/apps/{app}"), body).with("authorization", format!("Bearer {token}"));
    let mut wire = HttpConnection::open(hub);
    wire.send(&request);
    wire.response().json()
}

type ReceivedClaims = Arc<Mutex<Vec<(String, Option<Value>)>>>;

/// An app that passes what it is asked on to another one, for the same user.
fn app(id: &'static str, next: Option<&'static str>, hub: Arc<OnceLock<SocketAddr>>, heard: ReceivedClaims) -> String {
    let own = Arc::new(OnceLock::<String>::new());
    let at = own.clone();
    let url = stub_agent::serve(move |asked: &StubRequest| {
        if asked.path.ends_with("/.well-known/agent-card.json") {
            return (200, "application/json", stub_agent::card(at.get().unwrap()));
        }
        let call = asked.json();
        let user = claims(asked.header("authorization"));
        heard.lock().unwrap().push((id.into(), user.clone()));
        let said = match (next, user) {
            (Some(next), Some(user)) => {
                let (email, domain) = (user["sub"].as_str().unwrap(), user["org_domain"].as_str().unwrap());
                let answer = send(*hub.get().unwrap(), next, &token(email, domain));
                format!("{id}, {}", words(&answer))
            }
            _ => id.to_owned(),
        };
        let message = json!({"role": "ROLE_AGENT", "messageId": "m", "parts": [{"text": said}]});
        let answer = json!({"jsonrpc": "2.0", "id": call["id"], "result": {"message": message}});
        (200, "application/json", answer.to_string())
    });
    own.set(url.clone()).unwrap();
    url
}

/// The text of an answer, as a task or as a message.
fn words(answer: &Value) -> String {
    let result = &answer["result"];
    let parts = [&result["message"]["parts"], &result["task"]["status"]["message"]["parts"]];
    let text = parts.iter().find_map(|parts| parts[0]["text"].as_str());
    text.map_or_else(|| answer.to_string(), str::to_owned)
}

#[test]
fn three_apps_call_each_other_for_their_user_and_are_configured_for_nobody() {
    let (hub, heard) = (Arc::new(OnceLock::new()), ReceivedClaims::default());
    let mail = app("mail", None, hub.clone(), heard.clone());
    let books = app("books", Some("mail"), hub.clone(), heard.clone());
    let desk = app("desk", Some("books"), hub.clone(), heard.clone());
    let home =
        ServerDirectory::new("[auth.jwt]\nsecret = \"file:secret\"\n[workspace]\nmanifest = \"workspace-apps.json\"\n");
    std::fs::write(home.path("secret"), SECRET).unwrap();
    let apps: Vec<Value> = [("Desk", &desk), ("books", &books), ("mail", &mail)]
        .iter()
        .map(|(id, url)| json!({"id": id, "path": format!("/{id}"), "url": url, "description": "An app"}))
        .collect();
    std::fs::write(home.path("workspace-apps.json"), json!({"apps": apps}).to_string()).unwrap();
    let sabir = TestServer::start_at(&home);
    hub.set(sabir.address).unwrap();
    let answer = send(sabir.address, "desk", &token("ana@acme.test", "acme.test"));
    assert_eq!(words(&answer), "desk, books, mail");
    let heard = heard.lock().unwrap().clone();
    let apps: Vec<&str> = heard.iter().map(|(id, _)| id.as_str()).collect();
    assert_eq!(apps, ["desk", "books", "mail"], "each was called once");
    for (id, user) in &heard {
        let user = user.as_ref().unwrap_or_else(|| panic!("{id} was called for nobody"));
        assert_eq!((&user["sub"], &user["org_domain"]), (&json!("ana@acme.test"), &json!("acme.test")), "{id}");
        let issuer = user["iss"].as_str().unwrap_or_default();
        assert!(issuer.contains(&sabir.address.to_string()), "{id}: the token is ours, and not the caller's: {user}");
    }
    // No caller gets in without the secret, and cards say where apps are.
    let stranger = sabir.ask(&Request::post("/apps/desk", envelope("SendMessage", &json!({"message": message("x")}))));
    assert_eq!(stranger.status, 401, "{}", stranger.text());
    let card = sabir.ask(&Request::get("/apps/books/.well-known/agent-card.json").with("a2a-version", "1.0")).json();
    assert!(card["supportedInterfaces"][0]["url"].as_str().unwrap().ends_with("/apps/books"), "{card}");
    assert_eq!(card["description"], "An app");
}

#[test]
fn directories_are_apps_of_any_kind() {
    let home = ServerDirectory::new("[auth.jwt]\nsecret = \"file:secret\"\n[workspace]\napps = \"apps\"\n");
    std::fs::write(home.path("secret"), SECRET).unwrap();
    for id in ["one", "two"] {
        let at = home.path("apps").join(id);
        std::fs::create_dir_all(&at).unwrap();
        std::fs::write(at.join("agent.toml"), "kind = \"echo\"\n").unwrap();
    }
    let sabir = TestServer::start_at(&home);
    for id in ["one", "two"] {
        let answer = send(sabir.address, id, &token("ana@acme.test", "acme.test"));
        assert_eq!(answer["result"]["task"]["status"]["state"], "TASK_STATE_COMPLETED", "{answer}");
    }
    // A path of apps is a path like any other where there is no such app.
    assert_eq!(sabir.ask(&Request::get("/apps/three/.well-known/agent-card.json")).status, 404);
    drop(sabir);
    std::fs::write(home.path("apps/two/agent.toml"), "kind = \"nothing\"\n").unwrap();
    let said = home.expect_start_refused(home.command());
    assert!(said.contains("agent.toml") && said.contains("nothing"), "{said}");
}
