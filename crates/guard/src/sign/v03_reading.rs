//! The bytes over which the Python SDK of A2A 0.3 verifies the signature of a card.
//!
//! The SDK reads the card into its own types and writes them again: members that 0.3 does not know are gone, and so is
//! everything empty or at a default of those types, `protocolVersion` among them. Letters beyond ASCII are escaped. No
//! other SDK of 0.3 verifies cards.

use sabir_proto::canon::{self, CanonFault};
use sabir_proto::digest;
use serde_json::{Map, Value};

const CARD: [&str; 17] = [
    "additionalInterfaces",
    "capabilities",
    "defaultInputModes",
    "defaultOutputModes",
    "description",
    "documentationUrl",
    "iconUrl",
    "name",
    "preferredTransport",
    "protocolVersion",
    "provider",
    "security",
    "securitySchemes",
    "skills",
    "supportsAuthenticatedExtendedCard",
    "url",
    "version",
];
const CAPABILITIES: [&str; 4] = ["extensions", "pushNotifications", "stateTransitionHistory", "streaming"];
const SKILL: [&str; 8] = ["description", "examples", "id", "inputModes", "name", "outputModes", "security", "tags"];

/// Without `type`, which the SDK's types have as a default.
const SCHEME: [&str; 8] =
    ["bearerFormat", "description", "flows", "in", "name", "oauth2MetadataUrl", "openIdConnectUrl", "scheme"];

/// The bytes that the SDK verifies; `None` for a card without the members of 0.3.
pub(super) fn reading(card: &Value) -> Result<Option<Vec<u8>>, CanonFault> {
    let Some(members) =
        card.as_object().filter(|card| card.contains_key("protocolVersion") && card.contains_key("url"))
    else {
        return Ok(None);
    };
    let mut kept = select(members, &CARD);
    kept.retain(|name, value| !is_default(name, value));
    if let Some(Value::Object(capabilities)) = kept.get_mut("capabilities") {
        *capabilities = select(capabilities, &CAPABILITIES);
    }
    if let Some(Value::Array(skills)) = kept.get_mut("skills") {
        for skill in skills.iter_mut().filter_map(Value::as_object_mut) {
            *skill = select(skill, &SKILL);
        }
    }
    if let Some(Value::Object(schemes)) = kept.get_mut("securitySchemes") {
        for scheme in schemes.values_mut().filter_map(Value::as_object_mut) {
            *scheme = select(scheme, &SCHEME);
        }
    }
    let canonical = canon::jcs(&digest::without_empties(Value::Object(kept)).unwrap_or_default())?;
    Ok(Some(escape_non_ascii(&canonical)))
}

/// Whether a value is the default in the SDK's types.
fn is_default(name: &str, value: &Value) -> bool {
    matches!((name, value.as_str()), ("protocolVersion", Some("0.3.0")) | ("preferredTransport", Some("JSONRPC")))
}

fn select(members: &Map<String, Value>, known: &[&str]) -> Map<String, Value> {
    let known = members.iter().filter(|(name, _)| known.contains(&name.as_str()));
    known.map(|(name, value)| (name.clone(), value.clone())).collect()
}

/// With everything beyond ASCII as `\uXXXX`; in JSON that can only be within a string.
fn escape_non_ascii(json: &[u8]) -> Vec<u8> {
    let mut text = String::with_capacity(json.len());
    for c in String::from_utf8_lossy(json).chars() {
        if c.is_ascii() {
            text.push(c);
        } else {
            c.encode_utf16(&mut [0; 2]).iter().for_each(|unit| text.push_str(&format!("\\u{unit:04x}")));
        }
    }
    text.into_bytes()
}

#[cfg(test)]
mod tests {
    use super::*;
    use serde_json::json;

    #[test]
    fn a_card_comes_out_as_the_sdk_writes_it() {
        let card = json!({
            "protocolVersion": "0.3.0", "name": "Bücher 😀", "description": "d", "url": "https://a.example/",
            "preferredTransport": "JSONRPC", "version": "1",
            "supportedInterfaces": [
                {"url": "https://a.example/", "protocolBinding": "JSONRPC", "protocolVersion": "1.0"},
            ],
            "additionalInterfaces": [{"url": "https://a.example/", "transport": "HTTP+JSON"}],
            "capabilities": {
                "streaming": false, "pushNotifications": true, "extendedAgentCard": true,
                "extensions": [{"uri": "urn:x", "required": false, "params": {"a": 1, "b": ""}}],
            },
            "securitySchemes": {
                "key": {
                    "type": "apiKey", "in": "header", "name": "X-API-Key",
                    "apiKeySecurityScheme": {"location": "header", "name": "X-API-Key"},
                },
                "b": {"type": "http", "scheme": "Bearer"},
                "m": {"type": "mutualTLS"},
            },
            "security": [{"key": []}, {"b": ["x"]}],
            "defaultInputModes": ["text/plain"], "defaultOutputModes": ["text/plain"],
            "supportsAuthenticatedExtendedCard": true,
            "skills": [{
                "id": "s", "name": "S", "description": "d", "tags": ["t"], "security": [{"key": []}],
                "securityRequirements": [{"schemes": {"key": {}}}],
            }],
            "xpr:account": "myagent",
        });
        // Written by `canonicalize_agent_card` of a2a-sdk 0.3 for this card.
        let expected = r#"{"additionalInterfaces":[{"transport":"HTTP+JSON","url":"https://a.example/"}],"capabilities":{"extensions":[{"params":{"a":1},"required":false,"uri":"urn:x"}],"pushNotifications":true,"streaming":false},"defaultInputModes":["text/plain"],"defaultOutputModes":["text/plain"],"description":"d","name":"B\u00fccher \ud83d\ude00","security":[{"b":["x"]}],"securitySchemes":{"b":{"scheme":"Bearer"},"key":{"in":"header","name":"X-API-Key"}},"skills":[{"description":"d","id":"s","name":"S","tags":["t"]}],"supportsAuthenticatedExtendedCard":true,"url":"https://a.example/","version":"1"}"#;
        assert_eq!(String::from_utf8(reading(&card).unwrap().unwrap()).unwrap(), expected);
        assert_eq!(reading(&json!({"name": "only 1.0"})), Ok(None));
    }
}
