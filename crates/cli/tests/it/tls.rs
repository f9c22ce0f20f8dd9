//! HTTPS: everything is served inside of it, and no client gets in by being slow, silent or plain.

use crate::certificate_authority::{CertificateAuthority, LOCAL, tls_section};
use crate::http_client::{HttpConnection, Request};
use crate::protocols::Http2;
use crate::rpc_client::{DESK_PATH, artifact_text, envelope, send_params, state};
use crate::test_server::{AGENTS, ServerDirectory, TestServer, eventually};
use rustls::ProtocolVersion;
use rustls::version::{TLS12, TLS13};
use std::time::Duration;

/// A server over HTTPS, called by a client that trusts its authority.
pub(crate) fn secured(authority: &CertificateAuthority, tls: &str, config: &str) -> TestServer {
    let pair = authority.server("server");
    let home = ServerDirectory::new(&(tls_section(&pair.cert, &pair.key, tls) + config));
    TestServer::start_at(&home).with_tls_client(&authority.trusting_client().config())
}

fn limited(lines: &str) -> String {
    AGENTS.replace("[limits]", &format!("[limits]\n{lines}"))
}

#[test]
fn every_binding_is_served_inside_of_tls() {
    let authority = CertificateAuthority::new();
    let sabir = secured(&authority, "", AGENTS);
    sabir.still_serves();
    let rest = sabir.ask(&Request::post("/message:send", send_params("x").to_string()));
    assert_eq!(state(&rest.json()["task"]), "TASK_STATE_COMPLETED");
    let frames = sabir.stream(DESK_PATH, "SendStreamingMessage", &send_params("tick")).rest();
    assert_eq!(artifact_text(&frames), "0123456789");
    // HTTP/2 is agreed on in the handshake, and with it comes gRPC.
    let both = authority.trusting_client().with_alpn(&[b"h2", b"http/1.1"]).config();
    let sabir = sabir.with_tls_client(&both);
    assert_eq!(sabir.connect().session().alpn_protocol(), Some(&b"h2"[..]));
    let host = sabir.address.to_string();
    let mut client = Http2::open(&sabir);
    let list = client.grpc(&host, "/lf.a2a.v1.A2AService/ListTasks", b"");
    assert!(!list.is_empty(), "there are tasks, and they are listed");
}

#[test]
fn cards_say_where_they_are_served() {
    let authority = CertificateAuthority::new();
    let sabir = secured(&authority, "", AGENTS);
    let card = sabir.ask(&Request::get("/.well-known/agent-card.json")).json();
    let here = format!("https://{}/", sabir.address);
    let interfaces = card["supportedInterfaces"].as_array().unwrap();
    assert!(interfaces.iter().any(|i| i["protocolBinding"] == "JSONRPC" && i["url"] == here.as_str()), "{card}");
    assert!(!card.to_string().contains("http://"), "{card}");
}

#[test]
fn the_newest_version_is_taken_and_the_oldest_can_be_named() {
    let authority = CertificateAuthority::new();
    let (old, new) = (
        authority.trusting_client().with_only_version(&TLS12).config(),
        authority.trusting_client().with_only_version(&TLS13).config(),
    );
    let sabir = secured(&authority, "", AGENTS);
    let spoken = |sabir: &TestServer| sabir.connect().session().protocol_version();
    assert_eq!(spoken(&sabir), Some(ProtocolVersion::TLSv1_3), "where both have it");
    let sabir = sabir.with_tls_client(&old);
    assert_eq!(spoken(&sabir), Some(ProtocolVersion::TLSv1_2));
    sabir.still_serves();
    let strict = secured(&authority, "min_version = \"1.3\"", AGENTS).with_tls_client(&new);
    strict.still_serves();
    let refusal = HttpConnection::open_tls(strict.address, old).err().unwrap().to_string();
    assert!(refusal.contains("ProtocolVersion"), "{refusal}");
    // Counted when the server has noticed, which may be after its client has.
    let counted = "sabir_tls_handshake_failures_total{reason=\"incompatible\"} 1";
    eventually("the failure is counted", || strict.ask(&Request::get("/metrics")).text().contains(counted));
}

