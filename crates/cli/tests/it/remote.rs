//! A remote agent behind our server: what it says is said here, what it asks is asked here, what is cancelled here is
//! cancelled there.

use crate::command_runner::CommandDirectory;
use crate::http_client::Request;
use crate::rpc_client::{answer_params, artifact_text, send_params, state};
use crate::stub_agent;
use crate::test_server::{ServerDirectory, TestServer, eventually};
use crate::upstream::{NUMBERED, POLLED, POLLED_V03, STREAMS, STREAMS_V03, Upstream};
use serde_json::{Value, json};
use std::sync::{Arc, Mutex};

const ALL: [crate::upstream::UpstreamFeatures; 5] = [STREAMS, NUMBERED, POLLED, POLLED_V03, STREAMS_V03];

pub(crate) fn words(task: &Value) -> &str {
    task["status"]["message"]["parts"][0]["text"].as_str().unwrap_or_default()
}

pub(crate) fn text(task: &Value) -> String {
    let parts = task["artifacts"][0]["parts"].as_array().cloned().unwrap_or_default();
    parts.iter().map(|part| part["text"].as_str().unwrap()).collect()
}

/// The task, once it is in a state.
#[track_caller]
pub(crate) fn settles(sabir: &TestServer, task: &Value, wanted: &str) -> Value {
    let mut now = Value::Null;
    eventually(wanted, || {
        now = sabir.get("/", &task["id"]);
        state(&now) == wanted
    });
    now
}

#[test]
fn what_an_agent_elsewhere_says_is_said_here_whatever_it_speaks() {
    for manner in ALL {
        let upstream = Upstream::start(manner);
        let sabir = TestServer::start(&upstream.config(""));
        let mut stream = sabir.stream("/", "SendStreamingMessage", &send_params("go"));
        let first = stream.next().unwrap();
        assert_eq!(first.state(), Some("TASK_STATE_SUBMITTED"));
        upstream.wait_for_messages(1);
        upstream.send_status("working", "at it");
        upstream.send_chunk("one ");
        upstream.send_chunk("two");
        upstream.send_status("completed", "that is all");
        let frames = stream.rest();
        if manner.streams {
            assert_eq!(artifact_text(&frames), "one two", "{frames:?}");
        }
        assert_eq!(frames.last().unwrap().state(), Some("TASK_STATE_COMPLETED"));
        let task = sabir.get("/", &first.event()["task"]["id"]);
        assert_eq!((text(&task).as_str(), words(&task)), ("one two", "that is all"), "{task}");
        let messages = upstream.messages();
        assert_eq!(messages.len(), 1, "one message here is one message there");
        assert_eq!(messages[0]["parts"][0]["text"], "go");
        assert_ne!(
            messages[0]["contextId"], task["contextId"],
            "whose conversation it is, is between us and our caller"
        );
    }
}

#[test]
fn questions_are_asked_here_and_answers_go_to_the_task_there() {
    for manner in ALL {
        let upstream = Upstream::start(manner);
        let sabir = TestServer::start(&upstream.config(""));
        let task = sabir.send_async("/", "book");
        upstream.wait_for_messages(1);
        upstream.send_status("input-required", "Which day?");
        let question = settles(&sabir, &task, "TASK_STATE_INPUT_REQUIRED");
        assert_eq!(words(&question), "Which day?");
        let mut answer = answer_params(&task, "Friday");
        answer["configuration"] = json!({"returnImmediately": true});
        sabir.send("/", &answer);
        upstream.wait_for_messages(2);
        let heard = &upstream.messages()[1];
        assert_eq!((&heard["taskId"], &heard["contextId"]), (&json!("theirs"), &json!("their-context")));
        assert_eq!(heard["parts"][0]["text"], "Friday");
        upstream.send_chunk("booked");
        upstream.send_status("completed", "Done.");
        let done = settles(&sabir, &task, "TASK_STATE_COMPLETED");
        assert_eq!((text(&done).as_str(), words(&done)), ("booked", "Done."));
        assert_eq!(upstream.messages().len(), 2);
    }
}

#[test]
fn a_webhook_hears_of_agents_that_know_of_none() {
    for manner in ALL {
        let upstream = Upstream::start(manner);
        let heard: Arc<Mutex<Vec<Value>>> = Arc::default();
        let kept = heard.clone();
        let hook = stub_agent::serve(move |asked| {
            kept.lock().unwrap().push(asked.json());
            (200, "text/plain", String::new())
        });
        let agent = upstream.config("[agent.card.capabilities]\npush_notifications = true");
        let sabir = TestServer::start(&format!("[egress]\nallow = [\"127.0.0.0/8\"]\n{agent}"));
        let config = json!({"returnImmediately": true, "taskPushNotificationConfig": {"id": "h", "url": hook}});
        sabir.send("/", &json!({"message": crate::rpc_client::message("go"), "configuration": config}));
        upstream.wait_for_messages(1);
        upstream.send_chunk("far away");
        upstream.send_status("completed", "done");
        let last = || heard.lock().unwrap().last().cloned().unwrap_or_default();
        eventually("the end is delivered", || last().to_string().contains("TASK_STATE_COMPLETED"));
        let all = json!(*heard.lock().unwrap()).to_string();
        assert_eq!(all.matches("far away").count(), 1, "{all}");
    }
}

