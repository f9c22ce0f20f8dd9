//! On a platform that hosts the process: its port, its proxy that speaks TLS, and everything else of production.

use crate::command_runner::CommandDirectory;
use crate::http_client::{HttpResponse, Request};
use crate::rpc_client::{envelope, send_params};
use crate::test_server::{AGENTS, ServerDirectory, TestServer, eventually};
use std::net::TcpListener;
use std::sync::Arc;

const KEYS: &str = "[auth]\naccept = [\"api_key\"]\n";
/// What the proxies of platforms say of a client that called them by HTTPS.
const HTTPS: &[(&str, &str)] = &[("X-Forwarded-For", "203.0.113.9"), ("X-Forwarded-Proto", "https")];
const HTTP: &[(&str, &str)] = &[("X-Forwarded-For", "203.0.113.9"), ("X-Forwarded-Proto", "http")];

fn free_port() -> u16 {
    TcpListener::bind("0.0.0.0:0").unwrap().local_addr().unwrap().port()
}

/// A server where a platform starts it, with nothing but its variables.
#[track_caller]
fn hosted(home: &Arc<ServerDirectory>, variables: &[(&str, &str)]) -> TestServer {
    let mut command = home.command_without_address();
    command.envs(variables.iter().copied());
    let mut sabir = TestServer::run(home, command);
    assert!(sabir.address.ip().is_unspecified(), "the platform's proxy is not on this machine: {}", sabir.address);
    sabir.address.set_ip([127, 0, 0, 1].into());
    sabir
}

fn key(home: &ServerDirectory) -> String {
    let (data, config) = (home.data().display().to_string(), home.path("sabir.toml").display().to_string());
    let ran = CommandDirectory::new()
        .run(&["key", "create", "--tier", "pro", "-o", "json", "--config", &config, "--data", &data]);
    ran.expect_success();
    ran.json()["key"].as_str().unwrap().to_owned()
}

fn with(request: Request, headers: &[(&str, &str)]) -> Request {
    headers.iter().fold(request, |request, (name, value)| request.with(name, *value))
}

fn send(sabir: &TestServer, key: Option<&str>, headers: &[(&str, &str)]) -> HttpResponse {
    let request = with(Request::post("/", envelope("SendMessage", &send_params("x"))), headers);
    sabir.ask(&match key {
        Some(key) => request.with("Authorization", format!("Bearer {key}")),
        None => request,
    })
}

#[test]
fn a_platform_gives_the_port_and_its_proxy_speaks_https() {
    for (variable, more) in [("K_SERVICE", None), ("FLY_APP_NAME", None), ("RENDER", Some("RENDER_EXTERNAL_URL"))] {
        let home = ServerDirectory::new(&format!("{KEYS}{AGENTS}"));
        let key = key(&home);
        let port = free_port().to_string();
        let mut variables = vec![(variable, "shop"), ("PORT", &*port)];
        variables.extend(more.map(|name| (name, "https://shop.onrender.com")));
        let sabir = hosted(&home, &variables);
        assert_eq!(sabir.address.port().to_string(), port);
        eventually("the start says what was taken from where", || sabir.log_text().contains("was taken from PORT"));
        assert!(
            sabir.log_text().contains(&format!("server.tls = \"terminated\" was taken from {variable}")),
            "{}",
            sabir.log_text()
        );
        // Production in everything else: a credential is asked for, and nothing goes in plain HTTP.
        assert_eq!(send(&sabir, Some(&key), HTTPS).status, 200, "{variable}");
        assert_eq!(send(&sabir, None, HTTPS).status, 401, "{variable}");
        let plain = send(&sabir, Some(&key), HTTP);
        assert!(plain.status == 403 && plain.text().contains("HTTPS only"), "{}", plain.text());
        assert_eq!(send(&sabir, Some(&key), &HTTP[..1]).status, 403, "who says nothing did not say https");
        for probe in ["/healthz", "/readyz"] {
            assert_eq!(sabir.ask(&with(Request::get(probe), HTTP)).status, 200, "{probe}");
        }
        let card = sabir.ask(&with(Request::get("/.well-known/agent-card.json"), HTTPS));
        assert_eq!(card.header("Strict-Transport-Security"), Some("max-age=31536000"));
        let url = match variable {
            "FLY_APP_NAME" => "https://shop.fly.dev".to_owned(),
            "RENDER" => "https://shop.onrender.com".to_owned(),
            _ => format!("http://0.0.0.0:{port}/"),
        };
        assert_eq!(card.json()["supportedInterfaces"][0]["url"], url);
        if variable == "K_SERVICE" {
            assert!(sabir.log_text().contains("set public_url"), "{}", sabir.log_text());
        }
    }
}

