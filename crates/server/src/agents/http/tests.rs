//! Promises of the http agent, tested with an endpoint on this machine and the real engine.

use super::super::test_upstream::{
    AgentTest, ScriptedAnswer, TestUpstream, agent_config, artifact, make_agent, status_text, user_message,
};
use sabir_engine::Recovery;
use sabir_proto::{Task, TaskState};

const JSON: &str = "application/json";

async fn set_up(lines: impl IntoIterator<Item = ScriptedAnswer>, more: &str) -> (TestUpstream, AgentTest) {
    let endpoint = TestUpstream::scripted(lines).await;
    let world = AgentTest::of(&agent_config("http", &endpoint.url, more)).await;
    (endpoint, world)
}

async fn ask(lines: impl IntoIterator<Item = ScriptedAnswer>, more: &str) -> (Task, usize) {
    let (endpoint, world) = set_up(lines, more).await;
    let task = world.say("hello").await;
    (task, endpoint.requests().len())
}

fn frames(frames: &[&str]) -> Vec<String> {
    frames.iter().map(|f| (*f).to_owned()).collect()
}

#[tokio::test]
async fn the_endpoint_is_told_what_it_needs_and_shown_our_key() {
    let more = "bearer = \"env:TOKEN\"\n[http]\nheaders = { x-key = \"env:KEY\" }\nhistory_messages_max = 5";
    let asks = ScriptedAnswer::Whole(200, JSON, r#"{"state":"input-required","text":"Which month?"}"#.into());
    let answers = ScriptedAnswer::Whole(200, JSON, r#"{"text":"Done"}"#.into());
    let (endpoint, world) = set_up([asks, answers], more).await;
    let task = world.say("Reconcile").await;
    assert_eq!((task.status.state, &*status_text(&task)), (TaskState::InputRequired, "Which month?"));
    let task = world.answer(&task, "March").await;
    assert_eq!((task.status.state, &*artifact(&task, "answer")), (TaskState::Completed, "Done"));

    let seen = endpoint.requests();
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
    let (task, _) = ask([ScriptedAnswer::Stream(lines)], "").await;
    assert_eq!((task.status.state, &*artifact(&task, "answer")), (TaskState::Completed, "Good day!"));
}

#[tokio::test]
async fn a_stream_that_breaks_off_is_a_failure_and_keeps_what_came() {
    let (task, _) = ask([ScriptedAnswer::BrokenStream(frames(&["Good "]))], "").await;
    assert_eq!((task.status.state, &*artifact(&task, "answer")), (TaskState::Failed, "Good "));
    assert!(status_text(&task).contains("broke off"), "{}", status_text(&task));
}

#[tokio::test]
async fn every_bound_is_kept() {
    let (task, _) =
        ask([ScriptedAnswer::Whole(200, "text/plain", "y".repeat(2000))], "[http]\nanswer_bytes_max = 1000").await;
    assert_eq!(task.status.state, TaskState::Failed);
    assert!(status_text(&task).contains("more than 1000 bytes"), "{}", status_text(&task));
    let many = (0..100).map(|_| "0123456789".repeat(2)).collect();
    let (task, _) = ask([ScriptedAnswer::Stream(many)], "[http]\nanswer_bytes_max = 1000").await;
    assert!(status_text(&task).contains("more than 1000 bytes"), "{}", status_text(&task));
    let (task, _) = ask([ScriptedAnswer::HangingStream(vec!["a".into()])], "[http]\nsilence_seconds_max = 1").await;
    assert!(status_text(&task).contains("broke off"), "{}", status_text(&task));
}

#[tokio::test]
async fn what_may_have_been_done_is_not_done_twice() {
    let busy = || ScriptedAnswer::Whole(503, "text/plain", "later".into());
    let done = || ScriptedAnswer::Whole(200, "text/plain", "Done".into());
    let (task, requests) = ask([busy(), done()], "").await;
    assert_eq!((task.status.state, requests), (TaskState::Failed, 1));
    assert!(status_text(&task).contains("HTTP 503): later"), "{}", status_text(&task));
    let (task, requests) = ask([busy(), done()], "idempotent = true").await;
    assert_eq!((task.status.state, requests), (TaskState::Completed, 2));
    for (more, recovery) in [("", Recovery::Fail), ("idempotent = true", Recovery::Restart)] {
        let agent = make_agent(&agent_config("http", "http://127.0.0.1:1/", more)).unwrap();
        assert_eq!((agent.any_execution().recovery, agent.any_execution().instant), (recovery, false));
    }
}

#[tokio::test]
async fn a_refusal_says_what_people_may_know() {
    let check = async |status, body: &str, expected: &str| {
        let (task, _) = ask([ScriptedAnswer::Whole(status, JSON, body.into())], "").await;
        assert_eq!(task.status.state, TaskState::Failed);
        assert!(status_text(&task).contains(expected), "{}", status_text(&task));
    };
    check(401, r#"{"error":"key secret-KEY is wrong"}"#, "did not accept our credentials").await;
    check(422, r#"{"error":{"message":"no such month"}}"#, "refused the request (HTTP 422): no such month").await;
    check(302, "", "refused the request (HTTP 302)").await;
    check(200, r#"{"text":3}"#, "cannot be read").await;
    let task = AgentTest::of(&agent_config("http", "http://127.0.0.1:1/", "")).await.say("hello").await;
    assert!(status_text(&task).contains("cannot be reached"), "{}", status_text(&task));
}

#[tokio::test]
async fn cancel_closes_the_request() {
    let (endpoint, world) = set_up([ScriptedAnswer::HangingStream(vec!["a".into()])], "").await;
    let task = world.send(user_message("hello"), true).await;
    while endpoint.requests().is_empty() {
        tokio::task::yield_now().await;
    }
    world.cancel(task.id).await;
    tokio::time::timeout(std::time::Duration::from_secs(30), endpoint.left.notified()).await.unwrap();
}

#[tokio::test]
async fn the_policy_for_addresses_holds_here_too() {
    // A configured address may be called. A host name may not resolve to a service that hands out credentials.
    let task = AgentTest::of(&agent_config("http", "http://metadata.google.internal/", "")).await.say("hello").await;
    assert_eq!(task.status.state, TaskState::Failed);
    assert!(status_text(&task).contains("may not be called"), "{}", status_text(&task));
}

#[test]
fn a_section_that_cannot_be_meant_is_refused() {
    let check = |url: &str, more: &str, expected: &str| {
        let problem = make_agent(&agent_config("http", url, more)).err().unwrap_or_default();
        assert!(problem.contains(expected), "{problem}");
    };
    check("ftp://x/", "", "http or https");
    check("https://u:p@x/", "", "credentials do not belong in a URL");
    check("https://x/", "[http]\nattempts_max = 0", "not between 1 and 10");
    check("https://x/", "bearer = \"hunter2\"", "bearer");
    check("https://x/", "[http]\nheaders = { \"a b\" = \"env:K\" }", "not the name of a header");
    check("https://x/", "api_key = \"env:K\"", "api_key belongs to kind = \"a2a\"");
    let problem = make_agent(&agent_config("echo", "https://x/", "")).err().unwrap_or_default();
    assert!(problem.contains("url belongs to kind = \"a2a\" or \"http\" or \"openai\""), "{problem}");
}
