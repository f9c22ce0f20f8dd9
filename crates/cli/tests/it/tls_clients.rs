//! Client certificates: only those of the configured authorities are taken, and where one is required no client comes
//! without.

use crate::authority::{Authority, Client};
use crate::http::{Request, Wire};
use crate::sabir::{AGENTS, Sabir};
use crate::tls::secured;
use crate::tool::Desk;
use rustls::version::{TLS12, TLS13};

/// A server that asks for certificates of its own authority.
fn asking(authority: &Authority, how: &str) -> Sabir {
    let lines = format!("client_ca = \"file:{}\"\n{how}", authority.root().display());
    secured(authority, &lines, AGENTS)
}

/// Whether a client gets an answer, or why not. In TLS 1.3 a client completes its handshake before its certificate is
/// checked.
fn served(sabir: &Sabir, client: Client<'_>) -> Result<(), String> {
    let mut wire = Wire::secured(sabir.address, client.config()).map_err(|e| e.to_string())?;
    wire.try_write(&Request::get("/healthz").bytes(sabir.address)).map_err(|e| e.to_string())?;
    wire.try_byte().map_err(|e| e.to_string())?.map(drop).ok_or_else(|| "closed".into())
}

#[track_caller]
fn refused(sabir: &Sabir, client: Client<'_>, alert: &str) {
    for version in [&TLS13, &TLS12] {
        let why = served(sabir, client.speaking(version)).expect_err("it was let in");
        assert!(why.contains(alert), "{why}");
    }
}

#[test]
fn where_a_certificate_is_required_only_good_ones_enter() {
    let (authority, stranger) = (Authority::new(), Authority::new());
    let sabir = asking(&authority, "client_auth = \"required\"");
    let (good, foreign, expired) =
        (authority.client("good"), stranger.client("foreign"), authority.expired("expired", "clientAuth"));
    let server = authority.server("no-client");
    let nobody = authority.trusted();
    assert_eq!(served(&sabir, nobody.known_as(&good)), Ok(()));
    refused(&sabir, nobody, "CertificateRequired");
    refused(&sabir, nobody.known_as(&foreign), "UnknownCA");
    refused(&sabir, nobody.known_as(&expired), "CertificateExpired");
    refused(&sabir, nobody.known_as(&server), "Certificate");
    let sabir = sabir.called_by(&nobody.known_as(&good).config());
    sabir.still_serves();
    let failures = |reason: &str| sabir.metric(&format!("sabir_tls_handshake_failures_total{{reason=\"{reason}\"}}"));
    assert_eq!((failures("no_certificate"), failures("bad_certificate")), (2.0, 6.0));
}

#[test]
fn where_it_is_optional_none_is_fine_and_a_bad_one_is_not() {
    let (authority, stranger) = (Authority::new(), Authority::new());
    for how in ["", "client_auth = \"optional\""] {
        let sabir = asking(&authority, how);
        let (good, foreign) = (authority.client("good"), stranger.client("foreign"));
        assert_eq!(served(&sabir, authority.trusted()), Ok(()));
        assert_eq!(served(&sabir, authority.trusted().known_as(&good)), Ok(()));
        refused(&sabir, authority.trusted().known_as(&foreign), "UnknownCA");
        sabir.still_serves();
    }
}

#[test]
fn our_own_client_comes_in_over_every_binding() {
    let authority = Authority::new();
    let good = authority.client("good");
    // Optional, since cards are fetched without a certificate; the guard is what wants to know who calls.
    let lines =
        format!("client_ca = \"file:{}\"\n[auth]\naccept = [\"mtls\"]\n[auth.mtls]", authority.root().display());
    let sabir = secured(&authority, &lines, AGENTS);
    let (url, desk) = (format!("https://{}", sabir.address), Desk::new());
    let [root, cert, key] = [&authority.root(), &good.cert, &good.key].map(|path| path.display().to_string());
    let trusting = ["--ca-cert", &root];
    let known = ["--client-cert", &cert, "--client-key", &key];
    for binding in ["jsonrpc", "http+json", "grpc"] {
        let send = ["send", "-a", &url, "--transport", binding, "hello"];
        let ran = desk.run(&[&send[..], &trusting, &known].concat());
        assert!(ran.code == 0 && ran.stdout.contains("TASK_STATE_COMPLETED"), "{binding}: {ran:?}");
        let ran = desk.run(&[&send[..], &trusting].concat());
        assert_ne!(ran.code, 0, "{binding}: without a certificate");
    }
}

#[test]
fn a_session_is_not_taken_up_again_past_its_certificate() {
    let authority = Authority::new();
    let good = authority.client("good");
    let sabir = asking(&authority, "client_auth = \"required\"");
    // One configuration, so that the client would resume if it were allowed to.
    let config = authority.trusted().known_as(&good).config();
    for _ in 0..3 {
        let mut wire = Wire::secured(sabir.address, config.clone()).unwrap();
        wire.send(&Request::get("/healthz"));
        assert_eq!(wire.reply().status, 200);
        assert_eq!(wire.session().handshake_kind(), Some(rustls::HandshakeKind::Full));
    }
}
