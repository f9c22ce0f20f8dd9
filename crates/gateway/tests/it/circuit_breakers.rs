//! An agent that fails is not called for a while, then probed once before it is called again.

use crate::agent::{StubAction, StubServer, task};
use crate::bench::{Bench, eventually, upstream};
use sabir_gateway::{BreakerRules, BreakerState};
use sabir_proto::TaskState;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::time::Duration;

fn answer(healthy: bool) -> StubAction {
    if healthy {
        return StubAction::Result(format!(r#"{{"task":{}}}"#, task("COMPLETED")));
    }
    StubAction::Answer(503, "content-type: text/plain\r\n".into(), "oh no".into())
}

#[tokio::test]
async fn who_fails_is_not_called_until_the_cool_down_is_over_and_then_once() {
    let healthy = Arc::new(AtomicBool::new(false));
    let now = healthy.clone();
    let stub =
        StubServer::start(|base| crate::agent::card(base, "{}", ""), move |_, _| answer(now.load(Ordering::Relaxed)));
    let stub = stub.await;
    let rules = BreakerRules { failures: 2, cooldown: Duration::from_secs(2), ..BreakerRules::UPSTREAM };
    let bench =
        Bench::new(sabir_gateway::Upstream { breaker_rules: rules, idempotent: true, ..upstream(&stub.url) }).await;
    // Three tasks at once: only the two failing calls are made, for any of the tasks.
    let mut tasks = Vec::new();
    for text in ["a", "b", "c"] {
        tasks.push(bench.begin(text).await);
    }
    eventually("the breaker is open", async || {
        (bench.remote.circuit_status().upstream == BreakerState::Open).then_some(())
    })
    .await;
    let called = stub.calls().len();
    assert!((2..=3).contains(&called), "those that were under way, and no other: {called}");
    assert!(bench.remote.circuit_status().retry_after.is_some());
    assert!(bench.try_begin("d").await.unwrap_err().retry_after().is_some(), "who comes new is sent away");
    healthy.store(true, Ordering::Relaxed);
    for task in tasks {
        bench.reaches(task.id, TaskState::Completed).await;
    }
    let sent = stub.calls().iter().filter(|call| call.method() == "SendMessage").count();
    assert_eq!(sent, called + 3, "one to see, then everybody else");
    let standing = bench.remote.circuit_status();
    assert_eq!((standing.upstream, standing.trips, standing.retry_after), (BreakerState::Closed, 1, None));
}

#[tokio::test]
async fn who_refuses_is_alive() {
    let stub = StubServer::agent(|_, _| StubAction::Error(-32602, "not like this")).await;
    let rules = BreakerRules { failures: 1, ..BreakerRules::UPSTREAM };
    let bench = Bench::new(sabir_gateway::Upstream { breaker_rules: rules, ..upstream(&stub.url) }).await;
    for _ in 0..3 {
        assert_eq!(bench.send("x").await.status.state, TaskState::Failed);
    }
    assert_eq!(bench.remote.circuit_status().upstream, BreakerState::Closed);
}

#[tokio::test]
async fn a_refusal_of_one_callers_input_opens_no_breaker_whatever_its_status() {
    let error = |code: i64, status: &str, reason: &str| {
        format!(
            r#"{{"error":{{"code":{code},"status":"{status}","message":"no","details":[{{"@type":
            "type.googleapis.com/google.rpc.ErrorInfo","reason":"{reason}","domain":"a2a-protocol.org"}}]}}}}"#
        )
    };
    for (status, reason) in [
        ("INVALID_ARGUMENT", "INVALID_PARAMS"),
        ("INVALID_ARGUMENT", "CONTENT_TYPE_NOT_SUPPORTED"),
        ("NOT_FOUND", "TASK_NOT_FOUND"),
    ] {
        for http in [400, 404, 500] {
            let body = error(http, status, reason);
            let status = u16::try_from(http).unwrap();
            let stub = StubServer::start(
                |base| crate::agent::card(base, "{}", "").replace("JSONRPC", "HTTP+JSON"),
                move |_, _| StubAction::Answer(status, "content-type: application/json\r\n".into(), body.clone()),
            );
            let stub = stub.await;
            let rules = BreakerRules { failures: 1, ..BreakerRules::UPSTREAM };
            let bench = Bench::new(sabir_gateway::Upstream { breaker_rules: rules, ..upstream(&stub.url) }).await;
            bench.send("x").await;
            assert_eq!(bench.remote.circuit_status().trips, 0, "{http} {reason}");
        }
    }
}

#[tokio::test]
async fn one_call_is_one_request() {
    // Takes the message, and then fails every question about it.
    let stub = StubServer::start(
        |base| crate::agent::card(base, "{}", ""),
        |_, heard| match heard.method().as_str() {
            "SendMessage" => StubAction::Result(format!(r#"{{"task":{}}}"#, task("WORKING"))),
            _ => StubAction::Answer(502, "content-type: text/plain\r\n".into(), "oh no".into()),
        },
    )
    .await;
    let rules = BreakerRules { failures: 2, cooldown: Duration::from_secs(1), ..BreakerRules::UPSTREAM };
    let bench = Bench::new(sabir_gateway::Upstream { breaker_rules: rules, ..upstream(&stub.url) }).await;
    bench.begin("go").await;
    let asked = || stub.calls().iter().filter(|call| call.method() == "GetTask").count();
    eventually("the breaker is open", async || {
        (bench.remote.circuit_status().upstream == BreakerState::Open).then_some(())
    })
    .await;
    assert_eq!(asked(), 2, "two failures are two requests");
    eventually("it was tried again", async || (bench.remote.circuit_status().trips > 1).then_some(())).await;
    assert_eq!(asked(), 3, "and the probe is one");
}

#[tokio::test]
async fn agents_that_are_switched_off_do_not_switch_off_the_others() {
    let hub = sabir_gateway::Hub::new(sabir_gateway::Metrics::default());
    for name in ["a", "b", "c", "d", "e", "f"] {
        let free = tokio::net::TcpListener::bind("127.0.0.1:0").await.unwrap();
        let gone = format!("http://{}", free.local_addr().unwrap());
        drop(free);
        let off =
            sabir_gateway::RemoteAgent::new(sabir_gateway::Upstream { name: name.into(), ..upstream(&gone) }, &hub)
                .unwrap();
        assert!(off.handoff_profile().await.is_err());
        let message =
            sabir_proto::Message::text(sabir_proto::MessageId::parse("m").unwrap(), sabir_proto::Role::User, "hello?");
        assert!(off.send_handoff("", message).await.is_err());
    }
    assert_eq!(hub.state(), BreakerState::Closed);
}
