//! Agents with several replicas, and agents that are busy.

use crate::agent::{StreamEnd, StubAction, StubServer, card, frame, task};
use crate::bench::{Bench, eventually, upstream, words};
use sabir_engine::{Agent, AgentDirectory, Context, Ending, Failure, HostedAgent};
use sabir_gateway::{BreakerRules, HealthStatus, Upstream, UpstreamReplica};
use sabir_proto::{AgentName, TaskState, ToolMode};
use std::sync::Arc;

async fn quick() -> StubServer {
    StubServer::start(
        |base| card(base, "{}", ""),
        |_, _| StubAction::Result(format!(r#"{{"task":{}}}"#, task("COMPLETED"))),
    )
    .await
}

fn among(places: &[(&str, u32, Option<u8>)]) -> Upstream {
    let place = |(url, weight, canary): &(&str, u32, Option<u8>)| UpstreamReplica {
        url: (*url).into(),
        weight: *weight,
        canary: *canary,
    };
    Upstream { replicas: places.iter().map(place).collect(), ..upstream("") }
}

#[tokio::test]
async fn work_goes_where_the_weights_say_and_not_where_nobody_is() {
    let (much, little, canary) = (quick().await, quick().await, quick().await);
    let places = [(&*much.url, 3, None), (&*little.url, 1, None), (&*canary.url, 1, Some(20))];
    let bench = Bench::new(among(&places)).await;
    for _ in 0..200 {
        assert_eq!(bench.send("go").await.status.state, TaskState::Completed);
    }
    let shares = [&much, &little, &canary].map(|stub| stub.calls().len());
    // 120, 40 and 40 on average; whichever conversations these are, not far from it.
    assert!(shares[0] > 85 && shares[1] > 15 && shares[2] > 15, "{shares:?}");
    assert_eq!(shares.iter().sum::<usize>(), 200);
}

#[tokio::test]
async fn what_cannot_begin_in_one_place_begins_in_another() {
    // Nothing listens there.
    let free = tokio::net::TcpListener::bind("127.0.0.1:0").await.unwrap();
    let gone = format!("http://{}", free.local_addr().unwrap());
    drop(free);
    let there = quick().await;
    let bench = Bench::new(among(&[(&gone, 1000, None), (&there.url, 1, None)])).await;
    for _ in 0..5 {
        assert_eq!(bench.send("go").await.status.state, TaskState::Completed);
    }
    assert_eq!(there.calls().len(), 5);
    // Health checks find it out as well, and then the replica is not even tried.
    for expected in [HealthStatus::Degraded, HealthStatus::Degraded, HealthStatus::Down] {
        bench.remote.check().await;
        assert_eq!(bench.remote.health()[0].status, expected);
    }
    assert!(bench.remote.health()[0].checks.last_problem.is_some());
    assert_eq!(
        (bench.remote.health()[1].status, bench.remote.health_status()),
        (HealthStatus::Healthy, HealthStatus::Degraded)
    );
}

#[tokio::test]
async fn nobody_is_admitted_while_nobody_can_be_called_or_enough_is_under_way() {
    let stub = StubServer::agent(|_, _| {
        StubAction::Stream(vec![frame(None, &format!(r#"{{"task":{}}}"#, task("WORKING")))], StreamEnd::Silence)
    })
    .await;
    let bench = Bench::new(Upstream { calls_max: Some(1), ..upstream(&stub.url) }).await;
    let first = bench.begin("go").await;
    bench.reaches(first.id, TaskState::Working).await;
    let refused = bench.try_begin("me too").await.unwrap_err();
    assert_eq!(refused.retry_after(), Some(1), "{refused}");
    assert_eq!(bench.remote.health()[0].calls_in_progress, 1);
    let stub =
        StubServer::start(|base| card(base, "{}", ""), |_, _| StubAction::Answer(503, String::new(), "no".into()))
            .await;
    let rules = BreakerRules { failures: 1, ..BreakerRules::UPSTREAM };
    let bench = Bench::new(Upstream { breaker_rules: rules, ..upstream(&stub.url) }).await;
    bench.begin("go").await;
    let after = eventually("the breaker is open", async || bench.try_begin("go").await.err()).await.retry_after();
    assert!(after.is_some_and(|after| (290..=300).contains(&after)), "{after:?}");
}

struct SpareAgent;

impl Agent for SpareAgent {
    async fn turn(&self, cx: &mut Context) -> Result<Ending, Failure> {
        match cx.before() {
            None => Ok(Ending::ask_input("Which one?")),
            Some(_) => {
                cx.artifact("made", cx.message().parts.clone()).await?;
                Ok(Ending::complete_with("the spare one did it"))
            }
        }
    }
}

struct OneResident(Arc<HostedAgent>);

impl AgentDirectory for OneResident {
    fn find(&self, name: &AgentName) -> Option<Arc<HostedAgent>> {
        (*name == self.0.name).then(|| self.0.clone())
    }
}

#[tokio::test]
async fn what_cannot_begin_anywhere_is_done_by_another_agent() {
    let stub = StubServer::start(|base| card(base, "{}", ""), |_, _| StubAction::Error(-32000, "no")).await;
    let free = tokio::net::TcpListener::bind("127.0.0.1:0").await.unwrap();
    let gone = format!("http://{}", free.local_addr().unwrap());
    drop((free, stub));
    let name = AgentName::parse("spare").unwrap();
    let bench = Bench::new(Upstream { fallback: Some(name.clone()), ..upstream(&gone) }).await;
    let resident = HostedAgent { name, agent: Arc::new(SpareAgent), push: false, tool_mode: ToolMode::Full };
    bench.engine.set_directory(Arc::new(OneResident(Arc::new(resident))));
    let asks = bench.send("go").await;
    assert_eq!((asks.status.state, words(&asks).as_str()), (TaskState::InputRequired, "Which one?"));
    let done = bench.answer(&asks, "that one").await;
    assert_eq!((done.status.state, words(&done).as_str()), (TaskState::Completed, "the spare one did it"));
    assert_eq!(done.artifacts[0].parts[0].as_text(), Some("that one"));
}
