//! The booking network for its operators: venues, bookings, webhooks; and for agents that do not know envelopes.

use crate::command_runner::{CommandDirectory, CommandOutput};
use crate::http_client::Request;
use crate::stub_agent::{self, StubRequest};
use crate::test_server::{ServerDirectory, TestServer, eventually};
use serde_json::{Value, json};
use sha2::{Digest as _, Sha256};
use std::fs;
use std::sync::atomic::{AtomicU16, Ordering};
use std::sync::{Arc, Mutex};

const CONFIG: &str = "[network]\n[egress]\nallow = [\"127.0.0.0/8\"]\n[auth]\naccept = [\"api_key\"]\n";

/// A command of an operator, in the home of a server.
#[track_caller]
fn operate(home: &ServerDirectory, arguments: &[&str]) -> CommandOutput {
    let (data, config) = (home.data().display().to_string(), home.path("sabir.toml").display().to_string());
    CommandDirectory::new().run(&[arguments, &["-o", "json", "--config", &config, "--data", &data]].concat())
}

#[track_caller]
fn done(home: &ServerDirectory, arguments: &[&str]) -> Value {
    let ran = operate(home, arguments);
    ran.expect_success();
    ran.json()
}

#[track_caller]
fn refused(ran: &CommandOutput, words: &str) {
    let said = serde_json::from_str::<Value>(&ran.stdout).unwrap_or_default();
    let message = said["error"]["message"].as_str().unwrap_or_default();
    assert!(ran.code != 0 && message.contains(words), "{ran:?}");
}

fn venue(slug: &str, more: &Value) -> Value {
    let mut row = json!({"slug": slug, "name": slug.to_uppercase(), "category": "restaurant", "area": "Canggu", "city": "Bali",
        "description": "Grilled fish", "tags": ["fish"], "agent_id": format!("venue_{slug}"),
        "slots": [{"id": "s1", "time": "2027-01-01T19:00:00Z", "capacity": 2}]});
    row.as_object_mut().unwrap().extend(more.as_object().unwrap().clone());
    row
}

#[track_caller]
fn import(home: &ServerDirectory, rows: &Value) -> CommandOutput {
    fs::write(home.path("venues.json"), rows.to_string()).unwrap();
    operate(home, &["venue", "import", &home.path("venues.json").display().to_string()])
}

fn slugs(home: &ServerDirectory) -> Vec<String> {
    let listed = done(home, &["venue", "list"]);
    listed["venues"].as_array().unwrap().iter().map(|venue| venue["slug"].as_str().unwrap().to_owned()).collect()
}

/// A key of the tier `pro`, and its id.
#[track_caller]
fn key(home: &ServerDirectory, flags: &[&str]) -> (String, String) {
    let made = done(home, &[&["key", "create", "--tier", "pro"], flags].concat());
    let id = made.get("keyId").or_else(|| made.get("id")).and_then(Value::as_str).unwrap();
    (made["key"].as_str().unwrap().to_owned(), id.to_owned())
}

fn post_json(sabir: &TestServer, key: &str, at: &str, body: &Value) -> Value {
    let request = Request::post(at, body.to_string()).with("Authorization", format!("Bearer {key}"));
    let reply = sabir.ask(&request);
    assert_eq!(reply.status, 200, "{}", reply.text());
    reply.json()["result"].clone()
}

/// A message of 1.0 to the network.
fn v1(sabir: &TestServer, key: &str, params: &Value) -> Value {
    let body = json!({"jsonrpc": "2.0", "id": 1, "method": "SendMessage", "params": params});
    post_json(sabir, key, "/agents/network", &body)
}

fn message(skill: Option<&str>, part: &Value) -> Value {
    let mut message = json!({"messageId": crate::rpc_client::uuid(), "role": "ROLE_USER", "parts": [part]});
    if let Some(skill) = skill {
        message["metadata"] = json!({"skillId": skill});
    }
    json!({"message": message})
}

/// A webhook that keeps its requests, and answers with a status that a test sets.
struct WebhookStub {
    url: String,
    requests: Arc<Mutex<Vec<StubRequest>>>,
    status: Arc<AtomicU16>,
}

