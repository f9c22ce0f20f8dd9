//! Networks beside each other: three servers in a row, what is asked of all of them, and what is passed on.

use crate::command_runner::{CommandOutput, wait_for_exit};
use crate::http_client::{HttpConnection, HttpResponse, Request};
use crate::stub_agent;
use crate::test_server::{ServerDirectory, TestServer, eventually};
use sabir_proto::Timestamp;
use serde_json::{Value, json};
use std::fs;
use std::net::TcpListener;
use std::process::{Command, Stdio};
use std::sync::atomic::{AtomicU16, AtomicUsize, Ordering};
use std::sync::{Arc, Mutex};
use std::thread;
use std::time::{Duration, Instant};

/// What all networks sign with.
pub(crate) const SIGNING_KEY: &str = "the-signing-key-of-all-three-networks";

/// One of the networks.
pub(crate) struct TestNetwork {
    home: Arc<ServerDirectory>,
    port: u16,
    /// The key of a caller of its own.
    caller: String,
}

impl TestNetwork {
    pub(crate) fn url(&self) -> String {
        format!("http://127.0.0.1:{}", self.port)
    }

    pub(crate) fn start(&self) -> TestServer {
        TestServer::run(&self.home, self.home.command_at(&format!("127.0.0.1:{}", self.port)))
    }

    /// Sends an envelope to it, as a caller of its own.
    fn send(&self, arguments: &[&str], payload: &Value) -> CommandOutput {
        let payload = payload.to_string();
        let url = self.url();
        let mut command = self.tool(&[&["envelope", "send"], arguments, &["-a", &url, "-d", &payload]].concat());
        command.args(["--key", "env:CALLER", "-o", "json"]).env("CALLER", &self.caller);
        wait_for_exit(command.spawn().unwrap())
    }

    fn tool(&self, arguments: &[&str]) -> Command {
        let mut command = Command::new(env!("CARGO_BIN_EXE_sabir"));
        command.args(arguments).env_clear().current_dir(self.home.path("")).env("HOME", self.home.path(""));
        command.stdin(Stdio::null()).stdout(Stdio::piped()).stderr(Stdio::piped());
        command
    }

    /// Issues a key of its own.
    pub(crate) fn issue(&self, owner: &str, more: &[&str]) -> String {
        let data = self.home.data().display().to_string();
        let arguments = [&["key", "create", "--owner", owner, "--tier", "pro", "--scope", "booking"], more].concat();
        let ran = wait_for_exit(self.tool(&arguments).args(["--data", &data, "-o", "json"]).spawn().unwrap());
        serde_json::from_str::<Value>(ran.expect_success()).unwrap()["key"].as_str().unwrap().to_owned()
    }

    fn get(&self, path: &str) -> Value {
        self.ask(&Request::get(path)).json()
    }

    fn ask(&self, request: &Request) -> HttpResponse {
        let mut wire = HttpConnection::open(([127, 0, 0, 1], self.port).into());
        wire.send(request);
        wire.response()
    }
}

fn venue(slug: &str, area: &str, rank: i64) -> Value {
    json!({
        "slug": slug, "name": format!("Warung {slug}"), "category": "restaurant", "description": "Seafood at sunset.",
        "area": area, "city": "Bali", "tags": ["seafood"], "price_range": "$$", "priority_rank": rank,
        "agent_id": format!("venue_{slug}"), "slots": [{"id": "s1", "time": "2026-12-01T19:00:00Z", "capacity": 2}]
    })
}

