//! Webhooks: called in order, signed, in the dialect of their registration; and what operators do about those that fail.

use crate::command_runner::{CommandDirectory, CommandOutput};
use crate::http_client::Request;
use crate::rpc_client::{message, send_params};
use crate::stub_agent::{self, StubRequest};
use crate::test_server::{ServerDirectory, TestServer, eventually};
use serde_json::{Value, json};
use std::sync::atomic::{AtomicU16, Ordering};
use std::sync::{Arc, Mutex};

const AGENT: &str = "[[agent]]\nname = \"demo\"\nkind = \"script\"\ndefault = true\n\
    [agent.card.capabilities]\npush_notifications = true\n\
    [[agent.rule]]\ndo = [{ status = \"looking\" }, { wait_ms = 30 }, \
    { artifact = { id = \"a\", text = \"found\" } }, { wait_ms = 30 }, { complete = \"done\" }]\n";
const INSIDE: &str = "[egress]\nallow = [\"127.0.0.0/8\"]\n";

/// A webhook that keeps its requests, and answers with a status that a test sets.
struct TestWebhook {
    url: String,
    requests: Arc<Mutex<Vec<StubRequest>>>,
    status: Arc<AtomicU16>,
}

impl TestWebhook {
    fn with_status(status: u16) -> Self {
        let (requests, status): (Arc<Mutex<Vec<StubRequest>>>, _) = (Arc::default(), Arc::new(AtomicU16::new(status)));
        let (kept, says) = (requests.clone(), status.clone());
        let url = stub_agent::serve(move |asked| {
            let copy =
                StubRequest { path: asked.path.clone(), headers: asked.headers.clone(), body: asked.body.clone() };
            kept.lock().unwrap().push(copy);
            (says.load(Ordering::SeqCst), "text/plain", "thanks".into())
        });
        Self { url: format!("{url}/hook?key=SECRET-IN-URL"), requests, status }
    }

    /// Its requests, once one of them reports the end of the task.
    #[track_caller]
    fn wait_for_last_request(&self) -> Vec<StubRequest> {
        let ended = |asked: &StubRequest| asked.body.to_ascii_lowercase().contains("completed");
        eventually("the webhook hears the end", || self.requests.lock().unwrap().last().is_some_and(ended));
        self.wait_for_requests(3)
    }

    /// Its requests, once there are so many.
    #[track_caller]
    fn wait_for_requests(&self, count: usize) -> Vec<StubRequest> {
        eventually("the webhook is called", || self.requests.lock().unwrap().len() >= count);
        std::mem::take(&mut self.requests.lock().unwrap())
    }
}

fn with_hook(url: &str) -> Value {
    json!({"message": message("x"), "configuration": {"taskPushNotificationConfig": {
        "id": "c1", "url": url, "token": "tok-42", "authentication": {"scheme": "Bearer", "credentials": "s3cret"}}}})
}

fn push(home: &ServerDirectory, arguments: &[&str]) -> CommandOutput {
    let (config, data) = (home.path("sabir.toml"), home.data());
    let place = ["--config", config.to_str().unwrap(), "--data", data.to_str().unwrap(), "-o", "json"];
    CommandDirectory::new().run(&[&["push"], arguments, &place].concat())
}

fn deliveries(home: &ServerDirectory) -> Vec<Value> {
    let ran = push(home, &["list"]);
    ran.expect_success();
    assert!(!ran.stdout.contains("SECRET-IN-URL") && !ran.stdout.contains("s3cret"), "{}", ran.stdout);
    ran.json()["deliveries"].as_array().unwrap().clone()
}

fn number(delivery: &Value) -> String {
    delivery["number"].to_string()
}

