//! Calling as an account of XPR Network: what is signed, what is shown of it, and the jobs that messages belong to.

use crate::command_runner::{CommandDirectory, CommandOutput, demo, wait_for_exit};
use crate::stub_agent::{self, card};
use crate::test_server::{AGENTS, TestServer};
use crate::upstream_credentials;
use serde_json::{Value, json};
use std::sync::{Arc, Mutex};

/// A throwaway key.
const KEY: &str = "5JMh46ekRfmbmxY2UszYX2uHWTGdWrBBMyeaXYBbRnpnhMBSENU";

fn signed(desk: &CommandDirectory, arguments: &[&str]) -> CommandOutput {
    let mut command = desk.command(arguments);
    wait_for_exit(command.env("XPR_PRIVATE_KEY", format!("{KEY}\n")).spawn().unwrap())
}

/// The requests that were received: the account, the signature, the body.
type SignedRequests = Arc<Mutex<Vec<(String, String, Value)>>>;

/// An agent that completes whatever it is asked.
fn agent(card: fn(&str) -> String) -> (String, SignedRequests) {
    let heard = SignedRequests::default();
    let log = heard.clone();
    let at = Arc::new(Mutex::new(String::new()));
    let place = at.clone();
    let url = stub_agent::serve(move |asked| {
        if asked.path.contains("/.well-known/") {
            let found = asked.path.ends_with("agent-card.json");
            return (if found { 200 } else { 404 }, "application/json", card(&place.lock().unwrap()));
        }
        let header = |name: &str| asked.header(name).unwrap_or_default().to_owned();
        let body = asked.json();
        let task = json!({"id": "t-1", "contextId": "c-1", "status": {"state": "completed"}});
        let result = if body["method"] == "message/send" {
            task
        } else {
            json!({"task": {"id": "t-1", "contextId": "c-1", "status": {"state": "TASK_STATE_COMPLETED"}}})
        };
        let answer = json!({"jsonrpc": "2.0", "id": body["id"], "result": result}).to_string();
        log.lock().unwrap().push((header("x-xpr-account"), header("x-xpr-signature"), body));
        (200, "application/json", answer)
    });
    at.lock().unwrap().clone_from(&url);
    (url, heard)
}

fn xpr_card(url: &str) -> String {
    json!({
        "name": "Bob", "description": "", "url": url, "version": "1.0.0",
        "capabilities": {"streaming": false, "pushNotifications": false, "stateTransitionHistory": false},
        "defaultInputModes": ["text"], "defaultOutputModes": ["text"],
        "skills": [{"id": "general", "name": "general", "description": "general capability", "tags": ["general"]}],
        "xpr:account": "bob", "xpr:protocol": "https", "xpr:registeredAt": 0
    })
    .to_string()
}

#[test]
fn a_call_is_signed_and_nothing_that_could_be_sent_again_is_shown() {
    let desk = CommandDirectory::new();
    let (url, heard) = agent(card);
    let ran = signed(
        &desk,
        &["send", "hi", "-a", &url, "--xpr-account", "alice", "--job-id", "42", "--debug", "--curl", "--verbose"],
    );
    ran.expect_success();
    let heard = heard.lock().unwrap().clone();
    let (account, signature, body) = &heard[0];
    assert_eq!(account, "alice");
    assert!(signature.starts_with("SIG_K1_"), "{signature}");
    assert_eq!(body["params"]["message"]["metadata"], json!({"xpr:jobId": 42}));
    let shown = format!("{}{}", ran.stdout, ran.stderr);
    assert!(shown.contains("x-xpr-account: alice") && shown.contains("$X_XPR_SIGNATURE"), "{shown}");
    assert!(!shown.contains("SIG_K1_") && !shown.contains(KEY), "{shown}");
}

