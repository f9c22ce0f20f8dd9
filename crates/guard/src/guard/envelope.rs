//! Envelopes of the booking network: which keys may send them, and what must be true of one before its payload is read.
//!
//! ```text
//! admit_key ─► Admitted ─ verify_envelope (hops, signature, sender) ─► VerifiedEnvelope ─ clear ─► …
//! ```
//!
//! A signature is required of keys that are configured so, of relays, and for intents that move money; any signature
//! must be valid. Only our audit learns which check failed.

use super::{Guard, place};
use crate::authn::Scheme;
use crate::authn::agnt::{self, Binding, Novelty, Ring, Slot};
use crate::fetch::Fetch;
use crate::identity::{Identity, Knock, scheme_name};
use crate::permit::Admitted;
use crate::policy::{Rules, rate, scope};
use crate::refusal::Refusal;
use sabir_proto::agnt::{Intent, Problem, ProblemCode};
use sabir_proto::canon::agnt::Payload;
use sabir_proto::{Fault, Timestamp};
use sabir_store::{ApiKey, Record};
use std::sync::Arc;
use std::time::Duration;

/// The keys of the network, and the rule for payloads under them.
#[derive(Debug)]
pub struct Seals {
    /// The key ring; senders of envelopes sign with it as well.
    pub ring: Arc<Ring>,
    /// Whether a signed payload must name its intent and its recipient.
    pub binding: Binding,
}

/// An envelope whose payload is not verified yet.
#[derive(Debug, Clone, Copy)]
pub struct Sealed<'a> {
    /// The payload: the text of an object.
    pub payload: &'a str,
    /// The sender that the envelope names.
    pub from: &'a str,
    /// The recipient that the envelope names.
    pub to: &'a str,
    /// The name of the intent.
    pub intent: &'a str,
    /// When it was sent, as it says, in nanoseconds.
    pub moment: Option<i64>,
    /// The relays that passed it on, oldest first.
    pub via: &'a [&'a str],
}

/// An envelope whose hops, signature and sender are verified.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Unsealed {
    /// The payload without its signature; `None` where it is as it came.
    pub payload: Option<String>,
    /// The slot of the key that signed it, if it was signed.
    pub signed: Option<Slot>,
    /// Whether the same envelope was received before.
    pub again: bool,
}

