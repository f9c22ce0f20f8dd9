//! The booking network: its scopes and tiers, and its envelopes.

use super::*;
use crate::authn::Scheme;
use crate::authn::agnt::{BindingRule, KeyDerivation, KeyRing, KeySlot, signed_text};
use crate::policy::scope::IntentRule;
use sabir_client::envelope::Intent;
use sabir_proto::Fault;
use sabir_proto::canon::python::CanonicalObject;
use serde::Deserialize;
use std::time::Duration;

fn intent_rule(intent: Intent) -> IntentRule {
    IntentRule {
        name: intent.name(),
        has_effect: intent.has_effect(),
        must_be_signed: intent.must_be_signed(),
        scope: intent.scope(),
    }
}

fn network(auth: &str) -> TestGuard {
    let mut door = TestGuard::new(auth);
    let rule = |intent: Intent| SkillRule {
        id: intent.name().into(),
        requirements: Vec::new(),
        needs_identity: false,
        intent: Some(intent_rule(intent)),
    };
    door.rules.skills = Intent::ALL.into_iter().map(rule).collect();
    door
}

fn terms(tier: Option<&str>, scopes: &[&str]) -> KeyTerms {
    let scopes = scopes.iter().map(|&scope| scope.to_owned()).collect();
    KeyTerms { tier: tier.map(str::to_owned), scopes, ..KeyTerms::default() }
}

fn asking(intent: &str) -> Call {
    send(Some(&json!({"skillId": intent})))
}

/// A key's name, tier and scopes, and the results of its calls.
type KeyCase<'a> = (&'a str, Option<&'a str>, &'a [&'a str], [&'a str; 3]);

#[tokio::test]
async fn scopes_and_tiers_say_which_intents_a_key_is_for() {
    let door = network("accept = [\"api_key\"]");
    // For ping, list and search; confirm; payment.
    let rows: [KeyCase<'_>; 11] = [
        ("free", Some("free"), &[], ["ok", "tier_free", "tier_free"]),
        ("pro", Some("pro"), &[], ["ok", "ok", "ok"]),
        ("query", Some("pro"), &["query"], ["ok", "scope_intent", "scope_intent"]),
        ("booking", Some("enterprise"), &["booking"], ["ok", "ok", "scope_intent"]),
        ("both", Some("pro"), &["query", "booking"], ["ok", "ok", "scope_intent"]),
        ("full", Some("pro"), &["full"], ["ok", "ok", "ok"]),
        ("scope-first", Some("free"), &["query"], ["ok", "scope_intent", "scope_intent"]),
        ("none", None, &["full"], ["ok", "tier_none", "tier_none"]),
        // `send` is a scope for agents, and does not replace the scopes of the network.
        ("send", Some("pro"), &["send", "read"], ["scope_intent", "scope_intent", "scope_intent"]),
        ("one", Some("pro"), &["skill:booking.confirm"], ["scope_skill", "ok", "scope_skill"]),
        ("elsewhere", Some("pro"), &["agent:other"], ["scope_agent", "scope_agent", "scope_agent"]),
    ];
    for (id, tier, scopes, expected) in rows {
        let key = door.key(id, terms(tier, scopes)).await;
        let header = [("x-api-key", &*key)];
        for intent in Intent::ALL {
            let expected = match intent {
                Intent::BookingConfirm => expected[1],
                Intent::PaymentAuthorize => expected[2],
                _ => expected[0],
            };
            let became = door.call(&header, asking(intent.name())).await;
            let became = became.strip_prefix("! ").unwrap_or("ok");
            assert_eq!(became, expected, "{intent} with {id}");
        }
    }
}

#[tokio::test]
async fn a_message_that_names_no_intent_may_end_in_any() {
    let door = network("accept = [\"api_key\"]");
    let free = door.key("free", terms(Some("free"), &[])).await;
    let pro = door.key("pro", terms(Some("pro"), &[])).await;
    for unclear in [send(None), asking("network.pong"), asking("")] {
        assert_eq!(door.call(&[("x-api-key", &free)], unclear.clone()).await, "! tier_free");
        assert_eq!(door.call(&[("x-api-key", &pro)], unclear).await, "SendMessage by key:pro");
    }
    let read = Call::Get(GetTask { tenant: Tenant::none(), id: task(), history_length: None });
    assert_eq!(door.call(&[("x-api-key", &free)], read).await, "GetTask by key:free");
}

