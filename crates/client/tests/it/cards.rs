//! How cards are found, and how other documents in their place are reported.

use crate::stub::{StubAction, StubServer, card, client};
use sabir_client::{AgentReference, Error};

async fn found_at(answer: impl Fn() -> StubAction + Send + Sync + 'static) -> Result<String, Error> {
    let stub = StubServer::agent(move |_, _| answer()).await;
    let reference: AgentReference = format!("{}/card.json", stub.url).parse().unwrap();
    client().build().unwrap().card(&reference).await.map(|f| f.card.name)
}

fn html(body: &str) -> StubAction {
    StubAction::Answer(200, "content-type: text/html\r\n".into(), body.into())
}

#[tokio::test]
async fn what_is_not_a_card_is_said_to_be_what_it_is() {
    // The stub serves the card at the well-known path below the URL.
    let stub = StubServer::start(|_| "<html>login</html>".into(), |_, _| html("<html>login</html>")).await;
    let error = client().build().unwrap().card(&stub.url.parse().unwrap()).await.unwrap_err();
    assert!(matches!(&error, Error::CardInvalid { .. }), "{error:?}");
    let huge =
        StubServer::start(|_| format!("{{\"name\":\"{}\"}}", "x".repeat(10 << 20)), |_, _| StubAction::HangUp).await;
    let error = client().build().unwrap().card(&huge.url.parse().unwrap()).await.unwrap_err();
    assert!(matches!(&error, Error::TooLarge { what: "the agent card", .. }), "{error:?}");
    let half = StubServer::start(|base| card(base, "{}", "")[..80].to_owned(), |_, _| StubAction::HangUp).await;
    let error = client().build().unwrap().card(&half.url.parse().unwrap()).await.unwrap_err();
    assert!(matches!(&error, Error::CardInvalid { .. }), "{error:?}");
}

#[tokio::test]
async fn an_agents_own_path_leads_to_the_card_below_it() {
    let name = found_at(|| StubAction::Answer(404, String::new(), String::new())).await.unwrap();
    assert_eq!(name, "stub");
}

#[tokio::test]
async fn a_card_never_follows_to_another_origin() {
    let target = StubServer::agent(|_, _| StubAction::HangUp).await;
    let location = format!("location: {}/.well-known/agent-card.json\r\n", target.url);
    let error = found_at(move || StubAction::Answer(302, location.clone(), String::new())).await.unwrap_err();
    assert!(error.to_string().contains("another origin"), "{error}");
    assert!(target.requests().is_empty());
}

#[tokio::test]
async fn a_card_is_kept_and_asked_for_by_its_tag() {
    let stub = StubServer::agent(|number, _| match number {
        0 => StubAction::Answer(
            200,
            "content-type: application/json\r\netag: \"v1\"\r\n".into(),
            card("http://h", "{}", ""),
        ),
        _ => StubAction::Answer(304, "etag: \"v1\"\r\n".into(), String::new()),
    })
    .await;
    let directory = tempfile::tempdir().unwrap();
    let client = client().cache(Some(directory.path().into())).build().unwrap();
    let reference: AgentReference = format!("{}/card.json", stub.url).parse().unwrap();
    client.card(&reference).await.unwrap();
    assert_eq!(client.card(&reference).await.unwrap().card.name, "stub");
    let calls = stub.calls();
    assert_eq!(calls[0].header("if-none-match"), None);
    assert_eq!(calls[1].header("if-none-match").as_deref(), Some("\"v1\""));
}

#[tokio::test]
async fn older_cards_are_found_at_their_older_place_and_not_spoken_to_unasked() {
    let old = r#"{"name":"old","description":"d","version":"1","url":"http://h/","protocolVersion":"0.3.0",
        "preferredTransport":"JSONRPC","capabilities":{},"defaultInputModes":["text/plain"],
        "defaultOutputModes":["text/plain"],"skills":[]}"#;
    let stub = StubServer::start(|_| String::new(), move |_, _| StubAction::HangUp).await;
    drop(stub);
    let stub =
        StubServer::agent(move |_, _| StubAction::Answer(200, "content-type: application/json\r\n".into(), old.into()))
            .await;
    let reference: AgentReference = format!("{}/x", stub.url).parse().unwrap();
    let client = client().build().unwrap();
    let found = client.card(&reference).await.unwrap();
    assert_eq!(found.card.name, "old");
    assert!(found.json().contains("supportedInterfaces"));
    let error = client.agent(found).err().unwrap();
    assert!(error.to_string().contains("0.3"), "{error}");
}

#[tokio::test]
async fn what_a_stranger_showed_is_not_believed_later() {
    let stub = StubServer::agent(|_, _| {
        let headers = "content-type: application/json\r\ncache-control: max-age=600\r\n";
        StubAction::Answer(200, headers.into(), card("http://h", "{}", ""))
    })
    .await;
    let directory = tempfile::tempdir().unwrap();
    let reference: AgentReference = format!("{}/card.json", stub.url).parse().unwrap();
    let insecure = sabir_client::Tls { insecure: true, ..sabir_client::Tls::default() };
    let keep = || Some(directory.path().to_path_buf());
    client().tls(insecure).cache(keep()).build().unwrap().card(&reference).await.unwrap();
    assert_eq!(std::fs::read_dir(directory.path()).unwrap().count(), 0);
    // Cards of other versions are cached separately.
    for version in
        [sabir_client::VersionPolicy::Highest, sabir_client::VersionPolicy::Exactly(sabir_wire::Dialect::V03)]
    {
        client().version(version).cache(keep()).build().unwrap().card(&reference).await.unwrap();
    }
    assert_eq!(stub.calls().len(), 3);
    client().cache(keep()).build().unwrap().card(&reference).await.unwrap();
    assert_eq!(stub.calls().len(), 3);
}

#[tokio::test]
async fn a_page_in_place_of_the_newer_card_does_not_hide_the_older_one() {
    let page = "<html>an application</html>";
    let stub = StubServer::start(
        move |_| page.into(),
        |_, heard| match heard.line.contains("/.well-known/agent.json") {
            true => StubAction::Answer(200, "content-type: application/json\r\n".into(), card("http://h", "{}", "")),
            false => html("<html>an application</html>"),
        },
    )
    .await;
    let found = client().build().unwrap().card(&stub.url.parse().unwrap()).await.unwrap();
    assert_eq!(found.card.name, "stub");
}

#[tokio::test]
async fn a_card_is_believed_as_far_as_the_caller_asks() {
    use sabir_client::signature::{SignatureMode, TrustPolicy, UntrustedReason};
    let signed = r#","signatures":[{"protected":"eyJhbGciOiJFUzI1NiIsImtpZCI6ImsifQ","signature":"AA"}]"#;
    for (more, refused) in [("", [false, false, true]), (signed, [false, true, true])] {
        let stub = StubServer::start(move |base| card(base, "{}", more), |_, _| StubAction::HangUp).await;
        for (mode, refused) in SignatureMode::ALL.into_iter().zip(refused) {
            let client = client().trust(mode, TrustPolicy::default()).build().unwrap();
            match client.connect(&stub.url.parse().unwrap()).await {
                Ok(_) => assert!(!refused, "{mode}: {more}"),
                Err(Error::CardUntrusted { reason, .. }) => {
                    assert!(refused, "{mode}: {more}");
                    assert_eq!(matches!(*reason, UntrustedReason::Unsigned), more.is_empty());
                }
                Err(other) => panic!("{other:?}"),
            }
        }
    }
}