/// Networks in a row, each a neighbour of those beside it.
pub(crate) fn networks_in_row(names: &[&str]) -> Vec<TestNetwork> {
    // All at the same time, or the same port would be free twice.
    let free: Vec<TcpListener> = names.iter().map(|_| TcpListener::bind("127.0.0.1:0").unwrap()).collect();
    let ports: Vec<u16> = free.iter().map(|listener| listener.local_addr().unwrap().port()).collect();
    drop(free);
    let mut towns = Vec::new();
    for (at, name) in names.iter().enumerate() {
        let beside = (0..names.len()).filter(|other| other.abs_diff(at) == 1);
        let peers: String = beside
            .map(|other| {
                let (id, port) = (names[other], ports[other]);
                format!(
                    "[[network.peer]]\nid = \"network:{id}\"\nurl = \"http://127.0.0.1:{port}/a2a/v1\"\nkey = \"file:{id}.key\"\n"
                )
            })
            .collect();
        let config = format!(
            "[server.signing]\nkeys = [\"file:card.pem\"]\n[auth.agnt]\nsigning_key = \"file:sign.key\"\n\
             [egress]\nallow = [\"127.0.0.0/8\"]\n[network]\nid = \"network:{name}\"\nvenues = \"venues.json\"\n\
             [network.coverage]\ncategories = [\"restaurant\"]\nareas = [\"Canggu\"]\ncities = [\"Bali\"]\n{peers}"
        );
        let home = ServerDirectory::new(&config);
        let venues = json!([venue(&format!("{name}-one"), "Canggu", 10), venue(&format!("{name}-two"), "Ubud", 5)]);
        fs::write(home.path("venues.json"), venues.to_string()).unwrap();
        fs::write(home.path("sign.key"), SIGNING_KEY).unwrap();
        towns.push(TestNetwork { home, port: ports[at], caller: String::new() });
    }
    for town in &mut towns {
        let made = wait_for_exit(town.tool(&["card", "keys", "--new", "card.pem"]).spawn().unwrap());
        assert_eq!(made.code, 0, "{made:#?}");
        town.caller = town.issue("caller", &[]);
    }
    for at in 0..towns.len() {
        for other in (0..towns.len()).filter(|other| other.abs_diff(at) == 1) {
            // What one may do at the other is the other's to say.
            let key = towns[other].issue(names[at], &["--relay"]);
            fs::write(towns[at].home.path(&format!("{}.key", names[other])), key).unwrap();
        }
    }
    towns
}

/// The networks of an answer, with what became of each.
fn networks(answer: &Value) -> Vec<(String, String)> {
    let list = answer["networks"].as_array().unwrap_or_else(|| panic!("{answer}"));
    let word = |said: &Value, name: &str| said[name].as_str().unwrap_or_default().to_owned();
    list.iter().map(|said| (word(said, "network"), word(said, "status"))).collect()
}

fn outcomes(list: &[(&str, &str)]) -> Vec<(String, String)> {
    list.iter().map(|(id, status)| ((*id).to_owned(), (*status).to_owned())).collect()
}

