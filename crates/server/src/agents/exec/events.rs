//! The meaning of a line on descriptor 3.
//!
//! Each line is one JSON object with one member that says what it is. Any other line fails the turn: if the server
//! skipped a misspelt event, the caller would lose a part of the answer and not know it.

use base64::Engine as _;
use sabir_proto::transfer::HandoffRequest;
use sabir_proto::{Artifact, ArtifactId, Content, Json, Part};
use serde::{Deserialize, Deserializer};

/// The artifact that holds standard output. Events may not use its id.
pub(super) const STDOUT: &str = "stdout";
/// Characters of a refused line that are quoted: enough to find it, and no second copy of a large one.
const QUOTED_CHARS_MAX: usize = 120;

/// An event that a command reports.
#[derive(Debug, PartialEq, Eq)]
pub(super) enum CommandEvent {
    Status(String),
    Artifact { artifact: Artifact, append: bool, last_chunk: bool },
    Ask(CommandNeed),
}

/// What a command needs before it can go on.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(super) enum CommandNeed {
    Input(String),
    Auth(String),
    /// Another agent should have the task.
    Transfer(Box<HandoffRequest>),
}

#[derive(Deserialize)]
#[serde(rename_all = "kebab-case")]
enum EventLine {
    Status(String),
    Artifact(Box<ArtifactLine>),
    InputRequired(String),
    AuthRequired(String),
    Transfer(Box<HandoffRequest>),
}

#[derive(Deserialize)]
#[serde(rename_all = "camelCase", deny_unknown_fields)]
struct ArtifactLine {
    id: String,
    name: Option<String>,
    text: Option<String>,
    /// `null` is a value like any other.
    #[serde(default, deserialize_with = "present")]
    data: Option<Json>,
    url: Option<String>,
    raw: Option<String>,
    media_type: Option<String>,
    filename: Option<String>,
    append: Option<bool>,
    last_chunk: Option<bool>,
}

fn present<'de, D: Deserializer<'de>>(d: D) -> Result<Option<Json>, D::Error> {
    Json::deserialize(d).map(Some)
}

/// Reads a line; `None` if it is blank. The error is for the caller to read.
pub(super) fn read_event(line: &[u8]) -> Result<Option<CommandEvent>, String> {
    if line.trim_ascii().is_empty() {
        return Ok(None);
    }
    let event = serde_json::from_slice(line).map_err(|e| e.to_string()).and_then(|line| match line {
        EventLine::Status(text) => Ok(CommandEvent::Status(text)),
        EventLine::Artifact(line) => artifact(*line),
        EventLine::InputRequired(question) => Ok(CommandEvent::Ask(CommandNeed::Input(question))),
        EventLine::AuthRequired(request) => Ok(CommandEvent::Ask(CommandNeed::Auth(request))),
        EventLine::Transfer(order) => Ok(CommandEvent::Ask(CommandNeed::Transfer(order))),
    });
    event.map(Some).map_err(|problem| refused(line, &problem))
}

/// The error text for a line that is not an event.
pub(super) fn refused(line: &[u8], problem: &str) -> String {
    let start = &line[..line.len().min(4 * QUOTED_CHARS_MAX)];
    let text = String::from_utf8_lossy(start);
    let mut quoted: String = text.chars().filter(|c| !c.is_control()).take(QUOTED_CHARS_MAX).collect();
    if quoted.len() < line.len() {
        quoted.push('…');
    }
    format!("the command wrote a line to descriptor 3 that is not an event: {problem}; the line is: {quoted}")
}

