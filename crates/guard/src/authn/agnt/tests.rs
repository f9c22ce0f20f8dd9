use super::*;
use sabir_proto::{Json, Secret};
use serde::Deserialize;
use std::collections::HashMap;
use std::sync::Mutex;

const NOW: i64 = 1_776_000_000;

#[derive(Deserialize)]
struct AgntVectors {
    keys: HashMap<String, String>,
    cases: Vec<AgntCase>,
    sequences: Vec<AgntSequence>,
}

#[derive(Deserialize)]
struct AgntCase {
    id: String,
    message: String,
    now: i64,
    keys: Vec<String>,
    valid: bool,
    reason: String,
    strict: Option<String>,
}

#[derive(Deserialize)]
struct AgntSequence {
    id: String,
    rotated_at: Option<i64>,
    overlap_s: Option<u64>,
    steps: Vec<AgntStep>,
}

#[derive(Deserialize)]
struct AgntStep {
    now: i64,
    message: String,
    outcome: String,
}

fn vectors() -> AgntVectors {
    serde_json::from_str(include_str!("../../../tests/vectors/agnt-verify.json")).unwrap()
}

fn at(seconds: i64) -> Timestamp {
    Timestamp::from_millis(seconds * 1000)
}

const ENVELOPE: EnvelopeContext<'static> = EnvelopeContext {
    intent: "venue.search",
    to: "la-brisa",
    key: "k1",
    binding: BindingRule::IfPresent,
    sent_at_nanos: None,
};

fn ring_of(vectors: &AgntVectors) -> KeyRing {
    KeyRing::new(&Secret::new(vectors.keys["current"].as_str()), KeyDerivation::Hex).unwrap()
}

fn with_previous(vectors: &AgntVectors, rotated_at: i64, overlap: u64) -> KeyRing {
    let previous = Secret::new(vectors.keys["previous"].as_str());
    ring_of(vectors).with_previous(&previous, KeyDerivation::Hex, at(rotated_at), Duration::from_secs(overlap)).unwrap()
}

/// Keeps each record until its deadline, and no longer.
#[derive(Default)]
struct TestReplayMemory(Mutex<HashMap<String, ([u8; 32], Timestamp)>>);

impl ReplayMemory for TestReplayMemory {
    async fn check_and_record(
        &self,
        key: &str,
        digest: [u8; 32],
        now: Timestamp,
        until: Timestamp,
    ) -> Result<ReplayOutcome, String> {
        let mut seen = self.0.lock().unwrap();
        seen.retain(|_, (_, until)| *until >= now);
        Ok(match seen.get(key) {
            None => {
                seen.insert(key.to_owned(), (digest, until));
                ReplayOutcome::First
            }
            Some((known, _)) if *known == digest => ReplayOutcome::Same,
            Some(_) => ReplayOutcome::Different,
        })
    }
}

#[test]
fn every_message_of_the_vectors_gets_its_verdict_and_reason() {
    let vectors = vectors();
    assert_eq!(vectors.cases.len(), 58);
    let mut stricter = 0;
    for case in &vectors.cases {
        let ring = match case.keys.contains(&"previous".to_owned()) {
            true => with_previous(&vectors, NOW, 360),
            false => ring_of(&vectors),
        };
        let ours = verify(&case.message, ENVELOPE, &ring, at(case.now));
        if case.strict.is_some() {
            // Stricter than the reference: a member given twice is refused before anything is verified.
            assert!(case.valid);
            assert!(matches!(ours, Err(PayloadFault::Malformed(_))), "{}", case.id);
            stricter += 1;
            continue;
        }
        let reason = ours.as_ref().map_or_else(PayloadFault::code, |_| "ok");
        assert_eq!((ours.is_ok(), reason), (case.valid, case.reason.as_str()), "{}", case.id);
    }
    assert_eq!(stricter, 1);
}

