//! Chooses the interface of a card to call, from the card's order, the caller's preferences and what we speak.

use crate::binding::Binding;
use crate::discover::DiscoveredCard;
use crate::{Error, agent_reference};
use sabir_proto::Fault;
use sabir_proto::card::Interface;
use sabir_wire::card::{A2A_PATH, CardSchema, NATIVE_PATH};
use sabir_wire::{Dialect, EndpointPath, version};
use url::Url;

/// Which dialects may be spoken.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub enum VersionPolicy {
    /// The highest that both sides know, and never one before 1.0.
    #[default]
    Highest,
    /// This one alone.
    Exactly(Dialect),
    /// 1.0 where the agent offers it, otherwise the newest older version of A2A that it offers, otherwise agent-native or
    /// XPR where the card is of one of them.
    Newest,
    /// Any dialect that the agent speaks, in the order of its card.
    Any,
}

impl VersionPolicy {
    fn admits(self, dialect: Dialect) -> bool {
        match self {
            Self::Highest => dialect == Dialect::NEWEST,
            Self::Exactly(one) => one == dialect,
            Self::Newest | Self::Any => true,
        }
    }
}

/// The interface that was chosen.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct ChosenInterface {
    /// The interface as the card lists it.
    pub interface: Interface,
    /// How requests travel.
    pub binding: Binding,
    /// The dialect of A2A for this interface.
    pub dialect: Dialect,
    /// The URL that requests are sent to.
    pub url: Url,
    /// Other URLs to try if the first has no agent: agent-native servers answer at one of several paths.
    pub fallback_urls: Vec<Url>,
}

/// Chooses an interface: the first binding in `wishes` that the card offers; otherwise the first entry of the card that
/// we speak.
pub fn choose_interface(
    found: &DiscoveredCard,
    wishes: &[Binding],
    version: VersionPolicy,
) -> Result<ChosenInterface, Error> {
    choose_among(found, wishes, version, |_| true)
}

/// The same for a caller whose credential may be a signature over bodies, which gRPC cannot carry: gRPC is chosen only
/// where the caller asked for nothing else, or the card offers nothing else, and the call then fails.
pub(crate) fn choose_interface_for(
    found: &DiscoveredCard,
    wishes: &[Binding],
    version: VersionPolicy,
    signs_bodies: bool,
) -> Result<ChosenInterface, Error> {
    let insists = !wishes.is_empty() && wishes.iter().all(|wish| *wish == Binding::Grpc);
    if signs_bodies && !insists {
        let others = choose_among(found, wishes, version, |binding| binding != Binding::Grpc);
        if others.is_ok() {
            return others;
        }
    }
    let chosen = choose_interface(found, wishes, version)?;
    if signs_bodies && chosen.binding == Binding::Grpc {
        let why = "the credential is a signature over the body of a request, and gRPC has no place for it";
        return Err(Error::Usage(format!("{why}; call the agent over JSON-RPC or HTTP+JSON, if it offers them")));
    }
    Ok(chosen)
}

fn choose_among(
    found: &DiscoveredCard,
    wishes: &[Binding],
    version: VersionPolicy,
    usable: impl Fn(Binding) -> bool,
) -> Result<ChosenInterface, Error> {
    let offered = &found.card.supported_interfaces;
    let spoken: Vec<(&Interface, Binding, Dialect)> = offered
        .iter()
        .filter_map(|i| Some((i, i.protocol_binding.parse().ok()?, dialect(found.form, i, version)?)))
        .filter(|(_, binding, dialect)| supports_binding(*binding, *dialect) && usable(*binding))
        .collect();
    let mut admitted: Vec<_> = spoken.iter().filter(|(_, _, dialect)| version.admits(*dialect)).collect();
    if version == VersionPolicy::Newest
        && let Some(newest) = admitted.iter().map(|(_, _, dialect)| age(*dialect)).min()
    {
        admitted.retain(|(_, _, dialect)| age(*dialect) == newest);
    }
    let wished = wishes.iter().find_map(|wish| admitted.iter().find(|(_, binding, _)| binding == wish));
    match wished.or_else(|| admitted.first()) {
        Some((interface, binding, dialect)) => resolve_interface(found, interface, *binding, *dialect),
        None if spoken.is_empty() => Err(Error::NoInterface { offered: offered.iter().map(describe).collect() }),
        None => Err(Error::local(Fault::VersionNotSupported(format!(
            "the agent speaks A2A {}{}",
            list(spoken.iter().map(|(_, _, dialect)| dialect.name())),
            match version {
                VersionPolicy::Exactly(wanted) => format!(", not {wanted}"),
                VersionPolicy::Highest | VersionPolicy::Newest | VersionPolicy::Any =>
                    "; older versions are spoken only if asked for".into(),
            }
        )))),
    }
}

