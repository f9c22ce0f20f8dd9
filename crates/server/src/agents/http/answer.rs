//! The answers that an endpoint may send, and their meaning.
//!
//! A JSON object with one of our members is a document of ours: `text` or `parts` is the answer, `artifacts` are
//! further artifacts, `state` says how the turn ends. Any other body is the answer itself: text as text, other JSON as
//! data, other bytes as a file. An object that has one of our members and cannot be read fails the turn: if it were
//! skipped, the caller would lose that answer without a sign of it.

use super::answer_id;
use sabir_engine::Ending;
use sabir_gateway::redact::{self, Redact as _};
use sabir_proto::{Artifact, Content, Json, Part};
use sabir_wire::sse::Frame;
use serde::Deserialize;
use serde_json::value::RawValue;

/// The members that make an object a document of ours.
const MEMBERS: [&str; 5] = ["text", "parts", "state", "artifacts", "status"];
/// Characters of an endpoint's error text that the caller gets.
const ERROR_CHARS_MAX: usize = 500;

/// An answer that arrived in one body.
#[derive(Debug, PartialEq, Eq)]
pub(super) struct EndpointAnswer {
    pub(super) artifacts: Vec<Artifact>,
    pub(super) ending: Ending,
}

/// The content of one event of a stream.
#[derive(Debug, PartialEq, Eq)]
pub(super) enum StreamPiece {
    Progress(String),
    /// The next part of the answer.
    More(Vec<Part>),
    /// A whole artifact in addition to the answer.
    Artifact(Artifact),
    End(Ending),
}

#[derive(Deserialize, Default)]
struct AnswerDocument {
    text: Option<String>,
    parts: Option<Vec<Part>>,
    state: Option<String>,
    #[serde(default)]
    artifacts: Vec<Artifact>,
    /// Progress; in streams only.
    status: Option<String>,
}

/// How an answer ends, in the words of all dialects.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum AnswerState {
    Working,
    Completed,
    Failed,
    Rejected,
    Canceled,
    InputRequired,
    AuthRequired,
}

/// Reads an answer that arrived in one body. The error is for the caller to read.
pub(super) fn read(media_type: &str, body: &[u8]) -> Result<EndpointAnswer, String> {
    if body.trim_ascii().is_empty() {
        return Ok(EndpointAnswer { artifacts: Vec::new(), ending: Ending::complete() });
    }
    let is_json = media_type == "application/json" || media_type.ends_with("+json");
    let text = std::str::from_utf8(body).ok();
    match text {
        Some(text) if is_json => json(text),
        None if is_json || media_type.starts_with("text/") => Err(unreadable("it is not UTF-8")),
        // An endpoint without a content type has most often printed text.
        Some(text) if media_type.starts_with("text/") || media_type.is_empty() => {
            let mut part = Part::text(text);
            part.media_type = (!matches!(media_type, "" | "text/plain")).then(|| media_type.to_owned());
            Ok(completed(vec![part]))
        }
        _ => {
            let media_type = if media_type.is_empty() { "application/octet-stream" } else { media_type };
            let part = Part { media_type: Some(media_type.into()), ..Part::new(Content::Raw(body.to_vec())) };
            Ok(completed(vec![part]))
        }
    }
}

fn json(text: &str) -> Result<EndpointAnswer, String> {
    let Some(document) = document(text)? else { return Ok(completed(vec![json_part(text)?])) };
    let AnswerDocument { text, parts, state, mut artifacts, status: _ } = document;
    let said = words(text, parts);
    let state = state.as_deref().map(state_named).transpose()?.unwrap_or(AnswerState::Completed);
    if state == AnswerState::Working {
        return Err(unreadable("it says that it is still working, and has ended"));
    }
    if state == AnswerState::Completed {
        if !said.is_empty() {
            artifacts.insert(0, Artifact::new(answer_id(), said));
        }
        return Ok(EndpointAnswer { artifacts, ending: Ending::complete() });
    }
    Ok(EndpointAnswer { artifacts, ending: ending(state, said) })
}

