//! Handing a task to another server, seen from outside: two real servers, and every kind of caller.

use crate::command_runner::CommandDirectory;
use crate::http_client::Request;
use crate::rpc_client::{answer_params, envelope, send_params, state};
use crate::test_server::{ServerDirectory, TestServer, eventually};
use serde_json::{Value, json};
use sha2::{Digest as _, Sha256};

const HANDOFF: &str = "urn:sabir:ext:handoff:v1";
const LITERAL: &str = "urn:sabir:ext:handoff:v1:literal";

/// Pays money back.
const BILLING: &str = r#"
[[agent]]
name = "billing"
kind = "script"
default = true
[agent.handoff]
[[agent.card.skills]]
id = "refund"
name = "Refund"
description = "Pays money back"
tags = ["cap:billing.refund"]
[[agent.rule]]
when = { text_contains = "which" }
do = [{ ask_input = "Which order?" }]
then = [{ artifact = { id = "receipt", text = "paid", last_chunk = true } }, { complete = "refunded that one" }]
[[agent.rule]]
do = [{ complete = "refunded" }]
"#;

/// Hands refunds to billing.
fn triage(billing: &TestServer, more: &str) -> String {
    format!(
        r#"
[[agent]]
name = "triage"
kind = "script"
default = true
[agent.handoff]
targets = ["billing"]
{more}
[[agent.card.skills]]
id = "triage"
name = "Triage"
description = "Finds out who should help"
tags = ["cap:triage", "cap:billing.refund"]
[[agent.rule]]
when = {{ text_contains = "secret" }}
do = [{{ transfer = {{ to = "billing", required = ["billing.refund"], state = {{ api_key = "x" }} }} }}]
[[agent.rule]]
when = {{ text_contains = "delete" }}
do = [{{ transfer = {{ to = "billing", required = ["billing.delete"] }} }}]
[[agent.rule]]
do = [{{ status = "looking" }}, {{ transfer = {{ to = "billing", required = ["billing.refund"], reason = "A refund" }} }}]

[[agent]]
name = "billing"
kind = "a2a"
url = "http://{}"
"#,
        billing.address
    )
}

fn pair(more: &str) -> (TestServer, TestServer) {
    let billing = TestServer::start(BILLING);
    let triage = TestServer::start(&triage(&billing, more));
    (triage, billing)
}

fn send(text: &str) -> Request {
    Request::post("/", envelope("SendMessage", &send_params(text)))
}

/// The task there, once it rests.
#[track_caller]
fn theirs(billing: &TestServer, transfer: &Value, wanted: &str) -> Value {
    let mut task = Value::Null;
    eventually(wanted, || {
        task = billing.get("/", &transfer["task_id"]);
        state(&task) == wanted
    });
    task
}

#[test]
fn a_caller_that_follows_is_sent_on_and_the_task_goes_on_there() {
    let (triage, billing) = pair("");
    let reply = triage.ask(&send("my money").with("A2A-Extensions", HANDOFF));
    assert_eq!(reply.header("A2A-Extensions"), Some(HANDOFF));
    let task = reply.json()["result"]["task"].clone();
    assert_eq!(state(&task), "TASK_STATE_COMPLETED", "{task}");
    let said = &task["status"]["message"];
    assert_eq!(said["extensions"], json!([HANDOFF]));
    let told = &said["metadata"][HANDOFF];
    assert_eq!((&told["state"], &task["metadata"][HANDOFF]), (&json!("TRANSFERRED"), told));
    let transfer = &told["transfer"];
    assert_eq!(transfer["agent_endpoint"], format!("http://{}/", billing.address));
    assert_eq!((transfer["reason"].as_str(), transfer["chain"].as_array().unwrap().len()), (Some("A refund"), 1));
    let there = theirs(&billing, transfer, "TASK_STATE_COMPLETED");
    assert_eq!(there["status"]["message"]["parts"][0]["text"], "refunded");
    assert_eq!(there["history"][0]["messageId"], transfer["transfer_id"]);
    assert_eq!(there["metadata"][HANDOFF]["transferred_from"]["task_id"], task["id"]);

    // It is theirs now.
    let more = triage.ask(&Request::post("/", envelope("SendMessage", &answer_params(&task, "hello?")))).json();
    assert_eq!(more["error"]["code"], -32004, "{more}");
    let about = &more["error"]["data"][0]["metadata"];
    assert_eq!(
        (&about["agentEndpoint"], &about["transferTaskId"]),
        (&transfer["agent_endpoint"], &transfer["task_id"])
    );
    let cancel = triage.ask(&Request::post("/", envelope("CancelTask", &json!({"id": task["id"]})))).json();
    assert_eq!(cancel["error"]["code"], -32002, "{cancel}");

    // A caller that looks without following never sees it completed.
    let got = triage.get("/", &task["id"]);
    assert_eq!(state(&got), "TASK_STATE_FAILED");
    assert!(got["status"]["message"]["parts"][0]["text"].as_str().unwrap().contains("handed over to"), "{got}");
}

