//! The credentials that a hub sends to remote agents, checked by servers: a right one is accepted, a wrong one is a
//! plain failure, and the secret is nowhere but on the wire.

use crate::certificate_authority::CertificateAuthority;
use crate::federation::{self, SIGNING_KEY};
use crate::http_client::Request;
use crate::rpc_client::{envelope, send_params, state};
use crate::stub_agent::{self, StubRequest, StubResponse};
use crate::test_server::{AGENTS, ServerDirectory, TestServer, eventually};
use crate::tls::secured;
use base64::Engine as _;
use serde_json::json;
use std::fs;
use std::path::Path;
use std::sync::Arc;

/// Two throwaway keys of accounts, and what a chain knows of the first.
pub(crate) const KEY: &str = "PVT_K1_2tXumTBRQcNb9rZL8JAexESF7VDpnvekhB2cfxE46AbMdV974X";
const OTHER_KEY: &str = "PVT_K1_2Ma8oix3p74g5awiJzWKGQJxWFnPjTBJ9a5UxfunNmmT1WfoMP";
const PUBLIC_KEY: &str = "PUB_K1_7ihbNXZJ7HJF6EnNvzy8CHPDBmdsuRaxZMxnKxrahJ3HF1CAr5";

/// A hub with one agent elsewhere, whose secrets are in files. It says everything that it can say.
fn hub(url: &str, credentials: &str, secrets: &[(&str, &str)]) -> TestServer {
    let home = ServerDirectory::new(&format!(
        "[[agent]]\nname = \"far\"\nkind = \"a2a\"\nurl = \"{url}\"\ndefault = true\n{credentials}\n\
         [agent.continuation]\nattempts = 1\npoll_ms = 50\n[debug]\nwire = \"all\"\n"
    ));
    for (name, secret) in secrets {
        fs::write(home.path(name), secret).unwrap();
    }
    let mut command = home.command();
    command.env("SABIR_LOG", "trace");
    TestServer::run(&home, command)
}

/// The outcome of a message: the state of the task, or `message` for a direct reply; and its text.
fn sent(hub: &TestServer) -> (String, String) {
    let mut result = hub.result("/", "SendMessage", &send_params("hello"));
    if !result["message"].is_null() {
        return ("message".to_owned(), result["message"]["parts"].to_string());
    }
    let task = result["task"].take();
    let words = task["status"]["message"]["parts"][0]["text"].as_str().unwrap_or_default().to_owned();
    (state(&task).to_owned(), words)
}

#[track_caller]
fn works(hub: &TestServer) {
    let (state, words) = sent(hub);
    assert!(["TASK_STATE_COMPLETED", "message"].contains(&&*state), "{state}: {words}");
}

/// Checks that it fails, and that the caller is told no more than that.
#[track_caller]
fn fails(hub: &TestServer, why: &str) {
    let (state, words) = sent(hub);
    assert_eq!(state, "TASK_STATE_FAILED", "{words}");
    assert!(words.contains(why), "{words}");
}

/// Whether something stands in a file below a directory.
fn holds(directory: &Path, secret: &[u8]) -> bool {
    fs::read_dir(directory).into_iter().flatten().map_while(Result::ok).any(|entry| match entry.path() {
        path if path.is_dir() => holds(&path, secret),
        path => fs::read(path).is_ok_and(|bytes| bytes.windows(secret.len()).any(|part| part == secret)),
    })
}

/// Stops a hub and looks at all that it has left behind.
#[track_caller]
fn kept_secret(hub: TestServer, secrets: &[&str]) {
    let said = hub.log_text();
    assert!(said.contains("TRACE"), "it was not asked to say everything");
    let home: Arc<ServerDirectory> = hub.stop();
    for secret in secrets {
        assert!(!said.contains(secret), "{secret} is in the log");
        assert!(!holds(&home.data(), secret.as_bytes()), "{secret} is in the data");
    }
}

const REFUSED: &str = "did not accept our credentials";

