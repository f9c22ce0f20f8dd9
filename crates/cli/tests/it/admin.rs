//! Administering a server by commands: with and without it running, one at a time and many at once.

use crate::command_runner::{CommandDirectory, CommandOutput, wait_for_exit};
use crate::http_client::{Request, TEST_TIMEOUT};
use crate::rpc_client::{envelope, send_params};
use crate::test_server::{ServerDirectory, TestServer, eventually};
use serde_json::Value;
use std::fs;
use std::io::{BufRead, BufReader};
use std::path::Path;
use std::process::Stdio;
use std::sync::mpsc::channel;

const ECHO: &str = "[[agent]]\nname = \"demo\"\nkind = \"echo\"\ndefault = true\n";

/// The code of an error and what it says, of a command that failed.
#[track_caller]
fn refused(ran: &CommandOutput, code: &str, words: &[&str]) {
    assert_ne!(ran.code, 0, "{ran:#?}");
    let said = format!("{}{}", ran.stdout, ran.stderr);
    for word in [code].iter().chain(words) {
        assert!(said.contains(word), "{word:?} is not in {said}");
    }
}

/// Whether any file below a directory has this text in it.
fn anywhere(directory: &Path, text: &str) -> bool {
    fs::read_dir(directory).unwrap().any(|entry| {
        let path = entry.unwrap().path();
        if path.is_dir() {
            return anywhere(&path, text);
        }
        fs::read(&path).unwrap().windows(text.len()).any(|window| window == text.as_bytes())
    })
}

fn create(desk: &CommandDirectory, flags: &[&str]) -> Value {
    let ran = desk.run(&[&["key", "create", "-o", "json"], flags].concat());
    ran.expect_success();
    ran.json()
}

fn keys(desk: &CommandDirectory) -> Vec<Value> {
    let ran = desk.run(&["key", "list", "-o", "json"]);
    ran.expect_success();
    ran.json()["keys"].as_array().unwrap().clone()
}

#[test]
fn a_key_is_shown_once_and_kept_nowhere() {
    let desk = CommandDirectory::new();
    let made = create(&desk, &["--name", "ci", "--owner", "ana", "--scope", "send,read", "--scope", "skill:quote"]);
    let text = made["key"].as_str().unwrap();
    assert_eq!((text.len(), &text[..6]), (38, "sabir_"));
    assert_eq!(made["prefix"], text[..14]);
    assert_eq!(made["scopes"], serde_json::json!(["send", "read", "skill:quote"]));
    assert!(!anywhere(&desk.path("sabir-data"), &text[14..]), "the text is in no file");
    let listed = keys(&desk);
    assert_eq!((listed.len(), &listed[0]["id"], &listed[0]["owner"]), (1, &made["id"], &"ana".into()));
    assert!(listed[0].get("key").is_none());
    let shown = desk.run(&["key", "list"]);
    assert_eq!(shown.fields("Key ID"), [made["id"].as_str().unwrap()]);
    assert!(!shown.expect_success().contains(&text[14..]));
    assert!(!desk.run(&["audit", "tail"]).expect_success().contains(&text[14..]));
}

#[test]
fn a_key_of_a_tier_has_the_prefix_of_its_network() {
    let desk = CommandDirectory::new();
    for (flags, prefix) in
        [(&["--tier", "free"][..], "agnt_live_"), (&["--tier", "free", "--test"], "agnt_test_"), (&[], "sabir_")]
    {
        let made = create(&desk, flags);
        assert!(made["key"].as_str().unwrap().starts_with(prefix), "{made}");
        let ran = desk.run(&["key", "rotate", made["id"].as_str().unwrap(), "-o", "json"]);
        assert!(ran.json()["key"].as_str().unwrap().starts_with(prefix), "{ran:?}");
    }
    refused(&desk.run(&["key", "create", "--test"]), "A2ACLI_ERR_USAGE", &["--tier"]);
    refused(&desk.run(&["key", "create", "--tier", "por"]), "A2ACLI_ERR_USAGE", &["enterprise, free, pro"]);
    fs::write(desk.path("sabir.toml"), "[limits.tier.por]\nper_day = 5\n").unwrap();
    create(&desk, &["--tier", "por"]);
}

#[test]
fn a_key_ends_when_it_was_said_to() {
    let desk = CommandDirectory::new();
    let made = create(&desk, &["--expires", "2999-01-31"]);
    assert_eq!(made["expiresAt"], "2999-01-31T00:00:00.000Z");
    assert!(create(&desk, &["--expires", "30d"])["expiresAt"].is_string());
    for bad in ["2001-01-31", "soon", "30", "-1d"] {
        let ran = desk.run(&["key", "create", &format!("--expires={bad}")]);
        assert_eq!(ran.code, 2, "{ran:?}");
    }
}