fn artifact(line: ArtifactLine) -> Result<CommandEvent, String> {
    if line.id == STDOUT {
        return Err(format!("the artifact {STDOUT:?} is what the command prints"));
    }
    let id = ArtifactId::parse(&line.id).map_err(|e| format!("artifact id {e}"))?;
    let content = match (line.text, line.data, line.url, line.raw) {
        (Some(text), None, None, None) => Content::Text(text),
        (None, Some(data), None, None) => Content::Data(data),
        (None, None, Some(url), None) => Content::Url(url),
        (None, None, None, Some(raw)) => {
            let bytes = base64::engine::general_purpose::STANDARD.decode(raw);
            Content::Raw(bytes.map_err(|e| format!("raw is not base64: {e}"))?)
        }
        _ => return Err("an artifact has exactly one of text, data, url, raw".into()),
    };
    let part = Part { content, metadata: None, filename: line.filename, media_type: line.media_type };
    let mut artifact = Artifact::new(id, vec![part]);
    artifact.name = line.name;
    // A line without `append` and `lastChunk` is the whole artifact.
    let whole = line.append.is_none() && line.last_chunk.is_none();
    Ok(CommandEvent::Artifact {
        artifact,
        append: line.append == Some(true),
        last_chunk: line.last_chunk.unwrap_or(whole),
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    fn event(line: &str) -> CommandEvent {
        read_event(line.as_bytes()).unwrap().unwrap()
    }

    #[test]
    fn each_kind_of_line_is_read() {
        assert_eq!(event(r#"{"status":"half way"}"#), CommandEvent::Status("half way".into()));
        assert_eq!(event(r#"{"input-required":"Which?"}"#), CommandEvent::Ask(CommandNeed::Input("Which?".into())));
        assert_eq!(event(r#"{"auth-required":"Log in"}"#), CommandEvent::Ask(CommandNeed::Auth("Log in".into())));
        let order = HandoffRequest { to: "b".into(), required: vec!["x".into()], ..HandoffRequest::default() };
        let line = r#"{"transfer":{"to":"b","required":["x"]}}"#;
        assert_eq!(event(line), CommandEvent::Ask(CommandNeed::Transfer(Box::new(order))));
        assert_eq!(read_event(b" \r").unwrap(), None);
    }

    #[test]
    fn an_artifact_has_one_kind_of_content_and_says_whether_it_is_whole() {
        let check = |line: &str, content: Content, chunk: (bool, bool)| {
            let line = format!(r#"{{"artifact":{{"id":"a",{line}}}}}"#);
            let CommandEvent::Artifact { artifact, append, last_chunk } = event(&line) else { panic!("{line}") };
            assert_eq!((&artifact.parts[0].content, (append, last_chunk)), (&content, chunk), "{line}");
        };
        let null = Json::parse("null").unwrap();
        check(r#""text":"hi""#, Content::Text("hi".into()), (false, true));
        check(r#""data":null"#, Content::Data(null), (false, true));
        check(r#""url":"https://example.com/""#, Content::Url("https://example.com/".into()), (false, true));
        check(r#""raw":"AAE=","filename":"x""#, Content::Raw(vec![0, 1]), (false, true));
        check(r#""text":"1","append":false"#, Content::Text("1".into()), (false, false));
        check(r#""text":"2","append":true"#, Content::Text("2".into()), (true, false));
        check(r#""text":"3","append":true,"lastChunk":true"#, Content::Text("3".into()), (true, true));
    }

    #[test]
    fn everything_else_is_refused_and_quoted() {
        for line in [
            "hello",
            "{}",
            "3",
            r#"{"status":1}"#,
            r#"{"state":"x"}"#,
            r#"{"status":"a","input-required":"b"}"#,
            r#"{"artifact":{"text":"no id"}}"#,
            r#"{"artifact":{"id":"a"}}"#,
            r#"{"artifact":{"id":"a","text":"x","url":"y"}}"#,
            r#"{"artifact":{"id":"a","text":"x","media_type":"y"}}"#,
            r#"{"artifact":{"id":"a","raw":"%%"}}"#,
            r#"{"artifact":{"id":"stdout","text":"x"}}"#,
            r#"{"artifact":{"id":"","text":"x"}}"#,
        ] {
            let problem = read_event(line.as_bytes()).unwrap_err();
            assert!(problem.contains(line), "{problem}");
        }
        let problem = read_event(&b"\x1b[1m".repeat(100_000)).unwrap_err();
        assert!(problem.len() < 1000 && !problem.contains('\x1b'), "{problem}");
    }
}
