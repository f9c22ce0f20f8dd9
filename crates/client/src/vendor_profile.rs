//! Vendors whose agents deviate from A2A, one table row each.
//!
//! A profile says where the card is, whether fetching it needs credentials, which header takes an API key that no
//! scheme of the card covers, and which dialect is spoken without a card. The card decides everything else. A URL that
//! only one vendor uses selects the profile by itself.
//!
//! Each row follows the documentation of its vendor. Absent on purpose: vendors without such documentation.

use sabir_wire::Dialect;
use url::Url;

/// The well-known paths of cards, in the order in which they are tried: since 0.3, and before.
pub const WELL_KNOWN: [&str; 2] = ["/.well-known/agent-card.json", "/.well-known/agent.json"];

/// The deviations of a vendor from A2A.
#[derive(Debug)]
pub struct VendorProfile {
    /// The name of the profile in configurations.
    pub name: &'static str,
    /// The vendor or product whose agents the profile describes.
    pub vendor: &'static str,
    /// The form of the vendor's URLs.
    pub url: &'static str,
    card_location: CardLocation,
    /// The server returns the card only with the agent's credentials, which go to the host of the agent's URL.
    pub card_needs_credentials: bool,
    /// The header for an API key, if the card declares no place for it.
    pub key_header: Option<&'static str>,
    /// The dialect of agents without a card.
    pub dialect_without_card: Option<Dialect>,
    matches_url: fn(&Url) -> bool,
}

/// The place of a card.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum CardLocation {
    /// At one of the well-known paths.
    WellKnown,
    /// At this path below the agent's URL, with the query of that URL.
    Below(&'static str),
    /// At the well-known path of the host, with the last path segment of the agent's URL as this parameter.
    WellKnownWithId(&'static str),
}

/// Every profile, in the order of listings.
pub const PROFILES: [VendorProfile; 7] = [
    VendorProfile {
        name: "plain",
        vendor: "every agent that follows A2A",
        url: "https://HOST[/PATH]",
        card_location: CardLocation::WellKnown,
        card_needs_credentials: false,
        key_header: None,
        dialect_without_card: None,
        matches_url: |_| false,
    },
    VendorProfile {
        name: "foundry",
        vendor: "Microsoft Foundry",
        url: "https://NAME.services.ai.azure.com/api/projects/PROJECT/agents/AGENT/endpoint/protocols/a2a",
        card_location: CardLocation::Below("/agentCard/v1.0"),
        card_needs_credentials: true,
        key_header: None,
        dialect_without_card: None,
        matches_url: |url| host_ends(url, ".services.ai.azure.com") && path_ends(url, "/endpoint/protocols/a2a"),
    },
    VendorProfile {
        name: "agent-engine",
        vendor: "Agent Engine of Google Cloud",
        url: "https://REGION-aiplatform.googleapis.com/v1beta1/projects/…/reasoningEngines/ID/a2a",
        card_location: CardLocation::Below("/v1/card"),
        card_needs_credentials: true,
        key_header: None,
        dialect_without_card: None,
        matches_url: |url| {
            let is_engine = url.path().contains("/reasoningEngines/") && path_ends(url, "/a2a");
            host_ends(url, "aiplatform.googleapis.com") && is_engine
        },
    },
    VendorProfile {
        name: "agentcore",
        vendor: "Amazon Bedrock AgentCore Runtime",
        url: "https://bedrock-agentcore.REGION.amazonaws.com/runtimes/ARN/invocations",
        card_location: CardLocation::Below("/.well-known/agent-card.json"),
        card_needs_credentials: true,
        key_header: None,
        dialect_without_card: None,
        matches_url: |url| {
            let is_runtime = url.path().starts_with("/runtimes/") && path_ends(url, "/invocations");
            let host = url.host_str().unwrap_or_default();
            host.starts_with("bedrock-agentcore.") && host_ends(url, ".amazonaws.com") && is_runtime
        },
    },
    VendorProfile {
        name: "langsmith",
        vendor: "Agent Server of LangSmith",
        url: "https://HOST/a2a/ASSISTANT",
        card_location: CardLocation::WellKnownWithId("assistant_id"),
        card_needs_credentials: true,
        key_header: Some("x-api-key"),
        dialect_without_card: None,
        // Deployments have their own hosts.
        matches_url: |_| false,
    },
    VendorProfile {
        name: "agent-native",
        vendor: "apps of agent-native",
        url: "https://HOST[/APP]",
        card_location: CardLocation::WellKnown,
        card_needs_credentials: false,
        key_header: None,
        dialect_without_card: Some(Dialect::Native),
        matches_url: |_| false,
    },
    VendorProfile {
        name: "xpr",
        vendor: "agents of XPR Network",
        url: "https://HOST[/PATH], as it is registered on the chain",
        card_location: CardLocation::Below("/.well-known/agent.json"),
        card_needs_credentials: false,
        key_header: None,
        dialect_without_card: Some(Dialect::Xpr),
        matches_url: |_| false,
    },
];

/// There is no profile of this name.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
#[error("there is no profile {0:?}; there are {known}", known = PROFILES.map(|one| one.name).join(", "))]
pub struct UnknownProfile(pub String);

impl VendorProfile {
    /// Finds a profile by its name.
    pub fn by_name(name: &str) -> Result<&'static Self, UnknownProfile> {
        PROFILES.iter().find(|one| one.name == name).ok_or_else(|| UnknownProfile(name.into()))
    }

    /// Finds the profile of a URL that only one vendor uses.
    pub fn for_url(url: &Url) -> Option<&'static Self> {
        PROFILES.iter().find(|one| url.scheme() == "https" && (one.matches_url)(url))
    }

    /// The URL of an agent's card; `None` if it is at a well-known path.
    pub fn card_url(&self, url: &Url) -> Option<Url> {
        match self.card_location {
            CardLocation::WellKnown => None,
            // The user may have given the URL of the card itself.
            CardLocation::Below(path) if path_ends(url, path) => Some(url.clone()),
            CardLocation::Below(path) => {
                let mut at = url_below(url, path);
                at.set_query(url.query());
                Some(at)
            }
            CardLocation::WellKnownWithId(parameter) => {
                if url.query_pairs().any(|(name, _)| name == parameter) {
                    return Some(url.clone());
                }
                let (_, id) = url.path().trim_end_matches('/').rsplit_once('/')?;
                let mut at = url.join(WELL_KNOWN[0]).ok()?;
                // Copied from the path, so that escapes stay as they are.
                at.set_query(Some(&format!("{parameter}={id}")));
                Some(at)
            }
        }
    }

    /// The place of the card, in words for people.
    pub fn card_location(&self) -> String {
        match self.card_location {
            CardLocation::WellKnown => "at the usual places".into(),
            CardLocation::Below(path) => format!("at URL{path}"),
            CardLocation::WellKnownWithId(parameter) => {
                format!("at https://HOST{}?{parameter}=…", WELL_KNOWN[0])
            }
        }
    }
}

