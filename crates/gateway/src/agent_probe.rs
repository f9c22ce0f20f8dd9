//! Probes an agent elsewhere before it is called: which card it shows, which of its interfaces answers, and who signed
//! the card.
//!
//! A card is the word of another server. Its addresses are checked against the policy before any call, and an interface
//! counts only once it has answered in the protocol that it claims. The probe asks for a task that does not exist, so
//! it changes nothing.

use sabir_client::egress::ResolveError;
use sabir_client::signature::{TrustPolicy, UntrustedReason, VerifiedCard, verified_card};
use sabir_client::{AgentReference, Client, DiscoveredCard, Egress, Error, is_loopback};
use sabir_proto::card::Interface;
use sabir_proto::{FaultCode, TaskRef};
use std::collections::HashSet;
use std::time::{Duration, SystemTime, UNIX_EPOCH};
use url::Url;

/// How long one interface has to answer.
const ANSWER_TIME_MAX: Duration = Duration::from_secs(10);
/// How many interfaces a card may have: each is looked up, and a card may name thousands.
const INTERFACES_MAX: usize = 64;
/// How many interfaces of a card are tried out.
const INTERFACES_TRIED_MAX: usize = 8;
/// The id of a task that does not exist: asking for it shows whether an interface understands the question.
const UNKNOWN_TASK_ID: &str = "00000000-0000-4000-8000-000000000000";

/// Probes an agent before it is called.
#[derive(Clone)]
pub struct AgentProbe {
    client: Client,
    egress: Egress,
    reference: AgentReference,
}

/// The interface of a card that is to be called.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct ChosenInterface {
    /// The binding of the interface.
    pub binding: String,
    /// The URL of the interface.
    pub address: String,
    /// The protocol version of the interface.
    pub version: String,
}

/// The result of trying an interface.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct ProbedInterface {
    /// Binding, version and address, as the card has them.
    pub interface: String,
    /// Why it cannot be called; `None` where it answered.
    pub problem: Option<String>,
}

/// The result of checking the signatures of a card.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct SignatureCheck {
    /// The id of the key whose signature is good.
    pub signer: Option<String>,
    /// The result in words, for operators.
    pub summary: String,
    /// This is evidence against the card, and not only a lack of evidence for it.
    pub is_invalid: bool,
}

/// Why a card is rejected.
#[derive(Debug, thiserror::Error)]
pub enum CardRejection {
    /// One of its interfaces leads to a forbidden address.
    #[error("its card points to {address}: {reason}")]
    Forbidden {
        /// The address as the card has it.
        address: String,
        /// Why the address is forbidden.
        reason: String,
    },
    /// It names too many interfaces.
    #[error("its card names {0} interfaces, and at most {INTERFACES_MAX} are looked at")]
    TooMany(usize),
    /// None of its interfaces answered.
    #[error("none of its interfaces answers: {}", .0.iter().map(ProbedInterface::words).collect::<Vec<_>>().join("; "))]
    NoAnswer(Vec<ProbedInterface>),
}

impl ProbedInterface {
    fn words(&self) -> String {
        format!("{} ({})", self.interface, self.problem.as_deref().unwrap_or("answers"))
    }
}

impl AgentProbe {
    /// A probe with the policy and the credentials of the calls to the agent.
    pub(crate) const fn new(client: Client, egress: Egress, reference: AgentReference) -> Self {
        Self { client, egress, reference }
    }

    /// Fetches the card of the agent, from every place where there may be one.
    pub async fn fetch_card(&self) -> Result<DiscoveredCard, Error> {
        self.client.card(&self.reference).await
    }

    /// Checks the signatures of a card: with keys at its own host, found as the signature says.
    pub async fn check_signature(&self, found: &DiscoveredCard) -> SignatureCheck {
        check_signature(&self.client, found).await
    }

