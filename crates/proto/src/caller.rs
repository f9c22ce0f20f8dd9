//! Who calls: the outcome of authentication, as data.

use std::sync::Arc;

/// A caller as the door identified it. Tasks belong to callers, so two callers never see each other's.
#[derive(Debug, Clone, PartialEq, Eq, Hash)]
pub struct Caller {
    name: Arc<str>,
}

impl Caller {
    /// The caller of a door that asks for nothing.
    pub fn anonymous() -> Self {
        static NAME: std::sync::LazyLock<Arc<str>> = std::sync::LazyLock::new(|| "anonymous".into());
        Self { name: NAME.clone() }
    }

    /// Whether this caller has shown no credential.
    pub fn is_anonymous(&self) -> bool {
        *self == Self::anonymous()
    }

    /// A caller known by name.
    pub fn named(name: &str) -> Self {
        Self { name: name.into() }
    }

    /// The name under which this caller's tasks are kept.
    pub fn name(&self) -> &str {
        &self.name
    }
}

/// What an agent's tools may do. An agent is told, and cannot widen it.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub enum ToolMode {
    /// Everything.
    #[default]
    Full,
    /// Look, and change nothing.
    ReadOnly,
}

impl ToolMode {
    /// The word in configurations and environments.
    pub const fn name(self) -> &'static str {
        match self {
            Self::Full => "full",
            Self::ReadOnly => "readonly",
        }
    }

    /// By its word.
    pub fn parse(word: &str) -> Option<Self> {
        [Self::Full, Self::ReadOnly].into_iter().find(|mode| mode.name() == word)
    }

    /// Whether a tool may be used: one that says that it only looks, or says nothing and has the name of one that does.
    /// A name is believed only where its first word is a verb of looking; `xpr_` before it is the name of a family.
    pub fn allows(self, tool: &str, read_only_hint: Option<bool>) -> bool {
        self == Self::Full || read_only_hint.unwrap_or_else(|| looks(tool))
    }
}

fn looks(tool: &str) -> bool {
    let name = tool.strip_prefix("xpr_").unwrap_or(tool);
    let end = name.find(|c: char| !c.is_ascii_lowercase()).unwrap_or(name.len());
    matches!(&name[..end], "get" | "list" | "search" | "health") || name == "indexer_health"
}

#[cfg(test)]
mod tests {
    use super::ToolMode::{Full, ReadOnly};

    #[test]
    fn only_what_looks_may_be_used_where_nothing_may_change() {
        for (tool, hint, allowed) in [
            ("get_task", None, true),
            ("listFiles", None, true),
            ("search", None, true),
            ("health-check", None, true),
            ("xpr_get_agent", None, true),
            ("xpr_indexer_health", None, true),
            ("anything", Some(true), true),
            ("get_and_delete", Some(false), false),
            ("getaway", None, false),
            ("create_list", None, false),
            ("List", None, false),
            ("send", None, false),
            ("", None, false),
        ] {
            assert_eq!(ReadOnly.allows(tool, hint), allowed, "{tool}");
            assert!(Full.allows(tool, hint));
        }
    }
}
