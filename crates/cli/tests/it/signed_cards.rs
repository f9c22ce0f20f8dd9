//! Signed cards: signed by a server or by hand, and verified by their readers.

use crate::command_runner::CommandDirectory;
use crate::http_client::Request;
use crate::test_server::{ServerDirectory, TestServer, eventually};
use serde_json::{Value, json};
use std::fs;
use std::sync::Arc;

const KEYS: &str = "/.well-known/jwks.json";
const AGENT: &str = "[[agent]]\nname = \"books\"\nkind = \"echo\"\ndefault = true\n\
    [agent.card]\ndescription = \"Keeps books\"\n\
    [[agent.card.skills]]\nid = \"open\"\nname = \"Open\"\ndescription = \"For everybody\"\ntags = [\"a\"]\n\
    [[agent.card.skills]]\nid = \"secret\"\nname = \"Secret\"\ndescription = \"Not for everybody\"\ntags = [\"a\"]\n\
    public = false\n\
    [[agent]]\nname = \"xpr\"\nkind = \"echo\"\n[agent.xpr]\naccount = \"myagent\"\n";

/// A home whose server signs with a key of its own.
fn home(more: &str) -> (Arc<ServerDirectory>, CommandDirectory) {
    let home = ServerDirectory::new(&format!(
        "[server]\n{more}[server.signing]\nkeys = [\"file:new.pem\"]\nretired = [\"file:old.pem\"]\n{AGENT}"
    ));
    let desk = CommandDirectory::new();
    for name in ["new.pem", "old.pem"] {
        desk.run(&["card", "keys", "--new", home.path(name).to_str().unwrap()]).expect_success();
    }
    (home, desk)
}

fn kid(desk: &CommandDirectory, home: &ServerDirectory, name: &str) -> String {
    let ran = desk.run(&["card", "keys", "--key", home.path(name).to_str().unwrap()]);
    ran.json()["keys"][0]["kid"].as_str().unwrap().to_owned()
}

#[test]
fn every_form_of_a_card_is_verified_with_the_published_keys() {
    let (home, desk) = home("");
    let server = TestServer::start_at(&home);
    let keys = server.ask(&Request::get(KEYS));
    assert_eq!((keys.status, keys.header("Content-Type")), (200, Some("application/json")));
    let set = keys.json();
    let names: Vec<&str> = set["keys"].as_array().unwrap().iter().map(|key| key["kid"].as_str().unwrap()).collect();
    assert_eq!(names, [&*kid(&desk, &home, "new.pem"), &*kid(&desk, &home, "old.pem")]);
    assert!(!keys.text().contains("\"d\""));
    let known = Request::get(KEYS).with("If-None-Match", keys.header("ETag").unwrap());
    assert_eq!(server.ask(&known).status, 304);
    fs::write(desk.path("jwks.json"), keys.text()).unwrap();

    for agent in ["", "/agents/xpr"] {
        for (path, version) in [("agent-card.json", "1.0"), ("agent-card.json", ""), ("agent.json", "")] {
            let request = Request::get(&format!("{agent}/.well-known/{path}")).without("A2A-Version");
            let request = if version.is_empty() { request } else { request.with("A2A-Version", version) };
            let card = server.ask(&request);
            fs::write(desk.path("card.json"), card.text()).unwrap();
            let ran = desk.run(&["card", "verify", "card.json", "--jwks", "jwks.json"]);
            ran.expect_success();
            assert_eq!(ran.fields("Key ID"), [names[0]], "{path} {version}");
            assert!(!card.text().contains("Not for everybody"), "what is not public is in no public form");
            // Any change shows.
            for (from, to) in [("\"books\"", "\"cooks\""), ("\"xpr\"", "\"rpx\"")] {
                if card.text().contains(from) {
                    fs::write(desk.path("bent.json"), card.text().replace(from, to)).unwrap();
                    let ran = desk.run(&["card", "verify", "bent.json", "--jwks", "jwks.json"]);
                    assert_eq!(ran.code, 1, "{ran:?}");
                    assert!(ran.stderr.contains("not what was signed"), "{ran:?}");
                }
            }
        }
    }
    // Straight from the server, with the keys that its card leads to.
    let ran = desk.run(&["card", "verify", &format!("http://{}", server.address), "-o", "json"]);
    let said = ran.json();
    assert_eq!((&said["verified"], &said["kid"]), (&json!(true), &json!(names[0])), "{ran:?}");
    assert_eq!(said["keys"], format!("http://{}{KEYS}", server.address));
}

