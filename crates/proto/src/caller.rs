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
