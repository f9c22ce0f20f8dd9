//! Whatever an agent does, the command line says what happened, with the right exit code, and never hangs.

use crate::faulty_agent::{
    AgentResponse, EmptyDirectory, FaultyAgent, RpcRequest, StreamEnding, card, task, wait_for_exit,
};
use serde_json::{Value, json};
use std::fs;
use std::io::{BufRead, BufReader};
use std::net::TcpListener;
use std::process::{Command, Stdio};
use std::time::Duration;

/// An agent whose card is these bytes.
fn with_card(media: &'static str, body: Vec<u8>) -> FaultyAgent {
    FaultyAgent::start(move |_, _| AgentResponse::Http(200, media, body.clone()))
}

fn settled(parts: Value) -> Value {
    json!({"id": "t-1", "contextId": "c-1", "status": {"state": "TASK_STATE_COMPLETED"},
        "artifacts": [{"artifactId": "a-1", "name": "out", "parts": parts}]})
}

#[test]
fn nobody_there_is_not_the_agents_fault() {
    let port = TcpListener::bind("127.0.0.1:0").unwrap().local_addr().unwrap().port();
    let place = EmptyDirectory::new();
    place
        .run(&["send", "hi", "-a", &format!("http://127.0.0.1:{port}"), "-o", "json"])
        .expect_failure("A2ACLI_ERR_UNREACHABLE", 3);
    place.run(&["send", "hi", "-a", "http://nobody.invalid", "-o", "json"]).expect_failure("A2ACLI_ERR_UNREACHABLE", 3);
    let plain = FaultyAgent::agent(false, |_| AgentResponse::Result(json!({"task": task("TASK_STATE_COMPLETED")})));
    let secure = plain.url().replace("http://", "https://");
    place.run(&["send", "hi", "-a", &secure, "-o", "json"]).expect_failure("A2ACLI_ERR_UNREACHABLE", 3);
}

#[test]
fn what_cannot_name_an_agent_is_a_usage_error() {
    let place = EmptyDirectory::new();
    for reference in ["ftp://agent.example/", "https://", "http://user:password@agent.example/"] {
        let ran = place.run(&["card", "get", "-a", reference, "-o", "json"]);
        ran.expect_failure("A2ACLI_ERR_USAGE", 2);
        assert!(!ran.out.contains("password@"), "{}", ran.out);
    }
    place.run(&["card", "get", "-o", "json"]).expect_failure("A2ACLI_ERR_USAGE", 2);
    place
        .run(&["card", "get", "-a", "./no-such-card.json", "-o", "json"])
        .expect_failure("A2ACLI_ERR_CARD_NOT_FOUND", 3);
}

#[test]
fn what_is_not_a_card_is_not_taken_for_one() {
    let place = EmptyDirectory::new();
    for (media, body) in [
        ("text/html", b"<!doctype html><h1>Hello</h1>".to_vec()),
        ("application/json", b"{\"name\": \"half".to_vec()),
        ("application/json", b"{\"name\": \"Poor\"}".to_vec()),
        ("application/json", b"[]".to_vec()),
        ("application/json", vec![0xff, 0xfe, 0x00]),
        ("application/json", vec![b'['; 100_000]),
        ("application/json", [&b"{\"name\": \""[..], &vec![b'x'; 10 << 20], b"\"}"].concat()),
    ] {
        let rogue = with_card(media, body);
        place.run(&["send", "hi", "-a", &rogue.url(), "-o", "json"]).expect_failure("A2ACLI_ERR_CARD_INVALID", 1);
    }
}

#[test]
fn a_card_that_offers_nothing_we_speak_says_what_it_offers() {
    let mut pigeon = card("https://agent.example/", false);
    pigeon["supportedInterfaces"][0]["protocolBinding"] = "carrier-pigeon".into();
    let error = EmptyDirectory::new()
        .run(&["send", "hi", "-a", &with_card("application/json", pigeon.to_string().into_bytes()).url(), "-o", "json"])
        .expect_failure("A2ACLI_ERR_INTERNAL", 1);
    assert!(error["hint"].as_str().unwrap().contains("carrier-pigeon"), "{error}");
    let mut old = card("https://agent.example/", false);
    old["supportedInterfaces"][0]["protocolVersion"] = "0.3".into();
    let error = EmptyDirectory::new()
        .run(&[
            "send",
            "hi",
            "--a2a-version",
            "1.0",
            "-a",
            &with_card("application/json", old.to_string().into_bytes()).url(),
            "-o",
            "json",
        ])
        .expect_failure("VersionNotSupportedError", 1);
    assert!(error["hint"].as_str().unwrap().contains("--a2a-version 0.3"), "{error}");
}

