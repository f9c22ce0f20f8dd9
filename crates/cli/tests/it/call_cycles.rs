//! Circles of agents through an agent that drops what it does not know.

use crate::rpc_client::send_params;
use crate::stub_agent::{self, StubRequest, StubResponse};
use crate::test_server::TestServer;
use serde_json::{Value, json};
use std::io::{Read as _, Write as _};
use std::net::{SocketAddr, TcpStream};
use std::sync::atomic::{AtomicUsize, Ordering};
use std::sync::{Arc, OnceLock};

/// What the agent in the middle passes on besides the text.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum ForwardedData {
    Conversation,
    MessageName,
    Headers,
}

/// An agent that asks ours again, and answers what that answers; and how often it was asked.
fn forwarding_agent(keeps: ForwardedData, hub: Arc<OnceLock<SocketAddr>>) -> (String, Arc<AtomicUsize>) {
    let rounds = Arc::new(AtomicUsize::new(0));
    let counted = rounds.clone();
    let url = stub_agent::serve(move |asked: &StubRequest| -> StubResponse {
        if asked.path.starts_with("/.well-known/") {
            let at = format!("http://{}", asked.header("host").unwrap_or_default());
            return (200, "application/json", stub_agent::card(&at));
        }
        let call = asked.json();
        if call["method"] != "SendMessage" {
            let error = json!({"code": -32001, "message": "no such task"});
            return (200, "application/json", json!({"jsonrpc": "2.0", "id": call["id"], "error": error}).to_string());
        }
        let round = counted.fetch_add(1, Ordering::Relaxed);
        let said = &call["params"]["message"];
        let mut message = json!({"role": "ROLE_USER", "messageId": format!("m-{round}"), "parts": said["parts"]});
        let mut header = String::new();
        match keeps {
            ForwardedData::Conversation => message["contextId"] = said["contextId"].clone(),
            ForwardedData::MessageName => message["messageId"] = said["messageId"].clone(),
            ForwardedData::Headers => {
                header = format!("sabir-lineage: {}\r\n", asked.header("sabir-lineage").unwrap_or_default());
            }
        }
        // A circle that is not recognised goes on for ever; the test ends it.
        let heard = if round < 5 { ask(*hub.get().unwrap(), &message, &header) } else { "round and round".into() };
        let said = json!({"role": "ROLE_AGENT", "messageId": "a-1", "parts": [{"text": heard}]});
        (200, "application/json", json!({"jsonrpc": "2.0", "id": call["id"], "result": {"message": said}}).to_string())
    });
    (url, rounds)
}

fn ask(hub: SocketAddr, message: &Value, header: &str) -> String {
    let body = json!({"jsonrpc": "2.0", "id": 1, "method": "SendMessage", "params": {"message": message}}).to_string();
    let head = format!(
        "POST /agents/s HTTP/1.1\r\nhost: {hub}\r\ncontent-type: application/json\r\na2a-version: 1.0\r\n{header}\
         connection: close\r\ncontent-length: {}\r\n\r\n",
        body.len()
    );
    let mut stream = TcpStream::connect(hub).unwrap();
    stream.write_all(format!("{head}{body}").as_bytes()).unwrap();
    let mut heard = String::new();
    stream.read_to_string(&mut heard).unwrap();
    heard
}

#[test]
fn a_circle_is_seen_through_whatever_is_kept_of_where_it_comes_from() {
    for keeps in [ForwardedData::Conversation, ForwardedData::MessageName, ForwardedData::Headers] {
        let hub = Arc::new(OnceLock::new());
        let (url, rounds) = forwarding_agent(keeps, hub.clone());
        let agent = format!("[[agent]]\nname = \"s\"\nkind = \"a2a\"\nurl = \"{url}\"\n");
        let sabir =
            TestServer::start(&format!("{agent}[[agent]]\nname = \"other\"\nkind = \"echo\"\ndefault = true\n"));
        hub.set(sabir.address).unwrap();
        // The agent in the middle answers with a message, and so does ours.
        let said = sabir.result("/agents/s", "SendMessage", &send_params("round"))["message"].take();
        assert_eq!(rounds.load(Ordering::Relaxed), 1, "{keeps:?}: {said}");
        assert!(said.to_string().contains("waiting for this very answer"), "{keeps:?}: {said}");
        // The next one is no circle.
        sabir.result("/agents/s", "SendMessage", &send_params("round"));
        assert_eq!(rounds.load(Ordering::Relaxed), 2);
    }
}
