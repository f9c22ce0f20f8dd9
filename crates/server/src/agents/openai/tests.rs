//! Promises of the openai agent, tested with a scripted endpoint on this machine and the real engine.

use super::super::test_upstream::{
    AgentTest, ScriptedAnswer, TestUpstream, agent_config, artifact, make_agent, status_text, user_message,
};
use super::USAGE;
use sabir_engine::Limits;
use sabir_proto::{Task, TaskState, ToolMode};
use serde_json::{Value, json};
use std::path::Path;

const MODEL: &str = "[openai]\nmodel = \"m1\"\n";

fn delta(delta: Value) -> String {
    json!({"id": "c", "object": "chat.completion.chunk", "choices": [{"index": 0, "delta": delta}]}).to_string()
}

fn finish(reason: &str) -> String {
    json!({"choices": [{"index": 0, "delta": {}, "finish_reason": reason}]}).to_string()
}

fn usage(input: u64, output: u64) -> String {
    json!({"choices": [], "usage": {"prompt_tokens": input, "completion_tokens": output}}).to_string()
}

/// An answer as text, as it streams.
fn says(pieces: &[&str]) -> ScriptedAnswer {
    let mut frames = vec![delta(json!({"role": "assistant", "content": ""}))];
    frames.extend(pieces.iter().map(|piece| delta(json!({"content": piece}))));
    frames.extend([finish("stop"), usage(11, 7), "[DONE]".into()]);
    ScriptedAnswer::Stream(frames)
}

/// An answer that asks for a tool.
fn wants(tool: &str, arguments: &str) -> ScriptedAnswer {
    let call =
        json!({"index": 0, "id": "call_1", "type": "function", "function": {"name": tool, "arguments": arguments}});
    let frames = [delta(json!({"content": "Let me see."})), delta(json!({"tool_calls": [call]})), finish("tool_calls")];
    ScriptedAnswer::Stream(frames.into_iter().chain([usage(100, 20), "[DONE]".into()]).collect())
}

async fn set_up(lines: impl IntoIterator<Item = ScriptedAnswer>, more: &str) -> (TestUpstream, AgentTest) {
    let endpoint = TestUpstream::scripted(lines).await;
    let world = AgentTest::of(&agent_config("openai", &endpoint.url, more)).await;
    (endpoint, world)
}

fn spent(task: &Task) -> Value {
    task.artifacts[0].metadata.as_ref().and_then(|metadata| metadata.get(USAGE)).unwrap_or_else(|| panic!("{task:?}"))
}

