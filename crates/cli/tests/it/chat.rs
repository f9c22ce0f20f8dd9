//! `sabir chat`: the context carries over, the task only while it waits; in a pipe and at a terminal.

use crate::command_runner::{CommandDirectory, demo, read_text};
use crate::http_client::TEST_TIMEOUT;
use rustix::pty::{OpenptFlags, grantpt, openpt, ptsname, unlockpt};
use rustix::termios::{Winsize, tcsetwinsize};
use serde_json::Value;
use std::fs::File;
use std::io::{Read, Write};
use std::process::{Child, Command, Stdio};
use std::sync::{Arc, Mutex};
use std::thread;
use std::time::{Duration, Instant};

#[test]
fn turns_share_their_context_and_a_task_only_while_it_waits() {
    let (_demo, url) = demo(&[]);
    let desk = CommandDirectory::new();
    let ran = desk.run_with_input(&["chat", "-a", &url], "echo one\nask\nblue\n\necho two\n");
    let contexts = {
        ran.expect_success();
        ran.fields("Context ID")
    };
    assert_eq!(contexts.len(), 4, "one line per turn: {ran:#?}");
    assert!(contexts.iter().all(|context| *context == contexts[0]), "{contexts:?}");
    let tasks = ran.fields("Task ID");
    assert_eq!(tasks[1], tasks[2], "the answer goes to the task that asked");
    assert!(tasks[0] != tasks[1] && tasks[3] != tasks[2], "a settled task is not sent anything: {tasks:?}");
    let states = ran.fields("State");
    let completed = "TASK_STATE_COMPLETED";
    assert_eq!(states, [completed, "TASK_STATE_INPUT_REQUIRED", completed, completed]);
    assert!(ran.stderr.contains(&format!("--context-id {}", contexts[0])), "how to go on: {}", ran.stderr);
    assert!(!ran.stdout.contains("> "), "no prompt: {}", ran.stdout);
}

#[test]
fn a_new_conversation_has_a_context_of_its_own_and_messages_need_no_task() {
    let (_demo, url) = demo(&[]);
    let desk = CommandDirectory::new();
    let ran = desk.run_with_input(&["chat", "-a", &url], "message\nmessage\n/new\nmessage\n");
    ran.expect_success();
    let contexts = ran.fields("Context ID");
    assert_eq!(contexts.len(), 3);
    assert!(contexts[0] == contexts[1] && contexts[1] != contexts[2], "{contexts:?}");
    assert_eq!(ran.fields("Task ID"), Vec::<&str>::new());
}

#[test]
fn files_go_along_and_a_conversation_can_be_saved() {
    let (_demo, url) = demo(&[]);
    let desk = CommandDirectory::new();
    std::fs::write(desk.path("note.txt"), "from a file").unwrap();
    let script = "/file note.txt\necho with a file\n/raw\n/save talk.jsonl\n/save talk.jsonl\n";
    let ran = desk.run_with_input(&["chat", "-a", &url], script);
    assert_eq!(ran.code, 1, "what exists is not overwritten: {ran:#?}");
    assert!(ran.stderr.contains("SABIR_ERR_SAVE"), "{}", ran.stderr);
    let lines: Vec<Value> =
        read_text(&desk.path("talk.jsonl")).lines().map(|line| serde_json::from_str(line).unwrap()).collect();
    assert_eq!(lines.len(), 2);
    let parts = lines[0]["sent"]["parts"].as_array().unwrap();
    assert_eq!(parts[0]["text"], "echo with a file");
    assert_eq!((&parts[1]["filename"], &parts[1]["mediaType"]), (&"note.txt".into(), &"text/plain".into()));
    assert_eq!(lines[1]["received"]["status"]["state"], "TASK_STATE_COMPLETED");
    assert!(ran.stdout.contains("Data:\n  {\n    \"id\""), "the raw answer: {}", ran.stdout);
}

#[test]
fn with_stream_every_event_is_shown_and_the_ids_come_last() {
    let (_demo, url) = demo(&[]);
    let ran = CommandDirectory::new().run_with_input(&["chat", "-a", &url, "--stream"], "slow 1\n");
    let text = ran.expect_success();
    assert!(text.matches("Event: ").count() >= 3, "{text}");
    let last: Vec<&str> = text.lines().rev().take(3).collect();
    assert!(last[0].starts_with("State: ") && last[1].starts_with("Context ID: ") && last[2].starts_with("Task ID: "));
}