impl WebhookStub {
    fn new() -> Self {
        let (requests, status): (Arc<Mutex<Vec<StubRequest>>>, _) = (Arc::default(), Arc::new(AtomicU16::new(204)));
        let (kept, says) = (requests.clone(), status.clone());
        let url = stub_agent::serve(move |asked| {
            let copy =
                StubRequest { path: asked.path.clone(), headers: asked.headers.clone(), body: asked.body.clone() };
            kept.lock().unwrap().push(copy);
            (says.load(Ordering::SeqCst), "text/plain", String::new())
        });
        Self { url: format!("{url}/bookings"), requests, status }
    }

    /// Its requests, once there are so many.
    #[track_caller]
    fn wait_for_requests(&self, count: usize) -> Vec<StubRequest> {
        eventually("the receiver is told", || self.requests.lock().unwrap().len() >= count);
        std::mem::take(&mut self.requests.lock().unwrap())
    }
}

fn hmac(key: &[u8], text: &[u8]) -> Vec<u8> {
    let mut block = [0; 64];
    if key.len() > 64 {
        block[..32].copy_from_slice(&Sha256::digest(key));
    } else {
        block[..key.len()].copy_from_slice(key);
    }
    let pad = |with: u8| block.map(|b| b ^ with);
    let inner = Sha256::digest([&pad(0x36)[..], text].concat());
    Sha256::digest([&pad(0x5c)[..], &inner[..]].concat()).to_vec()
}

/// Whether a delivery carries the network's own signature by this secret.
fn is_signed(asked: &StubRequest, secret: &str) -> bool {
    let text = format!("{}.{}", asked.header("x-agnt-timestamp").unwrap(), asked.body);
    let hex: String = hmac(secret.as_bytes(), text.as_bytes()).iter().map(|b| format!("{b:02x}")).collect();
    asked.header("x-agnt-signature") == Some(&hex)
}

#[test]
fn a_file_of_venues_is_taken_whole_or_not_at_all() {
    let home = ServerDirectory::new(CONFIG);
    let good = json!([venue("a", &json!({})), venue("b", &json!({"priority_rank": 5}))]);
    assert_eq!(import(&home, &good).json(), json!({"added": 2, "replaced": 0}));
    let ids = done(&home, &["venue", "list"]);
    for (row, words) in [
        (venue("c", &json!({"party": 1})), "row 2 (\"c\"): party: is not known"),
        (venue("Ä", &json!({})), "row 2"),
        (venue("c", &json!({"agent_id": "venue_b"})), "agent"),
        (venue("a", &json!({})), "row 2 (\"a\")"),
    ] {
        refused(&import(&home, &json!([venue("a", &json!({"name": "Changed"})), row])), words);
        assert_eq!(done(&home, &["venue", "list"]), ids, "nothing is half imported");
    }
    refused(&import(&home, &json!({"venues": []})), "JSON array");
    refused(&operate(&home, &["venue", "import", "/nowhere.json"]), "/nowhere.json");
    // A slug that is known is replaced, and keeps its id.
    let again = json!([venue("a", &json!({"name": "Anna’s", "slots": null}))]);
    assert_eq!(import(&home, &again).json(), json!({"added": 0, "replaced": 1}));
    let after = done(&home, &["venue", "list", "anna"]);
    assert_eq!(after["venues"][0]["id"], ids["venues"][1]["id"]);
    assert_eq!(after["venues"][0]["slots"][0]["id"], "s1", "slots that nobody spoke of stay");
}

#[test]
fn venues_are_added_listed_and_taken_out_with_or_without_a_server() {
    let home = ServerDirectory::new(CONFIG);
    let add = ["venue", "add", "la-brisa", "--name", "La Brisa", "--category", "restaurant", "--slot", "s1=tonight=2"];
    let made = done(&home, &add);
    assert_eq!((&made["agent_id"], &made["slots"][0]["capacity"]), (&json!("venue:la-brisa"), &json!(2)));
    let (key, _) = key(&home, &[]);
    let sabir = TestServer::start_at(&home);
    done(&home, &["venue", "add", "warung", "--name", "Warung", "--category", "restaurant", "--priority-rank", "3"]);
    assert_eq!(slugs(&home), ["warung", "la-brisa"], "ranked ones come first");
    let order = message(Some("booking.confirm"), &json!({"data": {"venue_id": "warung"}}));
    assert_eq!(done(&home, &["venue", "disable", "warung"])["active"], false);
    let refusal = v1(&sabir, &key, &order)["task"].clone();
    assert_eq!(refusal["status"]["message"]["parts"][0]["data"]["error"]["code"], "venue_not_found");
    assert_eq!(done(&home, &["venue", "enable", "warung"])["active"], true);
    let order = message(Some("booking.confirm"), &json!({"data": {"venue_id": "warung"}}));
    assert_eq!(v1(&sabir, &key, &order)["task"]["status"]["state"], "TASK_STATE_COMPLETED");
    refused(&operate(&home, &["venue", "disable", "nowhere"]), "there is no venue nowhere");
    sabir.stop();
    assert_eq!(done(&home, &["booking", "list", "--venue", "warung"])["bookings"].as_array().unwrap().len(), 1);
}