#[test]
fn a_webhook_gets_every_event_in_order_with_what_it_was_registered_with() {
    let secret = "whsec_AAECAwQFBgcICQoLDA0ODxAREhMUFRYXGBkaGxwdHh8=";
    let home = ServerDirectory::new(&format!("{INSIDE}[push]\nwebhook_secret = \"file:hook\"\n{AGENT}"));
    std::fs::write(home.path("hook"), secret).unwrap();
    let sabir = TestServer::start_at(&home);
    let hook = TestWebhook::with_status(200);
    let task = sabir.send("/", &with_hook(&hook.url));
    let heard = hook.wait_for_last_request();
    let last = heard.last().unwrap().json();
    assert_eq!(last["statusUpdate"]["status"]["state"], "TASK_STATE_COMPLETED", "{last}");
    let (mut ids, mut numbers) = (Vec::new(), Vec::new());
    for asked in &heard {
        assert_eq!(asked.path, "/hook?key=SECRET-IN-URL");
        assert_eq!(asked.header("content-type"), Some("application/a2a+json"));
        assert_eq!(asked.header("authorization"), Some("Bearer s3cret"));
        assert_eq!(asked.header("x-a2a-notification-token"), Some("tok-42"));
        assert!(asked.header("webhook-signature").unwrap().starts_with("v1,"));
        let id = asked.header("webhook-id").unwrap();
        let rest = id.strip_prefix(&format!("{}-", task["id"].as_str().unwrap())).unwrap();
        numbers.push(rest.split('-').next().unwrap().parse::<u64>().unwrap());
        ids.push(id.to_owned());
    }
    assert!(numbers.windows(2).all(|pair| pair[1] == pair[0] + 1), "{numbers:?}");
    ids.dedup();
    assert_eq!(ids.len(), heard.len());
    eventually("nothing is owed", || deliveries(&home).is_empty());
    assert!(
        !sabir.log_text().contains("s3cret") && !sabir.log_text().contains("SECRET-IN-URL"),
        "{}",
        sabir.log_text()
    );
}

#[test]
fn a_scheme_in_capitals_is_the_same_scheme() {
    let sabir = TestServer::start(&format!("{INSIDE}{AGENT}"));
    let hook = TestWebhook::with_status(204);
    sabir.send("/", &with_hook(&hook.url.replace("http://", "HTTP://")));
    assert!(hook.wait_for_last_request().iter().all(|asked| asked.path.starts_with("/hook?")));
}

#[test]
fn a_webhook_that_was_registered_in_0_3_gets_the_task() {
    let sabir = TestServer::start(&format!("{INSIDE}{AGENT}"));
    let hook = TestWebhook::with_status(200);
    let params = json!({
        "message": {"kind": "message", "messageId": "m1", "role": "user", "parts": [{"kind": "text", "text": "x"}]},
        "configuration": {"pushNotificationConfig": {"id": "c1", "url": hook.url}},
    });
    let request = json!({"jsonrpc": "2.0", "id": 1, "method": "message/send", "params": params});
    let reply = sabir.ask(&Request::post("/", request.to_string()).without("A2A-Version"));
    let task = reply.json()["result"].clone();
    assert_eq!(task["kind"], "task", "{task}");
    let heard = hook.wait_for_last_request();
    for asked in &heard {
        let told = asked.json();
        assert_eq!((&told["kind"], &told["id"]), (&json!("task"), &task["id"]), "{told}");
        assert_eq!(asked.header("content-type"), Some("application/json"));
    }
    assert_eq!(heard.last().unwrap().json()["status"]["state"], "completed");
    // As it stood after each event, not as it stands.
    assert_ne!(heard[0].json()["status"]["state"], "completed");
}

#[test]
fn who_names_its_tasks_is_told_by_its_own_name() {
    let sabir = TestServer::start(&format!("{INSIDE}{AGENT}"));
    let hook = TestWebhook::with_status(200);
    let message = json!({"role": "user", "parts": [{"type": "text", "text": "x"}]});
    let params = json!({"id": "my-own-name", "message": message, "pushNotification": {"url": hook.url}});
    let request = json!({"jsonrpc": "2.0", "id": 1, "method": "tasks/send", "params": params});
    let reply = sabir.ask(&Request::post("/", request.to_string()).without("A2A-Version")).json();
    assert_eq!(reply["result"]["id"], "my-own-name", "{reply}");
    let told = hook.wait_for_last_request().pop().unwrap().json();
    assert_eq!((&told["id"], &told["status"]["state"]), (&json!("my-own-name"), &json!("completed")), "{told}");
    assert_eq!(told["artifacts"][0]["parts"][0]["type"], "text", "{told}");
}