#[test]
fn a_failed_turn_ends_a_pipe_with_the_code_of_the_failure() {
    let (_demo, url) = demo(&[]);
    let desk = CommandDirectory::new();
    let unknown = desk.run_with_input(&["chat", "-a", &url, "--task-id", "no-such-task"], "hello\nnever said\n");
    assert_eq!((unknown.code, unknown.stdout.as_str()), (1, ""), "{unknown:#?}");
    assert!(unknown.stderr.contains("Error: TaskNotFoundError"), "{}", unknown.stderr);
    let slash = desk.run_with_input(&["chat", "-a", &url], "/nonsense\necho never\n");
    assert_eq!((slash.code, slash.stdout.as_str()), (2, ""), "{slash:#?}");
    let slow = desk.run_with_input(&["chat", "-a", &url, "--timeout", "300ms"], "slow 5\n");
    assert_eq!(slow.code, 5, "{slow:#?}");
    assert!(slow.stderr.contains("sabir task get"), "{}", slow.stderr);
}

#[test]
fn json_is_for_send_and_nobody_is_waited_for_who_cannot_see() {
    let desk = CommandDirectory::new();
    let json = desk.run_with_input(&["chat", "-a", "http://127.0.0.1:9", "-o", "json"], "hi\n");
    assert_eq!(json.code, 2);
    assert_eq!(json.json()["error"]["code"], "A2ACLI_ERR_USAGE");
    assert!(json.json()["error"]["hint"].as_str().unwrap().contains("sabir send -o json"));
    // A terminal to type at, and a file to answer to.
    let terminal = PseudoTerminal::open();
    let mut command = desk.command(&["chat", "-a", "http://127.0.0.1:9"]);
    let child = command.stdin(terminal.other_end()).spawn().unwrap();
    let ran = crate::command_runner::wait_for_exit(child);
    assert_eq!(ran.code, 2, "{ran:#?}");
    assert!(ran.stderr.contains("chat needs a terminal"), "{}", ran.stderr);
}

#[test]
fn at_a_terminal_questions_are_answered_in_place() {
    let (_demo, url) = demo(&[]);
    let desk = CommandDirectory::new();
    let mut person = TerminalUser::start(desk.command(&["chat", &url, "--poll-interval", "200ms", "--color", "never"]));
    person.wait_for_text("you> ");
    person.type_line("ask");
    person.wait_for_text("Sabir demo asks> What is your favourite colour?");
    person.wait_for_text("reply> ");
    person.type_line("blue");
    person.wait_for_text("Sabir demo> blue");
    person.wait_for_text("you> ");
    person.type_line("auth 1");
    person.wait_for_text("reply, or Enter once it is authorised> ");
    // The demo authorises it by itself after a second; Enter waits for that.
    person.type_line("");
    person.wait_for_text("the task is completed");
    person.type_line("/nonsense");
    person.wait_for_text("means nothing here");
    assert!(!person.screen.lock().unwrap().contains("Task ID"), "ids are shown on demand");
    person.type_line("/ids");
    person.wait_for_text("Task ID");
    person.type_line("/exit");
    person.wait_for_text("Resume: ");
    assert_eq!(person.wait_for_exit(), 0);
}

#[test]
fn an_answer_runs_on_in_one_line_and_lines_go_on_after_a_backslash() {
    let (_demo, url) = demo(&[]);
    let mut person = TerminalUser::start(CommandDirectory::new().command(&["chat", &url, "--color", "never"]));
    person.wait_for_text("you> ");
    person.type_line("echo one \\");
    person.type_line("two");
    person.wait_for_text("Sabir demo> echo one \ntwo\n");
    person.wait_for_text("you> ");
    // What is pasted is one message, whatever lines it has.
    write!(person.keyboard, "\x1b[200~echo three\nfour\x1b[201~\r").unwrap();
    person.wait_for_text("Sabir demo> echo three\nfour\n");
    person.wait_for_text("you> ");
    // Up brings back the line before.
    write!(person.keyboard, "\x1b[A\r").unwrap();
    person.wait_for_text("Sabir demo> echo three\nfour\n");
    person.type_line("/exit");
    assert_eq!(person.wait_for_exit(), 0);
}

#[test]
fn the_text_form_at_a_terminal_keeps_its_labels() {
    let (_demo, url) = demo(&[]);
    let mut person = TerminalUser::start(CommandDirectory::new().command(&["chat", "-a", &url, "-o", "text"]));
    person.wait_for_text("you> ");
    person.type_line("ask");
    person.wait_for_text("Task ID: ");
    person.wait_for_text("State: TASK_STATE_INPUT_REQUIRED");
    person.wait_for_text("reply> ");
    person.type_line("/exit");
    assert_eq!(person.wait_for_exit(), 0);
}