#[test]
fn whoever_speaks_a2a_finds_venues_in_the_catalog_and_books_them_by_message() {
    let home = ServerDirectory::new(CONFIG);
    import(&home, &json!([venue("la-brisa", &json!({})), venue("warung", &json!({"area": "Ubud", "tags": ["rice"]}))]))
        .expect_success();
    let (key, _) = key(&home, &[]);
    let sabir = TestServer::start_at(&home);
    let catalog = |query: &str| {
        let found = sabir.ask(&Request::get(&format!("/catalog?{query}"))).json();
        found["agents"].as_array().unwrap().clone()
    };
    let found = catalog("q=fish+ubud");
    assert_eq!((found.len(), &found[0]["name"]), (1, &json!("venue_warung")));
    assert_eq!(catalog("skill=booking.confirm&tag=canggu").len(), 1);
    assert!(catalog("").iter().any(|agent| agent["name"] == "network"));
    // 1.0, by the tenant that the catalog says: the venue need not be named.
    let tenant = found[0]["interfaces"][0]["tenant"].clone();
    let mut order = message(Some("booking.confirm"), &json!({"data": {"slot_id": "s1", "party_size": 2}}));
    order["tenant"] = tenant;
    let task = v1(&sabir, &key, &order)["task"].clone();
    let booked = &task["artifacts"][0]["parts"][0]["data"];
    assert_eq!((&booked["venue"]["slug"], &booked["booking_id"]), (&json!("warung"), &task["id"]));
    // 1.0, in plain words.
    let reply = v1(&sabir, &key, &message(None, &json!({"text": "search fish in Canggu"})))["message"].clone();
    assert!(reply["parts"][0]["text"].as_str().unwrap().contains("[la-brisa]"), "{reply}");
    assert_eq!(reply["parts"][1]["data"]["venues"][0]["slots"][0]["remaining"], 2);
    let task =
        v1(&sabir, &key, &message(None, &json!({"text": "Book la-brisa slot s1 for 2 people."})))["task"].clone();
    assert_eq!(task["artifacts"][0]["parts"][0]["data"]["party_size"], 2);
    // 0.3, with a data part.
    let order = json!({"jsonrpc": "2.0", "id": 1, "method": "message/send", "params": {"message": {"kind": "message",
        "messageId": crate::rpc_client::uuid(), "role": "user", "metadata": {"skillId": "booking.confirm"},
        "parts": [{"kind": "data", "data": {"venue_id": "la-brisa", "slot_id": "s1"}}]}}});
    let request = Request::post("/agents/network", order.to_string());
    let reply = sabir.ask(&request.with("Authorization", format!("Bearer {key}")).without("A2A-Version")).json();
    assert_eq!(reply["result"]["status"]["state"], "completed", "{reply}");
    // The slot is full now, for every caller.
    let full = v1(&sabir, &key, &message(None, &json!({"text": "book la-brisa slot s1"})))["task"].clone();
    assert_eq!(full["status"]["state"], "TASK_STATE_REJECTED");
    assert_eq!(full["status"]["message"]["parts"][1]["data"]["error"]["code"], "slot_unavailable");
    // What is not understood is explained, and leaves no task.
    let lost = v1(&sabir, &key, &message(None, &json!({"text": "good evening"})));
    assert!(lost["message"]["parts"][0]["text"].as_str().unwrap().contains("book VENUE"), "{lost}");
    assert_eq!(done(&home, &["booking", "list"])["bookings"].as_array().unwrap().len(), 3);
}