#[test]
fn three_networks_are_asked_at_once_two_hops_far_and_whoever_is_down_is_named() {
    let towns = networks_in_row(&["a", "b", "c"]);
    let [a, b, c] = &towns[..] else { unreachable!() };
    let (first, second, third) = (a.start(), b.start(), c.start());
    eventually("a has heard of c through b", || {
        a.get("/registry/v1/networks/network:c")["record"]["network_id"] == "network:c"
    });

    let found = a.send(&["booking.search", "--to", "network:*"], &json!({"query": "seafood"}));
    let found: Value = serde_json::from_str(found.expect_success()).unwrap();
    assert_eq!(networks(&found), outcomes(&[("network:a", "ok"), ("network:b", "ok"), ("network:c", "ok")]), "{found}");
    assert_eq!((&found["partial"], &found["count"]), (&json!(false), &json!(6)));
    let best: Vec<&Value> = found["venues"].as_array().unwrap().iter().take(3).map(|venue| &venue["slug"]).collect();
    assert_eq!(best, ["a-one", "b-one", "c-one"]);
    let of_c = &found["venues"][2];
    assert_eq!((&of_c["network"], &of_c["through"]), (&json!("network:c"), &json!("network:b")));
    let near = a.send(&["venue.list", "--to", "network:*"], &json!({"location": "ubud", "limit": 2}));
    assert_eq!(near.json()["count"], 2, "{near:#?}");

    // Booked two hops away, and once, however often it is sent.
    let order = json!({"venue_id": "c-one", "slot_id": "s1", "party_size": 2});
    let moment = "2026-01-01T00:00:00Z";
    let stale = a.send(&["booking.confirm", "--to", "network:c", "--timestamp", moment], &order);
    assert_eq!(stale.json()["error"]["code"], "stale_timestamp");
    let now = now();
    let confirm = || a.send(&["booking.confirm", "--to", "network:c", "--timestamp", &now], &order);
    let booked: Value = serde_json::from_str(confirm().expect_success()).unwrap();
    assert_eq!((&booked["venue"]["slug"], &booked["status"]), (&json!("c-one"), &json!("pending")), "{booked}");
    assert_eq!(confirm().json()["booking_id"], booked["booking_id"]);
    let nobody = a.send(&["booking.confirm", "--to", "network:nowhere"], &order);
    assert_eq!(nobody.json()["error"]["code"], "venue_not_found");
    let many = a.send(&["booking.confirm", "--to", "network:*"], &order);
    assert_eq!(many.json()["error"]["code"], "invalid_payload");

    third.kill();
    let found = a.send(&["booking.search", "--to", "network:*", "--ttl-ms", "4000"], &json!({"query": "seafood"}));
    let found: Value = serde_json::from_str(found.expect_success()).unwrap();
    assert_eq!(
        networks(&found),
        outcomes(&[("network:a", "ok"), ("network:b", "ok"), ("network:c", "missing")]),
        "{found}"
    );
    assert_eq!((&found["partial"], &found["count"]), (&json!(true), &json!(4)));
    assert_eq!(found["networks"][2]["through"], "network:b");
    let gone = a.send(&["booking.confirm", "--to", "network:c", "--ttl-ms", "2000", "--timeout", "5s"], &order);
    assert_ne!(gone.code, 0, "{gone:#?}");

    // The bookings are where they were made.
    first.stop();
    second.stop();
    let rows = |town: &TestNetwork, table: &str| -> i64 {
        let database = town.home.open_database();
        database.query_row(&format!("SELECT count(*) FROM {table}"), [], |row| row.get(0)).unwrap()
    };
    assert_eq!((rows(c, "booking"), rows(c, "usage")), (1, 1));
    assert_eq!((rows(a, "booking"), rows(b, "booking"), rows(a, "usage")), (0, 0, 0));
}

#[test]
fn a_registry_says_who_covers_restaurants_in_canggu_and_believes_signatures() {
    let towns = networks_in_row(&["a", "b"]);
    let [a, b] = &towns[..] else { unreachable!() };
    let (_a, _b) = (a.start(), b.start());
    eventually("b has heard of a", || {
        b.get("/registry/v1/networks/network%3Aa")["record"]["network_id"] == "network:a"
    });
    let search = |query: &str| -> Vec<String> {
        let found = b.get(&format!("/registry/v1/search?{query}"));
        let list = found["networks"].as_array().unwrap_or_else(|| panic!("{found}")).clone();
        list.iter().map(|network| network["record"]["network_id"].as_str().unwrap().to_owned()).collect()
    };
    assert_eq!(search("category=restaurant&location=Canggu&intent=booking.confirm"), ["network:a", "network:b"]);
    assert!(search("category=spa&location=Canggu").is_empty());
    assert!(search("location=Paris").is_empty());
    let entry = b.get("/registry/v1/networks/network:a");
    assert_eq!(entry["origin"], "network:a");
    assert_eq!(entry["record"]["endpoint"], format!("{}/a2a/v1", a.url()));

    // What was signed is taken as often as it comes; what was changed is not.
    let signed = json!({"record": entry["record"], "signature": entry["signature"]});
    let put = |path: &str, body: &Value| b.ask(&Request::put(path, body.to_string()));
    let again = put("/registry/v1/networks/network:a", &signed);
    assert_eq!((again.status, again.json()["status"].clone()), (200, json!("unchanged")));
    let mut forged = signed.clone();
    forged["record"]["endpoint"] = "http://127.0.0.1:1/a2a/v1".into();
    forged["record"]["seq"] = json!(signed["record"]["seq"].as_u64().unwrap() + 1);
    let refused = put("/registry/v1/networks/network:a", &forged);
    assert_eq!((refused.status, refused.json()["error"]["code"].clone()), (403, json!("invalid_signature")));
    let other = put("/registry/v1/networks/network:z", &signed);
    assert_eq!(other.status, 422, "{}", other.text());
    assert_eq!(put("/registry/v1/networks/network:a", &json!([])).status, 422);
    assert_eq!(put("/registry/v1/search", &signed).status, 405);
    let changes = b.get("/registry/v1/changes?since=0");
    assert_eq!(changes["changes"].as_array().unwrap().len(), 2, "{changes}");
    assert_eq!(b.get("/registry/v1/changes?since=x")["error"]["code"], "since");
}

