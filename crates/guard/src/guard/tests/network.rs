//! The booking network: its scopes and tiers, and its envelopes.

use super::*;
use crate::authn::agnt::{Binding, Derivation, Ring, Slot};
use sabir_proto::agnt::{Intent, ProblemCode};
use serde::Deserialize;
use std::time::Duration;

fn network(auth: &str) -> Door {
    let mut door = Door::new(auth);
    let rule = |intent: Intent| SkillRule {
        id: intent.name().into(),
        requirements: Vec::new(),
        needs_identity: false,
        intent: Some(intent),
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
type Row<'a> = (&'a str, Option<&'a str>, &'a [&'a str], [&'a str; 3]);

#[tokio::test]
async fn scopes_and_tiers_say_which_intents_a_key_is_for() {
    let door = network("accept = [\"api_key\"]");
    // For ping, list and search; confirm; payment.
    let rows: [Row<'_>; 11] = [
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
        let paces = [("free".to_owned(), Pace { per_minute: None, per_day: Some(2) })];
        door.rules.limits.tiers = Arc::new(BTreeMap::from(paces));
        let key = door.key("k", terms(Some("free"), &[])).await;
        let bearer = format!("Bearer {key}");
        let knocks = async |headers: &[(&str, &str)]| {
            let headers = map(headers);
            let admitted = door.guard.admit_key(&door.rules, &knock(&headers, b"{}")).await;
            admitted.map(|admitted| admitted.identity().caller().name().to_owned()).map_err(|refusal| refusal.problem())
        };
        for nobody in [&[][..], &[("authorization", "Basic YTpi")], &[("authorization", "Bearer agnt_live_0")]] {
            assert_eq!(knocks(nobody).await.unwrap_err().code, ProblemCode::Unauthorized, "{auth}");
        }
        for _ in 0..2 {
            assert_eq!(knocks(&[("authorization", &bearer)]).await.as_deref(), Ok("key:k"), "{auth}");
        }
        let spent = knocks(&[("authorization", &bearer)]).await.unwrap_err();
        assert_eq!(spent.code, ProblemCode::RateLimited);
        // 22:13:20, so 1:46:40 are left of the day.
        assert_eq!(spent.retry_after, Some(Duration::from_secs(6400)));
    }
}

const SEALED: Sealed<'static> = Sealed {
    payload: "{}",
    from: "agnt_consumer_42",
    to: "network:agnt",
    intent: "booking.search",
    moment: None,
    via: &[],
};

#[derive(Deserialize)]
struct Vectors {
    keys: BTreeMap<String, String>,
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

impl Vectors {
    fn read() -> Self {
        serde_json::from_str(include_str!("../../../tests/vectors/agnt-verify.json")).unwrap()
    }

    fn ring(&self, name: &str) -> Ring {
        Ring::new(&Secret::new(self.keys[name].as_str()), Derivation::Hex).unwrap()
    }

