//! `sabir demo-server`: every scenario does what the card says, over the binding where it could go wrong.

use crate::http_client::{HttpResponse, Request};
use crate::protocols::Http2;
use crate::rpc_client::{answer_params, artifact_text, envelope, event_ids, send_params, state};
use crate::test_server::{ServerDirectory, TestServer, eventually};
use serde_json::{Value, json};
use std::io::{BufRead, BufReader, Read};
use std::process::{Command, Stdio};
use std::time::Instant;

const CARD: &str = "/.well-known/agent-card.json";
const RST_STREAM: u8 = 3;

fn demo(flags: &[&str]) -> TestServer {
    let home = ServerDirectory::new("");
    let command = home.demo(flags);
    TestServer::run(&home, command)
}

fn texts(task: &Value) -> Vec<&str> {
    let artifacts = task["artifacts"].as_array().unwrap().iter();
    artifacts.flat_map(|a| a["parts"].as_array().unwrap()).filter_map(|p| p["text"].as_str()).collect()
}

fn words(task: &Value) -> &str {
    task["status"]["message"]["parts"][0]["text"].as_str().unwrap_or_else(|| panic!("no words: {task}"))
}

#[test]
fn the_card_lists_every_scenario_with_an_example() {
    let demo = demo(&[]);
    let card = demo.ask(&Request::get(CARD)).json();
    assert_eq!(card["name"], "Sabir demo");
    let skills: Vec<&str> =
        card["skills"].as_array().unwrap().iter().map(|s| s["examples"][0].as_str().unwrap()).collect();
    let first: Vec<&str> = skills.iter().map(|s| s.split(' ').next().unwrap()).collect();
    let all = "echo message slow fail reject ask auth unspecified files drop 401 tenant escape big hold";
    assert_eq!(first, all.split(' ').collect::<Vec<_>>());
    let capabilities = &card["capabilities"];
    for member in ["streaming", "pushNotifications", "extendedAgentCard"] {
        assert_eq!(capabilities[member], true, "{member}");
    }
    let bindings: Vec<&str> = card["supportedInterfaces"]
        .as_array()
        .unwrap()
        .iter()
        .filter(|i| i["protocolVersion"] == "1.0")
        .map(|i| i["protocolBinding"].as_str().unwrap())
        .collect();
    assert_eq!(bindings, ["JSONRPC", "HTTP+JSON", "GRPC"]);
    assert!(card.get("securityRequirements").is_none(), "nothing is demanded: {card}");
    assert!(demo.log_text().contains("Test token: demo-token"), "{}", demo.log_text());
}

#[test]
fn tasks_end_as_they_were_asked_to() {
    let demo = demo(&[]);
    for (text, expected) in [
        ("echo hello", "TASK_STATE_COMPLETED"),
        ("hello", "TASK_STATE_COMPLETED"),
        ("fail", "TASK_STATE_FAILED"),
        ("FAIL now", "TASK_STATE_FAILED"),
        ("reject", "TASK_STATE_REJECTED"),
        ("ask", "TASK_STATE_INPUT_REQUIRED"),
        ("auth", "TASK_STATE_AUTH_REQUIRED"),
        ("slow soon", "TASK_STATE_FAILED"),
        ("big 999999", "TASK_STATE_FAILED"),
    ] {
        assert_eq!(state(&demo.send("/", &send_params(text))), expected, "{text}");
    }
    assert_eq!(texts(&demo.send("/", &send_params("echo hello"))), ["echo hello"]);
    assert_eq!(texts(&demo.send("/", &send_params("anything else"))), ["anything else"]);
    assert!(words(&demo.send("/", &send_params("slow soon"))).contains("\"soon\""));
}

#[test]
fn a_message_leaves_no_task() {
    let demo = demo(&[]);
    let result = demo.result("/", "SendMessage", &send_params("message"));
    assert_eq!(result["message"]["role"], "ROLE_AGENT");
    assert_eq!(demo.task_count("/"), 0);
}

