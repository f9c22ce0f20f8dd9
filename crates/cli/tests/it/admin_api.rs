//! The API for operators: who may use it, what it refuses, and that it does what the commands do.

use crate::command_runner::{CommandDirectory, CommandOutput};
use crate::http_client::{EventStream, HttpResponse, Request, SseEvent};
use crate::rpc_client::{DESK_PATH, envelope, send_params};
use crate::stub_agent;
use crate::test_server::{AGENTS, ServerDirectory, TestServer, eventually};
use serde_json::{Value, json};
use std::fs::File;
use std::sync::{Arc, Mutex};
use std::thread;
use std::time::Duration;

const ECHO: &str = "[[agent]]\nname = \"demo\"\nkind = \"echo\"\ndefault = true\n";

/// A server with one key that may change and one that may look.
struct ApiFixture {
    sabir: TestServer,
    desk: CommandDirectory,
    admin: String,
    reader: String,
}

/// Makes a key on the files of a server.
fn make_key(desk: &CommandDirectory, home: &ServerDirectory, flags: &[&str]) -> Value {
    let data = home.data().display().to_string();
    let made = desk.run(&[&["key", "create", "-o", "json", "--data", &data], flags].concat());
    made.expect_success();
    made.json()
}

fn key_text(made: &Value) -> String {
    made["key"].as_str().unwrap().to_owned()
}

impl ApiFixture {
    fn new(config: &str) -> Self {
        Self::at(&ServerDirectory::new(config))
    }

    fn at(home: &Arc<ServerDirectory>) -> Self {
        let desk = CommandDirectory::new();
        let admin = key_text(&make_key(&desk, home, &["--scope", "admin", "--name", "operator"]));
        let reader = key_text(&make_key(&desk, home, &["--scope", "admin.read"]));
        Self { sabir: TestServer::start_at(home), desk, admin, reader }
    }

    fn ask(&self, key: &str, request: Request) -> HttpResponse {
        self.sabir.ask(&request.with("Authorization", format!("Bearer {key}")))
    }

    fn get(&self, path: &str) -> HttpResponse {
        self.ask(&self.reader, Request::get(&format!("/api/v1{path}")))
    }

    fn post(&self, path: &str, body: &Value) -> HttpResponse {
        self.ask(&self.admin, Request::post(&format!("/api/v1{path}"), body.to_string()))
    }

    fn keys(&self) -> Vec<Value> {
        self.get("/keys").json()["keys"].as_array().unwrap().clone()
    }

    /// Runs a command against the server's URL.
    fn remote(&self, key: &str, arguments: &[&str]) -> CommandOutput {
        let url = format!("http://{}", self.sabir.address);
        let mut command = self.desk.command(&[arguments, &["--server", &url]].concat());
        command.env("SABIR_ADMIN_KEY", key);
        crate::command_runner::wait_for_exit(command.spawn().unwrap())
    }
}

/// Checks that a response is a problem with this status and this code.
#[track_caller]
fn expect_problem(response: &HttpResponse, status: u16, code: &str) {
    assert_eq!(response.status, status, "{}", response.text());
    assert_eq!(response.header("Content-Type"), Some("application/problem+json"));
    let problem = response.json();
    assert_eq!((&problem["code"], &problem["status"]), (&json!(code), &json!(status)), "{problem}");
    assert!(!problem["detail"].as_str().unwrap().is_empty() && !problem["title"].as_str().unwrap().is_empty());
}

