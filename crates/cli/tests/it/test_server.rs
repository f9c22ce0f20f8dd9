//! A server under test: the real binary with a directory of its own, stopped when dropped.

use crate::http_client::{HttpConnection, TEST_TIMEOUT};
use rustls::ClientConfig;
use std::fs::{self, File};
use std::io::{BufRead, BufReader};
use std::net::SocketAddr;
use std::path::{Path, PathBuf};
use std::process::{Child, Command, ExitStatus, Stdio};
use std::sync::mpsc::channel;
use std::sync::{Arc, Mutex, MutexGuard, PoisonError, Weak};
use std::thread;
use std::time::{Duration, Instant};
use tempfile::TempDir;

/// The directory of a server: its configuration, its data, its log. It outlives restarts.
pub(crate) struct ServerDirectory {
    directory: TempDir,
}

impl ServerDirectory {
    pub(crate) fn new(config: &str) -> Arc<Self> {
        let home = Self { directory: TempDir::with_prefix("sabir-it-").unwrap() };
        fs::write(home.path("sabir.toml"), config).unwrap();
        Arc::new(home)
    }

    pub(crate) fn path(&self, name: &str) -> PathBuf {
        self.directory.path().join(name)
    }

    pub(crate) fn data(&self) -> PathBuf {
        self.path("data")
    }

    pub(crate) fn database(&self) -> PathBuf {
        self.data().join("sabir.db")
    }

    /// The database, for looking at it or damaging it; only while no server runs.
    pub(crate) fn open_database(&self) -> rusqlite::Connection {
        rusqlite::Connection::open(self.database()).unwrap()
    }

    /// The command line every test uses.
    pub(crate) fn command(&self) -> Command {
        self.command_at("127.0.0.1:0")
    }

    pub(crate) fn command_at(&self, listen: &str) -> Command {
        let mut command = self.command_without_address();
        command.args(["--listen", listen]);
        command
    }

    /// The same at the address that the configuration or the environment gives.
    pub(crate) fn command_without_address(&self) -> Command {
        let mut command = self.command_without_data();
        command.arg("--data").arg(self.data());
        command
    }

    /// The same with the directories of the configuration.
    pub(crate) fn command_without_data(&self) -> Command {
        let mut command = Command::new(env!("CARGO_BIN_EXE_sabir"));
        command.args(["serve", "--config"]).arg(self.path("sabir.toml"));
        self.isolate(&mut command);
        command
    }

    /// The demo server, which needs neither configuration nor data.
    pub(crate) fn demo(&self, flags: &[&str]) -> Command {
        let mut command = Command::new(env!("CARGO_BIN_EXE_sabir"));
        command.arg("demo-server").args(flags);
        self.isolate(&mut command);
        command
    }

    /// The same after a shell command such as `ulimit`, whose effect the server inherits.
    pub(crate) fn command_in_shell(&self, shell: &str) -> Command {
        let plain = self.command();
        let mut command = Command::new("sh");
        command
            .arg("-c")
            .arg(format!("{shell}; exec \"$@\""))
            .arg("sh")
            .arg(plain.get_program())
            .args(plain.get_args());
        self.isolate(&mut command);
        command
    }

    /// Keeps the variables of the test process from the server.
    fn isolate(&self, command: &mut Command) {
        for (name, _) in std::env::vars_os().filter(|(n, _)| n.to_string_lossy().starts_with("SABIR_")) {
            command.env_remove(name);
        }
        command.current_dir(self.directory.path()).env("RUST_BACKTRACE", "1").stdin(Stdio::null());
    }

    /// Starts and expects a refusal: an exit by itself with a failure. Returns standard error.
    #[track_caller]
    pub(crate) fn expect_start_refused(&self, mut command: Command) -> String {
        let errors = self.path("refusal.txt");
        command.stdout(Stdio::null()).stderr(File::create(&errors).unwrap());
        let status = wait(&mut command.spawn().unwrap()).expect("it started although it should have refused to");
        let said = fs::read_to_string(errors).unwrap();
        assert!(!status.success(), "it stopped without a failure: {said}");
        assert!(!said.contains("panicked"), "{said}");
        said
    }
}

/// A running server process.
pub(crate) struct TestServer {
    child: Child,
    pub(crate) address: SocketAddr,
    pub(crate) home: Arc<ServerDirectory>,
    errors: PathBuf,
    /// The TLS settings of its clients, if it serves TLS.
    client: Option<Arc<ClientConfig>>,
}

