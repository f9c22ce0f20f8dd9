//! Waiting for a remote agent: through crashes of ours, breaks on the way, and for a limited time.

use crate::http_client::{HttpConnection, Request};
use crate::remote::{settles, text, words};
use crate::rpc_client::{artifact_text, envelope, event_ids, message, send_params, state};
use crate::stub_agent;
use crate::test_server::{ServerDirectory, TestServer, eventually};
use crate::upstream::{NUMBERED, POLLED, POLLED_V03, STREAMS, STREAMS_V03, Upstream};
use serde_json::{Value, json};
use std::sync::{Arc, Mutex};

/// The one row of the view, as the columns of these names.
fn wait_row(home: &ServerDirectory, columns: &str) -> Option<Vec<rusqlite::types::Value>> {
    let flags = rusqlite::OpenFlags::SQLITE_OPEN_READ_ONLY;
    let database = rusqlite::Connection::open_with_flags(home.database(), flags).unwrap();
    let mut query = database.prepare(&format!("SELECT {columns} FROM a2a_continuations")).unwrap();
    let count = query.column_count();
    let mut rows = query.query([]).unwrap();
    let row = rows.next().unwrap()?;
    Some((0..count).map(|n| row.get(n).unwrap()).collect())
}

/// Waits until their task is in our store: from then on a crash of ours loses nothing.
#[track_caller]
fn wait_for_remote_task(home: &ServerDirectory) {
    eventually("their task is known", || wait_row(home, "a2a_task_id") == Some(vec![text_of("theirs")]));
}

fn text_of(value: &str) -> rusqlite::types::Value {
    rusqlite::types::Value::Text(value.into())
}

#[test]
fn an_answer_that_takes_longer_than_connections_and_servers_live_arrives_exactly_once() {
    for manner in [STREAMS, NUMBERED, POLLED, POLLED_V03, STREAMS_V03] {
        let upstream = Upstream::start(manner);
        let home = ServerDirectory::new(&upstream.config(""));
        let sabir = TestServer::start_at(&home);
        // A caller who waits, and is cut off.
        let mut caller = HttpConnection::open(sabir.address);
        caller.send(&Request::post("/", envelope("SendMessage", &send_params("take your time"))));
        upstream.wait_for_messages(1);
        drop(caller);
        upstream.send_chunk("one ");
        let only = || sabir.result("/", "ListTasks", &json!({"includeArtifacts": true}))["tasks"][0].clone();
        eventually("the first chunk is here", || text(&only()) == "one ");
        let task = only();
        sabir.kill();
        upstream.send_chunk("two ");
        let sabir = TestServer::start_at(&home);
        eventually("the second is here", || text(&sabir.get("/", &task["id"])) == "one two ");
        sabir.kill();
        upstream.cut_streams();
        let sabir = TestServer::start_at(&home);
        upstream.send_chunk("three");
        upstream.send_status("completed", "done");
        let done = settles(&sabir, &task, "TASK_STATE_COMPLETED");
        assert_eq!((text(&done).as_str(), words(&done)), ("one two three", "done"), "{done}");
        assert_eq!(upstream.messages().len(), 1, "the message was sent once");
        // Every event of the log, from the first: numbered without gaps, each chunk once, one end.
        let follow = json!({"id": task["id"]});
        let frames = sabir.stream_after("/", "SubscribeToTask", &follow, Some(0)).rest();
        assert_eq!(event_ids(&frames), (1..=frames.len() as u64).collect::<Vec<_>>());
        let chunks: Vec<&str> = frames.iter().filter_map(|frame| frame.chunk()).collect();
        assert_eq!(chunks, ["one ", "two ", "three"]);
        let ends = frames.iter().filter(|frame| frame.state() == Some("TASK_STATE_COMPLETED")).count();
        assert_eq!(ends, 1);
    }
}

#[test]
fn a_caller_that_repeats_its_message_after_the_crash_finds_the_same_task() {
    let upstream = Upstream::start(POLLED);
    let home = ServerDirectory::new(&upstream.config(""));
    let sabir = TestServer::start_at(&home);
    let mut params = send_params("once");
    params["message"]["messageId"] = json!(crate::rpc_client::uuid());
    params["configuration"] = json!({"returnImmediately": true});
    let task = sabir.send("/", &params);
    upstream.wait_for_messages(1);
    wait_for_remote_task(&home);
    sabir.kill();
    let sabir = TestServer::start_at(&home);
    assert_eq!(sabir.send("/", &params)["id"], task["id"]);
    upstream.send_status("completed", "done");
    params["configuration"] = json!({});
    assert_eq!(words(&sabir.send("/", &params)), "done");
    assert_eq!((upstream.messages().len(), sabir.task_count("/")), (1, 1));
}