#[test]
fn only_a_key_that_names_the_scope_may_administer() {
    let api = ApiFixture::new(ECHO);
    let path = "/api/v1/keys";
    let bare = api.sabir.ask(&Request::get(path));
    expect_problem(&bare, 401, "unauthenticated");
    assert_eq!(bare.header("WWW-Authenticate"), Some("Bearer"));
    expect_problem(&api.ask("sabir_000102030405060708090a0b0c0d0eff", Request::get(path)), 401, "unauthenticated");
    // A key without scopes may do everything that callers may do, and nothing that operators do.
    for flags in [&[][..], &["--scope", "full"], &["--scope", "send,read"], &["--scope", "admin", "--agent", "demo"]] {
        let caller = key_text(&make_key(&api.desk, &api.sabir.home, flags));
        expect_problem(&api.ask(&caller, Request::get(path)), 403, "forbidden");
    }
    assert_eq!(api.get("/keys").status, 200);
    expect_problem(&api.ask(&api.reader, Request::post(path, "{}")), 403, "forbidden");
    assert_eq!(api.post("/keys", &json!({"name": "made"})).status, 201);
    let short = key_text(&make_key(&api.desk, &api.sabir.home, &["--scope", "admin", "--expires", "2s"]));
    eventually("the key has expired", || api.ask(&short, Request::get(path)).status == 401);
    let audit = api.get("/audit").json();
    let entries = audit["entries"].as_array().unwrap();
    assert!(entries.iter().any(|one| one["outcome"] == "changed" && one["scheme"] != "local"), "{audit}");
    eventually("the refusals are in the audit", || {
        let audit = api.get("/audit").json();
        audit["entries"].as_array().unwrap().iter().any(|one| one["reason"] == "scope_admin")
    });
}

#[test]
fn a_key_for_operators_calls_no_agent() {
    let api = ApiFixture::new(&format!("[auth]\naccept = [\"api_key\"]\n{ECHO}"));
    let call = Request::post("/", envelope("SendMessage", &send_params("hello")));
    assert_eq!(api.ask(&api.admin, call).status, 403);
}

#[test]
fn pages_of_other_origins_are_kept_out_also_those_that_may_call_agents() {
    let api = ApiFixture::new(&format!("[server]\ncors = [\"https://pages.example\"]\n{ECHO}"));
    let from = |origin: String| api.ask(&api.admin, Request::get("/api/v1/keys").with("Origin", origin)).status;
    assert_eq!(from("https://evil.example".into()), 403);
    assert_eq!(from("https://pages.example".into()), 403);
    assert_eq!(from("null".into()), 403);
    assert_eq!(from(format!("http://{}", api.sabir.address)), 200);
}

#[test]
fn a_server_that_others_can_reach_has_no_api_until_it_is_switched_on() {
    let config = |api: &str| format!("[server]\nproxies = [\"10.1.2.3\"]\n[auth]\naccept = [\"api_key\"]\n{api}{ECHO}");
    let off = ApiFixture::new(&config(""));
    assert_eq!(off.get("/keys").status, 404);
    let on = ApiFixture::new(&config("[api]\nenabled = true\n"));
    assert_eq!(on.get("/keys").status, 200);
    let never = ApiFixture::new(&format!("[api]\nenabled = false\n{ECHO}"));
    assert_eq!(never.get("/keys").status, 404);
}

#[test]
fn what_cannot_be_understood_is_refused_and_named() {
    let api = ApiFixture::new(&format!("[limits]\nbody_bytes_max = 2000\n{ECHO}"));
    expect_problem(&api.get("/nowhere"), 404, "unknown-path");
    expect_problem(&api.get("/keys?onwer=ana"), 400, "invalid");
    expect_problem(&api.get("/audit?after=soon"), 400, "invalid");
    expect_problem(&api.get("/audit?after=1&after=2"), 400, "invalid");
    expect_problem(&api.get("/deliveries?state=lost"), 400, "invalid");
    expect_problem(&api.ask(&api.admin, Request::post("/api/v1/keys", "[]")), 400, "invalid");
    expect_problem(&api.ask(&api.admin, Request::post("/api/v1/keys", "{")), 400, "invalid");
    expect_problem(&api.post("/keys", &json!({"nam": "x"})), 400, "invalid");
    expect_problem(&api.post("/keys", &json!({"scopes": ["snd"]})), 400, "invalid");
    expect_problem(&api.post("/keys", &json!({"tier": "por"})), 400, "invalid");
    expect_problem(&api.post("/keys", &json!({"name": "x".repeat(3000)})), 413, "invalid");
    expect_problem(&api.post("/keys/k9/revoke", &json!({})), 404, "unknown-key");
    expect_problem(&api.post("/keys/k9/revoke", &json!({"id": "k8"})), 400, "invalid");
    expect_problem(&api.ask(&api.admin, Request::new("DELETE", "/api/v1/keys")), 405, "wrong-method");
    expect_problem(&api.get("/agents/nobody"), 404, "unknown-agent");
    expect_problem(&api.get("/deliveries/7"), 404, "no-delivery");
    // A file of the server is for commands on its machine.
    expect_problem(&api.post("/venues/import", &json!({"path": "/etc/passwd"})), 400, "invalid");
    assert_eq!(api.keys().len(), 2, "nothing of this made a key");
}