#[tokio::test]
async fn whoever_has_no_key_may_look_and_not_book() {
    let door = network("accept = [\"api_key\"]\nrequired = false");
    assert_eq!(door.call(&[], asking("venue.list")).await, "SendMessage by anonymous");
    assert_eq!(door.call(&[], asking("booking.confirm")).await, "! tier_none");
    let open = network("");
    assert_eq!(open.call(&[], asking("booking.confirm")).await, "! tier_none");
}

fn task() -> sabir_proto::TaskRef {
    sabir_proto::TaskRef::parse("01890a5d-ac96-774b-bcce-b302099a8057").unwrap()
}

#[tokio::test]
async fn at_the_door_of_envelopes_only_keys_count_and_they_count_by_the_day() {
    for auth in ["", "accept = [\"jwt\"]\n[jwt]\nsecret = \"env:S\"", "accept = [\"api_key\"]\nrequired = false"] {
        let mut door = network(auth);
        let paces = [("free".to_owned(), RateLimit { per_minute: None, per_day: Some(2) })];
        door.rules.limits.tiers = Arc::new(BTreeMap::from(paces));
        let key = door.key("k", terms(Some("free"), &[])).await;
        let bearer = format!("Bearer {key}");
        let knocks = async |headers: &[(&str, &str)]| {
            let headers = map(headers);
            let admitted = door.guard.admit_key(&door.rules, &evidence(&headers, b"{}")).await;
            admitted.map(|admitted| admitted.identity().caller().name().to_owned()).map_err(|refusal| refusal.fault)
        };
        for nobody in [&[][..], &[("authorization", "Basic YTpi")], &[("authorization", "Bearer agnt_live_0")]] {
            let refused = knocks(nobody).await.unwrap_err();
            assert!(matches!(refused, Fault::Unauthenticated(_)), "{auth}: {refused:?}");
        }
        for _ in 0..2 {
            assert_eq!(knocks(&[("authorization", &bearer)]).await.as_deref(), Ok("key:k"), "{auth}");
        }
        let spent = knocks(&[("authorization", &bearer)]).await.unwrap_err();
        // 22:13:20, so 1:46:40 are left of the day.
        assert!(matches!(spent, Fault::RateLimited { retry_after: 6400, .. }), "{spent:?}");
    }
}

const ENVELOPE: ReceivedEnvelope<'static> = ReceivedEnvelope {
    payload: "{}",
    from: "agnt_consumer_42",
    to: "network:agnt",
    intent: "booking.search",
    rule: None,
    sent_at_nanos: None,
    via: &[],
};

#[derive(Deserialize)]
struct EnvelopeVectors {
    keys: BTreeMap<String, String>,
    cases: Vec<EnvelopeCase>,
    sequences: Vec<EnvelopeSequence>,
}

#[derive(Deserialize)]
struct EnvelopeCase {
    id: String,
    message: String,
    now: i64,
    keys: Vec<String>,
    valid: bool,
    strict: Option<String>,
}

#[derive(Deserialize)]
struct EnvelopeSequence {
    id: String,
    rotated_at: Option<i64>,
    overlap_s: Option<u64>,
    steps: Vec<EnvelopeStep>,
}

#[derive(Deserialize)]
struct EnvelopeStep {
    now: i64,
    message: String,
    outcome: String,
}

impl EnvelopeVectors {
    fn read() -> Self {
        serde_json::from_str(include_str!("../../../tests/vectors/agnt-verify.json")).unwrap()
    }

    fn ring(&self, name: &str) -> KeyRing {
        KeyRing::new(&Secret::new(self.keys[name].as_str()), KeyDerivation::Hex).unwrap()
    }