/// The dialect of an interface. Cards of older forms tell it by their form; agent-native and XPR cards have a version
/// number of their own, which is not A2A's.
fn dialect(form: CardSchema, interface: &Interface, wanted: VersionPolicy) -> Option<Dialect> {
    match (form, wanted) {
        (CardSchema::Native | CardSchema::Xpr | CardSchema::V01, _) => Some(form.dialect()),
        // A card of that form may be of 0.2 or 0.1, which have no version on it, of agent-native or of XPR. A caller
        // that asks for one of them by name knows which.
        (CardSchema::V03 | CardSchema::V02, VersionPolicy::Exactly(wanted)) if !wanted.features().named_on_cards => {
            Some(wanted)
        }
        _ => match version::dialect_of_version(Some(&interface.protocol_version)) {
            Ok(Some(dialect)) => Some(dialect),
            _ if interface.protocol_version.trim().is_empty() => Some(form.dialect()),
            _ => None,
        },
    }
}

/// The number of newer versions of A2A. The dialects of products count as older than all of them.
fn age(dialect: Dialect) -> u8 {
    dialect.features().newer_versions.unwrap_or(u8::MAX)
}

fn supports_binding(binding: Binding, dialect: Dialect) -> bool {
    let features = dialect.features();
    match binding {
        Binding::JsonRpc => true,
        Binding::HttpJson => features.http_json,
        Binding::Grpc => features.grpc.is_some(),
        Binding::Envelope => features.envelopes,
    }
}

fn resolve_interface(
    found: &DiscoveredCard,
    interface: &Interface,
    binding: Binding,
    dialect: Dialect,
) -> Result<ChosenInterface, Error> {
    let at = found.url.as_ref();
    let bad = |reason: String| Error::CardInvalid {
        at: at.map_or_else(|| "the card".into(), Url::to_string),
        reason: format!("the address {:?} of its interface cannot be called: {reason}", interface.url),
    };
    let url = parse(&interface.url, binding, at).map_err(bad)?;
    let mut addresses = match dialect.features().endpoint {
        EndpointPath::Native => native_addresses(&url, at),
        EndpointPath::A2a => vec![xpr_address(&url)],
        EndpointPath::Root => vec![url],
    };
    let url = addresses.remove(0);
    // Credentials for one origin are not sent to another.
    addresses.retain(|other| other.origin() == url.origin());
    Ok(ChosenInterface { interface: interface.clone(), binding, dialect, url, fallback_urls: addresses })
}

/// Reads an address. gRPC servers of the Python SDK list `host:port` without a scheme; some cards list a path.
fn parse(text: &str, binding: Binding, at: Option<&Url>) -> Result<Url, String> {
    let text = text.trim();
    let parsed = match Url::parse(text) {
        Ok(url) if url.has_host() => Ok(url),
        _ if text.starts_with('/') => match at {
            Some(at) => at.join(text).map_err(|e| e.to_string()),
            None => Err("it is relative, and the card is a file".into()),
        },
        _ if binding == Binding::Grpc => {
            let text = text.strip_prefix("dns:///").unwrap_or(text);
            let secure = Url::parse(&format!("https://{text}")).map_err(|e| e.to_string())?;
            // One port, one protocol: where the card came over HTTPS, gRPC on the same port is inside of TLS as well.
            let as_the_card = at.is_some_and(|at| at.origin() == secure.origin());
            if agent_reference::is_loopback(&secure) && !as_the_card {
                Url::parse(&format!("http://{text}")).map_err(|e| e.to_string())
            } else {
                Ok(secure)
            }
        }
        Ok(_) => Err("it has no host".into()),
        Err(e) => Err(e.to_string()),
    }?;
    match parsed.scheme() {
        _ if !parsed.username().is_empty() || parsed.password().is_some() => Err("it holds credentials".into()),
        "http" | "https" => Ok(parsed),
        other => Err(format!("{other} is not a scheme we speak")),
    }
}

