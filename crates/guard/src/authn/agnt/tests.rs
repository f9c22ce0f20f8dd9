use super::*;
use sabir_proto::{Json, Secret};
use serde::Deserialize;
use std::collections::HashMap;
use std::sync::Mutex;

const NOW: i64 = 1_776_000_000;

#[derive(Deserialize)]
struct Vectors {
    keys: HashMap<String, String>,
    cases: Vec<Case>,
    sequences: Vec<Sequence>,
}

#[derive(Deserialize)]
struct Case {
    id: String,
    message: String,
    now: i64,
    keys: Vec<String>,
    valid: bool,
    reason: String,
    strict: Option<String>,
}

#[derive(Deserialize)]
struct Sequence {
    id: String,
    rotated_at: Option<i64>,
    overlap_s: Option<u64>,
    steps: Vec<Step>,
}

#[derive(Deserialize)]
struct Step {
    now: i64,
    message: String,
    outcome: String,
}

fn vectors() -> Vectors {
    serde_json::from_str(include_str!("../../../tests/vectors/agnt-verify.json")).unwrap()
}

fn at(seconds: i64) -> Timestamp {
    Timestamp::from_millis(seconds * 1000)
}

const ENVELOPE: Envelope<'static> =
    Envelope { intent: "venue.search", to: "la-brisa", key: "k1", binding: Binding::IfPresent, moment: None };

fn ring_of(vectors: &Vectors) -> Ring {
    Ring::new(&Secret::new(vectors.keys["current"].as_str()), Derivation::Hex).unwrap()
}

fn with_previous(vectors: &Vectors, rotated_at: i64, overlap: u64) -> Ring {
    let previous = Secret::new(vectors.keys["previous"].as_str());
    ring_of(vectors).with_previous(&previous, Derivation::Hex, at(rotated_at), Duration::from_secs(overlap)).unwrap()
}

/// Keeps each record until its deadline, and no longer.
#[derive(Default)]
struct Memory(Mutex<HashMap<String, ([u8; 32], Timestamp)>>);