    fn both(&self, rotated_at: i64, overlap: u64) -> Ring {
        let previous = Secret::new(self.keys["previous"].as_str());
        let overlap = Duration::from_secs(overlap);
        self.ring("current").with_previous(&previous, Derivation::Hex, seconds(rotated_at), overlap).unwrap()
    }
}

fn seconds(seconds: i64) -> Timestamp {
    Timestamp::from_millis(seconds * 1000)
}

fn seals(ring: Ring) -> Seals {
    Seals { ring: Arc::new(ring), binding: Binding::IfPresent }
}

impl Door {
    async fn unseal(
        &self,
        key: &str,
        seals: Option<&Seals>,
        sealed: Sealed<'_>,
        at: Timestamp,
    ) -> Result<Unsealed, Refusal> {
        let bearer = format!("Bearer {key}");
        let headers = map(&[("authorization", &bearer)]);
        let admitted = self.guard.admit_key(&self.rules, &knock(&headers, b"{}")).await?;
        self.guard.unseal(&self.rules, seals, &admitted, sealed, at).await
    }
}

/// The sender that a payload names, so that no vector is refused for its sender.
fn sender(message: &str) -> String {
    let payload: Value = serde_json::from_str(message).unwrap_or_default();
    payload["_from"].as_str().filter(|from| !from.is_empty()).unwrap_or("somebody").to_owned()
}

#[tokio::test]
async fn every_message_of_the_vectors_passes_the_door_or_is_an_invalid_signature() {
    let vectors = Vectors::read();
    let mut terms = terms(Some("pro"), &[]);
    terms.require_signature = true;
    let (mut passed, mut refused) = (0, 0);
    for case in &vectors.cases {
        let door = network("");
        let key = door.key("k", terms.clone()).await;
        let with_previous = case.keys.iter().any(|key| key == "previous");
        let ring = if with_previous { vectors.both(1_776_000_000, 360) } else { vectors.ring("current") };
        let from = sender(&case.message);
        let sealed = Sealed { payload: &case.message, from: &from, ..SEALED };
        match door.unseal(&key, Some(&seals(ring)), sealed, seconds(case.now)).await {
            Ok(unsealed) => {
                assert!(case.valid && case.strict.is_none() && unsealed.signed.is_some(), "{}", case.id);
                let payload = sabir_proto::canon::agnt::Payload::read(&unsealed.payload.unwrap()).unwrap();
                assert!(payload.names().all(|name| !name.starts_with('_')), "{}", case.id);
                passed += 1;
            }
            Err(refusal) => {
                assert!(!case.valid || case.strict.is_some(), "{}: {refusal:?}", case.id);
                let code = refusal.problem().code;
                // A text that is no object is refused as an envelope, before its signature is looked for.
                let fits = matches!(code, ProblemCode::InvalidSignature | ProblemCode::InvalidPayload);
                assert!(fits, "{}: {refusal:?}", case.id);
                refused += 1;
            }
        }
    }
    assert_eq!((passed, refused), (16, 42));
}

#[tokio::test]
async fn a_signed_effect_stays_one_effect_when_the_guard_starts_again() {
    let vectors = Vectors::read();
    let case =
        vectors.cases.iter().find(|case| case.valid && case.strict.is_none() && case.keys == ["current"]).unwrap();
    let (from, at) = (sender(&case.message), seconds(case.now));
    let sealed = |intent: &'static str, moment: i64| Sealed {
        payload: &case.message,
        from: &from,
        intent,
        moment: Some(moment),
        ..SEALED
    };
    for intent in ["booking.confirm", "payment.authorize"] {
        let mut door = network("");
        let (key, other) =
            (door.key("k", terms(Some("pro"), &[])).await, door.key("other", terms(Some("pro"), &[])).await);
        let seals = seals(vectors.ring("current"));
        let first = door.unseal(&key, Some(&seals), sealed(intent, 1), at).await.unwrap();
        assert!(!first.again);
        for _ in 0..2 {
            // The memory of the guard is gone, its store is not.
            door.guard = Guard::new(door.store.clone(), Arc::new(Named), Metrics::default());
            for (key, moment, what) in [(&key, 2, "another moment"), (&other, 1, "another key"), (&other, 2, "both")] {
                for _ in 0..2 {
                    let refusal = door.unseal(key, Some(&seals), sealed(intent, moment), at).await.unwrap_err();
                    assert_eq!(refusal.reason, "sig_reused", "{intent} in an envelope with {what}");
                }
            }
            let retry = door.unseal(&key, Some(&seals), sealed(intent, 1), at).await.unwrap();
            assert!(retry.again, "the same envelope is a retry, before and after");
        }
    }
}

#[tokio::test]
async fn every_sequence_of_the_vectors_has_its_outcomes_at_the_door() {
    let vectors = Vectors::read();
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
            let sealed = Sealed { payload: &step.message, from: &from, ..SEALED };
            let outcome = match door.unseal(&key, Some(&seals(ring)), sealed, seconds(step.now)).await {
                Ok(Unsealed { again: false, .. }) => "processed",
                Ok(Unsealed { again: true, .. }) => "duplicate",
                Err(refusal) => refusal.reason,
            };
            assert_eq!(outcome, step.outcome, "{} step {number}", sequence.id);
        }
    }
}

fn signed(ring: &Ring, members: &str) -> String {
    let mut payload = sabir_proto::canon::agnt::Payload::read(members).unwrap();
    let mac = ring.sign(&sabir_proto::digest::agnt_signed(&payload));
    payload.set("_sig", &sabir_proto::Json::of(&mac).unwrap()).unwrap();
    payload.canonical()
}

