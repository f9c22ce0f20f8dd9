//! The command line under test: the real binary, run to its end without the environment of the test.

use crate::http_client::TEST_TIMEOUT;
use crate::test_server::{ServerDirectory, TestServer};
use serde_json::Value;
use std::io::Write;
use std::path::{Path, PathBuf};
use std::process::{Child, Command, Stdio};
use std::thread;
use std::time::Instant;
use tempfile::TempDir;

/// A directory to run commands in, which is also their HOME.
pub(crate) struct CommandDirectory {
    directory: TempDir,
}

/// The result of a command.
#[derive(Debug)]
pub(crate) struct CommandOutput {
    pub(crate) code: i32,
    pub(crate) stdout: String,
    pub(crate) stderr: String,
}

impl CommandDirectory {
    pub(crate) fn new() -> Self {
        Self { directory: TempDir::with_prefix("sabir-desk-").unwrap() }
    }

    pub(crate) fn path(&self, name: &str) -> PathBuf {
        self.directory.path().join(name)
    }

    /// Builds a command without starting it.
    pub(crate) fn command(&self, arguments: &[&str]) -> Command {
        let mut command = Command::new(env!("CARGO_BIN_EXE_sabir"));
        let ours = |name: &str| name.starts_with("SABIR_") || name.starts_with("A2ACLI_") || name.starts_with("XDG_");
        for (name, _) in std::env::vars_os().filter(|(name, _)| ours(&name.to_string_lossy())) {
            command.env_remove(name);
        }
        command.args(arguments).current_dir(self.directory.path()).env("HOME", self.directory.path());
        command.stdin(Stdio::null()).stdout(Stdio::piped()).stderr(Stdio::piped());
        command
    }

    /// Runs a command without input.
    #[track_caller]
    pub(crate) fn run(&self, arguments: &[&str]) -> CommandOutput {
        wait_for_exit(self.command(arguments).spawn().unwrap())
    }

    /// Runs a command with a text as its standard input.
    #[track_caller]
    pub(crate) fn run_with_input(&self, arguments: &[&str], input: &str) -> CommandOutput {
        let mut child = self.command(arguments).stdin(Stdio::piped()).spawn().unwrap();
        let mut stdin = child.stdin.take().unwrap();
        let input = input.to_owned();
        // A command that refuses closes its input; that is not what is tested here.
        let writer = thread::spawn(move || drop(stdin.write_all(input.as_bytes())));
        let ran = wait_for_exit(child);
        writer.join().unwrap();
        ran
    }
}

/// Waits for a command to end by itself.
#[track_caller]
pub(crate) fn wait_for_exit(mut child: Child) -> CommandOutput {
    let read = |mut source: Box<dyn std::io::Read + Send>| {
        thread::spawn(move || {
            let mut text = String::new();
            source.read_to_string(&mut text).map(|_| text)
        })
    };
    let stdout = read(Box::new(child.stdout.take().unwrap()));
    let stderr = read(Box::new(child.stderr.take().unwrap()));
    let begun = Instant::now();
    let status = loop {
        if let Some(status) = child.try_wait().unwrap() {
            break Some(status);
        }
        if begun.elapsed() > TEST_TIMEOUT {
            child.kill().unwrap();
            break None;
        }
        thread::sleep(std::time::Duration::from_millis(5));
    };
    let (stdout, stderr) = (stdout.join().unwrap().unwrap(), stderr.join().unwrap().unwrap());
    let code = status.unwrap_or_else(|| panic!("it hangs\n{stdout}\n{stderr}")).code().unwrap_or(-1);
    assert!(!stderr.contains("panicked"), "{stderr}");
    CommandOutput { code, stdout, stderr }
}

impl CommandOutput {
    /// Standard output, of a command that did its job.
    #[track_caller]
    pub(crate) fn expect_success(&self) -> &str {
        assert_eq!(self.code, 0, "{self:#?}");
        &self.stdout
    }

    /// Standard output as one JSON document.
    #[track_caller]
    pub(crate) fn json(&self) -> Value {
        serde_json::from_str(&self.stdout).unwrap_or_else(|error| panic!("{error}\n{self:#?}"))
    }

    /// The values of a label, in their order.
    pub(crate) fn fields(&self, label: &str) -> Vec<&str> {
        let start = format!("{label}: ");
        self.stdout.lines().filter_map(|line| line.strip_prefix(&start)).collect()
    }
}

/// Starts a demo server and returns it with its URL.
pub(crate) fn demo(flags: &[&str]) -> (TestServer, String) {
    let home = ServerDirectory::new("");
    let server = TestServer::run(&home, home.demo(flags));
    let url = format!("http://{}", server.address);
    (server, url)
}

/// Reads a file as text.
pub(crate) fn read_text(path: &Path) -> String {
    std::fs::read_to_string(path).unwrap()
}