#[test]
fn lists_by_state_have_it_where_they_show_it() {
    let (triage, _billing) = pair("");
    let task = triage.ask(&send("my money").with("A2A-Extensions", HANDOFF)).json()["result"]["task"].clone();
    let listed = |status: &str, uri: &str| {
        let request = Request::post("/", envelope("ListTasks", &json!({ "status": status })));
        let page = triage.ask(&request.with("A2A-Extensions", uri)).json()["result"].clone();
        let ids: Vec<Value> = page["tasks"].as_array().unwrap().iter().map(|task| task["id"].clone()).collect();
        assert_eq!(page["totalSize"], ids.len(), "{page}");
        (ids, page["tasks"][0]["status"]["state"].clone())
    };
    for (uri, shown, other) in [
        (HANDOFF, "TASK_STATE_COMPLETED", "TASK_STATE_FAILED"),
        ("urn:nobody", "TASK_STATE_FAILED", "TASK_STATE_COMPLETED"),
    ] {
        assert_eq!(listed(shown, uri), (vec![task["id"].clone()], json!(shown)));
        assert!(listed(other, uri).0.is_empty(), "{uri}: {other}");
    }
}

#[test]
fn a_stream_ends_with_the_handoff_in_the_form_that_was_asked_for() {
    let (triage, _billing) = pair("");
    for (uri, wanted) in [(HANDOFF, "TASK_STATE_COMPLETED"), (LITERAL, "TRANSFERRED")] {
        let request = Request::post("/", envelope("SendStreamingMessage", &send_params("my money")));
        let mut stream = triage.open(&request.with("A2A-Extensions", uri));
        let frames = stream.rest();
        let last = frames.last().unwrap().event()["statusUpdate"]["status"].clone();
        assert_eq!(last["state"], wanted, "{last}");
        let target = match uri {
            HANDOFF => &last["message"]["metadata"][HANDOFF]["transfer"],
            _ => &last["transfer"],
        };
        assert!(target["task_id"].is_string(), "{last}");
    }
}

#[test]
fn a_caller_that_does_not_follow_gets_the_work_or_a_name() {
    let (relaying, _one) = pair("");
    let task = relaying.ask(&send("which")).json()["result"]["task"].clone();
    assert_eq!(state(&task), "TASK_STATE_INPUT_REQUIRED", "the question comes up: {task}");
    let done = relaying.ask(&Request::post("/", envelope("SendMessage", &answer_params(&task, "the last")))).json();
    let done = &done["result"]["task"];
    assert_eq!((state(done), &done["id"]), ("TASK_STATE_COMPLETED", &task["id"]), "{done}");
    assert_eq!(done["status"]["message"]["parts"][0]["text"], "refunded that one");
    let (asking, billing) = pair("unaware = \"ask\"");
    let task = asking.ask(&send("my money")).json()["result"]["task"].clone();
    assert_eq!(state(&task), "TASK_STATE_INPUT_REQUIRED");
    let words = task["status"]["message"]["parts"][0]["text"].as_str().unwrap().to_owned();
    assert!(words.contains(&billing.address.to_string()), "{words}");
}

/// A hub that knows the first of two agents and nothing of the second.
fn hub(triage: &TestServer, allow: &str) -> TestServer {
    let address = triage.address;
    TestServer::start(&format!(
        "[egress]\nallow = [{allow}]\n[[agent]]\nname = \"triage\"\nkind = \"a2a\"\ndefault = true\nurl = \"http://{address}\"\n"
    ))
}

#[test]
fn a_hub_follows_for_a_caller_who_knows_nothing_of_it_and_sees_one_task() {
    let (triage, billing) = pair("");
    let hub = hub(&triage, "\"127.0.0.1\"");
    let task = hub.ask(&send("which")).json()["result"]["task"].clone();
    assert_eq!(state(&task), "TASK_STATE_INPUT_REQUIRED", "the question comes up: {task}");
    assert_eq!(task["status"]["message"]["parts"][0]["text"], "Which order?");
    let at = |server: &TestServer| {
        let tasks = Request::post("/", envelope("ListTasks", &json!({"historyLength": 100})));
        server.ask(&tasks.with("A2A-Extensions", HANDOFF)).json()["result"]["tasks"].clone()
    };
    assert_eq!(at(&triage)[0]["metadata"][HANDOFF]["state"], "TRANSFERRED", "it was handed over, and not relayed");
    assert_eq!(at(&triage).as_array().unwrap().len(), 1);
    // The hub is killed in between: who has the task stands in its log.
    let hub = TestServer::start_at(&hub.kill());
    let done = hub.ask(&Request::post("/", envelope("SendMessage", &answer_params(&task, "the last")))).json();
    let done = &done["result"]["task"];
    assert_eq!((state(done), &done["id"]), ("TASK_STATE_COMPLETED", &task["id"]), "{done}");
    assert_eq!(done["status"]["message"]["parts"][0]["text"], "refunded that one");
    assert_eq!(done["artifacts"][0]["parts"][0]["text"], "paid", "{done}");
    assert!(done["metadata"].get(HANDOFF).is_none(), "the caller has nowhere to go: {done}");
    let there = at(&billing);
    assert_eq!(there.as_array().unwrap().len(), 1, "{there}");
    let said: Vec<&str> =
        there[0]["history"].as_array().unwrap().iter().filter_map(|said| said["parts"][0]["text"].as_str()).collect();
    assert!(said.contains(&"the last"), "{said:?}");
}

