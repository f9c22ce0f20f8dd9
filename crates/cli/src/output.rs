//! Output: the only module that decides what goes to standard output and what to standard error.
//!
//! The result is *payload* and goes to standard output; everything else is a *note* and goes to standard error, without
//! secrets. Text and JSON look the same on a terminal and in a pipe. The pretty form is for people: `-o pretty` selects
//! it, and it is the default if standard output is a terminal. Every line is flushed, since a pipe would otherwise hold
//! back the events of a stream until its buffer is full.

use crate::problem::{Problem, Stop};
use crate::redact::Redactor;
use crate::render::{ColorChoice, Fields, Paint, Tone, cut, dangerous, escape};
use std::fmt::Write as _;
use std::io::{self, IsTerminal, Write};
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, AtomicUsize, Ordering};
use unicode_width::UnicodeWidthStr;

/// How results are written.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Format {
    /// One `Label: value` per line.
    Text,
    /// The protocol's own objects.
    Json,
    /// Tables, colours and running text, for people.
    Pretty,
}

impl Format {
    /// Reads the name of a format. Without a name: pretty on a terminal, text everywhere else.
    pub(crate) fn read(name: Option<&str>) -> Self {
        match name {
            Some("json") => Self::Json,
            Some("pretty") => Self::Pretty,
            None if io::stdout().is_terminal() => Self::Pretty,
            Some(_) | None => Self::Text,
        }
    }
}

/// Writes results to standard output and notes to standard error.
#[derive(Debug, Clone)]
pub(crate) struct Output {
    pub(crate) format: Format,
    /// JSON: one object per line.
    pub(crate) lines: bool,
    pub(crate) verbose: bool,
    /// `--quiet`: print only the text of the answer.
    pub(crate) quiet: bool,
    pub(crate) redactor: Arc<Redactor>,
    /// Colour on standard output.
    pub(crate) paint: Paint,
    /// Colour on standard error.
    pub(crate) note_paint: Paint,
}

/// The columns of the current progress line, which is erased before anything else is written. 0 if there is none.
static PROGRESS: AtomicUsize = AtomicUsize::new(0);
/// Whether the last line on standard output is running text without its line end.
static MID_LINE: AtomicBool = AtomicBool::new(false);
/// The frames of the spinner.
const FRAMES: [&str; 10] = ["⠋", "⠙", "⠹", "⠸", "⠼", "⠴", "⠦", "⠧", "⠇", "⠏"];
/// The width of a progress bar.
const BAR_COLUMNS: u64 = 20;
/// The assumed width of a terminal that does not report one.
const COLUMNS_DEFAULT: usize = 80;

impl Output {
    /// Output that is not verbose, one document, with colour if `choice` and the format allow it.
    pub(crate) fn new(format: Format, choice: ColorChoice, redactor: Arc<Redactor>) -> Self {
        let pretty = format == Format::Pretty;
        let paint = Paint { on: pretty && choice.allows(&io::stdout()) };
        let note_paint = Paint { on: pretty && choice.allows(&io::stderr()) };
        Self { format, lines: false, verbose: false, quiet: false, redactor, paint, note_paint }
    }

    /// The text form without colour, for tests and for reports before there are settings.
    pub(crate) fn plain(redactor: Arc<Redactor>) -> Self {
        Self::new(Format::Text, ColorChoice::Never, redactor)
    }

    pub(crate) fn is_json(&self) -> bool {
        self.format == Format::Json
    }

    pub(crate) fn is_pretty(&self) -> bool {
        self.format == Format::Pretty
    }

    /// Whether answers are written as running text.
    pub(crate) fn is_running(&self) -> bool {
        self.is_pretty() || self.quiet
    }

    /// Prints fields, unless the format is JSON.
    pub(crate) fn text(&self, write: impl FnOnce(&mut Fields)) -> Result<(), Stop> {
        if self.is_json() {
            return Ok(());
        }
        let mut fields = Fields::new();
        write(&mut fields);
        self.fields(fields)
    }

    /// Prints fields: one line each, or in the pretty layout.
    pub(crate) fn fields(&self, fields: Fields) -> Result<(), Stop> {
        if self.is_pretty() {
            return self.payload(&fields.pretty(self.paint, columns_of(&io::stdout())));
        }
        self.payload(&fields.finish())
    }

    /// Writes a result unchanged, with its line ends.
    pub(crate) fn payload(&self, text: &str) -> Result<(), Stop> {
        if text.is_empty() {
            return Ok(());
        }
        self.clear_progress();
        let mut stdout = io::stdout().lock();
        MID_LINE.store(!text.ends_with('\n'), Ordering::Relaxed);
        write_outcome(stdout.write_all(text.as_bytes()).and_then(|()| stdout.flush()))
    }

    /// Ends an unfinished line of running text, so that the next output begins a line.
    pub(crate) fn end_line(&self) {
        self.clear_progress();
        if MID_LINE.swap(false, Ordering::Relaxed) {
            let mut stdout = io::stdout().lock();
            _ = stdout.write_all(b"\n").and_then(|()| stdout.flush());
        }
    }

