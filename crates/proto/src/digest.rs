//! The bytes that are signed: one definition for signers and verifiers.
//!
//! A card signature is a detached JWS (RFC 7515) over the canonical card without its `signatures`. Implementations
//! disagree on which members count: A2A 1.0 §8.4.1 keeps REQUIRED members even when they are empty, the Python and
//! JavaScript SDKs drop everything that is empty, and plain JSON tools sign the JSON unchanged. For a card without
//! empty members all three give the same bytes. A verifier tries each [`CanonicalForm`]; a signer makes a signature for each
//! form that differs and still covers the card's addresses and security requirements. [`unambiguous_card`] tells when the
//! forms agree.
//!
//! An XPR account signs the bytes of a request ([`k1_request_digest`]).
//!
//! Absent on purpose: keys and algorithms. This module is only about bytes.

use crate::canon::{CanonFault, jcs};
use base64::Engine as _;
use base64::engine::general_purpose::URL_SAFE_NO_PAD;
use serde_json::{Map, Value};
use sha2::{Digest as _, Sha256};

/// The number of signatures that a card may have: a signer makes no more, and a verifier refuses more.
pub const SIGNATURES_MAX: usize = 16;
/// The number of certificates that one signature of a card may bring.
pub const CERTIFICATES_MAX: usize = 8;
/// The shortest key that signs payloads of envelopes, in bytes.
pub const ENVELOPE_KEY_BYTES_MIN: usize = 32;

/// A canonical form of an agent card.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum CanonicalForm {
    /// A2A 1.0 §8.4.1: members at their default are dropped unless they are REQUIRED, or `optional` and set. Members
    /// that the specification does not define are covered.
    Specification,
    /// The official SDKs: everything empty is dropped, including REQUIRED members and members inside extension
    /// parameters. Members that the specification does not define are **not** covered.
    Sdk,
    /// The JSON as it was received.
    AsReceived,
}

impl CanonicalForm {
    /// Every form, in the order in which a verifier tries them.
    pub const ALL: [Self; 3] = [Self::Specification, Self::Sdk, Self::AsReceived];
}

/// The canonical bytes of a card in one form.
pub fn card(card: &Value, form: CanonicalForm) -> Result<Vec<u8>, CanonFault> {
    jcs(&covered_members(card, form))
}

/// The canonical bytes of a card, if all forms give the same bytes.
pub fn unambiguous_card(value: &Value) -> Result<Option<Vec<u8>>, CanonFault> {
    let bytes = card(value, CanonicalForm::Specification)?;
    let agreed = bytes == card(value, CanonicalForm::Sdk)? && bytes == card(value, CanonicalForm::AsReceived)?;
    Ok(agreed.then_some(bytes))
}

/// The input of a JWS signature, given the encoded protected header.
pub fn signing_input(protected: &str, payload: &[u8]) -> Vec<u8> {
    format!("{protected}.{}", URL_SAFE_NO_PAD.encode(payload)).into_bytes()
}

/// The digest that an XPR account signs for a request: over the account, the time in Unix seconds, and the body as
/// sent.
///
/// The digest is hashed once more. The network's documents do not say so, but its library hashes every input of a
/// signature, including a digest, so all existing signatures are over this value. Method, path and receiver are **not**
/// covered.
pub fn k1_request_digest(account: &str, timestamp: i64, body: &[u8]) -> [u8; 32] {
    let digest = Sha256::digest(format!("{account}\n{timestamp}\n{}", hex(&Sha256::digest(body))));
    Sha256::digest(digest).into()
}

/// Writes each byte as two digits, the letters in lower case.
pub fn hex(bytes: &[u8]) -> String {
    const DIGITS: &[u8; 16] = b"0123456789abcdef";
    bytes.iter().flat_map(|byte| [byte >> 4, byte & 15]).map(|digit| char::from(DIGITS[usize::from(digit)])).collect()
}

/// The members of a card that a signature in this form covers.
pub fn covered_members(card: &Value, form: CanonicalForm) -> Value {
    let mut card = card.clone();
    if let Some(members) = card.as_object_mut() {
        members.remove("signatures");
    }
    match form {
        CanonicalForm::Specification => specification_form(card, &Shape::Message(CARD)),
        CanonicalForm::Sdk => {
            without_empties(sdk_form(card, &Shape::Message(CARD))).unwrap_or_else(|| Value::Object(Map::new()))
        }
        CanonicalForm::AsReceived => card,
    }
}

