//! Cards with several interfaces, of which some cannot be reached.

use crate::agent::{After, Do, Heard, Stub, card, task};
use crate::bench::{Bench, upstream, words};
use sabir_client::{Credentials, Secret};
use sabir_engine::BoxFuture;
use sabir_gateway::{Error, Found, Keeper, May, Patience, Place, Rules, Unfit, Upstream, Voucher};
use sabir_proto::TaskState;
use std::sync::{Arc, Mutex};
use std::time::Duration;

/// An agent whose card names an interface at `first` before its own.
async fn with_first(first: String) -> Stub {
    let show = move |base: &str| {
        let dead = format!(
            r#""supportedInterfaces":[{{"url":"{first}","protocolBinding":"JSONRPC","protocolVersion":"1.0"}},"#
        );
        card(base, "{}", "").replace(r#""supportedInterfaces":["#, &dead)
    };
    let answer = |_: usize, heard: &Heard| match heard.method().as_str() {
        "GetTask" => Do::Error(-32001, "no such task"),
        _ => Do::Result(format!(r#"{{"task":{}}}"#, task("COMPLETED"))),
    };
    Stub::start(show, answer).await
}

/// An address where nothing listens.
async fn nowhere() -> String {
    let free = tokio::net::TcpListener::bind("127.0.0.1:0").await.unwrap();
    format!("http://{}/rpc", free.local_addr().unwrap())
}

#[derive(Debug, Default)]
struct Kept(Mutex<Option<Found>>);

impl Keeper for Kept {
    fn settle<'a>(&'a self, found: Found, _: Voucher, _: May<'a>) -> BoxFuture<'a, Result<Found, Error>> {
        *self.0.lock().unwrap() = Some(found.clone());
        Box::pin(async move { Ok(found) })
    }

    fn kept(&self) -> Option<Found> {
        self.0.lock().unwrap().clone()
    }
}

#[tokio::test]
async fn the_first_card_is_pinned_by_an_interface_that_answers() {
    let stub = with_first(nowhere().await).await;
    let keeper = Arc::new(Kept::default());
    let rules = Rules { failures: 1, ..Rules::UPSTREAM };
    let bench = Bench::new(Upstream { keeper: Some(keeper.clone()), breaker: rules, ..upstream(&stub.url) }).await;
    let done = bench.send("go").await;
    assert_eq!(done.status.state, TaskState::Completed, "{}", words(&done));
    let asked: Vec<String> = stub.calls().iter().map(Heard::method).collect();
    assert_eq!(asked, ["GetTask", "SendMessage"]);
    let pinned = keeper.kept().unwrap();
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
    let stub = Stub::start(show, |_, _| Do::Error(-32001, "nobody asks here")).await;
    let connect_give_up = Some(Duration::from_millis(1));
    let patience = Patience { connect_give_up, ..upstream("").patience };
    let bench = Bench::new(Upstream { patience, ..upstream(&stub.url) }).await;
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
    let thief = Stub::start(|_| String::new(), |_, _| Do::Result(format!(r#"{{"task":{}}}"#, task("COMPLETED")))).await;
    let to = format!("{}/rpc", thief.url.replace("127.0.0.1", "localhost"));
    let dead = nowhere().await;
    let stub = Stub::start(
        move |base| {
            let both = format!(
                r#""supportedInterfaces":[{{"url":"{dead}","protocolBinding":"JSONRPC","protocolVersion":"1.0"}},"#
            );
            let theirs = card(base, "{}", "").replace(&format!("{base}/rpc"), &to);
            theirs.replace(r#""supportedInterfaces":["#, &both)
        },
        |_, _| Do::HangUp,
    )
    .await;
    let credentials = Credentials { bearer: Some(Secret::new("ours")), ..Credentials::default() };
    let bench = Bench::new(Upstream { credentials, ..upstream(&stub.url) }).await;
    assert_eq!(bench.send("go").await.status.state, TaskState::Failed);
    assert!(thief.heard().is_empty());
}

#[tokio::test]
async fn a_card_with_interfaces_without_end_is_not_looked_through() {
    for (more, fits) in [(63, true), (64, false)] {
        let show = move |base: &str| {
            let one = format!(r#"{{"url":"{base}/rpc","protocolBinding":"JSONRPC","protocolVersion":"1.0"}},"#);
            let list = r#""supportedInterfaces":["#;
            card(base, "{}", "").replace(list, &format!("{list}{}", one.repeat(more)))
        };
        let stub = Stub::start(show, |_, _| Do::Error(-32601, "nothing here")).await;
        let bench = Bench::new(upstream(&stub.url)).await;
        let scout = bench.remote.scout();
        let found = scout.find().await.unwrap();
        assert_eq!(scout.check(&found, &[]).await.is_ok(), fits, "{more} more");
        // However many there are, few are called.
        assert!(matches!(scout.try_out(&found).await, Err(Unfit::Silent(tried)) if tried.len() == 8));
        assert_eq!(stub.calls().len(), 8);
    }
}

#[tokio::test]
async fn an_agent_whose_card_hangs_is_called_by_the_one_that_is_kept() {
    let stub = Stub::bare(|_, heard| match heard.method().as_str() {
        "SendMessage" => Do::Result(format!(r#"{{"task":{}}}"#, task("COMPLETED"))),
        _ => Do::Stream(Vec::new(), After::Silence),
    })
    .await;
    let kept = Found::read(card(&stub.url, "{}", "").as_bytes(), None, "stub").unwrap();
    let keeper = Arc::new(Kept(Mutex::new(Some(kept))));
    let bench = Bench::new(Upstream { keeper: Some(keeper), ..upstream(&stub.url) }).await;
    for _ in 0..2 {
        let done = bench.send("go").await;
        assert_eq!(done.status.state, TaskState::Completed, "{}", words(&done));
    }
    let asked: Vec<String> = stub.heard().iter().map(Heard::method).collect();
    assert_eq!(asked, ["SendMessage", "SendMessage"], "nobody has waited for its card");
}

#[tokio::test]
async fn cards_are_fetched_anew_for_every_place() {
    let answer = |_: usize, _: &Heard| Do::Result(format!(r#"{{"task":{}}}"#, task("COMPLETED")));
    let (one, other) = (
        Stub::start(|base| card(base, "{}", ""), answer).await,
        Stub::start(|base| card(base, "{}", ""), answer).await,
    );
    let places = vec![Place::only(&one.url), Place::only(&other.url)];
    let bench = Bench::new(Upstream { places, ..upstream(&one.url) }).await;
    for rounds in 1..3 {
        bench.remote.refresh().await.unwrap();
        assert_eq!((one.heard().len(), other.heard().len()), (rounds, rounds));
    }
    bench.send("go").await;
    assert_eq!(one.heard().len() + other.heard().len(), 5, "a call asks for none");
}
