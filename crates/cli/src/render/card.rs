//! Agent cards.

use super::{Fields, Node};
use sabir_proto::Timestamp;
use sabir_wire::card::XprIdentity;

/// The lines that are shown beside a card.
#[derive(Debug, Default)]
pub(crate) struct CardContext<'a> {
    /// The URL or the file it was read from.
    pub(crate) place: Option<&'a str>,
    /// The interface that would be called.
    pub(crate) selected: Option<&'a str>,
    /// `yes`, once it was checked.
    pub(crate) valid: Option<&'a str>,
    /// What became of its signature.
    pub(crate) signature: Option<&'a str>,
    /// What it says of its agent on XPR Network.
    pub(crate) xpr: Option<&'a XprIdentity>,
    pub(crate) verbose: bool,
}

/// A card in the form of A2A 1.0.
pub(crate) fn card(fields: &mut Fields, card: Node<'_>, about: &CardContext<'_>) {
    fields.maybe("Card", about.place);
    fields.field("Name", &card.word("name").unwrap_or_default());
    fields.maybe("Description", card.word("description").as_deref());
    fields.maybe("Version", card.word("version").as_deref());
    fields.maybe("Provider", card.get("provider").and_then(|provider| provider.word("organization")).as_deref());
    let capabilities = card.get("capabilities").unwrap_or(Node::new("{}"));
    let yes = |name: &str| if capabilities.is(name) { "yes" } else { "no" };
    fields.field("Streaming", yes("streaming"));
    fields.field("Push notifications", yes("pushNotifications"));
    fields.field("Extended card", yes("extendedAgentCard"));
    for interface in card.list("supportedInterfaces") {
        fields.field("Interface", &self::interface(interface));
    }
    fields.maybe("Selected", about.selected);
    for (name, scheme) in card.get("securitySchemes").map(Node::members).unwrap_or_default() {
        fields.field("Security scheme", &format!("{name} {}", self::scheme(scheme)));
    }
    for requirement in card.list("securityRequirements") {
        fields.field("Requires", &self::requirement(requirement));
    }
    for extension in capabilities.list("extensions") {
        let uri = extension.word("uri").unwrap_or_default();
        fields.field("Extension", &if extension.is("required") { format!("{uri} required") } else { uri });
    }
    if about.verbose {
        fields.maybe("Documentation", card.word("documentationUrl").as_deref());
        modes(fields, card, "Input modes", "defaultInputModes");
        modes(fields, card, "Output modes", "defaultOutputModes");
    }
    for skill in card.list("skills") {
        let id = skill.word("id").unwrap_or_default();
        fields.field("Skill", format!("{id} {}", skill.word("name").unwrap_or_default()).trim());
        if about.verbose {
            fields.maybe("Skill description", skill.word("description").as_deref());
            modes(fields, skill, "Skill tags", "tags");
        }
    }
    if let Some(xpr) = about.xpr {
        self::xpr(fields, xpr);
    }
    fields.maybe("Valid", about.valid);
    fields.maybe("Signature", about.signature);
}

/// The agent's account, and how far it says it can be trusted; only the chain knows whether that is so.
fn xpr(fields: &mut Fields, xpr: &XprIdentity) {
    fields.field("XPR account", &xpr.account);
    fields.field("XPR protocol", &xpr.protocol);
    fields.maybe("Trust score", xpr.trust_score.map(|score| score.to_string()).as_deref());
    fields.maybe("KYC level", xpr.kyc_level.map(|level| level.to_string()).as_deref());
    fields.maybe("Owner", xpr.owner.as_deref());
    if xpr.registered_at > 0 {
        let seconds = i64::try_from(xpr.registered_at).unwrap_or(i64::MAX);
        fields.field("Registered", &Timestamp::from_millis(seconds.saturating_mul(1000)).to_string());
    }
}

fn modes(fields: &mut Fields, holder: Node<'_>, label: &str, name: &str) {
    let modes: Vec<String> = holder.list(name).into_iter().map(Node::shown).collect();
    fields.maybe(label, Some(&modes.join(", ")));
}

/// `JSONRPC 1.0 https://… tenant=…`
pub(crate) fn interface(interface: Node<'_>) -> String {
    let word = |name: &str| interface.word(name).unwrap_or_else(|| "-".to_owned());
    let mut text = format!("{} {} {}", word("protocolBinding"), word("protocolVersion"), word("url"));
    if let Some(tenant) = interface.word("tenant") {
        text += &format!(" tenant={tenant}");
    }
    text
}