#[test]
fn every_end_there_is_an_end_here() {
    for (name, end) in [
        ("failed", "TASK_STATE_FAILED"),
        ("rejected", "TASK_STATE_REJECTED"),
        ("canceled", "TASK_STATE_CANCELED"),
        ("auth-required", "TASK_STATE_AUTH_REQUIRED"),
    ] {
        for manner in [STREAMS, POLLED_V03] {
            let upstream = Upstream::start(manner);
            let sabir = TestServer::start(&upstream.config(""));
            let task = sabir.send_async("/", "go");
            upstream.wait_for_messages(1);
            upstream.send_status(name, "because");
            assert_eq!(words(&settles(&sabir, &task, end)), "because", "{name}");
        }
    }
}

#[test]
fn a_cancel_here_is_a_cancel_there_at_work_and_at_rest() {
    for manner in [NUMBERED, POLLED_V03] {
        for at_rest in [false, true] {
            let upstream = Upstream::start(manner);
            let sabir = TestServer::start(&upstream.config(""));
            let task = sabir.send_async("/", "go");
            upstream.wait_for_messages(1);
            upstream.send_status(if at_rest { "input-required" } else { "working" }, "now");
            settles(&sabir, &task, if at_rest { "TASK_STATE_INPUT_REQUIRED" } else { "TASK_STATE_WORKING" });
            let canceled = sabir.result("/", "CancelTask", &json!({"id": task["id"]}));
            assert_eq!(state(&canceled), "TASK_STATE_CANCELED");
            let cancels = || upstream.calls("CancelTask") + upstream.calls("tasks/cancel");
            eventually("their task is cancelled", || cancels() == 1);
        }
    }
}

#[test]
fn an_orderly_stop_cancels_nothing_there() {
    let upstream = Upstream::start(NUMBERED);
    let sabir = TestServer::start(&upstream.config(""));
    let task = sabir.send_async("/", "go");
    upstream.wait_for_messages(1);
    upstream.send_status("working", "now");
    settles(&sabir, &task, "TASK_STATE_WORKING");
    let sabir = TestServer::start_at(&sabir.stop());
    upstream.send_chunk("x");
    upstream.send_status("completed", "");
    assert_eq!(text(&settles(&sabir, &task, "TASK_STATE_COMPLETED")), "x");
    assert_eq!((upstream.calls("CancelTask"), upstream.messages().len()), (0, 1));
}

#[test]
fn the_agent_sees_its_own_credentials_and_never_the_callers() {
    let upstream = Upstream::start(STREAMS);
    let home = ServerDirectory::new(&upstream.config("bearer = \"env:FAR_TOKEN\""));
    let said = home.expect_start_refused(home.command());
    assert!(said.contains("FAR_TOKEN"), "{said}");
    let mut command = home.command();
    command.env("FAR_TOKEN", "for-far-alone");
    let sabir = TestServer::run(&home, command);
    let task = send_params("go");
    let body = crate::rpc_client::envelope(
        "SendMessage",
        &json!({"message": task["message"],
        "configuration": {"returnImmediately": true}}),
    );
    let reply = sabir.ask(&Request::post("/", body).with("Authorization", "Bearer of-the-caller"));
    assert_eq!(reply.status, 200, "{}", reply.text());
    upstream.wait_for_messages(1);
    assert_eq!(upstream.shown_credentials(), [Some("Bearer for-far-alone".to_owned())]);
    assert!(!sabir.log_text().contains("for-far-alone"));
}

#[test]
fn the_card_has_their_words_where_ours_has_none() {
    let upstream = Upstream::start(STREAMS);
    let sabir = TestServer::start(&upstream.config("[agent.card]\ndescription = \"Ours\""));
    let card = || sabir.ask(&Request::get("/.well-known/agent-card.json")).json();
    eventually("their name is shown", || card()["name"] == "Upstream");
    let card = card();
    assert_eq!((&card["description"], &card["skills"][0]["id"]), (&json!("Ours"), &json!("afar")));
    assert!(card["supportedInterfaces"][0]["url"].as_str().unwrap().contains(&sabir.address.to_string()), "{card}");
}

#[test]
fn a_server_starts_although_the_agent_elsewhere_is_away() {
    let upstream = Upstream::start(STREAMS);
    upstream.set_offline(true);
    let sabir = TestServer::start(&upstream.config(""));
    assert_eq!(sabir.ask(&Request::get("/.well-known/agent-card.json")).json()["name"], "far");
    let task = sabir.send_async("/", "go");
    upstream.set_offline(false);
    upstream.wait_for_messages(1);
    upstream.send_status("completed", "there you are");
    assert_eq!(words(&settles(&sabir, &task, "TASK_STATE_COMPLETED")), "there you are");
    assert_eq!(upstream.messages().len(), 1);
}

