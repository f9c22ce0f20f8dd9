//! The envelope around a request, as the agent of the network sees it.
//!
//! The recipient is in the metadata of the message and so in the log: a payment that resumes after a crash must not be
//! taken for one to another recipient, and a repetition with another recipient is another message. All else rides with
//! the call to the agent's context and is never stored: it differs at every repetition, and no resumed turn needs it.

use sabir_gateway::{EnvelopeHop, NanoTimestamp};
use sabir_proto::{Json, Message, Object};
use sabir_store::Interaction;
use serde::{Deserialize, Serialize};
use std::sync::{Mutex, MutexGuard, PoisonError};
use std::time::{Duration, Instant};

/// The metadata member with the recipient. The server writes it, and removes one that a caller has set.
const RECIPIENT: &str = "urn:sabir:agnt";

/// The recipient of an envelope, in the metadata of its message.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct Recipient {
    /// The id of a network or of the agent of a venue.
    pub to: String,
}

impl Recipient {
    /// Reads the recipient from a message; `None` for one that came in no envelope.
    pub fn of(message: &Message) -> Option<Self> {
        message.metadata.as_ref()?.member(RECIPIENT)
    }

    /// The metadata of a message that names a skill, with the recipient in it.
    pub fn with_skill(&self, skill: &str) -> Option<Object> {
        #[derive(Serialize)]
        struct RecipientAndSkill<'a> {
            #[serde(rename = "urn:sabir:agnt")]
            recipient: &'a Recipient,
            #[serde(rename = "urn:sabir:ext:skill:v1")]
            skill: &'a str,
        }
        Json::of(&RecipientAndSkill { recipient: self, skill }).and_then(Object::new).ok()
    }

    /// Removes the recipient from a message that came in no envelope.
    pub fn strip(message: &mut Message) {
        // The name may be written with escapes, so a text search is enough only where there are none.
        let clean = |text: &str| !text.contains(RECIPIENT) && !text.contains('\\');
        let Some(metadata) = message.metadata.as_ref().filter(|metadata| !clean(metadata.as_str())) else { return };
        let mut members = metadata.to_map();
        if members.remove(RECIPIENT).is_some() {
            message.metadata = if members.is_empty() { None } else { Object::from_map(&members).ok() };
        }
    }
}

/// What an envelope says besides recipient, intent and payload, and its record. The server attaches it to the call.
#[derive(Debug, Default)]
pub struct EnvelopeCall {
    /// The sender that the envelope names.
    pub from: String,
    /// The caller's own id for the envelope.
    pub correlation_id: Option<String>,
    /// The time of sending, as the envelope states it.
    pub timestamp: Option<NanoTimestamp>,
    /// The time that was left for the answer when the call was made.
    pub time_max: Duration,
    /// The relays of the envelope, oldest first. Only the last one is authenticated.
    pub via: Vec<EnvelopeHop>,
    /// The record of the envelope, if it may have an effect.
    pub record: PendingRecord,
}

/// The record of an envelope, until the agent commits it together with the effect.
#[derive(Debug, Default)]
pub struct PendingRecord(Mutex<RecordState>);

#[derive(Debug, Default)]
enum RecordState {
    /// The envelope has no effect, so its record is not committed with one.
    #[default]
    Absent,
    Pending {
        arrived: Instant,
        record: Box<Interaction>,
    },
    Taken,
}

impl PendingRecord {
    /// The record, as that of a success, of an envelope that arrived at this time.
    pub fn new(arrived: Instant, record: Interaction) -> Self {
        Self(Mutex::new(RecordState::Pending { arrived, record: Box::new(record) }))
    }

    /// Takes the record, to commit it. It can be taken once.
    pub fn take(&self) -> Option<Interaction> {
        let mut state = self.lock();
        let RecordState::Pending { arrived, record } = &*state else { return None };
        let latency_ms = u32::try_from(arrived.elapsed().as_millis()).unwrap_or(u32::MAX);
        let record = Interaction { latency_ms, ..(**record).clone() };
        *state = RecordState::Taken;
        Some(record)
    }

    /// Whether the agent has taken the record. The server stores one that was not taken.
    pub fn is_taken(&self) -> bool {
        matches!(*self.lock(), RecordState::Taken)
    }

    fn lock(&self) -> MutexGuard<'_, RecordState> {
        self.0.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use sabir_proto::{MessageId, Role};

    fn message(metadata: Option<&str>) -> Message {
        let mut message = Message::text(MessageId::parse("m").unwrap(), Role::User, "x");
        message.metadata = metadata.map(|text| Object::new(Json::parse(text).unwrap()).unwrap());
        message
    }

    #[test]
    fn the_recipient_is_read_back_and_leaves_the_skill_alone() {
        let recipient = Recipient { to: "network:x".into() };
        let mut sent = message(None);
        sent.metadata = recipient.with_skill("venue.list");
        assert_eq!((Recipient::of(&sent), sent.skill().as_deref()), (Some(recipient), Some("venue.list")));
        Recipient::strip(&mut sent);
        assert_eq!(sent, message(Some(r#"{"urn:sabir:ext:skill:v1":"venue.list"}"#)));
        assert_eq!(Recipient::of(&sent), None);
    }

    #[test]
    fn a_recipient_that_a_caller_wrote_is_removed_however_it_is_spelled() {
        for text in [r#"{"urn:sabir:agnt":{"to":"x"}}"#, r#"{"\u0075rn:sabir:agnt":{"to":"x"}}"#] {
            let mut sent = message(Some(text));
            Recipient::strip(&mut sent);
            assert_eq!(sent, message(None), "{text}");
        }
    }

    #[test]
    fn a_record_is_taken_once() {
        let none = PendingRecord::default();
        assert!(none.take().is_none() && !none.is_taken());
        let record = Interaction { status: "ok".into(), ..Interaction::default() };
        let pending = PendingRecord::new(Instant::now(), record);
        assert!(!pending.is_taken());
        assert_eq!(pending.take().unwrap().status, "ok");
        assert!(pending.is_taken() && pending.take().is_none() && pending.is_taken());
    }
}