#[test]
fn a_hub_follows_in_streams_and_goes_nowhere_that_its_operator_did_not_open() {
    let (triage, billing) = pair("");
    let follows = hub(&triage, "\"127.0.0.1\"");
    let request = Request::post("/", envelope("SendStreamingMessage", &send_params("my money")));
    let frames = follows.open(&request).rest();
    let last = frames.last().unwrap().event()["statusUpdate"]["status"].clone();
    assert_eq!(
        (&last["state"], &last["message"]["parts"][0]["text"]),
        (&json!("TASK_STATE_COMPLETED"), &json!("refunded"))
    );
    let told = frames.iter().filter(|frame| {
        let said = frame.event()["statusUpdate"]["status"]["message"]["parts"][0]["text"].clone();
        said.as_str().is_some_and(|said| said.contains(&format!("handed over to http://{}/", billing.address)))
    });
    assert_eq!(told.count(), 1, "it says who has it");
    // What was written down is the first agent, at its address; the second was named by the first.
    let stays = hub(&triage, "");
    let task = stays.ask(&send("my money")).json()["result"]["task"].clone();
    assert_eq!(state(&task), "TASK_STATE_FAILED", "{task}");
    let words = task["status"]["message"]["parts"][0]["text"].as_str().unwrap().to_owned();
    assert!(words.contains(&billing.address.to_string()) && words.contains("may not be called"), "{words}");
    assert!(task["metadata"].get("urn:sabir:ext:gap:v1").is_some(), "{task}");
}

#[test]
fn a_hub_follows_by_an_agent_of_its_own_for_callers_who_may_use_that() {
    let home = ServerDirectory::new(&format!("[auth]\naccept = [\"api_key\"]\n{BILLING}"));
    let [desk, front] = ["desk", "front"].map(|name| key(&home, name));
    let billing = TestServer::start_at(&home);
    // Billing knows triage and the hub by different keys, so the task belongs to the key `desk` until the hub presents
    // its claim.
    let with_key = |config: &str, key: &str| {
        let home = ServerDirectory::new(config);
        std::fs::write(home.path("key"), key).unwrap();
        TestServer::start_at(&home)
    };
    let triage = with_key(&format!("{}api_key = \"file:key\"\n", triage(&billing, "")), &desk);
    for (auth, wanted, words) in [
        ("", "TASK_STATE_COMPLETED", "refunded"),
        // The caller may not use the hub's own agent, so the hub follows without a key, and the receiver asks for one.
        ("[agent.auth]\naccept = [\"api_key\"]\n", "TASK_STATE_FAILED", "asks for credentials"),
    ] {
        let config = format!(
            "[egress]\nallow = [\"127.0.0.1\"]\n\
             [[agent]]\nname = \"triage\"\nkind = \"a2a\"\ndefault = true\nurl = \"http://{}\"\n\
             [[agent]]\nname = \"billing\"\nkind = \"a2a\"\nurl = \"http://{}\"\napi_key = \"file:key\"\n{auth}",
            triage.address, billing.address
        );
        let hub = with_key(&config, &front);
        let task = hub.ask(&send("my money")).json()["result"]["task"].clone();
        assert_eq!(state(&task), wanted, "{task}");
        let said = task["status"]["message"]["parts"][0]["text"].as_str().unwrap_or_default();
        assert!(said.contains(words), "{task}");
        assert!(!task.to_string().contains("claim_secret"), "{task}");
    }
}

#[test]
fn what_may_not_go_stays_and_says_why() {
    let (triage, _billing) = pair("");
    for (text, code) in [("delete", "CAPABILITY_SCOPE_EXCEEDED"), ("secret", "TRANSFER_INVALID")] {
        let task = triage.ask(&send(text).with("A2A-Extensions", HANDOFF)).json()["result"]["task"].clone();
        assert_eq!(state(&task), "TASK_STATE_FAILED", "{task}");
        assert_eq!(task["status"]["message"]["parts"][1]["data"]["code"], code, "{task}");
    }
}

/// The parameters of a message to a server that receives a task.
fn creation(hold: bool, context: &Value) -> Value {
    let mut params = send_params("go");
    params["configuration"] = json!({"returnImmediately": true});
    params["message"]["metadata"] = json!({ HANDOFF: { "transfer_context": context, "hold": hold } });
    params
}