/// Now, as envelopes write it.
fn now() -> String {
    let since = std::time::SystemTime::now().duration_since(std::time::UNIX_EPOCH).unwrap();
    Timestamp::from_millis(i64::try_from(since.as_millis()).unwrap()).to_string()
}

/// A venue's own agent: it books whatever is asked, once, and remembers what it heard.
fn venue_agent(
    answers: impl Fn(usize, &Value) -> (u16, Value) + Send + Sync + 'static,
) -> (String, Arc<Mutex<Vec<Value>>>) {
    let heard: Arc<Mutex<Vec<Value>>> = Arc::default();
    let log = heard.clone();
    let url = stub_agent::serve(move |asked| {
        let envelope = asked.json();
        let mut log = log.lock().unwrap();
        let (status, payload) = answers(log.len(), &envelope);
        log.push(envelope.clone());
        let answer = json!({
            "protocol": "openclaw/a2a/v1", "from": envelope["to"], "to": envelope["from"], "intent": envelope["intent"],
            "payload": payload, "agent_context": {}, "ttl_ms": 5000, "timestamp": ""
        });
        (status, "application/json", answer.to_string())
    });
    (url, heard)
}

/// A network with one venue that has an agent of its own.
fn network_with_agent(endpoint: &str) -> TestNetwork {
    let town = networks_in_row(&["a"]).remove(0);
    let mut venue = venue("own", "Canggu", 1);
    venue["endpoint"] = format!("{endpoint}/a2a/v1").into();
    fs::write(town.home.path("venues.json"), json!([venue]).to_string()).unwrap();
    town
}

#[test]
fn a_venue_with_an_agent_of_its_own_is_asked_first_and_booked_here_once() {
    let (endpoint, heard) = venue_agent(|number, envelope| match (number, &envelope["intent"]) {
        (_, intent) if intent == "network.ping" => (200, json!({"open": true})),
        (0, _) => (500, json!({"error": {"code": "internal", "message": "oops", "retryable": true}})),
        _ => (200, json!({"booking_id": "theirs-1", "status": "confirmed"})),
    });
    let town = network_with_agent(&endpoint);
    let server = town.start();
    let order = json!({"venue_id": "own", "slot_id": "s1"});
    let moment = now();
    let confirm = || town.send(&["booking.confirm", "--to", "venue_own", "--timestamp", &moment], &order);
    // The first answer is a failure that may pass; the envelope is sent again and meets the same timestamp there.
    let booked: Value = serde_json::from_str(confirm().expect_success()).unwrap();
    assert_eq!((&booked["venue_booking_id"], &booked["venue_status"]), (&json!("theirs-1"), &json!("confirmed")));
    assert_eq!(confirm().json()["booking_id"], booked["booking_id"]);
    let sent = heard.lock().unwrap().clone();
    assert_eq!(sent.len(), 2, "a repetition is answered here: {sent:#?}");
    assert_eq!(sent[0]["timestamp"], sent[1]["timestamp"]);
    assert_eq!((&sent[0]["from"], &sent[0]["to"]), (&json!("network:a"), &json!("venue_own")));
    assert_eq!(sent[0]["payload"]["_sig"].as_str().unwrap().len(), 64);
    assert!(sent[0]["ttl_ms"].as_u64().unwrap() <= 4950);
    let ping = town.send(&["network.ping", "--to", "venue_own"], &json!({}));
    assert_eq!(ping.json(), json!({"open": true}), "{ping:#?}");
    // What is addressed to the network stays there.
    assert!(town.send(&["network.ping", "--to", "network:a"], &json!({})).json()["active_venues"].is_u64());
    server.stop();
    let database = town.home.open_database();
    let count = |table: &str| -> i64 {
        database.query_row(&format!("SELECT count(*) FROM {table}"), [], |row| row.get(0)).unwrap()
    };
    assert_eq!((count("booking"), count("usage")), (1, 1));
}