#[test]
fn an_answer_to_another_question_is_none() {
    let place = EmptyDirectory::new();
    let stranger = FaultyAgent::agent(false, |_| {
        let body = json!({"jsonrpc": "2.0", "id": "somebody-else", "result": {"task": task("TASK_STATE_COMPLETED")}});
        AgentResponse::Http(200, "application/json", body.to_string().into_bytes())
    });
    place.run(&["send", "hi", "-a", &stranger.url(), "-o", "json"]).expect_failure("InvalidAgentResponseError", 1);
    let other = FaultyAgent::agent(false, |_| AgentResponse::Result(json!({"task": task("TASK_STATE_COMPLETED")})));
    place
        .run(&["send", "hi", "--task-id", "t-2", "-a", &other.url(), "-o", "json"])
        .expect_failure("InvalidAgentResponseError", 1);
    let html = FaultyAgent::agent(false, |_| AgentResponse::Http(200, "text/html", b"<h1>Welcome</h1>".to_vec()));
    let error =
        place.run(&["send", "hi", "-a", &html.url(), "-o", "json"]).expect_failure("InvalidAgentResponseError", 1);
    assert_eq!(error["a2aCode"], Value::Null);
}

/// An agent whose stream begins well and ends badly, and whose task gets nowhere.
fn broken_stream(after: StreamEnding) -> FaultyAgent {
    FaultyAgent::agent(true, move |asked: &RpcRequest| match asked.method.as_str() {
        "GetTask" => AgentResponse::Result(task("TASK_STATE_WORKING")),
        _ => AgentResponse::Stream(vec![json!({"task": task("TASK_STATE_WORKING")})], after),
    })
}

#[test]
fn a_stream_that_stalls_dies_or_never_ends_is_given_up_in_time() {
    let place = EmptyDirectory::new();
    for after in [StreamEnding::Silence, StreamEnding::Cut, StreamEnding::Half] {
        let rogue = broken_stream(after);
        for more in [&[][..], &["--stream"][..]] {
            let ran =
                place.run(&[&["send", "hi", "-a", &rogue.url(), "-o", "json", "--timeout", "1500ms"], more].concat());
            let error = ran.expect_failure("A2ACLI_ERR_TIMEOUT", 5);
            assert!(error["hint"].as_str().unwrap().contains("task get"), "the way back: {error}");
            assert!(error["hint"].as_str().unwrap().contains("t-1"), "{error}");
            assert!(ran.elapsed < Duration::from_secs(10), "{:?}", ran.elapsed);
            assert!(ran.err.contains("Task ID: t-1"), "{}", ran.err);
        }
    }
}

#[test]
fn a_wait_outlives_its_stream() {
    let rogue = FaultyAgent::agent(true, |asked| match asked.method.as_str() {
        "SendStreamingMessage" => {
            AgentResponse::Stream(vec![json!({"task": task("TASK_STATE_WORKING")})], StreamEnding::Half)
        }
        "SubscribeToTask" => AgentResponse::Http(500, "text/plain", b"broken".to_vec()),
        _ => AgentResponse::Result(settled(json!([{"text": "done after all"}]))),
    });
    let ran = EmptyDirectory::new().run(&["send", "hi", "-a", &rogue.url(), "-o", "json", "--poll-interval", "100ms"]);
    assert_eq!(ran.code, Some(0), "{} {}", ran.out, ran.err);
    let value: Value = serde_json::from_str(&ran.out).unwrap();
    assert_eq!(value["task"]["artifacts"][0]["parts"][0]["text"], "done after all");
}

#[test]
fn nothing_an_agent_says_steers_the_terminal() {
    let evil = "\u{1b}]0;owned\u{7}\u{1b}[2J\u{9b}31m\r\u{202e}\nState: TASK_STATE_FAILED\n\nResume: rm -rf /";
    let rogue = FaultyAgent::agent(false, move |_| {
        AgentResponse::Result(
            json!({"task": {"id": "t-1\u{1b}[1m", "contextId": "c\n1", "status": {"state": "TASK_STATE_COMPLETED"},
            "artifacts": [{"artifactId": evil, "name": evil, "parts": [{"text": evil}, {"data": {"k": evil}}, {"url": evil, "filename": evil}]}]}}),
        )
    });
    let place = EmptyDirectory::new();
    for arguments in [
        &["send", "hi", "--verbose", "--debug"][..],
        &["send", "hi", "--verbose", "--stream"][..],
        &["send", "hi", "-o", "json", "--debug"][..],
    ] {
        let ran = place.run(&[arguments, &["-a", &rogue.url()]].concat());
        for (name, text) in [("stdout", &ran.out), ("stderr", &ran.err)] {
            let bad = text
                .chars()
                .find(|c| (c.is_control() && !matches!(c, '\n' | '\t')) || ('\u{202a}'..='\u{202e}').contains(c));
            assert_eq!(bad, None, "{name} of {arguments:?}: {text:?}");
        }
        let forged = ran.out.lines().any(|line| line == "State: TASK_STATE_FAILED" || line.starts_with("Resume: rm"));
        assert!(!forged, "{}", ran.out);
    }
}