#[tokio::test]
async fn every_sequence_of_the_vectors_has_its_outcomes() {
    let vectors = vectors();
    assert_eq!(vectors.sequences.len(), 3);
    for sequence in &vectors.sequences {
        let memory = TestReplayMemory::default();
        for (number, step) in sequence.steps.iter().enumerate() {
            let ring = match (sequence.rotated_at, sequence.overlap_s) {
                // Before the change, the key that is now the previous one was the one that signs.
                (Some(rotated_at), _) if step.now < rotated_at => {
                    KeyRing::new(&Secret::new(vectors.keys["previous"].as_str()), KeyDerivation::Hex).unwrap()
                }
                (Some(rotated_at), Some(overlap)) => with_previous(&vectors, rotated_at, overlap),
                _ => ring_of(&vectors),
            };
            let now = at(step.now);
            let outcome = match verify(&step.message, ENVELOPE, &ring, now) {
                Err(reason) => reason.code(),
                Ok(signed) => match check_replay(&signed, &memory, now).await.unwrap() {
                    Novelty::New => "processed",
                    Novelty::Duplicate => "duplicate",
                },
            };
            assert_eq!(outcome, step.outcome, "{} step {number}", sequence.id);
        }
    }
}

/// A payload with these members, signed.
fn signed(members: &str) -> String {
    let ring = ring_of(&vectors());
    let mut payload = CanonicalObject::read(members).unwrap();
    let mac = ring.sign(super::signed_text(&payload).as_bytes());
    payload.set("_sig", &Json::of(&mac).unwrap()).unwrap();
    payload.canonical()
}

fn verify_members(members: &str, envelope: EnvelopeContext<'_>) -> Result<VerifiedPayload, PayloadFault> {
    verify(&signed(members), envelope, &ring_of(&vectors()), at(NOW))
}

#[tokio::test]
async fn a_signature_is_good_for_one_intent_recipient_key_and_content() {
    let memory = TestReplayMemory::default();
    let message = r#"{"_ts":1776000000,"_from":"a","limit":5}"#;
    let go = async |envelope: EnvelopeContext<'_>| {
        check_replay(&verify_members(message, envelope).unwrap(), &memory, at(NOW)).await
    };
    assert_eq!(go(ENVELOPE).await, Ok(Novelty::New));
    assert_eq!(go(ENVELOPE).await, Ok(Novelty::Duplicate));
    for other in [
        EnvelopeContext { intent: "booking.confirm", ..ENVELOPE },
        EnvelopeContext { to: "elsewhere", ..ENVELOPE },
        EnvelopeContext { key: "k2", ..ENVELOPE },
        EnvelopeContext { sent_at_nanos: Some(1), ..ENVELOPE },
        // The parts are length-prefixed, so shifting a letter between them changes the hash.
        EnvelopeContext { intent: "venue.searchla-", to: "brisa", ..ENVELOPE },
    ] {
        assert_eq!(go(other).await, Err(PayloadFault::Reused), "{other:?}");
    }
    assert_eq!(go(ENVELOPE).await, Ok(Novelty::Duplicate), "the forgeries have changed nothing");
}