#[test]
fn a_key_is_rotated_and_revoked() {
    let desk = CommandDirectory::new();
    let made = create(&desk, &["--name", "a"]);
    let id = made["id"].as_str().unwrap();
    let ran = desk.run(&["key", "rotate", id, "--grace", "24h", "-o", "json"]);
    let rotated = ran.json();
    assert_eq!((&rotated["id"], &rotated["name"]), (&made["id"], &made["name"]));
    assert_ne!(rotated["key"], made["key"]);
    assert_eq!(rotated["retiring"][0]["prefix"], made["prefix"]);
    assert_eq!(desk.run(&["key", "rotate", id, "-o", "json"]).json()["retiring"].as_array().unwrap().len(), 1);
    assert_eq!(desk.run(&["key", "revoke", id, "-o", "json"]).json()["state"], "revoked");
    assert_eq!(keys(&desk)[0]["state"], "revoked");
    desk.run(&["key", "revoke", id]).expect_success();
    refused(&desk.run(&["key", "rotate", id]), "SABIR_ERR_REVOKED", &["sabir key create"]);
}

#[test]
fn what_makes_no_sense_is_refused_with_the_next_step() {
    let desk = CommandDirectory::new();
    create(&desk, &[]);
    let unknown = desk.run(&["key", "revoke", "k9", "-o", "json"]);
    assert_eq!(unknown.json()["error"]["code"], "SABIR_ERR_UNKNOWN_KEY");
    assert_eq!(unknown.code, 1);
    refused(&desk.run(&["key", "rotate", "k9"]), "SABIR_ERR_UNKNOWN_KEY", &["sabir key list"]);
    for flags in [&["--scope", "snd"][..], &["--scope", "skill:"], &["--agent", "a b"], &["--name", " "]] {
        let ran = desk.run(&[&["key", "create"], flags].concat());
        assert_eq!(ran.code, 2, "{ran:?}");
    }
    let text = "sabir_000102030405060708090a0b0c0d0eff";
    let ran = desk.run(&["key", "revoke", text]);
    refused(&ran, "A2ACLI_ERR_USAGE", &["not the id"]);
    assert!(!format!("{ran:?}").contains(text), "a key is not repeated");
    assert_eq!(desk.run(&["key", "list", "-o", "yaml"]).code, 2);
    assert_eq!(keys(&desk).len(), 1, "nothing of this made a key");
}

#[test]
fn where_there_is_nothing_nothing_is_made() {
    let desk = CommandDirectory::new();
    for verb in
        [&["key", "list"][..], &["org", "list"], &["audit", "tail"], &["audit", "verify"], &["key", "revoke", "k"]]
    {
        refused(&desk.run(verb), "SABIR_ERR_NO_STORE", &["sabir-data", "--server-config", "--data"]);
    }
    assert!(!desk.path("sabir-data").exists());
    fs::write(desk.path("sabir.toml"), "[store]\nurl = \"memory:\"\n").unwrap();
    refused(&desk.run(&["key", "create"]), "SABIR_ERR_NO_STORE", &["memory:"]);
    fs::write(desk.path("sabir.toml"), "[stroe]\n").unwrap();
    refused(&desk.run(&["key", "list"]), "A2ACLI_ERR_USAGE", &["stroe"]);
    refused(&desk.run(&["key", "list", "--config", "nowhere.toml"]), "A2ACLI_ERR_USAGE", &["nowhere.toml"]);
}

#[test]
fn the_files_are_found_through_the_configuration() {
    let desk = CommandDirectory::new();
    fs::create_dir(desk.path("etc")).unwrap();
    fs::write(desk.path("etc/sabir.toml"), "[store]\nurl = \"sqlite:../var/sabir.db\"\n").unwrap();
    desk.run(&["key", "create", "--config", "etc/sabir.toml"]).expect_success();
    assert!(desk.path("var").is_dir() && !desk.path("sabir-data").exists());
    assert_eq!(desk.run(&["key", "list", "--data", "var"]).fields("Total"), ["1"]);
}

