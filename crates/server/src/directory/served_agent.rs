//! An agent that this server serves: its implementation, its card and its rules.

use crate::auth_setup::Rules;
use crate::card::{Cards, RemoteCard};
use sabir_engine::HostedAgent;
use sabir_proto::AgentCard;
use sabir_proto::card::Skill;
use sabir_store::Scope;
use std::sync::Arc;

/// An agent that this server serves.
pub(crate) struct ServedAgent {
    pub(crate) hosted: Arc<HostedAgent>,
    pub(crate) card: AgentCard,
    /// All skills, also those that are not public.
    pub(crate) skills: Vec<Skill>,
    pub(crate) extended: Option<Arc<AgentCard>>,
    pub(crate) cards: Arc<Cards>,
    pub(crate) plain_scope: Arc<Scope>,
    pub(crate) rules: Rules,
    /// It has authentication rules of its own, so a caller of other agents may not be allowed to call it.
    pub(crate) has_own_auth: bool,
    /// The capabilities that it may pass on to other agents, if they are limited.
    pub(crate) grants: Option<Vec<String>>,
    /// Whether it is also served at `/apps/{name}`.
    pub(crate) is_app: bool,
    /// The card of the remote agent behind it, if there is one.
    pub(crate) remote_card: Option<Arc<RemoteCard>>,
}

impl std::fmt::Debug for ServedAgent {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("ServedAgent").field("name", &self.hosted.name).finish_non_exhaustive()
    }
}
