//! What a client says about itself in headers, and the answer it gets for it: media types, errors of streams, cards.

use crate::dialects::office_server;
use crate::http_client::{HttpResponse, Request};
use crate::rpc_client::envelope;
use crate::stub_agent;
use crate::test_server::TestServer;
use serde_json::{Value, json};
use std::sync::{Arc, Mutex};

const CARD: &str = "/.well-known/agent-card.json";
const OLDER: &str = "/.well-known/agent.json";

fn send_v1(words: &str) -> Value {
    json!({"message": {"messageId": "m", "role": "ROLE_USER", "parts": [{"text": words}]}})
}

#[test]
fn accept_says_which_name_json_has() {
    let sabir = office_server();
    let asked = |path: &str, body: &str, accept: &str| {
        let request = if body.is_empty() { Request::get(path) } else { Request::post(path, body) };
        let request = if accept.is_empty() { request } else { request.with("Accept", accept) };
        let reply = sabir.ask(&request);
        assert!(reply.json().is_object(), "{}", reply.text());
        (reply.status, reply.header("Content-Type").unwrap().to_owned())
    };
    let (good, bad) = (send_v1("hello").to_string(), json!({"message": {}}).to_string());
    for (path, body, status) in
        [("/message:send", &*good, 200), ("/message:send", &*bad, 400), ("/tasks/nobody", "", 404)]
    {
        for accept in ["application/json", "application/json, text/plain;q=0.5", "text/event-stream"] {
            assert_eq!(asked(path, body, accept), (status, "application/json".into()), "{path} {accept}");
        }
        for accept in ["", "*/*", "application/a2a+json", "application/a2a+json, application/json", "application/*"] {
            assert_eq!(asked(path, body, accept), (status, "application/a2a+json".into()), "{path} {accept}");
        }
    }
}

#[test]
fn a_stream_that_fails_is_an_event_for_clients_that_read_nothing_else() {
    let sabir = office_server();
    let missing = json!({"id": "00000000-0000-7000-8000-000000000000"});
    let asked = |method: &str, version: &str, accept: &str| {
        let request = Request::post("/", envelope(method, &missing)).with("A2A-Version", version);
        sabir.ask(&if accept.is_empty() { request } else { request.with("Accept", accept) })
    };
    for (method, version, accept, events) in [
        ("SubscribeToTask", "1.0", "text/event-stream", true),
        ("SubscribeToTask", "1.0", "text/event-stream, application/json", false),
        ("SubscribeToTask", "1.0", "*/*", false),
        ("SubscribeToTask", "1.0", "", false),
        ("SendStreamingMessage", "1.0", "text/event-stream", true),
        ("GetTask", "1.0", "text/event-stream", false),
        ("tasks/resubscribe", "0.3", "text/event-stream", true),
        ("tasks/resubscribe", "0.3", "", true),
    ] {
        let reply = asked(method, version, accept);
        let media_type = if events { "text/event-stream" } else { "application/json" };
        assert_eq!((reply.status, reply.header("Content-Type")), (200, Some(media_type)), "{method} {accept}");
        let text = reply.text();
        let told: Value = if events {
            assert_eq!(text.matches("data:").count(), 1, "{text}");
            serde_json::from_str(text.trim().strip_prefix("data: ").unwrap()).unwrap()
        } else {
            serde_json::from_str(&text).unwrap()
        };
        assert!(told["error"]["code"].as_i64().unwrap() < -32000, "{method} {accept}: {told}");
        assert!(!told["id"].is_null(), "{method} {accept}: {told}");
    }
}

#[test]
fn endpoints_of_json_rpc_answer_in_json_rpc_whatever_was_wrong() {
    let sabir = office_server();
    let body = envelope("SendMessage", &send_v1("hello"));
    for path in ["/", "/a2a", "/_agent-native/a2a", "/agents/desk", "/agents/desk/a2a"] {
        let post = || Request::post(path, body.clone());
        for (request, status) in [
            (post().with("Content-Type", "text/plain"), 415),
            (post().without("Content-Type"), 415),
            (post().with("Host", "evil.example"), 421),
            (post().with("Origin", "https://evil.example"), 403),
            (Request::new("PUT", path), 405),
        ] {
            let reply = sabir.ask(&request);
            let told = reply.json();
            assert_eq!((reply.status, reply.header("Content-Type")), (status, Some("application/json")), "{told}");
            assert_eq!((&told["jsonrpc"], &told["id"]), (&json!("2.0"), &Value::Null), "{path}: {told}");
            assert_eq!(told["error"]["code"], -32600, "{path}: {told}");
        }
    }
    let told = sabir.ask(&Request::post("/agents/nobody", body.clone()));
    assert_eq!((told.status, &told.json()["jsonrpc"]), (404, &json!("2.0")), "{}", told.text());
    let rest = sabir.ask(&Request::post("/message:send", "{}").with("Content-Type", "text/plain"));
    assert_eq!((rest.status, rest.header("Content-Type")), (415, Some("application/a2a+json")), "REST keeps its own");
}

