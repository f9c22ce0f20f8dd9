//! The JSON of chat completions: the request, and the answer, which arrives in pieces.
//!
//! Endpoints differ in what they leave out, so every received member is optional.

use sabir_proto::{Content, Message, NonText, Part, Role, encode_base64};
use serde::de::IgnoredAny;
use serde::{Deserialize, Serialize};
use serde_json::{Value, json};

/// Bytes of the arguments of one call. A model that writes more does not stop.
const ARGUMENTS_BYTES_MAX: usize = 1 << 20;
/// Calls that one answer may begin. A call past this is an error, before any is run.
const CALLS_MAX: usize = 256;

/// One message of the conversation, in the form of the endpoint.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
pub(super) struct ChatMessage {
    pub(super) role: String,
    #[serde(default, skip_serializing_if = "Value::is_null")]
    pub(super) content: Value,
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub(super) tool_calls: Vec<ToolCall>,
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub(super) tool_call_id: Option<String>,
}

/// A use of a tool that the model asks for.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub(super) struct ToolCall {
    pub(super) id: String,
    #[serde(rename = "type")]
    pub(super) kind: String,
    pub(super) function: Function,
}

#[derive(Debug, Clone, Default, PartialEq, Eq, Serialize, Deserialize)]
pub(super) struct Function {
    pub(super) name: String,
    /// JSON as text, written by the model; not checked.
    pub(super) arguments: String,
}

impl ChatMessage {
    pub(super) fn new(role: &str, content: impl Into<Value>) -> Self {
        Self { role: role.into(), content: content.into(), tool_calls: Vec::new(), tool_call_id: None }
    }

    /// The result of a tool.
    pub(super) fn tool_result(call: &ToolCall, result: String) -> Self {
        Self { tool_call_id: Some(call.id.clone()), ..Self::new("tool", result) }
    }
}

/// A message in the form of the endpoint.
pub(super) fn chat_message(message: &Message) -> ChatMessage {
    let role = match message.role {
        Role::User => "user",
        Role::Agent => "assistant",
    };
    let only_text = message.parts.iter().all(|part| part.as_text().is_some());
    if only_text || message.role == Role::Agent {
        return ChatMessage::new(role, message.text_with(NonText::Describe));
    }
    ChatMessage::new(role, message.parts.iter().map(content_part).collect::<Vec<_>>())
}

/// A part as one piece of content: pictures are sent as pictures.
fn content_part(part: &Part) -> Value {
    let picture = part.media_type.as_deref().filter(|t| t.starts_with("image/"));
    let shown = match (&part.content, picture) {
        (Content::Url(url), Some(_)) => Some(url.clone()),
        (Content::Raw(bytes), Some(media_type)) => Some(format!("data:{media_type};base64,{}", encode_base64(bytes))),
        _ => None,
    };
    match shown {
        Some(url) => json!({"type": "image_url", "image_url": {"url": url}}),
        None => json!({"type": "text", "text": part.described()}),
    }
}

/// One chunk of an answer, or a whole answer: they differ in one member name.
#[derive(Debug, Deserialize)]
pub(super) struct Chunk {
    #[serde(default)]
    choices: Vec<ChatChoice>,
    #[serde(default)]
    usage: Option<Usage>,
    #[serde(default)]
    error: Option<Value>,
}

#[derive(Debug, Deserialize)]
struct ChatChoice {
    #[serde(default, alias = "message")]
    delta: Option<Delta>,
    #[serde(default)]
    finish_reason: Option<String>,
}

#[derive(Debug, Deserialize)]
struct Delta {
    #[serde(default)]
    content: Option<String>,
    #[serde(default)]
    refusal: Option<String>,
    #[serde(default)]
    tool_calls: Option<Vec<CallDelta>>,
}

#[derive(Debug, Deserialize)]
struct CallDelta {
    #[serde(default)]
    index: Option<usize>,
    #[serde(default)]
    id: Option<String>,
    #[serde(default)]
    function: Option<FunctionDelta>,
}

#[derive(Debug, Deserialize)]
struct FunctionDelta {
    #[serde(default)]
    name: Option<String>,
    #[serde(default)]
    arguments: Option<String>,
}

/// Tokens as the endpoint counts them.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq, Serialize, Deserialize)]
pub(super) struct Usage {
    #[serde(default)]
    pub(super) prompt_tokens: u64,
    #[serde(default)]
    pub(super) completion_tokens: u64,
}

/// The answer of the model so far.
#[derive(Debug, Default)]
pub(super) struct ModelAnswer {
    pub(super) text: String,
    pub(super) calls: Vec<ToolCall>,
    pub(super) finish: Option<String>,
    pub(super) usage: Usage,
}

impl ModelAnswer {
    /// Reads a chunk, and returns its text. The error is for the caller to read.
    pub(super) fn read_chunk(&mut self, data: &str) -> Result<String, String> {
        let chunk: Chunk = serde_json::from_str(data).map_err(|e| format!("the model's answer cannot be read: {e}"))?;
        if chunk.error.is_some() {
            let words = super::super::http::error_text(data.as_bytes()).unwrap_or_else(|| "no reason given".into());
            return Err(format!("the model failed: {words}"));
        }
        if let Some(usage) = chunk.usage {
            self.usage = usage;
        }
        let mut text = String::new();
        // All choices after the first are drafts that no one asked for.
        let Some(choice) = chunk.choices.into_iter().next() else { return Ok(text) };
        if let Some(delta) = choice.delta {
            text.extend(delta.content);
            text.extend(delta.refusal);
            for call in delta.tool_calls.into_iter().flatten() {
                self.add_call(call)?;
            }
        }
        if let Some(reason) = choice.finish_reason {
            self.finish = Some(reason);
        }
        self.text.push_str(&text);
        Ok(text)
    }

