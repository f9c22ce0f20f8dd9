//! Turns parts, messages, artifacts and tasks into plain text.
//!
//! This is the only place that decides about line breaks. The parts of a message are separate lines. In an artifact,
//! plain text that follows plain text continues the same line: most servers store one part per streamed chunk, and
//! nothing else distinguishes chunks from paragraphs. A line break inside a word does more harm than a missing one
//! between paragraphs. Our own log has one part there, because [`Artifact::append`] joins chunks.

use crate::{Artifact, Content, Maybe, Message, Part, Task};
use std::borrow::Cow;

/// How the text form treats parts that are not text.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum NonText {
    /// They are left out.
    Skip,
    /// Data and links are written out; a file becomes a note with name, media type and size.
    Describe,
}

impl Part {
    /// The part as text: data and links are written out, a file becomes a note that names it.
    pub fn described(&self) -> Cow<'_, str> {
        match &self.content {
            Content::Text(text) | Content::Url(text) => text.into(),
            Content::Data(json) => json.as_str().into(),
            Content::Raw(bytes) => {
                let name = self.filename.as_deref().unwrap_or("a file");
                let media_type = self.media_type.as_deref().unwrap_or("application/octet-stream");
                format!("[{name}, {media_type}, {} bytes]", bytes.len()).into()
            }
        }
    }
}

impl Message {
    /// The text parts of the message, joined by line breaks.
    pub fn joined_text(&self) -> String {
        self.text_with(NonText::Skip)
    }

    /// The message as text, with line breaks between its parts.
    pub fn text_with(&self, non_text: NonText) -> String {
        parts_text(&self.parts, non_text, |_, _| false)
    }
}

impl Artifact {
    /// The text parts of the artifact; consecutive chunks of plain text stay on one line.
    pub fn joined_text(&self) -> String {
        self.text_with(NonText::Skip)
    }

    /// The artifact as text; consecutive chunks of plain text stay on one line.
    pub fn text_with(&self, non_text: NonText) -> String {
        parts_text(&self.parts, non_text, Part::is_continued_by)
    }
}

/// The text of a list of parts, joined by line breaks except where `continues` is true.
fn parts_text(parts: &[Part], non_text: NonText, continues: fn(&Part, &Part) -> bool) -> String {
    let (mut text, mut before) = (String::new(), None);
    for part in parts {
        let shown = match (part.as_text(), non_text) {
            (Some(text), _) => Cow::Borrowed(text),
            (None, NonText::Skip) => {
                before = Some(part);
                continue;
            }
            (None, NonText::Describe) => part.described(),
        };
        if !text.is_empty() && before.is_some_and(|before| !continues(before, part)) {
            text.push('\n');
        }
        text.push_str(&shown);
        before = Some(part);
    }
    text
}

impl<I, C: Maybe> Task<I, C> {
    /// The answer of the agent: the text of the artifacts, plus the status message if there are no artifacts or if the
    /// agent asks something.
    pub fn answer_text(&self, non_text: NonText) -> String {
        let mut texts: Vec<String> = self.artifacts.iter().map(|artifact| artifact.text_with(non_text)).collect();
        texts.retain(|text| !text.is_empty());
        if texts.is_empty() || self.status.state.is_interrupted() {
            texts.extend(self.status.message.as_ref().map(|message| message.text_with(non_text)));
        }
        texts.join("\n")
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::{ArtifactId, Json, MessageId, Role, TaskState, WireTask};

    fn task(state: &str) -> WireTask {
        let mut task: WireTask =
            serde_json::from_str(&format!(r#"{{"id":"t","status":{{"state":"TASK_STATE_{state}"}}}}"#)).unwrap();
        task.status.message = Some(Message::text(MessageId::parse("m").unwrap(), Role::Agent, "Sure?"));
        task
    }

    #[test]
    fn parts_of_a_message_are_lines_and_files_are_notes() {
        let file = Part { filename: Some("a.zip".into()), ..Part::new(Content::Raw(vec![1, 2])) };
        let data = Part::data(Json::of(&serde_json::json!([1])).unwrap());
        let mut message = Message::text(MessageId::parse("m").unwrap(), Role::User, "one");
        message.parts.extend([file, data, Part::text("two")]);
        assert_eq!(message.joined_text(), "one\ntwo");
        assert_eq!(message.text_with(NonText::Describe), "one\n[a.zip, application/octet-stream, 2 bytes]\n[1]\ntwo");
    }

    #[test]
    fn chunks_of_an_artifact_are_one_text_also_where_a_server_keeps_them_apart() {
        let quoted = Part { media_type: Some("text/markdown".into()), ..Part::text("> able") };
        let parts = vec![Part::text("un"), Part::text("believ"), Part::text("able"), quoted];
        let artifact = Artifact::new(ArtifactId::parse("a").unwrap(), parts);
        assert_eq!(artifact.joined_text(), "unbelievable\n> able");
    }

    #[test]
    fn text_around_a_picture_stays_on_two_lines() {
        let picture = Part::new(Content::Raw(vec![1]));
        let parts = vec![picture.clone(), Part::text("Here:"), picture, Part::text("As you see")];
        let artifact = Artifact::new(ArtifactId::parse("a").unwrap(), parts);
        assert_eq!(artifact.joined_text(), "Here:\nAs you see");
    }

    #[test]
    fn an_answer_is_what_was_made_and_what_is_asked() {
        let mut done = task("COMPLETED");
        assert_eq!(done.answer_text(NonText::Skip), "Sure?");
        done.artifacts.push(Artifact::new(ArtifactId::parse("a").unwrap(), vec![Part::text("42")]));
        assert_eq!(done.answer_text(NonText::Skip), "42");
        let mut asking = task("INPUT_REQUIRED");
        asking.artifacts.clone_from(&done.artifacts);
        assert_eq!((asking.status.state, &*asking.answer_text(NonText::Skip)), (TaskState::InputRequired, "42\nSure?"));
    }
}
