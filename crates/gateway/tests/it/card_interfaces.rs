//! Cards with several interfaces, of which some cannot be reached.

use crate::agent::{RecordedRequest, StreamEnd, StubAction, StubServer, card, task};
use crate::bench::{Bench, upstream, words};
use sabir_client::{Credentials, Secret};
use sabir_engine::BoxFuture;
use sabir_gateway::{
    BreakerRules, CardCheck, CardPolicy, CardRejection, DiscoveredCard, Error, SignatureCheck, Upstream,
    UpstreamReplica, WaitLimits,
};
use sabir_proto::TaskState;
use std::sync::{Arc, Mutex};
use std::time::Duration;

/// An agent whose card names an interface at `first` before its own.
async fn with_first(first: String) -> StubServer {
    let show = move |base: &str| {
        let dead = format!(
            r#""supportedInterfaces":[{{"url":"{first}","protocolBinding":"JSONRPC","protocolVersion":"1.0"}},"#
        );
        card(base, "{}", "").replace(r#""supportedInterfaces":["#, &dead)
    };
    let answer = |_: usize, heard: &RecordedRequest| match heard.method().as_str() {
        "GetTask" => StubAction::Error(-32001, "no such task"),
        _ => StubAction::Result(format!(r#"{{"task":{}}}"#, task("COMPLETED"))),
    };
    StubServer::start(show, answer).await
}

/// An address where nothing listens.
async fn nowhere() -> String {
    let free = tokio::net::TcpListener::bind("127.0.0.1:0").await.unwrap();
    format!("http://{}/rpc", free.local_addr().unwrap())
}

#[derive(Debug, Default)]
struct StoredCardPolicy(Mutex<Option<DiscoveredCard>>);

impl CardPolicy for StoredCardPolicy {
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

#[tokio::test]
async fn the_first_card_is_pinned_by_an_interface_that_answers() {
    let stub = with_first(nowhere().await).await;
    let keeper = Arc::new(StoredCardPolicy::default());
    let rules = BreakerRules { failures: 1, ..BreakerRules::UPSTREAM };
    let bench =
        Bench::new(Upstream { card_policy: Some(keeper.clone()), breaker_rules: rules, ..upstream(&stub.url) }).await;
    let done = bench.send("go").await;
    assert_eq!(done.status.state, TaskState::Completed, "{}", words(&done));
    let asked: Vec<String> = stub.calls().iter().map(RecordedRequest::method).collect();
    assert_eq!(asked, ["GetTask", "SendMessage"]);
    let pinned = keeper.stored_card().unwrap();
    assert_eq!(pinned.card.supported_interfaces[0].url, format!("{}/rpc", stub.url));
    assert_eq!(pinned.card.supported_interfaces.len(), 2);
}

#[tokio::test]
async fn an_interface_that_cannot_be_reached_gives_way_to_the_next() {
    let stub = with_first(nowhere().await).await;
    let bench = Bench::new(upstream(&stub.url)).await;
    for number in 1..=3 {
        let done = bench.send("go").await;
        assert_eq!(done.status.state, TaskState::Completed, "{}", words(&done));
        assert_eq!(stub.calls().len(), number, "it is done once");
    }
}

#[tokio::test]
async fn a_task_fails_soon_only_where_no_interface_can_be_reached() {
    let (first, second) = (nowhere().await, nowhere().await);
    let show = move |_: &str| {
        let dead = |url: &str| format!(r#"{{"url":"{url}","protocolBinding":"JSONRPC","protocolVersion":"1.0"}}"#);
        let both = format!(r#""supportedInterfaces":[{},"#, dead(&first));
        card(&second.replace("/rpc", ""), "{}", "").replace(r#""supportedInterfaces":["#, &both)
    };
    let stub = StubServer::start(show, |_, _| StubAction::Error(-32001, "nobody asks here")).await;
    let connect_give_up = Some(Duration::from_millis(1));
    let patience = WaitLimits { connect_time_max: connect_give_up, ..upstream("").wait_limits };
    let bench = Bench::new(Upstream { wait_limits: patience, ..upstream(&stub.url) }).await;
    let failed = bench.send("go").await;
    assert_eq!(failed.status.state, TaskState::Failed);
    // The first interface alone was refused for longer than that.
    assert!(words(&failed).contains("(connection refused): 2 attempts in"), "{}", words(&failed));
}

#[tokio::test]
async fn nobody_takes_over_while_there_is_another_way() {
    let stub = with_first(nowhere().await).await;
    let spare = sabir_proto::AgentName::parse("spare").unwrap();
    let bench = Bench::new(Upstream { fallback: Some(spare), ..upstream(&stub.url) }).await;
    let done = bench.send("go").await;
    assert_eq!(done.status.state, TaskState::Completed, "{}", words(&done));
}

#[tokio::test]
async fn the_next_interface_is_none_where_our_credentials_may_not_go() {
    let thief =
        StubServer::start(|_| String::new(), |_, _| StubAction::Result(format!(r#"{{"task":{}}}"#, task("COMPLETED"))))
            .await;
    let to = format!("{}/rpc", thief.url.replace("127.0.0.1", "localhost"));
    let dead = nowhere().await;
    let stub = StubServer::start(
        move |base| {
            let both = format!(
                r#""supportedInterfaces":[{{"url":"{dead}","protocolBinding":"JSONRPC","protocolVersion":"1.0"}},"#
            );
            let theirs = card(base, "{}", "").replace(&format!("{base}/rpc"), &to);
            theirs.replace(r#""supportedInterfaces":["#, &both)
        },
        |_, _| StubAction::HangUp,
    )
    .await;
    let credentials = Credentials { bearer: Some(Secret::new("ours")), ..Credentials::default() };
    let bench = Bench::new(Upstream { credentials, ..upstream(&stub.url) }).await;
    assert_eq!(bench.send("go").await.status.state, TaskState::Failed);
    assert!(thief.requests().is_empty());
}

#[tokio::test]
async fn a_card_with_interfaces_without_end_is_not_looked_through() {
    for (more, fits) in [(63, true), (64, false)] {
        let show = move |base: &str| {
            let one = format!(r#"{{"url":"{base}/rpc","protocolBinding":"JSONRPC","protocolVersion":"1.0"}},"#);
            let list = r#""supportedInterfaces":["#;
            card(base, "{}", "").replace(list, &format!("{list}{}", one.repeat(more)))
        };
        let stub = StubServer::start(show, |_, _| StubAction::Error(-32601, "nothing here")).await;
        let bench = Bench::new(upstream(&stub.url)).await;
        let scout = bench.remote.probe();
        let found = scout.fetch_card().await.unwrap();
        assert_eq!(scout.check_addresses(&found, &[]).await.is_ok(), fits, "{more} more");
        // However many there are, few are called.
        assert!(matches!(scout.try_interfaces(&found).await, Err(CardRejection::NoAnswer(tried)) if tried.len() == 8));
        assert_eq!(stub.calls().len(), 8);
    }
}

#[tokio::test]
async fn an_agent_whose_card_hangs_is_called_by_the_one_that_is_kept() {
    let stub = StubServer::bare(|_, heard| match heard.method().as_str() {
        "SendMessage" => StubAction::Result(format!(r#"{{"task":{}}}"#, task("COMPLETED"))),
        _ => StubAction::Stream(Vec::new(), StreamEnd::Silence),
    })
    .await;
    let kept = DiscoveredCard::read(card(&stub.url, "{}", "").as_bytes(), None, "stub").unwrap();
    let keeper = Arc::new(StoredCardPolicy(Mutex::new(Some(kept))));
    let bench = Bench::new(Upstream { card_policy: Some(keeper), ..upstream(&stub.url) }).await;
    for _ in 0..2 {
        let done = bench.send("go").await;
        assert_eq!(done.status.state, TaskState::Completed, "{}", words(&done));
    }
    let asked: Vec<String> = stub.requests().iter().map(RecordedRequest::method).collect();
    assert_eq!(asked, ["SendMessage", "SendMessage"], "nobody has waited for its card");
}

#[tokio::test]
async fn cards_are_fetched_anew_for_every_place() {
    let answer = |_: usize, _: &RecordedRequest| StubAction::Result(format!(r#"{{"task":{}}}"#, task("COMPLETED")));
    let (one, other) = (
        StubServer::start(|base| card(base, "{}", ""), answer).await,
        StubServer::start(|base| card(base, "{}", ""), answer).await,
    );
    let places = vec![UpstreamReplica::only(&one.url), UpstreamReplica::only(&other.url)];
    let bench = Bench::new(Upstream { replicas: places, ..upstream(&one.url) }).await;
    for rounds in 1..3 {
        bench.remote.refresh().await.unwrap();
        assert_eq!((one.requests().len(), other.requests().len()), (rounds, rounds));
    }
    bench.send("go").await;
    assert_eq!(one.requests().len() + other.requests().len(), 5, "a call asks for none");
}
