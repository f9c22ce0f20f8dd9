//! Streamed text stays one text for every reader, and an agent is given what was said before.

use crate::command_runner::CommandDirectory;
use crate::http_client::Request;
use crate::rpc_client::{message, send_params, state};
use crate::stub_agent::{self, StubRequest, StubResponse};
use crate::test_server::{ServerDirectory, TestServer};
use serde_json::{Value, json};
use std::io::{BufRead as _, BufReader, Write as _};
use std::net::TcpListener;
use std::process::Stdio;
use std::sync::{Arc, Mutex};
use std::thread;
use std::time::{Duration, Instant};

/// The chunks that a model would stream for one word.
const PIECES: [&str; 3] = ["un", "believ", "able"];

/// An agent that streams one word in three chunks, and then completes or asks.
fn word_agent(name: &str, ending: &str) -> String {
    let step = |(at, text): (usize, &str)| {
        format!(
            "{{ artifact = {{ id = \"a\", text = \"{text}\", append = {}, last_chunk = {} }} }}, {{ wait_ms = 5 }}",
            at > 0,
            at == 2
        )
    };
    let steps: Vec<String> = PIECES.into_iter().enumerate().map(step).collect();
    format!(
        "[[agent]]\nname = \"{name}\"\nkind = \"script\"\n[agent.card]\ndescription = \"Says a word\"\n[[agent.rule]]\ndo = [{}, {ending}]\n",
        steps.join(", ")
    )
}

/// What a model endpoint was asked, in order.
type RequestBodies = Arc<Mutex<Vec<Value>>>;

fn frame(delta: &Value) -> String {
    format!("data: {}\n\n", json!({"choices": [{"index": 0, "delta": delta}]}))
}

/// A model that says one word in three deltas; it uses the tool `ask_word` first where a tool is offered and not yet used.
fn model(bodies: &RequestBodies) -> String {
    let bodies = bodies.clone();
    stub_agent::serve(move |asked: &StubRequest| -> StubResponse {
        let body = asked.json();
        let last = body["messages"].as_array().and_then(|all| all.last().cloned()).unwrap_or_default();
        let tool = body["tools"][0]["function"]["name"].as_str().map(str::to_owned);
        bodies.lock().unwrap().push(body);
        let text = match tool.filter(|_| last["role"] != "tool") {
            Some(tool) => {
                let call = json!({"name": tool, "arguments": "{\"message\":\"go\",\"text\":\"go\"}"});
                let call = json!([{"index": 0, "id": "call_1", "type": "function", "function": call}]);
                frame(&json!({"role": "assistant", "tool_calls": call}))
            }
            None => PIECES.iter().map(|piece| frame(&json!({"content": piece}))).collect(),
        };
        (200, "text/event-stream", text + "data: [DONE]\n\n")
    })
}

fn endpoint_agent(url: &str, more: &str) -> String {
    format!(
        "[[agent]]\nname = \"clerk\"\nkind = \"openai\"\nurl = \"{url}/v1\"\n[agent.openai]\nmodel = \"m\"\nsystem = \"Be brief.\"\n{more}"
    )
}

fn parts(task: &Value) -> Vec<String> {
    let parts = task["artifacts"].as_array().into_iter().flatten().flat_map(|one| one["parts"].as_array().unwrap());
    parts.map(|part| part["text"].as_str().unwrap_or_default().to_owned()).collect()
}

/// Calls a tool of `sabir mcp` and gives its text.
fn mcp_text(desk: &CommandDirectory, agent: &str) -> String {
    let call =
        |id: u32, method: &str, params: Value| json!({"jsonrpc": "2.0", "id": id, "method": method, "params": params});
    let hello =
        json!({"protocolVersion": "2025-06-18", "capabilities": {}, "clientInfo": {"name": "t", "version": "1"}});
    let lines = [
        call(1, "initialize", hello),
        json!({"jsonrpc": "2.0", "method": "notifications/initialized"}),
        call(2, "tools/call", json!({"name": "a2a_send_message", "arguments": {"agent": agent, "text": "go"}})),
    ];
    let mut child = desk.command(&["mcp", "--allow", "127.0.0.0/8"]).stdin(Stdio::piped()).spawn().unwrap();
    let mut stdin = child.stdin.take().unwrap();
    lines.iter().for_each(|line| writeln!(stdin, "{line}").unwrap());
    let answers = BufReader::new(child.stdout.take().unwrap()).lines().map_while(Result::ok);
    let answer = answers.filter_map(|line| serde_json::from_str::<Value>(&line).ok()).find(|one| one["id"] == 2);
    // The server ends with its input, so the input stays open until the answer is there.
    drop(stdin);
    assert!(child.wait().unwrap().success());
    let answer = answer.expect("an answer");
    answer["result"]["structuredContent"]["text"]
        .as_str()
        .map(str::to_owned)
        .unwrap_or_else(|| answer["result"].to_string())
}

