//! The guard itself: who sends a request, and whether the sender may have what it wants.
//!
//! Three steps, each with a value that only it can make:
//!
//! ```text
//! request ─ admit (who, how often) ─► Admitted ─ clear (scope, trust) ─► Cleared ─ permit (a copy?) ─► Permit
//! ```
//!
//! Between the first two the request is decoded, between the last two the server checks what the agent offers. Every
//! refusal is counted and recorded in the audit, here and nowhere else.

mod credential_watch;
mod envelope;

pub(crate) use credential_watch::CredentialEnd;
pub use credential_watch::CredentialWatch;
pub use envelope::{EnvelopeKeys, ReceivedEnvelope, VerifiedEnvelope};

use crate::authenticator::{AuthMode, SecretResolver};
use crate::authn::agnt::SignatureMemory;
use crate::authn::{Principal, Scheme};
use crate::explain::{AccessQuestion, Explanation};
use crate::fetch::Fetch;
use crate::identity::{CredentialProof, Identity, RequestEvidence, scheme_name};
use crate::metrics::Metrics;
use crate::password_guesses::PasswordGuesses;
use crate::permit::{Admitted, Cleared, Permit};
use crate::policy::scope::AdminAction;
use crate::policy::{Action, DecisionTrace, RequestedAccess, Rules, rate, scope, tier, trust};
use crate::refusal::Refusal;
use sabir_proto::{AgentName, Call, Caller, Message, TaskId, TaskRef, Timestamp};
use sabir_store::{AuditOutcome, AuditRecord, AuditSubject, GuardStore, ReplayVerdict};
use std::sync::Arc;

/// A caller that is known by name, without a credential. Good for a question, and for no call.
#[derive(Debug, Clone)]
pub struct RecalledCaller(Identity);

/// Guards every agent of a server.
#[derive(Clone)]
pub struct Guard {
    store: Arc<dyn GuardStore>,
    secrets: Arc<dyn SecretResolver>,
    metrics: Metrics,
    password_guesses: Arc<PasswordGuesses>,
    signature_memory: Arc<SignatureMemory>,
}

impl std::fmt::Debug for Guard {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("Guard").finish_non_exhaustive()
    }
}

impl Guard {
    /// A guard that keeps its records in this store.
    pub fn new(store: Arc<dyn GuardStore>, secrets: Arc<dyn SecretResolver>, metrics: Metrics) -> Self {
        Self { store, secrets, metrics, password_guesses: Arc::default(), signature_memory: Arc::default() }
    }

    /// Authenticates the caller, and checks its rate limit. Nothing has been decoded yet.
    pub async fn admit<F: Fetch>(&self, rules: &Rules<F>, evidence: &RequestEvidence<'_>) -> Result<Admitted, Refusal> {
        let outcome = async {
            if rules.authenticator.accepts_guessable_secrets() && self.password_guesses.is_blocked(evidence) {
                let words = "Too many wrong passwords from this address; try again in a minute";
                let wait = std::time::Duration::from_secs(60);
                return Err((Refusal::too_many(None, "rate_guesses", words, wait), None));
            }
            let identity = rules
                .authenticator
                .authenticate(evidence, &*self.store, &*self.secrets)
                .await
                .map_err(|r| (r, None))?;
            match rate::check(rules, &identity, evidence, &*self.store).await {
                Ok(()) => Ok(identity),
                Err(refusal) => Err((refusal, Some(identity.caller().clone()))),
            }
        };
        match outcome.await {
            Ok(identity) => Ok(Admitted { identity, rules: rules.id, uncounted: false }),
            Err((refusal, caller)) => {
                let caller = caller.unwrap_or_else(|| evidence.unidentified_caller());
                let entry =
                    AuditRecord::refusal(evidence.now, caller, scheme_name(refusal.scheme), "knock", refusal.reason);
                self.password_guesses.record(evidence, &refusal);
                self.record_refusal(AuditRecord { agent: Some(rules.agent.clone()), ..entry }, &refusal);
                Err(refusal)
            }
        }
    }