/// An MCP server on standard input and output that records every use of a tool.
fn mcp_command(calls: &Path) -> String {
    let tool = |name: &str, hint: &str| {
        format!(r#"{{"name":"{name}","description":"d","inputSchema":{{"type":"object"}}{hint}}}"#)
    };
    let hint = r#","annotations":{"readOnlyHint":true}"#;
    let tools = [tool("get_rate", ""), tool("pay", ""), tool("peek", hint)].join(",");
    let result = |result: &str| format!(r#"printf '{{"jsonrpc":"2.0","id":%s,"result":{result}}}\n' "$id""#);
    let info = r#""serverInfo":{"name":"stub","version":"1"}"#;
    let script = format!(
        r#"while read -r line; do
id=$(printf '%s' "$line" | sed -n 's/.*"id":\([0-9]*\).*/\1/p')
case "$line" in
*'"initialize"'*) {initialize} ;;
*'"tools/list"'*) {list} ;;
*'"tools/call"'*) printf '%s\n' "$line" >> '{calls}'; {call} ;;
*'"id"'*) printf '{{"jsonrpc":"2.0","id":%s,"error":{{"code":-32601,"message":"no"}}}}\n' "$id" ;;
esac
done"#,
        initialize = result(&format!(r#"{{"protocolVersion":"2025-06-18","capabilities":{{"tools":{{}}}},{info}}}"#)),
        list = result(&format!(r#"{{"tools":[{tools}]}}"#)),
        call = result(r#"{"content":[{"type":"text","text":"1.25"}]}"#),
        calls = calls.display(),
    );
    let path = calls.with_extension("sh");
    std::fs::write(&path, script).unwrap();
    format!("sh {}", path.display())
}

fn with_mcp(calls: &Path) -> String {
    format!("{MODEL}[[openai.tools.mcp]]\nname = \"bank\"\ncommand = \"{}\"\n", mcp_command(calls))
}

#[tokio::test]
async fn words_stream_into_one_artifact_that_says_what_it_cost() {
    let more =
        "bearer = \"env:TOKEN\"\n[openai]\nmodel = \"m1\"\nsystem = \"Be brief.\"\nparameters = { temperature = 0.5 }";
    let (endpoint, world) = set_up([says(&["Good ", "day", "."])], more).await;
    let task = world.say("Hello").await;
    assert_eq!((task.status.state, &*artifact(&task, "answer")), (TaskState::Completed, "Good day."));
    let expected = json!({"model": "m1", "inputTokens": 11, "outputTokens": 7, "finishReason": "stop"});
    assert_eq!(spent(&task), expected);
    let seen = endpoint.requests().remove(0);
    assert!(seen.head.starts_with("post /ask/chat/completions "), "{}", seen.head);
    assert!(seen.head.contains("authorization: bearer secret-token"), "{}", seen.head);
    let (body, messages) = (&seen.body, &seen.body["messages"]);
    assert_eq!((&body["model"], &body["stream"], &body["temperature"]), (&json!("m1"), &json!(true), &json!(0.5)));
    assert_eq!(*messages, json!([{"role": "system", "content": "Be brief."}, {"role": "user", "content": "Hello"}]));
    assert_eq!(body.get("tools"), None);
}

#[tokio::test]
async fn an_endpoint_that_does_not_stream_is_understood() {
    let whole = json!({"choices": [{"message": {"role": "assistant", "content": "Hi"}, "finish_reason": "stop"}],
        "usage": {"prompt_tokens": 1, "completion_tokens": 2}});
    let (_endpoint, world) = set_up([ScriptedAnswer::Whole(200, "application/json", whole.to_string())], MODEL).await;
    let task = world.say("Hello").await;
    assert_eq!((&*artifact(&task, "answer"), &spent(&task)["outputTokens"]), ("Hi", &json!(2)));
}

#[tokio::test]
async fn a_question_goes_to_the_caller_and_the_answer_is_told_with_what_came_before() {
    let lines = [wants("ask_user", r#"{"question":"Which month?"}"#), says(&["March it is."])];
    let (endpoint, world) = set_up(lines, "[openai]\nmodel = \"m1\"\nasks = true").await;
    let task = world.say("Reconcile").await;
    assert_eq!((task.status.state, &*status_text(&task)), (TaskState::InputRequired, "Which month?"));
    let task = world.answer(&task, "March").await;
    assert_eq!((task.status.state, &*artifact(&task, "answer")), (TaskState::Completed, "March it is."));
    let seen = endpoint.requests();
    assert_eq!(seen[0].body["tools"][0]["function"]["name"], "ask_user");
    let told: Vec<_> = seen[1].body["messages"].as_array().unwrap().iter().map(|m| m["content"].clone()).collect();
    assert_eq!(told, [json!("Reconcile"), json!("Let me see."), json!("Which month?"), json!("March")]);
}

#[tokio::test]
async fn tools_of_an_mcp_server_are_used_and_their_results_told() {
    let dir = tempfile::tempdir().unwrap();
    let calls = dir.path().join("calls");
    let lines = [wants("bank__get_rate", r#"{"pair":"EURUSD"}"#), says(&["1.25"])];
    let (endpoint, world) = set_up(lines, &with_mcp(&calls)).await;
    let task = world.say("What is the rate?").await;
    assert_eq!(
        (task.status.state, &*artifact(&task, "answer")),
        (TaskState::Completed, "1.25"),
        "{}",
        status_text(&task)
    );
    assert_eq!((&spent(&task)["inputTokens"], &spent(&task)["outputTokens"]), (&json!(111), &json!(27)));
    let seen = endpoint.requests();
    let offered: Vec<_> =
        seen[0].body["tools"].as_array().unwrap().iter().map(|t| t["function"]["name"].clone()).collect();
    assert_eq!(offered, ["bank__get_rate", "bank__pay", "bank__peek"]);
    let messages = &seen[1].body["messages"];
    assert_eq!(messages[1]["tool_calls"][0]["function"]["name"], "bank__get_rate");
    assert_eq!(messages[2], json!({"role": "tool", "content": "1.25", "tool_call_id": "call_1"}));
    assert!(std::fs::read_to_string(&calls).unwrap().contains(r#""pair":"EURUSD""#));
}

#[tokio::test]
async fn a_tool_that_changes_something_is_refused_where_only_looking_is_allowed() {
    let dir = tempfile::tempdir().unwrap();
    let calls = dir.path().join("calls");
    let lines = [wants("bank__pay", r#"{"amount":1000}"#), says(&["I may not."])];
    let endpoint = TestUpstream::scripted(lines).await;
    let agent = make_agent(&agent_config("openai", &endpoint.url, &with_mcp(&calls))).unwrap();
    let task = AgentTest::with(agent, ToolMode::ReadOnly).await.say("Pay them").await;
    assert_eq!(
        (task.status.state, &*artifact(&task, "answer")),
        (TaskState::Completed, "I may not."),
        "{}",
        status_text(&task)
    );
    let seen = endpoint.requests();
    let offered: Vec<_> =
        seen[0].body["tools"].as_array().unwrap().iter().map(|t| t["function"]["name"].clone()).collect();
    assert_eq!(offered, ["bank__get_rate", "bank__peek"]);
    assert!(
        seen[1].body["messages"][2]["content"].as_str().unwrap().contains("there is no tool"),
        "{:?}",
        seen[1].body
    );
    assert!(!calls.exists(), "the server was asked to pay");
}

#[tokio::test]
async fn tools_of_an_mcp_server_on_the_web_go_through_the_same_door() {
    let server = TestUpstream::answering(|request| {
        let id = &request.body["id"];
        let answer = |result: Value| json!({"jsonrpc": "2.0", "id": id, "result": result}).to_string();
        match request.body["method"].as_str() {
            Some("initialize") => {
                let info = json!({"protocolVersion": "2025-06-18", "capabilities": {"tools": {}},
                    "serverInfo": {"name": "stub", "version": "1"}});
                ScriptedAnswer::Whole(200, "application/json", answer(info))
            }
            Some("tools/list") => {
                let tool = json!({"name": "get_rate", "inputSchema": {"type": "object"}});
                ScriptedAnswer::Stream(vec![answer(json!({"tools": [tool]}))])
            }
            Some("tools/call") => {
                ScriptedAnswer::Stream(vec![answer(json!({"content": [{"type": "text", "text": "0.8"}]}))])
            }
            Some(_) if id.is_null() => ScriptedAnswer::Whole(202, "text/plain", String::new()),
            _ => ScriptedAnswer::Whole(405, "text/plain", String::new()),
        }
    })
    .await;
    let lines = [wants("bank__get_rate", "{}"), says(&["0.8"])];
    let more =
        format!("{MODEL}[[openai.tools.mcp]]\nname = \"bank\"\nurl = \"{}\"\nbearer = \"env:BANK\"\n", server.url);
    let (endpoint, world) = set_up(lines, &more).await;
    let task = world.say("What is the rate?").await;
    assert_eq!(
        (task.status.state, &*artifact(&task, "answer")),
        (TaskState::Completed, "0.8"),
        "{}",
        status_text(&task)
    );
    assert_eq!(endpoint.requests()[1].body["messages"][2]["content"], "0.8");
    assert!(server.requests().iter().all(|request| request.head.contains("authorization: bearer secret-bank")));
}

#[tokio::test]
async fn a_model_that_does_not_come_to_an_end_is_stopped() {
    let lines = (0..10).map(|_| wants("nothing", "{}"));
    let (endpoint, world) = set_up(lines, &format!("{MODEL}limits = {{ rounds_max = 3 }}")).await;
    let task = world.say("Go").await;
    assert_eq!((task.status.state, endpoint.requests().len()), (TaskState::Failed, 3));
    assert!(status_text(&task).contains("asked 3 times"), "{}", status_text(&task));
}

#[tokio::test]
async fn what_it_costs_is_booked_and_a_conversation_that_has_spent_enough_ends() {
    let more = format!("{MODEL}asks = true\nprice = {{ input_micros = 1000, output_micros = 2000 }}");
    let check = async |most: u64, state: TaskState| {
        // Two rounds: 100 tokens read and 20 written, then 11 and 7.
        let endpoint = TestUpstream::scripted([wants("nothing", "{}"), says(&["Done."])]).await;
        let agent = make_agent(&agent_config("openai", &endpoint.url, &more)).unwrap();
        let limits = Limits { spend_per_root_max: most, ..Limits::default() };
        let task = AgentTest::limited(agent, ToolMode::Full, limits).await.say("Go").await;
        assert_eq!(task.status.state, state, "{most}: {}", status_text(&task));
        endpoint.requests().len()
    };
    assert_eq!(check(165, TaskState::Completed).await, 2);
    assert_eq!(check(164, TaskState::Failed).await, 2);
    assert_eq!(check(139, TaskState::Failed).await, 1);
}

#[tokio::test]
async fn failures_are_told_in_words() {
    let check = async |lines: Vec<ScriptedAnswer>, expected: &str| {
        let (_endpoint, world) = set_up(lines, MODEL).await;
        let task = world.say("Go").await;
        assert_eq!(task.status.state, TaskState::Failed);
        assert!(status_text(&task).contains(expected), "{}", status_text(&task));
    };
    let error = |status, words: &str| {
        ScriptedAnswer::Whole(status, "application/json", json!({"error": {"message": words}}).to_string())
    };
    check(vec![error(404, "no model m1")], "no model m1").await;
    check(vec![error(401, "bad key sk-1")], "did not accept our credentials").await;
    check(vec![ScriptedAnswer::BrokenStream(vec![delta(json!({"content": "Go"}))])], "broke off").await;
    check(vec![ScriptedAnswer::Stream(vec![json!({"error": {"message": "overloaded"}}).to_string()])], "overloaded")
        .await;
    check(vec![ScriptedAnswer::Whole(200, "application/json", "<html>".into())], "cannot be read").await;
    check(vec![ScriptedAnswer::Stream(vec!["[DONE]".into()])], "said nothing").await;
}

#[tokio::test]
async fn a_busy_model_is_asked_once_more() {
    let busy = ScriptedAnswer::Whole(503, "text/plain", "later".into());
    let (endpoint, world) = set_up([busy, says(&["Here."])], MODEL).await;
    let task = world.say("Go").await;
    assert_eq!((&*artifact(&task, "answer"), endpoint.requests().len()), ("Here.", 2));
}

#[tokio::test]
async fn cancel_closes_the_request() {
    let (endpoint, world) = set_up([ScriptedAnswer::HangingStream(vec![delta(json!({"content": "Go"}))])], MODEL).await;
    let task = world.send(user_message("hello"), true).await;
    while endpoint.requests().is_empty() {
        tokio::task::yield_now().await;
    }
    world.cancel(task.id).await;
    tokio::time::timeout(std::time::Duration::from_secs(30), endpoint.left.notified()).await.unwrap();
}

#[test]
fn a_section_that_cannot_be_meant_is_refused() {
    let check = |more: &str, expected: &str| {
        let problem = make_agent(&agent_config("openai", "https://x/v1", more)).err().unwrap_or_default();
        assert!(problem.contains(expected), "{problem}");
    };
    check("", "needs an [agent.openai]");
    check("[openai]", "openai.model");
    check("[openai]\nmodel = \"m\"\nparameters = { stream = false }", "written by the server");
    check("[openai]\nmodel = \"m\"\nlimits = { rounds_max = 0 }", "not between 1 and 100");
    check("[openai]\nmodel = \"m\"\ntools.mcp = [{ name = \"a\" }]", "either a command or a url");
    check(
        "[openai]\nmodel = \"m\"\ntools.mcp = [{ name = \"a b\", url = \"https://x\" }]",
        "letters, digits and dashes",
    );
    check("[http]\n[openai]\nmodel = \"m\"", "http belongs to kind = \"http\"");
}
