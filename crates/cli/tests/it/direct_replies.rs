//! A remote agent that answers with a message instead of a task: the caller gets a message, whatever the two speak.

use crate::http_client::Request;
use crate::rpc_client::{envelope, uuid};
use crate::stub_agent;
use crate::test_server::{TestServer, eventually};
use serde_json::{Value, json};
use std::sync::Arc;
use std::sync::atomic::{AtomicUsize, Ordering};

/// The version and the binding of a remote agent.
#[derive(Clone, Copy, Debug)]
struct Peer {
    v1: bool,
    rpc: bool,
}

const ALL: [Peer; 4] = [
    Peer { v1: true, rpc: true },
    Peer { v1: true, rpc: false },
    Peer { v1: false, rpc: true },
    Peer { v1: false, rpc: false },
];

impl Peer {
    fn card(self, url: &str) -> String {
        let binding = if self.rpc { "JSONRPC" } else { "HTTP+JSON" };
        let mut card: Value = serde_json::from_str(&stub_agent::card(url)).unwrap();
        if self.v1 {
            card["supportedInterfaces"][0]["protocolBinding"] = json!(binding);
        } else {
            card["supportedInterfaces"].take();
            card.as_object_mut().unwrap().remove("supportedInterfaces");
            card["protocolVersion"] = json!("0.3.0");
            card["url"] = json!(format!("{url}/rpc"));
            card["preferredTransport"] = json!(binding);
        }
        card.to_string()
    }

    /// Its answer to a message: a message.
    fn says(self, id: &Value) -> Value {
        let plain = json!({"messageId": "theirs", "role": "ROLE_AGENT"});
        let with = |name: &str, parts: Value| {
            let mut message = plain.clone();
            message[name] = parts;
            message
        };
        match self {
            Self { v1: true, rpc: true } => {
                let message = with("parts", json!([{"text": "hi"}]));
                json!({"jsonrpc": "2.0", "id": id, "result": {"message": message}})
            }
            Self { v1: true, rpc: false } => json!({"message": with("parts", json!([{"text": "hi"}]))}),
            Self { v1: false, rpc: true } => json!({"jsonrpc": "2.0", "id": id, "result": {
                "kind": "message", "messageId": "theirs", "role": "agent",
                "parts": [{"kind": "text", "text": "hi"}]}}),
            Self { v1: false, rpc: false } => json!({"message": with("content", json!([{"text": "hi"}]))}),
        }
    }

    /// Starts an agent that answers every message so, and counts its messages.
    fn start(self) -> (String, Arc<AtomicUsize>) {
        let (sent, url) = (Arc::new(AtomicUsize::new(0)), Arc::new(std::sync::OnceLock::<String>::new()));
        let (count, at) = (sent.clone(), url.clone());
        let here = stub_agent::serve(move |asked| {
            if asked.path.contains("/.well-known/") {
                return (200, "application/json", self.card(at.wait()));
            }
            count.fetch_add(1, Ordering::Relaxed);
            (200, "application/json", self.says(&asked.json()["id"]).to_string())
        });
        url.set(here.clone()).unwrap();
        (here, sent)
    }
}

/// The dialect of a caller, and whether it streams.
#[derive(Clone, Copy, Debug)]
struct Caller {
    peer: Peer,
    streams: bool,
}

impl Caller {
    fn request(self, id: &str) -> Request {
        let Self { peer, streams } = self;
        let named = json!({"messageId": id, "role": "ROLE_USER"});
        let with = |name: &str| {
            let mut message = named.clone();
            message[name] = json!([{"text": "hello"}]);
            json!({"message": message})
        };
        match (peer.v1, peer.rpc) {
            (true, true) => {
                let method = if streams { "SendStreamingMessage" } else { "SendMessage" };
                Request::post("/", envelope(method, &with("parts")))
            }
            (true, false) => {
                let path = if streams { "/message:stream" } else { "/message:send" };
                Request::post(path, with("parts").to_string())
            }
            (false, true) => {
                let method = if streams { "message/stream" } else { "message/send" };
                let message = json!({"kind": "message", "messageId": id, "role": "user",
                    "parts": [{"kind": "text", "text": "hello"}]});
                Request::post("/", envelope(method, &json!({"message": message}))).without("A2A-Version")
            }
            (false, false) => {
                let path = if streams { "/v1/message:stream" } else { "/v1/message:send" };
                Request::post(path, with("content").to_string()).without("A2A-Version")
            }
        }
    }

    /// The message of an answer; of a stream, its only event.
    fn message_of(self, text: &str) -> Value {
        let text = if self.streams {
            let events: Vec<&str> = text.lines().filter_map(|line| line.strip_prefix("data:")).collect();
            assert_eq!(events.len(), 1, "{self:?}: {text}");
            events[0]
        } else {
            text
        };
        let mut answer: Value = serde_json::from_str(text).unwrap_or_else(|e| panic!("{self:?}: {e}: {text}"));
        if self.peer.rpc {
            answer = answer["result"].take();
        }
        if self.peer.v1 || !self.peer.rpc {
            answer = answer["message"].take();
        } else {
            assert_eq!(answer["kind"], "message", "{self:?}: {answer}");
        }
        answer
    }
}