/// Where an agent-native server may be, in the order its own client tries: the card's address where it looks like an
/// endpoint, then the two usual ones below the base of the card, then below the card's address.
fn native_addresses(url: &Url, card: Option<&Url>) -> Vec<Url> {
    let ends = |u: &Url| u.path().trim_end_matches('/').ends_with(A2A_PATH);
    let with = |base: &Url, tail: &str| {
        let mut url = base.clone();
        url.set_path(&format!("{}{tail}", base.path().trim_end_matches('/')));
        url
    };
    let mut list = Vec::new();
    if ends(url) {
        list.push(url.clone());
    }
    if let Some(card) = card {
        let mut base = card.clone();
        let path = card.path();
        base.set_path(path.find("/.well-known/").map_or("", |i| &path[..i]));
        base.set_query(None);
        list.extend([with(&base, NATIVE_PATH), with(&base, A2A_PATH)]);
    }
    // What ends like the long form may be served at the short one, and the other way round.
    if let Some(base) = url.path().trim_end_matches('/').strip_suffix(NATIVE_PATH) {
        let mut root = url.clone();
        root.set_path(base);
        list.push(with(&root, A2A_PATH));
    }
    if !ends(url) {
        list.extend([with(url, NATIVE_PATH), with(url, A2A_PATH)]);
    }
    let mut seen = std::collections::HashSet::new();
    list.retain(|u| seen.insert(u.clone()));
    list
}

/// XPR cards name the agent; its endpoint is below.
fn xpr_address(url: &Url) -> Url {
    let path = url.path().trim_end_matches('/');
    let mut address = url.clone();
    if !path.ends_with(A2A_PATH) {
        address.set_path(&format!("{path}{A2A_PATH}"));
    }
    address
}

fn describe(interface: &Interface) -> String {
    format!("{} {}", interface.protocol_binding, interface.protocol_version).trim().to_owned()
}

fn list<'a>(names: impl Iterator<Item = &'a str>) -> String {
    let mut names: Vec<&str> = names.collect();
    names.dedup();
    names.join(", ")
}

#[cfg(test)]
mod tests {
    use super::*;

