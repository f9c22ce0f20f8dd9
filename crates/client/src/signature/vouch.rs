//! What of a card may be used once somebody vouches for it: what the signature covers, read anew, and nothing else.
//!
//! Readings differ in what they cover, and cards say things in more than one way: an address may stand in
//! `supportedInterfaces`, in `url`, or in either under another spelling. Whoever can change a card on its way would
//! write where the reading of its signature does not look. So the card as it came is only used to see whether anything
//! about addresses and credentials was left out; then it is dropped.

use super::{Distrust, Failure, FetchKeys, Form, Held, Source, Trust, holding};
use crate::discover::Found;
use sabir_proto::AgentCard;
use sabir_proto::card::SecurityRequirement;
use std::collections::BTreeMap;

/// A card that somebody vouches for.
#[derive(Debug, Clone)]
pub struct Vouched {
    /// The name of the key.
    pub kid: String,
    /// Where the key came from.
    pub source: Source,
    /// The reading under which the signature holds.
    pub form: Form,
    /// What was signed, as canonical JSON.
    pub covered: String,
    /// The same as a card. Its JSON has the one signature that holds, and no other.
    pub found: Found,
}

/// What of a card is vouched for, or why nothing is. The first signature counts that holds and covers enough: the
/// addresses and what the agent asks of callers, as they are read in the card as it came.
///
/// One thing may be left out, since the SDKs never sign it: that a scheme is required without any scopes. Whoever uses
/// the card then finds the scheme, and is not told that it is required.
pub async fn vouched(found: &Found, trust: &Trust, fetch: &impl FetchKeys) -> Result<Vouched, Distrust> {
    // Whoever holds a card may have changed what was read of it.
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
        // What has no address, or no name, cannot be read.
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

/// Requirements without what has no scopes.
fn scoped(requirements: &[SecurityRequirement]) -> Vec<BTreeMap<&str, &[String]>> {
    let needed = requirements.iter().map(|requirement| {
        let scoped = requirement.schemes.iter().filter(|(_, scopes)| !scopes.list.is_empty());
        scoped.map(|(name, scopes)| (name.as_str(), scopes.list.as_slice())).collect::<BTreeMap<_, _>>()
    });
    needed.filter(|schemes| !schemes.is_empty()).collect()
}