#[test]
fn a_task_that_comes_is_held_made_once_and_judged_first() {
    let billing = TestServer::start(&format!("[limits]\nhold_seconds_max = 1\n{BILLING}"));
    let ask = |params: &Value| billing.ask(&Request::post("/", envelope("SendMessage", params))).json();
    let context = |required: &str, scope: Value, chain: Value| {
        json!({"transfer_id": "0198aaaa-0000-7000-8000-000000000001", "originating_agent": "https://a.example",
            "originating_task_id": "t", "required": [required], "scope": scope, "chain": chain})
    };
    let fine = creation(true, &context("billing.refund", json!(["billing.refund"]), json!([])));
    let first = ask(&fine)["result"]["task"].clone();
    assert_eq!(state(&first), "TASK_STATE_SUBMITTED");
    assert_eq!(ask(&fine)["result"]["task"]["id"], first["id"], "however often it is said, there is one task");
    for (params, handoff) in [
        (context("billing.delete", json!(["billing.delete"]), json!([])), "CAPABILITY_SCOPE_EXCEEDED"),
        (context("billing.refund", json!(["other"]), json!([])), "CAPABILITY_SCOPE_EXCEEDED"),
        (
            context(
                "billing.refund",
                json!(["billing.refund"]),
                json!([{"agent": format!("http://{}", billing.address), "task_id": "t", "at": "2026-01-01T00:00:00Z"}]),
            ),
            "HANDOFF_LOOP",
        ),
    ] {
        let refused = ask(&creation(true, &params));
        assert_eq!(refused["error"]["code"], -32004, "{refused}");
        assert_eq!(refused["error"]["data"][0]["metadata"]["handoff"], handoff, "{refused}");
    }
    // Looking at it would be its new owner's doing, so the list has to tell.
    eventually("the hold runs out", || {
        let listed = billing.ask(&Request::post("/", envelope("ListTasks", &json!({})))).json();
        state(&listed["result"]["tasks"][0]) == "TASK_STATE_CANCELED"
    });
}

#[test]
fn a_kill_in_the_middle_loses_nothing_and_doubles_nothing() {
    let billing = TestServer::start(BILLING);
    let home = ServerDirectory::new(&triage(&billing, ""));
    let triage = TestServer::start_at(&home);
    let mut params = send_params("my money");
    params["configuration"] = json!({"returnImmediately": true});
    let begun =
        triage.ask(&Request::post("/", envelope("SendMessage", &params)).with("A2A-Extensions", HANDOFF)).json();
    let id = begun["result"]["task"]["id"].clone();
    let home = triage.kill();
    let triage = TestServer::start_at(&home);
    let mut task = Value::Null;
    eventually("it settles", || {
        let get = Request::post("/", envelope("GetTask", &json!({"id": id}))).with("A2A-Extensions", HANDOFF);
        task = triage.ask(&get).json()["result"].clone();
        !matches!(state(&task), "TASK_STATE_SUBMITTED" | "TASK_STATE_WORKING")
    });
    assert_eq!(state(&task), "TASK_STATE_COMPLETED", "{task}");
    let listed = billing.ask(&Request::post("/", envelope("ListTasks", &json!({})))).json();
    assert!(listed["result"]["tasks"].as_array().unwrap().len() <= 1, "{listed}");
}

#[test]
fn the_command_line_follows() {
    let (triage, billing) = pair("");
    let desk = CommandDirectory::new();
    let agent = format!("http://{}", triage.address);
    let ran = desk.run(&["send", "-a", &agent, "--follow", "-o", "json", "my money"]);
    assert_eq!(ran.code, 0, "{ran:?}");
    let answer: Value = serde_json::from_str(&ran.stdout).unwrap();
    assert_eq!(answer["task"]["status"]["message"]["parts"][0]["text"], "refunded", "{answer}");
    assert!(ran.stderr.contains(&format!("Handed over: http://{}/", billing.address)), "{}", ran.stderr);
    let relayed = desk.run(&["send", "-a", &agent, "-o", "json", "my money"]);
    let answer: Value = serde_json::from_str(&relayed.stdout).unwrap();
    assert_eq!(answer["task"]["status"]["message"]["parts"][0]["text"], "refunded", "{answer}");
    assert!(!relayed.stderr.contains("Handed over"), "{}", relayed.stderr);
}

/// Both agents on one server, which asks every caller for a credential.
const GUARDED: &str = r#"
[auth]
accept = ["api_key"]
[[agent]]
name = "triage"
kind = "script"
default = true
[agent.handoff]
targets = ["billing"]
[[agent.card.skills]]
id = "triage"
name = "Triage"
description = "Finds out who should help"
tags = ["cap:triage", "cap:billing.refund"]
[[agent.rule]]
do = [{ transfer = { to = "billing", required = ["billing.refund"] } }]

[[agent]]
name = "billing"
kind = "script"
[agent.handoff]
[[agent.card.skills]]
id = "refund"
name = "Refund"
description = "Pays money back"
tags = ["cap:billing.refund"]
[[agent.rule]]
do = [{ complete = "refunded" }]
"#;

