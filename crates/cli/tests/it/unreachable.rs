//! A remote agent or endpoint that cannot be reached: each failed attempt is reported, and a message that never left
//! fails soon.

use crate::http_client::{Request, SseEvent};
use crate::remote::{settles, text, words};
use crate::rpc_client::{send_params, state};
use crate::stub_agent;
use crate::test_server::{ServerDirectory, TestServer, eventually};
use crate::upstream::{NUMBERED, POLLED, STREAMS, Upstream};
use serde_json::{Value, json};
use std::net::TcpListener;
use std::sync::Arc;
use std::thread;
use std::time::{Duration, Instant};

/// An address that refuses connections, with a secret in its query.
fn nowhere() -> String {
    let listener = TcpListener::bind("127.0.0.1:0").unwrap();
    format!("http://{}/a2a?key=hush-hush", listener.local_addr().unwrap())
}

/// An agent elsewhere that is asked again soon.
fn far(url: &str, agent: &str, continuation: &str) -> String {
    format!(
        "[[agent]]\nname = \"far\"\nkind = \"a2a\"\ndefault = true\nurl = \"{url}\"\n{agent}\n\
         [agent.continuation]\npoll_ms = 100\nattempts = 20\n{continuation}\n"
    )
}

/// The words of the statuses in a stream that put the task to work.
fn progress(frames: &[SseEvent]) -> Vec<String> {
    let working = frames.iter().filter(|frame| frame.state() == Some("TASK_STATE_WORKING"));
    let said = working.filter_map(|frame| {
        let event = frame.event();
        let update = event.get("task").or_else(|| event.get("statusUpdate"))?;
        update["status"]["message"]["parts"][0]["text"].as_str().map(str::to_owned)
    });
    said.collect()
}

fn end(frames: &[SseEvent]) -> &Value {
    frames.last().map(|frame| &frame.event()["statusUpdate"]).unwrap_or(&Value::Null)
}

fn task_id(frames: &[SseEvent]) -> &str {
    end(frames)["taskId"].as_str().unwrap()
}

#[track_caller]
fn holds_no_address(words: &str) {
    assert!(!["127.0.0.1", "http", "hush", "nowhere", "os error"].iter().any(|part| words.contains(part)), "{words}");
}

#[test]
fn a_stream_tells_each_refused_connection_and_then_the_failure() {
    let unresolved = "http://nowhere.invalid:9";
    for (url, reason) in [(&*nowhere(), "connection refused"), (unresolved, "its host name does not resolve")] {
        let sabir = TestServer::start(&far(url, "", "connect_give_up_seconds = 1"));
        let begun = Instant::now();
        let mut stream = sabir.stream("/", "SendStreamingMessage", &send_params("go"));
        let mut frames = vec![stream.next().unwrap(), stream.next().unwrap()];
        let first = begun.elapsed();
        frames.extend(stream.rest());
        let told = progress(&frames);
        assert!(first < Duration::from_secs(5) && !told.is_empty(), "{first:?} {told:?}");
        for words in &told {
            assert!(words.starts_with(&format!("cannot reach the agent behind this one ({reason}); next attempt in")));
            holds_no_address(words);
        }
        assert_eq!(end(&frames)["status"]["state"], "TASK_STATE_FAILED");
        let why = words(end(&frames));
        assert!(why.starts_with(&format!("cannot reach the agent behind this one ({reason})")), "{why}");
        assert!(why.ends_with("it did not receive the message"), "{why}");
        holds_no_address(why);
        // After 0, 100, 300 and 700 ms, and at the end.
        assert!(told.len() <= 4 && why.contains(&format!(": {} attempts in", told.len() + 1)), "{told:?} {why}");
        assert!(begun.elapsed() >= Duration::from_secs(1));
        let said = sabir.log_text();
        let line = said.lines().find(|line| line.contains("a call to an agent elsewhere failed")).unwrap();
        assert!(line.contains("far") && line.contains(&url[7..12]) && line.contains(task_id(&frames)), "{line}");
        assert!(!said.contains("hush-hush"), "{said}");
    }
}

#[test]
fn a_caller_who_waits_gets_the_failed_task() {
    for agent in ["", "idempotent = true"] {
        let sabir = TestServer::start(&far(&nowhere(), agent, "connect_give_up_seconds = 1"));
        let begun = Instant::now();
        let task = sabir.send("/", &send_params("go"));
        assert_eq!(state(&task), "TASK_STATE_FAILED", "{task}");
        assert!(words(&task).contains("(connection refused)"), "{task}");
        assert!((1..15).contains(&begun.elapsed().as_secs()), "{:?}", begun.elapsed());
    }
}

