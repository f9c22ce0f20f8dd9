//! What a credential permits: which agents, which operations, which skills.
//!
//! Scopes are words. `send`, `read`, `cancel`, `push` and `card` name operations, `skill:ID` a skill, `agent:NAME` an
//! agent; `full` stands for everything. Words of one kind are alternatives, and different kinds must all hold: `read`
//! with `agent:echo` may look at tasks of `echo` and do nothing else. Without words of a kind there is no limit of that
//! kind. A credential that is limited to skills and a call that names none do not fit: silence must not widen rights.
//!
//! The words of the booking network stand beside them. `query` covers its intents that only read and `booking` those
//! that book; each includes the ones before it, and `full` includes payments. Elsewhere both only permit reading.
//! `from:ID` names an agent that envelopes under the key may come from.
//!
//! `admin` and `admin.read` are about the server itself: change it, or look at all of it. They cover no call to an agent,
//! and only a credential that names them has them: one without scopes may do everything that callers may do, and nothing
//! that operators do.

use super::{Action, DecisionTrace, RequestedAccess, Rules};
use crate::authn::Scheme;
use crate::fetch::Fetch;
use crate::identity::{CredentialProof, Identity};
use crate::refusal::Refusal;
use sabir_proto::card::SecurityRequirement;
use std::borrow::Cow;

/// A skill, and what it requires of callers beyond what the agent requires.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct SkillRule {
    /// The id of the skill.
    pub id: String,
    /// Alternatives, each a scheme with scopes; empty for no further requirement.
    pub requirements: Vec<SecurityRequirement>,
    /// Only for callers with a credential.
    pub needs_identity: bool,
    /// The rule of the booking network's intent that it serves.
    pub intent: Option<IntentRule>,
}

/// What an intent of the booking network takes of the key that uses it. Which intents there are is not for the guard to
/// know.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct IntentRule {
    /// The name of the intent, for messages.
    pub name: &'static str,
    /// Whether it changes anything: it is billed then, and runs once.
    pub has_effect: bool,
    /// Whether its envelope must be signed, whatever the key allows.
    pub must_be_signed: bool,
    /// The least of the scopes `query`, `booking` and `full` that covers it.
    pub scope: &'static str,
}

impl SkillRule {
    const fn asks_anything(&self) -> bool {
        !self.requirements.is_empty() || self.needs_identity
    }
}

/// The words of a credential; `None` for one that words do not limit.
type ScopeWords<'a> = Option<Vec<Cow<'a, str>>>;

fn scope_words<'a, F: Fetch>(rules: &Rules<F>, identity: &'a Identity) -> ScopeWords<'a> {
    match identity.proof() {
        CredentialProof::Key(key) => {
            let scopes = key.terms.scopes.iter().map(|scope| Cow::Borrowed(scope.as_str()));
            let agents = key.terms.agents.iter().map(|agent| Cow::Owned(format!("agent:{agent}")));
            Some(scopes.chain(agents).collect())
        }
        CredentialProof::IssuedToken(bearer) => {
            let prefix = rules.authenticator.scope_prefix();
            if prefix.is_empty() {
                return None;
            }
            let ours = bearer.scopes.iter().filter_map(|scope| scope.strip_prefix(prefix));
            let ours: Vec<Cow<'_, str>> = ours.map(Cow::Borrowed).collect();
            // With a prefix, a token without a scope for us permits nothing.
            Some(if ours.is_empty() { vec![Cow::Borrowed("nothing")] } else { ours })
        }
        CredentialProof::None
        | CredentialProof::NativeToken { .. }
        | CredentialProof::Account { .. }
        | CredentialProof::Certificate
        | CredentialProof::Password
        | CredentialProof::Legacy => None,
    }
}