#[test]
fn what_belongs_to_another_kind_is_refused_at_the_start() {
    for (config, named) in [
        ("kind = \"a2a\"", "url"),
        ("kind = \"echo\"\nurl = \"http://127.0.0.1:1\"", "url"),
        ("kind = \"a2a\"\nurl = \"http://u:p@127.0.0.1:1\"", "credentials"),
        ("kind = \"a2a\"\nurl = \"http://127.0.0.1:1\"\nbearer = \"plain-text\"", "bearer"),
        ("kind = \"a2a\"\nurl = \"http://127.0.0.1:1\"\n[agent.continuation]\nattempts = 0", "attempts"),
    ] {
        let home = ServerDirectory::new(&format!("[[agent]]\nname = \"x\"\n{config}\n"));
        let said = home.expect_start_refused(home.command());
        assert!(said.contains(named) && !said.contains("plain-text"), "{config}: {said}");
    }
}

#[test]
fn what_an_agent_really_said_is_kept_where_it_went_wrong() {
    let url = stub_agent::serve(|asked| match asked.path.as_str() {
        "/rpc" if asked.body.contains("fine") => {
            let id = asked.json()["id"].clone();
            let task = json!({"id": "t", "contextId": "c", "status": {"state": "TASK_STATE_COMPLETED"}});
            (200, "application/json", json!({"jsonrpc": "2.0", "id": id, "result": {"task": task}}).to_string())
        }
        "/rpc" => (400, "application/json", r#"{"oops":"no such thing","access_token":"hush-hush-hush"}"#.into()),
        _ => {
            let host = asked.header("host").unwrap_or_default().to_owned();
            (200, "application/json", stub_agent::card(&format!("http://{host}")))
        }
    });
    let section = format!(
        "[[agent]]\nname = \"far\"\nkind = \"a2a\"\ndefault = true\nurl = \"{url}\"\nbearer = \"file:token\"\n\
         [egress]\nallow = [\"127.0.0.0/8\"]\n"
    );
    let home = ServerDirectory::new(&section);
    std::fs::write(home.path("token"), "ours-and-nobody-elses").unwrap();
    let sabir = TestServer::start_at(&home);
    let fine = sabir.send("/", &send_params("fine"));
    assert_eq!(state(&fine), "TASK_STATE_COMPLETED");
    let failed = sabir.send("/", &send_params("go"));
    assert_eq!(state(&failed), "TASK_STATE_FAILED");
    let wire = |task: &Value| {
        let mut command = std::process::Command::new(env!("CARGO_BIN_EXE_sabir"));
        command.args(["task", "wire", task["id"].as_str().unwrap(), "-o", "json", "--data"]);
        let ran = command.arg(home.data()).env_clear().output().unwrap();
        serde_json::from_slice::<Value>(&ran.stdout).unwrap_or_else(|_| panic!("{ran:?}"))
    };
    let mut kept = Value::Null;
    eventually("both legs are kept", || {
        kept = wire(&failed);
        kept["exchanges"].as_array().is_some_and(|all| all.len() == 2)
    });
    let (upstream, caller) = (&kept["exchanges"][0], &kept["exchanges"][1]);
    assert_eq!((&upstream["leg"], &caller["leg"]), (&json!("upstream"), &json!("caller")));
    assert_eq!(upstream["answer"]["status"], 400);
    assert!(upstream["answer"]["body"].as_str().unwrap().contains("no such thing"), "{upstream}");
    assert!(caller["answer"]["body"].as_str().unwrap().contains("TASK_STATE_FAILED"), "{caller}");
    let text = kept.to_string();
    assert!(!text.contains("hush-hush") && !text.contains("nobody-elses"), "{text}");
    assert_eq!(wire(&fine)["exchanges"], json!([]));

    // The same over gRPC, as JSON.
    let agent = format!("http://{}", sabir.address);
    let body = send_params("go by frame").to_string();
    let ran = CommandDirectory::new().run(&["call", &agent, "SendMessage", "--transport", "grpc", "-d", &body]);
    let failed = ran.json()["task"].clone();
    assert_eq!(state(&failed), "TASK_STATE_FAILED", "{ran:?}");
    eventually("both legs are kept", || {
        kept = wire(&failed);
        kept["exchanges"].as_array().is_some_and(|all| all.len() == 2)
    });
    let caller = &kept["exchanges"][1];
    assert_eq!(caller["request"]["url"], "/lf.a2a.v1.A2AService/SendMessage", "{caller}");
    assert!(caller["request"]["body"].as_str().unwrap().contains("go by frame"), "{caller}");
    assert!(caller["answer"]["body"].as_str().unwrap().contains("TASK_STATE_FAILED"), "{caller}");
}