#[test]
fn a_slash_too_many_leads_to_the_same_place() {
    let sabir = office_server();
    let body = json!({"message": {"messageId": "m", "role": "ROLE_USER", "content": [{"text": "hello"}]}}).to_string();
    for path in
        ["//v1/message:send", "/agents/desk//v1/message:send", "//agents/desk//v1/message:send", "///v1/message:send"]
    {
        let reply = sabir.ask(&Request::post(path, body.clone()).without("A2A-Version"));
        assert_eq!(reply.status, 200, "{path}: {}", reply.text());
    }
    for path in ["//message:send", "/agents/desk//message:send"] {
        assert_eq!(sabir.ask(&Request::post(path, send_v1("hello").to_string())).status, 200, "{path}");
    }
    assert_eq!(sabir.ask(&Request::post("//", envelope("SendMessage", &send_v1("hello")))).status, 200);
    assert_eq!(sabir.ask(&Request::get(&format!("/{CARD}"))).status, 200);
}

/// What a server that can be reached under a name needs to be open.
const OPEN: &str = "[auth]\nopen = true\n";
const BOOKS: &str = "[[agent]]\nname = \"books\"\nkind = \"echo\"\ndefault = true\n";

fn card(sabir: &TestServer, path: &str, headers: &[(&str, &str)]) -> HttpResponse {
    let request =
        headers.iter().fold(Request::get(path).without("A2A-Version"), |r, (name, value)| r.with(name, *value));
    let reply = sabir.ask(&request);
    assert_eq!(reply.status, 200, "{}", reply.text());
    reply
}

#[test]
fn an_address_without_a_slash_stays_without_one() {
    for (public, url) in
        [("https://books.example", "https://books.example"), ("https://books.example/", "https://books.example/")]
    {
        let sabir = TestServer::start(&format!("[server]\npublic_url = \"{public}\"\n{OPEN}{BOOKS}"));
        let shown = card(&sabir, CARD, &[]).json();
        assert_eq!((&shown["url"], &shown["supportedInterfaces"][0]["url"]), (&json!(url), &json!(url)), "{shown}");
        let older = card(&sabir, OLDER, &[]).json();
        assert_eq!(older["url"], "https://books.example", "{older}");
    }
}

const ACCOUNT: &str = "[agent.card]\ndescription = \"Processes data analysis jobs\"\ninput_modes = [\"text\"]\noutput_modes = [\"text\"]\n\
    [agent.card.capabilities]\nstreaming = false\n[agent.xpr]\naccount = \"myagent\"\nprotocol = \"https\"\nowner = \"alice\"\n\
    registered_at = 1704067200\ntrust_score = 82\nkyc_level = 2\n";

#[test]
fn an_agent_with_an_account_shows_its_card_as_xpr_has_it() {
    let sabir =
        TestServer::start(&format!("[server]\npublic_url = \"https://agent.example.com\"\n{OPEN}{BOOKS}{ACCOUNT}"));
    let expected = json!({
        "name": "books", "description": "Processes data analysis jobs", "url": "https://agent.example.com",
        "version": "1.0.0",
        "capabilities": {"streaming": false, "pushNotifications": false, "stateTransitionHistory": false},
        "defaultInputModes": ["text"], "defaultOutputModes": ["text"],
        "skills": [{"id": "books", "name": "books", "description": "Processes data analysis jobs", "tags": ["books"]}],
        "xpr:account": "myagent", "xpr:protocol": "https", "xpr:trustScore": 82, "xpr:kycLevel": 2,
        "xpr:registeredAt": 1704067200, "xpr:owner": "alice",
    });
    assert_eq!(card(&sabir, OLDER, &[]).json(), expected);
    assert_eq!(card(&sabir, OLDER, &[("X-XPR-Account", "bob")]).json(), expected);
    // A version says more than the other headers.
    for version in ["0.3", "0.2.6", "nonsense", "1.0"] {
        let shown = card(&sabir, OLDER, &[("X-XPR-Account", "bob"), ("A2A-Version", version)]).json();
        assert_eq!(
            (&shown["protocolVersion"], &shown["xpr:account"]),
            (&json!("0.3.0"), &json!("myagent")),
            "{version}"
        );
    }
    let v01 = card(&sabir, OLDER, &[("X-XPR-Account", "bob"), ("A2A-Version", "0.1")]).json();
    assert!(v01["authentication"].is_object() && v01.get("protocolVersion").is_none(), "{v01}");
    assert_eq!(v01["capabilities"]["stateTransitionHistory"], false, "{v01}");
}

