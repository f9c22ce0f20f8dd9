//! The stored record of an envelope: one row, without secrets.

use super::answer::EnvelopeOutcome;
use super::exchange::EnvelopeExchange;
use sabir_guard::authn::agnt::KeySlot;
use sabir_proto::{Object, TaskId};
use sabir_store::Interaction;
use serde_json::Value;

/// The source of envelopes.
const SOURCE: &str = "external_agent";
/// What stands in place of a secret.
const REDACTED: &str = "[redacted]";
/// Members whose values pay or sign, at any depth.
const SECRET_MEMBERS: [&str; 9] = [
    "_sig",
    "token",
    "mandate",
    "payment_method",
    "payment_intent",
    "client_secret",
    "api_key",
    "authorization",
    "password",
];
/// Prefixes of keys in lower case: those of this network, and those of payment processors.
const KEY_PREFIXES: [&str; 9] =
    ["agnt_live_", "agnt_test_", "sabir_", "whsec_", "whsk_", "sk_live_", "sk_test_", "rk_live_", "bearer "];
/// Maximum characters of a correlation id.
const CORRELATION_CHARS_MAX: usize = 256;

/// The complete record of an envelope.
pub(super) fn complete_record(visit: &EnvelopeExchange, outcome: &EnvelopeOutcome, http_status: u16) -> Interaction {
    Interaction {
        status: status(outcome).into(),
        error_code: outcome.result.as_ref().err().map(|problem| problem.code.name().to_owned()),
        http_status,
        latency_ms: u32::try_from(visit.elapsed().as_millis()).unwrap_or(u32::MAX),
        booking: outcome.result.as_ref().ok().and_then(booking),
        replay: outcome.replay,
        ..partial_record(visit)
    }
}

/// The record of an envelope before its result is known, as if it succeeded.
pub(super) fn partial_record(visit: &EnvelopeExchange) -> Interaction {
    let sketch = &visit.sketch;
    let known = visit.key.is_some();
    let text = |text: &Option<String>| text.clone().unwrap_or_default();
    Interaction {
        received_at: visit.received.millis(),
        source: SOURCE.into(),
        key: visit.key.clone(),
        tier: visit.tier.clone(),
        from_agent: text(&sketch.from),
        to_agent: text(&sketch.to),
        intent: text(&sketch.intent),
        protocol: sketch.protocol.chars().take(64).collect(),
        correlation_id: correlation_id(&sketch.context),
        timestamp_claimed: visit.sent.map(|moment| moment.to_string()),
        ttl_ms: i64::try_from(visit.ttl_ms).ok(),
        // Of senders without a valid key, the content is not stored.
        payload: visit.payload.as_ref().filter(|_| known).map(|payload| redacted(payload).as_str().to_owned()),
        agent_context: known.then(|| redacted(&sketch.context).as_str().to_owned()),
        signed: visit.signed.map(|slot: KeySlot| slot.name().to_owned()),
        status: "ok".into(),
        http_status: 200,
        remote_addr: Some(visit.remote.to_string()),
        ..Interaction::default()
    }
}

/// The status of an envelope: `ok`, `duplicate` or the code of a problem.
pub(super) fn status(outcome: &EnvelopeOutcome) -> &'static str {
    match &outcome.result {
        Ok(_) if outcome.replay => "duplicate",
        Ok(_) => "ok",
        Err(problem) => problem.code.name(),
    }
}

fn booking(result: &Object) -> Option<TaskId> {
    if !result.as_str().contains("booking_id") {
        return None;
    }
    TaskId::parse(result.get("booking_id")?.as_str()?)
}

/// The id by which the sender identifies the envelope.
pub(super) fn correlation_id(context: &Object) -> Option<String> {
    if !context.as_str().contains("correlation_id") {
        return None;
    }
    let id = context.get("correlation_id")?;
    Some(id.as_str()?.chars().filter(|c| !c.is_control()).take(CORRELATION_CHARS_MAX).collect())
}

/// An object without the members and values that pay, sign or authenticate.
pub(super) fn redacted(object: &Object) -> Object {
    if object.as_str() == "{}" {
        return object.clone();
    }
    let text = object.as_str().to_ascii_lowercase();
    // Names may contain escapes; a text without any is decided by this search.
    let suspicious = text.contains("\\u")
        || SECRET_MEMBERS.iter().any(|name| text.contains(name))
        || KEY_PREFIXES.iter().any(|prefix| text.contains(prefix));
    if !suspicious {
        return object.clone();
    }
    let mut members = object.to_map();
    members.iter_mut().for_each(|(name, value)| redact(name, value));
    Object::from_map(&members).unwrap_or_else(|_| object.clone())
}

fn has_key(text: &str) -> bool {
    let text = text.to_ascii_lowercase();
    KEY_PREFIXES.iter().any(|prefix| text.contains(prefix))
}

fn redact(name: &str, value: &mut Value) {
    if SECRET_MEMBERS.iter().any(|secret| name.eq_ignore_ascii_case(secret)) {
        *value = Value::from(REDACTED);
        return;
    }
    match value {
        Value::String(text) if has_key(text) => {
            *value = Value::from(REDACTED);
        }
        Value::Array(items) => items.iter_mut().for_each(|item| redact("", item)),
        Value::Object(members) => members.iter_mut().for_each(|(name, value)| redact(name, value)),
        Value::String(_) | Value::Null | Value::Bool(_) | Value::Number(_) => {}
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use sabir_proto::Json;

    fn after(text: &str) -> String {
        redacted(&Object::new(Json::parse(text).unwrap()).unwrap()).as_str().to_owned()
    }

    #[test]
    fn nothing_that_pays_signs_or_opens_doors_is_kept() {
        let plain = r#"{"venue_id":"la-brisa","user_note":"window \"seat\""}"#;
        assert_eq!(after(plain), plain);
        for (text, kept) in [
            (r#"{"token":{"type":"stripe","payment_method":"pm_1"},"n":1}"#, r#"{"token":"[redacted]","n":1}"#),
            (r#"{"a":[{"Mandate":"x.y.z"}]}"#, r#"{"a":[{"Mandate":"[redacted]"}]}"#),
            (r#"{"\u0074oken":"x"}"#, r#"{"token":"[redacted]"}"#),
            (r#"{"user_note":"my key is agnt_live_0123"}"#, r#"{"user_note":"[redacted]"}"#),
            (r#"{"_sig":"00"}"#, r#"{"_sig":"[redacted]"}"#),
        ] {
            let sorted = |text: &str| serde_json::from_str::<Value>(text).unwrap();
            assert_eq!(sorted(&after(text)), sorted(kept), "{text}");
        }
    }

    #[test]
    fn a_caller_may_know_an_envelope_by_a_text_that_has_an_end() {
        let of = |text: &str| correlation_id(&Object::new(Json::parse(text).unwrap()).unwrap());
        assert_eq!(of(r#"{"correlation_id":"c-1"}"#).as_deref(), Some("c-1"));
        assert_eq!(of(r#"{"correlation_id":7}"#), None);
        assert_eq!(of("{}"), None);
        assert_eq!(of(&format!("{{\"correlation_id\":\"{}\"}}", "x".repeat(999))).unwrap().len(), 256);
    }
}