#[test]
fn with_zero_the_attempts_alone_decide() {
    let config = far(&nowhere(), "", "connect_give_up_seconds = 0").replace("attempts = 20", "attempts = 4");
    let sabir = TestServer::start(&config);
    let begun = Instant::now();
    let task = sabir.send("/", &send_params("go"));
    assert!(words(&task).contains("(connection refused): 4 attempts in"), "{task}");
    assert!(begun.elapsed() >= Duration::from_millis(700), "{:?}", begun.elapsed());
}

#[test]
fn an_agent_that_comes_up_meanwhile_does_the_work() {
    let listener = TcpListener::bind("127.0.0.1:0").unwrap();
    let address = listener.local_addr().unwrap();
    drop(listener);
    let sabir = TestServer::start(&far(&format!("http://{address}"), "", ""));
    let mut stream = sabir.stream("/", "SendStreamingMessage", &send_params("go"));
    let mut frames = vec![stream.next().unwrap(), stream.next().unwrap()];
    assert_eq!(progress(&frames).len(), 1);
    let upstream = Upstream::start_at(TcpListener::bind(address).unwrap(), STREAMS);
    upstream.wait_for_messages(1);
    upstream.send_chunk("there ");
    upstream.send_chunk("you are");
    upstream.send_status("completed", "");
    frames.extend(stream.rest());
    assert_eq!(end(&frames)["status"]["state"], "TASK_STATE_COMPLETED");
    assert_eq!(upstream.messages().len(), 1);
    // What was told is taken back before the answer begins.
    let outage = frames.iter().rposition(|frame| !progress(std::slice::from_ref(frame)).is_empty()).unwrap();
    let chunk = frames.iter().position(|frame| frame.chunk().is_some()).unwrap();
    let between = &frames[outage + 1..chunk];
    assert!(between.iter().any(|frame| frame.state() == Some("TASK_STATE_WORKING")), "{between:?}");
}

#[test]
fn who_answers_that_it_is_away_is_waited_for_and_a_cancel_does_not_wait() {
    let url = stub_agent::serve(|_| (503, "text/plain", "later".into()));
    let sabir = TestServer::start(&far(&url, "", "connect_give_up_seconds = 1"));
    let task = sabir.send_async("/", "go");
    let told = || words(&sabir.get("/", &task["id"])).to_owned();
    eventually("the caller hears of it", || {
        told().starts_with("cannot reach the agent behind this one (it is not available)")
    });
    // Longer than `connect_give_up_seconds`, which must not end this task: a server that answers is connected.
    thread::sleep(Duration::from_millis(1500));
    assert_eq!(state(&sabir.get("/", &task["id"])), "TASK_STATE_WORKING");
    let begun = Instant::now();
    let canceled = sabir.result("/", "CancelTask", &json!({"id": task["id"]}));
    assert_eq!(state(&canceled), "TASK_STATE_CANCELED");
    assert!(begun.elapsed() < Duration::from_secs(2), "{:?}", begun.elapsed());
}

#[test]
fn what_may_have_arrived_is_said_to_be_unknown() {
    let upstream = Upstream::start(NUMBERED);
    let config = far(&upstream.url, "", "connect_give_up_seconds = 1").replace("poll_ms = 100", "poll_ms = 500");
    let sabir = TestServer::start(&config);
    upstream.set_hangs_up_on_send(true);
    let mut stream = sabir.stream("/", "SendStreamingMessage", &send_params("go"));
    upstream.wait_for_messages(1);
    upstream.set_hangs_up_on_send(false);
    upstream.send_chunk("found");
    upstream.send_status("completed", "");
    let frames = stream.rest();
    let told = progress(&frames);
    let expected = "it is not known whether the agent received the message (the connection broke off); \
                    next attempt to find out in 1 s";
    assert_eq!(told, [expected]);
    assert_eq!(end(&frames)["status"]["state"], "TASK_STATE_COMPLETED");
    assert_eq!(upstream.messages().len(), 1);
}

#[test]
fn work_that_goes_on_there_is_told_as_such_and_then_as_it_stands() {
    let upstream = Upstream::start(POLLED);
    let sabir = TestServer::start(&far(&upstream.url, "", ""));
    let task = sabir.send_async("/", "go");
    upstream.wait_for_messages(1);
    upstream.send_status("working", "half way");
    let told = || words(&sabir.get("/", &task["id"])).to_owned();
    eventually("it is at work", || told() == "half way");
    upstream.set_offline(true);
    eventually("it is away", || told().contains("the task may go on there; next attempt in"));
    upstream.set_offline(false);
    eventually("it is back, with nothing new", || told() == "half way");
    upstream.send_status("completed", "done");
    assert_eq!(words(&settles(&sabir, &task, "TASK_STATE_COMPLETED")), "done");
}

