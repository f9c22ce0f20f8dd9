//! Client certificates: only those of the configured authorities are taken, and where one is required no client comes
//! without.

use crate::certificate_authority::{CertificateAuthority, TlsClient};
use crate::command_runner::CommandDirectory;
use crate::http_client::{HttpConnection, Request};
use crate::test_server::{AGENTS, TestServer};
use crate::tls::secured;
use rustls::version::{TLS12, TLS13};

/// A server that asks for certificates of its own authority.
fn asking(authority: &CertificateAuthority, how: &str) -> TestServer {
    let lines = format!("client_ca = \"file:{}\"\n{how}", authority.root().display());
    secured(authority, &lines, AGENTS)
}

/// Whether a client gets an answer, or why not. In TLS 1.3 a client completes its handshake before its certificate is
/// checked.
fn served(sabir: &TestServer, client: TlsClient<'_>) -> Result<(), String> {
    let mut wire = HttpConnection::open_tls(sabir.address, client.config()).map_err(|e| e.to_string())?;
    wire.try_write(&Request::get("/healthz").bytes(sabir.address)).map_err(|e| e.to_string())?;
    wire.try_byte().map_err(|e| e.to_string())?.map(drop).ok_or_else(|| "closed".into())
}

#[track_caller]
fn refused(sabir: &TestServer, client: TlsClient<'_>, alert: &str) {
    for version in [&TLS13, &TLS12] {
        let why = served(sabir, client.with_only_version(version)).expect_err("it was let in");
        assert!(why.contains(alert), "{why}");
    }
}

#[test]
fn where_a_certificate_is_required_only_good_ones_enter() {
    let (authority, stranger) = (CertificateAuthority::new(), CertificateAuthority::new());
    let sabir = asking(&authority, "client_auth = \"required\"");
    let (good, foreign, expired) =
        (authority.client("good"), stranger.client("foreign"), authority.expired("expired", "clientAuth"));
    let server = authority.server("no-client");
    let nobody = authority.trusting_client();
    assert_eq!(served(&sabir, nobody.with_identity(&good)), Ok(()));
    refused(&sabir, nobody, "CertificateRequired");
    refused(&sabir, nobody.with_identity(&foreign), "UnknownCA");
    refused(&sabir, nobody.with_identity(&expired), "CertificateExpired");
    refused(&sabir, nobody.with_identity(&server), "Certificate");
    let sabir = sabir.with_tls_client(&nobody.with_identity(&good).config());
    sabir.still_serves();
    let failures = |reason: &str| sabir.metric(&format!("sabir_tls_handshake_failures_total{{reason=\"{reason}\"}}"));
    assert_eq!((failures("no_certificate"), failures("bad_certificate")), (2.0, 6.0));
}

#[test]
fn where_it_is_optional_none_is_fine_and_a_bad_one_is_not() {
    let (authority, stranger) = (CertificateAuthority::new(), CertificateAuthority::new());
    for how in ["", "client_auth = \"optional\""] {
        let sabir = asking(&authority, how);
        let (good, foreign) = (authority.client("good"), stranger.client("foreign"));
        assert_eq!(served(&sabir, authority.trusting_client()), Ok(()));
        assert_eq!(served(&sabir, authority.trusting_client().with_identity(&good)), Ok(()));
        refused(&sabir, authority.trusting_client().with_identity(&foreign), "UnknownCA");
        sabir.still_serves();
    }
}

#[test]
fn our_own_client_comes_in_over_every_binding() {
    let authority = CertificateAuthority::new();
    let good = authority.client("good");
    // Optional, since cards are fetched without a certificate; the guard is what wants to know who calls.
    let lines =
        format!("client_ca = \"file:{}\"\n[auth]\naccept = [\"mtls\"]\n[auth.mtls]", authority.root().display());
    let sabir = secured(&authority, &lines, AGENTS);
    let (url, desk) = (format!("https://{}", sabir.address), CommandDirectory::new());
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
    let authority = CertificateAuthority::new();
    let good = authority.client("good");
    let sabir = asking(&authority, "client_auth = \"required\"");
    // One configuration, so that the client would resume if it were allowed to.
    let config = authority.trusting_client().with_identity(&good).config();
    for _ in 0..3 {
        let mut wire = HttpConnection::open_tls(sabir.address, config.clone()).unwrap();
        wire.send(&Request::get("/healthz"));
        assert_eq!(wire.response().status, 200);
        assert_eq!(wire.session().handshake_kind(), Some(rustls::HandshakeKind::Full));
    }
}