    fn both(&self, rotated_at: i64, overlap: u64) -> KeyRing {
        let previous = Secret::new(self.keys["previous"].as_str());
        let overlap = Duration::from_secs(overlap);
        self.ring("current").with_previous(&previous, KeyDerivation::Hex, seconds(rotated_at), overlap).unwrap()
    }
}

fn seconds(seconds: i64) -> Timestamp {
    Timestamp::from_millis(seconds * 1000)
}

fn seals(ring: KeyRing) -> EnvelopeKeys {
    EnvelopeKeys { key_ring: Arc::new(ring), binding_rule: BindingRule::IfPresent }
}

impl TestGuard {
    async fn unseal(
        &self,
        key: &str,
        seals: Option<&EnvelopeKeys>,
        sealed: ReceivedEnvelope<'_>,
        at: Timestamp,
    ) -> Result<VerifiedEnvelope, Refusal> {
        let bearer = format!("Bearer {key}");
        let headers = map(&[("authorization", &bearer)]);
        let admitted = self.guard.admit_key(&self.rules, &evidence(&headers, b"{}")).await?;
        let sealed = ReceivedEnvelope { rule: Intent::parse(sealed.intent).map(intent_rule), ..sealed };
        self.guard.verify_envelope(&self.rules, seals, &admitted, sealed, at).await
    }
}

/// The sender that a payload names, so that no vector is refused for its sender.
fn sender(message: &str) -> String {
    let payload: Value = serde_json::from_str(message).unwrap_or_default();
    payload["_from"].as_str().filter(|from| !from.is_empty()).unwrap_or("somebody").to_owned()
}

#[tokio::test]
async fn every_message_of_the_vectors_passes_the_door_or_is_an_invalid_signature() {
    let vectors = EnvelopeVectors::read();
    let mut terms = terms(Some("pro"), &[]);
    terms.require_signature = true;
    let (mut passed, mut refused) = (0, 0);
    for case in &vectors.cases {
        let door = network("");
        let key = door.key("k", terms.clone()).await;
        let with_previous = case.keys.iter().any(|key| key == "previous");
        let ring = if with_previous { vectors.both(1_776_000_000, 360) } else { vectors.ring("current") };
        let from = sender(&case.message);
        let sealed = ReceivedEnvelope { payload: &case.message, from: &from, ..ENVELOPE };
        match door.unseal(&key, Some(&seals(ring)), sealed, seconds(case.now)).await {
            Ok(unsealed) => {
                assert!(case.valid && case.strict.is_none() && unsealed.key_slot.is_some(), "{}", case.id);
                let payload = CanonicalObject::read(&unsealed.payload.unwrap()).unwrap();
                assert!(payload.names().all(|name| !name.starts_with('_')), "{}", case.id);
                passed += 1;
            }
            Err(refusal) => {
                assert!(!case.valid || case.strict.is_some(), "{}: {refusal:?}", case.id);
                // A text that is no object is refused as an envelope, before its signature is looked for.
                let fits = matches!(refusal.fault, Fault::Unauthenticated(_)) || refusal.reason == "payload_reserved";
                assert!(fits && refusal.scheme == Some(Scheme::Agnt), "{}: {refusal:?}", case.id);
                refused += 1;
            }
        }
    }
    assert_eq!((passed, refused), (16, 42));
}

