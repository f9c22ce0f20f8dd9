//! Which callers see which skills.
//!
//! The public card is open to all clients. Skills of one person or one organisation, and those that need a credential,
//! are only in the extended card, and there only for callers that may use them.

use crate::config::agent::SkillConfig;
use sabir_proto::AgentCard;
use sabir_proto::card::Skill;

/// Prefixes of the ids that agent-native servers give to tools of one person or one organisation.
const PERSONAL: [&str; 2] = ["mcp__user_", "mcp__org_"];

/// Whether a skill is in the public card.
pub(super) fn is_public(skill: &SkillConfig) -> bool {
    skill.public && !needs_identity(skill)
}

/// Whether a skill is for authenticated callers only.
pub(crate) fn needs_identity(skill: &SkillConfig) -> bool {
    skill.requires_auth || PERSONAL.iter().any(|prefix| skill.id.starts_with(prefix))
}

/// The card for one caller: the public one, with every skill that this caller may use.
pub(super) fn extended(public: &AgentCard, all: &[Skill], may_use: impl Fn(&str) -> bool) -> AgentCard {
    let skills = all.iter().filter(|skill| may_use(&skill.id)).cloned().collect();
    AgentCard { skills, signatures: Vec::new(), ..public.clone() }
}