#[test]
fn async_work_of_agent_native_survives_a_crash() {
    let upstream = Upstream::start(STREAMS_V03);
    let home = ServerDirectory::new(&upstream.config(""));
    let sabir = TestServer::start_at(&home);
    let said = json!({"role": "user", "parts": [{"type": "text", "text": "later"}]});
    let params = json!({"message": said, "async": true, "idempotencyKey": "k-1"});
    let native = "/_agent-native/a2a";
    let ask = |sabir: &TestServer, method: &str, params: &Value| {
        let reply = sabir.ask(&Request::post(native, envelope(method, params)).without("A2A-Version"));
        reply.json()["result"].clone()
    };
    let task = ask(&sabir, "message/send", &params);
    let id = task["id"].as_str().unwrap_or_else(|| panic!("{task}")).to_owned();
    assert!(["submitted", "working", "processing"].contains(&task["status"]["state"].as_str().unwrap()), "{task}");
    upstream.wait_for_messages(1);
    wait_for_remote_task(&home);
    sabir.kill();
    upstream.send_status("completed", "here it is");
    let sabir = TestServer::start_at(&home);
    eventually("the answer is there", || {
        ask(&sabir, "tasks/get", &json!({ "id": id }))["status"]["state"] == "completed"
    });
    let task = ask(&sabir, "tasks/get", &json!({ "id": id }));
    assert_eq!(task["status"]["message"]["parts"][0]["text"], "here it is");
    assert_eq!(ask(&sabir, "message/send", &params)["id"], id.as_str(), "the key still means the same task");
    assert_eq!(upstream.messages().len(), 1);
}

#[test]
fn a_stream_that_breaks_goes_on_without_a_gap_or_a_repetition() {
    for manner in [STREAMS, NUMBERED, STREAMS_V03] {
        let upstream = Upstream::start(manner);
        let sabir = TestServer::start(&upstream.config(""));
        let mut stream = sabir.stream("/", "SendStreamingMessage", &send_params("go"));
        upstream.wait_for_messages(1);
        for chunk in ["a", "b"] {
            upstream.send_chunk(chunk);
            while stream.next().unwrap().chunk() != Some(chunk) {}
        }
        upstream.cut_streams();
        upstream.send_chunk("c");
        upstream.send_chunk("d");
        upstream.send_status("completed", "");
        let frames = stream.rest();
        let id = frames.last().unwrap().event()["statusUpdate"]["taskId"].clone();
        assert_eq!(text(&sabir.get("/", &id)), "abcd");
        assert!(artifact_text(&frames).starts_with('c'), "what was told is not told again: {}", artifact_text(&frames));
    }
}

#[test]
fn a_message_whose_fate_is_unknown_is_looked_for_and_not_sent_again() {
    let upstream = Upstream::start(NUMBERED);
    let sabir = TestServer::start(&upstream.config(""));
    upstream.set_hangs_up_on_send(true);
    let task = sabir.send_async("/", "go");
    upstream.wait_for_messages(1);
    upstream.set_hangs_up_on_send(false);
    upstream.send_chunk("found");
    upstream.send_status("completed", "");
    assert_eq!(text(&settles(&sabir, &task, "TASK_STATE_COMPLETED")), "found");
    assert_eq!(upstream.messages().len(), 1);
    assert!(upstream.calls("ListTasks") > 0);
}