/// `oauth2 device_code`, `apiKey header X-Key`
fn scheme(scheme: Node<'_>) -> String {
    let Some((kind, inner)) = scheme.members().into_iter().find(|(name, _)| name.ends_with("SecurityScheme")) else {
        return "unknown".to_owned();
    };
    let word = |name: &str| inner.word(name).unwrap_or_default();
    let text = match kind.as_str() {
        "apiKeySecurityScheme" => format!("apiKey {} {}", word("location"), word("name")),
        "httpAuthSecurityScheme" => format!("http {} {}", word("scheme"), word("bearerFormat")),
        "oauth2SecurityScheme" => {
            let flows: Vec<String> = inner
                .get("flows")
                .map(Node::members)
                .unwrap_or_default()
                .into_iter()
                .map(|(name, _)| flow(&name))
                .collect();
            format!("oauth2 {}", flows.join(","))
        }
        "openIdConnectSecurityScheme" => format!("openIdConnect {}", word("openIdConnectUrl")),
        "mtlsSecurityScheme" => "mtls".to_owned(),
        _ => kind.clone(),
    };
    text.trim_end().to_owned()
}

/// `deviceCode` is `device_code`, as the authority calls it.
fn flow(name: &str) -> String {
    let mut text = String::new();
    for c in name.chars() {
        if c.is_ascii_uppercase() {
            text.push('_');
        }
        text.push(c.to_ascii_lowercase());
    }
    text
}

/// `staff`, `staff(read,write) + robot`; an empty alternative asks for no credential.
fn requirement(requirement: Node<'_>) -> String {
    let schemes = requirement.get("schemes").map(Node::members).unwrap_or_default();
    let named = schemes.into_iter().map(|(name, scopes)| {
        let scopes: Vec<String> = scopes.list("list").into_iter().map(Node::shown).collect();
        if scopes.is_empty() { name } else { format!("{name}({})", scopes.join(",")) }
    });
    let text = named.collect::<Vec<_>>().join(" + ");
    if text.is_empty() { "nothing".to_owned() } else { text }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_card_shows_all_one_needs_to_call_it() {
        let text = r#"{"name":"Ledger","description":"Reconciles books","version":"3.2.0","provider":{"organization":"Example Ltd","url":"https://x"},
            "capabilities":{"streaming":true,"extendedAgentCard":true,"extensions":[{"uri":"https://e/audit","required":true}]},
            "supportedInterfaces":[{"url":"https://l:8443","protocolBinding":"GRPC","protocolVersion":"1.0"},
                {"url":"https://l/rpc","protocolBinding":"JSONRPC","protocolVersion":"1.0","tenant":"emea"}],
            "securitySchemes":{"staff":{"oauth2SecurityScheme":{"flows":{"deviceCode":{}}}},
                "robot":{"apiKeySecurityScheme":{"location":"header","name":"X-Ledger-Key"}}},
            "securityRequirements":[{"schemes":{"staff":{"list":["read"]}}},{"schemes":{}}],
            "defaultInputModes":["text/plain"],"defaultOutputModes":[],
            "skills":[{"id":"reconcile","name":"Monthly reconciliation","description":"d","tags":["a"]}]}"#;
        let mut fields = Fields::new();
        let about = CardContext {
            place: Some("https://l/card"),
            selected: Some("GRPC 1.0 https://l:8443"),
            ..CardContext::default()
        };
        card(&mut fields, Node::new(text), &about);
        assert_eq!(
            fields.finish(),
            "Card: https://l/card\nName: Ledger\nDescription: Reconciles books\nVersion: 3.2.0\nProvider: Example Ltd\n\
             Streaming: yes\nPush notifications: no\nExtended card: yes\nInterface: GRPC 1.0 https://l:8443\n\
             Interface: JSONRPC 1.0 https://l/rpc tenant=emea\nSelected: GRPC 1.0 https://l:8443\n\
             Security scheme: staff oauth2 device_code\nSecurity scheme: robot apiKey header X-Ledger-Key\n\
             Requires: staff(read)\nRequires: nothing\nExtension: https://e/audit required\n\
             Skill: reconcile Monthly reconciliation\n"
        );
    }
}