#[test]
fn three_chunks_are_one_word_for_every_reader() {
    let bodies = RequestBodies::default();
    let url = model(&bodies);
    let asks = word_agent("asker", "{ ask_input = \"Which?\" }");
    let echo = "[[agent]]\nname = \"echo\"\nkind = \"echo\"\ndefault = true\nmentions = [\"word\"]\n";
    let tools = "[agent.openai.tools]\nagents = [\"word\"]\n";
    let config = [echo, &word_agent("word", "{ complete = \"\" }"), &asks, &endpoint_agent(&url, tools)].concat();
    let sabir = TestServer::start(&config);

    let mut stream = sabir.stream("/agents/word", "SendStreamingMessage", &send_params("go"));
    let chunks: Vec<String> = stream.rest().iter().filter_map(|frame| frame.chunk().map(str::to_owned)).collect();
    assert_eq!(chunks, PIECES, "a client that follows the stream sees the chunks");
    let task = sabir.send("/agents/word", &send_params("go"));
    assert_eq!((state(&task), parts(&task)), ("TASK_STATE_COMPLETED", vec!["unbelievable".to_owned()]));
    assert_eq!(parts(&sabir.get("/agents/word", &task["id"])), ["unbelievable"], "the stored task");

    let mentioned = parts(&sabir.send("/", &send_params("@word what is it?")));
    assert!(mentioned.iter().any(|text| text.contains("unbelievable")), "a mention: {mentioned:?}");

    let answer = sabir.send("/agents/clerk", &send_params("Ask the word"));
    assert_eq!(parts(&answer), ["unbelievable"], "the answer of a model");
    let asked = bodies.lock().unwrap().clone();
    let tool = asked[1]["messages"].as_array().unwrap().iter().find(|one| one["role"] == "tool").cloned();
    assert_eq!(tool.unwrap_or_default()["content"], "unbelievable", "the result of a tool: {asked:#?}");

    let desk = CommandDirectory::new();
    let at = |name: &str| format!("http://{}/agents/{name}", sabir.address);
    let said = desk.run(&["send", "-a", &at("word"), "go"]);
    assert!(said.stdout.contains("unbelievable"), "sabir send: {said:?}");
    assert_eq!(mcp_text(&desk, &at("word")), "unbelievable", "a tool of sabir mcp");

    let waiting = sabir.send("/agents/asker", &send_params("go"));
    assert_eq!(state(&waiting), "TASK_STATE_INPUT_REQUIRED");
    let data = sabir.home.data();
    let inbox = desk.run(&["inbox", "show", waiting["id"].as_str().unwrap(), "--data", data.to_str().unwrap()]);
    assert!(inbox.stdout.contains("unbelievable"), "the inbox: {inbox:?}");
}

/// A model that says so many words, with a pause after each.
fn slow_model(words: usize, pause: Duration) -> String {
    let listener = TcpListener::bind("127.0.0.1:0").unwrap();
    let url = format!("http://{}", listener.local_addr().unwrap());
    thread::spawn(move || {
        for mut stream in listener.incoming().map_while(Result::ok) {
            stub_agent::read_request(&stream).unwrap();
            let head = "HTTP/1.1 200 OK\r\ncontent-type: text/event-stream\r\nconnection: close\r\n\r\n";
            stream.write_all(head.as_bytes()).unwrap();
            for n in 0..words {
                if stream.write_all(frame(&json!({"content": format!("w{n} ")})).as_bytes()).is_err() {
                    break;
                }
                // The speed of the model.
                thread::sleep(pause);
            }
            drop(stream.write_all(b"data: [DONE]\n\n"));
        }
    });
    url
}

