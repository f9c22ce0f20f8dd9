//! Checking a card against the rules of A2A.

use sabir_client::DiscoveredCard;
use sabir_proto::card::{OAuthFlows, SecurityScheme};
use url::Url;

/// Findings of the reader that are breaches. The others (unknown members, members of other versions) are allowed.
const BREACHES: [&str; 7] = ["missing", "empty", "wrong-type", "scheme", "flows", "version", "url"];

/// Everything that is wrong with a card, a line each.
pub(super) fn faults(found: &DiscoveredCard) -> Vec<String> {
    let mut faults: Vec<String> =
        found.lint.iter().filter(|lint| BREACHES.contains(&lint.id)).map(ToString::to_string).collect();
    let card = &found.card;
    let mut fault = |path: String, what: &str| {
        let line = format!("{path}: {what}");
        if !faults.iter().any(|known| known.starts_with(&format!("{path}: "))) {
            faults.push(line);
        }
    };
    for (name, list) in [
        ("defaultInputModes", card.default_input_modes.len()),
        ("defaultOutputModes", card.default_output_modes.len()),
        ("skills", card.skills.len()),
    ] {
        if list == 0 {
            fault(name.to_owned(), "is required and must not be empty");
        }
    }
    for (index, interface) in card.supported_interfaces.iter().enumerate() {
        let at = format!("supportedInterfaces[{index}]");
        let grpc = interface.protocol_binding.eq_ignore_ascii_case("grpc");
        if !grpc && !is_absolute(&interface.url) {
            fault(format!("{at}.url"), "is not an absolute URL");
        }
        if !is_version(&interface.protocol_version) {
            fault(format!("{at}.protocolVersion"), "is not a version such as 1.0");
        }
        if interface.protocol_binding.trim().is_empty() {
            fault(format!("{at}.protocolBinding"), "is empty");
        }
    }
    let urls = [
        ("documentationUrl", card.documentation_url.as_deref()),
        ("iconUrl", card.icon_url.as_deref()),
        ("provider.url", card.provider.as_ref().map(|provider| provider.url.as_str())),
    ];
    for (name, url) in urls {
        if url.is_some_and(|url| !is_absolute(url)) {
            fault(name.to_owned(), "is not an absolute URL");
        }
    }
    for (name, scheme) in &card.security_schemes {
        let at = format!("securitySchemes.{name}");
        if let SecurityScheme::ApiKey { location, .. } = scheme
            && !["header", "query", "cookie"].contains(&location.as_str())
        {
            fault(format!("{at}.location"), "is neither header nor query nor cookie");
        }
        for (member, url) in addresses(scheme) {
            if !is_absolute(url) {
                fault(format!("{at}.{member}"), "is not an absolute URL");
            }
        }
    }
    let requirements = card.security_requirements.iter().map(|one| ("securityRequirements".to_owned(), one));
    let of_skills = card.skills.iter().enumerate().flat_map(|(index, skill)| {
        skill.security_requirements.iter().map(move |one| (format!("skills[{index}].securityRequirements"), one))
    });
    for (at, requirement) in requirements.chain(of_skills) {
        for name in requirement.schemes.keys().filter(|name| !card.security_schemes.contains_key(*name)) {
            fault(at.clone(), &format!("names the scheme {name}, which securitySchemes does not have"));
        }
    }
    faults
}

/// The addresses of a scheme.
fn addresses(scheme: &SecurityScheme) -> Vec<(&'static str, &str)> {
    match scheme {
        SecurityScheme::OpenIdConnect { open_id_connect_url, .. } => vec![("openIdConnectUrl", open_id_connect_url)],
        SecurityScheme::OAuth2 { flows, .. } => match flows {
            OAuthFlows::AuthorizationCode { authorization_url, token_url, .. } => {
                vec![("flows.authorizationUrl", authorization_url), ("flows.tokenUrl", token_url)]
            }
            OAuthFlows::ClientCredentials { token_url, .. } => vec![("flows.tokenUrl", token_url)],
            OAuthFlows::DeviceCode { device_authorization_url, token_url, .. } => {
                vec![("flows.deviceAuthorizationUrl", device_authorization_url), ("flows.tokenUrl", token_url)]
            }
            OAuthFlows::Implicit { .. } | OAuthFlows::Password { .. } => Vec::new(),
        },
        SecurityScheme::ApiKey { .. } | SecurityScheme::HttpAuth { .. } | SecurityScheme::MutualTls { .. } => {
            Vec::new()
        }
    }
}

fn is_absolute(url: &str) -> bool {
    Url::parse(url).is_ok_and(|url| url.has_host())
}

fn is_version(version: &str) -> bool {
    let parts: Vec<&str> = version.split('.').collect();
    (2..=3).contains(&parts.len()) && parts.iter().all(|part| part.parse::<u16>().is_ok())
}

#[cfg(test)]
mod tests {
    use super::*;

    fn check(card: &serde_json::Value) -> Vec<String> {
        faults(&DiscoveredCard::read(card.to_string().as_bytes(), None, "card").unwrap())
    }

    fn good() -> serde_json::Value {
        serde_json::json!({
            "name": "n", "description": "d", "version": "1", "capabilities": {},
            "supportedInterfaces": [{"url": "https://a.example/rpc", "protocolBinding": "JSONRPC", "protocolVersion": "1.0"}],
            "defaultInputModes": ["text/plain"], "defaultOutputModes": ["text/plain"],
            "skills": [{"id": "s", "name": "s", "description": "d", "tags": ["t"]}],
            "securitySchemes": {"key": {"apiKeySecurityScheme": {"location": "header", "name": "X-Key"}}},
            "securityRequirements": [{"schemes": {"key": {"list": []}}}],
        })
    }

    #[test]
    fn a_good_card_has_no_faults() {
        assert_eq!(check(&good()), Vec::<String>::new());
    }

    #[test]
    fn every_breach_is_named() {
        type CardDefect = fn(&mut serde_json::Value);
        let breaches: [(&str, CardDefect); 7] = [
            ("description", |card| _ = card.as_object_mut().unwrap().remove("description")),
            ("skills", |card| card["skills"] = serde_json::json!([])),
            ("supportedInterfaces[0].url", |card| card["supportedInterfaces"][0]["url"] = "/rpc".into()),
            ("supportedInterfaces[0].protocolVersion", |card| {
                card["supportedInterfaces"][0]["protocolVersion"] = "one".into()
            }),
            ("securitySchemes.key", |card| {
                card["securitySchemes"]["key"]["apiKeySecurityScheme"]["location"] = "trunk".into()
            }),
            ("securityRequirements", |card| {
                card["securityRequirements"] = serde_json::json!([{"schemes": {"other": {}}}])
            }),
            ("iconUrl", |card| card["iconUrl"] = "icon.png".into()),
        ];
        for (path, damage) in breaches {
            let mut card = good();
            damage(&mut card);
            let faults = check(&card);
            assert!(faults.iter().any(|fault| fault.starts_with(path)), "{path}: {faults:?}");
        }
    }
}