#[test]
fn a_request_that_is_cut_off_changes_nothing_or_all_of_it() {
    let api = ApiFixture::new(ECHO);
    let body = json!({"name": "cut"}).to_string();
    let request = Request::post("/api/v1/keys", body)
        .with("Authorization", format!("Bearer {}", api.admin))
        .bytes(api.sabir.address);
    for length in [request.len() / 2, request.len() - 1] {
        let mut connection = api.sabir.connect();
        connection.write(&request[..length]);
    }
    assert_eq!(api.keys().len(), 2, "a request without its end is none");
    for _ in 0..20 {
        let mut connection = api.sabir.connect();
        connection.write(&request);
    }
    // Each request that was taken up is carried out, with its entry in the audit.
    eventually("every key that was made is in the audit", || {
        let made = api.keys().iter().filter(|key| key["name"] == "cut").count();
        let audit = api.get("/audit").json();
        let entries = audit["entries"].as_array().unwrap().iter();
        let changes = entries.filter(|one| one["outcome"] == "changed" && one["scheme"] != "local").count();
        made == changes
    });
    api.sabir.still_serves();
}

#[test]
fn every_path_is_described() {
    let api = ApiFixture::new(ECHO);
    let reply = api.sabir.ask(&Request::get("/api/v1/openapi.json"));
    assert_eq!(reply.status, 200, "the description needs no key");
    let document = reply.json();
    assert_eq!(document["openapi"], "3.1.0");
    let paths = document["paths"].as_object().unwrap();
    for path in ["/keys", "/agents", "/agents/{name}/approve", "/deliveries/{number}/retry", "/inbox", "/audit"] {
        assert!(paths.contains_key(path), "{path} is not in {:?}", paths.keys().collect::<Vec<_>>());
    }
    // What is described is served: without parameters each list answers.
    for (path, methods) in paths {
        if methods.get("get").is_some() && !path.contains('{') && path != "/events" {
            let reply = api.get(path);
            assert!([200, 400].contains(&reply.status), "{path}: {}", reply.text());
        }
    }
}