#[test]
fn a_venue_that_fails_again_and_again_is_left_alone_and_nothing_is_booked() {
    let (endpoint, heard) = venue_agent(|_, _| (200, json!("not an object")));
    let town = network_with_agent(&endpoint);
    let server = town.start();
    let order = json!({"venue_id": "own", "slot_id": "s1"});
    let confirm = || {
        let ran = town.send(&["booking.confirm", "--to", "venue_own", "--timeout", "20s"], &order);
        (ran.json()["error"]["code"].as_str().unwrap_or_default().to_owned(), ran.code)
    };
    // Five attempts, of one envelope or of several, and the breaker opens.
    assert_eq!(confirm().0, "venue_unreachable");
    eventually("the breaker opens", || confirm().0 == "circuit_open");
    let asked = heard.lock().unwrap().len();
    assert_eq!(asked, 5);
    let metrics = town.ask(&Request::get("/metrics")).text();
    assert!(metrics.contains("agnt_a2a_venue_cb_opened_total 1"), "{metrics}");
    assert!(metrics.contains("agnt_a2a_cb_opened_total 0") && metrics.contains("agnt_a2a_cb_state 0"), "{metrics}");
    server.stop();
    let booked: i64 =
        town.home.open_database().query_row("SELECT count(*) FROM booking", [], |row| row.get(0)).unwrap();
    assert_eq!(booked, 0);
}

/// Books at one venue, by an envelope that is sent once: the status, and the code of a refusal.
fn confirm(town: &TestNetwork, to: &str, ttl_ms: u64) -> (u16, String) {
    static GUESTS: AtomicUsize = AtomicUsize::new(0);
    let guest = format!("guest-{}", GUESTS.fetch_add(1, Ordering::SeqCst));
    let envelope = json!({
        "from": guest, "to": to, "intent": "booking.confirm", "payload": {"venue_id": &to[6..]}, "ttl_ms": ttl_ms,
        "timestamp": now(),
    });
    let request = Request::post("/a2a/v1", envelope.to_string());
    let reply = town.ask(&request.with("Authorization", format!("Bearer {}", town.caller)));
    (reply.status, reply.json()["payload"]["error"]["code"].as_str().unwrap_or("ok").to_owned())
}

#[test]
fn neither_refusals_of_a_venue_nor_callers_without_time_open_its_breaker() {
    const SILENT: u16 = 0;
    let (status, asked) = (Arc::new(AtomicU16::new(409)), Arc::new(AtomicUsize::new(0)));
    let (answer, count) = (status.clone(), asked.clone());
    let endpoint = stub_agent::serve(move |request| {
        count.fetch_add(1, Ordering::SeqCst);
        let status = answer.load(Ordering::SeqCst);
        if status == SILENT {
            loop {
                thread::park();
            }
        }
        let error = json!({"error": {"code": "slot_unavailable", "message": "fully booked", "retryable": false}});
        let payload = if status == 200 { json!({"booking_id": "theirs", "status": "confirmed"}) } else { error };
        let asked = request.json();
        let reply = json!({
            "protocol": "openclaw/a2a/v1", "from": asked["to"], "to": asked["from"], "intent": asked["intent"],
            "payload": payload, "agent_context": {}, "ttl_ms": 5000, "timestamp": "",
        });
        (status, "application/json", reply.to_string())
    });
    let town = network_with_agent(&endpoint);
    let _server = town.start();
    for _ in 0..7 {
        assert_eq!(confirm(&town, "venue_own", 5000), (409, "slot_unavailable".to_owned()));
    }
    assert_eq!(asked.load(Ordering::SeqCst), 7);
    status.store(SILENT, Ordering::SeqCst);
    for _ in 0..7 {
        let begun = Instant::now();
        assert_eq!(confirm(&town, "venue_own", 300), (504, "ttl_exceeded".to_owned()));
        assert!(begun.elapsed() < Duration::from_secs(5), "{:?}", begun.elapsed());
    }
    status.store(200, Ordering::SeqCst);
    assert_eq!(confirm(&town, "venue_own", 5000), (200, "ok".to_owned()));
}