#[test]
fn ctrl_c_cancels_the_turn_and_drops_the_line() {
    let (_demo, url) = demo(&[]);
    let desk = CommandDirectory::new();
    let mut person = TerminalUser::start(desk.command(&["chat", &url, "--color", "never"]));
    person.wait_for_text("you> ");
    person.type_line("slow 30");
    person.wait_for_text("1 of 60");
    person.press_ctrl_c();
    person.wait_for_text("the task is canceled");
    person.wait_for_text("you> ");
    write!(person.keyboard, "never sent\x03").unwrap();
    person.wait_for_text("you> ");
    person.type_line("/task");
    person.wait_for_text("canceled");
    person.wait_for_text("you> ");
    write!(person.keyboard, "\x04").unwrap();
    assert_eq!(person.wait_for_exit(), 0);
}

#[test]
fn ctrl_c_leaves_an_agent_that_never_answers() {
    // It takes the connection and says nothing, not even its card.
    let silent = std::net::TcpListener::bind("127.0.0.1:0").unwrap();
    let url = format!("http://{}", silent.local_addr().unwrap());
    let mut person = TerminalUser::start(CommandDirectory::new().command(&["chat", &url]));
    person.wait_for_text("waiting for the agent");
    person.press_ctrl_c();
    assert_eq!(person.wait_for_exit(), 130);
}

#[test]
fn a_signal_to_end_ends_the_chat_at_its_prompt() {
    let (_demo, url) = demo(&[]);
    let mut person = TerminalUser::start(CommandDirectory::new().command(&["chat", &url]));
    person.wait_for_text("you>");
    person.send_sigterm();
    assert_eq!(person.wait_for_exit(), 130);
}

#[test]
fn a_narrow_terminal_shows_the_whole_answer_while_its_width_changes() {
    let (_demo, url) = demo(&[]);
    let mut person = TerminalUser::start(CommandDirectory::new().command(&["chat", &url, "--color", "never"]));
    person.resize(20);
    person.wait_for_text("you> ");
    person.type_line("slow 1");
    person.wait_for_text("1 of 2");
    person.resize(5);
    person.wait_for_text("2 of 2");
    person.resize(200);
    person.wait_for_text("Done after");
    person.wait_for_text("you> ");
    let words = "echo one two three four five six seven eight nine ten";
    person.resize(20);
    person.type_line(words);
    person.wait_for_text(&format!("Sabir demo> {words}"));
    person.type_line("/exit");
    assert_eq!(person.wait_for_exit(), 0);
}

#[test]
fn ctrl_c_at_any_moment_of_a_turn_leaves_a_chat_that_goes_on() {
    let (_demo, url) = demo(&[]);
    let mut person =
        TerminalUser::start(in_own_session(CommandDirectory::new().command(&["chat", &url, "--color", "never"])));
    person.wait_for_text("you> ");
    for moment in (0..240).step_by(20) {
        person.type_line("slow 1");
        // Time is what is tested here: each round meets another moment of the turn.
        thread::sleep(Duration::from_millis(moment));
        write!(person.keyboard, "\x03").unwrap();
        person.wait_for_text("you> ");
    }
    person.type_line("echo still here");
    person.wait_for_text("Sabir demo> echo still here");
    person.type_line("/exit");
    assert_eq!(person.wait_for_exit(), 0);
}

#[test]
fn a_terminal_that_is_closed_in_the_middle_of_a_turn_ends_the_chat() {
    let (_demo, url) = demo(&[]);
    let terminal = PseudoTerminal::open();
    let desk = CommandDirectory::new();
    let mut command = in_own_session(desk.command(&["chat", &url]));
    command.env("TERM", "xterm-256color");
    command.stdin(terminal.other_end()).stdout(terminal.other_end()).stderr(terminal.other_end());
    let mut child = command.spawn().unwrap();
    drop(command);
    let mut near = terminal.near;
    let mut screen = String::new();
    let mut read_until = |near: &mut File, text: &str| {
        let mut bytes = [0; 4096];
        while !screen.contains(text) {
            let read = near.read(&mut bytes).unwrap();
            screen.push_str(&String::from_utf8_lossy(&bytes[..read]));
        }
    };
    read_until(&mut near, "you");
    write!(near, "slow 30\r").unwrap();
    read_until(&mut near, "1 of 60");
    drop(near);
    let begun = Instant::now();
    while child.try_wait().unwrap().is_none() {
        if begun.elapsed() > TEST_TIMEOUT {
            child.kill().unwrap();
            panic!("the chat stays without a terminal");
        }
        thread::sleep(Duration::from_millis(10));
    }
}

/// The same command in a session of its own, with the terminal of its standard input as the controlling one: Ctrl-C and a
/// closed window reach it as signals, as they do in a shell.
fn in_own_session(inner: Command) -> Command {
    let mut command = Command::new("setsid");
    command.arg("--ctty").arg(inner.get_program()).args(inner.get_args());
    for (name, value) in inner.get_envs() {
        match value {
            Some(value) => command.env(name, value),
            None => command.env_remove(name),
        };
    }
    if let Some(folder) = inner.get_current_dir() {
        command.current_dir(folder);
    }
    command
}

