//! A configuration is checked before a start, and a server says what it serves.

use crate::command_runner::{CommandDirectory, CommandOutput};
use crate::http_client::Request;
use crate::rpc_client::{send_params, state};
use crate::test_server::{ServerDirectory, TestServer, eventually};
use std::fs;

const ECHO: &str = "[[agent]]\nname = \"echo\"\nkind = \"echo\"\ndefault = true\n";

fn check(text: &str, flags: &[&str]) -> CommandOutput {
    let desk = CommandDirectory::new();
    fs::write(desk.path("sabir.toml"), text).unwrap();
    let ran = desk.run(&[&["config", "check"], flags].concat());
    assert!(!desk.path("sabir-data").exists(), "a check leaves nothing behind");
    ran
}

#[test]
fn a_good_configuration_is_valid_and_a_doubtful_one_has_warnings() {
    let good = check(ECHO, &[]);
    assert!(good.code == 0 && good.stdout.contains("Configuration: valid\n"), "{good:#?}");
    let doubtful = format!("[limits.tier.free]\nper_day = 1\n{ECHO}");
    let warned = check(&doubtful, &[]);
    assert!(warned.code == 0 && warned.stdout.contains("Warning: [limits] has limits for API keys"), "{warned:#?}");
    assert_eq!(check(&doubtful, &["--strict"]).code, 1);
    assert_eq!(check(ECHO, &["--strict"]).code, 0);
}

#[test]
fn a_fallback_that_is_not_in_the_file_is_an_error_of_the_check_and_a_warning_of_the_server() {
    let remote = "[[agent]]\nname = \"far\"\nkind = \"a2a\"\nurl = \"http://127.0.0.1:9\"\nfallback = \"spare\"\n";
    let desk = "[[agent]]\nname = \"desk\"\nkind = \"dispatch\"\n[agent.dispatch]\nagents = [\"echo\"]\nfallback = \"clerk\"\n";
    for (text, words) in [
        (remote, "agent \"far\": fallback names \"spare\", and this file has no such agent"),
        (desk, "agent \"desk\": dispatch.fallback names \"clerk\", and this file has no such agent"),
    ] {
        let ran = check(&format!("{ECHO}{text}"), &[]);
        assert!(ran.code == 1 && ran.stderr.contains(words), "{ran:#?}");
        for name in ["spare", "clerk"] {
            let there = format!("{ECHO}{text}[[agent]]\nname = \"{name}\"\nkind = \"echo\"\n");
            assert_eq!(check(&there, &[]).code == 0, words.contains(name), "{there}");
        }
        // An agent that is added at run time may have that name.
        let sabir = TestServer::start(&format!("{ECHO}{text}"));
        eventually("the start warns", || sabir.log_text().contains(words));
    }
}

#[test]
fn what_a_start_would_refuse_is_refused_with_its_place() {
    for (text, words) in [
        ("[server]\nlsiten = \"x\"\n", "line 2, \"lsiten\": there is no key `lsiten`; did you mean `listen`?"),
        ("[server]\nlisten = 4000\n", "a port alone is not enough; write \"127.0.0.1:4000\""),
        ("[store]\nurl = \"mysql://x\"\n", "store.url = \"mysql://x\" is not known"),
        ("[[agent]]\nname = \"a\"\nkind = \"exec\"\n", "kind = \"exec\" needs a command"),
        ("[server]\nlisten = \"0.0.0.0:4000\"\n[[agent]]\nname = \"a\"\nkind = \"echo\"\n", "open = true"),
        (
            "[auth.jwt]\nsecret = \"env:NO_SUCH_VARIABLE_HERE\"\n[[agent]]\nname = \"a\"\nkind = \"echo\"\n",
            "NO_SUCH_VARIABLE_HERE",
        ),
    ] {
        let ran = check(text, &[]);
        assert!(ran.code == 1 && ran.stderr.contains(words), "{text}: {ran:#?}");
    }
    let missing = CommandDirectory::new().run(&["config", "check", "no-such-file.toml"]);
    assert!(missing.code == 1 && missing.stderr.contains("no-such-file.toml"), "{missing:#?}");
}

#[test]
fn a_setting_that_does_not_count_is_told_and_one_that_cannot_be_had_is_an_error() {
    let postgres = format!("[store]\nurl = \"postgres://sabir:hunter2@db.example/tasks\"\n{ECHO}");
    let home = ServerDirectory::new(&postgres);
    let said = home.expect_start_refused(home.command());
    for words in ["sabir.toml", "store.url", "sqlite:PATH"] {
        assert!(said.contains(words), "{words:?} is not in: {said}");
    }
    assert!(!said.contains("hunter2") && !home.data().exists(), "{said}");
    let other = ServerDirectory::new(&format!(
        "[store]\nurl = \"sqlite:other/sabir.db\"\n[server]\nlisten = \"127.0.0.1:4711\"\n{ECHO}"
    ));
    let mut command = other.command();
    command.env("SABIR_STORE__DURABILITY", "normal").arg("--echo");
    let sabir = TestServer::run(&other, command);
    eventually("the banner", || sabir.log_text().contains("Catalog:"));
    let said = sabir.log_text();
    for (key, by) in [("store.url", "--data"), ("server.listen", "--listen"), ("agent", "--echo")] {
        let note =
            format!("note: {key} of {} is not used, because {by} replaces it", other.path("sabir.toml").display());
        assert!(said.contains(&note), "{note:?} is not in: {said}");
    }
    assert!(!other.path("other").exists());
    assert!(!said.contains("durability"), "what replaces a default drops nothing: {said}");
    // A start without a file has nothing to say.
    let plain = TestServer::start(ECHO);
    eventually("the banner", || plain.log_text().contains("Catalog:"));
    assert!(!plain.log_text().contains("note:"), "{}", plain.log_text());
}

