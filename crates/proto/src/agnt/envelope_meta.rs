//! Metadata that the server adds to a message for the booking network: which caller sent it, and how it arrived.

use super::EnvelopeHop;
use crate::{Json, Message, Object};
use serde::{Deserialize, Serialize};

/// The metadata member. The server writes it, and removes one that a caller has set.
pub const ENVELOPE_META: &str = "urn:sabir:agnt";

/// How a message arrived at the network. Only the recipient is part of the request: a retry may leave less time and use
/// another correlation id, and is still the same message.
#[derive(Debug, Clone, PartialEq, Eq, Default, Serialize, Deserialize)]
#[serde(default)]
pub struct EnvelopeMeta {
    /// The number of the envelope exchange. The agent finds the stored record of a booking by it, and the server
    /// distinguishes a first answer from a replayed one.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub passage: Option<u64>,
    /// The sender: as its envelope says, otherwise the agent that its key is bound to.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub from: Option<String>,
    /// The recipient: a network or the agent of a venue.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub to: Option<String>,
    /// The caller's own id for the message.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub correlation_id: Option<String>,
    /// The time of sending, as the envelope states it.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub timestamp: Option<String>,
    /// The time left for the answer, in milliseconds.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub ttl_ms: Option<u64>,
    /// The tier of the caller's key.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub tier: Option<String>,
    /// The agent that the caller's key is bound to, if there is one.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub agent_id: Option<String>,
    /// The relays of the envelope, oldest first. Only the last one is authenticated.
    #[serde(skip_serializing_if = "Vec::is_empty")]
    pub via: Vec<EnvelopeHop>,
}

impl EnvelopeMeta {
    /// Reads the metadata member of a message.
    pub fn of(message: &Message) -> Option<Self> {
        message.metadata.as_ref()?.member(ENVELOPE_META)
    }

    /// Writes the metadata member of a message, replacing an earlier one.
    pub fn attach_to(&self, message: &mut Message) {
        let mut members = message.metadata.as_ref().map(Object::to_map).unwrap_or_default();
        if let Ok(aside) = serde_json::to_value(self) {
            members.insert(ENVELOPE_META.to_owned(), aside);
        }
        message.metadata = Object::from_map(&members).ok();
    }

    /// The metadata of a message that asks for a skill, with this member in it.
    pub fn with_skill(&self, skill: &str) -> Option<Object> {
        #[derive(Serialize)]
        struct MetaAndSkill<'a> {
            #[serde(rename = "urn:sabir:agnt")]
            aside: &'a EnvelopeMeta,
            #[serde(rename = "urn:sabir:ext:skill:v1")]
            skill: &'a str,
        }
        Json::of(&MetaAndSkill { aside: self, skill }).and_then(Object::new).ok()
    }

    /// Removes the metadata member from a message that a caller has sent.
    pub fn strip(message: &mut Message) {
        // The name may be written with escapes, so a text search is enough only where there are none.
        let clean = |text: &str| !text.contains(ENVELOPE_META) && !text.contains('\\');
        let Some(metadata) = message.metadata.as_ref().filter(|metadata| !clean(metadata.as_str())) else { return };
        let mut members = metadata.to_map();
        if members.remove(ENVELOPE_META).is_some() {
            message.metadata = if members.is_empty() { None } else { Object::from_map(&members).ok() };
        }
    }

    /// The part of the member that identifies the request: the recipient.
    pub fn recipient(aside: &str) -> serde_json::Value {
        #[derive(Deserialize)]
        struct RecipientOnly {
            #[serde(default)]
            to: serde_json::Value,
        }
        serde_json::from_str::<RecipientOnly>(aside).map(|aside| aside.to).unwrap_or_default()
    }
}

/// The JSON of the first data part of a message or an artifact.
pub fn data_object(parts: &[crate::Part]) -> Option<&Json> {
    parts.iter().find_map(|part| match &part.content {
        crate::Content::Data(json) => Some(json),
        _ => None,
    })
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::{MessageId, Role};

    fn message(metadata: Option<&str>) -> Message {
        let mut message = Message::text(MessageId::parse("m").unwrap(), Role::User, "x");
        message.metadata = metadata.map(|text| Object::new(Json::parse(text).unwrap()).unwrap());
        message
    }

    #[test]
    fn what_is_put_is_read_back_and_leaves_the_rest_alone() {
        let mut said = message(Some(r#"{"skillId":"network.ping"}"#));
        let aside = EnvelopeMeta { from: Some("a".into()), ttl_ms: Some(5000), ..EnvelopeMeta::default() };
        aside.attach_to(&mut said);
        assert_eq!(EnvelopeMeta::of(&said), Some(aside.clone()));
        assert_eq!(said.skill().as_deref(), Some("network.ping"));
        EnvelopeMeta::strip(&mut said);
        assert_eq!(said, message(Some(r#"{"skillId":"network.ping"}"#)));
        said.metadata = aside.with_skill("venue.list");
        assert_eq!((EnvelopeMeta::of(&said), said.skill().as_deref()), (Some(aside), Some("venue.list")));
    }

    #[test]
    fn what_a_stranger_says_there_is_taken_away_however_it_is_spelt() {
        for text in [r#"{"urn:sabir:agnt":{"tier":"pro"}}"#, r#"{"\u0075rn:sabir:agnt":{"tier":"pro"}}"#] {
            let mut said = message(Some(text));
            EnvelopeMeta::strip(&mut said);
            assert_eq!((EnvelopeMeta::of(&said), said.metadata), (None, None), "{text}");
        }
        let mut plain = message(None);
        EnvelopeMeta::strip(&mut plain);
        assert_eq!(plain, message(None));
    }
}
