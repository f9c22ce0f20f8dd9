//! The card and how it is served.

use super::report::ConformanceReport;
use super::{declared, is_of_1_0};
use crate::call::Session;
use http::{HeaderMap, HeaderName, header};
use sabir_client::DiscoveredCard;
use sabir_wire::card::CARD_BYTES_MAX;
use serde_json::Value;
use url::Url;

/// What a card of 1.0 has to say.
const REQUIRED: [&str; 8] = [
    "name",
    "description",
    "version",
    "supportedInterfaces",
    "capabilities",
    "defaultInputModes",
    "defaultOutputModes",
    "skills",
];

pub(super) async fn check(session: &Session, found: &DiscoveredCard, report: &mut ConformanceReport<'_>) {
    let card: Value = serde_json::from_str(found.source_json()).unwrap_or_default();
    report.record("CARD-DISC-001", Ok(()));
    report.record("CARD-STRUCT-001", structure(&card));
    let interfaces = card["supportedInterfaces"].as_array().cloned().unwrap_or_default();
    let any = if interfaces.is_empty() { Err("supportedInterfaces is missing or empty".into()) } else { Ok(()) };
    report.record("CARD-PROTO-001", any);
    if !interfaces.is_empty() {
        report.record(
            "CARD-PROTO-002",
            interfaces.iter().enumerate().try_for_each(|(number, value)| interface(number, value)),
        );
    }
    let usable = if declared(found).is_empty() { Err(offered(&interfaces)) } else { Ok(()) };
    report.record("SABIR-CARD-001", usable);
    headers(session, found, report).await;
}

fn structure(card: &Value) -> Result<(), String> {
    let missing: Vec<&str> = REQUIRED.into_iter().filter(|name| card[*name].is_null()).collect();
    if missing.is_empty() { Ok(()) } else { Err(format!("it has no {}", missing.join(", "))) }
}

fn interface(number: usize, interface: &Value) -> Result<(), String> {
    for name in ["url", "protocolBinding", "protocolVersion"] {
        if interface[name].as_str().is_none_or(str::is_empty) {
            return Err(format!("supportedInterfaces[{number}] has no {name}"));
        }
    }
    let url = interface["url"].as_str().unwrap_or_default();
    // gRPC is often declared as a bare host and port.
    let is_target = interface["protocolBinding"] == "GRPC" && url.contains(':');
    match url.parse::<Url>() {
        Ok(_) => Ok(()),
        Err(_) if is_target => Ok(()),
        Err(error) => Err(format!("supportedInterfaces[{number}].url {url:?} cannot be called: {error}")),
    }
}

fn offered(interfaces: &[Value]) -> String {
    let word = |interface: &Value, name: &str| interface[name].as_str().unwrap_or("-").to_owned();
    let offered: Vec<String> = interfaces
        .iter()
        .map(|one| format!("{} {}", word(one, "protocolBinding"), word(one, "protocolVersion")))
        .filter(|one| !is_of_1_0(one))
        .collect();
    format!("it offers {}", if offered.is_empty() { "nothing".to_owned() } else { offered.join(", ") })
}

/// What helps others to keep the card for a while.
async fn headers(session: &Session, found: &DiscoveredCard, report: &mut ConformanceReport<'_>) {
    const CACHING: [&str; 3] = ["CARD-CACHE-001", "CARD-CACHE-002", "CARD-CACHE-003"];
    let Some(url) = &found.url else {
        return CACHING.into_iter().for_each(|id| report.skip(id, "the card is a file"));
    };
    let page = match session.client.probe().page(url, HeaderMap::new(), CARD_BYTES_MAX).await {
        Ok(page) => page,
        Err(error) => return CACHING.into_iter().for_each(|id| report.skip(id, &error.to_string())),
    };
    let has = |name: HeaderName, needle: &str| match page.headers.get(&name).and_then(|value| value.to_str().ok()) {
        Some(value) if value.contains(needle) => Ok(()),
        Some(value) => Err(format!("{name} is {value:?}")),
        None => Err(format!("there is no {name}")),
    };
    report.record("CARD-CACHE-001", has(header::CACHE_CONTROL, "max-age"));
    report.record("CARD-CACHE-002", has(header::ETAG, ""));
    report.record("CARD-CACHE-003", has(header::LAST_MODIFIED, ""));
}

#[cfg(test)]
mod tests {
    use super::*;
    use serde_json::json;

    #[test]
    fn what_a_card_lacks_is_named() {
        let mut card = json!({"name":"a","description":"b","version":"1","supportedInterfaces":[],"capabilities":{},
            "defaultInputModes":[],"defaultOutputModes":[],"skills":[]});
        assert_eq!(structure(&card), Ok(()));
        card["skills"] = Value::Null;
        assert_eq!(structure(&card), Err("it has no skills".into()));
    }

    #[test]
    fn an_interface_says_where_and_how() {
        let good = json!({"url":"https://a.example","protocolBinding":"JSONRPC","protocolVersion":"1.0"});
        assert_eq!(interface(0, &good), Ok(()));
        let target = json!({"url":"a.example:443","protocolBinding":"GRPC","protocolVersion":"1.0"});
        assert_eq!(interface(0, &target), Ok(()));
        for bad in [json!({}), json!({"url":"/rpc","protocolBinding":"JSONRPC","protocolVersion":"1.0"})] {
            assert!(interface(0, &bad).is_err(), "{bad}");
        }
    }
}
