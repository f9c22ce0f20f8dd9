//! Payloads signed under AGNT's key: an HMAC over the canonical payload, which carries its own time and sender.
//!
//! The key belongs to the network, not to one sender, and the MAC covers neither intent nor recipient. So a signature
//! proves that the payload comes from inside the network and is fresh. The API key of the request authenticates the
//! sender, and [`check_replay`] detects a payload that is sent again under another intent. A signer may put `_intent`, `_to`
//! and `_nonce` into the payload; if present, they are checked against the envelope.
//!
//! The checks run in this order, as in the vectors: shape, MAC, time. The detailed reason goes to our log; the peer
//! only learns that the signature is invalid.

mod key_ring;
mod signature_memory;

pub use key_ring::{KEY_BYTES_MIN, KEYS_MAX, KeyDerivation, KeyRing, KeyRingFault, KeySlot, OVERLAP, OVERLAP_MAX};
pub(crate) use signature_memory::EffectMarks;
pub use signature_memory::{SIGNATURES_MAX, SignatureMemory};

use super::{Principal, Scheme};
use sabir_proto::Timestamp;
use sabir_proto::canon::CanonFault;
use sabir_proto::canon::python::CanonicalObject;
use std::future::Future;
use std::time::Duration;

/// The maximum age of a payload; exactly this age is still accepted.
pub const AGE_MAX: Duration = Duration::from_secs(300);
/// How far the time of a payload may be ahead of our clock. Without this bound, a payload stamped an hour ahead could
/// be replayed for an hour.
pub const AHEAD_MAX: Duration = Duration::from_secs(60);

/// The envelope around the payload, and the binding rule to apply.
#[derive(Debug, Clone, Copy)]
pub struct EnvelopeContext<'a> {
    /// The intent that the envelope names.
    pub intent: &'a str,
    /// The recipient that the envelope names.
    pub to: &'a str,
    /// The id of the API key of the request.
    pub key: &'a str,
    /// Whether the payload must name intent and recipient itself.
    pub binding: BindingRule,
    /// The time of the envelope in nanoseconds, for intents that run once per timestamp: a signature seen with one
    /// timestamp is refused with another.
    pub sent_at_nanos: Option<i64>,
}

/// Whether the payload must name intent and recipient itself.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub enum BindingRule {
    /// The members may be absent; if present, they must match the envelope.
    #[default]
    IfPresent,
    /// The payload must have both members, and a nonce.
    Required,
}

/// A payload whose MAC, time and binding are verified.
#[derive(Debug, Clone, PartialEq)]
pub struct VerifiedPayload {
    /// The sender that the payload names (`_from`).
    pub from: String,
    /// The time that was signed (`_ts`), in Unix seconds.
    pub timestamp: f64,
    /// The key that made the MAC.
    pub key_slot: KeySlot,
    /// The payload without the members that begin with `_`.
    pub payload: CanonicalObject,
    /// The MAC, which identifies a copy.
    mac: String,
    /// The nonce of the signer (`_nonce`), if any.
    nonce: Option<String>,
    /// The hash of content, recipient, intent, API key and, if given, the envelope's timestamp.
    usage_hash: [u8; 32],
}

impl VerifiedPayload {
    /// The sender that the payload names, as a principal.
    pub fn principal(&self) -> Principal {
        Principal::new(Scheme::Agnt, self.from.as_str())
    }
}