#[test]
fn each_form_at_the_older_path_has_its_own_validator() {
    let sabir = TestServer::start(&format!("{BOOKS}{ACCOUNT}"));
    let forms: [&[(&str, &str)]; 3] = [&[], &[("A2A-Version", "0.3")], &[("A2A-Version", "0.1")]];
    let tags: Vec<String> = forms.iter().map(|f| card(&sabir, OLDER, f).header("ETag").unwrap().to_owned()).collect();
    for (n, form) in forms.iter().enumerate() {
        for (m, tag) in tags.iter().enumerate() {
            let request = form.iter().fold(Request::get(OLDER).without("A2A-Version"), |r, (k, v)| r.with(k, *v));
            let reply = sabir.ask(&request.with("If-None-Match", tag.as_str()));
            assert_eq!(reply.status, if n == m { 304 } else { 200 }, "{form:?} {tag}");
            assert_eq!(reply.header("Vary"), Some("a2a-version, x-xpr-account, x-xpr-signature"));
        }
    }
}

#[test]
fn an_agent_that_stands_in_for_agent_native_shows_its_card_as_that_has_it() {
    let config = "[server]\npublic_url = \"https://analytics.example.com\"\n[auth]\naccept = [\"legacy_key\"]\n[auth.legacy_key]\n\
        env = \"TEST_LEGACY_KEY\"\n[[agent]]\nname = \"analytics\"\nkind = \"echo\"\ndefault = true\n[agent.card]\n\
        name = \"Analytics Agent\"\ndescription = \"Runs analytics queries\"\nlegacy_form = \"agent-native\"\n\
        [[agent.card.skills]]\nid = \"run-query\"\nname = \"Run Query\"\ndescription = \"Execute a SQL query\"\n\
        tags = [\"analytics\", \"sql\"]\nexamples = [\"Show me signups\"]\n";
    let home = crate::test_server::ServerDirectory::new(config);
    let mut command = home.command();
    command.env("TEST_LEGACY_KEY", "hunter2-hunter2-hunter2");
    let sabir = TestServer::run(&home, command);
    let expected = json!({
        "name": "Analytics Agent", "description": "Runs analytics queries",
        "url": "https://analytics.example.com/_agent-native/a2a", "version": "1.0.0", "protocolVersion": "0.3",
        "capabilities": {"streaming": true, "pushNotifications": false, "stateTransitionHistory": true},
        "skills": [{"id": "run-query", "name": "Run Query", "description": "Execute a SQL query",
            "tags": ["analytics", "sql"], "examples": ["Show me signups"]}],
        "securitySchemes": {"apiKey": {"type": "http", "scheme": "bearer"}}, "security": [{"apiKey": []}],
    });
    assert_eq!(card(&sabir, CARD, &[]).json(), expected);
    assert_eq!(card(&sabir, OLDER, &[]).json(), expected);
    let v1 = card(&sabir, CARD, &[("A2A-Version", "1.0")]).json();
    assert!(v1["supportedInterfaces"].is_array() && v1.get("url").is_none(), "{v1}");
    assert!(card(&sabir, CARD, &[("A2A-Version", "0.3")]).json()["supportedInterfaces"].is_array());
}