#[test]
fn the_schema_is_json_that_knows_the_sections() {
    let schema = CommandDirectory::new().run(&["config", "schema"]).json();
    assert!(schema["properties"]["server"].is_object(), "{schema}");
    assert_eq!(schema["additionalProperties"], false);
}

#[test]
fn a_server_says_what_it_serves_and_a_failed_task_is_in_the_log() {
    let failing = "[[agent]]\nname = \"broken\"\nkind = \"exec\"\ncommand = \"echo /etc/secret >&2; exit 3\"\n";
    let home = ServerDirectory::new(&format!("{ECHO}{failing}"));
    let sabir = TestServer::run(&home, home.command_at("localhost:0"));
    eventually("the banner", || sabir.log_text().contains("Try: sabir chat http://127.0.0.1:"));
    let said = sabir.log_text();
    for words in
        ["this machine only; no credential needed", "/agents/broken", "JSONRPC 1.0 0.3", "sabir.db", "/catalog"]
    {
        assert!(said.contains(words), "{words}: {said}");
    }
    let task = sabir.send("/agents/broken", &send_params("x"));
    assert_eq!(state(&task), "TASK_STATE_FAILED");
    assert!(!task.to_string().contains("/etc/secret"), "{task}");
    eventually("the line of the log", || sabir.log_text().contains("a task failed agent=broken"));
    let said = sabir.log_text();
    assert!(said.contains(task["id"].as_str().unwrap()) && said.contains("exit code 3"), "{said}");
    assert!(said.contains("/etc/secret"), "the operator reads what the command wrote: {said}");
    assert!(!said.contains('\u{1b}'), "no colours in a file: {said}");
}

#[test]
fn each_request_is_a_line_where_the_operator_wants_it() {
    let home = ServerDirectory::new(&format!("[server]\naccess_log = true\n{ECHO}"));
    let sabir = TestServer::start_at(&home);
    sabir.ask(&Request::get("/catalog?q=private"));
    eventually("the line", || sabir.log_text().contains("path=\"/catalog\" status=200"));
    assert!(!sabir.log_text().contains("private"), "{}", sabir.log_text());
}

#[test]
fn a_browser_gets_a_page_and_a_program_gets_what_it_always_got() {
    let sabir = TestServer::start(ECHO);
    let page = sabir.ask(&Request::get("/").with("Accept", "text/html,application/xhtml+xml,*/*;q=0.8"));
    assert_eq!((page.status, page.header("Content-Type")), (200, Some("text/html; charset=utf-8")));
    assert!(page.text().contains("<code>echo</code>") && page.text().contains("sabir chat http://"), "{}", page.text());
    assert!(page.header("Content-Security-Policy").is_some_and(|policy| policy.contains("default-src 'none'")));
    for accept in ["application/json", "*/*"] {
        assert_eq!(sabir.ask(&Request::get("/").with("Accept", accept)).status, 405);
    }
}

#[test]
fn an_organisation_whose_secret_the_server_does_not_have_is_refused() {
    let home =
        ServerDirectory::new(&format!("[auth.jwt]\nsecret = \"env:ORG_SECRET_OF_A_TEST\"\naudience = \"a\"\n{ECHO}"));
    let mut command = home.command();
    command.env("ORG_SECRET_OF_A_TEST", "0123456789abcdef0123456789abcdef");
    let _sabir = TestServer::run(&home, command);
    let desk = CommandDirectory::new();
    let files = [home.path("sabir.toml"), home.data()].map(|path| path.to_str().unwrap().to_owned());
    let add = |secret: &str| {
        desk.run(&["org", "add", "example.com", "--secret", secret, "--config", &files[0], "--data", &files[1]])
    };
    let refused = add("env:NO_SUCH_VARIABLE_HERE");
    assert!(
        refused.code == 1 && refused.stderr.contains("the running server cannot read env:NO_SUCH_VARIABLE_HERE"),
        "{refused:#?}"
    );
    assert_eq!(add("env:ORG_SECRET_OF_A_TEST").code, 0);
}

#[test]
fn the_data_directory_may_be_apart_from_the_store() {
    let config = |store: &str| {
        format!(
            "[server]\nlisten = \"127.0.0.1:0\"\ndata = \"run\"\n[store]\nurl = \"sqlite:{store}/sabir.db\"\n{ECHO}"
        )
    };
    let home = ServerDirectory::new(&config("db"));
    let sabir = TestServer::run(&home, home.command_without_data());
    sabir.send("/", &send_params("stored"));
    assert!(home.path("run/sabir.sock").exists() && home.path("db/sabir.db").exists());
    assert!(!home.path("db/sabir.sock").exists() && !home.path("sabir-data").exists());
    // A command finds the server there.
    let file = home.path("sabir.toml");
    let listed = || CommandDirectory::new().run(&["push", "list", "--server-config", file.to_str().unwrap()]);
    listed().expect_success();
    // Another store is not enough for a second server: the journal and the socket are in the data directory.
    fs::write(&file, config("other")).unwrap();
    let said = home.expect_start_refused(home.command_without_data());
    assert!(said.contains(&home.path("run").display().to_string()) && said.contains("in use"), "{said}");
    fs::write(&file, config("db")).unwrap();
    listed().expect_success();
}
