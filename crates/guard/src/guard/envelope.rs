//! Envelopes of the booking network: which keys may send them, and what must be true of one before its payload is read.
//!
//! ```text
//! admit_key ─► Admitted ─ verify_envelope (hops, signature, sender) ─► VerifiedEnvelope ─ clear ─► …
//! ```
//!
//! A signature is required of keys that are configured so, of relays, and for intents that move money; any signature
//! must be valid. Only our audit learns which check failed.

use super::Guard;
use crate::authn::Scheme;
use crate::authn::agnt::{self, BindingRule, KeyRing, KeySlot, Novelty};
use crate::fetch::Fetch;
use crate::identity::{Identity, RequestEvidence, scheme_name};
use crate::permit::Admitted;
use crate::policy::scope::IntentRule;
use crate::policy::{Rules, rate, scope};
use crate::refusal::Refusal;
use sabir_proto::Timestamp;
use sabir_proto::canon::python::CanonicalObject;
use sabir_store::{ApiKey, AuditRecord};
use std::sync::Arc;

/// The keys of the network, and the rule for payloads under them.
#[derive(Debug)]
pub struct EnvelopeKeys {
    /// The key ring; senders of envelopes sign with it as well.
    pub key_ring: Arc<KeyRing>,
    /// Whether a signed payload must name its intent and its recipient.
    pub binding_rule: BindingRule,
}

/// An envelope whose payload is not verified yet.
#[derive(Debug, Clone, Copy)]
pub struct ReceivedEnvelope<'a> {
    /// The payload: the text of an object.
    pub payload: &'a str,
    /// The sender that the envelope names.
    pub from: &'a str,
    /// The recipient that the envelope names.
    pub to: &'a str,
    /// The name of the intent, as the envelope has it.
    pub intent: &'a str,
    /// The rule of the intent; `None` for a name that is no intent.
    pub rule: Option<IntentRule>,
    /// When it was sent, as it says, in nanoseconds.
    pub sent_at_nanos: Option<i64>,
    /// The relays that passed it on, oldest first.
    pub via: &'a [&'a str],
}

/// An envelope whose hops, signature and sender are verified.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct VerifiedEnvelope {
    /// The payload without its signature; `None` where it is as it came.
    pub payload: Option<String>,
    /// The slot of the key that signed it, if it was signed.
    pub key_slot: Option<KeySlot>,
    /// Whether the same envelope was received before.
    pub is_repeat: bool,
}

impl Guard {
    /// Authenticates by API key, and checks the rate limit. No other credential is accepted, even if the agent accepts
    /// it.
    pub async fn admit_key<F: Fetch>(
        &self,
        rules: &Rules<F>,
        evidence: &RequestEvidence<'_>,
    ) -> Result<Admitted, Refusal> {
        let mut uncounted = false;
        let outcome = match rules.authenticator.authenticate_key_only(evidence, &*self.store) {
            Err(refusal) => Err((refusal, None)),
            Ok(identity) => match rate::check(rules, &identity, evidence, &*self.store).await {
                Ok(()) => Ok(identity),
                // A request that cannot be counted may read, and change nothing.
                Err(refusal) if refusal.reason == "store_unavailable" => {
                    uncounted = true;
                    Ok(identity)
                }
                Err(refusal) => Err((refusal, Some(identity.caller().clone()))),
            },
        };
        match outcome {
            Ok(identity) => Ok(Admitted { identity, rules: rules.id, uncounted }),
            Err((refusal, caller)) => {
                let caller = caller.unwrap_or_else(|| evidence.unidentified_caller());
                let entry =
                    AuditRecord::refusal(evidence.now, caller, scheme_name(refusal.scheme), "knock", refusal.reason);
                self.record_refusal(AuditRecord { agent: Some(rules.agent.clone()), ..entry }, &refusal);
                Err(refusal)
            }
        }
    }

    /// Verifies that an envelope was passed on by relays only, is signed where it must be, and comes from an agent of
    /// its key.
    pub async fn verify_envelope<F: Fetch>(
        &self,
        rules: &Rules<F>,
        seals: Option<&EnvelopeKeys>,
        admitted: &Admitted,
        sealed: ReceivedEnvelope<'_>,
        now: Timestamp,
    ) -> Result<VerifiedEnvelope, Refusal> {
        let identity = admitted.identity();
        let outcome = self.check_envelope(seals, identity, sealed, now).await;
        if let Err(refusal) = &outcome {
            let scheme = scheme_name(refusal.scheme);
            let entry = AuditRecord::refusal(now, identity.caller().clone(), scheme, "Envelope", refusal.reason);
            self.record_refusal(AuditRecord { agent: Some(rules.agent.clone()), ..entry }, refusal);
        }
        outcome
    }

