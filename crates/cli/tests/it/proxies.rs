//! The address of a client behind a proxy: only the configured proxies are believed. The log shows the address a
//! request is taken to be from.

use crate::http_client::Request;
use crate::rpc_client::{envelope, send_params};
use crate::test_server::{AGENTS, ServerDirectory, TestServer, eventually};
use serde_json::Value;

/// A server that writes down every request.
fn logging_server(server: &str) -> TestServer {
    let home = ServerDirectory::new(&format!("[server]\n{server}\n[auth]\nopen = true\n{AGENTS}"));
    let mut command = home.command();
    command.env("SABIR_LOG", "debug").env("SABIR_LOG_FORMAT", "json");
    TestServer::run(&home, command)
}

/// Whom a request with these headers is taken to be from.
#[track_caller]
fn check(sabir: &TestServer, id: &str, headers: &[(&str, &str)], expected: &str) {
    let mut request = Request::get("/healthz").with("X-Request-Id", id);
    for (name, value) in headers {
        request = request.with(name, *value);
    }
    assert_eq!(sabir.ask(&request).status, 200);
    let line = || {
        sabir
            .log_text()
            .lines()
            .filter_map(|line| serde_json::from_str::<Value>(line).ok())
            .find(|l| l["span"]["id"] == id)
    };
    eventually("the request is in the log", || line().is_some());
    assert_eq!(line().unwrap()["span"]["peer"], expected, "{id}");
}

#[test]
fn strangers_cannot_say_who_they_are_from() {
    for server in ["", "proxies = []", "proxies = [\"10.0.0.0/8\", \"192.0.2.7\"]"] {
        let sabir = logging_server(server);
        check(&sabir, "xff", &[("X-Forwarded-For", "198.51.100.9")], "127.0.0.1");
        check(&sabir, "fwd", &[("Forwarded", "for=198.51.100.9")], "127.0.0.1");
        check(&sabir, "real", &[("X-Real-IP", "198.51.100.9")], "127.0.0.1");
    }
}

#[test]
fn a_configured_proxy_is_believed_as_far_as_its_own_words_go() {
    let sabir = logging_server("proxies = [\"127.0.0.0/8\", \"10.0.0.0/8\"]");
    check(&sabir, "none", &[], "127.0.0.1");
    check(&sabir, "one", &[("X-Forwarded-For", "198.51.100.9")], "198.51.100.9");
    check(&sabir, "forged", &[("X-Forwarded-For", "203.0.113.1, 198.51.100.9, 10.0.0.1")], "198.51.100.9");
    check(&sabir, "standard", &[("Forwarded", "for=\"[2001:db8::9]:443\";proto=https")], "2001:db8::9");
    check(&sabir, "hidden", &[("Forwarded", "for=_secret")], "127.0.0.1");
    check(&sabir, "rubbish", &[("X-Forwarded-For", &"x,".repeat(5000))], "127.0.0.1");
    check(&sabir, "apart", &[("X-Forwarded-For", "198.51.100.9"), ("Forwarded", "for=203.0.113.1")], "127.0.0.1");
    sabir.still_serves();
}

#[test]
fn what_is_no_network_is_refused() {
    let home = ServerDirectory::new("[server]\nproxies = [\"proxy.example\"]\n");
    let said = home.expect_start_refused(home.command());
    assert!(said.contains("proxy.example") && said.contains("10.0.0.0/8"), "{said}");
}

/// The statuses of so many sends by a client that claims this address.
fn sends(sabir: &TestServer, address: &str, times: usize) -> Vec<u16> {
    let send = |_| {
        let request = Request::post("/", envelope("SendMessage", &send_params("x"))).with("X-Forwarded-For", address);
        sabir.ask(&request).status
    };
    (0..times).map(send).collect()
}

#[test]
fn limits_are_counted_by_the_client_behind_the_proxy() {
    let config = |proxies: &str| {
        let agents = AGENTS.replace("[limits]", "[limits]\nanonymous_per_minute = 2");
        format!("[server]\nproxies = {proxies}\n[auth]\naccept = [\"api_key\"]\nrequired = false\n{agents}")
    };
    let behind = TestServer::start(&config("[\"127.0.0.1\"]"));
    assert_eq!(sends(&behind, "198.51.100.1", 3), [200, 200, 429]);
    assert_eq!(sends(&behind, "198.51.100.2", 3), [200, 200, 429]);
    assert_eq!(sends(&behind, "203.0.113.1, 198.51.100.2", 1), [429], "an address more changes nothing");
    // A made-up address gives a client no new account.
    let direct = TestServer::start(&config("[]"));
    assert_eq!(sends(&direct, "198.51.100.1", 2), [200, 200]);
    assert_eq!(sends(&direct, "198.51.100.2", 1), [429]);
}