#[test]
fn the_time_to_connect_counts_from_the_first_attempt_across_a_crash() {
    let home = ServerDirectory::new(&far(&nowhere(), "", "connect_give_up_seconds = 3"));
    let sabir = TestServer::start_at(&home);
    let task = sabir.send_async("/", "go");
    eventually("it was tried", || state(&sabir.get("/", &task["id"])) == "TASK_STATE_WORKING");
    sabir.kill();
    // The time to connect passes while no server runs.
    thread::sleep(Duration::from_secs(3));
    let sabir = TestServer::start_at(&home);
    let begun = Instant::now();
    let failed = settles(&sabir, &task, "TASK_STATE_FAILED");
    assert!(words(&failed).contains("(connection refused)"), "{failed}");
    assert!(begun.elapsed() < Duration::from_secs(3), "counted anew: {:?}", begun.elapsed());
}

#[test]
fn a_server_that_was_stopped_meanwhile_goes_on() {
    let listener = TcpListener::bind("127.0.0.1:0").unwrap();
    let address = listener.local_addr().unwrap();
    drop(listener);
    let home = ServerDirectory::new(&far(&format!("http://{address}"), "", ""));
    let sabir = TestServer::start_at(&home);
    let task = sabir.send_async("/", "go");
    eventually("it was tried", || state(&sabir.get("/", &task["id"])) == "TASK_STATE_WORKING");
    let home = sabir.stop();
    let upstream = Upstream::start_at(TcpListener::bind(address).unwrap(), POLLED);
    let sabir = TestServer::start_at(&home);
    upstream.wait_for_messages(1);
    upstream.send_status("completed", "done");
    assert_eq!(words(&settles(&sabir, &task, "TASK_STATE_COMPLETED")), "done");
}

#[test]
fn an_open_breaker_says_when_it_lets_a_call_through() {
    let listener = TcpListener::bind("127.0.0.1:0").unwrap();
    let address = listener.local_addr().unwrap();
    drop(listener);
    let rules = "[agent.breaker]\nfailures = 2\ncooldown_seconds = 2";
    let sabir =
        TestServer::start(&far(&format!("http://{address}"), "", &format!("connect_give_up_seconds = 30\n{rules}")));
    let task = sabir.send_async("/", "go");
    let told = || words(&sabir.get("/", &task["id"])).to_owned();
    eventually("the breaker is open", || {
        told() == "the agent behind this one failed again and again; next attempt in 2 s"
    });
    let refused = sabir.ask(&Request::post("/message:send", send_params("go").to_string()));
    assert_eq!(refused.status, 503);
    let after: u64 = refused.header("Retry-After").unwrap().parse().unwrap();
    let said = refused.text();
    assert!((1..=2).contains(&after) && said.contains(&format!("try again in {after} s")), "{said}");
    let upstream = Upstream::start_at(TcpListener::bind(address).unwrap(), POLLED);
    upstream.wait_for_messages(1);
    upstream.send_status("completed", "done");
    assert_eq!(words(&settles(&sabir, &task, "TASK_STATE_COMPLETED")), "done");
}

#[test]
fn a_task_that_meets_an_open_breaker_fails_as_soon_as_the_one_that_opened_it() {
    let rules = "[agent.breaker]\nfailures = 1";
    let sabir = TestServer::start(&far(&nowhere(), "", &format!("connect_give_up_seconds = 1\n{rules}")));
    let mut stream = sabir.stream("/", "SendStreamingMessage", &send_params("go"));
    let frames = stream.rest();
    let told = progress(&frames);
    assert_eq!(told.len(), 2, "{told:?}");
    let held = "the agent behind this one failed again and again and is not called for 5 min; this task fails in 1 s";
    assert_eq!(told[1], held);
    assert!(words(end(&frames)).contains("(connection refused): 1 attempt;"), "{:?}", end(&frames));
}

#[test]
fn another_place_or_another_agent_does_what_one_cannot() {
    let upstream = Upstream::start(POLLED);
    upstream.send_status("completed", "done elsewhere");
    let places = |other: &str| {
        format!(
            "[[agent]]\nname = \"far\"\nkind = \"a2a\"\ndefault = true\n\
             replicas = [{{ url = \"{}\", weight = 1000 }}, {{ url = \"{other}\" }}]\n\
             [agent.continuation]\npoll_ms = 100\nconnect_give_up_seconds = 1\n",
            nowhere()
        )
    };
    let sabir = TestServer::start(&places(&upstream.url));
    assert_eq!(words(&sabir.send("/", &send_params("go"))), "done elsewhere");
    let sabir = TestServer::start(&places(&nowhere()));
    let failed = sabir.send("/", &send_params("go"));
    assert!(words(&failed).contains("(connection refused)"), "{failed}");

    let spare = "[[agent]]\nname = \"spare\"\nkind = \"echo\"\n";
    let sabir = TestServer::start(&(far(&nowhere(), "fallback = \"spare\"", "") + spare));
    assert_eq!(text(&sabir.send("/", &send_params("anyone"))), "anyone");
}

