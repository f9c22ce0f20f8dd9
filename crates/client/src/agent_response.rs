//! A response of an agent: the decoded value with its JSON.

use bytes::Bytes;
use sabir_wire::Losses;

/// A value from an agent together with its JSON.
///
/// The JSON is A2A 1.0. If the agent spoke 1.0 in JSON it is the text as received, so that members unknown to us
/// survive; otherwise it is encoded from the value.
#[derive(Debug, Clone)]
pub struct AgentResponse<T> {
    /// The value, decoded from the response.
    pub value: T,
    /// Valid UTF-8; often a slice of the response's own bytes.
    json: Bytes,
    /// The JSON as received, where it differs and the caller may need it.
    received: Option<Bytes>,
    losses: Losses,
}

impl<T> AgentResponse<T> {
    pub(crate) fn new(value: T, json: impl Into<String>, losses: Losses) -> Self {
        Self::from_bytes(value, Bytes::from(json.into()), losses)
    }

    /// Like [`AgentResponse::new`], with a slice of the response, which must be UTF-8.
    pub(crate) const fn from_bytes(value: T, json: Bytes, losses: Losses) -> Self {
        Self { value, json, received: None, losses }
    }

    /// The value as A2A 1.0 JSON.
    pub fn json(&self) -> &str {
        text(&self.json)
    }

    /// The value as A2A 1.0 JSON, in bytes.
    pub(crate) const fn bytes(&self) -> &Bytes {
        &self.json
    }

    /// The length of the JSON in bytes.
    pub(crate) const fn len(&self) -> usize {
        self.json.len()
    }

    /// Adds the JSON as received, in a dialect other than 1.0.
    pub(crate) fn with_received(self, text: &str) -> Self {
        Self { received: Some(Bytes::copy_from_slice(text.as_bytes())), ..self }
    }

    /// The JSON as received, for checking signatures: for a card in any dialect of JSON; otherwise the A2A 1.0 JSON.
    pub fn as_received(&self) -> &str {
        text(self.received.as_ref().unwrap_or(&self.json))
    }

    /// The information that the agent's dialect cannot carry.
    pub const fn losses(&self) -> &Losses {
        &self.losses
    }

    /// Converts the value, and keeps the JSON.
    pub(crate) fn map<U>(self, f: impl FnOnce(T) -> U) -> AgentResponse<U> {
        AgentResponse { value: f(self.value), json: self.json, received: self.received, losses: self.losses }
    }

    /// Converts the value if that is possible, and keeps the JSON.
    pub(crate) fn try_map<U, E>(self, f: impl FnOnce(T) -> Result<U, E>) -> Result<AgentResponse<U>, E> {
        Ok(AgentResponse { value: f(self.value)?, json: self.json, received: self.received, losses: self.losses })
    }
}

fn text(bytes: &Bytes) -> &str {
    std::str::from_utf8(bytes).unwrap_or_default()
}