#[test]
fn a_file_reaches_an_agent_whose_modes_are_words() {
    let file = json!({"message": {"role": "user", "parts": [
        {"type": "text", "text": "Please review this code for security issues"},
        {"type": "file", "file": {"name": "handler.py", "mimeType": "text/x-python", "bytes": "aW1wb3J0IG9z"}}]}});
    let note = json!({"message": {"role": "user", "parts": [
        {"type": "file", "file": {"mimeType": "text/plain", "bytes": "aGk="}}]}});
    let picture = json!({"message": {"role": "user", "parts": [
        {"type": "file", "file": {"mimeType": "image/png", "bytes": "aGk="}}]}});
    for (modes, params, taken) in [
        ("\"text\", \"file\"", &file, true),
        ("\"text\", \"file\"", &picture, true),
        ("\"text\"", &note, true),
        ("\"text\"", &picture, false),
        ("\"data\"", &note, false),
    ] {
        let sabir = TestServer::start(&format!("{BOOKS}[agent.card]\ninput_modes = [{modes}]\n"));
        let mut params = params.clone();
        params["id"] = json!("task-abc-123");
        let reply = sabir.ask(&Request::post("/", envelope("tasks/send", &params)).without("A2A-Version")).json();
        assert_eq!(reply["result"]["status"]["state"] == "completed", taken, "{modes}: {reply}");
        assert_eq!(reply["error"]["code"] == -32005, !taken, "{modes}: {reply}");
    }
}

