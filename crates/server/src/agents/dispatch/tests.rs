//! Promises of the dispatch agent and of mentions, among agents in one engine.

use super::super::test_upstream::{AgentGroup, ScriptedAnswer, TestUpstream, artifact, status_text, user_message};
use super::RANKING;
use crate::agents::mention::MENTION;
use sabir_proto::{Event, Json, Message, Object, TaskState, ToolMode};
use serde_json::{Value, json};

/// A ledger agent, a travel agent that asks back, a clerk agent as the fallback, and an agent with rules of its own.
const OTHERS: &str = r#"
[[agent]]
name = "ledger"
kind = "script"
[agent.card]
description = "Keeps the books"
[[agent.card.skills]]
id = "reconcile"
name = "Reconcile accounts"
description = "Compares bank statements with the books"
tags = ["accounting", "bank"]
examples = ["Reconcile March"]
[[agent.rule]]
do = [{ status = "reading the books" }, { artifact = { id = "report", text = "All is well." } }, { complete = "" }]

[[agent]]
name = "travel"
kind = "script"
[agent.card]
description = "Plans journeys"
[[agent.card.skills]]
id = "book"
name = "Book trips"
description = "Flights and hotels"
tags = ["travel", "flights", "hotels"]
examples = ["Book a flight to Oslo"]
[[agent.rule]]
do = [{ ask_input = "Which day?" }]
then = [{ echo = true }, { complete = "booked" }]

[[agent]]
name = "clerk"
kind = "script"
[[agent.rule]]
do = [{ complete = "I will see to it." }]

[[agent]]
name = "private"
kind = "script"
[agent.auth]
accept = ["api_key"]
[[agent.card.skills]]
id = "secret"
name = "Salaries"
description = "Who earns what"
tags = ["salaries"]
[[agent.rule]]
do = [{ complete = "a lot" }]
"#;

async fn company(dispatch: &str) -> AgentGroup {
    AgentGroup::of(&format!("{OTHERS}\n[[agent]]\nname = \"desk\"\nkind = \"dispatch\"\n{dispatch}")).await
}

/// The scores that a status lists.
fn ranking(events: &[Event]) -> Value {
    let statuses = events.iter().filter_map(|event| match event {
        Event::StatusUpdate(update) => update.status.message.as_ref(),
        _ => None,
    });
    let mut told = statuses.flat_map(|message| &message.parts).filter_map(|part| part.metadata.as_ref()?.get(RANKING));
    told.next().unwrap_or_else(|| panic!("{events:?}"))
}

#[tokio::test]
async fn the_best_answers_and_it_is_said_why() {
    let company = company("").await;
    let task = company.say("desk", "Please reconcile the bank accounts").await;
    assert_eq!((task.status.state, &*artifact(&task, "report")), (TaskState::Completed, "All is well."));
    let ranking = ranking(&company.stream("desk", user_message("Please reconcile the bank accounts")).await);
    assert_eq!(ranking[0]["agent"], "ledger");
    assert!(ranking[0]["because"]["tags"].as_f64().unwrap() > 0.0, "{ranking}");
}

#[tokio::test]
async fn questions_travel_up_and_answers_down() {
    let company = company("").await;
    let task = company.say("desk", "Two flights and hotels").await;
    assert_eq!((task.status.state, &*status_text(&task)), (TaskState::InputRequired, "Which day?"));
    let task = company.answer("desk", &task, "Monday").await;
    assert_eq!((task.status.state, &*status_text(&task)), (TaskState::Completed, "booked"));
    assert_eq!(artifact(&task, "echo"), "Monday");
}

#[tokio::test]
async fn a_skill_that_is_named_decides() {
    let company = company("").await;
    let skill = Object::new(Json::of(&json!({"skillId": "reconcile"})).unwrap()).unwrap();
    let message = Message { metadata: Some(skill), ..user_message("Book flights and hotels") };
    let told = ranking(&company.stream("desk", message).await);
    assert_eq!((&told[0]["agent"], &told[0]["because"]["skill"]), (&json!("ledger"), &json!(1000.0)));
}

#[tokio::test]
async fn where_two_are_as_good_the_caller_chooses() {
    let company = company("[agent.dispatch]\nnear = 0.01\n").await;
    let first = company.say("desk", "Compare statements for hotels and accounts").await;
    assert_eq!(first.status.state, TaskState::InputRequired);
    let question = status_text(&first);
    assert!(question.contains("1. ") && question.contains("ledger: Keeps the books"), "{question}");
    let task = company.answer("desk", &first, "neither, really").await;
    assert_eq!(task.status.state, TaskState::InputRequired);
    assert!(status_text(&task).contains("none of them"), "{}", status_text(&task));
    let task = company.answer("desk", &first, "ledger please").await;
    assert_eq!((task.status.state, &*artifact(&task, "report")), (TaskState::Completed, "All is well."));
}

#[tokio::test]
async fn where_nobody_fits_the_fallback_answers_or_the_caller_is_asked() {
    let with = company("[agent.dispatch]\nfallback = \"clerk\"\n").await;
    let task = with.say("desk", "Sing something").await;
    assert_eq!((task.status.state, &*status_text(&task)), (TaskState::Completed, "I will see to it."));
    let without = company("").await;
    let task = without.say("desk", "Sing something").await;
    assert_eq!(task.status.state, TaskState::InputRequired);
    assert!(status_text(&task).contains("No agent seems to fit"), "{}", status_text(&task));
}

#[tokio::test]
async fn whoever_has_a_door_of_its_own_is_chosen_only_by_name_in_the_file() {
    let open = company("[agent.dispatch]\nfallback = \"clerk\"\n").await;
    assert_eq!(status_text(&open.say("desk", "Which salaries?").await), "I will see to it.");
    let named = company("[agent.dispatch]\nagents = [\"private\", \"clerk\"]\n").await;
    assert_eq!(status_text(&named.say("desk", "Which salaries?").await), "a lot");
}