#[test]
fn slow_takes_its_time_in_pieces_and_can_be_cancelled() {
    let demo = demo(&[]);
    let begun = Instant::now();
    let frames = demo.stream("/", "SendStreamingMessage", &send_params("slow 1")).rest();
    let took = begun.elapsed().as_secs_f64();
    assert!((1.0..10.0).contains(&took), "{took}");
    assert_eq!(artifact_text(&frames), "1 of 2\n2 of 2\n");
    assert_eq!(frames.last().unwrap().state(), Some("TASK_STATE_COMPLETED"));
    for text in ["slow 600", "hold"] {
        let task = demo.send_async("/", text);
        assert_eq!(state(&task), "TASK_STATE_WORKING");
        let canceled = demo.result("/", "CancelTask", &json!({"id": task["id"]}));
        assert_eq!(state(&canceled), "TASK_STATE_CANCELED");
    }
}

#[test]
fn a_reply_completes_what_was_asked() {
    let demo = demo(&[]);
    for text in ["ask", "auth"] {
        let task = demo.send("/", &send_params(text));
        assert!(!words(&task).is_empty());
        let done = demo.send("/", &answer_params(&task, "blue"));
        assert_eq!((state(&done), texts(&done)), ("TASK_STATE_COMPLETED", vec!["blue"]));
    }
}

#[test]
fn what_is_authorised_elsewhere_goes_on_by_itself() {
    let demo = demo(&[]);
    let mut params = send_params("auth 1");
    params["tenant"] = json!("acme");
    let task = demo.send("/", &params);
    assert_eq!(state(&task), "TASK_STATE_AUTH_REQUIRED");
    let get = || demo.result("/", "GetTask", &json!({"tenant": "acme", "id": task["id"]}));
    eventually("it goes on", || state(&get()) == "TASK_STATE_COMPLETED");
    // A stream sees both.
    let states: Vec<String> = demo
        .stream("/", "SendStreamingMessage", &send_params("auth 1"))
        .rest()
        .iter()
        .filter_map(|f| f.state().map(str::to_owned))
        .collect();
    assert!(states.contains(&"TASK_STATE_AUTH_REQUIRED".to_owned()), "{states:?}");
    assert_eq!(states.last().unwrap(), "TASK_STATE_COMPLETED");
}

#[test]
fn an_unspecified_state_is_shown_and_never_kept() {
    let demo = demo(&[]);
    let task = demo.send_async("/", "unspecified 2");
    assert_eq!(state(&task), "TASK_STATE_UNSPECIFIED");
    assert_eq!(state(&demo.get("/", &task["id"])), "TASK_STATE_UNSPECIFIED");
    let id = task["id"].as_str().unwrap();
    let rest = demo.ask(&Request::get(&format!("/tasks/{id}")));
    assert_eq!(state(&rest.json()), "TASK_STATE_UNSPECIFIED");
    let older = Request::post("/", envelope("tasks/get", &json!({"id": id}))).with("A2A-Version", "0.3");
    assert_eq!(state(&demo.ask(&older).json()["result"]), "unknown");
    // What the log holds is what a filter goes by.
    let working = demo.result("/", "ListTasks", &json!({"status": "TASK_STATE_WORKING"}));
    assert_eq!((&working["totalSize"], state(&working["tasks"][0])), (&json!(1), "TASK_STATE_UNSPECIFIED"));
    eventually("it completes", || state(&demo.get("/", &task["id"])) == "TASK_STATE_COMPLETED");
    let replayed = demo.stream_after("/", "SubscribeToTask", &json!({"id": id}), Some(0)).rest();
    assert!(replayed.iter().all(|f| f.state() != Some("TASK_STATE_UNSPECIFIED")), "{replayed:?}");
}

#[test]
fn an_unspecified_state_over_grpc_is_the_number_zero() {
    let demo = demo(&[]);
    let id = demo.send_async("/", "unspecified 60")["id"].as_str().unwrap().to_owned();
    let task = Http2::open(&demo).grpc(&demo.address.to_string(), "/lf.a2a.v1.A2AService/GetTask", &field(2, &id));
    // Id, context, then the status with a length of two bytes, whose first member is the state.
    let status = 2 * (2 + 36);
    assert_eq!((&task[2..38], task[status], &task[status + 3..status + 5]), (id.as_bytes(), 0x1a, &[0x08, 0][..]));
}