#[test]
fn four_hundred_words_are_few_events_and_one_part() {
    let url = slow_model(400, Duration::from_millis(20));
    let sabir = TestServer::start(&endpoint_agent(&url, ""));
    let begun = Instant::now();
    let mut stream = sabir.stream("/agents/clerk", "SendStreamingMessage", &send_params("go"));
    let (mut events, mut text, mut first) = (0, String::new(), None);
    while let Some(frame) = stream.next() {
        events += 1;
        if let Some(chunk) = frame.chunk() {
            first.get_or_insert_with(|| (chunk.to_owned(), begun.elapsed()));
            text += chunk;
        }
    }
    let (chunk, after) = first.unwrap();
    assert_eq!(chunk, "w0 ", "the first word does not wait for the second");
    assert!(after < Duration::from_secs(2), "the first word came after {after:?}");
    assert!((20..=170).contains(&events), "{events} events");
    let whole: String = (0..400).map(|n| format!("w{n} ")).collect();
    assert_eq!(text, whole);
    let listed = sabir.result("/agents/clerk", "ListTasks", &json!({"includeArtifacts": true}));
    assert_eq!(parts(&listed["tasks"][0]), [whole]);
}

/// The roles and contents that the model was told, without the system prompt.
fn model_messages(body: &Value) -> Vec<(String, String)> {
    let said = body["messages"].as_array().unwrap().iter().filter(|one| one["role"] != "system");
    said.map(|one| (one["role"].as_str().unwrap().to_owned(), one["content"].as_str().unwrap_or("").to_owned()))
        .collect()
}

fn pair(role: &str, content: &str) -> (String, String) {
    (role.to_owned(), content.to_owned())
}

#[test]
fn a_model_knows_the_conversation_of_its_owner_also_after_a_restart() {
    let bodies = RequestBodies::default();
    let url = model(&bodies);
    let home = ServerDirectory::new(&format!("[auth]\naccept = [\"api_key\"]\n{}", endpoint_agent(&url, "")));
    let sabir = TestServer::start_at(&home);
    let desk = CommandDirectory::new();
    let files = [home.path("sabir.toml"), home.data()].map(|path| path.to_str().unwrap().to_owned());
    // Made while the server runs, and used at once.
    let key = |owner: &str| {
        let made =
            desk.run(&["key", "create", "--owner", owner, "-o", "json", "--config", &files[0], "--data", &files[1]]);
        made.json()["key"].as_str().unwrap_or_else(|| panic!("{made:?}")).to_owned()
    };
    let (ann, bob) = (key("ann"), key("bob"));
    let send = |sabir: &TestServer, key: &str, text: &str| {
        let mut said = send_params(text);
        said["message"]["contextId"] = json!("a-context-that-both-chose");
        let request = Request::post("/agents/clerk/message:send", said.to_string()).with("X-API-Key", key);
        let reply = sabir.ask(&request.with("Content-Type", "application/json"));
        assert_eq!(reply.status, 200, "{}", reply.text());
        bodies.lock().unwrap().last().cloned().unwrap()
    };
    let first = send(&sabir, &ann, "My name is Ann");
    assert_eq!(first["messages"][0], json!({"role": "system", "content": "Be brief."}));
    assert_eq!(model_messages(&first), [pair("user", "My name is Ann")]);
    let known = [pair("user", "My name is Ann"), pair("assistant", "unbelievable")];
    let second = model_messages(&send(&sabir, &ann, "What is my name?"));
    assert_eq!(second, [&known[..], &[pair("user", "What is my name?")]].concat());
    assert_eq!(
        model_messages(&send(&sabir, &bob, "Who am I?")),
        [pair("user", "Who am I?")],
        "another owner's conversation"
    );

    let home = sabir.kill();
    let sabir = TestServer::start_at(&home);
    let third = model_messages(&send(&sabir, &ann, "And now?"));
    let known = [&second[..], &[pair("assistant", "unbelievable"), pair("user", "And now?")]].concat();
    assert_eq!(third, known);
}