#[test]
fn a_rehearsal_names_the_headers_and_signs_nothing() {
    let desk = CommandDirectory::new();
    let (url, heard) = agent(card);
    let arguments = ["send", "hi", "-a", &url, "--xpr-account", "alice", "--job-id", "42", "--dry-run"];
    let text = signed(&desk, &arguments);
    let json = signed(&desk, &[&arguments[..], &["-o", "json"]].concat());
    assert!(heard.lock().unwrap().is_empty());
    assert!(text.expect_success().contains("-H 'x-xpr-account: alice'"), "{}", text.stdout);
    assert!(text.stdout.contains("\"x-xpr-signature: $X_XPR_SIGNATURE\""), "{}", text.stdout);
    let headers = &json.json()["headers"];
    assert_eq!((&headers["x-xpr-account"], &headers["x-xpr-signature"]), (&json!("alice"), &json!("[redacted]")));
    assert_eq!(json.json()["body"]["params"]["message"]["metadata"]["xpr:jobId"], 42);
    for ran in [&text, &json] {
        assert!(!ran.stdout.contains("SIG_") && !ran.stdout.contains(KEY), "{}", ran.stdout);
    }
}

#[test]
fn in_xpr_the_job_stands_beside_the_message() {
    let desk = CommandDirectory::new();
    let (url, heard) = agent(xpr_card);
    let account = ["--xpr-account", "alice", "--a2a-version", "xpr"];
    let ran = signed(&desk, &[&["send", "hi", "-a", &url, "--job-id", "18446744073709551615"], &account[..]].concat());
    ran.expect_success();
    assert!(!ran.stderr.contains("security scheme"), "signing is how these agents are called: {}", ran.stderr);
    let (_, signature, body) = heard.lock().unwrap()[0].clone();
    assert!(signature.starts_with("SIG_K1_"));
    assert_eq!(body["params"]["metadata"], json!({"xpr:jobId": u64::MAX}));
    assert_eq!(body["params"]["message"]["metadata"], Value::Null);
}

#[test]
fn an_account_needs_a_key_that_can_be_read_and_a_body_to_sign() {
    let desk = CommandDirectory::new();
    let (url, heard) = agent(card);
    let wrong = |key: Option<&str>, more: &[&str]| {
        let mut command = desk.command(&[&["send", "hi", "-a", &url, "-o", "json"], more].concat());
        command.env_remove("XPR_PRIVATE_KEY");
        key.map(|key| command.env("XPR_PRIVATE_KEY", key));
        let ran = wait_for_exit(command.spawn().unwrap());
        assert_eq!(ran.code, 2, "{ran:#?}");
        assert!(!format!("{ran:?}").contains("5JMh46"), "{ran:#?}");
        format!("{}{}", ran.stdout, ran.stderr)
    };
    let alice = &["--xpr-account", "alice"][..];
    assert!(wrong(None, alice).contains("XPR_PRIVATE_KEY"));
    assert!(wrong(Some(&KEY.replace('U', "V")), alice).contains("cannot be read"));
    assert!(wrong(Some(KEY), &["--xpr-account", "Alice!"]).contains("not an account name"));
    assert!(wrong(None, &["--job-id", "none"]).contains("job-id"));
    assert!(heard.lock().unwrap().is_empty());
    let grpc = desk.path("grpc.json");
    std::fs::write(&grpc, card(&url).replace("JSONRPC", "GRPC")).unwrap();
    let ran = signed(&desk, &["send", "hi", "-a", grpc.to_str().unwrap(), "--xpr-account", "alice", "-o", "json"]);
    assert_eq!(ran.code, 2, "{ran:#?}");
    assert!(format!("{ran:?}").contains("gRPC"), "{ran:#?}");
}

