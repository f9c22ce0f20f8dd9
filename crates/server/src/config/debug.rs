//! `[debug]`: what the server records to find faults.

use super::{Config, store_path};
use sabir_gateway::wire::{Keep, WireLog};
use schemars::JsonSchema;
use serde::Deserialize;
use std::path::PathBuf;

/// `[debug]`: recording of exchanges.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default, Deserialize, JsonSchema)]
#[serde(default, deny_unknown_fields)]
pub struct DebugConfig {
    /// Which exchanges with callers and with remote agents are recorded: `off`, `errors` or `all`.
    #[schemars(with = "String")]
    pub wire: Keep,
}

impl Config {
    /// The directory of the recorded exchanges; `None` for a store in memory.
    pub(crate) fn wire_directory(&self) -> Result<Option<PathBuf>, String> {
        Ok(store_path(self)?.map(|path| path.with_file_name("wire")))
    }

    /// Opens the log of exchanges.
    pub(crate) fn wire_log(&self) -> Result<WireLog, String> {
        let Some(directory) = self.wire_directory()? else { return Ok(WireLog::off()) };
        WireLog::open(self.debug.wire, &directory).map_err(|e| format!("{}: {e}", directory.display()))
    }
}