    fn card(interfaces: &str) -> DiscoveredCard {
        let json = format!(
            r#"{{"name":"n","description":"d","version":"1","capabilities":{{}},"defaultInputModes":["text"],
               "defaultOutputModes":["text"],"skills":[],"supportedInterfaces":[{interfaces}]}}"#
        );
        DiscoveredCard::read(json.as_bytes(), Some(Url::parse("https://h/.well-known/agent-card.json").unwrap()), "h")
            .unwrap()
    }

    fn interface(binding: &str, version: &str, url: &str) -> String {
        format!(r#"{{"url":"{url}","protocolBinding":"{binding}","protocolVersion":"{version}"}}"#)
    }

    #[test]
    fn the_cards_order_decides_and_a_wish_goes_before_it() {
        let unknown = interface("https://x.example/quic", "1.0", "https://h/q");
        let (grpc, rpc) = (interface("GRPC", "1.0", "h:443"), interface("JSONRPC", "1.0", "https://h/rpc"));
        let found = card(&[unknown, grpc, rpc].join(","));
        let pick = |wishes: &[Binding]| choose_interface(&found, wishes, VersionPolicy::Highest).unwrap().binding;
        assert_eq!(pick(&[]), Binding::Grpc);
        assert_eq!(pick(&[Binding::HttpJson, Binding::JsonRpc]), Binding::JsonRpc);
        // A preferred binding that the card does not offer is skipped.
        assert_eq!(pick(&[Binding::HttpJson]), Binding::Grpc);
        assert_eq!(choose_interface(&found, &[], VersionPolicy::Highest).unwrap().url.as_str(), "https://h/");
    }

    #[test]
    fn an_authority_alone_is_https_unless_it_is_this_machine_and_no_card_says_otherwise() {
        let read =
            |text: &str, at: &str| parse(text, Binding::Grpc, Some(&Url::parse(at).unwrap())).unwrap().to_string();
        assert_eq!(read("h:443", "http://h/"), "https://h/");
        assert_eq!(read("127.0.0.1:50051", "http://127.0.0.1:50051/"), "http://127.0.0.1:50051/");
        assert_eq!(read("127.0.0.1:50051", "https://127.0.0.1:4000/"), "http://127.0.0.1:50051/");
        assert_eq!(
            read("127.0.0.1:4000", "https://127.0.0.1:4000/.well-known/agent-card.json"),
            "https://127.0.0.1:4000/"
        );
    }

    #[test]
    fn a_signature_over_bodies_goes_where_there_are_bodies() {
        let (grpc, rpc) = (interface("GRPC", "1.0", "h:443"), interface("JSONRPC", "1.0", "https://h/rpc"));
        let both = card(&[grpc.clone(), rpc].join(","));
        let pick = |found: &DiscoveredCard, wishes: &[Binding]| {
            choose_interface_for(found, wishes, VersionPolicy::Highest, true)
        };
        assert_eq!(pick(&both, &[]).unwrap().binding, Binding::JsonRpc);
        assert_eq!(pick(&both, &[Binding::Grpc, Binding::JsonRpc]).unwrap().binding, Binding::JsonRpc);
        assert_eq!(choose_interface_for(&both, &[], VersionPolicy::Highest, false).unwrap().binding, Binding::Grpc);
        for refused in [pick(&both, &[Binding::Grpc]), pick(&card(&grpc), &[]), pick(&card(&grpc), &[Binding::JsonRpc])]
        {
            assert!(matches!(&refused, Err(Error::Usage(why)) if why.contains("gRPC has no place")), "{refused:?}");
        }
        // A faulty card is still reported as such.
        let old = card(&interface("JSONRPC", "0.3.0", "https://h/rpc"));
        assert!(matches!(pick(&old, &[]), Err(Error::Fault { fault: Fault::VersionNotSupported(_), .. })));
    }

    #[test]
    fn nothing_before_1_0_unless_asked_for() {
        let found = card(&interface("JSONRPC", "0.3.0", "https://h/rpc"));
        let error = choose_interface(&found, &[], VersionPolicy::Highest).unwrap_err();
        assert!(
            matches!(&error, Error::Fault { fault: Fault::VersionNotSupported(_), transport: None, .. }),
            "{error}"
        );
        assert_eq!(choose_interface(&found, &[], VersionPolicy::Exactly(Dialect::V03)).unwrap().dialect, Dialect::V03);
        assert_eq!(choose_interface(&found, &[], VersionPolicy::Any).unwrap().dialect, Dialect::V03);
        let strange = card(&interface("carrier-pigeon", "1.0", "https://h/"));
        assert!(
            matches!(choose_interface(&strange, &[], VersionPolicy::Any), Err(Error::NoInterface { offered }) if offered == ["carrier-pigeon 1.0"])
        );
    }

    #[test]
    fn the_newest_dialect_of_an_agent_is_found_also_where_it_is_no_version_of_a2a() {
        for (form, dialect) in
            [(CardSchema::Native, Dialect::Native), (CardSchema::Xpr, Dialect::Xpr), (CardSchema::V01, Dialect::V01)]
        {
            let mut found = card(&interface("JSONRPC", "", "https://h/a2a"));
            found.form = form;
            assert_eq!(choose_interface(&found, &[], VersionPolicy::Newest).unwrap().dialect, dialect);
            assert!(choose_interface(&found, &[], VersionPolicy::Highest).is_err());
        }
    }

    #[test]
    fn an_agent_native_server_is_looked_for_where_its_own_client_looks() {
        let card = Url::parse("https://h/app/.well-known/agent-card.json").unwrap();
        let look = |url: &str| -> Vec<String> {
            let url = Url::parse(url).unwrap();
            native_addresses(&url, Some(&card)).iter().map(|u| u.path().to_owned()).collect()
        };
        assert_eq!(look("https://h/x/a2a"), ["/x/a2a", "/app/_agent-native/a2a", "/app/a2a"]);
        assert_eq!(look("https://h/rpc"), ["/app/_agent-native/a2a", "/app/a2a", "/rpc/_agent-native/a2a", "/rpc/a2a"]);
        assert_eq!(look("https://h/app"), ["/app/_agent-native/a2a", "/app/a2a"]);
    }
}
