//! Per-request credentials: the bytes that they sign, how often they are made, and for which server.

use crate::stub::{
    RecordedObservations, RecordedRequest, StreamEnd, StubAction, StubServer, card, client, frame, status, task,
};
use sabir_client::native_token::NativeTokenIssuer;
use sabir_client::xpr::{XprAccount, XprSigner};
use sabir_client::{Credentials, Error, FollowOptions, Secret, VersionPolicy, text_message};
use sabir_proto::TaskRef;
use std::sync::Arc;
use std::time::{Duration, SystemTime, UNIX_EPOCH};

/// A throwaway key from the vectors.
const KEY: &str = "5JMh46ekRfmbmxY2UszYX2uHWTGdWrBBMyeaXYBbRnpnhMBSENU";
const BEARER: &str = r#","securitySchemes":{"b":{"httpAuthSecurityScheme":{"scheme":"Bearer"}}},"securityRequirements":[{"schemes":{"b":{}}}]"#;

fn alice() -> Credentials {
    let account = XprAccount::new("alice", &Secret::new(KEY)).unwrap();
    Credentials { signer: Some(Arc::new(account)), ..Credentials::default() }
}

/// The time of a request, which must be signed by alice over exactly the received bytes.
fn signed_at(heard: &RecordedRequest) -> i64 {
    let header = |name: &str| heard.header(name).unwrap_or_else(|| panic!("no {name}: {}", heard.head));
    let time: i64 = header("x-xpr-timestamp").parse().unwrap();
    let [account, _, signature] =
        XprSigner::new("alice", &Secret::new(KEY)).unwrap().headers(heard.body.as_bytes(), time);
    assert_eq!((header("x-xpr-account"), header("x-xpr-signature")), (account.1, signature.1));
    let now = i64::try_from(SystemTime::now().duration_since(UNIX_EPOCH).unwrap().as_secs()).unwrap();
    assert!((now - 30..=now + 5).contains(&time), "{time} at {now}");
    time
}

async fn get(stub: &StubServer, version: VersionPolicy) -> Result<(), Error> {
    let client = client().credentials(alice()).version(version).header("X-XPR-Account", "mallory").build()?;
    client.connect(&stub.url.parse()?).await?.task(&TaskRef::parse("t-1").unwrap()).await.map(drop)
}

