//! What a call must pass once its caller is known, in order: rate, scope, tier, trust.
//!
//! The order is not free. Rate comes right after the caller is known and before anything is decoded, so that malformed
//! requests are not free either. Scope comes before trust, because it is decided here while trust may have to ask the
//! chain. Whether a signed request is a copy is asked last of all: a request that was refused has had no effect, and its
//! sender may mend what was wrong and send it again.

pub mod lattice;
pub mod rate;
pub mod scope;
pub mod tier;
pub mod trust;

use crate::entrance::Entrance;
use crate::fetch::Fetch;
use rate::Limits;
use sabir_proto::agnt::Intent;
use sabir_proto::{AgentName, Call, ToolMode};
use scope::SkillRule;
use std::borrow::Cow;
use std::sync::Arc;

/// The rules of one agent.
pub struct Rules<F> {
    /// What it asks of its callers.
    pub entrance: Arc<Entrance<F>>,
    /// Its name, by which keys are tied to it and windows are told apart.
    pub agent: AgentName,
    /// How often its callers may come.
    pub limits: Limits,
    /// Its skills, and what they ask for beyond that.
    pub skills: Vec<SkillRule>,
    /// What its tools may do.
    pub tools: ToolMode,
}

/// What kind of thing a call does.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Action {
    /// Says something to the agent.
    Send,
    /// Looks at tasks.
    Read,
    /// Stops one.
    Cancel,
    /// Registers or removes webhooks.
    Push,
    /// Asks for the extended card.
    Card,
}

impl Action {
    /// Every action.
    pub const ALL: [Self; 5] = [Self::Send, Self::Read, Self::Cancel, Self::Push, Self::Card];

    /// The word in scopes.
    pub const fn word(self) -> &'static str {
        match self {
            Self::Send => "send",
            Self::Read => "read",
            Self::Cancel => "cancel",
            Self::Push => "push",
            Self::Card => "card",
        }
    }

    /// What a call does.
    pub const fn of(call: &Call) -> Self {
        match call {
            Call::Send(_) | Call::Stream(_) => Self::Send,
            Call::Get(_) | Call::List(_) | Call::Subscribe(_) | Call::GetPush(_) | Call::ListPush(_) => Self::Read,
            Call::Cancel(_) => Self::Cancel,
            Call::CreatePush { .. } | Call::DeletePush(_) => Self::Push,
            Call::ExtendedCard { .. } => Self::Card,
        }
    }

    /// Whether doing it twice is another thing than doing it once.
    pub const fn has_effect(self) -> bool {
        match self {
            Self::Send | Self::Cancel | Self::Push => true,
            Self::Read | Self::Card => false,
        }
    }
}

/// What is wanted of an agent.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Wanted<'a> {
    /// What is done.
    pub action: Action,
    /// A webhook is registered with it.
    pub push_inline: bool,
    /// It asks for all tasks there are.
    pub lists: bool,
    /// With which skill, where it says so.
    pub skill: Option<Cow<'a, str>>,
}

impl<'a> Wanted<'a> {
    /// What a call wants. The skill is looked for only where it matters: it is inside free metadata.
    pub fn of(call: &'a Call, skill_matters: bool) -> Self {
        let (push_inline, skill) = match call {
            Call::Send(request) | Call::Stream(request) => {
                let push = request.configuration.task_push_notification_config.is_some();
                (push, if skill_matters { request.message.skill().map(Cow::Owned) } else { None })
            }
            _ => (false, None),
        };
        Self { action: Action::of(call), push_inline, lists: matches!(call, Call::List(_)), skill }
    }
}

/// Who hears why a decision fell as it did.
pub(crate) trait Notes {
    /// A rule let the caller pass.
    fn passed(&mut self, rule: &'static str, why: impl FnOnce() -> String);
}

/// Nobody does, on the way of an ordinary call.
impl Notes for () {
    fn passed(&mut self, _: &'static str, _: impl FnOnce() -> String) {}
}

impl<F: Fetch> Rules<F> {
    /// The skill that a call is about: the one it names, else the only one there is. A name that is no skill is as good
    /// as none: it must not lead past what the real ones ask for.
    pub(crate) fn skill(&self, wanted: &Wanted<'_>) -> Option<&SkillRule> {
        match (&wanted.skill, &*self.skills) {
            (Some(named), skills) => skills.iter().find(|rule| rule.id == **named),
            (None, [only]) => Some(only),
            (None, _) => None,
        }
    }

    /// The intents of the booking network that a call may end in: the one whose skill it names, else every one there is.
    pub(crate) fn intents<'a>(&'a self, wanted: &Wanted<'_>) -> impl Iterator<Item = Intent> + 'a {
        let sends = wanted.action == Action::Send;
        let named = self.skill(wanted).map(|rule| &*rule.id);
        let meant = move |rule: &&SkillRule| sends && named.is_none_or(|named| named == rule.id);
        self.skills.iter().filter(meant).filter_map(|rule| rule.intent)
    }
}
