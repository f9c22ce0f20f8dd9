//! Reduces a verified card to what its signature covers.
//!
//! Canonical forms cover different members, and cards repeat information: an address may be in `supportedInterfaces`,
//! in `url`, or in either under another spelling. An attacker that changes a card in transit would write to members
//! that the signature's form does not cover. So the received card is only used to check that no address or security
//! requirement is uncovered; then it is dropped.

use super::{
    CanonicalForm, CardKeySource, FetchKeys, TrustPolicy, UntrustedReason, ValidSignature, VerificationFailure,
    first_valid_signature,
};
use crate::discover::DiscoveredCard;
use sabir_proto::AgentCard;
use sabir_proto::card::SecurityRequirement;
use std::collections::BTreeMap;

/// A card with a verified signature.
#[derive(Debug, Clone)]
pub struct VerifiedCard {
    /// The id of the signing key.
    pub kid: String,
    /// The source of the key.
    pub source: CardKeySource,
    /// The canonical form under which the signature is valid.
    pub form: CanonicalForm,
    /// The covered members, as canonical JSON.
    pub covered: String,
    /// The covered members as a card. Its JSON contains only the valid signature.
    pub discovered_card: DiscoveredCard,
}

/// Returns the verified part of a card, or why there is none. The first valid signature counts that covers enough: the
/// addresses and the security requirements of the received card.
///
/// There is one exception, because the SDKs never sign it: a required scheme without scopes. A client then sees the
/// scheme, and not that it is required.
pub async fn verified_card(
    found: &DiscoveredCard,
    trust: &TrustPolicy,
    fetch: &impl FetchKeys,
) -> Result<VerifiedCard, UntrustedReason> {
    // The caller may have changed the parsed card, so it is parsed again.
    let whole = found.reparse(found.source_json()).map_err(|_| UntrustedReason::Uncovered("the card"))?;
    let outcome = first_valid_signature(found.source_json(), trust, fetch, |held| VerifiedCard::of(&whole, held)).await;
    outcome.map_err(|failure| match failure {
        VerificationFailure::Absent => UntrustedReason::Unsigned,
        VerificationFailure::Unverifiable(reason) => UntrustedReason::Unverifiable(reason),
        VerificationFailure::Refused(distrust) => distrust,
    })
}

impl VerifiedCard {
    fn of(whole: &DiscoveredCard, held: ValidSignature) -> Result<Self, UntrustedReason> {
        const ADDRESS: UntrustedReason = UntrustedReason::Uncovered("where the agent is");
        let ValidSignature { kid, source, form, covered, signature } = held;
        let members = covered.strip_suffix('}').unwrap_or_default();
        // Covered members without an address or a name are not a card.
        let found = whole.reparse(&format!("{members},\"signatures\":[{signature}]}}")).map_err(|_| ADDRESS)?;
        if found.card.supported_interfaces != whole.card.supported_interfaces {
            return Err(ADDRESS);
        }
        if !has_same_requirements(&found.card, &whole.card) {
            return Err(UntrustedReason::Uncovered("what the agent asks of its callers"));
        }
        Ok(Self { kid, source, form, covered, discovered_card: found })
    }
}

fn has_same_requirements(one: &AgentCard, other: &AgentCard) -> bool {
    one.security_schemes == other.security_schemes
        && scoped_requirements(&one.security_requirements) == scoped_requirements(&other.security_requirements)
        && one.skills.len() == other.skills.len()
        && one.skills.iter().zip(&other.skills).all(|(one, other)| {
            scoped_requirements(&one.security_requirements) == scoped_requirements(&other.security_requirements)
        })
}

/// The requirements without schemes that have no scopes.
fn scoped_requirements(requirements: &[SecurityRequirement]) -> Vec<BTreeMap<&str, &[String]>> {
    let needed = requirements.iter().map(|requirement| {
        let scoped = requirement.schemes.iter().filter(|(_, scopes)| !scopes.list.is_empty());
        scoped.map(|(name, scopes)| (name.as_str(), scopes.list.as_slice())).collect::<BTreeMap<_, _>>()
    });
    needed.filter(|schemes| !schemes.is_empty()).collect()
}