#[test]
fn a_host_vouches_for_itself_unless_only_roots_count() {
    let (home, desk) = home("");
    let server = TestServer::start_at(&home);
    fs::write(desk.path("jwks.json"), server.ask(&Request::get(KEYS)).text()).unwrap();
    let url = format!("http://{}", server.address);
    let send = |more: &[&str]| desk.run(&[&["send", "hi", "-a", &url, "--card-trust", "require"], more].concat());
    send(&[]).expect_success();
    let refused = send(&["--card-roots-only"]);
    assert_eq!(refused.code, 1, "{refused:?}");
    assert!(refused.stderr.contains("not among the configured roots"), "{refused:?}");
    send(&["--card-roots-only", "--trusted-keys", "jwks.json"]).expect_success();
}

#[test]
fn a_card_of_a_server_cannot_be_pointed_elsewhere() {
    let (home, desk) = home("");
    let server = TestServer::start_at(&home);
    fs::write(desk.path("jwks.json"), server.ask(&Request::get(KEYS)).text()).unwrap();
    for agent in ["", "/agents/xpr"] {
        let request = Request::get(&format!("{agent}/.well-known/agent.json")).without("A2A-Version");
        let genuine = server.ask(&request).json();
        let mut moved = genuine.clone();
        moved["url"] = json!("https://evil.example/");
        moved["protocolVersion"] = json!("1.0");
        moved.as_object_mut().unwrap().remove("additionalInterfaces");
        let mut listed = genuine.clone();
        for name in ["url", "protocolVersion", "preferredTransport", "additionalInterfaces"] {
            listed.as_object_mut().unwrap().remove(name);
        }
        listed["supported_interfaces"] =
            json!([{"url": "https://evil.example/", "protocolBinding": "JSONRPC", "protocolVersion": "1.0"}]);
        for card in [moved, listed] {
            fs::write(desk.path("card.json"), card.to_string()).unwrap();
            let ran = desk.run(&["card", "verify", "./card.json", "--jwks", "jwks.json"]);
            assert_eq!(ran.code, 1, "{ran:?}");
            let ran = desk.run(&["card", "get", "-a", "./card.json", "--trusted-keys", "jwks.json"]);
            assert!(!ran.stdout.contains("Signature: verified"), "{ran:?}");
        }
    }
}

