//! Payloads signed under AGNT's key: an HMAC over the canonical payload, which carries its own time and sender.
//!
//! The key belongs to the network and not to one sender, and the MAC covers neither intent nor recipient. So a signature
//! says that the payload is from inside the network and that it is fresh; who sent it is also the business of the API key
//! beside it, and a payload that is sent again under another intent is found out by [`replay`]. A signer may put
//! `_intent`, `_to` and `_nonce` into the payload; where they are present they bind.
//!
//! Order: shape, then MAC, then time, as in the vectors. What is wrong is for our log; the peer hears that the signature
//! is invalid, and no more.

mod memory;
mod ring;

pub(crate) use memory::EffectMarks;
pub use memory::{SIGNATURES_MAX, Signatures};
pub use ring::{Derivation, KEY_BYTES_MIN, KEYS_MAX, OVERLAP, OVERLAP_MAX, Ring, RingFault, Slot};

use super::{Scheme, Who};
use sabir_proto::canon::CanonFault;
use sabir_proto::canon::agnt::Payload;
use sabir_proto::{Timestamp, digest};
use std::future::Future;
use std::time::Duration;

/// How old a payload may be; exactly this old is not too old.
pub const AGE_MAX: Duration = Duration::from_secs(300);
/// How far ahead of our clock its time may be. Without a bound, a payload stamped an hour ahead could be replayed for
/// an hour.
pub const AHEAD_MAX: Duration = Duration::from_secs(60);

/// What stands around the payload, and what we ask of it.
#[derive(Debug, Clone, Copy)]
pub struct Envelope<'a> {
    /// The intent.
    pub intent: &'a str,
    /// The recipient.
    pub to: &'a str,
    /// The id of the API key that came with it.
    pub key: &'a str,
    /// Whether the payload must name intent and recipient itself.
    pub binding: Binding,
    /// When it was sent, in nanoseconds, where it is done once for each moment: a signature for one is none for another.
    pub moment: Option<i64>,
}

/// Whether the payload must name intent and recipient itself.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub enum Binding {
    /// Where it does, they must be right.
    #[default]
    IfPresent,
    /// It must name them, and a nonce.
    Required,
}

/// A payload from inside the network.
#[derive(Debug, Clone, PartialEq)]
pub struct Signed {
    /// Who says to have sent it.
    pub from: String,
    /// When, in Unix seconds.
    pub timestamp: f64,
    /// Which key it was signed with.
    pub slot: Slot,
    /// The payload without the members of the envelope.
    pub payload: Payload,
    /// The MAC, by which a copy is recognised.
    mac: String,
    /// What its signer has promised to use once.
    nonce: Option<String>,
    /// What it says, to whom, with which intent, under which API key, and when if that counts.
    meaning: [u8; 32],
}

impl Signed {
    /// The sender as it names itself.
    pub fn who(&self) -> Who {
        Who::new(Scheme::Agnt, self.from.as_str())
    }
}

