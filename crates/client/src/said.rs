//! What an agent said: understood, and as it was written.

use bytes::Bytes;
use sabir_wire::Losses;

/// A value of the protocol together with its JSON.
///
/// The JSON is A2A 1.0's. Where the agent spoke 1.0 in JSON it is what came over the wire, member for member, so that
/// members nobody here knows survive; otherwise it is written from the value.
#[derive(Debug, Clone)]
pub struct Said<T> {
    /// The value.
    pub value: T,
    /// Text; often a piece of the answer's own bytes.
    json: Bytes,
    /// As it came, where that is not the same and somebody may want it.
    received: Option<Bytes>,
    losses: Losses,
}

impl<T> Said<T> {
    pub(crate) fn new(value: T, json: impl Into<String>, losses: Losses) -> Self {
        Self::within(value, Bytes::from(json.into()), losses)
    }

    /// The same with a piece of what came, which is text.
    pub(crate) const fn within(value: T, json: Bytes, losses: Losses) -> Self {
        Self { value, json, received: None, losses }
    }

    /// As A2A 1.0 JSON.
    pub fn json(&self) -> &str {
        text(&self.json)
    }

    /// The same as bytes.
    pub(crate) const fn bytes(&self) -> &Bytes {
        &self.json
    }

    /// How many bytes that is.
    pub(crate) const fn len(&self) -> usize {
        self.json.len()
    }

    /// With what came in its place, in a dialect other than 1.0.
    pub(crate) fn received_as(self, text: &str) -> Self {
        Self { received: Some(Bytes::copy_from_slice(text.as_bytes())), ..self }
    }

    /// As it came, for those who check signatures: of a card in any dialect of JSON, and otherwise as A2A 1.0 JSON.
    pub fn as_received(&self) -> &str {
        text(self.received.as_ref().unwrap_or(&self.json))
    }

    /// What the agent's dialect could not carry.
    pub const fn losses(&self) -> &Losses {
        &self.losses
    }

    /// The same, understood further.
    pub(crate) fn map<U>(self, f: impl FnOnce(T) -> U) -> Said<U> {
        Said { value: f(self.value), json: self.json, received: self.received, losses: self.losses }
    }

    /// The same, if it can be understood further.
    pub(crate) fn try_map<U, E>(self, f: impl FnOnce(T) -> Result<U, E>) -> Result<Said<U>, E> {
        Ok(Said { value: f(self.value)?, json: self.json, received: self.received, losses: self.losses })
    }
}

fn text(bytes: &Bytes) -> &str {
    std::str::from_utf8(bytes).unwrap_or_default()
}