#[test]
fn hostile_names_stay_in_their_directory_and_overwrite_nothing() {
    let names = [
        "../../escaped",
        "/tmp/absolute",
        "..\\..\\windows",
        "a\u{0}b\u{1b}.txt",
        "NUL",
        "con.txt",
        "..",
        "keep.txt",
        "KEEP.TXT",
        ".bashrc",
        "-rf",
    ];
    let parts: Vec<Value> = names.iter().map(|name| json!({"text": "x", "filename": name})).collect();
    let rogue = FaultyAgent::agent(false, move |_| AgentResponse::Result(settled(json!(parts))));
    let place = EmptyDirectory::new();
    let out = place.directory.path().join("deep/out");
    let arguments = ["task", "download", "t-1", "--dir", out.to_str().unwrap(), "-a", &rogue.url()];
    let ran = place.run(&arguments);
    assert_eq!(ran.code, Some(0), "{} {}", ran.out, ran.err);
    let mut found: Vec<String> =
        fs::read_dir(&out).unwrap().map(|entry| entry.unwrap().file_name().into_string().unwrap()).collect();
    found.sort();
    assert_eq!(found.len(), names.len(), "{found:?}");
    assert!(found.iter().all(|name| !name.starts_with(['.', '-']) && !name.chars().any(char::is_control)), "{found:?}");
    assert!(
        !found.iter().any(|name| name.eq_ignore_ascii_case("nul") || name.eq_ignore_ascii_case("con.txt")),
        "{found:?}"
    );
    let around: Vec<_> = fs::read_dir(place.directory.path().join("deep")).unwrap().collect();
    assert_eq!(around.len(), 1, "nothing beside the directory");
    // A second time, and through a link that leads elsewhere.
    fs::write(out.join("keep.txt"), "mine").unwrap();
    let again = place.run(&[&arguments[..], &["-o", "json"]].concat());
    again.expect_failure("SABIR_ERR_EXISTS", 1);
    assert_eq!(fs::read_to_string(out.join("keep.txt")).unwrap(), "mine");
    let precious = place.directory.path().join("precious");
    fs::write(&precious, "precious").unwrap();
    fs::remove_file(out.join("keep.txt")).unwrap();
    std::os::unix::fs::symlink(&precious, out.join("keep.txt")).unwrap();
    assert_eq!(place.run(&[&arguments[..], &["--force"]].concat()).code, Some(0));
    assert_eq!(fs::read_to_string(&precious).unwrap(), "precious", "a link is replaced, not followed");
    assert_eq!(fs::read_to_string(out.join("keep.txt")).unwrap(), "x");
}

#[test]
fn a_reader_that_leaves_is_no_failure_and_a_full_disk_is_one() {
    let rogue = FaultyAgent::agent(false, |_| {
        AgentResponse::Result(json!({"task": settled(json!([{"text": "x".repeat(200_000)}]))}))
    });
    let place = EmptyDirectory::new();
    let script = format!("{} send hi -a {} | head -c 10", env!("CARGO_BIN_EXE_sabir"), rogue.url());
    let mut shell = Command::new("bash");
    shell
        .args(["-c", &format!("set -o pipefail; {script}")])
        .env_clear()
        .env("HOME", place.directory.path())
        .env("PATH", "/usr/bin:/bin");
    let ran = wait_for_exit(
        shell.current_dir(place.directory.path()).stdout(Stdio::piped()).stderr(Stdio::piped()).spawn().unwrap(),
    );
    assert_eq!((ran.code, ran.out.len()), (Some(0), 10), "{}", ran.err);
    assert!(!ran.err.contains("panicked") && !ran.err.contains("Broken pipe"), "{}", ran.err);
    for format in ["text", "json"] {
        let mut command = place.command(&["send", "hi", "-a", &rogue.url(), "-o", format]);
        let full = fs::OpenOptions::new().write(true).open("/dev/full").unwrap();
        let ran = wait_for_exit(command.stdout(full).spawn().unwrap());
        assert_eq!(ran.code, Some(1), "{}", ran.err);
        assert!(ran.err.contains("A2ACLI_ERR_INTERNAL") && ran.err.contains("No space left"), "{}", ran.err);
    }
}

