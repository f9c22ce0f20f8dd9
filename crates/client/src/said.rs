//! What an agent said: understood, and as it was written.

use sabir_wire::Losses;

/// A value of the protocol together with its JSON.
///
/// The JSON is A2A 1.0's. Where the agent spoke 1.0 in JSON it is what came over the wire, member for member, so that
/// members nobody here knows survive; otherwise it is written from the value.
#[derive(Debug, Clone)]
pub struct Said<T> {
    /// The value.
    pub value: T,
    json: Box<str>,
    /// As it came, where that is not the same and somebody may want it.
    received: Option<Box<str>>,
    losses: Losses,
}

impl<T> Said<T> {
    pub(crate) fn new(value: T, json: impl Into<Box<str>>, losses: Losses) -> Self {
        Self { value, json: json.into(), received: None, losses }
    }

    /// As A2A 1.0 JSON.
    pub fn json(&self) -> &str {
        &self.json
    }

    /// With what came in its place, in a dialect other than 1.0.
    pub(crate) fn received_as(self, text: &str) -> Self {
        Self { received: Some(text.into()), ..self }
    }

    /// As it came, for those who check signatures: of a card in any dialect of JSON, and otherwise as A2A 1.0 JSON.
    pub fn as_received(&self) -> &str {
        self.received.as_deref().unwrap_or(&self.json)
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
