//! Cards that are believed, and those whose agents are not called.

use crate::command_runner::{CommandDirectory, CommandOutput, demo};
use crate::http_client::Request;
use crate::stub_agent;
use serde_json::{Value, json};
use std::sync::Arc;
use std::sync::atomic::{AtomicUsize, Ordering};

/// A card of 0.3 at an address of choice. Its signature is made as the SDKs make one, who know nothing of where such a card
/// says that the agent is, so it holds wherever that leads.
fn misdirected_card(url: &str) -> Value {
    json!({
        "name": "Ledger", "description": "Keeps books.", "version": "1", "url": url, "protocolVersion": "1.0",
        "capabilities": {"streaming": true}, "defaultInputModes": ["text/plain"], "defaultOutputModes": ["text/plain"],
        "skills": [{"id": "s", "name": "S", "description": "d", "tags": ["t"]}],
        "signatures": [{
            "protected": "eyJhbGciOiJFZERTQSIsImtpZCI6ImsifQ",
            "signature": "ThK_bkjUqwWxOPNpocYEnd-Dyli8Hl8fOrsIeqgtoKXEUdMuPNo9RRxV5tQglfBOYBOrvqUc5Cdw8XKng311Ag",
        }],
    })
}

/// The key of that signature.
fn signer() -> String {
    let x = "6kpsY-KcUgq-9VB7Ey7F-ZVHdq6-vnuSQh7qaRRG0iw";
    json!({"keys": [{"kty": "OKP", "crv": "Ed25519", "kid": "k", "x": x}]}).to_string()
}

fn send(desk: &CommandDirectory, url: &str, more: &[&str]) -> CommandOutput {
    desk.run(&[&["send", "hi", "-a", url, "-o", "json"], more].concat())
}

#[track_caller]
fn refused(ran: &CommandOutput, why: &str) {
    assert_eq!(ran.code, 1, "{ran:#?}");
    let error = &ran.json()["error"];
    assert_eq!(error["code"], "A2ACLI_ERR_CARD_INVALID", "{ran:#?}");
    assert!(error["message"].as_str().unwrap().contains(why), "{ran:#?}");
}

/// The number of tasks of a server; it is 0 if the agent was never called.
fn tasks(desk: &CommandDirectory, url: &str) -> usize {
    desk.run(&["task", "list", "-a", url, "-o", "json"]).json()["tasks"].as_array().unwrap().len()
}

#[test]
fn an_agent_without_a_signed_card_is_called_unless_one_is_required() {
    let desk = CommandDirectory::new();
    let (_server, url) = demo(&[]);
    refused(&send(&desk, &url, &["--card-trust", "require"]), "it is not signed");
    refused(
        &desk.run(&["task", "get", "t-1", "-a", &url, "-o", "json", "--card-trust", "require"]),
        "it is not signed",
    );
    assert_eq!(tasks(&desk, &url), 0);
    // Looking is always possible.
    desk.run(&["card", "get", "-a", &url, "--card-trust", "require"]).expect_success();
    send(&desk, &url, &["--card-trust", "if-present"]).expect_success();
    let wrong = send(&desk, &url, &["--card-trust", "perhaps"]);
    assert_eq!(wrong.code, 2, "{wrong:#?}");
}

#[test]
fn a_signed_card_is_believed_by_the_roots_that_are_configured() {
    let desk = CommandDirectory::new();
    let (server, url) = demo(&["--sign"]);
    let keys = server.ask(&Request::get("/.well-known/jwks.json")).text();
    std::fs::write(desk.path("keys.json"), &keys).unwrap();
    let other = json!({"keys": [{"kty": "OKP", "crv": "Ed25519", "kid": "other",
        "x": "11qYAYKxCrfVS_7TyWQHOg7hcvPapiMlrwIaaPcHURo"}]});
    std::fs::write(desk.path("other.json"), other.to_string()).unwrap();
    let host_keys = keys.clone();
    let registry = stub_agent::serve(move |asked| match asked.path.as_str() {
        "/agents/127.0.0.1" => (200, "application/json", host_keys.clone()),
        _ => (404, "text/plain", "nobody".into()),
    });
    let require = &["--card-trust", "require"][..];
    let with = |more: &[&str]| send(&desk, &url, &[require, more].concat());
    with(&["--trusted-keys", "other.json", "--trusted-keys", "keys.json"]).expect_success();
    with(&["--key-registry", &format!("{registry}/agents")]).expect_success();
    let before = tasks(&desk, &url);
    refused(&with(&[]), "is not known");
    refused(&with(&["--trusted-keys", "other.json"]), "is not known");
    refused(&with(&["--key-registry", &registry]), "could not be read");
    refused(&send(&desk, &url, &["--card-trust", "if-present", "--trusted-keys", "other.json"]), "is not known");
    assert_eq!(tasks(&desk, &url), before);
    let missing = with(&["--trusted-ca", "no-such-file.pem"]);
    assert_eq!(missing.code, 2, "{missing:#?}");
    // From the environment as from the command line.
    let mut command = desk.command(&["send", "hi", "-a", &url, "-o", "json"]);
    command.env("A2ACLI_CARD_TRUST", "require").env("A2ACLI_TRUSTED_KEYS", "other.json");
    refused(&crate::command_runner::wait_for_exit(command.spawn().unwrap()), "is not known");
    let shown: Value = desk.run(&["config", "show", "-o", "json", "--card-trust", "require"]).json();
    assert!(shown.to_string().contains("card-trust"), "{shown}");
}