#[test]
fn where_nobody_can_look_the_caller_is_told_unless_a_repeat_does_no_harm() {
    let upstream = Upstream::start(POLLED_V03);
    let sabir = TestServer::start(&upstream.config(""));
    upstream.set_hangs_up_on_send(true);
    let task = sabir.send_async("/", "go");
    let failed = settles(&sabir, &task, "TASK_STATE_FAILED");
    assert!(words(&failed).contains("not known whether"), "{failed}");
    assert_eq!(upstream.messages().len(), 1);

    let upstream = Upstream::start(POLLED_V03);
    let sabir = TestServer::start(&upstream.config("idempotent = true"));
    upstream.set_hangs_up_on_send(true);
    let task = sabir.send_async("/", "go");
    upstream.wait_for_messages(1);
    upstream.set_hangs_up_on_send(false);
    upstream.wait_for_messages(2);
    upstream.send_status("completed", "twice heard, once done");
    settles(&sabir, &task, "TASK_STATE_COMPLETED");
    let messages = upstream.messages();
    assert_eq!(messages[0]["messageId"], messages[1]["messageId"], "by which it is recognised");
}

#[test]
fn an_agent_that_does_not_answer_is_given_up() {
    let upstream = Upstream::start(POLLED);
    let home = ServerDirectory::new(&upstream.config("").replace("poll_ms = 50", "poll_ms = 20\nattempts = 3"));
    let sabir = TestServer::start_at(&home);
    let task = sabir.send_async("/", "go");
    upstream.wait_for_messages(1);
    upstream.set_offline(true);
    let failed = settles(&sabir, &task, "TASK_STATE_FAILED");
    assert!(words(&failed).contains("did not respond in time"), "{failed}");
    let row = wait_row(&home, "status, terminal_delivery_kind").unwrap();
    assert_eq!(row, [text_of("failed"), text_of("failure")]);
}

#[test]
fn an_agent_without_news_is_given_up_and_told_so() {
    let upstream = Upstream::start(NUMBERED);
    let config = upstream.config("").replace("poll_ms = 50", "poll_ms = 50\nminutes = 1");
    let home = ServerDirectory::new(&config);
    let sabir = TestServer::start_at(&home);
    let task = sabir.send_async("/", "go");
    upstream.wait_for_messages(1);
    upstream.send_status("working", "slowly");
    settles(&sabir, &task, "TASK_STATE_WORKING");
    sabir.kill();
    // As if that had been two minutes ago: what was heard, and when, is in the checkpoint.
    let database = home.open_database();
    let data: Vec<u8> = database.query_row("SELECT data FROM checkpoint", [], |row| row.get(0)).unwrap();
    let mut known: Value = serde_json::from_slice(&data).unwrap();
    known["heard"] = json!(known["heard"].as_i64().unwrap() - 120_000);
    database.execute("UPDATE checkpoint SET data = ?1", [known.to_string().into_bytes()]).unwrap();
    drop(database);
    let sabir = TestServer::start_at(&home);
    let failed = settles(&sabir, &task, "TASK_STATE_FAILED");
    assert!(words(&failed).contains("did not respond in time"), "{failed}");
    assert!(upstream.calls("SubscribeToTask") > 0, "it was asked before it was given up");
    eventually("and told", || upstream.calls("CancelTask") == 1);
}

#[test]
fn a_wait_is_a_row_while_it_lasts_and_says_how_it_ended() {
    let upstream = Upstream::start(POLLED);
    let home = ServerDirectory::new(&upstream.config(""));
    let sabir = TestServer::start_at(&home);
    let task = sabir.send_async("/", "go");
    upstream.wait_for_messages(1);
    let columns = "integration_task_id, agent_name, agent_url, a2a_task_id, external_thread_id, terminal_delivery_kind";
    let expected = || {
        let mut row: Vec<_> =
            [task["id"].as_str().unwrap(), "far", &upstream.url, "theirs", "their-context"].map(text_of).into();
        row.push(rusqlite::types::Value::Null);
        row
    };
    eventually("the row says whom we wait for", || wait_row(&home, columns) == Some(expected()));
    let [rusqlite::types::Value::Text(id), rusqlite::types::Value::Text(status)] =
        &wait_row(&home, "id, status").unwrap()[..]
    else {
        panic!("not texts")
    };
    assert!(id.starts_with("a2a-cont-") && ["pending", "processing"].contains(&&**status), "{id} {status}");
    let sabir = TestServer::start_at(&sabir.kill());
    assert_eq!(wait_row(&home, "id").unwrap(), [text_of(id)], "a restart makes no second row");
    upstream.send_status("completed", "");
    settles(&sabir, &task, "TASK_STATE_COMPLETED");
    assert_eq!(wait_row(&home, "status, a2a_task_id").unwrap(), [text_of("completed"), text_of("theirs")]);
}