#[test]
fn files_have_every_kind_of_part() {
    let demo = demo(&[]);
    let task = demo.send("/", &send_params("files"));
    let artifacts = task["artifacts"].as_array().unwrap();
    assert!(artifacts.len() > 1);
    let parts: Vec<&Value> = artifacts.iter().flat_map(|a| a["parts"].as_array().unwrap()).collect();
    for kind in ["text", "data", "raw", "url"] {
        assert!(parts.iter().any(|p| p.get(kind).is_some()), "{kind}");
    }
    // The link leads somewhere.
    let url = parts.iter().find_map(|p| p["url"].as_str()).unwrap();
    assert_eq!(url, format!("http://{}{CARD}", demo.address));
    let hostile = demo.send("/", &send_params("files hostile"));
    let names: Vec<&str> =
        hostile["artifacts"].as_array().unwrap().iter().map(|a| a["parts"][0]["filename"].as_str().unwrap()).collect();
    for name in ["../../etc/passwd", "CON", "bell\u{7}and\nline\u{1b}[31m.txt"] {
        assert!(names.contains(&name), "{name:?}");
    }
}

#[test]
fn a_dropped_stream_breaks_once_and_is_taken_up_again() {
    let demo = demo(&[]);
    let mut stream = demo.stream("/", "SendStreamingMessage", &send_params("drop"));
    let before = stream.rest();
    assert!(stream.broken, "it should have broken off");
    let id = before[0].event()["task"]["id"].clone();
    let last = before.last().unwrap().id.unwrap();
    let mut stream = demo.stream_after("/", "SubscribeToTask", &json!({"id": id}), Some(last));
    let after = stream.rest();
    assert!(!stream.broken, "once is enough");
    assert_eq!(after[0].id, Some(last + 1));
    let all: Vec<_> = before.into_iter().chain(after).collect();
    assert_eq!(event_ids(&all), (1..=all.len() as u64).collect::<Vec<_>>());
    let expected: String = (1..=8).map(|n| format!("{n} of 8\n")).collect();
    assert_eq!(artifact_text(&all), expected);
    assert_eq!(all.last().unwrap().state(), Some("TASK_STATE_COMPLETED"));
    // What does not stream does not break.
    assert_eq!(state(&demo.send("/", &send_params("drop"))), "TASK_STATE_COMPLETED");
}

#[test]
fn a_dropped_stream_is_reset_over_grpc() {
    let demo = demo(&[]);
    let mut client = Http2::open(&demo);
    let message = spoken("drop");
    let body = [&[0], &u32::try_from(message.len()).unwrap().to_be_bytes()[..], &message].concat();
    let path = "/lf.a2a.v1.A2AService/SendStreamingMessage";
    let stream = client.send_typed("POST", &demo.address.to_string(), path, "application/grpc", &body);
    let ended = loop {
        let (kind, flags, of, _) = client.next();
        if of == stream && (kind == RST_STREAM || flags & 1 == 1) {
            break kind;
        }
    };
    assert_eq!(ended, RST_STREAM);
    let tasks = demo.result("/", "ListTasks", &json!({}));
    let id = &tasks["tasks"][0]["id"];
    eventually("the task goes on", || state(&demo.get("/", id)) == "TASK_STATE_COMPLETED");
}

#[test]
fn a_request_is_refused_when_it_asks_for_it() {
    let demo = demo(&[]);
    let refused = |reply: &HttpResponse| {
        assert_eq!(reply.status, 401, "{}", reply.text());
        assert!(reply.header("WWW-Authenticate").unwrap().starts_with("Bearer "));
        reply.json()["error"].clone()
    };
    for method in ["SendMessage", "SendStreamingMessage"] {
        let reply = demo.ask(&Request::post("/", envelope(method, &send_params("401"))));
        assert_eq!(refused(&reply)["data"][0]["reason"], "UNAUTHENTICATED");
        assert_eq!(reply.json()["id"], "r1");
    }
    for path in ["/message:send", "/message:stream"] {
        let error = refused(&demo.ask(&Request::post(path, send_params("401").to_string())));
        assert_eq!((&error["code"], &error["status"]), (&json!(401), &json!("UNAUTHENTICATED")));
    }
    // Over gRPC an error has no message, and whatever is no error has one.
    let grpc = |text| {
        let path = "/lf.a2a.v1.A2AService/SendMessage";
        Http2::open(&demo).grpc(&demo.address.to_string(), path, &spoken(text))
    };
    assert!(grpc("401").is_empty() && !grpc("hello").is_empty());
    assert_eq!(demo.task_count("/"), 1, "a refused request makes no task");
}