#[test]
fn a_protocol_that_nobody_speaks_is_refused_and_none_is_http1() {
    let authority = CertificateAuthority::new();
    let sabir = secured(&authority, "", AGENTS);
    let refusal = HttpConnection::open_tls(sabir.address, authority.trusting_client().with_alpn(&[b"spdy/3"]).config())
        .err()
        .unwrap();
    assert!(refusal.to_string().contains("NoApplicationProtocol"), "{refusal}");
    sabir.with_tls_client(&authority.trusting_client().with_alpn(&[]).config()).still_serves();
}

#[test]
fn who_speaks_plain_http_is_told_so() {
    let authority = CertificateAuthority::new();
    let sabir = secured(&authority, "", AGENTS);
    let body = envelope("SendMessage", &send_params("x".repeat(100_000).as_str()));
    for request in [Request::get("/healthz"), Request::post("/", body)] {
        let mut plain = HttpConnection::open(sabir.address);
        plain.send(&request);
        let reply = plain.response();
        assert_eq!(reply.status, 400);
        assert!(reply.text().contains("https://"), "{}", reply.text());
        assert!(plain.ends());
    }
    let counted = "sabir_tls_handshake_failures_total{reason=\"plain_http\"} 2";
    eventually("both are counted", || sabir.ask(&Request::get("/metrics")).text().contains(counted));
    for garbage in [&b"\0\0\0\0"[..], b"hello", b"\x16\x03\x01\x00\x05hello", b"\x80\x2e\x01\x03\x01"] {
        let mut wire = HttpConnection::open(sabir.address);
        wire.write(garbage);
        wire.half_close();
        assert!(wire.ends(), "{garbage:?}");
    }
    // A client that only looks whether the port is open has done nothing wrong.
    let failures = || {
        let text = sabir.ask(&Request::get("/metrics")).text();
        text.lines()
            .filter(|line| line.starts_with("sabir_tls_handshake_failures"))
            .map(str::to_owned)
            .collect::<Vec<_>>()
    };
    // A connection is counted as failed before it is counted as closed.
    eventually("the garbage is gone", || sabir.metric("sabir_open_connections") <= 1.0);
    let before = failures();
    (0..3).for_each(|_| drop(HttpConnection::open(sabir.address)));
    eventually("they are gone", || sabir.metric("sabir_open_connections") <= 1.0);
    assert_eq!(failures(), before);
    assert_eq!(sabir.task_count("/"), 0, "and nothing was done");
    sabir.still_serves();
    eventually("all connections are given back", || sabir.metric("sabir_open_connections") <= 1.0);
}

#[test]
fn a_handshake_that_takes_too_long_is_given_up() {
    let authority = CertificateAuthority::new();
    let sabir = secured(&authority, "", &limited("header_seconds_max = 1\nconnections_max = 3"));
    // Nothing; a part of a record; a record that promises more than comes.
    for beginning in [&b""[..], b"\x16", b"\x16\x03\x01\x02\x00\x01\x00\x01\xfc\x03\x03"] {
        let slow: Vec<HttpConnection> = (0..3)
            .map(|_| {
                let mut wire = HttpConnection::open(sabir.address);
                wire.write(beginning);
                wire
            })
            .collect();
        // All places are taken, and come back.
        sabir.still_serves();
        assert!(slow.into_iter().all(|mut wire| wire.ends()));
    }
    assert_eq!(sabir.metric("sabir_tls_handshake_failures_total{reason=\"timeout\"}"), 9.0);
}

#[test]
fn who_says_nothing_after_the_handshake_is_given_up() {
    let authority = CertificateAuthority::new();
    let sabir = secured(&authority, "", &limited("header_seconds_max = 1\nconnections_max = 3"));
    let kinds: [(&[u8], [&[u8]; 3]); 2] =
        [(b"http/1.1", [b"", b"P", b"GET / "]), (b"h2", [b"", b"P", b"PRI * HTTP/2.0\r\n\r\n"])];
    for (alpn, beginnings) in kinds {
        let config = authority.trusting_client().with_alpn(&[alpn]).config();
        let begin = |beginning: &[u8]| {
            let mut wire = HttpConnection::open_tls(sabir.address, config.clone()).unwrap();
            wire.write(beginning);
            wire
        };
        let silent = beginnings.map(begin);
        sabir.still_serves();
        assert!(silent.into_iter().all(|mut wire| wire.ends()));
    }
}