#[test]
fn a_message_names_no_account_that_did_not_sign_it() {
    let sabir = office_server();
    let claims =
        [r#"{"xpr:callerAccount": "bob", "xpr:jobId": 42}"#, r#"{"xpr:caller\u0041ccount": "bob", "xpr:jobId": 42}"#];
    for claim in claims {
        let xpr = format!(
            r#"{{"jsonrpc":"2.0","id":1,"method":"message/send","params":{{"message":{{"role":"user","parts":[{{"type":"text","text":"words"}}]}},"metadata":{claim}}}}}"#
        );
        let sent = sabir.ask(&Request::post("/agents/desk/a2a", xpr).without("A2A-Version")).json();
        let id = sent["result"]["id"].as_str().unwrap_or_else(|| panic!("{sent}")).to_owned();
        let v1 = format!(
            r#"{{"jsonrpc":"2.0","id":1,"method":"SendMessage","params":{{"message":{{"messageId":"m","role":"ROLE_USER","parts":[{{"text":"words"}}],"metadata":{claim}}}}}}}"#
        );
        let sent = sabir.ask(&Request::post("/agents/desk", v1)).json();
        let other = sent["result"]["task"]["id"].as_str().unwrap_or_else(|| panic!("{sent}")).to_owned();
        for id in [id, other] {
            let task = sabir.ask(&Request::post("/agents/desk", envelope("GetTask", &json!({"id": id})))).json();
            assert_eq!(task["result"]["history"][0]["metadata"], json!({"xpr:jobId": 42}), "{task}");
        }
    }
}

#[test]
fn the_card_of_the_first_version_says_where_credentials_are_to_be_had() {
    let jwt = "[auth]\naccept = [\"jwt\"]\n[auth.jwt]\nissuer = \"https://login.example.com/\"\naudience = \"me\"\n";
    let discovery = "https://login.example.com/.well-known/openid-configuration";
    let oauth = "[auth.jwt.oauth]\ntoken_url = \"https://login.example.com/token\"\n";
    for (more, scheme, credentials) in [
        ("", "openIdConnect", json!(discovery)),
        (oauth, "oauth2", json!(discovery)),
        // Where keys come from elsewhere, the issuer may have no such document.
        (&format!("jwks_url = \"https://keys.example.com/jwks\"\n{oauth}"), "oauth2", Value::Null),
    ] {
        let sabir = TestServer::start(&format!("{BOOKS}{jwt}{more}"));
        let older = sabir.ask(&Request::get(OLDER).with("A2A-Version", "0.1")).json();
        let expected = (&json!([scheme]), &credentials);
        assert_eq!((&older["authentication"]["schemes"], &older["authentication"]["credentials"]), expected, "{older}");
        let card = sabir.ask(&Request::get(CARD)).json();
        let scheme = &card["securitySchemes"]["jwt"]["oauth2SecurityScheme"];
        if scheme.is_object() {
            assert_eq!(scheme["oauth2MetadataUrl"], credentials, "{card}");
        }
    }
}

#[test]
fn the_metadata_of_a_request_in_the_first_version_reaches_the_agent() {
    let listener = std::net::TcpListener::bind("127.0.0.1:0").unwrap();
    let heard: Arc<Mutex<Value>> = Arc::default();
    let (far, card) = (heard.clone(), stub_agent::card(&format!("http://{}", listener.local_addr().unwrap())));
    let url = stub_agent::serve_at(listener, move |asked| {
        if asked.path.contains("/.well-known/") {
            return (200, "application/json", card.clone());
        }
        let call = asked.json();
        *far.lock().unwrap() = call["params"]["message"]["metadata"].clone();
        let task = json!({"id": "t", "contextId": "c", "status": {"state": "TASK_STATE_COMPLETED"}});
        (200, "application/json", json!({"jsonrpc": "2.0", "id": call["id"], "result": {"task": task}}).to_string())
    });
    let sabir =
        TestServer::start(&format!("[[agent]]\nname = \"far\"\ndefault = true\nkind = \"a2a\"\nurl = \"{url}\"\n"));
    let parts = json!([{"type": "text", "text": "review"}]);
    let send = |id: &str, own: Value, beside: Value| {
        let mut message = json!({"role": "user", "parts": parts});
        message["metadata"] = own;
        let params = json!({"id": id, "message": message, "metadata": beside});
        let request = Request::post("/", envelope("tasks/send", &params)).without("A2A-Version");
        let answer = sabir.ask(&request).json();
        assert_eq!(answer["result"]["status"]["state"], "completed", "{answer}");
        let task = sabir.ask(&Request::post("/", envelope("GetTask", &json!({"id": id})))).json();
        let mut agent = heard.lock().unwrap().clone();
        // Where the message came from, which every message of a hub says.
        agent.as_object_mut().unwrap().remove("urn:sabir:ext:lineage:v1");
        (agent, task["result"]["history"][0]["metadata"].clone(), answer)
    };
    let beside = json!({"priority": "high", "ticket": {"n": 7}});
    let (agent, log, answer) = send("m-1", Value::Null, beside.clone());
    assert_eq!((&agent, &log), (&beside, &beside), "{answer}");
    assert!(answer["result"].get("metadata").is_none(), "the schema has it in no answer: {answer}");
    // Of two members of one name the message's own stays.
    let (agent, ..) = send("m-2", json!({"priority": "low", "own": true}), beside);
    assert_eq!(agent, json!({"priority": "low", "own": true, "ticket": {"n": 7}}));
    let (agent, ..) = send("m-3", Value::Null, json!({}));
    assert_eq!(agent, json!({}));
}

#[test]
fn a_task_that_is_not_there_is_named_as_the_first_tutorials_have_it() {
    let sabir = office_server();
    for path in ["/", "/a2a"] {
        let body = r#"{"jsonrpc":"2.0","id":"req-1","method":"tasks/get","params":{"id":"task-unknown"}}"#;
        let told = sabir.ask(&Request::post(path, body).without("A2A-Version")).json();
        let message = if path == "/" { json!("Task not found") } else { told["error"]["message"].clone() };
        assert_eq!((&told["error"]["code"], &told["error"]["message"]), (&json!(-32001), &message), "{told}");
        if path == "/" {
            assert_eq!(told["error"]["data"], json!({"taskId": "task-unknown"}), "{told}");
        }
    }
}

#[test]
fn no_history_is_what_a_query_of_zero_asks_for_in_0_3() {
    let sabir = office_server();
    let body = json!({"message": {"messageId": "m", "role": "ROLE_USER", "content": [{"text": "words"}]}}).to_string();
    let sent = sabir.ask(&Request::post("/agents/desk/v1/message:send", body).without("A2A-Version")).json();
    let id = sent["task"]["id"].as_str().unwrap_or_else(|| panic!("{sent}"));
    let history = |query: &str| {
        let reply = sabir.ask(&Request::get(&format!("/agents/desk/v1/tasks/{id}{query}")).without("A2A-Version"));
        reply.json()["history"].as_array().map_or(0, Vec::len)
    };
    assert_eq!((history("?historyLength=0"), history("")), (0, 1));
}

/// Bytes that no text holds.
const REAL_BYTES: &str = "AAEC/w==";
/// The base64 text of them in base64, as the SDKs for Go, Java and Python put it there.
const TWICE: &str = "QUFFQy93PT0=";

#[test]
fn real_bytes_come_through_the_rest_of_0_3_for_every_sdk() {
    let sabir = TestServer::start(BOOKS);
    for (user_agent, written) in [
        ("Go-http-client/1.1", TWICE),
        ("Java-http-client/21.0.8", TWICE),
        ("python-httpx/0.28.1", TWICE),
        ("", TWICE),
        ("node", REAL_BYTES),
    ] {
        let body = json!({"message": {"messageId": "m", "role": "ROLE_USER", "content":
            [{"file": {"fileWithBytes": written, "mimeType": "image/png"}}]}});
        let request = Request::post("/v1/message:send", body.to_string()).without("A2A-Version");
        let request = if user_agent.is_empty() { request } else { request.with("User-Agent", user_agent) };
        let sent = sabir.ask(&request).json();
        let id = sent["task"]["id"].as_str().unwrap_or_else(|| panic!("{sent}"));
        assert_eq!(sent["task"]["history"][0]["content"][0]["file"]["fileWithBytes"], written, "{user_agent}: {sent}");
        let seen = sabir.ask(&Request::get(&format!("/tasks/{id}"))).json();
        assert_eq!(seen["history"][0]["parts"][0]["raw"], REAL_BYTES, "{user_agent}: {seen}");
    }
}

/// An agent over the REST of 0.3 as the SDK for Java serves it: a message with a member that its proto does not know,
/// or with the word "bad", is refused by the class of an exception, under a status of the test's choice. The last file
/// it was sent is its answer.
fn java_agent(status: u16) -> String {
    let at = Arc::new(Mutex::new(String::new()));
    let place = at.clone();
    let url = stub_agent::serve(move |asked| {
        if asked.path.contains("/.well-known/") {
            let card = json!({"protocolVersion": "0.3.0", "name": "Java", "description": "d", "version": "1",
                "url": *place.lock().unwrap(), "preferredTransport": "HTTP+JSON", "capabilities": {},
                "defaultInputModes": ["*/*"], "defaultOutputModes": ["*/*"],
                "skills": [{"id": "s", "name": "s", "description": "s", "tags": ["s"]}]});
            return (200, "application/json", card.to_string());
        }
        let content = asked.json()["message"]["content"].clone();
        let has_name = content.as_array().into_iter().flatten().any(|part| part["file"].get("name").is_some());
        if has_name || content.to_string().contains("bad") {
            let refusal = json!({"error": "io.a2a.spec.InvalidParamsError", "message": "Failed to parse message"});
            return (status, "application/json", refusal.to_string());
        }
        let files: Vec<&Value> = content.as_array().unwrap().iter().filter(|part| part.get("file").is_some()).collect();
        let parts = if files.is_empty() { json!([{"text": "fine"}]) } else { json!(files) };
        let task = json!({"task": {"id": "t", "contextId": "c", "status": {"state": "TASK_STATE_COMPLETED"},
            "artifacts": [{"artifactId": "a", "parts": parts}]}});
        (200, "application/json", task.to_string())
    });
    at.lock().unwrap().clone_from(&url);
    url
}

#[test]
fn refusals_of_one_callers_input_leave_the_agent_to_the_others() {
    for status in [200, 422, 500] {
        let url = java_agent(status);
        let sabir = TestServer::start(&format!(
            "[[agent]]\nname = \"java\"\nkind = \"a2a\"\ndefault = true\nurl = \"{url}\"\n"
        ));
        let send = |words: &str| {
            let task = sabir.rpc("/", "SendMessage", &send_v1(words))["result"]["task"]["status"].take();
            (task["state"].as_str().unwrap_or_default().to_owned(), task.to_string())
        };
        // More than the failures that open a circuit breaker.
        for _ in 0..6 {
            let (state, text) = send("bad");
            assert_eq!(state, "TASK_STATE_FAILED", "{status}: {text}");
            assert!(text.contains("refused") && text.contains("Failed to parse message"), "{status}: {text}");
            assert!(!text.contains("not known"), "it is known what became of it: {text}");
        }
        let (state, text) = send("good");
        assert_eq!(state, "TASK_STATE_COMPLETED", "{status}: {text}");
    }
}

#[test]
fn a_file_with_a_name_goes_to_a_java_agent_and_comes_back_whole() {
    let url = java_agent(422);
    let sabir =
        TestServer::start(&format!("[[agent]]\nname = \"java\"\nkind = \"a2a\"\ndefault = true\nurl = \"{url}\"\n"));
    let message = json!({"message": {"messageId": "m", "role": "ROLE_USER", "parts":
        [{"raw": REAL_BYTES, "filename": "a.bin", "mediaType": "application/octet-stream"}]}});
    let told = sabir.rpc("/", "SendMessage", &message);
    let task = &told["result"]["task"];
    assert_eq!(task["status"]["state"], "TASK_STATE_COMPLETED", "{told}");
    assert_eq!(task["artifacts"][0]["parts"][0]["raw"], REAL_BYTES, "{told}");
}
