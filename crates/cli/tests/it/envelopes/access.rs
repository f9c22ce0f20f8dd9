//! Which keys may send envelopes, and over which connections.

use super::{envelope, expect, home, key, network, post, request};
use crate::certificate_authority::{CertificateAuthority, tls_section};
use crate::command_runner::CommandDirectory;
use crate::http_client::Request;
use crate::test_server::{TestServer, eventually};
use rustls::version::TLS12;
use serde_json::{Value, json};

#[test]
fn keys_are_for_what_their_scopes_tiers_and_senders_say() {
    let home = home("");
    let make = |flags: &[&str]| key(&home, flags);
    let free = make(&["--tier", "free"]);
    let query = make(&["--tier", "pro", "--scope", "query"]);
    let booking = make(&["--tier", "enterprise", "--scope", "booking"]);
    let bound = make(&["--tier", "pro", "--from", "my_agent_007"]);
    let plain = make(&[]);
    let sabir = TestServer::start_at(&home);
    let order = |n: i64| {
        let mut order = envelope("booking.confirm", &json!({"venue_id": "warung"}));
        order["timestamp"] = super::stamp(n).into();
        order
    };
    let ping = envelope("network.ping", &json!({}));
    for key in [&free, &query, &booking, &plain] {
        expect(&post(&sabir, key, &ping), 200, "ok");
    }
    expect(&post(&sabir, &free, &order(1)), 403, "tier_required");
    expect(&post(&sabir, &query, &order(2)), 403, "scope_required");
    expect(&post(&sabir, &plain, &order(3)), 403, "tier_required");
    expect(&post(&sabir, &booking, &order(4)), 200, "ok");
    // What a caller says of itself is nothing but text.
    let mut boasting = order(5);
    boasting["agent_context"] = json!({"tier": "enterprise"});
    expect(&post(&sabir, &free, &boasting), 403, "tier_required");
    expect(&post(&sabir, &bound, &ping), 403, "agent_mismatch");
    let mut own = ping;
    own["from"] = "my_agent_007".into();
    let reply = post(&sabir, &bound, &own);
    assert_eq!(reply.json()["payload"]["agent_id"], "my_agent_007");
}

#[test]
fn a_key_that_was_taken_back_opens_nothing() {
    let home = home("");
    let pro = key(&home, &["--tier", "pro"]);
    let sabir = TestServer::start_at(&home);
    let ping = envelope("network.ping", &json!({}));
    expect(&post(&sabir, &pro, &ping), 200, "ok");
    let data = home.data().display().to_string();
    let desk = CommandDirectory::new();
    let id = desk.run(&["key", "list", "-o", "json", "--data", &data]).json()["keys"][0]["id"].clone();
    desk.run(&["key", "revoke", id.as_str().unwrap(), "--data", &data]).expect_success();
    eventually("the key is gone", || post(&sabir, &pro, &ping).status == 401);
}

#[test]
fn without_a_network_there_is_no_such_path() {
    let home =
        crate::test_server::ServerDirectory::new("[[agent]]\nname = \"demo\"\nkind = \"echo\"\ndefault = true\n");
    let sabir = TestServer::start_at(&home);
    let body = envelope("network.ping", &json!({})).to_string();
    assert_eq!(sabir.ask(&Request::post("/a2a/v1", body.clone())).status, 404);
    assert_eq!(sabir.ask(&Request::get("/a2a/v1/status")).status, 404);
    drop(sabir);
    let (sabir, key) = network();
    for path in ["/agents/network/a2a/v1", "/a2a/v1/", "/a2a/v2"] {
        let request = Request::post(path, body.clone()).with("Authorization", format!("Bearer {key}"));
        assert_eq!(sabir.ask(&request).status, 404, "{path}");
    }
}

#[test]
fn the_status_is_for_everybody_and_says_no_names() {
    let (sabir, _) = network();
    let reply = sabir.ask(&Request::get("/a2a/v1/status"));
    assert_eq!((reply.status, reply.header("Cache-Control")), (200, Some("public, max-age=5")));
    let said = reply.json();
    assert_eq!((&said["status"], &said["protocol"]), (&json!("ok"), &json!("openclaw/a2a/v1")));
    assert_eq!((&said["network"], &said["breaker"]["global"]), (&json!("network:agnt"), &json!("closed")));
    assert!(said["intents"].as_array().unwrap().contains(&Value::from("booking.confirm")));
    assert!(said["network_version"].is_string() && said["time"].as_str().unwrap().ends_with('Z'));
    assert!(!reply.text().contains("brisa"));
    assert_eq!(sabir.ask(&Request::post("/a2a/v1/status", "{}")).status, 405);
}

#[test]
fn in_production_a_key_goes_over_the_latest_tls_or_nowhere() {
    let authority = CertificateAuthority::new();
    let pair = authority.server("server");
    let home = home(&tls_section(&pair.cert, &pair.key, ""));
    let pro = key(&home, &["--tier", "pro"]);
    let mut command = home.command();
    command.arg("--production");
    let sabir = TestServer::run(&home, command);
    let ping = envelope("network.ping", &json!({}));
    let trusted = authority.trusting_client();
    let sabir = sabir.with_tls_client(&trusted.config());
    expect(&post(&sabir, &pro, &ping), 200, "ok");
    let sabir = sabir.with_tls_client(&trusted.with_only_version(&TLS12).config());
    expect(&post(&sabir, &pro, &ping), 403, "tls_required");
    // Everything else is served as before.
    assert_eq!(sabir.ask(&Request::get("/healthz")).status, 200);
}

#[test]
fn plain_http_is_refused_in_production_unless_a_proxy_of_ours_says_it_was_tls() {
    let ping = envelope("network.ping", &json!({})).to_string();
    let start = |proxies: &str| {
        let home = home(&format!("[server]\nproxies = {proxies}\n"));
        let pro = key(&home, &["--tier", "pro"]);
        let mut command = home.command();
        command.arg("--production");
        (TestServer::run(&home, command), pro)
    };
    let told = |(sabir, pro): &(TestServer, String), proto: Option<&str>| {
        let mut request = request(pro, ping.clone());
        if let Some(proto) = proto {
            request = request.with("X-Forwarded-Proto", proto).with("X-Forwarded-For", "198.51.100.9");
        }
        let reply = sabir.ask(&request);
        assert_eq!(reply.header("Location"), None);
        super::verdict(&reply)
    };
    let refused = (403, "tls_required".to_owned());
    let sabir = start("[]");
    assert_eq!(told(&sabir, None), refused);
    assert_eq!(told(&sabir, Some("https")), refused);
    drop(sabir);
    let sabir = start("[\"127.0.0.1\"]");
    assert_eq!(told(&sabir, None), refused);
    assert_eq!(told(&sabir, Some("http")), refused);
    assert_eq!(told(&sabir, Some("https")), (200, "ok".to_owned()));
}