#[tokio::test]
async fn a_signed_effect_stays_one_effect_when_the_guard_starts_again() {
    let vectors = EnvelopeVectors::read();
    let case =
        vectors.cases.iter().find(|case| case.valid && case.strict.is_none() && case.keys == ["current"]).unwrap();
    let (from, at) = (sender(&case.message), seconds(case.now));
    let sealed = |intent: &'static str, moment: i64| ReceivedEnvelope {
        payload: &case.message,
        from: &from,
        intent,
        sent_at_nanos: Some(moment),
        ..ENVELOPE
    };
    for intent in ["booking.confirm", "payment.authorize"] {
        let mut door = network("");
        let (key, other) =
            (door.key("k", terms(Some("pro"), &[])).await, door.key("other", terms(Some("pro"), &[])).await);
        let seals = seals(vectors.ring("current"));
        let first = door.unseal(&key, Some(&seals), sealed(intent, 1), at).await.unwrap();
        assert!(!first.is_repeat);
        for _ in 0..2 {
            // The memory of the guard is gone, its store is not.
            door.guard = Guard::new(door.store.clone(), Arc::new(NamedSecrets), Metrics::default());
            for (key, moment, what) in [(&key, 2, "another moment"), (&other, 1, "another key"), (&other, 2, "both")] {
                for _ in 0..2 {
                    let refusal = door.unseal(key, Some(&seals), sealed(intent, moment), at).await.unwrap_err();
                    assert_eq!(refusal.reason, "sig_reused", "{intent} in an envelope with {what}");
                }
            }
            let retry = door.unseal(&key, Some(&seals), sealed(intent, 1), at).await.unwrap();
            assert!(retry.is_repeat, "the same envelope is a retry, before and after");
        }
    }
}

#[tokio::test]
async fn every_sequence_of_the_vectors_has_its_outcomes_at_the_door() {
    let vectors = EnvelopeVectors::read();
    for sequence in &vectors.sequences {
        let door = network("");
        let key = door.key("k", terms(Some("pro"), &[])).await;
        for (number, step) in sequence.steps.iter().enumerate() {
            let ring = match (sequence.rotated_at, sequence.overlap_s) {
                (Some(rotated_at), _) if step.now < rotated_at => vectors.ring("previous"),
                (Some(rotated_at), Some(overlap)) => vectors.both(rotated_at, overlap),
                _ => vectors.ring("current"),
            };
            let from = sender(&step.message);
            let sealed = ReceivedEnvelope { payload: &step.message, from: &from, ..ENVELOPE };
            let outcome = match door.unseal(&key, Some(&seals(ring)), sealed, seconds(step.now)).await {
                Ok(VerifiedEnvelope { is_repeat: false, .. }) => "processed",
                Ok(VerifiedEnvelope { is_repeat: true, .. }) => "duplicate",
                Err(refusal) => refusal.reason,
            };
            assert_eq!(outcome, step.outcome, "{} step {number}", sequence.id);
        }
    }
}

/// What is wrong with an envelope, for those who are told.
fn kind(refusal: &Refusal) -> &'static str {
    match (refusal.reason, &refusal.fault) {
        ("from_not_bound" | "from_other" | "from_no_relay", Fault::Forbidden(_)) => "other_sender",
        ("payload_reserved", Fault::Forbidden(_)) => "reserved",
        (_, Fault::Unauthenticated(_)) if refusal.scheme == Some(Scheme::Agnt) => "invalid",
        (reason, _) => reason,
    }
}

fn signed(ring: &KeyRing, members: &str) -> String {
    let mut payload = CanonicalObject::read(members).unwrap();
    let mac = ring.sign(signed_text(&payload).as_bytes());
    payload.set("_sig", &sabir_proto::Json::of(&mac).unwrap()).unwrap();
    payload.canonical()
}

