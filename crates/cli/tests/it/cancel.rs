//! Canceling: it really stops, it happens once, and of cancel and completion the first wins for all clients.

use crate::http_client::{Request, SseEvent};
use crate::rpc_client::{DESK_PATH, NOT_CANCELABLE, NOT_FOUND, ProtocolError, envelope, message, send_params, state};
use crate::test_server::{AGENTS, TestServer, shared_server};
use serde_json::{Value, json};
use std::thread;
use std::time::Duration;

fn cancel(sabir: &TestServer, id: &Value) -> Value {
    sabir.rpc(DESK_PATH, "CancelTask", &json!({"id": id}))
}

#[test]
fn a_canceled_task_is_canceled_for_all_who_watch_and_wait() {
    let sabir = shared_server();
    let mut params = json!({"message": message("forever")});
    params["message"]["contextId"] = json!("canceled while waiting");
    thread::scope(|scope| {
        let waiting = scope.spawn(|| sabir.send(DESK_PATH, &params));
        let mut task = Value::Null;
        crate::test_server::eventually("the task is there", || {
            let list = sabir.result(DESK_PATH, "ListTasks", &json!({"contextId": "canceled while waiting"}));
            task = list["tasks"][0].clone();
            task.is_object()
        });
        let mut watching = sabir.stream(DESK_PATH, "SubscribeToTask", &json!({"id": task["id"]}));
        watching.next().unwrap();
        let canceled = cancel(&sabir, &task["id"])["result"].take();
        assert_eq!((state(&canceled), &canceled["id"]), ("TASK_STATE_CANCELED", &task["id"]));
        assert_eq!(watching.rest().last().and_then(SseEvent::state), Some("TASK_STATE_CANCELED"));
        assert_eq!(state(&waiting.join().unwrap()), "TASK_STATE_CANCELED");
        assert_eq!(sabir.get(DESK_PATH, &task["id"]), canceled);
    });
}

#[test]
fn a_task_that_waits_for_input_can_be_canceled() {
    let sabir = shared_server();
    for text in ["book", "sign"] {
        let task = sabir.send(DESK_PATH, &send_params(text));
        let canceled = cancel(&sabir, &task["id"])["result"].take();
        assert_eq!(state(&canceled), "TASK_STATE_CANCELED");
        assert_eq!(sabir.get(DESK_PATH, &task["id"]), canceled);
    }
}

#[test]
fn a_settled_task_cannot_be_canceled_not_even_again() {
    let sabir = shared_server();
    for text in ["quick", "break", "other"] {
        let task = sabir.send(DESK_PATH, &send_params(text));
        sabir.expect_error(DESK_PATH, "CancelTask", &json!({"id": task["id"]}), NOT_CANCELABLE);
        assert_eq!(sabir.get(DESK_PATH, &task["id"]), task);
    }
    let task = sabir.send_async(DESK_PATH, "forever");
    assert!(cancel(&sabir, &task["id"]).get("result").is_some());
    for _ in 0..3 {
        let again = cancel(&sabir, &task["id"]);
        assert_eq!(ProtocolError::from_rpc(&again).code_and_reason(), (NOT_CANCELABLE.0, NOT_CANCELABLE.2));
        assert_eq!(again["error"]["data"][0]["metadata"]["taskId"], task["id"]);
    }
}

#[test]
fn what_is_not_there_cannot_be_canceled() {
    let sabir = shared_server();
    sabir.expect_error(DESK_PATH, "CancelTask", &json!({"id": "nobody"}), NOT_FOUND);
    sabir.expect_rest_error(&Request::post("/agents/desk/tasks/nobody:cancel", ""), NOT_FOUND);
}

