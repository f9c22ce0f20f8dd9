//! Explains a decision: the answer of `sabir explain`.

use crate::authenticator::AuthMode;
use crate::config::AcceptedCredential;
use crate::fetch::Fetch;
use crate::identity::{CredentialProof, Identity};
use crate::policy::{Action, DecisionTrace, Rules};
use crate::refusal::Refusal;
use sabir_proto::Timestamp;

/// A question about access: which caller wants to do what.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct AccessQuestion {
    /// The caller by name: `anonymous`, `key:ID`, `xpr:ACCOUNT` …
    pub caller: String,
    /// The scopes of its token, for callers with a token of an issuer.
    pub scopes: Vec<String>,
    /// The action that it wants.
    pub action: Action,
    /// The skill that it wants to use, if any.
    pub skill: Option<String>,
}

/// The decisions of the rules in their order, up to the one that refused.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Explanation {
    /// The name of the caller.
    pub caller: String,
    /// The decision of each rule.
    pub decisions: Vec<RuleDecision>,
}

/// The decision of one rule.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct RuleDecision {
    /// The name of the rule.
    pub rule: &'static str,
    /// Whether it let the caller pass.
    pub passed: bool,
    /// The reason, in words.
    pub why: String,
}

impl Explanation {
    pub(crate) fn new(caller: &str) -> Self {
        Self { caller: caller.into(), decisions: Vec::new() }
    }

    /// Whether the call would be served.
    pub fn allowed(&self) -> bool {
        self.decisions.iter().all(|line| line.passed)
    }

    pub(crate) fn refuse(&mut self, rule: &'static str, refusal: &Refusal) {
        let why = format!("{} ({})", refusal.fault, refusal.reason);
        self.decisions.push(RuleDecision { rule, passed: false, why });
    }
}

impl DecisionTrace for Explanation {
    fn passed(&mut self, rule: &'static str, why: impl FnOnce() -> String) {
        self.decisions.push(RuleDecision { rule, passed: true, why: why() });
    }
}

/// The rule that a refusal came from.
pub(crate) fn rule_of(refusal: &Refusal) -> &'static str {
    match refusal.reason {
        reason if reason.starts_with("scope") => "scope",
        reason if reason.starts_with("skill") => "skill",
        reason if reason.starts_with("tier") => "tier",
        reason if reason.starts_with("trust") || reason.starts_with("chain") => "trust",
        _ => "credential",
    }
}

/// Whether such a caller would be authenticated, if its credential is valid.
pub(crate) fn explain_credential<F: Fetch>(
    rules: &Rules<F>,
    identity: &Identity,
    now: Timestamp,
    notes: &mut impl DecisionTrace,
) -> Result<(), Refusal> {
    let entrance = &rules.authenticator;
    let posture = entrance.mode();
    match (posture, identity.scheme()) {
        (AuthMode::Closed, _) => return Err(Refusal::not_configured()),
        (AuthMode::Open, _) => {
            notes.passed("credential", || "no credential is asked for here, and every caller is anonymous".into());
            return Ok(());
        }
        (AuthMode::Required, None) => {
            return Err(Refusal::unauthenticated(None, "missing", "A credential is required"));
        }
        (AuthMode::Optional, None) => {
            notes.passed("credential", || "callers without a credential are let in as anonymous".into());
            return Ok(());
        }
        (AuthMode::Required | AuthMode::Optional, Some(scheme)) => {
            let by = entrance.accepted().iter().copied().find(|accept| accept.covers(scheme));
            let Some(by) = by else {
                let taken: Vec<&str> = entrance.accepted().iter().copied().map(AcceptedCredential::name).collect();
                let words = format!("credentials of this kind are not taken; {} are", taken.join(", "));
                return Err(Refusal::unauthenticated(Some(scheme), "not_taken", words));
            };
            if let CredentialProof::Key(key) = identity.proof() {
                if key.revoked_at.is_some() {
                    return Err(Refusal::unauthenticated(Some(scheme), "key_revoked", "The key was revoked"));
                }
                if key.terms.expires_at.is_some_and(|end| end <= now) {
                    return Err(Refusal::unauthenticated(Some(scheme), "key_expired", "The key has expired"));
                }
            }
            entrance.could_authenticate(identity)?;
            notes.passed("credential", || format!("{} is taken here", by.name()));
        }
    }
    Ok(())
}