#[test]
fn three_venues_that_fail_open_the_breaker_of_the_network_and_two_do_not() {
    let unavailable = || stub_agent::serve(|_| (503, "text/plain", "upstream is down".into()));
    let (good, _) = venue_agent(|_, _| (200, json!({"booking_id": "theirs", "status": "confirmed"})));
    // The port of a listener that is gone again.
    let refused = TcpListener::bind("127.0.0.1:0").unwrap().local_addr().unwrap();
    let town = networks_in_row(&["a"]).remove(0);
    let endpoints = [unavailable(), format!("http://{refused}"), unavailable(), good];
    let elsewhere = endpoints.iter().enumerate().map(|(number, endpoint)| {
        let mut venue = venue(&format!("own-{number}"), "Canggu", 1);
        venue["endpoint"] = format!("{endpoint}/a2a/v1").into();
        venue
    });
    let venues: Vec<Value> = elsewhere.chain([venue("here", "Canggu", 1)]).collect();
    fs::write(town.home.path("venues.json"), json!(venues).to_string()).unwrap();
    let _server = town.start();
    let book = |slug: &str| confirm(&town, &format!("venue_{slug}"), 5000);
    let status = || {
        let status = town.get("/a2a/v1/status");
        [&status["status"], &status["breaker"]["global"]].map(|word| word.as_str().unwrap().to_owned())
    };
    for slug in ["own-0", "own-1", "own-0", "own-1", "own-0", "own-1"] {
        assert_eq!(book(slug), (502, "venue_unreachable".to_owned()), "{slug}");
    }
    assert_eq!(book("own-3"), (200, "ok".to_owned()));
    assert_eq!(status(), ["ok", "closed"]);
    assert_eq!(book("own-2"), (502, "venue_unreachable".to_owned()));
    assert_eq!(book("own-3"), (503, "circuit_open".to_owned()));
    assert_eq!(status(), ["degraded", "open"]);
    assert!(town.ask(&Request::get("/metrics")).text().contains("agnt_a2a_cb_opened_total 1\n"));
    assert_eq!(book("here"), (200, "ok".to_owned()), "the network itself takes bookings");
}

#[test]
fn networks_are_listed_published_added_and_taken_out_by_command() {
    let towns = [networks_in_row(&["a"]).remove(0), networks_in_row(&["z"]).remove(0)];
    let [a, z] = &towns;
    let (_a, _z) = (a.start(), z.start());
    let run = |arguments: &[&str]| wait_for_exit(a.tool(arguments).spawn().unwrap());
    eventually("both have published themselves", || {
        [a, z].iter().all(|town| !town.get("/registry/v1/search")["networks"].as_array().unwrap().is_empty())
    });
    let (at_a, at_z) = (a.url(), z.url());
    let published = run(&["network", "publish", "--to", &at_z, "-a", &at_a]);
    assert_eq!(published.fields("Record"), ["taken"], "{published:#?}");
    let added = run(&["network", "add", &at_a, "-a", &at_z]);
    assert_eq!(added.fields("Record"), ["unchanged"], "{added:#?}");
    let list = ["network", "list", "-a", &at_z, "--location", "canggu", "--category", "restaurant"];
    let listed = run(&list);
    assert_eq!(listed.fields("Network"), ["network:a", "network:z"], "{listed:#?}");
    assert_eq!(listed.fields("  Published at"), ["network:z", "network:z"]);
    let key = a.home.path("card.pem").display().to_string();
    let other = z.home.path("card.pem").display().to_string();
    let forged = run(&["network", "remove", "network:a", "--key", &other, "-a", &at_z]);
    assert_eq!(forged.code, 4, "{forged:#?}");
    let removed = run(&["network", "remove", "network:a", "--key", &key, "-a", &at_z]);
    assert_eq!(removed.fields("Removed"), ["network:a"], "{removed:#?}");
    assert_eq!(run(&list).fields("Network"), ["network:z"]);
    let gone = run(&["network", "remove", "network:a", "--key", &key, "-a", &at_z, "-o", "json"]);
    assert_eq!(gone.json()["error"]["code"], "SABIR_ERR_NO_NETWORK", "{gone:#?}");
    let nowhere = run(&["network", "list"]);
    assert_eq!(nowhere.code, 2, "{nowhere:#?}");
}