    /// Whether a caller was admitted under these rules. One that was admitted under others must be admitted again.
    pub fn is_admitted_under<F: Fetch>(admitted: &Admitted, rules: &Rules<F>) -> bool {
        admitted.rules == rules.id
    }

    /// Checks whether the caller may have what it wants.
    pub async fn clear<F: Fetch>(
        &self,
        rules: &Rules<F>,
        admitted: Admitted,
        call: &Call,
        now: Timestamp,
    ) -> Result<Cleared, Refusal> {
        let wanted = RequestedAccess::of(call, scope::needs_skill(rules, &admitted.identity));
        // Decided again for every call: a permission may have been taken away since.
        match decide(rules, &admitted.identity, &wanted, now, &mut ()).await {
            Ok(()) if admitted.uncounted && rules.intents(&wanted).any(|intent| intent.has_effect) => {
                let refusal = Refusal::store_unavailable();
                self.record_call_refusal(rules, &admitted.identity, call, now, &refusal);
                Err(refusal)
            }
            Ok(()) => Ok(Cleared { admitted }),
            Err(refusal) => {
                self.record_call_refusal(rules, &admitted.identity, call, now, &refusal);
                Err(refusal)
            }
        }
    }

    /// Permits a call, unless it is a copy of one that was permitted. Only signed requests can be copied by others;
    /// reads may repeat, since clients poll with the same bytes within one second.
    pub async fn permit<F: Fetch>(
        &self,
        rules: &Rules<F>,
        cleared: Cleared,
        call: Call,
        now: Timestamp,
    ) -> Result<Permit, Refusal> {
        let identity = cleared.admitted.identity;
        if let CredentialProof::Account { mark: Some(mark), .. } = identity.proof()
            && Action::of(&call).has_effect()
        {
            let name = identity.caller().name();
            let refusal = match self.store.check_replay(name, mark.digest, now, mark.until).await {
                Ok(ReplayVerdict::First) => None,
                Ok(ReplayVerdict::Again | ReplayVerdict::Different) => Some(Refusal::unauthenticated(
                    Some(Scheme::Xpr),
                    "replayed",
                    "This signed request was already received; sign it again with a new timestamp",
                )),
                Ok(ReplayVerdict::NoRoom) => {
                    let wait = std::time::Duration::from_secs(60);
                    Some(Refusal::too_many(Some(Scheme::Xpr), "replay_crowded", "Too many signed requests", wait))
                }
                Err(_) => Some(Refusal::store_unavailable()),
            };
            if let Some(refusal) = refusal {
                self.record_call_refusal(rules, &identity, &call, now, &refusal);
                return Err(refusal);
            }
        }
        Ok(Permit { call, identity })
    }

    /// Checks whether an admitted caller may administer the server. `operation` is what the audit has of a refusal.
    pub fn permit_admin<F: Fetch>(
        &self,
        rules: &Rules<F>,
        admitted: &Admitted,
        action: AdminAction,
        operation: &'static str,
        now: Timestamp,
    ) -> Result<(), Refusal> {
        let identity = &admitted.identity;
        scope::check_admin(rules, identity, action).inspect_err(|refusal| {
            let scheme = scheme_name(identity.scheme());
            let entry = AuditRecord::refusal(now, identity.caller().clone(), scheme, operation, refusal.reason);
            self.record_refusal(entry, refusal);
        })
    }

    /// Whether a caller's credential is for an agent at all, whatever it is for there.
    pub fn is_for<F: Fetch>(rules: &Rules<F>, identity: &Identity) -> bool {
        scope::is_for_agent(rules, identity)
    }

    /// Whether a caller may use a skill; for cards that show each caller its skills.
    pub fn may_use<F: Fetch>(rules: &Rules<F>, identity: &Identity, skill: &str) -> bool {
        scope::may_use(rules, identity, skill)
    }

