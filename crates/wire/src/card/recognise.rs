//! Telling the form of a card by its members.

use super::Form;
use super::interfaces::{self, is_native};
use super::members::{Members, entries};
use serde_json::value::RawValue;

/// Tells the form of a card.
///
/// A list of interfaces is 1.0's whatever else there is. After that come the marks of the two dialects that look like
/// 0.3 and are not, then the version a card states, and last the members that only one version has.
pub(super) fn recognise(card: &Members<'_, '_>) -> Form {
    let is_text = |name| card.peek(name).is_some_and(|v| v.get().starts_with('"'));
    let peeked = |name| card.peek(name).and_then(|v| serde_json::from_str::<String>(v.get()).ok());
    if card.peek("supportedInterfaces").is_some_and(|v| v.get().starts_with('[') && v.get() != "[]") {
        return if is_text("url") { Form::Hybrid } else { Form::V1 };
    }
    let stated = peeked("protocolVersion");
    // An XPR card states no version; one that does is served to others as well, and can be read as they do.
    if card.any("xpr:") && stated.is_none() {
        return Form::Xpr;
    }
    if peeked("url").is_some_and(|url| is_native(&url)) || has_native_marks(card) {
        return Form::Native;
    }
    match stated.as_deref().map(interfaces::version) {
        Some(Some((0, 1))) => Form::V01,
        Some(Some((0, 2))) => Form::V02,
        Some(Some((0, _)) | None) => Form::V03,
        Some(Some(_)) => Form::V1,
        None if card.peek("authentication").is_some_and(|v| v.get().starts_with('{')) => Form::V01,
        None => {
            let old = ["url", "preferredTransport", "additionalInterfaces", "supportsAuthenticatedExtendedCard"];
            if old.iter().any(|name| card.peek(name).is_some()) { Form::V03 } else { Form::V1 }
        }
    }
}

/// agent-native gives its security schemes names of its own, one of them misleading, promises a history that it does
/// not keep, and has no media types. Its documentation shows such a card with the site's address for `url`.
fn has_native_marks(card: &Members<'_, '_>) -> bool {
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
