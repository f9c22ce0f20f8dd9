//! The credentials that agents elsewhere see: our own, where they are meant to go, and nowhere else.

use crate::agent::{RecordedRequest, StubAction, StubServer, card, task};
use crate::bench::{Bench, upstream, words};
use sabir_engine::BoxFuture;
use sabir_gateway::{
    CardCheck, CardPolicy, Credentials, DiscoveredCard, Egress, Error, OAuthGrant, OAuthGrantSettings, SignatureCheck,
    Upstream,
};
use sabir_proto::{Json, Object, Secret, TaskState};
use std::sync::Arc;
use url::Url;

fn done() -> StubAction {
    StubAction::Result(format!(r#"{{"task":{}}}"#, task("COMPLETED")))
}

/// An authorization server, which gives a token for each request.
async fn tokens() -> StubServer {
    let answer = |number: usize, heard: &RecordedRequest| {
        let what = if heard.body.contains("token-exchange") { "exchanged" } else { "ours" };
        let body = format!(r#"{{"access_token":"{what}-{number}","token_type":"Bearer","expires_in":3600}}"#);
        StubAction::Answer(200, "content-type: application/json\r\n".into(), body)
    };
    StubServer::start(|_| String::new(), answer).await
}

async fn with_grant(issuer: &StubServer, subject: Option<&str>) -> (StubServer, Bench) {
    with_grant_for(issuer, subject, |_, _| done()).await
}

async fn with_grant_for(
    issuer: &StubServer,
    subject: Option<&str>,
    script: impl Fn(usize, &RecordedRequest) -> StubAction + Send + Sync + 'static,
) -> (StubServer, Bench) {
    let agent = StubServer::start(|base| card(base, "{}", ""), script).await;
    let terms = OAuthGrantSettings {
        token_url: Url::parse(&format!("{}/token", issuer.url)).unwrap(),
        client_id: "hub".into(),
        client_secret: Some(Secret::new("hush")),
        scopes: vec!["ledger".into()],
        subject: subject.map(Secret::new),
        audience: Some("https://ledger.example".into()),
    };
    let grant = OAuthGrant::new(terms, Egress::public().and_loopback()).unwrap();
    assert!(!format!("{grant:?}").contains("hush"));
    let credentials = Credentials { signer: Some(Arc::new(grant)), ..Credentials::default() };
    let bench = Bench::new(Upstream { credentials, ..upstream(&agent.url) }).await;
    (agent, bench)
}

#[tokio::test]
async fn a_token_is_got_once_and_shown_with_every_call() {
    let issuer = tokens().await;
    let (agent, bench) = with_grant(&issuer, None).await;
    for _ in 0..3 {
        assert_eq!(bench.send("go").await.status.state, TaskState::Completed);
    }
    let shown: Vec<Option<String>> = agent.calls().iter().map(|call| call.header("authorization")).collect();
    assert_eq!(shown, vec![Some("Bearer ours-0".to_owned()); 3]);
    assert_eq!(issuer.calls().len(), 1);
    assert!(
        agent.requests().iter().filter(|h| h.line.contains("well-known")).all(|h| h.header("authorization").is_none())
    );
}

#[tokio::test]
async fn a_token_that_was_taken_back_is_got_anew_and_the_call_made_once() {
    let issuer = tokens().await;
    let takes_back = |number: usize, heard: &RecordedRequest| match heard.header("authorization").as_deref() {
        Some("Bearer ours-0") if number > 0 => StubAction::Answer(401, String::new(), "who is that?".into()),
        _ => done(),
    };
    let (agent, bench) = with_grant_for(&issuer, None, takes_back).await;
    for _ in 0..3 {
        assert_eq!(bench.send("go").await.status.state, TaskState::Completed);
    }
    let shown: Vec<Option<String>> = agent.calls().iter().map(|call| call.header("authorization")).collect();
    let bearer = |number| Some(format!("Bearer ours-{number}"));
    assert_eq!(shown, [bearer(0), bearer(0), bearer(1), bearer(1)]);
    assert_eq!(issuer.calls().len(), 2);
}

#[tokio::test]
async fn an_exchange_names_us_as_the_one_who_acts() {
    let issuer = tokens().await;
    let (agent, bench) = with_grant(&issuer, Some("on-behalf-of")).await;
    assert_eq!(bench.send("go").await.status.state, TaskState::Completed);
    assert_eq!(agent.calls()[0].header("authorization").as_deref(), Some("Bearer exchanged-1"));
    let asked = issuer.calls();
    assert!(asked[0].body.contains("grant_type=client_credentials"));
    for expected in ["subject_token=on-behalf-of", "actor_token=ours-0", "audience=https%3A%2F%2Fledger.example"] {
        assert!(asked[1].body.contains(expected), "{expected} in {}", asked[1].body);
    }
}

#[tokio::test]
async fn a_card_cannot_send_what_we_show_to_somebody_else() {
    let thief = StubServer::start(|_| String::new(), |_, _| done()).await;
    let name = thief.url.replace("127.0.0.1", "localhost");
    // Another host, and another port of the same host: on a shared host that port belongs to another tenant.
    let mut stolen = 0;
    for (to, origins, completes) in [
        (name.clone(), vec![], false),
        (name.clone(), vec![name.clone()], true),
        (thief.url.clone(), vec![], false),
        (thief.url.clone(), vec![thief.url.clone()], true),
    ] {
        let agent = StubServer::start(
            move |base| card(base, "{}", "").replace(&format!("{base}/rpc"), &format!("{to}/rpc")),
            |_, _| done(),
        )
        .await;
        let credentials = Credentials { bearer: Some(Secret::new("ours")), ..Credentials::default() };
        let bench = Bench::new(Upstream { credentials, origins, ..upstream(&agent.url) }).await;
        let ended = bench.send("go").await;
        assert_eq!(ended.status.state == TaskState::Completed, completes, "{}", words(&ended));
        stolen += usize::from(completes);
        assert_eq!(thief.calls().len(), stolen);
    }
}

/// A card policy that takes every card and checks nothing.
#[derive(Debug, Default)]
struct LastCardPolicy(std::sync::Mutex<Option<DiscoveredCard>>);

impl CardPolicy for LastCardPolicy {
    fn accept<'a>(
        &'a self,
        found: DiscoveredCard,
        _: SignatureCheck,
        _: CardCheck<'a>,
    ) -> BoxFuture<'a, Result<DiscoveredCard, Error>> {
        *self.0.lock().unwrap() = Some(found.clone());
        Box::pin(async move { Ok(found) })
    }

    fn stored_card(&self) -> Option<DiscoveredCard> {
        self.0.lock().unwrap().clone()
    }
}

/// An agent whose card leads to another server.
async fn traitor(thief: &StubServer) -> StubServer {
    let to = thief.url.replace("127.0.0.1", "localhost");
    StubServer::start(
        move |base| card(base, "{}", "").replace(&format!("{base}/rpc"), &format!("{to}/rpc")),
        |_, _| done(),
    )
    .await
}

#[tokio::test]
async fn a_card_that_leads_away_is_not_called_by_because_it_is_kept() {
    let thief = StubServer::start(|_| String::new(), |_, _| done()).await;
    let agent = traitor(&thief).await;
    let credentials = Credentials { bearer: Some(Secret::new("ours")), ..Credentials::default() };
    let keeper = Some(Arc::new(LastCardPolicy::default()) as Arc<dyn CardPolicy>);
    let bench = Bench::new(Upstream { credentials, card_policy: keeper, ..upstream(&agent.url) }).await;
    for _ in 0..3 {
        assert_eq!(bench.send("go").await.status.state, TaskState::Failed);
    }
    assert_eq!(thief.requests().len(), 0);
}

#[tokio::test]
async fn nor_is_it_tried_out_there() {
    let thief = StubServer::start(|_| String::new(), |_, _| done()).await;
    let agent = traitor(&thief).await;
    let credentials = Credentials { bearer: Some(Secret::new("ours")), ..Credentials::default() };
    let bench = Bench::new(Upstream { credentials, ..upstream(&agent.url) }).await;
    let scout = bench.remote.probe();
    let found = scout.fetch_card().await.unwrap();
    let refused = scout.try_interfaces(&found).await.unwrap_err().to_string();
    assert!(refused.contains("where its credentials are not to be shown"), "{refused}");
    assert!(scout.check_credential_targets(&found).is_err());
    assert_eq!(thief.requests().len(), 0);
}

#[tokio::test]
async fn a_token_that_is_no_longer_taken_is_got_anew() {
    let issuer = tokens().await;
    // Revoked after the first call.
    let agent = StubServer::start(
        |base| card(base, "{}", ""),
        |number, heard| match (number, heard.header("authorization").as_deref()) {
            (1.., Some("Bearer ours-0")) => StubAction::Answer(401, String::new(), String::new()),
            _ => done(),
        },
    )
    .await;
    let terms = OAuthGrantSettings {
        token_url: Url::parse(&format!("{}/token", issuer.url)).unwrap(),
        client_id: "hub".into(),
        client_secret: Some(Secret::new("hush")),
        scopes: Vec::new(),
        subject: None,
        audience: None,
    };
    let grant = OAuthGrant::new(terms, Egress::public().and_loopback()).unwrap();
    let credentials = Credentials { signer: Some(Arc::new(grant)), ..Credentials::default() };
    let bench = Bench::new(Upstream { credentials, ..upstream(&agent.url) }).await;
    for _ in 0..3 {
        let ended = bench.send("go").await;
        assert_eq!(ended.status.state, TaskState::Completed, "{}", words(&ended));
    }
    assert_eq!(issuer.calls().len(), 2);
}

#[tokio::test]
async fn whom_a_caller_says_he_is_goes_to_nobody() {
    let plain = |base: &str| card(base, "{}", "");
    let xpr = |base: &str| {
        format!(
            r#"{{"name":"x","description":"d","url":"{base}/a2a","version":"1","capabilities":{{}},"skills":[],
            "defaultInputModes":["text/plain"],"defaultOutputModes":["text/plain"],"xpr:account":"them"}}"#
        )
    };
    let settled = |_: usize, heard: &RecordedRequest| match heard.method().as_str() {
        "SendMessage" => done(),
        _ => StubAction::Result(r#"{"id":"t-1","status":{"state":"completed"}}"#.into()),
    };
    for stub in [StubServer::start(plain, settled).await, StubServer::start(xpr, settled).await] {
        let bench = Bench::new(upstream(&stub.url)).await;
        let said = Object::new(Json::parse(r#"{"xpr:callerAccount": "rich", "xpr:jobId": 42}"#).unwrap()).unwrap();
        assert_eq!(bench.send_with("go", said).await.status.state, TaskState::Completed);
        let call = stub.calls().remove(0).body;
        assert!(call.contains("xpr:jobId") && !call.contains("rich"), "{call}");
    }
}

#[tokio::test]
async fn a_card_is_signed_only_where_a_signature_holds() {
    let forged = r#","signatures":[{"protected":"eyJhbGciOiJFUzI1NiIsImtpZCI6ImsifQ","signature":"AAAA"}]"#;
    for more in ["", forged] {
        let stub = StubServer::start(move |base| card(base, "{}", more), |_, _| StubAction::HangUp).await;
        let bench = Bench::new(upstream(&stub.url)).await;
        assert!(!bench.remote.handoff_profile().await.unwrap().signed, "{more}");
    }
}
