//! Running text: an agent's answer as it comes, after the agent's name.
//!
//! The printer takes events and returns the text to write. It remembers what it has written of each artifact, so that a
//! task that comes again, after a broken connection or at the end, adds only what is new. Control characters in the
//! agent's text are escaped.

use super::layout::cut;
use super::paint::{Paint, Tone, state_word};
use super::{escape, visible};
use crate::output::indented;
use sabir_proto::{Artifact, Content, Message, Part, TaskState, TaskStatus, WireEvent, WireTask};
use std::hash::{DefaultHasher, Hash as _, Hasher as _};

/// The longest name that stands before an answer, in columns.
const NAME_MAX: usize = 24;

/// What is written of one artifact.
#[derive(Debug)]
struct WrittenArtifact {
    id: String,
    text: String,
    /// Digests of the parts that are no text.
    others: Vec<u64>,
}

/// Formats an answer as it comes.
#[derive(Debug)]
pub(crate) struct AnswerPrinter {
    paint: Paint,
    /// What stands before the answer; nothing where the answer alone is wanted.
    name: Option<String>,
    /// The cursor is behind text.
    is_line_open: bool,
    /// The name of the agent was written.
    introduced: bool,
    artifacts: Vec<WrittenArtifact>,
    /// The artifact that was written last, by its place.
    current: Option<usize>,
    /// The messages about the status that were written, and whole replies.
    printed_messages: Vec<String>,
    /// A carriage return that ended a chunk: half of a line end, or not.
    pending_carriage_return: bool,
}

/// The output for one event.
#[derive(Debug, Default, PartialEq, Eq)]
pub(crate) struct PrinterOutput {
    /// To be written to standard output.
    pub(crate) text: String,
    /// What the agent says it is doing, for the progress line.
    pub(crate) doing: Option<String>,
    /// Why there is no answer, if the answer alone is wanted.
    pub(crate) remark: Option<String>,
}

impl AnswerPrinter {
    /// For an answer of the agent with this name; without a name, for the answer alone.
    pub(crate) fn new(paint: Paint, name: Option<&str>) -> Self {
        Self {
            paint,
            name: name.map(|name| one_line(name, NAME_MAX)),
            is_line_open: false,
            introduced: false,
            artifacts: Vec::new(),
            current: None,
            printed_messages: Vec::new(),
            pending_carriage_return: false,
        }
    }

    /// Returns the output for an event.
    pub(crate) fn event(&mut self, event: &WireEvent) -> PrinterOutput {
        match event {
            WireEvent::Message(message) => PrinterOutput { text: self.reply(message), ..PrinterOutput::default() },
            WireEvent::ArtifactUpdate(update) => {
                PrinterOutput { text: self.artifact(&update.artifact, update.append), ..PrinterOutput::default() }
            }
            WireEvent::StatusUpdate(update) => self.status(&update.status),
            WireEvent::Task(task) => self.task(task),
        }
    }

    /// Returns the output for everything in a task that is not written yet.
    pub(crate) fn task(&mut self, task: &WireTask) -> PrinterOutput {
        let artifacts: String = task.artifacts.iter().map(|artifact| self.artifact(artifact, false)).collect();
        let status = self.status(&task.status);
        PrinterOutput { text: artifacts + &status.text, ..status }
    }

    /// Ends the line, if one is begun.
    pub(crate) fn end(&mut self) -> String {
        let held = if std::mem::take(&mut self.pending_carriage_return) { visible("\r") } else { String::new() };
        let line_end = if std::mem::take(&mut self.is_line_open) { "\n" } else { "" };
        held + line_end
    }

    fn reply(&mut self, message: &Message) -> String {
        let mut text = String::new();
        for (at, part) in message.parts.iter().enumerate() {
            if at > 0 {
                text += &self.end();
            }
            text += &self.part(part);
        }
        text + &self.end()
    }