#[test]
fn a_card_that_was_pointed_elsewhere_is_not_verified() {
    let desk = CommandDirectory::new();
    let called = Arc::new(AtomicUsize::new(0));
    let counted = called.clone();
    let evil = stub_agent::serve(move |_| {
        counted.fetch_add(1, Ordering::SeqCst);
        (200, "application/json", "{}".into())
    });
    std::fs::write(desk.path("keys.json"), signer()).unwrap();
    let mut listed = misdirected_card(&evil);
    for name in ["url", "protocolVersion"] {
        listed.as_object_mut().unwrap().remove(name);
    }
    listed["supported_interfaces"] = json!([{"url": evil, "protocolBinding": "JSONRPC", "protocolVersion": "1.0"}]);
    let uncovered = "its signature holds, but does not cover where the agent is";
    for card in [misdirected_card(&evil), listed] {
        std::fs::write(desk.path("card.json"), card.to_string()).unwrap();
        let ran = desk.run(&["card", "verify", "./card.json", "--jwks", "keys.json", "-o", "json"]);
        assert_eq!(ran.code, 1, "{ran:#?}");
        assert!(ran.json()["error"]["message"].as_str().unwrap().contains(uncovered), "{ran:#?}");
        let trusting = ["--trusted-keys", "keys.json"];
        let shown = desk.run(&[&["card", "get", "-a", "./card.json"][..], &trusting].concat());
        assert!(shown.stdout.contains(&format!("unverifiable: {uncovered}")), "{shown:#?}");
        assert!(shown.stderr.contains("cannot be trusted"), "{shown:#?}");
        for mode in ["if-present", "require"] {
            let asked = [&trusting[..], &["--card-trust", mode]].concat();
            refused(&send(&desk, "./card.json", &asked), uncovered);
            let login = ["auth", "login", "-a", "./card.json", "--client-id", "c", "-o", "json"];
            refused(&desk.run(&[&login[..], &asked].concat()), uncovered);
            let call = ["call", "-a", "./card.json", "message/send", "{}", "-o", "json"];
            assert_ne!(desk.run(&[&call[..], &asked].concat()).code, 0);
        }
    }
    assert_eq!(called.load(Ordering::SeqCst), 0);
}

#[test]
fn of_a_verified_card_only_what_was_signed_is_shown_and_used() {
    let desk = CommandDirectory::new();
    let (server, url) = demo(&["--sign"]);
    std::fs::write(desk.path("keys.json"), server.ask(&Request::get("/.well-known/jwks.json")).text()).unwrap();
    let card = server.ask(&Request::get("/.well-known/agent-card.json")).text();
    let trusting = ["--trusted-keys", "keys.json", "--card-trust", "require"];
    let get = |name: &str| desk.run(&[&["card", "get", "-a", name, "-o", "json"][..], &trusting].concat());
    std::fs::write(desk.path("card.json"), &card).unwrap();
    let genuine = get("./card.json");
    assert!(genuine.stderr.contains("Signature: verified"), "{genuine:#?}");
    // Members that the SDKs do not sign, and that one of the signatures therefore bears.
    let mut tampered: Value = serde_json::from_str(&card).unwrap();
    tampered["documentation_url"] = json!("https://evil.example/");
    tampered["xpr:account"] = json!("evil");
    tampered["url"] = json!("https://evil.example/");
    std::fs::write(desk.path("tampered.json"), tampered.to_string()).unwrap();
    let cleaned = get("./tampered.json");
    assert!(cleaned.stderr.contains("Signature: verified"), "{cleaned:#?}");
    assert!(!format!("{cleaned:?}").contains("evil"), "{cleaned:#?}");
    assert_eq!(cleaned.json()["supportedInterfaces"], genuine.json()["supportedInterfaces"]);
    send(&desk, "./tampered.json", &trusting).expect_success();
    // What was shown is a card that verifies again.
    std::fs::write(desk.path("again.json"), &cleaned.stdout).unwrap();
    desk.run(&["card", "verify", "./again.json", "--jwks", "keys.json"]).expect_success();
    assert_eq!(tasks(&desk, &url), 1);
}

#[test]
fn a_checkout_does_not_say_whom_to_believe() {
    let desk = CommandDirectory::new();
    let (server, url) = demo(&["--sign"]);
    let (_unsigned, other) = demo(&[]);
    let mine = json!({"keys": [{"kty": "OKP", "crv": "Ed25519", "kid": "other",
        "x": "11qYAYKxCrfVS_7TyWQHOg7hcvPapiMlrwIaaPcHURo"}]});
    std::fs::write(desk.path("mine.json"), mine.to_string()).unwrap();
    std::fs::write(desk.path("theirs.json"), server.ask(&Request::get("/.well-known/jwks.json")).text()).unwrap();
    std::fs::create_dir_all(desk.path(".config/a2a-cli")).unwrap();
    std::fs::write(desk.path(".config/a2a-cli/.env"), "A2ACLI_CARD_TRUST=require\nA2ACLI_TRUSTED_KEYS=mine.json")
        .unwrap();
    std::fs::write(desk.path(".env"), "A2ACLI_CARD_TRUST=off\nA2ACLI_TRUSTED_KEYS=theirs.json").unwrap();
    let ran = send(&desk, &url, &[]);
    refused(&ran, "is not known");
    for variable in ["A2ACLI_CARD_TRUST", "A2ACLI_TRUSTED_KEYS"] {
        assert!(ran.stderr.contains(&format!("({variable}), which is ignored")), "{ran:#?}");
    }
    send(&desk, &url, &["--config", ".env"]).expect_success();
    // More may be asked.
    std::fs::remove_file(desk.path(".config/a2a-cli/.env")).unwrap();
    std::fs::write(desk.path(".env"), "A2ACLI_CARD_TRUST=require").unwrap();
    refused(&send(&desk, &other, &[]), "it is not signed");
}