#[test]
fn callers_who_say_who_they_are_see_what_they_may_use_and_who_vouches_for_it() {
    let (home, desk) = home("");
    let config = fs::read_to_string(home.path("sabir.toml")).unwrap();
    let closed = format!("[auth]\naccept = [\"api_key\"]\n{config}").replacen(
        "[[agent.card.skills]]",
        "[agent.card.capabilities]\nextended_card = true\n[[agent.card.skills]]",
        1,
    );
    fs::write(home.path("sabir.toml"), closed).unwrap();
    let server = TestServer::start_at(&home);
    let data = home.data().display().to_string();
    let key = |flags: &[&str]| {
        let ran = desk.run(&[&["key", "create", "-o", "json", "--data", &data], flags].concat());
        ran.json()["key"].as_str().unwrap().to_owned()
    };
    let (all, one) = (key(&[]), key(&["--scope", "skill:open"]));
    let ask = |request: Request, key: &str| server.ask(&request.with("X-API-Key", key));
    let extended = || Request::get("/extendedAgentCard");
    assert_eq!(server.ask(&extended()).status, 401, "strangers are told nothing");
    eventually("the keys are taken", || [&all, &one].iter().all(|key| ask(extended(), key).status == 200));
    let skills = |card: &Value| -> Vec<String> {
        card["skills"].as_array().unwrap().iter().map(|skill| skill["id"].as_str().unwrap().to_owned()).collect()
    };
    assert_eq!(skills(&ask(extended(), &all).json()), ["open", "secret"]);
    assert_eq!(skills(&ask(extended(), &one).json()), ["open"]);

    // The public card stays public, says how to authenticate, and is signed like the extended one, in both dialects.
    let public = server.ask(&Request::get("/.well-known/agent-card.json").with("A2A-Version", "1.0"));
    assert!(public.json()["securitySchemes"].is_object() && !public.text().contains("Not for everybody"));
    fs::write(desk.path("jwks.json"), server.ask(&Request::get(KEYS)).text()).unwrap();
    let older = r#"{"jsonrpc":"2.0","id":1,"method":"agent/getAuthenticatedExtendedCard"}"#;
    let older = ask(Request::post("/", older).with("A2A-Version", "0.3"), &all).json();
    assert_eq!(skills(&older["result"]), ["open", "secret"]);
    for (what, text) in [
        ("public", public.text()),
        ("extended", ask(extended(), &all).text()),
        ("extended, 0.3", older["result"].to_string()),
    ] {
        fs::write(desk.path("card.json"), &text).unwrap();
        let ran = desk.run(&["card", "verify", "card.json", "--jwks", "jwks.json"]);
        assert_eq!(ran.code, 0, "{what}: {text} {ran:?}");
    }
    // A client that requires signed cards requires it of the extended one too.
    let url = format!("http://{}", server.address);
    for version in ["1.0", "0.3"] {
        for (keys, code) in [("jwks.json", 0), ("other.json", 1)] {
            fs::write(desk.path("other.json"), r#"{"keys":[]}"#).unwrap();
            let mut command = desk.command(&["card", "get", "--extended", "-a", &url, "-o", "json"]);
            command.args(["--card-trust", "require", "--trusted-keys", keys, "--a2a-version", version]);
            let ran = crate::command_runner::wait_for_exit(command.env("A2ACLI_API_KEY", &all).spawn().unwrap());
            assert_eq!(ran.code, code, "{version}: {ran:?}");
            assert_eq!(ran.stderr.contains("Signature: verified"), code == 0, "{version}: {ran:?}");
        }
    }
}

#[test]
fn a_restart_with_the_same_key_is_no_news() {
    let (home, _) = home("public_url = \"https://books.example\"\n");
    let tag = |server: &TestServer, path: &str| server.ask(&Request::get(path)).header("ETag").unwrap().to_owned();
    let open = || {
        let mut command = home.command();
        command.env("SABIR_AUTH__OPEN", "true");
        command
    };
    let server = TestServer::run(&home, open());
    let paths = ["/.well-known/agent-card.json", "/.well-known/agent.json", KEYS];
    let before = paths.map(|path| tag(&server, path));
    assert!(before[0].starts_with("W/\"") && !before[2].starts_with("W/"), "{before:?}");
    server.stop();
    let server = TestServer::run(&home, open());
    assert_eq!(paths.map(|path| tag(&server, path)), before);
    let known = Request::get(paths[0]).with("If-None-Match", &*before[0]);
    assert_eq!(server.ask(&known).status, 304);
}

#[test]
fn a_key_that_cannot_be_used_is_named_at_the_start() {
    let (home, _) = home("");
    fs::write(home.path("new.pem"), "-----BEGIN PRIVATE KEY-----\nhunter2\n-----END PRIVATE KEY-----\n").unwrap();
    let said = home.expect_start_refused(home.command());
    assert!(said.contains("server.signing.keys") && said.contains("new.pem"), "{said}");
    assert!(!said.contains("hunter2"), "{said}");
    fs::remove_file(home.path("new.pem")).unwrap();
    let said = home.expect_start_refused(home.command());
    assert!(said.contains("new.pem") && said.contains("No such file"), "{said}");
}

#[test]
fn where_nothing_is_signed_there_are_no_keys() {
    let server = TestServer::start(AGENT);
    assert_eq!(server.ask(&Request::get(KEYS)).status, 404);
    let desk = CommandDirectory::new();
    let ran = desk.run(&["card", "verify", &format!("http://{}", server.address)]);
    assert_eq!(ran.code, 1);
    assert!(ran.stderr.contains("SABIR_ERR_CARD_UNVERIFIED") && ran.stderr.contains("absent"), "{ran:?}");
}

fn plain_card() -> Value {
    json!({
        "version": "1", "name": "Ledger", "description": "Keeps books.", "x-note": {"of": "mine"},
        "supportedInterfaces": [{"url": "https://ledger.example/", "protocolBinding": "JSONRPC", "protocolVersion": "1.0"}],
        "capabilities": {"streaming": true}, "defaultInputModes": ["text/plain"], "defaultOutputModes": ["text/plain"],
        "skills": [{"id": "s", "name": "S", "description": "d", "tags": ["t"]}],
    })
}

#[test]
fn a_card_is_signed_by_hand() {
    let desk = CommandDirectory::new();
    for name in ["a.pem", "b.pem"] {
        desk.run(&["card", "keys", "--new", name]).expect_success();
    }
    fs::write(desk.path("card.json"), plain_card().to_string()).unwrap();
    let signed = desk.run(&["card", "sign", "card.json", "--key", "a.pem", "--jku", "https://ledger.example/keys"]);
    let mut card = signed.json();
    fs::write(desk.path("signed.json"), signed.expect_success()).unwrap();
    let signatures = card.as_object_mut().unwrap().remove("signatures").unwrap();
    assert_eq!(card, plain_card());
    assert_eq!(signatures.as_array().unwrap().len(), 2, "with what 1.0 does not know, and without");
    fs::write(desk.path("a.json"), desk.run(&["card", "keys", "--key", "a.pem"]).expect_success()).unwrap();
    fs::write(desk.path("b.json"), desk.run(&["card", "keys", "--key", "b.pem"]).expect_success()).unwrap();
    desk.run(&["card", "verify", "signed.json", "--jwks", "a.json"]).expect_success();
    assert_eq!(desk.run(&["card", "verify", "signed.json", "--jwks", "b.json"]).code, 1);
    // A file has no host of its own, so the keys that it names itself count for nothing.
    assert_eq!(desk.run(&["card", "verify", "signed.json"]).code, 1);
    // Another key signs as well, from standard input, and the first signature stays.
    let both = desk.run_with_input(&["card", "sign", "-", "--key", "file:b.pem"], signed.expect_success());
    fs::write(desk.path("both.json"), both.expect_success()).unwrap();
    for set in ["a.json", "b.json"] {
        desk.run(&["card", "verify", "both.json", "--jwks", set]).expect_success();
    }
}

#[test]
fn what_cannot_be_signed_is_explained() {
    let desk = CommandDirectory::new();
    desk.run(&["card", "keys", "--new", "a.pem"]).expect_success();
    assert_eq!(desk.run(&["card", "keys", "--new", "a.pem"]).code, 2, "a key is never written over");
    let mode = std::os::unix::fs::PermissionsExt::mode(&fs::metadata(desk.path("a.pem")).unwrap().permissions());
    assert_eq!(mode & 0o777, 0o600);
    let mut card = plain_card();
    card["description"] = json!("");
    fs::write(desk.path("card.json"), card.to_string()).unwrap();
    let ran = desk.run(&["card", "sign", "card.json", "--key", "a.pem"]);
    assert_eq!(ran.code, 1);
    assert!(ran.stderr.contains("/description"), "{ran:?}");
    for arguments in [
        &["card", "sign", "none.json", "--key", "a.pem"][..],
        &["card", "sign", "card.json", "--key", "none.pem"],
        &["card", "sign", "card.json", "--key", "card.json"],
        &["card", "sign", "card.json"],
        &["card", "keys"],
    ] {
        let ran = desk.run(arguments);
        assert_eq!(ran.code, 2, "{arguments:?} {ran:?}");
    }
}
