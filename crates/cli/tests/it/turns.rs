//! Conversations: questions, answers, contexts, and messages that come at the wrong time.

use crate::http_client::Request;
use crate::rpc_client::{
    DESK_PATH, NOT_FOUND, PARAMS, UNSUPPORTED, answer_params, artifact_text, event_ids, message, send_params, state,
};
use crate::test_server::{AGENTS, TestServer, shared_server};
use serde_json::{Value, json};

fn said(task: &Value) -> Vec<&str> {
    let history = task["history"].as_array().unwrap();
    history.iter().map(|m| m["parts"][0]["text"].as_str().unwrap()).collect()
}

#[test]
fn a_task_asks_is_answered_and_goes_on_where_it_was() {
    let sabir = shared_server();
    let task = sabir.send(DESK_PATH, &send_params("book"));
    assert_eq!(state(&task), "TASK_STATE_INPUT_REQUIRED");
    let question = &task["status"]["message"];
    assert_eq!((&question["role"], &question["parts"][0]["text"]), (&json!("ROLE_AGENT"), &json!("Which day?")));
    // What an agent says belongs to a task and a context, and names both.
    assert_eq!((&question["taskId"], &question["contextId"]), (&task["id"], &task["contextId"]));

    let second = sabir.send(DESK_PATH, &answer_params(&task, "Monday"));
    assert_eq!(
        (state(&second), &second["id"], &second["contextId"]),
        ("TASK_STATE_INPUT_REQUIRED", &task["id"], &task["contextId"])
    );
    assert_eq!(second["status"]["message"]["parts"][0]["text"], "How many?");

    let third = sabir.send(DESK_PATH, &answer_params(&task, "four"));
    assert_eq!(state(&third), "TASK_STATE_COMPLETED");
    assert_eq!(third["artifacts"][0]["parts"][0]["text"], "four");
    // Questions are part of the conversation; notes on progress are not.
    assert_eq!(said(&third), ["book", "Which day?", "Monday", "How many?", "four"]);
    for message in third["history"].as_array().unwrap() {
        assert_eq!((&message["taskId"], &message["contextId"]), (&task["id"], &task["contextId"]), "{message}");
    }
    assert_eq!(sabir.get(DESK_PATH, &task["id"]), third);
}

#[test]
fn an_answer_may_lead_elsewhere() {
    let sabir = shared_server();
    let task = sabir.send(DESK_PATH, &send_params("book"));
    let declined = sabir.send(DESK_PATH, &answer_params(&task, "never"));
    assert_eq!(
        (state(&declined), &declined["status"]["message"]["parts"][0]["text"]),
        ("TASK_STATE_REJECTED", &json!("Then not."))
    );
}

#[test]
fn credentials_are_asked_for_like_input() {
    let sabir = shared_server();
    let task = sabir.send(DESK_PATH, &send_params("sign"));
    assert_eq!(state(&task), "TASK_STATE_AUTH_REQUIRED");
    assert_eq!(task["status"]["message"]["parts"][0]["text"], "Who are you?");
    assert_eq!(state(&sabir.send(DESK_PATH, &answer_params(&task, "it is me"))), "TASK_STATE_COMPLETED");
}

#[test]
fn an_answer_may_be_streamed() {
    let sabir = shared_server();
    let task = sabir.send(DESK_PATH, &send_params("book"));
    sabir.send(DESK_PATH, &answer_params(&task, "Monday"));
    let frames = sabir.stream(DESK_PATH, "SendStreamingMessage", &answer_params(&task, "four")).rest();
    assert_eq!(frames[0].event()["task"]["id"], task["id"], "the task comes first");
    assert_eq!(frames.last().unwrap().state(), Some("TASK_STATE_COMPLETED"));
    let numbers = event_ids(&frames);
    assert!(numbers.windows(2).all(|w| w[1] == w[0] + 1), "{numbers:?}");
    // A snapshot that holds the artifact already, or the event that brings it; not both, not neither.
    let in_snapshot = frames[0].event()["task"]["artifacts"][0]["parts"][0]["text"].as_str().unwrap_or("");
    assert_eq!(format!("{in_snapshot}{}", artifact_text(&frames)), "four");
}

#[test]
fn a_message_to_a_settled_task_is_refused() {
    let sabir = shared_server();
    for (text, expected) in [("quick", "COMPLETED"), ("break", "FAILED"), ("other", "REJECTED")] {
        let task = sabir.send(DESK_PATH, &send_params(text));
        assert_eq!(state(&task), format!("TASK_STATE_{expected}"));
        sabir.expect_error(DESK_PATH, "SendMessage", &answer_params(&task, "more"), UNSUPPORTED);
        sabir.expect_error(DESK_PATH, "SendStreamingMessage", &answer_params(&task, "more"), UNSUPPORTED);
        sabir.expect_rest_error(
            &Request::post("/agents/desk/message:send", answer_params(&task, "more").to_string()),
            UNSUPPORTED,
        );
        assert_eq!(sabir.get(DESK_PATH, &task["id"]), task, "and leaves no trace");
    }
}