#[test]
fn endpoints_are_tried_a_few_times_and_each_is_told() {
    let openai = "[agent.openai]\nmodel = \"m\"";
    for (kind, more) in [("http", ""), ("openai", openai)] {
        let config = |url: &str| {
            format!("[[agent]]\nname = \"desk\"\nkind = \"{kind}\"\ndefault = true\nurl = \"{url}\"\n{more}\n")
        };
        let sabir = TestServer::start(&config(&nowhere()));
        let mut stream = sabir.stream("/", "SendStreamingMessage", &send_params("go"));
        let frames = stream.rest();
        let told = progress(&frames);
        let expected = "cannot reach the endpoint behind this agent (connection refused); next attempt in 1 s";
        assert_eq!(told, [expected, expected], "{kind}");
        let why = words(end(&frames));
        assert_eq!(why, "the endpoint behind this agent cannot be reached (connection refused)", "{kind}");
        let said = sabir.log_text();
        let line = said.lines().find(|line| line.contains("did not answer as it should")).unwrap();
        assert!(line.contains("desk") && line.contains("127.0.0.1") && line.contains(task_id(&frames)), "{line}");
        assert!(!said.contains("hush-hush"), "{said}");
        assert_eq!(words(&sabir.send("/", &send_params("go"))), why, "{kind}");
    }
}

#[test]
fn an_endpoint_that_comes_up_meanwhile_answers() {
    let listener = TcpListener::bind("127.0.0.1:0").unwrap();
    let address = listener.local_addr().unwrap();
    drop(listener);
    let config = format!("[[agent]]\nname = \"desk\"\nkind = \"http\"\ndefault = true\nurl = \"http://{address}/\"\n");
    let sabir = Arc::new(TestServer::start(&config));
    let mut stream = sabir.stream("/", "SendStreamingMessage", &send_params("go"));
    let mut frames = vec![stream.next().unwrap(), stream.next().unwrap()];
    stub_agent::serve_at(TcpListener::bind(address).unwrap(), |_| (200, "text/plain", "here".into()));
    frames.extend(stream.rest());
    assert_eq!(end(&frames)["status"]["state"], "TASK_STATE_COMPLETED");
    assert!(end(&frames)["status"].get("message").is_none(), "{:?}", end(&frames));
    assert_eq!(frames.iter().filter_map(SseEvent::chunk).collect::<String>(), "here");
}

#[test]
fn an_endpoint_that_never_answers_has_perhaps_heard_and_is_not_asked_again() {
    // Connections wait in the listener's queue and nothing reads them.
    let listener = TcpListener::bind("127.0.0.1:0").unwrap();
    let url = format!("http://{}/", listener.local_addr().unwrap());
    let config = format!(
        "[[agent]]\nname = \"desk\"\nkind = \"http\"\ndefault = true\nurl = \"{url}\"\n[agent.http]\nanswer_seconds_max = 1\n"
    );
    let sabir = TestServer::start(&config);
    let begun = Instant::now();
    let task = sabir.send("/", &send_params("go"));
    assert_eq!(words(&task), "the endpoint behind this agent took too long");
    assert!(begun.elapsed() < Duration::from_secs(5), "{:?}", begun.elapsed());
    drop(listener);
}

#[test]
fn silence_is_told_while_the_answer_is_waited_for() {
    // Connections wait in the listener's queue and nothing reads them.
    let hangs = TcpListener::bind("127.0.0.1:0").unwrap();
    let hangs_at = format!("http://{}", hangs.local_addr().unwrap());
    let at = hangs_at.clone();
    let has_a_card = stub_agent::serve(move |_| (200, "application/json", stub_agent::card(&at)));
    let config = format!(
        "{}[[agent]]\nname = \"cardless\"\nkind = \"a2a\"\nurl = \"{hangs_at}\"\n\
         [[agent]]\nname = \"desk\"\nkind = \"http\"\nurl = \"{hangs_at}\"\n\
         [egress]\nallow = [\"127.0.0.0/8\"]\n",
        far(&has_a_card, "", "")
    );
    let sabir = TestServer::start(&config);
    let expected = [
        ("/agents/far", "no answer from the agent behind this one for 10 s; it may have the message; still waiting"),
        ("/agents/cardless", "cannot reach the agent behind this one (no answer in time); next attempt in 2 s"),
        ("/agents/desk", "no answer from the endpoint behind this agent for 10 s; still waiting"),
    ];
    let tasks = expected.map(|(at, said)| (at, said, sabir.send_async(at, "go")));
    for (at, said, task) in tasks {
        eventually(said, || words(&sabir.get(at, &task["id"])) == said);
    }
}