    fn artifact(&mut self, artifact: &Artifact, append: bool) -> String {
        let id = artifact.artifact_id.to_string();
        let known = self.artifacts.iter().position(|written| written.id == id);
        let at = known.unwrap_or_else(|| {
            self.artifacts.push(WrittenArtifact { id: id.clone(), text: String::new(), others: Vec::new() });
            self.artifacts.len() - 1
        });
        let whole: String = artifact.parts.iter().filter_map(Part::as_text).collect();
        let mut text = String::new();
        let fresh: Vec<Part> = if append || known.is_none() {
            artifact.parts.clone()
        } else {
            let others: Vec<&Part> = artifact.parts.iter().filter(|part| part.as_text().is_none()).collect();
            let digests: Vec<u64> = others.iter().map(|part| part_digest(part)).collect();
            let written = &self.artifacts[at];
            let told = whole.strip_prefix(written.text.as_str()).filter(|_| digests.starts_with(&written.others));
            let (rest, skipped) = match told {
                Some(rest) => (rest.to_owned(), written.others.len()),
                // The agent has taken back what it said.
                None => {
                    text = self.end() + &self.paint.tint(Tone::Dim, "(said anew)") + "\n";
                    self.artifacts[at].text.clear();
                    self.artifacts[at].others.clear();
                    (whole, 0)
                }
            };
            let rest = (!rest.is_empty()).then(|| Part::text(rest));
            rest.into_iter().chain(others.into_iter().skip(skipped).cloned()).collect()
        };
        if fresh.is_empty() {
            return text;
        }
        if self.current != Some(at) {
            text += &self.heading(at, artifact.name.as_deref());
        }
        for part in &fresh {
            match part.as_text() {
                Some(said) => self.artifacts[at].text.push_str(said),
                None => self.artifacts[at].others.push(part_digest(part)),
            }
            text += &self.part(part);
        }
        text
    }

    /// The line above an artifact, where it has a name or is one of several.
    fn heading(&mut self, at: usize, name: Option<&str>) -> String {
        let first = self.current.is_none();
        self.current = Some(at);
        let ended = self.end();
        let called = match name {
            Some(name) => one_line(name, 60),
            None if first => return ended,
            None => one_line(&self.artifacts[at].id, 60),
        };
        let begun = self.name_prefix();
        // The name of the agent and the name of the artifact share a line.
        self.is_line_open = false;
        format!("{ended}{begun}{}\n", self.paint.tint(Tone::Dim, &format!("[{called}]")))
    }

    /// `name> `, once.
    fn name_prefix(&mut self) -> String {
        if std::mem::replace(&mut self.introduced, true) {
            return String::new();
        }
        let Some(name) = &self.name else { return String::new() };
        self.is_line_open = true;
        self.paint.tint(Tone::Accent, &format!("{name}>")) + " "
    }

    fn part(&mut self, part: &Part) -> String {
        let note = match &part.content {
            Content::Text(said) => return self.append_text(said),
            Content::Data(json) => visible(&indented(json.as_str())),
            Content::Raw(bytes) => format!("[file {}, {}]", file_label(part), size(bytes.len())),
            Content::Url(url) => format!("[file {}, at {}]", file_label(part), escape(url)),
        };
        let begun = if self.introduced { self.end() } else { self.name_prefix() };
        self.is_line_open = false;
        let note = if matches!(part.content, Content::Data(_)) { note } else { self.paint.tint(Tone::Accent, &note) };
        let line_break = if begun.trim().is_empty() || !note.contains('\n') { "" } else { "\n" };
        format!("{begun}{line_break}{note}\n")
    }

    fn append_text(&mut self, said: &str) -> String {
        let said =
            if std::mem::take(&mut self.pending_carriage_return) { format!("\r{said}") } else { said.to_owned() };
        let said = match said.strip_suffix('\r') {
            Some(before) => {
                self.pending_carriage_return = true;
                before
            }
            None => said.as_str(),
        };
        if said.is_empty() {
            return String::new();
        }
        let text = self.name_prefix() + &visible(said);
        self.is_line_open = !text.ends_with('\n');
        text
    }

