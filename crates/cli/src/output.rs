//! Output: two writers, and the only place that knows which stream is which.
//!
//! What was asked for is *payload* and goes to standard output; everything else is a *note* and goes to standard error,
//! without secrets. The shape never depends on whether anybody watches. Every line is flushed: a pipe would otherwise
//! hold back the events of a stream until it is full.

use crate::problem::{Problem, Stop};
use crate::redact::Redactor;
use crate::render::{Floor, dangerous, escape};
use std::fmt::Write as _;
use std::io::{self, IsTerminal, Write};
use std::sync::Arc;
use std::sync::atomic::{AtomicUsize, Ordering};

/// How results are written.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Format {
    /// One `Label: value` per line.
    Text,
    /// The protocol's own objects.
    Json,
}

impl Format {
    /// Text, unless it says otherwise.
    pub(crate) fn read(name: Option<&str>) -> Self {
        match name {
            Some("json") => Self::Json,
            _ => Self::Text,
        }
    }
}

/// Where results and remarks go.
#[derive(Debug, Clone)]
pub(crate) struct Output {
    pub(crate) format: Format,
    /// One object per physical line.
    pub(crate) lines: bool,
    pub(crate) verbose: bool,
    pub(crate) redactor: Arc<Redactor>,
}

/// Whether a sign of life stands on the terminal and has to go before anything else is written.
static PROGRESS: AtomicUsize = AtomicUsize::new(0);

impl Output {
    /// Concise, one document.
    pub(crate) fn new(format: Format, redactor: Arc<Redactor>) -> Self {
        Self { format, lines: false, verbose: false, redactor }
    }

    pub(crate) fn is_json(&self) -> bool {
        self.format == Format::Json
    }

    /// Prints in the form of text, where text was asked for.
    pub(crate) fn text(&self, write: impl FnOnce(&mut Floor)) -> Result<(), Stop> {
        if self.is_json() {
            return Ok(());
        }
        let mut floor = Floor::new();
        write(&mut floor);
        self.payload(&floor.finish())
    }

    /// A result as it stands, with its line ends.
    pub(crate) fn payload(&self, text: &str) -> Result<(), Stop> {
        self.clear_progress();
        let mut stdout = io::stdout().lock();
        written(stdout.write_all(text.as_bytes()).and_then(|()| stdout.flush()))
    }

    /// A JSON result: indented, or on one line where lines are asked for. The text is laid out anew and otherwise the
    /// agent's: numbers, order and unknown members stay.
    pub(crate) fn document(&self, json: &str) -> Result<(), Stop> {
        let text = if self.lines { compact(json) } else { indented(json) };
        self.payload(&(text + "\n"))
    }

    /// One line of JSON, whatever was asked for.
    pub(crate) fn line(&self, json: &str) -> Result<(), Stop> {
        self.payload(&(compact(json) + "\n"))
    }

    /// A remark on standard error. Nobody may be listening there, which is no reason to fail.
    pub(crate) fn note(&self, text: &str) {
        self.clear_progress();
        let text = escape(&self.redactor.text(text));
        _ = writeln!(io::stderr().lock(), "{text}");
    }

    pub(crate) fn warn(&self, text: &str) {
        self.note(&format!("warning: {text}"));
    }

    /// Whether somebody watches standard error, so that a sign of life makes sense. Never in JSON.
    pub(crate) fn watched(&self) -> bool {
        self.format == Format::Text && io::stderr().is_terminal()
    }

    /// Whether a person sits at both ends, and may type.
    pub(crate) fn attended(&self) -> bool {
        io::stdin().is_terminal() && io::stderr().is_terminal()
    }

    /// A sign of life, in the place of the last one.
    pub(crate) fn progress(&self, text: &str) {
        let text = escape(&self.redactor.text(text));
        self.clear_progress();
        let mut stderr = io::stderr().lock();
        if write!(stderr, "{text}").and_then(|()| stderr.flush()).is_ok() {
            PROGRESS.store(text.chars().count(), Ordering::Relaxed);
        }
    }

    /// Takes the sign of life away.
    pub(crate) fn clear_progress(&self) {
        let width = PROGRESS.swap(0, Ordering::Relaxed);
        if width > 0 {
            let mut stderr = io::stderr().lock();
            _ = write!(stderr, "\r{:width$}\r", "").and_then(|()| stderr.flush());
        }
    }
}

