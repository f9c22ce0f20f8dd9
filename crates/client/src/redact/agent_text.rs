//! Removes secrets from the messages of an agent.
//!
//! The filter covers what a caller reads beside the result: status messages, direct replies, error texts. Artifacts are
//! the result and pass unchanged: they come in chunks, and are compared, signed and hashed, so a changed one would be
//! worthless.

use super::{REDACTED, Redactor};
use crate::Error;
use sabir_proto::{Content, Fault, Json, Message, Object, Part, TaskStatus, WireEvent, WireReply, WireTask};
use std::borrow::Cow;

/// A value from an agent that may contain secrets.
pub trait Redact {
    /// Removes the secrets from the messages in this value.
    fn redact(&mut self, redactor: &Redactor);

    /// Takes the secrets out of the words of several, which may be split over them.
    fn redact_all(all: &mut [Self], redactor: &Redactor)
    where
        Self: Sized,
    {
        all.iter_mut().for_each(|one| one.redact(redactor));
    }
}

impl Redact for String {
    fn redact(&mut self, redactor: &Redactor) {
        if let Cow::Owned(clean) = redactor.agent_text(self) {
            *self = clean;
        }
    }
}

impl Redact for Json {
    fn redact(&mut self, redactor: &Redactor) {
        let Cow::Owned(clean) = redactor.agent_text(self.as_str()) else { return };
        // Replacing a number breaks the JSON; then the whole value is hidden.
        let clean = Self::parse(&clean).or_else(|_| Self::of(REDACTED));
        *self = clean.expect("a text is JSON");
    }
}

impl Redact for Object {
    fn redact(&mut self, redactor: &Redactor) {
        let Cow::Owned(clean) = redactor.agent_text(self.as_str()) else { return };
        let nothing = || Self::from_map(&serde_json::Map::new());
        *self = Json::parse(&clean).and_then(Self::new).or_else(|_| nothing()).expect("no members are an object");
    }
}

impl<T: Redact> Redact for Option<T> {
    fn redact(&mut self, redactor: &Redactor) {
        self.iter_mut().for_each(|value| value.redact(redactor));
    }
}

impl<T: Redact> Redact for Vec<T> {
    fn redact(&mut self, redactor: &Redactor) {
        T::redact_all(self, redactor);
    }
}

impl Redact for Part {
    fn redact(&mut self, redactor: &Redactor) {
        match &mut self.content {
            Content::Text(text) | Content::Url(text) => text.redact(redactor),
            Content::Data(json) => json.redact(redactor),
            Content::Raw(_) => {}
        }
        self.metadata.redact(redactor);
    }

    /// Clients show the texts of a message one after the other, so a secret that is split over two of them can be read.
    fn redact_all(all: &mut [Self], redactor: &Redactor) {
        let texts: Vec<&str> = all.iter().filter_map(Self::as_text).collect();
        if let Some(clean) = redactor.pieces(&texts) {
            let parts = all.iter_mut().filter_map(|part| match &mut part.content {
                Content::Text(text) => Some(text),
                Content::Url(_) | Content::Data(_) | Content::Raw(_) => None,
            });
            parts.zip(clean).for_each(|(text, clean)| *text = clean);
        }
        all.iter_mut().for_each(|part| part.redact(redactor));
    }
}

impl Redact for Message {
    fn redact(&mut self, redactor: &Redactor) {
        self.parts.redact(redactor);
        self.metadata.redact(redactor);
    }
}

impl Redact for TaskStatus {
    fn redact(&mut self, redactor: &Redactor) {
        self.message.redact(redactor);
    }
}

impl Redact for WireTask {
    fn redact(&mut self, redactor: &Redactor) {
        self.status.redact(redactor);
        self.metadata.redact(redactor);
    }
}

impl Redact for WireEvent {
    fn redact(&mut self, redactor: &Redactor) {
        match self {
            Self::Task(task) => task.redact(redactor),
            Self::Message(message) => message.redact(redactor),
            Self::StatusUpdate(update) => {
                update.status.redact(redactor);
                update.metadata.redact(redactor);
            }
            Self::ArtifactUpdate(update) => update.metadata.redact(redactor),
        }
    }
}

impl Redact for WireReply {
    fn redact(&mut self, redactor: &Redactor) {
        match self {
            Self::SentTask(task) | Self::Task(task) => task.redact(redactor),
            Self::SentMessage(message) => message.redact(redactor),
            Self::Tasks { tasks, .. } => tasks.redact(redactor),
            // Push configurations and cards contain no messages of the agent about its work.
            Self::Push(..) | Self::Pushes(..) | Self::Deleted | Self::Card(_) => {}
        }
    }
}