#[test]
fn the_tasks_of_a_job_are_found_on_every_page() {
    let desk = CommandDirectory::new();
    let (_server, url) = demo(&[]);
    let send = |text: &str, more: &[&str]| {
        let ran = desk.run(&[&["send", text, "-a", &url, "-o", "json"], more].concat());
        ran.expect_success();
        ran.json()["task"]["id"].as_str().unwrap().to_owned()
    };
    let first = send("one", &["--job-id", "42"]);
    send("two", &[]);
    send("three", &["--job-id", "421"]);
    let last = send("four", &["--job-id", "42"]);
    let ids = |more: &[&str]| {
        let ran = desk.run(&[&["task", "list", "-a", &url, "-o", "json", "--job", "42"], more].concat());
        ran.expect_success();
        let list = ran.json();
        assert_eq!((&list["totalSize"], &list["nextPageToken"]), (&json!(2), &json!("")), "{list}");
        list["tasks"].as_array().unwrap().iter().map(|task| task["id"].as_str().unwrap().to_owned()).collect::<Vec<_>>()
    };
    assert_eq!(ids(&[]), [last.clone(), first.clone()]);
    assert_eq!(ids(&["--page-size", "1"]), [last.clone(), first.clone()]);
    assert_eq!(ids(&["--all"]), [last, first]);
    let text = desk.run(&["task", "list", "-a", &url, "--job", "42"]);
    assert_eq!(text.fields("Total"), ["2"], "{text:#?}");
    let none = desk.run(&["task", "list", "-a", &url, "-o", "json", "--job", "7"]);
    assert_eq!(none.json()["tasks"], json!([]));
}

#[test]
fn a_search_without_end_ends_and_says_where_it_stopped() {
    let desk = CommandDirectory::new();
    let at = Arc::new(Mutex::new(String::new()));
    let place = at.clone();
    // Every page has a task of the job, and another page after it.
    let url = stub_agent::serve(move |asked| {
        if asked.path.contains("/.well-known/") {
            return (200, "application/json", card(&place.lock().unwrap()));
        }
        let body = asked.json();
        assert_eq!(body["params"]["pageSize"], 100);
        let page: usize = body["params"]["pageToken"].as_str().and_then(|token| token.parse().ok()).unwrap_or(0);
        let task = json!({"id": format!("t-{page}"), "contextId": "c", "metadata": {"xpr:jobId": "42"},
            "status": {"state": "TASK_STATE_COMPLETED"}});
        let list =
            json!({"tasks": [task], "nextPageToken": (page + 1).to_string(), "pageSize": 100, "totalSize": 9999});
        (200, "application/json", json!({"jsonrpc": "2.0", "id": body["id"], "result": list}).to_string())
    });
    at.lock().unwrap().clone_from(&url);
    let ran = desk.run(&["task", "list", "-a", &url, "-o", "json", "--job", "42"]);
    ran.expect_success();
    let list = ran.json();
    assert_eq!((list["tasks"].as_array().unwrap().len(), &list["nextPageToken"]), (100, &json!("100")));
    assert!(ran.stderr.contains("--page-token 100"), "{}", ran.stderr);
}

#[test]
fn a_card_is_shown_with_the_account_of_its_agent_and_how_far_it_can_be_trusted() {
    fn trusted_card(url: &str) -> String {
        let mut card: Value = serde_json::from_str(&xpr_card(url)).unwrap();
        card["xpr:registeredAt"] = json!(1_700_000_000);
        (card["xpr:trustScore"], card["xpr:kycLevel"], card["xpr:owner"]) = (json!(76), json!(2), json!("carol"));
        card.to_string()
    }
    let desk = CommandDirectory::new();
    let (url, _) = agent(trusted_card);
    let ran = desk.run(&["card", "get", "-a", &url, "-o", "text"]);
    let lines: Vec<&str> = ran.expect_success().lines().skip_while(|line| !line.starts_with("XPR account")).collect();
    assert_eq!(
        lines,
        [
            "XPR account: bob",
            "XPR protocol: https",
            "Trust score: 76",
            "KYC level: 2",
            "Owner: carol",
            "Registered: 2023-11-14T22:13:20.000Z",
            "Signature: absent"
        ]
    );
    let card = desk.run(&["card", "get", "-a", &url, "-o", "json"]).json();
    assert_eq!(
        (&card["xpr:account"], &card["xpr:trustScore"], &card["xpr:kycLevel"], &card["xpr:owner"]),
        (&json!("bob"), &json!(76), &json!(2), &json!("carol")),
        "{card}"
    );
    assert!(card["supportedInterfaces"].is_array(), "{card}");
    // A card without an account is shown as ever.
    let (plain, _) = agent(card_without_account);
    assert!(!desk.run(&["card", "get", "-a", &plain, "-o", "text"]).expect_success().contains("XPR"));
}

