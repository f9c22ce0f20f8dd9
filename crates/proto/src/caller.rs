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
}