#[test]
fn the_tenant_is_told() {
    let demo = demo(&[]);
    assert_eq!(texts(&demo.send("/", &send_params("tenant"))), ["no tenant"]);
    let mut params = send_params("tenant");
    params["tenant"] = json!("acme");
    assert_eq!(texts(&demo.send("/", &params)), ["tenant: acme"]);
    let rest = demo.ask(&Request::post("/acme/message:send", send_params("tenant").to_string()));
    assert_eq!(texts(&rest.json()["task"]), ["tenant: acme"]);
}

#[test]
fn text_may_be_wild_or_large() {
    let demo = demo(&[]);
    let task = demo.send("/", &send_params("escape"));
    assert!(texts(&task)[0].contains("\u{1b}[31m") && words(&task).contains('\u{9b}'), "{task}");
    assert_eq!(texts(&demo.send("/", &send_params("big 100")))[0].len(), 100 << 10);
}

#[test]
fn push_configurations_are_kept() {
    let demo = demo(&[]);
    let task = demo.send_async("/", "hold");
    let config = json!({"taskId": task["id"], "id": "c1", "url": "http://127.0.0.1:8009/hook"});
    let created = demo.result("/", "CreateTaskPushNotificationConfig", &config);
    assert_eq!(created["id"], "c1");
    let named = json!({"taskId": task["id"], "id": "c1"});
    assert_eq!(demo.result("/", "GetTaskPushNotificationConfig", &named)["url"], config["url"]);
    demo.result("/", "DeleteTaskPushNotificationConfig", &named);
    let left = demo.result("/", "ListTaskPushNotificationConfigs", &json!({"taskId": task["id"]}));
    assert!(left["configs"].as_array().is_none_or(Vec::is_empty), "{left}");
}

#[test]
fn without_streaming_nothing_streams() {
    let demo = demo(&["--no-streaming"]);
    assert_eq!(demo.ask(&Request::get(CARD)).json()["capabilities"]["streaming"], false);
    let problem = demo.rpc_error("/", "SendStreamingMessage", &send_params("slow 1"));
    assert_eq!(problem.reason, "UNSUPPORTED_OPERATION");
}

#[test]
fn the_extended_card_wants_the_token() {
    let demo = demo(&[]);
    let rpc = Request::post("/", envelope("GetExtendedAgentCard", &json!({})));
    for request in [rpc, Request::get("/extendedAgentCard")] {
        for wrong in [request.clone(), request.clone().with("Authorization", "Bearer other")] {
            let reply = demo.ask(&wrong);
            assert_eq!(reply.status, 401, "{}", reply.text());
            assert!(!reply.text().contains("secret"), "{}", reply.text());
        }
        let reply = demo.ask(&request.with("Authorization", "Bearer demo-token"));
        assert_eq!(reply.status, 200);
        let body = reply.json();
        let card = body.get("result").unwrap_or(&body);
        let listed = card["skills"].as_array().unwrap().iter().filter(|s| s["id"] == "secret").count();
        assert_eq!((card["name"].as_str(), listed), (Some("Sabir demo"), 1));
    }
    let path = "/lf.a2a.v1.A2AService/GetExtendedAgentCard";
    assert!(Http2::open(&demo).grpc(&demo.address.to_string(), path, &[]).is_empty());
}