#[test]
fn an_inner_address_is_a_dead_letter_that_says_what_to_do() {
    let sabir = TestServer::start(AGENT);
    let hook = TestWebhook::with_status(200);
    sabir.send("/", &with_hook(&hook.url));
    let dead = || deliveries(&sabir.home).into_iter().filter(|one| one["state"] == "dead").collect::<Vec<_>>();
    let events = |one: &Value| one["lastEvent"].as_u64().unwrap() + 1 - one["firstEvent"].as_u64().unwrap();
    eventually("it is given up", || dead().iter().map(events).sum::<u64>() >= 3);
    let reason = dead()[0]["reason"].as_str().unwrap().to_owned();
    assert!(reason.contains("loopback") && reason.contains("[egress]"), "{reason}");
    assert!(hook.requests.lock().unwrap().is_empty());
}

#[test]
fn dead_letters_are_shown_tried_again_and_forgotten_with_and_without_a_server() {
    let hook = TestWebhook::with_status(500);
    let sabir = TestServer::start(&format!("{INSIDE}[push]\nattempts = 1\n{AGENT}"));
    let home = sabir.home.clone();
    sabir.send("/", &with_hook(&hook.url));
    let dead = || deliveries(&home).into_iter().filter(|one| one["state"] == "dead").collect::<Vec<_>>();
    eventually("all are given up", || dead().len() >= 3 && deliveries(&home).len() == dead().len());
    let numbers: Vec<String> = dead().iter().map(number).collect();
    let shown = push(&home, &["show", &numbers[0]]).json();
    assert_eq!((&shown["attempts"], &shown["tries"][0]["status"]), (&json!(1), &json!(500)), "{shown}");
    assert!(shown["tries"][0]["at"].is_string() && shown["tries"][0]["tookMs"].is_u64(), "{shown}");
    assert_eq!(shown["receiver"], hook.url[..hook.url.find("/hook").unwrap()]);
    // Forgotten by a running server.
    push(&home, &["drop", &numbers[0]]).expect_success();
    let again = push(&home, &["show", &numbers[0]]);
    assert!(again.code != 0 && again.stdout.contains("SABIR_ERR_NO_DELIVERY"), "{again:#?}");
    // Tried again by a running server.
    hook.status.store(204, Ordering::SeqCst);
    hook.requests.lock().unwrap().clear();
    push(&home, &["retry", &numbers[1]]).expect_success();
    assert_eq!(hook.wait_for_requests(1).len(), 1);
    eventually("it is delivered", || !dead().iter().map(number).any(|one| one == numbers[1]));
    // And ordered while no server runs, for the next start.
    let home = sabir.stop();
    let left = deliveries(&home);
    assert!(!left.is_empty());
    assert_eq!(push(&home, &["retry", "--all-dead"]).json()["deliveries"].as_array().unwrap().len(), left.len());
    assert!(hook.requests.lock().unwrap().is_empty());
    let sabir = TestServer::start_at(&home);
    assert_eq!(hook.wait_for_requests(left.len()).len(), left.len());
    eventually("nothing is owed", || deliveries(&home).is_empty());
    drop(sabir);
}

#[test]
fn what_is_owed_survives_a_crash() {
    let hook = TestWebhook::with_status(503);
    let sabir = TestServer::start(&format!("{INSIDE}{AGENT}"));
    sabir.send("/", &with_hook(&hook.url));
    let first = hook.wait_for_requests(1).remove(0).header("webhook-id").unwrap().to_owned();
    let home = sabir.kill();
    hook.status.store(200, Ordering::SeqCst);
    let sabir = TestServer::start_at(&home);
    let heard = hook.wait_for_last_request();
    assert_eq!(heard[0].header("webhook-id"), Some(&*first), "the same delivery once more");
    eventually("nothing is owed", || deliveries(&home).is_empty());
    drop(sabir);
}

#[test]
fn a_webhook_can_be_tried_before_anybody_registers_it() {
    let home = ServerDirectory::new(INSIDE);
    let hook = TestWebhook::with_status(200);
    let test = |arguments: &[&str]| push(&home, &[&["test"], arguments].concat());
    std::fs::write(home.path("token"), "s3cret\n").unwrap();
    let token = format!("file:{}", home.path("token").display());
    let ran = test(&[&hook.url, "--scheme", "Bearer", "--credentials", &token]);
    assert_eq!(ran.json()["accepted"], true, "{ran:#?}");
    let heard = hook.wait_for_requests(1).remove(0);
    assert_eq!(heard.header("authorization"), Some("Bearer s3cret"));
    assert_eq!(heard.header("webhook-id"), ran.json()["id"].as_str());
    hook.status.store(500, Ordering::SeqCst);
    let ran = test(&[&hook.url]);
    assert!(ran.code == 1 && ran.json()["result"].as_str().unwrap().contains("HTTP 500"), "{ran:#?}");
    std::fs::write(home.path("sabir.toml"), "").unwrap();
    let ran = test(&[&hook.url]);
    assert!(ran.code == 1 && ran.json()["result"].as_str().unwrap().contains("[egress]"), "{ran:#?}");
    assert!(!ran.stdout.contains("SECRET-IN-URL"));
    let ran = test(&[&hook.url, "--token", "s3cret"]);
    assert!(ran.code == 2 && !ran.stderr.contains("s3cret"), "{ran:#?}");
}