    /// Rejects a card that leads where we may not go: to addresses that the policy forbids, or to ourselves, whose
    /// `host:port`s `ours` lists.
    pub async fn check_addresses(&self, found: &DiscoveredCard, ours: &[String]) -> Result<(), CardRejection> {
        let interfaces = &found.card.supported_interfaces;
        if interfaces.len() > INTERFACES_MAX {
            return Err(CardRejection::TooMany(interfaces.len()));
        }
        let mut seen = HashSet::new();
        for interface in interfaces {
            let Some(url) = interface_url(interface, found.url.as_ref()) else { continue };
            let forbidden = |reason: String| CardRejection::Forbidden { address: interface.url.clone(), reason };
            if is_own_address(&url, ours) {
                return Err(forbidden("that is this server itself".into()));
            }
            let (host, port) = (url.host_str().unwrap_or_default(), url.port_or_known_default().unwrap_or(443));
            if !seen.insert((host.to_owned(), port)) {
                continue;
            }
            // A host that cannot be found, or not in time, is not called; trying the interface shows that.
            let looked_up = tokio::time::timeout(ANSWER_TIME_MAX, self.egress.resolve(host, port)).await;
            if let Ok(Err(ResolveError::Refused(refusal))) = looked_up {
                return Err(forbidden(refusal.to_string()));
            }
        }
        Ok(())
    }

    /// Rejects a card that would lead our credentials where they may not go.
    pub fn check_credential_targets(&self, found: &DiscoveredCard) -> Result<(), String> {
        self.client.check_credential_origins(found).map_err(|error| error.to_string())
    }

    /// The first interface of a card, in its own order, that answers; and what became of those before it.
    pub async fn try_interfaces(
        &self,
        found: &DiscoveredCard,
    ) -> Result<(ChosenInterface, Vec<ProbedInterface>), CardRejection> {
        try_interfaces(&self.client, found).await
    }
}

/// Tries the interfaces of a card out, in its own order, until one answers.
pub(crate) async fn try_interfaces(
    client: &Client,
    found: &DiscoveredCard,
) -> Result<(ChosenInterface, Vec<ProbedInterface>), CardRejection> {
    let mut tried = Vec::new();
    for interface in found.card.supported_interfaces.iter().take(INTERFACES_TRIED_MAX) {
        let Interface { protocol_binding: binding, protocol_version: version, url, .. } = interface;
        let shown = format!("{binding} {version} at {url}");
        match try_interface(client, &with_only_interface(found, interface)).await {
            Ok(way) => {
                tried.push(ProbedInterface { interface: shown, problem: None });
                return Ok((way, tried));
            }
            Err(problem) => tried.push(ProbedInterface { interface: shown, problem: Some(problem) }),
        }
    }
    Err(CardRejection::NoAnswer(tried))
}

async fn try_interface(client: &Client, found: &DiscoveredCard) -> Result<ChosenInterface, String> {
    let agent = match client.agent(found.clone()) {
        Ok(agent) => agent,
        // Credentials can be given later; that the interface asks for them in this protocol is only the card's claim.
        Err(Error::CredentialsMissing { wanted, .. }) => {
            return Err(format!("it asks for {}; give it with --bearer or --api-key", wanted.join(" or ")));
        }
        Err(error) => return Err(error.to_string()),
    };
    let unknown_task = TaskRef::parse(UNKNOWN_TASK_ID).map_err(|e| e.to_string())?;
    let Ok(answer) = tokio::time::timeout(ANSWER_TIME_MAX, agent.task(&unknown_task)).await else {
        return Err(format!("no answer within {ANSWER_TIME_MAX:?}"));
    };
    let fits = match &answer {
        Ok(_) | Err(Error::AuthFailed { transport: Some(_), .. }) => true,
        Err(Error::CredentialsMissing { transport, .. }) => transport.is_some(),
        Err(Error::Fault { fault, transport: Some(_), .. }) => !matches!(
            fault.code(),
            FaultCode::VersionNotSupported
                | FaultCode::MethodNotFound
                | FaultCode::InvalidAgentResponse
                | FaultCode::Unavailable
        ),
        Err(_) => false,
    };
    match answer {
        _ if fits => Ok(chosen_interface(agent.chosen_interface())),
        Err(error) => Err(error.to_string()),
        Ok(_) => Ok(chosen_interface(agent.chosen_interface())),
    }
}