#[test]
fn on_one_server_a_task_goes_to_the_next_agent_for_the_same_caller() {
    let home = ServerDirectory::new(GUARDED);
    let server = TestServer::start_at(&home);
    let desk = CommandDirectory::new();
    let data = home.data().display().to_string();
    let made = desk.run(&["key", "create", "-o", "json", "--data", &data, "--name", "ana"]).json();
    let shown = format!("Bearer {}", made["key"].as_str().unwrap());
    let as_ana = |request: Request| request.with("Authorization", shown.clone());
    eventually("the key is taken", || server.ask(&as_ana(send("my money"))).status == 200);

    let task = server.ask(&as_ana(send("my money").with("A2A-Extensions", HANDOFF))).json()["result"]["task"].clone();
    let transfer = task["status"]["message"]["metadata"][HANDOFF]["transfer"].clone();
    assert_eq!(transfer["agent_endpoint"], format!("http://{}/agents/billing", server.address), "{task}");
    eventually("it is done there, and ana's", || {
        let get = envelope("GetTask", &json!({"id": transfer["task_id"]}));
        let got = server.ask(&as_ana(Request::post("/agents/billing", get))).json();
        state(&got["result"]) == "TASK_STATE_COMPLETED"
    });
    // A caller that does not follow sees the work all the same.
    let relayed = server.ask(&as_ana(send("my money"))).json()["result"]["task"].clone();
    assert_eq!(relayed["status"]["message"]["parts"][0]["text"], "refunded", "{relayed}");
}

/// A key for a caller of a server that asks for one.
fn key(home: &ServerDirectory, name: &str) -> String {
    let data = home.data().display().to_string();
    let made = CommandDirectory::new().run(&["key", "create", "-o", "json", "--data", &data, "--name", name]).json();
    made["key"].as_str().unwrap().to_owned()
}

#[test]
fn elsewhere_the_task_is_whose_it_can_be_shown_to_be() {
    let home = ServerDirectory::new(&format!("[auth]\naccept = [\"api_key\"]\n{BILLING}"));
    let [desk, ana, bob] = ["desk", "ana", "bob"].map(|name| key(&home, name));
    let billing = TestServer::start_at(&home);
    let shown = home.path("desk.key");
    std::fs::write(&shown, &desk).unwrap();
    let upstream = format!("{}api_key = \"file:{}\"\n", triage(&billing, ""), shown.display());
    let triage = TestServer::start(&upstream);
    let mut task = Value::Null;
    eventually("it is handed over", || {
        task = triage.ask(&send("my money").with("A2A-Extensions", HANDOFF)).json()["result"]["task"].clone();
        state(&task) == "TASK_STATE_COMPLETED"
    });
    let transfer = task["status"]["message"]["metadata"][HANDOFF]["transfer"].clone();
    let claim = transfer["claim_secret"].as_str().expect("the caller is told how to have it").to_owned();
    let ask = |who: &str, claim: Option<&str>| {
        let get = Request::post("/", envelope("GetTask", &json!({"id": transfer["task_id"]})));
        let get = get.with("Authorization", format!("Bearer {who}"));
        billing.ask(&claim.into_iter().fold(get, |get, claim| get.with("Sabir-Handoff-Claim", claim))).json()
    };
    for (who, claim) in [(&ana, None), (&bob, None), (&ana, Some("00000000000000000000000000000000"))] {
        assert_eq!(ask(who, claim)["error"]["code"], -32001, "it is there for nobody else");
    }
    let got = ask(&ana, Some(&claim))["result"].clone();
    assert_eq!(got["id"], transfer["task_id"], "{got}");
    assert!(!got.to_string().contains(&claim), "what is told there is what it looks like");
    eventually("it is done, and hers", || state(&ask(&ana, None)["result"]) == "TASK_STATE_COMPLETED");
    for (who, claim) in [(&bob, Some(&*claim)), (&desk, Some(&*claim)), (&desk, None)] {
        assert_eq!(ask(who, claim)["error"]["code"], -32001, "a claim works once");
    }
    let list = Request::post("/", envelope("ListTasks", &json!({}))).with("Authorization", format!("Bearer {ana}"));
    assert_eq!(billing.ask(&list).json()["result"]["totalSize"], 1, "and stands in her list");
    assert!(!billing.log_text().contains(&claim) && !triage.log_text().contains(&claim));
    let billing = TestServer::start_at(&billing.kill());
    let get = Request::post("/", envelope("GetTask", &json!({"id": transfer["task_id"]})));
    let kept = billing.ask(&get.with("Authorization", format!("Bearer {ana}"))).json();
    assert_eq!(kept["result"]["id"], transfer["task_id"], "also after a crash: {kept}");
}