    async fn check_envelope(
        &self,
        seals: Option<&EnvelopeKeys>,
        identity: &Identity,
        sealed: ReceivedEnvelope<'_>,
        now: Timestamp,
    ) -> Result<VerifiedEnvelope, Refusal> {
        let key = identity.key();
        check_hops(key, &sealed)?;
        let demanded = key.is_none_or(|key| key.terms.require_signature || key.terms.relay)
            || sealed.rule.is_some_and(|rule| rule.must_be_signed);
        let speaker = sealed.via.last().copied().unwrap_or(sealed.from);
        let unsealed = if has_no_reserved_member(sealed.payload) {
            if demanded {
                return Err(missing_signature());
            }
            VerifiedEnvelope { payload: None, key_slot: None, is_repeat: false }
        } else {
            // Boxed, because most envelopes do without it: each pays for the size of its future.
            let expected = ExpectedSignature { sender: speaker, is_required: demanded };
            Box::pin(self.check_payload(seals, identity, sealed, expected, now)).await?
        };
        let senders = scope::senders(identity);
        if !senders.is_empty() && !senders.contains(&speaker) {
            let words = format!("this key does not speak for {speaker:.64?}");
            return Err(Refusal::forbidden(Scheme::ApiKey, "from_not_bound", words));
        }
        Ok(unsealed)
    }

    /// Checks a payload that has members of the signature in it.
    async fn check_payload(
        &self,
        seals: Option<&EnvelopeKeys>,
        identity: &Identity,
        sealed: ReceivedEnvelope<'_>,
        expected: ExpectedSignature<'_>,
        now: Timestamp,
    ) -> Result<VerifiedEnvelope, Refusal> {
        let mut payload =
            CanonicalObject::read(sealed.payload).map_err(|_| reserved_member("the payload cannot be read"))?;
        let mismatch = || {
            let words = "the payload names another sender than the envelope";
            Refusal::forbidden(Scheme::Agnt, "from_other", words)
        };
        if payload.get("_sig").is_none() {
            if expected.is_required {
                return Err(missing_signature());
            }
            if payload.get("_from").is_some() && payload.text("_from").as_deref() != Some(expected.sender) {
                return Err(mismatch());
            }
            if let Some(name) = payload.names().find(|name| name.starts_with('_') && !agnt::RESERVED.contains(name)) {
                return Err(reserved_member(&format!("members that begin with _ are the network's: {name:.64?}")));
            }
            payload.retain(|name| !name.starts_with('_'));
            return Ok(VerifiedEnvelope { payload: Some(payload.canonical()), key_slot: None, is_repeat: false });
        }
        // Without keys to verify it with, a payload that claims a signature is not signed.
        let seals = seals.ok_or_else(|| invalid_signature("no_ring"))?;
        let key = identity.key().map_or("", |key| key.id.as_str());
        let has_effect = sealed.rule.is_some_and(|rule| rule.has_effect);
        let sent_at_nanos = sealed.sent_at_nanos.filter(|_| has_effect);
        let binding = seals.binding_rule;
        let around = agnt::EnvelopeContext { intent: sealed.intent, to: sealed.to, key, binding, sent_at_nanos };
        let signed = agnt::verify(sealed.payload, around, &seals.key_ring, now)
            .map_err(|reason| invalid_signature(reason.code()))?;
        self.metrics.record_signature(signed.key_slot);
        if signed.from != expected.sender {
            return Err(mismatch());
        }
        let signatures = &*self.signature_memory;
        let novelty = if has_effect {
            let marks = agnt::EffectMarks { signatures, store: &*self.store, sender: &signed.from };
            agnt::check_replay(&signed, &marks, now).await
        } else {
            agnt::check_replay(&signed, signatures, now).await
        };
        let again = match novelty {
            Ok(novelty) => novelty == Novelty::Duplicate,
            Err(agnt::PayloadFault::ReplayUnavailable(_)) => return Err(Refusal::store_unavailable()),
            Err(reason) => return Err(invalid_signature(reason.code())),
        };
        Ok(VerifiedEnvelope {
            payload: Some(signed.payload.canonical()),
            key_slot: Some(signed.key_slot),
            is_repeat: again,
        })
    }
}

/// The signature that a payload must have.
#[derive(Clone, Copy)]
struct ExpectedSignature<'a> {
    /// The last agent that passed the envelope on, or its sender.
    sender: &'a str,
    is_required: bool,
}

/// Whether a payload has no member that begins with `_`, by a quick look: names may be written with escapes.
fn has_no_reserved_member(payload: &str) -> bool {
    !payload.contains("\"_") && !payload.contains("\\u")
}

/// Only relays pass on envelopes of others. Whether the way itself is allowed is decided elsewhere.
fn check_hops(key: Option<&ApiKey>, sealed: &ReceivedEnvelope<'_>) -> Result<(), Refusal> {
    if sealed.via.is_empty() || key.is_some_and(|key| key.terms.relay) {
        return Ok(());
    }
    let words = "this key is no relay's, so it passes nothing on";
    Err(Refusal::forbidden(Scheme::ApiKey, "from_no_relay", words))
}

/// All in the same words: the peer must not learn which guess came close.
fn invalid_signature(reason: &'static str) -> Refusal {
    Refusal::unauthenticated(Some(Scheme::Agnt), reason, "the signature of the payload is not valid")
}

fn missing_signature() -> Refusal {
    let words = "this envelope must be signed: _ts, _from and _sig in its payload";
    Refusal::unauthenticated(Some(Scheme::Agnt), "missing_sig", words)
}

fn reserved_member(words: &str) -> Refusal {
    Refusal::forbidden(Scheme::Agnt, "payload_reserved", words)
}
