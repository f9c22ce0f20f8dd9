//! Recognises the form of a card by its members.

use super::CardSchema;
use super::interfaces::{self, is_native};
use super::members::{MemberReader, entries};
use serde_json::value::RawValue;

/// Recognises the form of a card.
///
/// A list of interfaces means 1.0, whatever else is there. Next come the marks of XPR and agent-native, whose cards
/// look like 0.3, then the version that the card states, and last the members that only one version has.
pub(super) fn detect_schema(card: &MemberReader<'_, '_>) -> CardSchema {
    let is_text = |name| card.peek(name).is_some_and(|v| v.get().starts_with('"'));
    let peeked = |name| card.peek(name).and_then(|v| serde_json::from_str::<String>(v.get()).ok());
    if card.peek("supportedInterfaces").is_some_and(|v| v.get().starts_with('[') && v.get() != "[]") {
        return if is_text("url") { CardSchema::Hybrid } else { CardSchema::V1 };
    }
    let stated = peeked("protocolVersion");
    // An XPR card states no version. A card that states one is also served to other clients, and is read as they read
    // it.
    if card.has_prefix("xpr:") && stated.is_none() {
        return CardSchema::Xpr;
    }
    if peeked("url").is_some_and(|url| is_native(&url)) || has_native_marks(card) {
        return CardSchema::Native;
    }
    match stated.as_deref().map(interfaces::version) {
        Some(Some((0, 1))) => CardSchema::V01,
        Some(Some((0, 2))) => CardSchema::V02,
        Some(Some((0, _)) | None) => CardSchema::V03,
        Some(Some(_)) => CardSchema::V1,
        None if card.peek("authentication").is_some_and(|v| v.get().starts_with('{')) => CardSchema::V01,
        None => {
            let old = ["url", "preferredTransport", "additionalInterfaces", "supportsAuthenticatedExtendedCard"];
            if old.iter().any(|name| card.peek(name).is_some()) { CardSchema::V03 } else { CardSchema::V1 }
        }
    }
}

/// Whether the card has the marks of agent-native: its own names for security schemes (one of them misleading), a
/// history that it promises but does not keep, and no media types. The documentation of agent-native shows such a card
/// with the address of the site as `url`.
fn has_native_marks(card: &MemberReader<'_, '_>) -> bool {
    let has = |object: Option<&RawValue>, name: &str, fits: &dyn Fn(&str) -> bool| {
        object.and_then(entries).is_some_and(|members| members.iter().any(|(n, v)| n == name && fits(v.get())))
    };
    let is_http = |scheme: &str| {
        let scheme: Option<&RawValue> = serde_json::from_str(scheme).ok();
        has(scheme, "type", &|kind| kind == "\"http\"")
    };
    let schemes = card.peek("securitySchemes");
    card.peek("defaultInputModes").is_none()
        && card.peek("defaultOutputModes").is_none()
        && has(card.peek("capabilities"), "stateTransitionHistory", &|flag| flag == "true")
        && (has(schemes, "jwtBearer", &|_| true) || has(schemes, "apiKey", &is_http))
}
