//! What a call must pass once its caller is known, in order: rate, scope, tier, trust.
//!
//! The order matters. Rate comes right after the caller is known and before anything is decoded, so that malformed
//! requests count too. Scope comes before trust, because it is decided here while trust may have to query the chain.
//! Whether a signed request is a copy is checked last of all: a request that was refused has had no effect, and its
//! sender may correct it and send it again.

pub mod lattice;
pub mod rate;
pub mod scope;
pub mod tier;
pub mod trust;

use crate::authenticator::Authenticator;
use crate::fetch::Fetch;
use rate::RateLimits;
use sabir_proto::{AgentName, Call, ToolMode};
use scope::{IntentRule, SkillRule};
use std::borrow::Cow;
use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};

/// Tells the rules of an agent from all other rules of this process, also from those that an agent of the same name had
/// before.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct RulesId(u64);

impl RulesId {
    /// An id that no other rules of this process have.
    pub fn next() -> Self {
        static LAST: AtomicU64 = AtomicU64::new(0);
        Self(LAST.fetch_add(1, Ordering::Relaxed))
    }
}

/// The rules of one agent.
pub struct Rules<F> {
    /// A caller that was admitted under these rules is recognised by it.
    pub id: RulesId,
    /// The authentication of its callers.
    pub authenticator: Arc<Authenticator<F>>,
    /// The name of the agent; keys are tied to it, and rates are counted by it.
    pub agent: AgentName,
    /// The rate limits of its callers.
    pub limits: RateLimits,
    /// Its skills, and what they require beyond that.
    pub skills: Vec<SkillRule>,
    /// What its tools may do.
    pub tools: ToolMode,
}

/// The kind of action of a call.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Action {
    /// Sends a message to the agent.
    Send,
    /// Reads tasks.
    Read,
    /// Cancels a task.
    Cancel,
    /// Registers or removes webhooks.
    Push,
    /// Asks for the extended card.
    Card,
}

impl Action {
    /// Every action, in the order of the variants.
    pub const ALL: [Self; 5] = [Self::Send, Self::Read, Self::Cancel, Self::Push, Self::Card];

    /// The word for it in scopes.
    pub const fn word(self) -> &'static str {
        match self {
            Self::Send => "send",
            Self::Read => "read",
            Self::Cancel => "cancel",
            Self::Push => "push",
            Self::Card => "card",
        }
    }

    /// The action of a call.
    pub const fn of(call: &Call) -> Self {
        match call {
            Call::Send(_) | Call::Stream(_) => Self::Send,
            Call::Get(_) | Call::List(_) | Call::Subscribe(_) | Call::GetPush(_) | Call::ListPush(_) => Self::Read,
            Call::Cancel(_) => Self::Cancel,
            Call::CreatePush { .. } | Call::DeletePush(_) => Self::Push,
            Call::ExtendedCard { .. } => Self::Card,
        }
    }

    /// Whether doing it twice differs from doing it once.
    pub const fn has_effect(self) -> bool {
        match self {
            Self::Send | Self::Cancel | Self::Push => true,
            Self::Read | Self::Card => false,
        }
    }
}

/// What a call wants of an agent.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct RequestedAccess<'a> {
    /// The action of the call.
    pub action: Action,
    /// A webhook is registered with it.
    pub push_inline: bool,
    /// It asks for the list of all tasks.
    pub lists_tasks: bool,
    /// The skill that it names, if any.
    pub skill: Option<Cow<'a, str>>,
}

impl<'a> RequestedAccess<'a> {
    /// What a call wants. The skill is looked for only where it matters: it is inside free metadata.
    pub fn of(call: &'a Call, skill_matters: bool) -> Self {
        let (push_inline, skill) = match call {
            Call::Send(request) | Call::Stream(request) => {
                let push = request.configuration.task_push_notification_config.is_some();
                (push, if skill_matters { request.message.skill().map(Cow::Owned) } else { None })
            }
            _ => (false, None),
        };
        Self { action: Action::of(call), push_inline, lists_tasks: matches!(call, Call::List(_)), skill }
    }
}

/// Receives the reasons of a decision.
pub(crate) trait DecisionTrace {
    /// A rule let the caller pass.
    fn passed(&mut self, rule: &'static str, why: impl FnOnce() -> String);
}

/// An ordinary call records no reasons.
impl DecisionTrace for () {
    fn passed(&mut self, _: &'static str, _: impl FnOnce() -> String) {}
}

impl<F: Fetch> Rules<F> {
    /// The skill that a call is about: the one it names, else the only one there is. A name that is no skill counts as
    /// none: it must not lead past what the real ones require.
    pub(crate) fn skill(&self, wanted: &RequestedAccess<'_>) -> Option<&SkillRule> {
        match (&wanted.skill, &*self.skills) {
            (Some(named), skills) => skills.iter().find(|rule| rule.id == **named),
            (None, [only]) => Some(only),
            (None, _) => None,
        }
    }

    /// The intents of the booking network that a call may end in: the one whose skill it names, else all of them.
    pub(crate) fn intents<'a>(&'a self, wanted: &RequestedAccess<'_>) -> impl Iterator<Item = IntentRule> + 'a {
        let sends = wanted.action == Action::Send;
        let named = self.skill(wanted).map(|rule| &*rule.id);
        let meant = move |rule: &&SkillRule| sends && named.is_none_or(|named| named == rule.id);
        self.skills.iter().filter(meant).filter_map(|rule| rule.intent)
    }
}