#[test]
fn a_message_of_an_agent_elsewhere_is_a_message_in_every_pair_of_dialects() {
    for theirs in ALL {
        let (url, sent) = theirs.start();
        let sabir =
            TestServer::start(&format!("[[agent]]\nname = \"far\"\nkind = \"a2a\"\ndefault = true\nurl = \"{url}\"\n"));
        for ours in ALL {
            for streams in [false, true] {
                let (caller, id) = (Caller { peer: ours, streams }, uuid());
                let before = sent.load(Ordering::Relaxed);
                let first = caller.message_of(&sabir.ask(&caller.request(&id)).text());
                let parts = first.get("parts").or_else(|| first.get("content")).unwrap_or(&Value::Null);
                assert_eq!(parts[0]["text"], "hi", "{theirs:?} to {caller:?}: {first}");
                assert_eq!(first.get("taskId").filter(|id| !id.as_str().unwrap_or_default().is_empty()), None);
                // The same send again is answered from the log.
                assert_eq!(caller.message_of(&sabir.ask(&caller.request(&id)).text()), first);
                assert_eq!(sent.load(Ordering::Relaxed) - before, 1, "{theirs:?} to {caller:?}");
            }
        }
        // Each is kept as a task that completed with it, and says so.
        let tasks = sabir.result("/", "ListTasks", &json!({"pageSize": 100}));
        assert_eq!(tasks["totalSize"], 8, "{tasks}");
        for task in tasks["tasks"].as_array().unwrap() {
            let told = (&task["status"]["state"], &task["status"]["message"]["parts"][0]["text"]);
            assert_eq!(told, (&json!("TASK_STATE_COMPLETED"), &json!("hi")), "{task}");
            assert_eq!(task["metadata"]["urn:sabir:ext:direct-message:v1"], true, "{task}");
        }
    }
}

#[test]
fn a_dialect_without_direct_replies_gets_the_task() {
    let (url, _) = ALL[0].start();
    let sabir =
        TestServer::start(&format!("[[agent]]\nname = \"far\"\nkind = \"a2a\"\ndefault = true\nurl = \"{url}\"\n"));
    let params = json!({"id": uuid(), "message": {"role": "user", "parts": [{"type": "text", "text": "hello"}]}});
    let answer = sabir.ask(&Request::post("/", envelope("tasks/send", &params)).without("A2A-Version")).json();
    assert_eq!(answer["result"]["status"]["state"], "completed", "{answer}");
    assert_eq!(answer["result"]["status"]["message"]["parts"][0]["text"], "hi", "{answer}");
}

#[test]
fn what_an_agent_elsewhere_does_not_take_is_refused_before_there_is_a_task() {
    let (url, sent) = ALL[0].start();
    let sabir =
        TestServer::start(&format!("[[agent]]\nname = \"far\"\nkind = \"a2a\"\ndefault = true\nurl = \"{url}\"\n"));
    let card = || sabir.ask(&Request::get("/.well-known/agent-card.json")).json();
    eventually("its card is followed", || card()["name"] == "Stub");
    let card = card();
    assert_eq!(card["defaultInputModes"], json!(["text/plain"]), "{card}");
    assert_eq!(card["defaultOutputModes"], json!(["text/plain"]), "{card}");
    let message = json!({"messageId": uuid(), "role": "ROLE_USER", "parts": [{"text": "what is this?"},
        {"raw": "iVBORw==", "mediaType": "image/png"}]});
    sabir.expect_error("/", "SendMessage", &json!({"message": message}), crate::rpc_client::CONTENT_TYPE);
    assert_eq!((sabir.task_count("/"), sent.load(Ordering::Relaxed)), (0, 0));
    let text = json!({"messageId": uuid(), "role": "ROLE_USER", "parts": [{"text": "x", "mediaType": "text/plain"}]});
    assert_eq!(sabir.result("/", "SendMessage", &json!({"message": text}))["message"]["parts"][0]["text"], "hi");
}

#[test]
fn an_agent_elsewhere_that_does_not_say_what_it_takes_is_sent_everything() {
    let here = Arc::new(std::sync::OnceLock::<String>::new());
    let at = here.clone();
    let url = stub_agent::serve(move |asked| {
        if asked.path.contains("/.well-known/") {
            let mut card: Value = serde_json::from_str(&stub_agent::card(at.wait())).unwrap();
            card.as_object_mut().unwrap().remove("defaultInputModes");
            return (200, "application/json", card.to_string());
        }
        (200, "application/json", ALL[0].says(&asked.json()["id"]).to_string())
    });
    here.set(url.clone()).unwrap();
    let sabir =
        TestServer::start(&format!("[[agent]]\nname = \"far\"\nkind = \"a2a\"\ndefault = true\nurl = \"{url}\"\n"));
    eventually("its card is followed", || {
        sabir.ask(&Request::get("/.well-known/agent-card.json")).json()["name"] == "Stub"
    });
    let message =
        json!({"messageId": uuid(), "role": "ROLE_USER", "parts": [{"raw": "iVBORw==", "mediaType": "image/png"}]});
    assert_eq!(sabir.result("/", "SendMessage", &json!({"message": message}))["message"]["parts"][0]["text"], "hi");
}