/// Why a payload is not what it says.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
#[non_exhaustive]
pub enum Reason {
    /// Not a JSON object, or one that two readers could read differently.
    #[error("malformed payload: {0}")]
    Malformed(#[from] CanonFault),
    /// No `_sig`.
    #[error("the payload is not signed")]
    NoSignature,
    /// No `_ts` that is a number.
    #[error("the payload has no time")]
    NoTime,
    /// No `_from`.
    #[error("the payload has no sender")]
    NoSender,
    /// A member of the envelope that we do not know, and that its signer will have meant something by.
    #[error("reserved member {0:?}")]
    Reserved(String),
    /// No key gives this MAC.
    #[error("the signature is wrong")]
    Signature,
    /// Older than [`AGE_MAX`].
    #[error("stale")]
    Stale,
    /// Further ahead than [`AHEAD_MAX`].
    #[error("from the future")]
    Future,
    /// Signed for another intent or another recipient, or not saying for which.
    #[error("the payload is bound to another {0}")]
    Bound(&'static str),
    /// The same signature, or the same nonce, was sent before with another intent, recipient, content or API key.
    #[error("the signature was used for something else")]
    Reused,
    /// Whether it was sent before cannot be found out.
    #[error("replays cannot be checked: {0}")]
    ReplayUnavailable(String),
}

impl Reason {
    /// A short name for programs, the one of the vectors where they have one.
    pub fn code(&self) -> &'static str {
        match self {
            Self::Malformed(_) => "malformed",
            Self::NoSignature => "missing_sig",
            Self::NoTime => "bad_ts",
            Self::NoSender => "missing_from",
            Self::Reserved(_) => "reserved_member",
            Self::Signature => "bad_sig",
            Self::Stale => "stale",
            Self::Future => "future",
            Self::Bound(_) => "bound_elsewhere",
            Self::Reused => "sig_reused",
            Self::ReplayUnavailable(_) => "replay_unavailable",
        }
    }
}

pub(crate) const RESERVED: [&str; 6] = ["_sig", "_ts", "_from", "_to", "_intent", "_nonce"];

/// Whether the text of a payload is signed, unchanged and fresh.
pub fn verify(text: &str, envelope: Envelope<'_>, ring: &Ring, now: Timestamp) -> Result<Signed, Reason> {
    let mut payload = Payload::read(text)?;
    let mac = payload.text("_sig").ok_or(Reason::NoSignature)?;
    let timestamp = payload.get("_ts").and_then(number).ok_or(Reason::NoTime)?;
    let from = payload.text("_from").filter(|from| !from.is_empty()).ok_or(Reason::NoSender)?;
    let slot = ring.verify(&digest::agnt_signed(&payload), &mac, now).ok_or(Reason::Signature)?;
    let unknown = payload.names().find(|name| name.starts_with('_') && !RESERVED.contains(name));
    if let Some(name) = unknown {
        return Err(Reason::Reserved(name.chars().take(64).collect()));
    }
    check_time(timestamp, now)?;
    check_binding(&payload, envelope)?;
    let (meaning, nonce) = (meaning(&payload, envelope), payload.text("_nonce"));
    payload.retain(|name| !name.starts_with('_'));
    Ok(Signed { from, timestamp, slot, payload, mac, nonce, meaning })
}

#[expect(clippy::cast_precision_loss, reason = "milliseconds since 1970 fit a double for longer than we do")]
fn check_time(timestamp: f64, now: Timestamp) -> Result<(), Reason> {
    let age = now.millis() as f64 / 1000.0 - timestamp;
    if age > AGE_MAX.as_secs_f64() {
        return Err(Reason::Stale);
    }
    // Also what is no number at all ends here.
    if age >= -AHEAD_MAX.as_secs_f64() { Ok(()) } else { Err(Reason::Future) }
}

fn check_binding(payload: &Payload, envelope: Envelope<'_>) -> Result<(), Reason> {
    for (name, what, expected) in [
        ("_intent", "intent", Some(envelope.intent)),
        ("_to", "recipient", Some(envelope.to)),
        ("_nonce", "nonce", None),
    ] {
        match (payload.get(name), payload.text(name)) {
            (None, _) if envelope.binding == Binding::IfPresent => {}
            (Some(_), Some(bound)) if expected.is_none_or(|expected| expected == bound) => {}
            _ => return Err(Reason::Bound(what)),
        }
    }
    Ok(())
}

/// A number as JSON; `true` and `"1"` are none.
fn number(json: &str) -> Option<f64> {
    serde_json::from_str::<serde_json::Number>(json).ok()?.as_f64()
}

/// Each part with its length, so that no two lists of parts give the same bytes.
fn meaning(payload: &Payload, envelope: Envelope<'_>) -> [u8; 32] {
    let content = digest::agnt_content(payload);
    let moment = envelope.moment.map(i64::to_be_bytes);
    let moment = moment.as_ref().map_or(&[][..], |moment| moment);
    let parts = [envelope.intent.as_bytes(), envelope.to.as_bytes(), envelope.key.as_bytes(), &content, moment];
    let mut context = aws_lc_rs::digest::Context::new(&aws_lc_rs::digest::SHA256);
    for part in parts {
        context.update(&part.len().to_be_bytes());
        context.update(part);
    }
    let mut meaning = [0; 32];
    meaning.copy_from_slice(context.finish().as_ref());
    meaning
}

/// A memory of what was signed.
pub trait Replay: Send + Sync {
    /// Notes that `key` stands for `digest`, unless it stands for something already. Of several calls at the same time
    /// exactly one is the first. What is noted is kept at least until `until`.
    fn seen(
        &self,
        key: &str,
        digest: [u8; 32],
        now: Timestamp,
        until: Timestamp,
    ) -> impl Future<Output = Result<Seen, String>> + Send;
}

/// Whether it was seen before.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Seen {
    /// No; it is now.
    First,
    /// Yes, and it stood for the same.
    Same,
    /// Yes, and it stood for something else.
    Different,
}

/// Whether a payload is new.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Novelty {
    /// It is; go on.
    New,
    /// It is the same event as one before, so it has no second effect: the first answer is given again.
    Duplicate,
}

/// Whether a payload was sent before. The memory outlives every payload it is asked about: one that is stamped ahead
/// stays fresh for longer than [`AGE_MAX`] from when it is first seen.
pub async fn replay(signed: &Signed, memory: &impl Replay, now: Timestamp) -> Result<Novelty, Reason> {
    let life = i64::try_from((AGE_MAX + AHEAD_MAX).as_millis()).unwrap_or(i64::MAX);
    let until = Timestamp::from_millis(now.millis().saturating_add(life));
    let seen = async |key: String| match memory.seen(&key, signed.meaning, now, until).await {
        Ok(Seen::First) => Ok(Novelty::New),
        Ok(Seen::Same) => Ok(Novelty::Duplicate),
        Ok(Seen::Different) => Err(Reason::Reused),
        Err(why) => Err(Reason::ReplayUnavailable(why)),
    };
    if let Some(nonce) = &signed.nonce {
        // A retry may be signed anew with it, and says the same.
        seen(format!("agnt-nonce:{}:{}:{nonce}", signed.from.len(), signed.from)).await?;
    }
    seen(format!("agnt:{}", signed.mac)).await
}

#[cfg(test)]
mod tests;
