//! Decides which card of an agent elsewhere counts: the one it shows now, or one it showed before.

use crate::agent_probe::{ChosenInterface, SignatureCheck};
use sabir_client::{DiscoveredCard, Error, VersionPolicy, choose_interface};
use sabir_engine::BoxFuture;

/// Checks whether an agent may be called by a card whose first interface is the one to call; the error says why not.
pub type CardCheck<'a> = &'a (dyn Fn(&DiscoveredCard) -> Result<(), String> + Sync);

/// Decides about the cards of one agent. Asked whenever one was fetched, and when none can be.
pub trait CardPolicy: std::fmt::Debug + Send + Sync + 'static {
    /// The card to use, now that this one was found. A card that `may` refuses is never stored.
    fn accept<'a>(
        &'a self,
        found: DiscoveredCard,
        voucher: SignatureCheck,
        may: CardCheck<'a>,
    ) -> BoxFuture<'a, Result<DiscoveredCard, Error>>;

    /// The card to use while none can be fetched.
    fn stored_card(&self) -> Option<DiscoveredCard>;
}

/// The interface of a card that would be called.
pub fn chosen_interface(found: &DiscoveredCard) -> Option<ChosenInterface> {
    let chosen = choose_interface(found, &[], VersionPolicy::Any).ok()?;
    Some(ChosenInterface {
        binding: chosen.binding.name().into(),
        address: chosen.interface.url,
        version: chosen.dialect.name().into(),
    })
}

/// The same card, with the interface first that is called.
#[must_use]
pub fn with_interface_first(mut found: DiscoveredCard, way: &ChosenInterface) -> DiscoveredCard {
    let interfaces = &mut found.card.supported_interfaces;
    let fits = |i: &sabir_proto::card::Interface| {
        i.url == way.address
            && i.protocol_binding.eq_ignore_ascii_case(&way.binding)
            && (i.protocol_version.is_empty() || i.protocol_version.starts_with(&way.version))
    };
    let first = interfaces.iter().position(fits).or_else(|| interfaces.iter().position(|i| i.url == way.address));
    if let Some(first) = first {
        interfaces[..=first].rotate_right(1);
    }
    found
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_interface_that_is_called_comes_first_and_the_others_stay() {
        let one = |binding: &str, version: &str, url: &str| {
            format!(r#"{{"url":"{url}","protocolBinding":"{binding}","protocolVersion":"{version}"}}"#)
        };
        let interfaces =
            [one("GRPC", "1.0", "h:1"), one("JSONRPC", "1.0", "https://h/a"), one("JSONRPC", "0.3.0", "https://h/a")];
        let json = format!(
            r#"{{"name":"n","description":"d","version":"1","capabilities":{{}},"defaultInputModes":["text"],
               "defaultOutputModes":["text"],"skills":[],"supportedInterfaces":[{}]}}"#,
            interfaces.join(",")
        );
        let found = DiscoveredCard::read(json.as_bytes(), None, "h").unwrap();
        let pinned =
            ChosenInterface { binding: "JSONRPC".into(), address: "https://h/a".into(), version: "0.3".into() };
        let found = with_interface_first(found, &pinned);
        assert_eq!(chosen_interface(&found), Some(pinned));
        assert_eq!(found.card.supported_interfaces.len(), 3);
        assert_eq!(found.card.supported_interfaces[1].protocol_binding, "GRPC");
    }
}
