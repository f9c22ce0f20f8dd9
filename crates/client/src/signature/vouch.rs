//! Reduces a verified card to what its signature covers.
//!
//! Canonical forms cover different members, and cards repeat information: an address may be in `supportedInterfaces`,
//! in `url`, or in either under another spelling. An attacker that changes a card in transit would write to members
//! that the signature's form does not cover. So the received card is only used to check that no address or security
//! requirement is uncovered; then it is dropped.

use super::{Distrust, Failure, FetchKeys, Form, Held, Source, Trust, holding};
use crate::discover::Found;
use sabir_proto::AgentCard;
use sabir_proto::card::SecurityRequirement;
use std::collections::BTreeMap;

/// A card with a verified signature.
#[derive(Debug, Clone)]
pub struct Vouched {
    /// The id of the signing key.
    pub kid: String,
    /// The source of the key.
    pub source: Source,
    /// The canonical form under which the signature is valid.
    pub form: Form,
    /// The covered members, as canonical JSON.
    pub covered: String,
    /// The covered members as a card. Its JSON contains only the valid signature.
    pub found: Found,
}

/// Returns the verified part of a card, or why there is none. The first valid signature counts that covers enough: the
/// addresses and the security requirements of the received card.
///
/// There is one exception, because the SDKs never sign it: a required scheme without scopes. A client then sees the
/// scheme, and not that it is required.
pub async fn vouched(found: &Found, trust: &Trust, fetch: &impl FetchKeys) -> Result<Vouched, Distrust> {
    // The caller may have changed the parsed card, so it is parsed again.
    let whole = found.anew(found.as_found()).map_err(|_| Distrust::Uncovered("the card"))?;
    let outcome = holding(found.as_found(), trust, fetch, |held| Vouched::of(&whole, held)).await;
    outcome.map_err(|failure| match failure {
        Failure::Absent => Distrust::Unsigned,
        Failure::Unverifiable(reason) => Distrust::Unverifiable(reason),
        Failure::Refused(distrust) => distrust,
    })
}

impl Vouched {
    fn of(whole: &Found, held: Held) -> Result<Self, Distrust> {
        const ADDRESS: Distrust = Distrust::Uncovered("where the agent is");
        let Held { kid, source, form, covered, signature } = held;
        let members = covered.strip_suffix('}').unwrap_or_default();
        // Covered members without an address or a name are not a card.
        let found = whole.anew(&format!("{members},\"signatures\":[{signature}]}}")).map_err(|_| ADDRESS)?;
        if found.card.supported_interfaces != whole.card.supported_interfaces {
            return Err(ADDRESS);
        }
        if !asks_the_same(&found.card, &whole.card) {
            return Err(Distrust::Uncovered("what the agent asks of its callers"));
        }
        Ok(Self { kid, source, form, covered, found })
    }
}

fn asks_the_same(one: &AgentCard, other: &AgentCard) -> bool {
    one.security_schemes == other.security_schemes
        && scoped(&one.security_requirements) == scoped(&other.security_requirements)
        && one.skills.len() == other.skills.len()
        && one
            .skills
            .iter()
            .zip(&other.skills)
            .all(|(one, other)| scoped(&one.security_requirements) == scoped(&other.security_requirements))
}

/// The requirements without schemes that have no scopes.
fn scoped(requirements: &[SecurityRequirement]) -> Vec<BTreeMap<&str, &[String]>> {
    let needed = requirements.iter().map(|requirement| {
        let scoped = requirement.schemes.iter().filter(|(_, scopes)| !scopes.list.is_empty());
        scoped.map(|(name, scopes)| (name.as_str(), scopes.list.as_slice())).collect::<BTreeMap<_, _>>()
    });
    needed.filter(|schemes| !schemes.is_empty()).collect()
}