#[test]
fn commands_administer_a_server_elsewhere() {
    let api = ApiFixture::new(ECHO);
    let made = api.remote(&api.admin, &["key", "create", "--name", "far", "--scope", "send", "-o", "json"]);
    made.expect_success();
    let id = made.json()["id"].as_str().unwrap().to_owned();
    assert!(!made.stderr.contains("Store:"), "{}", made.stderr);
    assert_eq!(api.remote(&api.reader, &["key", "list"]).fields("Total"), ["3"]);
    assert_eq!(api.remote(&api.admin, &["key", "revoke", &id, "-o", "json"]).json()["state"], "revoked");
    assert_eq!(api.remote(&api.reader, &["agent", "list"]).fields("Agent"), ["demo"]);
    assert_eq!(api.remote(&api.reader, &["push", "list"]).fields("Total"), ["0"]);
    assert_eq!(api.remote(&api.reader, &["inbox", "list"]).fields("Total"), ["0"]);
    let audit = api.remote(&api.reader, &["audit", "tail", "-n", "1"]);
    assert!(audit.expect_success().contains(&format!("about=key:{id}")), "{audit:?}");
    api.remote(&api.reader, &["audit", "verify"]).expect_success();
    let unknown = api.remote(&api.admin, &["key", "revoke", "k9"]);
    assert!(unknown.code == 1 && unknown.stderr.contains("sabir key list"), "{unknown:?}");
    let refused = api.remote(&api.reader, &["key", "create"]);
    assert!(refused.code == 4 && refused.stderr.contains("lacks the scope admin"), "{refused:?}");
    assert!(!format!("{refused:?}").contains(&api.reader[14..]), "the key is not repeated");
    let keyless = api.remote("", &["key", "list"]);
    assert!(keyless.code == 4 && keyless.stderr.contains("SABIR_ADMIN_KEY"), "{keyless:?}");
    let plain = api.desk.run(&["key", "list", "--server", "http://agents.example", "--server-key", "env:HOME"]);
    assert!(plain.code == 2 && plain.stderr.contains("readable on the way"), "{plain:?}");
    let both = api.desk.run(&["key", "list", "--server", "https://agents.example", "--data", "x"]);
    assert_eq!(both.code, 2, "{both:?}");
}

#[test]
fn a_change_through_the_running_server_is_in_force_when_its_command_ends() {
    let home = ServerDirectory::new(&format!("[auth]\naccept = [\"api_key\"]\n{ECHO}"));
    let (sabir, desk) = (TestServer::start_at(&home), CommandDirectory::new());
    let made = make_key(&desk, &home, &[]);
    let send = || {
        let call = Request::post("/", envelope("SendMessage", &send_params("hello")));
        sabir.ask(&call.with("Authorization", format!("Bearer {}", key_text(&made)))).status
    };
    assert_eq!(send(), 200);
    let data = home.data().display().to_string();
    desk.run(&["key", "revoke", made["id"].as_str().unwrap(), "--data", &data]).expect_success();
    assert_eq!(send(), 401);
}

/// Holds the tasks of a store, as another process would, for a time.
fn hold_store(home: &ServerDirectory, time: Duration) -> thread::JoinHandle<()> {
    let mut path = home.database().into_os_string();
    path.push(".lock");
    let lock = File::open(path).unwrap();
    lock.try_lock().unwrap();
    thread::spawn(move || {
        thread::sleep(time);
        drop(lock);
    })
}

#[test]
fn a_server_and_commands_wait_for_each_other() {
    let home = TestServer::start(ECHO).stop();
    let desk = CommandDirectory::new();
    let data = home.data().display().to_string();
    let list = || desk.run(&["push", "list", "--data", &data]);
    // A server that starts waits for the command that has the store.
    let held = hold_store(&home, Duration::from_millis(700));
    let sabir = TestServer::start_at(&home);
    held.join().unwrap();
    assert_eq!(list().fields("Total"), ["0"]);
    let home = sabir.stop();
    // A command waits for another one that has the store.
    let held = hold_store(&home, Duration::from_millis(700));
    assert_eq!(list().fields("Total"), ["0"]);
    held.join().unwrap();
    // And commands that run while a server starts are answered by it or before it.
    thread::scope(|scope| {
        let commands: Vec<_> = (0..4).map(|_| scope.spawn(list)).collect();
        let sabir = TestServer::start_at(&home);
        for command in commands {
            assert_eq!(command.join().unwrap().fields("Total"), ["0"]);
        }
        sabir.still_serves();
    });
}