#[test]
fn two_callers_with_one_name_for_a_conversation_have_two_there() {
    let upstream = Upstream::start(POLLED);
    let sabir = TestServer::start(&upstream.config(""));
    let send = |tenant: &str| {
        let mut said = message("go");
        said["contextId"] = json!("mine");
        let params = json!({"tenant": tenant, "message": said, "configuration": {"returnImmediately": true}});
        assert_ne!(state(&sabir.send("/", &params)), "TASK_STATE_FAILED");
    };
    send("a");
    send("b");
    upstream.wait_for_messages(2);
    let messages = upstream.messages();
    assert_ne!(messages[0]["contextId"], messages[1]["contextId"]);
}

/// An agent that takes a message and never answers it; from then on its list has a task with that message.
fn agent_that_never_answers(canceled: Arc<Mutex<Vec<Value>>>) -> (String, Arc<Mutex<Value>>) {
    let listener = std::net::TcpListener::bind("127.0.0.1:0").unwrap();
    let base = format!("http://{}", listener.local_addr().unwrap());
    let message: Arc<Mutex<Value>> = Arc::default();
    let (heard, at) = (message.clone(), base.clone());
    let url = stub_agent::serve_at(listener, move |asked| {
        if asked.path.contains("/.well-known/") {
            return (200, "application/json", stub_agent::card(&at));
        }
        let call = asked.json();
        let mut task = json!({"id": "theirs", "contextId": call["params"]["contextId"], "status": {"state": "TASK_STATE_WORKING"},
            "history": [*heard.lock().unwrap()]});
        let result = match call["method"].as_str().unwrap() {
            "SendMessage" => {
                *heard.lock().unwrap() = call["params"]["message"].clone();
                loop {
                    std::thread::park();
                }
            }
            "ListTasks" => json!({"tasks": [task], "nextPageToken": "", "pageSize": 50, "totalSize": 1}),
            "CancelTask" => {
                canceled.lock().unwrap().push(call["params"]["id"].clone());
                task["status"] = json!({"state": "TASK_STATE_CANCELED"});
                task
            }
            _ => task,
        };
        (200, "application/json", json!({"jsonrpc": "2.0", "id": call["id"], "result": result}).to_string())
    });
    (url, message)
}

#[test]
fn a_hundred_tasks_that_wait_for_one_agent_hold_up_no_other() {
    let (url, _) = agent_that_never_answers(Arc::default());
    let sabir = TestServer::start(&format!(
        "[[agent]]\nname = \"far\"\nkind = \"a2a\"\nurl = \"{url}\"\n\
         [[agent]]\nname = \"near\"\nkind = \"echo\"\ndefault = true\n"
    ));
    let held: Vec<Value> = (0..100).map(|_| sabir.send_async("/agents/far", "go")).collect();
    assert_eq!(state(&sabir.send("/", &send_params("quick"))), "TASK_STATE_COMPLETED");
    for task in &held {
        let task = sabir.get("/agents/far", &task["id"]);
        assert!(["TASK_STATE_SUBMITTED", "TASK_STATE_WORKING"].contains(&state(&task)), "{task}");
    }
}

#[test]
fn a_hub_that_is_killed_before_the_agent_names_its_task_cancels_it_there_after_the_restart() {
    let canceled: Arc<Mutex<Vec<Value>>> = Arc::default();
    let (url, message) = agent_that_never_answers(canceled.clone());
    let hub = TestServer::start(&format!(
        "[[agent]]\nname = \"far\"\ndefault = true\nkind = \"a2a\"\nurl = \"{url}\"\ncancel_grace_seconds = 0\n"
    ));
    let task = hub.send_async("/", "go");
    eventually("the message has left", || message.lock().unwrap().is_object());
    let told = hub.result("/", "CancelTask", &json!({"id": task["id"]}));
    assert_eq!(state(&told), "TASK_STATE_CANCELED", "{told}");
    assert!(canceled.lock().unwrap().is_empty(), "it has no name yet");
    let hub = TestServer::start_at(&hub.kill());
    eventually("it is canceled there", || *canceled.lock().unwrap() == [json!("theirs")]);
    eventually("nothing is owed any more", || hub.metric("sabir_cancels_owed") == 0.0);
    assert_eq!(state(&hub.get("/", &task["id"])), "TASK_STATE_CANCELED");
}