#[test]
fn a_name_and_a_password() {
    let authority = CertificateAuthority::new();
    fs::write(authority.path("password"), "open-sesame-7").unwrap();
    let lines = format!(
        "[auth]\naccept = [\"basic\"]\n[auth.basic]\nuser = [{{ name = \"hub\", password = \"file:{}\" }}]",
        authority.path("password").display()
    );
    let far = secured(&authority, &lines, AGENTS);
    let shown = format!(
        "[agent.credentials.basic]\nuser = \"hub\"\npassword = \"file:password\"\n[agent.credentials.tls]\nca = \"file:{}\"\n",
        authority.root().display()
    );
    let url = format!("https://{}", far.address);
    let together = |password: &str| base64::engine::general_purpose::STANDARD.encode(format!("hub:{password}"));
    let good = hub(&url, &shown, &[("password", "open-sesame-7")]);
    works(&good);
    kept_secret(good, &["open-sesame-7", &together("open-sesame-7")]);
    let bad = hub(&url, &shown, &[("password", "close-sesame-7")]);
    fails(&bad, REFUSED);
    kept_secret(bad, &["close-sesame-7", &together("close-sesame-7")]);
}

#[test]
fn a_certificate() {
    let (authority, stranger) = (CertificateAuthority::new(), CertificateAuthority::new());
    let lines =
        format!("client_ca = \"file:{}\"\n[auth]\naccept = [\"mtls\"]\n[auth.mtls]", authority.root().display());
    let far = secured(&authority, &lines, AGENTS);
    let url = format!("https://{}", far.address);
    let (good, foreign) = (authority.client("good"), stranger.client("foreign"));
    let root = authority.root();
    let with = |pair: Option<&crate::certificate_authority::CertificateAndKey>| {
        let identity = pair
            .map(|pair| format!("cert = \"file:{}\"\nkey = \"file:{}\"\n", pair.cert.display(), pair.key.display()));
        let shown =
            format!("[agent.credentials.tls]\nca = \"file:{}\"\n{}", root.display(), identity.unwrap_or_default());
        hub(&url, &shown, &[])
    };
    let key = |pair: &crate::certificate_authority::CertificateAndKey| {
        fs::read_to_string(&pair.key).unwrap().lines().nth(1).unwrap().to_owned()
    };
    let known = with(Some(&good));
    works(&known);
    kept_secret(known, &[&key(&good)]);
    // A client with an unknown certificate cannot even send a request.
    let unknown = with(Some(&foreign));
    fails(&unknown, "the agent did not respond in time");
    kept_secret(unknown, &[&key(&foreign)]);
    fails(&with(None), REFUSED);
    // An agent whose certificate the hub does not trust is not called at all.
    let shown = format!("[agent.credentials.tls]\nca = \"file:{}\"\n", stranger.root().display());
    fails(&hub(&url, &shown, &[]), "the agent did not respond in time");
}

/// A node of a chain on which every account has the first key.
pub(crate) fn chain() -> String {
    stub_agent::serve(|asked: &StubRequest| -> StubResponse {
        let auth = json!({"threshold": 1, "keys": [{"key": PUBLIC_KEY, "weight": 1}], "accounts": [], "waits": []});
        let account = asked.json()["account_name"].clone();
        let found = json!({"account_name": account, "permissions": [{"perm_name": "active", "parent": "owner", "required_auth": auth}]});
        (200, "application/json", found.to_string())
    })
}

#[test]
fn a_signature_of_an_account() {
    let chain = chain();
    let far = TestServer::start(&format!(
        "{AGENTS}\n[auth]\naccept = [\"xpr\"]\n[auth.xpr]\nrpc_url = \"{chain}\"\nregistration = false\n"
    ));
    let shown = "[agent.credentials.xpr]\naccount = \"alice\"\nkey = \"file:key\"\n";
    let url = format!("http://{}", far.address);
    let good = hub(&url, shown, &[("key", KEY)]);
    works(&good);
    works(&good);
    // A signature is valid for a while, so a copy of it could be used once more.
    kept_secret(good, &[KEY, "SIG_K1_"]);
    let bad = hub(&url, shown, &[("key", OTHER_KEY)]);
    fails(&bad, REFUSED);
    kept_secret(bad, &[OTHER_KEY]);
}