    /// Explains which rule would allow or refuse, without admitting the caller or counting anything.
    pub async fn explain<F: Fetch>(
        &self,
        rules: &Rules<F>,
        question: &AccessQuestion,
        now: Timestamp,
    ) -> Result<Explanation, String> {
        // A caller that does not exist is an error on an open server too: a misspelt name must not look allowed.
        let supposed = self.assumed_identity(&question.caller, &question.scopes).await?;
        // An open server trusts no name, so every caller is the same there.
        let identity = match rules.authenticator.mode() {
            AuthMode::Open => rules.authenticator.anonymous(),
            _ => supposed,
        };
        let mut explanation = Explanation::new(identity.caller().name());
        let wanted = RequestedAccess {
            action: question.action,
            push_inline: false,
            lists_tasks: false,
            skill: question.skill.as_deref().map(Into::into),
        };
        if let Err(refusal) = crate::explain::explain_credential(rules, &identity, now, &mut explanation) {
            explanation.refuse("credential", &refusal);
            return Ok(explanation);
        }
        rate::explain(rules, &identity, &mut explanation);
        if let Err(refusal) = decide(rules, &identity, &wanted, now, &mut explanation).await {
            explanation.refuse(crate::explain::rule_of(&refusal), &refusal);
        } else {
            explanation.passed("tools", || format!("its tools are {}", rules.tools.name()));
        }
        Ok(explanation)
    }

    /// A caller that we know by name, because it owns a task: with the key of that name as it is now. The contents of
    /// tokens are not stored, so such a caller has no scopes.
    pub async fn recall(&self, caller: &Caller) -> Result<RecalledCaller, String> {
        Ok(RecalledCaller(self.assumed_identity(caller.name(), &[]).await?))
    }

    /// Whether a caller may send an agent something, with this skill if one is named. The caller is not admitted by it,
    /// and nothing is counted.
    pub async fn would_be_served<F: Fetch>(
        rules: &Rules<F>,
        recalled: &RecalledCaller,
        skill: Option<&str>,
        now: Timestamp,
    ) -> bool {
        let identity = match rules.authenticator.mode() {
            AuthMode::Open => &rules.authenticator.anonymous(),
            _ => &recalled.0,
        };
        let wanted = RequestedAccess {
            action: Action::Send,
            push_inline: false,
            lists_tasks: false,
            skill: skill.map(Into::into),
        };
        crate::explain::explain_credential(rules, identity, now, &mut ()).is_ok()
            && decide(rules, identity, &wanted, now, &mut ()).await.is_ok()
    }

    async fn assumed_identity(&self, name: &str, scopes: &[String]) -> Result<Identity, String> {
        if name == Caller::anonymous().name() {
            return Ok(Identity::anonymous());
        }
        let Some(who) = Principal::parse(name) else {
            return Err(format!(
                "{name:?} names no caller; write anonymous, key:ID, xpr:ACCOUNT, jwt:ISSUER#SUBJECT …"
            ));
        };
        let proof = match who.scheme {
            Scheme::ApiKey => {
                let keys = self.store.list().await.map_err(|e| e.to_string())?;
                let key = keys.into_iter().find(|key| key.id.as_str() == who.name);
                CredentialProof::Key(Arc::new(
                    key.ok_or_else(|| format!("there is no key {}; sabir key list shows them", who.name))?,
                ))
            }
            Scheme::Jwt => {
                let (issuer, subject) = who.name.split_once('#').unwrap_or((&who.name, ""));
                CredentialProof::IssuedToken(Arc::new(crate::authn::oidc::VerifiedToken {
                    issuer: issuer.into(),
                    subject: subject.into(),
                    client: None,
                    scopes: scopes.to_vec(),
                    valid_until: None,
                }))
            }
            Scheme::Xpr => CredentialProof::Account { account: who.name.clone(), mark: None },
            Scheme::Native => CredentialProof::NativeToken { bound: false },
            Scheme::Mtls => CredentialProof::Certificate,
            Scheme::Basic => CredentialProof::Password,
            Scheme::Legacy => CredentialProof::Legacy,
            Scheme::Agnt => return Err(format!("callers of {} do not call agents", who.scheme.name())),
        };
        Ok(Identity::new(&who, proof))
    }

