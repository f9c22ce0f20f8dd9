//! What is required of callers with a chain account: registration, activity, KYC and trust.

use super::{DecisionTrace, Rules};
use crate::authn::Scheme;
use crate::authn::chain::ChainFault;
use crate::authn::trust_score::ScoreKind;
use crate::fetch::Fetch;
use crate::identity::{CredentialProof, Identity};
use crate::refusal::Refusal;
use sabir_proto::Timestamp;

/// What is required of accounts.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct TrustRequirement {
    /// They must be registered and active agents.
    pub registration: bool,
    /// The lowest KYC level.
    pub min_kyc: i64,
    /// The lowest trust score.
    pub min_trust: i64,
    /// The score that is compared.
    pub score_kind: ScoreKind,
}

impl TrustRequirement {
    const fn asks_anything(self) -> bool {
        self.registration || self.min_kyc > 0 || self.min_trust > 0
    }
}

pub(crate) async fn check<F: Fetch>(
    rules: &Rules<F>,
    identity: &Identity,
    now: Timestamp,
    notes: &mut impl DecisionTrace,
) -> Result<(), Refusal> {
    let CredentialProof::Account { account, .. } = identity.proof() else { return Ok(()) };
    let Some(xpr) = rules.authenticator.xpr() else { return Ok(()) };
    let demand = xpr.requirement;
    if !demand.asks_anything() {
        notes.passed("trust", || "nothing is asked of accounts".into());
        return Ok(());
    }
    let no = |reason, words: String| Err(Refusal::forbidden(Scheme::Xpr, reason, words));
    // An account without a registration has no level and no score.
    let known = async |reading| match xpr.chain.trust_record(account, reading, now).await {
        Ok(standing) => Ok(Some(standing)),
        Err(ChainFault::Absent | ChainFault::NoPermission) => Ok(None),
        Err(ChainFault::Unavailable(_)) => {
            let words = "Authentication error: the chain cannot be asked";
            Err(Refusal::unavailable(Some(Scheme::Xpr), "chain_unavailable", words))
        }
    };
    let standing = known(demand.score_kind).await?;
    if demand.registration {
        match &standing {
            None => return no("trust_registration", format!("Account '{account}' is not a registered agent")),
            Some(standing) if !standing.agent.active => {
                return no("trust_inactive", format!("Agent '{account}' is not active"));
            }
            Some(_) => {}
        }
    }
    // The lowest level is asked of the caller itself, whichever score is compared: that is how the network's own server
    // reads the setting. The full score counts the level of the owner.
    let level = if demand.min_kyc == 0 { 0 } else { known(ScoreKind::Gate).await?.map_or(0, |own| own.kyc_level) };
    if level < demand.min_kyc {
        return no("trust_kyc", format!("KYC level {level} below minimum {}", demand.min_kyc));
    }
    let score = standing.as_ref().map_or(0, |standing| standing.score.total());
    if score < demand.min_trust {
        return no("trust_score", format!("Trust score {score} below minimum {}", demand.min_trust));
    }
    notes.passed("trust", || {
        let registered = if demand.registration { "registered and active, " } else { "" };
        format!(
            "{registered}KYC level {level} of {} asked, score {score} of {} asked",
            demand.min_kyc, demand.min_trust
        )
    });
    Ok(())
}