#[test]
fn what_cannot_be_meant_in_push_is_refused_at_start() {
    for (config, word) in [
        ("[push]\nattempts = 0", "push.attempts"),
        ("[push]\ntimeout_seconds = 1000", "push.timeout_seconds"),
        ("[push]\nwebhook_secret = \"whsec_c2VjcmV0\"", "file:PATH"),
        ("[push]\nwebhook_secret = \"env:NOT_SET_ANYWHERE\"", "NOT_SET_ANYWHERE"),
        ("[egress]\nallow = [\"everything\"]", "10.0.0.0/8"),
    ] {
        let home = ServerDirectory::new(&format!("{config}\n{AGENT}"));
        let said = home.expect_start_refused(home.command());
        assert!(said.contains(word) && !said.contains("c2VjcmV0"), "{config}: {said}");
    }
}

#[test]
fn a_server_without_webhooks_has_nothing_to_deliver() {
    let sabir = TestServer::start(AGENT);
    sabir.send("/", &send_params("x"));
    assert!(deliveries(&sabir.home).is_empty());
    let nowhere = CommandDirectory::new().run(&["push", "list"]);
    assert!(nowhere.code != 0 && nowhere.stderr.contains("SABIR_ERR_NO_STORE"), "{nowhere:#?}");
}

#[test]
fn a_registration_that_cannot_be_read_is_found_listed_and_stops_no_other() {
    let hook = TestWebhook::with_status(503);
    let sabir = TestServer::start(&format!("{INSIDE}{AGENT}"));
    let damaged = sabir.send("/", &with_hook(&hook.url));
    let whole = sabir.send("/", &with_hook(&hook.url));
    hook.wait_for_requests(2);
    let home = sabir.kill();
    let database = home.open_database();
    let sql = "UPDATE push_config SET json = X'7b' WHERE k = (SELECT min(k) FROM task)";
    assert_eq!(database.execute(sql, []).unwrap(), 1);
    drop(database);
    let data = home.data();
    let checked = CommandDirectory::new().run(&["db", "check", "--data", data.to_str().unwrap()]);
    let said = format!("{}{}", checked.stdout, checked.stderr);
    assert!(checked.code == 1 && said.contains(damaged["id"].as_str().unwrap()), "{checked:#?}");
    assert!(deliveries(&home).len() >= 2, "they are listed all the same");
    hook.status.store(200, Ordering::SeqCst);
    hook.requests.lock().unwrap().clear();
    let sabir = TestServer::start_at(&home);
    assert!(hook.wait_for_last_request().iter().all(|asked| asked.body.contains(whole["id"].as_str().unwrap())));
    eventually("it is given up", || deliveries(&home).iter().any(|one| one["state"] == "dead"));
    let dead = deliveries(&home);
    assert!(dead.iter().all(|one| one["taskId"] == damaged["id"] && one["receiver"].is_null()), "{dead:?}");
    for one in &dead {
        push(&home, &["drop", &number(one)]).expect_success();
    }
    assert!(deliveries(&home).is_empty());
    drop(sabir);
}

#[test]
fn a_webhook_that_is_never_called_is_refused_when_it_is_registered() {
    let sabir = TestServer::start(&format!("{INSIDE}{AGENT}"));
    for url in ["http://user:s3cret@hooks.example/", "http://hooks.example:25/", "http://hooks.example:99999/"] {
        let reply = sabir.rpc("/", "SendMessage", &with_hook(url));
        let told = reply.to_string();
        assert!(reply.get("error").is_some() && told.contains("taskPushNotificationConfig.url"), "{url}: {told}");
        assert!(!told.contains("s3cret"), "{told}");
    }
}