#[test]
fn organisations_come_and_go() {
    let desk = CommandDirectory::new();
    desk.run(&["org", "add", "Example.com", "--secret", "env:EXAMPLE_SECRET"]).expect_success();
    let again = desk.run(&["org", "add", "example.com", "--secret", "file:secret.txt", "-o", "json"]);
    assert_eq!(again.json()["replaced"], "env:EXAMPLE_SECRET");
    let listed = desk.run(&["org", "list", "-o", "json"]).json();
    assert_eq!(listed["organisations"].as_array().unwrap().len(), 1);
    assert!(listed["organisations"][0]["secret"].as_str().unwrap().starts_with("file:/"), "{listed}");
    let ran = desk.run(&["org", "add", "example.com", "--secret", "hunter2"]);
    refused(&ran, "A2ACLI_ERR_USAGE", &["env:NAME"]);
    assert!(!format!("{}{}", ran.stdout, ran.stderr).contains("hunter2"));
    desk.run(&["org", "remove", "EXAMPLE.com"]).expect_success();
    refused(&desk.run(&["org", "remove", "example.com"]), "SABIR_ERR_UNKNOWN_ORGANISATION", &["sabir org list"]);
    let entries = desk.run(&["audit", "tail", "-o", "json"]).json();
    let entries = entries["entries"].as_array().unwrap();
    assert_eq!(entries.len(), 3);
    assert!(entries.iter().all(|one| one["about"] == "organisation:example.com" && one["scheme"] == "local"));
    assert!(entries[0]["caller"].as_str().unwrap().starts_with("operator:"));
}

#[test]
fn many_commands_at_once_make_one_chain() {
    let desk = CommandDirectory::new();
    create(&desk, &[]);
    let running: Vec<_> =
        (0..8).map(|n| desk.command(&["key", "create", "--name", &n.to_string()]).spawn().unwrap()).collect();
    for child in running {
        wait_for_exit(child).expect_success();
    }
    assert_eq!(keys(&desk).len(), 9);
    assert_eq!(desk.run(&["audit", "verify", "-o", "json"]).json()["entries"], 9);
}

#[test]
fn a_running_server_does_not_stand_in_the_way() {
    let home = ServerDirectory::new(ECHO);
    let server = TestServer::start_at(&home);
    let desk = CommandDirectory::new();
    let data = home.data().display().to_string();
    let made = create(&desk, &["--data", &data]);
    let listed = desk.run(&["key", "list", "--data", &data]);
    assert_eq!(listed.fields("Key ID"), [made["id"].as_str().unwrap()]);
    desk.run(&["key", "revoke", made["id"].as_str().unwrap(), "--data", &data]).expect_success();
    server.still_serves();
}

/// Sends a message with a key.
fn send(server: &TestServer, key: &str) -> u16 {
    let request = Request::post("/", envelope("SendMessage", &send_params("hello")));
    server.ask(&request.with("Authorization", format!("Bearer {key}"))).status
}

#[test]
fn a_running_server_takes_a_key_at_once_and_refuses_it_once_it_is_revoked() {
    let home = ServerDirectory::new(&format!("[auth]\naccept = [\"api_key\"]\n{ECHO}"));
    let server = TestServer::start_at(&home);
    let desk = CommandDirectory::new();
    let data = home.data().display().to_string();
    let made = create(&desk, &["--data", &data, "--name", "ci"]);
    let (id, key) = (made["id"].as_str().unwrap(), made["key"].as_str().unwrap());
    eventually("the key is taken", || send(&server, key) == 200);
    let ask = |key: &str, method: &str, params: &Value| {
        let request = Request::post("/", envelope(method, params));
        server.ask(&request.with("Authorization", format!("Bearer {key}"))).json()["result"].take()
    };
    let task = ask(key, "SendMessage", &send_params("hello"))["task"]["id"].take();
    // Rotated: the new text is taken, and the old one for as long as was said.
    let rotated = desk.run(&["key", "rotate", id, "--grace", "1h", "--data", &data, "-o", "json"]).json();
    let new = rotated["key"].as_str().unwrap();
    eventually("the new text is taken", || send(&server, new) == 200);
    assert_eq!(send(&server, key), 200, "the old text is in its grace");
    assert_eq!(ask(new, "GetTask", &serde_json::json!({"id": task}))["id"], task, "the caller is the same");
    desk.run(&["key", "revoke", id, "--data", &data]).expect_success();
    eventually("the key is refused", || send(&server, new) == 401);
    assert_eq!(send(&server, key), 401, "all its texts are");
    eventually("the key was used, and the refusals are in the audit", || {
        let keys = desk.run(&["key", "list", "--data", &data, "-o", "json"]).json();
        let tail = desk.run(&["audit", "tail", "--data", &data, "-o", "json"]).json();
        let entries = tail["entries"].as_array().unwrap();
        assert!(!tail.to_string().contains(&key[14..]), "no key is in the audit");
        keys["keys"][0]["lastUsedAt"].is_string() && entries.iter().any(|entry| entry["outcome"] == "refused")
    });
    desk.run(&["audit", "verify", "--data", &data]).expect_success();
}

