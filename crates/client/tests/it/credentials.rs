//! The requests that carry credentials, and those that must not.

use crate::stub::{RecordedObservations, StubAction, StubServer, card, client, task};
use sabir_client::{Credentials, Error, Secret, TransportCode};
use std::sync::Arc;

const BEARER: &str = r#","securitySchemes":{"b":{"httpAuthSecurityScheme":{"scheme":"Bearer"}}},"securityRequirements":[{"schemes":{"b":{}}}]"#;

fn token() -> Credentials {
    Credentials { bearer: Some(Secret::new("test-token-0123456789")), ..Credentials::default() }
}

async fn get(stub: &StubServer, credentials: Credentials) -> Result<(), Error> {
    let agent = client().credentials(credentials).build()?.connect(&stub.url.parse()?).await?;
    agent.task(&sabir_proto::TaskRef::parse("t-1").unwrap()).await.map(drop)
}

#[tokio::test]
async fn a_card_is_read_without_any_credential_and_a_call_carries_it() {
    let stub = StubServer::start(|base| card(base, "{}", BEARER), |_, _| StubAction::Result(task("WORKING"))).await;
    let notes = Arc::new(RecordedObservations::default());
    let client = client().credentials(token()).header("x-team", "test-blue").observer(notes.clone()).build().unwrap();
    let agent = client.connect(&stub.url.parse().unwrap()).await.unwrap();
    agent.task(&sabir_proto::TaskRef::parse("t-1").unwrap()).await.unwrap();
    let heard = stub.requests();
    assert!(heard[0].header("authorization").is_none() && heard[0].header("x-team").is_none(), "{}", heard[0].head);
    assert_eq!(heard[1].header("authorization").as_deref(), Some("Bearer test-token-0123456789"));
    assert_eq!(heard[1].header("x-team").as_deref(), Some("test-blue"));
    assert_eq!(heard[1].header("a2a-version").as_deref(), Some("1.0"));
    let notes = notes.0.lock().unwrap().join("\n");
    assert!(!notes.contains("test-token-0123456789"), "{notes}");
}

#[tokio::test]
async fn what_the_card_demands_is_missed_before_anything_is_sent() {
    let stub = StubServer::start(|base| card(base, "{}", BEARER), |_, _| StubAction::Result(task("WORKING"))).await;
    let error = get(&stub, Credentials::default()).await.unwrap_err();
    assert!(matches!(&error, Error::CredentialsMissing { transport: None, .. }), "{error:?}");
    assert!(stub.calls().is_empty());
}

#[tokio::test]
async fn shut_doors_are_told_apart_by_what_was_shown() {
    let shut =
        || StubServer::start(|base| card(base, "{}", ""), |_, _| StubAction::Answer(401, String::new(), String::new()));
    let error = get(&shut().await, Credentials::default()).await.unwrap_err();
    assert!(matches!(&error, Error::CredentialsMissing { transport: Some(TransportCode::Http(401)), .. }), "{error:?}");
    let error = get(&shut().await, token()).await.unwrap_err();
    assert!(matches!(&error, Error::AuthFailed { .. }), "{error:?}");
}

#[tokio::test]
async fn a_call_never_follows_a_redirect_with_its_credential() {
    let thief = StubServer::agent(|_, _| StubAction::Result(task("WORKING"))).await;
    let location = format!("location: {}/rpc\r\n", thief.url);
    let stub = StubServer::start(
        |base| card(base, "{}", BEARER),
        move |_, _| StubAction::Answer(307, location.clone(), String::new()),
    )
    .await;
    let error = get(&stub, token()).await.unwrap_err();
    assert!(error.to_string().contains("redirects"), "{error}");
    assert!(thief.requests().is_empty());
}

#[tokio::test]
async fn an_inner_address_on_a_card_is_refused_when_it_is_dialled() {
    let stub = StubServer::agent(|_, _| StubAction::Result(task("WORKING"))).await;
    let file = tempfile::NamedTempFile::new().unwrap();
    std::fs::write(file.path(), card(&stub.url, "{}", "")).unwrap();
    // The card is a file, so only the call would connect.
    let client = sabir_client::Client::builder().build().unwrap();
    let agent = client.connect(&file.path().display().to_string().parse().unwrap()).await.unwrap();
    let error = agent.task(&sabir_proto::TaskRef::parse("t-1").unwrap()).await.unwrap_err();
    assert!(matches!(&error, Error::Refused(_)), "{error:?}");
    let named = card(&stub.url.replace("127.0.0.1", "localhost"), "{}", "");
    std::fs::write(file.path(), named).unwrap();
    let agent = client.connect(&file.path().display().to_string().parse().unwrap()).await.unwrap();
    let error = agent.task(&sabir_proto::TaskRef::parse("t-1").unwrap()).await.unwrap_err();
    assert!(matches!(&error, Error::Refused(_)), "a name is judged by where it leads: {error:?}");
    assert!(stub.requests().is_empty());
}

#[tokio::test]
async fn a_redirect_is_told_without_the_key_that_it_repeats() {
    let scheme = r#","securitySchemes":{"k":{"apiKeySecurityScheme":{"location":"query","name":"key"}}},"securityRequirements":[{"schemes":{"k":{}}}]"#;
    let stub = StubServer::start(
        move |base| card(base, "{}", scheme),
        |_, heard| {
            let path = heard.line.split(' ').nth(1).unwrap().to_owned();
            StubAction::Answer(308, format!("location: https://elsewhere.test{path}\r\n"), String::new())
        },
    )
    .await;
    let held = Credentials { api_key: Some(Secret::new("short")), ..Credentials::default() };
    let error = get(&stub, held).await.unwrap_err();
    assert!(error.to_string().contains("elsewhere.test/rpc") && !error.to_string().contains("short"), "{error}");
}

#[tokio::test]
async fn an_older_agent_is_asked_for_extensions_by_their_older_name() {
    let old = |base: &str| {
        format!(
            r#"{{"name":"old","description":"d","version":"1","url":"{base}/rpc","protocolVersion":"0.3.0","preferredTransport":"JSONRPC",
            "capabilities":{{"extensions":[{{"uri":"urn:x"}}]}},"defaultInputModes":[],"defaultOutputModes":[],"skills":[]}}"#
        )
    };
    let stub = StubServer::start(old, |_, _| StubAction::Error(-32001, "none")).await;
    let builder =
        client().version(sabir_client::VersionPolicy::Any).extensions(["urn:x".into(), "urn:unknown-to-it".into()]);
    let agent = builder.build().unwrap().connect(&stub.url.parse().unwrap()).await.unwrap();
    let _ = agent.task(&sabir_proto::TaskRef::parse("t-1").unwrap()).await;
    let call = &stub.calls()[0];
    assert_eq!(call.header("x-a2a-extensions").as_deref(), Some("urn:x"));
    assert_eq!(call.header("a2a-extensions"), None);
}