/// Reads one event of a stream.
pub(super) fn read_frame(frame: &Frame) -> Result<Vec<StreamPiece>, String> {
    let data = frame.data.as_str();
    // Some streams begin with an empty event; those of OpenAI's kind end with this word.
    if data.trim().is_empty() {
        return Ok(Vec::new());
    }
    if data.trim() == "[DONE]" {
        return Ok(vec![StreamPiece::End(Ending::complete())]);
    }
    match frame.event.as_deref() {
        Some("status") => return Ok(vec![StreamPiece::Progress(error_text(data.as_bytes()).unwrap_or_default())]),
        Some("error") => {
            let why = error_text(data.as_bytes()).unwrap_or_else(|| "the endpoint behind this agent failed".into());
            return Ok(vec![StreamPiece::End(Ending::fail(why))]);
        }
        _ => {}
    }
    if !data.trim_start().starts_with('{') {
        return Ok(vec![StreamPiece::More(vec![Part::text(data)])]);
    }
    let Some(document) = document(data)? else { return Ok(vec![StreamPiece::More(vec![json_part(data)?])]) };
    let AnswerDocument { text, parts, state, artifacts, status } = document;
    let said = words(text, parts);
    let state = state.as_deref().map(state_named).transpose()?;
    let progress = |words: String| StreamPiece::Progress(redact::process_redactor().agent_text(&words).into_owned());
    let mut pieces: Vec<StreamPiece> = status.map(progress).into_iter().collect();
    pieces.extend(artifacts.into_iter().map(StreamPiece::Artifact));
    match state {
        None | Some(AnswerState::Working) if said.is_empty() => {}
        None | Some(AnswerState::Working) => pieces.push(StreamPiece::More(said)),
        Some(AnswerState::Completed) => {
            if !said.is_empty() {
                pieces.push(StreamPiece::More(said));
            }
            pieces.push(StreamPiece::End(Ending::complete()));
        }
        Some(state) => pieces.push(StreamPiece::End(ending(state, said))),
    }
    Ok(pieces)
}

/// The endpoint's text about its own failure, if it is meant for people: never a page, a trace, a whole document or a
/// secret of the server.
pub(in crate::agents) fn error_text(body: &[u8]) -> Option<String> {
    let text = std::str::from_utf8(body).ok()?.trim();
    let words = match serde_json::from_str::<serde_json::Value>(text) {
        Ok(serde_json::Value::String(words)) => words,
        Ok(value) => {
            let error = value.get("error");
            let nested = error.and_then(|error| error.get("message")).or(error);
            let named = ["message", "text", "detail", "status"].into_iter().find_map(|name| value.get(name)?.as_str());
            nested.and_then(serde_json::Value::as_str).or(named)?.to_owned()
        }
        Err(_) if text.starts_with(['<', '{', '[']) => return None,
        Err(_) => text.lines().next()?.to_owned(),
    };
    let words: String = redact::process_redactor()
        .agent_text(&words)
        .chars()
        .filter(|c| !c.is_control())
        .take(ERROR_CHARS_MAX)
        .collect();
    (!words.is_empty()).then_some(words)
}

/// The document, if the text is an object with one of our members.
fn document(text: &str) -> Result<Option<AnswerDocument>, String> {
    let members: Result<std::collections::BTreeMap<String, &RawValue>, _> = serde_json::from_str(text);
    match members {
        Ok(members) if members.keys().any(|name| MEMBERS.contains(&name.as_str())) => {
            serde_json::from_str(text).map(Some).map_err(|e| unreadable(&e.to_string()))
        }
        _ => Ok(None),
    }
}

/// JSON that is not a document of ours: a string as text, other JSON as data.
fn json_part(text: &str) -> Result<Part, String> {
    match serde_json::from_str::<String>(text) {
        Ok(words) => Ok(Part::text(words)),
        Err(_) => Json::parse(text).map(Part::data).map_err(|e| unreadable(&e.to_string())),
    }
}