/// The members of a card that A2A 1.0 defines, including empty ones.
pub fn known_members(card: &Value) -> Value {
    fn keep(value: Value, shape: &Shape) -> Value {
        filter_members(value, shape, &|value, member| member.map(|(_, _, shape)| keep(value, shape)))
    }
    keep(card.clone(), &Shape::Message(CARD))
}

/// The presence rule of a member: whether it stays when it is at its default.
#[derive(Clone, Copy, PartialEq)]
enum FieldPresence {
    /// REQUIRED in the specification, `optional` in the proto, or a message: all of these have explicit presence.
    Explicit,
    /// All other members: a member at its default is the same as an absent one.
    Implicit,
}

/// The part of the card schema that decides which members are dropped.
enum Shape {
    Scalar,
    /// A JSON object whose content the agent defines; kept verbatim.
    Opaque,
    Message(&'static [SchemaMember]),
    List(&'static Shape),
    Map(&'static Shape),
}

type SchemaMember = (&'static str, FieldPresence, Shape);

const fn explicit(name: &'static str, shape: Shape) -> SchemaMember {
    (name, FieldPresence::Explicit, shape)
}

const fn implicit(name: &'static str, shape: Shape) -> SchemaMember {
    (name, FieldPresence::Implicit, shape)
}

const STRINGS: Shape = Shape::List(&Shape::Scalar);
const SCOPES: Shape = Shape::Map(&Shape::Scalar);
const REQUIREMENTS: Shape = Shape::List(&Shape::Message(REQUIREMENT));

const CARD: &[SchemaMember] = &[
    explicit("name", Shape::Scalar),
    explicit("description", Shape::Scalar),
    explicit("supportedInterfaces", Shape::List(&Shape::Message(INTERFACE))),
    explicit("provider", Shape::Message(PROVIDER)),
    explicit("version", Shape::Scalar),
    explicit("documentationUrl", Shape::Scalar),
    explicit("capabilities", Shape::Message(CAPABILITIES)),
    implicit("securitySchemes", Shape::Map(&Shape::Message(SCHEME))),
    implicit("securityRequirements", REQUIREMENTS),
    explicit("defaultInputModes", STRINGS),
    explicit("defaultOutputModes", STRINGS),
    explicit("skills", Shape::List(&Shape::Message(SKILL))),
    explicit("iconUrl", Shape::Scalar),
];

const INTERFACE: &[SchemaMember] = &[
    explicit("url", Shape::Scalar),
    explicit("protocolBinding", Shape::Scalar),
    implicit("tenant", Shape::Scalar),
    explicit("protocolVersion", Shape::Scalar),
];

const PROVIDER: &[SchemaMember] = &[explicit("url", Shape::Scalar), explicit("organization", Shape::Scalar)];

const CAPABILITIES: &[SchemaMember] = &[
    explicit("streaming", Shape::Scalar),
    explicit("pushNotifications", Shape::Scalar),
    implicit("extensions", Shape::List(&Shape::Message(EXTENSION))),
    explicit("extendedAgentCard", Shape::Scalar),
];

const EXTENSION: &[SchemaMember] = &[
    implicit("uri", Shape::Scalar),
    implicit("description", Shape::Scalar),
    implicit("required", Shape::Scalar),
    explicit("params", Shape::Opaque),
];

const SKILL: &[SchemaMember] = &[
    explicit("id", Shape::Scalar),
    explicit("name", Shape::Scalar),
    explicit("description", Shape::Scalar),
    explicit("tags", STRINGS),
    implicit("examples", STRINGS),
    implicit("inputModes", STRINGS),
    implicit("outputModes", STRINGS),
    implicit("securityRequirements", REQUIREMENTS),
];

const REQUIREMENT: &[SchemaMember] = &[implicit("schemes", Shape::Map(&Shape::Message(&[implicit("list", STRINGS)])))];

const SCHEME: &[SchemaMember] = &[
    explicit(
        "apiKeySecurityScheme",
        Shape::Message(&[
            implicit("description", Shape::Scalar),
            explicit("location", Shape::Scalar),
            explicit("name", Shape::Scalar),
        ]),
    ),
    explicit(
        "httpAuthSecurityScheme",
        Shape::Message(&[
            implicit("description", Shape::Scalar),
            explicit("scheme", Shape::Scalar),
            implicit("bearerFormat", Shape::Scalar),
        ]),
    ),
    explicit(
        "oauth2SecurityScheme",
        Shape::Message(&[
            implicit("description", Shape::Scalar),
            explicit("flows", Shape::Message(FLOWS)),
            implicit("oauth2MetadataUrl", Shape::Scalar),
        ]),
    ),
    explicit(
        "openIdConnectSecurityScheme",
        Shape::Message(&[implicit("description", Shape::Scalar), explicit("openIdConnectUrl", Shape::Scalar)]),
    ),
    explicit("mtlsSecurityScheme", Shape::Message(&[implicit("description", Shape::Scalar)])),
];

const FLOWS: &[SchemaMember] = &[
    explicit(
        "authorizationCode",
        Shape::Message(&[
            explicit("authorizationUrl", Shape::Scalar),
            explicit("tokenUrl", Shape::Scalar),
            implicit("refreshUrl", Shape::Scalar),
            explicit("scopes", SCOPES),
            implicit("pkceRequired", Shape::Scalar),
        ]),
    ),
    explicit(
        "clientCredentials",
        Shape::Message(&[
            explicit("tokenUrl", Shape::Scalar),
            implicit("refreshUrl", Shape::Scalar),
            explicit("scopes", SCOPES),
        ]),
    ),
    explicit(
        "implicit",
        Shape::Message(&[
            implicit("authorizationUrl", Shape::Scalar),
            implicit("refreshUrl", Shape::Scalar),
            implicit("scopes", SCOPES),
        ]),
    ),
    explicit(
        "password",
        Shape::Message(&[
            implicit("tokenUrl", Shape::Scalar),
            implicit("refreshUrl", Shape::Scalar),
            implicit("scopes", SCOPES),
        ]),
    ),
    explicit(
        "deviceCode",
        Shape::Message(&[
            explicit("deviceAuthorizationUrl", Shape::Scalar),
            explicit("tokenUrl", Shape::Scalar),
            implicit("refreshUrl", Shape::Scalar),
            explicit("scopes", SCOPES),
        ]),
    ),
];

/// The form of §8.4.1. In ProtoJSON, `null` is another way to leave a member out.
fn specification_form(value: Value, shape: &Shape) -> Value {
    filter_members(value, shape, &|value, member| match member {
        Some((_, _, shape)) if value.is_null() && !matches!(shape, Shape::Opaque) => None,
        Some((_, FieldPresence::Implicit, shape)) => {
            let value = specification_form(value, shape);
            (!is_default(&value)).then_some(value)
        }
        Some((_, FieldPresence::Explicit, shape)) => Some(specification_form(value, shape)),
        None => Some(value),
    })
}

/// The result of a round trip through the proto's types, which drop unknown members and do not distinguish a member
/// with implicit presence at its default from an absent one.
fn sdk_form(value: Value, shape: &Shape) -> Value {
    filter_members(value, shape, &|value, member| {
        let (_, keep, shape) = member?;
        let value = sdk_form(value, shape);
        let dropped = *keep == FieldPresence::Implicit && is_default(&value);
        (!dropped).then_some(value)
    })
}

/// Applies `decide` to each member of each message, also in lists and maps of messages.
fn filter_members(
    value: Value,
    shape: &Shape,
    decide: &dyn Fn(Value, Option<&SchemaMember>) -> Option<Value>,
) -> Value {
    match (value, shape) {
        (Value::Object(members), Shape::Message(schema)) => {
            let decided = members.into_iter().filter_map(|(name, value)| {
                let member = schema.iter().find(|(known, ..)| *known == name);
                Some((name, decide(value, member)?))
            });
            Value::Object(decided.collect())
        }
        (Value::Object(members), Shape::Map(shape)) => Value::Object(
            members.into_iter().map(|(name, value)| (name, filter_members(value, shape, decide))).collect(),
        ),
        (Value::Array(items), Shape::List(shape)) => {
            Value::Array(items.into_iter().map(|item| filter_members(item, shape, decide)).collect())
        }
        (value, _) => value,
    }
}

fn is_default(value: &Value) -> bool {
    match value {
        Value::Null => true,
        Value::Bool(value) => !value,
        Value::Number(number) => number.as_f64() == Some(0.0),
        Value::String(text) => text.is_empty(),
        Value::Array(items) => items.is_empty(),
        Value::Object(members) => members.is_empty(),
    }
}

/// Drops empty strings, lists, objects and nulls at every depth, also those that become empty on the way. Numbers and
/// booleans are never empty.
pub fn without_empties(value: Value) -> Option<Value> {
    let value = match value {
        Value::Object(members) => {
            let full = members.into_iter().filter_map(|(name, value)| Some((name, without_empties(value)?)));
            Value::Object(full.collect())
        }
        Value::Array(items) => Value::Array(items.into_iter().filter_map(without_empties).collect()),
        scalar => scalar,
    };
    let empty = !matches!(value, Value::Bool(_) | Value::Number(_)) && is_default(&value);
    (!empty).then_some(value)
}

#[cfg(test)]
mod tests {
    use super::*;
    use serde_json::json;

    fn check(value: &Value, form: CanonicalForm, expected: &str) {
        assert_eq!(String::from_utf8(card(value, form).unwrap()).unwrap(), expected);
    }

    #[test]
    fn the_worked_example_of_the_specification_comes_out_as_printed() {
        let fragment = json!({
            "name": "Example Agent",
            "description": "",
            "capabilities": {"streaming": false, "pushNotifications": false, "extensions": []},
            "skills": [],
        });
        let printed = r#"{"capabilities":{"pushNotifications":false,"streaming":false},"description":"","name":"Example Agent","skills":[]}"#;
        check(&fragment, CanonicalForm::Specification, printed);
        let sdk = r#"{"capabilities":{"pushNotifications":false,"streaming":false},"name":"Example Agent"}"#;
        check(&fragment, CanonicalForm::Sdk, sdk);
        assert_eq!(unambiguous_card(&fragment), Ok(None));
    }

    #[test]
    fn a_message_that_is_set_stays_though_it_is_empty_and_an_empty_map_does_not() {
        let value =
            json!({"securitySchemes": {"tls": {"mtlsSecurityScheme": {}}}, "securityRequirements": [{"schemes": {}}]});
        check(
            &value,
            CanonicalForm::Specification,
            r#"{"securityRequirements":[{}],"securitySchemes":{"tls":{"mtlsSecurityScheme":{}}}}"#,
        );
        check(&value, CanonicalForm::Sdk, "{}");
    }

    #[test]
    fn parameters_of_an_extension_are_the_agents_own() {
        let value = json!({"capabilities": {"extensions": [
            {"uri": "urn:x", "required": false, "params": {"a": "", "b": null, "c": [0, null, false], "d": {}}},
        ]}});
        let kept =
            r#"{"capabilities":{"extensions":[{"params":{"a":"","b":null,"c":[0,null,false],"d":{}},"uri":"urn:x"}]}}"#;
        check(&value, CanonicalForm::Specification, kept);
        check(
            &value,
            CanonicalForm::Sdk,
            r#"{"capabilities":{"extensions":[{"params":{"c":[0,false]},"uri":"urn:x"}]}}"#,
        );
    }

    #[test]
    fn signatures_are_never_part_of_what_is_signed_and_unknown_members_only_sometimes() {
        let value = json!({"name": "n", "provider": null, "x": {"y": ""}, "signatures": [{"protected": "p"}]});
        check(&value, CanonicalForm::Specification, r#"{"name":"n","x":{"y":""}}"#);
        check(&value, CanonicalForm::Sdk, r#"{"name":"n"}"#);
        check(&value, CanonicalForm::AsReceived, r#"{"name":"n","provider":null,"x":{"y":""}}"#);
    }

    #[test]
    fn a_full_card_has_one_form_that_everybody_agrees_on() {
        let value = json!({"name": "n", "skills": [{"id": "s", "tags": ["t"]}], "capabilities": {"streaming": true}});
        let bytes = unambiguous_card(&value).unwrap().unwrap();
        assert_eq!(bytes, card(&value, CanonicalForm::AsReceived).unwrap());
        assert_eq!(signing_input("eyJ9", b"{}"), b"eyJ9.e30");
    }

    #[test]
    fn an_account_signs_a_digest_of_a_digest() {
        // The vector `empty body`, made by the network's own library.
        let expected = "54b5502948943af1b8d12c339ea0607e918a8c32cdd14ce506fe17803fa13620";
        assert_eq!(hex(&k1_request_digest("bob", 1_700_000_037, b"")), expected);
        assert_ne!(hex(&k1_request_digest("bob", 1_700_000_037, b"\n")), expected);
    }
}