#[test]
fn an_envelope_reaches_an_agent_of_the_hub_that_declares_the_skill() {
    let agent = "[[agent]]\nname = \"concierge\"\nkind = \"script\"\n\
        [[agent.card.skills]]\nid = \"booking.search\"\nname = \"Search\"\ndescription = \"Knows a place\"\ntags = []\n\
        [[agent.rule]]\ndo = [{ complete = \"try the harbour\" }]\n\
        [[agent]]\nname = \"clerk\"\nkind = \"echo\"\n";
    let home = ServerDirectory::new(&format!("{CONFIG}{agent}"));
    let (key, _) = key(&home, &[]);
    let sabir = TestServer::start_at(&home);
    let ask = |to: &str| {
        let body = json!({"from": "me", "to": to, "intent": "booking.search", "payload": {"query": "fish"}});
        let request = Request::post("/a2a/v1", body.to_string()).with("Authorization", format!("Bearer {key}"));
        let reply = sabir.ask(&request);
        (reply.status, reply.json()["payload"].clone())
    };
    assert_eq!(ask("concierge"), (200, json!({"text": "try the harbour"})));
    let (status, refusal) = ask("clerk");
    assert_eq!((status, &refusal["error"]["code"]), (404, &json!("venue_not_found")), "it declares no such skill");
}

#[test]
fn subscribers_are_told_of_every_move_under_their_own_secret() {
    let home = ServerDirectory::new(CONFIG);
    import(&home, &json!([venue("la-brisa", &json!({}))])).expect_success();
    let (key, id) = key(&home, &[]);
    let sabir = TestServer::start_at(&home);
    let (all, some) = (WebhookStub::new(), WebhookStub::new());
    let hook = done(&home, &["webhook", "add", "--key", &id, "--url", &all.url]);
    let secret = hook["secret"].as_str().unwrap().to_owned();
    done(&home, &["webhook", "add", "--key", &id, "--url", &some.url, "--event", "booking.cancelled"]);
    refused(
        &operate(&home, &["webhook", "add", "--key", &id, "--url", &all.url, "--event", "booking.eaten"]),
        "no event",
    );
    refused(&operate(&home, &["webhook", "add", "--key", "k0", "--url", &all.url]), "there is no key");
    for url in ["ftp://127.0.0.1/x", "file:///etc/passwd", "nonsense", ""] {
        assert_eq!(operate(&home, &["webhook", "add", "--key", &id, "--url", url]).code, 2, "{url}");
    }
    let listed = done(&home, &["webhook", "list", "--key", &id]).to_string();
    assert!(!listed.contains("whsec_"), "{listed}");
    let order = message(Some("booking.confirm"), &json!({"data": {"venue_id": "la-brisa", "slot_id": "s1"}}));
    let booking = v1(&sabir, &key, &order)["task"]["id"].as_str().unwrap().to_owned();
    let told = all.wait_for_requests(1).remove(0);
    let body = told.json();
    assert_eq!((&body["type"], &body["data"]["status"]), (&json!("booking.confirmed"), &json!("pending")));
    assert_eq!((&body["data"]["booking_id"], &body["data"]["api_key_prefix"]), (&json!(booking), &json!(&key[..14])));
    assert!(is_signed(&told, &secret) && told.header("webhook-signature").is_some());
    // A new secret signs at once, and so does the old one for a while.
    let rotated = done(&home, &["webhook", "rotate", hook["id"].as_str().unwrap()]);
    let fresh = rotated["secret"].as_str().unwrap();
    assert_eq!(done(&home, &["booking", "transition", &booking, "confirmed"])["status"], "confirmed");
    let told = all.wait_for_requests(1).remove(0);
    assert_eq!(told.json()["type"], "booking.status_changed");
    assert!(is_signed(&told, fresh) && !is_signed(&told, &secret));
    assert_eq!(told.header("webhook-signature").unwrap().split(' ').count(), 2);
    refused(&operate(&home, &["booking", "transition", &booking, "pending"]), "cannot become pending");
    // What cancels it gives the slot back, and both are told.
    done(&home, &["booking", "transition", &booking, "cancelled"]);
    let mut types: Vec<Value> = all.wait_for_requests(2).iter().map(|told| told.json()["type"].clone()).collect();
    types.sort_by_key(ToString::to_string);
    assert_eq!(types, [json!("booking.cancelled"), json!("booking.status_changed")]);
    assert_eq!(some.wait_for_requests(1)[0].json()["type"], "booking.cancelled");
    assert_eq!(done(&home, &["venue", "list"])["venues"][0]["slots"][0]["taken"], 0);
    let moves = done(&home, &["booking", "show", &booking])["moves"].clone();
    assert_eq!(moves.as_array().unwrap().len(), 2);
    // A webhook that answers 410, or that was removed, is told no more.
    some.status.store(410, Ordering::SeqCst);
    done(&home, &["webhook", "remove", hook["id"].as_str().unwrap()]);
    let order = message(Some("booking.confirm"), &json!({"data": {"venue_id": "la-brisa", "slot_id": "s1"}}));
    let second = v1(&sabir, &key, &order)["task"]["id"].as_str().unwrap().to_owned();
    done(&home, &["booking", "transition", &second, "cancelled"]);
    eventually("the subscription ends", || {
        done(&home, &["webhook", "list"])["webhooks"][0]["ended"].as_str().is_some_and(|why| why.contains("410"))
    });
    assert!(all.requests.lock().unwrap().is_empty());
}