    fn status(&mut self, status: &TaskStatus) -> PrinterOutput {
        let said = status.message.as_ref();
        let words = said.map(Message::joined_text).unwrap_or_default();
        let state = status.state;
        if !state.is_settled() && !state.is_interrupted() {
            let doing = words.lines().find(|line| !line.trim().is_empty());
            return PrinterOutput { doing: doing.map(|line| one_line(line, 120)), ..PrinterOutput::default() };
        }
        let key = format!("{state:?} {words}");
        if self.printed_messages.contains(&key) {
            return PrinterOutput::default();
        }
        self.printed_messages.push(key);
        let others: Vec<Part> =
            said.iter().flat_map(|said| &said.parts).filter(|part| part.as_text().is_none()).cloned().collect();
        let mut remark = None;
        let mut text = match state {
            TaskState::Completed | TaskState::Transferred => self.final_message(&words),
            _ if self.name.is_none() => {
                remark = Some(
                    format!("the task is {}: {words}", state_word(state.name())).trim_end_matches([':', ' ']).into(),
                );
                self.end()
            }
            _ => self.state_line(state, &words),
        };
        for part in &others {
            text += &self.part(part);
        }
        PrinterOutput { text: text + &self.end(), doing: None, remark }
    }

    /// The message of a task that is done: often the answer itself, or the answer again.
    fn final_message(&mut self, words: &str) -> String {
        let again = self.artifacts.iter().any(|written| written.text.trim() == words.trim());
        if words.is_empty() || again {
            return self.end();
        }
        self.end() + &self.append_text(words)
    }

    /// A task that did not work, or needs something.
    fn state_line(&mut self, state: TaskState, words: &str) -> String {
        let tone = match state {
            TaskState::InputRequired | TaskState::AuthRequired => Tone::Attention,
            TaskState::Canceled => Tone::Dim,
            _ => Tone::Bad,
        };
        let ended = self.end();
        self.introduced = true;
        let words = visible(words.trim_end());
        let name = self.name.as_deref().unwrap_or_default();
        let label = match state {
            TaskState::InputRequired => format!("{name} asks>"),
            TaskState::AuthRequired => format!("{name} needs an authorisation>"),
            _ => format!("{name}: {}", state_word(state.name())),
        };
        let between = match (words.is_empty(), state.is_interrupted()) {
            (true, _) => "",
            (false, true) => " ",
            (false, false) => ": ",
        };
        format!("{ended}{}\n", self.paint.tint(tone, &format!("{label}{between}{words}")))
    }
}

/// A text on one line, made visible and cut.
fn one_line(text: &str, columns_max: usize) -> String {
    let line = visible(text).split_whitespace().collect::<Vec<_>>().join(" ");
    cut(&line, columns_max)
}

/// The name and the type of a file.
fn file_label(part: &Part) -> String {
    let name = part.filename.as_deref().unwrap_or("without a name");
    let kind = part.media_type.as_deref().map(|kind| format!(", {kind}")).unwrap_or_default();
    one_line(&format!("{name}{kind}"), 120)
}

/// A number of bytes for people.
fn size(bytes: usize) -> String {
    match bytes {
        0..=1023 => format!("{bytes} bytes"),
        1024..=1_048_575 => format!("{} KiB", bytes / 1024),
        _ => format!("{} MiB", bytes / 1_048_576),
    }
}

/// A number that tells one part from another within one answer.
fn part_digest(part: &Part) -> u64 {
    let mut hasher = DefaultHasher::new();
    serde_json::to_vec(part).unwrap_or_default().hash(&mut hasher);
    hasher.finish()
}

#[cfg(test)]
mod tests {
    use super::*;
    use serde_json::json;

    fn event(value: serde_json::Value) -> WireEvent {
        serde_json::from_value(value).unwrap()
    }

    fn chunk(id: &str, text: &str, append: bool) -> WireEvent {
        event(json!({"artifactUpdate": {"taskId": "t", "contextId": "c", "append": append,
            "artifact": {"artifactId": id, "parts": [{"text": text}]}}}))
    }

    fn state(state: &str, words: &str) -> WireEvent {
        event(json!({"statusUpdate": {"taskId": "t", "contextId": "c", "status": {"state": state,
            "message": {"messageId": "m", "role": "ROLE_AGENT", "parts": [{"text": words}]}}}}))
    }