    fn record_call_refusal<F: Fetch>(
        &self,
        rules: &Rules<F>,
        identity: &Identity,
        call: &Call,
        now: Timestamp,
        refusal: &Refusal,
    ) {
        let scheme = scheme_name(identity.scheme());
        let entry = AuditRecord::refusal(now, identity.caller().clone(), scheme, call.operation(), refusal.reason);
        let record =
            AuditRecord { agent: Some(rules.agent.clone()), about: named_task(call), job: job_id(call), ..entry };
        self.record_refusal(record, refusal);
    }

    /// Records that a caller's task was to be handed over to another agent; the outcome is one of our own words.
    pub fn record_handoff(
        &self,
        now: Timestamp,
        caller: &Caller,
        agent: &AgentName,
        task: TaskId,
        outcome: &'static str,
    ) {
        let entry = AuditRecord::refusal(now, caller.clone(), "handoff", "Handoff", outcome);
        let entry = AuditRecord { agent: Some(agent.clone()), about: Some(AuditSubject::Task(task)), ..entry };
        if outcome == "committed" {
            // No caller waits for it: what counts is in the task's own log.
            drop(self.store.record(AuditRecord { outcome: AuditOutcome::Allowed, ..entry }));
        } else {
            self.store.record_refusal(entry);
        }
    }

    fn record_refusal(&self, record: AuditRecord, refusal: &Refusal) {
        self.metrics.record_refusal(refusal);
        self.store.record_refusal(record);
    }
}

/// The one decision about a call of a known caller.
async fn decide<F: Fetch>(
    rules: &Rules<F>,
    identity: &Identity,
    wanted: &RequestedAccess<'_>,
    now: Timestamp,
    notes: &mut impl DecisionTrace,
) -> Result<(), Refusal> {
    if identity.scheme().is_none() && rules.authenticator.anonymous_may_be_several() {
        let asks = rules.authenticator.mode() != AuthMode::Open;
        // All callers without a credential have one name. One of them finds a task whose id it was told; a list of all
        // tasks, or of what is there for a caller, takes a name of its own.
        if wanted.lists_tasks {
            return Err(Refusal::anonymous_list(asks));
        }
        if wanted.action == Action::Card && asks {
            let words = "The extended card is for callers who say who they are";
            return Err(Refusal::unauthenticated(None, "card_anonymous", words));
        }
    }
    scope::check(rules, identity, wanted, notes)?;
    tier::check(rules, identity, wanted, notes)?;
    match identity.proof() {
        CredentialProof::Account { .. } => Box::pin(trust::check(rules, identity, now, notes)).await,
        _ => Ok(()),
    }
}

/// The task that a call names, where it is one of ours.
fn named_task(call: &Call) -> Option<AuditSubject> {
    let named = match call {
        Call::Get(call) => &call.id,
        Call::Cancel(call) => &call.id,
        Call::Subscribe(call) => &call.id,
        Call::CreatePush { task, .. } => task,
        Call::GetPush(call) => &call.task_id,
        Call::ListPush(call) => &call.task_id,
        Call::DeletePush(call) => &call.task_id,
        Call::Send(_) | Call::Stream(_) | Call::List(_) | Call::ExtendedCard { .. } => return None,
    };
    match named {
        TaskRef::Id(id) => Some(AuditSubject::Task(*id)),
        TaskRef::Alias(_) => None,
    }
}

fn job_id(call: &Call) -> Option<u64> {
    match call {
        Call::Send(request) | Call::Stream(request) => Message::job(&request.message),
        _ => None,
    }
}

#[cfg(test)]
mod tests;
