//! Which tiers may use the intents of the booking network.
//!
//! An intent that changes anything is counted and billed to the caller's key, so it takes a key of a paid tier. Every
//! caller that the agent admits may use those that only read.

use super::{DecisionTrace, RequestedAccess, Rules};
use crate::authn::Scheme;
use crate::fetch::Fetch;
use crate::identity::{CredentialProof, Identity};
use crate::refusal::Refusal;

/// The tier that is not billed.
pub const FREE: &str = "free";

pub(crate) fn check<F: Fetch>(
    rules: &Rules<F>,
    identity: &Identity,
    wanted: &RequestedAccess<'_>,
    notes: &mut impl DecisionTrace,
) -> Result<(), Refusal> {
    let Some(billed) = rules.intents(wanted).find(|intent| intent.has_effect) else { return Ok(()) };
    let billed = billed.name;
    let tier = match identity.proof() {
        CredentialProof::Key(key) => key.terms.tier.as_deref(),
        _ => None,
    };
    match (tier, identity.scheme()) {
        (Some(FREE), _) => Err(Refusal::forbidden(
            Scheme::ApiKey,
            "tier_free",
            format!("{billed} is for keys of a paid tier; this one is of the tier {FREE}"),
        )),
        (Some(tier), _) => {
            notes.passed("tier", || format!("keys of the tier {tier} may have {billed}"));
            Ok(())
        }
        (None, Some(scheme)) => Err(Refusal::forbidden(
            scheme,
            "tier_none",
            format!("{billed} is for API keys of a paid tier, since it is billed"),
        )),
        (None, None) => Err(Refusal::unauthenticated(
            None,
            "tier_none",
            format!("{billed} is for API keys of a paid tier, since it is billed: Authorization: Bearer agnt_live_…"),
        )),
    }
}
