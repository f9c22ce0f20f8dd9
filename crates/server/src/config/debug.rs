//! `[debug]`: what is kept for whoever looks for a fault.

use super::{Config, store_path};
use sabir_gateway::wire::{Keep, WireLog};
use schemars::JsonSchema;
use serde::Deserialize;
use std::path::PathBuf;

/// `[debug]`
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default, Deserialize, JsonSchema)]
#[serde(default, deny_unknown_fields)]
pub struct DebugConfig {
    /// Which exchanges with callers and with agents elsewhere are kept: `off`, `errors` or `all`.
    #[schemars(with = "String")]
    pub wire: Keep,
}

impl Config {
    /// Where exchanges are kept; `None` where nothing survives.
    pub(crate) fn wire_directory(&self) -> Result<Option<PathBuf>, String> {
        Ok(store_path(self)?.map(|path| path.with_file_name("wire")))
    }

    /// What keeps them.
    pub(crate) fn wire_log(&self) -> Result<WireLog, String> {
        let Some(directory) = self.wire_directory()? else { return Ok(WireLog::off()) };
        WireLog::open(self.debug.wire, &directory).map_err(|e| format!("{}: {e}", directory.display()))
    }
}
