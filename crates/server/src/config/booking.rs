//! `[network]`: the booking network of this server. Without the section, the server has no path `/a2a/v1`.

use super::agent::{AgentConfig, CapabilitiesConfig, CardConfig, Kind, SkillConfig};
use super::network_peers::{CoverageConfig, PeerConfig};
use super::payment::{BillingConfig, PaymentsConfig};
use sabir_guard::config::SecretReference;
use sabir_network::NetworkTerms;
use sabir_network::import::percent_to_basis_points;
use schemars::JsonSchema;
use serde::Deserialize;
use std::path::PathBuf;

/// The name of the agent that stands for the network.
pub const AGENT: &str = "network";

/// `[network]`: the booking network.
#[derive(Debug, Clone, PartialEq, Deserialize, JsonSchema)]
#[serde(default, deny_unknown_fields)]
pub struct NetworkConfig {
    /// The id of the network, to which envelopes are addressed.
    pub id: String,
    /// The display name of the network.
    pub name: String,
    /// The version that the network reports.
    pub version: String,
    /// A file of venues that is imported at every start.
    pub venues: Option<PathBuf>,
    /// The referral fee in per cent, for venues without one of their own.
    pub fee_pct: f64,
    /// The price of a confirmed booking, in US cents.
    pub confirm_cents: u32,
    /// The key that signs envelopes, as `env:NAME` or `file:PATH`.
    pub signing_key: Option<SecretReference>,
    /// Whether it is also served at the root.
    pub default: bool,
    /// Which payments are accepted.
    pub payments: PaymentsConfig,
    /// The service that bills the counted bookings.
    pub billing: Option<BillingConfig>,
    /// How many times an envelope may be forwarded, at most 8.
    pub hops_max: usize,
    /// Neighbouring networks, and agents of venues that need a key.
    pub peer: Vec<PeerConfig>,
    /// The places and categories that its record states.
    pub coverage: CoverageConfig,
}

impl Default for NetworkConfig {
    fn default() -> Self {
        let terms = NetworkTerms::default();
        Self {
            id: terms.id,
            name: "Booking network".into(),
            version: terms.version,
            venues: None,
            fee_pct: 7.0,
            confirm_cents: terms.confirm_cents,
            signing_key: None,
            default: false,
            payments: PaymentsConfig::default(),
            billing: None,
            hops_max: sabir_network::via::HOPS_MAX,
            peer: Vec::new(),
            coverage: CoverageConfig::default(),
        }
    }
}

impl NetworkConfig {
    /// The terms of the network. An error names a value that is not legal.
    pub(crate) fn terms(&self) -> Result<NetworkTerms, String> {
        let id = self.id.as_str();
        let is_word = |text: &str| !text.is_empty() && !text.contains(|c: char| c.is_whitespace() || c.is_control());
        if !id.starts_with("network:") || !is_word(&id["network:".len()..]) || id.chars().count() > 256 {
            return Err(format!("network.id = {id:?} is not network: and a word, such as \"network:agnt\""));
        }
        let fee = percent_to_basis_points(self.fee_pct)
            .ok_or_else(|| format!("network.fee_pct = {} is no share in per cent, such as 7.0", self.fee_pct))?;
        if self.version.trim().is_empty() || self.version.chars().any(char::is_control) {
            return Err("network.version: must be a word, such as \"1.0\"".into());
        }
        Ok(NetworkTerms { id: self.id.clone(), version: self.version.clone(), fee, confirm_cents: self.confirm_cents })
    }

    /// The `[[agent]]` section of the network. The server makes the agent behind it.
    pub(crate) fn section(&self) -> AgentConfig {
        let skills = sabir_network::skills().into_iter().map(SkillConfig::from).collect();
        let modes = vec!["application/json".to_owned(), "text/plain".to_owned()];
        let description = "Finds venues, books them and tracks bookings: network.ping, venue.list, booking.search, \
                           booking.confirm and booking.status, each with a data part or in plain words.";
        AgentConfig {
            default: self.default,
            card: CardConfig {
                name: Some(self.name.clone()),
                description: Some(description.into()),
                version: Some(self.version.clone()),
                skills,
                input_modes: modes.clone(),
                output_modes: modes,
                // Subscribers get their notifications like all push notifications.
                capabilities: CapabilitiesConfig { push_notifications: true, ..CapabilitiesConfig::default() },
                ..CardConfig::default()
            },
            ..AgentConfig::new(AGENT, Kind::Echo)
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_cannot_be_meant_is_named() {
        let usual = NetworkConfig::default();
        assert_eq!(usual.terms().unwrap().fee, 700);
        let with = |change: fn(&mut NetworkConfig)| {
            let mut config = NetworkConfig::default();
            change(&mut config);
            config.terms().unwrap_err()
        };
        assert!(with(|c| c.id = "agnt".into()).contains("network.id"));
        assert!(with(|c| c.id = "network:".into()).contains("network.id"));
        assert!(with(|c| c.id = "network:a b".into()).contains("network.id"));
        assert!(with(|c| c.fee_pct = 101.0).contains("network.fee_pct"));
        assert!(with(|c| c.fee_pct = f64::NAN).contains("network.fee_pct"));
        assert!(with(|c| c.version = " ".into()).contains("network.version"));
    }

    #[test]
    fn its_skills_are_its_intents() {
        let section = NetworkConfig::default().section();
        let ids: Vec<&str> = section.card.skills.iter().map(|skill| skill.id.as_str()).collect();
        assert_eq!(
            ids,
            ["network.ping", "venue.list", "booking.search", "booking.confirm", "booking.status", "payment.authorize"]
        );
    }
}