/// A well-known path below a URL.
pub fn url_below(base: &Url, path: &str) -> Url {
    let mut url = base.clone();
    url.set_path(&format!("{}{path}", base.path().trim_end_matches('/')));
    url.set_query(None);
    url.set_fragment(None);
    url
}

fn host_ends(url: &Url, suffix: &str) -> bool {
    url.host_str().is_some_and(|host| host.ends_with(suffix))
}

fn path_ends(url: &Url, suffix: &str) -> bool {
    url.path().trim_end_matches('/').ends_with(suffix)
}

#[cfg(test)]
mod tests {
    use super::*;

    fn url(text: &str) -> Url {
        Url::parse(text).unwrap()
    }

    #[test]
    fn a_card_is_where_its_vendor_puts_it() {
        for (profile, agent, card) in [
            ("foundry", "https://h/p/endpoint/protocols/a2a", "https://h/p/endpoint/protocols/a2a/agentCard/v1.0"),
            ("foundry", "https://h/a2a/agentCard/v1.0", "https://h/a2a/agentCard/v1.0"),
            ("agent-engine", "https://h/v1beta1/r/1/a2a/", "https://h/v1beta1/r/1/a2a/v1/card"),
            (
                "agentcore",
                "https://h/runtimes/arn%3Aaws/invocations/?qualifier=prod",
                "https://h/runtimes/arn%3Aaws/invocations/.well-known/agent-card.json?qualifier=prod",
            ),
            ("langsmith", "https://h/a2a/as-1", "https://h/.well-known/agent-card.json?assistant_id=as-1"),
            (
                "langsmith",
                "https://h/.well-known/agent-card.json?assistant_id=as-1",
                "https://h/.well-known/agent-card.json?assistant_id=as-1",
            ),
            ("xpr", "https://h", "https://h/.well-known/agent.json"),
        ] {
            let found = VendorProfile::by_name(profile).unwrap().card_url(&url(agent));
            assert_eq!(found.unwrap().as_str(), card, "{profile}: {agent}");
        }
        assert_eq!(VendorProfile::by_name("agent-native").unwrap().card_url(&url("https://h/app")), None);
    }

    #[test]
    fn only_a_vendors_own_address_is_recognised() {
        let name = |text: &str| VendorProfile::for_url(&url(text)).map(|one| one.name);
        let foundry = "services.ai.azure.com/api/projects/p/agents/a/endpoint/protocols/a2a";
        let engine = "aiplatform.googleapis.com/v1beta1/projects/p/locations/l/reasoningEngines/1/a2a";
        assert_eq!(name(&format!("https://acme.{foundry}")), Some("foundry"));
        assert_eq!(name(&format!("https://us-central1-{engine}")), Some("agent-engine"));
        let core = "https://bedrock-agentcore.us-west-2.amazonaws.com/runtimes/arn/invocations";
        assert_eq!(name(core), Some("agentcore"));
        for other in [
            format!("http://acme.{foundry}"),
            "https://acme.services.ai.azure.com/agents/a".into(),
            format!("https://services.ai.azure.com.evil.example/{foundry}"),
            "https://h/a2a/assistant".into(),
            "https://evil.example/reasoningEngines/1/a2a".into(),
        ] {
            assert_eq!(name(&other), None, "{other}");
        }
    }

    #[test]
    fn an_unknown_name_is_told_the_known_ones() {
        let error = VendorProfile::by_name("fondry").unwrap_err().to_string();
        assert!(error.starts_with("there is no profile \"fondry\"; there are plain, foundry, agent-engine"), "{error}");
    }
}
