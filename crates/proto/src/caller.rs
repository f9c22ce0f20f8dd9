//! The caller of a request: the result of authentication, as data.

use std::sync::Arc;

/// An authenticated caller. Tasks belong to callers, so a caller never sees the tasks of another one.
#[derive(Debug, Clone, PartialEq, Eq, Hash)]
pub struct Caller {
    name: Arc<str>,
}

impl Caller {
    /// The caller of a server that requires no authentication.
    pub fn anonymous() -> Self {
        static NAME: std::sync::LazyLock<Arc<str>> = std::sync::LazyLock::new(|| "anonymous".into());
        Self { name: NAME.clone() }
    }

    /// Whether this caller has presented no credential.
    pub fn is_anonymous(&self) -> bool {
        *self == Self::anonymous()
    }

    /// A caller with the name that authentication gave it.
    pub fn named(name: &str) -> Self {
        Self { name: name.into() }
    }

    /// The name that owns this caller's tasks in the store.
    pub fn name(&self) -> &str {
        &self.name
    }
}

/// What the tools of an agent may do. The server tells the agent, which cannot widen it.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub enum ToolMode {
    /// Tools may read and change things.
    #[default]
    Full,
    /// Tools may read, and change nothing.
    ReadOnly,
}

impl ToolMode {
    /// The word in configurations and environment variables.
    pub const fn name(self) -> &'static str {
        match self {
            Self::Full => "full",
            Self::ReadOnly => "readonly",
        }
    }

    /// Finds the mode of a configuration word.
    pub fn parse(word: &str) -> Option<Self> {
        [Self::Full, Self::ReadOnly].into_iter().find(|mode| mode.name() == word)
    }

    /// Whether a tool may be used in this mode. In read-only mode a tool needs a read-only hint or, without a hint, a
    /// name whose first word is a verb of reading. `xpr_` before the name is the prefix of a tool family.
    pub fn allows(self, tool: &str, read_only_hint: Option<bool>) -> bool {
        self == Self::Full || read_only_hint.unwrap_or_else(|| has_read_only_name(tool))
    }
}

fn has_read_only_name(tool: &str) -> bool {
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