fn card_without_account(url: &str) -> String {
    crate::stub_agent::card(url)
}

/// Makes a signed call to an agent of a server, and gives the result of the answer.
#[track_caller]
fn signed_call(desk: &CommandDirectory, sabir: &TestServer, account: &str, method: &str, params: &str) -> Value {
    let version = if method.contains('/') { "xpr" } else { "1.0" };
    let url = format!("http://{}", sabir.address);
    let mut command = desk.command(&[
        "call",
        "-a",
        &url,
        method,
        "--data",
        params,
        "--xpr-account",
        account,
        "--a2a-version",
        version,
        "-o",
        "json",
    ]);
    let ran = wait_for_exit(command.env("XPR_PRIVATE_KEY", upstream_credentials::KEY).spawn().unwrap());
    assert_eq!(ran.code, 0, "{ran:#?}");
    let mut answer = ran.json();
    assert!(answer.get("error").is_none(), "{answer}");
    if answer.get("result").is_some() { answer["result"].take() } else { answer }
}

#[test]
fn the_account_that_agents_read_is_the_one_whose_signature_was_checked() {
    let desk = CommandDirectory::new();
    let chain = upstream_credentials::chain();
    let sabir = TestServer::start(&format!(
        "{AGENTS}\n[auth]\naccept = [\"xpr\"]\n[auth.xpr]\nrpc_url = \"{chain}\"\nregistration = false\n"
    ));
    let heard = |account: &str, id: &Value| {
        let task = signed_call(&desk, &sabir, account, "GetTask", &json!({"id": id}).to_string());
        task["history"][0]["metadata"].clone()
    };
    let of_alice = json!({"xpr:callerAccount": "alice", "xpr:jobId": 42});
    // In 1.0 beside other metadata, as it is and with escapes in its name.
    for claim in [
        r#"{"xpr:callerAccount": "bob", "xpr:jobId": 42}"#,
        r#"{"xpr:caller\u0041ccount": "bob", "xpr:jobId": 42}"#,
        r#"{"xpr:callerAccount": {"name": "bob"}, "xpr:jobId": 42}"#,
        r#"{"xpr:jobId": 42}"#,
    ] {
        let params = format!(
            r#"{{"message": {{"messageId": "m-{}", "role": "ROLE_USER", "parts": [{{"text": "hi"}}], "metadata": {claim}}}, "metadata": {claim}}}"#,
            claim.len()
        );
        let sent = signed_call(&desk, &sabir, "alice", "SendMessage", &params);
        assert_eq!(heard("alice", &sent["task"]["id"]), of_alice, "{claim}: {sent}");
    }
    // Another account with its own signature is named by that.
    let params = r#"{"message": {"messageId": "m-bob", "role": "ROLE_USER", "parts": [{"text": "hi"}], "metadata": {"xpr:callerAccount": "alice"}}}"#;
    let sent = signed_call(&desk, &sabir, "bob", "SendMessage", params);
    assert_eq!(heard("bob", &sent["task"]["id"]), json!({"xpr:callerAccount": "bob"}));
    // Where XPR has it: beside the message.
    let params = r#"{"message": {"role": "user", "parts": [{"type": "text", "text": "hi"}]}, "xpr:callerAccount": "bob", "metadata": {"xpr:jobId": 42}}"#;
    let sent = signed_call(&desk, &sabir, "alice", "message/send", params);
    assert_eq!(heard("alice", &sent["id"]), of_alice, "{sent}");
    assert_eq!(sent["owner"], "alice", "{sent}");
}