/// Why a payload is not accepted.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
#[non_exhaustive]
pub enum PayloadFault {
    /// Not a JSON object, or JSON that two readers could read differently.
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
    /// An unknown member that begins with `_`; its signer may rely on a meaning that we do not know.
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
    /// The payload names another intent or recipient, or omits a member that the binding rule requires.
    #[error("the payload is bound to another {0}")]
    Bound(&'static str),
    /// The same signature, or the same nonce, was sent before with another intent, recipient, content or API key.
    #[error("the signature was used for something else")]
    Reused,
    /// The replay memory does not answer, so the check is impossible.
    #[error("replays cannot be checked: {0}")]
    ReplayUnavailable(String),
}

impl PayloadFault {
    /// A short, stable name for programs; the name used in the vectors where they have one.
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

/// Verifies the signature, the time and the binding of a payload.
pub fn verify(
    text: &str,
    envelope: EnvelopeContext<'_>,
    ring: &KeyRing,
    now: Timestamp,
) -> Result<VerifiedPayload, PayloadFault> {
    let mut payload = CanonicalObject::read(text)?;
    let mac = payload.text("_sig").ok_or(PayloadFault::NoSignature)?;
    let timestamp = payload.get("_ts").and_then(number).ok_or(PayloadFault::NoTime)?;
    let from = payload.text("_from").filter(|from| !from.is_empty()).ok_or(PayloadFault::NoSender)?;
    let slot = ring.verify(signed_text(&payload).as_bytes(), &mac, now).ok_or(PayloadFault::Signature)?;
    let unknown = payload.names().find(|name| name.starts_with('_') && !RESERVED.contains(name));
    if let Some(name) = unknown {
        return Err(PayloadFault::Reserved(name.chars().take(64).collect()));
    }
    check_time(timestamp, now)?;
    check_binding(&payload, envelope)?;
    let (meaning, nonce) = (usage_hash(&payload, envelope), payload.text("_nonce"));
    payload.retain(|name| !name.starts_with('_'));
    Ok(VerifiedPayload { from, timestamp, key_slot: slot, payload, mac, nonce, usage_hash: meaning })
}

/// The text that the signature covers: the canonical payload without its own `_sig`.
pub fn signed_text(payload: &CanonicalObject) -> String {
    payload.canonical_without("_sig")
}

#[expect(clippy::cast_precision_loss, reason = "milliseconds since 1970 fit a double for longer than we do")]
fn check_time(timestamp: f64, now: Timestamp) -> Result<(), PayloadFault> {
    let age = now.millis() as f64 / 1000.0 - timestamp;
    if age > AGE_MAX.as_secs_f64() {
        return Err(PayloadFault::Stale);
    }
    // NaN also ends here.
    if age >= -AHEAD_MAX.as_secs_f64() { Ok(()) } else { Err(PayloadFault::Future) }
}

fn check_binding(payload: &CanonicalObject, envelope: EnvelopeContext<'_>) -> Result<(), PayloadFault> {
    for (name, what, expected) in [
        ("_intent", "intent", Some(envelope.intent)),
        ("_to", "recipient", Some(envelope.to)),
        ("_nonce", "nonce", None),
    ] {
        match (payload.get(name), payload.text(name)) {
            (None, _) if envelope.binding == BindingRule::IfPresent => {}
            (Some(_), Some(bound)) if expected.is_none_or(|expected| expected == bound) => {}
            _ => return Err(PayloadFault::Bound(what)),
        }
    }
    Ok(())
}

/// Parses a JSON number; `true` and `"1"` are not numbers.
fn number(json: &str) -> Option<f64> {
    serde_json::from_str::<serde_json::Number>(json).ok()?.as_f64()
}

/// Hashes each part with its length, so that no two lists of parts give the same bytes.
fn usage_hash(payload: &CanonicalObject, envelope: EnvelopeContext<'_>) -> [u8; 32] {
    let mut content = payload.clone();
    content.retain(|name| !name.starts_with('_'));
    let content = aws_lc_rs::digest::digest(&aws_lc_rs::digest::SHA256, content.canonical().as_bytes());
    let moment = envelope.sent_at_nanos.map(i64::to_be_bytes);
    let moment = moment.as_ref().map_or(&[][..], |moment| moment);
    let parts = [envelope.intent.as_bytes(), envelope.to.as_bytes(), envelope.key.as_bytes(), content.as_ref(), moment];
    let mut context = aws_lc_rs::digest::Context::new(&aws_lc_rs::digest::SHA256);
    for part in parts {
        context.update(&part.len().to_be_bytes());
        context.update(part);
    }
    let mut meaning = [0; 32];
    meaning.copy_from_slice(context.finish().as_ref());
    meaning
}

/// Remembers which signatures and nonces were used, and for what.
pub trait ReplayMemory: Send + Sync {
    /// Records `key` with `digest`, unless `key` is recorded already. Of several concurrent calls exactly one gets
    /// [`ReplayOutcome::First`]. The record is kept at least until `until`.
    fn check_and_record(
        &self,
        key: &str,
        digest: [u8; 32],
        now: Timestamp,
        until: Timestamp,
    ) -> impl Future<Output = Result<ReplayOutcome, String>> + Send;
}

/// Whether a key was recorded before.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum ReplayOutcome {
    /// The key is new and is recorded now.
    First,
    /// The key is recorded with the same digest.
    Same,
    /// The key is recorded with another digest.
    Different,
}

/// Whether a payload is new.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Novelty {
    /// The payload is new; process it.
    New,
    /// The payload repeats an earlier event: process nothing and return the first answer again.
    Duplicate,
}

/// Checks whether a payload was sent before. The memory keeps records longer than [`AGE_MAX`], because a payload that
/// is stamped ahead stays fresh for longer than that.
pub async fn check_replay(
    signed: &VerifiedPayload,
    memory: &impl ReplayMemory,
    now: Timestamp,
) -> Result<Novelty, PayloadFault> {
    let life = i64::try_from((AGE_MAX + AHEAD_MAX).as_millis()).unwrap_or(i64::MAX);
    let until = Timestamp::from_millis(now.millis().saturating_add(life));
    let seen = async |key: String| match memory.check_and_record(&key, signed.usage_hash, now, until).await {
        Ok(ReplayOutcome::First) => Ok(Novelty::New),
        Ok(ReplayOutcome::Same) => Ok(Novelty::Duplicate),
        Ok(ReplayOutcome::Different) => Err(PayloadFault::Reused),
        Err(why) => Err(PayloadFault::ReplayUnavailable(why)),
    };
    if let Some(nonce) = &signed.nonce {
        // A retry may be signed again with the same nonce, if its meaning is the same.
        seen(format!("agnt-nonce:{}:{}:{nonce}", signed.from.len(), signed.from)).await?;
    }
    seen(format!("agnt:{}", signed.mac)).await
}

#[cfg(test)]
mod tests;