impl Redact for Fault {
    /// The code stays. If the text changes, the fault becomes [`Fault::Peer`] with the new text.
    fn redact(&mut self, redactor: &Redactor) {
        if let Cow::Owned(message) = redactor.agent_text(&self.to_string()) {
            *self = Self::Peer { code: self.code(), message, task: self.task().cloned() };
        }
    }
}

impl Redact for Error {
    fn redact(&mut self, redactor: &Redactor) {
        match self {
            Self::Fault { fault, .. } => fault.redact(redactor),
            Self::Unreachable { reason, .. }
            | Self::CardNotFound { reason, .. }
            | Self::CardInvalid { reason, .. }
            | Self::AuthFailed { reason, .. }
            | Self::StreamLost { reason, .. } => reason.redact(redactor),
            _ => {}
        }
    }
}

impl<T: Redact, E: Redact> Redact for Result<T, E> {
    fn redact(&mut self, redactor: &Redactor) {
        match self {
            Ok(value) => value.redact(redactor),
            Err(error) => error.redact(redactor),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const SECRET: &str = "upstream-secret-TOK-9";

    fn redactor() -> Redactor {
        let redactor = Redactor::default();
        redactor.learn(SECRET);
        redactor.learn("123456789012");
        redactor
    }

    fn task() -> WireTask {
        let task = format!(
            r#"{{"id":"t","status":{{"state":"TASK_STATE_FAILED","message":{{"messageId":"m","role":"ROLE_AGENT","parts":[
                {{"text":"saw Bearer {SECRET}"}},{{"data":{{"saw":"{SECRET}","n":1}}}},{{"data":{{"n":123456789012}}}}],
                "metadata":{{"saw":"{SECRET}"}}}}}},
               "artifacts":[{{"artifactId":"a","parts":[{{"text":"{SECRET}"}}]}}],"metadata":{{"saw":"{SECRET}"}}}}"#
        );
        serde_json::from_str(&task).unwrap()
    }

    #[test]
    fn words_lose_their_secrets_and_the_work_passes_as_it_is() {
        let before = task();
        let mut after = before.clone();
        after.redact(&redactor());
        assert_eq!(after.artifacts, before.artifacts);
        let said = serde_json::to_value(&after.status.message).unwrap();
        assert_eq!(said["parts"][0]["text"], "saw Bearer [redacted]");
        assert_eq!(said["parts"][1]["data"], serde_json::json!({"saw": REDACTED, "n": 1}));
        // A number inside a value cannot be replaced by text, so the whole value is.
        assert_eq!(said["parts"][2]["data"], REDACTED);
        assert_eq!(
            (&said["metadata"]["saw"], after.metadata.unwrap().get("saw")),
            (&REDACTED.into(), Some(REDACTED.into()))
        );
    }

    #[test]
    fn a_secret_that_is_split_over_the_parts_of_a_message_is_hidden() {
        let (head, tail) = SECRET.split_at(9);
        for (texts, expected) in [
            (vec!["saw ", head, tail, " there"], vec!["saw ", REDACTED, "", " there"]),
            (vec![&format!("a {head}")[..], &format!("{tail} b")[..]], vec!["a [redacted]", " b"]),
            (vec![&head[..3], &head[3..], "", tail], vec![REDACTED, "", "", ""]),
            (vec![SECRET, head, tail, SECRET], vec![REDACTED, REDACTED, "", REDACTED]),
            (vec![head, " ", tail], vec![head, " ", tail]),
            (vec![head], vec![head]),
        ] {
            let mut parts: Vec<Part> = texts.into_iter().map(Part::text).collect();
            parts.redact(&redactor());
            let texts: Vec<&str> = parts.iter().filter_map(Part::as_text).collect();
            assert_eq!(texts, expected);
        }
    }

    #[test]
    fn an_error_keeps_its_kind_and_loses_the_secret() {
        let mut error = Error::from(Fault::InvalidAgentResponse(format!("{{\"authorization\":\"{SECRET}\"}}")));
        error.redact(&redactor());
        let Error::Fault { fault, .. } = &error else { panic!("{error}") };
        assert_eq!(fault.code(), sabir_proto::FaultCode::InvalidAgentResponse);
        assert!(error.to_string().ends_with("{\"authorization\":\"[redacted]\"}"), "{error}");
        let unchanged = Fault::TaskNotFound(sabir_proto::TaskRef::parse("t").unwrap());
        let mut same = unchanged.clone();
        same.redact(&redactor());
        assert_eq!(same, unchanged);
    }
}
