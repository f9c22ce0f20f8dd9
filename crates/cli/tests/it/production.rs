//! Production mode: selected by a key, a flag or a platform; no third party can read along then.

use crate::certificate_authority::{CertificateAuthority, tls_section};
use crate::http_client::Request;
use crate::test_server::{AGENTS, ServerDirectory, TestServer};
use std::process::Command;

const OPEN: &str = "[auth]\nopen = true\n";

/// That a server does not start at an address others can reach, and says how it would.
#[track_caller]
fn refused(home: &ServerDirectory, command: Command, why: &str) {
    let said = home.expect_start_refused(command);
    for word in [why, "0.0.0.0", "[server.tls]", "127.0.0.1"] {
        assert!(said.contains(word), "{word:?} is not in: {said}");
    }
}

#[test]
fn plain_http_stays_on_this_machine() {
    let home = ServerDirectory::new(&format!("{OPEN}{AGENTS}"));
    let mut flagged = home.command_at("0.0.0.0:0");
    flagged.arg("--production");
    refused(&home, flagged, "asked for");
    let mut variable = home.command_at("0.0.0.0:0");
    variable.env("SABIR_SERVER__PRODUCTION", "true");
    refused(&home, variable, "asked for");
    let mut platform = home.command_at("0.0.0.0:0");
    platform.env("NODE_ENV", "production");
    refused(&home, platform, "NODE_ENV");
    let written = ServerDirectory::new(&format!("[server]\nproduction = true\n{OPEN}{AGENTS}"));
    refused(&written, written.command_at("0.0.0.0:0"), "asked for");
    assert!(!home.data().exists(), "and nothing was made");
}

#[test]
fn without_it_and_on_loopback_plain_http_is_served() {
    let home = ServerDirectory::new(&format!("{OPEN}{AGENTS}"));
    let mut sabir = TestServer::run(&home, home.command_at("0.0.0.0:0"));
    sabir.address.set_ip([127, 0, 0, 1].into());
    sabir.still_serves();
    let mut flagged = home.command();
    flagged.arg("--production");
    drop(sabir);
    let sabir = TestServer::run(&home, flagged);
    let reply = sabir.ask(&Request::get("/healthz"));
    assert_eq!((reply.status, reply.header("Strict-Transport-Security")), (200, None));
}

#[test]
fn https_is_served_everywhere_and_browsers_are_told_to_stay_with_it() {
    let authority = CertificateAuthority::new();
    let pair = authority.server("server");
    let home = ServerDirectory::new(&format!("{}{OPEN}{AGENTS}", tls_section(&pair.cert, &pair.key, "")));
    let client = authority.trusting_client().config();
    for (flags, expected) in [(&["--production"][..], Some("max-age=31536000")), (&[], None)] {
        let mut command = home.command_at("0.0.0.0:0");
        command.args(flags);
        let mut sabir = TestServer::run(&home, command).with_tls_client(&client);
        sabir.address.set_ip([127, 0, 0, 1].into());
        let reply = sabir.ask(&Request::get("/healthz"));
        assert_eq!((reply.status, reply.header("Strict-Transport-Security")), (200, expected));
    }
}
