//! `[[network.peer]]` and `[network.coverage]`: the neighbouring networks, and what this network covers.

use sabir_gateway::EnvelopeRoute;
use sabir_guard::authenticator::SecretResolver;
use sabir_guard::authn::agnt::{KeyDerivation, KeyRing};
use sabir_guard::config::SecretReference;
use sabir_network::record::Coverage;
use sabir_network::route::ConfiguredPeer;
use schemars::JsonSchema;
use serde::Deserialize;
use std::sync::Arc;
use url::Url;

/// `[[network.peer]]`: another network, or the agent of a venue that needs a key.
#[derive(Debug, Clone, PartialEq, Eq, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields)]
pub struct PeerConfig {
    /// The id: `network:name`, or the agent id of a venue.
    pub id: String,
    /// The URL for envelopes, such as `https://other.example/a2a/v1`. Absent for a venue, its `endpoint` is used.
    #[serde(default)]
    pub url: Option<String>,
    /// A ClawPulse gateway with an inbox for it, in place of `url`; `key` is then our key at the gateway.
    #[serde(default)]
    pub clawpulse: Option<String>,
    /// The API key that it issued to this network, as `env:NAME` or `file:PATH`.
    #[serde(default)]
    pub key: Option<SecretReference>,
    /// The signing key for its envelopes, if it differs from that of `[auth.agnt]`.
    #[serde(default)]
    pub signing_key: Option<SecretReference>,
    /// Whether it accepts forwarded envelopes.
    #[serde(default = "yes")]
    pub via: bool,
    /// Whether its registry is synced.
    #[serde(default = "yes")]
    pub registry: bool,
}

const fn yes() -> bool {
    true
}

/// `[network.coverage]`: what the network covers, as its record states.
#[derive(Debug, Clone, PartialEq, Eq, Default, Deserialize, JsonSchema)]
#[serde(default, deny_unknown_fields)]
pub struct CoverageConfig {
    /// Kinds of venues, such as `restaurant`.
    pub categories: Vec<String>,
    /// Districts of cities.
    pub areas: Vec<String>,
    /// Names of the cities.
    pub cities: Vec<String>,
    /// Names of the countries.
    pub countries: Vec<String>,
}

impl From<CoverageConfig> for Coverage {
    fn from(CoverageConfig { categories, areas, cities, countries }: CoverageConfig) -> Self {
        Self { categories, areas, cities, countries }
    }
}

impl PeerConfig {
    /// The peer that it describes. `usual` is the signing key for a peer without one of its own.
    pub(crate) fn to_peer(
        &self,
        secrets: &dyn SecretResolver,
        usual: Option<&Arc<KeyRing>>,
    ) -> Result<ConfiguredPeer, String> {
        let named = |what: &str, problem: String| format!("network.peer {:?}: {what}: {problem}", self.id);
        let reveal = |what: &str, reference: &SecretReference| {
            let found = reference.resolve(what).and_then(|found| secrets.resolve(&found));
            found.map_err(|problem| named(what, problem))
        };
        let url = |what: &str, text: &String| {
            let url = Url::parse(text).map_err(|error| named(what, error.to_string()))?;
            let plain = url.username().is_empty() && url.password().is_none() && url.has_host();
            match url.scheme() {
                "http" | "https" if plain => Ok(url),
                _ => Err(named(what, "must be an http or https URL without a name and a password in it".into())),
            }
        };
        let key = self.key.as_ref().map(|key| reveal("key", key)).transpose()?;
        let ring = match &self.signing_key {
            Some(reference) => KeyRing::new(&reveal("signing_key", reference)?, KeyDerivation::Raw)
                .map(Arc::new)
                .map_err(|fault| named("signing_key", fault.to_string()))?,
            None => usual.cloned().ok_or_else(|| {
                named("signing_key", "envelopes to it are signed; give it a key, or [auth.agnt] one".into())
            })?,
        };
        let at = self.url.as_ref().map(|text| url("url", text)).transpose()?;
        let gateway = self.clawpulse.as_ref().map(|text| url("clawpulse", text)).transpose()?;
        let is_network = self.id.starts_with("network:");
        let registry = match &at {
            Some(at) if self.registry && is_network => at.join("/registry/v1").ok(),
            _ => None,
        };
        let mail = match (at, gateway, key.clone()) {
            (Some(_), Some(_), _) => return Err(named("clawpulse", "give this or url, not both".into())),
            (None, Some(gateway), Some(key)) => Some(EnvelopeRoute::ClawPulse { gateway, key }),
            (None, Some(_), None) => return Err(named("key", "a gateway wants our key".into())),
            (Some(at), None, key) => Some(EnvelopeRoute::Direct { endpoint: at, key }),
            (None, None, _) if is_network => return Err(named("url", "a network has one".into())),
            (None, None, _) => None,
        };
        Ok(ConfiguredPeer { id: self.id.clone(), route: mail, key, ring, accepts_forwarded: self.via, registry })
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use sabir_proto::Secret;
    use sabir_store::SecretRef;

    struct FixedSecret;

    impl SecretResolver for FixedSecret {
        fn resolve(&self, _: &SecretRef) -> Result<Secret, String> {
            Ok(Secret::new("s".repeat(32)))
        }
    }

    fn read(text: &str) -> Result<ConfiguredPeer, String> {
        let peer: PeerConfig = toml::from_str(text).map_err(|error| error.to_string())?;
        peer.to_peer(&FixedSecret, None)
    }

    #[test]
    fn a_network_has_an_address_a_key_and_a_registry() {
        let network = read(
            "id = \"network:b\"\nurl = \"https://b.example/a2a/v1\"\nkey = \"env:KEY\"\nsigning_key = \"env:SIGN\"",
        );
        let network = network.unwrap();
        assert_eq!(network.registry.unwrap().as_str(), "https://b.example/registry/v1");
        assert!(network.accepts_forwarded && matches!(network.route, Some(EnvelopeRoute::Direct { key: Some(_), .. })));
        let venue = read("id = \"venue_luigis\"\nkey = \"env:KEY\"\nsigning_key = \"env:SIGN\"").unwrap();
        assert!(venue.route.is_none() && venue.key.is_some() && venue.registry.is_none());
        let inbox =
            "id = \"venue_x\"\nclawpulse = \"https://cp.example\"\nkey = \"env:KEY\"\nsigning_key = \"env:SIGN\"";
        assert!(matches!(read(inbox).unwrap().route, Some(EnvelopeRoute::ClawPulse { .. })));
    }

    #[test]
    fn what_cannot_be_meant_is_named() {
        for (text, says) in [
            ("id = \"network:b\"\nsigning_key = \"env:S\"", "url"),
            ("id = \"network:b\"\nurl = \"ftp://b\"\nsigning_key = \"env:S\"", "url"),
            ("id = \"network:b\"\nurl = \"https://b/a2a/v1\"", "signing_key"),
            ("id = \"v\"\nclawpulse = \"https://c\"\nsigning_key = \"env:S\"", "key"),
            (
                "id = \"v\"\nurl = \"https://v\"\nclawpulse = \"https://c\"\nkey = \"env:K\"\nsigning_key = \"env:S\"",
                "clawpulse",
            ),
            ("id = \"v\"\nsecret = \"x\"", "unknown field"),
        ] {
            let problem = read(text).unwrap_err();
            assert!(problem.contains(says), "{problem}");
        }
    }
}