impl TestServer {
    /// A server with this configuration and no tasks.
    #[track_caller]
    pub(crate) fn start(config: &str) -> Self {
        Self::start_at(&ServerDirectory::new(config))
    }

    /// Starts a server in a directory where one has been before.
    #[track_caller]
    pub(crate) fn start_at(home: &Arc<ServerDirectory>) -> Self {
        Self::run(home, home.command())
    }

    #[track_caller]
    pub(crate) fn run(home: &Arc<ServerDirectory>, mut command: Command) -> Self {
        let errors = home.path("errors.txt");
        command.stdout(Stdio::piped()).stderr(File::options().create(true).append(true).open(&errors).unwrap());
        let mut child = command.spawn().unwrap();
        let stdout = child.stdout.take().unwrap();
        let (sender, receiver) = channel();
        // Reads on after the first line, so that the server never finds a closed pipe.
        thread::spawn(move || {
            BufReader::new(stdout).lines().map_while(Result::ok).for_each(|line| drop(sender.send(line)))
        });
        let line = receiver.recv_timeout(TEST_TIMEOUT);
        let said = line.as_deref().ok().and_then(|l| l.split_once("http://").or_else(|| l.split_once("https://")));
        let said = said.filter(|(words, _)| ["listening on ", "Listening: "].contains(words));
        let address = said.and_then(|(_, address)| address.parse().ok());
        let Some(address) = address else {
            let _ = child.kill();
            panic!("it did not start: {line:?}\n{}", fs::read_to_string(&errors).unwrap());
        };
        Self { child, address, home: home.clone(), errors, client: None }
    }

    /// The same, called over HTTPS by a client like this.
    pub(crate) fn with_tls_client(mut self, client: &Arc<ClientConfig>) -> Self {
        self.client = Some(client.clone());
        self
    }

    /// Opens a connection to it.
    #[track_caller]
    pub(crate) fn connect(&self) -> HttpConnection {
        match &self.client {
            None => HttpConnection::open(self.address),
            Some(client) => HttpConnection::open_tls(self.address, client.clone()).unwrap(),
        }
    }

    pub(crate) fn pid(&self) -> u32 {
        self.child.id()
    }

    /// Asks it to stop and does not wait.
    pub(crate) fn send_sigterm(&self) {
        let asked = Command::new("kill").args(["-TERM", &self.pid().to_string()]).status().unwrap();
        assert!(asked.success());
    }

    /// Waits until it has stopped by itself.
    #[track_caller]
    pub(crate) fn wait_for_exit(&mut self) -> ExitStatus {
        wait(&mut self.child).expect("it did not stop")
    }

    /// Stops it in an orderly way.
    #[track_caller]
    pub(crate) fn stop(mut self) -> Arc<ServerDirectory> {
        self.send_sigterm();
        assert!(self.wait_for_exit().success());
        self.home.clone()
    }

    /// Ends it without warning.
    pub(crate) fn kill(mut self) -> Arc<ServerDirectory> {
        self.child.kill().unwrap();
        self.child.wait().unwrap();
        self.home.clone()
    }

    pub(crate) fn log_text(&self) -> String {
        fs::read_to_string(&self.errors).unwrap_or_default()
    }

    /// Memory in use, in bytes.
    pub(crate) fn resident_bytes(&self) -> u64 {
        let status = fs::read_to_string(format!("/proc/{}/status", self.pid())).unwrap();
        let line = status.lines().find_map(|l| l.strip_prefix("VmRSS:")).unwrap();
        line.trim().trim_end_matches(" kB").parse::<u64>().unwrap() * 1024
    }
}

impl Drop for TestServer {
    fn drop(&mut self) {
        let _ = self.child.kill();
        let _ = self.child.wait();
        let said = self.log_text();
        if thread::panicking() {
            eprintln!("--- the server said:\n{said}---");
        } else {
            assert!(!said.contains("panicked"), "the server panicked:\n{said}");
        }
    }
}

/// One server for all tests that neither list nor count. It stops when the last of them is done.
pub(crate) fn shared_server() -> Arc<TestServer> {
    static SHARED: Mutex<Weak<TestServer>> = Mutex::new(Weak::new());
    let mut shared: MutexGuard<'_, Weak<TestServer>> = SHARED.lock().unwrap_or_else(PoisonError::into_inner);
    shared.upgrade().unwrap_or_else(|| {
        let sabir = Arc::new(TestServer::start(AGENTS));
        *shared = Arc::downgrade(&sabir);
        sabir
    })
}