#[test]
fn a_network_elsewhere_stands_behind_a_hub_and_is_booked_in_a2a() {
    let network = networks_in_row(&["a"]).remove(0);
    let _network = network.start();
    let home = ServerDirectory::new(&format!(
        "[[agent]]\nname = \"bali\"\nkind = \"a2a\"\nurl = \"{}/a2a/v1?from=hub\"\nbearer = \"file:bali.key\"\ndefault = true\n",
        network.url()
    ));
    fs::write(home.path("bali.key"), &network.caller).unwrap();
    let hub = TestServer::start_at(&home);
    let call = |method: &str, params: &Value| -> Value {
        let request = json!({"jsonrpc": "2.0", "id": 1, "method": method, "params": params});
        let mut wire = hub.connect();
        wire.send(&Request::post("/", request.to_string()));
        wire.response().json()
    };
    let message = |id: &str, skill: &str, payload: &Value| {
        json!({"message": {
            "messageId": id, "role": "ROLE_USER", "metadata": {"skillId": skill}, "parts": [{"data": payload}]
        }})
    };
    let found = call("SendMessage", &message("m-1", "booking.search", &json!({"query": "seafood"})));
    // What was only looked up is a message, as it is without a hub.
    let said = &found["result"]["message"]["parts"][0]["data"];
    assert_eq!((&said["count"], &said["venues"][0]["slug"]), (&json!(2), &json!("a-one")), "{found}");
    let words = json!({"message": {"messageId": "m-2", "role": "ROLE_USER", "parts": [{"text": "ubud"}]}});
    assert!(call("SendMessage", &words)["result"]["message"]["parts"].is_array());
    // What is behind a hub is in its log: both are tasks there.
    assert_eq!(call("ListTasks", &json!({}))["result"]["totalSize"], 2);
    let order = json!({"venue_id": "a-one", "slot_id": "s1", "party_size": 2});
    let booked = call("SendMessage", &message("m-3", "booking.confirm", &order));
    let task = &booked["result"]["task"];
    assert_eq!(task["status"]["state"], "TASK_STATE_COMPLETED", "{booked}");
    assert_eq!(task["artifacts"][0]["parts"][0]["data"]["venue"]["slug"], "a-one");
    let kept = call("GetTask", &json!({"id": task["id"]}));
    assert_eq!(kept["result"]["status"]["state"], "TASK_STATE_COMPLETED", "our own log has it: {kept}");
    let gone = call("SendMessage", &message("m-4", "booking.confirm", &json!({"venue_id": "nowhere"})));
    assert_eq!(gone["result"]["task"]["status"]["state"], "TASK_STATE_REJECTED", "{gone}");
    // A caller of 0.3 books as well.
    let older = json!({"jsonrpc": "2.0", "id": 1, "method": "message/send", "params": {"message": {
        "kind": "message", "messageId": "m-5", "role": "user", "metadata": {"skillId": "booking.confirm"},
        "parts": [{"kind": "data", "data": order}]
    }}});
    let mut wire = hub.connect();
    wire.send(&Request::post("/", older.to_string()).without("A2A-Version"));
    let older = wire.response().json();
    assert_eq!(older["result"]["status"]["state"], "completed", "{older}");
}
