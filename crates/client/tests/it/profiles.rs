//! Vendors whose cards are at other paths, and need credentials.

use crate::stub::{RecordedRequest, StubAction, StubServer, card, client, task};
use http::HeaderMap;
use http::header::AUTHORIZATION;
use sabir_client::{AuthHeadersFuture, Credentials, Error, RequestCredential, Secret, UnsentRequest, VendorProfile};
use sabir_proto::TaskRef;
use sabir_proto::card::SecurityScheme;
use sabir_wire::Dialect;
use std::pin::Pin;
use std::sync::Arc;
use std::sync::atomic::{AtomicUsize, Ordering};

const TOKEN: &str = "Bearer test-token-0123456789";

fn token() -> Credentials {
    Credentials { bearer: Some(Secret::new("test-token-0123456789")), ..Credentials::default() }
}

fn key() -> Credentials {
    Credentials { api_key: Some(Secret::new("test-key-0123456789")), ..Credentials::default() }
}

/// A server with its card at one path, which requires a header; every other request gets a task.
async fn vendor(place: &'static str, header: &'static str, value: &'static str) -> StubServer {
    let script = move |_: usize, heard: &RecordedRequest| {
        let path = heard.line.split(' ').nth(1).unwrap_or_default();
        match (heard.header(header).as_deref() == Some(value), path) {
            (false, _) => StubAction::Answer(401, String::new(), String::new()),
            (true, path) if path == place => {
                let json = card(&format!("http://{}", heard.header("host").unwrap()), "{}", "");
                StubAction::Answer(200, "content-type: application/json\r\n".into(), json)
            }
            (true, "/rpc") => StubAction::Result(task("WORKING")),
            (true, _) => StubAction::Answer(404, String::new(), String::new()),
        }
    };
    StubServer::bare(script).await
}

async fn ask(stub: &StubServer, path: &str, profile: &str, credentials: Credentials) -> Result<(), Error> {
    let profile = VendorProfile::by_name(profile).unwrap();
    let client = client().credentials(credentials).profile(profile).build()?;
    let agent = client.connect(&format!("{}{path}", stub.url).parse()?).await?;
    agent.task(&TaskRef::parse("t-1").unwrap()).await.map(drop)
}

#[tokio::test]
async fn a_card_is_found_and_an_agent_called_as_each_vendor_has_it() {
    for (profile, agent, place) in [
        ("foundry", "/agents/a/endpoint/protocols/a2a", "/agents/a/endpoint/protocols/a2a/agentCard/v1.0"),
        ("agent-engine", "/v1beta1/reasoningEngines/1/a2a", "/v1beta1/reasoningEngines/1/a2a/v1/card"),
        (
            "agentcore",
            "/runtimes/arn%3A1/invocations/?qualifier=prod",
            "/runtimes/arn%3A1/invocations/.well-known/agent-card.json?qualifier=prod",
        ),
    ] {
        let stub = vendor(place, "authorization", TOKEN).await;
        ask(&stub, agent, profile, token()).await.unwrap_or_else(|error| panic!("{profile}: {error}"));
        assert_eq!(stub.requests().len(), 2, "{profile}: one card, one call");
        // Without the profile the card is searched at other paths, and without credentials.
        let plain = ask(&stub, agent, "plain", token()).await.unwrap_err();
        assert!(matches!(plain, Error::CardForbidden { .. }), "{profile}: {plain}");
    }
}

#[tokio::test]
async fn a_key_goes_into_the_vendors_header_where_the_card_has_no_place_for_it() {
    let place = "/.well-known/agent-card.json?assistant_id=as-1";
    let stub = vendor(place, "x-api-key", "test-key-0123456789").await;
    ask(&stub, "/a2a/as-1", "langsmith", key()).await.unwrap();
    let calls = stub.requests();
    assert!(calls.iter().all(|call| call.header("authorization").is_none()));
    assert!(matches!(ask(&stub, "/a2a/as-1", "plain", key()).await, Err(Error::CardForbidden { .. })));
}

#[tokio::test]
async fn what_is_shown_for_a_card_goes_to_no_other_origin() {
    let thief = StubServer::agent(|_, _| StubAction::HangUp).await;
    let location = format!("location: {}/.well-known/agent-card.json\r\n", thief.url);
    let stub = StubServer::bare(move |_, _| StubAction::Answer(302, location.clone(), String::new())).await;
    let error = ask(&stub, "/a", "foundry", token()).await.unwrap_err();
    assert!(error.to_string().contains("another origin"), "{error}");
    assert!(thief.requests().is_empty());
}

#[tokio::test]
async fn where_there_is_no_card_the_vendors_dialect_is_spoken() {
    for (profile, dialect) in [("agent-native", Dialect::Native), ("xpr", Dialect::Xpr)] {
        let stub = StubServer::bare(|_, _| StubAction::Answer(404, String::new(), String::new())).await;
        let client =
            client().profile(VendorProfile::by_name(profile).unwrap()).version(sabir_client::VersionPolicy::Any);
        let agent = client.build().unwrap().connect(&stub.url.parse().unwrap()).await.unwrap();
        assert_eq!(agent.dialect(), dialect);
    }
}

/// Makes a new token whenever the last one was refused.
#[derive(Debug, Default)]
struct RenewingToken(AtomicUsize);

impl RequestCredential for RenewingToken {
    fn authorise<'a>(&'a self, _: UnsentRequest<'a>) -> AuthHeadersFuture<'a> {
        let token = format!("Bearer token-{}", self.0.load(Ordering::Relaxed));
        Box::pin(async move { Ok(HeaderMap::from_iter([(AUTHORIZATION, token.parse().unwrap())])) })
    }

    fn preview(&self) -> HeaderMap {
        HeaderMap::new()
    }

    fn satisfies(&self, _: &SecurityScheme) -> bool {
        false
    }

    fn on_rejected<'a>(&'a self, _: &'a HeaderMap) -> Pin<Box<dyn Future<Output = bool> + Send + 'a>> {
        self.0.fetch_add(1, Ordering::Relaxed);
        Box::pin(std::future::ready(true))
    }

    fn signs_bodies(&self) -> bool {
        false
    }
}

#[tokio::test]
async fn a_token_that_was_taken_back_is_made_anew_for_the_card_too() {
    let stub = vendor("/a/agentCard/v1.0", "authorization", "Bearer token-1").await;
    let credentials = Credentials { signer: Some(Arc::new(RenewingToken::default())), ..Credentials::default() };
    ask(&stub, "/a", "foundry", credentials).await.unwrap();
    assert_eq!(stub.requests().len(), 3, "the card twice, then the call");
}
