//! The files behind HTTPS: what is refused at the start, and what happens when they change under a running server.

use crate::certificate_authority::{CertificateAndKey, CertificateAuthority, tls_section};
use crate::http_client::{HttpConnection, Request};
use crate::test_server::{AGENTS, ServerDirectory, TestServer, eventually};
use std::fs::{self, Permissions};
use std::os::unix::fs::PermissionsExt;
use std::path::{Path, PathBuf};
use std::process::Command;
use std::sync::Arc;

/// Puts a pair where the server looks, in the order of an operator who is not careful.
fn install(pair: &CertificateAndKey, home: &ServerDirectory) -> (PathBuf, PathBuf) {
    let (cert, key) = (home.path("live.pem"), home.path("live.key"));
    fs::copy(&pair.cert, &cert).unwrap();
    put(&pair.key, &key);
    (cert, key)
}

fn put(from: &Path, to: &Path) {
    fs::copy(from, to).unwrap();
    fs::set_permissions(to, Permissions::from_mode(0o600)).unwrap();
}

/// A server whose files are its own, and the name of the first pair.
fn running(authority: &CertificateAuthority, first: &CertificateAndKey) -> (TestServer, Arc<ServerDirectory>) {
    let home = ServerDirectory::new(&(tls_section(Path::new("live.pem"), Path::new("live.key"), "") + AGENTS));
    install(first, &home);
    (TestServer::start_at(&home).with_tls_client(&authority.trusting_client().config()), home)
}

/// Whether new connections get this certificate.
fn shows(sabir: &TestServer, pair: &CertificateAndKey) -> bool {
    sabir.connect().session().peer_certificates().unwrap()[0] == pair.der()
}

fn healthy(wire: &mut HttpConnection) -> bool {
    wire.send(&Request::get("/healthz"));
    wire.response().status == 200
}

#[test]
fn a_renewed_certificate_is_taken_up_and_connections_go_on() {
    let authority = CertificateAuthority::new();
    let (first, second) = (authority.server("first"), authority.server("second"));
    let (sabir, home) = running(&authority, &first);
    assert!(shows(&sabir, &first));
    let mut older = sabir.connect();
    assert!(healthy(&mut older));
    install(&second, &home);
    eventually("the new certificate is shown", || shows(&sabir, &second));
    assert!(healthy(&mut older), "a connection that was there goes on");
    assert_eq!(older.session().peer_certificates().unwrap()[0], first.der());
    assert_eq!(sabir.metric("sabir_tls_reloads_total{outcome=\"ok\"}"), 1.0);
    assert!(sabir.metric("sabir_tls_certificate_expiry_seconds") > 1.7e9);
}

#[test]
fn a_signal_takes_it_up_at_once_and_ends_nothing() {
    let authority = CertificateAuthority::new();
    let (first, second) = (authority.server("first"), authority.server("second"));
    let (sabir, home) = running(&authority, &first);
    install(&second, &home);
    let sent = Command::new("kill").args(["-HUP", &sabir.pid().to_string()]).status().unwrap();
    assert!(sent.success());
    eventually("the new certificate is shown", || shows(&sabir, &second));
    sabir.still_serves();
}

#[test]
fn broken_files_leave_the_old_certificate_in_place() {
    let authority = CertificateAuthority::new();
    let (first, second) = (authority.server("first"), authority.server("second"));
    let (sabir, home) = running(&authority, &first);
    let (cert, key) = (home.path("live.pem"), home.path("live.key"));
    let failures = || sabir.metric("sabir_tls_reloads_total{outcome=\"failed\"}");
    // The certificate without its key; nothing at all; half a file.
    fs::copy(&second.cert, &cert).unwrap();
    eventually("the pair that does not fit is reported", || failures() >= 1.0);
    assert!(sabir.log_text().contains("live.key") && sabir.log_text().contains("not the key"), "{}", sabir.log_text());
    fs::remove_file(&cert).unwrap();
    eventually("the missing file is reported", || failures() >= 2.0);
    let text = fs::read_to_string(&second.cert).unwrap();
    fs::write(&cert, &text[..text.len() / 2]).unwrap();
    eventually("the half file is reported", || failures() >= 3.0);
    assert!(shows(&sabir, &first));
    sabir.still_serves();
    // And when they are whole again, they count.
    fs::copy(&second.cert, &cert).unwrap();
    put(&second.key, &key);
    eventually("the new certificate is shown", || shows(&sabir, &second));
    let secret: Vec<String> = fs::read_to_string(&second.key).unwrap().lines().skip(1).map(str::to_owned).collect();
    assert!(!sabir.log_text().contains(&secret[0]), "the key is in the log");
}

#[test]
fn other_clients_can_be_trusted_without_a_restart() {
    let (authority, others) = (CertificateAuthority::new(), CertificateAuthority::new());
    let (server, client) = (authority.server("server"), others.client("client"));
    let home =
        ServerDirectory::new(&(tls_section(&server.cert, &server.key, "client_ca = \"file:clients.pem\"") + AGENTS));
    fs::copy(authority.root(), home.path("clients.pem")).unwrap();
    let sabir = TestServer::start_at(&home).with_tls_client(&authority.trusting_client().config());
    let known = || HttpConnection::open_tls(sabir.address, authority.trusting_client().with_identity(&client).config());
    let served =
        || known().is_ok_and(|mut wire| wire.try_write(b"GET / HTTP/1.0\r\n\r\n").is_ok() && wire.try_byte().is_ok());
    assert!(!served());
    fs::copy(others.root(), home.path("clients.pem")).unwrap();
    eventually("the other authority counts", served);
}

