//! Promises of the http agent, tested with an endpoint on this machine and the real engine.

use super::super::stand_in::{Line, StandIn, World, agent_config, artifact, made, said, words};
use sabir_engine::Recovery;
use sabir_proto::{Task, TaskState};

const JSON: &str = "application/json";

async fn world(lines: impl IntoIterator<Item = Line>, more: &str) -> (StandIn, World) {
    let endpoint = StandIn::new(lines).await;
    let world = World::of(&agent_config("http", &endpoint.url, more)).await;
    (endpoint, world)
}

async fn ask(lines: impl IntoIterator<Item = Line>, more: &str) -> (Task, usize) {
    let (endpoint, world) = world(lines, more).await;
    let task = world.say("hello").await;
    (task, endpoint.seen().len())
}

fn frames(frames: &[&str]) -> Vec<String> {
    frames.iter().map(|f| (*f).to_owned()).collect()
}

#[tokio::test]
async fn the_endpoint_is_told_what_it_needs_and_shown_our_key() {
    let more = "bearer = \"env:TOKEN\"\n[http]\nheaders = { x-key = \"env:KEY\" }\nhistory_messages_max = 5";
    let asks = Line::Says(200, JSON, r#"{"state":"input-required","text":"Which month?"}"#.into());
    let answers = Line::Says(200, JSON, r#"{"text":"Done"}"#.into());
    let (endpoint, world) = world([asks, answers], more).await;
    let task = world.say("Reconcile").await;
    assert_eq!((task.status.state, &*words(&task)), (TaskState::InputRequired, "Which month?"));
    let task = world.answer(&task, "March").await;
    assert_eq!((task.status.state, &*artifact(&task, "answer")), (TaskState::Completed, "Done"));

    let seen = endpoint.seen();
    for line in ["authorization: bearer secret-token", "x-key: secret-key", "content-type: application/json"] {
        assert!(seen[0].head.contains(line), "{}", seen[0].head);
    }
    let body = &seen[1].body;
    assert_eq!((&body["text"], &body["parts"][0]["text"]), (&"March".into(), &"March".into()));
    assert_eq!((&body["taskId"], &body["caller"]), (&task.id.to_string().into(), &"ann".into()));
    assert_eq!((&body["toolMode"], &body["attempt"]), (&"full".into(), &1.into()));
    let said: Vec<_> = body["history"].as_array().unwrap().iter().map(|m| m["parts"][0]["text"].clone()).collect();
    assert_eq!(said, ["Reconcile", "Which month?"]);
    assert!(
        seen[1].head.contains(&format!("idempotency-key: {}", body["turnId"].as_str().unwrap())),
        "{}",
        seen[1].head
    );
}

#[tokio::test]
async fn a_stream_becomes_chunks_of_one_artifact() {
    let lines =
        frames(&[r#"{"status":"thinking"}"#, r#"{"text":"Good "}"#, "day", r#"{"state":"completed","text":"!"}"#]);
    let (task, _) = ask([Line::Streams(lines)], "").await;
    assert_eq!((task.status.state, &*artifact(&task, "answer")), (TaskState::Completed, "Good day!"));
}

#[tokio::test]
async fn a_stream_that_breaks_off_is_a_failure_and_keeps_what_came() {
    let (task, _) = ask([Line::BreaksOff(frames(&["Good "]))], "").await;
    assert_eq!((task.status.state, &*artifact(&task, "answer")), (TaskState::Failed, "Good "));
    assert!(words(&task).contains("broke off"), "{}", words(&task));
}

#[tokio::test]
async fn every_bound_is_kept() {
    let (task, _) = ask([Line::Says(200, "text/plain", "y".repeat(2000))], "[http]\nanswer_bytes_max = 1000").await;
    assert_eq!(task.status.state, TaskState::Failed);
    assert!(words(&task).contains("more than 1000 bytes"), "{}", words(&task));
    let many = (0..100).map(|_| "0123456789".repeat(2)).collect();
    let (task, _) = ask([Line::Streams(many)], "[http]\nanswer_bytes_max = 1000").await;
    assert!(words(&task).contains("more than 1000 bytes"), "{}", words(&task));
    let (task, _) = ask([Line::Hangs(vec!["a".into()])], "[http]\nsilence_seconds_max = 1").await;
    assert!(words(&task).contains("broke off"), "{}", words(&task));
}

#[tokio::test]
async fn what_may_have_been_done_is_not_done_twice() {
    let busy = || Line::Says(503, "text/plain", "later".into());
    let done = || Line::Says(200, "text/plain", "Done".into());
    let (task, requests) = ask([busy(), done()], "").await;
    assert_eq!((task.status.state, requests), (TaskState::Failed, 1));
    assert!(words(&task).contains("HTTP 503): later"), "{}", words(&task));
    let (task, requests) = ask([busy(), done()], "idempotent = true").await;
    assert_eq!((task.status.state, requests), (TaskState::Completed, 2));
    for (more, recovery) in [("", Recovery::Fail), ("idempotent = true", Recovery::Restart)] {
        let agent = made(&agent_config("http", "http://127.0.0.1:1/", more)).unwrap();
        assert_eq!((agent.any_nature().recovery, agent.any_nature().instant), (recovery, false));
    }
}

#[tokio::test]
async fn a_refusal_says_what_people_may_know() {
    let check = async |status, body: &str, expected: &str| {
        let (task, _) = ask([Line::Says(status, JSON, body.into())], "").await;
        assert_eq!(task.status.state, TaskState::Failed);
        assert!(words(&task).contains(expected), "{}", words(&task));
    };
    check(401, r#"{"error":"key secret-KEY is wrong"}"#, "did not accept our credentials").await;
    check(422, r#"{"error":{"message":"no such month"}}"#, "refused the request (HTTP 422): no such month").await;
    check(302, "", "refused the request (HTTP 302)").await;
    check(200, r#"{"text":3}"#, "cannot be read").await;
    let task = World::of(&agent_config("http", "http://127.0.0.1:1/", "")).await.say("hello").await;
    assert!(words(&task).contains("cannot be reached"), "{}", words(&task));
}

#[tokio::test]
async fn cancel_closes_the_request() {
    let (endpoint, world) = world([Line::Hangs(vec!["a".into()])], "").await;
    let task = world.send(said("hello"), true).await;
    while endpoint.seen().is_empty() {
        tokio::task::yield_now().await;
    }
    world.cancel(task.id).await;
    tokio::time::timeout(std::time::Duration::from_secs(30), endpoint.left.notified()).await.unwrap();
}

#[tokio::test]
async fn the_policy_for_addresses_holds_here_too() {
    // A configured address may be called. A host name may not resolve to a service that hands out credentials.
    let task = World::of(&agent_config("http", "http://metadata.google.internal/", "")).await.say("hello").await;
    assert_eq!(task.status.state, TaskState::Failed);
    assert!(words(&task).contains("may not be called"), "{}", words(&task));
}

#[test]
fn a_section_that_cannot_be_meant_is_refused() {
    let check = |url: &str, more: &str, expected: &str| {
        let problem = made(&agent_config("http", url, more)).err().unwrap_or_default();
        assert!(problem.contains(expected), "{problem}");
    };
    check("ftp://x/", "", "http or https");
    check("https://u:p@x/", "", "credentials do not belong in a URL");
    check("https://x/", "[http]\nattempts_max = 0", "not between 1 and 10");
    check("https://x/", "bearer = \"hunter2\"", "bearer");
    check("https://x/", "[http]\nheaders = { \"a b\" = \"env:K\" }", "not the name of a header");
    check("https://x/", "api_key = \"env:K\"", "api_key belongs to kind = \"a2a\"");
    let problem = made(&agent_config("echo", "https://x/", "")).err().unwrap_or_default();
    assert!(problem.contains("url belongs to kind = \"a2a\" or \"http\" or \"openai\""), "{problem}");
}