/// A card with only this interface.
fn only(binding: &'static str) -> impl Fn(&str) -> String {
    move |base| card(base, r#"{"streaming":true}"#, "").replace("JSONRPC", binding)
}

#[tokio::test]
async fn the_bytes_that_leave_are_signed_and_a_card_is_read_by_nobody() {
    let stub = StubServer::agent(|_, _| StubAction::Result(task("WORKING"))).await;
    let notes = Arc::new(RecordedObservations::default());
    let client = client().credentials(alice()).observer(notes.clone()).build().unwrap();
    let agent = client.connect(&stub.url.parse().unwrap()).await.unwrap();
    agent.task(&TaskRef::parse("t-1").unwrap()).await.unwrap();
    let heard = stub.requests();
    assert!(!heard[0].head.to_ascii_lowercase().contains("x-xpr"), "{}", heard[0].head);
    signed_at(&heard[1]);
    let signature = heard[1].header("x-xpr-signature").unwrap();
    let notes = notes.0.lock().unwrap().join("\n");
    assert!(!notes.contains(&signature) && !notes.contains(KEY), "{notes}");
    // A preview signs nothing.
    let call = sabir_proto::Call::Send(Box::new(text_message("x")));
    let written = agent.preview(call).unwrap();
    assert_eq!(written.headers["x-xpr-account"], "alice");
    assert!(written.headers["x-xpr-signature"].is_sensitive());
    assert!(!written.headers["x-xpr-signature"].to_str().unwrap().starts_with("SIG_"));
}

#[tokio::test]
async fn every_dialect_is_signed_alike_and_no_parameter_takes_the_place() {
    let old = |base: &str, more: &str| {
        format!(
            r#"{{"name":"old","description":"d","version":"1","url":"{base}/a2a","capabilities":{{}},"defaultInputModes":["text"],
            "defaultOutputModes":["text"],"skills":[]{more}}}"#
        )
    };
    for (name, more) in [
        ("0.3", r#","protocolVersion":"0.3.0","preferredTransport":"JSONRPC""#),
        ("0.2", ""),
        ("0.1", ""),
        ("agent-native", r#","protocolVersion":"0.3""#),
        ("xpr", r#","xpr:account":"bob","xpr:protocol":"https","xpr:registeredAt":0"#),
    ] {
        let stub = StubServer::start(move |base| old(base, more), |_, _| StubAction::Error(-32001, "none")).await;
        let error = get(&stub, VersionPolicy::Exactly(name.parse().unwrap())).await.unwrap_err();
        assert!(matches!(error, Error::Fault { .. }), "{name}: {error:?}");
        signed_at(&stub.calls()[0]);
    }
    for binding in ["JSONRPC", "HTTP+JSON"] {
        let stub = StubServer::start(only(binding), |_, heard| {
            if heard.body.is_empty() {
                StubAction::Answer(200, String::new(), task("WORKING"))
            } else {
                StubAction::Result(task("WORKING"))
            }
        })
        .await;
        get(&stub, VersionPolicy::Highest).await.unwrap();
        signed_at(&stub.calls()[0]);
    }
}

#[tokio::test]
async fn what_is_sent_again_is_signed_again_with_another_time() {
    let stub = StubServer::start(only("HTTP+JSON"), |number, heard| match number {
        0 => StubAction::Answer(415, String::new(), String::new()),
        _ => {
            assert_eq!(heard.header("content-type").as_deref(), Some("application/json"));
            let task = format!(r#"{{"task":{}}}"#, task("COMPLETED"));
            StubAction::Answer(200, "content-type: application/json\r\n".into(), task)
        }
    })
    .await;
    let client = client().credentials(alice()).build().unwrap();
    let agent = client.connect(&stub.url.parse().unwrap()).await.unwrap();
    agent.send(text_message("x")).await.unwrap();
    let calls = stub.calls();
    assert_eq!((calls.len(), &calls[0].body), (2, &calls[1].body));
    assert!(signed_at(&calls[1]) > signed_at(&calls[0]), "a replay could be refused");
}

#[tokio::test]
async fn a_stream_that_is_taken_up_again_is_signed_again() {
    let whole = || format!(r#"{{"task":{}}}"#, task("WORKING"));
    let stub = StubServer::agent(move |number, _| match number {
        0 => StubAction::Stream(vec![frame(Some(1), &whole())], StreamEnd::Break),
        _ => StubAction::Stream(vec![frame(Some(2), &status("COMPLETED"))], StreamEnd::End),
    })
    .await;
    let client = client().credentials(alice()).build().unwrap();
    let agent = client.connect(&stub.url.parse().unwrap()).await.unwrap();
    let follow = FollowOptions { reconnect_pause: Duration::from_millis(5), ..FollowOptions::default() };
    let mut events = agent.stream(text_message("x"), follow).await.unwrap();
    while let Some(event) = events.next().await {
        event.unwrap();
    }
    let calls = stub.calls();
    assert_eq!(calls.len(), 2);
    calls.iter().for_each(|call| _ = signed_at(call));
}

#[tokio::test]
async fn over_grpc_there_is_no_body_to_sign() {
    let stub = StubServer::start(only("GRPC"), |_, _| StubAction::HangUp).await;
    let error = get(&stub, VersionPolicy::Highest).await.unwrap_err();
    assert!(matches!(&error, Error::Usage(why) if why.contains("gRPC")), "{error:?}");
    assert!(stub.calls().is_empty());
}

#[tokio::test]
async fn a_signature_does_not_follow_a_redirect() {
    let thief = StubServer::agent(|_, _| StubAction::Result(task("WORKING"))).await;
    let location = format!("location: {}/rpc\r\n", thief.url);
    let stub = StubServer::agent(move |_, _| StubAction::Answer(307, location.clone(), String::new())).await;
    let error = get(&stub, VersionPolicy::Highest).await.unwrap_err();
    assert!(error.to_string().contains("redirects"), "{error}");
    assert!(thief.requests().is_empty());
}

#[tokio::test]
async fn an_account_may_sign_where_the_card_asks_for_something_else() {
    let stub = StubServer::start(|base| card(base, "{}", BEARER), |_, _| StubAction::Result(task("WORKING"))).await;
    let notes = Arc::new(RecordedObservations::default());
    let client = client().credentials(alice()).observer(notes.clone()).build().unwrap();
    let agent = client.connect(&stub.url.parse().unwrap()).await.unwrap();
    agent.task(&TaskRef::parse("t-1").unwrap()).await.unwrap();
    signed_at(&stub.calls()[0]);
    assert!(notes.0.lock().unwrap().iter().any(|note| note.contains("other security schemes")));
    // A client that holds the credential that the card asks for sends only that one.
    let both = Credentials { bearer: Some(Secret::new("test-token-0123456789")), ..alice() };
    let agent = client.agent_with(agent.discovered_card().clone(), &both).unwrap();
    agent.task(&TaskRef::parse("t-1").unwrap()).await.unwrap();
    let call = &stub.calls()[1];
    assert_eq!(call.header("authorization").as_deref(), Some("Bearer test-token-0123456789"));
    assert_eq!(call.header("x-xpr-signature"), None);
}

#[tokio::test]
async fn a_card_that_asks_for_a_signature_gets_one_and_no_key_in_its_place() {
    let xpr = r#","securitySchemes":{"k":{"apiKeySecurityScheme":{"location":"header","name":"X-API-Key"}},
        "xpr":{"apiKeySecurityScheme":{"location":"header","name":"X-XPR-Signature"}}},
        "securityRequirements":[{"schemes":{"xpr":{}}},{"schemes":{"k":{}}}]"#;
    let stub = StubServer::start(move |base| card(base, "{}", xpr), |_, _| StubAction::Result(task("WORKING"))).await;
    let key = Credentials { api_key: Some(Secret::new("test-key-0123456789")), ..Credentials::default() };
    for held in [alice(), key, Credentials { api_key: Some(Secret::new("test-key-0123456789")), ..alice() }] {
        let agent = client().credentials(held).build().unwrap().connect(&stub.url.parse().unwrap()).await.unwrap();
        agent.task(&TaskRef::parse("t-1").unwrap()).await.unwrap();
    }
    let calls = stub.calls();
    let keys = calls.iter().map(|call| call.header("x-api-key")).collect::<Vec<_>>();
    assert_eq!(keys, [None, Some("test-key-0123456789".to_owned()), None]);
    signed_at(&calls[0]);
    assert_eq!(calls[1].header("x-xpr-signature"), None);
    signed_at(&calls[2]);
}

#[tokio::test]
async fn an_agent_native_token_is_made_for_each_request() {
    let stub = StubServer::start(|base| card(base, "{}", BEARER), |_, _| StubAction::Result(task("WORKING"))).await;
    let issuer = NativeTokenIssuer::new("ana@acme.test", Some(Secret::new("shared-secret")));
    let credentials = Credentials { signer: Some(Arc::new(issuer)), ..Credentials::default() };
    let client = client().credentials(credentials).build().unwrap();
    let agent = client.connect(&stub.url.parse().unwrap()).await.unwrap();
    agent.task(&TaskRef::parse("t-1").unwrap()).await.unwrap();
    let token = stub.calls()[0].header("authorization").unwrap();
    assert!(token.starts_with("Bearer eyJhbGciOiJIUzI1NiJ9."), "{token}");
    assert!(stub.requests()[0].header("authorization").is_none());
}