#[tokio::test]
async fn a_signature_is_asked_of_some_and_must_be_right_of_all() {
    let door = network("");
    let vectors = Vectors::read();
    let seals = seals(vectors.ring("current"));
    let at = seconds(1_776_000_000);
    let plain = door.key("plain", terms(Some("pro"), &[])).await;
    let strict = door.key("strict", KeyTerms { require_signature: true, ..terms(Some("pro"), &[]) }).await;
    let relay = door.key("relay", KeyTerms { relay: true, ..terms(Some("pro"), &[]) }).await;
    let go = async |key: &str, sealed| match door.unseal(key, Some(&seals), sealed, at).await {
        Ok(unsealed) => unsealed.signed.map_or("unsigned", Slot::name),
        Err(refusal) => refusal.problem().code.name(),
    };
    let bare = Sealed { payload: r#"{"query":"x"}"#, ..SEALED };
    let good = signed(&seals.ring, r#"{"query":"x","_ts":1776000000,"_from":"agnt_consumer_42"}"#);
    let good = Sealed { payload: &good, ..SEALED };
    let bad = good.payload.replace("\"x\"", "\"y\"");
    let bad = Sealed { payload: &bad, ..SEALED };
    assert_eq!((go(&plain, bare).await, go(&plain, good).await), ("unsigned", "current"));
    assert_eq!((go(&strict, bare).await, go(&relay, bare).await), ("invalid_signature", "invalid_signature"));
    assert_eq!((go(&plain, bad).await, go(&strict, bad).await), ("invalid_signature", "invalid_signature"));
    // The same signature under another key is a copy.
    assert_eq!(go(&strict, good).await, "invalid_signature");
    assert_eq!(go(&plain, Sealed { intent: "payment.authorize", ..bare }).await, "invalid_signature");
    // An envelope of another sender around it.
    assert_eq!(go(&plain, Sealed { from: "mallory", ..good }).await, "agent_mismatch");
    assert_eq!(go(&plain, Sealed { payload: r#"{"_from":"mallory"}"#, ..SEALED }).await, "agent_mismatch");
    assert_eq!(go(&plain, Sealed { payload: r#"{"_ts":1,"_x":2}"#, ..SEALED }).await, "invalid_payload");
    assert_eq!(go(&plain, Sealed { payload: r#"{"\u005fx":2}"#, ..SEALED }).await, "invalid_payload");
    for odd in [r#"{"_sig":null}"#, r#"{"_sig":7}"#, r#"{"_sig":"é"}"#, r#"{"\u005fsig":"00"}"#] {
        assert_eq!(go(&plain, Sealed { payload: odd, ..SEALED }).await, "invalid_signature", "{odd}");
    }
    let unringed = door.unseal(&plain, None, good, at).await.unwrap_err();
    assert_eq!((unringed.problem().code, unringed.reason), (ProblemCode::InvalidSignature, "no_ring"));
    // An intent that runs once per timestamp does not run again under the same signature at another.
    let order = signed(&seals.ring, r#"{"venue_id":"v","_ts":1776000000,"_from":"agnt_consumer_42"}"#);
    let confirm = |moment| Sealed { payload: &order, intent: "booking.confirm", moment: Some(moment), ..SEALED };
    assert_eq!((go(&plain, confirm(1)).await, go(&plain, confirm(1)).await), ("current", "current"));
    assert_eq!(go(&plain, confirm(2)).await, "invalid_signature");
}

#[tokio::test]
async fn a_key_speaks_for_its_agents_and_only_a_relay_for_others() {
    let door = network("");
    let vectors = Vectors::read();
    let seals = seals(vectors.ring("current"));
    let at = seconds(1_776_000_000);
    let bound = door.key("bound", terms(Some("pro"), &["from:a", "from:b"])).await;
    let relay = door.key("relay", KeyTerms { relay: true, ..terms(Some("pro"), &["from:network:hop"]) }).await;
    let payload = signed(&seals.ring, r#"{"_ts":1776000000,"_from":"network:hop"}"#);
    let go = async |key: &str, sealed| {
        let outcome = door.unseal(key, Some(&seals), sealed, at).await;
        outcome.map_or_else(|refusal| refusal.problem().code.name(), |_| "ok")
    };
    assert_eq!(go(&bound, Sealed { from: "b", ..SEALED }).await, "ok");
    assert_eq!(go(&bound, Sealed { from: "c", ..SEALED }).await, "agent_mismatch");
    let passed_on = Sealed { payload: &payload, via: &["network:hop"], ..SEALED };
    assert_eq!(go(&relay, passed_on).await, "ok");
    assert_eq!(go(&bound, passed_on).await, "agent_mismatch");
    assert_eq!(go(&relay, Sealed { via: &["network:other"], ..passed_on }).await, "agent_mismatch");
}
