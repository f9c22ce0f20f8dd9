//! Vendors whose agents deviate from A2A, one table row each.
//!
//! A profile says where the card is, whether fetching it needs credentials, which header takes an API key that no
//! scheme of the card covers, and which dialect is spoken without a card. The card decides everything else. A URL that
//! only one vendor uses selects the profile by itself.
//!
//! Each row follows the documentation of its vendor. Absent on purpose: vendors without such documentation.

use crate::discover::below;
use sabir_wire::Dialect;
use url::Url;

/// The deviations of a vendor from A2A.
#[derive(Debug)]
pub struct Profile {
    /// The name of the profile in configurations.
    pub name: &'static str,
    /// The vendor or product whose agents the profile describes.
    pub of: &'static str,
    /// The form of the vendor's URLs.
    pub url: &'static str,
    place: CardPlace,
    /// The server returns the card only with the agent's credentials, which go to the host of the agent's URL.
    pub asks_for_card: bool,
    /// The header for an API key, if the card declares no place for it.
    pub key_header: Option<&'static str>,
    /// The dialect of agents without a card.
    pub without_card: Option<Dialect>,
    is_at: fn(&Url) -> bool,
}

/// The place of a card.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum CardPlace {
    /// At one of the well-known paths.
    Usual,
    /// At this path below the agent's URL, with the query of that URL.
    Below(&'static str),
    /// At the well-known path of the host, with the last path segment of the agent's URL as this parameter.
    OfHost(&'static str),
}

/// Every profile, in the order of listings.
pub const PROFILES: [Profile; 7] = [
    Profile {
        name: "plain",
        of: "everybody who does as A2A says",
        url: "https://HOST[/PATH]",
        place: CardPlace::Usual,
        asks_for_card: false,
        key_header: None,
        without_card: None,
        is_at: |_| false,
    },
    Profile {
        name: "foundry",
        of: "Microsoft Foundry",
        url: "https://NAME.services.ai.azure.com/api/projects/PROJECT/agents/AGENT/endpoint/protocols/a2a",
        place: CardPlace::Below("/agentCard/v1.0"),
        asks_for_card: true,
        key_header: None,
        without_card: None,
        is_at: |url| host_ends(url, ".services.ai.azure.com") && path_ends(url, "/endpoint/protocols/a2a"),
    },
    Profile {
        name: "agent-engine",
        of: "Agent Engine of Google Cloud",
        url: "https://REGION-aiplatform.googleapis.com/v1beta1/projects/…/reasoningEngines/ID/a2a",
        place: CardPlace::Below("/v1/card"),
        asks_for_card: true,
        key_header: None,
        without_card: None,
        is_at: |url| {
            let is_engine = url.path().contains("/reasoningEngines/") && path_ends(url, "/a2a");
            host_ends(url, "aiplatform.googleapis.com") && is_engine
        },
    },
    Profile {
        name: "agentcore",
        of: "Amazon Bedrock AgentCore Runtime",
        url: "https://bedrock-agentcore.REGION.amazonaws.com/runtimes/ARN/invocations",
        place: CardPlace::Below("/.well-known/agent-card.json"),
        asks_for_card: true,
        key_header: None,
        without_card: None,
        is_at: |url| {
            let is_runtime = url.path().starts_with("/runtimes/") && path_ends(url, "/invocations");
            let host = url.host_str().unwrap_or_default();
            host.starts_with("bedrock-agentcore.") && host_ends(url, ".amazonaws.com") && is_runtime
        },
    },
    Profile {
        name: "langsmith",
        of: "Agent Server of LangSmith",
        url: "https://HOST/a2a/ASSISTANT",
        place: CardPlace::OfHost("assistant_id"),
        asks_for_card: true,
        key_header: Some("x-api-key"),
        without_card: None,
        // Deployments have their own hosts.
        is_at: |_| false,
    },
    Profile {
        name: "agent-native",
        of: "apps of agent-native",
        url: "https://HOST[/APP]",
        place: CardPlace::Usual,
        asks_for_card: false,
        key_header: None,
        without_card: Some(Dialect::Native),
        is_at: |_| false,
    },
    Profile {
        name: "xpr",
        of: "agents of XPR Network",
        url: "https://HOST[/PATH], as it is registered on the chain",
        place: CardPlace::Below("/.well-known/agent.json"),
        asks_for_card: false,
        key_header: None,
        without_card: Some(Dialect::Xpr),
        is_at: |_| false,
    },
];

/// There is no profile of this name.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
#[error("there is no profile {0:?}; there are {known}", known = PROFILES.map(|one| one.name).join(", "))]
pub struct UnknownProfile(pub String);

impl Profile {
    /// Finds a profile by its name.
    pub fn named(name: &str) -> Result<&'static Self, UnknownProfile> {
        PROFILES.iter().find(|one| one.name == name).ok_or_else(|| UnknownProfile(name.into()))
    }

    /// Finds the profile of a URL that only one vendor uses.
    pub fn recognised(url: &Url) -> Option<&'static Self> {
        PROFILES.iter().find(|one| url.scheme() == "https" && (one.is_at)(url))
    }

    /// The URL of an agent's card; `None` if it is at a well-known path.
    pub fn card_of(&self, url: &Url) -> Option<Url> {
        match self.place {
            CardPlace::Usual => None,
            // The user may have given the URL of the card itself.
            CardPlace::Below(path) if path_ends(url, path) => Some(url.clone()),
            CardPlace::Below(path) => {
                let mut at = below(url, path);
                at.set_query(url.query());
                Some(at)
            }
            CardPlace::OfHost(parameter) => {
                if url.query_pairs().any(|(name, _)| name == parameter) {
                    return Some(url.clone());
                }
                let (_, id) = url.path().trim_end_matches('/').rsplit_once('/')?;
                let mut at = url.join(crate::WELL_KNOWN[0]).ok()?;
                // Copied from the path, so that escapes stay as they are.
                at.set_query(Some(&format!("{parameter}={id}")));
                Some(at)
            }
        }
    }

    /// The place of the card, in words for people.
    pub fn card_place(&self) -> String {
        match self.place {
            CardPlace::Usual => "at the usual places".into(),
            CardPlace::Below(path) => format!("at URL{path}"),
            CardPlace::OfHost(parameter) => format!("at https://HOST{}?{parameter}=…", crate::WELL_KNOWN[0]),
        }
    }
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
            let found = Profile::named(profile).unwrap().card_of(&url(agent));
            assert_eq!(found.unwrap().as_str(), card, "{profile}: {agent}");
        }
        assert_eq!(Profile::named("agent-native").unwrap().card_of(&url("https://h/app")), None);
    }

    #[test]
    fn only_a_vendors_own_address_is_recognised() {
        let name = |text: &str| Profile::recognised(&url(text)).map(|one| one.name);
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
        let error = Profile::named("fondry").unwrap_err().to_string();
        assert!(error.starts_with("there is no profile \"fondry\"; there are plain, foundry, agent-engine"), "{error}");
    }
}