impl Guard {
    /// Authenticates by API key, and checks the rate limit. No other credential is accepted, even if the agent accepts
    /// it.
    pub async fn admit_key<F: Fetch>(&self, rules: &Rules<F>, knock: &Knock<'_>) -> Result<Admitted, Refusal> {
        let mut uncounted = false;
        let outcome = match rules.entrance.identify_key(knock, &*self.store) {
            Err(refusal) => Err((refusal, None)),
            Ok(identity) => match rate::check(rules, &identity, knock, &*self.store).await {
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
            Ok(identity) => Ok(Admitted { identity, at: place(rules), uncounted }),
            Err((refusal, caller)) => {
                let caller = caller.unwrap_or_else(|| knock.stranger());
                let entry = Record::refusal(knock.now, caller, scheme_name(refusal.scheme), "knock", refusal.reason);
                self.refuse(Record { agent: Some(rules.agent.clone()), ..entry }, &refusal);
                Err(refusal)
            }
        }
    }

    /// Verifies that an envelope was passed on by relays only, is signed where it must be, and comes from an agent of
    /// its key.
    pub async fn unseal<F: Fetch>(
        &self,
        rules: &Rules<F>,
        seals: Option<&Seals>,
        admitted: &Admitted,
        sealed: Sealed<'_>,
        now: Timestamp,
    ) -> Result<Unsealed, Refusal> {
        let identity = admitted.identity();
        let outcome = self.examine(seals, identity, sealed, now).await;
        if let Err(refusal) = &outcome {
            let scheme = scheme_name(refusal.scheme);
            let entry = Record::refusal(now, identity.caller().clone(), scheme, "Envelope", refusal.reason);
            self.refuse(Record { agent: Some(rules.agent.clone()), ..entry }, refusal);
        }
        outcome
    }

    async fn examine(
        &self,
        seals: Option<&Seals>,
        identity: &Identity,
        sealed: Sealed<'_>,
        now: Timestamp,
    ) -> Result<Unsealed, Refusal> {
        let key = identity.key();
        check_hops(key, &sealed)?;
        let intent = Intent::parse(sealed.intent);
        let demanded = key.is_none_or(|key| key.terms.require_signature || key.terms.relay)
            || intent.is_some_and(Intent::must_be_signed);
        let speaker = sealed.via.last().copied().unwrap_or(sealed.from);
        let unsealed = if is_plain(sealed.payload) {
            if demanded {
                return Err(unsigned());
            }
            Unsealed { payload: None, signed: None, again: false }
        } else {
            // Boxed, because most envelopes do without it: each pays for the size of its future.
            Box::pin(self.open(seals, identity, sealed, (speaker, demanded), now)).await?
        };
        let senders = scope::senders(identity);
        if !senders.is_empty() && !senders.contains(&speaker) {
            let words = format!("this key does not speak for {speaker:.64?}");
            return Err(Refusal::forbidden(Scheme::ApiKey, "from_not_bound", words));
        }
        Ok(unsealed)
    }

    /// Checks a payload that has members of the signature in it.
    async fn open(
        &self,
        seals: Option<&Seals>,
        identity: &Identity,
        sealed: Sealed<'_>,
        (speaker, demanded): (&str, bool),
        now: Timestamp,
    ) -> Result<Unsealed, Refusal> {
        let mut payload = Payload::read(sealed.payload).map_err(|_| reserved("the payload cannot be read"))?;
        let mismatch = || {
            let words = "the payload names another sender than the envelope";
            Refusal::forbidden(Scheme::Agnt, "from_other", words)
        };
        if payload.get("_sig").is_none() {
            if demanded {
                return Err(unsigned());
            }
            if payload.get("_from").is_some() && payload.text("_from").as_deref() != Some(speaker) {
                return Err(mismatch());
            }
            if let Some(name) = payload.names().find(|name| name.starts_with('_') && !agnt::RESERVED.contains(name)) {
                return Err(reserved(&format!("members that begin with _ are the network's: {name:.64?}")));
            }
            payload.retain(|name| !name.starts_with('_'));
            return Ok(Unsealed { payload: Some(payload.canonical()), signed: None, again: false });
        }
        // Without keys to verify it with, a payload that claims a signature is not signed.
        let seals = seals.ok_or_else(|| wrong("no_ring"))?;
        let key = identity.key().map_or("", |key| key.id.as_str());
        let has_effect = Intent::parse(sealed.intent).is_some_and(Intent::has_effect);
        let moment = sealed.moment.filter(|_| has_effect);
        let binding = seals.binding;
        let around = agnt::Envelope { intent: sealed.intent, to: sealed.to, key, binding, moment };
        let signed = agnt::verify(sealed.payload, around, &seals.ring, now).map_err(|reason| wrong(reason.code()))?;
        self.metrics.signed(signed.slot);
        if signed.from != speaker {
            return Err(mismatch());
        }
        let signatures = &*self.signatures;
        let novelty = if has_effect {
            let marks = agnt::EffectMarks { signatures, store: &*self.store, sender: &signed.from };
            agnt::replay(&signed, &marks, now).await
        } else {
            agnt::replay(&signed, signatures, now).await
        };
        let again = match novelty {
            Ok(novelty) => novelty == Novelty::Duplicate,
            Err(agnt::Reason::ReplayUnavailable(_)) => return Err(Refusal::store()),
            Err(reason) => return Err(wrong(reason.code())),
        };
        Ok(Unsealed { payload: Some(signed.payload.canonical()), signed: Some(signed.slot), again })
    }
}

/// Whether a payload has no member that begins with `_`, by a quick look: names may be written with escapes.
fn is_plain(payload: &str) -> bool {
    !payload.contains("\"_") && !payload.contains("\\u")
}

/// Only relays pass on envelopes of others. Whether the way itself is allowed is decided elsewhere.
fn check_hops(key: Option<&ApiKey>, sealed: &Sealed<'_>) -> Result<(), Refusal> {
    if sealed.via.is_empty() || key.is_some_and(|key| key.terms.relay) {
        return Ok(());
    }
    let words = "this key is no relay's, so it passes nothing on";
    Err(Refusal::forbidden(Scheme::ApiKey, "from_no_relay", words))
}

/// All in the same words: the peer must not learn which guess came close.
fn wrong(reason: &'static str) -> Refusal {
    Refusal::unauthenticated(Some(Scheme::Agnt), reason, "the signature of the payload is not valid")
}

fn unsigned() -> Refusal {
    let words = "this envelope must be signed: _ts, _from and _sig in its payload";
    Refusal::unauthenticated(Some(Scheme::Agnt), "missing_sig", words)
}

fn reserved(words: &str) -> Refusal {
    Refusal::forbidden(Scheme::Agnt, "payload_reserved", words)
}

impl Refusal {
    /// The refusal in the words of the booking network.
    pub fn problem(&self) -> Problem {
        let code = match (self.reason, &self.fault) {
            ("from_not_bound" | "from_other" | "from_no_relay", _) => ProblemCode::AgentMismatch,
            ("payload_reserved", _) => ProblemCode::InvalidPayload,
            (reason, Fault::Forbidden(_)) if reason.starts_with("tier") => ProblemCode::TierRequired,
            (_, Fault::Unauthenticated(_)) if self.scheme == Some(Scheme::Agnt) => ProblemCode::InvalidSignature,
            (_, Fault::Unauthenticated(_)) => ProblemCode::Unauthorized,
            (_, Fault::Forbidden(_)) => ProblemCode::ScopeRequired,
            (_, Fault::TooMany { .. }) => ProblemCode::RateLimited,
            _ => ProblemCode::Internal,
        };
        let problem = Problem::new(code, self.fault.to_string());
        match self.fault.retry_after() {
            Some(seconds) => problem.after(Duration::from_secs(seconds)),
            None => problem,
        }
    }
}