#[test]
fn holders_of_full_keys_see_to_their_own_webhooks() {
    let home = ServerDirectory::new(CONFIG);
    let (full, _) = key(&home, &["--scope", "full"]);
    let (other, _) = key(&home, &[]);
    let (query, _) = key(&home, &["--scope", "query"]);
    let sabir = TestServer::start_at(&home);
    let ask = |key: &str, method: &str, path: &str, body: &Value| {
        let text = if body.is_null() { String::new() } else { body.to_string() };
        let request = if method == "POST" { Request::post(path, text) } else { Request::new(method, path) };
        let reply = sabir.ask(&request.with("Authorization", format!("Bearer {key}")));
        (reply.status, reply.json())
    };
    let wish = json!({"url": "https://hooks.example/b", "events": ["booking.confirmed"]});
    let (status, made) = ask(&full, "POST", "/a2a/v1/webhooks", &wish);
    assert_eq!(status, 201, "{made}");
    assert!(made["secret"].as_str().unwrap().starts_with("whsec_"));
    let own = format!("/a2a/v1/webhooks/{}", made["id"].as_str().unwrap());
    let (_, listed) = ask(&full, "GET", "/a2a/v1/webhooks", &Value::Null);
    assert_eq!(listed["webhooks"].as_array().unwrap().len(), 1);
    assert!(!listed.to_string().contains("whsec_"));
    let (_, none) = ask(&other, "GET", "/a2a/v1/webhooks", &Value::Null);
    assert_eq!(none, json!({"webhooks": []}), "somebody else's are nobody's business");
    assert_eq!(ask(&other, "DELETE", &own, &Value::Null).0, 404);
    assert_eq!(ask(&other, "POST", &format!("{own}/rotate"), &Value::Null).0, 404);
    assert_eq!(ask(&query, "POST", "/a2a/v1/webhooks", &wish).0, 403);
    assert_eq!(ask("agnt_live_00000000000000000000000000000000", "GET", "/a2a/v1/webhooks", &Value::Null).0, 401);
    for bad in
        [json!({"url": "ftp://x"}), json!({"url": "https://x", "events": ["eaten"]}), json!({"uri": "https://x"})]
    {
        assert_eq!(ask(&full, "POST", "/a2a/v1/webhooks", &bad).0, 422, "{bad}");
    }
    let (_, rotated) = ask(&full, "POST", &format!("{own}/rotate"), &Value::Null);
    assert_ne!(rotated["secret"], made["secret"]);
    assert_eq!(ask(&full, "DELETE", &own, &Value::Null).0, 200);
    assert_eq!(ask(&full, "DELETE", &own, &Value::Null).0, 404);
    assert_eq!(ask(&full, "PATCH", "/a2a/v1/webhooks", &Value::Null).0, 405);
}

#[test]
fn a_configuration_that_cannot_be_meant_does_not_start() {
    let with = |config: &str| {
        let home = ServerDirectory::new(config);
        home.expect_start_refused(home.command())
    };
    assert!(with("[network]\nid = \"agnt\"").contains("network.id"));
    assert!(with("[network]\n[[agent]]\nname = \"network\"\nkind = \"echo\"").contains("[network]"));
    assert!(with("[network]\nvenues = \"nowhere.json\"").contains("nowhere.json"));
}