#[test]
fn an_answer_may_take_longer_than_a_head() {
    // The clock of the first bytes stops with them.
    let authority = CertificateAuthority::new();
    let config = "[limits]\nheader_seconds_max = 1\n[[agent]]\nname = \"demo\"\nkind = \"script\"\ndefault = true\n\
                  [[agent.rule]]\ndo = [{ wait_ms = 2500 }, { complete = \"late\" }]\n";
    let sabir = secured(&authority, "", config);
    let task = sabir.send("/", &send_params("x"));
    assert_eq!(state(&task), "TASK_STATE_COMPLETED");
}

#[test]
fn an_idle_server_stops_although_clients_are_connected() {
    let authority = CertificateAuthority::new();
    let mut sabir = secured(&authority, "", &limited("header_seconds_max = 600"));
    let h2 = authority.trusting_client().with_alpn(&[b"h2"]).config();
    let mut used = sabir.connect();
    used.send(&Request::get("/healthz"));
    assert_eq!(used.response().status, 200);
    let unshaken = HttpConnection::open(sabir.address);
    let mut half = HttpConnection::open(sabir.address);
    half.write(b"\x16\x03\x01\x02\x00");
    let silent = (sabir.connect(), HttpConnection::open_tls(sabir.address, h2).unwrap());
    sabir.still_serves();
    sabir.send_sigterm();
    let asked = std::time::Instant::now();
    assert!(sabir.wait_for_exit().success());
    assert!(asked.elapsed() < Duration::from_secs(8), "nobody waits for an answer, so nobody has to be waited for");
    drop((used, unshaken, half, silent));
}

#[test]
fn clients_that_stop_reading_cost_little_memory() {
    let authority = CertificateAuthority::new();
    let chunk = "s".repeat(64 << 10);
    let steps: Vec<String> = (0..160)
        .map(|n| format!("{{ artifact = {{ id = \"s\", text = \"{chunk}\", append = {} }} }}", n > 0))
        .collect();
    let story = format!("[[agent]]\nname = \"story\"\nkind = \"script\"\n[[agent.rule]]\ndo = [{}]\n", steps.join(","));
    let sabir = secured(&authority, "", &(AGENTS.to_owned() + &story));
    let first = sabir.send("/agents/story", &send_params("tell"));
    let id = serde_json::json!({"id": first["id"]});
    let before = sabir.resident_bytes();
    let idle: Vec<_> = (0..24).map(|_| sabir.stream_after("/agents/story", "SubscribeToTask", &id, Some(0))).collect();
    sabir.still_serves();
    let more = sabir.resident_bytes().saturating_sub(before) >> 20;
    assert!(more <= 96, "24 idle readers took {more} MiB");
    let mut last = idle.into_iter().next_back().unwrap();
    let frames = last.rest();
    assert!(!last.broken && frames.iter().filter(|f| f.chunk().is_some()).count() == 160, "it gets everything later");
}

#[test]
fn it_answers_to_the_names_of_its_certificate() {
    assert!(LOCAL.contains("DNS:agents.test"));
    let authority = CertificateAuthority::new();
    let sabir = secured(&authority, "", AGENTS);
    let status = |host: &str| sabir.ask(&Request::get("/healthz").with("Host", host)).status;
    let port = sabir.address.port();
    for good in ["agents.test", "AGENTS.test", "one.wild.test"] {
        assert_eq!((status(good), status(&format!("{good}:{port}"))), (200, 200), "{good}");
    }
    for bad in ["evil.example", "wild.test", "two.one.wild.test", ".wild.test", "agents.test.evil.example"] {
        assert_eq!(status(bad), 421, "{bad}");
    }
    let from = |origin: &str| sabir.ask(&Request::get("/healthz").with("Origin", origin)).status;
    assert_eq!(from(&format!("https://agents.test:{port}")), 200);
    assert_eq!((from("https://agents.test"), from(&format!("http://agents.test:{port}"))), (403, 403));
}