#[test]
fn a_cancel_over_http_needs_no_body() {
    let sabir = shared_server();
    let bodies = ["", "null", "{}", "  ", r#"{"metadata":{"why":"late"}}"#, r#"{"id":"ignored"}"#];
    for body in bodies {
        let task = sabir.send_async(DESK_PATH, "forever");
        let path = format!("/agents/desk/tasks/{}:cancel", task["id"].as_str().unwrap());
        let reply = sabir.ask(&Request::post(&path, body));
        assert_eq!((reply.status, state(&reply.json())), (200, "TASK_STATE_CANCELED"), "{body}");
        sabir.expect_rest_error(&Request::post(&path, body), NOT_CANCELABLE);
    }
    // Nothing at all, not even a content type.
    let task = sabir.send_async(DESK_PATH, "forever");
    let path = format!("/agents/desk/tasks/{}:cancel", task["id"].as_str().unwrap());
    assert_eq!(sabir.ask(&Request::post(&path, "").without("Content-Type")).status, 200);
}

#[test]
fn many_cancels_at_once_cancel_once() {
    let sabir = shared_server();
    for text in ["forever", "book"] {
        let task = sabir.send_async(DESK_PATH, text);
        let mut watching = sabir.stream(DESK_PATH, "SubscribeToTask", &json!({"id": task["id"]}));
        let replies: Vec<Value> = thread::scope(|scope| {
            let all: Vec<_> = (0..8).map(|_| scope.spawn(|| cancel(&sabir, &task["id"]))).collect();
            all.into_iter().map(|t| t.join().unwrap()).collect()
        });
        assert!(replies.iter().any(|r| r.get("result").is_some()), "{replies:?}");
        for reply in &replies {
            let ok = reply["result"]["status"]["state"] == "TASK_STATE_CANCELED"
                || reply["error"]["code"] == NOT_CANCELABLE.0;
            assert!(ok, "{reply}");
        }
        let canceled = watching.rest().iter().filter(|f| f.state() == Some("TASK_STATE_CANCELED")).count();
        assert_eq!(canceled, 1);
    }
}

/// A task of a few milliseconds, canceled at about the moment it completes: later after a round that was canceled, and
/// earlier after a round that completed, so that the rounds stay near that moment on a machine of any speed.
#[test]
fn of_cancel_and_completion_one_wins_and_everybody_agrees() {
    let config = "[[agent]]\nname = \"demo\"\nkind = \"echo\"\n[[agent]]\nname = \"desk\"\nkind = \"script\"\n[[agent.rule]]\n\
                  do = [{ status = \"a\" }, { wait_ms = 10 }, { artifact = { id = \"a\", text = \"x\" } }, { complete = \"done\" }]";
    let sabir = TestServer::start(config);
    let (mut completed, mut canceled) = (0, 0);
    let mut delay = Duration::from_millis(5);
    let step = Duration::from_micros(300);
    for _ in 0..150 {
        let mut stream = sabir.stream(DESK_PATH, "SendStreamingMessage", &send_params("race"));
        let id = stream.next().unwrap().event()["task"]["id"].clone();
        thread::sleep(delay);
        let reply = cancel(&sabir, &id);
        let end = sabir.get(DESK_PATH, &id);
        let frames = stream.rest();
        let settled: Vec<&str> =
            frames.iter().filter_map(SseEvent::state).filter(|s| *s != "TASK_STATE_WORKING").collect();
        match state(&end) {
            "TASK_STATE_CANCELED" => {
                canceled += 1;
                delay += step;
                assert_eq!(reply["result"]["status"]["state"], "TASK_STATE_CANCELED", "{reply}");
            }
            "TASK_STATE_COMPLETED" => {
                completed += 1;
                delay = delay.saturating_sub(step);
                assert_eq!(reply["error"]["code"], NOT_CANCELABLE.0, "{reply}");
                assert_eq!(end["artifacts"][0]["parts"][0]["text"], "x", "{end}");
            }
            other => panic!("neither canceled nor completed but {other}"),
        }
        assert_eq!(settled, [state(&end)], "the stream tells the one end there is, and tells it last");
        assert_eq!(frames.last().unwrap().state(), Some(state(&end)));
    }
    assert!(completed > 0 && canceled > 0, "{completed} completed, {canceled} canceled: the race was not one");
}

#[test]
fn a_canceled_task_stays_canceled_after_a_crash() {
    let sabir = TestServer::start(AGENTS);
    let task = sabir.send_async(DESK_PATH, "forever");
    let canceled = cancel(&sabir, &task["id"])["result"].take();
    let sabir = TestServer::start_at(&sabir.kill());
    assert_eq!(sabir.get(DESK_PATH, &task["id"]), canceled);
    sabir.expect_error(DESK_PATH, "CancelTask", &json!({"id": task["id"]}), NOT_CANCELABLE);
}

#[test]
fn an_agent_that_was_canceled_reports_nothing_more() {
    let sabir = shared_server();
    let mut stream = sabir.open(&Request::post(DESK_PATH, envelope("SendStreamingMessage", &send_params("tick"))));
    let id = stream.next().unwrap().event()["task"]["id"].clone();
    while stream.next().unwrap().chunk() != Some("2") {}
    let canceled = cancel(&sabir, &id)["result"].take();
    let rest = stream.rest();
    assert_eq!(rest.last().unwrap().state(), Some("TASK_STATE_CANCELED"));
    // A task that began later has come to its end by the same script, so this one would have, too.
    assert_eq!(state(&sabir.send(DESK_PATH, &send_params("tick"))), "TASK_STATE_COMPLETED");
    assert_eq!(sabir.get(DESK_PATH, &id), canceled);
}
