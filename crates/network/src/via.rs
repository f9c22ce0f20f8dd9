//! Forwarding envelopes: the chain of hops, loop detection, and the remaining time.
//!
//! Sender, recipient, timestamp and payload stay as they are from end to end. A network that forwards an envelope signs
//! the payload anew, adds itself to the chain, and signs the chain up to itself. Keys are shared by two networks, so
//! the receiver can verify the last hop only; the earlier hops are that hop's claim.
//!
//! | Condition | Problem |
//! |---|---|
//! | our own id in the chain or as the sender, or any id twice | `loop_detected` |
//! | more hops than the limit | `hop_limit_exceeded` |
//! | the last hop did not sign the chain | `invalid_signature` |
//! | less than 200 ms left | `ttl_exceeded`, and nothing is forwarded |

use sabir_gateway::{Envelope, EnvelopeHop, Problem, ProblemCode, VIA_MAX};
use sabir_guard::authn::agnt::{AGE_MAX, AHEAD_MAX, KeyRing};
use sabir_proto::canon::python::CanonicalObject;
use sabir_proto::{Json, Timestamp};
use serde::Serialize;
use std::time::Duration;

/// Hops of an envelope where the configuration sets no limit; never more than [`VIA_MAX`].
pub const HOPS_MAX: usize = 4;
/// The time that one hop subtracts from the remaining time.
pub const MARGIN: Duration = Duration::from_millis(100);
/// The least remaining time with which an envelope is forwarded.
pub const TIME_MIN: Duration = Duration::from_millis(200);

/// Checks a forwarded envelope. One that was not forwarded always passes.
pub fn check(envelope: &Envelope, own: &str, hops_max: usize, ring: &KeyRing, now: Timestamp) -> Result<(), Problem> {
    check_chain(&envelope.from, &envelope.via, own, hops_max)?;
    let Some((last, earlier)) = envelope.via.split_last() else { return Ok(()) };
    let wrong = || Problem::new(ProblemCode::InvalidSignature, "the signature is not valid");
    let text = signed_text(envelope, earlier, (&last.agent, last.at, &last.kid)).ok_or_else(wrong)?;
    let age = now.millis().div_euclid(1000).saturating_sub(last.at);
    let fresh = age <= seconds(AGE_MAX) && -age <= seconds(AHEAD_MAX);
    if fresh && ring.key_slot_of(text.as_bytes(), &last.sig, now).is_some() { Ok(()) } else { Err(wrong()) }
}

/// Checks that a chain has no loop, and is not too long.
pub fn check_chain(from: &str, via: &[EnvelopeHop], own: &str, hops_max: usize) -> Result<(), Problem> {
    if via.is_empty() {
        return Ok(());
    }
    let repeats = |(at, hop): (usize, &EnvelopeHop)| {
        hop.agent == own || hop.agent == from || via[..at].iter().any(|earlier| earlier.agent == hop.agent)
    };
    if from == own || via.iter().enumerate().any(repeats) {
        return Err(Problem::new(ProblemCode::LoopDetected, "the envelope has been here, or at one hop twice"));
    }
    let most = hops_max.min(VIA_MAX);
    if via.len() > most {
        let message = format!("the envelope was passed on {} times; {most} is the limit", via.len());
        return Err(Problem::new(ProblemCode::HopLimitExceeded, message));
    }
    Ok(())
}

/// Adds us to the chain of an envelope, and returns the time for the next hop.
pub fn forward(
    envelope: &mut Envelope,
    (own, kid): (&str, &str),
    hops_max: usize,
    ring: &KeyRing,
    (now, left): (Timestamp, Duration),
) -> Result<Duration, Problem> {
    check_chain(&envelope.from, &envelope.via, own, hops_max)?;
    if envelope.via.len() >= hops_max.min(VIA_MAX) {
        return Err(Problem::new(ProblemCode::HopLimitExceeded, "the envelope may not be passed on any further"));
    }
    if left < TIME_MIN {
        return Err(Problem::new(ProblemCode::TtlExceeded, "there is no time left to pass it on"));
    }
    let time = left - MARGIN;
    let at = now.millis().div_euclid(1000);
    let text = signed_text(envelope, &envelope.via, (own, at, kid))
        .ok_or_else(|| Problem::new(ProblemCode::InvalidPayload, "the payload has no canonical form"))?;
    let ttl_ms = u64::try_from(time.as_millis()).unwrap_or(u64::MAX);
    let hop = EnvelopeHop { agent: own.into(), at, kid: kid.into(), ttl_ms, sig: ring.sign(text.as_bytes()) };
    envelope.via.push(hop);
    Ok(time)
}

/// The text that a hop signs: the envelope without the signature members of its payload, and the chain before it.
fn signed_text(envelope: &Envelope, earlier: &[EnvelopeHop], (agent, at, kid): (&str, i64, &str)) -> Option<String> {
    #[derive(Serialize)]
    struct Text<'a> {
        protocol: &'a str,
        from: &'a str,
        to: &'a str,
        intent: &'a str,
        timestamp: String,
        payload: Json,
        via: &'a [EnvelopeHop],
        agent: &'a str,
        at: i64,
        kid: &'a str,
    }
    let mut payload = CanonicalObject::read(envelope.payload.as_str()).ok()?;
    payload.retain(|name| !name.starts_with('_'));
    let text = Text {
        protocol: &envelope.protocol,
        from: &envelope.from,
        to: &envelope.to,
        intent: &envelope.intent,
        timestamp: envelope.timestamp.map(|moment| moment.to_string()).unwrap_or_default(),
        payload: Json::parse(&payload.canonical()).ok()?,
        via: earlier,
        agent,
        at,
        kid,
    };
    Some(CanonicalObject::read(Json::of(&text).ok()?.as_str()).ok()?.canonical())
}