fn words(text: Option<String>, parts: Option<Vec<Part>>) -> Vec<Part> {
    let text = text.filter(|text| !text.is_empty()).map(Part::text);
    text.into_iter().chain(parts.into_iter().flatten()).collect()
}

fn completed(parts: Vec<Part>) -> EndpointAnswer {
    EndpointAnswer { artifacts: vec![Artifact::new(answer_id(), parts)], ending: Ending::complete() }
}

fn state_named(name: &str) -> Result<AnswerState, String> {
    let plain = name.strip_prefix("TASK_STATE_").unwrap_or(name).to_ascii_lowercase().replace('_', "-");
    Ok(match plain.as_str() {
        "working" | "submitted" => AnswerState::Working,
        "completed" => AnswerState::Completed,
        "failed" => AnswerState::Failed,
        "rejected" => AnswerState::Rejected,
        "canceled" => AnswerState::Canceled,
        "input-required" => AnswerState::InputRequired,
        "auth-required" => AnswerState::AuthRequired,
        _ => return Err(unreadable(&format!("there is no state {name:?}"))),
    })
}

/// An artifact passes unchanged. Words about the work lose the secrets that they repeat.
fn ending(state: AnswerState, mut said: Vec<Part>) -> Ending {
    if state != AnswerState::Completed {
        said.redact(redact::process_redactor());
    }
    match state {
        AnswerState::Working | AnswerState::Completed => Ending::Complete(said),
        AnswerState::Failed => Ending::Fail(said),
        AnswerState::Rejected => Ending::Reject(said),
        AnswerState::Canceled => Ending::Cancel(said),
        AnswerState::InputRequired => Ending::AskInput(said),
        AnswerState::AuthRequired => Ending::AskAuth(said),
    }
}

fn unreadable(problem: &str) -> String {
    format!("the answer of the endpoint behind this agent cannot be read: {problem}")
}

#[cfg(test)]
mod tests {
    use super::*;

    fn check(media_type: &str, body: &str, parts: Vec<Part>, ending: Ending) {
        let artifacts = if parts.is_empty() { Vec::new() } else { vec![Artifact::new(answer_id(), parts)] };
        assert_eq!(read(media_type, body.as_bytes()), Ok(EndpointAnswer { artifacts, ending }), "{body}");
    }