/// Whether a card leads to one of these `host:port`s, by any of its interfaces.
pub fn has_interface_at(found: &DiscoveredCard, ours: &[String]) -> bool {
    let interfaces = found.card.supported_interfaces.iter();
    interfaces
        .filter_map(|interface| interface_url(interface, found.url.as_ref()))
        .any(|url| is_own_address(&url, ours))
}

fn chosen_interface(chosen: &sabir_client::ChosenInterface) -> ChosenInterface {
    ChosenInterface {
        binding: chosen.binding.name().into(),
        address: chosen.interface.url.clone(),
        version: chosen.dialect.name().into(),
    }
}

/// The card with only this interface.
fn with_only_interface(found: &DiscoveredCard, interface: &Interface) -> DiscoveredCard {
    let mut found = found.clone();
    found.card.supported_interfaces = vec![interface.clone()];
    found
}

/// Where an interface leads: a URL, a path of the card's host, or `host:port` as gRPC has it.
pub(crate) fn interface_url(interface: &Interface, card: Option<&Url>) -> Option<Url> {
    let text = interface.url.trim();
    match Url::parse(text) {
        Ok(url) if url.has_host() => Some(url),
        _ if text.starts_with('/') => card?.join(text).ok(),
        _ => Url::parse(&format!("https://{}", text.strip_prefix("dns:///").unwrap_or(text))).ok(),
    }
}

/// Whether a URL leads to one of these `host:port`s.
pub fn is_own_address(url: &Url, ours: &[String]) -> bool {
    let Some(host) = url.host_str() else { return false };
    let Some(port) = url.port_or_known_default() else { return false };
    let authority = format!("{host}:{port}");
    ours.iter().any(|one| one.eq_ignore_ascii_case(&authority))
}

/// Checks the signatures of a card, as far as the keys at its own host can tell.
pub(crate) async fn check_signature(client: &Client, found: &DiscoveredCard) -> SignatureCheck {
    let now = SystemTime::now().duration_since(UNIX_EPOCH).map_or(0, |since| since.as_secs());
    // A card that came from this machine without TLS has keys that come the same way.
    let plain_loopback = found.url.as_ref().is_some_and(|url| url.scheme() == "http" && is_loopback(url));
    let trust = TrustPolicy { card_url: found.url.clone(), plain_loopback, now, ..TrustPolicy::default() };
    match verified_card(found, &trust, client).await {
        Ok(VerifiedCard { kid, .. }) => {
            SignatureCheck { summary: format!("verified, by key {kid}"), signer: Some(kid), is_invalid: false }
        }
        Err(UntrustedReason::Unsigned) => {
            SignatureCheck { signer: None, summary: "not signed".into(), is_invalid: false }
        }
        Err(UntrustedReason::Unverifiable(reason)) => {
            let wrong = reason.is_bad_signature();
            SignatureCheck { signer: None, summary: format!("cannot be verified: {reason}"), is_invalid: wrong }
        }
        Err(distrust @ UntrustedReason::Uncovered(_)) => {
            SignatureCheck { signer: None, summary: distrust.to_string(), is_invalid: true }
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn interface(url: &str) -> Interface {
        let text = |text: &str| text.to_owned();
        Interface { url: text(url), protocol_binding: text("GRPC"), tenant: None, protocol_version: text("1.0") }
    }

    #[test]
    fn every_way_to_write_an_address_is_seen_through() {
        let card = Url::parse("https://h/.well-known/agent-card.json").unwrap();
        let ours = ["127.0.0.1:4000".to_owned(), "hub.example:443".to_owned()];
        for (text, mine) in [
            ("http://127.0.0.1:4000/agents/a", true),
            ("127.0.0.1:4000", true),
            ("dns:///127.0.0.1:4000", true),
            ("https://HUB.example/", true),
            ("http://2130706433:4000/", true),
            ("https://hub.example:444", false),
            ("/rpc", false),
            ("http://127.0.0.1:4001", false),
        ] {
            let url = interface_url(&interface(text), Some(&card)).unwrap();
            assert_eq!(is_own_address(&url, &ours), mine, "{text} is {url}");
        }
    }
}