/// The same before there are settings.
pub(crate) fn report(problem: &Problem, format: Format, redactor: &Redactor) {
    let on_stderr = |text: &str| _ = io::stderr().lock().write_all(text.as_bytes());
    let text = problem.printed(format, redactor);
    match format {
        Format::Text => on_stderr(&text),
        Format::Json => {
            let mut stdout = io::stdout().lock();
            // Standard output may be what the problem is about.
            if stdout.write_all(text.as_bytes()).and_then(|()| stdout.flush()).is_err() {
                on_stderr(&problem.printed(Format::Text, redactor));
            }
        }
    }
}

/// What became of a write: a reader that has seen enough is no failure, a full disk is one.
fn written(outcome: io::Result<()>) -> Result<(), Stop> {
    match outcome {
        Ok(()) => Ok(()),
        Err(error) if error.kind() == io::ErrorKind::BrokenPipe => Err(Stop::ReaderGone),
        Err(error) => Err(Problem::internal(format!("cannot write standard output: {error}"))
            .hint("free some space, or write the result elsewhere")
            .into()),
    }
}

/// JSON on one line.
pub(crate) fn compact(json: &str) -> String {
    layout(json, None)
}

/// JSON with two spaces per level.
pub(crate) fn indented(json: &str) -> String {
    layout(json, Some(2))
}

/// Lays valid JSON out anew, token by token. Characters that would steer a terminal are escaped as JSON allows.
fn layout(json: &str, indent: Option<usize>) -> String {
    let mut text = String::with_capacity(json.len());
    let (mut depth, mut quoted, mut escaped) = (0, false, false);
    let mut chars = json.chars().peekable();
    let newline = |text: &mut String, depth: usize| {
        if let Some(width) = indent {
            text.push('\n');
            text.extend(std::iter::repeat_n(' ', depth * width));
        }
    };
    while let Some(c) = chars.next() {
        if quoted {
            match c {
                _ if dangerous(c) => {
                    for unit in c.encode_utf16(&mut [0; 2]) {
                        _ = write!(text, "\\u{unit:04x}");
                    }
                }
                _ => text.push(c),
            }
            quoted = escaped || c != '"';
            escaped = !escaped && c == '\\';
            continue;
        }
        match c {
            '"' => {
                quoted = true;
                text.push(c);
            }
            '{' | '[' => {
                text.push(c);
                while chars.next_if(|c| c.is_ascii_whitespace()).is_some() {}
                match chars.next_if(|next| matches!(next, '}' | ']')) {
                    Some(close) => text.push(close),
                    None => {
                        depth += 1;
                        newline(&mut text, depth);
                    }
                }
            }
            '}' | ']' => {
                depth = depth.saturating_sub(1);
                newline(&mut text, depth);
                text.push(c);
            }
            ',' => {
                text.push(c);
                newline(&mut text, depth);
            }
            ':' => text.push_str(if indent.is_some() { ": " } else { ":" }),
            _ if c.is_ascii_whitespace() => {}
            _ => text.push(c),
        }
    }
    text
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn json_is_laid_out_without_being_read() {
        let json = "{ \"b\":[1, 12345678901234567890.50 ,{}],\"a\" : {\"x\":\"a, {b}: \\\"c\\\\\"} ,\"e\":[ ]}";
        assert_eq!(
            compact(json),
            "{\"b\":[1,12345678901234567890.50,{}],\"a\":{\"x\":\"a, {b}: \\\"c\\\\\"},\"e\":[]}"
        );
        assert_eq!(
            indented(json),
            "{\n  \"b\": [\n    1,\n    12345678901234567890.50,\n    {}\n  ],\n  \"a\": {\n    \"x\": \
             \"a, {b}: \\\"c\\\\\"\n  },\n  \"e\": []\n}"
        );
    }

    #[test]
    fn what_steers_a_terminal_is_escaped_in_json_too() {
        assert_eq!(compact("\"a\u{9b}31m\u{7f}\u{202e}é\""), "\"a\\u009b31m\\u007f\\u202eé\"");
    }
}