#[test]
fn whoever_shows_the_claim_first_has_the_task_and_nobody_after() {
    let home = ServerDirectory::new(&format!("[auth]\naccept = [\"api_key\"]\n{BILLING}"));
    let [desk, ana] = ["desk", "ana"].map(|name| key(&home, name));
    let billing = TestServer::start_at(&home);
    let word = "0123456789abcdef0123456789abcdef";
    let digest: String = Sha256::digest(word).iter().map(|byte| format!("{byte:02x}")).collect();
    let made = |number: u8| {
        creation(
            true,
            &json!({"transfer_id": format!("0198aaaa-0000-7000-8000-00000000002{number}"), "originating_agent": "https://a.example",
                "originating_task_id": "t", "required": ["billing.refund"], "scope": ["billing.refund"], "chain": [],
                "claim_digest": digest}),
        )
    };
    let call = |method: &str, params: &Value, who: &str| {
        Request::post("/", envelope(method, params)).with("Authorization", format!("Bearer {who}"))
    };
    let claiming = |request: Request| request.with("Sabir-Handoff-Claim", word);

    // The sender listens. The caller comes with something to say, and not to look.
    let mut listening = billing.open(&call("SendStreamingMessage", &made(1), &desk));
    let task = listening.next().unwrap().event()["task"].clone();
    assert_eq!(state(&task), "TASK_STATE_SUBMITTED");
    billing.ask(&claiming(call("SendMessage", &answer_params(&task, "and hurry"), &ana)));
    let last = listening.rest().last().expect("the stream ends").data.clone();
    assert_eq!(last["error"]["code"], -32001, "it is not the sender's any more: {last}");
    let get = json!({"id": task["id"]});
    eventually("it has begun, and ended", || {
        let got = billing.ask(&call("GetTask", &get, &ana)).json();
        state(&got["result"]) == "TASK_STATE_COMPLETED"
    });

    // Shown by whom it belongs to anyway, it is used up as well.
    let task = billing.ask(&call("SendMessage", &made(2), &desk)).json()["result"]["task"].clone();
    let get = json!({"id": task["id"]});
    assert_eq!(billing.ask(&claiming(call("GetTask", &get, &desk))).json()["result"]["id"], task["id"]);
    assert_eq!(billing.ask(&claiming(call("GetTask", &get, &ana))).json()["error"]["code"], -32001);
    assert_eq!(billing.ask(&call("GetTask", &get, &desk)).json()["result"]["id"], task["id"]);
}

#[test]
fn a_claim_opens_its_own_task_and_only_whole() {
    let home = ServerDirectory::new(&format!("[auth]\naccept = [\"api_key\"]\n{BILLING}"));
    let [desk, ana, bob] = ["desk", "ana", "bob"].map(|name| key(&home, name));
    let billing = TestServer::start_at(&home);
    let made = |number: u8, claim: &str| {
        let digest: String = Sha256::digest(claim).iter().map(|byte| format!("{byte:02x}")).collect();
        let context = json!({"transfer_id": format!("0198aaaa-0000-7000-8000-00000000004{number}"),
            "originating_agent": "https://a.example", "originating_task_id": "t", "required": ["billing.refund"],
            "scope": ["billing.refund"], "chain": [], "claim_digest": digest});
        let request = Request::post("/", envelope("SendMessage", &creation(true, &context)));
        billing.ask(&request.with("Authorization", format!("Bearer {desk}"))).json()["result"]["task"].clone()
    };
    let claims = ["0123456789abcdef0123456789abcdef", "fedcba9876543210fedcba9876543210"];
    let tasks = [made(1, claims[0]), made(2, claims[1])];
    let ask = |who: &str, method: &str, params: &Value, claim: &[u8]| {
        let request = Request::post("/", envelope(method, params)).with("Authorization", format!("Bearer {who}"));
        billing.ask(&request.with("Sabir-Handoff-Claim", claim)).json()
    };
    let id = |task: &Value| json!({"id": task["id"]});
    let digest: String = Sha256::digest(claims[0]).iter().map(|byte| format!("{byte:02x}")).collect();
    for wrong in [
        // Of the other task; cut off; longer; in capitals; what the server keeps of it; both; empty; no text.
        claims[1].as_bytes(),
        &claims[0].as_bytes()[..31],
        &claims[0].as_bytes()[..1],
        format!("{}0", claims[0]).as_bytes(),
        claims[0].to_uppercase().as_bytes(),
        digest.as_bytes(),
        format!("{}, {}", claims[0], claims[1]).as_bytes(),
        b"",
        b"\xff\xfe",
    ] {
        for method in ["GetTask", "CancelTask", "SubscribeToTask"] {
            let answer = ask(&ana, method, &id(&tasks[0]), wrong);
            assert!(answer["error"].is_object(), "{method} {:?}: {answer}", String::from_utf8_lossy(wrong));
        }
    }
    // None of that has used it up.
    assert_eq!(ask(&ana, "GetTask", &id(&tasks[0]), claims[0].as_bytes())["result"]["id"], tasks[0]["id"]);
    // It was for one task, and works once: the same claim opens neither task for another caller.
    for task in &tasks {
        assert_eq!(ask(&bob, "GetTask", &id(task), claims[0].as_bytes())["error"]["code"], -32001);
    }
    assert_eq!(ask(&bob, "GetTask", &id(&tasks[1]), claims[1].as_bytes())["result"]["id"], tasks[1]["id"]);
    assert_eq!(ask(&ana, "GetTask", &id(&tasks[1]), claims[1].as_bytes())["error"]["code"], -32001);
    let list = |who: &str| ask(who, "ListTasks", &json!({}), b"")["result"]["totalSize"].clone();
    assert_eq!((list(&desk), list(&ana), list(&bob)), (json!(0), json!(1), json!(1)));
}