#[test]
fn ctrl_c_leaves_the_task_and_says_how_to_come_back() {
    let rogue = FaultyAgent::agent(true, |asked| match asked.method.as_str() {
        "CancelTask" => panic!("nobody asked for that"),
        _ => AgentResponse::Stream(vec![json!({"task": task("TASK_STATE_WORKING")})], StreamEnding::Silence),
    });
    let place = EmptyDirectory::new();
    let mut child = place.command(&["send", "hi", "-a", &rogue.url()]).spawn().unwrap();
    let mut said = BufReader::new(child.stderr.take().unwrap());
    let mut line = String::new();
    while !line.contains("Task ID: t-1") {
        line.clear();
        assert!(said.read_line(&mut line).unwrap() > 0, "it ended before it knew the task");
    }
    assert!(Command::new("kill").args(["-INT", &child.id().to_string()]).status().unwrap().success());
    let mut rest = String::new();
    std::io::Read::read_to_string(&mut said, &mut rest).unwrap();
    let ran = wait_for_exit(child);
    assert_eq!(ran.code, Some(130), "{rest}");
    assert!(rest.contains(&format!("Resume: sabir task get --agent-card {} t-1 --wait", rogue.url())), "{rest}");
}

#[test]
fn a_message_reaches_the_agent_as_it_was_typed() {
    let seen = std::sync::Arc::new(std::sync::Mutex::new(Vec::new()));
    let heard = seen.clone();
    let rogue = FaultyAgent::agent(false, move |asked| {
        heard.lock().unwrap().push((asked.path.clone(), asked.method.clone(), asked.params.clone()));
        AgentResponse::Result(json!({"message": {"messageId": "m", "role": "ROLE_AGENT", "parts": [{"text": "ok"}]}}))
    });
    let place = EmptyDirectory::new();
    std::io::Write::write_all(&mut place.file("q.csv"), b"a,b").unwrap();
    let ran = place.run(&[
        "send",
        "<b>&amp;",
        "--file",
        "q.csv",
        "--text",
        "2",
        "--media-type",
        "text/html",
        "-a",
        &rogue.url(),
    ]);
    assert_eq!(ran.code, Some(0), "{}", ran.err);
    let seen = seen.lock().unwrap();
    let (path, method, params) = &seen[0];
    assert_eq!((path.as_str(), method.as_str()), ("/rpc", "SendMessage"));
    assert_eq!(
        params["message"]["parts"],
        json!([{"text": "<b>&amp;"}, {"raw": "YSxi", "filename": "q.csv", "mediaType": "text/csv"}, {"text": "2", "mediaType": "text/html"}])
    );
    assert!(params["message"]["taskId"].is_null() && params["message"]["contextId"].is_null(), "{params}");
}

#[test]
fn a_file_that_cannot_be_fetched_does_not_keep_the_others_from_being_saved() {
    let gone = "http://127.0.0.1:9/gone.bin";
    let parts = json!([
        {"text": "first", "filename": "first.txt"},
        {"url": gone, "filename": "gone.bin"},
        {"text": "last", "filename": "last.txt"}
    ]);
    let rogue = FaultyAgent::agent(false, move |_| AgentResponse::Result(settled(parts.clone())));
    let place = EmptyDirectory::new();
    let out = place.directory.path().join("out");
    let arguments = ["task", "download", "t-1", "--dir", out.to_str().unwrap(), "-a", &rogue.url()];
    let ran = place.run(&[&arguments[..], &["-o", "text"]].concat());
    assert_eq!(ran.code, Some(3), "{} {}", ran.out, ran.err);
    for name in ["first.txt", "last.txt"] {
        assert!(out.join(name).exists(), "{name}: {} {}", ran.out, ran.err);
        assert!(ran.out.contains(&format!("Saved: {}", out.join(name).display())), "{}", ran.out);
    }
    assert!(!out.join("gone.bin").exists() && !ran.out.contains("gone.bin"), "{}", ran.out);
    assert!(ran.err.contains("1 of 3 files could not be saved") && ran.err.contains("gone.bin"), "{}", ran.err);
    // In JSON it is one document: the error, which names what was saved.
    let again = place.run(&[&arguments[..], &["-o", "json", "--force"]].concat());
    let error = serde_json::from_str::<Value>(&again.out).unwrap();
    assert!(error["error"]["message"].as_str().unwrap().contains("last.txt"), "{error}");
}
