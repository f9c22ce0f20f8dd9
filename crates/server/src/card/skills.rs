//! Which skills are shown to whom.
//!
//! Everybody sees the public card. Skills of one person or one organisation, and those that want a credential, are only
//! in the extended card, and there only for callers who may use them.

use crate::config::agent::SkillConfig;
use sabir_proto::AgentCard;
use sabir_proto::card::Skill;

/// How ids begin that agent-native servers give to tools of one person or one organisation.
const PERSONAL: [&str; 2] = ["mcp__user_", "mcp__org_"];

/// Whether everybody may know of a skill.
pub(super) fn is_public(skill: &SkillConfig) -> bool {
    skill.public && !needs_identity(skill)
}

/// Whether a skill is for callers who have said who they are.
pub(crate) fn needs_identity(skill: &SkillConfig) -> bool {
    skill.requires_auth || PERSONAL.iter().any(|prefix| skill.id.starts_with(prefix))
}

/// The card for one caller: the public one, with every skill that this caller may use.
pub(super) fn extended(public: &AgentCard, all: &[Skill], may_use: impl Fn(&str) -> bool) -> AgentCard {
    let skills = all.iter().filter(|skill| may_use(&skill.id)).cloned().collect();
    AgentCard { skills, signatures: Vec::new(), ..public.clone() }
}