#[test]
fn a_message_to_a_task_at_work_is_refused() {
    let sabir = shared_server();
    let task = sabir.send_async(DESK_PATH, "forever");
    sabir.expect_error(DESK_PATH, "SendMessage", &answer_params(&task, "more"), UNSUPPORTED);
    assert_eq!(state(&sabir.get(DESK_PATH, &task["id"])), "TASK_STATE_WORKING");
}

#[test]
fn of_two_answers_at_once_one_is_heard() {
    let sabir = shared_server();
    for _ in 0..10 {
        let task = sabir.send(DESK_PATH, &send_params("sign"));
        let answers: Vec<Value> = std::thread::scope(|scope| {
            let spawn = |text| {
                scope.spawn({
                    let (sabir, task) = (&sabir, &task);
                    move || sabir.rpc(DESK_PATH, "SendMessage", &answer_params(task, text))
                })
            };
            let both = [spawn("left"), spawn("right")];
            both.map(|t| t.join().unwrap()).into()
        });
        let heard = answers.iter().filter(|a| a.get("result").is_some()).count();
        let refused = answers.iter().filter(|a| a["error"]["code"] == UNSUPPORTED.0).count();
        assert_eq!((heard, refused), (1, 1), "{answers:?}");
        assert_eq!(said(&sabir.get(DESK_PATH, &task["id"])).len(), 3);
    }
}

#[test]
fn a_context_is_given_kept_and_never_exchanged() {
    let sabir = TestServer::start(AGENTS);
    let first = sabir.send("/", &send_params("one"));
    assert!(first["contextId"].as_str().is_some_and(|c| !c.is_empty()), "{first}");
    let mut params = send_params("two");
    params["message"]["contextId"] = first["contextId"].clone();
    let second = sabir.send("/", &params);
    assert_eq!(second["contextId"], first["contextId"]);
    assert_ne!(second["id"], first["id"]);
    params["message"]["contextId"] = json!("of my own");
    assert_eq!(sabir.send("/", &params)["contextId"], "of my own");
    let of_first = sabir.result("/", "ListTasks", &json!({"contextId": first["contextId"]}));
    assert_eq!(of_first["totalSize"], 2);

    // Both given: they must agree, and nothing is substituted.
    let task = sabir.send(DESK_PATH, &send_params("book"));
    let mut params = answer_params(&task, "Monday");
    params["message"]["contextId"] = json!("another");
    let problem = sabir.rpc_error(DESK_PATH, "SendMessage", &params);
    assert_eq!(
        (problem.code_and_reason(), &problem.fields[..]),
        ((PARAMS.0, PARAMS.2), &["message.contextId".to_owned()][..])
    );
    params["message"]["contextId"] = task["contextId"].clone();
    assert_eq!(sabir.send(DESK_PATH, &params)["contextId"], task["contextId"]);
}

#[test]
fn a_task_is_known_to_its_own_agent_and_tenant_only() {
    let sabir = shared_server();
    let task = sabir.send(DESK_PATH, &send_params("book"));
    let mut params = answer_params(&task, "Monday");
    sabir.expect_error("/", "SendMessage", &params, NOT_FOUND);
    params["tenant"] = json!("acme");
    sabir.expect_error(DESK_PATH, "SendMessage", &params, NOT_FOUND);
    for method in ["GetTask", "CancelTask", "SubscribeToTask"] {
        sabir.expect_error("/", method, &json!({"id": task["id"]}), NOT_FOUND);
        sabir.expect_error(DESK_PATH, method, &json!({"id": task["id"], "tenant": "acme"}), NOT_FOUND);
    }
    assert_eq!(sabir.get(DESK_PATH, &task["id"]), task);
}

#[test]
fn an_agent_may_answer_without_a_task() {
    let sabir = TestServer::start(AGENTS);
    let result = sabir.result(DESK_PATH, "SendMessage", &send_params("chat"));
    assert!(result.get("task").is_none(), "{result}");
    let message = &result["message"];
    assert_eq!((&message["role"], &message["parts"][0]["text"]), (&json!("ROLE_AGENT"), &json!("Just so.")));
    assert!(message["contextId"].is_string() && message.get("taskId").is_none(), "{message}");
    let frames = sabir.stream(DESK_PATH, "SendStreamingMessage", &send_params("chat")).rest();
    assert_eq!(frames.len(), 1);
    assert_eq!(frames[0].event()["message"]["parts"][0]["text"], "Just so.");
    assert_eq!(sabir.task_count(DESK_PATH), 0);
}

#[test]
fn who_does_not_want_to_wait_need_not() {
    let sabir = shared_server();
    let task = sabir.send_async(DESK_PATH, "forever");
    assert!(["TASK_STATE_SUBMITTED", "TASK_STATE_WORKING"].contains(&state(&task)), "{task}");
    let mut params = json!({"message": message("quick"), "configuration": {"returnImmediately": false}});
    assert_eq!(state(&sabir.send(DESK_PATH, &params)), "TASK_STATE_COMPLETED");
    params["configuration"]["returnImmediately"] = json!(true);
    assert!(sabir.send(DESK_PATH, &params)["id"].is_string());
}