    #[test]
    fn what_an_endpoint_repeats_of_our_secrets_is_no_word_for_a_caller() {
        redact::process_redactor().learn("endpoint-secret-TOK-1");
        let said = |text: &str| Part::text(format!("{text} endpoint-secret-TOK-1"));
        let hidden = || vec![Part::text("saw [redacted]")];
        let complained = error_text(br#"{"error":{"message":"saw endpoint-secret-TOK-1"}}"#);
        assert_eq!(complained.as_deref(), Some("saw [redacted]"));
        for (state, ending) in [("failed", Ending::Fail(hidden())), ("input-required", Ending::AskInput(hidden()))] {
            let body = format!(r#"{{"state":"{state}","text":"saw endpoint-secret-TOK-1"}}"#);
            check("application/json", &body, Vec::new(), ending);
        }
        // The answer itself passes unchanged.
        check(
            "application/json",
            r#"{"text":"made of endpoint-secret-TOK-1"}"#,
            vec![said("made of")],
            Ending::complete(),
        );
    }

    #[test]
    fn each_kind_of_answer_is_read() {
        let json = "application/json";
        check("text/plain", "Good day", vec![Part::text("Good day")], Ending::complete());
        check("", "printed", vec![Part::text("printed")], Ending::complete());
        check(json, r#""words""#, vec![Part::text("words")], Ending::complete());
        check(
            json,
            r#"{"text":"a","parts":[{"text":"b"}]}"#,
            vec![Part::text("a"), Part::text("b")],
            Ending::complete(),
        );
        check(json, r#"{"state":"input-required","text":"Which?"}"#, vec![], Ending::ask_input("Which?"));
        check(json, r#"{"state":"TASK_STATE_AUTH_REQUIRED"}"#, vec![], Ending::AskAuth(vec![]));
        check(json, r#"{"state":"failed","text":"No."}"#, vec![], Ending::fail("No."));
        check(json, r#"{"state":"rejected"}"#, vec![], Ending::Reject(vec![]));
        let data = || vec![Part::data(Json::parse(r#"{"total":3}"#).unwrap())];
        check("application/problem+json", r#"{"total":3}"#, data(), Ending::complete());
        check(json, "  ", vec![], Ending::complete());
        let html = Part { media_type: Some("text/html".into()), ..Part::text("<p>") };
        check("text/html", "<p>", vec![html], Ending::complete());
        let image = Part { media_type: Some("image/png".into()), ..Part::new(Content::Raw(vec![1, 255])) };
        assert_eq!(read("image/png", &[1, 255]), Ok(completed(vec![image])));
        let made = r#"{"artifacts":[{"artifactId":"report","parts":[{"text":"x"}]}],"text":"Done"}"#;
        let names: Vec<_> =
            read(json, made.as_bytes()).unwrap().artifacts.iter().map(|a| a.artifact_id.to_string()).collect();
        assert_eq!(names, ["answer", "report"]);
    }

    #[test]
    fn what_is_ours_and_cannot_be_read_is_refused() {
        for body in [r#"{"text":3}"#, r#"{"state":"done"}"#, r#"{"parts":[{}]}"#, r#"{"state":"working"}"#, "{", "\"x"]
        {
            read("application/json", body.as_bytes()).unwrap_err();
        }
        read("text/plain", &[255]).unwrap_err();
    }

    #[test]
    fn events_are_chunks_progress_or_the_end() {
        let said = |data: &str| read_frame(&Frame { data: data.into(), ..Frame::default() }).unwrap();
        assert_eq!(said("plain"), [StreamPiece::More(vec![Part::text("plain")])]);
        assert_eq!(said(r#"{"text":"a"}"#), [StreamPiece::More(vec![Part::text("a")])]);
        assert_eq!(said(r#"{"status":"half way"}"#), [StreamPiece::Progress("half way".into())]);
        assert_eq!(said("[DONE]"), [StreamPiece::End(Ending::complete())]);
        assert_eq!(said(r#"{"state":"working"}"#), []);
        assert_eq!(
            said(r#"{"state":"completed","text":"b"}"#),
            [StreamPiece::More(vec![Part::text("b")]), StreamPiece::End(Ending::complete())]
        );
        assert_eq!(said(r#"{"state":"input-required","text":"?"}"#), [StreamPiece::End(Ending::ask_input("?"))]);
        let named = |event: &str, data: &str| {
            read_frame(&Frame { event: Some(event.into()), data: data.into(), ..Frame::default() }).unwrap()
        };
        assert_eq!(named("status", "half way"), [StreamPiece::Progress("half way".into())]);
        assert_eq!(named("error", r#"{"error":{"message":"no"}}"#), [StreamPiece::End(Ending::fail("no"))]);
    }

    #[test]
    fn a_complaint_is_for_people_and_short() {
        let check =
            |body: &str, words: Option<&str>| assert_eq!(error_text(body.as_bytes()).as_deref(), words, "{body}");
        check(r#"{"error":{"message":"no such model","type":"x"}}"#, Some("no such model"));
        check(r#"{"error":"no"}"#, Some("no"));
        check(r#"{"detail":"bad"}"#, Some("bad"));
        check("busy\nat line 3", Some("busy"));
        check("<html>", None);
        check(r#"{"x":1}"#, None);
        check("", None);
        assert_eq!(error_text("y".repeat(10_000).as_bytes()).unwrap().len(), ERROR_CHARS_MAX);
    }
}