/// Waits for a process; `None` if it does not end.
fn wait(child: &mut Child) -> Option<ExitStatus> {
    let begun = Instant::now();
    while begun.elapsed() < TEST_TIMEOUT {
        if let Some(status) = child.try_wait().unwrap() {
            return Some(status);
        }
        thread::sleep(Duration::from_millis(10));
    }
    let _ = child.kill();
    None
}

/// Asks again and again until the answer is yes.
#[track_caller]
pub(crate) fn eventually(what: &str, mut check: impl FnMut() -> bool) {
    let begun = Instant::now();
    while !check() {
        assert!(begun.elapsed() < TEST_TIMEOUT, "still not after {TEST_TIMEOUT:?}: {what}");
        thread::sleep(Duration::from_millis(20));
    }
}

/// The bytes of a file, to prove that nothing was changed.
pub(crate) fn file_bytes(path: &Path) -> Vec<u8> {
    fs::read(path).unwrap()
}

/// The agents that most tests call.
///
/// `desk` follows a script: `book` asks two questions, `chat` answers without a task, `forever` works until it is
/// canceled, `tick` reports ten chunks with pauses, `quick` two without, `sign` wants credentials.
pub(crate) const AGENTS: &str = r#"
[limits]
cancel_grace_seconds = 1

[[agent]]
name = "demo"
kind = "echo"
default = true

[[agent]]
name = "desk"
kind = "script"
[[agent.rule]]
when = { text_contains = "book" }
do = [{ status = "looking" }, { ask_input = "Which day?" }]
then = [
    { when = { text_contains = "never" }, do = [{ reject = "Then not." }] },
    { do = [{ ask_input = "How many?" }], then = [{ echo = true }, { complete = "Booked." }] },
]
[[agent.rule]]
when = { text_contains = "chat" }
do = [{ message = "Just so." }]
[[agent.rule]]
when = { text_contains = "forever" }
do = [{ status = "at it" }, { wait_ms = 86400000 }, { artifact = { id = "late", text = "too late" } }]
[[agent.rule]]
when = { text_contains = "tick" }
do = [
    { status = "ticking" },
    { artifact = { id = "t", text = "0" } }, { wait_ms = 30 },
    { artifact = { id = "t", text = "1", append = true } }, { wait_ms = 30 },
    { artifact = { id = "t", text = "2", append = true } }, { wait_ms = 30 },
    { artifact = { id = "t", text = "3", append = true } }, { wait_ms = 30 },
    { artifact = { id = "t", text = "4", append = true } }, { wait_ms = 30 },
    { artifact = { id = "t", text = "5", append = true } }, { wait_ms = 30 },
    { artifact = { id = "t", text = "6", append = true } }, { wait_ms = 30 },
    { artifact = { id = "t", text = "7", append = true } }, { wait_ms = 30 },
    { artifact = { id = "t", text = "8", append = true } }, { wait_ms = 30 },
    { artifact = { id = "t", text = "9", append = true, last_chunk = true } },
    { complete = "done" },
]
[[agent.rule]]
when = { text_contains = "quick" }
do = [
    { status = "quickly" },
    { artifact = { id = "q", text = "a" } },
    { artifact = { id = "q", text = "b", append = true, last_chunk = true } },
    { complete = "done" },
]
[[agent.rule]]
when = { text_contains = "sign" }
do = [{ ask_auth = "Who are you?" }]
then = [{ complete = "Welcome." }]
[[agent.rule]]
when = { text_contains = "break" }
do = [{ fail = "It broke." }]
[[agent.rule]]
do = [{ reject = "No." }]

[[agent]]
name = "mail"
kind = "script"
[agent.card.capabilities]
push_notifications = true
[[agent.rule]]
do = [{ ask_input = "More?" }]
then = [{ complete = "" }]

[[agent]]
name = "mute"
kind = "echo"
[agent.card.capabilities]
streaming = false

[[agent]]
name = "strict"
kind = "echo"
[agent.card]
input_modes = ["text/plain", "image/*"]
extensions = [{ uri = "urn:example:needed:v1", required = true }, { uri = "urn:example:nice:v1" }]
"#;