/// What a server says that does not start with these files.
#[track_caller]
fn refused(cert: &Path, key: &Path, more: &str, words: &[&str]) {
    let home = ServerDirectory::new(&(tls_section(cert, key, more) + AGENTS));
    let said = home.expect_start_refused(home.command());
    for word in words {
        assert!(said.contains(word), "{word:?} is not in: {said}");
    }
    assert!(!said.contains("MIG") && !said.contains("MHc"), "a part of the key is in: {said}");
}

#[test]
fn files_that_cannot_be_used_are_named_with_the_remedy() {
    let authority = CertificateAuthority::new();
    let (pair, other) = (authority.server("server"), authority.server("other"));
    let CertificateAndKey { cert, key } = &pair;
    refused(Path::new("nowhere.pem"), key, "", &["server.tls.cert", "nowhere.pem", "path"]);
    refused(cert, Path::new("nowhere.key"), "", &["server.tls.key", "nowhere.key"]);
    refused(cert, &other.key, "", &["server.tls.key", "other.key", "not the key", "server.pem"]);
    refused(key, key, "", &["server.tls.cert", "server.key", "BEGIN CERTIFICATE"]);
    refused(cert, cert, "", &["server.tls.key", "server.pem"]);
    refused(cert, key, "client_ca = \"file:nowhere.pem\"", &["server.tls.client_ca", "nowhere.pem"]);
    refused(cert, key, "client_auth = \"required\"", &["client_auth", "client_ca"]);
    refused(cert, key, "min_version = \"1.1\"", &["min_version"]);
    let write = |name: &str, text: &[u8]| {
        let path = authority.path(name);
        fs::write(&path, text).unwrap();
        fs::set_permissions(&path, Permissions::from_mode(0o600)).unwrap();
        path
    };
    let (own, root) = (fs::read_to_string(cert).unwrap(), fs::read_to_string(authority.root()).unwrap());
    let chain = write("upside-down.pem", format!("{root}{own}").as_bytes());
    refused(&chain, key, "", &["server.key", "come first"]);
    let damaged = write("damaged.pem", own.replacen("MII", "###", 1).as_bytes());
    refused(&damaged, key, "", &["damaged.pem"]);
    let hollow = write("hollow.pem", b"-----BEGIN CERTIFICATE-----\nAAAA\n-----END CERTIFICATE-----\n");
    refused(&hollow, key, "", &["hollow.pem", "X.509"]);
    refused(&write("huge.pem", &vec![b'x'; 2 << 20]), key, "", &["huge.pem", "larger"]);
    refused(cert, &write("empty.key", b""), "", &["empty.key", "BEGIN PRIVATE KEY"]);
    let locked = authority.path("locked.key");
    let made = Command::new("openssl")
        .args(["pkey", "-aes256", "-passout", "pass:secret", "-in"])
        .arg(key)
        .arg("-out")
        .arg(&locked)
        .output()
        .unwrap();
    assert!(made.status.success());
    fs::set_permissions(&locked, Permissions::from_mode(0o600)).unwrap();
    refused(cert, &locked, "", &["locked.key", "passphrase", "openssl pkey"]);
    for mode in [0o644, 0o604, 0o660, 0o666] {
        fs::set_permissions(key, Permissions::from_mode(mode)).unwrap();
        refused(cert, key, "", &["server.key", "chmod 600"]);
    }
    fs::set_permissions(key, Permissions::from_mode(0o640)).unwrap();
    let home = ServerDirectory::new(&(tls_section(cert, key, "") + AGENTS));
    TestServer::start_at(&home).with_tls_client(&authority.trusting_client().config()).still_serves();
}

#[test]
fn every_usual_kind_of_key_is_taken() {
    let authority = CertificateAuthority::new();
    let kinds: [(&str, &[&str]); 3] = [
        ("rsa", &["RSA", "-pkeyopt", "rsa_keygen_bits:2048"]),
        ("p384", &["EC", "-pkeyopt", "ec_paramgen_curve:P-384"]),
        ("ed25519", &["ED25519"]),
    ];
    for (name, algorithm) in kinds {
        let pair = authority.server_with(name, algorithm);
        let mut keys = vec![pair.key.clone()];
        // PKCS #8, and the older forms that some tools still write; Ed25519 has none.
        if name != "ed25519" {
            let older = format!("{name}-older.key");
            authority.openssl(&["pkey", "-traditional", "-in", &format!("{name}.key"), "-out", &older]);
            keys.push(authority.path(&older));
        }
        for key in keys {
            let home = ServerDirectory::new(&(tls_section(&pair.cert, &key, "") + AGENTS));
            TestServer::start_at(&home).with_tls_client(&authority.trusting_client().config()).still_serves();
        }
    }
}

#[test]
fn a_key_where_a_file_belongs_is_not_repeated() {
    let authority = CertificateAuthority::new();
    let pair = authority.server("server");
    let text = fs::read_to_string(&pair.key).unwrap().replace('\n', "\\n");
    let config = format!("[server.tls]\ncert = \"file:{}\"\nkey = \"{text}\"\n{AGENTS}", pair.cert.display());
    let home = ServerDirectory::new(&config);
    let said = home.expect_start_refused(home.command());
    assert!(said.contains("server.tls.key") && !said.contains("BEGIN"), "{said}");
}

#[test]
fn an_expired_certificate_is_reported_and_served() {
    let authority = CertificateAuthority::new();
    let pair = authority.expired("server", "serverAuth");
    let home = ServerDirectory::new(&(tls_section(&pair.cert, &pair.key, "") + AGENTS));
    let sabir = TestServer::start_at(&home);
    assert!(sabir.log_text().contains("expired"), "{}", sabir.log_text());
    let refusal =
        HttpConnection::open_tls(sabir.address, authority.trusting_client().config()).err().unwrap().to_string();
    assert!(refusal.contains("expired"), "{refusal}");
}