#[test]
fn of_many_callers_that_show_a_claim_at_once_one_has_the_task() {
    let home = ServerDirectory::new(&format!("[auth]\naccept = [\"api_key\"]\n{BILLING}"));
    let desk = key(&home, "desk");
    let callers: Vec<String> = (0..8).map(|n| key(&home, &format!("caller {n}"))).collect();
    let billing = TestServer::start_at(&home);
    let claim = "00112233445566778899aabbccddeeff";
    let digest: String = Sha256::digest(claim).iter().map(|byte| format!("{byte:02x}")).collect();
    let context = json!({"transfer_id": "0198aaaa-0000-7000-8000-000000000051", "originating_agent": "https://a.example",
        "originating_task_id": "t", "required": ["billing.refund"], "scope": ["billing.refund"], "chain": [],
        "claim_digest": digest});
    let create = Request::post("/", envelope("SendMessage", &creation(true, &context)));
    let made = billing.ask(&create.with("Authorization", format!("Bearer {desk}"))).json();
    let get = envelope("GetTask", &json!({"id": made["result"]["task"]["id"]}));
    let found: Vec<bool> = std::thread::scope(|scope| {
        let asking = callers.iter().map(|caller| {
            let request = Request::post("/", get.clone()).with("Authorization", format!("Bearer {caller}"));
            let request = request.with("Sabir-Handoff-Claim", claim);
            let billing = &billing;
            scope.spawn(move || billing.ask(&request).json()["result"].is_object())
        });
        let asking: Vec<_> = asking.collect();
        asking.into_iter().map(|one| one.join().unwrap()).collect()
    });
    assert_eq!(found.iter().filter(|found| **found).count(), 1, "{found:?}");
    let again: Vec<bool> = callers
        .iter()
        .map(|caller| {
            let request = Request::post("/", get.clone()).with("Authorization", format!("Bearer {caller}"));
            billing.ask(&request).json()["result"].is_object()
        })
        .collect();
    assert_eq!(again, found, "and keeps it");
}

#[test]
fn an_agent_that_takes_none_takes_none() {
    let billing = TestServer::start(&BILLING.replace("[agent.handoff]", "[agent.handoff]\naccept = false"));
    let context = json!({"transfer_id": "0198aaaa-0000-7000-8000-000000000002", "originating_agent": "https://a.example",
        "originating_task_id": "t", "required": ["billing.refund"], "scope": ["billing.refund"], "chain": []});
    let refused = billing.ask(&Request::post("/", envelope("SendMessage", &creation(true, &context)))).json();
    assert_eq!(refused["error"]["code"], -32004, "{refused}");
    let triage = TestServer::start(&triage(&billing, ""));
    let task = triage.ask(&send("my money").with("A2A-Extensions", HANDOFF)).json()["result"]["task"].clone();
    assert_eq!(state(&task), "TASK_STATE_FAILED", "{task}");
}

/// A dispatcher that passes every message on.
const DESK: &str = r#"
[[agent]]
name = "desk"
kind = "dispatch"
default = true
[agent.dispatch]
agents = ["billing"]
fallback = "billing"
[agent.handoff]
[[agent.card.skills]]
id = "refund"
name = "Refund"
description = "Pays money back"
tags = ["cap:billing.refund"]

[[agent]]
name = "billing"
kind = "script"
[[agent.card.skills]]
id = "refunds"
name = "Refunds"
description = "Pays money back"
tags = ["cap:billing.refund"]
[[agent.rule]]
do = [{ complete = "refunded" }]
"#;