#[tokio::test]
async fn a_signature_is_asked_of_some_and_must_be_right_of_all() {
    let door = network("");
    let vectors = EnvelopeVectors::read();
    let seals = seals(vectors.ring("current"));
    let at = seconds(1_776_000_000);
    let plain = door.key("plain", terms(Some("pro"), &[])).await;
    let strict = door.key("strict", KeyTerms { require_signature: true, ..terms(Some("pro"), &[]) }).await;
    let relay = door.key("relay", KeyTerms { relay: true, ..terms(Some("pro"), &[]) }).await;
    let go = async |key: &str, sealed| match door.unseal(key, Some(&seals), sealed, at).await {
        Ok(unsealed) => unsealed.key_slot.map_or("unsigned", KeySlot::name),
        Err(refusal) => kind(&refusal),
    };
    let bare = ReceivedEnvelope { payload: r#"{"query":"x"}"#, ..ENVELOPE };
    let good = signed(&seals.key_ring, r#"{"query":"x","_ts":1776000000,"_from":"agnt_consumer_42"}"#);
    let good = ReceivedEnvelope { payload: &good, ..ENVELOPE };
    let bad = good.payload.replace("\"x\"", "\"y\"");
    let bad = ReceivedEnvelope { payload: &bad, ..ENVELOPE };
    assert_eq!((go(&plain, bare).await, go(&plain, good).await), ("unsigned", "current"));
    assert_eq!((go(&strict, bare).await, go(&relay, bare).await), ("invalid", "invalid"));
    assert_eq!((go(&plain, bad).await, go(&strict, bad).await), ("invalid", "invalid"));
    // The same signature under another key is a copy.
    assert_eq!(go(&strict, good).await, "invalid");
    assert_eq!(go(&plain, ReceivedEnvelope { intent: "payment.authorize", ..bare }).await, "invalid");
    // An envelope of another sender around it.
    assert_eq!(go(&plain, ReceivedEnvelope { from: "mallory", ..good }).await, "other_sender");
    assert_eq!(go(&plain, ReceivedEnvelope { payload: r#"{"_from":"mallory"}"#, ..ENVELOPE }).await, "other_sender");
    assert_eq!(go(&plain, ReceivedEnvelope { payload: r#"{"_ts":1,"_x":2}"#, ..ENVELOPE }).await, "reserved");
    assert_eq!(go(&plain, ReceivedEnvelope { payload: r#"{"\u005fx":2}"#, ..ENVELOPE }).await, "reserved");
    for odd in [r#"{"_sig":null}"#, r#"{"_sig":7}"#, r#"{"_sig":"é"}"#, r#"{"\u005fsig":"00"}"#] {
        assert_eq!(go(&plain, ReceivedEnvelope { payload: odd, ..ENVELOPE }).await, "invalid", "{odd}");
    }
    let unringed = door.unseal(&plain, None, good, at).await.unwrap_err();
    assert_eq!((kind(&unringed), unringed.reason), ("invalid", "no_ring"));
    // An intent that runs once per timestamp does not run again under the same signature at another.
    let order = signed(&seals.key_ring, r#"{"venue_id":"v","_ts":1776000000,"_from":"agnt_consumer_42"}"#);
    let confirm = |moment| ReceivedEnvelope {
        payload: &order,
        intent: "booking.confirm",
        sent_at_nanos: Some(moment),
        ..ENVELOPE
    };
    assert_eq!((go(&plain, confirm(1)).await, go(&plain, confirm(1)).await), ("current", "current"));
    assert_eq!(go(&plain, confirm(2)).await, "invalid");
}

#[tokio::test]
async fn a_key_speaks_for_its_agents_and_only_a_relay_for_others() {
    let door = network("");
    let vectors = EnvelopeVectors::read();
    let seals = seals(vectors.ring("current"));
    let at = seconds(1_776_000_000);
    let bound = door.key("bound", terms(Some("pro"), &["from:a", "from:b"])).await;
    let relay = door.key("relay", KeyTerms { relay: true, ..terms(Some("pro"), &["from:network:hop"]) }).await;
    let payload = signed(&seals.key_ring, r#"{"_ts":1776000000,"_from":"network:hop"}"#);
    let go = async |key: &str, sealed| {
        let outcome = door.unseal(key, Some(&seals), sealed, at).await;
        outcome.map_or_else(|refusal| kind(&refusal), |_| "ok")
    };
    assert_eq!(go(&bound, ReceivedEnvelope { from: "b", ..ENVELOPE }).await, "ok");
    assert_eq!(go(&bound, ReceivedEnvelope { from: "c", ..ENVELOPE }).await, "other_sender");
    let passed_on = ReceivedEnvelope { payload: &payload, via: &["network:hop"], ..ENVELOPE };
    assert_eq!(go(&relay, passed_on).await, "ok");
    assert_eq!(go(&bound, passed_on).await, "other_sender");
    assert_eq!(go(&relay, ReceivedEnvelope { via: &["network:other"], ..passed_on }).await, "other_sender");
}
