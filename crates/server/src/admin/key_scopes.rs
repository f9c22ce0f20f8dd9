//! The scopes that a key may have. A misspelt scope would make a key that allows nothing, and only its owner would
//! notice.

use sabir_guard::policy::scope::WORDS;
use sabir_proto::AgentName;

/// The reason why a scope is not legal, in words.
pub fn scope_fault(scope: &str) -> Option<String> {
    let known = || format!("the scopes are {}, skill:ID, agent:NAME and from:ID", WORDS.join(", "));
    match scope.split_once(':') {
        None if WORDS.contains(&scope) => None,
        Some(("skill", id)) if !id.is_empty() => None,
        Some(("from", id)) if !id.is_empty() && !id.contains(|c: char| c.is_whitespace() || c.is_control()) => None,
        Some(("agent", name)) => AgentName::parse(name).err().map(|e| format!("the agent {name:?} {e}")),
        _ => Some(format!("{scope:?} is no scope; {}", known())),
    }
}