    fn printed(events: &[WireEvent]) -> String {
        let mut printer = AnswerPrinter::new(Paint::default(), Some("clerk"));
        let text: String = events.iter().map(|event| printer.event(event).text).collect();
        text + &printer.end()
    }

    #[test]
    fn chunks_run_on_after_the_name() {
        let said =
            [chunk("a", "I am ", false), chunk("a", "a stub", true), state("TASK_STATE_COMPLETED", "I am a stub")];
        assert_eq!(printed(&said), "clerk> I am a stub\n");
    }

    #[test]
    fn a_task_told_again_adds_only_what_is_new() {
        let whole = event(json!({"task": {"id": "t", "contextId": "c", "status": {"state": "TASK_STATE_COMPLETED"},
            "artifacts": [{"artifactId": "a", "parts": [{"text": "one "}, {"text": "two"},
                {"raw": "AAEC", "filename": "x.bin", "mediaType": "a/b"}]}]}}));
        let said = [chunk("a", "one ", false), whole.clone(), whole];
        assert_eq!(printed(&said), "clerk> one two\n[file x.bin, a/b, 3 bytes]\n");
    }

    #[test]
    fn what_is_taken_back_is_marked() {
        let said = [chunk("a", "one", false), chunk("a", "two", false)];
        assert_eq!(printed(&said), "clerk> one\n(said anew)\ntwo\n");
    }

    #[test]
    fn several_artifacts_are_named() {
        let named = event(json!({"artifactUpdate": {"taskId": "t", "contextId": "c",
            "artifact": {"artifactId": "r", "name": "report", "parts": [{"text": "x"}, {"data": {"k": 1}}]}}}));
        let said = [chunk("a", "one", false), named, chunk("a", "!", true)];
        assert_eq!(printed(&said), "clerk> one\n[report]\nx\n{\n  \"k\": 1\n}\n[a]\n!\n");
    }

    #[test]
    fn questions_and_failures_stand_out_and_are_said_once() {
        let said =
            [state("TASK_STATE_INPUT_REQUIRED", "Which colour?"), state("TASK_STATE_INPUT_REQUIRED", "Which colour?")];
        assert_eq!(printed(&said), "clerk asks> Which colour?\n");
        assert_eq!(
            printed(&[chunk("a", "half", false), state("TASK_STATE_FAILED", "exit 3")]),
            "clerk> half\nclerk: failed: exit 3\n"
        );
        let mut printer = AnswerPrinter::new(Paint { on: true }, Some("clerk"));
        assert!(printer.event(&said[0]).text.starts_with("\x1b[1;33mclerk asks>"));
    }

    #[test]
    fn work_is_told_beside_the_answer() {
        let mut printer = AnswerPrinter::new(Paint::default(), Some("clerk"));
        let told = printer.event(&state("TASK_STATE_WORKING", "looking\nit up"));
        assert_eq!(told, PrinterOutput { doing: Some("looking".into()), ..PrinterOutput::default() });
    }

    #[test]
    fn the_answer_alone_is_without_names_and_failures_stand_beside_it() {
        let mut printer = AnswerPrinter::new(Paint::default(), None);
        assert_eq!(printer.event(&chunk("a", "12 C", false)).text + &printer.end(), "12 C\n");
        let failed = printer.event(&state("TASK_STATE_FAILED", "no weather today"));
        assert_eq!(
            (failed.text.as_str(), failed.remark.as_deref()),
            ("", Some("the task is failed: no weather today"))
        );
    }

    #[test]
    fn nothing_an_agent_says_steers_the_terminal() {
        let mut printer = AnswerPrinter::new(Paint::default(), Some("a\x1b[2J\nb\u{202e}"));
        let text = printer.event(&chunk("a", "x\x1b[31m\r", false)).text
            + &printer.event(&chunk("a", "\ny\u{200b}", true)).text;
        assert_eq!(text, "a\\x1b[2J b\\u{202e}> x\\x1b[31m\ny\\u{200b}");
        let question = printer.event(&state("TASK_STATE_INPUT_REQUIRED", "sure\x07?")).text;
        assert!(question.ends_with("sure\\x07?\n"), "{question:?}");
    }
}