    /// Writes a JSON result: indented, or on one line if `lines` is set. Only whitespace changes: numbers, order and
    /// unknown members stay.
    pub(crate) fn document(&self, json: &str) -> Result<(), Stop> {
        let text = if self.lines { compact(json) } else { indented(json) };
        self.payload(&(text + "\n"))
    }

    /// Writes one line of JSON, in every format.
    pub(crate) fn line(&self, json: &str) -> Result<(), Stop> {
        self.payload(&(compact(json) + "\n"))
    }

    /// Writes a note to standard error. A closed standard error is not a failure.
    pub(crate) fn note(&self, text: &str) {
        self.write_note(Tone::Dim, text);
    }

    pub(crate) fn warn(&self, text: &str) {
        self.write_note(Tone::Attention, &format!("warning: {text}"));
    }

    fn write_note(&self, tone: Tone, text: &str) {
        self.end_line();
        let text = self.note_paint.tint(tone, &escape(&self.redactor.text(text)));
        _ = writeln!(io::stderr().lock(), "{text}");
    }

    /// Prints a problem: in JSON on standard output, else on standard error.
    pub(crate) fn report(&self, problem: &Problem) {
        self.end_line();
        let pretty = self.is_pretty() && io::stderr().is_terminal();
        let on_stderr = |text: &str| _ = io::stderr().lock().write_all(text.as_bytes());
        if self.is_json() {
            let text = problem.printed(Format::Json, &self.redactor);
            let mut stdout = io::stdout().lock();
            // The problem may be that standard output cannot be written.
            if stdout.write_all(text.as_bytes()).and_then(|()| stdout.flush()).is_ok() {
                return;
            }
        }
        on_stderr(&match pretty {
            true => problem.pretty(self.note_paint, &self.redactor),
            false => problem.printed(Format::Text, &self.redactor),
        });
    }

    /// Whether a person reads standard error, so that progress makes sense. Never in JSON.
    pub(crate) fn shows_progress(&self) -> bool {
        !self.is_json() && io::stderr().is_terminal()
    }

    /// Whether standard input and standard error are terminals, so that the command may ask questions.
    pub(crate) fn is_interactive(&self) -> bool {
        io::stdin().is_terminal() && io::stderr().is_terminal()
    }

    /// Replaces the progress line. It never takes more than one line.
    pub(crate) fn progress(&self, text: &str) {
        if MID_LINE.load(Ordering::Relaxed) {
            return;
        }
        let text = escape(&self.redactor.text(text)).replace(['\n', '\t'], " ");
        let text = cut(&text, columns_of(&io::stderr()).unwrap_or(COLUMNS_DEFAULT).saturating_sub(4));
        self.clear_progress();
        let mut stderr = io::stderr().lock();
        // The terminal may have echoed `^C` on this line; the progress line overwrites it.
        if write!(stderr, "\r{}", self.note_paint.tint(Tone::Dim, &text)).and_then(|()| stderr.flush()).is_ok() {
            PROGRESS.store(text.width() + 2, Ordering::Relaxed);
        }
    }

    /// Shows the progress line with a bar: `done` of `of`, and what is counted.
    pub(crate) fn bar(&self, done: u64, of: u64, what: &str) {
        let filled = done.min(of) * BAR_COLUMNS / of.max(1);
        let bar: String = (0..BAR_COLUMNS).map(|at| if at < filled { '█' } else { '░' }).collect();
        self.progress(&format!("{bar} {done} of {of} {what}"));
    }

    /// Shows the progress line with a spinner at frame `tick`.
    pub(crate) fn spin(&self, tick: usize, text: &str) {
        self.progress(&format!("{} {text}", FRAMES[tick % FRAMES.len()]));
    }

    /// Erases the progress line.
    pub(crate) fn clear_progress(&self) {
        let width = PROGRESS.swap(0, Ordering::Relaxed);
        if width > 0 {
            let mut stderr = io::stderr().lock();
            _ = write!(stderr, "\r{:width$}\r", "").and_then(|()| stderr.flush());
        }
    }
}

/// How many columns a terminal has; `None` for anything else, and for a terminal that does not say.
pub(crate) fn columns_of(stream: &(impl IsTerminal + std::os::fd::AsFd)) -> Option<usize> {
    let columns = stream.is_terminal().then(|| rustix::termios::tcgetwinsize(stream).ok()).flatten()?.ws_col;
    (columns > 0).then_some(columns.into())
}

/// The result of a write: a reader that closed the pipe is not a failure, a full disk is one.
fn write_outcome(outcome: io::Result<()>) -> Result<(), Stop> {
    match outcome {
        Ok(()) => Ok(()),
        Err(error) if error.kind() == io::ErrorKind::BrokenPipe => Err(Stop::ReaderGone),
        Err(error) => Err(Problem::internal(format!("cannot write standard output: {error}"))
            .hint("free some space, or write the result elsewhere")
            .into()),
    }
}

/// Formats JSON on one line, without changing its values.
pub(crate) fn compact(json: &str) -> String {
    layout(json, None)
}

/// Formats JSON with two spaces per level.
pub(crate) fn indented(json: &str) -> String {
    layout(json, Some(2))
}

/// Formats valid JSON, token by token. Characters that could control a terminal are escaped as JSON allows.
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