#[test]
fn a_key_does_what_its_scopes_say_and_nothing_else() {
    let home = ServerDirectory::new(&format!("[auth]\naccept = [\"api_key\"]\n{ECHO}"));
    let server = TestServer::start_at(&home);
    let desk = CommandDirectory::new();
    let data = home.data().display().to_string();
    let key = |flags: &[&str]| {
        let made = create(&desk, &[&["--data", &data], flags].concat());
        made["key"].as_str().unwrap().to_owned()
    };
    let (sends, reads, elsewhere) = (key(&["--scope", "send"]), key(&["--scope", "read"]), key(&["--agent", "other"]));
    // The last one was made last, so the others are known when it is.
    eventually("a key of another agent is known, and not for this", || send(&server, &elsewhere) == 403);
    assert_eq!(send(&server, &sends), 200);
    assert_eq!(send(&server, &reads), 403);
}

#[test]
fn the_audit_shows_the_last_and_only_what_was_asked_for() {
    let desk = CommandDirectory::new();
    for name in ["a", "b", "c"] {
        create(&desk, &["--name", name]);
    }
    let last = desk.run(&["audit", "tail", "-n", "2"]);
    let numbers: Vec<&str> = last.expect_success().lines().filter_map(|line| line.split(' ').next()).collect();
    assert_eq!(numbers, ["2", "3"]);
    assert_eq!(desk.run(&["audit", "tail", "--caller", "operator:nobody-of-this-name"]).expect_success(), "");
    assert_eq!(desk.run(&["audit", "tail", "--job", "7"]).expect_success(), "");
    assert_eq!(desk.run(&["audit", "tail", "-n", "0"]).expect_success(), "");
}

#[test]
fn whoever_follows_the_audit_sees_what_others_do() {
    let desk = CommandDirectory::new();
    create(&desk, &[]);
    let mut child = desk.command(&["audit", "tail", "--follow", "-o", "json"]).stderr(Stdio::null()).spawn().unwrap();
    let (said, heard) = channel();
    let stdout = child.stdout.take().unwrap();
    std::thread::spawn(move || {
        for line in BufReader::new(stdout).lines() {
            let entry: Value = serde_json::from_str(&line.unwrap()).unwrap();
            if said.send(entry).is_err() {
                return;
            }
        }
    });
    assert_eq!(heard.recv_timeout(TEST_TIMEOUT).unwrap()["seq"], 1);
    let made = create(&desk, &[]);
    let entry = heard.recv_timeout(TEST_TIMEOUT).unwrap();
    assert_eq!((&entry["seq"], &entry["outcome"]), (&2.into(), &"changed".into()));
    assert_eq!(entry["about"], format!("key:{}", made["id"].as_str().unwrap()));
    child.kill().unwrap();
    child.wait().unwrap();
}

#[test]
fn a_broken_audit_is_named_where_it_breaks() {
    let desk = CommandDirectory::new();
    for name in ["a", "b", "c"] {
        create(&desk, &["--name", name]);
    }
    let whole = desk.run(&["audit", "verify"]);
    let [later] = whole.fields("Later")[..] else { panic!("{whole:?}") };
    let known = later.rsplit(' ').next().unwrap();
    desk.run(&["audit", "verify", "--known", known]).expect_success();
    create(&desk, &[]);
    desk.run(&["audit", "verify", "--known", known]).expect_success();
    let other = format!("3:{}", "0".repeat(64));
    refused(&desk.run(&["audit", "verify", "--known", &other]), "SABIR_ERR_AUDIT_BROKEN", &["entry 3"]);
    assert_eq!(desk.run(&["audit", "verify", "--known", "3"]).code, 2);

    let file = fs::read_dir(desk.path("sabir-data")).unwrap().map(|entry| entry.unwrap().path());
    let file = file.into_iter().find(|path| path.to_string_lossy().ends_with(".guard")).unwrap();
    let database = rusqlite::Connection::open(file).unwrap();
    database.execute_batch("DROP TRIGGER audit_not_edited").unwrap();
    database.execute("UPDATE audit SET entry = replace(entry, 'operator', 'somebody') WHERE seq = 2", []).unwrap();
    drop(database);
    let broken = desk.run(&["audit", "verify"]);
    assert_eq!(broken.code, 1);
    refused(&broken, "SABIR_ERR_AUDIT_BROKEN", &["entry 2", "was edited", "up to entry 1"]);
}