#[test]
fn a_token_of_agent_native() {
    let home =
        ServerDirectory::new(&format!("{AGENTS}\n[auth]\naccept = [\"jwt\"]\n[auth.jwt]\nsecret = \"file:secret\"\n"));
    fs::write(home.path("secret"), "a-secret-that-two-servers-share-7").unwrap();
    let far = TestServer::start_at(&home);
    let shown = "[agent.credentials.native]\nemail = \"hub@example.com\"\nsecret = \"file:secret\"\n";
    let url = format!("http://{}", far.address);
    let good = hub(&url, shown, &[("secret", "a-secret-that-two-servers-share-7")]);
    works(&good);
    // A token begins like this, whatever it says.
    kept_secret(good, &["a-secret-that-two-servers-share-7", "Bearer eyJ"]);
    let bad = hub(&url, shown, &[("secret", "a-secret-that-only-one-of-them-has")]);
    fails(&bad, REFUSED);
    kept_secret(bad, &["a-secret-that-only-one-of-them-has", "Bearer eyJ"]);
}

/// An agent that says back what it was shown, in the way that a message asks for.
fn echoing_agent() -> String {
    let listener = std::net::TcpListener::bind("127.0.0.1:0").unwrap();
    let card = stub_agent::card(&format!("http://{}", listener.local_addr().unwrap()));
    stub_agent::serve_at(listener, move |asked: &StubRequest| -> StubResponse {
        if asked.path.contains("well-known") {
            return (200, "application/json", card.clone());
        }
        let (call, shown) = (asked.json(), asked.header("authorization").unwrap_or_default());
        let encoded = base64::engine::general_purpose::STANDARD.encode(format!("{{\"got\":\"{shown}\"}}"));
        let words = format!("upstream saw {shown}, which is {encoded}, or {}", shown.replace(' ', "%20"));
        let message =
            json!({"messageId": "m", "role": "ROLE_AGENT", "parts": [{"text": words}, {"data": {"saw": shown}}]});
        let said = match call["params"]["message"]["parts"][0]["text"].as_str().unwrap_or_default() {
            "error" => json!({"error": {"code": -32603, "message": words}}),
            "reply" => json!({"result": {"message": message}}),
            "page" => return (500, "text/plain", words),
            _ => json!({"result": {"task": {
                "id": "t", "contextId": "c", "status": {"state": "TASK_STATE_FAILED", "message": message}
            }}}),
        };
        let mut answer = json!({"jsonrpc": "2.0", "id": call["id"]});
        answer.as_object_mut().unwrap().extend(said.as_object().unwrap().clone());
        (200, "application/json", answer.to_string())
    })
}

#[test]
fn what_an_agent_repeats_of_our_credential_is_seen_by_no_caller_and_kept_nowhere() {
    let token = "upstream-secret-TOK-999999";
    let encoded = base64::engine::general_purpose::STANDARD.encode(token);
    let inner = &encoded[..encoded.len() - 4];
    let lines = "bearer = \"file:token\"\nidempotent = true\n[agent.card.capabilities]\npush_notifications = true";
    let hub = hub(&echoing_agent(), lines, &[("token", token)]);
    for way in ["error", "status", "reply", "page"] {
        let said = hub.rpc("/", "SendMessage", &send_params(way)).to_string();
        assert!(!said.contains(token) && !said.contains(inner), "{way}: {said}");
        if way != "page" {
            assert!(said.contains("upstream saw Bearer [redacted]"), "{way}: {said}");
        }
    }
    let caller = "callers-own-token-TOK-1";
    let mut noted = send_params("error");
    let hook = json!({"url": "http://127.0.0.1:8999/hook?key=webhook-key-of-a-caller", "id": "h"});
    noted["configuration"] = json!({"taskPushNotificationConfig": hook});
    let request = Request::post("/", envelope("SendMessage", &noted))
        .with("Content-Type", "application/json")
        .with("A2A-Version", "1.0")
        .with("X-Auth-Token", caller);
    assert_eq!(hub.ask(&request).status, 200);
    let wire = hub.home.data().join("wire");
    eventually("the record is written", || holds(&wire, b"127.0.0.1:8999/hook?key=[redacted]"));
    assert!(holds(&wire, b"x-auth-token") && !holds(&wire, b"webhook-key-of-a-caller"));
    kept_secret(hub, &[token, inner, caller]);
}