#[test]
fn tasks_of_all_callers_are_found_by_agent_state_time_and_text() {
    let api = ApiFixture::new(AGENTS);
    for n in 0..5 {
        api.sabir.send("/", &send_params(&format!("Needle {n}")));
    }
    let asked = api.sabir.send(DESK_PATH, &send_params("book"));
    let list = |query: &str| {
        let reply = api.get(&format!("/tasks{query}"));
        assert_eq!(reply.status, 200, "{}", reply.text());
        reply.json()
    };
    let ids = |page: &Value| -> Vec<String> {
        page["tasks"].as_array().unwrap().iter().map(|task| task["taskId"].as_str().unwrap().to_owned()).collect()
    };
    let all = list("");
    assert_eq!((ids(&all).len(), &all["next"]), (6, &Value::Null), "{all}");
    assert_eq!((&all["tasks"][0]["taskId"], &all["tasks"][0]["state"]), (&asked["id"], &json!("input-required")));
    assert_eq!((ids(&list("?agent=desk")).len(), ids(&list("?agent=nobody")).len()), (1, 0));
    assert_eq!(ids(&list("?state=completed")).len(), 5);
    assert_eq!(ids(&list("?state=completed&state=input-required")).len(), 6);
    assert_eq!(ids(&list("?text=nEEdle%203")).len(), 1);
    assert_eq!(ids(&list("?since=2999-01-01T00:00:00Z")).len(), 0);
    assert_eq!(ids(&list("?before=2999-01-01T00:00:00Z")).len(), 6);
    // Pages have every task once.
    let (mut found, mut after) = (Vec::new(), String::new());
    loop {
        let page = list(&format!("?state=completed&limit=2{after}"));
        found.extend(ids(&page));
        match page["next"].as_str() {
            Some(next) => after = format!("&after={next}"),
            None => break,
        }
    }
    assert_eq!(found, ids(&list("?state=completed")));
    let counts = api.get("/statistics").json();
    assert_eq!(counts["agents"][0], json!({"agent": "demo", "tasks": 5, "states": {"completed": 5}}), "{counts}");
    expect_problem(&api.get("/tasks?state=lost"), 400, "invalid");
}

#[test]
fn the_page_token_of_another_query_or_another_store_is_refused() {
    let (api, other) = (ApiFixture::new(ECHO), ApiFixture::new(ECHO));
    for server in [&api, &other] {
        for _ in 0..3 {
            server.sabir.send("/", &send_params("hello"));
        }
    }
    let page = api.get("/tasks?state=completed&limit=1").json();
    let token = page["next"].as_str().unwrap();
    assert_eq!(api.get(&format!("/tasks?state=completed&limit=2&after={token}")).status, 200);
    expect_problem(&api.get(&format!("/tasks?state=working&after={token}")), 400, "page-token");
    expect_problem(&api.get(&format!("/tasks?after={token}")), 400, "page-token");
    expect_problem(&other.get(&format!("/tasks?state=completed&after={token}")), 400, "page-token");
    for nonsense in ["", "x", &"0".repeat(48), &"%C3%A9".repeat(24)] {
        expect_problem(&api.get(&format!("/tasks?state=completed&after={nonsense}")), 400, "page-token");
    }
}

/// Opens the feed of changes.
fn follow(api: &ApiFixture, last: Option<u64>) -> EventStream {
    let request = Request::get("/api/v1/events").with("Authorization", format!("Bearer {}", api.reader));
    let mut feed = api.sabir.open(&match last {
        Some(last) => request.with("Last-Event-ID", last.to_string()),
        None => request,
    });
    assert_eq!(feed.next().unwrap().name.as_deref(), Some("open"));
    feed
}

/// The next event of this name.
fn next_named(feed: &mut EventStream, name: &str) -> SseEvent {
    std::iter::from_fn(|| feed.next()).find(|event| event.name.as_deref() == Some(name)).expect("the feed goes on")
}

