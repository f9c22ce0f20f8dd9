//! Production mode: selected by a key, a flag or a platform; no third party can read along then.

use crate::authority::{Authority, section};
use crate::http::Request;
use crate::sabir::{AGENTS, Home, Sabir};
use std::process::Command;

const OPEN: &str = "[auth]\nopen = true\n";

/// That a server does not start at an address others can reach, and says how it would.
#[track_caller]
fn refused(home: &Home, command: Command, why: &str) {
    let said = home.refuses(command);
    for word in [why, "0.0.0.0", "[server.tls]", "127.0.0.1"] {
        assert!(said.contains(word), "{word:?} is not in: {said}");
    }
}

#[test]
fn plain_http_stays_on_this_machine() {
    let home = Home::new(&format!("{OPEN}{AGENTS}"));
    let mut flagged = home.command_at("0.0.0.0:0");
    flagged.arg("--production");
    refused(&home, flagged, "asked for");
    let mut variable = home.command_at("0.0.0.0:0");
    variable.env("SABIR_SERVER__PRODUCTION", "true");
    refused(&home, variable, "asked for");
    let mut platform = home.command_at("0.0.0.0:0");
    platform.env("NODE_ENV", "production");
    refused(&home, platform, "NODE_ENV");
    let written = Home::new(&format!("[server]\nproduction = true\n{OPEN}{AGENTS}"));
    refused(&written, written.command_at("0.0.0.0:0"), "asked for");
    assert!(!home.data().exists(), "and nothing was made");
}

#[test]
fn without_it_and_on_loopback_plain_http_is_served() {
    let home = Home::new(&format!("{OPEN}{AGENTS}"));
    let mut sabir = Sabir::run(&home, home.command_at("0.0.0.0:0"));
    sabir.address.set_ip([127, 0, 0, 1].into());
    sabir.still_serves();
    let mut flagged = home.command();
    flagged.arg("--production");
    drop(sabir);
    let sabir = Sabir::run(&home, flagged);
    let reply = sabir.ask(&Request::get("/healthz"));
    assert_eq!((reply.status, reply.header("Strict-Transport-Security")), (200, None));
}

#[test]
fn https_is_served_everywhere_and_browsers_are_told_to_stay_with_it() {
    let authority = Authority::new();
    let pair = authority.server("server");
    let home = Home::new(&format!("{}{OPEN}{AGENTS}", section(&pair.cert, &pair.key, "")));
    let client = authority.trusted().config();
    for (flags, expected) in [(&["--production"][..], Some("max-age=31536000")), (&[], None)] {
        let mut command = home.command_at("0.0.0.0:0");
        command.args(flags);
        let mut sabir = Sabir::run(&home, command).called_by(&client);
        sabir.address.set_ip([127, 0, 0, 1].into());
        let reply = sabir.ask(&Request::get("/healthz"));
        assert_eq!((reply.status, reply.header("Strict-Transport-Security")), (200, expected));
    }
}
