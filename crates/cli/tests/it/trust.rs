//! Cards that are believed, and those whose agents are not called.

use crate::http::Request;
use crate::stub;
use crate::tool::{Desk, Ran, demo};
use serde_json::{Value, json};

fn send(desk: &Desk, url: &str, more: &[&str]) -> Ran {
    desk.run(&[&["send", "hi", "-a", url, "-o", "json"], more].concat())
}

#[track_caller]
fn refused(ran: &Ran, why: &str) {
    assert_eq!(ran.code, 1, "{ran:#?}");
    let error = &ran.json()["error"];
    assert_eq!(error["code"], "A2ACLI_ERR_CARD_INVALID", "{ran:#?}");
    assert!(error["message"].as_str().unwrap().contains(why), "{ran:#?}");
}

/// The tasks of a server; nobody was called if there are none.
fn tasks(desk: &Desk, url: &str) -> usize {
    desk.run(&["task", "list", "-a", url, "-o", "json"]).json()["tasks"].as_array().unwrap().len()
}

#[test]
fn an_agent_without_a_signed_card_is_called_unless_one_is_required() {
    let desk = Desk::new();
    let (_server, url) = demo(&[]);
    refused(&send(&desk, &url, &["--card-trust", "require"]), "it is not signed");
    refused(
        &desk.run(&["task", "get", "t-1", "-a", &url, "-o", "json", "--card-trust", "require"]),
        "it is not signed",
    );
    assert_eq!(tasks(&desk, &url), 0);
    // Looking is always possible.
    desk.run(&["card", "get", "-a", &url, "--card-trust", "require"]).ok();
    send(&desk, &url, &["--card-trust", "if-present"]).ok();
    let wrong = send(&desk, &url, &["--card-trust", "perhaps"]);
    assert_eq!(wrong.code, 2, "{wrong:#?}");
}

#[test]
fn a_signed_card_is_believed_by_the_roots_that_are_configured() {
    let desk = Desk::new();
    let (server, url) = demo(&["--sign"]);
    let keys = server.ask(&Request::get("/.well-known/jwks.json")).text();
    std::fs::write(desk.path("keys.json"), &keys).unwrap();
    let other = json!({"keys": [{"kty": "OKP", "crv": "Ed25519", "kid": "other",
        "x": "11qYAYKxCrfVS_7TyWQHOg7hcvPapiMlrwIaaPcHURo"}]});
    std::fs::write(desk.path("other.json"), other.to_string()).unwrap();
    let host_keys = keys.clone();
    let registry = stub::serve(move |asked| match asked.path.as_str() {
        "/agents/127.0.0.1" => (200, "application/json", host_keys.clone()),
        _ => (404, "text/plain", "nobody".into()),
    });
    let require = &["--card-trust", "require"][..];
    let with = |more: &[&str]| send(&desk, &url, &[require, more].concat());
    with(&["--trusted-keys", "other.json", "--trusted-keys", "keys.json"]).ok();
    with(&["--key-registry", &format!("{registry}/agents")]).ok();
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
    refused(&crate::tool::finished(command.spawn().unwrap()), "is not known");
    let shown: Value = desk.run(&["config", "show", "-o", "json", "--card-trust", "require"]).json();
    assert!(shown.to_string().contains("card-trust"), "{shown}");
}