#[test]
fn a_demanded_token_is_demanded_in_every_binding() {
    for (flag, token) in [("--bearer-required", "demo-token"), ("--bearer-required=mine", "mine")] {
        let demo = demo(&[flag]);
        assert!(demo.log_text().contains(&format!("Test token: {token}")), "{}", demo.log_text());
        let card = demo.ask(&Request::get(CARD));
        assert_eq!(card.status, 200, "the public card is for everybody");
        let card = card.json();
        assert_eq!(card["securitySchemes"]["bearer"]["httpAuthSecurityScheme"]["scheme"], "Bearer");
        assert_eq!(card["securityRequirements"], json!([{"schemes": {"bearer": {}}}]));
        let requests = [
            Request::post("/", envelope("SendMessage", &send_params("x"))),
            Request::post("/", envelope("SendStreamingMessage", &send_params("x"))),
            Request::post("/message:send", send_params("x").to_string()),
            Request::get("/tasks"),
            Request::get("/v1/tasks/x").with("A2A-Version", "0.3"),
            Request::get("/metrics"),
        ];
        for request in requests {
            for wrong in [None, Some("Bearer "), Some("Bearer wrong"), Some("Basic bWluZQ==")] {
                let request = wrong.map_or(request.clone(), |w| request.clone().with("Authorization", w));
                let reply = demo.ask(&request);
                assert_eq!(reply.status, 401, "{wrong:?}: {}", reply.text());
                assert!(reply.header("WWW-Authenticate").unwrap().starts_with("Bearer "));
            }
            let reply = demo.ask(&request.with("Authorization", format!("Bearer {token}")));
            assert_ne!(reply.status, 401, "{}", reply.text());
        }
        let grpc = |more: &[(&str, &str)]| {
            let host = demo.address.to_string();
            let message = spoken("hello");
            let body = [&[0], &u32::try_from(message.len()).unwrap().to_be_bytes()[..], &message].concat();
            let mut headers = vec![
                (":method", "POST"),
                (":scheme", "http"),
                (":authority", &*host),
                (":path", "/lf.a2a.v1.A2AService/SendMessage"),
                ("content-type", "application/grpc"),
                ("te", "trailers"),
                ("a2a-version", "1.0"),
            ];
            headers.extend(more);
            let mut client = Http2::open(&demo);
            let stream = client.send_with(&headers, &body);
            client.raw_bodies(&[stream]).remove(0).1
        };
        let authorization = format!("Bearer {token}");
        assert!(grpc(&[]).is_empty() && grpc(&[("authorization", "Bearer wrong")]).is_empty());
        assert!(!grpc(&[("authorization", &authorization)]).is_empty());
    }
}

#[test]
fn a_port_that_others_reach_needs_a_token_of_its_own() {
    let home = ServerDirectory::new("");
    for flags in [&["--host", "0.0.0.0"][..], &["--host", "0.0.0.0", "--bearer-required"]] {
        let said = home.expect_start_refused(home.demo(flags));
        assert!(said.contains("--bearer-required=TOKEN"), "{said}");
    }
}

#[test]
fn json_output_is_the_card_and_an_interrupt_is_no_failure() {
    let home = ServerDirectory::new("");
    let mut command = home.demo(&["-o", "json"]);
    let mut child = command.stdout(Stdio::piped()).stderr(Stdio::null()).spawn().unwrap();
    let mut stdout = BufReader::new(child.stdout.take().unwrap());
    let mut line = String::new();
    stdout.read_line(&mut line).unwrap();
    let card: Value = serde_json::from_str(&line).unwrap();
    assert_eq!(card["name"], "Sabir demo");
    let url = card["supportedInterfaces"][0]["url"].as_str().unwrap();
    let address: std::net::SocketAddr = url.trim_start_matches("http://").trim_end_matches('/').parse().unwrap();
    assert!(address.ip().is_loopback() && std::net::TcpStream::connect(address).is_ok());
    assert!(Command::new("kill").args(["-INT", &child.id().to_string()]).status().unwrap().success());
    let mut rest = String::new();
    stdout.read_to_string(&mut rest).unwrap();
    assert_eq!((child.wait().unwrap().code(), &*rest), (Some(0), ""));
}

/// A member of a protobuf message that holds bytes.
pub(crate) fn field(tag: u8, bytes: impl AsRef<[u8]>) -> Vec<u8> {
    let bytes = bytes.as_ref();
    [&[tag << 3 | 2, u8::try_from(bytes.len()).unwrap()], bytes].concat()
}

/// `SendMessageRequest` with a message of one text part.
pub(crate) fn spoken(text: &str) -> Vec<u8> {
    let role_user = [4 << 3, 1];
    field(2, [&field(1, "m1")[..], &role_user, &field(5, field(1, text))].concat())
}