#[tokio::test]
async fn the_mentioned_are_asked_first_and_heard_before_the_message() {
    let company =
        AgentGroup::of(&format!("{OTHERS}\n[[agent]]\nname = \"echo\"\nkind = \"echo\"\nmentions = [\"ledger\"]\n"))
            .await;
    let task = company.say("echo", "@ledger is all well? Say it back.").await;
    assert_eq!(task.status.state, TaskState::Completed, "{}", status_text(&task));
    let parts = &task.artifacts[0].parts;
    assert_eq!(parts[0].as_text(), Some("@ledger says: All is well."));
    let whose = parts[0].metadata.as_ref().unwrap().get(MENTION).unwrap();
    assert_eq!((&whose["agent"], &whose["state"]), (&json!("ledger"), &json!("TASK_STATE_COMPLETED")));
    assert_eq!(parts[1].as_text(), Some("@ledger is all well? Say it back."));
    // The history keeps the message unchanged, and an agent that may not be mentioned is a plain word.
    assert_eq!(task.history[0].parts.len(), 1);
    let task = company.say("echo", "@travel to Oslo").await;
    assert_eq!(task.artifacts[0].parts.len(), 1);
}

#[tokio::test]
async fn a_question_of_the_mentioned_becomes_a_part_and_is_canceled() {
    let sections = format!("{OTHERS}\n[[agent]]\nname = \"echo\"\nkind = \"echo\"\nmentions = [\"travel\"]\n");
    let company = AgentGroup::of(&sections).await;
    let task = company.say("echo", "@travel to Oslo").await;
    let part = &task.artifacts[0].parts[0];
    assert_eq!(part.as_text(), Some("@travel asks: Which day?"));
    let asked = part.metadata.as_ref().unwrap().get(MENTION).unwrap();
    assert_eq!(company.state("travel", asked["taskId"].as_str().unwrap()).await, TaskState::Canceled);
}

#[tokio::test]
async fn a_circle_of_mentions_comes_to_an_end() {
    let circle = "[[agent]]\nname = \"a\"\nkind = \"echo\"\nmentions = [\"b\"]\n\
                  [[agent]]\nname = \"b\"\nkind = \"dispatch\"\n[agent.dispatch]\nagents = [\"a\"]\nfallback = \"a\"\n";
    let company = AgentGroup::of(circle).await;
    let task = company.say("a", "@b ask @b again").await;
    assert_eq!(task.status.state, TaskState::Completed, "{}", status_text(&task));
    let heard = task.artifacts[0].parts[0].as_text().unwrap().to_owned();
    assert!(heard.starts_with("@b "), "{heard}");
}

#[tokio::test]
async fn a_model_uses_agents_as_tools_and_their_questions_reach_the_caller() {
    let chunk = |delta: Value, reason: Option<&str>| {
        json!({"choices": [{"delta": delta, "finish_reason": reason}]}).to_string()
    };
    let call =
        json!([{"index": 0, "id": "c1", "function": {"name": "agent__travel", "arguments": "{\"text\":\"To Oslo\"}"}}]);
    let wants = ScriptedAnswer::Stream(vec![chunk(json!({"tool_calls": call}), Some("tool_calls")), "[DONE]".into()]);
    let says = ScriptedAnswer::Stream(vec![chunk(json!({"content": "It is booked."}), Some("stop")), "[DONE]".into()]);
    let model = TestUpstream::scripted([wants, says]).await;
    let section = format!(
        "{OTHERS}\n[[agent]]\nname = \"model\"\nkind = \"openai\"\nurl = \"{}\"\n[agent.openai]\nmodel = \"m\"\n\
         tools.agents = [\"travel\", \"ledger\", \"nobody\"]\n",
        model.url
    );
    let company = AgentGroup::of(&section).await;
    let task = company.say("model", "Book me a flight").await;
    assert_eq!((task.status.state, &*status_text(&task)), (TaskState::InputRequired, "Which day?"));
    let task = company.answer("model", &task, "Monday").await;
    assert_eq!(
        (task.status.state, &*artifact(&task, "answer")),
        (TaskState::Completed, "It is booked."),
        "{}",
        status_text(&task)
    );
    let seen = model.requests();
    let offered: Vec<_> = seen[0].body["tools"].as_array().unwrap().iter().map(|t| &t["function"]["name"]).collect();
    assert_eq!(offered, ["agent__travel", "agent__ledger"]);
    let messages = seen[1].body["messages"].as_array().unwrap();
    assert_eq!(messages.last().unwrap()["content"], "Monday");
    assert_eq!(messages.last().unwrap()["tool_call_id"], "c1");
}

#[tokio::test]
async fn where_nothing_may_change_a_model_is_offered_no_agents() {
    let says = json!({"choices": [{"message": {"content": "I may not."}, "finish_reason": "stop"}]}).to_string();
    let model = TestUpstream::scripted([ScriptedAnswer::Whole(200, "application/json", says)]).await;
    let section = format!(
        "{OTHERS}\n[[agent]]\nname = \"model\"\nkind = \"openai\"\nurl = \"{}\"\n[agent.openai]\nmodel = \"m\"\n\
         tools.agents = [\"travel\"]\n",
        model.url
    );
    let task = AgentGroup::with(&section, ToolMode::ReadOnly).await.say("model", "Book me a flight").await;
    assert_eq!(artifact(&task, "answer"), "I may not.");
    assert_eq!(model.requests()[0].body.get("tools"), None);
}
