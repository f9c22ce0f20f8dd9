//! A card whose addresses lead to us.

use serde_json::Value;

/// Where an interface is found below our address.
pub(crate) fn path(interface: usize) -> String {
    format!("/i/{interface}")
}

/// The interface a path belongs to, and what follows.
pub(crate) fn split_interface_path(path: &str) -> Option<(usize, &str)> {
    let rest = path.strip_prefix("/i/")?;
    let end = rest.find(['/', '?']).unwrap_or(rest.len());
    Some((rest[..end].parse().ok()?, &rest[end..]))
}

/// A card of 1.0 with only these interfaces, at this address. A signature would not hold any more and is left out.
pub(crate) fn rewritten_card(card: &str, interfaces: &[usize], base: &str) -> String {
    let mut card: Value = serde_json::from_str(card).unwrap_or_default();
    let Some(members) = card.as_object_mut() else { return card.to_string() };
    members.remove("signatures");
    let listed = members.get("supportedInterfaces").and_then(Value::as_array).cloned().unwrap_or_default();
    let ours: Vec<Value> = listed
        .into_iter()
        .enumerate()
        .filter(|(place, _)| interfaces.contains(place))
        .map(|(place, mut interface)| {
            interface["url"] = format!("{base}{}", path(place)).into();
            interface
        })
        .collect();
    // What readers of 0.3 look for in a card that speaks to both: they are shown one address, and no way around it.
    let older = ours.iter().find(|one| one["protocolVersion"].as_str().is_some_and(|v| v.starts_with("0.3")));
    match older.cloned() {
        Some(one) if members.contains_key("url") => {
            members.insert("url".into(), one["url"].clone());
            members.insert("preferredTransport".into(), one["protocolBinding"].clone());
        }
        _ => {
            members.remove("url");
            members.remove("preferredTransport");
            members.remove("protocolVersion");
        }
    }
    members.remove("additionalInterfaces");
    members.insert("supportedInterfaces".into(), ours.into());
    card.to_string()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn paths_lead_back_to_their_interface() {
        assert_eq!(split_interface_path("/i/1/tasks/x:cancel?a=b"), Some((1, "/tasks/x:cancel?a=b")));
        assert_eq!(split_interface_path("/i/12"), Some((12, "")));
        assert_eq!((split_interface_path("/i/x"), split_interface_path("/")), (None, None));
    }

    #[test]
    fn every_address_of_a_card_leads_here() {
        let card = r#"{"name":"a","url":"https://a/old","preferredTransport":"JSONRPC","protocolVersion":"0.3.0","signatures":[{}],
            "additionalInterfaces":[{"url":"https://a/x","transport":"GRPC"}],
            "supportedInterfaces":[{"url":"https://a/g","protocolBinding":"GRPC","protocolVersion":"1.0"},
                {"url":"https://a/r","protocolBinding":"JSONRPC","protocolVersion":"1.0","tenant":"t"}]}"#;
        let text = rewritten_card(card, &[1], "http://127.0.0.1:5");
        assert!(!text.contains("https://a"), "{text}");
        let card: Value = serde_json::from_str(&text).unwrap();
        let expected = serde_json::json!([{"url":"http://127.0.0.1:5/i/1","protocolBinding":"JSONRPC","protocolVersion":"1.0","tenant":"t"}]);
        assert_eq!(card["supportedInterfaces"], expected);
        assert!(card.get("signatures").is_none() && card.get("url").is_none());
    }
}