#[tokio::test]
async fn a_memory_that_does_not_answer_lets_nothing_pass() {
    struct Broken;
    impl ReplayMemory for Broken {
        async fn check_and_record(
            &self,
            _: &str,
            _: [u8; 32],
            _: Timestamp,
            _: Timestamp,
        ) -> Result<ReplayOutcome, String> {
            Err("disk full".to_owned())
        }
    }
    let signed = verify_members(r#"{"_ts":1776000000,"_from":"a"}"#, ENVELOPE).unwrap();
    assert_eq!(
        check_replay(&signed, &Broken, at(NOW)).await,
        Err(PayloadFault::ReplayUnavailable("disk full".to_owned()))
    );
}

#[test]
fn what_the_payload_is_bound_to_counts_where_it_is_said_and_everywhere_when_required() {
    let required = EnvelopeContext { binding: BindingRule::Required, ..ENVELOPE };
    let bound = r#"{"_ts":1776000000,"_from":"a","_intent":"venue.search","_to":"la-brisa","_nonce":"00ff"}"#;
    assert!(verify_members(bound, ENVELOPE).is_ok() && verify_members(bound, required).is_ok());
    for (members, reason) in [
        (bound.replace("venue.search", "booking.confirm"), PayloadFault::Bound("intent")),
        (bound.replace("la-brisa", "other"), PayloadFault::Bound("recipient")),
        (bound.replace("\"la-brisa\"", "[\"la-brisa\"]"), PayloadFault::Bound("recipient")),
        (bound.replace("\"00ff\"", "7"), PayloadFault::Bound("nonce")),
        (bound.replace("_nonce", "_other"), PayloadFault::Reserved("_other".to_owned())),
    ] {
        assert_eq!(verify_members(&members, ENVELOPE), Err(reason), "{members}");
    }
    let bare = r#"{"_ts":1776000000,"_from":"a"}"#;
    assert!(verify_members(bare, ENVELOPE).is_ok());
    assert_eq!(verify_members(bare, required), Err(PayloadFault::Bound("intent")));
}

#[test]
fn the_envelope_is_not_part_of_what_is_said() {
    let signed =
        verify_members(r#"{"_ts":1776000000.5,"_from":"a","_nonce":"n","b":1,"a":{"_x":2}}"#, ENVELOPE).unwrap();
    assert_eq!(signed.payload.canonical(), r#"{"a":{"_x":2},"b":1}"#);
    assert_eq!((signed.principal().to_string().as_str(), signed.key_slot), ("agnt:a", KeySlot::Current));
}

#[test]
fn a_ring_has_keys_that_are_long_enough_and_not_too_many() {
    let long = Secret::new("k".repeat(32));
    let short = Secret::new("k".repeat(31));
    assert_eq!(KeyRing::new(&short, KeyDerivation::Raw).err(), Some(KeyRingFault::TooShort));
    assert_eq!(KeyRing::new(&short, KeyDerivation::Hkdf).err(), Some(KeyRingFault::TooShort));
    assert_eq!(KeyRing::new(&Secret::new("0".repeat(62)), KeyDerivation::Hex).err(), Some(KeyRingFault::TooShort));
    assert_eq!(KeyRing::new(&long, KeyDerivation::Hex).err(), Some(KeyRingFault::NotHex));
    let day = key_ring::OVERLAP_MAX + Duration::from_secs(1);
    let ring = KeyRing::new(&long, KeyDerivation::Raw).unwrap();
    assert_eq!(ring.with_previous(&long, KeyDerivation::Raw, at(0), day).err(), Some(KeyRingFault::OverlapTooLong));
    let mut ring = KeyRing::new(&long, KeyDerivation::Raw).unwrap();
    for _ in 1..key_ring::KEYS_MAX {
        ring = ring.with_next(&long, KeyDerivation::Raw).unwrap();
    }
    assert!(!format!("{ring:?}").contains("kkk"));
    assert_eq!(ring.with_next(&long, KeyDerivation::Raw).err(), Some(KeyRingFault::TooMany));
}

#[test]
fn every_derivation_gives_another_key_and_the_next_key_is_accepted_before_it_signs() {
    let text = Secret::new("0123456789abcdef".repeat(4));
    let ring = |derivation| KeyRing::new(&text, derivation).unwrap();
    let macs =
        [KeyDerivation::Raw, KeyDerivation::Hex, KeyDerivation::Hkdf].map(|derivation| ring(derivation).sign(b"x"));
    assert!(macs[0] != macs[1] && macs[1] != macs[2] && macs[0] != macs[2]);
    // Computed with Python's hmac over RFC 5869 by hand.
    assert_eq!(macs[2], HKDF_MAC);
    let both = ring(KeyDerivation::Raw).with_next(&text, KeyDerivation::Hex).unwrap();
    assert_eq!(both.verify(b"x", &macs[1], at(0)), Some(KeySlot::Next));
    assert_eq!(both.sign(b"x"), macs[0]);
    assert_eq!(ring(KeyDerivation::Raw).verify(b"x", &macs[1], at(0)), None);
}

const HKDF_MAC: &str = "5105460b9a2ddb2ceb215d5f6c69dccb8fe742726eae4912347b1a49995e2d53";

#[tokio::test]
async fn a_nonce_is_good_for_one_thing_however_often_it_is_signed() {
    let memory = TestReplayMemory::default();
    let go = async |members: &str| check_replay(&verify_members(members, ENVELOPE).unwrap(), &memory, at(NOW)).await;
    assert_eq!(go(r#"{"_ts":1776000000,"_from":"a","_nonce":"n","limit":5}"#).await, Ok(Novelty::New));
    assert_eq!(go(r#"{"_ts":1776000001,"_from":"a","_nonce":"n","limit":5}"#).await, Ok(Novelty::New));
    assert_eq!(go(r#"{"_ts":1776000001,"_from":"a","_nonce":"n","limit":6}"#).await, Err(PayloadFault::Reused));
    assert_eq!(go(r#"{"_ts":1776000001,"_from":"b","_nonce":"n","limit":6}"#).await, Ok(Novelty::New));
}