#[test]
fn an_endpoint_is_given_the_conversation_unless_it_is_switched_off() {
    let bodies = RequestBodies::default();
    let seen = bodies.clone();
    let url = stub_agent::serve(move |asked| {
        seen.lock().unwrap().push(asked.json());
        (200, "application/json", json!({"text": "noted"}).to_string())
    });
    let agent =
        |name: &str, more: &str| format!("[[agent]]\nname = \"{name}\"\nkind = \"http\"\nurl = \"{url}\"\n{more}");
    let off = "[agent.http]\nconversation_messages_max = 0\n";
    let sabir = TestServer::start(&(agent("on", "") + &agent("off", off)));
    let send = |at: &str, text: &str| {
        let mut said = message(text);
        said["contextId"] = json!("c");
        sabir.send(at, &json!({"message": said}));
        bodies.lock().unwrap().last().cloned().unwrap()
    };
    assert_eq!(send("/agents/on", "one")["conversation"], Value::Null);
    let second = send("/agents/on", "two");
    let texts: Vec<&str> = second["conversation"]
        .as_array()
        .unwrap()
        .iter()
        .map(|one| one["parts"][0]["text"].as_str().unwrap())
        .collect();
    assert_eq!(texts, ["one", "noted"]);
    assert_eq!(second["text"], "two");
    send("/agents/off", "one");
    assert_eq!(send("/agents/off", "two")["conversation"], Value::Null);
}

/// Sends a text in a context; how long the caller waits.
fn send_in(sabir: &TestServer, path: &str, context: &str, text: &str) -> Duration {
    let mut said = message(text);
    said["contextId"] = json!(context);
    let begun = Instant::now();
    sabir.send(path, &json!({"message": said}));
    begun.elapsed()
}

#[test]
#[ignore = "fills a context with 10,000 tasks; ./test --full runs it"]
fn a_context_of_ten_thousand_tasks_is_read_as_fast_as_a_short_one() {
    let bodies = RequestBodies::default();
    let url = model(&bodies);
    let home = ServerDirectory::new(&format!(
        "[[agent]]\nname = \"echo\"\nkind = \"echo\"\ndefault = true\n{}",
        endpoint_agent(&url, "")
    ));
    let sabir = TestServer::start_at(&home);
    // Most tasks of the context are another agent's: they are not told, and must not be read one by one either.
    thread::scope(|scope| {
        for _ in 0..8 {
            scope.spawn(|| {
                for _ in 0..1_000 {
                    send_in(&sabir, "/", "long", "noise");
                }
            });
            scope.spawn(|| {
                for n in 0..250 {
                    send_in(&sabir, "/agents/clerk", "long", &format!("old {n}"));
                }
            });
        }
    });
    let median = |context: &str| {
        let mut took: Vec<Duration> = (0..15).map(|_| send_in(&sabir, "/agents/clerk", context, "new")).collect();
        took.sort();
        took[7]
    };
    let (short, long) = (median("short"), median("long"));
    println!("a turn takes {short:?} in a short context, {long:?} in one of 10,000 tasks");
    assert!(long < short * 3 + Duration::from_millis(20), "{long:?} after {short:?}");
    let told = model_messages(bodies.lock().unwrap().last().unwrap());
    assert_eq!((told.len(), &told[40]), (41, &pair("user", "new")));
}

#[test]
fn no_more_of_a_long_context_is_told_than_the_limit() {
    let bodies = RequestBodies::default();
    let url = model(&bodies);
    let home = ServerDirectory::new(&format!(
        "[[agent]]\nname = \"echo\"\nkind = \"echo\"\ndefault = true\n{}",
        endpoint_agent(&url, "")
    ));
    let sabir = TestServer::start_at(&home);
    let send = |text: &str| send_in(&sabir, "/agents/clerk", "long", text);
    for n in 0..60 {
        send(&format!("message {n}"));
    }
    let told = model_messages(bodies.lock().unwrap().last().unwrap());
    assert_eq!(told.len(), 41, "forty messages of the conversation, and the new one");
    assert_eq!((&told[38], &told[40]), (&pair("user", "message 58"), &pair("user", "message 59")));
}
