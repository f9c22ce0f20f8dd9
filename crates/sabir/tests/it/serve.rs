//! `Service::serve` stops in order on a signal, and logs it.

use sabir::{Agent, Context, Ending, Failure, Service};
use std::io::{BufRead, BufReader, Read};
use std::process::{Child, Command, Stdio};

struct Echo;

impl Agent for Echo {
    async fn turn(&self, cx: &mut Context) -> Result<Ending, Failure> {
        let parts = cx.message().parts.clone();
        cx.artifact("echo", parts).await?;
        Ok(Ending::complete())
    }
}

/// The program that the tests below start: this test binary again, with this test alone.
#[tokio::test]
#[ignore = "serves until it is stopped by a signal; the tests below start it as a process of its own"]
async fn serves_until_it_is_stopped() {
    sabir::init_logging();
    let service = Service::from_env().expect("the variables are legal");
    service.agent("echo", Echo).serve().await.expect("it starts");
}

fn start(folder: &tempfile::TempDir) -> (Child, BufReader<std::process::ChildStdout>, String) {
    let program = std::env::current_exe().expect("a test has a binary");
    let mut command = Command::new(program);
    command.args(["serve::serves_until_it_is_stopped", "--exact", "--ignored", "--nocapture"]);
    // Variables of the test run must not configure the server.
    for (name, _) in std::env::vars().filter(|(name, _)| name.starts_with("SABIR_")) {
        command.env_remove(name);
    }
    command.env("SABIR_SERVER__LISTEN", "127.0.0.1:0");
    command.env("SABIR_STORE__URL", format!("sqlite:{}/sabir.db", folder.path().display()));
    let mut child = command.stdout(Stdio::piped()).stderr(Stdio::piped()).spawn().expect("it starts");
    let mut stdout = BufReader::new(child.stdout.take().expect("it is piped"));
    let mut line = String::new();
    // The test harness writes a few lines of its own first.
    while !line.contains("listening on http://") {
        line.clear();
        assert_ne!(stdout.read_line(&mut line).expect("it can be read"), 0, "it ended before it listened");
    }
    let url = line.trim().rsplit(' ').next().unwrap_or_default().to_owned();
    (child, stdout, url)
}

fn stops_in_order_by(signal: &str) {
    let folder = tempfile::tempdir().expect("a directory");
    let (mut child, _stdout, url) = start(&folder);
    let host = url.trim_start_matches("http://").to_owned();
    drop(std::net::TcpStream::connect(&host).expect("it listens"));
    let sent = Command::new("kill").args([signal, &child.id().to_string()]).status().expect("kill is there");
    assert!(sent.success());
    let mut log = String::new();
    child.stderr.take().expect("it is piped").read_to_string(&mut log).expect("the log is text");
    let status = child.wait().expect("it ends");
    assert!(status.success(), "{status}: {log}");
    assert!(log.contains(" INFO ") && log.ends_with(": stopping\n"), "{log:?}");
    assert!(!log.contains('\u{1b}'), "a log in a file has no colours: {log:?}");
    assert!(std::net::TcpStream::connect(&host).is_err(), "it still listens");
}

#[test]
fn ctrl_c_stops_a_service_in_order() {
    stops_in_order_by("-INT");
}

#[test]
fn sigterm_stops_a_service_in_order() {
    stops_in_order_by("-TERM");
}