#[test]
fn a_signature_of_a_booking_network() {
    let network = federation::networks_in_row(&["a"]).remove(0);
    let key = network.issue("hub", &["--require-signature"]);
    let _network = network.start();
    let url = format!("{}/a2a/v1?from=hub", network.url());
    let shown = |signed: &str| format!("bearer = \"file:bearer\"\n{signed}");
    let signing = "[agent.credentials.agnt]\nsigning_key = \"file:sign\"\n";
    let good = hub(&url, &shown(signing), &[("bearer", &key), ("sign", SIGNING_KEY)]);
    works(&good);
    works(&good);
    kept_secret(good, &[&key, SIGNING_KEY]);
    let other = "a-signing-key-of-no-network-at-all-7";
    let bad = hub(&url, &shown(signing), &[("bearer", &key), ("sign", other)]);
    fails(&bad, REFUSED);
    kept_secret(bad, &[&key, other]);
    // The key alone is not enough.
    fails(&hub(&url, &shown(""), &[("bearer", &key)]), REFUSED);
    // What signs envelopes is not for agents that take none.
    let far = TestServer::start(AGENTS);
    let misplaced = hub(&format!("http://{}", far.address), signing, &[("sign", SIGNING_KEY)]);
    fails(&misplaced, "cannot be called");
    kept_secret(misplaced, &[SIGNING_KEY]);
}

#[test]
fn a_secret_that_an_agent_splits_over_chunks_and_parts_is_hidden_as_well() {
    const SECRET: &str = "upstream-secret-TOK-4711";
    let (head, tail) = SECRET.split_at(11);
    let listener = std::net::TcpListener::bind("127.0.0.1:0").unwrap();
    let base = format!("http://{}", listener.local_addr().unwrap());
    let at = base.clone();
    let url = stub_agent::serve_at(listener, move |asked| {
        if asked.path.contains("/.well-known/") {
            return (
                200,
                "application/json",
                stub_agent::card(&at).replace("\"capabilities\":{}", "\"capabilities\":{\"streaming\":true}"),
            );
        }
        let call = asked.json();
        let ids = json!({"taskId": "t-1", "contextId": "c-1"});
        let with = |member: serde_json::Value| {
            let mut event = ids.clone();
            event.as_object_mut().unwrap().extend(member.as_object().unwrap().clone());
            event
        };
        let chunk = |text: &str, append: bool| {
            let artifact = json!({"artifactId": "a", "parts": [{"text": text}]});
            json!({"artifactUpdate": with(json!({"append": append, "artifact": artifact}))})
        };
        let parts = json!([{"text": "you sent "}, {"text": head}, {"text": tail}]);
        let message = json!({"messageId": "m", "role": "ROLE_AGENT", "parts": parts});
        let events = [
            json!({"task": {"id": "t-1", "contextId": "c-1", "status": {"state": "TASK_STATE_WORKING"}}}),
            chunk(head, false),
            chunk(tail, true),
            json!({"statusUpdate": with(json!({"status": {"state": "TASK_STATE_FAILED", "message": message}}))}),
        ];
        let frames =
            events.map(|event| format!("data: {}\n\n", json!({"jsonrpc": "2.0", "id": call["id"], "result": event})));
        (200, "text/event-stream", frames.concat())
    });
    let hub = hub(&url, "bearer = \"file:token\"\n", &[("token", SECRET)]);
    let task = hub.send("/", &send_params("hello"));
    let words = &task["status"]["message"]["parts"];
    assert_eq!(*words, json!([{"text": "you sent "}, {"text": "[redacted]"}, {"text": ""}]), "{task}");
    // An artifact passes as it is, in whatever pieces it came.
    let made: String =
        task["artifacts"][0]["parts"].as_array().unwrap().iter().filter_map(|part| part["text"].as_str()).collect();
    assert_eq!(made, SECRET, "{task}");
    // The record of the wire has the stream as it came, less the secret.
    let wire = hub.home.data().join("wire");
    eventually("the exchange is recorded", || holds(&wire, b"you sent"));
    let said = hub.log_text();
    drop(hub.stop());
    for half in [head, tail] {
        let caller_leg = format!("\\\"text\\\":\\\"{half}");
        assert!(!holds(&wire, caller_leg.as_bytes()), "{half}");
        assert!(!said.contains(half), "{half}");
    }
}