#[test]
fn a_platform_does_not_open_what_asks_for_no_credential() {
    let home = ServerDirectory::new(&format!("[auth]\nopen = true\n{AGENTS}"));
    let port = free_port().to_string();
    let sabir = hosted(&home, &[("K_SERVICE", "shop"), ("PORT", &port)]);
    assert_eq!(send(&sabir, None, HTTPS).status, 503);
}

#[test]
fn flag_and_file_win_over_the_port_of_the_platform() {
    let variables = [("K_SERVICE", "shop"), ("PORT", "1")];
    let home = ServerDirectory::new(&format!("{KEYS}{AGENTS}"));
    let mut flagged = home.command();
    flagged.envs(variables);
    let sabir = TestServer::run(&home, flagged);
    assert!(sabir.address.ip().is_loopback());
    eventually("the banner", || sabir.log_text().contains("Catalog:"));
    assert!(
        sabir.log_text().contains("server.listen of PORT is not used, because --listen replaces it"),
        "{}",
        sabir.log_text()
    );
    let home = ServerDirectory::new(&format!("[server]\nlisten = \"127.0.0.1:0\"\n{KEYS}{AGENTS}"));
    let mut written = home.command_without_address();
    written.envs(variables);
    let sabir = TestServer::run(&home, written);
    eventually("the banner", || sabir.log_text().contains("Catalog:"));
    assert!(sabir.log_text().contains("PORT is not used, because server.listen is set by"), "{}", sabir.log_text());
    let mut wrong = home.command_without_address();
    wrong.envs([("K_SERVICE", "shop"), ("PORT", "http")]);
    assert!(home.expect_start_refused(wrong).contains("PORT: \"http\" is no port"));
}

#[test]
fn elsewhere_the_proxy_that_terminates_tls_is_named() {
    let config =
        |proxies: &str| format!("[server]\nproduction = true\ntls = \"terminated\"\n{proxies}\n{KEYS}{AGENTS}");
    let unnamed = ServerDirectory::new(&config(""));
    let said = unnamed.expect_start_refused(unnamed.command_at("0.0.0.0:0"));
    assert!(said.contains("server.proxies") && said.contains("terminated"), "{said}");
    let home = ServerDirectory::new(&config("proxies = [\"127.0.0.1\"]"));
    let key = key(&home);
    let mut sabir = TestServer::run(&home, home.command_at("0.0.0.0:0"));
    sabir.address.set_ip([127, 0, 0, 1].into());
    assert_eq!([HTTPS, HTTP].map(|headers| send(&sabir, Some(&key), headers).status), [200, 403]);
}

#[test]
fn a_network_behind_a_platform_takes_envelopes_by_https_whose_version_it_cannot_see() {
    let home = ServerDirectory::new(&format!("[network]\n{KEYS}"));
    let key = key(&home);
    let port = free_port().to_string();
    let sabir = hosted(&home, &[("FLY_APP_NAME", "shop"), ("PORT", &port)]);
    let ping = serde_json::json!({"protocol": "openclaw/a2a/v1", "from": "a", "to": "network:agnt",
        "intent": "network.ping", "payload": {}, "ttl_ms": 5000});
    let post = |headers: &[(&str, &str)]| {
        let request = with(Request::post("/a2a/v1", ping.to_string()), headers);
        let reply = sabir.ask(&request.with("Authorization", format!("Bearer {key}")));
        let code = reply.json()["payload"]["error"]["code"].as_str().unwrap_or("ok").to_owned();
        (reply.status, code)
    };
    assert_eq!(post(HTTPS), (200, "ok".to_owned()));
    assert_eq!(post(HTTP), (403, "tls_required".to_owned()));
    assert_eq!(post(&[]), (403, "tls_required".to_owned()));
}