/// What a word is about.
enum ScopeWord<'a> {
    Everything,
    Operation(&'a str),
    Skill(&'a str),
    Agent(&'a str),
    Sender(&'a str),
}

fn parse_word(word: &str) -> ScopeWord<'_> {
    match word.split_once(':') {
        Some(("skill", id)) => ScopeWord::Skill(id),
        Some(("agent", name)) => ScopeWord::Agent(name),
        Some(("from", id)) => ScopeWord::Sender(id),
        _ if word == "full" => ScopeWord::Everything,
        // An unknown word permits nothing that can be asked for.
        _ => ScopeWord::Operation(word),
    }
}

/// Whether a word for operations covers an action.
fn covers_action(word: &str, action: Action) -> bool {
    match word {
        "query" | "booking" => matches!(action, Action::Read),
        word => word == action.word(),
    }
}

/// Whether a word for operations covers an intent of the booking network.
fn covers_intent(word: &str, intent: IntentRule) -> bool {
    match (word, intent.scope) {
        ("query" | "booking", "query") => true,
        (word, scope) => word == scope,
    }
}

/// The agents that envelopes of a caller may come from; empty for any.
pub(crate) fn senders(identity: &Identity) -> Vec<&str> {
    let words = identity.key().map(|key| &*key.terms.scopes).unwrap_or_default();
    words.iter().filter_map(|word| if let ScopeWord::Sender(id) = parse_word(word) { Some(id) } else { None }).collect()
}

/// The words that stand alone; `skill:ID` and `agent:NAME` have a name behind them.
pub const WORDS: [&str; 10] = ["send", "read", "cancel", "push", "card", "full", "query", "booking", ADMIN, ADMIN_READ];
const ADMIN: &str = "admin";
const ADMIN_READ: &str = "admin.read";

/// What an operator wants of the server itself.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum AdminAction {
    /// Read anything: `admin.read` or `admin`.
    Look,
    /// Change something: `admin`.
    Change,
}

/// Whether the caller's credential names the scope for administering the server.
pub(crate) fn check_admin<F: Fetch>(rules: &Rules<F>, identity: &Identity, action: AdminAction) -> Result<(), Refusal> {
    let Some(scheme) = identity.scheme() else {
        return Err(Refusal::missing_credential("Operators say who they are: send a key with the scope admin".into()));
    };
    let words = scope_words(rules, identity).unwrap_or_default();
    if !includes_agent(rules, &words) {
        return Err(Refusal::forbidden(
            scheme,
            "scope_agent",
            "This credential is for certain agents, and not for the server",
        ));
    }
    let has = |wanted: &str| words.iter().any(|word| word == wanted);
    match action {
        AdminAction::Look if has(ADMIN_READ) || has(ADMIN) => Ok(()),
        AdminAction::Change if has(ADMIN) => Ok(()),
        AdminAction::Look => {
            Err(Refusal::forbidden(scheme, "scope_admin", "This credential lacks the scope admin.read"))
        }
        AdminAction::Change => Err(Refusal::forbidden(scheme, "scope_admin", "This credential lacks the scope admin")),
    }
}

/// Whether the caller's credential is for this agent.
pub(crate) fn is_for_agent<F: Fetch>(rules: &Rules<F>, identity: &Identity) -> bool {
    scope_words(rules, identity).is_none_or(|words| includes_agent(rules, &words))
}

fn includes_agent<F: Fetch>(rules: &Rules<F>, words: &[Cow<'_, str>]) -> bool {
    let agents = words_of_kind(words, |kind| if let ScopeWord::Agent(name) = kind { Some(name) } else { None });
    agents.is_empty() || agents.contains(&rules.agent.as_str())
}

/// Whether the caller may use a skill at all; for cards that show each caller what it may do.
pub(crate) fn may_use<F: Fetch>(rules: &Rules<F>, identity: &Identity, skill: &str) -> bool {
    let wanted = RequestedAccess {
        action: Action::Send,
        push_inline: false,
        lists_tasks: false,
        skill: Some(Cow::Borrowed(skill)),
    };
    check(rules, identity, &wanted, &mut ()).is_ok()
}

/// Whether the skill of a call has to be known to decide about it.
pub(crate) fn needs_skill<F: Fetch>(rules: &Rules<F>, identity: &Identity) -> bool {
    let limited = |word: &Cow<'_, str>| matches!(parse_word(word), ScopeWord::Skill(_));
    rules.skills.iter().any(|rule| rule.asks_anything() || rule.intent.is_some())
        || scope_words(rules, identity).is_some_and(|words| words.iter().any(limited))
}

pub(crate) fn check<F: Fetch>(
    rules: &Rules<F>,
    identity: &Identity,
    wanted: &RequestedAccess<'_>,
    notes: &mut impl DecisionTrace,
) -> Result<(), Refusal> {
    match scope_words(rules, identity) {
        None => notes.passed("scope", || "this credential is not limited by scopes".into()),
        Some(words) => check_words(rules, identity, &words, wanted, notes)?,
    }
    check_skill(rules, identity, wanted, notes)
}

fn check_words<F: Fetch>(
    rules: &Rules<F>,
    identity: &Identity,
    words: &[Cow<'_, str>],
    wanted: &RequestedAccess<'_>,
    notes: &mut impl DecisionTrace,
) -> Result<(), Refusal> {
    let scheme = identity.scheme().unwrap_or(Scheme::ApiKey);
    let no = |reason, words: String| Err(Refusal::forbidden(scheme, reason, words));
    if !includes_agent(rules, words) {
        return no("scope_agent", format!("This credential is not for the agent {}", rules.agent));
    }
    let everything = words.iter().any(|word| matches!(parse_word(word), ScopeWord::Everything));
    let operations = words_of_kind(words, |kind| if let ScopeWord::Operation(word) = kind { Some(word) } else { None });
    let allows =
        |action| everything || operations.is_empty() || operations.iter().any(|word| covers_action(word, action));
    let covered =
        |intent| everything || operations.is_empty() || operations.iter().any(|word| covers_intent(word, intent));
    if let Some(intent) = rules.intents(wanted).find(|intent| !covered(*intent)) {
        return no(
            "scope_intent",
            format!("This credential lacks the scope {}, which {} takes", intent.scope, intent.name),
        );
    }
    let sends = rules.intents(wanted).next().is_none().then_some(wanted.action);
    let actions = [sends, wanted.push_inline.then_some(Action::Push)];
    if let Some(missing) = actions.into_iter().flatten().find(|action| !allows(*action)) {
        return no("scope_operation", format!("This credential lacks the scope {}", missing.word()));
    }
    let skills = words_of_kind(words, |kind| if let ScopeWord::Skill(id) = kind { Some(id) } else { None });
    if wanted.action == Action::Send && !skills.is_empty() && !everything {
        match rules.skill(wanted) {
            Some(skill) if skills.contains(&&*skill.id) => {}
            Some(skill) => {
                return no("scope_skill", format!("This credential is not for the skill {}", skill.id));
            }
            None => {
                return no(
                    "scope_skill",
                    "This credential is for certain skills; name one in the message's metadata as skillId".into(),
                );
            }
        }
    }
    notes.passed("scope", || {
        if words.is_empty() {
            "the credential has no scopes, so it is good for everything".into()
        } else {
            format!("the scopes {} cover it", words.join(", "))
        }
    });
    Ok(())
}

/// The words of one kind.
fn words_of_kind<'a, T>(words: &'a [Cow<'_, str>], pick: impl Fn(ScopeWord<'a>) -> Option<T>) -> Vec<T> {
    words.iter().filter_map(|word| pick(parse_word(word))).collect()
}

/// What the skill itself requires: one of its alternatives must be the caller's scheme, with all its scopes.
fn check_skill<F: Fetch>(
    rules: &Rules<F>,
    identity: &Identity,
    wanted: &RequestedAccess<'_>,
    notes: &mut impl DecisionTrace,
) -> Result<(), Refusal> {
    if wanted.action != Action::Send || !rules.skills.iter().any(SkillRule::asks_anything) {
        return Ok(());
    }
    // A call that names no skill may end in any of them.
    let named = rules.skill(wanted);
    let asking = rules.skills.iter().filter(|rule| named.is_none_or(|named| named.id == rule.id));
    for rule in asking.filter(|rule| rule.asks_anything()) {
        let known = !rule.needs_identity || identity.scheme().is_some();
        let met = rule.requirements.is_empty()
            || rule.requirements.iter().any(|requirement| meets_requirement(rules, identity, requirement));
        if !known || !met {
            let words = format!("The skill {} asks for another credential or more scopes; see the card", rule.id);
            return Err(match identity.scheme() {
                Some(scheme) => Refusal::forbidden(scheme, "skill_requirement", words),
                None => Refusal::unauthenticated(None, "skill_requirement", words),
            });
        }
        notes.passed("skill", || format!("the skill {} asks for what was shown", rule.id));
    }
    Ok(())
}

fn meets_requirement<F: Fetch>(rules: &Rules<F>, identity: &Identity, requirement: &SecurityRequirement) -> bool {
    requirement.schemes.iter().all(|(name, scopes)| {
        let came_in = identity.scheme().is_some_and(|scheme| rules.authenticator.scheme_in_card(scheme) == name);
        came_in && scopes.list.iter().all(|scope| has_scope(identity, scope))
    })
}

fn has_scope(identity: &Identity, scope: &str) -> bool {
    let among = |scopes: &[String]| scopes.iter().any(|one| one == scope);
    match identity.proof() {
        CredentialProof::Key(key) => among(&key.terms.scopes) || key.terms.scopes.iter().any(|word| word == "full"),
        CredentialProof::IssuedToken(bearer) => among(&bearer.scopes),
        _ => false,
    }
}
