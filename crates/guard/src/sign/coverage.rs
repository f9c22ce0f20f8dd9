//! Whether a reading of a card leaves enough to be worth a signature: where the agent is, and what it asks of callers.
//!
//! A signature under a reading that drops either would hold for a card that leads elsewhere. Only readings that drop
//! members are asked about. What older cards say in members of their own, and what is spelled otherwise than the
//! specification has it, counts as much as what 1.0 knows: there are readers of all of it, our own client among them.

use sabir_proto::digest::without_empties;
use serde_json::{Map, Value};

/// Members that are read under any spelling.
const MEMBERS_READ: [&str; 8] = [
    "additionalInterfaces",
    "authentication",
    "preferredTransport",
    "protocolVersion",
    "security",
    "securityRequirements",
    "securitySchemes",
    "supportedInterfaces",
];
/// The suffix of the member in which 1.0 wraps a scheme.
const WRAPPER_SUFFIX: &str = "SecurityScheme";

/// Whether what is left of a card says as much as the card about addresses and credentials. That a scheme is required
/// without scopes may be gone: no SDK keeps that, and none would verify a card that asks for a plain credential.
pub(super) fn covers(left: &Value, card: &Value) -> bool {
    let (Some(left), Some(card)) = (left.as_object(), card.as_object()) else { return false };
    has_address(left, card)
        && has_schemes(left, card)
        && has_requirements(left, card)
        && has_skills(left, card)
        && same_member(left, card, "authentication")
}

/// A hybrid card names the address twice; either is enough, if it is complete.
fn has_address(left: &Map<String, Value>, card: &Map<String, Value>) -> bool {
    let listed = non_empty(left, "supportedInterfaces").is_some() && same_member(left, card, "supportedInterfaces");
    let older = non_empty(left, "url").is_some()
        && same_member(left, card, "url")
        && same_member(left, card, "additionalInterfaces");
    (listed || older) && !is_spelled_otherwise(card)
}

fn has_schemes(left: &Map<String, Value>, card: &Map<String, Value>) -> bool {
    let Some(Value::Object(schemes)) = card.get("securitySchemes") else { return true };
    let kept = |name: &str| left.get("securitySchemes").and_then(|schemes| schemes.get(name));
    schemes.iter().all(|(name, scheme)| {
        let Some(kept) = kept(name) else { return false };
        let wrapped =
            scheme.as_object().and_then(|scheme| scheme.iter().find(|(name, _)| name.ends_with(WRAPPER_SUFFIX)));
        match wrapped {
            // Beside it, a hybrid card says the same again.
            Some((kind, inner)) => kept.get(kind).is_some_and(|kept| same_apart_from_empty(Some(kept), Some(inner))),
            None => same_apart_from_empty(Some(kept), Some(scheme)),
        }
    })
}

/// As 1.0 writes requirements or as 0.3 does; a hybrid card does both.
fn has_requirements(left: &Map<String, Value>, card: &Map<String, Value>) -> bool {
    let mut stated =
        ["securityRequirements", "security"].into_iter().filter(|name| non_empty(card, name).is_some()).peekable();
    stated.peek().is_none() || stated.any(|name| same_member(left, card, name))
}

fn has_skills(left: &Map<String, Value>, card: &Map<String, Value>) -> bool {
    let skills = |of: &Map<String, Value>| match of.get("skills") {
        Some(Value::Array(skills)) => skills.iter().filter_map(Value::as_object).cloned().collect(),
        _ => Vec::new(),
    };
    let (left, card) = (skills(left), skills(card));
    let whole = |(left, card)| has_requirements(left, card) && !is_spelled_otherwise(card);
    left.len() == card.len() && left.iter().zip(&card).all(whole)
}

/// Whether a member that readers use has a name such as `supported_interfaces`.
fn is_spelled_otherwise(members: &Map<String, Value>) -> bool {
    let other = |name: &str, read: &str| name != read && name.replace('_', "").eq_ignore_ascii_case(read);
    members.keys().any(|name| MEMBERS_READ.iter().any(|read| other(name, read)))
}

/// A member that is not empty.
fn non_empty(members: &Map<String, Value>, name: &str) -> Option<Value> {
    members.get(name).cloned().and_then(without_empties)
}

fn same_member(left: &Map<String, Value>, card: &Map<String, Value>, name: &str) -> bool {
    same_apart_from_empty(left.get(name), card.get(name))
}

/// Whether two values are the same apart from what is empty.
fn same_apart_from_empty(one: Option<&Value>, other: Option<&Value>) -> bool {
    one.cloned().and_then(without_empties) == other.cloned().and_then(without_empties)
}