#[test]
fn what_is_done_for_a_task_is_done_for_whoever_has_it_when_it_begins() {
    let home = ServerDirectory::new(&format!("[auth]\naccept = [\"api_key\"]\n{DESK}"));
    let [sender, ana, bob] = ["sender", "ana", "bob"].map(|name| key(&home, name));
    let server = TestServer::start_at(&home);
    let word = "fedcba9876543210fedcba9876543210";
    let digest: String = Sha256::digest(word).iter().map(|byte| format!("{byte:02x}")).collect();
    let context = json!({"transfer_id": "0198aaaa-0000-7000-8000-000000000031", "originating_agent": "https://a.example",
        "originating_task_id": "t", "required": ["billing.refund"], "scope": ["billing.refund"], "chain": [],
        "claim_digest": digest});
    let ask = |path: &str, method: &str, params: &Value, who: &str| {
        let request = Request::post(path, envelope(method, params)).with("Authorization", format!("Bearer {who}"));
        server.ask(&request.with("Sabir-Handoff-Claim", word)).json()
    };
    let made = ask("/", "SendMessage", &creation(true, &context), &sender)["result"]["task"].clone();
    let get = json!({"id": made["id"]});
    eventually("it is done", || state(&ask("/", "GetTask", &get, &ana)["result"]) == "TASK_STATE_COMPLETED");
    let children = |who: &str| ask("/agents/billing", "ListTasks", &json!({}), who)["result"]["tasks"].clone();
    assert_eq!(children(&sender), json!([]), "the sender's name is on nothing that was done");
    let child = json!({"id": children(&ana)[0]["id"]});
    assert!(child["id"].is_string());
    // The claim says nothing about the owner of the child task.
    assert_eq!(ask("/agents/billing", "GetTask", &child, &bob)["error"]["code"], -32001);
}

#[test]
fn a_task_that_was_held_is_not_held_again_where_it_is_passed_on() {
    let server = TestServer::start(DESK);
    let context = json!({"transfer_id": "0198aaaa-0000-7000-8000-000000000003", "originating_agent": "https://a.example",
        "originating_task_id": "t", "required": ["billing.refund"], "scope": ["billing.refund"], "chain": []});
    let made = server.ask(&Request::post("/", envelope("SendMessage", &creation(true, &context)))).json();
    let id = &made["result"]["task"]["id"];
    // Looking at it lets go of it.
    eventually("the agent that it was passed on to is done", || state(&server.get("/", id)) == "TASK_STATE_COMPLETED");
}

#[test]
fn what_a_task_may_be_used_for_holds_for_whoever_works_on_it() {
    let server = TestServer::start(
        r#"
[[agent]]
name = "desk"
kind = "dispatch"
default = true
[agent.dispatch]
agents = ["billing"]
fallback = "billing"
[agent.handoff]
[[agent.card.skills]]
id = "triage"
name = "Triage"
description = "Sorts requests"
tags = ["cap:triage"]
[[agent.card.skills]]
id = "refund"
name = "Refund"
description = "Pays money back"
tags = ["cap:billing.refund"]

[[agent]]
name = "billing"
kind = "script"
[[agent.card.skills]]
id = "refunds"
name = "Refunds"
description = "Pays money back"
tags = ["cap:billing.refund", "cap:billing.delete"]
[[agent.rule]]
do = [{ complete = "refunded" }]
"#,
    );
    let made = |number: u8, granted: Value| {
        let context = json!({"transfer_id": format!("0198aaaa-0000-7000-8000-00000000001{number}"),
            "originating_agent": "https://a.example", "originating_task_id": "t", "required": [granted[0]],
            "scope": granted, "chain": []});
        let made = server.ask(&Request::post("/", envelope("SendMessage", &creation(true, &context)))).json();
        let mut task = Value::Null;
        // Looking at it lets go of it.
        eventually("it has ended", || {
            task = server.get("/", &made["result"]["task"]["id"]);
            ["TASK_STATE_COMPLETED", "TASK_STATE_FAILED"].contains(&state(&task))
        });
        task
    };
    let refused = made(1, json!(["triage"]));
    assert_eq!(state(&refused), "TASK_STATE_FAILED", "{refused}");
    assert!(refused.to_string().contains("triage is all that was granted"), "{refused}");
    let done = made(2, json!(["triage", "billing.refund"]));
    assert_eq!(state(&done), "TASK_STATE_COMPLETED", "{done}");
    // The child has what was granted and its agent can do, and neither more of the one nor of the other.
    let children = server.result("/agents/billing", "ListTasks", &json!({"historyLength": 1}));
    let context = &children["tasks"][0]["history"][0]["metadata"][HANDOFF]["transfer_context"];
    assert_eq!((&children["totalSize"], &context["scope"]), (&json!(1), &json!(["billing.refund"])), "{children}");
}

#[test]
fn the_books_say_that_a_card_is_signed_where_its_signature_holds() {
    let home = ServerDirectory::new(&format!("[server.signing]\nkeys = [\"file:key.pem\"]\n{BILLING}"));
    CommandDirectory::new().run(&["card", "keys", "--new", home.path("key.pem").to_str().unwrap()]).expect_success();
    let billing = TestServer::start_at(&home);
    let triage = TestServer::start(&triage(&billing, ""));
    drop(triage.ask(&send("my money").with("A2A-Extensions", HANDOFF)));
    eventually("it is booked", || triage.log_text().contains("a handoff was attempted"));
    let said = triage.log_text().replace("\u{1b}[0m", "").replace("\u{1b}[2m", "");
    assert!(said.contains("signed=true"), "{said}");
}
