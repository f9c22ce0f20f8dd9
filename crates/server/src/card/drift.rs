//! Compares a card with the one before it, and decides which changes are significant.

use sabir_gateway::{ChosenInterface, DiscoveredCard, SignatureCheck, VendorProfile};
use sabir_proto::{AgentCard, AgentName, Timestamp, canon};
use sabir_store::{CardObservation, CardState, PinnedInterface, StoredCard};
use serde_json::Value;
use sha2::{Digest as _, Sha256};
use url::Url;

/// Significant changes: what an agent can do, which credentials it asks for, its address, and who signs.
const SIGNIFICANT: [&str; 4] = ["skills", "auth", "url", "signer"];

/// The digest of a card's content. Signatures do not count: most differ each time they are made.
pub(crate) fn digest(json: &str) -> String {
    let canonical = canon::read(json).ok().and_then(|mut card| {
        if let Value::Object(members) = &mut card {
            members.remove("signatures");
        }
        canon::jcs(&card).ok()
    });
    let hash = Sha256::digest(canonical.as_deref().unwrap_or(json.as_bytes()));
    sabir_proto::digest::hex(&hash)
}

/// A fetched card, in the form in which it is stored.
pub(crate) fn observation(
    agent: &AgentName,
    found: &DiscoveredCard,
    check: &SignatureCheck,
    way: ChosenInterface,
    before: Option<&StoredCard>,
    at: Timestamp,
) -> CardObservation {
    let ChosenInterface { binding, address, version } = way;
    let pin = PinnedInterface { binding, address, version, signer: check.signer.clone() };
    let changes = before.map(|before| changes(before, &found.card, &pin)).unwrap_or_default();
    CardObservation {
        agent: agent.clone(),
        at,
        url: found.url.as_ref().map(Url::to_string),
        card: found.source_json().to_owned(),
        digest: digest(found.source_json()),
        pin,
        changes: changes.into_iter().map(str::to_owned).collect(),
        state: CardState::Used,
    }
}

/// Whether a card with these changes is held, if changes are to be held.
pub(crate) fn is_significant(changes: &[String]) -> bool {
    changes.iter().any(|change| SIGNIFICANT.contains(&change.as_str()))
}

/// A stored card, as it was fetched.
pub(crate) fn read_kept(kept: &StoredCard) -> Option<DiscoveredCard> {
    let url = kept.observation.url.as_deref().and_then(|url| Url::parse(url).ok());
    let way = pinned_interface(&kept.observation.pin);
    let read = DiscoveredCard::read(kept.observation.card.as_bytes(), url, "the registry");
    let read =
        read.inspect_err(|error| tracing::error!(agent = %kept.observation.agent, %error, "a kept card is no card"));
    Some(sabir_gateway::with_interface_first(read.ok()?, &way))
}

/// Where the card of an agent is: at its URL, or where its vendor serves it.
pub(crate) fn card_location(url: &str, profile: Option<&str>) -> String {
    let card = Url::parse(url).ok().and_then(|url| {
        let named = profile.and_then(|name| VendorProfile::by_name(name).ok());
        named.or_else(|| VendorProfile::for_url(&url))?.card_url(&url)
    });
    card.map_or_else(|| url.to_owned(), Into::into)
}

/// Whether a card was fetched from the present location of its agent. A card from another location is history: the name
/// is the same, but another agent may answer to it.
pub(crate) fn is_from(kept: &StoredCard, place: &str) -> bool {
    let (Some(card), Ok(place)) =
        (kept.observation.url.as_deref().and_then(|url| Url::parse(url).ok()), Url::parse(place))
    else {
        return false;
    };
    // A card covers everything below its path; a card at the root covers the whole host.
    let path = card.path();
    let root = path.split("/.well-known/").next().filter(|root| *root != path).unwrap_or(path);
    let root = root.trim_end_matches('/');
    let below = |path: &str| path == root || path.strip_prefix(root).is_some_and(|rest| rest.starts_with('/'));
    // One URL may serve the cards of several agents.
    let is_other = place.query().is_some() && card.query() != place.query();
    card.origin() == place.origin()
        && !is_other
        && (root.is_empty() || below(place.path()) || path.starts_with(place.path()))
}

/// The interface that was pinned.
pub(crate) fn pinned_interface(pin: &PinnedInterface) -> ChosenInterface {
    ChosenInterface { binding: pin.binding.clone(), address: pin.address.clone(), version: pin.version.clone() }
}

