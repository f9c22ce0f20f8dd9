//! The prompt: a line editor with history on a thread of its own, since reading a terminal cannot be interrupted.
//!
//! The history lives as long as the chat. It is not kept in a file, because a message may hold a secret.

use super::input::COMMANDS;
use crate::problem::Problem;
use rustix::termios::{OptionalActions, Termios, tcgetattr, tcsetattr};
use rustyline::completion::{Completer, FilenameCompleter, Pair};
use rustyline::error::ReadlineError;
use rustyline::highlight::Highlighter;
use rustyline::hint::Hinter;
use rustyline::history::MemHistory;
use rustyline::validate::{ValidationContext, ValidationResult, Validator};
use rustyline::{Config, Context, Editor, Helper};
use std::io::{self, Write};
use tokio::sync::mpsc;

/// What was typed at the prompt.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(super) enum PromptInput {
    /// One message or command, perhaps of several lines.
    Line(String),
    /// Ctrl-C: the line is dropped.
    Interrupted,
    /// Ctrl-D, or the terminal is gone.
    End,
}

/// The text before the cursor, without and with colour.
#[derive(Debug)]
pub(super) struct PromptText {
    pub(super) plain: String,
    pub(super) styled: String,
}

/// A line editor that is asked for one line at a time.
pub(super) struct Prompt {
    prompts: mpsc::Sender<PromptText>,
    lines: mpsc::Receiver<Result<PromptInput, String>>,
    saved: SavedTerminal,
}

impl Prompt {
    /// Starts the thread of the editor.
    pub(super) fn open() -> Result<Self, Problem> {
        let cannot = |error: ReadlineError| Problem::internal(format!("cannot edit lines at this terminal: {error}"));
        let config = Config::builder().auto_add_history(true).build();
        let mut editor = Editor::with_history(config.clone(), MemHistory::with_config(&config)).map_err(cannot)?;
        editor.set_helper(Some(ChatHelper { files: FilenameCompleter::new() }));
        let before = SavedTerminal::save();
        let (asks, mut asked) = mpsc::channel::<PromptText>(1);
        let (answers, lines) = mpsc::channel(1);
        // The thread ends with the terminal, with the chat, or with the process.
        std::thread::spawn(move || {
            while let Some(prompt) = asked.blocking_recv() {
                let typed = read(&mut editor, &prompt);
                if answers.blocking_send(typed).is_err() {
                    return;
                }
            }
        });
        Ok(Self { prompts: asks, lines, saved: before })
    }

    /// The next line that is typed.
    pub(super) async fn next(&mut self, prompt: PromptText) -> Result<PromptInput, Problem> {
        if self.prompts.send(prompt).await.is_err() {
            return Ok(PromptInput::End);
        }
        match self.lines.recv().await {
            None => Ok(PromptInput::End),
            Some(typed) => typed.map_err(|error| Problem::usage(format!("cannot read the terminal: {error}"))),
        }
    }

    /// Gives the terminal back as it was, for a chat that ends while a line is being typed.
    pub(super) fn restore_terminal(&self) {
        self.saved.restore();
    }
}

fn read(editor: &mut Editor<ChatHelper, MemHistory>, prompt: &PromptText) -> Result<PromptInput, String> {
    loop {
        return match editor.readline(&(prompt.plain.as_str(), prompt.styled.as_str())) {
            // A backslash at the end of a line went on with the next one.
            Ok(line) => Ok(PromptInput::Line(line.replace("\\\n", "\n"))),
            Err(ReadlineError::Interrupted) => Ok(PromptInput::Interrupted),
            Err(ReadlineError::Eof) => Ok(PromptInput::End),
            // The terminal has another size now.
            Err(ReadlineError::Signal(_)) => continue,
            // A terminal that was closed reports an error of its device.
            Err(ReadlineError::Io(error)) if error.raw_os_error() == Some(rustix::io::Errno::IO.raw_os_error()) => {
                Ok(PromptInput::End)
            }
            Err(ReadlineError::Errno(error)) if error as i32 == rustix::io::Errno::IO.raw_os_error() => {
                Ok(PromptInput::End)
            }
            Err(error) => Err(error.to_string()),
        };
    }
}

/// How the terminal was set before the editor changed it.
struct SavedTerminal(Option<Termios>);

impl SavedTerminal {
    fn save() -> Self {
        Self(tcgetattr(io::stdin()).ok())
    }

    fn restore(&self) {
        if let Some(before) = &self.0 {
            _ = tcsetattr(io::stdin(), OptionalActions::Now, before);
            // The editor also asks the terminal to mark what is pasted.
            let mut stdout = io::stdout().lock();
            _ = stdout.write_all(b"\x1b[?2004l\n").and_then(|()| stdout.flush());
        }
    }
}

/// Completes commands and paths, and goes on after a backslash.
struct ChatHelper {
    files: FilenameCompleter,
}

impl Completer for ChatHelper {
    type Candidate = Pair;

    fn complete(&self, line: &str, at: usize, context: &Context<'_>) -> rustyline::Result<(usize, Vec<Pair>)> {
        let typed = &line[..at];
        if typed.starts_with("/file ") || typed.starts_with("/save ") {
            return self.files.complete(line, at, context);
        }
        if !typed.starts_with('/') || typed.contains(' ') {
            return Ok((at, Vec::new()));
        }
        let fits = COMMANDS.iter().filter(|(command, _)| command.starts_with(typed));
        let pair = |(command, _): &(&str, &str)| {
            let word = command.split(' ').next().unwrap_or(command);
            let space = if command.contains(' ') { " " } else { "" };
            Pair { display: (*command).to_owned(), replacement: format!("{word}{space}") }
        };
        Ok((0, fits.map(pair).collect()))
    }
}

impl Validator for ChatHelper {
    fn validate(&self, context: &mut ValidationContext<'_>) -> rustyline::Result<ValidationResult> {
        let backslashes = context.input().bytes().rev().take_while(|byte| *byte == b'\\').count();
        Ok(if backslashes % 2 == 1 { ValidationResult::Incomplete } else { ValidationResult::Valid(None) })
    }
}

impl Hinter for ChatHelper {
    type Hint = String;
}
impl Highlighter for ChatHelper {}
impl Helper for ChatHelper {}