    /// Whether the answer ended in the middle of a use of a tool: the endpoint gave no reason for the end, and the last
    /// arguments are incomplete JSON.
    pub(super) fn is_cut_off(&self) -> bool {
        let arguments = self.calls.last().map_or("", |call| call.function.arguments.trim());
        self.finish.is_none() && !arguments.is_empty() && serde_json::from_str::<IgnoredAny>(arguments).is_err()
    }

    fn add_call(&mut self, delta: CallDelta) -> Result<(), String> {
        // Some endpoints send whole calls without numbers.
        let at = match delta.index {
            Some(at) => at,
            None if delta.id.is_some() => self.calls.len(),
            None => self.calls.len().saturating_sub(1),
        };
        if at >= CALLS_MAX {
            return Err("the model wants too many tools at once".into());
        }
        while self.calls.len() <= at {
            let id = format!("call_{}", self.calls.len());
            self.calls.push(ToolCall { id, kind: "function".into(), function: Function::default() });
        }
        let call = &mut self.calls[at];
        if let Some(id) = delta.id.filter(|id| !id.is_empty()) {
            call.id = id;
        }
        if let Some(function) = delta.function {
            call.function.name.extend(function.name);
            call.function.arguments.extend(function.arguments);
        }
        if call.function.arguments.len() > ARGUMENTS_BYTES_MAX {
            return Err("the model wrote arguments without an end".into());
        }
        Ok(())
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn calls_come_in_pieces_or_whole() {
        let mut answer = ModelAnswer::default();
        for data in [
            r#"{"choices":[{"delta":{"role":"assistant","content":null,"tool_calls":[{"index":0,"id":"a","type":"function","function":{"name":"get_","arguments":""}}]}}]}"#,
            r#"{"choices":[{"delta":{"tool_calls":[{"index":0,"function":{"name":"x","arguments":"{\"n\""}}]}}]}"#,
            r#"{"choices":[{"delta":{"tool_calls":[{"index":0,"function":{"arguments":":1}"}},{"index":1,"id":"b","function":{"name":"y","arguments":"{}"}}]}}]}"#,
            r#"{"choices":[{"delta":{},"finish_reason":"tool_calls"}]}"#,
            r#"{"choices":[],"usage":{"prompt_tokens":7,"completion_tokens":3,"total_tokens":10}}"#,
        ] {
            assert_eq!(answer.read_chunk(data).unwrap(), "");
        }
        let calls: Vec<_> = answer.calls.iter().map(|c| (&*c.id, &*c.function.name, &*c.function.arguments)).collect();
        assert_eq!(calls, [("a", "get_x", r#"{"n":1}"#), ("b", "y", "{}")]);
        assert_eq!((answer.finish.as_deref(), answer.usage.prompt_tokens), (Some("tool_calls"), 7));

        let mut answer = ModelAnswer::default();
        let whole = r#"{"choices":[{"message":{"content":"hi","tool_calls":[{"id":"c","function":{"name":"z","arguments":"{}"}}]},"finish_reason":"stop"}]}"#;
        assert_eq!(answer.read_chunk(whole).unwrap(), "hi");
        assert_eq!(answer.calls[0].function.name, "z");
    }

    #[test]
    fn what_cannot_be_is_refused() {
        let mut answer = ModelAnswer::default();
        assert!(answer.read_chunk(r#"{"error":{"message":"overloaded"}}"#).unwrap_err().ends_with("overloaded"));
        answer.read_chunk("<html>").unwrap_err();
        answer.read_chunk(r#"{"choices":[{"delta":{"tool_calls":[{"index":9999999}]}}]}"#).unwrap_err();
        let long = "x".repeat(ARGUMENTS_BYTES_MAX + 1);
        let endless = format!(
            r#"{{"choices":[{{"delta":{{"tool_calls":[{{"index":0,"function":{{"arguments":"{long}"}}}}]}}}}]}}"#
        );
        answer.read_chunk(&endless).unwrap_err();
    }

    #[test]
    fn pictures_are_shown_and_other_files_named() {
        let mut message = Message::text(sabir_proto::MessageId::parse("m").unwrap(), Role::User, "Look");
        assert_eq!(chat_message(&message).content, json!("Look"));
        let picture = Part { media_type: Some("image/png".into()), ..Part::new(Content::Raw(vec![1, 2, 3])) };
        let file = Part { filename: Some("a.zip".into()), ..Part::new(Content::Raw(vec![1])) };
        message.parts.extend([picture, file]);
        let content = chat_message(&message).content;
        assert_eq!(content[1]["image_url"]["url"], "data:image/png;base64,AQID");
        assert_eq!(content[2]["text"], "[a.zip, application/octet-stream, 1 bytes]");
    }
}