#[test]
fn the_feed_tells_of_changes_and_goes_on_where_it_was_left() {
    let api = ApiFixture::new(ECHO);
    expect_problem(&api.sabir.ask(&Request::get("/api/v1/events")), 401, "unauthenticated");
    let mut feed = follow(&api, None);
    let first = api.sabir.send("/", &send_params("one"));
    let event = next_named(&mut feed, "task");
    assert_eq!((&event.data["taskId"], &event.data["state"]), (&first["id"], &json!("completed")));
    drop(feed);
    // What happened in between is told, and what was told is not.
    let missed: Vec<Value> = (0..3).map(|_| api.sabir.send("/", &send_params("more"))["id"].clone()).collect();
    let mut feed = follow(&api, event.id);
    for id in &missed {
        assert_eq!(next_named(&mut feed, "task").data["taskId"], *id);
    }
    let request = Request::get("/api/v1/events").with("Authorization", format!("Bearer {}", api.reader));
    expect_problem(&api.sabir.ask(&request.with("Last-Event-ID", "soon")), 400, "invalid");
    // A revoked key hears no more.
    let id = api.keys().iter().find(|key| key["prefix"] == api.reader[..14]).unwrap()["id"].clone();
    assert_eq!(api.post(&format!("/keys/{}/revoke", id.as_str().unwrap()), &json!({})).status, 200);
    assert!(feed.rest().is_empty());
}

#[test]
fn a_feed_that_missed_changes_says_so_and_goes_on() {
    let home = ServerDirectory::new(ECHO);
    let api = ApiFixture::at(&home);
    let mut feed = follow(&api, None);
    api.sabir.send("/", &send_params("before the restart"));
    let told = next_named(&mut feed, "task").id.unwrap();
    api.sabir.send("/", &send_params("not told"));
    drop((feed, api));
    let api = ApiFixture::at(&home);
    for last in [told, u64::MAX >> 1] {
        let mut feed = follow(&api, Some(last));
        assert_eq!(feed.next().unwrap().name.as_deref(), Some("reset"), "{last}");
        let sent = api.sabir.send("/", &send_params("after it"));
        assert_eq!(next_named(&mut feed, "task").data["taskId"], sent["id"]);
    }
}

#[test]
fn a_subscriber_that_stops_reading_holds_up_nothing() {
    let api = ApiFixture::new(ECHO);
    let silent: Vec<EventStream> = (0..4).map(|_| follow(&api, None)).collect();
    let mut reading = follow(&api, None);
    for _ in 0..300 {
        api.sabir.send("/", &send_params("hello"));
    }
    let mut told = 0;
    while told < 300 {
        next_named(&mut reading, "task");
        told += 1;
    }
    drop(silent);
    api.sabir.still_serves();
}

#[test]
fn of_two_operators_who_approve_one_card_one_does() {
    let api = ApiFixture::new(ECHO);
    let card: Arc<Mutex<Value>> = Arc::default();
    let shown = card.clone();
    let url = stub_agent::serve(move |asked| match asked.path.as_str() {
        "/.well-known/agent-card.json" => (200, "application/json", shown.lock().unwrap().to_string()),
        _ => {
            let said = json!({"role": "ROLE_AGENT", "messageId": "m-1", "parts": [{"text": "yes"}]});
            let call = asked.json();
            (
                200,
                "application/json",
                json!({"jsonrpc": "2.0", "id": call["id"], "result": {"message": said}}).to_string(),
            )
        }
    });
    *card.lock().unwrap() = serde_json::from_str(&stub_agent::card(&url)).unwrap();
    let mut feed = follow(&api, None);
    let added = api.post("/agents", &json!({"url": url, "settings": {"on_drift": "hold"}, "untried": true}));
    assert_eq!(added.status, 201, "{}", added.text());
    next_named(&mut feed, "agents");
    card.lock().unwrap()["skills"][0]["id"] = "pay".into();
    let refreshed = api.post("/agents/stub/refresh", &json!({}));
    assert_eq!(refreshed.json()["card"], "held", "{}", refreshed.text());
    let statuses = thread::scope(|scope| {
        let approving: Vec<_> =
            (0..2).map(|_| scope.spawn(|| api.post("/agents/stub/approve", &json!({})).status)).collect();
        let mut statuses: Vec<u16> = approving.into_iter().map(|one| one.join().unwrap()).collect();
        statuses.sort_unstable();
        statuses
    });
    assert_eq!(statuses, [200, 409]);
}