fn seconds(time: Duration) -> i64 {
    i64::try_from(time.as_secs()).unwrap_or(i64::MAX)
}

#[cfg(test)]
mod tests {
    use super::*;
    use sabir_gateway::Intent;
    use sabir_guard::authn::agnt::KeyDerivation;
    use sabir_proto::{Object, Secret};

    const NOW: i64 = 1_776_000_000;

    fn ring(letter: &str) -> KeyRing {
        KeyRing::new(&Secret::new(letter.repeat(32)), KeyDerivation::Raw).unwrap()
    }

    fn now() -> Timestamp {
        Timestamp::from_millis(NOW * 1000 + 250)
    }

    fn envelope() -> Envelope {
        let payload = Object::new(Json::parse(r#"{"query":"é","price":1.0,"_sig":"x"}"#).unwrap()).unwrap();
        let mut envelope = Envelope::new("origin", Intent::BookingSearch, payload);
        envelope.to = "network:c".into();
        envelope
    }

    fn forwarded_by(by: &[&str]) -> Envelope {
        let mut envelope = envelope();
        for own in by {
            let time = (now(), Duration::from_millis(1000));
            assert_eq!(forward(&mut envelope, (own, "k1"), HOPS_MAX, &ring("k"), time), Ok(Duration::from_millis(900)));
        }
        envelope
    }

    fn code(result: Result<(), Problem>) -> Option<ProblemCode> {
        result.err().map(|problem| problem.code)
    }

    fn check_code(envelope: &Envelope) -> Option<ProblemCode> {
        code(check(envelope, "network:c", HOPS_MAX, &ring("k"), now()))
    }

    #[test]
    fn a_chain_is_proven_by_its_last_hop() {
        assert_eq!(check_code(&envelope()), None, "one that nobody passed on");
        let good = forwarded_by(&["network:a", "network:b"]);
        assert_eq!(check_code(&good), None);
        assert_eq!((good.via.len(), good.via[1].ttl_ms, good.from.as_str()), (2, 900, "origin"));
        // The signature members of the payload are not covered; everything else is.
        let resigned = Object::new(Json::parse(r#"{"query":"é","price":1.0,"_sig":"y","_ts":1}"#).unwrap()).unwrap();
        assert_eq!(check_code(&Envelope { payload: resigned, ..good.clone() }), None);
        let changed = Object::new(Json::parse(r#"{"query":"é","price":1}"#).unwrap()).unwrap();
        let mut reordered = good.clone();
        reordered.via.swap(0, 1);
        let mut dropped = good.clone();
        dropped.via.remove(0);
        let mut renamed = good.clone();
        renamed.via[0].agent = "network:x".into();
        for forged in [
            Envelope { payload: changed, ..good.clone() },
            Envelope { to: "network:d".into(), ..good.clone() },
            Envelope { from: "another".into(), ..good.clone() },
            Envelope { intent: "venue.list".into(), ..good.clone() },
            reordered,
            dropped,
            renamed,
        ] {
            assert_eq!(check_code(&forged), Some(ProblemCode::InvalidSignature), "{forged:?}");
        }
        let other = check(&good, "network:c", HOPS_MAX, &ring("x"), now());
        assert_eq!(code(other), Some(ProblemCode::InvalidSignature));
        let late = Timestamp::from_millis((NOW + 301) * 1000);
        assert_eq!(code(check(&good, "network:c", HOPS_MAX, &ring("k"), late)), Some(ProblemCode::InvalidSignature));
    }

    #[test]
    fn nobody_passes_an_envelope_on_twice() {
        let good = forwarded_by(&["network:a", "network:b"]);
        for own in ["network:a", "network:b", "origin"] {
            let found = check(&good, own, HOPS_MAX, &ring("k"), now());
            assert_eq!(code(found), Some(ProblemCode::LoopDetected), "{own}");
        }
        let mut twice = good;
        twice.via.push(twice.via[0].clone());
        assert_eq!(check_code(&twice), Some(ProblemCode::LoopDetected));
    }

    #[test]
    fn a_chain_has_an_end_and_so_has_time() {
        let mut long = forwarded_by(&["a", "b", "c", "d"]);
        assert_eq!(check_code(&long), None);
        let code = |result: Result<Duration, Problem>| result.err().map(|problem| problem.code);
        let time = (now(), Duration::from_secs(1));
        let fifth = forward(&mut long, ("e", "k"), HOPS_MAX, &ring("k"), time);
        assert_eq!(code(fifth), Some(ProblemCode::HopLimitExceeded));
        let three = check(&long, "network:c", 3, &ring("k"), now()).unwrap_err();
        assert_eq!(three.code, ProblemCode::HopLimitExceeded);
        let mut hurried = envelope();
        let late = forward(&mut hurried, ("a", "k"), HOPS_MAX, &ring("k"), (now(), Duration::from_millis(199)));
        assert_eq!(code(late), Some(ProblemCode::TtlExceeded));
        assert!(hurried.via.is_empty());
    }
}