fn changes(before: &StoredCard, now: &AgentCard, pin: &PinnedInterface) -> Vec<&'static str> {
    let Some(was) = read_kept(before) else { return vec!["url"] };
    let mut was = was.card;
    let mut sorted = now.clone();
    // The order of interfaces is their preference, and the pinned one was put first.
    for card in [&mut was, &mut sorted] {
        card.supported_interfaces.sort_by(|a, b| {
            (&a.url, &a.protocol_binding, &a.protocol_version).cmp(&(&b.url, &b.protocol_binding, &b.protocol_version))
        });
    }
    let mut changes = Vec::new();
    let mut note = |is_other: bool, what: &'static str| {
        if is_other {
            changes.push(what);
        }
    };
    note(was.skills != sorted.skills, "skills");
    let auth = |card: &AgentCard| (card.security_schemes.clone(), card.security_requirements.clone());
    note(auth(&was) != auth(&sorted), "auth");
    note(was.supported_interfaces != sorted.supported_interfaces, "url");
    note(before.observation.pin.signer != pin.signer, "signer");
    note(was.capabilities != sorted.capabilities, "capabilities");
    let modes = |card: &AgentCard| (card.default_input_modes.clone(), card.default_output_modes.clone());
    note(modes(&was) != modes(&sorted), "modes");
    note((&was.name, &was.description) != (&sorted.name, &sorted.description), "words");
    note(was.version != sorted.version, "version");
    changes
}

#[cfg(test)]
mod tests {
    use super::*;

    fn json(skill: &str, url: &str, description: &str) -> String {
        format!(
            r#"{{"name":"n","description":"{description}","version":"1","capabilities":{{}},"defaultInputModes":["text"],
               "defaultOutputModes":["text"],"skills":[{{"id":"{skill}","name":"s","description":"d","tags":[]}}],
               "supportedInterfaces":[{{"url":"{url}","protocolBinding":"JSONRPC","protocolVersion":"1.0"}}]}}"#
        )
    }

    fn kept(json: &str) -> StoredCard {
        let found = DiscoveredCard::read(json.as_bytes(), None, "here").unwrap();
        let voucher = SignatureCheck { signer: None, summary: String::new(), is_invalid: false };
        let agent = AgentName::parse("a").unwrap();
        let way = sabir_gateway::chosen_interface(&found).unwrap();
        StoredCard {
            number: 1,
            observation: observation(&agent, &found, &voucher, way, None, Timestamp::from_millis(0)),
        }
    }

    #[test]
    fn what_is_other_is_named_and_what_matters_is_told_apart() {
        let before = json("book", "https://h/a", "d");
        let check = |after: &str, signer: Option<&str>, expected: &[&str], grave: bool| {
            let (before, after) = (kept(&before), kept(after));
            let card = read_kept(&after).unwrap().card;
            let pin = PinnedInterface { signer: signer.map(str::to_owned), ..after.observation.pin.clone() };
            let said: Vec<String> = changes(&before, &card, &pin).into_iter().map(str::to_owned).collect();
            assert_eq!(said, expected);
            assert_eq!(is_significant(&said), grave);
        };
        check(&before, None, &[], false);
        check(&json("book", "https://h/a", "other"), None, &["words"], false);
        check(&json("pay", "https://h/a", "d"), None, &["skills"], true);
        check(&json("book", "https://evil/a", "d"), None, &["url"], true);
        check(&before, Some("k2"), &["signer"], true);
    }

    #[test]
    fn a_card_is_of_the_place_where_it_was_found() {
        let card = |url: &str| {
            let mut kept = kept(&json("book", "https://h/a", "d"));
            kept.observation.url = Some(url.to_owned());
            kept
        };
        for (found, place, is) in [
            ("http://h:1/.well-known/agent-card.json", "http://h:1", true),
            ("http://h:1/.well-known/agent-card.json", "http://h:2", false),
            ("http://h:1/.well-known/agent-card.json", "https://h:1", false),
            ("http://h:1/agents/a/.well-known/agent-card.json", "http://h:1/agents/a", true),
            ("http://h:1/agents/a/.well-known/agent-card.json", "http://h:1/agents/ab", false),
            ("http://h:1/agents/a/.well-known/agent-card.json", "http://h:1/agents/b", false),
            ("http://h:1/.well-known/agent-card.json", "http://h:1/agents/b", true),
            ("http://h:1/cards/a.json", "http://h:1/cards/a.json", true),
            ("http://h:1/cards/a.json", "http://h:1/cards/b.json", false),
            ("http://h:1/.well-known/agent-card.json?of=a", "http://h:1/.well-known/agent-card.json?of=a", true),
            ("http://h:1/.well-known/agent-card.json?of=a", "http://h:1/.well-known/agent-card.json?of=b", false),
        ] {
            assert_eq!(is_from(&card(found), place), is, "{found} at {place}");
        }
    }

    #[test]
    fn a_signature_and_white_space_are_no_news() {
        let plain = r#"{"name":"n","b":1}"#;
        assert_eq!(
            digest(plain),
            digest(r#"{ "b": 1, "name": "n", "signatures": [{"protected":"x","signature":"y"}] }"#)
        );
        assert_ne!(digest(plain), digest(r#"{"name":"m","b":1}"#));
    }
}