impl Replay for Memory {
    async fn seen(&self, key: &str, digest: [u8; 32], now: Timestamp, until: Timestamp) -> Result<Seen, String> {
        let mut seen = self.0.lock().unwrap();
        seen.retain(|_, (_, until)| *until >= now);
        Ok(match seen.get(key) {
            None => {
                seen.insert(key.to_owned(), (digest, until));
                Seen::First
            }
            Some((known, _)) if *known == digest => Seen::Same,
            Some(_) => Seen::Different,
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
            assert!(matches!(ours, Err(Reason::Malformed(_))), "{}", case.id);
            stricter += 1;
            continue;
        }
        let reason = ours.as_ref().map_or_else(Reason::code, |_| "ok");
        assert_eq!((ours.is_ok(), reason), (case.valid, case.reason.as_str()), "{}", case.id);
    }
    assert_eq!(stricter, 1);
}

#[tokio::test]
async fn every_sequence_of_the_vectors_has_its_outcomes() {
    let vectors = vectors();
    assert_eq!(vectors.sequences.len(), 3);
    for sequence in &vectors.sequences {
        let memory = Memory::default();
        for (number, step) in sequence.steps.iter().enumerate() {
            let ring = match (sequence.rotated_at, sequence.overlap_s) {
                // Before the change, the key that is now the previous one was the one that signs.
                (Some(rotated_at), _) if step.now < rotated_at => {
                    Ring::new(&Secret::new(vectors.keys["previous"].as_str()), Derivation::Hex).unwrap()
                }
                (Some(rotated_at), Some(overlap)) => with_previous(&vectors, rotated_at, overlap),
                _ => ring_of(&vectors),
            };
            let now = at(step.now);
            let outcome = match verify(&step.message, ENVELOPE, &ring, now) {
                Err(reason) => reason.code(),
                Ok(signed) => match replay(&signed, &memory, now).await.unwrap() {
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
    let mut payload = Payload::read(members).unwrap();
    let mac = ring.sign(&digest::agnt_signed(&payload));
    payload.set("_sig", &Json::of(&mac).unwrap()).unwrap();
    payload.canonical()
}

fn judge(members: &str, envelope: Envelope<'_>) -> Result<Signed, Reason> {
    verify(&signed(members), envelope, &ring_of(&vectors()), at(NOW))
}

#[tokio::test]
async fn a_signature_is_good_for_one_intent_recipient_key_and_content() {
    let memory = Memory::default();
    let message = r#"{"_ts":1776000000,"_from":"a","limit":5}"#;
    let go = async |envelope: Envelope<'_>| replay(&judge(message, envelope).unwrap(), &memory, at(NOW)).await;
    assert_eq!(go(ENVELOPE).await, Ok(Novelty::New));
    assert_eq!(go(ENVELOPE).await, Ok(Novelty::Duplicate));
    for other in [
        Envelope { intent: "booking.confirm", ..ENVELOPE },
        Envelope { to: "elsewhere", ..ENVELOPE },
        Envelope { key: "k2", ..ENVELOPE },
        Envelope { moment: Some(1), ..ENVELOPE },
        // The parts are length-prefixed, so shifting a letter between them changes the hash.
        Envelope { intent: "venue.searchla-", to: "brisa", ..ENVELOPE },
    ] {
        assert_eq!(go(other).await, Err(Reason::Reused), "{other:?}");
    }
    assert_eq!(go(ENVELOPE).await, Ok(Novelty::Duplicate), "the forgeries have changed nothing");
}

#[tokio::test]
async fn a_memory_that_does_not_answer_lets_nothing_pass() {
    struct Broken;
    impl Replay for Broken {
        async fn seen(&self, _: &str, _: [u8; 32], _: Timestamp, _: Timestamp) -> Result<Seen, String> {
            Err("disk full".to_owned())
        }
    }
    let signed = judge(r#"{"_ts":1776000000,"_from":"a"}"#, ENVELOPE).unwrap();
    assert_eq!(replay(&signed, &Broken, at(NOW)).await, Err(Reason::ReplayUnavailable("disk full".to_owned())));
}

#[test]
fn what_the_payload_is_bound_to_counts_where_it_is_said_and_everywhere_when_required() {
    let required = Envelope { binding: Binding::Required, ..ENVELOPE };
    let bound = r#"{"_ts":1776000000,"_from":"a","_intent":"venue.search","_to":"la-brisa","_nonce":"00ff"}"#;
    assert!(judge(bound, ENVELOPE).is_ok() && judge(bound, required).is_ok());
    for (members, reason) in [
        (bound.replace("venue.search", "booking.confirm"), Reason::Bound("intent")),
        (bound.replace("la-brisa", "other"), Reason::Bound("recipient")),
        (bound.replace("\"la-brisa\"", "[\"la-brisa\"]"), Reason::Bound("recipient")),
        (bound.replace("\"00ff\"", "7"), Reason::Bound("nonce")),
        (bound.replace("_nonce", "_other"), Reason::Reserved("_other".to_owned())),
    ] {
        assert_eq!(judge(&members, ENVELOPE), Err(reason), "{members}");
    }
    let bare = r#"{"_ts":1776000000,"_from":"a"}"#;
    assert!(judge(bare, ENVELOPE).is_ok());
    assert_eq!(judge(bare, required), Err(Reason::Bound("intent")));
}

#[test]
fn the_envelope_is_not_part_of_what_is_said() {
    let signed = judge(r#"{"_ts":1776000000.5,"_from":"a","_nonce":"n","b":1,"a":{"_x":2}}"#, ENVELOPE).unwrap();
    assert_eq!(signed.payload.canonical(), r#"{"a":{"_x":2},"b":1}"#);
    assert_eq!((signed.who().to_string().as_str(), signed.slot), ("agnt:a", Slot::Current));
}

#[test]
fn a_ring_has_keys_that_are_long_enough_and_not_too_many() {
    let long = Secret::new("k".repeat(32));
    let short = Secret::new("k".repeat(31));
    assert_eq!(Ring::new(&short, Derivation::Raw).err(), Some(RingFault::TooShort));
    assert_eq!(Ring::new(&short, Derivation::Hkdf).err(), Some(RingFault::TooShort));
    assert_eq!(Ring::new(&Secret::new("0".repeat(62)), Derivation::Hex).err(), Some(RingFault::TooShort));
    assert_eq!(Ring::new(&long, Derivation::Hex).err(), Some(RingFault::NotHex));
    let day = ring::OVERLAP_MAX + Duration::from_secs(1);
    let ring = Ring::new(&long, Derivation::Raw).unwrap();
    assert_eq!(ring.with_previous(&long, Derivation::Raw, at(0), day).err(), Some(RingFault::OverlapTooLong));
    let mut ring = Ring::new(&long, Derivation::Raw).unwrap();
    for _ in 1..ring::KEYS_MAX {
        ring = ring.with_next(&long, Derivation::Raw).unwrap();
    }
    assert!(!format!("{ring:?}").contains("kkk"));
    assert_eq!(ring.with_next(&long, Derivation::Raw).err(), Some(RingFault::TooMany));
}

#[test]
fn every_derivation_gives_another_key_and_the_next_key_is_accepted_before_it_signs() {
    let text = Secret::new("0123456789abcdef".repeat(4));
    let ring = |derivation| Ring::new(&text, derivation).unwrap();
    let macs = [Derivation::Raw, Derivation::Hex, Derivation::Hkdf].map(|derivation| ring(derivation).sign(b"x"));
    assert!(macs[0] != macs[1] && macs[1] != macs[2] && macs[0] != macs[2]);
    // Computed with Python's hmac over RFC 5869 by hand.
    assert_eq!(macs[2], HKDF_MAC);
    let both = ring(Derivation::Raw).with_next(&text, Derivation::Hex).unwrap();
    assert_eq!(both.verify(b"x", &macs[1], at(0)), Some(Slot::Next));
    assert_eq!(both.sign(b"x"), macs[0]);
    assert_eq!(ring(Derivation::Raw).verify(b"x", &macs[1], at(0)), None);
}

const HKDF_MAC: &str = "5105460b9a2ddb2ceb215d5f6c69dccb8fe742726eae4912347b1a49995e2d53";

#[tokio::test]
async fn a_nonce_is_good_for_one_thing_however_often_it_is_signed() {
    let memory = Memory::default();
    let go = async |members: &str| replay(&judge(members, ENVELOPE).unwrap(), &memory, at(NOW)).await;
    assert_eq!(go(r#"{"_ts":1776000000,"_from":"a","_nonce":"n","limit":5}"#).await, Ok(Novelty::New));
    assert_eq!(go(r#"{"_ts":1776000001,"_from":"a","_nonce":"n","limit":5}"#).await, Ok(Novelty::New));
    assert_eq!(go(r#"{"_ts":1776000001,"_from":"a","_nonce":"n","limit":6}"#).await, Err(Reason::Reused));
    assert_eq!(go(r#"{"_ts":1776000001,"_from":"b","_nonce":"n","limit":6}"#).await, Ok(Novelty::New));
}
