//! Tasks that an agent elsewhere hands over: our task goes on, with the agent that has theirs now.

use crate::agent::{RecordedRequest, StreamEnd, StubAction, StubServer, card, frame};
use crate::bench::{Bench, eventually, upstream, words};
use sabir_engine::BoxFuture;
use sabir_gateway::{
    Credentials, Egress, FollowPolicy, Hub, Metrics, RemoteAgent, RemoteAgentDirectory, Upstream, WaitLimits,
};
use sabir_proto::{AgentName, Caller, Fault, Gap, HANDOFF, HANDOFF_LITERAL, Secret, Task, TaskState};
use sabir_store::TaskStore;
use serde_json::{Value, json};
use std::sync::atomic::{AtomicBool, AtomicUsize, Ordering};
use std::sync::{Arc, Mutex};
use std::time::Duration;
use url::Url;

/// A card that knows handoffs, with or without streams.
fn hands_over(base: &str, streaming: bool, more: &str) -> String {
    let extensions = format!(r#"[{{"uri":"{HANDOFF}"}},{{"uri":"{HANDOFF_LITERAL}"}}]"#);
    card(base, &format!(r#"{{"streaming":{streaming},"extensions":{extensions}}}"#), more)
}

/// An agent that knows handoffs. Its card is at its origin, and where it is called there is nothing to read.
async fn agent(
    streaming: bool,
    script: impl Fn(usize, &RecordedRequest) -> StubAction + Send + Sync + 'static,
) -> StubServer {
    agent_with(move |base| hands_over(base, streaming, ""), script).await
}

async fn agent_with(
    card: impl Fn(&str) -> String + Send + Sync + 'static,
    script: impl Fn(usize, &RecordedRequest) -> StubAction + Send + Sync + 'static,
) -> StubServer {
    let calls = AtomicUsize::new(0);
    let script = move |_: usize, heard: &RecordedRequest| match heard.line.starts_with("POST") {
        true => script(calls.fetch_add(1, Ordering::Relaxed), heard),
        false => StubAction::Answer(404, String::new(), String::new()),
    };
    StubServer::start(card, script).await
}

/// The form in which a transfer is reported.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum TransferForm {
    /// As the extension has it.
    Urn,
    /// As its literal form has it.
    Literal,
    /// The task was handed over, and the receiver cannot be read.
    Torn,
}

fn transferred(task: &str, to: &str, their: &str, form: TransferForm) -> Value {
    let transfer = json!({"agent_endpoint": to, "task_id": their, "reason": "A refund", "transfer_id": "x-1"});
    let status = match form {
        TransferForm::Urn => {
            json!({"state": "TASK_STATE_COMPLETED", "message": {"messageId": "went", "role": "ROLE_AGENT",
            "parts": [{"text": "gone"}], "extensions": [HANDOFF],
            "metadata": {HANDOFF: {"state": "TRANSFERRED", "transfer": transfer}}}})
        }
        TransferForm::Literal => json!({"state": "TRANSFERRED", "transfer": transfer}),
        TransferForm::Torn => {
            json!({"state": "TASK_STATE_COMPLETED", "message": {"messageId": "went", "role": "ROLE_AGENT",
            "parts": [{"text": "gone"}], "metadata": {HANDOFF: {"state": "TRANSFERRED", "transfer": {"to": 7}}}}})
        }
    };
    json!({"id": task, "contextId": "c-a", "status": status})
}

/// A task of the receiver, which came from `t-a`.
fn theirs(state: &str, texts: &[&str]) -> Value {
    let parts: Vec<Value> = texts.iter().map(|text| json!({"text": text})).collect();
    let artifacts = if parts.is_empty() { json!([]) } else { json!([{"artifactId": "a", "parts": parts}]) };
    json!({"id": "t-b", "contextId": "c-b", "artifacts": artifacts,
        "metadata": {HANDOFF: {"transferred_from": {"agent": "a", "task_id": "t-a", "transfer_id": "x-1"}}},
        "status": {"state": format!("TASK_STATE_{state}"), "message": {"messageId": format!("b-{state}"),
            "role": "ROLE_AGENT", "parts": [{"text": format!("b is {state}")}]}}})
}

fn event(member: &str, value: &Value) -> String {
    frame(None, &json!({ member: value }).to_string())
}

/// A receiver without streams that is in these states, one for each look, and in the last one for ever.
async fn receiver(states: &'static [&'static str]) -> StubServer {
    let looks = AtomicUsize::new(0);
    agent(false, move |_, heard| match heard.method().as_str() {
        "GetTask" => {
            let state = states[looks.fetch_add(1, Ordering::Relaxed).min(states.len() - 1)];
            StubAction::Result(theirs(state, &["made by b"]).to_string())
        }
        "SendMessage" => StubAction::Result(json!({"task": theirs("COMPLETED", &["made by b"])}).to_string()),
        "CancelTask" => StubAction::Result(theirs("CANCELED", &["made by b"]).to_string()),
        other => panic!("{other}"),
    })
    .await
}

/// An agent that hands everything over when it is sent something.
async fn giver(to: String, form: TransferForm) -> StubServer {
    agent(false, move |_, heard| match heard.method().as_str() {
        "SendMessage" => StubAction::Result(json!({"task": transferred("t-a", &to, "t-b", form)}).to_string()),
        "CancelTask" => StubAction::Error(-32002, "it is over"),
        _ => StubAction::Result(transferred("t-a", &to, "t-b", form).to_string()),
    })
    .await
}

fn rpc(stub: &StubServer) -> String {
    format!("{}/rpc", stub.url)
}

fn methods(stub: &StubServer) -> Vec<String> {
    stub.calls().iter().map(RecordedRequest::method).filter(|method| !method.is_empty()).collect()
}

fn texts(task: &Task) -> Vec<&str> {
    task.artifacts.iter().flat_map(|artifact| &artifact.parts).filter_map(|part| part.as_text()).collect()
}

/// Not done, and with the mark that its end is not known.
fn check_lost(task: &Task, why: &str) {
    assert_eq!(task.status.state, TaskState::Failed, "{}", words(task));
    assert!(words(task).contains(why), "{why}: {}", words(task));
    assert!(Gap::of(task.metadata.as_ref()).is_some(), "{why}: {:?}", task.metadata);
}

#[tokio::test]
async fn what_is_handed_over_in_an_answer_is_followed_in_both_forms() {
    // Also if the message may leave before its task is stored.
    for (form, idempotent) in [(TransferForm::Urn, false), (TransferForm::Literal, false), (TransferForm::Urn, true)] {
        let b = receiver(&["WORKING", "WORKING", "COMPLETED"]).await;
        let a = giver(rpc(&b), form).await;
        let bench = Bench::new(Upstream { idempotent, ..upstream(&a.url) }).await;
        let done = bench.send("go").await;
        assert_eq!((done.status.state, words(&done)), (TaskState::Completed, "b is COMPLETED".into()), "{form:?}");
        assert_eq!(texts(&done), ["made by b"]);
        let asked = a.calls()[0].header("a2a-extensions").unwrap();
        assert!(asked.contains(HANDOFF) && asked.contains(HANDOFF_LITERAL), "{asked}");
        assert_eq!(methods(&a), ["SendMessage"], "it has nothing to do with it any more");
    }
}

#[tokio::test]
async fn what_is_handed_over_in_a_stream_goes_on_in_the_receivers_stream_and_is_told_once() {
    let b = agent(true, |_, heard| match heard.method().as_str() {
        "GetTask" => StubAction::Result(theirs("WORKING", &[]).to_string()),
        "SubscribeToTask" => {
            let chunk = json!({"taskId": "t-b", "contextId": "c-b",
                    "artifact": {"artifactId": "a", "parts": [{"text": "made by b"}]}});
            let end = json!({"taskId": "t-b", "contextId": "c-b", "status": {"state": "TASK_STATE_COMPLETED"}});
            let frames = vec![
                event("task", &theirs("WORKING", &[])),
                event("artifactUpdate", &chunk),
                event("statusUpdate", &end),
            ];
            StubAction::Stream(frames, StreamEnd::End)
        }
        other => panic!("{other}"),
    })
    .await;
    let to = rpc(&b);
    let a = agent(true, move |_, _| {
        let chunk = json!({"taskId": "t-a", "contextId": "c-a",
                "artifact": {"artifactId": "a", "parts": [{"text": "made by a"}]}});
        let went = transferred("t-a", &to, "t-b", TransferForm::Urn);
        let update = json!({"taskId": "t-a", "contextId": "c-a", "status": went["status"]});
        let begun = json!({"id": "t-a", "contextId": "c-a", "status": {"state": "TASK_STATE_WORKING"}});
        let frames = vec![
            event("task", &begun),
            event("artifactUpdate", &chunk),
            event("statusUpdate", &update),
            // What the agent reports after the transfer is ignored.
            event("statusUpdate", &json!({"taskId": "t-a", "status": {"state": "TASK_STATE_FAILED"}})),
        ];
        StubAction::Stream(frames, StreamEnd::Silence)
    })
    .await;
    let bench = Bench::new(upstream(&a.url)).await;
    let events = bench.stream("go").await;
    let end = &events.last().unwrap()["statusUpdate"]["status"];
    assert_eq!(end["state"], "TASK_STATE_COMPLETED", "{events:?}");
    let artifacts: Vec<&Value> = events.iter().filter_map(|event| event.get("artifactUpdate")).collect();
    let told: Vec<&str> = artifacts.iter().filter_map(|told| told["artifact"]["parts"][0]["text"].as_str()).collect();
    assert_eq!(told, ["made by a", "made by b"]);
    // Two agents, two artifacts, though both call theirs the same.
    assert_ne!(artifacts[0]["artifact"]["artifactId"], artifacts[1]["artifact"]["artifactId"]);
    let says = |text: &str| {
        let said = |event: &&Value| {
            let words = event["statusUpdate"]["status"]["message"]["parts"][0]["text"].as_str();
            words.is_some_and(|words| words.contains(text))
        };
        events.iter().filter(said).count()
    };
    assert_eq!((says(&rpc(&b)), says("b is WORKING")), (1, 1), "{events:?}");
}

#[tokio::test]
async fn what_is_found_out_by_asking_is_followed_and_a_chain_of_it_too() {
    let c = receiver(&["WORKING", "COMPLETED"]).await;
    let b = giver(rpc(&c), TransferForm::Literal).await;
    let (to, looks) = (rpc(&b), AtomicUsize::new(0));
    let a = agent(false, move |_, heard| match heard.method().as_str() {
        "SendMessage" => {
            let begun = json!({"id": "t-0", "contextId": "c-a", "status": {"state": "TASK_STATE_WORKING"}});
            StubAction::Result(json!({ "task": begun }).to_string())
        }
        _ if looks.fetch_add(1, Ordering::Relaxed) == 0 => {
            StubAction::Result(r#"{"id":"t-0","contextId":"c-a","status":{"state":"TASK_STATE_WORKING"}}"#.into())
        }
        _ => StubAction::Result(transferred("t-0", &to, "t-a", TransferForm::Urn).to_string()),
    })
    .await;
    let bench = Bench::new(upstream(&a.url)).await;
    let done = bench.send("go").await;
    assert_eq!((done.status.state, texts(&done)), (TaskState::Completed, vec!["made by b"]), "{}", words(&done));
    assert_eq!(methods(&b), ["GetTask"], "looked at, and passed on");
}

#[tokio::test]
async fn what_the_receiver_asks_is_answered_there_and_nowhere_else() {
    let b = receiver(&["WORKING", "INPUT_REQUIRED"]).await;
    let a = giver(rpc(&b), TransferForm::Urn).await;
    let log = TaskStore::in_memory().log;
    let bench = Bench::on(log.clone(), upstream(&a.url)).await;
    let asks = bench.send("go").await;
    assert_eq!((asks.status.state, words(&asks)), (TaskState::InputRequired, "b is INPUT_REQUIRED".into()));
    bench.engine.stop().await;
    // Another process: the log says which agent has the task.
    let bench = Bench::on(log, upstream(&a.url)).await;
    let done = bench.answer(&asks, "the first").await;
    assert_eq!((done.status.state, texts(&done)), (TaskState::Completed, vec!["made by b"]), "{}", words(&done));
    assert_eq!(methods(&a), ["SendMessage"]);
    let said =
        b.calls().iter().find(|call| call.method() == "SendMessage").unwrap().json()["params"]["message"].clone();
    assert_eq!((&said["taskId"], &said["contextId"]), (&json!("t-b"), &json!("c-b")), "{said}");
    assert_eq!(said["parts"][0]["text"], "the first");
}

/// An agent that asks, and has handed the task over by the time it is answered.
async fn asks_and_hands_over(to: String) -> StubServer {
    agent(false, move |number, heard| match (number, heard.method().as_str()) {
        (0, _) => {
            let asks = json!({"id": "t-a", "contextId": "c-a", "status": {"state": "TASK_STATE_INPUT_REQUIRED"}});
            StubAction::Result(json!({ "task": asks }).to_string())
        }
        (_, "SendMessage") => StubAction::Error(-32004, "somebody else has it"),
        _ => StubAction::Result(transferred("t-a", &to, "t-b", TransferForm::Urn).to_string()),
    })
    .await
}

#[tokio::test]
async fn an_answer_that_comes_after_the_task_went_is_said_to_the_receiver() {
    let b = receiver(&["INPUT_REQUIRED"]).await;
    let a = asks_and_hands_over(rpc(&b)).await;
    let bench = Bench::new(upstream(&a.url)).await;
    let asks = bench.send("go").await;
    let done = bench.answer(&asks, "the first").await;
    assert_eq!(done.status.state, TaskState::Completed, "{}", words(&done));
    assert_eq!(methods(&b), ["GetTask", "SendMessage"]);
    assert!(Gap::of(done.metadata.as_ref()).is_none());
}

#[tokio::test]
async fn an_answer_that_nobody_waits_for_any_more_is_said_to_be_lost() {
    let b = receiver(&["COMPLETED"]).await;
    let a = asks_and_hands_over(rpc(&b)).await;
    let bench = Bench::new(upstream(&a.url)).await;
    let asks = bench.send("go").await;
    let done = bench.answer(&asks, "the first").await;
    assert_eq!(done.status.state, TaskState::Completed, "{}", words(&done));
    assert_eq!(methods(&b), ["GetTask"]);
    assert!(Gap::of(done.metadata.as_ref()).is_some(), "{:?}", done.metadata);
}

#[tokio::test]
async fn a_claim_is_shown_to_the_receiver_until_the_task_was_seen_and_told_to_nobody() {
    let b = receiver(&["WORKING", "WORKING", "COMPLETED"]).await;
    let to = rpc(&b);
    let a = agent(false, move |_, _| {
        let mut went = transferred("t-a", &to, "t-b", TransferForm::Literal);
        went["status"]["transfer"]["claim_secret"] = json!("c1a1m-c1a1m");
        StubAction::Result(json!({ "task": went }).to_string())
    })
    .await;
    let log = TaskStore::in_memory().log;
    let bench = Bench::on(log.clone(), upstream(&a.url)).await;
    let done = bench.send("go").await;
    assert_eq!(done.status.state, TaskState::Completed, "{}", words(&done));
    let shown = |heard: &RecordedRequest| heard.header("sabir-handoff-claim");
    let looks: Vec<Option<String>> = b.calls().iter().filter(|call| call.method() == "GetTask").map(shown).collect();
    assert_eq!(looks, [Some("c1a1m-c1a1m".to_owned()), None, None]);
    assert!(b.requests().iter().filter(|heard| heard.line.contains("well-known")).all(|heard| shown(heard).is_none()));
    let events = log.events(done.id, sabir_proto::Seq(0), 100).await.unwrap();
    assert!(events.iter().all(|event| !String::from_utf8_lossy(&event.json).contains("c1a1m")));
}

#[tokio::test]
async fn a_cancel_goes_to_whoever_has_the_task() {
    let b = receiver(&["WORKING"]).await;
    let a = giver(rpc(&b), TransferForm::Urn).await;
    let bench = Bench::new(upstream(&a.url)).await;
    let id = bench.begin("go").await.id;
    let made = async || (!bench.task(id).await.artifacts.is_empty()).then_some(());
    eventually("it is followed", made).await;
    let task = bench.cancel(id).await.unwrap();
    assert_eq!((task.status.state, Gap::of(task.metadata.as_ref())), (TaskState::Canceled, None));
    assert_eq!(methods(&b).last().map(String::as_str), Some("CancelTask"));
    assert_eq!(methods(&a), ["SendMessage"]);
}

/// An agent that works, and has handed the task over by the time it is asked to stop.
async fn gone_when_canceled(gone: Value) -> StubServer {
    let goes = AtomicBool::new(false);
    let working = json!({"id": "t-a", "contextId": "c-a", "status": {"state": "TASK_STATE_WORKING"}});
    agent(false, move |_, heard| match heard.method().as_str() {
        "CancelTask" => {
            goes.store(true, Ordering::Relaxed);
            StubAction::Error(-32002, "it is over")
        }
        "SendMessage" => StubAction::Result(json!({ "task": working }).to_string()),
        _ if goes.load(Ordering::Relaxed) => StubAction::Result(gone.to_string()),
        _ => StubAction::Result(working.to_string()),
    })
    .await
}

#[tokio::test]
async fn a_cancel_that_finds_the_task_gone_goes_after_it() {
    let b = receiver(&["WORKING"]).await;
    let a = gone_when_canceled(transferred("t-a", &rpc(&b), "t-b", TransferForm::Literal)).await;
    let bench = Bench::new(upstream(&a.url)).await;
    let id = bench.begin("go").await.id;
    eventually("it has begun", async || (methods(&a).len() > 1).then_some(())).await;
    let task = bench.cancel(id).await.unwrap();
    assert_eq!((task.status.state, texts(&task)), (TaskState::Canceled, vec!["made by b"]));
    assert!(methods(&b).contains(&"CancelTask".to_owned()));
}

#[tokio::test]
async fn a_cancel_that_is_owed_is_told_to_whoever_has_the_task() {
    let deaf = Arc::new(AtomicBool::new(true));
    let hears = deaf.clone();
    let b = agent(false, move |_, heard| match heard.method().as_str() {
        "GetTask" => StubAction::Result(theirs("WORKING", &["made by b"]).to_string()),
        "CancelTask" if !hears.load(Ordering::Relaxed) => StubAction::Result(theirs("CANCELED", &[]).to_string()),
        _ => StubAction::HangUp,
    })
    .await;
    let a = giver(rpc(&b), TransferForm::Urn).await;
    let log = TaskStore::in_memory().log;
    let patience = WaitLimits { silence_max: Some(Duration::from_millis(300)), ..upstream("").wait_limits };
    let impatient = || Upstream { wait_limits: patience, ..upstream(&a.url) };
    let bench = Bench::on(log.clone(), impatient()).await;
    let failed = bench.send("go").await;
    check_lost(&failed, "no news");
    assert!(words(&failed).contains(&rpc(&b)), "{}", words(&failed));
    assert_eq!(log.pending_cancels(None, 10).await.unwrap().len(), 1);
    bench.engine.stop().await;
    deaf.store(false, Ordering::Relaxed);
    Bench::on(log.clone(), impatient()).await.recover().await;
    eventually("nothing is owed any more", async || {
        log.pending_cancels(None, 10).await.unwrap().is_empty().then_some(())
    })
    .await;
    assert_eq!(methods(&a), ["SendMessage"]);
}

#[test]
fn a_crash_after_the_move_finds_the_receiver_again() {
    let runtime = || tokio::runtime::Builder::new_multi_thread().worker_threads(1).enable_all().build().unwrap();
    // Before the receiver was reached, and after.
    for silent in [true, false] {
        let (world, there) = (runtime(), Arc::new(AtomicBool::new(false)));
        let now = there.clone();
        let b = world.block_on(agent(false, move |_, heard| {
            assert_eq!(heard.method(), "GetTask");
            match now.load(Ordering::Relaxed) {
                true => StubAction::Result(theirs("COMPLETED", &["one", "two"]).to_string()),
                false if silent => StubAction::Stream(Vec::new(), StreamEnd::Silence),
                false => StubAction::Result(theirs("WORKING", &["one"]).to_string()),
            }
        }));
        let a = world.block_on(giver(rpc(&b), TransferForm::Urn));
        let log = TaskStore::in_memory().log;
        let first = runtime();
        let id = first.block_on(async {
            let bench = Bench::on(log.clone(), upstream(&a.url)).await;
            let id = bench.begin("go").await.id;
            let asked = async || methods(&b).contains(&"GetTask".to_owned()).then_some(());
            eventually("the receiver is asked", asked).await;
            let followed = async || (silent || !bench.task(id).await.artifacts.is_empty()).then_some(());
            eventually("what it has is told", followed).await;
            id
        });
        // The process ends where it stands.
        first.shutdown_background();
        there.store(true, Ordering::Relaxed);
        let done = world.block_on(async {
            let bench = Bench::on(log, upstream(&a.url)).await;
            bench.recover().await;
            bench.reaches(id, TaskState::Completed).await
        });
        assert_eq!(texts(&done).concat(), "onetwo");
        assert_eq!(methods(&a), ["SendMessage"], "nothing was sent twice");
    }
}

#[tokio::test]
async fn a_circle_ends_the_task_and_so_does_the_way_back_to_us() {
    // Back to the very task where it began.
    let home = Arc::new(Mutex::new(String::new()));
    let back = home.clone();
    let b = agent(false, move |_, _| {
        StubAction::Result(transferred("t-b", &back.lock().unwrap(), "t-a", TransferForm::Urn).to_string())
    })
    .await;
    let a = giver(rpc(&b), TransferForm::Urn).await;
    *home.lock().unwrap() = rpc(&a);
    let bench = Bench::new(upstream(&a.url)).await;
    check_lost(&bench.send("go").await, "circle");
    assert_eq!((methods(&a), methods(&b)), (vec!["SendMessage".into()], vec!["GetTask".into()]));
    // To ourselves.
    let b = receiver(&["COMPLETED"]).await;
    let a = giver(rpc(&b), TransferForm::Urn).await;
    let ours = Arc::new([b.url.trim_start_matches("http://").to_owned()]);
    let onward = FollowPolicy { own_addresses: ours, ..upstream("").follow_policy };
    let bench = Bench::new(Upstream { follow_policy: onward, ..upstream(&a.url) }).await;
    check_lost(&bench.send("go").await, "this server");
    assert_eq!(b.requests().len(), 0);
}

#[tokio::test]
async fn a_task_is_not_followed_to_itself_whatever_we_are_called_there() {
    let (own, b) = (Arc::new(Mutex::new(String::new())), receiver(&["WORKING"]).await);
    let (to, id) = (rpc(&b), own.clone());
    let a = agent(false, move |_, heard| match heard.method().as_str() {
        "SendMessage" => StubAction::Result(
            r#"{"task":{"id":"t-a","contextId":"c-a","status":{"state":"TASK_STATE_WORKING"}}}"#.into(),
        ),
        _ if id.lock().unwrap().is_empty() => {
            StubAction::Result(r#"{"id":"t-a","contextId":"c-a","status":{"state":"TASK_STATE_WORKING"}}"#.into())
        }
        _ => StubAction::Result(transferred("t-a", &to, &id.lock().unwrap(), TransferForm::Urn).to_string()),
    })
    .await;
    let bench = Bench::new(upstream(&a.url)).await;
    let begun = bench.begin("go").await.id;
    *own.lock().unwrap() = begun.to_string();
    check_lost(&bench.reaches(begun, TaskState::Failed).await, "this very task");
    assert_eq!(b.requests().len(), 0);
}

#[tokio::test]
async fn a_chain_without_end_ends_at_its_limit() {
    let hops = Arc::new(AtomicUsize::new(0));
    let count = hops.clone();
    let a = agent(false, move |_, heard| {
        let base = heard.header("host").unwrap();
        let n = count.fetch_add(1, Ordering::Relaxed);
        let went =
            transferred(&format!("t-{n}"), &format!("http://{base}/rpc"), &format!("t-{}", n + 1), TransferForm::Urn);
        match heard.method().as_str() {
            "SendMessage" => StubAction::Result(json!({ "task": went }).to_string()),
            "GetTask" => StubAction::Result(went.to_string()),
            other => panic!("{other}"),
        }
    })
    .await;
    let bench = Bench::new(upstream(&a.url)).await;
    check_lost(&bench.send("go").await, "4 times");
    assert_eq!(hops.load(Ordering::Relaxed), 5, "the first, and four that were followed");
}

#[tokio::test]
async fn a_stranger_is_shown_nothing_that_was_for_somebody_else() {
    let b = receiver(&["WORKING", "INPUT_REQUIRED"]).await;
    let a = giver(rpc(&b), TransferForm::Urn).await;
    let credentials = Credentials { bearer: Some(Secret::new("only-for-a")), ..Credentials::default() };
    let bench = Bench::new(Upstream { credentials, ..upstream(&a.url) }).await;
    let asks = bench.send("go").await;
    let done = bench.answer(&asks, "the first").await;
    assert_eq!(done.status.state, TaskState::Completed, "{}", words(&done));
    assert_eq!(a.calls()[0].header("authorization").as_deref(), Some("Bearer only-for-a"));
    assert!(!b.requests().is_empty());
    assert!(b.requests().iter().all(|heard| !format!("{heard:?}").contains("only-for-a")), "{:?}", b.requests());
}

/// One other agent elsewhere of ours.
#[derive(Debug)]
struct OneAgentDirectory {
    remote: Arc<RemoteAgent>,
    open: bool,
}

impl RemoteAgentDirectory for OneAgentDirectory {
    fn find_at<'a>(&'a self, endpoint: &'a Url, caller: &'a Caller) -> BoxFuture<'a, Option<AgentName>> {
        assert_eq!(caller.name(), "anonymous");
        Box::pin(async move {
            let there = self.open && self.remote.is_at(endpoint).await;
            there.then(|| AgentName::parse("other").unwrap())
        })
    }

    fn find_named(&self, name: &str) -> Option<Arc<RemoteAgent>> {
        (name == "other").then(|| self.remote.clone())
    }
}

#[tokio::test]
async fn an_agent_of_ours_is_called_as_it_is_otherwise_where_the_caller_may_use_it() {
    for (open, from, done) in [(true, "t-a", true), (false, "t-a", true), (true, "somebody else's", false)] {
        let b = agent(false, move |_, heard| match heard.method().as_str() {
            "GetTask" => StubAction::Result(
                theirs("COMPLETED", &["made by b"]).to_string().replace("\"t-a\"", &format!("{from:?}")),
            ),
            other => panic!("{other}"),
        })
        .await;
        let a = giver(rpc(&b), TransferForm::Urn).await;
        let credentials = Credentials { bearer: Some(Secret::new("for-b")), ..Credentials::default() };
        let known = Upstream { name: "other".into(), credentials, ..upstream(&b.url) };
        let remote = Arc::new(RemoteAgent::new(known, &Hub::new(Metrics::default())).unwrap());
        let directory: Arc<dyn RemoteAgentDirectory> = Arc::new(OneAgentDirectory { remote, open });
        let onward = FollowPolicy { remote_agents: Some(Arc::downgrade(&directory)), ..upstream("").follow_policy };
        let bench = Bench::new(Upstream { follow_policy: onward, ..upstream(&a.url) }).await;
        let task = bench.send("go").await;
        let shown = b.calls().iter().any(|call| call.header("authorization").as_deref() == Some("Bearer for-b"));
        assert_eq!(shown, open, "{:?}", b.calls());
        match done {
            true => assert_eq!((task.status.state, texts(&task)), (TaskState::Completed, vec!["made by b"])),
            // An agent that hands a task over may not choose among all tasks that we can see there.
            false => {
                check_lost(&task, "does not say that it came from here");
                assert!(task.artifacts.is_empty());
            }
        }
    }
}

#[tokio::test]
async fn where_nobody_can_be_followed_the_task_fails_and_says_where_it_went() {
    let gone = receiver(&["COMPLETED"]).await;
    let port = gone.url.rsplit(':').next().unwrap().to_owned();
    let unknown = agent(false, |_, _| StubAction::Error(-32001, "no such task")).await;
    let locked = agent_with(
        |base| {
            let scheme = r#","securitySchemes":{"k":{"httpAuthSecurityScheme":{"scheme":"bearer"}}},
                "securityRequirements":[{"schemes":{"k":{"list":[]}}}]"#;
            hands_over(base, false, scheme)
        },
        |_, _| StubAction::Answer(401, String::new(), String::new()),
    )
    .await;
    let stranger = agent_with(
        |base| hands_over(base, false, "").replace(&format!("{base}/rpc"), "https://elsewhere.example/rpc"),
        |_, _| StubAction::Answer(404, String::new(), String::new()),
    )
    .await;
    for (to, why) in [
        ("http://10.0.0.1/rpc".into(), "only https"),
        ("https://10.0.0.1/rpc".into(), "may not be called"),
        (format!("https://0.0.0.0:{port}/rpc"), "may not be called"),
        ("https://169.254.169.254/latest".into(), "may not be called"),
        ("https://user:pw@b.example/".into(), "no address"),
        ("file:///etc/passwd".into(), "no address"),
        (rpc(&unknown), "does not know the task"),
        (rpc(&locked), "asks for credentials"),
        (rpc(&stranger), "does not offer it"),
    ] {
        let a = giver(to.clone(), TransferForm::Urn).await;
        let bench = Bench::new(upstream(&a.url)).await;
        let failed = bench.send("go").await;
        check_lost(&failed, why);
        assert!(words(&failed).contains("handed over"), "{to}: {}", words(&failed));
        assert!(!words(&failed).contains("pw@"), "{}", words(&failed));
    }
    // Nothing listens there: tried as often as any agent, then given up.
    let nobody = std::net::TcpListener::bind("127.0.0.1:0").unwrap().local_addr().unwrap();
    let a = giver(format!("http://{nobody}/rpc"), TransferForm::Urn).await;
    let patience = WaitLimits { attempts_max: 2, ..upstream("").wait_limits };
    let bench = Bench::new(Upstream { wait_limits: patience, ..upstream(&a.url) }).await;
    let failed = bench.send("go").await;
    check_lost(&failed, "called 2 times");
    assert!(words(&failed).contains(&format!("handed over to http://{nobody}/rpc")), "{}", words(&failed));
    // Nor is a transfer that cannot be read taken for success.
    let a = giver(rpc(&gone), TransferForm::Torn).await;
    let failed = Bench::new(upstream(&a.url)).await.send("go").await;
    assert_eq!(failed.status.state, TaskState::Failed);
    assert!(words(&failed).contains("not to whom"), "{}", words(&failed));
}

#[tokio::test]
async fn what_was_written_down_for_the_agent_itself_opens_no_other_door() {
    let b = receiver(&["COMPLETED"]).await;
    let a = giver(rpc(&b), TransferForm::Urn).await;
    let onward = FollowPolicy { egress: Egress::public(), ..upstream("").follow_policy };
    let bench = Bench::new(Upstream { follow_policy: onward, ..upstream(&a.url) }).await;
    check_lost(&bench.send("go").await, "may not be called");
    assert_eq!(b.requests().len(), 0);
}

#[tokio::test]
async fn a_cancel_where_nobody_may_go_says_so() {
    let a = gone_when_canceled(transferred("t-a", "https://10.0.0.1/rpc", "t-b", TransferForm::Urn)).await;
    let bench = Bench::new(upstream(&a.url)).await;
    let id = bench.begin("go").await.id;
    eventually("it has begun", async || (methods(&a).len() > 1).then_some(())).await;
    let task = match bench.cancel(id).await {
        Ok(task) => task,
        Err(Fault::TaskNotCancelable { .. }) => panic!("it may go on there"),
        Err(other) => panic!("{other}"),
    };
    assert_eq!(task.status.state, TaskState::Canceled);
    let gap = Gap::of(task.metadata.as_ref()).expect("it may go on there");
    assert!(gap.reason.contains("handed over"), "{}", gap.reason);
}

#[tokio::test]
async fn a_card_at_the_origin_of_the_receiver_is_found() {
    let b = StubServer::bare(|_, heard| match (heard.line.split(' ').nth(1).unwrap(), heard.method().as_str()) {
        ("/.well-known/agent-card.json", _) => {
            let base = format!("http://{}", heard.header("host").unwrap());
            StubAction::Answer(200, "content-type: application/json\r\n".into(), hands_over(&base, false, ""))
        }
        ("/rpc", "GetTask") => StubAction::Result(theirs("COMPLETED", &["made by b"]).to_string()),
        _ => StubAction::Answer(404, String::new(), String::new()),
    })
    .await;
    let a = giver(rpc(&b), TransferForm::Urn).await;
    let done = Bench::new(upstream(&a.url)).await.send("go").await;
    assert_eq!((done.status.state, texts(&done)), (TaskState::Completed, vec!["made by b"]), "{}", words(&done));
}

/// A card that names another address before its own.
fn naming(base: &str, other: &str) -> String {
    let mut card: Value = serde_json::from_str(&hands_over(base, false, "")).unwrap();
    let interfaces = card["supportedInterfaces"].as_array_mut().unwrap();
    let mut first = interfaces[0].clone();
    first["url"] = json!(other);
    interfaces.insert(0, first);
    card.to_string()
}

#[tokio::test]
async fn a_card_that_names_somebody_elses_address_is_not_taken_for_them() {
    let b = receiver(&["COMPLETED"]).await;
    let there = rpc(&b);
    let other = there.clone();
    let poser = agent_with(move |base| naming(base, &other), |_, heard| panic!("{heard:?}")).await;
    let remote = RemoteAgent::new(upstream(&poser.url), &Hub::new(Metrics::default())).unwrap();
    assert!(remote.is_at(&Url::parse(&rpc(&poser)).unwrap()).await, "its own");
    assert!(!remote.is_at(&Url::parse(&there).unwrap()).await);
}

#[tokio::test]
async fn of_a_strangers_card_the_interface_that_was_named_is_called_and_no_other() {
    let bystander = agent(false, |_, heard| panic!("{heard:?}")).await;
    let other = rpc(&bystander);
    let b = agent_with(
        move |base| naming(base, &other),
        |_, _| StubAction::Result(theirs("COMPLETED", &["made by b"]).to_string()),
    )
    .await;
    let a = giver(rpc(&b), TransferForm::Urn).await;
    let done = Bench::new(upstream(&a.url)).await.send("go").await;
    assert_eq!((done.status.state, texts(&done)), (TaskState::Completed, vec!["made by b"]), "{}", words(&done));
    assert!(methods(&bystander).is_empty());
}