/// A pseudo-terminal.
struct PseudoTerminal {
    near: File,
    far: String,
}

impl PseudoTerminal {
    fn open() -> Self {
        let near = openpt(OpenptFlags::RDWR | OpenptFlags::NOCTTY | OpenptFlags::CLOEXEC).unwrap();
        grantpt(&near).unwrap();
        unlockpt(&near).unwrap();
        let far = ptsname(&near, Vec::new()).unwrap().into_string().unwrap();
        Self { near: File::from(near), far }
    }

    fn other_end(&self) -> Stdio {
        File::options().read(true).write(true).open(&self.far).unwrap().into()
    }
}

/// A user at a pseudo-terminal, who types and reads.
pub(crate) struct TerminalUser {
    child: Child,
    keyboard: File,
    screen: Arc<Mutex<String>>,
    /// Reads what is shown until the terminal is closed.
    reader: thread::JoinHandle<()>,
    seen: usize,
}

impl TerminalUser {
    pub(crate) fn start(mut command: Command) -> Self {
        let terminal = PseudoTerminal::open();
        command.env("TERM", "xterm-256color").env_remove("NO_COLOR");
        command.stdin(terminal.other_end()).stdout(terminal.other_end()).stderr(terminal.other_end());
        let child = command.spawn().unwrap();
        drop(command);
        let screen = Arc::new(Mutex::new(String::new()));
        let (mut near, shown) = (terminal.near.try_clone().unwrap(), screen.clone());
        // Ends when no process holds the other end any more, which a terminal reports as an error.
        let reader = thread::spawn(move || {
            let mut bytes = [0; 4096];
            while let Ok(read @ 1..) = near.read(&mut bytes) {
                shown.lock().unwrap().push_str(&String::from_utf8_lossy(&bytes[..read]).replace('\r', ""));
            }
        });
        Self { child, keyboard: terminal.near, screen, reader, seen: 0 }
    }

    /// Waits until this is shown after what was seen before.
    #[track_caller]
    pub(crate) fn wait_for_text(&mut self, text: &str) {
        let begun = Instant::now();
        loop {
            let screen = self.screen.lock().unwrap().clone();
            if let Some(at) = screen[self.seen..].find(text) {
                self.seen += at + text.len();
                return;
            }
            assert!(begun.elapsed() < TEST_TIMEOUT, "no {text:?} in {:?}", &screen[self.seen..]);
            thread::sleep(Duration::from_millis(10));
        }
    }

    /// Waits for the rest of the line after what was seen, and returns it.
    #[track_caller]
    pub(crate) fn reads_line(&mut self) -> String {
        let from = self.seen;
        self.wait_for_text("\n");
        let screen = self.screen.lock().unwrap();
        screen[from..self.seen].trim().to_owned()
    }

    /// Everything that was shown.
    pub(crate) fn screen(&self) -> String {
        self.screen.lock().unwrap().clone()
    }

    fn type_line(&mut self, text: &str) {
        write!(self.keyboard, "{text}\r").unwrap();
    }

    fn resize(&self, columns: u16) {
        let size = Winsize { ws_row: 24, ws_col: columns, ws_xpixel: 0, ws_ypixel: 0 };
        tcsetwinsize(&self.keyboard, size).unwrap();
        self.send_signal("-WINCH");
    }

    fn press_ctrl_c(&self) {
        self.send_signal("-INT");
    }

    fn send_sigterm(&self) {
        self.send_signal("-TERM");
    }

    fn send_signal(&self, name: &str) {
        let sent = Command::new("kill").args([name, &self.child.id().to_string()]).status().unwrap();
        assert!(sent.success());
    }

    #[track_caller]
    pub(crate) fn wait_for_exit(&mut self) -> i32 {
        let begun = Instant::now();
        loop {
            if let Some(status) = self.child.try_wait().unwrap() {
                // The last output may not have reached the screen yet.
                while !self.reader.is_finished() && begun.elapsed() < TEST_TIMEOUT {
                    thread::sleep(Duration::from_millis(5));
                }
                return status.code().unwrap();
            }
            if begun.elapsed() > TEST_TIMEOUT {
                self.child.kill().unwrap();
                panic!("it stays: {}", self.screen.lock().unwrap());
            }
            thread::sleep(Duration::from_millis(10));
        }
    }
}

impl Drop for TerminalUser {
    fn drop(&mut self) {
        // Only where a test failed half-way is it still there.
        _ = self.child.kill();
        _ = self.child.wait();
    }
}
