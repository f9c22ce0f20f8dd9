//! Hostile requests by the hundred: whatever they cost while they are served, none of it is kept.

use crate::http_client::{HttpConnection, Request};
use crate::rpc_client::{envelope, message, send_params};
use crate::test_server::TestServer;
use serde_json::json;
use std::thread;

/// Requests of each kind.
const EACH: usize = 300;
/// What may stay, in MiB: allocators keep some of what they once had.
const SLACK_MIB: u64 = 64;
/// The size of the large ones. The limit of bodies is set just above.
const LARGE: usize = 512 << 10;

const CONFIG: &str = r#"
[limits]
body_bytes_max = 524288
[[agent]]
name = "demo"
kind = "echo"
default = true
"#;

/// A kind of request with the status it is answered with, if it is answered.
type HostileRequest = (&'static str, Vec<u8>, Option<u16>);

fn hostile_requests(sabir: &TestServer) -> Vec<HostileRequest> {
    let rpc = |body: Vec<u8>| Request::post("/", body).bytes(sabir.address);
    let send = |part: &str| {
        let params = format!(r#"{{"message":{{"messageId":"m","role":"ROLE_USER","parts":[{part}]}}}}"#);
        Request::post("/message:send", params).bytes(sabir.address)
    };
    let deep = LARGE / 2 - 200;
    let nested = format!("{}{}", "[".repeat(deep), "]".repeat(deep));
    let doubled = format!("{{{}\"k0\":1}}", (0..20_000).map(|n| format!("\"k{n}\":{n},")).collect::<String>());
    let mut many = json!({"message": message("x")});
    many["message"]["parts"] = json!(vec![json!({"text": ""}); 10_000]);
    let mut named = json!({"message": message("x")});
    named["message"]["contextId"] = json!("x".repeat(10_000));
    let mut not_utf8 = envelope("SendMessage", &send_params(&"x".repeat(LARGE - 1000))).into_bytes();
    let middle = not_utf8.len() / 2;
    not_utf8[middle] = 0xff;
    let chunked = Request::post("/", "").with("Transfer-Encoding", "chunked").head(sabir.address);
    let chunk = format!("{:x}\r\n{}\r\n", LARGE + 1, " ".repeat(LARGE + 1));
    let half = Request::post("/", vec![b' '; LARGE]).bytes(sabir.address)[..LARGE / 2].to_vec();
    vec![
        ("deeply nested", send(&format!("{{\"data\":{nested}}}")), Some(400)),
        ("deeply nested, cut off", rpc(vec![b'['; LARGE]), Some(200)),
        ("duplicate members", send(&format!("{{\"data\":{doubled}}}")), Some(400)),
        ("not UTF-8", rpc(not_utf8), Some(200)),
        ("ten thousand parts", rpc(envelope("SendMessage", &many).into()), Some(200)),
        ("ten kilobytes of id", rpc(envelope("SendMessage", &named).into()), Some(200)),
        ("unknown method", rpc(envelope(&"m".repeat(LARGE - 1000), &json!({})).into()), Some(200)),
        (
            "huge number",
            rpc(format!(
                r#"{{"jsonrpc":"2.0","id":1,"method":"GetTask","params":{{"id":{}}}}}"#,
                "9".repeat(LARGE - 1000)
            )
            .into()),
            Some(200),
        ),
        ("oversized", [chunked, chunk.into()].concat(), Some(413)),
        ("left in the middle", half, None),
    ]
}

fn mib(bytes: u64) -> u64 {
    bytes >> 20
}

#[test]
fn hundreds_of_hostile_requests_leave_no_memory_behind() {
    let sabir = TestServer::start(CONFIG);
    let kinds = hostile_requests(&sabir);
    let volley = |bytes: &[u8], status: Option<u16>, times: usize| {
        for _ in 0..times {
            let mut wire = HttpConnection::open(sabir.address);
            let _ = wire.try_write(bytes);
            if let Some(status) = status {
                assert_eq!(wire.response().status, status);
            }
        }
    };
    // Once round before anything is measured, so that what is only ever allocated once is there.
    kinds.iter().for_each(|(_, bytes, status)| volley(bytes, *status, 4));
    let before = mib(sabir.resident_bytes());
    for (name, bytes, status) in &kinds {
        thread::scope(|scope| {
            (0..4).for_each(|_| drop(scope.spawn(|| volley(bytes, *status, EACH / 4))));
        });
        let now = mib(sabir.resident_bytes());
        assert!(now <= before + SLACK_MIB, "{before} MiB before, {now} MiB after {EACH} requests of the kind: {name}");
        sabir.still_serves();
    }
}
